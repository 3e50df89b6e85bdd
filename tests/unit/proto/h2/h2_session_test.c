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
#include <string.h>

#include "tests/support/base/journal.h"
#include "tests/unit/proto/h2/h2_session_rig.h"

/* ------------------------------------------------------------------ tests */

static void
test_streams_are_opened_fed_and_answered(void **state)
{
    static uint8_t piece[40000];

    (void)state;
    for (size_t i = 0; i < sizeof piece; i++) {
        piece[i] = (uint8_t)(i / 16384 + 1);
    }
    rig_hello();
    rig_ask(1, false);
    rig_frame(NGHTTP2_DATA, 0, 1, "ab", 2);
    rig_frame(NGHTTP2_DATA, 0, 1, "", 0);
    rig_say("data");
    rig_frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "", 0);
    rig_say("end");
    wp_h2_stream_send(rig.last, piece, sizeof piece);
    rig_show();
    wp_h2_stream_send(rig.last, piece, 5);
    wp_h2_stream_end(rig.last);
    rig_show();
    rig_ask(3, false);
    wp_h2_stream_end(rig.last);
    rig_show();
    rig_ask(5, true);
    wp_h2_stream_send(rig.last, piece, 3);
    rig_show();
    wp_h2_stream_end(rig.last);
    rig_show();
    rig_ask(7, true);
    wp_h2_stream_reset(rig.last);
    rig_show();
    rig_ask(9, true);
    wp_h2_stream_turn_away(rig.last);
    rig_show();
    rig.refuses = true;
    rig_ask(11, true);
    rig.refuses = false;
    rig_ask(13, false);
    rig_ask(15, false);
    rig_ask(17, false);
    rig_ask(19, false);
    rig_frame(NGHTTP2_RST_STREAM, 0, 13, "\0\0\0\x08", 4);
    rig_say("reset");
    wp_h2_session_ping(rig.conn);
    rig.conn->pinged = true;
    rig_show();
    rig_frame(NGHTTP2_PING, 0, 0, "12345678", 8);
    rig_say("ping");
    rig_frame(NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, "\0\0\0\0\0\0\0\0", 8);
    rig_say("pong");
    rig_frame(NGHTTP2_HEADERS,
              NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 15,
              "\x00\x01t\x01v", 5);
    rig_say("trailers");
    wp_h2_session_goodbye(rig.conn);
    rig_show();
    wp_h2_session_end(rig.conn);
    journal_compare(WP_TEST_GOLDEN "/session_streams.txt");
}

/* 64 bytes of frames that nobody knows cost as much as one that brings no
 * work, in pieces or not. */
static void
test_what_is_unknown_is_charged(void **state)
{
    static const char zeros[300];

    (void)state;
    rig_hello();
    for (size_t len = 0; len < 260; len += 1 + len / 2) {
        rig_frame(0xee, 0, 0, zeros, len);
        rig_say("unknown");
    }
    for (size_t len = 53; len <= 57; len++) {
        rig.conn->unknown = 0;
        rig_frame(0xee, 0, 0, zeros, len);
        rig_say("exact");
    }
    rig.conn->unknown = 0;
    rig_frame(NGHTTP2_PING, 0, 0, "12345678", 8);
    rig.in_len -= 4;
    rig_say("half of a ping");
    rig_put("5678", 4);
    rig_say("the rest");
    rig_ask(1, true);
    journal_compare(WP_TEST_GOLDEN "/session_unknown.txt");
}

static void
test_an_allowance_grows_to_a_second(void **state)
{
    (void)state;
    rig.conn->tokens_x = -5;
    rig.conn->tokens_ns = 100;
    assert_int_equal(wp_h2_session_debt_ns(rig.conn, 103), 2);
    assert_int_equal(rig.conn->tokens_x, -2);
    assert_int_equal(rig.conn->tokens_ns, 103);
    assert_int_equal(wp_h2_session_debt_ns(rig.conn, 105), 0);
    assert_int_equal(rig.conn->tokens_x, 0);
    assert_int_equal(wp_h2_session_debt_ns(rig.conn, 105 + WP_NS_PER_S), 0);
    assert_int_equal(rig.conn->tokens_x, WP_NS_PER_S);
    assert_int_equal(wp_h2_session_debt_ns(rig.conn, 106 + WP_NS_PER_S), 0);
    assert_int_equal(rig.conn->tokens_x, WP_NS_PER_S);
    wp_h2_session_charge(rig.conn);
    assert_int_equal(rig.conn->tokens_x, WP_NS_PER_S - WP_NS_PER_S / 4000);
}

/* A request with a header of so many bytes, in frames of at most 16384. */
static void
ask_long(uint32_t id, size_t value, size_t first)
{
    static char block[40 << 10];
    size_t n = sizeof RIG_GET - 1;

    memcpy(block, RIG_GET, n);
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
    rig_frame(NGHTTP2_HEADERS,
              NGHTTP2_FLAG_END_STREAM |
                  (first == n ? NGHTTP2_FLAG_END_HEADERS : 0),
              id, block, first);
    for (size_t at = first; at < n;) {
        size_t len = n - at < first ? n - at : first;

        rig_frame(NGHTTP2_CONTINUATION,
                  at + len == n ? NGHTTP2_FLAG_END_HEADERS : 0, id, block + at,
                  len);
        at += len;
    }
    rig_say("long");
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
    rig.server.config.metadata_bytes_max = 1000;
    rig.server.config.streams_per_connection_max = 10;
    rig_hello();
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
            rig.server.config.metadata_bytes_max = maxima[i];
            rig_hello();
            /* 6 of get, 4, and 3 of the length. */
            ask_long(1, 16384 - 13 + more, 16384);
            wp_h2_session_end(rig.conn);
            rig_anew();
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
            rig_put("GET / HTTP/1.1\r\n\r\nabcdefghi", 24);
            rig_say("no magic");
        } else {
            rig_hello();
        }
        if (i == 1) {
            rig_frame(NGHTTP2_SETTINGS, 0, 0, settings, 16 * 6);
            rig_say("settings");
            rig_frame(NGHTTP2_SETTINGS, 0, 0, settings, 17 * 6);
            rig_say("settings");
        } else if (i == 2) {
            rig_frame(NGHTTP2_PING, 0, 1, "12345678", 8);
            rig_say("ping of a stream");
        } else if (i == 3) {
            rig_ask(0x1234567, false);
            rig_frame(NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\0", 4);
            rig_say("window");
        }
        wp_h2_session_goodbye(rig.conn);
        wp_h2_session_ping(rig.conn);
        rig_say("after");
        wp_h2_session_end(rig.conn);
        rig_anew();
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
        rig_fail(steps[i], 1, NGHTTP2_ERR_NOMEM);
        rig_hello();
        assert_int_equal(rig.conn->session == NULL, i == 0);
        wp_h2_session_goodbye(rig.conn);
        wp_h2_session_ping(rig.conn);
        rig_say("after");
        wp_h2_session_end(rig.conn);
        journal("%zu bytes are held", rig.conn->memory.bytes);
        journal_line();
        rig_anew();
    }
    wp_h2_session_goodbye(rig.conn);
    wp_h2_session_ping(rig.conn);
    assert_int_equal(wp_h2_session_produce(rig.conn, rig.worker.out, 1), 0);
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
            rig_hello();
            journal("error %d: ", (int)i);
            if (nth == 0) {
                rig_fail("receive", 1, errors[i]);
            } else {
                rig_fail("send", nth, errors[i]);
            }
            rig_frame(NGHTTP2_PING, 0, 0, "12345678", 8);
            rig_frame(NGHTTP2_PING, 0, 0, "abcdefgh", 8);
            rig_say("pings");
            rig_say("after");
            wp_h2_session_end(rig.conn);
            rig_anew();
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

        rig_fail(steps[i], 1, i == 2 ? ENOMEM : NGHTTP2_ERR_NOMEM);
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
    rig.server.config.streams_per_connection_max = 10;
    rig_hello();
    rig_fail("user data", 1, NGHTTP2_ERR_INVALID_ARGUMENT);
    rig_ask(1, true);
    assert_null(rig.last);
    assert_false(rig.conn->served);
    assert_true(wp_list_empty(&rig.conn->streams));
    rig_ask(3, true);
    assert_non_null(rig.last);
    assert_ptr_equal(rig.last, rig.worker.streams);
    assert_true(rig.conn->served);
    first = rig.last;
    wp_h2_stream_reset(first);
    rig_show();
    assert_int_equal(rig.worker.n_begun, 1);
    rig_ask(5, true);
    assert_ptr_equal(rig.last, first);
    rig_ask(7, true);
    assert_ptr_equal(rig.last, rig.worker.streams + rig.worker.stream_size);
    rig_ask(9, true);
    assert_null(rig.last);
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
    wp_h2_stream_pool_destroy(&rig.worker);
    memset(&rig.worker, 0, sizeof rig.worker);
    rig.worker.server = &rig.server;
    for (size_t gone = 0; gone < 8; gone++) {
        struct wp_err err;

        assert_int_equal(wp_h2_stream_pool_create(&rig.worker, 3, &err), WP_OK);
        rig.worker.n_begun = 0;
        rig.worker.free_streams = NULL;
        journal_mute(true);
        rig_hello();
        for (uint32_t i = 0; i < 3; i++) {
            rig_put_ask(2 * i + 1, true);
            assert_true(wp_h2_session_receive(rig.conn, rig.in, rig.in_len));
            rig.in_len = 0;
            streams[i] = rig.last;
            wp_h2_stream_send(rig.last, &byte, 1);
        }
        journal_mute(false);
        journal("gone %zu:", gone);
        assert_true(wp_h2_session_produce(rig.conn, rig.worker.out,
                                          WP_H2_WRITE_SIZE) > 3);
        for (size_t i = 0; i < 3; i++) {
            assert_true(streams[i]->sent_due);
            if ((gone & (size_t)1 << i) != 0) {
                wp_h2_stream_turn_away(streams[i]);
                assert_false(streams[i]->sent_due);
            }
        }
        journal(" | %d", wp_h2_stream_tell_sent(&rig.worker));
        assert_null(rig.worker.sent);
        journal(" %d", wp_h2_stream_tell_sent(&rig.worker));
        journal_line();
        journal_mute(true);
        wp_h2_session_end(rig.conn);
        journal_mute(false);
        wp_h2_stream_pool_destroy(&rig.worker);
        rig.worker.streams = NULL;
        rig_anew();
    }
    journal_compare(WP_TEST_GOLDEN "/session_freed.txt");
}

/* What an object says of itself. */
static void
show_stream(const struct wp_h2_stream *stream)
{
    journal(" (%d%s%s piece %s %zu of %zu%s%s%s%s%s)", stream->id,
            stream->conn != NULL ? "" : " gone",
            stream->answered ? " answered" : "",
            stream->piece != NULL ? "there" : "none", stream->piece_at,
            stream->piece_len, stream->counted ? " counted" : "",
            stream->headed ? " headed" : "", stream->ending ? " ending" : "",
            stream->sent_due ? " due" : "", stream->deferred ? " waits" : "");
}

static void
test_a_stream_knows_what_it_has_sent(void **state)
{
    static uint8_t piece[70000];

    (void)state;
    rig_hello();
    rig.tells = true;
    rig_ask(1, false);
    show_stream(rig.last);
    wp_h2_stream_send(rig.last, piece, 5);
    show_stream(rig.last);
    rig_show();
    show_stream(rig.last);
    rig_show();
    show_stream(rig.last);
    rig_say("more than the window");
    wp_h2_stream_send(rig.last, piece, sizeof piece);
    show_stream(rig.last);
    rig_show();
    show_stream(rig.last);
    wp_h2_stream_end(rig.last);
    show_stream(rig.last);
    rig_frame(NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\x08", 4);
    rig_say("given up");
    show_stream(rig.last);
    rig_say("an answer of trailers only");
    rig_ask(3, true);
    show_stream(rig.last);
    wp_h2_stream_end(rig.last);
    show_stream(rig.last);
    rig_show();
    show_stream(rig.last);
    rig_frame(NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\1\0\0", 4);
    rig_say("sent and ended");
    rig_ask(5, true);
    wp_h2_stream_send(rig.last, piece, 2);
    wp_h2_stream_end(rig.last);
    show_stream(rig.last);
    rig_show();
    show_stream(rig.last);
    journal_line();
    journal_compare(WP_TEST_GOLDEN "/session_sent.txt");
}

/* Whatever the stream before left in it. */
static void
test_an_object_is_as_new(void **state)
{
    struct wp_h2_stream *object;

    (void)state;
    rig_hello();
    rig_ask(1, false);
    object = rig.last;
    wp_h2_stream_reset(object);
    rig_show();
    journal_drop();
    assert_null(object->conn);
    object->answered = object->counted = object->headed = object->ending =
        object->deferred = true;
    object->piece_len = object->piece_at = 7;
    rig_ask(3, false);
    journal_drop();
    assert_ptr_equal(rig.last, object);
    assert_ptr_equal(object->conn, rig.conn);
    show_stream(object);
    journal_is(" (3 piece none 0 of 0)");
}

static void
test_objects_are_used_again_in_any_order(void **state)
{
    struct wp_h2_stream *objects[RIG_STREAMS];

    (void)state;
    rig_hello();
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < RIG_STREAMS; i++) {
            rig.last = NULL;
            rig_ask(4 * round + 2 * i + 1, false);
            assert_non_null(rig.last);
            objects[i] = rig.last;
        }
        assert_ptr_not_equal(objects[0], objects[1]);
        for (size_t i = 0; i < RIG_STREAMS; i++) {
            wp_h2_stream_turn_away(objects[(i + round) % RIG_STREAMS]);
        }
        rig_show();
    }
    assert_int_equal(rig.worker.n_begun, RIG_STREAMS);
    journal_drop();
}

/* As a call of the peer whose connection it is, until its object is given
 * back. */
static void
test_streams_are_counted(void **state)
{
    (void)state;
    rig_hello();
    for (uint32_t i = 0; i < 4; i++) {
        rig.conn->ticket = (struct wp_peer_ticket){.entry = i, .share = 9 - i};
        rig_ask(2 * i + 1, false);
        if (i < 3) {
            journal(" = %d", (int)wp_h2_stream_count(rig.last));
        }
        show_stream(rig.last);
        wp_h2_stream_turn_away(rig.last);
        show_stream(rig.last);
        rig_show();
    }
    journal_compare(WP_TEST_GOLDEN "/session_counted.txt");
}

/* Of a session that is doomed, or gone, nothing more is asked. */
static void
test_turned_away_without_a_session(void **state)
{
    nghttp2_session *session;

    (void)state;
    rig_hello();
    rig.tells = true;
    rig_ask(1, false);
    wp_h2_stream_turn_away(rig.last);
    rig_show();
    rig_ask(3, false);
    session = rig.conn->session;
    rig.conn->session = NULL;
    wp_h2_stream_turn_away(rig.last);
    rig.conn->session = session;
    rig_show();
    rig_ask(5, false);
    rig.conn->doomed = true;
    wp_h2_stream_turn_away(rig.last);
    rig_show();
    rig.conn->doomed = false;
    journal_compare(WP_TEST_GOLDEN "/session_turned_away.txt");
}

static void
test_an_answer_has_up_to_eight_fields(void **state)
{
    static const struct wp_h2_field all[WP_H2_FIELDS_MAX + 1] = {
        {LIT(":status"), LIT("404")}, {LIT("a"), LIT("1")},
        {LIT("b"), LIT("2")},         {LIT("c"), LIT("3")},
        {LIT("d"), LIT("4")},         {LIT("e"), LIT("5")},
        {LIT("f"), LIT("6")},         {LIT("g"), LIT("7")},
        {LIT("h"), LIT("8")},
    };

    (void)state;
    rig_hello();
    for (uint32_t i = 0; i < 3; i++) {
        rig_ask(2 * i + 1, true);
        wp_h2_conn_refuse(rig.conn, (int32_t)(2 * i + 1), all,
                          i < 2 ? i + 1 : WP_H2_FIELDS_MAX);
        rig_show();
    }
    journal_compare(WP_TEST_GOLDEN "/session_fields.txt");
}

static void
test_empty_data_is_charged(void **state)
{
    (void)state;
    rig_hello();
    rig_ask(1, false);
    for (int i = 0; i < 4; i++) {
        rig_frame(NGHTTP2_DATA, 0, 1, "ab", i == 0 ? 2 : i == 1 ? 1 : 0);
        rig_say("data");
    }
    rig_frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "", 0);
    rig_say("its end");
    rig_say("nothing at all");
    journal_compare(WP_TEST_GOLDEN "/session_empty.txt");
}

/* In one read, 2000 acknowledgements may wait; and a block of headers may have
 * four continuations. */
static void
test_what_is_left_to_do_is_bounded(void **state)
{
    (void)state;
    rig.server.config.streams_per_connection_max = 1024;
    for (uint32_t n = 1999; n <= 2002; n++) {
        rig_hello();
        for (uint32_t i = 0; i < n; i++) {
            rig_frame(NGHTTP2_SETTINGS, 0, 0, "", 0);
        }
        journal("%u settings:", n);
        journal("%s", wp_h2_session_receive(rig.conn, rig.in, rig.in_len)
                          ? ""
                          : " bad");
        journal(" doomed %d %u", rig.conn->doomed, rig.conn->doom);
        rig.in_len = 0;
        journal_line();
        journal_mute(true);
        wp_h2_session_end(rig.conn);
        journal_mute(false);
        rig_anew();
    }
    for (size_t i = 3; i <= 5; i++) {
        rig_hello();
        rig.server.config.metadata_bytes_max = 1000;
        rig_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, RIG_GET,
                  sizeof RIG_GET - 1);
        for (size_t n = 1; n <= i; n++) {
            rig_frame(NGHTTP2_CONTINUATION,
                      n == i ? NGHTTP2_FLAG_END_HEADERS : 0, 1, "\0\1x\1y", 5);
        }
        journal("%zu continuations", i);
        rig_say("");
        wp_h2_session_end(rig.conn);
        rig_anew();
    }
    journal_compare(WP_TEST_GOLDEN "/session_bounds.txt");
}

/* Frames are written until there is enough, and the last of them whole. */
static void
test_no_more_is_framed_than_asked_for(void **state)
{
    static const size_t caps[] = {1, 16, 17, 18, 33, 34, 35, 51, 52};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(caps); i++) {
        rig_hello();
        for (int n = 0; n < 3; n++) {
            rig_frame(NGHTTP2_PING, 0, 0, "12345678", 8);
        }
        assert_true(wp_h2_session_receive(rig.conn, rig.in, rig.in_len));
        rig.in_len = 0;
        journal_drop();
        assert_int_equal(
            wp_h2_session_produce(rig.conn, rig.worker.out, caps[i]),
            caps[i] > 51 ? 51 : (caps[i] + 16) / 17 * 17);
        wp_h2_session_end(rig.conn);
        rig_anew();
    }
}

/* Streams that are over are not kept for later. */
static void
test_streams_that_are_over_hold_nothing(void **state)
{
    size_t held = 0;

    (void)state;
    rig.server.config.streams_per_connection_max = 100;
    rig_hello();
    /* The first hundred fill the table of headers. */
    for (uint32_t i = 0; i < 300; i++) {
        rig_ask(2 * i + 1, true);
        wp_h2_stream_end(rig.last);
        rig_show();
        journal_drop();
        if (i == 199) {
            held = rig.conn->memory.bytes;
        }
    }
    assert_true(rig.conn->memory.bytes < held + 1024);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_begin, rig_end)

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
        TEST(test_a_stream_knows_what_it_has_sent),
        TEST(test_an_object_is_as_new),
        TEST(test_objects_are_used_again_in_any_order),
        TEST(test_streams_are_counted),
        TEST(test_turned_away_without_a_session),
        TEST(test_an_answer_has_up_to_eight_fields),
        TEST(test_empty_data_is_charged),
        TEST(test_what_is_left_to_do_is_bounded),
        TEST(test_no_more_is_framed_than_asked_for),
        TEST(test_streams_that_are_over_hold_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
