/* Any bytes from a sandbox whose policy allows nothing: each request is refused,
 * none is connected for, and the connection ends. The first byte says in which
 * pieces they come. */
#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "pool/base/log.h"
#include "runtime/egress/egress.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    SENT_MAX = 8192,
    GOT_MAX = 1 << 20,
    IDLE_ROUNDS = 64,
};

static struct event_base *base;
static struct wp_egress *egress;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_len = sizeof address;
static char got[GOT_MAX];

static void
check(bool truth)
{
    if (!truth) {
        abort();
    }
}

static void
start(void)
{
    struct wp_egress_config config;
    struct wp_err err;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    (void)signal(SIGPIPE, SIG_IGN);
    wp_log_configure(WP_LOG_ERROR, WP_LOG_TEXT);
    base = event_base_new();
    wp_egress_config_init(&config);
    config.base = base;
    egress = wp_egress_create(&config);
    /* An address of nothing but its family: the kernel chooses a name. */
    check(egress != NULL && fd >= 0 &&
          bind(fd, (const struct sockaddr *)&address,
               sizeof address.sun_family) == 0 &&
          getsockname(fd, (struct sockaddr *)&address, &address_len) == 0 &&
          wp_egress_join(egress, WP_STR("a"), WP_STR("none"), WP_STR(""), fd,
                         &err) == WP_OK);
}

/* Reads what there is; true: it has ended. */
static bool
turn(int client, size_t *len, unsigned *idle)
{
    ssize_t n;

    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    n = recv(client, got + *len, sizeof got - *len, MSG_DONTWAIT);
    *len += n > 0 ? (size_t)n : 0;
    *idle = n > 0 ? 0 : *idle + 1;
    return n == 0 || (n < 0 && errno != EAGAIN);
}

/* Each answer refuses. */
static void
check_answers(size_t len)
{
    static const char start_of[] = "HTTP/1.1 ";
    const char *at = got;

    while ((at = memmem(at, (size_t)(got + len - at), start_of,
                        sizeof start_of - 1)) != NULL) {
        at += sizeof start_of - 1;
        if (got + len - at < 3) {
            return;
        }
        if (at[0] < '0' || at[0] > '9') {
            continue; /* A sentence that names the version. */
        }
        check(at[0] == '4' || memcmp(at, "100", 3) == 0);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t piece = size > 0 ? (size_t)data[0] + 1 : 1;
    size_t len = 0;
    unsigned idle = 0;
    bool ended = false;
    int client;

    if (size < 1 || size > SENT_MAX) {
        return 0;
    }
    if (base == NULL) {
        start();
    }
    client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(client >= 0 &&
          connect(client, (const struct sockaddr *)&address, address_len) == 0);
    for (size_t at = 1; at < size && !ended; at += piece) {
        size_t n = piece < size - at ? piece : size - at;

        (void)send(client, data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        ended = turn(client, &len, &idle);
    }
    (void)shutdown(client, SHUT_WR);
    for (idle = 0; !ended; ended = turn(client, &len, &idle)) {
        check(idle < IDLE_ROUNDS);
    }
    (void)close(client);
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    check_answers(len);
    return 0;
}
