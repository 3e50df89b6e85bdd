/* k8s/controllers/claim/sandbox_write.c - what all writes of a claim's Sandbox
 * have in common: the answer, the metadata they bring, the count. */
#include "k8s/controllers/claim/reconcile.h"
#include "k8s/objects/names.h"
#include "pool/base/fnv.h"

uint64_t
wp_claim_template_mark(const struct wp_object *templ)
{
    char hash[WP_NAME_HASH_LEN + 1];
    uint64_t mark;

    if (templ == NULL) {
        return 0;
    }
    mark = wp_template_view(templ)->pod_metadata_hash;
    wp_name_hash(wp_str_from(templ->name), hash);
    mark = wp_fnv_str(mark, wp_str_from(hash));
    return mark != 0 ? mark : 1;
}

void
wp_claim_reconcile_brings(struct wp_claim_reconcile *reconcile,
                          const struct wp_object *templ)
{
    reconcile->template_mark = wp_claim_template_mark(templ);
}

void
wp_claim_reconcile_brought(struct wp_claim_reconcile *reconcile)
{
    reconcile->entry->refreshed_generation = reconcile->claim->generation;
    reconcile->entry->refreshed_template = reconcile->template_mark;
}

void
wp_claim_count_created(struct wp_claim_reconcile *reconcile,
                       enum wp_claim_launch launch)
{
    const struct wp_object *sandbox = reconcile->sandbox;
    const char *templ =
        wp_object_annotation(sandbox, WP_ANNOTATION_TEMPLATE_REF);
    struct wp_claim_creations key = {
        .created_by = wp_claim_created_by(
            wp_object_label(reconcile->claim, WP_LABEL_CREATED_BY)),
        .launch = launch,
        .ready = wp_sandbox_view(sandbox)->ready.status == WP_CONDITION_TRUE,
    };

    wp_claim_metrics_label(key.ns, sizeof key.ns, reconcile->claim->ns);
    wp_claim_metrics_label(key.templ, sizeof key.templ, templ);
    wp_claim_metrics_label(key.pool, sizeof key.pool, reconcile->pool);
    wp_claim_metrics_created(&reconcile->self->metrics, &key);
}

void
wp_claim_reconcile_keep_answer(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_reconcile *reconcile = ctx;
    const struct wp_object *sandbox = wp_claim_learn(reconcile->self, result);

    reconcile->answered = result->status;
    reconcile->answered_code = result->code;
    if (sandbox != NULL) {
        wp_claim_reconcile_set_sandbox(reconcile, sandbox);
        wp_object_unref(sandbox);
    } else if (result->status == WP_OK) {
        reconcile->answered = WP_UNKNOWN_OUTCOME;
    } else {
        if (result->retry_after_ns > 0) {
            reconcile->after_ns = result->retry_after_ns;
        }
        (void)wp_err_set(&reconcile->err, result->status, "%s",
                         result->message != NULL ? result->message : "refused");
    }
    wp_claim_reconcile_arrive(reconcile);
}
