/* Templates get a label by which policies can select them, and sandboxes of
 * managed ones share a NetworkPolicy; what others change of it is put right.
 * Where this installation makes the Pods, the API server is asked whether it
 * would take one of each template. */
#include <stdlib.h>
#include <string.h>

#include "k8s/controllers/shared.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/controllers/template/checker.h"
#include "k8s/controllers/template/network_policy.h"
#include "k8s/controllers/template/weaker.h"
#include "k8s/controllers/reconcile.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    TEMPLATES_AT_ONCE = 4,
    NAME_MAX_LEN = 253,
};

struct template_controller {
    struct wp_parts *parts;
    struct wp_work_queue *queue;         /* Keys are templates. */
    struct wp_template_checker *checker; /* NULL: Pods are not checked. */
    struct wp_weaker *weaker;
};

/* --- What leads to a look at a template --- */

static void
on_template(void *ctx, const struct wp_object *before,
            const struct wp_object *after)
{
    struct template_controller *controller = ctx;

    if (before != NULL &&
        (after == NULL || strcmp(before->uid, after->uid) != 0)) {
        wp_weaker_forget(controller->weaker, before);
        if (controller->checker != NULL) {
            wp_template_checker_forget(controller->checker, before);
        }
    }
    if (after != NULL) {
        if (controller->checker != NULL) {
            wp_template_checker_look(controller->checker, after);
        }
        wp_work_add(controller->queue, after->ns, after->name, false);
        return;
    }
    WP_ASSERT(before != NULL);
    wp_work_forget(controller->queue, before->ns, before->name);
    if (controller->parts->config.gc) {
        wp_work_add(controller->queue, before->ns, before->name, false);
    }
}

/* Whose name it has, since one that somebody else has made stands in the way of
 * ours; and whose it is, since a name may be cut. */
static void
add_template_of(struct template_controller *controller,
                const struct wp_object *policy)
{
    struct wp_str name = wp_network_policy_template(policy->name);
    char text[NAME_MAX_LEN + 1];

    if (name.len > 0 && wp_str_copy(name, text, sizeof(text))) {
        wp_work_add(controller->queue, policy->ns, text, false);
    }
    if (wp_object_controlled_by_kind(policy, WP_KIND_SANDBOX_TEMPLATE) &&
        !wp_str_is(name, policy->controller.name)) {
        wp_work_add(controller->queue, policy->ns, policy->controller.name,
                    false);
    }
}

static void
on_policy(void *ctx, const struct wp_object *before,
          const struct wp_object *after)
{
    add_template_of(ctx, after != NULL ? after : before);
}

/* --- The reconcile --- */

static void
ensure_label(struct wp_reconcile *reconcile, const struct wp_object *template_)
{
    const struct wp_api_target target =
        wp_object_target(template_, WP_HTTP_NORMAL);
    const char *label = wp_object_label(template_, WP_LABEL_TEMPLATE_REF_HASH);
    char hash[WP_NAME_HASH_LEN + 1];

    wp_name_hash(wp_str_from(template_->name), hash);
    if (label == NULL || strcmp(label, hash) != 0) {
        wp_reconcile_patch(reconcile, &target,
                           json_pack("{s:{s:s, s:{s:s}}}", "metadata", "uid",
                                     template_->uid, "labels",
                                     WP_LABEL_TEMPLATE_REF_HASH, hash));
    }
}

/* The whole object with another spec: a patch could not take away what somebody
 * has added to a map. Only this version of it. */
static void
repair(struct wp_reconcile *reconcile, const struct wp_object *policy,
       json_t *wanted)
{
    const struct wp_api_target target =
        wp_object_target(policy, WP_HTTP_NORMAL);
    json_t *tree = wp_object_json(policy);

    if (wp_network_policy_same(json_object_get(tree, "spec"), wanted)) {
        json_decref(wanted);
        json_decref(tree);
        return;
    }
    wp_log_info("putting a NetworkPolicy right",
                wp_kv_str("namespace", policy->ns),
                wp_kv_str("policy", policy->name));
    /* Those in a list do not say what they are. */
    wp_json_set_text(tree, "apiVersion",
                     wp_kind_info(policy->kind)->api_version);
    wp_json_set_text(tree, "kind", wp_kind_info(policy->kind)->kind);
    wp_json_set(tree, "spec", wanted);
    wp_reconcile_put(reconcile, &target, tree);
}

static void
report_not_ours(struct template_controller *controller,
                const struct wp_object *template_, const char *policy_name)
{
    static const struct wp_event event = {
        .controller = "sandboxtemplate-controller",
        .action = "Reconciling",
        .reason = "NetworkPolicyNotOwned",
        .warning = true,
    };

    wp_events_record(
        controller->parts->events, template_, &event,
        "NetworkPolicy \"%s\" is not controlled by this "
        "SandboxTemplate and stays as it is; its sandboxes are not "
        "isolated by the managed policy",
        policy_name);
}

static void
ensure_policy(struct template_controller *controller,
              struct wp_reconcile *reconcile, const struct wp_object *template_,
              const char *policy_name)
{
    const struct wp_object *policy =
        wp_store_find(controller->parts->stores[WP_KIND_NETWORK_POLICY],
                      template_->ns, policy_name);
    const struct wp_api_target target = {.kind = WP_KIND_NETWORK_POLICY,
                                         .ns = template_->ns,
                                         .name = policy_name,
                                         .priority = WP_HTTP_NORMAL};
    enum wp_tier installed = controller->parts->config.default_tier;
    bool owned =
        policy != NULL && wp_object_controlled_by(policy, template_->uid);

    if (!wp_template_view(template_)->managed) {
        if (owned && !policy->deleting) {
            wp_reconcile_delete(reconcile, policy);
        }
    } else if (policy == NULL) {
        wp_reconcile_post(
            reconcile, &target,
            wp_network_policy_build(
                template_, wp_network_policy_spec(template_, installed)));
    } else if (!owned) {
        report_not_ours(controller, template_, policy_name);
    } else if (!policy->deleting) {
        repair(reconcile, policy, wp_network_policy_spec(template_, installed));
    }
}

/* What a garbage collector would end. */
static void
end_ownerless(struct template_controller *controller,
              struct wp_reconcile *reconcile, const char *ns,
              const char *policy_name)
{
    struct wp_parts *parts = controller->parts;
    const struct wp_object *policy =
        wp_store_find(parts->stores[WP_KIND_NETWORK_POLICY], ns, policy_name);

    if (policy != NULL && !policy->deleting &&
        wp_object_controlled_by_kind(policy, WP_KIND_SANDBOX_TEMPLATE) &&
        wp_store_find_uid(parts->stores[WP_KIND_SANDBOX_TEMPLATE],
                          policy->controller.uid) == NULL) {
        wp_reconcile_delete(reconcile, policy);
    }
}

/* Older versions of agent-sandbox made a NetworkPolicy for each claim; its
 * template's has taken its place. */
static bool
is_of_a_claim(const struct wp_object *policy)
{
    struct wp_str claim = wp_network_policy_template(policy->name);

    return wp_object_controlled_by_kind(policy, WP_KIND_SANDBOX_CLAIM) &&
           wp_str_is(claim, policy->controller.name);
}

/* True when there was one: its end brings the name back. */
static bool
end_of_a_claim(struct template_controller *controller,
               struct wp_reconcile *reconcile, const char *ns,
               const char *policy_name)
{
    const struct wp_object *policy = wp_store_find(
        controller->parts->stores[WP_KIND_NETWORK_POLICY], ns, policy_name);

    if (policy == NULL || !is_of_a_claim(policy)) {
        return false;
    }
    if (!policy->deleting) {
        wp_log_info("ending the NetworkPolicy of a claim",
                    wp_kv_str("namespace", ns),
                    wp_kv_str("policy", policy_name));
        wp_reconcile_delete(reconcile, policy);
    }
    return true;
}

static void
reconcile(void *ctx, struct wp_work *work, const char *ns, const char *name)
{
    struct template_controller *controller = ctx;
    struct wp_parts *parts = controller->parts;
    struct wp_reconcile *reconcile = wp_reconcile_begin(parts, work);
    const struct wp_object *template_ =
        wp_store_find(parts->stores[WP_KIND_SANDBOX_TEMPLATE], ns, name);
    char policy_name[WP_NETWORK_POLICY_NAME_MAX + 1];

    if (!wp_network_policy_name(name, policy_name)) {
        wp_log_warn("a SandboxTemplate's name is longer than 253 characters",
                    wp_kv_str("namespace", ns), wp_kv_str("template", name));
    } else if (end_of_a_claim(controller, reconcile, ns, policy_name)) {
        /* Nothing else before it is gone. */
    } else if (template_ == NULL) {
        if (parts->config.gc) {
            end_ownerless(controller, reconcile, ns, policy_name);
        }
    } else if (!template_->deleting) {
        wp_weaker_look(controller->weaker, template_);
        ensure_label(reconcile, template_);
        ensure_policy(controller, reconcile, template_, policy_name);
    }
    wp_reconcile_end(reconcile);
}

/* --- Life --- */

static void
template_destroy(void *self)
{
    struct template_controller *controller = self;

    if (controller != NULL) {
        wp_template_checker_destroy(controller->checker);
        wp_weaker_destroy(controller->weaker);
        wp_work_queue_destroy(controller->queue);
        free(controller);
    }
}

static void
pause_all(struct template_controller *controller, bool paused)
{
    wp_work_pause(controller->queue, paused);
    if (controller->checker != NULL) {
        wp_template_checker_pause(controller->checker, paused);
    }
}

static void *
template_create(struct wp_parts *parts, struct wp_err *err)
{
    struct template_controller *controller = calloc(1, sizeof(*controller));

    if (controller != NULL) {
        controller->parts = parts;
        controller->queue =
            wp_parts_queue(parts, TEMPLATES_AT_ONCE, reconcile, controller);
        controller->weaker = wp_weaker_create(parts);
    }
    if (controller != NULL && parts->verdicts != NULL) {
        controller->checker = wp_template_checker_create(parts);
    }
    if (controller == NULL || controller->queue == NULL ||
        controller->weaker == NULL ||
        (parts->verdicts != NULL && controller->checker == NULL)) {
        template_destroy(controller);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                         "template controller: memory");
        return NULL;
    }
    wp_store_listen(parts->stores[WP_KIND_SANDBOX_TEMPLATE], on_template,
                    controller);
    wp_store_listen(parts->stores[WP_KIND_NETWORK_POLICY], on_policy,
                    controller);
    return controller;
}

static bool
add_template(void *ctx, const struct wp_object *template_)
{
    struct template_controller *controller = ctx;

    wp_work_add(controller->queue, template_->ns, template_->name, false);
    if (controller->checker != NULL) {
        wp_template_checker_look(controller->checker, template_);
    }
    return true;
}

static bool
add_template_of_each(void *ctx, const struct wp_object *policy)
{
    struct template_controller *controller = ctx;

    if (controller->parts->config.gc || is_of_a_claim(policy)) {
        add_template_of(controller, policy);
    }
    return true;
}

static void
template_activate(void *self)
{
    struct template_controller *controller = self;
    struct wp_parts *parts = controller->parts;

    wp_store_walk(parts->stores[WP_KIND_SANDBOX_TEMPLATE], add_template,
                  controller);
    wp_store_walk(parts->stores[WP_KIND_NETWORK_POLICY], add_template_of_each,
                  controller);
    pause_all(controller, false);
}

static void
template_deactivate(void *self)
{
    struct template_controller *controller = self;

    pause_all(controller, true);
}

static void
template_stats(const void *self, struct wp_work_queue_stats *out)
{
    const struct template_controller *controller = self;

    wp_work_queue_stats(controller->queue, out);
}

const struct wp_controller_ops wp_template_controller_ops = {
    .name = "template",
    .create = template_create,
    .activate = template_activate,
    .deactivate = template_deactivate,
    .destroy = template_destroy,
    .stats = template_stats,
};
