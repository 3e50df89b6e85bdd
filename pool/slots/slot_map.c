#include "pool/slots/slot_map.h"

bool
wp_slot_map_init(struct wp_slot_map *map, uint32_t entries_max)
{
    if (!wp_hash_index_init(&map->index, entries_max)) {
        return false;
    }
    (void)pthread_mutex_init(&map->lock, NULL);
    return true;
}

void
wp_slot_map_fini(struct wp_slot_map *map)
{
    if (map->index.cells != NULL) {
        (void)pthread_mutex_destroy(&map->lock);
        wp_hash_index_fini(&map->index);
    }
}

size_t
wp_slot_map_bytes(uint32_t entries_max)
{
    return wp_hash_index_bytes(entries_max);
}

void
wp_slot_map_add(struct wp_slot_map *map, uint64_t hash, uint32_t slot)
{
    (void)pthread_mutex_lock(&map->lock);
    wp_hash_index_add(&map->index, hash, (uint64_t)slot + 1);
    (void)pthread_mutex_unlock(&map->lock);
}

void
wp_slot_map_remove(struct wp_slot_map *map, uint64_t hash, uint32_t slot)
{
    (void)pthread_mutex_lock(&map->lock);
    wp_hash_index_remove(&map->index, hash, (uint64_t)slot + 1);
    (void)pthread_mutex_unlock(&map->lock);
}

uint32_t
wp_slot_map_find(struct wp_slot_map *map, uint64_t hash, uint32_t *slots,
                 uint32_t max)
{
    uint32_t count = 0;
    uint64_t at = 0;
    uint64_t value;

    (void)pthread_mutex_lock(&map->lock);
    while (count < max &&
           (value = wp_hash_index_next(&map->index, hash, &at)) != 0) {
        slots[count++] = (uint32_t)(value - 1);
    }
    (void)pthread_mutex_unlock(&map->lock);
    return count;
}
