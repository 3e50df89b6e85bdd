/* k8s/controllers/claim/create.c - a claim gets a Sandbox of its own making.
 *
 * It is named after the claim, so a POST whose answer was lost is found to have
 * been done. */
#include <string.h>

#include "k8s/controllers/claim/cold.h"
#include "k8s/controllers/claim/events.h"
#include "k8s/controllers/claim/reconcile.h"
#include "k8s/controllers/fault.h"
#include "k8s/objects/json.h"
#include "pool/base/assert.h"

static void
created(struct wp_claim_pass *pass)
{
    wp_fault("claim.after_create");
    wp_claim_pass_brought(pass);
    wp_claim_count_created(pass, WP_LAUNCH_COLD);
    if (pass->self->parts->config.claim_events) {
        wp_claim_event(pass->self->parts->events, pass->claim,
                       WP_CLAIM_PROVISIONED, pass->sandbox->name);
    }
    pass->outcome.sandbox = pass->sandbox;
    wp_claim_tell(pass);
}

/* It may be there already; whose it is shows when it is looked at. */
static void
existing_read(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_pass *pass = ctx;

    if (result->status == WP_OK && result->object != NULL) {
        pass->entry->made = false;
        wp_object_unref(
            wp_claim_learn(pass->self, WP_KIND_SANDBOX, result->object));
        wp_claim_pass_go(pass, WP_CLAIM_AGAIN);
    } else if (result->status == WP_NOT_FOUND) {
        pass->entry->made = false;
        wp_claim_pass_end(pass, WP_WORK_FAILED, 0);
    } else {
        wp_claim_pass_retry(pass, result);
    }
}

/* POST and annotation are both back. */
static void
create_settled(struct wp_claim_pass *pass)
{
    struct wp_api_target target = {.kind = WP_KIND_SANDBOX,
                                   .ns = pass->claim->ns,
                                   .name = pass->claim->name,
                                   .priority = WP_HTTP_CLAIM};

    pass->entry->adopting = false;
    /* Until it is known whether there is one, it takes no other. */
    pass->entry->made = wp_claim_fate(pass->answered) == WP_FATE_LOOK;
    switch (wp_claim_fate(pass->answered)) {
    case WP_FATE_DONE:
        created(pass);
        return;
    case WP_FATE_LOOK:
        wp_api_get(pass->self->parts->api, &target, existing_read, pass);
        return;
    case WP_FATE_REFUSED:
        (void)wp_err_wrap(&pass->err, "Error seen: creating the sandbox");
        wp_claim_refuse_pass(pass, WP_REASON_ERROR, pass->err.msg,
                             WP_WORK_FAILED, 0);
        return;
    case WP_FATE_RETRY:
        wp_claim_pass_end(pass,
                          pass->after_ns != WP_TIME_NEVER ? WP_WORK_AFTER
                                                          : WP_WORK_FAILED,
                          pass->after_ns);
        return;
    case WP_FATE_STOP:
        wp_claim_pass_end(pass, WP_WORK_OK, 0);
        return;
    }
}

static void
create_answered(void *ctx, const struct wp_api_result *result)
{
    wp_claim_keep_answer(ctx, result);
}

/* The template does not let the claim have what it asks for. Until one of them
 * changes that stays so; other errors may pass. */
static void
refused(struct wp_claim_pass *pass, const char *reason)
{
    bool final = strcmp(reason, WP_REASON_ENV_REJECTED) == 0 ||
                 strcmp(reason, WP_REASON_VOLUMES_REJECTED) == 0;

    if (!final) {
        (void)wp_err_wrap(&pass->err, "Error seen");
    }
    wp_claim_refuse_pass(pass, reason, pass->err.msg,
                         final ? WP_WORK_OK : WP_WORK_FAILED, WP_TIME_NEVER);
}

void
wp_claim_create(struct wp_claim_pass *pass)
{
    const struct wp_object *pool = wp_claim_pass_pool(pass);
    const struct wp_object *templ = wp_claim_pass_template(pass);
    struct wp_api_target target = {.kind = WP_KIND_SANDBOX,
                                   .ns = pass->claim->ns,
                                   .name = pass->claim->name,
                                   .priority = WP_HTTP_CLAIM};
    const char *reason = WP_REASON_ERROR;
    json_t *body;

    WP_ASSERT(pool != NULL);
    if (templ == NULL) {
        wp_claim_pass_miss(pass, WP_KIND_SANDBOX_TEMPLATE,
                           wp_warm_pool_view(pool)->template_name);
        return;
    }
    if (!wp_claim_pass_may_write(pass)) {
        return;
    }
    body = wp_cold_sandbox(pass->claim, templ, &reason, &pass->err);
    if (body == NULL) {
        refused(pass, reason);
        return;
    }
    wp_fault("claim.before_create");
    wp_claim_pass_brings(pass, templ);
    pass->entry->adopting = true;
    pass->next = create_settled;
    pass->awaited = 1;
    wp_counter_add(&pass->self->metrics.writes[WP_CLAIM_WRITE_SANDBOX], 1);
    wp_api_post(pass->self->parts->api, &target, body, create_answered, pass);
    wp_claim_stamp_observed(pass, true);
}
