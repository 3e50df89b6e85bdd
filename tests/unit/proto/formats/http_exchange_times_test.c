/* Which time each step of an exchange is given, on both sides, and when that
 * begins anew: compared whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "tests/support/base/journal.h"
#include "tests/support/http/exchange_rig.h"

void __wrap_wp_http_set_deadline(struct wp_http_req *req, int64_t in_ns);
void __real_wp_http_set_deadline(struct wp_http_req *req, int64_t in_ns);
int __wrap_bufferevent_set_timeouts(struct bufferevent *bev,
                                    const struct timeval *read_tv,
                                    const struct timeval *write_tv);
int __real_bufferevent_set_timeouts(struct bufferevent *bev,
                                    const struct timeval *read_tv,
                                    const struct timeval *write_tv);
int __wrap_bufferevent_socket_connect(struct bufferevent *bev,
                                      const struct sockaddr *address, int len);
int __real_bufferevent_socket_connect(struct bufferevent *bev,
                                      const struct sockaddr *address, int len);
void __wrap_bufferevent_free(struct bufferevent *bev);
void __real_bufferevent_free(struct bufferevent *bev);

static int connects_fail; /* So many. */

void
__wrap_wp_http_set_deadline(struct wp_http_req *req, int64_t in_ns)
{
    journal(" deadline(%lld)", (long long)(in_ns / WP_NS_PER_S));
    __real_wp_http_set_deadline(req, in_ns);
}

static const char *
name_of(const struct bufferevent *bev)
{
    return bev == exchange.upstream ? "server" : "client";
}

int
__wrap_bufferevent_set_timeouts(struct bufferevent *bev,
                                const struct timeval *read_tv,
                                const struct timeval *write_tv)
{
    journal(" %s(%ld,%ld)", name_of(bev),
            read_tv != NULL ? (long)read_tv->tv_sec : -1,
            write_tv != NULL ? (long)write_tv->tv_sec : -1);
    return __real_bufferevent_set_timeouts(bev, read_tv, write_tv);
}

int
__wrap_bufferevent_socket_connect(struct bufferevent *bev,
                                  const struct sockaddr *address, int len)
{
    journal(" connect");
    if (connects_fail > 0) {
        connects_fail--;
        return -1;
    }
    return __real_bufferevent_socket_connect(bev, address, len);
}

void
__wrap_bufferevent_free(struct bufferevent *bev)
{
    journal(" free(%s)", name_of(bev));
    __real_bufferevent_free(bev);
}

static void
step(const char *what)
{
    journal(" sent %zu received %zu failed %llu gone %u: %s", exchange.sent,
            exchange.received, (unsigned long long)exchange.failed,
            exchange.gone, what);
    journal_line();
}

static void
client(const char *text)
{
    exchange_say(&exchange.client, text);
    step(text);
}

static void
server(const char *text)
{
    exchange_say(&exchange.server, text);
    step(text);
}

static void
dial(void)
{
    exchange.upstream = NULL;
    exchange_dial();
    step("dial");
}

static int
set_up(void **state)
{
    int rc = exchange_set_up(state);

    exchange.config.idle_timeout_ns = 1001 * WP_NS_PER_S;
    exchange.config.answer_timeout_ns = 1002 * WP_NS_PER_S;
    exchange.config.connect_timeout_ns = 1003 * WP_NS_PER_S;
    exchange.config.silence_timeout_ns = 1004 * WP_NS_PER_S;
    connects_fail = 0;
    journal_drop();
    return rc;
}

static void
test_each_step_has_its_time(void **state)
{
    (void)state;
    dial();
    client("PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\na");
    client("b");
    client("c");
    server("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
    server("a");
    server("bc");
    exchange_leave(&exchange.client);
    exchange_leave(&exchange.server);
    step("leave");
    /* The answer has begun before the request was sent. */
    dial();
    client("PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
    server("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
    client("1\r\nb\r\n0\r\n\r\n");
    server("0\r\n\r\n");
    exchange_leave(&exchange.client);
    journal_compare(WP_TEST_GOLDEN "/exchange_times.txt");
}

static void
test_a_tunnel_may_be_silent_for_so_long(void **state)
{
    (void)state;
    dial();
    client("CONNECT h:1 HTTP/1.1\r\n\r\nearly");
    client("up");
    server("down");
    assert_int_equal(shutdown(exchange.client.fd, SHUT_WR), 0);
    exchange_settle();
    step("half");
    server("last");
    exchange_leave(&exchange.server);
    exchange_settle();
    step("end");
    exchange.config.silence_timeout_ns = 0;
    exchange.config.connect_timeout_ns = 0;
    dial();
    client("CONNECT h:1 HTTP/1.1\r\n\r\n");
    client("up");
    journal_compare(WP_TEST_GOLDEN "/exchange_tunnel_times.txt");
}

/* True: it was tried anew, whatever came of that. */
static bool
try_anew(struct wp_http_exchange *x)
{
    journal(" unreached");
    if (exchange.unreached++ >= exchange.unreached_tries) {
        return false;
    }
    exchange.upstream =
        bufferevent_socket_new(exchange.base, -1, BEV_OPT_CLOSE_ON_FREE);
    (void)wp_http_exchange_connect(x, exchange.upstream,
                                   (const struct sockaddr *)&exchange.at,
                                   (int)exchange.at_len);
    return true;
}

/* One that fails at once is tried anew as one that fails later. */
static void
test_a_connection_that_fails_at_once_is_tried_anew(void **state)
{
    (void)state;
    for (uint32_t tries = 0; tries < 3; tries++) {
        exchange.ops.unreached = try_anew;
        exchange.unreached_tries = tries;
        connects_fail = 2;
        dial();
        client(EXCHANGE_GET);
        journal("%s", exchange.client.text);
        journal_line();
        exchange_leave(&exchange.client);
        exchange_settle();
        step("end");
    }
    exchange.ops.unreached = NULL;
    connects_fail = 1;
    dial();
    client(EXCHANGE_GET);
    journal("%s", exchange.client.text);
    journal_line();
    journal_compare(WP_TEST_GOLDEN "/exchange_again.txt");
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, set_up, exchange_tear_down)

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(test_each_step_has_its_time),
        TEST(test_a_tunnel_may_be_silent_for_so_long),
        TEST(test_a_connection_that_fails_at_once_is_tried_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
