#include "pool/annotations/tier.h"

#include "pool/base/assert.h"

static const struct wp_tier_info tiers[WP_TIERS] = {
    [WP_TIER_T0] = {"T0", false, false, false, NULL},
    [WP_TIER_T1] = {"T1", true, false, false, NULL},
    [WP_TIER_T2] = {"T2", true, true, false, NULL},
    [WP_TIER_T3] = {"T3", true, true, true, NULL},
    [WP_TIER_T4] = {"T4", true, false, true, "gvisor"},
};

const struct wp_tier_info *
wp_tier_info(enum wp_tier tier)
{
    WP_ASSERT(tier < WP_TIERS);
    return &tiers[tier];
}

bool
wp_tier_parse(struct wp_str text, enum wp_tier *out)
{
    for (int i = 0; i < WP_TIERS; i++) {
        if (wp_str_is(text, tiers[i].name)) {
            *out = (enum wp_tier)i;
            return true;
        }
    }
    return false;
}
