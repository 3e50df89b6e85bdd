/* Schedules as people write them. */
#include <stdarg.h>
#include <stdio.h>

#include "pool/base/assert.h"
#include "pool/base/civil.h"
#include "pool/base/clock.h"
#include "pool/base/duration.h"
#include "pool/policy/schedule.h"

enum {
    FIELDS = 5,
    WORDS = FIELDS + 5, /* for <duration> at least <n> */
    SETS_MAX = 7,       /* Sunday as 7. */
};

#define DURATION_MIN_NS (60 * WP_NS_PER_S)
#define DURATION_MAX_NS (7 * 24 * 3600 * WP_NS_PER_S)

static const char months[] = "janfebmaraprmayjunjulaugsepoctnovdec";
static const char weekdays[] = "sunmontuewedthufrisat";

enum field_id {
    MINUTE,
    HOUR,
    DAY,
    MONTH,
    WEEKDAY,
};

static const struct field {
    const char *name;
    int min;
    int max;
    const char *names; /* Of three letters each, of min and on. */
    const char *expected;
} fields[FIELDS] = {
    [MINUTE] = {"minute", 0, 59, "", "0 to 59"},
    [HOUR] = {"hour", 0, 23, "", "0 to 23"},
    [DAY] = {"day of month", 1, 31, "", "1 to 31"},
    [MONTH] = {"month", 1, 12, months, "1 to 12 or jan to dec"},
    [WEEKDAY] = {"day of week", 0, SETS_MAX, weekdays,
                 "0 to 7 (both are Sunday) or sun to sat"},
};

/* How many there are, of which the first n_max are in words. */
static unsigned
split(struct wp_str text, struct wp_str *words, unsigned n_max)
{
    struct wp_str word;
    unsigned n = 0;

    for (; wp_str_word(&text, &word); n++) {
        if (n < n_max) {
            words[n] = word;
        }
    }
    return n;
}

static enum wp_status
unexpected(const struct field *field, struct wp_str text, const char *expected,
           struct wp_err *err)
{
    char shown[WP_STR_SHOWN_MAX];

    return wp_err_set(err, WP_INVALID_ARGUMENT, "%s: %s expected, not '%s'",
                      field->name, expected, wp_str_shown(text, shown));
}

/* letter: a lower-case one. */
static bool
is_letter(char c, char letter)
{
    return (c | 0x20) == letter;
}

static bool
one_value(const struct field *field, struct wp_str text, int *out)
{
    uint64_t number;

    if (wp_str_to_u64(text, &number)) {
        *out = number > INT32_MAX ? INT32_MAX : (int)number;
        return *out >= field->min && *out <= field->max;
    }
    for (size_t i = 0; text.len == 3 && field->names[i] != '\0'; i += 3) {
        if (is_letter(text.ptr[0], field->names[i]) &&
            is_letter(text.ptr[1], field->names[i + 1]) &&
            is_letter(text.ptr[2], field->names[i + 2])) {
            *out = field->min + (int)(i / 3);
            return true;
        }
    }
    return false;
}

/* "n", "n-m", "*", the last two also with "/k". */
static enum wp_status
one_range(const struct field *field, struct wp_str text, uint64_t *set,
          struct wp_err *err)
{
    struct wp_str step_text = text;
    struct wp_str range;
    bool has_step = wp_str_cut(&step_text, '/', &range);
    struct wp_str to_text = range;
    struct wp_str from_text;
    bool has_to = wp_str_cut(&to_text, '-', &from_text);
    bool star = wp_str_is(range, "*");
    int from = field->min;
    int to = field == &fields[WEEKDAY] ? 6 : field->max;
    uint64_t step = 1;

    if (!star) {
        if (!one_value(field, from_text, &from)) {
            return unexpected(field, from_text, field->expected, err);
        }
        to = from;
        if (has_to && !one_value(field, to_text, &to)) {
            return unexpected(field, to_text, field->expected, err);
        }
        if (field == &fields[WEEKDAY] && to == 0 && from > 0) {
            to = SETS_MAX; /* "fri-sun" */
        }
    }
    if (to < from) {
        return unexpected(field, range, "a range that goes up", err);
    }
    if (has_step) {
        if (!star && !has_to) {
            return unexpected(field, text, "a step behind * or a range", err);
        }
        if (!wp_str_to_u64(step_text, &step) || step == 0 ||
            step > (uint64_t)field->max) {
            return unexpected(field, step_text,
                              "a step of at least 1 and within the field", err);
        }
    }
    for (int i = from; i <= to && i < 64; i += (int)step) {
        *set |= UINT64_C(1) << i;
    }
    return WP_OK;
}

/* *any: the text is "*" or "*" with a step of 1, alone. */
static enum wp_status
parse_field(const struct field *field, struct wp_str text, uint64_t *set,
            bool *any, struct wp_err *err)
{
    enum wp_status status = WP_OK;
    struct wp_str rest = text;
    struct wp_str range;
    bool more;

    *set = 0;
    *any = wp_str_is(text, "*") || wp_str_is(text, "*/1");
    do {
        more = wp_str_cut(&rest, ',', &range);
        status = one_range(field, range, set, err);
    } while (status == WP_OK && more);
    if (field == &fields[WEEKDAY] && (*set >> SETS_MAX & 1) != 0) {
        *set = (*set | 1) & 0x7f;
    }
    return status;
}

/* Is there a day of these months and days of the month in any year? */
static bool
has_date(const struct wp_schedule *s)
{
    const int leap_year = 2000;

    if (s->any_day || !s->any_weekday) {
        return true;
    }
    for (int month = 1; month <= 12; month++) {
        int last = wp_civil_days_in_month(leap_year, month);
        uint32_t until_last = (uint32_t)((UINT64_C(1) << (last + 1)) - 1);

        if ((s->months >> month & 1) != 0 && (s->days & until_last) != 0) {
            return true;
        }
    }
    return false;
}

static enum wp_status
parse_fields(const struct wp_str words[FIELDS], struct wp_schedule *out,
             struct wp_err *err)
{
    uint64_t sets[FIELDS];
    bool any[FIELDS];

    for (size_t i = 0; i < FIELDS; i++) {
        enum wp_status status =
            parse_field(&fields[i], words[i], &sets[i], &any[i], err);

        if (status != WP_OK) {
            return status;
        }
    }
    out->minutes = sets[MINUTE];
    out->hours = (uint32_t)sets[HOUR];
    out->days = (uint32_t)sets[DAY];
    out->months = (uint16_t)sets[MONTH];
    out->weekdays = (uint8_t)sets[WEEKDAY];
    out->any_day = any[DAY];
    out->any_weekday = any[WEEKDAY];
    if (!has_date(out)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "day of month: no month of these has such a day");
    }
    return WP_OK;
}

enum wp_status
wp_schedule_parse(struct wp_str text, const struct wp_time_zone *zone,
                  uint32_t at_least_max, struct wp_schedule *out,
                  struct wp_err *err)
{
    struct wp_str words[WORDS];
    struct wp_schedule schedule = {.zone = zone};
    char shown[WP_STR_SHOWN_MAX];
    uint64_t at_least;
    enum wp_status status;

    if (text.len >= WP_SCHEDULE_TEXT_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "less than %d characters expected, not %zu",
                          WP_SCHEDULE_TEXT_MAX, text.len);
    }
    if (split(text, words, WORDS) != WORDS ||
        !wp_str_is(words[FIELDS], "for") ||
        !wp_str_is(words[FIELDS + 2], "at") ||
        !wp_str_is(words[FIELDS + 3], "least")) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "'minute hour day month weekday for <duration> at "
                          "least <n>' expected, not '%s'",
                          wp_str_shown(text, shown));
    }
    status = parse_fields(words, &schedule, err);
    if (status != WP_OK) {
        return status;
    }
    if (!wp_duration_parse(words[FIELDS + 1], &schedule.duration_ns) ||
        schedule.duration_ns < DURATION_MIN_NS ||
        schedule.duration_ns > DURATION_MAX_NS) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "for: a duration of 1m to 7d expected, such as 90m "
                          "or 8h, not '%s'",
                          wp_str_shown(words[FIELDS + 1], shown));
    }
    if (!wp_str_to_u64(words[WORDS - 1], &at_least) ||
        at_least > at_least_max) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "at least: a whole number of 0 to %u expected, not "
                          "'%s'",
                          at_least_max, wp_str_shown(words[WORDS - 1], shown));
    }
    schedule.at_least = (uint32_t)at_least;
    wp_schedule_forget(&schedule);
    *out = schedule;
    return WP_OK;
}

/* --- Back to text --- */

struct writer {
    char *out;
    size_t len;
};

static void put(struct writer *w, const char *format, ...) WP_PRINTF(2, 3);

static void
put(struct writer *w, const char *format, ...)
{
    size_t cap = WP_SCHEDULE_TEXT_MAX - w->len;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(w->out + w->len, cap, format, args);
    va_end(args);
    /* Sixty minutes that follow no rule need 200 characters, all of it 450. */
    WP_ASSERT(n >= 0 && (size_t)n < cap);
    w->len += (size_t)n;
}

/* The first of what is left of a set, with those that follow at even steps. */
static void
put_range(struct writer *w, uint64_t *set)
{
    int from = __builtin_ctzll(*set);
    uint64_t more = *set & (*set - 1);
    int step = more != 0 ? __builtin_ctzll(more) - from : 1;
    int to = from;

    while (to + step < 64 && (*set >> (to + step) & 1) != 0) {
        to += step;
    }
    if (step > 1 && to < from + 2 * step) {
        to = from; /* Two alone are no series. */
    }
    for (int i = from; i <= to; i += step) {
        *set &= ~(UINT64_C(1) << i);
    }
    if (to == from) {
        put(w, "%d", from);
    } else if (step == 1) {
        put(w, "%d-%d", from, to);
    } else {
        put(w, "%d-%d/%d", from, to, step);
    }
}

static void
put_field(struct writer *w, uint64_t set, bool any)
{
    if (any) {
        put(w, "* ");
        return;
    }
    while (set != 0) {
        put_range(w, &set);
        put(w, set != 0 ? "," : " ");
    }
}

void
wp_schedule_format(const struct wp_schedule *schedule,
                   char out[WP_SCHEDULE_TEXT_MAX])
{
    struct writer w = {out, 0};
    char duration[WP_DURATION_TEXT_MAX];

    out[0] = '\0';
    put_field(&w, schedule->minutes,
              schedule->minutes == (UINT64_C(1) << 60) - 1);
    put_field(&w, schedule->hours, schedule->hours == (1U << 24) - 1);
    put_field(&w, schedule->days, schedule->any_day);
    put_field(&w, schedule->months, schedule->months == 0x1ffe);
    put_field(&w, schedule->weekdays, schedule->any_weekday);
    put(&w, "for %s at least %u",
        wp_duration_format(schedule->duration_ns, duration),
        schedule->at_least);
}
