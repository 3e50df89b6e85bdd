/* bench/scaling/baseline.h - how others size their pools, to be compared
 * with.
 *
 * Each models one that is in use, as its documents describe it: the row of the
 * table in bench/scaling/baseline.c says which, with its period and its parameters and
 * where they come from. Each has a test against steps worked out by hand. */
#ifndef WP_BENCH_SCALING_BASELINE_H
#define WP_BENCH_SCALING_BASELINE_H

#include <stdint.h>

#include "allocator/advice/replay.h"

enum wp_baseline {
    WP_BASELINE_FIXED,          /* a: size. */
    WP_BASELINE_HPA_CLAIM_RATE, /* Upstream's example on the claim counter. */
    WP_BASELINE_KEDA_CLAIM_RATE,
    WP_BASELINE_AGONES_BUFFER,  /* a: ready beyond allocated; 30 s. */
    WP_BASELINE_AGONES_PERCENT, /* a: per cent of all; 30 s. */
    WP_BASELINE_OPENSANDBOX,    /* a, b: bufferMin, bufferMax. */
    WP_BASELINE_WATERMARK,      /* a: available, +- 10 %. */
    WP_BASELINE_IN_USE_PLUS,    /* a: spare; cooldown 300 s. */
    WP_BASELINE_OPENWHISK,      /* Reactive prewarm. */
    WP_BASELINE_KNATIVE_KPA,    /* Stable and panic windows. */
    WP_BASELINE_RULE, /* a more than the last lead time took, held b s. */
    WP_BASELINE_ERLANG_TRUE, /* a: permille of hits; told the true rate. */
    WP_BASELINE_CLAIRVOYANT, /* Told every claim in advance. */
    WP_BASELINE_COUNT,
};

struct wp_baseline_config {
    enum wp_baseline baseline;
    double a;
    double b;
    uint32_t min;
    uint32_t max;
    enum wp_miss miss;
    /* For the two that are told the future: the claims to come. The source is
     * another copy of the one that is replayed; the policy reads it. */
    struct wp_replay_source future;
    struct wp_replay_lead lead;
    double true_rate_per_s;
};

/* False when memory lacks. Destroy by its destroy. */
bool wp_baseline_create(const struct wp_baseline_config *config,
                        struct wp_replay_policy *out);
/* "hpa-claim-rate"; UINT32 beyond the last: NULL. */
const char *wp_baseline_name(enum wp_baseline baseline);
/* What it models and where that is described; one line. */
const char *wp_baseline_cites(enum wp_baseline baseline);

#endif
