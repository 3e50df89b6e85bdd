/* The pipes of a running command: its output and its standard input. */
#include "runtime/exec/process.h"

#include <errno.h>
#include <unistd.h>

#include "runtime/exec/process_internal.h"

enum {
    READ_MAX = 65536,
};

void
wp_process_pipe_close(struct wp_process_pipe *stream)
{
    if (stream->ev != NULL) {
        event_free(stream->ev);
        stream->ev = NULL;
        close(stream->fd);
    }
}

void
wp_process_stdin_drop(struct wp_process *process)
{
    if (process->stdin_ev != NULL) {
        event_free(process->stdin_ev);
        process->stdin_ev = NULL;
        close(process->stdin_fd);
    }
}

/* ---------------------------------------------------------------- output */

/* Keeps what there is room for. Copying beats lending the pipe a chain of the
 * buffer: a chain is 64 KiB even if ten bytes come, and a slow client may have
 * thousands of them queued. */
static void
stream_keep(struct wp_process_pipe *stream, const char *data, size_t len)
{
    const struct wp_process *process = stream->process;
    size_t keep = len;

    if (process->leftover) {
        keep = 0;
    } else if (process->events->output == NULL) {
        size_t room = process->output_max - evbuffer_get_length(stream->kept);

        keep = len < room ? len : room;
    }
    if (keep > 0 && evbuffer_add(stream->kept, data, keep) != 0) {
        keep = 0;
    }
    stream->dropped += len - keep;
}

/* Reads once; false at the end of file. */
static bool
stream_read(struct wp_process_pipe *stream)
{
    static char data[READ_MAX];
    struct wp_process *process = stream->process;
    size_t want = READ_MAX;
    ssize_t got;

    if (process->drained && !process->leftover && stream->due < want) {
        want = (size_t)stream->due; /* The rest is not the command's own. */
    }
    if (want == 0) {
        stream->reading = false;
        event_del(stream->ev);
        return true;
    }
    got = read(stream->fd, data, want);
    if (got <= 0) {
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    stream_keep(stream, data, (size_t)got);
    stream->due -= (uint64_t)got < stream->due ? (uint64_t)got : stream->due;
    return true;
}

void
wp_process_on_output(evutil_socket_t fd, short what, void *arg)
{
    struct wp_process_pipe *stream = arg;
    struct wp_process *process = stream->process;
    bool open = stream_read(stream);

    (void)fd;
    (void)what;
    if (!process->leftover && process->events->output != NULL &&
        evbuffer_get_length(stream->kept) > 0) {
        process->events->output(
            process->user, (enum wp_process_stream)(stream - process->streams),
            stream->kept);
    }
    if (!open) {
        wp_process_pipe_close(stream);
        if (process->leftover && process->streams[0].ev == NULL &&
            process->streams[1].ev == NULL) {
            wp_process_free(process);
            return;
        }
    }
    wp_process_finish_check(process);
}

void
wp_process_read(struct wp_process *process, enum wp_process_stream which,
                bool on)
{
    struct wp_process_pipe *stream = &process->streams[which];

    if (stream->ev == NULL || stream->reading == on) {
        return;
    }
    stream->reading = on;
    if (on) {
        event_add(stream->ev, NULL);
    } else {
        event_del(stream->ev);
    }
}

/* ----------------------------------------------------------------- stdin */

static void
stdin_flush(struct wp_process *process)
{
    while (process->stdin_ev != NULL &&
           evbuffer_get_length(process->stdin_queue) > 0) {
        if (evbuffer_write(process->stdin_queue, process->stdin_fd) > 0) {
            continue;
        }
        if (errno == EAGAIN || errno == EINTR) {
            event_add(process->stdin_ev, NULL);
            return;
        }
        wp_process_stdin_drop(
            process); /* The command does not read any more. */
    }
    if (process->stdin_ev == NULL) {
        evbuffer_drain(process->stdin_queue,
                       evbuffer_get_length(process->stdin_queue));
    } else if (process->stdin_closing) {
        wp_process_stdin_drop(process);
    }
}

void
wp_process_on_stdin(evutil_socket_t fd, short what, void *arg)
{
    struct wp_process *process = arg;

    (void)fd;
    (void)what;
    stdin_flush(process);
    if (process->events != NULL && process->events->stdin_room != NULL &&
        evbuffer_get_length(process->stdin_queue) == 0) {
        process->events->stdin_room(process->user);
    }
}

void
wp_process_write(struct wp_process *process, struct evbuffer *data, size_t max)
{
    evbuffer_remove_buffer(data, process->stdin_queue, max);
    stdin_flush(process);
}

size_t
wp_process_stdin_queued(const struct wp_process *process)
{
    return evbuffer_get_length(process->stdin_queue);
}

void
wp_process_stdin_close(struct wp_process *process)
{
    static const char end_of_file = 4; /* ^D */

    if (process->on_terminal) {
        evbuffer_add(process->stdin_queue, &end_of_file, 1);
    } else {
        process->stdin_closing = true;
    }
    stdin_flush(process);
}
