/* pool/egress/channel.h - what the daemon says to the egress proxy.
 *
 * Over a SOCK_SEQPACKET pair whose end at the daemon's is the proxy's end, too.
 * Each message is a letter and text. A sandbox is known by the socket that its
 * connections come through, which comes along with JOIN; nothing that it says
 * itself counts. The proxy answers where a claim has narrowed a policy. */
#ifndef WP_POOL_EGRESS_CHANNEL_H
#define WP_POOL_EGRESS_CHANNEL_H

#include "pool/egress/policy.h"
#include "pool/limits.h"

enum {
    /* Name, NUL, policy, NUL, what narrows it ("": nothing); with one listening
     * socket. Again for a name that is there: in its place, and the connections
     * of before are dropped. */
    WP_EGRESS_JOIN = 'J',
    WP_EGRESS_LEAVE = 'L', /* Name. Its connections are dropped. */
    /* From the proxy, after a JOIN that narrows: name. From here on the sandbox
     * has the narrowed policy, or, after the second, reaches nothing. */
    WP_EGRESS_NARROWED = 'N',
    WP_EGRESS_REFUSED = 'R',
    WP_EGRESS_MESSAGE_MAX =
        1 + WP_SANDBOX_NAME_MAX + 2 * (1 + WP_EGRESS_TEXT_MAX),
    WP_EGRESS_CHANNEL_FD = 3, /* In the proxy. */
    WP_EGRESS_KEYS_FD = 4,    /* The file of keys, if there is one. */
};

#endif
