#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/objects/owner.h"
#include "k8s/controllers/reconcile.h"
#include "k8s/controllers/verdicts.h"
#include "k8s/controllers/pool/controller_impl.h"
#include "k8s/objects/pool_policy.h"
#include "k8s/objects/sandbox_refs.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    CALLS_MAX = 100, /* Of one reconcile, for sandboxes; the rest soon. */
    WORDS_MAX = 384 + WP_VERDICT_WORDS_MAX,
};

#define SOON_NS (100 * WP_NS_PER_MS)
/* The core will know the sandbox in a moment. */
#define UNKNOWN_NS (1 * WP_NS_PER_S)
/* What fails before there is a Sandbox changes no object that is watched. */
#define SHORT_OF_TARGET_NS (5 * WP_NS_PER_S)
#define UNSCHEDULABLE_NS (60 * WP_NS_PER_S)
#define GRACE_SLACK_NS (1 * WP_NS_PER_S)

/* One look at a pool. */
struct look {
    struct wp_pool_controller *controller;
    struct wp_reconcile *reconcile;
    const struct wp_object *pool;
    const struct wp_warm_pool_view *view;
    const struct wp_object *template_; /* NULL: it is not there. */
    int64_t wall_ns;
    uint32_t active; /* The pool's, not claimed, not going. */
    uint32_t ready;
    uint32_t held; /* Not ready in time, for want of room. */
    bool known;    /* To the core, which says: */
    struct wp_pool_stats stats;
};

/* --- Its sandboxes --- */

static bool
may_call(struct look *look)
{
    if (wp_reconcile_calls(look->reconcile) >= CALLS_MAX) {
        wp_reconcile_again(look->reconcile, SOON_NS);
        return false;
    }
    return true;
}

static bool
lacks_launch_type(const struct wp_object *sandbox)
{
    const char *label = wp_object_label(sandbox, WP_LABEL_LAUNCH_TYPE);

    return label == NULL || strcmp(label, "warm") != 0;
}

/* The uid keeps it off another object of that name. */
static void
set_launch_type(struct look *look, const struct wp_object *sandbox)
{
    const struct wp_api_target target =
        wp_object_target(sandbox, WP_HTTP_NORMAL);

    if (may_call(look)) {
        wp_reconcile_patch(look->reconcile, &target,
                           json_pack("{s:{s:s, s:{s:s}}}", "metadata", "uid",
                                     sandbox->uid, "labels",
                                     WP_LABEL_LAUNCH_TYPE, "warm"));
    }
}

/* Makes the pool its controller, unless it has changed since. A merge patch
 * replaces the whole list, so those that it has go along. */
static void
take_in(struct look *look, const struct wp_object *sandbox)
{
    const struct wp_api_target target =
        wp_object_target(sandbox, WP_HTTP_NORMAL);
    json_t *tree = wp_object_json(sandbox);
    json_t *owners =
        wp_json_copy(wp_json_at(tree, "metadata", "ownerReferences", NULL));

    if (owners == NULL) {
        owners = json_array();
    }
    WP_ASSERT(json_array_append_new(owners, wp_owner_reference(look->pool)) ==
              0);
    wp_reconcile_patch(look->reconcile, &target,
                       json_pack("{s:{s:s, s:s, s:o, s:{s:s}}}", "metadata",
                                 "uid", sandbox->uid, "resourceVersion",
                                 sandbox->resource_version, "ownerReferences",
                                 owners, "labels", WP_LABEL_LAUNCH_TYPE,
                                 "warm"));
    json_decref(tree);
}

static bool
is_stale(const struct look *look, const struct wp_object *sandbox)
{
    return look->template_ != NULL &&
           wp_sandbox_is_stale(look->controller->staleness, sandbox,
                               look->template_);
}

static void
look_at_orphan(struct look *look, const struct wp_object *sandbox)
{
    if (!may_call(look)) {
        return;
    }
    if (is_stale(look, sandbox)) {
        wp_log_info("ending a stale sandbox that nobody controls",
                    wp_kv_str("namespace", sandbox->ns),
                    wp_kv_str("sandbox", sandbox->name));
        wp_reconcile_delete(look->reconcile, sandbox);
    } else {
        wp_log_info("taking in a sandbox that nobody controls",
                    wp_kv_str("namespace", sandbox->ns),
                    wp_kv_str("sandbox", sandbox->name),
                    wp_kv_str("pool", look->pool->name));
        take_in(look, sandbox);
    }
}

static void
count(struct look *look, const struct wp_object *sandbox)
{
    const struct wp_sandbox_view *view = wp_sandbox_view(sandbox);
    const struct wp_cluster_config *config = &look->controller->parts->config;
    int64_t left_ns = sandbox->created_wall_ms * WP_NS_PER_MS +
                      (look->known ? look->stats.spec.ready_within_ns
                                   : config->ready_grace_ns) -
                      look->wall_ns;

    look->active++;
    if (view->ready.status == WP_CONDITION_TRUE) {
        look->ready++;
    } else if (left_ns >= 0) {
        wp_reconcile_again(look->reconcile, left_ns + GRACE_SLACK_NS);
    } else if (view->pod_unschedulable) {
        look->held++;
    }
}

/* A lease has it, or it is on its way out; its object does not say so yet. */
static bool
is_leaving(const struct wp_sandbox_ref *ref)
{
    return ref->phase == WP_SANDBOX_ADOPTED ||
           ref->phase == WP_SANDBOX_DELETING || ref->lease != NULL ||
           ref->unwanted;
}

/* Idle ones only: one that is being claimed stays. */
static void
give_up(struct wp_parts *parts, const struct wp_sandbox_ref *ref)
{
    wp_pools_retire(parts->core.pools, ref->ref,
                    WP_STR("its template has changed"));
}

static bool
give_up_if_stale(void *ctx, const struct wp_object *sandbox)
{
    const struct look *look = ctx;
    struct wp_parts *parts = look->controller->parts;
    const struct wp_sandbox_ref *ref =
        wp_sandbox_refs_find(parts->refs, sandbox->ns, sandbox->name);

    if (ref != NULL && !is_leaving(ref) && !sandbox->deleting &&
        wp_object_controlled_by(sandbox, look->pool->uid) &&
        is_stale(look, sandbox)) {
        give_up(parts, ref);
    }
    return true;
}

void
wp_pool_give_up_stale(struct wp_pool_controller *controller,
                      const struct wp_object *pool,
                      const struct wp_object *template_)
{
    struct look look = {
        .controller = controller, .pool = pool, .template_ = template_};
    char hash[WP_NAME_HASH_LEN + 1];

    if (wp_warm_pool_view(pool)->update_strategy == WP_UPDATE_RECREATE) {
        wp_name_hash(wp_str_from(pool->name), hash);
        wp_store_labelled(controller->parts->stores[WP_KIND_SANDBOX], pool->ns,
                          hash, give_up_if_stale, &look);
    }
}

static void
look_at_owned(struct look *look, const struct wp_object *sandbox)
{
    struct wp_parts *parts = look->controller->parts;
    const struct wp_sandbox_ref *ref =
        wp_sandbox_refs_find(parts->refs, sandbox->ns, sandbox->name);

    if (ref != NULL && is_leaving(ref)) {
        return;
    }
    if (look->view->update_strategy == WP_UPDATE_RECREATE &&
        is_stale(look, sandbox)) {
        if (ref != NULL) {
            give_up(parts, ref);
            return;
        }
        wp_reconcile_again(look->reconcile, UNKNOWN_NS);
    }
    if (lacks_launch_type(sandbox)) {
        set_launch_type(look, sandbox);
    }
    count(look, sandbox);
}

static bool
look_at(void *ctx, const struct wp_object *sandbox)
{
    struct look *look = ctx;

    if (sandbox->deleting) {
        return true;
    }
    if (wp_object_controlled_by(sandbox, look->pool->uid)) {
        look_at_owned(look, sandbox);
    } else if (sandbox->controller.kind[0] == '\0') {
        look_at_orphan(look, sandbox);
    }
    return true;
}

/* --- What it says of itself --- */

static void
write_status(struct look *look, const char *hash)
{
    const struct wp_object *pool = look->pool;
    const struct wp_warm_pool_view *view = look->view;
    struct wp_api_target target = wp_object_target(pool, WP_HTTP_NORMAL);
    char selector[sizeof(WP_LABEL_WARM_POOL) + 1 + WP_NAME_HASH_LEN];

    (void)snprintf(selector, sizeof(selector), "%s=%s", WP_LABEL_WARM_POOL,
                   hash);
    if (view->status_replicas == (int64_t)look->active &&
        view->status_ready_replicas == (int64_t)look->ready &&
        view->status_observed_generation == pool->generation &&
        strcmp(view->status_selector, selector) == 0) {
        return;
    }
    target.subresource = "status";
    wp_reconcile_patch(look->reconcile, &target,
                       json_pack("{s:{s:s}, s:{s:I, s:I, s:s, s:I}}",
                                 "metadata", "uid", pool->uid, "status",
                                 "replicas", (json_int_t)look->active,
                                 "readyReplicas", (json_int_t)look->ready,
                                 "selector", selector, "observedGeneration",
                                 (json_int_t)pool->generation));
}

static void
ask_core(struct look *look)
{
    struct wp_pools *pools = look->controller->parts->core.pools;
    uint32_t index = wp_pools_index(pools, wp_str_from(look->pool->ns),
                                    wp_str_from(look->pool->name));

    look->known = index != UINT32_MAX;
    if (look->known) {
        wp_pools_stats(pools, index, &look->stats);
    }
}

/* Whether no Pod of its template can start, with words for it. */
static bool
is_refused(const struct look *look, char words[WORDS_MAX])
{
    const char *why =
        look->template_ == NULL
            ? NULL
            : wp_verdicts_refusal(look->controller->parts->verdicts,
                                  look->template_);

    if (why != NULL) {
        (void)snprintf(words, WORDS_MAX,
                       "The API server refuses every Pod of SandboxTemplate "
                       "\"%.253s\": %s",
                       look->view->template_name, why);
    }
    return why != NULL;
}

/* Whether what the core makes fails, with words for it. */
static bool
is_failing(const struct look *look, char words[WORDS_MAX])
{
    (void)snprintf(words, WORDS_MAX,
                   "What was made last has failed (%s); one is tried at a time",
                   look->stats.last_failure);
    return look->stats.breaker_open;
}

/* spec.replicas, or what a policy makes of it. */
static int64_t
wanted_of(const struct look *look)
{
    return look->known && look->stats.scaled ? look->stats.spec.target
                                             : look->view->replicas;
}

static void
report_progress(struct look *look)
{
    int64_t wanted = wanted_of(look);
    enum wp_pool_hindrance hindrance = WP_POOL_PROGRESSING;
    char words[WORDS_MAX] = "";

    if (look->template_ == NULL && wanted > 0) {
        hindrance = WP_POOL_NO_TEMPLATE;
        (void)snprintf(words, sizeof(words),
                       "There is no SandboxTemplate \"%.253s\"; sandboxes that "
                       "are there are kept, none are made",
                       look->view->template_name);
    } else if (wanted > 0 && is_refused(look, words)) {
        hindrance = WP_POOL_BAD_TEMPLATE;
    } else if (look->held > 0) {
        hindrance = WP_POOL_UNSCHEDULABLE;
        (void)snprintf(words, sizeof(words),
                       "%" PRIu32 " of %" PRId64
                       " sandboxes find no room in the cluster; they are kept, "
                       "since others in their place would find none either",
                       look->held, wanted);
        wp_reconcile_again(look->reconcile, UNSCHEDULABLE_NS);
    } else if (is_failing(look, words)) {
        hindrance = WP_POOL_FAILING;
    }
    if (look->template_ != NULL && (int64_t)look->active < wanted) {
        wp_reconcile_again(look->reconcile, SHORT_OF_TARGET_NS);
    }
    wp_pool_progress_report(look->controller->progress, look->pool, hindrance,
                            words);
}

/* Pools follow their annotations on every replica; one of them speaks. */
static void
report_policy(struct look *look)
{
    struct wp_pool_spec spec;
    struct wp_err err;
    char words[WORDS_MAX] = "";
    enum wp_pool_hindrance hindrance = WP_POOL_PROGRESSING;

    wp_pool_spec_init(&spec);
    if (wp_pool_policy_read(look->pool, &spec, &err) != WP_OK) {
        hindrance = WP_POOL_BAD_POLICY;
        (void)snprintf(words, sizeof(words),
                       "%s; the pool keeps what its annotations said before",
                       err.msg);
    }
    wp_pool_progress_report(look->controller->policies, look->pool, hindrance,
                            words);
}

/* spec.replicas is never written here: whoever changes it is heard. */
static void
report_hand(struct look *look)
{
    bool by_hand = look->known && look->stats.scaled &&
                   look->stats.scale.number > 0 &&
                   look->stats.scale.reason == WP_SCALE_BY_HAND;
    char words[WORDS_MAX] = "";

    if (by_hand) {
        (void)snprintf(words, sizeof(words),
                       "spec.replicas was changed to %" PRIu32
                       ", and holds until the policy changes (annotation "
                       "%sresume)",
                       look->stats.replicas, WP_SCALE_GROUP);
    }
    wp_pool_progress_report(look->controller->hands, look->pool,
                            by_hand ? WP_POOL_BY_HAND : WP_POOL_PROGRESSING,
                            words);
}

/* --- A pool that is gone --- */

/* What a garbage collector would end: the sandboxes of a pool that is gone.
 * One that has a lease keeps its life: its new owner is under way. */
static bool
end_ownerless(void *ctx, const struct wp_object *sandbox)
{
    struct look *look = ctx;
    struct wp_parts *parts = look->controller->parts;
    const struct wp_sandbox_ref *ref =
        wp_sandbox_refs_find(parts->refs, sandbox->ns, sandbox->name);

    if (sandbox->deleting ||
        !wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_WARM_POOL) ||
        wp_store_find_uid(parts->stores[WP_KIND_SANDBOX_WARM_POOL],
                          sandbox->controller.uid) != NULL ||
        (ref != NULL && ref->phase == WP_SANDBOX_ADOPTED)) {
        return true;
    }
    if (may_call(look)) {
        wp_reconcile_delete(look->reconcile, sandbox);
    }
    return true;
}

/* --- The reconcile --- */

void
wp_pool_reconcile(void *ctx, struct wp_work *work, const char *ns,
                  const char *name)
{
    struct wp_pool_controller *controller = ctx;
    struct wp_parts *parts = controller->parts;
    char hash[WP_NAME_HASH_LEN + 1];
    struct look look = {
        .controller = controller,
        .reconcile = wp_reconcile_begin(parts, work),
        .pool =
            wp_store_find(parts->stores[WP_KIND_SANDBOX_WARM_POOL], ns, name),
        .wall_ns = wp_clock_wall_ns(parts->clock),
    };

    wp_name_hash(wp_str_from(name), hash);
    if (look.pool != NULL && !look.pool->deleting) {
        look.view = wp_warm_pool_view(look.pool);
        look.template_ = wp_store_find(parts->stores[WP_KIND_SANDBOX_TEMPLATE],
                                       ns, look.view->template_name);
        ask_core(&look);
        wp_store_labelled(parts->stores[WP_KIND_SANDBOX], ns, hash, look_at,
                          &look);
        write_status(&look, hash);
        report_progress(&look);
        report_policy(&look);
        report_hand(&look);
    } else if (look.pool == NULL && parts->config.gc) {
        wp_store_labelled(parts->stores[WP_KIND_SANDBOX], ns, hash,
                          end_ownerless, &look);
    }
    wp_reconcile_end(look.reconcile);
}
