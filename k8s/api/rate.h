/* k8s/api/rate.h - a token bucket: so many requests a second, and bursts.
 *
 * Part of a bucket can be reserved: who leaves it alone waits earlier, so that
 * somebody else finds something. Time is passed in. */
#ifndef WP_K8S_API_RATE_H
#define WP_K8S_API_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"

struct wp_rate {
    double per_ns;
    double size;
    double level;
    int64_t filled_ns;
};

/* Full. per_s 0: no bound at all. */
void wp_rate_init(struct wp_rate *rate, double per_s, uint32_t burst,
                  int64_t now_ns);
/* Takes one if more than reserve are there. */
WP_MUST_CHECK bool wp_rate_take(struct wp_rate *rate, double reserve,
                                int64_t now_ns);
/* How long until that would succeed; 0: now. */
int64_t wp_rate_wait_ns(const struct wp_rate *rate, double reserve,
                        int64_t now_ns);

#endif
