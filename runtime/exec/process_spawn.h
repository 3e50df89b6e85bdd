/* runtime/exec/process_spawn.h - starts one child; knows nothing of events. */
#ifndef WP_RUNTIME_EXEC_PROCESS_SPAWN_H
#define WP_RUNTIME_EXEC_PROCESS_SPAWN_H

#include <sys/types.h>

#include "runtime/exec/process.h"

struct wp_process_child {
    pid_t pid;
    int stdin_fd;  /* -1 when it reads from /dev/null. */
    int out_fd[2]; /* With a terminal the second is -1. */
};

/* Starts spec with its own session, default signals and no other descriptors
 * than the three. Our ends of the pipes are non-blocking and the caller's to
 * close. Errors as wp_process_start. Loop thread. */
WP_MUST_CHECK enum wp_status
wp_process_spawn(const struct wp_process_spec *spec,
                 struct wp_process_child *out, struct wp_err *err);

#endif
