/* pool/slot_ref.h - how a sandbox's record is named across threads.
 *
 * Never a pointer: a stale reference is found out by its generation, which
 * grows each time the record is used for a new sandbox and is never 0. */
#ifndef WP_POOL_SLOT_REF_H
#define WP_POOL_SLOT_REF_H

#include <stdbool.h>
#include <stdint.h>

struct wp_slot_ref {
    uint32_t index;
    uint32_t generation;
};

#define WP_SLOT_REF_NONE ((struct wp_slot_ref){UINT32_MAX, 0})

static inline uint64_t
wp_slot_ref_pack(struct wp_slot_ref ref)
{
    return (uint64_t)ref.generation << 32 | ref.index;
}

static inline struct wp_slot_ref
wp_slot_ref_unpack(uint64_t packed)
{
    return (struct wp_slot_ref){(uint32_t)packed, (uint32_t)(packed >> 32)};
}

static inline bool
wp_slot_ref_eq(struct wp_slot_ref a, struct wp_slot_ref b)
{
    return a.index == b.index && a.generation == b.generation;
}

#endif
