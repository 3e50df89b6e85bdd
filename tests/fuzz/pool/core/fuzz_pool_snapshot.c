/* Any bytes as a pool's snapshot: the keeper that finds them takes them in or
 * says why not, and goes on. By the first byte: 1: the checksum is put right,
 * so that what is behind it is read, too; 2: the pool has no objective, and so
 * no scaler. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/siphash.h"
#include "pool/pool.h"
#include "tests/support/pool/fake_backend.h"
#include "tests/support/pool/manual_clock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    SLOTS = 16,
    SUM_AT = 16,
    HEAD_LEN = 32,
};

static uint8_t snapshot[WP_SNAPSHOT_MAX];
static size_t snapshot_len;

static enum wp_status
commit(void *self, struct wp_lease_op *op)
{
    (void)self;
    if (op->kind == WP_LEASE_GET_SNAPSHOT) {
        memcpy(op->snapshot->bytes, snapshot, snapshot_len);
        op->snapshot->len = snapshot_len;
    }
    return WP_OK;
}

static void
wake(void *ctx)
{
    (void)ctx;
}

static void
unlearned(void *ctx, uint32_t pool_index, const struct wp_err *err)
{
    (void)ctx;
    (void)pool_index;
    WP_ASSERT(err->status != WP_OK && err->msg[0] != '\0');
}

static void
put_right(void)
{
    uint64_t sum;

    memset(snapshot + SUM_AT, 0, sizeof sum);
    sum = wp_siphash128((struct wp_hash_key){0, 0}, snapshot, snapshot_len).low;
    for (int i = 0; i < 8; i++) {
        snapshot[SUM_AT + i] = (uint8_t)(sum >> 8 * i);
    }
}

static void
go_on(struct wp_pools *pools, bool scaled, struct wp_clock_manual *clock,
      struct wp_fake_backend *backend)
{
    struct wp_pool_stats stats;

    for (int i = 0; i < 8; i++) {
        (void)wp_pools_run(pools);
        (void)wp_fake_backend_turn(backend);
        wp_clock_manual_advance(clock, 100 * WP_NS_PER_MS);
    }
    wp_pools_stats(pools, 0, &stats);
    WP_ASSERT((stats.scale.number > 0) == scaled);
    WP_ASSERT(stats.warming + stats.ready <= SLOTS);
    wp_pools_check(pools);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct wp_lease_store_ops ops = {
        .name = "fuzz", .durable = true, .commit = commit};
    struct wp_clock_manual clock;
    struct wp_fake_backend backend;
    struct wp_pools_config config = {
        .slots_max = SLOTS,
        .claims_max = SLOTS,
        .history_bytes_max = 1 << 17,
        .clock = &clock.clock,
        .store = {&ops, NULL},
        .wake = wake,
        .unlearned = unlearned,
    };
    struct wp_pool_spec spec;
    struct wp_pools *pools;
    struct wp_err err;
    bool scaled;

    if (size < 1 || size - 1 > WP_SNAPSHOT_MAX) {
        return 0;
    }
    scaled = (data[0] & 2) == 0;
    snapshot_len = size - 1;
    memcpy(snapshot, data + 1, snapshot_len);
    if (data[0] % 2 == 1 && snapshot_len >= HEAD_LEN) {
        put_right();
    }
    wp_clock_manual_init(&clock, 1000 * WP_NS_PER_S,
                         INT64_C(1700000000) * WP_NS_PER_S);
    wp_fake_backend_init(&backend, SLOTS, &clock.clock);
    config.backend = wp_fake_backend_port(&backend);
    pools = wp_pools_create(&config, &err);
    WP_ASSERT(pools != NULL);
    wp_fake_backend_attach(&backend, pools);
    wp_pool_spec_init(&spec);
    (void)snprintf(spec.name, sizeof spec.name, "p");
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    spec.target = 2;
    WP_ASSERT(!scaled || wp_scale_policy_set(&spec.scale, WP_STR("objective"),
                                             WP_STR("99%"), &err) == WP_OK);
    WP_ASSERT(wp_pools_add(pools, &spec, NULL, &err) == WP_OK);
    go_on(pools, scaled, &clock, &backend);
    wp_pools_destroy(pools);
    wp_fake_backend_fini(&backend);
    return 0;
}
