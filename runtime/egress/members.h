/* runtime/egress/members.h - takes the daemon's words (pool/egress/channel.h).
 *
 * The daemon is trusted; what is no message of its is passed over with a line
 * in the log. The end of the channel ends the event loop: without the daemon no
 * sandbox gets out. Loop thread only. */
#ifndef WP_RUNTIME_EGRESS_MEMBERS_H
#define WP_RUNTIME_EGRESS_MEMBERS_H

#include "runtime/egress/egress.h"

struct wp_egress_members; /* Opaque. */

/* fd is borrowed. NULL: no memory. */
struct wp_egress_members *wp_egress_members_create(struct event_base *base,
                                                   struct wp_egress *egress,
                                                   int fd);
/* NULL is fine. */
void wp_egress_members_destroy(struct wp_egress_members *members);

#endif
