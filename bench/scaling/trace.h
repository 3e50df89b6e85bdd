/* bench/scaling/trace.h - when claims came: made from a seed by a recipe, or read from
 * a public trace. Held in memory, in order; replayed by any number of cursors.
 *
 * Jobs that know beforehand what they will claim are kept with it, so that the
 * same trace can be replayed with and without their reservations. */
#ifndef WP_BENCH_SCALING_TRACE_H
#define WP_BENCH_SCALING_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/advice/replay.h"

struct wp_trace_job {
    int64_t from_ns;
    int64_t until_ns;
    uint32_t n;
};

struct wp_trace {
    int64_t *at_ns; /* Of each claim; equal times are several claims. */
    uint64_t n;
    uint64_t cap;
    struct wp_trace_job *jobs;
    uint32_t n_jobs;
    uint32_t jobs_cap;
    int64_t end_ns; /* Nothing at or after it counts. */
    bool failed;    /* Memory lacked: what was added since is not there. */
};

void wp_trace_init(struct wp_trace *trace, int64_t end_ns);
void wp_trace_fini(struct wp_trace *trace);
/* In any order; at or after the end, or negative: left out. */
void wp_trace_add(struct wp_trace *trace, int64_t at_ns);
void wp_trace_add_job(struct wp_trace *trace, int64_t from_ns, int64_t until_ns,
                      uint32_t n);
/* Puts the claims in order. False when memory lacked at any time. */
WP_MUST_CHECK bool wp_trace_finish(struct wp_trace *trace);
/* Claims a second from from_ns to the end. */
double wp_trace_rate_per_s(const struct wp_trace *trace, int64_t from_ns);

/* Reads a finished trace, which must outlive it. */
struct wp_trace_cursor {
    const struct wp_trace *trace;
    uint64_t next;
    int64_t ahead_ns;
    uint32_t job; /* Of what is announced; pieces of it so far. */
    uint32_t piece;
};
/* A source from the beginning; announce: with its jobs, piece by piece. A job
 * knows how many it will claim and until when, and takes them to come evenly:
 * of one that lasts the share of each second (at most 64 pieces) is announced
 * ahead_ns before that begins, for until the job's end. Cursor is borrowed. */
struct wp_replay_source wp_trace_source(const struct wp_trace *trace,
                                        struct wp_trace_cursor *cursor,
                                        bool announce, int64_t ahead_ns);

#endif
