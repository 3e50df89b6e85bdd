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
wp_claim_pass_brings(struct wp_claim_pass *pass, const struct wp_object *templ)
{
    pass->template_mark = wp_claim_template_mark(templ);
}

void
wp_claim_pass_brought(struct wp_claim_pass *pass)
{
    pass->entry->refreshed_generation = pass->claim->generation;
    pass->entry->refreshed_template = pass->template_mark;
}

void
wp_claim_count_created(struct wp_claim_pass *pass, enum wp_claim_launch launch)
{
    const struct wp_object *sandbox = pass->sandbox;
    const char *templ =
        wp_object_annotation(sandbox, WP_ANNOTATION_TEMPLATE_REF);
    struct wp_claim_creations key = {
        .created_by = wp_claim_created_by(
            wp_object_label(pass->claim, WP_LABEL_CREATED_BY)),
        .launch = launch,
        .ready = wp_sandbox_view(sandbox)->ready.status == WP_CONDITION_TRUE,
    };

    wp_claim_metrics_label(key.ns, sizeof key.ns, pass->claim->ns);
    wp_claim_metrics_label(key.templ, sizeof key.templ, templ);
    wp_claim_metrics_label(key.pool, sizeof key.pool,
                           wp_claim_view(pass->claim)->pool);
    wp_claim_metrics_created(&pass->self->metrics, &key);
}

void
wp_claim_keep_answer(struct wp_claim_pass *pass,
                     const struct wp_api_result *result)
{
    const struct wp_object *sandbox = NULL;

    pass->answered = result->status;
    if (result->status == WP_OK && result->object != NULL) {
        sandbox = wp_claim_learn(pass->self, WP_KIND_SANDBOX, result->object);
    }
    if (sandbox != NULL) {
        wp_claim_pass_set_sandbox(pass, sandbox);
        wp_object_unref(sandbox);
    } else if (result->status == WP_OK) {
        pass->answered = WP_UNKNOWN_OUTCOME;
    } else {
        if (result->retry_after_ns > 0) {
            pass->after_ns = result->retry_after_ns;
        }
        (void)wp_err_set(&pass->err, result->status, "%s",
                         result->message != NULL ? result->message : "refused");
    }
    wp_claim_pass_arrive(pass);
}
