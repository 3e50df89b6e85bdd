#include <string.h>

#include "pool/base/clock.h"
#include "pool/history/history.h"

enum {
    COUNT_MAX = 1000000, /* Claims of one line. */
    MSG_PART = 60,       /* So much of a bad line is quoted. */
};

/* Nanoseconds since 1970 that int64_t can hold, in whole seconds. */
#define SECONDS_MAX INT64_C(9000000000)

void
wp_history_csv_init(struct wp_history_csv *csv, struct wp_history *history)
{
    *csv = (struct wp_history_csv){.history = history};
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static struct wp_str
trim(struct wp_str s)
{
    while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t')) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t' ||
                         s.ptr[s.len - 1] == '\r')) {
        s.len--;
    }
    return s;
}

static struct wp_str
unquote(struct wp_str s)
{
    s = trim(s);
    if (s.len >= 2 && s.ptr[0] == '"' && s.ptr[s.len - 1] == '"') {
        return trim((struct wp_str){s.ptr + 1, s.len - 2});
    }
    return s;
}

/* ".25" or nothing, at the end of s. Digits beyond the ninth are left out. */
static bool
fraction_ns(struct wp_str s, int64_t *out)
{
    int64_t unit = WP_NS_PER_S / 10;

    *out = 0;
    if (s.len == 0) {
        return true;
    }
    if (s.ptr[0] != '.' || s.len == 1) {
        return false;
    }
    for (size_t i = 1; i < s.len; i++) {
        if (!is_digit(s.ptr[i])) {
            return false;
        }
        *out += (s.ptr[i] - '0') * unit;
        unit /= 10;
    }
    return true;
}

static size_t
digits(struct wp_str s)
{
    size_t n = 0;

    while (n < s.len && is_digit(s.ptr[n])) {
        n++;
    }
    return n;
}

/* "12", "1700000000.25". */
static bool
seconds_ns(struct wp_str s, int64_t *out)
{
    size_t whole = digits(s);
    uint64_t seconds;
    int64_t fraction;

    if (!wp_str_to_u64((struct wp_str){s.ptr, whole}, &seconds) ||
        !fraction_ns((struct wp_str){s.ptr + whole, s.len - whole},
                     &fraction) ||
        seconds > (uint64_t)SECONDS_MAX) {
        return false;
    }
    *out = (int64_t)seconds * WP_NS_PER_S + fraction;
    return true;
}

/* A number of exactly n digits at s[at], within bounds. */
static bool
field(struct wp_str s, size_t at, size_t n, int64_t min, int64_t max,
      int64_t *out)
{
    *out = 0;
    if (at + n > s.len) {
        return false;
    }
    for (size_t i = at; i < at + n; i++) {
        if (!is_digit(s.ptr[i])) {
            return false;
        }
        *out = *out * 10 + (s.ptr[i] - '0');
    }
    return *out >= min && *out <= max;
}

static int64_t
days_of_month(int64_t year, int64_t month)
{
    static const int8_t days[] = {31, 28, 31, 30, 31, 30,
                                  31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return days[month - 1] + (month == 2 && leap ? 1 : 0);
}

/* Days from 1970-01-01 on, in the Gregorian calendar. */
static int64_t
days_since_1970(int64_t year, int64_t month, int64_t day)
{
    int64_t before = year - 1;
    int64_t days = before * 365 + before / 4 - before / 100 + before / 400;

    for (int64_t m = 1; m < month; m++) {
        days += days_of_month(year, m);
    }
    return days + day - 1 - INT64_C(719162);
}

/* "Z", "+01:00", "-0530" at the end of a time: seconds east of UTC. */
static bool
zone_s(struct wp_str s, int64_t *out)
{
    int64_t hours;
    int64_t minutes;
    size_t colon = s.len == 6 ? 1 : 0;

    *out = 0;
    if (s.len == 1) {
        return s.ptr[0] == 'Z' || s.ptr[0] == 'z';
    }
    if ((s.len != 5 && s.len != 6) || (s.ptr[0] != '+' && s.ptr[0] != '-') ||
        (colon == 1 && s.ptr[3] != ':') || !field(s, 1, 2, 0, 23, &hours) ||
        !field(s, 3 + colon, 2, 0, 59, &minutes)) {
        return false;
    }
    *out = (hours * 60 + minutes) * 60;
    *out = s.ptr[0] == '-' ? -*out : *out;
    return true;
}

/* "2026-01-31T23:59:59.123Z"; a space for the T is taken too. */
static bool
rfc3339_ns(struct wp_str s, int64_t *out)
{
    int64_t year;
    int64_t month;
    int64_t day;
    int64_t hour;
    int64_t minute;
    int64_t second;
    int64_t east;
    int64_t fraction;
    size_t zone = 19;

    if (s.len < 20 || s.ptr[4] != '-' || s.ptr[7] != '-' ||
        (s.ptr[10] != 'T' && s.ptr[10] != 't' && s.ptr[10] != ' ') ||
        s.ptr[13] != ':' || s.ptr[16] != ':' ||
        !field(s, 0, 4, 1970, 2250, &year) || !field(s, 5, 2, 1, 12, &month) ||
        !field(s, 8, 2, 1, days_of_month(year, month), &day) ||
        !field(s, 11, 2, 0, 23, &hour) || !field(s, 14, 2, 0, 59, &minute) ||
        !field(s, 17, 2, 0, 60, &second)) {
        return false;
    }
    while (zone < s.len && (s.ptr[zone] == '.' || is_digit(s.ptr[zone]))) {
        zone++;
    }
    if (!fraction_ns((struct wp_str){s.ptr + 19, zone - 19}, &fraction) ||
        !zone_s((struct wp_str){s.ptr + zone, s.len - zone}, &east)) {
        return false;
    }
    second +=
        ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60;
    *out = (second - east) * WP_NS_PER_S + fraction;
    return *out >= 0;
}

static enum wp_status
bad_line(const struct wp_history_csv *csv, struct wp_str text,
         const char *expected, struct wp_err *err)
{
    char shown[MSG_PART + 4];
    size_t n = text.len < MSG_PART ? text.len : MSG_PART;

    for (size_t i = 0; i < n; i++) {
        bool plain = text.ptr[i] >= ' ' && text.ptr[i] <= '~';

        shown[i] = '.';
        if (plain) {
            shown[i] = text.ptr[i];
        }
    }
    memcpy(shown + n, text.len > n ? "..." : "", text.len > n ? 4 : 1);
    return wp_err_set(err, WP_INVALID_ARGUMENT, "line %llu: %s, got '%s'",
                      (unsigned long long)csv->line, expected, shown);
}

static bool
looks_like_header(struct wp_str s)
{
    return s.len > 0 && ((s.ptr[0] >= 'a' && s.ptr[0] <= 'z') ||
                         (s.ptr[0] >= 'A' && s.ptr[0] <= 'Z') ||
                         s.ptr[0] == '#' || s.ptr[0] == '_');
}

/* What is wrong with a time that is not one, as well as can be told. */
static const char *
expected_time(struct wp_str time)
{
    if (time.len > 1 && time.ptr[0] == '-' && is_digit(time.ptr[1])) {
        return "a time may not be negative";
    }
    if (time.len >= 11 && digits(time) == time.len) {
        return "seconds expected: are these milliseconds";
    }
    return "expected a time in seconds or as 2026-01-31T23:59:59Z";
}

static enum wp_status
take_line(struct wp_history_csv *csv, struct wp_str text, struct wp_err *err)
{
    struct wp_str line = trim(text);
    const char *comma = line.len > 0 ? memchr(line.ptr, ',', line.len) : NULL;
    size_t first = comma != NULL ? (size_t)(comma - line.ptr) : line.len;
    struct wp_str time = unquote((struct wp_str){line.ptr, first});
    uint64_t count = 1;
    int64_t at_ns;
    bool header = !csv->began && looks_like_header(time);

    csv->line++;
    if (line.len == 0) {
        return WP_OK;
    }
    if (header) {
        csv->began = true;
        return WP_OK;
    }
    if (!seconds_ns(time, &at_ns) && !rfc3339_ns(time, &at_ns)) {
        return bad_line(csv, line, expected_time(time), err);
    }
    if (comma != NULL) {
        struct wp_str rest = {comma + 1, line.len - first - 1};

        if (!wp_str_to_u64(unquote(rest), &count) || count > COUNT_MAX) {
            return bad_line(csv, line,
                            "expected a count from 0 to 1000000 after the time",
                            err);
        }
    }
    if (csv->last_ns > at_ns) {
        return bad_line(csv, line,
                        "a time may not be before that of the line above", err);
    }
    csv->began = true;
    csv->last_ns = at_ns;
    wp_history_add(csv->history, at_ns,
                   &(struct wp_history_event){.kind = WP_HISTORY_CLAIMS,
                                              .wall_ns = at_ns,
                                              .n = (uint32_t)count});
    return WP_OK;
}

/* Text up to a line's end goes behind what is pending. */
static enum wp_status
add_pending(struct wp_history_csv *csv, struct wp_str part, struct wp_err *err)
{
    if (part.len > sizeof csv->pending - csv->n_pending) {
        csv->line++;
        return bad_line(csv, (struct wp_str){csv->pending, csv->n_pending},
                        "longer than 256 bytes", err);
    }
    if (part.len > 0) {
        memcpy(csv->pending + csv->n_pending, part.ptr, part.len);
    }
    csv->n_pending += part.len;
    return WP_OK;
}

static enum wp_status
end_line(struct wp_history_csv *csv, struct wp_err *err)
{
    size_t n = csv->n_pending;

    csv->n_pending = 0;
    return take_line(csv, (struct wp_str){csv->pending, n}, err);
}

enum wp_status
wp_history_csv_feed(struct wp_history_csv *csv, struct wp_str text,
                    struct wp_err *err)
{
    enum wp_status status = WP_OK;

    if (text.len == 0) {
        return csv->n_pending > 0 ? end_line(csv, err) : WP_OK;
    }
    while (status == WP_OK && text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t n = end != NULL ? (size_t)(end - text.ptr) : text.len;

        if (end != NULL && csv->n_pending == 0 && n <= sizeof csv->pending) {
            status = take_line(csv, (struct wp_str){text.ptr, n}, err);
        } else {
            status = add_pending(csv, (struct wp_str){text.ptr, n}, err);
            if (status == WP_OK && end != NULL) {
                status = end_line(csv, err);
            }
        }
        n += end != NULL ? 1 : 0;
        text = (struct wp_str){text.ptr + n, text.len - n};
    }
    return status;
}
