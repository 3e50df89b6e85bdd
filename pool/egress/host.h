/* pool/egress/host.h - a host as a request names it, in one spelling.
 *
 * A name may be written in capitals and with a dot at its end. An address may
 * be written as the C library reads it: 127.1, 0x7f000001, 017700000001. All
 * spellings of one host become the same struct, so that a policy is asked about
 * what would be connected to. Pure; any thread. */
#ifndef WP_POOL_EGRESS_HOST_H
#define WP_POOL_EGRESS_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "pool/base/str.h"

enum {
    WP_HOST_MAX = 253, /* Characters of a name. */
};

struct wp_host {
    char name[WP_HOST_MAX + 1]; /* In lower case; an address as usual. */
    bool is_address;
    struct sockaddr_storage address; /* Without a port; when is_address. */
};

/* A name of letters, digits, '-' and '_' in labels, an IPv4 address, or an IPv6
 * address in brackets. International names come as "xn--...". False: *why is a
 * sentence for the client. */
WP_MUST_CHECK bool wp_host_parse(struct wp_str text, struct wp_host *out,
                                 const char **why);
/* The same for "HOST" or "HOST:PORT". default_port 0: the port must be given.
 */
WP_MUST_CHECK bool wp_host_port_parse(struct wp_str text, uint16_t default_port,
                                      struct wp_host *out, uint16_t *port,
                                      const char **why);

#endif
