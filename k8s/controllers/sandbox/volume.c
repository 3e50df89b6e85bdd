#include "k8s/controllers/sandbox/volume.h"

#include <stdio.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/controllers/sandbox/child.h"

static json_t *
templates(const json_t *json)
{
    return wp_json_at(json, "spec", "volumeClaimTemplates", NULL);
}

size_t
wp_sandbox_volume_count(const json_t *json)
{
    return json_array_size(templates(json));
}

static const char *
template_name(const json_t *json, size_t index)
{
    return wp_json_text(json_array_get(templates(json), index), "metadata",
                        "name", NULL);
}

bool
wp_sandbox_volume_name(const struct wp_object *sandbox, const json_t *json,
                       size_t index, char out[WP_VOLUME_CLAIM_NAME_MAX + 1])
{
    const char *name = template_name(json, index);
    int len = snprintf(out, WP_VOLUME_CLAIM_NAME_MAX + 1, "%s-%s", name,
                       sandbox->name);

    return name[0] != '\0' && len > 0 && len <= WP_VOLUME_CLAIM_NAME_MAX;
}

json_t *
wp_sandbox_volume_build(const struct wp_object *sandbox, const json_t *json,
                        size_t index, const char *name, const char *hash)
{
    const struct wp_kind_info *info = wp_kind_info(WP_KIND_VOLUME_CLAIM);
    const json_t *template = json_array_get(templates(json), index);
    json_t *metadata = wp_child_metadata(sandbox, name, hash);
    json_t *labels =
        wp_json_deep_copy(wp_json_at(template, "metadata", "labels", NULL));
    json_t *annotations = wp_json_deep_copy(
        wp_json_at(template, "metadata", "annotations", NULL));
    json_t *spec = wp_json_deep_copy(wp_json_at(template, "spec", NULL));
    json_t *claim = json_object();

    if (json_is_object(labels)) {
        wp_json_set_text(labels, WP_LABEL_NAME_HASH, hash);
        wp_json_set(metadata, "labels", labels);
    } else {
        json_decref(labels);
    }
    if (json_is_object(annotations)) {
        wp_json_set(metadata, "annotations", annotations);
    } else {
        json_decref(annotations);
    }
    wp_json_set_text(claim, "apiVersion", info->api_version);
    wp_json_set_text(claim, "kind", info->kind);
    wp_json_set(claim, "metadata", metadata);
    return wp_json_set(claim, "spec", spec != NULL ? spec : json_object());
}

json_t *
wp_sandbox_volumes(const struct wp_object *sandbox, const json_t *json)
{
    json_t *volumes = json_array();
    size_t count = wp_sandbox_volume_count(json);

    for (size_t i = 0; i < count; i++) {
        char name[WP_VOLUME_CLAIM_NAME_MAX + 1];
        json_t *volume = json_object();

        if (!wp_sandbox_volume_name(sandbox, json, i, name)) {
            json_decref(volume);
            continue;
        }
        wp_json_set_text(volume, "name", template_name(json, i));
        wp_json_set(volume, "persistentVolumeClaim",
                    wp_json_set_text(json_object(), "claimName", name));
        (void)json_array_append_new(volumes, volume);
    }
    return volumes;
}

bool
wp_sandbox_volumes_have(const json_t *volumes, const char *name)
{
    return wp_json_find(volumes, "name", name) != NULL;
}
