/* The feed's reading of pools: at first, and when something was missed.
 *
 * Changes that come meanwhile are passed on between the pages: the receiver
 * puts them in order by fence and state, and whatever was forgotten is said to
 * be after it was read. */
#include "allocator/stores/redis/feed_impl.h"
#include "allocator/stores/redis/link/sync.h"

enum {
    DOUBT_MS = 50, /* Between looks whether a pool is trusted again. */
};

static bool
read_each(void *ctx, const struct wp_lease_record *record)
{
    const struct wp_redis_feed *feed = ctx;

    return wp_redis_feed_sink(feed)->on_record == NULL ||
           wp_redis_feed_sink(feed)->on_record(wp_redis_feed_sink(feed)->ctx,
                                               record);
}

static bool
read_page_done(void *ctx)
{
    struct wp_redis_feed *feed = ctx;

    return wp_redis_feed_listen(feed, 0) && !atomic_load(&feed->stop) &&
           !feed->reading->wanted;
}

static bool
mark(const struct wp_redis_feed *feed, const struct wp_redis_pool *pool,
     bool begin)
{
    return wp_redis_feed_sink(feed)->on_sync == NULL ||
           wp_redis_feed_sink(feed)->on_sync(wp_redis_feed_sink(feed)->ctx,
                                             &pool->name, begin);
}

/* False: the connection is lost. Only what was read of one generation, which is
 * trusted still, says what there is not. */
static bool
read_pool(struct wp_redis_feed *feed, uint32_t number)
{
    struct wp_redis_pool *name = &feed->redis->pools[number];
    struct wp_feed_pool *pool = &feed->pools[number];
    const struct wp_redis_scan scan = {.ctx = feed,
                                       .each = read_each,
                                       .page = read_page_done,
                                       .number = &pool->base};
    struct redisContext *context = feed->talk;
    uint64_t generation = atomic_load(&name->generation);
    enum wp_status status = WP_CANCELLED;
    struct wp_err err;

    if (feed->redis->config.redis.router != NULL &&
        wp_redis_pool_open(feed->redis, name, &context, NULL, &err) != WP_OK) {
        return false;
    }
    pool->wanted = false;
    pool->expect = 0;
    pool->base = UINT64_MAX - 1; /* Until it has been read. */
    feed->reading = pool;
    if (mark(feed, name, true)) {
        status = wp_redis_pool_scan(feed->redis, context, name, &scan, &err);
    }
    feed->reading = NULL;
    if (context != feed->talk) {
        wp_redis_sync_close(context);
    }
    if (status == WP_OK && !pool->wanted &&
        atomic_load(&name->generation) == generation &&
        mark(feed, name, false)) {
        WP_REDIS_COUNT(feed->redis->syncs);
        feed->again_ms = WP_FEED_AGAIN_MS;
        return true;
    }
    feed->again_ms = feed->again_ms * 2 < WP_FEED_AGAIN_MAX_MS
                         ? feed->again_ms * 2
                         : WP_FEED_AGAIN_MAX_MS;
    wp_redis_feed_want(feed, pool);
    return status == WP_OK || status == WP_CANCELLED;
}

bool
wp_redis_feed_read_wanted(struct wp_redis_feed *feed)
{
    bool doubt = false;

    for (uint32_t i = 0; i < feed->n_pools; i++) {
        if (atomic_exchange(&feed->redis->pools[i].again, false)) {
            feed->pools[i].wanted = true;
        }
        if (!feed->pools[i].wanted ||
            wp_redis_feed_now_ns() < feed->read_at_ns) {
            continue;
        }
        /* What Redis has forgotten has to be told first: who reads now might
         * let go of what only this replica knows. */
        if (atomic_load(&feed->redis->pools[i].generation) == 0) {
            doubt = true;
        } else if (!read_pool(feed, i)) {
            return false;
        }
    }
    if (doubt && feed->read_at_ns <= wp_redis_feed_now_ns()) {
        feed->read_at_ns = wp_redis_feed_now_ns() + DOUBT_MS * WP_NS_PER_MS;
    }
    return true;
}
