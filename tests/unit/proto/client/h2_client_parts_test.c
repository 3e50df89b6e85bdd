/* Connections, calls and turns of the light client, with all that it calls
 * replaced: sockets, epoll, TLS and the session. What it asks of them is
 * compared whole with golden/client_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "proto/client/h2_parts.h"
#include "proto/client/h2_tls.h"
#include "tests/support/base/journal.h"

enum {
    EPOLL_FD = 900,
    CONN_FD = 1000,
    CONNS = 3,
    LAST = -99, /* Ends a script: what follows says "again". */
};

static struct wp_h2 *h2;
static int opened;        /* Sockets. */
static char sessions[64]; /* Each stands for one. */
static int sessions_made;
static char ssls[64];
static struct wp_h2_tls *const tls = (struct wp_h2_tls *)(void *)ssls;
static const char *failing; /* A function. */
static unsigned fails_in;   /* 0: it does not fail. */

static const ssize_t *incoming;
static const ssize_t *outgoing;
static const ssize_t *frames; /* What a session has to send. */
static bool judged_bad;
static bool breaks; /* An answer that is too long. */
static bool wants_read;
static unsigned wants_write; /* A bit for each connection. */
static unsigned allowed;
static unsigned ready; /* A bit for each that epoll tells of. */
static int epoll_errno;
static int zero_errno; /* Where a call gives or takes nothing. */

int __wrap_wp_h2_connect_target(const char *target, struct wp_err *err);
bool __wrap_wp_h2_session_start(struct wp_h2_conn *conn);
bool __wrap_wp_h2_session_request(struct wp_h2_conn *conn,
                                  struct wp_h2_call *call);
void *__wrap_wp_h2_tls_connect(const struct wp_h2_tls *at, int fd,
                               struct wp_err *err);
void __wrap_wp_h2_tls_close(void *conn);
ssize_t __wrap_wp_h2_tls_send(void *conn, const uint8_t *bytes, size_t len);
ssize_t __wrap_wp_h2_tls_recv(void *conn, uint8_t *bytes, size_t len);
enum wp_status __wrap_wp_h2_tls_error(struct wp_err *err);
void __wrap_wp_h2_memory_free(struct wp_h2_memory *memory);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event);
int __wrap_epoll_pwait2(int epoll_fd, struct epoll_event *events, int max,
                        const struct timespec *limit, const sigset_t *mask);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_close(int fd);
int __real_close(int fd);
void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
void __wrap_nghttp2_session_del(nghttp2_session *session);
int __wrap_nghttp2_session_check_request_allowed(nghttp2_session *session);
int __wrap_nghttp2_session_resume_data(nghttp2_session *session, int32_t id);
int __wrap_nghttp2_session_set_stream_user_data(nghttp2_session *session,
                                                int32_t id, void *data);
int __wrap_nghttp2_submit_rst_stream(nghttp2_session *session, uint8_t flags,
                                     int32_t id, uint32_t code);
ssize_t __wrap_nghttp2_session_mem_send(nghttp2_session *session,
                                        const uint8_t **data);
ssize_t __wrap_nghttp2_session_mem_recv(nghttp2_session *session,
                                        const uint8_t *bytes, size_t len);
int __wrap_nghttp2_session_want_read(nghttp2_session *session);
int __wrap_nghttp2_session_want_write(nghttp2_session *session);

static bool
fails(const char *function)
{
    return failing != NULL && strcmp(failing, function) == 0 && fails_in > 0 &&
           --fails_in == 0;
}

static int
number_of(const void *session)
{
    return (int)((const char *)session - sessions);
}

int
__wrap_wp_h2_connect_target(const char *target, struct wp_err *err)
{
    journal(" connect(%s)", target);
    if (fails("connect")) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "nobody is there");
        return -1;
    }
    return CONN_FD + opened++;
}

bool
__wrap_wp_h2_session_start(struct wp_h2_conn *conn)
{
    journal(" start(%d)", conn->fd);
    if (fails("no session")) {
        return false;
    }
    conn->session = (nghttp2_session *)(void *)&sessions[sessions_made++];
    return !fails("start");
}

bool
__wrap_wp_h2_session_request(struct wp_h2_conn *conn, struct wp_h2_call *call)
{
    journal(" request(%d, method %u, ", conn->fd, call->method);
    journal_bytes((const char *)call->request,
                  WP_H2_FRAME_HEAD + call->request_len);
    journal(")");
    call->stream_id = 7;
    return !fails("request");
}

void *
__wrap_wp_h2_tls_connect(const struct wp_h2_tls *at, int fd, struct wp_err *err)
{
    assert_ptr_equal(at, tls);
    journal(" tls(%d)", fd);
    if (fails("tls")) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "no TLS");
        return NULL;
    }
    return &ssls[1];
}

void
__wrap_wp_h2_tls_close(void *conn)
{
    if (conn != NULL) {
        journal(" tls-close");
    }
}

static ssize_t
next_of(const ssize_t **script)
{
    ssize_t n = *script != NULL ? **script : LAST;

    if (n == LAST) {
        n = -EAGAIN;
    } else {
        (*script)++;
    }
    return n;
}

static ssize_t
as_call(ssize_t n)
{
    if (n < 0) {
        errno = (int)-n;
        return -1;
    }
    if (n == 0) {
        errno = zero_errno; /* Whatever it was before: nobody asks. */
    }
    return n;
}

static ssize_t
take(const uint8_t *bytes, size_t len, const char *what)
{
    ssize_t n = next_of(&outgoing);

    n = n > (ssize_t)len ? (ssize_t)len : n;
    journal(" %s(%zu:%.3s)=%zd", what, len, (const char *)bytes, n);
    return as_call(n);
}

ssize_t
__wrap_wp_h2_tls_send(void *conn, const uint8_t *bytes, size_t len)
{
    assert_ptr_equal(conn, &ssls[1]);
    return take(bytes, len, "tls-send");
}

ssize_t
__wrap_wp_h2_tls_recv(void *conn, uint8_t *bytes, size_t len)
{
    ssize_t n = next_of(&incoming);

    assert_ptr_equal(conn, &ssls[1]);
    assert_ptr_equal(bytes, h2->in);
    journal(" tls-recv(%zu)=%zd", len, n);
    return as_call(n);
}

enum wp_status
__wrap_wp_h2_tls_error(struct wp_err *err)
{
    return wp_err_set(err, WP_UNAVAILABLE, "TLS: it objects");
}

void
__wrap_wp_h2_memory_free(struct wp_h2_memory *memory)
{
    assert_non_null(memory);
    journal(" free-memory");
}

int
__wrap_epoll_create1(int flags)
{
    assert_int_equal(flags, EPOLL_CLOEXEC);
    return EPOLL_FD;
}

int
__wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
    const struct wp_h2_conn *conn = event->data.ptr;

    assert_int_equal(epoll_fd, EPOLL_FD);
    assert_int_equal(conn->fd, fd);
    journal(" %s(%d,%x)", op == EPOLL_CTL_ADD ? "watch" : "change", fd,
            event->events);
    return fails("epoll_ctl") ? -1 : 0;
}

int
__wrap_epoll_pwait2(int epoll_fd, struct epoll_event *events, int max,
                    const struct timespec *limit, const sigset_t *mask)
{
    int n = 0;

    assert_int_equal(epoll_fd, EPOLL_FD);
    assert_null(mask);
    journal(" wait(%d,", max);
    if (limit == NULL) {
        journal("ever)");
    } else {
        journal("%lld.%09ld)", (long long)limit->tv_sec, limit->tv_nsec);
    }
    if (epoll_errno != 0) {
        errno = epoll_errno;
        return -1;
    }
    for (unsigned i = 0; i < h2->n_conns; i++) {
        if ((ready & 1U << i) != 0) {
            events[n++].data.ptr = h2->conns[i];
        }
    }
    return n;
}

ssize_t
__wrap_send(int fd, const void *bytes, size_t len, int flags)
{
    assert_int_equal(flags, MSG_DONTWAIT | MSG_NOSIGNAL);
    journal(" %d", fd);
    return take(bytes, len, "send");
}

ssize_t
__wrap_recv(int fd, void *bytes, size_t len, int flags)
{
    ssize_t n = next_of(&incoming);

    assert_ptr_equal(bytes, h2->in);
    journal(" %d recv(%zu,%x)=%zd", fd, len, (unsigned)flags, n);
    return as_call(n);
}

int
__wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    const struct ucred peer = {.pid = 4711};

    journal(" peer(%d)", fd);
    assert_true(level == SOL_SOCKET && name == SO_PEERCRED);
    assert_int_equal(*len, sizeof peer);
    memcpy(value, &peer, sizeof peer);
    return fails("getsockopt") ? -1 : 0;
}

int
__wrap_close(int fd)
{
    if (fd < EPOLL_FD) {
        return __real_close(fd);
    }
    journal(" close(%d)", fd);
    return 0;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails("calloc") ? NULL : __real_calloc(n, size);
}

void
__wrap_nghttp2_session_del(nghttp2_session *session)
{
    journal(" end(%d)", number_of(session));
}

int
__wrap_nghttp2_session_check_request_allowed(nghttp2_session *session)
{
    return (allowed & 1U << number_of(session)) != 0;
}

int
__wrap_nghttp2_session_resume_data(nghttp2_session *session, int32_t id)
{
    journal(" resume(%d,%d)", number_of(session), id);
    return 0;
}

int
__wrap_nghttp2_session_set_stream_user_data(nghttp2_session *session,
                                            int32_t id, void *data)
{
    assert_null(data);
    journal(" forget(%d,%d)", number_of(session), id);
    return 0;
}

int
__wrap_nghttp2_submit_rst_stream(nghttp2_session *session, uint8_t flags,
                                 int32_t id, uint32_t code)
{
    assert_int_equal(flags, NGHTTP2_FLAG_NONE);
    journal(" reset(%d,%d,%u)", number_of(session), id, code);
    return 0;
}

ssize_t
__wrap_nghttp2_session_mem_send(nghttp2_session *session, const uint8_t **data)
{
    static uint8_t bytes[32 << 10];
    ssize_t n = frames != NULL && *frames != LAST ? *frames++ : 0;

    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)('a' + i % 26);
    }
    *data = bytes;
    journal(" frame(%d)=%zd", number_of(session), n);
    return n;
}

ssize_t
__wrap_nghttp2_session_mem_recv(nghttp2_session *session, const uint8_t *bytes,
                                size_t len)
{
    assert_ptr_equal(bytes, h2->in);
    journal(" judge(%d,%zu)", number_of(session), len);
    h2->broken = breaks;
    return judged_bad ? -1 : (ssize_t)len;
}

int
__wrap_nghttp2_session_want_read(nghttp2_session *session)
{
    assert_true(number_of(session) >= 0);
    return wants_read;
}

int
__wrap_nghttp2_session_want_write(nghttp2_session *session)
{
    return (wants_write & 1U << number_of(session)) != 0;
}

/* --------------------------------------------------------------- the rig */

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/client_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static void
on_lost(void *ctx, unsigned conn, const struct wp_err *err)
{
    assert_ptr_equal(ctx, sessions);
    journal(" lost(%u: %d %s)", conn, (int)err->status, err->msg);
}

static bool
open_with(struct wp_h2_config config)
{
    struct wp_err err = {0};

    opened = sessions_made = 0;
    h2 = wp_h2_open(&config, &err);
    journal(" = %s", h2 != NULL ? "open" : err.msg);
    journal_line();
    return h2 != NULL;
}

static void
opened_with(unsigned connections, bool with_tls, bool tells)
{
    journal_mute(true);
    assert_true(open_with((struct wp_h2_config){
        .target = "unix:/a",
        .connections = connections,
        .tls = with_tls ? tls : NULL,
        .on_lost = tells ? on_lost : NULL,
        .ctx = sessions,
    }));
    journal_mute(false);
}

static void
close_it(void)
{
    journal("close:");
    wp_h2_close(h2);
    h2 = NULL;
    journal_line();
}

static int
begin(void **state)
{
    (void)state;
    failing = NULL;
    fails_in = 0;
    incoming = outgoing = frames = NULL;
    judged_bad = breaks = false;
    wants_read = true;
    wants_write = allowed = ready = 0;
    epoll_errno = 0;
    zero_errno = EAGAIN;
    journal_drop();
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wp_h2_close(h2);
    h2 = NULL;
    journal_drop();
    return 0;
}

static void
turn(int64_t timeout_ns)
{
    struct wp_err err = {0};
    enum wp_status status;

    journal("turn:");
    status = wp_h2_turn(h2, timeout_ns, &err);
    journal(" = %d %s", (int)status, status != WP_OK ? err.msg : "");
    journal(" (output %d, had", wp_h2_has_output(h2));
    for (unsigned i = 0; i < h2->n_conns; i++) {
        journal(" %llu%s", (unsigned long long)wp_h2_received(h2, i),
                h2->conns[i]->wants_out ? "!" : "");
    }
    journal(")");
    journal_line();
}

/* ----------------------------------------------------------------- tests */

static void
connections_are_made_and_closed(void **state)
{
    static const char *const steps[] = {"calloc", "connect",   "tls",
                                        "start",  "epoll_ctl", "no session"};

    (void)state;
    (void)open_with(
        (struct wp_h2_config){.target = "unix:/a", .connections = CONNS});
    assert_int_equal(wp_h2_fd(h2), EPOLL_FD);
    journal("%d", (int)wp_h2_peer(h2));
    fails_in = 1;
    failing = "getsockopt";
    journal(" %d", (int)wp_h2_peer(h2));
    journal_line();
    close_it();
    (void)open_with((struct wp_h2_config){
        .target = "host:1", .connections = 2, .tls = tls});
    journal("%d", (int)wp_h2_peer(h2));
    journal_line();
    close_it();
    for (size_t i = 0; i < sizeof steps / sizeof(steps[0]); i++) {
        for (unsigned nth = 1;; nth++) {
            journal("-- %s %u", steps[i], nth);
            journal_line();
            failing = steps[i];
            fails_in = nth;
            if (open_with((struct wp_h2_config){
                    .target = "unix:/a", .connections = 2, .tls = tls})) {
                break;
            }
        }
        fails_in = 0;
        close_it();
    }
    golden("connections");
}

static void
headers_show(unsigned method)
{
    for (unsigned i = 0; i < h2->n_headers[method]; i++) {
        const nghttp2_nv *nv = &h2->headers[method][i];

        journal(" [%.*s: %.*s %x]", (int)nv->namelen, (const char *)nv->name,
                (int)nv->valuelen, (const char *)nv->value, nv->flags);
    }
    journal_line();
}

static void
as_many_as_64_connections(void **state)
{
    (void)state;
    journal_mute(true);
    assert_true(open_with(
        (struct wp_h2_config){.target = "unix:/a", .connections = 64}));
    journal_mute(false);
    assert_int_equal(h2->n_conns, 64);
    assert_int_equal(opened, 64);
    wp_h2_close(h2);
    h2 = NULL;
}

static void
methods_have_their_headers(void **state)
{
    char authorization[32] = "";
    struct wp_h2_config config = {.target = "unix:/a",
                                  .connections = 1,
                                  .authorization = authorization,
                                  .timeout = "30S"};
    struct wp_err err;

    (void)state;
    (void)open_with(config);
    assert_int_equal(wp_h2_method(h2, "/a.B/C"), 0);
    assert_int_equal(wp_h2_method_within(h2, "/a.B/D", NULL), 1);
    headers_show(0);
    headers_show(1);
    say("a token");
    (void)strcpy(authorization, "Bearer one");
    assert_true(wp_h2_reopen(h2, 0, &err));
    journal_line();
    headers_show(0);
    headers_show(1);
    assert_int_equal(h2->n_headers[2], 0);
    say("none any more");
    authorization[0] = '\0';
    assert_true(wp_h2_reopen(h2, 0, &err));
    journal_line();
    headers_show(0);
    say("with TLS");
    wp_h2_shut(h2, 0);
    wp_h2_set_tls(h2, tls);
    assert_true(wp_h2_reopen(h2, 0, &err));
    journal_line();
    h2->config.authority = "host";
    assert_int_equal(wp_h2_method_within(h2, "/e", "1S"), 2);
    headers_show(2);
    say("it cannot be had again");
    failing = "connect";
    fails_in = 1;
    assert_false(wp_h2_reopen(h2, 0, &err));
    journal_line();
    golden("headers");
}

static void
calls_go_round(void **state)
{
    uint8_t request[WP_H2_FRAME_HEAD + 300] = {9, 9, 9, 9, 9, 'x', 'y'};
    char details[4] = "old";
    struct wp_h2_call call = {
        .request = request, .request_len = 2, .method = 3};

    (void)state;
    opened_with(CONNS, false, false);
    for (int i = 0; i < 4; i++) {
        call.ends = true;
        call.n_received = 5;
        call.sent = 5;
        call.status = 3;
        call.details = i == 2 ? details : NULL;
        assert_true(wp_h2_start(h2, &call));
        journal(" conn %u ends %d received %zu sent %zu status %d", call.conn,
                call.ends, call.n_received, call.sent, call.status);
        journal_line();
    }
    assert_string_equal(details, "");
    say("the longest head, and no memory");
    call.request_len = 300;
    memset(request, 'z', sizeof request);
    failing = "request";
    fails_in = 1;
    assert_false(wp_h2_start(h2, &call));
    journal_line();
    say("one is shut");
    wp_h2_shut(h2, 2);
    call.request_len = 1;
    for (int i = 0; i < 3; i++) {
        assert_true(wp_h2_start(h2, &call));
        journal_line();
    }
    say("who takes calls");
    for (allowed = 0; allowed < 8; allowed++) {
        journal(" %d", wp_h2_takes_calls(h2));
    }
    journal_line();
    say("all are shut");
    wp_h2_shut(h2, 0);
    wp_h2_shut(h2, 1);
    for (unsigned next = 0; next < CONNS; next++) {
        h2->next = next;
        assert_false(wp_h2_start(h2, &call));
        assert_int_equal(h2->next, next);
    }
    assert_false(wp_h2_takes_calls(h2));
    wp_h2_cancel(h2, &call);
    journal_line();
    golden("calls");
}

static void
streams_send_and_end(void **state)
{
    uint8_t request[WP_H2_FRAME_HEAD + 0x102] = {0};
    struct wp_h2_call call = {.request = request, .request_len = 0x102};

    (void)state;
    opened_with(2, false, false);
    assert_true(wp_h2_start(h2, &call));
    assert_true(wp_h2_start(h2, &call));
    journal_drop();
    for (call.sent = WP_H2_FRAME_HEAD + 0x101;
         call.sent <= WP_H2_FRAME_HEAD + 0x103; call.sent++) {
        journal(" %d", wp_h2_may_send(&call));
    }
    wp_h2_send(h2, &call);
    journal(" sent %zu: ", call.sent);
    journal_bytes((const char *)request, WP_H2_FRAME_HEAD);
    journal_line();
    wp_h2_end(h2, &call);
    call.sent = WP_H2_FRAME_HEAD + 0x102;
    journal(" %d", wp_h2_may_send(&call));
    wp_h2_cancel(h2, &call);
    journal_line();
    golden("streams");
}

static void
what_is_queued_is_sent(void **state)
{
    static const ssize_t one[] = {10, LAST};
    static const ssize_t many[] = {16000, 16000, 16000, 16000, 5, LAST};
    static const ssize_t edge[] = {16 << 10, 16 << 10, 12 << 10, 1, 2, LAST};
    static const ssize_t bad[] = {10, -1, LAST};
    static const ssize_t all[] = {1 << 20, 1 << 20, 1 << 20, LAST};
    static const ssize_t part[] = {4, LAST};
    static const ssize_t slow[] = {4, -EAGAIN, LAST};
    static const ssize_t none[] = {0, 4, 0, 1 << 20, LAST};
    static const ssize_t *const scripts[][2] = {
        {NULL, all}, {one, all},  {many, all}, {edge, all},
        {bad, all},  {one, slow}, {one, none},
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof(scripts[0]); i++) {
        opened_with(2, false, false);
        frames = scripts[i][0];
        outgoing = scripts[i][1];
        wants_write = 3;
        turn(0);
        frames = NULL;
        outgoing = part;
        turn(1);
        outgoing = all;
        turn(WP_TIME_NEVER);
        close_it();
    }
    say("what the connection before did not take is not sent on the next");
    {
        struct wp_err err;

        opened_with(1, false, false);
        frames = one;
        outgoing = part;
        turn(0);
        assert_true(wp_h2_reopen(h2, 0, &err));
        journal_line();
        outgoing = all;
        turn(0);
    }
    golden("sending");
}

static void
a_send_that_fails_ends_it(void **state)
{
    static const ssize_t one[] = {10, LAST};
    static const ssize_t pipe_gone[] = {-EPIPE, LAST};
    static const ssize_t objects[] = {-EPROTO, LAST};
    static const ssize_t some[] = {5, LAST};
    static const ssize_t reset[] = {-ECONNRESET, LAST};
    static const ssize_t closed[] = {0, LAST};

    (void)state;
    for (int i = 0; i < 8; i++) {
        const bool with_tls = (i & 1) != 0;

        opened_with(2, with_tls, (i & 2) != 0);
        frames = one;
        outgoing = (i & 4) != 0 && with_tls ? objects : pipe_gone;
        incoming = some;
        turn(0);
        close_it();
    }
    say("what it has said before says why");
    opened_with(1, true, false);
    frames = one;
    outgoing = pipe_gone;
    incoming = objects;
    turn(0);
    say("or something else does");
    frames = one;
    outgoing = pipe_gone;
    incoming = reset;
    turn(0);
    say("or it has said nothing");
    frames = one;
    outgoing = pipe_gone;
    incoming = closed;
    zero_errno = EPROTO;
    turn(0);
    golden("send_failures");
}

static void
bytes_come_in(void **state)
{
    static const ssize_t some[] = {5, LAST};
    static const ssize_t more[] = {5, 6, -EINTR, LAST};
    static const ssize_t closed[] = {0, LAST};
    static const ssize_t reset[] = {-ECONNRESET, LAST};
    static const ssize_t objects[] = {-EPROTO, LAST};
    static const ssize_t *const scripts[] = {NULL,   some,  more,
                                             closed, reset, objects};

    (void)state;
    for (unsigned conns = 1; conns <= 2; conns++) {
        for (int with_tls = 0; with_tls < 2; with_tls++) {
            for (size_t i = 0; i < sizeof scripts / sizeof(scripts[0]); i++) {
                opened_with(conns, with_tls != 0, i % 2 == 0);
                ready = conns;
                incoming = scripts[i];
                turn(i == 1 ? WP_TIME_NEVER : i == 2 ? 1500000001 : 0);
                close_it();
            }
        }
    }
    golden("receiving");
}

static void
what_makes_no_sense_ends_it(void **state)
{
    static const ssize_t some[] = {5, LAST};

    (void)state;
    for (int i = 0; i < 6; i++) {
        opened_with(2, false, i % 2 == 0);
        ready = 3;
        judged_bad = i / 2 == 0;
        breaks = i / 2 == 1;
        wants_read = i / 2 != 2;
        incoming = some;
        turn(1);
        journal("broken %d", h2->broken);
        journal_line();
        close_it();
    }
    say("one that waits for room, or is shut, is not waited for alone");
    judged_bad = breaks = false;
    wants_read = true;
    ready = 0;
    opened_with(1, false, true);
    h2->conns[0]->wants_out = true;
    turn(0);
    wp_h2_shut(h2, 0);
    turn(0);
    say("waiting fails");
    epoll_errno = EINTR;
    turn(1);
    epoll_errno = EBADF;
    turn(1);
    golden("ends");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        ONE(connections_are_made_and_closed),
        ONE(as_many_as_64_connections),
        ONE(methods_have_their_headers),
        ONE(calls_go_round),
        ONE(streams_send_and_end),
        ONE(what_is_queued_is_sent),
        ONE(a_send_that_fails_ends_it),
        ONE(bytes_come_in),
        ONE(what_makes_no_sense_ends_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
