#include "k8s/cluster/cluster_stats.h"

#include <string.h>

#include "k8s/cluster/cluster_impl.h"

static void
note_kinds(const struct wp_cluster *cluster, struct wp_cluster_stats *out)
{
    for (size_t kind = 0; kind < WP_KIND_COUNT; kind++) {
        const struct wp_cluster_watch *watch = &cluster->watches[kind];
        const struct wp_store *store = cluster->parts.stores[kind];

        if (watch->reflector == NULL) {
            continue;
        }
        out->kinds[kind].watched = true;
        out->kinds[kind].synced = watch->synced;
        out->kinds[kind].objects = wp_store_count(store);
        out->kinds[kind].bytes = wp_store_bytes(store);
        wp_reflector_stats(watch->reflector, &out->kinds[kind].reflector);
    }
}

void
wp_cluster_note_stats(struct wp_cluster *cluster)
{
    struct wp_cluster_stats stats = {
        .leads = cluster->serving,
        .refused =
            cluster->election != NULL && wp_election_refused(cluster->election),
        .synced = wp_cluster_synced(cluster),
        .events_dropped = wp_events_dropped(cluster->parts.events),
        .identities_renewed = cluster->renewals.given_total,
        .identities_failed = cluster->renewals.failed_total,
        .controllers_len = cluster->controllers_len,
    };

    wp_http_stats(cluster->http, &stats.http);
    wp_cluster_backend_stats(cluster->backend, &stats.backend);
    note_kinds(cluster, &stats);
    for (uint32_t i = 0; i < cluster->controllers_len; i++) {
        stats.controllers[i].name = cluster->ops[i]->name;
        if (cluster->ops[i]->stats != NULL) {
            cluster->ops[i]->stats(cluster->controllers[i],
                                   &stats.controllers[i].queue);
        }
    }
    (void)pthread_mutex_lock(&cluster->stats_lock);
    cluster->stats = stats;
    (void)pthread_mutex_unlock(&cluster->stats_lock);
}

const struct wp_claim_metrics *
wp_cluster_claim_metrics(const struct wp_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->controllers_len; i++) {
        if (cluster->ops[i] == &wp_claim_controller_ops) {
            return wp_claim_controller_metrics(cluster->controllers[i]);
        }
    }
    return NULL;
}

struct wp_sandbox_counts *
wp_cluster_counts(const struct wp_cluster *cluster)
{
    return cluster->counts;
}

void
wp_cluster_stats(struct wp_cluster *cluster, struct wp_cluster_stats *out)
{
    (void)pthread_mutex_lock(&cluster->stats_lock);
    *out = cluster->stats;
    (void)pthread_mutex_unlock(&cluster->stats_lock);
}
