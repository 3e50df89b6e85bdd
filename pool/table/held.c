/* pool/table/held.c - the lease that a slot has, and its claim. */
#include <string.h>

#include "pool/base/mutant.h"
#include "pool/table/ready.h"

bool
wp_pools_claim_of(struct wp_pools *pools, struct wp_slot_ref ref,
                  struct wp_claim_view *view)
{
    uint32_t index =
        atomic_load_explicit(&wp_slot_at(&pools->slots, ref.index)->claim_entry,
                             memory_order_relaxed);

    return index < wp_claim_table_used_max(&pools->claims) &&
           wp_claim_table_read_at(&pools->claims, index, view) && view->held &&
           wp_slot_ref_eq(view->slot, ref);
}

bool
wp_pools_lease_names(struct wp_pools *pools, struct wp_slot_ref ref,
                     struct wp_lease_names *names)
{
    struct wp_claim_view view;
    struct wp_slot_info info;
    bool claimed = wp_pools_claim_of(pools, ref, &view);

    memset(names, 0, sizeof *names);
    if (wp_slot_read(&pools->slots, ref, &info)) {
        wp_pools_sandbox_name(wp_pools_of_slot(pools, ref.index), info.suffix,
                              names->sandbox);
    }
    if (claimed) {
        memcpy(names->claim_id, view.claim_id, sizeof names->claim_id);
        memcpy(names->tenant, view.tenant, sizeof names->tenant);
    }
    return claimed;
}

void
wp_pools_lease_op(struct wp_pools *pools, struct wp_slot_ref ref,
                  enum wp_lease_op_kind kind,
                  const struct wp_lease_names *names, struct wp_lease_op *op)
{
    const struct wp_pool *pool = wp_pools_of_slot(pools, ref.index);
    const struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);

    memset(op, 0, sizeof *op);
    wp_slot_uid(&pools->slots, ref, op->uid);
    op->kind = kind;
    op->ref = ref;
    op->fence = atomic_load_explicit(&slot->fence, memory_order_relaxed);
    op->deadline_wall_ms =
        atomic_load_explicit(&slot->deadline_wall_ms, memory_order_relaxed);
    op->pool_namespace = wp_str_from(pool->spec.pool_namespace);
    op->pool = wp_str_from(pool->spec.name);
    op->sandbox = wp_str_from(names->sandbox);
    op->claim_id = wp_str_from(names->claim_id);
    op->tenant = wp_str_from(names->tenant);
}

/* The claim is looked up first: once the slot is DYING, the control thread may
 * have it destroyed and used anew at any moment. */
bool
wp_pools_end_held(struct wp_pools *pools, struct wp_slot_ref ref)
{
    struct wp_claim_view view;
    bool claimed = wp_pools_claim_of(pools, ref, &view);
    bool push = false;

    if (WP_MUTANT(USED_OFFERED_AGAIN) &&
        wp_slot_reopen(&pools->slots, ref, &push)) {
        wp_pools_push(wp_pools_of_slot(pools, ref.index), ref);
    } else if (!wp_slot_move(&pools->slots, ref, WP_SLOT_LEASED,
                             WP_SLOT_DYING) &&
               !wp_slot_move(&pools->slots, ref, WP_SLOT_LOST, WP_SLOT_DYING)) {
        return false;
    }
    if (claimed) {
        bool ended = wp_claim_table_end(&pools->claims, view.ref, NULL);

        (void)ended; /* Or an undo was faster: the same end. */
    }
    return true;
}

/* A slot is named by its place in the process that signed the token; in another
 * one, the sandbox's uid leads to it. */
struct wp_slot_ref
wp_pools_slot_of_token(struct wp_pools *pools,
                       const struct wp_token_fields *token)
{
    struct wp_slot_info info;

    if (!pools->mapped ||
        (wp_slot_read(&pools->slots, token->ref, &info) &&
         memcmp(info.uid, token->uid, sizeof info.uid) == 0)) {
        return token->ref;
    }
    return wp_pools_find_uid(pools, token->uid);
}
