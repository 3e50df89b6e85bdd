/* tests/support/runtime/fake_process.h - commands that never run: each call to
 * the table of processes is a line of the journal (fake_http.h), and the test
 * says what a command does. Descriptors show as what they are: the workspace,
 * "bound" (7777) or -1. Of the environment only what is named WPT_ shows. */
#ifndef WP_TESTS_SUPPORT_RUNTIME_FAKE_PROCESS_H
#define WP_TESTS_SUPPORT_RUNTIME_FAKE_PROCESS_H

#include "runtime/exec/process.h"

enum {
    FAKE_BOUND_FD = 7777,
};

/* The table: begin with all zeros. */
struct fake_processes {
    bool full;              /* No command may start at once. */
    bool line_full;         /* Nor wait. */
    enum wp_status refuses; /* WP_OK: they start. */
    bool bound;             /* A folder was brought. */
    size_t queued;          /* Of standard input. */

    /* The command that was started last. */
    const struct wp_process_events *events;
    void *user;
    struct wp_process_wait *waiting; /* Who waits for room. */
};
extern struct fake_processes fake_processes;

/* It says so on a stream, and it ends; result.output is given where output is
 * kept. */
void fake_process_says(enum wp_process_stream stream, const void *bytes,
                       size_t len);
void fake_process_ends(struct wp_process_result result, const char *out,
                       const char *err);

#endif
