#include "local/init/egress.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* The sockets are of the sandbox's network, whoever has accepted them. A line:
 * number: LOCAL_ADDRESS:PORT REMOTE:PORT STATE ..., in hexadecimal. */
bool
wp_init_egress_in_use(uint16_t port)
{
    enum {
        ESTABLISHED = 1,
    };
    FILE *file = fopen("/proc/self/net/tcp", "re");
    char line[256];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        unsigned local;
        unsigned state;

        /* NOLINTNEXTLINE(cert-err34-c): the kernel wrote it. */
        found = sscanf(line, "%*u: %*x:%x %*x:%*x %x", &local, &state) == 2 &&
                local == port && state == ESTABLISHED;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}
