#include "pool/base/siphash.h"

#include <string.h>

struct sip {
    uint64_t v0;
    uint64_t v1;
    uint64_t v2;
    uint64_t v3;
};

static inline uint64_t
rotl(uint64_t x, unsigned bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static inline void
sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotl(s->v1, 13) ^ s->v0;
    s->v0 = rotl(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotl(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotl(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotl(s->v1, 17) ^ s->v2;
    s->v2 = rotl(s->v2, 32);
}

static inline void
sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    s->v0 ^= word;
}

static inline uint64_t
sip_finish(struct sip *s)
{
    sip_round(s);
    sip_round(s);
    sip_round(s);
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

struct wp_hash128
wp_siphash128(struct wp_hash_key key, const void *bytes, size_t len)
{
    struct sip s = {key.k0 ^ UINT64_C(0x736f6d6570736575),
                    key.k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
                    key.k0 ^ UINT64_C(0x6c7967656e657261),
                    key.k1 ^ UINT64_C(0x7465646279746573)};
    const unsigned char *p = bytes;
    size_t left = len;
    uint64_t last = (uint64_t)len << 56;
    struct wp_hash128 out;

    for (; left >= 8; left -= 8, p += 8) {
        uint64_t word;

        memcpy(&word, p, sizeof word); /* Little-endian hosts only. */
        sip_word(&s, word);
    }
    for (size_t i = 0; i < left; i++) {
        last |= (uint64_t)p[i] << (8 * i);
    }
    sip_word(&s, last);
    s.v2 ^= 0xee;
    out.low = sip_finish(&s);
    s.v1 ^= 0xdd;
    out.high = sip_finish(&s);
    return out;
}
