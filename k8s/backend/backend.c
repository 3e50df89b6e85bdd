#include "k8s/backend/backend.h"

#include <stdlib.h>
#include <string.h>

#include "k8s/backend/backend_impl.h"
#include "k8s/objects/names.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    WORKERS_MAX = 1024, /* API calls under way; the client has its own bound. */
};

/* --- Messages --- */

void
wp_backend_message_drop(struct wp_cluster_message *from)
{
    struct wp_backend_message *message =
        WP_CONTAINER_OF(from, struct wp_backend_message, base);

    free(message->record);
    free(message);
}

struct wp_backend_message *
wp_backend_message(struct wp_cluster_backend *backend,
                   void (*run)(struct wp_cluster_message *))
{
    struct wp_backend_message *message = calloc(1, sizeof *message);

    if (message != NULL) {
        message->base.run = run;
        message->base.drop = wp_backend_message_drop;
        message->backend = backend;
    }
    return message;
}

int64_t
wp_backend_ready_within_ns(const struct wp_cluster_backend *backend,
                           const char *ns, const char *pool)
{
    struct wp_pools *pools = backend->parts->core.pools;
    uint32_t index = wp_pools_index(pools, wp_str_from(ns), wp_str_from(pool));
    struct wp_pool_stats stats;

    if (index == UINT32_MAX) {
        return backend->parts->config.ready_grace_ns;
    }
    wp_pools_stats(pools, index, &stats);
    return stats.spec.ready_within_ns;
}

/* An order of the core. Cluster's thread, as are all that follow. */
static void
take_order(struct wp_cluster_message *from)
{
    struct wp_backend_message *order =
        WP_CONTAINER_OF(from, struct wp_backend_message, base);
    struct wp_cluster_backend *backend = order->backend;
    struct wp_sandbox_ref entry = {
        .ref = order->ref,
        .phase = WP_SANDBOX_CREATING,
        .ready_by_ns = wp_time_add(
            wp_clock_mono_ns(backend->parts->clock),
            wp_backend_ready_within_ns(backend, order->ns, order->pool)),
    };

    memcpy(entry.uid, order->uid, sizeof entry.uid);
    memcpy(entry.ns, order->ns, sizeof entry.ns);
    memcpy(entry.pool, order->pool, sizeof entry.pool);
    memcpy(entry.name, order->name, sizeof entry.name);
    if (wp_sandbox_refs_add(backend->refs, &entry) == NULL) {
        wp_pools_on_lost(backend->parts->core.pools, order->ref,
                         WP_STR("its name is another sandbox's"));
        wp_pools_on_destroyed(backend->parts->core.pools, order->ref);
    } else {
        wp_backend_wake(backend, entry.ns, entry.name);
    }
    free(order);
}

static void
take_end(struct wp_cluster_message *from)
{
    struct wp_backend_message *end =
        WP_CONTAINER_OF(from, struct wp_backend_message, base);
    struct wp_cluster_backend *backend = end->backend;
    struct wp_sandbox_ref *entry =
        wp_sandbox_refs_find_ref(backend->refs, end->ref);

    if (entry == NULL) {
        /* There is nothing of it, or no longer. */
        wp_pools_on_destroyed(backend->parts->core.pools, end->ref);
    } else {
        entry->unwanted = true;
        wp_backend_end_binding(entry, WP_UNAVAILABLE, "its lease has ended");
        wp_backend_wake(backend, entry->ns, entry->name);
    }
    free(end);
}

/* The core has read of a lease after all sandboxes were counted: it is of a
 * pool that came anew. NULL: its sandbox is gone, or nobody can tell now. */
static struct wp_sandbox_ref *
find_late(struct wp_cluster_backend *backend, struct wp_backend_message *leased)
{
    const struct wp_object *sandbox = wp_store_find(
        backend->parts->stores[WP_KIND_SANDBOX], leased->ns, leased->name);
    struct wp_pools *pools = backend->parts->core.pools;
    uint8_t uid[WP_UID_LEN];

    if (!backend->parts->active || backend->doubtful) {
        return NULL;
    }
    if (sandbox == NULL || sandbox->deleting ||
        !wp_sandbox_core_uid(sandbox, uid) ||
        memcmp(uid, leased->uid, sizeof uid) != 0) {
        wp_pools_on_lost(pools, leased->ref,
                         WP_STR("it was gone when its pool came back"));
        wp_pools_on_destroyed(pools, leased->ref);
        return NULL;
    }
    leased->pooled = wp_backend_is_pooled(backend, sandbox);
    wp_backend_add_found(backend, leased);
    return wp_sandbox_refs_find_ref(backend->refs, leased->ref);
}

static void
take_lease(struct wp_cluster_message *from)
{
    struct wp_backend_message *leased =
        WP_CONTAINER_OF(from, struct wp_backend_message, base);
    struct wp_cluster_backend *backend = leased->backend;
    struct wp_sandbox_ref *entry =
        wp_sandbox_refs_find_ref(backend->refs, leased->ref);

    if (entry == NULL) {
        entry = find_late(backend, leased);
    }
    if (entry != NULL) {
        wp_backend_set_lease(backend, entry, &leased->note);
        wp_backend_wake(backend, entry->ns, entry->name);
    }
    free(leased);
}

/* --- The port. Control thread. --- */

static bool
is_full(struct wp_cluster_backend *backend)
{
    return wp_cluster_channel_waiting(backend->channel) >=
           backend->messages_max;
}

static enum wp_status
port_create(void *self, const struct wp_sandbox_order *order,
            struct wp_err *err)
{
    struct wp_cluster_backend *backend = self;
    struct wp_backend_message *message =
        is_full(backend) ? NULL : wp_backend_message(backend, take_order);

    if (message == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "too many orders wait for the cluster's thread");
    }
    message->ref = order->ref;
    memcpy(message->uid, order->uid, sizeof message->uid);
    if (!wp_str_copy(order->pool_namespace, message->ns, sizeof message->ns) ||
        !wp_str_copy(order->pool, message->pool, sizeof message->pool) ||
        !wp_str_copy(order->name, message->name, sizeof message->name)) {
        free(message);
        return wp_err_set(err, WP_INVALID_ARGUMENT, "a name is too long");
    }
    wp_cluster_channel_to_cluster(backend->channel, &message->base);
    return WP_OK;
}

static enum wp_status
port_destroy(void *self, struct wp_slot_ref ref)
{
    struct wp_cluster_backend *backend = self;
    struct wp_backend_message *message =
        is_full(backend) ? NULL : wp_backend_message(backend, take_end);

    if (message == NULL) {
        return WP_RESOURCE_EXHAUSTED;
    }
    message->ref = ref;
    wp_cluster_channel_to_cluster(backend->channel, &message->base);
    return WP_OK;
}

static void
port_leased(void *self, const struct wp_lease_notice *notice)
{
    struct wp_cluster_backend *backend = self;
    struct wp_backend_message *message =
        wp_backend_message(backend, take_lease);

    if (message == NULL) {
        return; /* It stays where it is; its label says less than it could. */
    }
    message->ref = notice->ref;
    message->note.fence = notice->fence;
    message->note.deadline_wall_ms = notice->deadline_wall_ms;
    message->note.granted_wall_ms = notice->granted_wall_ms;
    message->note.fingerprint = notice->fingerprint;
    message->note.served = notice->served;
    memcpy(message->uid, notice->uid, sizeof message->uid);
    if (!wp_str_copy(notice->pool_namespace, message->ns, sizeof message->ns) ||
        !wp_str_copy(notice->sandbox, message->name, sizeof message->name) ||
        !wp_str_copy(notice->pool, message->pool, sizeof message->pool) ||
        !wp_str_copy(notice->pool, message->note.pool,
                     sizeof message->note.pool) ||
        !wp_str_copy(notice->claim_id, message->note.claim_id,
                     sizeof message->note.claim_id) ||
        !wp_str_copy(notice->tenant, message->note.tenant,
                     sizeof message->note.tenant)) {
        free(message);
        return;
    }
    wp_cluster_channel_to_cluster(backend->channel, &message->base);
}

struct wp_backend
wp_cluster_backend_port(struct wp_cluster_backend *backend)
{
    static const struct wp_backend_ops ops = {
        .name = "kubernetes",
        .foreign = true,
        .create = port_create,
        .destroy = port_destroy,
        .leased = port_leased,
        .bind = wp_backend_bind,
        .unbound = wp_backend_unbound,
        .may_bring = wp_backend_may_bring,
        .narrows = wp_backend_narrows,
        .passes = wp_backend_passes,
        .may_sign = wp_backend_may_sign,
    };

    return (struct wp_backend){.ops = &ops, .self = backend};
}

void
wp_backend_wake(struct wp_cluster_backend *backend, const char *ns,
                const char *name)
{
    wp_work_add(backend->queue, ns, name, false);
}

static bool
stop_at_first(void *ctx, const struct wp_object *sandbox)
{
    bool *found = ctx;

    *found = !sandbox->deleting;
    return !*found;
}

/* The core's orders for the new pool come after this message. */
static void
take_pool(struct wp_cluster_message *from)
{
    struct wp_backend_message *message =
        WP_CONTAINER_OF(from, struct wp_backend_message, base);
    struct wp_cluster_backend *backend = message->backend;
    bool has_some = false;

    if (backend->parts->active) {
        wp_store_owned_by(backend->parts->stores[WP_KIND_SANDBOX],
                          message->name, stop_at_first, &has_some);
    }
    if (has_some) {
        wp_backend_count(backend);
    }
    free(message);
}

void
wp_cluster_backend_pool_added(struct wp_cluster_backend *backend,
                              const char *pool_uid)
{
    struct wp_backend_message *message = wp_backend_message(backend, take_pool);

    WP_ASSERT(message != NULL);
    /* A uid is a UUID; another one has no sandboxes. */
    if (!wp_str_copy(wp_str_from(pool_uid), message->name,
                     sizeof message->name)) {
        free(message);
        return;
    }
    wp_cluster_channel_to_cluster(backend->channel, &message->base);
}

/* --- Life --- */

static void
on_sandbox(void *ctx, const struct wp_object *before,
           const struct wp_object *after)
{
    struct wp_cluster_backend *backend = ctx;
    const struct wp_object *object = after != NULL ? after : before;

    if (!backend->parts->active) {
        return; /* Looked at when this replica leads. */
    }
    if (wp_sandbox_refs_find(backend->refs, object->ns, object->name) != NULL ||
        (after != NULL &&
         (wp_backend_is_pooled(backend, after) ||
          wp_object_annotation(after, WP_ANNOTATION_LEASE) != NULL))) {
        wp_backend_wake(backend, object->ns, object->name);
    }
}

static bool
wake_of_old(void *ctx, const struct wp_object *sandbox)
{
    struct wp_cluster_backend *backend = ctx;

    if (wp_sandbox_refs_find(backend->refs, sandbox->ns, sandbox->name) !=
        NULL) {
        wp_backend_wake(backend, sandbox->ns, sandbox->name);
    }
    return true;
}

/* A pool of that name that is another one by now: what the first one had is not
 * the second one's. Whether its end was told of or not. */
static void
on_pool(void *ctx, const struct wp_object *before,
        const struct wp_object *after)
{
    struct wp_cluster_backend *backend = ctx;
    char hash[WP_NAME_HASH_LEN + 1];

    if (backend->parts->active && before == NULL) {
        wp_name_hash(wp_str_from(after->name), hash);
        wp_store_labelled(backend->parts->stores[WP_KIND_SANDBOX], after->ns,
                          hash, wake_of_old, backend);
    }
}

struct wp_cluster_backend *
wp_cluster_backend_create(struct wp_parts *parts, struct wp_err *err)
{
    struct wp_cluster_backend *backend = calloc(1, sizeof *backend);

    if (backend != NULL) {
        backend->parts = parts;
        backend->messages_max = parts->config.sandboxes_max;
        backend->refs = wp_sandbox_refs_create(parts->config.sandboxes_max);
        backend->queue =
            wp_parts_queue(parts, WORKERS_MAX, wp_backend_reconcile, backend);
        backend->channel = wp_cluster_channel_create(parts);
        backend->fresh = wp_fresh_list_create(parts);
        backend->records =
            evtimer_new(parts->base, wp_backend_on_records, backend);
        backend->bindable =
            wp_bindable_create(parts->stores[WP_KIND_SANDBOX_TEMPLATE]);
        atomic_init(&backend->binds, 0);
        atomic_init(&backend->binds_open, false);
    }
    if (backend == NULL || backend->refs == NULL || backend->queue == NULL ||
        backend->channel == NULL || backend->fresh == NULL ||
        backend->records == NULL || backend->bindable == NULL) {
        wp_cluster_backend_destroy(backend);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    parts->refs = backend->refs;
    wp_store_listen(parts->stores[WP_KIND_SANDBOX], on_sandbox, backend);
    wp_store_listen(parts->stores[WP_KIND_SANDBOX_WARM_POOL], on_pool, backend);
    return backend;
}

void
wp_cluster_backend_destroy(struct wp_cluster_backend *backend)
{
    if (backend == NULL) {
        return;
    }
    if (backend->fresh != NULL && backend->records != NULL) {
        wp_backend_drop_sweep(backend);
    }
    wp_fresh_list_destroy(backend->fresh);
    if (backend->records != NULL) {
        event_free(backend->records);
    }
    wp_cluster_channel_destroy(backend->channel);
    wp_work_queue_destroy(backend->queue);
    wp_sandbox_refs_destroy(backend->refs);
    wp_bindable_destroy(backend->bindable);
    backend->parts->refs = NULL;
    free(backend);
}

void
wp_cluster_backend_stats(const struct wp_cluster_backend *backend,
                         struct wp_cluster_backend_stats *out)
{
    *out = backend->stats;
    out->known = wp_sandbox_refs_count(backend->refs);
    wp_work_queue_stats(backend->queue, &out->queue);
}
