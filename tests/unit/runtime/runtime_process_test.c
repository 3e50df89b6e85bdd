/* The command runner, with real commands. */
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
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/exec/process.h"

struct outcome {
    struct event_base *base;
    int calls;
    struct wp_process_result result;
    char out[256];
    char err[256];
};

static void
text_of(struct evbuffer *buffer, char *out, size_t cap)
{
    size_t len = evbuffer_get_length(buffer);

    len = len < cap - 1 ? len : cap - 1;
    evbuffer_copyout(buffer, out, len);
    out[len] = '\0';
}

static void
on_done(void *user, const struct wp_process_result *result)
{
    struct outcome *outcome = user;

    outcome->calls++;
    outcome->result = *result;
    text_of(result->output[0], outcome->out, sizeof(outcome->out));
    text_of(result->output[1], outcome->err, sizeof(outcome->err));
    event_base_loopbreak(outcome->base);
}

static const struct wp_process_events events = {.done = on_done};

struct rig {
    struct event_base *base;
    struct wp_process_table *table;
};

static int
setup(void **state)
{
    static struct rig rig;
    const struct wp_process_limits limits = {.running_max = 2, .drain_ms = 50};

    rig.base = event_base_new();
    rig.table = wp_process_table_create(rig.base, &limits);
    assert_non_null(rig.table);
    *state = &rig;
    return 0;
}

static int
teardown(void **state)
{
    struct rig *rig = *state;

    wp_process_table_destroy(rig->table);
    event_base_free(rig->base);
    return 0;
}

/* Starts `sh -c script`. */
static enum wp_status
start(struct rig *rig, const char *script, struct wp_process_spec spec,
      struct outcome *outcome, struct wp_err *err)
{
    char sh[] = "sh";
    char flag[] = "-c";
    char text[256];
    char *argv[] = {sh, flag, text, NULL};
    struct wp_process *process;

    strcpy(text, script);
    *outcome = (struct outcome){.base = rig->base};
    spec.argv = argv;
    spec.cwd_fd = -1;
    spec.output_max = spec.output_max > 0 ? spec.output_max : 200;
    return wp_process_start(rig->table, &spec, &events, outcome, &process, err);
}

static struct outcome
run(struct rig *rig, const char *script, struct wp_process_spec spec)
{
    struct outcome outcome;
    struct wp_err err;

    assert_int_equal(start(rig, script, spec, &outcome, &err), WP_OK);
    assert_int_equal(wp_process_table_running(rig->table), 1);
    event_base_dispatch(rig->base);
    assert_int_equal(outcome.calls, 1);
    assert_int_equal(wp_process_table_running(rig->table), 0);
    return outcome;
}

static void
tells_how_a_command_ended(void **state)
{
    struct outcome outcome =
        run(*state, "echo a; echo b >&2; exit 3", (struct wp_process_spec){0});

    assert_int_equal(outcome.result.exit_code, 3);
    assert_int_equal(outcome.result.signal, 0);
    assert_string_equal(outcome.out, "a\n");
    assert_string_equal(outcome.err, "b\n");
    outcome = run(*state, "kill -USR1 $$", (struct wp_process_spec){0});
    assert_int_equal(outcome.result.exit_code, -1);
    assert_int_equal(outcome.result.signal, SIGUSR1);
    assert_false(outcome.result.timed_out);
}

static void
keeps_no_more_than_asked(void **state)
{
    struct outcome outcome = run(*state, "printf 1234567890; printf 12345 >&2",
                                 (struct wp_process_spec){.output_max = 5});

    assert_string_equal(outcome.out, "12345");
    assert_int_equal(outcome.result.dropped[0], 5);
    assert_string_equal(outcome.err, "12345");
    assert_int_equal(outcome.result.dropped[1], 0);
}

static void
ends_by_its_time_limit(void **state)
{
    struct outcome outcome =
        run(*state, "trap '' TERM; echo on; sleep 1000 & wait",
            (struct wp_process_spec){.timeout_ms = 100});

    assert_true(outcome.result.timed_out);
    assert_int_equal(outcome.result.exit_code, -1);
    assert_string_equal(outcome.out, "on\n");
}

static void
starts_in_the_folder_and_environment(void **state)
{
    char name[] = "NAME=value";
    char path[] = "PATH=/usr/bin:/bin";
    char *const env[] = {name, path, NULL};
    struct outcome outcome =
        run(*state, "pwd; env | grep -c . ; echo $NAME",
            (struct wp_process_spec){.cwd = "/", .env = env});

    assert_memory_equal(outcome.out, "/\n", 2);
    assert_non_null(strstr(outcome.out, "value\n"));
}

/* Signals blocked or ignored here must not be so in the command. */
static void
gives_commands_plain_signals(void **state)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct outcome outcome;

    (void)sigaction(SIGPIPE, &ignore, NULL);
    outcome =
        run(*state, "kill -PIPE $$; echo ignored", (struct wp_process_spec){0});
    assert_int_equal(outcome.result.signal, SIGPIPE);
}

static void
hands_down_no_descriptor(void **state)
{
    int fd = dup(0); /* Without close-on-exec. */
    struct outcome outcome =
        run(*state, "ls /proc/self/fd | wc -l", (struct wp_process_spec){0});

    close(fd);
    assert_int_equal(atoi(outcome.out), 4); /* 0, 1, 2, and ls's own. */
}

static void
refuses_what_cannot_run(void **state)
{
    struct rig *rig = *state;
    char name[] = "/no/such/program";
    char *argv[] = {name, NULL};
    struct wp_process_spec spec = {.argv = argv, .cwd_fd = -1};
    struct wp_process *process;
    struct outcome outcome = {.base = rig->base};
    struct wp_err err;

    assert_int_equal(
        wp_process_start(rig->table, &spec, &events, &outcome, &process, &err),
        WP_NOT_FOUND);
    assert_string_equal(err.msg,
                        "exec /no/such/program: no such file or directory");
    spec.cwd = "/no/such";
    assert_int_equal(
        wp_process_start(rig->table, &spec, &events, &outcome, &process, &err),
        WP_NOT_FOUND);
    assert_string_equal(err.msg, "chdir /no/such: no such file or directory");
    spec.cwd = "/etc/passwd";
    assert_int_equal(
        wp_process_start(rig->table, &spec, &events, &outcome, &process, &err),
        WP_FAILED_PRECONDITION);
    assert_int_equal(wp_process_table_running(rig->table), 0);
}

static void
bounds_how_many_run(void **state)
{
    struct rig *rig = *state;
    struct wp_process_spec spec = {.timeout_ms = 200};
    struct outcome outcomes[3];
    struct wp_err err;

    assert_int_equal(start(rig, "sleep 1000", spec, &outcomes[0], &err), WP_OK);
    assert_int_equal(start(rig, "sleep 1000", spec, &outcomes[1], &err), WP_OK);
    assert_int_equal(start(rig, "true", spec, &outcomes[2], &err),
                     WP_RESOURCE_EXHAUSTED);
    while (outcomes[0].calls + outcomes[1].calls < 2) {
        event_base_dispatch(rig->base);
    }
    assert_int_equal(wp_process_table_running(rig->table), 0);
}

static void
forgets_a_cancelled_command(void **state)
{
    struct rig *rig = *state;
    char name[] = "sleep";
    char arg[] = "1000";
    char *argv[] = {name, arg, NULL};
    struct wp_process_spec spec = {.argv = argv, .cwd_fd = -1};
    struct outcome outcome = {.base = rig->base};
    struct wp_process *process;
    struct wp_err err;

    assert_int_equal(
        wp_process_start(rig->table, &spec, &events, &outcome, &process, &err),
        WP_OK);
    wp_process_cancel(process);
    assert_int_equal(wp_process_table_running(rig->table), 0);
    /* The next command's end comes after its own, and it was not called. */
    (void)run(rig, "true", (struct wp_process_spec){0});
    assert_int_equal(outcome.calls, 0);
}

struct heard {
    struct event_base *base;
    char out[256];
    bool done;
};

static void
on_heard(void *user, enum wp_process_stream stream, struct evbuffer *data)
{
    struct heard *heard = user;
    size_t len = strlen(heard->out);

    (void)stream;
    text_of(data, heard->out + len, sizeof heard->out - len);
    evbuffer_drain(data, evbuffer_get_length(data));
}

static void
on_heard_done(void *user, const struct wp_process_result *result)
{
    struct heard *heard = user;

    (void)result;
    heard->done = true;
    event_base_loopbreak(heard->base);
}

/* Its number is free once it is reaped: whoever has it then gets no signal. */
static void
signals_nobody_for_a_command_that_has_ended(void **state)
{
    static const struct wp_process_events hearing = {.output = on_heard,
                                                     .done = on_heard_done};
    struct rig *rig = *state;
    char sh[] = "sh";
    char flag[] = "-c";
    char script[] = "(trap 'echo one' USR1; trap 'echo two; exit' USR2; "
                    "echo $$; while :; do sleep 0.01; done) & exit 0";
    char *argv[] = {sh, flag, script, NULL};
    struct wp_process_spec spec = {
        .argv = argv, .cwd_fd = -1, .drain_ms = 60000};
    struct heard heard = {.base = rig->base};
    struct wp_process *process;
    struct wp_err err;
    pid_t pid = 0;

    assert_int_equal(
        wp_process_start(rig->table, &spec, &hearing, &heard, &process, &err),
        WP_OK);
    while (pid == 0 || kill(pid, 0) == 0) {
        assert_int_equal(event_base_loop(rig->base, EVLOOP_ONCE), 0);
        assert_false(heard.done);
        pid = strchr(heard.out, '\n') != NULL ? atoi(heard.out) : 0;
    }
    /* What it left behind is in its group, and hears the first one first. */
    wp_process_signal(process, SIGUSR1);
    assert_int_equal(kill(-pid, SIGUSR2), 0);
    event_base_dispatch(rig->base);
    assert_true(heard.done);
    assert_null(strstr(heard.out, "one\n"));
    assert_non_null(strstr(heard.out, "two\n"));
}

/* A stream at a time: one that is closed says nothing of the other. */
static void
serves_what_a_command_left_behind(void **state)
{
    struct rig *rig = *state;
    const struct timeval step = {0, 50000};
    char path[] = "/tmp/wp-process-XXXXXX";
    char script[256];
    struct stat st = {.st_size = 0};
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    (void)snprintf(script, sizeof script,
                   "(sleep 0.2; exec >&-; sleep 0.2; echo a >&2; echo b >&2; "
                   "echo there >%s) & exit 0",
                   path);
    (void)run(rig, script, (struct wp_process_spec){0});
    for (int i = 0; i < 1200 && st.st_size == 0; i++) {
        assert_int_equal(event_base_loopexit(rig->base, &step), 0);
        event_base_dispatch(rig->base);
        assert_int_equal(fstat(fd, &st), 0);
    }
    assert_int_equal(st.st_size, 6);
    (void)close(fd);
    assert_int_equal(unlink(path), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_how_a_command_ended),
        cmocka_unit_test(keeps_no_more_than_asked),
        cmocka_unit_test(ends_by_its_time_limit),
        cmocka_unit_test(starts_in_the_folder_and_environment),
        cmocka_unit_test(gives_commands_plain_signals),
        cmocka_unit_test(hands_down_no_descriptor),
        cmocka_unit_test(refuses_what_cannot_run),
        cmocka_unit_test(bounds_how_many_run),
        cmocka_unit_test(forgets_a_cancelled_command),
        cmocka_unit_test(signals_nobody_for_a_command_that_has_ended),
        cmocka_unit_test(serves_what_a_command_left_behind),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
