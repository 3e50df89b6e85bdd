/* tests/unit/allocator/metrics/numbers.h - numbers for what is counted, each field
 * another one, and pages that are compared with files. */
#ifndef WP_TESTS_UNIT_ALLOCATOR_METRICS_NUMBERS_H
#define WP_TESTS_UNIT_ALLOCATOR_METRICS_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

#include "pool/base/metrics.h"

struct evbuffer;

/* More than 32 bits hold, and exact as a double. */
#define BIG(n) (UINT64_C(10000000000) + (n))

/* Records in the histogram first, first + 1, ... durations of four sizes. */
void numbers_record(struct wp_histogram *histogram, uint32_t first);
/* The len values are first, first + 1, ... */
void numbers_fill(uint64_t *values, size_t len, uint64_t first);

/* The page as text; valid until the next one. */
char *page_take(struct evbuffer *page);
/* Fails unless text is the file of that name in golden/, where the program's
 * version is VERSION. WP_WRITE_OUTPUT=1 writes it anew: read the difference. */
void page_compare(const char *text, const char *name);

#endif
