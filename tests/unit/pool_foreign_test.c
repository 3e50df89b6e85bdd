/* Sandboxes that others see too: leases without a deadline, leases that
 * somebody else ends, sandboxes that are found and given up, and what the
 * backend is told of leases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/support/replica_rig.h"

#define S WP_NS_PER_S
#define YEAR (365 * 24 * 3600 * S)

static const uint8_t foreign_uid[WP_UID_LEN] = "0123456789abcdef";

/* --- Leases without a deadline --- */

static void
lasting_claim(struct wp_rig *rig, struct wp_rig_claim *c, const char *id)
{
    wp_rig_claim_init(c, id, "system:t", 0, 0);
    c->claim.lasting = true;
    assert_int_equal(wp_rig_claim(rig, c), WP_OK);
}

static void
a_lasting_lease_never_expires(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;
    bool was_held;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    lasting_claim(&rig, &c, "a");
    assert_true(c.claim.grant.deadline_ns == WP_TIME_NEVER);
    assert_int_equal(c.claim.grant.deadline_wall_ms, WP_WALL_NEVER_MS);
    wp_rig_advance(&rig, 20 * YEAR);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_true(rig.next_run_ns > rig.clock.now_mono_ns + YEAR);
    /* A renewal leaves it as it is. */
    assert_int_equal(wp_rig_renew(&rig, &c, 10 * S), WP_OK);
    wp_rig_advance(&rig, YEAR);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_release(&rig, &c, &was_held), WP_OK);
    assert_true(was_held);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 1);
    wp_rig_fini(&rig);
}

static void
a_repeat_must_be_lasting_too(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;
    struct wp_rig_claim again;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    lasting_claim(&rig, &c, "a");
    lasting_claim(&rig, &again, "a");
    assert_true(again.claim.replayed);
    assert_string_equal(again.claim.grant.sandbox, c.claim.grant.sandbox);
    wp_rig_claim_init(&again, "a", "system:t", 10 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &again), WP_ALREADY_EXISTS);
    wp_rig_fini(&rig);
}

static void
a_lasting_lease_is_restored_as_one(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_claim_info info;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    wp_rig_claim_init(&c, "kept", "", 0, 0);
    c.claim.lasting = true;
    assert_int_equal(wp_pools_claim(a.pools, &c.claim), WP_OK);
    assert_int_equal(wp_model_claimed(&replica_store, "kept")->deadline_wall_ms,
                     WP_WALL_NEVER_MS);
    replica_close(&a);
    replica_open(&b, 0, 2, true);
    replica_adopt_all(&b, 0);
    replica_settle(&b);
    wp_clock_manual_advance(&replica_clock, 20 * YEAR);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 1);
    assert_int_equal(wp_pools_get(b.pools, WP_STR(""), WP_STR("kept"), &info),
                     WP_OK);
    assert_int_equal(info.deadline_wall_ms, WP_WALL_NEVER_MS);
    wp_pools_end(b.pools, info.ref);
    replica_settle(&b);
    assert_int_equal(replica_stats(&b).leased, 0);
    assert_null(wp_model_claimed(&replica_store, "kept"));
    replica_close(&b);
}

/* --- Ends from outside --- */

static void
an_end_is_a_release(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    lasting_claim(&rig, &c, "a");
    wp_pools_end(rig.pools, c.claim.grant.ref);
    wp_pools_end(rig.pools, c.claim.grant.ref);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 1);
    assert_int_equal(wp_rig_stats(&rig).released_total, 1);
    assert_int_equal(wp_rig_stats(&rig).expired_total, 0);
    assert_int_equal(wp_rig_renew(&rig, &c, 10 * S), WP_NOT_FOUND);
    /* The slot's next life is not meant. */
    wp_pools_end(rig.pools, c.claim.grant.ref);
    lasting_claim(&rig, &c, "a");
    lasting_claim(&rig, &c, "b");
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 2);
    wp_rig_fini(&rig);
}

static void
an_end_leaves_idle_and_unknown_ones_alone(void **state)
{
    struct wp_rig rig;

    (void)state;
    wp_rig_init(&rig, 4, 3, NULL);
    for (uint32_t i = 0; i < 6; i++) {
        wp_pools_end(rig.pools, (struct wp_slot_ref){i, 1});
    }
    wp_pools_end(rig.pools, WP_SLOT_REF_NONE);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).ready, 3);
    assert_int_equal(wp_rig_stats(&rig).created_total, 3);
    wp_rig_fini(&rig);
}

static void
an_end_of_a_lost_lease_frees_it(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    lasting_claim(&rig, &c, "a");
    assert_true(
        wp_fake_backend_lose(&rig.backend, c.claim.grant.ref, "it died"));
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_pools_end(rig.pools, c.claim.grant.ref);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 1);
    wp_rig_fini(&rig);
}

static void
an_end_waits_for_the_store(void **state)
{
    struct replica a;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_settle(&a);
    assert_int_equal(replica_claim(&a, &c, "c1"), WP_OK);
    replica_settle(&a);
    replica_store.ports[0].fault = WP_UNAVAILABLE;
    wp_pools_end(a.pools, c.claim.grant.ref);
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).leased, 1);
    replica_store.ports[0].fault = WP_OK;
    wp_clock_manual_advance(&replica_clock, S);
    replica_settle(&a);
    assert_int_equal(replica_stats(&a).leased, 0);
    assert_null(wp_model_claimed(&replica_store, "c1"));
    replica_close(&a);
}

static void
a_follower_ends_a_lease_too(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    wp_pools_end(b.pools, c.claim.grant.ref);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 0);
    assert_int_equal(replica_stats(&b).leased, 0);
    assert_int_equal(wp_fake_backend_counts(&a.backend).live, 2);
    replica_close(&b);
    replica_close(&a);
}

static void
an_end_beats_an_undo(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    lasting_claim(&rig, &c, "a");
    wp_pools_undo(rig.pools, &c.claim);
    wp_pools_end(rig.pools, c.claim.grant.ref);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 1);
    wp_rig_fini(&rig);
}

static void
an_end_that_comes_after_the_undo_does_not_hit_the_next_lease(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;
    struct wp_slot_ref ref;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    lasting_claim(&rig, &c, "a");
    ref = c.claim.grant.ref;
    /* The undo is on its way to the store when the end comes. */
    rig.store_later = true;
    wp_pools_undo(rig.pools, &c.claim);
    (void)wp_pools_run(rig.pools);
    assert_int_equal(rig.store_kept, 1);
    wp_pools_end(rig.pools, ref);
    rig.store_later = false;
    (void)wp_rig_store_answer(&rig, WP_OK);
    lasting_claim(&rig, &c, "b");
    assert_int_equal(c.claim.grant.ref.index, ref.index);
    assert_int_equal(c.claim.grant.ref.generation, ref.generation);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_rig_fini(&rig);
}

/* --- Given up --- */

static void
a_retired_sandbox_is_replaced_and_is_no_failure(void **state)
{
    struct wp_rig rig;
    struct wp_slot_ref ref;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    for (uint32_t i = 0; i < 12; i++) {
        struct wp_rig_claim c;

        wp_rig_claim_init(&c, "peek", "", 10 * S, 0);
        assert_int_equal(wp_rig_claim(&rig, &c), WP_OK);
        ref = c.claim.grant.ref;
        wp_pools_undo(rig.pools, &c.claim);
        wp_rig_settle(&rig);
        wp_pools_retire(rig.pools, ref, WP_STR("an old template"));
        wp_pools_retire(rig.pools, ref, WP_STR("an old template"));
        wp_rig_settle(&rig);
    }
    assert_int_equal(wp_rig_stats(&rig).retired_total, 12);
    assert_int_equal(wp_rig_stats(&rig).lost_total, 0);
    assert_int_equal(wp_rig_stats(&rig).failed_total, 0);
    assert_int_equal(wp_rig_stats(&rig).ready, 2);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 12);
    assert_false(wp_rig_stats(&rig).breaker_open);
    assert_string_equal(wp_rig_stats(&rig).last_retired, "an old template");
    assert_string_equal(wp_rig_stats(&rig).last_failure, "");
    wp_rig_fini(&rig);
}

static void
a_warming_sandbox_can_be_retired(void **state)
{
    struct wp_rig rig;
    struct wp_pool_stats stats;

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 1, NULL), WP_OK);
    wp_rig_settle(&rig);
    wp_pools_retire(rig.pools, (struct wp_slot_ref){0, 1}, WP_STR("stuck"));
    wp_rig_settle(&rig);
    stats = wp_rig_stats(&rig);
    assert_int_equal(stats.retired_total, 1);
    assert_int_equal(stats.failed_total, 0);
    assert_int_equal(stats.warming, 1);
    assert_int_equal(stats.destroyed_total, 1);
    wp_rig_fini(&rig);
}

static void
a_leased_sandbox_is_never_retired(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    lasting_claim(&rig, &c, "a");
    wp_pools_retire(rig.pools, c.claim.grant.ref, WP_STR("old"));
    wp_pools_retire(rig.pools, WP_SLOT_REF_NONE, WP_STR("old"));
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_stats(&rig).retired_total, 0);
    wp_rig_fini(&rig);
}

static struct wp_slot_ref
ref_of_a_ready_one(struct replica *r)
{
    for (uint32_t i = 0; i < WP_MODEL_RECORDS; i++) {
        struct wp_slot_ref ref;

        if (replica_store.records[i].state == WP_RECORD_OPEN &&
            wp_pools_seen(r->pools, replica_store.records[i].uid, &ref)) {
            return ref;
        }
    }
    return WP_SLOT_REF_NONE;
}

static void
a_retirement_asks_a_shared_store_first(void **state)
{
    struct replica a;
    struct replica b;
    struct wp_rig_claim c;
    struct wp_slot_ref ref;

    (void)state;
    replica_open(&a, 0, 1, true);
    replica_open(&b, 1, 1, false);
    replica_settle_both(&a, &b);
    ref = ref_of_a_ready_one(&a);
    /* b grants it, and a has not heard of that. */
    assert_int_equal(replica_claim(&b, &c, "c1"), WP_OK);
    wp_pools_retire(a.pools, ref, WP_STR("old"));
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).leased, 1);
    assert_int_equal(replica_stats(&a).ready, 1);
    ref = ref_of_a_ready_one(&a);
    wp_pools_retire(a.pools, ref, WP_STR("old"));
    replica_settle_both(&a, &b);
    assert_int_equal(replica_stats(&a).ready, 1);
    assert_int_equal(wp_fake_backend_counts(&a.backend).destroyed, 1);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_OPEN), 1);
    assert_int_equal(wp_model_count(&replica_store, WP_RECORD_ENDED), 0);
    replica_close(&b);
    replica_close(&a);
}

/* --- Found --- */

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
    lasting_claim(&rig, &c, "a");
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

    (void)state;
    wp_rig_init_foreign(&rig, 16, 2, NULL);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 6, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).warming, 4);
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 3, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).warming, 1);
    assert_int_equal(wp_rig_stats(&rig).ready, 2);
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 1, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).warming, 0);
    assert_int_equal(wp_rig_stats(&rig).ready, 1);
    assert_int_equal(wp_rig_stats(&rig).failed_total, 0);
    wp_rig_fini(&rig);
}

/* --- Notices --- */

static void
the_backend_is_told_of_each_lease_behind_its_answer(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;

    (void)state;
    wp_rig_init_foreign(&rig, 16, 2, NULL);
    assert_int_equal(rig.backend.notices, 0);
    lasting_claim(&rig, &c, "a");
    assert_int_equal(rig.backend.notices, 0);
    wp_rig_settle(&rig);
    assert_int_equal(rig.backend.notices, 1);
    assert_true(wp_slot_ref_eq(rig.backend.notice.ref, c.claim.grant.ref));
    assert_string_equal(rig.backend.notice.claim_id, "a");
    assert_string_equal(rig.backend.notice.tenant, "system:t");
    assert_string_equal(rig.backend.notice.pool, "p");
    assert_string_equal(rig.backend.notice.sandbox, c.claim.grant.sandbox);
    assert_int_equal(rig.backend.notice.fence, c.claim.grant.fence);
    assert_int_equal(rig.backend.notice.deadline_wall_ms, WP_WALL_NEVER_MS);
    /* Once for each lease, until it becomes the keeper again. */
    assert_int_equal(wp_rig_renew(&rig, &c, 10 * S), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(rig.backend.notices, 1);
    wp_pools_set_keeper(rig.pools, false);
    wp_rig_settle(&rig);
    assert_int_equal(rig.backend.notices, 1);
    wp_pools_set_keeper(rig.pools, true);
    wp_rig_settle(&rig);
    assert_int_equal(rig.backend.notices, 2);
    wp_rig_fini(&rig);
}

static void
a_lease_after_an_undo_is_told_too(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;

    (void)state;
    wp_rig_init_foreign(&rig, 16, 1, NULL);
    lasting_claim(&rig, &c, "a");
    wp_rig_settle(&rig);
    wp_pools_undo(rig.pools, &c.claim);
    wp_rig_settle(&rig);
    lasting_claim(&rig, &c, "b");
    wp_rig_settle(&rig);
    assert_int_equal(rig.backend.notices, 2);
    assert_string_equal(rig.backend.notice.claim_id, "b");
    assert_int_equal(rig.backend.notice.fence, 2);
    wp_rig_fini(&rig);
}

static void
the_keeper_is_told_of_leases_of_others(void **state)
{
    struct replica a;
    struct replica b;
    struct replica c;
    struct wp_rig_claim claim;

    (void)state;
    replica_open(&a, 0, 2, true);
    replica_open(&b, 1, 2, false);
    replica_settle_both(&a, &b);
    assert_int_equal(replica_claim(&b, &claim, "c1"), WP_OK);
    replica_settle_both(&a, &b);
    assert_int_equal(a.backend.notices, 1);
    assert_int_equal(b.backend.notices, 0);
    assert_string_equal(a.backend.notice.claim_id, "c1");
    assert_int_equal(a.backend.notice.fence, claim.claim.grant.fence);
    replica_close(&b);
    replica_close(&a);
    /* And of those that its predecessor left. */
    replica_open(&c, 0, 2, true);
    replica_adopt_all(&c, 0);
    replica_settle(&c);
    assert_int_equal(c.backend.notices, 1);
    assert_string_equal(c.backend.notice.sandbox, claim.claim.grant.sandbox);
    replica_close(&c);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lasting_lease_never_expires),
        cmocka_unit_test(a_repeat_must_be_lasting_too),
        cmocka_unit_test_setup(a_lasting_lease_is_restored_as_one,
                               replica_set_up),
        cmocka_unit_test(an_end_is_a_release),
        cmocka_unit_test(an_end_leaves_idle_and_unknown_ones_alone),
        cmocka_unit_test(an_end_of_a_lost_lease_frees_it),
        cmocka_unit_test_setup(an_end_waits_for_the_store, replica_set_up),
        cmocka_unit_test_setup(a_follower_ends_a_lease_too,
                               replica_set_up_shared),
        cmocka_unit_test(an_end_beats_an_undo),
        cmocka_unit_test(
            an_end_that_comes_after_the_undo_does_not_hit_the_next_lease),
        cmocka_unit_test(a_retired_sandbox_is_replaced_and_is_no_failure),
        cmocka_unit_test(a_warming_sandbox_can_be_retired),
        cmocka_unit_test(a_leased_sandbox_is_never_retired),
        cmocka_unit_test_setup(a_retirement_asks_a_shared_store_first,
                               replica_set_up_shared),
        cmocka_unit_test(a_found_sandbox_is_served_like_an_ordered_one),
        cmocka_unit_test(what_cannot_be_taken_in_is_refused),
        cmocka_unit_test_setup(an_ordered_sandbox_is_found_under_its_own_ref,
                               replica_set_up),
        cmocka_unit_test_setup(a_found_sandbox_is_recorded_and_restored,
                               replica_set_up),
        cmocka_unit_test_setup(the_lease_of_a_found_sandbox_is_heard_of_late,
                               replica_set_up_shared),
        cmocka_unit_test_setup(the_store_is_asked_before_a_found_sandbox_goes,
                               replica_set_up_shared),
        cmocka_unit_test(a_smaller_pool_does_not_wait_for_what_is_not_ready),
        cmocka_unit_test(the_backend_is_told_of_each_lease_behind_its_answer),
        cmocka_unit_test(a_lease_after_an_undo_is_told_too),
        cmocka_unit_test_setup(the_keeper_is_told_of_leases_of_others,
                               replica_set_up_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
