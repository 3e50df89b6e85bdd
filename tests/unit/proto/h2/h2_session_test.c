/* The session of one HTTP/2 connection and its streams: frames go in as bytes;
 * what the handler is told, what comes out, and what it has cost is compared
 * whole with golden/session_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/h2/internal.h"
#include "tests/support/base/journal.h"

#define LIT(text)                                                              \
    {                                                                          \
        (text), sizeof(text) - 1                                               \
    }

enum {
    STREAMS = 2,
    METADATA_MAX = 200,
};

static struct wp_h2_server server;
static struct wp_h2_worker worker;
static struct wp_h2_conn *conn;
static struct wp_h2_stream *last; /* The latest that was opened. */
static bool refuses;
static uint8_t in[64 << 10];
static size_t in_len;
static const char *failing; /* A function of the library. */
static unsigned fails_in;
static int fails_with;

void __wrap_wp_h2_conn_touch(struct wp_h2_conn *at);
int __wrap_nghttp2_session_callbacks_new(nghttp2_session_callbacks **out);
int __real_nghttp2_session_callbacks_new(nghttp2_session_callbacks **out);
int __wrap_nghttp2_option_new(nghttp2_option **out);
int __real_nghttp2_option_new(nghttp2_option **out);
int __wrap_nghttp2_session_server_new3(nghttp2_session **out,
                                       const nghttp2_session_callbacks *calls,
                                       void *user, const nghttp2_option *option,
                                       nghttp2_mem *mem);
int __real_nghttp2_session_server_new3(nghttp2_session **out,
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
ssize_t __wrap_nghttp2_session_mem_recv(nghttp2_session *session,
                                        const uint8_t *bytes, size_t len);
ssize_t __real_nghttp2_session_mem_recv(nghttp2_session *session,
                                        const uint8_t *bytes, size_t len);
ssize_t __wrap_nghttp2_session_mem_send(nghttp2_session *session,
                                        const uint8_t **data);
ssize_t __real_nghttp2_session_mem_send(nghttp2_session *session,
                                        const uint8_t **data);
int __wrap_nghttp2_session_set_stream_user_data(nghttp2_session *session,
                                                int32_t id, void *data);
int __real_nghttp2_session_set_stream_user_data(nghttp2_session *session,
                                                int32_t id, void *data);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd,
                  off_t offset);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd,
                  off_t offset);

void
__wrap_wp_h2_conn_touch(struct wp_h2_conn *at)
{
    assert_ptr_equal(at, conn);
    journal(" touch");
}

/* ------------------------------------------------ what fails of the library */

static void
fail_at(const char *function, unsigned nth, int with)
{
    failing = function;
    fails_in = nth;
    fails_with = with;
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
    return fails("callbacks") ? fails_with
                              : __real_nghttp2_session_callbacks_new(out);
}

int
__wrap_nghttp2_option_new(nghttp2_option **out)
{
    return fails("option") ? fails_with : __real_nghttp2_option_new(out);
}

/* Like the library's: what it leaves there on failure is not to be used. */
int
__wrap_nghttp2_session_server_new3(nghttp2_session **out,
                                   const nghttp2_session_callbacks *calls,
                                   void *user, const nghttp2_option *option,
                                   nghttp2_mem *mem)
{
    if (fails("session")) {
        *out = (nghttp2_session *)(void *)in;
        return fails_with;
    }
    return __real_nghttp2_session_server_new3(out, calls, user, option, mem);
}

int
__wrap_nghttp2_submit_settings(nghttp2_session *session, uint8_t flags,
                               const nghttp2_settings_entry *entries, size_t n)
{
    return fails("settings")
               ? fails_with
               : __real_nghttp2_submit_settings(session, flags, entries, n);
}

int
__wrap_nghttp2_session_set_local_window_size(nghttp2_session *session,
                                             uint8_t flags, int32_t id,
                                             int32_t size)
{
    return fails("window") ? fails_with
                           : __real_nghttp2_session_set_local_window_size(
                                 session, flags, id, size);
}

ssize_t
__wrap_nghttp2_session_mem_recv(nghttp2_session *session, const uint8_t *bytes,
                                size_t len)
{
    return fails("receive")
               ? fails_with
               : __real_nghttp2_session_mem_recv(session, bytes, len);
}

ssize_t
__wrap_nghttp2_session_mem_send(nghttp2_session *session, const uint8_t **data)
{
    return fails("send") ? fails_with
                         : __real_nghttp2_session_mem_send(session, data);
}

int
__wrap_nghttp2_session_set_stream_user_data(nghttp2_session *session,
                                            int32_t id, void *data)
{
    return fails("user data")
               ? fails_with
               : __real_nghttp2_session_set_stream_user_data(session, id, data);
}

void *
__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    if (fails("mmap")) {
        errno = fails_with;
        return MAP_FAILED;
    }
    return __real_mmap(at, len, prot, flags, fd, offset);
}

/* ------------------------------------------------------------- the handler */

static void
on_init(void *ctx, struct wp_h2_stream *stream)
{
    assert_ptr_equal(ctx, &server);
    journal(" init(%d)", (int)((char *)stream - worker.streams));
}

static void
on_header(void *ctx, void *request, struct wp_str name, struct wp_str value)
{
    assert_ptr_equal(ctx, &server);
    *(unsigned char *)request += 1;
    journal(" %.*s=%.20s(%zu)", WP_STR_ARG(name), value.ptr, value.len);
}

static void
on_request(void *ctx, struct wp_h2_conn *of, int32_t id, const void *request,
           bool too_long)
{
    static const struct wp_h2_field no[] = {{LIT(":status"), LIT("404")}};

    assert_ptr_equal(ctx, &server);
    journal(" request(%d %d of %u%s)", id, of == conn,
            *(const unsigned char *)request, too_long ? " too long" : "");
    if (refuses) {
        wp_h2_conn_refuse(of, id, no, 1);
        return;
    }
    last = wp_h2_stream_open(of, id);
    if (last == NULL) {
        journal(" full");
    }
}

static void
on_data(struct wp_h2_stream *stream, const uint8_t *bytes, size_t len)
{
    journal(" data(%d ", stream->id);
    journal_bytes((const char *)bytes, len);
    journal(")");
}

static void
on_ended(struct wp_h2_stream *stream)
{
    journal(" ended(%d)", stream->id);
}

static void
on_closed(struct wp_h2_stream *stream)
{
    journal(" closed(%d%s)", stream->id, stream->answered ? " answered" : "");
    assert_null(stream->conn);
    wp_h2_stream_free(stream);
}

static void
on_sent(struct wp_h2_stream *stream)
{
    journal(" sent(%d)", stream->id);
}

static size_t
on_trailers(struct wp_h2_stream *stream,
            struct wp_h2_field fields[WP_H2_FIELDS_MAX])
{
    journal(" trailers(%d)", stream->id);
    fields[0] = (struct wp_h2_field){WP_STR("end"), WP_STR("well")};
    return 1;
}

/* ---------------------------------------------------------------- the rig */

/* A new connection in place of the one that has ended. */
static void
anew(void)
{
    memset(conn, 0, sizeof *conn);
    conn->server = &server;
    conn->worker = &worker;
    conn->fd = -1;
    wp_list_init(&conn->streams);
}

static int
set_up(void **state)
{
    struct wp_err err;

    (void)state;
    memset(&server, 0, sizeof server);
    memset(&worker, 0, sizeof worker);
    server.handler = (struct wp_h2_handler){
        .ctx = &server,
        .stream_size = sizeof(struct wp_h2_stream),
        .init = on_init,
        .header = on_header,
        .request = on_request,
        .data = on_data,
        .ended = on_ended,
        .closed = on_closed,
        .sent = on_sent,
        .trailers = on_trailers,
        .head = {{LIT(":status"), LIT("200")}, {LIT("x"), LIT("head")}},
        .n_head = 2,
    };
    server.config.streams_per_connection_max = 3;
    server.config.metadata_bytes_max = METADATA_MAX;
    worker.server = &server;
    assert_int_equal(wp_h2_session_set_up(&server, &err), WP_OK);
    assert_int_equal(wp_h2_stream_pool_create(&worker, STREAMS, &err), WP_OK);
    conn = calloc(1, sizeof *conn);
    assert_non_null(conn);
    anew();
    last = NULL;
    refuses = false;
    failing = NULL;
    in_len = 0;
    journal_drop();
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_h2_session_end(conn);
    free(conn);
    wp_h2_stream_pool_destroy(&worker);
    wp_h2_memory_free(&worker.memory);
    wp_h2_session_tear_down(&server);
    return 0;
}

static void
put(const void *bytes, size_t len)
{
    assert_true(in_len + len <= sizeof in);
    memcpy(in + in_len, bytes, len);
    in_len += len;
}

static void
frame(uint8_t type, uint8_t flags, uint32_t id, const void *payload, size_t len)
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

/* What is known of the connection, once bytes were said and written. */
static void
show(void)
{
    uint8_t *out = worker.out;
    size_t n = wp_h2_session_produce(conn, out, WP_H2_WRITE_SIZE);

    journal(" | tokens %lld unknown %lld%s%s", (long long)conn->tokens_x,
            (long long)conn->unknown, conn->doomed ? " doomed" : "",
            conn->pinged ? " pinged" : "");
    if (conn->doomed) {
        journal(" %u", conn->doom);
    }
    /* Whole frames, each with its head and, when it is short, all of it. */
    for (size_t at = 0; at + 9 <= n;) {
        size_t len = (size_t)out[at] << 16 | (size_t)out[at + 1] << 8 |
                     (size_t)out[at + 2];

        /* What a GOAWAY says beyond its code are the library's words. */
        size_t shown = out[at + 3] == NGHTTP2_GOAWAY ? 8 : len;

        journal(" <%zu type %u flags %u stream %u:", shown, out[at + 3],
                out[at + 4], out[at + 8]);
        for (size_t i = 0; i < shown && i < 40; i++) {
            journal("%02x", out[at + 9 + i]);
        }
        journal(">");
        at += 9 + len;
    }
    if (wp_h2_stream_tell_sent(&worker)) {
        journal(" told");
    }
    journal_line();
}

static void
say(const char *what)
{
    bool good;

    journal("= %s:", what);
    good = wp_h2_session_receive(conn, in, in_len);
    in_len = 0;
    journal("%s", good ? "" : " bad");
    show();
}

static void
hello(void)
{
    put("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    frame(NGHTTP2_SETTINGS, 0, 0, "", 0);
    say("hello");
}

static const char get[] = "\x82\x86\x84\x41\x01h"; /* GET http://h/ */

static void
put_ask(uint32_t id, bool ends)
{
    frame(NGHTTP2_HEADERS,
          NGHTTP2_FLAG_END_HEADERS | (ends ? NGHTTP2_FLAG_END_STREAM : 0), id,
          get, sizeof get - 1);
}

static void
ask(uint32_t id, bool ends)
{
    put_ask(id, ends);
    say("ask");
}

/* ------------------------------------------------------------------ tests */

static void
test_streams_are_opened_fed_and_answered(void **state)
{
    static uint8_t piece[40000];

    (void)state;
    for (size_t i = 0; i < sizeof piece; i++) {
        piece[i] = (uint8_t)(i / 16384 + 1);
    }
    hello();
    ask(1, false);
    frame(NGHTTP2_DATA, 0, 1, "ab", 2);
    frame(NGHTTP2_DATA, 0, 1, "", 0);
    say("data");
    frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "", 0);
    say("end");
    wp_h2_stream_send(last, piece, sizeof piece);
    show();
    wp_h2_stream_send(last, piece, 5);
    wp_h2_stream_end(last);
    show();
    ask(3, false);
    wp_h2_stream_end(last);
    show();
    ask(5, true);
    wp_h2_stream_send(last, piece, 3);
    show();
    wp_h2_stream_end(last);
    show();
    ask(7, true);
    wp_h2_stream_reset(last);
    show();
    ask(9, true);
    wp_h2_stream_turn_away(last);
    show();
    refuses = true;
    ask(11, true);
    refuses = false;
    ask(13, false);
    ask(15, false);
    ask(17, false);
    ask(19, false);
    frame(NGHTTP2_RST_STREAM, 0, 13, "\0\0\0\x08", 4);
    say("reset");
    wp_h2_session_ping(conn);
    conn->pinged = true;
    show();
    frame(NGHTTP2_PING, 0, 0, "12345678", 8);
    say("ping");
    frame(NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, "\0\0\0\0\0\0\0\0", 8);
    say("pong");
    frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM,
          15, "\x00\x01t\x01v", 5);
    say("trailers");
    wp_h2_session_goodbye(conn);
    show();
    wp_h2_session_end(conn);
    journal_compare(WP_TEST_GOLDEN "/session_streams.txt");
}

/* 64 bytes of frames that nobody knows cost as much as one that brings no
 * work, in pieces or not. */
static void
test_what_is_unknown_is_charged(void **state)
{
    static const char zeros[300];

    (void)state;
    hello();
    for (size_t len = 0; len < 260; len += 1 + len / 2) {
        frame(0xee, 0, 0, zeros, len);
        say("unknown");
    }
    for (size_t len = 53; len <= 57; len++) {
        conn->unknown = 0;
        frame(0xee, 0, 0, zeros, len);
        say("exact");
    }
    conn->unknown = 0;
    frame(NGHTTP2_PING, 0, 0, "12345678", 8);
    in_len -= 4;
    say("half of a ping");
    put("5678", 4);
    say("the rest");
    ask(1, true);
    journal_compare(WP_TEST_GOLDEN "/session_unknown.txt");
}

static void
test_an_allowance_grows_to_a_second(void **state)
{
    (void)state;
    conn->tokens_x = -5;
    conn->tokens_ns = 100;
    assert_int_equal(wp_h2_session_debt_ns(conn, 103), 2);
    assert_int_equal(conn->tokens_x, -2);
    assert_int_equal(conn->tokens_ns, 103);
    assert_int_equal(wp_h2_session_debt_ns(conn, 105), 0);
    assert_int_equal(conn->tokens_x, 0);
    assert_int_equal(wp_h2_session_debt_ns(conn, 105 + WP_NS_PER_S), 0);
    assert_int_equal(conn->tokens_x, WP_NS_PER_S);
    assert_int_equal(wp_h2_session_debt_ns(conn, 106 + WP_NS_PER_S), 0);
    assert_int_equal(conn->tokens_x, WP_NS_PER_S);
    wp_h2_session_charge(conn);
    assert_int_equal(conn->tokens_x, WP_NS_PER_S - WP_NS_PER_S / 4000);
}

/* A request with a header of so many bytes, in frames of at most 16384. */
static void
ask_long(uint32_t id, size_t value, size_t first)
{
    static char block[40 << 10];
    size_t n = sizeof get - 1;

    memcpy(block, get, n);
    /* Literal, not indexed: "x", and the length with a prefix of 7 bits. */
    memcpy(block + n, "\x00\x01x\x7f", 4);
    n += 4;
    for (size_t left = value - 127;; left >>= 7) {
        block[n++] = (char)(left >= 128 ? (left & 127) | 128 : left);
        if (left < 128) {
            break;
        }
    }
    memset(block + n, 'v', value);
    n += value;
    first = first < n ? first : n;
    frame(NGHTTP2_HEADERS,
          NGHTTP2_FLAG_END_STREAM | (first == n ? NGHTTP2_FLAG_END_HEADERS : 0),
          id, block, first);
    for (size_t at = first; at < n;) {
        size_t len = n - at < first ? n - at : first;

        frame(NGHTTP2_CONTINUATION,
              at + len == n ? NGHTTP2_FLAG_END_HEADERS : 0, id, block + at,
              len);
        at += len;
    }
    say("long");
}

static void
test_headers_are_bounded(void **state)
{
    /* :method, :scheme, :path, :authority and x take 7+3+7+4+5+1+10+1+1 bytes
     * and 5 times 32. */
    enum {
        REST = 10 + 11 + 6 + 11 + 1 + 5 * 32
    };

    (void)state;
    server.config.metadata_bytes_max = 1000;
    server.config.streams_per_connection_max = 10;
    hello();
    ask_long(1, 1000 - REST, 16384);
    ask_long(3, 1000 - REST + 1, 16384);
    ask_long(5, 4000 - REST, 300 * 5);
    ask_long(7, 4000 - REST + 1, 16384);
    journal_compare(WP_TEST_GOLDEN "/session_headers.txt");
}

static void
test_blocks_are_bounded_as_sent(void **state)
{
    static const uint32_t maxima[] = {8191, 8192, 8193};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(maxima); i++) {
        for (uint32_t more = 0; more <= 3; more++) {
            server.config.metadata_bytes_max = maxima[i];
            hello();
            /* 6 of get, 4, and 3 of the length. */
            ask_long(1, 16384 - 13 + more, 16384);
            wp_h2_session_end(conn);
            anew();
        }
    }
    journal_compare(WP_TEST_GOLDEN "/session_blocks.txt");
}

static void
test_what_breaks_the_protocol_ends_it(void **state)
{
    static const uint8_t settings[17 * 6] = {0, 9};

    (void)state;
    for (int i = 0; i < 4; i++) {
        if (i == 0) {
            put("GET / HTTP/1.1\r\n\r\nabcdefghi", 24);
            say("no magic");
        } else {
            hello();
        }
        if (i == 1) {
            frame(NGHTTP2_SETTINGS, 0, 0, settings, 16 * 6);
            say("settings");
            frame(NGHTTP2_SETTINGS, 0, 0, settings, 17 * 6);
            say("settings");
        } else if (i == 2) {
            frame(NGHTTP2_PING, 0, 1, "12345678", 8);
            say("ping of a stream");
        } else if (i == 3) {
            ask(0x1234567, false);
            frame(NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\0", 4);
            say("window");
        }
        wp_h2_session_goodbye(conn);
        wp_h2_session_ping(conn);
        say("after");
        wp_h2_session_end(conn);
        anew();
    }
    journal_compare(WP_TEST_GOLDEN "/session_broken.txt");
}

/* Without memory a connection ends with the word that it asked for too much;
 * nothing is left of its session. */
static void
test_a_session_that_cannot_be_had_ends_the_connection(void **state)
{
    static const char *const steps[] = {"session", "settings", "window"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(steps); i++) {
        fail_at(steps[i], 1, NGHTTP2_ERR_NOMEM);
        hello();
        assert_int_equal(conn->session == NULL, i == 0);
        wp_h2_session_goodbye(conn);
        wp_h2_session_ping(conn);
        say("after");
        wp_h2_session_end(conn);
        journal("%zu bytes are held", conn->memory.bytes);
        journal_line();
        anew();
    }
    wp_h2_session_goodbye(conn);
    wp_h2_session_ping(conn);
    assert_int_equal(wp_h2_session_produce(conn, worker.out, 1), 0);
    journal_compare(WP_TEST_GOLDEN "/session_no_memory.txt");
}

/* What the library says of bytes, and of frames, in the words of GOAWAY; what
 * was framed before stays in front of it. */
static void
test_errors_of_the_library_end_the_connection(void **state)
{
    static const int errors[] = {
        NGHTTP2_ERR_FLOODED,           NGHTTP2_ERR_TOO_MANY_CONTINUATIONS,
        NGHTTP2_ERR_TOO_MANY_SETTINGS, NGHTTP2_ERR_NOMEM,
        NGHTTP2_ERR_BAD_CLIENT_MAGIC,  NGHTTP2_ERR_CALLBACK_FAILURE,
        NGHTTP2_ERR_INVALID_ARGUMENT,  -1,
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(errors); i++) {
        for (unsigned nth = 0; nth <= 2; nth++) {
            hello();
            journal("error %d: ", (int)i);
            if (nth == 0) {
                fail_at("receive", 1, errors[i]);
            } else {
                fail_at("send", nth, errors[i]);
            }
            frame(NGHTTP2_PING, 0, 0, "12345678", 8);
            frame(NGHTTP2_PING, 0, 0, "abcdefgh", 8);
            say("pings");
            say("after");
            wp_h2_session_end(conn);
            anew();
        }
    }
    journal_compare(WP_TEST_GOLDEN "/session_errors.txt");
}

static void
test_what_sessions_need_is_had_or_refused(void **state)
{
    static const char *const steps[] = {"callbacks", "option", "mmap"};
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(steps); i++) {
        struct wp_h2_server other = {.handler.stream_size = 65};
        struct wp_h2_worker thread = {.server = &other};
        enum wp_status status;

        fail_at(steps[i], 1, i == 2 ? ENOMEM : NGHTTP2_ERR_NOMEM);
        memset(&err, 0, sizeof err);
        status = wp_h2_session_set_up(&other, &err);
        journal("%s: %d %s", steps[i], (int)status, err.msg);
        memset(&err, 0, sizeof err);
        status = wp_h2_stream_pool_create(&thread, 7, &err);
        journal(", %d %s: %zu of %zu bytes", (int)status, err.msg,
                thread.n_streams, thread.stream_size);
        journal_line();
        wp_h2_stream_pool_destroy(&thread);
        wp_h2_session_tear_down(&other);
    }
    journal_is("callbacks: 8 memory for sessions, 0 : 7 of 128 bytes\n"
               "option: 8 memory for sessions, 0 : 7 of 128 bytes\n"
               "mmap: 0 , 8 memory for 7 calls (setting calls_max): Cannot "
               "allocate memory: 0 of 128 bytes\n");
}

/* A stream that the library does not know any more is not opened: its object
 * is for the next. */
static void
test_an_object_is_kept_for_the_next_stream(void **state)
{
    struct wp_h2_stream *first;

    (void)state;
    server.config.streams_per_connection_max = 10;
    hello();
    fail_at("user data", 1, NGHTTP2_ERR_INVALID_ARGUMENT);
    ask(1, true);
    assert_null(last);
    assert_false(conn->served);
    assert_true(wp_list_empty(&conn->streams));
    ask(3, true);
    assert_non_null(last);
    assert_ptr_equal(last, worker.streams);
    assert_true(conn->served);
    first = last;
    wp_h2_stream_reset(first);
    show();
    assert_int_equal(worker.n_begun, 1);
    ask(5, true);
    assert_ptr_equal(last, first);
    ask(7, true);
    assert_ptr_equal(last, worker.streams + worker.stream_size);
    ask(9, true);
    assert_null(last);
    journal_drop();
}

/* Those that end before they are told are taken out of the row, wherever they
 * stand in it. */
static void
test_who_is_freed_is_not_told(void **state)
{
    static uint8_t byte = 'x';
    struct wp_h2_stream *streams[3];

    (void)state;
    wp_h2_stream_pool_destroy(&worker);
    memset(&worker, 0, sizeof worker);
    worker.server = &server;
    for (size_t gone = 0; gone < 8; gone++) {
        struct wp_err err;

        assert_int_equal(wp_h2_stream_pool_create(&worker, 3, &err), WP_OK);
        worker.n_begun = 0;
        worker.free_streams = NULL;
        journal_mute(true);
        hello();
        for (uint32_t i = 0; i < 3; i++) {
            put_ask(2 * i + 1, true);
            assert_true(wp_h2_session_receive(conn, in, in_len));
            in_len = 0;
            streams[i] = last;
            wp_h2_stream_send(last, &byte, 1);
        }
        journal_mute(false);
        journal("gone %zu:", gone);
        assert_true(wp_h2_session_produce(conn, worker.out, WP_H2_WRITE_SIZE) >
                    3);
        for (size_t i = 0; i < 3; i++) {
            assert_true(streams[i]->sent_due);
            if ((gone & (size_t)1 << i) != 0) {
                wp_h2_stream_turn_away(streams[i]);
                assert_false(streams[i]->sent_due);
            }
        }
        journal(" | %d", wp_h2_stream_tell_sent(&worker));
        assert_null(worker.sent);
        journal(" %d", wp_h2_stream_tell_sent(&worker));
        journal_line();
        journal_mute(true);
        wp_h2_session_end(conn);
        journal_mute(false);
        wp_h2_stream_pool_destroy(&worker);
        worker.streams = NULL;
        anew();
    }
    journal_compare(WP_TEST_GOLDEN "/session_freed.txt");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(test_streams_are_opened_fed_and_answered),
        TEST(test_what_is_unknown_is_charged),
        TEST(test_an_allowance_grows_to_a_second),
        TEST(test_headers_are_bounded),
        TEST(test_blocks_are_bounded_as_sent),
        TEST(test_what_breaks_the_protocol_ends_it),
        TEST(test_a_session_that_cannot_be_had_ends_the_connection),
        TEST(test_errors_of_the_library_end_the_connection),
        TEST(test_what_sessions_need_is_had_or_refused),
        TEST(test_an_object_is_kept_for_the_next_stream),
        TEST(test_who_is_freed_is_not_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
