/* pool/core/pools.h - what the files of pool/core share; private to them.
 *
 * pool.c        life of the whole, numbers
 * shape.c  adding, changing and removing pools
 * claim.c  claim, repeats, cancel, undo
 * wait.c   claims that wait for a sandbox
 * await_store.c   claims whose id the store knows
 * lease.c  renew, release, and the end of leases
 * store_request.c what control asks of the store
 * records.c what the store's records say: restore, replicas
 * query.c  get, list, find
 * run.c    the control thread's turn: expiry, time-outs, refill
 * report.c what the backend tells
 * replicas.c   a replica among others: preference, keeper, forgetful stores
 * external.c sandboxes that others see too: ended, retired, found, reported
 * history.c what claims were, recorded for advice
 * scale.c  what a pool's scaler is told, and the target that it sets
 * snapshot.c   what is kept of a pool: saved, and taken up again
 *
 * Locks: wait_lock of a pool, change_lock of a slot's stripe, requests_lock,
 * peers_lock, the lock of a pool's scaler, that of its history. None is on the
 * warm path, none but the last, under a scaler's, is taken under another, and
 * no callback, backend or store is called under one.
 */
#ifndef WP_POOL_CORE_POOLS_H
#define WP_POOL_CORE_POOLS_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "pool/base/metrics.h"
#include "pool/base/rng.h"
#include "pool/claims/claim_table.h"
#include "pool/leases/token.h"
#include "pool/pool.h"
#include "pool/core/snapshot.h"
#include "pool/slots/ready_queue.h"
#include "pool/refill/refill.h"
#include "pool/slots/slot.h"
#include "pool/slots/slot_map.h"
#include "pool/slots/timing_wheel.h"
#include "pool/claims/wait_queue.h"

enum {
    WP_CHANGE_STRIPES = 64,
    WP_STORE_REQUESTS_MAX = 256, /* What control asks of the store at once. */
    WP_NAME_BUCKETS = 4 * WP_POOLS_MAX,
};

/* What the control thread has yet to do with a slot; bits of wp_slot.work. */
enum wp_work {
    WP_WORK_LISTED = 1, /* Among the marked; kept over generations. */
    WP_WORK_UNDO = 2,   /* Its grant was never seen: end it, offer it again. */
    WP_WORK_STOP = 4,   /* Its lease ends: wp_pools_end, wp_pools_stop. */
    WP_WORK_ENDING = 8, /* The store is being told that its lease ends. */

    /* With a durable store only. */
    WP_WORK_OFFER = 16,    /* To be recorded as OPEN, then offered. */
    WP_WORK_WITHDRAW = 32, /* Idle and unwanted: to be recorded as ENDED. */
    WP_WORK_LOSE = 64,     /* Its loss is to be recorded. */
    WP_WORK_RELEASE = 128, /* Gone, but the store has a lease of it. */
    WP_WORK_REQUESTED =
        256,             /* One of these is out; looked at when it is back. */
    WP_WORK_RETRY = 512, /* The store did not answer: try in a while. */
    WP_WORK_FORGOTTEN = 1024, /* The store has no record of it any more. */
    WP_WORK_DEAD = 2048,      /* Lost while it was in doubt who holds it. */
};

/* The time of a sandbox's order, when it was found: it took no time here. */
#define WP_CREATED_ELSEWHERE INT64_MIN

/* Bits of wp_slot.control_bits. */
enum wp_control_bit {
    WP_CONTROL_DESTROYING = 1, /* The backend has been told to destroy it. */
    WP_CONTROL_UNSEEN = 2,     /* Restored; the backend has not found it yet. */
    WP_CONTROL_MIRRORED = 4,   /* Its lease is known from a record. */
    WP_CONTROL_UNSYNCED = 8, /* Not among the records told since sync_begin. */
    WP_CONTROL_HEARD = 16,   /* A record came while the store was being asked
                                * for it here: what it says may be old. */
    WP_CONTROL_LINGERS = 32, /* Over, but the store has not forgotten it. */
    WP_CONTROL_TOLD = 64,    /* The store, which may have had nothing of it any
                              * more, was told that it is over. */
};

struct wp_pool_budgets; /* budget.c */
struct wp_pool_history; /* history.h */
struct wp_pool_scale;   /* scale.h */
struct wp_snapshots;    /* snapshot.c */

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
    _Atomic(bool) removed; /* draining as well. */
    _Atomic(uint32_t) target;
    _Atomic(int64_t) ttl_default_ns; /* Of spec, as is the next. */
    _Atomic(int64_t) ttl_max_ns;
    _Atomic(int64_t) retry_after_ns; /* Control's estimate for a refusal. */

    /* Written by reports and claims, taken by the control thread. */
    alignas(WP_CACHELINE) _Atomic(bool) touched;
    _Atomic(uint32_t) became_ready;
    _Atomic(uint32_t) failed;
    _Atomic(uint32_t) died_young;
    _Atomic(int64_t) lead_last_ns;
    /* Of the oldest claim that found nothing ready and that no turn has seen;
     * 0: there is none. */
    _Atomic(int64_t) missed_at_ns;

    /* Written by the control thread for others to read. */
    _Atomic(bool) breaker_open;
    _Atomic(int64_t) breaker_retry_at_ns;

    pthread_mutex_t wait_lock; /* guards: waiters, followers, awaiting_store,
                                * the two reasons, and with them the decision
                                * that a pool is empty */
    struct wp_wait_queue waiters;
    struct wp_list followers;      /* Claims that repeat a pending one. */
    struct wp_list awaiting_store; /* Claims of ids that the store knows. */
    char last_failure[WP_REASON_MAX + 1];
    char last_retired[WP_REASON_MAX + 1];

    /* Owned; NULL where nothing is recorded. Set before the pool is shown. */
    struct wp_pool_history *history;
    /* Owned; NULL until it has an objective. Written by control. */
    _Atomic(struct wp_pool_scale *) scale;

    /* Control thread only. */
    struct wp_snapshot_state snapshot;
    struct wp_refill refill;
    int64_t turn_at_ns;
    uint64_t granted_elsewhere; /* Claims at other replicas. */
    uint64_t removed_nr;        /* In which order pools were removed. */
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
    struct wp_histogram claim_latency;
    struct wp_histogram lead_time;
};

/* Something that control asks of the store, which may answer later. */
struct wp_store_request {
    struct wp_lease_op op;
    struct wp_pools *pools;
    struct wp_list node; /* In requests_free or requests_answered. */
    struct wp_lease_names names;
    char endpoint[WP_ENDPOINT_MAX + 1];
    char reason[WP_REASON_MAX + 1];
    struct wp_lease_record found;
    struct wp_claim *claim;         /* Whose id is fetched; or NULL. */
    struct wp_lease_change *change; /* Whose lease is fetched; or NULL. */
    enum wp_status status;
    bool undo;
};

/* The lease of a slot that the backend was told of. */
struct wp_reported_lease {
    uint64_t fence;
    int64_t deadline_wall_ms;
    uint32_t generation;
};

struct wp_pools {
    struct wp_pools_config config;
    struct wp_slots slots;
    struct wp_claim_table claims;
    struct wp_token_key token_key;
    struct wp_hash_key name_key; /* For the suffixes of sandbox names. */
    bool durable;                /* What the store says of itself. */
    bool shared;
    bool mapped;            /* Durable, or with a foreign backend. */
    struct wp_slot_map map; /* By uid and by foreign name; when mapped. */
    _Atomic(bool) keeper;
    _Atomic(uint64_t) records_refused;
    bool leaving; /* Control thread. */
    bool swept;   /* The same: as the keeper it knows what there is. */

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
    pthread_mutex_t requests_lock; /* guards: the three lists */
    struct wp_list requests_free;
    struct wp_list requests_answered;  /* Answered; for the control thread. */
    struct wp_list awaiting_changes;   /* Of leases that the store may know. */
    struct wp_store_request *requests; /* Owned; WP_STORE_REQUESTS_MAX. */
    _Atomic(bool) answers_due;         /* One of the two has something. */

    pthread_mutex_t peers_lock; /* guards: the replicas */
    uint64_t replica;
    uint64_t replicas[WP_REPLICAS_MAX];
    uint32_t n_replicas;

    /* Control thread only. */
    struct wp_snapshots *snapshots;  /* Owned; NULL: the store keeps none. */
    struct wp_pool_budgets *budgets; /* Owned; NULL: there are none. */
    struct wp_timing_wheel wheel;
    struct wp_rng rng;
    struct wp_reported_lease
        *reported;       /* Owned; slots_max, or NULL: nobody asks. */
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

/* What tokens carry of the pool. */
static inline uint16_t
wp_pool_tag(const struct wp_pool *pool)
{
    return (uint16_t)(pool->identity >> 48);
}

/* The lease that is just ending leaves its sandbox for the next one: that one
 * nobody has asked to end. Under the change lock, before the slot reopens. */
static inline void
wp_pools_keep_open(struct wp_slot *slot)
{
    (void)atomic_fetch_and_explicit(&slot->work, ~(uint32_t)WP_WORK_STOP,
                                    memory_order_relaxed);
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

/* Puts the slot on the control thread's list, with these bits added to its
 * pending work, and sees that it will look. Any thread, lock-free. */
void wp_pools_mark(struct wp_pools *pools, uint32_t slot_index, uint32_t work);
/* Has the control thread look at the pool. Any thread. */
void wp_pools_touch(struct wp_pool *pool);
/* Wakes the control thread when it sleeps. Any thread. */
void wp_pools_wake(struct wp_pools *pools);
/* Remembers, for people, why a sandbox of the pool failed. Any thread. */
void wp_pool_record_failure(struct wp_pool *pool, struct wp_str reason);
/* The same, why one was retired. */
void wp_pool_record_retired(struct wp_pool *pool, struct wp_str reason);

/* --- peers.c --- */

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
/* How many of both are new since the counts told, which are moved on; false:
 * none. */
WP_MUST_CHECK bool wp_pool_new_claims(struct wp_pool *pool,
                                      uint64_t *claims_told,
                                      uint64_t *missed_told, uint32_t *n,
                                      uint32_t *missed);

/* --- shrink.c --- */

/* The pool may be smaller now. Where sandboxes may wait for room without an
 * end, those that are not ready go first; else they come to it soon. Control
 * thread. */
void wp_pools_shrink(struct wp_pool *pool);
/* At most max of those that are not ready yet are not waited for. */
void wp_pools_give_up_warming(struct wp_pools *pools, uint32_t pool_index,
                              uint32_t max);

/* --- claim.c --- */

/* Fills a grant for the lease that claim entry holds on the slot; false when
 * the slot is no longer of that generation. */
WP_MUST_CHECK bool wp_pools_fill_grant(struct wp_pools *pools,
                                       const struct wp_pool *pool,
                                       struct wp_slot_ref ref,
                                       uint64_t claim_hash,
                                       struct wp_grant *grant);

/* --- wait.c --- */

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

/* --- await_store.c --- */

/* The oldest claim that waits for the store's word on its id; NULL when there
 * is none. Control thread. */
struct wp_claim *wp_pools_take_awaiting(struct wp_pool *pool);

/* --- resume.c --- */

/* Goes on with a claim that awaits the store: it holds ref, as the record
 * says (LOST: it is told so); or, when ref is none, tries anew; or, PENDING,
 * the store is asked again; or is refused with that status. Calls done.
 * Control thread. */
void wp_pools_resume_claim(struct wp_claim *claim, enum wp_status status,
                           struct wp_slot_ref ref,
                           const struct wp_lease_record *record);

/* --- store_request.c --- */

/* NULL when all are out. Any thread. */
struct wp_store_request *wp_store_request_take(struct wp_pools *pools);
void wp_store_request_give(struct wp_store_request *request);
/* Asks the store for an op of this kind on the slot; what it answers moves the
 * slot, or comes back to the mirror. False: try again later. Control thread. */
WP_MUST_CHECK bool wp_store_request_send(struct wp_pools *pools,
                                         struct wp_slot_ref ref,
                                         enum wp_lease_op_kind kind);
/* Sends a request whose op is filled in: a FETCH. */
void wp_store_request_submit(struct wp_store_request *request);
/* The change waits until the store was asked for its lease. Any thread. */
void wp_lease_change_await_store(struct wp_pools *pools,
                                 struct wp_lease_change *change);
/* The oldest of those; NULL when there is none. Control thread. */
struct wp_lease_change *wp_lease_change_take_awaiting(struct wp_pools *pools);
/* Control is to look at answers and at changes that wait. Any thread. */
void wp_store_requests_look_again(struct wp_pools *pools);
/* It was said since the last call. Control thread, as the next. */
bool wp_store_requests_come(struct wp_pools *pools);
/* A FETCH that the store has answered; NULL: no more. */
struct wp_store_request *
wp_store_requests_take_answered(struct wp_pools *pools);

/* --- lease.c --- */

/* Goes on with a change that awaits the store after the store was asked.
 * Calls done unless the store is still to answer. Control thread. */
void wp_pools_resume_change(struct wp_pools *pools,
                            struct wp_lease_change *change,
                            enum wp_status status);

/* --- lease_end.c --- */

/* Ends the lease on the slot, when it is due: by expiry, because nobody saw
 * it (undo), or because the daemon leaves. False: try again later, all
 * requests are out. Control thread. */
WP_MUST_CHECK bool wp_pools_end_lease(struct wp_pools *pools,
                                      struct wp_slot_ref ref, int64_t now_ns);
/* A lease that should long be over: its claim is let go, and the store is asked
 * who holds the sandbox. Control thread. */
void wp_pools_doubt_lease(struct wp_pools *pools, struct wp_slot_ref ref);

/* --- records.c --- */

/* What the record says of the slot, when it is newer than what is known; state
 * NONE: the store has none. Control thread. */
void wp_records_apply(struct wp_pools *pools, struct wp_slot_ref ref,
                      const struct wp_lease_record *record);
/* The store was asked who holds a sandbox in doubt. Control thread. */
void wp_records_settle_doubt(struct wp_pools *pools, struct wp_slot_ref ref,
                             const struct wp_store_request *request);
/* Takes what was fetched for somebody into the mirror: OK, *ref is settled and
 * has that lease; PENDING, it is just changing here, so ask again; UNAVAILABLE,
 * this replica has not heard of the sandbox yet. */
enum wp_status wp_records_take_found(struct wp_pools *pools,
                                     const struct wp_lease_record *record,
                                     struct wp_slot_ref *ref);

/* --- answers.c --- */

/* Takes answers in, and asks for changes that wait. True when there was
 * something. Control thread. */
bool wp_answers_run(struct wp_pools *pools);
/* Asks for the claims of the pool that wait for the store. Control thread. */
void wp_answers_ask_for_claims(struct wp_pool *pool);

/* --- report_lease.c --- */

/* Tells the backend of the lease that the slot has, unless it was told of this
 * one. Control thread. */
void wp_pools_report_lease(struct wp_pools *pools, struct wp_slot_ref ref);

/* --- shape.c --- */

/* Frees every pool there was. At the end. */
void wp_pools_free_all(struct wp_pools *pools);

#endif
