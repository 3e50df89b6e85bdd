#include "k8s/controllers/reconcile.h"

#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/log.h"

struct wp_pass {
    struct wp_parts *parts;
    struct wp_work *work;
    uint32_t calls;
    uint32_t pending; /* Calls, and one until wp_pass_end. */
    bool failed;
    int64_t again_ns; /* WP_TIME_NEVER: only when something changes. */
};

/* One call under way. */
struct call {
    struct wp_pass *pass;
    enum wp_kind kind;
    const char *verb; /* Static storage. */
    bool is_delete;
};

struct wp_pass *
wp_pass_begin(struct wp_parts *parts, struct wp_work *work)
{
    struct wp_pass *pass = calloc(1, sizeof(*pass));

    WP_ASSERT(pass != NULL);
    pass->parts = parts;
    pass->work = work;
    pass->pending = 1;
    pass->again_ns = WP_TIME_NEVER;
    return pass;
}

static void
let_go(struct wp_pass *pass)
{
    enum wp_work_outcome outcome = WP_WORK_OK;

    pass->pending--;
    if (pass->pending > 0) {
        return;
    }
    if (pass->failed) {
        outcome = WP_WORK_FAILED;
    } else if (pass->again_ns != WP_TIME_NEVER) {
        outcome = WP_WORK_AFTER;
    }
    wp_work_done(pass->work, outcome,
                 outcome == WP_WORK_AFTER ? pass->again_ns : 0);
    free(pass);
}

static void
learn(struct wp_pass *pass, enum wp_kind kind, const json_t *json)
{
    struct wp_store *store = pass->parts->stores[kind];
    struct wp_object *object;
    struct wp_err err;

    if (store == NULL || json == NULL) {
        return;
    }
    object = wp_object_create(kind, json, &err);
    if (object == NULL) {
        wp_log_warn("an answer of the API server makes no sense",
                    wp_kv_str("kind", wp_kind_info(kind)->kind),
                    wp_kv_err(&err));
        return;
    }
    wp_store_learn(store, object);
}

static void
on_done(void *ctx, const struct wp_api_result *result)
{
    struct call *call = ctx;
    struct wp_pass *pass = call->pass;

    switch ((int)result->status) {
    case WP_OK:
        /* A delete is answered with a Status or with an object on its way out:
         * the watch says which. */
        if (!call->is_delete) {
            learn(pass, call->kind, result->object);
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
                    wp_kv_str("kind", wp_kind_info(call->kind)->kind),
                    wp_kv_str("status", wp_status_text(result->status)),
                    wp_kv_str("message", result->message));
        pass->failed = true;
        break;
    }
    free(call);
    let_go(pass);
}

static struct call *
call_new(struct wp_pass *pass, enum wp_kind kind, const char *verb)
{
    struct call *call = calloc(1, sizeof(*call));

    WP_ASSERT(call != NULL);
    call->pass = pass;
    call->kind = kind;
    call->verb = verb;
    pass->calls++;
    pass->pending++;
    return call;
}

void
wp_pass_post(struct wp_pass *pass, const struct wp_api_target *target,
             json_t *body)
{
    wp_api_post(pass->parts->api, target, body, on_done,
                call_new(pass, target->kind, "create"));
}

void
wp_pass_put(struct wp_pass *pass, const struct wp_api_target *target,
            json_t *body)
{
    wp_api_put(pass->parts->api, target, body, on_done,
               call_new(pass, target->kind, "update"));
}

void
wp_pass_patch(struct wp_pass *pass, const struct wp_api_target *target,
              json_t *body)
{
    wp_api_patch(pass->parts->api, target, body, on_done,
                 call_new(pass, target->kind, "patch"));
}

void
wp_pass_delete(struct wp_pass *pass, const struct wp_object *object)
{
    const struct wp_api_target target = wp_pass_target(object);
    const struct wp_api_delete how = {
        .uid = object->uid, .resource_version = object->resource_version};
    struct call *call = call_new(pass, object->kind, "delete");

    call->is_delete = true;
    wp_api_delete(pass->parts->api, &target, &how, on_done, call);
}

uint32_t
wp_pass_calls(const struct wp_pass *pass)
{
    return pass->calls;
}

void
wp_pass_again(struct wp_pass *pass, int64_t delay_ns)
{
    if (delay_ns < pass->again_ns) {
        pass->again_ns = delay_ns;
    }
}

void
wp_pass_end(struct wp_pass *pass)
{
    let_go(pass);
}

struct wp_api_target
wp_pass_target(const struct wp_object *object)
{
    return (struct wp_api_target){.kind = object->kind,
                                  .ns = object->ns,
                                  .name = object->name,
                                  .priority = WP_HTTP_NORMAL};
}
