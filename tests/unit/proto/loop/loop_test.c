/* What a base leaves behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/loop/loop.h"

static void
on_read(struct bufferevent *bev, void *ctx)
{
    (void)bev;
    (*(int *)ctx)++;
}

/* A bufferevent that is freed while a callback of its own is deferred is gone
 * with the base, and its socket with it; its owner is not called any more. */
static void
test_deferred_callbacks_keep_nothing(void **state)
{
    struct event_base *base = wp_loop_base_create();
    struct bufferevent *bev;
    int called = 0;
    int fds[2];
    char byte;

    (void)state;
    assert_non_null(base);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds),
                     0);
    bev = bufferevent_socket_new(base, fds[0], BEV_OPT_CLOSE_ON_FREE);
    assert_non_null(bev);
    bufferevent_setcb(bev, on_read, NULL, NULL, &called);
    bufferevent_trigger(bev, EV_READ,
                        BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
    bufferevent_free(bev);
    wp_loop_base_destroy(base);
    assert_int_equal(read(fds[1], &byte, 1), 0);
    assert_int_equal(called, 0);
    (void)close(fds[1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deferred_callbacks_keep_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
