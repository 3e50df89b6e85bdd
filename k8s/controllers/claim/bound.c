/* k8s/controllers/claim/bound.c - keeping a claim and its Sandbox in step. */
#include <string.h>

#include "k8s/controllers/claim/cold.h"
#include "k8s/controllers/claim/endings.h"
#include "k8s/controllers/claim/reconcile.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/log.h"

/* --- A name that says nothing here --- */

static void
reference_answered(void *ctx, const struct wp_api_result *result)
{
    if (result->status == WP_NOT_FOUND) {
        wp_claim_reconcile_go(ctx, WP_CLAIM_AGAIN);
    } else {
        wp_claim_reconcile_reread(ctx, result);
    }
}

void
wp_claim_forget_reference(struct wp_claim_reconcile *reconcile)
{
    struct wp_api_target target =
        wp_object_target(reconcile->claim, WP_HTTP_CLAIM);
    json_t *metadata = json_object();
    json_t *none =
        wp_json_set(json_object(), WP_ANNOTATION_SANDBOX_NAME, json_null());

    (void)wp_json_set(metadata, "annotations", none);
    (void)wp_json_set(metadata, "labels", json_incref(none));
    wp_counter_add(&reconcile->self->metrics.writes[WP_CLAIM_WRITE_ANNOTATIONS],
                   1);
    wp_api_patch(reconcile->self->parts->api, &target,
                 wp_json_set(json_object(), "metadata", metadata),
                 reference_answered, reconcile);
}

/* It is gone for good: the claim says so while it gets another one. */
static void
go_on_without(struct wp_claim_reconcile *reconcile)
{
    if (wp_claim_reserved_name(reconcile->claim)[0] != '\0') {
        wp_claim_forget_reference(reconcile);
    } else {
        wp_claim_reconcile_go(reconcile, WP_CLAIM_AGAIN);
    }
}

static void
confirm_answered(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_reconcile *reconcile = ctx;

    if (result->status != WP_NOT_FOUND) {
        wp_claim_reconcile_reread(reconcile, result);
    } else if (wp_claim_view(reconcile->claim)->sandbox[0] == '\0') {
        go_on_without(reconcile);
    } else {
        reconcile->outcome.reason = "SandboxMissing";
        reconcile->outcome.message = "The claim's sandbox is gone";
        reconcile->outcome.forget_sandbox = true;
        wp_claim_status_write_then(reconcile, go_on_without);
    }
}

void
wp_claim_confirm(struct wp_claim_reconcile *reconcile)
{
    struct wp_api_target target = {.kind = WP_KIND_SANDBOX,
                                   .ns = reconcile->claim->ns,
                                   .name = reconcile->named,
                                   .priority = WP_HTTP_CLAIM};

    wp_api_get(reconcile->self->parts->api, &target, confirm_answered,
               reconcile);
}

/* --- A Sandbox that is the claim's --- */

static bool
has_its_creator(const struct wp_object *claim, const struct wp_object *sandbox)
{
    const char *creator = wp_object_label(claim, WP_LABEL_CREATED_BY);
    const char *labelled = wp_object_label(sandbox, WP_LABEL_CREATED_BY);

    return strcmp(creator != NULL ? creator : "",
                  labelled != NULL ? labelled : "") == 0;
}

enum refresh {
    REFRESH_NONE,
    REFRESH_LAST, /* A template has changed, and with it thousands of these. */
    REFRESH_NOW,  /* The claim has. */
};

/* templ: NULL when it is not known. The Pod template is not looked into. */
static enum refresh
wants_refresh(const struct wp_claim_reconcile *reconcile,
              const struct wp_object *templ)
{
    const struct wp_claim_entry *entry = reconcile->entry;
    bool late =
        wp_object_label(reconcile->sandbox, WP_LABEL_LAUNCH_TYPE) == NULL;

    if (!has_its_creator(reconcile->claim, reconcile->sandbox)) {
        return REFRESH_NOW;
    }
    if (entry->refreshed_generation == reconcile->claim->generation) {
        late |= templ != NULL &&
                entry->refreshed_template != wp_claim_template_mark(templ);
    } else if (entry->refreshed_generation != 0) {
        return REFRESH_NOW;
    } else {
        /* Of a claim that was bound before this process began: only what can
         * have been left undone is worth the reading. */
        late |= wp_claim_view(reconcile->claim)->has_pod_metadata ||
                reconcile->claim->generation > 1 ||
                (templ != NULL && (templ->generation > 1 ||
                                   templ->created_wall_ms >
                                       reconcile->sandbox->created_wall_ms));
    }
    return late ? REFRESH_LAST : REFRESH_NONE;
}

static void
refresh_answered(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_reconcile *reconcile = ctx;
    const struct wp_object *sandbox;

    if (result->status != WP_OK || result->object == NULL) {
        if (result->status == WP_NOT_FOUND) {
            wp_claim_reconcile_end(reconcile, WP_WORK_FAILED, 0);
        } else {
            wp_claim_reconcile_retry(reconcile, result);
        }
        return;
    }
    sandbox = wp_claim_learn(reconcile->self, result);
    if (sandbox != NULL) {
        wp_claim_reconcile_set_sandbox(reconcile, sandbox);
        wp_object_unref(sandbox);
    }
    wp_claim_reconcile_brought(reconcile);
    reconcile->outcome.sandbox = reconcile->sandbox;
    wp_claim_bring(reconcile);
}

/* last: a write that would be in others' way has a reconcile of its own, behind
 * them. */
static void
refresh(struct wp_claim_reconcile *reconcile, const struct wp_object *templ,
        bool last)
{
    struct wp_adoption adoption = {.claim = reconcile->claim,
                                   .additional = reconcile->additional,
                                   .templ = templ};
    struct wp_api_target target = wp_object_target(
        reconcile->sandbox, last ? WP_HTTP_SPARE : WP_HTTP_NORMAL);
    json_t *patch = NULL;

    if (wp_adoption_refresh(&adoption, reconcile->sandbox, &patch,
                            &reconcile->err) != WP_OK) {
        (void)wp_err_wrap(&reconcile->err, "Error seen");
        wp_claim_reconcile_refuse(reconcile, WP_REASON_ERROR,
                                  reconcile->err.msg, WP_WORK_FAILED, 0);
        return;
    }
    wp_claim_reconcile_brings(reconcile, templ);
    if (patch == NULL) {
        wp_claim_reconcile_brought(reconcile);
        reconcile->outcome.sandbox = reconcile->sandbox;
        wp_claim_bring(reconcile);
        return;
    }
    if (last && !wp_work_is_last(reconcile->work)) {
        json_decref(patch);
        wp_work_add_last(reconcile->self->queue, reconcile->claim->ns,
                         reconcile->claim->name);
        reconcile->outcome.sandbox = reconcile->sandbox;
        wp_claim_bring(reconcile);
        return;
    }
    wp_counter_add(&reconcile->self->metrics.writes[WP_CLAIM_WRITE_SANDBOX], 1);
    wp_api_patch(reconcile->self->parts->api, &target, patch, refresh_answered,
                 reconcile);
}

/* A claim has one Sandbox. Another one can only be the rest of a change of
 * leaders: an adoption that the last one had sent came through after this one
 * had looked. */
static bool
end_spare(void *ctx, const struct wp_object *object)
{
    struct wp_claim_reconcile *reconcile = ctx;
    const char *uid = wp_object_label(object, WP_LABEL_CLAIM_UID);

    if (object != reconcile->sandbox &&
        strcmp(object->uid, reconcile->sandbox->uid) != 0 &&
        !object->deleting && uid != NULL &&
        strcmp(uid, reconcile->claim->uid) == 0 &&
        strcmp(wp_claim_view(reconcile->claim)->sandbox, object->name) != 0) {
        wp_log_warn("claim: a second sandbox is ended",
                    wp_kv_str("namespace", object->ns),
                    wp_kv_str("claim", reconcile->claim->name),
                    wp_kv_str("sandbox", object->name));
        wp_claim_endings_add(reconcile->self->endings, object);
    }
    return true;
}

/* Whatever was asked of the core is either this Sandbox or not needed. */
static void
settle_ask(struct wp_claim_reconcile *reconcile)
{
    struct wp_claim_ask *ask = reconcile->entry->ask;

    if (ask == NULL) {
        return;
    }
    if (wp_claim_ask_status(ask) == WP_OK &&
        strcmp(wp_claim_ask_answer(ask)->grant.sandbox,
               reconcile->sandbox->name) == 0) {
        reconcile->entry->ask = NULL;
        wp_claim_ask_keep(ask);
    } else {
        wp_claim_entry_drop_ask(reconcile->entry);
    }
}

void
wp_claim_bound(struct wp_claim_reconcile *reconcile)
{
    const struct wp_object *templ = wp_claim_reconcile_template(reconcile);
    enum refresh wanted;

    settle_ask(reconcile);
    wp_store_owned_by(reconcile->self->parts->stores[WP_KIND_SANDBOX],
                      reconcile->claim->uid, end_spare, reconcile);
    wanted = wants_refresh(reconcile, templ);
    if (!reconcile->sandbox->deleting && wanted != REFRESH_NONE) {
        if (templ != NULL) {
            refresh(reconcile, templ, wanted == REFRESH_LAST);
            return;
        }
        if (wp_claim_view(reconcile->claim)->has_pod_metadata) {
            const char *name = wp_claim_reconcile_template_name(reconcile);

            wp_claim_reconcile_miss(
                reconcile,
                name == NULL ? WP_KIND_SANDBOX_WARM_POOL
                             : WP_KIND_SANDBOX_TEMPLATE,
                name == NULL ? wp_claim_view(reconcile->claim)->pool : name);
            return;
        }
    }
    reconcile->outcome.sandbox = reconcile->sandbox;
    wp_claim_bring(reconcile);
}
