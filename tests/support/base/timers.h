/* tests/support/base/timers.h - a timer of the code under test, found by the
 * argument of its callback: how long it waits, and that it is due, without
 * waiting for that. */
#ifndef WP_TESTS_SUPPORT_BASE_TIMERS_H
#define WP_TESTS_SUPPORT_BASE_TIMERS_H

#include <event2/event.h>
#include <stdint.h>
#include <stdlib.h>

struct timers_found {
    const void *arg;
    const struct event *event; /* NULL: none waits. */
    struct timeval due;
};

static inline int
timers_look(const struct event_base *base, const struct event *event, void *ctx)
{
    struct timers_found *found = ctx;

    (void)base;
    if (event_get_callback_arg(event) == found->arg &&
        event_pending(event, EV_TIMEOUT, &found->due)) {
        found->event = event;
    }
    return 0;
}

/* Seconds; -1: it does not wait. Clocks are not quite of one mind. */
static inline double
timers_left_s(struct event_base *base, const void *arg)
{
    struct timers_found found = {.arg = arg};
    struct timeval now;
    double left;

    (void)event_base_foreach_event(base, timers_look, &found);
    if (found.event == NULL) {
        return -1;
    }
    (void)evutil_gettimeofday(&now, NULL);
    left = (double)(found.due.tv_sec - now.tv_sec) +
           (double)(found.due.tv_usec - now.tv_usec) / 1e6;
    return left > 0 ? left : 0;
}

/* It is due, whenever that is; aborts when it does not wait. */
static inline void
timers_fire(struct event_base *base, const void *arg)
{
    struct timers_found found = {.arg = arg};

    (void)event_base_foreach_event(base, timers_look, &found);
    if (found.event == NULL) {
        abort();
    }
    event_active((struct event *)(uintptr_t)found.event, EV_TIMEOUT, 0);
    if (event_base_loop(base, EVLOOP_NONBLOCK) == -1) {
        abort();
    }
}

struct timers_all {
    struct event *events[64];
    size_t n;
};

static inline int
timers_collect(const struct event_base *base, const struct event *event,
               void *ctx)
{
    struct timers_all *all = ctx;

    (void)base;
    if (event_pending(event, EV_TIMEOUT, NULL)) {
        if (all->n == sizeof all->events / sizeof(all->events[0])) {
            abort();
        }
        all->events[all->n++] = (struct event *)(uintptr_t)event;
    }
    return 0;
}

/* All are due: for those that ask a clock of the test's what to do. */
static inline void
timers_fire_all(struct event_base *base)
{
    struct timers_all all = {.n = 0};

    (void)event_base_foreach_event(base, timers_collect, &all);
    for (size_t i = 0; i < all.n; i++) {
        event_active(all.events[i], EV_TIMEOUT, 0);
    }
    if (event_base_loop(base, EVLOOP_NONBLOCK) == -1) {
        abort();
    }
}

#endif
