/* A group's budget: the optimum against every way of sharing, and against the
 * plain way of sharing one by one; bounds, ties, mins that are too many. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/rng.h"
#include "pool/policy/budget.h"
#include "pool/scale/stock.h"

enum {
    POOLS_MAX = 64,
    CURVE = 4096,
};

/* A pool's worth by table, falling. */
struct curve {
    double worth[CURVE];
    uint64_t asked;
};

struct group {
    struct wp_budget_pool pools[POOLS_MAX];
    struct curve *curves;
    char names[POOLS_MAX][16];
    uint32_t heap[POOLS_MAX];
    uint32_t n;
};

static double
worth(const void *self, uint32_t s)
{
    struct curve *curve = (struct curve *)(uintptr_t)self;

    curve->asked++;
    return s < CURVE ? curve->worth[s] : 0;
}

static struct group *
new_group(uint32_t n)
{
    struct group *group = calloc(1, sizeof *group);

    assert_non_null(group);
    group->curves = calloc(n, sizeof *group->curves);
    assert_non_null(group->curves);
    group->n = n;
    for (uint32_t i = 0; i < n; i++) {
        (void)snprintf(group->names[i], sizeof group->names[i], "p%u", i);
        group->pools[i] = (struct wp_budget_pool){
            .name = wp_str_from(group->names[i]),
            .worth = worth,
            .self = &group->curves[i],
        };
    }
    return group;
}

static void
free_group(struct group *group)
{
    free(group->curves);
    free(group);
}

/* Falls by whole steps, so that equal worth is frequent. */
static void
fill_coarsely(struct wp_rng *rng, struct curve *curve, uint32_t levels)
{
    double value = (double)wp_rng_below(rng, levels);

    for (uint32_t i = 0; i < CURVE; i++) {
        curve->worth[i] = value;
        if (value > 0 && wp_rng_below(rng, 3) == 0) {
            value -= 1;
        }
    }
}

static uint64_t
sum_of(const struct group *group)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < group->n; i++) {
        sum += group->pools[i].share;
    }
    return sum;
}

static double
saved_by(const struct group *group, const uint32_t *shares)
{
    double saved = 0;

    for (uint32_t i = 0; i < group->n; i++) {
        for (uint32_t s = 0; s < shares[i]; s++) {
            saved += group->curves[i].worth[s];
        }
    }
    return saved;
}

/* The most that any way of sharing `left` among pool i and on saves. */
static double
best_of_all(const struct group *group, uint32_t i, uint32_t left,
            uint32_t *shares)
{
    const struct wp_budget_pool *pool = &group->pools[i];
    double best = -1;

    if (i == group->n) {
        return saved_by(group, shares);
    }
    for (uint32_t s = pool->min; s <= pool->wanted && s <= left; s++) {
        double saved;

        shares[i] = s;
        saved = best_of_all(group, i + 1, left - s, shares);
        best = saved > best ? saved : best;
    }
    return best;
}

static void
test_no_other_way_saves_more(void **state)
{
    struct wp_rng rng;

    (void)state;
    wp_rng_init(&rng, 11);
    for (int round = 0; round < 400; round++) {
        struct group *group = new_group(1 + (uint32_t)wp_rng_below(&rng, 4));
        uint32_t total = (uint32_t)wp_rng_below(&rng, 16);
        uint32_t shares[POOLS_MAX];
        uint32_t all[POOLS_MAX];
        uint32_t mins = 0;

        for (uint32_t i = 0; i < group->n; i++) {
            struct wp_budget_pool *pool = &group->pools[i];

            pool->min = (uint32_t)wp_rng_below(&rng, 3);
            pool->wanted = pool->min + (uint32_t)wp_rng_below(&rng, 9);
            mins += pool->min;
            fill_coarsely(&rng, &group->curves[i], 1 + (uint32_t)round % 12);
        }
        if (wp_budget_share(group->pools, group->n, total, group->heap)) {
            for (uint32_t i = 0; i < group->n; i++) {
                shares[i] = group->pools[i].share;
                assert_in_range(shares[i], group->pools[i].min,
                                group->pools[i].wanted);
            }
            assert_true(sum_of(group) <= total);
            assert_true(fabs(saved_by(group, shares) -
                             best_of_all(group, 0, total, all)) < 1e-9);
        } else {
            assert_true(mins > total);
            assert_int_equal(sum_of(group), total);
        }
        free_group(group);
    }
}

/* One at a time to whom it is worth most, by name where that is equal. */
static void
share_plainly(const struct group *group, uint64_t total, uint32_t *shares)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < group->n; i++) {
        shares[i] = group->pools[i].min;
        sum += shares[i];
    }
    for (; sum < total; sum++) {
        uint32_t best = UINT32_MAX;

        for (uint32_t i = 0; i < group->n; i++) {
            double own = group->curves[i].worth[shares[i]];

            if (shares[i] >= group->pools[i].wanted) {
                continue;
            }
            if (best == UINT32_MAX ||
                own > group->curves[best].worth[shares[best]] ||
                (!(own < group->curves[best].worth[shares[best]]) &&
                 strcmp(group->names[i], group->names[best]) < 0)) {
                best = i;
            }
        }
        if (best == UINT32_MAX) {
            return;
        }
        shares[best]++;
    }
}

static void
test_the_same_as_one_by_one(void **state)
{
    struct wp_rng rng;

    (void)state;
    wp_rng_init(&rng, 12);
    for (int round = 0; round < 300; round++) {
        struct group *group = new_group(1 + (uint32_t)wp_rng_below(&rng, 40));
        uint32_t total = (uint32_t)wp_rng_below(&rng, 4000);
        uint32_t shares[POOLS_MAX];

        for (uint32_t i = 0; i < group->n; i++) {
            struct wp_budget_pool *pool = &group->pools[i];
            double a = 200 * wp_rng_unit(&rng);
            double rate = 10 * wp_rng_unit(&rng);

            pool->min = (uint32_t)wp_rng_below(&rng, 5);
            pool->wanted = (uint32_t)wp_rng_below(&rng, 400);
            pool->wanted = pool->wanted > pool->min ? pool->wanted : pool->min;
            if (round % 2 == 0) {
                fill_coarsely(&rng, &group->curves[i], 50);
                continue;
            }
            for (uint32_t s = 0; s < 400; s++) {
                group->curves[i].worth[s] =
                    rate * (wp_stock_miss(WP_MISS_LOST, s, a) -
                            wp_stock_miss(WP_MISS_LOST, s + 1, a));
            }
        }
        if (wp_budget_share(group->pools, group->n, total, group->heap)) {
            share_plainly(group, total, shares);
            for (uint32_t i = 0; i < group->n; i++) {
                if (group->pools[i].share != shares[i]) {
                    fail_msg("round %d, pool %u: %u, not %u", round, i,
                             group->pools[i].share, shares[i]);
                }
            }
        }
        free_group(group);
    }
}

/* The order in which pools are given makes no difference. */
static void
test_ties_go_by_name(void **state)
{
    struct group *group = new_group(3);

    (void)state;
    for (uint32_t order = 0; order < 3; order++) {
        for (uint32_t i = 0; i < 3; i++) {
            group->pools[i].name = wp_str_from(group->names[(i + order) % 3]);
            group->pools[i].wanted = 10;
            for (uint32_t s = 0; s < 10; s++) {
                group->curves[i].worth[s] = 1;
            }
        }
        assert_true(wp_budget_share(group->pools, 3, 14, group->heap));
        for (uint32_t i = 0; i < 3; i++) {
            static const uint32_t expected[] = {10, 4, 0};

            assert_int_equal(group->pools[i].share, expected[(i + order) % 3]);
        }
    }
    free_group(group);
}

static void
test_edges(void **state)
{
    struct group *group = new_group(3);

    (void)state;
    assert_true(wp_budget_share(group->pools, 0, 5, group->heap));
    /* Nothing is worth anything: still nobody goes without for no reason. */
    for (uint32_t i = 0; i < 3; i++) {
        group->pools[i].wanted = 4;
        group->curves[i].worth[0] = NAN;
    }
    assert_true(wp_budget_share(group->pools, 3, 7, group->heap));
    assert_int_equal(sum_of(group), 7);
    assert_true(wp_budget_share(group->pools, 3, 0, group->heap));
    assert_int_equal(sum_of(group), 0);
    assert_true(wp_budget_share(group->pools, 3, UINT32_MAX, group->heap));
    assert_int_equal(sum_of(group), 12);
    /* A min above what is wanted is honoured. */
    group->pools[1].min = 6;
    assert_true(wp_budget_share(group->pools, 3, 7, group->heap));
    assert_int_equal(group->pools[1].share, 6);
    assert_int_equal(sum_of(group), 7);
    /* More mins than there is: by name, and that is said. */
    group->pools[0].min = group->pools[1].min = group->pools[2].min = 5;
    assert_false(wp_budget_share(group->pools, 3, 7, group->heap));
    assert_int_equal(group->pools[0].share, 5);
    assert_int_equal(group->pools[1].share, 2);
    assert_int_equal(group->pools[2].share, 0);
    for (uint32_t i = 0; i < 3; i++) {
        group->pools[i].min = group->pools[i].wanted = UINT32_MAX;
    }
    assert_false(wp_budget_share(group->pools, 3, UINT32_MAX, group->heap));
    assert_int_equal(group->pools[0].share, UINT32_MAX);
    assert_int_equal(group->pools[2].share, 0);
    free_group(group);
}

/* Goal: where the mins are too many they go by name, in whatever order the
 * pools are, and whatever one more was worth before. */
static void
test_mins_go_by_name(void **state)
{
    enum {
        N = 5
    };

    (void)state;
    for (uint32_t step = 1; step < N; step++) {
        for (uint32_t from = 0; from < N; from++) {
            struct group *group = new_group(N);

            for (uint32_t i = 0; i < N; i++) {
                (void)snprintf(group->names[i], sizeof group->names[i], "p%u",
                               (from + i * step) % N);
                group->pools[i].name = wp_str_from(group->names[i]);
                group->pools[i].wanted = 10;
                for (uint32_t s = 0; s < 10; s++) {
                    group->curves[i].worth[s] = i;
                }
            }
            assert_true(wp_budget_share(group->pools, N, 13, group->heap));
            for (uint32_t i = 0; i < N; i++) {
                group->pools[i].min = 4;
            }
            assert_false(wp_budget_share(group->pools, N, 10, group->heap));
            for (uint32_t i = 0; i < N; i++) {
                static const uint32_t shares[N] = {4, 4, 2, 0, 0};

                assert_int_equal(group->pools[i].share,
                                 shares[(from + i * step) % N]);
            }
            free_group(group);
        }
    }
}

/* Goal: who stands behind those that share has no part in it, however much it
 * would be worth there. */
static void
test_no_others_share(void **state)
{
    static const struct {
        uint32_t total;
        uint32_t min;
        bool enough;
    } rows[] = {{100, 0, true}, {7, 0, true}, {7, 2, true}, {7, 5, false}};
    struct group *group = new_group(4);

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        group->pools[i].wanted = 10;
        for (uint32_t s = 0; s < 10; s++) {
            group->curves[i].worth[s] = i < 3 ? 1 : 100;
        }
    }
    group->pools[3].name = WP_STR("first");
    group->pools[3].min = 1;
    group->heap[3] = 77;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_budget_pool other = group->pools[3];
        uint32_t sum = 0;

        for (uint32_t k = 0; k < 3; k++) {
            group->pools[k].min = rows[i].min;
        }
        assert_int_equal(
            wp_budget_share(group->pools, 3, rows[i].total, group->heap),
            rows[i].enough);
        for (uint32_t k = 0; k < 3; k++) {
            sum += group->pools[k].share;
        }
        assert_int_equal(sum, rows[i].total < 30 ? rows[i].total : 30);
        assert_memory_equal(&group->pools[3], &other, sizeof other);
        assert_int_equal(group->heap[3], 77);
    }
    assert_int_equal(group->curves[3].asked, 0);
    free_group(group);
}

/* A hundred thousand sandboxes among 64 pools need some thousand questions. */
static void
test_cost(void **state)
{
    struct group *group = new_group(POOLS_MAX);
    uint64_t asked = 0;

    (void)state;
    for (uint32_t i = 0; i < group->n; i++) {
        group->pools[i].wanted = CURVE;
        for (uint32_t s = 0; s < CURVE; s++) {
            group->curves[i].worth[s] = exp(-(double)s / (50 + 20 * i));
        }
    }
    assert_true(wp_budget_share(group->pools, group->n, 100000, group->heap));
    assert_int_equal(sum_of(group), 100000);
    for (uint32_t i = 0; i < group->n; i++) {
        asked += group->curves[i].asked;
    }
    assert_true(asked < 64 * 6 * 11);
    free_group(group);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_other_way_saves_more),
        cmocka_unit_test(test_the_same_as_one_by_one),
        cmocka_unit_test(test_ties_go_by_name),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_mins_go_by_name),
        cmocka_unit_test(test_no_others_share),
        cmocka_unit_test(test_cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
