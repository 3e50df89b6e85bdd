/* Years are counted from March here: the leap day is then a year's last, and
 * the months before it follow one straight line, 153 days to five of them. */
#include "pool/base/civil.h"

#include "pool/base/assert.h"
#include "pool/base/clock.h"

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

/* --- Written times --- */

/* Exactly n digits, from min to max. */
static bool
take_number(struct wp_str *s, size_t n, int min, int max, int *out)
{
    int value = 0;

    if (s->len < n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (s->ptr[i] < '0' || s->ptr[i] > '9') {
            return false;
        }
        value = value * 10 + (s->ptr[i] - '0');
    }
    *s = (struct wp_str){s->ptr + n, s->len - n};
    *out = value;
    return value >= min && value <= max;
}

/* One of the characters; '\0' when it is none. */
static char
take_one_of(struct wp_str *s, const char *of)
{
    char c = '\0';

    if (s->len > 0 && s->ptr[0] != '\0' && strchr(of, s->ptr[0]) != NULL) {
        c = s->ptr[0];
        *s = (struct wp_str){s->ptr + 1, s->len - 1};
    }
    return c;
}

/* ".25", if there is one. */
static bool
take_fraction(struct wp_str *s, int32_t *ns)
{
    int32_t unit = (int32_t)WP_NS_PER_S;
    int digit;

    *ns = 0;
    if (take_one_of(s, ".") == '\0') {
        return true;
    }
    while (take_number(s, 1, 0, 9, &digit)) {
        *ns += digit * (unit / 10);
        unit = unit >= 10 ? unit / 10 : 1;
    }
    return unit < (int32_t)WP_NS_PER_S;
}

/* "Z", "+01:00", "-0530": what local clocks are ahead of UTC by. */
static bool
take_offset(struct wp_str *s, int64_t *ahead_s)
{
    char sign;
    int hours;
    int minutes;

    *ahead_s = 0;
    if (take_one_of(s, "Zz") != '\0') {
        return true;
    }
    sign = take_one_of(s, "+-");
    if (sign == '\0' || !take_number(s, 2, 0, 23, &hours)) {
        return false;
    }
    (void)take_one_of(s, ":");
    if (!take_number(s, 2, 0, 59, &minutes)) {
        return false;
    }
    *ahead_s = (sign == '+' ? 1 : -1) * (hours * 60 + minutes) * 60;
    return true;
}

bool
wp_civil_parse_time(struct wp_str text, int64_t *seconds, int32_t *ns)
{
    int year;
    int month;
    int day;
    int hour;
    int minute;
    int second;
    int64_t ahead_s;

    if (!take_number(&text, 4, 0, 9999, &year) || !take_one_of(&text, "-") ||
        !take_number(&text, 2, 1, 12, &month) || !take_one_of(&text, "-") ||
        !take_number(&text, 2, 1, wp_civil_days_in_month(year, month), &day) ||
        !take_one_of(&text, "Tt ") || !take_number(&text, 2, 0, 23, &hour) ||
        !take_one_of(&text, ":") || !take_number(&text, 2, 0, 59, &minute) ||
        /* 60: a leap second, which is the next one's first. */
        !take_one_of(&text, ":") || !take_number(&text, 2, 0, 60, &second) ||
        !take_fraction(&text, ns) || !take_offset(&text, &ahead_s)) {
        return false;
    }
    *seconds =
        ((wp_civil_to_days(year, month, day) * 24 + hour) * 60 + minute) * 60 +
        second - ahead_s;
    return text.len == 0;
}

bool
wp_civil_parse_seconds(struct wp_str text, int64_t *seconds, int32_t *ns)
{
    size_t whole = 0;
    uint64_t value;

    while (whole < text.len && text.ptr[whole] != '.') {
        whole++;
    }
    if (!wp_str_to_u64((struct wp_str){text.ptr, whole}, &value) ||
        value > INT64_MAX) {
        return false;
    }
    text = (struct wp_str){text.ptr + whole, text.len - whole};
    *seconds = (int64_t)value;
    return take_fraction(&text, ns) && text.len == 0;
}
