/* proto/sockets/listen.h - a socket that listens at an address, for every
 * server of the product. */
#ifndef WP_PROTO_SOCKETS_LISTEN_H
#define WP_PROTO_SOCKETS_LISTEN_H

#include <stdint.h>

#include <sys/types.h>

#include "pool/base/address.h"
#include "pool/base/status.h"

struct wp_listener {
    int fd;                    /* Non-blocking, close on exec; -1: none. */
    struct wp_address address; /* With the real port. */
    dev_t
        dev; /* Of the Unix socket's file, so that another's is not removed. */
    ino_t ino;
};

/* Binds and listens. Unix: creates the directory (mode 0700) when missing,
 * replaces a socket only when the kernel says that no process listens there,
 * sets the socket's mode (0: as the umask says). An IPv6 socket takes IPv4
 * too. */
WP_MUST_CHECK enum wp_status wp_listener_open(struct wp_listener *listener,
                                              const struct wp_address *address,
                                              uint32_t unix_mode,
                                              struct wp_err *err);
/* Closes fd, if it is not -1, and removes the Unix socket when it is still the
 * one that was made. Who has given fd away sets it to -1 before. */
void wp_listener_close(struct wp_listener *listener);

#endif
