#include "tests/support/pool/pool_rig.h"

#include <stdio.h>
#include <string.h>

#include "pool/base/assert.h"

static enum wp_status
store_commit(void *self, struct wp_lease_op *op)
{
    struct wp_rig *rig = self;

    rig->store_commits++;
    if (!rig->store_later) {
        return rig->store_status;
    }
    op->link.next = rig->store_ops;
    rig->store_ops = &op->link;
    rig->store_kept++;
    return WP_PENDING;
}

static void
wake(void *ctx)
{
    ((struct wp_rig *)ctx)->wakes++;
}

static void
changed(void *ctx, uint32_t pool_index)
{
    (void)pool_index;
    ((struct wp_rig *)ctx)->changes++;
}

static void
init(struct wp_rig *rig, uint32_t slots_max, uint32_t target,
     const struct wp_pool_spec *given, bool foreign)
{
    static const struct wp_lease_store_ops store_ops = {.name = "fake",
                                                        .commit = store_commit};
    struct wp_pools_config config = {
        .slots_max = slots_max,
        .claims_max = slots_max * 2,
        .hash_key = {1, 2},
        .seed = 3,
        .history_bytes_max = 1 << 18,
        .wake = wake,
        .changed = changed,
        .ctx = rig,
    };
    struct wp_pool_spec spec;
    struct wp_err err;

    memset(rig, 0, sizeof *rig);
    wp_clock_manual_init(&rig->clock, 1000 * WP_NS_PER_S,
                         INT64_C(1700000000) * WP_NS_PER_S);
    wp_fake_backend_init(&rig->backend, slots_max, &rig->clock.clock);
    memset(config.token_key, 7, sizeof config.token_key);
    config.clock = &rig->clock.clock;
    config.backend = foreign ? wp_fake_backend_foreign_port(&rig->backend)
                             : wp_fake_backend_port(&rig->backend);
    config.store = (struct wp_lease_store){&store_ops, rig};
    rig->pools = wp_pools_create(&config, &err);
    WP_ASSERT(rig->pools != NULL);
    wp_fake_backend_attach(&rig->backend, rig->pools);
    if (given != NULL) {
        spec = *given;
    } else {
        wp_pool_spec_init(&spec);
        spec.create_inflight_max = slots_max;
    }
    (void)snprintf(spec.name, sizeof spec.name, "p");
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    spec.target = target;
    WP_ASSERT(wp_pools_add(rig->pools, &spec, NULL, &err) == WP_OK);
    wp_rig_settle(rig);
}

void
wp_rig_init(struct wp_rig *rig, uint32_t slots_max, uint32_t target,
            const struct wp_pool_spec *given)
{
    init(rig, slots_max, target, given, false);
}

void
wp_rig_init_foreign(struct wp_rig *rig, uint32_t slots_max, uint32_t target,
                    const struct wp_pool_spec *given)
{
    init(rig, slots_max, target, given, true);
}

void
wp_rig_settle(struct wp_rig *rig)
{
    uint32_t quiet = 0;

    /* A turn that finds work asks for another one soon: three in a row without
     * work, and nothing is left to do now. */
    for (int i = 0; i < 10000 && quiet < 3; i++) {
        uint32_t reports;

        rig->next_run_ns = wp_pools_run(rig->pools);
        reports = wp_fake_backend_turn(&rig->backend);
        quiet = reports == 0 && rig->next_run_ns > rig->clock.now_mono_ns
                    ? quiet + 1
                    : 0;
    }
    WP_ASSERT(quiet == 3);
}

void
wp_rig_advance(struct wp_rig *rig, int64_t delta_ns)
{
    wp_clock_manual_advance(&rig->clock, delta_ns);
    wp_rig_settle(rig);
}

void
wp_rig_fini(struct wp_rig *rig)
{
    rig->store_later = false;
    rig->store_status = WP_OK;
    (void)wp_rig_store_answer(rig, WP_OK);
    wp_pools_check(rig->pools);
    wp_pools_stop(rig->pools);
    for (int i = 0; i < 100 && !wp_pools_quiet(rig->pools); i++) {
        wp_rig_advance(rig, 100 * WP_NS_PER_MS);
        (void)wp_fake_backend_make_ready(&rig->backend, UINT32_MAX);
    }
    WP_ASSERT(wp_pools_quiet(rig->pools));
    WP_ASSERT(wp_fake_backend_counts(&rig->backend).live == 0);
    wp_pools_check(rig->pools);
    wp_pools_destroy(rig->pools);
    wp_fake_backend_fini(&rig->backend);
}

uint32_t
wp_rig_store_answer(struct wp_rig *rig, enum wp_status status)
{
    struct wp_lease_op *op = wp_lease_op_of(rig->store_ops);
    uint32_t count = 0;

    rig->store_ops = NULL;
    rig->store_kept = 0;
    while (op != NULL) {
        struct wp_lease_op *next = wp_lease_op_next(op);

        op->done(op, status);
        op = next;
        count++;
    }
    return count;
}

struct wp_pool_stats
wp_rig_stats(struct wp_rig *rig)
{
    struct wp_pool_stats stats;

    wp_pools_stats(rig->pools, 0, &stats);
    return stats;
}

static void
claim_done(struct wp_claim *claim)
{
    ((struct wp_rig_claim *)claim->ctx)->answers++;
}

void
wp_rig_claim_init(struct wp_rig_claim *c, const char *id, const char *tenant,
                  int64_t ttl_ns, int64_t wait_ns)
{
    memset(c, 0, sizeof *c);
    (void)snprintf(c->id, sizeof c->id, "%s", id);
    (void)snprintf(c->tenant, sizeof c->tenant, "%s", tenant);
    c->claim.pool_namespace = WP_STR("default");
    c->claim.pool = WP_STR("p");
    c->claim.claim_id = wp_str_from(c->id);
    c->claim.tenant = wp_str_from(c->tenant);
    c->claim.ttl_ns = ttl_ns;
    c->claim.wait_ns = wait_ns;
    c->claim.done = claim_done;
    c->claim.ctx = c;
}

enum wp_status
wp_rig_claim(struct wp_rig *rig, struct wp_rig_claim *c)
{
    enum wp_status status = wp_pools_claim(rig->pools, &c->claim);

    if (status != WP_PENDING) {
        c->answers++;
    }
    return status;
}

enum wp_status
wp_rig_claim_lasting(struct wp_rig *rig, struct wp_rig_claim *c, const char *id)
{
    wp_rig_claim_init(c, id, "system:t", 0, 0);
    c->claim.lasting = true;
    return wp_rig_claim(rig, c);
}

static void
change_done(struct wp_lease_change *change)
{
    (void)change;
}

static void
change_init(struct wp_lease_change *change, const struct wp_rig_claim *c)
{
    memset(change, 0, sizeof *change);
    memcpy(change->token, c->claim.grant.token, sizeof change->token);
    change->done = change_done;
}

enum wp_status
wp_rig_release(struct wp_rig *rig, const struct wp_rig_claim *c, bool *was_held)
{
    struct wp_lease_change change;
    enum wp_status status;

    change_init(&change, c);
    status = wp_pools_release(rig->pools, &change);
    WP_ASSERT(status != WP_PENDING);
    if (was_held != NULL) {
        *was_held = change.was_held;
    }
    return status;
}

enum wp_status
wp_rig_renew(struct wp_rig *rig, const struct wp_rig_claim *c, int64_t ttl_ns)
{
    struct wp_lease_change change;
    enum wp_status status;

    change_init(&change, c);
    change.ttl_ns = ttl_ns;
    status = wp_pools_renew(rig->pools, &change);
    WP_ASSERT(status != WP_PENDING);
    return status;
}
