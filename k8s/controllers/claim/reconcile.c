#include "k8s/controllers/claim/reconcile.h"

#include <stdlib.h>
#include <string.h>

#include "k8s/controllers/claim/cold.h"
#include "k8s/controllers/claim/expiry.h"
#include "k8s/objects/json.h"
#include "pool/base/assert.h"

/* How a claim that has no Sandbox is served. */
static enum wp_claim_step
serve(struct wp_claim_reconcile *reconcile)
{
    const struct wp_claim_view *view = wp_claim_view(reconcile->claim);

    if (wp_claim_reconcile_pool(reconcile) == NULL) {
        wp_claim_entry_drop_ask(reconcile->entry);
        if (reconcile->by_template) {
            return WP_CLAIM_CREATE;
        }
        wp_claim_reconcile_miss(reconcile, WP_KIND_SANDBOX_WARM_POOL,
                                view->pool);
        return WP_CLAIM_WAIT;
    }
    return (view->has_env && !wp_claim_brings_env(reconcile)) ||
                   view->has_volume_claims ||
                   reconcile->entry->creation == WP_WRITE_DOUBT
               ? WP_CLAIM_CREATE
               : WP_CLAIM_WARM;
}

static enum wp_claim_step
go_by_holding(struct wp_claim_reconcile *reconcile)
{
    const struct wp_object *sandbox = NULL;

    switch (wp_claim_look_up(reconcile->self, reconcile->claim, &sandbox,
                             &reconcile->named)) {
    case WP_HOLDS_SANDBOX:
        wp_claim_reconcile_set_sandbox(reconcile, sandbox);
        return WP_CLAIM_BOUND;
    case WP_HOLDS_HALF:
        if (reconcile->entry->announced) {
            break; /* The core knows whether it is still to be had. */
        }
        wp_claim_reconcile_set_sandbox(reconcile, sandbox);
        if (!wp_str_copy(wp_str_from(sandbox->controller.name), reconcile->pool,
                         sizeof reconcile->pool)) {
            return WP_CLAIM_FORGET;
        }
        return WP_CLAIM_ADOPT;
    case WP_HOLDS_UNKNOWN:
        return WP_CLAIM_CONFIRM;
    case WP_HOLDS_STALE:
        return WP_CLAIM_FORGET;
    case WP_HOLDS_FOREIGN:
        (void)wp_err_set(&reconcile->err, WP_ALREADY_EXISTS,
                         "Error seen: sandbox \"%s\" is not controlled by the "
                         "claim of its name; use another name for the claim, "
                         "or delete the sandbox",
                         reconcile->claim->name);
        wp_claim_reconcile_refuse(reconcile, WP_REASON_ERROR,
                                  reconcile->err.msg, WP_WORK_FAILED, 0);
        return WP_CLAIM_WAIT;
    case WP_HOLDS_NOTHING:
        break;
    }
    return serve(reconcile);
}

static enum wp_claim_step
decide(struct wp_claim_reconcile *reconcile)
{
    const struct wp_claim_view *view = wp_claim_view(reconcile->claim);

    reconcile->decided_on = reconcile->claim->generation;
    wp_claim_resolve(reconcile);
    if (wp_claim_expires_wall_ms(view) <=
        wp_claim_reconcile_wall_ns(reconcile) / WP_NS_PER_MS) {
        return WP_CLAIM_EXPIRE;
    }
    json_decref(reconcile->additional);
    reconcile->additional = NULL; /* It may say less than before. */
    if (view->has_pod_metadata) {
        json_t *whole = wp_object_json(reconcile->claim);

        reconcile->additional = json_incref(
            wp_json_at(whole, "spec", "additionalPodMetadata", NULL));
        json_decref(whole);
        if (wp_claim_metadata_check(&reconcile->self->domains,
                                    reconcile->additional,
                                    &reconcile->err) != WP_OK) {
            /* Until the claim changes, nothing will be different. */
            (void)wp_err_wrap(&reconcile->err, "additionalPodMetadata");
            wp_claim_reconcile_refuse(reconcile, "InvalidMetadata",
                                      reconcile->err.msg, WP_WORK_OK,
                                      WP_TIME_NEVER);
            return WP_CLAIM_WAIT;
        }
    }
    return go_by_holding(reconcile);
}

static void
go_by_decision(struct wp_claim_reconcile *reconcile)
{
    enum wp_claim_step step = decide(reconcile);

    if (step != WP_CLAIM_WAIT) {
        wp_claim_reconcile_go(reconcile, step);
    }
}

static void
again(struct wp_claim_reconcile *reconcile)
{
    if (++reconcile->rounds > WP_CLAIM_ROUNDS_MAX) {
        wp_claim_reconcile_end(reconcile, WP_WORK_FAILED, 0);
    } else if (wp_claim_reconcile_may_write(reconcile) &&
               wp_claim_reconcile_refresh(reconcile)) {
        wp_claim_reconcile_set_sandbox(reconcile, NULL);
        memset(&reconcile->outcome, 0, sizeof reconcile->outcome);
        reconcile->status_written = false;
        reconcile->ends = WP_WORK_OK;
        reconcile->after_ns = WP_TIME_NEVER;
        go_by_decision(reconcile);
    }
}

static void (*const steps[WP_CLAIM_STEP_COUNT])(struct wp_claim_reconcile *) = {
    [WP_CLAIM_AGAIN] = again,
    [WP_CLAIM_EXPIRE] = wp_claim_expire,
    [WP_CLAIM_BOUND] = wp_claim_bound,
    [WP_CLAIM_CONFIRM] = wp_claim_confirm,
    [WP_CLAIM_FORGET] = wp_claim_forget_reference,
    [WP_CLAIM_WARM] = wp_claim_warm,
    [WP_CLAIM_ADOPT] = wp_claim_adopt,
    [WP_CLAIM_CREATE] = wp_claim_create,
};

/* The claim is gone, or is another one of the same name. */
static void
drop_entry(struct wp_claim_controller *self, struct wp_claim_entry *entry)
{
    wp_claim_entry_drop_ask(entry);
    wp_claim_cache_remove(self->cache, entry);
}

void
wp_claim_reconcile_begin(struct wp_claim_controller *self, struct wp_work *work,
                         const char *ns, const char *name)
{
    const struct wp_object *claim =
        wp_store_find(self->parts->stores[WP_KIND_SANDBOX_CLAIM], ns, name);
    struct wp_claim_entry *entry = wp_claim_cache_find(self->cache, ns, name);
    struct wp_claim_reconcile *reconcile;

    if (entry != NULL && (claim == NULL || claim->deleting ||
                          strcmp(claim->uid, entry->uid) != 0)) {
        drop_entry(self, entry);
        entry = NULL;
    }
    if (claim == NULL || claim->deleting || !self->parts->active) {
        wp_work_done(work, WP_WORK_OK, 0);
        return;
    }
    reconcile = calloc(1, sizeof *reconcile);
    WP_ASSERT(reconcile != NULL);
    reconcile->self = self;
    reconcile->steps = steps;
    reconcile->work = work;
    reconcile->claim = wp_object_ref(claim);
    reconcile->after_ns = WP_TIME_NEVER;
    if (entry == NULL) {
        entry = wp_claim_first_seen(self, claim);
    }
    reconcile->entry = entry;
    go_by_decision(reconcile);
}
