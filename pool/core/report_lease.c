/* pool/core/report_lease.c - the backend hears of leases. */
#include <stdlib.h>
#include <string.h>

#include "pool/core/control.h"
#include "pool/table/pools.h"

/* The lease of a slot that the backend was told of. */
struct wp_reported_lease {
    uint64_t fence;
    int64_t deadline_wall_ms;
    uint32_t generation;
};

bool
wp_reported_leases_create(struct wp_pools *pools)
{
    if (pools->config.backend.ops->leased == NULL) {
        return true;
    }
    pools->reported = wp_pools_reserve(pools, pools->config.slots_max,
                                       sizeof *pools->reported);
    return pools->reported != NULL;
}

void
wp_reported_leases_forget(struct wp_pools *pools)
{
    if (pools->reported != NULL) {
        memset(pools->reported, 0,
               pools->config.slots_max * sizeof *pools->reported);
    }
}

void
wp_pools_report_lease(struct wp_pools *pools, struct wp_slot_ref ref)
{
    const struct wp_backend *backend = &pools->config.backend;
    struct wp_reported_lease *reported;
    const struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    const struct wp_pool *pool = wp_pools_of_slot(pools, ref.index);
    uint64_t fence = atomic_load_explicit(&slot->fence, memory_order_relaxed);
    int64_t deadline_wall_ms =
        atomic_load_explicit(&slot->deadline_wall_ms, memory_order_relaxed);
    char sandbox[WP_SANDBOX_NAME_MAX + 1];
    struct wp_lease_notice notice;
    struct wp_claim_view view;
    struct wp_slot_info info;

    bool keep = pool->spec.hold_max_ns > 0;

    if (pools->reported == NULL ||
        (!backend->ops->foreign && !keep && pool->spec.freeze_after_ns == 0)) {
        return;
    }
    reported = &pools->reported[ref.index];
    if ((reported->generation == ref.generation && reported->fence == fence &&
         ((pools->durable && !keep) ||
          reported->deadline_wall_ms == deadline_wall_ms)) ||
        !atomic_load_explicit(&pools->keeper, memory_order_relaxed) ||
        /* Else it is not granted yet, or just ending: marked again then. */
        !wp_pools_claim_of(pools, ref, &view) ||
        !wp_slot_read(&pools->slots, ref, &info)) {
        return;
    }
    wp_pools_sandbox_name(pool, info.suffix, sandbox);
    notice = (struct wp_lease_notice){
        .ref = ref,
        .uid = info.uid,
        .pool_namespace = pool->pool_namespace,
        .pool = pool->name,
        .sandbox = wp_str_from(sandbox),
        .claim_id = wp_str_from(view.claim_id),
        .tenant = wp_str_from(view.tenant),
        .fence = fence,
        .deadline_wall_ms = deadline_wall_ms,
        .granted_wall_ms = view.granted_wall_ms,
        .fingerprint = view.fingerprint,
        .served = (uint32_t)wp_record_served(view.served),
        .freeze_after_ns = pool->spec.freeze_after_ns,
        .keep = keep,
    };
    reported->generation = ref.generation;
    reported->fence = fence;
    reported->deadline_wall_ms = deadline_wall_ms;
    backend->ops->leased(backend->self, &notice);
}
