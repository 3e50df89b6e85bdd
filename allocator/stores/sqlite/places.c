#include "allocator/stores/sqlite/places.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/rng.h"
#include "pool/leases/rules.h"

enum {
    MOVES_OF_A_CHANGE = 2, /* The sandbox's and the claim's. */
};

static uint64_t
hash_of_sandbox(const struct wp_lease_places *places,
                const uint8_t uid[WP_UID_LEN])
{
    return wp_siphash128(places->key, uid, WP_UID_LEN).low;
}

static uint64_t
hash_of_claim(const struct wp_lease_places *places, struct wp_str claim_id,
              struct wp_str tenant)
{
    uint64_t id = wp_siphash128(places->key, claim_id.ptr, claim_id.len).low;

    return id ^ wp_siphash128(places->key, tenant.ptr, tenant.len).high;
}

bool
wp_lease_places_init(struct wp_lease_places *places, uint32_t records,
                     uint32_t changes)
{
    *places = (struct wp_lease_places){.n_moves = 0};
    wp_random_bytes(&places->key, sizeof places->key);
    return wp_hash_index_init(&places->sandboxes, records + changes) &&
           wp_hash_index_init(&places->claims, records + changes) &&
           wp_lease_places_begin(places, changes);
}

void
wp_lease_places_fini(struct wp_lease_places *places)
{
    wp_hash_index_fini(&places->sandboxes);
    wp_hash_index_fini(&places->claims);
    free(places->moves);
    places->moves = NULL;
}

bool
wp_lease_places_begin(struct wp_lease_places *places, uint32_t changes)
{
    uint32_t room = changes * MOVES_OF_A_CHANGE;
    struct wp_lease_move *moves = places->moves;

    if (room > places->moves_room) {
        moves = realloc(moves, room * sizeof *moves);
        if (moves == NULL) {
            return false;
        }
        places->moves = moves;
        places->moves_room = room;
    }
    places->n_moves = 0;
    return wp_hash_index_reserve(&places->sandboxes, changes) &&
           wp_hash_index_reserve(&places->claims, changes);
}

static void
move(struct wp_lease_places *places, const struct wp_lease_move *made)
{
    WP_ASSERT(places->n_moves < places->moves_room);
    if (made->added) {
        wp_hash_index_add(made->index, made->hash, made->row);
    } else {
        wp_hash_index_remove(made->index, made->hash, made->row);
    }
    places->moves[places->n_moves++] = *made;
}

void
wp_lease_places_move(struct wp_lease_places *places, int64_t row,
                     const struct wp_lease_record *before,
                     const struct wp_lease_record *after)
{
    bool was = before->state != WP_RECORD_NONE;
    bool is = after->state != WP_RECORD_NONE;
    bool was_claimed = wp_record_is_claimed(before->state);
    bool is_claimed = wp_record_is_claimed(after->state);
    const struct wp_lease_record *claimed = is_claimed ? after : before;

    if (was != is) {
        move(places, &(struct wp_lease_move){
                         .index = &places->sandboxes,
                         .hash = hash_of_sandbox(places, after->uid),
                         .row = (uint64_t)row,
                         .added = is});
    }
    if (was_claimed != is_claimed) {
        move(places,
             &(struct wp_lease_move){
                 .index = &places->claims,
                 .hash = hash_of_claim(places, wp_str_from(claimed->claim_id),
                                       wp_str_from(claimed->tenant)),
                 .row = (uint64_t)row,
                 .added = is_claimed});
    }
}

void
wp_lease_places_keep(struct wp_lease_places *places)
{
    places->n_moves = 0;
}

void
wp_lease_places_undo(struct wp_lease_places *places)
{
    while (places->n_moves > 0) {
        const struct wp_lease_move *made = &places->moves[--places->n_moves];

        if (made->added) {
            wp_hash_index_remove(made->index, made->hash, made->row);
        } else {
            wp_hash_index_add(made->index, made->hash, made->row);
        }
    }
}

int64_t
wp_lease_places_of_sandbox(const struct wp_lease_places *places,
                           const uint8_t uid[WP_UID_LEN], uint64_t *at)
{
    return (int64_t)wp_hash_index_next(&places->sandboxes,
                                       hash_of_sandbox(places, uid), at);
}

int64_t
wp_lease_places_of_claim(const struct wp_lease_places *places,
                         struct wp_str claim_id, struct wp_str tenant,
                         uint64_t *at)
{
    return (int64_t)wp_hash_index_next(
        &places->claims, hash_of_claim(places, claim_id, tenant), at);
}
