/* pool/lease_store.h - the port to what makes leases outlive a process.
 *
 * The store keeps one record for each sandbox (pool/lease_record.h). A commit
 * changes one record or none; what each kind does in which state is written
 * once, in pool/leases/rules.h, for every store.
 *
 * A commit either completes at once (any status but WP_PENDING) or later
 * through op->done, exactly once, from any thread. A store batches the commits
 * that are waiting at the same moment (group commit); it never blocks its
 * caller for long, and its own waiting has a stated bound.
 *
 * Beside the outcomes of the rules: UNAVAILABLE, certainly nothing was changed.
 * UNKNOWN_OUTCOME, it may or may not have been: the sandbox is quarantined
 * until the store tells (invariant I6). */
#ifndef WP_POOL_LEASE_STORE_H
#define WP_POOL_LEASE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/channel.h"
#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/lease_record.h"
#include "pool/limits.h"
#include "pool/slot_ref.h"

enum wp_lease_op_kind {
    WP_LEASE_OFFER,    /* The sandbox is ready: record it as OPEN. */
    WP_LEASE_GRANT,    /* OPEN -> HELD by this claim. */
    WP_LEASE_RENEW,    /* A new deadline. */
    WP_LEASE_RELEASE,  /* HELD or LOST -> ENDED, by its holder. */
    WP_LEASE_UNDO,     /* HELD -> OPEN: nobody has been shown the grant. */
    WP_LEASE_EXPIRE,   /* Like release, unless it was renewed meanwhile. */
    WP_LEASE_WITHDRAW, /* OPEN -> ENDED: its backend gives it up. */
    WP_LEASE_LOSE,     /* HELD -> LOST, with the reason. */
    WP_LEASE_FETCH,    /* Reads: by claim id when there is one, else by uid. */
    WP_LEASE_FORGET,   /* Nothing of it is left: the record goes. */
    /* A pool's snapshot: bytes of the core, beside the records; durable stores
     * only. It may be lost without harm. */
    WP_LEASE_PUT_SNAPSHOT, /* Replaces it. */
    WP_LEASE_GET_SNAPSHOT, /* NOT_FOUND when there is none. */
};

enum {
    WP_SNAPSHOT_MAX = 65536,
};

/* What PUT_SNAPSHOT writes, or GET_SNAPSHOT fills. */
struct wp_pool_snapshot {
    uint8_t *bytes;
    size_t len; /* At most WP_SNAPSHOT_MAX. */
    size_t cap; /* Of GET_SNAPSHOT; a longer one is NOT_FOUND. */
};

/* One commit. Owned by the caller, who keeps it, with its texts, until done. */
struct wp_lease_op {
    enum wp_lease_op_kind kind;
    struct wp_slot_ref ref; /* The caller's; not for the store. */
    uint8_t uid[WP_UID_LEN];
    uint64_t fence;           /* Of this lease; OFFER: of the last one, or 0. */
    int64_t deadline_wall_ms; /* GRANT, RENEW: new; EXPIRE: as known. */
    int64_t granted_wall_ms;  /* GRANT */
    uint32_t served;          /* GRANT */
    uint64_t fingerprint;     /* GRANT: of the request. */
    struct wp_str pool_namespace;
    struct wp_str pool;
    struct wp_str sandbox;
    struct wp_str endpoint; /* OFFER, GRANT */
    struct wp_str claim_id; /* GRANT, and whatever ends or fetches its claim */
    struct wp_str tenant;
    struct wp_str reason; /* LOSE */
    /* FETCH and EXPIRE: filled with the record as it is, when the status is OK
     * (FETCH) or ABORTED (EXPIRE). May be NULL. */
    struct wp_lease_record *found;
    struct wp_pool_snapshot *snapshot; /* PUT_SNAPSHOT, GET_SNAPSHOT */
    /* The committing thread calls flush before it sleeps: the op may wait for
     * that. */
    bool gathered;

    void (*done)(struct wp_lease_op *op, enum wp_status status);
    /* For the store's queue while it has the op. */
    struct wp_linked_message link;
    /* For a store that stands before another one, as it has the op. */
    struct {
        void *self;
        void (*done)(struct wp_lease_op *op, enum wp_status status);
        int64_t begun_ns;
    } outer;
};

/* The op of its link, NULL for NULL; and the one that a store got after it. */
static inline struct wp_lease_op *
wp_lease_op_of(struct wp_linked_message *link)
{
    return link != NULL ? WP_CONTAINER_OF(link, struct wp_lease_op, link)
                        : NULL;
}
static inline struct wp_lease_op *
wp_lease_op_next(const struct wp_lease_op *op)
{
    return wp_lease_op_of(op->link.next);
}

struct wp_lease_store_ops {
    const char *name; /* "memory", "sqlite", "redis". */
    /* Records outlive the process: sandboxes are offered, fetched and
     * forgotten. False: only what concerns claims is committed. */
    bool durable;
    /* Other replicas commit to the same records, and this one is told of it
     * through wp_pools_on_record. */
    bool shared;
    /* Any thread. */
    enum wp_status (*commit)(void *self, struct wp_lease_op *op);
    /* This thread has nothing more to commit for now: send what is gathered.
     * The store may do it here and now, and call done of any thread's ops; it
     * waits for no disk. NULL when commit needs no such hint. Any thread, not
     * from done; cheap when there is nothing. Who commits an op that is not
     * gathered and then sleeps without it may wait for up to a millisecond
     * longer. */
    void (*flush)(void *self);
    /* Every record, in any order; before anything is committed. Blocks, within
     * the store's bound. Not WP_OK: err says why, and what was told is void.
     * NULL when not durable. */
    enum wp_status (*load)(void *self,
                           void (*each)(void *ctx,
                                        const struct wp_lease_record *record),
                           void *ctx, struct wp_err *err);
};

struct wp_lease_store {
    const struct wp_lease_store_ops *ops;
    void *self;
};

#endif
