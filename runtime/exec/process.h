/* runtime/exec/process.h - the commands that run in the sandbox.
 *
 * Each gets a session, and so a process group, of its own; its output is read
 * by the event loop, kept up to a limit or handed on piece by piece. A time
 * limit kills the whole group.
 *
 * When is a command done? When its main process was reaped and its output was
 * read: up to the end of file, or, when something it left behind still holds
 * the pipes, up to what was in them at its death and a short drain after. What
 * is left behind goes on living, and its output is thrown away (closing the
 * pipe would kill a server started with '&'), except after a kill of the whole
 * group. At most 64
 * such leftovers are served; beyond that their pipes are closed.
 *
 * The table reaps every child of this process, also orphans that it inherits
 * as pid 1 or as a subreaper. One table a process; loop thread only. */
#ifndef WP_RUNTIME_EXEC_PROCESS_H
#define WP_RUNTIME_EXEC_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <event2/buffer.h>
#include <event2/event.h>

#include "pool/base/compiler.h"
#include "pool/base/list.h"
#include "pool/base/status.h"

struct winsize;
struct wp_process;
struct wp_process_table;

enum wp_process_stream {
    WP_PROCESS_STDOUT = 0,
    WP_PROCESS_STDERR = 1,
};

struct wp_process_result {
    int exit_code; /* -1 when a signal ended it, or the time limit. */
    int signal;    /* 0, or what ended it. */
    bool timed_out;
    int64_t duration_ns;
    /* Without an output() callback: what was kept, borrowed. */
    struct evbuffer *output[2];
    /* How much was thrown away beyond output_max. */
    uint64_t dropped[2];
};

/* Borrowed for the call of wp_process_start. */
struct wp_process_spec {
    char *const *argv;  /* argv[0] is looked up in PATH; ends with NULL. */
    char *const *env;   /* NULL: this process's own. */
    const char *cwd;    /* NULL: this process's own. */
    int cwd_fd;         /* Used instead of cwd when >= 0; borrowed. */
    int64_t timeout_ms; /* 0: the table's maximum, or none. */
    /* How long the output of what the main process left behind is waited for
     * once that has ended; 0: the table's drain. Never beyond timeout_ms. */
    int64_t drain_ms;
    size_t output_max; /* Bytes kept of each stream. */
    bool open_stdin;   /* Else it reads from /dev/null. */
    /* NULL, or the size of a terminal of the command's own: it is all three
     * streams, and what is written there comes as WP_PROCESS_STDOUT. */
    const struct winsize *terminal;
    /* timeout_ms kills the main process only, and what it started goes on. The
     * table's maximum kills the group all the same. */
    bool timeout_spares_children;
};

struct wp_process_events {
    /* Optional: takes all of data. Must not cancel the process. */
    void (*output)(void *user, enum wp_process_stream stream,
                   struct evbuffer *data);
    /* Optional: all that was written to standard input has been taken. */
    void (*stdin_room)(void *user);
    /* The last call; the process is freed after it. */
    void (*done)(void *user, const struct wp_process_result *result);
};

struct wp_process_limits {
    uint32_t running_max;
    uint32_t waiting_max;
    int64_t timeout_max_ms; /* 0: none. */
    int64_t drain_ms;
};

/* NULL on no memory. Makes this process a subreaper. */
struct wp_process_table *
wp_process_table_create(struct event_base *base,
                        const struct wp_process_limits *limits);
/* Kills every running group; no done() is called. */
void wp_process_table_destroy(struct wp_process_table *table);
uint32_t wp_process_table_running(const struct wp_process_table *table);

/* --- process_wait.c: in line for room, first come, first served. --- */

/* Part of its user; to be zeroed first. */
struct wp_process_wait {
    struct wp_list link; /* Empty, or in table->waiting. */
    struct wp_process_table *table;
    void (*room)(void *user);
    void *user;
};
/* Whether a command may start now: there is room, and nobody is in line. */
bool wp_process_has_room(const struct wp_process_table *table);
/* Gets in line: room() is called once, from the loop, when a command may start.
 * RESOURCE_EXHAUSTED: waiting_max are in line already. */
WP_MUST_CHECK enum wp_status wp_process_wait(struct wp_process_table *table,
                                             struct wp_process_wait *wait,
                                             struct wp_err *err);
/* Leaves the line; harmless for who is not in it. */
void wp_process_wait_cancel(struct wp_process_wait *wait);

/* Starts a command. On WP_OK, done() will be called, never from inside this
 * call, and *out is valid until then. Errors: RESOURCE_EXHAUSTED (running_max,
 * or the system's limits); NOT_FOUND, PERMISSION_DENIED or, for other causes,
 * FAILED_PRECONDITION when it cannot run: the message says "exec NAME: ..." or
 * "chdir DIR: ...". events and user are borrowed until done(). */
WP_MUST_CHECK enum wp_status
wp_process_start(struct wp_process_table *table,
                 const struct wp_process_spec *spec,
                 const struct wp_process_events *events, void *user,
                 struct wp_process **out, struct wp_err *err);

/* Kills the group and forgets the command: no more callbacks. */
void wp_process_cancel(struct wp_process *process);
/* Sends a signal to the group; nothing when the main process is gone. */
void wp_process_signal(struct wp_process *process, int signal);
/* Stops and resumes reading a stream; done() waits for a stopped one. */
void wp_process_read(struct wp_process *process, enum wp_process_stream which,
                     bool on);
/* Moves up to max bytes from data to standard input. They are dropped when
 * the command has closed it. */
void wp_process_write(struct wp_process *process, struct evbuffer *data,
                      size_t max);
size_t wp_process_stdin_queued(const struct wp_process *process);
/* Closes standard input once what was written is taken; on a terminal, which
 * stays open, that is the end-of-file character. */
void wp_process_stdin_close(struct wp_process *process);
/* Gives its terminal a size. False: it has none. */
bool wp_process_resize(struct wp_process *process, const struct winsize *size);

#endif
