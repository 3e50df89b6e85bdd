/* The HTTP server: its own pages, the bounds of connections, its sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/address.h"
#include "pool/base/clock.h"
#include "tests/support/http/http_server_rig.h"

/* --- Own pages --- */

static void
test_pages(void **state)
{
    (void)state;
    rig_start();
    assert_begins(rig_ask(rig.unix_listen,
                          "GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n"),
                  "HTTP/1.1 200 OK\r\n");
    assert_has(rig.answer, "\r\n\r\nhello\n");
    (void)rig_ask(rig_tcp(),
                  "HEAD /hello HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_has(rig.answer, "Content-Length: 6\r\n");
    assert_lacks(rig.answer, "hello\n");
    assert_begins(rig_ask(rig_tcp(), "PUT /hello HTTP/1.1\r\n\r\n"),
                  "HTTP/1.1 405 ");
    assert_has(rig.answer, "Allow: GET, HEAD\r\n");
    assert_begins(rig_ask(rig_tcp(), "GET /nope HTTP/1.1\r\n\r\n"),
                  "HTTP/1.1 404 ");
    assert_has(rig.answer, "{\"error\":\"");
    assert_begins(rig_ask(rig_tcp(), "garbage\r\n\r\n"), "HTTP/1.1 400 ");
    assert_begins(rig_ask(rig_tcp(), "GET /metrics HTTP/1.0\r\n\r\n"),
                  "HTTP/1.1 200 ");
}

/* Requests sent in one go are answered in order on one connection. */
static void
test_pipelining(void **state)
{
    const char *at;
    int n = 0;

    (void)state;
    rig_start();
    (void)rig_ask(rig.unix_listen,
                  "GET /hello HTTP/1.1\r\n\r\n\r\nGET /hello HTTP/1.1\r\n\r\n"
                  "GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n");
    for (at = rig.answer; (at = strstr(at, "hello\n")) != NULL; at++) {
        n++;
    }
    assert_int_equal(n, 3);
}

/* --- Connections --- */

static void
test_long_head_is_refused(void **state)
{
    static char head[20000];

    (void)state;
    rig_start();
    memset(head, 'a', sizeof head);
    memcpy(head, "GET /", 5);
    head[sizeof head - 1] = '\0';
    assert_begins(rig_ask(rig_tcp(), head), "HTTP/1.1 431 ");
}

static void
test_slow_head_is_dropped(void **state)
{
    (void)state;
    rig.config.head_timeout_ns = 50 * WP_NS_PER_MS;
    rig.config.idle_timeout_ns = 50 * WP_NS_PER_MS;
    rig_start();
    assert_begins(rig_ask(rig_tcp(), "GET / HT"), "HTTP/1.1 408 ");
    assert_begins(rig_ask(rig_tcp(), ""), "HTTP/1.1 408 ");
    /* Between requests it is closed without a word. */
    assert_begins(rig_ask(rig_tcp(), "GET /hello HTTP/1.1\r\n\r\n"),
                  "HTTP/1.1 200 ");
    assert_lacks(rig.answer, "408");
}

static void
test_connections_are_bounded(void **state)
{
    int held[2];

    (void)state;
    rig.config.connections_max = 2;
    rig_start();
    for (int i = 0; i < 2; i++) {
        held[i] = rig_dial(rig.unix_listen);
        rig_send_text(held[i], "GET /hello HTTP/1.1\r\n\r\n");
        (void)rig_read_until(held[i], "hello\n", rig.answer, sizeof rig.answer);
    }
    assert_begins(rig_ask(rig.unix_listen, ""), "HTTP/1.1 503 ");
    (void)close(held[0]);
    (void)close(held[1]);
    assert_int_equal(rig_stats().connections_refused, 1);
}

/* --- Listening --- */

static void
test_listen_refusals(void **state)
{
    struct wp_err err;
    struct wp_gateway *second;
    char path[128];

    (void)state;
    rig_start();
    second = wp_gateway_create(&rig.config, &err);
    assert_null(second);
    assert_has(err.msg, "another process answers on");
    rig.listen[0] = "0.0.0.0:0";
    assert_null(wp_gateway_create(&rig.config, &err));
    assert_has(err.msg, "loopback only");
    (void)snprintf(path, sizeof path, "unix:%s", rig.dir);
    rig.listen[0] = path;
    assert_null(wp_gateway_create(&rig.config, &err));
    assert_has(err.msg, "is not a socket");
    rig.listen[0] = "unix:/nonexistent/x";
    assert_null(wp_gateway_create(&rig.config, &err));
    assert_has(err.msg, "cannot listen on unix:/nonexistent/x");
}

/* Pages for a cluster's probes and scrapers. */
static void
test_listen_anywhere(void **state)
{
    (void)state;
    rig.listen[1] = "0.0.0.0:0";
    rig.config.anywhere = true;
    rig_start();
    assert_has(wp_gateway_address(rig.server, 1), "0.0.0.0:");
}

/* The socket of a daemon that was killed is taken over. */
static void
test_stale_socket(void **state)
{
    struct wp_address address;
    struct wp_err err;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)state;
    assert_int_equal(
        wp_address_parse(wp_str_from(rig.unix_listen), &address, &err), WP_OK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address.sa, address.len), 0);
    (void)close(fd);
    rig_start();
    assert_begins(rig_ask(rig.unix_listen, "GET /hello HTTP/1.0\r\n\r\n"),
                  "HTTP/1.1 200 ");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_pages),
        RIG_TEST(test_pipelining),
        RIG_TEST(test_long_head_is_refused),
        RIG_TEST(test_slow_head_is_dropped),
        RIG_TEST(test_connections_are_bounded),
        RIG_TEST(test_listen_refusals),
        RIG_TEST(test_listen_anywhere),
        RIG_TEST(test_stale_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
