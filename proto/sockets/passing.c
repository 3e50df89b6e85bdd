#include "proto/sockets/passing.h"

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t
wp_passing_send(int fd, const void *bytes, size_t len, int passed, int flags)
{
    char ancillary[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = {0};
    /* sendmsg does not write there. */
    struct iovec iov = {(void *)(uintptr_t)bytes, len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (passed >= 0) {
        struct cmsghdr *c;

        msg.msg_control = ancillary;
        msg.msg_controllen = sizeof ancillary;
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof passed);
        memcpy(CMSG_DATA(c), &passed, sizeof passed);
    }
    return sendmsg(fd, &msg, flags);
}

int
wp_passing_take(struct msghdr *msg)
{
    int first = -1;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL;
         c = CMSG_NXTHDR(msg, c)) {
        size_t len = c->cmsg_len - CMSG_LEN(0);

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        for (size_t at = 0; at + sizeof(int) <= len; at += sizeof(int)) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
            if (first < 0) {
                first = fd;
            } else {
                (void)close(fd);
            }
        }
    }
    return first;
}

ssize_t
wp_passing_receive(int fd, void *bytes, size_t cap, int *passed)
{
    char ancillary[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    struct iovec iov = {bytes, cap};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = ancillary,
        .msg_controllen = sizeof ancillary,
    };
    ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    *passed = n >= 0 ? wp_passing_take(&msg) : -1;
    return n;
}
