/* bench/harness/tally.h - what a phase has seen, of one thread or of all.
 *
 * A thread adds to its own; they are merged once it has ended. Counts and
 * latencies are of what was due after the warm-up; what may never be (a
 * duplicate, a wrong answer, a lost lease) counts from the first call on. */
#ifndef WP_BENCH_HARNESS_TALLY_H
#define WP_BENCH_HARNESS_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/harness/slices.h"
#include "bench/load/hist.h"
#include "pool/base/compiler.h"

enum {
    WP_TALLY_NO_ANSWER = 17, /* Beside gRPC's codes: nothing came back. */
    WP_TALLY_CODES = 18,
};

/* One claim; times are since the phase's start, after the warm-up. */
struct wp_record {
    int64_t due_ns;
    int64_t sent_ns;
    int64_t acked_ns; /* When it was heard of; -1: that is not known. */
    int64_t done_ns;
    int64_t released_ns; /* -1: not, or not with an answer. */
    uint64_t number;
    uint32_t tenant;
    uint8_t code;
    uint8_t served; /* Of warmpool.v1.Served. */
};

struct wp_tally {
    struct wp_hist claim;   /* From when it was due, of those granted. */
    struct wp_hist service; /* The same from when it was sent. */
    struct wp_hist release;
    struct wp_hist late; /* From when it was due until it was sent. */
    uint64_t due;        /* Claims whose time has come. */
    uint64_t granted;
    uint64_t served[4];              /* By warmpool.v1.Served. */
    uint64_t failed[WP_TALLY_CODES]; /* [0] unused. */
    uint64_t held_back;              /* Sent late: too many were in flight. */
    uint64_t releases;               /* Answered OK. */
    uint64_t calls;       /* All that were answered, warm-up included. */
    uint64_t reply_bytes; /* Of claims' messages, warm-up included. */
    uint64_t replies;
    uint64_t releases_failed;
    uint64_t bad_answers; /* OK, but not the answer to what was asked. */
    uint64_t lost;        /* Leases that were over before their release. */
    uint64_t duplicates;  /* Of names, found once all is over. */
    uint64_t connections_lost;
    uint64_t records_left_out;
    uint32_t in_flight_max; /* Of one thread; merged: the sum. */
    int64_t stall_max_ns;   /* Longest time that a thread did not look. */
    int64_t client_cpu_ns;
    int64_t elapsed_ns;
    struct wp_slices slices;
    struct wp_record *records; /* Owned. */
    uint64_t n_records;
    uint64_t records_room;
    uint64_t *names; /* Owned: hashes of granted sandboxes' names. */
    uint64_t n_names;
    uint64_t names_room;
};

/* NULL when memory lacks. */
struct wp_tally *wp_tally_create(void);
void wp_tally_destroy(struct wp_tally *tally); /* NULL is fine. */
/* NULL when there are max already (it is counted) or memory lacks. */
struct wp_record *wp_tally_record(struct wp_tally *tally, uint64_t max);
/* False when memory lacks: nobody can say any more that there is no duplicate.
 */
WP_MUST_CHECK bool wp_tally_name(struct wp_tally *tally, uint64_t hash);
/* Takes from's records and names over. False when memory lacks. */
WP_MUST_CHECK bool wp_tally_merge(struct wp_tally *into, struct wp_tally *from);
uint64_t wp_tally_failed(const struct wp_tally *tally);
/* How many of n hashes are there before; sorts them. */
uint64_t wp_tally_count_duplicates(uint64_t *names, uint64_t n);
/* Records by the time they were due. */
void wp_tally_sort(struct wp_tally *tally);
/* Granted per second of the counted part; 0 of an empty one. */
double wp_tally_rate(const struct wp_tally *tally);
/* "RESOURCE_EXHAUSTED", "NO_ANSWER", ... */
const char *wp_tally_code_name(unsigned code);

#endif
