/* bench/load/load.h - one run of load on one server, and what it saw.
 *
 * Workers: each claims, checks the answer, releases, and claims again; against
 * the echo server the same two messages go to and fro. Closed loop: the workers
 * never pause, so their number is the number of calls in flight. Open loop:
 * claims are due at fixed intervals whatever the server does; each is timed from
 * when it was due, so that a stall counts for every claim it delays. */
#ifndef WP_BENCH_LOAD_LOAD_H
#define WP_BENCH_LOAD_LOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench/load/hist.h"
#include "bench/load/seen.h"
#include "pool/base/status.h"

enum {
    WP_LOAD_WORKERS_MAX = 4096
};

struct wp_load_config {
    const char *target; /* As in wp_h2_connect. */
    bool echo;          /* Calls echo_server's methods, expects no lease. */
    const char *pool_namespace;
    const char *pool;
    unsigned connections;
    unsigned workers;
    double rate_per_s;   /* Open loop when > 0: claims due per second. */
    uint64_t wait_ms;    /* Asked for in each claim. */
    int64_t pause_ns;    /* Closed loop, one worker: between two claims. */
    int64_t warmup_ns;   /* Not counted. */
    int64_t run_ns;      /* Ignored when claims_max is set. */
    uint64_t claims_max; /* Ends the counted part after so many; 0: run_ns
                            does. */
    bool spin;    /* Closed loop: the client looks for answers without ever
                           sleeping, so the server never pays for waking it. */
    bool keep;    /* Claims are not released. */
    pid_t server; /* Whose CPU time is taken; 0: nobody's. */
    struct wp_seen *seen; /* Shared by all runs against one server. */
};

struct wp_load_result {
    struct wp_hist claim; /* Latency of those answered OK. */
    struct wp_hist release;
    uint64_t warm;
    uint64_t queued;
    uint64_t cold;
    uint64_t duplicates;  /* A sandbox that had been given out before. */
    uint64_t bad_answers; /* OK, but not the answer to what was asked. */
    uint64_t failed;      /* Not OK. */
    uint64_t failed_by_code[17];
    int64_t elapsed_ns;
    int64_t server_cpu_ns;
    int64_t client_cpu_ns;
    size_t claim_request_len;
    size_t claim_reply_len; /* Of the last one. */
    size_t release_request_len;
    size_t release_reply_len;
};

/* Not WP_OK: the run could not be made or was cut off; out holds what was seen
 * until then. */
WP_MUST_CHECK enum wp_status wp_load_run(const struct wp_load_config *config,
                                         struct wp_load_result *out,
                                         struct wp_err *err);

/* Calls answered OK per second. */
double wp_load_calls_per_s(const struct wp_load_result *result);
uint64_t wp_load_calls(const struct wp_load_result *result);

#endif
