/* tests/unit/allocator/daemon/journal.h - what a part of the daemon does
 * downwards, a line for each call, and what it logs, in one order. The calls
 * are fakes of the test; each answers what the test has said, else WP_OK. */
#ifndef WP_TESTS_UNIT_ALLOCATOR_DAEMON_JOURNAL_H
#define WP_TESTS_UNIT_ALLOCATOR_DAEMON_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"

/* Empty, nothing said, the clock at 100 s. For a test's setup. */
int journal_begin(void **state);
/* A line. */
WP_PRINTF(1, 2)
void journal(const char *fmt, ...);
/* Takes a text out, wherever it is. */
void journal_without(const char *text);
/* It has no lines yet. */
void journal_empty(void);
/* The journal is what golden/NAME.txt has; it is empty then. */
void journal_is(const char *name);

/* The next call of that name for which nothing was said yet is answered so. */
void journal_say(const char *call, int64_t answer);
/* From now on journal_status forgets, before an error, the lines since now. */
void journal_only_after_errors(void);
/* Nothing is said any more. */
void journal_forget(void);
/* What was said to the call, and otherwise when that is used up. */
int64_t journal_said(const char *call, int64_t otherwise);
/* The same of a status, with a text in err when it is an error. */
enum wp_status journal_status(const char *call, struct wp_err *err);

/* A part that is not there but for its name: the same for the same name. */
void *journal_thing(const char *name);
/* The thing is known by that name from now on, in this test. */
void journal_know(const void *thing, const char *name);
/* The name of what journal_thing or journal_know has named; "none" of NULL. */
const char *journal_name(const void *thing);

/* The system's clock is the journal's: each reading is a microsecond later, or
 * so much. */
void journal_tick(int64_t ns);
void journal_pass(int64_t ns);
int64_t journal_now(void);

/* Called when so many bytes are wiped; NULL at a test's begin. */
extern void (*journal_wipes)(size_t n);

/* calloc, realloc and strndup: the n-th from now on fails; 0: none. */
void journal_no_memory(uint32_t n);
/* Has it? */
bool journal_was_full(void);

/* A fake of a function that takes a part and answers nothing. */
#define TOLD(name, type)                                                       \
    void __wrap_##name(type *self);                                            \
    void __wrap_##name(type *self)                                             \
    {                                                                          \
        journal("%s %s", #name, journal_name(self));                           \
    }

/* One that takes a part and may fail. */
#define TRIED(name, type)                                                      \
    enum wp_status __wrap_##name(type *self, struct wp_err *err);              \
    enum wp_status __wrap_##name(type *self, struct wp_err *err)               \
    {                                                                          \
        enum wp_status status = journal_status(#name, err);                    \
                                                                               \
        journal("%s %s", #name, journal_name(self));                           \
        return status;                                                         \
    }

#endif
