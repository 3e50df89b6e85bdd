/* tests/chaos/worker.h - one of a chaos client's many workers: it claims,
 * checks what it is given, renews, asks, repeats, releases or vanishes, and
 * begins again. It never blocks: a step begins calls, and their ends wake it.
 */
#ifndef WP_TESTS_CHAOS_WORKER_H
#define WP_TESTS_CHAOS_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/rng.h"
#include "tests/chaos/link.h"
#include "tests/chaos/marks.h"

/* What the workers of a process share. */
struct wp_client {
    struct wp_link *link;
    struct wp_marks *marks;
    struct wp_rng rng;
    const char *pool;
    uint64_t number;  /* Of this client, in its run. */
    uint64_t counter; /* Of its claims. */
    uint64_t granted;
    int64_t next_step_ns; /* No worker wants to be woken before. */
    unsigned n_stopped;
    bool stopping; /* A worker that has finished what it was at stops. */
    unsigned
        look_back; /* Claims of a hundred that are asked for again later. */
};

enum wp_worker_phase {
    WP_WORKER_IDLE,
    WP_WORKER_CLAIMING,
    WP_WORKER_HOLDING,
    WP_WORKER_RELEASING,
    WP_WORKER_LOOKING_BACK,
    WP_WORKER_STOPPED,
};

struct wp_worker {
    struct wp_client *client;
    enum wp_worker_phase phase;
    unsigned calls_out; /* Nothing happens until they have ended. */
    int64_t wake_ns;

    /* The claim. */
    uint64_t claim;
    char id[40];
    int64_t ttl_ms;
    int64_t wait_ms;
    int tries;
    int last_replica;
    bool has_lease;
    uint8_t uid[WP_UID_LEN];
    char path[WP_ENDPOINT_MAX + 1];
    uint8_t token[WP_TOKEN_LEN];
    int64_t deadline_ns;
    bool over; /* The last answer said so. */

    /* What it means to do with the lease. */
    int repeats;
    int renewals;
    int refused; /* Renewals in a row that were neither granted nor denied. */
    int gets;
    bool outstay;
    bool vanish;
    bool look_back; /* It asks once more when all must be over. */
};

/* What it does next; at wake_ns, when it has no calls out. */
void wp_worker_step(struct wp_worker *worker);
/* The link's done; owner is the worker. */
void wp_worker_on_end(void *owner, const struct wp_link_call *call,
                      struct wp_chaos_event *event);

#endif
