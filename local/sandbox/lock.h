/* local/sandbox/lock.h - one daemon a state directory: a second would sweep the
 * first one's sandboxes.
 *
 * An flock, which the kernel frees with the holder's last descriptor: however a
 * daemon ends, the next one gets it. No sandbox and no helper keeps the
 * descriptor: it closes on exec, and a child that is just being started closes
 * it before all else (spawn.c). */
#ifndef WP_LOCAL_SANDBOX_LOCK_H
#define WP_LOCAL_SANDBOX_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

#include "pool/base/status.h"

/* The lock of an existing directory; waits only for what is left of a dead
 * holder. FAILED_PRECONDITION: another has it. *fd is closed to free it. */
WP_MUST_CHECK enum wp_status wp_lock_take(const char *state_dir, int *fd,
                                          struct wp_err *err);
/* Has the process ended, reaped or not? False for a number that cannot be one.
 */
bool wp_lock_holder_is_dead(pid_t pid);
/* WP_OK: fd holds the lock of this directory, and closes on exec. */
WP_MUST_CHECK enum wp_status wp_lock_check(const char *state_dir, int fd,
                                           struct wp_err *err);

#endif
