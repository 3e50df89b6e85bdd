/* The Redis store over TLS: the same promises, and nothing is said to a server
 * that cannot prove who it is. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "allocator/stores/redis/link/sync.h"
#include "tests/support/stores/redis_replica.h"

/* A busy machine is no silent server. */
static int64_t timeout_ms = REDIS_RIG_WAIT_MS;

static struct wp_lease_redis_config
config_of(struct redis_world *world)
{
    struct wp_lease_redis_config config = redis_world_config_of(world);

    memset(&config.redis.server, 0, sizeof config.redis.server);
    (void)snprintf(config.redis.server.host, sizeof config.redis.server.host,
                   "127.0.0.1");
    config.redis.server.port = world->rig.servers[0].port;
    config.redis.tls = &world->rig.trust;
    config.redis.commit_timeout_ns = 60 * WP_NS_PER_S;
    return config;
}

static void
start(struct redis_world *world, const char *conf)
{
    memset(world, 0, sizeof *world);
    redis_rig_init(&world->rig);
    redis_rig_use_tls(&world->rig);
    world->rig.password = "sesame";
    (void)redis_rig_start(&world->rig, conf);
}

/* Until it succeeds; what is UNAVAILABLE has changed nothing. */
static void
commit_at_last(const struct redis_world *world, const struct wp_lease_op *op)
{
    enum wp_status status;
    int64_t since = 0;

    while ((status = redis_world_commit(&world->store, op)) != WP_OK) {
        assert_int_equal(status, WP_UNAVAILABLE);
        redis_rig_pause(&since, "a commit");
    }
}

enum {
    PUTS_MAX = 5000, /* More than a link takes in flight. */
};

static struct {
    struct wp_lease_op ops[PUTS_MAX];
    _Atomic(uint32_t) ended;
    _Atomic(uint32_t) good;
} sent;

static void
on_put(struct wp_lease_op *op, enum wp_status status)
{
    (void)op;
    (void)atomic_fetch_add(&sent.good, status == WP_OK ? 1 : 0);
    (void)atomic_fetch_add(&sent.ended, 1);
}

/* Puts a snapshot as often as the link takes it while the server stands still:
 * records of TLS that leave in part, and go on later. */
static uint32_t
put_until_full(struct redis_world *world, struct wp_pool_snapshot *snapshot)
{
    const struct wp_lease_store *store = &world->store;
    enum wp_status status = WP_PENDING;
    uint32_t n = 0;

    while (status == WP_PENDING && n < PUTS_MAX) {
        sent.ops[n] = redis_world_op_of(WP_LEASE_PUT_SNAPSHOT, 0, 0);
        sent.ops[n].snapshot = snapshot;
        sent.ops[n].done = on_put;
        status = store->ops->commit(store->self, &sent.ops[n]);
        n += status == WP_PENDING;
    }
    assert_int_equal(status, WP_UNAVAILABLE);
    assert_true(redis_world_stats_of(world).redis.full > 0);
    return n;
}

static void
what_fills_the_socket_arrives_whole(void **state)
{
    static uint8_t bytes[WP_SNAPSHOT_MAX];
    static uint8_t found[sizeof bytes];
    struct wp_pool_snapshot out = {.bytes = bytes, .len = sizeof bytes};
    struct wp_pool_snapshot in = {.bytes = found, .cap = sizeof found};
    struct wp_lease_op get = redis_world_op_of(WP_LEASE_GET_SNAPSHOT, 0, 0);
    struct wp_lease_redis_config config;
    struct redis_world world;
    uint32_t n;

    (void)state;
    start(&world, NULL);
    config = config_of(&world);
    redis_world_open_store(&world, &config);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    }
    redis_rig_kill(&world.rig, 0, SIGSTOP);
    n = put_until_full(&world, &out);
    redis_rig_kill(&world.rig, 0, SIGCONT);
    WAIT_UNTIL(atomic_load(&sent.ended) == n);
    assert_int_equal(atomic_load(&sent.good), n);
    get.snapshot = &in;
    commit_at_last(&world, &get);
    assert_int_equal(in.len, sizeof bytes);
    assert_memory_equal(found, bytes, sizeof bytes);
    assert_int_equal(redis_world_stats_of(&world).redis.disconnects, 0);
    redis_world_stop(&world);
}

static void
a_lease_outlives_a_restart_of_redis(void **state)
{
    struct wp_lease_redis_config config;
    struct redis_world world;
    struct wp_lease_op op;

    (void)state;
    start(&world, "appendonly yes\nappendfsync always\n");
    config = config_of(&world);
    redis_world_open_store(&world, &config);
    for (uint8_t uid = 1; uid <= 20; uid++) {
        op = redis_world_op_of(WP_LEASE_OFFER, uid, 0);
        commit_at_last(&world, &op);
    }
    op = redis_world_op_of(WP_LEASE_GRANT, 1, 1);
    commit_at_last(&world, &op);
    redis_rig_kill(&world.rig, 0, SIGKILL);
    WAIT_UNTIL(redis_world_stats_of(&world).redis.links_up == 0);
    redis_rig_restart(&world.rig, 0);
    wp_lease_redis_destroy(world.redis);
    redis_world_open_store(&world, &config);
    assert_int_equal(world.loaded, 20);
    assert_int_equal(redis_world_state_of(&world, 1), WP_RECORD_HELD);
    redis_world_stop(&world);
}

/* What reaching a server with this trust ends with. */
static enum wp_status
reach(const struct redis_rig *rig, uint32_t server, const char *host,
      const struct wp_redis_tls *tls, struct wp_err *err)
{
    struct wp_redis_server at = {.port = rig->servers[server].port};
    const struct wp_str ping = WP_STR("PING");
    struct redisReply *reply;
    struct wp_redis_sync *sync;
    enum wp_status status;

    *err = (struct wp_err){.msg = ""};
    (void)snprintf(at.host, sizeof at.host, "%s", host);
    status =
        wp_redis_sync_reach(&at, tls, timeout_ms * WP_NS_PER_MS, &sync, err);
    if (status == WP_OK) {
        status = wp_redis_sync_log_in(sync, "", "sesame", err);
        if (status == WP_OK) {
            reply = wp_redis_sync_ask(sync, &ping, 1, err);
            status = reply != NULL ? WP_OK : WP_UNAVAILABLE;
            freeReplyObject(reply);
        }
        wp_redis_sync_close(sync);
    }
    return status;
}

/* The status and the sentence of a server that is refused. */
static void
assert_refused(const struct redis_rig *rig, const char *host,
               const struct wp_redis_tls *tls, enum wp_status expected,
               const char *why)
{
    struct wp_err err;

    assert_int_equal(reach(rig, 0, host, tls, &err), expected);
    if (strstr(err.msg, why) == NULL || strstr(err.msg, "sesame") != NULL) {
        fail_msg("'%s' is not in: %s", why, err.msg);
    }
}

static void
a_server_that_proves_nothing_is_refused(void **state)
{
    struct redis_world world;
    struct redis_rig *rig = &world.rig;
    struct wp_redis_tls tls;
    struct wp_err err;
    int64_t since = 0;
    char other[80];

    (void)state;
    start(&world, NULL);
    tls = rig->trust;
    assert_int_equal(reach(rig, 0, "127.0.0.1", &tls, &err), WP_OK);
    assert_refused(rig, "localhost", &tls, WP_UNAVAILABLE,
                   "certificate is not for 'localhost' (hostname mismatch)");
    tls.name = "redis.test";
    assert_int_equal(reach(rig, 0, "localhost", &tls, &err), WP_OK);
    tls.name = "127.0.0.2";
    assert_refused(rig, "127.0.0.1", &tls, WP_UNAVAILABLE,
                   "certificate is not for '127.0.0.2' (IP address mismatch)");
    tls.name = "";
    redis_rig_certify(rig, "other", NULL);
    (void)snprintf(other, sizeof other, "%s/other.pem", rig->dir);
    tls.ca = other;
    assert_refused(rig, "127.0.0.1", &tls, WP_UNAVAILABLE,
                   "certificate is not trusted by redis_tls_ca: ");
    tls.ca = NULL; /* Those of the system. */
    assert_refused(rig, "127.0.0.1", &tls, WP_UNAVAILABLE,
                   "certificate is not trusted by redis_tls_ca: ");
    tls.ca = rig->ca;
    tls.cert = ""; /* Said after the greeting, while the server hangs up. */
    while (reach(rig, 0, "127.0.0.1", &tls, &err) != WP_UNAVAILABLE ||
           strstr(err.msg, "alert certificate required") == NULL) {
        redis_rig_pause(&since, "the word of what is missing");
    }
    redis_rig_fini(rig);
}

/* The port is that of a Redis without TLS, which waits for the end of a line. */
static void
a_server_without_tls_is_refused(void **state)
{
    struct redis_rig rig;
    struct wp_redis_tls tls = {.ca = ""};
    struct wp_err err;

    (void)state;
    redis_rig_init(&rig);
    rig.password = "sesame";
    (void)redis_rig_start(&rig, NULL);
    assert_int_equal(reach(&rig, 0, "127.0.0.1", NULL, &err), WP_OK);
    timeout_ms = 300;
    assert_refused(&rig, "127.0.0.1", &tls, WP_UNAVAILABLE, " speak TLS");
    timeout_ms = REDIS_RIG_WAIT_MS;
    redis_rig_fini(&rig);
}

static void
files_that_cannot_be_used_are_named(void **state)
{
    struct redis_rig rig;
    struct wp_redis_tls tls;
    struct wp_err err;
    char none[80];
    char locked[80];
    char command[256];
    static const char *const bad[] = {"/none", ""}; /* A folder. */

    (void)state;
    redis_rig_init(&rig);
    redis_rig_use_tls(&rig);
    assert_int_equal(wp_redis_tls_check(&rig.trust, &err), WP_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(none, sizeof none, "%s%s", rig.dir, bad[i]);
        tls = rig.trust;
        tls.ca = none;
        assert_int_equal(wp_redis_tls_check(&tls, &err), WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, "setting 'redis_tls_ca': /"));
        tls = rig.trust;
        tls.cert = none;
        assert_int_equal(wp_redis_tls_check(&tls, &err), WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, "setting 'redis_tls_cert': /"));
        tls = rig.trust;
        tls.key = none;
        assert_int_equal(wp_redis_tls_check(&tls, &err), WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, "setting 'redis_tls_key': /"));
    }
    tls = rig.trust;
    tls.ca = rig.key;
    assert_int_equal(wp_redis_tls_check(&tls, &err), WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "PEM certificates"));
    tls = rig.trust;
    tls.cert = rig.ca;
    assert_int_equal(wp_redis_tls_check(&tls, &err), WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "expected the key of redis_tls_cert"));
    (void)snprintf(locked, sizeof locked, "%s/locked.key", rig.dir);
    (void)snprintf(command, sizeof command,
                   "openssl pkcs8 -topk8 -in '%s' -out '%s' -passout pass:x",
                   rig.key, locked);
    assert_int_equal(system(command), 0);
    tls = rig.trust;
    tls.key = locked;
    assert_int_equal(wp_redis_tls_check(&tls, &err), WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "without pass phrase"));
    redis_rig_fini(&rig);
}

static void
a_cluster_is_reached(void **state)
{
    struct redis_replica r = {.n_known = 0};
    char url[256];

    (void)state;
    redis_rig_init(&r.world.rig);
    redis_rig_use_tls(&r.world.rig);
    r.world.rig.password = "sesame";
    (void)redis_rig_start_cluster(&r.world.rig, 3, 0, 20000);
    (void)snprintf(url, sizeof url, "rediss+cluster://:sesame@127.0.0.1:%u",
                   r.world.rig.servers[0].port);
    redis_replica_open(&r, url);
    redis_replica_grant(&r, 0, 1, 3);
    redis_replica_check(&r, 0, 1, 3);
    redis_replica_stop(&r);
}

static void
the_master_of_sentinels_is_reached(void **state)
{
    struct redis_replica r = {.n_known = 0};
    char url[256];

    (void)state;
    redis_rig_init(&r.world.rig);
    redis_rig_use_tls(&r.world.rig);
    r.world.rig.password = "sesame";
    (void)redis_rig_start(&r.world.rig, NULL);
    (void)redis_rig_start_sentinel(&r.world.rig, 0, "m", 1, 20000);
    (void)snprintf(url, sizeof url, "rediss+sentinel://:sesame@127.0.0.1:%u/m",
                   r.world.rig.servers[1].port);
    redis_replica_open(&r, url);
    redis_replica_grant(&r, 0, 1, 3);
    redis_replica_check(&r, 0, 1, 3);
    redis_replica_stop(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fills_the_socket_arrives_whole),
        cmocka_unit_test(a_lease_outlives_a_restart_of_redis),
        cmocka_unit_test(a_server_that_proves_nothing_is_refused),
        cmocka_unit_test(a_server_without_tls_is_refused),
        cmocka_unit_test(files_that_cannot_be_used_are_named),
        cmocka_unit_test(a_cluster_is_reached),
        cmocka_unit_test(the_master_of_sentinels_is_reached),
    };

    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests_name("lease_redis_tls", tests, NULL, NULL);
}
