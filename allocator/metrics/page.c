#include "allocator/metrics/page.h"

#include <event2/buffer.h>
#include <stdlib.h>

#include "allocator/metrics/daemon_metrics.h"
#include "allocator/metrics/pool_metrics.h"
#include "allocator/metrics/prometheus.h"
#include "allocator/metrics/scale_metrics.h"
#include "allocator/metrics/tenant_metrics.h"

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
put_all(const struct wp_pool_scrape *sc, const struct wp_http_metrics *m)
{
    wp_daemon_metrics(sc->out, m);
    wp_pool_metrics_claims(sc, m->pools);
    wp_scale_metrics(sc->out, m->pools, sc->stats, sc->n);
    wp_tenant_metrics(sc->out, m->pools);
    if (m->not_ready == NULL) {
        wp_pool_metrics_agent(sc);
    }
    wp_daemon_metrics_parts(sc->out, m);
}

unsigned
wp_http_metrics_page(void *ctx, enum wp_view view, struct evbuffer *body,
                     const char **content_type)
{
    struct wp_http_metrics *m = ctx;
    struct wp_pool_scrape sc = {
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
    wp_pool_metrics(&sc);
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
