/* local/sandbox/fetch_process.h - runs warmpool-fetch on this machine.
 *
 * As a user of its own when the daemon is root, behind bubblewrap: of the
 * machine it sees programs, libraries, the resolver's files and authorities,
 * and it can write nothing but its repository's part of the cache. It has the
 * machine's network. Loop thread. */
#ifndef WP_LOCAL_SANDBOX_FETCH_PROCESS_H
#define WP_LOCAL_SANDBOX_FETCH_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "proto/checkout/fetcher.h"

/* Texts are borrowed for the runner's life. */
struct wp_fetch_process {
    const char *bwrap_path;
    const char *path; /* Of warmpool-fetch. */
    const char *cache_dir;
    const char *seccomp_path; /* NULL: no filter. */
    bool drop;
    uid_t uid;
    const int *lock_fd; /* Not to be inherited. */
};

/* Makes the cache's directory; one of another user is made anew. Not WP_OK: err
 * says why not. self is borrowed by what out is given to. */
WP_MUST_CHECK enum wp_status
wp_fetch_process_init(struct wp_fetch_process *self,
                      struct wp_fetch_runner *out, struct wp_err *err);

#endif
