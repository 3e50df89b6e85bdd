/* proto/sockets/network.h - ranges of addresses in text: "10.1.0.0/16",
 * "fd00::/8", or one address. Pure; any thread. */
#ifndef WP_PROTO_SOCKETS_NETWORK_H
#define WP_PROTO_SOCKETS_NETWORK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "pool/base/status.h"
#include "pool/base/str.h"

struct wp_network {
    uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d. */
    uint8_t bits;        /* Of address that count, 0 to 128. */
};

/* err says what was expected of text. Bits behind the prefix must be 0: who
 * sets one has meant another network. */
enum wp_status wp_network_parse(struct wp_str text, struct wp_network *out,
                                struct wp_err *err);
/* Is it all of IPv4 or of IPv6? */
bool wp_network_is_everything(const struct wp_network *network);
/* Is the address, of any family, in the network? An IPv4 address inside an IPv6
 * one is IPv4. */
bool wp_network_has(const struct wp_network *network,
                    const struct sockaddr *address);
/* Is all of inner in outer? */
bool wp_network_within(const struct wp_network *inner,
                       const struct wp_network *outer);

#endif
