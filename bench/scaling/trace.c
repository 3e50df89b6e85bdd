#include "bench/scaling/trace.h"

#include <stdlib.h>

#include "pool/base/clock.h"

enum {
    PIECES_MAX = 64,
};

void
wp_trace_init(struct wp_trace *trace, int64_t end_ns)
{
    *trace = (struct wp_trace){.end_ns = end_ns};
}

void
wp_trace_fini(struct wp_trace *trace)
{
    free(trace->at_ns);
    free(trace->jobs);
    *trace = (struct wp_trace){0};
}

void
wp_trace_add(struct wp_trace *trace, int64_t at_ns)
{
    if (at_ns < 0 || at_ns >= trace->end_ns) {
        return;
    }
    if (trace->n == trace->cap) {
        uint64_t cap = trace->cap == 0 ? 4096 : 2 * trace->cap;
        int64_t *more = realloc(trace->at_ns, cap * sizeof(*more));

        if (more == NULL) {
            trace->failed = true;
            return;
        }
        trace->at_ns = more;
        trace->cap = cap;
    }
    trace->at_ns[trace->n++] = at_ns;
}

void
wp_trace_add_job(struct wp_trace *trace, int64_t from_ns, int64_t until_ns,
                 uint32_t n)
{
    if (trace->n_jobs == trace->jobs_cap) {
        uint32_t cap = trace->jobs_cap == 0 ? 64 : 2 * trace->jobs_cap;
        struct wp_trace_job *more = realloc(trace->jobs, cap * sizeof(*more));

        if (more == NULL) {
            trace->failed = true;
            return;
        }
        trace->jobs = more;
        trace->jobs_cap = cap;
    }
    trace->jobs[trace->n_jobs++] = (struct wp_trace_job){from_ns, until_ns, n};
}

static int
compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

bool
wp_trace_finish(struct wp_trace *trace)
{
    bool in_order = true;

    for (uint64_t i = 1; i < trace->n && in_order; i++) {
        in_order = trace->at_ns[i - 1] <= trace->at_ns[i];
    }
    if (!in_order) {
        qsort(trace->at_ns, trace->n, sizeof(*trace->at_ns), compare);
    }
    return !trace->failed;
}

double
wp_trace_rate_per_s(const struct wp_trace *trace, int64_t from_ns)
{
    uint64_t n = trace->n;

    while (n > 0 && trace->at_ns[n - 1] >= from_ns) {
        n--;
    }
    return (double)(trace->n - n) * (double)WP_NS_PER_S /
           (double)(trace->end_ns - from_ns);
}

static bool
next(void *self, int64_t *mono_ns, uint32_t *n)
{
    struct wp_trace_cursor *cursor = self;
    const struct wp_trace *trace = cursor->trace;

    if (cursor->next == trace->n) {
        return false;
    }
    *mono_ns = trace->at_ns[cursor->next];
    *n = 0;
    while (cursor->next < trace->n && trace->at_ns[cursor->next] == *mono_ns &&
           *n < UINT32_MAX) {
        cursor->next++;
        (*n)++;
    }
    return true;
}

/* How many pieces a job is announced in: one for each second, within bounds. */
static uint32_t
pieces_of(const struct wp_trace_job *job)
{
    int64_t n = (job->until_ns - job->from_ns) / WP_NS_PER_S;

    if (n > job->n) {
        n = job->n;
    }
    return n < 1 ? 1 : n < PIECES_MAX ? (uint32_t)n : PIECES_MAX;
}

static bool
announced(void *self, uint32_t i, int64_t *announced_ns, int64_t *from_ns,
          int64_t *until_ns, uint32_t *n)
{
    struct wp_trace_cursor *cursor = self;
    const struct wp_trace_job *job;
    uint64_t pieces;
    uint64_t piece;

    if (i == 0) {
        cursor->job = 0;
        cursor->piece = 0;
    }
    if (cursor->job < cursor->trace->n_jobs &&
        cursor->piece == pieces_of(&cursor->trace->jobs[cursor->job])) {
        cursor->job++;
        cursor->piece = 0;
    }
    if (cursor->job == cursor->trace->n_jobs) {
        return false;
    }
    job = &cursor->trace->jobs[cursor->job];
    pieces = pieces_of(job);
    piece = cursor->piece++;
    *from_ns = job->from_ns + (job->until_ns - job->from_ns) / (int64_t)pieces *
                                  (int64_t)piece;
    *announced_ns =
        *from_ns > cursor->ahead_ns ? *from_ns - cursor->ahead_ns : 0;
    *until_ns = job->until_ns;
    *n = (uint32_t)(job->n * (piece + 1) / pieces - job->n * piece / pieces);
    return true;
}

struct wp_replay_source
wp_trace_source(const struct wp_trace *trace, struct wp_trace_cursor *cursor,
                bool announce, int64_t ahead_ns)
{
    *cursor = (struct wp_trace_cursor){.trace = trace, .ahead_ns = ahead_ns};
    return (struct wp_replay_source){
        .next = next,
        .announced = announce ? announced : NULL,
        .self = cursor,
    };
}
