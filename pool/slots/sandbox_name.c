#include "pool/slots/sandbox_name.h"

#include "pool/base/assert.h"

/* Kubernetes' alphabet for generated names: no vowels, no look-alikes. */
static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789";

enum {
    BASE = sizeof alphabet - 1,
    HALF_BITS = 19, /* 24 bits of index and 14 of generation, in two halves. */
    INDEX_BITS = 24,
    ROUNDS = 4,
};

#define HALF_MASK ((UINT64_C(1) << HALF_BITS) - 1)
#define ALL_MASK ((UINT64_C(1) << (2 * HALF_BITS)) - 1)

static uint64_t
round_value(struct wp_hash_key key, uint64_t half, unsigned round)
{
    uint64_t x = half ^ key.k0 ^ ((uint64_t)round << 56);

    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= (x >> 29) ^ key.k1;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return (x >> 40) & HALF_MASK;
}

/* A Feistel network is a permutation whatever its round function is. */
static uint64_t
permute(struct wp_hash_key key, uint64_t value)
{
    uint64_t left = value >> HALF_BITS;
    uint64_t right = value & HALF_MASK;

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t next = left ^ round_value(key, right, i);

        left = right;
        right = next;
    }
    return left << HALF_BITS | right;
}

static uint64_t
unpermute(struct wp_hash_key key, uint64_t value)
{
    uint64_t left = value >> HALF_BITS;
    uint64_t right = value & HALF_MASK;

    for (unsigned i = ROUNDS; i-- > 0;) {
        uint64_t before = right ^ round_value(key, left, i);

        right = left;
        left = before;
    }
    return left << HALF_BITS | right;
}

void
wp_sandbox_name_make(struct wp_hash_key key, struct wp_str pool,
                     struct wp_slot_ref ref, char out[WP_SANDBOX_NAME_MAX + 1])
{
    uint64_t value =
        (((uint64_t)ref.generation << INDEX_BITS) | ref.index) & ALL_MASK;
    char *suffix = out + pool.len + 1;

    WP_ASSERT(pool.len <= WP_POOL_NAME_MAX && ref.index < WP_SLOTS_MAX);
    memcpy(out, pool.ptr, pool.len);
    out[pool.len] = '-';
    value = permute(key, value);
    for (int i = 0; i < WP_SANDBOX_SUFFIX_LEN; i++) {
        suffix[i] = alphabet[value % BASE];
        value /= BASE;
    }
    suffix[WP_SANDBOX_SUFFIX_LEN] = '\0';
}

bool
wp_sandbox_name_index(struct wp_hash_key key, struct wp_str name,
                      uint32_t *index)
{
    uint64_t value = 0;

    if (name.len < WP_SANDBOX_SUFFIX_LEN + 2 ||
        name.len > WP_SANDBOX_NAME_MAX) {
        return false;
    }
    for (size_t i = name.len; i-- > name.len - WP_SANDBOX_SUFFIX_LEN;) {
        const char *at = memchr(alphabet, name.ptr[i], BASE);

        if (at == NULL) {
            return false;
        }
        value = value * BASE + (uint64_t)(at - alphabet);
    }
    if (value > ALL_MASK) {
        return false;
    }
    *index =
        (uint32_t)(unpermute(key, value) & ((UINT64_C(1) << INDEX_BITS) - 1));
    return true;
}
