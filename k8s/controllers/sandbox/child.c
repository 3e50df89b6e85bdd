#include "k8s/controllers/sandbox/child.h"

#include <stdio.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/objects/owner.h"

enum wp_child_owner
wp_child_owner(const struct wp_object *child, const struct wp_object *sandbox)
{
    if (wp_object_controlled_by(child, sandbox->uid)) {
        return WP_CHILD_OURS;
    }
    return child->controller.kind[0] == '\0' ? WP_CHILD_UNOWNED
                                             : WP_CHILD_FOREIGN;
}

bool
wp_child_adoptable(const struct wp_object *child, const char *hash)
{
    const char *adoptable = wp_object_label(child, WP_LABEL_ADOPTABLE);
    const char *tracked = wp_object_label(child, WP_LABEL_NAME_HASH);

    return (adoptable != NULL && strcmp(adoptable, "true") == 0) ||
           (tracked != NULL && strcmp(tracked, hash) == 0);
}

json_t *
wp_child_metadata(const struct wp_object *sandbox, const char *name,
                  const char *hash)
{
    json_t *metadata = json_object();
    json_t *owners = json_array();

    (void)json_array_append_new(owners, wp_owner_reference(sandbox));
    wp_json_set_text(metadata, "name", name);
    wp_json_set_text(metadata, "namespace", sandbox->ns);
    wp_json_set(metadata, "labels",
                wp_json_set_text(json_object(), WP_LABEL_NAME_HASH, hash));
    return wp_json_set(metadata, "ownerReferences", owners);
}

json_t *
wp_child_adoption(const json_t *child, const struct wp_object *sandbox,
                  const char *hash)
{
    json_t *metadata = json_object();
    json_t *owners = wp_json_deep_copy(
        wp_json_at(child, "metadata", "ownerReferences", NULL));

    if (!json_is_array(owners)) {
        json_decref(owners);
        owners = json_array();
    }
    (void)json_array_append_new(owners, wp_owner_reference(sandbox));
    wp_json_set_text(metadata, "uid",
                     wp_json_text(child, "metadata", "uid", NULL));
    wp_json_set_text(metadata, "resourceVersion",
                     wp_json_text(child, "metadata", "resourceVersion", NULL));
    wp_json_set(metadata, "labels",
                wp_json_set_text(json_object(), WP_LABEL_NAME_HASH, hash));
    wp_json_set(metadata, "ownerReferences", owners);
    return wp_json_set(json_object(), "metadata", metadata);
}

json_t *
wp_child_patch(const struct wp_object *child)
{
    return wp_json_set(json_object(), "metadata",
                       wp_json_set_text(json_object(), "uid", child->uid));
}

void
wp_child_refusal(const struct wp_object *child, const struct wp_object *sandbox,
                 char *out, size_t cap)
{
    const char *kind = wp_kind_info(child->kind)->kind;

    if (child->controller.kind[0] == '\0') {
        (void)snprintf(out, cap,
                       "%s %s is nobody's, and has neither label %s=true nor "
                       "this sandbox's %s",
                       kind, child->name, WP_LABEL_ADOPTABLE,
                       WP_LABEL_NAME_HASH);
    } else {
        (void)snprintf(out, cap,
                       "%s %s is controlled by %s %s (uid %s), not by sandbox "
                       "%s",
                       kind, child->name, child->controller.kind,
                       child->controller.name, child->controller.uid,
                       sandbox->name);
    }
}
