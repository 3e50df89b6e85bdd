/* Commands at their edges: how many there are, how long they last, and what
 * they leave behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "pool/base/compiler.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/heard.h"
#include "tests/support/runtime/command_rig.h"

enum {
    LONG_MS = 600000, /* Nobody waits so long. */
    MS = 1000000,
};

static bool
is_there(pid_t pid)
{
    return kill(pid, 0) == 0;
}

/* What a command left behind, which said its number. */
static pid_t
left_behind(const struct command *command)
{
    pid_t pid = atoi(command->said[0]);

    assert_true(pid > 1);
    return pid;
}

static void
end_left_behind(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    SERVE_UNTIL(!is_there(pid));
}

/* ------------------------------------------------------------------ limits */

static void
what_runs_is_bounded_and_said(void **state)
{
    struct command commands[3];
    struct wp_err err;

    (void)state;
    commands_begin(
        (struct wp_process_limits){.running_max = 2, .drain_ms = 20});
    for (int i = 0; i < 2; i++) {
        assert_true(wp_process_has_room(command_table));
        command_start(&commands[i], "exec sleep 1000",
                      (struct wp_process_spec){0}, &command_keeping);
        assert_int_equal(wp_process_table_running(command_table), i + 1);
    }
    assert_false(wp_process_has_room(command_table));
    assert_int_equal(command_try_start(&commands[2], "true",
                                       (struct wp_process_spec){0},
                                       &command_keeping, &err),
                     WP_RESOURCE_EXHAUSTED);
    assert_string_equal(err.msg, "2 commands are running, which is the limit");
    wp_process_signal(commands[0].process, SIGTERM);
    SERVE_UNTIL(commands[0].calls == 1);
    command_check(&commands[0], -1, SIGTERM, false);
    assert_true(wp_process_has_room(command_table));
    assert_int_equal(wp_process_table_running(command_table), 1);
    commands_end();
    /* It was killed, and nobody was told. */
    assert_int_equal(commands[1].calls, 0);
}

static void
the_end_of_all_kills_what_runs(void **state)
{
    static struct heard heard;
    struct command left;
    struct command command;
    size_t before = descriptors_count();
    int status;
    int subreaper = 0;
    pid_t pid;

    (void)state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    heard_begin(&heard);
    commands_begin(
        (struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    assert_string_equal(heard_end(&heard), "");
    command_run(&left, "sleep 1000 & echo $!", (struct wp_process_spec){0});
    assert_int_equal(prctl(PR_GET_CHILD_SUBREAPER, &subreaper), 0);
    assert_int_equal(subreaper, 1);
    command_start(&command, "echo $$; exec sleep 1000",
                  (struct wp_process_spec){0}, &command_hearing);
    SERVE_UNTIL(strchr(command.said[0], '\n') != NULL);
    pid = left_behind(&command);
    commands_end();
    /* Also the pipes of what was left behind are closed. */
    assert_int_equal(descriptors_count(), before);
    assert_int_equal(kill(left_behind(&left), SIGKILL), 0);
    assert_int_equal(waitpid(left_behind(&left), &status, 0),
                     left_behind(&left));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_int_equal(command.calls, 0);
    wp_process_table_destroy(NULL);
}

static void
cancelling_kills_the_group(void **state)
{
    struct command command;
    size_t before;
    pid_t pid;

    (void)state;
    commands_begin(
        (struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    before = descriptors_count();
    command_start(&command, "sleep 1000 & echo $!; wait",
                  (struct wp_process_spec){.open_stdin = true},
                  &command_hearing);
    SERVE_UNTIL(strchr(command.said[0], '\n') != NULL);
    pid = left_behind(&command);
    wp_process_cancel(command.process);
    assert_int_equal(descriptors_count(), before);
    SERVE_UNTIL(!is_there(pid));
    assert_int_equal(command.calls, 0);
    commands_end();
}

/* By its own limit the command alone, where that was asked for; by the
 * table's, and else, its whole group. */
static void
time_limits(void **state)
{
    static const struct {
        int64_t asked; /* The table has 300 of such units. */
        bool spares;
        bool left; /* What it started lives. */
    } cases[] = {
        {0, false, false},      {0, true, false},  {-1, true, false},
        {LONG_MS, true, false}, {300, true, true}, {299, true, true},
        {301, true, false},     {100, true, true}, {100, false, false},
    };
    struct command commands[WP_ARRAY_LEN(cases)];
    int64_t unit_ms = 1;
    bool all_began = false;

    (void)state;
    while (!all_began) {
        commands_begin(
            (struct wp_process_limits){.running_max = WP_ARRAY_LEN(cases),
                                       .drain_ms = 20,
                                       .timeout_max_ms = 300 * unit_ms});
        for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
            command_start(&commands[i], "sleep 1000 & echo $!; wait",
                          (struct wp_process_spec){
                              .timeout_ms = cases[i].asked * unit_ms,
                              .timeout_spares_children = cases[i].spares},
                          &command_keeping);
        }
        all_began = true;
        for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
            SERVE_UNTIL(commands[i].calls == 1);
            command_check(&commands[i], -1, SIGKILL, true);
            all_began = all_began && strchr(commands[i].said[0], '\n') != NULL;
        }
        for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
            int64_t least = cases[i].asked == 100 ? 100 : 299;

            assert_true(commands[i].result.duration_ns >=
                        (least - 50) * unit_ms * MS);
            if (strchr(commands[i].said[0], '\n') == NULL) {
                continue; /* A slow machine: once more, with more time. */
            }
            if (cases[i].left) {
                end_left_behind(left_behind(&commands[i]));
            }
            SERVE_UNTIL(!is_there(left_behind(&commands[i])));
        }
        commands_end();
        unit_ms *= 8;
    }
}

/* ------------------------------------------------------- what is left behind */

/* Output is waited for as long as was asked, but not beyond the limit of the
 * command, and at least as long as the table says. */
static void
how_long_output_is_waited_for(void **state)
{
    static const struct {
        int64_t drain_ms;
        int64_t timeout_ms;
        int64_t waits_ms;
    } cases[] = {
        {0, 0, 100},         {1, LONG_MS, 100},   {200, 0, 200},
        {200, LONG_MS, 200}, {LONG_MS, 300, 300},
    };
    enum {
        SHORT = WP_ARRAY_LEN(cases) - 1,
    };
    struct command commands[WP_ARRAY_LEN(cases)];
    struct command late;
    int64_t scale = 1;
    bool timed_out = true;

    (void)state;
    commands_begin((struct wp_process_limits){
        .running_max = WP_ARRAY_LEN(cases) + 1, .drain_ms = 100});
    command_start(&late, "(sleep 0.3; echo late; echo too >&2) & exit 0",
                  (struct wp_process_spec){.drain_ms = LONG_MS},
                  &command_keeping);
    for (; timed_out; scale *= 8) {
        for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
            command_start(&commands[i], "sleep 1000 & echo $!; exit 4",
                          (struct wp_process_spec){
                              .drain_ms = cases[i].drain_ms,
                              .timeout_ms = cases[i].timeout_ms * scale},
                          &command_keeping);
        }
        for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
            SERVE_UNTIL(commands[i].calls == 1);
        }
        /* On a slow machine; then once more, with more time. */
        timed_out = commands[SHORT].result.timed_out;
        for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
            if (i == SHORT && timed_out) {
                continue;
            }
            command_check(&commands[i], 4, 0, false);
            assert_true(commands[i].result.duration_ns >=
                        (cases[i].waits_ms - 50) * MS);
            end_left_behind(left_behind(&commands[i]));
        }
    }
    SERVE_UNTIL(late.calls == 1);
    command_check(&late, 0, 0, false);
    assert_string_equal(late.said[0], "late\n");
    assert_string_equal(late.said[1], "too\n");
    commands_end();
}

/* Their pipes are served so that they can write; their input is closed. */
static void
how_many_are_left_behind(void **state)
{
    enum {
        LEFTOVERS_MAX = 64,
        COMMANDS = LEFTOVERS_MAX + 2,
    };
    static struct command commands[COMMANDS];
    size_t before;

    (void)state;
    commands_begin(
        (struct wp_process_limits){.running_max = COMMANDS, .drain_ms = 1});
    before = descriptors_count();
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COMMANDS; i++) {
            command_start(&commands[i], "sleep 1000 & echo $!",
                          (struct wp_process_spec){.open_stdin = true},
                          &command_keeping);
        }
        for (size_t i = 0; i < COMMANDS; i++) {
            SERVE_UNTIL(commands[i].calls == 1);
        }
        assert_int_equal(descriptors_count(), before + 2 * LEFTOVERS_MAX);
        for (size_t i = 0; i < COMMANDS; i++) {
            end_left_behind(left_behind(&commands[i]));
        }
        SERVE_UNTIL(descriptors_count() == before);
    }
    commands_end();
}

/* What the command itself wrote is waited for while a stream is stopped, also
 * when its time is over; what comes later is not. */
static void
a_stopped_stream_is_waited_for(void **state)
{
    struct command command;
    struct command other;
    pid_t pid;

    (void)state;
    commands_begin(
        (struct wp_process_limits){.running_max = 2, .drain_ms = 20});
    command_start(&command, "printf 1234567890; sleep 1000 & echo $! >&2",
                  (struct wp_process_spec){0}, &command_hearing);
    wp_process_read(command.process, WP_PROCESS_STDOUT, false);
    wp_process_read(command.process, WP_PROCESS_STDOUT, false);
    SERVE_UNTIL(strchr(command.said[1], '\n') != NULL);
    pid = atoi(command.said[1]);
    for (int i = 0; i < 3; i++) {
        command_run(&other, "sleep 0.1", (struct wp_process_spec){0});
    }
    assert_int_equal(command.calls, 0);
    assert_string_equal(command.said[0], "");
    wp_process_read(command.process, WP_PROCESS_STDOUT, true);
    SERVE_UNTIL(command.calls == 1);
    command_check(&command, 0, 0, false);
    assert_string_equal(command.said[0], "1234567890");
    assert_int_equal(command.result.dropped[0], 0);
    end_left_behind(pid);
    commands_end();
}

/* Also of a stream that was stopped when the command ended. */
static void
what_is_left_behind_can_write_on(void **state)
{
    struct command command;
    size_t before;

    (void)state;
    commands_begin(
        (struct wp_process_limits){.running_max = 2, .drain_ms = 20});
    before = descriptors_count();
    command_start(
        &command,
        "(sleep 0.3; head -c 300000 /dev/zero; head -c 300000 /dev/zero "
        ">&2) & exit 3",
        (struct wp_process_spec){0}, &command_hearing);
    wp_process_read(command.process, WP_PROCESS_STDOUT, false);
    SERVE_UNTIL(command.calls == 1);
    command_check(&command, 3, 0, false);
    /* It ends only when all of that is taken. */
    SERVE_UNTIL(descriptors_count() == before);
    assert_string_equal(command.said[0], "");
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
        cmocka_unit_test(what_runs_is_bounded_and_said),
        cmocka_unit_test(the_end_of_all_kills_what_runs),
        cmocka_unit_test(cancelling_kills_the_group),
        cmocka_unit_test(time_limits),
        cmocka_unit_test(how_long_output_is_waited_for),
        cmocka_unit_test(how_many_are_left_behind),
        cmocka_unit_test(a_stopped_stream_is_waited_for),
        cmocka_unit_test(what_is_left_behind_can_write_on),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
