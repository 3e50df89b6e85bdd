/* k8s/controllers/claim/missing.c - a pool or template that is not known here:
 * the API server is asked before the claim says so. */
#include "k8s/controllers/claim/reconcile.h"

/* A claim whose pool or template is missing is looked at again after this, if
 * nothing was heard before. */
#define MISSING_AGAIN_NS (60 * WP_NS_PER_S)

static void
tell_missing(struct wp_claim_pass *pass, bool pool)
{
    const struct wp_object *known = wp_claim_pass_pool(pass);

    if (pool || known == NULL) {
        (void)wp_err_set(&pass->err, WP_NOT_FOUND,
                         "SandboxWarmPool \"%s\" not found",
                         wp_claim_view(pass->claim)->pool);
        wp_claim_refuse_pass(pass, "WarmPoolNotFound", pass->err.msg,
                             WP_WORK_AFTER, MISSING_AGAIN_NS);
        return;
    }
    (void)wp_err_set(&pass->err, WP_NOT_FOUND,
                     "SandboxTemplate \"%s\" not found",
                     wp_warm_pool_view(known)->template_name);
    wp_claim_refuse_pass(pass, "TemplateNotFound", pass->err.msg, WP_WORK_AFTER,
                         MISSING_AGAIN_NS);
}

static void
miss_answered(struct wp_claim_pass *pass, enum wp_kind kind,
              const struct wp_api_result *result)
{
    const struct wp_object *object;

    if (result->status == WP_NOT_FOUND) {
        tell_missing(pass, kind == WP_KIND_SANDBOX_WARM_POOL);
        return;
    }
    if (result->status != WP_OK || result->object == NULL) {
        wp_claim_pass_retry(pass, result);
        return;
    }
    object = wp_claim_learn(pass->self, kind, result->object);
    wp_object_unref(object);
    wp_claim_pass_go(pass, WP_CLAIM_AGAIN);
}

static void
pool_answered(void *ctx, const struct wp_api_result *result)
{
    miss_answered(ctx, WP_KIND_SANDBOX_WARM_POOL, result);
}

static void
template_answered(void *ctx, const struct wp_api_result *result)
{
    miss_answered(ctx, WP_KIND_SANDBOX_TEMPLATE, result);
}

void
wp_claim_pass_miss(struct wp_claim_pass *pass, enum wp_kind kind,
                   const char *name)
{
    struct wp_api_target target = {.kind = kind,
                                   .ns = pass->claim->ns,
                                   .name = name,
                                   .priority = WP_HTTP_CLAIM};

    if (name[0] == '\0') {
        tell_missing(pass, kind == WP_KIND_SANDBOX_WARM_POOL);
        return;
    }
    wp_api_get(pass->self->parts->api, &target,
               kind == WP_KIND_SANDBOX_WARM_POOL ? pool_answered
                                                 : template_answered,
               pass);
}
