#include "allocator/metrics/cluster_metrics.h"

#include <event2/buffer.h>
#include <stdio.h>

#include "allocator/metrics/prometheus.h"
#include "k8s/cluster/cluster_stats.h"

enum {
    LABELS_MAX = 8
};

/* --- Upstream's names --- */

/* A histogram of milliseconds. */
struct ms_histogram {
    const uint32_t *bounds;
    size_t bounds_len;
    const uint64_t *buckets; /* One more than bounds. */
    uint64_t sum;
};

/* labels has room for one more. */
static void
put_ms(struct evbuffer *out, const char *name, struct wp_prom_label *labels,
       size_t n, const struct ms_histogram *histogram)
{
    uint64_t below = 0;
    char series[96];
    char le[16];

    (void)snprintf(series, sizeof series, "%s_bucket", name);
    for (size_t i = 0; i <= histogram->bounds_len; i++) {
        below += histogram->buckets[i];
        if (i < histogram->bounds_len) {
            (void)snprintf(le, sizeof le, "%u", histogram->bounds[i]);
        } else {
            (void)snprintf(le, sizeof le, "+Inf");
        }
        labels[n] = (struct wp_prom_label){"le", le};
        wp_prom_sample(out, series, labels, n + 1, (double)below);
    }
    (void)snprintf(series, sizeof series, "%s_sum", name);
    wp_prom_sample(out, series, labels, n, (double)histogram->sum);
    (void)snprintf(series, sizeof series, "%s_count", name);
    wp_prom_sample(out, series, labels, n, (double)below);
}

static void
put_creations(struct evbuffer *out, const struct wp_claim_metrics *metrics)
{
    const char *name = "agent_sandbox_claim_creation_total";
    uint32_t len =
        atomic_load_explicit(&metrics->creations_len, memory_order_acquire);

    wp_prom_family(out, name, "counter", "Claims that got a sandbox.");
    for (uint32_t i = 0; i < len; i++) {
        const struct wp_claim_creations *c = &metrics->creations[i];
        const struct wp_prom_label labels[] = {
            {"namespace", c->ns},
            {"sandbox_template", c->templ},
            {"launch_type", wp_claim_launch_text(c->launch)},
            {"warmpool_name", c->pool},
            {"pod_condition", c->ready ? "ready" : "not_ready"},
            {"created_by", c->created_by},
        };

        wp_prom_sample(
            out, name, labels, WP_ARRAY_LEN(labels),
            (double)atomic_load_explicit(&c->count, memory_order_relaxed));
    }
}

static void
put_claim_latencies(struct evbuffer *out,
                    const struct wp_claim_metrics *metrics)
{
    static const struct {
        enum wp_claim_latency what;
        const char *name;
        const char *help;
    } families[] = {
        {WP_CLAIM_FROM_OBSERVED,
         "agent_sandbox_claim_controller_startup_latency_ms",
         "From the controller's first sight of a claim to its being Ready."},
        {WP_CLAIM_FROM_CLIENT, "agent_sandbox_client_claim_startup_latency_ms",
         "From the time that the client wrote on its claim to Ready."},
        {WP_CLAIM_FROM_WEBHOOK, "agent_sandbox_claim_startup_latency_ms",
         "From the time that a webhook wrote on a claim to Ready."},
    };
    uint32_t len =
        atomic_load_explicit(&metrics->latencies_len, memory_order_acquire);

    for (size_t f = 0; f < WP_ARRAY_LEN(families); f++) {
        wp_prom_family(out, families[f].name, "histogram", families[f].help);
        for (uint32_t i = 0; i < len; i++) {
            const struct wp_claim_latencies *l = &metrics->latencies[i];
            struct wp_prom_label labels[LABELS_MAX] = {
                {"launch_type", wp_claim_launch_text(l->launch)},
                {"sandbox_template", l->templ},
            };
            uint64_t buckets[WP_CLAIM_LATENCY_BUCKETS + 1];
            struct ms_histogram histogram = {wp_claim_latency_bounds_ms,
                                             WP_CLAIM_LATENCY_BUCKETS, NULL, 0};

            if (l->what != families[f].what) {
                continue;
            }
            for (size_t b = 0; b < WP_ARRAY_LEN(buckets); b++) {
                buckets[b] =
                    atomic_load_explicit(&l->bucket[b], memory_order_relaxed);
            }
            histogram.buckets = buckets;
            histogram.sum =
                atomic_load_explicit(&l->sum_ms, memory_order_relaxed);
            put_ms(out, families[f].name, labels, 2, &histogram);
        }
    }
}

static void
put_group(void *ctx, const struct wp_sandbox_counts_group *group)
{
    const struct wp_prom_label labels[] = {
        {"namespace", group->ns},
        {"ready_condition", group->ready ? "true" : "false"},
        {"expired", group->expired ? "true" : "false"},
        {"launch_type", group->warm ? "warm" : "cold"},
        {"sandbox_template", group->templ},
        {"owned_by", group->owned_by},
        {"created_by", group->created_by},
    };

    wp_prom_sample(ctx, "agent_sandboxes", labels, WP_ARRAY_LEN(labels),
                   (double)group->count);
}

static void
put_creation_latency(void *ctx, const struct wp_sandbox_counts_latency *latency)
{
    struct wp_prom_label labels[LABELS_MAX] = {
        {"namespace", latency->ns},
        {"launch_type", latency->warm ? "warm" : "cold"},
        {"sandbox_template", latency->templ},
    };
    const struct ms_histogram histogram = {wp_sandbox_counts_bounds_ms,
                                           WP_SANDBOX_COUNTS_LATENCY_BUCKETS,
                                           latency->bucket, latency->sum_ms};

    put_ms(ctx, "agent_sandbox_creation_latency_ms", labels, 3, &histogram);
}

static void
put_upstream(struct evbuffer *out, const struct wp_cluster *cluster)
{
    const struct wp_claim_metrics *claims = wp_cluster_claim_metrics(cluster);
    const struct wp_prom_label build[] = {
        {"git_version", "v" WP_VERSION}, {"git_commit", "unknown"},
        {"build_date", "unknown"},       {"go_version", "none"},
        {"compiler", "warmpool"},        {"platform", "linux"},
    };

    wp_prom_family(out, "agent_sandbox_build_info", "gauge",
                   "1; what runs, in its labels.");
    wp_prom_sample(out, "agent_sandbox_build_info", build, WP_ARRAY_LEN(build),
                   1);
    if (claims != NULL) {
        put_creations(out, claims);
        put_claim_latencies(out, claims);
    }
    wp_prom_family(out, "agent_sandboxes", "gauge", "Sandbox objects.");
    wp_sandbox_counts_groups(wp_cluster_counts(cluster), put_group, out);
    wp_prom_family(out, "agent_sandbox_creation_latency_ms", "histogram",
                   "From a sandbox's creation to its being Ready.");
    wp_sandbox_counts_latencies(wp_cluster_counts(cluster),
                                put_creation_latency, out);
}

/* --- Ours --- */

static void
put_claims(struct evbuffer *out, const struct wp_claim_metrics *claims)
{
    static const char *const writes[] = {"observed",    "sandbox", "status",
                                         "annotations", "delete",  "alias"};
    const char *name = "warmpool_claim_startup_seconds";

    wp_prom_family(out, name, "histogram",
                   "From the first sight of a SandboxClaim to the answer of "
                   "the write that says Ready.");
    for (unsigned launch = 0; launch < 2; launch++) {
        const struct wp_prom_label label = {
            "launch_type", wp_claim_launch_text((enum wp_claim_launch)launch)};
        struct wp_histogram_view view;

        wp_histogram_read(&claims->startup[launch], &view);
        wp_prom_histogram(out, name, &label, 1, &view);
    }
    wp_prom_put(out, "warmpool_claim_queued_total",
                "SandboxClaims that had to wait for a sandbox.",
                (double)wp_counter_read(&claims->queued));
    wp_prom_put(out, "warmpool_claim_conflicts_total",
                "Writes for SandboxClaims that met another's.",
                (double)wp_counter_read(&claims->conflicts));
    wp_prom_put(out, "warmpool_claim_sandboxes_lost_total",
                "Sandboxes that somebody else had taken.",
                (double)wp_counter_read(&claims->lost));
    wp_prom_family(out, "warmpool_claim_writes_total", "counter",
                   "Writes to the API server for SandboxClaims.");
    for (size_t i = 0; i < WP_ARRAY_LEN(writes); i++) {
        const struct wp_prom_label label = {"what", writes[i]};

        wp_prom_sample(out, "warmpool_claim_writes_total", &label, 1,
                       (double)wp_counter_read(&claims->writes[i]));
    }
}

static void
put_priorities(struct evbuffer *out, const char *name, const char *type,
               const char *help, const uint64_t values[WP_HTTP_PRIORITIES])
{
    static const char *const names[WP_HTTP_PRIORITIES] = {
        "claim", "normal", "refill", "spare", "event"};

    wp_prom_family(out, name, type, help);
    for (size_t i = 0; i < WP_HTTP_PRIORITIES; i++) {
        const struct wp_prom_label label = {"priority", names[i]};

        wp_prom_sample(out, name, &label, 1, (double)values[i]);
    }
}

static void
put_http(struct evbuffer *out, const struct wp_http_stats *s)
{
    put_priorities(out, "warmpool_api_requests_total", "counter",
                   "Requests sent to the API server, by priority.", s->sent);
    put_priorities(out, "warmpool_api_refused_total", "counter",
                   "Requests that were not sent, their queue being full.",
                   s->refused);
    put_priorities(out, "warmpool_api_queued", "gauge",
                   "Requests that wait for their turn.", s->queued);
    wp_prom_put(out, "warmpool_api_inflight",
                "Requests that wait for their answer.", (double)s->inflight);
    wp_prom_put(out, "warmpool_api_throttled_total",
                "Answers that asked for a pause (429, 503).",
                (double)s->throttled);
    wp_prom_put(out, "warmpool_api_failed_total", "Requests without an answer.",
                (double)s->failed);
    wp_prom_put(out, "warmpool_api_conflicts_total",
                "Answers 409: somebody else wrote the object.",
                (double)s->conflicts);
}

/* One family of a number of each watched kind. */
static void
put_kinds(struct evbuffer *out, const struct wp_cluster_stats *s,
          const char *name, const char *type, const char *help,
          double (*value)(const struct wp_cluster_kind_stats *kind))
{
    wp_prom_family(out, name, type, help);
    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        /* Watched apart from the Sandboxes that they are for the server. */
        const struct wp_prom_label label = {
            "kind", i == WP_KIND_ALIAS ? "SandboxAlias"
                                       : wp_kind_info((enum wp_kind)i)->kind};

        if (s->kinds[i].watched) {
            wp_prom_sample(out, name, &label, 1, value(&s->kinds[i]));
        }
    }
}

#define KIND_VALUE(name, expr)                                                 \
    static double name(const struct wp_cluster_kind_stats *kind)               \
    {                                                                          \
        return (double)(expr);                                                 \
    }
KIND_VALUE(kind_objects, kind->objects)
KIND_VALUE(kind_bytes, kind->bytes)
KIND_VALUE(kind_synced, kind->synced ? 1 : 0)
KIND_VALUE(kind_lists, kind->reflector.lists)
KIND_VALUE(kind_watches, kind->reflector.watches)
KIND_VALUE(kind_events, kind->reflector.events)
KIND_VALUE(kind_gone, kind->reflector.gone)
KIND_VALUE(kind_stalled, kind->reflector.stalled)
KIND_VALUE(kind_broken, kind->reflector.broken)
#undef KIND_VALUE

static void
put_watches(struct evbuffer *out, const struct wp_cluster_stats *s)
{
    static const struct {
        const char *name;
        const char *type;
        const char *help;
        double (*value)(const struct wp_cluster_kind_stats *kind);
    } rows[] = {
        {"warmpool_watch_objects", "gauge", "Objects that are known.",
         kind_objects},
        {"warmpool_watch_bytes", "gauge", "Memory that they take.", kind_bytes},
        {"warmpool_watch_synced", "gauge", "1 once a whole list was taken in.",
         kind_synced},
        {"warmpool_watch_lists_total", "counter", "Lists begun.", kind_lists},
        {"warmpool_watch_streams_total", "counter", "Watches begun.",
         kind_watches},
        {"warmpool_watch_events_total", "counter", "Events received.",
         kind_events},
        {"warmpool_watch_gone_total", "counter",
         "Times the version to go on from was gone (410).", kind_gone},
        {"warmpool_watch_stalled_total", "counter",
         "Watches ended for their silence.", kind_stalled},
        {"warmpool_watch_broken_total", "counter", "Events that made no sense.",
         kind_broken},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        put_kinds(out, s, rows[i].name, rows[i].type, rows[i].help,
                  rows[i].value);
    }
}

static void
put_queues(struct evbuffer *out, const struct wp_cluster_stats *s)
{
    struct {
        const char *name;
        const char *type;
        const char *help;
        double value[WP_ARRAY_LEN(s->controllers)];
    } rows[] = {
        {"warmpool_work_waiting", "gauge", "Keys that wait for a worker.", {0}},
        {"warmpool_work_delayed", "gauge", "Keys to be looked at later.", {0}},
        {"warmpool_work_running", "gauge", "Reconciles under way.", {0}},
        {"warmpool_work_begun_total", "counter", "Reconciles begun.", {0}},
        {"warmpool_work_failed_total", "counter", "Of those, failed.", {0}},
    };

    for (uint32_t i = 0; i < s->controllers_len; i++) {
        const struct wp_work_queue_stats *queue = &s->controllers[i].queue;

        rows[0].value[i] = queue->waiting;
        rows[1].value[i] = queue->delayed;
        rows[2].value[i] = queue->running;
        rows[3].value[i] = (double)queue->begun;
        rows[4].value[i] = (double)queue->failed;
    }
    for (size_t row = 0; row < WP_ARRAY_LEN(rows); row++) {
        wp_prom_family(out, rows[row].name, rows[row].type, rows[row].help);
        for (uint32_t i = 0; i < s->controllers_len; i++) {
            const struct wp_prom_label label = {"controller",
                                                s->controllers[i].name};

            wp_prom_sample(out, rows[row].name, &label, 1, rows[row].value[i]);
        }
    }
}

static void
put_backend(struct evbuffer *out, const struct wp_cluster_backend_stats *s)
{
    wp_prom_put(out, "warmpool_cluster_sandboxes",
                "Sandbox objects that the core knows.", s->known);
    wp_prom_put(out, "warmpool_cluster_created_total", "Sandbox objects made.",
                (double)s->posted);
    wp_prom_put(out, "warmpool_cluster_deleted_total",
                "Sandbox objects deleted.", (double)s->deleted);
    wp_prom_put(out, "warmpool_cluster_adopted_total",
                "Sandboxes taken out of their pool for a lease of gRPC.",
                (double)s->adopted);
    wp_prom_put(out, "warmpool_cluster_taken_total",
                "Sandboxes lost to another controller.", (double)s->taken);
    wp_prom_put(out, "warmpool_cluster_found_total",
                "Sandboxes found that this process did not order.",
                (double)s->found);
    wp_prom_put(out, "warmpool_cluster_orphans_total",
                "Sandboxes deleted because nobody knows their lease any more.",
                (double)s->orphans);
    wp_prom_put(out, "warmpool_cluster_refused_total",
                "Orders that the API server refused for good.",
                (double)s->refused);
    wp_prom_put(out, "warmpool_cluster_conflicts_total",
                "Adoptions that met another's write.", (double)s->conflicts);
}

void
wp_cluster_metrics(struct wp_cluster *cluster, struct evbuffer *out)
{
    const struct wp_claim_metrics *claims = wp_cluster_claim_metrics(cluster);
    struct wp_cluster_stats s;

    wp_cluster_stats(cluster, &s);
    wp_prom_put(out, "warmpool_leader",
                "1 when this replica writes to the cluster.",
                wp_cluster_leads(cluster) ? 1 : 0);
    wp_prom_put(
        out, "warmpool_leader_refused",
        "1 when the API server does not let this replica have the lease.",
        s.refused ? 1 : 0);
    wp_prom_put(out, "warmpool_synced",
                "1 once every watch had its whole list.",
                wp_cluster_synced(cluster) ? 1 : 0);
    wp_prom_put(out, "warmpool_events_dropped_total",
                "Event objects that were not written.",
                (double)s.events_dropped);
    wp_prom_put(out, "warmpool_cluster_identities_renewed_total",
                "Identities of sandboxes replaced by the next one.",
                (double)s.identities_renewed);
    wp_prom_put(out, "warmpool_cluster_identities_failed_total",
                "Renewals of identities that failed; each is tried again.",
                (double)s.identities_failed);
    put_http(out, &s.http);
    put_watches(out, &s);
    put_queues(out, &s);
    put_backend(out, &s.backend);
    if (claims != NULL) {
        put_claims(out, claims);
    }
    put_upstream(out, cluster);
}
