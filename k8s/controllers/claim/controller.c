#include "k8s/controllers/claim/controller.h"

#include <stdlib.h>
#include <string.h>

#include "k8s/bind/brings.h"
#include "k8s/bind/claim_identity.h"
#include "k8s/controllers/claim/cold.h"
#include "k8s/controllers/claim/endings.h"
#include "k8s/controllers/claim/orphans.h"
#include "k8s/controllers/claim/reconcile.h"
#include "k8s/controllers/verdicts.h"
#include "k8s/objects/names.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    WORKERS_MAX = 512,
    /* Twice as many as requests that claims make way for can be under way. */
    LAST_MAX = 32,
};

static struct wp_str
tenant(void)
{
    return WP_STR(WP_TENANT_SANDBOX_CLAIMS);
}

static struct wp_store *
store_of(const struct wp_claim_controller *self, enum wp_kind kind)
{
    return self->parts->stores[kind];
}

/* Ahead of others while a client waits for it. */
static void
look_at(struct wp_claim_controller *self, const struct wp_object *claim)
{
    wp_work_add(self->queue, claim->ns, claim->name,
                wp_claim_view(claim)->ready.status != WP_CONDITION_TRUE);
}

/* --- What happens to claims --- */

static bool
same_annotation(const struct wp_object *a, const struct wp_object *b,
                const char *key)
{
    const char *left = wp_object_annotation(a, key);
    const char *right = wp_object_annotation(b, key);

    return strcmp(left != NULL ? left : "", right != NULL ? right : "") == 0;
}

static bool
same_label(const struct wp_object *a, const struct wp_object *b,
           const char *key)
{
    const char *left = wp_object_label(a, key);
    const char *right = wp_object_label(b, key);

    return strcmp(left != NULL ? left : "", right != NULL ? right : "") == 0;
}

/* Is a reconcile handing it a Sandbox right now? */
static bool
is_adopting(const struct wp_claim_controller *self,
            const struct wp_object *claim)
{
    const struct wp_claim_entry *entry =
        wp_claim_cache_find(self->cache, claim->ns, claim->name);

    return entry != NULL && wp_claim_entry_is_served(entry) &&
           strcmp(entry->uid, claim->uid) == 0;
}

/* What this controller writes itself (status, annotations) says nothing new. */
static bool
claim_differs(const struct wp_claim_controller *self,
              const struct wp_object *before, const struct wp_object *after)
{
    return strcmp(before->uid, after->uid) != 0 ||
           before->generation != after->generation ||
           before->deleting != after->deleting ||
           !same_label(before, after, WP_LABEL_CREATED_BY) ||
           /* What is refused, or cannot be had yet, may be put right. */
           (wp_claim_view(after)->ready.status != WP_CONDITION_TRUE &&
            !wp_claim_brings_same(before, after)) ||
           (!same_annotation(before, after, WP_ANNOTATION_SANDBOX_NAME) &&
            wp_claim_view(after)->sandbox[0] == '\0' &&
            !is_adopting(self, after));
}

/* What the garbage collector would do. */
static bool
collect_one(void *ctx, const struct wp_object *sandbox)
{
    struct wp_claim_controller *self = ctx;

    if (!sandbox->deleting) {
        wp_claim_endings_add(self->endings, sandbox);
    }
    return true;
}

/* Its template was used. Told when the claim has a sandbox: so a pool that is
 * made for it is in nobody's way. */
static void
note_use(struct wp_claim_controller *self, const struct wp_object *before,
         const struct wp_object *after)
{
    char templ[WP_CLAIM_OBJECT_NAME_MAX + 1];

    if (!after->deleting && wp_claim_view(after)->sandbox[0] != '\0' &&
        (before == NULL || wp_claim_view(before)->sandbox[0] == '\0') &&
        wp_claim_means_any_pool(after, templ)) {
        wp_implicit_pools_use(self->implicit, after->ns, templ);
    }
}

static void
on_claim(void *ctx, const struct wp_object *before,
         const struct wp_object *after)
{
    struct wp_claim_controller *self = ctx;

    if (!self->parts->active) {
        return; /* activate looks at all of them. */
    }
    if (after != NULL) {
        note_use(self, before, after);
    }
    if (after == NULL) {
        wp_work_add(self->queue, before->ns, before->name, false);
        if (self->parts->config.gc) {
            wp_store_owned_by(store_of(self, WP_KIND_SANDBOX), before->uid,
                              collect_one, self);
        }
    } else if (before == NULL) {
        if (!after->deleting &&
            wp_claim_cache_find(self->cache, after->ns, after->name) == NULL) {
            (void)wp_claim_first_seen(self, after);
        }
        look_at(self, after);
    } else if (claim_differs(self, before, after)) {
        look_at(self, after);
    }
}

/* --- What happens to their Sandboxes --- */

static bool
same_condition(const struct wp_condition *a, const struct wp_condition *b)
{
    return a->status == b->status && strcmp(a->reason, b->reason) == 0 &&
           strcmp(a->message, b->message) == 0 &&
           a->transition_wall_ms == b->transition_wall_ms;
}

static bool
same_ips(const struct wp_sandbox_view *a, const struct wp_sandbox_view *b)
{
    size_t i = 0;

    while (a->pod_ips[i] != NULL && b->pod_ips[i] != NULL &&
           strcmp(a->pod_ips[i], b->pod_ips[i]) == 0) {
        i++;
    }
    return a->pod_ips[i] == NULL && b->pod_ips[i] == NULL;
}

static bool
sandbox_differs(const struct wp_object *before, const struct wp_object *after)
{
    const struct wp_sandbox_view *old = wp_sandbox_view(before);
    const struct wp_sandbox_view *new = wp_sandbox_view(after);

    return before->deleting != after->deleting || !same_ips(old, new) ||
           strcmp(old->service_fqdn, new->service_fqdn) != 0 ||
           !same_condition(&old->ready, &new->ready) ||
           !same_condition(&old->finished, &new->finished);
}

/* Is a reconcile handing this Sandbox to this claim right now? Then it goes on
 * with the newest that is known of it, and need not be called. */
static bool
is_being_adopted(const struct wp_claim_controller *self,
                 const struct wp_object *sandbox)
{
    const struct wp_claim_entry *entry =
        wp_claim_cache_find(self->cache, sandbox->ns, sandbox->controller.name);

    return entry != NULL && wp_claim_entry_is_served(entry) &&
           strcmp(entry->uid, sandbox->controller.uid) == 0;
}

static void
look_at_owner(struct wp_claim_controller *self, const struct wp_object *sandbox)
{
    const struct wp_object *claim =
        wp_store_find(store_of(self, WP_KIND_SANDBOX_CLAIM), sandbox->ns,
                      sandbox->controller.name);

    if (claim != NULL && strcmp(claim->uid, sandbox->controller.uid) == 0) {
        look_at(self, claim);
    }
}

/* A claim's Sandbox is gone, or is the claim's no more: so is its lease. */
static void
end_lease(struct wp_claim_controller *self, const struct wp_object *sandbox)
{
    struct wp_claim_info info;

    if (wp_pools_get(self->parts->core.pools, tenant(),
                     wp_str_from(sandbox->controller.uid), &info) == WP_OK &&
        !info.waiting && strcmp(info.sandbox, sandbox->name) == 0) {
        wp_pools_end(self->parts->core.pools, info.ref);
    }
}

static void
on_sandbox(void *ctx, const struct wp_object *before,
           const struct wp_object *after)
{
    struct wp_claim_controller *self = ctx;
    bool had = before != NULL &&
               wp_object_controlled_by_kind(before, WP_KIND_SANDBOX_CLAIM);
    bool has = after != NULL &&
               wp_object_controlled_by_kind(after, WP_KIND_SANDBOX_CLAIM);
    bool same = had && has &&
                strcmp(before->controller.uid, after->controller.uid) == 0 &&
                strcmp(before->uid, after->uid) == 0;

    if (!self->parts->active) {
        return;
    }
    if (had && !same) {
        end_lease(self, before);
        look_at_owner(self, before);
    }
    if (has && (same ? sandbox_differs(before, after)
                     : !is_being_adopted(self, after))) {
        look_at_owner(self, after);
    }
    if (before != NULL && after == NULL) {
        /* It may have stood in the way of a claim of its name: the first
         * claim's of that name in the second one's. */
        const struct wp_object *claim = wp_store_find(
            store_of(self, WP_KIND_SANDBOX_CLAIM), before->ns, before->name);

        if (claim != NULL && wp_claim_view(claim)->sandbox[0] == '\0') {
            look_at(self, claim);
        }
    }
}

/* An alias that is gone may have stood in the way of a Sandbox of its claim's
 * own. */
static void
on_alias(void *ctx, const struct wp_object *before,
         const struct wp_object *after)
{
    struct wp_claim_controller *self = ctx;
    const struct wp_object *claim;

    if (!self->parts->active || after != NULL) {
        return;
    }
    claim = wp_store_find(store_of(self, WP_KIND_SANDBOX_CLAIM), before->ns,
                          before->name);
    if (claim != NULL && wp_claim_view(claim)->sandbox[0] == '\0') {
        look_at(self, claim);
    }
}

/* --- What happens to pools and templates --- */

/* Which claims may be waiting for one of them. */
struct waiters {
    struct wp_claim_controller *self;
    const char *ns;
    const char *pool;  /* NULL: of any, when its template is missing. */
    const char *templ; /* The pool's, or the one that came or changed. */
};

/* The template that its sandbox is made from; NULL when it is not known. room
 * is for the answer. */
static const char *
template_of(const struct wp_claim_controller *self,
            const struct wp_object *claim,
            char room[WP_CLAIM_OBJECT_NAME_MAX + 1])
{
    const struct wp_object *pool =
        wp_store_find(store_of(self, WP_KIND_SANDBOX_WARM_POOL), claim->ns,
                      wp_claim_view(claim)->pool);

    if (pool != NULL) {
        return wp_warm_pool_view(pool)->template_name;
    }
    return wp_claim_names_template(claim, room) ? room : NULL;
}

static bool
is_of_template(const struct waiters *waiters, const struct wp_object *claim)
{
    char room[WP_CLAIM_OBJECT_NAME_MAX + 1];
    const char *templ = template_of(waiters->self, claim, room);

    return templ != NULL && strcmp(templ, waiters->templ) == 0;
}

static bool
wake_one(void *ctx, const struct wp_object *claim)
{
    struct waiters *waiters = ctx;
    const struct wp_claim_view *view = wp_claim_view(claim);
    bool missing = strcmp(view->ready.reason, "TemplateNotFound") == 0;

    if (strcmp(claim->ns, waiters->ns) == 0 &&
        (waiters->pool == NULL
             ? missing || (view->sandbox[0] == '\0' && view->has_pod_metadata)
             : view->sandbox[0] == '\0' &&
                   (strcmp(view->pool, waiters->pool) == 0 ||
                    is_of_template(waiters, claim)))) {
        look_at(waiters->self, claim);
    }
    return true;
}

/* Claims that have a sandbox made from this template, or another now. */
static bool
wake_bound(void *ctx, const struct wp_object *claim)
{
    struct waiters *waiters = ctx;

    if (wp_claim_view(claim)->sandbox[0] != '\0' &&
        strcmp(claim->ns, waiters->ns) == 0 && is_of_template(waiters, claim)) {
        wp_work_add_last(waiters->self->queue, claim->ns, claim->name);
    }
    return true;
}

static void
on_pool(void *ctx, const struct wp_object *before,
        const struct wp_object *after)
{
    struct wp_claim_controller *self = ctx;

    if (self->parts->active && after != NULL &&
        (before == NULL || before->generation != after->generation)) {
        struct waiters waiters = {self, after->ns, after->name,
                                  wp_warm_pool_view(after)->template_name};

        wp_store_walk(store_of(self, WP_KIND_SANDBOX_CLAIM), wake_one,
                      &waiters);
    }
}

static bool
is_rejected(const struct wp_claim_view *view)
{
    return strcmp(view->ready.reason, WP_REASON_ENV_REJECTED) == 0 ||
           strcmp(view->ready.reason, WP_REASON_VOLUMES_REJECTED) == 0;
}

/* A policy of the template may have changed: what it refused is tried again. */
static bool
wake_rejected(void *ctx, const struct wp_object *claim)
{
    struct waiters *waiters = ctx;

    if (strcmp(claim->ns, waiters->ns) == 0 &&
        is_rejected(wp_claim_view(claim))) {
        look_at(waiters->self, claim);
    }
    return true;
}

static void
on_template(void *ctx, const struct wp_object *before,
            const struct wp_object *after)
{
    struct wp_claim_controller *self = ctx;

    if (self->parts->active && after != NULL &&
        (before == NULL || before->generation != after->generation)) {
        struct waiters waiters = {self, after->ns, NULL, after->name};

        wp_store_walk(store_of(self, WP_KIND_SANDBOX_CLAIM),
                      before == NULL ? wake_one : wake_rejected, &waiters);
        if (before == NULL || wp_template_view(before)->pod_metadata_hash !=
                                  wp_template_view(after)->pod_metadata_hash) {
            wp_store_walk(store_of(self, WP_KIND_SANDBOX_CLAIM), wake_bound,
                          &waiters);
        }
    }
}

/* Claims that wait for a sandbox of this template say what it lacks. */
static bool
wake_waiting(void *ctx, const struct wp_object *claim)
{
    struct waiters *waiters = ctx;

    if (wp_claim_view(claim)->sandbox[0] == '\0' &&
        strcmp(claim->ns, waiters->ns) == 0 && is_of_template(waiters, claim)) {
        look_at(waiters->self, claim);
    }
    return true;
}

static void
on_verdict(void *ctx, const struct wp_object *template_)
{
    struct wp_claim_controller *self = ctx;
    struct waiters waiters = {self, template_->ns, NULL, template_->name};

    if (self->parts->active) {
        wp_store_walk(store_of(self, WP_KIND_SANDBOX_CLAIM), wake_waiting,
                      &waiters);
    }
}

static bool
wake_unsigned(void *ctx, const struct wp_object *claim)
{
    if (wp_claim_identity_wants(claim) &&
        strcmp(wp_claim_view(claim)->ready.reason, WP_REASON_BINDING) == 0) {
        look_at(ctx, claim);
    }
    return true;
}

/* What waited for a key need not end its pause, which has grown meanwhile. */
static void
on_keys(void *ctx)
{
    struct wp_claim_controller *self = ctx;

    if (self->parts->active) {
        wp_store_walk(store_of(self, WP_KIND_SANDBOX_CLAIM), wake_unsigned,
                      self);
    }
}

/* --- Leading --- */

static void
reconcile(void *ctx, struct wp_work *work, const char *ns, const char *name)
{
    wp_claim_reconcile_begin(ctx, work, ns, name);
}

static void
on_answer(void *ctx, const char *ns, const char *name)
{
    struct wp_claim_controller *self = ctx;

    wp_work_add(self->queue, ns, name, true);
}

static bool
look_at_each(void *ctx, const struct wp_object *claim)
{
    look_at(ctx, claim);
    return true;
}

/* Claims that went while nobody looked leave their entries behind. */
static void
look_at_entry(void *ctx, struct wp_claim_entry *entry)
{
    struct wp_claim_controller *self = ctx;

    wp_work_add(self->queue, entry->key.ns, entry->key.name, false);
}

static void
claim_activate(void *arg)
{
    struct wp_claim_controller *self = arg;

    wp_claim_cache_walk(self->cache, look_at_entry, self);
    wp_store_walk(store_of(self, WP_KIND_SANDBOX_CLAIM), look_at_each, self);
    wp_claim_orphans_end(self->orphans);
    wp_work_pause(self->queue, false);
    wp_claim_endings_pause(self->endings, false);
    wp_implicit_pools_look(self->implicit);
    wp_implicit_pools_pause(self->implicit, false);
    if (self->aliases != NULL) {
        wp_claim_aliases_activate(self->aliases);
    }
}

static void
withdraw(void *ctx, struct wp_claim_entry *entry)
{
    (void)ctx;
    /* What a reconcile is adopting stays its own. */
    if (entry->ask != NULL && wp_claim_ask_status(entry->ask) == WP_PENDING) {
        wp_claim_entry_drop_ask(entry);
    }
}

static void
claim_deactivate(void *arg)
{
    struct wp_claim_controller *self = arg;

    wp_work_pause(self->queue, true);
    wp_claim_endings_pause(self->endings, true);
    wp_implicit_pools_pause(self->implicit, true);
    if (self->aliases != NULL) {
        wp_claim_aliases_deactivate(self->aliases);
    }
    wp_claim_cache_walk(self->cache, withdraw, NULL);
}

/* --- Life --- */

static void
claim_destroy(void *arg)
{
    struct wp_claim_controller *self = arg;

    if (self == NULL) {
        return;
    }
    wp_claim_bring_none(self);
    wp_claim_asks_destroy(self->asks);
    wp_claim_orphans_destroy(self->orphans);
    wp_claim_endings_destroy(self->endings);
    wp_claim_aliases_destroy(self->aliases);
    wp_implicit_pools_destroy(self->implicit);
    wp_claim_cache_destroy(self->cache);
    wp_work_queue_destroy(self->queue);
    wp_label_domains_fini(&self->domains);
    free(self);
}

static void *
claim_create(struct wp_parts *parts, struct wp_err *err)
{
    struct wp_claim_controller *self =
        aligned_alloc(_Alignof(struct wp_claim_controller), sizeof *self);
    struct wp_work_queue_config queue = {.base = parts->base,
                                         .clock = parts->clock,
                                         .workers_max = WORKERS_MAX,
                                         .last_max = LAST_MAX,
                                         .seed = parts->seed,
                                         .reconcile = reconcile,
                                         .ctx = self};
    const char *file = parts->config.allowed_label_domains_file;

    if (self == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "claims: no memory");
        return NULL;
    }
    memset(self, 0, sizeof *self);
    self->parts = parts;
    wp_list_init(&self->bringing);
    if (wp_label_domains_read(&self->domains,
                              file != NULL ? file : WP_LABEL_DOMAINS_FILE,
                              err) != WP_OK) {
        free(self);
        return NULL;
    }
    self->queue = wp_work_queue_create(&queue);
    self->cache = wp_claim_cache_create();
    self->asks = wp_claim_asks_create(parts, on_answer, self);
    self->orphans = wp_claim_orphans_create(parts);
    self->endings = wp_claim_endings_create(parts, &self->metrics);
    self->implicit = wp_implicit_pools_create(parts);
    if (parts->stores[WP_KIND_ALIAS] != NULL) {
        self->aliases = wp_claim_aliases_create(
            parts, &self->metrics.writes[WP_CLAIM_WRITE_ALIAS]);
    }
    if (self->queue == NULL || self->cache == NULL || self->asks == NULL ||
        self->orphans == NULL || self->endings == NULL ||
        self->implicit == NULL ||
        (parts->stores[WP_KIND_ALIAS] != NULL && self->aliases == NULL)) {
        claim_destroy(self);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "claims: no memory");
        return NULL;
    }
    wp_work_pause(self->queue, true);
    wp_store_listen(store_of(self, WP_KIND_SANDBOX_CLAIM), on_claim, self);
    wp_store_listen(store_of(self, WP_KIND_SANDBOX), on_sandbox, self);
    wp_store_listen(store_of(self, WP_KIND_SANDBOX_WARM_POOL), on_pool, self);
    wp_store_listen(store_of(self, WP_KIND_SANDBOX_TEMPLATE), on_template,
                    self);
    if (self->aliases != NULL) {
        wp_store_listen(store_of(self, WP_KIND_ALIAS), on_alias, self);
    }
    if (parts->verdicts != NULL) {
        wp_verdicts_listen(parts->verdicts, on_verdict, self);
    }
    parts->on_keys = on_keys;
    parts->on_keys_ctx = self;
    return self;
}

static void
claim_stats(const void *arg, struct wp_work_queue_stats *out)
{
    const struct wp_claim_controller *self = arg;

    wp_work_queue_stats(self->queue, out);
}

const struct wp_claim_metrics *
wp_claim_controller_metrics(const void *self)
{
    return &((const struct wp_claim_controller *)self)->metrics;
}

const struct wp_controller_ops wp_claim_controller_ops = {
    .name = "claim",
    .create = claim_create,
    .activate = claim_activate,
    .deactivate = claim_deactivate,
    .destroy = claim_destroy,
    .stats = claim_stats,
};
