/* Which of the replicas prefers a sandbox. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "pool/table/pools.h"

enum {
    SANDBOXES = 60,
};

static struct wp_pools pools;
static struct wp_slot_ref refs[SANDBOXES];

static int
set_up(void **state)
{
    (void)state;
    memset(&pools, 0, sizeof pools);
    pools.shared = true;
    assert_true(wp_slots_init(&pools.slots, SANDBOXES, 1));
    assert_true(wp_peers_create(&pools));
    for (uint32_t i = 0; i < SANDBOXES; i++) {
        uint8_t uid[WP_UID_LEN] = {(uint8_t)i};

        refs[i] = wp_slots_alloc(&pools.slots, 0, uid, 1);
    }
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_peers_destroy(&pools);
    wp_slots_fini(&pools.slots);
    return 0;
}

/* Goal: just one prefers each, and the very same in every version: replicas of
 * two of them work side by side while one takes the place of the other. */
static void
test_one_prefers_each(void **state)
{
    static const uint64_t ids[] = {1, 2, UINT64_C(0x123456789abcdef0)};
    char who[SANDBOXES + 1] = "";

    (void)state;
    for (uint32_t k = 0; k < 3; k++) {
        wp_pools_set_replicas(&pools, ids[k], ids, 3);
        for (uint32_t i = 0; i < SANDBOXES; i++) {
            if (wp_pools_prefer(&pools, refs[i])) {
                assert_int_equal(who[i], '\0');
                who[i] = (char)('1' + k);
            }
        }
    }
    assert_string_equal(
        who, "112312223132233333313323111322333212133321113113313313312213");
}

/* Goal: more than there may be are as if they were not there. */
static void
test_too_many_are_ignored(void **state)
{
    uint64_t ids[WP_REPLICAS_MAX + 1];

    (void)state;
    for (uint32_t i = 0; i < WP_REPLICAS_MAX; i++) {
        ids[i] = 7;
    }
    ids[WP_REPLICAS_MAX] = 8;
    wp_pools_set_replicas(&pools, 7, ids, WP_REPLICAS_MAX + 1);
    for (uint32_t i = 0; i < SANDBOXES; i++) {
        assert_true(wp_pools_prefer(&pools, refs[i]));
    }
    /* The last one that may be counts. */
    ids[WP_REPLICAS_MAX - 1] = 8;
    wp_pools_set_replicas(&pools, 7, ids, WP_REPLICAS_MAX);
    for (uint32_t i = 0, n = 0; n == 0; i++) {
        assert_true(i < SANDBOXES);
        n += wp_pools_prefer(&pools, refs[i]) ? 0 : 1;
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_prefers_each, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_too_many_are_ignored, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
