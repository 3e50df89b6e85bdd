/* Streams: their objects, and what is sent on them. */
#include "proto/h2/internal.h"

#include <errno.h>
#include <string.h>

#include <sys/mman.h>

#include "pool/base/assert.h"

/* --- objects --- */

enum wp_status
wp_h2_stream_pool_create(struct wp_h2_worker *worker, size_t n,
                         struct wp_err *err)
{
    void *memory;

    worker->stream_size = (worker->server->handler.stream_size + 63) / 64 * 64;
    memory = mmap(NULL, n * worker->stream_size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno,
                          "memory for %zu calls (setting calls_max)", n);
    }
    worker->streams = memory;
    worker->n_streams = n;
    return WP_OK;
}

/* An object, which is still the pool's. Memory is touched once it is needed:
 * there is room for more than are ever used together. NULL: all are in use. */
static struct wp_h2_stream *
first_free(struct wp_h2_worker *worker)
{
    const struct wp_h2_handler *handler = &worker->server->handler;
    struct wp_h2_stream *stream = worker->free_streams;

    if (WP_UNLIKELY(stream == NULL && worker->n_begun < worker->n_streams)) {
        stream =
            (void *)(worker->streams + worker->n_begun * worker->stream_size);
        worker->n_begun++;
        stream->worker = worker;
        wp_list_init(&stream->node);
        handler->init(handler->ctx, stream);
        worker->free_streams = stream;
    }
    return stream;
}

void
wp_h2_stream_pool_destroy(struct wp_h2_worker *worker)
{
    if (worker->streams != NULL) {
        (void)munmap(worker->streams, worker->n_streams * worker->stream_size);
    }
}

struct wp_h2_stream *
wp_h2_stream_open(struct wp_h2_conn *conn, int32_t id)
{
    struct wp_h2_worker *worker = conn->worker;
    struct wp_h2_stream *stream = first_free(worker);

    if (stream == NULL ||
        nghttp2_session_set_stream_user_data(conn->session, id, stream) != 0) {
        return NULL;
    }
    worker->free_streams = stream->next_free;
    stream->conn = conn;
    stream->id = id;
    stream->answered = false;
    stream->piece_len = 0;
    stream->piece_at = 0;
    stream->counted = false;
    stream->headed = false;
    stream->ending = false;
    stream->deferred = false;
    wp_list_push_back(&conn->streams, &stream->node);
    conn->served = true;
    return stream;
}

void
wp_h2_stream_free(struct wp_h2_stream *stream)
{
    struct wp_h2_worker *worker = stream->worker;

    WP_ASSERT(stream->conn == NULL);
    if (stream->sent_due) {
        struct wp_h2_stream **at = &worker->sent;

        while (*at != stream) {
            at = &(*at)->next_sent;
        }
        *at = stream->next_sent;
        stream->sent_due = false;
    }
    if (stream->counted) {
        wp_peer_limits_end_call(worker->server->limits, stream->ticket);
        stream->counted = false;
    }
    stream->next_free = worker->free_streams;
    worker->free_streams = stream;
}

enum wp_peer_verdict
wp_h2_stream_count(struct wp_h2_stream *stream)
{
    enum wp_peer_verdict verdict;

    WP_ASSERT(stream->conn != NULL && !stream->counted);
    stream->ticket = stream->conn->ticket;
    verdict = wp_peer_limits_begin_call(stream->worker->server->limits,
                                        stream->ticket);
    stream->counted = verdict == WP_PEER_ADMITTED;
    return verdict;
}

void
wp_h2_stream_turn_away(struct wp_h2_stream *stream)
{
    struct wp_h2_conn *conn = stream->conn;

    WP_ASSERT(conn != NULL);
    wp_h2_session_charge(conn);
    if (conn->session != NULL && !conn->doomed) {
        (void)nghttp2_submit_rst_stream(conn->session, NGHTTP2_FLAG_NONE,
                                        stream->id, NGHTTP2_REFUSED_STREAM);
    }
    wp_h2_session_forget_stream(conn, stream);
    wp_h2_conn_touch(conn);
}

/* --- sending --- */

static size_t
put_fields(nghttp2_nv *nv, const struct wp_h2_field *fields, size_t n,
           uint8_t flags)
{
    for (size_t i = 0; i < n; i++) {
        nv[i] = (nghttp2_nv){
            .name = (uint8_t *)(uintptr_t)fields[i].name.ptr,
            .value = (uint8_t *)(uintptr_t)fields[i].value.ptr,
            .namelen = fields[i].name.len,
            .valuelen = fields[i].value.len,
            .flags = flags,
        };
    }
    return n;
}

static size_t
put_head(const struct wp_h2_conn *conn, nghttp2_nv *nv)
{
    const struct wp_h2_handler *handler = &conn->server->handler;

    return put_fields(nv, handler->head, handler->n_head,
                      NGHTTP2_NV_FLAG_NO_COPY_NAME |
                          NGHTTP2_NV_FLAG_NO_COPY_VALUE);
}

static void
tell_later(struct wp_h2_stream *stream)
{
    if (!stream->sent_due) {
        stream->sent_due = true;
        stream->next_sent = stream->worker->sent;
        stream->worker->sent = stream;
    }
}

static void
submit_trailers(struct wp_h2_stream *stream)
{
    struct wp_h2_field fields[WP_H2_FIELDS_MAX];
    nghttp2_nv nv[WP_H2_FIELDS_MAX];
    size_t n = stream->conn->server->handler.trailers(stream, fields);

    (void)nghttp2_submit_trailer(
        stream->conn->session, stream->id, nv,
        put_fields(nv, fields, n, NGHTTP2_NV_FLAG_NO_COPY_NAME));
}

static ssize_t /* NOLINTNEXTLINE(readability-function-size): nghttp2's. */
read_piece(nghttp2_session *session, int32_t id, uint8_t *buf, size_t len,
           uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct wp_h2_stream *stream =
        nghttp2_session_get_stream_user_data(session, id);
    size_t left;
    size_t n;

    (void)source;
    (void)user;
    if (stream == NULL) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    left = stream->piece_len - stream->piece_at;
    n = left < len ? left : len;
    if (n == 0 && !stream->ending) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0) {
        memcpy(buf, stream->piece + stream->piece_at, n);
        stream->piece_at += n;
    }
    if (n == left) {
        stream->piece = NULL;
        stream->piece_len = 0;
        stream->piece_at = 0;
        if (stream->ending) {
            *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
            submit_trailers(stream);
        } else {
            tell_later(stream);
        }
    }
    return (ssize_t)n;
}

bool
wp_h2_stream_tell_sent(struct wp_h2_worker *worker)
{
    bool any = worker->sent != NULL;

    while (worker->sent != NULL) {
        struct wp_h2_stream *stream = worker->sent;

        worker->sent = stream->next_sent;
        stream->sent_due = false;
        if (stream->conn != NULL) {
            worker->server->handler.sent(stream);
        }
    }
    return any;
}

/* The head with data to follow; or the next piece of a stream that waits. */
static void
go_on(struct wp_h2_stream *stream)
{
    struct wp_h2_conn *conn = stream->conn;

    if (!stream->headed) {
        nghttp2_nv nv[WP_H2_FIELDS_MAX];
        nghttp2_data_provider data = {.read_callback = read_piece};

        stream->headed = true;
        (void)nghttp2_submit_response(conn->session, stream->id, nv,
                                      put_head(conn, nv), &data);
    } else if (stream->deferred) {
        stream->deferred = false;
        (void)nghttp2_session_resume_data(conn->session, stream->id);
    }
    wp_h2_conn_touch(conn);
}

void
wp_h2_stream_send(struct wp_h2_stream *stream, const uint8_t *bytes, size_t len)
{
    WP_ASSERT(stream->conn != NULL && stream->piece_len == 0 && len > 0);
    stream->piece = bytes;
    stream->piece_len = len;
    go_on(stream);
}

void
wp_h2_stream_end(struct wp_h2_stream *stream)
{
    struct wp_h2_conn *conn = stream->conn;
    nghttp2_nv nv[2 * WP_H2_FIELDS_MAX];
    struct wp_h2_field fields[WP_H2_FIELDS_MAX];
    size_t n;

    WP_ASSERT(conn != NULL);
    stream->ending = true;
    if (stream->headed) {
        go_on(stream);
        return;
    }
    stream->headed = true;
    n = put_head(conn, nv);
    n += put_fields(nv + n, fields,
                    conn->server->handler.trailers(stream, fields),
                    NGHTTP2_NV_FLAG_NO_COPY_NAME);
    (void)nghttp2_submit_response(conn->session, stream->id, nv, n, NULL);
    wp_h2_conn_touch(conn);
}

void
wp_h2_stream_reset(struct wp_h2_stream *stream)
{
    (void)nghttp2_submit_rst_stream(stream->conn->session, NGHTTP2_FLAG_NONE,
                                    stream->id, NGHTTP2_CANCEL);
    wp_h2_conn_touch(stream->conn);
}

void
wp_h2_conn_refuse(struct wp_h2_conn *conn, int32_t id,
                  const struct wp_h2_field *fields, size_t n_fields)
{
    nghttp2_nv nv[WP_H2_FIELDS_MAX];

    wp_h2_session_charge(conn);
    (void)nghttp2_submit_response(
        conn->session, id, nv,
        put_fields(nv, fields, n_fields, NGHTTP2_NV_FLAG_NO_COPY_NAME), NULL);
    wp_h2_conn_touch(conn);
}
