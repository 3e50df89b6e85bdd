/* The lease that a slot has, as an op tells it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "pool/table/pools.h"
#include "tests/support/pool/pool_rig.h"

static struct wp_rig rig;

/* The first slot in that state. */
static struct wp_slot_ref
slot_in(enum wp_slot_state slot_state)
{
    struct wp_slots *slots = &rig.pools->slots;

    for (uint32_t i = 0; i < wp_slots_used_max(slots); i++) {
        struct wp_slot_ref ref = wp_slot_ref_at(slots, i);

        if (wp_slot_state(slots, ref) == slot_state) {
            return ref;
        }
    }
    return WP_SLOT_REF_NONE;
}

/* Goal: names and op are those of the lease, or empty, whatever was in their
 * memory. */
static void
test_what_is_told_of_a_lease(void **state)
{
    static const struct wp_lease_names none;
    struct wp_lease_names names;
    struct wp_lease_op op;
    struct wp_lease_op expected;
    struct wp_claim_view view;
    struct wp_rig_claim c;
    struct wp_slot_ref held;
    struct wp_slot_ref idle;

    (void)state;
    wp_rig_init(&rig, 8, 2, NULL);
    wp_rig_claim_init(&c, "one", "team-a", WP_NS_PER_S, 0);
    assert_int_equal(wp_rig_claim(&rig, &c), WP_OK);
    held = slot_in(WP_SLOT_LEASED);
    idle = slot_in(WP_SLOT_READY);
    assert_true(wp_pools_claim_of(rig.pools, held, &view));
    assert_string_equal(view.claim_id, "one");
    assert_false(wp_pools_claim_of(rig.pools, idle, &view));

    memset(&names, 'x', sizeof names);
    assert_true(wp_pools_lease_names(rig.pools, held, &names));
    assert_string_equal(names.sandbox, c.claim.grant.sandbox);
    assert_string_equal(names.claim_id, "one");
    assert_string_equal(names.tenant, "team-a");
    memset(&op, 'x', sizeof op);
    wp_pools_lease_op(rig.pools, held, WP_LEASE_EXPIRE, &names, &op);
    memset(&expected, 0, sizeof expected);
    expected.kind = WP_LEASE_EXPIRE;
    expected.ref = held;
    wp_slot_uid(&rig.pools->slots, held, expected.uid);
    expected.fence = c.claim.grant.fence;
    expected.deadline_wall_ms = c.claim.grant.deadline_wall_ms;
    expected.pool_namespace = op.pool_namespace;
    expected.pool = op.pool;
    expected.sandbox = op.sandbox;
    expected.claim_id = op.claim_id;
    expected.tenant = op.tenant;
    assert_memory_equal(&op, &expected, sizeof op);
    assert_true(wp_str_is(op.pool_namespace, "default"));
    assert_true(wp_str_is(op.pool, "p"));
    assert_true(wp_str_is(op.sandbox, c.claim.grant.sandbox));
    assert_true(wp_str_is(op.claim_id, "one"));
    assert_true(wp_str_is(op.tenant, "team-a"));

    /* Nobody holds the other one; of no slot there is nothing. */
    memset(&names, 'x', sizeof names);
    assert_false(wp_pools_lease_names(rig.pools, idle, &names));
    assert_true(wp_str_starts_with(wp_str_from(names.sandbox), WP_STR("p-")));
    assert_string_equal(names.claim_id, "");
    assert_string_equal(names.tenant, "");
    idle.generation++;
    memset(&names, 'x', sizeof names);
    assert_false(wp_pools_lease_names(rig.pools, idle, &names));
    assert_memory_equal(&names, &none, sizeof names);
    wp_rig_fini(&rig);
}

/* Goal: only what somebody holds ends, and once. */
static void
test_only_what_is_held_ends(void **state)
{
    struct wp_rig_claim c;
    struct wp_claim_info info;
    struct wp_slot_ref held;

    (void)state;
    wp_rig_init(&rig, 8, 2, NULL);
    assert_int_equal(wp_rig_claim_lasting(&rig, &c, "one"), WP_OK);
    held = slot_in(WP_SLOT_LEASED);
    assert_false(wp_pools_end_held(rig.pools, slot_in(WP_SLOT_READY)));
    assert_true(wp_pools_end_held(rig.pools, held));
    assert_int_equal(
        wp_pools_get(rig.pools, WP_STR("system:t"), WP_STR("one"), &info),
        WP_NOT_FOUND);
    assert_false(wp_pools_end_held(rig.pools, held));
    wp_pools_mark(rig.pools, held.index);
    wp_rig_settle(&rig);
    wp_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_told_of_a_lease),
        cmocka_unit_test(test_only_what_is_held_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
