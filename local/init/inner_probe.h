/* local/init/inner_probe.h - does the sandboxed program answer on its port?
 *
 * Runs in warmpool-init, beside the program, so that a new sandbox is noticed
 * within about a millisecond of its first answer. One probe at a time. */
#ifndef WP_LOCAL_INIT_INNER_PROBE_H
#define WP_LOCAL_INIT_INNER_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "local/http_probe.h"
#include "local/watch.h"

struct wp_inner_probe {
    struct wp_watch watch;
    int epoll_fd; /* Borrowed. */
    int fd;       /* -1: no probe runs. */
    uint16_t port;
    const char *path; /* NULL: a connection is answer enough. Borrowed. */
    bool sent;
    bool v6; /* This try, and the next when it fails, use ::1. */
    char reply[WP_HTTP_STATUS_LINE];
    uint32_t reply_len;
    /* Called once for each start, perhaps from within it. */
    void (*done)(struct wp_inner_probe *probe, bool answered);
};

void wp_inner_probe_init(struct wp_inner_probe *probe, int epoll_fd,
                         uint16_t port, const char *path);
/* Must not be running. */
void wp_inner_probe_start(struct wp_inner_probe *probe);
/* Ends a running probe as not answered. */
void wp_inner_probe_give_up(struct wp_inner_probe *probe);

static inline bool
wp_inner_probe_running(const struct wp_inner_probe *probe)
{
    return probe->fd >= 0;
}

#endif
