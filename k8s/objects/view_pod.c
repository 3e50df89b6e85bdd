#include <string.h>

#include "k8s/objects/view_read.h"

static enum wp_pod_phase
pod_phase(const char *text)
{
    static const char *const names[] = {"Pending", "Running", "Succeeded",
                                        "Failed"};

    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        if (strcmp(names[i], text) == 0) {
            return (enum wp_pod_phase)i;
        }
    }
    /* Before anybody has written one it is as good as pending. */
    return text[0] == '\0' ? WP_POD_PENDING : WP_POD_UNKNOWN;
}

void
wp_view_read_pod(struct wp_view_reader *reader, void *out)
{
    struct wp_pod_view *view = out;
    const struct wp_view_condition wanted[] = {
        {"Ready", &view->ready},
        {"PodScheduled", &view->scheduled},
    };
    const json_t *phase = wp_view_at(reader, "status.phase");

    if (phase != NULL && !json_is_string(phase)) {
        wp_view_wrong(reader, "status.phase", "a text");
    }
    view->phase =
        pod_phase(json_is_string(phase) ? json_string_value(phase) : "");
    wp_view_conditions(reader, wanted, WP_ARRAY_LEN(wanted));
    view->pod_ip = wp_view_text(reader, "status.podIP");
    view->pod_ips = wp_view_texts_of(reader, "status.podIPs", "ip");
    view->node_name = wp_view_text(reader, "spec.nodeName");
}

const struct wp_pod_view *
wp_pod_view(const struct wp_object *object)
{
    return object->kind == WP_KIND_POD ? object->view : NULL;
}
