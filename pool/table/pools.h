/* pool/table/pools.h - what the rooms behind pool/pool.h share; private to
 * them.
 *
 * From below:
 *
 * pool/table, which every other room knows
 * table.c          the pools there are, by index and by name
 * slot_bits.c      what a slot has besides its state
 * mark.c           what is left for the control thread
 * peers.c          which sandboxes this replica prefers
 * sandbox_slot.c   slots of sandboxes: taken, found, named, freed
 * held.c           the lease that a slot has
 * arrivals.c       claims, counted
 * shrink.c         a pool that is to be smaller
 *
 * pool/grant: where claims are decided
 * await_store.c    claims whose id the store knows
 * claim.c          claim, repeats
 * leave.c          cancel, undo
 * wait.c           claims that wait for a sandbox
 * share.c          what a tenant may have of it
 * resume.c         the same, when it has told
 * query.c          get, list, find
 *
 * pool/records: leases and the store; knows pool/grant
 * store_request.c  what control asks of the store
 * lease.c          renew, release
 * lease_end.c      other ends of leases
 * records.c        what the store's records say
 * answers.c        what the store was asked for somebody
 *
 * pool/sizing: a pool's size; knows neither of the two
 * history.c        what claims were, recorded for advice
 * budget.c         what pools share
 * snapshot_due.c   when what is kept of a pool is saved
 * scale.c          the inputs of a pool's scaler, and the target that it sets
 * snapshot.c       what that is
 *
 * pool/core: the control thread and the backend; knows all
 * report.c         what the backend tells
 * report_lease.c   what it is told
 * replicas.c       a replica among others: keeper, forgetful stores
 * external.c       sandboxes that others see too: ended, retired, found
 * attention.c      control looks at a slot
 * turn.c           control's turn of a pool
 * shape.c          adding, changing and removing pools
 * run.c            the control thread's turn
 * pool.c           life of the whole, numbers
 *
 * Only claim.c and wait.c call each other; every other file calls those above
 * it in this list only.
 *
 * Locks: wait_lock of a pool, change_lock of a slot's stripe, those of
 * store_request.c and peers.c, that of a pool's scaler, that of its history.
 * None is on the warm path, none but the last, under a scaler's, is taken under
 * another, and no callback, backend or store is called under one.
 */
#ifndef WP_POOL_TABLE_POOLS_H
#define WP_POOL_TABLE_POOLS_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "pool/base/metrics.h"
#include "pool/base/rng.h"
#include "pool/claims/claim_table.h"
#include "pool/claims/expired.h"
#include "pool/claims/wait_queue.h"
#include "pool/leases/token.h"
#include "pool/pool.h"
#include "pool/slots/ready_queue.h"
#include "pool/slots/slot.h"
#include "pool/slots/slot_map.h"
#include "pool/table/slot_bits.h"

enum {
    WP_CHANGE_STRIPES = 64,
    WP_NAME_BUCKETS = 4 * WP_POOLS_MAX,
};

/* The time of a sandbox's order, when it was found: it took no time here. */
#define WP_CREATED_ELSEWHERE INT64_MIN

struct wp_pool_budgets; /* budget.c */
struct wp_pool_history; /* history.h */
struct wp_pool_scale;   /* scale.h */
struct wp_snapshots;    /* snapshot.c */
struct wp_snapshot_state;
struct wp_pool_turns;     /* turn.c */
struct wp_peers;          /* peers.c */
struct wp_store_requests; /* store_request.c */
struct wp_reported_lease; /* report_lease.c */
struct wp_attention;      /* attention.c */

struct wp_pool {
    struct wp_pools *pools;
    /* The names are constant. The rest is written by control, under wait_lock;
     * what claims read of it is below. */
    struct wp_pool_spec spec;
    struct wp_str pool_namespace; /* Of spec, as are the two lengths. */
    struct wp_str name;
    uint32_t index;
    uint64_t identity; /* Hash of both names, the same in every process. */
    struct wp_ready_queue ready;  /* Those that this replica prefers. */
    struct wp_ready_queue others; /* Those that other replicas do. */

    /* Read on the warm path. */
    alignas(WP_CACHELINE) _Atomic(uint32_t) waiting; /* Of waiters. */
    _Atomic(bool) draining;
    _Atomic(bool) removed;    /* draining as well. */
    _Atomic(bool) has_egress; /* Of spec: its sandboxes may reach something. */
    _Atomic(uint32_t) target;
    _Atomic(int64_t) ttl_default_ns; /* Of spec, as is the next. */
    _Atomic(int64_t) ttl_max_ns;
    _Atomic(int64_t) hold_max_ns;
    _Atomic(int64_t) retry_after_ns; /* Control's estimate for a refusal. */

    /* Written by reports and claims, taken by the control thread. */
    alignas(WP_CACHELINE) _Atomic(bool) touched;
    _Atomic(uint32_t) became_ready;
    _Atomic(uint32_t) failed;
    _Atomic(uint32_t) died_young;
    _Atomic(int64_t) lead_last_ns; /* Negative: there is no new one. */
    /* Of the oldest claim that found nothing ready and that no turn has seen;
     * 0: there is none. */
    _Atomic(int64_t) missed_at_ns;

    /* Written by the control thread for others to read. */
    _Atomic(bool) breaker_open;
    _Atomic(int64_t) lead_mean_ns; /* 0: nothing was measured yet. */
    /* When the oldest and the newest of the warming were ordered. */
    _Atomic(int64_t) order_oldest_ns;
    _Atomic(int64_t) order_newest_ns;

    pthread_mutex_t wait_lock; /* guards: waiters, followers*, awaiting_store,
                                * the two reasons, and with them the decision
                                * that a pool is empty */
    struct wp_wait_queue waiters;
    struct wp_list followers;      /* Claims that repeat a pending one. */
    int64_t followers_until_ns;    /* None of them waits longer before that. */
    struct wp_list awaiting_store; /* Claims of ids that the store knows. */
    char last_failure[WP_REASON_MAX + 1];
    char last_retired[WP_REASON_MAX + 1];

    /* Owned; NULL where nothing is recorded. Set before the pool is shown. */
    struct wp_pool_history *history;
    /* Owned; NULL until it has an objective. Written by control. */
    _Atomic(struct wp_pool_scale *) scale;

    /* Control thread only. */
    struct wp_snapshot_state *snapshot; /* Owned, as the next. */
    struct wp_pool_turns *turns;        /* turn.c */
    uint64_t granted_elsewhere;         /* Claims at other replicas. */
    uint64_t removed_nr;                /* In which order pools were removed. */
    bool unread; /* It came to a keeper, and its records are not all told. */
    struct wp_pool *next_retired;
    /* What the slots had counted for another pool of this index. */
    _Atomic(uint64_t) created_before;
    _Atomic(uint64_t) destroyed_before;

    struct wp_counter served[4]; /* By enum wp_served; the warm ones are the
                                  * rest of claim_latency's count. */
    struct wp_counter refused;
    struct wp_counter missed; /* Claims that found nothing ready. */
    struct wp_counter released;
    struct wp_counter expired;
    struct wp_counter undone;
    struct wp_counter failures;
    struct wp_counter lost;
    struct wp_counter retired;
    struct wp_counter bound;
    struct wp_counter unbound;
    struct wp_histogram claim_latency;
    struct wp_histogram lead_time;
    _Atomic(int64_t) queue_mean_ns; /* Order to start, of the latest few. */
};

struct wp_pools {
    struct wp_pools_config config;
    struct wp_slots slots;
    struct wp_claim_table claims;
    struct wp_accounts accounts;
    struct wp_expired expired;
    struct wp_token_key token_key;
    struct wp_hash_key name_key; /* For the suffixes of sandbox names. */
    uint32_t grant_mark;         /* Of this process; 0 unless shared. */
    bool durable;                /* What the store says of itself. */
    bool shared;
    bool mapped;            /* Durable, or with a foreign backend. */
    struct wp_slot_map map; /* By uid and by foreign name; when mapped. */
    _Atomic(bool) keeper;
    double creations; /* Expected to be under way; control thread. */
    _Atomic(uint64_t) records_refused;
    bool leaving; /* Control thread. */
    bool swept;   /* The same: as the keeper it knows what there is. */
    _Atomic(bool) holds_unseen; /* Written by the control thread. */

    /* n_pools only grows. Who sees it (acquire) sees the pointers below it; who
     * finds an index in by_name (acquire) sees that pool, or a later one. */
    _Atomic(uint32_t) n_pools;
    _Atomic(struct wp_pool *) *pool; /* Owned, as what they point to. */
    _Atomic(uint32_t) *by_name;      /* Owned; open addressing, index + 1. */
    struct wp_pool *retired_pools;   /* Owned; see shape.c. Control thread. */
    uint64_t removals;               /* The same, as is the next. */
    bool closing; /* The daemon leaves: pools begin drained. */

    /* Wall minus monotonic time; the control thread keeps it fresh, so that a
     * claim reads one clock, not two. */
    _Atomic(int64_t) wall_offset_ns;

    alignas(WP_CACHELINE) _Atomic(uint32_t) marked; /* Head of the list. */
    alignas(WP_CACHELINE) _Atomic(bool) awake;      /* Control needs no wake. */

    pthread_mutex_t change_lock[WP_CHANGE_STRIPES]; /* guards: deadline_ns and
                                                     * the end of leases */
    _Atomic(bool) answers_due; /* Control has to look at requests. */
    /* Since when the store has answered nothing but that it is out of reach; 0:
     * its last answer was another. */
    _Atomic(int64_t) store_out_since_ns;

    /* Owned; private to the file that is named like it. */
    struct wp_peers *peers;
    struct wp_store_requests *requests;
    struct wp_reported_lease *reported; /* NULL: nobody asks. */
    struct wp_snapshots *snapshots;     /* NULL: the store keeps none. */
    struct wp_pool_budgets *budgets;    /* NULL: there are none. */
    struct wp_attention *attention;

    /* Control thread only. */
    struct wp_rng rng;
    uint32_t slots_used; /* In any state but FREE. */
    uint64_t memory_bytes;
    int64_t shares_found_ns;
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

/* A deadline as it is shown and recorded. */
static inline int64_t
wp_pools_deadline_wall_ms(const struct wp_pools *pools, int64_t deadline_ns)
{
    return deadline_ns == WP_TIME_NEVER ? WP_WALL_NEVER_MS
                                        : wp_pools_wall_ms(pools, deadline_ns);
}

/* The same backwards: now or later, at most the longest TTL away, or never. */
static inline int64_t
wp_pools_deadline_ns(const struct wp_pools *pools, int64_t now_ns,
                     int64_t deadline_wall_ms)
{
    int64_t left_ms = deadline_wall_ms - wp_pools_wall_ms(pools, now_ns);

    if (deadline_wall_ms >= WP_WALL_NEVER_MS) {
        return WP_TIME_NEVER;
    }
    left_ms = left_ms < 0 ? 0 : left_ms;
    return now_ns + (left_ms < WP_TTL_MAX_NS / WP_NS_PER_MS
                         ? left_ms * WP_NS_PER_MS
                         : WP_TTL_MAX_NS);
}

static inline bool
wp_pools_ref_is_ours(const struct wp_pools *pools, struct wp_slot_ref ref)
{
    return ref.generation != 0 && ref.index < pools->config.slots_max;
}

/* The pool that has this index now. Any thread; index < wp_pools_count. */
static inline struct wp_pool *
wp_pools_at(const struct wp_pools *pools, uint32_t index)
{
    /* Pairs with the release in wp_pools_add. */
    return atomic_load_explicit(&pools->pool[index], memory_order_acquire);
}

static inline struct wp_pool *
wp_pools_of_slot(struct wp_pools *pools, uint32_t slot_index)
{
    return wp_pools_at(
        pools,
        atomic_load_explicit(&wp_slot_at(&pools->slots, slot_index)->pool_index,
                             memory_order_relaxed));
}

static inline pthread_mutex_t *
wp_pools_change_lock(struct wp_pools *pools, uint32_t slot_index)
{
    return &pools->change_lock[slot_index % WP_CHANGE_STRIPES];
}

/* Before the sandbox is given up while it is WARMING: it was found, so another
 * replica may have granted it, and this one may not have heard. */
WP_MUST_CHECK static inline bool
wp_pools_asks_first(const struct wp_pools *pools,
                    const struct wp_slot_info *info)
{
    return pools->shared && info->created_ns == WP_CREATED_ELSEWHERE;
}

/* What the pool may make at once: its own bound, within the backend's. spec: a
 * copy of its own. */
static inline uint32_t
wp_pool_at_once(const struct wp_pool *pool, const struct wp_pool_spec *spec)
{
    uint32_t backend = pool->pools->config.backend.at_once;
    uint32_t own = spec->create_inflight_max;

    return backend > 0 && backend < own ? backend : own;
}

/* What a slot in doubt has in the place of its claim's entry. */
static inline uint32_t
wp_pools_doubted_claim(const struct wp_hash128 *hash)
{
    return (uint32_t)hash->high;
}

/* What tokens carry of the pool. */
static inline uint16_t
wp_pool_tag(const struct wp_pool *pool)
{
    return (uint16_t)(pool->identity >> 48);
}

/* --- table.c --- */

/* Zeroed memory aligned to a cache line; counted in the memory plan. NULL when
 * memory lacks. */
void *wp_pools_reserve(struct wp_pools *pools, size_t count, size_t size);
/* NULL when there is none. Any thread. */
struct wp_pool *wp_pools_find(const struct wp_pools *pools,
                              struct wp_str pool_namespace, struct wp_str name);
/* A removed pool of that name; NULL when there is none. */
struct wp_pool *wp_pools_find_removed(const struct wp_pools *pools,
                                      struct wp_str ns, struct wp_str name);
/* The pool is found by its name from here on, or no more. Control thread. */
void wp_pools_publish_name(struct wp_pools *pools, const struct wp_pool *pool);
void wp_pools_remove_name(struct wp_pools *pools, const struct wp_pool *pool);

/* --- mark.c --- */

/* Puts the slot on the control thread's list, and sees that it will look. Any
 * thread, lock-free. */
void wp_pools_mark(struct wp_pools *pools, uint32_t slot_index);
/* The same, after this event; of WP_WORK_ON_LIST wp_pools_mark alone. */
void wp_pools_mark_on(struct wp_pools *pools, uint32_t slot_index,
                      enum wp_work_event event);
/* Has the control thread look at the pool. Any thread. */
void wp_pools_touch(struct wp_pool *pool);
/* Wakes the control thread when it sleeps. Any thread. */
void wp_pools_wake(struct wp_pools *pools);
/* Control is to look at what the store has answered, and at lease changes that
 * wait for it. Any thread. */
void wp_pools_look_again(struct wp_pools *pools);
/* That was said since the last call. Control thread. */
bool wp_pools_answers_due(struct wp_pools *pools);
/* Remembers, for people, why a sandbox of the pool failed. Any thread. */
void wp_pool_record_failure(struct wp_pool *pool, struct wp_str reason);
/* The same, why one was retired. */
void wp_pool_record_retired(struct wp_pool *pool, struct wp_str reason);

/* --- peers.c --- */

/* False: no memory. */
WP_MUST_CHECK bool wp_peers_create(struct wp_pools *pools);
void wp_peers_destroy(struct wp_pools *pools);
/* Does this replica prefer the sandbox? Any thread. */
bool wp_pools_prefer(struct wp_pools *pools, struct wp_slot_ref ref);

/* --- sandbox_slot.c --- */

/* The hash by which the map knows a uid, or a name. */
uint64_t wp_pools_map_hash(const struct wp_pools *pools, struct wp_str bytes);
/* "<pool>-<suffix>" of a sandbox of this pool. */
void wp_pools_sandbox_name(const struct wp_pool *pool, const char *suffix,
                           char out[WP_SANDBOX_NAME_MAX + 1]);
/* The suffix of "<pool>-<suffix>"; false when the name has another form. */
WP_MUST_CHECK bool wp_pools_suffix_of(const struct wp_pool *pool,
                                      struct wp_str name,
                                      struct wp_str *suffix);
/* The slot that has this uid; WP_SLOT_REF_NONE when there is none, or no map.
 * Any thread. */
struct wp_slot_ref wp_pools_find_uid(struct wp_pools *pools,
                                     const uint8_t uid[WP_UID_LEN]);
/* A slot for a new sandbox, with its uid known to the map; counted. The caller
 * sets its suffix. WP_SLOT_REF_NONE when all are in use. Control thread. */
WP_MUST_CHECK struct wp_slot_ref
wp_pools_alloc_slot(struct wp_pools *pools, const struct wp_pool *pool,
                    const uint8_t uid[WP_UID_LEN], int64_t now_ns);
/* DYING -> FREE. Control thread. */
void wp_pools_free_slot(struct wp_pools *pools, struct wp_slot_ref ref);

/* --- held.c --- */

/* The entry of the lease that the slot has; false when there is none. */
WP_MUST_CHECK bool wp_pools_claim_of(struct wp_pools *pools,
                                     struct wp_slot_ref ref,
                                     struct wp_claim_view *view);
/* Fills the texts of a lease for a store. False when the lease has no claim any
 * more; the texts that are known are filled all the same. */
bool wp_pools_lease_names(struct wp_pools *pools, struct wp_slot_ref ref,
                          struct wp_lease_names *names);
/* An op of this kind for the lease; points into names. */
void wp_pools_lease_op(struct wp_pools *pools, struct wp_slot_ref ref,
                       enum wp_lease_op_kind kind,
                       const struct wp_lease_names *names,
                       struct wp_lease_op *op);
/* LEASED or LOST -> DYING, and the claim's id is free again; false when it is
 * neither. Under the change lock. */
WP_MUST_CHECK bool wp_pools_end_held(struct wp_pools *pools,
                                     struct wp_slot_ref ref);
/* The slot of the token's lease in this process. Any thread. */
struct wp_slot_ref wp_pools_slot_of_token(struct wp_pools *pools,
                                          const struct wp_token_fields *token);

/* --- arrivals.c --- */

/* A claim found nothing ready. Any thread. */
void wp_pool_missed(struct wp_pool *pool, int64_t arrived_ns);
/* Claims so far, and how many of them found nothing ready. Neither goes back,
 * though a claim that is just being answered may be counted a moment late.
 * Control thread, as the next. */
void wp_pool_count_claims(struct wp_pool *pool, uint64_t *claims,
                          uint64_t *missed);
/* How many of both are new since the counts seen, which are moved on; false:
 * none. */
WP_MUST_CHECK bool wp_pool_new_claims(struct wp_pool *pool,
                                      uint64_t *claims_seen,
                                      uint64_t *missed_seen, uint32_t *n,
                                      uint32_t *missed);

/* --- shrink.c --- */

/* The pool may be smaller now. Where sandboxes may wait for room without an
 * end, those that are not ready go first; else they come to it soon. Control
 * thread. */
void wp_pools_shrink(struct wp_pool *pool);
/* At most max of those that are not ready yet are not waited for. */
void wp_pools_give_up_warming(struct wp_pools *pools, uint32_t pool_index,
                              uint32_t max);

#endif
