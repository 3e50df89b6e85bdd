/* pool/slots/slot_map.h - the way from a sandbox's uid or name to its slot.
 *
 * Only for what cannot be told from the name or the token itself: sandboxes of
 * another process, restored or copied from a store's records. A hint: it maps
 * 64-bit hashes to slot indexes, and the caller looks at the slot. Fixed
 * capacity, a mutex; not on the claim path. */
#ifndef WP_POOL_SLOTS_SLOT_MAP_H
#define WP_POOL_SLOTS_SLOT_MAP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/hash_index.h"

struct wp_slot_map {
    pthread_mutex_t lock; /* guards: index */
    struct wp_hash_index index;
};

/* Room for entries_max entries. False when memory lacks. */
WP_MUST_CHECK bool wp_slot_map_init(struct wp_slot_map *map,
                                    uint32_t entries_max);
void wp_slot_map_fini(struct wp_slot_map *map);
size_t wp_slot_map_bytes(uint32_t entries_max);

/* Adds {hash, slot}; once for each pair. Any thread. Aborts beyond
 * entries_max: the caller's slots bound it. */
void wp_slot_map_add(struct wp_slot_map *map, uint64_t hash, uint32_t slot);
/* Takes {hash, slot} out; harmless when it is not there. Any thread. */
void wp_slot_map_remove(struct wp_slot_map *map, uint64_t hash, uint32_t slot);
/* The slots of this hash, at most max of them; returns how many. Any thread. */
uint32_t wp_slot_map_find(struct wp_slot_map *map, uint64_t hash,
                          uint32_t *slots, uint32_t max);

#endif
