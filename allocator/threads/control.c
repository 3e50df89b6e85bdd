#include "allocator/threads/control.h"

#include <event2/event.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "pool/base/assert.h"

enum state {
    ASLEEP,
    POLLING,
    MARKED,
};

struct wp_control {
    struct wp_control_config config;
    struct event *timer;
    /* Not the loop's channel: that can be full, and a wake must not be lost. */
    int wake_fd;
    struct event *wake_event;
    /* enum state. A waker's exchange to MARKED (release) pairs with the
     * control thread's exchange to POLLING (acquire): what the waker did
     * before is seen by the turn. */
    _Atomic(int) state;
    _Atomic(uint64_t) turns;
    _Atomic(uint64_t) writes;
};

/* Of this thread: it wakes late, and whom it has yet to wake. */
static _Thread_local bool wakes_late;
static _Thread_local struct wp_control *owed;

static void
set_timer(struct wp_control *control, int64_t due_ns)
{
    int64_t now_ns = wp_clock_mono_ns(control->config.clock);
    struct timeval tv = wp_timeval(due_ns - now_ns);

    if (due_ns == WP_TIME_NEVER) {
        (void)event_del(control->timer);
    } else {
        (void)event_add(control->timer, &tv);
    }
}

/* A turn, and what comes after it. */
static void
turn(struct wp_control *control)
{
    int before = atomic_exchange_explicit(&control->state, POLLING,
                                          memory_order_acq_rel);
    int64_t due_ns = control->config.run(control->config.ctx);
    int expected = POLLING;

    atomic_fetch_add_explicit(&control->turns, 1, memory_order_relaxed);
    /* A look that found no mark goes to sleep, unless one has come since. */
    if (before != MARKED && atomic_compare_exchange_strong_explicit(
                                &control->state, &expected, ASLEEP,
                                memory_order_acq_rel, memory_order_relaxed)) {
        set_timer(control, due_ns);
        return;
    }
    int64_t poll_ns = wp_time_add(wp_clock_mono_ns(control->config.clock),
                                  WP_CONTROL_POLL_NS);
    set_timer(control, due_ns < poll_ns ? due_ns : poll_ns);
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    turn(ctx);
}

static void
on_wake(evutil_socket_t fd, short what, void *ctx)
{
    uint64_t ignored;
    ssize_t n = read(fd, &ignored, sizeof ignored);

    (void)n;
    (void)what;
    turn(ctx);
}

static void
write_wake(struct wp_control *control)
{
    uint64_t one = 1;
    ssize_t n = write(control->wake_fd, &one, sizeof one);

    WP_ASSERT(n == (ssize_t)sizeof one);
    atomic_fetch_add_explicit(&control->writes, 1, memory_order_relaxed);
}

void
wp_control_wake(void *ctx)
{
    struct wp_control *control = ctx;
    int before;

    /* Always an exchange, never only a look: it orders what the waker did
     * before it against the turn that takes the mark. */
    before =
        atomic_exchange_explicit(&control->state, MARKED, memory_order_acq_rel);
    if (before == ASLEEP && wakes_late && owed == NULL) {
        owed = control;
    } else if (before == ASLEEP) {
        write_wake(control);
    }
}

void
wp_control_wake_late(void *ctx)
{
    wakes_late = true;
    if (owed == ctx) {
        write_wake(ctx);
        owed = NULL;
    }
}

struct wp_control *
wp_control_create(const struct wp_control_config *config, struct wp_err *err)
{
    struct wp_control *control = calloc(1, sizeof *control);
    struct event_base *base = wp_loop_base(config->loop);

    if (control == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    control->config = *config;
    atomic_init(&control->state, ASLEEP);
    control->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    control->timer = event_new(base, -1, 0, on_timer, control);
    if (control->wake_fd >= 0) {
        control->wake_event = event_new(base, control->wake_fd,
                                        EV_READ | EV_PERSIST, on_wake, control);
    }
    if (control->timer == NULL || control->wake_event == NULL ||
        event_add(control->wake_event, NULL) != 0) {
        wp_control_destroy(control);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                         "no memory or descriptor for the control thread");
        return NULL;
    }
    return control;
}

void
wp_control_destroy(struct wp_control *control)
{
    if (control == NULL) {
        return;
    }
    if (control->timer != NULL) {
        event_free(control->timer);
    }
    if (control->wake_event != NULL) {
        event_free(control->wake_event);
    }
    if (control->wake_fd >= 0) {
        (void)close(control->wake_fd);
    }
    free(control);
}

struct wp_control_stats
wp_control_stats(const struct wp_control *control)
{
    return (struct wp_control_stats){
        atomic_load_explicit(&control->turns, memory_order_relaxed),
        atomic_load_explicit(&control->writes, memory_order_relaxed)};
}
