/* Replicas on one Redis: each hears what the others change, whatever happens to
 * the connections. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pool/base/rng.h"
#include "tests/support/stores/redis_follower.h"

static void
test_changes_are_heard(void **state)
{
    struct redis_world world;
    struct redis_follower a;
    struct redis_follower b;

    (void)state;
    redis_follower_server(&world);
    redis_follower_start(&a, &world, 'a');
    redis_follower_start(&b, &world, 'b');
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    WAIT_UNTIL(redis_follower_knows(&b, 1, WP_RECORD_OPEN, 0));
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_GRANT, 1, 1), WP_OK);
    WAIT_UNTIL(redis_follower_knows(&b, 1, WP_RECORD_HELD, 1));
    assert_string_equal(b.copy[1].claim_id, "c1");
    assert_string_equal(b.copy[1].endpoint, "unix:/run/sandbox/abcdefgh");
    assert_int_equal(redis_follower_commit(&b, WP_LEASE_UNDO, 1, 1), WP_OK);
    WAIT_UNTIL(redis_follower_knows(&a, 1, WP_RECORD_OPEN, 1));
    assert_int_equal(redis_follower_commit(&b, WP_LEASE_GRANT, 1, 2), WP_OK);
    assert_int_equal(redis_follower_commit(&b, WP_LEASE_LOSE, 1, 2), WP_OK);
    WAIT_UNTIL(redis_follower_knows(&a, 1, WP_RECORD_LOST, 2));
    assert_string_equal(a.copy[1].lost_reason, "its process died");
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_RELEASE, 1, 2), WP_OK);
    WAIT_UNTIL(redis_follower_knows(&b, 1, WP_RECORD_ENDED, 2));
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_FORGET, 1, 2), WP_OK);
    WAIT_UNTIL(redis_follower_knows(&b, 1, WP_RECORD_NONE, 2));
    /* Nobody hears of itself, nor twice. */
    assert_int_equal(redis_follower_count(&a, &a.n_heard), 3);
    assert_int_equal(redis_follower_count(&b, &b.n_heard), 4);
    redis_follower_stop(&a);
    redis_follower_stop(&b);
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
do_together(const struct redis_follower *replica, enum wp_lease_op_kind kind,
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
    struct redis_follower a;
    struct redis_follower b;

    (void)state;
    redis_follower_server(&world);
    redis_follower_start(&a, &world, 'a');
    redis_follower_start(&b, &world, 'b');
    do_together(&a, WP_LEASE_OFFER, 0);
    do_together(&a, WP_LEASE_GRANT, 1);
    for (uint32_t uid = 1; uid <= TOGETHER; uid++) {
        WAIT_UNTIL(redis_follower_knows(&b, (uint8_t)uid, WP_RECORD_HELD, 1));
    }
    assert_string_equal(b.copy[TOGETHER].claim_id, "c6");
    do_together(&a, WP_LEASE_RELEASE, 1);
    do_together(&a, WP_LEASE_FORGET, 1);
    assert_int_equal(redis_follower_commit(&b, WP_LEASE_OFFER, TOGETHER + 1, 0),
                     WP_OK);
    for (uint32_t uid = 1; uid <= TOGETHER; uid++) {
        WAIT_UNTIL(redis_follower_knows(&b, (uint8_t)uid, WP_RECORD_NONE, 1));
    }
    WAIT_UNTIL(redis_follower_knows(&a, TOGETHER + 1, WP_RECORD_OPEN, 0));
    assert_int_equal(redis_follower_count(&b, &b.n_heard), 4 * TOGETHER);
    assert_int_equal(redis_follower_count(&a, &a.n_heard), 1);
    wp_lease_redis_read_stats(b.redis, &stats);
    assert_int_equal(stats.gaps + stats.corrupt, 0);
    wp_lease_redis_read_stats(a.redis, &stats);
    assert_int_equal(stats.gaps + stats.corrupt, 0);
    redis_follower_stop(&a);
    redis_follower_stop(&b);
    redis_rig_fini(&world.rig);
}

static void
test_a_newcomer_reads_all(void **state)
{
    struct redis_world world;
    struct redis_follower a;
    struct redis_follower b;

    (void)state;
    redis_follower_server(&world);
    redis_follower_start(&a, &world, 'a');
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_OFFER, 2, 0), WP_OK);
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_GRANT, 2, 7), WP_OK);
    redis_follower_start(&b, &world, 'b');
    assert_true(redis_follower_knows(&b, 1, WP_RECORD_OPEN, 0));
    assert_true(redis_follower_knows(&b, 2, WP_RECORD_HELD, 7));
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_WITHDRAW, 1, 0), WP_OK);
    WAIT_UNTIL(redis_follower_knows(&b, 1, WP_RECORD_ENDED, 0));
    redis_follower_stop(&a);
    redis_follower_stop(&b);
    redis_rig_fini(&world.rig);
}

/* A pool that comes later: no commits before its generation is learned; then
 * what others have done to it is told, and what they do is heard. */
static void
test_a_pool_is_added(void **state)
{
    static const struct wp_lease_redis_pool home = {"-", "-"};
    struct redis_world world;
    struct redis_follower a;
    struct redis_follower b;
    struct wp_err err;

    (void)state;
    redis_follower_server(&world);
    redis_follower_start_with(&a, &world, 'a', &home);
    redis_follower_start_with(&b, &world, 'b', &home);
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_OFFER, 1, 0),
                     WP_UNAVAILABLE);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(
            wp_lease_redis_add_pool(a.redis, &redis_world_pools[0], &err),
            WP_OK);
    }
    WAIT_UNTIL(!wp_lease_redis_in_doubt(a.redis, &redis_world_pools[0]));
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(redis_follower_count(&b, &b.n_heard), 0);
    assert_int_equal(
        wp_lease_redis_add_pool(b.redis, &redis_world_pools[0], &err), WP_OK);
    WAIT_UNTIL(redis_follower_knows(&b, 1, WP_RECORD_OPEN, 0));
    assert_int_equal(redis_follower_commit(&b, WP_LEASE_GRANT, 1, 1), WP_OK);
    WAIT_UNTIL(redis_follower_knows(&a, 1, WP_RECORD_HELD, 1));
    redis_follower_stop(&a);
    redis_follower_stop(&b);
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
    struct redis_follower a;
    struct wp_err err;
    pthread_t other;

    (void)state;
    redis_follower_server(&world);
    redis_follower_start_with(&a, &world, 'a', &home);
    assert_int_equal(pthread_create(&other, NULL, add_many, a.redis), 0);
    (void)add_many(a.redis);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(
        wp_lease_redis_add_pool(a.redis, &redis_world_pools[0], &err),
        WP_RESOURCE_EXHAUSTED);
    (void)snprintf(last.pool, sizeof last.pool, "p%d", WP_POOLS_MAX - 2);
    WAIT_UNTIL(!wp_lease_redis_in_doubt(a.redis, &last));
    redis_follower_stop(&a);
    redis_rig_fini(&world.rig);
}

static void
test_missing_numbers_are_noticed(void **state)
{
    struct wp_lease_redis_stats stats;
    struct redis_world world;
    struct redis_follower a;
    struct redis_follower b;

    (void)state;
    redis_follower_server(&world);
    redis_follower_start(&a, &world, 'a');
    redis_follower_start(&b, &world, 'b');
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    WAIT_UNTIL(redis_follower_knows(&b, 1, WP_RECORD_OPEN, 0));
    /* As if two changes had not arrived, one of them to sandbox 1. */
    (void)redis_rig_must(&world.rig, 0,
                         "HSET warmpool:{default/agents} q %020d", 41);
    (void)redis_rig_must(&world.rig, 0,
                         "HDEL warmpool:{default/agents} "
                         "r01010101010101010101010101010101");
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_OFFER, 2, 0), WP_OK);
    WAIT_UNTIL(redis_follower_knows(&b, 2, WP_RECORD_OPEN, 0));
    WAIT_UNTIL(redis_follower_count(&b, &b.n_syncs) == 2);
    assert_true(redis_follower_knows(&b, 1, WP_RECORD_NONE, 0));
    wp_lease_redis_read_stats(b.redis, &stats);
    assert_int_equal(stats.gaps, 1);
    /* And no more of it. */
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_OFFER, 3, 0), WP_OK);
    WAIT_UNTIL(redis_follower_knows(&b, 3, WP_RECORD_OPEN, 0));
    wp_lease_redis_read_stats(b.redis, &stats);
    assert_int_equal(stats.gaps, 1);
    redis_follower_stop(&a);
    redis_follower_stop(&b);
    redis_rig_fini(&world.rig);
}

static void
test_a_full_receiver_is_told_again(void **state)
{
    struct redis_world world;
    struct redis_follower a;
    struct redis_follower b;

    (void)state;
    redis_follower_server(&world);
    redis_follower_start(&a, &world, 'a');
    redis_follower_start(&b, &world, 'b');
    (void)pthread_mutex_lock(&b.lock);
    b.refuse = 3;
    (void)pthread_mutex_unlock(&b.lock);
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_GRANT, 1, 1), WP_OK);
    WAIT_UNTIL(redis_follower_knows(&b, 1, WP_RECORD_HELD, 1));
    WAIT_UNTIL(redis_follower_count(&b, &b.n_syncs) > 1);
    redis_follower_stop(&a);
    redis_follower_stop(&b);
    redis_rig_fini(&world.rig);
}

/* What was told, but not taken in behind the feed's back, is told again. */
static void
test_a_pool_is_read_again_when_asked(void **state)
{
    static const struct wp_lease_redis_pool unknown = {"no", "such"};
    struct redis_world world;
    struct redis_follower a;
    uint32_t n_syncs;

    (void)state;
    redis_follower_server(&world);
    redis_follower_start(&a, &world, 'a');
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_true(redis_follower_knows(&a, 1, WP_RECORD_NONE, 0)); /* Its own. */
    n_syncs = redis_follower_count(&a, &a.n_syncs);
    wp_lease_redis_read_again(a.redis, &unknown);
    wp_lease_redis_read_again(a.redis, &redis_world_pools[0]);
    WAIT_UNTIL(redis_follower_count(&a, &a.n_syncs) > n_syncs);
    assert_true(redis_follower_knows(&a, 1, WP_RECORD_OPEN, 0));
    redis_follower_stop(&a);
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
    uint64_t fences[REDIS_FOLLOWER_UIDS] = {0};
    struct redis_world world;
    struct redis_follower replicas[2];
    struct wp_rng rng;

    (void)state;
    wp_rng_init(&rng, 99);
    redis_follower_server(&world);
    redis_follower_start(&replicas[0], &world, 'a');
    redis_follower_start(&replicas[1], &world, 'b');
    for (int i = 0; i < STEPS; i++) {
        uint8_t uid =
            (uint8_t)(1 + wp_rng_below(&rng, REDIS_FOLLOWER_UIDS - 1));
        enum wp_lease_op_kind kind =
            kinds[wp_rng_below(&rng, WP_ARRAY_LEN(kinds))];

        fences[uid] += kind == WP_LEASE_GRANT ? 1 : 0;
        (void)redis_follower_commit(&replicas[wp_rng_below(&rng, 2)], kind, uid,
                                    fences[uid]);
        if (i % 200 == 0) {
            (void)redis_rig_must(&world.rig, 0, "CLIENT KILL TYPE pubsub");
        }
    }
    for (uint8_t uid = 1; uid < REDIS_FOLLOWER_UIDS; uid++) {
        struct wp_lease_record found = {.state = WP_RECORD_NONE};
        struct wp_lease_op op = redis_world_op_of(WP_LEASE_FETCH, uid, 0);

        op.claim_id = WP_STR("");
        op.found = &found;
        (void)redis_world_commit(&replicas[0].store, &op);
        /* A replica does not hear of its own changes, only reads them: cut once
         * more, and both have read all. */
        for (int i = 0; uid == 1 && i < 2; i++) {
            uint32_t before =
                redis_follower_count(&replicas[i], &replicas[i].n_syncs);

            (void)redis_rig_must(&world.rig, 0, "CLIENT KILL TYPE pubsub");
            WAIT_UNTIL(redis_follower_count(&replicas[i],
                                            &replicas[i].n_syncs) > before);
        }
        for (int i = 0; i < 2; i++) {
            WAIT_UNTIL(found.state == WP_RECORD_NONE ||
                       redis_follower_knows(&replicas[i], uid, found.state,
                                            found.fence));
            WAIT_UNTIL(found.state != WP_RECORD_NONE ||
                       replicas[i].copy[uid].state == WP_RECORD_NONE);
        }
    }
    redis_follower_stop(&replicas[0]);
    redis_follower_stop(&replicas[1]);
    redis_rig_fini(&world.rig);
}

static struct wp_lease_redis_stats
stats_of(const struct redis_follower *replica)
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
    struct redis_follower a;
    uint64_t before;
    uint32_t synced;

    (void)state;
    redis_follower_server(&world);
    redis_follower_start(&a, &world, 'a');
    (void)redis_rig_must(&world.rig, 0, "ACL SETUSER default -hscan");
    synced = redis_follower_count(&a, &a.n_syncs);
    before = connections_received(&world);
    wp_lease_redis_read_again(a.redis, &redis_world_pools[0]);
    WAIT_UNTIL(stats_of(&a).sync_failures >= 5);
    assert_true(connections_received(&world) - before < 5);
    assert_int_equal(redis_follower_count(&a, &a.n_syncs), synced);
    (void)redis_rig_must(&world.rig, 0, "ACL SETUSER default +hscan");
    WAIT_UNTIL(redis_follower_count(&a, &a.n_syncs) > synced);
    redis_follower_stop(&a);
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
        cmocka_unit_test(test_copies_survive_cuts),
    };

    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
