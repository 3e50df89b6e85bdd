/* How far apart bursts come, and when none is due. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "pool/base/clock.h"
#include "pool/base/rng.h"
#include "pool/scale/bursts.h"

#define S WP_NS_PER_S
#define APART_NS (30 * S)

static const double EARLY = 0.0001;

static void
burst(struct wp_bursts *bursts, int64_t at_ns, uint32_t size)
{
    for (uint32_t i = 1; i <= size; i++) {
        wp_bursts_add(bursts, at_ns + i * 100 * WP_NS_PER_MS, i, 1, APART_NS);
    }
}

/* By a clock: from the fifth on the next one is known, but for the margin that
 * a day of 23 hours asks for. */
static void
by_a_clock(void **state)
{
    const int64_t day_ns = 24 * 3600 * S;
    struct wp_bursts bursts = {.n = 0};

    (void)state;
    for (int64_t i = 1; i <= 100; i++) {
        int64_t due_ns;

        burst(&bursts, i * day_ns, 50);
        due_ns = wp_bursts_due_ns(&bursts, EARLY);
        if (i < 5) {
            assert_int_equal(due_ns, 0);
        } else {
            assert_true(due_ns <= i * day_ns + 23 * 3600 * S);
            assert_true(due_ns > i * day_ns + 22 * 3600 * S);
        }
        assert_int_equal(bursts.n, i < WP_BURSTS ? i : WP_BURSTS);
        assert_true(wp_bursts_are_sound(&bursts, i * day_ns + 10 * S));
    }
}

/* One comes much sooner than ever: nothing is sure for long then. */
static void
another_clock(void **state)
{
    struct wp_bursts bursts = {.n = 0};
    int64_t at_ns = 0;

    (void)state;
    for (int i = 0; i < 20; i++) {
        burst(&bursts, at_ns += 5 * 3600 * S, 50);
    }
    assert_true(wp_bursts_due_ns(&bursts, EARLY) > at_ns + 4 * 3600 * S);
    burst(&bursts, at_ns += 3600 * S, 50);
    assert_true(wp_bursts_due_ns(&bursts, EARLY) < at_ns + 3600 * S);
}

static double
exponential(struct wp_rng *rng, double mean)
{
    return -mean * log(1 - wp_rng_unit(rng));
}

struct early {
    unsigned bursts;
    unsigned early; /* Before it was due. */
    double sure;    /* Mean share of the mean gap. */
};

/* Gaps of which such a share is exponential; each pool sees n of them. */
static struct early
try_jitter(double jitter, int n, double early)
{
    const double mean_s = 3600;
    struct early out = {.bursts = 0};
    struct wp_rng rng;

    wp_rng_init(&rng, 4711);
    for (int pool = 0; pool < 20000; pool++) {
        struct wp_bursts bursts = {.n = 0};
        double at_s = 1;
        int64_t due_ns;

        for (int i = 0; i <= n; i++) {
            wp_bursts_add(&bursts, (int64_t)(at_s * S), 50, 50, 0);
            at_s += mean_s * (1 - jitter) + exponential(&rng, mean_s * jitter);
        }
        due_ns = wp_bursts_due_ns(&bursts, early);
        out.bursts++;
        out.early += (int64_t)(at_s * S) < due_ns;
        out.sure +=
            due_ns > 0 ? (double)(due_ns - bursts.of[bursts.n - 1].began_ns) / S
                       : 0;
    }
    out.sure /= out.bursts * mean_s;
    return out;
}

/* The formula, against chance: no more are early than was asked for, whatever
 * the share that is chance, and little of what is sure is given away. */
static void
by_chance(void **state)
{
    static const struct {
        double jitter;
        int n;
        double sure; /* At least. */
    } rows[] = {{1, 4, 0},      {1, 12, 0},     {1, 31, 0},     {0.5, 12, 0.05},
                {0.5, 31, 0.3}, {0.2, 8, 0.35}, {0.2, 31, 0.7}, {0, 4, 0.93}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct early it = try_jitter(rows[i].jitter, rows[i].n, 0.005);

        print_message("jitter %g, %d gaps: %u of %u early, sure for %.2f\n",
                      rows[i].jitter, rows[i].n, it.early, it.bursts, it.sure);
        /* 100 of 20 000, and three standard errors. */
        assert_true(it.early <= 130);
        assert_true(it.sure >= rows[i].sure);
    }
}

/* Single misses between large bursts, and a huge one once: the clock of the
 * large ones is seen all the same. */
static void
small_ones(void **state)
{
    struct wp_bursts bursts = {.n = 0};
    int64_t at_ns = 0;

    (void)state;
    for (int i = 0; i < 60; i++) {
        at_ns += 3600 * S;
        burst(&bursts, at_ns, i == 20 ? 600 : 100);
        for (int k = 1; k <= i % 7; k++) {
            burst(&bursts, at_ns + k * 450 * S, 2);
        }
    }
    at_ns += 3600 * S;
    burst(&bursts, at_ns, 100);
    assert_true(wp_bursts_due_ns(&bursts, EARLY) > at_ns + 3000 * S);
    assert_true(wp_bursts_due_ns(&bursts, EARLY) < at_ns + 3600 * S);
    /* As large as these they count. */
    for (int i = 0; i < 40; i++) {
        burst(&bursts, at_ns += (i % 2 == 0 ? 600 : 3000) * S, 100);
    }
    assert_true(wp_bursts_due_ns(&bursts, EARLY) < at_ns + 600 * S);
}

/* Claims that are near each other are one burst, however long it lasts. */
static void
one_long(void **state)
{
    struct wp_bursts bursts = {.n = 0};

    (void)state;
    for (int64_t s = 100; s < 1000; s += 30) {
        wp_bursts_add(&bursts, s * S, (uint32_t)(s % 40), 1, APART_NS);
    }
    assert_int_equal(bursts.n, 1);
    assert_int_equal(bursts.of[0].began_ns, 100 * S);
    assert_true(bursts.of[0].missed == 30);
    assert_int_equal(bursts.of[0].needed, 30);
    wp_bursts_add(&bursts, 970 * S + APART_NS + 1, 1, 30, APART_NS);
    assert_int_equal(bursts.n, 2);
}

/* What bursts needed: all the same, or not, or too few to tell. */
static void
spread(void **state)
{
    struct wp_bursts bursts = {.n = 0};

    (void)state;
    for (int64_t i = 1; i <= 4; i++) {
        burst(&bursts, i * 3600 * S, 40);
    }
    assert_true(isinf(wp_bursts_spread(&bursts)));
    burst(&bursts, 5 * 3600 * S, 40);
    assert_true(wp_bursts_spread(&bursts) == 0);
    burst(&bursts, 6 * 3600 * S, 2); /* Left out. */
    assert_true(wp_bursts_spread(&bursts) == 0);
    for (int64_t i = 7; i <= 11; i++) {
        burst(&bursts, i * 3600 * S, 60);
    }
    assert_true(fabs(wp_bursts_spread(&bursts) - 10) < 1e-9);
}

static void
what_cannot_be(void **state)
{
    struct wp_bursts bursts = {.n = 0};
    struct wp_bursts other;

    (void)state;
    assert_true(wp_bursts_are_sound(&bursts, 0));
    burst(&bursts, 10 * S, 3);
    burst(&bursts, 100 * S, 3);
    assert_true(wp_bursts_are_sound(&bursts, 101 * S));
    assert_false(wp_bursts_are_sound(&bursts, 100 * S)); /* Later than now. */
    other = bursts;
    other.n = WP_BURSTS + 1;
    assert_false(wp_bursts_are_sound(&other, 101 * S));
    other = bursts;
    other.of[1].began_ns = 5 * S; /* Not in order. */
    assert_false(wp_bursts_are_sound(&other, 101 * S));
    other = bursts;
    other.of[0].began_ns = -1;
    assert_false(wp_bursts_are_sound(&other, 101 * S));
    other = bursts;
    other.latest_ns = 99 * S; /* Before the latest began. */
    assert_false(wp_bursts_are_sound(&other, 101 * S));
    other = bursts;
    other.of[0].missed = 1e19;
    assert_false(wp_bursts_are_sound(&other, 101 * S));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_a_clock),     cmocka_unit_test(another_clock),
        cmocka_unit_test(by_chance),      cmocka_unit_test(small_ones),
        cmocka_unit_test(one_long),       cmocka_unit_test(spread),
        cmocka_unit_test(what_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
