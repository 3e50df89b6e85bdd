/* A server that greets drop by drop: each drop is in time, all of them together
 * are not. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "allocator/stores/redis/link/tls.h"
#include "pool/base/clock.h"

enum {
    DROPS_MAX = 6000, /* A minute. */
};

struct dripping {
    int fd;
    uint32_t drops;
};

/* The head of one record of a handshake, and of it a byte now and then. */
static void *
drip(void *ctx)
{
    static const uint8_t head[] = {0x16, 3, 3, 0x3f, 0xff, 2, 0, 0x3f, 0xfb};
    const struct timespec pause = {0, 10 * WP_NS_PER_MS};
    struct dripping *d = ctx;

    while (d->drops < DROPS_MAX) {
        uint8_t byte = d->drops < sizeof head ? head[d->drops] : 0;

        if (send(d->fd, &byte, 1, MSG_NOSIGNAL) != 1) {
            break;
        }
        d->drops++;
        (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

static void
test_a_greeting_drop_by_drop(void **state)
{
    const struct wp_redis_tls tls = {.ca = ""};
    struct wp_redis_session *session = NULL;
    struct dripping d = {.drops = 0};
    pthread_t thread;
    struct pollfd first = {.events = POLLIN};
    struct wp_err err;
    int fds[2];

    (void)state;
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
        0);
    d.fd = fds[1];
    assert_int_equal(pthread_create(&thread, NULL, drip, &d), 0);
    first.fd = fds[0];
    assert_int_equal(poll(&first, 1, DROPS_MAX * 10), 1);
    assert_int_equal(wp_redis_session_open(&tls, "redis.example", fds[0],
                                           300 * WP_NS_PER_MS, &session, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "no answer to the greeting in time"));
    (void)close(fds[0]);
    (void)pthread_join(thread, NULL);
    (void)close(fds[1]);
    /* Some thirty; a busy machine may take much longer, but not to the end. */
    assert_in_range(d.drops, 1, DROPS_MAX - 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_greeting_drop_by_drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
