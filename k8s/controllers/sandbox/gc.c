#include "k8s/controllers/sandbox/gc.h"

#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "pool/base/assert.h"

static const enum wp_kind child_kinds[] = {WP_KIND_POD, WP_KIND_SERVICE,
                                           WP_KIND_VOLUME_CLAIM};

/* Its queue holds the uids of controllers that are not known as sandboxes. */
struct wp_sandbox_gc {
    struct wp_parts *parts;
    struct wp_work_queue *queue;
    uint32_t passes;
    bool active;
};

/* One sandbox that is gone, child by child. */
struct gc_round {
    struct wp_sandbox_gc *gc;
    struct wp_work *work;
    char *uid;
    const struct wp_object *child; /* The one at hand; a reference. */
    json_t *deleted; /* A key for each uid that we have asked for. */
    bool gone;       /* The API server has said so. */
};

static void gc_next(struct gc_round *round);

static bool
is_known(const struct wp_sandbox_gc *gc, const char *uid)
{
    return wp_store_find_uid(gc->parts->stores[WP_KIND_SANDBOX], uid) != NULL;
}

static void
look_at(struct wp_sandbox_gc *gc, const struct wp_object *child)
{
    if (!child->deleting &&
        wp_object_controlled_by_kind(child, WP_KIND_SANDBOX) &&
        !is_known(gc, child->controller.uid)) {
        wp_work_add(gc->queue, child->ns, child->controller.uid, false);
    }
}

static void
on_sandbox(void *ctx, const struct wp_object *before,
           const struct wp_object *after)
{
    struct wp_sandbox_gc *gc = ctx;

    /* One that is replaced by another of its name goes first. */
    if (before != NULL && after == NULL) {
        wp_work_add(gc->queue, before->ns, before->uid, false);
    }
}

static void
on_child(void *ctx, const struct wp_object *before,
         const struct wp_object *after)
{
    (void)before;
    if (after != NULL) {
        look_at(ctx, after);
    }
}

static void
gc_done(struct gc_round *round, enum wp_work_outcome outcome)
{
    wp_object_unref(round->child);
    round->gc->passes--;
    wp_work_done(round->work, outcome, 0);
    json_decref(round->deleted);
    free(round->uid);
    free(round);
}

static bool
take_first(void *ctx, const struct wp_object *child)
{
    struct gc_round *round = ctx;

    if (child->deleting ||
        json_object_get(round->deleted, child->uid) != NULL) {
        return true;
    }
    round->child = wp_object_ref(child);
    return false;
}

/* Takes the next child at hand that is not going yet; false without one. */
static bool
find_child(struct gc_round *round)
{
    struct wp_store *const *stores = round->gc->parts->stores;

    wp_object_unref(round->child);
    round->child = NULL;
    for (size_t i = 0; i < WP_ARRAY_LEN(child_kinds); i++) {
        wp_store_owned_by(stores[child_kinds[i]], round->uid, take_first,
                          round);
        if (round->child != NULL) {
            return true;
        }
    }
    return false;
}

static void
on_asked(void *ctx, const struct wp_api_result *result)
{
    struct gc_round *round = ctx;
    bool other = result->status == WP_OK &&
                 strcmp(wp_json_text(result->object, "metadata", "uid", NULL),
                        round->uid) != 0;

    if (result->status == WP_NOT_FOUND || other) {
        round->gone = true;
        gc_next(round);
        return;
    }
    gc_done(round, result->status == WP_OK ? WP_WORK_OK : WP_WORK_FAILED);
}

static void
on_deleted(void *ctx, const struct wp_api_result *result)
{
    struct gc_round *round = ctx;

    if (result->status != WP_OK && result->status != WP_NOT_FOUND &&
        result->status != WP_ABORTED) {
        gc_done(round, WP_WORK_FAILED);
        return;
    }
    /* The watch has yet to say so; it must not be found again. */
    wp_json_set(round->deleted, round->child->uid, json_true());
    gc_next(round);
}

static void
gc_next(struct gc_round *round)
{
    struct wp_sandbox_gc *gc = round->gc;
    const struct wp_object *child;
    struct wp_api_target target;

    if (!gc->active || is_known(gc, round->uid) || !find_child(round)) {
        gc_done(round, WP_WORK_OK);
        return;
    }
    child = round->child;
    if (!round->gone) {
        wp_api_get(gc->parts->api,
                   &(struct wp_api_target){.kind = WP_KIND_SANDBOX,
                                           .ns = child->ns,
                                           .name = child->controller.name,
                                           .priority = WP_HTTP_NORMAL},
                   on_asked, round);
        return;
    }
    target = wp_object_target(child, WP_HTTP_NORMAL);
    wp_api_delete(gc->parts->api, &target,
                  &(struct wp_api_delete){.uid = child->uid}, on_deleted,
                  round);
}

static void
reconcile(void *ctx, struct wp_work *work, const char *ns, const char *name)
{
    struct wp_sandbox_gc *gc = ctx;
    struct gc_round *round = calloc(1, sizeof *round);

    (void)ns;
    WP_ASSERT(round != NULL);
    round->gc = gc;
    round->work = work;
    round->uid = strdup(name);
    round->deleted = json_object();
    WP_ASSERT(round->uid != NULL && round->deleted != NULL);
    gc->passes++;
    gc_next(round);
}

struct wp_sandbox_gc *
wp_sandbox_gc_create(struct wp_parts *parts)
{
    struct wp_sandbox_gc *gc = calloc(1, sizeof *gc);

    if (gc == NULL) {
        return NULL;
    }
    gc->parts = parts;
    gc->queue = wp_parts_queue(parts, 64, reconcile, gc);
    if (gc->queue == NULL) {
        free(gc);
        return NULL;
    }
    wp_store_listen(parts->stores[WP_KIND_SANDBOX], on_sandbox, gc);
    for (size_t i = 0; i < WP_ARRAY_LEN(child_kinds); i++) {
        wp_store_listen(parts->stores[child_kinds[i]], on_child, gc);
    }
    return gc;
}

void
wp_sandbox_gc_destroy(struct wp_sandbox_gc *gc)
{
    if (gc == NULL) {
        return;
    }
    WP_ASSERT(gc->passes == 0);
    wp_work_queue_destroy(gc->queue);
    free(gc);
}

static bool
look_at_each(void *ctx, const struct wp_object *child)
{
    look_at(ctx, child);
    return true;
}

void
wp_sandbox_gc_activate(struct wp_sandbox_gc *gc, bool active)
{
    gc->active = active;
    wp_work_pause(gc->queue, !active);
    for (size_t i = 0; active && i < WP_ARRAY_LEN(child_kinds); i++) {
        wp_store_walk(gc->parts->stores[child_kinds[i]], look_at_each, gc);
    }
}
