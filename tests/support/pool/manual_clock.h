/* tests/support/pool/manual_clock.h - a clock that moves only when it is moved.
 * Set its fields from one thread only. */
#ifndef WP_TESTS_SUPPORT_POOL_MANUAL_CLOCK_H
#define WP_TESTS_SUPPORT_POOL_MANUAL_CLOCK_H

#include "pool/base/clock.h"

struct wp_clock_manual {
    struct wp_clock clock;
    int64_t now_mono_ns;
    int64_t now_wall_ns;
};

static inline int64_t
manual_mono_ns(const struct wp_clock *clock)
{
    const struct wp_clock_manual *manual =
        (const struct wp_clock_manual *)(const void *)clock;

    return manual->now_mono_ns;
}

static inline int64_t
manual_wall_ns(const struct wp_clock *clock)
{
    const struct wp_clock_manual *manual =
        (const struct wp_clock_manual *)(const void *)clock;

    return manual->now_wall_ns;
}

static inline void
wp_clock_manual_init(struct wp_clock_manual *manual, int64_t mono_ns,
                     int64_t wall_ns)
{
    manual->clock.mono_ns = manual_mono_ns;
    manual->clock.wall_ns = manual_wall_ns;
    manual->now_mono_ns = mono_ns;
    manual->now_wall_ns = wall_ns;
}

static inline void
wp_clock_manual_advance(struct wp_clock_manual *manual, int64_t delta_ns)
{
    manual->now_mono_ns += delta_ns;
    manual->now_wall_ns += delta_ns;
}

#endif
