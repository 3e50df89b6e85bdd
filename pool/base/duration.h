/* pool/base/duration.h - durations as people write them. */
#ifndef WP_BASE_DURATION_H
#define WP_BASE_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

enum {
    WP_DURATION_TEXT_MAX = 32, /* With the final NUL. */
};

struct wp_unit {
    const char *name;
    int64_t factor;
};
/* A whole number and one of these units; "0" needs none. False when it is not
 * that, or does not fit. */
WP_MUST_CHECK bool wp_unit_parse(struct wp_str text,
                                 const struct wp_unit *units, size_t n_units,
                                 int64_t *out);
/* The same back, in the last of the units that is exact, else in the first; 0
 * has none. value >= 0. Returns out. */
const char *wp_unit_format(int64_t value, const struct wp_unit *units,
                           size_t n_units, char out[32]);

/* A whole number and a unit, "500ms", "30s", "5m", "2h", "7d", in nanoseconds.
 * "0" needs no unit. False when it is none or does not fit. */
WP_MUST_CHECK bool wp_duration_parse(struct wp_str text, int64_t *out_ns);
/* The same back, in the largest unit that is exact; what is below a millisecond
 * is left out. duration_ns >= 0. Returns out. */
const char *wp_duration_format(int64_t duration_ns,
                               char out[WP_DURATION_TEXT_MAX]);

#endif
