#include "tests/support/runtime/fake_process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/runtime/fake_http.h"
#include "tests/support/runtime/workspace_rig.h"

struct fake_processes fake_processes;

static char process; /* Stands for the one. */

enum wp_status __wrap_wp_process_start(struct wp_process_table *table,
                                       const struct wp_process_spec *spec,
                                       const struct wp_process_events *events,
                                       void *user, struct wp_process **out,
                                       struct wp_err *err);
bool __wrap_wp_process_has_room(const struct wp_process_table *table);
enum wp_status __wrap_wp_process_wait(struct wp_process_table *table,
                                      struct wp_process_wait *wait,
                                      struct wp_err *err);
void __wrap_wp_process_wait_cancel(struct wp_process_wait *wait);
void __wrap_wp_process_cancel(struct wp_process *at);
void __wrap_wp_process_signal(struct wp_process *at, int number);
void __wrap_wp_process_read(struct wp_process *at, enum wp_process_stream which,
                            bool on);
void __wrap_wp_process_write(struct wp_process *at, struct evbuffer *data,
                             size_t max);
size_t __wrap_wp_process_stdin_queued(const struct wp_process *at);
void __wrap_wp_process_stdin_close(struct wp_process *at);
int __wrap_wp_bound_folder(int fallback);

static void
check_table(const struct wp_process_table *table)
{
    assert_ptr_equal(table, workspace_runtime.processes);
}

static void
check_process(const struct wp_process *at)
{
    assert_ptr_equal(at, &process);
}

static const char *
folder_name(int fd)
{
    if (fd == workspace_runtime.workspace.fd) {
        return "the workspace";
    }
    return fd == FAKE_BOUND_FD ? "bound" : fd == -1 ? "none" : "?";
}

static void
words_show(const char *what, char *const *words, const char *prefix)
{
    journal(" %s", what);
    for (size_t i = 0; words != NULL && words[i] != NULL; i++) {
        if (strncmp(words[i], prefix, strlen(prefix)) == 0) {
            journal(" [%s]", words[i]);
        }
    }
}

enum wp_status
__wrap_wp_process_start(struct wp_process_table *table,
                        const struct wp_process_spec *spec,
                        const struct wp_process_events *events, void *user,
                        struct wp_process **out, struct wp_err *err)
{
    check_table(table);
    journal("start");
    words_show("argv", spec->argv, "");
    words_show(spec->env != NULL ? "env" : "no env", spec->env, "WPT_");
    journal(" cwd %s fd %s timeout %lld drain %lld output %zu stdin %d "
            "terminal %d spares %d",
            spec->cwd != NULL ? spec->cwd : "-", folder_name(spec->cwd_fd),
            (long long)spec->timeout_ms, (long long)spec->drain_ms,
            spec->output_max, spec->open_stdin, spec->terminal != NULL,
            spec->timeout_spares_children);
    journal_line();
    if (fake_processes.refuses != WP_OK) {
        return wp_err_set(err, fake_processes.refuses, "exec it: no");
    }
    fake_processes.events = events;
    fake_processes.user = user;
    *out = (struct wp_process *)(void *)&process;
    return WP_OK;
}

bool
__wrap_wp_process_has_room(const struct wp_process_table *table)
{
    check_table(table);
    return !fake_processes.full;
}

enum wp_status
__wrap_wp_process_wait(struct wp_process_table *table,
                       struct wp_process_wait *wait, struct wp_err *err)
{
    check_table(table);
    journal("wait");
    journal_line();
    if (fake_processes.line_full) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "the line is full");
    }
    fake_processes.waiting = wait;
    return WP_OK;
}

void
__wrap_wp_process_wait_cancel(struct wp_process_wait *wait)
{
    journal("leave the line%s",
            wait == fake_processes.waiting ? ", being in it" : "");
    journal_line();
    if (wait == fake_processes.waiting) {
        fake_processes.waiting = NULL;
    }
}

void
__wrap_wp_process_cancel(struct wp_process *at)
{
    check_process(at);
    journal("cancel");
    journal_line();
}

void
__wrap_wp_process_signal(struct wp_process *at, int number)
{
    check_process(at);
    journal("signal %d", number);
    journal_line();
}

void
__wrap_wp_process_read(struct wp_process *at, enum wp_process_stream which,
                       bool on)
{
    check_process(at);
    journal("read %s %s", which == WP_PROCESS_STDOUT ? "stdout" : "stderr",
            on ? "on" : "off");
    journal_line();
}

void
__wrap_wp_process_write(struct wp_process *at, struct evbuffer *data,
                        size_t max)
{
    size_t have = evbuffer_get_length(data);
    size_t n = have < max ? have : max;

    check_process(at);
    journal("write (%zu): ", max);
    if (n > 0) {
        journal_bytes((const char *)evbuffer_pullup(data, (ev_ssize_t)n), n);
    }
    journal_line();
    evbuffer_drain(data, n);
    fake_processes.queued += n;
}

size_t
__wrap_wp_process_stdin_queued(const struct wp_process *at)
{
    check_process(at);
    return fake_processes.queued;
}

void
__wrap_wp_process_stdin_close(struct wp_process *at)
{
    check_process(at);
    journal("close stdin");
    journal_line();
}

int
__wrap_wp_bound_folder(int fallback)
{
    return fake_processes.bound ? FAKE_BOUND_FD : fallback;
}

void
fake_process_says(enum wp_process_stream stream, const void *bytes, size_t len)
{
    struct evbuffer *data = evbuffer_new();

    assert_non_null(data);
    assert_int_equal(evbuffer_add(data, bytes, len), 0);
    fake_processes.events->output(fake_processes.user, stream, data);
    assert_int_equal(evbuffer_get_length(data), 0);
    evbuffer_free(data);
}

void
fake_process_ends(struct wp_process_result result, const char *out,
                  const char *err)
{
    const char *const said[2] = {out, err};

    for (size_t i = 0; i < 2; i++) {
        result.output[i] = evbuffer_new();
        assert_non_null(result.output[i]);
        assert_int_equal(
            evbuffer_add(result.output[i], said[i], strlen(said[i])), 0);
    }
    fake_processes.events->done(fake_processes.user, &result);
    evbuffer_free(result.output[0]);
    evbuffer_free(result.output[1]);
}
