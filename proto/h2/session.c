/* What frames do, and what they may cost: nghttp2's callbacks. */
#include "proto/h2/internal.h"

#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/extreme.h"

/* Frames that bring no work: so many a second, and as many at once. An honest
 * client that gives up a thousand calls a second stays far below. */
#define CHARGE_NS (WP_NS_PER_S / 4000)
#define ALLOWANCE_NS WP_NS_PER_S

enum {
    CONTINUATIONS_MAX = 4,
    SETTINGS_MAX = 16, /* Entries of one frame. */
    ACKS_MAX = 2000,   /* Of one read; more cannot wait. */
    HEADER_OVERHEAD = 32,
    /* Times the limit on metadata: what is still decoded, to answer kindly,
     * before the connection is ended. */
    DECODED_FACTOR = 4,
    BLOCK_BYTES = 16 << 10, /* As sent, that any header block may have. */
    CONN_WINDOW = 1 << 20,
    SESSION_BASE = 256 << 10, /* What a session may hold beside streams. */
    PER_STREAM = 2 << 10,
    FRAME_HEAD = 9,
    GOAWAY_SIZE = FRAME_HEAD + 8,
    UNKNOWN_BYTES = 64, /* Of frames of unknown types: what one charge buys. */
};

static struct wp_h2_conn *
conn_of(void *user)
{
    return user;
}

static int
doom(struct wp_h2_conn *conn, uint32_t code)
{
    if (!conn->doomed) {
        conn->doomed = true;
        conn->doom = code;
    }
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static void
look_at_allowance(struct wp_h2_conn *conn, int64_t now_ns)
{
    conn->tokens_x += now_ns - conn->tokens_ns;
    conn->tokens_ns = now_ns;
    if (conn->tokens_x > ALLOWANCE_NS) {
        conn->tokens_x = ALLOWANCE_NS;
    }
}

void
wp_h2_session_charge(struct wp_h2_conn *conn)
{
    conn->tokens_x -= CHARGE_NS;
}

int64_t
wp_h2_session_debt_ns(struct wp_h2_conn *conn, int64_t now_ns)
{
    look_at_allowance(conn, now_ns);
    return wp_max_i64(-conn->tokens_x, 0);
}

/* Before a frame's payload is read: what it costs. */
static int
on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *user)
{
    struct wp_h2_conn *conn = conn_of(user);
    size_t block_max = (size_t)conn->server->config.metadata_bytes_max * 2;

    (void)session;
    conn->unknown -= (int64_t)hd->length + FRAME_HEAD;
    block_max = block_max > BLOCK_BYTES ? block_max : BLOCK_BYTES;
    switch (hd->type) {
    case NGHTTP2_HEADERS:
        conn->block_sent = hd->length;
        break;
    case NGHTTP2_CONTINUATION:
        conn->block_sent += hd->length;
        wp_h2_session_charge(conn);
        break;
    case NGHTTP2_DATA:
        if (hd->length == 0 && (hd->flags & NGHTTP2_FLAG_END_STREAM) == 0) {
            wp_h2_session_charge(conn);
        }
        return 0;
    default:
        wp_h2_session_charge(conn);
        return 0;
    }
    return conn->block_sent > block_max ? doom(conn, NGHTTP2_ENHANCE_YOUR_CALM)
                                        : 0;
}

static int
on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame,
                 void *user)
{
    struct wp_h2_conn *conn = conn_of(user);

    (void)session;
    conn->block_decoded = 0;
    conn->block_is_request = frame->headers.cat == NGHTTP2_HCAT_REQUEST;
    if (conn->block_is_request) {
        memset(conn->request, 0, sizeof(conn->request));
    } else {
        wp_h2_session_charge(conn); /* Trailers of a request. */
    }
    return 0;
}

static int /* NOLINTNEXTLINE(readability-function-size): nghttp2's. */
on_header(nghttp2_session *session, const nghttp2_frame *frame,
          const uint8_t *name, size_t name_len, const uint8_t *value,
          size_t value_len, uint8_t flags, void *user)
{
    struct wp_h2_conn *conn = conn_of(user);
    const struct wp_h2_handler *handler = &conn->server->handler;
    size_t max = conn->server->config.metadata_bytes_max;

    (void)session;
    (void)frame;
    (void)flags;
    conn->block_decoded += name_len + value_len + HEADER_OVERHEAD;
    if (WP_UNLIKELY(conn->block_decoded > max)) {
        return conn->block_decoded > max * DECODED_FACTOR
                   ? doom(conn, NGHTTP2_ENHANCE_YOUR_CALM)
                   : 0;
    }
    if (WP_LIKELY(conn->block_is_request)) {
        handler->header(handler->ctx, conn->request,
                        (struct wp_str){(const char *)name, name_len},
                        (struct wp_str){(const char *)value, value_len});
    }
    return 0;
}

static struct wp_h2_stream *
stream_of(const struct wp_h2_conn *conn, int32_t id)
{
    return nghttp2_session_get_stream_user_data(conn->session, id);
}

static void
on_end_of_request(struct wp_h2_conn *conn, int32_t id)
{
    struct wp_h2_stream *stream = stream_of(conn, id);

    if (stream != NULL) {
        conn->server->handler.ended(stream);
    }
}

static int
on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct wp_h2_conn *conn = conn_of(user);
    const struct wp_h2_handler *handler = &conn->server->handler;

    (void)session;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
            handler->request(
                handler->ctx, conn, frame->hd.stream_id, conn->request,
                conn->block_decoded > conn->server->config.metadata_bytes_max);
        }
        break;
    case NGHTTP2_DATA:
        break;
    case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
            conn->pinged = false;
        }
        return 0;
    default:
        return 0;
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        on_end_of_request(conn, frame->hd.stream_id);
    }
    return 0;
}

static int
on_data(nghttp2_session *session, uint8_t flags, int32_t id,
        const uint8_t *data, size_t len, void *user)
{
    struct wp_h2_conn *conn = conn_of(user);
    struct wp_h2_stream *stream = stream_of(conn, id);

    (void)session;
    (void)flags;
    if (WP_LIKELY(stream != NULL)) {
        conn->server->handler.data(stream, data, len);
    }
    return 0;
}

/* The end of an answer gives back what its call may have taken; and a client
 * that is still sending is told that nobody listens. */
static int
on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct wp_h2_conn *conn = conn_of(user);
    struct wp_h2_stream *stream;

    /* The library's own verdict; ours are never framed by the session. */
    if (frame->hd.type == NGHTTP2_GOAWAY &&
        frame->goaway.error_code != NGHTTP2_NO_ERROR) {
        (void)doom(conn, frame->goaway.error_code);
        return 0;
    }
    if (frame->hd.type != NGHTTP2_HEADERS ||
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) {
        return 0;
    }
    stream = stream_of(conn, frame->hd.stream_id);
    if (stream != NULL) {
        stream->answered = true;
        conn->tokens_x += CHARGE_NS;
    }
    if (nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) ==
        0) {
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE,
                                        frame->hd.stream_id, NGHTTP2_NO_ERROR);
    }
    return 0;
}

static void
close_stream(struct wp_h2_stream *stream)
{
    struct wp_h2_conn *conn = stream->conn;

    wp_list_remove(&stream->node);
    stream->conn = NULL;
    conn->server->handler.closed(stream);
}

static int
on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct wp_h2_stream *stream =
        nghttp2_session_get_stream_user_data(session, id);

    (void)code;
    (void)user;
    if (stream != NULL) {
        (void)nghttp2_session_set_stream_user_data(session, id, NULL);
        close_stream(stream);
    }
    return 0;
}

enum wp_status
wp_h2_session_set_up(struct wp_h2_server *server, struct wp_err *err)
{
    nghttp2_session_callbacks *c;

    if (nghttp2_session_callbacks_new(&server->callbacks) != 0 ||
        nghttp2_option_new(&server->options) != 0) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for sessions");
    }
    c = server->callbacks;
    nghttp2_session_callbacks_set_on_begin_frame_callback(c, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(c,
                                                            on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(c, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(c, on_frame_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
    nghttp2_option_set_max_continuations(server->options, CONTINUATIONS_MAX);
    nghttp2_option_set_max_settings(server->options, SETTINGS_MAX);
    nghttp2_option_set_max_outbound_ack(server->options, ACKS_MAX);
    nghttp2_option_set_no_closed_streams(server->options, 1);
    /* The library would end an honest client's connection; the allowance of
     * this file only slows it. */
    nghttp2_option_set_stream_reset_rate_limit(server->options, UINT64_MAX / 4,
                                               UINT64_MAX / 4);
    return WP_OK;
}

void
wp_h2_session_tear_down(struct wp_h2_server *server)
{
    nghttp2_session_callbacks_del(server->callbacks);
    nghttp2_option_del(server->options);
}

static bool
begin(struct wp_h2_conn *conn)
{
    const struct wp_h2_config *config = &conn->server->config;
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
         config->streams_per_connection_max},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, config->metadata_bytes_max},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    nghttp2_mem mem;

    conn->unknown = -NGHTTP2_CLIENT_MAGIC_LEN;
    conn->memory = (struct wp_h2_holding){
        .memory = &conn->worker->memory,
        .max = SESSION_BASE +
               (size_t)config->streams_per_connection_max * PER_STREAM,
    };
    wp_h2_memory_for(&conn->memory, &mem);
    if (nghttp2_session_server_new3(&conn->session, conn->server->callbacks,
                                    conn, conn->server->options, &mem) != 0) {
        conn->session = NULL;
        return false;
    }
    return nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings,
                                   WP_ARRAY_LEN(settings)) == 0 &&
           nghttp2_session_set_local_window_size(
               conn->session, NGHTTP2_FLAG_NONE, 0, CONN_WINDOW) == 0;
}

static uint32_t
code_of(ssize_t error)
{
    switch (error) {
    case NGHTTP2_ERR_FLOODED:
    case NGHTTP2_ERR_TOO_MANY_CONTINUATIONS:
    case NGHTTP2_ERR_TOO_MANY_SETTINGS:
    case NGHTTP2_ERR_NOMEM:
        return NGHTTP2_ENHANCE_YOUR_CALM;
    case NGHTTP2_ERR_BAD_CLIENT_MAGIC:
        return NGHTTP2_PROTOCOL_ERROR;
    default:
        return NGHTTP2_INTERNAL_ERROR;
    }
}

bool
wp_h2_session_receive(struct wp_h2_conn *conn, const uint8_t *bytes, size_t len)
{
    ssize_t n;

    if (conn->session == NULL && !begin(conn)) {
        (void)doom(conn, NGHTTP2_ENHANCE_YOUR_CALM);
        return false;
    }
    if (conn->doomed) {
        return false;
    }
    n = nghttp2_session_mem_recv(conn->session, bytes, len);
    conn->unknown += (int64_t)len;
    for (; conn->unknown > UNKNOWN_BYTES; conn->unknown -= UNKNOWN_BYTES) {
        wp_h2_session_charge(conn);
    }
    if (n < 0) {
        (void)doom(conn, code_of(n));
    }
    wp_h2_conn_touch(conn);
    return !conn->doomed;
}

/* By hand: the session is not to be used any more. */
static size_t
put_goaway(const struct wp_h2_conn *conn, uint8_t *buf)
{
    uint32_t last =
        conn->session != NULL
            ? (uint32_t)nghttp2_session_get_last_proc_stream_id(conn->session)
            : 0;
    const uint8_t frame[GOAWAY_SIZE] = {
        0,
        0,
        8,
        NGHTTP2_GOAWAY,
        0,
        0,
        0,
        0,
        0,
        (uint8_t)(last >> 24),
        (uint8_t)(last >> 16),
        (uint8_t)(last >> 8),
        (uint8_t)last,
        (uint8_t)(conn->doom >> 24),
        (uint8_t)(conn->doom >> 16),
        (uint8_t)(conn->doom >> 8),
        (uint8_t)conn->doom,
    };

    memcpy(buf, frame, sizeof(frame));
    return sizeof(frame);
}

size_t
wp_h2_session_produce(struct wp_h2_conn *conn, uint8_t *buf, size_t cap)
{
    size_t at = 0;

    if (conn->doomed || conn->session == NULL) {
        return conn->doomed ? put_goaway(conn, buf) : 0;
    }
    while (at < cap && nghttp2_session_want_write(conn->session) != 0) {
        const uint8_t *bytes;
        ssize_t n = nghttp2_session_mem_send(conn->session, &bytes);

        if (n == 0) {
            break;
        }
        if (n < 0) {
            (void)doom(conn, code_of(n));
            return at + put_goaway(conn, buf + at);
        }
        WP_ASSERT((size_t)n <= WP_H2_READ_SIZE + FRAME_HEAD);
        memcpy(buf + at, bytes, (size_t)n);
        at += (size_t)n;
    }
    return at;
}

void
wp_h2_session_goodbye(struct wp_h2_conn *conn)
{
    if (conn->session != NULL && !conn->doomed) {
        (void)nghttp2_submit_goaway(
            conn->session, NGHTTP2_FLAG_NONE,
            nghttp2_session_get_last_proc_stream_id(conn->session),
            NGHTTP2_NO_ERROR, NULL, 0);
        wp_h2_conn_touch(conn);
    }
}

void
wp_h2_session_ping(struct wp_h2_conn *conn)
{
    if (conn->session != NULL && !conn->doomed) {
        (void)nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, NULL);
        wp_h2_conn_touch(conn);
    }
}

void
wp_h2_session_forget_stream(struct wp_h2_conn *conn,
                            struct wp_h2_stream *stream)
{
    if (conn->session != NULL) {
        (void)nghttp2_session_set_stream_user_data(conn->session, stream->id,
                                                   NULL);
    }
    close_stream(stream);
}

void
wp_h2_session_end(struct wp_h2_conn *conn)
{
    while (!wp_list_empty(&conn->streams)) {
        struct wp_h2_stream *stream =
            WP_CONTAINER_OF(conn->streams.next, struct wp_h2_stream, node);

        wp_h2_session_forget_stream(conn, stream);
    }
    nghttp2_session_del(conn->session);
    conn->session = NULL;
}
