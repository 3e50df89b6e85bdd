/* bench/scaling/lead_regime.h - how long sandboxes take to become ready, in the worlds
 * that figures are made for. */
#ifndef WP_BENCH_SCALING_LEAD_REGIME_H
#define WP_BENCH_SCALING_LEAD_REGIME_H

#include "allocator/advice/replay.h"

struct wp_lead_regime {
    const char *name;
    const char *sentence;
    struct wp_replay_lead lead;
    double creates_per_s_max; /* 0: unbounded. */
    uint32_t at_once;         /* Made at once, and told so; 0: unbounded. */
};

/* NULL beyond the last. */
const struct wp_lead_regime *wp_lead_regime_at(unsigned i);
/* By its name; NULL: unknown. */
const struct wp_lead_regime *wp_lead_regime_named(const char *name);
/* The time that a share q of 20 000 draws from a fixed seed did not exceed. */
int64_t wp_lead_regime_quantile_ns(const struct wp_lead_regime *regime,
                                   double q);

#endif
