/* pool/claims/claim_set.h - the list and buckets under claim_table.c, which
 * alone uses it: finds, inserts and removes entries by hash, and keeps the free
 * ones. What an entry says is claim_table.c's.
 *
 * The word of an entry, low to high: state (8 bits), others (8), unused (16),
 * generation (32). Its state decides who ends it; the mark only unlinks it. */
#ifndef WP_POOL_CLAIMS_CLAIM_SET_H
#define WP_POOL_CLAIMS_CLAIM_SET_H

#include "pool/claims/claim_table.h"

enum entry_state {
    ENTRY_FREE, /* Not in the set: never used, ended, or being filled in. */
    ENTRY_PENDING,
    ENTRY_HELD,
};

#define STATE_MASK UINT64_C(0xff)
/* While PENDING: others wait for the outcome. While HELD: how many others are
 * told of it; OTHERS, so many, or some for good. */
#define OTHERS (UINT64_C(0xff) << 8)
#define ONE_OTHER (UINT64_C(1) << 8)

/* Where a traversal stands: *prev led to a node and was unmarked. */
struct wp_claim_place {
    _Atomic(uint64_t) *prev;
    uint64_t link; /* What *prev was. */
    uint64_t next; /* What the next of link's node was. */
};

static inline uint32_t
generation_of(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static inline enum entry_state
state_of(uint64_t word)
{
    return (enum entry_state)(word & STATE_MASK);
}

static inline uint64_t
load_acquire(const _Atomic(uint64_t) *from)
{
    return atomic_load_explicit(from, memory_order_acquire);
}

/* Once, when the table's memory is zero. */
void wp_claim_set_init(struct wp_claim_table *table);

/* An entry in no list, the caller's; UINT32_MAX when none is free. */
uint32_t wp_claim_set_take(struct wp_claim_table *table);
/* Gives back an entry in no list. */
void wp_claim_set_give(struct wp_claim_table *table, uint32_t index);

/* The entry of this hash that has not ended; *word is its word. When there is
 * none, *at is where it would be inserted. */
bool wp_claim_set_find(struct wp_claim_table *table, struct wp_hash128 wanted,
                       struct wp_claim_place *at, uint64_t *word);
/* The entry at a place that was found. */
uint32_t wp_claim_place_entry(const struct wp_claim_place *at);
/* Inserts a filled-in entry where the search for its hash ended in vain; false
 * when something changed there: search again. */
bool wp_claim_set_insert(struct wp_claim_table *table,
                         struct wp_claim_place *at, uint32_t index);
/* Takes an ended entry out and frees it, unless others have done it. */
void wp_claim_set_remove(struct wp_claim_table *table, struct wp_claim_ref ref,
                         struct wp_hash128 hash);

#endif
