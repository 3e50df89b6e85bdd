/* pool/slots/timing_wheel.h - deadlines of up to 2^24 numbered things.
 *
 * A hierarchical wheel (Varghese and Lauck) of eight levels of 64 places, one
 * place of the lowest level being a millisecond, so that every deadline that
 * int64_t nanoseconds can hold has its place: nothing is clamped. Inserting and
 * removing are O(1); a deadline moves down at most seven levels in its life.
 *
 * One owner thread. Nothing is allocated after init. */
#ifndef WP_POOL_SLOTS_TIMING_WHEEL_H
#define WP_POOL_SLOTS_TIMING_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/clock.h"
#include "pool/base/compiler.h"

enum {
    WP_WHEEL_LEVEL_BITS = 6,
    WP_WHEEL_LEVELS = 8,
};

#define WP_WHEEL_TICK_NS WP_NS_PER_MS

struct wp_timing_node {
    int64_t tick;  /* In which it fires. */
    uint32_t next; /* UINT32_MAX: not in the wheel. */
    uint32_t prev;
};

/* Private; read through the functions. */
struct wp_timing_wheel {
    struct wp_timing_node *nodes; /* n, then one head for each place; owned. */
    uint64_t places[WP_WHEEL_LEVELS]; /* A bit for each place in use. */
    int64_t tick;                     /* Everything before it has fired. */
    int64_t tick_min;                 /* Earliest place for an insertion. */
    uint32_t n;
};

/* Called by advance. The index has left the wheel; it may be inserted again,
 * and any other may be inserted, moved or removed. */
typedef void wp_timing_fire_fn(void *ctx, uint32_t index);

/* For the indices 0..n-1. now_ns >= 0. False when memory lacks. */
WP_MUST_CHECK bool wp_timing_wheel_init(struct wp_timing_wheel *wheel,
                                        uint32_t n, int64_t now_ns);
void wp_timing_wheel_fini(struct wp_timing_wheel *wheel);
/* Bytes that init reserves: 16 for each index. */
size_t wp_timing_wheel_bytes(uint32_t n);

/* Sets the deadline of index, moving it when it has one. A deadline that is not
 * after the last advance fires in the next one. deadline_ns >= 0. O(1). */
void wp_timing_wheel_insert(struct wp_timing_wheel *wheel, uint32_t index,
                            int64_t deadline_ns);
/* False when index had no deadline. O(1). */
bool wp_timing_wheel_remove(struct wp_timing_wheel *wheel, uint32_t index);
bool wp_timing_wheel_contains(const struct wp_timing_wheel *wheel,
                              uint32_t index);

/* Fires every index whose deadline is at least a tick old, none whose deadline
 * is after now_ns, and each at most once; those in the tick between the two may
 * be left for the next call. Earlier ticks fire first. A time before that of
 * the last advance is taken as that one. Returns how many fired. */
uint32_t wp_timing_wheel_advance(struct wp_timing_wheel *wheel, int64_t now_ns,
                                 wp_timing_fire_fn *fire, void *ctx);

/* When to call advance: at the end of the tick of the earliest deadline, or
 * earlier when deadlines have to move down a level; never later. WP_TIME_NEVER
 * when empty. An advance at that time always makes progress, so that a loop
 * that sleeps until then does not spin. O(levels). */
int64_t wp_timing_wheel_next_ns(const struct wp_timing_wheel *wheel);

#endif
