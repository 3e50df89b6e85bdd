/* The status of a sandbox, and the end of one whose time has come. */
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/controllers/sandbox/child.h"
#include "k8s/controllers/sandbox/expiry.h"
#include "k8s/controllers/sandbox/reconcile.h"

/* A copy of the status, to be changed. */
static json_t *
status_copy(const struct wp_sandbox_reconcile *reconcile)
{
    json_t *status =
        wp_json_deep_copy(json_object_get(reconcile->json, "status"));

    if (!json_is_object(status)) {
        json_decref(status);
        status = json_object();
    }
    return status;
}

/* The patch to status, which is taken; NULL when there is nothing to write. */
static json_t *
patch_to(const struct wp_sandbox_reconcile *reconcile, json_t *status)
{
    json_t *before = status_copy(reconcile);
    json_t *patch = wp_sandbox_status_patch(before, status);

    json_decref(before);
    json_decref(status);
    if (patch != NULL) {
        wp_json_set(
            patch, "metadata",
            wp_json_set_text(json_object(), "uid", reconcile->sandbox->uid));
    }
    return patch;
}

/* Is a user waiting for what this status says? */
static enum wp_http_priority
status_priority(const struct wp_sandbox_reconcile *reconcile)
{
    return wp_sandbox_is_pooled(reconcile->sandbox) ||
                   wp_sandbox_view(reconcile->sandbox)->ready.status ==
                       WP_CONDITION_TRUE
               ? WP_HTTP_NORMAL
               : WP_HTTP_CLAIM;
}

enum wp_sandbox_step_end
wp_sandbox_step_status(struct wp_sandbox_reconcile *reconcile)
{
    const struct wp_parts *parts = reconcile->controller->parts;
    const struct wp_sandbox_facts facts = {
        .sandbox = reconcile->sandbox,
        .hash = reconcile->hash,
        .pod = reconcile->pod,
        .pod_unknown = reconcile->pod_unknown,
        .pods = reconcile->pods,
        .service = reconcile->service,
        .error = reconcile->error,
        .cluster_domain = parts->config.cluster_domain,
    };
    json_t *before = status_copy(reconcile);
    json_t *status = status_copy(reconcile);
    enum wp_status_urgency urgency;

    wp_sandbox_status_apply(status, &facts, wp_clock_wall_ns(parts->clock));
    urgency = wp_sandbox_status_urgency(before, status);
    json_decref(before);
    if (urgency <= WP_STATUS_IDLE || reconcile->written) {
        json_decref(status);
        wp_sandbox_status_settled(reconcile->controller,
                                  reconcile->sandbox->uid);
        return WP_STEP_NEXT;
    }
    if (urgency < WP_STATUS_NOW) {
        reconcile->wait_ns = wp_sandbox_status_delay_ns(
            reconcile->controller, reconcile->sandbox, urgency);
        if (reconcile->wait_ns > 0) {
            json_decref(status);
            return WP_STEP_NEXT;
        }
        reconcile->wait_ns = -1;
    }
    return wp_sandbox_reconcile_patch_sandbox(reconcile, "status",
                                              status_priority(reconcile),
                                              patch_to(reconcile, status));
}

struct pod_search {
    const struct wp_object *pod;
    uint32_t skip; /* So many have been asked for already. */
};

static bool
pick_pod(void *ctx, const struct wp_object *pod)
{
    struct pod_search *search = ctx;

    if (pod->deleting) {
        return true;
    }
    if (search->skip > 0) {
        search->skip--;
        return true;
    }
    search->pod = pod;
    return false;
}

static bool
is_own_service(const struct wp_sandbox_reconcile *reconcile,
               const struct wp_object *service)
{
    return service != NULL && !service->deleting &&
           wp_child_owner(service, reconcile->sandbox) == WP_CHILD_OURS;
}

/* Is there anything of it that its end would take away? */
static bool
has_children(const struct wp_sandbox_reconcile *reconcile)
{
    struct pod_search search = {NULL, 0};

    wp_store_owned_by(wp_sandbox_reconcile_store(reconcile, WP_KIND_POD),
                      reconcile->sandbox->uid, pick_pod, &search);
    return search.pod != NULL ||
           is_own_service(reconcile,
                          wp_sandbox_reconcile_find(reconcile, WP_KIND_SERVICE,
                                                    reconcile->sandbox->name));
}

/* Said before anything is taken away, so that nobody wonders. */
enum wp_sandbox_step_end
wp_sandbox_step_mark_expired(struct wp_sandbox_reconcile *reconcile)
{
    json_t *status;
    json_t *patch;

    if (reconcile->written) {
        return WP_STEP_NEXT;
    }
    if (wp_sandbox_marked_expired(reconcile->sandbox)) {
        /* A Pod's end must not follow from a shutdownTime of old. */
        return reconcile->confirmed || !has_children(reconcile)
                   ? WP_STEP_NEXT
                   : wp_sandbox_reconcile_confirm(reconcile);
    }
    status = status_copy(reconcile);
    wp_sandbox_status_expire(
        status, reconcile->sandbox->generation,
        wp_clock_wall_ns(reconcile->controller->parts->clock));
    patch = patch_to(reconcile, status);
    if (patch == NULL) {
        return WP_STEP_NEXT;
    }
    wp_json_set_text(json_object_get(patch, "metadata"), "resourceVersion",
                     reconcile->sandbox->resource_version);
    return wp_sandbox_reconcile_patch_sandbox(reconcile, "status",
                                              WP_HTTP_NORMAL, patch);
}

/* A Pod that is going is not counted, whether its answer said so or not: at
 * worst one is passed over here, and its event leads back to it. */
enum wp_sandbox_step_end
wp_sandbox_step_end_pods(struct wp_sandbox_reconcile *reconcile)
{
    struct pod_search search = {NULL, reconcile->index};

    wp_store_owned_by(wp_sandbox_reconcile_store(reconcile, WP_KIND_POD),
                      reconcile->sandbox->uid, pick_pod, &search);
    if (search.pod == NULL) {
        return WP_STEP_NEXT;
    }
    reconcile->index++;
    return wp_sandbox_reconcile_delete(reconcile, search.pod);
}

enum wp_sandbox_step_end
wp_sandbox_step_end_service(struct wp_sandbox_reconcile *reconcile)
{
    const struct wp_object *service = wp_sandbox_reconcile_find(
        reconcile, WP_KIND_SERVICE, reconcile->sandbox->name);

    if (reconcile->written || !is_own_service(reconcile, service)) {
        return WP_STEP_NEXT;
    }
    return wp_sandbox_reconcile_delete(reconcile, service);
}

enum wp_sandbox_step_end
wp_sandbox_step_end_sandbox(struct wp_sandbox_reconcile *reconcile)
{
    json_t *status;
    json_t *patch;

    wp_sandbox_status_settled(reconcile->controller, reconcile->sandbox->uid);
    if (reconcile->written) {
        return WP_STEP_NEXT;
    }
    if (wp_sandbox_view(reconcile->sandbox)->shutdown_policy !=
        WP_SHUTDOWN_RETAIN) {
        return wp_sandbox_reconcile_delete(reconcile, reconcile->sandbox);
    }
    if (reconcile->error[0] != '\0') {
        return WP_STEP_NEXT; /* Something of it is left; the status stays. */
    }
    status = status_copy(reconcile);
    wp_sandbox_status_strip(status);
    wp_sandbox_status_expire(
        status, reconcile->sandbox->generation,
        wp_clock_wall_ns(reconcile->controller->parts->clock));
    patch = patch_to(reconcile, status);
    return patch != NULL ? wp_sandbox_reconcile_patch_sandbox(
                               reconcile, "status", WP_HTTP_NORMAL, patch)
                         : WP_STEP_NEXT;
}
