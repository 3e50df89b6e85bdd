/* pool/base/arena.h - memory of which nothing is freed singly.
 *
 * An arena hands out what the caller gave it and no more; a region takes more
 * from malloc as it grows. One owner at a time. */
#ifndef WP_BASE_ARENA_H
#define WP_BASE_ARENA_H

#include <stddef.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

struct wp_arena {
    char *base; /* Borrowed from init. */
    size_t cap;
    size_t used;
};

void wp_arena_init(struct wp_arena *arena, void *base, size_t cap);
void wp_arena_reset(struct wp_arena *arena);
/* size bytes aligned for any object, or NULL when the arena is full. */
WP_MUST_CHECK void *wp_arena_alloc(struct wp_arena *arena, size_t size);

struct wp_region_block;

struct wp_region {
    struct wp_region_block *blocks; /* NULL when empty: no init is needed. */
    struct wp_arena last;           /* Over the block that is being filled. */
};

/* Zeroed and aligned for any object; NULL when memory lacks. */
WP_MUST_CHECK void *wp_region_alloc(struct wp_region *region, size_t size);
/* A terminated copy. */
WP_MUST_CHECK char *wp_region_str(struct wp_region *region, struct wp_str s);
/* Leaves an empty region. */
void wp_region_free(struct wp_region *region);
/* The same for what holds secrets: all of it is overwritten. */
void wp_region_wipe(struct wp_region *region);

#endif
