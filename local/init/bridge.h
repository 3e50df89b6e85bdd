/* local/init/bridge.h - carries bytes between a Unix socket and a loopback
 * port.
 *
 * Runs in warmpool-init, inside the sandbox: the Unix socket was made by the
 * daemon outside and handed in, the port belongs to the sandboxed program. At
 * most conns_max connections are open; further ones wait in the socket's
 * backlog, as they do while descriptors have run out. A side that does not read
 * stops the other side from being read (one buffer a direction). Half-closed
 * connections stay open in the other direction. One thread; the owner runs the
 * epoll loop. */
#ifndef WP_LOCAL_INIT_BRIDGE_H
#define WP_LOCAL_INIT_BRIDGE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "local/watch.h"
#include "pool/base/compiler.h"

struct wp_bridge_conn;

struct wp_bridge {
    struct wp_watch listen_watch;
    struct wp_watch pause_watch;
    int pause_fd;  /* A timer: descriptors had run out. */
    int epoll_fd;  /* Borrowed. */
    int listen_fd; /* Borrowed; made non-blocking. */
    uint16_t port;
    uint32_t conns_max;
    uint32_t conns;
    bool accepting;
    bool closed;              /* By wp_bridge_close. */
    struct timespec ended_at; /* The last connection; 0: there was none. */
    struct wp_bridge_conn *all;
    struct wp_bridge_conn *dead; /* Freed by wp_bridge_reap. */
};

/* Starts accepting. False with errno. */
WP_MUST_CHECK bool wp_bridge_init(struct wp_bridge *bridge, int epoll_fd,
                                  int listen_fd, uint16_t port,
                                  uint32_t conns_max);
/* Accepts nothing until it is opened again; what comes waits in the socket's
 * backlog. */
void wp_bridge_close(struct wp_bridge *bridge);
void wp_bridge_open(struct wp_bridge *bridge);
/* Frees connections that ended; after each batch of events, never within one,
 * since a later event of the batch may name them. */
void wp_bridge_reap(struct wp_bridge *bridge);
/* Closes all connections; not the descriptors given to init. */
void wp_bridge_fini(struct wp_bridge *bridge);

#endif
