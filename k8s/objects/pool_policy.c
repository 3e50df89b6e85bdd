#include "k8s/objects/pool_policy.h"

#include <string.h>

static bool
is_ours(const struct wp_pair *annotation)
{
    return strncmp(annotation->key, WP_SCALE_GROUP,
                   sizeof(WP_SCALE_GROUP) - 1) == 0;
}

enum wp_status
wp_pool_policy_read(const struct wp_object *pool, struct wp_scale_policy *out,
                    struct wp_err *err)
{
    enum wp_status status = WP_OK;

    wp_scale_policy_init(out);
    for (uint32_t i = 0; status == WP_OK && i < pool->annotations_len; i++) {
        const struct wp_pair *annotation = &pool->annotations[i];

        if (is_ours(annotation)) {
            status = wp_scale_policy_set(
                out, wp_str_from(annotation->key + sizeof(WP_SCALE_GROUP) - 1),
                wp_str_from(annotation->value), err);
        }
    }
    if (status == WP_OK) {
        status = wp_scale_policy_check(out, err);
    }
    return status == WP_OK
               ? WP_OK
               : wp_err_wrap(err, "annotations of %s", WP_SCALE_GROUP);
}

static bool
has_all_of(const struct wp_object *a, const struct wp_object *b)
{
    for (uint32_t i = 0; i < b->annotations_len; i++) {
        const struct wp_pair *annotation = &b->annotations[i];
        const char *value;

        if (!is_ours(annotation)) {
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
