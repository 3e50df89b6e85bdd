/* k8s/objects/json_read.h - what the API server sends, as jansson's values.
 *
 * jansson's own decoder refuses a whole list for one number that does not fit
 * into 64 bits, and spends most of its time on managedFields, which nobody here
 * reads: half of an object's text, and more than half of its values. */
#ifndef WP_K8S_OBJECTS_JSON_READ_H
#define WP_K8S_OBJECTS_JSON_READ_H

#include <jansson.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_JSON_DEPTH_MAX = 2048,
};

/* A new reference. Objects' own metadata come without managedFields, whether
 * the text is an object, an event of a watch or a list; of what stands there
 * only the brackets and quotes are looked at. Whole numbers beyond 64 bits come
 * as reals, as in Kubernetes itself; of a key that comes twice the last counts.
 * NULL and INVALID_ARGUMENT: it is no JSON (RFC 8259, UTF-8), or nested deeper
 * than WP_JSON_DEPTH_MAX. RESOURCE_EXHAUSTED: no memory. err may be NULL. Any
 * thread. */
WP_MUST_CHECK json_t *wp_json_read(struct wp_str text, struct wp_err *err);

#endif
