/* pool/sizing/scale.h - the scaler of a pool whose policy has an objective;
 * private to the files of pool/core.
 *
 * It is made with the first objective and kept to the pool's end. The control
 * thread tells it in each of the pool's turns what happened since the last one
 * and asks for the target, which the refill gets in the same turn: the order
 * leaves in the turn that sees the claim. A pool without an objective pays one
 * look at a pointer.
 *
 * Arrivals are counted from what claims count anyway: those that were served
 * warm, those that found nothing ready (wait.c), and, of the keeper, those
 * that other replicas were granted (records.c). Claims that find nothing
 * ready at another replica are not seen before one of them is granted. */
#ifndef WP_POOL_SIZING_SCALE_H
#define WP_POOL_SIZING_SCALE_H

#include "pool/history/history.h"
#include "pool/refill/refill.h"
#include "pool/table/pools.h"

enum {
    /* Lead times between two turns; of more than so many the latest count. */
    WP_SCALE_LEADS_MAX = 256,
};

struct wp_pool_scale {
    pthread_mutex_t lock;                    /* guards: to seen_quantum */
    struct wp_scaler *scaler;                /* Owned. */
    struct wp_scale_decision latest;         /* number 0: none yet. */
    uint64_t changes[WP_SCALE_REASON_COUNT]; /* Of the target. */
    int64_t leads_ns[WP_SCALE_LEADS_MAX];
    uint32_t n_leads; /* Since the last turn. */
    uint64_t leads_lost;
    bool undecided; /* Something that is to be decided on with the next turn. */
    uint32_t replicas_given;
    uint32_t at_once_given;
    int64_t seen_quantum; /* In which the scaler was told the time last. */

    _Atomic(bool) active;     /* The policy has an objective. */
    _Atomic(uint32_t) budget; /* Most that its group allows. */
    /* Arrival of a claim to the order that it led to, the lease store's time
     * included; up to a millisecond too long. */
    struct wp_histogram reaction;

    /* Control thread only. */
    bool scales;      /* As the keeper, with an objective. */
    uint32_t group;   /* Of a budget; of none when there is none of it. */
    uint32_t want;    /* As its group has been told. */
    double creations; /* Expected to be under way; in the sum of all pools. */
    uint64_t claims_seen;
    uint64_t missed_seen;
    int64_t seen_until_ns; /* The latest arrival that a turn has seen. */
    int64_t event_ns; /* The oldest arrival that this turn sees; 0: none. */
    int64_t next_ns;
    bool said; /* The target, at least once. */
    uint32_t said_target;
    int64_t say_at_ns; /* The next change, not before. */
    uint32_t declared; /* Replicas, not by SetPool. */
    bool set_by_call;  /* They are SetPool's now. */
};

/* NULL: the pool has none. Any thread. */
static inline struct wp_pool_scale *
wp_pool_scale_of(const struct wp_pool *pool)
{
    /* Pairs with the release in wp_pool_scale_set. */
    return atomic_load_explicit(&pool->scale, memory_order_acquire);
}

/* The same, when its policy has an objective. */
static inline struct wp_pool_scale *
wp_pool_scale_active(const struct wp_pool *pool)
{
    struct wp_pool_scale *scale = wp_pool_scale_of(pool);

    return scale != NULL &&
                   atomic_load_explicit(&scale->active, memory_order_relaxed)
               ? scale
               : NULL;
}

/* Its size is somebody's word, which the scaler keeps. Control thread. */
static inline bool
wp_pool_scale_by_hand(const struct wp_pool_scale *scale)
{
    return scale->latest.number > 0 && scale->latest.reason == WP_SCALE_BY_HAND;
}

/* --- scale.c --- */

/* What the spec's policy needs is there. RESOURCE_EXHAUSTED: no memory.
 * Control thread, as the next one. */
enum wp_status wp_pool_scale_make(struct wp_pool *pool,
                                  const struct wp_pool_spec *spec,
                                  struct wp_err *err);
/* The pool's policy and replicas are the spec's from now on. After make. */
void wp_pool_scale_set(struct wp_pool *pool, const struct wp_pool_spec *spec);
/* The pool is declared anew: who had scaled it by hand is forgotten. The
 * scaler's lock is not held. */
void wp_pool_scale_forget_hand(struct wp_pool *pool,
                               struct wp_pool_scale *scale);
/* The scaler is told the time; before it is told of anything that is now. Under
 * its lock, as the next. */
void wp_pool_scale_pass(struct wp_pool *pool, struct wp_pool_scale *scale,
                        int64_t now_ns);
/* Records an input of the scaler. */
void wp_pool_scale_record(struct wp_pool *pool, struct wp_pool_scale *scale,
                          int64_t now_ns, struct wp_history_event event);
void wp_pool_scale_destroy(struct wp_pool_scale *scale);
/* Tells the scaler what happened and sets the pool's target; returns when it
 * has to be asked again. stuck: nothing becomes ready. *wait: order and give
 * up nothing yet. Control thread. */
int64_t wp_pool_scale_turn(struct wp_pool *pool,
                           const struct wp_refill_view *view, bool stuck,
                           bool *wait);
/* A sandbox of the pool became ready. Any thread. */
void wp_pool_scale_on_ready(struct wp_pool *pool, int64_t lead_ns);
/* Control has come upon a leased slot. Control thread. */
void wp_pool_scale_on_leased(struct wp_pool *pool, struct wp_slot_ref ref);
/* The turn's orders have left, if there were any. Control thread. */
void wp_pool_scale_ordered(struct wp_pool *pool, bool any);
/* Fills the scaler's part of the numbers. Any thread. */
void wp_pool_scale_stats(struct wp_pool *pool, struct wp_pool_stats *out);

#endif
