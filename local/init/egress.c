#include "local/init/egress.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "local/control.h"
#include "local/egress_env.h"

enum {
    BACKLOG = 128,
};

int
wp_init_egress_listen(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 &&
        (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
         bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
         listen(fd, BACKLOG) != 0)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

bool
wp_init_egress_env(void)
{
#define SET_ENV(name, value)                                                   \
    if (setenv(name, value, 0) != 0) {                                         \
        return false;                                                          \
    }
    WP_EGRESS_ENV(SET_ENV)
#undef SET_ENV
    return true;
}

void
wp_init_egress_tell(int control_fd, int egress_fd)
{
    char what = WP_CONTROL_EGRESS;
    char ancillary[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = {0};
    struct iovec iov = {&what, 1};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = ancillary,
        .msg_controllen = sizeof ancillary,
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &egress_fd, sizeof(int));
    (void)sendmsg(control_fd, &msg, MSG_NOSIGNAL);
}
