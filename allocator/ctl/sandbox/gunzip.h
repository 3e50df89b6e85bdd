/* allocator/ctl/sandbox/gunzip.h - what gzip has packed, in memory. Pure; any
 * thread. */
#ifndef WP_ALLOCATOR_CTL_SANDBOX_GUNZIP_H
#define WP_ALLOCATOR_CTL_SANDBOX_GUNZIP_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/arena.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

/* Does it begin as gzip's files do? */
bool wp_gunzip_is(struct wp_str packed);

/* All members, unpacked into region. It is unpacked twice: once to learn its
 * size, so that a small file that grows without end costs no memory.
 * INVALID_ARGUMENT and err: it is damaged, is cut, or has more than max bytes.
 */
WP_MUST_CHECK enum wp_status wp_gunzip(struct wp_str packed, uint64_t max,
                                       struct wp_region *region,
                                       struct wp_str *out, struct wp_err *err);

#endif
