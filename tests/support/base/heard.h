/* tests/support/base/heard.h - what the code under test logs.
 *
 *     heard_begin(&heard);
 *     ...
 *     assert_string_equal(heard_end(&heard), "...");
 *
 * What fails between the two says so where nobody hears it: assert later. */
#ifndef WP_TESTS_SUPPORT_BASE_HEARD_H
#define WP_TESTS_SUPPORT_BASE_HEARD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct heard {
    int saved;
    int file;
    char text[16384];
};

static inline void
heard_begin(struct heard *heard)
{
    heard->saved = dup(STDERR_FILENO);
    heard->file = memfd_create("heard", 0);
    if (heard->saved < 0 || heard->file < 0 ||
        dup2(heard->file, STDERR_FILENO) < 0) {
        abort();
    }
}

/* The lines, without their times. Valid until the next begin. */
static inline const char *
heard_end(struct heard *heard)
{
    char *in = heard->text;
    char *out = heard->text;
    ssize_t n = pread(heard->file, heard->text, sizeof heard->text - 1, 0);

    if (n < 0 || dup2(heard->saved, STDERR_FILENO) < 0) {
        abort();
    }
    (void)close(heard->saved);
    (void)close(heard->file);
    heard->text[n] = '\0';
    while (*in != '\0') {
        char *begin = strchr(in, ' ');
        char *end = strchr(in, '\n');

        begin = begin == NULL ? in : begin + 1;
        end = end == NULL ? in + strlen(in) : end + 1;
        memmove(out, begin, (size_t)(end - begin));
        out += end - begin;
        in = end;
    }
    *out = '\0';
    return heard->text;
}

#endif
