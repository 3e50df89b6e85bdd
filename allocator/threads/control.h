/* allocator/threads/control.h - when the core gets its turns.
 *
 * The control thread runs one turn of the core (wp_pools_run) when it is woken,
 * and when the time has come that the last turn named. Waking a thread that
 * sleeps costs the waker an eventfd write (some 30 us when the core it runs on
 * is idle), and wakers are claims. So after a turn that was woken, the control
 * thread looks again every 2 ms without sleeping for good, and wakers only
 * leave a mark; the first look that finds no mark ends that. Under load no
 * claim pays for a wake-up and each is acted on within 2 ms; an idle daemon
 * has no timer at all.
 *
 *              wake: write                     wake: mark
 *   ASLEEP ---------------> MARKED <------------------------+
 *     ^                       |  turn                       |
 *     |  look, no mark        v                             |
 *     +-------------------- POLLING ------------------------+
 */
#ifndef WP_ALLOCATOR_THREADS_CONTROL_H
#define WP_ALLOCATOR_THREADS_CONTROL_H

#include <stdint.h>

#include "proto/loop/loop.h"
#include "pool/base/clock.h"
#include "pool/base/status.h"

#define WP_CONTROL_POLL_NS (2 * WP_NS_PER_MS)

struct wp_control; /* Opaque. */

struct wp_control_config {
    struct wp_loop *loop; /* Borrowed until destroy. */
    const struct wp_clock *clock;
    /* One turn; returns when the next is due at the latest (monotonic, or
     * WP_TIME_NEVER). Loop thread. */
    int64_t (*run)(void *ctx);
    void *ctx;
};

/* Before the loop is started. NULL and err when memory lacks. */
struct wp_control *wp_control_create(const struct wp_control_config *config,
                                     struct wp_err *err);
/* After the loop was stopped. NULL is fine. */
void wp_control_destroy(struct wp_control *control);

/* There is work for a turn. A few nanoseconds while the control thread is
 * awake, one eventfd write when it sleeps; never blocks. Any thread. ctx is the
 * struct wp_control; void * so that it fits wp_pools_config.wake. */
void wp_control_wake(void *ctx);

/* For a thread whose answers must not wait for a wake-up. It calls this again
 * and again, whenever it has written its answers: from its first call on, a
 * write that a wake of this thread asks for is put off until the next one. Who
 * wakes meanwhile leaves it to this thread. ctx is the struct wp_control. */
void wp_control_wake_late(void *ctx);

struct wp_control_stats {
    uint64_t turns;
    uint64_t writes; /* Wake-ups that cost an eventfd write. */
};
/* Any thread. */
struct wp_control_stats wp_control_stats(const struct wp_control *control);

#endif
