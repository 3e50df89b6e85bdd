/* pool/egress/channel.h - what the daemon says to the egress proxy.
 *
 * Over a SOCK_SEQPACKET pair whose end at the daemon's is the proxy's end, too.
 * Each message is a letter and text. A sandbox is known by the socket that its
 * connections come through, which comes along with JOIN; nothing that it says
 * itself counts. */
#ifndef WP_POOL_EGRESS_CHANNEL_H
#define WP_POOL_EGRESS_CHANNEL_H

#include "pool/egress/policy.h"
#include "pool/limits.h"

enum {
    /* Name, NUL, policy; with one listening socket. Again for a name that is
     * there: in its place. */
    WP_EGRESS_JOIN = 'J',
    WP_EGRESS_LEAVE = 'L', /* Name. Its connections are dropped. */
    WP_EGRESS_MESSAGE_MAX = 1 + WP_SANDBOX_NAME_MAX + 1 + WP_EGRESS_TEXT_MAX,
    WP_EGRESS_CHANNEL_FD = 3, /* In the proxy. */
    WP_EGRESS_KEYS_FD = 4,    /* The file of keys, if there is one. */
};

#endif
