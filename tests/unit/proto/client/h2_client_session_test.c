/* What the light client makes of a connection's frames, and how it reaches its
 * server: frames go in as bytes; what comes out, what a call is told and what is
 * asked of the machine is compared whole with golden/session_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/client/h2_parts.h"
#include "tests/support/base/journal.h"

enum {
    SOCKET = 1200, /* The first; the next has the next. */
    ADDRESSES = 3,
    LONGEST = 70000,
};

static struct wp_h2 h2;
static struct wp_h2_conn *conn;
static const char *failing; /* A function. */
static unsigned fails_in;
static int32_t request_gives; /* Instead of a stream; 1: one is made. */
static bool answers_fit;      /* What a stream's owner says of its bytes. */
static int made; /* Sets of callbacks and options, less those deleted. */
static unsigned refused; /* So many connections, first of all. */
static int sockets;
static uint8_t in[LONGEST];
static size_t in_len;

/* ----------------------------------------------------- what lies below */

int __wrap_nghttp2_session_callbacks_new(nghttp2_session_callbacks **out);
int __real_nghttp2_session_callbacks_new(nghttp2_session_callbacks **out);
int __wrap_nghttp2_option_new(nghttp2_option **out);
int __real_nghttp2_option_new(nghttp2_option **out);
void __wrap_nghttp2_session_callbacks_del(nghttp2_session_callbacks *of);
void __real_nghttp2_session_callbacks_del(nghttp2_session_callbacks *of);
void __wrap_nghttp2_option_del(nghttp2_option *option);
void __real_nghttp2_option_del(nghttp2_option *option);
int __wrap_nghttp2_session_client_new3(nghttp2_session **out,
                                       const nghttp2_session_callbacks *calls,
                                       void *user, const nghttp2_option *option,
                                       nghttp2_mem *mem);
int __real_nghttp2_session_client_new3(nghttp2_session **out,
                                       const nghttp2_session_callbacks *calls,
                                       void *user, const nghttp2_option *option,
                                       nghttp2_mem *mem);
int __wrap_nghttp2_submit_settings(nghttp2_session *session, uint8_t flags,
                                   const nghttp2_settings_entry *entries,
                                   size_t n);
int __real_nghttp2_submit_settings(nghttp2_session *session, uint8_t flags,
                                   const nghttp2_settings_entry *entries,
                                   size_t n);
int __wrap_nghttp2_session_set_local_window_size(nghttp2_session *session,
                                                 uint8_t flags, int32_t id,
                                                 int32_t size);
int __real_nghttp2_session_set_local_window_size(nghttp2_session *session,
                                                 uint8_t flags, int32_t id,
                                                 int32_t size);
int32_t __wrap_nghttp2_submit_request(nghttp2_session *session,
                                      const nghttp2_priority_spec *priority,
                                      const nghttp2_nv *fields, size_t n,
                                      const nghttp2_data_provider *body,
                                      void *user);
int32_t __real_nghttp2_submit_request(nghttp2_session *session,
                                      const nghttp2_priority_spec *priority,
                                      const nghttp2_nv *fields, size_t n,
                                      const nghttp2_data_provider *body,
                                      void *user);
int __wrap_getaddrinfo(const char *host, const char *port,
                       const struct addrinfo *hints, struct addrinfo **out);
void __wrap_freeaddrinfo(struct addrinfo *list);
int __wrap_socket(int family, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *value,
                      socklen_t len);
int __wrap_close(int fd);
int __real_close(int fd);

static void
fail_at(const char *function, unsigned nth)
{
    failing = function;
    fails_in = nth;
}

static bool
fails(const char *function)
{
    return failing != NULL && strcmp(failing, function) == 0 && fails_in > 0 &&
           --fails_in == 0;
}

int
__wrap_nghttp2_session_callbacks_new(nghttp2_session_callbacks **out)
{
    if (fails("callbacks")) {
        return NGHTTP2_ERR_NOMEM;
    }
    made++;
    return __real_nghttp2_session_callbacks_new(out);
}

int
__wrap_nghttp2_option_new(nghttp2_option **out)
{
    if (fails("option")) {
        return NGHTTP2_ERR_NOMEM;
    }
    made++;
    return __real_nghttp2_option_new(out);
}

void
__wrap_nghttp2_session_callbacks_del(nghttp2_session_callbacks *of)
{
    made--;
    __real_nghttp2_session_callbacks_del(of);
}

void
__wrap_nghttp2_option_del(nghttp2_option *option)
{
    made--;
    __real_nghttp2_option_del(option);
}

int
__wrap_nghttp2_session_client_new3(nghttp2_session **out,
                                   const nghttp2_session_callbacks *calls,
                                   void *user, const nghttp2_option *option,
                                   nghttp2_mem *mem)
{
    assert_ptr_equal(user, conn);
    return fails("session") ? NGHTTP2_ERR_NOMEM
                            : __real_nghttp2_session_client_new3(
                                  out, calls, user, option, mem);
}

int
__wrap_nghttp2_submit_settings(nghttp2_session *session, uint8_t flags,
                               const nghttp2_settings_entry *entries, size_t n)
{
    return fails("settings")
               ? NGHTTP2_ERR_NOMEM
               : __real_nghttp2_submit_settings(session, flags, entries, n);
}

int
__wrap_nghttp2_session_set_local_window_size(nghttp2_session *session,
                                             uint8_t flags, int32_t id,
                                             int32_t size)
{
    return fails("window") ? NGHTTP2_ERR_NOMEM
                           : __real_nghttp2_session_set_local_window_size(
                                 session, flags, id, size);
}

int32_t
__wrap_nghttp2_submit_request(nghttp2_session *session,
                              const nghttp2_priority_spec *priority,
                              const nghttp2_nv *fields, size_t n,
                              const nghttp2_data_provider *body, void *user)
{
    assert_null(priority);
    return request_gives != 1 ? request_gives
                              : __real_nghttp2_submit_request(
                                    session, priority, fields, n, body, user);
}

/* The addresses of a name: of both families. */
static struct sockaddr_in6 six = {.sin6_family = AF_INET6};
static struct sockaddr_in four = {.sin_family = AF_INET};
static struct addrinfo found[ADDRESSES];

int
__wrap_getaddrinfo(const char *host, const char *port,
                   const struct addrinfo *hints, struct addrinfo **out)
{
    struct addrinfo expected = {.ai_socktype = SOCK_STREAM};

    assert_memory_equal(hints, &expected, sizeof expected);
    journal(" resolve(%.40s, %zu long, %s)", host, strlen(host), port);
    if (fails("resolve")) {
        return EAI_NONAME;
    }
    for (int i = 0; i < ADDRESSES; i++) {
        found[i] = (struct addrinfo){
            .ai_addr = i == 0 ? (struct sockaddr *)(void *)&six
                              : (struct sockaddr *)(void *)&four,
            .ai_addrlen = i == 0 ? sizeof six : sizeof four,
            .ai_next = i + 1 < ADDRESSES ? &found[i + 1] : NULL,
        };
    }
    *out = found;
    return 0;
}

void
__wrap_freeaddrinfo(struct addrinfo *list)
{
    assert_ptr_equal(list, found);
    journal(" -addresses");
}

int
__wrap_socket(int family, int type, int protocol)
{
    assert_int_equal(type, SOCK_STREAM | SOCK_CLOEXEC);
    assert_int_equal(protocol, 0);
    journal(" socket(%s)", family == AF_UNIX    ? "unix"
                           : family == AF_INET6 ? "six"
                           : family == AF_INET  ? "four"
                                                : "?");
    if (fails("socket")) {
        errno = EMFILE;
        return -1;
    }
    return SOCKET + sockets++;
}

int
__wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    journal(" connect(%d", fd);
    if (address->sa_family == AF_UNIX) {
        journal(" %s",
                ((const struct sockaddr_un *)(const void *)address)->sun_path);
    } else if (address->sa_family == AF_INET) {
        const struct sockaddr_in *at = (const void *)address;

        assert_int_equal(len, sizeof *at);
        journal(" %x:%d", ntohl(at->sin_addr.s_addr), ntohs(at->sin_port));
    } else {
        assert_int_equal(len, sizeof six);
    }
    journal(")");
    if (fails("connect") || (refused > 0 && refused-- > 0)) {
        errno = ECONNREFUSED;
        return -1;
    }
    return 0;
}

int
__wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    if (level == IPPROTO_TCP) {
        assert_int_equal(name, TCP_NODELAY);
        assert_int_equal(len, sizeof(int));
        journal(" nodelay(%d %d)", fd, *(const int *)value);
    } else {
        const struct timeval *tv = value;

        assert_int_equal(level, SOL_SOCKET);
        assert_int_equal(len, sizeof *tv);
        journal(" %s(%d %lld.%06ld)",
                name == SO_SNDTIMEO   ? "send-bound"
                : name == SO_RCVTIMEO ? "receive-bound"
                                      : "?",
                fd, (long long)tv->tv_sec, (long)tv->tv_usec);
    }
    return 0;
}

int
__wrap_close(int fd)
{
    if (fd < SOCKET) {
        return __real_close(fd);
    }
    journal(" close(%d)", fd);
    errno = EIO;
    return 0;
}

/* --------------------------------------------------------------- the rig */

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/session_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static void
put(const void *bytes, size_t len)
{
    assert_true(in_len + len <= sizeof in);
    memcpy(in + in_len, bytes, len);
    in_len += len;
}

static void
frame(uint8_t type, uint8_t flags, int32_t id, const void *payload, size_t len)
{
    const uint8_t head[] = {(uint8_t)(len >> 16),
                            (uint8_t)(len >> 8),
                            (uint8_t)len,
                            type,
                            flags,
                            (uint8_t)(id >> 24),
                            (uint8_t)(id >> 16),
                            (uint8_t)(id >> 8),
                            (uint8_t)id};

    put(head, sizeof head);
    put(payload, len);
}

/* A header of a block, in letters that are not coded. */
static size_t
field(uint8_t *to, const char *name, const char *value)
{
    size_t n = 0;

    assert_true(strlen(name) < 127 && strlen(value) < 127);
    to[n++] = 0;
    to[n++] = (uint8_t)strlen(name);
    memcpy(to + n, name, strlen(name));
    n += strlen(name);
    to[n++] = (uint8_t)strlen(value);
    memcpy(to + n, value, strlen(value));
    return n + strlen(value);
}

static void
headers(int32_t id, uint8_t flags, const char *name, const char *value)
{
    uint8_t block[300];

    frame(NGHTTP2_HEADERS, flags | NGHTTP2_FLAG_END_HEADERS, id, block,
          field(block, name, value));
}

/* What the server said is read. */
static void
hear(void)
{
    ssize_t n = nghttp2_session_mem_recv(conn->session, in, in_len);

    journal(" | %s%s", n == (ssize_t)in_len ? "read" : "not read",
            h2.broken ? " broken" : "");
    in_len = 0;
}

/* What is to be sent: whole frames, each with its head and its first bytes. */
static void
show(void)
{
    const uint8_t *out;
    ssize_t n;

    while ((n = nghttp2_session_mem_send(conn->session, &out)) > 0) {
        if (n == 24 && memcmp(out, "PRI", 3) == 0) {
            journal(" <magic>");
            continue;
        }
        journal(" <%zd type %u flags %u stream %u:", n - 9, out[3], out[4],
                out[8]);
        for (ssize_t i = 9; i < n && i < 60; i++) {
            journal("%02x", out[i]);
        }
        journal(">");
    }
    journal_line();
}

static void
on_done(struct wp_h2_call *call)
{
    journal(" done(%d: status %d, sent %zu, received %zu, reply %zu, %s)",
            call->stream_id, call->status, call->sent, call->n_received,
            call->reply_len, call->details != NULL ? call->details : "-");
}

static bool
on_received(struct wp_h2_call *call, const uint8_t *bytes, size_t len)
{
    journal(" received(%d ", call->stream_id);
    journal_bytes((const char *)bytes, len);
    journal(")");
    return answers_fit;
}

static nghttp2_nv
nv(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value,
                        strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE};
}

/* A connection whose server has said hello. */
static void
started(void)
{
    journal_mute(true);
    assert_true(wp_h2_session_start(conn));
    frame(NGHTTP2_SETTINGS, 0, 0, "\0\4\0\2\0\0", 6);
    frame(NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\1\0\0", 4);
    hear();
    show();
    journal_mute(false);
}

static uint8_t request[LONGEST];
static uint8_t reply[16];
static char details[64];

static struct wp_h2_call
a_call(bool streams)
{
    memset(reply, 0, sizeof reply);
    memset(details, 'd', sizeof details);
    details[0] = '\0';
    return (struct wp_h2_call){
        .request = request,
        .request_len = 2,
        .done = on_done,
        .received = streams ? on_received : NULL,
        .details = details,
        .details_cap = sizeof details,
        .reply = reply,
        .reply_cap = sizeof reply,
        .status = WP_H2_NO_STATUS,
    };
}

/* It is on its way, all of it that is to be sent now. */
static void
asked(struct wp_h2_call *call)
{
    assert_true(wp_h2_session_request(conn, call));
    journal_mute(true);
    show();
    journal_mute(false);
}

static int
begin(void **state)
{
    (void)state;
    memset(&h2, 0, sizeof h2);
    conn = calloc(1, sizeof *conn);
    assert_non_null(conn);
    conn->h2 = &h2;
    conn->fd = -1;
    h2.headers[0][0] = nv(":method", "POST");
    h2.headers[0][1] = nv("one", "1");
    h2.n_headers[0] = 2;
    h2.headers[1][0] = nv("two", "2");
    h2.n_headers[1] = 1;
    failing = NULL;
    made = 0;
    request_gives = 1;
    answers_fit = true;
    refused = 0;
    sockets = 0;
    in_len = 0;
    for (size_t i = 0; i < sizeof request; i++) {
        request[i] = (uint8_t)('a' + i / 16384);
    }
    journal_drop();
    return 0;
}

static int
end(void **state)
{
    (void)state;
    nghttp2_session_del(conn->session);
    wp_h2_memory_free(&h2.memory);
    free(conn);
    journal_drop();
    assert_int_equal(made, 0);
    return 0;
}

/* ----------------------------------------------------------------- tests */

static void
a_session_begins_with_what_it_takes(void **state)
{
    static const char *const steps[] = {"callbacks", "option", "session",
                                        "settings", "window"};

    (void)state;
    assert_true(wp_h2_session_start(conn));
    assert_ptr_equal(conn->memory.memory, &h2.memory);
    assert_int_equal(conn->memory.max, 1 << 30);
    assert_true(conn->memory.bytes > 0);
    show();
    nghttp2_session_del(conn->session);
    conn->session = NULL;
    for (size_t i = 0; i < WP_ARRAY_LEN(steps); i++) {
        fail_at(steps[i], 1);
        journal("%s: %d", steps[i], wp_h2_session_start(conn));
        journal(" %s", conn->session != NULL ? "made" : "none");
        nghttp2_session_del(conn->session);
        conn->session = NULL;
        journal_line();
    }
    golden("begins");
}

static void
requests_are_sent_whole(void **state)
{
    static const size_t lens[] = {0, 1, 16384 - 5, 16384 - 4, 2 * 16384, 65535};

    (void)state;
    started();
    for (size_t i = 0; i < WP_ARRAY_LEN(lens); i++) {
        struct wp_h2_call call = a_call(false);

        call.request_len = lens[i];
        call.method = i % 2;
        assert_true(wp_h2_session_request(conn, &call));
        journal("stream %d:", call.stream_id);
        show();
        headers(call.stream_id, NGHTTP2_FLAG_END_STREAM, "grpc-status", "0");
        frame(NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\1\0\0", 4);
        hear();
        show();
    }
    say("that cannot be queued");
    for (request_gives = -1; request_gives <= 2; request_gives++) {
        struct wp_h2_call call = a_call(false);

        if (request_gives != 1) {
            journal(" %d", wp_h2_session_request(conn, &call));
        }
    }
    journal_line();
    golden("requests");
}

static void
a_stream_sends_as_it_has_requests(void **state)
{
    struct wp_h2_call call = a_call(true);

    (void)state;
    started();
    assert_true(wp_h2_session_request(conn, &call));
    show();
    show();
    call.sent = 0;
    call.request_len = 20000;
    (void)nghttp2_session_resume_data(conn->session, call.stream_id);
    show();
    say("its end, with nothing");
    call.ends = true;
    (void)nghttp2_session_resume_data(conn->session, call.stream_id);
    show();
    say("its end, with the last request");
    call = a_call(true);
    call.ends = true;
    assert_true(wp_h2_session_request(conn, &call));
    show();
    golden("streams");
}

static void
what_is_answered_is_told(void **state)
{
    static const char *const statuses[] = {"0",  "1",  "16",  "17", "",
                                           "x1", "-1", "010", "256"};
    static const char *const names[] = {"grpc-statuz", "grpc-statu",
                                        "grpc-status2", "xrpc-status"};

    (void)state;
    started();
    say("statuses");
    for (size_t i = 0; i < WP_ARRAY_LEN(statuses); i++) {
        struct wp_h2_call call = a_call(false);

        asked(&call);
        headers(call.stream_id, NGHTTP2_FLAG_END_STREAM, "grpc-status",
                statuses[i]);
        hear();
        show();
    }
    say("other names");
    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        struct wp_h2_call call = a_call(false);

        asked(&call);
        headers(call.stream_id, NGHTTP2_FLAG_END_STREAM, names[i], "3");
        hear();
        show();
    }
    say("a reply of so many bytes");
    for (size_t len = 0; len <= sizeof reply + 1; len++) {
        struct wp_h2_call call = a_call(false);

        asked(&call);
        headers(call.stream_id, 0, "a", "b");
        frame(NGHTTP2_DATA, 0, call.stream_id, "0123456789abcdefg", len / 2);
        frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, call.stream_id,
              &"0123456789abcdefg"[len / 2], len - len / 2);
        hear();
        journal(" %.*s", (int)sizeof reply, (const char *)reply);
        show();
        if (len <= sizeof reply) {
            assert_memory_equal(reply, "0123456789abcdef", len);
        }
    }
    golden("answers");
}

static void
details_are_decoded(void **state)
{
    static const char *const values[] = {
        "plain",  "%41%4a%4F%6f",  "%",      "%4",           "%41",
        "x%4",    "%zz",           "%4z%z4", "%09%90%af%fa", "%AF%FA",
        "%/0%0/", "%:0%0:",        "%@0%0@", "%G0%0G",       "%`0%0`",
        "%g0%0g", "%25%41%2541%%", "",
    };
    static const char *const names[] = {"grpc-messagf", "grpc-messag",
                                        "grpc-messages", "xrpc-message"};

    (void)state;
    started();
    for (size_t i = 0; i < WP_ARRAY_LEN(values); i++) {
        struct wp_h2_call call = a_call(false);

        asked(&call);
        headers(call.stream_id, NGHTTP2_FLAG_END_STREAM, "grpc-message",
                values[i]);
        journal("%s:", values[i]);
        hear();
        journal(" then %c", details[strlen(details) + 1]);
        show();
    }
    say("room for so many");
    for (size_t cap = 1; cap <= 6; cap++) {
        struct wp_h2_call call = a_call(false);

        call.details_cap = cap;
        asked(&call);
        headers(call.stream_id, NGHTTP2_FLAG_END_STREAM, "grpc-message",
                "a%62%63d");
        hear();
        journal(" then %c", details[cap]);
        show();
    }
    say("nobody wants them, and other names");
    for (size_t i = 0; i <= WP_ARRAY_LEN(names); i++) {
        struct wp_h2_call call = a_call(false);

        call.details = i == 0 ? NULL : details;
        asked(&call);
        headers(call.stream_id, NGHTTP2_FLAG_END_STREAM,
                i == 0 ? "grpc-message" : names[i - 1], "well");
        hear();
        show();
    }
    golden("details");
}

static void
who_answers_instead_is_told(void **state)
{
    static const char *const values[] = {
        "200", "404", "20", "2000", "201", "12345678", "123456789", "",
    };
    static const char *const names[] = {":statuz", ":statu", ":status2",
                                        "xstatus"};

    (void)state;
    started();
    for (size_t i = 0; i < WP_ARRAY_LEN(values); i++) {
        struct wp_h2_call call = a_call(false);

        asked(&call);
        headers(call.stream_id, NGHTTP2_FLAG_END_STREAM, ":status", values[i]);
        journal("%s:", values[i]);
        hear();
        show();
    }
    say("nobody wants it, and other names");
    for (size_t i = 0; i <= WP_ARRAY_LEN(names); i++) {
        struct wp_h2_call call = a_call(false);

        call.details = i == 0 ? NULL : details;
        asked(&call);
        headers(call.stream_id, NGHTTP2_FLAG_END_STREAM,
                i == 0 ? ":status" : names[i - 1], "503");
        hear();
        show();
    }
    say("little room");
    {
        struct wp_h2_call call = a_call(false);

        call.details_cap = 5;
        asked(&call);
        headers(call.stream_id, NGHTTP2_FLAG_END_STREAM, ":status", "503");
        hear();
        journal(" then %c", details[5]);
        show();
    }
    golden("instead");
}

/* A stream's server that has answered is told that nothing more comes. */
static void
a_stream_ends_with_its_answer(void **state)
{
    (void)state;
    started();
    for (unsigned i = 0; i < 16; i++) {
        struct wp_h2_call call = a_call((i & 1) != 0);
        uint8_t last = (i & 4) != 0 ? NGHTTP2_FLAG_END_STREAM : 0;

        call.ends = (i & 2) != 0;
        journal("%s%s, %s%s:", call.received != NULL ? "stream" : "unary",
                call.ends ? " that ends" : "",
                (i & 8) != 0 ? "data" : "headers", last != 0 ? " at last" : "");
        asked(&call);
        if ((i & 8) != 0) {
            headers(call.stream_id, 0, "a", "b");
            frame(NGHTTP2_DATA, last, call.stream_id, "xyz", 3);
        } else {
            headers(call.stream_id, last, "a", "b");
        }
        hear();
        show();
    }
    say("what is no answer");
    {
        struct wp_h2_call call = a_call(true);

        asked(&call);
        frame(NGHTTP2_PING, 0, 0, "12345678", 8);
        frame(NGHTTP2_SETTINGS, 0, 0, "", 0);
        frame(NGHTTP2_WINDOW_UPDATE, 0, call.stream_id, "\0\0\0\1", 4);
        hear();
        show();
        frame(NGHTTP2_RST_STREAM, 0, call.stream_id, "\0\0\0\7", 4);
        hear();
        show();
    }
    say("for a call that was given up");
    {
        struct wp_h2_call call = a_call(true);

        asked(&call);
        (void)nghttp2_session_set_stream_user_data(conn->session,
                                                   call.stream_id, NULL);
        headers(call.stream_id, 0, ":status", "500");
        headers(call.stream_id, 0, "grpc-message", "no");
        headers(call.stream_id, 0, "grpc-status", "3");
        frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, call.stream_id, "xyz", 3);
        hear();
        show();
        assert_int_equal(call.status, WP_H2_NO_STATUS);
        assert_string_equal(details, "");
    }
    say("that makes no sense");
    {
        struct wp_h2_call call = a_call(true);

        answers_fit = false;
        asked(&call);
        headers(call.stream_id, 0, "a", "b");
        frame(NGHTTP2_DATA, 0, call.stream_id, "xyz", 3);
        hear();
        journal_line();
    }
    golden("ends");
}

static void
reach(const char *target)
{
    struct wp_err err = {0};
    int fd;

    journal("%.40s:", target);
    fd = wp_h2_connect_target(target, &err);
    journal(" = %d", fd);
    if (fd < 0) {
        journal(", %d %s", (int)err.status, err.msg);
    }
    journal_line();
}

static void
it_is_reached_by_a_path_an_address_or_a_name(void **state)
{
    static const char *const calls[] = {"socket", "connect", "resolve"};
    char longest[300];

    (void)state;
    reach("unix:/a/b");
    reach("unix:a");
    reach("unix:");
    reach("127.0.0.1:80");
    reach("[::1]:80");
    reach("a.host:http");
    reach("nothing");
    reach(":80");
    memset(longest, 'h', sizeof longest);
    memcpy(longest + 255, ":1", 3);
    reach(longest);
    memset(longest, 'h', sizeof longest);
    memcpy(longest + 256, ":1", 3);
    reach(longest);
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        journal("-- %s fails", calls[i]);
        journal_line();
        fail_at(calls[i], 1);
        reach("unix:/a/b");
        fail_at(calls[i], 1);
        reach("127.0.0.1:80");
        fail_at(calls[i], 1);
        reach("a.host:80");
        fail_at(calls[i], 2);
        reach("a.host:80");
    }
    golden("reach");
}

/* Each address of a name has its turn. */
static void
no_address_of_a_name_answers(void **state)
{
    (void)state;
    for (unsigned n = 0; n <= ADDRESSES; n++) {
        sockets = 0;
        refused = n;
        reach("a.host:80");
    }
    golden("addresses");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        ONE(a_session_begins_with_what_it_takes),
        ONE(requests_are_sent_whole),
        ONE(a_stream_sends_as_it_has_requests),
        ONE(what_is_answered_is_told),
        ONE(details_are_decoded),
        ONE(who_answers_instead_is_told),
        ONE(a_stream_ends_with_its_answer),
        ONE(it_is_reached_by_a_path_an_address_or_a_name),
        ONE(no_address_of_a_name_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
