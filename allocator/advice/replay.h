/* allocator/advice/replay.h - a pool on a simulated clock: what would this
 * policy have done with these claims?
 *
 * Event by event: claims from a source, orders that become ready after lead
 * times drawn from a seed, failures, ceilings. The sizing policy is behind a
 * table of functions, so that ours (the daemon's own controller object) and all
 * it is compared with are driven by the same loop. Deterministic by
 * its seed. */
#ifndef WP_ALLOCATOR_ADVICE_REPLAY_H
#define WP_ALLOCATOR_ADVICE_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/rng.h"
#include "pool/base/status.h"
#include "pool/policy/policy.h"
#include "pool/scale/stock.h"

/* Where claims come from; times never go back. */
struct wp_replay_source {
    /* The next moment with claims: false at the end. */
    bool (*next)(void *self, int64_t *mono_ns, uint32_t *n);
    /* Announced demand, or NULL: called once before the first claim. Each is
     * told to the policy at announced_ns. */
    bool (*announced)(void *self, uint32_t i, int64_t *announced_ns,
                      int64_t *from_ns, int64_t *until_ns, uint32_t *n);
    void *self;
};

/* Lead times: a mixture of two lognormal laws, or measured ones. */
struct wp_replay_lead {
    double median_s;
    double sigma;
    double
        slow_share; /* 0..1: so many take slow_extra_s longer (image pull). */
    double slow_extra_s;
    double fail_share; /* 0..1: never become ready, noticed after their lead. */
    const int64_t *measured_ns; /* When given, drawn from these instead. */
    uint32_t n_measured;
};

/* Mean seconds from an order to a ready one, with the orders that replace those
 * that failed; HUGE_VAL when all fail. */
double wp_replay_lead_mean_s(const struct wp_replay_lead *lead);

/* What a sizing policy sees. */
struct wp_replay_view {
    int64_t now_ns;
    uint32_t ready;
    uint32_t warming;
    uint32_t in_use;
    uint32_t waiting;
    uint64_t claims; /* In all, so far. */
    uint64_t missed;
    uint64_t became_ready;
    bool stuck; /* The refill's breaker is open. */
};

struct wp_replay_policy {
    const char *name;
    void *self;
    /* Told of each event before target is asked. May be NULL. */
    void (*on_claims)(void *self, int64_t now_ns, uint32_t n, uint32_t missed);
    void (*on_ready)(void *self, int64_t now_ns, int64_t lead_ns);
    void (*on_announced)(void *self, int64_t now_ns, int64_t from_ns,
                         int64_t until_ns, uint32_t n);
    /* The target now, and when to ask again at the latest. Policies with a
     * period of their own (an HPA's 15 s) are asked then and after each event,
     * and keep to their period themselves. */
    uint32_t (*target)(void *self, const struct wp_replay_view *view,
                       int64_t *next_ns);
    void (*destroy)(void *self);
};

struct wp_replay_config {
    struct wp_replay_source source;
    struct wp_replay_lead lead;
    enum wp_miss miss;
    /* QUEUED: claims that wait order nothing. What serves them is made for the
     * stock: a pool with neither an objective nor cold starts. */
    bool waiting_orders_none;
    int64_t begin_ns; /* What happens before counts for nothing: warm-up. */
    int64_t end_ns;
    double hold_median_s;  /* How long a claim keeps its sandbox, lognormal, */
    double hold_sigma;     /* for policies that look at what is in use; a missed
                           * claim uses one from elsewhere. 0: not simulated,
                           * in_use is 0. */
    uint32_t inflight_max; /* Warming at once; 0: nothing is made. */
    double creates_per_s_max; /* 0: unbounded. More wait for their turn before
                               * their lead time begins. */
    uint32_t ceiling; /* Sandboxes in all: ready, warming, in use. Beyond it
                       * the backend refuses orders; UINT32_MAX: none. */
    int64_t ceiling_from_ns; /* While the ceiling holds. */
    int64_t ceiling_until_ns;
    uint64_t seed;
    /* Called about every hundredth of the way; may be NULL. False: stop. */
    bool (*progress)(void *ctx, double share);
    void *ctx;
};

struct wp_replay_result {
    uint64_t claims;
    uint64_t hits;
    double hit_rate;   /* 1 when there were no claims. */
    double idle_mean;  /* Mean number ready. */
    double idle_s;     /* The same, summed over time. */
    double warming_s;  /* As much of those that are being made. */
    double wait_p50_s; /* Of all claims, to 1 %; hits wait 0. LOST: a miss waits
                        * one lead time of its own. QUEUED: one that waits at
                        * the end has waited until then. */
    double wait_p99_s;
    double wait_p999_s;
    uint64_t created;
    uint64_t failed;
    uint64_t unused;          /* Created and given up without a claim. */
    uint32_t stock_max;       /* Most ready and warming at once. */
    uint32_t over_target_max; /* Most that ready + warming were above target +
                               * waiting right after an order; must be 0. */
    uint64_t target_changes;
    bool stopped; /* progress said so. */
};

/* The refill is the daemon's (pool/refill/refill.h), with its breaker and its
 * bounds; claims that miss wait as the pool's own do where cold starts are
 * allowed (QUEUED), or are refused (LOST). Begins empty, at the first claim,
 * the first announcement or begin_ns, whichever is first. Source and policy are
 * borrowed and used up. INVALID_ARGUMENT: names what is wrong;
 * RESOURCE_EXHAUSTED: no memory. */
enum wp_status wp_replay_run(const struct wp_replay_config *config,
                             struct wp_replay_policy *policy,
                             struct wp_replay_result *out, struct wp_err *err);

/* Ours: a scaler (pool/scale/scaler.h) as a policy, asked after each event and
 * when it says. start_wall_ns: the wall's time at monotonic 0. False when
 * memory lacks. Destroy by its destroy. */
bool wp_replay_policy_ours(const struct wp_scale_policy *policy,
                           enum wp_miss miss, uint32_t replicas,
                           int64_t prior_lead_ns, int64_t start_wall_ns,
                           struct wp_replay_policy *out);
/* The scaler is told that only so many are made at once; config.inflight_max is
 * what bounds them. ours: from the function above. */
void wp_replay_policy_ours_at_once(const struct wp_replay_policy *ours,
                                   uint32_t n);
/* The share of claims that its latest decision expects to serve. ours: the
 * same. */
double wp_replay_policy_ours_outlook(const struct wp_replay_policy *ours);
/* A size that never changes. False when memory lacks. */
bool wp_replay_policy_fixed(uint32_t size, struct wp_replay_policy *out);
/* Told every claim in advance: orders for each ahead_s before it comes. future:
 * another copy of the source that is replayed; it is read and used up. False
 * when memory lacks. */
bool wp_replay_policy_clairvoyant(struct wp_replay_source future,
                                  double ahead_s, struct wp_replay_policy *out);
/* Claims of a history (pool/history/history.h), which must not change
 * meanwhile, by the time since its first event; gaps are left out, and what
 * follows them comes so much earlier. False when memory lacks. Ended by the
 * other one. */
struct wp_history;
WP_MUST_CHECK bool wp_replay_source_history(const struct wp_history *history,
                                            struct wp_replay_source *out);
void wp_replay_source_history_end(struct wp_replay_source *source);

#endif
