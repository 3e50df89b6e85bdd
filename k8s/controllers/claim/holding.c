/* k8s/controllers/claim/holding.c - which Sandbox a claim has. */
#include <string.h>

#include "k8s/controllers/claim/reconcile.h"
#include "k8s/objects/names.h"

/* Of the Sandboxes that a claim controls: the first by name that is not going,
 * else the first. */
static bool
see_owned(void *ctx, const struct wp_object *object)
{
    const struct wp_object **best = ctx;

    if (*best == NULL || ((*best)->deleting && !object->deleting)) {
        *best = object;
    }
    return true;
}

static const struct wp_object *
find_sandbox(const struct wp_claim_controller *self,
             const struct wp_object *claim, const char *name)
{
    return wp_store_find(self->parts->stores[WP_KIND_SANDBOX], claim->ns, name);
}

const char *
wp_claim_reserved_name(const struct wp_object *claim)
{
    const char *name = wp_object_annotation(claim, WP_ANNOTATION_SANDBOX_NAME);

    if (name == NULL || name[0] == '\0') {
        name = wp_object_label(claim, WP_ANNOTATION_SANDBOX_NAME);
    }
    return name != NULL ? name : "";
}

static enum wp_claim_holding
judge_reserved(const struct wp_claim_controller *self,
               const struct wp_object *claim, const char *name,
               const struct wp_object **sandbox)
{
    const struct wp_object *named = find_sandbox(self, claim, name);

    if (named == NULL) {
        return WP_HOLDS_UNKNOWN;
    }
    *sandbox = named;
    if (wp_object_controlled_by_kind(named, WP_KIND_SANDBOX_WARM_POOL)) {
        const struct wp_object *pool =
            wp_store_find(self->parts->stores[WP_KIND_SANDBOX_WARM_POOL],
                          claim->ns, named->controller.name);
        bool right = pool != NULL ? wp_claim_may_have_pool(claim, pool)
                                  : strcmp(named->controller.name,
                                           wp_claim_view(claim)->pool) == 0;

        return !named->deleting && right ? WP_HOLDS_HALF : WP_HOLDS_STALE;
    }
    return wp_object_controlled_by_kind(named, WP_KIND_SANDBOX_CLAIM)
               ? WP_HOLDS_STALE
               : WP_HOLDS_NOTHING;
}

/* By status, by annotation, by owner, and by the claim's own name. */
enum wp_claim_holding
wp_claim_look_up(const struct wp_claim_controller *self,
                 const struct wp_object *claim,
                 const struct wp_object **sandbox, const char **name)
{
    const char *bound = wp_claim_view(claim)->sandbox;
    const char *reserved = wp_claim_reserved_name(claim);
    const struct wp_object *owned = NULL;
    enum wp_claim_holding holding = WP_HOLDS_NOTHING;

    if (bound[0] != '\0') {
        *sandbox = find_sandbox(self, claim, bound);
        if (*sandbox != NULL && wp_object_controlled_by(*sandbox, claim->uid)) {
            return WP_HOLDS_SANDBOX;
        }
    }
    wp_store_owned_by(self->parts->stores[WP_KIND_SANDBOX], claim->uid,
                      see_owned, &owned);
    if (owned != NULL) {
        *sandbox = owned;
        return WP_HOLDS_SANDBOX;
    }
    if (bound[0] != '\0' && *sandbox == NULL) {
        *name = bound;
        return WP_HOLDS_UNKNOWN;
    }
    if (reserved[0] != '\0') {
        *name = reserved;
        holding = judge_reserved(self, claim, reserved, sandbox);
    }
    if (holding == WP_HOLDS_NOTHING) {
        *sandbox = find_sandbox(self, claim, claim->name);
        holding = *sandbox != NULL ? WP_HOLDS_FOREIGN : WP_HOLDS_NOTHING;
    }
    return holding;
}
