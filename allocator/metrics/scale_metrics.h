/* allocator/metrics/scale_metrics.h - what pools' scalers decide, as a part of
 * /metrics. Pools without an objective have none of these. Any thread. */
#ifndef WP_ALLOCATOR_METRICS_SCALE_METRICS_H
#define WP_ALLOCATOR_METRICS_SCALE_METRICS_H

#include <stdint.h>

#include "pool/pool.h"

struct evbuffer;

void wp_scale_metrics(struct evbuffer *out, struct wp_pools *pools,
                      const struct wp_pool_stats *stats, uint32_t n);

#endif
