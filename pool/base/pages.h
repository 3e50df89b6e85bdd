/* pool/base/pages.h - advice to the kernel about large tables. */
#ifndef WP_BASE_PAGES_H
#define WP_BASE_PAGES_H

#include <stddef.h>
#include <sys/mman.h>

/* From this size on a table is worth huge pages; below, their rounding up would
 * cost an idle daemon more memory than the table has. */
#define WP_HUGE_PAGES_MIN_BYTES ((size_t)64 << 20)

/* A walk over a large table in no order misses the TLB at each step with small
 * pages. Only advice: without it everything works, slower. */
static inline void
wp_advise_huge_pages(void *map, size_t bytes)
{
    if (bytes >= WP_HUGE_PAGES_MIN_BYTES) {
        (void)madvise(map, bytes, MADV_HUGEPAGE);
    }
}

#endif
