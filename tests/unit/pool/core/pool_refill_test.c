/* tests/unit/pool/core/pool_refill_test.c - a pool that keeps its target: what dies is
 * replaced, what keeps failing is not replaced at full speed, what is too many
 * is dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "pool/table/pools.h"
#include "tests/support/pool/pool_rig.h"

#define S WP_NS_PER_S

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

/* What the pool tells is a text of protobuf. */
static void
reasons_are_printable(void **state)
{
    struct wp_rig rig;
    char text[3 * WP_REASON_MAX + 1] = "";
    struct wp_pool_stats stats;

    (void)state;
    for (size_t i = 0; i + 3 < sizeof text; i += 3) {
        memcpy(text + i, "\xe2\x82\xac", 3);
    }
    wp_rig_init(&rig, 8, 0, NULL);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 2, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_fake_backend_fail(&rig.backend, 1, "a\x1b\xff\xc3"), 1);
    assert_string_equal(wp_rig_stats(&rig).last_failure, "a???");
    assert_int_equal(wp_fake_backend_fail(&rig.backend, 1, text), 1);
    stats = wp_rig_stats(&rig);
    assert_true(strlen(stats.last_failure) > WP_REASON_MAX - 3);
    assert_true(wp_str_is_printable(wp_str_from(stats.last_failure)));
    wp_rig_fini(&rig);
}

static void
nothing_becomes_ready_so_creation_stops(void **state)
{
    struct wp_rig rig;
    uint64_t created;
    char why[WP_REASON_MAX + 1] = "";

    (void)state;
    wp_rig_init(&rig, 64, 0, NULL);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 4, NULL), WP_OK);
    assert_false(wp_pools_fails(rig.pools, 0, why));
    for (int i = 0; i < 50; i++) {
        wp_rig_advance(&rig, 5 * WP_NS_PER_MS);
        (void)wp_fake_backend_fail(&rig.backend, 1, "no such image");
    }
    assert_true(wp_rig_stats(&rig).breaker_open);
    assert_string_equal(wp_rig_stats(&rig).last_failure, "no such image");
    assert_true(wp_pools_fails(rig.pools, 0, why));
    assert_string_equal(why, "no such image");
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

/* The backend is told all of what it makes, and the uid that tokens will have:
 * another one each time. */
static void
an_order_is_told_whole(void **state)
{
    uint8_t before[WP_UID_LEN] = {0};
    struct wp_pool_spec spec;
    struct wp_rig_claim c;
    struct wp_rig rig;

    (void)state;
    wp_pool_spec_init(&spec);
    spec.ready_within_ns = 77 * S;
    (void)snprintf(spec.egress, sizeof spec.egress, "example.org:443");
    wp_rig_init(&rig, 16, 0, &spec);
    for (uint32_t target = 1; target <= 3; target++) {
        _Atomic(uint64_t) *uid;
        uint64_t words[WP_UID_LEN / 8];
        char id[16];

        assert_int_equal(wp_pools_set_target(rig.pools, 0, 1, NULL), WP_OK);
        wp_rig_settle(&rig);
        assert_string_equal(rig.backend.order,
                            "default/p of 't', egress 'example.org:443', "
                            "within 77000000000");
        assert_memory_not_equal(rig.backend.order_uid, before, sizeof before);
        memcpy(before, rig.backend.order_uid, sizeof before);
        assert_int_equal(wp_pools_set_target(rig.pools, 0, 0, NULL), WP_OK);
        (void)snprintf(id, sizeof id, "c%u", target);
        wp_rig_claim_init(&c, id, "", 0, 0);
        assert_int_equal(wp_rig_claim(&rig, &c), WP_OK);
        uid = rig.pools->slots.cold[c.claim.grant.ref.index].uid;
        for (size_t i = 0; i < WP_ARRAY_LEN(words); i++) {
            words[i] = atomic_load(&uid[i]);
        }
        assert_memory_equal(words, before, sizeof before);
        wp_rig_settle(&rig);
    }
    wp_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_idle_sandbox_is_replaced_and_never_granted),
        cmocka_unit_test(reasons_are_printable),
        cmocka_unit_test(nothing_becomes_ready_so_creation_stops),
        cmocka_unit_test(
            sandboxes_that_crash_once_ready_are_not_replaced_at_full_speed),
        cmocka_unit_test(scale_down_drops_the_stalest_and_no_lease),
        cmocka_unit_test(
            crash_loop_of_idle_sandboxes_does_not_exhaust_the_slots),
        cmocka_unit_test(idle_pool_wants_no_turns),
        cmocka_unit_test(repeated_reports_change_nothing),
        cmocka_unit_test(an_order_is_told_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
