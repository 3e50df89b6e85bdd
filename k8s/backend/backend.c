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

/* What the core asks for, or was asked. */
struct message {
    struct wp_cluster_message base; /* First. */
    struct wp_cluster_backend *backend;
    struct wp_slot_ref ref;
    uint8_t uid[WP_UID_LEN];
    char ns[WP_NAMESPACE_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
    char name[WP_SANDBOX_NAME_MAX + 1];
    struct wp_lease_note note;      /* leased; ask, when there is a record. */
    struct wp_lease_record *record; /* ask: to be rebuilt; NULL. Owned. */
    uint32_t epoch;                 /* swept */
    uint32_t count_nr;              /* swept, counted */
    bool listed;                    /* swept: all was read anew before. */
    bool pooled;                    /* ask: it may be new to the core. */
    bool is_new;                    /* Its answer: it was. */
};

static void
drop(struct wp_cluster_message *from)
{
    struct message *message = WP_CONTAINER_OF(from, struct message, base);

    free(message->record);
    free(message);
}

static struct message *
new_message(struct wp_cluster_backend *backend,
            void (*run)(struct wp_cluster_message *))
{
    struct message *message = calloc(1, sizeof *message);

    if (message != NULL) {
        message->base.run = run;
        message->base.drop = drop;
        message->backend = backend;
    }
    return message;
}

static int64_t
now_of(const struct wp_cluster_backend *backend)
{
    return wp_clock_mono_ns(backend->parts->clock);
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
    struct message *order = WP_CONTAINER_OF(from, struct message, base);
    struct wp_cluster_backend *backend = order->backend;
    struct wp_sandbox_ref entry = {
        .ref = order->ref,
        .phase = WP_SANDBOX_CREATING,
        .ready_by_ns = wp_time_add(
            now_of(backend),
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
    struct message *end = WP_CONTAINER_OF(from, struct message, base);
    struct wp_cluster_backend *backend = end->backend;
    struct wp_sandbox_ref *entry =
        wp_sandbox_refs_find_ref(backend->refs, end->ref);

    if (entry == NULL) {
        /* There is nothing of it, or no longer. */
        wp_pools_on_destroyed(backend->parts->core.pools, end->ref);
    } else {
        entry->unwanted = true;
        wp_backend_wake(backend, entry->ns, entry->name);
    }
    free(end);
}

static void
take_lease(struct wp_cluster_message *from)
{
    struct message *leased = WP_CONTAINER_OF(from, struct message, base);
    struct wp_cluster_backend *backend = leased->backend;
    struct wp_sandbox_ref *entry =
        wp_sandbox_refs_find_ref(backend->refs, leased->ref);

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
    struct message *message =
        is_full(backend) ? NULL : new_message(backend, take_order);

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
    struct message *message =
        is_full(backend) ? NULL : new_message(backend, take_end);

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
    struct message *message = new_message(backend, take_lease);

    if (message == NULL) {
        return; /* It stays where it is; its label says less than it could. */
    }
    message->ref = notice->ref;
    message->note.fence = notice->fence;
    message->note.deadline_wall_ms = notice->deadline_wall_ms;
    message->note.granted_wall_ms = notice->granted_wall_ms;
    message->note.fingerprint = notice->fingerprint;
    message->note.served = notice->served;
    if (!wp_str_copy(notice->pool, message->note.pool,
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
    };

    return (struct wp_backend){&ops, backend};
}

/* --- What is found --- */

/* An object that the core has a slot for. */
static void
add_found(struct wp_cluster_backend *backend, const struct message *answer)
{
    const struct wp_object *sandbox = wp_store_find(
        backend->parts->stores[WP_KIND_SANDBOX], answer->ns, answer->name);
    struct wp_sandbox_ref entry = {.ref = answer->ref,
                                   .phase = WP_SANDBOX_ADOPTED,
                                   .adopted = !answer->pooled};
    int64_t left_ns =
        wp_backend_ready_within_ns(backend, answer->ns, answer->pool);

    if (sandbox != NULL) {
        left_ns -= wp_clock_wall_ns(backend->parts->clock) -
                   sandbox->created_wall_ms * WP_NS_PER_MS;
    }
    if (answer->pooled) {
        bool is_ready =
            sandbox != NULL &&
            wp_sandbox_view(sandbox)->ready.status == WP_CONDITION_TRUE;

        /* The core may take one that it knew for ready, wrongly: then it is
         * told that it is not. */
        entry.phase =
            answer->is_new || is_ready ? WP_SANDBOX_WARMING : WP_SANDBOX_READY;
    }
    memcpy(entry.uid, answer->uid, sizeof entry.uid);
    memcpy(entry.ns, answer->ns, sizeof entry.ns);
    memcpy(entry.pool, answer->pool, sizeof entry.pool);
    memcpy(entry.name, answer->name, sizeof entry.name);
    left_ns = left_ns > 0 ? left_ns : 0;
    entry.ready_by_ns = wp_time_add(now_of(backend), left_ns);
    backend->stats.found += answer->is_new ? 1 : 0;
    if (wp_sandbox_refs_add(backend->refs, &entry) == NULL) {
        wp_log_warn("a sandbox that was found has no place",
                    wp_kv_str("namespace", entry.ns),
                    wp_kv_str("name", entry.name));
    }
}

static void
take_answer(struct wp_cluster_message *from)
{
    struct message *answer = WP_CONTAINER_OF(from, struct message, base);
    struct wp_cluster_backend *backend = answer->backend;
    bool known = answer->ref.generation != 0;

    if (known &&
        wp_sandbox_refs_find(backend->refs, answer->ns, answer->name) == NULL) {
        add_found(backend, answer);
    }
    if (known) {
        wp_backend_wake(backend, answer->ns, answer->name);
    } else if (!answer->pooled) {
        /* Perhaps of a lease that nobody knows. */
        wp_work_add_after(backend->queue, answer->ns, answer->name,
                          WP_NS_PER_S);
    }
    drop(&answer->base);
}

/* On the control thread. */
static void
ask_core(struct wp_cluster_message *from)
{
    struct message *ask = WP_CONTAINER_OF(from, struct message, base);
    struct wp_pools *pools = ask->backend->parts->core.pools;

    if (ask->record != NULL && !wp_pools_knows(pools, ask->uid)) {
        wp_pools_on_record(pools, ask->record);
    }
    if (!wp_pools_seen(pools, ask->uid, &ask->ref)) {
        ask->ref = WP_SLOT_REF_NONE;
        ask->is_new =
            ask->pooled &&
            wp_pools_found(pools,
                           wp_pools_index(pools, wp_str_from(ask->ns),
                                          wp_str_from(ask->pool)),
                           ask->uid, wp_str_from(ask->name), &ask->ref);
        if (!ask->is_new) {
            ask->ref = WP_SLOT_REF_NONE;
        }
    }
    ask->base.run = take_answer;
    wp_cluster_channel_to_cluster(ask->backend->channel, &ask->base);
}

/* The lease that the Sandbox tells of, for a core whose store has kept nothing.
 */
static void
rebuild(struct message *ask, const struct wp_object *sandbox)
{
    const struct wp_parts *parts = ask->backend->parts;
    struct wp_lease_record *record;
    struct wp_lease_note note;

    if (!parts->config.rebuild_leases || !wp_backend_has_note(sandbox, &note) ||
        note.pool[0] == '\0' || sandbox->deleting) {
        return;
    }
    record = calloc(1, sizeof *record);
    WP_ASSERT(record != NULL);
    record->state = WP_RECORD_HELD;
    record->fence = note.fence;
    record->deadline_wall_ms = note.until_wall_ms;
    record->granted_wall_ms = note.granted_wall_ms;
    record->fingerprint = note.fingerprint;
    record->served = note.served;
    memcpy(record->uid, ask->uid, sizeof record->uid);
    memcpy(record->claim_id, note.claim_id, sizeof note.claim_id);
    memcpy(record->tenant, note.tenant, sizeof note.tenant);
    memcpy(record->pool, note.pool, sizeof note.pool);
    memcpy(ask->pool, note.pool, sizeof note.pool);
    if (!wp_str_copy(wp_str_from(sandbox->ns), record->pool_namespace,
                     sizeof record->pool_namespace) ||
        !wp_str_copy(wp_str_from(sandbox->name), record->sandbox,
                     sizeof record->sandbox) ||
        !wp_backend_endpoint(ask->backend, wp_sandbox_view(sandbox)->pod_ip,
                             record->endpoint)) {
        free(record);
        return;
    }
    ask->record = record;
}

void
wp_backend_ask(struct wp_cluster_backend *backend,
               const struct wp_object *sandbox)
{
    struct message *ask = new_message(backend, ask_core);

    WP_ASSERT(ask != NULL);
    ask->pooled = wp_backend_is_pooled(backend, sandbox);
    /* What does not fit the core's limits it cannot know. */
    if (!wp_sandbox_core_uid(sandbox, ask->uid) ||
        !wp_str_copy(wp_str_from(sandbox->ns), ask->ns, sizeof ask->ns) ||
        !wp_str_copy(wp_str_from(sandbox->name), ask->name, sizeof ask->name) ||
        (ask->pooled && !wp_str_copy(wp_str_from(sandbox->controller.name),
                                     ask->pool, sizeof ask->pool))) {
        drop(&ask->base);
        return;
    }
    rebuild(ask, sandbox);
    wp_cluster_channel_to_control(backend->channel, &ask->base);
}

void
wp_backend_wake(struct wp_cluster_backend *backend, const char *ns,
                const char *name)
{
    wp_work_add(backend->queue, ns, name, false);
}

/* --- Counting --- */

/* An order that is not begun will not be. */
static void
outdate(void *ctx, struct wp_sandbox_ref *entry)
{
    if (entry->phase == WP_SANDBOX_CREATING) {
        entry->outdated = true;
        wp_backend_wake(ctx, entry->ns, entry->name);
    }
}

/* The core knows of all there was when the message left, and what it had
 * ordered before has come here. */
static void
end_count(struct wp_cluster_backend *backend, const struct message *message)
{
    if (backend->counting && message->count_nr == backend->count_nr) {
        backend->counting = false;
        wp_sandbox_refs_walk(backend->refs, outdate, backend);
    }
}

static void
take_counted(struct wp_cluster_message *from)
{
    struct message *counted = WP_CONTAINER_OF(from, struct message, base);

    end_count(counted->backend, counted);
    free(counted);
}

/* On the control thread, after all that was asked. */
static void
pass_back(struct wp_cluster_message *from)
{
    struct message *message = WP_CONTAINER_OF(from, struct message, base);

    message->base.run = take_counted;
    wp_cluster_channel_to_cluster(message->backend->channel, &message->base);
}

static bool
ask_if_unknown(void *ctx, const struct wp_object *sandbox)
{
    struct wp_cluster_backend *backend = ctx;

    if (wp_backend_is_pooled(backend, sandbox) && !sandbox->deleting &&
        wp_sandbox_refs_find(backend->refs, sandbox->ns, sandbox->name) ==
            NULL) {
        wp_backend_ask(backend, sandbox);
    }
    return true;
}

static void
begin_count(struct wp_cluster_backend *backend, struct message *message)
{
    backend->counting = true;
    message->count_nr = ++backend->count_nr;
    wp_cluster_channel_to_control(backend->channel, &message->base);
}

/* While this replica leads. */
static void
count_anew(struct wp_cluster_backend *backend)
{
    struct message *message = new_message(backend, pass_back);

    WP_ASSERT(message != NULL);
    wp_store_walk(backend->parts->stores[WP_KIND_SANDBOX], ask_if_unknown,
                  backend);
    begin_count(backend, message);
}

void
wp_cluster_backend_doubt(struct wp_cluster_backend *backend, bool doubtful)
{
    bool over = backend->doubtful && !doubtful;

    backend->doubtful = doubtful;
    if (over && backend->parts->active) {
        count_anew(backend);
    }
}

bool
wp_backend_makes(const struct wp_cluster_backend *backend)
{
    return backend->parts->active && !backend->doubtful && !backend->counting;
}

bool
wp_cluster_backend_may_send(const struct wp_cluster_backend *backend,
                            const char *method, const char *path,
                            enum wp_http_priority priority)
{
    static const char sandboxes[] = "/sandboxes";
    size_t len = strlen(path);
    bool makes = priority >= WP_HTTP_REFILL && strcmp(method, "POST") == 0 &&
                 len >= sizeof sandboxes - 1 &&
                 strcmp(path + len - (sizeof sandboxes - 1), sandboxes) == 0;

    return !makes || wp_backend_makes(backend);
}

/* --- Leading --- */

static void
take_swept(struct wp_cluster_message *from)
{
    struct message *swept = WP_CONTAINER_OF(from, struct message, base);
    struct wp_cluster_backend *backend = swept->backend;

    if (swept->epoch == backend->epoch) {
        end_count(backend, swept);
        backend->ready(backend->ready_ctx);
    }
    free(swept);
}

static bool
ask_of_each(void *ctx, const struct wp_object *sandbox)
{
    struct wp_cluster_backend *backend = ctx;
    bool pooled = wp_backend_is_pooled(backend, sandbox);

    if ((pooled && !sandbox->deleting) ||
        (!pooled &&
         (wp_object_annotation(sandbox, WP_ANNOTATION_UID) != NULL ||
          wp_object_annotation(sandbox, WP_ANNOTATION_LEASE) != NULL ||
          wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_CLAIM)))) {
        wp_backend_ask(backend, sandbox);
    }
    return true;
}

static void sweep(struct wp_cluster_message *from);

/* Nothing that the core still misses was there when it was listed. */
static void
sweep_listed(void *ctx)
{
    struct wp_cluster_backend *backend = ctx;
    struct wp_cluster_message *message = backend->sweeping;

    backend->sweeping = NULL;
    wp_store_walk(backend->parts->stores[WP_KIND_SANDBOX], ask_of_each,
                  backend);
    wp_cluster_channel_to_control(backend->channel, message);
}

/* The core has records of sandboxes that the store lacks. Its watch may lag
 * behind the leader before this one, whose leases live. */
static void
list_before_sweep(struct wp_cluster_message *from)
{
    struct message *message = WP_CONTAINER_OF(from, struct message, base);
    struct wp_cluster_backend *backend = message->backend;

    if (message->epoch != backend->epoch) {
        free(message);
        return;
    }
    message->listed = true;
    message->base.run = sweep;
    backend->sweeping = &message->base;
    wp_fresh_list_begin(backend->fresh, sweep_listed, backend);
}

/* On the control thread, after all that was asked. */
static void
sweep(struct wp_cluster_message *from)
{
    struct message *message = WP_CONTAINER_OF(from, struct message, base);
    struct wp_pools *pools = message->backend->parts->core.pools;

    if (message->listed || !wp_pools_have_unseen(pools)) {
        wp_pools_lose_unseen(pools);
        message->base.run = take_swept;
    } else {
        message->base.run = list_before_sweep;
    }
    wp_cluster_channel_to_cluster(message->backend->channel, &message->base);
}

static void
drop_sweep(struct wp_cluster_backend *backend)
{
    wp_fresh_list_cancel(backend->fresh);
    if (backend->sweeping != NULL) {
        drop(backend->sweeping);
        backend->sweeping = NULL;
    }
}

static void
look_at_entry(void *ctx, struct wp_sandbox_ref *entry)
{
    wp_backend_recheck(ctx, entry);
    wp_backend_wake(ctx, entry->ns, entry->name);
}

void
wp_cluster_backend_activate(struct wp_cluster_backend *backend,
                            void (*ready)(void *ctx), void *ctx)
{
    struct message *message = new_message(backend, sweep);

    WP_ASSERT(message != NULL && backend->parts->active);
    backend->epoch++;
    backend->ready = ready;
    backend->ready_ctx = ctx;
    backend->counting = true; /* Before anything is looked at. */
    wp_work_pause(backend->queue, false);
    wp_sandbox_refs_walk(backend->refs, look_at_entry, backend);
    wp_store_walk(backend->parts->stores[WP_KIND_SANDBOX], ask_of_each,
                  backend);
    message->epoch = backend->epoch;
    begin_count(backend, message);
}

void
wp_cluster_backend_deactivate(struct wp_cluster_backend *backend)
{
    backend->epoch++;
    backend->count_nr++; /* What is under way counts no more. */
    drop_sweep(backend);
    wp_work_pause(backend->queue, true);
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
    struct message *message = WP_CONTAINER_OF(from, struct message, base);
    struct wp_cluster_backend *backend = message->backend;
    bool has_some = false;

    if (backend->parts->active) {
        wp_store_owned_by(backend->parts->stores[WP_KIND_SANDBOX],
                          message->name, stop_at_first, &has_some);
    }
    if (has_some) {
        count_anew(backend);
    }
    free(message);
}

void
wp_cluster_backend_pool_added(struct wp_cluster_backend *backend,
                              const char *pool_uid)
{
    struct message *message = new_message(backend, take_pool);

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

    if (backend->parts->active && after != NULL &&
        (before == NULL || strcmp(before->uid, after->uid) != 0)) {
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
    }
    if (backend == NULL || backend->refs == NULL || backend->queue == NULL ||
        backend->channel == NULL || backend->fresh == NULL) {
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
    if (backend->fresh != NULL) {
        drop_sweep(backend);
    }
    wp_fresh_list_destroy(backend->fresh);
    wp_cluster_channel_destroy(backend->channel);
    wp_work_queue_destroy(backend->queue);
    wp_sandbox_refs_destroy(backend->refs);
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
