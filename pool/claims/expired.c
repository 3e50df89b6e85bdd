#include "pool/claims/expired.h"

#include <stddef.h>

static struct wp_expired_bucket *
bucket_of(struct wp_expired *expired, struct wp_hash128 hash)
{
    return &expired->bucket[hash.low % WP_EXPIRED_BUCKETS];
}

/* Where in the bucket the claim is, or NULL. */
static int64_t *
find(struct wp_expired_bucket *bucket, struct wp_hash128 hash)
{
    for (size_t i = 0; i < WP_EXPIRED_WAYS; i++) {
        if (bucket->wall_ms[i] != 0 && bucket->hash[i].low == hash.low &&
            bucket->hash[i].high == hash.high) {
            return &bucket->wall_ms[i];
        }
    }
    return NULL;
}

void
wp_expired_init(struct wp_expired *expired)
{
    (void)pthread_mutex_init(&expired->lock, NULL);
}

void
wp_expired_fini(struct wp_expired *expired)
{
    (void)pthread_mutex_destroy(&expired->lock);
}

void
wp_expired_add(struct wp_expired *expired, struct wp_hash128 hash,
               int64_t wall_ms)
{
    struct wp_expired_bucket *bucket = bucket_of(expired, hash);
    int64_t *known;

    (void)pthread_mutex_lock(&expired->lock);
    known = find(bucket, hash);
    if (known != NULL) {
        *known = wall_ms;
    } else {
        bucket->hash[bucket->next] = hash;
        bucket->wall_ms[bucket->next] = wall_ms;
        bucket->next = (bucket->next + 1) % WP_EXPIRED_WAYS;
    }
    (void)pthread_mutex_unlock(&expired->lock);
}

int64_t
wp_expired_find(struct wp_expired *expired, struct wp_hash128 hash)
{
    int64_t wall_ms;
    const int64_t *known;

    (void)pthread_mutex_lock(&expired->lock);
    known = find(bucket_of(expired, hash), hash);
    wall_ms = known != NULL ? *known : 0;
    (void)pthread_mutex_unlock(&expired->lock);
    return wall_ms;
}
