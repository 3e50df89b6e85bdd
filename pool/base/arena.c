#include "pool/base/arena.h"

#include <stdalign.h>
#include <stdint.h>

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
