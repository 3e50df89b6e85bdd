/* local/sandbox/gvisor.h - sandboxes of `runtimeClassName: gvisor`.
 *
 * Bubblewrap makes the same namespaces as ever, with a root of their own (the
 * wall), in which warmpool-init bridges and probes. Its child is runsc, which
 * runs the program behind gVisor's kernel on the wall's network namespace,
 * where nothing is but loopback. So gVisor need not be handed the sandbox's
 * socket, and all it starts dies with the wall's PID namespace. Landlock and
 * our seccomp filter would forbid what runsc itself needs (mounts, ptrace): it
 * confines its processes with its own.
 *
 * The wall: WP_GVISOR_ROOT is the template's read-only root, which is all the
 * program sees of it; WP_GVISOR_BUNDLE holds the configuration. */
#ifndef WP_LOCAL_SANDBOX_GVISOR_H
#define WP_LOCAL_SANDBOX_GVISOR_H

#include "local/sandbox/local_impl.h"

#define WP_GVISOR_ROOT "/rootfs"
#define WP_GVISOR_BUNDLE "/bundle"

/* Root only of a user namespace in which nobody else is: to the machine, runsc
 * and all it starts are the sandbox's own user without rights. */
#define WP_GVISOR_BWRAP                                                        \
    "--unshare-all", "--uid", "0", "--gid", "0", "--new-session", "--cap-add", \
        "ALL"

/* ptrace is the platform that every machine has. The control groups are made
 * by the daemon. */
#define WP_GVISOR_RUNSC                                                        \
    "--root", "/run/runsc", "--platform=ptrace", "--network=host",             \
        "--ignore-cgroups"

enum {
    WP_GVISOR_VOLUME_MAX = 32,
    /* Host processes and threads that gVisor's own parts need at most, besides
     * those that stand for the program's. */
    WP_GVISOR_PIDS = 128,
};

/* Where the wall has the files of the template's mount i. */
void wp_gvisor_volume(uint32_t i, char out[WP_GVISOR_VOLUME_MAX]);

/* Makes out->gvisor from its template; wp_gvisor_fini frees it. */
WP_MUST_CHECK enum wp_status wp_gvisor_make(const struct wp_local *local,
                                            struct wp_local_template *out,
                                            struct wp_err *err);
void wp_gvisor_fini(struct wp_local_template *tmpl);

/* A file in memory with the configuration for one sandbox, for reading from its
 * start; -1 with errno. egress: it has a proxy. */
WP_MUST_CHECK int wp_gvisor_config_open(const struct wp_local_template *tmpl,
                                        const char *name, const char *uid_hex,
                                        bool egress);

#endif
