/* Open addressing with linear probing; an entry that goes makes room by moving
 * the ones behind it back, so that there are no tombstones to collect. */
#include "pool/base/hash_index.h"

#include <stdlib.h>

#include "pool/base/assert.h"

enum {
    CELLS_MIN = 16,
};

/* At most half of them are used. */
static uint64_t
cells_for(uint64_t entries)
{
    uint64_t cells = CELLS_MIN;

    while (cells < entries * 2) {
        cells *= 2;
    }
    return cells;
}

static bool
allocate(struct wp_hash_index *index, uint64_t cells)
{
    /* Untouched pages of a large block cost nothing. */
    index->cells = calloc(cells, sizeof *index->cells);
    index->mask = cells - 1;
    index->count = 0;
    return index->cells != NULL;
}

bool
wp_hash_index_init(struct wp_hash_index *index, uint64_t entries)
{
    return allocate(index, cells_for(entries));
}

void
wp_hash_index_fini(struct wp_hash_index *index)
{
    free(index->cells);
    index->cells = NULL;
}

size_t
wp_hash_index_bytes(uint64_t entries)
{
    return cells_for(entries) * sizeof(struct wp_hash_cell);
}

void
wp_hash_index_add(struct wp_hash_index *index, uint64_t hash, uint64_t value)
{
    uint64_t at = hash & index->mask;

    WP_ASSERT(value != 0 && index->count < index->mask);
    while (index->cells[at].value != 0) {
        at = (at + 1) & index->mask;
    }
    index->cells[at] = (struct wp_hash_cell){hash, value};
    index->count++;
}

bool
wp_hash_index_reserve(struct wp_hash_index *index, uint64_t more)
{
    uint64_t cells = cells_for(index->count + more);
    struct wp_hash_index grown;

    if (cells <= index->mask + 1) {
        return true;
    }
    if (!allocate(&grown, cells)) {
        return false;
    }
    for (uint64_t i = 0; i <= index->mask; i++) {
        if (index->cells[i].value != 0) {
            wp_hash_index_add(&grown, index->cells[i].hash,
                              index->cells[i].value);
        }
    }
    free(index->cells);
    *index = grown;
    return true;
}

/* Empties the cell and closes the gap. */
static void
empty_cell(struct wp_hash_index *index, uint64_t gap)
{
    uint64_t at = gap;

    for (;;) {
        uint64_t home;

        at = (at + 1) & index->mask;
        if (index->cells[at].value == 0) {
            break;
        }
        home = index->cells[at].hash & index->mask;
        /* It may move when its home is not between the gap and where it is. */
        if (((at - home) & index->mask) >= ((at - gap) & index->mask)) {
            index->cells[gap] = index->cells[at];
            gap = at;
        }
    }
    index->cells[gap].value = 0;
    index->count--;
}

void
wp_hash_index_remove(struct wp_hash_index *index, uint64_t hash, uint64_t value)
{
    for (uint64_t at = hash & index->mask; index->cells[at].value != 0;
         at = (at + 1) & index->mask) {
        if (index->cells[at].hash == hash && index->cells[at].value == value) {
            empty_cell(index, at);
            return;
        }
    }
}

uint64_t
wp_hash_index_next(const struct wp_hash_index *index, uint64_t hash,
                   uint64_t *at)
{
    for (;;) {
        const struct wp_hash_cell *cell =
            &index->cells[(hash + *at) & index->mask];

        if (cell->value == 0) {
            return 0;
        }
        (*at)++;
        if (cell->hash == hash) {
            return cell->value;
        }
    }
}
