#include "runtime/egress/members.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/log.h"
#include "pool/egress/channel.h"
#include "proto/sockets/passing.h"

struct wp_egress_members {
    struct event_base *base;
    struct wp_egress *egress;
    struct event *event;
    int fd;
};

/* What is before the next NUL of *text, which is moved behind that. */
static struct wp_str
next_text(struct wp_str *text)
{
    const char *end = text->len > 0 ? memchr(text->ptr, '\0', text->len) : NULL;
    struct wp_str part = {text->ptr,
                          end != NULL ? (size_t)(end - text->ptr) : text->len};
    size_t used = part.len + (end != NULL ? 1 : 0);

    text->ptr += used;
    text->len -= used;
    return part;
}

/* Where the channel is full the daemon does not read, and gives the claim up
 * that waits for this. */
static void
answer(const struct wp_egress_members *members, char what, struct wp_str name)
{
    struct iovec parts[] = {{&what, 1},
                            {(void *)(uintptr_t)name.ptr, name.len}};
    const struct msghdr msg = {.msg_iov = parts, .msg_iovlen = 2};

    (void)sendmsg(members->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Takes fd. */
static void
join(const struct wp_egress_members *members, struct wp_str text, int fd)
{
    struct wp_str name = next_text(&text);
    struct wp_str policy = next_text(&text);
    struct wp_str by = text;
    int flags = fcntl(fd, F_GETFL);
    bool joined = false;
    struct wp_err err;

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        wp_log_warn("egress of a sandbox without a socket",
                    wp_kv_slice("sandbox", name));
        wp_egress_leave(members->egress, name);
    } else {
        joined = wp_egress_join(members->egress, name, policy, by, fd, &err) ==
                 WP_OK;
        if (!joined) {
            wp_log_error("no egress", wp_kv_slice("sandbox", name),
                         wp_kv_err(&err));
        }
    }
    if (by.len > 0) {
        answer(members, joined ? WP_EGRESS_NARROWED : WP_EGRESS_REFUSED, name);
    }
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct wp_egress_members *members = arg;
    char text[WP_EGRESS_MESSAGE_MAX];
    int passed;
    ssize_t n = wp_passing_receive(fd, text, sizeof text, &passed);

    (void)what;
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        (void)event_base_loopbreak(members->base);
        return;
    }
    if (text[0] == WP_EGRESS_JOIN) {
        join(members, (struct wp_str){text + 1, (size_t)n - 1}, passed);
        return;
    }
    if (passed >= 0) {
        (void)close(passed);
    }
    if (text[0] == WP_EGRESS_LEAVE) {
        wp_egress_leave(members->egress,
                        (struct wp_str){text + 1, (size_t)n - 1});
    } else {
        wp_log_warn("a word of the daemon's that is not known");
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
    members->fd = fd;
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
