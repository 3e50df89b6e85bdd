/* A Redis that has forgotten, and the steps that make it know again. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <unistd.h>

#include "allocator/stores/redis/impl.h"
#include "tests/support/stores/redis_world.h"

static void
recover(const struct redis_world *world, const struct wp_lease_redis_pool *pool)
{
    struct wp_err err;

    if (wp_lease_redis_begin_recovery(world->redis, pool, &err) != WP_OK ||
        wp_lease_redis_end_assert(world->redis, pool, &err) != WP_OK ||
        wp_lease_redis_open_generation(world->redis, pool, NULL, 0, &err) !=
            WP_OK) {
        fail_msg("%s", err.msg);
    }
}

/* Two processes on one server, which are replicas to each other. */
static void
start_two(struct redis_world *a, struct redis_world *b)
{
    struct wp_lease_redis_config config;

    redis_world_start(a, NULL);
    memset(b, 0, sizeof *b);
    b->rig = a->rig;
    config = redis_world_config_of(b);
    config.replica_id[0] = 'b';
    redis_world_open_store(b, &config);
}

static void
test_flushed_server_is_recovered(void **state)
{
    struct wp_lease_record held;
    struct wp_lease_record open;
    struct wp_lease_record found;
    struct redis_world world;
    struct wp_err err;

    (void)state;
    redis_world_start(&world, NULL);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 2, 0), WP_OK);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_GRANT, 1, 5), WP_OK);
    assert_int_equal(redis_world_fetch(&world, 1, &held), WP_OK);
    assert_int_equal(redis_world_fetch(&world, 2, &open), WP_OK);
    (void)redis_rig_must(&world.rig, 0, "FLUSHALL");
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_GRANT, 2, 1),
                     WP_UNAVAILABLE);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 3, 0),
                     WP_UNAVAILABLE);
    assert_int_equal(world.doubts, 1);
    assert_int_equal(redis_world_stats_of(&world).in_doubt, 1);

    assert_int_equal(wp_lease_redis_assert_record(world.redis, &held, &err),
                     WP_FAILED_PRECONDITION);
    assert_int_equal(
        wp_lease_redis_begin_recovery(world.redis, &redis_world_pools[0], &err),
        WP_OK);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 3, 0),
                     WP_UNAVAILABLE);
    for (int i = 0; i < 2; i++) { /* Twice is as good as once. */
        assert_int_equal(wp_lease_redis_assert_record(world.redis, &held, &err),
                         WP_OK);
        assert_int_equal(wp_lease_redis_assert_record(world.redis, &open, &err),
                         WP_OK);
    }
    /* Nobody has said yet that this is all. */
    assert_int_equal(wp_lease_redis_open_generation(
                         world.redis, &redis_world_pools[0], NULL, 0, &err),
                     WP_PENDING);
    assert_int_equal(
        wp_lease_redis_end_assert(world.redis, &redis_world_pools[0], &err),
        WP_OK);
    assert_int_equal(wp_lease_redis_open_generation(
                         world.redis, &redis_world_pools[0], NULL, 0, &err),
                     WP_OK);
    assert_int_equal(redis_world_stats_of(&world).in_doubt, 0);
    assert_int_equal(redis_world_fetch(&world, 1, &found), WP_OK);
    assert_memory_equal(&found, &held, sizeof found);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_GRANT, 2, 1),
                     WP_ALREADY_EXISTS);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_RELEASE, 1, 5), WP_OK);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_GRANT, 2, 1), WP_OK);
    redis_world_stop(&world);
}

/* What Redis knows already is not overwritten by what is older or in conflict.
 */
static void
test_assertions_only_add(void **state)
{
    struct wp_lease_record held;
    struct wp_lease_record other;
    struct wp_lease_record found;
    struct redis_world world;
    struct wp_err err;

    (void)state;
    redis_world_start(&world, NULL);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 2, 0), WP_OK);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_GRANT, 1, 5), WP_OK);
    assert_int_equal(redis_world_fetch(&world, 1, &held), WP_OK);
    assert_int_equal(
        wp_lease_redis_begin_recovery(world.redis, &redis_world_pools[0], &err),
        WP_OK);
    other = held;
    other.fence = 4;
    assert_int_equal(wp_lease_redis_assert_record(world.redis, &other, &err),
                     WP_ABORTED);
    other = held;
    other.state = WP_RECORD_OPEN;
    assert_int_equal(wp_lease_redis_assert_record(world.redis, &other, &err),
                     WP_ABORTED);
    other = held;
    other.deadline_wall_ms -= 1;
    assert_int_equal(wp_lease_redis_assert_record(world.redis, &other, &err),
                     WP_ABORTED);
    other = held;
    other.deadline_wall_ms += 1;
    (void)snprintf(other.claim_id, sizeof other.claim_id, "another");
    assert_int_equal(wp_lease_redis_assert_record(world.redis, &other, &err),
                     WP_ABORTED);
    other = held;
    memset(other.uid, 2, sizeof other.uid);
    assert_int_equal(wp_lease_redis_assert_record(world.redis, &other, &err),
                     WP_ALREADY_EXISTS);
    /* A renewal that Redis has lost, then an end. */
    held.deadline_wall_ms += 1;
    assert_int_equal(wp_lease_redis_assert_record(world.redis, &held, &err),
                     WP_OK);
    recover(&world, &redis_world_pools[0]);
    assert_int_equal(redis_world_fetch(&world, 1, &found), WP_OK);
    assert_memory_equal(&found, &held, sizeof found);
    assert_int_equal(
        wp_lease_redis_begin_recovery(world.redis, &redis_world_pools[0], &err),
        WP_OK);
    other = held;
    other.state = WP_RECORD_ENDED;
    assert_int_equal(wp_lease_redis_assert_record(world.redis, &other, &err),
                     WP_OK);
    recover(&world, &redis_world_pools[0]);
    assert_int_equal(redis_world_state_of(&world, 1), WP_RECORD_ENDED);
    /* Its claim is free again. */
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_GRANT, 2, 1), WP_OK);
    redis_world_stop(&world);
}

/* A replica that was away while the others recovered closes the pool again. */
static void
test_recovery_by_two(void **state)
{
    struct wp_lease_redis_peer peers[2];
    struct redis_world a;
    struct redis_world b;
    struct wp_err err;

    (void)state;
    start_two(&a, &b);
    memset(peers, 0, sizeof peers);
    peers[1].replica_id[0] = 'b';
    (void)redis_rig_must(&a.rig, 0, "FLUSHALL");
    assert_int_equal(redis_world_do_op(&a, WP_LEASE_OFFER, 1, 0),
                     WP_UNAVAILABLE);
    assert_int_equal(
        wp_lease_redis_begin_recovery(a.redis, &redis_world_pools[0], &err),
        WP_OK);
    assert_int_equal(
        wp_lease_redis_end_assert(a.redis, &redis_world_pools[0], &err), WP_OK);
    assert_int_equal(wp_lease_redis_open_generation(
                         a.redis, &redis_world_pools[0], peers, 2, &err),
                     WP_PENDING);
    /* b joins the same recovery. */
    assert_int_equal(redis_world_do_op(&b, WP_LEASE_OFFER, 1, 0),
                     WP_UNAVAILABLE);
    assert_int_equal(
        wp_lease_redis_begin_recovery(b.redis, &redis_world_pools[0], &err),
        WP_OK);
    assert_int_equal(
        wp_lease_redis_end_assert(b.redis, &redis_world_pools[0], &err), WP_OK);
    assert_int_equal(wp_lease_redis_open_generation(
                         a.redis, &redis_world_pools[0], peers, 2, &err),
                     WP_OK);
    assert_int_equal(wp_lease_redis_open_generation(
                         b.redis, &redis_world_pools[0], peers, 2, &err),
                     WP_OK);
    assert_int_equal(redis_world_do_op(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(redis_world_do_op(&b, WP_LEASE_GRANT, 1, 1), WP_OK);
    /* a alone: b finds another generation, and closes it again. */
    recover(&a, &redis_world_pools[0]);
    assert_int_equal(redis_world_do_op(&b, WP_LEASE_RENEW, 1, 1),
                     WP_UNAVAILABLE);
    assert_int_equal(b.doubts, 2);
    recover(&b, &redis_world_pools[0]);
    assert_int_equal(redis_world_do_op(&b, WP_LEASE_RENEW, 1, 1), WP_OK);
    assert_int_equal(redis_world_do_op(&a, WP_LEASE_RENEW, 1, 1),
                     WP_UNAVAILABLE);
    wp_lease_redis_destroy(b.redis);
    redis_world_stop(&a);
}

static _Atomic(int) late_status;

static void
on_late(struct wp_lease_op *op, enum wp_status status)
{
    (void)op;
    atomic_store(&late_status, (int)status);
}

/* The server was replaced while it stood still, and goes on later: what it says
 * then was not told in the recovery. */
static void
test_an_answer_after_the_doubt_promises_nothing(void **state)
{
    static const struct {
        enum wp_lease_op_kind kind;
        uint8_t uid;
        enum wp_status status;
    } ops[] = {
        {WP_LEASE_GRANT, 1, WP_UNKNOWN_OUTCOME},
        {WP_LEASE_GRANT, 9, WP_UNAVAILABLE}, /* There is no such sandbox. */
        {WP_LEASE_FETCH, 1, WP_UNAVAILABLE},
    };
    struct redis_world world;

    (void)state;
    redis_world_start(&world, NULL);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    for (size_t i = 0; i < WP_ARRAY_LEN(ops); i++) {
        struct wp_lease_op op = redis_world_op_of(ops[i].kind, ops[i].uid, 5);
        struct wp_lease_record found;

        op.found = &found;
        op.done = on_late;
        atomic_store(&late_status, -1);
        redis_rig_kill(&world.rig, 0, SIGSTOP);
        assert_int_equal(world.store.ops->commit(world.store.self, &op),
                         WP_PENDING);
        wp_redis_pool_doubt(world.redis, &world.redis->pools[0], 0);
        redis_rig_kill(&world.rig, 0, SIGCONT);
        WAIT_UNTIL(atomic_load(&late_status) != -1);
        assert_int_equal(atomic_load(&late_status), (int)ops[i].status);
        recover(&world, &redis_world_pools[0]);
    }
    /* It was done, as whoever asks now is told. */
    assert_int_equal(redis_world_state_of(&world, 1), WP_RECORD_HELD);
    redis_world_stop(&world);
}

/* The claim of a lease that is over has another sandbox since, and Redis has
 * forgotten both. */
static void
test_a_claims_second_lease_waits_for_the_end_of_the_first(void **state)
{
    const struct wp_lease_redis_pool *pool = &redis_world_pools[0];
    struct wp_lease_record first;
    struct wp_lease_record second;
    struct redis_world world;
    struct wp_err err;

    (void)state;
    redis_world_start(&world, NULL);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_GRANT, 1, 5), WP_OK);
    assert_int_equal(redis_world_fetch(&world, 1, &first), WP_OK);
    second = first;
    memset(second.uid, 2, sizeof second.uid);
    assert_int_equal(wp_lease_redis_begin_recovery(world.redis, pool, &err),
                     WP_OK);
    assert_int_equal(wp_lease_redis_assert_record(world.redis, &second, &err),
                     WP_ALREADY_EXISTS);
    assert_int_equal(wp_lease_redis_has_ended(world.redis, pool,
                                              world.redis->config.replica_id,
                                              &err),
                     WP_PENDING);
    first.state = WP_RECORD_ENDED;
    assert_int_equal(wp_lease_redis_assert_record(world.redis, &first, &err),
                     WP_OK);
    assert_int_equal(wp_lease_redis_assert_record(world.redis, &second, &err),
                     WP_OK);
    assert_int_equal(wp_lease_redis_end_assert(world.redis, pool, &err), WP_OK);
    assert_int_equal(wp_lease_redis_has_ended(world.redis, pool,
                                              world.redis->config.replica_id,
                                              &err),
                     WP_OK);
    assert_int_equal(
        wp_lease_redis_open_generation(world.redis, pool, NULL, 0, &err),
        WP_OK);
    assert_int_equal(wp_lease_redis_has_ended(world.redis, pool,
                                              world.redis->config.replica_id,
                                              &err),
                     WP_FAILED_PRECONDITION);
    assert_int_equal(redis_world_state_of(&world, 2), WP_RECORD_HELD);
    redis_world_stop(&world);
}

/* Told to one server process, it is begun again at the next. */
static void
test_a_recovery_does_not_go_on_at_another_server(void **state)
{
    const struct wp_lease_redis_pool *pool = &redis_world_pools[0];
    struct redis_world world;
    struct wp_err err;

    (void)state;
    redis_world_start(&world, NULL);
    assert_int_equal(wp_lease_redis_begin_recovery(world.redis, pool, &err),
                     WP_OK);
    /* As if it had been begun elsewhere. */
    (void)pthread_mutex_lock(&world.redis->admin_lock);
    world.redis->pools[0].restored_to[0] ^= 1;
    (void)pthread_mutex_unlock(&world.redis->admin_lock);
    assert_int_equal(wp_lease_redis_end_assert(world.redis, pool, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "another server process"));
    assert_int_equal(
        wp_lease_redis_open_generation(world.redis, pool, NULL, 0, &err),
        WP_FAILED_PRECONDITION);
    recover(&world, pool);
    redis_world_stop(&world);
}

/* A copy that was made in the midst of a recovery names replicas as having told
 * that may have been granted more since. */
static void
test_a_copy_of_a_recovery_is_begun_again(void **state)
{
    const struct wp_lease_redis_pool *pool = &redis_world_pools[0];
    struct wp_lease_redis_peer peer;
    struct redis_world a;
    struct redis_world b;
    struct wp_err err;

    (void)state;
    start_two(&a, &b);
    memset(&peer, 0, sizeof peer);
    memcpy(peer.replica_id, a.redis->config.replica_id, WP_REPLICA_ID_LEN);
    assert_int_equal(wp_lease_redis_begin_recovery(a.redis, pool, &err), WP_OK);
    assert_int_equal(wp_lease_redis_end_assert(a.redis, pool, &err), WP_OK);
    (void)redis_rig_must(&a.rig, 0, "SAVE");
    assert_int_equal(
        wp_lease_redis_open_generation(a.redis, pool, NULL, 0, &err), WP_OK);
    redis_rig_kill(&a.rig, 0, SIGKILL);
    WAIT_UNTIL(redis_world_stats_of(&a).redis.links_up == 0 &&
               redis_world_stats_of(&b).redis.links_up == 0);
    redis_rig_restart(&a.rig, 0);
    redis_world_wait_until_up(&a);
    redis_world_wait_until_up(&b);
    assert_int_equal(wp_lease_redis_begin_recovery(b.redis, pool, &err), WP_OK);
    assert_int_equal(wp_lease_redis_end_assert(b.redis, pool, &err), WP_OK);
    assert_int_equal(
        wp_lease_redis_open_generation(b.redis, pool, &peer, 1, &err),
        WP_PENDING);
    /* This process has closed it: here it is joined. */
    assert_int_equal(wp_lease_redis_begin_recovery(a.redis, pool, &err), WP_OK);
    assert_int_equal(wp_lease_redis_end_assert(a.redis, pool, &err), WP_OK);
    assert_int_equal(
        wp_lease_redis_open_generation(b.redis, pool, &peer, 1, &err), WP_OK);
    wp_lease_redis_destroy(b.redis);
    redis_world_stop(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flushed_server_is_recovered),
        cmocka_unit_test(test_an_answer_after_the_doubt_promises_nothing),
        cmocka_unit_test(
            test_a_claims_second_lease_waits_for_the_end_of_the_first),
        cmocka_unit_test(test_a_recovery_does_not_go_on_at_another_server),
        cmocka_unit_test(test_a_copy_of_a_recovery_is_begun_again),
        cmocka_unit_test(test_assertions_only_add),
        cmocka_unit_test(test_recovery_by_two),
    };

    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
