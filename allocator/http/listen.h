/* allocator/http/listen.h - a bound, listening socket for an address. */
#ifndef WP_ALLOCATOR_HTTP_LISTEN_H
#define WP_ALLOCATOR_HTTP_LISTEN_H

#include <stdint.h>

#include "allocator/conf/address.h"
#include "pool/base/status.h"

/* A non-blocking descriptor, or -1 and err. A Unix socket that nobody answers
 * on is replaced, and gets mode unix_mode. *address gets the real port. */
int wp_http_listen(struct wp_address *address, uint32_t unix_mode,
                   struct wp_err *err);

#endif
