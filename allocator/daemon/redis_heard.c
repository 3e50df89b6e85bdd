/* What the other replicas do, on its way to the core. */
#include "allocator/daemon/redis_impl.h"

#include <string.h>

#include "pool/base/log.h"

enum {
    FEED_TURN = 2048, /* Messages of one turn of the control thread. */
};

#define STATE_EVERY_NS (500 * WP_NS_PER_MS)
/* Before a pool is read again of which a record was left out; twice as long
 * each time, while some are left out still. */
#define MISSED_NS (1 * WP_NS_PER_S)
#define MISSED_MAX_NS (5 * WP_NS_PER_S)

/* --- What the others do; the store's feed thread --- */

static bool
send_change(struct wp_daemon_redis *r,
            const struct wp_daemon_redis_change *change)
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
    const struct wp_daemon_redis_change change = {CHANGE_RECORD, *record};

    return send_change(ctx, &change);
}

static bool
hear_sync(void *ctx, const struct wp_lease_redis_pool *pool, bool begin)
{
    struct wp_daemon_redis_change change;

    memset(&change, 0, sizeof change);
    change.kind = begin ? CHANGE_SYNC_BEGIN : CHANGE_SYNC_END;
    memcpy(change.record.pool_namespace, pool->pool_namespace,
           sizeof change.record.pool_namespace);
    memcpy(change.record.pool, pool->pool, sizeof change.record.pool);
    return send_change(ctx, &change);
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
    news = note_replica(r, wp_daemon_redis_number(peer->replica_id), gone);
    n = r->n_replicas;
    memcpy(replicas, r->replicas, n * sizeof replicas[0]);
    (void)pthread_mutex_unlock(&r->lock);
    /* Of one that has said so everything was heard before that. */
    if (gone && !peer->leaves) {
        wp_recovery_one_left(r->recovery);
    }
    if (news) {
        wp_pools_set_replicas(
            r->core->pools, wp_daemon_redis_number(r->replica_id), replicas, n);
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

struct wp_lease_redis_sink
wp_daemon_redis_sink(struct wp_daemon_redis *r)
{
    return (struct wp_lease_redis_sink){r, hear_record, hear_sync, hear_peer,
                                        hear_doubt};
}

/* --- What is heard, on its way to the core; the control thread --- */

/* UINT32_MAX: it is not kept here. */
static uint32_t
index_of(const struct wp_daemon_redis *r, const char *pool_namespace,
         const char *pool)
{
    for (uint32_t i = 0; i < r->n_pools; i++) {
        if (strcmp(r->pools[i].pool, pool) == 0 &&
            strcmp(r->pools[i].pool_namespace, pool_namespace) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}

/* The core has no slot for it now, or not its pool. */
static void
note_missed(struct wp_daemon_redis *r, const struct wp_lease_record *record)
{
    uint32_t i = index_of(r, record->pool_namespace, record->pool);

    if (i != UINT32_MAX) {
        r->missed[i] = true;
    }
}

/* All records of the pool were told. Those of a pool that the core did not know
 * yet, if there were any, are read again. */
static void
note_read(struct wp_daemon_redis *r, const struct wp_lease_record *record,
          bool is_known)
{
    uint32_t i = index_of(r, record->pool_namespace, record->pool);

    if (i != UINT32_MAX && (is_known || !r->missed[i])) {
        r->read[i] = true;
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
take(struct wp_daemon_redis *r, const struct wp_daemon_redis_change *change)
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
    if (change->kind == CHANGE_SYNC_END) {
        note_read(r, record, index != UINT32_MAX);
    }
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
    struct wp_daemon_redis_change change;

    for (uint32_t n = 0; n < max; n++) {
        if (!wp_channel_receive(&r->feed, &change)) {
            return false;
        }
        take(r, &change);
    }
    return true;
}

/* A pool that came since the start: by SIGHUP, or in a cluster. */
static void
take_in_pool(struct wp_daemon_redis *r, const struct wp_pool_spec *spec)
{
    struct wp_err err;

    if (wp_lease_redis_knows(r->redis, wp_str_from(spec->pool_namespace),
                             wp_str_from(spec->name)) ||
        !wp_daemon_redis_add_pool(r, spec->pool_namespace, spec->name)) {
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

bool
wp_daemon_redis_is_read(struct wp_daemon_redis *r)
{
    bool all = true;

    for (uint32_t i = 0; i < wp_pools_count(r->core->pools); i++) {
        struct wp_pool_stats stats;
        uint32_t index;

        wp_pools_stats(r->core->pools, i, &stats);
        if (stats.gone) {
            continue;
        }
        take_in_pool(r, &stats.spec);
        index = index_of(r, stats.spec.pool_namespace, stats.spec.name);
        /* Of one that finds no room nothing is kept. */
        all = all && (index == UINT32_MAX || r->read[index]);
    }
    return all;
}

void
wp_daemon_redis_catch_up(void *r)
{
    (void)take_changes(r, WP_DAEMON_REDIS_FEED);
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
