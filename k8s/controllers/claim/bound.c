/* k8s/controllers/claim/bound.c - keeping a claim and its Sandbox in step. */
#include <string.h>

#include "k8s/controllers/claim/cold.h"
#include "k8s/controllers/claim/reconcile.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/log.h"

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
    wp_claim_pass_go(pass, WP_CLAIM_AGAIN);
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
    if (wp_claim_reserved_name(pass->claim)[0] != '\0') {
        wp_claim_forget_reference(pass);
    } else {
        wp_claim_pass_go(pass, WP_CLAIM_AGAIN);
    }
}

static void
confirm_answered(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_pass *pass = ctx;

    if (result->status == WP_OK && result->object != NULL) {
        wp_object_unref(
            wp_claim_learn(pass->self, WP_KIND_SANDBOX, result->object));
        wp_claim_pass_go(pass, WP_CLAIM_AGAIN);
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
wp_claim_confirm(struct wp_claim_pass *pass)
{
    struct wp_api_target target = {.kind = WP_KIND_SANDBOX,
                                   .ns = pass->claim->ns,
                                   .name = pass->named,
                                   .priority = WP_HTTP_CLAIM};

    wp_api_get(pass->self->parts->api, &target, confirm_answered, pass);
}

/* --- A Sandbox that is the claim's --- */

static bool
has_its_creator(const struct wp_object *claim, const struct wp_object *sandbox)
{
    const char *creator = wp_object_label(claim, WP_LABEL_CREATED_BY);
    const char *told = wp_object_label(sandbox, WP_LABEL_CREATED_BY);

    return strcmp(creator != NULL ? creator : "", told != NULL ? told : "") ==
           0;
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
        late |= templ != NULL &&
                entry->refreshed_template != wp_claim_template_mark(templ);
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
