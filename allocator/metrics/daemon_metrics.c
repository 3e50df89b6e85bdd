#include "allocator/metrics/daemon_metrics.h"

#include <dirent.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "allocator/metrics/prometheus.h"

static const char *
code_name(unsigned code)
{
    for (int status = 0; status < WP_STATUS_COUNT; status++) {
        if ((unsigned)wp_status_grpc_code((enum wp_status)status) == code &&
            status != WP_PENDING) {
            return wp_status_name((enum wp_status)status);
        }
    }
    return "UNKNOWN";
}

/* At most as many series as there are methods and codes. */
static void
put_rpc_durations(struct evbuffer *out, const struct wp_rpc_server *rpc)
{
    static const char name[] = "warmpool_rpc_duration_seconds";
    struct wp_rpc_duration d;
    uint32_t cursor = 0;
    bool begun = false;

    while (wp_rpc_server_duration(rpc, &cursor, &d)) {
        const struct wp_prom_label labels[] = {{"method", d.method},
                                               {"code", code_name(d.code)}};

        if (!begun) {
            begun = true;
            wp_prom_family(out, name, "histogram",
                           "From the head of a unary RPC to its answer.");
        }
        wp_prom_put_buckets(
            out, name, labels, WP_ARRAY_LEN(labels),
            &(struct wp_prom_buckets){wp_rpc_duration_bounds_ns, d.bucket,
                                      WP_RPC_DURATION_BOUNDS, d.sum_ns});
    }
}

static void
put_claim_durations(struct evbuffer *out, const struct wp_rpc_server *rpc)
{
    static const char name[] = "warmpool_claim_duration_seconds";
    struct wp_rpc_duration d;

    wp_prom_family(out, name, "histogram",
                   "From the head of a Claim to its answer, of those that "
                   "were granted over gRPC, by how.");
    for (unsigned k = WP_SERVED_WARM; k <= WP_SERVED_COLD; k++) {
        const struct wp_prom_label label = {"served", wp_served_text(k)};

        wp_rpc_server_served(rpc, k, &d);
        wp_prom_put_buckets(
            out, name, &label, 1,
            &(struct wp_prom_buckets){wp_rpc_duration_bounds_ns, d.bucket,
                                      WP_RPC_DURATION_BOUNDS, d.sum_ns});
    }
}

static void
put_rpc(struct evbuffer *out, const struct wp_rpc_server *rpc)
{
    struct wp_rpc_stats s;

    put_rpc_durations(out, rpc);
    put_claim_durations(out, rpc);
    wp_rpc_server_stats(rpc, &s);
    wp_prom_put(out, "warmpool_rpc_calls_total", "RPCs handed to a method.",
                (double)s.calls_started);
    wp_prom_put(out, "warmpool_rpc_cancelled_total",
                "RPCs whose client went or was late before the answer.",
                (double)s.calls_cancelled);
    wp_prom_put(out, "warmpool_rpc_refused_total", "RPCs over rpc_calls_max.",
                (double)s.calls_refused);
    wp_prom_put(out, "warmpool_rpc_unknown_total", "RPCs of unknown methods.",
                (double)s.calls_unknown);
    wp_prom_put(out, "warmpool_rpc_in_flight", "RPCs in progress.",
                s.calls_in_flight);
    wp_prom_put(out, "warmpool_rpc_peers_accepted_total",
                "Connections accepted.", (double)s.peers_accepted);
    wp_prom_put(out, "warmpool_rpc_peers_refused_total",
                "Connections refused: user not allowed, or too many.",
                (double)s.peers_refused);
    wp_prom_put(out, "warmpool_rpc_peers_slowed_total",
                "Times that reading a connection was put off because it sent "
                "too much that brings no work.",
                (double)s.peers_slowed);
    wp_prom_put(out, "warmpool_rpc_peers_cut_total",
                "Connections ended because they broke HTTP/2 or its limits.",
                (double)s.peers_cut);
    wp_prom_put(out, "warmpool_rpc_tls_reloads_total",
                "Certificates replaced while running.", (double)s.tls_reloads);
}

static void
put_streams(struct evbuffer *out, const struct wp_http_metrics *m)
{
    static const char name[] = "warmpool_claim_streams";
    const struct wp_prom_label open_label = {"state", "open"};
    const struct wp_prom_label broken_label = {"state", "broken"};
    uint32_t open = 0;
    uint32_t broken = 0;
    uint32_t ahead = 0;

    m->streams(m->ctx, &open, &broken, &ahead);
    wp_prom_family(out, name, "gauge",
                   "Claim streams: open, or broken and waiting for their "
                   "client's return.");
    wp_prom_sample(out, name, &open_label, 1, open);
    wp_prom_sample(out, name, &broken_label, 1, broken);
    wp_prom_put(out, "warmpool_leases_ahead",
                "Leases that clients of claim streams hold and have not said "
                "to have taken.",
                ahead);
}

static void
put_traces(struct evbuffer *out, const struct wp_tracer *tracer)
{
    static const char name[] = "warmpool_trace_spans_total";
    const struct wp_tracer_stats s = wp_tracer_stats(tracer);
    const struct {
        const char *name;
        uint64_t n;
    } outcomes[] = {
        {"exported", s.exported}, {"dropped", s.dropped}, {"failed", s.failed}};

    wp_prom_family(out, name, "counter",
                   "Spans: exported to the collector of otlp_endpoint, dropped "
                   "because too many waited for it, failed because it did not "
                   "take them.");
    for (size_t i = 0; i < WP_ARRAY_LEN(outcomes); i++) {
        const struct wp_prom_label label = {"outcome", outcomes[i].name};

        wp_prom_sample(out, name, &label, 1, (double)outcomes[i].n);
    }
}

static void
put_http(struct evbuffer *out, const struct wp_gateway *http)
{
    struct wp_gateway_stats s = wp_gateway_stats(http);

    wp_prom_put(out, "warmpool_http_connections", "HTTP connections now.",
                s.connections);
    wp_prom_put(out, "warmpool_http_connections_total",
                "HTTP connections accepted.", (double)s.connections_total);
    wp_prom_put(out, "warmpool_http_connections_refused_total",
                "HTTP connections refused: user not allowed, or too many.",
                (double)s.connections_refused);
    wp_prom_put(out, "warmpool_http_requests_total", "HTTP requests.",
                (double)s.requests_total);
    wp_prom_put(out, "warmpool_http_proxied_total",
                "HTTP requests handed to a sandbox.", (double)s.proxied_total);
    wp_prom_put(out, "warmpool_http_upstream_failed_total",
                "Of those, answered with 502 or 504.",
                (double)s.upstream_failed_total);
}

static double
open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    double n = 0;

    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return n > 3 ? n - 3 : 0; /* ".", ".." and the one that looks. */
}

static void
put_process(struct evbuffer *out)
{
    FILE *statm = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0;
    struct rusage usage;
    struct rlimit fds;

    if (statm != NULL) {
        if (fscanf(statm, "%*u %llu", &pages) != 1) { /* NOLINT(cert-err34-c) */
            pages = 0;
        }
        (void)fclose(statm);
    }
    wp_prom_put(out, "process_resident_memory_bytes",
                "Resident memory in bytes.",
                (double)pages * (double)sysconf(_SC_PAGESIZE));
    wp_prom_put(out, "process_open_fds", "Open descriptors.", open_fds());
    if (getrlimit(RLIMIT_NOFILE, &fds) == 0) {
        wp_prom_put(out, "process_max_fds", "Most descriptors allowed.",
                    (double)fds.rlim_cur);
    }
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        wp_prom_put(
            out, "process_cpu_seconds_total",
            "Processor time used, user and system.",
            (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) /
                    1e6);
    }
}

void
wp_daemon_metrics(struct evbuffer *out, const struct wp_http_metrics *m)
{
    wp_prom_put(out, "warmpool_memory_planned_bytes",
                "Memory reserved for slots and claims at start.",
                (double)wp_pools_memory_bytes(m->pools));
    if (m->control != NULL) {
        struct wp_control_stats s = wp_control_stats(m->control);

        wp_prom_put(out, "warmpool_control_turns_total",
                    "Turns of the control thread.", (double)s.turns);
        wp_prom_put(out, "warmpool_control_wakes_total",
                    "Of those, begun by waking it from sleep.",
                    (double)s.writes);
    }
    if (m->machine != NULL) {
        struct wp_machine_numbers n = {0};

        m->machine(m->ctx, &n);
        wp_prom_put(out, "warmpool_backend_queued",
                    "Sandboxes waiting for their turn to start.", n.queued);
        wp_prom_put(out, "warmpool_backend_starting",
                    "Sandboxes started and not ready yet.", n.starting);
        wp_prom_put(out, "warmpool_sandboxes_frozen",
                    "Leased sandboxes that are frozen, since nobody uses them.",
                    n.frozen);
        wp_prom_put(out, "warmpool_sandbox_freezes_total",
                    "Times that a sandbox was frozen.", (double)n.frozen_total);
    }
}

static void
put_store(struct evbuffer *out, const struct wp_lease_meter *store)
{
    const char *name = "warmpool_lease_commits_total";
    struct wp_histogram_view view;

    wp_prom_family(out, name, "counter",
                   "Commits to the lease store, by kind and outcome.");
    for (unsigned kind = 0; kind < WP_LEASE_OP_KINDS; kind++) {
        for (unsigned s = 0; s < WP_STATUS_COUNT; s++) {
            uint64_t n = atomic_load_explicit(&store->commits[kind][s],
                                              memory_order_relaxed);
            struct wp_prom_label labels[] = {
                {"kind", wp_lease_op_name((enum wp_lease_op_kind)kind)},
                {"outcome", wp_status_name((enum wp_status)s)},
            };

            if (n > 0) {
                wp_prom_sample(out, name, labels, 2, (double)n);
            }
        }
    }
    wp_prom_family(out, "warmpool_lease_commit_seconds", "histogram",
                   "How long commits to the lease store took.");
    wp_histogram_read(&store->latency, &view);
    wp_prom_histogram(out, "warmpool_lease_commit_seconds", NULL, 0, &view);
    wp_prom_put(
        out, "warmpool_lease_commits_pending",
        "Commits that the lease store has not answered yet.",
        (double)atomic_load_explicit(&store->pending, memory_order_relaxed));
    wp_prom_put(out, "warmpool_lease_store_up",
                "0 when the lease store was out of reach at its last answer.",
                wp_lease_meter_works(store) ? 1 : 0);
}

void
wp_daemon_metrics_parts(struct evbuffer *out, const struct wp_http_metrics *m)
{
    if (m->store != NULL) {
        put_store(out, m->store);
    }
    if (m->store_more != NULL) {
        m->store_more(m->ctx, out);
    }
    if (m->rpc != NULL) {
        put_rpc(out, m->rpc);
    }
    if (m->streams != NULL) {
        put_streams(out, m);
    }
    if (m->http != NULL) {
        put_http(out, m->http);
    }
    if (m->tracer != NULL) {
        put_traces(out, m->tracer);
    }
    put_process(out);
}
