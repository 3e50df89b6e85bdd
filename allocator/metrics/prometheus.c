#include "allocator/metrics/prometheus.h"

#include <event2/buffer.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
    /* Every fourth bucket ends an octave: 64 us is the fifth of them. */
    FIRST_BUCKET = 19,
    LAST_BUCKET = 103,
};

void
wp_prom_family(struct evbuffer *out, const char *name, const char *type,
               const char *help)
{
    (void)evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help,
                              name, type);
}

static void
put_value_escaped(struct evbuffer *out, const char *value)
{
    for (; *value != '\0'; value++) {
        if (*value == '\\' || *value == '"') {
            (void)evbuffer_add(out, "\\", 1);
        }
        if (*value == '\n') {
            (void)evbuffer_add(out, "\\n", 2);
        } else {
            (void)evbuffer_add(out, value, 1);
        }
    }
}

/* {a="x",le="0.1"}; le may be NULL. */
static void
put_labels(struct evbuffer *out, const struct wp_prom_label *labels, size_t n,
           const char *le)
{
    if (n == 0 && le == NULL) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        (void)evbuffer_add_printf(out, "%s%s=\"", i == 0 ? "{" : ",",
                                  labels[i].name);
        put_value_escaped(out, labels[i].value);
        (void)evbuffer_add(out, "\"", 1);
    }
    if (le != NULL) {
        (void)evbuffer_add_printf(out, "%sle=\"%s\"", n == 0 ? "{" : ",", le);
    }
    (void)evbuffer_add(out, "}", 1);
}

void
wp_prom_sample(struct evbuffer *out, const char *name,
               const struct wp_prom_label *labels, size_t n_labels,
               double value)
{
    (void)evbuffer_add(out, name, strlen(name));
    put_labels(out, labels, n_labels, NULL);
    (void)evbuffer_add_printf(out, " %.17g\n", value);
}

void
wp_prom_put(struct evbuffer *out, const char *name, const char *help,
            double value)
{
    static const char suffix[] = "_total";
    size_t len = strlen(name);
    bool counter = len >= sizeof suffix - 1 &&
                   strcmp(name + len - (sizeof suffix - 1), suffix) == 0;

    wp_prom_family(out, name, counter ? "counter" : "gauge", help);
    wp_prom_sample(out, name, NULL, 0, value);
}

void
wp_prom_histogram(struct evbuffer *out, const char *name,
                  const struct wp_prom_label *labels, size_t n_labels,
                  const struct wp_histogram_view *view)
{
    uint64_t below = 0;
    char le[32];

    for (unsigned i = 0; i <= LAST_BUCKET; i++) {
        below += view->bucket[i];
        if (i < FIRST_BUCKET || i % WP_HISTOGRAM_SUB != FIRST_BUCKET % 4) {
            continue;
        }
        (void)snprintf(le, sizeof le, "%.9g",
                       (double)wp_histogram_bound_ns(i) / 1e9);
        (void)evbuffer_add_printf(out, "%s_bucket", name);
        put_labels(out, labels, n_labels, le);
        (void)evbuffer_add_printf(out, " %llu\n", (unsigned long long)below);
    }
    (void)evbuffer_add_printf(out, "%s_bucket", name);
    put_labels(out, labels, n_labels, "+Inf");
    (void)evbuffer_add_printf(out, " %llu\n%s_sum",
                              (unsigned long long)view->count, name);
    put_labels(out, labels, n_labels, NULL);
    (void)evbuffer_add_printf(out, " %.9g\n%s_count",
                              (double)view->sum_ns / 1e9, name);
    put_labels(out, labels, n_labels, NULL);
    (void)evbuffer_add_printf(out, " %llu\n", (unsigned long long)view->count);
}

void
wp_prom_put_buckets(struct evbuffer *out, const char *name,
                    const struct wp_prom_label *labels, size_t n_labels,
                    const struct wp_prom_buckets *buckets)
{
    uint64_t below = 0;
    char le[32] = "+Inf";

    for (size_t i = 0; i <= buckets->n_bounds; i++) {
        bool last = i == buckets->n_bounds;

        below += buckets->bucket[i];
        if (!last) {
            (void)snprintf(le, sizeof le, "%.9g",
                           (double)buckets->bounds_ns[i] / 1e9);
        }
        (void)evbuffer_add_printf(out, "%s_bucket", name);
        put_labels(out, labels, n_labels, last ? "+Inf" : le);
        (void)evbuffer_add_printf(out, " %llu\n", (unsigned long long)below);
    }
    (void)evbuffer_add_printf(out, "%s_sum", name);
    put_labels(out, labels, n_labels, NULL);
    (void)evbuffer_add_printf(out, " %.9g\n%s_count",
                              (double)buckets->sum_ns / 1e9, name);
    put_labels(out, labels, n_labels, NULL);
    (void)evbuffer_add_printf(out, " %llu\n", (unsigned long long)below);
}
