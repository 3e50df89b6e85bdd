/* The life of a call: see the head of allocator/grpc/internal.h. */
#include "allocator/grpc/internal.h"

#include <string.h>

#include <grpc/byte_buffer_reader.h>
#include <grpc/support/time.h>

#include "pool/base/assert.h"

/* A stream lives until one side leaves; the contract wants a finite number. */
#define STREAM_DEADLINE_NS (INT64_C(366) * 24 * 3600 * WP_NS_PER_S)

static void
finish(struct wp_rpc_call *call, enum wp_status status, const char *message,
       int64_t retry_after_ns)
{
    wp_rpc_call_ops.finish(&call->base, status, message, retry_after_ns);
}

static void
start_batch(struct wp_rpc_call *call, const grpc_op *ops, size_t n_ops,
            struct wp_rpc_tag *tag)
{
    grpc_call_error error =
        grpc_call_start_batch(call->handle, ops, n_ops, tag, NULL);

    WP_ASSERT(error == GRPC_CALL_OK);
}

static void
start_watching_close(struct wp_rpc_call *call)
{
    grpc_op op;

    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    op.data.recv_close_on_server.cancelled = &call->closed_early;
    start_batch(call, &op, 1, &call->on_closed);
}

static void
end_if_complete(struct wp_rpc_call *call)
{
    if (call->closed_seen && call->done_seen) {
        wp_rpc_queue_release(call);
    }
}

static void
count_cancelled(struct wp_rpc_call *call)
{
    if (call->closed_early != 0) {
        WP_RPC_COUNT(&call->queue->cancelled, 1);
    }
}

static void
on_closed(struct wp_rpc_tag *tag, bool ok)
{
    struct wp_rpc_call *call =
        WP_CONTAINER_OF(tag, struct wp_rpc_call, on_closed);
    uint32_t before;

    (void)ok; /* Always true for this operation. */
    call->closed_seen = true;
    count_cancelled(call);
    if (call->closed_early != 0) {
        before = atomic_fetch_or_explicit(&call->flags, WP_RPC_CANCELLED,
                                          memory_order_acq_rel);
        /* A finish that starts now on another thread is the method's to
         * settle; the object outlives both, for on_done is still to come. */
        if ((before & WP_RPC_FINISHED) == 0 && call->base.cancelled != NULL) {
            call->base.cancelled(&call->base);
        }
    }
    end_if_complete(call);
}

static void
on_done(struct wp_rpc_tag *tag, bool ok)
{
    struct wp_rpc_call *call =
        WP_CONTAINER_OF(tag, struct wp_rpc_call, on_done);

    (void)ok; /* A reply nobody took: the client gave up, and knows it. */
    wp_rpc_reply_take_back(call);
    call->done_seen = true;
    end_if_complete(call);
}

/* The single batch of a method that answered at once: it has both events. */
static void
on_done_at_once(struct wp_rpc_tag *tag, bool ok)
{
    struct wp_rpc_call *call =
        WP_CONTAINER_OF(tag, struct wp_rpc_call, on_done);

    (void)ok;
    wp_rpc_reply_take_back(call);
    count_cancelled(call);
    wp_rpc_queue_release(call);
}

static void
read_next(struct wp_rpc_call *call)
{
    grpc_op op;

    grpc_byte_buffer_destroy(call->request);
    call->request = NULL;
    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = &call->request;
    start_batch(call, &op, 1, &call->on_read);
}

static void
on_sent(struct wp_rpc_tag *tag, bool ok)
{
    struct wp_rpc_call *call =
        WP_CONTAINER_OF(tag, struct wp_rpc_call, on_sent);
    uint32_t before;

    wp_rpc_reply_take_back(call);
    /* Release: the next sender may reuse what this message used. */
    before = atomic_fetch_and_explicit(&call->flags, ~(uint32_t)WP_RPC_WRITING,
                                       memory_order_acq_rel);
    if ((before & WP_RPC_FINISHED) != 0) {
        wp_rpc_reply_status(call, false);
        return;
    }
    if (wp_rpc_call_method(call)->kind == WP_RPC_LOCKSTEP) {
        read_next(call);
    } else if (ok && (before & WP_RPC_CANCELLED) == 0 &&
               call->base.writable != NULL) {
        call->base.writable(&call->base);
    }
}

/* Runs the method on the request, in place when it came in one piece, as all
 * but the longest do. */
static void
run_method(struct wp_rpc_call *call)
{
    const struct wp_method *api = wp_rpc_call_method(call)->api;
    grpc_byte_buffer_reader reader;
    grpc_slice *first = NULL;
    grpc_slice whole;

    if (call->request == NULL ||
        !grpc_byte_buffer_reader_init(&reader, call->request)) {
        finish(call, WP_INVALID_ARGUMENT, "request: a message was expected", 0);
        return;
    }
    if (WP_LIKELY(grpc_byte_buffer_reader_peek(&reader, &first)) &&
        WP_LIKELY(GRPC_SLICE_LENGTH(*first) ==
                  grpc_byte_buffer_length(call->request))) {
        api->start(&call->base, GRPC_SLICE_START_PTR(*first),
                   GRPC_SLICE_LENGTH(*first));
        return;
    }
    (void)grpc_byte_buffer_reader_init(&reader, call->request);
    whole = grpc_byte_buffer_reader_readall(&reader);
    api->start(&call->base, GRPC_SLICE_START_PTR(whole),
               GRPC_SLICE_LENGTH(whole));
    grpc_slice_unref(whole);
}

static void
on_read(struct wp_rpc_tag *tag, bool ok)
{
    struct wp_rpc_call *call =
        WP_CONTAINER_OF(tag, struct wp_rpc_call, on_read);

    if (!ok || call->request == NULL) {
        finish(call, WP_OK, NULL, 0);
        return;
    }
    wp_arena_reset(&call->base.arena);
    run_method(call);
}

/* C-core's deadline on our clock; both are CLOCK_MONOTONIC. */
static int64_t
deadline_ns(const struct wp_rpc_call *call, int64_t now_ns)
{
    gpr_timespec at = call->deadline;
    const struct wp_rpc_config *config = &call->queue->server->config;

    if (at.tv_sec == INT64_MAX) {
        return wp_time_add(now_ns,
                           wp_rpc_call_method(call)->kind == WP_RPC_UNARY
                               ? config->deadline_default_ns
                               : STREAM_DEADLINE_NS);
    }
    if (WP_UNLIKELY(at.clock_type != GPR_CLOCK_MONOTONIC)) {
        at = gpr_convert_clock_type(at, GPR_CLOCK_MONOTONIC);
    }
    if (at.tv_sec >= now_ns / WP_NS_PER_S + STREAM_DEADLINE_NS / WP_NS_PER_S) {
        return wp_time_add(now_ns, STREAM_DEADLINE_NS);
    }
    return at.tv_sec * WP_NS_PER_S + at.tv_nsec;
}

/* What stands between the caller and the method. False: finished. */
static bool
admit(struct wp_rpc_call *call)
{
    struct wp_rpc_server *server = call->queue->server;
    int64_t now_ns = wp_clock_mono_ns(server->clock);

    if (WP_UNLIKELY(call->arena == WP_RPC_NO_ARENA)) {
        WP_RPC_COUNT(&call->queue->refused, 1);
        finish(call, WP_RESOURCE_EXHAUSTED,
               "too many calls in flight (setting calls_max)",
               100 * WP_NS_PER_MS);
        return false;
    }
    call->base.deadline_ns = deadline_ns(call, now_ns);
    if (WP_UNLIKELY(call->base.deadline_ns <= now_ns)) {
        finish(call, WP_DEADLINE_EXCEEDED,
               "the deadline had passed when the call arrived", 0);
        return false;
    }
    if (WP_UNLIKELY(
            !wp_rpc_peer_identify(server, call->handle, &call->base.who))) {
        finish(call, WP_PERMISSION_DENIED,
               "the caller is not among the configured principals", 0);
        return false;
    }
    if (WP_UNLIKELY(wp_rpc_call_method(call)->api->admin_only &&
                    !call->base.who.admin)) {
        finish(call, WP_PERMISSION_DENIED, "the method needs the admin right",
               0);
        return false;
    }
    return true;
}

static void
open_call(struct wp_rpc_call *call)
{
    wp_rpc_queue_open(call);
    call->base.cancelled = NULL;
    call->base.writable = NULL;
    call->base.state = NULL;
    call->base.service = wp_rpc_call_method(call)->service->self;
    call->headers_sent = false;
    call->has_details = false;
    call->closed_early = 0;
    call->closed_seen = false;
    call->done_seen = false;
    call->on_done.done = on_done_at_once;
    atomic_store_explicit(&call->flags, 0, memory_order_relaxed);
}

static void
on_new(struct wp_rpc_tag *tag, bool ok)
{
    struct wp_rpc_call *call = WP_CONTAINER_OF(tag, struct wp_rpc_call, on_new);

    if (!ok) { /* The server is shutting down. */
        wp_rpc_queue_put_free(call);
        return;
    }
    wp_rpc_queue_arm(call->queue, call->method);
    open_call(call);
    wp_rpc_call_starting = call;
    if (admit(call)) {
        WP_RPC_COUNT(&call->queue->started, 1);
        run_method(call);
    }
    if (wp_rpc_call_starting == call) {
        /* Not answered here. Another thread may be answering right now: it
         * starts a batch of sends only, this one receives only, and the event
         * of neither is taken before this function has returned. */
        wp_rpc_call_starting = NULL;
        call->on_done.done = on_done;
        start_watching_close(call);
    }
}

void
wp_rpc_call_init(struct wp_rpc_queue *queue, struct wp_rpc_call *call)
{
    call->base.ops = &wp_rpc_call_ops;
    call->queue = queue;
    call->arena = WP_RPC_NO_ARENA;
    call->on_new.done = on_new;
    call->on_closed.done = on_closed;
    call->on_sent.done = on_sent;
    call->on_read.done = on_read;
    grpc_metadata_array_init(&call->metadata);
    atomic_init(&call->flags, 0);
    atomic_init(&call->sent, false);
}
