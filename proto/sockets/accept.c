#include "proto/sockets/accept.h"

#include <errno.h>
#include <stddef.h>

enum wp_accept
wp_accept_next(int listen_fd, int *fd, struct sockaddr_storage *peer)
{
    for (;;) {
        socklen_t len = sizeof *peer;

        *fd = accept4(listen_fd, (struct sockaddr *)peer,
                      peer != NULL ? &len : NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (*fd >= 0) {
            return WP_ACCEPT_TAKEN;
        }
        if (errno == EAGAIN || errno == EBADF || errno == EINVAL) {
            return WP_ACCEPT_NONE;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
            errno == ENOMEM) {
            return WP_ACCEPT_EXHAUSTED;
        }
    }
}
