/* local/walls/clone_into.h - a child that is born in a control group of
 * version 2.
 *
 * To join one later takes a lock of the whole machine, for which the kernel
 * waits 10 to 100 ms. */
#ifndef WP_LOCAL_WALLS_CLONE_INTO_H
#define WP_LOCAL_WALLS_CLONE_INTO_H

#include <stddef.h>
#include <sys/types.h>

#include "pool/base/compiler.h"

/* As clone(2) with CLONE_VM, CLONE_VFORK and CLONE_PIDFD: fn(arg) runs on the
 * stack, whose ends are multiples of 16, and must not return; the caller waits
 * until it executes or ends. group_fd is of the group's directory. -1 with
 * errno: there is no child; ENOSYS where the kernel (before 5.7), what confines
 * this process, or this processor's code here does not have it. */
WP_MUST_CHECK pid_t wp_clone_into(int group_fd, void (*fn)(void *arg),
                                  void *arg, void *stack, size_t stack_len,
                                  int *pidfd);

#endif
