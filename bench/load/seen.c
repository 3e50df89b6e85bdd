#include "bench/load/seen.h"

#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/rng.h"

bool
wp_seen_init(struct wp_seen *seen, unsigned bits)
{
    seen->mask = (UINT64_C(1) << bits) - 1;
    seen->cells = calloc(seen->mask + 1, sizeof(*seen->cells));
    seen->count = 0;
    wp_random_bytes(&seen->key, sizeof(seen->key));
    return seen->cells != NULL;
}

void
wp_seen_fini(struct wp_seen *seen)
{
    free(seen->cells);
}

/* False when hash is there already. The table has a free cell. */
static bool
insert(struct wp_seen *seen, uint64_t hash)
{
    uint64_t at = hash & seen->mask;

    while (seen->cells[at] != 0) {
        if (seen->cells[at] == hash) {
            return false;
        }
        at = (at + 1) & seen->mask;
    }
    seen->cells[at] = hash;
    return true;
}

static void
grow(struct wp_seen *seen)
{
    uint64_t *old = seen->cells;
    uint64_t n = seen->mask + 1;

    seen->mask = n * 2 - 1;
    seen->cells = calloc(n * 2, sizeof(*seen->cells));
    WP_ASSERT(seen->cells != NULL);
    for (uint64_t i = 0; i < n; i++) {
        if (old[i] != 0) {
            (void)insert(seen, old[i]);
        }
    }
    free(old);
}

bool
wp_seen_add(struct wp_seen *seen, struct wp_str name)
{
    uint64_t hash = wp_siphash128(seen->key, name.ptr, name.len).low | 1;

    if (!insert(seen, hash)) {
        return false;
    }
    if (++seen->count > seen->mask / 2) {
        grow(seen);
    }
    return true;
}
