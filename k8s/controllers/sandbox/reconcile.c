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
    /* A pass that has made so many calls is going in circles: something undoes
     * what it does. The queue's growing pauses deal with that better. */
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
wp_sandbox_pass_store(const struct wp_sandbox_pass *pass, enum wp_kind kind)
{
    return pass->controller->parts->stores[kind];
}

const struct wp_object *
wp_sandbox_pass_find(const struct wp_sandbox_pass *pass, enum wp_kind kind,
                     const char *name)
{
    if (pass->got != NULL) {
        return pass->got;
    }
    return wp_store_find(wp_sandbox_pass_store(pass, kind), pass->sandbox->ns,
                         name);
}

static void
drop_answer(struct wp_sandbox_pass *pass)
{
    wp_object_unref(pass->got);
    json_decref(pass->got_json);
    pass->got = NULL;
    pass->got_json = NULL;
    pass->missing = false;
}

void
wp_sandbox_pass_forget(struct wp_sandbox_pass *pass)
{
    drop_answer(pass);
    pass->written = false;
}

/* Ends the work last: it may begin the next pass for this sandbox. */
static void
pass_end(struct wp_sandbox_pass *pass)
{
    struct wp_sandbox_controller *controller = pass->controller;
    int64_t wall_ns = wp_clock_wall_ns(controller->parts->clock);
    int64_t expires_ns = pass->steps == &steps_expired
                             ? -1
                             : wp_sandbox_expires_in_ns(pass->sandbox, wall_ns);
    bool failed = pass->retry || (pass->error[0] != '\0' && pass->pods < 2);
    int64_t after_ns = pass->wait_ns;

    if (expires_ns > EXPIRY_LOOK_S * WP_NS_PER_S) {
        expires_ns = EXPIRY_LOOK_S * WP_NS_PER_S;
    }
    if (expires_ns >= 0 && (after_ns < 0 || expires_ns < after_ns)) {
        after_ns = expires_ns;
    }
    if (failed && pass->pause_ns >= 0) {
        wp_work_done(pass->work, WP_WORK_AFTER, pass->pause_ns);
    } else if (failed) {
        wp_work_done(pass->work, WP_WORK_FAILED, 0);
    } else if (after_ns >= 0) {
        wp_work_done(pass->work, WP_WORK_AFTER, after_ns);
    } else {
        wp_work_done(pass->work, WP_WORK_OK, 0);
    }
    if (failed && after_ns >= 0) {
        wp_work_add_after(controller->queue, pass->sandbox->ns,
                          pass->sandbox->name, after_ns);
    }
    controller->passes--;
    wp_sandbox_pass_forget(pass);
    wp_object_unref(pass->pod);
    wp_object_unref(pass->sandbox);
    json_decref(pass->json);
    free(pass);
}

static void
pass_run(struct wp_sandbox_pass *pass)
{
    while (pass->steps->list[pass->step] != NULL) {
        enum wp_sandbox_step_end end = WP_STEP_NEXT;

        if (!pass->controller->active) {
            pass->retry = true;
            break;
        }
        if (!pass->failed) {
            end = pass->steps->list[pass->step](pass);
        }
        if (end == WP_STEP_WAIT) {
            return;
        }
        wp_sandbox_pass_forget(pass);
        pass->index = 0;
        pass->failed = false;
        if (end == WP_STEP_STOP) {
            break;
        }
        pass->step++;
    }
    pass_end(pass);
}

void
wp_sandbox_pass_begin(struct wp_sandbox_controller *controller,
                      struct wp_work *work, const struct wp_object *sandbox)
{
    struct wp_sandbox_pass *pass = calloc(1, sizeof *pass);
    int64_t wall_ns = wp_clock_wall_ns(controller->parts->clock);

    WP_ASSERT(pass != NULL);
    pass->controller = controller;
    pass->work = work;
    pass->sandbox = wp_object_ref(sandbox);
    pass->json = wp_object_json(sandbox);
    WP_ASSERT(pass->json != NULL);
    pass->service = WP_SERVICE_UNKNOWN;
    pass->pause_ns = -1;
    pass->wait_ns = -1;
    pass->steps = wp_sandbox_expires_in_ns(sandbox, wall_ns) == 0
                      ? &steps_expired
                      : &steps_running;
    wp_name_hash(wp_str_from(sandbox->name), pass->hash);
    controller->passes++;
    pass_run(pass);
}

enum wp_sandbox_step_end
wp_sandbox_pass_refuse(struct wp_sandbox_pass *pass, const char *fmt, ...)
{
    size_t len = strlen(pass->error);
    va_list args;

    if (len > 0 && len + 1 < sizeof pass->error) {
        pass->error[len++] = '\n';
        pass->error[len] = '\0';
    }
    va_start(args, fmt);
    (void)vsnprintf(pass->error + len, sizeof pass->error - len, fmt, args);
    va_end(args);
    return WP_STEP_NEXT;
}

static enum wp_sandbox_step_end
try_again(struct wp_sandbox_pass *pass, int64_t pause_ns)
{
    pass->retry = true;
    pass->pause_ns = pause_ns;
    return WP_STEP_STOP;
}

/* A call ended badly. What only somebody else can put right is said in a
 * condition; the rest passes, and is no news to anybody. */
static void
call_failed(struct wp_sandbox_pass *pass, const struct wp_api_result *result)
{
    const char *kind = wp_kind_info(pass->kind)->kind;
    const char *message = result->message != NULL ? result->message : "";

    wp_log_debug("sandbox: call failed",
                 wp_kv_str("namespace", pass->sandbox->ns),
                 wp_kv_str("sandbox", pass->sandbox->name),
                 wp_kv_str("kind", kind), wp_kv_int("code", result->code),
                 wp_kv_str("status", wp_status_name(result->status)),
                 wp_kv_str("message", message));
    if (pass->kind != WP_KIND_SANDBOX &&
        (result->status == WP_INVALID_ARGUMENT ||
         result->status == WP_PERMISSION_DENIED)) {
        (void)wp_sandbox_pass_refuse(pass, "%s %s: %s", kind, pass->name,
                                     message);
        pass->failed = true;
        pass_run(pass);
        return;
    }
    (void)try_again(pass, result->retry_after_ns);
    pass_end(pass);
}

/* The answer becomes `got`. False when it is not what it should be. */
static bool
take_answer(struct wp_sandbox_pass *pass, const struct wp_api_result *result)
{
    struct wp_err err;
    const struct wp_object *object =
        wp_object_create(pass->kind, result->object, &err);

    drop_answer(pass);
    if (object == NULL) {
        wp_log_warn("sandbox: malformed answer", wp_kv_err(&err));
        return false;
    }
    pass->got = object;
    pass->got_json = json_incref(result->object);
    return true;
}

static void
learn(const struct wp_sandbox_pass *pass, const struct wp_object *object)
{
    wp_store_learn(wp_sandbox_pass_store(pass, object->kind),
                   wp_object_ref(object));
}

static void
on_read(void *ctx, const struct wp_api_result *result)
{
    struct wp_sandbox_pass *pass = ctx;

    if (result->status == WP_NOT_FOUND) {
        drop_answer(pass);
        pass->missing = true;
    } else if (result->status != WP_OK) {
        call_failed(pass, result);
        return;
    } else if (!take_answer(pass, result)) {
        (void)try_again(pass, -1);
        pass_end(pass);
        return;
    }
    pass_run(pass);
}

static bool
begin_call(struct wp_sandbox_pass *pass, enum wp_kind kind, const char *name)
{
    if (++pass->calls > CALLS_MAX + 3 * (uint32_t)pass->index) {
        return false;
    }
    pass->kind = kind;
    (void)snprintf(pass->name, sizeof pass->name, "%s", name);
    return true;
}

static enum wp_http_priority
making_priority(const struct wp_sandbox_pass *pass)
{
    return wp_sandbox_is_pooled(pass->sandbox) ? WP_HTTP_REFILL : WP_HTTP_CLAIM;
}

static void
read_object(struct wp_sandbox_pass *pass)
{
    wp_api_get(pass->controller->parts->api,
               &(struct wp_api_target){.kind = pass->kind,
                                       .ns = pass->sandbox->ns,
                                       .name = pass->name,
                                       .priority = making_priority(pass)},
               on_read, pass);
}

enum wp_sandbox_step_end
wp_sandbox_pass_get(struct wp_sandbox_pass *pass, enum wp_kind kind,
                    const char *name)
{
    if (!begin_call(pass, kind, name)) {
        return try_again(pass, -1);
    }
    read_object(pass);
    return WP_STEP_WAIT;
}

static void
on_written(void *ctx, const struct wp_api_result *result)
{
    struct wp_sandbox_pass *pass = ctx;

    if (result->status == WP_ALREADY_EXISTS ||
        result->status == WP_UNKNOWN_OUTCOME) {
        /* What is there now decides. */
        read_object(pass);
        return;
    }
    if (result->status != WP_OK) {
        call_failed(pass, result);
        return;
    }
    if (!take_answer(pass, result)) {
        (void)try_again(pass, -1);
        pass_end(pass);
        return;
    }
    pass->written = true;
    learn(pass, pass->got);
    pass_run(pass);
}

enum wp_sandbox_step_end
wp_sandbox_pass_post(struct wp_sandbox_pass *pass, enum wp_kind kind,
                     const char *name, json_t *body)
{
    if (!begin_call(pass, kind, name)) {
        json_decref(body);
        return try_again(pass, -1);
    }
    wp_api_post(pass->controller->parts->api,
                &(struct wp_api_target){.kind = kind,
                                        .ns = pass->sandbox->ns,
                                        .priority = making_priority(pass)},
                body, on_written, pass);
    return WP_STEP_WAIT;
}

enum wp_sandbox_step_end
wp_sandbox_pass_patch(struct wp_sandbox_pass *pass,
                      const struct wp_object *object,
                      enum wp_http_priority priority, json_t *body)
{
    if (!begin_call(pass, object->kind, object->name)) {
        json_decref(body);
        return try_again(pass, -1);
    }
    wp_api_patch(pass->controller->parts->api,
                 &(struct wp_api_target){.kind = object->kind,
                                         .ns = object->ns,
                                         .name = object->name,
                                         .priority = priority},
                 body, on_written, pass);
    return WP_STEP_WAIT;
}

static void
on_sandbox_written(void *ctx, const struct wp_api_result *result)
{
    struct wp_sandbox_pass *pass = ctx;

    if (result->status == WP_NOT_FOUND) {
        pass_end(pass); /* It is gone, and with it all there was to do. */
        return;
    }
    if (result->status != WP_OK) {
        call_failed(pass, result);
        return;
    }
    if (!take_answer(pass, result)) {
        (void)try_again(pass, -1);
        pass_end(pass);
        return;
    }
    wp_object_unref(pass->sandbox);
    json_decref(pass->json);
    pass->sandbox = pass->got;
    pass->json = pass->got_json;
    pass->got = NULL;
    pass->got_json = NULL;
    pass->written = true;
    learn(pass, pass->sandbox);
    pass_run(pass);
}

enum wp_sandbox_step_end
wp_sandbox_pass_patch_sandbox(struct wp_sandbox_pass *pass,
                              const char *subresource,
                              enum wp_http_priority priority, json_t *body)
{
    const struct wp_object *sandbox = pass->sandbox;

    if (!begin_call(pass, WP_KIND_SANDBOX, sandbox->name)) {
        json_decref(body);
        return try_again(pass, -1);
    }
    wp_api_patch(pass->controller->parts->api,
                 &(struct wp_api_target){.kind = WP_KIND_SANDBOX,
                                         .ns = sandbox->ns,
                                         .name = sandbox->name,
                                         .subresource = subresource,
                                         .priority = priority},
                 body, on_sandbox_written, pass);
    return WP_STEP_WAIT;
}

static void
on_deleted(void *ctx, const struct wp_api_result *result)
{
    struct wp_sandbox_pass *pass = ctx;

    if (result->status != WP_OK && result->status != WP_NOT_FOUND) {
        call_failed(pass, result);
        return;
    }
    /* An answer that shows it as going is news; a mere Status is not. */
    if (wp_json_text(result->object, "metadata", "deletionTimestamp",
                     NULL)[0] != '\0' &&
        take_answer(pass, result)) {
        learn(pass, pass->got);
    }
    drop_answer(pass);
    pass->written = true;
    pass_run(pass);
}

enum wp_sandbox_step_end
wp_sandbox_pass_delete(struct wp_sandbox_pass *pass,
                       const struct wp_object *object)
{
    if (!begin_call(pass, object->kind, object->name)) {
        return try_again(pass, -1);
    }
    wp_api_delete(pass->controller->parts->api,
                  &(struct wp_api_target){.kind = object->kind,
                                          .ns = object->ns,
                                          .name = object->name,
                                          .priority = WP_HTTP_NORMAL},
                  &(struct wp_api_delete){.uid = object->uid}, on_deleted,
                  pass);
    return WP_STEP_WAIT;
}
