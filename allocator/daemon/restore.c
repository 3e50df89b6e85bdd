/* Taking up the records that an earlier daemon left. */
#include "allocator/daemon/store.h"

#include <stdio.h>

#include "pool/base/log.h"

struct restore {
    struct wp_daemon_core *core;
    uint32_t count[WP_RECORD_ENDED + 1];
    uint32_t total;
    struct wp_err err; /* Why a pool could not be added; status WP_OK: none. */
};

/* Leases of a pool that no manifest names any more live on in one that makes
 * nothing new. */
static void
add_gone_pool(struct restore *restore, const struct wp_lease_record *record)
{
    struct wp_pools *pools = restore->core->pools;
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
    if (wp_conf_is_cluster(restore->core->conf)) {
        return; /* The cluster says later what is to be in it. */
    }
    wp_pools_drain(pools, index);
    wp_log_warn("a pool is gone that leases are of: they live on, it takes no "
                "new claims",
                wp_kv_str("namespace", record->pool_namespace),
                wp_kv_str("pool", record->pool));
}

static void
take_record(void *ctx, const struct wp_lease_record *record)
{
    struct restore *restore = ctx;
    struct wp_pools *pools = restore->core->pools;

    if (record->state > WP_RECORD_ENDED) {
        return;
    }
    restore->total++;
    restore->count[record->state]++;
    if (restore->total > (uint32_t)restore->core->conf->slots_max) {
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
    const struct wp_conf *conf = restore->core->conf;
    uint64_t refused = wp_pools_records_refused(restore->core->pools);

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
wp_daemon_restore(struct wp_daemon_core *core, struct wp_lease_store store,
                  bool key_made, uint32_t *restored, struct wp_err *err)
{
    struct restore restore = {.core = core};
    int64_t begun_ns = wp_clock_mono_ns(wp_clock_system());
    enum wp_status status;

    *restored = 0;
    if (!store.ops->durable) {
        return WP_OK;
    }
    status = store.ops->load(store.self, take_record, &restore, err);
    if (status != WP_OK) {
        return wp_err_wrap(err, "reading the lease store");
    }
    status = check_restored(&restore, err);
    if (status != WP_OK) {
        return status;
    }
    *restored = restore.count[WP_RECORD_OPEN] + restore.count[WP_RECORD_HELD];
    wp_log_info(
        "leases taken up", wp_kv_int("held", restore.count[WP_RECORD_HELD]),
        wp_kv_int("lost", restore.count[WP_RECORD_LOST]),
        wp_kv_int("idle", restore.count[WP_RECORD_OPEN]),
        wp_kv_int("ended", restore.count[WP_RECORD_ENDED]),
        wp_kv_ms("took_ms", wp_clock_mono_ns(wp_clock_system()) - begun_ns));
    if (key_made && restore.count[WP_RECORD_HELD] > 0) {
        wp_log_warn("the key of tokens is new: who holds an older lease can "
                    "neither renew nor release it",
                    wp_kv_int("leases", restore.count[WP_RECORD_HELD]));
    }
    return WP_OK;
}
