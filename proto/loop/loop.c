#include "proto/loop/loop.h"

#include <event2/event.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/channel.h"
#include "proto/loop/thread.h"

enum {
    /* Mail run in one go before sockets and timers get their turn. */
    MESSAGES_BATCH = 256,
};

struct wp_loop {
    struct wp_channel channel;
    struct event_base *base;
    struct event *channel_event;
    pthread_t thread;
    char name[16];
    /* Written by the owner around the thread's life; release in start and stop
     * pairs with the acquire in running(). */
    _Atomic(bool) running;
};

static bool
running(const struct wp_loop *loop)
{
    return atomic_load_explicit(&loop->running, memory_order_acquire);
}

static void
on_messages(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_loop *loop = ctx;

    (void)fd;
    (void)what;
    (void)wp_channel_run(&loop->channel, MESSAGES_BATCH);
}

struct event_base *
wp_loop_base_create(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;

    if (config != NULL) {
        if (event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0) {
            base = event_base_new_with_config(config);
        }
        event_config_free(config);
    }
    return base;
}

void
wp_loop_base_destroy(struct event_base *base)
{
    if (base != NULL) {
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
        event_base_free(base);
    }
}

struct wp_loop *
wp_loop_create(const char *name, uint32_t messages_max, struct wp_err *err)
{
    struct wp_loop *loop =
        aligned_alloc(_Alignof(struct wp_loop), sizeof *loop);

    if (loop != NULL) {
        memset(loop, 0, sizeof *loop);
    }
    if (loop == NULL || !wp_channel_init(&loop->channel, messages_max)) {
        free(loop);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                         "no memory or descriptor for the loop '%s'", name);
        return NULL;
    }
    (void)snprintf(loop->name, sizeof loop->name, "%s", name);
    loop->base = wp_loop_base_create();
    if (loop->base != NULL) {
        loop->channel_event =
            event_new(loop->base, wp_channel_fd(&loop->channel),
                      EV_READ | EV_PERSIST, on_messages, loop);
    }
    if (loop->channel_event == NULL ||
        event_add(loop->channel_event, NULL) != 0) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                         "libevent refused the loop '%s'", name);
        wp_loop_destroy(loop);
        return NULL;
    }
    return loop;
}

static void *
thread_main(void *ctx)
{
    struct wp_loop *loop = ctx;

    (void)pthread_setname_np(pthread_self(), loop->name);
    (void)event_base_loop(loop->base, EVLOOP_NO_EXIT_ON_EMPTY);
    return NULL;
}

enum wp_status
wp_loop_start(struct wp_loop *loop, struct wp_err *err)
{
    int rc;

    WP_ASSERT(!running(loop));
    /* Before create: what the thread does first already belongs to it. The
     * store of loop->thread is only read by other threads that learn of the
     * loop later. */
    atomic_store_explicit(&loop->running, true, memory_order_release);
    rc = wp_thread_start(&loop->thread, thread_main, loop);
    if (rc != 0) {
        atomic_store_explicit(&loop->running, false, memory_order_release);
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, rc,
                          "no thread for the loop '%s'", loop->name);
    }
    return WP_OK;
}

bool
wp_loop_post(struct wp_loop *loop, void (*run)(void *, uint64_t, uint64_t),
             void *ctx, uint64_t a, uint64_t b)
{
    return wp_channel_send(&loop->channel, (struct wp_message){run, ctx, a, b});
}

/* For the few posts that must arrive: a full channel is being emptied. */
static void
post_surely(struct wp_loop *loop, void (*run)(void *, uint64_t, uint64_t),
            void *ctx)
{
    while (!wp_loop_post(loop, run, ctx, 0, 0)) {
        (void)sched_yield();
    }
}

static void
end_loop(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_loop *loop = ctx;

    (void)a;
    (void)b;
    (void)event_base_loopbreak(loop->base);
}

void
wp_loop_stop(struct wp_loop *loop)
{
    if (!running(loop)) {
        return;
    }
    post_surely(loop, end_loop, loop);
    wp_loop_join(loop);
}

void
wp_loop_join(struct wp_loop *loop)
{
    WP_ASSERT(running(loop) && !pthread_equal(pthread_self(), loop->thread));
    (void)pthread_join(loop->thread, NULL);
    atomic_store_explicit(&loop->running, false, memory_order_release);
}

void
wp_loop_destroy(struct wp_loop *loop)
{
    if (loop == NULL) {
        return;
    }
    WP_ASSERT(!running(loop));
    if (loop->channel_event != NULL) {
        event_free(loop->channel_event);
    }
    wp_loop_base_destroy(loop->base);
    wp_channel_fini(&loop->channel);
    free(loop);
}

struct call {
    void (*run)(void *ctx);
    void *ctx;
    sem_t done;
};

static void
run_call(void *ctx, uint64_t a, uint64_t b)
{
    struct call *call = ctx;

    (void)a;
    (void)b;
    call->run(call->ctx);
    (void)sem_post(&call->done);
}

void
wp_loop_call(struct wp_loop *loop, void (*run)(void *), void *ctx)
{
    struct call call = {.run = run, .ctx = ctx};

    if (!running(loop)) {
        run(ctx);
        return;
    }
    WP_ASSERT(!pthread_equal(pthread_self(), loop->thread));
    (void)sem_init(&call.done, 0, 0);
    post_surely(loop, run_call, &call);
    while (sem_wait(&call.done) != 0) {
        /* Interrupted by a signal: the call still runs. */
    }
    (void)sem_destroy(&call.done);
}

struct event_base *
wp_loop_base(struct wp_loop *loop)
{
    return loop->base;
}

void
wp_loop_assert_role(const struct wp_loop *loop)
{
    WP_ASSERT(!running(loop) || pthread_equal(pthread_self(), loop->thread));
}
