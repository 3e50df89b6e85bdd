#include "bench/scaling/trace_azure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "pool/base/clock.h"

#define MINUTE_NS (60 * WP_NS_PER_S)
#define DAY_NS (WP_AZURE_MINUTES * MINUTE_NS)

enum {
    FIELDS_2019 = 4, /* Before the minutes. */
    SHOWN = 24,      /* Of a bad value. */
};

/* What is left of a line, and the number of the field taken last. */
struct row {
    struct wp_str rest;
    bool ended;
    unsigned field;
};

static bool
take(struct row *row, struct wp_str *out)
{
    const char *comma;

    if (row->ended) {
        return false;
    }
    comma =
        row->rest.len > 0 ? memchr(row->rest.ptr, ',', row->rest.len) : NULL;
    *out = row->rest;
    row->field++;
    if (comma == NULL) {
        row->ended = true;
    } else {
        out->len = (size_t)(comma - row->rest.ptr);
        row->rest.ptr = comma + 1;
        row->rest.len -= out->len + 1;
    }
    return true;
}

static enum wp_status
bad(const struct wp_azure_reader *reader, unsigned field, const char *name,
    const char *expected, struct wp_str got, struct wp_err *err)
{
    char shown[SHOWN + 1];
    size_t n = got.len < SHOWN ? got.len : SHOWN;

    for (size_t i = 0; i < n; i++) {
        bool plain = got.ptr[i] >= ' ' && got.ptr[i] <= '~';

        shown[i] = '?';
        if (plain) {
            shown[i] = got.ptr[i];
        }
    }
    shown[n] = '\0';
    return wp_err_set(err, WP_INVALID_ARGUMENT,
                      "line %llu, field %u (%s): %s expected, not '%s'",
                      (unsigned long long)reader->line, field, name, expected,
                      shown);
}

static enum wp_status
expect_names(const struct wp_azure_reader *reader, struct row *row,
             const char *const *names, unsigned n, struct wp_err *err)
{
    for (unsigned i = 0; i < n; i++) {
        struct wp_str got = {NULL, 0};

        if (!take(row, &got) || !wp_str_is(got, names[i])) {
            return bad(reader, i + 1, "header", names[i], got, err);
        }
    }
    return WP_OK;
}

static enum wp_status
read_header(struct wp_azure_reader *reader, struct row row, struct wp_err *err)
{
    static const char *const of_2019[] = {"HashOwner", "HashApp",
                                          "HashFunction", "Trigger"};
    static const char *const of_2021[] = {"app", "func", "end_timestamp",
                                          "duration"};
    bool minutes = reader->format == WP_AZURE_2019;
    enum wp_status status =
        expect_names(reader, &row, minutes ? of_2019 : of_2021, 4, err);
    struct wp_str got;

    reader->minutes = 0;
    while (status == WP_OK && take(&row, &got)) {
        uint64_t minute;

        if (!minutes || reader->minutes == WP_AZURE_MINUTES ||
            !wp_str_to_u64(got, &minute) || minute != reader->minutes + 1) {
            return bad(reader, row.field, "header",
                       minutes ? "the next minute, up to 1440" : "no more", got,
                       err);
        }
        reader->minutes++;
    }
    if (status == WP_OK && minutes && reader->minutes == 0) {
        return bad(reader, FIELDS_2019 + 1, "header", "minute 1",
                   (struct wp_str){NULL, 0}, err);
    }
    return status;
}

static enum wp_status
add_claims(struct wp_azure_reader *reader, uint64_t n, int64_t from_ns,
           int64_t span_ns, struct wp_err *err)
{
    if (reader->trace->n + n > reader->claims_max) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "line %llu: more than %llu claims",
                          (unsigned long long)reader->line,
                          (unsigned long long)reader->claims_max);
    }
    for (uint64_t i = 0; i < n; i++) {
        wp_trace_add(
            reader->trace,
            from_ns + (int64_t)wp_rng_below(&reader->rng, (uint64_t)span_ns));
    }
    if (reader->trace->failed) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    return WP_OK;
}

static enum wp_status
read_minutes(struct wp_azure_reader *reader, struct row row, bool wanted,
             struct wp_err *err)
{
    enum wp_status status = WP_OK;
    int64_t at_ns = reader->day * DAY_NS;

    for (uint32_t i = 0; i < reader->minutes && status == WP_OK; i++) {
        struct wp_str got = {NULL, 0};
        uint64_t n = 0;
        char name[24];

        if (!take(&row, &got) || !wp_str_to_u64(got, &n) ||
            n > WP_AZURE_PER_MINUTE_MAX) {
            (void)snprintf(name, sizeof(name), "minute %u", i + 1);
            return bad(reader, FIELDS_2019 + i + 1, name,
                       "a whole number from 0 to 10000000", got, err);
        }
        if (wanted && n > 0) {
            status = add_claims(reader, n, at_ns, MINUTE_NS, err);
        }
        at_ns += MINUTE_NS;
    }
    if (status == WP_OK && !row.ended) {
        return bad(reader, row.field + 1, "end", "no more fields", row.rest,
                   err);
    }
    return status;
}

/* Seconds: decimal, not negative, within the days a trace may have. */
static bool
to_seconds(struct wp_str text, double *out)
{
    char copy[40];
    char *end;

    if (text.len == 0 || !wp_str_copy(text, copy, sizeof(copy)) ||
        strspn(copy, "0123456789.eE+-") != text.len || copy[0] == '+') {
        return false;
    }
    *out = strtod(copy, &end);
    return *end == '\0' && *out >= 0 && *out <= 86400.0 * WP_AZURE_DAYS_MAX;
}

static enum wp_status
read_call(struct wp_azure_reader *reader, struct row row, bool wanted,
          struct wp_err *err)
{
    static const char *const names[] = {"end_timestamp", "duration"};
    double values[2] = {0, 0};
    double begins_s;

    for (unsigned i = 0; i < 2; i++) {
        struct wp_str got = {NULL, 0};

        if (!take(&row, &got) || !to_seconds(got, &values[i])) {
            return bad(reader, 3 + i, names[i],
                       "seconds, from 0 to a year of them", got, err);
        }
    }
    if (!row.ended) {
        return bad(reader, 5, "end", "no more fields", row.rest, err);
    }
    begins_s = values[0] - values[1];
    if (!wanted) {
        return WP_OK;
    }
    if (begins_s < 0) {
        reader->left_out++;
        return WP_OK;
    }
    return add_claims(reader, 1, (int64_t)(begins_s * (double)WP_NS_PER_S), 1,
                      err);
}

static enum wp_status
read_line(struct wp_azure_reader *reader, struct wp_str line,
          struct wp_err *err)
{
    struct row row = {.rest = line};
    unsigned keys = reader->format == WP_AZURE_2019 ? FIELDS_2019 : 2;
    unsigned app_at = reader->format == WP_AZURE_2019 ? 2 : 1;
    bool wanted = reader->app.len == 0;
    enum wp_status status;

    if (reader->line == 1) {
        return read_header(reader, row, err);
    }
    if (line.len == 0) {
        return WP_OK;
    }
    for (unsigned i = 1; i <= keys; i++) {
        struct wp_str got = {NULL, 0};

        if (!take(&row, &got) || got.len == 0) {
            return bad(reader, i, "key", "a name", got, err);
        }
        wanted = wanted || (i == app_at && wp_str_eq(got, reader->app));
    }
    status = reader->format == WP_AZURE_2019
                 ? read_minutes(reader, row, wanted, err)
                 : read_call(reader, row, wanted, err);
    if (status == WP_OK && wanted) {
        reader->rows++;
    }
    return status;
}

void
wp_azure_reader_init(struct wp_azure_reader *reader,
                     enum wp_azure_format format, struct wp_str app,
                     uint64_t seed, struct wp_trace *trace)
{
    reader->format = format;
    reader->trace = trace;
    reader->app = app;
    wp_rng_init(&reader->rng, seed);
    reader->day = 0;
    reader->minutes = 0;
    reader->claims_max = WP_AZURE_CLAIMS_MAX;
    reader->line = 0;
    reader->rows = 0;
    reader->left_out = 0;
    reader->n_pending = 0;
}

static enum wp_status
end_line(struct wp_azure_reader *reader, struct wp_err *err)
{
    struct wp_str line = {reader->pending, reader->n_pending};

    if (line.len > 0 && line.ptr[line.len - 1] == '\r') {
        line.len--;
    }
    reader->n_pending = 0;
    reader->line++;
    return read_line(reader, line, err);
}

static enum wp_status
end_file(struct wp_azure_reader *reader, struct wp_err *err)
{
    enum wp_status status =
        reader->n_pending > 0 ? end_line(reader, err) : WP_OK;

    if (status == WP_OK && reader->line == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "line 1: a header expected, the file is empty");
    }
    if (status == WP_OK && reader->day + 1 >= WP_AZURE_DAYS_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "at most %d days are read",
                          WP_AZURE_DAYS_MAX);
    }
    reader->day++;
    reader->line = 0;
    return status;
}

enum wp_status
wp_azure_reader_feed(struct wp_azure_reader *reader, struct wp_str text,
                     struct wp_err *err)
{
    if (text.len == 0) {
        return end_file(reader, err);
    }
    while (text.len > 0) {
        const char *newline = memchr(text.ptr, '\n', text.len);
        size_t n = newline == NULL ? text.len : (size_t)(newline - text.ptr);
        enum wp_status status = WP_OK;

        if (n > sizeof(reader->pending) - reader->n_pending) {
            return wp_err_set(
                err, WP_INVALID_ARGUMENT, "line %llu: longer than %d bytes",
                (unsigned long long)reader->line + 1, WP_AZURE_LINE_MAX);
        }
        memcpy(reader->pending + reader->n_pending, text.ptr, n);
        reader->n_pending += n;
        text.ptr += n;
        text.len -= n;
        if (newline != NULL) {
            text.ptr++;
            text.len--;
            status = end_line(reader, err);
        }
        if (status != WP_OK) {
            return status;
        }
    }
    return WP_OK;
}

static enum wp_status
feed_file(struct wp_azure_reader *reader, FILE *file, struct wp_err *err)
{
    char piece[8192];
    enum wp_status status = WP_OK;
    size_t n;

    do {
        n = fread(piece, 1, sizeof(piece), file);
        if (n > 0) {
            status =
                wp_azure_reader_feed(reader, (struct wp_str){piece, n}, err);
        }
    } while (n > 0 && status == WP_OK);
    if (status == WP_OK && ferror(file)) {
        return wp_err_sys(err, WP_INTERNAL, errno, "the trace");
    }
    return status == WP_OK
               ? wp_azure_reader_feed(reader, (struct wp_str){NULL, 0}, err)
               : status;
}

enum wp_status
wp_azure_load(const char *path, enum wp_azure_format format, struct wp_str app,
              uint64_t seed, struct wp_trace *trace, struct wp_err *err)
{
    struct wp_azure_reader *reader = calloc(1, sizeof(*reader));
    FILE *file = fopen(path, "re");
    enum wp_status status = WP_OK;

    wp_trace_init(trace, WP_TIME_NEVER);
    if (file == NULL) {
        status = wp_err_sys(err, WP_NOT_FOUND, errno, "trace '%s'", path);
    } else if (reader == NULL) {
        status = wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    } else {
        wp_azure_reader_init(reader, format, app, seed, trace);
        status = feed_file(reader, file, err);
    }
    if (status == WP_OK && !wp_trace_finish(trace)) {
        status = wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    if (status == WP_OK && reader != NULL) {
        trace->end_ns = format == WP_AZURE_2019
                            ? (int64_t)reader->minutes * MINUTE_NS
                        : trace->n > 0 ? trace->at_ns[trace->n - 1] + 1
                                       : 1;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    free(reader);
    return status;
}
