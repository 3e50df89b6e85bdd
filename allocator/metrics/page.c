#include "allocator/metrics/page.h"

#include <dirent.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "allocator/metrics/prometheus.h"
#include "allocator/metrics/scale_metrics.h"
#include "allocator/metrics/tenant_metrics.h"

/* What one scrape looks at. */
struct scrape {
    struct evbuffer *out;
    struct wp_pool_stats *stats;
    uint32_t n;
    enum wp_view view;
};

/* One family with one number for each pool. */
struct pool_family {
    const char *name;
    const char *type;
    const char *help;
    double (*value)(const struct wp_pool_stats *s);
    enum wp_view view; /* Who sees it. */
};

#define NUMBER(name)                                                           \
    static double get_##name(const struct wp_pool_stats *s)                    \
    {                                                                          \
        return (double)s->name;                                                \
    }
NUMBER(waiting)
NUMBER(refused_total)
NUMBER(missed_total)
NUMBER(released_total)
NUMBER(expired_total)
NUMBER(undone_total)
NUMBER(created_total)
NUMBER(destroyed_total)
NUMBER(failed_total)
NUMBER(lost_total)
NUMBER(draining)
NUMBER(breaker_open)

static double
get_target(const struct wp_pool_stats *s)
{
    return (double)s->spec.target;
}

static const struct pool_family pool_families[] = {
    {"warmpool_pool_target", "gauge",
     "Sandboxes the pool keeps ready or warming.", get_target, WP_VIEW_TENANT},
    {"warmpool_claims_waiting", "gauge", "Claims that wait for a sandbox now.",
     get_waiting, WP_VIEW_ALL},
    {"warmpool_claims_refused_total", "counter",
     "Claims that got no sandbox: pool empty, wait over, or queue full.",
     get_refused_total, WP_VIEW_ALL},
    {"warmpool_claims_missed_total", "counter",
     "Claims that found no sandbox ready, whatever became of them.",
     get_missed_total, WP_VIEW_ALL},
    {"warmpool_leases_released_total", "counter",
     "Leases ended by their holder.", get_released_total, WP_VIEW_ALL},
    {"warmpool_leases_expired_total", "counter", "Leases that ran out.",
     get_expired_total, WP_VIEW_ALL},
    {"warmpool_leases_undone_total", "counter",
     "Grants taken back because the client had gone before the answer.",
     get_undone_total, WP_VIEW_ALL},
    {"warmpool_sandboxes_created_total", "counter",
     "Sandboxes ordered from the backend.", get_created_total, WP_VIEW_ALL},
    {"warmpool_sandboxes_destroyed_total", "counter",
     "Sandboxes of which nothing is left.", get_destroyed_total, WP_VIEW_ALL},
    {"warmpool_sandboxes_failed_total", "counter",
     "Sandboxes that never became ready.", get_failed_total, WP_VIEW_ALL},
    {"warmpool_sandboxes_lost_total", "counter",
     "Sandboxes that were ready and then stopped answering.", get_lost_total,
     WP_VIEW_ALL},
    {"warmpool_pool_draining", "gauge", "1 when the pool takes no new claims.",
     get_draining, WP_VIEW_TENANT},
    {"warmpool_breaker_open", "gauge",
     "1 while creation is paused because nothing becomes ready.",
     get_breaker_open, WP_VIEW_TENANT},
};

static void
put_pool_families(const struct scrape *sc)
{
    for (size_t f = 0; f < WP_ARRAY_LEN(pool_families); f++) {
        const struct pool_family *family = &pool_families[f];

        if (family->view > sc->view) {
            continue;
        }
        wp_prom_family(sc->out, family->name, family->type, family->help);
        for (uint32_t i = 0; i < sc->n; i++) {
            const struct wp_pool_stats *s = &sc->stats[i];
            struct wp_prom_label labels[] = {
                {"namespace", s->spec.pool_namespace},
                {"pool", s->spec.name},
            };

            wp_prom_sample(sc->out, family->name, labels, 2, family->value(s));
        }
    }
}

static void
put_sandboxes(const struct scrape *sc)
{
    const char *name = "warmpool_sandboxes";

    wp_prom_family(sc->out, name, "gauge",
                   "Sandboxes by state; leased includes lost ones.");
    for (uint32_t i = 0; i < sc->n; i++) {
        const struct wp_pool_stats *s = &sc->stats[i];
        const struct {
            const char *state;
            uint32_t n;
        } rows[] = {
            {"warming", s->warming},
            {"ready", s->ready},
            /* Not for tenants. */
            {"leased", s->leased},
            {"dying", s->dying},
            {"quarantined", s->quarantined},
        };
        size_t n = sc->view == WP_VIEW_ALL ? WP_ARRAY_LEN(rows) : 2;

        for (size_t r = 0; r < n; r++) {
            struct wp_prom_label labels[] = {
                {"namespace", s->spec.pool_namespace},
                {"pool", s->spec.name},
                {"state", rows[r].state},
            };

            wp_prom_sample(sc->out, name, labels, 3, rows[r].n);
        }
    }
}

static void
put_claims(const struct scrape *sc)
{
    const char *name = "warmpool_claims_total";
    const char *const served[] = {NULL, "warm", "queued", "cold"};

    wp_prom_family(sc->out, name, "counter",
                   "Claims granted, by how: warm at once, queued for one "
                   "already in the making, cold by one made for it.");
    for (uint32_t i = 0; i < sc->n; i++) {
        const struct wp_pool_stats *s = &sc->stats[i];

        for (unsigned k = WP_SERVED_WARM; k <= WP_SERVED_COLD; k++) {
            struct wp_prom_label labels[] = {
                {"namespace", s->spec.pool_namespace},
                {"pool", s->spec.name},
                {"served", served[k]},
            };

            wp_prom_sample(sc->out, name, labels, 3,
                           (double)s->served_total[k]);
        }
    }
}

static void
put_histograms(const struct scrape *sc, struct wp_pools *pools)
{
    static const struct {
        const char *name;
        const char *help;
        const struct wp_histogram *(*get)(const struct wp_pools *pools,
                                          uint32_t index);
    } families[] = {
        {"warmpool_claim_wait_seconds",
         "How long claims waited for a sandbox; those served warm "
         "count as 0.",
         wp_pools_claim_latency},
        {"warmpool_lead_time_seconds",
         "From a sandbox's order to its readiness.", wp_pools_lead_time},
    };

    for (size_t f = 0; f < WP_ARRAY_LEN(families); f++) {
        wp_prom_family(sc->out, families[f].name, "histogram",
                       families[f].help);
        for (uint32_t i = 0; i < sc->n; i++) {
            struct wp_prom_label labels[] = {
                {"namespace", sc->stats[i].spec.pool_namespace},
                {"pool", sc->stats[i].spec.name},
            };
            struct wp_histogram_view view;

            wp_histogram_read(families[f].get(pools, sc->stats[i].index),
                              &view);
            wp_prom_histogram(sc->out, families[f].name, labels, 2, &view);
        }
    }
}

/* The names that agent-sandbox's dashboards, HPA and KEDA examples read. */
static void
put_agent_sandbox_claims(const struct scrape *sc)
{
    const char *name = "agent_sandbox_claim_creation_total";

    wp_prom_family(sc->out, name, "counter",
                   "Claims granted, under agent-sandbox's name; queued ones "
                   "count as cold.");
    for (uint32_t i = 0; i < sc->n; i++) {
        const struct wp_pool_stats *s = &sc->stats[i];

        for (int warm = 1; warm >= 0; warm--) {
            struct wp_prom_label labels[] = {
                {"namespace", s->spec.pool_namespace},
                {"sandbox_template", s->spec.template_name},
                {"launch_type", warm != 0 ? "warm" : "cold"},
                {"warmpool_name", s->spec.name},
                {"pod_condition", "ready"},
                {"created_by", "warmpool"},
            };

            wp_prom_sample(sc->out, name, labels, WP_ARRAY_LEN(labels),
                           (double)(warm != 0
                                        ? s->served_total[WP_SERVED_WARM]
                                        : s->served_total[WP_SERVED_QUEUED] +
                                              s->served_total[WP_SERVED_COLD]));
        }
    }
}

static uint32_t
count_ready(const struct wp_pool_stats *s)
{
    return s->ready;
}

static uint32_t
count_warming(const struct wp_pool_stats *s)
{
    return s->warming;
}

static uint32_t
count_leased(const struct wp_pool_stats *s)
{
    return s->leased;
}

static bool
same_template(const struct wp_pool_stats *a, const struct wp_pool_stats *b)
{
    return strcmp(a->spec.pool_namespace, b->spec.pool_namespace) == 0 &&
           strcmp(a->spec.template_name, b->spec.template_name) == 0;
}

/* The labels name a template, not a pool: pools of one template make one sum,
 * told by the first of them. False: pool i is not the first. */
static bool
sum_of_template(const struct scrape *sc, uint32_t i,
                uint32_t (*count)(const struct wp_pool_stats *s), double *sum)
{
    *sum = 0;
    for (uint32_t j = 0; j < sc->n; j++) {
        if (!same_template(&sc->stats[i], &sc->stats[j])) {
            continue;
        }
        if (j < i) {
            return false;
        }
        *sum += count(&sc->stats[j]);
    }
    return true;
}

static void
put_agent_sandboxes(const struct scrape *sc)
{
    static const struct {
        const char *ready;
        const char *owner;
        uint32_t (*count)(const struct wp_pool_stats *s);
    } rows[] = {
        {"true", "SandboxWarmPool", count_ready},
        {"false", "SandboxWarmPool", count_warming},
        {"true", "SandboxClaim", count_leased},
    };
    const char *name = "agent_sandboxes";

    wp_prom_family(sc->out, name, "gauge",
                   "Sandboxes, under agent-sandbox's name.");
    for (uint32_t i = 0; i < sc->n; i++) {
        for (size_t r = 0; r < WP_ARRAY_LEN(rows); r++) {
            struct wp_prom_label labels[] = {
                {"namespace", sc->stats[i].spec.pool_namespace},
                {"ready_condition", rows[r].ready},
                {"expired", "false"},
                {"launch_type", "warm"},
                {"sandbox_template", sc->stats[i].spec.template_name},
                {"owned_by", rows[r].owner},
                {"created_by", "warmpool"},
            };
            double sum;

            if (sum_of_template(sc, i, rows[r].count, &sum)) {
                wp_prom_sample(sc->out, name, labels, WP_ARRAY_LEN(labels),
                               sum);
            }
        }
    }
}

static void
put_agent_warmpool_size(const struct scrape *sc)
{
    const char *name = "agent_sandbox_warmpool_size";

    wp_prom_family(sc->out, name, "gauge",
                   "Idle sandboxes of a pool, under agent-sandbox's name.");
    for (uint32_t i = 0; i < sc->n; i++) {
        const struct wp_pool_stats *s = &sc->stats[i];

        for (int ready = 1; ready >= 0; ready--) {
            struct wp_prom_label labels[] = {
                {"namespace", s->spec.pool_namespace},
                {"warmpool_name", s->spec.name},
                {"sandbox_template", s->spec.template_name},
                {"sandbox_status", ready != 0 ? "ready" : "not_ready"},
            };

            wp_prom_sample(sc->out, name, labels, WP_ARRAY_LEN(labels),
                           ready != 0 ? s->ready : s->warming);
        }
    }
}

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
put_rpc(struct evbuffer *out, const struct wp_rpc_server *rpc)
{
    struct wp_rpc_stats s;

    put_rpc_durations(out, rpc);
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

static void
put_build(struct evbuffer *out, const struct wp_http_metrics *m)
{
    const struct wp_prom_label labels[] = {
        {"version", WP_VERSION},
        {"backend", m->backend},
        {"lease_store", m->lease_store},
    };

    wp_prom_family(out, "warmpool_build_info", "gauge",
                   "1; what runs, in its labels.");
    wp_prom_sample(out, "warmpool_build_info", labels, 3, 1);
}

static void
put_daemon(struct evbuffer *out, const struct wp_http_metrics *m)
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
    if (m->backend_queue != NULL) {
        uint32_t queued = 0;
        uint32_t starting = 0;

        m->backend_queue(m->ctx, &queued, &starting);
        wp_prom_put(out, "warmpool_backend_queued",
                    "Sandboxes waiting for their turn to start.", queued);
        wp_prom_put(out, "warmpool_backend_starting",
                    "Sandboxes started and not ready yet.", starting);
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

/* Of the pools of which there is something to tell; how many. */
static uint32_t
fill_stats(struct wp_pools *pools, uint32_t n, enum wp_view view,
           struct wp_pool_stats *out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < n; i++) {
        wp_pools_stats(pools, i, &out[count]);
        if (view == WP_VIEW_TENANT) {
            wp_view_of_tenant(&out[count]);
        }
        count += out[count].gone ? 0 : 1;
    }
    return count;
}

/* What only WP_VIEW_ALL shows. */
static void
put_all(const struct scrape *sc, const struct wp_http_metrics *m)
{
    put_daemon(sc->out, m);
    put_claims(sc);
    put_histograms(sc, m->pools);
    wp_scale_metrics(sc->out, m->pools, sc->stats, sc->n);
    wp_tenant_metrics(sc->out, m->pools);
    if (m->not_ready == NULL) {
        put_agent_sandbox_claims(sc);
        put_agent_sandboxes(sc);
    }
    if (m->store != NULL) {
        put_store(sc->out, m->store);
    }
    if (m->store_more != NULL) {
        m->store_more(m->ctx, sc->out);
    }
    if (m->rpc != NULL) {
        put_rpc(sc->out, m->rpc);
    }
    if (m->http != NULL) {
        put_http(sc->out, m->http);
    }
    put_process(sc->out);
}

unsigned
wp_http_metrics_page(void *ctx, enum wp_view view, struct evbuffer *body,
                     const char **content_type)
{
    struct wp_http_metrics *m = ctx;
    struct scrape sc = {
        .out = body,
        .n = wp_pools_count(m->pools),
        .view = view,
    };

    sc.stats = calloc(sc.n + 1, sizeof *sc.stats);
    if (sc.stats == NULL) {
        (void)evbuffer_add_printf(body, "no memory\n");
        return 503;
    }
    sc.n = fill_stats(m->pools, sc.n, view, sc.stats);
    *content_type = WP_PROM_CONTENT_TYPE;
    put_build(body, m);
    put_sandboxes(&sc);
    put_pool_families(&sc);
    put_agent_warmpool_size(&sc);
    if (view == WP_VIEW_ALL) {
        put_all(&sc, m);
    }
    free(sc.stats);
    return 200;
}

unsigned
wp_http_health_page(void *ctx, enum wp_view view, struct evbuffer *body,
                    const char **content_type)
{
    (void)ctx;
    (void)view;
    (void)content_type;
    (void)evbuffer_add_printf(body, "ok\n");
    return 200;
}

/* Why the pool cannot serve, or NULL. */
static const char *
why_not(const struct wp_http_metrics *m, const struct wp_pool_stats *s)
{
    struct wp_histogram_view view;

    if (s->spec.target == 0 || s->ready > 0 || s->draining) {
        return NULL;
    }
    if (m->keeper != NULL &&
        !atomic_load_explicit(m->keeper, memory_order_relaxed)) {
        return m->keepers != NULL && m->keepers(m->ctx) == 0
                   ? "no sandbox is ready, and no daemon that makes them is "
                     "heard"
                   : NULL;
    }
    if (s->breaker_open) {
        return "creation is paused because nothing becomes ready";
    }
    wp_histogram_read(wp_pools_lead_time(m->pools, s->index), &view);
    return view.count == 0 ? "no sandbox has become ready yet" : NULL;
}

unsigned
wp_http_ready_page(void *ctx, enum wp_view view, struct evbuffer *body,
                   const char **content_type)
{
    struct wp_http_metrics *m = ctx;
    bool ready = true;

    (void)view;
    (void)content_type;
    if (!atomic_load_explicit(&m->serving, memory_order_acquire)) {
        (void)evbuffer_add_printf(body, "not ready: the daemon is starting or "
                                        "draining\n");
        return 503;
    }
    if (m->store != NULL && !wp_lease_meter_may_work(m->store)) {
        (void)evbuffer_add_printf(body, "not ready: the lease store is out of "
                                        "reach or cannot write\n");
        ready = false;
    }
    if (m->rpc != NULL && !wp_rpc_server_accepts(m->rpc)) {
        (void)evbuffer_add_printf(body, "not ready: no connection can be "
                                        "accepted for want of descriptors\n");
        ready = false;
    }
    if (m->not_ready != NULL) {
        const char *why = m->not_ready(m->ctx);

        if (why != NULL) {
            (void)evbuffer_add_printf(body, "not ready: %s\n", why);
            ready = false;
        }
    }
    if (wp_pools_holds_unseen(m->pools)) {
        (void)evbuffer_add_printf(body,
                                  "not ready: which of the sandboxes live "
                                  "that an earlier daemon left is being "
                                  "found out\n");
        ready = false;
    }
    for (uint32_t i = 0; m->not_ready == NULL && i < wp_pools_count(m->pools);
         i++) {
        struct wp_pool_stats s;
        const char *why;

        wp_pools_stats(m->pools, i, &s);
        why = why_not(m, &s);
        if (why != NULL) {
            (void)evbuffer_add_printf(
                body, "not ready: pool %s/%s: %s (%u being made)%s%s\n",
                s.spec.pool_namespace, s.spec.name, why, s.warming,
                s.last_failure[0] != '\0' ? "; last failure: " : "",
                s.last_failure);
            ready = false;
        }
    }
    if (ready) {
        (void)evbuffer_add_printf(body, "ready\n");
    }
    return ready ? 200 : 503;
}
