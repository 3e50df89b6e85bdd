#include "bench/scaling/baseline.h"

#include <stdlib.h>

#include "bench/scaling/baseline_parts.h"

struct row {
    const char *name;
    const char *cites;
    wp_baseline_create_fn create;
};

static const struct row rows[WP_BASELINE_COUNT] = {
    [WP_BASELINE_FIXED] = {"fixed",
                           "agent-sandbox: spec.replicas of a SandboxWarmPool "
                           "that nothing scales; a = replicas",
                           wp_baseline_create_fixed},
    [WP_BASELINE_HPA_CLAIM_RATE] =
        {"hpa-claim-rate",
         "agent-sandbox examples/hpa-swp-scaling/hpa.yaml: External metric "
         "claims/s, target Value a = 0.5, 10 to 100 replicas; HPA every 15 s "
         "with its defaults; rate of 60 s, without the metric's further lag",
         wp_baseline_create_hpa},
    [WP_BASELINE_KEDA_CLAIM_RATE] =
        {"keda-claim-rate",
         "agent-sandbox examples/keda-scale-to-zero: rate of 60 s, polled "
         "every 15 s, AverageValue a = 0.05, activation 0.01, cooldown 300 s, "
         "0 to 100 replicas",
         wp_baseline_create_keda},
    [WP_BASELINE_AGONES_BUFFER] =
        {"agones-buffer",
         "Agones FleetAutoscaler, policy Buffer: replicas = allocated + a "
         "every 30 s (FixedInterval's default)",
         wp_baseline_create_agones_buffer},
    [WP_BASELINE_AGONES_PERCENT] =
        {"agones-percent",
         "Agones FleetAutoscaler, policy Buffer: a per cent of all replicas "
         "ready, every 30 s",
         wp_baseline_create_agones_percent},
    [WP_BASELINE_OPENSANDBOX] =
        {"opensandbox-buffer",
         "OpenSandbox Pool: outside bufferMin = a .. bufferMax = b the buffer "
         "is set to their middle; event-driven",
         wp_baseline_create_opensandbox},
    [WP_BASELINE_WATERMARK] =
        {"watermark",
         "OpenKruise Agents, proposal 20260106 (capacity policy): available "
         "replicas towards a, tolerance 10 %, scale-down stabilised 300 s; "
         "as an HPA every 15 s",
         wp_baseline_create_watermark},
    [WP_BASELINE_IN_USE_PLUS] =
        {"in-use-plus-spare",
         "mitos, pull request 109: clamp(inUse + a, min, max); up at once, "
         "down 300 s after the last claim",
         wp_baseline_create_in_use_plus},
    [WP_BASELINE_OPENWHISK] =
        {"openwhisk-reactive",
         "Apache OpenWhisk docs/actions.md, reactive stem cells: set to a for "
         "each cold start of the minute before where that is more, unused ones "
         "removed after b = 120 s; replaced one for one when taken",
         wp_baseline_create_openwhisk},
    [WP_BASELINE_KNATIVE_KPA] =
        {"knative-kpa",
         "Knative Serving config-autoscaler: concurrency 1 at a = 70 % "
         "utilisation, windows 60 s and 6 s, panic at 200 %, tick 2 s, up "
         "1000 times and down 2 times a tick",
         wp_baseline_create_kpa},
    [WP_BASELINE_RULE] =
        {"rule",
         "the rule that anybody writes first: a and the claims of the last "
         "lead "
         "time, held b seconds; event-driven, told the mean lead time",
         wp_baseline_create_rule},
    [WP_BASELINE_ERLANG_TRUE] =
        {"erlang-true-rate",
         "theory: the smallest constant stock for a permille of hits, told "
         "the true mean rate and lead time",
         wp_baseline_create_erlang},
    [WP_BASELINE_CLAIRVOYANT] =
        {"clairvoyant",
         "bound: told every claim in advance, orders for each a seconds "
         "before it comes",
         wp_baseline_create_clairvoyant},
};

static const struct row *
row_of(enum wp_baseline baseline)
{
    return (unsigned)baseline < WP_BASELINE_COUNT ? &rows[baseline] : NULL;
}

bool
wp_baseline_create(const struct wp_baseline_config *config,
                   struct wp_replay_policy *out)
{
    const struct row *row = row_of(config->baseline);

    if (row == NULL) {
        return false;
    }
    *out = (struct wp_replay_policy){.destroy = free};
    if (!row->create(config, out)) {
        return false;
    }
    out->name = row->name;
    return true;
}

const char *
wp_baseline_name(enum wp_baseline baseline)
{
    const struct row *row = row_of(baseline);

    return row == NULL ? NULL : row->name;
}

const char *
wp_baseline_cites(enum wp_baseline baseline)
{
    const struct row *row = row_of(baseline);

    return row == NULL ? NULL : row->cites;
}
