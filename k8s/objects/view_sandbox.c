#include <string.h>

#include "k8s/objects/view_read.h"

static const char *const policies[] = {"Retain", "Delete", NULL};
static const char *const modes[] = {"Running", "Suspended", NULL};

void
wp_view_read_sandbox(struct wp_view_reader *reader, void *out)
{
    struct wp_sandbox_view *view = out;
    struct wp_condition scheduled;
    const struct wp_view_condition wanted[] = {
        {"Ready", &view->ready},
        {"Finished", &view->finished},
        {"Suspended", &view->suspended},
        {"PodScheduled", &scheduled},
    };

    wp_view_conditions(reader, wanted, WP_ARRAY_LEN(wanted));
    view->pod_unschedulable = scheduled.status == WP_CONDITION_FALSE &&
                              strcmp(scheduled.reason, "Unschedulable") == 0;
    view->pod_ips = wp_view_texts(reader, "status.podIPs");
    view->pod_ip = view->pod_ips[0] != NULL ? view->pod_ips[0] : "";
    view->service_fqdn = wp_view_text(reader, "status.serviceFQDN");
    view->node_name = wp_view_text(reader, "status.nodeName");
    view->shutdown_wall_ms = wp_view_time(reader, "spec.shutdownTime");
    view->shutdown_policy = (enum wp_shutdown_policy)wp_view_choice(
        reader, "spec.shutdownPolicy", policies, WP_SHUTDOWN_RETAIN);
    view->wants_suspended =
        wp_view_choice(reader, "spec.operatingMode", modes, 0) == 1;
    view->service = -1;
    if (wp_view_at(reader, "spec.service") != NULL) {
        view->service = wp_view_bool(reader, "spec.service", false) ? 1 : 0;
    }
}

const struct wp_sandbox_view *
wp_sandbox_view(const struct wp_object *object)
{
    return object->kind == WP_KIND_SANDBOX ? object->view : NULL;
}
