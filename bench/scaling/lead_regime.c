#include "bench/scaling/lead_regime.h"

#include <stdlib.h>
#include <string.h>

#include "allocator/advice/replay_parts.h"

enum {
    DRAWS = 20000,
};

/* 8 s with a 99th percentile of 18 s: sigma = ln(18/8) / 2.326. */
static const struct wp_lead_regime regimes[] = {
    {"container", "containers: about 1 s", {.median_s = 1, .sigma = 0.3}, 0, 0},
    {"gvisor", "gVisor: about 2 s", {.median_s = 2, .sigma = 0.3}, 0, 0},
    {"kata", "Kata micro-VMs: about 9 s", {.median_s = 9, .sigma = 0.25}, 0, 0},
    {"cloud-8s",
     "pods on a busy cluster: 8 s, one in a hundred over 18 s",
     {.median_s = 8, .sigma = 0.3486},
     0,
     0},
    {"node-45s",
     "a node must be found first: about 45 s",
     {.median_s = 45, .sigma = 0.25},
     0,
     0},
    {"image-pull",
     "containers, of which one in 20 must pull its image first: "
     "30 s more",
     {.median_s = 1, .sigma = 0.3, .slow_share = 0.05, .slow_extra_s = 30},
     0,
     0},
    {"failing",
     "pods of 8 s, of which 2 % never become ready",
     {.median_s = 8, .sigma = 0.3486, .fail_share = 0.02},
     0,
     0},
    {"capped",
     "pods of 8 s, at most 70 started a second",
     {.median_s = 8, .sigma = 0.3486},
     70,
     0},
};

const struct wp_lead_regime *
wp_lead_regime_at(unsigned i)
{
    return i < sizeof(regimes) / sizeof(regimes[0]) ? &regimes[i] : NULL;
}

const struct wp_lead_regime *
wp_lead_regime_named(const char *name)
{
    const struct wp_lead_regime *regime;

    for (unsigned i = 0; (regime = wp_lead_regime_at(i)) != NULL; i++) {
        if (strcmp(regime->name, name) == 0) {
            return regime;
        }
    }
    return NULL;
}

static int
compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

int64_t
wp_lead_regime_quantile_ns(const struct wp_lead_regime *regime, double q)
{
    int64_t sorted[DRAWS];
    struct wp_replay_draw draw;
    bool fails;

    wp_replay_draw_init(&draw, 1);
    for (int i = 0; i < DRAWS; i++) {
        sorted[i] = wp_replay_draw_lead_ns(&draw, &regime->lead, &fails);
    }
    qsort(sorted, DRAWS, sizeof(sorted[0]), compare);
    return sorted[(int)(q * (DRAWS - 1))];
}
