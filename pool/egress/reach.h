/* pool/egress/reach.h - what kind of address is it?
 *
 * The registries of special-purpose addresses, of IPv4 and IPv6, in one table.
 * Only what is public may be connected to without a policy naming it. Pure; any
 * thread. */
#ifndef WP_POOL_EGRESS_REACH_H
#define WP_POOL_EGRESS_REACH_H

#include <stdbool.h>
#include <sys/socket.h>

#include "pool/base/compiler.h"
#include "proto/sockets/network.h"

enum wp_reach {
    WP_REACH_PUBLIC,
    WP_REACH_METADATA, /* Where clouds hand out credentials. */
    WP_REACH_LOOPBACK,
    WP_REACH_LINK_LOCAL,
    WP_REACH_PRIVATE,
    WP_REACH_SHARED, /* Behind a carrier's NAT. */
    WP_REACH_MULTICAST,
    WP_REACH_TRANSLATED, /* Holds another address: NAT64, 6to4, Teredo. */
    WP_REACH_RESERVED,   /* All else, other families included. */
};

/* An IPv4 address inside an IPv6 one (::ffff:a.b.c.d) is IPv4. */
enum wp_reach wp_reach_of(const struct sockaddr *address);
/* An adjective: "private". */
const char *wp_reach_text(enum wp_reach reach);
/* Is every address of the network public? */
WP_MUST_CHECK bool wp_reach_all_public(const struct wp_network *network);

#endif
