/* bench/micro/pool_rig.h - a pool of synthetic sandboxes, run by the caller's thread.
 *
 * The pool with the memory lease store and no daemon around: nothing runs by
 * itself; wp_pool_rig_settle plays the control thread between two measurements.
 * One thread. */
#ifndef WP_BENCH_MICRO_POOL_RIG_H
#define WP_BENCH_MICRO_POOL_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/micro/synthetic_backend.h"
#include "pool/claim.h"
#include "pool/pool.h"

enum {
    WP_RIG_ID_LEN = 36, /* Claim ids are as long as UUIDs. */
};

struct wp_pool_rig {
    struct wp_pools *pools; /* Owned. */
    struct wp_synthetic_backend backend;
    uint32_t pool_index;
    uint32_t ready;
    uint64_t claims; /* Asked so far; makes the ids. */
};

/* A claim and the text of its id. */
struct wp_pool_rig_claim {
    struct wp_claim claim;
    char id[WP_RIG_ID_LEN + 1];
};

/* A pool "default/bench" with that many sandboxes ready, in a table with room
 * for slots_max. Aborts when it cannot be made. */
void wp_pool_rig_init(struct wp_pool_rig *rig, uint32_t ready,
                      uint32_t slots_max, bool tokens);
void wp_pool_rig_fini(struct wp_pool_rig *rig);
/* Runs the control thread's turns until as many are ready as at first, or, with
 * that many leased besides. Aborts when they do not become ready. */
void wp_pool_rig_settle(struct wp_pool_rig *rig);
/* A new request with an id that was never used. */
void wp_pool_rig_fill(struct wp_pool_rig *rig, struct wp_pool_rig_claim *claim);
/* Ends the lease by its token. Aborts when it was not held. */
void wp_pool_rig_release(struct wp_pool_rig *rig, const uint8_t *token);

#endif
