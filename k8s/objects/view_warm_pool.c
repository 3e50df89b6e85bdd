#include "k8s/objects/view_read.h"

static const char *const strategies[] = {"OnReplenish", "Recreate", NULL};

void
wp_view_read_warm_pool(struct wp_view_reader *reader, void *out)
{
    struct wp_warm_pool_view *view = out;

    view->template_name = wp_view_text(reader, "spec.sandboxTemplateRef.name");
    view->replicas = wp_view_number(reader, "spec.replicas", 0, INT32_MAX, 1);
    view->update_strategy = (enum wp_update_strategy)wp_view_choice(
        reader, "spec.updateStrategy.type", strategies, WP_UPDATE_ON_REPLENISH);
    view->status_replicas =
        wp_view_number(reader, "status.replicas", 0, INT32_MAX, -1);
    view->status_ready_replicas =
        wp_view_number(reader, "status.readyReplicas", 0, INT32_MAX, -1);
    view->status_observed_generation =
        wp_view_number(reader, "status.observedGeneration", 0, INT64_MAX, -1);
    view->status_selector = wp_view_text(reader, "status.selector");
}

const struct wp_warm_pool_view *
wp_warm_pool_view(const struct wp_object *object)
{
    return object->kind == WP_KIND_SANDBOX_WARM_POOL ? object->view : NULL;
}
