#include "bench/micro/pool_rig.h"

#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/rng.h"
#include "pool/leases/memory.h"

enum {
    TURNS_MAX = 1 << 16
};

static void
no_wake(void *ctx)
{
    (void)ctx; /* settle looks by itself. */
}

void
wp_pool_rig_init(struct wp_pool_rig *rig, uint32_t ready, uint32_t slots_max,
                 bool tokens)
{
    struct wp_pools_config config = {
        .slots_max = slots_max,
        .claims_max = slots_max,
        .clock = wp_clock_system(),
        .backend = wp_synthetic_backend(&rig->backend),
        .store = wp_lease_memory(),
        .seed = 1,
        .no_tokens = !tokens,
        .wake = no_wake,
    };
    struct wp_pool_spec spec;
    struct wp_err err;

    memset(rig, 0, sizeof(*rig));
    wp_random_bytes(config.token_key, sizeof(config.token_key));
    wp_random_bytes(&config.hash_key, sizeof(config.hash_key));
    rig->pools = wp_pools_create(&config, &err);
    WP_ASSERT(rig->pools != NULL);
    rig->backend.pools = rig->pools;
    rig->ready = ready;

    wp_pool_spec_init(&spec);
    strcpy(spec.pool_namespace, "default");
    strcpy(spec.name, "bench");
    strcpy(spec.template_name, "bench");
    spec.target = ready;
    spec.create_inflight_max = ready;
    WP_ASSERT(wp_pools_add(rig->pools, &spec, &rig->pool_index, &err) == WP_OK);
    wp_pool_rig_settle(rig);
}

void
wp_pool_rig_fini(struct wp_pool_rig *rig)
{
    wp_pools_stop(rig->pools);
    for (int turn = 0; turn < TURNS_MAX && !wp_pools_quiet(rig->pools);
         turn++) {
        (void)wp_pools_run(rig->pools);
    }
    WP_ASSERT(wp_pools_quiet(rig->pools));
    wp_pools_destroy(rig->pools);
}

void
wp_pool_rig_settle(struct wp_pool_rig *rig)
{
    struct wp_pool_stats stats;
    bool settled = false;

    for (int turn = 0; turn < TURNS_MAX && !settled; turn++) {
        (void)wp_pools_run(rig->pools);
        wp_pools_stats(rig->pools, rig->pool_index, &stats);
        settled = stats.ready >= rig->ready && stats.dying == 0;
    }
    WP_ASSERT(settled);
}

void
wp_pool_rig_fill(struct wp_pool_rig *rig, struct wp_pool_rig_claim *claim)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t n = ++rig->claims;

    memset(&claim->claim, 0, sizeof(claim->claim));
    memcpy(claim->id, "00000000-0000-4000-8000-000000000000", WP_RIG_ID_LEN);
    for (int i = WP_RIG_ID_LEN - 1; n > 0; i--, n >>= 4) {
        claim->id[i] = digits[n & 15];
    }
    claim->id[WP_RIG_ID_LEN] = '\0';
    claim->claim.pool_namespace = WP_STR("default");
    claim->claim.pool = WP_STR("bench");
    claim->claim.claim_id = (struct wp_str){claim->id, WP_RIG_ID_LEN};
    claim->claim.tenant = WP_STR("tenant-a");
}

void
wp_pool_rig_release(struct wp_pool_rig *rig, const uint8_t *token)
{
    struct wp_lease_change change;

    memset(&change, 0, sizeof(change));
    memcpy(change.token, token, sizeof(change.token));
    change.tenant = WP_STR("tenant-a");
    WP_ASSERT(wp_pools_release(rig->pools, &change) == WP_OK);
    WP_ASSERT(change.was_held);
}
