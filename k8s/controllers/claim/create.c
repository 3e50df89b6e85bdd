/* k8s/controllers/claim/create.c - a claim gets a Sandbox of its own making.
 *
 * It is named after the claim, so a POST whose answer was lost is found to have
 * been done. */
#include <string.h>

#include "k8s/bind/brings.h"
#include "k8s/controllers/claim/cold.h"
#include "k8s/controllers/claim/events.h"
#include "k8s/controllers/claim/reconcile.h"
#include "k8s/controllers/fault.h"
#include "k8s/objects/json.h"
#include "pool/base/assert.h"

static void
created(struct wp_claim_reconcile *reconcile)
{
    wp_fault("claim.after_create");
    wp_claim_reconcile_brought(reconcile);
    wp_claim_count_created(reconcile, WP_LAUNCH_COLD);
    if (reconcile->self->parts->config.claim_events) {
        wp_claim_event(reconcile->self->parts->events, reconcile->claim,
                       WP_CLAIM_PROVISIONED, reconcile->sandbox->name);
    }
    reconcile->outcome.sandbox = reconcile->sandbox;
    wp_claim_status_write(reconcile);
}

/* It is tried again after a pause. What the API server said of it is told; that
 * an answer was lost is no news to anybody. */
static void
not_created(struct wp_claim_reconcile *reconcile)
{
    if (reconcile->answered_code == 0) {
        wp_claim_reconcile_end(reconcile, WP_WORK_FAILED, 0);
        return;
    }
    (void)wp_err_wrap(&reconcile->err, "Error seen: creating the sandbox");
    wp_claim_reconcile_refuse(reconcile, WP_REASON_ERROR, reconcile->err.msg,
                              WP_WORK_FAILED, 0);
}

/* It may be there already; whose it is shows when it is looked at. */
static void
existing_read(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_reconcile *reconcile = ctx;

    if (result->status == WP_NOT_FOUND ||
        (result->status == WP_OK && result->object != NULL)) {
        wp_claim_state_move(&reconcile->entry->creation, WP_WRITE_NONE);
    }
    if (result->status == WP_NOT_FOUND) {
        not_created(reconcile);
    } else {
        wp_claim_reconcile_reread(reconcile, result);
    }
}

/* POST and annotation are both back. */
static void
create_settled(struct wp_claim_reconcile *reconcile)
{
    struct wp_api_target target = {.kind = WP_KIND_SANDBOX,
                                   .ns = reconcile->claim->ns,
                                   .name = reconcile->claim->name,
                                   .priority = WP_HTTP_CLAIM};

    /* Until it is known whether there is one, it takes no other. */
    wp_claim_state_move(&reconcile->entry->creation,
                        wp_claim_fate(reconcile->answered) == WP_FATE_LOOK
                            ? WP_WRITE_DOUBT
                            : WP_WRITE_NONE);
    switch (wp_claim_fate(reconcile->answered)) {
    case WP_FATE_DONE:
        wp_claim_reconcile_traced(reconcile, "create", WP_OK);
        created(reconcile);
        return;
    case WP_FATE_LOOK:
        wp_api_get(reconcile->self->parts->api, &target, existing_read,
                   reconcile);
        return;
    case WP_FATE_REFUSED:
        not_created(reconcile);
        return;
    case WP_FATE_RETRY:
        wp_claim_reconcile_end(reconcile,
                               reconcile->after_ns != WP_TIME_NEVER
                                   ? WP_WORK_AFTER
                                   : WP_WORK_FAILED,
                               reconcile->after_ns);
        return;
    case WP_FATE_STOP:
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
        return;
    }
}

/* The template does not let the claim have what it asks for. Until one of them
 * changes that stays so; other errors may pass. */
static void
refused(struct wp_claim_reconcile *reconcile, const char *reason)
{
    bool final = strcmp(reason, WP_REASON_ENV_REJECTED) == 0 ||
                 strcmp(reason, WP_REASON_VOLUMES_REJECTED) == 0;

    if (!final) {
        (void)wp_err_wrap(&reconcile->err, "Error seen");
    }
    wp_claim_reconcile_refuse(reconcile, reason, reconcile->err.msg,
                              final ? WP_WORK_OK : WP_WORK_FAILED,
                              WP_TIME_NEVER);
}

void
wp_claim_create(struct wp_claim_reconcile *reconcile)
{
    const char *name = wp_claim_reconcile_template_name(reconcile);
    const struct wp_object *templ = wp_claim_reconcile_template(reconcile);
    struct wp_api_target target = {.kind = WP_KIND_SANDBOX,
                                   .ns = reconcile->claim->ns,
                                   .name = reconcile->claim->name,
                                   .priority = WP_HTTP_CLAIM};
    const char *reason = WP_REASON_ERROR;
    json_t *body;

    WP_ASSERT(name != NULL);
    if (templ == NULL) {
        wp_claim_reconcile_miss(reconcile, WP_KIND_SANDBOX_TEMPLATE, name);
        return;
    }
    if (!wp_claim_reconcile_may_write(reconcile)) {
        return;
    }
    if (wp_claim_brings_more(reconcile->claim) &&
        !wp_claim_may_bring(reconcile, templ)) {
        return;
    }
    body = wp_cold_sandbox(reconcile->claim, templ,
                           reconcile->self->parts->config.default_tier, &reason,
                           &reconcile->err);
    if (body == NULL) {
        refused(reconcile, reason);
        return;
    }
    if (wp_claim_brings_pass(reconcile)) {
        (void)wp_json_set_text(
            wp_json_object_at(json_object_get(body, "metadata"), "annotations"),
            WP_ANNOTATION_BRINGS, "true");
    }
    wp_fault("claim.before_create");
    wp_claim_reconcile_brings(reconcile, templ);
    wp_claim_state_move(&reconcile->entry->creation, WP_WRITE_SENT);
    reconcile->next = create_settled;
    reconcile->awaited = 1;
    wp_counter_add(&reconcile->self->metrics.writes[WP_CLAIM_WRITE_SANDBOX], 1);
    wp_api_post(reconcile->self->parts->api, &target, body,
                wp_claim_reconcile_keep_answer, reconcile);
    wp_claim_annotations_observed(reconcile, true);
}
