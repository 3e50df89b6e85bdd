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
    struct wp_claim_pass *pass = ctx;

    /* ABORTED: another object has the name by now. */
    if (result->status == WP_OK || result->status == WP_NOT_FOUND ||
        result->status == WP_ABORTED) {
        wp_claim_pass_end(pass, WP_WORK_OK, 0);
    } else {
        wp_claim_pass_retry(pass, result);
    }
}

static void
end_object(struct wp_claim_pass *pass, const struct wp_object *object,
           bool foreground)
{
    struct wp_api_target target = wp_claim_target(object, WP_HTTP_NORMAL);
    struct wp_api_delete how = {.uid = object->uid, .foreground = foreground};

    if (!wp_claim_pass_may_write(pass)) {
        return;
    }
    wp_counter_add(&pass->self->metrics.writes[WP_CLAIM_WRITE_DELETE], 1);
    wp_api_delete(pass->self->parts->api, &target, &how, end_answered, pass);
}

static void
end_by_policy(struct wp_claim_pass *pass)
{
    enum wp_shutdown_policy policy;

    if (!wp_claim_pass_refresh(pass)) {
        return;
    }
    policy = wp_claim_view(pass->claim)->shutdown_policy;
    if (policy == WP_SHUTDOWN_RETAIN) {
        if (pass->sandbox != NULL && !pass->sandbox->deleting) {
            end_object(pass, pass->sandbox, false);
        } else {
            wp_claim_pass_end(pass, WP_WORK_OK, 0);
        }
        return;
    }
    if (pass->self->parts->config.claim_events) {
        wp_claim_event(pass->self->parts->events, pass->claim, WP_CLAIM_DELETED,
                       policy == WP_SHUTDOWN_DELETE ? "Delete"
                                                    : "DeleteForeground");
    }
    end_object(pass, pass->claim, policy == WP_SHUTDOWN_DELETE_FOREGROUND);
}

void
wp_claim_expire(struct wp_claim_pass *pass)
{
    const struct wp_object *sandbox = NULL;
    const char *name = "";
    enum wp_claim_holding holding =
        wp_claim_look_up(pass->self, pass->claim, &sandbox, &name);

    wp_claim_entry_drop_ask(pass->entry);
    pass->outcome.expired = true;
    if (holding == WP_HOLDS_SANDBOX) {
        wp_claim_pass_set_sandbox(pass, sandbox);
        pass->outcome.sandbox = pass->sandbox;
    } else if (holding == WP_HOLDS_FOREIGN) {
        (void)wp_err_set(&pass->err, WP_FAILED_PRECONDITION,
                         "The claim's time is over; sandbox \"%s\" is not its "
                         "own and stays",
                         pass->claim->name);
        pass->outcome.reason = WP_REASON_CLAIM_EXPIRED;
        pass->outcome.message = pass->err.msg;
        pass->outcome.forget_sandbox = true;
    }
    if (!wp_claim_says_expired(wp_claim_view(pass->claim)) &&
        pass->self->parts->config.claim_events) {
        wp_claim_event(pass->self->parts->events, pass->claim, WP_CLAIM_EXPIRED,
                       "");
    }
    wp_claim_tell_then(pass, end_by_policy);
}
