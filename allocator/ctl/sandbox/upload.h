/* allocator/ctl/sandbox/upload.h - a file, sent to the server in a sandbox
 * (PUT /v1/files/PATH of warmpool-runtime).
 *
 * Blocking; every wait is bounded by timeout_ns. One thread. */
#ifndef WP_ALLOCATOR_CTL_SANDBOX_UPLOAD_H
#define WP_ALLOCATOR_CTL_SANDBOX_UPLOAD_H

#include <signal.h>

#include "allocator/ctl/sandbox/brought.h"

/* Where to. Borrowed for the call. */
struct wp_upload_target {
    const char *http; /* The daemon's; NULL: its default socket. */
    int64_t timeout_ns;
    const char *sandbox;               /* Its name. */
    const char *bearer;                /* "": none. */
    const volatile sig_atomic_t *stop; /* Not 0: ABORTED, soon. */
};

/* Sends one file, with a connection of its own. It appears in the sandbox when
 * all of it is there. Not WP_OK: err names the path and says what the server
 * said. */
WP_MUST_CHECK enum wp_status
wp_upload_file(const struct wp_upload_target *target,
               const struct wp_brought_file *file, struct wp_err *err);

/* path with all but unreserved characters and '/' percent-encoded; out has room
 * for three times its bytes, and one. Returns the end. */
char *wp_upload_encode(const char *path, char *out);

#endif
