#include "allocator/daemon/parts.h"

#include "pool/base/log.h"

/* The log is for people: each change of a target is one line, with its
 * reason. */
void
wp_daemon_pool_scaled(void *ctx, uint32_t pool_index,
                      const struct wp_scale_decision *decision)
{
    const struct wp_daemon *daemon = ctx;
    char sentence[WP_SCALE_TEXT_MAX];
    struct wp_pool_stats stats;

    wp_pools_stats(daemon->pools, pool_index, &stats);
    wp_scale_decision_format(decision, sentence, sizeof sentence);
    wp_log_info("target", wp_kv_str("namespace", stats.spec.pool_namespace),
                wp_kv_str("pool", stats.spec.name),
                wp_kv_int("from", decision->target_before),
                wp_kv_int("to", decision->target),
                wp_kv_str("reason", wp_scale_reason_word(decision->reason)),
                wp_kv_str("why", sentence));
}

void
wp_daemon_pool_unlearned(void *ctx, uint32_t pool_index,
                         const struct wp_err *err)
{
    const struct wp_daemon *daemon = ctx;
    struct wp_pool_stats stats;

    wp_pools_stats(daemon->pools, pool_index, &stats);
    wp_log_warn("what was kept of the pool is left out",
                wp_kv_str("namespace", stats.spec.pool_namespace),
                wp_kv_str("pool", stats.spec.name), wp_kv_err(err));
}

void
wp_daemon_budget_trouble(void *ctx, const char *group,
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

struct saved_question {
    struct wp_daemon *daemon;
    bool saved;
};

static void
ask_saved(void *ctx, uint64_t a, uint64_t b)
{
    struct saved_question *q = ctx;

    (void)a;
    (void)b;
    q->saved = wp_pools_learned_saved(q->daemon->pools);
}

bool
wp_daemon_learned_saved(struct wp_daemon *daemon)
{
    struct saved_question q = {daemon, false};

    wp_loop_call(daemon->control_loop, ask_saved, &q);
    return q.saved;
}
