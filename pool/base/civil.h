/* pool/base/civil.h - days, dates and written times of the Gregorian calendar,
 * also before it was in use. Pure functions; any thread. */
#ifndef WP_BASE_CIVIL_H
#define WP_BASE_CIVIL_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/str.h"

struct wp_civil {
    int64_t year;
    int month;   /* 1 .. 12 */
    int day;     /* 1 .. 31 */
    int weekday; /* 0 .. 6, from Sunday. */
};

bool wp_civil_is_leap(int64_t year);
/* month: 1 .. 12. */
int wp_civil_days_in_month(int64_t year, int month);
/* Days since 1970-01-01. The year within some millions of 0; month 1 .. 12; a
 * day beyond the month's counts on into the next. */
int64_t wp_civil_to_days(int64_t year, int month, int day);
struct wp_civil wp_civil_from_days(int64_t days);

/* Both give whole seconds since 1970 and the nanoseconds after them, of which
 * digits beyond the ninth are cut. False: text is nothing of that kind, and
 * what they give is undefined. */
/* RFC 3339 of the years 0 to 9999, "2026-01-31T23:59:59.5+01:00"; a space for
 * the T and an offset without its colon are taken, too. */
WP_MUST_CHECK bool wp_civil_parse_time(struct wp_str text, int64_t *seconds,
                                       int32_t *ns);
/* "1700000000.25" */
WP_MUST_CHECK bool wp_civil_parse_seconds(struct wp_str text, int64_t *seconds,
                                          int32_t *ns);

/* Quotient and rest of a division that rounds down; by > 0. */
static inline int64_t
wp_floor_div(int64_t value, int64_t by)
{
    return value / by - (value % by < 0 ? 1 : 0);
}

static inline int64_t
wp_floor_mod(int64_t value, int64_t by)
{
    return value - wp_floor_div(value, by) * by;
}

#endif
