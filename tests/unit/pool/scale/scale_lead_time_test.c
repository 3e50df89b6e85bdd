/* Measured lead times: what is believed, and how soon it is another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "pool/base/clock.h"
#include "pool/base/rng.h"
#include "pool/scale/lead_time.h"

static void
add(struct wp_lead_time *lead, int n, double s)
{
    for (int i = 0; i < n; i++) {
        wp_lead_time_add(lead, (int64_t)(s * WP_NS_PER_S));
    }
}

static void
assert_near(double got, double want, double share)
{
    if (fabs(got - want) > share * want) {
        fail_msg("got %g, expected %g", got, want);
    }
}

/* Before the first measurement the prior is all there is. */
static void
prior(void **state)
{
    struct wp_lead_time lead;

    (void)state;
    wp_lead_time_init(&lead);
    assert_near(wp_lead_time_mean_s(&lead, 8 * WP_NS_PER_S), 8, 1e-12);
    assert_near(wp_lead_time_quantile_s(&lead, 0.99, 8 * WP_NS_PER_S), 8,
                1e-12);
    assert_true(wp_lead_time_mean_s(&lead, -5) == 0);
    assert_true(wp_lead_time_weight(&lead) == 0);
    add(&lead, 1, 2);
    assert_near(wp_lead_time_mean_s(&lead, 8 * WP_NS_PER_S), 2, 1e-9);
    assert_near(wp_lead_time_weight(&lead), 1, 1e-9);
}

/* Nine of 1 s and one of 10 s, again and again. */
static void
mixture(void **state)
{
    struct wp_lead_time lead;

    (void)state;
    wp_lead_time_init(&lead);
    for (int i = 0; i < 500; i++) {
        add(&lead, 9, 1);
        add(&lead, 1, 10);
    }
    assert_near(wp_lead_time_mean_s(&lead, 0), 1.9, 0.02);
    assert_near(wp_lead_time_quantile_s(&lead, 0.5, 0), 1, 0.09);
    assert_near(wp_lead_time_quantile_s(&lead, 0.99, 0), 10, 0.09);
    assert_near(wp_lead_time_weight(&lead), WP_LEAD_HALF_LIFE / log(2), 0.01);
}

/* One in twenty takes half a minute longer: a mean of a few hundred of them
 * would waver by a sixth; the long memory holds it within a few per cent. */
static void
steady(void **state)
{
    struct wp_lead_time lead;
    struct wp_rng rng;
    double low = INFINITY;
    double high = 0;

    (void)state;
    wp_lead_time_init(&lead);
    wp_rng_init(&rng, 7);
    for (int i = 0; i < 100000; i++) {
        add(&lead, 1, wp_rng_below(&rng, 20) == 0 ? 31 : 1);
        if (i > 20000) {
            low = fmin(low, wp_lead_time_mean_s(&lead, 0));
            high = fmax(high, wp_lead_time_mean_s(&lead, 0));
        }
    }
    assert_true(low > 2.5 * 0.85);
    assert_true(high < 2.5 * 1.15);
}

/* A new image: within one half-life the new lead time is what counts, also
 * after weeks of the old one, and nothing of the old one is left soon after. */
static void
change(void **state)
{
    struct wp_lead_time lead;

    (void)state;
    wp_lead_time_init(&lead);
    add(&lead, 100000, 1);
    add(&lead, WP_LEAD_HALF_LIFE, 9);
    assert_true(wp_lead_time_mean_s(&lead, 0) > 4);
    add(&lead, 7 * WP_LEAD_HALF_LIFE, 9);
    assert_near(wp_lead_time_mean_s(&lead, 0), 9, 0.05);
    assert_near(wp_lead_time_quantile_s(&lead, 0.5, 0), 9, 0.09);
}

/* Bins run from nothing to hours; what is negative counts as nothing. */
static void
edges(void **state)
{
    struct wp_lead_time lead;

    (void)state;
    wp_lead_time_init(&lead);
    wp_lead_time_add(&lead, INT64_MIN);
    assert_true(wp_lead_time_mean_s(&lead, 5) == 0);
    assert_true(wp_lead_time_quantile_s(&lead, 0.99, 5) <= 0.0011);
    wp_lead_time_init(&lead);
    add(&lead, 100, 3600);
    assert_near(wp_lead_time_quantile_s(&lead, 0.5, 0), 3600, 0.6);
    wp_lead_time_init(&lead);
    wp_lead_time_add(&lead, INT64_MAX);
    assert_true(isfinite(wp_lead_time_mean_s(&lead, 0)));
    assert_in_range(wp_lead_time_quantile_s(&lead, 0.99, 0), 8389, 16777);
    /* As long as the last bin reaches: that is its own too. */
    wp_lead_time_init(&lead);
    wp_lead_time_add(&lead, INT64_C(16777216) * WP_NS_PER_MS);
    assert_in_range(wp_lead_time_quantile_s(&lead, 0.99, 0), 8389, 16777);
    assert_near(wp_lead_time_mean_s(&lead, 0), 16777.216, 1e-9);
    assert_near(wp_lead_time_weight(&lead), 1, 1e-9);
}

/* What is next to all of them is not beyond the longest, however the sums are
 * rounded. */
static void
next_to_all(void **state)
{
    struct wp_lead_time lead;
    struct wp_rng rng;

    (void)state;
    wp_lead_time_init(&lead);
    wp_rng_init(&rng, 1);
    for (int i = 0; i < 2000; i++) {
        double most_s;

        add(&lead, 1, 1 + wp_rng_unit(&rng));
        most_s = wp_lead_time_quantile_s(&lead, nextafter(1, 0), 0);
        assert_true(most_s > 1 && most_s < 2 * 1.1);
    }
}

/* A million measurements do not wear the numbers out. */
static void
rescaled(void **state)
{
    struct wp_lead_time lead;

    (void)state;
    wp_lead_time_init(&lead);
    add(&lead, 1000000, 2);
    assert_near(wp_lead_time_mean_s(&lead, 0), 2, 1e-6);
    assert_near(wp_lead_time_quantile_s(&lead, 0.5, 0), 2, 0.09);
    assert_int_equal(lead.measured, 1000000);
}

/* The distribution, step by step: rises to 1, and agrees with the quantiles. */
static void
ready_by_steps(void **state)
{
    struct wp_lead_time lead;
    double ready[64];

    (void)state;
    wp_lead_time_init(&lead);
    wp_lead_time_ready(&lead, 0.25, 64, ready);
    assert_true(ready[0] == 0 && ready[63] == 0);
    for (int i = 0; i < 100; i++) {
        add(&lead, 1, 4 + 0.05 * i);
    }
    wp_lead_time_ready(&lead, 0.25, 64, ready);
    assert_true(ready[0] == 0);
    assert_near(ready[63], 1, 1e-12);
    for (int i = 1; i < 64; i++) {
        assert_true(ready[i] >= ready[i - 1]);
        if (ready[i] > 0.05 && ready[i] < 0.95) {
            assert_near(wp_lead_time_quantile_s(&lead, ready[i], 0), 0.25 * i,
                        1e-9);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prior),    cmocka_unit_test(mixture),
        cmocka_unit_test(steady),   cmocka_unit_test(change),
        cmocka_unit_test(edges),    cmocka_unit_test(ready_by_steps),
        cmocka_unit_test(rescaled), cmocka_unit_test(next_to_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
