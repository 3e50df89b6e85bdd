/* One connection of the HTTP/2 server, with all that it calls replaced: the
 * socket, the loop, TLS, the session and the clock. What it asks of them, and
 * what it knows after, is compared whole with golden/conn_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/h2/internal.h"
#include "tests/support/base/journal.h"
#include "tests/support/pool/manual_clock.h"

enum {
    FD = 1234,
    LAST = -99, /* Ends a script: what follows says "again". */
};

static struct wp_h2_server server;
static struct wp_h2_worker worker;
static struct wp_clock_manual hands;
static struct wp_h2_conn *conn;
static char session; /* Stands for one. */
static char ssl;     /* So does this. */

static const ssize_t *incoming; /* What the socket gives, each time. */
static const ssize_t *outgoing; /* What it takes. */
static const size_t *frames;    /* What the session has to send. */
static bool judged_bad;         /* The session is doomed by what it reads. */
static int64_t debt_ns;
static bool more; /* TLS holds more. */
static bool wants_read;
static bool wants_write;
static unsigned malloc_fails_in;
static unsigned calloc_fails_in;

/* --------------------------------------------------- what lies below */

bool __wrap_wp_h2_session_receive(struct wp_h2_conn *at, const uint8_t *bytes,
                                  size_t len);
size_t __wrap_wp_h2_session_produce(struct wp_h2_conn *at, uint8_t *buf,
                                    size_t cap);
void __wrap_wp_h2_session_goodbye(struct wp_h2_conn *at);
void __wrap_wp_h2_session_ping(struct wp_h2_conn *at);
int64_t __wrap_wp_h2_session_debt_ns(struct wp_h2_conn *at, int64_t now_ns);
void __wrap_wp_h2_session_end(struct wp_h2_conn *at);
void __wrap_wp_h2_worker_settle(struct wp_h2_worker *at);
void __wrap_wp_peer_limits_leave(struct wp_peer_limits *limits,
                                 struct wp_peer_ticket ticket);
void __wrap_wp_peer_limits_watch(struct wp_peer_limits *limits,
                                 struct wp_peer_ticket ticket, int64_t now_ns);
ssize_t __wrap_recv(int fd, void *buf, size_t cap, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);
int __wrap_shutdown(int fd, int how);
int __wrap_close(int fd);
int __real_close(int fd);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_del(struct event *event);
void __wrap_event_active(struct event *event, int what, short calls);
int __wrap_nghttp2_session_want_read(nghttp2_session *at);
int __wrap_nghttp2_session_want_write(nghttp2_session *at);
void *__wrap_malloc(size_t size);
void *__real_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);

static const char *
name_of(const struct event *event)
{
    return event == &conn->on_read    ? "read"
           : event == &conn->on_write ? "write"
           : event == &conn->on_timer ? "timer"
                                      : "resume";
}

bool
__wrap_wp_h2_session_receive(struct wp_h2_conn *at, const uint8_t *bytes,
                             size_t len)
{
    assert_ptr_equal(at, conn);
    assert_ptr_equal(bytes, worker.in);
    journal(" judge(%zu)", len);
    conn->session = (nghttp2_session *)(void *)&session;
    return !judged_bad;
}

size_t
__wrap_wp_h2_session_produce(struct wp_h2_conn *at, uint8_t *buf, size_t cap)
{
    size_t n = frames != NULL ? *frames : 0;

    assert_ptr_equal(at, conn);
    assert_ptr_equal(buf, worker.out);
    if (n > 0) {
        frames++;
    }
    for (size_t i = 0; i < n; i++) {
        buf[i] = (uint8_t)('a' + i % 26);
    }
    journal(" frame(%zu)=%zu", cap, n);
    return n;
}

static void
told(const struct wp_h2_conn *at, const char *what)
{
    assert_ptr_equal(at, conn);
    journal(" %s", what);
}

void
__wrap_wp_h2_session_goodbye(struct wp_h2_conn *at)
{
    told(at, "goodbye");
}

void
__wrap_wp_h2_session_ping(struct wp_h2_conn *at)
{
    told(at, "ping");
}

int64_t
__wrap_wp_h2_session_debt_ns(struct wp_h2_conn *at, int64_t now_ns)
{
    assert_ptr_equal(at, conn);
    assert_true(now_ns == hands.now_mono_ns);
    return debt_ns;
}

void
__wrap_wp_h2_session_end(struct wp_h2_conn *at)
{
    told(at, "end-session");
    conn->session = NULL;
}

void
__wrap_wp_h2_worker_settle(struct wp_h2_worker *at)
{
    assert_ptr_equal(at, &worker);
    journal(" settle");
}

void
__wrap_wp_peer_limits_leave(struct wp_peer_limits *limits,
                            struct wp_peer_ticket ticket)
{
    assert_ptr_equal(limits, server.limits);
    journal(" leave(%u,%u)", ticket.entry, ticket.share);
}

void
__wrap_wp_peer_limits_watch(struct wp_peer_limits *limits,
                            struct wp_peer_ticket ticket, int64_t now_ns)
{
    assert_ptr_equal(limits, server.limits);
    assert_true(now_ns == hands.now_mono_ns);
    journal(" watch(%u,%u)", ticket.entry, ticket.share);
}

/* The next of a script: a count, or the negative of an errno. */
static ssize_t
next_of(const ssize_t **script)
{
    ssize_t n = *script != NULL ? **script : LAST;

    if (n == LAST) {
        return -EAGAIN;
    }
    (*script)++;
    return n;
}

static ssize_t
as_call(ssize_t n)
{
    if (n < 0) {
        errno = (int)-n;
        return -1;
    }
    return n;
}

ssize_t
__wrap_recv(int fd, void *buf, size_t cap, int flags)
{
    ssize_t n = next_of(&incoming);

    assert_int_equal(fd, FD);
    assert_ptr_equal(buf, worker.in);
    journal(" recv(%zu,%x)=%zd", cap, (unsigned)flags, n);
    return as_call(n);
}

static ssize_t
take(const char *what, const void *buf, size_t len)
{
    ssize_t n = next_of(&outgoing);

    if (n > (ssize_t)len) {
        n = (ssize_t)len;
    }
    journal(" %s(%zu:%.3s)=%zd", what, len, (const char *)buf, n);
    return n;
}

ssize_t
__wrap_send(int fd, const void *buf, size_t len, int flags)
{
    assert_int_equal(fd, FD);
    assert_int_equal(flags, MSG_NOSIGNAL);
    return as_call(take("send", buf, len));
}

int
__wrap_shutdown(int fd, int how)
{
    assert_int_equal(fd, FD);
    assert_int_equal(how, SHUT_WR);
    journal(" shutdown");
    return 0;
}

int
__wrap_close(int fd)
{
    if (fd != FD) {
        return __real_close(fd);
    }
    journal(" close");
    return 0;
}

int
__wrap_event_add(struct event *event, const struct timeval *tv)
{
    journal(" +%s", name_of(event));
    if (tv != NULL) {
        journal("(%lld.%06ld)", (long long)tv->tv_sec, (long)tv->tv_usec);
    }
    return 0;
}

int
__wrap_event_del(struct event *event)
{
    journal(" -%s", name_of(event));
    return 0;
}

void
__wrap_event_active(struct event *event, int what, short calls)
{
    assert_int_equal(what, EV_READ);
    assert_int_equal(calls, 0);
    journal(" !%s", name_of(event));
}

int
__wrap_nghttp2_session_want_read(nghttp2_session *at)
{
    assert_ptr_equal(at, &session);
    return wants_read;
}

int
__wrap_nghttp2_session_want_write(nghttp2_session *at)
{
    assert_ptr_equal(at, &session);
    return wants_write;
}

void *
__wrap_malloc(size_t size)
{
    if (malloc_fails_in > 0 && --malloc_fails_in == 0) {
        return NULL;
    }
    return __real_malloc(size);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    if (calloc_fails_in > 0 && --calloc_fails_in == 0) {
        return NULL;
    }
    return __real_calloc(n, size);
}

/* TLS. */

static ssize_t
tls_receive(void *tls, uint8_t *buf, size_t cap)
{
    ssize_t n = next_of(&incoming);

    assert_ptr_equal(tls, &ssl);
    assert_ptr_equal(buf, worker.in);
    journal(" tls-recv(%zu)=%zd", cap, n);
    return n == -EAGAIN ? WP_H2_AGAIN : n < 0 ? WP_H2_GONE : n;
}

static ssize_t
tls_transmit(void *tls, const uint8_t *buf, size_t len)
{
    ssize_t n;

    assert_ptr_equal(tls, &ssl);
    n = take("tls-send", buf, len);
    return n == -EAGAIN ? WP_H2_AGAIN : n < 0 ? WP_H2_GONE : n;
}

static bool
tls_has_more(void *tls)
{
    assert_ptr_equal(tls, &ssl);
    return more;
}

static void
tls_shut(void *tls)
{
    assert_ptr_equal(tls, &ssl);
    journal(" tls-shut");
}

static void
tls_free(void *tls)
{
    assert_ptr_equal(tls, &ssl);
    journal(" tls-free");
}

static const struct wp_h2_tls_ops tls_ops = {
    .receive = tls_receive,
    .transmit = tls_transmit,
    .has_more = tls_has_more,
    .shut = tls_shut,
    .free = tls_free,
};

/* --------------------------------------------------------------- the rig */

#define S WP_NS_PER_S

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/conn_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static void
time_show(const char *name, int64_t ns)
{
    if (ns != 0) {
        journal(" %s %lld.%09lld", name, (long long)(ns / S),
                (long long)(ns % S));
    }
}

/* What it knows, where that is not nothing. */
static void
state_show(void)
{
    static const char *const states[] = {"open", "goodbye", "lingering",
                                         "dead"};

    journal_line();
    journal("   %s%s%s%s%s%s%s%s", states[conn->state],
            conn->dirty ? " dirty" : "", conn->blocked ? " blocked" : "",
            conn->paused ? " paused" : "", conn->served ? " served" : "",
            conn->pinged ? " pinged" : "", conn->aged ? " aged" : "",
            conn->tls != NULL ? " tls" : "");
    time_show("begun", conn->begun_ns);
    time_show("read", conn->read_ns);
    time_show("pinged", conn->pinged_ns);
    time_show("stalled", conn->stalled_ns);
    time_show("goodbye", conn->goodbye_ns);
    journal(" lingered %zu out %zu/%zu slowed %llu cut %llu%s%s",
            conn->lingered, conn->out_at, conn->out_len,
            (unsigned long long)worker.slowed, (unsigned long long)worker.cut,
            worker.dirty == conn ? " in-dirty" : "",
            worker.dead == conn ? " in-dead" : "");
    journal_line();
}

static void
call(struct event *event)
{
    journal("%s:", name_of(event));
    event_get_callback(event)(FD, 0, event_get_callback_arg(event));
    state_show();
}

static void
write_it(void)
{
    journal("write-out:");
    wp_h2_conn_write(conn);
    state_show();
}

/* A new one, of which the journal says nothing. */
static void
make_with(bool tls)
{
    hands.now_mono_ns = 1000 * S;
    incoming = outgoing = NULL;
    frames = NULL;
    judged_bad = more = wants_write = false;
    wants_read = true;
    debt_ns = 0;
    worker.dirty = worker.dead = NULL;
    worker.slowed = worker.cut = 0;
    wp_list_init(&worker.conns);
    conn = wp_h2_conn_create(&server, FD);
    assert_non_null(conn);
    conn->worker = &worker;
    conn->ticket = (struct wp_peer_ticket){5, 6};
    conn->counted = true;
    conn->tls = tls ? &ssl : NULL;
    journal_mute(true);
    wp_h2_conn_begin(conn);
    journal_mute(false);
    hands.now_mono_ns = 1001 * S;
}

static void
make(void)
{
    make_with(false);
}

static void
drop(void)
{
    journal_mute(true);
    wp_h2_conn_free(conn);
    journal_mute(false);
}

static int
begin(void **state)
{
    (void)state;
    wp_clock_manual_init(&hands, 1000 * S, 0);
    memset(&server, 0, sizeof server);
    server.clock = &hands.clock;
    server.config = (struct wp_h2_config){
        .tls = &tls_ops,
        .keepalive_ns = 100 * S,
        .keepalive_timeout_ns = 10 * S,
        .connection_age_max_ns = 300 * S,
        .silent_ns = 37 * S,
    };
    server.handler.peer_size = 24;
    server.limits = (struct wp_peer_limits *)(void *)&server;
    worker.server = &server;
    worker.base = event_base_new();
    assert_non_null(worker.base);
    journal_drop();
    return 0;
}

static int
end(void **state)
{
    (void)state;
    event_base_free(worker.base);
    return 0;
}

/* ----------------------------------------------------------------- tests */

static void
it_begins_and_is_freed(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        make();
        assert_int_equal(server.n_conns, 1);
        assert_int_equal(conn->tokens_x, S);
        assert_true(conn->tokens_ns == 1000 * S);
        assert_ptr_equal(wp_h2_conn_peer(conn), conn->peer);
        assert_ptr_equal(wp_h2_conn_worker(conn), &worker);
        assert_ptr_equal(worker.conns.next, &conn->node);
        for (size_t k = 0; k < 3; k++) {
            assert_true(conn->peer[k] == 0);
        }
        wp_list_remove(&conn->node);
        hands.now_mono_ns = 1000 * S;
        conn->fd = i == 2 ? -1 : FD;
        conn->tls = i == 1 ? &ssl : NULL;
        conn->counted = i != 1;
        journal("begin:");
        wp_h2_conn_begin(conn);
        state_show();
        journal("free:");
        wp_h2_conn_free(conn);
        journal_line();
        assert_int_equal(server.n_conns, 0);
        assert_true(wp_list_empty(&worker.conns));
    }
    calloc_fails_in = 1;
    assert_null(wp_h2_conn_create(&server, FD));
    assert_int_equal(server.n_conns, 0);
    golden("life");
}

/* Each clock that has run out, and one that has not by a nanosecond, for every
 * state of the others. */
static void
clocks_at(unsigned flags, enum wp_h2_conn_state at, bool has_session)
{
    static const int64_t due_s[] = {1032, 1037, 1040, 1055, 1060, 1110, 1300};

    for (size_t i = 0; i < 2 * sizeof due_s / sizeof(due_s[0]); i++) {
        make();
        server.config.connection_age_max_ns = (flags & 16) != 0 ? 300 * S : 0;
        conn->state = at;
        conn->session =
            has_session ? (nghttp2_session *)(void *)&session : NULL;
        conn->blocked = (flags & 1) != 0;
        conn->pinged = (flags & 2) != 0;
        conn->served = (flags & 4) != 0;
        conn->aged = (flags & 8) != 0;
        conn->read_ns = 1010 * S;
        conn->pinged_ns = 1030 * S;
        conn->stalled_ns = 1035 * S;
        conn->goodbye_ns = 1030 * S;
        hands.now_mono_ns = due_s[i / 2] * S - (i % 2 == 0 ? 1 : 0);
        journal("%s%s%s%s%s %d.%d %s:", conn->blocked ? "B" : "-",
                conn->pinged ? "P" : "-", conn->served ? "S" : "-",
                conn->aged ? "A" : "-", (flags & 16) != 0 ? "M" : "-", (int)at,
                has_session, i % 2 == 0 ? "before" : "at");
        time_show("", due_s[i / 2] * S);
        event_get_callback (&conn->on_timer)(FD, 0, conn);
        journal(" = %d%s%s", (int)conn->state, conn->pinged ? " pinged" : "",
                conn->aged ? " aged" : "");
        journal(" %lld %lld %lld %lld", (long long)(conn->begun_ns - 1000 * S),
                (long long)(conn->read_ns - 1000 * S),
                (long long)(conn->pinged_ns - 1000 * S),
                (long long)(conn->goodbye_ns - 1000 * S));
        journal_line();
        drop();
    }
}

static void
its_clocks_run_out(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags < 32; flags++) {
        clocks_at(flags, WP_H2_OPEN, true);
    }
    golden("clocks");
}

static void
its_clocks_run_out_in_other_states(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags < 8; flags++) {
        clocks_at(2 * flags, WP_H2_SAYING_GOODBYE, true);
    }
    clocks_at(0, WP_H2_LINGERING, false);
    clocks_at(1 + 2 + 4 + 16, WP_H2_LINGERING, false);
    clocks_at(8, WP_H2_LINGERING, false);
    clocks_at(0, WP_H2_OPEN, false);
    clocks_at(4 + 16, WP_H2_OPEN, false);
    golden("clocks_after");
}

static void
bytes_are_read(void **state)
{
    static const ssize_t ends[] = {7, 0, -EAGAIN, -EINTR, -ECONNRESET};

    (void)state;
    for (int tls = 0; tls < 2; tls++) {
        for (size_t i = 0; i < sizeof ends / sizeof(ends[0]); i++) {
            ssize_t script[] = {ends[i], LAST};

            make_with(tls != 0);
            incoming = script;
            more = i == 0;
            call(&conn->on_read);
            drop();
        }
    }
    golden("reading");
}

static void
who_owes_is_read_later(void **state)
{
    static const ssize_t script[] = {7, 8, 9, LAST};

    (void)state;
    make_with(true);
    incoming = script;
    more = true;
    debt_ns = 1500000000;
    call(&conn->on_read);
    say("its turn");
    hands.now_mono_ns = 1003 * S;
    call(&conn->on_resume);
    more = false;
    conn->paused = true;
    call(&conn->on_resume);
    say("blocked");
    conn->paused = true;
    conn->blocked = true;
    call(&conn->on_resume);
    drop();
    say("doomed");
    make();
    judged_bad = true;
    incoming = script;
    call(&conn->on_read);
    drop();
    golden("debts");
}

static void
output_is_framed_and_sent(void **state)
{
    static const size_t few[] = {10, 0};
    static const size_t full[] = {WP_H2_WRITE_SIZE, 5, 0};
    static const size_t flood[] = {
        WP_H2_WRITE_SIZE, WP_H2_WRITE_SIZE, WP_H2_WRITE_SIZE,
        WP_H2_WRITE_SIZE, WP_H2_WRITE_SIZE, 0,
    };
    static const ssize_t all[] = {1 << 20, 1 << 20, 1 << 20, 1 << 20, LAST};
    static const ssize_t parts[] = {3, 4, 1 << 20, LAST};
    static const ssize_t gone[] = {3, -EPIPE, LAST};
    static const ssize_t intr[] = {3, -EINTR, LAST};

    (void)state;
    for (int tls = 0; tls < 2; tls++) {
        const struct {
            const size_t *frames;
            const ssize_t *taken;
        } cases[] = {{NULL, all},  {few, all},  {full, all}, {flood, all},
                     {few, parts}, {few, gone}, {few, intr}, {full, NULL}};

        for (size_t i = 0; i < sizeof cases / sizeof(cases[0]); i++) {
            make_with(tls != 0);
            conn->session = (nghttp2_session *)(void *)&session;
            frames = cases[i].frames;
            outgoing = cases[i].taken;
            write_it();
            drop();
        }
    }
    say("no memory for what the socket does not take");
    make();
    malloc_fails_in = 1;
    frames = few;
    write_it();
    drop();
    say("nothing is written");
    make();
    frames = few;
    conn->blocked = true;
    write_it();
    conn->blocked = false;
    conn->state = WP_H2_LINGERING;
    write_it();
    drop();
    say("without a socket");
    make();
    conn->fd = -1;
    conn->session = (nghttp2_session *)(void *)&session;
    frames = few;
    write_it();
    conn->doomed = true;
    write_it();
    journal_mute(true);
    wp_h2_conn_free(conn);
    journal_mute(false);
    golden("writing");
}

static void
what_was_not_taken_is_sent_first(void **state)
{
    static const size_t few[] = {10, 0};
    static const ssize_t some[] = {4, LAST};
    static const ssize_t rest[] = {1, -EAGAIN, 2, 100, LAST};
    static const ssize_t reset[] = {-ECONNRESET, LAST};
    static const ssize_t in[] = {7, LAST};

    (void)state;
    for (int paused = 0; paused < 2; paused++) {
        make();
        conn->session = (nghttp2_session *)(void *)&session;
        conn->paused = paused != 0;
        frames = few;
        outgoing = some;
        write_it();
        hands.now_mono_ns = 1002 * S;
        outgoing = rest;
        incoming = in;
        call(&conn->on_write);
        hands.now_mono_ns = 1003 * S;
        call(&conn->on_write);
        say("there is room, and nothing waits");
        conn->dirty = false;
        worker.dirty = NULL;
        call(&conn->on_write);
        say("again");
        frames = few;
        outgoing = some;
        write_it();
        drop();
    }
    say("gone");
    make();
    frames = few;
    outgoing = some;
    write_it();
    outgoing = reset;
    call(&conn->on_write);
    drop();
    golden("rest");
}

static void
it_is_over_when_nothing_is_to_be_said(void **state)
{
    struct wp_list stream;

    (void)state;
    for (int i = 0; i < 8; i++) {
        make();
        conn->session = (nghttp2_session *)(void *)&session;
        wants_read = (i & 1) != 0;
        wants_write = (i & 2) != 0;
        conn->session = (i & 4) != 0 ? NULL : conn->session;
        write_it();
        drop();
    }
    say("goodbye, with a stream and without");
    make();
    conn->session = (nghttp2_session *)(void *)&session;
    conn->state = WP_H2_SAYING_GOODBYE;
    wp_list_init(&stream);
    wp_list_push_back(&conn->streams, &stream);
    write_it();
    wp_list_remove(&stream);
    write_it();
    write_it();
    drop();
    say("doomed, counted and not, with TLS and without");
    for (int i = 0; i < 4; i++) {
        static const size_t last[] = {10, 0};
        static const ssize_t all[] = {100, LAST};

        make_with((i & 1) != 0);
        conn->session = (nghttp2_session *)(void *)&session;
        conn->doomed = true;
        conn->counted = (i & 2) != 0;
        frames = last;
        outgoing = all;
        write_it();
        drop();
    }
    golden("over");
}

static void
what_comes_while_it_lingers_is_thrown_away(void **state)
{
    static const ssize_t most[] = {256 << 10, LAST};
    static const ssize_t one[] = {1, LAST};
    static const ssize_t end_of_it[] = {0, LAST};

    (void)state;
    make();
    conn->state = WP_H2_LINGERING;
    incoming = most;
    call(&conn->on_read);
    incoming = one;
    call(&conn->on_read);
    drop();
    make();
    conn->state = WP_H2_LINGERING;
    incoming = end_of_it;
    call(&conn->on_read);
    drop();
    golden("lingering");
}

static void
it_leaves_and_is_closed(void **state)
{
    (void)state;
    for (int at = 0; at < 4; at++) {
        for (int has_session = 0; has_session < 2; has_session++) {
            for (int socket_less = 0; socket_less < 2; socket_less++) {
                make();
                conn->fd = socket_less ? -1 : FD;
                conn->state = (enum wp_h2_conn_state)at;
                conn->session =
                    has_session ? (nghttp2_session *)(void *)&session : NULL;
                journal("leave %d %d %d:", at, has_session, socket_less);
                wp_h2_conn_leave(conn);
                state_show();
                journal("close:");
                wp_h2_conn_close(conn);
                state_show();
                drop();
            }
        }
        make();
        conn->state = (enum wp_h2_conn_state)at;
        journal("touch:");
        wp_h2_conn_touch(conn);
        wp_h2_conn_touch(conn);
        assert_ptr_equal(conn->next_dirty, NULL);
        state_show();
        drop();
    }
    golden("leaving");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        ONE(it_begins_and_is_freed),
        ONE(its_clocks_run_out),
        ONE(its_clocks_run_out_in_other_states),
        ONE(bytes_are_read),
        ONE(who_owes_is_read_later),
        ONE(output_is_framed_and_sent),
        ONE(what_was_not_taken_is_sent_first),
        ONE(it_is_over_when_nothing_is_to_be_said),
        ONE(what_comes_while_it_lingers_is_thrown_away),
        ONE(it_leaves_and_is_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
