#include "local/manifest/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_BYTES = 64 << 10
};

struct wp_pile_block {
    struct wp_pile_block *next;
    size_t used;
    size_t cap;
    alignas(max_align_t) char bytes[];
};

void *
wp_pile_alloc(struct wp_pile *pile, size_t size)
{
    size_t need =
        (size + alignof(max_align_t) - 1) & ~(size_t)(alignof(max_align_t) - 1);
    struct wp_pile_block *block = pile->blocks;
    void *out;

    if (block == NULL || block->cap - block->used < need) {
        size_t cap = need > BLOCK_BYTES ? need : BLOCK_BYTES;

        block = calloc(1, sizeof *block + cap);
        if (block == NULL) {
            return NULL;
        }
        block->cap = cap;
        block->next = pile->blocks;
        pile->blocks = block;
    }
    out = block->bytes + block->used;
    block->used += need;
    return out;
}

char *
wp_pile_str(struct wp_pile *pile, struct wp_str s)
{
    char *out = wp_pile_alloc(pile, s.len + 1);

    if (out != NULL && s.len > 0) {
        memcpy(out, s.ptr, s.len);
    }
    return out;
}

void
wp_pile_free(struct wp_pile *pile)
{
    while (pile->blocks != NULL) {
        struct wp_pile_block *block = pile->blocks;

        pile->blocks = block->next;
        free(block);
    }
}
