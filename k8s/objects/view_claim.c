#include "k8s/objects/view_read.h"

static const char *const policies[] = {"Retain", "Delete", "DeleteForeground",
                                       NULL};

void
wp_view_read_claim(struct wp_view_reader *reader, void *out)
{
    struct wp_claim_view *view = out;
    const struct wp_view_condition wanted[] = {
        {"Ready", &view->ready},
        {"Finished", &view->finished},
    };

    wp_view_conditions(reader, wanted, WP_ARRAY_LEN(wanted));
    view->pool = wp_view_text(reader, "spec.warmPoolRef.name");
    view->sandbox = wp_view_text(reader, "status.sandbox.name");
    view->pod_ips = wp_view_texts(reader, "status.sandbox.podIPs");
    view->service_fqdn = wp_view_text(reader, "status.sandbox.serviceFQDN");
    view->has_lifecycle = wp_view_object(reader, "spec.lifecycle") != NULL;
    view->shutdown_wall_ms =
        wp_view_time(reader, "spec.lifecycle.shutdownTime");
    view->ttl_after_finished_s = wp_view_number(
        reader, "spec.lifecycle.ttlSecondsAfterFinished", 0, INT32_MAX, -1);
    view->shutdown_policy = (enum wp_shutdown_policy)wp_view_choice(
        reader, "spec.lifecycle.shutdownPolicy", policies, WP_SHUTDOWN_RETAIN);
    view->has_env = wp_view_has_any(wp_view_array(reader, "spec.env"));
    view->has_volume_claims =
        wp_view_has_any(wp_view_array(reader, "spec.volumeClaimTemplates"));
    view->has_pod_metadata =
        wp_view_has_any(
            wp_view_object(reader, "spec.additionalPodMetadata.labels")) ||
        wp_view_has_any(
            wp_view_object(reader, "spec.additionalPodMetadata.annotations"));
}

const struct wp_claim_view *
wp_claim_view(const struct wp_object *object)
{
    return object->kind == WP_KIND_SANDBOX_CLAIM ? object->view : NULL;
}
