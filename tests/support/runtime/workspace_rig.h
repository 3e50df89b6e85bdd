/* tests/support/runtime/workspace_rig.h - a workspace in a folder of the test's
 * own, and calls of the system that fail when a test says so.
 *
 *     fault_set("openat", 2, ENOSPC);
 *
 * lets the second openat from here on fail. What is known: calloc, event_new,
 * fchmod, fdopendir, fstat, fstatat, malloc, mkdir, open, openat, read,
 * renameat, scandirat, unlinkat, write, wp_workspace_open. One thread. */
#ifndef WP_TESTS_SUPPORT_RUNTIME_WORKSPACE_RIG_H
#define WP_TESTS_SUPPORT_RUNTIME_WORKSPACE_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/runtime.h"

/* Of workspace_begin() to workspace_end(): with a loop, a workspace, and no
 * options. */
extern struct wp_runtime workspace_runtime;

/* Setup and teardown of a test, which has to close what it opens. */
int workspace_begin(void **state);
int workspace_end(void **state);

/* The call number nth of a function is to fail, with that errno. */
void fault_set(const char *function, unsigned nth, int os_errno);
/* None is to fail any more. Whether one has. */
bool fault_clear(void);
/* Every unlinkat is a line of the journal: its name, and its flags. */
void fault_tell_unlinks(bool on);

/* The next folder that is read has count entries, all of them named "x". */
void scan_fake(int count);

/* What lies in the workspace, below a path of it. Modes are as given; all was
 * changed at 2001-02-03T04:05:06 and 750 ms. */
void file_put(const char *path, const char *text, unsigned mode);
void folder_put(const char *path);
void link_put(const char *path, const char *target);
/* The journal shows all that is below a folder, sorted: modes and contents. */
void tree_show(const char *path);
/* Sets the time of what was written meanwhile. */
void time_put(const char *path);

/* Serves the loop until nothing is active. Returns how often something was made
 * active since this was called last. */
unsigned loop_settle(void);

#endif
