/* allocator/advice/baseline_constant.c - sizes that never change. */
#include <stdlib.h>

#include "pool/base/clock.h"
#include "allocator/advice/baseline_parts.h"

struct constant {
    uint32_t size;
};

static uint32_t
constant_target(void *self, const struct wp_replay_view *view, int64_t *next_ns)
{
    const struct constant *constant = self;

    (void)view;
    *next_ns = WP_TIME_NEVER;
    return constant->size;
}

static bool
create(const struct wp_baseline_config *config, double size,
       struct wp_replay_policy *out)
{
    struct constant *constant = calloc(1, sizeof(*constant));

    if (constant == NULL) {
        return false;
    }
    constant->size = wp_baseline_clamp(config, size);
    out->self = constant;
    out->target = constant_target;
    return true;
}

bool
wp_baseline_create_fixed(const struct wp_baseline_config *config,
                         struct wp_replay_policy *out)
{
    return create(config, config->a, out);
}

bool
wp_baseline_create_erlang(const struct wp_baseline_config *config,
                          struct wp_replay_policy *out)
{
    double expected =
        config->true_rate_per_s * wp_replay_lead_mean_s(&config->lead);

    return create(
        config, wp_stock_for_hit_rate(config->miss, config->a / 1000, expected),
        out);
}
