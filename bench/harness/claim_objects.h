/* bench/harness/claim_objects.h - an API server whose SandboxClaims are the load.
 *
 * A client in an event loop of its own, and what is asked of it beside the load:
 * the pool, and what is left at the end. Questions wait for their answers, until
 * a signal is there to be taken. One thread at a time; the load has a client of
 * its own (lane_objects.c). */
#ifndef WP_BENCH_HARNESS_CLAIM_OBJECTS_H
#define WP_BENCH_HARNESS_CLAIM_OBJECTS_H

#include "bench/harness/plan.h"
#include "k8s/api/api.h"
#include "k8s/api/api_config.h"
#include "pool/pool.h"

struct event_base;
struct wp_leftovers;

/* On all claims of a program; its value is the program's tag. */
#define WP_CLAIM_OBJECTS_LABEL "warmpool.dev/load"

enum {
    WP_CLAIM_OBJECTS_SELECTOR_MAX = 48,
    WP_CLAIM_OBJECTS_PAGE = 250, /* Of a list: a page has 4 MiB at most. */
};

struct wp_claim_objects {
    struct event_base *base;
    struct wp_http *http;
    struct wp_api *api;
};

/* server is borrowed until close. Nobody is asked yet. Not WP_OK: close undoes
 * what was done. */
enum wp_status wp_claim_objects_open(struct wp_claim_objects *objects,
                                     const struct wp_api_config *server,
                                     const struct wp_plan *plan,
                                     struct wp_err *err);
/* Calls under way end with CANCELLED. A zeroed one is fine. */
void wp_claim_objects_close(struct wp_claim_objects *objects);

/* "warmpool.dev/load=0123abcd" */
void wp_claim_objects_selector(uint32_t tag,
                               char out[WP_CLAIM_OBJECTS_SELECTOR_MAX]);

/* The SandboxWarmPool's size, and how many are ready, by its status. */
WP_MUST_CHECK bool wp_claim_objects_pool(struct wp_claim_objects *objects,
                                         const struct wp_plan *plan,
                                         struct wp_pool_stats *out,
                                         struct wp_err *err);
enum wp_status wp_claim_objects_resize(struct wp_claim_objects *objects,
                                       const struct wp_plan *plan,
                                       uint32_t size, struct wp_err *err);
/* Deletes the program's claims that are left, and waits until all that was
 * theirs goes: six times the plan's timeout at most. */
void wp_claim_objects_settle(struct wp_claim_objects *objects,
                             const struct wp_plan *plan, uint32_t tag,
                             struct wp_leftovers *out);

#endif
