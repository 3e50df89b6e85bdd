/* The volume claims and the Service of a sandbox. */
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/controllers/sandbox/child.h"
#include "k8s/controllers/sandbox/reconcile.h"
#include "k8s/controllers/sandbox/service.h"
#include "k8s/controllers/sandbox/volume.h"

/* For what is somebody else's, or nobody's and not offered. */
static enum wp_sandbox_step_end
refuse(struct wp_sandbox_reconcile *reconcile, const struct wp_object *child)
{
    char why[512];

    wp_child_refusal(child, reconcile->sandbox, why, sizeof why);
    return wp_sandbox_reconcile_refuse(reconcile, "%s", why);
}

enum wp_sandbox_step_end
wp_sandbox_step_volumes(struct wp_sandbox_reconcile *reconcile)
{
    size_t count = wp_sandbox_volume_count(reconcile->json);

    for (; reconcile->index < count;
         reconcile->index++, wp_sandbox_reconcile_forget(reconcile)) {
        char name[WP_VOLUME_CLAIM_NAME_MAX + 1];
        const struct wp_object *claim;
        enum wp_child_owner owner;

        if (!wp_sandbox_volume_name(reconcile->sandbox, reconcile->json,
                                    reconcile->index, name)) {
            return wp_sandbox_reconcile_refuse(
                reconcile,
                "spec.volumeClaimTemplates[%u].metadata.name:"
                " expected a name that leaves room for "
                "\"-%s\" within %d characters",
                reconcile->index, reconcile->sandbox->name,
                WP_VOLUME_CLAIM_NAME_MAX);
        }
        claim =
            wp_sandbox_reconcile_find(reconcile, WP_KIND_VOLUME_CLAIM, name);
        if (claim == NULL) {
            return wp_sandbox_reconcile_post(
                reconcile, WP_KIND_VOLUME_CLAIM, name,
                wp_sandbox_volume_build(reconcile->sandbox, reconcile->json,
                                        reconcile->index, name,
                                        reconcile->hash));
        }
        owner = wp_child_owner(claim, reconcile->sandbox);
        if (owner == WP_CHILD_OURS) {
            continue;
        }
        if (owner == WP_CHILD_FOREIGN ||
            !wp_child_adoptable(claim, reconcile->hash)) {
            return refuse(reconcile, claim);
        }
        if (reconcile->got_json == NULL) {
            return wp_sandbox_reconcile_get(reconcile, WP_KIND_VOLUME_CLAIM,
                                            name);
        }
        return wp_sandbox_reconcile_patch(reconcile, claim, WP_HTTP_NORMAL,
                                          wp_child_adoption(reconcile->got_json,
                                                            reconcile->sandbox,
                                                            reconcile->hash));
    }
    return WP_STEP_NEXT;
}

static enum wp_sandbox_step_end
service_is(struct wp_sandbox_reconcile *reconcile, enum wp_sandbox_service is)
{
    reconcile->service = is;
    return WP_STEP_NEXT;
}

static enum wp_sandbox_step_end
keep_service(struct wp_sandbox_reconcile *reconcile,
             const struct wp_object *service, bool with_ports)
{
    json_t *whole;
    json_t *patch;
    bool drifted;

    if (service->deleting || reconcile->written) {
        return service_is(reconcile, WP_SERVICE_THERE);
    }
    whole = reconcile->got_json != NULL ? json_incref(reconcile->got_json)
                                        : wp_object_json(service);
    patch = wp_child_patch(service);
    drifted = whole != NULL &&
              wp_sandbox_service_drift(reconcile->json, reconcile->hash, whole,
                                       with_ports, patch);
    json_decref(whole);
    if (drifted) {
        return wp_sandbox_reconcile_patch(reconcile, service, WP_HTTP_NORMAL,
                                          patch);
    }
    json_decref(patch);
    return service_is(reconcile, WP_SERVICE_THERE);
}

static enum wp_sandbox_step_end
adopt_service(struct wp_sandbox_reconcile *reconcile,
              const struct wp_object *service)
{
    json_t *patch;

    if (!wp_child_adoptable(service, reconcile->hash)) {
        return refuse(reconcile, service);
    }
    if (reconcile->got_json == NULL) {
        return wp_sandbox_reconcile_get(reconcile, WP_KIND_SERVICE,
                                        service->name);
    }
    if (!wp_sandbox_service_headless(reconcile->got_json)) {
        return wp_sandbox_reconcile_refuse(
            reconcile,
            "Service %s has clusterIP %s, which cannot be "
            "changed; expected None",
            service->name,
            wp_json_text(reconcile->got_json, "spec", "clusterIP", NULL));
    }
    patch = wp_child_adoption(reconcile->got_json, reconcile->sandbox,
                              reconcile->hash);
    (void)wp_sandbox_service_drift(reconcile->json, reconcile->hash,
                                   reconcile->got_json, true, patch);
    return wp_sandbox_reconcile_patch(reconcile, service, WP_HTTP_NORMAL,
                                      patch);
}

/* spec.service false: its own goes. */
static enum wp_sandbox_step_end
drop_service(struct wp_sandbox_reconcile *reconcile,
             const struct wp_object *service)
{
    if (service != NULL && !service->deleting && !reconcile->written &&
        wp_child_owner(service, reconcile->sandbox) == WP_CHILD_OURS) {
        return wp_sandbox_reconcile_delete(reconcile, service);
    }
    return service_is(reconcile, WP_SERVICE_NONE);
}

enum wp_sandbox_step_end
wp_sandbox_step_service(struct wp_sandbox_reconcile *reconcile)
{
    int wanted = wp_sandbox_view(reconcile->sandbox)->service;
    const struct wp_object *service = wp_sandbox_reconcile_find(
        reconcile, WP_KIND_SERVICE, reconcile->sandbox->name);

    /* Which Pod it would lead to is not known: it stays as it is. */
    if (reconcile->pods > 1) {
        return WP_STEP_NEXT;
    }
    if (wanted == 0) {
        return drop_service(reconcile, service);
    }
    if (service == NULL && wanted < 0) {
        return service_is(reconcile, WP_SERVICE_NONE);
    }
    if (service == NULL) {
        return wp_sandbox_reconcile_post(
            reconcile, WP_KIND_SERVICE, reconcile->sandbox->name,
            wp_sandbox_service_build(reconcile->sandbox, reconcile->json,
                                     reconcile->hash));
    }
    switch (wp_child_owner(service, reconcile->sandbox)) {
    case WP_CHILD_OURS:
        return keep_service(reconcile, service, wanted > 0);
    case WP_CHILD_UNOWNED:
        return wanted > 0 ? adopt_service(reconcile, service)
                          : service_is(reconcile, WP_SERVICE_NONE);
    case WP_CHILD_FOREIGN:
        break;
    }
    return refuse(reconcile, service);
}
