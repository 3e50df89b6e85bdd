/* Any records that a store's parser lets through, told to a replica in any
 * order, between claims and turns: whatever somebody wrote into Redis or a
 * lease file, the daemon goes on. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/leases/rules.h"
#include "pool/pool.h"
#include "tests/support/pool/fake_backend.h"
#include "tests/support/pool/manual_clock.h"
#include "tests/support/stores/model_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    SLOTS = 8,
    SANDBOXES = 6, /* Whose records are edited. */
    CLAIMS = 4,
    STEPS_MAX = 200,
};

struct input {
    const uint8_t *data;
    size_t size;
};

struct asked {
    struct wp_claim claim;
    char id[4];
    bool busy;
};

struct world {
    struct wp_model_store store;
    struct wp_clock_manual clock;
    struct wp_fake_backend backend;
    struct asked claims[CLAIMS];
    struct wp_pools *pools;
};

static uint64_t
take(struct input *in, size_t bytes)
{
    uint64_t value = 0;

    for (; bytes > 0 && in->size > 0; bytes--, in->data++, in->size--) {
        value = value << 8 | in->data[0];
    }
    return value;
}

/* Near base as a rule, anything at times. */
static uint64_t
take_near(struct input *in, uint64_t base)
{
    uint64_t byte = take(in, 1);

    return byte < 240 ? base + byte : take(in, 8);
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
    (void)err;
}

static void
answered(struct wp_claim *claim)
{
    struct asked *asked = WP_CONTAINER_OF(claim, struct asked, claim);

    WP_ASSERT(asked->busy);
    asked->busy = false;
}

static int64_t
wall_ms(const struct world *w)
{
    return wp_clock_wall_ns(&w->clock.clock) / WP_NS_PER_MS;
}

/* Somebody edits a record, or a late one comes; the store has it or not. */
static void
edit(struct world *w, struct input *in)
{
    uint64_t which = take(in, 1);
    struct wp_lease_record *kept = &w->store.records[which % SANDBOXES];
    struct wp_lease_record record = *kept;

    if (record.uid[0] == 0) {
        memset(record.uid, 1 + (int)(which % SANDBOXES), sizeof record.uid);
        (void)snprintf(record.sandbox, sizeof record.sandbox, "p-%c",
                       (char)('a' + which % SANDBOXES));
        (void)snprintf(record.endpoint, sizeof record.endpoint, "h:80");
        (void)snprintf(record.pool_namespace, sizeof record.pool_namespace,
                       "default");
    }
    (void)snprintf(record.pool, sizeof record.pool, which & 64 ? "q" : "p");
    record.state = (enum wp_record_state)(take(in, 1) % 5);
    record.fence = take_near(in, 0);
    memset(record.claim_id, 0, sizeof record.claim_id);
    if (wp_record_is_claimed(record.state)) {
        record.deadline_wall_ms =
            (int64_t)take_near(in, (uint64_t)wall_ms(w) - 100);
        record.granted_wall_ms =
            (int64_t)take_near(in, (uint64_t)wall_ms(w) - 200);
        record.fingerprint = take(in, 1) % 2;
        record.served = (uint32_t)take_near(in, 0);
        (void)snprintf(record.claim_id, sizeof record.claim_id, "c%d",
                       (int)(take(in, 1) % CLAIMS));
    } else {
        record.deadline_wall_ms = record.granted_wall_ms = 0;
        record.fingerprint = record.served = 0;
    }
    if (which & 32) {
        *kept = record;
    }
    wp_pools_on_record(w->pools, &record);
}

static void
claim(struct world *w, struct input *in)
{
    uint64_t which = take(in, 1);
    struct asked *asked = &w->claims[which % CLAIMS];

    if (asked->busy) {
        return;
    }
    memset(asked, 0, sizeof *asked);
    (void)snprintf(asked->id, sizeof asked->id, "c%d", (int)(which % CLAIMS));
    asked->claim.pool_namespace = WP_STR("default");
    asked->claim.pool = WP_STR("p");
    asked->claim.claim_id = wp_str_from(asked->id);
    asked->claim.tenant = WP_STR("");
    asked->claim.ttl_ns = WP_NS_PER_S;
    asked->claim.wait_ns = which & 64 ? WP_NS_PER_S : 0;
    asked->claim.done = answered;
    asked->busy = true;
    if (wp_pools_claim(w->pools, &asked->claim) != WP_PENDING) {
        asked->busy = false;
    }
}

static void
tell_all(struct world *w, bool retire)
{
    struct wp_lease_record out[4];
    uint32_t cursor = 0;

    do {
        (void)wp_pools_known_records(w->pools, 0, retire, &cursor, out,
                                     WP_ARRAY_LEN(out));
    } while (cursor != 0);
}

static void
turn(struct world *w)
{
    (void)wp_model_feed(&w->store, 0, w->pools);
    (void)wp_pools_run(w->pools);
    (void)wp_fake_backend_turn(&w->backend);
}

static void
step(struct world *w, struct input *in)
{
    uint64_t what = take(in, 1);

    switch (what % 8) {
    case 0:
    case 1:
        edit(w, in);
        break;
    case 2:
        claim(w, in);
        break;
    case 3:
        wp_clock_manual_advance(&w->clock,
                                (int64_t)take(in, 1) * 20 * WP_NS_PER_MS);
        break;
    case 4:
        wp_pools_set_keeper(w->pools, true); /* And stays so. */
        break;
    case 5:
        wp_pools_sync_begin(w->pools, 0);
        wp_model_load(&w->store, w->pools);
        wp_pools_sync_end(w->pools, 0);
        break;
    case 6:
        tell_all(w, (what & 8) != 0);
        break;
    default:
        turn(w);
        break;
    }
}

static void
begin(struct world *w, bool keeper)
{
    struct wp_pools_config config = {
        .slots_max = SLOTS,
        .claims_max = 2 * SLOTS,
        .clock = &w->clock.clock,
        .store = wp_model_port(&w->store, 0),
        .hash_key = {1, 2},
        .seed = 1,
        .wake = wake,
        .unlearned = unlearned,
    };
    const uint64_t ids[] = {1, 2};
    struct wp_pool_spec spec;
    struct wp_err err;

    wp_fake_backend_init(&w->backend, SLOTS, &w->clock.clock);
    config.backend = wp_fake_backend_foreign_port(&w->backend);
    w->pools = wp_pools_create(&config, &err);
    WP_ASSERT(w->pools != NULL);
    wp_fake_backend_attach(&w->backend, w->pools);
    wp_pool_spec_init(&spec);
    spec.target = 2;
    (void)snprintf(spec.name, sizeof spec.name, "p");
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    WP_ASSERT(wp_pools_add(w->pools, &spec, NULL, &err) == WP_OK);
    wp_pools_set_replicas(w->pools, 1, ids, WP_ARRAY_LEN(ids));
    wp_pools_set_keeper(w->pools, keeper);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    struct input in = {data, size};

    memset(&w, 0, sizeof w);
    wp_clock_manual_init(&w.clock, 1000 * WP_NS_PER_S,
                         INT64_C(1700000000) * WP_NS_PER_S);
    wp_model_init(&w.store, true);
    begin(&w, take(&in, 1) % 2 == 0);
    for (int i = 0; i < STEPS_MAX && in.size > 0; i++) {
        step(&w, &in);
    }
    for (int i = 0; i < 4; i++) {
        turn(&w);
        wp_clock_manual_advance(&w.clock, 10 * WP_NS_PER_S);
    }
    wp_pools_check(w.pools);
    wp_pools_destroy(w.pools);
    wp_fake_backend_fini(&w.backend);
    return 0;
}
