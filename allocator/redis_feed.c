/* The other replicas: what they change, and that they are alive.
 *
 * One thread with two connections: one that listens, one that says heartbeats
 * and reads pools. Changes of a pool are numbered by Redis; a number that is
 * not the next one, a new connection, or a receiver that is full leads to
 * reading the pool again. Changes that come while a pool is being read are
 * passed on between its pages: the receiver puts them in order by fence and
 * state, and whatever was forgotten is said to be after it was read. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "allocator/lease_redis_impl.h"
#include "allocator/redis_message.h"
#include "allocator/redis_sync.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"

enum {
    /* A receiver that was full is asked again after this, and then after twice
     * as long each time. */
    AGAIN_MS = 20,
    AGAIN_MAX_MS = 1000,
    DOUBT_MS = 50,      /* Between looks whether a pool is trusted again. */
    RECONNECT_MS = 250, /* Pause between attempts to connect. */
    /* After hearing nothing but itself: a waking for each of its own commits
     * takes a core from the claim that waits for the same commit's answer. */
    REST_MS = 2,
    SUBSCRIBE_AT_ONCE = 64,
};

struct feed_pool {
    uint64_t expect; /* Number of the next change; 0: the first to come. */
    uint64_t base;   /* Number of the last change before it was read. */
    bool wanted;     /* To be read (again). */
};

struct feed_peer {
    struct wp_lease_redis_peer peer;
    int64_t heard_ns;
};

struct wp_redis_feed {
    struct wp_lease_redis *redis;
    pthread_t thread;
    int stop_fd;
    _Atomic(bool) stop;
    _Atomic(uint32_t) waiting;
    _Atomic(bool) keeper;
    _Atomic(bool) leaves;
    _Atomic(bool) says_now;            /* A heartbeat, out of turn. */
    _Atomic(int64_t) listens_since_ns; /* 0: it does not. */

    /* The feed's thread. */
    struct redisContext *listen;
    struct redisContext *talk;
    struct feed_pool *pools;   /* redis->pools_max. */
    uint32_t n_pools;          /* That it has called for. */
    struct feed_pool *reading; /* Between its marks; NULL: none. */
    char peers_channel[WP_REDIS_PREFIX_MAX + 8];
    int64_t read_at_ns; /* Not before: pools that are wanted. */
    int64_t again_ms;
    int64_t heartbeat_at_ns; /* The next one. */
    int64_t heard_self_ns;
    bool heard_other; /* In what was taken last; else it rests. */
    bool told;

    pthread_mutex_t peers_lock; /* Guards these; written by the thread only. */
    struct feed_peer peers[WP_PEERS_MAX];
    uint32_t n_peers;
};

static int64_t
now(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

static const struct wp_lease_redis_sink *
sink_of(const struct wp_redis_feed *feed)
{
    return &feed->redis->config.sink;
}

static void
hang_up(struct wp_redis_feed *feed)
{
    atomic_store(&feed->listens_since_ns, 0);
    wp_redis_sync_close(feed->listen);
    wp_redis_sync_close(feed->talk);
    feed->listen = NULL;
    feed->talk = NULL;
}

static void
want(struct wp_redis_feed *feed, struct feed_pool *pool)
{
    int64_t at_ns = now() + feed->again_ms * WP_NS_PER_MS;

    pool->wanted = true;
    if (feed->read_at_ns < at_ns) {
        feed->read_at_ns = at_ns;
    }
}

/* --- changes --- */

/* The change is passed on even when others are missing before it. */
static void
count_change(struct wp_redis_feed *feed, struct feed_pool *pool, uint64_t n)
{
    bool next = pool->expect == 0 ? n <= pool->base + 1 : n == pool->expect;

    if (!next && !pool->wanted) {
        WP_REDIS_COUNT(feed->redis->gaps);
        want(feed, pool);
    }
    pool->expect = n + 1;
}

/* All changes of a message are of one pool, which their records name. False: a
 * record cannot be read; its number will be missed. */
static bool
on_change(struct wp_redis_feed *feed, const struct wp_redis_change *change,
          bool own, struct feed_pool **pool)
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
    if (sink_of(feed)->on_record != NULL &&
        !sink_of(feed)->on_record(sink_of(feed)->ctx, &record)) {
        want(feed, *pool);
    }
    return true;
}

static void
on_changes(struct wp_redis_feed *feed, struct wp_str payload)
{
    struct feed_pool *pool = NULL;
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
    if (sink_of(feed)->on_peer != NULL) {
        sink_of(feed)->on_peer(sink_of(feed)->ctx, peer, gone);
    }
}

/* True when this is news. */
static bool
note_peer(struct wp_redis_feed *feed, const struct wp_lease_redis_peer *peer)
{
    struct feed_peer *known = NULL;
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
    }
    if (known != NULL) {
        known->peer = *peer;
        known->heard_ns = now();
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
        feed->heard_self_ns = now();
        return;
    }
    feed->heard_other = true;
    if (note_peer(feed, &peer)) {
        tell_peer(feed, &peer, false);
    }
}

static void
drop_silent_peers(struct wp_redis_feed *feed)
{
    int64_t limit_ns = now() - feed->redis->config.peer_gone_ns;

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

/* --- listening --- */

static void
on_message(struct wp_redis_feed *feed, const redisReply *reply)
{
    struct wp_str channel;
    struct wp_str payload;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
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
    struct pollfd fds[2] = {{.fd = feed->stop_fd, .events = POLLIN},
                            {.fd = feed->listen->fd, .events = POLLIN}};
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

/* Takes what has come, waiting at most wait_ms for it; false: the connection is
 * lost. */
static bool
listen_for(struct wp_redis_feed *feed, int wait_ms)
{
    if (!wait_for(feed, wait_ms)) {
        return true;
    }
    if (redisBufferRead(feed->listen) != REDIS_OK) {
        return false;
    }
    feed->heard_other = false;
    for (;;) {
        void *reply = NULL;

        if (redisGetReplyFromReader(feed->listen, &reply) != REDIS_OK) {
            return false;
        }
        if (reply == NULL) {
            return true;
        }
        on_message(feed, reply);
        freeReplyObject(reply);
    }
}

/* --- reading pools --- */

static bool
read_each(void *ctx, const struct wp_lease_record *record)
{
    const struct wp_redis_feed *feed = ctx;

    return sink_of(feed)->on_record == NULL ||
           sink_of(feed)->on_record(sink_of(feed)->ctx, record);
}

static bool
read_page_done(void *ctx)
{
    struct wp_redis_feed *feed = ctx;

    return listen_for(feed, 0) && !atomic_load(&feed->stop) &&
           !feed->reading->wanted;
}

static bool
mark(const struct wp_redis_feed *feed, const struct wp_redis_pool *pool,
     bool begin)
{
    return sink_of(feed)->on_sync == NULL ||
           sink_of(feed)->on_sync(sink_of(feed)->ctx, &pool->name, begin);
}

/* False: the connection is lost. Only what was read of one generation, which is
 * trusted still, says what there is not. */
static bool
read_pool(struct wp_redis_feed *feed, uint32_t number)
{
    struct wp_redis_pool *name = &feed->redis->pools[number];
    struct feed_pool *pool = &feed->pools[number];
    const struct wp_redis_scan scan = {.ctx = feed,
                                       .each = read_each,
                                       .page = read_page_done,
                                       .number = &pool->base};
    struct redisContext *context = feed->talk;
    uint64_t generation = atomic_load(&name->generation);
    enum wp_status status = WP_CANCELLED;
    struct wp_err err;

    if (feed->redis->config.redis.router != NULL &&
        wp_redis_pool_open(feed->redis, name, &context, &err) != WP_OK) {
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
        feed->again_ms = AGAIN_MS;
        return true;
    }
    feed->again_ms =
        feed->again_ms * 2 < AGAIN_MAX_MS ? feed->again_ms * 2 : AGAIN_MAX_MS;
    want(feed, pool);
    return status == WP_OK || status == WP_CANCELLED;
}

static bool
read_wanted(struct wp_redis_feed *feed)
{
    bool doubt = false;

    for (uint32_t i = 0; i < feed->n_pools; i++) {
        if (atomic_exchange(&feed->redis->pools[i].again, false)) {
            feed->pools[i].wanted = true;
        }
        if (!feed->pools[i].wanted || now() < feed->read_at_ns) {
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
    if (doubt && feed->read_at_ns <= now()) {
        feed->read_at_ns = now() + DOUBT_MS * WP_NS_PER_MS;
    }
    return true;
}

/* --- the thread --- */

static enum wp_status
subscribe(struct wp_redis_feed *feed, struct wp_err *err)
{
    struct wp_lease_redis *redis = feed->redis;

    /* Its answers come among the messages. */
    if (redisAppendCommand(feed->listen, "SUBSCRIBE %s", feed->peers_channel) !=
        REDIS_OK) {
        return wp_err_set(err, WP_UNAVAILABLE, "redis: SUBSCRIBE");
    }
    for (uint32_t i = 0; i < feed->n_pools; i++) {
        const struct wp_redis_pool *pool = &redis->pools[i];

        if (redisAppendCommand(feed->listen, "SUBSCRIBE %b:feed", pool->key,
                               pool->key_len) != REDIS_OK) {
            return wp_err_set(err, WP_UNAVAILABLE, "redis: SUBSCRIBE");
        }
    }
    for (int done = 0; done == 0;) {
        if (redisBufferWrite(feed->listen, &done) != REDIS_OK) {
            return wp_err_set(err, WP_UNAVAILABLE, "redis: SUBSCRIBE: %s",
                              feed->listen->errstr);
        }
    }
    /* Pools are read after the first answer only, which may be an error: it is
     * not allowed to. */
    for (uint32_t i = 0; i <= feed->n_pools; i++) {
        void *reply = NULL;
        bool ok;

        if (redisGetReply(feed->listen, &reply) != REDIS_OK) {
            return wp_err_set(err, WP_UNAVAILABLE, "redis: SUBSCRIBE: %s",
                              feed->listen->errstr);
        }
        ok = ((redisReply *)reply)->type != REDIS_REPLY_ERROR;
        if (!ok) {
            (void)wp_err_set(err, WP_PERMISSION_DENIED, "redis: SUBSCRIBE: %s",
                             ((redisReply *)reply)->str);
        } else if (((redisReply *)reply)->type == REDIS_REPLY_ARRAY &&
                   ((redisReply *)reply)->elements == 3 &&
                   strcmp(((redisReply *)reply)->element[0]->str, "message") ==
                       0) {
            on_message(feed, reply);
            i--; /* Not an answer. */
        }
        freeReplyObject(reply);
        if (!ok) {
            return WP_PERMISSION_DENIED;
        }
    }
    return WP_OK;
}

/* Of pools that were added since the start. */
static enum wp_status
learn_fresh(struct wp_redis_feed *feed, struct wp_err *err)
{
    struct wp_lease_redis *redis = feed->redis;
    enum wp_status status = WP_OK;

    for (uint32_t i = 0; i < feed->n_pools && status == WP_OK; i++) {
        struct wp_redis_pool *pool = &redis->pools[i];
        struct redisContext *context = feed->talk;

        if (!atomic_load(&pool->fresh)) {
            continue;
        }
        if (redis->config.redis.router != NULL) {
            status = wp_redis_pool_open(redis, pool, &context, err);
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
    enum wp_status status =
        wp_redis_pool_open(redis, &redis->pools[0], &feed->listen, err);

    feed->n_pools = wp_redis_pools_len(redis);
    if (status != WP_OK) {
        feed->listen = NULL;
        return status;
    }
    status = wp_redis_pool_open(redis, &redis->pools[0], &feed->talk, err);
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
    }
    feed->read_at_ns = 0;
    feed->heartbeat_at_ns = 0;
    if (status == WP_OK) {
        atomic_store(&feed->listens_since_ns, now());
    }
    /* Nobody could be heard: their silence begins to count now. */
    feed->heard_self_ns = now();
    (void)pthread_mutex_lock(&feed->peers_lock);
    for (uint32_t i = 0; i < feed->n_peers; i++) {
        feed->peers[i].heard_ns = now();
    }
    (void)pthread_mutex_unlock(&feed->peers_lock);
    return status;
}

/* One turn with connections up; false: they are lost. */
static bool
follow(struct wp_redis_feed *feed)
{
    const struct wp_lease_redis_config *config = &feed->redis->config;
    int64_t wait_ns;

    if (wp_redis_pools_len(feed->redis) != feed->n_pools) {
        return false; /* Called anew, it hears of the new ones, too. */
    }
    if (atomic_exchange(&feed->says_now, false) ||
        now() >= feed->heartbeat_at_ns) {
        feed->heartbeat_at_ns = now() + config->heartbeat_ns;
        if (!say_heartbeat(feed)) {
            return false;
        }
    }
    if (!read_wanted(feed)) {
        return false;
    }
    drop_silent_peers(feed);
    if (now() - feed->heard_self_ns >
        config->peer_gone_ns + config->heartbeat_ns) {
        return false; /* The one that listens has gone deaf. */
    }
    wait_ns = feed->heartbeat_at_ns - now();
    for (uint32_t i = 0; i < feed->n_pools; i++) {
        if (feed->pools[i].wanted && wait_ns > feed->read_at_ns - now()) {
            wait_ns = feed->read_at_ns - now();
        }
    }
    return listen_for(feed,
                      wait_ns > 0 ? (int)(wait_ns / WP_NS_PER_MS) + 1 : 0);
}

static void *
feed_run(void *arg)
{
    struct wp_redis_feed *feed = arg;
    struct pollfd stop = {.fd = feed->stop_fd, .events = POLLIN};
    eventfd_t woken;

    while (!atomic_load(&feed->stop)) {
        struct wp_err err;

        if (feed->listen != NULL && follow(feed)) {
            continue;
        }
        hang_up(feed);
        /* What woke it is looked at now; an end is said otherwise as well. */
        (void)eventfd_read(feed->stop_fd, &woken);
        if (call_up(feed, &err) == WP_OK) {
            if (feed->told) {
                wp_log_info("the feed of the other replicas is back");
            }
            feed->told = false;
            continue;
        }
        hang_up(feed);
        if (!feed->told) {
            feed->told = true;
            wp_log_warn("the other replicas cannot be heard", wp_kv_err(&err));
        }
        (void)poll(&stop, 1, RECONNECT_MS);
    }
    if (feed->talk != NULL && atomic_exchange(&feed->says_now, false)) {
        (void)say_heartbeat(feed);
    }
    hang_up(feed);
    return NULL;
}

enum wp_status
wp_lease_redis_follow(struct wp_lease_redis *redis, struct wp_err *err)
{
    struct wp_redis_feed *feed;

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
    feed->again_ms = AGAIN_MS;
    feed->pools = calloc(redis->pools_max, sizeof feed->pools[0]);
    feed->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&feed->peers_lock, NULL);
    (void)snprintf(feed->peers_channel, sizeof feed->peers_channel, "%s:peers",
                   redis->config.prefix);
    if (feed->pools == NULL || feed->stop_fd < 0 ||
        pthread_create(&feed->thread, NULL, feed_run, feed) != 0) {
        (void)pthread_mutex_destroy(&feed->peers_lock);
        if (feed->stop_fd >= 0) {
            (void)close(feed->stop_fd);
        }
        free(feed->pools);
        free(feed);
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno,
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

bool
wp_redis_feed_has_heard(const struct wp_redis_feed *feed)
{
    int64_t since_ns = atomic_load(&feed->listens_since_ns);

    return since_ns != 0 &&
           now() - since_ns >= 2 * feed->redis->config.heartbeat_ns;
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
