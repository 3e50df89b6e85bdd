#include "runtime/sandboxd/grpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <event2/buffer.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "proto/formats/sandbox_token.h"

enum {
    CALLS_MAX = 512,
    REQUESTS_MAX = 32 << 20, /* Bytes of those that are not whole. */
    STREAMS_PER_CONN = 256,
    METADATA_MAX = 16 << 10,
};

struct wp_grpc {
    struct wp_grpc_config config;
    struct wp_h2_server *h2;
    struct event *settle;
    size_t partial; /* Bytes of requests that are not whole. */
    uint32_t calls; /* Streams that are open. */
    void (*drained)(void *arg);
    void *drained_arg;
};

/* What the headers say. */
struct request {
    const struct wp_grpc_method *method;
    int64_t timeout_ns;
    bool is_post;
    bool is_grpc;
    bool has_timeout;
    bool bad_timeout;
    bool admitted;
};

_Static_assert(sizeof(struct request) <= WP_H2_REQUEST_SIZE,
               "a request's scratch memory");

/* Writes what calls have to send, once the loop has come back: whoever calls
 * may be in the midst of a command's own event. */
static void
settle_soon(struct wp_grpc *grpc)
{
    event_active(grpc->settle, EV_TIMEOUT, 0);
}

static void
on_settle(evutil_socket_t fd, short what, void *arg)
{
    struct wp_grpc *grpc = arg;

    (void)fd;
    (void)what;
    wp_h2_worker_settle(wp_h2_worker_here());
    if (grpc->calls == 0 && grpc->drained != NULL) {
        void (*drained)(void *) = grpc->drained;

        grpc->drained = NULL;
        drained(grpc->drained_arg);
    }
}

/* ---------------------------------------------------------------- sending */

uint8_t *
wp_grpc_message(size_t len)
{
    uint8_t *message = malloc(WP_GRPC_PREFIX + len);

    if (message != NULL) {
        message[0] = 0;
        message[1] = (uint8_t)(len >> 24);
        message[2] = (uint8_t)(len >> 16);
        message[3] = (uint8_t)(len >> 8);
        message[4] = (uint8_t)len;
    }
    return message;
}

/* The next message, if none is on its way; then the end. */
static void
send_next(struct wp_grpc_call *call)
{
    struct evbuffer_iovec first;

    if (call->piece > 0 || call->stream.conn == NULL) {
        return;
    }
    if (call->out != NULL &&
        evbuffer_peek(call->out, -1, NULL, &first, 1) > 0 &&
        first.iov_len > 0) {
        call->piece = first.iov_len;
        wp_h2_stream_send(&call->stream, first.iov_base, first.iov_len);
    } else if (call->finished) {
        wp_h2_stream_end(&call->stream);
    }
}

static void
free_message(const void *data, size_t len, void *message)
{
    (void)data;
    (void)len;
    free(message);
}

size_t
wp_grpc_send(struct wp_grpc_call *call, uint8_t *message, size_t len)
{
    WP_ASSERT(!call->finished);
    /* By reference, so that each lies where it is until it was sent. */
    if (message == NULL ||
        evbuffer_add_reference(call->out, message, WP_GRPC_PREFIX + len,
                               free_message, message) != 0) {
        free(message);
        wp_grpc_finish(call, WP_RESOURCE_EXHAUSTED, "out of memory");
        return 0;
    }
    send_next(call);
    settle_soon(call->grpc);
    return evbuffer_get_length(call->out);
}

void
wp_grpc_finish(struct wp_grpc_call *call, enum wp_status status,
               const char *details)
{
    WP_ASSERT(!call->finished);
    call->finished = true;
    call->user = NULL;
    call->status = status;
    (void)snprintf(call->details, sizeof(call->details), "%s",
                   details != NULL ? details : "");
    if (call->timer != NULL) {
        event_del(call->timer);
    }
    send_next(call);
    settle_soon(call->grpc);
}

static void
on_sent(struct wp_h2_stream *stream)
{
    struct wp_grpc_call *call =
        WP_CONTAINER_OF(stream, struct wp_grpc_call, stream);
    bool tell = !call->finished && call->method->sent != NULL;

    evbuffer_drain(call->out, call->piece);
    call->piece = 0;
    send_next(call);
    if (tell) {
        call->method->sent(call, evbuffer_get_length(call->out));
    }
}

/* Printable ASCII as it is, all else as %XX. */
static size_t
encode(const char *text, char *out, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;

    for (; *text != '\0' && n + 3 < size; text++) {
        unsigned char c = (unsigned char)*text;

        if (c >= ' ' && c < 127 && c != '%') {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = digits[c >> 4];
            out[n++] = digits[c & 15];
        }
    }
    return n;
}

static size_t
fields_make(struct wp_h2_field *fields, enum wp_status status,
            const char *details)
{
    static char code[8];
    static char message[3 * WP_GRPC_DETAILS_MAX + 4];

    (void)snprintf(code, sizeof(code), "%d", wp_status_grpc_code(status));
    fields[0] = (struct wp_h2_field){WP_STR("grpc-status"), wp_str_from(code)};
    fields[1].name = WP_STR("grpc-message");
    fields[1].value =
        (struct wp_str){message, encode(details, message, sizeof(message))};
    return details[0] != '\0' ? 2 : 1;
}

static size_t
trailers_of(struct wp_h2_stream *stream,
            struct wp_h2_field fields[WP_H2_FIELDS_MAX])
{
    const struct wp_grpc_call *call =
        WP_CONTAINER_OF(stream, struct wp_grpc_call, stream);

    return fields_make(fields, call->status, call->details);
}

/* -------------------------------------------------------------- a request */

bool
wp_grpc_timeout_read(struct wp_str text, int64_t *out_ns)
{
    static const struct {
        char unit;
        int64_t ns;
    } units[] = {{'H', 3600 * WP_NS_PER_S},
                 {'M', 60 * WP_NS_PER_S},
                 {'S', WP_NS_PER_S},
                 {'m', WP_NS_PER_MS},
                 {'u', 1000},
                 {'n', 1}};
    uint64_t value;

    if (text.len < 2 || text.len > 9 ||
        !wp_str_to_u64((struct wp_str){text.ptr, text.len - 1}, &value)) {
        return false;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(units); i++) {
        if (units[i].unit == text.ptr[text.len - 1]) {
            /* 8 digits of hours are below what an int64_t holds, 11 400 years
             * of nanoseconds are not. */
            *out_ns = (int64_t)value > INT64_MAX / 4 / units[i].ns
                          ? INT64_MAX / 4
                          : (int64_t)value * units[i].ns;
            return true;
        }
    }
    return false;
}

static bool
shows_token(const struct wp_grpc *grpc, struct wp_str value)
{
    char token[WP_SANDBOX_TOKEN_TEXT * 4];

    return wp_str_copy(value, token, sizeof(token)) &&
           grpc->config.admits(grpc->config.app, token);
}

static void
on_header(void *ctx, void *scratch, struct wp_str name, struct wp_str value)
{
    static const char token_field[] = WP_SANDBOX_TOKEN_FIELD;
    static const char bearer[] = "Bearer ";
    const struct wp_grpc *grpc = ctx;
    struct request *request = scratch;

    if (wp_str_is(name, ":path")) {
        request->method = grpc->config.methods;
        while (request->method->path != NULL &&
               !wp_str_is(value, request->method->path)) {
            request->method++;
        }
    } else if (wp_str_is(name, ":method")) {
        request->is_post = wp_str_is(value, "POST");
    } else if (wp_str_is(name, "content-type")) {
        request->is_grpc =
            wp_str_starts_with(value, WP_STR("application/grpc"));
    } else if (wp_str_is(name, "grpc-timeout")) {
        request->has_timeout = true;
        request->bad_timeout =
            !wp_grpc_timeout_read(value, &request->timeout_ns);
    } else if (name.len == sizeof(token_field) - 1 &&
               strncasecmp(name.ptr, token_field, name.len) == 0) {
        request->admitted = request->admitted || shows_token(grpc, value);
    } else if (wp_str_is(name, "authorization") &&
               value.len > sizeof(bearer) - 1 &&
               strncasecmp(value.ptr, bearer, sizeof(bearer) - 1) == 0) {
        value.ptr += sizeof(bearer) - 1;
        value.len -= sizeof(bearer) - 1;
        request->admitted = request->admitted || shows_token(grpc, value);
    }
}

static void
refuse(struct wp_h2_conn *conn, int32_t id, enum wp_status status,
       const char *details)
{
    struct wp_h2_field fields[WP_H2_FIELDS_MAX] = {
        {WP_STR(":status"), WP_STR("200")},
        {WP_STR("content-type"), WP_STR("application/grpc")},
    };

    wp_h2_conn_refuse(conn, id, fields,
                      2 + fields_make(&fields[2], status, details));
}

static void
call_free(struct wp_grpc_call *call)
{
    if (call->in != NULL) {
        call->grpc->partial -= evbuffer_get_length(call->in);
        evbuffer_free(call->in);
        call->in = NULL;
    }
    if (call->out != NULL) {
        evbuffer_free(call->out);
        call->out = NULL;
    }
    if (call->timer != NULL) {
        event_free(call->timer);
        call->timer = NULL;
    }
    wp_list_remove(&call->node);
}

static void
on_late(evutil_socket_t fd, short what, void *arg)
{
    struct wp_grpc_call *call = arg;

    (void)fd;
    (void)what;
    if (call->started) {
        call->method->gone(call);
    }
    wp_grpc_finish(call, WP_DEADLINE_EXCEEDED, "the deadline has passed");
}

/* False: no memory. */
static bool
call_begin(struct wp_grpc_call *call, const struct request *request)
{
    struct timeval tv;

    call->method = request->method;
    call->user = NULL;
    call->piece = 0;
    call->started = false;
    call->finished = false;
    call->in = evbuffer_new();
    call->out = evbuffer_new();
    if (call->in == NULL || call->out == NULL) {
        return false;
    }
    if (request->has_timeout) {
        call->timer = evtimer_new(call->grpc->config.base, on_late, call);
        tv = wp_timeval(request->timeout_ns);
        if (call->timer == NULL || evtimer_add(call->timer, &tv) != 0) {
            return false;
        }
    }
    return true;
}

static void
on_request(void *ctx, struct wp_h2_conn *conn, int32_t id, const void *scratch,
           bool too_long)
{
    struct wp_grpc *grpc = ctx;
    const struct request *request = scratch;
    struct wp_h2_stream *stream;
    struct wp_grpc_call *call;

    if (too_long) {
        refuse(conn, id, WP_RESOURCE_EXHAUSTED,
               "more metadata than one call may have");
    } else if (!request->is_post || !request->is_grpc) {
        const struct wp_h2_field field = {
            WP_STR(":status"), wp_str_from(request->is_post ? "415" : "405")};

        wp_h2_conn_refuse(conn, id, &field, 1);
    } else if (!request->admitted &&
               !grpc->config.admits(grpc->config.app, NULL)) {
        refuse(conn, id, WP_UNAUTHENTICATED,
               "the sandbox's token is needed in the metadata "
               "x-warmpool-token, or as 'authorization: Bearer TOKEN'");
    } else if (request->method == NULL || request->method->path == NULL) {
        refuse(conn, id, WP_UNIMPLEMENTED, "unknown method");
    } else if (request->bad_timeout) {
        refuse(conn, id, WP_INVALID_ARGUMENT,
               "grpc-timeout: expected at most 8 digits and one of HMSmun");
    } else if ((stream = wp_h2_stream_open(conn, id)) == NULL) {
        refuse(conn, id, WP_RESOURCE_EXHAUSTED, "too many calls at once");
    } else {
        call = WP_CONTAINER_OF(stream, struct wp_grpc_call, stream);
        grpc->calls++;
        if (!call_begin(call, request)) {
            wp_grpc_finish(call, WP_RESOURCE_EXHAUSTED, "out of memory");
        }
    }
}

/* The request is whole, or can never be. */
static void
judge(struct wp_grpc_call *call)
{
    uint8_t p[WP_GRPC_PREFIX];
    size_t have = evbuffer_get_length(call->in);
    size_t len;
    const uint8_t *bytes;

    if (evbuffer_copyout(call->in, p, sizeof(p)) < (ev_ssize_t)sizeof(p)) {
        return;
    }
    len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (p[0] != 0) {
        wp_grpc_finish(call, WP_UNIMPLEMENTED,
                       "compressed messages are not understood");
    } else if (len > WP_GRPC_REQUEST_MAX) {
        wp_grpc_finish(call, WP_RESOURCE_EXHAUSTED,
                       "the request is longer than 4 MiB");
    } else if (have >= WP_GRPC_PREFIX + len) {
        bytes = evbuffer_pullup(call->in, (ev_ssize_t)(WP_GRPC_PREFIX + len));
        call->started = true;
        call->method->start(call, bytes + WP_GRPC_PREFIX, len);
    } else {
        return;
    }
    call->grpc->partial -= have;
    evbuffer_drain(call->in, have);
}

static void
on_data(struct wp_h2_stream *stream, const uint8_t *bytes, size_t len)
{
    struct wp_grpc_call *call =
        WP_CONTAINER_OF(stream, struct wp_grpc_call, stream);

    if (call->started || call->finished) {
        return; /* It has its one message. */
    }
    if (call->grpc->partial + len > REQUESTS_MAX ||
        evbuffer_add(call->in, bytes, len) != 0) {
        wp_grpc_finish(call, WP_RESOURCE_EXHAUSTED,
                       "too many requests that are not whole");
        return;
    }
    call->grpc->partial += len;
    judge(call);
}

static void
on_ended(struct wp_h2_stream *stream)
{
    struct wp_grpc_call *call =
        WP_CONTAINER_OF(stream, struct wp_grpc_call, stream);

    if (!call->started && !call->finished) {
        wp_grpc_finish(call, WP_INVALID_ARGUMENT,
                       "request: a message was expected");
    }
}

static void
on_closed(struct wp_h2_stream *stream)
{
    struct wp_grpc_call *call =
        WP_CONTAINER_OF(stream, struct wp_grpc_call, stream);

    if (call->started && !call->finished) {
        call->method->gone(call);
    }
    call_free(call);
    call->grpc->calls--;
    settle_soon(call->grpc);
    wp_h2_stream_free(stream);
}

/* -------------------------------------------------------------- the server */

static void
on_init(void *ctx, struct wp_h2_stream *stream)
{
    struct wp_grpc_call *call =
        WP_CONTAINER_OF(stream, struct wp_grpc_call, stream);

    call->grpc = ctx;
    wp_list_init(&call->node);
}

static bool
on_admit(void *ctx, const struct wp_h2_origin *origin, void *peer)
{
    (void)ctx;
    (void)origin;
    (void)peer;
    return true;
}

static void
on_turn(void *ctx, struct wp_h2_worker *worker, bool last)
{
    (void)ctx;
    (void)worker;
    (void)last;
}

static struct wp_h2_server *
h2_create(struct wp_grpc *grpc, struct wp_err *err)
{
    const struct wp_h2_config config = {
        .listen = &grpc->config.listen,
        .n_listen = 1,
        .clear_text_anywhere = true,
        .base = grpc->config.base,
        .threads = 1,
        .streams_per_thread = CALLS_MAX,
        .connections_max = grpc->config.connections_max,
        .streams_per_connection_max = STREAMS_PER_CONN,
        .metadata_bytes_max = METADATA_MAX,
        .keepalive_ns = 30 * WP_NS_PER_S,
        .keepalive_timeout_ns = 20 * WP_NS_PER_S,
        .silent_ns = 60 * WP_NS_PER_S,
    };
    const struct wp_h2_handler handler = {
        .ctx = grpc,
        .stream_size = sizeof(struct wp_grpc_call),
        .init = on_init,
        .admit = on_admit,
        .header = on_header,
        .request = on_request,
        .data = on_data,
        .ended = on_ended,
        .closed = on_closed,
        .sent = on_sent,
        .trailers = trailers_of,
        .turn = on_turn,
        .head = {{WP_STR(":status"), WP_STR("200")},
                 {WP_STR("content-type"), WP_STR("application/grpc")},
                 {WP_STR("grpc-accept-encoding"), WP_STR("identity")}},
        .n_head = 3,
    };

    return wp_h2_server_create(&config, &handler, err);
}

struct wp_grpc *
wp_grpc_create(const struct wp_grpc_config *config, struct wp_err *err)
{
    struct wp_grpc *grpc = calloc(1, sizeof(*grpc));

    if (grpc != NULL) {
        grpc->config = *config;
        grpc->settle = evtimer_new(config->base, on_settle, grpc);
    }
    if (grpc == NULL || grpc->settle == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
        free(grpc);
        return NULL;
    }
    grpc->h2 = h2_create(grpc, err);
    if (grpc->h2 == NULL || wp_h2_server_start(grpc->h2, err) != WP_OK) {
        wp_grpc_destroy(grpc);
        return NULL;
    }
    return grpc;
}

int32_t
wp_grpc_port(const struct wp_grpc *grpc)
{
    const char *address = wp_h2_server_address(grpc->h2, 0);
    const char *colon = strrchr(address, ':');

    return colon != NULL ? (int32_t)strtol(colon + 1, NULL, 10) : 0;
}

void
wp_grpc_drain(struct wp_grpc *grpc, void (*drained)(void *arg), void *arg)
{
    grpc->drained = drained;
    grpc->drained_arg = arg;
    wp_h2_server_leave(grpc->h2);
    settle_soon(grpc);
}

void
wp_grpc_destroy(struct wp_grpc *grpc)
{
    if (grpc == NULL) {
        return;
    }
    if (grpc->h2 != NULL) {
        wp_h2_server_stop(grpc->h2);
        wp_h2_server_destroy(grpc->h2);
    }
    event_free(grpc->settle);
    free(grpc);
}

void *
wp_grpc_app(const struct wp_grpc_call *call)
{
    return call->grpc->config.app;
}
