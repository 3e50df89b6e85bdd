/* The Pod of a running or suspended sandbox, and the annotation that names it.
 */
#include <string.h>

#include "k8s/objects/condition.h"
#include "k8s/objects/json.h"
#include "k8s/controllers/sandbox/child.h"
#include "k8s/controllers/sandbox/reconcile.h"
#include "k8s/controllers/sandbox/pod.h"

/* A Pod that is not the sandbox's own, and of which no event tells. */
#define STRANGER_LOOK_NS (10 * WP_NS_PER_S)

struct owned_pods {
    const struct wp_object *first;
    uint32_t count;
};

static bool
count_pod(void *ctx, const struct wp_object *pod)
{
    struct owned_pods *owned = ctx;

    if (owned->count++ == 0) {
        owned->first = pod;
    }
    return true;
}

/* The annotation names a Pod of another name, which the store need not have:
 * one that was adopted may lack the label by which Pods are watched. */
static bool
must_read_named(const struct wp_sandbox_reconcile *reconcile, const char *named)
{
    return named[0] != '\0' && strcmp(named, reconcile->sandbox->name) != 0 &&
           !reconcile->missing &&
           wp_sandbox_reconcile_find(reconcile, WP_KIND_POD, named) == NULL;
}

/* Pods without the label are not watched: before it is said that there is none,
 * the API server is asked for one of its name. */
static bool
must_read_before_terminated(const struct wp_sandbox_reconcile *reconcile)
{
    const json_t *suspended = wp_condition_find(
        wp_json_at(reconcile->json, "status", "conditions", NULL), "Suspended");

    return wp_sandbox_view(reconcile->sandbox)->wants_suspended &&
           !reconcile->missing &&
           strcmp(wp_json_text(suspended, "reason", NULL), "PodTerminated") !=
               0;
}

/* The Pod that the sandbox has, or whose name it wants; NULL. The owner decides
 * before the annotation does. */
static const struct wp_object *
find_pod(struct wp_sandbox_reconcile *reconcile, const char *named)
{
    struct owned_pods owned = {NULL, 0};
    const struct wp_object *pod = NULL;

    wp_store_owned_by(wp_sandbox_reconcile_store(reconcile, WP_KIND_POD),
                      reconcile->sandbox->uid, count_pod, &owned);
    if (named[0] != '\0') {
        pod = wp_sandbox_reconcile_find(reconcile, WP_KIND_POD, named);
    }
    if (pod == NULL) {
        pod = wp_sandbox_reconcile_find(reconcile, WP_KIND_POD,
                                        reconcile->sandbox->name);
    }
    reconcile->pods = owned.count;
    if (pod != NULL &&
        wp_child_owner(pod, reconcile->sandbox) == WP_CHILD_OURS) {
        if (owned.count == 1 && strcmp(owned.first->name, pod->name) != 0) {
            reconcile->pods++;
        }
        return pod;
    }
    return owned.count > 0 ? owned.first : pod;
}

static enum wp_sandbox_step_end
take_pod(struct wp_sandbox_reconcile *reconcile, const struct wp_object *pod)
{
    reconcile->pod = pod != NULL ? wp_object_ref(pod) : NULL;
    reconcile->pod_unknown = false;
    return WP_STEP_NEXT;
}

/* Several: none is chosen, since each may hold somebody's work. */
static enum wp_sandbox_step_end
say_multiple(struct wp_sandbox_reconcile *reconcile)
{
    struct wp_events *events = reconcile->controller->parts->events;
    const struct wp_sandbox_view *view = wp_sandbox_view(reconcile->sandbox);

    (void)wp_sandbox_reconcile_refuse(
        reconcile,
        "%u Pods are controlled by this Sandbox; none is "
        "chosen and none is created",
        reconcile->pods);
    if (events != NULL && strcmp(view->ready.reason, "MultiplePods") != 0) {
        wp_events_record(events, reconcile->sandbox,
                         &(struct wp_event){.controller = "sandbox-controller",
                                            .action = "Reconciling",
                                            .reason = "MultiplePods",
                                            .warning = true},
                         "%s", reconcile->error);
    }
    return WP_STEP_NEXT;
}

/* A suspended sandbox has no Pod; a Pod that is not its own stays. */
static enum wp_sandbox_step_end
suspend(struct wp_sandbox_reconcile *reconcile, const struct wp_object *pod)
{
    if (pod != NULL && !pod->deleting && !reconcile->written &&
        wp_child_owner(pod, reconcile->sandbox) == WP_CHILD_OURS) {
        return wp_sandbox_reconcile_delete(reconcile, pod);
    }
    if (pod != NULL &&
        wp_child_owner(pod, reconcile->sandbox) != WP_CHILD_OURS) {
        reconcile->look_ns = STRANGER_LOOK_NS;
    }
    return take_pod(reconcile, pod);
}

static json_t *
name_patch(const struct wp_sandbox_reconcile *reconcile, const char *name)
{
    json_t *patch = wp_child_patch(reconcile->sandbox);
    json_t *annotations = wp_json_set(json_object(), WP_ANNOTATION_POD_NAME,
                                      wp_json_text_or_null(name));

    wp_json_set(json_object_get(patch, "metadata"), "annotations", annotations);
    return patch;
}

static enum wp_sandbox_step_end
write_name(struct wp_sandbox_reconcile *reconcile, const char *name)
{
    return wp_sandbox_reconcile_patch_sandbox(
        reconcile, NULL,
        wp_sandbox_is_pooled(reconcile->sandbox) ? WP_HTTP_NORMAL
                                                 : WP_HTTP_CLAIM,
        name_patch(reconcile, name));
}

static enum wp_sandbox_step_end
adopt(struct wp_sandbox_reconcile *reconcile, const struct wp_object *pod)
{
    json_t *patch;

    if (reconcile->got_json == NULL) {
        return wp_sandbox_reconcile_get(reconcile, WP_KIND_POD, pod->name);
    }
    patch = wp_child_adoption(reconcile->got_json, reconcile->sandbox,
                              reconcile->hash);
    (void)wp_sandbox_pod_metadata(reconcile->sandbox, reconcile->json,
                                  reconcile->hash, pod, patch);
    return wp_sandbox_reconcile_patch(reconcile, pod, WP_HTTP_NORMAL, patch);
}

/* That a Pod is no pool's any more, and has the claim's labels, may be what
 * other policies go by. Later changes may be a template's, of thousands. */
static enum wp_http_priority
metadata_priority(const struct wp_sandbox_reconcile *reconcile,
                  const struct wp_object *pod)
{
    return wp_object_label(pod, WP_LABEL_WARM_POOL) != NULL &&
                   !wp_sandbox_is_pooled(reconcile->sandbox)
               ? WP_HTTP_NORMAL
               : WP_HTTP_REFILL;
}

/* Labels and annotations follow the sandbox; the spec never does. */
static enum wp_sandbox_step_end
keep(struct wp_sandbox_reconcile *reconcile, const struct wp_object *pod)
{
    json_t *patch;

    if (pod->deleting || reconcile->written) {
        return take_pod(reconcile, pod);
    }
    patch = wp_child_patch(pod);
    if (wp_sandbox_pod_metadata(reconcile->sandbox, reconcile->json,
                                reconcile->hash, pod, patch)) {
        return wp_sandbox_reconcile_patch(
            reconcile, pod, metadata_priority(reconcile, pod), patch);
    }
    json_decref(patch);
    return take_pod(reconcile, pod);
}

static enum wp_sandbox_step_end
create(struct wp_sandbox_reconcile *reconcile)
{
    const uint8_t *key = reconcile->controller->parts->config.sandbox_key;
    json_t *pod;

    /* Volume claims that are not there, or not its own, must not be mounted. */
    if (reconcile->error[0] != '\0') {
        return take_pod(reconcile, NULL);
    }
    pod = wp_sandbox_pod_build(reconcile->sandbox, reconcile->json,
                               reconcile->hash);
    if (key != NULL) {
        wp_sandbox_pod_add_token(pod, reconcile->sandbox, key);
    }
    return wp_sandbox_reconcile_post(reconcile, WP_KIND_POD,
                                     reconcile->sandbox->name, pod);
}

enum wp_sandbox_step_end
wp_sandbox_step_pod(struct wp_sandbox_reconcile *reconcile)
{
    const char *named = wp_sandbox_pod_annotation(reconcile->sandbox);
    const struct wp_object *pod;

    reconcile->pod_unknown = true;
    if (must_read_named(reconcile, named)) {
        return wp_sandbox_reconcile_get(reconcile, WP_KIND_POD, named);
    }
    pod = find_pod(reconcile, named);
    if (reconcile->pods > 1) {
        return say_multiple(reconcile);
    }
    if (pod == NULL && must_read_before_terminated(reconcile)) {
        return wp_sandbox_reconcile_get(
            reconcile, WP_KIND_POD,
            named[0] != '\0' ? named : reconcile->sandbox->name);
    }
    if (wp_sandbox_view(reconcile->sandbox)->wants_suspended) {
        return suspend(reconcile, pod);
    }
    if (pod == NULL) {
        return create(reconcile);
    }
    switch (wp_child_owner(pod, reconcile->sandbox)) {
    case WP_CHILD_OURS:
        return keep(reconcile, pod);
    case WP_CHILD_UNOWNED:
        if (wp_child_adoptable(pod, reconcile->hash)) {
            return adopt(reconcile, pod);
        }
        break;
    case WP_CHILD_FOREIGN:
        /* Nobody must follow the annotation to it. */
        if (strcmp(named, pod->name) == 0) {
            return write_name(reconcile, NULL);
        }
        break;
    }
    char why[512];

    wp_child_refusal(pod, reconcile->sandbox, why, sizeof why);
    return wp_sandbox_reconcile_refuse(reconcile, "%s", why);
}

/* Ready must not be seen before the annotation that names the Pod. Whoever
 * creates a sandbox can put it in at once, and spare this write. */
enum wp_sandbox_step_end
wp_sandbox_step_pod_name(struct wp_sandbox_reconcile *reconcile)
{
    const char *named = wp_sandbox_pod_annotation(reconcile->sandbox);
    bool own =
        reconcile->pod != NULL &&
        wp_child_owner(reconcile->pod, reconcile->sandbox) == WP_CHILD_OURS;

    if (reconcile->pod_unknown || reconcile->written) {
        return WP_STEP_NEXT;
    }
    if (!wp_sandbox_view(reconcile->sandbox)->wants_suspended) {
        return own && strcmp(named, reconcile->pod->name) != 0
                   ? write_name(reconcile, reconcile->pod->name)
                   : WP_STEP_NEXT;
    }
    return !own && named[0] != '\0' ? write_name(reconcile, NULL)
                                    : WP_STEP_NEXT;
}
