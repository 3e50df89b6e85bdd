/* k8s/controllers/claim/end.c - a claim's time is over.
 *
 * First its status says so; then, by its shutdown policy, the claim is deleted
 * (its Sandbox goes with it), or only its Sandbox. */
#include <string.h>

#include "k8s/controllers/claim/events.h"
#include "k8s/controllers/claim/expiry.h"
#include "k8s/controllers/claim/reconcile.h"

/* It was changed since it was looked at: perhaps it is to live on. */
static void
read_anew(struct wp_claim_reconcile *reconcile, enum wp_kind kind)
{
    struct wp_api_target target = wp_object_target(
        kind == WP_KIND_SANDBOX_CLAIM ? reconcile->claim : reconcile->sandbox,
        WP_HTTP_NORMAL);

    wp_counter_add(&reconcile->self->metrics.conflicts, 1);
    wp_api_get(reconcile->self->parts->api, &target, wp_claim_reconcile_reread,
               reconcile);
}

static void
end_answered(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_reconcile *reconcile = ctx;

    if (result->status == WP_OK && result->kind == WP_KIND_SANDBOX_CLAIM &&
        reconcile->self->parts->config.claim_events) {
        wp_claim_event(reconcile->self->parts->events, reconcile->claim,
                       WP_CLAIM_DELETED,
                       wp_claim_view(reconcile->claim)->shutdown_policy ==
                               WP_SHUTDOWN_DELETE
                           ? "Delete"
                           : "DeleteForeground");
    }
    if (result->status == WP_OK || result->status == WP_NOT_FOUND) {
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
    } else if (result->status == WP_ABORTED) {
        read_anew(reconcile, result->kind);
    } else {
        wp_claim_reconcile_retry(reconcile, result);
    }
}

/* Only as it was when its end was decided. */
static void
end_object(struct wp_claim_reconcile *reconcile, const struct wp_object *object,
           bool foreground)
{
    struct wp_api_target target = wp_object_target(object, WP_HTTP_NORMAL);
    struct wp_api_delete how = {.uid = object->uid,
                                .resource_version = object->resource_version,
                                .foreground = foreground};

    if (!wp_claim_reconcile_may_write(reconcile)) {
        return;
    }
    wp_counter_add(&reconcile->self->metrics.writes[WP_CLAIM_WRITE_DELETE], 1);
    wp_api_delete(reconcile->self->parts->api, &target, &how, end_answered,
                  reconcile);
}

static void
end_sandbox(struct wp_claim_reconcile *reconcile)
{
    end_object(reconcile, reconcile->sandbox, false);
}

/* The API server has confirmed, with what it answered, that the claim's time
 * is over. */
static void
claim_confirmed(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_reconcile *reconcile = ctx;

    if (result->status != WP_OK || result->object == NULL) {
        wp_claim_reconcile_reread(ctx, result);
        return;
    }
    wp_object_unref(wp_claim_learn(reconcile->self, result));
    if (wp_claim_reconcile_refresh(reconcile) &&
        wp_claim_reconcile_holds(reconcile)) {
        end_sandbox(reconcile);
    }
}

/* The Sandbox's version says nothing of the claim's: when the claim was not
 * written just now it is read. */
static void
end_retained(struct wp_claim_reconcile *reconcile)
{
    if (reconcile->sandbox == NULL || reconcile->sandbox->deleting) {
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
    } else if (reconcile->status_written) {
        end_sandbox(reconcile);
    } else {
        struct wp_api_target target =
            wp_object_target(reconcile->claim, WP_HTTP_NORMAL);

        wp_api_get(reconcile->self->parts->api, &target, claim_confirmed,
                   reconcile);
    }
}

static void
end_by_policy(struct wp_claim_reconcile *reconcile)
{
    enum wp_shutdown_policy policy;

    if (!wp_claim_reconcile_refresh(reconcile) ||
        !wp_claim_reconcile_holds(reconcile)) {
        return;
    }
    if (reconcile->newly_expired && reconcile->status_written &&
        reconcile->self->parts->config.claim_events) {
        wp_claim_event(reconcile->self->parts->events, reconcile->claim,
                       WP_CLAIM_EXPIRED, "");
    }
    policy = wp_claim_view(reconcile->claim)->shutdown_policy;
    if (policy == WP_SHUTDOWN_RETAIN) {
        end_retained(reconcile);
        return;
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
    reconcile->newly_expired =
        !wp_claim_says_expired(wp_claim_view(reconcile->claim));
    wp_claim_status_write_then(reconcile, end_by_policy);
}
