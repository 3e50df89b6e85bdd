#include "tests/support/stores/redis_follower.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static bool
on_record(void *ctx, const struct wp_lease_record *record)
{
    struct redis_follower *follower = ctx;
    bool taken = true;

    (void)pthread_mutex_lock(&follower->lock);
    if (follower->refuse > 0) {
        follower->refuse--;
        taken = false;
    } else {
        uint8_t uid = record->uid[0];

        follower->n_heard++;
        follower->copy[uid] = *record;
        follower->seen[uid] = true;
    }
    (void)pthread_mutex_unlock(&follower->lock);
    return taken;
}

static bool
on_sync(void *ctx, const struct wp_lease_redis_pool *pool, bool begin)
{
    struct redis_follower *follower = ctx;

    if (strcmp(pool->pool, redis_world_pools[0].pool) != 0) {
        return true;
    }
    (void)pthread_mutex_lock(&follower->lock);
    for (int i = 0; i < REDIS_FOLLOWER_UIDS; i++) {
        if (begin) {
            follower->seen[i] = false;
        } else if (!follower->seen[i]) {
            follower->n_let_go +=
                follower->copy[i].state != WP_RECORD_NONE ? 1 : 0;
            memset(&follower->copy[i], 0, sizeof follower->copy[i]);
        }
    }
    follower->n_syncs += begin ? 0 : 1;
    (void)pthread_mutex_unlock(&follower->lock);
    return true;
}

static void
on_peer(void *ctx, const struct wp_lease_redis_peer *peer, bool gone)
{
    struct redis_follower *follower = ctx;

    (void)pthread_mutex_lock(&follower->lock);
    follower->peer = *peer;
    follower->peers_heard += gone ? 0 : 1;
    follower->peers_gone += gone ? 1 : 0;
    (void)pthread_mutex_unlock(&follower->lock);
}

uint32_t
redis_follower_count(struct redis_follower *follower, const uint32_t *count)
{
    uint32_t value;

    (void)pthread_mutex_lock(&follower->lock);
    value = *count;
    (void)pthread_mutex_unlock(&follower->lock);
    return value;
}

static void
pass_over(void *ctx, const struct wp_lease_record *record)
{
    (void)ctx;
    (void)record;
}

/* For those that start from now on: it is known how many others there are. */
bool redis_followers_known;
uint32_t redis_followers_others;

static uint32_t
count_others(void *ctx)
{
    (void)ctx;
    return redis_followers_others;
}

void
redis_follower_start_with(struct redis_follower *follower,
                          struct redis_world *world, uint8_t id,
                          const struct wp_lease_redis_pool *only)
{
    struct wp_lease_redis_config config = redis_world_config_of(world);
    struct wp_lease_redis_stats stats;
    struct wp_err err;

    memset(follower, 0, sizeof *follower);
    follower->world = world;
    (void)pthread_mutex_init(&follower->lock, NULL);
    config.redis.db = id == REDIS_FOLLOWER_ELSEWHERE ? 5 : 0;
    config.replicas = true;
    config.replica_id[0] = id;
    config.host = "host.example";
    config.heartbeat_ns = 50 * WP_NS_PER_MS;
    config.peer_gone_ns = 3 * WP_NS_PER_S;
    config.sink = (struct wp_lease_redis_sink){.ctx = follower,
                                               .on_record = on_record,
                                               .on_sync = on_sync,
                                               .on_peer = on_peer};
    if (redis_followers_known) {
        /* Nobody is heard by waiting for a while. */
        config.heartbeat_ns = 600 * WP_NS_PER_S;
        config.peer_gone_ns = 1800 * WP_NS_PER_S;
        config.others = count_others;
    }
    if (only != NULL) {
        config.pools = only;
        config.n_pools = 1;
        config.grows = true;
    }
    if (wp_lease_redis_create(&config, &follower->redis, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
    follower->store = wp_lease_redis_store(follower->redis);
    if (follower->store.ops->load(follower->store.self, pass_over, NULL,
                                  &err) != WP_OK ||
        wp_lease_redis_follow(follower->redis, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
    do {
        (void)usleep(1000);
        wp_lease_redis_read_stats(follower->redis, &stats);
    } while (stats.redis.links_up < stats.redis.links);
}

void
redis_follower_start(struct redis_follower *follower, struct redis_world *world,
                     uint8_t id)
{
    redis_follower_start_with(follower, world, id, NULL);
    WAIT_UNTIL(redis_follower_count(follower, &follower->n_syncs) > 0);
}

void
redis_follower_stop(struct redis_follower *follower)
{
    wp_lease_redis_destroy(follower->redis);
    (void)pthread_mutex_destroy(&follower->lock);
}

enum wp_status
redis_follower_commit(const struct redis_follower *follower,
                      enum wp_lease_op_kind kind, uint8_t uid, uint64_t fence)
{
    struct wp_lease_op op = redis_world_op_of(kind, uid, fence);
    char claim[8];

    (void)snprintf(claim, sizeof claim, "c%u", uid);
    op.claim_id = wp_str_from(claim);
    return redis_world_commit(&follower->store, &op);
}

bool
redis_follower_knows(struct redis_follower *follower, uint8_t uid,
                     enum wp_record_state state, uint64_t fence)
{
    bool is;

    (void)pthread_mutex_lock(&follower->lock);
    is = follower->copy[uid].state == state &&
         follower->copy[uid].fence == fence;
    (void)pthread_mutex_unlock(&follower->lock);
    return is;
}

void
redis_follower_server(struct redis_world *world)
{
    memset(world, 0, sizeof *world);
    redis_world_start_server(world, NULL, NULL);
}
