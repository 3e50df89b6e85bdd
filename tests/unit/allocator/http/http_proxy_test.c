/* The way through the HTTP server to a sandbox: who may go it, what is handed
 * on of a head, and what becomes of an exchange that goes wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "tests/support/http/http_server_rig.h"

static void
script_echo_head(int fd)
{
    (void)rig_read_until(fd, "\r\n\r\n", rig.seen, sizeof rig.seen);
    rig_send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
                      "Connection: X-Secret, close\r\nX-Secret: 1\r\n"
                      "X-Kept: 2\r\n\r\nok");
}

static void
test_proxy_head(void **state)
{
    char request[1024];

    (void)state;
    rig_sandbox_start(script_echo_head);
    rig_start();
    (void)snprintf(request, sizeof request,
                   "GET /sandboxes/box-1/a?b=c HTTP/1.1\r\nHost: h\r\n"
                   "Authorization: Bearer %s\r\nTE: trailers\r\n"
                   "Connection: close, X-Hop\r\nX-Hop: 1\r\n"
                   "X-End: 2\r\n\r\n",
                   rig_lease_token());
    assert_begins(rig_ask(rig_tcp(), request), "HTTP/1.1 200 OK\r\n");
    assert_has(rig.answer, "X-Kept: 2\r\n");
    assert_lacks(rig.answer, "X-Secret");
    assert_has(rig.answer, "\r\n\r\nok");
    assert_begins(rig.seen, "GET /a?b=c HTTP/1.1\r\n");
    assert_has(rig.seen, "X-End: 2\r\n");
    assert_has(rig.seen, "Host: h\r\n");
    assert_has(rig.seen, "Connection: close\r\n");
    assert_lacks(rig.seen, "Authorization");
    assert_lacks(rig.seen, "X-Hop");
    assert_lacks(rig.seen, "TE:");
    /* By header, the path stays as it is; an unknown Authorization is the
     * sandbox's own matter. */
    (void)rig_ask(rig.unix_listen,
                  "GET /execute HTTP/1.1\r\nX-Sandbox-ID: box-1\r\n"
                  "X-Sandbox-Namespace: default\r\nX-Sandbox-Port: 8888\r\n"
                  "Authorization: Bearer for-the-sandbox\r\n"
                  "Connection: close\r\n\r\n");
    assert_begins(rig.answer, "HTTP/1.1 200 OK\r\n");
    assert_begins(rig.seen, "GET /execute HTTP/1.1\r\n");
    assert_has(rig.seen, "Authorization: Bearer for-the-sandbox\r\n");
    (void)rig_ask(rig.unix_listen, "GET /sandboxes/box-1?x HTTP/1.0\r\n\r\n");
    assert_begins(rig.seen, "GET /?x HTTP/1.0\r\n");
}

/* The sandbox is shown the daemon's token for it, and never what a client says
 * in that field. */
static void
test_sandbox_token(void **state)
{
    static const char ask[] = "GET /sandboxes/box-1/a HTTP/1.0\r\n"
                              "x-warmpool-token: forged\r\n\r\n";

    (void)state;
    rig_sandbox_start(script_echo_head);
    rig_start();
    assert_begins(rig_ask(rig.unix_listen, ask), "HTTP/1.1 200 ");
    assert_lacks(rig.seen, "forged");
    assert_lacks(rig.seen, "X-Warmpool-Token");
    rig.has_sandbox_tokens = true;
    assert_begins(rig_ask(rig.unix_listen, ask), "HTTP/1.1 200 ");
    assert_lacks(rig.seen, "forged");
    assert_has(rig.seen, "X-Warmpool-Token: token of default\r\n");
}

static void
test_proxy_refusals(void **state)
{
    (void)state;
    rig_start();
    assert_begins(rig_ask(rig_tcp(), "GET /sandboxes/box-1/ HTTP/1.1\r\n\r\n"),
                  "HTTP/1.1 401 ");
    assert_has(rig.answer, "WWW-Authenticate: Bearer\r\n");
    /* Without a token, names cannot be tried out. */
    assert_begins(rig_ask(rig_tcp(), "GET /sandboxes/none/ HTTP/1.1\r\n\r\n"),
                  "HTTP/1.1 401 ");
    assert_begins(rig_ask(rig_tcp(),
                          "GET /sandboxes/none/ HTTP/1.1\r\n"
                          "Authorization: Bearer " RIG_ADMIN "\r\n\r\n"),
                  "HTTP/1.1 404 ");
    assert_begins(rig_ask(rig_tcp(),
                          "GET /sandboxes/box-1/ HTTP/1.1\r\n"
                          "Authorization: Bearer " RIG_ADMIN "x\r\n\r\n"),
                  "HTTP/1.1 401 ");
    assert_begins(
        rig_ask(rig.unix_listen, "GET /sandboxes/none/ HTTP/1.1\r\n\r\n"),
        "HTTP/1.1 404 ");
    assert_begins(rig_ask(rig.unix_listen,
                          "GET / HTTP/1.1\r\nX-Sandbox-ID: box-1\r\n"
                          "X-Sandbox-Namespace: other\r\n\r\n"),
                  "HTTP/1.1 404 ");
    assert_begins(
        rig_ask(rig.unix_listen, "GET /sandboxes/gone/ HTTP/1.1\r\n\r\n"),
        "HTTP/1.1 502 ");
    rig.lost = true;
    assert_begins(
        rig_ask(rig.unix_listen, "GET /sandboxes/box-1/ HTTP/1.1\r\n\r\n"),
        "HTTP/1.1 502 ");
    assert_has(rig.answer, "lost");
    assert_int_equal(rig_stats().upstream_failed_total, 2);
}

/* Somebody else's lease opens nothing; nor does a lease a page. */
static void
test_token_rules(void **state)
{
    char request[512];

    (void)state;
    rig.config.token_rule = WP_HTTP_TOKEN_ALWAYS;
    rig_start();
    assert_begins(
        rig_ask(rig.unix_listen, "GET /sandboxes/box-1/ HTTP/1.1\r\n\r\n"),
        "HTTP/1.1 401 ");
    assert_begins(rig_ask(rig_tcp(), "GET /metrics HTTP/1.1\r\n\r\n"),
                  "HTTP/1.1 401 ");
    (void)snprintf(request, sizeof request,
                   "GET /metrics HTTP/1.1\r\nAuthorization: Bearer %s"
                   "\r\n\r\n",
                   rig_lease_token());
    assert_begins(rig_ask(rig_tcp(), request), "HTTP/1.1 401 ");
    (void)snprintf(request, sizeof request,
                   "GET /sandboxes/gone/ HTTP/1.1\r\n"
                   "Authorization: Bearer %s\r\n\r\n",
                   rig_lease_token());
    assert_begins(rig_ask(rig_tcp(), request), "HTTP/1.1 401 ");
    assert_begins(rig_ask(rig_tcp(),
                          "GET /metrics HTTP/1.1\r\nConnection: close\r\n"
                          "Authorization: Bearer " RIG_ADMIN "\r\n\r\n"),
                  "HTTP/1.1 200 ");
    assert_begins(rig_ask(rig_tcp(), "GET /hello HTTP/1.0\r\n\r\n"),
                  "HTTP/1.1 200 ");
}

static void
script_keep(int fd)
{
    (void)rig_read_until(fd, "\r\n\r\n", rig.seen, sizeof rig.seen);
    rig_send_text(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "3\r\none\r\n0\r\n\r\n");
}

/* Several exchanges on one client connection, each with a connection of its own
 * to the sandbox. */
static void
test_keep_alive(void **state)
{
    int fd;

    (void)state;
    rig_sandbox_start(script_keep);
    rig_start();
    fd = rig_dial(rig.unix_listen);
    for (int i = 0; i < 3; i++) {
        rig_send_text(fd, "GET /sandboxes/box-1/ HTTP/1.1\r\n\r\n");
        (void)rig_read_until(fd, "0\r\n\r\n", rig.answer, sizeof rig.answer);
        assert_begins(rig.answer, "HTTP/1.1 200 OK\r\n");
        assert_lacks(rig.answer, "Connection: close");
    }
    (void)close(fd);
    assert_int_equal(rig_stats().proxied_total, 3);
    assert_int_equal(rig_stats().connections_total, 1);
}

/* --- Answers without a body --- */

static const char *_Atomic bodiless_head;

/* Announces a body where there can be none, and sends it: another answer. */
static void
script_bodiless(int fd)
{
    (void)rig_read_until(fd, "\r\n\r\n", rig.seen, sizeof rig.seen);
    rig_send_text(fd, bodiless_head);
    rig_send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged");
}

/* What a sandbox says behind such an answer is no part of any other. */
static void
assert_next_is_own(const char *method, const char *head, const char *lacks)
{
    char request[256];
    int fd = rig_dial(rig.unix_listen);

    bodiless_head = head;
    (void)snprintf(request, sizeof request,
                   "%s /sandboxes/box-1/ HTTP/1.1\r\n\r\n"
                   "GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n",
                   method);
    rig_send_text(fd, request);
    (void)rig_read_until(fd, NULL, rig.answer, sizeof rig.answer);
    (void)close(fd);
    assert_memory_equal(rig.answer, head, strlen("HTTP/1.1 200"));
    assert_has(rig.answer, "\r\n\r\nHTTP/1.1 200 OK\r\n");
    assert_has(rig.answer, "\r\n\r\nhello\n");
    assert_lacks(rig.answer, "forged");
    assert_lacks(rig.answer, lacks);
}

static void
test_answers_without_a_body(void **state)
{
    (void)state;
    rig_sandbox_start(script_bodiless);
    rig_start();
    assert_next_is_own(
        "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 44\r\n\r\n", "44");
    assert_next_is_own(
        "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 44\r\n\r\n", "44");
    assert_next_is_own(
        "GET", "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n", "chunked");
    assert_next_is_own(
        "GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
        "chunked");
    assert_next_is_own("HEAD",
                       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                       "chunked");
    assert_next_is_own("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 44\r\n\r\n",
                       "chunked");
    assert_has(rig.answer, "Content-Length: 44\r\n");
}

/* --- Exchanges that go wrong --- */

static void
script_no_upgrade(int fd)
{
    (void)rig_read_until(fd, "\r\n\r\n", rig.seen, sizeof rig.seen);
    rig_send_text(fd, "HTTP/1.1 101 Switching Protocols\r\n\r\n");
}

static void
script_silent(int fd)
{
    (void)rig_read_until(fd, NULL, rig.seen, sizeof rig.seen);
}

static void
script_interim(int fd)
{
    (void)rig_read_until(fd, "\r\n\r\n", rig.seen, sizeof rig.seen);
    for (int i = 0; i < 100; i++) {
        rig_send_text(fd, "HTTP/1.1 102 Processing\r\n\r\n");
    }
    (void)rig_read_until(fd, NULL, rig.seen, sizeof rig.seen);
}

/* As many as are passed on, and then the answer. */
static void
script_interim_most(int fd)
{
    (void)rig_read_until(fd, "\r\n\r\n", rig.seen, sizeof rig.seen);
    for (int i = 0; i < 16; i++) {
        rig_send_text(fd, "HTTP/1.1 102 Processing\r\n\r\n");
    }
    rig_send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

static void
script_nonsense(int fd)
{
    (void)rig_read_until(fd, "\r\n\r\n", rig.seen, sizeof rig.seen);
    rig_send_text(fd, "220 mail.example ESMTP\r\n\r\n");
}

static void
script_close(int fd)
{
    (void)rig_read_until(fd, "\r\n\r\n", rig.seen, sizeof rig.seen);
}

static void
script_cut(int fd)
{
    (void)rig_read_until(fd, "\r\n\r\n", rig.seen, sizeof rig.seen);
    rig_send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
}

static void
assert_upstream_fault(rig_script_fn script, const char *start)
{
    rig.script = script;
    (void)rig_ask(rig.unix_listen, "GET /sandboxes/box-1/ HTTP/1.1\r\n"
                                   "Connection: close\r\n\r\n");
    assert_begins(rig.answer, start);
}

/* None of them is a matter of time, which this sandbox may need. */
static void
test_upstream_faults(void **state)
{
    (void)state;
    rig_sandbox_start(script_close);
    rig_start();
    assert_upstream_fault(script_close, "HTTP/1.1 502 ");
    assert_upstream_fault(script_nonsense, "HTTP/1.1 502 ");
    assert_upstream_fault(script_no_upgrade, "HTTP/1.1 502 ");
    assert_upstream_fault(script_interim, "HTTP/1.1 102 ");
    assert_has(rig.answer, "HTTP/1.1 502 ");
    assert_upstream_fault(script_interim_most, "HTTP/1.1 102 ");
    assert_has(rig.answer, "HTTP/1.1 200 OK\r\n");
    /* A cut answer must not look whole: the connection ends early. */
    assert_upstream_fault(script_cut, "HTTP/1.1 200 OK\r\n");
    assert_has(rig.answer, "Content-Length: 10\r\n");
    assert_has(rig.answer, "\r\n\r\nabc");
    assert_int_equal(rig_stats().upstream_failed_total, 5);
}

static void
assert_times_out(int64_t upstream_timeout_ns, const char *request)
{
    rig.config.upstream_timeout_ns = upstream_timeout_ns;
    rig_sandbox_start(script_silent);
    rig_start();
    assert_begins(rig_ask(rig.unix_listen, request), "HTTP/1.1 504 ");
    assert_int_equal(rig_stats().upstream_failed_total, 1);
}

/* The client may wait for less long than the daemon would, not for longer. */
static void
test_timeout_of_the_client(void **state)
{
    (void)state;
    assert_times_out(3600 * WP_NS_PER_S, "GET /sandboxes/box-1/ HTTP/1.1\r\n"
                                         "X-Sandbox-Timeout: 1\r\n"
                                         "Connection: close\r\n\r\n");
}

static void
test_longer_timeout_of_the_client(void **state)
{
    (void)state;
    assert_times_out(100 * WP_NS_PER_MS, "GET /sandboxes/box-1/ HTTP/1.1\r\n"
                                         "X-Sandbox-Timeout: 3600\r\n"
                                         "Connection: close\r\n\r\n");
}

static void
test_no_timeout_of_the_client(void **state)
{
    (void)state;
    assert_times_out(100 * WP_NS_PER_MS, "GET /sandboxes/box-1/ HTTP/1.1\r\n"
                                         "Connection: close\r\n\r\n");
}

static _Atomic(bool) abandoned;

static void
script_abandoned(int fd)
{
    char byte;

    (void)rig_read_until(fd, "\r\n\r\n", rig.seen, sizeof rig.seen);
    abandoned = recv(fd, &byte, 1, 0) == 0;
}

/* When the client goes, the sandbox is told, so that it can stop working. */
static void
test_client_goes(void **state)
{
    int fd;

    (void)state;
    abandoned = false;
    rig_sandbox_start(script_abandoned);
    rig_start();
    fd = rig_dial(rig.unix_listen);
    rig_send_text(fd, "GET /sandboxes/box-1/ HTTP/1.1\r\n\r\n");
    while (rig_stats().proxied_total == 0) {
        (void)usleep(1000);
    }
    (void)close(fd);
    for (int i = 0; i < RIG_PATIENCE_MS && !abandoned; i++) {
        (void)usleep(1000);
    }
    assert_true(abandoned);
}

/* Destroying the server with exchanges in flight frees everything (asan). */
static void
test_destroy_in_flight(void **state)
{
    int fds[8];

    (void)state;
    rig_sandbox_start(script_silent);
    rig_start();
    for (int i = 0; i < 8; i++) {
        fds[i] = rig_dial(rig.unix_listen);
        rig_send_text(fds[i], i % 2 == 0
                                  ? "GET /sandboxes/box-1/ HTTP/1.1\r\n\r\n"
                                  : "GET /sandboxes/bo");
    }
    while (rig_stats().connections < 8) {
        (void)usleep(1000);
    }
    wp_gateway_destroy(rig.server);
    rig.server = NULL;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(
            rig_read_until(fds[i], NULL, rig.answer, sizeof rig.answer), 0);
        (void)close(fds[i]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_proxy_head),
        RIG_TEST(test_sandbox_token),
        RIG_TEST(test_proxy_refusals),
        RIG_TEST(test_token_rules),
        RIG_TEST(test_keep_alive),
        RIG_TEST(test_answers_without_a_body),
        RIG_TEST(test_upstream_faults),
        RIG_TEST(test_client_goes),
        RIG_TEST(test_timeout_of_the_client),
        RIG_TEST(test_longer_timeout_of_the_client),
        RIG_TEST(test_no_timeout_of_the_client),
        RIG_TEST(test_destroy_in_flight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
