/* pool/annotations/quantity.h - Kubernetes quantities ("500m", "1.5Gi", "2e3"),
 * to the last digit. */
#ifndef WP_POOL_ANNOTATIONS_QUANTITY_H
#define WP_POOL_ANNOTATIONS_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

/* No quantity has more than 40 significant digits or an exponent of three: such
 * texts are refused, as all are that Kubernetes does not know. Any thread. */

enum {
    WP_QUANTITY_TEXT_MAX = 80
};

/* In thousandths, rounded up as Kubernetes does. False: no quantity, negative,
 * or beyond 2^63 thousandths. */
WP_MUST_CHECK bool wp_quantity_milli(struct wp_str text, uint64_t *out);
/* The same in whole units (bytes), rounded up; up to 2^60. */
WP_MUST_CHECK bool wp_quantity_whole(struct wp_str text, uint64_t *out);
/* The same text for all spellings of one value and for no other: "1000m" and
 * "1" are equal. False: no quantity. */
WP_MUST_CHECK bool wp_quantity_canonical(struct wp_str text,
                                         char out[WP_QUANTITY_TEXT_MAX]);

#endif
