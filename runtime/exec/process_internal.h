/* runtime/exec/process_internal.h - what the process_*.c share: a
 * running command. For these files only. */
#ifndef WP_RUNTIME_EXEC_PROCESS_INTERNAL_H
#define WP_RUNTIME_EXEC_PROCESS_INTERNAL_H

#include <sys/types.h>

#include "pool/base/list.h"
#include "runtime/exec/process.h"

struct wp_process_pipe {
    struct wp_process *process;
    struct event *ev; /* NULL at the end of file. */
    int fd;
    bool reading;
    /* After the main process died: how much of what it wrote is unread. */
    uint64_t due;
    struct evbuffer *kept;
    uint64_t dropped;
};

struct wp_process {
    struct wp_list link; /* In table->running or table->leftovers. */
    struct wp_process_table *table;
    pid_t pid; /* 0 once reaped. */
    int wait_status;
    bool timed_out;
    bool reaped;
    bool drained; /* The drain timer ran out. */
    bool leftover;
    bool on_terminal;
    int64_t started_ns;
    int64_t timeout_ms; /* 0: none. */
    int64_t drain_ms;   /* 0: the table's. */
    bool spares_children;
    size_t output_max;
    struct wp_process_pipe streams[2];
    struct event *timer; /* Time limit, then drain. */
    struct event *finish_ev;
    int stdin_fd;
    struct event *stdin_ev;
    struct evbuffer *stdin_queue;
    bool stdin_closing;
    const struct wp_process_events *events;
    void *user;
};

struct wp_process_table {
    struct event_base *base;
    struct wp_process_limits limits;
    struct event *sigchld;
    struct wp_list running;
    struct wp_list leftovers;
    uint32_t running_count;
    uint32_t leftovers_count;
    struct wp_list waiting; /* struct wp_process_wait. */
    uint32_t waiting_count;
    struct event *room;
};

/* process.c. Has done() called from the loop, so that nobody is freed under a
 * caller, once there is nothing left to wait for. */
void wp_process_finish_check(struct wp_process *process);
/* Closes and frees all; calls nothing. */
void wp_process_free(struct wp_process *process);

/* process_wait.c. NULL on no memory; who waits is called from the loop. */
struct event *wp_process_room_event(struct wp_process_table *table);
/* A command has ended. */
void wp_process_room_check(struct wp_process_table *table);

/* process_io.c. Event callbacks; arg is the pipe, or the process. */
void wp_process_on_output(evutil_socket_t fd, short what, void *arg);
void wp_process_on_stdin(evutil_socket_t fd, short what, void *arg);
/* Both are harmless when it is closed already. */
void wp_process_pipe_close(struct wp_process_pipe *stream);
void wp_process_stdin_drop(struct wp_process *process);

#endif
