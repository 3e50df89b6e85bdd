/* The pool as its callers see it, on a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/support/pool_rig.h"

#define S WP_NS_PER_S

static void
warm_claim_is_granted_at_once_and_complete(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;
    struct wp_claim_info info;

    (void)state;
    wp_rig_init(&rig, 16, 3, NULL);
    assert_int_equal(wp_rig_stats(&rig).ready, 3);
    wp_rig_claim_init(&c, "a", "t1", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &c), WP_OK);
    assert_int_equal(c.claim.grant.served, WP_SERVED_WARM);
    assert_int_equal(c.claim.grant.fence, 1);
    assert_string_equal(c.claim.grant.pool, "p");
    assert_int_equal(strncmp(c.claim.grant.sandbox, "p-", 2), 0);
    assert_true(c.claim.grant.endpoint[0] != '\0');
    assert_int_equal(c.claim.grant.deadline_ns - rig.clock.now_mono_ns, 10 * S);
    assert_int_equal(wp_pools_get(rig.pools, WP_STR("t1"), WP_STR("a"), &info),
                     WP_OK);
    assert_string_equal(info.sandbox, c.claim.grant.sandbox);
    assert_int_equal(wp_pools_get(rig.pools, WP_STR("t2"), WP_STR("a"), &info),
                     WP_NOT_FOUND);
    assert_int_equal(wp_pools_find_sandbox(
                         rig.pools, wp_str_from(c.claim.grant.sandbox), &info),
                     WP_OK);
    assert_string_equal(info.claim_id, "a");
    assert_true(wp_pools_token_valid(rig.pools, c.claim.grant.token,
                                     wp_str_from(c.claim.grant.sandbox)));
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).ready, 3);
    wp_rig_fini(&rig);
}

static void
same_id_same_answer_other_request_refused(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim again;
    struct wp_rig_claim other;
    struct wp_rig_claim tenant;

    (void)state;
    wp_rig_init(&rig, 16, 3, NULL);
    wp_rig_claim_init(&a, "id", "", 10 * S, 0);
    wp_rig_claim_init(&again, "id", "", 10 * S, 5 * S);
    wp_rig_claim_init(&other, "id", "", 11 * S, 0);
    wp_rig_claim_init(&tenant, "id", "else", 11 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    assert_int_equal(wp_rig_claim(&rig, &again), WP_OK);
    assert_true(again.claim.replayed);
    assert_string_equal(again.claim.grant.sandbox, a.claim.grant.sandbox);
    assert_memory_equal(again.claim.grant.token, a.claim.grant.token,
                        WP_TOKEN_LEN);
    assert_int_equal(wp_rig_claim(&rig, &other), WP_ALREADY_EXISTS);
    assert_int_equal(wp_rig_claim(&rig, &tenant), WP_OK);
    assert_string_not_equal(tenant.claim.grant.sandbox, a.claim.grant.sandbox);
    assert_int_equal(wp_rig_stats(&rig).leased, 2);
    wp_rig_fini(&rig);
}

static void
released_sandbox_is_destroyed_and_never_offered(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim b;
    bool was_held;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    wp_rig_claim_init(&a, "a", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    assert_int_equal(wp_rig_release(&rig, &a, &was_held), WP_OK);
    assert_true(was_held);
    assert_int_equal(wp_rig_release(&rig, &a, &was_held), WP_OK);
    assert_false(was_held);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 1);
    wp_rig_claim_init(&b, "a", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &b), WP_OK);
    assert_false(b.claim.replayed);
    assert_string_not_equal(a.claim.grant.sandbox, b.claim.grant.sandbox);
    assert_false(wp_pools_token_valid(rig.pools, a.claim.grant.token,
                                      wp_str_from(b.claim.grant.sandbox)));
    wp_rig_fini(&rig);
}

static void
lease_expires_not_early_and_renewal_moves_it(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    wp_rig_claim_init(&a, "a", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    wp_rig_advance(&rig, 9 * S);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_renew(&rig, &a, 10 * S), WP_OK);
    wp_rig_advance(&rig, 9 * S);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_true(rig.next_run_ns <= rig.clock.now_mono_ns + S + S / 500);
    wp_rig_advance(&rig, S + 2 * WP_NS_PER_MS);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).expired_total, 1);
    assert_int_equal(wp_rig_renew(&rig, &a, 10 * S), WP_NOT_FOUND);
    wp_rig_fini(&rig);
}

static void
renewal_after_the_deadline_is_refused_even_before_the_sweep(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    wp_rig_claim_init(&a, "a", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    wp_rig_settle(&rig);
    wp_clock_manual_advance(&rig.clock, 10 * S);
    assert_int_equal(wp_rig_renew(&rig, &a, 10 * S), WP_NOT_FOUND);
    wp_rig_fini(&rig);
}

static void
forged_and_foreign_tokens_are_refused(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    wp_rig_claim_init(&a, "a", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    for (size_t i = 0; i < WP_TOKEN_LEN; i++) {
        a.claim.grant.token[i] ^= 1;
        assert_int_equal(wp_rig_release(&rig, &a, NULL), WP_PERMISSION_DENIED);
        assert_int_equal(wp_rig_renew(&rig, &a, 0), WP_PERMISSION_DENIED);
        a.claim.grant.token[i] ^= 1;
    }
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_rig_fini(&rig);
}

static void
another_tenant_cannot_use_a_token(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_lease_change change = {.tenant = WP_STR("thief")};

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    wp_rig_claim_init(&a, "a", "owner", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    memcpy(change.token, a.claim.grant.token, WP_TOKEN_LEN);
    assert_int_equal(wp_pools_renew(rig.pools, &change), WP_PERMISSION_DENIED);
    assert_int_equal(wp_pools_release(rig.pools, &change),
                     WP_PERMISSION_DENIED);
    change.tenant = WP_STR("owner");
    assert_int_equal(wp_pools_renew(rig.pools, &change), WP_OK);
    assert_int_equal(wp_pools_release(rig.pools, &change), WP_OK);
    assert_true(change.was_held);
    wp_rig_fini(&rig);
}

static void
empty_pool_refuses_with_a_time_to_retry(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    wp_rig_claim_init(&a, "a", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_RESOURCE_EXHAUSTED);
    assert_true(a.claim.retry_after_ns > 0);
    assert_non_null(a.claim.reason);
    /* Its id is free. */
    wp_rig_claim_init(&a, "a", "", 5 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_RESOURCE_EXHAUSTED);
    assert_int_equal(wp_rig_stats(&rig).refused_total, 2);
    wp_rig_claim_init(&a, "a", "", 0, 0);
    a.claim.pool = WP_STR("other");
    assert_int_equal(wp_rig_claim(&rig, &a), WP_NOT_FOUND);
    wp_rig_fini(&rig);
}

static void
waiting_claims_are_served_in_turn_between_tenants(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c[6];
    /* Two of tenant x first, then one of y: x1 y1 x2. */
    static const char *const tenants[] = {"x", "x", "x", "y", "y", "z"};
    static const int order[] = {0, 3, 5, 1, 4, 2};

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    for (int i = 0; i < 6; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "c%d", i);
        wp_rig_claim_init(&c[i], id, tenants[i], 0, 30 * S);
        assert_int_equal(wp_rig_claim(&rig, &c[i]), WP_PENDING);
    }
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 6, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).warming, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(c[order[i]].answers, 0);
        wp_clock_manual_advance(&rig.clock, S);
        assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 1), 1);
        assert_int_equal(c[order[i]].answers, 1);
        assert_int_equal(c[order[i]].claim.status, WP_OK);
        assert_int_equal(c[order[i]].claim.grant.served, WP_SERVED_COLD);
        assert_int_equal(c[order[i]].claim.grant.waited_ns, (i + 1) * S);
    }
    wp_rig_fini(&rig);
}

static void
queued_when_the_sandbox_was_already_in_the_making(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 1, NULL), WP_OK);
    wp_rig_settle(&rig);
    wp_clock_manual_advance(&rig.clock, S);
    wp_rig_claim_init(&a, "a", "", 0, 30 * S);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_PENDING);
    assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 1), 1);
    assert_int_equal(a.claim.grant.served, WP_SERVED_QUEUED);
    wp_rig_fini(&rig);
}

static void
waiting_times_out_with_an_answer(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim b;

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    wp_rig_claim_init(&a, "a", "", 0, 2 * S);
    wp_rig_claim_init(&b, "b", "", 0, 3 * S);
    assert_int_equal(wp_rig_claim(&rig, &b), WP_PENDING);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_PENDING);
    wp_rig_settle(&rig);
    assert_true(rig.next_run_ns <= rig.clock.now_mono_ns + 2 * S);
    wp_rig_advance(&rig, 2 * S);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.claim.status, WP_RESOURCE_EXHAUSTED);
    assert_int_equal(b.answers, 0);
    assert_true(wp_pools_cancel(rig.pools, &b.claim));
    wp_rig_advance(&rig, 2 * S);
    assert_int_equal(b.answers, 0);
    assert_int_equal(wp_rig_stats(&rig).waiting, 0);
    wp_rig_fini(&rig);
}

static void
cold_start_makes_one_for_each_waiting_claim_and_no_more(void **state)
{
    struct wp_rig rig;
    struct wp_pool_spec spec;
    struct wp_rig_claim c[3];

    (void)state;
    wp_pool_spec_init(&spec);
    spec.cold_start = WP_COLD_ALLOWED;
    wp_rig_init(&rig, 16, 0, &spec);
    for (int i = 0; i < 3; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "c%d", i);
        wp_rig_claim_init(&c[i], id, "", 0, 30 * S);
        assert_int_equal(wp_rig_claim(&rig, &c[i]), WP_PENDING);
    }
    wp_rig_settle(&rig);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c[i].answers, 1);
        assert_int_equal(c[i].claim.grant.served, WP_SERVED_COLD);
    }
    assert_int_equal(wp_rig_stats(&rig).created_total, 3);
    wp_rig_fini(&rig);
}

static void
repeats_of_a_waiting_claim_share_its_sandbox(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c[5];

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    for (int i = 0; i < 5; i++) {
        wp_rig_claim_init(&c[i], "same", "", 0, 30 * S);
        assert_int_equal(wp_rig_claim(&rig, &c[i]), WP_PENDING);
    }
    /* The first leaves; one of the others takes its place. */
    assert_true(wp_pools_cancel(rig.pools, &c[0].claim));
    assert_true(wp_pools_cancel(rig.pools, &c[3].claim));
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 2, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(c[0].answers + c[3].answers, 0);
    for (int i = 1; i < 5; i += i == 2 ? 2 : 1) {
        assert_int_equal(c[i].answers, 1);
        assert_int_equal(c[i].claim.status, WP_OK);
        assert_string_equal(c[i].claim.grant.sandbox, c[1].claim.grant.sandbox);
    }
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_rig_fini(&rig);
}

static void
undone_grant_is_offered_again_with_a_higher_fence(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim b;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    rig.backend.create_status = WP_UNAVAILABLE;
    wp_rig_claim_init(&a, "a", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    wp_pools_undo(rig.pools, &a.claim);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).ready, 1);
    assert_int_equal(wp_rig_stats(&rig).undone_total, 1);
    wp_rig_claim_init(&b, "b", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &b), WP_OK);
    assert_string_equal(a.claim.grant.sandbox, b.claim.grant.sandbox);
    assert_true(b.claim.grant.fence > a.claim.grant.fence);
    /* The undone grant's token is of no use. */
    assert_int_equal(wp_rig_release(&rig, &a, NULL), WP_ABORTED);
    assert_int_equal(wp_rig_renew(&rig, &a, 0), WP_ABORTED);
    wp_rig_fini(&rig);
}

static void
grant_that_a_repeat_has_seen_is_not_undone(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim again;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    wp_rig_claim_init(&a, "a", "", 0, 0);
    wp_rig_claim_init(&again, "a", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    assert_int_equal(wp_rig_claim(&rig, &again), WP_OK);
    wp_pools_undo(rig.pools, &a.claim);
    wp_pools_undo(rig.pools, &again.claim);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_release(&rig, &again, NULL), WP_OK);
    wp_rig_fini(&rig);
}

static void
dead_idle_sandbox_is_replaced_and_never_granted(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim b;
    struct wp_slot_ref ref;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    wp_rig_claim_init(&a, "a", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    ref = a.claim.grant.ref;
    wp_pools_undo(rig.pools, &a.claim);
    wp_rig_settle(&rig);
    assert_true(wp_fake_backend_lose(&rig.backend, ref, "killed"));
    for (int i = 0; i < 3; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "b%d", i);
        wp_rig_claim_init(&b, id, "", 0, 0);
        if (wp_rig_claim(&rig, &b) == WP_OK) {
            assert_string_not_equal(b.claim.grant.sandbox,
                                    a.claim.grant.sandbox);
        }
    }
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).lost_total, 1);
    assert_int_equal(wp_rig_stats(&rig).ready, 2);
    assert_string_equal(wp_rig_stats(&rig).last_failure, "killed");
    wp_rig_fini(&rig);
}

static void
sandbox_lost_under_its_lease_is_reported_on_it(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim again;
    struct wp_claim_info info;
    bool was_held;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    wp_rig_claim_init(&a, "a", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    assert_true(wp_fake_backend_lose(&rig.backend, a.claim.grant.ref, "oom"));
    wp_rig_settle(&rig);
    assert_int_equal(wp_pools_get(rig.pools, WP_STR(""), WP_STR("a"), &info),
                     WP_OK);
    assert_true(info.lost);
    assert_string_equal(info.lost_reason, "oom");
    assert_int_equal(wp_rig_renew(&rig, &a, 0), WP_FAILED_PRECONDITION);
    wp_rig_claim_init(&again, "a", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &again), WP_FAILED_PRECONDITION);
    assert_int_equal(wp_rig_release(&rig, &a, &was_held), WP_OK);
    assert_true(was_held);
    wp_rig_settle(&rig);
    assert_int_equal(wp_pools_get(rig.pools, WP_STR(""), WP_STR("a"), &info),
                     WP_NOT_FOUND);
    wp_rig_fini(&rig);
}

static void
nothing_becomes_ready_so_creation_stops(void **state)
{
    struct wp_rig rig;
    uint64_t created;

    (void)state;
    wp_rig_init(&rig, 64, 0, NULL);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 4, NULL), WP_OK);
    for (int i = 0; i < 50; i++) {
        wp_rig_advance(&rig, 5 * WP_NS_PER_MS);
        (void)wp_fake_backend_fail(&rig.backend, 1, "no such image");
    }
    assert_true(wp_rig_stats(&rig).breaker_open);
    assert_string_equal(wp_rig_stats(&rig).last_failure, "no such image");
    created = wp_rig_stats(&rig).created_total;
    assert_true(created <= 4 + 5 + 1);
    /* It closes when one succeeds, and the pool fills. */
    for (int i = 0; i < 100; i++) {
        wp_rig_advance(&rig, S);
        (void)wp_fake_backend_make_ready(&rig.backend, 64);
    }
    assert_false(wp_rig_stats(&rig).breaker_open);
    assert_int_equal(wp_rig_stats(&rig).ready, 4);
    wp_rig_fini(&rig);
}

static void
sandboxes_that_crash_once_ready_are_not_replaced_at_full_speed(void **state)
{
    struct wp_rig rig;
    uint64_t created;

    (void)state;
    wp_rig_init(&rig, 64, 2, NULL);
    for (int i = 0; i < 200; i++) {
        struct wp_rig_claim c;

        /* To learn its name; it is given back, and then it crashes. */
        wp_rig_claim_init(&c, "c", "", 0, 0);
        if (wp_rig_claim(&rig, &c) == WP_OK) {
            wp_pools_undo(rig.pools, &c.claim);
            (void)wp_pools_run(rig.pools);
            assert_true(wp_fake_backend_lose(&rig.backend, c.claim.grant.ref,
                                             "crashed"));
        }
        wp_rig_advance(&rig, 50 * WP_NS_PER_MS);
    }
    assert_true(wp_rig_stats(&rig).breaker_open);
    created = wp_rig_stats(&rig).created_total;
    assert_in_range(created, 5, 20);
    /* They stop crashing: one proves it, and the pool fills. */
    for (int i = 0; i < 100; i++) {
        wp_rig_advance(&rig, S);
    }
    assert_false(wp_rig_stats(&rig).breaker_open);
    assert_int_equal(wp_rig_stats(&rig).ready, 2);
    wp_rig_fini(&rig);
}

static void
scale_down_drops_the_stalest_and_no_lease(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;

    (void)state;
    wp_rig_init(&rig, 32, 8, NULL);
    wp_rig_claim_init(&a, "a", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 0, NULL), WP_OK);
    wp_rig_advance(&rig, S);
    assert_int_equal(wp_rig_stats(&rig).ready, 0);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_release(&rig, &a, NULL), WP_OK);
    wp_rig_fini(&rig);
}

static void
crash_loop_of_idle_sandboxes_does_not_exhaust_the_slots(void **state)
{
    struct wp_rig rig;

    (void)state;
    wp_rig_init(&rig, 8, 2, NULL);
    for (int i = 0; i < 200; i++) {
        struct wp_rig_claim c;
        struct wp_slot_ref victim;
        struct wp_rig_claim d;

        /* Two ready: kill the younger one, behind a live head. */
        wp_rig_claim_init(&c, "c", "", 0, 0);
        wp_rig_claim_init(&d, "d", "", 0, 0);
        assert_int_equal(wp_rig_claim(&rig, &c), WP_OK);
        assert_int_equal(wp_rig_claim(&rig, &d), WP_OK);
        victim = d.claim.grant.ref;
        wp_pools_undo(rig.pools, &c.claim);
        wp_pools_undo(rig.pools, &d.claim);
        (void)wp_pools_run(rig.pools);
        wp_rig_advance(&rig, 6 * S);
        assert_true(wp_fake_backend_lose(&rig.backend, victim, "crash"));
        wp_rig_advance(&rig, 10 * WP_NS_PER_MS);
        assert_int_equal(wp_rig_stats(&rig).ready, 2);
    }
    wp_rig_fini(&rig);
}

static void
unreachable_store_grants_nothing_and_drops_nothing(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim b;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    wp_rig_claim_init(&a, "a", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    wp_rig_settle(&rig);
    rig.store_status = WP_UNAVAILABLE;
    wp_rig_claim_init(&b, "b", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &b), WP_UNAVAILABLE);
    assert_int_equal(wp_rig_stats(&rig).ready, 2);
    assert_int_equal(wp_rig_release(&rig, &a, NULL), WP_UNAVAILABLE);
    wp_rig_advance(&rig, 60 * S);
    /* Expired, but the store does not know: still held. */
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    rig.store_status = WP_OK;
    wp_rig_advance(&rig, S);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    wp_rig_fini(&rig);
}

static void
unknown_outcome_is_quarantined_until_the_lease_is_over(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim b;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    rig.store_status = WP_UNKNOWN_OUTCOME;
    wp_rig_claim_init(&a, "a", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_UNAVAILABLE);
    assert_int_equal(wp_rig_stats(&rig).quarantined, 1);
    rig.store_status = WP_OK;
    wp_rig_settle(&rig);
    wp_rig_claim_init(&b, "b", "", 60 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &b), WP_OK);
    wp_rig_advance(&rig, 9 * S);
    assert_int_equal(wp_rig_stats(&rig).quarantined, 1);
    wp_rig_advance(&rig, 2 * S);
    assert_int_equal(wp_rig_stats(&rig).quarantined, 0);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_rig_fini(&rig);
}

static void
store_that_answers_later(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim again;
    struct wp_rig_claim b;

    (void)state;
    wp_rig_init(&rig, 16, 3, NULL);
    rig.store_later = true;
    wp_rig_claim_init(&a, "a", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_PENDING);
    wp_rig_claim_init(&again, "a", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &again), WP_PENDING);
    assert_false(wp_pools_cancel(rig.pools, &a.claim));
    assert_int_equal(wp_rig_store_answer(&rig, WP_OK), 1);
    assert_int_equal(a.answers, 1);
    assert_int_equal(again.answers, 1);
    assert_true(again.claim.replayed);
    /* Taken by another replica: the next sandbox is tried. */
    wp_rig_claim_init(&b, "b", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &b), WP_PENDING);
    assert_int_equal(wp_rig_store_answer(&rig, WP_TAKEN), 1);
    assert_int_equal(b.answers, 0);
    assert_int_equal(wp_rig_store_answer(&rig, WP_OK), 1);
    assert_int_equal(b.answers, 1);
    assert_int_equal(b.claim.status, WP_OK);
    rig.store_later = false;
    wp_rig_fini(&rig);
}

static void
sandbox_that_dies_while_being_claimed_is_not_granted(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_slot_ref dead;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    rig.store_later = true;
    wp_rig_claim_init(&a, "a", "", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_PENDING);
    dead = rig.store_ops->ref;
    assert_true(wp_fake_backend_lose(&rig.backend, dead, "killed"));
    assert_int_equal(wp_rig_store_answer(&rig, WP_OK), 1);
    assert_int_equal(a.answers, 0);
    assert_int_equal(wp_rig_store_answer(&rig, WP_OK), 1);
    assert_int_equal(a.answers, 1);
    assert_false(wp_slot_ref_eq(a.claim.grant.ref, dead));
    rig.store_later = false;
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_rig_fini(&rig);
}

static void
draining_pool_refuses_and_empties(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim w;
    struct wp_rig_claim again;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    wp_rig_claim_init(&a, "a", "", 0, 0);
    wp_rig_claim_init(&w, "w", "", 0, 30 * S);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    assert_int_equal(wp_rig_claim(&rig, &w), WP_PENDING);
    wp_pools_drain(rig.pools, 0);
    wp_rig_settle(&rig);
    assert_int_equal(w.answers, 1);
    assert_int_equal(w.claim.status, WP_UNAVAILABLE);
    wp_rig_claim_init(&again, "a", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &again), WP_OK);
    wp_rig_claim_init(&w, "x", "", 0, 30 * S);
    assert_int_equal(wp_rig_claim(&rig, &w), WP_UNAVAILABLE);
    wp_rig_fini(&rig);
}

static void
idle_pool_wants_no_turns(void **state)
{
    struct wp_rig rig;
    uint32_t wakes;

    (void)state;
    wp_rig_init(&rig, 16, 4, NULL);
    wp_rig_settle(&rig);
    assert_int_equal(rig.next_run_ns, WP_TIME_NEVER);
    wakes = rig.wakes;
    wp_rig_advance(&rig, 3600 * S);
    assert_int_equal(rig.next_run_ns, WP_TIME_NEVER);
    assert_int_equal(rig.wakes, wakes);
    wp_rig_fini(&rig);
}

static void
repeated_reports_change_nothing(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    rig.backend.repeat_reports = true;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 4, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).ready, 4);
    for (int i = 0; i < 20; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "r%d", i);
        wp_rig_claim_init(&a, id, "", 0, 0);
        assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
        if (i % 2 == 0) {
            assert_true(
                wp_fake_backend_lose(&rig.backend, a.claim.grant.ref, "x"));
        }
        assert_int_equal(wp_rig_release(&rig, &a, NULL), WP_OK);
        wp_rig_settle(&rig);
        wp_pools_check(rig.pools);
    }
    assert_int_equal(wp_rig_stats(&rig).ready, 4);
    wp_rig_fini(&rig);
}

static void
list_walks_every_claim_once(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;
    struct wp_claim_info page[4];
    const struct wp_str tenant = WP_STR("odd");
    const struct wp_claim_filter all = {NULL, WP_STR(""), WP_STR("")};
    const struct wp_claim_filter odd = {&tenant, WP_STR("default"),
                                        WP_STR("p")};
    const struct wp_claim_filter other = {NULL, WP_STR("default"),
                                          WP_STR("other")};
    uint64_t cursor = 0;
    uint32_t seen = 0;

    (void)state;
    wp_rig_init(&rig, 32, 12, NULL);
    for (int i = 0; i < 10; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "c%d", i);
        wp_rig_claim_init(&c, id, i % 2 != 0 ? "odd" : "even", 0, 0);
        assert_int_equal(wp_rig_claim(&rig, &c), WP_OK);
    }
    do {
        seen += wp_pools_list(rig.pools, &all, &cursor, page, 4);
    } while (cursor != 0);
    assert_int_equal(seen, 10);
    seen = 0;
    do {
        uint32_t n = wp_pools_list(rig.pools, &odd, &cursor, page, 4);

        for (uint32_t i = 0; i < n; i++) {
            assert_string_equal(page[i].tenant, "odd");
        }
        seen += n;
    } while (cursor != 0);
    assert_int_equal(seen, 5);
    assert_int_equal(wp_pools_list(rig.pools, &other, &cursor, page, 4), 0);
    wp_rig_fini(&rig);
}

#define T(name) cmocka_unit_test(name)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        T(warm_claim_is_granted_at_once_and_complete),
        T(same_id_same_answer_other_request_refused),
        T(released_sandbox_is_destroyed_and_never_offered),
        T(lease_expires_not_early_and_renewal_moves_it),
        T(renewal_after_the_deadline_is_refused_even_before_the_sweep),
        T(forged_and_foreign_tokens_are_refused),
        T(another_tenant_cannot_use_a_token),
        T(empty_pool_refuses_with_a_time_to_retry),
        T(waiting_claims_are_served_in_turn_between_tenants),
        T(queued_when_the_sandbox_was_already_in_the_making),
        T(waiting_times_out_with_an_answer),
        T(cold_start_makes_one_for_each_waiting_claim_and_no_more),
        T(repeats_of_a_waiting_claim_share_its_sandbox),
        T(undone_grant_is_offered_again_with_a_higher_fence),
        T(grant_that_a_repeat_has_seen_is_not_undone),
        T(dead_idle_sandbox_is_replaced_and_never_granted),
        T(sandbox_lost_under_its_lease_is_reported_on_it),
        T(nothing_becomes_ready_so_creation_stops),
        T(sandboxes_that_crash_once_ready_are_not_replaced_at_full_speed),
        T(scale_down_drops_the_stalest_and_no_lease),
        T(crash_loop_of_idle_sandboxes_does_not_exhaust_the_slots),
        T(unreachable_store_grants_nothing_and_drops_nothing),
        T(unknown_outcome_is_quarantined_until_the_lease_is_over),
        T(store_that_answers_later),
        T(sandbox_that_dies_while_being_claimed_is_not_granted),
        T(draining_pool_refuses_and_empties),
        T(idle_pool_wants_no_turns),
        T(repeated_reports_change_nothing),
        T(list_walks_every_claim_once),
    };

    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
