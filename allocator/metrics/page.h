/* allocator/metrics/page.h - the pages /metrics, /healthz and /readyz. */
#ifndef WP_ALLOCATOR_METRICS_PAGE_H
#define WP_ALLOCATOR_METRICS_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

#include "allocator/threads/control.h"
#include "allocator/http/gateway.h"
#include "allocator/stores/meter.h"
#include "allocator/grpc/server.h"
#include "pool/pool.h"

/* Of what makes sandboxes on one machine. */
struct wp_machine_numbers {
    uint32_t queued;   /* Waiting for their turn to start. */
    uint32_t starting; /* Not ready. */
    uint32_t frozen;
    uint64_t frozen_total;
};

/* Where the numbers come from. All borrowed. */
struct wp_http_metrics {
    struct wp_pools *pools;
    const struct wp_control *control;   /* NULL: left out. */
    const struct wp_rpc_server *rpc;    /* NULL: left out. */
    const struct wp_gateway *http;      /* NULL: left out. */
    const char *backend;                /* Its name. */
    const char *lease_store;            /* Its name. */
    const struct wp_lease_meter *store; /* NULL: left out. */
    const struct wp_tracer *tracer;     /* NULL: left out. */
    /* Adds what only this store can tell. NULL: nothing. */
    void (*store_more)(void *ctx, struct evbuffer *out);
    /* Of one machine's sandboxes. NULL: left out. Any thread. */
    void (*machine)(void *ctx, struct wp_machine_numbers *out);
    /* Claim streams: open, broken and not given up, and leases ahead on both.
     * NULL: left out. Any thread. */
    void (*streams)(void *ctx, uint32_t *open, uint32_t *broken,
                    uint32_t *ahead);
    void *ctx;
    /* Set once everything serves, cleared when draining begins. */
    _Atomic(bool) serving;
    /* This daemon makes the sandboxes; another's pools are not judged. NULL:
     * it does. */
    const _Atomic(bool) *keeper;
    /* Daemons that make the sandboxes of these pools, as far as was heard
     * lately, this one among them. NULL: this one alone. Any thread. */
    uint32_t (*keepers)(void *ctx);
    /* Where pools are a cluster's objects, they are not judged, and upstream's
     * names are left to store_more, which counts objects; but this is asked:
     * why is the daemon not ready? NULL: it is. No function: there is no
     * cluster. Any thread. */
    const char *(*not_ready)(void *ctx);
};

/* Pages for wp_gateway_config; ctx is a struct wp_http_metrics. A tenant sees
 * of each pool its target, what is ready and warming, and whether it takes
 * claims; nothing of the daemon but its version. Probes are for everybody. */
unsigned wp_http_metrics_page(void *ctx, enum wp_view view,
                              struct evbuffer *body, const char **content_type);
/* "ok" while the loop runs. */
unsigned wp_http_health_page(void *ctx, enum wp_view view,
                             struct evbuffer *body, const char **content_type);
/* 200 when every pool that is to hold sandboxes can serve; else 503 and a line
 * for each reason. A pool that is only empty because it is in demand is ready:
 * its claims wait for what is being made. Where another daemon makes the
 * sandboxes, an empty pool is ready while that one is heard. While the lease
 * store was out of reach at its last answer, for at most 10 s since, nothing is
 * ready; after that a claim may try. */
unsigned wp_http_ready_page(void *ctx, enum wp_view view, struct evbuffer *body,
                            const char **content_type);

#endif
