/* bench/scaling/baseline_hpa.c - a horizontal pod autoscaler on the rate of
 * claims, as upstream's two examples configure it. */
#include <math.h>
#include <stdlib.h>

#include "pool/base/clock.h"
#include "bench/scaling/baseline_parts.h"

#define PERIOD_NS (15 * WP_NS_PER_S)
#define TOLERANCE 0.1
#define KEDA_ACTIVATION 0.01
#define KEDA_COOLDOWN_NS (300 * WP_NS_PER_S)

enum {
    RATE_PERIODS = 4, /* 60 s. */
};

struct hpa {
    struct wp_baseline_config config;
    int64_t due_ns;
    uint32_t replicas;
    uint64_t claims[RATE_PERIODS]; /* The counter, at the last looks. */
    uint32_t looks;
    struct wp_baseline_recent recent;
    int64_t active_ns; /* KEDA: last above the activation threshold. */
    bool was_active;
};

static bool
create(const struct wp_baseline_config *config, struct wp_replay_policy *out)
{
    struct hpa *hpa = calloc(1, sizeof(*hpa));

    if (hpa == NULL) {
        return false;
    }
    hpa->config = *config;
    hpa->replicas = wp_baseline_clamp(config, 0);
    out->self = hpa;
    return true;
}

/* Over the last 60 s, once there are so many. */
static double
rate_per_s(struct hpa *hpa, uint64_t claims)
{
    uint64_t before =
        hpa->looks < RATE_PERIODS ? 0 : hpa->claims[hpa->looks % RATE_PERIODS];
    double period_s = (double)PERIOD_NS / (double)WP_NS_PER_S;

    hpa->claims[hpa->looks++ % RATE_PERIODS] = claims;
    return (double)(claims - before) / (RATE_PERIODS * period_s);
}

/* The defaults of behavior: up to twice as many or four more each 15 s, down
 * to the highest recommendation of 300 s. */
static void
scale(struct hpa *hpa, double wanted)
{
    uint32_t to = wp_baseline_clamp(&hpa->config, wanted);
    uint32_t limit = hpa->replicas > 4 ? 2 * hpa->replicas : hpa->replicas + 4;
    uint32_t stable = wp_baseline_recent_max(&hpa->recent, to);

    if (to > hpa->replicas) {
        hpa->replicas = to < limit ? to : limit;
    } else {
        hpa->replicas = stable < hpa->replicas ? stable : hpa->replicas;
    }
}

/* Type Value: the ratio of the metric to its target, times the ready ones. */
static uint32_t
hpa_target(void *self, const struct wp_replay_view *view, int64_t *next_ns)
{
    struct hpa *hpa = self;

    if (wp_baseline_is_due(&hpa->due_ns, PERIOD_NS, view->now_ns)) {
        double ratio = rate_per_s(hpa, view->claims) / hpa->config.a;

        if (fabs(ratio - 1) <= TOLERANCE) {
            scale(hpa, hpa->replicas);
        } else {
            scale(hpa, ceil(ratio * view->ready));
        }
    }
    *next_ns = hpa->due_ns;
    return hpa->replicas;
}

bool
wp_baseline_create_hpa(const struct wp_baseline_config *config,
                       struct wp_replay_policy *out)
{
    out->target = hpa_target;
    return create(config, out);
}

/* Type AverageValue: the metric over its target; from and to zero by KEDA. */
static uint32_t
keda_target(void *self, const struct wp_replay_view *view, int64_t *next_ns)
{
    struct hpa *hpa = self;

    if (wp_baseline_is_due(&hpa->due_ns, PERIOD_NS, view->now_ns)) {
        double rate = rate_per_s(hpa, view->claims);
        double wanted = rate / hpa->config.a;

        if (rate > KEDA_ACTIVATION) {
            hpa->active_ns = view->now_ns;
            hpa->was_active = true;
        }
        if (hpa->replicas == 0) {
            hpa->replicas = rate > KEDA_ACTIVATION ? 1 : 0;
        } else if (!hpa->was_active ||
                   view->now_ns - hpa->active_ns >= KEDA_COOLDOWN_NS) {
            hpa->replicas = hpa->config.min;
        } else if (fabs(wanted / hpa->replicas - 1) <= TOLERANCE) {
            scale(hpa, hpa->replicas);
        } else {
            scale(hpa, fmax(1, ceil(wanted)));
        }
    }
    *next_ns = hpa->due_ns;
    return hpa->replicas;
}

bool
wp_baseline_create_keda(const struct wp_baseline_config *config,
                        struct wp_replay_policy *out)
{
    out->target = keda_target;
    return create(config, out);
}
