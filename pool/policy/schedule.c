/* When windows begin, and whether one is open. Parsing and writing them is in
 * schedule_text.c. */
#include "pool/policy/schedule.h"

#include "pool/base/assert.h"
#include "pool/base/civil.h"
#include "pool/base/clock.h"
#include "pool/base/extreme.h"

enum {
    MINUTE_S = 60,
    HOUR_MINUTES = 60,
    DAY_MINUTES = 24 * HOUR_MINUTES,
    /* 29 February is eight years apart around 2100. */
    DAYS_AHEAD_MAX = 9 * 366,
    /* The longest duration, and what a clock can be set back by. */
    DAYS_BACK_MAX = 10,
    /* Windows without a gap between them that are followed in one go. */
    WINDOWS_FOLLOWED = 64,
};

/* Wall times beyond are taken for these, so that local times and the ends of
 * windows can be reckoned with. */
#define WALL_MAX_NS (INT64_MAX - 16 * 24 * 3600 * WP_NS_PER_S)

static int64_t
clamp_wall(int64_t wall_ns)
{
    return wp_max_i64(wp_min_i64(wall_ns, WALL_MAX_NS), -WALL_MAX_NS);
}

/* --- Minutes of the local clock, counted from 1970 --- */

static bool
day_matches(const struct wp_schedule *s, int64_t day)
{
    struct wp_civil date = wp_civil_from_days(day);
    bool of_month = (s->days >> date.day & 1) != 0;
    bool of_week = (s->weekdays >> date.weekday & 1) != 0;

    if ((s->months >> date.month & 1) == 0) {
        return false;
    }
    if (s->any_day) {
        return s->any_weekday || of_week;
    }
    return s->any_weekday ? of_month : of_month || of_week;
}

/* The first minute of the day at or after `from` that is among them; -1. */
static int
first_in_day(const struct wp_schedule *s, int from)
{
    for (int hour = from / HOUR_MINUTES; hour < 24; hour++) {
        int begin = hour == from / HOUR_MINUTES ? from % HOUR_MINUTES : 0;
        uint64_t minutes = s->minutes >> begin;

        if ((s->hours >> hour & 1) != 0 && minutes != 0) {
            return hour * HOUR_MINUTES + begin + __builtin_ctzll(minutes);
        }
    }
    return -1;
}

/* The last one at or before `until`; -1. */
static int
last_in_day(const struct wp_schedule *s, int until)
{
    for (int hour = until / HOUR_MINUTES; hour >= 0; hour--) {
        int end = hour == until / HOUR_MINUTES ? until % HOUR_MINUTES : 59;
        uint64_t minutes = s->minutes << (63 - end);

        if ((s->hours >> hour & 1) != 0 && minutes != 0) {
            return hour * HOUR_MINUTES + end - __builtin_clzll(minutes);
        }
    }
    return -1;
}

/* The first minute after `minute` at which a window begins; false: none. */
static bool
minute_after(const struct wp_schedule *s, int64_t minute, int64_t *out)
{
    int64_t day = wp_floor_div(minute + 1, DAY_MINUTES);
    int from = (int)wp_floor_mod(minute + 1, DAY_MINUTES);

    for (int i = 0; i < DAYS_AHEAD_MAX; i++, day++, from = 0) {
        int found = day_matches(s, day) ? first_in_day(s, from) : -1;

        if (found >= 0) {
            *out = day * DAY_MINUTES + found;
            return true;
        }
    }
    return false;
}

/* The last one at or before `minute`, of the latest days. */
static bool
minute_before(const struct wp_schedule *s, int64_t minute, int64_t *out)
{
    int64_t day = wp_floor_div(minute, DAY_MINUTES);
    int until = (int)wp_floor_mod(minute, DAY_MINUTES);

    for (int i = 0; i < DAYS_BACK_MAX; i++, day--, until = DAY_MINUTES - 1) {
        int found = day_matches(s, day) ? last_in_day(s, until) : -1;

        if (found >= 0) {
            *out = day * DAY_MINUTES + found;
            return true;
        }
    }
    return false;
}

/* --- Windows --- */

static int64_t
local_minute(const struct wp_schedule *s, int64_t wall_ns)
{
    return wp_floor_div(
        wp_time_zone_to_local_s(s->zone, wp_floor_div(wall_ns, WP_NS_PER_S)),
        MINUTE_S);
}

static int64_t
wall_of(const struct wp_schedule *s, int64_t minute)
{
    int64_t wall_s = wp_time_zone_from_local_s(s->zone, minute * MINUTE_S);

    return wall_s > WALL_MAX_NS / WP_NS_PER_S ? WP_TIME_NEVER
                                              : wall_s * WP_NS_PER_S;
}

int64_t
wp_schedule_next_ns(const struct wp_schedule *schedule, int64_t wall_ns)
{
    int64_t minute;

    /* The local clock that never goes back has not reached it: so it is later
     * than wall_ns in any zone. */
    if (!minute_after(schedule, local_minute(schedule, clamp_wall(wall_ns)),
                      &minute)) {
        return WP_TIME_NEVER;
    }
    return wall_of(schedule, minute);
}

/* When the window that began last did; false: longer ago than any lasts. */
static bool
latest_ns(const struct wp_schedule *s, int64_t wall_ns, int64_t *out)
{
    int64_t minute;

    if (!minute_before(s, local_minute(s, wall_ns), &minute)) {
        return false;
    }
    *out = wall_of(s, minute);
    return true;
}

void
wp_schedule_forget(struct wp_schedule *schedule)
{
    schedule->window_from_ns = WP_TIME_NEVER;
    schedule->window_until_ns = INT64_MIN;
    schedule->next_from_ns = INT64_MIN;
}

static void
find_window(struct wp_schedule *s, int64_t wall_ns)
{
    s->window_from_ns = wall_ns;
    s->window_until_ns = INT64_MIN;
    if (latest_ns(s, wall_ns, &s->window_from_ns)) {
        s->window_until_ns = s->window_from_ns + s->duration_ns;
    }
    s->next_from_ns = wp_schedule_next_ns(s, wall_ns);
    if (s->window_until_ns <= wall_ns) {
        return;
    }
    for (int i = 0;
         i < WINDOWS_FOLLOWED && s->next_from_ns <= s->window_until_ns &&
         s->next_from_ns != WP_TIME_NEVER;
         i++) {
        s->window_until_ns = s->next_from_ns + s->duration_ns;
        s->next_from_ns = wp_schedule_next_ns(s, s->next_from_ns);
    }
}

bool
wp_schedule_holds(struct wp_schedule *schedule, int64_t wall_ns,
                  int64_t *changes_at_ns)
{
    wall_ns = clamp_wall(wall_ns);
    if (wall_ns < schedule->window_from_ns ||
        wall_ns >= schedule->next_from_ns) {
        find_window(schedule, wall_ns);
    }
    if (wall_ns < schedule->window_until_ns) {
        *changes_at_ns = schedule->window_until_ns;
        return true;
    }
    *changes_at_ns = schedule->next_from_ns;
    return false;
}

bool
wp_schedule_eq(const struct wp_schedule *a, const struct wp_schedule *b)
{
    return a->minutes == b->minutes && a->hours == b->hours &&
           a->days == b->days && a->months == b->months &&
           a->weekdays == b->weekdays && a->any_day == b->any_day &&
           a->any_weekday == b->any_weekday && a->at_least == b->at_least &&
           a->duration_ns == b->duration_ns && a->zone == b->zone;
}
