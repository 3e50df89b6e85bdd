/* pool/refill/refill.h - how many sandboxes a pool should make or give up now.
 *
 * Pure policy: it is told what is, and says what to do; it calls nobody. One
 * `struct wp_refill` for each pool, owned by the control thread.
 *
 * Invariant I7 lives here: no plan creates beyond ready + warming = target,
 * plus the waiting claims as far as the view says that they count.
 *
 * The breaker keeps a pool whose sandboxes all fail from making ever more:
 *
 *              5 failures in a row,         retry time reached,
 *              none ready between           nothing else warming
 *     CLOSED ----------------------> OPEN ----------------------> PROBING
 *        ^                           |  ^                         |  |
 *        |<------- a ready one ------+  +--- failed: wait doubles-+  |
 *        +<-------------------- a ready one -------------------------+ */
#ifndef WP_POOL_REFILL_REFILL_H
#define WP_POOL_REFILL_REFILL_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/clock.h"
#include "pool/base/rng.h"
#include "pool/base/status.h"
#include "pool/pool.h"

enum {
    /* Creations that fail in a row, with none becoming ready, before the
     * breaker opens. */
    WP_REFILL_BREAKER_FAILURES = 5,
    /* Most creations, and most scale-downs, in one plan. */
    WP_REFILL_BATCH_MAX = 64,
};

/* The breaker's wait doubles from the first to the second; each wait is between
 * three quarters and the whole of that. */
#define WP_REFILL_BACKOFF_MIN_NS (1 * WP_NS_PER_S)
#define WP_REFILL_BACKOFF_MAX_NS (60 * WP_NS_PER_S)
/* A sandbox that is lost so soon after it became ready, and unclaimed, died
 * young: it counts like one that never became ready. */
#define WP_REFILL_YOUNG_NS (5 * WP_NS_PER_S)
/* The pause after a backend that was full, doubling until one becomes ready. */
#define WP_REFILL_PAUSE_MIN_NS (10 * WP_NS_PER_MS)
#define WP_REFILL_PAUSE_MAX_NS (1 * WP_NS_PER_S)
/* Bounds of what a refused claim is told. */
#define WP_REFILL_RETRY_MIN_NS (10 * WP_NS_PER_MS)
#define WP_REFILL_RETRY_MAX_NS (60 * WP_NS_PER_S)
/* The lead time assumed before one has been measured. */
#define WP_REFILL_LEAD_GUESS_NS (1 * WP_NS_PER_S)

enum wp_breaker {
    WP_BREAKER_CLOSED,
    WP_BREAKER_OPEN,
    WP_BREAKER_PROBING,
};

/* Private; read through the functions. */
struct wp_refill {
    struct wp_rng rng;
    enum wp_breaker breaker;
    uint32_t failures_in_row;
    int64_t backoff_ns; /* The next wait of the breaker, before jitter. */
    int64_t retry_at_ns;
    int64_t
        pause_ns; /* The next pause after a full backend; 0: the shortest. */
    int64_t paused_until_ns;
    int64_t lead_ns;       /* Decayed mean; 0: none measured. */
    uint32_t young_in_row; /* Died young, with none that lived in between. */
    bool on_trial;         /* Some became ready since the last young death. */
    int64_t proven_at_ns;  /* When they will have lived; 0: not known yet. */
};

/* What is. */
struct wp_refill_view {
    uint32_t target;
    uint32_t ready;
    uint32_t warming;
    uint32_t waiting; /* Claims in the wait queue. */
    /* Waiting claims add to the target, but not beyond this. */
    uint32_t waiting_max;
    uint32_t create_inflight_max; /* Most warming at once. */
    uint32_t slots_free;          /* Records left for new sandboxes. */
    bool draining;
    int64_t now_ns;
};

/* What to do. create and destroy are never both more than 0. */
struct wp_refill_plan {
    uint32_t create;  /* Order this many sandboxes now. */
    uint32_t destroy; /* Give up this many of the ready ones, stalest first. */
    /* When to ask again at the latest, besides after every event; now_ns when a
     * batch did not hold everything, WP_TIME_NEVER when only events matter. */
    int64_t ask_again_ns;
};

/* seed: for the jitter; pools with different seeds do not retry in step. */
void wp_refill_init(struct wp_refill *refill, uint64_t seed);

/* The plan must be carried out (or its refusals be reported) before the next is
 * asked for. */
struct wp_refill_plan wp_refill_plan(struct wp_refill *refill,
                                     const struct wp_refill_view *view);

/* A sandbox became ready, lead_ns after its order; negative: nobody knows how
 * long after it. Closes the breaker, unless
 * too many died young. */
void wp_refill_on_ready(struct wp_refill *refill, int64_t lead_ns);
/* A ready sandbox died young. After WP_REFILL_BREAKER_FAILURES of them in a row
 * the breaker opens, and then closes not when one becomes ready but when it has
 * lived for WP_REFILL_YOUNG_NS: a pool whose sandboxes all crash is not
 * refilled at full speed for ever. */
void wp_refill_on_died_young(struct wp_refill *refill, int64_t now_ns);
/* A sandbox was lost before it became ready. One that is destroyed on purpose
 * while warming is no failure and is not reported. */
void wp_refill_on_failed(struct wp_refill *refill, int64_t now_ns);
/* The backend did not take an order. RESOURCE_EXHAUSTED pauses creation for a
 * moment; any other status counts as a failed sandbox. Stop the batch after the
 * first refusal. */
void wp_refill_on_create_refused(struct wp_refill *refill,
                                 enum wp_status status, int64_t now_ns);

bool wp_refill_breaker_open(const struct wp_refill *refill);
/* How long until the next probe may be made; 0 when closed or due. */
int64_t wp_refill_breaker_retry_in_ns(const struct wp_refill *refill,
                                      int64_t now_ns);
/* The decayed mean of order to ready: each new one counts for a fifth. Before
 * the first, WP_REFILL_LEAD_GUESS_NS. */
int64_t wp_refill_lead_ns(const struct wp_refill *refill);
bool wp_refill_lead_measured(const struct wp_refill *refill);

/* What to tell a claim that is refused now: the expected time until a sandbox
 * would be free for it, behind the claims that wait.
 *
 * With L the mean lead time, W warming, C what may be made at once, and the
 * claim the k-th in line (k = waiting + 1):
 *
 *     k <= W:  L * k / (W + 1)            the k-th of W residual lead times,
 *                                         spread evenly over 0..L
 *     k >  W:  L + L * (k - W) / (C + 1)  after those, as fast as C at once go
 *
 * plus the breaker's or the backend's pause when nothing is warming. When
 * nothing will be made at all (draining, target 0 as if nobody waited, no slot
 * left, none at once) it is the upper bound. Always within
 * WP_REFILL_RETRY_MIN_NS.._MAX_NS. */
int64_t wp_refill_retry_after_ns(const struct wp_refill *refill,
                                 const struct wp_refill_view *view);

#endif
