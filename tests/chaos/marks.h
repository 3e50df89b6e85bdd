/* tests/chaos/marks.h - who holds a sandbox leaves a file named after it, and
 * whoever is given the same one finds it there. All clients of a run use one
 * directory. One thread. */
#ifndef WP_TESTS_CHAOS_MARKS_H
#define WP_TESTS_CHAOS_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/backend.h"

struct wp_marks;

/* NULL with errno set. Aborts when memory lacks. */
struct wp_marks *wp_marks_open(const char *dir);
/* Removes those that were parted with; the rest stay. */
void wp_marks_close(struct wp_marks *marks);

/* False: another claim's mark is there. */
bool wp_marks_set(struct wp_marks *marks, const uint8_t *uid, uint64_t claim);
void wp_marks_remove(struct wp_marks *marks, const uint8_t *uid);
/* The mark of a worker that vanishes stays as long as others must not have the
 * sandbox. */
void wp_marks_part(struct wp_marks *marks, const uint8_t *uid);
/* Of those that were parted with, what need not stay after at_ns. */
void wp_marks_remove_old(struct wp_marks *marks, int64_t at_ns);

#endif
