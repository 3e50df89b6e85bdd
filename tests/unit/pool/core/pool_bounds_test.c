/* The least and the most of pools: names, sizes and times; a pool that is made
 * smaller, and one that comes too late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "pool/claims/claim_table.h"
#include "pool/slots/timing_wheel.h"
#include "pool/table/pools.h"
#include "tests/unit/pool/core/one_pool.h"

/* --- A smaller pool --- */

/* Goal: where others see what is made, nobody waits for what is not wanted any
 * more; but those that claims wait for are made. */
static void
what_is_not_wanted_is_not_waited_for(void **state)
{
    struct wp_rig_claim c[2];

    (void)state;
    wp_rig_init_foreign(&rig, 32, 0, NULL);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 4, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 1), 1);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).ready, 1);
    assert_int_equal(wp_rig_stats(&rig).warming, 3);
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 4, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).warming, 3);
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 2, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).ready, 1);
    assert_int_equal(wp_rig_stats(&rig).warming, 1);
    assert_int_equal(claim(&c[0], "a", 0), WP_OK);
    assert_int_equal(claim(&c[1], "b", 10 * S), WP_PENDING);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).warming, 2);
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 0, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).warming, 1);
    assert_int_equal(wp_rig_stats(&rig).failed_total, 0);
    /* Of one that is drained nothing is wanted, whatever its size. */
    wp_pools_drain(rig.pools, 0);
    wp_rig_settle(&rig);
    assert_int_equal(c[1].claim.status, WP_UNAVAILABLE);
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 4, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).warming, 0);
    wp_rig_fini(&rig);
    /* What only this daemon knows is finished. */
    start(4, 8, WP_FAKE_READY_TOLD);
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 1, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).warming, 4);
    wp_rig_fini(&rig);
}

/* --- Names --- */

static void
only_the_name_of_a_held_sandbox_is_found(void **state)
{
    static const char long_name[] = "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
                                    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn";
    static const char *const others[] = {
        "",           "p",          "p-",          "bbbbbbb", "bbbbbbbb",
        "p-bbbbbbbb", "p-aaaaaaaa", "p-bbbbbbbbb", long_name};
    struct wp_rig_claim c;
    struct wp_claim_info info;
    char name[WP_SANDBOX_NAME_MAX + 2];

    (void)state;
    start(2, 8, WP_FAKE_READY_NEXT_TURN);
    assert_int_equal(claim(&c, "a", 0), WP_OK);
    for (size_t i = 0; i < WP_ARRAY_LEN(others); i++) {
        assert_int_equal(
            wp_pools_find_sandbox(rig.pools, wp_str_from(others[i]), &info),
            WP_NOT_FOUND);
    }
    (void)snprintf(name, sizeof name, "%s", c.claim.grant.sandbox);
    assert_int_equal(wp_pools_find_sandbox(rig.pools, wp_str_from(name), &info),
                     WP_OK);
    assert_string_equal(info.sandbox, name);
    assert_string_equal(info.claim_id, "a");
    assert_string_equal(info.tenant, "team-a");
    assert_string_equal(info.pool, "p");
    name[0] = 'q';
    assert_int_equal(wp_pools_find_sandbox(rig.pools, wp_str_from(name), &info),
                     WP_NOT_FOUND);
    name[0] = 'p';
    assert_int_equal(wp_rig_release(&rig, &c, NULL), WP_OK);
    assert_int_equal(wp_pools_find_sandbox(rig.pools, wp_str_from(name), &info),
                     WP_NOT_FOUND);
    wp_rig_fini(&rig);
}

/* Goal: the longest names are names. */
static void
pools_have_names_up_to_the_longest(void **state)
{
    char ns[WP_NAMESPACE_MAX + 2] = "";
    char name[WP_POOL_NAME_MAX + 2] = "";
    struct wp_pool_spec spec;
    struct wp_claim_info info;
    struct wp_rig_claim c;
    uint32_t index = 0;

    (void)state;
    start(0, 8, WP_FAKE_READY_NEXT_TURN);
    memset(ns, 'n', WP_NAMESPACE_MAX);
    memset(name, 'p', WP_POOL_NAME_MAX);
    wp_pool_spec_init(&spec);
    memcpy(spec.pool_namespace, ns, sizeof spec.pool_namespace);
    memcpy(spec.name, name, sizeof spec.name);
    spec.target = 1;
    assert_int_equal(wp_pools_add(rig.pools, &spec, &index, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(
        wp_pools_index(rig.pools, wp_str_from(ns), wp_str_from(name)), index);
    wp_rig_claim_init(&c, "a", "", 0, 0);
    c.claim.pool_namespace = wp_str_from(ns);
    c.claim.pool = wp_str_from(name);
    assert_int_equal(wp_rig_claim(&rig, &c), WP_OK);
    assert_int_equal(strlen(c.claim.grant.sandbox), WP_SANDBOX_NAME_MAX);
    assert_int_equal(wp_pools_find_sandbox(
                         rig.pools, wp_str_from(c.claim.grant.sandbox), &info),
                     WP_OK);
    assert_string_equal(info.sandbox, c.claim.grant.sandbox);
    assert_string_equal(info.pool, name);
    assert_int_equal(wp_pools_index(rig.pools, WP_STR(""), wp_str_from(name)),
                     UINT32_MAX);
    assert_int_equal(wp_pools_index(rig.pools, wp_str_from(ns), WP_STR("")),
                     UINT32_MAX);
    ns[WP_NAMESPACE_MAX] = 'n';
    assert_int_equal(
        wp_pools_index(rig.pools, wp_str_from(ns), wp_str_from(name)),
        UINT32_MAX);
    ns[WP_NAMESPACE_MAX] = '\0';
    name[WP_POOL_NAME_MAX] = 'p';
    assert_int_equal(
        wp_pools_index(rig.pools, wp_str_from(ns), wp_str_from(name)),
        UINT32_MAX);
    wp_rig_fini(&rig);
}

/* --- The end --- */

static void
pools_of_a_daemon_that_stops_take_no_claims(void **state)
{
    (void)state;
    for (int leave = 0; leave < 2; leave++) {
        struct wp_pool_spec spec;
        struct wp_rig_claim c;
        uint32_t index = 0;
        struct wp_pool_stats stats;

        start(1, 8, WP_FAKE_READY_NEXT_TURN);
        if (leave != 0) {
            wp_pools_leave(rig.pools, false);
        } else {
            wp_pools_stop(rig.pools);
        }
        wp_pool_spec_init(&spec);
        (void)snprintf(spec.name, sizeof spec.name, "late");
        spec.target = 1;
        assert_int_equal(wp_pools_add(rig.pools, &spec, &index, NULL), WP_OK);
        wp_rig_settle(&rig);
        wp_pools_stats(rig.pools, index, &stats);
        assert_true(stats.draining);
        assert_int_equal(stats.created_total, 0);
        wp_rig_claim_init(&c, "a", "", 0, 10 * S);
        c.claim.pool = WP_STR("late");
        assert_int_equal(wp_rig_claim(&rig, &c), WP_UNAVAILABLE);
        assert_string_equal(c.claim.reason, "the pool is draining");
        wp_rig_fini(&rig);
    }
}

/* --- What is refused --- */

static void
a_pool_is_refused_in_words(void **state)
{
    static const char ttl[] = "pool 'late': ttl: 1 s <= default <= max <= 30 "
                              "days expected";
    static const char waits[] = "pool 'late': ready-within must be above 0, "
                                "wait-max at most 10 min";
    static const struct {
        int64_t ttl_default_ns, ttl_max_ns, ready_within_ns, wait_max_ns;
        uint32_t target;
        const char *says; /* NULL: it is taken. */
    } rows[] = {
        {1 * S, 1 * S, 1, 0, 0, NULL},
        {1 * S, WP_TTL_MAX_NS, 1, WP_WAIT_MAX_NS, WP_TARGET_MAX, NULL},
        {1 * S - 1, 1 * S, 1, 0, 0, ttl},
        {1 * S, WP_TTL_MAX_NS + 1, 1, 0, 0, ttl},
        {2 * S, 2 * S - 1, 1, 0, 0, ttl},
        {1 * S, 1 * S, 0, 0, 0, waits},
        {1 * S, 1 * S, 1, -1, 0, waits},
        {1 * S, 1 * S, 1, WP_WAIT_MAX_NS + 1, 0, waits},
    };
    struct wp_pool_spec spec;
    struct wp_err err;
    char says[sizeof err.msg];

    (void)state;
    start(1, 8, WP_FAKE_READY_NEXT_TURN);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        uint32_t index;

        err.msg[0] = '\0';
        wp_pool_spec_init(&spec);
        (void)snprintf(spec.name, sizeof spec.name, "late");
        spec.ttl_default_ns = rows[i].ttl_default_ns;
        spec.ttl_max_ns = rows[i].ttl_max_ns;
        spec.ready_within_ns = rows[i].ready_within_ns;
        spec.wait_max_ns = rows[i].wait_max_ns;
        spec.target = rows[i].target;
        spec.create_inflight_max = 1;
        assert_int_equal(wp_pools_add(rig.pools, &spec, &index, &err),
                         rows[i].says == NULL ? WP_OK : WP_INVALID_ARGUMENT);
        assert_string_equal(err.msg, rows[i].says != NULL ? rows[i].says : "");
        if (rows[i].says == NULL) {
            wp_pools_remove(rig.pools, index);
        }
    }
    wp_pool_spec_init(&spec);
    (void)snprintf(spec.name, sizeof spec.name, "late");
    spec.target = WP_TARGET_MAX + 1;
    assert_int_equal(wp_pools_add(rig.pools, &spec, NULL, &err),
                     WP_INVALID_ARGUMENT);
    (void)snprintf(says, sizeof says,
                   "pool 'late': target: at most %d expected, got %u",
                   WP_TARGET_MAX, spec.target);
    assert_string_equal(err.msg, says);
    (void)snprintf(spec.name, sizeof spec.name, "Late");
    assert_int_equal(wp_pools_add(rig.pools, &spec, NULL, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "pool 'default/Late': DNS names expected");
    (void)snprintf(spec.name, sizeof spec.name, "late");
    (void)snprintf(spec.pool_namespace, sizeof spec.pool_namespace, "-");
    assert_int_equal(wp_pools_add(rig.pools, &spec, NULL, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "pool '-/late': DNS names expected");
    wp_rig_fini(&rig);
}

static void
a_size_is_refused_in_words(void **state)
{
    static const uint32_t rows[][2] = {
        {0, 1}, {16777217, 16777217}, {2, 1}, {2, WP_CLAIMS_MAX + 1u}};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        const struct wp_pools_config config = {
            .slots_max = rows[i][0],
            .claims_max = rows[i][1],
            .clock = wp_clock_system(),
        };
        struct wp_err err = {.msg = ""};
        char says[sizeof err.msg];

        assert_null(wp_pools_create(&config, &err));
        assert_int_equal(err.status, WP_INVALID_ARGUMENT);
        if (i < 2) {
            (void)snprintf(says, sizeof says,
                           "slots_max: 1 to 16777216 expected, got %u",
                           rows[i][0]);
        } else {
            (void)snprintf(says, sizeof says,
                           "claims_max: 2 (slots_max) to %d expected, got %u",
                           WP_CLAIMS_MAX, rows[i][1]);
        }
        assert_string_equal(err.msg, says);
    }
}

/* --- Memory --- */

/* What pools of so many slots take but for the parts that tell their own size.
 */
static uint64_t
other_bytes(uint32_t slots_max)
{
    const struct wp_pools *pools;
    uint64_t parts;
    uint64_t all;

    wp_rig_init(&rig, slots_max, 0, NULL);
    pools = rig.pools;
    parts = sizeof *pools + wp_slots_memory_bytes(&pools->slots) +
            wp_claim_table_memory_bytes(&pools->claims) +
            wp_accounts_bytes(&pools->accounts) +
            wp_timing_wheel_bytes(slots_max);
    all = wp_pools_memory_bytes(pools);
    assert_true(all > parts);
    wp_rig_fini(&rig);
    return all - parts;
}

/* Goal: the memory that is told of is all that was reserved. */
static void
memory_is_told_whole(void **state)
{
    uint64_t some = other_bytes(512);
    uint64_t more = other_bytes(1024);

    (void)state;
    /* Of each slot, the lease that the backend was told of. */
    assert_int_equal(more - some, 512 * 24);
    assert_in_range(some, 512 * 24, 1 << 20);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_wanted_is_not_waited_for),
        cmocka_unit_test(only_the_name_of_a_held_sandbox_is_found),
        cmocka_unit_test(pools_have_names_up_to_the_longest),
        cmocka_unit_test(pools_of_a_daemon_that_stops_take_no_claims),
        cmocka_unit_test(a_pool_is_refused_in_words),
        cmocka_unit_test(a_size_is_refused_in_words),
        cmocka_unit_test(memory_is_told_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
