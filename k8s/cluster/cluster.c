#include "k8s/cluster/cluster.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "k8s/bind/repositories.h"
#include "k8s/cluster/cluster_impl.h"
#include "k8s/controllers/verdicts.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"

enum {
    MESSAGES_MAX = 16384,
    TICK_MS = 1000,
    LEAVING_TICK_MS = 5,
};

void
wp_cluster_config_init(struct wp_cluster_config *config)
{
    *config = (struct wp_cluster_config){
        .clock = wp_clock_system(),
        .controllers = WP_CONTROLLERS_ALL,
        .election_name = "warmpool-controller",
        .election = true,
        .cluster_domain = "cluster.local",
        .sandbox_port = 8888,
        .cold_grace_ns = 2 * WP_NS_PER_S,
        .cold_start = true,
        .ready_grace_ns = 300 * WP_NS_PER_S,
        .watch_silence_ns = 90 * WP_NS_PER_S,
        .create_inflight_max = 300,
        .implicit_pool_idle_ns = 600 * WP_NS_PER_S,
        .implicit_pools_max = 64,
        .sandboxes_max = 4096,
        .claim_events = true,
        .observability_annotations = true,
        .warm_pool_eviction = true,
        .git = {.remotes = "",
                .remotes_denied = "",
                .fetch_socket = "",
                .trust_files = ""},
    };
}

/* --- The thread --- */

static bool
post(void *self, void (*run)(void *arg, uint64_t a, uint64_t b), void *arg,
     uint64_t a, uint64_t b)
{
    struct wp_cluster *cluster = self;

    return wp_loop_post(cluster->loop, run, arg, a, b);
}

void
wp_cluster_give_up(struct wp_cluster *cluster, const char *fmt, ...)
{
    char reason[1024];
    va_list args;

    if (cluster->fatal || cluster->stopping) {
        return;
    }
    cluster->fatal = true;
    va_start(args, fmt);
    (void)vsnprintf(reason, sizeof reason, fmt, args);
    va_end(args);
    wp_log_error("cannot go on", wp_kv_str("reason", reason));
    if (cluster->parts.core.on_fatal != NULL) {
        cluster->parts.core.on_fatal(cluster->parts.core.ctx, reason);
    }
}

static void
set_tick(struct wp_cluster *cluster, int64_t ms)
{
    const struct timeval period = wp_timeval(ms * WP_NS_PER_MS);

    WP_ASSERT(event_add(cluster->tick, &period) == 0);
}

static void
on_released(void *ctx)
{
    struct wp_cluster *cluster = ctx;

    (void)event_base_loopbreak(cluster->parts.base);
}

/* What is under way may end, as long as there is time. */
static bool
is_quiet(const struct wp_cluster *cluster)
{
    struct wp_http_stats stats;
    uint64_t rest;

    wp_http_stats(cluster->http, &stats);
    rest = stats.inflight;
    for (size_t i = 0; i < WP_HTTP_PRIORITIES; i++) {
        rest += stats.queued[i];
    }
    return rest == 0;
}

static void
on_tick(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_cluster *cluster = ctx;

    (void)fd;
    (void)what;
    if (!cluster->stopping) {
        wp_cluster_check_lease(cluster);
        wp_cluster_note_stats(cluster);
        wp_cluster_check_watches(cluster);
    } else if (!cluster->parting &&
               (is_quiet(cluster) || wp_clock_mono_ns(cluster->parts.clock) >=
                                         cluster->quiet_by_ns)) {
        cluster->parting = true;
        wp_cluster_give_lease_up(cluster, on_released, cluster);
    }
}

/* Cluster thread. */
static void
begin_stop(void *arg)
{
    struct wp_cluster *cluster = arg;

    cluster->stopping = true;
    cluster->quiet = true;
    /* Of the time half is for what is under way; giving the lease up takes 2 s
     * at most. */
    cluster->quiet_by_ns =
        wp_clock_mono_ns(cluster->parts.clock) + cluster->stop_within_ns / 2;
    wp_cluster_deactivate(cluster);
    set_tick(cluster, LEAVING_TICK_MS);
}

/* --- Making it --- */

static enum wp_status
make_loop(struct wp_cluster *cluster, struct wp_err *err)
{
    struct wp_parts *parts = &cluster->parts;

    cluster->loop = wp_loop_create("cluster", MESSAGES_MAX, err);
    if (cluster->loop == NULL) {
        return err->status;
    }
    parts->base = wp_loop_base(cluster->loop);
    cluster->tick = event_new(parts->base, -1, EV_PERSIST, on_tick, cluster);
    if (cluster->tick == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "libevent refused the cluster's loop");
    }
    set_tick(cluster, TICK_MS);
    return WP_OK;
}

static enum wp_status
make_client(struct wp_cluster *cluster, struct wp_err *err)
{
    struct wp_parts *parts = &cluster->parts;
    struct wp_http_config http;

    wp_http_config_init(&http);
    http.base = parts->base;
    http.clock = parts->clock;
    http.server = parts->config.server;
    http.qps = parts->config.qps;
    http.burst = parts->config.burst;
    http.may_send = wp_cluster_may_send;
    http.ctx = cluster;
    cluster->http = wp_http_create(&http, err);
    if (cluster->http == NULL) {
        return err->status;
    }
    parts->api = wp_api_create(cluster->http);
    if (parts->api != NULL) {
        parts->events = wp_events_create(&(struct wp_events_config){
            .base = parts->base,
            .clock = parts->clock,
            .api = parts->api,
            .instance = parts->config.identity,
            .off = !parts->config.claim_events,
        });
    }
    return parts->events != NULL
               ? WP_OK
               : wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
}

static enum wp_status
make_parts(struct wp_cluster *cluster, struct wp_err *err)
{
    enum wp_status status = make_loop(cluster, err);

    if (status == WP_OK) {
        status = make_client(cluster, err);
    }
    if (status == WP_OK) {
        status = wp_cluster_make_stores(cluster, err);
    }
    if (status == WP_OK) {
        cluster->counts = wp_sandbox_counts_create(
            cluster->parts.stores[WP_KIND_SANDBOX], &cluster->parts.active);
        cluster->routes =
            wp_sandbox_routes_create(cluster->parts.stores[WP_KIND_SANDBOX]);
        status = cluster->counts != NULL && cluster->routes != NULL
                     ? WP_OK
                     : wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    if (status == WP_OK) {
        cluster->parts.repositories = wp_repositories_create(
            &(struct wp_repositories_config){
                .git = &cluster->parts.config.git,
                .base = cluster->parts.base,
                .api = cluster->parts.api,
                .ns = cluster->parts.config.election_ns,
            },
            err);
        status = cluster->parts.repositories != NULL ? WP_OK : err->status;
    }
    if (status == WP_OK) {
        cluster->backend = wp_cluster_backend_create(&cluster->parts, err);
        status = cluster->backend != NULL ? WP_OK : err->status;
    }
    return status;
}

struct wp_cluster *
wp_cluster_create(const struct wp_cluster_config *config, struct wp_err *err)
{
    struct wp_cluster *cluster =
        aligned_alloc(_Alignof(struct wp_cluster), sizeof *cluster);
    struct wp_parts *parts;

    if (cluster == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    memset(cluster, 0, sizeof *cluster);
    (void)pthread_mutex_init(&cluster->stats_lock, NULL);
    parts = &cluster->parts;
    parts->config = *config;
    if (parts->config.election_ns == NULL) {
        parts->config.election_ns = config->server->own_namespace;
    }
    parts->clock = config->clock;
    cluster->renewals.clock = config->clock;
    parts->renewals = &cluster->renewals;
    parts->post = post;
    parts->self = cluster;
    wp_random_bytes(&parts->seed, sizeof parts->seed);
    if (make_parts(cluster, err) != WP_OK) {
        wp_cluster_destroy(cluster);
        return NULL;
    }
    return cluster;
}

/* Some are there by a setting of their own. */
static bool
is_wanted(const struct wp_cluster_config *config,
          const struct wp_controller_ops *ops)
{
    return (ops != &wp_webhook_controller_ops || config->webhook != NULL) &&
           (ops != &wp_identity_controller_ops || config->identities != NULL);
}

static enum wp_status
make_controllers(struct wp_cluster *cluster, struct wp_err *err)
{
    static const struct {
        uint32_t bit;
        const struct wp_controller_ops *ops;
    } all[] = {
        {WP_CONTROLLER_POOL, &wp_pool_controller_ops},
        {WP_CONTROLLER_CLAIM, &wp_claim_controller_ops},
        {WP_CONTROLLER_TEMPLATE, &wp_template_controller_ops},
        {WP_CONTROLLER_SANDBOX, &wp_sandbox_controller_ops},
        {WP_CONTROLLERS_ALL, &wp_webhook_controller_ops},
        {WP_CONTROLLERS_ALL, &wp_identity_controller_ops},
    };
    uint32_t chosen = cluster->parts.config.controllers;
    const uint32_t checks = WP_CONTROLLER_TEMPLATE | WP_CONTROLLER_SANDBOX;

    /* Who makes no Pods need not have the right to ask about them. */
    if ((chosen & checks) == checks) {
        cluster->parts.verdicts = wp_verdicts_create();
        if (cluster->parts.verdicts == NULL) {
            return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        }
    }

    if ((chosen & (WP_CONTROLLER_POOL | WP_CONTROLLER_CLAIM)) != 0) {
        cluster->pool_sync =
            wp_pool_sync_create(&cluster->parts, cluster->backend, err);
        if (cluster->pool_sync == NULL) {
            return err->status;
        }
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        uint32_t n = cluster->controllers_len;

        if ((chosen & all[i].bit) == 0 ||
            !is_wanted(&cluster->parts.config, all[i].ops)) {
            continue;
        }
        cluster->ops[n] = all[i].ops;
        cluster->controllers[n] = all[i].ops->create(&cluster->parts, err);
        if (cluster->controllers[n] == NULL) {
            return err->status;
        }
        cluster->controllers_len++;
    }
    return WP_OK;
}

enum wp_status
wp_cluster_start(struct wp_cluster *cluster, const struct wp_cluster_core *core,
                 struct wp_err *err)
{
    enum wp_status status;

    WP_ASSERT(!cluster->started);
    cluster->parts.core = *core;
    status = make_controllers(cluster, err);
    if (status == WP_OK) {
        status = wp_cluster_start_watches(cluster, err);
    }
    if (status == WP_OK) {
        status = wp_cluster_start_leading(cluster, err);
    }
    if (status == WP_OK) {
        status = wp_loop_start(cluster->loop, err);
    }
    cluster->started = status == WP_OK;
    return status;
}

bool
wp_cluster_synced(const struct wp_cluster *cluster)
{
    return atomic_load_explicit(&cluster->synced, memory_order_acquire);
}

bool
wp_cluster_leads(const struct wp_cluster *cluster)
{
    return atomic_load_explicit(&cluster->leads, memory_order_acquire);
}

bool
wp_cluster_refused(const struct wp_cluster *cluster)
{
    return atomic_load_explicit(&cluster->refused, memory_order_relaxed);
}

bool
wp_cluster_find_sandbox(const struct wp_cluster *cluster, struct wp_str ns,
                        struct wp_str name, char out[WP_ENDPOINT_MAX + 1])
{
    return wp_sandbox_routes_find(cluster->routes, ns, name,
                                  cluster->parts.config.sandbox_port, out);
}

struct wp_backend
wp_cluster_backend(struct wp_cluster *cluster)
{
    return wp_cluster_backend_port(cluster->backend);
}

/* --- Ending it --- */

/* Cluster thread. */
static void
be_quiet(void *arg)
{
    struct wp_cluster *cluster = arg;

    cluster->quiet = true;
    wp_cluster_rest_controllers(cluster);
}

void
wp_cluster_quiet(struct wp_cluster *cluster)
{
    WP_ASSERT(cluster->started);
    wp_loop_call(cluster->loop, be_quiet, cluster);
}

void
wp_cluster_stop(struct wp_cluster *cluster, int64_t timeout_ns)
{
    if (cluster == NULL || !cluster->started) {
        return;
    }
    cluster->stop_within_ns = timeout_ns;
    wp_loop_call(cluster->loop, begin_stop, cluster);
    wp_loop_join(cluster->loop);
    cluster->started = false;
}

void
wp_cluster_destroy(struct wp_cluster *cluster)
{
    struct wp_parts *parts;

    if (cluster == NULL) {
        return;
    }
    parts = &cluster->parts;
    wp_cluster_stop(cluster, 0);
    wp_competitor_stop(cluster->competitor);
    wp_election_stop(cluster->election);
    wp_cluster_stop_watches(cluster);
    wp_http_destroy(cluster->http);
    for (uint32_t i = 0; i < cluster->controllers_len; i++) {
        cluster->ops[i]->destroy(cluster->controllers[i]);
    }
    wp_pool_sync_destroy(cluster->pool_sync);
    wp_cluster_backend_destroy(cluster->backend);
    wp_repositories_destroy(parts->repositories);
    wp_verdicts_destroy(parts->verdicts);
    wp_events_destroy(parts->events);
    wp_api_destroy(parts->api);
    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        wp_store_destroy(parts->stores[i]);
    }
    wp_sandbox_counts_destroy(cluster->counts);
    wp_sandbox_routes_destroy(cluster->routes);
    if (cluster->tick != NULL) {
        event_free(cluster->tick);
    }
    wp_loop_destroy(cluster->loop);
    (void)pthread_mutex_destroy(&cluster->stats_lock);
    free(cluster);
}
