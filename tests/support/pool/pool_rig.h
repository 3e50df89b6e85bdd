/* tests/support/pool/pool_rig.h - one pool, a fake backend and a clock of its own.
 *
 * The store is a fake too: it answers at once, later, or with a fault, as the
 * test says. Single-threaded. */
#ifndef WP_TESTS_SUPPORT_POOL_POOL_RIG_H
#define WP_TESTS_SUPPORT_POOL_POOL_RIG_H

#include "pool/base/clock.h"
#include "pool/pool.h"
#include "tests/support/pool/fake_backend.h"
#include "tests/support/pool/manual_clock.h"

struct wp_rig {
    struct wp_clock_manual clock;
    struct wp_fake_backend backend;
    struct wp_pools *pools;
    uint32_t wakes;
    uint32_t changes;
    int64_t next_run_ns;

    /* The store. */
    bool store_later;            /* Keep commits until rig_store_answer. */
    enum wp_status store_status; /* What it answers. */
    struct wp_linked_message *store_ops; /* Kept ones, latest first. */
    uint32_t store_kept;
    uint32_t store_commits;
};

/* slots_max slots; pool "default/p" of template "t" with that target and, when
 * spec is not NULL, its other values. */
void wp_rig_init(struct wp_rig *rig, uint32_t slots_max, uint32_t target,
                 const struct wp_pool_spec *spec);
/* The same with a backend whose sandboxes others see too. */
void wp_rig_init_foreign(struct wp_rig *rig, uint32_t slots_max,
                         uint32_t target, const struct wp_pool_spec *spec);
/* Checks the pool once more, stops it, and expects that nothing is left. */
void wp_rig_fini(struct wp_rig *rig);
/* Turns of control and backend until nothing more happens. */
void wp_rig_settle(struct wp_rig *rig);
/* Moves the clock and settles. */
void wp_rig_advance(struct wp_rig *rig, int64_t delta_ns);
/* Answers every kept commit with that status; returns how many. */
uint32_t wp_rig_store_answer(struct wp_rig *rig, enum wp_status status);
struct wp_pool_stats wp_rig_stats(struct wp_rig *rig);

/* A claim with its strings and a record of its answer. */
struct wp_rig_claim {
    struct wp_claim claim;
    char id[WP_CLAIM_ID_MAX + 1];
    char tenant[WP_TENANT_MAX + 1];
    uint32_t answers;
};
/* Fills in a claim of pool "default/p". */
void wp_rig_claim_init(struct wp_rig_claim *c, const char *id,
                       const char *tenant, int64_t ttl_ns, int64_t wait_ns);
/* Claims; counts an immediate answer like a later one. */
enum wp_status wp_rig_claim(struct wp_rig *rig, struct wp_rig_claim *c);
/* Fills in and claims, without a deadline and for the tenant "system:t". */
enum wp_status wp_rig_claim_lasting(struct wp_rig *rig, struct wp_rig_claim *c,
                                    const char *id);
/* Releases by the claim's token; *was_held may be NULL. */
enum wp_status wp_rig_release(struct wp_rig *rig, const struct wp_rig_claim *c,
                              bool *was_held);
enum wp_status wp_rig_renew(struct wp_rig *rig, const struct wp_rig_claim *c,
                            int64_t ttl_ns);

#endif
