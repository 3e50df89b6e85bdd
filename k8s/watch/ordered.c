#include "k8s/watch/ordered.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"

enum {
    BLOCK_ENTRIES = 254, /* With its head a block has 4 KiB less a word. */
};

struct entry {
    const char *key;
    const struct wp_object *object;
};

struct wp_ordered_block {
    uint32_t len;
    struct entry entries[BLOCK_ENTRIES];
};

static void *
grow(void *old, size_t size)
{
    void *grown = realloc(old, size);

    if (grown == NULL) {
        (void)fprintf(stderr, "no memory for an index of objects\n");
        abort();
    }
    return grown;
}

void
wp_ordered_fini(struct wp_ordered *set)
{
    for (uint32_t i = 0; i < set->blocks_len; i++) {
        free(set->blocks[i]);
    }
    free(set->blocks);
    *set = (struct wp_ordered){0};
}

static int
compare(const struct entry *entry, const char *key, const char *ns,
        const char *name)
{
    int order = strcmp(entry->key, key);

    if (order == 0) {
        order = strcmp(entry->object->ns, ns);
    }
    return order != 0 ? order : strcmp(entry->object->name, name);
}

struct wp_ordered_at
wp_ordered_seek(const struct wp_ordered *set, const char *key, const char *ns,
                const char *name)
{
    uint32_t low = 0;
    uint32_t high = set->blocks_len;
    uint32_t block;

    /* The first block whose last entry is not before it. */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct wp_ordered_block *at = set->blocks[middle];

        if (compare(&at->entries[at->len - 1], key, ns, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    block = low;
    if (block == set->blocks_len) {
        return (struct wp_ordered_at){block, 0};
    }
    low = 0;
    high = set->blocks[block]->len;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (compare(&set->blocks[block]->entries[middle], key, ns, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (struct wp_ordered_at){block, low};
}

static void
add_block(struct wp_ordered *set, uint32_t at)
{
    if (set->blocks_len == set->blocks_cap) {
        set->blocks_cap = set->blocks_cap == 0 ? 4 : set->blocks_cap * 2;
        set->blocks = grow(set->blocks,
                           set->blocks_cap * sizeof(struct wp_ordered_block *));
    }
    memmove(&set->blocks[at + 1], &set->blocks[at],
            (set->blocks_len - at) * sizeof(struct wp_ordered_block *));
    set->blocks[at] = grow(NULL, sizeof **set->blocks);
    set->blocks[at]->len = 0;
    set->blocks_len++;
}

/* Where a new entry goes: never behind the last of a full block. */
static struct wp_ordered_at
make_room(struct wp_ordered *set, struct wp_ordered_at at)
{
    struct wp_ordered_block *block;
    struct wp_ordered_block *upper;

    if (at.block == set->blocks_len) {
        /* Behind all: what comes in order fills blocks to the brim. */
        if (at.block == 0 || set->blocks[at.block - 1]->len == BLOCK_ENTRIES) {
            add_block(set, at.block);
            return at;
        }
        at.block--;
        at.entry = set->blocks[at.block]->len;
        return at;
    }
    block = set->blocks[at.block];
    if (block->len < BLOCK_ENTRIES) {
        return at;
    }
    add_block(set, at.block + 1);
    upper = set->blocks[at.block + 1];
    upper->len = BLOCK_ENTRIES / 2;
    block->len = BLOCK_ENTRIES - upper->len;
    memcpy(upper->entries, &block->entries[block->len],
           upper->len * sizeof(struct entry));
    if (at.entry > block->len) {
        at.block++;
        at.entry -= block->len;
    }
    return at;
}

void
wp_ordered_insert(struct wp_ordered *set, const char *key,
                  const struct wp_object *object)
{
    struct wp_ordered_at at =
        make_room(set, wp_ordered_seek(set, key, object->ns, object->name));
    struct wp_ordered_block *block = set->blocks[at.block];

    memmove(&block->entries[at.entry + 1], &block->entries[at.entry],
            (block->len - at.entry) * sizeof(struct entry));
    block->entries[at.entry] = (struct entry){key, object};
    block->len++;
    set->count++;
}

void
wp_ordered_remove(struct wp_ordered *set, const char *key,
                  const struct wp_object *object)
{
    struct wp_ordered_at at =
        wp_ordered_seek(set, key, object->ns, object->name);
    struct wp_ordered_block *block;

    WP_ASSERT(wp_ordered_get(set, at, NULL) == object);
    block = set->blocks[at.block];
    block->len--;
    set->count--;
    memmove(&block->entries[at.entry], &block->entries[at.entry + 1],
            (block->len - at.entry) * sizeof(struct entry));
    if (block->len == 0) {
        free(block);
        set->blocks_len--;
        memmove(&set->blocks[at.block], &set->blocks[at.block + 1],
                (set->blocks_len - at.block) *
                    sizeof(struct wp_ordered_block *));
    }
}

const struct wp_object *
wp_ordered_get(const struct wp_ordered *set, struct wp_ordered_at at,
               const char **key)
{
    const struct entry *entry;

    if (at.block >= set->blocks_len) {
        return NULL;
    }
    entry = &set->blocks[at.block]->entries[at.entry];
    if (key != NULL) {
        *key = entry->key;
    }
    return entry->object;
}

struct wp_ordered_at
wp_ordered_settle(const struct wp_ordered *set, struct wp_ordered_at at)
{
    /* A block that became empty is gone, and the next one has its place. */
    if (at.block < set->blocks_len && at.entry == set->blocks[at.block]->len) {
        at.block++;
        at.entry = 0;
    }
    return at;
}

struct wp_ordered_at
wp_ordered_next(const struct wp_ordered *set, struct wp_ordered_at at)
{
    at.entry++;
    return wp_ordered_settle(set, at);
}

size_t
wp_ordered_bytes(const struct wp_ordered *set)
{
    return set->blocks_len * sizeof(struct wp_ordered_block) +
           set->blocks_cap * sizeof(struct wp_ordered_block *);
}
