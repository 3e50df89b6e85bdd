/* The theory of stock sizes: against published tables, against the plain
 * recursions, and at its edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "pool/base/compiler.h"
#include "pool/scale/stock.h"

/* The field report's table, row by row. */
static void
table(void **state)
{
    static const double as[] = {1, 5, 10, 42.5, 100, 400};
    static const struct {
        enum wp_miss miss;
        double hit;
        uint32_t s[6];
    } rows[] = {
        {WP_MISS_LOST, 0.99, {5, 11, 18, 56, 117, 426}},
        {WP_MISS_QUEUED, 0.99, {5, 12, 19, 59, 125, 448}},
        {WP_MISS_LOST, 0.999, {6, 14, 21, 63, 128, 450}},
        {WP_MISS_QUEUED, 0.999, {6, 14, 22, 65, 133, 464}},
        {WP_MISS_LOST, 0.9999, {7, 16, 24, 68, 137, 467}},
        {WP_MISS_QUEUED, 0.9999, {7, 16, 25, 70, 140, 477}},
    };

    (void)state;
    for (size_t r = 0; r < WP_ARRAY_LEN(rows); r++) {
        for (size_t i = 0; i < WP_ARRAY_LEN(as); i++) {
            assert_int_equal(
                wp_stock_for_hit_rate(rows[r].miss, rows[r].hit, as[i]),
                rows[r].s[i]);
        }
    }
}

/* Erlang's recursion, and the Poisson sum, for each s up to well beyond a. */
static void
compare_recursions(double a)
{
    double b = 1;
    double log_at = -a; /* log P(N = s) */
    double below = 0;   /* P(N < s) */

    for (uint32_t s = 1; s < a + 12 * sqrt(a) + 40; s++) {
        b = a * b / (s + a * b);
        below += exp(log_at);
        log_at += log(a / s);
        assert_true(fabs(wp_stock_miss(WP_MISS_LOST, s, a) - b) < 1e-9);
        assert_true(fabs(wp_stock_miss(WP_MISS_QUEUED, s, a) - (1 - below)) <
                    1e-8);
        assert_true(fabs(wp_stock_idle(WP_MISS_LOST, s, a) -
                         (s - a * (1 - b))) < 1e-9 * (1 + a + s));
    }
}

static void
recursions(void **state)
{
    (void)state;
    for (double a = 0.01; a <= WP_STOCK_EXACT_MAX; a *= 3.3) {
        compare_recursions(a);
    }
    compare_recursions(WP_STOCK_EXACT_MAX);
}

/* E[(s - N)+] summed term by term. */
static void
idle_queued(void **state)
{
    static const double as[] = {0.1, 1, 7.5, 60};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(as); i++) {
        for (uint32_t s = 0; s < 120; s++) {
            double at = exp(-as[i]);
            double idle = 0;

            for (uint32_t n = 0; n < s; n++) {
                idle += at * (s - n);
                at *= as[i] / (n + 1);
            }
            assert_true(fabs(wp_stock_idle(WP_MISS_QUEUED, s, as[i]) - idle) <
                        1e-9);
        }
    }
}

/* What comes out is the smallest: it suffices and one less does not. */
static void
is_smallest(double hit, double a)
{
    for (int m = 0; m < 2; m++) {
        enum wp_miss miss = m == 0 ? WP_MISS_LOST : WP_MISS_QUEUED;
        uint32_t s = wp_stock_for_hit_rate(miss, hit, a);

        assert_true(s > 0);
        assert_true(wp_stock_miss(miss, s, a) <= (1 - hit) * (1 + 1e-9));
        assert_true(wp_stock_miss(miss, s - 1, a) > (1 - hit) * (1 - 1e-9));
    }
}

static void
smallest(void **state)
{
    static const double hits[] = {0.5, 0.9, 0.99, 0.999, 0.99999};

    (void)state;
    for (size_t h = 0; h < WP_ARRAY_LEN(hits); h++) {
        for (double a = 0.001; a < 3e4; a *= 1.37) {
            is_smallest(hits[h], a);
        }
        is_smallest(hits[h], WP_STOCK_EXACT_MAX);
    }
    /* Just as many misses as are allowed are none too many: B(1, 1) = 1/2, and
     * B(0, 1) - B(1, 1) too. */
    assert_int_equal(wp_stock_for_hit_rate(WP_MISS_LOST, 0.5, 1), 1);
    assert_int_equal(wp_stock_for_cost(WP_MISS_LOST, 1, 1, 1), 0);
}

/* The newsvendor's first s at which one more does not pay, found by trying. */
static void
cost_lost(void **state)
{
    static const double as[] = {0.05, 0.7, 5, 42.5, 300, WP_STOCK_EXACT_MAX};
    static const double worths[] = {0.2, 1, 8, 90, 9000};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(as); i++) {
        for (size_t w = 0; w < WP_ARRAY_LEN(worths); w++) {
            double a = as[i];
            double b = 1;
            double next = a / (1 + a);
            uint32_t s = 0;

            while (3 * worths[w] * (b - next) > 1 - a * (b - next)) {
                s++;
                b = next;
                next = a * b / (s + 1 + a * b);
            }
            assert_int_equal(wp_stock_for_cost(WP_MISS_LOST, 3, worths[w], a),
                             s);
        }
    }
}

/* When misses queue, one more saves the claims that find exactly s on order,
 * and idles while at most s are. Both from the plain sum. */
static void
cost_queued(void **state)
{
    static const double as[] = {0.05, 0.7, 5, 42.5, 300};
    static const double worths[] = {0.2, 1, 8, 90, 9000};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(as); i++) {
        for (size_t w = 0; w < WP_ARRAY_LEN(worths); w++) {
            double at = exp(-as[i]);
            double below = at;
            uint32_t s = 0;

            while (3 * worths[w] * at > below) {
                s++;
                at *= as[i] / s;
                below += at;
            }
            assert_int_equal(
                wp_stock_for_cost(WP_MISS_QUEUED, 3, worths[w], as[i]), s);
        }
    }
}

static void
deviations(void **state)
{
    (void)state;
    for (double z = -4; z <= 4; z += 0.25) {
        double p = erfc(z * M_SQRT1_2) / 2;

        assert_true(fabs(wp_stock_deviations(p) - z) < 5e-4);
    }
}

/* Where the normal form takes over it says the same as Erlang's recursion and
 * the Poisson sum, to a few in a thousand of the spread; and it says something
 * for any size. */
static void
large(void **state)
{
    (void)state;
    for (double a = WP_STOCK_EXACT_MAX + 1; a < 1e5; a *= 3) {
        double sd = sqrt(a);
        double b = 1;
        double log_at = -a;
        double below = 0;
        uint32_t lost = 0;
        uint32_t queued = 0;

        for (uint32_t s = 1; lost == 0 || queued == 0; s++) {
            b = a * b / (s + a * b);
            below += exp(log_at);
            log_at += log(a / s);
            lost = lost == 0 && b <= 0.001 ? s : lost;
            queued = queued == 0 && 1 - below <= 0.001 ? s : queued;
        }
        assert_true(fabs(wp_stock_for_hit_rate(WP_MISS_LOST, 0.999, a) -
                         (double)lost) < 2 + 0.03 * sd);
        assert_true(fabs(wp_stock_for_hit_rate(WP_MISS_QUEUED, 0.999, a) -
                         (double)queued) < 2 + 0.03 * sd);
        for (int m = 0; m < 2; m++) {
            enum wp_miss miss = m == 0 ? WP_MISS_LOST : WP_MISS_QUEUED;
            uint32_t s = m == 0 ? lost : queued;

            assert_true(wp_stock_miss(miss, s, a) < 0.0012);
            assert_true(wp_stock_miss(miss, s, a) > 0.0006);
            assert_true(fabs(wp_stock_idle(miss, s, a) - (s - a)) <
                        1 + 0.02 * sd + 0.001 * a);
        }
    }
    assert_int_equal(wp_stock_for_hit_rate(WP_MISS_LOST, 0.5, 2e9), 1000000000);
    assert_int_equal(wp_stock_for_hit_rate(WP_MISS_LOST, 0.999, 1e18),
                     UINT32_MAX);
    assert_true(wp_stock_miss(WP_MISS_LOST, 0, 1e18) == 1);
    assert_true(wp_stock_miss(WP_MISS_QUEUED, 5, 1e18) == 1);
    assert_true(wp_stock_idle(WP_MISS_LOST, 5, 1e18) >= 0);
}

/* At the mean the normal form has a half below, and its density there. */
static void
large_at_the_mean(void **state)
{
    const double density = 1 / sqrt(2 * M_PI);

    (void)state;
    for (uint32_t s = WP_STOCK_EXACT_MAX + 1; s < 100000; s *= 3) {
        double sd = sqrt(s);

        assert_true(fabs(wp_stock_miss(WP_MISS_QUEUED, s, s) - 0.5) < 1e-9);
        assert_true(fabs(wp_stock_idle(WP_MISS_QUEUED, s, s) - density * sd) <
                    1e-6);
        assert_true(fabs(wp_stock_miss(WP_MISS_LOST, s, s) - 2 * density / sd) <
                    1e-9);
        assert_true(fabs(wp_stock_idle(WP_MISS_LOST, s, s) - 2 * density * sd) <
                    1e-6);
    }
    assert_true(wp_stock_idle(WP_MISS_QUEUED, 0, 1001) == 0);
}

/* One more does not pay, one less would: also where the normal form decides. */
static void
cost_large(void **state)
{
    static const double worths_s[] = {4, 12, 900};

    (void)state;
    for (double a = 500; a < 1e5; a *= 2) {
        for (size_t i = 0; i < WP_ARRAY_LEN(worths_s); i++) {
            double worth = a / 8 * worths_s[i];
            uint32_t s = wp_stock_for_cost(WP_MISS_LOST, a / 8, worths_s[i], a);
            double saved = wp_stock_miss(WP_MISS_LOST, s, a) -
                           wp_stock_miss(WP_MISS_LOST, s + 1, a);

            assert_true(fabs((worth + a) * saved - 1) < 0.1);
        }
    }
}

static void
edges(void **state)
{
    (void)state;
    assert_true(wp_stock_miss(WP_MISS_LOST, 0, 3) == 1);
    assert_true(wp_stock_miss(WP_MISS_QUEUED, 0, 0) == 1);
    assert_true(wp_stock_miss(WP_MISS_QUEUED, 1, 0) == 0);
    assert_true(wp_stock_idle(WP_MISS_LOST, 7, 0) == 7);
    assert_int_equal(wp_stock_for_hit_rate(WP_MISS_LOST, 0.999, 0), 0);
    assert_int_equal(wp_stock_for_cost(WP_MISS_LOST, 0, 9, 0), 0);
    assert_int_equal(wp_stock_for_cost(WP_MISS_LOST, 3, 9, 0), 0);
    assert_int_equal(wp_stock_for_cost(WP_MISS_QUEUED, 3, 9, 0), 0);
    assert_int_equal(wp_stock_for_cost(WP_MISS_LOST, 0, 9, 5), 0);
    assert_int_equal(wp_stock_for_cost(WP_MISS_LOST, 0, 9, 5000), 0);
    /* Far beyond every tail nothing is left, and nothing overflows. */
    assert_true(wp_stock_miss(WP_MISS_LOST, UINT32_MAX, 1) == 0);
    assert_true(wp_stock_miss(WP_MISS_QUEUED, UINT32_MAX, 1e6) == 0);
    assert_true(wp_stock_miss(WP_MISS_LOST, 1, 1e9) > 0.999999);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),       cmocka_unit_test(recursions),
        cmocka_unit_test(idle_queued), cmocka_unit_test(smallest),
        cmocka_unit_test(cost_lost),   cmocka_unit_test(cost_queued),
        cmocka_unit_test(cost_large),  cmocka_unit_test(deviations),
        cmocka_unit_test(large),       cmocka_unit_test(large_at_the_mean),
        cmocka_unit_test(edges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
