/* pool/lease_store.h - the port to what makes leases outlive a process.
 *
 * A commit either completes at once (any status but WP_PENDING) or later
 * through op->done, exactly once, from any thread. A store batches the commits
 * that are waiting at the same moment (group commit); it never blocks its
 * caller.
 *
 * Outcomes: OK, the record is durable as the store promises. TAKEN (grant), the
 * sandbox has a live lease of somebody else: try another one. ABORTED (renew,
 * release), a newer fence is recorded. NOT_FOUND (renew, release), no such
 * lease. UNAVAILABLE, certainly nothing was changed. UNKNOWN_OUTCOME, it may or
 * may not have been: the sandbox is quarantined (invariant I6). */
#ifndef WP_POOL_LEASE_STORE_H
#define WP_POOL_LEASE_STORE_H

#include <stdint.h>

#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/limits.h"
#include "pool/slot_ref.h"

enum wp_lease_op_kind {
    WP_LEASE_GRANT,
    WP_LEASE_RENEW,
    WP_LEASE_RELEASE, /* By its holder, or undone before anybody saw it. */
    WP_LEASE_EXPIRE,  /* Like release, but only while the recorded deadline is
                       * not  after deadline_wall_ms; else ABORTED: it was
                       * renewed. */
};

/* One commit. Owned by the caller, who keeps it until done. */
struct wp_lease_op {
    enum wp_lease_op_kind kind;
    struct wp_slot_ref ref;
    uint64_t fence; /* Of this lease; a store compares it first. */
    int64_t deadline_wall_ms;
    struct wp_str pool_namespace;
    struct wp_str pool;
    struct wp_str sandbox;
    struct wp_str endpoint;
    struct wp_str claim_id;
    struct wp_str tenant;
    uint64_t fingerprint; /* Of the request; the same id must match it. */

    void (*done)(struct wp_lease_op *op, enum wp_status status);
    struct wp_lease_op *next; /* For the store's queue while it has the op. */
};

struct wp_lease_store_ops {
    const char *name; /* "memory", "sqlite", "redis". */
    /* Any thread. */
    enum wp_status (*commit)(void *self, struct wp_lease_op *op);
};

struct wp_lease_store {
    const struct wp_lease_store_ops *ops;
    void *self;
};

#endif
