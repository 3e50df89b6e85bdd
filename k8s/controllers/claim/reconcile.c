#include "k8s/controllers/claim/reconcile.h"

#include <stdlib.h>
#include <string.h>

#include "k8s/controllers/claim/cold.h"
#include "k8s/controllers/claim/expiry.h"
#include "k8s/objects/json.h"
#include "pool/base/assert.h"

/* How a claim that has no Sandbox is served. */
static enum wp_claim_step
serve(struct wp_claim_pass *pass)
{
    const struct wp_claim_view *view = wp_claim_view(pass->claim);

    if (wp_claim_pass_pool(pass) == NULL) {
        wp_claim_entry_drop_ask(pass->entry);
        wp_claim_pass_miss(pass, WP_KIND_SANDBOX_WARM_POOL, view->pool);
        return WP_CLAIM_WAIT;
    }
    return view->has_env || view->has_volume_claims || pass->entry->made
               ? WP_CLAIM_CREATE
               : WP_CLAIM_WARM;
}

static enum wp_claim_step
go_by_holding(struct wp_claim_pass *pass)
{
    const struct wp_object *sandbox = NULL;

    switch (wp_claim_look_up(pass->self, pass->claim, &sandbox, &pass->named)) {
    case WP_HOLDS_SANDBOX:
        wp_claim_pass_set_sandbox(pass, sandbox);
        return WP_CLAIM_BOUND;
    case WP_HOLDS_HALF:
        if (pass->entry->announced) {
            break; /* The core knows whether it is still to be had. */
        }
        wp_claim_pass_set_sandbox(pass, sandbox);
        return WP_CLAIM_ADOPT;
    case WP_HOLDS_UNKNOWN:
        return WP_CLAIM_CONFIRM;
    case WP_HOLDS_STALE:
        return WP_CLAIM_FORGET;
    case WP_HOLDS_FOREIGN:
        (void)wp_err_set(&pass->err, WP_ALREADY_EXISTS,
                         "Error seen: sandbox \"%s\" is not controlled by the "
                         "claim of its name; use another name for the claim, "
                         "or delete the sandbox",
                         pass->claim->name);
        wp_claim_refuse_pass(pass, WP_REASON_ERROR, pass->err.msg,
                             WP_WORK_FAILED, 0);
        return WP_CLAIM_WAIT;
    case WP_HOLDS_NOTHING:
        break;
    }
    return serve(pass);
}

static enum wp_claim_step
decide(struct wp_claim_pass *pass)
{
    const struct wp_claim_view *view = wp_claim_view(pass->claim);

    if (wp_claim_expires_wall_ms(view) <=
        wp_claim_pass_wall_ns(pass) / WP_NS_PER_MS) {
        return WP_CLAIM_EXPIRE;
    }
    if (view->has_pod_metadata) {
        json_t *whole = wp_object_json(pass->claim);

        json_decref(pass->additional);
        pass->additional = json_incref(
            wp_json_at(whole, "spec", "additionalPodMetadata", NULL));
        json_decref(whole);
        if (wp_claim_metadata_check(&pass->self->domains, pass->additional,
                                    &pass->err) != WP_OK) {
            /* Until the claim changes, nothing will be different. */
            (void)wp_err_wrap(&pass->err, "additionalPodMetadata");
            wp_claim_refuse_pass(pass, "InvalidMetadata", pass->err.msg,
                                 WP_WORK_OK, WP_TIME_NEVER);
            return WP_CLAIM_WAIT;
        }
    }
    return go_by_holding(pass);
}

static void
go_by_decision(struct wp_claim_pass *pass)
{
    enum wp_claim_step step = decide(pass);

    if (step != WP_CLAIM_WAIT) {
        wp_claim_pass_go(pass, step);
    }
}

static void
again(struct wp_claim_pass *pass)
{
    if (++pass->rounds > WP_CLAIM_ROUNDS_MAX) {
        wp_claim_pass_end(pass, WP_WORK_FAILED, 0);
    } else if (wp_claim_pass_may_write(pass) && wp_claim_pass_refresh(pass)) {
        wp_claim_pass_set_sandbox(pass, NULL);
        memset(&pass->outcome, 0, sizeof pass->outcome);
        go_by_decision(pass);
    }
}

static void (*const steps[WP_CLAIM_STEP_COUNT])(struct wp_claim_pass *) = {
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
    wp_claim_book_remove(self->book, entry);
}

void
wp_claim_pass_begin(struct wp_claim_controller *self, struct wp_work *work,
                    const char *ns, const char *name)
{
    const struct wp_object *claim =
        wp_store_find(self->parts->stores[WP_KIND_SANDBOX_CLAIM], ns, name);
    struct wp_claim_entry *entry = wp_claim_book_find(self->book, ns, name);
    struct wp_claim_pass *pass;

    if (entry != NULL && (claim == NULL || claim->deleting ||
                          strcmp(claim->uid, entry->uid) != 0)) {
        drop_entry(self, entry);
        entry = NULL;
    }
    if (claim == NULL || claim->deleting || !self->parts->active) {
        wp_work_done(work, WP_WORK_OK, 0);
        return;
    }
    pass = calloc(1, sizeof *pass);
    WP_ASSERT(pass != NULL);
    pass->self = self;
    pass->steps = steps;
    pass->work = work;
    pass->claim = wp_object_ref(claim);
    pass->after_ns = WP_TIME_NEVER;
    if (entry == NULL) {
        entry = wp_claim_book_enter(self->book, claim);
        entry->seen_mono_ns = wp_clock_mono_ns(self->parts->clock);
        entry->seen_wall_ns = wp_clock_wall_ns(self->parts->clock);
    }
    pass->entry = entry;
    go_by_decision(pass);
}
