/* pool/pools.h - what the pool_*.c files share; private to them.
 *
 * pool.c        life of the whole, adding pools, numbers
 * pool_claim.c  claim, waiting, repeats, cancel, undo
 * pool_lease.c  renew, release, and the end of leases
 * pool_query.c  get, list, find
 * pool_run.c    the control thread's turn: expiry, time-outs, refill
 * pool_report.c what the backend tells
 *
 * Locks: wait_lock of a pool, change_lock of a slot's stripe, ends_lock. None
 * is on the warm path, none is taken under another, and no callback, backend or
 * store is called under one. */
#ifndef WP_POOL_POOLS_H
#define WP_POOL_POOLS_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "pool/base/metrics.h"
#include "pool/base/rng.h"
#include "pool/claim_table.h"
#include "pool/lease_token.h"
#include "pool/pool.h"
#include "pool/ready_queue.h"
#include "pool/refill.h"
#include "pool/slot.h"
#include "pool/timing_wheel.h"
#include "pool/wait_queue.h"

enum {
    WP_CHANGE_STRIPES = 64,
    WP_ENDS_MAX = 256, /* Leases that the control thread ends at once. */
    WP_NAME_BUCKETS = 4 * WP_POOLS_MAX,
};

/* What the control thread has yet to do with a slot; bits of wp_slot.news. */
enum wp_news {
    WP_NEWS_LISTED = 1, /* In the news list; kept over generations. */
    WP_NEWS_UNDO = 2,   /* Its grant was never seen: end it, offer it again. */
    WP_NEWS_STOP = 4,   /* Its lease ends because the daemon leaves. */
    WP_NEWS_ENDING = 8, /* The store is being told that its lease ends. */
};

/* Bits of wp_slot.control_bits. */
enum wp_control_bit {
    WP_CONTROL_DESTROYING = 1, /* The backend has been told to destroy it. */
};

struct wp_pool {
    struct wp_pools *pools;
    struct wp_pool_spec spec;     /* Constant; the live target is below. */
    struct wp_str pool_namespace; /* Of spec, as are the two lengths. */
    struct wp_str name;
    uint32_t index;
    struct wp_ready_queue ready;

    /* Read on the warm path. */
    alignas(WP_CACHELINE) _Atomic(uint32_t) waiting; /* Of waiters. */
    _Atomic(bool) draining;
    _Atomic(uint32_t) target;
    _Atomic(int64_t) retry_after_ns; /* Control's estimate for a refusal. */

    /* Written by reports and claims, taken by the control thread. */
    alignas(WP_CACHELINE) _Atomic(bool) touched;
    _Atomic(uint32_t) became_ready;
    _Atomic(uint32_t) failed;
    _Atomic(uint32_t) died_young;
    _Atomic(int64_t) lead_last_ns;

    /* Written by the control thread for others to read. */
    _Atomic(bool) breaker_open;
    _Atomic(int64_t) breaker_retry_at_ns;

    pthread_mutex_t wait_lock; /* guards: waiters, followers, last_failure, and
                                * with them the decision that a pool is empty */
    struct wp_wait_queue waiters;
    struct wp_list followers; /* Claims that repeat a pending one. */
    char last_failure[WP_REASON_MAX + 1];

    /* Control thread only. */
    struct wp_refill refill;
    int64_t turn_at_ns;

    struct wp_counter served[4]; /* By enum wp_served; the warm ones are the
                                  * rest of claim_latency's count. */
    struct wp_counter refused;
    struct wp_counter released;
    struct wp_counter expired;
    struct wp_counter undone;
    struct wp_counter failures;
    struct wp_counter lost;
    struct wp_histogram claim_latency;
    struct wp_histogram lead_time;
};

/* A lease that the control thread is ending; the store may answer later. */
struct wp_lease_end {
    struct wp_lease_op op;
    struct wp_pools *pools;
    struct wp_list free;
    struct wp_lease_names names;
    bool undo;
};

struct wp_pools {
    struct wp_pools_config config;
    struct wp_slots slots;
    struct wp_claim_table claims;
    struct wp_token_key token_key;
    struct wp_hash_key name_key; /* For the suffixes of sandbox names. */

    /* Append-only. Who sees n_pools (acquire) sees the pointers below it; who
     * finds an index in by_name (acquire) sees that pool. */
    _Atomic(uint32_t) n_pools;
    struct wp_pool **pool;      /* Owned; WP_POOLS_MAX. */
    _Atomic(uint32_t) *by_name; /* Owned; open addressing, index + 1. */

    /* Wall minus monotonic time; the control thread keeps it fresh, so that a
     * claim reads one clock, not two. */
    _Atomic(int64_t) wall_offset_ns;

    alignas(WP_CACHELINE) _Atomic(uint32_t) news; /* Head of the news list. */
    alignas(WP_CACHELINE) _Atomic(bool) awake;    /* Control needs no wake. */

    pthread_mutex_t change_lock[WP_CHANGE_STRIPES]; /* guards: deadline_ns and
                                                     * the end of leases */
    pthread_mutex_t ends_lock;                      /* guards: ends_free */
    struct wp_list ends_free;
    struct wp_lease_end *ends; /* Owned; WP_ENDS_MAX. */

    /* Control thread only. */
    struct wp_timing_wheel wheel;
    struct wp_rng rng;
    uint32_t slots_used; /* In any state but FREE. */
    uint64_t memory_bytes;
};

static inline int64_t
wp_pools_now(const struct wp_pools *pools)
{
    return wp_clock_mono_ns(pools->config.clock);
}

static inline int64_t
wp_pools_wall_ms(const struct wp_pools *pools, int64_t mono_ns)
{
    return (mono_ns + atomic_load_explicit(&pools->wall_offset_ns,
                                           memory_order_relaxed)) /
           WP_NS_PER_MS;
}

static inline struct wp_pool *
wp_pools_of_slot(struct wp_pools *pools, uint32_t slot_index)
{
    return pools->pool[atomic_load_explicit(
        &wp_slot_at(&pools->slots, slot_index)->pool_index,
        memory_order_relaxed)];
}

static inline pthread_mutex_t *
wp_pools_change_lock(struct wp_pools *pools, uint32_t slot_index)
{
    return &pools->change_lock[slot_index % WP_CHANGE_STRIPES];
}

/* --- pool.c --- */

/* NULL when there is none. Any thread. */
struct wp_pool *wp_pools_find(const struct wp_pools *pools,
                              struct wp_str pool_namespace, struct wp_str name);
/* Puts the slot on the control thread's list, with these bits added to its
 * news, and sees that it will look. Any thread, lock-free. */
void wp_pools_note(struct wp_pools *pools, uint32_t slot_index, uint32_t news);
/* Has the control thread look at the pool. Any thread. */
void wp_pools_touch(struct wp_pool *pool);
/* Remembers, for people, why a sandbox of the pool failed. Any thread. */
void wp_pool_record_failure(struct wp_pool *pool, struct wp_str reason);
/* "<pool>-<suffix>" of a sandbox of this pool. */
void wp_pools_sandbox_name(const struct wp_pool *pool, const char *suffix,
                           char out[WP_SANDBOX_NAME_MAX + 1]);

/* --- pool_claim.c --- */

/* Offers a READY sandbox to the oldest waiting claim, or to the next one that
 * comes. Any thread; may call done of claims. */
void wp_pools_offer(struct wp_pool *pool, struct wp_slot_ref ref);
/* Gives ready sandboxes to waiting claims as long as there are both. */
void wp_pools_match(struct wp_pool *pool);
/* Refuses the claims whose time to wait is over; returns when the next one's
 * is. Control thread. */
int64_t wp_pools_expire_waiters(struct wp_pool *pool, int64_t now_ns);
/* Refuses every claim that waits for this pool. Control thread. */
void wp_pools_refuse_waiters(struct wp_pool *pool);
/* Fills a grant for the lease that claim entry holds on the slot; false when
 * the slot is no longer of that generation. */
WP_MUST_CHECK bool wp_pools_fill_grant(struct wp_pools *pools,
                                       const struct wp_pool *pool,
                                       struct wp_slot_ref ref,
                                       uint64_t claim_hash,
                                       struct wp_grant *grant);

/* --- pool_lease.c --- */

/* Ends the lease on the slot, whatever its reason: by expiry, because nobody
 * saw it (undo), or because the daemon leaves. False: try again later, all ends
 * are in use. Control thread. */
WP_MUST_CHECK bool wp_pools_end_lease(struct wp_pools *pools,
                                      struct wp_slot_ref ref, bool undo);
/* Fills the texts of a lease for a store. False when the lease has no claim any
 * more; the texts that are known are filled all the same. */
bool wp_pools_lease_names(struct wp_pools *pools, struct wp_slot_ref ref,
                          struct wp_lease_names *names);
/* An op of this kind for the lease; points into names. */
void wp_pools_lease_op(struct wp_pools *pools, struct wp_slot_ref ref,
                       enum wp_lease_op_kind kind,
                       const struct wp_lease_names *names,
                       struct wp_lease_op *op);

#endif
