/* The Redis store against a real redis-server: the rules of commits, and what
 * happens when the server or the way to it fails. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <unistd.h>

#include "pool/base/rng.h"
#include "pool/leases/rules.h"
#include "tests/support/stores/redis_world.h"

/* --- the scripts are the rules --- */

enum {
    MODEL_UIDS = 4,
    MODEL_CLAIMS = 3,
};

static struct wp_lease_record *
claimed_by(struct wp_lease_record *records, const struct wp_lease_op *op)
{
    for (int i = 0; i < MODEL_UIDS; i++) {
        if (wp_record_is_claimed(records[i].state) &&
            wp_str_is(op->claim_id, records[i].claim_id) &&
            wp_str_is(op->tenant, records[i].tenant)) {
            return &records[i];
        }
    }
    return NULL;
}

static struct wp_lease_op
random_op(struct wp_rng *rng)
{
    static const char *const claims[MODEL_CLAIMS] = {"a", "b", "\xC3\xA9 c"};
    static const char *const tenants[2] = {"", "t"};
    struct wp_lease_op op = redis_world_op_of(
        (enum wp_lease_op_kind)wp_rng_below(rng, WP_LEASE_FORGET + 1),
        (uint8_t)(1 + wp_rng_below(rng, MODEL_UIDS)), wp_rng_below(rng, 4));

    /* Far enough apart that a comparison as numbers would lose the last. */
    if (wp_rng_below(rng, 2) == 0) {
        op.fence += UINT64_MAX - 4;
    }
    op.deadline_wall_ms = (int64_t)wp_rng_below(rng, 2) +
                          (wp_rng_below(rng, 2) == 0 ? INT64_C(1) << 60 : 0);
    op.granted_wall_ms = (int64_t)wp_rng_below(rng, 1000);
    op.served = (uint32_t)wp_rng_below(rng, 3);
    op.fingerprint = wp_rng_next(rng);
    op.claim_id = wp_str_from(claims[wp_rng_below(rng, MODEL_CLAIMS)]);
    op.tenant = wp_str_from(tenants[wp_rng_below(rng, 2)]);
    op.endpoint = wp_rng_below(rng, 2) == 0 ? WP_STR("") : op.endpoint;
    op.reason = wp_rng_below(rng, 2) == 0 ? WP_STR("") : op.reason;
    if (op.kind == WP_LEASE_FETCH && wp_rng_below(rng, 2) == 0) {
        op.claim_id = WP_STR("");
    }
    return op;
}

static void
model_step(const struct redis_world *world, struct wp_lease_record *records,
           struct wp_rng *rng, int step)
{
    struct wp_lease_op op = random_op(rng);
    struct wp_lease_record *record = &records[op.uid[0] - 1];
    struct wp_lease_record *claimed = claimed_by(records, &op);
    struct wp_lease_record found;
    struct wp_lease_record none = {.state = WP_RECORD_NONE};
    enum wp_status expected;
    enum wp_status got;

    memset(&found, 0, sizeof found);
    op.found = &found;
    if (op.kind == WP_LEASE_FETCH && op.claim_id.len > 0) {
        record = claimed != NULL ? claimed : &none;
    }
    got = redis_world_commit(&world->store, &op);
    expected = wp_lease_rules_apply(&op, claimed, record);
    if (got != expected) {
        fail_msg("step %d: op %d gives %s, not %s", step, op.kind,
                 wp_status_name(got), wp_status_name(expected));
    }
    if ((op.kind == WP_LEASE_FETCH && got == WP_OK) ||
        (op.kind == WP_LEASE_EXPIRE && got == WP_ABORTED)) {
        assert_memory_equal(&found, record, sizeof found);
    }
    if (record->state == WP_RECORD_NONE) {
        memset(record, 0, sizeof *record);
        return;
    }
    assert_int_equal(redis_world_fetch(world, record->uid[0], &found), WP_OK);
    assert_memory_equal(&found, record, sizeof found);
}

/* Random commits end as the rules say, and leave the record they say. */
static void
test_scripts_obey_the_rules(void **state)
{
    static const int steps = 6000;
    struct wp_lease_record records[MODEL_UIDS];
    struct redis_world world;
    struct wp_rng rng;

    (void)state;
    memset(records, 0, sizeof records);
    wp_rng_init(&rng, 20260401);
    redis_world_start(&world, NULL);
    for (int i = 0; i < steps; i++) {
        model_step(&world, records, &rng, i);
    }
    assert_int_equal(redis_world_stats_of(&world).corrupt, 0);
    assert_int_equal(redis_world_stats_of(&world).errors, 0);
    redis_world_stop(&world);
}

/* --- Redis fails --- */

static void
test_killed_server_and_restart(void **state)
{
    struct redis_world world;
    struct wp_err err;

    (void)state;
    redis_world_start(&world, "appendonly yes\nappendfsync always\n");
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_GRANT, 1, 1), WP_OK);
    redis_rig_kill(&world.rig, 0, SIGKILL);
    WAIT_UNTIL(redis_world_stats_of(&world).redis.links_up == 0);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 2, 0),
                     WP_UNAVAILABLE);
    redis_rig_restart(&world.rig, 0);
    /* Another process: it may have lost something. */
    WAIT_UNTIL(world.doubts == REDIS_WORLD_POOLS);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 2, 0),
                     WP_UNAVAILABLE);
    redis_world_wait_until_up(&world);
    for (size_t i = 0; i < REDIS_WORLD_POOLS; i++) {
        assert_int_equal(wp_lease_redis_begin_recovery(
                             world.redis, &redis_world_pools[i], &err),
                         WP_OK);
        assert_int_equal(
            wp_lease_redis_end_assert(world.redis, &redis_world_pools[i], &err),
            WP_OK);
        assert_int_equal(wp_lease_redis_open_generation(
                             world.redis, &redis_world_pools[i], NULL, 0, &err),
                         WP_OK);
    }
    assert_int_equal(redis_world_stats_of(&world).in_doubt, 0);
    /* What was acknowledged is there. */
    assert_int_equal(redis_world_state_of(&world, 1), WP_RECORD_HELD);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_RELEASE, 1, 1), WP_OK);
    assert_int_equal(redis_world_state_of(&world, 2), WP_RECORD_NONE);
    redis_world_stop(&world);
}

/* Commits that nobody answers end within the limit, and later ones at once. */
static void
test_silent_server(void **state)
{
    struct wp_lease_redis_config config;
    struct redis_world world;
    int64_t from_ns;

    (void)state;
    memset(&world, 0, sizeof world);
    redis_world_start_server(&world, NULL, NULL);
    config = redis_world_config_of(&world);
    config.redis.commit_timeout_ns = 300 * WP_NS_PER_MS;
    config.redis.connect_timeout_ns = 300 * WP_NS_PER_MS;
    redis_world_open_store(&world, &config);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    redis_rig_kill(&world.rig, 0, SIGSTOP);
    from_ns = wp_clock_mono_ns(wp_clock_system());
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_GRANT, 1, 1),
                     WP_UNKNOWN_OUTCOME);
    assert_true(wp_clock_mono_ns(wp_clock_system()) - from_ns >=
                300 * WP_NS_PER_MS);
    assert_true(redis_world_stats_of(&world).redis.breaker_open);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 2, 0),
                         WP_UNAVAILABLE);
    }
    assert_true(redis_world_stats_of(&world).redis.timeouts > 0);
    redis_rig_kill(&world.rig, 0, SIGCONT);
    WAIT_UNTIL(!redis_world_stats_of(&world).redis.breaker_open);
    redis_world_wait_until_up(&world);
    /* The same process: nothing was lost, and the store tells the outcome. */
    assert_int_equal(world.doubts, 0);
    assert_int_equal(redis_world_state_of(&world, 1), WP_RECORD_HELD);
    /* Before the links were used again, it was told to drop the ones given up,
     * with whatever it had not read of them. */
    assert_non_null(strstr(redis_rig_must(&world.rig, 0, "INFO commandstats"),
                           "cmdstat_client|kill:calls="));
    redis_world_stop(&world);
}

/* The same after a rest, in which the reader sleeps until somebody wakes it. */
static void
test_silent_after_a_rest(void **state)
{
    const struct timespec rest = {.tv_sec = 2, .tv_nsec = 300000000};
    struct wp_lease_redis_config config;
    struct redis_world world;

    (void)state;
    memset(&world, 0, sizeof world);
    redis_world_start_server(&world, NULL, NULL);
    config = redis_world_config_of(&world);
    config.redis.commit_timeout_ns = 300 * WP_NS_PER_MS;
    redis_world_open_store(&world, &config);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    (void)nanosleep(&rest, NULL);
    redis_rig_kill(&world.rig, 0, SIGSTOP);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_GRANT, 1, 1),
                     WP_UNKNOWN_OUTCOME);
    redis_rig_kill(&world.rig, 0, SIGCONT);
    redis_world_wait_until_up(&world);
    assert_int_equal(redis_world_state_of(&world, 1), WP_RECORD_HELD);
    redis_world_stop(&world);
}

static void
test_cut_connections(void **state)
{
    struct redis_world world;

    (void)state;
    redis_world_start(&world, NULL);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    for (int i = 0; i < 5; i++) {
        uint64_t before = redis_world_stats_of(&world).redis.disconnects;

        (void)redis_rig_must(&world.rig, 0, "CLIENT KILL TYPE normal");
        WAIT_UNTIL(redis_world_stats_of(&world).redis.disconnects >=
                   before + 3);
        redis_world_wait_until_up(&world);
        assert_int_equal(redis_world_state_of(&world, 1), WP_RECORD_OPEN);
    }
    assert_int_equal(world.doubts, 0);
    redis_world_stop(&world);
}

static void
test_lost_scripts_are_sent_again(void **state)
{
    struct redis_world world;

    (void)state;
    redis_world_start(&world, NULL);
    (void)redis_rig_must(&world.rig, 0, "SCRIPT FLUSH");
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_GRANT, 1, 1), WP_OK);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_RENEW, 1, 1), WP_OK);
    assert_int_equal(redis_world_stats_of(&world).noscript, 1);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_RELEASE, 1, 1), WP_OK);
    assert_int_equal(redis_world_stats_of(&world).noscript, 1);
    redis_world_stop(&world);
}

/* Nothing new, but leases can end. */
static void
test_full_memory(void **state)
{
    struct redis_world world;

    (void)state;
    redis_world_start(&world, NULL);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 2, 0), WP_OK);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_GRANT, 1, 1), WP_OK);
    (void)redis_rig_must(&world.rig, 0, "CONFIG SET maxmemory 1");
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 3, 0),
                     WP_UNAVAILABLE);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_GRANT, 2, 1),
                     WP_ALREADY_EXISTS);
    assert_true(redis_world_stats_of(&world).errors > 0);
    assert_int_equal(redis_world_state_of(&world, 1), WP_RECORD_HELD);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_RELEASE, 1, 1), WP_OK);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_GRANT, 2, 1),
                     WP_UNAVAILABLE);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_FORGET, 1, 1), WP_OK);
    assert_int_equal(redis_world_state_of(&world, 1), WP_RECORD_NONE);
    assert_int_equal(redis_world_state_of(&world, 2), WP_RECORD_OPEN);
    (void)redis_rig_must(&world.rig, 0, "CONFIG SET maxmemory 0");
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_GRANT, 2, 1), WP_OK);
    redis_world_stop(&world);
}

static void
test_read_only_server(void **state)
{
    struct redis_world world;

    (void)state;
    redis_world_start(&world, NULL);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    (void)redis_rig_must(&world.rig, 0, "REPLICAOF 127.0.0.1 1");
    WAIT_UNTIL(redis_world_do_op(&world, WP_LEASE_OFFER, 2, 0) ==
               WP_UNAVAILABLE);
    (void)redis_rig_must(&world.rig, 0, "REPLICAOF NO ONE");
    WAIT_UNTIL(redis_world_do_op(&world, WP_LEASE_OFFER, 2, 0) == WP_OK);
    redis_world_stop(&world);
}

/* What a thread of its own link leaves unflushed goes out a little later. */
static void
test_a_forgotten_flush(void **state)
{
    struct redis_world world;

    (void)state;
    redis_world_start(&world, NULL);
    world.store.ops->flush(world.store.self); /* From now on it has a link. */
    for (uint8_t uid = 1; uid < 4; uid++) {
        assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, uid, 0),
                         WP_OK);
    }
    redis_world_stop(&world);
}

static _Atomic(uint32_t) n_unknown;

static void
count_unknown(struct wp_lease_op *op, enum wp_status status)
{
    (void)op;
    assert_int_equal(status, WP_UNKNOWN_OUTCOME);
    (void)atomic_fetch_add(&n_unknown, 1);
}

/* No more calls in flight than allowed; all of them end when Redis is silent. */
static void
test_bounded_calls_in_flight(void **state)
{
    enum {
        BOUND = 8
    };
    struct wp_lease_op ops[BOUND + 2];
    struct wp_lease_redis_config config;
    struct redis_world world;

    (void)state;
    memset(&world, 0, sizeof world);
    redis_world_start_server(&world, NULL, NULL);
    config = redis_world_config_of(&world);
    config.redis.pending_max = BOUND;
    redis_world_open_store(&world, &config);
    redis_rig_kill(&world.rig, 0, SIGSTOP);
    for (uint8_t i = 0; i < BOUND + 2; i++) {
        ops[i] = redis_world_op_of(WP_LEASE_OFFER, i, 0);
        ops[i].done = count_unknown;
        assert_int_equal(world.store.ops->commit(world.store.self, &ops[i]),
                         i < BOUND ? WP_PENDING : WP_UNAVAILABLE);
    }
    WAIT_UNTIL(atomic_load(&n_unknown) == BOUND);
    assert_int_equal(redis_world_stats_of(&world).redis.full, 2);
    redis_rig_kill(&world.rig, 0, SIGCONT);
    redis_world_wait_until_up(&world);
    redis_world_stop(&world);
}

static void
pass_over(void *ctx, const struct wp_lease_record *record)
{
    (void)ctx;
    (void)record;
}

/* --- logging in, and the configuration --- */

static void
test_passwords(void **state)
{
    struct wp_lease_redis_config config;
    struct redis_world world;
    struct wp_err err;

    (void)state;
    memset(&world, 0, sizeof world);
    redis_world_start_server(&world, NULL, "sesame");
    config = redis_world_config_of(&world);
    config.redis.db = 3;
    redis_world_open_store(&world, &config);
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    wp_lease_redis_destroy(world.redis);

    (void)redis_rig_must(&world.rig, 0,
                         "ACL SETUSER pool on >other ~warmpool:* &* +@all");
    config.redis.user = "pool";
    config.redis.password = "other";
    redis_world_open_store(&world, &config);
    assert_int_equal(redis_world_state_of(&world, 1), WP_RECORD_OPEN);
    wp_lease_redis_destroy(world.redis);

    /* A login that may not see whether it is the same server is no use. */
    (void)redis_rig_must(&world.rig, 0, "ACL SETUSER pool -info");
    assert_int_equal(wp_lease_redis_create(&config, &world.redis, &err), WP_OK);
    world.store = wp_lease_redis_store(world.redis);
    assert_int_equal(world.store.ops->load(world.redis, pass_over, NULL, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "INFO"));
    wp_lease_redis_destroy(world.redis);

    config.redis.password = "swordfish";
    assert_int_equal(wp_lease_redis_create(&config, &world.redis, &err), WP_OK);
    world.store = wp_lease_redis_store(world.redis);
    assert_int_equal(world.store.ops->load(world.redis, pass_over, NULL, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "WRONGPASS"));
    assert_null(strstr(err.msg, "swordfish"));
    assert_int_equal(redis_world_do_op(&world, WP_LEASE_OFFER, 2, 0),
                     WP_UNAVAILABLE);
    redis_world_stop(&world);
}

static void
test_tcp_and_pages_of_records(void **state)
{
    enum {
        N = 1500
    };
    struct wp_lease_redis_config config;
    struct redis_world world;

    (void)state;
    memset(&world, 0, sizeof world);
    redis_world_start_server(&world, NULL, NULL);
    config = redis_world_config_of(&world);
    config.redis.server = (struct wp_redis_server){
        .host = "127.0.0.1", .port = world.rig.servers[0].port};
    redis_world_open_store(&world, &config);
    assert_int_equal(world.loaded, 0);
    for (uint32_t i = 0; i < N; i++) {
        struct wp_lease_op op = redis_world_op_of(WP_LEASE_OFFER, 0, 0);

        memcpy(op.uid, &i, sizeof i);
        assert_int_equal(redis_world_commit(&world.store, &op), WP_OK);
    }
    wp_lease_redis_destroy(world.redis);
    redis_world_open_store(&world, &config);
    assert_int_equal(world.loaded, N);
    redis_world_stop(&world);
}

static void
test_refused_configurations(void **state)
{
    struct wp_lease_redis_pool twice[] = {{"a", "b"}, {"a", "b"}};
    struct wp_lease_redis_config config = {.pools = twice, .n_pools = 2};
    struct wp_lease_redis *redis = NULL;
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_lease_redis_create(&config, &redis, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "named twice"));
    config.n_pools = 0;
    assert_int_equal(wp_lease_redis_create(&config, &redis, &err),
                     WP_INVALID_ARGUMENT);
    config.n_pools = 1;
    config.prefix = "a{b";
    assert_int_equal(wp_lease_redis_create(&config, &redis, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "prefix"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scripts_obey_the_rules),
        cmocka_unit_test(test_killed_server_and_restart),
        cmocka_unit_test(test_silent_server),
        cmocka_unit_test(test_silent_after_a_rest),
        cmocka_unit_test(test_cut_connections),
        cmocka_unit_test(test_lost_scripts_are_sent_again),
        cmocka_unit_test(test_full_memory),
        cmocka_unit_test(test_read_only_server),
        cmocka_unit_test(test_a_forgotten_flush),
        cmocka_unit_test(test_bounded_calls_in_flight),
        cmocka_unit_test(test_passwords),
        cmocka_unit_test(test_tcp_and_pages_of_records),
        cmocka_unit_test(test_refused_configurations),
    };

    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
