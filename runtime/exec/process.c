/* A command's life:
 *
 *   start -> running -> reaped -> done
 *               |          |        `-> leftover (pipes still held) -> freed
 *               |          `- waits for: both pipes at their end, or the drain
 *               |             timer and every byte that was due
 *               `- limit: SIGKILL to the group; done at the latest KILL_WAIT
 *                  later, even if the kernel cannot let go of it.
 */
#include "runtime/exec/process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "pool/base/list.h"
#include "pool/base/log.h"
#include "runtime/exec/process_internal.h"
#include "runtime/exec/process_spawn.h"

enum {
    LEFTOVERS_MAX = 64,
    KILL_WAIT_MS = 2000,
};

static int64_t
now_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

static void
timer_set(struct event *timer, int64_t delay_ms)
{
    struct timeval tv = wp_timeval(delay_ms * WP_NS_PER_MS);

    evtimer_add(timer, &tv);
}

void
wp_process_free(struct wp_process *process)
{
    wp_list_remove(&process->link);
    if (process->leftover) {
        process->table->leftovers_count--;
    }
    for (int i = 0; i < 2; i++) {
        wp_process_pipe_close(&process->streams[i]);
        if (process->streams[i].kept != NULL) {
            evbuffer_free(process->streams[i].kept);
        }
    }
    wp_process_stdin_drop(process);
    if (process->stdin_queue != NULL) {
        evbuffer_free(process->stdin_queue);
    }
    if (process->timer != NULL) {
        event_free(process->timer);
    }
    if (process->finish_ev != NULL) {
        event_free(process->finish_ev);
    }
    free(process);
}

/* ------------------------------------------------------------------- end */

static bool
stream_finished(const struct wp_process *process,
                const struct wp_process_pipe *stream)
{
    return stream->ev == NULL || (process->drained && stream->due == 0);
}

/* Keeps the pipes of what the command left behind flowing, into nothing. */
static void
become_leftover(struct wp_process *process)
{
    struct wp_process_table *table = process->table;

    wp_list_remove(&process->link);
    if ((process->timed_out && !process->spares_children) ||
        table->leftovers_count >= LEFTOVERS_MAX ||
        (process->streams[0].ev == NULL && process->streams[1].ev == NULL)) {
        wp_process_free(process);
        return;
    }
    process->leftover = true;
    table->leftovers_count++;
    wp_list_push_back(&table->leftovers, &process->link);
    wp_process_stdin_drop(process);
    evtimer_del(process->timer);
    for (int i = 0; i < 2; i++) {
        struct wp_process_pipe *stream = &process->streams[i];

        evbuffer_drain(stream->kept, evbuffer_get_length(stream->kept));
        if (stream->ev != NULL && !stream->reading) {
            stream->reading = true;
            event_add(stream->ev, NULL);
        }
    }
}

static void
finish(struct wp_process *process)
{
    struct wp_process_result result = {
        .exit_code = -1,
        .timed_out = process->timed_out,
        .duration_ns = now_ns() - process->started_ns,
    };
    const struct wp_process_events *events = process->events;

    if (process->reaped && WIFSIGNALED(process->wait_status)) {
        result.signal = WTERMSIG(process->wait_status);
    } else if (process->reaped && !process->timed_out) {
        result.exit_code = WEXITSTATUS(process->wait_status);
    }
    for (int i = 0; i < 2; i++) {
        result.output[i] = process->streams[i].kept;
        result.dropped[i] = process->streams[i].dropped;
    }
    process->events = NULL;
    process->table->running_count--;
    wp_process_room_check(process->table);
    events->done(process->user, &result);
    become_leftover(process);
}

/* done() is called from the loop, so that nobody is freed under a caller. */
void
wp_process_finish_check(struct wp_process *process)
{
    if (process->events != NULL && process->reaped &&
        stream_finished(process, &process->streams[0]) &&
        stream_finished(process, &process->streams[1])) {
        event_active(process->finish_ev, EV_TIMEOUT, 0);
    }
}

static void
on_finish(evutil_socket_t fd, short what, void *arg)
{
    struct wp_process *process = arg;

    (void)fd;
    (void)what;
    if (process->events != NULL) {
        finish(process);
    }
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct wp_process *process = arg;

    (void)fd;
    (void)what;
    if (process->reaped) {
        process->drained = true;
        wp_process_finish_check(process);
    } else if (!process->timed_out) {
        process->timed_out = true;
        kill(process->spares_children ? process->pid : -process->pid, SIGKILL);
        timer_set(process->timer, KILL_WAIT_MS);
    } else {
        finish(process); /* Not even SIGKILL ends it: answer all the same. */
    }
}

/* How long the output of what was left behind is waited for. */
static int64_t
drain_ms(const struct wp_process *process)
{
    int64_t least_ms = process->table->limits.drain_ms;
    int64_t wait_ms = process->drain_ms;

    if (process->timeout_ms > 0) {
        int64_t spent_ms = (now_ns() - process->started_ns) / WP_NS_PER_MS;

        if (wait_ms > process->timeout_ms - spent_ms) {
            wait_ms = process->timeout_ms - spent_ms;
        }
    }
    return wait_ms > least_ms && !process->timed_out ? wait_ms : least_ms;
}

static void
process_reaped(struct wp_process *process, int wait_status)
{
    process->reaped = true;
    process->wait_status = wait_status;
    process->pid = 0;
    for (int i = 0; i < 2; i++) {
        struct wp_process_pipe *stream = &process->streams[i];
        int queued = 0;

        if (stream->ev != NULL && ioctl(stream->fd, FIONREAD, &queued) == 0) {
            stream->due = (uint64_t)queued;
        }
    }
    timer_set(process->timer, drain_ms(process));
    wp_process_finish_check(process);
}

static void
on_sigchld(evutil_socket_t fd, short what, void *arg)
{
    struct wp_process_table *table = arg;
    int wait_status;
    pid_t pid;

    (void)fd;
    (void)what;
    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        /* One that is not found is an orphan, or was cancelled. */
        WP_LIST_FOREACH (node, &table->running) {
            struct wp_process *process =
                WP_CONTAINER_OF(node, struct wp_process, link);

            if (process->pid == pid) {
                process_reaped(process, wait_status);
                break;
            }
        }
    }
}

/* ----------------------------------------------------------------- start */

void
wp_process_signal(struct wp_process *process, int signal)
{
    if (process->pid > 0) {
        kill(-process->pid, signal);
    }
}

bool
wp_process_resize(struct wp_process *process, const struct winsize *size)
{
    return process->on_terminal && process->streams[0].ev != NULL &&
           ioctl(process->streams[0].fd, TIOCSWINSZ, size) == 0;
}

void
wp_process_cancel(struct wp_process *process)
{
    wp_process_signal(process, SIGKILL);
    process->table->running_count--;
    wp_process_room_check(process->table);
    wp_process_free(process);
}

static bool
events_create(struct wp_process *process, struct wp_process_child *child)
{
    struct event_base *base = process->table->base;

    process->timer = evtimer_new(base, on_timer, process);
    process->finish_ev = evtimer_new(base, on_finish, process);
    process->stdin_queue = evbuffer_new();
    if (process->timer == NULL || process->finish_ev == NULL ||
        process->stdin_queue == NULL) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        struct wp_process_pipe *stream = &process->streams[i];

        stream->process = process;
        stream->fd = child->out_fd[i];
        stream->kept = evbuffer_new();
        if (stream->kept == NULL) {
            return false;
        }
        if (stream->fd < 0) {
            continue; /* A terminal has one stream. */
        }
        stream->ev = event_new(base, stream->fd, EV_READ | EV_PERSIST,
                               wp_process_on_output, stream);
        if (stream->ev == NULL) {
            return false;
        }
        child->out_fd[i] =
            -1; /* wp_process_pipe_close() closes it from here on. */
        stream->reading = true;
        event_add(stream->ev, NULL);
    }
    if (child->stdin_fd >= 0) {
        process->stdin_fd = child->stdin_fd;
        process->stdin_ev = event_new(base, child->stdin_fd, EV_WRITE,
                                      wp_process_on_stdin, process);
        if (process->stdin_ev == NULL) {
            return false;
        }
        child->stdin_fd = -1;
    }
    return true;
}

static void
child_discard(const struct wp_process_child *child)
{
    kill(-child->pid, SIGKILL);
    for (int i = 0; i < 2; i++) {
        if (child->out_fd[i] >= 0) {
            close(child->out_fd[i]);
        }
    }
    if (child->stdin_fd >= 0) {
        close(child->stdin_fd);
    }
}

static int64_t
limit_ms(const struct wp_process_table *table, int64_t asked_ms)
{
    int64_t max_ms = table->limits.timeout_max_ms;

    if (max_ms > 0 && (asked_ms <= 0 || asked_ms > max_ms)) {
        return max_ms;
    }
    return asked_ms;
}

enum wp_status
wp_process_start(struct wp_process_table *table,
                 const struct wp_process_spec *spec,
                 const struct wp_process_events *events, void *user,
                 struct wp_process **out, struct wp_err *err)
{
    struct wp_process_child child;
    struct wp_process *process;
    enum wp_status status;
    int64_t timeout_ms = limit_ms(table, spec->timeout_ms);

    if (table->running_count >= table->limits.running_max) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "%u commands are running, which is the limit",
                          table->running_count);
    }
    status = wp_process_spawn(spec, &child, err);
    if (status != WP_OK) {
        return status;
    }
    process = calloc(1, sizeof(*process));
    if (process == NULL) {
        child_discard(&child);
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
    }
    wp_list_init(&process->link);
    process->table = table;
    process->pid = child.pid;
    process->started_ns = now_ns();
    process->timeout_ms = timeout_ms;
    process->drain_ms = spec->drain_ms;
    process->spares_children =
        spec->timeout_spares_children && timeout_ms == spec->timeout_ms;
    process->output_max = spec->output_max;
    process->on_terminal = spec->terminal != NULL;
    process->events = events;
    process->user = user;
    if (!events_create(process, &child)) {
        child_discard(&child);
        wp_process_free(process);
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
    }
    wp_list_push_back(&table->running, &process->link);
    table->running_count++;
    if (timeout_ms > 0) {
        timer_set(process->timer, timeout_ms);
    }
    *out = process;
    return WP_OK;
}

struct wp_process_table *
wp_process_table_create(struct event_base *base,
                        const struct wp_process_limits *limits)
{
    struct wp_process_table *table = calloc(1, sizeof(*table));

    if (table == NULL) {
        return NULL;
    }
    table->base = base;
    table->limits = *limits;
    wp_list_init(&table->running);
    wp_list_init(&table->leftovers);
    wp_list_init(&table->waiting);
    table->room = wp_process_room_event(table);
    table->sigchld = evsignal_new(base, SIGCHLD, on_sigchld, table);
    if (table->room == NULL || table->sigchld == NULL ||
        evsignal_add(table->sigchld, NULL) != 0) {
        if (table->room != NULL) {
            event_free(table->room);
        }
        if (table->sigchld != NULL) {
            event_free(table->sigchld);
        }
        free(table);
        return NULL;
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        wp_log_warn("orphans will not be reaped: no subreaper");
    }
    return table;
}

static void
list_free(struct wp_list *list)
{
    struct wp_list *node;

    while ((node = wp_list_pop_front(list)) != NULL) {
        struct wp_process *process =
            WP_CONTAINER_OF(node, struct wp_process, link);

        wp_process_signal(process, SIGKILL);
        wp_process_free(process);
    }
}

void
wp_process_table_destroy(struct wp_process_table *table)
{
    if (table == NULL) {
        return;
    }
    list_free(&table->running);
    list_free(&table->leftovers);
    event_free(table->sigchld);
    event_free(table->room);
    free(table);
}

uint32_t
wp_process_table_running(const struct wp_process_table *table)
{
    return table->running_count;
}
