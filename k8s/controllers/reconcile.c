#include "k8s/controllers/reconcile.h"

#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/log.h"

struct wp_reconcile {
    struct wp_parts *parts;
    struct wp_work *work;
    uint32_t calls;
    uint32_t pending; /* Calls, and one until wp_reconcile_end. */
    bool failed;
    int64_t again_ns; /* WP_TIME_NEVER: only when something changes. */
};

/* One call under way. */
struct call {
    struct wp_reconcile *reconcile;
    const char *verb; /* Static storage. */
    bool is_delete;
};

struct wp_reconcile *
wp_reconcile_begin(struct wp_parts *parts, struct wp_work *work)
{
    struct wp_reconcile *reconcile = calloc(1, sizeof(*reconcile));

    WP_ASSERT(reconcile != NULL);
    reconcile->parts = parts;
    reconcile->work = work;
    reconcile->pending = 1;
    reconcile->again_ns = WP_TIME_NEVER;
    return reconcile;
}

static void
let_go(struct wp_reconcile *reconcile)
{
    enum wp_work_outcome outcome = WP_WORK_OK;

    reconcile->pending--;
    if (reconcile->pending > 0) {
        return;
    }
    if (reconcile->failed) {
        outcome = WP_WORK_FAILED;
    } else if (reconcile->again_ns != WP_TIME_NEVER) {
        outcome = WP_WORK_AFTER;
    }
    wp_work_done(reconcile->work, outcome,
                 outcome == WP_WORK_AFTER ? reconcile->again_ns : 0);
    free(reconcile);
}

static void
learn(struct wp_reconcile *reconcile, const struct wp_api_result *result)
{
    struct wp_store *store = reconcile->parts->stores[result->kind];
    struct wp_object *object;
    struct wp_err err;

    if (store == NULL || result->object == NULL) {
        return;
    }
    object = wp_object_create(result->kind, result->object, &err);
    if (object == NULL) {
        wp_log_warn("an answer of the API server makes no sense",
                    wp_kv_str("kind", wp_kind_info(result->kind)->kind),
                    wp_kv_err(&err));
        return;
    }
    wp_store_learn(store, object);
}

static void
on_done(void *ctx, const struct wp_api_result *result)
{
    struct call *call = ctx;
    struct wp_reconcile *reconcile = call->reconcile;

    switch ((int)result->status) {
    case WP_OK:
        /* A delete is answered with a Status or with an object on its way out:
         * the watch says which. */
        if (!call->is_delete) {
            learn(reconcile, result);
        }
        break;
    case WP_NOT_FOUND:
    case WP_ABORTED:
    case WP_CANCELLED:
        break;
    default:
        if (result->namespace_leaves) {
            break;
        }
        wp_log_warn("the API server did not do what a controller asked for",
                    wp_kv_str("verb", call->verb),
                    wp_kv_str("kind", wp_kind_info(result->kind)->kind),
                    wp_kv_str("status", wp_status_text(result->status)),
                    wp_kv_str("message", result->message));
        reconcile->failed = true;
        break;
    }
    free(call);
    let_go(reconcile);
}

static struct call *
call_new(struct wp_reconcile *reconcile, const char *verb)
{
    struct call *call = calloc(1, sizeof(*call));

    WP_ASSERT(call != NULL);
    call->reconcile = reconcile;
    call->verb = verb;
    reconcile->calls++;
    reconcile->pending++;
    return call;
}

void
wp_reconcile_post(struct wp_reconcile *reconcile,
                  const struct wp_api_target *target, json_t *body)
{
    wp_api_post(reconcile->parts->api, target, body, on_done,
                call_new(reconcile, "create"));
}

void
wp_reconcile_put(struct wp_reconcile *reconcile,
                 const struct wp_api_target *target, json_t *body)
{
    wp_api_put(reconcile->parts->api, target, body, on_done,
               call_new(reconcile, "update"));
}

void
wp_reconcile_patch(struct wp_reconcile *reconcile,
                   const struct wp_api_target *target, json_t *body)
{
    wp_api_patch(reconcile->parts->api, target, body, on_done,
                 call_new(reconcile, "patch"));
}

void
wp_reconcile_delete(struct wp_reconcile *reconcile,
                    const struct wp_object *object)
{
    const struct wp_api_target target =
        wp_object_target(object, WP_HTTP_NORMAL);
    const struct wp_api_delete how = {
        .uid = object->uid, .resource_version = object->resource_version};
    struct call *call = call_new(reconcile, "delete");

    call->is_delete = true;
    wp_api_delete(reconcile->parts->api, &target, &how, on_done, call);
}

uint32_t
wp_reconcile_calls(const struct wp_reconcile *reconcile)
{
    return reconcile->calls;
}

void
wp_reconcile_again(struct wp_reconcile *reconcile, int64_t delay_ns)
{
    if (delay_ns < reconcile->again_ns) {
        reconcile->again_ns = delay_ns;
    }
}

void
wp_reconcile_end(struct wp_reconcile *reconcile)
{
    let_go(reconcile);
}
