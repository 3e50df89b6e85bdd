/* allocator/metrics/prometheus.h - the Prometheus text format, version 0.0.4.
 *
 * A family is begun once, then its samples follow; label values are escaped, so
 * they may hold any text. One thread. */
#ifndef WP_ALLOCATOR_METRICS_PROMETHEUS_H
#define WP_ALLOCATOR_METRICS_PROMETHEUS_H

#include <stddef.h>
#include <stdint.h>

#include "pool/base/metrics.h"

#define WP_PROM_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct evbuffer;

struct wp_prom_label {
    const char *name;
    const char *value;
};

/* type: "counter", "gauge" or "histogram". help: one line. */
void wp_prom_family(struct evbuffer *out, const char *name, const char *type,
                    const char *help);
void wp_prom_sample(struct evbuffer *out, const char *name,
                    const struct wp_prom_label *labels, size_t n_labels,
                    double value);
/* A family of one sample: a counter when its name ends with "_total", else a
 * gauge. */
void wp_prom_put(struct evbuffer *out, const char *name, const char *help,
                 double value);
/* All samples of one histogram, in seconds: octaves from 64 us to 134 s. */
void wp_prom_histogram(struct evbuffer *out, const char *name,
                       const struct wp_prom_label *labels, size_t n_labels,
                       const struct wp_histogram_view *view);

/* The same with bounds of its own. */
struct wp_prom_buckets {
    const int64_t *bounds_ns;
    /* bucket[i] counts what is at most bounds_ns[i] and above the bound before;
     * bucket[n_bounds] the rest. */
    const uint64_t *bucket;
    size_t n_bounds;
    uint64_t sum_ns;
};
void wp_prom_put_buckets(struct evbuffer *out, const char *name,
                         const struct wp_prom_label *labels, size_t n_labels,
                         const struct wp_prom_buckets *buckets);

#endif
