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

/* The pause after that many failures in a row (from 1): min_ns, doubled each
 * time, up to max_ns. */
int64_t wp_backoff_ns(int64_t min_ns, int64_t max_ns, uint32_t failures);
/* Of a pause one half is certain and one half is chance: so no two keep step.
 */
int64_t wp_rng_half(struct wp_rng *rng, int64_t pause_ns);

/* Fills out from the kernel's generator; aborts when it cannot, since a
 * guessable key is worse than no daemon. Any thread. */
void wp_random_bytes(void *out, size_t len);

#endif
