/* tests/unit/pool/core/pool_foreign_found_test.c - sandboxes that are found, made by
 * somebody else or by the keeper before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "pool/table/pools.h"
#include "tests/support/pool/replica_rig.h"

static const uint8_t foreign_uid[WP_UID_LEN] = "0123456789abcdef";

static void
a_found_sandbox_is_served_like_an_ordered_one(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;
    struct wp_claim_info info;
    struct wp_slot_ref ref;
    struct wp_slot_ref again;

    (void)state;
    wp_rig_init_foreign(&rig, 16, 0, NULL);
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 1, NULL), WP_OK);
    assert_true(
        wp_pools_found(rig.pools, 0, foreign_uid, WP_STR("p-x7k2q"), &ref));
    wp_fake_backend_found(&rig.backend, ref, "p-x7k2q");
    assert_true(
        wp_pools_found(rig.pools, 0, foreign_uid, WP_STR("p-x7k2q"), &again));
    assert_true(wp_slot_ref_eq(ref, again));
    wp_rig_settle(&rig);
    /* It counts: nothing else is made. */
    assert_int_equal(wp_rig_stats(&rig).created_total, 1);
    assert_int_equal(wp_rig_stats(&rig).warming, 1);
    assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 1), 1);
    assert_int_equal(wp_rig_claim_lasting(&rig, &c, "a"), WP_OK);
    assert_string_equal(c.claim.grant.sandbox, "p-x7k2q");
    assert_int_equal(wp_pools_find_sandbox(rig.pools, WP_STR("p-x7k2q"), &info),
                     WP_OK);
    assert_true(wp_pools_token_valid(rig.pools, c.claim.grant.token,
                                     WP_STR("p-x7k2q")));
    wp_pools_end(rig.pools, ref);
    wp_rig_settle(&rig);
    assert_int_equal(wp_pools_find_sandbox(rig.pools, WP_STR("p-x7k2q"), &info),
                     WP_NOT_FOUND);
    /* The uid is free again, and so is the slot. */
    assert_true(
        wp_pools_found(rig.pools, 0, foreign_uid, WP_STR("p-x7k2q"), &again));
    assert_false(wp_slot_ref_eq(ref, again));
    wp_fake_backend_found(&rig.backend, again, "p-x7k2q");
    wp_rig_fini(&rig);
}

static void
what_cannot_be_taken_in_is_refused(void **state)
{
    static const char *const names[] = {"p", "p-",          "q-abcde", "pabcde",
                                        "",  "p-123456789", "pp-abcde"};
    struct wp_rig rig;
    struct wp_slot_ref ref;
    uint8_t uid[WP_UID_LEN] = {0};

    (void)state;
    wp_rig_init_foreign(&rig, 2, 0, NULL);
    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        assert_false(wp_pools_found(rig.pools, 0, foreign_uid,
                                    wp_str_from(names[i]), &ref));
    }
    assert_false(
        wp_pools_found(rig.pools, 1, foreign_uid, WP_STR("p-abcde"), &ref));
    for (uint8_t i = 1; i <= 2; i++) {
        char name[] = {'p', '-', (char)('a' + i), '\0'};

        uid[0] = i;
        assert_true(wp_pools_found(rig.pools, 0, uid, wp_str_from(name), &ref));
        wp_fake_backend_found(&rig.backend, ref, name);
    }
    uid[0] = 3;
    assert_false(wp_pools_found(rig.pools, 0, uid, WP_STR("p-z"), &ref));
    wp_rig_fini(&rig);
}

static void
an_ordered_sandbox_is_found_under_its_own_ref(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_lease_record record;
    struct wp_slot_ref ref;
    uint32_t cursor = 0;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_settle(&a);
    assert_int_equal(
        wp_pools_known_records(a.pools, 0, false, &cursor, &record, 1), 1);
    assert_true(wp_pools_found(a.pools, 0, record.uid,
                               wp_str_from(record.sandbox), &ref));
    assert_int_equal(replica_stats(&a).created_total, 1);
    replica_close(&a);
    /* And one that a record told of. */
    replica_open(&b, 0, 1, true);
    assert_true(wp_pools_found(b.pools, 0, record.uid,
                               wp_str_from(record.sandbox), &ref));
    wp_fake_backend_adopt(&b.backend, ref);
    wp_pools_lose_unseen(b.pools);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).ready, 1);
    assert_int_equal(replica_stats(&b).created_total, 1);
    replica_close(&b);
}

/* A leader's last grant, of which the next one, b, has not heard: *ref is what b
 * finds, which does not answer at that moment. */
static void
find_leased(struct replica *b, struct wp_rig_claim *c, struct wp_slot_ref *ref)
{
    struct replica a;

    replica_open(&a, 0, 1, true);
    replica_open(b, 1, 1, false);
    assert_true(
        wp_pools_found(a.pools, 0, foreign_uid, WP_STR("p-x7k2q"), ref));
    wp_fake_backend_found(&a.backend, *ref, "p-x7k2q");
    (void)wp_fake_backend_make_ready(&a.backend, 1);
    replica_settle(&a);
    assert_int_equal(replica_claim(&a, c, "c1"), WP_OK);
    replica_close(&a);
    wp_pools_set_keeper(b->pools, true);
    assert_true(
        wp_pools_found(b->pools, 0, foreign_uid, WP_STR("p-x7k2q"), ref));
    wp_fake_backend_found(&b->backend, *ref, "p-x7k2q");
    assert_int_equal(replica_stats(b).leased, 0);
}

static void
the_lease_of_a_found_sandbox_is_heard_of_late(void **state)
{
    struct replica b;
    struct wp_rig_claim c;
    struct wp_claim_info info;
    struct wp_slot_ref ref;

    (void)state;
    find_leased(&b, &c, &ref);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 1);
    /* Of a leased one nothing comes of that. */
    wp_pools_retire(b.pools, ref, WP_STR("it is not Ready"));
    replica_settle(&b);
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_OK);
    assert_false(info.lost);
    assert_string_equal(info.endpoint, c.claim.grant.endpoint);
    assert_int_equal(replica_change(&b, &c, true, NULL), WP_OK);
    assert_int_equal(replica_change(&b, &c, false, NULL), WP_OK);
    replica_settle(&b);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_HELD), 0);
    replica_close(&b);
}

/* Held, but lost meanwhile, as b hears of a sandbox that it has just found. */
static void
a_found_sandbox_was_lost_under_its_lease(void **state)
{
    struct replica b;
    struct wp_rig_claim c;
    struct wp_lease_record record;
    struct wp_claim_info info;
    struct wp_slot_ref ref;

    (void)state;
    find_leased(&b, &c, &ref);
    replica_store.ports[1].n_feed = 0;
    record = *wp_model_claimed(&replica_store, "c1");
    record.state = WP_RECORD_LOST;
    (void)snprintf(record.lost_reason, sizeof record.lost_reason,
                   "its node died");
    wp_pools_on_record(b.pools, &record);
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &info),
                     WP_OK);
    assert_true(info.lost);
    assert_string_equal(info.lost_reason, "its node died");
    replica_close(&b);
}

static void
the_store_is_asked_before_a_found_sandbox_goes(void **state)
{
    struct replica b;
    struct wp_rig_claim c;
    struct wp_claim_info info;
    struct wp_slot_ref ref;

    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        if (lost == 1) {
            (void)replica_set_up_shared(state);
        }
        find_leased(&b, &c, &ref);
        replica_store.ports[1].n_feed = 0; /* It is never heard. */
        if (lost == 1) {
            wp_pools_on_lost(b.pools, ref, WP_STR("not ready in time"));
        } else {
            wp_pools_retire(b.pools, ref, WP_STR("not wanted"));
        }
        replica_settle(&b);
        assert_non_null(wp_model_claimed(&replica_store, "c1"));
        assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("c1"), &info),
                         WP_OK);
        assert_int_equal(info.lost, lost == 1);
        /* It was claimed elsewhere: that is learnt from, too. */
        assert_int_equal(wp_pools_at(b.pools, 0)->granted_elsewhere, 1);
        assert_int_equal(replica_change(&b, &c, false, NULL), WP_OK);
        replica_settle(&b);
        assert_null(wp_model_claimed(&replica_store, "c1"));
        replica_close(&b);
    }
}

static void
a_found_sandbox_is_recorded_and_restored(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_slot_ref ref;

    (void)state;
    replica_open(&a, 0, 0, true);
    assert_int_equal(wp_pools_set_target(a.pools, 0, 1, NULL), WP_OK);
    assert_true(
        wp_pools_found(a.pools, 0, foreign_uid, WP_STR("p-x7k2q"), &ref));
    wp_fake_backend_found(&a.backend, ref, "p-x7k2q");
    (void)wp_fake_backend_make_ready(&a.backend, 1);
    replica_settle(&a);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_OPEN), 1);
    replica_close(&a);
    replica_open(&b, 0, 1, true);
    assert_int_equal(replica_stats(&b).ready, 1);
    assert_int_equal(wp_pools_records_refused(b.pools), 0);
    replica_adopt_all(&b, 0);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).created_total, 1);
    replica_close(&b);
}

static void
a_smaller_pool_does_not_wait_for_what_is_not_ready(void **state)
{
    struct wp_rig rig;
    uint64_t created;

    (void)state;
    wp_rig_init_foreign(&rig, 16, 2, NULL);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 6, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).warming, 4);
    created = wp_rig_stats(&rig).created_total;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 3, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).warming, 1);
    assert_int_equal(wp_rig_stats(&rig).ready, 2);
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 1, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).warming, 0);
    assert_int_equal(wp_rig_stats(&rig).ready, 1);
    assert_int_equal(wp_rig_stats(&rig).failed_total, 0);
    /* No more went than had to: none was made anew. */
    assert_int_equal(wp_rig_stats(&rig).created_total, created);
    wp_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_found_sandbox_is_served_like_an_ordered_one),
        cmocka_unit_test(what_cannot_be_taken_in_is_refused),
        cmocka_unit_test_setup(an_ordered_sandbox_is_found_under_its_own_ref,
                               replica_set_up),
        cmocka_unit_test_setup(a_found_sandbox_is_recorded_and_restored,
                               replica_set_up),
        cmocka_unit_test_setup(the_lease_of_a_found_sandbox_is_heard_of_late,
                               replica_set_up_shared),
        cmocka_unit_test_setup(a_found_sandbox_was_lost_under_its_lease,
                               replica_set_up_shared),
        cmocka_unit_test_setup(the_store_is_asked_before_a_found_sandbox_goes,
                               replica_set_up_shared),
        cmocka_unit_test(a_smaller_pool_does_not_wait_for_what_is_not_ready),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
