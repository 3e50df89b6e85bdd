/* allocator/grpc/listen.h - the sockets whose connections the transport accepts
 * itself. Knows no gRPC. */
#ifndef WP_ALLOCATOR_GRPC_LISTEN_H
#define WP_ALLOCATOR_GRPC_LISTEN_H

#include <stdint.h>

#include <sys/types.h>

#include "pool/base/address.h"
#include "pool/base/status.h"

struct wp_rpc_listener {
    int fd;                    /* Non-blocking, close on exec; -1: none. */
    struct wp_address address; /* With the real port. */
    dev_t
        dev; /* Of the Unix socket's file, so that another's is not removed. */
    ino_t ino;
};

/* Binds and listens. Unix: creates the directory (mode 0700) when missing,
 * replaces a socket on which nobody answers, sets the socket's mode. */
WP_MUST_CHECK enum wp_status
wp_rpc_listener_open(struct wp_rpc_listener *listener,
                     const struct wp_address *address, uint32_t unix_mode,
                     struct wp_err *err);
/* Closes, and removes the Unix socket when it is still the one that was
 * made. */
void wp_rpc_listener_close(struct wp_rpc_listener *listener);

#endif
