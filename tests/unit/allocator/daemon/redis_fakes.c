#include "tests/unit/allocator/daemon/redis_fakes.h"

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
#include "pool/base/rng.h"

#define WRAP(result, name, ...)                                                \
    result __wrap_##name(__VA_ARGS__);                                         \
    result __wrap_##name(__VA_ARGS__)
#define ROUTER "the topology's router"

struct golden journal;
struct heard heard;
struct wp_conf *conf;
struct wp_daemon_core core;
struct wp_daemon_redis *redis;
struct wp_clock_manual manual;
struct wp_pool_spec specs[SPECS];
size_t n_specs;
struct wp_known_pool known[WP_POOLS_MAX];
uint32_t n_known;
enum wp_status known_status;
struct wp_pool_stats pools[SPECS];
uint32_t n_pools;
struct wp_lease_redis_peer peers[WP_PEERS_MAX];
uint32_t n_peers;
struct wp_lease_redis_sink sink;
const char *fails;
uint32_t refuses;
uint64_t refused;
bool knows_all;
bool is_full;
uint32_t links_down;
uint32_t naps;
int allocs = -1;

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

/* A long path is told by its length and its end. */
static void
say_path(const char *what, const char *path)
{
    size_t len = strlen(path);

    if (len > 100) {
        golden_add(&journal, "%s %zu bytes ...%s", what, len, path + len - 6);
    } else {
        golden_add(&journal, "%s %s", what, path);
    }
}

WRAP(enum wp_status, wp_known_pools_read, const char *path,
     struct wp_known_pool *out, uint32_t max, uint32_t *n, struct wp_err *err)
{
    say_path("read", path);
    golden_add(&journal, ", at most %u\n", max);
    memcpy(out, known, n_known * sizeof known[0]);
    *n = n_known;
    return known_status == WP_OK
               ? WP_OK
               : wp_err_set(err, known_status, "it cannot be read");
}

WRAP(enum wp_status, wp_known_pools_write, const char *path,
     const struct wp_known_pool *of, uint32_t n, struct wp_err *err)
{
    say_path("write", path);
    golden_add(&journal, ":");
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

/* Secrets are not left in memory; told by their sizes, since settings are wiped
 * as well. */
WRAP(void, explicit_bzero, void *bytes, size_t len)
{
    if (len == WP_REDIS_LOGIN_MAX + 2) {
        golden_add(&journal, "password wiped\n");
    } else if (len == sizeof(struct wp_redis_url)) {
        golden_add(&journal, "login wiped\n");
    }
    memset(bytes, 0, len);
}

/* As it is called where the compiler knows how large bytes are. */
WRAP(void, __explicit_bzero_chk, void *bytes, size_t len, size_t size)
{
    assert_true(len <= size);
    __wrap_explicit_bzero(bytes, len);
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

/* --- For the tests --- */

void
set(const char *text)
{
    struct wp_err err;

    if (wp_conf_read_text(conf, wp_str_from(text), "test", &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
}

void
renew_conf(const char *text)
{
    wp_conf_destroy(conf);
    conf = wp_conf_create();
    assert_non_null(conf);
    core.conf = conf;
    set("lease_store: redis\nstate_dir: /state\nreplica_name: me\n");
    set(text);
}

void
name(struct wp_pool_spec *spec, const char *ns, const char *pool)
{
    memset(spec, 0, sizeof *spec);
    (void)snprintf(spec->pool_namespace, sizeof spec->pool_namespace, "%s", ns);
    (void)snprintf(spec->name, sizeof spec->name, "%s", pool);
}

int
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

int
end(void **state)
{
    (void)state;
    wp_conf_destroy(conf);
    conf = NULL;
    return 0;
}

void
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

void
finish(const char *file)
{
    char path[512];

    wp_daemon_redis_close(redis);
    redis = NULL;
    (void)snprintf(path, sizeof path, "%s/redis_%s.txt", WP_TEST_GOLDEN, file);
    golden_compare(journal.text, path);
}

void
again(const char *title)
{
    golden_add(&journal, "# %s\n", title);
}
