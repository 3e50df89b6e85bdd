/* tests/unit/local/init/parts.h - a warmpool-init of which a test calls the
 * parts. */
#ifndef WP_TESTS_UNIT_LOCAL_INIT_PARTS_H
#define WP_TESTS_UNIT_LOCAL_INIT_PARTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/epoll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "local/init/init_impl.h"

/* The only one; daemon: what it tells is read there, without a wait. */
static inline struct wp_init *
make_init(int *daemon)
{
    static struct wp_init init;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX,
                                SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
                                0, pair),
                     0);
    *daemon = pair[0];
    init = (struct wp_init){
        .control_fd = pair[1],
        .egress_fd = -1,
        .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
        .retry_us = 1000,
        .wake_us = INT64_MAX,
        .probe = {.fd = -1, .done = wp_init_probe_done},
    };
    assert_true(init.epoll_fd >= 0);
    return &init;
}

static inline void
end_init(struct wp_init *init, int daemon)
{
    (void)close(init->epoll_fd);
    (void)close(init->control_fd);
    (void)close(daemon);
}

/* text NULL: nothing. */
static inline void
expect_told(int daemon, const char *text)
{
    char message[WP_CONTROL_MAX + 2];
    ssize_t n = recv(daemon, message, WP_CONTROL_MAX + 1, 0);

    if (text == NULL) {
        assert_int_equal(n, -1);
        return;
    }
    assert_true(n > 0);
    message[n] = '\0';
    assert_string_equal(message, text);
    assert_int_equal(n, strlen(text));
}

#endif
