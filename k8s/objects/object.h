/* k8s/objects/object.h - one version of one Kubernetes object, small enough to
 * keep.
 *
 * What controllers look at often is parsed once, when the object comes, into
 * one block of memory: its metadata and a view of its kind
 * (k8s/objects/view.h). The whole object is kept beside it as compact JSON
 * without managedFields, for kinds of which more is needed later; a tree of it
 * would be five times as large. Immutable. Loop thread only. */
#ifndef WP_K8S_OBJECTS_OBJECT_H
#define WP_K8S_OBJECTS_OBJECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "k8s/objects/kind.h"
#include "pool/base/status.h"

struct wp_pair {
    const char *key;
    const char *value;
};

/* A controller reference. */
struct wp_owner {
    const char *api_version;
    const char *kind;
    const char *name;
    const char *uid;
};

/* Texts are terminated and live as long as the object; "" where absent. */
struct wp_object {
    enum wp_kind kind;
    bool deleting; /* It has a deletionTimestamp. */
    const char *ns;
    const char *name;
    const char *uid;
    const char *resource_version;
    int64_t generation;
    int64_t created_wall_ms;
    struct wp_owner controller; /* kind "": nobody controls it. */
    const struct wp_pair *labels;
    const struct wp_pair *annotations;
    uint32_t labels_len;
    uint32_t annotations_len;
    const void *view;   /* struct wp_KIND_view; NULL for kinds without. */
    struct wp_str text; /* Empty for kinds that are kept as a view only. */
    uint32_t bytes;     /* What this version takes, all in all. */
    uint32_t refs;      /* Private. */
    uint32_t seen;      /* Private to the store that has it. */
};

/* From what the API server sent. NULL and err, which names the field and what
 * was expected: metadata lacks a name or uid, a field that is looked at has the
 * wrong type, it is larger than WP_OBJECT_BYTES_MAX or nested too deep, memory
 * lacks. Fields that are not known stay in the text. json is not changed. The
 * caller has one reference. */
enum {
    WP_OBJECT_BYTES_MAX = 2 << 20,
    WP_OBJECT_DEPTH_MAX = 256,
};
WP_MUST_CHECK struct wp_object *
wp_object_create(enum wp_kind kind, const json_t *json, struct wp_err *err);
struct wp_object *wp_object_ref(const struct wp_object *object);
void wp_object_unref(const struct wp_object *object); /* NULL is fine. */

/* The whole object, parsed anew: a new reference, which the caller may change.
 * NULL when memory lacks or the kind keeps no text. */
WP_MUST_CHECK json_t *wp_object_json(const struct wp_object *object);

/* NULL when there is none. */
const char *wp_object_label(const struct wp_object *object, const char *key);
const char *wp_object_annotation(const struct wp_object *object,
                                 const char *key);
/* Is it controlled by an object of this kind (group and kind; any version)? */
bool wp_object_controlled_by_kind(const struct wp_object *object,
                                  enum wp_kind kind);
/* Is it controlled by the object of this uid? */
bool wp_object_controlled_by(const struct wp_object *object, const char *uid);

/* Is a's resourceVersion older than b's? Both are decimal numbers on every
 * known server; where one is not, false. */
bool wp_object_is_older(const struct wp_object *a, const struct wp_object *b);

#endif
