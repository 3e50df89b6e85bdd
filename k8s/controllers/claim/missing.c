/* k8s/controllers/claim/missing.c - a pool or template that is not known here:
 * the API server is asked before the claim says so. */
#include "k8s/controllers/claim/reconcile.h"

/* A claim whose pool or template is missing is looked at again after this, if
 * nothing was heard before. */
#define MISSING_AGAIN_NS (60 * WP_NS_PER_S)

static void
refuse_missing(struct wp_claim_reconcile *reconcile, bool pool)
{
    const char *name = wp_claim_reconcile_template_name(reconcile);

    if (pool || name == NULL) {
        (void)wp_err_set(&reconcile->err, WP_NOT_FOUND,
                         "SandboxWarmPool \"%s\" not found",
                         wp_claim_view(reconcile->claim)->pool);
        wp_claim_reconcile_refuse(reconcile, "WarmPoolNotFound",
                                  reconcile->err.msg, WP_WORK_AFTER,
                                  MISSING_AGAIN_NS);
        return;
    }
    (void)wp_err_set(&reconcile->err, WP_NOT_FOUND,
                     "SandboxTemplate \"%s\" not found", name);
    wp_claim_reconcile_refuse(reconcile, "TemplateNotFound", reconcile->err.msg,
                              WP_WORK_AFTER, MISSING_AGAIN_NS);
}

static void
answered(void *ctx, const struct wp_api_result *result)
{
    if (result->status == WP_NOT_FOUND) {
        refuse_missing(ctx, result->kind == WP_KIND_SANDBOX_WARM_POOL);
    } else {
        wp_claim_reconcile_reread(ctx, result);
    }
}

void
wp_claim_reconcile_miss(struct wp_claim_reconcile *reconcile, enum wp_kind kind,
                        const char *name)
{
    struct wp_api_target target = {.kind = kind,
                                   .ns = reconcile->claim->ns,
                                   .name = name,
                                   .priority = WP_HTTP_CLAIM};

    if (name[0] == '\0') {
        refuse_missing(reconcile, kind == WP_KIND_SANDBOX_WARM_POOL);
        return;
    }
    wp_api_get(reconcile->self->parts->api, &target, answered, reconcile);
}
