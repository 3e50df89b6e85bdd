/* tests/unit/allocator/ctl/ctl_exec_stream_test.c - frames of a streaming exec: pack and
 * unpack, the reader in any pieces, and a session over a socket pair. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "allocator/ctl/sandbox/exec_stream_client.h"
#include "pool/base/rng.h"

static uint8_t stream[400000];
static size_t stream_len;

static void
add_frame(uint8_t type, const void *payload, uint32_t len)
{
    assert_true(stream_len + WP_EXEC_HEAD_LEN + len <= sizeof stream);
    wp_exec_frame_pack((struct wp_exec_frame){type, len}, stream + stream_len);
    stream_len += WP_EXEC_HEAD_LEN;
    if (len > 0) {
        memcpy(stream + stream_len, payload, len);
    }
    stream_len += len;
}

/* What the sink has got. */
static struct {
    uint8_t bytes[2][200000];
    size_t len[2];
    bool closed;
} got;

static bool
take(void *ctx, bool is_stderr, const uint8_t *bytes, size_t len)
{
    (void)ctx;
    if (got.closed) {
        return false;
    }
    assert_true(got.len[is_stderr] + len <= sizeof got.bytes[0]);
    memcpy(got.bytes[is_stderr] + got.len[is_stderr], bytes, len);
    got.len[is_stderr] += len;
    return true;
}

static const struct wp_exec_sink sink = {take, NULL};

static void
reset(void)
{
    stream_len = 0;
    got.len[0] = got.len[1] = 0;
    got.closed = false;
}

static void
test_head(void **state)
{
    uint8_t head[WP_EXEC_HEAD_LEN];
    struct wp_exec_frame frame;

    (void)state;
    wp_exec_frame_pack((struct wp_exec_frame){WP_EXEC_STDERR, 65536}, head);
    assert_memory_equal(head, "\x11\0\0\0\0\1\0\0", 8);
    assert_true(wp_exec_frame_unpack(head, &frame));
    assert_int_equal(frame.type, WP_EXEC_STDERR);
    assert_int_equal(frame.len, 65536);
    head[7] = 1;
    assert_false(wp_exec_frame_unpack(head, &frame));
    head[7] = 0;
    head[2] = 1;
    assert_false(wp_exec_frame_unpack(head, &frame));
}

/* The same stream, cut anywhere, gives the same output and end. */
static void
test_reader_in_any_pieces(void **state)
{
    const char *given = getenv("WP_TEST_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 20260131;
    static uint8_t big[WP_EXEC_PAYLOAD_MAX];
    static const char end[] =
        "{\"exit_code\":3,\"signal\":0,\"timed_out\":false}";
    struct wp_rng rng;

    (void)state;
    print_message("seed %llu (set WP_TEST_SEED to change)\n",
                  (unsigned long long)seed);
    wp_rng_init(&rng, seed);
    for (size_t i = 0; i < sizeof big; i++) {
        big[i] = (uint8_t)wp_rng_next(&rng);
    }
    for (int run = 0; run < 200; run++) {
        struct wp_exec_reader reader;
        struct wp_err err;

        reset();
        add_frame(WP_EXEC_STDOUT, "one", 3);
        add_frame(WP_EXEC_STDERR, "", 0);
        add_frame(WP_EXEC_STDOUT, big, sizeof big);
        add_frame(WP_EXEC_STDERR, "two", 3);
        add_frame(WP_EXEC_EXIT, end, sizeof end - 1);
        add_frame(WP_EXEC_STDOUT, "ignored", 7);
        wp_exec_reader_init(&reader);
        for (size_t at = 0; at < stream_len;) {
            size_t n =
                1 + wp_rng_below(&rng, UINT64_C(1) << wp_rng_below(&rng, 17));

            n = n < stream_len - at ? n : stream_len - at;
            assert_int_equal(
                wp_exec_reader_feed(&reader, stream + at, n, &sink, &err),
                WP_OK);
            at += n;
        }
        assert_true(reader.ended);
        assert_int_equal(wp_exec_exit_code(&reader.exit), 3);
        assert_int_equal(got.len[0], 3 + sizeof big);
        assert_memory_equal(got.bytes[0], "one", 3);
        assert_memory_equal(got.bytes[0] + 3, big, sizeof big);
        assert_int_equal(got.len[1], 3);
        assert_memory_equal(got.bytes[1], "two", 3);
    }
}

/* Each row: one frame's type, payload, and what must come of it. */
static void
test_reader_refuses(void **state)
{
    static const struct {
        uint8_t type;
        const char *payload;
        const char *said;
    } rows[] = {
        {WP_EXEC_STDIN, "x", "does not speak"},
        {WP_EXEC_SIGNAL, "x", "does not speak"},
        {20, "x", "does not speak"},
        {255, "", "does not speak"},
        {WP_EXEC_EXIT, "", "cannot be read"},
        {WP_EXEC_EXIT, "{}", "cannot be read"},
        {WP_EXEC_EXIT, "{\"exit_code\":\"0\"}", "cannot be read"},
        {WP_EXEC_EXIT, "exit_code", "cannot be read"},
        {WP_EXEC_ERROR, "out of memory", "the sandbox says: out of memory"},
        {WP_EXEC_ERROR, "", "the sandbox says: "},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_exec_reader reader;
        struct wp_err err = {0};

        reset();
        wp_exec_reader_init(&reader);
        add_frame(rows[i].type, rows[i].payload,
                  (uint32_t)strlen(rows[i].payload));
        assert_int_equal(
            wp_exec_reader_feed(&reader, stream, stream_len, &sink, &err),
            WP_INTERNAL);
        assert_non_null(strstr(err.msg, rows[i].said));
    }
}

/* Nobody reads the output any more: the session ends. */
static void
test_reader_stops_for_a_closed_sink(void **state)
{
    struct wp_exec_reader reader;
    struct wp_err err;

    (void)state;
    reset();
    got.closed = true;
    add_frame(WP_EXEC_STDOUT, "x", 1);
    wp_exec_reader_init(&reader);
    assert_int_equal(
        wp_exec_reader_feed(&reader, stream, stream_len, &sink, &err),
        WP_FAILED_PRECONDITION);
}

static enum wp_status
feed_in_pieces(struct wp_exec_reader *reader, size_t piece, struct wp_err *err)
{
    enum wp_status status = WP_OK;

    wp_exec_reader_init(reader);
    for (size_t at = 0; at < stream_len && status == WP_OK; at += piece) {
        size_t left = stream_len - at;

        status = wp_exec_reader_feed(reader, stream + at,
                                     left < piece ? left : piece, &sink, err);
    }
    return status;
}

/* A payload of EXIT that is longer than is kept does not overrun, however it
 * comes. */
static void
test_reader_bounds_texts(void **state)
{
    static const size_t pieces[] = {100, sizeof stream};
    static uint8_t letters[WP_EXEC_PAYLOAD_MAX];
    struct wp_exec_reader reader;
    struct wp_err err;

    (void)state;
    memset(letters, 'e', sizeof letters);
    for (int type = WP_EXEC_EXIT; type <= WP_EXEC_ERROR; type++) {
        for (size_t i = 0; i < WP_ARRAY_LEN(pieces); i++) {
            reset();
            add_frame((uint8_t)type, letters, sizeof letters);
            assert_int_equal(feed_in_pieces(&reader, pieces[i], &err),
                             WP_INTERNAL);
            assert_true(reader.ended);
            assert_int_equal(reader.text_len, sizeof reader.text);
            assert_memory_equal(reader.text, letters, sizeof reader.text);
            assert_int_equal(got.len[0] + got.len[1], 0);
        }
    }
}

/* What the sandbox says of its failure is told up to a length. */
static void
test_reader_tells_the_sandboxes_words(void **state)
{
    char words[200];
    char expected[220];

    (void)state;
    memset(words, 'w', sizeof words);
    for (uint32_t len = 178; len <= 182; len++) {
        struct wp_exec_reader reader;
        struct wp_err err = {0};

        reset();
        add_frame(WP_EXEC_ERROR, words, len);
        assert_int_equal(feed_in_pieces(&reader, 7, &err), WP_INTERNAL);
        (void)snprintf(expected, sizeof expected, "the sandbox says: %.*s",
                       (int)(len < 180 ? len : 180), words);
        assert_string_equal(err.msg, expected);
    }
}

/* Each row: an exit frame, and all that is understood of it. */
static void
test_reader_understands_the_end(void **state)
{
    static const struct {
        const char *text;
        struct wp_exec_exit end;
        int code;
    } rows[] = {
        {"{\"exit_code\":0}", {0, 0, false}, 0},
        {"{\"exit_code\":257}", {257, 0, false}, 1},
        {"{\"exit_code\":-1,\"signal\":1}", {-1, 1, false}, 129},
        {"{\"exit_code\":7,\"timed_out\":true}", {7, 0, true}, 124},
        {"{\"exit_code\":7,\"timed_out\":false}", {7, 0, false}, 7},
        {"{\"exit_code\":-1,\"signal\":9,\"timed_out\":true}",
         {-1, 9, true},
         124},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_exec_reader reader;
        struct wp_err err;

        reset();
        add_frame(WP_EXEC_EXIT, rows[i].text, (uint32_t)strlen(rows[i].text));
        assert_int_equal(feed_in_pieces(&reader, 5, &err), WP_OK);
        assert_true(reader.ended);
        assert_int_equal(reader.exit.exit_code, rows[i].end.exit_code);
        assert_int_equal(reader.exit.signal, rows[i].end.signal);
        assert_int_equal(reader.exit.timed_out, rows[i].end.timed_out);
        assert_int_equal(wp_exec_exit_code(&reader.exit), rows[i].code);
    }
}

static void
test_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(wp_exec_exit_code(&(struct wp_exec_exit){0, 0, false}), 0);
    assert_int_equal(wp_exec_exit_code(&(struct wp_exec_exit){255, 0, false}),
                     255);
    assert_int_equal(wp_exec_exit_code(&(struct wp_exec_exit){-1, 9, false}),
                     137);
    assert_int_equal(wp_exec_exit_code(&(struct wp_exec_exit){-1, 15, true}),
                     124);
}

/* --- A session: this side is the real one, the other a thread. --- */

struct peer {
    int fd;
    uint8_t input[200000];
    size_t input_len;
    bool eof;
};

static void
read_exactly(int fd, void *buf, size_t len)
{
    uint8_t *p = buf;

    while (len > 0) {
        ssize_t n = read(fd, p, len);

        assert_true(n > 0);
        p += n;
        len -= (size_t)n;
    }
}

/* Reads the command's input to its end, then lets it exit with 42. */
static void *
peer_main(void *arg)
{
    static const char end[] = "{\"exit_code\":42,\"signal\":0}";
    struct peer *peer = arg;
    uint8_t head[WP_EXEC_HEAD_LEN];
    struct wp_exec_frame frame;

    while (!peer->eof) {
        read_exactly(peer->fd, head, sizeof head);
        assert_true(wp_exec_frame_unpack(head, &frame));
        if (frame.type == WP_EXEC_STDIN_EOF) {
            assert_int_equal(frame.len, 0);
            peer->eof = true;
        } else {
            assert_int_equal(frame.type, WP_EXEC_STDIN);
            assert_true(frame.len > 0 &&
                        peer->input_len + frame.len <= sizeof peer->input);
            read_exactly(peer->fd, peer->input + peer->input_len, frame.len);
            peer->input_len += frame.len;
        }
    }
    wp_exec_frame_pack((struct wp_exec_frame){WP_EXEC_EXIT, sizeof end - 1},
                       head);
    assert_int_equal(write(peer->fd, head, sizeof head), sizeof head);
    assert_int_equal(write(peer->fd, end, sizeof end - 1), sizeof end - 1);
    return NULL;
}

static void
run_session(const uint8_t *input, size_t len, bool has_input)
{
    struct peer *peer = calloc(1, sizeof *peer);
    struct wp_exec_exit end;
    struct wp_err err = {0};
    int sockets[2];
    FILE *file = has_input ? tmpfile() : NULL;
    pthread_t thread;

    assert_non_null(peer);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    assert_int_equal(fcntl(sockets[0], F_SETFL, O_NONBLOCK), 0);
    peer->fd = sockets[1];
    if (has_input) {
        assert_non_null(file);
        assert_int_equal(fwrite(input, 1, len, file), len);
        rewind(file);
    }
    assert_int_equal(pthread_create(&thread, NULL, peer_main, peer), 0);
    assert_int_equal(wp_exec_session_run(sockets[0],
                                         has_input ? fileno(file) : -1, NULL, 0,
                                         &end, &err),
                     WP_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(end.exit_code, 42);
    assert_int_equal(peer->input_len, len);
    assert_memory_equal(peer->input, input, len);
    if (file != NULL) {
        (void)fclose(file);
    }
    (void)close(sockets[0]);
    (void)close(sockets[1]);
    free(peer);
}

static void
test_session_sends_all_input(void **state)
{
    static uint8_t input[150000];

    (void)state;
    for (size_t i = 0; i < sizeof input; i++) {
        input[i] = (uint8_t)(i * 31);
    }
    run_session(input, sizeof input, true);
    run_session(input, 0, true);
    run_session(input, 0, false);
}

/* The sandbox goes away in the middle: UNAVAILABLE, no hang. */
static void
test_session_ends_with_its_connection(void **state)
{
    struct wp_exec_exit end;
    struct wp_err err;
    int sockets[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    assert_int_equal(fcntl(sockets[0], F_SETFL, O_NONBLOCK), 0);
    (void)close(sockets[1]);
    assert_int_equal(wp_exec_session_run(sockets[0], -1, NULL, 0, &end, &err),
                     WP_UNAVAILABLE);
    assert_string_equal(err.msg, "the sandbox closed the connection before the "
                                 "command's end: it or its lease has ended");
    (void)close(sockets[0]);
}

/* The command's end is read, though nobody takes its input any more. */
static void
test_session_reads_the_last_words(void **state)
{
    static const char text[] = "{\"exit_code\":5}";
    struct wp_exec_exit end;
    struct wp_err err;
    int sockets[2];

    (void)state;
    reset();
    add_frame(WP_EXEC_EXIT, text, sizeof text - 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    assert_int_equal(fcntl(sockets[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(write(sockets[1], stream, stream_len), stream_len);
    (void)close(sockets[1]);
    assert_int_equal(wp_exec_session_run(sockets[0], -1, NULL, 0, &end, &err),
                     WP_OK);
    assert_int_equal(end.exit_code, 5);
    (void)close(sockets[0]);
}

/* --- Signals: the peer raises them, and reads what came of them. --- */

struct raiser {
    int fd;
    const int *raises; /* To 0. */
    int told[8];       /* The signals that frames have told of. */
    int n_told;
    bool exits; /* The command ends then. */
};

static void *
raiser_main(void *arg)
{
    static const char text[] = "{\"exit_code\":0}";
    struct raiser *raiser = arg;
    uint8_t head[WP_EXEC_HEAD_LEN];
    struct wp_exec_frame frame;
    uint8_t number;

    /* From here on the session takes the signals. */
    read_exactly(raiser->fd, head, sizeof head);
    for (const int *raises = raiser->raises; *raises != 0; raises++) {
        assert_int_equal(kill(getpid(), *raises), 0);
        if (raises[1] == 0 && !raiser->exits) {
            break;
        }
        read_exactly(raiser->fd, head, sizeof head);
        assert_true(wp_exec_frame_unpack(head, &frame));
        assert_int_equal(frame.type, WP_EXEC_SIGNAL);
        assert_int_equal(frame.len, 1);
        read_exactly(raiser->fd, &number, 1);
        raiser->told[raiser->n_told++] = number;
    }
    if (raiser->exits) {
        wp_exec_frame_pack(
            (struct wp_exec_frame){WP_EXEC_EXIT, sizeof text - 1}, head);
        assert_int_equal(write(raiser->fd, head, sizeof head), sizeof head);
        assert_int_equal(write(raiser->fd, text, sizeof text - 1),
                         sizeof text - 1);
    }
    return NULL;
}

static enum wp_status
run_raiser(struct raiser *raiser, struct wp_err *err)
{
    struct wp_exec_exit end;
    enum wp_status status;
    int sockets[2];
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    sigset_t after;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    assert_int_equal(fcntl(sockets[0], F_SETFL, O_NONBLOCK), 0);
    raiser->fd = sockets[1];
    (void)sigfillset(&all);
    /* The peer is born with all blocked, so they are the session's. */
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
    assert_int_equal(pthread_create(&thread, NULL, raiser_main, raiser), 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    status = wp_exec_session_run(sockets[0], -1, NULL, 0, &end, err);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    for (int i = 1; i < SIGRTMIN; i++) {
        assert_int_equal(sigismember(&after, i), sigismember(&before, i));
    }
    (void)close(sockets[0]);
    (void)close(sockets[1]);
    return status;
}

static void
test_session_passes_signals_on(void **state)
{
    static const int raises[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, 0};
    struct raiser raiser = {.raises = raises, .exits = true};
    struct wp_err err = {0};

    (void)state;
    assert_int_equal(run_raiser(&raiser, &err), WP_OK);
    assert_int_equal(raiser.n_told, 5);
    for (int i = 0; i < raiser.n_told; i++) {
        assert_int_equal(raiser.told[i], raises[i]);
    }
}

/* A command that does not mind is left by the second interrupt. */
static void
test_session_is_left_by_a_second_interrupt(void **state)
{
    static const int raises[] = {SIGINT, SIGTERM, SIGINT, 0};
    struct raiser raiser = {.raises = raises};
    struct wp_err err = {0};

    (void)state;
    assert_int_equal(run_raiser(&raiser, &err), WP_CANCELLED);
    assert_string_equal(err.msg, "interrupted");
    assert_int_equal(raiser.n_told, 2);
    assert_int_equal(raiser.told[0], SIGINT);
    assert_int_equal(raiser.told[1], SIGTERM);
}

/* --- Output --- */

static void
assert_holds(FILE *file, const char *text)
{
    char found[64] = "";

    size_t len;

    rewind(file);
    len = fread(found, 1, sizeof found - 1, file);
    found[len] = '\0';
    assert_string_equal(found, text);
    (void)fclose(file);
}

/* What came with the 101 and what came later, each where it belongs. */
static void
test_session_writes_the_output(void **state)
{
    static const char text[] = "{\"exit_code\":1}";
    FILE *files[2] = {tmpfile(), tmpfile()};
    int old[2] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
    struct wp_exec_exit end;
    struct wp_err err;
    enum wp_status status;
    int sockets[2];
    size_t early;

    (void)state;
    reset();
    add_frame(WP_EXEC_STDOUT, "one,", 4);
    add_frame(WP_EXEC_STDERR, "bad,", 4);
    early = stream_len + 3; /* In the middle of a head. */
    add_frame(WP_EXEC_STDERR, "worse", 5);
    add_frame(WP_EXEC_STDOUT, "two", 3);
    add_frame(WP_EXEC_EXIT, text, sizeof text - 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    assert_int_equal(write(sockets[1], stream + early, stream_len - early),
                     stream_len - early);
    (void)fflush(stdout);
    for (int i = 0; i < 2; i++) {
        assert_non_null(files[i]);
        assert_true(old[i] >= 0);
        (void)dup2(fileno(files[i]), i + 1);
    }
    status = wp_exec_session_run(sockets[0], -1, stream, early, &end, &err);
    for (int i = 0; i < 2; i++) {
        (void)dup2(old[i], i + 1);
        (void)close(old[i]);
    }
    assert_int_equal(status, WP_OK);
    assert_int_equal(end.exit_code, 1);
    assert_holds(files[0], "one,two");
    assert_holds(files[1], "bad,worse");
    (void)close(sockets[0]);
    (void)close(sockets[1]);
}

/* A command that ended before the first turn: what came with the 101. */
static void
test_session_with_early_end(void **state)
{
    static const char text[] = "{\"exit_code\":0,\"signal\":0}";
    struct wp_exec_exit end;
    struct wp_err err;
    int sockets[2];

    (void)state;
    reset();
    add_frame(WP_EXEC_EXIT, text, sizeof text - 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    assert_int_equal(
        wp_exec_session_run(sockets[0], -1, stream, stream_len, &end, &err),
        WP_OK);
    assert_int_equal(end.exit_code, 0);
    (void)close(sockets[0]);
    (void)close(sockets[1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_reader_in_any_pieces),
        cmocka_unit_test(test_reader_refuses),
        cmocka_unit_test(test_reader_stops_for_a_closed_sink),
        cmocka_unit_test(test_reader_bounds_texts),
        cmocka_unit_test(test_reader_tells_the_sandboxes_words),
        cmocka_unit_test(test_reader_understands_the_end),
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_session_sends_all_input),
        cmocka_unit_test(test_session_ends_with_its_connection),
        cmocka_unit_test(test_session_reads_the_last_words),
        cmocka_unit_test(test_session_passes_signals_on),
        cmocka_unit_test(test_session_is_left_by_a_second_interrupt),
        cmocka_unit_test(test_session_writes_the_output),
        cmocka_unit_test(test_session_with_early_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
