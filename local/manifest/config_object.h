/* local/manifest/config_object.h - ConfigMaps and Secrets.
 *
 * What they hold is kept with the manifest, for the files of templates. No
 * message has a value in it: a mistake is told by the key alone. */
#ifndef WP_LOCAL_MANIFEST_CONFIG_OBJECT_H
#define WP_LOCAL_MANIFEST_CONFIG_OBJECT_H

#include "local/manifest/decode.h"

enum {
    WP_CONFIG_BYTES_MAX = 1 << 20, /* Of one object's values, as Kubernetes. */
    WP_CONFIG_KEY_MAX = 253,
};

struct wp_config_entry {
    struct wp_config_entry *next; /* In the order of the file. */
    const char *key;
    struct wp_str bytes;
};

struct wp_config_object {
    struct wp_config_object *next;
    bool secret; /* Else a ConfigMap. */
    const char *object_namespace;
    const char *name;
    struct wp_config_entry *entries;
};

/* Is this the kind of one of them? */
bool wp_config_is_kind(struct wp_str kind);
/* data, binaryData or stringData of the document root, into the object, whose
 * other fields are set. */
WP_MUST_CHECK bool wp_config_object_read(struct wp_decode *d,
                                         const struct wp_yaml *root,
                                         struct wp_config_object *object);
/* NULL when there is none. */
const struct wp_config_entry *
wp_config_find(const struct wp_config_object *object, const char *key);

#endif
