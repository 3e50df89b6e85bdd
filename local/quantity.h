/* local/quantity.h - Kubernetes quantities and our durations, from text. */
#ifndef WP_LOCAL_QUANTITY_H
#define WP_LOCAL_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

/* "500m", "1.5", "256Mi", "1e3", "2G": in thousandths, rounded up as Kubernetes
 * does. False: no quantity, negative, or beyond 2^63 thousandths. */
WP_MUST_CHECK bool wp_quantity_milli(struct wp_str text, uint64_t *out);
/* The same in whole units (bytes), rounded up; up to 2^60. */
WP_MUST_CHECK bool wp_quantity_whole(struct wp_str text, uint64_t *out);

/* A whole number and a unit, "500ms", "30s", "5m", "2h", "7d", in nanoseconds.
 * "0" needs no unit. False when it is none or does not fit. */
WP_MUST_CHECK bool wp_duration_parse(struct wp_str text, int64_t *out_ns);

#endif
