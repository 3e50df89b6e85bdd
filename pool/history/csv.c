#include <string.h>

#include "pool/base/civil.h"
#include "pool/base/clock.h"
#include "pool/history/history.h"

enum {
    COUNT_MAX = 1000000, /* Claims of one line. */
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
unquote(struct wp_str s)
{
    s = wp_str_trim(s);
    if (s.len >= 2 && s.ptr[0] == '"' && s.ptr[s.len - 1] == '"') {
        return wp_str_trim((struct wp_str){s.ptr + 1, s.len - 2});
    }
    return s;
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

/* A time of a line, in seconds or as RFC 3339. */
static bool
time_ns(struct wp_str s, int64_t *out)
{
    int64_t seconds;
    int32_t ns;

    if ((!wp_civil_parse_seconds(s, &seconds, &ns) &&
         !wp_civil_parse_time(s, &seconds, &ns)) ||
        seconds < 0 || seconds > SECONDS_MAX) {
        return false;
    }
    *out = seconds * WP_NS_PER_S + ns;
    return true;
}

static enum wp_status
bad_line(const struct wp_history_csv *csv, struct wp_str text,
         const char *expected, struct wp_err *err)
{
    char shown[WP_STR_SHOWN_MAX];

    return wp_err_set(err, WP_INVALID_ARGUMENT, "line %llu: %s, got '%s'",
                      (unsigned long long)csv->line, expected,
                      wp_str_shown(text, shown));
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
    struct wp_str line = wp_str_trim(text);
    struct wp_str rest = line;
    struct wp_str first;
    bool has_count = wp_str_cut(&rest, ',', &first);
    struct wp_str time = unquote(first);
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
    if (!time_ns(time, &at_ns)) {
        return bad_line(csv, line, expected_time(time), err);
    }
    if (has_count &&
        (!wp_str_to_u64(unquote(rest), &count) || count > COUNT_MAX)) {
        return bad_line(csv, line,
                        "expected a count from 0 to 1000000 after the time",
                        err);
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

        status = add_pending(csv, (struct wp_str){text.ptr, n}, err);
        if (status == WP_OK && end != NULL) {
            status = end_line(csv, err);
        }
        n += end != NULL ? 1 : 0;
        text = (struct wp_str){text.ptr + n, text.len - n};
    }
    return status;
}
