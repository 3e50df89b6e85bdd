/* runtime/http/listen.h - the sockets of the server. */
#ifndef WP_RUNTIME_HTTP_LISTEN_H
#define WP_RUNTIME_HTTP_LISTEN_H

#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"

/* A bound, non-blocking TCP socket in *fd; *port becomes the chosen one when
 * it was 0. address NULL: every address, IPv6 and IPv4 where there are both. */
WP_MUST_CHECK enum wp_status wp_listen_tcp(const char *address, int32_t *port,
                                           int *fd, struct wp_err *err);
/* The same for a Unix socket; a stale one at path, on which nobody listens, is
 * replaced. */
WP_MUST_CHECK enum wp_status wp_listen_unix(const char *path, int *fd,
                                            struct wp_err *err);

#endif
