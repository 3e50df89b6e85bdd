#include "k8s/controllers/claim/metrics.h"

#include <stdio.h>
#include <string.h>

const uint32_t wp_claim_latency_bounds_ms[WP_CLAIM_LATENCY_BUCKETS] = {
    100,  250,  500,   750,   1000,  1250,   1500,  2000,
    2500, 5000, 10000, 30000, 60000, 120000, 240000};

const char *
wp_claim_launch_text(enum wp_claim_launch launch)
{
    return launch == WP_LAUNCH_WARM ? "warm" : "cold";
}

const char *
wp_claim_created_by(const char *label)
{
    static const char *const known[] = {"go-client", "python-client",
                                        "controller", NULL};

    for (size_t i = 0; label != NULL && known[i] != NULL; i++) {
        if (strcmp(label, known[i]) == 0) {
            return known[i];
        }
    }
    return "unknown";
}

void
wp_claim_metrics_label(char *out, size_t cap, const char *value)
{
    (void)snprintf(out, cap, "%.*s", (int)cap - 1,
                   value == NULL || value[0] == '\0' ? "__unknown__" : value);
}

static bool
same_creations(const struct wp_claim_creations *a,
               const struct wp_claim_creations *b)
{
    return a->launch == b->launch && a->ready == b->ready &&
           a->created_by == b->created_by && strcmp(a->ns, b->ns) == 0 &&
           strcmp(a->templ, b->templ) == 0 && strcmp(a->pool, b->pool) == 0;
}

/* The one writer of the lengths; the release pairs with readers' acquire. */
static struct wp_claim_creations *
creations_of(struct wp_claim_metrics *metrics,
             const struct wp_claim_creations *key)
{
    uint32_t len =
        atomic_load_explicit(&metrics->creations_len, memory_order_relaxed);
    struct wp_claim_creations *made;

    for (uint32_t i = 0; i < len; i++) {
        if (same_creations(&metrics->creations[i], key)) {
            return &metrics->creations[i];
        }
    }
    if (len == WP_CLAIM_SERIES_MAX) {
        return &metrics->creations[len - 1];
    }
    made = &metrics->creations[len];
    memcpy(made->ns, key->ns, sizeof made->ns);
    memcpy(made->templ, key->templ, sizeof made->templ);
    memcpy(made->pool, key->pool, sizeof made->pool);
    made->created_by = key->created_by;
    made->launch = key->launch;
    made->ready = key->ready;
    if (len == WP_CLAIM_SERIES_MAX - 1) {
        (void)snprintf(made->ns, sizeof made->ns, "other");
        (void)snprintf(made->templ, sizeof made->templ, "other");
        (void)snprintf(made->pool, sizeof made->pool, "other");
    }
    atomic_store_explicit(&metrics->creations_len, len + 1,
                          memory_order_release);
    return made;
}

void
wp_claim_metrics_created(struct wp_claim_metrics *metrics,
                         const struct wp_claim_creations *key)
{
    atomic_fetch_add_explicit(&creations_of(metrics, key)->count, 1,
                              memory_order_relaxed);
}

static struct wp_claim_latencies *
find_latencies(struct wp_claim_metrics *metrics, enum wp_claim_latency what,
               const char *templ, enum wp_claim_launch launch)
{
    uint32_t len =
        atomic_load_explicit(&metrics->latencies_len, memory_order_relaxed);

    for (uint32_t i = 0; i < len; i++) {
        struct wp_claim_latencies *at = &metrics->latencies[i];

        if (at->what == what && at->launch == launch &&
            strcmp(at->templ, templ) == 0) {
            return at;
        }
    }
    return NULL;
}

static struct wp_claim_latencies *
latencies_of(struct wp_claim_metrics *metrics, enum wp_claim_latency what,
             const char *templ, enum wp_claim_launch launch)
{
    uint32_t len =
        atomic_load_explicit(&metrics->latencies_len, memory_order_relaxed);
    struct wp_claim_latencies *made =
        find_latencies(metrics, what, templ, launch);

    /* One place is kept for what does not fit, for each kind of it. */
    if (made == NULL && len >= WP_CLAIM_SERIES_MAX - 2 * WP_CLAIM_LATENCIES) {
        templ = "other";
        made = find_latencies(metrics, what, templ, launch);
    }
    if (made != NULL) {
        return made;
    }
    made = &metrics->latencies[len];
    made->what = what;
    made->launch = launch;
    wp_claim_metrics_label(made->templ, sizeof made->templ, templ);
    atomic_store_explicit(&metrics->latencies_len, len + 1,
                          memory_order_release);
    return made;
}

void
wp_claim_metrics_took(struct wp_claim_metrics *metrics,
                      enum wp_claim_latency what, const char *templ,
                      enum wp_claim_launch launch, int64_t ms)
{
    struct wp_claim_latencies *at;
    uint32_t i = 0;

    if (ms < 0) {
        return; /* Another machine's clock; upstream leaves these out too. */
    }
    at = latencies_of(metrics, what, templ, launch);
    while (i < WP_CLAIM_LATENCY_BUCKETS &&
           ms > (int64_t)wp_claim_latency_bounds_ms[i]) {
        i++;
    }
    atomic_fetch_add_explicit(&at->bucket[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&at->sum_ms, (uint64_t)ms, memory_order_relaxed);
}
