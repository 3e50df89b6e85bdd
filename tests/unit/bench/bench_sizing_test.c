/* Each baseline against steps worked out by hand from what its documents say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "pool/base/clock.h"
#include "bench/scaling/baseline.h"

#define S WP_NS_PER_S

/* What is at a time, and the target that must follow. */
struct step {
    int64_t at_s;
    uint32_t ready;
    uint32_t warming;
    uint32_t in_use;
    uint64_t claims;
    uint64_t missed;
    uint64_t became_ready;
    uint32_t target;
};

static void
expect_steps(const struct wp_baseline_config *config, const struct step *steps,
             size_t n)
{
    struct wp_replay_policy policy;
    uint64_t claims = 0;

    assert_true(wp_baseline_create(config, &policy));
    assert_string_equal(policy.name, wp_baseline_name(config->baseline));
    for (size_t i = 0; i < n; i++) {
        const struct step *step = &steps[i];
        const struct wp_replay_view view = {
            .now_ns = step->at_s * S,
            .ready = step->ready,
            .warming = step->warming,
            .in_use = step->in_use,
            .claims = step->claims,
            .missed = step->missed,
            .became_ready = step->became_ready,
        };
        int64_t next_ns = 0;
        uint32_t target;

        if (step->claims > claims && policy.on_claims != NULL) {
            policy.on_claims(policy.self, view.now_ns,
                             (uint32_t)(step->claims - claims), 0);
        }
        claims = step->claims;
        target = policy.target(policy.self, &view, &next_ns);
        if (target != step->target) {
            print_error("%s, step %zu at %d s: %u instead of %u\n", policy.name,
                        i, (int)step->at_s, target, step->target);
        }
        assert_int_equal(target, step->target);
        assert_true(next_ns > view.now_ns);
    }
    policy.destroy(policy.self);
}

#define EXPECT(config, ...)                                                    \
    do {                                                                       \
        const struct step steps_[] = {__VA_ARGS__};                            \
        expect_steps(&(config), steps_, sizeof(steps_) / sizeof(steps_[0]));   \
    } while (0)

static struct wp_baseline_config
config_of(enum wp_baseline baseline, double a, double b, uint32_t min,
          uint32_t max)
{
    return (struct wp_baseline_config){
        .baseline = baseline, .a = a, .b = b, .min = min, .max = max};
}

static void
test_fixed(void **state)
{
    const struct wp_baseline_config seven =
        config_of(WP_BASELINE_FIXED, 7, 0, 0, 100);
    const struct wp_baseline_config bounded =
        config_of(WP_BASELINE_FIXED, 7, 0, 0, 5);

    (void)state;
    EXPECT(seven, {.target = 7}, {.at_s = 100, .claims = 50, .target = 7});
    EXPECT(bounded, {.target = 5});
}

/* The table of theory: 42.5 expected in a lead time. */
static void
test_erlang(void **state)
{
    struct wp_baseline_config config =
        config_of(WP_BASELINE_ERLANG_TRUE, 999, 0, 0, 1000);

    (void)state;
    config.true_rate_per_s = 5;
    config.lead = (struct wp_replay_lead){.median_s = 8.5};
    EXPECT(config, {.target = 63});
    config.miss = WP_MISS_QUEUED;
    EXPECT(config, {.target = 65});
    config.a = 990;
    EXPECT(config, {.target = 59});
}

/* Five beyond what is allocated, looked at every 30 s; between, what is ready
 * is what is left of the replicas. */
static void
test_agones_buffer(void **state)
{
    const struct wp_baseline_config config =
        config_of(WP_BASELINE_AGONES_BUFFER, 5, 0, 0, 1000);

    (void)state;
    EXPECT(config, {.in_use = 3, .target = 5},
           {.at_s = 10, .in_use = 6, .target = 2},
           {.at_s = 20, .in_use = 9, .target = 0},
           {.at_s = 29, .in_use = 6, .target = 2},
           {.at_s = 30, .in_use = 6, .target = 5},
           {.at_s = 31, .in_use = 4, .target = 7});
}

static void
test_agones_percent(void **state)
{
    const struct wp_baseline_config config =
        config_of(WP_BASELINE_AGONES_PERCENT, 20, 0, 0, 1000);

    (void)state;
    EXPECT(config, {.in_use = 0, .target = 1},
           {.at_s = 30, .in_use = 40, .target = 10},
           {.at_s = 59, .in_use = 48, .target = 2},
           {.at_s = 60, .in_use = 48, .target = 12});
}

static void
test_opensandbox(void **state)
{
    const struct wp_baseline_config config =
        config_of(WP_BASELINE_OPENSANDBOX, 10, 20, 0, 1000);

    (void)state;
    EXPECT(config, {.target = 15},
           {.at_s = 1, .ready = 12, .warming = 3, .target = 15},
           {.at_s = 2, .ready = 8, .warming = 3, .target = 11},
           {.at_s = 3, .ready = 10, .target = 10},
           {.at_s = 4, .ready = 9, .target = 15},
           {.at_s = 5, .ready = 25, .target = 15});
}

/* Ten available: outside 9 to 11 what lacks is added to the replicas, warming
 * ones included; down only to the highest of 300 s. */
static void
test_watermark(void **state)
{
    const struct wp_baseline_config config =
        config_of(WP_BASELINE_WATERMARK, 10, 0, 0, 1000);
    struct step steps[24] = {
        {.target = 10},
        {.at_s = 7, .ready = 5, .warming = 5, .target = 10},
        {.at_s = 15, .ready = 5, .warming = 5, .target = 15},
    };

    (void)state;
    for (int i = 3; i < 24; i++) {
        /* Nine are within the tolerance: 9 + 3 replicas stay. */
        steps[i] = (struct step){.at_s = 15 * (i - 1),
                                 .ready = 9,
                                 .warming = 3,
                                 .target = 15 * (i - 1) < 315 ? 15 : 12};
    }
    expect_steps(&config, steps, 24);
}

static void
test_in_use_plus(void **state)
{
    const struct wp_baseline_config config =
        config_of(WP_BASELINE_IN_USE_PLUS, 2, 0, 0, 8);

    (void)state;
    EXPECT(config, {.target = 2},
           {.at_s = 10, .claims = 5, .in_use = 5, .target = 2},
           {.at_s = 100, .claims = 5, .in_use = 1, .target = 6},
           {.at_s = 309, .claims = 5, .in_use = 1, .target = 6},
           {.at_s = 310, .claims = 5, .in_use = 1, .target = 2},
           {.at_s = 320, .claims = 12, .in_use = 7, .target = 1});
}

/* One claim a second for 75 s, against 0.5 a second and replica: up by the
 * ratio at most twofold each 15 s, down after 300 s. */
static void
test_hpa(void **state)
{
    const struct wp_baseline_config config =
        config_of(WP_BASELINE_HPA_CLAIM_RATE, 0.5, 0, 10, 100);

    (void)state;
    EXPECT(config, {.target = 10},
           {.at_s = 15, .ready = 10, .claims = 15, .target = 10},
           {.at_s = 30, .ready = 10, .claims = 30, .target = 10},
           {.at_s = 45, .ready = 10, .claims = 45, .target = 15},
           {.at_s = 59, .ready = 15, .claims = 59, .target = 15},
           {.at_s = 60, .ready = 16, .claims = 60, .target = 30},
           {.at_s = 75, .ready = 30, .claims = 75, .target = 60},
           {.at_s = 90, .ready = 60, .claims = 75, .target = 90},
           {.at_s = 105, .ready = 90, .claims = 75, .target = 90},
           {.at_s = 120, .ready = 90, .claims = 75, .target = 90},
           {.at_s = 135, .ready = 90, .claims = 75, .target = 90});
    /* Nothing ready: the ratio of nothing is the minimum. */
    EXPECT(config, {.target = 10},
           {.at_s = 15, .ready = 0, .claims = 1000, .target = 10});
}

static void
test_hpa_down(void **state)
{
    const struct wp_baseline_config config =
        config_of(WP_BASELINE_HPA_CLAIM_RATE, 0.5, 0, 10, 100);
    struct step steps[25] = {
        {.target = 10},
        /* 1 claim a second over 60 s: twice the 10 ready. */
        {.at_s = 15, .ready = 10, .claims = 60, .target = 20},
        {.at_s = 30, .ready = 20, .claims = 60, .target = 40},
    };

    (void)state;
    for (int i = 3; i < 25; i++) {
        /* Within the tolerance until the minute is over, then nothing: held
         * for 300 s after the last look that asked for 40. */
        steps[i] = (struct step){.at_s = 15 * i,
                                 .ready = i <= 4 ? 20 : 40,
                                 .claims = 60,
                                 .target = i < 24 ? 40 : 10};
    }
    expect_steps(&config, steps, 25);
}

/* 0.4 claims a second for a minute at 20 s of demand: eight; none for 300 s
 * after the last that counted: to zero. */
static void
test_keda(void **state)
{
    const struct wp_baseline_config config =
        config_of(WP_BASELINE_KEDA_CLAIM_RATE, 0.05, 0, 0, 100);
    struct step steps[29] = {
        {.target = 0},
        {.at_s = 15, .claims = 6, .target = 1},
        {.at_s = 30, .claims = 12, .target = 4},
        {.at_s = 45, .claims = 18, .target = 6},
        {.at_s = 60, .claims = 24, .target = 8},
    };
    /* What the looks at 60, 75, 90, 105 and those after asked for. */
    const uint32_t asked[] = {8, 6, 4, 2};

    (void)state;
    for (int i = 5; i < 29; i++) {
        /* The highest of the last 20 looks, the earliest of which was at. */
        int earliest = 15 * (i - 19);
        int k = earliest <= 60 ? 0 : (earliest - 60) / 15;

        steps[i] =
            (struct step){.at_s = 15 * i,
                          .claims = 24,
                          .target = 15 * i >= 405 ? 0 : asked[k < 4 ? k : 3]};
    }
    expect_steps(&config, steps, 29);
}

static void
test_openwhisk(void **state)
{
    const struct wp_baseline_config config =
        config_of(WP_BASELINE_OPENWHISK, 1, 120, 2, 10);

    (void)state;
    EXPECT(
        config, {.target = 2},
        {.at_s = 59, .claims = 3, .missed = 3, .became_ready = 2, .target = 2},
        /* Three, not three more. */
        {.at_s = 60, .claims = 3, .missed = 3, .became_ready = 2, .target = 3},
        {.at_s = 120, .claims = 3, .missed = 3, .became_ready = 3, .target = 3},
        /* Two of them ready since 60, never taken; but two are the least. */
        {.at_s = 180, .claims = 3, .missed = 3, .became_ready = 3, .target = 2},
        {.at_s = 240, .claims = 3, .missed = 3, .became_ready = 3, .target = 2},
        /* Twenty cold starts: the most. */
        {.at_s = 300,
         .claims = 23,
         .missed = 23,
         .became_ready = 3,
         .target = 10});
}

/* Two and the last lead time's claims, held for a minute: 8 s leads. */
static void
test_rule(void **state)
{
    struct wp_baseline_config config =
        config_of(WP_BASELINE_RULE, 2, 60, 0, 1000);

    (void)state;
    config.lead = (struct wp_replay_lead){.median_s = 8};
    EXPECT(config, {.target = 2}, {.at_s = 1, .claims = 3, .target = 5},
           {.at_s = 5, .claims = 7, .target = 9},
           {.at_s = 20, .claims = 7, .target = 9},
           {.at_s = 64, .claims = 7, .target = 9},
           {.at_s = 66, .claims = 7, .target = 2},
           {.at_s = 67, .claims = 8, .target = 3});
}

static void
test_kpa(void **state)
{
    const struct wp_baseline_config config =
        config_of(WP_BASELINE_KNATIVE_KPA, 70, 0, 0, 1000);

    (void)state;
    /* Seven in use: the mean of the ticks so far over 0.7, rounded up, less
     * what is in use. */
    EXPECT(config, {.in_use = 7, .target = 0},
           {.at_s = 2, .in_use = 7, .target = 0},  /* 3.5 / 0.7 = 5 */
           {.at_s = 4, .in_use = 7, .target = 0},  /* 4.67 / 0.7: 7 */
           {.at_s = 5, .in_use = 6, .target = 1},  /* Still 7. */
           {.at_s = 6, .in_use = 7, .target = 1},  /* 20.5 / 4 / 0.7: 8 */
           {.at_s = 8, .in_use = 7, .target = 1},  /* 27.5 / 5 / 0.7: 8 */
           {.at_s = 10, .in_use = 7, .target = 2}, /* 34.5 / 6 / 0.7: 9 */
           /* Never below half of the pods. */
           {.at_s = 11, .in_use = 0, .ready = 100, .target = 9},
           {.at_s = 12, .in_use = 0, .ready = 100, .target = 50});
    /* Seventy come at once and none is there: 70 in use, no pods. */
    EXPECT(config, {.in_use = 0, .target = 0},
           {.at_s = 2, .in_use = 70, .claims = 70, .missed = 70, .target = 0},
           /* 0, 0, 70: 34 by the panic window, 23.3 / 0.7; against 1 pod. */
           {.at_s = 4, .in_use = 70, .claims = 70, .missed = 70, .target = 0},
           /* 0, 70, 70: 46.7 / 0.7 = 67. */
           {.at_s = 6, .in_use = 60, .claims = 70, .missed = 70, .target = 7},
           /* Not lowered while in panic. */
           {.at_s = 8, .in_use = 0, .claims = 70, .missed = 70, .target = 96},
           {.at_s = 60, .in_use = 0, .claims = 70, .missed = 70, .target = 96});
}

struct listed {
    uint32_t next;
};

static bool
listed_next(void *self, int64_t *mono_ns, uint32_t *n)
{
    static const struct {
        int64_t at_s;
        uint32_t n;
    } rows[] = {{5, 1}, {12, 2}, {12, 1}, {30, 1}};
    struct listed *listed = self;

    if (listed->next == 4) {
        return false;
    }
    *mono_ns = rows[listed->next].at_s * S;
    *n = rows[listed->next++].n;
    return true;
}

static void
test_clairvoyant(void **state)
{
    struct listed listed = {0};
    struct wp_baseline_config config =
        config_of(WP_BASELINE_CLAIRVOYANT, 10, 0, 0, 1000);

    (void)state;
    config.future =
        (struct wp_replay_source){.next = listed_next, .self = &listed};
    EXPECT(config, {.target = 1}, {.at_s = 1, .target = 1},
           {.at_s = 2, .target = 4}, {.at_s = 5, .target = 3},
           {.at_s = 12, .target = 0}, {.at_s = 19, .target = 0},
           {.at_s = 20, .target = 1}, {.at_s = 30, .target = 0});
}

static void
test_names(void **state)
{
    (void)state;
    for (int i = 0; i < WP_BASELINE_COUNT; i++) {
        assert_non_null(wp_baseline_name((enum wp_baseline)i));
        assert_true(strlen(wp_baseline_cites((enum wp_baseline)i)) > 20);
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(wp_baseline_name((enum wp_baseline)i),
                                    wp_baseline_name((enum wp_baseline)k));
        }
    }
    assert_null(wp_baseline_name(WP_BASELINE_COUNT));
    assert_null(wp_baseline_cites(WP_BASELINE_COUNT));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_erlang),
        cmocka_unit_test(test_agones_buffer),
        cmocka_unit_test(test_agones_percent),
        cmocka_unit_test(test_opensandbox),
        cmocka_unit_test(test_watermark),
        cmocka_unit_test(test_in_use_plus),
        cmocka_unit_test(test_hpa),
        cmocka_unit_test(test_hpa_down),
        cmocka_unit_test(test_keda),
        cmocka_unit_test(test_openwhisk),
        cmocka_unit_test(test_rule),
        cmocka_unit_test(test_kpa),
        cmocka_unit_test(test_clairvoyant),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
