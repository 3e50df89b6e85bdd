#include "allocator/daemon/leave.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "pool/base/log.h"

/* For a service manager that is busy; one that does not read holds nobody up
 * for longer. */
#define NOTIFY_US 200000

void
wp_daemon_notify(const char *state)
{
    /* Read once more at stop: nothing here changes the environment. */
    const char *path = getenv("NOTIFY_SOCKET"); /* NOLINT(concurrency*) */
    const struct timeval patience = {0, NOTIFY_US};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    size_t len;
    int fd;

    if (path == NULL) {
        return;
    }
    len = strlen(path);
    if (len == 0 || len >= sizeof un.sun_path) {
        return;
    }
    memcpy(un.sun_path, path, len);
    if (un.sun_path[0] == '@') {
        un.sun_path[0] = '\0'; /* An abstract name. */
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) !=
            0 ||
        sendto(fd, state, strlen(state), MSG_NOSIGNAL,
               (const struct sockaddr *)&un,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0) {
        wp_log_warn("the service manager could not be notified",
                    wp_kv_str("state", state), wp_kv_int("errno", errno));
    }
    (void)close(fd);
}
