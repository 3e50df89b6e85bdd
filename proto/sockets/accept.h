/* proto/sockets/accept.h - taking connections from a listening socket, also
 * when descriptors have run out.
 *
 * A socket whose connections cannot be taken stays readable: who went on
 * looking would burn a processor. So every server pauses then, and tries again:
 * nothing tells when descriptors are free once more. */
#ifndef WP_PROTO_SOCKETS_ACCEPT_H
#define WP_PROTO_SOCKETS_ACCEPT_H

#include <sys/socket.h>

enum {
    WP_ACCEPTS_PER_TURN = 64, /* Before others get their turn. */
    WP_ACCEPT_PAUSE_MS = 100, /* After WP_ACCEPT_EXHAUSTED. */
};

enum wp_accept {
    WP_ACCEPT_TAKEN,
    WP_ACCEPT_NONE,      /* None waits. */
    WP_ACCEPT_EXHAUSTED, /* Descriptors or memory have run out: pause. */
};

/* Takes one connection: non-blocking, close on exec. Those that have gone again
 * are passed over. peer may be NULL. listen_fd is non-blocking. Any thread. */
enum wp_accept wp_accept_next(int listen_fd, int *fd,
                              struct sockaddr_storage *peer);

#endif
