/* Commits that go to Redis together: each has its own outcome, as if it had
 * gone alone, whatever becomes of the command that they share. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pool/base/assert.h"
#include "pool/base/rng.h"
#include "pool/leases/rules.h"
#include "tests/support/stores/redis_world.h"

enum {
    OPS_MAX = 4096, /* As many as a link takes. */
    MODEL_UIDS = 6,
    MODEL_CLAIMS = 4,
};

/* Commits of this thread that are under way together. */
static struct together {
    struct wp_lease_op ops[OPS_MAX];
    struct wp_lease_record found[OPS_MAX];
    _Atomic(int) status[OPS_MAX];
    _Atomic(uint32_t) ended;
    uint32_t n;
} together;

static void
on_done(struct wp_lease_op *op, enum wp_status status)
{
    /* Exactly once. */
    WP_ASSERT(atomic_exchange(&together.status[op - together.ops], status) ==
              WP_PENDING);
    (void)atomic_fetch_add(&together.ended, 1);
}

static void
gather(const struct redis_world *world, const struct wp_lease_op *op)
{
    uint32_t i = together.n++;
    enum wp_status status;

    together.ops[i] = *op;
    together.ops[i].done = on_done;
    together.ops[i].found = &together.found[i];
    memset(&together.found[i], 0, sizeof together.found[i]);
    atomic_store(&together.status[i], WP_PENDING);
    status = world->store.ops->commit(world->store.self, &together.ops[i]);
    if (status != WP_PENDING) {
        on_done(&together.ops[i], status);
    }
}

static void
gather_op(const struct redis_world *world, enum wp_lease_op_kind kind,
          uint8_t uid, uint64_t fence)
{
    static char claims[UINT8_MAX + 1][16];
    struct wp_lease_op op = redis_world_op_of(kind, uid, fence);

    (void)snprintf(claims[uid], sizeof claims[uid], "claim-%u", uid);
    op.claim_id = wp_str_from(claims[uid]);
    gather(world, &op);
}

static void
begin(void)
{
    together.n = 0;
    atomic_store(&together.ended, 0);
}

/* Flushes, and waits for all. */
static void
end(const struct redis_world *world)
{
    world->store.ops->flush(world->store.self);
    WAIT_UNTIL(atomic_load(&together.ended) == together.n);
}

static enum wp_status
outcome(uint32_t i)
{
    return (enum wp_status)atomic_load(&together.status[i]);
}

static void
expect_all(enum wp_status status)
{
    for (uint32_t i = 0; i < together.n; i++) {
        if (outcome(i) != status) {
            fail_msg("commit %u of %u: %s, not %s", i, together.n,
                     wp_status_name(outcome(i)), wp_status_name(status));
        }
    }
}

/* From now on this thread has a link of its own, which gathers. */
static void
start(struct redis_world *world)
{
    redis_world_start(world, NULL);
    world->store.ops->flush(world->store.self);
}

static uint32_t
scripts_run(struct redis_world *world)
{
    const char *stats = redis_rig_must(&world->rig, 0, "INFO commandstats");
    const char *at = strstr(stats, "cmdstat_evalsha:calls=");

    return at == NULL ? 0
                      : (uint32_t)strtoul(at + strlen("cmdstat_evalsha:calls="),
                                          NULL, 10);
}

/* --- the same as one after the other --- */

static struct wp_lease_record *
claimed_by(struct wp_lease_record *records, const struct wp_lease_op *op)
{
    for (int i = 0; i < MODEL_UIDS; i++) {
        if (wp_record_is_claimed(records[i].state) &&
            wp_str_is(op->claim_id, records[i].claim_id)) {
            return &records[i];
        }
    }
    return NULL;
}

static struct wp_lease_op
random_op(struct wp_rng *rng)
{
    static const char *const claims[MODEL_CLAIMS] = {"a", "b", "cc", "d"};
    struct wp_lease_op op = redis_world_op_of(
        (enum wp_lease_op_kind)wp_rng_below(rng, WP_LEASE_FORGET + 1),
        (uint8_t)(1 + wp_rng_below(rng, MODEL_UIDS)), wp_rng_below(rng, 4));

    op.claim_id = wp_str_from(claims[wp_rng_below(rng, MODEL_CLAIMS)]);
    op.deadline_wall_ms = (int64_t)wp_rng_below(rng, 3);
    if (op.kind == WP_LEASE_FETCH && wp_rng_below(rng, 2) == 0) {
        op.claim_id = WP_STR("");
    }
    return op;
}

/* What commit i of those under way should have come to. */
static void
check_step(struct wp_lease_record *records, uint32_t i, int round)
{
    const struct wp_lease_op *op = &together.ops[i];
    struct wp_lease_record *record = &records[op->uid[0] - 1];
    struct wp_lease_record *claimed = claimed_by(records, op);
    struct wp_lease_record none = {.state = WP_RECORD_NONE};
    enum wp_status expected;

    if (op->kind == WP_LEASE_FETCH && op->claim_id.len > 0) {
        record = claimed != NULL ? claimed : &none;
    }
    expected = wp_lease_rules_apply(op, claimed, record);
    if (outcome(i) != expected) {
        fail_msg("round %d, commit %u: op %d gives %s, not %s", round, i,
                 op->kind, wp_status_name(outcome(i)),
                 wp_status_name(expected));
    }
    if ((op->kind == WP_LEASE_FETCH && expected == WP_OK) ||
        (op->kind == WP_LEASE_EXPIRE && expected == WP_ABORTED)) {
        assert_memory_equal(&together.found[i], record, sizeof *record);
    }
    if (record->state == WP_RECORD_NONE) {
        memset(record, 0, sizeof *record);
    }
}

/* What Redis has in the end is what the rules leave. */
static void
check_records(const struct redis_world *world,
              const struct wp_lease_record *records)
{
    begin();
    for (uint32_t i = 0; i < MODEL_UIDS; i++) {
        struct wp_lease_op op =
            redis_world_op_of(WP_LEASE_FETCH, (uint8_t)(1 + i), 0);

        op.claim_id = WP_STR("");
        gather(world, &op);
    }
    end(world);
    for (uint32_t i = 0; i < MODEL_UIDS; i++) {
        if (records[i].state == WP_RECORD_NONE) {
            assert_int_equal(outcome(i), WP_NOT_FOUND);
        } else {
            assert_int_equal(outcome(i), WP_OK);
            assert_memory_equal(&together.found[i], &records[i],
                                sizeof records[i]);
        }
    }
}

static void
test_together_is_one_after_the_other(void **state)
{
    static const int rounds = 500;
    struct wp_lease_record records[MODEL_UIDS];
    struct redis_world world;
    struct wp_rng rng;

    (void)state;
    memset(records, 0, sizeof records);
    wp_rng_init(&rng, 20261122);
    start(&world);
    for (int round = 0; round < rounds; round++) {
        uint32_t n = 1 + (uint32_t)wp_rng_below(&rng, 12);

        begin();
        for (uint32_t i = 0; i < n; i++) {
            struct wp_lease_op op = random_op(&rng);

            gather(&world, &op);
        }
        end(&world);
        for (uint32_t i = 0; i < n; i++) {
            check_step(records, i, round);
        }
        check_records(&world, records);
    }
    assert_int_equal(redis_world_stats_of(&world).corrupt, 0);
    assert_int_equal(redis_world_stats_of(&world).errors, 0);
    redis_world_stop(&world);
}

/* One with an old fence among many: it alone is told so. */
static void
test_a_bad_fence_in_the_middle(void **state)
{
    struct redis_world world;
    uint32_t before;

    (void)state;
    start(&world);
    begin();
    for (uint8_t uid = 1; uid <= 9; uid++) {
        gather_op(&world, WP_LEASE_OFFER, uid, 3);
    }
    end(&world);
    expect_all(WP_OK);
    before = scripts_run(&world);
    begin();
    for (uint8_t uid = 1; uid <= 9; uid++) {
        gather_op(&world, WP_LEASE_GRANT, uid, uid == 5 ? 3 : 4);
    }
    end(&world);
    /* Two or three, if the link found it forgotten meanwhile. */
    assert_true(scripts_run(&world) - before <= 4);
    for (uint8_t uid = 1; uid <= 9; uid++) {
        assert_int_equal(outcome(uid - 1U), uid == 5 ? WP_ABORTED : WP_OK);
    }
    begin();
    for (uint8_t uid = 1; uid <= 9; uid++) {
        gather_op(&world, WP_LEASE_RELEASE, uid, uid == 2 ? 3 : 4);
    }
    end(&world);
    for (uint8_t uid = 1; uid <= 9; uid++) {
        assert_int_equal(outcome(uid - 1U), uid == 2   ? WP_ABORTED
                                            : uid == 5 ? WP_NOT_FOUND
                                                       : WP_OK);
    }
    redis_world_stop(&world);
}

/* A command has a bound, however much is gathered. */
static void
test_commands_are_bounded(void **state)
{
    enum {
        N = 200
    };
    struct redis_world world;
    uint32_t before;

    (void)state;
    start(&world);
    before = scripts_run(&world);
    begin();
    for (uint32_t i = 0; i < N; i++) {
        gather_op(&world, WP_LEASE_OFFER, (uint8_t)(1 + i), 0);
    }
    end(&world);
    expect_all(WP_OK);
    assert_true(scripts_run(&world) - before >=
                (N + WP_REDIS_BATCH_MAX - 1) / WP_REDIS_BATCH_MAX);
    assert_true(scripts_run(&world) - before <= N / 8);
    redis_world_stop(&world);
}

/* --- what may become of a command --- */

static void
test_a_lost_script(void **state)
{
    struct redis_world world;

    (void)state;
    start(&world);
    (void)redis_rig_must(&world.rig, 0, "SCRIPT FLUSH");
    begin();
    for (uint8_t uid = 1; uid <= 40; uid++) {
        gather_op(&world, WP_LEASE_OFFER, uid, 0);
    }
    end(&world);
    expect_all(WP_OK);
    assert_true(redis_world_stats_of(&world).noscript > 0);
    assert_int_equal(redis_world_stats_of(&world).errors, 0);
    redis_world_stop(&world);
}

/* Refused, all of them are; but what ends a lease is not, nor, if they share a
 * command, what comes with it. */
static void
test_full_memory(void **state)
{
    struct redis_world world;

    (void)state;
    start(&world);
    begin();
    gather_op(&world, WP_LEASE_OFFER, 1, 0);
    gather_op(&world, WP_LEASE_OFFER, 2, 0);
    end(&world);
    begin();
    gather_op(&world, WP_LEASE_GRANT, 1, 1);
    end(&world);
    expect_all(WP_OK);
    (void)redis_rig_must(&world.rig, 0, "CONFIG SET maxmemory 1");
    begin();
    gather_op(&world, WP_LEASE_GRANT, 2, 1);
    gather_op(&world, WP_LEASE_OFFER, 3, 0);
    end(&world);
    expect_all(WP_UNAVAILABLE);
    assert_true(redis_world_stats_of(&world).errors > 0);
    begin();
    gather_op(&world, WP_LEASE_GRANT, 2, 1);
    gather_op(&world, WP_LEASE_RELEASE, 1, 1);
    end(&world);
    assert_true(outcome(0) == WP_OK || outcome(0) == WP_UNAVAILABLE);
    assert_int_equal(outcome(1), WP_OK);
    redis_world_stop(&world);
}

/* The generation is not the one believed in: nothing was changed. */
static void
test_another_generation(void **state)
{
    struct redis_world world;

    (void)state;
    start(&world);
    (void)redis_rig_must(&world.rig, 0, "FLUSHALL");
    begin();
    for (uint8_t uid = 1; uid <= 9; uid++) {
        gather_op(&world, WP_LEASE_OFFER, uid, 0);
    }
    end(&world);
    expect_all(WP_UNAVAILABLE);
    assert_int_equal(redis_world_stats_of(&world).in_doubt, 1);
    assert_int_equal(world.doubts, 1);
    assert_string_equal(redis_rig_must(&world.rig, 0, "DBSIZE"), "0");
    redis_world_stop(&world);
}

enum {
    MANY = 4096,
    AT_ONCE = 128,
};

static struct wp_lease_op
offer_number(uint32_t i)
{
    static char names[MANY][24];
    struct wp_lease_op op = redis_world_op_of(WP_LEASE_OFFER, 0, 0);

    memcpy(op.uid, &i, sizeof i);
    (void)snprintf(names[i], sizeof names[i], "sandbox-%u", i);
    op.sandbox = wp_str_from(names[i]);
    return op;
}

/* Asks for AT_ONCE of them from this one on, until the store tells of each. */
static void
expect_absent(const struct redis_world *world, uint32_t from,
              const bool never[MANY])
{
    bool told = false;

    while (!told) {
        begin();
        for (uint32_t i = from; i < from + AT_ONCE; i++) {
            struct wp_lease_op op = offer_number(i);

            op.kind = WP_LEASE_FETCH;
            op.claim_id = WP_STR("");
            gather(world, &op);
        }
        end(world);
        told = true;
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            enum wp_status status = outcome(i);

            if (status == WP_UNAVAILABLE || status == WP_UNKNOWN_OUTCOME) {
                told = false;
            } else if (never[from + i]) {
                assert_int_equal(status, WP_NOT_FOUND);
            }
        }
    }
}

/* The server stops reading, and the connection is given up with much under way:
 * what left whole is in doubt, the rest certainly did not happen. */
static void
test_a_connection_that_is_cut(void **state)
{
    static bool never[MANY];
    struct wp_lease_redis_config config;
    struct redis_world world;
    uint32_t n_unknown = 0;
    uint32_t n_never = 0;

    (void)state;
    memset(&world, 0, sizeof world);
    redis_world_start_server(&world, NULL, NULL);
    config = redis_world_config_of(&world);
    config.redis.commit_timeout_ns = WP_NS_PER_S;
    redis_world_open_store(&world, &config);
    world.store.ops->flush(world.store.self);
    redis_rig_kill(&world.rig, 0, SIGSTOP);
    begin();
    for (uint32_t i = 0; i < MANY; i++) {
        struct wp_lease_op op = offer_number(i);

        gather(&world, &op);
        if (i % 100 == 0) {
            world.store.ops->flush(world.store.self);
        }
    }
    end(&world);
    for (uint32_t i = 0; i < MANY; i++) {
        never[i] = outcome(i) == WP_UNAVAILABLE;
        n_never += never[i] ? 1 : 0;
        n_unknown += outcome(i) == WP_UNKNOWN_OUTCOME ? 1 : 0;
        /* The first ones may have been done before it stopped. */
        assert_true(never[i] || outcome(i) == WP_UNKNOWN_OUTCOME ||
                    outcome(i) == WP_OK);
    }
    assert_true(n_unknown > 0);
    assert_true(n_never > 0);
    redis_rig_kill(&world.rig, 0, SIGCONT);
    WAIT_UNTIL(!redis_world_stats_of(&world).redis.breaker_open);
    redis_world_wait_until_up(&world);
    for (uint32_t from = 0; from < MANY; from += AT_ONCE) {
        expect_absent(&world, from, never);
    }
    redis_world_stop(&world);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together_is_one_after_the_other),
        cmocka_unit_test(test_a_bad_fence_in_the_middle),
        cmocka_unit_test(test_commands_are_bounded),
        cmocka_unit_test(test_a_lost_script),
        cmocka_unit_test(test_full_memory),
        cmocka_unit_test(test_another_generation),
        cmocka_unit_test(test_a_connection_that_is_cut),
    };

    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
