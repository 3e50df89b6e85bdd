#include "pool/base/rng.h"

#include <errno.h>
#include <sys/random.h>

#include "pool/base/assert.h"

static uint64_t
rotl(uint64_t x, unsigned bits)
{
    return (x << bits) | (x >> (64 - bits));
}

void
wp_rng_init(struct wp_rng *rng, uint64_t seed)
{
    /* splitmix64, as the generator's authors advise for seeding. */
    for (int i = 0; i < 4; i++) {
        uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15));

        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        rng->s[i] = z ^ (z >> 31);
    }
}

uint64_t
wp_rng_next(struct wp_rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t
wp_rng_below(struct wp_rng *rng, uint64_t bound)
{
    uint64_t limit;
    uint64_t x;

    WP_ASSERT(bound > 0);
    limit = UINT64_MAX - UINT64_MAX % bound;
    do {
        x = wp_rng_next(rng);
    } while (x >= limit);
    return x % bound;
}

double
wp_rng_unit(struct wp_rng *rng)
{
    return (double)(wp_rng_next(rng) >> 11) * 0x1.0p-53;
}

int64_t
wp_backoff_ns(int64_t min_ns, int64_t max_ns, uint32_t failures)
{
    for (; failures > 1 && min_ns > 0 && min_ns < max_ns; failures--) {
        min_ns = min_ns <= max_ns / 2 ? min_ns * 2 : max_ns;
    }
    return min_ns < max_ns ? min_ns : max_ns;
}

int64_t
wp_rng_half(struct wp_rng *rng, int64_t pause_ns)
{
    return pause_ns / 2 +
           (int64_t)wp_rng_below(rng, (uint64_t)pause_ns / 2 + 1);
}

void
wp_random_bytes(void *out, size_t len)
{
    char *p = out;

    while (len > 0) {
        ssize_t n = getrandom(p, len, 0);

        WP_ASSERT(n > 0 || errno == EINTR);
        if (n > 0) {
            p += n;
            len -= (size_t)n;
        }
    }
}
