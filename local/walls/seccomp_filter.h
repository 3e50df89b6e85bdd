/* local/walls/seccomp_filter.h - the system calls a sandbox may not make.
 *
 * A deny-list, on purpose. An allow-list is stronger against calls that do not
 * exist yet, but the programs here are unknown (any language, any tool), and a
 * list short enough to mean something breaks them in ways nobody can debug, so
 * people switch it off. The namespaces, the empty capability set, no_new_privs
 * and Landlock are what confines; this filter takes away the kernel's wide and
 * rarely needed surfaces (bpf, io_uring, keyrings, userfaultfd, mounting, new
 * namespaces, odd socket families), which is where escapes were found. Calls
 * newer than libseccomp knows are refused with ENOSYS, so the list ages safely:
 * that is the property of an allow-list that matters most. */
#ifndef WP_LOCAL_WALLS_SECCOMP_FILTER_H
#define WP_LOCAL_WALLS_SECCOMP_FILTER_H

#include "pool/base/status.h"

/* Compiles the filter for this machine's architecture (32-bit and foreign ones
 * are killed) and writes it as BPF, the form that bwrap --seccomp reads, to fd
 * from its current offset. */
WP_MUST_CHECK enum wp_status wp_seccomp_filter_write(int fd,
                                                     struct wp_err *err);

#endif
