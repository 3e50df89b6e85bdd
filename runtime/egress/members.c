#include "runtime/egress/members.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/log.h"
#include "pool/egress/channel.h"

struct wp_egress_members {
    struct event_base *base;
    struct wp_egress *egress;
    struct event *event;
};

/* The descriptor that came along; -1: none. */
static int
descriptor_of(struct msghdr *msg)
{
    int fd = -1;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL;
         c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            memcpy(&fd, CMSG_DATA(c), sizeof fd);
        }
    }
    return fd;
}

/* Takes fd. */
static void
join(struct wp_egress_members *members, struct wp_str text, int fd)
{
    const char *end = text.len > 0 ? memchr(text.ptr, '\0', text.len) : NULL;
    struct wp_str name = {text.ptr,
                          end != NULL ? (size_t)(end - text.ptr) : text.len};
    struct wp_str policy = {text.ptr + name.len + 1,
                            end != NULL ? text.len - name.len - 1 : 0};
    int flags = fcntl(fd, F_GETFL);
    struct wp_err err;

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        wp_log_warn("egress of a sandbox without a socket",
                    wp_kv_slice("sandbox", name));
        return;
    }
    if (wp_egress_join(members->egress, name, policy, fd, &err) != WP_OK) {
        wp_log_error("no egress", wp_kv_slice("sandbox", name),
                     wp_kv_err(&err));
    }
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct wp_egress_members *members = arg;
    char text[WP_EGRESS_MESSAGE_MAX];
    char ancillary[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    struct iovec iov = {text, sizeof text};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = ancillary,
        .msg_controllen = sizeof ancillary,
    };
    ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    (void)what;
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        (void)event_base_loopbreak(members->base);
        return;
    }
    if (text[0] == WP_EGRESS_JOIN) {
        join(members, (struct wp_str){text + 1, (size_t)n - 1},
             descriptor_of(&msg));
    } else if (text[0] == WP_EGRESS_LEAVE) {
        wp_egress_leave(members->egress,
                        (struct wp_str){text + 1, (size_t)n - 1});
    }
}

struct wp_egress_members *
wp_egress_members_create(struct event_base *base, struct wp_egress *egress,
                         int fd)
{
    struct wp_egress_members *members = calloc(1, sizeof *members);

    if (members == NULL) {
        return NULL;
    }
    members->base = base;
    members->egress = egress;
    members->event =
        event_new(base, fd, EV_READ | EV_PERSIST, on_readable, members);
    if (members->event == NULL || event_add(members->event, NULL) != 0) {
        wp_egress_members_destroy(members);
        return NULL;
    }
    return members;
}

void
wp_egress_members_destroy(struct wp_egress_members *members)
{
    if (members == NULL) {
        return;
    }
    if (members->event != NULL) {
        event_free(members->event);
    }
    free(members);
}
