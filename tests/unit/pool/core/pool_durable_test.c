/* tests/unit/pool/core/pool_durable_test.c - pools on a store that outlives them: what is
 * recorded when, and what a restart brings back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/support/pool/replica_rig.h"

static void
a_sandbox_is_recorded_from_offer_to_end(void **state)
{
    struct replica a;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 3, true);
    replica_settle(&a);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_OPEN), 3);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    assert_non_null(wp_model_claimed(&replica_store, "c1"));
    replica_settle(&a);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_OPEN), 3);
    assert_int_equal(replica_change(&a, &c, false, NULL), WP_OK);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_ENDED), 1);
    replica_settle(&a);
    /* Destroyed, and forgotten. */
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_ENDED), 0);
    assert_int_equal(wp_fake_backend_counts(&a.backend).live, 3);
    replica_close(&a);
}

static void
what_is_not_recorded_is_not_offered(void **state)
{
    struct replica a;
    struct wp_rig_claim c;

    (void)state;
    replica_store.ports[0].fault = WP_UNAVAILABLE;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_RESOURCE_EXHAUSTED);
    replica_store.ports[0].fault = WP_OK;
    wp_clock_manual_advance(&replica_clock, WP_NS_PER_S);
    replica_settle(&a);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    replica_close(&a);
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
    replica_open(&a, 0, 3, true);
    replica_settle(&a);
    assert_int_equal(replica_claim(&a, &before, "kept"), WP_OK);
    replica_settle(&a);
    replica_close(&a);
    replica_open(&b, 0, 3, true);
    replica_adopt_all(&b, 0);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 1);
    assert_int_equal(replica_stats(&b).ready, 3);
    /* The same id: the same sandbox, endpoint and fence. */
    assert_int_equal(replica_claim(&b, &after, "kept"), WP_OK);
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
    assert_int_equal(replica_claim(&b, &other, "new"), WP_OK);
    assert_string_not_equal(other.claim.grant.sandbox,
                            before.claim.grant.sandbox);
    assert_int_equal(replica_change(&b, &before, true, NULL), WP_OK);
    assert_int_equal(replica_change(&b, &before, false, &was_held), WP_OK);
    assert_true(was_held);
    replica_settle(&b);
    assert_int_equal(wp_fake_backend_counts(&b.backend).live, 4);
    replica_close(&b);
}

/* A token of a predecessor names places of that process: here others stand
 * there. */
static void
a_token_is_of_its_sandbox_wherever_that_is(void **state)
{
    struct wp_lease_record first;
    struct wp_rig_claim c[2];
    struct wp_slot_ref ref[2];
    struct replica r;
    bool was_held;

    (void)state;
    replica_open(&r, 0, 2, true);
    replica_settle(&r);
    assert_int_equal(replica_claim(&r, &c[0], "c1"), WP_OK);
    assert_int_equal(replica_claim(&r, &c[1], "c2"), WP_OK);
    replica_close(&r);
    /* Places are given in the order of the records. */
    first = replica_store.records[0];
    if (first.claim_id[1] - '1' != (c[0].claim.grant.ref.index == 0 ? 1 : 0)) {
        replica_store.records[0] = replica_store.records[1];
        replica_store.records[1] = first;
    }
    replica_open(&r, 0, 2, true);
    for (int i = 0; i < 2; i++) {
        assert_true(wp_pools_seen(
            r.pools, wp_model_claimed(&replica_store, c[i].id)->uid, &ref[i]));
        /* It stands where the other one did. */
        assert_true(wp_slot_ref_eq(ref[i], c[1 - i].claim.grant.ref));
    }
    replica_adopt_all(&r, 0);
    replica_settle(&r);
    assert_int_equal(replica_change(&r, &c[1], true, NULL), WP_OK);
    assert_int_equal(replica_change(&r, &c[0], false, &was_held), WP_OK);
    assert_true(was_held);
    assert_null(wp_model_claimed(&replica_store, "c1"));
    assert_non_null(wp_model_claimed(&replica_store, "c2"));
    assert_int_equal(replica_change(&r, &c[1], false, &was_held), WP_OK);
    assert_true(was_held);
    replica_settle(&r);
    assert_int_equal(replica_stats(&r).leased, 0);
    replica_close(&r);
}

static void
a_restart_forgets_what_is_gone(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_rig_claim again;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    replica_settle(&a);
    replica_close(&a);
    /* Nothing lives any more. */
    replica_open(&b, 0, 2, true);
    replica_adopt_all(&b, 3);
    replica_settle(&b);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_LOST), 1);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_OPEN), 2);
    assert_int_equal(wp_fake_backend_counts(&b.backend).live, 2);
    assert_int_equal(replica_claim(&b, &again, "c1"), WP_FAILED_PRECONDITION);
    assert_int_equal(replica_change(&b, &c, false, NULL), WP_OK);
    replica_settle(&b);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_LOST), 0);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_ENDED), 0);
    replica_close(&b);
}

static void
a_used_sandbox_is_never_ready_again(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_settle(&a);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    /* Released, but the process dies before it is destroyed. */
    assert_int_equal(replica_change(&a, &c, false, NULL), WP_OK);
    replica_close(&a);
    replica_open(&b, 0, 0, true);
    replica_adopt_all(&b, 0);
    assert_int_equal(replica_stats(&b).ready, 0);
    replica_settle(&b);
    assert_int_equal(wp_fake_backend_counts(&b.backend).live, 0);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_ENDED), 0);
    replica_close(&b);
}

static void
a_lease_expires_after_a_restart(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_settle(&a);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    replica_close(&a);
    replica_open(&b, 0, 0, true);
    replica_adopt_all(&b, 0);
    wp_clock_manual_advance(&replica_clock, 59 * WP_NS_PER_S);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 1);
    wp_clock_manual_advance(&replica_clock, 2 * WP_NS_PER_S);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 0);
    assert_null(wp_model_claimed(&replica_store, "c1"));
    replica_close(&b);
}

/* A store that is out of reach is asked less and less often, and once it is
 * back, the lease ends within a second. */
static void
an_expired_lease_is_ended_without_haste(void **state)
{
    struct replica a;
    struct wp_rig_claim c;
    uint32_t before;

    (void)state;
    replica_history_max = 0; /* Else notes are among what the store is asked. */
    replica_open(&a, 0, 1, true);
    replica_settle(&a);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK); /* For 60 s. */
    replica_settle(&a);
    replica_store.ports[0].fault = WP_UNAVAILABLE;
    wp_clock_manual_advance(&replica_clock, 61 * WP_NS_PER_S);
    before = replica_store.ports[0].commits;
    for (int i = 0; i < 1000; i++) {
        wp_clock_manual_advance(&replica_clock, 10 * WP_NS_PER_MS);
        (void)wp_pools_run(a.pools);
    }
    assert_in_range(replica_store.ports[0].commits - before, 10, 30);
    replica_store.ports[0].fault = WP_OK;
    wp_clock_manual_advance(&replica_clock, WP_NS_PER_S);
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).leased, 0);
    replica_close(&a);
}

static void
doubt_is_settled_by_the_store(void **state)
{
    struct replica a;
    struct wp_rig_claim c;
    struct wp_rig_claim again;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    replica_store.ports[0].fault = WP_UNKNOWN_OUTCOME;
    replica_store.ports[0].although = true;
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_UNAVAILABLE);
    assert_non_null(wp_model_claimed(&replica_store, "c1"));
    assert_int_equal(replica_stats(&a).quarantined, 1);
    replica_store.ports[0].fault = WP_UNAVAILABLE;
    replica_store.ports[0].although = false;
    replica_settle(&a);
    replica_store.ports[0].fault = WP_OK;
    /* The client asks again before the lease could be taken back. */
    assert_int_equal(replica_claim(&a, &again, "c1"), WP_OK);
    assert_true(again.claim.replayed);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 1);
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).leased, 1);
    assert_int_equal(replica_stats(&a).quarantined, 0);
    assert_int_equal(replica_change(&a, &again, false, NULL), WP_OK);
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).leased, 0);
    replica_close(&a);
}

/* The store had the grant, but its answer was lost; then the sandbox died. */
static void
what_died_in_doubt_is_lost_to_whoever_holds_it(void **state)
{
    struct replica a;
    struct wp_rig_claim c;
    struct wp_rig_claim again;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    replica_store.ports[0].fault = WP_UNKNOWN_OUTCOME;
    replica_store.ports[0].although = true;
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_UNAVAILABLE);
    replica_store.ports[0].fault = WP_UNAVAILABLE;
    replica_store.ports[0].although = false;
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).quarantined, 1);
    assert_true(wp_fake_backend_lose(&a.backend, c.claim.grant.ref, "killed"));
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).quarantined, 1);
    assert_int_equal(replica_stats(&a).lost_total, 0);
    replica_store.ports[0].fault = WP_OK;
    assert_int_equal(replica_claim(&a, &again, "c1"), WP_FAILED_PRECONDITION);
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).quarantined, 0);
    assert_int_equal(replica_stats(&a).leased, 1);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_LOST), 1);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 0);
    replica_close(&a);
}

/* Its client does not come back: nobody holds it, within seconds. */
static void
a_lease_that_nobody_was_shown_is_taken_back(void **state)
{
    struct replica a;
    struct wp_rig_claim c;
    struct wp_rig_claim again;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    replica_store.ports[0].fault = WP_UNKNOWN_OUTCOME;
    replica_store.ports[0].although = true;
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_UNAVAILABLE);
    assert_non_null(strstr(c.claim.reason, "unknown"));
    assert_non_null(strstr(c.claim.reason, "same claim_id"));
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 1);
    /* The store stays silent for a while. */
    replica_settle(&a);
    replica_store.ports[0].fault = WP_OK;
    wp_clock_manual_advance(&replica_clock, 5 * WP_NS_PER_S);
    replica_settle(&a);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 0);
    assert_int_equal(replica_stats(&a).leased, 0);
    assert_int_equal(replica_stats(&a).quarantined, 0);
    assert_int_equal(replica_stats(&a).ready, 2);
    assert_int_equal(replica_claim(&a, &again, "c1"), WP_OK);
    assert_false(again.claim.replayed);
    replica_close(&a);
}

static void
doubt_that_had_no_effect_costs_the_sandbox(void **state)
{
    struct replica a;
    struct wp_rig_claim c;
    uint64_t created;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    created = wp_fake_backend_counts(&a.backend).creates;
    replica_store.ports[0].fault = WP_UNKNOWN_OUTCOME;
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_UNAVAILABLE);
    replica_store.ports[0].fault = WP_OK;
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).quarantined, 0);
    assert_int_equal(replica_stats(&a).ready, 2);
    assert_int_equal(wp_fake_backend_counts(&a.backend).creates, created + 1);
    replica_close(&a);
}

static void
what_is_over_is_restored_without_its_endpoint(void **state)
{
    struct wp_claim_info info;
    struct replica r;
    struct wp_rig_claim c;
    struct wp_rig_claim d;

    (void)state;
    replica_open(&r, 0, 2, true);
    replica_settle(&r);
    assert_int_equal(replica_claim(&r, &c, "c1"), WP_OK);
    assert_int_equal(replica_claim(&r, &d, "c2"), WP_OK);
    replica_settle(&r);
    assert_true(wp_fake_backend_lose(&r.backend, c.claim.grant.ref, "it died"));
    replica_settle(&r);
    r.backend.destroy_status = WP_RESOURCE_EXHAUSTED; /* Stays dying. */
    assert_int_equal(replica_change(&r, &d, false, NULL), WP_OK);
    (void)wp_pools_run(r.pools);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_LOST), 1);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_ENDED), 1);
    replica_close(&r);
    for (size_t i = 0; i < WP_MODEL_RECORDS; i++) {
        if (replica_store.records[i].state >= WP_RECORD_LOST) {
            replica_store.records[i].endpoint[0] = '\0';
        }
    }
    replica_open(&r, 0, 2, true);
    assert_int_equal(wp_pools_records_refused(r.pools), 0);
    replica_adopt_all(&r, 0);
    replica_settle(&r);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_ENDED), 0);
    assert_int_equal(replica_stats(&r).leased, 1);
    assert_int_equal(wp_pools_get(r.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_OK);
    assert_true(info.lost);
    assert_string_equal(info.lost_reason, "it died");
    replica_close(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_sandbox_is_recorded_from_offer_to_end,
                               replica_set_up),
        cmocka_unit_test_setup(what_is_not_recorded_is_not_offered,
                               replica_set_up),
        cmocka_unit_test_setup(a_restart_keeps_leases_and_ready_sandboxes,
                               replica_set_up),
        cmocka_unit_test_setup(a_token_is_of_its_sandbox_wherever_that_is,
                               replica_set_up),
        cmocka_unit_test_setup(a_restart_forgets_what_is_gone, replica_set_up),
        cmocka_unit_test_setup(a_used_sandbox_is_never_ready_again,
                               replica_set_up),
        cmocka_unit_test_setup(a_lease_expires_after_a_restart, replica_set_up),
        cmocka_unit_test_setup(an_expired_lease_is_ended_without_haste,
                               replica_set_up),
        cmocka_unit_test_setup(doubt_is_settled_by_the_store, replica_set_up),
        cmocka_unit_test_setup(what_died_in_doubt_is_lost_to_whoever_holds_it,
                               replica_set_up),
        cmocka_unit_test_setup(a_lease_that_nobody_was_shown_is_taken_back,
                               replica_set_up),
        cmocka_unit_test_setup(a_lease_that_nobody_was_shown_is_taken_back,
                               replica_set_up_shared),
        cmocka_unit_test_setup(doubt_that_had_no_effect_costs_the_sandbox,
                               replica_set_up),
        cmocka_unit_test_setup(what_is_over_is_restored_without_its_endpoint,
                               replica_set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
