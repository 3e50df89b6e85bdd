#include "k8s/objects/owner.h"

#include <string.h>

#include "k8s/objects/names.h"
#include "pool/base/assert.h"

json_t *
wp_owner_reference(const struct wp_object *owner)
{
    const struct wp_kind_info *info = wp_kind_info(owner->kind);
    json_t *reference =
        json_pack("{s:s, s:s, s:s, s:s, s:b, s:b}", "apiVersion",
                  info->api_version, "kind", info->kind, "name", owner->name,
                  "uid", owner->uid, "controller", 1, "blockOwnerDeletion", 1);

    WP_ASSERT(reference != NULL);
    return reference;
}

bool
wp_owner_is_pool(const struct wp_object *sandbox, const struct wp_object *pool)
{
    const char *label = wp_object_label(sandbox, WP_LABEL_WARM_POOL);
    char hash[WP_NAME_HASH_LEN + 1];

    if (label == NULL ||
        !wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_WARM_POOL) ||
        (pool != NULL && !wp_object_controlled_by(sandbox, pool->uid))) {
        return false;
    }
    wp_name_hash(wp_str_from(sandbox->controller.name), hash);
    return strcmp(label, hash) == 0;
}
