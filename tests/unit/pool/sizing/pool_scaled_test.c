/* What is told of a pool's changes of size: which, when, and how many there
 * were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "pool/table/pools.h"
#include "tests/support/base/journal.h"
#include "tests/support/pool/pool_rig.h"

#define MS WP_NS_PER_MS
#define S WP_NS_PER_S

static struct wp_rig rig;
static int64_t began_ns;

static void
on_scaled(void *ctx, uint32_t pool_index,
          const struct wp_scale_decision *decision)
{
    (void)ctx;
    journal("%lld ms: pool %u, %u to %u, %s",
            (long long)((rig.clock.now_mono_ns - began_ns) / MS), pool_index,
            decision->target_before, decision->target,
            decision->reason == WP_SCALE_BY_HAND ? "by hand" : "by itself");
    journal_line();
}

/* Only when control asked to be run. */
static void
sleep_until(int64_t ms)
{
    int64_t until_ns = began_ns + ms * MS;

    wp_rig_settle(&rig);
    while (rig.next_run_ns <= until_ns) {
        wp_rig_advance(&rig, rig.next_run_ns - rig.clock.now_mono_ns);
    }
    wp_rig_advance(&rig, until_ns - rig.clock.now_mono_ns);
}

static void
by_hand(uint32_t target)
{
    assert_int_equal(wp_pools_set_target(rig.pools, 0, target, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).replicas, target);
}

static struct wp_pool_spec
spec_of(uint32_t target, const char *min)
{
    struct wp_pool_spec spec;
    struct wp_err err;

    wp_pool_spec_init(&spec);
    spec.create_inflight_max = 1000;
    spec.target = target;
    assert_int_equal(wp_scale_policy_set(&spec.scale, WP_STR("objective"),
                                         WP_STR("99%"), &err),
                     WP_OK);
    assert_int_equal(
        wp_scale_policy_set(&spec.scale, WP_STR("min"), wp_str_from(min), &err),
        WP_OK);
    return spec;
}

static int
set_up(void **state)
{
    struct wp_pool_spec spec = spec_of(3, "0");

    (void)state;
    wp_rig_init(&rig, 64, 3, &spec);
    began_ns = rig.clock.now_mono_ns;
    rig.pools->config.scaled = on_scaled;
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    rig.pools->config.scaled = NULL;
    wp_rig_fini(&rig);
    return 0;
}

/* At once; then at most once a second, and what came between is told as one
 * change, from the size that was told last. */
static void
changes_are_told_once_a_second(void **state)
{
    (void)state;
    sleep_until(2000);
    journal_is("");
    by_hand(5);
    journal_is("2000 ms: pool 0, 3 to 5, by hand\n");
    sleep_until(2100);
    by_hand(9);
    by_hand(8);
    sleep_until(2999);
    journal_is("");
    sleep_until(3100);
    journal_is("3000 ms: pool 0, 5 to 8, by hand\n");
    sleep_until(60000);
    by_hand(6);
    journal_is("60000 ms: pool 0, 8 to 6, by hand\n");
}

/* What was taken back meanwhile is not told. */
static void
what_was_taken_back_is_not_told(void **state)
{
    (void)state;
    sleep_until(2000);
    by_hand(5);
    sleep_until(2100);
    by_hand(9);
    by_hand(5);
    sleep_until(10000);
    journal_is("2000 ms: pool 0, 3 to 5, by hand\n");
}

static uint64_t
changes_of(uint32_t pool_index)
{
    struct wp_pool_stats stats;
    uint64_t changes = 0;

    wp_pools_stats(rig.pools, pool_index, &stats);
    for (int i = 0; i < WP_SCALE_REASON_COUNT; i++) {
        changes += stats.scale_changes[i];
    }
    assert_int_equal(stats.scale_changes[stats.scale.reason], 1);
    return changes;
}

/* The size that a pool begins with is none that it was given; its first
 * decision counts, whatever it was. */
static void
the_first_size(void **state)
{
    static const struct {
        uint32_t target;
        const char *min;
    } sizes[] = {{0, "0"}, {4, "0"}, {4, "6"}};

    (void)state;
    for (uint32_t i = 0; i < WP_ARRAY_LEN(sizes); i++) {
        struct wp_pool_spec spec = spec_of(sizes[i].target, sizes[i].min);
        struct wp_err err;

        (void)snprintf(spec.name, sizeof spec.name, "pool-%u", i);
        (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
        assert_int_equal(wp_pools_add(rig.pools, &spec, NULL, &err), WP_OK);
        wp_rig_settle(&rig);
        assert_int_equal(changes_of(1 + i), 1);
    }
    sleep_until(5000);
    journal_is("0 ms: pool 3, 4 to 6, by itself\n");
}

/* Each decision that changed the size; none that left it
 * as it was. */
static void
changes_are_counted(void **state)
{
    (void)state;
    assert_int_equal(changes_of(0), 1);
    by_hand(5);
    by_hand(9);
    by_hand(9);
    sleep_until(5000);
    by_hand(2);
    assert_int_equal(wp_rig_stats(&rig).scale_changes[WP_SCALE_BY_HAND], 3);
    journal_drop();
}

static void
claim(const char *pool, const char *id)
{
    struct wp_rig_claim c;

    wp_rig_claim_init(&c, id, "", S, 0);
    c.claim.pool = wp_str_from(pool);
    assert_int_equal(wp_rig_claim(&rig, &c), WP_RESOURCE_EXHAUSTED);
}

/* A scaler is measured by the claims that came while there was one. */
static void
reactions_to_claims_of_before_do_not_count(void **state)
{
    struct wp_pool_spec plain;
    struct wp_pool_spec spec = spec_of(0, "1");
    struct wp_histogram_view view;
    struct wp_err err;

    (void)state;
    wp_pool_spec_init(&plain);
    (void)snprintf(plain.name, sizeof plain.name, "q");
    (void)snprintf(spec.name, sizeof spec.name, "q");
    assert_int_equal(wp_pools_add(rig.pools, &plain, NULL, &err), WP_OK);
    wp_rig_settle(&rig);
    claim("q", "before");
    wp_rig_advance(&rig, 100 * S);
    assert_int_equal(wp_pools_update(rig.pools, 1, &spec, &err), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_fake_backend_counts(&rig.backend).creates, 4);
    wp_histogram_read(wp_pools_scale_reaction(rig.pools, 1), &view);
    assert_int_equal(view.count, 0);
    journal_drop();
}

static void
set(struct wp_pool_spec *spec, const char *key, const char *value)
{
    struct wp_err err;

    assert_int_equal(wp_scale_policy_set(&spec->scale, wp_str_from(key),
                                         wp_str_from(value), &err),
                     WP_OK);
}

static int
set_up_foreign(void **state)
{
    struct wp_pool_spec spec = spec_of(0, "1");

    (void)state;
    set(&spec, "scale-down-window", "0");
    set(&spec, "scale-down-rate", "100%");
    wp_rig_init_foreign(&rig, 64, 0, &spec);
    return 0;
}

/* What is not needed any more is given up at once where somebody else makes
 * it, though it is not ready. */
static void
a_smaller_size_gives_up_what_is_being_made(void **state)
{
    int64_t now_ns = rig.clock.now_wall_ns;
    struct wp_err err;

    (void)state;
    rig.backend.ready = WP_FAKE_READY_DELAYED;
    rig.backend.ready_delay_ns = 3600 * S;
    wp_rig_advance(&rig, S);
    assert_int_equal(wp_rig_stats(&rig).ready, 1);
    assert_int_equal(wp_pools_scale_reserve(rig.pools, 0, WP_STR("r"), 10,
                                            now_ns, now_ns + 600 * S, &err),
                     WP_OK);
    wp_rig_advance(&rig, S);
    assert_int_equal(wp_rig_stats(&rig).warming, 9);
    assert_int_equal(wp_pools_scale_cancel(rig.pools, 0, WP_STR("r"), &err),
                     WP_OK);
    wp_rig_advance(&rig, S);
    assert_int_equal(wp_rig_stats(&rig).spec.target, 1);
    assert_int_equal(wp_rig_stats(&rig).warming, 0);
    assert_int_equal(wp_rig_stats(&rig).ready, 1);
    assert_int_equal(wp_fake_backend_counts(&rig.backend).live, 1);
}

static enum wp_scale_reason
reason_with(const char *name, uint32_t at_once)
{
    int64_t now_ns = rig.clock.now_wall_ns;
    struct wp_pool_spec spec = spec_of(2, "0");
    struct wp_pool_stats stats;
    struct wp_err err;
    uint32_t index;

    (void)snprintf(spec.name, sizeof spec.name, "%s", name);
    spec.create_inflight_max = at_once;
    assert_int_equal(wp_pools_add(rig.pools, &spec, &index, &err), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_pools_scale_reserve(rig.pools, index, WP_STR("r"), 10,
                                            now_ns, now_ns + 600 * S, &err),
                     WP_OK);
    wp_rig_settle(&rig);
    wp_pools_stats(rig.pools, index, &stats);
    return stats.scale.reason;
}

/* Where nothing can be made, for want of a template, nobody is promised more. */
static void
a_pool_that_makes_nothing_is_not_raised(void **state)
{
    (void)state;
    assert_int_equal(reason_with("some", 1), WP_SCALE_RESERVED);
    assert_int_equal(reason_with("none", 0), WP_SCALE_QUOTA);
    journal_drop();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(changes_are_told_once_a_second, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_was_taken_back_is_not_told, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_first_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            reactions_to_claims_of_before_do_not_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_smaller_size_gives_up_what_is_being_made, set_up_foreign,
            tear_down),
        cmocka_unit_test_setup_teardown(a_pool_that_makes_nothing_is_not_raised,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(changes_are_counted, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("pool_scaled", tests, NULL, NULL);
}
