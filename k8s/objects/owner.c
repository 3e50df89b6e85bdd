#include "k8s/objects/owner.h"

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
