/* What a server is asked, and what a client is answered, in full. Client, proxy
 * and server are sockets of one thread, so that it is known when no more will
 * happen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "proto/formats/http_exchange.h"

enum {
    TEXT_MAX = 1 << 20,
    STILL_ROUNDS = 30, /* Without anything moving: nothing more is to come. */
};

struct side {
    int fd; /* -1: not there. */
    bool ended;
    bool held; /* Nothing is read from it. */
    size_t len;
    char text[TEXT_MAX];
};

static struct {
    struct event_base *base;
    struct wp_http_server *front;
    struct sockaddr_un front_at;
    socklen_t front_len;
    int listener; /* The server's. */
    struct sockaddr_un at;
    socklen_t at_len;
    struct wp_http_exchange_config config;
    struct wp_http_exchange_ops ops;
    struct wp_http_exchange *x; /* NULL: none. */
    struct bufferevent *upstream;
    bool waits; /* begin() does not connect yet. */
    struct side client;
    struct side server;
    uint64_t failed;
    uint32_t begun;
    uint32_t gone;
    uint32_t unreached;
    uint32_t unreached_tries; /* So often unreached() tries anew. */
    size_t sent;
    size_t received;
    size_t sent_max;
} w;

static int
listen_anywhere(struct sockaddr_un *at, socklen_t *len)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    /* An abstract name of the kernel's choice. */
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    *len = sizeof *at;
    assert_true(fd >= 0);
    assert_int_equal(
        bind(fd, (const struct sockaddr *)at, sizeof at->sun_family), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, len), 0);
    return fd;
}

/* --------------------------------------------------------- the proxy's own */

static bool
connect_now(struct wp_http_exchange *x)
{
    w.upstream = bufferevent_socket_new(w.base, -1, BEV_OPT_CLOSE_ON_FREE);
    return wp_http_exchange_connect(
        x, w.upstream, (const struct sockaddr *)&w.at, (int)w.at_len);
}

static bool
begin(struct wp_http_exchange *x)
{
    w.x = x;
    w.begun++;
    assert_ptr_equal(wp_http_exchange_ctx(x), &w);
    return w.waits || connect_now(x);
}

static void
put_head(const struct wp_http_exchange *x, struct evbuffer *to)
{
    const struct wp_http_message *m = wp_http_message(wp_http_exchange_req(x));

    (void)evbuffer_add_printf(to, "%.*s %.*s HTTP/1.1\r\nVia: test\r\n",
                              WP_STR_ARG(m->method), WP_STR_ARG(m->target));
}

static bool
drops(const struct wp_http_exchange *x, const struct wp_http_message *message,
      const struct wp_http_field *field)
{
    bool is_request = message == wp_http_message(wp_http_exchange_req(x));

    return wp_http_name_is(field->name, is_request ? "X-Asked" : "X-Answered");
}

static bool
unreached(struct wp_http_exchange *x)
{
    w.unreached++;
    return w.unreached <= w.unreached_tries && connect_now(x);
}

static bool
moved(struct wp_http_exchange *x, size_t sent, size_t received)
{
    assert_ptr_equal(x, w.x);
    w.sent += sent;
    w.received += received;
    return w.sent <= w.sent_max;
}

static void
gone(struct wp_http_exchange *x)
{
    assert_ptr_equal(x, w.x);
    w.x = NULL;
    w.gone++;
}

static const struct wp_http_ops *
route(struct wp_http_req *req)
{
    return wp_http_exchange_open(&w.config, &w.ops, req, &w);
}

/* -------------------------------------------------------------- both sides */

static bool
hear(struct side *side)
{
    ssize_t n;

    if (side->fd < 0 || side->ended || side->held) {
        return false;
    }
    n = recv(side->fd, side->text + side->len, TEXT_MAX - 1 - side->len,
             MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    side->ended = n <= 0;
    side->len += n > 0 ? (size_t)n : 0;
    side->text[side->len] = '\0';
    return true;
}

static bool
turn(void)
{
    bool busy = false;

    (void)event_base_loop(w.base, EVLOOP_NONBLOCK);
    if (w.server.fd < 0) {
        w.server.fd = accept4(w.listener, NULL, NULL, SOCK_CLOEXEC);
        busy = w.server.fd >= 0;
    }
    busy = hear(&w.server) || busy;
    return hear(&w.client) || busy;
}

/* Until nothing more happens by itself. */
static void
settle(void)
{
    for (int still = 0; still < STILL_ROUNDS; still++) {
        if (turn()) {
            still = 0;
        }
    }
}

/* Until a timer has ended what the client waits for. */
static void
wait_end(void)
{
    time_t until = time(NULL) + 120;

    while (!w.client.ended) {
        (void)turn();
        assert_true(time(NULL) < until);
    }
    settle();
}

static void
say_bytes(const struct side *side, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = send(side->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL);

        assert_true(n > 0 || errno == EAGAIN);
        text += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
        (void)turn();
    }
    settle();
}

static void
say(const struct side *side, const char *text)
{
    say_bytes(side, text, strlen(text));
}

static void
forget(struct side *side)
{
    side->len = 0;
    side->text[0] = '\0';
}

static void
leave(struct side *side)
{
    if (side->fd >= 0) {
        assert_int_equal(close(side->fd), 0);
    }
    side->fd = -1;
    side->ended = false;
    forget(side);
}

/* The client has seen the end, and leaves: nothing of the request is left. */
static void
over(void)
{
    assert_true(w.client.ended);
    leave(&w.client);
    settle();
    assert_int_equal(w.gone, 1);
}

/* A client that has connected; the counts begin anew. */
static void
dial(void)
{
    leave(&w.client);
    leave(&w.server);
    settle();
    assert_null(w.x);
    w.failed = w.begun = w.gone = w.unreached = 0;
    w.sent = w.received = 0;
    w.client.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(
        connect(w.client.fd, (const struct sockaddr *)&w.front_at, w.front_len),
        0);
    settle();
}

static int
set_up(void **state)
{
    struct wp_http_server_config config = {
        .route = route,
        .conns_max = 10,
        .fields_max = WP_HTTP_FIELDS_MAX,
        .forward = true,
        .head_timeout_ns = 300 * WP_NS_PER_S,
        .body_timeout_ns = 300 * WP_NS_PER_S,
        .idle_timeout_ns = 300 * WP_NS_PER_S,
        .send_timeout_ns = 300 * WP_NS_PER_S,
    };
    struct wp_err err;

    (void)state;
    memset(&w, 0, sizeof w);
    w.client.fd = w.server.fd = -1;
    w.sent_max = SIZE_MAX;
    w.base = event_base_new();
    w.config = (struct wp_http_exchange_config){
        .base = w.base,
        .server = "the test",
        .idle_timeout_ns = 300 * WP_NS_PER_S,
        .answer_timeout_ns = 300 * WP_NS_PER_S,
        .failed = &w.failed,
    };
    w.ops = (struct wp_http_exchange_ops){
        .begin = begin,
        .put_head = put_head,
        .drops = drops,
        .unreached = unreached,
        .moved = moved,
        .gone = gone,
    };
    config.base = w.base;
    w.front = wp_http_server_create(&config);
    assert_non_null(w.front);
    assert_int_equal(
        wp_http_server_listen(
            w.front, listen_anywhere(&w.front_at, &w.front_len), 1, &err),
        WP_OK);
    w.listener = listen_anywhere(&w.at, &w.at_len);
    assert_int_equal(listen(w.listener, 8), 0);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    leave(&w.client);
    leave(&w.server);
    wp_http_server_destroy(w.front);
    assert_null(w.x);
    if (w.listener >= 0) {
        (void)close(w.listener);
    }
    event_base_free(w.base);
    return 0;
}

/* ------------------------------------------------------------- whole texts */

struct row {
    const char *ask;
    const char *say; /* "" and ends: it closes without a word. */
    bool ends;
    const char *asked;
    const char *answered;
    bool stays; /* The client's connection. */
    uint32_t failed;
    size_t sent;
    size_t received;
};

static void
check(const struct row *row)
{
    dial();
    say(&w.client, row->ask);
    say(&w.server, row->say);
    if (row->ends) {
        assert_int_equal(shutdown(w.server.fd, SHUT_WR), 0);
        settle();
    }
    assert_string_equal(w.server.text, row->asked);
    assert_string_equal(w.client.text, row->answered);
    assert_int_equal(w.client.ended, !row->stays);
    assert_int_equal(w.failed, row->failed);
    assert_int_equal(w.sent, row->sent);
    assert_int_equal(w.received, row->received);
    assert_true(w.server.ended);
    assert_int_equal(w.begun, 1);
    if (w.client.ended) {
        over();
    }
    assert_int_equal(w.gone, 1);
}

#define ERROR_HEAD(status, len)                                                \
    "HTTP/1.1 " status "\r\nContent-Type: application/json\r\n"                \
    "Content-Length: " len "\r\nConnection: close\r\n\r\n"
#define GET "GET /a?b HTTP/1.1\r\n\r\n"
#define GOT "GET /a?b HTTP/1.1\r\nVia: test\r\nConnection: close\r\n\r\n"
#define GOT_LEN (sizeof GOT - 1)

static const struct row whole[] = {
    /* Fields of one hop, those the proxy drops, and Expect stay behind. */
    {"GET /a?b HTTP/1.1\r\nHost: h\r\nConnection: close, X-Hop\r\n"
     "X-Hop: 1\r\nX-Asked: 1\r\nX-Answered: 2\r\nX-Empty:\r\nTE: x\r\n\r\n",
     "HTTP/1.1 200 OK\r\nX-Asked: 3\r\nX-Answered: 4\r\nKeep-Alive: 5\r\n"
     "Expect: 6\r\nContent-Length: 5\r\n\r\nhello",
     false,
     "GET /a?b HTTP/1.1\r\nVia: test\r\nHost: h\r\nX-Answered: 2\r\n"
     "X-Empty: \r\nConnection: close\r\n\r\n",
     "HTTP/1.1 200 OK\r\nX-Asked: 3\r\nContent-Length: 5\r\n"
     "Connection: close\r\n\r\nhello",
     false, 0, 86, 96},
    /* The connection is used again, whatever the server does with its own. */
    {GET, "HTTP/1.0 404 Not Found\r\nContent-Length: 2\r\n\r\nno!", false, GOT,
     "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", true, 0, GOT_LEN,
     47},
    /* Chunks are written anew, without extensions and trailers. */
    {"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
     "003;x=y\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX-T: 1\r\n\r\n",
     "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
     "01\r\nx\r\n00\r\nX-T: 2\r\n\r\n",
     false,
     "PUT /a HTTP/1.1\r\nVia: test\r\nTransfer-Encoding: chunked\r\n"
     "Connection: close\r\n\r\n"
     "3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n",
     "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
     "1\r\nx\r\n0\r\n\r\n",
     true, 0, 126, 73},
    {"PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false,
     "PUT /a HTTP/1.1\r\nVia: test\r\nContent-Length: 3\r\n"
     "Connection: close\r\n\r\nabc",
     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true, 0, 71, 38},
    /* Up to the end of the connection. */
    {GET, "HTTP/1.1 200 OK\r\n\r\nall of it", true, GOT,
     "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it", false, 0, GOT_LEN,
     28},
    /* No body, whatever is announced; HEAD is told the length. */
    {"HEAD /a HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
     false, "HEAD /a HTTP/1.1\r\nVia: test\r\nConnection: close\r\n\r\n",
     "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", true, 0, 50, 38},
    {"HEAD /a HTTP/1.1\r\n\r\n",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false,
     "HEAD /a HTTP/1.1\r\nVia: test\r\nConnection: close\r\n\r\n",
     "HTTP/1.1 200 OK\r\n\r\n", true, 0, 50, 47},
    {GET, "HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n", false, GOT,
     "HTTP/1.1 204 No Content\r\n\r\n", true, 0, GOT_LEN, 46},
    {GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", false, GOT,
     "HTTP/1.1 304 Not Modified\r\n\r\n", true, 0, GOT_LEN, 48},
    /* HTTP/1.0 knows neither 1xx nor chunks, and its connection ends. */
    {"GET /a?b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
     "HTTP/1.1 102 Processing\r\nLink: x\r\n\r\n"
     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
     false, GOT,
     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
     false, 0, GOT_LEN, 75},
    {"GET /a?b HTTP/1.0\r\n\r\n",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false,
     GOT,
     ERROR_HEAD("502 Bad Gateway",
                "48") "{\"error\":\"the test answers HTTP/1.0 in chunks\"}\n",
     false, 1, GOT_LEN, 47},
    {GET,
     "HTTP/1.1 102 Processing\r\nLink: x\r\nContent-Length: 2\r\n\r\n"
     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
     false, GOT,
     "HTTP/1.1 102 Processing\r\nLink: x\r\n\r\n"
     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
     true, 0, GOT_LEN, 94},
    /* An upgrade that the server refuses. */
    {"GET /a HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: x/1\r\n\r\n",
     "HTTP/1.1 400 Bad Request\r\nContent-Length: 1\r\n\r\nx", false,
     "GET /a HTTP/1.1\r\nVia: test\r\nUpgrade: x/1\r\n"
     "Connection: Upgrade\r\n\r\n",
     "HTTP/1.1 400 Bad Request\r\nContent-Length: 1\r\n"
     "Connection: close\r\n\r\nx",
     false, 0, 65, 48},
};

static const struct row broken[] = {
    {GET, "HTTP/1.1 101 Switching Protocols\r\n\r\n", false, GOT,
     ERROR_HEAD("502 Bad Gateway", "58") "{\"error\":\"the test changes "
                                         "protocol without being asked\"}\n",
     false, 1, GOT_LEN, 36},
    {GET, "", true, GOT,
     ERROR_HEAD("502 Bad Gateway",
                "46") "{\"error\":\"the test closed without an answer\"}\n",
     false, 1, GOT_LEN, 0},
    {GET, "garbage\r\n\r\n", false, GOT,
     ERROR_HEAD("502 Bad Gateway",
                "46") "{\"error\":\"the test's answer is not HTTP/1.1\"}\n",
     false, 1, GOT_LEN, 0},
    /* Once a head is out, a cut answer says so. */
    {GET, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", true, GOT,
     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", false, 1, GOT_LEN, 42},
    {GET, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n?",
     false, GOT,
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", false,
     1, GOT_LEN, 47},
    {"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n", "",
     false,
     "PUT /a HTTP/1.1\r\nVia: test\r\nTransfer-Encoding: chunked\r\n"
     "Connection: close\r\n\r\n1\r\nx\r\n",
     ERROR_HEAD("400 Bad Request",
                "41") "{\"error\":\"the request's body is broken\"}\n",
     false, 0, 77, 0},
    /* Answered before the body has come: it is not waited for. */
    {"PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\na",
     "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 0\r\n\r\n", false,
     "PUT /a HTTP/1.1\r\nVia: test\r\nContent-Length: 3\r\n"
     "Connection: close\r\n\r\na",
     "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 0\r\n\r\n", false, 0,
     69, 53},
};

static void
test_all_that_both_sides_see(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(whole); i++) {
        check(&whole[i]);
    }
}

static void
test_all_that_both_sides_see_of_a_failure(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(broken); i++) {
        check(&broken[i]);
    }
}

/* A text n times, and one more behind it. */
static const char *
repeat(const char *text, int n, const char *then)
{
    static char out[4096];
    int len = 0;

    for (int i = 0; i < n; i++) {
        len += snprintf(out + len, sizeof out - (size_t)len, "%s", text);
    }
    (void)snprintf(out + len, sizeof out - (size_t)len, "%s", then);
    return out;
}

static void
test_sixteen_heads_may_come_before_the_answer(void **state)
{
    static const char hint[] = "HTTP/1.1 102 Processing\r\n\r\n";
    static const char answer[] = "HTTP/1.1 204 No Content\r\n\r\n";

    (void)state;
    dial();
    say(&w.client, GET);
    say(&w.server, repeat(hint, 16, answer));
    assert_string_equal(w.client.text, repeat(hint, 16, answer));
    assert_int_equal(w.failed, 0);
    dial();
    say(&w.client, GET);
    say(&w.server, repeat(hint, 17, answer));
    assert_string_equal(
        w.client.text,
        repeat(hint, 16,
               ERROR_HEAD("502 Bad Gateway", "51") "{\"error\":\"the test "
                                                   "sends one 1xx after the "
                                                   "other\"}\n"));
    assert_int_equal(w.failed, 1);
}

static void
test_a_head_has_16384_bytes_at_most(void **state)
{
    static char head[WP_HTTP_HEAD_MAX + 8];
    static char expected[WP_HTTP_HEAD_MAX + 64];
    static const char start[] = "HTTP/1.1 204 No Content\r\nX: ";

    (void)state;
    for (size_t over = 0; over <= 1; over++) {
        size_t len = WP_HTTP_HEAD_MAX + over;

        memset(head, 'x', sizeof head);
        memcpy(head, start, sizeof start - 1);
        memcpy(head + len - 4, "\r\n\r\n", 5);
        (void)snprintf(expected, sizeof expected, "%s", head);
        if (over > 0) {
            (void)snprintf(expected, sizeof expected, "%s",
                           ERROR_HEAD("502 Bad Gateway",
                                      "50") "{\"error\":\"the test's answer "
                                            "has too long a head\"}\n");
        }
        dial();
        say(&w.client, GET);
        say_bytes(&w.server, head, len);
        assert_string_equal(w.client.text, expected);
        assert_int_equal(w.failed, over);
        assert_int_equal(w.received, over > 0 ? 0 : len);
    }
}

/* The next request goes to a server of its own. */
static void
test_a_connection_takes_the_next_request(void **state)
{
    (void)state;
    dial();
    say(&w.client, GET "PUT /c HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
    assert_string_equal(w.server.text, GOT);
    say(&w.server, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
    assert_true(w.server.ended);
    leave(&w.server);
    settle();
    assert_string_equal(w.server.text,
                        "PUT /c HTTP/1.1\r\nVia: test\r\nContent-Length: 1\r\n"
                        "Connection: close\r\n\r\nx");
    say(&w.server, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
    assert_string_equal(w.client.text,
                        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1"
                        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
    assert_false(w.client.ended);
    assert_int_equal(w.gone, 2);
}

/* Both halves of a tunnel, and their ends. */
static void
tunnel(const char *ask, const char *asked, const char *grant,
       const char *granted)
{
    size_t head = strlen(asked);

    dial();
    say(&w.client, ask);
    assert_string_equal(w.server.text, asked);
    say(&w.server, grant);
    assert_string_equal(w.client.text, granted);
    forget(&w.server);
    forget(&w.client);
    say(&w.client, "ping\r\n\r\n");
    assert_string_equal(w.server.text, "ping\r\n\r\n");
    say(&w.server, "pong, HTTP/1.1 400\r\n");
    assert_string_equal(w.client.text, "pong, HTTP/1.1 400\r\n");
    assert_int_equal(w.sent, head + 8);
    assert_int_equal(w.received, strlen(grant) + 20);
    /* One side has said all, the other goes on. */
    assert_int_equal(shutdown(w.client.fd, SHUT_WR), 0);
    settle();
    assert_true(w.server.ended);
    assert_false(w.client.ended);
    say(&w.server, "!");
    assert_string_equal(w.client.text, "pong, HTTP/1.1 400\r\n!");
    assert_int_equal(shutdown(w.server.fd, SHUT_WR), 0);
    settle();
    over();
    assert_int_equal(w.failed, 0);
}

static void
test_an_upgrade_that_is_granted_is_a_tunnel(void **state)
{
    (void)state;
    tunnel("GET /a HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: x/1\r\n\r\n",
           "GET /a HTTP/1.1\r\nVia: test\r\nUpgrade: x/1\r\n"
           "Connection: Upgrade\r\n\r\n",
           "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x/2\r\n"
           "Connection: Upgrade\r\nX: 1\r\n\r\n",
           "HTTP/1.1 101 Switching Protocols\r\nX: 1\r\nUpgrade: x/2\r\n"
           "Connection: Upgrade\r\n\r\n");
}

static void
test_connect_is_a_tunnel(void **state)
{
    (void)state;
    tunnel("CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n", "", "",
           "HTTP/1.1 200 OK\r\n\r\n");
}

/* What a side has sent before it closes reaches the other. */
static void
test_a_tunnel_that_the_server_closes_ends(void **state)
{
    (void)state;
    dial();
    say(&w.client, "CONNECT h:1 HTTP/1.1\r\n\r\nearly");
    assert_string_equal(w.server.text, "early");
    assert_int_equal(send(w.server.fd, "bye", 3, 0), 3);
    assert_int_equal(shutdown(w.server.fd, SHUT_WR), 0);
    settle();
    assert_string_equal(w.client.text, "HTTP/1.1 200 OK\r\n\r\nbye");
    over();
    assert_int_equal(w.failed, 0);
    assert_int_equal(w.sent, 5);
    assert_int_equal(w.received, 3);
}

static size_t
queued(struct bufferevent *side)
{
    return evbuffer_get_length(bufferevent_get_output(side));
}

/* Sends until it is not taken; how much was. */
static size_t
fill(const struct side *side)
{
    static const char block[4096];
    size_t all = 0;

    for (int still = 0; still < STILL_ROUNDS; still++) {
        ssize_t n =
            send(side->fd, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL);

        all += n > 0 ? (size_t)n : 0;
        still = n > 0 ? 0 : still;
        (void)turn();
    }
    return all;
}

/* 64 KiB wait on their way out, and as many for those; the rest waits in the
 * sender's socket. All arrives once it is taken. */
static void
test_a_tunnel_holds_64_KiB_each_way(void **state)
{
    size_t up;
    size_t down;

    (void)state;
    dial();
    say(&w.client, "CONNECT h:1 HTTP/1.1\r\n\r\n");
    forget(&w.client);
    w.server.held = w.client.held = true;
    up = fill(&w.client);
    assert_int_equal(queued(w.upstream), WP_HTTP_BUFFER);
    down = fill(&w.server);
    assert_int_equal(queued(wp_http_bufferevent(wp_http_exchange_req(w.x))),
                     WP_HTTP_BUFFER);
    w.server.held = w.client.held = false;
    settle();
    assert_int_equal(w.server.len, up);
    assert_int_equal(w.client.len, down);
    assert_int_equal(w.sent, up);
    assert_int_equal(w.received, down);
}

/* A body is moved by pieces of what was read, until 64 KiB are there. */
static void
test_a_body_on_its_way_is_bounded(void **state)
{
    size_t up;
    size_t down;

    (void)state;
    dial();
    say(&w.client, "PUT /a HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n");
    say(&w.server, "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n");
    forget(&w.client);
    forget(&w.server);
    w.server.held = w.client.held = true;
    up = fill(&w.client);
    assert_in_range(queued(w.upstream), WP_HTTP_BUFFER / 2 + 1,
                    2 * WP_HTTP_BUFFER - 1);
    down = fill(&w.server);
    assert_in_range(queued(wp_http_bufferevent(wp_http_exchange_req(w.x))),
                    WP_HTTP_BUFFER / 2 + 1, 2 * WP_HTTP_BUFFER - 1);
    w.server.held = w.client.held = false;
    settle();
    assert_int_equal(w.server.len, up);
    assert_int_equal(w.client.len, down);
}

/* ------------------------------------------------------- who does not come */

static void
nobody_listens(void)
{
    assert_int_equal(close(w.listener), 0);
    w.listener = -1;
}

#define UNREACHED                                                              \
    ERROR_HEAD("502 Bad Gateway", "39")                                        \
    "{\"error\":\"the test cannot be reached\"}\n"

static void
test_a_server_that_is_not_reached_is_tried_as_often_as_wished(void **state)
{
    (void)state;
    nobody_listens();
    for (uint32_t tries = 0; tries < 3; tries++) {
        w.unreached_tries = tries;
        dial();
        say(&w.client, GET);
        assert_string_equal(w.client.text, UNREACHED);
        assert_int_equal(w.unreached, tries + 1);
        over();
    }
    w.ops.unreached = NULL;
    dial();
    say(&w.client, GET);
    assert_string_equal(w.client.text, UNREACHED);
    assert_int_equal(w.failed, 1);
}

static void
test_no_memory_for_a_connection_is_a_failure(void **state)
{
    (void)state;
    w.waits = true;
    dial();
    say(&w.client, GET);
    assert_string_equal(w.client.text, "");
    assert_false(wp_http_exchange_connect(
        w.x, NULL, (const struct sockaddr *)&w.at, (int)w.at_len));
    settle();
    assert_string_equal(w.client.text, UNREACHED);
    assert_int_equal(w.failed, 1);
}

/* An answer in the server's place; none once the client has seen a head. */
static void
test_a_failure_of_the_owner_is_told_in_his_words(void **state)
{
    (void)state;
    w.waits = true;
    dial();
    say(&w.client, GET);
    assert_false(wp_http_exchange_fail(w.x, 503, "no \"room\""));
    settle();
    assert_string_equal(w.client.text,
                        ERROR_HEAD("503 Service Unavailable",
                                   "24") "{\"error\":\"no \\\"room\\\"\"}\n");
    assert_int_equal(w.failed, 1);
    w.waits = false;
    dial();
    say(&w.client, GET);
    say(&w.server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx");
    assert_false(wp_http_exchange_fail(w.x, 503, "no room"));
    settle();
    assert_string_equal(w.client.text,
                        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx");
    assert_true(w.client.ended);
    assert_int_equal(w.failed, 1);
}

/* Both sides are dropped, with what is still queued. */
static void
test_what_may_not_move_drops_both_sides(void **state)
{
    (void)state;
    w.sent_max = GOT_LEN - 1;
    dial();
    say(&w.client, GET);
    assert_string_equal(w.client.text, "");
    over();
    assert_int_equal(w.sent, GOT_LEN);
    w.ops.moved = NULL;
    dial();
    say(&w.client, GET);
    say(&w.server, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_string_equal(w.client.text, "HTTP/1.1 204 No Content\r\n\r\n");
}

/* -------------------------------------------------------- who says no more */

static void
test_a_client_that_has_said_all_is_answered(void **state)
{
    (void)state;
    dial();
    say(&w.client, GET);
    assert_int_equal(shutdown(w.client.fd, SHUT_WR), 0);
    settle();
    assert_non_null(w.x);
    say(&w.server, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    assert_string_equal(w.client.text,
                        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    over();
}

static void
test_a_client_that_leaves_takes_its_server_along(void **state)
{
    static const char *const asks[] = {
        GET,
        "PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nab",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(asks); i++) {
        dial();
        say(&w.client, asks[i]);
        assert_non_null(w.x);
        assert_int_equal(close(w.client.fd), 0);
        w.client.fd = -1;
        settle();
        assert_null(w.x);
        assert_true(w.server.ended);
        assert_int_equal(w.gone, 1);
        assert_int_equal(w.failed, 0);
    }
}

/* The rest of a body is not to come: half of it is no request. */
static void
test_a_client_that_ends_in_its_body_is_dropped(void **state)
{
    (void)state;
    dial();
    say(&w.client, "PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nab");
    assert_int_equal(shutdown(w.client.fd, SHUT_WR), 0);
    settle();
    assert_true(w.client.ended);
    assert_string_equal(w.client.text, "");
    assert_string_equal(w.server.text,
                        "PUT /a HTTP/1.1\r\nVia: test\r\nContent-Length: 3\r\n"
                        "Connection: close\r\n\r\nab");
    assert_true(w.server.ended);
}

/* Asks, lets the server say something, and waits for the end that a clock
 * brings about. */
static void
until_late(const char *ask, const char *answer, const char *expected,
           uint32_t failed)
{
    dial();
    say(&w.client, ask);
    say(&w.server, answer);
    wait_end();
    assert_string_equal(w.client.text, expected);
    assert_int_equal(w.failed, failed);
    over();
}

#define LATE                                                                   \
    ERROR_HEAD("504 Gateway Timeout", "44")                                    \
    "{\"error\":\"the test did not answer in time\"}\n"

static void
test_an_answer_is_waited_for_from_the_end_of_the_request(void **state)
{
    (void)state;
    w.config.answer_timeout_ns = 20 * WP_NS_PER_MS;
    until_late(GET, "", LATE, 1);
    until_late("PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "", LATE, 1);
    until_late(GET, "HTTP/1.1 102 Processing\r\n\r\n",
               "HTTP/1.1 102 Processing\r\n\r\n" LATE, 1);
}

static void
test_a_body_that_stalls_is_answered_408(void **state)
{
    (void)state;
    w.config.idle_timeout_ns = 20 * WP_NS_PER_MS;
    until_late("PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", "",
               ERROR_HEAD("408 Request Timeout",
                          "42") "{\"error\":\"the body did not come in "
                                "time\"}\n",
               0);
}

static void
test_a_silence_is_bounded_once_there_is_an_answer(void **state)
{
    (void)state;
    w.config.silence_timeout_ns = 20 * WP_NS_PER_MS;
    until_late(GET, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
               "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", 1);
    until_late("CONNECT h:1 HTTP/1.1\r\n\r\n", "", "HTTP/1.1 200 OK\r\n\r\n",
               1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_that_both_sides_see, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_all_that_both_sides_see_of_a_failure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_sixteen_heads_may_come_before_the_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_head_has_16384_bytes_at_most,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_connection_takes_the_next_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_an_upgrade_that_is_granted_is_a_tunnel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_connect_is_a_tunnel, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_tunnel_holds_64_KiB_each_way,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_body_on_its_way_is_bounded,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_tunnel_that_the_server_closes_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_server_that_is_not_reached_is_tried_as_often_as_wished,
            set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_no_memory_for_a_connection_is_a_failure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_failure_of_the_owner_is_told_in_his_words, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(test_what_may_not_move_drops_both_sides,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_client_that_has_said_all_is_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_client_that_leaves_takes_its_server_along, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_client_that_ends_in_its_body_is_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_an_answer_is_waited_for_from_the_end_of_the_request, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(test_a_body_that_stalls_is_answered_408,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_silence_is_bounded_once_there_is_an_answer, set_up,
            tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
