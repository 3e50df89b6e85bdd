/* pool/scale/scaler.h - the controller of one pool: what was seen comes in, the
 * target goes out.
 *
 * Pure and deterministic: it calls nobody, reads no clock, draws no random
 * numbers; the same calls in the same order give the same decisions. So the
 * daemon, `advise` and the simulator run this very object, and a recorded run
 * replays to the same decisions. One owner at a time; no locks.
 *
 * All times given must not go back; one that does is taken for the last. Wall
 * time may step: it is used for the schedule only.
 *
 * It lives on a grid. Times are rounded down to WP_SCALE_QUANTUM_NS, and it
 * goes on only with its inputs and at moments of its own choice: a claim,
 * a reservation, another policy or other replicas are decided on at once, in
 * the quantum in which they are told; lead times at the next quantum; all else
 * when it is due, and then as of that time, however late it is asked. Asked
 * besides, it repeats its answer, held against what is possible now. So the
 * same events in the same quanta give the same decisions, whoever asks how
 * often: that is what a recorded run is replayed by (retrace.h). Room, budget
 * and a stuck refill bound what is shown, and nothing that is remembered. The
 * cost of a call does not depend on how many claims it tells of, nor on how
 * long nothing happened.
 *
 * By hand. The target is the scaler's as long as spec.replicas stays as it was
 * when the policy was set. Whoever changes spec.replicas later (a person, an
 * HPA) has taken over: the target is theirs, the decision says
 * WP_SCALE_BY_HAND, and what the scaler would do stays visible in `wanted`,
 * until the policy changes (its `resume` key is there for that). */
#ifndef WP_POOL_SCALE_SCALER_H
#define WP_POOL_SCALE_SCALER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/clock.h"
#include "pool/policy/policy.h"
#include "pool/scale/stock.h"

#define WP_SCALE_QUANTUM_NS (10 * WP_NS_PER_MS)
#define WP_SCALE_WALL_SLACK_NS (100 * WP_NS_PER_MS)
#define WP_SCALE_LATE_NS (60 * WP_NS_PER_S)
#define WP_SCALE_REASON_LASTS_NS (60 * WP_NS_PER_S)

enum {
    WP_SCALE_RESERVATIONS_MAX = 256, /* Of one pool. */
    WP_SCALE_DECISIONS_KEPT = 64,    /* Of one pool, for explain. */
    WP_SCALE_TEXT_MAX = 400,
    WP_SCALE_STATE_MAX = 65500, /* With the rest of a snapshot: 64 KiB. */
};

struct wp_scaler; /* Opaque. */

/* Which of the terms decided; each has a word and a sentence (scale_text.c). */
enum wp_scale_reason {
    WP_SCALE_NOTHING_SEEN, /* No claim yet: spec.replicas and the bounds. */
    WP_SCALE_FORECAST,  /* Demand expected in one lead time, and its spread. */
    WP_SCALE_BURST,     /* One is under way: what such bursts took. */
    WP_SCALE_RESERVED,  /* Announced demand. */
    WP_SCALE_SCHEDULED, /* A floor by the clock. */
    WP_SCALE_MIN,
    WP_SCALE_MAX,
    WP_SCALE_QUOTA,       /* No slots left, or the cluster's quota. */
    WP_SCALE_BUDGET,      /* Its share of the group's. */
    WP_SCALE_HELD,        /* Less would do: the scale-down window or rate. */
    WP_SCALE_NO_PROGRESS, /* Nothing becomes ready: not raised. */
    WP_SCALE_BY_HAND,
    WP_SCALE_SATURATED, /* More claims come than sandboxes can be made. */
    WP_SCALE_BETWEEN,   /* None of the bursts that recur is due. */
    WP_SCALE_REASON_COUNT,
};

/* One decision and its terms. Plain numbers: kept, sent and printed as is. */
struct wp_scale_decision {
    uint64_t number; /* Of this scaler's, from 1; of one that is not kept: of
                      * the one before it. */
    int64_t mono_ns; /* When it was taken; its quantum's beginning. */
    int64_t wall_ns;
    uint32_t target_before;
    uint32_t target;
    uint32_t wanted; /* Before bounds, budget, hold and hand. */
    enum wp_scale_reason reason;

    double rate_per_s; /* Forecast, over the next lead time. */
    double rate_fast_per_s;
    double rate_slow_per_s;
    double lead_mean_s; /* As measured. */
    double lead_p99_s;
    /* Claims in one lead time: rate * lead_mean, of which no less than a
     * quantum counts. */
    double expected;
    double spread;        /* Stock on top of that. */
    double dispersion;    /* Variance / mean of claims in a lead time. */
    bool learned;         /* spread is a quantile of past errors, not a form. */
    uint32_t reserved;    /* Announced for this time. */
    uint32_t floor;       /* By the schedule, now. */
    double hit_rate;      /* Expected with this target. */
    double idle;          /* The same: mean number ready. */
    double hit_rate_seen; /* Over what is remembered; NaN: nothing. */
    double seen_claims;   /* Of so many. */
    int64_t burst_unix_ms; /* The latest burst beyond what the theory had
                            * planned for, where bursts decide; 0: none. */
    int64_t due_unix_ms;   /* From when on more is kept for the next burst,
                             * where none is due; 0: one may come now. */
    double hit_rate_best;  /* When the objective cannot be had within max: the
                           * best that can; NaN otherwise. */
    uint32_t at_once;   /* Sandboxes that can be made at once; 0: no bound. */
    bool shared_bound;  /* That is the backend's for all its pools, less what
                        * others make; else the pool's own. */
    double makes_per_s; /* As many as that makes; NaN: no bound, or no lead
                         * time was measured. */
    double queue_s;     /* Mean time that an order waits for its turn. */
};

/* What is, besides the inputs event by event. */
struct wp_scale_view {
    int64_t mono_ns;
    int64_t wall_ns;
    uint32_t replicas; /* spec.replicas, now. */
    uint32_t ready;
    uint32_t warming;
    uint32_t room;   /* Sandboxes that could be added: slots, quota. */
    uint32_t budget; /* Most that the group allows; UINT32_MAX: no group. */
    bool stuck;      /* The refill's breaker is open. */
    /* Of the backend: how many are made at once for all its pools, 0: no bound;
     * and how many of these are other pools', in the mean. */
    uint32_t backend_at_once;
    double others;
    double queue_s; /* Mean time from an order to its start. */
};

/* NULL when memory lacks. prior_lead_ns: believed until leads are measured. */
struct wp_scaler *wp_scaler_create(enum wp_miss miss, uint32_t replicas,
                                   int64_t prior_lead_ns, int64_t mono_ns,
                                   int64_t wall_ns);
void wp_scaler_destroy(struct wp_scaler *scaler);
/* Checked before (wp_scale_policy_check). Ends a takeover by hand if anything
 * changed. */
void wp_scaler_set_policy(struct wp_scaler *scaler,
                          const struct wp_scale_policy *policy);
const struct wp_scale_policy *wp_scaler_policy(const struct wp_scaler *scaler);
/* A number for a policy: another one has another. */
uint64_t wp_scaler_policy_print(const struct wp_scale_policy *policy);

/* What passing time brought. */
enum wp_scale_passed {
    /* It came more than WP_SCALE_LATE_NS after something was due: nobody has
     * looked meanwhile, and what was due is decided next. */
    WP_SCALE_PASSED_LATE = 1,
    /* The wall was off by WP_SCALE_WALL_SLACK_NS and more, and is followed. */
    WP_SCALE_PASSED_CLOCK = 2,
};

/* Time passes: what became due is decided as of when it was due. Before
 * anything is told of this moment; wp_scaler_decide does it, too. Flags. */
unsigned wp_scaler_pass(struct wp_scaler *scaler, int64_t mono_ns,
                        int64_t wall_ns);
/* When something is due, monotonic; WP_TIME_NEVER: nothing. */
int64_t wp_scaler_due_ns(const struct wp_scaler *scaler);
/* The wall's time as it is followed. */
int64_t wp_scaler_wall_ns(const struct wp_scaler *scaler);

/* n claims came, of which missed found nothing ready. */
void wp_scaler_on_claims(struct wp_scaler *scaler, int64_t mono_ns, uint32_t n,
                         uint32_t missed);
/* A sandbox became ready lead_ns after the backend had begun with it. */
void wp_scaler_on_ready(struct wp_scaler *scaler, int64_t mono_ns,
                        int64_t lead_ns);

/* At most n sandboxes are made at once; 0: no bound, as at first. More stock
 * is kept where orders queue for that; where more claims come than can be made,
 * none is asked for that could not be. */
void wp_scaler_set_at_once(struct wp_scaler *scaler, int64_t mono_ns,
                           uint32_t n);

/* n claims are announced from from_wall_ns to until_wall_ns; the stock for them
 * is ordered a lead time ahead (p99.9; less where other stock, or what is
 * announced for right after it, makes up for those that come late: ahead.h), is
 * held from from_wall_ns on, and given up at
 * the end. As claims come they use up what is announced: demand is not counted
 * twice. Who will claim for minutes announces piece by piece. ALREADY_EXISTS
 * with the same id and other numbers (the same: OK), RESOURCE_EXHAUSTED with
 * too many. Id: 1 to 63 printable characters. */
enum wp_status wp_scaler_reserve(struct wp_scaler *scaler, struct wp_str id,
                                 uint32_t n, int64_t from_wall_ns,
                                 int64_t until_wall_ns, struct wp_err *err);
/* NOT_FOUND when there is none, or it is over. */
enum wp_status wp_scaler_cancel(struct wp_scaler *scaler, struct wp_str id);
struct wp_scale_reservation {
    char id[64];
    uint32_t n;
    uint32_t left; /* Not yet claimed. */
    int64_t from_wall_ns;
    int64_t until_wall_ns;
};
/* The i-th that is not over; false beyond the last. */
WP_MUST_CHECK bool wp_scaler_reservation(const struct wp_scaler *scaler,
                                         uint32_t i,
                                         struct wp_scale_reservation *out);

/* The decision now. Asked for after each batch of events and at *next_ns
 * (monotonic, at the latest). Each one that moved the target is kept for
 * explain, and the first for another reason that has ruled for
 * WP_SCALE_REASON_LASTS_NS: which of two forecasts is the higher one may change
 * with every claim. By hand, and not so any more, is kept at once. */
struct wp_scale_decision wp_scaler_decide(struct wp_scaler *scaler,
                                          const struct wp_scale_view *view,
                                          int64_t *next_ns);
/* The i-th latest kept decision, 0 the newest; false beyond the oldest. */
WP_MUST_CHECK bool wp_scaler_kept(const struct wp_scaler *scaler, uint32_t i,
                                  struct wp_scale_decision *out);
/* "target 40 -> 57: 5.1 claims/s x 8.2 s lead = 42 expected + 15 spread ..." */
void wp_scale_decision_format(const struct wp_scale_decision *decision,
                              char *out, size_t cap);
/* "forecast", "by-hand", ...; static. */
const char *wp_scale_reason_word(enum wp_scale_reason reason);

/* What one more, or one less, would bring: misses per second saved by going
 * from stock s to s + 1. For the budget of a group: greedy over these is the
 * optimum, since they only fall with s. */
double wp_scaler_marginal(const struct wp_scaler *scaler, uint32_t s);

/* What was learned, for the lease store: a few kB, at most WP_SCALE_STATE_MAX
 * (with all reservations there may be); versioned. Who keeps them sees damage:
 * of that only what cannot be is seen here. Returns the bytes needed; writes
 * only when cap suffices. */
size_t wp_scaler_save(const struct wp_scaler *scaler, int64_t mono_ns,
                      int64_t wall_ns, void *out, size_t cap);
/* INVALID_ARGUMENT: not such bytes, of another version, or what cannot be: the
 * scaler is as it was. How long ago it was saved, by the wall, fades it. */
enum wp_status wp_scaler_load(struct wp_scaler *scaler, int64_t mono_ns,
                              int64_t wall_ns, const void *bytes, size_t len,
                              struct wp_err *err);

#endif
