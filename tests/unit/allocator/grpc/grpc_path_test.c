/* tests/unit/allocator/grpc/grpc_path_test.c - a call that is answered at once
 * takes no memory and no lock of the listener.
 *
 * See tests/support/base/call_counts.h: it sees what our code asks for, and
 * nghttp2 asks our code (proto/h2/memory.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "tests/support/base/call_counts.h"
#include "tests/support/grpc/grpc_rig.h"

enum {
    WARM_UP = 300,
    CALLS = 2000,
};

static void
echo_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    assert_int_equal(len, 5);
    assert_memory_equal(request, "hello", 5);
    memcpy(call->ops->reserve(call, len), request, len);
    call->ops->finish(call, WP_OK, NULL, 0);
}

static const struct wp_method methods[] = {
    {"/test.Path/Echo", false, false, false, echo_start},
};
static const struct wp_service service = {"test.Path", methods, 1, NULL};

static void
call_once(struct wp_rpc_server *server, struct wp_h2_conn *conn,
          uint32_t stream)
{
    static const char message[] = "\0\0\0\0\5hello";
    const uint8_t window[] = {0, 0, 0, 5};
    uint8_t bytes[512];
    size_t len = wp_grpc_rig_head(bytes, stream, "/test.Path/Echo");

    len += wp_grpc_rig_frame(bytes + len, 0, 1, stream, message, 10);
    /* What an answer took of the connection's window. */
    len += wp_grpc_rig_frame(bytes + len, 8, 0, 0, window, sizeof(window));
    assert_true(wp_grpc_rig_feed(server, conn, bytes, len));
}

static void
test_echo_takes_nothing(void **state)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                  "\0\0\0\4\0\0\0\0\0";
    struct wp_rpc_server *server;
    struct wp_h2_conn *conn;
    struct wp_rpc_stats stats;

    (void)state;
    wp_call_counts_reset();
    server = wp_grpc_rig_create(&service);
    assert_true(wp_call_counts_allocations() > 0); /* The counter counts. */
    conn = wp_grpc_rig_connect(server);
    assert_true(wp_grpc_rig_feed(server, conn, (const uint8_t *)preface,
                                 sizeof(preface) - 1));
    for (uint32_t i = 0; i < WARM_UP; i++) {
        call_once(server, conn, 1 + 2 * i);
    }
    wp_call_counts_reset();
    for (uint32_t i = WARM_UP; i < WARM_UP + CALLS; i++) {
        call_once(server, conn, 1 + 2 * i);
    }
    assert_int_equal(wp_call_counts_allocations(), 0);
    assert_int_equal(wp_call_counts_locks(), 0);
    wp_rpc_server_stats(server, &stats);
    assert_int_equal(stats.calls_started, WARM_UP + CALLS);
    assert_int_equal(stats.calls_in_flight, 0);
    wp_grpc_rig_close(server, conn);
    wp_rpc_server_stop(server);
}

/* Goal: what one call has left half sent is no part of the next one, which has
 * its place. */
static void
test_half_a_prefix_ends_with_its_call(void **state)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                  "\0\0\0\4\0\0\0\0\0";
    static const uint8_t cancel[] = {0, 0, 0, 8};
    struct wp_rpc_server *server = wp_grpc_rig_create(&service);
    struct wp_h2_conn *conn = wp_grpc_rig_connect(server);
    struct wp_rpc_stats stats;
    uint8_t bytes[512];

    (void)state;
    assert_true(wp_grpc_rig_feed(server, conn, (const uint8_t *)preface,
                                 sizeof(preface) - 1));
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t stream = 1 + 4 * i;
        size_t len = wp_grpc_rig_head(bytes, stream, "/test.Path/Echo");

        len +=
            wp_grpc_rig_frame(bytes + len, 0, 0, stream, "\0\0\0\0", 1 + i % 4);
        len +=
            wp_grpc_rig_frame(bytes + len, 3, 0, stream, cancel, sizeof cancel);
        assert_true(wp_grpc_rig_feed(server, conn, bytes, len));
        call_once(server, conn, stream + 2);
        wp_rpc_server_stats(server, &stats);
        assert_int_equal(stats.calls_started, i + 1);
        assert_int_equal(stats.calls_in_flight, 0);
    }
    wp_grpc_rig_close(server, conn);
    wp_rpc_server_stop(server);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo_takes_nothing),
        cmocka_unit_test(test_half_a_prefix_ends_with_its_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
