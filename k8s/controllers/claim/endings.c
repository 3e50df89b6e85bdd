#include "k8s/controllers/claim/endings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "pool/base/assert.h"

enum {
    WORKERS_MAX = 32,
    KEY_MAX = 512,
};

struct wp_claim_endings {
    struct wp_parts *parts;
    struct wp_claim_metrics *metrics;
    struct wp_work_queue *queue;
    json_t *wanted; /* {"namespace/name": [uid, controller's uid]} */
};

/* One deletion under way. */
struct ending {
    struct wp_claim_endings *endings;
    struct wp_work *work;
    const char *ns; /* As long as work. */
    const char *name;
};

static void
key_of(const char *ns, const char *name, char out[KEY_MAX])
{
    (void)snprintf(out, KEY_MAX, "%s/%s", ns, name);
}

static void
forget(struct wp_claim_endings *endings, const char *ns, const char *name)
{
    char key[KEY_MAX];

    key_of(ns, name, key);
    (void)json_object_del(endings->wanted, key);
}

/* The Sandbox, while it is to go; NULL. */
static const struct wp_object *
find(struct wp_claim_endings *endings, const char *ns, const char *name)
{
    const struct wp_object *sandbox =
        wp_store_find(endings->parts->stores[WP_KIND_SANDBOX], ns, name);
    const json_t *wanted;
    char key[KEY_MAX];

    key_of(ns, name, key);
    wanted = json_object_get(endings->wanted, key);
    return sandbox != NULL && wanted != NULL && !sandbox->deleting &&
                   strcmp(json_string_value(json_array_get(wanted, 0)),
                          sandbox->uid) == 0 &&
                   strcmp(json_string_value(json_array_get(wanted, 1)),
                          sandbox->controller.uid) == 0
               ? sandbox
               : NULL;
}

static void
answered(void *ctx, const struct wp_api_result *result)
{
    struct ending *ending = ctx;
    struct wp_work *work = ending->work;
    bool over = result->status == WP_OK || result->status == WP_NOT_FOUND ||
                result->status == WP_CANCELLED;

    if (over) {
        forget(ending->endings, ending->ns, ending->name);
    }
    free(ending);
    if (over) {
        wp_work_done(work, WP_WORK_OK, 0);
    } else if (result->retry_after_ns > 0) {
        wp_work_done(work, WP_WORK_AFTER, result->retry_after_ns);
    } else {
        /* ABORTED: somebody has changed it; the watch tells what it is now. */
        wp_work_done(work, WP_WORK_FAILED, 0);
    }
}

static void
reconcile(void *ctx, struct wp_work *work, const char *ns, const char *name)
{
    struct wp_claim_endings *endings = ctx;
    const struct wp_object *sandbox =
        endings->parts->active ? find(endings, ns, name) : NULL;
    struct wp_api_target target;
    struct ending *ending;

    if (sandbox == NULL) {
        forget(endings, ns, name);
        wp_work_done(work, WP_WORK_OK, 0);
        return;
    }
    ending = calloc(1, sizeof *ending);
    WP_ASSERT(ending != NULL);
    *ending = (struct ending){endings, work, ns, name};
    target = wp_object_target(sandbox, WP_HTTP_NORMAL);
    wp_counter_add(&endings->metrics->writes[WP_CLAIM_WRITE_DELETE], 1);
    wp_api_delete(
        endings->parts->api, &target,
        &(struct wp_api_delete){.uid = sandbox->uid,
                                .resource_version = sandbox->resource_version},
        answered, ending);
}

struct wp_claim_endings *
wp_claim_endings_create(struct wp_parts *parts,
                        struct wp_claim_metrics *metrics)
{
    struct wp_claim_endings *endings = calloc(1, sizeof *endings);

    if (endings == NULL) {
        return NULL;
    }
    endings->parts = parts;
    endings->metrics = metrics;
    endings->wanted = json_object();
    endings->queue = wp_parts_queue(parts, WORKERS_MAX, reconcile, endings);
    if (endings->wanted == NULL || endings->queue == NULL) {
        wp_claim_endings_destroy(endings);
        return NULL;
    }
    return endings;
}

void
wp_claim_endings_destroy(struct wp_claim_endings *endings)
{
    if (endings != NULL) {
        wp_work_queue_destroy(endings->queue);
        json_decref(endings->wanted);
        free(endings);
    }
}

void
wp_claim_endings_add(struct wp_claim_endings *endings,
                     const struct wp_object *sandbox)
{
    char key[KEY_MAX];

    key_of(sandbox->ns, sandbox->name, key);
    if (find(endings, sandbox->ns, sandbox->name) == NULL) {
        wp_json_set(endings->wanted, key,
                    json_pack("[s,s]", sandbox->uid, sandbox->controller.uid));
        wp_work_add(endings->queue, sandbox->ns, sandbox->name, false);
    }
}

void
wp_claim_endings_pause(struct wp_claim_endings *endings, bool paused)
{
    wp_work_pause(endings->queue, paused);
}
