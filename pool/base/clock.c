#include "pool/base/clock.h"

#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include "pool/base/civil.h"
#include "pool/base/compiler.h"

enum {
    OFFSET_TRIES = 8,
};

#define OFFSET_WITHIN_NS (1 * WP_NS_PER_MS)

static int64_t
read_ns(clockid_t id)
{
    struct timespec ts;

    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * WP_NS_PER_S + ts.tv_nsec;
}

static int64_t
system_mono_ns(const struct wp_clock *clock)
{
    (void)clock;
    return read_ns(CLOCK_MONOTONIC);
}

static int64_t
system_wall_ns(const struct wp_clock *clock)
{
    (void)clock;
    return read_ns(CLOCK_REALTIME);
}

const struct wp_clock *
wp_clock_system(void)
{
    static const struct wp_clock system_clock = {system_mono_ns,
                                                 system_wall_ns};

    return &system_clock;
}

int64_t
wp_clock_wall_offset_ns(const struct wp_clock *clock)
{
    int64_t offset_ns = 0;
    int64_t best_ns = INT64_MAX;

    for (int i = 0; i < OFFSET_TRIES && best_ns > OFFSET_WITHIN_NS; i++) {
        int64_t before_ns = wp_clock_mono_ns(clock);
        int64_t wall_ns = wp_clock_wall_ns(clock);
        int64_t took_ns = wp_clock_mono_ns(clock) - before_ns;

        if (took_ns < best_ns) {
            best_ns = took_ns;
            offset_ns = wall_ns - before_ns;
        }
    }
    return offset_ns;
}

char *
wp_time_format_utc(int64_t wall_ns, int digits, char out[32])
{
    time_t seconds = (time_t)wp_floor_div(wall_ns, WP_NS_PER_S);
    int rest = (int)wp_floor_mod(wall_ns, WP_NS_PER_S);
    struct tm tm;
    size_t len;

    (void)gmtime_r(&seconds, &tm);
    len = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
    for (int i = digits; i < 9; i++) {
        rest /= 10;
    }
    if (digits > 0) {
        (void)snprintf(out + len, 32 - len, ".%0*dZ", digits, rest);
    } else {
        (void)snprintf(out + len, 32 - len, "Z");
    }
    return out;
}

char *
wp_time_format_rfc3339(int64_t wall_ns, char out[32])
{
    if (wall_ns >= 0) {
        return wp_time_format_utc(wall_ns, 3, out);
    }
    (void)snprintf(out, 32, "never");
    return out;
}
