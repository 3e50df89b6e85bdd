#include <stdio.h>
#include <string.h>

#include "proto/client/h2_parts.h"
#include "pool/base/str.h"

enum {
    WINDOW = 64 * 1024 * 1024, /* Never in the way of small answers. */
    MEMORY_MAX = 1 << 30,      /* Of a session; a stream takes 2 KiB. */
};

static int
hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A grpc-message, whose odd bytes are %XX. */
static void
take_details(struct wp_h2_call *call, const uint8_t *value, size_t len)
{
    size_t n = 0;

    if (call->details == NULL) {
        return;
    }
    for (size_t i = 0; i < len && n + 1 < call->details_cap; i++) {
        bool coded = value[i] == '%' && i + 2 < len &&
                     hex_digit(value[i + 1]) >= 0 &&
                     hex_digit(value[i + 2]) >= 0;

        call->details[n++] = (char)(coded ? hex_digit(value[i + 1]) * 16 +
                                                hex_digit(value[i + 2])
                                          : value[i]);
        i += coded ? 2 : 0;
    }
    call->details[n] = '\0';
}

/* Who stands before a gRPC server answers in its own way. */
static void
take_http_status(struct wp_h2_call *call, const uint8_t *value, size_t len)
{
    if (call->details != NULL && !(len == 3 && memcmp(value, "200", 3) == 0)) {
        (void)snprintf(call->details, call->details_cap, "HTTP status %.*s",
                       len < 8 ? (int)len : 8, (const char *)value);
    }
}

static int /* NOLINTNEXTLINE(readability-function-size): nghttp2's. */
on_header(nghttp2_session *session, const nghttp2_frame *frame,
          const uint8_t *name, size_t name_len, const uint8_t *value,
          size_t value_len, uint8_t flags, void *user)
{
    struct wp_h2_call *call;
    uint64_t status;

    (void)flags;
    (void)user;
    call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (call != NULL && name_len == 7 && memcmp(name, ":status", 7) == 0) {
        take_http_status(call, value, value_len);
    }
    if (call != NULL && name_len == 12 &&
        memcmp(name, "grpc-message", 12) == 0) {
        take_details(call, value, value_len);
    }
    if (call != NULL && name_len == 11 &&
        memcmp(name, "grpc-status", 11) == 0 &&
        wp_str_to_u64((struct wp_str){(const char *)value, value_len},
                      &status) &&
        status <= 16) {
        call->status = (int)status;
    }
    return 0;
}

static int
on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id,
        const uint8_t *data, size_t len, void *user)
{
    struct wp_h2_conn *conn = user;
    struct wp_h2_call *call =
        nghttp2_session_get_stream_user_data(session, stream_id);

    (void)flags;
    if (call == NULL) {
        return 0;
    }
    if (call->received != NULL) {
        conn->h2->broken = !call->received(call, data, len);
        return conn->h2->broken ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
    }
    if (len > call->reply_cap - call->n_received) {
        conn->h2->broken = true;
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    memcpy(call->reply + call->n_received, data, len);
    call->n_received += len;
    return 0;
}

/* A server that has answered need not wait for the end of a stream's requests,
 * and not every one resets it. */
static int
on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct wp_h2_call *call;

    (void)user;
    if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) {
        return 0;
    }
    call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (call != NULL && call->received != NULL && !call->ends) {
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE,
                                         frame->hd.stream_id, NGHTTP2_NO_ERROR);
    }
    return 0;
}

static int
on_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
         void *user)
{
    struct wp_h2_call *call =
        nghttp2_session_get_stream_user_data(session, stream_id);

    (void)error_code;
    (void)user;
    if (call != NULL) {
        call->reply_len = call->n_received > WP_H2_FRAME_HEAD
                              ? call->n_received - WP_H2_FRAME_HEAD
                              : 0;
        call->done(call);
    }
    return 0;
}

static ssize_t /* NOLINTNEXTLINE(readability-function-size): nghttp2's. */
read_request(nghttp2_session *session, int32_t stream_id, uint8_t *buf,
             size_t len, uint32_t *flags, nghttp2_data_source *source,
             void *user)
{
    struct wp_h2_call *call = source->ptr;
    size_t left = WP_H2_FRAME_HEAD + call->request_len - call->sent;
    bool last = call->received == NULL || call->ends;

    (void)session;
    (void)stream_id;
    (void)user;
    if (len > left) {
        len = left;
    }
    if (left == 0 && !last) {
        return NGHTTP2_ERR_DEFERRED;
    }
    memcpy(buf, call->request + call->sent, len);
    call->sent += len;
    if (len == left && last) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)len;
}

/* What comes is read strictly here, so nghttp2 need not look at it twice; and
 * streams that are over are of no use any more. */
static bool
make_session(struct wp_h2_conn *conn,
             const nghttp2_session_callbacks *callbacks)
{
    nghttp2_option *option;
    nghttp2_mem mem;
    bool made;

    if (nghttp2_option_new(&option) != 0) {
        return false;
    }
    nghttp2_option_set_no_http_messaging(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    conn->memory =
        (struct wp_h2_holding){.memory = &conn->h2->memory, .max = MEMORY_MAX};
    wp_h2_memory_for(&conn->memory, &mem);
    made = nghttp2_session_client_new3(&conn->session, callbacks, conn, option,
                                       &mem) == 0;
    nghttp2_option_del(option);
    return made;
}

bool
wp_h2_session_start(struct wp_h2_conn *conn)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1024 * 1024},
    };
    nghttp2_session_callbacks *callbacks;
    bool ok;

    if (nghttp2_session_callbacks_new(&callbacks) != 0) {
        return false;
    }
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks,
                                                              on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    ok = make_session(conn, callbacks);
    nghttp2_session_callbacks_del(callbacks);
    return ok &&
           nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings,
                                   WP_ARRAY_LEN(settings)) == 0 &&
           nghttp2_session_set_local_window_size(
               conn->session, NGHTTP2_FLAG_NONE, 0, WINDOW) == 0;
}

bool
wp_h2_session_request(struct wp_h2_conn *conn, struct wp_h2_call *call)
{
    const struct wp_h2 *h2 = conn->h2;
    const nghttp2_data_provider body = {.source.ptr = call,
                                        .read_callback = read_request};

    call->stream_id =
        nghttp2_submit_request(conn->session, NULL, h2->headers[call->method],
                               h2->n_headers[call->method], &body, call);
    return call->stream_id > 0;
}
