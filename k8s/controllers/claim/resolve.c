/* k8s/controllers/claim/resolve.c - which pool and which template a claim
 * means.
 *
 * A claim of v1beta1 names a pool, and nothing else is looked for. One that
 * came as v1alpha1 names a template, and perhaps a pool: its pool is then
 * "shadow-pool-TEMPLATE", which need not exist. Any pool of the template in its
 * namespace will do, but for those that are kept for somebody. Without one, it
 * gets a Sandbox of its own. */
#include <stdio.h>
#include <string.h>

#include "k8s/controllers/claim/reconcile.h"
#include "k8s/convert/convert.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/assert.h"

static bool
is_alpha(const struct wp_object *claim)
{
    return wp_object_annotation(claim, WP_ANNOTATION_ALPHA_CLAIM) != NULL;
}

/* What it said of template and pool; a new reference, NULL: nothing. */
static json_t *
said_in_alpha(const struct wp_object *claim)
{
    const char *text = wp_object_annotation(claim, WP_ANNOTATION_ALPHA_CLAIM);
    json_t *state = text != NULL ? json_loads(text, 0, NULL) : NULL;
    json_t *spec = json_incref(json_object_get(state, "spec"));

    json_decref(state);
    return spec;
}

bool
wp_claim_names_template(const struct wp_object *claim,
                        char templ[WP_CLAIM_OBJECT_NAME_MAX + 1])
{
    struct wp_str pool = wp_str_from(wp_claim_view(claim)->pool);
    struct wp_str prefix = WP_STR(WP_SHADOW_POOL_PREFIX);
    json_t *said;
    bool named;

    templ[0] = '\0';
    if (wp_str_starts_with(pool, prefix)) {
        return wp_str_copy(
            (struct wp_str){pool.ptr + prefix.len, pool.len - prefix.len},
            templ, WP_CLAIM_OBJECT_NAME_MAX + 1);
    }
    if (!is_alpha(claim)) {
        return false;
    }
    said = said_in_alpha(claim);
    named = wp_str_copy(
        wp_str_from(wp_json_text(said, "sandboxTemplateRef", "name", NULL)),
        templ, WP_CLAIM_OBJECT_NAME_MAX + 1);
    json_decref(said);
    return named && templ[0] != '\0';
}

/* warmpool: none. */
static bool
wants_its_own(const struct wp_object *claim)
{
    json_t *said = said_in_alpha(claim);
    bool none = strcmp(wp_json_text(said, "warmpool", NULL), "none") == 0;

    json_decref(said);
    return none;
}

bool
wp_claim_means_any_pool(const struct wp_object *claim,
                        char templ[WP_CLAIM_OBJECT_NAME_MAX + 1])
{
    return wp_claim_names_template(claim, templ) && !wants_its_own(claim);
}

static const struct wp_object *
find_pool(const struct wp_claim_reconcile *reconcile, const char *name)
{
    return wp_store_find(
        reconcile->self->parts->stores[WP_KIND_SANDBOX_WARM_POOL],
        reconcile->claim->ns, name);
}

bool
wp_claim_may_have_pool(const struct wp_object *claim,
                       const struct wp_object *pool)
{
    char templ[WP_CLAIM_OBJECT_NAME_MAX + 1];

    return strcmp(wp_claim_view(claim)->pool, pool->name) == 0 ||
           (wp_claim_names_template(claim, templ) &&
            strcmp(wp_warm_pool_view(pool)->template_name, templ) == 0 &&
            wp_object_annotation(pool, WP_ANNOTATION_TENANT) == NULL);
}

/* The pool of the template with the most that can be had now. */
struct search {
    const struct wp_claim_reconcile *reconcile;
    const struct wp_object *best;
    uint32_t best_ready;
};

static bool
see_pool(void *ctx, const struct wp_object *pool)
{
    struct search *search = ctx;
    const struct wp_claim_reconcile *reconcile = search->reconcile;
    struct wp_pools *pools = reconcile->self->parts->core.pools;
    struct wp_pool_stats stats = {.ready = 0};
    uint32_t index;

    if (pool->deleting || strcmp(pool->ns, reconcile->claim->ns) != 0 ||
        strcmp(wp_warm_pool_view(pool)->template_name, reconcile->templ) != 0 ||
        wp_object_annotation(pool, WP_ANNOTATION_TENANT) != NULL) {
        return true;
    }
    index =
        wp_pools_index(pools, wp_str_from(pool->ns), wp_str_from(pool->name));
    if (index != UINT32_MAX) {
        wp_pools_stats(pools, index, &stats);
    }
    if (search->best == NULL || stats.ready > search->best_ready) {
        search->best = pool;
        search->best_ready = stats.ready;
    }
    return true;
}

static void
use_pool(struct wp_claim_reconcile *reconcile, const char *name)
{
    /* Kubernetes bounds names; what is longer names nothing. */
    (void)!wp_str_copy(wp_str_from(name), reconcile->pool,
                       sizeof reconcile->pool);
}

void
wp_claim_resolve(struct wp_claim_reconcile *reconcile)
{
    const char *named = wp_claim_view(reconcile->claim)->pool;
    const struct wp_claim_ask *ask = reconcile->entry->ask;
    struct search search = {reconcile, NULL, 0};

    use_pool(reconcile, named);
    reconcile->by_template =
        wp_claim_names_template(reconcile->claim, reconcile->templ);
    if (!reconcile->by_template) {
        return;
    }
    if (wants_its_own(reconcile->claim)) {
        reconcile->pool[0] = '\0';
    } else if (ask != NULL &&
               find_pool(reconcile, wp_claim_ask_pool(ask)) != NULL) {
        use_pool(reconcile, wp_claim_ask_pool(ask));
    } else if (find_pool(reconcile, named) == NULL) {
        wp_store_walk(reconcile->self->parts->stores[WP_KIND_SANDBOX_WARM_POOL],
                      see_pool, &search);
        use_pool(reconcile, search.best != NULL ? search.best->name : "");
    }
}

const struct wp_object *
wp_claim_reconcile_pool(const struct wp_claim_reconcile *reconcile)
{
    return find_pool(reconcile, reconcile->pool);
}

const char *
wp_claim_reconcile_template_name(const struct wp_claim_reconcile *reconcile)
{
    const struct wp_object *pool = wp_claim_reconcile_pool(reconcile);

    return pool != NULL             ? wp_warm_pool_view(pool)->template_name
           : reconcile->by_template ? reconcile->templ
                                    : NULL;
}

const struct wp_object *
wp_claim_reconcile_template(const struct wp_claim_reconcile *reconcile)
{
    const char *name = wp_claim_reconcile_template_name(reconcile);

    return name == NULL
               ? NULL
               : wp_store_find(
                     reconcile->self->parts->stores[WP_KIND_SANDBOX_TEMPLATE],
                     reconcile->claim->ns, name);
}
