#include "tests/support/pool/replica_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

struct wp_model_store replica_store;
struct wp_clock_manual replica_clock;
struct wp_scale_policy replica_policy;
uint32_t replica_wakes;
struct wp_err replica_unlearned;
size_t replica_history_max;
bool replica_holds;
static uint64_t starts;

static void
wake(void *ctx)
{
    (void)ctx;
    replica_wakes++;
}

static void
unlearned(void *ctx, uint32_t pool_index, const struct wp_err *err)
{
    (void)ctx;
    (void)pool_index;
    replica_unlearned = *err;
}

void
replica_open(struct replica *r, uint32_t port, uint32_t target, bool keeper)
{
    struct wp_pools_config config = {
        .slots_max = SLOTS,
        .claims_max = SLOTS * 2,
        .clock = &replica_clock.clock,
        .store = wp_model_port(&replica_store, port),
        .hash_key = {1, 2},
        .history_bytes_max = replica_history_max,
        .seed = ++starts, /* A new process makes new uids. */
        .wake = wake,
        .unlearned = unlearned,
    };
    struct wp_pool_spec spec;
    struct wp_err err;
    uint64_t ids[] = {1, 2};

    memset(r, 0, sizeof *r);
    r->store = &replica_store;
    r->port = port;
    replica_store.ports[port].n_feed = 0;
    replica_store.ports[port].kept = NULL;
    wp_fake_backend_init(&r->backend, SLOTS, &replica_clock.clock);
    memset(config.token_key, 7, sizeof config.token_key);
    config.backend = wp_fake_backend_foreign_port(&r->backend);
    r->pools = wp_pools_create(&config, &err);
    assert_non_null(r->pools);
    wp_fake_backend_attach(&r->backend, r->pools);
    wp_pool_spec_init(&spec);
    spec.create_inflight_max = SLOTS;
    spec.target = target;
    spec.scale = replica_policy;
    (void)snprintf(spec.name, sizeof spec.name, "p");
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    assert_int_equal(wp_pools_add(r->pools, &spec, NULL, &err), WP_OK);
    wp_pools_set_keeper(r->pools, keeper);
    wp_pools_set_replicas(r->pools, port + 1, ids,
                          replica_store.ops.shared ? 2 : 1);
    if (replica_holds) {
        wp_pools_hold_unseen(r->pools);
    }
    wp_model_load(&replica_store, r->pools);
}

void
replica_close(struct replica *r)
{
    wp_pools_destroy(r->pools);
    wp_fake_backend_fini(&r->backend);
}

void
replica_settle(struct replica *r)
{
    uint32_t quiet = 0;

    for (int i = 0; i < 10000 && quiet < 3; i++) {
        uint32_t events = wp_model_feed(&replica_store, r->port, r->pools);
        int64_t next = wp_pools_run(r->pools);

        events += wp_fake_backend_turn(&r->backend);
        quiet = events == 0 && next > replica_clock.now_mono_ns ? quiet + 1 : 0;
    }
    assert_int_equal(quiet, 3);
    wp_pools_check(r->pools);
}

void
replica_settle_both(struct replica *a, struct replica *b)
{
    for (int i = 0; i < 4; i++) {
        replica_settle(a);
        replica_settle(b);
    }
}

/* Every sandbox that the records of r's predecessor name is found alive, but
 * for skip of them. */
void
replica_adopt_all(struct replica *r, uint32_t skip)
{
    for (size_t i = 0; i < WP_MODEL_RECORDS; i++) {
        struct wp_slot_ref ref;

        if (replica_store.records[i].state == WP_RECORD_NONE) {
            continue;
        }
        if (skip > 0) {
            skip--;
            continue;
        }
        assert_true(
            wp_pools_seen(r->pools, replica_store.records[i].uid, &ref));
        wp_fake_backend_adopt(&r->backend, ref);
    }
    wp_pools_lose_unseen(r->pools);
}

struct wp_pool_stats
replica_stats(struct replica *r)
{
    struct wp_pool_stats stats;

    wp_pools_stats(r->pools, 0, &stats);
    return stats;
}

enum wp_status
replica_claim(struct replica *r, struct wp_rig_claim *c, const char *id)
{
    enum wp_status status;

    wp_rig_claim_init(c, id, "", 60 * WP_NS_PER_S, 0);
    /* What the claim before left there says nothing of this one. */
    c->claim.asked = UINT32_MAX - 1;
    c->claim.confirms = true;
    c->claim.may_leave = true;
    c->claim.left = true;
    status = wp_pools_claim(r->pools, &c->claim);
    for (int i = 0; i < 8 && status == WP_PENDING && c->answers == 0; i++) {
        (void)wp_pools_run(r->pools);
    }
    return status == WP_PENDING ? c->claim.status : status;
}

static void
changed(struct wp_lease_change *change)
{
    *(bool *)change->ctx = true;
}

enum wp_status
replica_change(struct replica *r, const struct wp_rig_claim *c, bool renew,
               bool *was_held)
{
    struct wp_lease_change request;
    enum wp_status status;
    bool done = false;

    memset(&request, 0, sizeof request);
    memcpy(request.token, c->claim.grant.token, sizeof request.token);
    request.done = changed;
    request.ctx = &done;
    request.ttl_ns = renew ? 120 * WP_NS_PER_S : 0;
    /* What the change before left there says nothing of this one. */
    request.asked = UINT32_MAX - 1;
    request.settled = true;
    request.renews = !renew;
    request.keeps = true;
    status = renew ? wp_pools_renew(r->pools, &request)
                   : wp_pools_release(r->pools, &request);
    for (int i = 0; i < 8 && status == WP_PENDING && !done; i++) {
        (void)wp_pools_run(r->pools);
    }
    if (was_held != NULL) {
        *was_held = request.was_held;
    }
    return status == WP_PENDING ? request.status : status;
}

int
replica_set_up(void **state)
{
    (void)state;
    wp_clock_manual_init(&replica_clock, 1000 * WP_NS_PER_S,
                         INT64_C(1700000000) * WP_NS_PER_S);
    wp_model_init(&replica_store, false);
    starts = 0;
    wp_scale_policy_init(&replica_policy);
    replica_history_max = 1 << 18;
    replica_holds = false;
    replica_unlearned = (struct wp_err){.status = WP_OK};
    return 0;
}

int
replica_set_up_shared(void **state)
{
    (void)replica_set_up(state);
    replica_store.ops.shared = true;
    return 0;
}

uint32_t
replica_records(struct replica *r, bool retire, enum wp_record_state kind)
{
    struct wp_lease_record out[2];
    uint32_t cursor = 0;
    uint32_t count = 0;

    do {
        uint32_t n = wp_pools_known_records(r->pools, 0, retire, &cursor, out,
                                            WP_ARRAY_LEN(out));

        for (uint32_t i = 0; i < n; i++) {
            const struct wp_lease_record *have = NULL;

            for (size_t k = 0; k < WP_MODEL_RECORDS; k++) {
                if (memcmp(replica_store.records[k].uid, out[i].uid,
                           WP_UID_LEN) == 0) {
                    have = &replica_store.records[k];
                }
            }
            assert_non_null(have);
            count += out[i].state == kind ? 1 : 0;
            if (!retire) {
                assert_memory_equal(have, &out[i], sizeof *have);
            }
        }
    } while (cursor != 0);
    return count;
}
