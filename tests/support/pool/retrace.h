/* tests/support/pool/retrace.h - the decisions of a recorded run, taken again.
 *
 * What the daemon's scaler was told, a scaler is told again, in the same quanta
 * and in the same order. It is the same controller, so it takes the same
 * decisions, to the last bit of each term. Other than a replay
 * (allocator/advice/replay.h) this draws nothing and simulates no pool. Where
 * room, a budget or a stuck backend bounded what the pool's scaler showed, of
 * which a history knows nothing, the unbounded decision is taken; those after
 * it are not affected. */
#ifndef WP_TESTS_SUPPORT_POOL_RETRACE_H
#define WP_TESTS_SUPPORT_POOL_RETRACE_H

#include <stdint.h>

#include "pool/base/status.h"
#include "pool/history/history.h"
#include "pool/policy/policy.h"
#include "pool/scale/scaler.h"

struct wp_retrace {
    const struct wp_history *history;
    const struct wp_scale_policy *policy;
    enum wp_miss miss;
    int64_t prior_lead_ns;
    int64_t end_ns; /* When the run ended; 0: with the last event. */
    /* Called with each decision that a scaler keeps (wp_scaler_kept). Its
     * monotonic time, as the end's, is the history's, leaps of the wall left
     * out. */
    void (*decided)(void *ctx, const struct wp_scale_decision *decision);
    void *ctx;
};

/* Begins with the history's first WP_HISTORY_BEGIN. FAILED_PRECONDITION: the
 * record is not whole (its beginning had to go for newer events), the pool had
 * another policy for a while, or took over what another daemon had learned.
 * RESOURCE_EXHAUSTED: no memory. */
enum wp_status wp_retrace_run(const struct wp_retrace *retrace,
                              struct wp_err *err);

#endif
