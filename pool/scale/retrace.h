/* pool/scale/retrace.h - the decisions of a recorded run, taken again.
 *
 * Claims and lead times of a history are told to a scaler at the times at which
 * the daemon told its own, and it is asked when that one was, as far as that is
 * known: it is the same controller, so it decides the same. Other than a replay
 * (replay.h) this draws nothing and simulates no pool. Where the pool's size
 * was bounded by room, a budget or a stuck backend, of which a history knows
 * nothing, it goes on as if it had not been. */
#ifndef WP_POOL_SCALE_RETRACE_H
#define WP_POOL_SCALE_RETRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/status.h"
#include "pool/scale/history.h"
#include "pool/scale/policy.h"
#include "pool/scale/scaler.h"

struct wp_retrace {
    const struct wp_history *history;
    const struct wp_scale_policy *policy;
    enum wp_miss miss;
    uint32_t replicas;
    int64_t prior_lead_ns;
    int64_t begin_wall_ns; /* When the run began; not after the first event. */
    int64_t end_wall_ns;   /* When it ended; 0: with the last event. */
    /* The daemon asks for other reasons, too (a lease ends, a sandbox dies):
     * moments at which it did, in order, from the decisions it has kept. */
    const int64_t *asked_wall_ns;
    uint32_t n_asked;
    /* Called with each decision; its monotonic times are since the begin. */
    void (*decided)(void *ctx, const struct wp_scale_decision *decision);
    void *ctx;
};

/* RESOURCE_EXHAUSTED: no memory. */
enum wp_status wp_retrace_run(const struct wp_retrace *retrace,
                              struct wp_err *err);

#endif
