/* pool/base/clock.h - time as a value that is passed in.
 *
 * The core never asks the system for the time: it takes a `struct wp_clock`, so
 * that a simulation can own it. All durations and deadlines are int64_t
 * nanoseconds of the monotonic clock; wall time is for what people read. */
#ifndef WP_BASE_CLOCK_H
#define WP_BASE_CLOCK_H

#include <stdint.h>
#include <sys/time.h>

#define WP_NS_PER_US INT64_C(1000)
#define WP_NS_PER_MS INT64_C(1000000)
#define WP_NS_PER_S INT64_C(1000000000)
#define WP_TIME_NEVER INT64_MAX

struct wp_clock {
    /* Monotonic nanoseconds since some fixed point. Any thread. */
    int64_t (*mono_ns)(const struct wp_clock *clock);
    /* Nanoseconds since 1970-01-01 UTC. Any thread. */
    int64_t (*wall_ns)(const struct wp_clock *clock);
};

/* The machine's clocks; static storage. */
const struct wp_clock *wp_clock_system(void);

static inline int64_t
wp_clock_mono_ns(const struct wp_clock *clock)
{
    return clock->mono_ns(clock);
}

static inline int64_t
wp_clock_wall_ns(const struct wp_clock *clock)
{
    return clock->wall_ns(clock);
}

/* Wall minus monotonic time. The thread may stand still between the readings of
 * the two: then they are read again, so that the answer is off by what one
 * reading takes, not by how long a process was stopped. Any thread. */
int64_t wp_clock_wall_offset_ns(const struct wp_clock *clock);

/* now + delta, kept at WP_TIME_NEVER instead of overflowing. delta >= 0. */
static inline int64_t
wp_time_add(int64_t now_ns, int64_t delta_ns)
{
    return delta_ns > WP_TIME_NEVER - now_ns ? WP_TIME_NEVER
                                             : now_ns + delta_ns;
}

/* For timers, which must not run out before; not less than 0. */
static inline struct timeval
wp_timeval(int64_t ns)
{
    int64_t us = ns > 0 ? (ns - 1) / WP_NS_PER_US + 1 : 0;

    return (struct timeval){us / 1000000, us % 1000000};
}

/* "2026-01-31T23:59:59.123Z", with that many digits (0 .. 9) behind the point,
 * into out[32]; what is finer is cut. Returns out. */
char *wp_time_format_utc(int64_t wall_ns, int digits, char out[32]);
/* With three digits; "never" before 1970. */
char *wp_time_format_rfc3339(int64_t wall_ns, char out[32]);

#endif
