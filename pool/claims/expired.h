/* pool/claims/expired.h - which claims' leases have run out lately.
 *
 * A claim whose lease has ended leaves nothing in the claim table: who asks for
 * it cannot tell whether it ever was. This remembers the latest ends by
 * deadline, in fixed memory: where too many came, older ones are forgotten. Any
 * thread; not for the way of claims. */
#ifndef WP_POOL_CLAIMS_EXPIRED_H
#define WP_POOL_CLAIMS_EXPIRED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/base/siphash.h"

enum {
    WP_EXPIRED_BUCKETS = 1024,
    WP_EXPIRED_WAYS = 4, /* Ends that a bucket remembers. */
};

struct wp_expired {
    pthread_mutex_t lock; /* guards: bucket; nothing is taken under it */
    struct wp_expired_bucket {
        struct wp_hash128 hash[WP_EXPIRED_WAYS];
        int64_t wall_ms[WP_EXPIRED_WAYS]; /* 0: unused. */
        uint32_t next;                    /* The oldest. */
    } bucket[WP_EXPIRED_BUCKETS];
};

/* Zeroed memory; fini is due after every thread has left. */
void wp_expired_init(struct wp_expired *expired);
void wp_expired_fini(struct wp_expired *expired);
/* The claim's lease ran out at wall_ms, which is more than 0. */
void wp_expired_add(struct wp_expired *expired, struct wp_hash128 hash,
                    int64_t wall_ms);
/* When it did, for the latest time; 0: not that anybody remembers. */
int64_t wp_expired_find(struct wp_expired *expired, struct wp_hash128 hash);

#endif
