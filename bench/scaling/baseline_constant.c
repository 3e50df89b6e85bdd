/* bench/scaling/baseline_constant.c - sizes that never change, and the future. */
#include "bench/scaling/baseline_parts.h"

bool
wp_baseline_create_fixed(const struct wp_baseline_config *config,
                         struct wp_replay_policy *out)
{
    return wp_replay_policy_fixed(wp_baseline_clamp(config, config->a), out);
}

bool
wp_baseline_create_erlang(const struct wp_baseline_config *config,
                          struct wp_replay_policy *out)
{
    double expected =
        config->true_rate_per_s * wp_replay_lead_mean_s(&config->lead);
    uint32_t size =
        wp_stock_for_hit_rate(config->miss, config->a / 1000, expected);

    return wp_replay_policy_fixed(wp_baseline_clamp(config, size), out);
}

bool
wp_baseline_create_clairvoyant(const struct wp_baseline_config *config,
                               struct wp_replay_policy *out)
{
    return wp_replay_policy_clairvoyant(config->future, config->a, out);
}
