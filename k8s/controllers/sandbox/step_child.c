/* The volume claims and the Service of a sandbox. */
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/controllers/sandbox/child.h"
#include "k8s/controllers/sandbox/reconcile.h"
#include "k8s/controllers/sandbox/service.h"
#include "k8s/controllers/sandbox/volume.h"

/* For what is somebody else's, or nobody's and not offered. */
static enum wp_sandbox_step_end
refuse(struct wp_sandbox_pass *pass, const struct wp_object *child)
{
    char why[512];

    wp_child_refusal(child, pass->sandbox, why, sizeof why);
    return wp_sandbox_pass_refuse(pass, "%s", why);
}

enum wp_sandbox_step_end
wp_sandbox_step_volumes(struct wp_sandbox_pass *pass)
{
    size_t count = wp_sandbox_volume_count(pass->json);

    for (; pass->index < count; pass->index++, wp_sandbox_pass_forget(pass)) {
        char name[WP_VOLUME_CLAIM_NAME_MAX + 1];
        const struct wp_object *claim;
        enum wp_child_owner owner;

        if (!wp_sandbox_volume_name(pass->sandbox, pass->json, pass->index,
                                    name)) {
            return wp_sandbox_pass_refuse(
                pass,
                "spec.volumeClaimTemplates[%u].metadata.name:"
                " expected a name that leaves room for "
                "\"-%s\" within %d characters",
                pass->index, pass->sandbox->name, WP_VOLUME_CLAIM_NAME_MAX);
        }
        claim = wp_sandbox_pass_find(pass, WP_KIND_VOLUME_CLAIM, name);
        if (claim == NULL) {
            return wp_sandbox_pass_post(
                pass, WP_KIND_VOLUME_CLAIM, name,
                wp_sandbox_volume_build(pass->sandbox, pass->json, pass->index,
                                        name, pass->hash));
        }
        owner = wp_child_owner(claim, pass->sandbox);
        if (owner == WP_CHILD_OURS) {
            continue;
        }
        if (owner == WP_CHILD_FOREIGN ||
            !wp_child_adoptable(claim, pass->hash)) {
            return refuse(pass, claim);
        }
        if (pass->got_json == NULL) {
            return wp_sandbox_pass_get(pass, WP_KIND_VOLUME_CLAIM, name);
        }
        return wp_sandbox_pass_patch(
            pass, claim, WP_HTTP_NORMAL,
            wp_child_adoption(pass->got_json, pass->sandbox, pass->hash));
    }
    return WP_STEP_NEXT;
}

static enum wp_sandbox_step_end
service_is(struct wp_sandbox_pass *pass, enum wp_sandbox_service is)
{
    pass->service = is;
    return WP_STEP_NEXT;
}

static enum wp_sandbox_step_end
keep_service(struct wp_sandbox_pass *pass, const struct wp_object *service,
             bool with_ports)
{
    json_t *whole;
    json_t *patch;
    bool drifted;

    if (service->deleting || pass->written) {
        return service_is(pass, WP_SERVICE_THERE);
    }
    whole = pass->got_json != NULL ? json_incref(pass->got_json)
                                   : wp_object_json(service);
    patch = wp_child_patch(service);
    drifted =
        whole != NULL && wp_sandbox_service_drift(pass->json, pass->hash, whole,
                                                  with_ports, patch);
    json_decref(whole);
    if (drifted) {
        return wp_sandbox_pass_patch(pass, service, WP_HTTP_NORMAL, patch);
    }
    json_decref(patch);
    return service_is(pass, WP_SERVICE_THERE);
}

static enum wp_sandbox_step_end
adopt_service(struct wp_sandbox_pass *pass, const struct wp_object *service)
{
    json_t *patch;

    if (!wp_child_adoptable(service, pass->hash)) {
        return refuse(pass, service);
    }
    if (pass->got_json == NULL) {
        return wp_sandbox_pass_get(pass, WP_KIND_SERVICE, service->name);
    }
    if (!wp_sandbox_service_headless(pass->got_json)) {
        return wp_sandbox_pass_refuse(
            pass,
            "Service %s has clusterIP %s, which cannot be "
            "changed; expected None",
            service->name,
            wp_json_text(pass->got_json, "spec", "clusterIP", NULL));
    }
    patch = wp_child_adoption(pass->got_json, pass->sandbox, pass->hash);
    (void)wp_sandbox_service_drift(pass->json, pass->hash, pass->got_json, true,
                                   patch);
    return wp_sandbox_pass_patch(pass, service, WP_HTTP_NORMAL, patch);
}

/* spec.service false: its own goes. */
static enum wp_sandbox_step_end
drop_service(struct wp_sandbox_pass *pass, const struct wp_object *service)
{
    if (service != NULL && !service->deleting && !pass->written &&
        wp_child_owner(service, pass->sandbox) == WP_CHILD_OURS) {
        return wp_sandbox_pass_delete(pass, service);
    }
    return service_is(pass, WP_SERVICE_NONE);
}

enum wp_sandbox_step_end
wp_sandbox_step_service(struct wp_sandbox_pass *pass)
{
    int wanted = wp_sandbox_view(pass->sandbox)->service;
    const struct wp_object *service =
        wp_sandbox_pass_find(pass, WP_KIND_SERVICE, pass->sandbox->name);

    /* Which Pod it would lead to is not known: it stays as it is. */
    if (pass->pods > 1) {
        return WP_STEP_NEXT;
    }
    if (wanted == 0) {
        return drop_service(pass, service);
    }
    if (service == NULL && wanted < 0) {
        return service_is(pass, WP_SERVICE_NONE);
    }
    if (service == NULL) {
        return wp_sandbox_pass_post(
            pass, WP_KIND_SERVICE, pass->sandbox->name,
            wp_sandbox_service_build(pass->sandbox, pass->json, pass->hash));
    }
    switch (wp_child_owner(service, pass->sandbox)) {
    case WP_CHILD_OURS:
        return keep_service(pass, service, wanted > 0);
    case WP_CHILD_UNOWNED:
        return wanted > 0 ? adopt_service(pass, service)
                          : service_is(pass, WP_SERVICE_NONE);
    case WP_CHILD_FOREIGN:
        break;
    }
    return refuse(pass, service);
}
