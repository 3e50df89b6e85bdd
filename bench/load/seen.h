/* bench/load/seen.h - every sandbox a load has been given, to find duplicates.
 *
 * A sandbox that a tenant has had is never handed out again, so a name that
 * comes twice in a run is a double grant. Names are kept as 64-bit keyed hashes;
 * two names with one hash in a run of ten million have odds of one to 3 * 10^5,
 * and would be reported, not missed. Not thread-safe. */
#ifndef WP_BENCH_LOAD_SEEN_H
#define WP_BENCH_LOAD_SEEN_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/siphash.h"
#include "pool/base/str.h"

struct wp_seen {
    uint64_t *cells; /* Owned; mask + 1 of them; 0 is free. */
    uint64_t mask;
    uint64_t count;
    struct wp_hash_key key;
};

/* Starts with room for 2^bits / 2 names and grows. False when memory lacks. */
WP_MUST_CHECK bool wp_seen_init(struct wp_seen *seen, unsigned bits);
void wp_seen_fini(struct wp_seen *seen);
/* True when name is new. Aborts when it must grow and memory lacks. */
WP_MUST_CHECK bool wp_seen_add(struct wp_seen *seen, struct wp_str name);

#endif
