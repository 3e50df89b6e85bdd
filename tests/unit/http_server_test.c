/* The HTTP server and proxy over real sockets: a client in this thread, the
 * server on its loop, a sandbox that a test scripts in a third thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <event2/buffer.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "allocator/address.h"
#include "allocator/http_server.h"
#include "pool/base/clock.h"

#define ADMIN "the-admin-token-of-this-test"

enum {
    PATIENCE_MS = 60000, /* What should happen takes far less. */
};

typedef void (*script_fn)(int fd);

struct fixture {
    char dir[64];
    char unix_listen[96];
    const char *listen[2];
    struct wp_loop *loop;
    struct wp_http_config config;
    struct wp_http_server *server;
    /* The sandbox. */
    char endpoint[96];
    int sandbox_fd;
    pthread_t sandbox;
    bool sandbox_runs;
    _Atomic(script_fn) script;
    _Atomic(bool) lost;
};

static struct fixture fx;

/* --- Sockets with patience --- */

static bool
wait_for(int fd, short events)
{
    struct pollfd p = {fd, events, 0};

    return poll(&p, 1, PATIENCE_MS) == 1;
}

static int
dial(const char *text)
{
    struct wp_address address;
    struct wp_err err;
    int fd;

    assert_int_equal(wp_address_parse(wp_str_from(text), &address, &err),
                     WP_OK);
    fd = socket(address.sa.ss_family, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address.sa, address.len),
                     0);
    return fd;
}

static void
send_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

        if (n <= 0) {
            return; /* The other side has gone; the test sees it by reading. */
        }
        bytes += n;
        len -= (size_t)n;
    }
}

static void
send_text(int fd, const char *text)
{
    send_all(fd, text, strlen(text));
}

/* Reads until the end of the connection, text is contained, or out is full. */
static size_t
read_until(int fd, const char *text, char *out, size_t cap)
{
    size_t len = 0;

    out[0] = '\0';
    while (len < cap - 1 && (text == NULL || strstr(out, text) == NULL) &&
           wait_for(fd, POLLIN)) {
        ssize_t n = recv(fd, out + len, cap - 1 - len, 0);

        if (n <= 0) {
            break;
        }
        len += (size_t)n;
        out[len] = '\0';
    }
    return len;
}

static char answer[1 << 18];

/* One request on a connection of its own; the whole answer. */
static const char *
ask(const char *where, const char *request)
{
    int fd = dial(where);

    send_text(fd, request);
    (void)read_until(fd, NULL, answer, sizeof answer);
    (void)close(fd);
    return answer;
}

static void
assert_begins(const char *text, const char *start)
{
    if (strncmp(text, start, strlen(start)) != 0) {
        fail_msg("expected \"%s...\", got \"%.300s\"", start, text);
    }
}

static void
assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("expected \"%s\" in \"%.600s\"", part, text);
    }
}

static void
assert_lacks(const char *text, const char *part)
{
    if (strstr(text, part) != NULL) {
        fail_msg("did not expect \"%s\" in \"%.600s\"", part, text);
    }
}

/* --- The world around the server --- */

static enum wp_status
find(void *ctx, struct wp_str sandbox, struct wp_claim_info *out)
{
    (void)ctx;
    if (!wp_str_is(sandbox, "box-1") && !wp_str_is(sandbox, "gone")) {
        return WP_NOT_FOUND;
    }
    (void)strcpy(out->pool_namespace, "default");
    (void)snprintf(out->endpoint, sizeof out->endpoint, "%s",
                   wp_str_is(sandbox, "gone") ? "unix:/nonexistent/s"
                                              : fx.endpoint);
    out->lost = fx.lost;
    return WP_OK;
}

static bool
token_valid(void *ctx, const uint8_t *token, struct wp_str sandbox)
{
    (void)ctx;
    return token[0] == 0xAB && token[WP_TOKEN_LEN - 1] == 0xCD &&
           wp_str_is(sandbox, "box-1");
}

static const char *
lease_token(void)
{
    static char hex[2 * WP_TOKEN_LEN + 1];
    uint8_t token[WP_TOKEN_LEN] = {0xAB};

    token[WP_TOKEN_LEN - 1] = 0xCD;
    wp_hex_encode(token, sizeof token, hex);
    return hex;
}

static unsigned
render_hello(void *ctx, struct evbuffer *body, const char **type)
{
    (void)ctx;
    (void)type;
    (void)evbuffer_add_printf(body, "hello\n");
    return 200;
}

static const struct wp_http_page pages[] = {
    {"/hello", true, render_hello, NULL},
    {"/metrics", false, render_hello, NULL},
};

static void *
sandbox_main(void *ctx)
{
    (void)ctx;
    for (;;) {
        int fd = accept(fx.sandbox_fd, NULL, NULL);

        if (fd < 0) {
            return NULL;
        }
        atomic_load (&fx.script)(fd);
        (void)close(fd);
    }
}

static void
sandbox_start(void (*script)(int fd))
{
    struct wp_address address;
    struct wp_err err;

    fx.script = script;
    assert_int_equal(wp_address_parse(wp_str_from(fx.endpoint), &address, &err),
                     WP_OK);
    fx.sandbox_fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(
        bind(fx.sandbox_fd, (struct sockaddr *)&address.sa, address.len), 0);
    assert_int_equal(listen(fx.sandbox_fd, 16), 0);
    assert_int_equal(pthread_create(&fx.sandbox, NULL, sandbox_main, NULL), 0);
    fx.sandbox_runs = true;
}

static int
setup(void **state)
{
    (void)state;
    memset((void *)&fx, 0, sizeof fx);
    (void)strcpy(fx.dir, "/tmp/wp-http-XXXXXX");
    if (mkdtemp(fx.dir) == NULL) {
        return -1;
    }
    (void)snprintf(fx.unix_listen, sizeof fx.unix_listen, "unix:%s/h", fx.dir);
    (void)snprintf(fx.endpoint, sizeof fx.endpoint, "unix:%s/s", fx.dir);
    fx.listen[0] = fx.unix_listen;
    fx.listen[1] = "127.0.0.1:0";
    fx.loop = wp_loop_create("http", 64, NULL);
    fx.config = (struct wp_http_config){
        .loop = fx.loop,
        .listen = fx.listen,
        .n_listen = 2,
        .admin_token = ADMIN,
        .connections_max = 64,
        .head_timeout_ns = 60 * WP_NS_PER_S,
        .idle_timeout_ns = 60 * WP_NS_PER_S,
        .upstream_timeout_ns = 60 * WP_NS_PER_S,
        .pages = pages,
        .n_pages = WP_ARRAY_LEN(pages),
        .find = find,
        .token_valid = token_valid,
    };
    return fx.loop == NULL;
}

static void
server_start(void)
{
    struct wp_err err = {.msg = ""};

    fx.server = wp_http_server_create(&fx.config, &err);
    assert_string_equal(err.msg, "");
    assert_non_null(fx.server);
    assert_int_equal(wp_loop_start(fx.loop, &err), WP_OK);
}

static void
read_stats(void *ctx, uint64_t a, uint64_t b)
{
    (void)a;
    (void)b;
    *(struct wp_http_stats *)ctx = wp_http_server_stats(fx.server);
}

static struct wp_http_stats
stats(void)
{
    struct wp_http_stats out;

    wp_loop_call(fx.loop, read_stats, &out);
    return out;
}

static int
teardown(void **state)
{
    char path[128];

    (void)state;
    wp_http_server_destroy(fx.server);
    wp_loop_stop(fx.loop);
    wp_loop_destroy(fx.loop);
    if (fx.sandbox_runs) {
        (void)shutdown(fx.sandbox_fd, SHUT_RDWR);
        (void)pthread_join(fx.sandbox, NULL);
        (void)close(fx.sandbox_fd);
    }
    (void)snprintf(path, sizeof path, "%s/s", fx.dir);
    (void)unlink(path);
    return rmdir(fx.dir); /* Fails if the server left its socket. */
}

static const char *
tcp(void)
{
    return wp_http_server_address(fx.server, 1);
}

/* --- Own pages --- */

static void
test_pages(void **state)
{
    (void)state;
    server_start();
    assert_begins(
        ask(fx.unix_listen, "GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n"),
        "HTTP/1.1 200 OK\r\n");
    assert_has(answer, "\r\n\r\nhello\n");
    (void)ask(tcp(), "HEAD /hello HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_has(answer, "Content-Length: 6\r\n");
    assert_lacks(answer, "hello\n");
    assert_begins(ask(tcp(), "PUT /hello HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 ");
    assert_has(answer, "Allow: GET, HEAD\r\n");
    assert_begins(ask(tcp(), "GET /nope HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 ");
    assert_has(answer, "{\"error\":\"");
    assert_begins(ask(tcp(), "garbage\r\n\r\n"), "HTTP/1.1 400 ");
    assert_begins(ask(tcp(), "GET /metrics HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 ");
}

/* Requests sent in one go are answered in order on one connection. */
static void
test_pipelining(void **state)
{
    const char *at;
    int n = 0;

    (void)state;
    server_start();
    (void)ask(fx.unix_listen,
              "GET /hello HTTP/1.1\r\n\r\n\r\nGET /hello HTTP/1.1\r\n\r\n"
              "GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n");
    for (at = answer; (at = strstr(at, "hello\n")) != NULL; at++) {
        n++;
    }
    assert_int_equal(n, 3);
}

static void
test_long_head_is_refused(void **state)
{
    static char head[20000];

    (void)state;
    server_start();
    memset(head, 'a', sizeof head);
    memcpy(head, "GET /", 5);
    head[sizeof head - 1] = '\0';
    assert_begins(ask(tcp(), head), "HTTP/1.1 431 ");
}

static void
test_slow_head_is_dropped(void **state)
{
    (void)state;
    fx.config.head_timeout_ns = 50 * WP_NS_PER_MS;
    fx.config.idle_timeout_ns = 50 * WP_NS_PER_MS;
    server_start();
    assert_begins(ask(tcp(), "GET / HT"), "HTTP/1.1 408 ");
    assert_begins(ask(tcp(), ""), "HTTP/1.1 408 ");
    /* Between requests it is closed without a word. */
    assert_begins(ask(tcp(), "GET /hello HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 ");
    assert_lacks(answer, "408");
}

static void
test_connections_are_bounded(void **state)
{
    int held[2];

    (void)state;
    fx.config.connections_max = 2;
    server_start();
    for (int i = 0; i < 2; i++) {
        held[i] = dial(fx.unix_listen);
        send_text(held[i], "GET /hello HTTP/1.1\r\n\r\n");
        (void)read_until(held[i], "hello\n", answer, sizeof answer);
    }
    assert_begins(ask(fx.unix_listen, ""), "HTTP/1.1 503 ");
    (void)close(held[0]);
    (void)close(held[1]);
    assert_int_equal(stats().connections_refused, 1);
}

/* --- The proxy --- */

static char seen[1 << 16]; /* What the sandbox was sent. */

static void
script_echo_head(int fd)
{
    (void)read_until(fd, "\r\n\r\n", seen, sizeof seen);
    send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
                  "Connection: X-Secret, close\r\nX-Secret: 1\r\n"
                  "X-Kept: 2\r\n\r\nok");
}

static void
test_proxy_head(void **state)
{
    char request[1024];

    (void)state;
    sandbox_start(script_echo_head);
    server_start();
    (void)snprintf(request, sizeof request,
                   "GET /sandboxes/box-1/a?b=c HTTP/1.1\r\nHost: h\r\n"
                   "Authorization: Bearer %s\r\nTE: trailers\r\n"
                   "Connection: close, X-Hop\r\nX-Hop: 1\r\n"
                   "X-End: 2\r\n\r\n",
                   lease_token());
    assert_begins(ask(tcp(), request), "HTTP/1.1 200 OK\r\n");
    assert_has(answer, "X-Kept: 2\r\n");
    assert_lacks(answer, "X-Secret");
    assert_has(answer, "\r\n\r\nok");
    assert_begins(seen, "GET /a?b=c HTTP/1.1\r\n");
    assert_has(seen, "X-End: 2\r\n");
    assert_has(seen, "Host: h\r\n");
    assert_has(seen, "Connection: close\r\n");
    assert_lacks(seen, "Authorization");
    assert_lacks(seen, "X-Hop");
    assert_lacks(seen, "TE:");
    /* By header, the path stays as it is; an unknown Authorization is the
     * sandbox's own matter. */
    (void)ask(fx.unix_listen,
              "GET /execute HTTP/1.1\r\nX-Sandbox-ID: box-1\r\n"
              "X-Sandbox-Namespace: default\r\nX-Sandbox-Port: 8888\r\n"
              "Authorization: Bearer for-the-sandbox\r\n"
              "Connection: close\r\n\r\n");
    assert_begins(answer, "HTTP/1.1 200 OK\r\n");
    assert_begins(seen, "GET /execute HTTP/1.1\r\n");
    assert_has(seen, "Authorization: Bearer for-the-sandbox\r\n");
    (void)ask(fx.unix_listen, "GET /sandboxes/box-1?x HTTP/1.0\r\n\r\n");
    assert_begins(seen, "GET /?x HTTP/1.0\r\n");
}

static void
test_proxy_refusals(void **state)
{
    (void)state;
    server_start();
    assert_begins(ask(tcp(), "GET /sandboxes/box-1/ HTTP/1.1\r\n\r\n"),
                  "HTTP/1.1 401 ");
    assert_has(answer, "WWW-Authenticate: Bearer\r\n");
    /* Without a token, names cannot be tried out. */
    assert_begins(ask(tcp(), "GET /sandboxes/none/ HTTP/1.1\r\n\r\n"),
                  "HTTP/1.1 401 ");
    assert_begins(ask(tcp(), "GET /sandboxes/none/ HTTP/1.1\r\n"
                             "Authorization: Bearer " ADMIN "\r\n\r\n"),
                  "HTTP/1.1 404 ");
    assert_begins(ask(tcp(), "GET /sandboxes/box-1/ HTTP/1.1\r\n"
                             "Authorization: Bearer " ADMIN "x\r\n\r\n"),
                  "HTTP/1.1 401 ");
    assert_begins(ask(fx.unix_listen, "GET /sandboxes/none/ HTTP/1.1\r\n\r\n"),
                  "HTTP/1.1 404 ");
    assert_begins(ask(fx.unix_listen,
                      "GET / HTTP/1.1\r\nX-Sandbox-ID: box-1\r\n"
                      "X-Sandbox-Namespace: other\r\n\r\n"),
                  "HTTP/1.1 404 ");
    assert_begins(ask(fx.unix_listen, "GET /sandboxes/gone/ HTTP/1.1\r\n\r\n"),
                  "HTTP/1.1 502 ");
    fx.lost = true;
    assert_begins(ask(fx.unix_listen, "GET /sandboxes/box-1/ HTTP/1.1\r\n\r\n"),
                  "HTTP/1.1 502 ");
    assert_has(answer, "lost");
    assert_int_equal(stats().upstream_failed_total, 2);
}

/* Somebody else's lease opens nothing; nor does a lease a page. */
static void
test_token_rules(void **state)
{
    char request[512];

    (void)state;
    fx.config.token_rule = WP_HTTP_TOKEN_ALWAYS;
    server_start();
    assert_begins(ask(fx.unix_listen, "GET /sandboxes/box-1/ HTTP/1.1\r\n\r\n"),
                  "HTTP/1.1 401 ");
    assert_begins(ask(tcp(), "GET /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 401 ");
    (void)snprintf(request, sizeof request,
                   "GET /metrics HTTP/1.1\r\nAuthorization: Bearer %s"
                   "\r\n\r\n",
                   lease_token());
    assert_begins(ask(tcp(), request), "HTTP/1.1 401 ");
    (void)snprintf(request, sizeof request,
                   "GET /sandboxes/gone/ HTTP/1.1\r\n"
                   "Authorization: Bearer %s\r\n\r\n",
                   lease_token());
    assert_begins(ask(tcp(), request), "HTTP/1.1 401 ");
    assert_begins(ask(tcp(), "GET /metrics HTTP/1.1\r\nConnection: close\r\n"
                             "Authorization: Bearer " ADMIN "\r\n\r\n"),
                  "HTTP/1.1 200 ");
    assert_begins(ask(tcp(), "GET /hello HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 ");
}

static void
script_keep(int fd)
{
    (void)read_until(fd, "\r\n\r\n", seen, sizeof seen);
    send_text(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "3\r\none\r\n0\r\n\r\n");
}

/* Several exchanges on one client connection, each with a connection of its own
 * to the sandbox. */
static void
test_keep_alive(void **state)
{
    int fd;

    (void)state;
    sandbox_start(script_keep);
    server_start();
    fd = dial(fx.unix_listen);
    for (int i = 0; i < 3; i++) {
        send_text(fd, "GET /sandboxes/box-1/ HTTP/1.1\r\n\r\n");
        (void)read_until(fd, "0\r\n\r\n", answer, sizeof answer);
        assert_begins(answer, "HTTP/1.1 200 OK\r\n");
        assert_lacks(answer, "Connection: close");
    }
    (void)close(fd);
    assert_int_equal(stats().proxied_total, 3);
    assert_int_equal(stats().connections_total, 1);
}

enum {
    BIG = 8 << 20,
};

/* Takes BIG bytes of body, slowly at first, and answers with as many. */
static void
script_big(int fd)
{
    static char buffer[1 << 16];
    size_t got = 0;
    char *body;

    (void)read_until(fd, "\r\n\r\n", seen, sizeof seen);
    body = strstr(seen, "\r\n\r\n");
    got = body != NULL ? strlen(body + 4) : 0;
    while (got < BIG) {
        ssize_t n = recv(fd, buffer, sizeof buffer, 0);

        if (n <= 0) {
            return;
        }
        got += (size_t)n;
    }
    (void)snprintf(buffer, sizeof buffer,
                   "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BIG);
    send_text(fd, buffer);
    memset(buffer, 'r', sizeof buffer);
    for (size_t i = 0; i < BIG / sizeof buffer; i++) {
        send_all(fd, buffer, sizeof buffer);
    }
}

/* A body far beyond every buffer goes through both ways, whole. */
static void
test_big_bodies(void **state)
{
    static char buffer[1 << 16];
    size_t got = 0;
    char *body;
    int fd;

    (void)state;
    sandbox_start(script_big);
    server_start();
    fd = dial(fx.unix_listen);
    (void)snprintf(buffer, sizeof buffer,
                   "PUT /sandboxes/box-1/ HTTP/1.1\r\nExpect: 100-continue"
                   "\r\nContent-Length: %d\r\n\r\n",
                   BIG);
    send_text(fd, buffer);
    (void)read_until(fd, "\r\n\r\n", answer, sizeof answer);
    assert_begins(answer, "HTTP/1.1 100 Continue\r\n\r\n");
    memset(buffer, 'q', sizeof buffer);
    for (size_t i = 0; i < BIG / sizeof buffer; i++) {
        send_all(fd, buffer, sizeof buffer);
    }
    got = read_until(fd, "\r\n\r\n", answer, sizeof answer);
    assert_begins(answer, "HTTP/1.1 200 OK\r\n");
    body = strstr(answer, "\r\n\r\n");
    assert_non_null(body);
    got -= (size_t)(body + 4 - answer);
    while (got < BIG) {
        ssize_t n = recv(fd, buffer, sizeof buffer, 0);

        assert_true(n > 0);
        assert_int_equal(buffer[0], 'r');
        assert_int_equal(buffer[n - 1], 'r');
        got += (size_t)n;
    }
    assert_int_equal(got, BIG);
    assert_lacks(seen, "Expect");
    (void)close(fd);
}

static _Atomic(size_t) flood_sent;
static _Atomic(bool) flood_stalled;

/* Answers without end until nobody takes it any more. */
static void
script_flood(int fd)
{
    static char buffer[1 << 16];
    struct pollfd p = {fd, POLLOUT, 0};

    (void)read_until(fd, "\r\n\r\n", seen, sizeof seen);
    send_text(fd, "HTTP/1.1 200 OK\r\n\r\n");
    while (poll(&p, 1, 300) == 1) {
        ssize_t n =
            send(fd, buffer, sizeof buffer, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n <= 0 && errno != EAGAIN) {
            return;
        }
        flood_sent += n > 0 ? (size_t)n : 0;
    }
    flood_stalled = true; /* The proxy does not read. */
}

/* A client that does not read stops the sandbox, not the daemon's memory; when
 * it reads at last, all is there. */
static void
test_back_pressure(void **state)
{
    static char buffer[1 << 16];
    size_t got = 0;
    ssize_t n;
    int fd;

    (void)state;
    flood_sent = 0;
    flood_stalled = false;
    sandbox_start(script_flood);
    server_start();
    fd = dial(fx.unix_listen);
    send_text(fd, "GET /sandboxes/box-1/ HTTP/1.1\r\n\r\n");
    for (int i = 0; i < PATIENCE_MS && !flood_stalled; i++) {
        (void)usleep(1000);
    }
    assert_true(flood_stalled);
    assert_true(flood_sent > 0);
    assert_true(flood_sent < 4 << 20);
    while ((n = recv(fd, buffer, sizeof buffer, 0)) > 0) {
        got += (size_t)n;
    }
    assert_true(got > flood_sent);
    (void)close(fd);
}

static void
script_upgrade(int fd)
{
    char byte;

    (void)read_until(fd, "{}", seen, sizeof seen);
    send_text(fd, "HTTP/1.1 101 Switching Protocols\r\n"
                  "Connection: Upgrade\r\nUpgrade: warmpool-exec/1\r\n\r\n>");
    while (recv(fd, &byte, 1, 0) == 1) {
        send_all(fd, &byte, 1);
    }
    send_text(fd, "<"); /* After the client's half-close. */
}

static void
test_upgrade(void **state)
{
    int fd;

    (void)state;
    sandbox_start(script_upgrade);
    server_start();
    fd = dial(fx.unix_listen);
    send_text(fd, "POST /sandboxes/box-1/v1/exec HTTP/1.1\r\n"
                  "Connection: Upgrade\r\nUpgrade: warmpool-exec/1\r\n"
                  "Content-Length: 2\r\n\r\n{}");
    (void)read_until(fd, "\r\n\r\n>", answer, sizeof answer);
    assert_begins(answer, "HTTP/1.1 101 Switching Protocols\r\n");
    assert_has(answer, "Upgrade: warmpool-exec/1\r\n");
    assert_has(answer, "Connection: Upgrade\r\n");
    assert_has(seen, "Upgrade: warmpool-exec/1\r\n");
    assert_has(seen, "Connection: Upgrade\r\n");
    send_text(fd, "abc");
    (void)read_until(fd, "abc", answer, sizeof answer);
    assert_string_equal(answer, "abc");
    (void)shutdown(fd, SHUT_WR);
    (void)read_until(fd, NULL, answer, sizeof answer);
    assert_string_equal(answer, "<");
    (void)close(fd);
}

static _Atomic(bool) last_words_said;

/* Says all that is taken, and closes without having read. */
static void
script_last_words(int fd)
{
    static char buffer[1 << 12];
    struct pollfd p = {fd, POLLOUT, 0};

    (void)read_until(fd, "{}", seen, sizeof seen);
    send_text(fd, "HTTP/1.1 101 Switching Protocols\r\n"
                  "Connection: Upgrade\r\nUpgrade: warmpool-exec/1\r\n\r\n");
    while (poll(&p, 1, 300) == 1) {
        ssize_t n =
            send(fd, buffer, sizeof buffer, MSG_NOSIGNAL | MSG_DONTWAIT);

        flood_sent += n > 0 ? (size_t)n : 0;
    }
    last_words_said = true;
}

/* Writing to a sandbox that has said its last words and closed fails, while
 * they still wait in the kernel to be read: the client gets all of them. */
static void
test_last_words_are_read(void **state)
{
    static char buffer[1 << 16];
    size_t got = 0;
    ssize_t n;
    int fd;

    (void)state;
    flood_sent = 0;
    last_words_said = false;
    sandbox_start(script_last_words);
    server_start();
    fd = dial(fx.unix_listen);
    send_text(fd, "POST /sandboxes/box-1/v1/exec HTTP/1.1\r\n"
                  "Connection: Upgrade\r\nUpgrade: warmpool-exec/1\r\n"
                  "Content-Length: 2\r\n\r\n{}");
    for (int i = 0; i < PATIENCE_MS && !last_words_said; i++) {
        (void)usleep(1000);
    }
    assert_true(last_words_said);
    send_text(fd, "x");
    for (int i = 0; i < 20; i++) {
        (void)usleep(1000); /* For the write to be tried. */
        (void)stats();
    }
    n = (ssize_t)read_until(fd, "\r\n\r\n", answer, sizeof answer);
    assert_begins(answer, "HTTP/1.1 101 Switching Protocols\r\n");
    got = (size_t)(answer + n - strstr(answer, "\r\n\r\n") - 4);
    while ((n = recv(fd, buffer, sizeof buffer, 0)) > 0) {
        got += (size_t)n;
    }
    assert_int_equal(got, flood_sent);
    (void)close(fd);
}

static void
script_no_upgrade(int fd)
{
    (void)read_until(fd, "\r\n\r\n", seen, sizeof seen);
    send_text(fd, "HTTP/1.1 101 Switching Protocols\r\n\r\n");
}

static void
script_silent(int fd)
{
    (void)read_until(fd, NULL, seen, sizeof seen);
}

static void
script_interim(int fd)
{
    (void)read_until(fd, "\r\n\r\n", seen, sizeof seen);
    for (int i = 0; i < 100; i++) {
        send_text(fd, "HTTP/1.1 102 Processing\r\n\r\n");
    }
    (void)read_until(fd, NULL, seen, sizeof seen);
}

static void
script_nonsense(int fd)
{
    (void)read_until(fd, "\r\n\r\n", seen, sizeof seen);
    send_text(fd, "220 mail.example ESMTP\r\n\r\n");
}

static void
script_close(int fd)
{
    (void)read_until(fd, "\r\n\r\n", seen, sizeof seen);
}

static void
script_cut(int fd)
{
    (void)read_until(fd, "\r\n\r\n", seen, sizeof seen);
    send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
}

static void
assert_upstream_fault(void (*script)(int fd), const char *start)
{
    fx.script = script;
    (void)ask(fx.unix_listen, "GET /sandboxes/box-1/ HTTP/1.1\r\n"
                              "X-Sandbox-Timeout: 1\r\n\r\n");
    assert_begins(answer, start);
}

static void
test_upstream_faults(void **state)
{
    (void)state;
    fx.config.upstream_timeout_ns = 100 * WP_NS_PER_MS;
    sandbox_start(script_close);
    server_start();
    assert_upstream_fault(script_close, "HTTP/1.1 502 ");
    assert_upstream_fault(script_nonsense, "HTTP/1.1 502 ");
    assert_upstream_fault(script_no_upgrade, "HTTP/1.1 502 ");
    assert_upstream_fault(script_silent, "HTTP/1.1 504 ");
    assert_upstream_fault(script_interim, "HTTP/1.1 102 ");
    assert_has(answer, "HTTP/1.1 502 ");
    /* A cut answer must not look whole: the connection ends early. */
    assert_upstream_fault(script_cut, "HTTP/1.1 200 OK\r\n");
    assert_has(answer, "Content-Length: 10\r\n");
    assert_has(answer, "\r\n\r\nabc");
    assert_int_equal(stats().upstream_failed_total, 6);
}

static _Atomic(bool) abandoned;

static void
script_abandoned(int fd)
{
    char byte;

    (void)read_until(fd, "\r\n\r\n", seen, sizeof seen);
    abandoned = recv(fd, &byte, 1, 0) == 0;
}

/* When the client goes, the sandbox is told, so that it can stop working. */
static void
test_client_goes(void **state)
{
    int fd;

    (void)state;
    abandoned = false;
    sandbox_start(script_abandoned);
    server_start();
    fd = dial(fx.unix_listen);
    send_text(fd, "GET /sandboxes/box-1/ HTTP/1.1\r\n\r\n");
    while (stats().proxied_total == 0) {
        (void)usleep(1000);
    }
    (void)close(fd);
    for (int i = 0; i < PATIENCE_MS && !abandoned; i++) {
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
    sandbox_start(script_silent);
    server_start();
    for (int i = 0; i < 8; i++) {
        fds[i] = dial(fx.unix_listen);
        send_text(fds[i], i % 2 == 0 ? "GET /sandboxes/box-1/ HTTP/1.1\r\n\r\n"
                                     : "GET /sandboxes/bo");
    }
    while (stats().connections < 8) {
        (void)usleep(1000);
    }
    wp_http_server_destroy(fx.server);
    fx.server = NULL;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(read_until(fds[i], NULL, answer, sizeof answer), 0);
        (void)close(fds[i]);
    }
}

static void
test_listen_refusals(void **state)
{
    struct wp_err err;
    struct wp_http_server *second;
    char path[128];

    (void)state;
    server_start();
    second = wp_http_server_create(&fx.config, &err);
    assert_null(second);
    assert_has(err.msg, "another process answers on");
    fx.listen[0] = "0.0.0.0:0";
    assert_null(wp_http_server_create(&fx.config, &err));
    assert_has(err.msg, "loopback only");
    (void)snprintf(path, sizeof path, "unix:%s", fx.dir);
    fx.listen[0] = path;
    assert_null(wp_http_server_create(&fx.config, &err));
    assert_has(err.msg, "is not a socket");
    fx.listen[0] = "unix:/nonexistent/x";
    assert_null(wp_http_server_create(&fx.config, &err));
    assert_has(err.msg, "cannot listen on unix:/nonexistent/x");
}

/* Pages for a cluster's probes and scrapers. */
static void
test_listen_anywhere(void **state)
{
    (void)state;
    fx.listen[1] = "0.0.0.0:0";
    fx.config.anywhere = true;
    server_start();
    assert_has(wp_http_server_address(fx.server, 1), "0.0.0.0:");
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
        wp_address_parse(wp_str_from(fx.unix_listen), &address, &err), WP_OK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address.sa, address.len), 0);
    (void)close(fd);
    server_start();
    assert_begins(ask(fx.unix_listen, "GET /hello HTTP/1.0\r\n\r\n"),
                  "HTTP/1.1 200 ");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_pages),
        TEST(test_pipelining),
        TEST(test_long_head_is_refused),
        TEST(test_slow_head_is_dropped),
        TEST(test_connections_are_bounded),
        TEST(test_proxy_head),
        TEST(test_proxy_refusals),
        TEST(test_token_rules),
        TEST(test_keep_alive),
        TEST(test_big_bodies),
        TEST(test_back_pressure),
        TEST(test_upgrade),
        TEST(test_last_words_are_read),
        TEST(test_upstream_faults),
        TEST(test_client_goes),
        TEST(test_destroy_in_flight),
        TEST(test_listen_refusals),
        TEST(test_listen_anywhere),
        TEST(test_stale_socket),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
