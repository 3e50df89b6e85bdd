/* The feed's reading of pools: at first, and when something was missed.
 *
 * Changes that come meanwhile are passed on between the pages: the receiver
 * puts them in order by fence and state, and whatever was forgotten is said to
 * be after it was read. */
#include "allocator/stores/redis/feed_impl.h"
#include "allocator/stores/redis/link/sync.h"
#include "pool/base/log.h"

#include <hiredis/hiredis.h>

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

/* It will be read again, later each time. Said once. */
static void
put_off(struct wp_redis_feed *feed, uint32_t number, enum wp_status status,
        const struct wp_err *err)
{
    struct wp_feed_pool *pool = &feed->pools[number];

    pool->again_ms = pool->again_ms == 0 ? WP_FEED_AGAIN_MS
                     : pool->again_ms * 2 < WP_FEED_AGAIN_MAX_MS
                         ? pool->again_ms * 2
                         : WP_FEED_AGAIN_MAX_MS;
    wp_redis_feed_want(pool);
    if (status == WP_OK || status == WP_CANCELLED) {
        return;
    }
    WP_REDIS_COUNT(feed->redis->sync_failures);
    if (!pool->logged) {
        pool->logged = true;
        wp_log_warn("a pool cannot be read from redis: what other replicas did "
                    "with it may be unknown here",
                    wp_kv_str("pool", feed->redis->pools[number].name.pool),
                    wp_kv_err(err));
    }
}

static void
note_read(struct wp_redis_feed *feed, uint32_t number)
{
    struct wp_feed_pool *pool = &feed->pools[number];

    WP_REDIS_COUNT(feed->redis->syncs);
    pool->again_ms = 0;
    if (pool->logged) {
        pool->logged = false;
        wp_log_info("the pool can be read from redis again",
                    wp_kv_str("pool", feed->redis->pools[number].name.pool));
    }
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
    struct wp_redis_sync *context = feed->talk;
    uint64_t generation = atomic_load(&name->generation);
    enum wp_status status = WP_CANCELLED;
    struct wp_err err = {.msg = ""};

    if (feed->redis->config.redis.router != NULL) {
        status = wp_redis_pool_open(feed->redis, name, &context, NULL, &err);
        if (status != WP_OK) {
            put_off(feed, number, status, &err);
            return true;
        }
        status = WP_CANCELLED;
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
        note_read(feed, number);
        return true;
    }
    put_off(feed, number, status, &err);
    /* What was only refused has left the connection whole. */
    return !wp_redis_sync_is_broken(feed->talk);
}

bool
wp_redis_feed_read_wanted(struct wp_redis_feed *feed)
{
    for (uint32_t i = 0; i < feed->n_pools; i++) {
        if (atomic_exchange(&feed->redis->pools[i].again, false)) {
            feed->pools[i].wanted = true;
        }
        if (!feed->pools[i].wanted ||
            wp_redis_feed_now_ns() < feed->pools[i].read_at_ns) {
            continue;
        }
        /* What Redis has forgotten has to be restored first: who reads now
         * might let go of what only this replica knows. */
        if (atomic_load(&feed->redis->pools[i].generation) == 0) {
            feed->pools[i].read_at_ns =
                wp_redis_feed_now_ns() + DOUBT_MS * WP_NS_PER_MS;
        } else if (!read_pool(feed, i)) {
            return false;
        }
    }
    return true;
}
