/* The Pod of a running or suspended sandbox, and the annotation that names it.
 */
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/controllers/sandbox/child.h"
#include "k8s/controllers/sandbox/reconcile.h"
#include "k8s/controllers/sandbox/pod.h"

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
must_read_named(const struct wp_sandbox_pass *pass, const char *named)
{
    return named[0] != '\0' && strcmp(named, pass->sandbox->name) != 0 &&
           !pass->missing &&
           wp_sandbox_pass_find(pass, WP_KIND_POD, named) == NULL;
}

/* The Pod that the sandbox has, or whose name it wants; NULL. The owner decides
 * before the annotation does. */
static const struct wp_object *
find_pod(struct wp_sandbox_pass *pass, const char *named)
{
    struct owned_pods owned = {NULL, 0};
    const struct wp_object *pod = NULL;

    wp_store_owned_by(wp_sandbox_pass_store(pass, WP_KIND_POD),
                      pass->sandbox->uid, count_pod, &owned);
    if (named[0] != '\0') {
        pod = wp_sandbox_pass_find(pass, WP_KIND_POD, named);
    }
    if (pod == NULL) {
        pod = wp_sandbox_pass_find(pass, WP_KIND_POD, pass->sandbox->name);
    }
    pass->pods = owned.count;
    if (pod != NULL && wp_child_owner(pod, pass->sandbox) == WP_CHILD_OURS) {
        if (owned.count == 1 && strcmp(owned.first->name, pod->name) != 0) {
            pass->pods++;
        }
        return pod;
    }
    return owned.count > 0 ? owned.first : pod;
}

static enum wp_sandbox_step_end
take_pod(struct wp_sandbox_pass *pass, const struct wp_object *pod)
{
    pass->pod = pod != NULL ? wp_object_ref(pod) : NULL;
    pass->pod_unknown = false;
    return WP_STEP_NEXT;
}

/* Several: none is chosen, since each may hold somebody's work. */
static enum wp_sandbox_step_end
say_multiple(struct wp_sandbox_pass *pass)
{
    struct wp_events *events = pass->controller->parts->events;
    const struct wp_sandbox_view *view = wp_sandbox_view(pass->sandbox);

    (void)wp_sandbox_pass_refuse(
        pass,
        "%u Pods are controlled by this Sandbox; none is "
        "chosen and none is created",
        pass->pods);
    if (events != NULL && strcmp(view->ready.reason, "MultiplePods") != 0) {
        wp_events_tell(events, pass->sandbox,
                       &(struct wp_event){.controller = "sandbox-controller",
                                          .action = "Reconciling",
                                          .reason = "MultiplePods",
                                          .warning = true},
                       "%s", pass->error);
    }
    return WP_STEP_NEXT;
}

/* A suspended sandbox has no Pod; a Pod that is not its own stays. */
static enum wp_sandbox_step_end
suspend(struct wp_sandbox_pass *pass, const struct wp_object *pod)
{
    if (pod != NULL && !pod->deleting && !pass->written &&
        wp_child_owner(pod, pass->sandbox) == WP_CHILD_OURS) {
        return wp_sandbox_pass_delete(pass, pod);
    }
    return take_pod(pass, pod);
}

static json_t *
name_patch(const struct wp_sandbox_pass *pass, const char *name)
{
    json_t *patch = wp_child_patch(pass->sandbox);
    json_t *annotations = wp_json_set(json_object(), WP_ANNOTATION_POD_NAME,
                                      wp_json_text_or_null(name));

    wp_json_set(json_object_get(patch, "metadata"), "annotations", annotations);
    return patch;
}

static enum wp_sandbox_step_end
write_name(struct wp_sandbox_pass *pass, const char *name)
{
    return wp_sandbox_pass_patch_sandbox(
        pass, NULL,
        wp_sandbox_is_pooled(pass->sandbox) ? WP_HTTP_NORMAL : WP_HTTP_CLAIM,
        name_patch(pass, name));
}

static enum wp_sandbox_step_end
adopt(struct wp_sandbox_pass *pass, const struct wp_object *pod)
{
    json_t *patch;

    if (pass->got_json == NULL) {
        return wp_sandbox_pass_get(pass, WP_KIND_POD, pod->name);
    }
    patch = wp_child_adoption(pass->got_json, pass->sandbox, pass->hash);
    (void)wp_sandbox_pod_metadata(pass->sandbox, pass->json, pass->hash, pod,
                                  patch);
    return wp_sandbox_pass_patch(pass, pod, WP_HTTP_NORMAL, patch);
}

/* That a Pod is no pool's any more, and has the claim's labels, may be what
 * other policies go by. Later changes may be a template's, of thousands. */
static enum wp_http_priority
metadata_priority(const struct wp_sandbox_pass *pass,
                  const struct wp_object *pod)
{
    return wp_object_label(pod, WP_LABEL_WARM_POOL) != NULL &&
                   !wp_sandbox_is_pooled(pass->sandbox)
               ? WP_HTTP_NORMAL
               : WP_HTTP_REFILL;
}

/* Labels and annotations follow the sandbox; the spec never does. */
static enum wp_sandbox_step_end
keep(struct wp_sandbox_pass *pass, const struct wp_object *pod)
{
    json_t *patch;

    if (pod->deleting || pass->written) {
        return take_pod(pass, pod);
    }
    patch = wp_child_patch(pod);
    if (wp_sandbox_pod_metadata(pass->sandbox, pass->json, pass->hash, pod,
                                patch)) {
        return wp_sandbox_pass_patch(pass, pod, metadata_priority(pass, pod),
                                     patch);
    }
    json_decref(patch);
    return take_pod(pass, pod);
}

static enum wp_sandbox_step_end
create(struct wp_sandbox_pass *pass)
{
    /* Volume claims that are not there, or not its own, must not be mounted. */
    if (pass->error[0] != '\0') {
        return take_pod(pass, NULL);
    }
    return wp_sandbox_pass_post(
        pass, WP_KIND_POD, pass->sandbox->name,
        wp_sandbox_pod_build(pass->sandbox, pass->json, pass->hash));
}

enum wp_sandbox_step_end
wp_sandbox_step_pod(struct wp_sandbox_pass *pass)
{
    const char *named = wp_sandbox_pod_annotation(pass->sandbox);
    const struct wp_object *pod;

    pass->pod_unknown = true;
    if (must_read_named(pass, named)) {
        return wp_sandbox_pass_get(pass, WP_KIND_POD, named);
    }
    pod = find_pod(pass, named);
    if (pass->pods > 1) {
        return say_multiple(pass);
    }
    if (wp_sandbox_view(pass->sandbox)->wants_suspended) {
        return suspend(pass, pod);
    }
    if (pod == NULL) {
        return create(pass);
    }
    switch (wp_child_owner(pod, pass->sandbox)) {
    case WP_CHILD_OURS:
        return keep(pass, pod);
    case WP_CHILD_UNOWNED:
        if (wp_child_adoptable(pod, pass->hash)) {
            return adopt(pass, pod);
        }
        break;
    case WP_CHILD_FOREIGN:
        /* Nobody must follow the annotation to it. */
        if (strcmp(named, pod->name) == 0) {
            return write_name(pass, NULL);
        }
        break;
    }
    char why[512];

    wp_child_refusal(pod, pass->sandbox, why, sizeof why);
    return wp_sandbox_pass_refuse(pass, "%s", why);
}

/* Ready must not be seen before the annotation that names the Pod. Whoever
 * creates a sandbox can put it in at once, and spare this write. */
enum wp_sandbox_step_end
wp_sandbox_step_pod_name(struct wp_sandbox_pass *pass)
{
    const char *named = wp_sandbox_pod_annotation(pass->sandbox);
    bool own = pass->pod != NULL &&
               wp_child_owner(pass->pod, pass->sandbox) == WP_CHILD_OURS;

    if (pass->pod_unknown || pass->written) {
        return WP_STEP_NEXT;
    }
    if (!wp_sandbox_view(pass->sandbox)->wants_suspended) {
        return own && strcmp(named, pass->pod->name) != 0
                   ? write_name(pass, pass->pod->name)
                   : WP_STEP_NEXT;
    }
    return !own && named[0] != '\0' ? write_name(pass, NULL) : WP_STEP_NEXT;
}
