/* pool/base/nearest.h - "did you mean": the word most like a mistyped
 * one. */
#ifndef WP_BASE_NEAREST_H
#define WP_BASE_NEAREST_H

#include <stddef.h>

#include "pool/base/str.h"

enum {
    WP_NEAREST_WORD_MAX = 48, /* Longer words are near to none. */
};

struct wp_nearest {
    struct wp_str typed;
    const char *best; /* Borrowed; NULL while none is near. */
    size_t distance;
};

void wp_nearest_init(struct wp_nearest *nearest, struct wp_str typed);
/* Keeps word when it is nearer than the best so far, and near at all: at most a
 * third of its letters, and at least one, may differ or be swapped, or it
 * begins with what was typed. */
void wp_nearest_offer(struct wp_nearest *nearest, const char *word);

/* How many letters to insert, remove, replace or swap with their neighbour to
 * get from a to b. Neither is longer than WP_NEAREST_WORD_MAX. */
size_t wp_word_distance(struct wp_str a, struct wp_str b);

#endif
