/* A serving thread: its event loop, and the ways into it. */
#include "proto/h2/internal.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "proto/loop/loop.h"

enum {
    SPINS_SKIPPED_MAX = 63,
};
/* Others may have the processor once in so long. */
#define PREEMPTED_GAP_NS (2 * WP_NS_PER_MS)

static _Thread_local struct wp_h2_worker *here;

struct wp_h2_worker *
wp_h2_worker_here(void)
{
    return here;
}

uint32_t
wp_h2_worker_number(const struct wp_h2_worker *worker)
{
    return worker->number;
}

struct event_base *
wp_h2_worker_base(struct wp_h2_worker *worker)
{
    return worker->base;
}

static void
wake(const struct wp_h2_worker *worker)
{
    uint64_t one = 1;

    while (write(worker->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

static void
send_to(struct wp_h2_worker *worker, struct wp_linked_channel *channel,
        struct wp_linked_message *message)
{
    if (wp_linked_send(channel, message) == WP_LINKED_WAKE) {
        wake(worker);
    }
}

void
wp_h2_worker_send(struct wp_h2_worker *worker,
                  struct wp_linked_message *message)
{
    send_to(worker, &worker->messages, message);
}

void
wp_h2_worker_hand(struct wp_h2_worker *worker, struct wp_h2_conn *conn)
{
    conn->worker = worker;
    (void)atomic_fetch_add_explicit(&worker->n_conns, 1, memory_order_relaxed);
    send_to(worker, &worker->handed, &conn->handed);
}

void
wp_h2_worker_order(struct wp_h2_worker *worker, uint32_t order)
{
    (void)atomic_fetch_or_explicit(&worker->orders, order,
                                   memory_order_release);
    wake(worker);
}

static void
free_dead(struct wp_h2_worker *worker)
{
    while (worker->dead != NULL) {
        struct wp_h2_conn *conn = worker->dead;

        worker->dead = conn->next_dead;
        (void)atomic_fetch_sub_explicit(&worker->n_conns, 1,
                                        memory_order_relaxed);
        wp_h2_conn_free(conn);
    }
}

void
wp_h2_worker_settle(struct wp_h2_worker *worker)
{
    const struct wp_h2_handler *handler = &worker->server->handler;
    bool more;

    WP_ASSERT(!worker->settling);
    worker->settling = true;
    worker->events++;
    do {
        handler->turn(handler->ctx, worker, false);
        while (worker->dirty != NULL) {
            struct wp_h2_conn *conn = worker->dirty;

            worker->dirty = conn->next_dirty;
            conn->dirty = false;
            wp_h2_conn_write(conn);
        }
        more = wp_h2_stream_tell_sent(worker);
    } while (more || worker->dirty != NULL);
    handler->turn(handler->ctx, worker, true);
    free_dead(worker);
    worker->settling = false;
}

static void
take_handed(struct wp_h2_worker *worker)
{
    struct wp_linked_message *message = wp_linked_receive(&worker->handed);

    while (message != NULL) {
        struct wp_h2_conn *conn =
            WP_CONTAINER_OF(message, struct wp_h2_conn, handed);

        message = message->next;
        wp_h2_conn_begin(conn);
        if (worker->leaving) {
            wp_h2_conn_leave(conn);
        }
    }
}

static void
for_each_conn(struct wp_h2_worker *worker, void (*act)(struct wp_h2_conn *))
{
    WP_LIST_FOREACH (node, &worker->conns) {
        act(WP_CONTAINER_OF(node, struct wp_h2_conn, node));
    }
}

static void
obey(struct wp_h2_worker *worker)
{
    uint32_t orders =
        atomic_exchange_explicit(&worker->orders, 0, memory_order_acquire);

    if ((orders & WP_H2_ORDER_LEAVE) != 0) {
        worker->leaving = true;
        for_each_conn(worker, wp_h2_conn_leave);
    }
    if ((orders & (WP_H2_ORDER_HANG_UP | WP_H2_ORDER_END)) != 0) {
        for_each_conn(worker, wp_h2_conn_close);
    }
    if ((orders & WP_H2_ORDER_END) != 0) {
        worker->ending = true;
    }
}

static void
take_messages(struct wp_h2_worker *worker)
{
    const struct wp_h2_handler *handler = &worker->server->handler;
    struct wp_linked_message *message = wp_linked_receive(&worker->messages);

    while (message != NULL) {
        struct wp_linked_message *next = message->next;

        handler->message(handler->ctx, message);
        message = next;
    }
}

static void
take_all(struct wp_h2_worker *worker)
{
    take_handed(worker);
    take_messages(worker);
    obey(worker);
    wp_h2_worker_settle(worker);
}

static void
on_wake(evutil_socket_t fd, short what, void *ctx)
{
    uint64_t count;

    (void)what;
    (void)!read(fd, &count, sizeof(count));
    take_all(ctx);
}

/* --- before it sleeps --- */

/* A processor for each thread, and one for those who call. */
static bool
can_spin(const struct wp_h2_server *server)
{
    cpu_set_t cpus;

    return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 &&
           (uint32_t)CPU_COUNT(&cpus) > server->n_workers;
}

/* Others have wanted the thread's processor since the last look, and not only
 * for what any kernel does for a moment: that interrupts most long spins. */
static bool
was_preempted(struct wp_h2_worker *worker)
{
    int64_t since_ns = worker->looked_ns;
    long before = worker->preempted;
    struct rusage usage;

    if (getrusage(RUSAGE_THREAD, &usage) != 0) {
        return true;
    }
    worker->preempted = usage.ru_nivcsw;
    worker->looked_ns = wp_clock_mono_ns(worker->server->clock);
    return worker->preempted - before >
           (worker->looked_ns - since_ns) / PREEMPTED_GAP_NS;
}

/* Looks for work for a while; true when there was some. After a spin for
 * nothing the next ones are left out, each time twice as many. */
static bool
spin(struct wp_h2_worker *worker)
{
    const struct wp_clock *clock = worker->server->clock;
    int64_t until_ns;

    if (worker->spins_skipped < worker->spins_to_skip) {
        worker->spins_skipped++;
        return false;
    }
    worker->spins_skipped = 0;
    until_ns = wp_clock_mono_ns(clock) + worker->spin_ns;
    do {
        (void)event_base_loop(worker->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    } while (worker->events == 0 && wp_clock_mono_ns(clock) < until_ns);
    if (worker->events > 0 && !was_preempted(worker)) {
        worker->spins_to_skip = 0;
    } else if (worker->spins_to_skip < SPINS_SKIPPED_MAX) {
        worker->spins_to_skip = 2 * worker->spins_to_skip + 1;
    }
    return worker->events > 0;
}

static bool
wants_flush(const struct wp_h2_worker *worker)
{
    const struct wp_h2_handler *handler = &worker->server->handler;

    return handler->wants_flush != NULL &&
           handler->wants_flush(handler->flush_ctx);
}

static void
flush(struct wp_h2_worker *worker)
{
    const struct wp_h2_handler *handler = &worker->server->handler;

    handler->flush(handler->flush_ctx);
    wp_h2_worker_settle(worker);
}

/* Sleeps only when nothing is left to be flushed; flushes when nothing else is
 * to be done at once. Who had nothing to do, and then one thing, does not look
 * for more first: calls come one at a time. */
static void
run_turn(struct wp_h2_worker *worker)
{
    bool wanted = wants_flush(worker);

    worker->events = 0;
    if (wanted || worker->spin_ns == 0 || !spin(worker)) {
        (void)event_base_loop(worker->base,
                              EVLOOP_ONCE | (wanted ? EVLOOP_NONBLOCK : 0));
    }
    if (wanted ? worker->events == 0
               : worker->events == 1 && wants_flush(worker)) {
        flush(worker);
    }
}

static void *
run(void *arg)
{
    struct wp_h2_worker *worker = arg;

    here = worker;
    worker->spin_ns =
        can_spin(worker->server) ? worker->server->config.spin_ns : 0;
    while (!worker->ending) {
        run_turn(worker);
    }
    return NULL;
}

enum wp_status
wp_h2_worker_create(struct wp_h2_server *server, uint32_t number,
                    struct wp_err *err)
{
    struct wp_h2_worker *worker = &server->workers[number];

    worker->server = server;
    worker->number = number;
    wp_list_init(&worker->conns);
    wp_linked_init(&worker->handed);
    wp_linked_init(&worker->messages);
    worker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    worker->base = server->config.base != NULL ? server->config.base
                                               : wp_loop_base_create();
    if (worker->wake_fd < 0 || worker->base == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "memory or descriptors for threads");
    }
    if (event_assign(&worker->on_wake, worker->base, worker->wake_fd,
                     EV_READ | EV_PERSIST, on_wake, worker) != 0 ||
        event_add(&worker->on_wake, NULL) != 0) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for events");
    }
    return wp_h2_stream_pool_create(worker, server->config.streams_per_thread,
                                    err);
}

enum wp_status
wp_h2_worker_start(struct wp_h2_worker *worker, struct wp_err *err)
{
    char name[16];
    int error;

    if (worker->server->config.base != NULL) {
        here = worker;
        return WP_OK;
    }
    error = pthread_create(&worker->thread, NULL, run, worker);
    if (error != 0) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, error,
                          "starting thread %u of %u", worker->number + 1,
                          worker->server->n_workers);
    }
    worker->threaded = true;
    (void)snprintf(name, sizeof(name), "wp-rpc-%u", worker->number);
    (void)pthread_setname_np(worker->thread, name);
    return WP_OK;
}

/* A thread that was never started does here what it would have done; a loop of
 * somebody else is not to be run for it. */
void
wp_h2_worker_join(struct wp_h2_worker *worker)
{
    wp_h2_worker_order(worker, WP_H2_ORDER_END);
    if (worker->threaded) {
        (void)pthread_join(worker->thread, NULL);
    } else if (worker->server->config.base != NULL) {
        take_all(worker);
        here = NULL;
    } else {
        (void)run(worker);
        here = NULL;
    }
}

void
wp_h2_worker_destroy(struct wp_h2_worker *worker)
{
    if (worker->base != NULL) {
        (void)event_del(&worker->on_wake);
        if (worker->server->config.base == NULL) {
            event_base_free(worker->base);
        }
    }
    if (worker->wake_fd >= 0) {
        (void)close(worker->wake_fd);
    }
    wp_h2_stream_pool_destroy(worker);
    wp_h2_memory_free(&worker->memory);
}
