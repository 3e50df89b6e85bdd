/* pool/backend.h - the port to whatever makes and destroys sandboxes.
 *
 * The pool declares it; local/ and k8s/ implement it; tests fake it. Both sides
 * only post: no call here waits. What happened comes back through the
 * wp_pools_on_* functions of pool/pool.h, from any thread, in any order,
 * possibly more than once; a late or repeated report is recognised by its
 * generation.
 *
 * For every create that returned WP_OK the backend reports exactly one end:
 * on_destroyed, once nothing of the sandbox is left on the machine. Between the
 * two it may report on_started, then on_ready (once each), and on_lost (once).
 */
#ifndef WP_POOL_BACKEND_H
#define WP_POOL_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/binding.h"
#include "pool/limits.h"
#include "pool/slot_ref.h"

enum {
    WP_UID_LEN = 16
};

/* What to make. Borrowed for the call. */
struct wp_sandbox_order {
    struct wp_slot_ref ref;
    struct wp_str pool_namespace;
    struct wp_str pool;
    struct wp_str template_name;
    struct wp_str name;   /* Unique on this machine or in this namespace. */
    const uint8_t *uid;   /* WP_UID_LEN random bytes, also in lease tokens. */
    struct wp_str egress; /* The policy; "": nothing may be reached. */
    int64_t ready_within_ns; /* After this without on_ready: report on_lost. */
};

/* A lease on a sandbox, for a backend that shows leases where sandboxes are.
 * Borrowed for the call. */
struct wp_lease_notice {
    struct wp_slot_ref ref;
    const uint8_t *uid; /* WP_UID_LEN bytes. */
    struct wp_str pool_namespace;
    struct wp_str pool;
    struct wp_str sandbox;
    struct wp_str claim_id;
    struct wp_str tenant;
    uint64_t fence;
    int64_t deadline_wall_ms; /* WP_WALL_NEVER_MS: none. */
    int64_t granted_wall_ms;
    uint64_t fingerprint; /* Of the rest of the claim's request. */
    /* As the pool has it: frozen when idle for so long; 0: not. */
    int64_t freeze_after_ns;
    bool keep;       /* By wp_pools_keep, while the sandbox is used. */
    uint32_t served; /* enum wp_served */
};

struct wp_backend_ops {
    const char *name; /* "local", "kubernetes"; in logs and metrics. */
    /* Its sandboxes may be others' as well: wp_pools_found may be called. */
    bool foreign;

    /* Starts making a sandbox. Not WP_OK: nothing was started and no report
     * will come; RESOURCE_EXHAUSTED means "ask again later" (a queue is full).
     * Control thread only. err may be NULL. */
    enum wp_status (*create)(void *self, const struct wp_sandbox_order *order,
                             struct wp_err *err);

    /* Starts destroying the sandbox of ref, in whatever state it is;
     * idempotent. RESOURCE_EXHAUSTED: the caller asks again later. Control
     * thread only. */
    enum wp_status (*destroy)(void *self, struct wp_slot_ref ref);

    /* A lease on a sandbox is known here: granted by this process, or told by a
     * record. At least once for each lease that lasts long enough, behind its
     * answer; again for all of them when this process becomes the keeper; and,
     * with a store that keeps nothing, or when the lease is kept by use, when
     * its deadline has moved. A backend that is not foreign hears of pools only
     * that freeze their sandboxes or keep their leases; one that is foreign may
     * hear of a sandbox that it has not: it looks for it, and reports that it
     * is lost and destroyed when it is not there. The keeper only.
     * Control thread; must not block. May be NULL. */
    void (*leased)(void *self, const struct wp_lease_notice *notice);

    /* Binds a leased sandbox. WP_PENDING: op is kept, and done comes exactly
     * once, on any thread, within_ns later at the latest, but for the time that
     * repositories take to be fetched and put, and volumes to come free.
     * Anything else, with op->reason: nothing was tried. A sandbox takes one
     * binding in its life: the same one again, by its fingerprint, is answered
     * as the first, and with it while that is under way; a sandbox that took a
     * part of it only is lost. Any thread; does not block. NULL: no sandbox can
     * be bound. */
    enum wp_status (*bind)(void *self, struct wp_bind_op *op);
    /* Why the sandboxes of that template cannot be bound: a sentence in static
     * storage. NULL: they can. Any thread. With bind. */
    const char *(*unbound)(void *self, struct wp_str template_namespace,
                           struct wp_str template_name);
    /* May the binding's repositories and volumes be brought?
     * FAILED_PRECONDITION: err names one that may not. Any thread. NULL: none
     * can. */
    enum wp_status (*may_bring)(void *self, const struct wp_binding *binding,
                                struct wp_err *err);
    /* May a claim narrow the policy of a pool (as struct wp_sandbox_order has
     * it) by `by`? INVALID_ARGUMENT: `by` is no policy; FAILED_PRECONDITION: it
     * asks for more; err names what. Any thread. NULL: none can be narrowed. */
    enum wp_status (*narrows)(void *self, struct wp_str policy,
                              struct wp_str by, struct wp_err *err);
    /* Do sandboxes of pools with an egress policy reach nothing unless they are
     * bound? Then claims are bound that bring nothing, too. Any thread. NULL:
     * no. With bind. */
    bool (*passes)(void *self);
    /* Can a sandbox that is bound have a signed identity? Not WP_OK: err says
     * why not. Any thread. NULL: none can. */
    enum wp_status (*may_sign)(void *self, struct wp_err *err);
};

struct wp_backend {
    const struct wp_backend_ops *ops;
    void *self;
    /* Sandboxes of all pools that it makes at once; other orders wait their
     * turn. 0: as many as are ordered. */
    uint32_t at_once;
};

#endif
