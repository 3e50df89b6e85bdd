/* The life of a connection of the HTTP server: its timers, what is asked of the
 * socket, what the handler is told and what the client hears, in order, compared
 * whole with golden/life_*.txt. No timer runs by itself: a test lets it run out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "proto/formats/http_server.h"
#include "proto/sockets/accept.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"

enum {
    CLIENTS = 4,
    EVENTS = 64,
    STILL_ROUNDS = 10,
    BODY_MAX = 4,
};

static struct {
    struct event *event;
    char name[16];
    bool armed;
} events[EVENTS];
static uint32_t n_events;

static struct event_base *base;
static struct wp_http_server *server;
static struct sockaddr_un at;
static socklen_t at_len;
static int clients[CLIENTS];
static bool ended[CLIENTS];
static struct wp_http_req *req; /* The latest that was routed. */

static const char *refusal;
static bool stays; /* Clients do not close when they have seen the end. */
static bool over_tcp;
static bool exhausted;
static bool listens;
static int file; /* Its end is told. */
static unsigned fails_in;

/* --------------------------------------------------- what lies below */

#define WRAPPED(type, name, ...)                                               \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __real_##name(__VA_ARGS__)

WRAPPED(struct event *, event_new, struct event_base *of, evutil_socket_t fd,
        short what, event_callback_fn fn, void *ctx);
WRAPPED(int, event_add, struct event *event, const struct timeval *tv);
WRAPPED(int, event_del, struct event *event);
WRAPPED(void, event_free, struct event *event);
WRAPPED(int, bufferevent_set_timeouts, struct bufferevent *bev,
        const struct timeval *read_tv, const struct timeval *write_tv);
WRAPPED(void, bufferevent_trigger, struct bufferevent *bev, short what,
        int options);
WRAPPED(int, shutdown, int fd, int how);
WRAPPED(int, setsockopt, int fd, int level, int name, const void *value,
        socklen_t len);
WRAPPED(int, close, int fd);
WRAPPED(int, listen, int fd, int backlog);
WRAPPED(enum wp_accept, wp_accept_next, int listen_fd, int *fd,
        struct sockaddr_storage *peer);
WRAPPED(void *, calloc, size_t n, size_t size);
WRAPPED(void *, malloc, size_t size);
WRAPPED(char *, strndup, const char *text, size_t max);
WRAPPED(struct evbuffer *, evbuffer_new, void);
WRAPPED(unsigned char *, evbuffer_pullup, struct evbuffer *buf,
        ev_ssize_t size);
WRAPPED(int, evbuffer_add, struct evbuffer *buf, const void *data, size_t len);
WRAPPED(struct bufferevent *, bufferevent_socket_new, struct event_base *of,
        evutil_socket_t fd, int options);

static bool
fails(void)
{
    return fails_in > 0 && --fails_in == 0;
}

static long
ms_of(const struct timeval *tv)
{
    return tv != NULL ? tv->tv_sec * 1000 + tv->tv_usec / 1000 : -1;
}

static uint32_t
index_of(const struct event *event)
{
    uint32_t i = 0;

    while (i < n_events && events[i].event != event) {
        i++;
    }
    assert_true(i < n_events);
    return i;
}

struct event *
__wrap_event_new(struct event_base *of, evutil_socket_t fd, short what,
                 event_callback_fn fn, void *ctx)
{
    struct event *event =
        fails() ? NULL : __real_event_new(of, fd, what, fn, ctx);
    const char *kind = fd < 0 && (what & EV_PERSIST) != 0 ? "half"
                       : fd < 0                           ? "timer"
                       : (what & EV_CLOSED) != 0          ? "left"
                                                          : "listen";

    if (event != NULL) {
        assert_true(n_events < EVENTS);
        events[n_events].event = event;
        events[n_events].armed = false;
        (void)snprintf(events[n_events].name, sizeof events[n_events].name,
                       "%s%u", kind, n_events);
        n_events++;
    }
    return event;
}

int
__wrap_event_add(struct event *event, const struct timeval *tv)
{
    uint32_t i = index_of(event);

    events[i].armed = true;
    journal(" +%s(%ld)", events[i].name, ms_of(tv));
    return fails() ? -1 : tv != NULL ? 0 : __real_event_add(event, NULL);
}

int
__wrap_event_del(struct event *event)
{
    uint32_t i = index_of(event);

    if (events[i].armed) {
        journal(" -%s", events[i].name);
    }
    events[i].armed = false;
    return __real_event_del(event);
}

void
__wrap_event_free(struct event *event)
{
    uint32_t i = index_of(event);

    journal(" end(%s)", events[i].name);
    events[i].event = NULL;
    __real_event_free(event);
}

int
__wrap_bufferevent_set_timeouts(struct bufferevent *bev,
                                const struct timeval *read_tv,
                                const struct timeval *write_tv)
{
    assert_non_null(bev);
    journal(" stall(%ld,%ld)", ms_of(read_tv), ms_of(write_tv));
    return 0;
}

void
__wrap_bufferevent_trigger(struct bufferevent *bev, short what, int options)
{
    journal(" again(%s%s,%d)", (what & EV_READ) != 0 ? "r" : "",
            (what & EV_WRITE) != 0 ? "w" : "", options);
    __real_bufferevent_trigger(bev, what, options);
}

int
__wrap_shutdown(int fd, int how)
{
    journal(" shutdown(%d)", how);
    return __real_shutdown(fd, how);
}

int
__wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    int number;

    assert_true(fd >= 0);
    assert_int_equal(len, sizeof number);
    memcpy(&number, value, sizeof number);
    journal(" opt(%d,%d,%d)", level, name, number);
    errno = EOPNOTSUPP;
    return over_tcp ? 0 : -1;
}

int
__wrap_close(int fd)
{
    if (fd == file) {
        journal(" close(file)");
        file = -1;
    }
    return __real_close(fd);
}

int
__wrap_listen(int fd, int backlog)
{
    journal(" listen(%d)", backlog);
    errno = EADDRINUSE;
    return listens ? __real_listen(fd, backlog) : -1;
}

enum wp_accept
__wrap_wp_accept_next(int listen_fd, int *fd, struct sockaddr_storage *peer)
{
    enum wp_accept taken = exhausted
                               ? WP_ACCEPT_EXHAUSTED
                               : __real_wp_accept_next(listen_fd, fd, peer);

    journal(" accept=%d", (int)taken);
    return taken;
}

#define MAY_FAIL(type, none, name, params, args)                               \
    type __wrap_##name params                                                  \
    {                                                                          \
        return fails() ? (none) : __real_##name args;                          \
    }

MAY_FAIL(void *, NULL, calloc, (size_t n, size_t size), (n, size))
MAY_FAIL(void *, NULL, malloc, (size_t size), (size))
MAY_FAIL(char *, NULL, strndup, (const char *text, size_t max), (text, max))
MAY_FAIL(struct evbuffer *, NULL, evbuffer_new, (void), ())
MAY_FAIL(unsigned char *, NULL, evbuffer_pullup,
         (struct evbuffer * buf, ev_ssize_t size), (buf, size))
MAY_FAIL(int, -1, evbuffer_add,
         (struct evbuffer * buf, const void *data, size_t len),
         (buf, data, len))
MAY_FAIL(struct bufferevent *, NULL, bufferevent_socket_new,
         (struct event_base * of, evutil_socket_t fd, int options),
         (of, fd, options))

/* ------------------------------------------------------------- the handler */

static void
on_begin(struct wp_http_req *of)
{
    journal(" begin(%d)", of == req);
    if (strcmp(wp_http_path(of), "/early") == 0) {
        wp_http_reply(of, 200, "text/plain", "early", 5);
    }
}

static void
on_body(struct wp_http_req *of, const char *data, size_t len)
{
    journal(" body(%d,", of == req);
    journal_bytes(data, len);
    journal(")");
}

static void
on_ready(struct wp_http_req *of)
{
    size_t len;
    const char *body = wp_http_body(of, &len);

    journal(" ready(%d,", of == req);
    journal_bytes(body, len);
    journal(")");
}

static void
on_gone(struct wp_http_req *of)
{
    journal(" gone(%d,%s)", of == req, (const char *)wp_http_user(of));
    req = NULL;
}

static void
on_input(struct wp_http_req *of, struct evbuffer *in)
{
    char text[64];
    int n = evbuffer_remove(in, text, sizeof text);

    journal(" input(%d,", of == req);
    journal_bytes(text, n > 0 ? (size_t)n : 0);
    journal(")");
}

static void
on_drained(struct wp_http_req *of)
{
    journal(" drained(%d)", of == req);
}

static void
on_event(struct wp_http_req *of, short what)
{
    journal(" event(%d,%x)", of == req, (unsigned)what);
}

static void
on_late(struct wp_http_req *of)
{
    journal(" late(%d)", of == req);
}

static const struct wp_http_stream_ops stream = {.input = on_input,
                                                 .drained = on_drained,
                                                 .event = on_event,
                                                 .late = on_late};
static const struct wp_http_stream_ops silent = {.late = on_late};

static const struct wp_http_ops *
route(struct wp_http_req *of)
{
    static const struct wp_http_ops whole = {
        .body_max = BODY_MAX, .ready = on_ready, .gone = on_gone};
    static const struct wp_http_ops pieces = {.body_max = BODY_MAX,
                                              .begin = on_begin,
                                              .body = on_body,
                                              .ready = on_ready,
                                              .gone = on_gone};
    static const struct wp_http_ops mute = {.body_max = BODY_MAX,
                                            .ready = on_ready};
    struct wp_str query = wp_http_query(of);
    const char *x = wp_http_header(of, "x");

    journal(" route(%s %s ?%.*s x:%s roles:%u app:%s user:%s)",
            wp_http_method(of), wp_http_path(of), WP_STR_ARG(query),
            x != NULL ? x : "none", wp_http_roles(of),
            (const char *)wp_http_app(of),
            wp_http_user(of) != NULL ? "left over" : "none");
    if (strcmp(wp_http_path(of), "/none") == 0) {
        wp_http_reply_error(of, 404, "nothing at '%s'", wp_http_path(of));
        return NULL;
    }
    req = of;
    wp_http_set_user(of, "U");
    return strcmp(wp_http_path(of), "/whole") == 0  ? &whole
           : strcmp(wp_http_path(of), "/mute") == 0 ? &mute
                                                    : &pieces;
}

static const char *
admit(struct wp_http_req *of, int fd, const struct sockaddr *peer)
{
    const unsigned char *bytes = wp_http_peer(of);

    journal(" admit(%d,%d)", fd >= 0, peer->sa_family);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(bytes[i], 0);
    }
    memset(wp_http_peer(of), 'p', 8);

    return refusal;
}

static void
left(struct wp_http_req *of)
{
    journal(" left(%.8s)", (const char *)wp_http_peer(of));
}

/* ---------------------------------------------------------------- the rig */

static void
hear(int i, int *still)
{
    char text[8192];
    ssize_t n;

    if (clients[i] < 0 || ended[i]) {
        return;
    }
    n = recv(clients[i], text, sizeof text, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    *still = 0;
    journal(" %c:", 'A' + i);
    if (n > 0) {
        journal_bytes(text, (size_t)n);
    } else {
        journal("END");
        ended[i] = stays;
        if (!stays) {
            (void)__real_close(clients[i]);
            clients[i] = -1;
        }
    }
}

static void
settle(const char *what)
{
    struct wp_http_server_stats stats;

    journal("= %s:", what);
    for (int still = 0; still < STILL_ROUNDS; still++) {
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
        for (int i = 0; i < CLIENTS; i++) {
            hear(i, &still);
        }
    }
    stats = wp_http_server_stats(server);
    journal(" [%llu-%llu %llu %u]", (unsigned long long)stats.connections_total,
            (unsigned long long)stats.connections_refused,
            (unsigned long long)stats.requests_total, stats.connections);
    journal_line();
}

static void
dial(int i)
{
    if (clients[i] >= 0) {
        (void)__real_close(clients[i]);
    }
    ended[i] = false;
    clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(clients[i], (const struct sockaddr *)&at, at_len),
                     0);
    settle("dial");
}

static void
say(int i, const char *text)
{
    size_t len = strlen(text);

    if (clients[i] >= 0) {
        assert_int_equal(send(clients[i], text, len, MSG_NOSIGNAL), len);
    }
    settle(len > 200 ? "long" : text);
}

static void
half_close(int i)
{
    assert_int_equal(__real_shutdown(clients[i], SHUT_WR), 0);
    settle("half");
}

static void
leave(int i)
{
    if (clients[i] >= 0) {
        assert_int_equal(__real_close(clients[i]), 0);
    }
    clients[i] = -1;
    settle("leave");
}

/* The latest that is set of its kind runs out. */
static void
fire(const char *kind)
{
    uint32_t i = n_events;

    while (i > 0 && (events[i - 1].event == NULL || !events[i - 1].armed ||
                     strncmp(events[i - 1].name, kind, strlen(kind)) != 0)) {
        i--;
    }
    assert_true(i > 0);
    i--;
    events[i].armed = (event_get_events(events[i].event) & EV_PERSIST) != 0;
    event_active(events[i].event, EV_TIMEOUT, 1);
    settle(kind);
}

static int
listener(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    /* An abstract name of the kernel's choice. */
    at = (struct sockaddr_un){.sun_family = AF_UNIX};
    at_len = sizeof at;
    assert_int_equal(
        bind(fd, (const struct sockaddr *)&at, sizeof at.sun_family), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &at_len), 0);
    return fd;
}

static struct wp_http_server_config
usual(void)
{
    return (struct wp_http_server_config){.base = base,
                                          .route = route,
                                          .admit = admit,
                                          .left = left,
                                          .peer_size = 8,
                                          .app = "app",
                                          .conns_max = 2,
                                          .fields_max = 3,
                                          .head_timeout_ns = 1 * WP_NS_PER_S,
                                          .body_timeout_ns = 2 * WP_NS_PER_S,
                                          .idle_timeout_ns = 3 * WP_NS_PER_S,
                                          .send_timeout_ns = 4 * WP_NS_PER_S};
}

static void
serve(const struct wp_http_server_config *config)
{
    struct wp_err err;

    server = wp_http_server_create(config);
    assert_non_null(server);
    assert_int_equal(wp_http_server_listen(server, listener(), 5, &err), WP_OK);
}

static int
set_up(void **state)
{
    (void)state;
    base = event_base_new();
    n_events = 0;
    fails_in = 0;
    refusal = NULL;
    stays = over_tcp = exhausted = false;
    listens = true;
    file = -1;
    server = NULL;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = -1;
    }
    journal_drop();
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        if (clients[i] >= 0) {
            (void)__real_close(clients[i]);
        }
    }
    event_base_free(base);
    return 0;
}

static void
is_golden(const char *name)
{
    char path[4096];

    journal("= destroy:");
    wp_http_server_destroy(server);
    journal_line();
    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/life_%s.txt", name);
    journal_compare(path);
}

static void
start(void)
{
    struct wp_http_server_config config = usual();

    serve(&config);
}

static void
reply(const char *text)
{
    if (req != NULL && !wp_http_replied(req)) {
        wp_http_reply(req, 200, "text/plain", text, strlen(text));
    }
    settle("reply");
}

/* ------------------------------------------------------------------ tests */

static void
test_requests_come_one_after_the_other(void **state)
{
    (void)state;
    start();
    dial(0);
    say(0, "GET /whole?a=b#c HTTP/1.1\r\nX: 1\r\n\r\n");
    reply("one");
    say(0, "\r\n\nPOST /whole HTTP/1.1\r\nContent-Length: 4\r\n\r\nab");
    say(0, "cd");
    reply("two");
    say(0, "POST /pieces HTTP/1.1\r\nContent-Length: 4\r\n"
           "Expect: 100-continue\r\n\r\n");
    say(0, "ab");
    say(0, "cdGET /mute HTTP/1.1\r\n\r\nGET /none? HTTP/1.1\r\n\r\n");
    reply("three");
    reply("four");
    say(0, "HEAD /whole HTTP/1.1\r\n\r\n");
    reply("five");
    dial(1);
    say(1, "GET /none HTTP/1.1\r\n\r\n");
    say(1, "BAD\r\n\r\n");
    say(0, "POST /early HTTP/1.1\r\nContent-Length: 4\r\n\r\n");
    dial(1);
    say(1, "GET /whole HTTP/1.1\r\nConnection: close\r\n\r\n");
    reply("");
    leave(1);
    dial(1);
    say(1, "GET /whole HTTP/1.0\r\n\r\n");
    leave(1);
    is_golden("requests");
}

static void
test_each_phase_has_its_time(void **state)
{
    (void)state;
    start();
    stays = true;
    dial(0);
    fire("timer");
    fire("timer");
    dial(0);
    say(0, "GET");
    fire("timer");
    say(0, "what is not read");
    fire("timer");
    dial(0);
    say(0, "POST /whole HTTP/1.1\r\nContent-Length: 2\r\n\r\na");
    fire("timer");
    fire("timer");
    dial(0);
    say(0, "GET /whole HTTP/1.1\r\n\r\n");
    reply("x");
    say(0, "G");
    fire("timer");
    half_close(0);
    dial(0);
    say(0, "GET /whole HTTP/1.1\r\n\r\n");
    reply("x");
    say(0, "\r\n");
    fire("timer");
    is_golden("times");
}

/* A client over TCP is sent the beginning of what comes anyway. */
static void
test_a_client_that_has_said_all_is_looked_for(void **state)
{
    (void)state;
    start();
    for (int tcp = 0; tcp <= 1; tcp++) {
        over_tcp = tcp == 1;
        dial(0);
        say(0, "GET /whole HTTP/1.1\r\n\r\n");
        half_close(0);
        for (int i = 0; i < 9; i++) {
            fire("half");
        }
        wp_http_half_closed(req);
        settle("again");
        reply("x");
    }
    dial(0);
    say(0, "GET /whole HTTP/1.1\r\n\r\n");
    half_close(0);
    for (int i = 0; i < 300; i++) {
        fire("half");
    }
    reply("x");
    dial(0);
    say(0, "GET /whole HTTP/1.1\r\nConnection: close\r\n\r\n");
    half_close(0);
    leave(0);
    fire("half");
    dial(0);
    half_close(0);
    dial(0);
    say(0, "GET /wh");
    half_close(0);
    dial(0);
    say(0, "POST /whole HTTP/1.1\r\nContent-Length: 2\r\n\r\na");
    half_close(0);
    is_golden("half");
}

static void
test_what_is_too_much_is_refused(void **state)
{
    static char head[WP_HTTP_HEAD_MAX + 2];
    static const char *const asks[] = {
        "POST /whole HTTP/1.1\r\nContent-Length: 4\r\n\r\nabcd",
        "POST /whole HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde",
        "POST /whole HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n",
        "POST /whole HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n",
        "POST /whole HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nz",
        "GET /whole HTTP/1.1\r\nA: 1\r\nB: 2\r\nX:\r\n\r\n",
        "GET /whole HTTP/1.1\r\nA: 1\r\nB: 2\r\nX: 3\r\nD: 4\r\n\r\n",
        "GET http://h/whole HTTP/1.1\r\n\r\n",
        "BAD\r\n\r\n",
    };

    (void)state;
    start();
    for (size_t i = 0; i < WP_ARRAY_LEN(asks); i++) {
        dial(0);
        say(0, asks[i]);
        reply("fits");
        leave(0);
    }
    for (int more = 0; more <= 1; more++) {
        int n = snprintf(head, sizeof head, "GET /whole HTTP/1.1\r\nA: ");

        memset(head + n, 'a', sizeof head - (size_t)n);
        memcpy(head + WP_HTTP_HEAD_MAX - 4 + more, "\r\n\r\n", 5);
        dial(0);
        say(0, head);
        reply("fits");
        leave(0);
    }
    is_golden("limits");
}

static void
on_end(void *arg)
{
    journal(" drained(%s)", (const char *)arg);
}

static void
test_connections_wait_when_there_are_as_many_as_may_be(void **state)
{
    struct heard heard;
    struct wp_err err;
    const char *text;

    (void)state;
    start();
    dial(0);
    dial(1);
    dial(2);
    leave(0);
    say(2, "GET /none HTTP/1.1\r\n\r\n");
    leave(2);
    exhausted = true;
    heard_begin(&heard);
    dial(0);
    fire("timer1");
    exhausted = false;
    fire("timer1");
    exhausted = true;
    leave(0);
    dial(0);
    text = heard_end(&heard);
    journal("%s", text);
    journal_line();
    exhausted = false;
    fire("timer1");
    refusal = "not \"you\"";
    leave(0);
    dial(0);
    refusal = NULL;
    /* While all are in use, what resumes takes no more. */
    leave(0);
    dial(0);
    assert_int_equal(wp_http_server_listen(server, listener(), 9, &err), WP_OK);
    settle("more");
    wp_http_server_unlisten(server, 5);
    settle("unlisten");
    dial(2);
    say(2, "GET /whole HTTP/1.1\r\n\r\n");
    dial(3);
    wp_http_server_drain(server, on_end, "D");
    settle("drain");
    reply("last");
    leave(2);
    is_golden("many");
}

static void
test_a_drain_of_nobody_ends_at_once(void **state)
{
    struct wp_err err;

    (void)state;
    start();
    listens = false;
    assert_int_equal(wp_http_server_listen(server, listener(), 9, &err),
                     WP_RESOURCE_EXHAUSTED);
    journal("%s", err.msg);
    listens = true;
    for (unsigned n = 1; n <= 3; n++) {
        fails_in = n;
        assert_int_equal(wp_http_server_listen(server, listener(), 9, &err),
                         WP_RESOURCE_EXHAUSTED);
        journal_line();
    }
    wp_http_server_drain(server, on_end, "D");
    settle("drain");
    is_golden("nobody");
}

static void
test_a_connection_that_is_taken_over_is_its_owners(void **state)
{
    (void)state;
    start();
    dial(0);
    say(0, "POST /take HTTP/1.1\r\nContent-Length: 4\r\n\r\na");
    wp_http_take(req, &stream);
    assert_null(wp_http_message(req)->on_body);
    settle("take");
    wp_http_set_deadline(req, 7 * WP_NS_PER_S);
    say(0, "b");
    fire("timer");
    wp_http_stream_read(req, false);
    say(0, "c");
    wp_http_stream_read(req, true);
    settle("read");
    half_close(0);
    (void)evbuffer_add(wp_http_stream_output(req), "out", 3);
    settle("out");
    wp_http_stream_end(req);
    settle("end");
    dial(0);
    say(0, "GET /up HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: ws\r\n\r\nx");
    assert_true(wp_http_wants_upgrade(req, "WS"));
    assert_false(wp_http_wants_upgrade(req, "w"));
    wp_http_upgrade(req, "ws", &stream);
    settle("upgrade");
    fire("left");
    dial(0);
    say(0, "GET /up HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: ws\r\n\r\n");
    wp_http_upgrade(req, "ws", &silent);
    settle("upgrade");
    say(0, "more");
    leave(0);
    is_golden("streams");
}

static void
test_an_answer_in_pieces(void **state)
{
    static const char *const asks[] = {
        "GET /p HTTP/1.1\r\n\r\n",
        "GET /p HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "GET /p HTTP/1.1\r\nConnection: close\r\n\r\n",
    };

    (void)state;
    start();
    for (size_t i = 0; i < WP_ARRAY_LEN(asks); i++) {
        dial(0);
        say(0, asks[i]);
        wp_http_add_header(req, "X", "y");
        wp_http_pieces_begin(req, 201, "text/x", &silent);
        settle("begin");
        wp_http_piece(req, "", 0);
        wp_http_piece(req, "0123456789abcdef", 16);
        settle("piece");
        say(0, "GET /whole HTTP/1.1\r\n\r\n");
        wp_http_pieces_end(req);
        settle("end");
        reply("next");
        leave(0);
    }
    dial(0);
    say(0, asks[0]);
    wp_http_pieces_begin(req, 200, "text/x", &silent);
    wp_http_server_drain(server, on_end, "D");
    wp_http_pieces_end(req);
    settle("end");
    leave(0);
    is_golden("pieces");
}

static int
a_file(size_t size)
{
    int fd = memfd_create("page", MFD_CLOEXEC);

    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(pwrite(fd, "0123456789", 10, 0), 10);
    return fd;
}

static void
test_a_file_is_sent_and_closed(void **state)
{
    (void)state;
    start();
    dial(0);
    say(0, "GET /f HTTP/1.1\r\n\r\n");
    file = a_file(10);
    wp_http_reply_file(req, file, 10);
    settle("file");
    say(0, "GET /f HTTP/1.1\r\n\r\n");
    file = a_file(10);
    wp_http_reply_file_part(req, file, 3, 4);
    settle("part");
    say(0, "HEAD /f HTTP/1.1\r\n\r\n");
    file = a_file(10);
    wp_http_reply_file(req, file, 10);
    settle("head");
    say(0, "GET /f HTTP/1.1\r\n\r\n");
    file = a_file(10);
    wp_http_reply_file(req, file, 0);
    settle("empty");
    say(0, "GET /f HTTP/1.1\r\n\r\n");
    file = a_file(10);
    wp_http_reply_file(req, file, 11);
    settle("short");
    leave(0);
    /* The client leaves before the end of it. Descriptor 0 is one, too. */
    for (int zero = 0; zero <= 1; zero++) {
        int stdin_fd = dup(STDIN_FILENO);

        dial(0);
        say(0, "GET /f HTTP/1.1\r\n\r\n");
        file = a_file((size_t)4 << 20);
        if (zero == 1) {
            assert_int_equal(dup2(file, STDIN_FILENO), STDIN_FILENO);
            (void)__real_close(file);
            file = STDIN_FILENO;
        }
        wp_http_reply_file(req, file, (uint64_t)4 << 20);
        (void)__real_close(clients[0]);
        clients[0] = -1;
        settle("leave");
        assert_int_equal(file, -1);
        if (stdin_fd >= 0) {
            assert_int_equal(dup2(stdin_fd, STDIN_FILENO), STDIN_FILENO);
            (void)__real_close(stdin_fd);
        }
    }
    is_golden("files");
}

/* With the n-th of all that needs memory failing. */
static void
test_no_memory_ends_what_needs_it(void **state)
{
    struct wp_http_server_config config = usual();
    unsigned n;

    (void)state;
    for (n = 1; n <= 3; n++) {
        fails_in = n;
        assert_null(wp_http_server_create(&config));
        journal_line();
    }
    start();
    for (n = 1; n < 12; n++) {
        fails_in = n;
        dial(0);
        say(0, "POST /whole HTTP/1.1\r\nContent-Length: 2\r\n\r\nab");
        fails_in = 0;
        reply("x");
        leave(0);
    }
    is_golden("memory");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(test_requests_come_one_after_the_other),
        TEST(test_each_phase_has_its_time),
        TEST(test_a_client_that_has_said_all_is_looked_for),
        TEST(test_what_is_too_much_is_refused),
        TEST(test_connections_wait_when_there_are_as_many_as_may_be),
        TEST(test_a_drain_of_nobody_ends_at_once),
        TEST(test_a_connection_that_is_taken_over_is_its_owners),
        TEST(test_an_answer_in_pieces),
        TEST(test_a_file_is_sent_and_closed),
        TEST(test_no_memory_ends_what_needs_it),
    };

    (void)signal(SIGPIPE, SIG_IGN); /* As the daemons have it. */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
