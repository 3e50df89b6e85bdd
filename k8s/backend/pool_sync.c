#include "k8s/backend/pool_sync.h"

#include <stdlib.h>
#include <string.h>

#include "k8s/backend/backend.h"
#include "k8s/backend/channel.h"
#include "k8s/objects/pool_policy.h"
#include "pool/annotations/annotations.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    WAITERS_MAX = 4096, /* Of one pool. */
};

struct wp_pool_sync {
    struct wp_parts *parts;
    struct wp_cluster_backend *backend; /* May be NULL. */
    struct wp_cluster_channel *channel;
    bool started;
};

/* What the core is to know of a pool. */
struct message {
    struct wp_cluster_message base; /* First. */
    struct wp_pool_sync *sync;
    struct wp_pool_spec spec;
    /* As it would be without annotations. */
    struct wp_pool_spec plain;
    /* Why the annotations do not count: the pool keeps what they said before.
     * WP_OK: they do. */
    struct wp_err policy_err;
    char uid[64]; /* Of the object. */
};

static void
drop(struct wp_cluster_message *from)
{
    free(WP_CONTAINER_OF(from, struct message, base));
}

static struct message *
new_message(struct wp_pool_sync *sync, void (*run)(struct wp_cluster_message *))
{
    struct message *message = calloc(1, sizeof *message);

    WP_ASSERT(message != NULL);
    message->base.run = run;
    message->base.drop = drop;
    message->sync = sync;
    return message;
}

static uint32_t
index_of(struct wp_pools *pools, const struct wp_pool_spec *spec)
{
    return wp_pools_index(pools, wp_str_from(spec->pool_namespace),
                          wp_str_from(spec->name));
}

/* Annotations with a mistake are not followed, and not half of them either. */
static void
keep_policy(struct wp_pools *pools, uint32_t index, struct message *message)
{
    struct wp_pool_stats stats;

    if (message->policy_err.status == WP_OK) {
        return;
    }
    wp_log_warn("a SandboxWarmPool keeps what its annotations said before",
                wp_kv_str("namespace", message->spec.pool_namespace),
                wp_kv_str("pool", message->spec.name),
                wp_kv_str("error", message->policy_err.msg));
    message->spec = message->plain;
    if (index != UINT32_MAX) {
        wp_pools_stats(pools, index, &stats);
        wp_pool_annotations_keep(&message->spec, &stats.spec);
        /* A template that has come or gone counts all the same. */
        if (message->plain.create_inflight_max == 0 ||
            message->spec.create_inflight_max == 0) {
            message->spec.create_inflight_max =
                message->plain.create_inflight_max;
        }
    }
}

/* On the control thread. */
static void
set_pool(struct wp_cluster_message *from)
{
    struct message *message = WP_CONTAINER_OF(from, struct message, base);
    struct wp_pool_sync *sync = message->sync;
    struct wp_pools *pools = sync->parts->core.pools;
    uint32_t index = index_of(pools, &message->spec);
    struct wp_err err = {.msg = ""};
    enum wp_status status;

    keep_policy(pools, index, message);
    status = index == UINT32_MAX
                 ? wp_pools_add(pools, &message->spec, NULL, &err)
                 : wp_pools_update(pools, index, &message->spec, &err);
    if (status != WP_OK) {
        wp_log_warn("a SandboxWarmPool is not served",
                    wp_kv_str("namespace", message->spec.pool_namespace),
                    wp_kv_str("pool", message->spec.name),
                    wp_kv_str("error", err.msg));
    } else if (index == UINT32_MAX && sync->backend != NULL) {
        wp_cluster_backend_pool_added(sync->backend, message->uid);
    }
    free(message);
}

/* The same. */
static void
remove_pool(struct wp_cluster_message *from)
{
    struct message *message = WP_CONTAINER_OF(from, struct message, base);
    struct wp_pools *pools = message->sync->parts->core.pools;
    uint32_t index = index_of(pools, &message->spec);

    if (index != UINT32_MAX) {
        wp_pools_remove(pools, index);
    }
    free(message);
}

static bool
set_names(struct wp_pool_spec *spec, const struct wp_object *pool)
{
    return wp_str_copy(wp_str_from(pool->ns), spec->pool_namespace,
                       sizeof spec->pool_namespace) &&
           wp_str_copy(wp_str_from(pool->name), spec->name, sizeof spec->name);
}

static void
send_pool(struct wp_pool_sync *sync, const struct wp_object *pool)
{
    const struct wp_cluster_config *config = &sync->parts->config;
    const struct wp_warm_pool_view *view = wp_warm_pool_view(pool);
    struct message *message = new_message(sync, set_pool);
    struct wp_pool_spec *spec = &message->spec;
    bool has_template =
        wp_store_find(sync->parts->stores[WP_KIND_SANDBOX_TEMPLATE], pool->ns,
                      view->template_name) != NULL;
    bool named;

    wp_pool_spec_init(spec);
    /* A template whose name does not fit here is only not shown by name. */
    (void)!wp_str_copy(wp_str_from(view->template_name), spec->template_name,
                       sizeof spec->template_name);
    /* A view has none below 0. */
    spec->target = (uint32_t)(view->replicas < WP_TARGET_MAX ? view->replicas
                                                             : WP_TARGET_MAX);
    spec->create_inflight_max = config->create_inflight_max;
    spec->ready_within_ns = config->ready_grace_ns;
    spec->cold_start = WP_COLD_NEVER;
    /* All claims by objects are of one tenant. */
    spec->waiters_max = WAITERS_MAX;
    spec->tenant_waiters_max = WAITERS_MAX;
    spec->wait_max_ns = WP_WAIT_MAX_NS;
    named = set_names(spec, pool);
    message->plain = *spec;
    message->policy_err.status =
        wp_pool_policy_read(pool, spec, &message->policy_err);
    if (!has_template) {
        spec->create_inflight_max = 0;
        message->plain.create_inflight_max = 0;
    }
    if (!named || !wp_str_copy(wp_str_from(pool->uid), message->uid,
                               sizeof message->uid)) {
        wp_log_warn("a SandboxWarmPool is not served: its name is too long",
                    wp_kv_str("namespace", pool->ns),
                    wp_kv_str("pool", pool->name));
        free(message);
        return;
    }
    wp_cluster_channel_to_control(sync->channel, &message->base);
}

static void
send_removal(struct wp_pool_sync *sync, const struct wp_object *pool)
{
    struct message *message = new_message(sync, remove_pool);

    if (!set_names(&message->spec, pool)) {
        free(message); /* It was never served. */
        return;
    }
    wp_cluster_channel_to_control(sync->channel, &message->base);
}

/* Of what the core is told, nothing is different: of two versions of one. */
static bool
is_same(const struct wp_object *a, const struct wp_object *b)
{
    const struct wp_warm_pool_view *x = wp_warm_pool_view(a);
    const struct wp_warm_pool_view *y = wp_warm_pool_view(b);

    return x->replicas == y->replicas &&
           strcmp(x->template_name, y->template_name) == 0 &&
           wp_pool_policy_same(a, b);
}

static void
on_pool(void *ctx, const struct wp_object *before,
        const struct wp_object *after)
{
    struct wp_pool_sync *sync = ctx;

    if (!sync->started ||
        (before != NULL && after != NULL && is_same(before, after))) {
        return;
    }
    if (after != NULL) {
        send_pool(sync, after);
    } else if (before != NULL) {
        send_removal(sync, before);
    }
}

struct template_walk {
    struct wp_pool_sync *sync;
    const struct wp_object *template_;
};

static bool
send_if_made_from(void *ctx, const struct wp_object *pool)
{
    const struct template_walk *walk = ctx;

    if (strcmp(pool->ns, walk->template_->ns) == 0 &&
        strcmp(wp_warm_pool_view(pool)->template_name, walk->template_->name) ==
            0) {
        send_pool(walk->sync, pool);
    }
    return true;
}

/* It comes or goes: what its pools may make changes. */
static void
on_template(void *ctx, const struct wp_object *before,
            const struct wp_object *after)
{
    struct wp_pool_sync *sync = ctx;
    struct template_walk walk = {sync, after != NULL ? after : before};

    if (sync->started && (before == NULL || after == NULL)) {
        wp_store_walk(sync->parts->stores[WP_KIND_SANDBOX_WARM_POOL],
                      send_if_made_from, &walk);
    }
}

static bool
send_each(void *ctx, const struct wp_object *pool)
{
    send_pool(ctx, pool);
    return true;
}

struct wp_pool_sync *
wp_pool_sync_create(struct wp_parts *parts, struct wp_cluster_backend *backend,
                    struct wp_err *err)
{
    struct wp_pool_sync *sync = calloc(1, sizeof *sync);

    if (sync != NULL) {
        sync->parts = parts;
        sync->backend = backend;
        sync->channel = wp_cluster_channel_create(parts);
    }
    if (sync == NULL || sync->channel == NULL) {
        free(sync);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    wp_store_listen(parts->stores[WP_KIND_SANDBOX_WARM_POOL], on_pool, sync);
    wp_store_listen(parts->stores[WP_KIND_SANDBOX_TEMPLATE], on_template, sync);
    return sync;
}

void
wp_pool_sync_start(struct wp_pool_sync *sync)
{
    WP_ASSERT(!sync->started);
    sync->started = true;
    wp_store_walk(sync->parts->stores[WP_KIND_SANDBOX_WARM_POOL], send_each,
                  sync);
}

void
wp_pool_sync_destroy(struct wp_pool_sync *sync)
{
    if (sync != NULL) {
        wp_cluster_channel_destroy(sync->channel);
        free(sync);
    }
}
