/* What only one kind of lease store can tell. */
#include "allocator/daemon/store.h"

#include "allocator/metrics/page.h"
#include "allocator/metrics/prometheus.h"

void
wp_daemon_sqlite_metrics(struct wp_lease_sqlite *sqlite, struct evbuffer *out)
{
    struct wp_lease_sqlite_stats s;

    wp_lease_sqlite_stats(sqlite, &s);
    wp_prom_put(out, "warmpool_sqlite_transactions_total",
                "Transactions tried; each holds the commits that "
                "waited at that moment.",
                (double)s.transactions);
    wp_prom_put(out, "warmpool_sqlite_failures_total",
                "Transactions that were not committed.", (double)s.failures);
    wp_prom_put(out, "warmpool_sqlite_checkpoints_total",
                "Times the write-ahead log was copied into the file.",
                (double)s.checkpoints);
    wp_prom_put(out, "warmpool_sqlite_wal_pages",
                "Pages in the write-ahead log.", (double)s.wal_pages);
    wp_prom_family(out, "warmpool_sqlite_transaction_seconds", "histogram",
                   "A transaction, from its begin to the disk's answer.");
    wp_prom_histogram(out, "warmpool_sqlite_transaction_seconds", NULL, 0,
                      &s.transaction_ns);
}

void
wp_daemon_redis_metrics(const struct wp_daemon_redis *redis,
                        struct evbuffer *out)
{
    struct wp_lease_redis_stats s;
    uint64_t refused;

    wp_daemon_redis_stats(redis, &s, &refused);
    wp_prom_put(out, "warmpool_redis_links_up",
                "Connections to Redis that stand.", s.redis.links_up);
    wp_prom_put(out, "warmpool_redis_breaker_open",
                "1 while Redis is silent and commits are refused at once.",
                s.redis.breaker_open ? 1 : 0);
    wp_prom_put(out, "warmpool_redis_disconnects_total",
                "Connections to Redis that broke.",
                (double)s.redis.disconnects);
    wp_prom_put(out, "warmpool_redis_timeouts_total",
                "Answers of Redis that did not come within redis_timeout.",
                (double)s.redis.timeouts);
    wp_prom_put(out, "warmpool_redis_unknown_total",
                "Commits whose answer was lost.", (double)s.redis.unknown);
    wp_prom_put(out, "warmpool_redis_pools_in_doubt",
                "Pools that Redis may have forgotten: closed until it has been "
                "restored.",
                s.in_doubt);
    wp_prom_put(
        out, "warmpool_replicas",
        "Daemons that share the leases and are alive, this one among them.",
        s.peers + 1.0);
    wp_prom_put(out, "warmpool_keepers",
                "Daemons that make the sandboxes and are heard, this one among "
                "them: 0 when nobody refills the pools.",
                wp_daemon_redis_keepers(redis));
    wp_prom_put(out, "warmpool_feed_records_total",
                "Changes by other daemons that were heard.",
                (double)s.records_heard);
    wp_prom_put(out, "warmpool_feed_gaps_total",
                "Changes that were missed; their pool was read again.",
                (double)s.gaps);
    wp_prom_put(out, "warmpool_feed_refused_total",
                "Changes that came faster than they were taken; their "
                "pool was read again.",
                (double)refused);
    wp_prom_put(out, "warmpool_feed_syncs_total",
                "Times a pool was read again.", (double)s.syncs);
    wp_prom_put(out, "warmpool_feed_sync_failures_total",
                "Times a pool could not be read: what other daemons did with "
                "it may be unknown here.",
                (double)s.sync_failures);
}
