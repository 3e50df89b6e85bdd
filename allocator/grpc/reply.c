/* What leaves for the client: struct wp_call_ops, and the batches behind it. */
#include "allocator/grpc/internal.h"

#include <string.h>

#include "pool/base/assert.h"

_Thread_local struct wp_rpc_call *wp_rpc_call_starting;

static struct wp_rpc_call *
from_base(struct wp_call *base)
{
    return WP_CONTAINER_OF(base, struct wp_rpc_call, base);
}

void
wp_rpc_reply_drop(struct wp_rpc_call *call)
{
    if (call->has_reply) {
        grpc_slice_unref(call->reply);
        call->has_reply = false;
    }
}

static void
drop_outgoing(struct wp_rpc_call *call)
{
    if (call->outgoing != NULL) {
        grpc_byte_buffer_destroy(call->outgoing);
        call->outgoing = NULL;
    }
}

/* The last touch of call by this thread: the queue's may free it before this
 * returns. */
static void
start_sending(struct wp_rpc_call *call, const grpc_op *ops, size_t n_ops,
              struct wp_rpc_tag *tag)
{
    grpc_call *handle = call->handle;
    grpc_call_error error;

    /* Release: pairs with the acquire in wp_rpc_reply_take_back. */
    atomic_store_explicit(&call->sent, true, memory_order_release);
    error = grpc_call_start_batch(handle, ops, n_ops, tag, NULL);
    WP_ASSERT(error == GRPC_CALL_OK);
}

void
wp_rpc_reply_take_back(struct wp_rpc_call *call)
{
    (void)atomic_load_explicit(&call->sent, memory_order_acquire);
    drop_outgoing(call);
}

static size_t
put_headers(struct wp_rpc_call *call, grpc_op *op)
{
    if (call->headers_sent) {
        return 0;
    }
    call->headers_sent = true;
    op->op = GRPC_OP_SEND_INITIAL_METADATA;
    return 1;
}

static size_t
put_message(struct wp_rpc_call *call, grpc_op *op)
{
    if (!call->has_reply) {
        return 0;
    }
    call->outgoing = grpc_raw_byte_buffer_create(&call->reply, 1);
    wp_rpc_reply_drop(call);
    op->op = GRPC_OP_SEND_MESSAGE;
    op->data.send_message.send_message = call->outgoing;
    return 1;
}

void
wp_rpc_reply_status(struct wp_rpc_call *call, bool with_close)
{
    struct wp_rpc_trailers trailers;
    grpc_slice details = call->details;
    bool has_details = call->has_details;
    grpc_op ops[4];
    size_t n = 0;

    memset(ops, 0, sizeof(ops));
    n += put_headers(call, &ops[n]);
    if (call->status != WP_OK) {
        wp_rpc_reply_drop(call);
    }
    n += put_message(call, &ops[n]);
    wp_rpc_trailers_make(&trailers, call->status, has_details ? &details : NULL,
                         call->retry_after_ns);
    ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[n].data.send_status_from_server.status =
        (grpc_status_code)wp_status_grpc_code(call->status);
    ops[n].data.send_status_from_server.status_details =
        has_details ? &details : NULL;
    ops[n].data.send_status_from_server.trailing_metadata_count =
        trailers.count;
    ops[n].data.send_status_from_server.trailing_metadata = trailers.md;
    n++;
    if (with_close) {
        ops[n].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
        ops[n].data.recv_close_on_server.cancelled = &call->closed_early;
        n++;
    }
    start_sending(call, ops, n, &call->on_done);
    wp_rpc_trailers_unref(&trailers);
    if (has_details) {
        grpc_slice_unref(details);
    }
}

/* --- struct wp_call_ops --- */

static uint8_t *
call_reserve(struct wp_call *base, size_t len)
{
    struct wp_rpc_call *call = from_base(base);

    wp_rpc_reply_drop(call);
    if (len > WP_RPC_REPLY_MAX) {
        return NULL;
    }
    call->reply = grpc_slice_malloc(len);
    call->has_reply = true;
    return GRPC_SLICE_START_PTR(call->reply);
}

static void
call_finish(struct wp_call *base, enum wp_status status, const char *message,
            int64_t retry_after_ns)
{
    struct wp_rpc_call *call = from_base(base);
    uint32_t before;

    WP_ASSERT(status != WP_PENDING);
    WP_ASSERT(status != WP_OK || call->has_reply ||
              wp_rpc_call_method(call)->kind != WP_RPC_UNARY);
    call->status = status;
    call->retry_after_ns = retry_after_ns;
    if (message != NULL && message[0] != '\0') {
        call->details = grpc_slice_from_copied_buffer(
            message, strnlen(message, WP_RPC_MESSAGE_MAX));
        call->has_details = true;
    }
    /* Release: whoever sees FINISHED with WRITING sends what was left above. */
    before = atomic_fetch_or_explicit(&call->flags, WP_RPC_FINISHED,
                                      memory_order_acq_rel);
    WP_ASSERT((before & WP_RPC_FINISHED) == 0);
    if ((before & WP_RPC_WRITING) != 0) {
        return; /* The queue's thread sends the status after the message. */
    }
    wp_rpc_reply_status(call, wp_rpc_call_starting == call);
    if (wp_rpc_call_starting == call) {
        wp_rpc_call_starting = NULL;
    }
}

static bool
call_send(struct wp_call *base)
{
    struct wp_rpc_call *call = from_base(base);
    grpc_op ops[2];
    size_t n = 0;
    uint32_t before;

    WP_ASSERT(call->has_reply);
    before = atomic_fetch_or_explicit(&call->flags, WP_RPC_WRITING,
                                      memory_order_acq_rel);
    WP_ASSERT((before & WP_RPC_FINISHED) == 0);
    if ((before & WP_RPC_WRITING) != 0) {
        wp_rpc_reply_drop(call);
        return false;
    }
    memset(ops, 0, sizeof(ops));
    n += put_headers(call, &ops[n]);
    n += put_message(call, &ops[n]);
    start_sending(call, ops, n, &call->on_sent);
    return true;
}

const struct wp_call_ops wp_rpc_call_ops = {
    .reserve = call_reserve,
    .finish = call_finish,
    .send = call_send,
};
