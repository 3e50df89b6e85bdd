/* Leases in Redis, and the replicas that share them. */
#include "allocator/daemon/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "allocator/daemon/files.h"
#include "allocator/daemon/redis_impl.h"
#include "allocator/stores/known_pools.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"

enum {
    /* Beside the threads of gRPC: control. */
    OTHER_THREADS = 1,
    THREADS_DEFAULT = 8,
};

uint64_t
wp_daemon_redis_number(const uint8_t id[WP_REPLICA_ID_LEN])
{
    uint64_t number;

    memcpy(&number, id, sizeof number);
    return number;
}

bool
wp_daemon_redis_add_pool(struct wp_daemon_redis *r, const char *pool_namespace,
                         const char *pool)
{
    struct wp_lease_redis_pool *added = &r->pools[r->n_pools];

    for (uint32_t i = 0; i < r->n_pools; i++) {
        if (strcmp(r->pools[i].pool, pool) == 0 &&
            strcmp(r->pools[i].pool_namespace, pool_namespace) == 0) {
            return false;
        }
    }
    (void)snprintf(added->pool_namespace, sizeof added->pool_namespace, "%s",
                   pool_namespace);
    (void)snprintf(added->pool, sizeof added->pool, "%s", pool);
    r->n_pools++;
    return true;
}

static enum wp_status
read_password(const char *setting, const char *path, struct wp_redis_url *url,
              enum wp_status (*set)(struct wp_redis_url *url,
                                    struct wp_str password, struct wp_err *err),
              struct wp_err *err)
{
    char password[WP_REDIS_LOGIN_MAX + 2];
    enum wp_status status;

    if (path[0] == '\0') {
        return WP_OK;
    }
    status =
        wp_daemon_read_secret(setting, path, password, sizeof password, err);
    if (status == WP_OK) {
        status = set(url, wp_str_from(password), err);
        if (status != WP_OK) {
            (void)wp_err_wrap(err, "setting '%s'", setting);
        }
    }
    explicit_bzero(password, sizeof password);
    return status;
}

/* With the passwords from their files; url holds secrets, whatever the status.
 * tls borrows the settings, and counts when url says so. */
static enum wp_status
read_login(const struct wp_conf *conf, struct wp_redis_url *url,
           struct wp_redis_tls *tls, struct wp_err *err)
{
    enum wp_status status =
        wp_redis_url_parse(wp_str_from(conf->redis_url), url, err);

    if (status != WP_OK) {
        return wp_err_wrap(err, "setting 'redis_url'");
    }
    *tls = (struct wp_redis_tls){.ca = conf->redis_tls_ca,
                                 .cert = conf->redis_tls_cert,
                                 .key = conf->redis_tls_key,
                                 .name = conf->redis_tls_name};
    status = read_password("redis_password_file", conf->redis_password_file,
                           url, wp_redis_url_set_password, err);
    if (status == WP_OK) {
        status = read_password("redis_sentinel_password_file",
                               conf->redis_sentinel_password_file, url,
                               wp_redis_url_set_sentinel_password, err);
    }
    if (status == WP_OK && url->tls) {
        status = wp_redis_tls_check(tls, err);
    }
    return status;
}

enum wp_status
wp_daemon_redis_check_login(const struct wp_conf *conf, struct wp_err *err)
{
    struct wp_redis_tls tls;
    struct wp_redis_url url;
    enum wp_status status = WP_OK;

    if (conf->lease_store == WP_CONF_STORE_REDIS) {
        status = read_login(conf, &url, &tls, err);
        explicit_bzero(&url, sizeof url);
    }
    return status;
}

/* "STATE_DIR/pools"; returns out. */
static const char *
known_path(const struct wp_daemon_redis *r, char out[WP_CONF_TEXT_MAX + 8])
{
    (void)snprintf(out, WP_CONF_TEXT_MAX + 8, "%s/pools",
                   r->core->conf->state_dir);
    return out;
}

/* Those of the manifests, and those that had leases when they were taken out of
 * them. */
static enum wp_status
list_pools(struct wp_daemon_redis *r, struct wp_err *err)
{
    const struct wp_pool_spec *specs;
    size_t n = wp_manifest_pools(r->manifest, &specs);
    struct wp_known_pool *known = calloc(WP_POOLS_MAX, sizeof *known);
    char path[WP_CONF_TEXT_MAX + 8];
    uint32_t n_known = 0;
    enum wp_status status;

    r->pools = calloc(n + WP_POOLS_MAX + 1, sizeof *r->pools);
    r->missed = calloc(n + WP_POOLS_MAX + 1, sizeof *r->missed);
    r->read = calloc(n + WP_POOLS_MAX + 1, sizeof *r->read);
    if (known == NULL || r->pools == NULL || r->missed == NULL ||
        r->read == NULL) {
        free(known);
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    status = wp_known_pools_read(known_path(r, path), known, WP_POOLS_MAX,
                                 &n_known, err);
    if (wp_conf_is_cluster(r->core->conf)) {
        /* No object can have that name. The others are heard by way of it
         * before any pool is known. */
        (void)wp_daemon_redis_add_pool(r, "-", "-");
    }
    for (size_t i = 0; i < n; i++) {
        (void)wp_daemon_redis_add_pool(r, specs[i].pool_namespace,
                                       specs[i].name);
    }
    for (uint32_t i = 0; i < n_known && r->n_pools < WP_POOLS_MAX; i++) {
        (void)wp_daemon_redis_add_pool(r, known[i].pool_namespace,
                                       known[i].pool);
    }
    free(known);
    if (status == WP_OK && r->n_pools == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'lease_store': redis keeps the leases of "
                          "the pools in 'manifests', and there are none");
    }
    return status;
}

enum wp_status
wp_daemon_redis_note_pools(const struct wp_daemon_redis *r, struct wp_err *err)
{
    struct wp_pools *pools = r->core->pools;
    uint32_t n = wp_pools_count(pools);
    struct wp_known_pool *known = calloc(n + 1, sizeof *known);
    char path[WP_CONF_TEXT_MAX + 8];
    enum wp_status status;

    if (known == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    for (uint32_t i = 0; i < n; i++) {
        struct wp_pool_stats stats;

        wp_pools_stats(pools, i, &stats);
        memcpy(known[i].pool_namespace, stats.spec.pool_namespace,
               sizeof known[i].pool_namespace);
        memcpy(known[i].pool, stats.spec.name, sizeof known[i].pool);
    }
    status = wp_known_pools_write(known_path(r, path), known, n, err);
    free(known);
    return status;
}

static uint32_t
count_others(void *ctx)
{
    const struct wp_daemon_redis *r = ctx;

    return wp_daemon_locks_others(r->locks);
}

static enum wp_status
connect_redis(struct wp_daemon_redis *r, struct wp_err *err)
{
    const struct wp_conf *conf = r->core->conf;
    const struct wp_lease_redis_config base = {
        .redis = {.server = r->url.server,
                  .tls = r->url.tls ? &r->tls : NULL,
                  .user = r->url.user,
                  .password = r->url.password,
                  .db = r->url.db,
                  .connect_timeout_ns = conf->redis_timeout,
                  .commit_timeout_ns = conf->redis_timeout},
        .prefix = conf->redis_prefix,
        .pools = r->pools,
        .n_pools = r->n_pools,
        .grows = true,
        .replicas = true,
        .host = conf->replica_name,
        .heartbeat_ns = conf->heartbeat_timeout / 3,
        .peer_gone_ns = conf->heartbeat_timeout,
        .others = wp_conf_is_cluster(conf) ? NULL : count_others,
        .others_ctx = r,
        .sink = wp_daemon_redis_sink(r),
    };
    struct wp_lease_redis_config config = base;
    uint32_t threads = (uint32_t)conf->rpc_threads;

    if (r->url.kind != WP_REDIS_SINGLE) {
        const struct wp_redis_topology_config topology = {
            .timeout_ns = conf->redis_timeout,
            .tls = r->url.tls ? &r->tls : NULL};

        if (wp_redis_topology_create(&r->url, &topology, &r->topology, err) !=
            WP_OK) {
            return wp_err_wrap(err, "setting 'redis_url'");
        }
        config.redis.router = wp_redis_topology_router(r->topology);
        config.redis.cluster = r->url.kind == WP_REDIS_CLUSTER;
    }
    threads = (threads > 0 ? threads : THREADS_DEFAULT) + OTHER_THREADS;
    config.threads = threads < 64 ? threads : 64;
    memcpy(config.replica_id, r->replica_id, sizeof config.replica_id);
    return wp_lease_redis_create(&config, &r->redis, err);
}

struct wp_daemon_redis *
wp_daemon_redis_open(struct wp_daemon_core *core,
                     const struct wp_manifest *manifest,
                     const struct wp_daemon_locks *locks, struct wp_err *err)
{
    struct wp_daemon_redis *r =
        aligned_alloc(_Alignof(struct wp_daemon_redis), sizeof *r);
    char text[WP_REDIS_URL_TEXT_MAX];

    if (r == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    memset(r, 0, sizeof *r);
    (void)pthread_mutex_init(&r->lock, NULL);
    r->core = core;
    r->manifest = manifest;
    r->locks = locks;
    wp_random_bytes(r->replica_id, sizeof r->replica_id);
    r->replicas[0] = wp_daemon_redis_number(r->replica_id);
    r->n_replicas = 1;
    if (!wp_channel_init_sized(&r->feed, WP_DAEMON_REDIS_FEED,
                               sizeof(struct wp_daemon_redis_change))) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        wp_daemon_redis_close(r);
        return NULL;
    }
    if (read_login(core->conf, &r->url, &r->tls, err) != WP_OK ||
        list_pools(r, err) != WP_OK ||
        (r->recovery = wp_recovery_create(core, wp_daemon_redis_catch_up, r,
                                          r->pools, r->n_pools, err)) == NULL ||
        connect_redis(r, err) != WP_OK) {
        wp_daemon_redis_close(r);
        return NULL;
    }
    wp_log_info("Redis", wp_kv_str("url", wp_redis_url_text(&r->url, text)),
                wp_kv_str("prefix", core->conf->redis_prefix),
                wp_kv_str("replica", core->conf->replica_name));
    return r;
}

struct wp_lease_store
wp_daemon_redis_store(struct wp_daemon_redis *r)
{
    return wp_lease_redis_store(r->redis);
}

/* The first claims find the links up. One that stays down for redis_timeout is
 * like one that goes down later: then claims say so. */
static void
await_links(const struct wp_daemon_redis *r)
{
    const struct timespec again = {0, WP_NS_PER_MS};
    int64_t end_ns =
        wp_clock_mono_ns(wp_clock_system()) + r->core->conf->redis_timeout;
    struct wp_lease_redis_stats stats;

    wp_lease_redis_read_stats(r->redis, &stats);
    while (stats.redis.links_up < stats.redis.links &&
           wp_clock_mono_ns(wp_clock_system()) < end_ns) {
        (void)nanosleep(&again, NULL);
        wp_lease_redis_read_stats(r->redis, &stats);
    }
}

enum wp_status
wp_daemon_redis_follow(struct wp_daemon_redis *r, struct wp_err *err)
{
    uint64_t own = wp_daemon_redis_number(r->replica_id);

    wp_pools_set_replicas(r->core->pools, own, &own, 1);
    if (wp_lease_redis_follow(r->redis, err) != WP_OK) {
        return err->status;
    }
    wp_lease_redis_set_state(r->redis, 0, wp_daemon_is_keeper(r->core));
    if (wp_recovery_start(r->recovery, r->redis, err) != WP_OK) {
        return err->status;
    }
    await_links(r);
    return WP_OK;
}

bool
wp_daemon_redis_other_keeper(struct wp_daemon_redis *r, char *host, size_t cap)
{
    struct wp_lease_redis_peer peers[WP_PEERS_MAX];
    uint32_t n = wp_lease_redis_peers(r->redis, peers, WP_PEERS_MAX);

    for (uint32_t i = 0; i < n && i < WP_PEERS_MAX; i++) {
        if (peers[i].keeper) {
            (void)snprintf(host, cap, "%s", peers[i].host);
            return true;
        }
    }
    return false;
}

uint32_t
wp_daemon_redis_keepers(const struct wp_daemon_redis *r)
{
    struct wp_lease_redis_peer peers[WP_PEERS_MAX];
    uint32_t n = wp_lease_redis_peers(r->redis, peers, WP_PEERS_MAX);
    uint32_t keepers = wp_daemon_is_keeper(r->core) ? 1 : 0;

    for (uint32_t i = 0; i < n && i < WP_PEERS_MAX; i++) {
        keepers += peers[i].keeper ? 1 : 0;
    }
    return keepers;
}

void
wp_daemon_redis_leave(struct wp_daemon_redis *r)
{
    if (r != NULL) {
        wp_lease_redis_leave(r->redis);
    }
}

void
wp_daemon_redis_stats(const struct wp_daemon_redis *r,
                      struct wp_lease_redis_stats *out, uint64_t *feed_refused)
{
    wp_lease_redis_read_stats(r->redis, out);
    *feed_refused =
        atomic_load_explicit(&r->feed_refused, memory_order_relaxed);
}

void
wp_daemon_redis_quit(struct wp_daemon_redis *r)
{
    if (r != NULL) {
        wp_recovery_stop(r->recovery);
    }
}

void
wp_daemon_redis_close(struct wp_daemon_redis *r)
{
    if (r == NULL) {
        return;
    }
    wp_daemon_redis_quit(r);
    wp_lease_redis_destroy(r->redis);
    wp_redis_topology_destroy(r->topology);
    wp_channel_fini(&r->feed);
    wp_recovery_destroy(r->recovery);
    (void)pthread_mutex_destroy(&r->lock);
    free(r->pools);
    free(r->missed);
    free(r->read);
    explicit_bzero(&r->url, sizeof r->url);
    free(r);
}
