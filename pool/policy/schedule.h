/* pool/policy/schedule.h - floors by the clock: cron windows in a time zone.
 *
 * Five fields: minute, hour, day of month, month, day of week; each "*", n,
 * n-m, lists of them, and steps "/k" behind "*" and ranges; months and days
 * also by their English names of three letters; 0 and 7 are Sunday. As in cron,
 * when both day fields are restricted either one suffices; "*" and "*" with a
 * step of 1 restrict nothing. An hour that a zone skips in spring has the floor
 * begin at the next minute there is; one it repeats in autumn begins once. The
 * duration is time that passes, whatever clocks show meanwhile. */
#ifndef WP_POOL_POLICY_SCHEDULE_H
#define WP_POOL_POLICY_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/policy/time_zone.h"

enum {
    /* Of a schedule as wp_schedule_format writes it, with the final NUL; the
     * longest that wp_schedule_parse takes. */
    WP_SCHEDULE_TEXT_MAX = 512,
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
    uint32_t at_least;
    int64_t duration_ns;             /* 1 min .. 7 days. */
    const struct wp_time_zone *zone; /* NULL: UTC. */
    /* What was found last, so that it is searched for once a window: from
     * window_from_ns to next_from_ns (wall) it holds until window_until_ns. Who
     * changes the fields above calls wp_schedule_forget. */
    int64_t window_from_ns;
    int64_t window_until_ns;
    int64_t next_from_ns;
};

/* "<five fields> for <duration> at least <n>"; n: 0 .. at_least_max. zone NULL:
 * UTC. INVALID_ARGUMENT names the field and what was expected; also for an
 * expression that no date ever meets. */
enum wp_status wp_schedule_parse(struct wp_str text,
                                 const struct wp_time_zone *zone,
                                 uint32_t at_least_max, struct wp_schedule *out,
                                 struct wp_err *err);
void wp_schedule_forget(struct wp_schedule *schedule);
/* The first window that begins after wall_ns; WP_TIME_NEVER when none does
 * before time in nanoseconds ends, in 2262. */
int64_t wp_schedule_next_ns(const struct wp_schedule *schedule,
                            int64_t wall_ns);
/* Is a window open at wall_ns; and until when is that so, which may be sooner
 * than the truth where many windows follow without a gap. Clock steps in either
 * direction are seen. */
bool wp_schedule_holds(struct wp_schedule *schedule, int64_t wall_ns,
                       int64_t *changes_at_ns);
/* As wp_schedule_parse takes it. */
void wp_schedule_format(const struct wp_schedule *schedule,
                        char out[WP_SCHEDULE_TEXT_MAX]);
/* The same windows; what was found last does not count. */
bool wp_schedule_eq(const struct wp_schedule *a, const struct wp_schedule *b);

#endif
