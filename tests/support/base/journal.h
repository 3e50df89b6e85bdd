/* tests/support/base/journal.h - what the code under test did, in order: fakes
 * of what lies below it write a line for each call, and the test compares all of
 * it as one text.
 *
 *     journal("%s reply %d", name, status);
 *     journal_line();
 *     ...
 *     journal_is("A reply 204\n");
 *
 * One thread. */
#ifndef WP_TESTS_SUPPORT_BASE_JOURNAL_H
#define WP_TESTS_SUPPORT_BASE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/base/compiler.h"

/* Appends to the journal. A line feed in what was given shows as "|", what is
 * not printable as "\XX", and a random id (32 times the digits XX) as "#XX". */
void journal(const char *fmt, ...) WP_PRINTF(1, 2);
/* The same of bytes, shortened to their number when there are more than 2000. */
void journal_bytes(const char *data, size_t len);
/* The end of a line. */
void journal_line(void);
/* Compares the whole journal, and empties it. */
void journal_check(const char *expected, const char *file, int line);
#define journal_is(expected) journal_check(expected, __FILE__, __LINE__)
/* All of it; and more, as it stands: for a process that another waits for. */
const char *journal_text(void);
void journal_put(const char *data, size_t len);
/* What follows is left out of it; or not any more. */
void journal_mute(bool on);
/* Empties it: what comes next is what the test is about. */
void journal_drop(void);
/* Compares it with a file (tests/support/base/golden.h). */
void journal_compare(const char *path);

#endif
