/* Leases in Redis, and the replicas that share them. */
#include "allocator/daemon/redis.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "allocator/daemon/files.h"
#include "allocator/daemon/known_pools.h"
#include "allocator/daemon/recover.h"
#include "allocator/stores/redis/link/tls.h"
#include "allocator/stores/redis/topology/topology.h"
#include "pool/base/channel.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"

enum {
    FEED_MESSAGES = 8192,
    FEED_TURN = 2048, /* Messages of one turn of the control thread. */
    /* Beside the threads of gRPC: control. */
    OTHER_THREADS = 1,
    THREADS_DEFAULT = 8,
};

#define STATE_EVERY_NS (500 * WP_NS_PER_MS)
/* Before a pool is read again of which a record was left out; twice as long
 * each time, while some are left out still. */
#define MISSED_NS (1 * WP_NS_PER_S)
#define MISSED_MAX_NS (5 * WP_NS_PER_S)

/* Of one daemon; see each part for its thread. */
struct wp_daemon_redis {
    struct wp_daemon_core *core;
    const struct wp_manifest *manifest;
    const struct wp_daemon_locks *locks;
    struct wp_lease_redis *redis;
    struct wp_redis_topology *topology; /* NULL: one server. */
    /* To the control thread, which alone may tell the core. When it is full the
     * store reads the pool again later: nothing is lost, only late. */
    struct wp_channel feed;
    _Atomic(uint64_t) feed_refused;
    struct wp_redis_url url;
    struct wp_redis_tls tls;           /* Counts when url says so. */
    struct wp_lease_redis_pool *pools; /* Owned. */
    uint32_t n_pools;
    uint8_t replica_id[WP_REPLICA_ID_LEN];
    /* Control thread: what the heartbeats say, and since when. */
    int64_t state_said_ns;
    bool keeper_said;
    bool full_logged;     /* There is no room for another pool. */
    bool *missed;         /* Owned. Of that pool a record was left out. */
    int64_t missed_at_ns; /* When they are read again at the earliest. */
    int64_t missed_pause_ns;

    struct wp_recovery *recovery;

    pthread_mutex_t lock;               /* Guards what follows. */
    uint64_t replicas[WP_REPLICAS_MAX]; /* Alive, this one among them. */
    uint32_t n_replicas;
};

/* --- What the others do; the store's feed thread --- */

/* On its way to the core. */
struct change {
    enum {
        CHANGE_RECORD,     /* A record as it is now; state NONE: forgotten. */
        CHANGE_SYNC_BEGIN, /* All records of its pool follow. */
        CHANGE_SYNC_END,   /* That was all of them. */
    } kind;
    struct wp_lease_record record; /* Of a SYNC only the pool is said. */
};

static bool
send_change(struct wp_daemon_redis *r, const struct change *change)
{
    if (!wp_channel_send_sized(&r->feed, change)) {
        atomic_fetch_add_explicit(&r->feed_refused, 1, memory_order_relaxed);
        return false;
    }
    wp_control_wake(r->core->control);
    return true;
}

static bool
hear_record(void *ctx, const struct wp_lease_record *record)
{
    const struct change change = {CHANGE_RECORD, *record};

    return send_change(ctx, &change);
}

static bool
hear_sync(void *ctx, const struct wp_lease_redis_pool *pool, bool begin)
{
    struct change change;

    memset(&change, 0, sizeof change);
    change.kind = begin ? CHANGE_SYNC_BEGIN : CHANGE_SYNC_END;
    memcpy(change.record.pool_namespace, pool->pool_namespace,
           sizeof change.record.pool_namespace);
    memcpy(change.record.pool, pool->pool, sizeof change.record.pool);
    return send_change(ctx, &change);
}

static uint64_t
number_of(const uint8_t id[WP_REPLICA_ID_LEN])
{
    uint64_t number;

    memcpy(&number, id, sizeof number);
    return number;
}

/* Adds or removes the replica; lock is held. True when that was news. */
static bool
note_replica(struct wp_daemon_redis *r, uint64_t id, bool gone)
{
    uint32_t i = 0;

    while (i < r->n_replicas && r->replicas[i] != id) {
        i++;
    }
    if (gone && i < r->n_replicas) {
        r->replicas[i] = r->replicas[--r->n_replicas];
        return true;
    }
    if (!gone && i == r->n_replicas && i < WP_REPLICAS_MAX) {
        r->replicas[r->n_replicas++] = id;
        return true;
    }
    return false;
}

static void
hear_peer(void *ctx, const struct wp_lease_redis_peer *peer, bool gone)
{
    struct wp_daemon_redis *r = ctx;
    uint64_t replicas[WP_REPLICAS_MAX];
    uint32_t n;
    bool news;

    (void)pthread_mutex_lock(&r->lock);
    news = note_replica(r, number_of(peer->replica_id), gone);
    n = r->n_replicas;
    memcpy(replicas, r->replicas, n * sizeof replicas[0]);
    (void)pthread_mutex_unlock(&r->lock);
    /* Of one that has said so everything was heard before that. */
    if (gone && !peer->leaves) {
        wp_recovery_one_left(r->recovery);
    }
    if (news) {
        wp_pools_set_replicas(r->core->pools, number_of(r->replica_id),
                              replicas, n);
        wp_log_info(gone ? "a replica is gone" : "a replica is there",
                    wp_kv_str("replica", peer->host), wp_kv_int("replicas", n));
    }
    if (!gone && peer->leaves) {
        wp_log_info("a replica leaves", wp_kv_str("replica", peer->host));
    }
    /* In a cluster leaders change, and say so a little later. */
    if (!gone && peer->keeper && wp_daemon_is_keeper(r->core) &&
        !wp_conf_is_cluster(r->core->conf)) {
        wp_log_error("another replica makes sandboxes for the same "
                     "redis_prefix: give one of the two another prefix, or "
                     "the same state_dir",
                     wp_kv_str("replica", peer->host));
    }
}

/* Any of the store's threads. */
static void
hear_doubt(void *ctx, const struct wp_lease_redis_pool *pool)
{
    const struct wp_daemon_redis *r = ctx;

    wp_recovery_doubt(r->recovery, pool);
}

/* --- What is heard, told to the core; the control thread --- */

/* The core has no slot for it now, or not its pool. */
static void
note_missed(struct wp_daemon_redis *r, const struct wp_lease_record *record)
{
    for (uint32_t i = 0; i < r->n_pools; i++) {
        if (strcmp(r->pools[i].pool, record->pool) == 0 &&
            strcmp(r->pools[i].pool_namespace, record->pool_namespace) == 0) {
            r->missed[i] = true;
        }
    }
}

static void
read_missed(struct wp_daemon_redis *r, int64_t now_ns)
{
    bool any = false;

    if (now_ns < r->missed_at_ns) {
        return;
    }
    for (uint32_t i = 0; i < r->n_pools; i++) {
        const struct wp_lease_redis_pool *pool = &r->pools[i];

        if (r->missed[i] &&
            wp_pools_index_of_records(r->core->pools,
                                      wp_str_from(pool->pool_namespace),
                                      wp_str_from(pool->pool)) != UINT32_MAX) {
            r->missed[i] = false;
            any = true;
            wp_lease_redis_read_again(r->redis, pool);
        }
    }
    r->missed_pause_ns = !any || r->missed_pause_ns == 0 ? MISSED_NS
                         : r->missed_pause_ns < MISSED_MAX_NS / 2
                             ? 2 * r->missed_pause_ns
                             : MISSED_MAX_NS;
    r->missed_at_ns = now_ns + r->missed_pause_ns;
}

static void
take(struct wp_daemon_redis *r, const struct change *change)
{
    const struct wp_lease_record *record = &change->record;
    struct wp_pools *pools = r->core->pools;
    uint32_t index;

    if (change->kind == CHANGE_RECORD) {
        uint64_t refused = wp_pools_records_refused(pools);

        wp_pools_on_record(pools, record);
        if (wp_pools_records_refused(pools) != refused) {
            note_missed(r, record);
        }
        return;
    }
    index = wp_pools_index_of_records(
        pools, wp_str_from(record->pool_namespace), wp_str_from(record->pool));
    if (index == UINT32_MAX) {
        return;
    }
    if (change->kind == CHANGE_SYNC_BEGIN) {
        wp_pools_sync_begin(pools, index);
    } else {
        wp_pools_sync_end(pools, index);
    }
}

/* At most max of them, in order; true when more may be waiting. */
static bool
take_changes(struct wp_daemon_redis *r, uint32_t max)
{
    struct change change;

    for (uint32_t n = 0; n < max; n++) {
        if (!wp_channel_receive(&r->feed, &change)) {
            return false;
        }
        take(r, &change);
    }
    return true;
}

static bool
add_pool(struct wp_daemon_redis *r, const char *pool_namespace,
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

/* A pool that came since the start: by SIGHUP, or in a cluster. */
static void
take_in_pool(struct wp_daemon_redis *r, const struct wp_pool_spec *spec)
{
    struct wp_err err;

    if (wp_lease_redis_knows(r->redis, wp_str_from(spec->pool_namespace),
                             wp_str_from(spec->name)) ||
        !add_pool(r, spec->pool_namespace, spec->name)) {
        return;
    }
    wp_recovery_grow(r->recovery, r->n_pools);
    if (wp_lease_redis_add_pool(r->redis, &r->pools[r->n_pools - 1], &err) !=
        WP_OK) {
        r->n_pools--;
        wp_recovery_grow(r->recovery, r->n_pools);
        if (!r->full_logged) {
            r->full_logged = true;
            wp_log_error("a pool's leases cannot be kept until this daemon is "
                         "started anew",
                         wp_kv_str("namespace", spec->pool_namespace),
                         wp_kv_str("pool", spec->name), wp_kv_err(&err));
        }
    }
}

static void
catch_up(void *ctx)
{
    (void)take_changes(ctx, FEED_MESSAGES);
}

int64_t
wp_daemon_redis_run(struct wp_daemon_redis *r)
{
    int64_t now_ns = wp_clock_mono_ns(wp_clock_system());
    bool keeper = wp_daemon_is_keeper(r->core);
    uint32_t waiting = 0;

    if (take_changes(r, FEED_TURN)) {
        return now_ns;
    }
    if (keeper == r->keeper_said &&
        now_ns - r->state_said_ns < STATE_EVERY_NS) {
        return r->state_said_ns + STATE_EVERY_NS;
    }
    for (uint32_t i = 0; i < wp_pools_count(r->core->pools); i++) {
        struct wp_pool_stats stats;

        wp_pools_stats(r->core->pools, i, &stats);
        waiting += stats.waiting;
        if (!stats.gone) {
            take_in_pool(r, &stats.spec);
        }
    }
    read_missed(r, now_ns);
    wp_lease_redis_set_state(r->redis, waiting, keeper);
    r->state_said_ns = now_ns;
    r->keeper_said = keeper;
    return now_ns + STATE_EVERY_NS;
}

/* --- Life --- */

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
    if (known == NULL || r->pools == NULL || r->missed == NULL) {
        free(known);
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    status = wp_known_pools_read(known_path(r, path), known, WP_POOLS_MAX,
                                 &n_known, err);
    if (wp_conf_is_cluster(r->core->conf)) {
        /* No object can have that name. The others are heard by way of it
         * before any pool is known. */
        (void)add_pool(r, "-", "-");
    }
    for (size_t i = 0; i < n; i++) {
        (void)add_pool(r, specs[i].pool_namespace, specs[i].name);
    }
    for (uint32_t i = 0; i < n_known && r->n_pools < WP_POOLS_MAX; i++) {
        (void)add_pool(r, known[i].pool_namespace, known[i].pool);
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
        .sink = {r, hear_record, hear_sync, hear_peer, hear_doubt},
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
    r->replicas[0] = number_of(r->replica_id);
    r->n_replicas = 1;
    if (!wp_channel_init_sized(&r->feed, FEED_MESSAGES,
                               sizeof(struct change))) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        wp_daemon_redis_close(r);
        return NULL;
    }
    if (read_login(core->conf, &r->url, &r->tls, err) != WP_OK ||
        list_pools(r, err) != WP_OK ||
        (r->recovery = wp_recovery_create(core, catch_up, r, r->pools,
                                          r->n_pools, err)) == NULL ||
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
    uint64_t own = number_of(r->replica_id);

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
    explicit_bzero(&r->url, sizeof r->url);
    free(r);
}
