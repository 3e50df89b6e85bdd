/* local/sandbox/subids.h - ranges of users that somebody else has. */
#ifndef WP_LOCAL_SANDBOX_SUBIDS_H
#define WP_LOCAL_SANDBOX_SUBIDS_H

#include <stdint.h>

#include "pool/base/status.h"

/* Are the users from `first` on, `count` of them, in no range of the file
 * `path`, which is as /etc/subuid? Rootless containers run as users of such a
 * range, and their owner may do all to them. FAILED_PRECONDITION names the
 * range. A file that is not there has none; a line that is none is passed
 * over. */
WP_MUST_CHECK enum wp_status wp_subids_check(const char *path, uint32_t first,
                                             uint32_t count,
                                             struct wp_err *err);

#endif
