/* What the feed hears: changes of others, and that they are alive.
 *
 * Changes of a pool are numbered by Redis; a number that is not the next one,
 * or a receiver that is full, leads to reading the pool again. */
#include <poll.h>
#include <string.h>

#include <hiredis/hiredis.h>
#include <sys/eventfd.h>

#include "allocator/stores/redis/feed_impl.h"
#include "allocator/stores/redis/link/sync.h"
#include "allocator/stores/redis/message.h"

enum {
    /* After hearing nothing but itself: a waking for each of its own commits
     * takes a core from the claim that waits for the same commit's answer. */
    REST_MS = 2,
};

/* --- changes --- */

/* The change is passed on even when others are missing before it. */
static void
count_change(struct wp_redis_feed *feed, struct wp_feed_pool *pool, uint64_t n)
{
    bool next = pool->expect == 0 ? n <= pool->base + 1 : n == pool->expect;

    if (!next && !pool->wanted) {
        WP_REDIS_COUNT(feed->redis->gaps);
        wp_redis_feed_want(pool);
    }
    pool->expect = n + 1;
}

/* All changes of a message are of one pool, which their records name. False: a
 * record cannot be read; its number will be missed. */
static bool
on_change(struct wp_redis_feed *feed, const struct wp_redis_change *change,
          bool own, struct wp_feed_pool **pool)
{
    struct wp_lease_redis *redis = feed->redis;
    struct wp_lease_record record;

    if (*pool != NULL && own && feed->reading != *pool) {
        count_change(feed, *pool, change->number);
        return true; /* This replica's own. */
    }
    if (!wp_redis_change_read(change, &record)) {
        return false;
    }
    if (*pool == NULL) {
        struct wp_redis_pool *known =
            wp_redis_pool_find(redis, wp_str_from(record.pool_namespace),
                               wp_str_from(record.pool));

        if (known == NULL) {
            return false;
        }
        *pool = &feed->pools[known - redis->pools];
    }
    count_change(feed, *pool, change->number);
    if (own && feed->reading != *pool) {
        return true;
    }
    WP_REDIS_COUNT(redis->records_heard);
    if (wp_redis_feed_sink(feed)->on_record != NULL &&
        !wp_redis_feed_sink(feed)->on_record(wp_redis_feed_sink(feed)->ctx,
                                             &record)) {
        wp_redis_feed_want(*pool);
    }
    return true;
}

static void
on_changes(struct wp_redis_feed *feed, struct wp_str payload)
{
    struct wp_feed_pool *pool = NULL;
    struct wp_redis_changes changes;
    struct wp_redis_change change;
    bool ok = wp_redis_changes_open(payload, &changes);
    bool own = ok && memcmp(changes.writer, feed->redis->config.replica_id,
                            sizeof changes.writer) == 0;

    feed->heard_other = feed->heard_other || !own;
    while (ok && wp_redis_changes_next(&changes, &change)) {
        ok = on_change(feed, &change, own, &pool);
    }
    if (!ok || changes.left.len > 0) {
        WP_REDIS_COUNT(feed->redis->corrupt);
    }
}

/* Somebody closed the pool of this channel for recovery. */
static void
on_closed(struct wp_redis_feed *feed, struct wp_str channel,
          struct wp_str payload)
{
    struct wp_lease_redis *redis = feed->redis;

    for (uint32_t i = 0; i < wp_redis_pools_len(redis); i++) {
        struct wp_redis_pool *pool = &redis->pools[i];

        if (channel.len > pool->key_len &&
            memcmp(channel.ptr, pool->key, pool->key_len) == 0 &&
            channel.ptr[pool->key_len] == ':') {
            wp_redis_generation_met(redis, pool, payload);
        }
    }
}

/* --- peers --- */

static void
tell_peer(struct wp_redis_feed *feed, const struct wp_lease_redis_peer *peer,
          bool gone)
{
    if (wp_redis_feed_sink(feed)->on_peer != NULL) {
        wp_redis_feed_sink(feed)->on_peer(wp_redis_feed_sink(feed)->ctx, peer,
                                          gone);
    }
}

/* True when this is news. */
static bool
note_peer(struct wp_redis_feed *feed, const struct wp_lease_redis_peer *peer)
{
    struct wp_feed_peer *known = NULL;
    bool news = true;

    (void)pthread_mutex_lock(&feed->peers_lock);
    for (uint32_t i = 0; i < feed->n_peers; i++) {
        if (memcmp(feed->peers[i].peer.replica_id, peer->replica_id,
                   WP_REPLICA_ID_LEN) == 0) {
            known = &feed->peers[i];
            news = known->peer.waiting != peer->waiting ||
                   known->peer.keeper != peer->keeper ||
                   known->peer.leaves != peer->leaves;
        }
    }
    if (known == NULL && feed->n_peers < WP_PEERS_MAX) {
        known = &feed->peers[feed->n_peers++];
        known->met = false;
    }
    /* It may have called after this one's latest heartbeat. */
    if (known != NULL && !known->met) {
        known->met = true;
        atomic_store(&feed->says_now, true);
    }
    if (known != NULL) {
        known->peer = *peer;
        known->heard_ns = wp_redis_feed_now_ns();
    }
    (void)pthread_mutex_unlock(&feed->peers_lock);
    return news && known != NULL;
}

static void
on_heartbeat(struct wp_redis_feed *feed, struct wp_str payload)
{
    struct wp_lease_redis_peer peer;

    if (!wp_redis_heartbeat_parse(payload, &peer)) {
        WP_REDIS_COUNT(feed->redis->corrupt);
        return;
    }
    if (memcmp(peer.replica_id, feed->redis->config.replica_id,
               sizeof peer.replica_id) == 0) {
        feed->heard_self_ns = wp_redis_feed_now_ns();
        return;
    }
    feed->heard_other = true;
    if (note_peer(feed, &peer)) {
        tell_peer(feed, &peer, false);
    }
}

void
wp_redis_feed_drop_silent(struct wp_redis_feed *feed)
{
    int64_t limit_ns =
        wp_redis_feed_now_ns() - feed->redis->config.peer_gone_ns;

    for (uint32_t i = 0; i < feed->n_peers;) {
        struct wp_lease_redis_peer gone;

        if (feed->peers[i].heard_ns > limit_ns) {
            i++;
            continue;
        }
        (void)pthread_mutex_lock(&feed->peers_lock);
        gone = feed->peers[i].peer;
        feed->peers[i] = feed->peers[--feed->n_peers];
        (void)pthread_mutex_unlock(&feed->peers_lock);
        tell_peer(feed, &gone, true);
    }
}

/* --- listening --- */

void
wp_redis_feed_on_message(struct wp_redis_feed *feed, const redisReply *reply)
{
    struct wp_str channel;
    struct wp_str payload;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_STRING ||
        reply->element[2]->type != REDIS_REPLY_STRING ||
        strcmp(reply->element[0]->str, "message") != 0) {
        return; /* That a subscription was taken. */
    }
    channel = (struct wp_str){reply->element[1]->str, reply->element[1]->len};
    payload = (struct wp_str){reply->element[2]->str, reply->element[2]->len};
    if (wp_str_is(channel, feed->peers_channel)) {
        on_heartbeat(feed, payload);
    } else if (payload.len > 0 && payload.ptr[0] == 'c') {
        feed->heard_other = true;
        on_closed(feed, channel, payload);
    } else {
        on_changes(feed, payload);
    }
}

/* Waits for something to be taken, wait_ms at most; true: there is. */
static bool
wait_for(struct wp_redis_feed *feed, int wait_ms)
{
    struct pollfd fds[2] = {
        {.fd = feed->stop_fd, .events = POLLIN},
        {.fd = wp_redis_sync_fd(feed->listen), .events = POLLIN}};
    bool rests = !feed->heard_other && wait_ms > REST_MS;
    eventfd_t woken;

    feed->heard_other = true;
    if (poll(fds, rests ? 1 : 2, rests ? REST_MS : wait_ms) <= 0) {
        return false;
    }
    if (fds[0].revents != 0) {
        (void)eventfd_read(feed->stop_fd, &woken);
    }
    return fds[1].revents != 0;
}

bool
wp_redis_feed_listen(struct wp_redis_feed *feed, int wait_ms)
{
    if (!wait_for(feed, wait_ms)) {
        return true;
    }
    if (!wp_redis_sync_take_in(feed->listen)) {
        return false;
    }
    feed->heard_other = false;
    for (;;) {
        struct redisReply *reply = NULL;

        if (!wp_redis_sync_next(feed->listen, &reply)) {
            return false;
        }
        if (reply == NULL) {
            return true;
        }
        wp_redis_feed_on_message(feed, reply);
        freeReplyObject(reply);
    }
}
