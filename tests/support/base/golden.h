/* tests/support/base/golden.h - texts that people read, compared whole with a
 * file beside the test. */
#ifndef WP_TESTS_SUPPORT_BASE_GOLDEN_H
#define WP_TESTS_SUPPORT_BASE_GOLDEN_H

/* The whole file, to be freed; fails when it cannot be read. */
char *golden_read(const char *path);

/* Fails, with the first line that differs, unless text is what the file at path
 * has. WP_WRITE_OUTPUT=1 in the environment writes the file anew. */
void golden_compare(const char *text, const char *path);

#endif
