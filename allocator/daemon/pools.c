#include "allocator/daemon/pools.h"

#include <string.h>

#include "allocator/conf/budget.h"
#include "allocator/conf/quota.h"
#include "allocator/daemon/files.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"
#include "pool/leases/token.h"

/* --- What the core calls; control thread --- */

static void
pool_changed(void *ctx, uint32_t pool_index)
{
    struct wp_daemon_core *core = ctx;

    wp_services_changed(core->services, pool_index);
}

/* The log is for people: each change of a target is one line, with its
 * reason. */
static void
pool_scaled(void *ctx, uint32_t pool_index,
            const struct wp_scale_decision *decision)
{
    const struct wp_daemon_core *core = ctx;
    char sentence[WP_SCALE_TEXT_MAX];
    struct wp_pool_stats stats;

    wp_pools_stats(core->pools, pool_index, &stats);
    wp_scale_decision_format(decision, sentence, sizeof sentence);
    wp_log_info("target", wp_kv_str("namespace", stats.spec.pool_namespace),
                wp_kv_str("pool", stats.spec.name),
                wp_kv_int("from", decision->target_before),
                wp_kv_int("to", decision->target),
                wp_kv_str("reason", wp_scale_reason_word(decision->reason)),
                wp_kv_str("why", sentence));
}

static void
pool_unlearned(void *ctx, uint32_t pool_index, const struct wp_err *err)
{
    const struct wp_daemon_core *core = ctx;
    struct wp_pool_stats stats;

    wp_pools_stats(core->pools, pool_index, &stats);
    wp_log_warn("what was kept of the pool is left out",
                wp_kv_str("namespace", stats.spec.pool_namespace),
                wp_kv_str("pool", stats.spec.name), wp_kv_err(err));
}

static void
budget_trouble(void *ctx, const char *group,
               const struct wp_budget_total *total, uint64_t mins)
{
    (void)ctx;
    if (total == NULL) {
        wp_log_warn("a pool names a budget group that autoscale_budgets does "
                    "not have: no bound",
                    wp_kv_str("group", group));
    } else if (mins > total->total) {
        wp_log_warn("the mins of a budget group are more than its total",
                    wp_kv_str("group", group), wp_kv_int("mins", (int64_t)mins),
                    wp_kv_int("total", total->total));
    } else {
        wp_log_info("the mins of a budget group are within its total again",
                    wp_kv_str("group", group), wp_kv_int("mins", (int64_t)mins),
                    wp_kv_int("total", total->total));
    }
}

/* --- Making it --- */

static enum wp_status
add_pools(struct wp_daemon_core *core, const struct wp_manifest *manifest,
          struct wp_err *err)
{
    const struct wp_pool_spec *specs;
    size_t n = wp_manifest_pools(manifest, &specs);

    for (size_t i = 0; i < n; i++) {
        uint32_t index;
        enum wp_status status =
            wp_pools_add(core->pools, &specs[i], &index, err);

        if (status != WP_OK) {
            return status;
        }
        wp_log_info("pool", wp_kv_str("namespace", specs[i].pool_namespace),
                    wp_kv_str("pool", specs[i].name),
                    wp_kv_str("template", specs[i].template_name),
                    wp_kv_int("target", specs[i].target));
    }
    if (n == 0 && !wp_conf_is_cluster(core->conf)) {
        wp_log_warn("no pools: the setting 'manifests' names none, and none "
                    "was created by a call");
    }
    return WP_OK;
}

enum wp_status
wp_daemon_set_quotas(struct wp_pools *pools, const struct wp_conf *conf,
                     struct wp_err *err)
{
    struct wp_tenant_quota quotas[WP_CONF_QUOTAS_MAX];
    uint32_t n;
    enum wp_status status = wp_conf_quotas(conf, quotas, &n, err);

    if (status == WP_OK && !wp_pools_set_quotas(pools, quotas, n)) {
        status = wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
    }
    return status;
}

enum wp_status
wp_daemon_pools_create(struct wp_daemon_core *core,
                       const struct wp_manifest *manifest,
                       struct wp_backend backend, struct wp_lease_store store,
                       bool *key_made, struct wp_err *err)
{
    struct wp_budget_total budgets[WP_CONF_BUDGETS_MAX];
    struct wp_pools_config config = {
        .slots_max = (uint32_t)core->conf->slots_max,
        .claims_max = (uint32_t)core->conf->claims_max,
        .history_bytes_max = (size_t)core->conf->history_max,
        .clock = wp_clock_system(),
        .backend = backend,
        .store = store,
        .wake = wp_daemon_wake,
        .changed = pool_changed,
        .scaled = pool_scaled,
        .unlearned = pool_unlearned,
        .budgets = budgets,
        .budget_trouble = budget_trouble,
        .ctx = core,
    };
    enum wp_status status =
        wp_daemon_read_key(core->conf, config.token_key, key_made, err);

    if (status == WP_OK) {
        status = wp_conf_budgets(core->conf, budgets, &config.n_budgets, err);
    }
    if (status != WP_OK) {
        return status;
    }
    /* Claim hashes are part of tokens, so they last as long. */
    wp_token_key_derive(config.token_key, "claim hash", &config.hash_key,
                        sizeof config.hash_key);
    wp_random_bytes(&config.seed, sizeof config.seed);
    core->pools = wp_pools_create(&config, err);
    explicit_bzero(config.token_key, sizeof config.token_key);
    if (core->pools == NULL) {
        return err->status;
    }
    wp_log_info(
        "memory plan", wp_kv_int("slots_max", config.slots_max),
        wp_kv_int("claims_max", config.claims_max),
        wp_kv_int("bytes", (int64_t)wp_pools_memory_bytes(core->pools)));
    wp_pools_set_keeper(core->pools, wp_daemon_is_keeper(core));
    status = wp_daemon_set_quotas(core->pools, core->conf, err);
    return status == WP_OK ? add_pools(core, manifest, err) : status;
}

/* --- Questions --- */

struct saved_question {
    struct wp_pools *pools;
    bool saved;
};

static void
ask_saved(void *ctx)
{
    struct saved_question *q = ctx;

    q->saved = wp_pools_learned_saved(q->pools);
}

bool
wp_daemon_learned_saved(struct wp_daemon_core *core)
{
    struct saved_question q = {core->pools, false};

    wp_loop_call(core->loop, ask_saved, &q);
    return q.saved;
}
