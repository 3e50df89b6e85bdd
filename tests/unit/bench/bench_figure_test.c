/* tests/unit/bench/bench_figure_test.c - how figures are made of runs: means and
 * intervals, the same whatever the threads, the least knob that suffices; and
 * what is found wrong in a world. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "bench/scaling/contest.h"
#include "pool/base/clock.h"

static void
test_mean(void **state)
{
    const double values[] = {1, 2, 3, 4, 5};
    struct wp_figure_mean mean = wp_figure_mean_of(values, 5);

    (void)state;
    assert_true(fabs(mean.mean - 3) < 1e-12);
    /* sqrt(2.5 / 5) times 2.776. */
    assert_true(fabs(mean.half - 2.776 * sqrt(0.5)) < 1e-9);
    assert_true(wp_figure_mean_of(values, 1).half == 0);
}

static void
test_regimes(void **state)
{
    const struct wp_lead_regime *regime;

    (void)state;
    for (unsigned i = 0; (regime = wp_lead_regime_at(i)) != NULL; i++) {
        double median = (double)wp_lead_regime_quantile_ns(regime, 0.5) /
                        (double)WP_NS_PER_S;

        assert_ptr_equal(wp_lead_regime_named(regime->name), regime);
        assert_true(median > 0.97 * regime->lead.median_s);
        assert_true(median < 1.1 * regime->lead.median_s);
    }
    regime = wp_lead_regime_named("cloud-8s");
    assert_true(fabs((double)wp_lead_regime_quantile_ns(regime, 0.99) / 18e9 -
                     1) < 0.05);
    assert_null(wp_lead_regime_named("no such lead"));
}

static void
test_same_by_threads(void **state)
{
    const struct wp_figure_world world = {wp_trace_recipe_named("fan-out"),
                                          wp_lead_regime_named("gvisor")};
    const struct wp_figure_contender contenders[] = {
        {.ours = true, .objective = 0.99},
        {.ours = true, .objective = 0.99, .announced = true},
        {.baseline = WP_BASELINE_FIXED, .a = 100},
        {.baseline = WP_BASELINE_CLAIRVOYANT, .a = 5}};
    struct wp_figure_settings settings = {
        .seeds = 4, .first_seed = 9, .jobs = 1, .shorten = 40};
    struct wp_figure_result one[4];
    struct wp_figure_result three[4];

    (void)state;
    assert_true(wp_figure_run(&settings, &world, contenders, 4, one));
    settings.jobs = 3;
    assert_true(wp_figure_run(&settings, &world, contenders, 4, three));
    assert_memory_equal(one, three, sizeof(one));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(one[i].over_target_max, 0);
        assert_true(one[i].claims > 100);
    }
    /* Who knows the future idles less than who keeps a hundred. */
    assert_true(one[3].hit.mean > one[2].hit.mean);
    assert_true(one[3].idle.mean < one[2].idle.mean);
}

/* The least found is what a scan of all sizes finds. */
static void
test_least(void **state)
{
    const struct wp_figure_world world = {wp_trace_recipe_named("poisson"),
                                          wp_lead_regime_named("gvisor")};
    const struct wp_figure_settings settings = {
        .seeds = 3, .first_seed = 1, .jobs = 2, .shorten = 20};
    const double starts[] = {1, 13, 100};
    uint32_t scanned = 0;
    struct wp_figure_best best;

    (void)state;
    for (uint32_t size = 1; scanned == 0; size++) {
        const struct wp_figure_contender contender = {
            .baseline = WP_BASELINE_FIXED, .a = size};
        struct wp_figure_result result;

        assert_true(wp_figure_run(&settings, &world, &contender, 1, &result));
        scanned = result.hit.mean >= 0.95 ? size : 0;
    }
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        assert_true(wp_figure_least(&settings, &world, WP_BASELINE_FIXED, 0.95,
                                    starts[i], &best));
        assert_true(best.found);
        assert_int_equal((uint32_t)best.p, scanned);
        assert_true(best.result.hit.mean >= 0.95);
    }
    assert_true(wp_figure_least(&settings, &world, WP_BASELINE_CLAIRVOYANT,
                                0.99, 1, &best));
    assert_true(best.found);
    assert_true(best.p > 1.5 && best.p < 5);
    /* An HPA on the rate of claims stays where nothing is ready. */
    assert_true(wp_figure_least(&settings, &world, WP_BASELINE_FIXED, 1.1, 1000,
                                &best));
    assert_false(best.found);
}

static void
test_knobs(void **state)
{
    (void)state;
    for (int i = 0; i < WP_BASELINE_COUNT; i++) {
        struct wp_figure_contender it =
            wp_figure_baseline_at((enum wp_baseline)i, 20);
        char name[64];

        assert_non_null(wp_figure_knob((enum wp_baseline)i));
        assert_true(it.a > 0);
        wp_figure_contender_name(&it, name, sizeof(name));
        assert_memory_equal(name, wp_baseline_name((enum wp_baseline)i),
                            strlen(wp_baseline_name((enum wp_baseline)i)));
    }
    assert_true(fabs(wp_figure_baseline_at(WP_BASELINE_KEDA_CLAIM_RATE, 20).a -
                     0.05) < 1e-12);
    assert_true(fabs(wp_figure_baseline_at(WP_BASELINE_AGONES_PERCENT, 0.25).a -
                     20) < 1e-12);
}

/* A world is its number's, and only as much shorter as it may have claims. */
static void
test_worlds(void **state)
{
    unsigned bounded = 0;

    (void)state;
    for (unsigned i = 0; i < 400; i++) {
        struct wp_world world = wp_world_draw(i, 50000);
        struct wp_world again = wp_world_draw(i, 50000);
        struct wp_world brief = wp_world_draw(i, 500);

        assert_string_equal(world.text, again.text);
        assert_true(world.recipe.length_s == again.recipe.length_s);
        assert_string_equal(world.text, brief.text);
        assert_true(brief.recipe.length_s <= world.recipe.length_s);
        assert_true(brief.recipe.length_s > 7.9 * brief.recipe.off_s);
        assert_true(world.recipe.rate_per_s > 0 || world.recipe.batch >= 2);
        assert_true(world.recipe.warm_up_s <= world.recipe.length_s / 2);
        bounded += world.regime.at_once > 0;
    }
    assert_true(bounded > 60 && bounded < 140);
}

static struct wp_world
steady_world(uint32_t at_once)
{
    struct wp_world world = wp_world_named(wp_trace_recipe_named("poisson"));

    world.regime = *wp_lead_regime_named("gvisor");
    world.regime.at_once = at_once;
    return world;
}

static const struct wp_contest_settings contest_settings = {
    .figure = {.seeds = 3, .first_seed = 1, .jobs = 2, .shorten = 20},
    .objectives = {0.9, 0.99},
    .n_objectives = 2,
    .tuned = true,
    .advice = true};

static void
test_contest(void **state)
{
    const struct wp_world world = steady_world(0);
    struct wp_contest contest;

    (void)state;
    assert_true(wp_contest_run(&contest_settings, &world, &contest));
    for (unsigned i = 0; i < 2; i++) {
        const struct wp_contest_try *try = &contest.tries[i];

        assert_false(try->missed);
        assert_false(try->idles);
        assert_false(try->serves_less);
        assert_true(try->fixed.found);
        assert_true(try->ours.outlook.mean + try->ours.outlook.half >
                    contest_settings.objectives[i]);
    }
    assert_true(contest.by_baseline[WP_BASELINE_FIXED] > 0.7);
    assert_true(contest.by_baseline[WP_BASELINE_FIXED] < 1.4);
    assert_true(contest.by_best >= contest.by_baseline[WP_BASELINE_FIXED]);
    assert_true(contest.by_baseline[WP_BASELINE_CLAIRVOYANT] == 0);
    assert_false(contest.starred);
}

/* Five come a second, four can be made: no size keeps the objective. The
 * outlook says so, and advice stars nothing. */
static void
test_contest_saturated(void **state)
{
    const struct wp_world world = steady_world(8);
    struct wp_contest contest;

    (void)state;
    assert_true(wp_contest_run(&contest_settings, &world, &contest));
    for (unsigned i = 0; i < 2; i++) {
        assert_true(contest.tries[i].missed);
        assert_true(contest.tries[i].said);
    }
    assert_false(contest.tries[1].fixed.found);
    assert_true(contest.by_best == 0);
    assert_false(contest.starred);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mean),
        cmocka_unit_test(test_regimes),
        cmocka_unit_test(test_same_by_threads),
        cmocka_unit_test(test_least),
        cmocka_unit_test(test_knobs),
        cmocka_unit_test(test_worlds),
        cmocka_unit_test(test_contest),
        cmocka_unit_test(test_contest_saturated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
