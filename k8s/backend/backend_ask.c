#include <stdlib.h>
#include <string.h>

#include "k8s/backend/backend_impl.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

void
wp_backend_add_found(struct wp_cluster_backend *backend,
                     const struct wp_backend_message *answer)
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
    entry.ready_by_ns =
        wp_time_add(wp_clock_mono_ns(backend->parts->clock), left_ns);
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
    struct wp_backend_message *answer =
        WP_CONTAINER_OF(from, struct wp_backend_message, base);
    struct wp_cluster_backend *backend = answer->backend;
    bool known = answer->ref.generation != 0;

    if (known &&
        wp_sandbox_refs_find(backend->refs, answer->ns, answer->name) == NULL) {
        wp_backend_add_found(backend, answer);
    }
    if (known) {
        wp_backend_wake(backend, answer->ns, answer->name);
    } else if (!answer->pooled || answer->is_ending) {
        /* Perhaps of a lease that nobody knows. */
        wp_work_add_after(backend->queue, answer->ns, answer->name,
                          WP_NS_PER_S);
    }
    wp_backend_message_drop(&answer->base);
}

static void
find_slot(struct wp_backend_message *ask, struct wp_pools *pools)
{
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
}

/* On the control thread. */
static void
ask_core(struct wp_cluster_message *from)
{
    struct wp_backend_message *ask =
        WP_CONTAINER_OF(from, struct wp_backend_message, base);
    struct wp_pools *pools = ask->backend->parts->core.pools;

    if (ask->record != NULL && !wp_pools_knows(pools, ask->uid)) {
        wp_pools_on_record(pools, ask->record);
    }
    ask->is_ending = wp_pools_ends(pools, ask->uid);
    ask->ref = WP_SLOT_REF_NONE;
    if (!ask->is_ending) {
        find_slot(ask, pools);
    }
    ask->base.run = take_answer;
    wp_cluster_channel_to_cluster(ask->backend->channel, &ask->base);
}

/* The lease that the Sandbox tells of, for a core whose store has kept nothing.
 */
static void
rebuild(struct wp_backend_message *ask, const struct wp_object *sandbox)
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
    struct wp_backend_message *ask = wp_backend_message(backend, ask_core);

    WP_ASSERT(ask != NULL);
    ask->pooled = wp_backend_is_pooled(backend, sandbox);
    /* What does not fit the core's limits it cannot know. */
    if (!wp_sandbox_core_uid(sandbox, ask->uid) ||
        !wp_str_copy(wp_str_from(sandbox->ns), ask->ns, sizeof ask->ns) ||
        !wp_str_copy(wp_str_from(sandbox->name), ask->name, sizeof ask->name) ||
        (ask->pooled && !wp_str_copy(wp_str_from(sandbox->controller.name),
                                     ask->pool, sizeof ask->pool))) {
        wp_backend_message_drop(&ask->base);
        return;
    }
    rebuild(ask, sandbox);
    wp_cluster_channel_to_control(backend->channel, &ask->base);
}
