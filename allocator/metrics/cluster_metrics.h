/* allocator/metrics/cluster_metrics.h - the Kubernetes side's part of /metrics.
 *
 * Names that upstream's dashboards and scalers know are upstream's, to the
 * letter; finer ones begin with warmpool_. Any thread. */
#ifndef WP_ALLOCATOR_METRICS_CLUSTER_METRICS_H
#define WP_ALLOCATOR_METRICS_CLUSTER_METRICS_H

struct evbuffer;
struct wp_cluster;

void wp_cluster_metrics(struct wp_cluster *cluster, struct evbuffer *out);

#endif
