/* What keeps leases: choosing it, taking up what it knows, closing it. */
#include "allocator/daemon/parts.h"

#include <linux/magic.h>
#include <stdlib.h>
#include <sys/vfs.h>

#include "allocator/daemon/redis.h"
#include "allocator/metrics/prometheus.h"
#include "allocator/stores/sqlite/store.h"
#include "pool/base/log.h"
#include "pool/leases/memory.h"

struct wp_daemon_store {
    struct wp_lease_meter *meter; /* Before the store; NULL: memory. Owned. */
    struct wp_lease_sqlite *sqlite;
};

/* Does the file go when the machine stops? */
static bool
is_in_memory(const char *path)
{
    struct statfs fs;

    return statfs(path, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

static const char *
promise(const struct wp_conf *conf)
{
    switch (conf->lease_store) {
    case WP_CONF_STORE_SQLITE:
        if (is_in_memory(conf->lease_store_path)) {
            return "a lease is in a file before its claim is answered; it "
                   "survives a kill of the daemon; file and sandboxes end "
                   "with the machine";
        }
        return conf->sqlite_synchronous == WP_CONF_SYNCHRONOUS_FULL
                   ? "a lease is on disk before its claim is answered; it "
                     "survives a kill of the daemon and a power loss"
                   : "a lease is in a file before its claim is answered; it "
                     "survives a kill of the daemon, the latest not a power "
                     "loss";
    case WP_CONF_STORE_REDIS:
        return "a lease is in Redis before its claim is answered; it survives "
               "a kill of any daemon, and what Redis' appendfsync keeps of it "
               "a crash of Redis";
    case WP_CONF_STORE_MEMORY:
    default:
        if (wp_conf_is_cluster(conf)) {
            return "a lease is in the leader's memory, and soon after on its "
                   "Sandbox object, by which it is found again";
        }
        return "leases and their sandboxes end with the daemon, however it "
               "ends";
    }
}

static enum wp_status
open_sqlite(struct wp_daemon *daemon, struct wp_err *err)
{
    const struct wp_conf *conf = daemon->conf;
    const struct wp_lease_sqlite_config config = {
        .path = conf->lease_store_path,
        .synchronous = conf->sqlite_synchronous == WP_CONF_SYNCHRONOUS_FULL
                           ? WP_LEASE_SQLITE_FULL
                           : WP_LEASE_SQLITE_NORMAL,
    };

    daemon->keeping->sqlite = wp_lease_sqlite_create(&config, err);
    if (daemon->keeping->sqlite == NULL) {
        return wp_err_wrap(err, "setting 'lease_store_path'");
    }
    daemon->store = wp_lease_sqlite_store(daemon->keeping->sqlite);
    return WP_OK;
}

enum wp_status
wp_daemon_open_store(struct wp_daemon *daemon, struct wp_err *err)
{
    enum wp_status status = WP_OK;

    daemon->keeping = calloc(1, sizeof *daemon->keeping);
    if (daemon->keeping == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    daemon->store = wp_lease_memory();
    if (daemon->conf->lease_store == WP_CONF_STORE_SQLITE) {
        status = open_sqlite(daemon, err);
    } else if (daemon->conf->lease_store == WP_CONF_STORE_REDIS) {
        daemon->redis = wp_daemon_redis_open(daemon, err);
        status = daemon->redis != NULL ? WP_OK : err->status;
        if (status == WP_OK) {
            daemon->store = wp_daemon_redis_store(daemon->redis);
        }
    }
    if (status != WP_OK) {
        return status;
    }
    wp_log_info("lease store", wp_kv_str("store", daemon->store.ops->name),
                wp_kv_str("promise", promise(daemon->conf)));
    if (!daemon->store.ops->durable) {
        return WP_OK;
    }
    daemon->keeping->meter = aligned_alloc(_Alignof(struct wp_lease_meter),
                                           sizeof *daemon->keeping->meter);
    if (daemon->keeping->meter == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    daemon->leaves_ready = true; /* Should the start fail. */
    wp_lease_meter_init(daemon->keeping->meter, daemon->store,
                        wp_clock_system());
    daemon->store = wp_lease_meter_store(daemon->keeping->meter);
    return WP_OK;
}

void
wp_daemon_close_store(struct wp_daemon *daemon)
{
    if (daemon->keeping != NULL) {
        wp_lease_sqlite_destroy(daemon->keeping->sqlite);
        daemon->keeping->sqlite = NULL;
    }
    wp_daemon_redis_close(daemon->redis);
    daemon->redis = NULL;
}

void
wp_daemon_destroy_store(struct wp_daemon *daemon)
{
    if (daemon->keeping != NULL) {
        free(daemon->keeping->meter);
        free(daemon->keeping);
        daemon->keeping = NULL;
    }
}

struct wp_lease_meter *
wp_daemon_store_meter(const struct wp_daemon *daemon)
{
    return daemon->keeping->meter;
}

/* --- Taking up what an earlier daemon left --- */

struct restore {
    struct wp_daemon *daemon;
    uint32_t count[WP_RECORD_ENDED + 1];
    uint32_t total;
    struct wp_err err; /* Why a pool could not be added; status WP_OK: none. */
};

/* Leases of a pool that no manifest names any more live on in one that makes
 * nothing new. */
static void
add_gone_pool(struct restore *restore, const struct wp_lease_record *record)
{
    struct wp_pools *pools = restore->daemon->pools;
    struct wp_pool_spec spec;
    uint32_t index;

    wp_pool_spec_init(&spec);
    (void)snprintf(spec.pool_namespace, sizeof spec.pool_namespace, "%s",
                   record->pool_namespace);
    (void)snprintf(spec.name, sizeof spec.name, "%s", record->pool);
    (void)snprintf(spec.template_name, sizeof spec.template_name, "%s",
                   record->pool);
    spec.target = 0;
    if (wp_pools_add(pools, &spec, &index, &restore->err) != WP_OK) {
        return;
    }
    if (restore->daemon->cluster != NULL) {
        return; /* The cluster says later what is to be in it. */
    }
    wp_pools_drain(pools, index);
    wp_log_warn("a pool is gone from the manifests: its leases live on, it "
                "takes no new claims",
                wp_kv_str("namespace", record->pool_namespace),
                wp_kv_str("pool", record->pool));
}

static void
take_record(void *ctx, const struct wp_lease_record *record)
{
    struct restore *restore = ctx;
    struct wp_pools *pools = restore->daemon->pools;

    if (record->state > WP_RECORD_ENDED) {
        return;
    }
    restore->total++;
    restore->count[record->state]++;
    if (restore->total > (uint32_t)restore->daemon->conf->slots_max) {
        return; /* Told below. */
    }
    if (wp_pools_index(pools, wp_str_from(record->pool_namespace),
                       wp_str_from(record->pool)) == UINT32_MAX) {
        add_gone_pool(restore, record);
    }
    wp_pools_on_record(pools, record);
}

static enum wp_status
check_restored(const struct restore *restore, struct wp_err *err)
{
    const struct wp_conf *conf = restore->daemon->conf;
    uint64_t refused = wp_pools_records_refused(restore->daemon->pools);

    if (restore->total > (uint32_t)conf->slots_max) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "setting 'slots_max': %lld is less than the %u "
                          "sandboxes in the lease store; none of them would "
                          "be safe",
                          (long long)conf->slots_max, restore->total);
    }
    if (restore->err.status != WP_OK) {
        *err = restore->err;
        return wp_err_wrap(err, "a pool of the lease store");
    }
    if (refused > 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "the lease store holds %llu records that make no "
                          "sense; move it away to start without its leases",
                          (unsigned long long)refused);
    }
    return WP_OK;
}

enum wp_status
wp_daemon_restore(struct wp_daemon *daemon, struct wp_err *err)
{
    struct restore restore = {.daemon = daemon};
    int64_t begun_ns = wp_clock_mono_ns(wp_clock_system());
    enum wp_status status;

    if (!daemon->store.ops->durable) {
        return WP_OK;
    }
    status =
        daemon->store.ops->load(daemon->store.self, take_record, &restore, err);
    if (status != WP_OK) {
        return wp_err_wrap(err, "reading the lease store");
    }
    status = check_restored(&restore, err);
    if (status != WP_OK) {
        return status;
    }
    daemon->restored = restore.total;
    wp_log_info(
        "leases taken up", wp_kv_int("held", restore.count[WP_RECORD_HELD]),
        wp_kv_int("lost", restore.count[WP_RECORD_LOST]),
        wp_kv_int("idle", restore.count[WP_RECORD_OPEN]),
        wp_kv_int("ended", restore.count[WP_RECORD_ENDED]),
        wp_kv_ms("took_ms", wp_clock_mono_ns(wp_clock_system()) - begun_ns));
    if (daemon->key_made && restore.count[WP_RECORD_HELD] > 0) {
        wp_log_warn("the key of tokens is new: who holds an older lease can "
                    "neither renew nor release it",
                    wp_kv_int("leases", restore.count[WP_RECORD_HELD]));
    }
    return WP_OK;
}

/* --- Metrics --- */

static void
put_sqlite(struct evbuffer *out, struct wp_lease_sqlite *sqlite)
{
    struct wp_lease_sqlite_stats s;

    wp_lease_sqlite_stats(sqlite, &s);
    wp_http_metrics_put(out, "warmpool_sqlite_transactions_total", "counter",
                        "Transactions tried; each holds the commits that "
                        "waited at that moment.",
                        (double)s.transactions);
    wp_http_metrics_put(out, "warmpool_sqlite_failures_total", "counter",
                        "Transactions that were not committed.",
                        (double)s.failures);
    wp_http_metrics_put(out, "warmpool_sqlite_checkpoints_total", "counter",
                        "Times the write-ahead log was copied into the file.",
                        (double)s.checkpoints);
    wp_http_metrics_put(out, "warmpool_sqlite_wal_pages", "gauge",
                        "Pages in the write-ahead log.", (double)s.wal_pages);
    wp_prom_family(out, "warmpool_sqlite_transaction_seconds", "histogram",
                   "A transaction, from its begin to the disk's answer.");
    wp_prom_histogram(out, "warmpool_sqlite_transaction_seconds", NULL, 0,
                      &s.transaction_ns);
}

static void
put_redis(struct evbuffer *out, const struct wp_daemon_redis *redis)
{
    struct wp_lease_redis_stats s;
    uint64_t refused;

    wp_daemon_redis_stats(redis, &s, &refused);
    wp_http_metrics_put(out, "warmpool_redis_links_up", "gauge",
                        "Connections to Redis that stand.", s.redis.links_up);
    wp_http_metrics_put(out, "warmpool_redis_breaker_open", "gauge",
                        "1 while Redis is silent and commits are refused at "
                        "once.",
                        s.redis.breaker_open ? 1 : 0);
    wp_http_metrics_put(out, "warmpool_redis_disconnects_total", "counter",
                        "Connections to Redis that broke.",
                        (double)s.redis.disconnects);
    wp_http_metrics_put(out, "warmpool_redis_timeouts_total", "counter",
                        "Answers of Redis that did not come within "
                        "redis_timeout.",
                        (double)s.redis.timeouts);
    wp_http_metrics_put(out, "warmpool_redis_unknown_total", "counter",
                        "Commits whose answer was lost.",
                        (double)s.redis.unknown);
    wp_http_metrics_put(out, "warmpool_redis_pools_in_doubt", "gauge",
                        "Pools that Redis may have forgotten: closed until it "
                        "has been told.",
                        s.in_doubt);
    wp_http_metrics_put(out, "warmpool_replicas", "gauge",
                        "Daemons that share the leases and are alive, this "
                        "one among them.",
                        s.peers + 1.0);
    wp_http_metrics_put(out, "warmpool_feed_records_total", "counter",
                        "Changes by other daemons that were heard.",
                        (double)s.records_heard);
    wp_http_metrics_put(out, "warmpool_feed_gaps_total", "counter",
                        "Changes that were missed; their pool was read again.",
                        (double)s.gaps);
    wp_http_metrics_put(out, "warmpool_feed_refused_total", "counter",
                        "Changes that came faster than they were taken; their "
                        "pool was read again.",
                        (double)refused);
    wp_http_metrics_put(out, "warmpool_feed_syncs_total", "counter",
                        "Times a pool was read again.", (double)s.syncs);
}

void
wp_daemon_store_metrics(const struct wp_daemon *daemon, struct evbuffer *out)
{
    if (daemon->keeping->sqlite != NULL) {
        put_sqlite(out, daemon->keeping->sqlite);
    }
    if (daemon->redis != NULL) {
        put_redis(out, daemon->redis);
    }
}
