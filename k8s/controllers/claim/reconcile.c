#include "k8s/controllers/claim/reconcile.h"

#include <stdlib.h>
#include <string.h>

#include "k8s/controllers/claim/cold.h"
#include "k8s/controllers/claim/expiry.h"
#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

/* A claim whose pool or template is missing is looked at again after this, if
 * nothing was heard before. */
#define MISSING_AGAIN_NS (60 * WP_NS_PER_S)

enum wp_claim_fate
wp_claim_fate(enum wp_status status)
{
    static const enum wp_claim_fate fates[WP_STATUS_COUNT] = {
        [WP_OK] = WP_FATE_DONE,
        [WP_PENDING] = WP_FATE_RETRY,
        [WP_CANCELLED] = WP_FATE_STOP,
        [WP_INVALID_ARGUMENT] = WP_FATE_REFUSED,
        [WP_DEADLINE_EXCEEDED] = WP_FATE_RETRY,
        [WP_NOT_FOUND] = WP_FATE_LOOK,
        [WP_ALREADY_EXISTS] = WP_FATE_LOOK,
        [WP_PERMISSION_DENIED] = WP_FATE_REFUSED,
        [WP_RESOURCE_EXHAUSTED] = WP_FATE_RETRY,
        [WP_FAILED_PRECONDITION] = WP_FATE_RETRY,
        [WP_ABORTED] = WP_FATE_LOOK,
        [WP_UNIMPLEMENTED] = WP_FATE_RETRY,
        [WP_INTERNAL] = WP_FATE_RETRY,
        [WP_UNAVAILABLE] = WP_FATE_RETRY,
        [WP_UNAUTHENTICATED] = WP_FATE_RETRY,
        [WP_TAKEN] = WP_FATE_RETRY,
        [WP_UNKNOWN_OUTCOME] = WP_FATE_LOOK,
    };

    return fates[status];
}

void
wp_claim_pass_end(struct wp_claim_pass *pass, enum wp_work_outcome outcome,
                  int64_t after_ns)
{
    struct wp_work *work = pass->work;

    WP_ASSERT(pass->awaited == 0);
    if (pass->entry != NULL && pass->entry->joins == pass) {
        pass->entry->joins = NULL;
    }
    wp_object_unref(pass->claim);
    wp_object_unref(pass->sandbox);
    json_decref(pass->additional);
    free(pass);
    wp_work_done(work, outcome, after_ns);
}

void
wp_claim_pass_retry(struct wp_claim_pass *pass,
                    const struct wp_api_result *result)
{
    if (result->status == WP_CANCELLED) {
        wp_claim_pass_end(pass, WP_WORK_OK, 0);
    } else if (result->retry_after_ns > 0) {
        wp_claim_pass_end(pass, WP_WORK_AFTER, result->retry_after_ns);
    } else {
        wp_log_debug(
            "claim: a call failed", wp_kv_str("namespace", pass->claim->ns),
            wp_kv_str("claim", pass->claim->name),
            wp_kv_str("status", wp_status_name(result->status)),
            wp_kv_str("error", result->message != NULL ? result->message : ""));
        wp_claim_pass_end(pass, WP_WORK_FAILED, 0);
    }
}

void
wp_claim_pass_arrive(struct wp_claim_pass *pass)
{
    WP_ASSERT(pass->awaited > 0);
    if (--pass->awaited == 0) {
        pass->next(pass);
    }
}

bool
wp_claim_pass_may_write(struct wp_claim_pass *pass)
{
    if (!pass->self->parts->active) {
        /* Whoever leads now looks at every claim. */
        wp_claim_pass_end(pass, WP_WORK_OK, 0);
        return false;
    }
    return true;
}

int64_t
wp_claim_pass_wall_ns(const struct wp_claim_pass *pass)
{
    return wp_clock_wall_ns(pass->self->parts->clock);
}

struct wp_api_target
wp_claim_target(const struct wp_object *object, enum wp_http_priority priority)
{
    return (struct wp_api_target){.kind = object->kind,
                                  .ns = object->ns,
                                  .name = object->name,
                                  .priority = priority};
}

const struct wp_object *
wp_claim_learn(struct wp_claim_controller *self, enum wp_kind kind,
               const json_t *json)
{
    struct wp_store *store = self->parts->stores[kind];
    struct wp_err err;
    struct wp_object *object = wp_object_create(kind, json, &err);
    const struct wp_object *known;

    if (object == NULL) {
        wp_log_warn("claim: an answer makes no sense",
                    wp_kv_str("kind", wp_kind_info(kind)->kind),
                    wp_kv_err(&err));
        return NULL;
    }
    wp_store_learn(store, wp_object_ref(object));
    known = wp_store_find(store, object->ns, object->name);
    if (known != NULL && known != object &&
        strcmp(known->uid, object->uid) == 0) {
        known = wp_object_ref(known);
        wp_object_unref(object);
        return known;
    }
    return object;
}

void
wp_claim_pass_set_sandbox(struct wp_claim_pass *pass,
                          const struct wp_object *sandbox)
{
    const struct wp_object *before = pass->sandbox;

    pass->sandbox = sandbox == NULL ? NULL : wp_object_ref(sandbox);
    wp_object_unref(before);
}

const struct wp_object *
wp_claim_pass_pool(const struct wp_claim_pass *pass)
{
    return wp_store_find(pass->self->parts->stores[WP_KIND_SANDBOX_WARM_POOL],
                         pass->claim->ns, wp_claim_view(pass->claim)->pool);
}

const struct wp_object *
wp_claim_pass_template(const struct wp_claim_pass *pass)
{
    const struct wp_object *pool = wp_claim_pass_pool(pass);

    return pool == NULL
               ? NULL
               : wp_store_find(
                     pass->self->parts->stores[WP_KIND_SANDBOX_TEMPLATE],
                     pass->claim->ns, wp_warm_pool_view(pool)->template_name);
}

bool
wp_claim_pass_refresh(struct wp_claim_pass *pass)
{
    const struct wp_object *known =
        wp_store_find(pass->self->parts->stores[WP_KIND_SANDBOX_CLAIM],
                      pass->claim->ns, pass->claim->name);

    if (known == NULL || known->deleting ||
        strcmp(known->uid, pass->claim->uid) != 0) {
        /* Its own events bring it back, if there is anything to do. */
        wp_claim_pass_end(pass, WP_WORK_OK, 0);
        return false;
    }
    if (known != pass->claim) {
        known = wp_object_ref(known);
        wp_object_unref(pass->claim);
        pass->claim = known;
    }
    return true;
}

/* --- A pool or template that is not known here --- */

static void
tell_missing(struct wp_claim_pass *pass, bool pool)
{
    const struct wp_object *known = wp_claim_pass_pool(pass);

    if (pool || known == NULL) {
        (void)wp_err_set(&pass->err, WP_NOT_FOUND,
                         "SandboxWarmPool \"%s\" not found",
                         wp_claim_view(pass->claim)->pool);
        wp_claim_refuse_pass(pass, "WarmPoolNotFound", pass->err.msg,
                             WP_WORK_AFTER, MISSING_AGAIN_NS);
        return;
    }
    (void)wp_err_set(&pass->err, WP_NOT_FOUND,
                     "SandboxTemplate \"%s\" not found",
                     wp_warm_pool_view(known)->template_name);
    wp_claim_refuse_pass(pass, "TemplateNotFound", pass->err.msg, WP_WORK_AFTER,
                         MISSING_AGAIN_NS);
}

static void
miss_answered(struct wp_claim_pass *pass, enum wp_kind kind,
              const struct wp_api_result *result)
{
    const struct wp_object *object;

    if (result->status == WP_NOT_FOUND) {
        tell_missing(pass, kind == WP_KIND_SANDBOX_WARM_POOL);
        return;
    }
    if (result->status != WP_OK || result->object == NULL) {
        wp_claim_pass_retry(pass, result);
        return;
    }
    object = wp_claim_learn(pass->self, kind, result->object);
    wp_object_unref(object);
    wp_claim_pass_again(pass);
}

static void
pool_answered(void *ctx, const struct wp_api_result *result)
{
    miss_answered(ctx, WP_KIND_SANDBOX_WARM_POOL, result);
}

static void
template_answered(void *ctx, const struct wp_api_result *result)
{
    miss_answered(ctx, WP_KIND_SANDBOX_TEMPLATE, result);
}

void
wp_claim_pass_miss(struct wp_claim_pass *pass, enum wp_kind kind,
                   const char *name)
{
    struct wp_api_target target = {.kind = kind,
                                   .ns = pass->claim->ns,
                                   .name = name,
                                   .priority = WP_HTTP_CLAIM};

    if (name[0] == '\0') {
        tell_missing(pass, kind == WP_KIND_SANDBOX_WARM_POOL);
        return;
    }
    wp_api_get(pass->self->parts->api, &target,
               kind == WP_KIND_SANDBOX_WARM_POOL ? pool_answered
                                                 : template_answered,
               pass);
}

/* --- What is to be done --- */

/* Serves a claim that has no Sandbox. */
static void
serve(struct wp_claim_pass *pass)
{
    const struct wp_claim_view *view = wp_claim_view(pass->claim);

    if (wp_claim_pass_pool(pass) == NULL) {
        wp_claim_entry_drop_ask(pass->entry);
        wp_claim_pass_miss(pass, WP_KIND_SANDBOX_WARM_POOL, view->pool);
    } else if (view->has_env || view->has_volume_claims || pass->entry->made) {
        wp_claim_create(pass);
    } else {
        wp_claim_warm(pass);
    }
}

static void
go_by_holding(struct wp_claim_pass *pass)
{
    const struct wp_object *sandbox = NULL;
    const char *name = "";

    switch (wp_claim_look_up(pass->self, pass->claim, &sandbox, &name)) {
    case WP_HOLDS_SANDBOX:
        wp_claim_pass_set_sandbox(pass, sandbox);
        wp_claim_bound(pass);
        return;
    case WP_HOLDS_HALF:
        if (pass->entry->announced) {
            serve(pass); /* The core knows whether it is still to be had. */
            return;
        }
        wp_claim_pass_set_sandbox(pass, sandbox);
        wp_claim_adopt(pass);
        return;
    case WP_HOLDS_UNKNOWN:
        wp_claim_confirm(pass, name);
        return;
    case WP_HOLDS_STALE:
        wp_claim_forget_reference(pass);
        return;
    case WP_HOLDS_FOREIGN:
        (void)wp_err_set(&pass->err, WP_ALREADY_EXISTS,
                         "Error seen: sandbox \"%s\" is not controlled by the "
                         "claim of its name; use another name for the claim, "
                         "or delete the sandbox",
                         pass->claim->name);
        wp_claim_refuse_pass(pass, WP_REASON_ERROR, pass->err.msg,
                             WP_WORK_FAILED, 0);
        return;
    case WP_HOLDS_NOTHING:
        serve(pass);
        return;
    }
}

static void
decide(struct wp_claim_pass *pass)
{
    const struct wp_claim_view *view = wp_claim_view(pass->claim);

    if (wp_claim_expires_wall_ms(view) <=
        wp_claim_pass_wall_ns(pass) / WP_NS_PER_MS) {
        wp_claim_expire(pass);
        return;
    }
    if (view->has_pod_metadata) {
        json_t *whole = wp_object_json(pass->claim);

        json_decref(pass->additional);
        pass->additional = json_incref(
            wp_json_at(whole, "spec", "additionalPodMetadata", NULL));
        json_decref(whole);
        if (wp_claim_metadata_check(&pass->self->domains, pass->additional,
                                    &pass->err) != WP_OK) {
            /* Until the claim changes, nothing will be different. */
            (void)wp_err_wrap(&pass->err, "additionalPodMetadata");
            wp_claim_refuse_pass(pass, "InvalidMetadata", pass->err.msg,
                                 WP_WORK_OK, WP_TIME_NEVER);
            return;
        }
    }
    go_by_holding(pass);
}

void
wp_claim_pass_again(struct wp_claim_pass *pass)
{
    if (++pass->rounds > WP_CLAIM_ROUNDS_MAX) {
        wp_claim_pass_end(pass, WP_WORK_FAILED, 0);
    } else if (wp_claim_pass_may_write(pass) && wp_claim_pass_refresh(pass)) {
        wp_claim_pass_set_sandbox(pass, NULL);
        memset(&pass->outcome, 0, sizeof pass->outcome);
        decide(pass);
    }
}

/* The claim is gone, or is another one of the same name. */
static void
drop_entry(struct wp_claim_controller *self, struct wp_claim_entry *entry)
{
    wp_claim_entry_drop_ask(entry);
    wp_claim_book_remove(self->book, entry);
}

void
wp_claim_pass_begin(struct wp_claim_controller *self, struct wp_work *work,
                    const char *ns, const char *name)
{
    const struct wp_object *claim =
        wp_store_find(self->parts->stores[WP_KIND_SANDBOX_CLAIM], ns, name);
    struct wp_claim_entry *entry = wp_claim_book_find(self->book, ns, name);
    struct wp_claim_pass *pass;

    if (entry != NULL && (claim == NULL || claim->deleting ||
                          strcmp(claim->uid, entry->uid) != 0)) {
        drop_entry(self, entry);
        entry = NULL;
    }
    if (claim == NULL || claim->deleting || !self->parts->active) {
        wp_work_done(work, WP_WORK_OK, 0);
        return;
    }
    pass = calloc(1, sizeof *pass);
    WP_ASSERT(pass != NULL);
    pass->self = self;
    pass->work = work;
    pass->claim = wp_object_ref(claim);
    pass->after_ns = WP_TIME_NEVER;
    if (entry == NULL) {
        entry = wp_claim_book_enter(self->book, claim);
        entry->seen_mono_ns = wp_clock_mono_ns(self->parts->clock);
        entry->seen_wall_ns = wp_clock_wall_ns(self->parts->clock);
    }
    pass->entry = entry;
    decide(pass);
}
