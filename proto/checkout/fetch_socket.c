#include "proto/checkout/fetch_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/checkout/fetch_message.h"
#include "proto/sockets/passing.h"

/* A connection; -1 with errno. */
static int
open_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd;
    int error;

    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
        return fd;
    }
    error = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    errno = error;
    return -1;
}

static bool
ask(int fd, const struct wp_fetch_run *run)
{
    char message[WP_FETCH_MESSAGE_MAX];
    size_t len = wp_fetch_message_write(run, message);
    int pipe = wp_fetch_credential_pipe(run->credential);
    int error;
    bool ok;

    if (pipe < 0) {
        return false;
    }
    ok = wp_passing_send(fd, message, len, pipe, MSG_NOSIGNAL) == (ssize_t)len;
    error = errno;
    (void)close(pipe);
    errno = error;
    return ok;
}

static enum wp_status
start(void *self, const struct wp_fetch_run *run, struct wp_fetch_started *out,
      struct wp_err *err)
{
    const char *path = self;
    int fd = open_to(path);

    *out = (struct wp_fetch_started){-1, -1};
    if (fd >= 0 && ask(fd, run)) {
        int end_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);

        if (end_fd >= 0) {
            *out = (struct wp_fetch_started){fd, end_fd};
            return WP_OK;
        }
    }
    (void)wp_err_sys(err, WP_UNAVAILABLE, errno, "warmpool-fetch at %s", path);
    if (fd >= 0) {
        (void)close(fd);
    }
    return WP_UNAVAILABLE;
}

/* The report is there, or the connection has ended. */
static bool
has_ended(void *self, int end_fd)
{
    (void)self;
    (void)end_fd;
    return true;
}

static void
kill_it(void *self, int end_fd)
{
    (void)self;
    (void)shutdown(end_fd, SHUT_RDWR);
}

struct wp_fetch_runner
wp_fetch_socket_runner(const char *path)
{
    union {
        const char *text;
        void *self;
    } borrowed = {.text = path};

    return (struct wp_fetch_runner){
        .start = start,
        .has_ended = has_ended,
        .kill = kill_it,
        .self = borrowed.self,
    };
}
