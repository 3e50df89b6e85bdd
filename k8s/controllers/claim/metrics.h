/* k8s/controllers/claim/metrics.h - the numbers of SandboxClaims, as upstream
 * names them.
 *
 * Written by the cluster's thread, read by any: series are only ever added, up
 * to a bound; what comes beyond it is counted under the last one, whose labels
 * are "other". */
#ifndef WP_K8S_CONTROLLERS_CLAIM_METRICS_H
#define WP_K8S_CONTROLLERS_CLAIM_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/metrics.h"
#include "pool/limits.h"

enum {
    WP_CLAIM_SERIES_MAX = 256,
    WP_CLAIM_LATENCY_BUCKETS = 15, /* And one above them all. */
};
/* Upper bounds, in milliseconds. */
extern const uint32_t wp_claim_latency_bounds_ms[WP_CLAIM_LATENCY_BUCKETS];

enum wp_claim_launch {
    WP_LAUNCH_WARM,
    WP_LAUNCH_COLD,
};
/* "warm", "cold" */
const char *wp_claim_launch_text(enum wp_claim_launch launch);

enum wp_claim_latency {
    /* From first observed: agent_sandbox_claim_controller_startup_latency_ms */
    WP_CLAIM_FROM_OBSERVED,
    /* From the client's own annotation:
     * agent_sandbox_client_claim_startup_latency_ms */
    WP_CLAIM_FROM_CLIENT,
    /* From a webhook's annotation: agent_sandbox_claim_startup_latency_ms */
    WP_CLAIM_FROM_WEBHOOK,
    WP_CLAIM_LATENCIES
};

/* agent_sandbox_claim_creation_total of these labels. */
struct wp_claim_creations {
    char ns[WP_NAMESPACE_MAX + 1];
    char templ[WP_TEMPLATE_NAME_MAX + 1];
    char pool[WP_TEMPLATE_NAME_MAX + 1];
    const char *created_by;
    enum wp_claim_launch launch;
    bool ready; /* pod_condition: ready, not_ready */
    _Atomic(uint64_t) count;
};

struct wp_claim_latencies {
    enum wp_claim_latency what;
    char templ[WP_TEMPLATE_NAME_MAX + 1];
    enum wp_claim_launch launch;
    _Atomic(uint64_t) sum_ms;
    _Atomic(uint64_t) bucket[WP_CLAIM_LATENCY_BUCKETS + 1];
};

struct wp_claim_metrics {
    struct wp_claim_creations creations[WP_CLAIM_SERIES_MAX];
    _Atomic(uint32_t) creations_len;
    struct wp_claim_latencies latencies[WP_CLAIM_SERIES_MAX];
    _Atomic(uint32_t) latencies_len;
    /* First observed to status answered, finely; by how it was served. */
    struct wp_histogram startup[2];
    struct wp_counter queued;    /* Had to wait for a warm sandbox. */
    struct wp_counter conflicts; /* Writes that met another's. */
    struct wp_counter lost;      /* Sandboxes somebody else had taken. */
    struct wp_counter writes[6]; /* By enum wp_claim_write. */
};

enum wp_claim_write {
    WP_CLAIM_WRITE_OBSERVED,
    WP_CLAIM_WRITE_SANDBOX,
    WP_CLAIM_WRITE_STATUS,
    WP_CLAIM_WRITE_ANNOTATIONS,
    WP_CLAIM_WRITE_DELETE,
    WP_CLAIM_WRITE_ALIAS,
};

/* "go-client", "python-client", "controller"; anything else is "unknown". */
const char *wp_claim_created_by(const char *label);
/* Copies a label's value; NULL and "" are "__unknown__", what is too long is
 * cut. */
void wp_claim_metrics_label(char *out, size_t cap, const char *value);
/* key: all but its count. */
void wp_claim_metrics_created(struct wp_claim_metrics *metrics,
                              const struct wp_claim_creations *key);
void wp_claim_metrics_took(struct wp_claim_metrics *metrics,
                           enum wp_claim_latency what, const char *templ,
                           enum wp_claim_launch launch, int64_t ms);

#endif
