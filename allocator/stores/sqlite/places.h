/* allocator/stores/sqlite/places.h - in which row the file has the record of a
 * sandbox, and of a claim.
 *
 * Kept in memory, and found anew when the file is opened: an index in the file
 * would make each commit write a page of it, at a random place. One thread at a
 * time. */
#ifndef WP_ALLOCATOR_STORES_SQLITE_PLACES_H
#define WP_ALLOCATOR_STORES_SQLITE_PLACES_H

#include "pool/base/hash_index.h"
#include "pool/base/siphash.h"
#include "pool/lease_record.h"

struct wp_lease_move {
    struct wp_hash_index *index;
    uint64_t hash;
    uint64_t row;
    bool added;
};

struct wp_lease_places {
    struct wp_hash_key key;
    struct wp_hash_index sandboxes; /* By uid. */
    struct wp_hash_index claims;    /* Of records that a claim has. */
    /* Of the transaction that is under way. */
    struct wp_lease_move *moves; /* Owned. */
    uint32_t n_moves;
    uint32_t moves_room;
};

/* So many records, and so many changes in a transaction, need no more memory.
 * False when memory lacks; fini is for it all the same. */
WP_MUST_CHECK bool wp_lease_places_init(struct wp_lease_places *places,
                                        uint32_t records, uint32_t changes);
void wp_lease_places_fini(struct wp_lease_places *places);

/* A transaction begins that makes so many changes. False when memory lacks:
 * it must not. */
WP_MUST_CHECK bool wp_lease_places_begin(struct wp_lease_places *places,
                                         uint32_t changes);
/* Within it, the record of that row has become `after`. */
void wp_lease_places_move(struct wp_lease_places *places, int64_t row,
                          const struct wp_lease_record *before,
                          const struct wp_lease_record *after);
/* It was committed. */
void wp_lease_places_keep(struct wp_lease_places *places);
/* It was rolled back, so all is as it was when it began. */
void wp_lease_places_undo(struct wp_lease_places *places);

/* The next row that may have the sandbox's record, or the claim's; 0: there is
 * none. *at begins as 0. The caller looks. */
int64_t wp_lease_places_of_sandbox(const struct wp_lease_places *places,
                                   const uint8_t uid[WP_UID_LEN], uint64_t *at);
int64_t wp_lease_places_of_claim(const struct wp_lease_places *places,
                                 struct wp_str claim_id, struct wp_str tenant,
                                 uint64_t *at);

#endif
