/* local/manifest/quantity.h - Kubernetes quantities from text. */
#ifndef WP_LOCAL_MANIFEST_QUANTITY_H
#define WP_LOCAL_MANIFEST_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

/* "500m", "1.5", "256Mi", "1e3", "2G": in thousandths, rounded up as Kubernetes
 * does. False: no quantity, negative, or beyond 2^63 thousandths. */
WP_MUST_CHECK bool wp_quantity_milli(struct wp_str text, uint64_t *out);
/* The same in whole units (bytes), rounded up; up to 2^60. */
WP_MUST_CHECK bool wp_quantity_whole(struct wp_str text, uint64_t *out);

#endif
