/* Commands at their edges: limits of time, what they leave behind, standard
 * input, terminals, and the line of those who wait for room. */
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
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/base/compiler.h"
#include "pool/base/os_error.h"
#include "runtime/exec/process.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/temp_dir.h"

enum {
    LONG_MS = 600000, /* Nobody waits so long. */
    SAID_MAX = 512,
    MS = 1000000,
};

static struct event_base *base;
static struct wp_process_table *table;

/* Serves the loop until it is so. */
#define SERVE_UNTIL(condition)                                                 \
    while (!(condition)) {                                                     \
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);               \
    }

static void
begin(struct wp_process_limits limits)
{
    base = event_base_new();
    table = wp_process_table_create(base, &limits);
    assert_non_null(table);
}

static void
end(void)
{
    wp_process_table_destroy(table);
    event_base_free(base);
}

struct command {
    struct wp_process *process;
    struct wp_process_result result;
    char said[2][SAID_MAX];
    int calls;
    int rooms;
};

static void
take(char *said, struct evbuffer *data)
{
    size_t at = strlen(said);
    size_t len = evbuffer_get_length(data);

    len = len < SAID_MAX - 1 - at ? len : SAID_MAX - 1 - at;
    (void)evbuffer_copyout(data, said + at, len);
    said[at + len] = '\0';
}

static void
on_output(void *user, enum wp_process_stream stream, struct evbuffer *data)
{
    struct command *command = user;

    assert_int_equal(command->calls, 0);
    take(command->said[stream], data);
    (void)evbuffer_drain(data, evbuffer_get_length(data));
}

static void
on_room(void *user)
{
    struct command *command = user;

    assert_int_equal(wp_process_stdin_queued(command->process), 0);
    command->rooms++;
}

static void
on_done(void *user, const struct wp_process_result *result)
{
    struct command *command = user;

    command->calls++;
    command->result = *result;
    for (int i = 0; i < 2; i++) {
        take(command->said[i], result->output[i]);
    }
}

static const struct wp_process_events keeping = {.done = on_done};
static const struct wp_process_events hearing = {
    .output = on_output, .stdin_room = on_room, .done = on_done};

static enum wp_status
try_start(struct command *command, const char *script,
          struct wp_process_spec spec, const struct wp_process_events *events,
          struct wp_err *err)
{
    char sh[] = "sh";
    char flag[] = "-c";
    char text[SAID_MAX];
    char *argv[] = {sh, flag, text, NULL};

    assert_true(strlen(script) < sizeof text);
    (void)strcpy(text, script);
    *command = (struct command){.calls = 0};
    spec.argv = argv;
    spec.cwd_fd = -1;
    spec.output_max = spec.output_max > 0 ? spec.output_max : SAID_MAX - 1;
    return wp_process_start(table, &spec, events, command, &command->process,
                            err);
}

static void
start(struct command *command, const char *script, struct wp_process_spec spec,
      const struct wp_process_events *events)
{
    struct wp_err err;

    assert_int_equal(try_start(command, script, spec, events, &err), WP_OK);
}

static void
run(struct command *command, const char *script, struct wp_process_spec spec)
{
    start(command, script, spec, &keeping);
    SERVE_UNTIL(command->calls == 1);
}

static void
check(const struct command *command, int exit_code, int signal, bool timed_out)
{
    assert_int_equal(command->calls, 1);
    assert_int_equal(command->result.exit_code, exit_code);
    assert_int_equal(command->result.signal, signal);
    assert_int_equal(command->result.timed_out, timed_out);
    assert_true(command->result.duration_ns >= 0);
    /* No run of this program lasts an hour. */
    assert_true(command->result.duration_ns < INT64_C(3600000) * MS);
}

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
    begin((struct wp_process_limits){.running_max = 2, .drain_ms = 20});
    for (int i = 0; i < 2; i++) {
        assert_true(wp_process_has_room(table));
        start(&commands[i], "exec sleep 1000", (struct wp_process_spec){0},
              &keeping);
        assert_int_equal(wp_process_table_running(table), i + 1);
    }
    assert_false(wp_process_has_room(table));
    assert_int_equal(try_start(&commands[2], "true",
                               (struct wp_process_spec){0}, &keeping, &err),
                     WP_RESOURCE_EXHAUSTED);
    assert_string_equal(err.msg, "2 commands are running, which is the limit");
    wp_process_signal(commands[0].process, SIGTERM);
    SERVE_UNTIL(commands[0].calls == 1);
    check(&commands[0], -1, SIGTERM, false);
    assert_true(wp_process_has_room(table));
    assert_int_equal(wp_process_table_running(table), 1);
    end();
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
    begin((struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    assert_string_equal(heard_end(&heard), "");
    run(&left, "sleep 1000 & echo $!", (struct wp_process_spec){0});
    assert_int_equal(prctl(PR_GET_CHILD_SUBREAPER, &subreaper), 0);
    assert_int_equal(subreaper, 1);
    start(&command, "echo $$; exec sleep 1000", (struct wp_process_spec){0},
          &hearing);
    SERVE_UNTIL(strchr(command.said[0], '\n') != NULL);
    pid = left_behind(&command);
    end();
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
    begin((struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    before = descriptors_count();
    start(&command, "sleep 1000 & echo $!; wait",
          (struct wp_process_spec){.open_stdin = true}, &hearing);
    SERVE_UNTIL(strchr(command.said[0], '\n') != NULL);
    pid = left_behind(&command);
    wp_process_cancel(command.process);
    assert_int_equal(descriptors_count(), before);
    SERVE_UNTIL(!is_there(pid));
    assert_int_equal(command.calls, 0);
    end();
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
    struct command command;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        int64_t least = cases[i].asked == 100 ? 100 : 299;
        int64_t unit_ms = 1;
        pid_t pid;

        for (;; unit_ms *= 8) {
            begin((struct wp_process_limits){.running_max = 1,
                                             .drain_ms = 20,
                                             .timeout_max_ms = 300 * unit_ms});
            run(&command, "sleep 1000 & echo $!; wait",
                (struct wp_process_spec){.timeout_ms = cases[i].asked * unit_ms,
                                         .timeout_spares_children =
                                             cases[i].spares});
            check(&command, -1, SIGKILL, true);
            if (strchr(command.said[0], '\n') != NULL) {
                break;
            }
            end(); /* A slow machine: once more, with more time. */
        }
        assert_true(command.result.duration_ns >= (least - 50) * unit_ms * MS);
        pid = left_behind(&command);
        if (cases[i].left) {
            assert_true(is_there(pid));
            end_left_behind(pid);
        }
        SERVE_UNTIL(!is_there(pid));
        end();
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
    struct command command;

    (void)state;
    begin((struct wp_process_limits){.running_max = 1, .drain_ms = 100});
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        int64_t scale = 1;

        for (;; scale *= 8) {
            run(&command, "sleep 1000 & echo $!; exit 4",
                (struct wp_process_spec){.drain_ms = cases[i].drain_ms,
                                         .timeout_ms =
                                             cases[i].timeout_ms * scale});
            if (cases[i].timeout_ms != 300 || !command.result.timed_out) {
                break; /* Not because of a slow machine. */
            }
        }
        check(&command, 4, 0, false);
        assert_true(command.result.duration_ns >=
                    (cases[i].waits_ms - 50) * MS);
        end_left_behind(left_behind(&command));
    }
    run(&command, "(sleep 0.3; echo late; echo too >&2) & exit 0",
        (struct wp_process_spec){.drain_ms = LONG_MS});
    check(&command, 0, 0, false);
    assert_string_equal(command.said[0], "late\n");
    assert_string_equal(command.said[1], "too\n");
    end();
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
    begin((struct wp_process_limits){.running_max = COMMANDS, .drain_ms = 1});
    before = descriptors_count();
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COMMANDS; i++) {
            start(&commands[i], "sleep 1000 & echo $!",
                  (struct wp_process_spec){.open_stdin = true}, &keeping);
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
    end();
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
    begin((struct wp_process_limits){.running_max = 2, .drain_ms = 20});
    start(&command, "printf 1234567890; sleep 1000 & echo $! >&2",
          (struct wp_process_spec){0}, &hearing);
    wp_process_read(command.process, WP_PROCESS_STDOUT, false);
    wp_process_read(command.process, WP_PROCESS_STDOUT, false);
    SERVE_UNTIL(strchr(command.said[1], '\n') != NULL);
    pid = atoi(command.said[1]);
    for (int i = 0; i < 3; i++) {
        run(&other, "sleep 0.1", (struct wp_process_spec){0});
    }
    assert_int_equal(command.calls, 0);
    assert_string_equal(command.said[0], "");
    wp_process_read(command.process, WP_PROCESS_STDOUT, true);
    SERVE_UNTIL(command.calls == 1);
    check(&command, 0, 0, false);
    assert_string_equal(command.said[0], "1234567890");
    assert_int_equal(command.result.dropped[0], 0);
    end_left_behind(pid);
    end();
}

/* Also of a stream that was stopped when the command ended. */
static void
what_is_left_behind_can_write_on(void **state)
{
    struct command command;
    size_t before;

    (void)state;
    begin((struct wp_process_limits){.running_max = 2, .drain_ms = 20});
    before = descriptors_count();
    start(&command,
          "(sleep 0.3; head -c 300000 /dev/zero; head -c 300000 /dev/zero "
          ">&2) & exit 3",
          (struct wp_process_spec){0}, &hearing);
    wp_process_read(command.process, WP_PROCESS_STDOUT, false);
    SERVE_UNTIL(command.calls == 1);
    check(&command, 3, 0, false);
    /* It ends only when all of that is taken. */
    SERVE_UNTIL(descriptors_count() == before);
    assert_string_equal(command.said[0], "");
    end();
}

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
    begin((struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        run(&command, cases[i].script,
            (struct wp_process_spec){.output_max = 5});
        check(&command, 0, 0, false);
        for (int k = 0; k < 2; k++) {
            assert_string_equal(command.said[k], cases[i].said[k]);
            assert_int_equal(command.result.dropped[k], cases[i].dropped[k]);
        }
    }
    end();
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
    begin((struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    start(&command, "read go; wc -c", (struct wp_process_spec){.open_stdin = 1},
          &hearing);
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
    check(&command, 0, 0, false);
    assert_string_equal(command.said[0], "4\n");
    evbuffer_free(in);
    end();
}

static void
input_that_nobody_reads_is_dropped(void **state)
{
    struct command command;
    struct evbuffer *in = evbuffer_new();

    (void)state;
    begin((struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    start(&command, "exec <&-; echo closed; exec sleep 1000",
          (struct wp_process_spec){.open_stdin = true}, &hearing);
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
    check(&command, -1, SIGINT, false);
    /* Without input of its own a command reads nothing. */
    run(&command, "cat; echo end", (struct wp_process_spec){0});
    assert_string_equal(command.said[0], "end\n");
    evbuffer_free(in);
    end();
}

static void
a_terminal_has_a_size_and_an_end(void **state)
{
    struct winsize size = {.ws_row = 7, .ws_col = 33};
    struct command command;
    struct evbuffer *in = evbuffer_new();

    (void)state;
    begin((struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    start(&command,
          "stty -echo size; tty -s && echo on; read x; stty size; cat; "
          "echo $x >&2; exit 5",
          (struct wp_process_spec){.terminal = &size}, &hearing);
    SERVE_UNTIL(strstr(command.said[0], "on\r\n") != NULL);
    size = (struct winsize){.ws_row = 9, .ws_col = 44};
    assert_true(wp_process_resize(command.process, &size));
    assert_int_equal(evbuffer_add(in, "go\nand\n", 7), 0);
    wp_process_write(command.process, in, 7);
    wp_process_stdin_close(command.process);
    SERVE_UNTIL(command.calls == 1);
    check(&command, 5, 0, false);
    assert_string_equal(command.said[0], "7 33\r\non\r\n9 44\r\nand\r\ngo\r\n");
    assert_string_equal(command.said[1], "");

    start(&command, "exec sleep 1000", (struct wp_process_spec){0}, &keeping);
    assert_false(wp_process_resize(command.process, &size));
    wp_process_cancel(command.process);
    evbuffer_free(in);
    end();
}

/* ------------------------------------------------------------------ starting */

static void
signals_that_are_blocked_here_are_not_there(void **state)
{
    struct command command;
    sigset_t mask;
    sigset_t old;

    (void)state;
    begin((struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGUSR1);
    (void)sigaddset(&mask, SIGTERM);
    assert_int_equal(sigprocmask(SIG_BLOCK, &mask, &old), 0);
    run(&command, "grep SigBlk /proc/self/status", (struct wp_process_spec){0});
    assert_int_equal(sigprocmask(SIG_SETMASK, &old, NULL), 0);
    assert_string_equal(command.said[0], "SigBlk:\t0000000000000000\n");
    end();
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
    begin((struct wp_process_limits){.running_max = 1, .drain_ms = 20});
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
            status = try_start(&command, "true", specs[i], &keeping, &err);
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
        check(&command, 0, 0, false);
        assert_int_equal(descriptors_count(), before);
    }
    end();
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
    begin((struct wp_process_limits){.running_max = 1, .drain_ms = 20});
    temp_dir_make(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/env", dir);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs("WP_BROUGHT=yes", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("WARMPOOL_BOUND_DIR", dir, 1), 0);
    run(&command, "echo [$WP_BROUGHT]", (struct wp_process_spec){.env = env});
    assert_string_equal(command.said[0], "[]\n");
    assert_null(getenv("WP_BROUGHT"));
    run(&command, "echo [$WP_BROUGHT]", (struct wp_process_spec){0});
    assert_string_equal(command.said[0], "[yes]\n");
    assert_int_equal(unsetenv("WARMPOOL_BOUND_DIR"), 0);
    temp_dir_remove(dir);
    end();
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
    start(&one->command, "exec sleep 1000", (struct wp_process_spec){0},
          &keeping);
}

static void
first_come_first_served(void **state)
{
    struct in_line line[4] = {{.turns = 0}};
    struct command first;
    struct wp_err err;

    (void)state;
    begin((struct wp_process_limits){
        .running_max = 1, .waiting_max = 3, .drain_ms = 20});
    start(&first, "exec sleep 1000", (struct wp_process_spec){0}, &keeping);
    for (size_t i = 0; i < 4; i++) {
        line[i].wait.room = on_turn;
        line[i].wait.user = &line[i];
        wp_process_wait_cancel(&line[i].wait); /* Not in it. */
        assert_int_equal(wp_process_wait(table, &line[i].wait, &err),
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
    assert_int_equal(wp_process_table_running(table), 1);
    assert_false(wp_process_has_room(table));
    assert_int_equal(line[2].turns, 0);
    wp_process_cancel(line[0].command.process);
    /* Room, but somebody is in line before. */
    assert_false(wp_process_has_room(table));
    SERVE_UNTIL(line[2].turns == 1);
    wp_process_cancel(line[2].command.process);
    assert_true(wp_process_has_room(table));
    assert_int_equal(wp_process_table_running(table), 0);
    assert_int_equal(line[0].turns, 1);
    assert_int_equal(line[1].turns, 0);
    assert_int_equal(line[3].turns, 0);
    end();
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
