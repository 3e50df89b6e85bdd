/* local/sandbox/extras.h - what a sandbox is given through descriptors of its
 * own: the files of its volumes, which bwrap copies, and what warmpool-init
 * runs beside the command. None of it is on a command line or on a disk. */
#ifndef WP_LOCAL_SANDBOX_EXTRAS_H
#define WP_LOCAL_SANDBOX_EXTRAS_H

#include "local/sandbox/local_impl.h"

/* Fills out->programs from its template. */
WP_MUST_CHECK enum wp_status wp_extras_make(struct wp_local_template *out,
                                            struct wp_err *err);
void wp_extras_fini(struct wp_local_template *tmpl);

/* The descriptors as the sandbox's processes see them: the programs', where
 * there are any, and from then on one for each file of each mount. */
int wp_extras_programs_fd(const struct wp_local *local);
int wp_extras_files_fd(const struct wp_local *local,
                       const struct wp_local_template *tmpl);

/* A descriptor (close-on-exec) of a file in memory with these bytes, at its
 * start; -1 with errno. Anew for each sandbox, since it is read from the
 * current offset. */
WP_MUST_CHECK int wp_extras_memory(struct wp_str bytes);
/* Opens all of them for one sandbox, as fds[i] for descriptor i, each above
 * WP_SPAWN_FDS_MAX. False with errno: those that were opened are the caller's
 * to close. *len is one past the last one. */
WP_MUST_CHECK bool wp_extras_open(const struct wp_local *local,
                                  const struct wp_local_template *tmpl,
                                  int *fds, int *len);

#endif
