/* Who leads, and what that begins and ends. */
#include "k8s/cluster/cluster_impl.h"

#include <stdio.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/log.h"

#define LEASES "/apis/coordination.k8s.io/"
#define LOG_AGAIN_NS (60 * WP_NS_PER_S)

/* What goes on from winning the election to serving:
 *
 *   elected, all watches synced -> is a competitor active? -> the backend tells
 *   the core of what is there -> the core's keeper is this one -> controllers
 *
 * Losing it ends that at whichever step it is; so does a server that went back
 * in time, until every kind was listed anew. */

/* A SandboxClaim that somebody asked this replica for: nobody else makes it. */
static bool
makes_claim(const char *method, const char *path)
{
    const char *last = strrchr(path, '/');

    return strcmp(method, "POST") == 0 && last != NULL &&
           strcmp(last, "/sandboxclaims") == 0;
}

/* By the clock, not by what controllers were told: this process may have stood
 * still while another began, and goes on with what it had queued. Reads may
 * always go, and so may the election's own writes and new claims. What was
 * queued for a pool may be wanted no more either. */
bool
wp_cluster_may_send(void *ctx, const char *method, const char *path,
                    enum wp_http_priority priority)
{
    const struct wp_cluster *cluster = ctx;

    if (!wp_cluster_backend_may_send(cluster->backend, method, path,
                                     priority)) {
        return false;
    }
    return cluster->election == NULL || strcmp(method, "GET") == 0 ||
           strncmp(path, LEASES, sizeof LEASES - 1) == 0 ||
           makes_claim(method, path) || wp_election_leads(cluster->election);
}

void
wp_cluster_rest_controllers(struct wp_cluster *cluster)
{
    for (uint32_t i = 0; cluster->active && i < cluster->controllers_len; i++) {
        cluster->ops[i]->deactivate(cluster->controllers[i]);
    }
    cluster->active = false;
}

void
wp_cluster_deactivate(struct wp_cluster *cluster)
{
    bool served = cluster->serving;

    cluster->parts.active = false;
    cluster->serving = false;
    wp_competitor_stop(cluster->competitor);
    cluster->competitor = NULL;
    if (!cluster->activating && !served) {
        return;
    }
    cluster->activating = false;
    if (cluster->election != NULL) {
        wp_election_serving(cluster->election, false);
    }
    wp_cluster_rest_controllers(cluster);
    wp_cluster_backend_deactivate(cluster->backend);
    atomic_store_explicit(&cluster->leads, false, memory_order_release);
    if (served && cluster->parts.core.on_leading != NULL) {
        cluster->parts.core.on_leading(cluster->parts.core.ctx, false);
    }
}

/* The core has been told of every sandbox. */
static void
on_backend_ready(void *ctx)
{
    struct wp_cluster *cluster = ctx;
    struct wp_cluster_core *core = &cluster->parts.core;

    cluster->activating = false;
    cluster->serving = true;
    atomic_store_explicit(&cluster->leads, true, memory_order_release);
    wp_log_info("serving as the leader");
    if (cluster->election != NULL) {
        wp_election_serving(cluster->election, true);
    }
    if (core->on_leading != NULL) {
        core->on_leading(core->ctx, true);
    }
    cluster->active = !cluster->quiet;
    for (uint32_t i = 0; cluster->active && i < cluster->controllers_len; i++) {
        cluster->ops[i]->activate(cluster->controllers[i]);
    }
}

static void
on_competitor(void *ctx, const char *conflict)
{
    struct wp_cluster *cluster = ctx;

    if (conflict != NULL) {
        wp_cluster_give_up(cluster, "%s", conflict);
        wp_competitor_stop(cluster->competitor);
        cluster->competitor = NULL;
    } else if (!cluster->parts.active) {
        cluster->parts.active = true;
        wp_cluster_backend_activate(cluster->backend, on_backend_ready,
                                    cluster);
    }
}

void
wp_cluster_try_activate(struct wp_cluster *cluster)
{
    const struct wp_parts *parts = &cluster->parts;
    uint32_t controllers = parts->config.controllers;

    if (!cluster->elected || cluster->quiet || cluster->fatal ||
        cluster->activating || cluster->serving ||
        !wp_cluster_synced(cluster) || !wp_cluster_renewed(cluster)) {
        return;
    }
    cluster->activating = true;
    cluster->competitor = wp_competitor_start(
        &(struct wp_competitor_config){
            .base = parts->base,
            .clock = parts->clock,
            .api = parts->api,
            .ns = parts->config.election_ns,
            .name = parts->config.election_name,
            .scope = cluster->election != NULL ? cluster->scope : NULL,
            .pools = (controllers & ~(uint32_t)WP_CONTROLLER_SANDBOX) != 0,
            .sandboxes = (controllers & WP_CONTROLLER_SANDBOX) != 0,
        },
        on_competitor, cluster);
    WP_ASSERT(cluster->competitor != NULL);
}

static void
on_leading(void *ctx)
{
    struct wp_cluster *cluster = ctx;

    cluster->elected = true;
    cluster->has_led = true;
    wp_cluster_try_activate(cluster);
}

static void
on_following(void *ctx, const char *leader)
{
    struct wp_cluster *cluster = ctx;

    (void)leader;
    cluster->elected = false;
    wp_cluster_deactivate(cluster);
    wp_http_ask_again(cluster->http);
}

void
wp_cluster_check_lease(struct wp_cluster *cluster)
{
    const struct wp_parts *parts = &cluster->parts;
    bool refused =
        cluster->election != NULL && wp_election_refused(cluster->election);
    int64_t now_ns = wp_clock_mono_ns(parts->clock);

    /* Who has led serves on as it is: claims over gRPC need no leader. */
    atomic_store_explicit(&cluster->refused, refused && !cluster->has_led,
                          memory_order_relaxed);
    if (!refused) {
        cluster->refused_logged_ns = 0;
    } else if (cluster->refused_logged_ns == 0 ||
               now_ns - cluster->refused_logged_ns >= LOG_AGAIN_NS) {
        cluster->refused_logged_ns = now_ns;
        wp_log_error("the API server does not let this account lead: give it "
                     "the roles of its manifests",
                     wp_kv_str("resource", "leases.coordination.k8s.io"),
                     wp_kv_str("namespace", parts->config.election_ns),
                     wp_kv_str("name", parts->config.election_name));
    }
}

/* What this installation serves, as k8s/lead/scope.h has it. */
static void
write_scope(const char *watch_ns, uint32_t controllers, char *out, size_t cap)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {
        {WP_CONTROLLER_POOL, "pool"},
        {WP_CONTROLLER_CLAIM, "claim"},
        {WP_CONTROLLER_TEMPLATE, "template"},
        {WP_CONTROLLER_SANDBOX, "sandbox"},
    };
    int len = snprintf(out, cap, "%s ", watch_ns != NULL ? watch_ns : "*");

    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        if ((controllers & names[i].bit) != 0 && len > 0 && (size_t)len < cap) {
            len += snprintf(out + len, cap - (size_t)len, "%s%s",
                            out[len - 1] == ' ' ? "" : ",", names[i].name);
        }
    }
}

enum wp_status
wp_cluster_start_leading(struct wp_cluster *cluster, struct wp_err *err)
{
    const struct wp_parts *parts = &cluster->parts;

    if (!parts->config.election) {
        cluster->elected = true;
        return WP_OK;
    }
    write_scope(parts->config.watch_ns, parts->config.controllers,
                cluster->scope, sizeof cluster->scope);
    cluster->election = wp_election_start(&(struct wp_election_config){
        .base = parts->base,
        .clock = parts->clock,
        .api = parts->api,
        .ns = parts->config.election_ns,
        .name = parts->config.election_name,
        .identity = parts->config.identity,
        .scope = cluster->scope,
        .seed = parts->seed,
        .on_leading = on_leading,
        .on_following = on_following,
        .ctx = cluster,
    });
    return cluster->election != NULL
               ? WP_OK
               : wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
}

void
wp_cluster_give_lease_up(struct wp_cluster *cluster, void (*done)(void *ctx),
                         void *ctx)
{
    if (cluster->election == NULL) {
        done(ctx);
        return;
    }
    wp_election_release(cluster->election, done, ctx);
}
