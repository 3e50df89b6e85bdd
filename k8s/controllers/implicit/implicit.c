#include "k8s/controllers/implicit/implicit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/controllers/reconcile.h"
#include "k8s/convert/convert.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/objects/owner.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    WORKERS_MAX = 8,
    TEMPLATE_NAME_MAX = 253,
};

#define LOG_AGAIN_NS (60 * WP_NS_PER_S)

/* When a claim of this template came last. */
struct use {
    char ns[WP_NAMESPACE_MAX + 1];
    char templ[TEMPLATE_NAME_MAX + 1]; /* "": this place is free. */
    int64_t last_ns;
};

struct wp_implicit_pools {
    struct wp_parts *parts;
    struct wp_work_queue *queue; /* Keys are templates. */
    int64_t full_logged_ns;      /* 0: never. */
    uint32_t uses_len;           /* The setting implicit_pools_max. */
    struct use uses[];
};

static struct wp_store *
store_of(const struct wp_implicit_pools *pools, enum wp_kind kind)
{
    return pools->parts->stores[kind];
}

static int64_t
now_ns(const struct wp_implicit_pools *pools)
{
    return wp_clock_mono_ns(pools->parts->clock);
}

void
wp_implicit_pool_name(const char *templ, char out[WP_POOL_NAME_MAX + 1])
{
    enum {
        REST_MAX = WP_POOL_NAME_MAX - (sizeof WP_SHADOW_POOL_PREFIX - 1),
        CUT = REST_MAX - WP_NAME_HASH_LEN - 1,
    };
    char hash[WP_NAME_HASH_LEN + 1];
    int len;

    if (strlen(templ) <= REST_MAX) {
        (void)snprintf(out, WP_POOL_NAME_MAX + 1, WP_SHADOW_POOL_PREFIX "%s",
                       templ);
        return;
    }
    wp_name_hash(wp_str_from(templ), hash);
    len = snprintf(out, WP_POOL_NAME_MAX + 1, WP_SHADOW_POOL_PREFIX "%.*s", CUT,
                   templ);
    /* Kubernetes takes no name with ".-" in it. */
    if (out[len - 1] == '.') {
        out[len - 1] = '-';
    }
    (void)snprintf(out + len, (size_t)(WP_POOL_NAME_MAX + 1 - len), "-%s",
                   hash);
}

/* One that somebody gave another template, or took the label from, is theirs.
 */
static bool
is_implicit(const struct wp_object *pool)
{
    char name[WP_POOL_NAME_MAX + 1];

    if (wp_object_label(pool, WP_LABEL_IMPLICIT_POOL) == NULL) {
        return false;
    }
    wp_implicit_pool_name(wp_warm_pool_view(pool)->template_name, name);
    return strcmp(pool->name, name) == 0;
}

/* --- When it was used --- */

static struct use *
find_use(struct wp_implicit_pools *pools, const char *ns, const char *templ)
{
    for (uint32_t i = 0; i < pools->uses_len; i++) {
        struct use *use = &pools->uses[i];

        if (strcmp(use->templ, templ) == 0 && strcmp(use->ns, ns) == 0) {
            return use;
        }
    }
    return NULL;
}

/* NULL: there are as many as may be. */
static struct use *
note_use(struct wp_implicit_pools *pools, const char *ns, const char *templ)
{
    struct use *use = find_use(pools, ns, templ);

    for (uint32_t i = 0; use == NULL && i < pools->uses_len; i++) {
        if (pools->uses[i].templ[0] == '\0') {
            use = &pools->uses[i];
        }
    }
    /* Kubernetes bounds both names. */
    if (use == NULL || !wp_str_copy(wp_str_from(ns), use->ns, sizeof use->ns) ||
        !wp_str_copy(wp_str_from(templ), use->templ, sizeof use->templ)) {
        return NULL;
    }
    use->last_ns = now_ns(pools);
    return use;
}

static void
forget_use(struct wp_implicit_pools *pools, const char *ns, const char *templ)
{
    struct use *use = find_use(pools, ns, templ);

    if (use != NULL) {
        use->templ[0] = '\0';
    }
}

/* --- What there is, and what there should be --- */

static const struct wp_object *
find_pool(const struct wp_implicit_pools *pools, const char *ns,
          const char *templ)
{
    char name[WP_POOL_NAME_MAX + 1];

    wp_implicit_pool_name(templ, name);
    return wp_store_find(store_of(pools, WP_KIND_SANDBOX_WARM_POOL), ns, name);
}

/* A pool that somebody made, and that any claim of the template may have. */
struct search {
    const char *ns;
    const char *templ;
    bool found;
};

static bool
see_pool(void *ctx, const struct wp_object *pool)
{
    struct search *search = ctx;

    search->found =
        !pool->deleting && strcmp(pool->ns, search->ns) == 0 &&
        strcmp(wp_warm_pool_view(pool)->template_name, search->templ) == 0 &&
        wp_object_annotation(pool, WP_ANNOTATION_TENANT) == NULL &&
        !is_implicit(pool);
    return !search->found;
}

static bool
has_other_pool(const struct wp_implicit_pools *pools, const char *ns,
               const char *templ)
{
    struct search search = {ns, templ, false};

    wp_store_walk(store_of(pools, WP_KIND_SANDBOX_WARM_POOL), see_pool,
                  &search);
    return search.found;
}

/* How many sandboxes the pool of this template is to keep; 0: it is to have
 * none. */
static uint32_t
size_of(const struct wp_implicit_pools *pools, const struct wp_object *templ)
{
    int32_t said;

    if (templ == NULL || templ->deleting) {
        return 0;
    }
    said = wp_template_view(templ)->implicit_pool;
    return said >= 0 ? (uint32_t)said : pools->parts->config.implicit_pool;
}

static json_t *
body_of(const struct wp_object *templ, const char *name, uint32_t size)
{
    const struct wp_kind_info *kind = wp_kind_info(WP_KIND_SANDBOX_WARM_POOL);
    json_t *body = json_object();
    json_t *metadata = wp_json_object_at(body, "metadata");
    json_t *owners = json_array();
    json_t *spec = wp_json_object_at(body, "spec");

    if (json_array_append_new(owners, wp_owner_reference(templ)) != 0) {
        wp_json_no_memory();
    }
    (void)wp_json_set_text(body, "apiVersion", kind->api_version);
    (void)wp_json_set_text(body, "kind", kind->kind);
    (void)wp_json_set_text(metadata, "namespace", templ->ns);
    (void)wp_json_set_text(metadata, "name", name);
    (void)wp_json_set(metadata, "ownerReferences", owners);
    (void)wp_json_set_text(
        wp_json_set_text(wp_json_object_at(metadata, "labels"),
                         WP_LABEL_IMPLICIT_POOL, "true"),
        "app.kubernetes.io/managed-by", "warmpool");
    (void)wp_json_set(spec, "replicas", json_integer(size));
    (void)wp_json_set_text(wp_json_object_at(spec, "sandboxTemplateRef"),
                           "name", templ->name);
    return body;
}

/* --- Making and ending it --- */

static void
make_pool(struct wp_implicit_pools *pools, struct wp_reconcile *reconcile,
          const struct wp_object *templ)
{
    static const struct wp_event event = {
        .controller = "sandboxwarmpool-controller",
        .action = "Creation",
        .reason = "ImplicitPoolMade",
    };
    char name[WP_POOL_NAME_MAX + 1];
    struct wp_api_target target = {.kind = WP_KIND_SANDBOX_WARM_POOL,
                                   .ns = templ->ns,
                                   .name = name,
                                   .priority = WP_HTTP_NORMAL};

    wp_implicit_pool_name(templ->name, name);
    wp_events_record(
        pools->parts->events, templ, &event,
        "A claim named this SandboxTemplate, which has no "
        "SandboxWarmPool: \"%s\" is made, and goes when none has "
        "for %lld s",
        name,
        (long long)(pools->parts->config.implicit_pool_idle_ns / WP_NS_PER_S));
    wp_reconcile_post(reconcile, &target,
                      body_of(templ, name, size_of(pools, templ)));
}

static void
reconcile_one(void *ctx, struct wp_work *work, const char *ns, const char *name)
{
    struct wp_implicit_pools *pools = ctx;
    const struct wp_object *templ =
        wp_store_find(store_of(pools, WP_KIND_SANDBOX_TEMPLATE), ns, name);
    const struct wp_object *pool = find_pool(pools, ns, name);
    const struct use *use = find_use(pools, ns, name);
    int64_t left_ns = use == NULL
                          ? 0
                          : use->last_ns - now_ns(pools) +
                                pools->parts->config.implicit_pool_idle_ns;
    bool wanted = left_ns > 0 && size_of(pools, templ) > 0 &&
                  !has_other_pool(pools, ns, name);
    struct wp_reconcile *reconcile;

    if (!pools->parts->active || (pool != NULL && pool->deleting)) {
        wp_work_done(work, WP_WORK_OK, 0);
        return;
    }
    reconcile = wp_reconcile_begin(pools->parts, work);
    if (!wanted) {
        forget_use(pools, ns, name);
        if (pool != NULL && is_implicit(pool)) {
            wp_reconcile_delete(reconcile, pool);
        }
    } else {
        wp_reconcile_again(reconcile, left_ns);
        if (pool == NULL) {
            make_pool(pools, reconcile, templ);
        }
    }
    wp_reconcile_end(reconcile);
}

/* --- What happens --- */

static void
say_full(struct wp_implicit_pools *pools, const struct wp_object *templ)
{
    static const struct wp_event event = {
        .controller = "sandboxwarmpool-controller",
        .action = "Creation",
        .reason = "ImplicitPoolRefused",
        .warning = true,
    };

    wp_events_record(pools->parts->events, templ, &event,
                     "There are %u implicit pools, which is all that "
                     "implicit_pools_max allows: claims of this "
                     "SandboxTemplate start cold",
                     pools->uses_len);
    if (pools->full_logged_ns == 0 ||
        now_ns(pools) - pools->full_logged_ns >= LOG_AGAIN_NS) {
        pools->full_logged_ns = now_ns(pools);
        wp_log_warn("a template gets no implicit pool: raise "
                    "implicit_pools_max",
                    wp_kv_str("namespace", templ->ns),
                    wp_kv_str("template", templ->name),
                    wp_kv_int("implicit_pools_max", (int64_t)pools->uses_len));
    }
}

void
wp_implicit_pools_use(struct wp_implicit_pools *pools, const char *ns,
                      const char *templ)
{
    const struct wp_object *known =
        wp_store_find(store_of(pools, WP_KIND_SANDBOX_TEMPLATE), ns, templ);
    bool had = find_use(pools, ns, templ) != NULL;

    if (size_of(pools, known) == 0 ||
        (!had && has_other_pool(pools, ns, templ))) {
        return;
    }
    if (note_use(pools, ns, templ) == NULL) {
        say_full(pools, known);
    } else if (!had) {
        wp_work_add(pools->queue, ns, templ, false);
    }
}

static void
on_pool(void *ctx, const struct wp_object *before,
        const struct wp_object *after)
{
    struct wp_implicit_pools *pools = ctx;
    const struct wp_object *pool = after != NULL ? after : before;
    const char *templ = wp_warm_pool_view(pool)->template_name;

    if (!pools->parts->active) {
        return; /* look sees all of them. */
    }
    if (after == NULL && is_implicit(pool)) {
        /* Who ended it does not want it back before the next claim. */
        forget_use(pools, pool->ns, templ);
    }
    if (find_use(pools, pool->ns, templ) != NULL &&
        (before == NULL || after == NULL ||
         before->generation != after->generation)) {
        wp_work_add(pools->queue, pool->ns, templ, false);
    }
}

/* It may be gone, or allow it no more. */
static void
on_template(void *ctx, const struct wp_object *before,
            const struct wp_object *after)
{
    struct wp_implicit_pools *pools = ctx;
    const struct wp_object *templ = after != NULL ? after : before;

    if (pools->parts->active && size_of(pools, after) == 0 &&
        find_use(pools, templ->ns, templ->name) != NULL) {
        wp_work_add(pools->queue, templ->ns, templ->name, false);
    }
}

static bool
look_at_each(void *ctx, const struct wp_object *pool)
{
    struct wp_implicit_pools *pools = ctx;

    if (is_implicit(pool)) {
        const char *templ = wp_warm_pool_view(pool)->template_name;

        /* Beyond the bound it has no use, and is ended. */
        (void)note_use(pools, pool->ns, templ);
        wp_work_add(pools->queue, pool->ns, templ, false);
    }
    return true;
}

/* --- Life --- */

void
wp_implicit_pools_look(struct wp_implicit_pools *pools)
{
    for (uint32_t i = 0; i < pools->uses_len; i++) {
        pools->uses[i].templ[0] = '\0';
    }
    wp_store_walk(store_of(pools, WP_KIND_SANDBOX_WARM_POOL), look_at_each,
                  pools);
}

void
wp_implicit_pools_pause(struct wp_implicit_pools *pools, bool paused)
{
    wp_work_pause(pools->queue, paused);
}

struct wp_implicit_pools *
wp_implicit_pools_create(struct wp_parts *parts)
{
    uint32_t len = parts->config.implicit_pools_max;
    struct wp_implicit_pools *pools =
        calloc(1, sizeof *pools + len * sizeof pools->uses[0]);

    if (pools == NULL) {
        return NULL;
    }
    pools->parts = parts;
    pools->uses_len = len;
    pools->queue = wp_parts_queue(parts, WORKERS_MAX, reconcile_one, pools);
    if (pools->queue == NULL) {
        free(pools);
        return NULL;
    }
    wp_store_listen(store_of(pools, WP_KIND_SANDBOX_WARM_POOL), on_pool, pools);
    wp_store_listen(store_of(pools, WP_KIND_SANDBOX_TEMPLATE), on_template,
                    pools);
    return pools;
}

void
wp_implicit_pools_destroy(struct wp_implicit_pools *pools)
{
    if (pools != NULL) {
        wp_work_queue_destroy(pools->queue);
        free(pools);
    }
}
