/* The messages of process.v1, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "runtime/sandboxd/grpc.h"
#include "runtime/sandboxd/process_wire.h"

enum {
    BYTES_MAX = WP_PROCESS_CONFIG_MAX + 64,
    PATH_MAX_LEN = 4095,
    ARGS_MAX = 4096,
    ENV_MAX = 1024,
};

static const char malformed[] = "request: a message of process.v1 is expected";

/* --- Written by hand, so that nothing of the product has a part in it --- */

struct wire {
    uint8_t bytes[BYTES_MAX];
    size_t len;
};

static void
put_number(struct wire *wire, uint64_t value)
{
    while (value >= 0x80) {
        wire->bytes[wire->len++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    wire->bytes[wire->len++] = (uint8_t)value;
}

static void
put_varint(struct wire *wire, unsigned field, uint64_t value)
{
    put_number(wire, field << 3);
    put_number(wire, value);
}

static void
put_bytes(struct wire *wire, unsigned field, const void *data, size_t len)
{
    put_number(wire, field << 3 | 2);
    put_number(wire, len);
    if (len > 0) {
        memcpy(wire->bytes + wire->len, data, len);
    }
    wire->len += len;
}

static void
put_text(struct wire *wire, unsigned field, const char *text)
{
    put_bytes(wire, field, text, strlen(text));
}

static void
put_variable(struct wire *config, const char *name, const char *value)
{
    static struct wire variable;

    variable.len = 0;
    put_text(&variable, 1, name);
    put_text(&variable, 2, value);
    put_bytes(config, 2, variable.bytes, variable.len);
}

static struct wire config;
static struct wire request;

/* The request of that config, and perhaps of a terminal. */
static enum wp_status
read_ask(const struct winsize *terminal, bool start, struct wp_process_ask *ask,
         struct wp_err *err)
{
    request.len = 0;
    put_bytes(&request, 1, config.bytes, config.len);
    if (terminal != NULL) {
        struct wire *pty = &config;

        pty->len = 0;
        put_varint(pty, 1, terminal->ws_col);
        put_varint(pty, 2, terminal->ws_row);
        put_bytes(&request, 2, pty->bytes, pty->len);
    }
    return wp_process_ask_read(request.bytes, request.len, start, ask, err);
}

static void
refused(const char *says)
{
    struct wp_process_ask ask;
    struct wp_err err;

    assert_int_equal(read_ask(NULL, true, &ask, &err), WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, says);
    assert_null(ask.argv);
    assert_null(ask.cwd);
    assert_null(ask.environment.list);
}

static void
a_command_is_read_whole(void **state)
{
    const struct winsize size = {.ws_col = 65535, .ws_row = 24};
    struct wp_process_ask ask;
    struct wp_err err;

    (void)state;
    for (int i = 0; i < 3; i++) {
        bool on_terminal = i == 2;

        config.len = 0;
        put_text(&config, 1, "sh");
        put_text(&config, 1, "");
        put_text(&config, 1, "a b");
        put_variable(&config, "WP_A", "1");
        put_variable(&config, "WP_B", "");
        put_text(&config, 3, "/tmp/x");
        assert_int_equal(read_ask(i > 0 ? &size : NULL, i != 1, &ask, &err),
                         WP_OK);
        assert_string_equal(ask.argv[0], "sh");
        assert_string_equal(ask.argv[1], "");
        assert_string_equal(ask.argv[2], "a b");
        assert_null(ask.argv[3]);
        assert_int_equal(ask.environment.own, 2);
        assert_string_equal(ask.environment.list[0], "WP_A=1");
        assert_string_equal(ask.environment.list[1], "WP_B=");
        /* And what is inherited. */
        assert_non_null(ask.environment.list[2]);
        assert_string_equal(ask.cwd, "/tmp/x");
        /* Execute has none, whatever it says. */
        assert_int_equal(ask.on_terminal, on_terminal);
        assert_int_equal(ask.terminal.ws_col, on_terminal ? 65535 : 0);
        assert_int_equal(ask.terminal.ws_row, on_terminal ? 24 : 0);
        wp_process_ask_free(&ask);
        assert_null(ask.argv);
        assert_null(ask.cwd);
        assert_null(ask.environment.list);
        assert_false(ask.on_terminal);
    }
    config.len = 0;
    put_text(&config, 1, "x");
    assert_int_equal(read_ask(NULL, true, &ask, &err), WP_OK);
    assert_string_equal(ask.argv[0], "x");
    assert_null(ask.argv[1]);
    assert_int_equal(ask.environment.own, 0);
    assert_null(ask.cwd);
    wp_process_ask_free(&ask);
}

static void
what_is_no_command_is_refused(void **state)
{
    static const char arguments[] =
        "config.command: 1 to 4096 arguments are expected, the first not empty";
    static const char variables[] =
        "config.env_vars: names that are not empty and have no '=' are "
        "expected, and text without NUL";
    static const char cwd[] = "config.cwd: a path of less than 4096 bytes "
                              "without NUL is expected";
    static const char path[PATH_MAX_LEN + 1] = {'/'};
    struct wp_process_ask ask;
    struct wp_err err;

    (void)state;
    config.len = 0;
    refused(arguments);
    put_text(&config, 1, "");
    put_text(&config, 1, "x");
    refused(arguments);
    config.len = 0;
    put_bytes(&config, 1, "a\0b", 3);
    refused("config.command: text without NUL is expected");
    config.len = 0;
    put_text(&config, 1, "a");
    put_bytes(&config, 1, "\0", 1);
    refused("config.command: text without NUL is expected");
    for (int i = 0; i < 2; i++) {
        config.len = 0;
        put_text(&config, 1, "a");
        put_variable(&config, i == 0 ? "" : "A=", "b");
        refused(variables);
    }
    config.len = 0;
    put_text(&config, 1, "a");
    put_bytes(&config, 3, path, 2);
    refused(cwd);

    /* No config at all; and no message. */
    assert_int_equal(wp_process_ask_read(NULL, 0, true, &ask, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "config: a command is expected");
    assert_int_equal(
        wp_process_ask_read((const uint8_t *)"\x0a\x7f", 2, true, &ask, &err),
        WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, malformed);
    assert_null(ask.argv);
}

static void
as_much_as_a_command_may_have(void **state)
{
    static char path[PATH_MAX_LEN + 1];
    struct wp_process_ask ask;
    struct wp_err err;

    (void)state;
    memset(path, '/', sizeof path);
    for (size_t more = 0; more < 2; more++) {
        config.len = 0;
        for (size_t i = 0; i < ARGS_MAX + more; i++) {
            put_text(&config, 1, "x");
        }
        assert_int_equal(read_ask(NULL, true, &ask, &err),
                         more == 0 ? WP_OK : WP_INVALID_ARGUMENT);
        if (more == 0) {
            assert_string_equal(ask.argv[ARGS_MAX - 1], "x");
            assert_null(ask.argv[ARGS_MAX]);
        }
        wp_process_ask_free(&ask);

        config.len = 0;
        put_text(&config, 1, "x");
        for (size_t i = 0; i < ENV_MAX + more; i++) {
            char name[16];

            (void)snprintf(name, sizeof name, "A%zu", i);
            put_variable(&config, name, "");
        }
        assert_int_equal(read_ask(NULL, true, &ask, &err),
                         more == 0 ? WP_OK : WP_INVALID_ARGUMENT);
        if (more == 0) {
            assert_int_equal(ask.environment.own, ENV_MAX);
        } else {
            assert_string_equal(err.msg,
                                "config.env_vars: at most 1024 are taken");
        }
        wp_process_ask_free(&ask);

        config.len = 0;
        put_text(&config, 1, "x");
        put_bytes(&config, 3, path, PATH_MAX_LEN + more);
        assert_int_equal(read_ask(NULL, true, &ask, &err),
                         more == 0 ? WP_OK : WP_INVALID_ARGUMENT);
        if (more == 0) {
            assert_int_equal(strlen(ask.cwd), PATH_MAX_LEN);
        }
        wp_process_ask_free(&ask);
    }
}

static void
as_large_as_a_message_may_be(void **state)
{
    static char text[WP_PROCESS_CONFIG_MAX];
    /* What is around the text: two keys with four bytes of length at most. */
    size_t around = 2 * (1 + 3);
    struct wp_process_ask ask;
    struct wp_err err;

    (void)state;
    memset(text, 'x', sizeof text);
    for (size_t more = 0; more < 2; more++) {
        config.len = 0;
        put_bytes(&config, 1, text, WP_PROCESS_CONFIG_MAX - around + more);
        assert_int_equal(read_ask(NULL, true, &ask, &err),
                         more == 0 ? WP_OK : WP_RESOURCE_EXHAUSTED);
        assert_int_equal(request.len, WP_PROCESS_CONFIG_MAX + more);
        wp_process_ask_free(&ask);
    }
    assert_string_equal(err.msg, "config: at most 1048576 bytes are taken");
}

static void
sizes_of_terminals(void **state)
{
    static const struct {
        uint32_t cols;
        uint32_t rows;
        bool fine;
    } cases[] = {
        {0, 0, true},           {80, 24, true},     {65535, 65535, true},
        {65536, 24, false},     {80, 65536, false}, {65536, 65536, false},
        {UINT32_MAX, 1, false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        enum wp_status expected = cases[i].fine ? WP_OK : WP_INVALID_ARGUMENT;
        struct winsize size = {.ws_col = 1, .ws_row = 2, .ws_xpixel = 3};
        struct wp_process_ask ask;
        struct wp_err err;
        int32_t id = 0;

        request.len = 0;
        put_varint(&request, 1, (uint64_t)INT64_C(-7));
        put_varint(&request, 2, cases[i].cols);
        put_varint(&request, 3, cases[i].rows);
        assert_int_equal(wp_process_resize_read(request.bytes, request.len, &id,
                                                &size, &err),
                         expected);
        assert_int_equal(id, -7);
        if (cases[i].fine) {
            assert_int_equal(size.ws_col, cases[i].cols);
            assert_int_equal(size.ws_row, cases[i].rows);
            assert_int_equal(size.ws_xpixel, 0);
        } else {
            assert_string_equal(err.msg,
                                "cols and rows: at most 65535 are expected");
        }

        config.len = 0;
        put_text(&config, 1, "x");
        request.len = 0;
        put_bytes(&request, 1, config.bytes, config.len);
        config.len = 0;
        put_varint(&config, 1, cases[i].cols);
        put_varint(&config, 2, cases[i].rows);
        put_bytes(&request, 2, config.bytes, config.len);
        assert_int_equal(
            wp_process_ask_read(request.bytes, request.len, true, &ask, &err),
            expected);
        if (cases[i].fine) {
            assert_true(ask.on_terminal);
            assert_int_equal(ask.terminal.ws_col, cases[i].cols);
            assert_int_equal(ask.terminal.ws_row, cases[i].rows);
        } else {
            assert_string_equal(
                err.msg, "pty.cols and rows: at most 65535 are expected");
            assert_null(ask.argv);
        }
        wp_process_ask_free(&ask);
    }
}

static void
what_goes_to_standard_input(void **state)
{
    struct wp_process_input in;
    struct wp_err err;

    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        request.len = 0;
        put_varint(&request, 1, 42);
        if (kind == 1) {
            put_bytes(&request, 2, "a\0b", 3);
        } else if (kind == 2) {
            put_bytes(&request, 3, "", 0);
        } else if (kind == 3) {
            put_bytes(&request, 2, "", 0);
        }
        in = (struct wp_process_input){.id = 7, .eof = kind != 2};
        assert_int_equal(
            wp_process_input_read(request.bytes, request.len, &in, &err),
            WP_OK);
        assert_int_equal(in.id, 42);
        assert_int_equal(in.eof, kind == 2);
        assert_int_equal(evbuffer_get_length(in.data), kind == 1 ? 3 : 0);
        if (kind == 1) {
            assert_memory_equal(evbuffer_pullup(in.data, -1), "a\0b", 3);
        }
        evbuffer_free(in.data);
    }
}

static void
signals_that_may_be_sent(void **state)
{
    (void)state;
    for (int asked = -1; asked <= 65; asked++) {
        bool fine = asked == 2 || asked == 9 || asked == 15;
        struct wp_err err;
        int32_t id = 0;
        int signal = 0;

        request.len = 0;
        put_varint(&request, 1, 43);
        put_varint(&request, 2, (uint64_t)(int64_t)asked);
        assert_int_equal(wp_process_signal_read(request.bytes, request.len, &id,
                                                &signal, &err),
                         fine ? WP_OK : WP_INVALID_ARGUMENT);
        assert_int_equal(id, 43);
        if (fine) {
            assert_int_equal(signal, asked);
        } else {
            assert_string_equal(
                err.msg, "signal: SIGINT, SIGKILL or SIGTERM is expected");
        }
    }
}

static void
what_is_no_message(void **state)
{
    static const uint8_t none[] = {0x12, 0x7f};
    struct wp_process_input in;
    struct winsize size;
    struct wp_err err;
    int32_t id;
    int signal;

    (void)state;
    assert_int_equal(wp_process_input_read(none, 2, &in, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, malformed);
    err.msg[0] = '\0';
    assert_int_equal(wp_process_signal_read(none, 2, &id, &signal, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, malformed);
    err.msg[0] = '\0';
    assert_int_equal(wp_process_resize_read(none, 2, &id, &size, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, malformed);
}

/* A message with room for its prefix; takes it. */
static void
check_message(uint8_t *message, const size_t *len, const char *expected,
              size_t expected_len)
{
    assert_non_null(message);
    assert_int_equal(*len, expected_len);
    assert_memory_equal(message + WP_GRPC_PREFIX, expected, expected_len);
    free(message);
}

static void
answers_are_written(void **state)
{
    size_t len;

    (void)state;
    check_message(wp_process_init_write(300, &len), &len,
                  "\x0a\x03\x08\xac\x02", 5);
    check_message(
        wp_process_output_write(WP_PROCESS_STDOUT, WP_STR("out"), &len), &len,
        "\x12\x03out", 5);
    check_message(
        wp_process_output_write(WP_PROCESS_STDERR, WP_STR("er"), &len), &len,
        "\x1a\x02"
        "er",
        4);
    check_message(wp_process_exit_write(3, &len), &len, "\x22\x02\x08\x03", 4);
    check_message(wp_process_exit_write(-1, &len), &len,
                  "\x22\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13);
    check_message(wp_process_result_write(7, WP_STR("a"), WP_STR("bc"), &len),
                  &len,
                  "\x08\x07\x12\x01"
                  "a\x1a\x02"
                  "bc",
                  9);
    check_message(wp_process_result_write(0, WP_STR(""), WP_STR(""), &len),
                  &len, "", 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_is_read_whole),
        cmocka_unit_test(what_is_no_command_is_refused),
        cmocka_unit_test(as_much_as_a_command_may_have),
        cmocka_unit_test(as_large_as_a_message_may_be),
        cmocka_unit_test(sizes_of_terminals),
        cmocka_unit_test(what_goes_to_standard_input),
        cmocka_unit_test(signals_that_may_be_sent),
        cmocka_unit_test(what_is_no_message),
        cmocka_unit_test(answers_are_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
