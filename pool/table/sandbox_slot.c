/* pool/table/sandbox_slot.c - the slots of sandboxes: taken, found by uid,
 * named and freed. */
#include <string.h>

#include "pool/base/assert.h"
#include "pool/table/ready.h"

enum {
    SAME_HASH_MAX = 4, /* Slots of one 64-bit hash that are looked at. */
};

uint64_t
wp_pools_map_hash(const struct wp_pools *pools, struct wp_str bytes)
{
    return wp_siphash128(pools->config.hash_key, bytes.ptr, bytes.len).low;
}

void
wp_pools_sandbox_name(const struct wp_pool *pool, const char *suffix,
                      char out[WP_SANDBOX_NAME_MAX + 1])
{
    size_t len = pool->name.len;

    memcpy(out, pool->name.ptr, len);
    out[len] = '-';
    memcpy(out + len + 1, suffix, WP_SANDBOX_SUFFIX_LEN + 1);
}

bool
wp_pools_suffix_of(const struct wp_pool *pool, struct wp_str name,
                   struct wp_str *suffix)
{
    size_t at = pool->name.len + 1;

    if (name.len <= at || name.len > at + WP_SANDBOX_SUFFIX_LEN ||
        memcmp(name.ptr, pool->name.ptr, pool->name.len) != 0 ||
        name.ptr[at - 1] != '-') {
        return false;
    }
    *suffix = (struct wp_str){name.ptr + at, name.len - at};
    return true;
}

struct wp_slot_ref
wp_pools_find_uid(struct wp_pools *pools, const uint8_t uid[WP_UID_LEN])
{
    uint32_t at[SAME_HASH_MAX];
    uint32_t n;

    if (!pools->mapped) {
        return WP_SLOT_REF_NONE;
    }
    n = wp_slot_map_find(
        &pools->map,
        wp_pools_map_hash(pools,
                          (struct wp_str){(const char *)uid, WP_UID_LEN}),
        at, SAME_HASH_MAX);

    for (uint32_t i = 0; i < n; i++) {
        struct wp_slot_ref ref = wp_slot_ref_at(&pools->slots, at[i]);
        struct wp_slot_info info;

        if (wp_slot_read(&pools->slots, ref, &info) &&
            info.state != WP_SLOT_FREE &&
            memcmp(info.uid, uid, WP_UID_LEN) == 0) {
            return ref;
        }
    }
    return WP_SLOT_REF_NONE;
}

struct wp_slot_ref
wp_pools_alloc_slot(struct wp_pools *pools, const struct wp_pool *pool,
                    const uint8_t uid[WP_UID_LEN], int64_t now_ns)
{
    struct wp_slot_ref ref =
        wp_slots_alloc(&pools->slots, pool->index, uid, now_ns);
    struct wp_slot *slot;

    if (ref.generation == 0) {
        return ref;
    }
    slot = wp_slot_at(&pools->slots, ref.index);
    pools->slots_used++;
    (void)wp_slot_control_change(slot, WP_CONTROL_ON_NEW_LIFE);
    (void)wp_slot_work_change(slot, WP_WORK_ON_NEW_LIFE);
    if (pools->mapped) {
        wp_slot_map_add(
            &pools->map,
            wp_pools_map_hash(pools,
                              (struct wp_str){(const char *)uid, WP_UID_LEN}),
            ref.index);
    }
    return ref;
}

void
wp_pools_free_slot(struct wp_pools *pools, struct wp_slot_ref ref)
{
    struct wp_pool *pool = wp_pools_of_slot(pools, ref.index);
    struct wp_slot_info info;
    bool freed;

    if (pools->mapped && wp_slot_read(&pools->slots, ref, &info)) {
        char name[WP_SANDBOX_NAME_MAX + 1];

        wp_pools_sandbox_name(pool, info.suffix, name);
        wp_slot_map_remove(
            &pools->map,
            wp_pools_map_hash(
                pools, (struct wp_str){(const char *)info.uid, WP_UID_LEN}),
            ref.index);
        wp_slot_map_remove(&pools->map,
                           wp_pools_map_hash(pools, wp_str_from(name)),
                           ref.index);
    }
    if (wp_slot_has_work(wp_slot_at(&pools->slots, ref.index), WP_WORK_OFFER)) {
        /* It was granted elsewhere before its offer was known to be recorded,
         * and so never pushed; a slot is not used anew before it was popped. */
        wp_pools_push(pool, ref);
    }
    /* Under the lock: who looked at its state there, and then leaves a word for
     * control in it, does not leave it to the slot's next life. */
    (void)pthread_mutex_lock(wp_pools_change_lock(pools, ref.index));
    freed = wp_slot_move(&pools->slots, ref, WP_SLOT_DYING, WP_SLOT_FREE);
    (void)pthread_mutex_unlock(wp_pools_change_lock(pools, ref.index));
    WP_ASSERT(freed);
    pools->slots_used--;
    wp_pools_touch(pool);
}
