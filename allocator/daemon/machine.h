/* allocator/daemon/machine.h - what makes sandboxes on this machine: the local
 * backend, or in builds with test tools one whose sandboxes are files. Private
 * to the daemon. */
#ifndef WP_ALLOCATOR_DAEMON_MACHINE_H
#define WP_ALLOCATOR_DAEMON_MACHINE_H

#include "allocator/conf/conf.h"
#include "allocator/daemon/locks.h"
#include "local/manifest/manifest.h"
#include "local/sandbox/backend_local.h"

/* As the functions of local/sandbox/backend_local.h that have these names. */
struct wp_machine_ops {
    const char *name;
    enum wp_status (*start)(void *self, const struct wp_local_events *events,
                            struct wp_local_sweep *sweep, struct wp_err *err);
    struct wp_backend (*port)(void *self);
    void (*stats)(const void *self, struct wp_local_stats *out);
    /* As wp_local_add_template and wp_local_template_hash; NULL: it makes what
     * a pool asks for, whatever its template says. */
    enum wp_status (*add_template)(void *self, const struct wp_template *tmpl,
                                   struct wp_err *err);
    uint64_t (*template_hash)(const void *self, struct wp_str namespace_,
                              struct wp_str name);
    /* leave_ready: what has become ready stays, for the next daemon. */
    void (*stop)(void *self, bool leave_ready);
    void (*destroy)(void *self);
};

struct wp_machine {
    const struct wp_machine_ops *ops;
    void *self; /* NULL: not created. */
    /* The local backend's helpers, which it borrows; "" where there is none. */
    char init_path[512];
    char runtime_path[512];
    char egress_path[512];
    char fetch_path[512];
};

/* Can this machine make sandboxes? */
enum wp_status wp_daemon_probe_local(const struct wp_conf *conf,
                                     const struct wp_manifest *manifest,
                                     struct wp_err *err);
/* Are there sandboxes of an earlier daemon below the state directory? Then this
 * machine can make them. */
bool wp_daemon_has_left(const struct wp_conf *conf);
/* The local backend; takes its lock over from locks. untried: it is probed
 * later. */
enum wp_status wp_daemon_create_local(const struct wp_conf *conf,
                                      const struct wp_manifest *manifest,
                                      struct wp_daemon_locks *locks,
                                      bool untried, struct wp_machine *out,
                                      struct wp_err *err);

#ifdef WP_TEST_TOOLS
/* Takes the backend's lock over from locks. */
enum wp_status wp_daemon_create_synthetic(const struct wp_conf *conf,
                                          struct wp_daemon_locks *locks,
                                          struct wp_machine *out,
                                          struct wp_err *err);
#endif

#endif
