#include "k8s/controllers/sandbox/reconcile.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/controllers/sandbox/expiry.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    /* A reconcile that has made so many calls is going in circles: something
     * undoes what it does. The queue's growing pauses deal with that better. */
    CALLS_MAX = 16,
    /* The wall clock may be set; so nothing waits longer without a look. */
    EXPIRY_LOOK_S = 3600,
};

struct wp_sandbox_steps {
    wp_sandbox_step *list[8]; /* Ends with NULL. */
};
static const struct wp_sandbox_steps steps_running = {
    {wp_sandbox_step_volumes, wp_sandbox_step_pod, wp_sandbox_step_pod_name,
     wp_sandbox_step_service, wp_sandbox_step_status, NULL}};
static const struct wp_sandbox_steps steps_expired = {
    {wp_sandbox_step_mark_expired, wp_sandbox_step_end_pods,
     wp_sandbox_step_end_service, wp_sandbox_step_end_sandbox, NULL}};

struct wp_store *
wp_sandbox_reconcile_store(const struct wp_sandbox_reconcile *reconcile,
                           enum wp_kind kind)
{
    return reconcile->controller->parts->stores[kind];
}

const struct wp_object *
wp_sandbox_reconcile_find(const struct wp_sandbox_reconcile *reconcile,
                          enum wp_kind kind, const char *name)
{
    if (reconcile->got != NULL) {
        return reconcile->got;
    }
    return wp_store_find(wp_sandbox_reconcile_store(reconcile, kind),
                         reconcile->sandbox->ns, name);
}

static void
drop_answer(struct wp_sandbox_reconcile *reconcile)
{
    wp_object_unref(reconcile->got);
    json_decref(reconcile->got_json);
    reconcile->got = NULL;
    reconcile->got_json = NULL;
    reconcile->missing = false;
    reconcile->lost = false;
    reconcile->said[0] = '\0';
}

void
wp_sandbox_reconcile_forget(struct wp_sandbox_reconcile *reconcile)
{
    drop_answer(reconcile);
    reconcile->written = false;
}

/* Ends the work last: it may begin the next reconcile for this sandbox. */
static void
reconcile_end(struct wp_sandbox_reconcile *reconcile)
{
    struct wp_sandbox_controller *controller = reconcile->controller;
    int64_t wall_ns = wp_clock_wall_ns(controller->parts->clock);
    int64_t expires_ns =
        reconcile->steps == &steps_expired
            ? -1
            : wp_sandbox_expires_in_ns(reconcile->sandbox, wall_ns);
    bool failed = reconcile->retry ||
                  (reconcile->error[0] != '\0' && reconcile->pods < 2);
    int64_t after_ns = reconcile->wait_ns;

    if (expires_ns > EXPIRY_LOOK_S * WP_NS_PER_S) {
        expires_ns = EXPIRY_LOOK_S * WP_NS_PER_S;
    }
    if (expires_ns >= 0 && (after_ns < 0 || expires_ns < after_ns)) {
        after_ns = expires_ns;
    }
    if (reconcile->look_ns >= 0 &&
        (after_ns < 0 || reconcile->look_ns < after_ns)) {
        after_ns = reconcile->look_ns;
    }
    if (failed && reconcile->pause_ns >= 0) {
        wp_work_done(reconcile->work, WP_WORK_AFTER, reconcile->pause_ns);
    } else if (failed) {
        wp_work_done(reconcile->work, WP_WORK_FAILED, 0);
    } else if (after_ns >= 0) {
        wp_work_done(reconcile->work, WP_WORK_AFTER, after_ns);
    } else {
        wp_work_done(reconcile->work, WP_WORK_OK, 0);
    }
    if (failed && after_ns >= 0) {
        wp_work_add_after(controller->queue, reconcile->sandbox->ns,
                          reconcile->sandbox->name, after_ns);
    }
    controller->reconciles--;
    wp_sandbox_reconcile_forget(reconcile);
    wp_object_unref(reconcile->pod);
    wp_object_unref(reconcile->sandbox);
    json_decref(reconcile->json);
    free(reconcile);
}

static void
reconcile_run(struct wp_sandbox_reconcile *reconcile)
{
    while (reconcile->steps->list[reconcile->step] != NULL) {
        enum wp_sandbox_step_end end = WP_STEP_NEXT;

        if (!reconcile->controller->active) {
            reconcile->retry = true;
            break;
        }
        if (!reconcile->failed) {
            end = reconcile->steps->list[reconcile->step](reconcile);
        }
        if (end == WP_STEP_WAIT) {
            return;
        }
        wp_sandbox_reconcile_forget(reconcile);
        reconcile->index = 0;
        reconcile->failed = false;
        if (end == WP_STEP_STOP) {
            break;
        }
        reconcile->step++;
    }
    reconcile_end(reconcile);
}

void
wp_sandbox_reconcile_begin(struct wp_sandbox_controller *controller,
                           struct wp_work *work,
                           const struct wp_object *sandbox)
{
    struct wp_sandbox_reconcile *reconcile = calloc(1, sizeof *reconcile);
    int64_t wall_ns = wp_clock_wall_ns(controller->parts->clock);

    WP_ASSERT(reconcile != NULL);
    reconcile->controller = controller;
    reconcile->work = work;
    reconcile->sandbox = wp_object_ref(sandbox);
    reconcile->json = wp_object_json(sandbox);
    WP_ASSERT(reconcile->json != NULL);
    reconcile->service = WP_SERVICE_UNKNOWN;
    reconcile->pause_ns = -1;
    reconcile->wait_ns = -1;
    reconcile->look_ns = -1;
    reconcile->steps = wp_sandbox_expires_in_ns(sandbox, wall_ns) == 0
                           ? &steps_expired
                           : &steps_running;
    wp_name_hash(wp_str_from(sandbox->name), reconcile->hash);
    controller->reconciles++;
    reconcile_run(reconcile);
}

enum wp_sandbox_step_end
wp_sandbox_reconcile_refuse(struct wp_sandbox_reconcile *reconcile,
                            const char *fmt, ...)
{
    size_t len = strlen(reconcile->error);
    va_list args;

    if (len > 0 && len + 1 < sizeof reconcile->error) {
        reconcile->error[len++] = '\n';
        reconcile->error[len] = '\0';
    }
    va_start(args, fmt);
    (void)vsnprintf(reconcile->error + len, sizeof reconcile->error - len, fmt,
                    args);
    va_end(args);
    return WP_STEP_NEXT;
}

static enum wp_sandbox_step_end
try_again(struct wp_sandbox_reconcile *reconcile, int64_t pause_ns)
{
    reconcile->retry = true;
    reconcile->pause_ns = pause_ns;
    return WP_STEP_STOP;
}

/* A call ended badly. What only somebody else can put right is said in a
 * condition; the rest passes, and is no news to anybody. */
static void
call_failed(struct wp_sandbox_reconcile *reconcile,
            const struct wp_api_result *result)
{
    const char *kind = wp_kind_info(reconcile->kind)->kind;
    const char *message = result->message != NULL ? result->message : "";

    wp_log_debug("sandbox: call failed",
                 wp_kv_str("namespace", reconcile->sandbox->ns),
                 wp_kv_str("sandbox", reconcile->sandbox->name),
                 wp_kv_str("kind", kind), wp_kv_int("code", result->code),
                 wp_kv_str("status", wp_status_name(result->status)),
                 wp_kv_str("message", message));
    if (reconcile->kind != WP_KIND_SANDBOX &&
        (result->status == WP_INVALID_ARGUMENT ||
         result->status == WP_PERMISSION_DENIED)) {
        (void)wp_sandbox_reconcile_refuse(reconcile, "%s %s: %s", kind,
                                          reconcile->name, message);
        reconcile->failed = true;
        reconcile_run(reconcile);
        return;
    }
    (void)try_again(reconcile, result->retry_after_ns);
    reconcile_end(reconcile);
}

/* The answer becomes `got`. False when it is not what it should be. */
static bool
take_answer(struct wp_sandbox_reconcile *reconcile,
            const struct wp_api_result *result)
{
    struct wp_err err;
    const struct wp_object *object =
        wp_object_create(reconcile->kind, result->object, &err);

    drop_answer(reconcile);
    if (object == NULL) {
        wp_log_warn("sandbox: malformed answer", wp_kv_err(&err));
        return false;
    }
    reconcile->got = object;
    reconcile->got_json = json_incref(result->object);
    return true;
}

static void
learn(const struct wp_sandbox_reconcile *reconcile,
      const struct wp_object *object)
{
    wp_store_learn(wp_sandbox_reconcile_store(reconcile, object->kind),
                   wp_object_ref(object));
}

/* A write came to nothing, after all. It is tried again after a pause; what the
 * server said of it is told. */
static void
not_done(struct wp_sandbox_reconcile *reconcile)
{
    if (reconcile->said[0] == '\0') {
        (void)try_again(reconcile, -1);
        reconcile_end(reconcile);
        return;
    }
    (void)wp_sandbox_reconcile_refuse(reconcile, "%s %s: %s",
                                      wp_kind_info(reconcile->kind)->kind,
                                      reconcile->name, reconcile->said);
    reconcile->failed = true;
    reconcile_run(reconcile);
}

static void
on_read(void *ctx, const struct wp_api_result *result)
{
    struct wp_sandbox_reconcile *reconcile = ctx;

    if (result->status == WP_NOT_FOUND && reconcile->lost) {
        not_done(reconcile);
        return;
    }
    if (result->status == WP_NOT_FOUND) {
        drop_answer(reconcile);
        reconcile->missing = true;
    } else if (result->status != WP_OK) {
        call_failed(reconcile, result);
        return;
    } else if (!take_answer(reconcile, result)) {
        (void)try_again(reconcile, -1);
        reconcile_end(reconcile);
        return;
    }
    reconcile_run(reconcile);
}

static bool
begin_call(struct wp_sandbox_reconcile *reconcile, enum wp_kind kind,
           const char *name)
{
    if (++reconcile->calls > CALLS_MAX + 3 * (uint32_t)reconcile->index) {
        return false;
    }
    reconcile->kind = kind;
    (void)snprintf(reconcile->name, sizeof reconcile->name, "%s", name);
    return true;
}

static enum wp_http_priority
making_priority(const struct wp_sandbox_reconcile *reconcile)
{
    return wp_sandbox_is_pooled(reconcile->sandbox) ? WP_HTTP_REFILL
                                                    : WP_HTTP_CLAIM;
}

static void
read_object(struct wp_sandbox_reconcile *reconcile)
{
    wp_api_get(reconcile->controller->parts->api,
               &(struct wp_api_target){.kind = reconcile->kind,
                                       .ns = reconcile->sandbox->ns,
                                       .name = reconcile->name,
                                       .priority = making_priority(reconcile)},
               on_read, reconcile);
}

enum wp_sandbox_step_end
wp_sandbox_reconcile_get(struct wp_sandbox_reconcile *reconcile,
                         enum wp_kind kind, const char *name)
{
    if (!begin_call(reconcile, kind, name)) {
        return try_again(reconcile, -1);
    }
    read_object(reconcile);
    return WP_STEP_WAIT;
}

static void
on_written(void *ctx, const struct wp_api_result *result)
{
    struct wp_sandbox_reconcile *reconcile = ctx;

    if (result->status == WP_ALREADY_EXISTS ||
        result->status == WP_UNKNOWN_OUTCOME) {
        /* What is there now decides. */
        reconcile->lost = true;
        if (result->status == WP_UNKNOWN_OUTCOME && result->code > 0) {
            (void)snprintf(reconcile->said, sizeof reconcile->said, "%s",
                           result->message != NULL ? result->message : "");
        }
        reconcile->unsure += result->status == WP_UNKNOWN_OUTCOME;
        if (reconcile->unsure > 1) {
            not_done(reconcile); /* A read in between has changed nothing. */
            return;
        }
        read_object(reconcile);
        return;
    }
    if (result->status != WP_OK) {
        call_failed(reconcile, result);
        return;
    }
    if (!take_answer(reconcile, result)) {
        (void)try_again(reconcile, -1);
        reconcile_end(reconcile);
        return;
    }
    reconcile->written = true;
    learn(reconcile, reconcile->got);
    reconcile_run(reconcile);
}

enum wp_sandbox_step_end
wp_sandbox_reconcile_post(struct wp_sandbox_reconcile *reconcile,
                          enum wp_kind kind, const char *name, json_t *body)
{
    if (!begin_call(reconcile, kind, name)) {
        json_decref(body);
        return try_again(reconcile, -1);
    }
    wp_api_post(reconcile->controller->parts->api,
                &(struct wp_api_target){.kind = kind,
                                        .ns = reconcile->sandbox->ns,
                                        .priority = making_priority(reconcile)},
                body, on_written, reconcile);
    return WP_STEP_WAIT;
}

enum wp_sandbox_step_end
wp_sandbox_reconcile_patch(struct wp_sandbox_reconcile *reconcile,
                           const struct wp_object *object,
                           enum wp_http_priority priority, json_t *body)
{
    const struct wp_api_target target = wp_object_target(object, priority);

    if (!begin_call(reconcile, object->kind, object->name)) {
        json_decref(body);
        return try_again(reconcile, -1);
    }
    wp_api_patch(reconcile->controller->parts->api, &target, body, on_written,
                 reconcile);
    return WP_STEP_WAIT;
}

/* What a call answered is the sandbox from here on. False when the reconcile
 * has ended: the answer is malformed, it is another sandbox, or the time of one
 * that was being ended is not over any more. Learning it leads back to it. */
static bool
take_sandbox(struct wp_sandbox_reconcile *reconcile,
             const struct wp_api_result *result)
{
    bool same;

    if (!take_answer(reconcile, result)) {
        (void)try_again(reconcile, -1);
        reconcile_end(reconcile);
        return false;
    }
    same = strcmp(reconcile->got->uid, reconcile->sandbox->uid) == 0;
    wp_object_unref(reconcile->sandbox);
    json_decref(reconcile->json);
    reconcile->sandbox = reconcile->got;
    reconcile->json = reconcile->got_json;
    reconcile->got = NULL;
    reconcile->got_json = NULL;
    learn(reconcile, reconcile->sandbox);
    if (!same ||
        (reconcile->steps == &steps_expired &&
         wp_sandbox_expires_in_ns(
             reconcile->sandbox,
             wp_clock_wall_ns(reconcile->controller->parts->clock)) != 0)) {
        reconcile_end(reconcile);
        return false;
    }
    return true;
}

static void
on_sandbox_read(void *ctx, const struct wp_api_result *result)
{
    struct wp_sandbox_reconcile *reconcile = ctx;

    if (result->status == WP_NOT_FOUND) {
        reconcile_end(reconcile);
    } else if (result->status != WP_OK) {
        call_failed(reconcile, result);
    } else if (take_sandbox(reconcile, result)) {
        reconcile->confirmed = true;
        reconcile_run(reconcile);
    }
}

enum wp_sandbox_step_end
wp_sandbox_reconcile_confirm(struct wp_sandbox_reconcile *reconcile)
{
    const struct wp_api_target target =
        wp_object_target(reconcile->sandbox, WP_HTTP_NORMAL);

    if (!begin_call(reconcile, WP_KIND_SANDBOX, target.name)) {
        return try_again(reconcile, -1);
    }
    wp_api_get(reconcile->controller->parts->api, &target, on_sandbox_read,
               reconcile);
    return WP_STEP_WAIT;
}

/* Somebody else has changed the sandbox: what it is now decides. */
static void
sandbox_changed(struct wp_sandbox_reconcile *reconcile)
{
    if (wp_sandbox_reconcile_confirm(reconcile) != WP_STEP_WAIT) {
        reconcile_end(reconcile);
    }
}

static void
on_sandbox_written(void *ctx, const struct wp_api_result *result)
{
    struct wp_sandbox_reconcile *reconcile = ctx;

    if (result->status == WP_NOT_FOUND) {
        reconcile_end(
            reconcile); /* It is gone, and with it all there was to do. */
        return;
    }
    if (result->status == WP_ABORTED) {
        sandbox_changed(reconcile);
        return;
    }
    if (result->status != WP_OK) {
        call_failed(reconcile, result);
        return;
    }
    if (take_sandbox(reconcile, result)) {
        reconcile->written = true;
        reconcile->confirmed = true;
        reconcile_run(reconcile);
    }
}

enum wp_sandbox_step_end
wp_sandbox_reconcile_patch_sandbox(struct wp_sandbox_reconcile *reconcile,
                                   const char *subresource,
                                   enum wp_http_priority priority, json_t *body)
{
    struct wp_api_target target =
        wp_object_target(reconcile->sandbox, priority);

    target.subresource = subresource;
    if (!begin_call(reconcile, WP_KIND_SANDBOX, target.name)) {
        json_decref(body);
        return try_again(reconcile, -1);
    }
    wp_api_patch(reconcile->controller->parts->api, &target, body,
                 on_sandbox_written, reconcile);
    return WP_STEP_WAIT;
}

static void
on_deleted(void *ctx, const struct wp_api_result *result)
{
    struct wp_sandbox_reconcile *reconcile = ctx;

    if (result->status == WP_ABORTED && reconcile->kind == WP_KIND_SANDBOX) {
        sandbox_changed(reconcile);
        return;
    }
    if (result->status != WP_OK && result->status != WP_NOT_FOUND) {
        call_failed(reconcile, result);
        return;
    }
    /* An answer that shows it as going is news; a mere Status is not. */
    if (wp_json_text(result->object, "metadata", "deletionTimestamp",
                     NULL)[0] != '\0' &&
        take_answer(reconcile, result)) {
        learn(reconcile, reconcile->got);
    }
    drop_answer(reconcile);
    reconcile->written = true;
    reconcile_run(reconcile);
}

enum wp_sandbox_step_end
wp_sandbox_reconcile_delete(struct wp_sandbox_reconcile *reconcile,
                            const struct wp_object *object)
{
    const struct wp_api_target target =
        wp_object_target(object, WP_HTTP_NORMAL);
    const struct wp_api_delete how = {
        .uid = object->uid,
        .resource_version =
            object->kind == WP_KIND_SANDBOX ? object->resource_version : NULL,
    };

    if (!begin_call(reconcile, object->kind, object->name)) {
        return try_again(reconcile, -1);
    }
    wp_api_delete(reconcile->controller->parts->api, &target, &how, on_deleted,
                  reconcile);
    return WP_STEP_WAIT;
}
