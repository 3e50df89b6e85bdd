/* local/manifest/pool.c - SandboxWarmPool to struct wp_pool_spec. */
#include <string.h>

#include "local/manifest/manifest_impl.h"
#include "pool/annotations/annotations.h"

static bool
use_replicas(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_pool_spec *pool = out;
    int64_t value;

    if (!wp_decode_int(d, node, 0, WP_TARGET_MAX, &value)) {
        return false;
    }
    pool->target = (uint32_t)value;
    return true;
}

static bool
use_template_name(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_pool_spec *pool = out;

    if (!wp_decode_is(d, node, WP_YAML_STRING)) {
        return false;
    }
    if (!wp_str_is_dns_name(node->text, WP_TEMPLATE_NAME_MAX) ||
        !wp_str_copy(node->text, pool->template_name,
                     sizeof pool->template_name)) {
        return wp_decode_fail(
            d, node, "a DNS name of at most %d characters was expected",
            (int)WP_TEMPLATE_NAME_MAX);
    }
    return true;
}

static bool
use_template_ref(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("name", use_template_name),
    };

    return WP_DECODE_MAP(d, node, fields, out);
}

static bool
use_update_type(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const char *const words[] = {"OnReplenish", "Recreate", NULL};
    size_t index;

    (void)out;
    /* Templates are read once, at start: there is nothing to update. */
    return wp_decode_word(d, node, words, &index) &&
           (index == 0 ||
            wp_decode_note(d, node, "not enforced on one machine"));
}

static bool
use_update_strategy(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_USED("type", use_update_type),
    };

    return WP_DECODE_MAP(d, node, fields, out);
}

/* --- Annotations: their values are strings, as Kubernetes has them. --- */

/* Unknown ones of our groups are refused; others are not our business. */
static bool
read_annotations(struct wp_decode *d, const struct wp_yaml *annotations,
                 struct wp_pool_spec *pool)
{
    struct wp_err err;
    size_t metadata = wp_decode_enter(d, WP_STR("metadata"));
    size_t mark = wp_decode_enter(d, WP_STR("annotations"));

    for (const struct wp_yaml *node = annotations->first; node != NULL;
         node = node->next) {
        size_t key;

        if (!wp_pool_annotation_is_ours(node->key)) {
            continue;
        }
        key = wp_decode_enter(d, node->key);
        if (!wp_decode_is(d, node, WP_YAML_STRING)) {
            return false;
        }
        wp_decode_leave(d, key);
        if (wp_pool_annotation_set(pool, node->key, node->text, &err) !=
            WP_OK) {
            return wp_decode_fail(d, node, "%s", err.msg);
        }
    }
    if (wp_pool_annotations_check(pool, &err) != WP_OK) {
        return wp_decode_fail(d, annotations, "%s", err.msg);
    }
    wp_decode_leave(d, mark);
    wp_decode_leave(d, metadata);
    return true;
}

bool
wp_manifest_pool(struct wp_decode *d, const struct wp_yaml *spec,
                 const struct wp_object_meta *meta, struct wp_pool_spec *pool)
{
    static const struct wp_field fields[] = {
        WP_USED("replicas", use_replicas),
        WP_REQUIRED("sandboxTemplateRef", use_template_ref),
        WP_USED("updateStrategy", use_update_strategy),
    };
    size_t mark = wp_decode_enter(d, WP_STR("spec"));

    pool->target = 1;
    if (!WP_DECODE_MAP(d, spec, fields, pool)) {
        return false;
    }
    wp_decode_leave(d, mark);
    return meta->annotations == NULL ||
           read_annotations(d, meta->annotations, pool);
}
