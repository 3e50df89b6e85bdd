#include "k8s/controllers/pool/controller_impl.h"

#include <stdlib.h>
#include <string.h>

#include "k8s/controllers/verdicts.h"
#include "k8s/objects/names.h"
#include "pool/base/assert.h"

enum {
    POOLS_AT_ONCE = 16,
};

/* A sandbox's change shows in its pool's status so much later. What comes in
 * between is one write: a pool that is refilled by hundreds, or that serves
 * claims and is whole again before it is looked at, costs next to nothing. */
#define GATHER_NS (500 * WP_NS_PER_MS)

/* --- What leads to a look at a pool --- */

static void
on_pool(void *ctx, const struct wp_object *before,
        const struct wp_object *after)
{
    struct wp_pool_controller *controller = ctx;

    if (after == NULL) {
        wp_pool_progress_forget(controller->progress, before->uid);
        wp_pool_progress_forget(controller->policies, before->uid);
        wp_pool_progress_forget(controller->hands, before->uid);
        wp_work_forget(controller->queue, before->ns, before->name);
        if (controller->parts->config.gc) {
            wp_work_add(controller->queue, before->ns, before->name, false);
        }
    } else if (before == NULL || before->generation != after->generation ||
               strcmp(before->uid, after->uid) != 0) {
        wp_work_add(controller->queue, after->ns, after->name, false);
    } else {
        wp_work_add_after(controller->queue, after->ns, after->name, GATHER_NS);
    }
}

/* A walk over pools, for those that a sandbox or a template means. */
struct search {
    struct wp_pool_controller *controller;
    const char *ns;
    const char *name_hash;             /* NULL: any. */
    const char *template_name;         /* NULL: any. */
    const struct wp_object *template_; /* As it is now; may be NULL. */
};

static bool
add_if_meant(void *ctx, const struct wp_object *pool)
{
    const struct search *search = ctx;
    char hash[WP_NAME_HASH_LEN + 1];

    if (strcmp(pool->ns, search->ns) != 0) {
        return true;
    }
    if (search->template_name != NULL &&
        strcmp(wp_warm_pool_view(pool)->template_name, search->template_name) !=
            0) {
        return true;
    }
    if (search->name_hash != NULL) {
        wp_name_hash(wp_str_from(pool->name), hash);
        if (strcmp(hash, search->name_hash) != 0) {
            return true;
        }
    }
    if (search->template_ != NULL && search->controller->parts->active) {
        wp_pool_give_up_stale(search->controller, pool, search->template_);
    }
    wp_work_add(search->controller->queue, pool->ns, pool->name, false);
    return true;
}

static void
add_meant(const struct search *search)
{
    struct search copy = *search;

    wp_store_walk(search->controller->parts->stores[WP_KIND_SANDBOX_WARM_POOL],
                  add_if_meant, &copy);
}

static void
add_pool_of(struct wp_pool_controller *controller,
            const struct wp_object *sandbox)
{
    const char *label;

    if (wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_WARM_POOL)) {
        wp_work_add_after(controller->queue, sandbox->ns,
                          sandbox->controller.name, GATHER_NS);
        return;
    }
    label = wp_object_label(sandbox, WP_LABEL_WARM_POOL);
    if (sandbox->controller.kind[0] == '\0' && label != NULL) {
        add_meant(&(struct search){
            .controller = controller, .ns = sandbox->ns, .name_hash = label});
    }
}

static void
on_sandbox(void *ctx, const struct wp_object *before,
           const struct wp_object *after)
{
    if (before != NULL) {
        add_pool_of(ctx, before);
    }
    if (after != NULL) {
        add_pool_of(ctx, after);
    }
}

static bool
makes_the_same(const struct wp_template_view *a,
               const struct wp_template_view *b)
{
    return a->has_tier == b->has_tier && (!a->has_tier || a->tier == b->tier) &&
           memcmp(a->blueprint_hashes, b->blueprint_hashes,
                  sizeof(a->blueprint_hashes)) == 0;
}

/* Most changes of a template, such as our own label on it, mean nothing here.
 */
static void
on_template(void *ctx, const struct wp_object *before,
            const struct wp_object *after)
{
    const struct wp_object *either = after != NULL ? after : before;

    WP_ASSERT(either != NULL);
    if (before != NULL && after != NULL &&
        makes_the_same(wp_template_view(before), wp_template_view(after))) {
        return;
    }
    add_meant(&(struct search){.controller = ctx,
                               .ns = either->ns,
                               .template_name = either->name,
                               .template_ = after});
}

/* The API server takes Pods of this template no more, or again. */
static void
on_verdict(void *ctx, const struct wp_object *template_)
{
    add_meant(&(struct search){.controller = ctx,
                               .ns = template_->ns,
                               .template_name = template_->name});
}

/* --- Life --- */

static void
pool_destroy(void *self)
{
    struct wp_pool_controller *controller = self;

    if (controller == NULL) {
        return;
    }
    wp_work_queue_destroy(controller->queue);
    wp_pool_progress_destroy(controller->hands);
    wp_pool_progress_destroy(controller->policies);
    wp_pool_progress_destroy(controller->progress);
    wp_staleness_destroy(controller->staleness);
    free(controller);
}

static void *
pool_create(struct wp_parts *parts, struct wp_err *err)
{
    struct wp_pool_controller *controller = calloc(1, sizeof(*controller));

    if (controller == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "pool controller: memory");
        return NULL;
    }
    controller->parts = parts;
    controller->queue =
        wp_parts_queue(parts, POOLS_AT_ONCE, wp_pool_reconcile, controller);
    controller->staleness = wp_staleness_create(parts->config.default_tier);
    controller->progress =
        wp_pool_progress_create(parts->events, WP_POOL_SANDBOXES);
    controller->policies =
        wp_pool_progress_create(parts->events, WP_POOL_POLICY);
    controller->hands = wp_pool_progress_create(parts->events, WP_POOL_HAND);
    if (controller->queue == NULL || controller->staleness == NULL ||
        controller->progress == NULL || controller->policies == NULL ||
        controller->hands == NULL) {
        pool_destroy(controller);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "pool controller: memory");
        return NULL;
    }
    wp_store_listen(parts->stores[WP_KIND_SANDBOX_WARM_POOL], on_pool,
                    controller);
    wp_store_listen(parts->stores[WP_KIND_SANDBOX], on_sandbox, controller);
    wp_store_listen(parts->stores[WP_KIND_SANDBOX_TEMPLATE], on_template,
                    controller);
    if (parts->verdicts != NULL) {
        wp_verdicts_listen(parts->verdicts, on_verdict, controller);
    }
    return controller;
}

static bool
add_pool(void *ctx, const struct wp_object *pool)
{
    struct wp_pool_controller *controller = ctx;

    wp_work_add(controller->queue, pool->ns, pool->name, false);
    return true;
}

static bool
add_pool_of_each(void *ctx, const struct wp_object *sandbox)
{
    add_pool_of(ctx, sandbox);
    return true;
}

static void
pool_activate(void *self)
{
    struct wp_pool_controller *controller = self;
    struct wp_parts *parts = controller->parts;

    wp_store_walk(parts->stores[WP_KIND_SANDBOX_WARM_POOL], add_pool,
                  controller);
    if (parts->config.gc) {
        /* Also of pools that went while nobody led. */
        wp_store_walk(parts->stores[WP_KIND_SANDBOX], add_pool_of_each,
                      controller);
    }
    wp_work_pause(controller->queue, false);
}

static void
pool_deactivate(void *self)
{
    struct wp_pool_controller *controller = self;

    wp_work_pause(controller->queue, true);
}

static void
pool_stats(const void *self, struct wp_work_queue_stats *out)
{
    const struct wp_pool_controller *controller = self;

    wp_work_queue_stats(controller->queue, out);
}

const struct wp_controller_ops wp_pool_controller_ops = {
    .name = "pool",
    .create = pool_create,
    .activate = pool_activate,
    .deactivate = pool_deactivate,
    .destroy = pool_destroy,
    .stats = pool_stats,
};
