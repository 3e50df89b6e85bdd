#include "allocator/ctl/calls.h"

#include "allocator/ctl/rpc_client.h"
#include "allocator/conf/paths.h"

/* May what is in the default runtime directory be the daemon's? */
static bool
is_own_dir(void)
{
    char dir[600];
    struct wp_err err;

    return wp_paths_check_dir(wp_paths_runtime_dir(dir, sizeof dir), &err) ==
           WP_OK;
}

enum wp_status
wp_ctl_target(const struct wp_ctl_options *options,
              struct wp_ctl_target_text *text, struct wp_rpc_target *out,
              struct wp_err *err)
{
    *out = (struct wp_rpc_target){
        .address = options->address,
        .tls_ca = options->tls_ca,
        .tls_cert = options->tls_cert,
        .tls_key = options->tls_key,
        .tls_name = options->tls_name,
        .token_file = options->access_token_file,
    };
    if (out->address == NULL) {
        enum wp_status status = wp_paths_check_dir(
            wp_paths_runtime_dir(text->address, sizeof text->address), err);

        if (status != WP_OK) {
            return status;
        }
        out->address =
            wp_paths_grpc_address(text->address, sizeof text->address);
    }
    if (out->token_file == NULL && is_own_dir()) {
        out->token_file =
            wp_paths_access_token(text->token_file, sizeof text->token_file);
        out->token_optional = true;
    }
    return WP_OK;
}

static enum wp_status
connect_client(struct wp_ctl *ctl, struct wp_err *err)
{
    struct wp_ctl_target_text text;
    struct wp_rpc_target target;
    enum wp_status status;

    if (ctl->rpc != NULL) {
        return WP_OK;
    }
    status = wp_ctl_target(&ctl->options, &text, &target, err);
    if (status != WP_OK) {
        return status;
    }
    ctl->rpc = wp_rpc_client_open(&target, err);
    return ctl->rpc != NULL ? WP_OK : err->status;
}

/* Keeps the one message of a unary reply. */
struct unary_reply {
    struct wp_ctl *ctl;
    uint8_t *bytes;
    size_t len;
};

static bool
keep_reply(void *ctx, const uint8_t *bytes, size_t len)
{
    struct unary_reply *reply = ctx;

    reply->bytes = wp_ctl_alloc(reply->ctl, len + 1);
    memcpy(reply->bytes, bytes, len);
    reply->len = len;
    return true;
}

static enum wp_status
connect_and_call(struct wp_ctl *ctl, struct wp_rpc_call *rpc,
                 struct wp_ctl_call *call)
{
    enum wp_status status = connect_client(ctl, &call->err);

    if (status == WP_OK) {
        status = wp_rpc_client_call(ctl->rpc, rpc, &call->err);
        call->retry_after_ns = rpc->retry_after_ns;
    }
    return status;
}

static enum wp_status
call_unary(struct wp_ctl *ctl, struct wp_rpc_call *rpc,
           struct wp_ctl_call *call, struct unary_reply *reply)
{
    enum wp_status status;

    rpc->timeout_ns = ctl->options.timeout_ns + call->wait_ns;
    rpc->on_message = keep_reply;
    rpc->ctx = reply;
    status = connect_and_call(ctl, rpc, call);
    if (status == WP_OK && reply->bytes == NULL) {
        status = wp_err_set(&call->err, WP_INTERNAL,
                            "the daemon's reply has no message");
    }
    return status;
}

static enum wp_status
bad_reply(struct wp_ctl_call *call)
{
    call->err.status = WP_INTERNAL;
    return wp_err_wrap(&call->err, "the daemon's reply cannot be read");
}

#define DEFINE(name, path, in, in_type, out, out_type)                         \
    enum wp_status wp_ctl_call_##name(                                         \
        struct wp_ctl *ctl, const struct in_type *request,                     \
        struct out_type *reply, struct wp_ctl_call *call)                      \
    {                                                                          \
        size_t len = wp_wire_size_##in(request);                               \
        uint8_t *bytes = wp_ctl_alloc(ctl, len + 1);                           \
        struct unary_reply got = {ctl, NULL, 0};                               \
        struct wp_rpc_call rpc = {.method = "/warmpool.v1." path,              \
                                  .request = bytes,                            \
                                  .request_len =                               \
                                      wp_wire_pack_##in(request, bytes)};      \
        enum wp_status status = call_unary(ctl, &rpc, call, &got);             \
                                                                               \
        if (status == WP_OK &&                                                 \
            wp_wire_unpack_##out(&ctl->arena, got.bytes, got.len, reply,       \
                                 &call->err) != WP_OK) {                       \
            status = bad_reply(call);                                          \
        }                                                                      \
        return status;                                                         \
    }
WP_CTL_CALLS(DEFINE)

/* A call with many replies. */
struct stream {
    struct wp_ctl *ctl;
    bool (*on_pools)(void *ctx, const struct wp_wire_pools *pools);
    bool (*on_advise)(void *ctx, const struct wp_wire_advise_response *message);
    void *ctx;
    struct wp_err err; /* Of a message that could not be read. */
};

static enum wp_status
call_stream(struct stream *stream, struct wp_rpc_call *rpc,
            struct wp_ctl_call *call)
{
    enum wp_status status;

    rpc->ctx = stream;
    status = connect_and_call(stream->ctl, rpc, call);
    if (status == WP_OK && stream->err.status != WP_OK) {
        call->err = stream->err;
        status = bad_reply(call);
    }
    return status;
}

static bool
on_pools_message(void *ctx, const uint8_t *bytes, size_t len)
{
    struct stream *watch = ctx;
    struct wp_wire_pools pools;
    size_t used = watch->ctl->arena.used;
    bool more = false;

    if (wp_wire_unpack_pools(&watch->ctl->arena, bytes, len, &pools,
                             &watch->err) == WP_OK) {
        more = watch->on_pools(watch->ctx, &pools);
    }
    /* A watch may last for days: nothing of a message is kept. */
    watch->ctl->arena.used = used;
    return more;
}

enum wp_status
wp_ctl_call_watch_pools(struct wp_ctl *ctl,
                        const struct wp_wire_watch_pools_request *request,
                        bool (*on_pools)(void *ctx,
                                         const struct wp_wire_pools *pools),
                        void *ctx, struct wp_ctl_call *call)
{
    size_t len = wp_wire_size_watch_pools_request(request);
    uint8_t *bytes = wp_ctl_alloc(ctl, len + 1);
    struct stream watch = {.ctl = ctl, .on_pools = on_pools, .ctx = ctx};
    struct wp_rpc_call rpc = {
        .method = "/warmpool.v1.Allocator/WatchPools",
        .request = bytes,
        .request_len = wp_wire_pack_watch_pools_request(request, bytes),
        .timeout_ns = WP_TIME_NEVER,
        .on_message = on_pools_message,
    };

    return call_stream(&watch, &rpc, call);
}

static bool
on_advise_message(void *ctx, const uint8_t *bytes, size_t len)
{
    struct stream *advise = ctx;
    struct wp_wire_advise_response message;

    return wp_wire_unpack_advise_response(&advise->ctl->arena, bytes, len,
                                          &message, &advise->err) == WP_OK &&
           advise->on_advise(advise->ctx, &message);
}

enum wp_status
wp_ctl_call_advise(
    struct wp_ctl *ctl, const struct wp_wire_advise_request *request,
    bool (*on_advise)(void *ctx, const struct wp_wire_advise_response *message),
    void *ctx, struct wp_ctl_call *call)
{
    size_t len = wp_wire_size_advise_request(request);
    uint8_t *bytes = wp_ctl_alloc(ctl, len + 1);
    struct stream advise = {.ctl = ctl, .on_advise = on_advise, .ctx = ctx};
    struct wp_rpc_call rpc = {
        .method = "/warmpool.v1.PoolAdmin/Advise",
        .request = bytes,
        .request_len = wp_wire_pack_advise_request(request, bytes),
        .timeout_ns = ctl->options.timeout_ns + call->wait_ns,
        .on_message = on_advise_message,
    };

    return call_stream(&advise, &rpc, call);
}
