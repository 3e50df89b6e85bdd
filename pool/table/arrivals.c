/* pool/table/arrivals.c - how many claims came to a pool, and how many of them
 * found nothing ready. */
#include "pool/table/pools.h"

static uint32_t
at_most_u32(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

void
wp_pool_missed(struct wp_pool *pool, int64_t arrived_ns)
{
    int64_t none = 0;

    wp_counter_add(&pool->missed, 1);
    /* Looked at first: where nobody takes it, it stays. */
    if (atomic_load_explicit(&pool->missed_at_ns, memory_order_relaxed) == 0) {
        (void)atomic_compare_exchange_strong_explicit(
            &pool->missed_at_ns, &none, arrived_ns, memory_order_relaxed,
            memory_order_relaxed);
    }
}

void
wp_pool_count_claims(struct wp_pool *pool, uint64_t *claims, uint64_t *missed)
{
    struct wp_histogram_view latency;
    uint64_t late = wp_counter_read(&pool->served[WP_SERVED_QUEUED]) +
                    wp_counter_read(&pool->served[WP_SERVED_COLD]);

    *missed = wp_counter_read(&pool->missed);
    wp_histogram_read(&pool->claim_latency, &latency);
    *claims = *missed + pool->granted_elsewhere +
              (latency.count > late ? latency.count - late : 0);
}

bool
wp_pool_new_claims(struct wp_pool *pool, uint64_t *claims_seen,
                   uint64_t *missed_seen, uint32_t *n, uint32_t *missed)
{
    uint64_t claims;
    uint64_t in_vain;

    wp_pool_count_claims(pool, &claims, &in_vain);
    if (claims <= *claims_seen) {
        return false;
    }
    *n = at_most_u32(claims - *claims_seen);
    *missed = in_vain > *missed_seen ? at_most_u32(in_vain - *missed_seen) : 0;
    *missed = *missed < *n ? *missed : *n;
    *claims_seen += *n;
    *missed_seen += *missed;
    return true;
}
