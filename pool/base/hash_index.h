/* pool/base/hash_index.h - from 64-bit hashes to numbers.
 *
 * A hint: two things may have one hash, so the caller looks at what a number
 * names. No locks; one thread at a time. */
#ifndef WP_BASE_HASH_INDEX_H
#define WP_BASE_HASH_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"

struct wp_hash_cell {
    uint64_t hash;
    uint64_t value; /* 0: empty. */
};

struct wp_hash_index {
    struct wp_hash_cell *cells; /* Owned; mask + 1 of them. */
    uint64_t mask;
    uint64_t count;
};

/* With room for as many entries. False when memory lacks. */
WP_MUST_CHECK bool wp_hash_index_init(struct wp_hash_index *index,
                                      uint64_t entries);
void wp_hash_index_fini(struct wp_hash_index *index);
/* Bytes of one with room for as many entries. */
size_t wp_hash_index_bytes(uint64_t entries);
/* Makes room for as many more. False when memory lacks: it is as it was. */
WP_MUST_CHECK bool wp_hash_index_reserve(struct wp_hash_index *index,
                                         uint64_t more);

/* Adds {hash, value}, once for each pair; value is not 0. Aborts where there is
 * no room for it. */
void wp_hash_index_add(struct wp_hash_index *index, uint64_t hash,
                       uint64_t value);
/* Takes {hash, value} out; harmless when it is not there. */
void wp_hash_index_remove(struct wp_hash_index *index, uint64_t hash,
                          uint64_t value);
/* The next value of that hash; 0: there is none. *at begins as 0, and is
 * moved on; nothing may change meanwhile. */
uint64_t wp_hash_index_next(const struct wp_hash_index *index, uint64_t hash,
                            uint64_t *at);

#endif
