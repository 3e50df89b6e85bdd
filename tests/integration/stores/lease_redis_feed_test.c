/* Replicas on one Redis: each hears what the others change, whatever happens to
 * the connections, and who is there. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pool/base/rng.h"
#include "tests/support/stores/redis_world.h"

enum {
    UIDS = 16, /* Sandboxes are 1..UIDS - 1. */
    IN_ANOTHER_DATABASE = 'z',
};

/* A replica with a copy of the first pool, as its daemon would keep one. */
struct replica {
    struct redis_world *world; /* Whose server it uses. */
    struct wp_lease_redis *redis;
    struct wp_lease_store store;
    pthread_mutex_t lock;
    struct wp_lease_record copy[UIDS];
    bool seen[UIDS]; /* Since the last begin. */
    bool syncing;
    uint32_t n_heard;
    uint32_t n_syncs;
    uint32_t n_let_go;
    uint32_t refuse; /* So many records to come. */
    struct wp_lease_redis_peer peer;
    uint32_t peers_heard;
    uint32_t peers_gone;
};

static bool
on_record(void *ctx, const struct wp_lease_record *record)
{
    struct replica *replica = ctx;
    bool taken = true;

    (void)pthread_mutex_lock(&replica->lock);
    if (replica->refuse > 0) {
        replica->refuse--;
        taken = false;
    } else {
        uint8_t uid = record->uid[0];

        replica->n_heard++;
        replica->copy[uid] = *record;
        replica->seen[uid] = true;
    }
    (void)pthread_mutex_unlock(&replica->lock);
    return taken;
}

static bool
on_sync(void *ctx, const struct wp_lease_redis_pool *pool, bool begin)
{
    struct replica *replica = ctx;

    if (strcmp(pool->pool, redis_world_pools[0].pool) != 0) {
        return true;
    }
    (void)pthread_mutex_lock(&replica->lock);
    for (int i = 0; i < UIDS; i++) {
        if (begin) {
            replica->seen[i] = false;
        } else if (!replica->seen[i]) {
            replica->n_let_go +=
                replica->copy[i].state != WP_RECORD_NONE ? 1 : 0;
            memset(&replica->copy[i], 0, sizeof replica->copy[i]);
        }
    }
    replica->n_syncs += begin ? 0 : 1;
    (void)pthread_mutex_unlock(&replica->lock);
    return true;
}

static void
on_peer(void *ctx, const struct wp_lease_redis_peer *peer, bool gone)
{
    struct replica *replica = ctx;

    (void)pthread_mutex_lock(&replica->lock);
    replica->peer = *peer;
    replica->peers_heard += gone ? 0 : 1;
    replica->peers_gone += gone ? 1 : 0;
    (void)pthread_mutex_unlock(&replica->lock);
}

static uint32_t
read_count(struct replica *replica, const uint32_t *count)
{
    uint32_t value;

    (void)pthread_mutex_lock(&replica->lock);
    value = *count;
    (void)pthread_mutex_unlock(&replica->lock);
    return value;
}

static void
pass_over(void *ctx, const struct wp_lease_record *record)
{
    (void)ctx;
    (void)record;
}

/* For those that start from now on: it is known how many others there are. */
static bool others_known;
static uint32_t others_n;

static uint32_t
count_others(void *ctx)
{
    (void)ctx;
    return others_n;
}

static void
start_with(struct replica *replica, struct redis_world *world, uint8_t id,
           const struct wp_lease_redis_pool *only)
{
    struct wp_lease_redis_config config = redis_world_config_of(world);
    struct wp_lease_redis_stats stats;
    struct wp_err err;

    memset(replica, 0, sizeof *replica);
    replica->world = world;
    (void)pthread_mutex_init(&replica->lock, NULL);
    config.redis.db = id == IN_ANOTHER_DATABASE ? 5 : 0;
    config.replicas = true;
    config.replica_id[0] = id;
    config.host = "host.example";
    config.heartbeat_ns = 50 * WP_NS_PER_MS;
    config.peer_gone_ns = 3 * WP_NS_PER_S;
    config.sink = (struct wp_lease_redis_sink){.ctx = replica,
                                               .on_record = on_record,
                                               .on_sync = on_sync,
                                               .on_peer = on_peer};
    if (others_known) {
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
    if (wp_lease_redis_create(&config, &replica->redis, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
    replica->store = wp_lease_redis_store(replica->redis);
    if (replica->store.ops->load(replica->store.self, pass_over, NULL, &err) !=
            WP_OK ||
        wp_lease_redis_follow(replica->redis, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
    do {
        (void)usleep(1000);
        wp_lease_redis_read_stats(replica->redis, &stats);
    } while (stats.redis.links_up < stats.redis.links);
}

static void
start_replica(struct replica *replica, struct redis_world *world, uint8_t id)
{
    start_with(replica, world, id, NULL);
    WAIT_UNTIL(read_count(replica, &replica->n_syncs) > 0);
}

static void
stop_replica(struct replica *replica)
{
    wp_lease_redis_destroy(replica->redis);
    (void)pthread_mutex_destroy(&replica->lock);
}

static enum wp_status
do_op(const struct replica *replica, enum wp_lease_op_kind kind, uint8_t uid,
      uint64_t fence)
{
    struct wp_lease_op op = redis_world_op_of(kind, uid, fence);
    char claim[8];

    (void)snprintf(claim, sizeof claim, "c%u", uid);
    op.claim_id = wp_str_from(claim);
    return redis_world_commit(&replica->store, &op);
}

static bool
knows(struct replica *replica, uint8_t uid, enum wp_record_state state,
      uint64_t fence)
{
    bool is;

    (void)pthread_mutex_lock(&replica->lock);
    is = replica->copy[uid].state == state && replica->copy[uid].fence == fence;
    (void)pthread_mutex_unlock(&replica->lock);
    return is;
}

/* --- */

static void
start_server(struct redis_world *world)
{
    memset(world, 0, sizeof *world);
    redis_world_start_server(world, NULL, NULL);
}

static void
test_changes_are_heard(void **state)
{
    struct redis_world world;
    struct replica a;
    struct replica b;

    (void)state;
    start_server(&world);
    start_replica(&a, &world, 'a');
    start_replica(&b, &world, 'b');
    assert_int_equal(do_op(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    WAIT_UNTIL(knows(&b, 1, WP_RECORD_OPEN, 0));
    assert_int_equal(do_op(&a, WP_LEASE_GRANT, 1, 1), WP_OK);
    WAIT_UNTIL(knows(&b, 1, WP_RECORD_HELD, 1));
    assert_string_equal(b.copy[1].claim_id, "c1");
    assert_string_equal(b.copy[1].endpoint, "unix:/run/sandbox/abcdefgh");
    assert_int_equal(do_op(&b, WP_LEASE_UNDO, 1, 1), WP_OK);
    WAIT_UNTIL(knows(&a, 1, WP_RECORD_OPEN, 1));
    assert_int_equal(do_op(&b, WP_LEASE_GRANT, 1, 2), WP_OK);
    assert_int_equal(do_op(&b, WP_LEASE_LOSE, 1, 2), WP_OK);
    WAIT_UNTIL(knows(&a, 1, WP_RECORD_LOST, 2));
    assert_string_equal(a.copy[1].lost_reason, "its process died");
    assert_int_equal(do_op(&a, WP_LEASE_RELEASE, 1, 2), WP_OK);
    WAIT_UNTIL(knows(&b, 1, WP_RECORD_ENDED, 2));
    assert_int_equal(do_op(&a, WP_LEASE_FORGET, 1, 2), WP_OK);
    WAIT_UNTIL(knows(&b, 1, WP_RECORD_NONE, 2));
    /* Nobody hears of itself, nor twice. */
    assert_int_equal(read_count(&a, &a.n_heard), 3);
    assert_int_equal(read_count(&b, &b.n_heard), 4);
    stop_replica(&a);
    stop_replica(&b);
    redis_rig_fini(&world.rig);
}

enum {
    TOGETHER = 6
};

static _Atomic(uint32_t) n_together;

static void
count_ok(struct wp_lease_op *op, enum wp_status status)
{
    (void)op;
    assert_int_equal(status, WP_OK);
    (void)atomic_fetch_add(&n_together, 1);
}

/* One command each for so many sandboxes from 1 on. */
static void
do_together(const struct replica *replica, enum wp_lease_op_kind kind,
            uint64_t fence)
{
    struct wp_lease_op ops[TOGETHER];
    char claims[TOGETHER][8];

    atomic_store(&n_together, 0);
    replica->store.ops->flush(replica->store.self);
    for (uint32_t i = 0; i < TOGETHER; i++) {
        ops[i] = redis_world_op_of(kind, (uint8_t)(i + 1), fence);
        (void)snprintf(claims[i], sizeof claims[i], "c%u", i + 1);
        ops[i].claim_id = wp_str_from(claims[i]);
        ops[i].done = count_ok;
        assert_int_equal(
            replica->store.ops->commit(replica->store.self, &ops[i]),
            WP_PENDING);
    }
    replica->store.ops->flush(replica->store.self);
    WAIT_UNTIL(atomic_load(&n_together) == TOGETHER);
}

/* What shares a command is heard one by one, without gaps. */
static void
test_changes_that_came_together(void **state)
{
    struct wp_lease_redis_stats stats;
    struct redis_world world;
    struct replica a;
    struct replica b;

    (void)state;
    start_server(&world);
    start_replica(&a, &world, 'a');
    start_replica(&b, &world, 'b');
    do_together(&a, WP_LEASE_OFFER, 0);
    do_together(&a, WP_LEASE_GRANT, 1);
    for (uint32_t uid = 1; uid <= TOGETHER; uid++) {
        WAIT_UNTIL(knows(&b, (uint8_t)uid, WP_RECORD_HELD, 1));
    }
    assert_string_equal(b.copy[TOGETHER].claim_id, "c6");
    do_together(&a, WP_LEASE_RELEASE, 1);
    do_together(&a, WP_LEASE_FORGET, 1);
    assert_int_equal(do_op(&b, WP_LEASE_OFFER, TOGETHER + 1, 0), WP_OK);
    for (uint32_t uid = 1; uid <= TOGETHER; uid++) {
        WAIT_UNTIL(knows(&b, (uint8_t)uid, WP_RECORD_NONE, 1));
    }
    WAIT_UNTIL(knows(&a, TOGETHER + 1, WP_RECORD_OPEN, 0));
    assert_int_equal(read_count(&b, &b.n_heard), 4 * TOGETHER);
    assert_int_equal(read_count(&a, &a.n_heard), 1);
    wp_lease_redis_read_stats(b.redis, &stats);
    assert_int_equal(stats.gaps + stats.corrupt, 0);
    wp_lease_redis_read_stats(a.redis, &stats);
    assert_int_equal(stats.gaps + stats.corrupt, 0);
    stop_replica(&a);
    stop_replica(&b);
    redis_rig_fini(&world.rig);
}

static void
test_a_newcomer_reads_all(void **state)
{
    struct redis_world world;
    struct replica a;
    struct replica b;

    (void)state;
    start_server(&world);
    start_replica(&a, &world, 'a');
    assert_int_equal(do_op(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(do_op(&a, WP_LEASE_OFFER, 2, 0), WP_OK);
    assert_int_equal(do_op(&a, WP_LEASE_GRANT, 2, 7), WP_OK);
    start_replica(&b, &world, 'b');
    assert_true(knows(&b, 1, WP_RECORD_OPEN, 0));
    assert_true(knows(&b, 2, WP_RECORD_HELD, 7));
    assert_int_equal(do_op(&a, WP_LEASE_WITHDRAW, 1, 0), WP_OK);
    WAIT_UNTIL(knows(&b, 1, WP_RECORD_ENDED, 0));
    stop_replica(&a);
    stop_replica(&b);
    redis_rig_fini(&world.rig);
}

/* A pool that comes later: no commits before its generation is learned; then
 * what others have done to it is told, and what they do is heard. */
static void
test_a_pool_is_added(void **state)
{
    static const struct wp_lease_redis_pool home = {"-", "-"};
    struct redis_world world;
    struct replica a;
    struct replica b;
    struct wp_err err;

    (void)state;
    start_server(&world);
    start_with(&a, &world, 'a', &home);
    start_with(&b, &world, 'b', &home);
    assert_int_equal(do_op(&a, WP_LEASE_OFFER, 1, 0), WP_UNAVAILABLE);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(
            wp_lease_redis_add_pool(a.redis, &redis_world_pools[0], &err),
            WP_OK);
    }
    WAIT_UNTIL(!wp_lease_redis_in_doubt(a.redis, &redis_world_pools[0]));
    assert_int_equal(do_op(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(read_count(&b, &b.n_heard), 0);
    assert_int_equal(
        wp_lease_redis_add_pool(b.redis, &redis_world_pools[0], &err), WP_OK);
    WAIT_UNTIL(knows(&b, 1, WP_RECORD_OPEN, 0));
    assert_int_equal(do_op(&b, WP_LEASE_GRANT, 1, 1), WP_OK);
    WAIT_UNTIL(knows(&a, 1, WP_RECORD_HELD, 1));
    stop_replica(&a);
    stop_replica(&b);
    redis_rig_fini(&world.rig);
}

/* Many at once, from several threads, up to the bound. */
static void *
add_many(void *ctx)
{
    struct wp_lease_redis_pool pool = {"ns", ""};
    struct wp_err err;

    for (int i = 0; i < WP_POOLS_MAX - 1; i++) {
        (void)snprintf(pool.pool, sizeof pool.pool, "p%d", i);
        assert_int_equal(wp_lease_redis_add_pool(ctx, &pool, &err), WP_OK);
    }
    return NULL;
}

static void
test_pools_are_bounded(void **state)
{
    static const struct wp_lease_redis_pool home = {"-", "-"};
    struct wp_lease_redis_pool last = {"ns", ""};
    struct redis_world world;
    struct replica a;
    struct wp_err err;
    pthread_t other;

    (void)state;
    start_server(&world);
    start_with(&a, &world, 'a', &home);
    assert_int_equal(pthread_create(&other, NULL, add_many, a.redis), 0);
    (void)add_many(a.redis);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(
        wp_lease_redis_add_pool(a.redis, &redis_world_pools[0], &err),
        WP_RESOURCE_EXHAUSTED);
    (void)snprintf(last.pool, sizeof last.pool, "p%d", WP_POOLS_MAX - 2);
    WAIT_UNTIL(!wp_lease_redis_in_doubt(a.redis, &last));
    stop_replica(&a);
    redis_rig_fini(&world.rig);
}

static void
test_missing_numbers_are_noticed(void **state)
{
    struct wp_lease_redis_stats stats;
    struct redis_world world;
    struct replica a;
    struct replica b;

    (void)state;
    start_server(&world);
    start_replica(&a, &world, 'a');
    start_replica(&b, &world, 'b');
    assert_int_equal(do_op(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    WAIT_UNTIL(knows(&b, 1, WP_RECORD_OPEN, 0));
    /* As if two changes had not arrived, one of them to sandbox 1. */
    (void)redis_rig_must(&world.rig, 0,
                         "HSET warmpool:{default/agents} q %020d", 41);
    (void)redis_rig_must(&world.rig, 0,
                         "HDEL warmpool:{default/agents} "
                         "r01010101010101010101010101010101");
    assert_int_equal(do_op(&a, WP_LEASE_OFFER, 2, 0), WP_OK);
    WAIT_UNTIL(knows(&b, 2, WP_RECORD_OPEN, 0));
    WAIT_UNTIL(read_count(&b, &b.n_syncs) == 2);
    assert_true(knows(&b, 1, WP_RECORD_NONE, 0));
    wp_lease_redis_read_stats(b.redis, &stats);
    assert_int_equal(stats.gaps, 1);
    /* And no more of it. */
    assert_int_equal(do_op(&a, WP_LEASE_OFFER, 3, 0), WP_OK);
    WAIT_UNTIL(knows(&b, 3, WP_RECORD_OPEN, 0));
    wp_lease_redis_read_stats(b.redis, &stats);
    assert_int_equal(stats.gaps, 1);
    stop_replica(&a);
    stop_replica(&b);
    redis_rig_fini(&world.rig);
}

static void
test_a_full_receiver_is_told_again(void **state)
{
    struct redis_world world;
    struct replica a;
    struct replica b;

    (void)state;
    start_server(&world);
    start_replica(&a, &world, 'a');
    start_replica(&b, &world, 'b');
    (void)pthread_mutex_lock(&b.lock);
    b.refuse = 3;
    (void)pthread_mutex_unlock(&b.lock);
    assert_int_equal(do_op(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(do_op(&a, WP_LEASE_GRANT, 1, 1), WP_OK);
    WAIT_UNTIL(knows(&b, 1, WP_RECORD_HELD, 1));
    WAIT_UNTIL(read_count(&b, &b.n_syncs) > 1);
    stop_replica(&a);
    stop_replica(&b);
    redis_rig_fini(&world.rig);
}

/* What was told, but not taken in behind the feed's back, is told again. */
static void
test_a_pool_is_read_again_when_asked(void **state)
{
    static const struct wp_lease_redis_pool unknown = {"no", "such"};
    struct redis_world world;
    struct replica a;
    uint32_t n_syncs;

    (void)state;
    start_server(&world);
    start_replica(&a, &world, 'a');
    assert_int_equal(do_op(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_true(knows(&a, 1, WP_RECORD_NONE, 0)); /* Its own. */
    n_syncs = read_count(&a, &a.n_syncs);
    wp_lease_redis_read_again(a.redis, &unknown);
    wp_lease_redis_read_again(a.redis, &redis_world_pools[0]);
    WAIT_UNTIL(read_count(&a, &a.n_syncs) > n_syncs);
    assert_true(knows(&a, 1, WP_RECORD_OPEN, 0));
    stop_replica(&a);
    redis_rig_fini(&world.rig);
}

static void
begin_recovery(const struct replica *replica)
{
    struct wp_err err;

    WAIT_UNTIL(wp_lease_redis_in_doubt(replica->redis, &redis_world_pools[0]));
    assert_int_equal(wp_lease_redis_begin_recovery(replica->redis,
                                                   &redis_world_pools[0], &err),
                     WP_OK);
}

static void
end_recovery(const struct replica *replica)
{
    struct wp_err err;

    assert_int_equal(
        wp_lease_redis_end_assert(replica->redis, &redis_world_pools[0], &err),
        WP_OK);
}

static bool
is_open(const struct replica *replica)
{
    struct wp_err err;

    return wp_lease_redis_open_generation(replica->redis, &redis_world_pools[0],
                                          NULL, 0, &err) == WP_OK;
}

/* Redis has forgotten, and the feeds begin anew before it was told: what it has
 * not is no reason to let go. A pool is opened only when the feed has listened
 * for a while, so by then it would have happened. */
static void
test_what_redis_forgot_is_not_let_go(void **state)
{
    struct wp_lease_record held;
    struct redis_world world;
    struct replica a;
    struct replica b;
    struct wp_err err;
    uint32_t n_syncs;

    (void)state;
    start_server(&world);
    start_replica(&a, &world, 'a');
    start_replica(&b, &world, 'b');
    assert_int_equal(do_op(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(do_op(&a, WP_LEASE_GRANT, 1, 1), WP_OK);
    WAIT_UNTIL(knows(&b, 1, WP_RECORD_HELD, 1));
    held = b.copy[1];
    n_syncs = read_count(&b, &b.n_syncs);
    (void)redis_rig_must(&world.rig, 0, "FLUSHALL");
    (void)redis_rig_must(&world.rig, 0, "CLIENT KILL TYPE pubsub");
    begin_recovery(&b);
    assert_int_equal(do_op(&a, WP_LEASE_GRANT, 1, 2), WP_UNAVAILABLE);
    begin_recovery(&a);
    end_recovery(&a);
    assert_int_equal(wp_lease_redis_assert_record(b.redis, &held, &err), WP_OK);
    end_recovery(&b);
    WAIT_UNTIL(is_open(&b));
    WAIT_UNTIL(is_open(&a));
    WAIT_UNTIL(read_count(&b, &b.n_syncs) > n_syncs);
    assert_int_equal(read_count(&b, &b.n_let_go), 0);
    assert_true(knows(&b, 1, WP_RECORD_HELD, 1));
    stop_replica(&a);
    stop_replica(&b);
    redis_rig_fini(&world.rig);
}

/* Who knows how many others there are waits for these, and no longer. */
static void
test_all_that_are_there_are_waited_for(void **state)
{
    struct redis_world world;
    struct replica a;
    struct replica b;

    (void)state;
    others_known = true;
    start_server(&world);
    start_replica(&a, &world, 'a');
    start_replica(&b, &world, 'b');
    others_known = false;
    WAIT_UNTIL(wp_lease_redis_peers(a.redis, NULL, 0) == 1 &&
               wp_lease_redis_peers(b.redis, NULL, 0) == 1);
    for (int i = 0; i < 3; i++) {
        redis_rig_kill(&world.rig, 0, SIGKILL);
        redis_rig_restart(&world.rig, 0);
        begin_recovery(&a);
        begin_recovery(&b);
        end_recovery(&a);
        end_recovery(&b);
        others_n = 2;
        assert_false(is_open(&a));
        others_n = 1;
        WAIT_UNTIL(is_open(&a));
        WAIT_UNTIL(is_open(&b));
    }
    stop_replica(&a);
    stop_replica(&b);
    redis_rig_fini(&world.rig);
}

static void
test_heartbeats(void **state)
{
    struct wp_lease_redis_peer peers[4];
    struct redis_world world;
    struct replica a;
    struct replica b;

    (void)state;
    start_server(&world);
    start_replica(&a, &world, 'a');
    start_replica(&b, &world, 'b');
    WAIT_UNTIL(wp_lease_redis_peers(a.redis, peers, 4) == 1);
    assert_int_equal(peers[0].replica_id[0], 'b');
    assert_string_equal(peers[0].host, "host.example");
    wp_lease_redis_set_state(b.redis, 12, true);
    WAIT_UNTIL(wp_lease_redis_peers(a.redis, peers, 4) == 1 &&
               peers[0].waiting == 12);
    assert_true(peers[0].keeper);
    assert_false(peers[0].leaves);
    assert_true(read_count(&a, &a.peers_heard) >= 2);
    wp_lease_redis_leave(b.redis);
    WAIT_UNTIL(wp_lease_redis_peers(a.redis, peers, 4) == 1 && peers[0].leaves);
    assert_true(peers[0].keeper);
    assert_int_equal(peers[0].waiting, 12);
    assert_int_equal(read_count(&a, &a.peers_gone), 0);
    stop_replica(&b);
    WAIT_UNTIL(read_count(&a, &a.peers_gone) == 1);
    assert_int_equal(wp_lease_redis_peers(a.redis, peers, 4), 0);
    stop_replica(&a);
    redis_rig_fini(&world.rig);
}

/* Who uses another database of the server is no replica, though channels are
 * one for all databases. */
static void
test_other_databases_are_not_heard(void **state)
{
    struct redis_world world;
    struct replica a;
    struct replica b;
    struct replica z;

    (void)state;
    start_server(&world);
    start_replica(&z, &world, IN_ANOTHER_DATABASE);
    start_replica(&a, &world, 'a');
    start_replica(&b, &world, 'b');
    assert_int_equal(do_op(&z, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(do_op(&a, WP_LEASE_OFFER, 2, 0), WP_OK);
    WAIT_UNTIL(knows(&b, 2, WP_RECORD_OPEN, 0));
    WAIT_UNTIL(wp_lease_redis_peers(a.redis, NULL, 0) > 0 &&
               wp_lease_redis_peers(b.redis, NULL, 0) > 0);
    /* Several heartbeats of each. */
    (void)usleep(500 * 1000);
    assert_int_equal(wp_lease_redis_peers(z.redis, NULL, 0), 0);
    assert_int_equal(wp_lease_redis_peers(a.redis, NULL, 0), 1);
    assert_int_equal(read_count(&b, &b.n_heard), 1);
    assert_int_equal(read_count(&z, &z.n_heard), 0);
    stop_replica(&a);
    stop_replica(&b);
    stop_replica(&z);
    redis_rig_fini(&world.rig);
}

/* While Redis is away nobody is taken for gone: who recovers first has to wait
 * for the others. */
static void
test_peers_survive_an_outage(void **state)
{
    struct redis_world world;
    struct replica a;
    struct replica b;

    (void)state;
    start_server(&world);
    start_replica(&a, &world, 'a');
    start_replica(&b, &world, 'b');
    WAIT_UNTIL(wp_lease_redis_peers(a.redis, NULL, 0) == 1);
    redis_rig_kill(&world.rig, 0, SIGKILL);
    (void)usleep(3500 * 1000); /* Longer than silence is tolerated. */
    assert_int_equal(wp_lease_redis_peers(a.redis, NULL, 0), 1);
    redis_rig_restart(&world.rig, 0);
    wp_lease_redis_set_state(b.redis, 77, false);
    WAIT_UNTIL(read_count(&a, &a.peer.waiting) == 77);
    assert_int_equal(read_count(&a, &a.peers_gone), 0);
    stop_replica(&a);
    stop_replica(&b);
    redis_rig_fini(&world.rig);
}

/* Random changes by two while the connections of the feeds are cut again and
 * again: in the end every copy is what Redis has. */
static void
test_copies_survive_cuts(void **state)
{
    enum {
        STEPS = 3000
    };
    static const enum wp_lease_op_kind kinds[] = {
        WP_LEASE_OFFER,  WP_LEASE_GRANT,    WP_LEASE_RENEW, WP_LEASE_RELEASE,
        WP_LEASE_FORGET, WP_LEASE_WITHDRAW, WP_LEASE_LOSE};
    uint64_t fences[UIDS] = {0};
    struct redis_world world;
    struct replica replicas[2];
    struct wp_rng rng;

    (void)state;
    wp_rng_init(&rng, 99);
    start_server(&world);
    start_replica(&replicas[0], &world, 'a');
    start_replica(&replicas[1], &world, 'b');
    for (int i = 0; i < STEPS; i++) {
        uint8_t uid = (uint8_t)(1 + wp_rng_below(&rng, UIDS - 1));
        enum wp_lease_op_kind kind =
            kinds[wp_rng_below(&rng, WP_ARRAY_LEN(kinds))];

        fences[uid] += kind == WP_LEASE_GRANT ? 1 : 0;
        (void)do_op(&replicas[wp_rng_below(&rng, 2)], kind, uid, fences[uid]);
        if (i % 200 == 0) {
            (void)redis_rig_must(&world.rig, 0, "CLIENT KILL TYPE pubsub");
        }
    }
    for (uint8_t uid = 1; uid < UIDS; uid++) {
        struct wp_lease_record found = {.state = WP_RECORD_NONE};
        struct wp_lease_op op = redis_world_op_of(WP_LEASE_FETCH, uid, 0);

        op.claim_id = WP_STR("");
        op.found = &found;
        (void)redis_world_commit(&replicas[0].store, &op);
        /* A replica does not hear of its own changes, only reads them: cut once
         * more, and both have read all. */
        for (int i = 0; uid == 1 && i < 2; i++) {
            uint32_t before = read_count(&replicas[i], &replicas[i].n_syncs);

            (void)redis_rig_must(&world.rig, 0, "CLIENT KILL TYPE pubsub");
            WAIT_UNTIL(read_count(&replicas[i], &replicas[i].n_syncs) > before);
        }
        for (int i = 0; i < 2; i++) {
            WAIT_UNTIL(found.state == WP_RECORD_NONE ||
                       knows(&replicas[i], uid, found.state, found.fence));
            WAIT_UNTIL(found.state != WP_RECORD_NONE ||
                       replicas[i].copy[uid].state == WP_RECORD_NONE);
        }
    }
    stop_replica(&replicas[0]);
    stop_replica(&replicas[1]);
    redis_rig_fini(&world.rig);
}

static struct wp_lease_redis_stats
stats_of(const struct replica *replica)
{
    struct wp_lease_redis_stats stats;

    wp_lease_redis_read_stats(replica->redis, &stats);
    return stats;
}

static uint64_t
connections_received(struct redis_world *world)
{
    const char *info = redis_rig_must(&world->rig, 0, "INFO stats");
    const char *field = strstr(info, "total_connections_received:");

    assert_non_null(field);
    return strtoull(strchr(field, ':') + 1, NULL, 10);
}

/* It stays connected, tries again from time to time, and goes on once it
 * may. */
static void
test_a_pool_that_may_not_be_read(void **state)
{
    struct redis_world world;
    struct replica a;
    uint64_t before;
    uint32_t synced;

    (void)state;
    start_server(&world);
    start_replica(&a, &world, 'a');
    (void)redis_rig_must(&world.rig, 0, "ACL SETUSER default -hscan");
    synced = read_count(&a, &a.n_syncs);
    before = connections_received(&world);
    wp_lease_redis_read_again(a.redis, &redis_world_pools[0]);
    WAIT_UNTIL(stats_of(&a).sync_failures >= 5);
    assert_true(connections_received(&world) - before < 5);
    assert_int_equal(read_count(&a, &a.n_syncs), synced);
    (void)redis_rig_must(&world.rig, 0, "ACL SETUSER default +hscan");
    WAIT_UNTIL(read_count(&a, &a.n_syncs) > synced);
    stop_replica(&a);
    redis_rig_fini(&world.rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes_are_heard),
        cmocka_unit_test(test_changes_that_came_together),
        cmocka_unit_test(test_a_newcomer_reads_all),
        cmocka_unit_test(test_a_pool_is_added),
        cmocka_unit_test(test_pools_are_bounded),
        cmocka_unit_test(test_missing_numbers_are_noticed),
        cmocka_unit_test(test_a_full_receiver_is_told_again),
        cmocka_unit_test(test_a_pool_is_read_again_when_asked),
        cmocka_unit_test(test_a_pool_that_may_not_be_read),
        cmocka_unit_test(test_what_redis_forgot_is_not_let_go),
        cmocka_unit_test(test_all_that_are_there_are_waited_for),
        cmocka_unit_test(test_heartbeats),
        cmocka_unit_test(test_other_databases_are_not_heard),
        cmocka_unit_test(test_peers_survive_an_outage),
        cmocka_unit_test(test_copies_survive_cuts),
    };

    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
