/* tests/unit/pool/slots/timing_wheel_test.c - never early, never twice, at most one tick
 * late: by example at the levels' edges, and against a naive model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "pool/base/rng.h"
#include "pool/limits.h"
#include "pool/slots/timing_wheel.h"

enum {
    N = 200
};

static struct {
    struct wp_timing_wheel *wheel;
    int64_t now_ns;
    int64_t deadline_ns[N]; /* -1: none. */
    uint32_t fired;
    struct wp_rng *rng; /* Callbacks change the wheel when not NULL. */
} model;

static void
model_clear(struct wp_timing_wheel *wheel)
{
    model.wheel = wheel;
    model.fired = 0;
    model.rng = NULL;
    for (int i = 0; i < N; i++) {
        model.deadline_ns[i] = -1;
    }
}

static uint32_t
count_of(const struct wp_timing_wheel *wheel)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < wheel->n; i++) {
        count += wp_timing_wheel_contains(wheel, i);
    }
    return count;
}

static void
insert(uint32_t index, int64_t deadline_ns)
{
    wp_timing_wheel_insert(model.wheel, index, deadline_ns);
    model.deadline_ns[index] = deadline_ns;
}

/* Deadlines of all sizes, some of them past. */
static int64_t
random_deadline(struct wp_rng *rng)
{
    int64_t span = INT64_C(1) << wp_rng_below(rng, 52);
    int64_t deadline =
        model.now_ns + (int64_t)wp_rng_below(rng, (uint64_t)span + 1);

    if (wp_rng_below(rng, 8) == 0) {
        deadline = model.now_ns / 2;
    }
    /* Whole ticks are the edges. */
    return wp_rng_below(rng, 4) == 0
               ? deadline / WP_WHEEL_TICK_NS * WP_WHEEL_TICK_NS
               : deadline;
}

static void
on_fire(void *ctx, uint32_t index)
{
    assert_ptr_equal(ctx, &model);
    assert_true(index < N);
    assert_true(model.deadline_ns[index] >= 0);
    assert_true(model.deadline_ns[index] <= model.now_ns);
    assert_false(wp_timing_wheel_contains(model.wheel, index));
    model.deadline_ns[index] = -1;
    model.fired++;
    if (model.rng != NULL) {
        uint32_t other = (uint32_t)wp_rng_below(model.rng, N);

        switch (wp_rng_below(model.rng, 6)) {
        case 0:
            insert(index, random_deadline(model.rng));
            break;
        case 1:
            insert(other, random_deadline(model.rng));
            break;
        case 2:
            assert_int_equal(wp_timing_wheel_remove(model.wheel, other),
                             model.deadline_ns[other] >= 0);
            model.deadline_ns[other] = -1;
            break;
        default:
            break;
        }
    }
}

static uint32_t
advance(int64_t now_ns)
{
    uint32_t before = model.fired;
    uint32_t fired;

    model.now_ns = now_ns;
    fired = wp_timing_wheel_advance(model.wheel, now_ns, on_fire, &model);
    assert_int_equal(fired, model.fired - before);
    return fired;
}

static void
check_against_model(bool callbacks_inserted)
{
    int64_t earliest = WP_TIME_NEVER;
    int64_t next = wp_timing_wheel_next_ns(model.wheel);
    uint32_t count = 0;

    for (uint32_t i = 0; i < N; i++) {
        int64_t deadline = model.deadline_ns[i];

        assert_int_equal(wp_timing_wheel_contains(model.wheel, i),
                         deadline >= 0);
        if (deadline < 0) {
            continue;
        }
        count++;
        earliest = deadline < earliest ? deadline : earliest;
        if (!callbacks_inserted) {
            /* A tick or more late: it should have fired. */
            assert_true(deadline > model.now_ns - WP_WHEEL_TICK_NS);
        }
    }
    assert_int_equal(count_of(model.wheel), count);
    if (count == 0) {
        assert_int_equal(next, WP_TIME_NEVER);
    } else if (!callbacks_inserted) {
        assert_true(next - WP_WHEEL_TICK_NS < earliest);
    }
}

/* A deadline fires at the end of its tick, on the tick itself at once. */
static void
test_never_early_and_one_tick_late_at_most(void **state)
{
    static const int64_t deadlines[] = {
        1,
        WP_WHEEL_TICK_NS - 1,
        WP_WHEEL_TICK_NS,
        WP_WHEEL_TICK_NS + 1,
        63 * WP_WHEEL_TICK_NS,
        64 * WP_WHEEL_TICK_NS,
        64 * WP_WHEEL_TICK_NS + 1,
        4095 * WP_WHEEL_TICK_NS,
        4096 * WP_WHEEL_TICK_NS - 1,
        4097 * WP_WHEEL_TICK_NS,
        WP_TTL_MAX_NS,
        WP_TTL_MAX_NS + 1,
        400 * WP_TTL_MAX_NS,
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(deadlines); i++) {
        int64_t deadline = deadlines[i];
        struct wp_timing_wheel wheel;

        assert_true(wp_timing_wheel_init(&wheel, N, 0));
        model_clear(&wheel);
        insert(3, deadline);
        assert_int_equal(advance(deadline - 1), 0);
        assert_int_equal(advance(deadline + WP_WHEEL_TICK_NS - 1), 1);
        assert_int_equal(advance(deadline + WP_TTL_MAX_NS), 0);
        wp_timing_wheel_fini(&wheel);
    }
}

/* Sleeping until next_ns again and again ends at the deadline's tick, after at
 * most one stop for each level. */
static void
test_sleeping_until_next_makes_progress(void **state)
{
    struct wp_timing_wheel wheel;
    int64_t start = 123 * WP_NS_PER_S + 456;
    int64_t deadline = start + WP_TTL_MAX_NS + 789;
    int64_t now = start;
    int stops = 0;

    (void)state;
    assert_true(wp_timing_wheel_init(&wheel, N, start));
    model_clear(&wheel);
    assert_int_equal(wp_timing_wheel_next_ns(&wheel), WP_TIME_NEVER);
    insert(0, deadline);
    while (count_of(&wheel) > 0) {
        int64_t next = wp_timing_wheel_next_ns(&wheel);

        assert_true(next > now);
        assert_true(next - WP_WHEEL_TICK_NS < deadline);
        now = next;
        (void)advance(now);
        stops++;
    }
    assert_true(stops <= WP_WHEEL_LEVELS);
    assert_true(now >= deadline && now - WP_WHEEL_TICK_NS < deadline);
    assert_int_equal(model.fired, 1);
    wp_timing_wheel_fini(&wheel);
}

static void
test_insert_moves_and_remove_forgets(void **state)
{
    struct wp_timing_wheel wheel;

    (void)state;
    assert_true(wp_timing_wheel_init(&wheel, N, 0));
    model_clear(&wheel);
    insert(7, 10 * WP_NS_PER_MS);
    insert(8, 10 * WP_NS_PER_MS);
    insert(7, 50 * WP_NS_PER_S); /* A renewed lease. */
    assert_int_equal(count_of(&wheel), 2);
    assert_int_equal(advance(1 * WP_NS_PER_S), 1);
    assert_true(wp_timing_wheel_remove(&wheel, 7));
    assert_false(wp_timing_wheel_remove(&wheel, 7));
    assert_false(wp_timing_wheel_remove(&wheel, 8));
    model.deadline_ns[7] = -1;
    assert_int_equal(advance(100 * WP_NS_PER_S), 0);
    wp_timing_wheel_fini(&wheel);
}

/* A deadline in the past fires in the next advance, even one at the same time,
 * and a clock that goes back fires nothing. */
static void
test_past_deadlines(void **state)
{
    struct wp_timing_wheel wheel;

    (void)state;
    assert_true(wp_timing_wheel_init(&wheel, N, 5 * WP_NS_PER_S));
    model_clear(&wheel);
    insert(1, 0);
    assert_true(wp_timing_wheel_next_ns(&wheel) <= 5 * WP_NS_PER_S);
    assert_int_equal(advance(5 * WP_NS_PER_S), 1);
    insert(1, 5 * WP_NS_PER_S - 1);
    assert_int_equal(advance(5 * WP_NS_PER_S), 1);
    insert(2, 6 * WP_NS_PER_S);
    assert_int_equal(advance(3 * WP_NS_PER_S), 0);
    assert_int_equal(advance(6 * WP_NS_PER_S), 1);
    wp_timing_wheel_fini(&wheel);
}

static struct wp_timing_wheel *again_wheel;

static void
fire_again(void *ctx, uint32_t index)
{
    int *calls = ctx;

    (*calls)++;
    wp_timing_wheel_insert(again_wheel, index, 0);
}

/* A callback that always sets a past deadline is called once for each advance,
 * so that advance ends; also when the advance spans several levels. */
static void
test_reinserting_callback_ends(void **state)
{
    struct wp_timing_wheel wheel;
    int calls = 0;

    (void)state;
    assert_true(wp_timing_wheel_init(&wheel, 2, 0));
    again_wheel = &wheel;
    wp_timing_wheel_insert(&wheel, 0, 3 * WP_NS_PER_MS);
    for (int i = 1; i <= 5; i++) {
        assert_int_equal(wp_timing_wheel_advance(&wheel, i * WP_NS_PER_S * 100,
                                                 fire_again, &calls),
                         1);
        assert_int_equal(calls, i);
    }
    wp_timing_wheel_fini(&wheel);
}

static void
test_no_index_and_the_last_deadline(void **state)
{
    /* The last whole tick that a time can name. */
    const int64_t last_ns = WP_TIME_NEVER / WP_WHEEL_TICK_NS * WP_WHEEL_TICK_NS;
    struct wp_timing_wheel wheel;

    (void)state;
    assert_true(wp_timing_wheel_init(&wheel, 0, 0));
    model_clear(&wheel);
    assert_int_equal(advance(WP_TTL_MAX_NS), 0);
    wp_timing_wheel_fini(&wheel);

    assert_true(wp_timing_wheel_init(&wheel, N, 0));
    model_clear(&wheel);
    insert(0, WP_TIME_NEVER);
    insert(1, last_ns);
    assert_int_equal(advance(last_ns - WP_WHEEL_TICK_NS), 0);
    assert_int_equal(wp_timing_wheel_next_ns(&wheel), last_ns);
    assert_int_equal(advance(last_ns), 1);
    assert_int_equal(wp_timing_wheel_next_ns(&wheel), WP_TIME_NEVER);
    assert_int_equal(advance(WP_TIME_NEVER - 1), 0);
    assert_int_equal(count_of(&wheel), 1);
    wp_timing_wheel_fini(&wheel);
}

static void
run_model(uint64_t seed, bool callbacks_change)
{
    struct wp_rng rng;
    struct wp_timing_wheel wheel;
    uint32_t fired = 0;

    wp_rng_init(&rng, seed);
    model.now_ns = (int64_t)wp_rng_below(&rng, UINT64_C(1) << 50);
    assert_true(wp_timing_wheel_init(&wheel, N, model.now_ns));
    model_clear(&wheel);
    model.rng = callbacks_change ? &rng : NULL;
    for (int i = 0; i < 4000; i++) {
        uint32_t index = (uint32_t)wp_rng_below(&rng, N);
        int64_t step;

        switch (wp_rng_below(&rng, 4)) {
        case 0:
            step = (int64_t)wp_rng_below(&rng, UINT64_C(1)
                                                   << wp_rng_below(&rng, 50));
            fired += advance(model.now_ns + step);
            check_against_model(callbacks_change);
            break;
        case 1:
            assert_int_equal(wp_timing_wheel_remove(&wheel, index),
                             model.deadline_ns[index] >= 0);
            model.deadline_ns[index] = -1;
            break;
        default:
            insert(index, random_deadline(&rng));
            break;
        }
    }
    assert_true(fired > 100);
    wp_timing_wheel_fini(&wheel);
}

static void
test_against_model(void **state)
{
    const char *given = getenv("WP_TEST_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 20260131;

    (void)state;
    print_message("seed %llu (set WP_TEST_SEED to change)\n",
                  (unsigned long long)seed);
    for (uint64_t i = 0; i < 20; i++) {
        run_model(seed + i, i % 2 != 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_early_and_one_tick_late_at_most),
        cmocka_unit_test(test_sleeping_until_next_makes_progress),
        cmocka_unit_test(test_insert_moves_and_remove_forgets),
        cmocka_unit_test(test_past_deadlines),
        cmocka_unit_test(test_reinserting_callback_ends),
        cmocka_unit_test(test_no_index_and_the_last_deadline),
        cmocka_unit_test(test_against_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
