/* k8s/cluster/sandbox_counts.h - how many sandboxes there are, by what people
 * ask for.
 *
 * Counted as they come, change and go, so that nobody has to walk through all
 * of them for a scrape. Groups are bounded: what comes beyond is counted in the
 * last one, whose labels are "other". The store's thread counts, any thread
 * reads. */
#ifndef WP_K8S_CLUSTER_SANDBOX_COUNTS_H
#define WP_K8S_CLUSTER_SANDBOX_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "k8s/watch/store.h"
#include "pool/limits.h"

enum {
    WP_SANDBOX_COUNTS_GROUPS_MAX = 512,
    WP_SANDBOX_COUNTS_LATENCY_BUCKETS = 14, /* And one above them all. */
};
/* Upper bounds of creation latencies, in milliseconds. */
extern const uint32_t
    wp_sandbox_counts_bounds_ms[WP_SANDBOX_COUNTS_LATENCY_BUCKETS];

struct wp_sandbox_counts_group {
    char ns[WP_NAMESPACE_MAX + 1];
    char templ[WP_TEMPLATE_NAME_MAX + 1]; /* "unknown" where none is said. */
    const char *owned_by;   /* "SandboxClaim", "SandboxWarmPool", "None" */
    const char *created_by; /* As wp_claim_created_by has it. */
    bool ready;
    bool expired;
    bool warm;
    uint64_t count;
};

/* From a sandbox's creation to its being Ready. */
struct wp_sandbox_counts_latency {
    char ns[WP_NAMESPACE_MAX + 1];
    char templ[WP_TEMPLATE_NAME_MAX + 1];
    bool warm;
    uint64_t sum_ms;
    uint64_t bucket[WP_SANDBOX_COUNTS_LATENCY_BUCKETS + 1];
};

struct wp_sandbox_counts; /* Opaque. */

/* Listens to sandboxes, so before any is put in. counts_latency: looked at when
 * one becomes Ready; only one of several replicas is to count that. NULL when
 * memory lacks. */
struct wp_sandbox_counts *wp_sandbox_counts_create(struct wp_store *sandboxes,
                                                   const bool *counts_latency);
void wp_sandbox_counts_destroy(struct wp_sandbox_counts *counts);

/* One after the other, of those that are not empty. Any thread. */
void wp_sandbox_counts_groups(
    struct wp_sandbox_counts *counts,
    void (*each)(void *ctx, const struct wp_sandbox_counts_group *group),
    void *ctx);
void wp_sandbox_counts_latencies(
    struct wp_sandbox_counts *counts,
    void (*each)(void *ctx, const struct wp_sandbox_counts_latency *latency),
    void *ctx);

#endif
