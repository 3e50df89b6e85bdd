/* allocator/daemon/leave.h - what the main thread does once the daemon serves:
 * it reloads, tells the service manager, and leaves without losing anything.
 * Private to the daemon. */
#ifndef WP_ALLOCATOR_DAEMON_LEAVE_H
#define WP_ALLOCATOR_DAEMON_LEAVE_H

#include "allocator/daemon/cluster.h"
#include "allocator/daemon/core.h"
#include "allocator/daemon/keeper.h"
#include "allocator/daemon/redis.h"
#include "allocator/daemon/servers.h"

/* What takes part. Borrowed. */
struct wp_daemon_leaving {
    struct wp_daemon_core *core;
    struct wp_daemon_servers *servers;
    struct wp_daemon_cluster *cluster;    /* NULL: none. */
    struct wp_daemon_redis *redis;        /* NULL: none. */
    struct wp_daemon_keeping keeping;     /* To take over once more. */
    struct wp_daemon_follower **follower; /* Ended by leave. */
    /* Set by leave. */
    bool succeeded; /* Others go on with the sandboxes. */
    int64_t end_ns; /* Monotonic: then it goes, whatever is left. */
};

/* Ends claims and calls, then what is not to stay. ends: no lease and no
 * sandbox stays behind, unless other daemons share them. lease_grace_ns: how
 * long leases may live on before, from an admin's Drain. *leaves_ready:
 * sandboxes that were ready run on. True when nothing else was left behind.
 * Of daemons that share sandboxes and leave at once, the last one ends what is
 * to end: if another one still makes them, it first takes over. It takes
 * lease_grace_ns, the drain_grace of calls, and 15 s at most. Main thread. */
bool wp_daemon_leave(struct wp_daemon_leaving *leaving, bool ends,
                     int64_t lease_grace_ns, bool *leaves_ready);

/* --- reload.c --- */

/* Reads settings and manifests once more, from the same arguments, and makes
 * the templates and pools what they say; with a mistake in them all stays as it
 * is. backend: NULL in a cluster, where pools are objects. Main thread. */
void wp_daemon_reload(struct wp_daemon_core *core,
                      struct wp_daemon_backend *backend, int argc,
                      char *const *argv);

/* CreatePool or DeletePool: has main do the job and end it, by SIGUSR1. As
 * wp_services_config's shape; ctx is the core. Any thread. */
enum wp_status wp_daemon_shape(void *ctx, struct wp_pool_job *job,
                               struct wp_err *err);
/* Does the job that waits, if there is one. True: pools have changed. Main
 * thread. */
bool wp_daemon_shape_run(struct wp_daemon_core *core,
                         struct wp_daemon_backend *backend);
/* Refuses the one that waits, and all to come. Main thread. */
void wp_daemon_shape_close(struct wp_daemon_core *core);

/* --- notify.c --- */

/* Tells systemd, when it listens. Main thread. */
void wp_daemon_notify(const char *state);

#endif
