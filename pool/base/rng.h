/* pool/base/rng.h - random numbers: seeded ones that replay, and secret ones.
 */
#ifndef WP_BASE_RNG_H
#define WP_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* xoshiro256**: the same seed gives the same sequence everywhere. One owner. */
struct wp_rng {
    uint64_t s[4];
};

void wp_rng_init(struct wp_rng *rng, uint64_t seed);
uint64_t wp_rng_next(struct wp_rng *rng);
/* Uniform in [0, bound); bound > 0. No modulo bias. */
uint64_t wp_rng_below(struct wp_rng *rng, uint64_t bound);
/* Uniform in [0, 1). */
double wp_rng_unit(struct wp_rng *rng);

/* Fills out from the kernel's generator; aborts when it cannot, since a
 * guessable key is worse than no daemon. Any thread. */
void wp_random_bytes(void *out, size_t len);

#endif
