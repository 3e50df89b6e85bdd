#include "local/init/init_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/sockets/passing.h"

void
wp_init_tell(const struct wp_init *init, char what, const char *text)
{
    char msg[WP_CONTROL_MAX];
    int n = snprintf(msg, sizeof msg, "%c%s", what, text);

    if (n > 0) {
        size_t len = (size_t)n < sizeof msg ? (size_t)n : sizeof msg - 1;

        (void)send(init->control_fd, msg, len, MSG_NOSIGNAL);
    }
}

void
wp_init_tell_fd(const struct wp_init *init, char what, const char *text, int fd)
{
    char message[WP_CONTROL_MAX];
    int n = snprintf(message, sizeof message, "%c%s", what, text);

    if (n > 0 && (size_t)n < sizeof message) {
        (void)wp_passing_send(init->control_fd, message, (size_t)n, fd,
                              MSG_NOSIGNAL);
    }
}

WP_NORETURN void
wp_init_fail(const struct wp_init *init, const char *what)
{
    char text[WP_CONTROL_MAX];

    (void)snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
    wp_init_tell(init, WP_CONTROL_FAIL, text);
    _exit(1);
}
