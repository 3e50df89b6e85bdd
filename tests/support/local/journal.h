/* tests/support/local/journal.h - what the code under test asks of all that it
 * stands on, in order: each fake writes a line, and the whole is compared with
 * a file in the folder WP_TEST_GOLDEN. What the code logs is among it. */
#ifndef WP_TESTS_SUPPORT_LOCAL_JOURNAL_H
#define WP_TESTS_SUPPORT_LOCAL_JOURNAL_H

#include <stdio.h>

#include "pool/base/status.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/heard.h"

static struct golden journal;

#define NOTE(...) golden_add(&journal, __VA_ARGS__)

/* What fn logs while it runs stands behind what it asks for. */
#define JOURNAL_RUN(call)                                                      \
    do {                                                                       \
        static struct heard heard_;                                            \
                                                                               \
        heard_begin(&heard_);                                                  \
        call;                                                                  \
        NOTE("%s", heard_end(&heard_));                                        \
    } while (0)

static inline void
journal_begin(void)
{
    journal.len = 0;
    journal.text[0] = '\0';
}

static inline void
journal_compare(const char *name)
{
    char path[1024];

    (void)snprintf(path, sizeof path, "%s/%s.txt", WP_TEST_GOLDEN, name);
    golden_compare(journal.text, path);
}

static inline void
journal_status(const char *what, enum wp_status status,
               const struct wp_err *err)
{
    NOTE("= %s: %s%s%s\n", what, wp_status_name(status),
         status == WP_OK || err == NULL ? "" : ": ",
         status == WP_OK || err == NULL ? "" : err->msg);
}

#endif
