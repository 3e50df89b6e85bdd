/* proto/formats/http_listen.h - a bound socket for an address. */
#ifndef WP_PROTO_FORMATS_HTTP_LISTEN_H
#define WP_PROTO_FORMATS_HTTP_LISTEN_H

#include <stdint.h>

#include "pool/base/address.h"
#include "pool/base/status.h"

/* A non-blocking descriptor, or -1 and err. A Unix socket that nobody answers
 * on is replaced; it gets mode unix_mode, 0: as the umask says. An IPv6 socket
 * takes IPv4 too. *address gets the real port. For wp_http_server_listen. */
int wp_http_bind(struct wp_address *address, uint32_t unix_mode,
                 struct wp_err *err);

#endif
