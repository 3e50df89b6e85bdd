/* pool/claim.h - what is asked of a pool and what is answered.
 *
 * Every request is an object that the caller owns, fills and keeps until it is
 * answered, so that the core allocates nothing. A call that returns WP_PENDING
 * has kept the object and answers through its `done`, exactly once, from any
 * thread; after any other return it is the caller's again. Strings are borrowed
 * as long as the object is kept. */
#ifndef WP_POOL_CLAIM_H
#define WP_POOL_CLAIM_H

#include <stdatomic.h>
#include <stdint.h>

#include "pool/backend.h"
#include "pool/base/list.h"
#include "pool/base/siphash.h"
#include "pool/lease_store.h"
#include "pool/limits.h"

/* Which bound of its tenant's quota a claim was refused for. */
enum wp_quota_kind {
    WP_QUOTA_NOT = 0, /* None. */
    WP_QUOTA_LEASES,
    WP_QUOTA_WAITING,
    WP_QUOTA_RATE,
};

/* A lease as its holder sees it. Strings are terminated copies. */
struct wp_grant {
    struct wp_slot_ref ref;
    char pool_namespace[WP_NAMESPACE_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
    char sandbox[WP_SANDBOX_NAME_MAX + 1];
    char endpoint[WP_ENDPOINT_MAX + 1]; /* "unix:/path" or "host:port" */
    uint8_t token[WP_TOKEN_LEN];
    uint64_t fence;
    int64_t deadline_ns;      /* Monotonic. */
    int64_t deadline_wall_ms; /* For people and for offline verifiers. */
    int64_t waited_ns;
    enum wp_served served;
};

/* A request for a sandbox. Zero it before filling in the request. */
struct wp_claim {
    /* Request; already checked against limits.h. */
    struct wp_str pool_namespace;
    struct wp_str pool;
    struct wp_str claim_id;
    struct wp_str tenant;
    int64_t ttl_ns;  /* 0: the pool's default. */
    int64_t wait_ns; /* How long to wait at most; 0: not at all. */
    /* The lease has no deadline: it ends by release, by wp_pools_end or with
     * its sandbox's loss. ttl_ns is not looked at, and set. Not for clients of
     * gRPC. */
    bool lasting;
    /* Of a batch that takes all or nothing: how many claims come after this one
     * and need a sandbox, too. A claim that does not wait is refused at once
     * when not as many are ready, so that none is granted in vain. */
    uint32_t n_after;
    /* Granted ahead of need, to a client that takes it later: those who need
     * one now come first. It has what is ready while nobody waits, and does not
     * wait; that it finds nothing is no miss, and counts nowhere. */
    bool ahead;
    /* Of the binding that it is to have, by wp_pools_bind; 0: none. */
    uint64_t binding;

    /* It repeats a claim that is not answered yet, and is to wait for that
     * answer, as long as its own wait_ns says, and a second at least. False: it
     * may not, and is told RESOURCE_EXHAUSTED. NULL: it may. Before done,
     * without a lock, perhaps more than once. */
    bool (*may_follow)(struct wp_claim *claim);
    void (*done)(struct wp_claim *claim);
    void *ctx; /* The caller's. */

    /* Answer; valid when not WP_PENDING. */
    enum wp_status status;
    struct wp_grant grant;    /* When status is WP_OK. */
    const char *reason;       /* Otherwise: a sentence, static storage. */
    int64_t retry_after_ns;   /* When refused for now: retry after this. */
    int64_t ttl_max_ns;       /* When refused for its ttl_ns: the longest. */
    enum wp_quota_kind quota; /* When RESOURCE_EXHAUSTED for its quota: */
    uint32_t quota_max;       /* what the tenant may have of that. */
    bool replayed;            /* The answer of an earlier request, same id. */

    /* Private to pool/. */
    bool may_leave;         /* Replayed, and counted among who was told. */
    struct wp_list waiting; /* Guarded by the pool's wait lock. */
    struct wp_list followers;
    struct wp_lease_op commit;
    void *owner;            /* The pool it waits in. */
    uint64_t entry;         /* Its claim table entry. */
    struct wp_hash128 hash; /* Of tenant and claim id. */
    int64_t arrived_ns;
    int64_t wait_until_ns;
    int64_t follow_until_ns; /* Guarded by the pool's wait lock. */
    uint32_t account; /* Its tenant's; valid while the claim has its entry. */
    _Atomic(uint32_t) *tenant_waiting; /* The account's; NULL: nobody counts. */
    uint32_t tenant_slot;              /* Guarded by the pool's wait lock. */
    uint32_t timed;                    /* The same; 0 while in no wait queue. */
    uint32_t phase;     /* The same: what a cancel may withdraw. */
    uint32_t asked;     /* How often the store was asked for it. */
    bool confirms;      /* It repeats: the store is to confirm the lease. */
    bool bound;         /* Its sandbox may have taken what it brought. */
    _Atomic(bool) left; /* It was cancelled while it was being answered. */
};

/* The texts a store records with a lease; terminated copies. */
struct wp_lease_names {
    char sandbox[WP_SANDBOX_NAME_MAX + 1];
    char claim_id[WP_CLAIM_ID_MAX + 1];
    char tenant[WP_TENANT_MAX + 1];
};

/* Renew or release of a lease, named by its token. */
struct wp_lease_change {
    /* Request. */
    uint8_t token[WP_TOKEN_LEN];
    struct wp_str tenant; /* Empty: the token alone decides. */
    int64_t ttl_ns;       /* Renew only; 0: the pool's default. */
    /* Renew only: up to the pool's hold_max_ns from the grant on, in place of
     * ttl_max_ns; ttl_ns 0: just that long. */
    bool hold;

    void (*done)(struct wp_lease_change *change);
    void *ctx;

    /* Answer. */
    enum wp_status status;
    const char *reason;
    uint8_t new_token[WP_TOKEN_LEN]; /* Renew: with the new deadline in it. */
    uint64_t fence;
    int64_t deadline_wall_ms;
    int64_t ttl_max_ns; /* Renew refused for its ttl_ns: the longest. */
    bool was_held;      /* Release: false when the lease had already ended. */

    /* Private to pool/. */
    struct wp_lease_op commit;
    struct wp_lease_names names;
    struct wp_list awaiting; /* While the store is asked for the lease. */
    void *owner;
    int64_t deadline_ns;
    uint32_t asked; /* How often the store was asked for the lease. */
    bool settled;   /* It has told. */
    bool renews;
    bool keeps; /* By wp_pools_keep. */
};

/* What Get and List tell of a claim; no token in it. */
struct wp_claim_info {
    struct wp_slot_ref ref;
    char claim_id[WP_CLAIM_ID_MAX + 1];
    char tenant[WP_TENANT_MAX + 1];
    char pool_namespace[WP_NAMESPACE_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
    char sandbox[WP_SANDBOX_NAME_MAX + 1];
    char endpoint[WP_ENDPOINT_MAX + 1];
    char lost_reason[WP_REASON_MAX + 1]; /* "" while the sandbox is well. */
    uint64_t fence;
    int64_t granted_wall_ms;
    int64_t deadline_wall_ms;
    enum wp_served served;
    bool waiting; /* Not granted yet. */
    bool lost;    /* The sandbox is gone; the lease says so until it ends. */
};

#endif
