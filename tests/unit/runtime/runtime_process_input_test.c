/* Commands at their edges: what they write and read, terminals, how they begin,
 * and the line of those who wait for room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "pool/base/compiler.h"
#include "pool/base/os_error.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/runtime/command_rig.h"

/* ------------------------------------------------------------------- output */

static void
output_is_kept_to_the_byte(void **state)
{
    static const struct {
        const char *script;
        const char *said[2];
        uint64_t dropped[2];
    } cases[] = {
        {"printf 1234; printf 12345 >&2", {"1234", "12345"}, {0, 0}},
        {"printf 123456; printf 1234567 >&2", {"12345", "12345"}, {1, 2}},
        {"printf 123; sleep 0.1; printf 45; sleep 0.1; printf 678",
         {"12345", ""},
         {3, 0}},
        {"head -c 200000 /dev/zero | tr '\\0' x", {"xxxxx", ""}, {199995, 0}},
        {"true", {"", ""}, {0, 0}},
    };
    struct command command;

    (void)state;
    commands_begin(
        (struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        command_run(&command, cases[i].script,
                    (struct wp_process_spec){.output_max = 5});
        command_check(&command, 0, 0, false);
        for (int k = 0; k < 2; k++) {
            assert_string_equal(command.said[k], cases[i].said[k]);
            assert_int_equal(command.result.dropped[k], cases[i].dropped[k]);
        }
    }
    commands_end();
}

/* -------------------------------------------------------------------- input */

static void
standard_input_comes_whole(void **state)
{
    enum {
        SENT = 300000,
        MORE = 7,
    };
    static char data[SENT + MORE];
    struct command command;
    struct evbuffer *in = evbuffer_new();

    (void)state;
    commands_begin(
        (struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    command_start(&command, "read go; wc -c",
                  (struct wp_process_spec){.open_stdin = 1}, &command_hearing);
    memset(data, 'x', sizeof data);
    assert_int_equal(evbuffer_add(in, data, sizeof data), 0);
    /* More than a pipe has room for. */
    wp_process_write(command.process, in, SENT);
    assert_int_equal(evbuffer_get_length(in), MORE);
    assert_true(wp_process_stdin_queued(command.process) > 0);
    assert_true(wp_process_stdin_queued(command.process) < SENT);
    assert_int_equal(command.rooms, 0);
    (void)evbuffer_drain(in, MORE);
    assert_int_equal(evbuffer_add_printf(in, "\n1234"), 5);
    wp_process_write(command.process, in, SIZE_MAX);
    SERVE_UNTIL(command.rooms > 0);
    assert_int_equal(command.calls, 0);
    wp_process_stdin_close(command.process);
    SERVE_UNTIL(command.calls == 1);
    command_check(&command, 0, 0, false);
    assert_string_equal(command.said[0], "4\n");
    evbuffer_free(in);
    commands_end();
}

static void
input_that_nobody_reads_is_dropped(void **state)
{
    struct command command;
    struct evbuffer *in = evbuffer_new();

    (void)state;
    commands_begin(
        (struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    command_start(&command, "exec <&-; echo closed; exec sleep 1000",
                  (struct wp_process_spec){.open_stdin = true},
                  &command_hearing);
    SERVE_UNTIL(strchr(command.said[0], '\n') != NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(evbuffer_add(in, "text", 4), 0);
        wp_process_write(command.process, in, 4);
        assert_int_equal(evbuffer_get_length(in), 0);
        assert_int_equal(wp_process_stdin_queued(command.process), 0);
    }
    wp_process_stdin_close(command.process);
    wp_process_signal(command.process, SIGINT);
    SERVE_UNTIL(command.calls == 1);
    command_check(&command, -1, SIGINT, false);
    /* Without input of its own a command reads nothing. */
    command_run(&command, "cat; echo end", (struct wp_process_spec){0});
    assert_string_equal(command.said[0], "end\n");
    evbuffer_free(in);
    commands_end();
}

static void
a_terminal_has_a_size_and_an_end(void **state)
{
    struct winsize size = {.ws_row = 7, .ws_col = 33};
    struct command command;
    struct evbuffer *in = evbuffer_new();

    (void)state;
    commands_begin(
        (struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    command_start(&command,
                  "stty -echo size; tty -s && echo on; read x; stty size; cat; "
                  "echo $x >&2; exit 5",
                  (struct wp_process_spec){.terminal = &size},
                  &command_hearing);
    SERVE_UNTIL(strstr(command.said[0], "on\r\n") != NULL);
    size = (struct winsize){.ws_row = 9, .ws_col = 44};
    assert_true(wp_process_resize(command.process, &size));
    assert_int_equal(evbuffer_add(in, "go\nand\n", 7), 0);
    wp_process_write(command.process, in, 7);
    wp_process_stdin_close(command.process);
    SERVE_UNTIL(command.calls == 1);
    command_check(&command, 5, 0, false);
    assert_string_equal(command.said[0], "7 33\r\non\r\n9 44\r\nand\r\ngo\r\n");
    assert_string_equal(command.said[1], "");

    command_start(&command, "exec sleep 1000", (struct wp_process_spec){0},
                  &command_keeping);
    assert_false(wp_process_resize(command.process, &size));
    wp_process_cancel(command.process);
    evbuffer_free(in);
    commands_end();
}

/* ------------------------------------------------------------------ starting */

static void
signals_that_are_blocked_here_are_not_there(void **state)
{
    struct command command;
    sigset_t mask;
    sigset_t old;

    (void)state;
    commands_begin(
        (struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGUSR1);
    (void)sigaddset(&mask, SIGTERM);
    assert_int_equal(sigprocmask(SIG_BLOCK, &mask, &old), 0);
    command_run(&command, "grep SigBlk /proc/self/status",
                (struct wp_process_spec){0});
    assert_int_equal(sigprocmask(SIG_SETMASK, &old, NULL), 0);
    assert_string_equal(command.said[0], "SigBlk:\t0000000000000000\n");
    commands_end();
}

static void
too_few_descriptors_are_said(void **state)
{
    const struct winsize size = {.ws_row = 7, .ws_col = 33};
    struct wp_process_spec specs[] = {
        {.open_stdin = false}, {.open_stdin = true}, {.terminal = &size}};
    char expected[128];
    struct rlimit old;

    (void)state;
    commands_begin(
        (struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    for (size_t i = 0; i < WP_ARRAY_LEN(specs); i++) {
        size_t before = descriptors_count();
        rlim_t few = 3;
        struct command command;
        enum wp_status status = WP_RESOURCE_EXHAUSTED;
        int refused = -1;

        (void)snprintf(expected, sizeof expected, "%s: %s",
                       specs[i].terminal != NULL ? "terminal" : "pipe",
                       wp_os_error(EMFILE));
        while (status != WP_OK) {
            struct rlimit now = {few++, old.rlim_max};
            struct wp_err err;

            assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
            status = command_try_start(&command, "true", specs[i],
                                       &command_keeping, &err);
            assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
            refused++;
            if (status != WP_OK) {
                assert_int_equal(status, WP_RESOURCE_EXHAUSTED);
                assert_string_equal(err.msg, expected);
                assert_int_equal(descriptors_count(), before);
            }
        }
        assert_true(refused > 0);
        SERVE_UNTIL(command.calls == 1);
        command_check(&command, 0, 0, false);
        assert_int_equal(descriptors_count(), before);
    }
    commands_end();
}

/* What a claim brings comes into the environment of a command that has none of
 * its own. */
static void
commands_have_what_the_claim_brought(void **state)
{
    char dir[512];
    char path[600];
    char sure[] = "PATH=/usr/bin:/bin";
    char *const env[] = {sure, NULL};
    struct command command;
    FILE *file;

    (void)state;
    commands_begin(
        (struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    temp_dir_make(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/env", dir);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs("WP_BROUGHT=yes", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("WARMPOOL_BOUND_DIR", dir, 1), 0);
    command_run(&command, "echo [$WP_BROUGHT]",
                (struct wp_process_spec){.env = env});
    assert_string_equal(command.said[0], "[]\n");
    assert_null(getenv("WP_BROUGHT"));
    command_run(&command, "echo [$WP_BROUGHT]", (struct wp_process_spec){0});
    assert_string_equal(command.said[0], "[yes]\n");
    assert_int_equal(unsetenv("WARMPOOL_BOUND_DIR"), 0);
    temp_dir_remove(dir);
    commands_end();
}

/* ------------------------------------------------------------------ the line */

struct in_line {
    struct wp_process_wait wait;
    int turns;
    struct command command;
};

static void
on_turn(void *user)
{
    struct in_line *one = user;

    one->turns++;
    command_start(&one->command, "exec sleep 1000", (struct wp_process_spec){0},
                  &command_keeping);
}

static void
first_come_first_served(void **state)
{
    struct in_line line[4] = {{.turns = 0}};
    struct command first;
    struct wp_err err;

    (void)state;
    commands_begin((struct wp_process_limits){
        .running_max = 1, .waiting_max = 3, .drain_ms = 20});
    command_start(&first, "exec sleep 1000", (struct wp_process_spec){0},
                  &command_keeping);
    for (size_t i = 0; i < 4; i++) {
        line[i].wait.room = on_turn;
        line[i].wait.user = &line[i];
        wp_process_wait_cancel(&line[i].wait); /* Not in it. */
        assert_int_equal(wp_process_wait(command_table, &line[i].wait, &err),
                         i < 3 ? WP_OK : WP_RESOURCE_EXHAUSTED);
    }
    assert_string_equal(err.msg, "1 commands are running and 3 wait, which is "
                                 "the limit");
    wp_process_wait_cancel(&line[1].wait);
    wp_process_wait_cancel(&line[1].wait);
    /* By a command's end as by its being cancelled. */
    wp_process_signal(first.process, SIGTERM);
    SERVE_UNTIL(line[0].turns == 1);
    assert_int_equal(first.calls, 1);
    assert_int_equal(wp_process_table_running(command_table), 1);
    assert_false(wp_process_has_room(command_table));
    assert_int_equal(line[2].turns, 0);
    wp_process_cancel(line[0].command.process);
    /* Room, but somebody is in line before. */
    assert_false(wp_process_has_room(command_table));
    SERVE_UNTIL(line[2].turns == 1);
    wp_process_cancel(line[2].command.process);
    assert_true(wp_process_has_room(command_table));
    assert_int_equal(wp_process_table_running(command_table), 0);
    assert_int_equal(line[0].turns, 1);
    assert_int_equal(line[1].turns, 0);
    assert_int_equal(line[3].turns, 0);
    commands_end();
}

static int
setup(void **state)
{
    (void)state;
    return signal(SIGPIPE, SIG_IGN) == SIG_ERR;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_is_kept_to_the_byte),
        cmocka_unit_test(standard_input_comes_whole),
        cmocka_unit_test(input_that_nobody_reads_is_dropped),
        cmocka_unit_test(a_terminal_has_a_size_and_an_end),
        cmocka_unit_test(signals_that_are_blocked_here_are_not_there),
        cmocka_unit_test(too_few_descriptors_are_said),
        cmocka_unit_test(commands_have_what_the_claim_brought),
        cmocka_unit_test(first_come_first_served),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
