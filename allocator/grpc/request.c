/* What the headers of a call say, and what stands between the caller and the
 * method. A call that is refused here has taken no object: its answer is one
 * block of headers. */
#include "allocator/grpc/internal.h"

#include <string.h>
#include <strings.h>

struct request {
    uint32_t method; /* 1 more than the index; 0: no path yet. */
    bool is_post;
    bool is_grpc;
    bool has_timeout;
    bool bad_timeout;
    bool has_token; /* The access token. */
    int64_t timeout_ns;
    struct wp_trace_context trace;
};

_Static_assert(sizeof(struct request) <= WP_H2_REQUEST_SIZE,
               "a request's scratch memory");

static bool
is(struct wp_str s, const char *literal, size_t len)
{
    return s.len == len && memcmp(s.ptr, literal, len) == 0;
}

/* "100m": at most 8 digits and a unit. */
static bool
parse_timeout(struct wp_str text, int64_t *out_ns)
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
    int64_t value = 0;

    if (text.len < 2 || text.len > 9) {
        return false;
    }
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
        value = value * 10 + (text.ptr[i] - '0');
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(units); i++) {
        if (units[i].unit == text.ptr[text.len - 1]) {
            *out_ns = value > INT64_MAX / 4 / units[i].ns ? INT64_MAX / 4
                                                          : value * units[i].ns;
            return true;
        }
    }
    return false;
}

/* Time says nothing about the token but its length, which is no secret. */
static bool
is_access_token(const struct wp_rpc_server *server, struct wp_str value)
{
    static const char scheme[] = "Bearer ";
    size_t skip = sizeof(scheme) - 1;

    return server->access_token_len > 0 &&
           value.len == skip + server->access_token_len &&
           strncasecmp(value.ptr, scheme, skip) == 0 &&
           wp_bytes_eq_const_time(value.ptr + skip, server->config.access_token,
                                  server->access_token_len);
}

void
wp_rpc_request_header(void *ctx, void *scratch, struct wp_str name,
                      struct wp_str value)
{
    struct request *request = scratch;

    if (is(name, ":path", 5)) {
        request->method = wp_rpc_method_find(ctx, value) + 1;
    } else if (is(name, ":method", 7)) {
        request->is_post = is(value, "POST", 4);
    } else if (is(name, "content-type", 12)) {
        struct wp_str type = {"application/grpc", 16};

        request->is_grpc =
            wp_str_starts_with(value, type) &&
            (value.len == type.len || value.ptr[type.len] == '+' ||
             value.ptr[type.len] == ';');
    } else if (is(name, "grpc-timeout", 12)) {
        request->has_timeout = true;
        request->bad_timeout = !parse_timeout(value, &request->timeout_ns);
    } else if (is(name, "authorization", 13)) {
        request->has_token = request->has_token || is_access_token(ctx, value);
    } else if (is(name, "traceparent", 11)) {
        (void)wp_trace_context_parse(value, &request->trace);
    }
}

static void
refuse(struct wp_h2_conn *conn, int32_t id, enum wp_status status,
       const char *message, int64_t retry_after_ns)
{
    struct wp_h2_field fields[WP_H2_FIELDS_MAX] = {
        {WP_STR(":status"), WP_STR("200")},
        {WP_STR("content-type"), WP_STR("application/grpc")},
    };

    wp_h2_conn_refuse(
        conn, id, fields,
        2 + wp_rpc_trailers_make(&fields[2], status, message, retry_after_ns));
}

static void
refuse_http(struct wp_h2_conn *conn, int32_t id, const char *status)
{
    const struct wp_h2_field field = {WP_STR(":status"), wp_str_from(status)};

    wp_h2_conn_refuse(conn, id, &field, 1);
}

/* NULL: the peer may not call. */
static const struct wp_identity *
caller_of(const struct request *request, const struct wp_rpc_peer *peer)
{
    static const struct wp_identity token_holders[] = {
        [false] = {.name = "access-token", .admin = true},
        [true] = {.name = "access-token", .admin = true, .unread = true},
    };

    if (WP_UNLIKELY(peer->unproven) && request->has_token) {
        return &token_holders[peer->who.unread];
    }
    return peer->known ? &peer->who : NULL;
}

/* NULL: let it in. */
static const char *
why_not(const struct wp_rpc_server *server, const struct request *request,
        const struct wp_rpc_peer *peer, const struct wp_identity *caller,
        enum wp_status *status)
{
    if (WP_UNLIKELY(request->method == 0 ||
                    request->method > server->n_methods)) {
        *status = WP_UNIMPLEMENTED;
        return "unknown method";
    }
    if (WP_UNLIKELY(caller == NULL && peer->unproven &&
                    !server->config.anonymous)) {
        *status = WP_UNAUTHENTICATED;
        return "a call over TCP needs a client certificate, or the token of "
               "the daemon's setting access_token_file as 'authorization: "
               "Bearer TOKEN'";
    }
    if (WP_UNLIKELY(caller == NULL)) {
        *status = WP_PERMISSION_DENIED;
        return "the caller is not among the configured principals";
    }
    if (WP_UNLIKELY(server->methods[request->method - 1].api->admin_only &&
                    !caller->admin)) {
        *status = WP_PERMISSION_DENIED;
        return "the method needs the admin right";
    }
    if (WP_UNLIKELY(request->bad_timeout)) {
        *status = WP_INVALID_ARGUMENT;
        return "grpc-timeout: expected at most 8 digits and one of HMSmun";
    }
    if (WP_UNLIKELY(request->has_timeout && request->timeout_ns == 0)) {
        *status = WP_DEADLINE_EXCEEDED;
        return "the deadline had passed when the call arrived";
    }
    return NULL;
}

void
wp_rpc_request_done(void *ctx, struct wp_h2_conn *conn, int32_t id,
                    const void *scratch, bool too_long)
{
    struct wp_rpc_server *server = ctx;
    const struct request *request = scratch;
    const struct wp_rpc_peer *peer = wp_h2_conn_peer(conn);
    const struct wp_identity *caller = caller_of(request, peer);
    struct wp_rpc_thread *thread =
        &server->threads[wp_h2_worker_number(wp_h2_conn_worker(conn))];
    enum wp_status status = WP_OK;
    const char *reason;
    struct wp_h2_stream *stream;

    if (WP_UNLIKELY(too_long)) {
        refuse(conn, id, WP_RESOURCE_EXHAUSTED,
               "more metadata than one call may have", 0);
        return;
    }
    if (WP_UNLIKELY(!request->is_post || !request->is_grpc)) {
        refuse_http(conn, id, request->is_post ? "415" : "405");
        return;
    }
    reason = why_not(server, request, peer, caller, &status);
    if (WP_UNLIKELY(reason != NULL)) {
        if (status == WP_UNIMPLEMENTED) {
            WP_RPC_COUNT(&thread->unknown, 1);
        }
        refuse(conn, id, status, reason, 0);
        return;
    }
    stream = wp_h2_stream_open(conn, id);
    if (WP_UNLIKELY(stream == NULL)) {
        WP_RPC_COUNT(&thread->refused, 1);
        refuse(conn, id, WP_RESOURCE_EXHAUSTED,
               "too many requests that are not whole", WP_RPC_REFUSED_RETRY_NS);
        return;
    }
    wp_rpc_call_open(WP_CONTAINER_OF(stream, struct wp_rpc_call, stream),
                     request->method - 1, caller,
                     request->has_timeout ? request->timeout_ns : -1,
                     &request->trace);
}
