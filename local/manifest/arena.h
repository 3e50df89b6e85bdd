/* local/manifest/arena.h - memory that is freed all at once; for what a
 * manifest owns. */
#ifndef WP_LOCAL_MANIFEST_ARENA_H
#define WP_LOCAL_MANIFEST_ARENA_H

#include <stddef.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

struct wp_pile_block;

struct wp_pile {
    struct wp_pile_block *blocks; /* NULL when empty: no init is needed. */
};

/* Zeroed and aligned for any object; NULL when memory lacks. */
WP_MUST_CHECK void *wp_pile_alloc(struct wp_pile *pile, size_t size);
/* A terminated copy. */
WP_MUST_CHECK char *wp_pile_str(struct wp_pile *pile, struct wp_str s);
void wp_pile_free(struct wp_pile *pile);

#endif
