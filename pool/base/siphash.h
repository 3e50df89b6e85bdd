/* pool/base/siphash.h - keyed hashing of text from outside.
 *
 * SipHash-1-3 with a 128-bit result (Aumasson and Bernstein; the reduced round
 * count is the one hash tables in other languages use). The key is secret and
 * random per process, so that clients can neither flood a bucket nor find two
 * names with one hash. */
#ifndef WP_BASE_SIPHASH_H
#define WP_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct wp_hash_key {
    uint64_t k0;
    uint64_t k1;
};

struct wp_hash128 {
    uint64_t low;
    uint64_t high;
};

/* Any thread. bytes may be NULL when len is 0. */
struct wp_hash128 wp_siphash128(struct wp_hash_key key, const void *bytes,
                                size_t len);

#endif
