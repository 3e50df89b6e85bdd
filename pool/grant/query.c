/* pool/grant/query.c - questions about claims. None changes a lease. */
#include "pool/base/assert.h"
#include "pool/slots/sandbox_name.h"
#include "pool/table/pools.h"

enum {
    LIST_SCAN_MAX = 16384, /* Entries looked at in one call: a millisecond. */
};

/* The lease's side of a claim. False when it ends just now. */
static bool
fill_lease(struct wp_pools *pools, const struct wp_pool *pool,
           const struct wp_claim_view *view, struct wp_claim_info *out)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, view->slot.index);
    struct wp_slot_info info;

    if (!wp_slot_read(&pools->slots, view->slot, &info) ||
        (info.state != WP_SLOT_LEASED && info.state != WP_SLOT_LOST)) {
        return false;
    }
    out->ref = view->slot;
    out->fence = atomic_load_explicit(&slot->fence, memory_order_relaxed);
    out->deadline_wall_ms =
        atomic_load_explicit(&slot->deadline_wall_ms, memory_order_relaxed);
    out->granted_wall_ms = view->granted_wall_ms;
    out->served = wp_record_served(view->served);
    out->lost = info.state == WP_SLOT_LOST;
    wp_pools_sandbox_name(pool, info.suffix, out->sandbox);
    memcpy(out->endpoint, info.endpoint, sizeof out->endpoint);
    memcpy(out->lost_reason, info.lost_reason, sizeof out->lost_reason);
    return true;
}

static bool
fill_info(struct wp_pools *pools, const struct wp_claim_view *view,
          struct wp_claim_info *out)
{
    const struct wp_pool *pool = wp_pools_at(pools, view->pool_index);

    memset(out, 0, sizeof *out);
    out->ref = WP_SLOT_REF_NONE;
    out->waiting = !view->held;
    memcpy(out->claim_id, view->claim_id, sizeof out->claim_id);
    memcpy(out->tenant, view->tenant, sizeof out->tenant);
    memcpy(out->pool_namespace, pool->spec.pool_namespace,
           sizeof out->pool_namespace);
    memcpy(out->pool, pool->spec.name, sizeof out->pool);
    return !view->held || fill_lease(pools, pool, view, out);
}

enum wp_status
wp_pools_get(struct wp_pools *pools, struct wp_str tenant,
             struct wp_str claim_id, struct wp_claim_info *out)
{
    struct wp_hash128 hash =
        wp_claim_hash(pools->config.hash_key, tenant, claim_id);
    struct wp_claim_ref ref;
    struct wp_claim_view view;

    if (!wp_claim_table_find(&pools->claims, hash, &ref) ||
        !wp_claim_table_read(&pools->claims, ref, &view) ||
        !fill_info(pools, &view, out)) {
        return WP_NOT_FOUND;
    }
    /* Last: what was read was of this lease, and an undo will not take back
     * what is told now. */
    return !view.held || wp_claim_table_share(&pools->claims, ref)
               ? WP_OK
               : WP_NOT_FOUND;
}

int64_t
wp_pools_expired_wall_ms(struct wp_pools *pools, struct wp_str tenant,
                         struct wp_str claim_id)
{
    return wp_expired_find(
        &pools->expired,
        wp_claim_hash(pools->config.hash_key, tenant, claim_id));
}

uint32_t
wp_pools_list(struct wp_pools *pools, const struct wp_claim_filter *filter,
              uint64_t *cursor, struct wp_claim_info *out, uint32_t max)
{
    uint32_t end = wp_claim_table_used_max(&pools->claims);
    bool any_pool = filter->pool.len == 0;
    uint32_t pool_index =
        any_pool ? 0
                 : wp_pools_index(pools, filter->pool_namespace, filter->pool);
    uint32_t count = 0;
    uint64_t i = pool_index != UINT32_MAX && *cursor < end ? *cursor : end;
    uint64_t stop = end - i > LIST_SCAN_MAX ? i + LIST_SCAN_MAX : end;

    for (; i < stop && count < max; i++) {
        struct wp_claim_view view;

        if (wp_claim_table_read_at(&pools->claims, (uint32_t)i, &view) &&
            (filter->tenant == NULL ||
             wp_str_is(*filter->tenant, view.tenant)) &&
            (any_pool || pool_index == view.pool_index) &&
            fill_info(pools, &view, &out[count])) {
            count++;
        }
    }
    *cursor = i < end ? i : 0;
    return count;
}

/* The claim that holds the slot, when the slot's sandbox has that name. */
static bool
holds_named(struct wp_pools *pools, uint32_t index, struct wp_str sandbox,
            struct wp_claim_info *out)
{
    struct wp_claim_view view;
    uint32_t entry = atomic_load_explicit(
        &wp_slot_at(&pools->slots, index)->claim_entry, memory_order_relaxed);

    return entry < wp_claim_table_used_max(&pools->claims) &&
           wp_claim_table_read_at(&pools->claims, entry, &view) && view.held &&
           view.slot.index == index && fill_info(pools, &view, out) &&
           wp_str_is(sandbox, out->sandbox);
}

enum wp_status
wp_pools_find_sandbox(struct wp_pools *pools, struct wp_str sandbox,
                      struct wp_claim_info *out)
{
    uint32_t at[4];
    uint32_t n;

    if (wp_sandbox_name_index(pools->name_key, sandbox, &at[0]) &&
        at[0] < pools->config.slots_max &&
        holds_named(pools, at[0], sandbox, out)) {
        return WP_OK;
    }
    if (!pools->mapped) {
        return WP_NOT_FOUND;
    }
    /* A name that another process gave. */
    n = wp_slot_map_find(&pools->map, wp_pools_map_hash(pools, sandbox), at,
                         WP_ARRAY_LEN(at));
    for (uint32_t i = 0; i < n; i++) {
        if (holds_named(pools, at[i], sandbox, out)) {
            return WP_OK;
        }
    }
    return WP_NOT_FOUND;
}

bool
wp_pools_token_valid(struct wp_pools *pools, const uint8_t *token,
                     struct wp_str sandbox)
{
    struct wp_token_fields fields;
    struct wp_slot_info info;
    char name[WP_SANDBOX_NAME_MAX + 1];

    if (!wp_lease_token_verify(&pools->token_key, token, &fields)) {
        return false;
    }
    fields.ref = wp_pools_slot_of_token(pools, &fields);
    if (fields.ref.index >= pools->config.slots_max ||
        !wp_slot_read(&pools->slots, fields.ref, &info) ||
        (info.state != WP_SLOT_LEASED && info.state != WP_SLOT_LOST) ||
        atomic_load_explicit(
            &wp_slot_at(&pools->slots, fields.ref.index)->fence,
            memory_order_relaxed) != fields.fence) {
        return false;
    }
    wp_pools_sandbox_name(wp_pools_at(pools, info.pool_index), info.suffix,
                          name);
    return wp_str_is(sandbox, name);
}
