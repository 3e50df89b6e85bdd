/* allocator/http/trigger.h - triggers: a sandbox for each thing that happens.
 *
 * POST /api/v1/sandbox/trigger, as kagenti's schedulers send it
 * (trigger_request.h). In a cluster it has a SandboxClaim made. On one machine
 * it claims a sandbox from a pool of the template, which has what the trigger
 * says as variables ("TRIGGER_SKILL") where it can be bound. The answer is
 *
 *   {"sandbox_claim": NAME, "namespace": NAMESPACE}
 *
 * and errors are {"error": "What: why"}. A client that leaves before the answer
 * gets no lease. All functions are the loop thread's, unless they say
 * otherwise. */
#ifndef WP_ALLOCATOR_HTTP_TRIGGER_H
#define WP_ALLOCATOR_HTTP_TRIGGER_H

#include "allocator/http/trigger_request.h"
#include "pool/pool.h"
#include "proto/formats/http_server.h"
#include "proto/loop/loop.h"

#define WP_TRIGGER_PATH "/api/v1/sandbox/trigger"

struct wp_triggers; /* Opaque. */

/* What a cluster is asked for. The trigger's until done. */
struct wp_trigger_order {
    /* Request. */
    const char *ns;
    const char *name; /* Of the claim. */
    const char *template_name;
    const struct wp_trigger *trigger;
    const char *traceparent; /* Of who triggers; "": none. */
    void (*done)(struct wp_trigger_order *order); /* Any thread. */

    /* Answer. ALREADY_EXISTS: another claim has the name. */
    enum wp_status status;
    char reason[256];
    int64_t retry_after_ns; /* 0: not said. */
};

/* Borrowed, with all it points to, until destroy. */
struct wp_triggers_config {
    struct wp_loop *loop;
    struct wp_pools *pools;
    /* "NAMESPACE/NAME"; the namespace is that of triggers that name none. "":
     * triggers are off. */
    const char *template_name;
    const char *secret; /* Webhooks are signed with it; "": they need not. */
    int64_t wait_ns;    /* For a sandbox, at most. */
    uint32_t calls_max;
    /* Has a SandboxClaim made; false: not now. NULL: pools are claimed from. */
    bool (*make)(void *ctx, struct wp_trigger_order *order);
    void *ctx;
};

/* NULL and err on no memory. */
struct wp_triggers *wp_triggers_create(const struct wp_triggers_config *config,
                                       struct wp_err *err);
/* The ops of a request for WP_TRIGGER_PATH, or NULL: it was answered. A claim
 * from a pool is the tenant's; "": of none. */
const struct wp_http_ops *wp_triggers_open(struct wp_triggers *triggers,
                                           struct wp_http_req *req,
                                           const char *tenant);
/* After the server's end, so that no request is left: waits until all have
 * answered, then frees. Any thread but the loop's, while they still answer.
 * NULL is fine. */
void wp_triggers_destroy(struct wp_triggers *triggers);

#endif
