/* k8s/controllers/claim/end.c - a claim's time is over.
 *
 * First its status says so; then, by its shutdown policy, the claim is deleted
 * (its Sandbox goes with it), or only its Sandbox. */
#include <string.h>

#include "k8s/controllers/claim/events.h"
#include "k8s/controllers/claim/expiry.h"
#include "k8s/controllers/claim/reconcile.h"

static void
end_answered(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_reconcile *reconcile = ctx;

    /* ABORTED: another object has the name by now. */
    if (result->status == WP_OK || result->status == WP_NOT_FOUND ||
        result->status == WP_ABORTED) {
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
    } else {
        wp_claim_reconcile_retry(reconcile, result);
    }
}

static void
end_object(struct wp_claim_reconcile *reconcile, const struct wp_object *object,
           bool foreground)
{
    struct wp_api_target target = wp_claim_target(object, WP_HTTP_NORMAL);
    struct wp_api_delete how = {.uid = object->uid, .foreground = foreground};

    if (!wp_claim_reconcile_may_write(reconcile)) {
        return;
    }
    wp_counter_add(&reconcile->self->metrics.writes[WP_CLAIM_WRITE_DELETE], 1);
    wp_api_delete(reconcile->self->parts->api, &target, &how, end_answered,
                  reconcile);
}

static void
end_by_policy(struct wp_claim_reconcile *reconcile)
{
    enum wp_shutdown_policy policy;

    if (!wp_claim_reconcile_refresh(reconcile)) {
        return;
    }
    policy = wp_claim_view(reconcile->claim)->shutdown_policy;
    if (policy == WP_SHUTDOWN_RETAIN) {
        if (reconcile->sandbox != NULL && !reconcile->sandbox->deleting) {
            end_object(reconcile, reconcile->sandbox, false);
        } else {
            wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
        }
        return;
    }
    if (reconcile->self->parts->config.claim_events) {
        wp_claim_event(
            reconcile->self->parts->events, reconcile->claim, WP_CLAIM_DELETED,
            policy == WP_SHUTDOWN_DELETE ? "Delete" : "DeleteForeground");
    }
    end_object(reconcile, reconcile->claim,
               policy == WP_SHUTDOWN_DELETE_FOREGROUND);
}

void
wp_claim_expire(struct wp_claim_reconcile *reconcile)
{
    const struct wp_object *sandbox = NULL;
    const char *name = "";
    enum wp_claim_holding holding =
        wp_claim_look_up(reconcile->self, reconcile->claim, &sandbox, &name);

    wp_claim_entry_drop_ask(reconcile->entry);
    reconcile->outcome.expired = true;
    if (holding == WP_HOLDS_SANDBOX) {
        wp_claim_reconcile_set_sandbox(reconcile, sandbox);
        reconcile->outcome.sandbox = reconcile->sandbox;
    } else if (holding == WP_HOLDS_FOREIGN) {
        (void)wp_err_set(&reconcile->err, WP_FAILED_PRECONDITION,
                         "The claim's time is over; sandbox \"%s\" is not its "
                         "own and stays",
                         reconcile->claim->name);
        reconcile->outcome.reason = WP_REASON_CLAIM_EXPIRED;
        reconcile->outcome.message = reconcile->err.msg;
        reconcile->outcome.forget_sandbox = true;
    }
    if (!wp_claim_says_expired(wp_claim_view(reconcile->claim)) &&
        reconcile->self->parts->config.claim_events) {
        wp_claim_event(reconcile->self->parts->events, reconcile->claim,
                       WP_CLAIM_EXPIRED, "");
    }
    wp_claim_status_write_then(reconcile, end_by_policy);
}
