#include "tests/support/stores/redis_world.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/assert.h"

const struct wp_lease_redis_pool redis_world_pools[] = {{"default", "agents"},
                                                        {"default", "others"}};

struct waited {
    struct wp_lease_op op;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
    enum wp_status status;
};

static void
on_done(struct wp_lease_op *op, enum wp_status status)
{
    struct waited *w = WP_CONTAINER_OF(op, struct waited, op);

    (void)pthread_mutex_lock(&w->lock);
    w->done = true;
    w->status = status;
    (void)pthread_cond_signal(&w->cond);
    (void)pthread_mutex_unlock(&w->lock);
}

enum wp_status
redis_world_commit(const struct wp_lease_store *store,
                   const struct wp_lease_op *op)
{
    struct waited w = {.op = *op, .status = WP_PENDING};
    enum wp_status status;
    struct timespec until;

    (void)pthread_mutex_init(&w.lock, NULL);
    (void)pthread_cond_init(&w.cond, NULL);
    w.op.done = on_done;
    status = store->ops->commit(store->self, &w.op);
    if (status == WP_PENDING) {
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += REDIS_WORLD_WAIT_S;
        (void)pthread_mutex_lock(&w.lock);
        while (!w.done) {
            WP_ASSERT(pthread_cond_timedwait(&w.cond, &w.lock, &until) == 0);
        }
        status = w.status;
        (void)pthread_mutex_unlock(&w.lock);
    }
    (void)pthread_mutex_destroy(&w.lock);
    (void)pthread_cond_destroy(&w.cond);
    return status;
}

static void
on_doubt(void *ctx, const struct wp_lease_redis_pool *pool)
{
    struct redis_world *world = ctx;

    (void)pool;
    (void)atomic_fetch_add(&world->doubts, 1);
}

static void
count_loaded(void *ctx, const struct wp_lease_record *record)
{
    struct redis_world *world = ctx;

    (void)record;
    world->loaded++;
}

struct wp_lease_redis_config
redis_world_config_of(struct redis_world *world)
{
    struct wp_lease_redis_config config = {
        .pools = redis_world_pools,
        .n_pools = REDIS_WORLD_POOLS,
        .threads = 2,
        .sink = {.ctx = world, .on_doubt = on_doubt},
    };

    (void)snprintf(config.redis.server.path, sizeof config.redis.server.path,
                   "%s", world->rig.servers[0].socket);
    config.redis.password = world->rig.password;
    config.redis.backoff_max_ns = 100 * WP_NS_PER_MS;
    return config;
}

struct wp_lease_redis_stats
redis_world_stats_of(const struct redis_world *world)
{
    struct wp_lease_redis_stats stats;

    wp_lease_redis_read_stats(world->redis, &stats);
    return stats;
}

void
redis_world_wait_until_up(const struct redis_world *world)
{
    WAIT_UNTIL(redis_world_stats_of(world).redis.links_up ==
               redis_world_stats_of(world).redis.links);
}

/* False: no answer in time, which tests may set shorter than a busy machine
 * takes. */
static bool
try_open(struct redis_world *world, const struct wp_lease_redis_config *config)
{
    struct wp_err err;
    enum wp_status status = wp_lease_redis_create(config, &world->redis, &err);

    if (status == WP_OK) {
        world->store = wp_lease_redis_store(world->redis);
        world->loaded = 0;
        status =
            world->store.ops->load(world->redis, count_loaded, world, &err);
        if (status != WP_OK) {
            wp_lease_redis_destroy(world->redis);
        }
    }
    if (status != WP_OK && status != WP_UNAVAILABLE) {
        fail_msg("%s", err.msg);
    }
    return status == WP_OK;
}

void
redis_world_open_store(struct redis_world *world,
                       const struct wp_lease_redis_config *config)
{
    WAIT_UNTIL(try_open(world, config));
    redis_world_wait_until_up(world);
}

void
redis_world_start_server(struct redis_world *world, const char *conf,
                         const char *password)
{
    (void)signal(SIGPIPE, SIG_IGN); /* As the daemon does. */
    redis_rig_init(&world->rig);
    world->rig.password = password;
    assert_int_equal(redis_rig_start(&world->rig, conf), 0);
}

void
redis_world_start(struct redis_world *world, const char *conf)
{
    struct wp_lease_redis_config config;

    memset(world, 0, sizeof *world);
    redis_world_start_server(world, conf, NULL);
    config = redis_world_config_of(world);
    redis_world_open_store(world, &config);
}

void
redis_world_stop(struct redis_world *world)
{
    wp_lease_redis_destroy(world->redis);
    redis_rig_fini(&world->rig);
}

/* --- ops --- */

struct wp_lease_op
redis_world_op_of(enum wp_lease_op_kind kind, uint8_t uid, uint64_t fence)
{
    struct wp_lease_op op = {
        .kind = kind,
        .fence = fence,
        .deadline_wall_ms = 1000000 + (int64_t)fence,
        .granted_wall_ms = 77,
        .served = 1,
        .fingerprint = UINT64_C(0xFEDCBA9876543210),
        .pool_namespace = WP_STR("default"),
        .pool = WP_STR("agents"),
        .sandbox = WP_STR("agents-abcdefgh"),
        .endpoint = WP_STR("unix:/run/sandbox/abcdefgh"),
        .tenant = WP_STR("tenant"),
        .claim_id = WP_STR("claim"),
        .reason = WP_STR("its process died"),
    };

    memset(op.uid, uid, sizeof op.uid);
    return op;
}

enum wp_status
redis_world_do_op(const struct redis_world *world, enum wp_lease_op_kind kind,
                  uint8_t uid, uint64_t fence)
{
    const struct wp_lease_op op = redis_world_op_of(kind, uid, fence);

    return redis_world_commit(&world->store, &op);
}

enum wp_status
redis_world_fetch(const struct redis_world *world, uint8_t uid,
                  struct wp_lease_record *found)
{
    struct wp_lease_op op = redis_world_op_of(WP_LEASE_FETCH, uid, 0);

    op.claim_id = WP_STR("");
    op.found = found;
    return redis_world_commit(&world->store, &op);
}

enum wp_record_state
redis_world_state_of(const struct redis_world *world, uint8_t uid)
{
    struct wp_lease_record record;
    enum wp_status status = redis_world_fetch(world, uid, &record);

    if (status == WP_NOT_FOUND) {
        return WP_RECORD_NONE;
    }
    assert_int_equal(status, WP_OK);
    return record.state;
}
