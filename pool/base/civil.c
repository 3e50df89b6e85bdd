/* Years are counted from March here: the leap day is then a year's last, and
 * the months before it follow one straight line, 153 days to five of them. */
#include "pool/base/civil.h"

#include "pool/base/assert.h"

enum {
    CYCLE_YEARS = 400, /* After which the calendar repeats, weekdays too. */
    CYCLE_DAYS = 146097,
    MARCH_0000 = -719468, /* 0000-03-01 in days since 1970-01-01. */
};

bool
wp_civil_is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

int
wp_civil_days_in_month(int64_t year, int month)
{
    WP_ASSERT(month >= 1 && month <= 12);
    if (month == 2) {
        return wp_civil_is_leap(year) ? 29 : 28;
    }
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

/* Days of the first n years of a cycle. */
static int64_t
years_in_days(int64_t n)
{
    return n * 365 + n / 4 - n / 100 + n / 400;
}

int64_t
wp_civil_to_days(int64_t year, int month, int day)
{
    int from_march = (month + 9) % 12;
    int64_t march_year = month < 3 ? year - 1 : year;
    int64_t cycle = wp_floor_div(march_year, CYCLE_YEARS);
    int64_t in_cycle = wp_floor_mod(march_year, CYCLE_YEARS);

    WP_ASSERT(month >= 1 && month <= 12);
    return MARCH_0000 + cycle * CYCLE_DAYS + years_in_days(in_cycle) +
           (from_march * 153 + 2) / 5 + day - 1;
}

struct wp_civil
wp_civil_from_days(int64_t days)
{
    int64_t since = days - MARCH_0000;
    int64_t cycle = wp_floor_div(since, CYCLE_DAYS);
    int64_t in_cycle = wp_floor_mod(since, CYCLE_DAYS);
    int64_t year = in_cycle / 365;
    int64_t in_year;
    int from_march;
    struct wp_civil civil;

    /* Leap days make that too late by a year at most, but for the cycle's very
     * last day. */
    while (years_in_days(year) > in_cycle) {
        year--;
    }
    if (year == CYCLE_YEARS) {
        year--;
    }
    in_year = in_cycle - years_in_days(year);
    from_march = (int)((in_year * 5 + 2) / 153);
    civil.day = (int)(in_year - (from_march * 153 + 2) / 5) + 1;
    civil.month = from_march < 10 ? from_march + 3 : from_march - 9;
    civil.year = cycle * CYCLE_YEARS + year + (civil.month < 3 ? 1 : 0);
    civil.weekday = (int)wp_floor_mod(days + 4, 7);
    return civil;
}
