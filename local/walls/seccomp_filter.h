/* local/walls/seccomp_filter.h - the system calls a sandbox may make.
 *
 * A list of what programs need, about what container runtimes allow to a
 * container without capabilities: any language and tool runs under those. All
 * else is refused as if by missing privilege; what programs try first and can
 * do without (clone3, io_uring), and what is newer than libseccomp, is refused
 * as if the kernel were older, so that they fall back. */
#ifndef WP_LOCAL_WALLS_SECCOMP_FILTER_H
#define WP_LOCAL_WALLS_SECCOMP_FILTER_H

#include "pool/base/status.h"

/* Compiles the filter for this machine's architecture (32-bit and foreign ones
 * are killed) and writes it as BPF, the form that bwrap --seccomp reads, to fd
 * from its current offset. */
WP_MUST_CHECK enum wp_status wp_seccomp_filter_write(int fd,
                                                     struct wp_err *err);

#endif
