#include "k8s/objects/sandbox_build.h"

#include <inttypes.h>
#include <stdio.h>

#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/objects/owner.h"
#include "k8s/objects/pod_tier.h"
#include "k8s/objects/sandbox_refs.h"
#include "k8s/objects/view.h"
#include "pool/base/assert.h"

/* The values that tie a sandbox to its pool and template. */
struct hashes {
    char pool[WP_NAME_HASH_LEN + 1];
    char template_ref[WP_NAME_HASH_LEN + 1];
    char blueprint[WP_BLUEPRINT_HASH_LEN + 1];
    char pod_template[WP_BLUEPRINT_HASH_LEN + 1];
};

static void
hash_text(uint64_t hash, char out[WP_BLUEPRINT_HASH_LEN + 1])
{
    (void)snprintf(out, WP_BLUEPRINT_HASH_LEN + 1, "%016" PRIx64, hash);
}

void
wp_sandbox_template_hash(const struct wp_object *template_,
                         enum wp_tier installed,
                         char out[WP_BLUEPRINT_HASH_LEN + 1])
{
    const struct wp_template_view *view = wp_template_view(template_);

    hash_text(view->blueprint_hashes[wp_template_tier(view, installed)], out);
}

void
wp_sandbox_secure_defaults(json_t *blueprint, const struct wp_object *template_,
                           enum wp_tier installed)
{
    const struct wp_template_view *view = wp_template_view(template_);
    enum wp_tier tier = wp_template_tier(view, installed);
    json_t *pod =
        json_object_get(json_object_get(blueprint, "podTemplate"), "spec");

    if (json_is_object(pod)) {
        wp_pod_apply_tier(pod, tier);
        wp_pod_secure_defaults(pod, wp_template_has_public_dns(view, tier));
        wp_pod_wait_for_port(pod, view->serving_port);
    }
}

json_t *
wp_sandbox_blueprint(const struct wp_object *template_)
{
    static const char *const parts[] = {"podTemplate", "volumeClaimTemplates",
                                        "service"};
    json_t *tree = wp_object_json(template_);
    json_t *spec = json_object_get(tree, "spec");
    json_t *pod = json_object_get(json_object_get(spec, "podTemplate"), "spec");
    json_t *out = json_is_object(pod) ? json_object() : NULL;

    for (size_t i = 0; out != NULL && i < WP_ARRAY_LEN(parts); i++) {
        json_t *part = json_object_get(spec, parts[i]);

        if (part != NULL && !json_is_null(part)) {
            wp_json_set(out, parts[i], json_incref(part));
        }
    }
    json_decref(tree);
    return out;
}

static void
set_common_labels(json_t *labels, const struct hashes *hashes)
{
    wp_json_set(labels, WP_LABEL_WARM_POOL, json_string(hashes->pool));
    wp_json_set(labels, WP_LABEL_TEMPLATE_REF_HASH,
                json_string(hashes->template_ref));
    wp_json_set(labels, WP_LABEL_POD_TEMPLATE_HASH,
                json_string(hashes->pod_template));
    wp_json_set(labels, WP_LABEL_TEMPLATE_HASH, json_string(hashes->blueprint));
}

static void
set_pod_metadata(json_t *blueprint, const struct hashes *hashes, bool eviction)
{
    json_t *metadata = wp_json_object_at(
        json_object_get(blueprint, "podTemplate"), "metadata");

    set_common_labels(wp_json_object_at(metadata, "labels"), hashes);
    if (eviction && json_object_get(json_object_get(metadata, "annotations"),
                                    WP_ANNOTATION_SAFE_TO_EVICT) == NULL) {
        wp_json_set(wp_json_object_at(metadata, "annotations"),
                    WP_ANNOTATION_SAFE_TO_EVICT, json_string("true"));
    }
}

static json_t *
metadata_of(const struct wp_object *pool, const struct wp_object *template_,
            const char *name, const uint8_t uid[WP_UID_LEN],
            const struct hashes *hashes)
{
    char uid_text[2 * WP_UID_LEN + 1];
    json_t *labels = json_pack("{s:s, s:s}", WP_LABEL_LAUNCH_TYPE, "warm",
                               WP_LABEL_CREATED_BY, "controller");
    json_t *metadata;

    WP_ASSERT(labels != NULL);
    set_common_labels(labels, hashes);
    wp_hex_encode(uid, WP_UID_LEN, uid_text);
    metadata = json_pack(
        "{s:s, s:s, s:o, s:{s:s, s:s, s:s}, s:[o]}", "name", name, "namespace",
        pool->ns, "labels", labels, "annotations", WP_ANNOTATION_TEMPLATE_REF,
        template_->name, WP_ANNOTATION_POD_NAME, name, WP_ANNOTATION_UID,
        uid_text, "ownerReferences", wp_owner_reference(pool));
    WP_ASSERT(metadata != NULL);
    return metadata;
}

json_t *
wp_sandbox_build(const struct wp_object *pool,
                 const struct wp_object *template_, const char *name,
                 const uint8_t uid[WP_UID_LEN],
                 const struct wp_cluster_config *config)
{
    const struct wp_kind_info *info = wp_kind_info(WP_KIND_SANDBOX);
    json_t *spec = wp_sandbox_blueprint(template_);
    struct hashes hashes;
    json_t *sandbox;

    if (spec == NULL) {
        return NULL;
    }
    wp_sandbox_secure_defaults(spec, template_, config->default_tier);
    wp_name_hash(wp_str_from(pool->name), hashes.pool);
    wp_name_hash(wp_str_from(template_->name), hashes.template_ref);
    wp_sandbox_template_hash(template_, config->default_tier, hashes.blueprint);
    /* Nothing here reads it: a label of old promises it. */
    hash_text(wp_json_hash(json_object_get(spec, "podTemplate")),
              hashes.pod_template);
    set_pod_metadata(spec, &hashes, config->warm_pool_eviction);
    sandbox = json_pack("{s:s, s:s, s:o, s:o}", "apiVersion", info->api_version,
                        "kind", info->kind, "metadata",
                        metadata_of(pool, template_, name, uid, &hashes),
                        "spec", spec);
    WP_ASSERT(sandbox != NULL);
    return sandbox;
}
