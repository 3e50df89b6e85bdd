#include "k8s/objects/pool_policy.h"

#include <string.h>

#include "pool/annotations/annotations.h"

enum wp_status
wp_pool_policy_read(const struct wp_object *pool, struct wp_pool_spec *spec,
                    struct wp_err *err)
{
    enum wp_status status = WP_OK;

    for (uint32_t i = 0; status == WP_OK && i < pool->annotations_len; i++) {
        const struct wp_pair *annotation = &pool->annotations[i];

        status = wp_pool_annotation_set(spec, wp_str_from(annotation->key),
                                        wp_str_from(annotation->value), err);
    }
    return status == WP_OK ? wp_pool_annotations_check(spec, err) : status;
}

static bool
has_all_of(const struct wp_object *a, const struct wp_object *b)
{
    for (uint32_t i = 0; i < b->annotations_len; i++) {
        const struct wp_pair *annotation = &b->annotations[i];
        const char *value;

        if (!wp_pool_annotation_is_ours(wp_str_from(annotation->key))) {
            continue;
        }
        value = wp_object_annotation(a, annotation->key);
        if (value == NULL || strcmp(value, annotation->value) != 0) {
            return false;
        }
    }
    return true;
}

bool
wp_pool_policy_same(const struct wp_object *a, const struct wp_object *b)
{
    return has_all_of(a, b) && has_all_of(b, a);
}
