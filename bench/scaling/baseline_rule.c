/* bench/scaling/baseline_rule.c - the rule that anybody writes first: some, and as
 * many as the last lead time took, held for a while. */
#include <stdlib.h>

#include "bench/scaling/baseline_parts.h"
#include "pool/base/clock.h"

enum {
    SLOTS = 64, /* Of a lead time. */
};

struct rule {
    struct wp_baseline_config config;
    int64_t slot_ns;
    int64_t slot; /* The latest. */
    uint32_t count[SLOTS];
    uint32_t taken; /* In the last lead time. */
    uint32_t held;  /* No less than that until then. */
    int64_t until_ns;
};

static void
go_to(struct rule *rule, int64_t now_ns)
{
    int64_t slot = now_ns / rule->slot_ns;

    for (int i = 0; i < SLOTS && rule->slot < slot; i++) {
        uint32_t *count = &rule->count[++rule->slot % SLOTS];

        rule->taken -= *count;
        *count = 0;
    }
    rule->slot = slot;
    if (rule->taken >= rule->held || now_ns >= rule->until_ns) {
        rule->held = rule->taken;
        rule->until_ns = wp_time_add(
            now_ns, (int64_t)(rule->config.b * (double)WP_NS_PER_S));
    }
}

static void
on_claims(void *self, int64_t now_ns, uint32_t n, uint32_t missed)
{
    struct rule *rule = self;

    (void)missed;
    go_to(rule, now_ns);
    rule->count[rule->slot % SLOTS] += n;
    rule->taken += n;
    go_to(rule, now_ns);
}

static uint32_t
target(void *self, const struct wp_replay_view *view, int64_t *next_ns)
{
    struct rule *rule = self;

    go_to(rule, view->now_ns);
    *next_ns = rule->held > 0 ? rule->until_ns : WP_TIME_NEVER;
    return wp_baseline_clamp(&rule->config, rule->config.a + rule->held);
}

bool
wp_baseline_create_rule(const struct wp_baseline_config *config,
                        struct wp_replay_policy *out)
{
    struct rule *rule = calloc(1, sizeof(*rule));
    double lead_s = wp_replay_lead_mean_s(&config->lead);

    if (rule == NULL) {
        return false;
    }
    rule->config = *config;
    rule->slot_ns = (int64_t)(lead_s * (double)WP_NS_PER_S / SLOTS) + 1;
    out->self = rule;
    out->target = target;
    out->on_claims = on_claims;
    return true;
}
