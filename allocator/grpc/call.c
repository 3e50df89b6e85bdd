/* The life of a call: see the head of allocator/grpc/internal.h. */
#include "allocator/grpc/internal.h"

#include <stdio.h>
#include <string.h>

/* A stream lives until one side leaves; the contract wants a finite number. */
#define STREAM_DEADLINE_NS (INT64_C(366) * 24 * 3600 * WP_NS_PER_S)
/* For the whole of a request's message. */
#define ARRIVAL_NS (10 * WP_NS_PER_S)
/* For a client to take its answer. */
#define TRANSFER_NS (30 * WP_NS_PER_S)

enum {
    UNFLUSHED_MAX = 32, /* Calls of a busy thread between two flushes. */
};

static struct wp_rpc_call *
from_stream(struct wp_h2_stream *stream)
{
    return WP_CONTAINER_OF(stream, struct wp_rpc_call, stream);
}

/* --- what is posted --- */

void
wp_rpc_call_post(struct wp_rpc_call *call, struct wp_rpc_post *post)
{
    struct wp_rpc_thread *thread = call->thread;

    if (wp_h2_worker_here() != call->stream.worker) {
        wp_h2_worker_send(call->stream.worker, &post->link);
        return;
    }
    post->link.next = NULL;
    if (thread->last_post != NULL) {
        thread->last_post->next = &post->link;
    } else {
        thread->first_post = &post->link;
    }
    thread->last_post = &post->link;
}

void
wp_rpc_call_message(void *ctx, struct wp_linked_message *message)
{
    struct wp_rpc_post *post =
        WP_CONTAINER_OF(message, struct wp_rpc_post, link);

    (void)ctx;
    post->run(post);
}

static void
run_posts(struct wp_rpc_thread *thread)
{
    while (thread->first_post != NULL) {
        struct wp_linked_message *message = thread->first_post;

        thread->first_post = message->next;
        if (thread->first_post == NULL) {
            thread->last_post = NULL;
        }
        wp_rpc_call_message(NULL, message);
    }
}

/* --- while its message comes --- */

static void
stop_waiting(struct wp_rpc_call *call)
{
    if (call->waiting.next != &call->waiting) {
        wp_list_remove(&call->waiting);
        call->thread->n_waiting--;
    }
}

/* So that those who send heads of requests only take no call from others. */
static void
wait_for_message(struct wp_rpc_call *call)
{
    struct wp_rpc_thread *thread = call->thread;

    wp_list_push_back(&thread->waiting, &call->waiting);
    thread->n_waiting++;
    if (WP_UNLIKELY(thread->n_waiting > WP_RPC_WAITING_MAX)) {
        wp_h2_stream_turn_away(
            &WP_CONTAINER_OF(thread->waiting.next, struct wp_rpc_call, waiting)
                 ->stream);
    }
}

/* --- its end --- */

static void
release(struct wp_rpc_call *call)
{
    if (event_initialized(&call->timer)) {
        (void)event_del(&call->timer);
    }
    wp_list_remove(&call->fresh);
    wp_rpc_message_drop(call);
    wp_rpc_reply_drop(call, &call->reserved);
    wp_rpc_reply_drop(call, &call->outgoing);
    WP_RPC_COUNT(&call->thread->in_flight, (uint32_t)-1);
    wp_h2_stream_free(&call->stream);
}

/* Its clock is set once the thread has written what it can. */
static void
look_again(struct wp_rpc_call *call)
{
    if (call->fresh.next == &call->fresh) {
        wp_list_push_back(&call->thread->fresh, &call->fresh);
    }
}

static void
end_trace(struct wp_rpc_call *call, enum wp_status status)
{
    struct wp_span span = {.name = wp_rpc_call_method(call)->api->path + 1,
                           .kind = WP_SPAN_SERVER,
                           .is_rpc = true,
                           .status = status};

    wp_trace_end(&call->base.trace, &span,
                 wp_clock_mono_ns(call->server->clock));
}

/* The clock is read once for all that a turn of the thread answers. */
static void
measure(struct wp_rpc_call *call)
{
    struct wp_rpc_thread *thread = call->thread;
    enum wp_status status = call->closed ? WP_CANCELLED : call->status;

    if (WP_UNLIKELY(call->base.trace.tracer != NULL)) {
        end_trace(call, status);
    }
    if (wp_rpc_call_method(call)->kind != WP_RPC_UNARY) {
        return;
    }
    if (thread->answers_ns < call->opened_ns) {
        thread->answers_ns = wp_clock_mono_ns(call->server->clock);
    }
    wp_rpc_durations_add(
        &thread->durations[call->method][wp_status_grpc_code(status)],
        thread->answers_ns - call->opened_ns);
    if (call->base.served != 0 && status == WP_OK) {
        wp_rpc_durations_add(&thread->served[call->base.served],
                             thread->answers_ns - call->opened_ns);
    }
}

/* What the transport knows better than the method. */
static void
overrule(struct wp_rpc_call *call)
{
    if (call->broken != WP_OK) {
        call->status = call->broken;
        (void)snprintf(call->details, sizeof call->details, "%s",
                       call->broken_why);
        call->retry_after_ns = 0;
    }
    if (call->late) {
        call->status = WP_DEADLINE_EXCEEDED;
        call->retry_after_ns = 0;
    }
}

static void
answer(struct wp_rpc_call *call)
{
    call->done = true;
    overrule(call);
    measure(call);
    if (call->closed) {
        release(call);
        return;
    }
    if (call->status == WP_OK && call->reserved.bytes != NULL) {
        call->outgoing = call->reserved;
        call->reserved.bytes = NULL;
        wp_h2_stream_send(&call->stream, call->outgoing.bytes,
                          call->outgoing.len);
    }
    wp_h2_stream_end(&call->stream);
    look_again(call);
}

static void
take_finish(struct wp_rpc_post *post)
{
    struct wp_rpc_call *call =
        WP_CONTAINER_OF(post, struct wp_rpc_call, finish_post);

    if ((atomic_load_explicit(&call->flags, memory_order_acquire) &
         WP_RPC_WRITING) != 0) {
        call->finish_due = true;
        look_again(call);
    } else {
        answer(call);
    }
}

/* The stream's message has left, or never will: the next may come. */
static void
writing_ends(struct wp_rpc_call *call)
{
    wp_rpc_reply_drop(call, &call->outgoing);
    call->piece_out = false;
    /* Release: the next sender may reuse what this message used. */
    (void)atomic_fetch_and_explicit(&call->flags, ~(uint32_t)WP_RPC_WRITING,
                                    memory_order_acq_rel);
}

static void
take_message(struct wp_rpc_post *post)
{
    struct wp_rpc_call *call =
        WP_CONTAINER_OF(post, struct wp_rpc_call, send_post);

    if (!call->closed) {
        call->piece_out = true;
        wp_h2_stream_send(&call->stream, call->outgoing.bytes,
                          call->outgoing.len);
        return;
    }
    writing_ends(call);
    if (call->finish_due) {
        answer(call);
    }
}

void
wp_rpc_call_sent(struct wp_h2_stream *stream)
{
    struct wp_rpc_call *call = from_stream(stream);

    if (!call->piece_out) {
        return;
    }
    writing_ends(call);
    if (call->finish_due) {
        answer(call);
    } else if (wp_rpc_call_method(call)->kind == WP_RPC_LOCKSTEP) {
        wp_rpc_message_go_on(call);
    } else if ((atomic_load_explicit(&call->flags, memory_order_acquire) &
                (WP_RPC_CANCELLED | WP_RPC_FINISHED)) == 0 &&
               call->base.writable != NULL) {
        call->base.writable(&call->base);
    }
}

/* Nobody waits for the answer any more: the method is told, once. */
static void
cancel(struct wp_rpc_call *call)
{
    uint32_t before = atomic_fetch_or_explicit(&call->flags, WP_RPC_CANCELLED,
                                               memory_order_acq_rel);

    if ((before & WP_RPC_CANCELLED) != 0) {
        return;
    }
    WP_RPC_COUNT(&call->thread->cancelled, 1);
    /* A finish that starts now on another thread is the method's to settle; the
     * object outlives both, for its post is still to come. */
    if ((before & WP_RPC_FINISHED) != 0) {
        return;
    }
    if (!call->started || wp_rpc_call_method(call)->kind == WP_RPC_LOCKSTEP) {
        wp_rpc_call_fail(call, WP_CANCELLED, NULL);
    } else if (call->base.cancelled != NULL) {
        call->base.cancelled(&call->base);
    }
}

void
wp_rpc_call_closed(struct wp_h2_stream *stream)
{
    struct wp_rpc_call *call = from_stream(stream);

    call->closed = true;
    stop_waiting(call);
    if (!stream->answered) {
        cancel(call);
    }
    if (call->piece_out) {
        writing_ends(call);
        if (call->finish_due) {
            call->done = true;
        }
    }
    if (call->done) {
        release(call);
    }
}

/* --- its clock --- */

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_rpc_call *call = ctx;
    struct wp_h2_worker *worker = call->stream.worker;

    (void)fd;
    (void)what;
    if (call->closed) {
        return;
    }
    if (call->done || call->finish_due) { /* The answer was not taken. */
        wp_h2_stream_reset(&call->stream);
    } else if (!call->started) {
        wp_rpc_call_fail(call, WP_DEADLINE_EXCEEDED,
                         "the request did not arrive in time");
    } else {
        call->late = true;
        cancel(call);
        if ((atomic_load_explicit(&call->flags, memory_order_acquire) &
             WP_RPC_FINISHED) == 0) {
            wp_h2_stream_reset(&call->stream);
        }
    }
    wp_h2_worker_settle(worker);
}

static void
set_timer(struct wp_rpc_call *call)
{
    int64_t now_ns = wp_clock_mono_ns(call->server->clock);
    int64_t due_ns =
        call->has_deadline ? call->base.deadline_ns : WP_TIME_NEVER;
    struct timeval tv;

    if (call->done || call->finish_due) {
        due_ns = now_ns + TRANSFER_NS;
    } else if (!call->started && due_ns > call->opened_ns + ARRIVAL_NS) {
        due_ns = call->opened_ns + ARRIVAL_NS;
    }
    if (due_ns == WP_TIME_NEVER) {
        (void)event_del(&call->timer);
        return;
    }
    tv = wp_timeval(due_ns - now_ns);
    (void)event_add(&call->timer, &tv);
}

void
wp_rpc_call_turn(void *ctx, struct wp_h2_worker *worker, bool last)
{
    struct wp_rpc_server *server = ctx;
    struct wp_rpc_thread *thread =
        &server->threads[wp_h2_worker_number(worker)];
    struct wp_list *node;

    run_posts(thread);
    thread->answers_ns = 0;
    while (last && (node = wp_list_pop_front(&thread->fresh)) != NULL) {
        struct wp_rpc_call *call =
            WP_CONTAINER_OF(node, struct wp_rpc_call, fresh);

        if (!call->closed) {
            set_timer(call);
        }
    }
    if (last && server->config.written != NULL) {
        server->config.written(server->config.written_ctx);
    }
}

/* --- its beginning --- */

void
wp_rpc_call_init(void *ctx, struct wp_h2_stream *stream)
{
    struct wp_rpc_server *server = ctx;
    struct wp_rpc_call *call = from_stream(stream);

    call->server = server;
    call->thread = &server->threads[wp_h2_worker_number(stream->worker)];
    call->room =
        call->thread->rooms + (size_t)call->thread->n_rooms++ *
                                  (WP_RPC_REPLY_INLINE + WP_CALL_ARENA_SIZE);
    call->base.ops = &wp_rpc_call_ops;
    call->finish_post.run = take_finish;
    call->send_post.run = take_message;
    wp_list_init(&call->fresh);
    wp_list_init(&call->waiting);
    atomic_init(&call->flags, 0);
}

void
wp_rpc_call_open(struct wp_rpc_call *call, uint32_t method,
                 const struct wp_identity *who, int64_t timeout_ns,
                 const struct wp_trace_context *trace)
{
    struct wp_rpc_server *server = call->server;
    int64_t now_ns = wp_clock_mono_ns(server->clock);

    if (WP_UNLIKELY(!event_initialized(&call->timer))) {
        (void)evtimer_assign(&call->timer,
                             wp_h2_worker_base(call->stream.worker), on_timer,
                             call);
    }
    call->method = method;
    call->base.who = *who;
    call->base.served = 0;
    call->base.cancelled = NULL;
    call->base.writable = NULL;
    call->base.received = NULL;
    call->base.ended = NULL;
    call->base.state = NULL;
    call->base.service = wp_rpc_call_method(call)->service->self;
    wp_arena_init(&call->base.arena, call->room + WP_RPC_REPLY_INLINE,
                  WP_CALL_ARENA_SIZE);
    call->has_deadline = timeout_ns >= 0;
    if (timeout_ns < 0) {
        timeout_ns = wp_rpc_call_method(call)->kind == WP_RPC_UNARY
                         ? server->config.deadline_default_ns
                         : STREAM_DEADLINE_NS;
    } else if (timeout_ns > STREAM_DEADLINE_NS) {
        timeout_ns = STREAM_DEADLINE_NS;
    }
    call->base.deadline_ns = wp_time_add(now_ns, timeout_ns);
    call->opened_ns = now_ns;
    wp_trace_begin(&call->base.trace, server->config.tracer, trace, now_ns);
    call->details[0] = '\0';
    call->late = false;
    call->started = false;
    call->ended = false;
    call->closed = false;
    call->piece_out = false;
    call->finish_due = false;
    call->done = false;
    call->compressed = false;
    call->broken = WP_OK;
    call->prefix_len = 0;
    atomic_store_explicit(&call->flags, 0, memory_order_relaxed);
    WP_RPC_COUNT(&call->thread->in_flight, 1);
    look_again(call);
    wait_for_message(call);
}

void
wp_rpc_call_fail(struct wp_rpc_call *call, enum wp_status status,
                 const char *message)
{
    wp_rpc_call_ops.finish(&call->base, status, message, 0);
}

void
wp_rpc_call_break(struct wp_rpc_call *call, enum wp_status status,
                  const char *message)
{
    if (!call->started ||
        wp_rpc_call_method(call)->kind != WP_RPC_BIDIRECTIONAL) {
        wp_rpc_call_fail(call, status, message);
        return;
    }
    call->broken = status;
    call->broken_why = message;
    cancel(call);
}

/* Among the calls in progress. One that is refused stays among those that wait:
 * its answer may not be taken. */
static bool
enter(struct wp_rpc_call *call)
{
    enum wp_peer_verdict verdict = wp_h2_stream_count(&call->stream);

    if (WP_LIKELY(verdict == WP_PEER_ADMITTED)) {
        stop_waiting(call);
        return true;
    }
    WP_RPC_COUNT(&call->thread->refused, 1);
    wp_rpc_call_ops.finish(
        &call->base, WP_RESOURCE_EXHAUSTED,
        verdict == WP_PEER_OVER_ALL
            ? "too many calls in progress (setting calls_max)"
            : "too many calls of one peer in progress (of calls_max a part is "
              "left to others)",
        WP_RPC_REFUSED_RETRY_NS);
    return false;
}

void
wp_rpc_call_run(struct wp_rpc_call *call, const uint8_t *message, size_t len)
{
    const struct wp_rpc_config *config = &call->server->config;
    struct wp_rpc_thread *thread = call->thread;

    if (call->started &&
        wp_rpc_call_method(call)->kind == WP_RPC_BIDIRECTIONAL) {
        call->base.received(&call->base, message, len);
        return;
    }
    if (call->started) { /* WP_RPC_LOCKSTEP: another round. */
        wp_arena_reset(&call->base.arena);
    } else if (WP_UNLIKELY(!enter(call))) {
        return;
    } else {
        call->started = true;
        WP_RPC_COUNT(&thread->started, 1);
    }
    wp_rpc_call_method(call)->api->start(&call->base, message, len);
    if (config->flush != NULL && ++thread->unflushed >= UNFLUSHED_MAX) {
        thread->unflushed = 0;
        if (config->wants_flush(config->flush_ctx)) {
            config->flush(config->flush_ctx);
        }
    }
}
