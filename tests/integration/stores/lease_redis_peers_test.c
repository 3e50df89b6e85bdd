/* Replicas on one Redis: who is there, and recovery by all who are. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/stores/redis_follower.h"

/* Again and again, as the daemon does: UNAVAILABLE while the feed still listens
 * to the server process of before. */
static void
begin_recovery(const struct redis_follower *replica)
{
    struct wp_err err;

    WAIT_UNTIL(wp_lease_redis_in_doubt(replica->redis, &redis_world_pools[0]));
    WAIT_UNTIL(wp_lease_redis_begin_recovery(
                   replica->redis, &redis_world_pools[0], &err) == WP_OK);
}

static void
end_recovery(const struct redis_follower *replica)
{
    struct wp_err err;

    assert_int_equal(
        wp_lease_redis_end_assert(replica->redis, &redis_world_pools[0], &err),
        WP_OK);
}

static bool
is_open(const struct redis_follower *replica)
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
    struct redis_follower a;
    struct redis_follower b;
    struct wp_err err;
    uint32_t n_syncs;

    (void)state;
    redis_follower_server(&world);
    redis_follower_start(&a, &world, 'a');
    redis_follower_start(&b, &world, 'b');
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_GRANT, 1, 1), WP_OK);
    WAIT_UNTIL(redis_follower_knows(&b, 1, WP_RECORD_HELD, 1));
    held = b.copy[1];
    n_syncs = redis_follower_count(&b, &b.n_syncs);
    (void)redis_rig_must(&world.rig, 0, "FLUSHALL");
    (void)redis_rig_must(&world.rig, 0, "CLIENT KILL TYPE pubsub");
    begin_recovery(&b);
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_GRANT, 1, 2),
                     WP_UNAVAILABLE);
    begin_recovery(&a);
    end_recovery(&a);
    assert_int_equal(wp_lease_redis_assert_record(b.redis, &held, &err), WP_OK);
    end_recovery(&b);
    WAIT_UNTIL(is_open(&b));
    WAIT_UNTIL(is_open(&a));
    WAIT_UNTIL(redis_follower_count(&b, &b.n_syncs) > n_syncs);
    assert_int_equal(redis_follower_count(&b, &b.n_let_go), 0);
    assert_true(redis_follower_knows(&b, 1, WP_RECORD_HELD, 1));
    redis_follower_stop(&a);
    redis_follower_stop(&b);
    redis_rig_fini(&world.rig);
}

/* Who knows how many others there are waits for these, and no longer. */
static void
test_all_that_are_there_are_waited_for(void **state)
{
    struct redis_world world;
    struct redis_follower a;
    struct redis_follower b;

    (void)state;
    redis_followers_known = true;
    redis_follower_server(&world);
    redis_follower_start(&a, &world, 'a');
    redis_follower_start(&b, &world, 'b');
    redis_followers_known = false;
    WAIT_UNTIL(wp_lease_redis_peers(a.redis, NULL, 0) == 1 &&
               wp_lease_redis_peers(b.redis, NULL, 0) == 1);
    for (int i = 0; i < 3; i++) {
        redis_rig_kill(&world.rig, 0, SIGKILL);
        redis_rig_restart(&world.rig, 0);
        begin_recovery(&a);
        begin_recovery(&b);
        end_recovery(&a);
        end_recovery(&b);
        redis_followers_others = 2;
        assert_false(is_open(&a));
        redis_followers_others = 1;
        WAIT_UNTIL(is_open(&a));
        WAIT_UNTIL(is_open(&b));
    }
    redis_follower_stop(&a);
    redis_follower_stop(&b);
    redis_rig_fini(&world.rig);
}

static void
test_heartbeats(void **state)
{
    struct wp_lease_redis_peer peers[4];
    struct redis_world world;
    struct redis_follower a;
    struct redis_follower b;

    (void)state;
    redis_follower_server(&world);
    redis_follower_start(&a, &world, 'a');
    redis_follower_start(&b, &world, 'b');
    WAIT_UNTIL(wp_lease_redis_peers(a.redis, peers, 4) == 1);
    assert_int_equal(peers[0].replica_id[0], 'b');
    assert_string_equal(peers[0].host, "host.example");
    wp_lease_redis_set_state(b.redis, 12, true);
    WAIT_UNTIL(wp_lease_redis_peers(a.redis, peers, 4) == 1 &&
               peers[0].waiting == 12);
    assert_true(peers[0].keeper);
    assert_false(peers[0].leaves);
    WAIT_UNTIL(redis_follower_count(&a, &a.peers_heard) >= 2);
    wp_lease_redis_leave(b.redis);
    WAIT_UNTIL(wp_lease_redis_peers(a.redis, peers, 4) == 1 && peers[0].leaves);
    assert_true(peers[0].keeper);
    assert_int_equal(peers[0].waiting, 12);
    assert_int_equal(redis_follower_count(&a, &a.peers_gone), 0);
    redis_follower_stop(&b);
    WAIT_UNTIL(redis_follower_count(&a, &a.peers_gone) == 1);
    assert_int_equal(wp_lease_redis_peers(a.redis, peers, 4), 0);
    redis_follower_stop(&a);
    redis_rig_fini(&world.rig);
}

/* Who uses another database of the server is no replica, though channels are
 * one for all databases. */
static void
test_other_databases_are_not_heard(void **state)
{
    struct redis_world world;
    struct redis_follower a;
    struct redis_follower b;
    struct redis_follower z;

    (void)state;
    redis_follower_server(&world);
    redis_follower_start(&z, &world, REDIS_FOLLOWER_ELSEWHERE);
    redis_follower_start(&a, &world, 'a');
    redis_follower_start(&b, &world, 'b');
    assert_int_equal(redis_follower_commit(&z, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(redis_follower_commit(&a, WP_LEASE_OFFER, 2, 0), WP_OK);
    WAIT_UNTIL(redis_follower_knows(&b, 2, WP_RECORD_OPEN, 0));
    WAIT_UNTIL(wp_lease_redis_peers(a.redis, NULL, 0) > 0 &&
               wp_lease_redis_peers(b.redis, NULL, 0) > 0);
    /* Several heartbeats of each. */
    (void)usleep(500 * 1000);
    assert_int_equal(wp_lease_redis_peers(z.redis, NULL, 0), 0);
    assert_int_equal(wp_lease_redis_peers(a.redis, NULL, 0), 1);
    assert_int_equal(redis_follower_count(&b, &b.n_heard), 1);
    assert_int_equal(redis_follower_count(&z, &z.n_heard), 0);
    redis_follower_stop(&a);
    redis_follower_stop(&b);
    redis_follower_stop(&z);
    redis_rig_fini(&world.rig);
}

/* While Redis is away nobody is taken for gone: who recovers first has to wait
 * for the others. */
static void
test_peers_survive_an_outage(void **state)
{
    struct redis_world world;
    struct redis_follower a;
    struct redis_follower b;

    (void)state;
    redis_follower_server(&world);
    redis_follower_start(&a, &world, 'a');
    redis_follower_start(&b, &world, 'b');
    WAIT_UNTIL(wp_lease_redis_peers(a.redis, NULL, 0) == 1);
    redis_rig_kill(&world.rig, 0, SIGKILL);
    (void)usleep(3500 * 1000); /* Longer than silence is tolerated. */
    assert_int_equal(wp_lease_redis_peers(a.redis, NULL, 0), 1);
    redis_rig_restart(&world.rig, 0);
    wp_lease_redis_set_state(b.redis, 77, false);
    WAIT_UNTIL(redis_follower_count(&a, &a.peer.waiting) == 77);
    assert_int_equal(redis_follower_count(&a, &a.peers_gone), 0);
    redis_follower_stop(&a);
    redis_follower_stop(&b);
    redis_rig_fini(&world.rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_redis_forgot_is_not_let_go),
        cmocka_unit_test(test_all_that_are_there_are_waited_for),
        cmocka_unit_test(test_heartbeats),
        cmocka_unit_test(test_other_databases_are_not_heard),
        cmocka_unit_test(test_peers_survive_an_outage),
    };

    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
