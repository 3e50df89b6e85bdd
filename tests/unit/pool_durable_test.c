/* tests/unit/pool_durable_test.c - pools on a store that outlives them: what is
 * recorded when, what a restart brings back, and what several replicas that
 * share the store see of each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "pool/pool.h"
#include "tests/support/fake_backend.h"
#include "tests/support/model_store.h"
#include "tests/support/pool_rig.h"

enum {
    SLOTS = 16
};

/* One process on the store. The first of them is the keeper. */
struct replica {
    struct wp_model_store *store;
    struct wp_clock_manual *clock;
    uint32_t port;
    struct wp_fake_backend backend;
    struct wp_pools *pools;
};

static struct wp_model_store store;
static struct wp_clock_manual wall;
static uint64_t starts;

static void
wake(void *ctx)
{
    (void)ctx;
}

static void
open_replica(struct replica *r, uint32_t port, uint32_t target, bool keeper)
{
    struct wp_pools_config config = {
        .slots_max = SLOTS,
        .claims_max = SLOTS * 2,
        .clock = &wall.clock,
        .store = wp_model_port(&store, port),
        .hash_key = {1, 2},
        .seed = ++starts, /* A new process makes new uids. */
        .wake = wake,
    };
    struct wp_pool_spec spec;
    struct wp_err err;
    uint64_t ids[] = {1, 2};

    memset(r, 0, sizeof *r);
    r->store = &store;
    r->port = port;
    store.ports[port].n_feed = 0;
    store.ports[port].kept = NULL;
    wp_fake_backend_init(&r->backend, SLOTS, &wall.clock);
    memset(config.token_key, 7, sizeof config.token_key);
    config.backend = wp_fake_backend_port(&r->backend);
    r->pools = wp_pools_create(&config, &err);
    assert_non_null(r->pools);
    wp_fake_backend_attach(&r->backend, r->pools);
    wp_pool_spec_init(&spec);
    spec.create_inflight_max = SLOTS;
    spec.target = target;
    (void)snprintf(spec.name, sizeof spec.name, "p");
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    assert_int_equal(wp_pools_add(r->pools, &spec, NULL, &err), WP_OK);
    wp_pools_set_keeper(r->pools, keeper);
    wp_pools_set_replicas(r->pools, port + 1, ids, store.ops.shared ? 2 : 1);
    wp_model_load(&store, r->pools);
}

static void
close_replica(struct replica *r)
{
    wp_pools_destroy(r->pools);
    wp_fake_backend_fini(&r->backend);
}

static void
settle(struct replica *r)
{
    uint32_t quiet = 0;

    for (int i = 0; i < 10000 && quiet < 3; i++) {
        uint32_t events = wp_model_feed(&store, r->port, r->pools);
        int64_t next = wp_pools_run(r->pools);

        events += wp_fake_backend_turn(&r->backend);
        quiet = events == 0 && next > wall.now_mono_ns ? quiet + 1 : 0;
    }
    assert_int_equal(quiet, 3);
    wp_pools_check(r->pools);
}

static void
settle_both(struct replica *a, struct replica *b)
{
    for (int i = 0; i < 4; i++) {
        settle(a);
        settle(b);
    }
}

/* Every sandbox that the records of r's predecessor name is found alive, but
 * for skip of them. */
static void
adopt_all(struct replica *r, uint32_t skip)
{
    for (size_t i = 0; i < WP_MODEL_RECORDS; i++) {
        struct wp_slot_ref ref;

        if (store.records[i].state == WP_RECORD_NONE) {
            continue;
        }
        if (skip > 0) {
            skip--;
            continue;
        }
        assert_true(wp_pools_seen(r->pools, store.records[i].uid, &ref));
        wp_fake_backend_adopt(&r->backend, ref);
    }
    wp_pools_lose_unseen(r->pools);
}

static struct wp_pool_stats
stats_of(struct replica *r)
{
    struct wp_pool_stats stats;

    wp_pools_stats(r->pools, 0, &stats);
    return stats;
}

static enum wp_status
claim(struct replica *r, struct wp_rig_claim *c, const char *id)
{
    enum wp_status status;

    wp_rig_claim_init(c, id, "", 60 * WP_NS_PER_S, 0);
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

static enum wp_status
change(struct replica *r, const struct wp_rig_claim *c, bool renew,
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

static int
set_up(void **state)
{
    (void)state;
    wp_clock_manual_init(&wall, 1000 * WP_NS_PER_S,
                         INT64_C(1700000000) * WP_NS_PER_S);
    wp_model_init(&store, false);
    return 0;
}

static int
set_up_shared(void **state)
{
    (void)set_up(state);
    store.ops.shared = true;
    return 0;
}

/* --- One process --- */

static void
a_sandbox_is_recorded_from_offer_to_end(void **state)
{
    struct replica a;
    struct wp_rig_claim c;

    (void)state;
    open_replica(&a, 0, 3, true);
    settle(&a);
    assert_int_equal(wp_model_count(&store, WP_RECORD_OPEN), 3);
    assert_int_equal(claim(&a, &c, "c1"), WP_OK);
    assert_non_null(wp_model_claimed(&store, "c1"));
    settle(&a);
    assert_int_equal(wp_model_count(&store, WP_RECORD_OPEN), 3);
    assert_int_equal(change(&a, &c, false, NULL), WP_OK);
    assert_int_equal(wp_model_count(&store, WP_RECORD_ENDED), 1);
    settle(&a);
    /* Destroyed, and forgotten. */
    assert_int_equal(wp_model_count(&store, WP_RECORD_ENDED), 0);
    assert_int_equal(wp_fake_backend_counts(&a.backend).live, 3);
    close_replica(&a);
}

static void
what_is_not_recorded_is_not_offered(void **state)
{
    struct replica a;
    struct wp_rig_claim c;

    (void)state;
    store.ports[0].fault = WP_UNAVAILABLE;
    open_replica(&a, 0, 2, true);
    settle(&a);
    assert_int_equal(claim(&a, &c, "c1"), WP_RESOURCE_EXHAUSTED);
    store.ports[0].fault = WP_OK;
    wp_clock_manual_advance(&wall, WP_NS_PER_S);
    settle(&a);
    assert_int_equal(claim(&a, &c, "c1"), WP_OK);
    close_replica(&a);
}

static void
a_restart_keeps_leases_and_ready_sandboxes(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim before;
    struct wp_rig_claim after;
    struct wp_rig_claim other;
    struct wp_claim_info info;
    bool was_held;

    (void)state;
    open_replica(&a, 0, 3, true);
    settle(&a);
    assert_int_equal(claim(&a, &before, "kept"), WP_OK);
    settle(&a);
    close_replica(&a);
    open_replica(&b, 0, 3, true);
    adopt_all(&b, 0);
    settle(&b);
    assert_int_equal(stats_of(&b).leased, 1);
    assert_int_equal(stats_of(&b).ready, 3);
    /* The same id: the same sandbox, endpoint and fence. */
    assert_int_equal(claim(&b, &after, "kept"), WP_OK);
    assert_true(after.claim.replayed);
    assert_string_equal(after.claim.grant.sandbox, before.claim.grant.sandbox);
    assert_string_equal(after.claim.grant.endpoint,
                        before.claim.grant.endpoint);
    assert_int_equal(after.claim.grant.fence, before.claim.grant.fence);
    assert_int_equal(after.claim.grant.deadline_wall_ms,
                     before.claim.grant.deadline_wall_ms);
    assert_int_equal(
        wp_pools_find_sandbox(b.pools, wp_str_from(before.claim.grant.sandbox),
                              &info),
        WP_OK);
    assert_string_equal(info.claim_id, "kept");
    /* Another gets another one; the old token still counts. */
    assert_int_equal(claim(&b, &other, "new"), WP_OK);
    assert_string_not_equal(other.claim.grant.sandbox,
                            before.claim.grant.sandbox);
    assert_int_equal(change(&b, &before, true, NULL), WP_OK);
    assert_int_equal(change(&b, &before, false, &was_held), WP_OK);
    assert_true(was_held);
    settle(&b);
    assert_int_equal(wp_fake_backend_counts(&b.backend).live, 4);
    close_replica(&b);
}

static void
a_restart_forgets_what_is_gone(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_rig_claim again;

    (void)state;
    open_replica(&a, 0, 2, true);
    settle(&a);
    assert_int_equal(claim(&a, &c, "c1"), WP_OK);
    settle(&a);
    close_replica(&a);
    /* Nothing lives any more. */
    open_replica(&b, 0, 2, true);
    adopt_all(&b, 3);
    settle(&b);
    assert_int_equal(wp_model_count(&store, WP_RECORD_LOST), 1);
    assert_int_equal(wp_model_count(&store, WP_RECORD_OPEN), 2);
    assert_int_equal(wp_fake_backend_counts(&b.backend).live, 2);
    assert_int_equal(claim(&b, &again, "c1"), WP_FAILED_PRECONDITION);
    assert_int_equal(change(&b, &c, false, NULL), WP_OK);
    settle(&b);
    assert_int_equal(wp_model_count(&store, WP_RECORD_LOST), 0);
    assert_int_equal(wp_model_count(&store, WP_RECORD_ENDED), 0);
    close_replica(&b);
}

static void
a_used_sandbox_is_never_ready_again(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    open_replica(&a, 0, 1, true);
    settle(&a);
    assert_int_equal(claim(&a, &c, "c1"), WP_OK);
    /* Released, but the process dies before it is destroyed. */
    assert_int_equal(change(&a, &c, false, NULL), WP_OK);
    close_replica(&a);
    open_replica(&b, 0, 0, true);
    adopt_all(&b, 0);
    assert_int_equal(stats_of(&b).ready, 0);
    settle(&b);
    assert_int_equal(wp_fake_backend_counts(&b.backend).live, 0);
    assert_int_equal(wp_model_count(&store, WP_RECORD_ENDED), 0);
    close_replica(&b);
}

static void
a_lease_expires_after_a_restart(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    open_replica(&a, 0, 1, true);
    settle(&a);
    assert_int_equal(claim(&a, &c, "c1"), WP_OK);
    close_replica(&a);
    open_replica(&b, 0, 0, true);
    adopt_all(&b, 0);
    wp_clock_manual_advance(&wall, 59 * WP_NS_PER_S);
    settle(&b);
    assert_int_equal(stats_of(&b).leased, 1);
    wp_clock_manual_advance(&wall, 2 * WP_NS_PER_S);
    settle(&b);
    assert_int_equal(stats_of(&b).leased, 0);
    assert_null(wp_model_claimed(&store, "c1"));
    close_replica(&b);
}

static void
doubt_is_settled_by_the_store(void **state)
{
    struct replica a;
    struct wp_rig_claim c;
    struct wp_rig_claim again;

    (void)state;
    open_replica(&a, 0, 2, true);
    settle(&a);
    store.ports[0].fault = WP_UNKNOWN_OUTCOME;
    store.ports[0].although = true;
    assert_int_equal(claim(&a, &c, "c1"), WP_UNAVAILABLE);
    assert_non_null(wp_model_claimed(&store, "c1"));
    assert_int_equal(stats_of(&a).quarantined, 1);
    store.ports[0].fault = WP_OK;
    /* The client asks again before the control thread does. */
    assert_int_equal(claim(&a, &again, "c1"), WP_OK);
    assert_true(again.claim.replayed);
    settle(&a);
    assert_int_equal(stats_of(&a).leased, 1);
    assert_int_equal(stats_of(&a).quarantined, 0);
    assert_int_equal(change(&a, &again, false, NULL), WP_OK);
    settle(&a);
    assert_int_equal(stats_of(&a).leased, 0);
    close_replica(&a);
}

static void
doubt_that_had_no_effect_costs_the_sandbox(void **state)
{
    struct replica a;
    struct wp_rig_claim c;
    uint64_t created;

    (void)state;
    open_replica(&a, 0, 2, true);
    settle(&a);
    created = wp_fake_backend_counts(&a.backend).creates;
    store.ports[0].fault = WP_UNKNOWN_OUTCOME;
    assert_int_equal(claim(&a, &c, "c1"), WP_UNAVAILABLE);
    store.ports[0].fault = WP_OK;
    settle(&a);
    assert_int_equal(stats_of(&a).quarantined, 0);
    assert_int_equal(stats_of(&a).ready, 2);
    assert_int_equal(wp_fake_backend_counts(&a.backend).creates, created + 1);
    close_replica(&a);
}

/* --- Replicas --- */

static void
a_follower_sees_and_claims_the_keepers_sandboxes(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_rig_claim again;
    bool was_held;

    (void)state;
    open_replica(&a, 0, 3, true);
    open_replica(&b, 1, 3, false);
    settle_both(&a, &b);
    assert_int_equal(stats_of(&b).ready, 3);
    assert_int_equal(wp_fake_backend_counts(&b.backend).creates, 0);
    assert_int_equal(claim(&b, &c, "c1"), WP_OK);
    settle_both(&a, &b);
    /* The keeper has seen it, refilled, and answers for it. */
    assert_int_equal(stats_of(&a).leased, 1);
    assert_int_equal(stats_of(&a).ready, 3);
    assert_int_equal(claim(&a, &again, "c1"), WP_OK);
    assert_string_equal(again.claim.grant.sandbox, c.claim.grant.sandbox);
    assert_int_equal(again.claim.grant.fence, c.claim.grant.fence);
    assert_int_equal(change(&a, &c, true, NULL), WP_OK);
    settle_both(&a, &b);
    assert_int_equal(change(&b, &c, false, &was_held), WP_OK);
    assert_true(was_held);
    settle_both(&a, &b);
    assert_int_equal(stats_of(&a).leased, 0);
    assert_int_equal(stats_of(&b).leased, 0);
    assert_int_equal(stats_of(&b).dying, 0);
    assert_int_equal(wp_fake_backend_counts(&a.backend).live, 3);
    assert_int_equal(wp_model_count(&store, WP_RECORD_ENDED), 0);
    close_replica(&b);
    close_replica(&a);
}

static void
two_who_want_the_same_get_two(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim ca;
    struct wp_rig_claim cb;

    (void)state;
    open_replica(&a, 0, 2, true);
    open_replica(&b, 1, 2, false);
    settle_both(&a, &b);
    /* Neither hears of the other between the two. */
    assert_int_equal(claim(&a, &ca, "a1"), WP_OK);
    assert_int_equal(claim(&b, &cb, "b1"), WP_OK);
    assert_string_not_equal(ca.claim.grant.sandbox, cb.claim.grant.sandbox);
    settle_both(&a, &b);
    assert_int_equal(stats_of(&a).leased, 2);
    assert_int_equal(stats_of(&b).leased, 2);
    assert_int_equal(stats_of(&a).quarantined, 0);
    assert_int_equal(stats_of(&b).quarantined, 0);
    close_replica(&b);
    close_replica(&a);
}

static void
one_id_at_two_replicas_has_one_sandbox(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim ca;
    struct wp_rig_claim cb;

    (void)state;
    open_replica(&a, 0, 2, true);
    open_replica(&b, 1, 2, false);
    settle_both(&a, &b);
    assert_int_equal(claim(&a, &ca, "same"), WP_OK);
    /* b has not heard of it: the store tells. */
    assert_int_equal(claim(&b, &cb, "same"), WP_OK);
    assert_true(cb.claim.replayed);
    assert_string_equal(ca.claim.grant.sandbox, cb.claim.grant.sandbox);
    assert_int_equal(ca.claim.grant.fence, cb.claim.grant.fence);
    settle_both(&a, &b);
    assert_int_equal(stats_of(&a).leased, 1);
    assert_int_equal(stats_of(&b).leased, 1);
    assert_int_equal(stats_of(&b).ready, 2);
    close_replica(&b);
    close_replica(&a);
}

static void
a_release_reaches_the_store_before_the_mirror_does(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    bool was_held;

    (void)state;
    open_replica(&a, 0, 2, true);
    open_replica(&b, 1, 2, false);
    settle_both(&a, &b);
    assert_int_equal(claim(&a, &c, "c1"), WP_OK);
    /* b still takes that sandbox for ready. */
    assert_int_equal(change(&b, &c, false, &was_held), WP_OK);
    assert_true(was_held);
    assert_int_equal(wp_model_count(&store, WP_RECORD_ENDED), 1);
    settle_both(&a, &b);
    assert_int_equal(stats_of(&a).leased, 0);
    assert_int_equal(stats_of(&b).leased, 0);
    close_replica(&b);
    close_replica(&a);
}

static void
a_follower_becomes_the_keeper(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_rig_claim gone;

    (void)state;
    open_replica(&a, 0, 3, true);
    open_replica(&b, 1, 3, false);
    settle_both(&a, &b);
    assert_int_equal(claim(&a, &c, "c1"), WP_OK);
    assert_int_equal(claim(&a, &gone, "c2"), WP_OK);
    assert_int_equal(change(&a, &gone, false, NULL), WP_OK);
    close_replica(&a);
    settle(&b);
    assert_int_equal(stats_of(&b).leased, 1);
    adopt_all(&b, 0);
    wp_pools_set_keeper(b.pools, true);
    settle(&b);
    assert_int_equal(stats_of(&b).leased, 1);
    assert_int_equal(stats_of(&b).ready, 3);
    assert_int_equal(stats_of(&b).dying, 0);
    assert_int_equal(wp_model_count(&store, WP_RECORD_ENDED), 0);
    wp_clock_manual_advance(&wall, 62 * WP_NS_PER_S);
    settle(&b);
    assert_int_equal(stats_of(&b).leased, 0);
    close_replica(&b);
}

static void
a_follower_does_not_expire(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    open_replica(&a, 0, 1, true);
    open_replica(&b, 1, 1, false);
    settle_both(&a, &b);
    assert_int_equal(claim(&b, &c, "c1"), WP_OK);
    settle_both(&a, &b);
    wp_clock_manual_advance(&wall, 70 * WP_NS_PER_S);
    settle(&b);
    assert_int_equal(stats_of(&b).leased, 1);
    assert_non_null(wp_model_claimed(&store, "c1"));
    settle_both(&a, &b);
    assert_int_equal(stats_of(&a).leased, 0);
    assert_int_equal(stats_of(&b).leased, 0);
    close_replica(&b);
    close_replica(&a);
}

/* A ready sandbox dies while another replica, unaware, grants it. */
static void
an_idle_death_asks_the_store_first(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_claim_info info;

    (void)state;
    open_replica(&a, 0, 1, true);
    open_replica(&b, 1, 1, false);
    settle_both(&a, &b);
    assert_int_equal(claim(&b, &c, "c1"), WP_OK);
    assert_true(wp_fake_backend_lose(
        &a.backend,
        wp_fake_backend_find(&a.backend, wp_str_from(c.claim.grant.sandbox)),
        "it crashed"));
    settle_both(&a, &b);
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_OK);
    assert_true(info.lost);
    assert_int_equal(change(&b, &c, false, NULL), WP_OK);
    settle_both(&a, &b);
    assert_int_equal(wp_model_count(&store, WP_RECORD_LOST), 0);
    assert_int_equal(wp_fake_backend_counts(&a.backend).live, 1);
    close_replica(&b);
    close_replica(&a);
}

static void
scale_down_asks_the_store_first(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c[4];
    struct wp_err err;

    (void)state;
    open_replica(&a, 0, 4, true);
    open_replica(&b, 1, 4, false);
    settle_both(&a, &b);
    assert_int_equal(claim(&b, &c[0], "c0"), WP_OK);
    assert_int_equal(claim(&b, &c[1], "c1"), WP_OK);
    assert_int_equal(wp_pools_set_target(a.pools, 0, 0, &err), WP_OK);
    settle_both(&a, &b);
    assert_int_equal(stats_of(&a).leased, 2);
    assert_int_equal(stats_of(&b).leased, 2);
    assert_int_equal(stats_of(&a).ready, 0);
    assert_int_equal(stats_of(&b).ready, 0);
    assert_int_equal(wp_fake_backend_counts(&a.backend).live, 2);
    close_replica(&b);
    close_replica(&a);
}

static void
a_grant_that_replicas_may_have_shown_is_not_undone(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_rig_claim again;

    (void)state;
    open_replica(&a, 0, 2, true);
    open_replica(&b, 1, 2, false);
    settle_both(&a, &b);
    assert_int_equal(claim(&b, &c, "c1"), WP_OK);
    /* a has not heard of that, and has the store confirm the same lease. */
    assert_int_equal(claim(&a, &again, "c1"), WP_OK);
    assert_string_equal(again.claim.grant.sandbox, c.claim.grant.sandbox);
    wp_pools_undo(a.pools, &again.claim);
    wp_pools_undo(b.pools, &c.claim);
    settle_both(&a, &b);
    assert_int_equal(wp_model_count(&store, WP_RECORD_HELD), 1);
    assert_int_equal(claim(&a, &again, "c1"), WP_OK);
    assert_true(again.claim.replayed);
    assert_int_equal(change(&b, &c, true, NULL), WP_OK);
    close_replica(&b);
    close_replica(&a);
}

static void
old_news_do_not_bring_a_sandbox_back(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_lease_record ended;

    (void)state;
    open_replica(&a, 0, 2, true);
    wp_pools_lose_unseen(a.pools);
    open_replica(&b, 1, 2, false);
    settle_both(&a, &b);
    assert_int_equal(claim(&b, &c, "c1"), WP_OK);
    settle_both(&a, &b);
    assert_int_equal(change(&b, &c, false, NULL), WP_OK);
    ended = store.ports[0].feed[0];
    store.ports[0].n_feed = 0;
    assert_int_equal(change(&a, &c, false, NULL), WP_OK);
    settle(&a);
    wp_pools_on_record(a.pools, &ended);
    settle_both(&a, &b);
    assert_int_equal(stats_of(&a).dying, 0);
    assert_int_equal(wp_model_count(&store, WP_RECORD_ENDED), 0);
    close_replica(&b);
    close_replica(&a);
}

static void
what_is_forgotten_while_in_doubt_is_let_go(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    open_replica(&a, 0, 1, true);
    open_replica(&b, 1, 1, false);
    settle_both(&a, &b);
    store.ports[1].fault = WP_UNKNOWN_OUTCOME;
    assert_int_equal(claim(&b, &c, "c1"), WP_UNAVAILABLE);
    store.ports[1].fault = WP_OK;
    store.ports[1].later = true;
    (void)wp_pools_run(b.pools);
    assert_int_equal(wp_model_answer(&store, 1), 1); /* Held by nobody. */
    (void)wp_pools_run(b.pools);
    store.ports[1].fault = WP_UNAVAILABLE;
    assert_true(wp_model_answer(&store, 1) >= 1); /* So it may go. */
    assert_int_equal(wp_pools_set_target(a.pools, 0, 0, NULL), WP_OK);
    settle(&a);
    settle(&b);
    store.ports[1].fault = WP_OK;
    store.ports[1].later = false;
    wp_clock_manual_advance(&wall, WP_NS_PER_S);
    settle_both(&a, &b);
    assert_int_equal(stats_of(&b).quarantined + stats_of(&b).dying, 0);
    close_replica(&b);
    close_replica(&a);
}

static void
a_release_that_the_store_took_was_of_a_held_lease(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_lease_change release = {.done = changed};
    struct wp_lease_op *op;
    bool done = false;

    (void)state;
    open_replica(&a, 0, 2, true);
    open_replica(&b, 1, 2, false);
    settle_both(&a, &b);
    assert_int_equal(claim(&b, &c, "c1"), WP_OK);
    settle_both(&a, &b);
    memcpy(release.token, c.claim.grant.token, WP_TOKEN_LEN);
    release.ctx = &done;
    store.ports[1].later = true;
    assert_int_equal(wp_pools_release(b.pools, &release), WP_PENDING);
    op = store.ports[1].kept;
    assert_int_equal(op->kind, WP_LEASE_RELEASE);
    store.ports[1].kept = NULL;
    store.ports[1].later = false;
    /* What the commit does in the store, and what comes of it, reaches b before
     * the commit's answer. */
    assert_int_equal(change(&a, &c, false, NULL), WP_OK);
    settle_both(&a, &b);
    assert_int_equal(wp_model_count(&store, WP_RECORD_ENDED), 0);
    op->done(op, WP_OK);
    assert_true(done);
    assert_int_equal(release.status, WP_OK);
    assert_true(release.was_held);
    settle_both(&a, &b);
    close_replica(&b);
    close_replica(&a);
}

static void
an_offer_in_doubt_costs_no_slot(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    char id[16];

    (void)state;
    open_replica(&a, 0, 1, true);
    open_replica(&b, 1, 1, false);
    for (int i = 0; i < 2 * SLOTS; i++) {
        store.ports[0].fault = WP_UNKNOWN_OUTCOME;
        store.ports[0].although = true;
        settle(&a);
        settle(&b);
        (void)snprintf(id, sizeof id, "c%d", i);
        assert_int_equal(claim(&b, &c, id), WP_OK);
        settle(&a); /* Hears of the lease before it knows of its offer. */
        store.ports[0].fault = WP_OK;
        assert_int_equal(change(&b, &c, false, NULL), WP_OK);
        for (int k = 0; k < 2; k++) {
            wp_clock_manual_advance(&wall, WP_NS_PER_S);
            settle_both(&a, &b);
        }
        assert_int_equal(stats_of(&a).ready, 1);
        assert_int_equal(wp_pools_set_target(a.pools, 0, 0, NULL), WP_OK);
        settle_both(&a, &b);
        assert_int_equal(wp_pools_set_target(a.pools, 0, 1, NULL), WP_OK);
    }
    close_replica(&b);
    close_replica(&a);
}

static void
what_is_over_is_restored_without_its_endpoint(void **state)
{
    struct wp_claim_info info;
    struct replica r;
    struct wp_rig_claim c;
    struct wp_rig_claim d;

    (void)state;
    open_replica(&r, 0, 2, true);
    settle(&r);
    assert_int_equal(claim(&r, &c, "c1"), WP_OK);
    assert_int_equal(claim(&r, &d, "c2"), WP_OK);
    settle(&r);
    assert_true(wp_fake_backend_lose(&r.backend, c.claim.grant.ref, "it died"));
    settle(&r);
    r.backend.destroy_status = WP_RESOURCE_EXHAUSTED; /* Stays dying. */
    assert_int_equal(change(&r, &d, false, NULL), WP_OK);
    (void)wp_pools_run(r.pools);
    assert_int_equal(wp_model_count(&store, WP_RECORD_LOST), 1);
    assert_int_equal(wp_model_count(&store, WP_RECORD_ENDED), 1);
    close_replica(&r);
    for (size_t i = 0; i < WP_MODEL_RECORDS; i++) {
        if (store.records[i].state >= WP_RECORD_LOST) {
            store.records[i].endpoint[0] = '\0';
        }
    }
    open_replica(&r, 0, 2, true);
    assert_int_equal(wp_pools_records_refused(r.pools), 0);
    adopt_all(&r, 0);
    settle(&r);
    assert_int_equal(wp_model_count(&store, WP_RECORD_ENDED), 0);
    assert_int_equal(stats_of(&r).leased, 1);
    assert_int_equal(wp_pools_get(r.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_OK);
    assert_true(info.lost);
    assert_string_equal(info.lost_reason, "it died");
    close_replica(&r);
}

/* The keeper, which has not heard of a renewal, is expiring the lease. */
static void
a_renewal_overtakes_an_expiry(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    bool done = false;
    struct wp_lease_change request = {.done = changed, .ctx = &done};
    struct wp_lease_op *expire;

    (void)state;
    open_replica(&a, 0, 2, true);
    open_replica(&b, 1, 2, false);
    settle_both(&a, &b);
    assert_int_equal(claim(&a, &c, "c1"), WP_OK); /* For 60 s. */
    settle_both(&a, &b);
    wp_clock_manual_advance(&wall, 50 * WP_NS_PER_S);
    assert_int_equal(change(&b, &c, true, NULL), WP_OK); /* For 120 s. */
    store.ports[0].n_feed = 0;
    wp_clock_manual_advance(&wall, 20 * WP_NS_PER_S);
    memcpy(request.token, c.claim.grant.token, sizeof request.token);
    store.ports[0].later = true;
    assert_int_equal(wp_pools_renew(a.pools, &request), WP_PENDING);
    (void)wp_pools_run(a.pools);
    expire = store.ports[0].kept;
    assert_int_equal(expire->kind, WP_LEASE_EXPIRE);
    store.ports[0].kept = expire->next;
    assert_int_equal(wp_model_answer(&store, 0), 1); /* Who holds it? */
    (void)wp_pools_run(a.pools);
    assert_int_equal(wp_model_answer(&store, 0), 1); /* Renewed. */
    assert_true(done);
    assert_int_equal(request.status, WP_OK);
    expire->next = NULL;
    store.ports[0].kept = expire;
    assert_int_equal(wp_model_answer(&store, 0), 1);
    store.ports[0].later = false;
    settle_both(&a, &b);
    close_replica(&b);
    close_replica(&a);
}

static void
a_sync_lets_go_of_what_the_store_no_longer_has(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    open_replica(&a, 0, 3, true);
    open_replica(&b, 1, 3, false);
    settle_both(&a, &b);
    assert_int_equal(claim(&a, &c, "c1"), WP_OK);
    settle_both(&a, &b);
    assert_int_equal(change(&a, &c, false, NULL), WP_OK);
    settle(&a);
    store.ports[1].n_feed = 0; /* b does not hear of any of that. */
    settle(&b);
    assert_int_equal(stats_of(&b).leased, 1);
    wp_pools_sync_begin(b.pools, 0);
    wp_model_load(&store, b.pools);
    wp_pools_sync_end(b.pools, 0);
    settle(&b);
    assert_int_equal(stats_of(&b).leased, 0);
    assert_int_equal(stats_of(&b).ready, 3);
    close_replica(&b);
    close_replica(&a);
}

static uint32_t
told(struct replica *r, bool retire, enum wp_record_state kind)
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
                if (memcmp(store.records[k].uid, out[i].uid, WP_UID_LEN) == 0) {
                    have = &store.records[k];
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

static void
a_replica_can_tell_what_the_store_had(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    open_replica(&a, 0, 3, true);
    open_replica(&b, 1, 3, false);
    settle_both(&a, &b);
    assert_int_equal(claim(&b, &c, "c1"), WP_OK);
    settle_both(&a, &b);
    assert_int_equal(told(&a, false, WP_RECORD_OPEN), 3);
    assert_int_equal(told(&a, false, WP_RECORD_HELD), 1);
    /* A follower may know less of ready ones: it tells of leases. */
    assert_int_equal(told(&b, false, WP_RECORD_OPEN), 0);
    assert_int_equal(told(&b, false, WP_RECORD_HELD), 1);
    assert_int_equal(told(&a, true, WP_RECORD_ENDED), 3);
    settle_both(&a, &b);
    assert_int_equal(stats_of(&a).leased, 1);
    assert_int_equal(stats_of(&a).ready, 3);
    close_replica(&b);
    close_replica(&a);
}

#define ALONE(test) cmocka_unit_test_setup(test, set_up)
#define SHARED(test) cmocka_unit_test_setup(test, set_up_shared)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ALONE(a_sandbox_is_recorded_from_offer_to_end),
        ALONE(what_is_not_recorded_is_not_offered),
        ALONE(a_restart_keeps_leases_and_ready_sandboxes),
        ALONE(a_restart_forgets_what_is_gone),
        ALONE(a_used_sandbox_is_never_ready_again),
        ALONE(a_lease_expires_after_a_restart),
        ALONE(doubt_is_settled_by_the_store),
        ALONE(doubt_that_had_no_effect_costs_the_sandbox),
        SHARED(a_follower_sees_and_claims_the_keepers_sandboxes),
        SHARED(two_who_want_the_same_get_two),
        SHARED(one_id_at_two_replicas_has_one_sandbox),
        SHARED(a_release_reaches_the_store_before_the_mirror_does),
        SHARED(a_follower_becomes_the_keeper),
        SHARED(a_follower_does_not_expire),
        SHARED(an_idle_death_asks_the_store_first),
        SHARED(scale_down_asks_the_store_first),
        SHARED(a_grant_that_replicas_may_have_shown_is_not_undone),
        SHARED(old_news_do_not_bring_a_sandbox_back),
        SHARED(what_is_forgotten_while_in_doubt_is_let_go),
        SHARED(a_release_that_the_store_took_was_of_a_held_lease),
        ALONE(what_is_over_is_restored_without_its_endpoint),
        SHARED(an_offer_in_doubt_costs_no_slot),
        SHARED(a_renewal_overtakes_an_expiry),
        SHARED(a_sync_lets_go_of_what_the_store_no_longer_has),
        SHARED(a_replica_can_tell_what_the_store_had),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
