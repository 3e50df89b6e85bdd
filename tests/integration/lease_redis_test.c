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

#include "allocator/lease_codec.h"
#include "allocator/lease_redis.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"
#include "pool/lease_rules.h"
#include "tests/support/redis_rig.h"

enum {
    WAIT_S = 60, /* For anything that must happen. */
};

static const struct wp_lease_redis_pool pools[] = {{"default", "agents"},
                                                   {"default", "others"}};

/* --- one store, and commits that wait --- */

struct world {
    struct redis_rig rig;
    struct wp_lease_redis *redis;
    struct wp_lease_store store;
    _Atomic(uint32_t) doubts;
    uint32_t loaded;
};

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

static enum wp_status
commit(const struct wp_lease_store *store, const struct wp_lease_op *op)
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
        until.tv_sec += WAIT_S;
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
    struct world *world = ctx;

    (void)pool;
    (void)atomic_fetch_add(&world->doubts, 1);
}

static void
count_loaded(void *ctx, const struct wp_lease_record *record)
{
    struct world *world = ctx;

    (void)record;
    world->loaded++;
}

static struct wp_lease_redis_config
config_of(struct world *world)
{
    struct wp_lease_redis_config config = {
        .pools = pools,
        .n_pools = WP_ARRAY_LEN(pools),
        .threads = 2,
        .sink = {.ctx = world, .on_doubt = on_doubt},
    };

    (void)snprintf(config.redis.server.path, sizeof config.redis.server.path,
                   "%s", world->rig.servers[0].socket);
    config.redis.password = world->rig.password;
    config.redis.backoff_max_ns = 100 * WP_NS_PER_MS;
    return config;
}

static struct wp_lease_redis_stats
stats_of(const struct world *world)
{
    struct wp_lease_redis_stats stats;

    wp_lease_redis_read_stats(world->redis, &stats);
    return stats;
}

#define WAIT_UNTIL(condition)                                                  \
    do {                                                                       \
        int64_t wait_ns = wp_clock_mono_ns(wp_clock_system());                 \
                                                                               \
        wait_ns += WAIT_S * WP_NS_PER_S;                                       \
        while (!(condition)) {                                                 \
            assert_true(wp_clock_mono_ns(wp_clock_system()) < wait_ns);        \
            (void)usleep(2000);                                                \
        }                                                                      \
    } while (0)

static void
wait_until_up(const struct world *world)
{
    WAIT_UNTIL(stats_of(world).redis.links_up == stats_of(world).redis.links);
}

static void
open_store(struct world *world, const struct wp_lease_redis_config *config)
{
    struct wp_err err;

    if (wp_lease_redis_create(config, &world->redis, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
    world->store = wp_lease_redis_store(world->redis);
    world->loaded = 0;
    if (world->store.ops->load(world->redis, count_loaded, world, &err) !=
        WP_OK) {
        fail_msg("%s", err.msg);
    }
    wait_until_up(world);
}

static void
start_server(struct world *world, const char *conf, const char *password)
{
    redis_rig_init(&world->rig);
    world->rig.password = password;
    assert_int_equal(redis_rig_start(&world->rig, conf), 0);
}

static void
start(struct world *world, const char *conf)
{
    struct wp_lease_redis_config config;

    memset(world, 0, sizeof *world);
    start_server(world, conf, NULL);
    config = config_of(world);
    open_store(world, &config);
}

static void
stop(struct world *world)
{
    wp_lease_redis_destroy(world->redis);
    redis_rig_fini(&world->rig);
}

/* --- ops --- */

static struct wp_lease_op
op_of(enum wp_lease_op_kind kind, uint8_t uid, uint64_t fence)
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

static enum wp_status
do_op(const struct world *world, enum wp_lease_op_kind kind, uint8_t uid,
      uint64_t fence)
{
    const struct wp_lease_op op = op_of(kind, uid, fence);

    return commit(&world->store, &op);
}

static enum wp_status
fetch(const struct world *world, uint8_t uid, struct wp_lease_record *found)
{
    struct wp_lease_op op = op_of(WP_LEASE_FETCH, uid, 0);

    op.claim_id = WP_STR("");
    op.found = found;
    return commit(&world->store, &op);
}

static enum wp_record_state
state_of(const struct world *world, uint8_t uid)
{
    struct wp_lease_record record;
    enum wp_status status = fetch(world, uid, &record);

    if (status == WP_NOT_FOUND) {
        return WP_RECORD_NONE;
    }
    assert_int_equal(status, WP_OK);
    return record.state;
}

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
    struct wp_lease_op op = op_of(
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
model_step(const struct world *world, struct wp_lease_record *records,
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
    got = commit(&world->store, &op);
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
    assert_int_equal(fetch(world, record->uid[0], &found), WP_OK);
    assert_memory_equal(&found, record, sizeof found);
}

/* Random commits end as the rules say, and leave the record they say. */
static void
test_scripts_obey_the_rules(void **state)
{
    static const int steps = 6000;
    struct wp_lease_record records[MODEL_UIDS];
    struct world world;
    struct wp_rng rng;

    (void)state;
    memset(records, 0, sizeof records);
    wp_rng_init(&rng, 20260401);
    start(&world, NULL);
    for (int i = 0; i < steps; i++) {
        model_step(&world, records, &rng, i);
    }
    assert_int_equal(stats_of(&world).corrupt, 0);
    assert_int_equal(stats_of(&world).errors, 0);
    stop(&world);
}

/* --- Redis fails --- */

static void
test_killed_server_and_restart(void **state)
{
    struct world world;
    struct wp_err err;

    (void)state;
    start(&world, "appendonly yes\nappendfsync always\n");
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(do_op(&world, WP_LEASE_GRANT, 1, 1), WP_OK);
    redis_rig_kill(&world.rig, 0, SIGKILL);
    WAIT_UNTIL(stats_of(&world).redis.links_up == 0);
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 2, 0), WP_UNAVAILABLE);
    redis_rig_restart(&world.rig, 0);
    /* Another process: it may have lost something. */
    WAIT_UNTIL(world.doubts == WP_ARRAY_LEN(pools));
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 2, 0), WP_UNAVAILABLE);
    wait_until_up(&world);
    for (size_t i = 0; i < WP_ARRAY_LEN(pools); i++) {
        assert_int_equal(
            wp_lease_redis_begin_recovery(world.redis, &pools[i], &err), WP_OK);
        assert_int_equal(
            wp_lease_redis_end_assert(world.redis, &pools[i], &err), WP_OK);
        assert_int_equal(wp_lease_redis_open_generation(world.redis, &pools[i],
                                                        NULL, 0, &err),
                         WP_OK);
    }
    assert_int_equal(stats_of(&world).in_doubt, 0);
    /* What was acknowledged is there. */
    assert_int_equal(state_of(&world, 1), WP_RECORD_HELD);
    assert_int_equal(do_op(&world, WP_LEASE_RELEASE, 1, 1), WP_OK);
    assert_int_equal(state_of(&world, 2), WP_RECORD_NONE);
    stop(&world);
}

/* Commits that nobody answers end within the limit, and later ones at once. */
static void
test_silent_server(void **state)
{
    struct wp_lease_redis_config config;
    struct world world;
    int64_t from_ns;

    (void)state;
    memset(&world, 0, sizeof world);
    start_server(&world, NULL, NULL);
    config = config_of(&world);
    config.redis.commit_timeout_ns = 300 * WP_NS_PER_MS;
    config.redis.connect_timeout_ns = 300 * WP_NS_PER_MS;
    open_store(&world, &config);
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    redis_rig_kill(&world.rig, 0, SIGSTOP);
    from_ns = wp_clock_mono_ns(wp_clock_system());
    assert_int_equal(do_op(&world, WP_LEASE_GRANT, 1, 1), WP_UNKNOWN_OUTCOME);
    assert_true(wp_clock_mono_ns(wp_clock_system()) - from_ns >=
                300 * WP_NS_PER_MS);
    assert_true(stats_of(&world).redis.breaker_open);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(do_op(&world, WP_LEASE_OFFER, 2, 0), WP_UNAVAILABLE);
    }
    assert_true(stats_of(&world).redis.timeouts > 0);
    redis_rig_kill(&world.rig, 0, SIGCONT);
    WAIT_UNTIL(!stats_of(&world).redis.breaker_open);
    wait_until_up(&world);
    /* The same process: nothing was lost, and the store tells the outcome. */
    assert_int_equal(world.doubts, 0);
    assert_int_equal(state_of(&world, 1), WP_RECORD_HELD);
    stop(&world);
}

static void
test_cut_connections(void **state)
{
    struct world world;

    (void)state;
    start(&world, NULL);
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    for (int i = 0; i < 5; i++) {
        uint64_t before = stats_of(&world).redis.disconnects;

        (void)redis_rig_must(&world.rig, 0, "CLIENT KILL TYPE normal");
        WAIT_UNTIL(stats_of(&world).redis.disconnects >= before + 3);
        wait_until_up(&world);
        assert_int_equal(state_of(&world, 1), WP_RECORD_OPEN);
    }
    assert_int_equal(world.doubts, 0);
    stop(&world);
}

static void
test_lost_scripts_are_sent_again(void **state)
{
    struct world world;

    (void)state;
    start(&world, NULL);
    (void)redis_rig_must(&world.rig, 0, "SCRIPT FLUSH");
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(do_op(&world, WP_LEASE_GRANT, 1, 1), WP_OK);
    assert_int_equal(do_op(&world, WP_LEASE_RENEW, 1, 1), WP_OK);
    assert_int_equal(stats_of(&world).noscript, 3);
    assert_int_equal(do_op(&world, WP_LEASE_RELEASE, 1, 1), WP_OK);
    assert_int_equal(stats_of(&world).noscript, 3);
    stop(&world);
}

/* Nothing new, but leases can end. */
static void
test_full_memory(void **state)
{
    struct world world;

    (void)state;
    start(&world, NULL);
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 2, 0), WP_OK);
    assert_int_equal(do_op(&world, WP_LEASE_GRANT, 1, 1), WP_OK);
    (void)redis_rig_must(&world.rig, 0, "CONFIG SET maxmemory 1");
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 3, 0), WP_UNAVAILABLE);
    assert_int_equal(do_op(&world, WP_LEASE_GRANT, 2, 1), WP_ALREADY_EXISTS);
    assert_true(stats_of(&world).errors > 0);
    assert_int_equal(state_of(&world, 1), WP_RECORD_HELD);
    assert_int_equal(do_op(&world, WP_LEASE_RELEASE, 1, 1), WP_OK);
    assert_int_equal(do_op(&world, WP_LEASE_GRANT, 2, 1), WP_UNAVAILABLE);
    assert_int_equal(do_op(&world, WP_LEASE_FORGET, 1, 1), WP_OK);
    assert_int_equal(state_of(&world, 1), WP_RECORD_NONE);
    assert_int_equal(state_of(&world, 2), WP_RECORD_OPEN);
    (void)redis_rig_must(&world.rig, 0, "CONFIG SET maxmemory 0");
    assert_int_equal(do_op(&world, WP_LEASE_GRANT, 2, 1), WP_OK);
    stop(&world);
}

static void
test_read_only_server(void **state)
{
    struct world world;

    (void)state;
    start(&world, NULL);
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    (void)redis_rig_must(&world.rig, 0, "REPLICAOF 127.0.0.1 1");
    WAIT_UNTIL(do_op(&world, WP_LEASE_OFFER, 2, 0) == WP_UNAVAILABLE);
    (void)redis_rig_must(&world.rig, 0, "REPLICAOF NO ONE");
    WAIT_UNTIL(do_op(&world, WP_LEASE_OFFER, 2, 0) == WP_OK);
    stop(&world);
}

/* --- Redis forgets --- */

static void
recover(const struct world *world, const struct wp_lease_redis_pool *pool)
{
    struct wp_err err;

    if (wp_lease_redis_begin_recovery(world->redis, pool, &err) != WP_OK ||
        wp_lease_redis_end_assert(world->redis, pool, &err) != WP_OK ||
        wp_lease_redis_open_generation(world->redis, pool, NULL, 0, &err) !=
            WP_OK) {
        fail_msg("%s", err.msg);
    }
}

static void
test_flushed_server_is_recovered(void **state)
{
    struct wp_lease_record held;
    struct wp_lease_record open;
    struct wp_lease_record found;
    struct world world;
    struct wp_err err;

    (void)state;
    start(&world, NULL);
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 2, 0), WP_OK);
    assert_int_equal(do_op(&world, WP_LEASE_GRANT, 1, 5), WP_OK);
    assert_int_equal(fetch(&world, 1, &held), WP_OK);
    assert_int_equal(fetch(&world, 2, &open), WP_OK);
    (void)redis_rig_must(&world.rig, 0, "FLUSHALL");
    assert_int_equal(do_op(&world, WP_LEASE_GRANT, 2, 1), WP_UNAVAILABLE);
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 3, 0), WP_UNAVAILABLE);
    assert_int_equal(world.doubts, 1);
    assert_int_equal(stats_of(&world).in_doubt, 1);

    assert_int_equal(wp_lease_redis_assert_record(world.redis, &held, &err),
                     WP_FAILED_PRECONDITION);
    assert_int_equal(
        wp_lease_redis_begin_recovery(world.redis, &pools[0], &err), WP_OK);
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 3, 0), WP_UNAVAILABLE);
    for (int i = 0; i < 2; i++) { /* Twice is as good as once. */
        assert_int_equal(wp_lease_redis_assert_record(world.redis, &held, &err),
                         WP_OK);
        assert_int_equal(wp_lease_redis_assert_record(world.redis, &open, &err),
                         WP_OK);
    }
    /* Nobody has said yet that this is all. */
    assert_int_equal(
        wp_lease_redis_open_generation(world.redis, &pools[0], NULL, 0, &err),
        WP_PENDING);
    assert_int_equal(wp_lease_redis_end_assert(world.redis, &pools[0], &err),
                     WP_OK);
    assert_int_equal(
        wp_lease_redis_open_generation(world.redis, &pools[0], NULL, 0, &err),
        WP_OK);
    assert_int_equal(stats_of(&world).in_doubt, 0);
    assert_int_equal(fetch(&world, 1, &found), WP_OK);
    assert_memory_equal(&found, &held, sizeof found);
    assert_int_equal(do_op(&world, WP_LEASE_GRANT, 2, 1), WP_ALREADY_EXISTS);
    assert_int_equal(do_op(&world, WP_LEASE_RELEASE, 1, 5), WP_OK);
    assert_int_equal(do_op(&world, WP_LEASE_GRANT, 2, 1), WP_OK);
    stop(&world);
}

/* What Redis knows already is not overwritten by what is older or in conflict.
 */
static void
test_assertions_only_add(void **state)
{
    struct wp_lease_record held;
    struct wp_lease_record other;
    struct wp_lease_record found;
    struct world world;
    struct wp_err err;

    (void)state;
    start(&world, NULL);
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 2, 0), WP_OK);
    assert_int_equal(do_op(&world, WP_LEASE_GRANT, 1, 5), WP_OK);
    assert_int_equal(fetch(&world, 1, &held), WP_OK);
    assert_int_equal(
        wp_lease_redis_begin_recovery(world.redis, &pools[0], &err), WP_OK);
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
    recover(&world, &pools[0]);
    assert_int_equal(fetch(&world, 1, &found), WP_OK);
    assert_memory_equal(&found, &held, sizeof found);
    assert_int_equal(
        wp_lease_redis_begin_recovery(world.redis, &pools[0], &err), WP_OK);
    other = held;
    other.state = WP_RECORD_ENDED;
    assert_int_equal(wp_lease_redis_assert_record(world.redis, &other, &err),
                     WP_OK);
    recover(&world, &pools[0]);
    assert_int_equal(state_of(&world, 1), WP_RECORD_ENDED);
    /* Its claim is free again. */
    assert_int_equal(do_op(&world, WP_LEASE_GRANT, 2, 1), WP_OK);
    stop(&world);
}

/* A replica that was away while the others recovered closes the pool again. */
static void
test_recovery_by_two(void **state)
{
    struct wp_lease_redis_peer peers[2];
    struct wp_lease_redis_config config;
    struct world a;
    struct world b;
    struct wp_err err;

    (void)state;
    start(&a, NULL);
    memset(&b, 0, sizeof b);
    b.rig = a.rig;
    config = config_of(&b);
    config.replica_id[0] = 'b';
    open_store(&b, &config);
    memset(peers, 0, sizeof peers);
    peers[1].replica_id[0] = 'b';
    (void)redis_rig_must(&a.rig, 0, "FLUSHALL");
    assert_int_equal(do_op(&a, WP_LEASE_OFFER, 1, 0), WP_UNAVAILABLE);
    assert_int_equal(wp_lease_redis_begin_recovery(a.redis, &pools[0], &err),
                     WP_OK);
    assert_int_equal(wp_lease_redis_end_assert(a.redis, &pools[0], &err),
                     WP_OK);
    assert_int_equal(
        wp_lease_redis_open_generation(a.redis, &pools[0], peers, 2, &err),
        WP_PENDING);
    /* b joins the same recovery. */
    assert_int_equal(do_op(&b, WP_LEASE_OFFER, 1, 0), WP_UNAVAILABLE);
    assert_int_equal(wp_lease_redis_begin_recovery(b.redis, &pools[0], &err),
                     WP_OK);
    assert_int_equal(wp_lease_redis_end_assert(b.redis, &pools[0], &err),
                     WP_OK);
    assert_int_equal(
        wp_lease_redis_open_generation(a.redis, &pools[0], peers, 2, &err),
        WP_OK);
    assert_int_equal(
        wp_lease_redis_open_generation(b.redis, &pools[0], peers, 2, &err),
        WP_OK);
    assert_int_equal(do_op(&a, WP_LEASE_OFFER, 1, 0), WP_OK);
    assert_int_equal(do_op(&b, WP_LEASE_GRANT, 1, 1), WP_OK);
    /* a alone: b finds another generation, and closes it again. */
    recover(&a, &pools[0]);
    assert_int_equal(do_op(&b, WP_LEASE_RENEW, 1, 1), WP_UNAVAILABLE);
    assert_int_equal(b.doubts, 2);
    recover(&b, &pools[0]);
    assert_int_equal(do_op(&b, WP_LEASE_RENEW, 1, 1), WP_OK);
    assert_int_equal(do_op(&a, WP_LEASE_RENEW, 1, 1), WP_UNAVAILABLE);
    wp_lease_redis_destroy(b.redis);
    stop(&a);
}

/* --- logging in, and the configuration --- */

static void
test_passwords(void **state)
{
    struct wp_lease_redis_config config;
    struct world world;
    struct wp_err err;

    (void)state;
    memset(&world, 0, sizeof world);
    start_server(&world, NULL, "sesame");
    config = config_of(&world);
    config.redis.db = 3;
    open_store(&world, &config);
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 1, 0), WP_OK);
    wp_lease_redis_destroy(world.redis);

    (void)redis_rig_must(&world.rig, 0,
                         "ACL SETUSER pool on >other ~warmpool:* &* +@all");
    config.redis.user = "pool";
    config.redis.password = "other";
    open_store(&world, &config);
    assert_int_equal(state_of(&world, 1), WP_RECORD_OPEN);
    wp_lease_redis_destroy(world.redis);

    config.redis.password = "swordfish";
    assert_int_equal(wp_lease_redis_create(&config, &world.redis, &err), WP_OK);
    world.store = wp_lease_redis_store(world.redis);
    assert_int_equal(
        world.store.ops->load(world.redis, count_loaded, &world, &err),
        WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "WRONGPASS"));
    assert_null(strstr(err.msg, "swordfish"));
    assert_int_equal(do_op(&world, WP_LEASE_OFFER, 2, 0), WP_UNAVAILABLE);
    stop(&world);
}

static void
test_tcp_and_pages_of_records(void **state)
{
    enum {
        N = 1500
    };
    struct wp_lease_redis_config config;
    struct world world;

    (void)state;
    memset(&world, 0, sizeof world);
    start_server(&world, NULL, NULL);
    config = config_of(&world);
    config.redis.server = (struct wp_redis_server){
        .host = "127.0.0.1", .port = world.rig.servers[0].port};
    open_store(&world, &config);
    assert_int_equal(world.loaded, 0);
    for (uint32_t i = 0; i < N; i++) {
        struct wp_lease_op op = op_of(WP_LEASE_OFFER, 0, 0);

        memcpy(op.uid, &i, sizeof i);
        assert_int_equal(commit(&world.store, &op), WP_OK);
    }
    wp_lease_redis_destroy(world.redis);
    open_store(&world, &config);
    assert_int_equal(world.loaded, N);
    stop(&world);
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
        cmocka_unit_test(test_cut_connections),
        cmocka_unit_test(test_lost_scripts_are_sent_again),
        cmocka_unit_test(test_full_memory),
        cmocka_unit_test(test_read_only_server),
        cmocka_unit_test(test_flushed_server_is_recovered),
        cmocka_unit_test(test_assertions_only_add),
        cmocka_unit_test(test_recovery_by_two),
        cmocka_unit_test(test_passwords),
        cmocka_unit_test(test_tcp_and_pages_of_records),
        cmocka_unit_test(test_refused_configurations),
    };

    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
