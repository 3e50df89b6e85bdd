/* tests/support/base/golden.h - texts that people read, compared whole with a
 * file beside the test. WP_WRITE_OUTPUT=1 in the environment writes the file
 * anew: read what changed. */
#ifndef WP_TESTS_SUPPORT_BASE_GOLDEN_H
#define WP_TESTS_SUPPORT_BASE_GOLDEN_H

#include <stddef.h>

#include "pool/base/compiler.h"

/* A text that grows; all zeros to begin with. */
struct golden {
    char text[1 << 18];
    size_t len;
};

/* Fails when there is no room. */
WP_PRINTF(2, 3)
void golden_add(struct golden *golden, const char *fmt, ...);

/* The whole file, to be freed; fails when it cannot be read. */
char *golden_read(const char *path);

/* Fails, with the first line that differs, unless text is what the file at path
 * has. */
void golden_compare(const char *text, const char *path);

#endif
