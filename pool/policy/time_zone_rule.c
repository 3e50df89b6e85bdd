/* The rule in a zone file's footer: POSIX' TZ, with the hours beyond a day that
 * RFC 8536 adds. */
#include "pool/base/assert.h"
#include "pool/base/civil.h"
#include "pool/policy/time_zone_impl.h"

enum {
    DAY_S = 24 * 3600,
    HOURS_MAX = 167,
    OFFSET_HOURS_MAX = 24,
    NAME_MIN = 3,
    DEFAULT_TIME_S = 2 * 3600,
};

/* What is left to read. */
struct reader {
    const char *at;
    const char *end;
};

static bool
is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool
take(struct reader *r, char c)
{
    if (r->at == r->end || *r->at != c) {
        return false;
    }
    r->at++;
    return true;
}

static bool
number(struct reader *r, int min, int max, int *out)
{
    int value = 0;
    const char *from = r->at;

    while (r->at < r->end && is_digit(*r->at) && value <= max) {
        value = value * 10 + (*r->at++ - '0');
    }
    *out = value;
    return r->at > from && value >= min && value <= max;
}

/* "CET" or "<+0330>". */
static bool
name(struct reader *r)
{
    bool quoted = take(r, '<');
    const char *from = r->at;
    bool enough;

    while (r->at < r->end &&
           (is_letter(*r->at) ||
            (quoted && (is_digit(*r->at) || *r->at == '+' || *r->at == '-')))) {
        r->at++;
    }
    enough = r->at - from >= NAME_MIN;
    return enough && (!quoted || take(r, '>'));
}

/* "[+-]hh[:mm[:ss]]" */
static bool
clock_time(struct reader *r, int hours_max, int32_t *out_s)
{
    bool minus = take(r, '-');
    int hours;
    int minutes = 0;
    int seconds = 0;

    if (!minus) {
        (void)take(r, '+');
    }
    if (!number(r, 0, hours_max, &hours)) {
        return false;
    }
    if (take(r, ':')) {
        if (!number(r, 0, 59, &minutes) ||
            (take(r, ':') && !number(r, 0, 59, &seconds))) {
            return false;
        }
    }
    *out_s = (hours * 60 + minutes) * 60 + seconds;
    if (minus) {
        *out_s = -*out_s;
    }
    return true;
}

/* A zone's offset: written as what is to be added to local time for UTC. */
static bool
offset(struct reader *r, int32_t *out_s)
{
    int32_t west_s;

    if (!clock_time(r, OFFSET_HOURS_MAX, &west_s)) {
        return false;
    }
    *out_s = -west_s;
    return true;
}

static bool
date(struct reader *r, struct wp_zone_date *out)
{
    bool fine;

    *out = (struct wp_zone_date){.time_s = DEFAULT_TIME_S};
    if (take(r, 'M')) {
        out->form = WP_ZONE_MONTH_DAY;
        fine = number(r, 1, 12, &out->month) && take(r, '.') &&
               number(r, 1, 5, &out->week) && take(r, '.') &&
               number(r, 0, 6, &out->weekday);
    } else if (take(r, 'J')) {
        out->form = WP_ZONE_JULIAN;
        fine = number(r, 1, 365, &out->day);
    } else {
        out->form = WP_ZONE_DAY;
        fine = number(r, 0, 365, &out->day);
    }
    return fine && (!take(r, '/') || clock_time(r, HOURS_MAX, &out->time_s));
}

bool
wp_zone_rule_parse(struct wp_str text, struct wp_zone_rule *out)
{
    struct reader r = {text.ptr, text.ptr + text.len};

    *out = (struct wp_zone_rule){0};
    if (text.len == 0 || !name(&r) || !offset(&r, &out->standard_s)) {
        return false;
    }
    if (r.at == r.end) {
        return true;
    }
    out->has_summer = true;
    out->summer_s = out->standard_s + 3600;
    if (!name(&r)) {
        return false;
    }
    if (r.at < r.end && *r.at != ',' && !offset(&r, &out->summer_s)) {
        return false;
    }
    /* Without dates POSIX leaves them open: no database has that. */
    return take(&r, ',') && date(&r, &out->begins) && take(&r, ',') &&
           date(&r, &out->ends) && r.at == r.end;
}

/* Days since 1970 of the date in that year. */
static int64_t
day_of(const struct wp_zone_date *date_, int64_t year)
{
    int64_t first;
    int64_t day;

    if (date_->form == WP_ZONE_DAY) {
        return wp_civil_to_days(year, 1, 1) + date_->day;
    }
    if (date_->form == WP_ZONE_JULIAN) {
        /* From March on a leap day is passed over. */
        return wp_civil_to_days(year, 1, 1) + date_->day - 1 +
               (wp_civil_is_leap(year) && date_->day > 59 ? 1 : 0);
    }
    first = wp_civil_to_days(year, date_->month, 1);
    day = first +
          wp_floor_mod(date_->weekday - wp_civil_from_days(first).weekday, 7) +
          ((int64_t)date_->week - 1) * 7;
    if (day >= first + wp_civil_days_in_month(year, date_->month)) {
        day -= 7;
    }
    return day;
}

/* In whatever order the two are; of equal times the later begins. */
static void
add(struct wp_zone_change *changes, unsigned *n, struct wp_zone_change change)
{
    unsigned at = (*n)++;

    while (at > 0 && changes[at - 1].at_s > change.at_s) {
        changes[at] = changes[at - 1];
        at--;
    }
    changes[at] = change;
}

int32_t
wp_zone_rule_offset_s(const struct wp_zone_rule *rule, int64_t utc_s,
                      int64_t *until_s)
{
    /* Times of -167 h to 167 h reach into the years beside, and more. */
    enum {
        YEARS = 5
    };
    struct wp_zone_change changes[YEARS * WP_ZONE_YEAR_CHANGES] = {{0, 0}};
    unsigned n = 0;
    unsigned at = 0;
    int64_t year;

    *until_s = INT64_MAX;
    if (!rule->has_summer) {
        return rule->standard_s;
    }
    year = wp_civil_from_days(wp_floor_div(utc_s, DAY_S)).year;
    for (int64_t y = year - YEARS / 2; y <= year + YEARS / 2; y++) {
        /* Where summer never ends, each begins as the one before it ends. */
        add(changes, &n,
            (struct wp_zone_change){day_of(&rule->ends, y) * DAY_S +
                                        rule->ends.time_s - rule->summer_s,
                                    rule->standard_s});
        add(changes, &n,
            (struct wp_zone_change){day_of(&rule->begins, y) * DAY_S +
                                        rule->begins.time_s - rule->standard_s,
                                    rule->summer_s});
    }
    WP_ASSERT(changes[0].at_s <= utc_s && changes[n - 1].at_s > utc_s);
    while (changes[at + 1].at_s <= utc_s) {
        at++;
    }
    *until_s = changes[at + 1].at_s;
    return changes[at].offset_s;
}
