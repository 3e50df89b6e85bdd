/* tests/support/stores/store_conformance.h - what every lease store must do.
 *
 * One suite for all adapters of pool/lease_store.h: each cell of the table of
 * pool/leases/rules.h through the port, random commits beside a model built on
 * wp_lease_rules_apply, many threads at once, and what is found after opening
 * the store again. */
#ifndef WP_TESTS_SUPPORT_STORES_STORE_CONFORMANCE_H
#define WP_TESTS_SUPPORT_STORES_STORE_CONFORMANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/lease_store.h"

/* How the suite gets at a store. One test at a time, from one thread; commits
 * come from several. */
struct wp_store_factory {
    const char *name;
    void *ctx;
    /* As ops->durable will say. Without records only the port itself is tested,
     * and that threads get their answers. */
    bool durable;
    bool shared; /* Other replicas may grant out of it, too. */
    /* fresh: a store without records. Otherwise one that finds what the last
     * one left, as a new process would. Fails the test when it cannot. */
    struct wp_lease_store (*open)(void *ctx, bool fresh);
    /* Ends the store that open gave. */
    void (*close)(void *ctx);
    /* Called again and again while ops are under way: a store that runs on the
     * caller's event loop turns it here. NULL when it has its own thread. */
    void (*settle)(void *ctx);
    /* Random commits in the differential run and by each thread; 0: 4000.
     * Small for stores that are slow under the test's circumstances. */
    uint32_t steps;
};

/* Runs the suite as a group of cmocka tests; returns the number of failures,
 * for main to return. WP_SEED in the environment replays a run. */
int wp_store_conformance_run(const struct wp_store_factory *factory);

#endif
