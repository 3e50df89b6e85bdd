/* local/sandbox/host_probe.h - finds out what the machine allows. */
#ifndef WP_LOCAL_SANDBOX_HOST_PROBE_H
#define WP_LOCAL_SANDBOX_HOST_PROBE_H

#include <stddef.h>

#include "local/sandbox/backend_local.h"
#include "local/walls/cgroup.h"

/* Fills what can be seen without a sandbox: bwrap, cgroups, Landlock, seccomp.
 */
WP_MUST_CHECK enum wp_status wp_host_look(const struct wp_local_config *config,
                                          const struct wp_cgroups *groups,
                                          struct wp_host_report *report,
                                          struct wp_err *err);

/* Runs one short sandbox; err says why it could not, in words for the person
 * who has to change the machine. */
WP_MUST_CHECK enum wp_status wp_host_try(const struct wp_local_config *config,
                                         const struct wp_host_report *report,
                                         struct wp_err *err);

/* The same for gVisor, which report says is installed. */
WP_MUST_CHECK enum wp_status
wp_host_try_gvisor(const struct wp_local_config *config,
                   const struct wp_host_report *report, struct wp_err *err);

void wp_host_note(struct wp_host_report *report, const char *fmt, ...)
    WP_PRINTF(2, 3);

#endif
