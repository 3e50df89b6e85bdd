/* pool/scale/schedule.h - floors by the clock: cron windows in a time zone.
 *
 * Five fields: minute, hour, day of month, month, day of week; each "*", n,
 * n-m, lists of them, and steps "/k"; months and days also by their English
 * names of three letters; 0 and 7 are Sunday. As in cron, when both day fields
 * are restricted either one suffices. An hour that a zone skips in spring has
 * the floor begin at the next minute there is; one it repeats in autumn begins
 * once. Zones come from the system's database, read once when the policy is
 * set (pool/base/time_zone.h). */
#ifndef WP_POOL_SCALE_SCHEDULE_H
#define WP_POOL_SCALE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_TIME_ZONE_NAME_MAX = 63,
};

struct wp_schedule {
    /* Bit n: minute, hour, day, month or weekday n is among them. */
    uint64_t minutes;
    uint32_t hours;
    uint32_t days;
    uint16_t months;
    uint8_t weekdays;
    bool any_day; /* The day of month is "*"; the next: of the week. */
    bool any_weekday;
    int64_t duration_ns; /* 1 min .. 7 days. */
    uint32_t at_least;
    char zone[WP_TIME_ZONE_NAME_MAX + 1];
    /* What was found last, so that it is searched for once a window. */
    int64_t window_from_ns; /* Wall; of the latest window that has begun. */
    int64_t window_until_ns;
    int64_t next_from_ns;
};

/* "<five fields> for <duration> at least <n>". INVALID_ARGUMENT names the field
 * and what was expected; also for an expression that no date ever meets. */
enum wp_status wp_schedule_parse(struct wp_str text, struct wp_str zone,
                                 struct wp_schedule *out, struct wp_err *err);
/* The first window that begins after wall_ns; WP_TIME_NEVER when none does in
 * the next five years. */
int64_t wp_schedule_next_ns(const struct wp_schedule *schedule,
                            int64_t wall_ns);
/* Is a window open at wall_ns; and when does that change. Clock steps in either
 * direction are seen. */
bool wp_schedule_holds(struct wp_schedule *schedule, int64_t wall_ns,
                       int64_t *changes_at_ns);
/* As wp_schedule_parse takes it. */
void wp_schedule_format(const struct wp_schedule *schedule, char *out,
                        size_t cap);

#endif
