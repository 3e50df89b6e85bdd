/* k8s/objects/quantity.h - Kubernetes quantities ("500m", "1.5Gi", "2e3")
 * compared. */
#ifndef WP_K8S_OBJECTS_QUANTITY_H
#define WP_K8S_OBJECTS_QUANTITY_H

#include <stdbool.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

enum {
    WP_QUANTITY_TEXT_MAX = 32
};
/* The same text for all spellings of one value, as far as 15 significant digits
 * go: "1000m" and "1" are equal. False when s is no quantity. Any thread. */
WP_MUST_CHECK bool wp_quantity_canonical(struct wp_str s,
                                         char out[WP_QUANTITY_TEXT_MAX]);

#endif
