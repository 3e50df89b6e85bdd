/* pool/pool.h - the allocator's core: all pools of one daemon.
 *
 * Threads: wp_pools_claim, _cancel, _undo, _renew, _release, _get, _list,
 * _stats, _end, _retire and the on_* reports may be called from any thread.
 * wp_pools_run and the functions that shape pools belong to one control thread.
 * After wp_pools_create nothing here allocates, but for wp_pools_add and
 * wp_pools_update. */
#ifndef WP_POOL_POOL_H
#define WP_POOL_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/backend.h"
#include "pool/base/metrics.h"
#include "pool/base/siphash.h"
#include "pool/claim.h"
#include "pool/lease_store.h"
#include "pool/policy/policy.h"
#include "pool/scale/scaler.h"
#include "pool/tenants.h"

struct wp_pools; /* Opaque. */

/* What the pools of a group share; see pool/policy/budget.h. */
struct wp_budget_total {
    char group[WP_SCALE_BUDGET_GROUP_MAX + 1];
    uint32_t total;
};

struct wp_pools_config {
    uint32_t slots_max;  /* Sandboxes in any state, all pools together. */
    uint32_t claims_max; /* Claims held or waiting; at least slots_max. */
    const struct wp_clock *clock;
    struct wp_backend backend;
    struct wp_lease_store store;
    uint8_t token_key[32]; /* Signs lease tokens. */
    struct wp_hash_key hash_key;
    uint64_t seed;  /* For sandbox names, uids and jitter; any number. */
    bool no_tokens; /* Leave grants unsigned: to measure the rest alone. */
    /* What each pool's record of its claims may take (pool/history/history.h),
     * for advice; 0: none is kept. */
    size_t history_bytes_max;
    /* Of policies' budget groups, each once; copied. */
    const struct wp_budget_total *budgets;
    uint32_t n_budgets;

    /* Called when the control thread should call wp_pools_run soon; coalesced.
     * Any thread; must not block. */
    void (*wake)(void *ctx);
    /* A pool's numbers changed; at most once per wp_pools_run and pool. Control
     * thread. May be NULL. */
    void (*changed)(void *ctx, uint32_t pool_index);
    /* A pool's scaler has changed its target, once a second at most: from
     * target_before, as told last. Control thread. May be NULL. */
    void (*scaled)(void *ctx, uint32_t pool_index,
                   const struct wp_scale_decision *decision);
    /* What is kept of a pool in the lease store could not be read, or not be
     * saved: err says why; it goes on without. The same. */
    void (*unlearned)(void *ctx, uint32_t pool_index, const struct wp_err *err);
    /* The mins of a group's pools came to more than its total, or do not any
     * more: mins says which. total NULL: a pool names a group that has no total
     * here; it has no bound. Control thread. May be NULL. */
    void (*budget_trouble)(void *ctx, const char *group,
                           const struct wp_budget_total *total, uint64_t mins);
    void *ctx;
};

enum wp_cold_start {
    /* Empty: wait if asked to, else RESOURCE_EXHAUSTED. Waiting claims add to
     * what is created with an objective only, up to the policy's max. */
    WP_COLD_NEVER,
    WP_COLD_ALLOWED, /* Waiting claims add to what is created. */
};

/* What a SandboxWarmPool and its annotations say. Strings are copied. */
struct wp_pool_spec {
    char pool_namespace[WP_NAMESPACE_MAX + 1];
    char name[WP_POOL_NAME_MAX + 1];
    char template_name[WP_TEMPLATE_NAME_MAX + 1];
    /* Ready and warming together; with an objective only where it begins, and
     * who changes it takes over (pool/scale/scaler.h). */
    uint32_t target;
    uint32_t waiters_max;        /* Claims waiting; more are refused. */
    uint32_t tenant_waiters_max; /* Of one tenant. */
    /* Of one tenant, as struct wp_quota has them; 0: no bound. */
    uint32_t tenant_leases_max;
    uint32_t tenant_claims_per_minute;
    /* While several tenants claim, none takes what others have not had of their
     * share of the stock; see pool/grant/share.c. */
    bool fair_share;
    uint32_t create_inflight_max; /* Warming at once; 0: nothing is made. */
    int64_t ttl_default_ns;
    int64_t ttl_max_ns;
    /* How long a lease may last from its grant on while its sandbox is used, or
     * its holder says so; 0: as long as it is renewed. */
    int64_t hold_max_ns;
    int64_t freeze_after_ns; /* A leased sandbox that is idle; 0: never. */
    int64_t wait_max_ns;     /* Longer waits asked for are cut to this. */
    int64_t ready_within_ns; /* A sandbox not ready by then has failed. */
    enum wp_cold_start cold_start;
    bool cold_start_said; /* By the pool's annotation. */
    /* Variables of SandboxClaims are brought to warm sandboxes; else such
     * claims start cold. */
    bool bind_env;
    /* What its sandboxes may reach, as pool/egress/policy.h reads it; "":
     * nothing. */
    char egress[WP_EGRESS_TEXT_MAX + 1];
    struct wp_scale_policy scale; /* WP_SCALE_PLAIN: the target as given. */
};

/* Sensible values for everything but the names and the target. */
void wp_pool_spec_init(struct wp_pool_spec *spec);

/* A consistent-enough picture for people and metrics: each number is exact, the
 * set of them was true within a few microseconds. */
struct wp_pool_stats {
    struct wp_pool_spec spec; /* Its target is the one that holds. */
    uint32_t index;
    uint32_t replicas; /* The target as it was given. */
    bool scaled;       /* It has an objective. */
    uint32_t warming;
    uint32_t ready;
    uint32_t leased; /* Lost ones included. */
    uint32_t quarantined;
    uint32_t dying;
    uint32_t waiting;
    uint64_t created_total;
    uint64_t destroyed_total;
    uint64_t failed_total;    /* Never became ready. */
    uint64_t retired_total;   /* Given up while idle, by wp_pools_retire. */
    uint64_t lost_total;      /* Were ready, then stopped answering. */
    uint64_t served_total[4]; /* By enum wp_served; [0] unused. */
    uint64_t refused_total;
    uint64_t released_total;
    uint64_t expired_total;
    uint64_t undone_total;
    uint64_t bound_total;   /* Claims whose sandbox took what they brought. */
    uint64_t unbound_total; /* It did not. */
    bool draining;
    bool removed; /* By wp_pools_remove; not found by its name. */
    bool gone;    /* And nothing is left of it: not worth telling of. */
    bool partial; /* Not from wp_pools_stats: for those who may see less. */
    bool breaker_open;
    char last_failure[WP_REASON_MAX + 1];
    char last_retired[WP_REASON_MAX + 1]; /* Why the latest one was. */
    uint64_t missed_total; /* Claims that found nothing ready here. */
    uint32_t at_once; /* Made at once, by its own bound and the backend's. */
    /* When scaled: the latest decision (number 0: none yet), changes of the
     * target by reason, and lead times that came too many at once. */
    struct wp_scale_decision scale;
    uint64_t scale_changes[WP_SCALE_REASON_COUNT];
    uint64_t leads_lost;
    /* The same: the most that its budget group leaves it; UINT32_MAX: it is of
     * none that has a total, or another replica scales. */
    uint32_t budget;
    bool group_unknown; /* It names one that the configuration does not have. */
};

/* NULL and err when memory lacks or the configuration contradicts itself. */
struct wp_pools *wp_pools_create(const struct wp_pools_config *config,
                                 struct wp_err *err);
/* After every thread has left and every object was answered. NULL is fine. */
void wp_pools_destroy(struct wp_pools *pools);
/* Bytes reserved at create: the memory plan. */
uint64_t wp_pools_memory_bytes(const struct wp_pools *pools);

/* --- Claims. Any thread. --- */

enum wp_status wp_pools_claim(struct wp_pools *pools, struct wp_claim *claim);
/* Withdraws a pending claim. True: withdrawn, done will not be called. False:
 * it has been answered, or is being answered right now; done comes, and no
 * other sandbox is tried for it. Whoever calls this undoes what it was granted
 * all the same. */
bool wp_pools_cancel(struct wp_pools *pools, struct wp_claim *claim);
/* Takes a grant back that nobody has been shown: the lease ends and the sandbox
 * is offered again. A bound one is destroyed; with replicas every one is, since
 * one of them may tell of the lease a little longer. When a repeat of the claim
 * was shown the lease, here or by another replica, or wp_pools_get was here, it
 * stands. A repeat may be undone as well: with the last of them the lease ends.
 * Once for each claim, whose object is the caller's at once. */
void wp_pools_undo(struct wp_pools *pools, const struct wp_claim *claim);
/* Can sandboxes of that pool be bound, by this replica? FAILED_PRECONDITION:
 * never; UNAVAILABLE: another replica keeps them. A pool that is not there is
 * left to the claim to find. */
WP_MUST_CHECK enum wp_status wp_pools_may_bind(struct wp_pools *pools,
                                               struct wp_str pool_namespace,
                                               struct wp_str pool,
                                               struct wp_err *err);
/* Are claims of that pool to be bound that bring nothing, too? Their binding is
 * empty then, and no part of the claim. */
bool wp_pools_must_bind(struct wp_pools *pools, struct wp_str pool_namespace,
                        struct wp_str pool);
/* May a claim bring the binding's repositories and volumes?
 * FAILED_PRECONDITION: not one of them; err says which, and why. */
WP_MUST_CHECK enum wp_status
wp_pools_may_bring(const struct wp_pools *pools,
                   const struct wp_binding *binding, struct wp_err *err);
/* May a claim narrow that pool's egress policy by `by`? As `narrows` of struct
 * wp_backend_ops. A pool that is not there is left to the claim to find. */
WP_MUST_CHECK enum wp_status
wp_pools_may_narrow(struct wp_pools *pools, struct wp_str pool_namespace,
                    struct wp_str pool, struct wp_str by, struct wp_err *err);
/* Can a sandbox here have a signed identity? FAILED_PRECONDITION: no. */
WP_MUST_CHECK enum wp_status wp_pools_may_sign(const struct wp_pools *pools,
                                               struct wp_err *err);
/* Has a claim's sandbox take its binding, before anybody is told of the lease;
 * after wp_pools_may_bind. WP_PENDING: done comes, once. The answer is the
 * claim's status and reason, which stay as they are when all was bound. When it
 * was not, the lease is ended, as by wp_pools_end, unless somebody may use the
 * sandbox: then the claim is replayed, or a repeat of it was answered, and what
 * is wrong with the sandbox the backend tells. UNAVAILABLE and
 * RESOURCE_EXHAUSTED: a repeat is safe. From here on wp_pools_undo has the
 * sandbox destroyed. */
enum wp_status wp_pools_bind(struct wp_pools *pools, struct wp_bind *bind);
/* The fingerprint of a binding of these bytes: the same with the same key, and
 * never 0. Any thread. */
uint64_t wp_pools_fingerprint(const struct wp_pools *pools,
                              struct wp_str bytes);
/* Both are for whoever has the token; a tenant given with it must be the
 * claim's own, else PERMISSION_DENIED. */
enum wp_status wp_pools_renew(struct wp_pools *pools,
                              struct wp_lease_change *change);
/* The sandbox of ref is used: its lease lasts for change->ttl_ns from now on,
 * but not beyond the pool's hold_max_ns from its grant on, and not for less
 * than before. As wp_pools_renew; the token is not looked at, and set. */
enum wp_status wp_pools_keep(struct wp_pools *pools,
                             struct wp_lease_change *change,
                             struct wp_slot_ref ref);
/* Ends the lease and has the sandbox destroyed. Idempotent by token. */
enum wp_status wp_pools_release(struct wp_pools *pools,
                                struct wp_lease_change *change);

/* Ends whatever lease the sandbox has, as if its holder had released it: the
 * store is told, then the sandbox is destroyed. Of a lease that is in doubt,
 * once it is known. Idle sandboxes are left alone, stale refs ignored. */
void wp_pools_end(struct wp_pools *pools, struct wp_slot_ref ref);
/* Gives up a sandbox that is warming or ready: it is not wanted any more, for
 * this reason, though it did not fail. One that is leased stays as it is; so
 * does one that a claim takes this moment. With a shared store it goes once
 * that agrees. Stale refs are ignored. */
void wp_pools_retire(struct wp_pools *pools, struct wp_slot_ref ref,
                     struct wp_str reason);
/* The same for every sandbox of the pool that nobody holds. Control thread. */
void wp_pools_retire_idle(struct wp_pools *pools, uint32_t pool_index,
                          struct wp_str reason);

/* --- Questions. Any thread. --- */

/* NOT_FOUND when this tenant has no such claim. A lease that is told of is not
 * undone any more, where it was granted. With replicas the answer is as this
 * one knows it, and may be a little old: the sandbox may be on its way out, but
 * is nobody else's. */
enum wp_status wp_pools_get(struct wp_pools *pools, struct wp_str tenant,
                            struct wp_str claim_id, struct wp_claim_info *out);
/* When the lease of a claim that is not held any more ran out, as far as this
 * replica has ended it and remembers: milliseconds since 1970. 0: it does not
 * know of such a claim. */
int64_t wp_pools_expired_wall_ms(struct wp_pools *pools, struct wp_str tenant,
                                 struct wp_str claim_id);
/* Which claims to list. */
struct wp_claim_filter {
    const struct wp_str *tenant; /* NULL: of all tenants. */
    struct wp_str pool_namespace;
    struct wp_str pool; /* Empty: of all pools. */
};
/* The live claims from *cursor (0 at first) on, at most max; advances *cursor,
 * to 0 at the end. Looks at a bounded part of the table in one call, so that a
 * filter that few match does not hold up the caller's thread: what it returns
 * may be less than max, even 0, before the end. */
uint32_t wp_pools_list(struct wp_pools *pools,
                       const struct wp_claim_filter *filter, uint64_t *cursor,
                       struct wp_claim_info *out, uint32_t max);
/* The leased sandbox of that name, for the proxy. NOT_FOUND when there is none
 * or it is not leased. */
enum wp_status wp_pools_find_sandbox(struct wp_pools *pools,
                                     struct wp_str sandbox,
                                     struct wp_claim_info *out);
/* Is token one that this daemon signed for a lease still held on sandbox? */
bool wp_pools_token_valid(struct wp_pools *pools, const uint8_t *token,
                          struct wp_str sandbox);
/* Has the pool's circuit breaker stopped the creation of sandboxes? Then why,
 * as of the latest failure; "" when no sandbox has said. Any thread. */
bool wp_pools_fails(struct wp_pools *pools, uint32_t pool_index,
                    char why[WP_REASON_MAX + 1]);
uint32_t wp_pools_count(const struct wp_pools *pools);
/* What a claim that comes now, behind those that wait, would wait for a sandbox
 * of the pool; lead_ns: the mean time from order to ready, by which it was
 * reckoned. False: nothing was measured yet. An estimate: beyond twice the lead
 * time it does not count on. Any thread; does not block. */
struct wp_pool_outlook {
    int64_t wait_ns;
    int64_t lead_ns;
};
WP_MUST_CHECK bool wp_pools_outlook(const struct wp_pools *pools,
                                    uint32_t pool_index,
                                    struct wp_pool_outlook *out);
void wp_pools_stats(struct wp_pools *pools, uint32_t pool_index,
                    struct wp_pool_stats *out);
/* UINT32_MAX when there is none. */
uint32_t wp_pools_index(const struct wp_pools *pools,
                        struct wp_str pool_namespace, struct wp_str name);
/* Waiting time of claims served from pool_index, request to grant. */
const struct wp_histogram *wp_pools_claim_latency(const struct wp_pools *pools,
                                                  uint32_t pool_index);
/* Of its sandboxes, from when the backend began with each to its being ready.
 */
const struct wp_histogram *wp_pools_lead_time(const struct wp_pools *pools,
                                              uint32_t pool_index);

/* Of the pool's scaler: its latest kept decisions, the newest first; what is
 * announced. At most max; returns how many, 0 without an objective. */
uint32_t wp_pools_scale_decisions(struct wp_pools *pools, uint32_t pool_index,
                                  struct wp_scale_decision *out, uint32_t max);
uint32_t wp_pools_scale_reservations(struct wp_pools *pools,
                                     uint32_t pool_index,
                                     struct wp_scale_reservation *out,
                                     uint32_t max);
/* Arrival of a claim to the orders it led to, the lease store's time included;
 * up to a millisecond too long. NULL without an objective. */
/* The i-th group of the configuration's budgets; NULL: there are no more. Any
 * thread. */
const struct wp_budget_total *wp_pools_budget(const struct wp_pools *pools,
                                              uint32_t i);
const struct wp_histogram *wp_pools_scale_reaction(struct wp_pools *pools,
                                                   uint32_t pool_index);

/* --- Shaping pools. Control thread. --- */

/* A copy of what the pool's claims were while this was the keeper, and, as far
 * as they are in the pool's snapshot, before it was; for the caller to destroy.
 * NULL: none is recorded, there is no such pool, or memory lacks. Any thread;
 * the control thread may wait for the copy to be made. */
struct wp_history;
struct wp_history *wp_pools_history(struct wp_pools *pools,
                                    uint32_t pool_index);
/* As wp_scaler_reserve and wp_scaler_cancel. FAILED_PRECONDITION: the pool has
 * no objective; UNAVAILABLE: another replica is the keeper. */
enum wp_status wp_pools_scale_reserve(struct wp_pools *pools,
                                      uint32_t pool_index, struct wp_str id,
                                      uint32_t n, int64_t from_wall_ns,
                                      int64_t until_wall_ns,
                                      struct wp_err *err);
enum wp_status wp_pools_scale_cancel(struct wp_pools *pools,
                                     uint32_t pool_index, struct wp_str id,
                                     struct wp_err *err);
/* Has all been saved that is new of pools? After wp_pools_stop or _leave, which
 * have it saved at once. */
bool wp_pools_learned_saved(struct wp_pools *pools);

/* What the store said of the pool's sandboxes before it was added was left out:
 * whoever adds one later has the store tell again. */
enum wp_status wp_pools_add(struct wp_pools *pools,
                            const struct wp_pool_spec *spec, uint32_t *index,
                            struct wp_err *err);
/* What a person asks for: with an objective this takes over from the scaler.
 * Stale-first scale-down; never touches a lease. Takes effect in the next run;
 * with a foreign backend those that are not ready go first, and at once. */
enum wp_status wp_pools_set_target(struct wp_pools *pools, uint32_t pool_index,
                                   uint32_t target, struct wp_err *err);
/* Everything but the names, which must be the pool's own; takes effect in the
 * next run, for claims at once. More waiting claims than a smaller waiters_max
 * allows wait on. */
enum wp_status wp_pools_update(struct wp_pools *pools, uint32_t pool_index,
                               const struct wp_pool_spec *spec,
                               struct wp_err *err);
/* The pool is not found by its name any more: claims are told NOT_FOUND, also
 * those that wait; idle sandboxes are given up; leases live on. Added again, it
 * goes on as it was, with what is left of it. Once nothing is, its index may be
 * another pool's. Idempotent. */
void wp_pools_remove(struct wp_pools *pools, uint32_t pool_index);
/* No new claims, no refill, idle sandboxes destroyed; leases live on. */
void wp_pools_drain(struct wp_pools *pools, uint32_t pool_index);
/* Takes wp_pools_drain back: claims and refill again. NOT_FOUND for a removed
 * pool; FAILED_PRECONDITION when the daemon leaves. Idempotent. */
enum wp_status wp_pools_undrain(struct wp_pools *pools, uint32_t pool_index,
                                struct wp_err *err);
/* Ends every lease and destroys every sandbox; for a daemon that leaves. */
void wp_pools_stop(struct wp_pools *pools);
/* True when no sandbox of any pool is left. */
bool wp_pools_quiet(const struct wp_pools *pools);
/* One turn: expiry, time-outs, refill, retries. Returns when to run again at
 * the latest (monotonic; WP_TIME_NEVER when only a wake can bring work). */
int64_t wp_pools_run(struct wp_pools *pools);

/* --- A durable store's records; several replicas. Control thread, or before
 * any other thread uses pools. --- */

/* What the store says of a sandbox. At start: every record it has. Later, with
 * a shared store: the record as it is after a change by another replica (state
 * NONE: forgotten). Idempotent; what is older than what is known here, by fence
 * and state, changes nothing. A record of a pool that was not added, of a
 * malformed name, or for which no slot is free is left out and counted; one of
 * a removed pool is not. */
void wp_pools_on_record(struct wp_pools *pools,
                        const struct wp_lease_record *record);
/* The index of the pool that these records belong to, removed or not; the
 * functions below take it. UINT32_MAX when there is none. Control thread. */
uint32_t wp_pools_index_of_records(const struct wp_pools *pools,
                                   struct wp_str pool_namespace,
                                   struct wp_str name);
/* Records that wp_pools_on_record left out. */
uint64_t wp_pools_records_refused(const struct wp_pools *pools);

/* Between begin and end every record that the store has of the pool is told by
 * wp_pools_on_record; at end a follower lets go of what was not among them. The
 * keeper, which makes and ends records itself, lets go of nothing. An end
 * without its begin does nothing. No end while the store may have forgotten:
 * what it has not any more is yet to be told. */
void wp_pools_sync_begin(struct wp_pools *pools, uint32_t pool_index);
void wp_pools_sync_end(struct wp_pools *pools, uint32_t pool_index);
/* What this replica knows of the pool's sandboxes, as records, for a store that
 * has forgotten: leases and ends, as ENDED also what was bound and is to end;
 * and, of the keeper, ready ones as OPEN; with retire_idle as ENDED, and they
 * are given up, unless the store says later that somebody holds them: a replica
 * that may have granted one of them is not there to say so. From *cursor (0 at
 * first) on, at most max of them; advances *cursor, to 0 at the end. What is in
 * doubt, or just being committed, is left out. */
uint32_t wp_pools_known_records(struct wp_pools *pools, uint32_t pool_index,
                                bool retire_idle, uint32_t *cursor,
                                struct wp_lease_record *out, uint32_t max);

/* The keeper is the one replica that orders, destroys and expires sandboxes.
 * The others copy the records: they claim, renew and release. True at first;
 * a follower says false before its first run. A follower that becomes the
 * keeper first tells of each sandbox it found alive (seen), then lose_unseen,
 * then says true. */
void wp_pools_set_keeper(struct wp_pools *pools, bool keeper);
/* Any thread. */
WP_MUST_CHECK bool wp_pools_is_keeper(const struct wp_pools *pools);
/* Is there a slot of this sandbox, which is not over? Control thread. */
WP_MUST_CHECK bool wp_pools_knows(struct wp_pools *pools,
                                  const uint8_t uid[WP_UID_LEN]);
/* Was the sandbox reported as destroyed, and its slot is not free yet? It is in
 * a moment, and then the sandbox may be found again. Control thread. */
WP_MUST_CHECK bool wp_pools_ends(struct wp_pools *pools,
                                 const uint8_t uid[WP_UID_LEN]);
/* The backend found this sandbox alive. True: it is known from the records, and
 * *ref is its name from now on (its state may be any: what is to be destroyed
 * will be). False: nobody knows it; the backend destroys it by itself. */
WP_MUST_CHECK bool wp_pools_seen(struct wp_pools *pools,
                                 const uint8_t uid[WP_UID_LEN],
                                 struct wp_slot_ref *ref);
/* The backend, which says that it is foreign, found an idle sandbox of the pool
 * alive that this process did not order: another controller made it, or an
 * earlier process whose store kept nothing. True: *ref is its name from now on;
 * a new one is WARMING and is counted as created, and the backend reports on it
 * as if it had been ordered. One that is known by this uid (from a record, an
 * order, or found before) has the ref it had, in whatever state. False: no slot
 * is free, the pool is not there, or the name is not "<pool>-" with 1 to
 * WP_SANDBOX_SUFFIX_LEN characters. Control thread. */
WP_MUST_CHECK bool wp_pools_found(struct wp_pools *pools, uint32_t pool_index,
                                  const uint8_t uid[WP_UID_LEN],
                                  struct wp_str name, struct wp_slot_ref *ref);
/* Before any record is told, by a daemon that serves before its backend has
 * looked: until lose_unseen, each restored idle sandbox is offered only once it
 * is seen. A claim may wait for that; one that may not is told UNAVAILABLE.
 * Control thread, or before it runs. */
void wp_pools_hold_unseen(struct wp_pools *pools);
/* Are any held back still? Any thread. */
WP_MUST_CHECK bool wp_pools_holds_unseen(const struct wp_pools *pools);
/* Every restored sandbox that was not seen is gone: idle ones leave, leases are
 * lost. */
void wp_pools_lose_unseen(struct wp_pools *pools);
/* The replicas that are alive, own among them; each ready sandbox is preferred
 * by one of them (rendezvous hashing), so that they seldom want the same one.
 * Only a hint. At most WP_REPLICAS_MAX, more are ignored. Any thread. */
void wp_pools_set_replicas(struct wp_pools *pools, uint64_t own,
                           const uint64_t *ids, uint32_t n);
/* For a daemon that leaves while its store keeps the leases: claims are
 * refused, nothing is ordered or expired any more, leases and their sandboxes
 * stay. idle_too: so do the ready sandboxes; else they are destroyed. It may be
 * said again, should nobody go on with them; wp_pools_stop may follow. */
void wp_pools_leave(struct wp_pools *pools, bool idle_too);

/* --- Reports of the backend. Any thread; stale ones are ignored. --- */

/* The backend begins with what was ordered: until now the order has waited its
 * turn. Before on_ready, from the thread that reports that; at most once. A
 * backend that never says so begins at once. */
void wp_pools_on_started(struct wp_pools *pools, struct wp_slot_ref ref);
void wp_pools_on_ready(struct wp_pools *pools, struct wp_slot_ref ref,
                       struct wp_str endpoint);
/* It failed to become ready, exited or stopped answering. The pool then calls
 * the backend's destroy. reason may be anybody's words: it is cut after a whole
 * character, and what is not printable UTF-8 becomes '?'. */
void wp_pools_on_lost(struct wp_pools *pools, struct wp_slot_ref ref,
                      struct wp_str reason);
void wp_pools_on_destroyed(struct wp_pools *pools, struct wp_slot_ref ref);
/* It was ordered, nothing of it was made and nothing will be: the pool may
 * order another one. No failure of anybody. */
void wp_pools_on_unmade(struct wp_pools *pools, struct wp_slot_ref ref);

/* Aborts when one of the invariants that can be seen from here (I4, counts, no
 * two leases on a slot) does not hold. Control thread, with all others quiet.
 */
void wp_pools_check(struct wp_pools *pools);

#endif
