/* pool/base/assert.h - checks for programming errors.
 *
 * WP_ASSERT stays on in release; it is never used on anything that came from
 * outside the process. WP_DASSERT is for checks whose cost is not O(1), or that
 * every claim would pay for; it is on in debug builds and in the simulation. */
#ifndef WP_BASE_ASSERT_H
#define WP_BASE_ASSERT_H

#include "pool/base/compiler.h"

/* Writes one line to standard error without allocating, then aborts. */
WP_NORETURN void wp_assert_failed(const char *expr, const char *file, int line,
                                  const char *func);

#define WP_ASSERT(cond)                                                        \
    (WP_LIKELY(cond) ? (void)0                                                 \
                     : wp_assert_failed(#cond, __FILE__, __LINE__, __func__))

#ifdef WP_DEBUG_CHECKS
#define WP_DASSERT(cond) WP_ASSERT(cond)
#else
#define WP_DASSERT(cond) ((void)sizeof(cond))
#endif

#endif
