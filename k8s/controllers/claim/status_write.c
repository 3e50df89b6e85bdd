/* k8s/controllers/claim/status_write.c - the status patch that clients wait
 * for, and what is measured of it. */
#include <string.h>

#include "k8s/controllers/claim/expiry.h"
#include "k8s/controllers/claim/reconcile.h"
#include "k8s/controllers/fault.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/assert.h"
#include "pool/base/extreme.h"

/* So that a wall clock that is set is noticed. */
#define LOOK_AGAIN_MAX_MS INT64_C(3600000)

/* Written by a webhook that upstream gives as an example, and by its SDKs. */
#define ANNOTATION_WEBHOOK "agents.x-k8s.io/webhook-first-observed-at"
#define ANNOTATION_CLIENT "agents.x-k8s.io/client-first-requested-at"

/* --- Measuring --- */

/* Milliseconds since the time in that annotation; -1: there is none. */
static int64_t
since_annotation(const struct wp_claim_reconcile *reconcile, const char *key)
{
    const char *text = wp_object_annotation(reconcile->claim, key);
    int64_t then_ms;

    if (text == NULL || !wp_json_time(text, &then_ms)) {
        return -1;
    }
    return wp_claim_reconcile_wall_ns(reconcile) / WP_NS_PER_MS - then_ms;
}

static enum wp_claim_launch
launch_of(const struct wp_object *sandbox)
{
    const char *type = wp_object_label(sandbox, WP_LABEL_LAUNCH_TYPE);

    return type != NULL && strcmp(type, "cold") == 0 ? WP_LAUNCH_COLD
                                                     : WP_LAUNCH_WARM;
}

/* Ready was written for the first time. */
static void
measure(struct wp_claim_reconcile *reconcile)
{
    struct wp_claim_metrics *metrics = &reconcile->self->metrics;
    const struct wp_object *sandbox = reconcile->outcome.sandbox;
    const char *templ =
        wp_object_annotation(sandbox, WP_ANNOTATION_TEMPLATE_REF);
    enum wp_claim_launch launch = launch_of(sandbox);
    int64_t took_ns = wp_clock_mono_ns(reconcile->self->parts->clock) -
                      reconcile->entry->seen_mono_ns;
    int64_t observed_ms =
        since_annotation(reconcile, WP_ANNOTATION_FIRST_OBSERVED);

    if (reconcile->entry->measured ||
        (reconcile->entry->first_ready == WP_FIRST_READY_AFTER &&
         wp_object_annotation(reconcile->claim, WP_ANNOTATION_FIRST_READY) !=
             NULL)) {
        return;
    }
    reconcile->entry->measured = true;
    if (templ == NULL || templ[0] == '\0') {
        templ = "__unknown__";
    }
    wp_histogram_record(&metrics->startup[launch], took_ns);
    wp_claim_metrics_took(metrics, WP_CLAIM_FROM_OBSERVED, templ, launch,
                          observed_ms >= 0 ? observed_ms
                                           : took_ns / WP_NS_PER_MS);
    wp_claim_metrics_took(metrics, WP_CLAIM_FROM_CLIENT, templ, launch,
                          since_annotation(reconcile, ANNOTATION_CLIENT));
    wp_claim_metrics_took(metrics, WP_CLAIM_FROM_WEBHOOK, templ, launch,
                          since_annotation(reconcile, ANNOTATION_WEBHOOK));
}

/* --- Writing --- */

/* The claim is Ready as soon as this is written. */
static bool
makes_ready(const struct wp_claim_reconcile *reconcile)
{
    return wp_claim_status_ready(&reconcile->outcome) &&
           reconcile->outcome.sandbox != NULL;
}

/* When to look again, at the latest. */
static int64_t
next_look_ns(const struct wp_claim_reconcile *reconcile)
{
    int64_t after = reconcile->after_ns;
    int64_t ends_ms = wp_claim_expires_wall_ms(wp_claim_view(reconcile->claim));
    int64_t identity_ns = wp_claim_identity_due_ns(reconcile);

    if (identity_ns < after && makes_ready(reconcile)) {
        after = identity_ns;
    }
    if (ends_ms != INT64_MAX && !reconcile->outcome.expired) {
        int64_t left_ms =
            ends_ms - wp_claim_reconcile_wall_ns(reconcile) / WP_NS_PER_MS;

        left_ms = wp_min_i64(wp_max_i64(left_ms, 0), LOOK_AGAIN_MAX_MS);
        after = wp_min_i64(left_ms * WP_NS_PER_MS, after);
    }
    return after;
}

void
wp_claim_reconcile_rest(struct wp_claim_reconcile *reconcile)
{
    int64_t after = next_look_ns(reconcile);

    if (after != WP_TIME_NEVER) {
        wp_claim_reconcile_end(reconcile, WP_WORK_AFTER, after);
    } else {
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
    }
}

/* The status says what it is to say. */
static void
status_written(struct wp_claim_reconcile *reconcile)
{
    if (!wp_claim_reconcile_refresh(reconcile)) {
        return;
    }
    if (makes_ready(reconcile)) {
        wp_claim_annotations_ready(reconcile);
    } else {
        wp_claim_annotations_too_early(reconcile);
    }
    if (reconcile->ends == WP_WORK_FAILED) {
        wp_claim_reconcile_end(reconcile, WP_WORK_FAILED, 0);
    } else {
        wp_claim_reconcile_rest(reconcile);
    }
}

static void try_to_write(struct wp_claim_reconcile *reconcile);

static void
reread(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_reconcile *reconcile = ctx;

    if (result->status == WP_OK && result->object != NULL) {
        wp_object_unref(wp_claim_learn(reconcile->self, result));
        try_to_write(reconcile);
    } else if (result->status == WP_NOT_FOUND) {
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
    } else {
        wp_claim_reconcile_retry(reconcile, result);
    }
}

/* Was the Service's name left out of what was written? */
static bool
fqdn_was_dropped(const struct wp_claim_outcome *outcome,
                 const struct wp_object *claim)
{
    return claim != NULL && outcome->sandbox != NULL &&
           wp_sandbox_view(outcome->sandbox)->service_fqdn[0] != '\0' &&
           wp_claim_view(claim)->service_fqdn[0] == '\0';
}

static void
write_answered(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_reconcile *reconcile = ctx;

    wp_fault("claim.after_status");
    if (result->status == WP_OK && result->object != NULL) {
        const struct wp_object *claim;

        wp_claim_reconcile_traced(reconcile, "write status", WP_OK);
        if (makes_ready(reconcile)) {
            wp_claim_reconcile_trace_ends(reconcile);
            measure(reconcile);
        }
        claim = wp_claim_learn(reconcile->self, result);
        if (fqdn_was_dropped(&reconcile->outcome, claim)) {
            reconcile->self->no_service_fqdn = true;
        }
        wp_object_unref(claim);
        reconcile->status_written = true;
        reconcile->next(reconcile);
    } else if (result->status == WP_NOT_FOUND) {
        wp_claim_reconcile_end(reconcile, WP_WORK_OK,
                               0); /* The claim is gone. */
    } else if (result->status == WP_ABORTED &&
               ++reconcile->rounds <= WP_CLAIM_ROUNDS_MAX) {
        struct wp_api_target target =
            wp_object_target(reconcile->claim, WP_HTTP_CLAIM);

        /* What this patch was made from has changed: it must not stand. */
        wp_counter_add(&reconcile->self->metrics.conflicts, 1);
        wp_api_get(reconcile->self->parts->api, &target, reread, reconcile);
    } else {
        wp_claim_reconcile_retry(reconcile, result);
    }
}

static void
try_to_write(struct wp_claim_reconcile *reconcile)
{
    const struct wp_claim_view *view;
    struct wp_api_target target;
    json_t *patch;

    if (!wp_claim_reconcile_may_write(reconcile) ||
        !wp_claim_reconcile_refresh(reconcile) ||
        !wp_claim_reconcile_holds(reconcile)) {
        return;
    }
    view = wp_claim_view(reconcile->claim);
    reconcile->outcome.no_service_fqdn = reconcile->self->no_service_fqdn;
    patch = wp_claim_status_patch(reconcile->claim, &reconcile->outcome,
                                  wp_claim_reconcile_wall_ns(reconcile));
    if (patch == NULL) {
        reconcile->next(reconcile);
        return;
    }
    if (reconcile->entry->annotated == WP_WRITE_SENT ||
        reconcile->entry->observed == WP_WRITE_SENT) {
        /* Both would write the same object, and one of them be refused. */
        json_decref(patch);
        reconcile->entry->again = true;
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
        return;
    }
    (void)wp_json_set(patch, "metadata",
                      wp_json_set_text(json_object(), "resourceVersion",
                                       reconcile->claim->resource_version));
    target = wp_object_target(reconcile->claim,
                              view->ready.status == WP_CONDITION_TRUE
                                  ? WP_HTTP_NORMAL
                                  : WP_HTTP_CLAIM);
    target.subresource = "status";
    if (makes_ready(reconcile) &&
        launch_of(reconcile->outcome.sandbox) == WP_LAUNCH_COLD) {
        wp_claim_reconcile_traced(reconcile, "start Pod", WP_OK);
    }
    wp_counter_add(&reconcile->self->metrics.writes[WP_CLAIM_WRITE_STATUS], 1);
    wp_api_patch(reconcile->self->parts->api, &target, patch, write_answered,
                 reconcile);
}

void
wp_claim_status_write_then(struct wp_claim_reconcile *reconcile,
                           void (*then)(struct wp_claim_reconcile *reconcile))
{
    WP_ASSERT(reconcile->awaited == 0);
    reconcile->next = then;
    try_to_write(reconcile);
}

void
wp_claim_status_write(struct wp_claim_reconcile *reconcile)
{
    wp_claim_status_write_then(reconcile, status_written);
}

void
wp_claim_reconcile_say(struct wp_claim_reconcile *reconcile, const char *reason,
                       const char *message, enum wp_work_outcome ends,
                       int64_t after_ns)
{
    memset(&reconcile->outcome, 0, sizeof reconcile->outcome);
    reconcile->outcome.reason = reason;
    reconcile->outcome.message = message;
    reconcile->ends = ends;
    reconcile->after_ns = ends == WP_WORK_AFTER ? after_ns : WP_TIME_NEVER;
    wp_claim_status_write(reconcile);
}

/* Nothing that it has is in the core's answer, or may be on its way there. */
static bool
may_give_up(const struct wp_claim_reconcile *reconcile)
{
    const struct wp_claim_entry *entry = reconcile->entry;
    const struct wp_object *sandbox = NULL;
    const char *name = "";

    return !entry->in_doubt &&
           (wp_claim_ask_status(entry->ask) != WP_OK ||
            wp_claim_look_up(reconcile->self, reconcile->claim, &sandbox,
                             &name) != WP_HOLDS_SANDBOX);
}

void
wp_claim_reconcile_refuse(struct wp_claim_reconcile *reconcile,
                          const char *reason, const char *message,
                          enum wp_work_outcome ends, int64_t after_ns)
{
    if (reconcile->entry->ask != NULL && may_give_up(reconcile)) {
        wp_claim_entry_drop_ask(reconcile->entry);
    }
    wp_claim_reconcile_say(reconcile, reason, message, ends, after_ns);
}
