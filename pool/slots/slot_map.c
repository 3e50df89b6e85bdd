/* Open addressing with linear probing; an entry that goes makes room by moving
 * the ones behind it back, so that there are no tombstones to collect. */
#include "pool/slots/slot_map.h"

#include <stdlib.h>

#include "pool/base/assert.h"

static uint64_t
cells_for(uint32_t entries_max)
{
    uint64_t cells = 16;

    while (cells < (uint64_t)entries_max * 2) {
        cells *= 2;
    }
    return cells;
}

bool
wp_slot_map_init(struct wp_slot_map *map, uint32_t entries_max)
{
    uint64_t cells = cells_for(entries_max);

    /* Untouched pages of a large block cost nothing. */
    map->cells = calloc(cells, sizeof *map->cells);
    if (map->cells == NULL) {
        return false;
    }
    map->mask = cells - 1;
    map->count = 0;
    (void)pthread_mutex_init(&map->lock, NULL);
    return true;
}

void
wp_slot_map_fini(struct wp_slot_map *map)
{
    if (map->cells != NULL) {
        (void)pthread_mutex_destroy(&map->lock);
        free(map->cells);
        map->cells = NULL;
    }
}

size_t
wp_slot_map_bytes(uint32_t entries_max)
{
    return cells_for(entries_max) * sizeof(struct wp_slot_map_cell);
}

void
wp_slot_map_add(struct wp_slot_map *map, uint64_t hash, uint32_t slot)
{
    uint64_t at = hash & map->mask;

    (void)pthread_mutex_lock(&map->lock);
    WP_ASSERT(map->count < map->mask);
    while (map->cells[at].slot != 0) {
        at = (at + 1) & map->mask;
    }
    map->cells[at] = (struct wp_slot_map_cell){hash, slot + 1, 0};
    map->count++;
    (void)pthread_mutex_unlock(&map->lock);
}

/* Empties the cell and closes the gap. Under the lock. */
static void
empty_cell(struct wp_slot_map *map, uint64_t gap)
{
    uint64_t at = gap;

    for (;;) {
        uint64_t home;

        at = (at + 1) & map->mask;
        if (map->cells[at].slot == 0) {
            break;
        }
        home = map->cells[at].hash & map->mask;
        /* It may move when its home is not between the gap and where it is. */
        if (((at - home) & map->mask) >= ((at - gap) & map->mask)) {
            map->cells[gap] = map->cells[at];
            gap = at;
        }
    }
    map->cells[gap].slot = 0;
    map->count--;
}

void
wp_slot_map_remove(struct wp_slot_map *map, uint64_t hash, uint32_t slot)
{
    (void)pthread_mutex_lock(&map->lock);
    for (uint64_t at = hash & map->mask; map->cells[at].slot != 0;
         at = (at + 1) & map->mask) {
        if (map->cells[at].hash == hash && map->cells[at].slot == slot + 1) {
            empty_cell(map, at);
            break;
        }
    }
    (void)pthread_mutex_unlock(&map->lock);
}

uint32_t
wp_slot_map_find(struct wp_slot_map *map, uint64_t hash, uint32_t *slots,
                 uint32_t max)
{
    uint32_t count = 0;

    (void)pthread_mutex_lock(&map->lock);
    for (uint64_t at = hash & map->mask;
         map->cells[at].slot != 0 && count < max; at = (at + 1) & map->mask) {
        if (map->cells[at].hash == hash) {
            slots[count++] = map->cells[at].slot - 1;
        }
    }
    (void)pthread_mutex_unlock(&map->lock);
    return count;
}
