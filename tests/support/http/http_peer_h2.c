#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/compiler.h"
#include "tests/support/http/http_peer_impl.h"

struct stream {
    struct wp_list node;
    struct peer_request request;
    char *answer;
    size_t answer_len;
    size_t answer_at;
};

static void
stream_free(struct stream *stream)
{
    wp_list_remove(&stream->node);
    free(stream->answer);
    free(stream);
}

static ssize_t
on_send(nghttp2_session *session, const uint8_t *bytes, size_t len, int flags,
        void *ctx)
{
    struct peer_conn *conn = ctx;

    (void)session;
    (void)flags;
    (void)bufferevent_write(conn->bev, bytes, len);
    return (ssize_t)len;
}

static int
on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct peer_conn *conn = ctx;
    struct stream *stream = calloc(1, sizeof *stream);

    WP_ASSERT(stream != NULL);
    stream->request.peer = conn->peer;
    stream->request.conn = conn;
    stream->request.stream = frame->hd.stream_id;
    memcpy(stream->request.client, conn->client, sizeof conn->client);
    wp_list_push_back(&conn->streams, &stream->node);
    (void)nghttp2_session_set_stream_user_data(session, frame->hd.stream_id,
                                               stream);
    return 0;
}

static int
on_header(nghttp2_session *session, const nghttp2_frame *frame,
          const uint8_t *name, size_t name_len, const uint8_t *value,
          size_t len, uint8_t flags, void *ctx)
{
    struct stream *stream =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)flags;
    (void)ctx;
    peer_note_header(&stream->request, (const char *)name, name_len,
                     (const char *)value, len);
    return 0;
}

static int
on_chunk(nghttp2_session *session, uint8_t flags, int32_t id,
         const uint8_t *bytes, size_t len, void *ctx)
{
    struct stream *stream = nghttp2_session_get_stream_user_data(session, id);

    (void)flags;
    (void)ctx;
    for (size_t i = 0; stream != NULL && i < len; i++) {
        if (stream->request.body_len < sizeof stream->request.body - 1) {
            stream->request.body[stream->request.body_len] = (char)bytes[i];
        }
        stream->request.body_len++;
    }
    return 0;
}

static int
on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct peer_conn *conn = ctx;
    struct stream *stream =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    if (stream != NULL && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
        (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA)) {
        conn->peer->config.on_request(conn->peer->config.ctx, &stream->request);
    }
    return 0;
}

static int
on_close(nghttp2_session *session, int32_t id, uint32_t error, void *ctx)
{
    struct stream *stream = nghttp2_session_get_stream_user_data(session, id);

    (void)error;
    (void)ctx;
    if (stream != NULL) {
        stream_free(stream);
    }
    return 0;
}

void
peer_h2_begin(struct peer_conn *conn)
{
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 100}};
    nghttp2_session_callbacks *callbacks;

    WP_ASSERT(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks,
                                                            on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks,
                                                              on_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    WP_ASSERT(nghttp2_session_server_new(&conn->h2, callbacks, conn) == 0);
    nghttp2_session_callbacks_del(callbacks);
    (void)nghttp2_submit_settings(conn->h2, NGHTTP2_FLAG_NONE, settings, 1);
    (void)nghttp2_session_send(conn->h2);
}

bool
peer_h2_read(struct peer_conn *conn)
{
    struct evbuffer *in = bufferevent_get_input(conn->bev);
    size_t len = evbuffer_get_length(in);
    ssize_t used;

    conn->reading = true;
    used = nghttp2_session_mem_recv(conn->h2, evbuffer_pullup(in, -1), len);
    conn->reading = false;
    if (used < 0 || conn->doomed) {
        return false;
    }
    (void)evbuffer_drain(in, (size_t)used);
    if (nghttp2_session_send(conn->h2) != 0) {
        return false;
    }
    conn->ended = nghttp2_session_want_read(conn->h2) == 0 &&
                  nghttp2_session_want_write(conn->h2) == 0;
    return true;
}

void
peer_h2_flush(struct peer_conn *conn)
{
    if (!conn->reading) {
        (void)nghttp2_session_send(conn->h2);
    }
}

void
peer_h2_end(struct peer_conn *conn)
{
    while (!wp_list_empty(&conn->streams)) {
        stream_free(WP_CONTAINER_OF(conn->streams.next, struct stream, node));
    }
    nghttp2_session_del(conn->h2);
}

static ssize_t
on_source(nghttp2_session *session, int32_t id, uint8_t *out, size_t cap,
          uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    struct stream *stream = source->ptr;
    size_t len = stream->answer_len - stream->answer_at;

    (void)session;
    (void)id;
    (void)ctx;
    len = len < cap ? len : cap;
    memcpy(out, stream->answer + stream->answer_at, len);
    stream->answer_at += len;
    if (stream->answer_at == stream->answer_len) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)len;
}

static nghttp2_nv
pair(const char *name, size_t name_len, const char *value, size_t len)
{
    nghttp2_nv nv = {.namelen = name_len, .valuelen = len};

    memcpy(&nv.name, &name, sizeof nv.name);
    memcpy(&nv.value, &value, sizeof nv.value);
    return nv;
}

void
peer_h2_reply(const struct peer_request *request, int code, const char *headers,
              const char *body)
{
    nghttp2_session *session = request->conn->h2;
    struct stream *stream =
        nghttp2_session_get_stream_user_data(session, request->stream);
    nghttp2_data_provider source = {.read_callback = on_source};
    nghttp2_nv pairs[3];
    char status[8];
    char length[24];
    size_t count = 0;

    if (stream == NULL) {
        return;
    }
    stream->answer_len = strlen(body);
    stream->answer = strdup(body);
    source.source.ptr = stream;
    (void)snprintf(status, sizeof status, "%d", code);
    (void)snprintf(length, sizeof length, "%zu", stream->answer_len);
    pairs[count++] = pair(":status", 7, status, strlen(status));
    pairs[count++] = pair("content-length", 14, length, strlen(length));
    if (headers != NULL) {
        const char *colon = strchr(headers, ':');

        pairs[count++] = pair(headers, (size_t)(colon - headers), colon + 2,
                              strcspn(colon + 2, "\r\n"));
    }
    (void)nghttp2_submit_response(session, request->stream, pairs, count,
                                  &source);
    peer_h2_flush(request->conn);
}

void
peer_reset(const struct peer_request *request, uint32_t error)
{
    (void)nghttp2_submit_rst_stream(request->conn->h2, NGHTTP2_FLAG_NONE,
                                    request->stream, error);
    peer_h2_flush(request->conn);
}

void
peer_goaway(const struct peer_request *request, int32_t last)
{
    (void)nghttp2_submit_goaway(request->conn->h2, NGHTTP2_FLAG_NONE, last,
                                NGHTTP2_NO_ERROR, NULL, 0);
    peer_h2_flush(request->conn);
}
