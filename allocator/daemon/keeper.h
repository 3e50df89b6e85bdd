/* allocator/daemon/keeper.h - which of the daemons on one state directory makes
 * the sandboxes: the one that holds its lock. The others wait for it; when the
 * kernel gives it to one of them, that one takes up the sandboxes that are
 * there and goes on. Private to the daemon. */
#ifndef WP_ALLOCATOR_DAEMON_KEEPER_H
#define WP_ALLOCATOR_DAEMON_KEEPER_H

#include "allocator/daemon/backend.h"
#include "allocator/daemon/core.h"
#include "allocator/daemon/locks.h"
#include "allocator/daemon/store.h"

/* What a keeper needs. Borrowed. */
struct wp_daemon_keeping {
    struct wp_daemon_core *core;
    struct wp_daemon_locks *locks;
    struct wp_daemon_backend *backend;
    struct wp_daemon_store *store;
};

/* At the start: takes up the sandboxes that are there, whose backend is open.
 * What the records name and is not there is lost, and this daemon makes
 * sandboxes from now on. ALREADY_EXISTS: some of the restored records' are
 * missing, and another keeper is alive, whose they are. */
enum wp_status wp_daemon_keep(const struct wp_daemon_keeping *keeping,
                              uint32_t restored, struct wp_err *err);

struct wp_daemon_follower; /* Opaque. */

/* Starts the thread that waits until this daemon can be the keeper. NULL and
 * err. */
struct wp_daemon_follower *
wp_daemon_follow(const struct wp_daemon_keeping *keeping, struct wp_err *err);
/* The same of a daemon that has the locks already, and serves before it knows
 * the sandboxes of its records: the thread does at once what wp_daemon_keep
 * does. Should that fail, the daemon leaves, and its exit says so. */
struct wp_daemon_follower *
wp_daemon_keep_later(const struct wp_daemon_keeping *keeping, uint32_t restored,
                     struct wp_err *err);
/* Ends it, and forgets it. NULL is fine. Main thread. */
void wp_daemon_unfollow(struct wp_daemon_follower **follower);

#endif
