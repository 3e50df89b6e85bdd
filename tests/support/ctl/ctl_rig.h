/* tests/support/ctl/ctl_rig.h - warmpoolctl as a whole, without a daemon: what
 * is typed, what it asks and what it says go into one transcript.
 *
 * Calls of the daemon are answered by what the test has queued; sandboxes and
 * uploads are faked one function above the socket (ctl_sandbox.c). The clock
 * stands, and random bytes are the same each time. Each test runs in an empty
 * directory of its own, which is "TMP" in the transcript. Single-threaded.
 * Include cmocka.h before. */
#ifndef WP_TESTS_SUPPORT_CTL_CTL_RIG_H
#define WP_TESTS_SUPPORT_CTL_CTL_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "proto/wire/wire.h"

/* 2026-01-02T03:04:05Z */
#define CTL_NOW_MS INT64_C(1767323045000)

struct ctl_rig {
    FILE *transcript;
    char *text;
    size_t len;
    char dir[4096];
    /* What isatty says of all files. */
    bool tty;
    /* What is printed finds a full disk. */
    bool full;
    /* The next connection to the daemon is refused with this. */
    const char *refused;
};
extern struct ctl_rig ctl_rig;

/* For cmocka; state is not used. */
int ctl_rig_set_up(void **state);
int ctl_rig_tear_down(void **state);
#define CTL_TEST(name)                                                         \
    cmocka_unit_test_setup_teardown(name, ctl_rig_set_up, ctl_rig_tear_down)

/* Writes to the transcript. */
WP_PRINTF(1, 2)
void ctl_note(const char *fmt, ...);
/* "label <bytes>", those that are not visible as \xNN. */
void ctl_note_bytes(const char *label, const void *bytes, size_t len);

/* warmpoolctl with these words, apart by spaces; what 'quotes' hold is one
 * word. */
void ctl_run(const char *line);
/* The same with words as they are; ends with NULL. */
void ctl_run_words(const char *const *words);

/* The daemon's next answer: how the call ends. Messages are added to the last
 * one. */
void ctl_answer(enum wp_status status, const char *message,
                int64_t retry_after_ns);
/* Room for a message of the answer that was queued last. */
uint8_t *ctl_answer_message(size_t len);
#define CTL_MESSAGE(name, in)                                                  \
    ((void)wp_wire_pack_##name(in, ctl_answer_message(wp_wire_size_##name(in))))
#define CTL_REPLY(name, in) (ctl_answer(WP_OK, NULL, 0), CTL_MESSAGE(name, in))

/* A file in the test's directory; the folders before it are made. */
void ctl_file(const char *path, const char *text);
void ctl_file_bytes(const char *path, const void *bytes, size_t len);
/* What standard input has. */
void ctl_stdin(const char *text);

/* Compares the transcript with the golden file of that name. */
void ctl_compare(const char *path);

/* --- Sandboxes --- */

struct ctl_sandbox {
    /* The functions that fail ("open", "request", "send", "reply", "read",
     * "session", "upload"), and with what; fail_after: so many pass before. */
    const char *fails;
    int fail_after;
    struct wp_err err;
    int http_status;
    const char *body;   /* Of the answer. */
    size_t piece;       /* It comes in pieces of at most this; 0: whole. */
    int answered_after; /* So many sends; 0: never. */
    /* How a command ends. */
    int exit_code;
    int signal;
    bool timed_out;
    /* These signals come while the first files are uploaded. */
    const int *signals;
    int n_signals;

    /* Private. */
    size_t body_at;
    int sends;
};
extern struct ctl_sandbox ctl_sandbox;
/* Private: an answered request without trouble. */
void ctl_sandbox_reset(void);

#endif
