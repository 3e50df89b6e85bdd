/* k8s/cluster/cluster_stats.h - what there is to say about the Kubernetes side.
 *
 * Taken on the cluster's thread once a second, so that who asks waits for
 * nothing. */
#ifndef WP_K8S_CLUSTER_CLUSTER_STATS_H
#define WP_K8S_CLUSTER_CLUSTER_STATS_H

#include "k8s/backend/backend.h"
#include "k8s/controllers/claim/controller.h"
#include "k8s/cluster/cluster.h"
#include "k8s/api/http.h"
#include "k8s/objects/kind.h"
#include "k8s/watch/reflector.h"
#include "k8s/cluster/sandbox_counts.h"
#include "k8s/watch/work_queue.h"

enum {
    /* Pool, claim, template, sandbox, webhook, identity. */
    WP_CLUSTER_CONTROLLERS = 6,
};

struct wp_cluster_kind_stats {
    bool watched; /* All else is 0 when it is not. */
    bool synced;
    uint32_t objects;
    uint64_t bytes;
    struct wp_reflector_stats reflector;
};

struct wp_cluster_controller_stats {
    const char *name; /* "pool"; static. */
    struct wp_work_queue_stats queue;
};

struct wp_cluster_stats {
    bool leads;
    bool refused; /* The lease, by the API server. */
    bool synced;
    uint64_t events_dropped;
    uint64_t identities_renewed;
    uint64_t identities_failed; /* Renewals; each is tried again. */
    struct wp_http_stats http;
    struct wp_cluster_backend_stats backend;
    struct wp_cluster_kind_stats kinds[WP_KIND_COUNT];
    struct wp_cluster_controller_stats controllers[WP_CLUSTER_CONTROLLERS];
    uint32_t controllers_len;
};

/* NULL when no claims are served. Valid until destroy, any thread; from start
 * on. */
const struct wp_claim_metrics *
wp_cluster_claim_metrics(const struct wp_cluster *cluster);
/* The same of all sandboxes that there are. */
struct wp_sandbox_counts *wp_cluster_counts(const struct wp_cluster *cluster);
/* Any thread. */
void wp_cluster_stats(struct wp_cluster *cluster, struct wp_cluster_stats *out);

#endif
