/* k8s/controllers/claim/bound.c - which Sandbox a claim has, and keeping both
 * in step. */
#include <string.h>

#include "k8s/controllers/claim/cold.h"
#include "k8s/controllers/claim/reconcile.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/fnv.h"
#include "pool/base/log.h"

/* Of the Sandboxes that a claim controls: the first by name that is not going,
 * else the first. */
struct owned {
    const struct wp_object *best;
    uint32_t count;
};

static bool
see_owned(void *ctx, const struct wp_object *object)
{
    struct owned *owned = ctx;

    owned->count++;
    if (owned->best == NULL || (owned->best->deleting && !object->deleting)) {
        owned->best = object;
    }
    return true;
}

static const struct wp_object *
find_sandbox(const struct wp_claim_controller *self,
             const struct wp_object *claim, const char *name)
{
    return wp_store_find(self->parts->stores[WP_KIND_SANDBOX], claim->ns, name);
}

/* The name that an unfinished adoption has left at the claim. */
static const char *
reserved_name(const struct wp_object *claim)
{
    const char *name = wp_object_annotation(claim, WP_ANNOTATION_SANDBOX_NAME);

    if (name == NULL || name[0] == '\0') {
        name = wp_object_label(claim, WP_ANNOTATION_SANDBOX_NAME);
    }
    return name != NULL ? name : "";
}

static enum wp_claim_holding
judge_reserved(const struct wp_claim_controller *self,
               const struct wp_object *claim, const char *name,
               const struct wp_object **sandbox)
{
    const struct wp_object *named = find_sandbox(self, claim, name);

    if (named == NULL) {
        return WP_HOLDS_UNKNOWN;
    }
    *sandbox = named;
    if (wp_object_controlled_by(named, claim->uid)) {
        return WP_HOLDS_SANDBOX;
    }
    if (wp_object_controlled_by_kind(named, WP_KIND_SANDBOX_WARM_POOL)) {
        return !named->deleting && strcmp(named->controller.name,
                                          wp_claim_view(claim)->pool) == 0
                   ? WP_HOLDS_HALF
                   : WP_HOLDS_STALE;
    }
    return wp_object_controlled_by_kind(named, WP_KIND_SANDBOX_CLAIM)
               ? WP_HOLDS_STALE
               : WP_HOLDS_NOTHING;
}

/* By status, by annotation, by owner, and by the claim's own name. */
enum wp_claim_holding
wp_claim_look_up(const struct wp_claim_controller *self,
                 const struct wp_object *claim,
                 const struct wp_object **sandbox, const char **name)
{
    const char *bound = wp_claim_view(claim)->sandbox;
    const char *reserved = reserved_name(claim);
    struct owned owned = {NULL, 0};
    enum wp_claim_holding holding = WP_HOLDS_NOTHING;

    if (bound[0] != '\0') {
        *sandbox = find_sandbox(self, claim, bound);
        if (*sandbox != NULL && wp_object_controlled_by(*sandbox, claim->uid)) {
            return WP_HOLDS_SANDBOX;
        }
    }
    wp_store_owned_by(self->parts->stores[WP_KIND_SANDBOX], claim->uid,
                      see_owned, &owned);
    if (owned.best != NULL) {
        *sandbox = owned.best;
        return WP_HOLDS_SANDBOX;
    }
    if (bound[0] != '\0' && *sandbox == NULL) {
        *name = bound;
        return WP_HOLDS_UNKNOWN;
    }
    if (reserved[0] != '\0') {
        *name = reserved;
        holding = judge_reserved(self, claim, reserved, sandbox);
    }
    if (holding == WP_HOLDS_NOTHING) {
        *sandbox = find_sandbox(self, claim, claim->name);
        holding = *sandbox != NULL ? WP_HOLDS_FOREIGN : WP_HOLDS_NOTHING;
    }
    return holding;
}

/* --- A name that says nothing here --- */

static void
reference_answered(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_pass *pass = ctx;

    if (result->status != WP_OK && result->status != WP_NOT_FOUND) {
        wp_claim_pass_retry(pass, result);
        return;
    }
    if (result->object != NULL) {
        wp_object_unref(
            wp_claim_learn(pass->self, WP_KIND_SANDBOX_CLAIM, result->object));
    }
    wp_claim_pass_again(pass);
}

void
wp_claim_forget_reference(struct wp_claim_pass *pass)
{
    struct wp_api_target target = wp_claim_target(pass->claim, WP_HTTP_CLAIM);
    json_t *metadata = json_object();
    json_t *none =
        wp_json_set(json_object(), WP_ANNOTATION_SANDBOX_NAME, json_null());

    (void)wp_json_set(metadata, "annotations", none);
    (void)wp_json_set(metadata, "labels", json_incref(none));
    wp_counter_add(&pass->self->metrics.writes[WP_CLAIM_WRITE_STAMPS], 1);
    wp_api_patch(pass->self->parts->api, &target,
                 wp_json_set(json_object(), "metadata", metadata),
                 reference_answered, pass);
}

/* It is gone for good: the claim says so while it gets another one. */
static void
go_on_without(struct wp_claim_pass *pass)
{
    if (reserved_name(pass->claim)[0] != '\0') {
        wp_claim_forget_reference(pass);
    } else {
        wp_claim_pass_again(pass);
    }
}

static void
confirm_answered(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_pass *pass = ctx;

    if (result->status == WP_OK && result->object != NULL) {
        wp_object_unref(
            wp_claim_learn(pass->self, WP_KIND_SANDBOX, result->object));
        wp_claim_pass_again(pass);
    } else if (result->status == WP_NOT_FOUND &&
               wp_claim_view(pass->claim)->sandbox[0] == '\0') {
        go_on_without(pass);
    } else if (result->status == WP_NOT_FOUND) {
        pass->outcome.reason = "SandboxMissing";
        pass->outcome.message = "The claim's sandbox is gone";
        pass->outcome.forget_sandbox = true;
        wp_claim_tell_then(pass, go_on_without);
    } else {
        wp_claim_pass_retry(pass, result);
    }
}

void
wp_claim_confirm(struct wp_claim_pass *pass, const char *name)
{
    struct wp_api_target target = {.kind = WP_KIND_SANDBOX,
                                   .ns = pass->claim->ns,
                                   .name = name,
                                   .priority = WP_HTTP_CLAIM};

    wp_api_get(pass->self->parts->api, &target, confirm_answered, pass);
}

/* --- A Sandbox that is the claim's --- */

void
wp_claim_count_created(struct wp_claim_pass *pass, enum wp_claim_launch launch)
{
    const struct wp_object *sandbox = pass->sandbox;
    const char *templ =
        wp_object_annotation(sandbox, WP_ANNOTATION_TEMPLATE_REF);
    struct wp_claim_creations key = {
        .created_by = wp_claim_created_by(
            wp_object_label(pass->claim, WP_LABEL_CREATED_BY)),
        .launch = launch,
        .ready = wp_sandbox_view(sandbox)->ready.status == WP_CONDITION_TRUE,
    };

    wp_claim_metrics_label(key.ns, sizeof key.ns, pass->claim->ns);
    wp_claim_metrics_label(key.templ, sizeof key.templ, templ);
    wp_claim_metrics_label(key.pool, sizeof key.pool,
                           wp_claim_view(pass->claim)->pool);
    wp_claim_metrics_created(&pass->self->metrics, &key);
}

void
wp_claim_keep_answer(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_pass *pass = ctx;
    const struct wp_object *sandbox = NULL;

    pass->answered = result->status;
    if (result->status == WP_OK && result->object != NULL) {
        sandbox = wp_claim_learn(pass->self, WP_KIND_SANDBOX, result->object);
    }
    if (sandbox != NULL) {
        wp_claim_pass_set_sandbox(pass, sandbox);
        wp_object_unref(sandbox);
    } else if (result->status == WP_OK) {
        pass->answered = WP_UNKNOWN_OUTCOME;
    } else {
        if (result->retry_after_ns > 0) {
            pass->after_ns = result->retry_after_ns;
        }
        (void)wp_err_set(&pass->err, result->status, "%s",
                         result->message != NULL ? result->message : "refused");
    }
    wp_claim_pass_arrive(pass);
}

static bool
has_its_creator(const struct wp_object *claim, const struct wp_object *sandbox)
{
    const char *creator = wp_object_label(claim, WP_LABEL_CREATED_BY);
    const char *told = wp_object_label(sandbox, WP_LABEL_CREATED_BY);

    return strcmp(creator != NULL ? creator : "", told != NULL ? told : "") ==
           0;
}

/* Changes with whatever a Sandbox has of its template's metadata; 0 when the
 * template is not known. */
static uint64_t
template_mark(const struct wp_object *templ)
{
    char hash[WP_NAME_HASH_LEN + 1];
    uint64_t mark;

    if (templ == NULL) {
        return 0;
    }
    mark = wp_template_view(templ)->pod_metadata_hash;
    wp_name_hash(wp_str_from(templ->name), hash);
    mark = wp_fnv_str(mark, wp_str_from(hash));
    return mark != 0 ? mark : 1;
}

void
wp_claim_pass_brings(struct wp_claim_pass *pass, const struct wp_object *templ)
{
    pass->template_mark = template_mark(templ);
}

void
wp_claim_pass_brought(struct wp_claim_pass *pass)
{
    pass->entry->refreshed_generation = pass->claim->generation;
    pass->entry->refreshed_template = pass->template_mark;
}

enum refresh {
    REFRESH_NONE,
    REFRESH_LAST, /* A template has changed, and with it thousands of these. */
    REFRESH_NOW,  /* The claim has. */
};

/* templ: NULL when it is not known. The Pod template is not looked into. */
static enum refresh
wants_refresh(const struct wp_claim_pass *pass, const struct wp_object *templ)
{
    const struct wp_claim_entry *entry = pass->entry;
    bool late = wp_object_label(pass->sandbox, WP_LABEL_LAUNCH_TYPE) == NULL;

    if (!has_its_creator(pass->claim, pass->sandbox)) {
        return REFRESH_NOW;
    }
    if (entry->refreshed_generation == pass->claim->generation) {
        late |=
            templ != NULL && entry->refreshed_template != template_mark(templ);
    } else if (entry->refreshed_generation != 0) {
        return REFRESH_NOW;
    } else {
        /* Of a claim that was bound before this process began: only what can
         * have been left undone is worth the reading. */
        late |= wp_claim_view(pass->claim)->has_pod_metadata ||
                pass->claim->generation > 1 ||
                (templ != NULL &&
                 (templ->generation > 1 ||
                  templ->created_wall_ms > pass->sandbox->created_wall_ms));
    }
    return late ? REFRESH_LAST : REFRESH_NONE;
}

static void
refresh_answered(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_pass *pass = ctx;
    const struct wp_object *sandbox;

    if (result->status != WP_OK || result->object == NULL) {
        if (result->status == WP_NOT_FOUND) {
            wp_claim_pass_end(pass, WP_WORK_FAILED, 0);
        } else {
            wp_claim_pass_retry(pass, result);
        }
        return;
    }
    sandbox = wp_claim_learn(pass->self, WP_KIND_SANDBOX, result->object);
    if (sandbox != NULL) {
        wp_claim_pass_set_sandbox(pass, sandbox);
        wp_object_unref(sandbox);
    }
    wp_claim_pass_brought(pass);
    pass->outcome.sandbox = pass->sandbox;
    wp_claim_tell(pass);
}

/* last: a write that would be in others' way has a pass of its own, behind
 * them. */
static void
refresh(struct wp_claim_pass *pass, const struct wp_object *templ, bool last)
{
    struct wp_adoption adoption = {pass->claim, pass->additional, templ};
    struct wp_api_target target =
        wp_claim_target(pass->sandbox, last ? WP_HTTP_SPARE : WP_HTTP_NORMAL);
    json_t *patch = NULL;

    if (wp_adoption_refresh(&adoption, pass->sandbox, &patch, &pass->err) !=
        WP_OK) {
        (void)wp_err_wrap(&pass->err, "Error seen");
        wp_claim_refuse_pass(pass, WP_REASON_ERROR, pass->err.msg,
                             WP_WORK_FAILED, 0);
        return;
    }
    wp_claim_pass_brings(pass, templ);
    if (patch == NULL) {
        wp_claim_pass_brought(pass);
        pass->outcome.sandbox = pass->sandbox;
        wp_claim_tell(pass);
        return;
    }
    if (last && !wp_work_is_last(pass->work)) {
        json_decref(patch);
        wp_work_add_last(pass->self->queue, pass->claim->ns, pass->claim->name);
        pass->outcome.sandbox = pass->sandbox;
        wp_claim_tell(pass);
        return;
    }
    wp_counter_add(&pass->self->metrics.writes[WP_CLAIM_WRITE_SANDBOX], 1);
    wp_api_patch(pass->self->parts->api, &target, patch, refresh_answered,
                 pass);
}

/* A claim has one Sandbox. Another one can only be the rest of a change of
 * leaders: an adoption that the last one had sent came through after this one
 * had looked. */
static bool
end_spare(void *ctx, const struct wp_object *object)
{
    struct wp_claim_pass *pass = ctx;
    const char *uid = wp_object_label(object, WP_LABEL_CLAIM_UID);

    if (object != pass->sandbox &&
        strcmp(object->uid, pass->sandbox->uid) != 0 && !object->deleting &&
        uid != NULL && strcmp(uid, pass->claim->uid) == 0 &&
        strcmp(wp_claim_view(pass->claim)->sandbox, object->name) != 0) {
        struct wp_api_target target = wp_claim_target(object, WP_HTTP_NORMAL);
        struct wp_api_delete how = {.uid = object->uid};

        wp_log_warn("claim: a second sandbox is ended",
                    wp_kv_str("namespace", object->ns),
                    wp_kv_str("claim", pass->claim->name),
                    wp_kv_str("sandbox", object->name));
        wp_counter_add(&pass->self->metrics.writes[WP_CLAIM_WRITE_DELETE], 1);
        wp_api_delete(pass->self->parts->api, &target, &how, NULL, NULL);
    }
    return true;
}

/* Whatever was asked of the core is either this Sandbox or not needed. */
static void
settle_ask(struct wp_claim_pass *pass)
{
    struct wp_claim_ask *ask = pass->entry->ask;

    if (ask == NULL) {
        return;
    }
    if (wp_claim_ask_status(ask) == WP_OK &&
        strcmp(wp_claim_ask_answer(ask)->grant.sandbox, pass->sandbox->name) ==
            0) {
        pass->entry->ask = NULL;
        wp_claim_ask_keep(ask);
    } else {
        wp_claim_entry_drop_ask(pass->entry);
    }
}

void
wp_claim_bound(struct wp_claim_pass *pass)
{
    const struct wp_object *templ = wp_claim_pass_template(pass);
    enum refresh wanted;

    settle_ask(pass);
    wp_store_owned_by(pass->self->parts->stores[WP_KIND_SANDBOX],
                      pass->claim->uid, end_spare, pass);
    wanted = wants_refresh(pass, templ);
    if (!pass->sandbox->deleting && wanted != REFRESH_NONE) {
        if (templ != NULL) {
            refresh(pass, templ, wanted == REFRESH_LAST);
            return;
        }
        if (wp_claim_view(pass->claim)->has_pod_metadata) {
            const struct wp_object *pool = wp_claim_pass_pool(pass);

            wp_claim_pass_miss(pass,
                               pool == NULL ? WP_KIND_SANDBOX_WARM_POOL
                                            : WP_KIND_SANDBOX_TEMPLATE,
                               pool == NULL
                                   ? wp_claim_view(pass->claim)->pool
                                   : wp_warm_pool_view(pool)->template_name);
            return;
        }
    }
    pass->outcome.sandbox = pass->sandbox;
    wp_claim_tell(pass);
}
