#include "k8s/controllers/alias/alias.h"

#include <stdlib.h>
#include <string.h>

#include "k8s/convert/convert.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/objects/owner.h"
#include "pool/base/assert.h"

#define LABEL_SESSION "kagent.dev/session-id"

enum {
    WORKERS_MAX = 64,
};

struct wp_claim_aliases {
    struct wp_parts *parts;
    struct wp_counter *writes;
    struct wp_work_queue *queue; /* Keys are claims. */
};

/* One look; the objects are references. */
struct look {
    struct wp_claim_aliases *aliases;
    struct wp_work *work;
    const struct wp_object *claim;
    const struct wp_object *sandbox;
    const struct wp_object *alias;
};

static struct wp_store *
store_of(const struct wp_claim_aliases *aliases, enum wp_kind kind)
{
    return aliases->parts->stores[kind];
}

/* Does this claim's client look for one? */
static bool
wants_alias(const struct wp_object *claim)
{
    return wp_object_annotation(claim, WP_ANNOTATION_ALPHA_CLAIM) != NULL ||
           wp_object_label(claim, LABEL_SESSION) != NULL;
}

/* --- What it is to be --- */

/* Nothing reads its Pod's spec; a schema may ask for a container. */
static json_t *
pod_of_nobody(void)
{
    json_t *container = json_pack("{s:s, s:s}", "name", "alias", "image",
                                  "alias.invalid/alias");
    json_t *containers = json_array();

    WP_ASSERT(container != NULL);
    if (json_array_append_new(containers, container) != 0) {
        wp_json_no_memory();
    }
    return wp_json_set(json_object(), "spec",
                       wp_json_set(json_object(), "containers", containers));
}

static json_t *
body_of(const struct look *look)
{
    const struct wp_kind_info *kind = wp_kind_info(WP_KIND_ALIAS);
    const char *pod =
        wp_object_annotation(look->sandbox, WP_ANNOTATION_POD_NAME);
    /* It controls nothing, and is not among what the claim controls. */
    json_t *owner = wp_owner_reference(look->claim);
    json_t *metadata = json_object();
    json_t *owners = json_array();
    json_t *spec = wp_json_set(json_object(), "podTemplate", pod_of_nobody());
    json_t *body = json_object();

    (void)json_object_del(owner, "controller");
    (void)json_object_del(owner, "blockOwnerDeletion");
    (void)json_array_append_new(owners, owner);
    (void)wp_json_set_text(metadata, "namespace", look->claim->ns);
    (void)wp_json_set_text(metadata, "name", look->claim->name);
    (void)wp_json_set(metadata, "ownerReferences", owners);
    (void)wp_json_set_text(wp_json_object_at(metadata, "labels"),
                           WP_LABEL_ALIAS, look->claim->uid);
    (void)wp_json_set_text(wp_json_object_at(metadata, "annotations"),
                           WP_ANNOTATION_POD_NAME,
                           pod != NULL ? pod : look->sandbox->name);
    (void)wp_json_set_text(spec, "operatingMode", "Suspended");
    (void)wp_json_set_text(body, "apiVersion", kind->api_version);
    (void)wp_json_set_text(body, "kind", kind->kind);
    (void)wp_json_set(body, "metadata", metadata);
    return wp_json_set(body, "spec", spec);
}

/* The patch that makes the alias say what its Sandbox says; NULL when it does.
 */
static json_t *
status_patch(const struct look *look)
{
    static const char *const fields[] = {"conditions", "podIPs", "nodeName",
                                         "service", "serviceFQDN"};
    json_t *whole = wp_object_json(look->sandbox);
    json_t *shown = wp_object_json(look->alias);
    const json_t *from = json_object_get(whole, "status");
    const json_t *to = json_object_get(shown, "status");
    json_t *patch = json_object();

    for (size_t i = 0; i < WP_ARRAY_LEN(fields); i++) {
        json_t *wanted = json_object_get(from, fields[i]);
        json_t *has = json_object_get(to, fields[i]);

        if (wanted != NULL && !json_equal(wanted, has)) {
            (void)wp_json_set(patch, fields[i], json_incref(wanted));
        } else if (wanted == NULL && has != NULL) {
            (void)wp_json_set(patch, fields[i], json_null());
        }
    }
    json_decref(whole);
    json_decref(shown);
    if (json_object_size(patch) == 0) {
        json_decref(patch);
        return NULL;
    }
    return wp_json_set(json_object(), "status", patch);
}

/* --- Writing it --- */

static void
end(struct look *look, enum wp_work_outcome outcome, int64_t after_ns)
{
    struct wp_work *work = look->work;

    wp_object_unref(look->claim);
    wp_object_unref(look->sandbox);
    wp_object_unref(look->alias);
    free(look);
    wp_work_done(work, outcome, after_ns);
}

/* What a write was answered with is learned; the store's listener has the claim
 * looked at again. */
static void
learn(struct look *look, const struct wp_api_result *result)
{
    struct wp_object *object;
    struct wp_err err;

    if (result->object == NULL) {
        return;
    }
    object = wp_object_create(result->kind, result->object, &err);
    if (object != NULL && (result->kind != WP_KIND_ALIAS ||
                           wp_object_label(object, WP_LABEL_ALIAS) != NULL)) {
        wp_store_learn(store_of(look->aliases, result->kind), object);
    } else {
        wp_object_unref(object);
    }
}

static void
answered(void *ctx, const struct wp_api_result *result)
{
    struct look *look = ctx;

    if (result->status == WP_OK) {
        learn(look, result);
    }
    if (result->status == WP_OK || result->status == WP_NOT_FOUND ||
        result->status == WP_CANCELLED || result->namespace_leaves) {
        end(look, WP_WORK_OK, 0);
    } else if (result->retry_after_ns > 0) {
        end(look, WP_WORK_AFTER, result->retry_after_ns);
    } else {
        end(look, WP_WORK_FAILED, 0);
    }
}

static void
removed(void *ctx, const struct wp_api_result *result)
{
    struct look *look = ctx;

    if (result->status == WP_OK || result->status == WP_NOT_FOUND) {
        wp_store_remove(store_of(look->aliases, WP_KIND_ALIAS), look->alias);
        end(look, WP_WORK_OK, 0);
    } else {
        answered(ctx, result);
    }
}

static void
remove_it(struct look *look)
{
    struct wp_api_target target = wp_object_target(look->alias, WP_HTTP_NORMAL);

    wp_counter_add(look->aliases->writes, 1);
    wp_api_delete(look->aliases->parts->api, &target,
                  &(struct wp_api_delete){.uid = look->alias->uid}, removed,
                  look);
}

static void
make_it(struct look *look)
{
    struct wp_api_target target = {.kind = WP_KIND_ALIAS,
                                   .ns = look->claim->ns,
                                   .name = look->claim->name,
                                   .priority = WP_HTTP_CLAIM};

    wp_counter_add(look->aliases->writes, 1);
    wp_api_post(look->aliases->parts->api, &target, body_of(look), answered,
                look);
}

/* Without a Service it has no name that a client could call. */
static void
ask_for_service(struct look *look)
{
    struct wp_api_target target =
        wp_object_target(look->sandbox, WP_HTTP_CLAIM);
    json_t *spec = wp_json_set(json_object(), "service", json_true());

    wp_counter_add(look->aliases->writes, 1);
    wp_api_patch(look->aliases->parts->api, &target,
                 wp_json_set(json_object(), "spec", spec), answered, look);
}

static void
tell(struct look *look)
{
    struct wp_api_target target = wp_object_target(look->alias, WP_HTTP_CLAIM);
    json_t *patch = status_patch(look);

    if (patch == NULL) {
        end(look, WP_WORK_OK, 0);
        return;
    }
    target.subresource = "status";
    wp_counter_add(look->aliases->writes, 1);
    wp_api_patch(look->aliases->parts->api, &target, patch, answered, look);
}

/* The claim's Sandbox, where it has one of another name; NULL. */
static const struct wp_object *
shown_by(const struct wp_claim_aliases *aliases, const struct wp_object *claim)
{
    const struct wp_object *sandbox;

    if (claim == NULL || claim->deleting || !wants_alias(claim) ||
        wp_claim_view(claim)->sandbox[0] == '\0') {
        return NULL;
    }
    sandbox = wp_store_find(store_of(aliases, WP_KIND_SANDBOX), claim->ns,
                            wp_claim_view(claim)->sandbox);
    return sandbox != NULL && !sandbox->deleting &&
                   wp_object_controlled_by(sandbox, claim->uid)
               ? sandbox
               : NULL;
}

static bool
is_of(const struct wp_object *alias, const struct wp_object *claim)
{
    const char *uid = wp_object_label(alias, WP_LABEL_ALIAS);

    return uid != NULL && strcmp(uid, claim->uid) == 0;
}

static const struct wp_object *
reference(const struct wp_object *object)
{
    return object != NULL ? wp_object_ref(object) : NULL;
}

static void
reconcile(void *ctx, struct wp_work *work, const char *ns, const char *name)
{
    struct wp_claim_aliases *aliases = ctx;
    const struct wp_object *claim =
        wp_store_find(store_of(aliases, WP_KIND_SANDBOX_CLAIM), ns, name);
    const struct wp_object *alias =
        wp_store_find(store_of(aliases, WP_KIND_ALIAS), ns, name);
    const struct wp_object *sandbox = shown_by(aliases, claim);
    bool own = sandbox != NULL && strcmp(sandbox->name, name) == 0;
    bool stale =
        alias != NULL && (sandbox == NULL || own || !is_of(alias, claim));
    struct look *look;

    if (!aliases->parts->active || (alias != NULL && alias->deleting) ||
        (alias == NULL && sandbox == NULL)) {
        wp_work_done(work, WP_WORK_OK, 0);
        return;
    }
    look = calloc(1, sizeof *look);
    WP_ASSERT(look != NULL);
    *look = (struct look){aliases, work, reference(claim), reference(sandbox),
                          reference(alias)};
    if (stale) {
        remove_it(look);
    } else if (wp_sandbox_view(sandbox)->service != 1) {
        ask_for_service(look);
    } else if (own) {
        end(look, WP_WORK_OK, 0);
    } else if (alias == NULL) {
        make_it(look);
    } else {
        tell(look);
    }
}

/* --- What happens --- */

static void
on_claim(void *ctx, const struct wp_object *before,
         const struct wp_object *after)
{
    struct wp_claim_aliases *aliases = ctx;
    const struct wp_object *claim = after != NULL ? after : before;

    if (claim == NULL || !aliases->parts->active || !wants_alias(claim)) {
        return;
    }
    if (before == NULL || after == NULL ||
        before->deleting != after->deleting ||
        strcmp(wp_claim_view(before)->sandbox, wp_claim_view(after)->sandbox) !=
            0) {
        wp_work_add(aliases->queue, claim->ns, claim->name, true);
    }
}

static void
on_sandbox(void *ctx, const struct wp_object *before,
           const struct wp_object *after)
{
    struct wp_claim_aliases *aliases = ctx;
    const struct wp_object *sandbox = after != NULL ? after : before;
    const struct wp_object *claim;

    if (!aliases->parts->active ||
        !wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_CLAIM)) {
        return;
    }
    claim = wp_store_find(store_of(aliases, WP_KIND_SANDBOX_CLAIM), sandbox->ns,
                          sandbox->controller.name);
    if (claim != NULL && wants_alias(claim)) {
        wp_work_add(aliases->queue, claim->ns, claim->name, true);
    }
}

static void
on_alias(void *ctx, const struct wp_object *before,
         const struct wp_object *after)
{
    struct wp_claim_aliases *aliases = ctx;
    const struct wp_object *alias = after != NULL ? after : before;

    if (aliases->parts->active) {
        wp_work_add(aliases->queue, alias->ns, alias->name, true);
    }
}

static bool
look_at_each(void *ctx, const struct wp_object *object)
{
    struct wp_claim_aliases *aliases = ctx;

    if (object->kind == WP_KIND_ALIAS || wants_alias(object)) {
        wp_work_add(aliases->queue, object->ns, object->name, false);
    }
    return true;
}

/* --- Life --- */

void
wp_claim_aliases_activate(struct wp_claim_aliases *aliases)
{
    wp_store_walk(store_of(aliases, WP_KIND_SANDBOX_CLAIM), look_at_each,
                  aliases);
    wp_store_walk(store_of(aliases, WP_KIND_ALIAS), look_at_each, aliases);
    wp_work_pause(aliases->queue, false);
}

void
wp_claim_aliases_deactivate(struct wp_claim_aliases *aliases)
{
    wp_work_pause(aliases->queue, true);
}

struct wp_claim_aliases *
wp_claim_aliases_create(struct wp_parts *parts, struct wp_counter *writes)
{
    struct wp_claim_aliases *aliases = calloc(1, sizeof *aliases);

    if (aliases == NULL) {
        return NULL;
    }
    aliases->parts = parts;
    aliases->writes = writes;
    aliases->queue = wp_parts_queue(parts, WORKERS_MAX, reconcile, aliases);
    if (aliases->queue == NULL) {
        free(aliases);
        return NULL;
    }
    wp_store_listen(store_of(aliases, WP_KIND_SANDBOX_CLAIM), on_claim,
                    aliases);
    wp_store_listen(store_of(aliases, WP_KIND_SANDBOX), on_sandbox, aliases);
    wp_store_listen(store_of(aliases, WP_KIND_ALIAS), on_alias, aliases);
    return aliases;
}

void
wp_claim_aliases_destroy(struct wp_claim_aliases *aliases)
{
    if (aliases != NULL) {
        wp_work_queue_destroy(aliases->queue);
        free(aliases);
    }
}
