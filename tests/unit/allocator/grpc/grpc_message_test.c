/* tests/unit/allocator/grpc/grpc_message_test.c - messages out of a stream's
 * bytes, however they are cut: what methods see of them, how calls end, and
 * what is kept meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/grpc/grpc_rig.h"

enum {
    PREFIX = WP_RPC_PREFIX,
    FRAME_MAX = 16384,
    MESSAGE_MAX = 64 << 10, /* The rig's. */
    PARTIAL_MAX = 32 << 20, /* Of a thread. */
    END = 1,                /* The flag of a frame. */
};

size_t __real_wp_rpc_trailers_of(struct wp_h2_stream *stream,
                                 struct wp_h2_field fields[WP_H2_FIELDS_MAX]);
size_t __wrap_wp_rpc_trailers_of(struct wp_h2_stream *stream,
                                 struct wp_h2_field fields[WP_H2_FIELDS_MAX]);

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

/* The n-th from here on fails, of what the server asks for; 0: none. */
static unsigned malloc_fails, realloc_fails;
static struct wp_rpc_server *server;
static struct wp_h2_conn *conn;
static char heard[4096]; /* What has happened, event by event. */

static void
note(const char *what, const uint8_t *bytes, size_t len)
{
    size_t at = strlen(heard);

    if (len < 100) {
        (void)snprintf(heard + at, sizeof heard - at, "%s %.*s; ", what,
                       (int)len, (const char *)bytes);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(bytes[i], i * 7 % 251);
    }
    (void)snprintf(heard + at, sizeof heard - at, "%s %zu bytes; ", what, len);
}

size_t
__wrap_wp_rpc_trailers_of(struct wp_h2_stream *stream,
                          struct wp_h2_field fields[WP_H2_FIELDS_MAX])
{
    const struct wp_rpc_call *call =
        WP_CONTAINER_OF(stream, struct wp_rpc_call, stream);
    size_t at = strlen(heard);

    (void)snprintf(heard + at, sizeof heard - at, "%s: %s; ",
                   wp_status_name(call->status), call->details);
    return __real_wp_rpc_trailers_of(stream, fields);
}

void *
__wrap_malloc(size_t size)
{
    return malloc_fails > 0 && --malloc_fails == 0 ? NULL : __real_malloc(size);
}

void *
__wrap_realloc(void *old, size_t size)
{
    return realloc_fails > 0 && --realloc_fails == 0
               ? NULL
               : __real_realloc(old, size);
}

static void
unary_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    note("unary", request, len);
    assert_non_null(call->ops->reserve(call, 0));
    call->ops->finish(call, WP_OK, NULL, 0);
}

static void
bidi_received(struct wp_call *call, const uint8_t *request, size_t len)
{
    (void)call;
    note("more", request, len);
}

static void
bidi_ended(struct wp_call *call)
{
    note("ended", (const uint8_t *)"", 0);
    call->ops->finish(call, WP_OK, NULL, 0);
}

static void
bidi_cancelled(struct wp_call *call)
{
    note("cancelled", (const uint8_t *)"", 0);
    call->ops->finish(call, WP_CANCELLED, "gone", 5);
}

static void
bidi_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    note("first", request, len);
    call->received = bidi_received;
    call->ended = bidi_ended;
    call->cancelled = bidi_cancelled;
}

/* Answers each message with as many bytes; "end" ends it. */
static void
lock_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    uint8_t *reply;

    note("lock", request, len);
    /* Each round has all of it. */
    assert_non_null(wp_arena_alloc(&call->arena, WP_CALL_ARENA_SIZE / 4 * 3));
    if (len == 3 && memcmp(request, "end", 3) == 0) {
        call->ops->finish(call, WP_ABORTED, "as asked", 0);
        return;
    }
    reply = call->ops->reserve(call, len);
    assert_non_null(reply);
    memset(reply, 'r', len);
    assert_true(call->ops->send(call));
}

static const struct wp_method methods[] = {
    {"/test.Message/Unary", false, false, false, unary_start},
    {"/test.Message/Bidi", true, true, false, bidi_start},
};
static const struct wp_service service = {"test.Message", methods, 2, NULL};
static const struct wp_method lock_methods[] = {
    {"/test.Lock/Step", true, true, false, lock_start},
};
static const struct wp_service locked = {"test.Lock", lock_methods, 1, NULL};

/* window: what the peer takes of a stream before it says that it takes more. */
static void
connect_peer(uint32_t window)
{
    const uint8_t setting[] = {0,
                               4,
                               (uint8_t)(window >> 24),
                               (uint8_t)(window >> 16),
                               (uint8_t)(window >> 8),
                               (uint8_t)window};
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    uint8_t bytes[64];
    size_t len = sizeof preface - 1;

    memcpy(bytes, preface, len);
    len += wp_grpc_rig_frame(bytes + len, 4, 0, 0, setting, sizeof setting);
    conn = wp_grpc_rig_connect(server);
    assert_true(wp_grpc_rig_feed(server, conn, bytes, len));
    heard[0] = '\0';
}

static int
begin(void **state)
{
    struct wp_err err;

    (void)state;
    server = wp_grpc_rig_create(&service);
    assert_int_equal(wp_rpc_server_add_service(server, &locked, true, &err),
                     WP_OK);
    connect_peer(65535);
    return 0;
}

static int
end(void **state)
{
    struct wp_rpc_stats stats;

    (void)state;
    wp_grpc_rig_close(server, conn);
    wp_rpc_server_stats(server, &stats);
    assert_int_equal(stats.calls_in_flight, 0);
    assert_int_equal(server->threads[0].partial_bytes, 0);
    assert_int_equal(server->threads[0].n_waiting, 0);
    wp_rpc_server_stop(server);
    return 0;
}

static void
open_call(uint32_t stream, const char *path)
{
    uint8_t bytes[300];

    assert_true(wp_grpc_rig_feed(server, conn, bytes,
                                 wp_grpc_rig_head(bytes, stream, path)));
}

static void
send_data(uint32_t stream, const void *data, size_t len, uint8_t flags)
{
    static uint8_t bytes[FRAME_MAX + 16];
    const uint8_t *at = data;

    do {
        size_t n = len < FRAME_MAX ? len : FRAME_MAX;

        assert_true(wp_grpc_rig_feed(
            server, conn, bytes,
            wp_grpc_rig_frame(bytes, 0, n == len ? flags : 0, stream, at, n)));
        at += n;
        len -= n;
    } while (len > 0);
}

/* A message with its prefix; its bytes are the pattern that note expects. */
static uint8_t *
make_message(size_t len)
{
    uint8_t *bytes = malloc(PREFIX + len);

    assert_non_null(bytes);
    bytes[0] = 0;
    bytes[1] = (uint8_t)(len >> 24);
    bytes[2] = (uint8_t)(len >> 16);
    bytes[3] = (uint8_t)(len >> 8);
    bytes[4] = (uint8_t)len;
    for (size_t i = 0; i < len; i++) {
        bytes[PREFIX + i] = (uint8_t)(i * 7 % 251);
    }
    return bytes;
}

static void
has_heard(const char *expected)
{
    assert_string_equal(heard, expected);
    heard[0] = '\0';
}

static void
test_a_message_in_two_pieces(void **state)
{
    static const char message[] = "\0\0\0\0\5hello";
    uint32_t stream = 1;

    (void)state;
    for (size_t cut = 0; cut < sizeof message; cut++) {
        open_call(stream, "/test.Message/Unary");
        send_data(stream, message, cut, 0);
        if (cut < sizeof message - 1) {
            has_heard("");
        }
        send_data(stream, message + cut, sizeof message - 1 - cut, END);
        has_heard("unary hello; OK: ; ");
        stream += 2;
    }
    open_call(stream, "/test.Message/Unary");
    send_data(stream, "\0\0\0\0\0", 5, END);
    has_heard("unary ; OK: ; ");
}

/* Memory grows with what has come, not with what was announced. */
static void
test_a_long_message_in_pieces(void **state)
{
    static const struct {
        size_t come, kept;
    } steps[] = {{1, 1024},    {1024, 1024},   {1025, 2048},  {2048, 2048},
                 {2049, 4096}, {16384, 16384}, {60000, 65536}};
    const struct wp_rpc_thread *thread = &server->threads[0];
    uint8_t *message = make_message(MESSAGE_MAX);
    size_t at = PREFIX;

    (void)state;
    open_call(1, "/test.Message/Unary");
    send_data(1, message, PREFIX, 0);
    assert_int_equal(thread->partial_bytes, 0);
    for (size_t i = 0; i < WP_ARRAY_LEN(steps); i++) {
        send_data(1, message + at, PREFIX + steps[i].come - at, 0);
        at = PREFIX + steps[i].come;
        assert_int_equal(thread->partial_bytes, steps[i].kept);
        has_heard("");
    }
    send_data(1, message + at, PREFIX + MESSAGE_MAX - at, END);
    has_heard("unary 65536 bytes; OK: ; ");
    assert_int_equal(thread->partial_bytes, 0);
    free(message);
}

static void
test_what_is_no_message(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *expected;
    } rows[] = {
        {"\1\0\0\0\0", 5,
         "UNIMPLEMENTED: compressed messages are not understood; "},
        {"\2\0\0\0\0", 5,
         "INVALID_ARGUMENT: request: expected 0 or 1 before its length; "},
        {"\0\0\1\0\1x", 6,
         "RESOURCE_EXHAUSTED: the request is too long (setting message_max); "},
        {"\0\1\0\0\0x", 6,
         "RESOURCE_EXHAUSTED: the request is too long (setting message_max); "},
        {"", 0, "INVALID_ARGUMENT: request: a message was expected; "},
        {"\0\0\0", 3, "INVALID_ARGUMENT: request: a message was expected; "},
        {"\0\0\0\0\1", 5,
         "INVALID_ARGUMENT: request: a message was expected; "},
        {"\0\0\0\0\2x", 6,
         "INVALID_ARGUMENT: request: a message was expected; "},
        /* What comes after its one message is nobody's. */
        {"\0\0\0\0\1x\2\2\2\2\2", 11, "unary x; OK: ; "},
    };
    static const char *const paths[] = {"/test.Message/Unary",
                                        "/test.Message/Bidi"};
    uint32_t stream = 1;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        for (size_t k = 0; k < 2 - i / (WP_ARRAY_LEN(rows) - 1); k++) {
            open_call(stream, paths[k]);
            send_data(stream, rows[i].bytes, rows[i].len, END);
            has_heard(rows[i].expected);
            stream += 2;
        }
    }
}

static void
test_a_stream_in_both_directions(void **state)
{
    (void)state;
    open_call(1, "/test.Message/Bidi");
    send_data(1, "\0\0\0\0\1a\0\0\0\0\2bc\0\0\0\0\0\0\0\0\0\2d", 24, 0);
    has_heard("first a; more bc; more ; ");
    send_data(1, "e", 1, END);
    has_heard("more de; ended ; OK: ; ");
    open_call(3, "/test.Message/Bidi");
    send_data(3, "\0\0\0\0\1a\0", 7, END);
    has_heard("first a; cancelled ; INVALID_ARGUMENT: request: ends in the "
              "middle of a message; ");
    open_call(5, "/test.Message/Bidi");
    send_data(5, "\0\0\0\0\1a\1\0\0\0\0\0\0\0\0\1x", 17, 0);
    has_heard("first a; cancelled ; UNIMPLEMENTED: compressed messages are not "
              "understood; ");
    /* What it is told of its client's leaving has nobody to read it. */
    open_call(7, "/test.Message/Bidi");
    send_data(7, "\0\0\0\0\1a", 6, 0);
}

/* All threads' messages that are not whole have one bound. */
static void
test_how_much_is_kept_of_messages(void **state)
{
    struct wp_rpc_thread *thread = &server->threads[0];

    (void)state;
    open_call(1, "/test.Message/Unary");
    thread->partial_bytes = PARTIAL_MAX - 1024;
    send_data(1, "\0\0\0\0\2h", 6, 0);
    assert_int_equal(thread->partial_bytes, PARTIAL_MAX);
    has_heard("");
    open_call(3, "/test.Message/Unary");
    send_data(3, "\0\0\0\0\2h", 6, 0);
    has_heard("RESOURCE_EXHAUSTED: too many requests that are not whole; ");
    send_data(1, "i", 1, END);
    has_heard("unary hi; OK: ; ");
    assert_int_equal(thread->partial_bytes, PARTIAL_MAX - 1024);
    thread->partial_bytes++;
    open_call(5, "/test.Message/Unary");
    send_data(5, "\0\0\0\0\2h", 6, 0);
    has_heard("RESOURCE_EXHAUSTED: too many requests that are not whole; ");
    thread->partial_bytes = 0;
}

static void
widen(uint32_t stream, uint8_t by)
{
    const uint8_t window[] = {0, 0, 0, by};
    uint8_t bytes[32];

    assert_true(wp_grpc_rig_feed(
        server, conn, bytes,
        wp_grpc_rig_frame(bytes, 8, 0, stream, window, sizeof window)));
}

/* The next request waits until the answer has left. */
static void
test_one_answer_for_each_request(void **state)
{
    const struct wp_rpc_thread *thread = &server->threads[0];

    (void)state;
    wp_grpc_rig_close(server, conn);
    connect_peer(0);
    open_call(1, "/test.Lock/Step");
    send_data(1, "\0\0\0\0\1a", 6, 0);
    has_heard("lock a; ");
    send_data(1, "\0\0\0\0\1b\0\0\0\0\2cd\0\0", 15, 0);
    has_heard("");
    assert_int_equal(thread->partial_bytes, 15);
    widen(1, 5);
    has_heard("");
    widen(1, 1);
    has_heard("lock b; ");
    assert_int_equal(thread->partial_bytes, 9);
    send_data(1, "\0\0\0", 3, END);
    assert_int_equal(thread->partial_bytes, 12);
    widen(1, 6);
    has_heard("lock cd; ");
    assert_int_equal(thread->partial_bytes, 5);
    widen(1, 7);
    has_heard("lock ; ");
    assert_int_equal(thread->partial_bytes, 0);
    widen(1, 6); /* The end wants a byte of room, too. */
    has_heard("OK: ; ");
    /* Whatever came after what ended it. */
    open_call(3, "/test.Lock/Step");
    send_data(3, "\0\0\0\0\1a\0\0\0\0\3end\0\0\0\0\1b", 20, 0);
    has_heard("lock a; ");
    assert_int_equal(thread->partial_bytes, 14);
    widen(3, 7);
    has_heard("lock end; ABORTED: as asked; ");
    assert_int_equal(thread->partial_bytes, 0);
    open_call(5, "/test.Lock/Step");
    send_data(5, "", 0, END);
    has_heard("OK: ; ");
}

static void
test_how_much_may_come_before_the_answer(void **state)
{
    struct wp_rpc_thread *thread = &server->threads[0];
    uint8_t *message = make_message(MESSAGE_MAX);

    (void)state;
    wp_grpc_rig_close(server, conn);
    connect_peer(0);
    open_call(1, "/test.Lock/Step");
    send_data(1, "\0\0\0\0\0", 5, 0);
    send_data(1, message, PREFIX + MESSAGE_MAX, 0);
    assert_int_equal(thread->partial_bytes, PREFIX + MESSAGE_MAX);
    has_heard("lock ; ");
    send_data(1, "", 0, 0);
    has_heard("");
    send_data(1, "x", 1, 0);
    has_heard("");
    /* The answer that is on its way comes first. */
    widen(1, 6);
    has_heard("RESOURCE_EXHAUSTED: too many requests before the answer; ");
    assert_int_equal(thread->partial_bytes, 0);
    open_call(3, "/test.Lock/Step");
    send_data(3, "\0\0\0\0\0", 5, 0);
    thread->partial_bytes = PARTIAL_MAX - 2;
    send_data(3, "\0\0", 2, 0);
    assert_int_equal(thread->partial_bytes, PARTIAL_MAX);
    send_data(3, "\0", 1, 0);
    widen(3, 6);
    has_heard("lock ; RESOURCE_EXHAUSTED: too many requests before the "
              "answer; ");
    assert_int_equal(thread->partial_bytes, PARTIAL_MAX - 2);
    thread->partial_bytes = 0;
    free(message);
}

/* Without memory for what came a call ends, and nothing of it is kept. */
static void
test_no_memory_for_what_came(void **state)
{
    const struct wp_rpc_thread *thread = &server->threads[0];

    (void)state;
    wp_grpc_rig_close(server, conn);
    connect_peer(0);
    open_call(1, "/test.Message/Unary");
    malloc_fails = 1;
    send_data(1, "\0\0\0\0\2h", 6, 0);
    has_heard("RESOURCE_EXHAUSTED: too many requests that are not whole; ");
    assert_int_equal(malloc_fails, 0);
    assert_int_equal(thread->partial_bytes, 0);
    open_call(3, "/test.Lock/Step");
    send_data(3, "\0\0\0\0\1a", 6, 0);
    realloc_fails = 1;
    send_data(3, "\0\0\0\0\1b", 6, 0);
    assert_int_equal(realloc_fails, 0);
    assert_int_equal(thread->partial_bytes, 0);
    widen(3, 7);
    has_heard("lock a; RESOURCE_EXHAUSTED: too many requests before the "
              "answer; ");
    /* What is left of it when the answer has gone. */
    open_call(5, "/test.Lock/Step");
    send_data(5, "\0\0\0\0\1a", 6, 0);
    send_data(5, "\0\0\0\0\1b\0\0\0\0\1c", 12, 0);
    assert_int_equal(thread->partial_bytes, 12);
    realloc_fails = 1;
    widen(5, 6);
    assert_int_equal(realloc_fails, 0);
    assert_int_equal(thread->partial_bytes, 0);
    widen(5, 7);
    has_heard("lock a; lock b; RESOURCE_EXHAUSTED: memory; ");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_message_in_two_pieces, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_a_long_message_in_pieces, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_what_is_no_message, begin, end),
        cmocka_unit_test_setup_teardown(test_a_stream_in_both_directions, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_how_much_is_kept_of_messages,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_one_answer_for_each_request, begin,
                                        end),
        cmocka_unit_test_setup_teardown(
            test_how_much_may_come_before_the_answer, begin, end),
        cmocka_unit_test_setup_teardown(test_no_memory_for_what_came, begin,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
