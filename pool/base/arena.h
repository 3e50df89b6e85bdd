/* pool/base/arena.h - a bump allocator over memory the caller gives.
 *
 * One owner at a time. Nothing is freed singly; reset gives all of it back. */
#ifndef WP_BASE_ARENA_H
#define WP_BASE_ARENA_H

#include <stddef.h>

#include "pool/base/compiler.h"

struct wp_arena {
    char *base; /* Borrowed from init. */
    size_t cap;
    size_t used;
};

void wp_arena_init(struct wp_arena *arena, void *base, size_t cap);
void wp_arena_reset(struct wp_arena *arena);
/* size bytes aligned for any object, or NULL when the arena is full. */
WP_MUST_CHECK void *wp_arena_alloc(struct wp_arena *arena, size_t size);

#endif
