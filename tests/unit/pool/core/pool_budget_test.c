/* Scaled pools that share a budget, on a clock of the test's own. What they
 * want is reserved, so that it is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/pool/fake_backend.h"
#include "tests/support/pool/manual_clock.h"

#define MS WP_NS_PER_MS
#define S WP_NS_PER_S

enum {
    SLOTS = 512,
    TOTAL = 30,
};

struct world {
    struct wp_clock_manual clock;
    struct wp_fake_backend backend;
    struct wp_pools *pools;
    uint32_t troubles;
    char group[64];
    uint64_t mins;
    bool has_total;
};

static void
wake(void *ctx)
{
    (void)ctx;
}

static void
trouble(void *ctx, const char *group, const struct wp_budget_total *total,
        uint64_t mins)
{
    struct world *world = ctx;

    world->troubles++;
    (void)snprintf(world->group, sizeof world->group, "%s", group);
    world->has_total = total != NULL;
    world->mins = mins;
}

static enum wp_status
commit(void *self, struct wp_lease_op *op)
{
    (void)self;
    (void)op;
    return WP_OK;
}

/* Until nothing more happens now. */
static void
settle(struct world *world)
{
    for (int quiet = 0; quiet < 3;) {
        int64_t next_ns = wp_pools_run(world->pools);
        bool worked = wp_fake_backend_turn(&world->backend) > 0;

        quiet = !worked && next_ns > world->clock.now_mono_ns ? quiet + 1 : 0;
    }
}

/* In steps, since groups are shared again only after a pause. */
static void
advance(struct world *world, int64_t ns)
{
    for (int i = 0; i < 5; i++) {
        wp_clock_manual_advance(&world->clock, ns / 5);
        settle(world);
    }
}

static struct wp_pool_stats
stats_of(struct world *world, const char *name)
{
    struct wp_pool_stats stats;
    uint32_t index =
        wp_pools_index(world->pools, WP_STR("default"), wp_str_from(name));

    assert_int_not_equal(index, UINT32_MAX);
    wp_pools_stats(world->pools, index, &stats);
    return stats;
}

static uint32_t
target_of(struct world *world, const char *name)
{
    return stats_of(world, name).spec.target;
}

static struct wp_pool_spec
spec_of(const char *name, const char *group, const char *min)
{
    struct wp_pool_spec spec;
    struct wp_err err;

    wp_pool_spec_init(&spec);
    (void)snprintf(spec.name, sizeof spec.name, "%s", name);
    spec.create_inflight_max = SLOTS;
    assert_int_equal(wp_scale_policy_set(&spec.scale, WP_STR("objective"),
                                         WP_STR("99%"), &err),
                     WP_OK);
    assert_int_equal(
        wp_scale_policy_set(&spec.scale, WP_STR("min"), wp_str_from(min), &err),
        WP_OK);
    if (group[0] != '\0') {
        assert_int_equal(wp_scale_policy_set(&spec.scale,
                                             WP_STR("budget-group"),
                                             wp_str_from(group), &err),
                         WP_OK);
    }
    assert_int_equal(wp_scale_policy_set(&spec.scale,
                                         WP_STR("scale-down-window"),
                                         WP_STR("0"), &err),
                     WP_OK);
    assert_int_equal(wp_scale_policy_set(&spec.scale, WP_STR("scale-down-rate"),
                                         WP_STR("100%"), &err),
                     WP_OK);
    return spec;
}

static void
add(struct world *world, const char *name, const char *group)
{
    struct wp_pool_spec spec = spec_of(name, group, "2");
    struct wp_err err;

    assert_int_equal(wp_pools_add(world->pools, &spec, NULL, &err), WP_OK);
    settle(world);
}

static int
set_up(void **state)
{
    static const struct wp_lease_store_ops ops = {.name = "none",
                                                  .commit = commit};
    static const struct wp_budget_total totals[] = {{"other", 7},
                                                    {"group", TOTAL}};
    struct world *world = calloc(1, sizeof *world);
    struct wp_pools_config config = {
        .slots_max = SLOTS,
        .claims_max = 2 * SLOTS,
        .seed = 5,
        .budgets = totals,
        .n_budgets = WP_ARRAY_LEN(totals),
        .wake = wake,
        .budget_trouble = trouble,
    };
    struct wp_err err;

    assert_non_null(world);
    wp_clock_manual_init(&world->clock, 1000 * S,
                         INT64_C(1700000000) * WP_NS_PER_S);
    wp_fake_backend_init(&world->backend, SLOTS, &world->clock.clock);
    config.ctx = world;
    config.clock = &world->clock.clock;
    config.backend = wp_fake_backend_port(&world->backend);
    config.store = (struct wp_lease_store){&ops, NULL};
    world->pools = wp_pools_create(&config, &err);
    assert_non_null(world->pools);
    wp_fake_backend_attach(&world->backend, world->pools);
    add(world, "a", "group");
    add(world, "b", "group");
    add(world, "c", "group");
    *state = world;
    return 0;
}

static int
tear_down(void **state)
{
    struct world *world = *state;

    wp_pools_check(world->pools);
    wp_pools_stop(world->pools);
    for (int i = 0; i < 100 && !wp_pools_quiet(world->pools); i++) {
        advance(world, 100 * MS);
    }
    assert_true(wp_pools_quiet(world->pools));
    wp_pools_destroy(world->pools);
    wp_fake_backend_fini(&world->backend);
    free(world);
    return 0;
}

/* The pool wants n from now on, and the mins of the others stay. */
static void
want(struct world *world, const char *name, uint32_t n, const char *id)
{
    int64_t now_ns = world->clock.now_wall_ns;
    uint32_t index =
        wp_pools_index(world->pools, WP_STR("default"), wp_str_from(name));
    struct wp_err err;

    assert_int_equal(wp_pools_scale_reserve(world->pools, index,
                                            wp_str_from(id), n, now_ns,
                                            now_ns + 600 * S, &err),
                     WP_OK);
    advance(world, 10 * MS);
}

static void
expect(struct world *world, uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t targets[] = {target_of(world, "a"), target_of(world, "b"),
                          target_of(world, "c")};

    if (targets[0] != a || targets[1] != b || targets[2] != c) {
        fail_msg("%u %u %u, not %u %u %u", targets[0], targets[1], targets[2],
                 a, b, c);
    }
}

/* What each may have: what it asks for, and an equal part of what is left. */
static void
expect_budgets(struct world *world, uint32_t a, uint32_t b, uint32_t c)
{
    assert_int_equal(stats_of(world, "a").budget, a);
    assert_int_equal(stats_of(world, "b").budget, b);
    assert_int_equal(stats_of(world, "c").budget, c);
}

static void
shared_where_it_is_worth_most(void **state)
{
    struct world *world = *state;

    expect(world, 2, 2, 2);
    want(world, "b", 20, "one");
    want(world, "c", 8, "one");
    expect(world, 2, 20, 8);
    /* More than there is: equal worth, so the lesser name has it. */
    want(world, "a", 15, "one");
    expect(world, 15, 13, 2);
    assert_int_equal(stats_of(world, "c").scale.reason, WP_SCALE_BUDGET);
    assert_int_equal(stats_of(world, "b").scale.wanted, 20);
    /* What one gives back the others get. */
    assert_int_equal(
        wp_pools_scale_cancel(world->pools, 0, WP_STR("one"), NULL), WP_OK);
    advance(world, 10 * MS);
    expect(world, 2, 20, 8);
    assert_int_equal(world->troubles, 0);
}

/* The targets together are within the total, whatever is asked for. */
static void
never_more_than_the_total(void **state)
{
    struct world *world = *state;
    static const char *const names[] = {"a", "b", "c"};

    world->backend.ready = WP_FAKE_READY_DELAYED;
    world->backend.ready_delay_ns = 30 * MS;
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t sum = 0;
        char id[16];

        (void)snprintf(id, sizeof id, "r%u", i);
        want(world, names[i % 3], 1 + i % 7, id);
        for (uint32_t j = 0; j < 3; j++) {
            sum += target_of(world, names[j]);
        }
        assert_true(sum <= TOTAL);
    }
    advance(world, S);
    assert_int_equal(target_of(world, "a") + target_of(world, "b") +
                         target_of(world, "c"),
                     TOTAL);
}

static void
floors_and_hands_come_first(void **state)
{
    struct world *world = *state;
    struct wp_pool_spec spec = spec_of("c", "group", "2");
    struct wp_err err;

    want(world, "a", 40, "one");
    expect(world, 26, 2, 2);
    assert_int_equal(wp_scale_policy_set(&spec.scale, WP_STR("schedule"),
                                         WP_STR("* * * * * for 1h at least 9"),
                                         &err),
                     WP_OK);
    assert_int_equal(wp_pools_update(world->pools, 2, &spec, &err), WP_OK);
    advance(world, 10 * MS);
    expect(world, 19, 2, 9);
    assert_int_equal(wp_pools_set_target(world->pools, 1, 10, &err), WP_OK);
    advance(world, 10 * MS);
    expect(world, 11, 10, 9);
}

static void
mins_that_are_too_many_are_told(void **state)
{
    struct world *world = *state;
    struct wp_err err;

    assert_int_equal(wp_pools_set_target(world->pools, 1, 40, &err), WP_OK);
    advance(world, 10 * MS);
    assert_int_equal(world->troubles, 1);
    assert_string_equal(world->group, "group");
    assert_true(world->has_total);
    assert_int_equal(world->mins, 44);
    /* A hand is not held back, a min is kept. */
    expect(world, 2, 40, 2);
    assert_int_equal(wp_pools_set_target(world->pools, 1, 20, &err), WP_OK);
    advance(world, 10 * MS);
    assert_int_equal(world->troubles, 2);
    assert_int_equal(world->mins, 24);
}

static void
who_leaves_gives_back(void **state)
{
    struct world *world = *state;
    struct wp_pool_spec spec = spec_of("b", "other", "0");
    struct wp_pool_spec plain;
    struct wp_err err;

    want(world, "a", 40, "one");
    want(world, "b", 40, "one");
    expect(world, 26, 2, 2);
    assert_int_equal(wp_pools_update(world->pools, 1, &spec, &err), WP_OK);
    advance(world, 10 * MS);
    expect(world, 28, 7, 2);
    wp_pools_remove(world->pools, 2);
    advance(world, 10 * MS);
    assert_int_equal(target_of(world, "a"), 30);
    wp_pool_spec_init(&plain);
    (void)snprintf(plain.name, sizeof plain.name, "a");
    plain.target = 33;
    assert_int_equal(wp_pools_update(world->pools, 0, &plain, &err), WP_OK);
    advance(world, 10 * MS);
    assert_int_equal(target_of(world, "a"), 33);
    assert_int_equal(world->troubles, 0);
}

/* What a pool may not be is not kept for it. */
static void
a_pool_asks_for_no_more_than_its_max(void **state)
{
    struct world *world = *state;
    struct wp_pool_spec spec = spec_of("a", "group", "2");
    struct wp_err err;

    assert_int_equal(
        wp_scale_policy_set(&spec.scale, WP_STR("max"), WP_STR("5"), &err),
        WP_OK);
    assert_int_equal(wp_pools_update(world->pools, 0, &spec, &err), WP_OK);
    want(world, "a", 40, "one");
    want(world, "b", 40, "one");
    assert_int_equal(stats_of(world, "a").scale.wanted, 40);
    expect(world, 5, 23, 2);
    expect_budgets(world, 5, 23, 2);
}

/* From then on only its own policy bounds it. */
static void
who_is_of_no_group_has_no_budget(void **state)
{
    struct world *world = *state;
    struct wp_pool_spec spec = spec_of("b", "", "2");
    struct wp_err err;

    want(world, "a", 40, "one");
    want(world, "b", 40, "one");
    expect(world, 26, 2, 2);
    assert_int_equal(stats_of(world, "b").budget, 2);
    assert_int_equal(wp_pools_update(world->pools, 1, &spec, &err), WP_OK);
    assert_int_equal(stats_of(world, "b").budget, UINT32_MAX);
    advance(world, 10 * MS);
    expect(world, 28, 40, 2);
    assert_int_equal(stats_of(world, "b").budget, UINT32_MAX);
    assert_int_equal(world->troubles, 0);
}

/* What a pool had before it lost its objective is no bound of it when it has
 * one again: it is shared anew. */
static void
an_objective_that_comes_back_has_no_old_budget(void **state)
{
    struct world *world = *state;
    struct wp_pool_spec spec = spec_of("a", "group", "2");
    struct wp_pool_spec plain;
    struct wp_err err;

    wp_pool_spec_init(&plain);
    (void)snprintf(plain.name, sizeof plain.name, "a");
    assert_int_equal(wp_scale_policy_set(&plain.scale, WP_STR("budget-group"),
                                         WP_STR("group"), &err),
                     WP_OK);
    advance(world, 10 * MS);
    assert_int_equal(stats_of(world, "a").budget, 10);
    assert_int_equal(wp_pools_update(world->pools, 0, &plain, &err), WP_OK);
    advance(world, 10 * MS);
    assert_int_equal(stats_of(world, "b").budget, 15);
    assert_int_equal(wp_pools_update(world->pools, 0, &spec, &err), WP_OK);
    assert_int_equal(stats_of(world, "a").budget, UINT32_MAX);
    advance(world, 10 * MS);
    assert_int_equal(stats_of(world, "a").budget, 10);
}

static void
a_group_without_a_total_is_told(void **state)
{
    struct world *world = *state;

    add(world, "d", "grope");
    assert_int_equal(world->troubles, 1);
    assert_string_equal(world->group, "grope");
    assert_false(world->has_total);
    assert_true(stats_of(world, "d").group_unknown);
    assert_int_equal(stats_of(world, "d").budget, UINT32_MAX);
    assert_false(stats_of(world, "a").group_unknown);
    want(world, "d", 60, "one");
    assert_int_equal(target_of(world, "d"), 60);
    add(world, "e", "other");
    assert_false(stats_of(world, "e").group_unknown);
    assert_int_equal(stats_of(world, "e").budget, 7);
    assert_string_equal(wp_pools_budget(world->pools, 0)->group, "other");
    assert_int_equal(wp_pools_budget(world->pools, 1)->total, TOTAL);
    assert_null(wp_pools_budget(world->pools, 2));
}

static void
what_is_left_is_shared_equally(void **state)
{
    struct world *world = *state;
    struct wp_err err;

    advance(world, 10 * MS);
    expect_budgets(world, 10, 10, 10);
    want(world, "b", 5, "one");
    expect_budgets(world, 9, 12, 9);
    /* One more does not go into three. */
    want(world, "b", 1, "two");
    expect_budgets(world, 8, 12, 8);
    want(world, "a", 18, "one");
    expect(world, 18, 6, 2);
    expect_budgets(world, 19, 7, 3);
    /* All of it, to the last one. */
    want(world, "c", 6, "one");
    expect(world, 18, 6, 6);
    expect_budgets(world, 18, 6, 6);
    assert_int_equal(stats_of(world, "c").scale.reason, WP_SCALE_RESERVED);
    want(world, "c", 1, "two");
    expect_budgets(world, 18, 6, 6);
    assert_int_equal(stats_of(world, "c").scale.reason, WP_SCALE_BUDGET);
    assert_int_equal(
        wp_pools_scale_cancel(world->pools, 0, WP_STR("one"), &err), WP_OK);
    advance(world, 10 * MS);
    expect_budgets(world, 7, 11, 12);
    assert_int_equal(world->troubles, 0);
}

/* Floors by the clock that are the total, and then one more than that. */
static void
floors_count_where_they_all_fit(void **state)
{
    static const char *const floors[] = {"12", "9", "9"};
    struct world *world = *state;
    struct wp_err err;

    want(world, "a", 40, "one");
    for (uint32_t i = 0; i < 3; i++) {
        struct wp_pool_spec spec;
        char schedule[64];

        spec = spec_of(i == 0 ? "a" : i == 1 ? "b" : "c", "group", "2");
        (void)snprintf(schedule, sizeof schedule,
                       "* * * * * for 1h at least %s", floors[i]);
        assert_int_equal(wp_scale_policy_set(&spec.scale, WP_STR("schedule"),
                                             wp_str_from(schedule), &err),
                         WP_OK);
        assert_int_equal(wp_pools_update(world->pools, i, &spec, &err), WP_OK);
        advance(world, 10 * MS);
    }
    expect(world, 12, 9, 9);
    expect_budgets(world, 12, 9, 9);
    assert_int_equal(wp_pools_set_target(world->pools, 2, 10, &err), WP_OK);
    advance(world, 10 * MS);
    /* The hand has its own; the mins come first, and worth decides the rest. */
    expect(world, 18, 2, 10);
    assert_int_equal(world->troubles, 0);
}

/* Sharing costs: it is done at once, and again after a pause. */
static void
is_shared_again_after_a_pause(void **state)
{
    struct world *world = *state;
    int64_t began_ns;
    struct wp_err err;

    advance(world, S);
    began_ns = world->clock.now_mono_ns;
    assert_int_equal(wp_pools_scale_reserve(world->pools, 0, WP_STR("one"), 8,
                                            world->clock.now_wall_ns,
                                            world->clock.now_wall_ns + S, &err),
                     WP_OK);
    settle(world);
    expect_budgets(world, 14, 8, 8);
    assert_int_equal(wp_pools_scale_reserve(world->pools, 0, WP_STR("two"), 3,
                                            world->clock.now_wall_ns,
                                            world->clock.now_wall_ns + S, &err),
                     WP_OK);
    settle(world);
    expect_budgets(world, 14, 8, 8);
    assert_int_equal(wp_pools_run(world->pools), began_ns + MS);
    wp_clock_manual_advance(&world->clock, MS - 1);
    settle(world);
    expect_budgets(world, 14, 8, 8);
    wp_clock_manual_advance(&world->clock, 1);
    settle(world);
    expect_budgets(world, 16, 7, 7);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(shared_where_it_is_worth_most),
        TEST(never_more_than_the_total),
        TEST(floors_and_hands_come_first),
        TEST(mins_that_are_too_many_are_told),
        TEST(who_leaves_gives_back),
        TEST(a_pool_asks_for_no_more_than_its_max),
        TEST(who_is_of_no_group_has_no_budget),
        TEST(an_objective_that_comes_back_has_no_old_budget),
        TEST(a_group_without_a_total_is_told),
        TEST(what_is_left_is_shared_equally),
        TEST(floors_count_where_they_all_fit),
        TEST(is_shared_again_after_a_pause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
