/* tests/unit/allocator/daemon/daemon_redis_test.c - leases in Redis, as the
 * daemon keeps them: how the store is made, what is heard of other replicas and
 * told to the core, and when. golden/ has each whole. The store, the recovery
 * and the core are fakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "allocator/daemon/files.h"
#include "allocator/daemon/redis_impl.h"
#include "allocator/stores/known_pools.h"
#include "pool/base/rng.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/heard.h"
#include "tests/support/pool/manual_clock.h"

#define WRAP(result, name, ...)                                                \
    result __wrap_##name(__VA_ARGS__);                                         \
    result __wrap_##name(__VA_ARGS__)
#define ROUTER "the topology's router"
/* What is logged goes into the journal as well. */
#define LOGGED(...)                                                            \
    do {                                                                       \
        heard_begin(&heard);                                                   \
        __VA_ARGS__;                                                           \
        golden_add(&journal, "%s", heard_end(&heard));                         \
    } while (0)

enum {
    SPECS = 4,
};

static struct golden journal;
static struct heard heard;
static struct wp_conf *conf;
static struct wp_daemon_core core;
static struct wp_daemon_redis *redis;
static struct wp_clock_manual manual;
static struct wp_pool_spec specs[SPECS]; /* Of the manifest. */
static size_t n_specs;
static struct wp_known_pool known[WP_POOLS_MAX];
static uint32_t n_known;
static enum wp_status known_status;
static struct wp_pool_stats pools[SPECS];
static uint32_t n_pools;
static struct wp_lease_redis_peer peers[WP_PEERS_MAX];
static uint32_t n_peers;
static struct wp_lease_redis_sink sink;
static const char *fails;
static uint32_t refuses; /* That many records have no slot. */
static uint64_t refused;
static bool knows_all;      /* The store has every pool. */
static bool is_full;        /* It takes no more of them. */
static uint32_t links_down; /* For so many looks. */
static uint32_t naps;
static int allocs = -1; /* So many succeed; < 0: all. */

static bool
may(const char *what, struct wp_err *err)
{
    if (fails == NULL || strcmp(fails, what) != 0) {
        return true;
    }
    (void)wp_err_set(err, WP_UNAVAILABLE, "no %s today", what);
    return false;
}

/* --- The store --- */

WRAP(enum wp_status, wp_lease_redis_create,
     const struct wp_lease_redis_config *config, struct wp_lease_redis **out,
     struct wp_err *err)
{
    const struct wp_redis_config *to = &config->redis;

    golden_add(
        &journal,
        "store: host '%s' port %u unix %d tls %d user '%s' password "
        "'%s' db %d\n"
        "  connect %lld commit %lld router %s cluster %d\n"
        "  prefix '%s' grows %d threads %u replicas %d host '%s'\n"
        "  heartbeat %lld gone %lld others %d id %02x%02x..%02x\n",
        to->server.host, (unsigned)to->server.port, to->server.host[0] == '/',
        to->tls != NULL, to->user, to->password, to->db,
        (long long)to->connect_timeout_ns, (long long)to->commit_timeout_ns,
        to->router != NULL ? (const char *)(const void *)to->router : "none",
        to->cluster, config->prefix, config->grows, config->threads,
        config->replicas, config->host, (long long)config->heartbeat_ns,
        (long long)config->peer_gone_ns,
        config->others != NULL ? (int)config->others(config->others_ctx) : -1,
        config->replica_id[0], config->replica_id[1],
        config->replica_id[WP_REPLICA_ID_LEN - 1]);
    if (to->tls != NULL) {
        golden_add(&journal, "  tls '%s' '%s' '%s' '%s'\n", to->tls->ca,
                   to->tls->cert, to->tls->key, to->tls->name);
    }
    for (uint32_t i = 0; i < config->n_pools && i < 8; i++) {
        golden_add(&journal, "  pool %s/%s\n", config->pools[i].pool_namespace,
                   config->pools[i].pool);
    }
    golden_add(&journal, "  %u pools\n", config->n_pools);
    sink = config->sink;
    if (!may("store", err)) {
        return err->status;
    }
    *out = (struct wp_lease_redis *)(void *)&journal;
    return WP_OK;
}

WRAP(void, wp_lease_redis_destroy, struct wp_lease_redis *of)
{
    golden_add(&journal, "store destroyed: %d\n", of != NULL);
}

WRAP(struct wp_lease_store, wp_lease_redis_store, struct wp_lease_redis *of)
{
    assert_ptr_equal(of, &journal);
    return (struct wp_lease_store){.self = of};
}

WRAP(enum wp_status, wp_lease_redis_follow, struct wp_lease_redis *of,
     struct wp_err *err)
{
    assert_ptr_equal(of, &journal);
    golden_add(&journal, "store follows\n");
    return may("feed", err) ? WP_OK : err->status;
}

WRAP(enum wp_status, wp_lease_redis_add_pool, struct wp_lease_redis *of,
     const struct wp_lease_redis_pool *name, struct wp_err *err)
{
    assert_ptr_equal(of, &journal);
    golden_add(&journal, "store adds %s/%s\n", name->pool_namespace,
               name->pool);
    return is_full ? wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no room") : WP_OK;
}

WRAP(void, wp_lease_redis_read_again, struct wp_lease_redis *of,
     const struct wp_lease_redis_pool *name)
{
    assert_ptr_equal(of, &journal);
    golden_add(&journal, "store reads %s/%s again\n", name->pool_namespace,
               name->pool);
}

WRAP(bool, wp_lease_redis_knows, struct wp_lease_redis *of,
     struct wp_str pool_namespace, struct wp_str pool)
{
    assert_ptr_equal(of, &journal);
    golden_add(&journal, "does the store know %.*s/%.*s? %d\n",
               (int)pool_namespace.len, pool_namespace.ptr, (int)pool.len,
               pool.ptr, knows_all);
    return knows_all;
}

WRAP(void, wp_lease_redis_set_state, struct wp_lease_redis *of,
     uint32_t waiting, bool keeper)
{
    assert_ptr_equal(of, &journal);
    golden_add(&journal, "state: %u wait, keeper %d\n", waiting, keeper);
}

WRAP(void, wp_lease_redis_leave, struct wp_lease_redis *of)
{
    assert_ptr_equal(of, &journal);
    golden_add(&journal, "store leaves\n");
}

WRAP(uint32_t, wp_lease_redis_peers, struct wp_lease_redis *of,
     struct wp_lease_redis_peer *out, uint32_t max)
{
    assert_ptr_equal(of, &journal);
    assert_int_equal(max, WP_PEERS_MAX);
    memcpy(out, peers, sizeof peers);
    return n_peers;
}

WRAP(void, wp_lease_redis_read_stats, struct wp_lease_redis *of,
     struct wp_lease_redis_stats *out)
{
    assert_ptr_equal(of, &journal);
    memset(out, 0, sizeof *out);
    out->redis.links = 5;
    out->redis.links_up = links_down > 0 ? 4 : 5;
    links_down -= links_down > 0 ? 1 : 0;
}

WRAP(enum wp_status, wp_redis_topology_create, const struct wp_redis_url *url,
     const struct wp_redis_topology_config *config,
     struct wp_redis_topology **out, struct wp_err *err)
{
    golden_add(&journal,
               "topology: %u seeds, timeout %lld, tls %d, sentinels' '%s'\n",
               url->n_seeds, (long long)config->timeout_ns, config->tls != NULL,
               url->sentinel_password);
    if (!may("topology", err)) {
        return err->status;
    }
    *out = (struct wp_redis_topology *)(void *)&journal;
    return WP_OK;
}

WRAP(void, wp_redis_topology_destroy, struct wp_redis_topology *of)
{
    golden_add(&journal, "topology destroyed: %d\n", of != NULL);
}

WRAP(const struct wp_redis_router *, wp_redis_topology_router,
     struct wp_redis_topology *of)
{
    assert_ptr_equal(of, &journal);
    return (const struct wp_redis_router *)(const void *)ROUTER;
}

WRAP(enum wp_status, wp_redis_tls_check, const struct wp_redis_tls *tls,
     struct wp_err *err)
{
    golden_add(&journal, "check tls '%s' '%s' '%s' '%s'\n", tls->ca, tls->cert,
               tls->key, tls->name);
    return may("tls", err) ? WP_OK : err->status;
}

/* --- Recovery --- */

WRAP(struct wp_recovery *, wp_recovery_create, struct wp_daemon_core *of,
     wp_recovery_catch_up catch_up, void *ctx,
     const struct wp_lease_redis_pool *with, uint32_t n, struct wp_err *err)
{
    assert_ptr_equal(of, &core);
    assert_non_null(ctx);
    assert_non_null(with);
    golden_add(&journal, "recovery of %u pools, catches up %d\n", n,
               catch_up == wp_daemon_redis_catch_up);
    return may("recovery", err) ? (struct wp_recovery *)(void *)&journal : NULL;
}

WRAP(void, wp_recovery_grow, struct wp_recovery *of, uint32_t n)
{
    assert_ptr_equal(of, &journal);
    golden_add(&journal, "recovery of %u pools\n", n);
}

WRAP(enum wp_status, wp_recovery_start, struct wp_recovery *of,
     struct wp_lease_redis *with, struct wp_err *err)
{
    assert_ptr_equal(of, &journal);
    assert_ptr_equal(with, &journal);
    golden_add(&journal, "recovery starts\n");
    return may("thread", err) ? WP_OK : err->status;
}

WRAP(void, wp_recovery_doubt, struct wp_recovery *of,
     const struct wp_lease_redis_pool *pool)
{
    assert_ptr_equal(of, &journal);
    golden_add(&journal, "doubt in %s/%s\n", pool->pool_namespace, pool->pool);
}

WRAP(void, wp_recovery_one_left, struct wp_recovery *of)
{
    assert_ptr_equal(of, &journal);
    golden_add(&journal, "one left\n");
}

WRAP(void, wp_recovery_stop, struct wp_recovery *of)
{
    golden_add(&journal, "recovery stops: %d\n", of != NULL);
}

WRAP(void, wp_recovery_destroy, struct wp_recovery *of)
{
    golden_add(&journal, "recovery destroyed: %d\n", of != NULL);
}

/* --- The core --- */

WRAP(void, wp_pools_set_replicas, struct wp_pools *of, uint64_t own,
     const uint64_t *ids, uint32_t n)
{
    assert_ptr_equal(of, &core);
    golden_add(&journal, "replicas: %u, own %llx:", n, (unsigned long long)own);
    for (uint32_t i = 0; i < n && i < 4; i++) {
        golden_add(&journal, " %llx", (unsigned long long)ids[i]);
    }
    golden_add(&journal, "\n");
}

WRAP(uint32_t, wp_pools_count, const struct wp_pools *of)
{
    assert_ptr_equal(of, &core);
    return n_pools;
}

WRAP(void, wp_pools_stats, struct wp_pools *of, uint32_t i,
     struct wp_pool_stats *out)
{
    assert_ptr_equal(of, &core);
    *out = pools[i];
}

WRAP(uint64_t, wp_pools_records_refused, const struct wp_pools *of)
{
    assert_ptr_equal(of, &core);
    return refused;
}

WRAP(void, wp_pools_on_record, struct wp_pools *of,
     const struct wp_lease_record *record)
{
    assert_ptr_equal(of, &core);
    golden_add(&journal, "record of %s/%s, fence %llu%s\n",
               record->pool_namespace, record->pool,
               (unsigned long long)record->fence,
               refuses > 0 ? ": refused" : "");
    if (refuses > 0) {
        refuses--;
        refused++;
    }
}

WRAP(uint32_t, wp_pools_index_of_records, const struct wp_pools *of,
     struct wp_str pool_namespace, struct wp_str name)
{
    assert_ptr_equal(of, &core);
    for (uint32_t i = 0; i < n_pools; i++) {
        if (wp_str_is(name, pools[i].spec.name) &&
            wp_str_is(pool_namespace, pools[i].spec.pool_namespace)) {
            return i;
        }
    }
    return UINT32_MAX;
}

WRAP(void, wp_pools_sync_begin, struct wp_pools *of, uint32_t i)
{
    assert_ptr_equal(of, &core);
    golden_add(&journal, "pool %u begins\n", i);
}

WRAP(void, wp_pools_sync_end, struct wp_pools *of, uint32_t i)
{
    assert_ptr_equal(of, &core);
    golden_add(&journal, "pool %u ends\n", i);
}

WRAP(void, wp_control_wake, void *control)
{
    assert_ptr_equal(control, &core);
    golden_add(&journal, "wake\n");
}

WRAP(uint32_t, wp_daemon_locks_others, const struct wp_daemon_locks *locks)
{
    assert_ptr_equal(locks, &known);
    return 3;
}

WRAP(size_t, wp_manifest_pools, const struct wp_manifest *manifest,
     const struct wp_pool_spec **out)
{
    assert_ptr_equal(manifest, &specs);
    *out = specs;
    return n_specs;
}

WRAP(enum wp_status, wp_known_pools_read, const char *path,
     struct wp_known_pool *out, uint32_t max, uint32_t *n, struct wp_err *err)
{
    golden_add(&journal, "read %s, at most %u\n", path, max);
    memcpy(out, known, n_known * sizeof known[0]);
    *n = n_known;
    return known_status == WP_OK
               ? WP_OK
               : wp_err_set(err, known_status, "it cannot be read");
}

WRAP(enum wp_status, wp_known_pools_write, const char *path,
     const struct wp_known_pool *of, uint32_t n, struct wp_err *err)
{
    golden_add(&journal, "write %s:", path);
    for (uint32_t i = 0; i < n; i++) {
        golden_add(&journal, " %s/%s", of[i].pool_namespace, of[i].pool);
    }
    golden_add(&journal, "\n");
    return may("file", err) ? WP_OK : err->status;
}

WRAP(enum wp_status, wp_daemon_read_secret, const char *what, const char *path,
     char *out, size_t cap, struct wp_err *err)
{
    golden_add(&journal, "secret of %s in %s, %zu\n", what, path, cap);
    (void)snprintf(out, cap, "%s", path + 1);
    return may(what, err) ? WP_OK : err->status;
}

/* --- The system --- */

WRAP(const struct wp_clock *, wp_clock_system, void)
{
    return &manual.clock;
}

WRAP(int, nanosleep, const struct timespec *in, struct timespec *left)
{
    assert_null(left);
    assert_int_equal(in->tv_sec, 0);
    wp_clock_manual_advance(&manual, in->tv_nsec);
    naps++;
    return 0;
}

WRAP(void, wp_random_bytes, void *out, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        ((uint8_t *)out)[i] = (uint8_t)(i + 1);
    }
}

static bool
has_memory(void)
{
    if (allocs == 0) {
        return false;
    }
    allocs -= allocs > 0 ? 1 : 0;
    return true;
}

void *__real_calloc(size_t n, size_t size);
WRAP(void *, calloc, size_t n, size_t size)
{
    return has_memory() ? __real_calloc(n, size) : NULL;
}

void *__real_aligned_alloc(size_t align, size_t size);
WRAP(void *, aligned_alloc, size_t align, size_t size)
{
    return has_memory() ? __real_aligned_alloc(align, size) : NULL;
}

void *__real_malloc(size_t size);
WRAP(void *, malloc, size_t size)
{
    return has_memory() ? __real_malloc(size) : NULL;
}

/* --- The tests --- */

static void
set(const char *text)
{
    struct wp_err err;

    if (wp_conf_read_text(conf, wp_str_from(text), "test", &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
}

static void
renew_conf(const char *text)
{
    wp_conf_destroy(conf);
    conf = wp_conf_create();
    assert_non_null(conf);
    core.conf = conf;
    set("lease_store: redis\nstate_dir: /state\nreplica_name: me\n");
    set(text);
}

static void
name(struct wp_pool_spec *spec, const char *ns, const char *pool)
{
    memset(spec, 0, sizeof *spec);
    (void)snprintf(spec->pool_namespace, sizeof spec->pool_namespace, "%s", ns);
    (void)snprintf(spec->name, sizeof spec->name, "%s", pool);
}

static int
begin(void **state)
{
    (void)state;
    journal.len = 0;
    journal.text[0] = '\0';
    memset(&core, 0, sizeof core);
    renew_conf("");
    core.pools = (struct wp_pools *)(void *)&core;
    core.control = (struct wp_control *)(void *)&core;
    wp_clock_manual_init(&manual, 100 * WP_NS_PER_S, 0);
    name(&specs[0], "a", "one");
    name(&specs[1], "a", "two");
    n_specs = 2;
    n_known = 0;
    known_status = WP_OK;
    memset(pools, 0, sizeof pools);
    name(&pools[0].spec, "a", "one");
    name(&pools[1].spec, "a", "two");
    n_pools = 2;
    memset(peers, 0, sizeof peers);
    n_peers = 0;
    fails = NULL;
    refuses = 0;
    knows_all = true;
    is_full = false;
    links_down = 0;
    naps = 0;
    allocs = -1;
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wp_conf_destroy(conf);
    conf = NULL;
    return 0;
}

static void
open_all(void)
{
    struct wp_err err;

    memset(&err, 0, sizeof err);
    LOGGED(redis = wp_daemon_redis_open(
               &core, (const struct wp_manifest *)(const void *)&specs,
               (const struct wp_daemon_locks *)(const void *)&known, &err));
    if (redis == NULL) {
        golden_add(&journal, "not open, %s: %s\n", wp_status_name(err.status),
                   err.msg);
    }
}

static void
finish(const char *file)
{
    char path[512];

    wp_daemon_redis_close(redis);
    redis = NULL;
    (void)snprintf(path, sizeof path, "%s/redis_%s.txt", WP_TEST_GOLDEN, file);
    golden_compare(journal.text, path);
}

static void
again(const char *title)
{
    golden_add(&journal, "# %s\n", title);
}

static void
test_the_store_is_made_by_the_settings(void **state)
{
    static const char *const urls[] = {
        "",
        "redis_url: \"redis://ann:word@host:77/3\"\nredis_prefix: mine\n"
        "redis_timeout: 2s\nheartbeat_timeout: 6s\nrpc_threads: 3\n",
        "redis_url: \"unix:/run/redis\"\nrpc_threads: 62\n",
        "redis_url: \"rediss://host\"\nredis_tls_ca: /ca\n"
        "redis_tls_cert: /cert\nredis_tls_key: /key\nredis_tls_name: name\n"
        "rpc_threads: 64\n",
        "redis_url: \"redis+sentinel://s1,s2/master\"\n"
        "redis_password_file: /pass\nredis_sentinel_password_file: /other\n"
        "rpc_threads: 63\n",
        "redis_url: \"rediss+cluster://c1,c2,c3\"\n",
        "backend: kubernetes\n",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(urls); i++) {
        again(urls[i]);
        renew_conf(urls[i]);
        open_all();
        assert_ptr_equal(wp_daemon_redis_store(redis).self, &journal);
        wp_daemon_redis_close(redis);
    }
    redis = NULL;
    finish("settings");
}

static void
test_every_pool_that_may_have_leases_is_read(void **state)
{
    (void)state;
    name(&specs[2], "b", "one");
    name(&specs[3], "a", "two");
    n_specs = 4;
    for (uint32_t i = 0; i < 3; i++) {
        (void)snprintf(known[i].pool_namespace, sizeof known[i].pool_namespace,
                       "%s", i == 0 ? "a" : "c");
        (void)snprintf(known[i].pool, sizeof known[i].pool, "%s",
                       i == 2 ? "three" : "one");
    }
    n_known = 3;
    open_all();
    wp_daemon_redis_close(redis);
    again("as many as there may be");
    for (uint32_t i = 0; i < WP_POOLS_MAX; i++) {
        (void)snprintf(known[i].pool_namespace, sizeof known[i].pool_namespace,
                       "d");
        (void)snprintf(known[i].pool, sizeof known[i].pool, "p%u", i);
    }
    n_known = WP_POOLS_MAX;
    open_all();
    wp_daemon_redis_close(redis);
    again("none");
    n_specs = 0;
    n_known = 0;
    open_all();
    again("the file cannot be read");
    n_specs = 1;
    known_status = WP_INTERNAL;
    open_all();
    again("none in a cluster");
    known_status = WP_OK;
    n_specs = 0;
    renew_conf("backend: kubernetes\n");
    open_all();
    finish("pools");
}

static void
test_what_cannot_be_made_is_said(void **state)
{
    static const char *const all[] = {
        "redis_password_file",
        "redis_sentinel_password_file",
        "tls",
        "recovery",
        "topology",
        "store",
    };
    struct wp_err err;
    int n;

    (void)state;
    renew_conf("redis_url: \"rediss+sentinel://s1/master\"\n"
               "redis_password_file: /p\nredis_sentinel_password_file: /q\n");
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        again(all[i]);
        fails = all[i];
        open_all();
        assert_null(redis);
        golden_add(&journal, "check: %s\n",
                   wp_status_name(wp_daemon_redis_check_login(conf, &err)));
    }
    fails = NULL;
    again("an empty password");
    renew_conf("redis_password_file: /\n");
    open_all();
    renew_conf("redis_sentinel_password_file: /\n"
               "redis_url: \"redis+sentinel://s1/master\"\n");
    open_all();
    again("a wrong address");
    renew_conf("redis_url: \"http://x\"\n");
    open_all();
    golden_add(&journal, "check: %s\n",
               wp_status_name(wp_daemon_redis_check_login(conf, &err)));
    set("lease_store: memory\n");
    assert_int_equal(wp_daemon_redis_check_login(conf, &err), WP_OK);
    renew_conf("");
    for (n = 0; redis == NULL; n++) {
        char title[32];

        (void)snprintf(title, sizeof title, "memory %d", n);
        again(title);
        allocs = n;
        open_all();
    }
    allocs = -1;
    finish("failures");
}

static void
test_followers_wait_for_their_links(void **state)
{
    static const char *const all[] = {"feed", "thread", ""};
    struct wp_err err;

    (void)state;
    core.keeper = true;
    open_all();
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        fails = all[i];
        links_down = 3;
        naps = 0;
        golden_add(&journal, "%s, %u naps\n",
                   wp_status_name(wp_daemon_redis_follow(redis, &err)), naps);
    }
    again("they do not come up");
    fails = NULL;
    links_down = UINT32_MAX;
    naps = 0;
    assert_int_equal(wp_daemon_redis_follow(redis, &err), WP_OK);
    assert_int_equal(naps, 1000);
    again("they are up");
    links_down = 0;
    naps = 0;
    assert_int_equal(wp_daemon_redis_follow(redis, &err), WP_OK);
    assert_int_equal(naps, 0);
    wp_daemon_redis_leave(redis);
    wp_daemon_redis_leave(NULL);
    wp_daemon_redis_quit(redis);
    wp_daemon_redis_quit(NULL);
    wp_daemon_redis_close(NULL);
    finish("follow");
}

static void
note(void)
{
    struct wp_err err;
    enum wp_status status;

    memset(&err, 0, sizeof err);
    status = wp_daemon_redis_note_pools(redis, &err);
    golden_add(&journal, "%s %s\n", wp_status_name(status),
               status != WP_OK ? err.msg : "");
}

static void
test_pools_are_noted_and_keepers_known(void **state)
{
    char host[4] = "?";

    (void)state;
    open_all();
    note();
    n_pools = 0;
    note();
    fails = "file";
    note();
    allocs = 0;
    note();
    allocs = -1;
    for (uint32_t i = 0; i < 3; i++) {
        (void)snprintf(peers[i].host, sizeof peers[i].host, "host-%u", i);
    }
    assert_false(wp_daemon_redis_other_keeper(redis, host, sizeof host));
    assert_int_equal(wp_daemon_redis_keepers(redis), 0);
    core.keeper = true;
    assert_int_equal(wp_daemon_redis_keepers(redis), 1);
    n_peers = 2;
    assert_false(wp_daemon_redis_other_keeper(redis, host, sizeof host));
    assert_string_equal(host, "?");
    peers[2].keeper = true;
    assert_false(wp_daemon_redis_other_keeper(redis, host, sizeof host));
    assert_int_equal(wp_daemon_redis_keepers(redis), 1);
    n_peers = 3;
    assert_true(wp_daemon_redis_other_keeper(redis, host, sizeof host));
    assert_string_equal(host, "hos");
    assert_int_equal(wp_daemon_redis_keepers(redis), 2);
    core.keeper = false;
    peers[0].keeper = true;
    assert_int_equal(wp_daemon_redis_keepers(redis), 2);
    /* There may be more than are told of. */
    n_peers = WP_PEERS_MAX + 1;
    assert_int_equal(wp_daemon_redis_keepers(redis), 2);
    peers[0].keeper = false;
    peers[2].keeper = false;
    assert_int_equal(wp_daemon_redis_keepers(redis), 0);
    assert_false(wp_daemon_redis_other_keeper(redis, host, sizeof host));
    peers[WP_PEERS_MAX - 1].keeper = true;
    assert_int_equal(wp_daemon_redis_keepers(redis), 1);
    assert_true(wp_daemon_redis_other_keeper(redis, host, sizeof host));
    finish("notes");
}

/* --- What is heard --- */

static bool
hear(const char *ns, const char *pool, uint64_t fence)
{
    struct wp_lease_record record;

    memset(&record, 0, sizeof record);
    (void)snprintf(record.pool_namespace, sizeof record.pool_namespace, "%s",
                   ns);
    (void)snprintf(record.pool, sizeof record.pool, "%s", pool);
    record.fence = fence;
    return sink.on_record(sink.ctx, &record);
}

static bool
mark(const char *ns, const char *pool, bool is_begin)
{
    struct wp_lease_redis_pool of;

    memset(&of, 0, sizeof of);
    (void)snprintf(of.pool_namespace, sizeof of.pool_namespace, "%s", ns);
    (void)snprintf(of.pool, sizeof of.pool, "%s", pool);
    return sink.on_sync(sink.ctx, &of, is_begin);
}

static void
hear_of(uint8_t id, bool keeper, bool leaves, bool gone)
{
    struct wp_lease_redis_peer peer;

    memset(&peer, 0, sizeof peer);
    peer.replica_id[0] = id;
    (void)snprintf(peer.host, sizeof peer.host, "host-%u", id);
    peer.keeper = keeper;
    peer.leaves = leaves;
    golden_add(&journal, "heard of %u%s%s%s\n", id, keeper ? ", keeper" : "",
               leaves ? ", leaves" : "", gone ? ", gone" : "");
    LOGGED(sink.on_peer(sink.ctx, &peer, gone));
}

static void
run(void)
{
    int64_t next;

    LOGGED(next = wp_daemon_redis_run(redis));
    golden_add(&journal, "again in %lld ms\n",
               (long long)((next - manual.now_mono_ns) / WP_NS_PER_MS));
}

static void
test_replicas_are_heard(void **state)
{
    (void)state;
    open_all();
    assert_ptr_equal(sink.ctx, redis);
    hear_of(1, false, false, false);
    hear_of(1, false, false, false);
    hear_of(2, true, false, false);
    hear_of(3, false, true, false);
    hear_of(1, false, false, true);
    hear_of(1, false, false, true);
    hear_of(3, false, true, true);
    hear_of(4, true, false, true);
    again("two keepers");
    core.keeper = true;
    hear_of(5, true, false, false);
    hear_of(5, false, false, false);
    hear_of(5, true, false, true);
    renew_conf("backend: kubernetes\n");
    hear_of(6, true, false, false);
    again("as many as may be");
    for (uint32_t i = 0; i < WP_REPLICAS_MAX - 1; i++) {
        hear_of((uint8_t)(i + 100), false, false, false);
    }
    sink.on_doubt(sink.ctx, &(struct wp_lease_redis_pool){"a", "one"});
    finish("replicas");
}

static void
test_the_core_is_told_in_order(void **state)
{
    (void)state;
    open_all();
    run();
    again("both begin");
    assert_true(mark("a", "one", true));
    assert_true(hear("a", "one", 1));
    assert_true(mark("a", "other", true));
    assert_true(hear("a", "two", 2));
    assert_true(mark("a", "other", false));
    assert_true(mark("a", "one", false));
    run();
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    assert_true(mark("a", "two", false));
    wp_daemon_redis_catch_up(redis);
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    finish("order");
}

static void
test_a_turn_has_its_bound(void **state)
{
    struct wp_lease_redis_stats stats;
    uint64_t n_refused;
    uint32_t sent = 0;

    (void)state;
    open_all();
    n_pools = 0;
    while (hear("a", "one", sent) && sent < 10000) {
        sent++;
    }
    assert_int_equal(sent, 8192);
    assert_false(mark("a", "one", true));
    wp_daemon_redis_stats(redis, &stats, &n_refused);
    assert_int_equal(n_refused, 2);
    assert_int_equal(stats.redis.links, 5);
    for (uint32_t i = 0; i < 5; i++) {
        journal.len = 0;
        run();
        golden_add(&journal, "turn %u\n", i);
        if (i < 4) {
            char first[64];

            (void)snprintf(first, sizeof first, "record of a/one, fence %u\n",
                           2048 * i);
            assert_memory_equal(journal.text, first, strlen(first));
            assert_non_null(strstr(journal.text, "again in 0 ms"));
        }
    }
    golden_add(&journal, "the last turn tells the state\n");
    journal.text[journal.len] = '\0';
    wp_daemon_redis_close(redis);
    redis = NULL;
    finish("bound");
}

static void
test_the_state_is_said_twice_a_second(void **state)
{
    (void)state;
    pools[0].waiting = 3;
    pools[1].waiting = 4;
    open_all();
    run();
    manual.now_mono_ns += 500 * WP_NS_PER_MS - 1;
    run();
    manual.now_mono_ns += 1;
    pools[1].waiting = 1;
    pools[1].gone = true;
    run();
    core.keeper = true;
    run();
    run();
    finish("state");
}

static void
pass(int64_t ms)
{
    manual.now_mono_ns += ms * WP_NS_PER_MS;
    golden_add(&journal, "%lld ms pass\n", (long long)ms);
    run();
}

static void
test_what_was_left_out_is_read_again(void **state)
{
    (void)state;
    open_all();
    again("the first is read at once, the next are not");
    refuses = 1;
    assert_true(hear("a", "two", 1));
    run();
    for (uint32_t i = 0; i < 12; i++) {
        refuses = i < 10 ? 1 : 0;
        assert_true(hear("a", i % 2 == 0 ? "one" : "two", i));
        pass(i < 2 ? 999 : 501);
    }
    again("none is left out any more");
    pass(5000);
    refuses = 1;
    assert_true(hear("a", "one", 100));
    pass(1000);
    again("a pool that the core does not know is read once it does");
    refuses = 1;
    assert_true(hear("x", "one", 101));
    n_pools = 1;
    refuses = 2;
    assert_true(hear("a", "two", 102));
    assert_true(mark("a", "two", false));
    pass(5000);
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    n_pools = 2;
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    pass(5000);
    assert_true(mark("a", "one", false));
    assert_true(mark("a", "two", false));
    pass(1);
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    finish("missed");
}

static void
test_pools_that_come_are_taken_in(void **state)
{
    (void)state;
    open_all();
    n_pools = 4;
    name(&pools[2].spec, "b", "new");
    name(&pools[3].spec, "b", "over");
    pools[3].gone = true;
    knows_all = false;
    run();
    golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis));
    again("it has no room");
    pools[3].gone = false;
    is_full = true;
    LOGGED(golden_add(&journal, "read: %d\n", wp_daemon_redis_is_read(redis)));
    pass(500);
    again("it has");
    is_full = false;
    pass(500);
    pass(500);
    finish("comes");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_the_store_is_made_by_the_settings),
        TEST(test_every_pool_that_may_have_leases_is_read),
        TEST(test_what_cannot_be_made_is_said),
        TEST(test_followers_wait_for_their_links),
        TEST(test_pools_are_noted_and_keepers_known),
        TEST(test_replicas_are_heard),
        TEST(test_the_core_is_told_in_order),
        TEST(test_a_turn_has_its_bound),
        TEST(test_the_state_is_said_twice_a_second),
        TEST(test_what_was_left_out_is_read_again),
        TEST(test_pools_that_come_are_taken_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
