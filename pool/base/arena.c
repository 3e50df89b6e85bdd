#include "pool/base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void
wp_arena_init(struct wp_arena *arena, void *base, size_t cap)
{
    arena->base = base;
    arena->cap = cap;
    arena->used = 0;
}

void
wp_arena_reset(struct wp_arena *arena)
{
    arena->used = 0;
}

void *
wp_arena_alloc(struct wp_arena *arena, size_t size)
{
    const size_t align = alignof(max_align_t);
    uintptr_t at = (uintptr_t)arena->base + arena->used;
    size_t pad = (align - at % align) % align;
    void *block;

    if (size > arena->cap - arena->used ||
        pad > arena->cap - arena->used - size) {
        return NULL;
    }
    block = arena->base + arena->used + pad;
    arena->used += pad + size;
    return block;
}

enum {
    BLOCK_BYTES = 64 << 10
};

struct wp_region_block {
    struct wp_region_block *next;
    size_t cap;
    alignas(max_align_t) char bytes[];
};

void *
wp_region_alloc(struct wp_region *region, size_t size)
{
    void *out = wp_arena_alloc(&region->last, size);

    if (out == NULL) {
        size_t cap = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        struct wp_region_block *block =
            cap < PTRDIFF_MAX ? calloc(1, sizeof *block + cap) : NULL;

        if (block == NULL) {
            return NULL;
        }
        block->cap = cap;
        block->next = region->blocks;
        region->blocks = block;
        wp_arena_init(&region->last, block->bytes, cap);
        out = wp_arena_alloc(&region->last, size);
    }
    return out;
}

char *
wp_region_str(struct wp_region *region, struct wp_str s)
{
    char *out = wp_region_alloc(region, s.len + 1);

    if (out != NULL && s.len > 0) {
        memcpy(out, s.ptr, s.len);
    }
    return out;
}

void
wp_region_free(struct wp_region *region)
{
    while (region->blocks != NULL) {
        struct wp_region_block *block = region->blocks;

        region->blocks = block->next;
        free(block);
    }
    wp_arena_init(&region->last, NULL, 0);
}

void
wp_region_wipe(struct wp_region *region)
{
    for (struct wp_region_block *block = region->blocks; block != NULL;
         block = block->next) {
        explicit_bzero(block->bytes, block->cap);
    }
    wp_region_free(region);
}
