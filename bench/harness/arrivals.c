#include "bench/harness/arrivals.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "pool/base/clock.h"
#include "pool/history/history.h"
#include "pool/scale/scaler.h"

enum {
    RECORD_BYTES_MAX = 256 << 20, /* Packed: over a hundred million claims. */
    TIMES_MAX = 50000000,
};

static bool
push(struct wp_arrival_times *times, uint64_t *room, int64_t at_ns)
{
    if (times->n == *room) {
        uint64_t more = *room == 0 ? 1024 : *room * 2;
        int64_t *moved = realloc(times->at_ns, more * sizeof *moved);

        if (moved == NULL) {
            return false;
        }
        times->at_ns = moved;
        *room = more;
    }
    times->at_ns[times->n++] = at_ns;
    return true;
}

/* A record knows a claim's time to one quantum: those of one quantum are spread
 * evenly over it, which is as far as anybody knows. */
static enum wp_status
take_events(const struct wp_history *history, double speed,
            struct wp_arrival_times *out, struct wp_err *err)
{
    struct wp_history_cursor cursor;
    struct wp_history_event event;
    int64_t first_ns = 0;
    uint64_t room = 0;

    wp_history_first(history, &cursor);
    while (wp_history_next(&cursor, &event)) {
        if (event.kind != WP_HISTORY_CLAIMS) {
            continue;
        }
        if (out->n == 0) {
            first_ns = event.wall_ns;
        }
        for (uint32_t i = 0; i < event.n; i++) {
            double within = (double)WP_SCALE_QUANTUM_NS * i / event.n;
            double at = ((double)(event.wall_ns - first_ns) + within) / speed;

            if (out->n == TIMES_MAX || at > 1e18 ||
                !push(out, &room, (int64_t)at)) {
                return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                                  "csv: more than %d claims, or no memory for "
                                  "them",
                                  TIMES_MAX);
            }
        }
    }
    return out->n > 0 ? WP_OK
                      : wp_err_set(err, WP_INVALID_ARGUMENT,
                                   "csv: expected at least one claim");
}

/* The two ways to get at the bytes. */
struct source {
    FILE *file; /* NULL: text. */
    struct wp_str text;
};

/* What some programs on Windows begin a text with. */
static struct wp_str
without_mark(struct wp_str text)
{
    static const char mark[] = "\xef\xbb\xbf";

    return wp_str_starts_with(text, WP_STR(mark))
               ? (struct wp_str){text.ptr + 3, text.len - 3}
               : text;
}

static enum wp_status
feed(struct source *source, struct wp_history *history, struct wp_err *err)
{
    struct wp_history_csv csv;
    enum wp_status status = WP_OK;
    bool is_first = true;
    char piece[4096];

    wp_history_csv_init(&csv, history);
    if (source->file == NULL) {
        status = wp_history_csv_feed(&csv, without_mark(source->text), err);
    }
    while (source->file != NULL && status == WP_OK) {
        size_t n = fread(piece, 1, sizeof piece, source->file);
        struct wp_str text = {piece, n};

        if (n == 0) {
            break;
        }
        text = is_first ? without_mark(text) : text;
        is_first = false;
        if (text.len > 0) {
            status = wp_history_csv_feed(&csv, text, err);
        }
    }
    if (status == WP_OK && source->file != NULL && ferror(source->file)) {
        status = wp_err_sys(err, WP_INVALID_ARGUMENT, errno, "cannot be read");
    }
    if (status == WP_OK) {
        status = wp_history_csv_feed(&csv, (struct wp_str){NULL, 0}, err);
    }
    return status;
}

static enum wp_status
read_source(struct source *source, double speed, struct wp_arrival_times *out,
            struct wp_err *err)
{
    struct wp_history *history = wp_history_create(RECORD_BYTES_MAX);
    enum wp_status status;

    *out = (struct wp_arrival_times){NULL, 0};
    if (history == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "csv: no memory");
    }
    status = feed(source, history, err);
    if (status != WP_OK) {
        (void)wp_err_wrap(err, "csv");
    } else {
        status = take_events(history, speed, out, err);
    }
    wp_history_destroy(history);
    if (status != WP_OK) {
        wp_arrival_times_fini(out);
    }
    return status;
}

enum wp_status
wp_arrival_times_parse(struct wp_str text, double speed,
                       struct wp_arrival_times *out, struct wp_err *err)
{
    struct source source = {NULL, text};

    return read_source(&source, speed, out, err);
}

enum wp_status
wp_arrival_times_read(const char *path, double speed,
                      struct wp_arrival_times *out, struct wp_err *err)
{
    bool is_input = strcmp(path, "-") == 0;
    struct source source = {is_input ? stdin : fopen(path, "re"), {NULL, 0}};
    enum wp_status status;

    if (source.file == NULL) {
        return wp_err_sys(err, WP_INVALID_ARGUMENT, errno, "csv %.120s", path);
    }
    status = read_source(&source, speed, out, err);
    if (!is_input) {
        (void)fclose(source.file);
    }
    return status;
}

void
wp_arrival_times_fini(struct wp_arrival_times *times)
{
    free(times->at_ns);
    *times = (struct wp_arrival_times){NULL, 0};
}

void
wp_arrivals_init(struct wp_arrivals *arrivals, const struct wp_plan *plan,
                 const struct wp_arrival_times *times, uint32_t share,
                 uint32_t shares)
{
    *arrivals = (struct wp_arrivals){
        .kind = plan->arrivals,
        .rate_per_s = plan->rate_per_s,
        .burst = plan->burst,
        .every_ns = plan->every_ns,
        .times = times,
        .share = share,
        .shares = shares,
    };
    wp_rng_init(&arrivals->rng, plan->seed);
}

/* Of arrival number n, each of which is asked for once, in order. */
static int64_t
time_of(struct wp_arrivals *arrivals, uint64_t n)
{
    switch (arrivals->kind) {
    case WP_ARRIVALS_CONSTANT:
        return (int64_t)((double)n / arrivals->rate_per_s * 1e9);
    case WP_ARRIVALS_POISSON:
        /* 1 - unit is never 0. */
        arrivals->at_s -=
            log(1 - wp_rng_unit(&arrivals->rng)) / arrivals->rate_per_s;
        return (int64_t)(arrivals->at_s * 1e9);
    case WP_ARRIVALS_BURST:
        return (int64_t)(n / arrivals->burst) * arrivals->every_ns;
    case WP_ARRIVALS_CSV:
        return n < arrivals->times->n ? arrivals->times->at_ns[n]
                                      : WP_TIME_NEVER;
    case WP_ARRIVALS_CLOSED:
        break;
    }
    return WP_TIME_NEVER;
}

int64_t
wp_arrivals_next(struct wp_arrivals *arrivals, uint64_t *number)
{
    int64_t at_ns;

    do {
        *number = arrivals->next++;
        at_ns = time_of(arrivals, *number);
    } while (*number % arrivals->shares != arrivals->share &&
             at_ns != WP_TIME_NEVER);
    return at_ns;
}
