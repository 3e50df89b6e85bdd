/* The other replicas: the thread that follows them.
 *
 * It has two connections: one that listens, one that says heartbeats and reads
 * pools. A new connection leads to reading all pools again. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "allocator/stores/redis/feed_impl.h"
#include "allocator/stores/redis/message.h"
#include "allocator/stores/redis/link/sync.h"
#include "pool/base/log.h"

enum {
    CHANNELS = 16,      /* Of one SUBSCRIBE. */
    RECONNECT_MS = 250, /* Pause between attempts to connect. */
    /* Pause after a connection that was lost before it was of any use, and the
     * longest: it doubles. */
    LOST_MS = 20,
    LOST_MAX_MS = 1000,
};

static void
hear(struct wp_redis_feed *feed, const char *run_id)
{
    (void)pthread_mutex_lock(&feed->peers_lock);
    (void)snprintf(feed->heard, sizeof feed->heard, "%s", run_id);
    (void)pthread_mutex_unlock(&feed->peers_lock);
}

static void
hang_up(struct wp_redis_feed *feed)
{
    atomic_store(&feed->listens_since_ns, 0);
    wp_redis_sync_close(feed->listen);
    wp_redis_sync_close(feed->talk);
    feed->listen = NULL;
    feed->talk = NULL;
    hear(feed, "");
}

bool
wp_redis_feed_is_of(struct wp_redis_feed *feed, const char *run_id)
{
    bool is_of;

    (void)pthread_mutex_lock(&feed->peers_lock);
    is_of = feed->heard[0] == '\0' || strcmp(feed->heard, run_id) == 0;
    (void)pthread_mutex_unlock(&feed->peers_lock);
    if (!is_of) {
        atomic_store(&feed->elsewhere, true);
        wp_redis_feed_wake(feed);
    }
    return is_of;
}

static bool
say_heartbeat(struct wp_redis_feed *feed)
{
    const struct wp_lease_redis_config *config = &feed->redis->config;
    struct wp_lease_redis_peer self = {.waiting = atomic_load(&feed->waiting),
                                       .keeper = atomic_load(&feed->keeper),
                                       .leaves = atomic_load(&feed->leaves)};
    char payload[WP_REDIS_HEARTBEAT_MAX];
    struct wp_str words[3] = {WP_STR("PUBLISH"),
                              wp_str_from(feed->peers_channel)};
    struct wp_err err;
    redisReply *reply;

    memcpy(self.replica_id, config->replica_id, sizeof self.replica_id);
    (void)snprintf(self.host, sizeof self.host, "%s", config->host);
    words[2] =
        (struct wp_str){payload, wp_redis_heartbeat_make(&self, payload)};
    reply = wp_redis_sync_call(feed->talk, words, 3, &err);
    if (reply == NULL) {
        return false;
    }
    freeReplyObject(reply);
    return true;
}

/* Sends SUBSCRIBE for the channels of these pools; its answers come among the
 * messages. */
static enum wp_status
ask_for(struct wp_redis_feed *feed, uint32_t first, uint32_t n,
        struct wp_err *err)
{
    char names[CHANNELS][WP_REDIS_KEY_MAX + 8];
    struct wp_str words[1 + CHANNELS] = {WP_STR("SUBSCRIBE")};

    for (uint32_t i = 0; i < n; i++) {
        (void)snprintf(names[i], sizeof names[i], "%s:feed",
                       feed->redis->pools[first + i].key);
        words[1 + i] = wp_str_from(names[i]);
    }
    return wp_redis_sync_send(feed->listen, words, 1 + n, err);
}

static bool
is_message(const struct redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
           reply->element[0]->type == REDIS_REPLY_STRING &&
           strcmp(reply->element[0]->str, "message") == 0;
}

static enum wp_status
subscribe(struct wp_redis_feed *feed, struct wp_err *err)
{
    const struct wp_str peers[] = {WP_STR("SUBSCRIBE"),
                                   wp_str_from(feed->peers_channel)};
    enum wp_status status = wp_redis_sync_send(feed->listen, peers, 2, err);

    for (uint32_t i = 0; i < feed->n_pools && status == WP_OK; i += CHANNELS) {
        uint32_t left = feed->n_pools - i;

        status = ask_for(feed, i, left < CHANNELS ? left : CHANNELS, err);
    }
    /* Pools are read after the first answer only, which may be an error: it is
     * not allowed to. */
    for (uint32_t owed = 1 + feed->n_pools; owed > 0 && status == WP_OK;) {
        struct redisReply *reply =
            wp_redis_sync_receive(feed->listen, "SUBSCRIBE", err);

        if (reply == NULL) {
            return WP_UNAVAILABLE;
        }
        if (reply->type == REDIS_REPLY_ERROR) {
            status = wp_err_set(err, WP_PERMISSION_DENIED,
                                "redis: SUBSCRIBE: %s", reply->str);
        } else if (is_message(reply)) {
            wp_redis_feed_on_message(feed, reply);
        } else {
            owed--;
        }
        freeReplyObject(reply);
    }
    return status;
}

/* Of pools that were added since the start. */
static enum wp_status
learn_fresh(struct wp_redis_feed *feed, struct wp_err *err)
{
    struct wp_lease_redis *redis = feed->redis;
    enum wp_status status = WP_OK;

    for (uint32_t i = 0; i < feed->n_pools && status == WP_OK; i++) {
        struct wp_redis_pool *pool = &redis->pools[i];
        struct wp_redis_sync *context = feed->talk;

        if (!atomic_load(&pool->fresh)) {
            continue;
        }
        if (redis->config.redis.router != NULL) {
            status = wp_redis_pool_open(redis, pool, &context, NULL, err);
        }
        if (status == WP_OK) {
            status = wp_redis_pool_learn(redis, pool, context, err);
            if (context != feed->talk) {
                wp_redis_sync_close(context);
            }
        }
        if (status == WP_OK) {
            atomic_store(&pool->fresh, false);
        }
    }
    return status;
}

static enum wp_status
call_up(struct wp_redis_feed *feed, struct wp_err *err)
{
    struct wp_lease_redis *redis = feed->redis;
    struct wp_redis_place place;
    enum wp_status status =
        wp_redis_pool_open(redis, &redis->pools[0], &feed->listen, &place, err);

    feed->n_pools = wp_redis_pools_len(redis);
    if (status != WP_OK) {
        feed->listen = NULL;
        return status;
    }
    hear(feed, place.run_id);
    status =
        wp_redis_pool_open(redis, &redis->pools[0], &feed->talk, NULL, err);
    if (status != WP_OK) {
        feed->talk = NULL;
        return status;
    }
    status = subscribe(feed, err);
    if (status == WP_OK) {
        status = learn_fresh(feed, err);
    }
    for (uint32_t i = 0; i < feed->n_pools && status == WP_OK; i++) {
        feed->pools[i].wanted = true;
        if (feed->pools[i].again_ms == 0) {
            feed->pools[i].read_at_ns = 0;
        }
    }
    feed->heartbeat_at_ns = 0;
    if (status == WP_OK) {
        atomic_store(&feed->listens_since_ns, wp_redis_feed_now_ns());
    }
    /* Nobody could be heard: their silence begins to count now. */
    feed->heard_self_ns = wp_redis_feed_now_ns();
    feed->called_ns = feed->heard_self_ns;
    (void)pthread_mutex_lock(&feed->peers_lock);
    for (uint32_t i = 0; i < feed->n_peers; i++) {
        feed->peers[i].heard_ns = wp_redis_feed_now_ns();
        feed->peers[i].met = false;
    }
    (void)pthread_mutex_unlock(&feed->peers_lock);
    return status;
}

/* It is to call anew: of new pools it hears then, too. */
static bool
is_outdated(struct wp_redis_feed *feed)
{
    return atomic_exchange(&feed->elsewhere, false) ||
           wp_redis_pools_len(feed->redis) != feed->n_pools;
}

/* One turn with connections up; false: they are lost. */
static bool
follow(struct wp_redis_feed *feed)
{
    const struct wp_lease_redis_config *config = &feed->redis->config;
    int64_t wait_ns;

    if (atomic_exchange(&feed->says_now, false) ||
        wp_redis_feed_now_ns() >= feed->heartbeat_at_ns) {
        feed->heartbeat_at_ns = wp_redis_feed_now_ns() + config->heartbeat_ns;
        if (!say_heartbeat(feed)) {
            return false;
        }
    }
    if (!wp_redis_feed_read_wanted(feed)) {
        return false;
    }
    wp_redis_feed_drop_silent(feed);
    if (feed->heard_self_ns > feed->called_ns) {
        feed->pause_ms = 0;
    }
    if (wp_redis_feed_now_ns() - feed->heard_self_ns >
        config->peer_gone_ns + config->heartbeat_ns) {
        return false; /* The one that listens has gone deaf. */
    }
    wait_ns = feed->heartbeat_at_ns - wp_redis_feed_now_ns();
    for (uint32_t i = 0; i < feed->n_pools; i++) {
        if (feed->pools[i].wanted &&
            wait_ns > feed->pools[i].read_at_ns - wp_redis_feed_now_ns()) {
            wait_ns = feed->pools[i].read_at_ns - wp_redis_feed_now_ns();
        }
    }
    return wp_redis_feed_listen(
        feed, wait_ns > 0 ? (int)(wait_ns / WP_NS_PER_MS) + 1 : 0);
}

static void *
feed_run(void *arg)
{
    struct wp_redis_feed *feed = arg;
    struct pollfd stop = {.fd = feed->stop_fd, .events = POLLIN};
    eventfd_t woken;

    while (!atomic_load(&feed->stop)) {
        struct wp_err err;

        if (feed->listen != NULL && !is_outdated(feed)) {
            if (follow(feed)) {
                continue;
            }
            hang_up(feed);
            (void)poll(&stop, 1, (int)feed->pause_ms);
            feed->pause_ms = feed->pause_ms == 0 ? LOST_MS
                             : feed->pause_ms * 2 < LOST_MAX_MS
                                 ? feed->pause_ms * 2
                                 : LOST_MAX_MS;
        }
        hang_up(feed);
        /* What woke it is looked at now; an end is said otherwise as well. */
        (void)eventfd_read(feed->stop_fd, &woken);
        atomic_store(&feed->elsewhere, false);
        if (call_up(feed, &err) == WP_OK) {
            if (feed->logged) {
                wp_log_info("the feed of the other replicas is back");
            }
            feed->logged = false;
            continue;
        }
        hang_up(feed);
        if (!feed->logged) {
            feed->logged = true;
            wp_log_warn("the other replicas cannot be heard", wp_kv_err(&err));
        }
        (void)poll(&stop, 1, RECONNECT_MS);
    }
    if (feed->talk != NULL && atomic_load(&feed->says_now)) {
        (void)say_heartbeat(feed);
    }
    hang_up(feed);
    return NULL;
}

enum wp_status
wp_lease_redis_follow(struct wp_lease_redis *redis, struct wp_err *err)
{
    struct wp_redis_feed *feed;
    int rc;

    if (!redis->config.replicas) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "this store has no other replicas");
    }
    if (redis->feed != NULL) {
        return wp_err_set(err, WP_FAILED_PRECONDITION, "followed already");
    }
    feed = calloc(1, sizeof *feed);
    if (feed == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for the feed");
    }
    feed->redis = redis;
    (void)pthread_mutex_init(&feed->peers_lock, NULL);
    (void)snprintf(feed->peers_channel, sizeof feed->peers_channel, "%s:peers",
                   redis->config.prefix);
    feed->pools = calloc(redis->pools_max, sizeof feed->pools[0]);
    feed->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = feed->pools == NULL || feed->stop_fd < 0
             ? errno
             : pthread_create(&feed->thread, NULL, feed_run, feed);
    if (rc != 0) {
        (void)pthread_mutex_destroy(&feed->peers_lock);
        if (feed->stop_fd >= 0) {
            (void)close(feed->stop_fd);
        }
        free(feed->pools);
        free(feed);
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, rc,
                          "the thread of the feed");
    }
    (void)pthread_setname_np(feed->thread, "redis-feed");
    redis->feed = feed;
    return WP_OK;
}

void
wp_redis_feed_wake(struct wp_redis_feed *feed)
{
    (void)eventfd_write(feed->stop_fd, 1);
}

void
wp_lease_redis_read_again(struct wp_lease_redis *redis,
                          const struct wp_lease_redis_pool *name)
{
    struct wp_redis_pool *pool = wp_redis_pool_find(
        redis, wp_str_from(name->pool_namespace), wp_str_from(name->pool));

    if (pool != NULL && redis->feed != NULL) {
        atomic_store(&pool->again, true);
        wp_redis_feed_wake(redis->feed);
    }
}

void
wp_redis_feed_destroy(struct wp_redis_feed *feed)
{
    if (feed == NULL) {
        return;
    }
    atomic_store(&feed->stop, true);
    wp_redis_feed_wake(feed);
    (void)pthread_join(feed->thread, NULL);
    (void)pthread_mutex_destroy(&feed->peers_lock);
    (void)close(feed->stop_fd);
    free(feed->pools);
    free(feed);
}

/* Those that stay, since others are not counted either. */
static bool
has_met_all(struct wp_redis_feed *feed)
{
    const struct wp_lease_redis_config *config = &feed->redis->config;
    uint32_t met = 0;

    if (config->others == NULL) {
        return false;
    }
    (void)pthread_mutex_lock(&feed->peers_lock);
    for (uint32_t i = 0; i < feed->n_peers; i++) {
        met += feed->peers[i].met && !feed->peers[i].peer.leaves ? 1 : 0;
    }
    (void)pthread_mutex_unlock(&feed->peers_lock);
    return met >= config->others(config->others_ctx);
}

bool
wp_redis_feed_has_heard(struct wp_redis_feed *feed)
{
    int64_t since_ns = atomic_load(&feed->listens_since_ns);

    return since_ns != 0 && (wp_redis_feed_now_ns() - since_ns >=
                                 2 * feed->redis->config.heartbeat_ns ||
                             has_met_all(feed));
}

void
wp_lease_redis_set_state(struct wp_lease_redis *redis, uint32_t waiting,
                         bool keeper)
{
    if (redis->feed != NULL) {
        atomic_store(&redis->feed->waiting, waiting);
        atomic_store(&redis->feed->keeper, keeper);
    }
}

void
wp_lease_redis_leave(struct wp_lease_redis *redis)
{
    if (redis->feed != NULL) {
        atomic_store(&redis->feed->leaves, true);
        atomic_store(&redis->feed->says_now, true);
        wp_redis_feed_wake(redis->feed);
    }
}

uint32_t
wp_lease_redis_peers(struct wp_lease_redis *redis,
                     struct wp_lease_redis_peer *peers, uint32_t max)
{
    struct wp_redis_feed *feed = redis->feed;
    uint32_t n = 0;

    if (feed == NULL) {
        return 0;
    }
    (void)pthread_mutex_lock(&feed->peers_lock);
    n = feed->n_peers;
    for (uint32_t i = 0; i < n && i < max; i++) {
        peers[i] = feed->peers[i].peer;
    }
    (void)pthread_mutex_unlock(&feed->peers_lock);
    return n;
}
