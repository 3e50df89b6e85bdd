/* pool/scale/scaler_impl.h - what the files scaler*.c share. Nobody else
 * includes it. */
#ifndef WP_POOL_SCALE_SCALER_IMPL_H
#define WP_POOL_SCALE_SCALER_IMPL_H

#include "pool/scale/bursts.h"
#include "pool/scale/forecast.h"
#include "pool/scale/gaps.h"
#include "pool/scale/hold.h"
#include "pool/scale/lead_time.h"
#include "pool/scale/learn.h"
#include "pool/scale/need.h"
#include "pool/scale/reservation.h"
#include "pool/scale/scaler.h"
#include "pool/scale/trial.h"
#include "pool/scale/window.h"

struct wp_scaler {
    enum wp_miss miss;
    int64_t prior_lead_ns;
    /* All times in here count from the scaler's own beginning, restarts left
     * out: monotonic time is now_ns + offset_ns. */
    int64_t now_ns;
    int64_t offset_ns;
    int64_t wall_ns; /* At now_ns, as far as known. */
    struct wp_scale_policy policy;

    /* By hand: who set spec.replicas. */
    uint32_t replicas; /* As the policy found it, or the hand set it. */
    bool replicas_known;
    bool by_hand;

    /* What was seen. */
    struct wp_windows windows;
    struct wp_lead_time lead;
    struct wp_need need;
    struct wp_trial trial;
    struct wp_bursts bursts;
    struct wp_learn *learn; /* Owned; NULL as long as the theory holds. */
    uint32_t theory_stock;  /* Of the latest decision. */
    int64_t solve_at_ns;
    /* The loops closed over what really misses: so much more of the misses
     * allowed is planned (log), since the reckoning is on the safe side. While
     * the stock is learned; how many were allowed so far then; and while it is
     * the theory's. */
    double slack_log;
    double slack_allowed;
    double theory_slack_log;
    int64_t due_ns;   /* The next step without an event; on the grid. */
    bool fresh;       /* There was an input that is decided on at once. */
    uint32_t at_once; /* 0: no bound. */
    struct wp_reservations reservations;
    int64_t ordered_ns; /* See wp_ahead_due. */
    double background;  /* Claims expected besides those announced, not come. */
    int64_t background_ns; /* Counted from the latest event or step: less than
                            * all of it, so that what was announced is rather
                            * taken for claimed than kept twice. */
    uint64_t claims;
    double claims_seen; /* Faded, for hit_rate_seen. */
    double missed_seen;
    double gap_s; /* Between moments with claims, faded mean. */
    struct wp_gaps gaps;
    int64_t last_claim_ns;

    /* What was decided, room and budget and a stuck refill apart. */
    struct wp_hold hold;
    uint32_t target;
    uint32_t reserved; /* Of target, for announced demand. */
    bool decided;      /* target is one of ours. */
    struct wp_scale_decision inner;
    struct wp_forecast forecast; /* Of the latest decision. */

    /* What was shown: the same within what is possible. */
    struct wp_scale_view view; /* The latest. */
    struct wp_scale_decision shown;
    uint64_t decisions;
    enum wp_scale_reason reason; /* Of the latest that was kept. */
    enum wp_scale_reason other;  /* That rules now, since then. */
    int64_t other_since_ns;
    struct wp_scale_decision *kept; /* Owned; a ring that grows to its bound. */
    uint32_t n_kept;
    uint32_t kept_cap;
    uint32_t kept_at; /* Where the next one goes. */
};

/* More than this cannot have passed: the clock is broken, time stands still. */
#define WP_SCALER_PASS_MAX_NS (INT64_MAX / 4)

/* Time passes, and nothing is decided; one that goes back does not. */
void wp_scaler_go_on(struct wp_scaler *scaler, int64_t mono_ns);
/* A moment of the scaler's own clock as monotonic time. */
int64_t wp_scaler_mono_ns(const struct wp_scaler *scaler, int64_t own_ns);
/* Decides as of now. */
void wp_scaler_step(struct wp_scaler *scaler);
/* Shows the latest decision within what is possible; stepped: it is new. */
void wp_scaler_show(struct wp_scaler *scaler, bool stepped);
/* Up to now: before anything of now is told. */
void wp_scaler_learn_time(struct wp_scaler *scaler);
void wp_scaler_learn_claims(struct wp_scaler *scaler, uint32_t n,
                            uint32_t missed);
/* Lowers the theory's stock where fewer missed than it allowed for. */
void wp_scaler_take_leeway(struct wp_scaler *scaler);
/* Whether a burst is due, as of now; else the forecast says when. */
void wp_scaler_see_due(struct wp_scaler *scaler);
/* Where the theory fails, puts the learned stock in its place. */
void wp_scaler_learned_stock(struct wp_scaler *scaler);
static inline uint32_t
wp_scaler_add_u32(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static inline int64_t
wp_scaler_floor_ns(int64_t ns)
{
    return ns > 0 ? ns - ns % WP_SCALE_QUANTUM_NS : 0;
}

/* The share of misses that the objective allows. */
double wp_scaler_miss_allowed(const struct wp_scaler *scaler);
/* What of it the loops over misses aim at. */
double wp_scaler_miss_aimed(const struct wp_scaler *scaler);
/* What claims of late give as hit rate; NaN when there were none. */
double wp_scaler_hit_rate_seen(const struct wp_scaler *scaler);

#endif
