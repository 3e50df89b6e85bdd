/* The Redis store on a cluster whose slots move and whose nodes die: what was
 * acknowledged stays, and the pools of other nodes notice nothing. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/stores/redis_replica.h"

enum {
    AGENTS = 0,
    OTHERS = 1,
    /* Numbers of nodes. */
    OTHERS_NODE = 0,
    SPARE_NODE = 1,
    AGENTS_NODE = 2,
};

static const char agents_key[] = "warmpool:{default/agents}";
static const char others_key[] = "warmpool:{default/others}";

static uint16_t
slot_of(const char *key)
{
    return wp_redis_slot(wp_str_from(key));
}

/* Both pools' slots are the last node's at first: one is moved away. */
static void
part_pools(struct redis_rig *rig)
{
    int64_t since = 0;
    char moved[64];

    redis_rig_migrate_begin(rig, slot_of(others_key), AGENTS_NODE, OTHERS_NODE);
    redis_rig_migrate_end(rig, slot_of(others_key), AGENTS_NODE, OTHERS_NODE);
    (void)snprintf(moved, sizeof moved, "-MOVED %u 127.0.0.1:%u",
                   slot_of(others_key), rig->servers[OTHERS_NODE].port);
    for (uint32_t i = 1; i < rig->n; i++) {
        const char *answer;

        while ((answer = redis_rig_ask(rig, i, "EXISTS %s", others_key)) ==
                   NULL ||
               strcmp(answer, moved) != 0) {
            redis_rig_pause(&since, "a node that knows of the move");
        }
    }
}

static void
start(struct redis_replica *r, uint32_t n_replicas)
{
    char url[256];

    memset(r, 0, sizeof *r);
    redis_rig_init(&r->world.rig);
    r->world.rig.password = "sesame";
    (void)redis_rig_start_cluster(&r->world.rig, 3, n_replicas, 2500);
    part_pools(&r->world.rig);
    (void)snprintf(url, sizeof url, "redis+cluster://:sesame@127.0.0.1:%u",
                   r->world.rig.servers[SPARE_NODE].port);
    redis_replica_open(r, url);
}

static bool
has_key(struct redis_replica *r, uint32_t node, const char *key)
{
    const char *answer = redis_rig_ask(&r->world.rig, node, "EXISTS %s", key);

    return answer != NULL && strcmp(answer, "1") == 0;
}

/* Until it succeeds; what is UNAVAILABLE has changed nothing. */
static void
commit_at_last(struct redis_replica *r, uint32_t pool,
               enum wp_lease_op_kind kind, uint8_t uid, uint64_t fence)
{
    enum wp_status status;
    int64_t since = 0;

    while ((status = redis_replica_commit(r, pool, kind, uid, fence)) !=
           WP_OK) {
        assert_int_equal(status, WP_UNAVAILABLE);
        redis_rig_pause(&since, "a commit that succeeds");
    }
}

enum {
    TOGETHER = 5
};

static struct {
    struct wp_lease_op ops[TOGETHER];
    _Atomic(int) status[TOGETHER];
    _Atomic(uint32_t) ended;
} together;

static void
on_done(struct wp_lease_op *op, enum wp_status status)
{
    atomic_store(&together.status[op - together.ops], status);
    (void)atomic_fetch_add(&together.ended, 1);
}

/* Offers of the first pool that share a command, until all have succeeded:
 * an offer that is known is fine. */
static void
offer_together(struct redis_replica *r, uint8_t first)
{
    const struct wp_lease_store *store = &r->world.store;
    bool all = false;

    store->ops->flush(store->self); /* From now on it has links. */
    while (!all) {
        atomic_store(&together.ended, 0);
        for (uint32_t i = 0; i < TOGETHER; i++) {
            struct wp_lease_op *op = &together.ops[i];
            enum wp_status status;

            *op = redis_world_op_of(WP_LEASE_OFFER, (uint8_t)(first + i), 0);
            op->done = on_done;
            status = store->ops->commit(store->self, op);
            if (status != WP_PENDING) {
                on_done(op, status);
            }
        }
        store->ops->flush(store->self);
        WAIT_UNTIL(atomic_load(&together.ended) == TOGETHER);
        all = true;
        for (uint32_t i = 0; i < TOGETHER; i++) {
            int status = atomic_load(&together.status[i]);

            assert_true(status == WP_OK || status == WP_UNAVAILABLE);
            all = all && status == WP_OK;
        }
    }
}

/* Each pool lies on its own node, and each node has links. */
static void
test_pools_are_spread(void **state)
{
    static struct redis_replica r;

    (void)state;
    start(&r, 0);
    redis_replica_grant(&r, AGENTS, 1, 4);
    redis_replica_grant(&r, OTHERS, 5, 8);
    assert_true(has_key(&r, AGENTS_NODE, agents_key));
    assert_true(has_key(&r, OTHERS_NODE, others_key));
    assert_int_equal(redis_world_stats_of(&r.world).redis.links, 2 * 3);
    assert_int_equal(r.world.doubts, 0);
    redis_replica_check(&r, AGENTS, 1, 4);
    redis_replica_check(&r, OTHERS, 5, 8);
    redis_replica_stop(&r);
}

/* A slot moves under the store. While it does, commits follow ASK; then the
 * pool has another process, which is not trusted before it was told all. The
 * other pool notices nothing. */
static void
test_slot_moves(void **state)
{
    static struct redis_replica r;
    struct redis_rig *rig = &r.world.rig;
    const uint32_t to = SPARE_NODE;
    uint16_t slot = slot_of(agents_key);

    (void)state;
    start(&r, 0);
    redis_replica_grant(&r, AGENTS, 1, 4);
    redis_replica_grant(&r, OTHERS, 5, 8);

    redis_rig_migrate_begin(rig, slot, AGENTS_NODE, to);
    redis_replica_grant(&r, AGENTS, 9, 10);
    (void)redis_rig_must(rig, AGENTS_NODE,
                         "MIGRATE 127.0.0.1 %d %s 0 5000 AUTH sesame",
                         rig->servers[to].port, agents_key);
    offer_together(&r, 20);
    commit_at_last(&r, AGENTS, WP_LEASE_OFFER, 11, 0);
    redis_replica_grant(&r, AGENTS, 12, 13);
    assert_false(has_key(&r, AGENTS_NODE, agents_key));
    redis_replica_check(&r, AGENTS, 1, 4);
    redis_replica_check(&r, OTHERS, 5, 8);
    assert_int_equal(r.world.doubts, 0);

    redis_rig_migrate_end(rig, slot, AGENTS_NODE, to);
    assert_int_equal(redis_replica_commit(&r, AGENTS, WP_LEASE_OFFER, 14, 0),
                     WP_UNAVAILABLE);
    redis_replica_check(&r, OTHERS, 5, 8);
    WAIT_UNTIL(r.world.doubts == 1);
    redis_replica_recover(&r);
    assert_int_equal(r.world.doubts, 1);
    commit_at_last(&r, AGENTS, WP_LEASE_OFFER, 14, 0);
    assert_true(has_key(&r, to, agents_key));
    redis_replica_check(&r, AGENTS, 1, 4);
    redis_replica_check(&r, AGENTS, 9, 10);
    redis_replica_check(&r, AGENTS, 12, 13);
    redis_replica_grant(&r, AGENTS, 15, 16);
    redis_replica_stop(&r);
}

/* At the first record of the pool that is to move: it does, and the store has
 * noticed. */
static void
move_agents(void *ctx, const struct wp_lease_record *record)
{
    struct redis_replica *r = ctx;
    struct redis_rig *rig = &r->world.rig;
    uint16_t slot = slot_of(agents_key);

    if (r->world.doubts > 0 || strcmp(record->pool, "agents") != 0) {
        return;
    }
    redis_rig_migrate_begin(rig, slot, AGENTS_NODE, SPARE_NODE);
    (void)redis_rig_must(rig, AGENTS_NODE,
                         "MIGRATE 127.0.0.1 %d %s 0 5000 AUTH sesame",
                         rig->servers[SPARE_NODE].port, agents_key);
    redis_rig_migrate_end(rig, slot, AGENTS_NODE, SPARE_NODE);
    assert_int_equal(redis_replica_commit(r, AGENTS, WP_LEASE_OFFER, 14, 0),
                     WP_UNAVAILABLE);
    WAIT_UNTIL(r->world.doubts == 1);
}

/* What was read of a pool that moved meanwhile may not be all of it. */
static void
test_slot_moves_while_read(void **state)
{
    static struct redis_replica r;
    const struct wp_lease_store *store = &r.world.store;
    struct wp_err err;

    (void)state;
    start(&r, 0);
    redis_replica_grant(&r, AGENTS, 1, 4);
    assert_int_equal(store->ops->load(store->self, move_agents, &r, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "it moves to another server"));
    redis_replica_recover(&r);
    redis_replica_check(&r, AGENTS, 1, 4);
    redis_replica_stop(&r);
}

/* A node acknowledges grants that its replica never hears of, and dies. The
 * pool comes back with all of them; the other one was there all the while. */
static void
test_node_dies(void **state)
{
    static struct redis_replica r;
    struct redis_rig *rig = &r.world.rig;
    const uint32_t heir = AGENTS_NODE + 3;
    uint8_t uid = 100;
    int64_t since = 0;

    (void)state;
    start(&r, 1);
    redis_replica_grant(&r, AGENTS, 1, 4);
    redis_replica_grant(&r, OTHERS, 5, 8);
    redis_rig_wait_for(rig, heir, "DBSIZE", "1");
    (void)redis_rig_must(rig, heir, "CONFIG SET masterauth wrong");
    (void)redis_rig_must(rig, AGENTS_NODE, "CLIENT KILL TYPE replica");
    redis_rig_wait_for(rig, AGENTS_NODE, "INFO replication",
                       "connected_slaves:0");
    redis_replica_grant(&r, AGENTS, 9, 12);
    redis_rig_kill(rig, AGENTS_NODE, SIGKILL);

    while (r.world.doubts == 0) {
        enum wp_status status =
            redis_replica_commit(&r, AGENTS, WP_LEASE_OFFER, 99, 0);

        assert_true(status == WP_UNAVAILABLE || status == WP_UNKNOWN_OUTCOME);
        if (uid < 200 && strcmp(redis_rig_role(rig, heir), "slave") == 0) {
            assert_int_equal(
                redis_replica_commit(&r, OTHERS, WP_LEASE_OFFER, uid++, 0),
                WP_OK);
        }
        redis_rig_pause(&since, "an heir");
    }
    assert_true(uid > 101);
    assert_string_equal(redis_rig_role(rig, heir), "master");
    assert_string_equal(redis_rig_must(rig, heir, "HEXISTS %s %s", agents_key,
                                       "r0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c"),
                        "0");
    redis_replica_recover(&r);
    assert_int_equal(r.world.doubts, 1);
    commit_at_last(&r, AGENTS, WP_LEASE_OFFER, 99, 0);
    redis_replica_check(&r, AGENTS, 1, 4);
    redis_replica_check(&r, AGENTS, 9, 12);
    redis_replica_check(&r, OTHERS, 5, 8);
    redis_replica_stop(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pools_are_spread),
        cmocka_unit_test(test_slot_moves),
        cmocka_unit_test(test_slot_moves_while_read),
        cmocka_unit_test(test_node_dies),
    };

    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests_name("lease_redis_moves", tests, NULL, NULL);
}
