/* local/sandbox/egress_proxy.h - the process that lets sandboxes out.
 *
 * warmpool-egress runs beside the sandboxes, as a user of its own when the
 * daemon is root. It begins with the first sandbox that may reach something,
 * and ends with the daemon. When it dies it is started again, later each time;
 * meanwhile connections of sandboxes wait in their sockets, and nothing gets
 * out. The backend's thread. */
#ifndef WP_LOCAL_SANDBOX_EGRESS_PROXY_H
#define WP_LOCAL_SANDBOX_EGRESS_PROXY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pool/base/status.h"

struct event_base;
struct wp_egress_proxy;  /* Opaque. */
struct wp_egress_member; /* Opaque: a sandbox that may reach something. */

/* Text is borrowed until destroy. */
struct wp_egress_proxy_config {
    const char *path;      /* Of warmpool-egress. */
    const char *packages;  /* What the rule `packages` stands for. */
    const char *keys_file; /* NULL: there are no keys. */
    uint32_t source_conns_max;
    uint64_t source_bytes_max;
    bool log_json;
    bool drop; /* Run it as the user `uid`. */
    uid_t uid;
    const int *lock_fd; /* Closed in it before all else. */
    /* Answers a wp_egress_proxy_narrow that returned false, once. narrowed:
     * nothing wider is in force; else the sandbox reaches nothing. It does not
     * come when the member leaves first, nor from destroy. */
    void (*answered)(void *sandbox, bool narrowed);
};

/* NULL on no memory. Nothing runs yet. */
struct wp_egress_proxy *
wp_egress_proxy_create(const struct wp_egress_proxy_config *config,
                       struct event_base *base);
/* Ends the process and forgets all members. NULL is fine. While the thread does
 * not run. */
void wp_egress_proxy_destroy(struct wp_egress_proxy *proxy);

/* Takes fd, a listening socket in the sandbox. by: what narrows the policy; "":
 * nothing. sandbox: for `answered`. NULL on no memory. */
struct wp_egress_member *wp_egress_proxy_join(struct wp_egress_proxy *proxy,
                                              void *sandbox, const char *name,
                                              const char *policy,
                                              const char *by, int fd);
/* Narrows the member's policy by `by`, with which it can be; what it has open
 * is dropped. True: nothing wider is in force. False: `answered` comes. */
WP_MUST_CHECK bool wp_egress_proxy_narrow(struct wp_egress_proxy *proxy,
                                          struct wp_egress_member *member,
                                          const char *by);
/* The sandbox reaches nothing from here on. Takes member; NULL is fine. */
void wp_egress_proxy_leave(struct wp_egress_proxy *proxy,
                           struct wp_egress_member *member);

#endif
