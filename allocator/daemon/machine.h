/* allocator/daemon/machine.h - what makes sandboxes on this machine: the local
 * backend, or in builds with test tools one whose sandboxes are files. Private
 * to the daemon. */
#ifndef WP_ALLOCATOR_DAEMON_MACHINE_H
#define WP_ALLOCATOR_DAEMON_MACHINE_H

#include "local/sandbox/backend_local.h"

/* As the functions of local/sandbox/backend_local.h that have these names. */
struct wp_machine_ops {
    const char *name;
    enum wp_status (*start)(void *self, const struct wp_local_events *events,
                            struct wp_local_sweep *sweep, struct wp_err *err);
    struct wp_backend (*port)(void *self);
    void (*stats)(const void *self, struct wp_local_stats *out);
    /* leave_ready: what has become ready stays, for the next daemon. */
    void (*stop)(void *self, bool leave_ready);
    void (*destroy)(void *self);
};

struct wp_machine {
    const struct wp_machine_ops *ops;
    void *self; /* NULL: not created. */
};

#endif
