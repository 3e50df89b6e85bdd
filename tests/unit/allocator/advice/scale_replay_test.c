/* tests/unit/allocator/advice/scale_replay_test.c - the simulated pool: against the theory of
 * constant stocks, step by step by hand, and what must hold of any policy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/refill/refill.h"
#include "allocator/advice/replay_parts.h"
#include "bench/scaling/baseline.h"

#define S WP_NS_PER_S

/* Poisson claims, without end. */
struct poisson {
    struct wp_rng rng;
    double rate_per_s;
    double at_s;
};

static bool
poisson_next(void *self, int64_t *mono_ns, uint32_t *n)
{
    struct poisson *poisson = self;

    poisson->at_s -= log(1 - wp_rng_unit(&poisson->rng)) / poisson->rate_per_s;
    *mono_ns = (int64_t)(poisson->at_s * (double)S);
    *n = 1;
    return true;
}

/* Claims by a table. */
struct listed {
    const int64_t *at_s;
    uint32_t n;
    uint32_t next;
};

static bool
listed_next(void *self, int64_t *mono_ns, uint32_t *n)
{
    struct listed *listed = self;

    if (listed->next == listed->n) {
        return false;
    }
    *mono_ns = listed->at_s[listed->next++] * S;
    *n = 1;
    return true;
}

static struct wp_replay_config
config_of(struct wp_replay_source source, double lead_s, double end_s)
{
    return (struct wp_replay_config){
        .source = source,
        .lead = {.median_s = lead_s},
        .miss = WP_MISS_LOST,
        .end_ns = (int64_t)(end_s * (double)S),
        .inflight_max = UINT32_MAX,
        .ceiling = UINT32_MAX,
        .seed = 1,
    };
}

static struct wp_replay_result
run_fixed(const struct wp_replay_config *config, uint32_t size)
{
    struct wp_replay_policy policy;
    struct wp_replay_result result;
    struct wp_err err;

    assert_true(wp_replay_policy_fixed(size, &policy));
    assert_int_equal(wp_replay_run(config, &policy, &result, &err), WP_OK);
    policy.destroy(policy.self);
    return result;
}

/* --- What a policy is told --- */

struct told {
    char text[1024];
    size_t len;
};

static void
told_claims(void *self, int64_t now_ns, uint32_t n, uint32_t missed)
{
    struct told *told = self;

    told->len += (size_t)snprintf(
        told->text + told->len, sizeof told->text - told->len,
        "%.1f s: %u claims, %u missed\n", (double)now_ns / S, n, missed);
}

static void
told_ready(void *self, int64_t now_ns, int64_t lead_ns)
{
    struct told *told = self;

    told->len +=
        (size_t)snprintf(told->text + told->len, sizeof told->text - told->len,
                         "%.1f s: ready after %.1f s\n", (double)now_ns / S,
                         (double)lead_ns / S);
}

static void
told_announced(void *self, int64_t now_ns, int64_t from_ns, int64_t until_ns,
               uint32_t n)
{
    struct told *told = self;

    told->len +=
        (size_t)snprintf(told->text + told->len, sizeof told->text - told->len,
                         "%.1f s: %u from %.1f to %.1f s\n", (double)now_ns / S,
                         n, (double)from_ns / S, (double)until_ns / S);
}

static uint32_t
two(void *self, const struct wp_replay_view *view, int64_t *next_ns)
{
    (void)self;
    (void)view;
    *next_ns = INT64_MAX;
    return 2;
}

static bool
one_announced(void *self, uint32_t i, int64_t *announced_ns, int64_t *from_ns,
              int64_t *until_ns, uint32_t *n)
{
    (void)self;
    *announced_ns = 3 * S;
    *from_ns = 20 * S;
    *until_ns = 21 * S;
    *n = 7;
    return i == 0;
}

/* Each event, as it happens, once. */
static void
test_what_a_policy_is_told(void **state)
{
    static const int64_t at_s[] = {10, 11, 11, 30};
    struct listed listed = {.at_s = at_s, .n = WP_ARRAY_LEN(at_s)};
    struct wp_replay_config config = config_of(
        (struct wp_replay_source){
            .next = listed_next, .announced = one_announced, .self = &listed},
        2, 60);
    struct told told = {.len = 0};
    struct wp_replay_policy policy = {.name = "two",
                                      .self = &told,
                                      .on_claims = told_claims,
                                      .on_ready = told_ready,
                                      .on_announced = told_announced,
                                      .target = two};
    struct wp_replay_result result;
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_replay_run(&config, &policy, &result, &err), WP_OK);
    assert_string_equal(told.text, "2.0 s: ready after 2.0 s\n"
                                   "2.0 s: ready after 2.0 s\n"
                                   "3.0 s: 7 from 20.0 to 21.0 s\n"
                                   "10.0 s: 1 claims, 0 missed\n"
                                   "11.0 s: 2 claims, 1 missed\n"
                                   "12.0 s: ready after 2.0 s\n"
                                   "13.0 s: ready after 2.0 s\n"
                                   "30.0 s: 1 claims, 0 missed\n"
                                   "32.0 s: ready after 2.0 s\n");
}

static double
erlang_b(uint32_t s, double a)
{
    double b = 1;

    for (uint32_t n = 1; n <= s; n++) {
        b = a * b / (n + a * b);
    }
    return b;
}

static double
poisson_tail(uint32_t s, double a)
{
    double term = exp(-a);
    double below = 0;

    for (uint32_t n = 0; n < s; n++) {
        below += term;
        term *= a / (n + 1);
    }
    return 1 - below;
}

/* A constant stock misses what Erlang and Poisson say, whatever the law of the
 * lead time: within four standard errors over 20 seeds. */
static void
test_static_stock(void **state)
{
    const struct {
        enum wp_miss miss;
        double rate_per_s;
        struct wp_replay_lead lead;
        uint32_t size;
    } rows[] = {
        {WP_MISS_LOST, 5, {.median_s = 2, .sigma = 0.3}, 14},
        {WP_MISS_LOST,
         5,
         {.median_s = 1, .slow_share = .1, .slow_extra_s = 10},
         14},
        {WP_MISS_LOST, 10, {.median_s = 4, .sigma = 0.6}, 45},
        {WP_MISS_LOST, 1, {.median_s = 8, .sigma = 0.3, .fail_share = .1}, 12},
        {WP_MISS_QUEUED, 5, {.median_s = 2, .sigma = 0.3}, 14},
        {WP_MISS_QUEUED, 10, {.median_s = 4, .sigma = 0.6}, 45},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double a = rows[i].rate_per_s * wp_replay_lead_mean_s(&rows[i].lead);
        double miss = rows[i].miss == WP_MISS_LOST
                          ? erlang_b(rows[i].size, a)
                          : poisson_tail(rows[i].size, a);
        double sum = 0;
        double squares = 0;
        double idle = 0;
        double se;
        const int seeds = 20;

        for (int seed = 0; seed < seeds; seed++) {
            struct poisson poisson = {.rate_per_s = rows[i].rate_per_s};
            struct wp_replay_config config =
                config_of((struct wp_replay_source){.next = poisson_next,
                                                    .self = &poisson},
                          1, 8000);
            struct wp_replay_result result;

            wp_rng_init(&poisson.rng, (uint64_t)seed + 1000);
            config.lead = rows[i].lead;
            config.miss = rows[i].miss;
            config.begin_ns = 500 * S;
            config.seed = (uint64_t)seed;
            result = run_fixed(&config, rows[i].size);
            sum += 1 - result.hit_rate;
            squares += (1 - result.hit_rate) * (1 - result.hit_rate);
            idle += result.idle_mean;
            assert_int_equal(result.over_target_max, 0);
        }
        sum /= seeds;
        se = sqrt((squares / seeds - sum * sum) / (seeds - 1));
        assert_true(fabs(sum - miss) < 4 * se);
        assert_true(se < 0.2 * miss);
        if (rows[i].miss == WP_MISS_LOST) {
            double expected = rows[i].size - a * (1 - miss);

            assert_true(fabs(idle / seeds - expected) < 0.02 * expected);
        }
    }
}

/* Two in stock, a lead time of 10 s, claims at 20, 21, 22, 35 s: by hand. The
 * two of 0 are ready at 10; 20 and 21 hit, 22 misses; their replacements come
 * at 30 and 31; 35 hits. */
static void
test_steps(void **state)
{
    const int64_t at_s[] = {20, 21, 22, 35};
    struct listed listed = {at_s, 4, 0};
    struct wp_replay_config config = config_of(
        (struct wp_replay_source){.next = listed_next, .self = &listed}, 10,
        40);
    struct wp_replay_result result = run_fixed(&config, 2);

    (void)state;
    assert_int_equal(result.claims, 4);
    assert_int_equal(result.hits, 3);
    assert_int_equal(result.created, 5);
    assert_int_equal(result.unused, 0);
    assert_int_equal(result.stock_max, 2);
    /* 10..20: two; 20..21: one; 30..31: one; 31..35: two; 35..40: one. */
    assert_true(fabs(result.idle_s - (20 + 1 + 1 + 8 + 5)) < 1e-6);
    assert_true(fabs(result.idle_mean - 35.0 / 40) < 1e-9);
    assert_true(fabs(result.wait_p99_s - 10) < 0.1);
    assert_true(result.wait_p50_s == 0);
}

/* The same where misses wait: 22 waits for the replacement of 20, and is
 * replaced by an order of its own; 35 hits. Then as without such an order: the
 * replacement is ordered at 30 only, and comes at the end. */
static void
test_steps_queued(void **state)
{
    const int64_t at_s[] = {20, 21, 22, 35};
    struct listed listed = {at_s, 4, 0};
    struct wp_replay_config config = config_of(
        (struct wp_replay_source){.next = listed_next, .self = &listed}, 10,
        40);
    struct wp_replay_result result;

    (void)state;
    config.miss = WP_MISS_QUEUED;
    result = run_fixed(&config, 2);
    assert_int_equal(result.hits, 3);
    assert_int_equal(result.created, 6);
    /* Ready again from 31 and 32 on. */
    assert_true(fabs(result.idle_s - (20 + 1 + 1 + 6 + 5)) < 1e-6);
    assert_true(fabs(result.wait_p99_s - 8) < 0.1);
    config.waiting_orders_none = true;
    listed.next = 0;
    result = run_fixed(&config, 2);
    assert_int_equal(result.hits, 3);
    assert_true(fabs(result.idle_s - (20 + 1 + 4)) < 1e-6);
    assert_true(fabs(result.wait_p99_s - 8) < 0.1);
}

/* What happened in the warm-up counts for nothing. */
static void
test_warm_up(void **state)
{
    const int64_t at_s[] = {1, 2, 20, 35};
    struct listed listed = {at_s, 4, 0};
    struct wp_replay_config config = config_of(
        (struct wp_replay_source){.next = listed_next, .self = &listed}, 10,
        40);
    struct wp_replay_result result;

    (void)state;
    config.begin_ns = 15 * S;
    result = run_fixed(&config, 1);
    assert_int_equal(result.claims, 2);
    assert_int_equal(result.hits, 2);
    assert_int_equal(result.created, 2);
    /* 15..20, 30..35. */
    assert_true(fabs(result.idle_s - 10) < 1e-6);
    assert_true(fabs(result.idle_mean - 0.4) < 1e-9);
}

static void
test_same_seed(void **state)
{
    struct wp_replay_result results[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct poisson poisson = {.rate_per_s = 5};
        struct wp_replay_config config = config_of(
            (struct wp_replay_source){.next = poisson_next, .self = &poisson},
            2, 2000);

        wp_rng_init(&poisson.rng, 7);
        config.lead.sigma = 0.5;
        config.lead.fail_share = 0.05;
        config.hold_median_s = 60;
        config.hold_sigma = 1;
        results[i] = run_fixed(&config, 12);
    }
    assert_memory_equal(&results[0], &results[1], sizeof(results[0]));
}

/* Nothing ever becomes ready: what was in flight at first, what replaced the
 * failures until the breaker opened, and then one probe at a time, ever more
 * seldom: 1 2 4 8 16 32 60 60 ... s, less up to a quarter for jitter. */
static void
test_never_ready(void **state)
{
    const uint32_t inflight[] = {1, 8, 64};

    (void)state;
    for (size_t i = 0; i < sizeof(inflight) / sizeof(inflight[0]); i++) {
        struct poisson poisson = {.rate_per_s = 50};
        struct wp_replay_config config = config_of(
            (struct wp_replay_source){.next = poisson_next, .self = &poisson},
            2, 3600);
        struct wp_replay_result result;
        uint64_t at_first = inflight[i] + WP_REFILL_BREAKER_FAILURES - 1;
        uint64_t probes = 7 + (3600 - 63 * 3 / 4) / (60 * 3 / 4);

        wp_rng_init(&poisson.rng, 3);
        config.lead.fail_share = 1;
        config.inflight_max = inflight[i];
        result = run_fixed(&config, 500);
        assert_true(result.created <= at_first + probes);
        assert_true(result.created >= inflight[i] + 3600 / 64);
        assert_int_equal(result.hits, 0);
        assert_int_equal(result.over_target_max, 0);
        assert_true(result.stock_max <= inflight[i]);
    }
}

static void
test_bounds(void **state)
{
    const int64_t at_s[] = {1000};
    struct listed listed = {at_s, 1, 0};
    struct wp_replay_config config = config_of(
        (struct wp_replay_source){.next = listed_next, .self = &listed}, 10,
        100);
    struct wp_replay_result result;

    (void)state;
    /* One after the other every half second: the last of 20 at 9.5 + 10. */
    config.creates_per_s_max = 2;
    result = run_fixed(&config, 20);
    assert_true(fabs(result.idle_s - (20 * 100 - 20 * 10 - 0.5 * 190)) < 1e-3);
    /* Twenty asked for, eight allowed, until the ceiling is lifted at 50; the
     * pause after a refusal is at most a second. */
    config.creates_per_s_max = 0;
    config.ceiling = 8;
    config.ceiling_until_ns = 50 * S;
    listed.next = 0;
    result = run_fixed(&config, 20);
    assert_int_equal(result.created, 20);
    assert_true(result.idle_s <= 8 * 90 + 12 * 40 + 1e-6);
    assert_true(result.idle_s >= 8 * 90 + 12 * 39);
}

static bool
stop_half_way(void *ctx, double share)
{
    double *last = ctx;

    assert_true(share >= *last);
    *last = share;
    return share < 0.5;
}

static void
test_stopped(void **state)
{
    struct poisson poisson = {.rate_per_s = 5};
    struct wp_replay_config config = config_of(
        (struct wp_replay_source){.next = poisson_next, .self = &poisson}, 2,
        1000);
    struct wp_replay_result result;
    double share = 0;

    (void)state;
    wp_rng_init(&poisson.rng, 7);
    config.progress = stop_half_way;
    config.ctx = &share;
    result = run_fixed(&config, 12);
    assert_true(result.stopped);
    assert_true(result.claims > 2000 && result.claims < 3000);
    assert_true(share < 0.53);
}

static void
test_bad_config(void **state)
{
    struct listed listed = {NULL, 0, 0};
    const struct wp_replay_config good = config_of(
        (struct wp_replay_source){.next = listed_next, .self = &listed}, 10,
        100);
    struct wp_replay_config bad[6];
    struct wp_replay_result result;

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        bad[i] = good;
    }
    bad[0].begin_ns = 101 * S;
    bad[1].end_ns = WP_TIME_NEVER;
    bad[2].lead.median_s = -1;
    bad[3].lead.fail_share = 1.5;
    bad[4].lead.sigma = NAN;
    bad[5].hold_median_s = -3;
    for (size_t i = 0; i < 6; i++) {
        struct wp_replay_policy policy = {.name = "never asked"};
        struct wp_err err = {.msg = ""};

        assert_int_equal(wp_replay_run(&bad[i], &policy, &result, &err),
                         WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, "replay: "));
    }
    /* No claims at all are fine. */
    result = run_fixed(&good, 3);
    assert_int_equal(result.claims, 0);
    assert_true(result.hit_rate == 1);
}

static void
test_heap(void **state)
{
    struct wp_replay_heap heap = {0};
    struct wp_rng rng;
    int64_t last = -1;

    (void)state;
    wp_rng_init(&rng, 5);
    assert_int_equal(wp_replay_heap_next_ns(&heap), WP_TIME_NEVER);
    for (int64_t i = 0; i < 1000; i++) {
        int64_t at = (int64_t)wp_rng_below(&rng, 300);

        assert_true(wp_replay_heap_push(&heap, at, at * 2));
    }
    for (int64_t i = 0; i < 1000; i++) {
        struct wp_replay_due due = wp_replay_heap_pop(&heap);

        assert_true(due.at_ns >= last);
        assert_int_equal(due.what, due.at_ns * 2);
        last = due.at_ns;
    }
    assert_int_equal(heap.n, 0);
    wp_replay_heap_fini(&heap);
}

static void
test_waits(void **state)
{
    static struct wp_replay_waits waits;
    const double waits_s[] = {0.00001, 0.001, 0.25, 1, 60, 3600, 86400};

    (void)state;
    for (size_t i = 0; i < sizeof(waits_s) / sizeof(waits_s[0]); i++) {
        memset(&waits, 0, sizeof(waits));
        wp_replay_waits_add(&waits, (int64_t)(waits_s[i] * (double)S));
        assert_true(wp_replay_waits_quantile_s(&waits, 2, 0.5) == 0);
        assert_true(
            fabs(wp_replay_waits_quantile_s(&waits, 2, 0.99) / waits_s[i] - 1) <
            0.06);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_static_stock),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_steps_queued),
        cmocka_unit_test(test_warm_up),
        cmocka_unit_test(test_same_seed),
        cmocka_unit_test(test_never_ready),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_bad_config),
        cmocka_unit_test(test_heap),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_what_a_policy_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
