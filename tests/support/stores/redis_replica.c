#include "tests/support/stores/redis_replica.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void
redis_replica_open(struct redis_replica *r, const char *text)
{
    struct wp_redis_topology_config follow = {.poll_ns = 100 * WP_NS_PER_MS};
    struct wp_lease_redis_config config;
    struct wp_redis_url url;
    struct wp_err err = {.msg = ""};

    follow.tls = &r->world.rig.trust;
    if (strstr(text, "rediss") != text) {
        follow.tls = NULL;
    }
    if (wp_redis_url_parse(wp_str_from(text), &url, &err) != WP_OK ||
        wp_redis_topology_create(&url, &follow, &r->topology, &err) != WP_OK) {
        fail_msg("%s: %s", text, err.msg);
    }
    config = redis_world_config_of(&r->world);
    memset(&config.redis.server, 0, sizeof config.redis.server);
    config.redis.tls = follow.tls;
    /* No server stands still here, however busy the machine is. */
    config.redis.commit_timeout_ns = 20 * WP_NS_PER_S;
    config.redis.router = wp_redis_topology_router(r->topology);
    config.redis.cluster = url.kind == WP_REDIS_CLUSTER;
    redis_world_open_store(&r->world, &config);
}

void
redis_replica_stop(struct redis_replica *r)
{
    redis_world_stop(&r->world);
    wp_redis_topology_destroy(r->topology);
}

static struct wp_lease_op
op_of(uint32_t pool, enum wp_lease_op_kind kind, uint8_t uid, uint64_t fence,
      char claim[16])
{
    struct wp_lease_op op = redis_world_op_of(kind, uid, fence);

    (void)snprintf(claim, 16, "claim-%u", uid);
    op.claim_id = wp_str_from(claim);
    op.pool = wp_str_from(redis_world_pools[pool].pool);
    return op;
}

enum wp_status
redis_replica_commit(struct redis_replica *r, uint32_t pool,
                     enum wp_lease_op_kind kind, uint8_t uid, uint64_t fence)
{
    char claim[16];
    struct wp_lease_op op = op_of(pool, kind, uid, fence, claim);

    return redis_world_commit(&r->world.store, &op);
}

enum wp_status
redis_replica_settle(struct redis_replica *r, const struct wp_lease_op *op)
{
    enum wp_status status;
    int64_t since = 0;

    while ((status = redis_world_commit(&r->world.store, op)) ==
           WP_UNAVAILABLE) {
        redis_rig_pause(&since, "a commit");
    }
    return status;
}

static void
fetch(struct redis_replica *r, uint32_t pool, uint8_t uid,
      struct wp_lease_record *found)
{
    char claim[16];
    struct wp_lease_op op = op_of(pool, WP_LEASE_FETCH, uid, 0, claim);

    op.claim_id = WP_STR("");
    op.found = found;
    assert_int_equal(redis_replica_settle(r, &op), WP_OK);
}

void
redis_replica_grant(struct redis_replica *r, uint32_t pool, uint8_t first,
                    uint8_t last)
{
    for (uint8_t uid = first; uid <= last; uid++) {
        char claim[16];
        struct wp_lease_op offer = op_of(pool, WP_LEASE_OFFER, uid, 0, claim);
        struct wp_lease_op grant = op_of(pool, WP_LEASE_GRANT, uid, 1, claim);

        assert_int_equal(redis_replica_settle(r, &offer), WP_OK);
        assert_int_equal(redis_replica_settle(r, &grant), WP_OK);
        assert_in_range(r->n_known, 0, REDIS_REPLICA_KNOWN_MAX - 1);
        fetch(r, pool, uid, &r->known[r->n_known++]);
    }
}

/* True unless it has to be tried again. */
static bool
tell(struct redis_replica *r, const struct wp_lease_record *record,
     const struct wp_lease_redis_pool *pool)
{
    struct wp_err err = {.msg = ""};
    enum wp_status status;

    if (strcmp(record->pool, pool->pool) != 0) {
        return true;
    }
    status = wp_lease_redis_assert_record(r->world.redis, record, &err);
    return status == WP_OK || status == WP_ABORTED;
}

static bool
recover_pool(struct redis_replica *r, const struct wp_lease_redis_pool *pool,
             struct wp_err *err)
{
    struct wp_lease_redis *redis = r->world.redis;
    bool done = wp_lease_redis_begin_recovery(redis, pool, err) == WP_OK;

    for (uint32_t i = 0; i < r->n_known && done; i++) {
        done = tell(r, &r->known[i], pool);
    }
    return done && wp_lease_redis_end_assert(redis, pool, err) == WP_OK &&
           wp_lease_redis_open_generation(redis, pool, NULL, 0, err) == WP_OK;
}

void
redis_replica_recover(struct redis_replica *r)
{
    for (uint32_t i = 0; i < REDIS_WORLD_POOLS; i++) {
        const struct wp_lease_redis_pool *pool = &redis_world_pools[i];
        struct wp_err err = {.msg = "a recovered pool"};
        int64_t since = 0;

        while (wp_lease_redis_in_doubt(r->world.redis, pool) &&
               !recover_pool(r, pool, &err)) {
            redis_rig_pause(&since, err.msg);
        }
    }
}

void
redis_replica_check(struct redis_replica *r, uint32_t pool, uint8_t first,
                    uint8_t last)
{
    for (uint8_t uid = first; uid <= last; uid++) {
        struct wp_lease_record found;
        char claim[16];
        struct wp_lease_op op = op_of(pool, WP_LEASE_GRANT, uid, 2, claim);

        fetch(r, pool, uid, &found);
        assert_int_equal(found.state, WP_RECORD_HELD);
        assert_string_equal(found.claim_id, claim);
        op.claim_id = WP_STR("somebody-else");
        assert_int_equal(redis_replica_settle(r, &op), WP_TAKEN);
    }
}
