/* Commands where memory lacks: whatever allocation fails, the command that was
 * started is killed, and nothing of it is left. No command is really started. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

#include "runtime/exec/process.h"
#include "runtime/exec/process_spawn.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"

enum {
    PID = 4711, /* Never signalled: kill is a fake. */
};

#define FAKE(type, name, ...)                                                  \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

static unsigned fails_in; /* 0: none. */
static enum wp_status spawned;
static bool streams[3]; /* Standard input, output and errors. */
static int others[3];   /* The command's ends. */
static bool no_subreaper;

void *__real_calloc(size_t n, size_t size);
struct evbuffer *__real_evbuffer_new(void);
struct event *__real_event_new(struct event_base *base, evutil_socket_t fd,
                               short what, event_callback_fn on, void *arg);

static bool
fails(void)
{
    return fails_in > 0 && --fails_in == 0;
}

FAKE(void *, calloc, size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

FAKE(struct evbuffer *, evbuffer_new, void)
{
    return fails() ? NULL : __real_evbuffer_new();
}

FAKE(struct event *, event_new, struct event_base *base, evutil_socket_t fd,
     short what, event_callback_fn on, void *arg)
{
    return fails() ? NULL : __real_event_new(base, fd, what, on, arg);
}

FAKE(int, kill, pid_t pid, int number)
{
    journal("kill %d %d", (int)pid, number);
    journal_line();
    return 0;
}

FAKE(int, prctl, int what, unsigned long value, ...)
{
    journal("prctl %d %lu", what, value & 0xffffffffU);
    journal_line();
    errno = EINVAL;
    return no_subreaper ? -1 : 0;
}

/* Our end of a pipe, or -1. */
static int
end_of(int which)
{
    int ends[2];

    others[which] = -1;
    if (!streams[which]) {
        return -1;
    }
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    others[which] = ends[which == 0 ? 0 : 1];
    return ends[which == 0 ? 1 : 0];
}

FAKE(enum wp_status, wp_process_spawn, const struct wp_process_spec *spec,
     struct wp_process_child *out, struct wp_err *err)
{
    journal("spawn %s", spec->argv[0]);
    journal_line();
    if (spawned != WP_OK) {
        return wp_err_set(err, spawned, "no such command");
    }
    out->pid = PID;
    out->stdin_fd = end_of(0);
    out->out_fd[0] = end_of(1);
    out->out_fd[1] = end_of(2);
    return WP_OK;
}

static void
close_others(void)
{
    for (int i = 0; i < 3; i++) {
        if (others[i] >= 0) {
            assert_int_equal(close(others[i]), 0);
        }
        others[i] = -1;
    }
}

static void
done(void *user, const struct wp_process_result *result)
{
    (void)user;
    (void)result;
    fail();
}

/* --------------------------------------------------------------- the rig */

static const struct wp_process_limits limits = {.running_max = 1,
                                                .waiting_max = 1};
static struct event_base *base;
static struct wp_process_table *table;

static int
begin(void **state)
{
    (void)state;
    fails_in = 0;
    spawned = WP_OK;
    no_subreaper = false;
    others[0] = others[1] = others[2] = -1;
    base = event_base_new();
    assert_non_null(base);
    table = wp_process_table_create(base, &limits);
    assert_non_null(table);
    journal_drop();
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wp_process_table_destroy(table);
    event_base_free(base);
    return 0;
}

static enum wp_status
start(struct wp_err *err)
{
    static const struct wp_process_events events = {.done = done};
    char name[] = "command";
    char *argv[] = {name, NULL};
    const struct wp_process_spec spec = {.argv = argv, .cwd_fd = -1};
    struct wp_process *process;

    return wp_process_start(table, &spec, &events, NULL, &process, err);
}

/* Each allocation fails once; how many there are. */
static unsigned
start_without_memory(void)
{
    const size_t descriptors = descriptors_count();
    struct wp_err err;
    enum wp_status status;
    unsigned n = 0;

    do {
        n++;
        assert_true(n < 100);
        fails_in = n;
        status = start(&err);
        if (status == WP_OK) {
            break;
        }
        close_others();
        assert_int_equal(status, WP_RESOURCE_EXHAUSTED);
        assert_string_equal(err.msg, "out of memory");
        assert_int_equal(wp_process_table_running(table), 0);
        assert_int_equal(descriptors_count(), descriptors);
        journal_is("spawn command\nkill -4711 9\n");
    } while (true);
    fails_in = 0;
    journal_is("spawn command\n");
    assert_int_equal(wp_process_table_running(table), 1);
    assert_int_equal(start(&err), WP_RESOURCE_EXHAUSTED);
    assert_string_equal(err.msg, "1 commands are running, which is the limit");
    journal_is("");
    wp_process_table_destroy(table);
    journal_is("kill -4711 9\n");
    close_others();
    table = NULL;
    return n - 1;
}

/* ----------------------------------------------------------------- tests */

static void
a_command_without_memory_is_killed(void **state)
{
    (void)state;
    streams[0] = streams[1] = streams[2] = true;
    /* The process, two timers, three buffers, three ends. */
    assert_int_equal(start_without_memory(), 9);
}

static void
a_command_on_a_terminal_has_one_stream(void **state)
{
    (void)state;
    streams[0] = streams[1] = true;
    streams[2] = false;
    assert_int_equal(start_without_memory(), 8);
}

static void
a_command_without_input_has_two(void **state)
{
    (void)state;
    streams[0] = false;
    streams[1] = streams[2] = true;
    assert_int_equal(start_without_memory(), 8);
}

static void
what_was_not_started_is_not_killed(void **state)
{
    struct wp_err err;

    (void)state;
    spawned = WP_NOT_FOUND;
    assert_int_equal(start(&err), WP_NOT_FOUND);
    assert_string_equal(err.msg, "no such command");
    assert_int_equal(wp_process_table_running(table), 0);
    journal_is("spawn command\n");
}

static void
a_table_needs_memory_and_wants_orphans(void **state)
{
    struct wp_process_table *other = NULL;
    struct heard heard;
    unsigned n = 0;

    (void)state;
    while (other == NULL) {
        n++;
        assert_true(n < 100);
        fails_in = n;
        other = wp_process_table_create(base, &limits);
    }
    fails_in = 0;
    assert_int_equal(n, 4);
    wp_process_table_destroy(other);
    journal_is("prctl 36 1\n");
    no_subreaper = true;
    heard_begin(&heard);
    other = wp_process_table_create(base, &limits);
    assert_string_equal(heard_end(&heard),
                        "WARN orphans will not be reaped: no subreaper\n");
    wp_process_table_destroy(other);
    journal_is("prctl 36 1\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_command_without_memory_is_killed),
        TEST(a_command_on_a_terminal_has_one_stream),
        TEST(a_command_without_input_has_two),
        TEST(what_was_not_started_is_not_killed),
        TEST(a_table_needs_memory_and_wants_orphans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
