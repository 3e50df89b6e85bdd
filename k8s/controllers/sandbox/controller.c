#include "k8s/controllers/sandbox/controller.h"

#include <stdlib.h>

#include "k8s/objects/json.h"
#include "k8s/controllers/sandbox/child.h"
#include "k8s/controllers/sandbox/gc.h"
#include "k8s/controllers/sandbox/reconcile.h"
#include "pool/base/assert.h"

enum {
    /* More than requests can be under way, so that reconciles that wait for a
     * refill's turn never keep one from starting that somebody waits for. */
    WORKERS_MAX = 512
};

bool
wp_sandbox_is_pooled(const struct wp_object *sandbox)
{
    return wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_WARM_POOL);
}

static int64_t
urgency_delay_ns(const struct wp_object *sandbox,
                 enum wp_status_urgency urgency)
{
    if (urgency == WP_STATUS_LAZY) {
        return WP_STATUS_LAZY_MS * WP_NS_PER_MS;
    }
    return (wp_sandbox_is_pooled(sandbox) ? WP_STATUS_SOON_POOLED_MS
                                          : WP_STATUS_SOON_MS) *
           WP_NS_PER_MS;
}

int64_t
wp_sandbox_status_delay_ns(struct wp_sandbox_controller *controller,
                           const struct wp_object *sandbox,
                           enum wp_status_urgency urgency)
{
    int64_t now_ns = wp_clock_mono_ns(controller->parts->clock);
    int64_t by_ns = now_ns + urgency_delay_ns(sandbox, urgency);
    const json_t *set = json_object_get(controller->deadlines, sandbox->uid);

    if (set != NULL && json_integer_value(set) <= by_ns) {
        by_ns = json_integer_value(set);
    } else {
        wp_json_set(controller->deadlines, sandbox->uid, json_integer(by_ns));
    }
    return by_ns > now_ns ? by_ns - now_ns : 0;
}

void
wp_sandbox_status_settled(struct wp_sandbox_controller *controller,
                          const char *uid)
{
    (void)json_object_del(controller->deadlines, uid);
}

static void
look_at(struct wp_sandbox_controller *controller,
        const struct wp_object *sandbox)
{
    if (!sandbox->deleting) {
        /* Those that a user waits for go before those that fill a pool. */
        bool first =
            !wp_sandbox_is_pooled(sandbox) &&
            wp_sandbox_view(sandbox)->ready.status != WP_CONDITION_TRUE;

        wp_work_add(controller->queue, sandbox->ns, sandbox->name, first);
    }
}

static void
on_sandbox(void *ctx, const struct wp_object *before,
           const struct wp_object *after)
{
    struct wp_sandbox_controller *controller = ctx;

    if (after == NULL ||
        (before != NULL && strcmp(before->uid, after->uid) != 0)) {
        wp_sandbox_status_settled(controller, before->uid);
    }
    if (after == NULL) {
        wp_work_forget(controller->queue, before->ns, before->name);
        return;
    }
    look_at(controller, after);
}

/* The sandbox that has the child, or whose name it holds. */
static void
on_child_version(struct wp_sandbox_controller *controller,
                 const struct wp_object *child)
{
    const struct wp_object *sandbox;
    const char *name = child->name;

    if (wp_object_controlled_by_kind(child, WP_KIND_SANDBOX)) {
        name = child->controller.name;
    }
    sandbox = wp_store_find(controller->parts->stores[WP_KIND_SANDBOX],
                            child->ns, name);
    if (sandbox != NULL) {
        look_at(controller, sandbox);
    }
}

static void
on_child(void *ctx, const struct wp_object *before,
         const struct wp_object *after)
{
    if (before != NULL) {
        on_child_version(ctx, before);
    }
    if (after != NULL) {
        on_child_version(ctx, after);
    }
}

/* What happens to a volume claim is of interest only when its controller
 * changes, or it comes or goes. */
static void
on_volume_claim(void *ctx, const struct wp_object *before,
                const struct wp_object *after)
{
    if (before == NULL || after == NULL ||
        strcmp(before->controller.uid, after->controller.uid) != 0) {
        on_child(ctx, before, after);
    }
}

static void
reconcile(void *ctx, struct wp_work *work, const char *ns, const char *name)
{
    struct wp_sandbox_controller *controller = ctx;
    const struct wp_object *sandbox =
        wp_store_find(controller->parts->stores[WP_KIND_SANDBOX], ns, name);

    if (sandbox == NULL || sandbox->deleting) {
        wp_work_done(work, WP_WORK_OK, 0);
        return;
    }
    wp_sandbox_reconcile_begin(controller, work, sandbox);
}

static void
controller_destroy(void *self)
{
    struct wp_sandbox_controller *controller = self;

    if (controller == NULL) {
        return;
    }
    WP_ASSERT(controller->reconciles == 0);
    wp_sandbox_gc_destroy(controller->gc);
    wp_work_queue_destroy(controller->queue);
    json_decref(controller->deadlines);
    free(controller);
}

/* WP_OK, or err says which watch it lacks. */
static enum wp_status
listen_to_stores(struct wp_sandbox_controller *controller, struct wp_err *err)
{
    static const struct {
        enum wp_kind kind;
        wp_store_listener *listener;
    } rows[] = {{WP_KIND_SANDBOX, on_sandbox},
                {WP_KIND_POD, on_child},
                {WP_KIND_SERVICE, on_child},
                {WP_KIND_VOLUME_CLAIM, on_volume_claim}};
    struct wp_store *const *stores = controller->parts->stores;

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        if (stores[rows[i].kind] == NULL) {
            return wp_err_set(err, WP_FAILED_PRECONDITION,
                              "the sandbox controller needs a watch of %s",
                              wp_kind_info(rows[i].kind)->plural);
        }
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        wp_store_listen(stores[rows[i].kind], rows[i].listener, controller);
    }
    return WP_OK;
}

static void *
controller_create(struct wp_parts *parts, struct wp_err *err)
{
    struct wp_sandbox_controller *controller = calloc(1, sizeof *controller);

    if (controller == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    controller->parts = parts;
    controller->deadlines = json_object();
    controller->queue =
        wp_parts_queue(parts, WORKERS_MAX, reconcile, controller);
    if (controller->deadlines == NULL || controller->queue == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
        controller_destroy(controller);
        return NULL;
    }
    if (listen_to_stores(controller, err) != WP_OK) {
        controller_destroy(controller);
        return NULL;
    }
    if (parts->config.gc) {
        controller->gc = wp_sandbox_gc_create(parts);
        if (controller->gc == NULL) {
            (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
            controller_destroy(controller);
            return NULL;
        }
    }
    return controller;
}

static bool
look_at_each(void *ctx, const struct wp_object *sandbox)
{
    look_at(ctx, sandbox);
    return true;
}

static void
controller_activate(void *self)
{
    struct wp_sandbox_controller *controller = self;

    controller->active = true;
    wp_store_walk(controller->parts->stores[WP_KIND_SANDBOX], look_at_each,
                  controller);
    wp_work_pause(controller->queue, false);
    if (controller->gc != NULL) {
        wp_sandbox_gc_activate(controller->gc, true);
    }
}

static void
controller_deactivate(void *self)
{
    struct wp_sandbox_controller *controller = self;

    controller->active = false;
    wp_work_pause(controller->queue, true);
    (void)json_object_clear(controller->deadlines);
    if (controller->gc != NULL) {
        wp_sandbox_gc_activate(controller->gc, false);
    }
}

static void
controller_stats(const void *self, struct wp_work_queue_stats *out)
{
    const struct wp_sandbox_controller *controller = self;

    wp_work_queue_stats(controller->queue, out);
}

const struct wp_controller_ops wp_sandbox_controller_ops = {
    .name = "sandbox",
    .create = controller_create,
    .activate = controller_activate,
    .deactivate = controller_deactivate,
    .destroy = controller_destroy,
    .stats = controller_stats,
};
