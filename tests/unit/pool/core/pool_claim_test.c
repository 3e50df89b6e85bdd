/* tests/unit/pool/core/pool_claim_test.c - claims that are answered at once, and their
 * leases: what a grant says, repeats, renewals, releases, tokens, and grants
 * that are undone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/pool/pool_rig.h"

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
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_release(&rig, &again, NULL), WP_OK);
    wp_rig_fini(&rig);
}

/* Of all who were told, the last one who has gone takes it along. */
static void
grant_whose_repeats_have_all_gone_is_undone(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim first;
    struct wp_rig_claim again[3];

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    wp_rig_claim_init(&first, "a", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &first), WP_OK);
    for (size_t i = 0; i < WP_ARRAY_LEN(again); i++) {
        wp_rig_claim_init(&again[i], "a", "", 0, 0);
        assert_int_equal(wp_rig_claim(&rig, &again[i]), WP_OK);
    }
    wp_pools_undo(rig.pools, &again[1].claim);
    wp_pools_undo(rig.pools, &first.claim);
    wp_pools_undo(rig.pools, &again[0].claim);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_pools_undo(rig.pools, &again[2].claim);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).ready, 1);
    /* The first one was shown it: a repeat that goes takes nothing. */
    wp_rig_claim_init(&first, "b", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &first), WP_OK);
    assert_int_equal(wp_rig_claim(&rig, &again[0]), WP_RESOURCE_EXHAUSTED);
    wp_rig_claim_init(&again[1], "b", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &again[1]), WP_OK);
    wp_pools_undo(rig.pools, &again[1].claim);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_release(&rig, &first, NULL), WP_OK);
    wp_rig_fini(&rig);
}

/* Nor is one that somebody who asked for the claim was told of. */
static void
grant_that_was_told_of_is_not_undone(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_claim_info info;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    wp_rig_claim_init(&a, "a", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    assert_int_equal(wp_pools_get(rig.pools, WP_STR(""), WP_STR("a"), &info),
                     WP_OK);
    wp_pools_undo(rig.pools, &a.claim);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_release(&rig, &a, NULL), WP_OK);
    wp_rig_fini(&rig);
}

/* Whoever repeats it and goes before it is granted has seen nothing. */
static void
grant_that_a_repeat_has_not_waited_for_is_undone(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim again;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    wp_rig_claim_init(&a, "a", "", 0, 0);
    wp_rig_claim_init(&again, "a", "", 0, 0);
    rig.store_later = true;
    assert_int_equal(wp_rig_claim(&rig, &a), WP_PENDING);
    assert_int_equal(wp_rig_claim(&rig, &again), WP_PENDING);
    assert_true(wp_pools_cancel(rig.pools, &again.claim));
    rig.store_later = false;
    assert_int_equal(wp_rig_store_answer(&rig, WP_OK), 1);
    assert_int_equal(a.claim.status, WP_OK);
    wp_pools_undo(rig.pools, &a.claim);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).undone_total, 1);
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
    /* From behind the last there is nothing more, as after a restart. */
    cursor = 11;
    assert_int_equal(wp_pools_list(rig.pools, &odd, &cursor, page, 4), 0);
    assert_int_equal(cursor, 0);
    wp_rig_fini(&rig);
}

/* Who waits is told of as such, with no lease. */
static void
who_waits_is_told_of_too(void **state)
{
    const struct wp_claim_filter all = {NULL, WP_STR(""), WP_STR("")};
    const struct wp_slot_ref none = WP_SLOT_REF_NONE;
    struct wp_claim_info info[3];
    struct wp_rig rig;
    struct wp_rig_claim c;
    uint64_t cursor = 0;

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    wp_rig_claim_init(&c, "a", "t", 0, 30 * S);
    assert_int_equal(wp_rig_claim(&rig, &c), WP_PENDING);
    for (int held = 0; held < 2; held++) {
        if (held == 1) {
            assert_int_equal(wp_pools_set_target(rig.pools, 0, 1, NULL), WP_OK);
            wp_rig_settle(&rig);
            assert_int_equal(c.claim.status, WP_OK);
        }
        memset(info, 0x5a, sizeof info);
        assert_int_equal(wp_pools_list(rig.pools, &all, &cursor, info, 2), 1);
        assert_int_equal(
            wp_pools_get(rig.pools, WP_STR("t"), WP_STR("a"), &info[1]), WP_OK);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(info[k].waiting, held == 0);
            assert_true(wp_slot_ref_eq(info[k].ref,
                                       held == 1 ? c.claim.grant.ref : none));
            assert_string_equal(info[k].sandbox,
                                held == 1 ? c.claim.grant.sandbox : "");
            assert_string_equal(info[k].claim_id, "a");
            assert_string_equal(info[k].tenant, "t");
            assert_string_equal(info[k].pool_namespace, "default");
            assert_string_equal(info[k].pool, "p");
            assert_false(info[k].lost);
            assert_string_equal(info[k].lost_reason, "");
        }
        assert_int_equal(info[2].claim_id[0], 0x5a);
    }
    wp_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_claim_is_granted_at_once_and_complete),
        cmocka_unit_test(same_id_same_answer_other_request_refused),
        cmocka_unit_test(released_sandbox_is_destroyed_and_never_offered),
        cmocka_unit_test(lease_expires_not_early_and_renewal_moves_it),
        cmocka_unit_test(
            renewal_after_the_deadline_is_refused_even_before_the_sweep),
        cmocka_unit_test(forged_and_foreign_tokens_are_refused),
        cmocka_unit_test(another_tenant_cannot_use_a_token),
        cmocka_unit_test(undone_grant_is_offered_again_with_a_higher_fence),
        cmocka_unit_test(grant_that_a_repeat_has_seen_is_not_undone),
        cmocka_unit_test(grant_whose_repeats_have_all_gone_is_undone),
        cmocka_unit_test(grant_that_was_told_of_is_not_undone),
        cmocka_unit_test(grant_that_a_repeat_has_not_waited_for_is_undone),
        cmocka_unit_test(sandbox_lost_under_its_lease_is_reported_on_it),
        cmocka_unit_test(list_walks_every_claim_once),
        cmocka_unit_test(who_waits_is_told_of_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
