/* tests/unit/allocator/advice/scale_advice_test.c - advice: its rows against what is known of
 * the traffic, its words, what it admits not to know. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/base/rng.h"
#include "allocator/advice/advice.h"
#include "pool/scale/stock.h"

#define S WP_NS_PER_S
#define DAY (INT64_C(1780000000) * S)

/* Poisson claims at a rate, and lead times around 8 s. */
static struct wp_history *
poisson(double per_s, double hours, uint64_t seed)
{
    struct wp_history *history = wp_history_create(16 << 20);
    struct wp_rng rng;
    double t_s = 0;

    wp_rng_init(&rng, seed);
    while (t_s < hours * 3600) {
        int64_t at_ns = DAY + (int64_t)(t_s * 1e9);
        struct wp_history_event event = {
            .kind = WP_HISTORY_CLAIMS, .wall_ns = at_ns, .n = 1};

        wp_history_add(history, at_ns, &event);
        event = (struct wp_history_event){
            .kind = WP_HISTORY_READY,
            .wall_ns = at_ns,
            .lead_ns = (int64_t)((6 + 4 * wp_rng_unit(&rng)) * 1e9)};
        wp_history_add(history, at_ns, &event);
        t_s += -log(1 - wp_rng_unit(&rng)) / per_s;
    }
    return history;
}

static struct wp_advice_config
config_of(const struct wp_history *history)
{
    struct wp_advice_config config = {.history = history, .seed = 1};

    wp_scale_policy_init(&config.policy);
    return config;
}

static struct wp_advice *
create(const struct wp_advice_config *config)
{
    struct wp_advice *advice = NULL;
    struct wp_err err = {0};

    if (wp_advice_create(config, &advice, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
    return advice;
}

static void
run_all(struct wp_advice *advice)
{
    for (uint32_t i = 0; i < wp_advice_n_rows(advice); i++) {
        struct wp_err err = {0};

        if (wp_advice_run(advice, i, NULL, NULL, &err) != WP_OK) {
            fail_msg("row %u: %s", i, err.msg);
        }
        assert_true(wp_advice_row(advice, i)->done);
    }
}

static struct wp_advice_words
conclude(const struct wp_advice *advice)
{
    static struct wp_advice_words words;

    wp_advice_conclude(wp_advice_facts(advice), wp_advice_row(advice, 0),
                       wp_advice_n_rows(advice), &words);
    return words;
}

static const struct wp_advice_row *
find(const struct wp_advice *advice, enum wp_advice_kind kind, double objective)
{
    for (uint32_t i = 0; i < wp_advice_n_rows(advice); i++) {
        const struct wp_advice_row *row = wp_advice_row(advice, i);

        if (row->kind == kind &&
            (objective == 0 || fabs(row->objective - objective) < 1e-9)) {
            return row;
        }
    }
    fail_msg("no row of kind %d", (int)kind);
    return NULL;
}

/* Fixed sizes hit as theory says, and every row knows the same claims. */
static void
test_rows_of_poisson_traffic(void **state)
{
    struct wp_history *history = poisson(2, 3, 1);
    struct wp_advice_config config = config_of(history);
    struct wp_advice *advice;
    const struct wp_advice_row *ours;
    const struct wp_advice_facts *facts;

    (void)state;
    config.has_today = true;
    config.replicas = 60;
    advice = create(&config);
    facts = wp_advice_facts(advice);
    assert_int_equal(facts->claims, wp_history_claims(history));
    assert_true(fabs(facts->lead_mean_s - 8) < 0.1);
    assert_true(fabs(facts->lead_p99_s - 9.96) < 0.1);
    assert_int_equal(facts->run_up_ns, facts->known_ns / 10);
    run_all(advice);
    for (uint32_t i = 0; i < wp_advice_n_rows(advice); i++) {
        const struct wp_advice_row *row = wp_advice_row(advice, i);

        assert_int_equal(row->result.claims,
                         wp_advice_row(advice, 0)->result.claims);
        assert_true(row->hit_low <= row->result.hit_rate &&
                    row->result.hit_rate <= row->hit_high);
        if (row->kind == WP_ADVICE_FIXED) {
            double miss = wp_stock_miss(WP_MISS_LOST, row->size, 16);

            assert_true(1 - miss >= row->hit_low - 0.002 &&
                        1 - miss <= row->hit_high + 0.002);
        }
    }
    ours = find(advice, WP_ADVICE_OURS, 0.99);
    assert_true(ours->result.hit_rate > 0.985);
    assert_true(ours->result.idle_mean <
                find(advice, WP_ADVICE_TODAY, 0)->result.idle_mean / 2);
    assert_non_null(strstr(ours->setting, "objective=99% max="));
    wp_advice_destroy(advice);
    wp_history_destroy(history);
}

/* An oversized pool is told what to set instead. */
static void
test_recommends_less(void **state)
{
    struct wp_history *history = poisson(1, 2, 2);
    struct wp_advice_config config = config_of(history);
    struct wp_advice *advice;
    struct wp_advice_words words;

    (void)state;
    config.has_today = true;
    config.replicas = 120;
    advice = create(&config);
    run_all(advice);
    words = conclude(advice);
    assert_int_equal(strncmp(words.lines[0], "set objective=", 14), 0);
    assert_non_null(strstr(words.lines[0], "idle sandboxes on average instead "
                                           "of 11"));
    assert_int_equal(wp_advice_row(advice, (uint32_t)words.recommended)->kind,
                     WP_ADVICE_OURS);
    wp_advice_destroy(advice);
    wp_history_destroy(history);
}

/* A pool that is far too small is told what more hits would cost. */
static void
test_recommends_more(void **state)
{
    struct wp_history *history = poisson(2, 1, 3);
    struct wp_advice_config config = config_of(history);
    struct wp_advice *advice;
    struct wp_advice_words words;

    (void)state;
    config.has_today = true;
    config.replicas = 4;
    advice = create(&config);
    run_all(advice);
    words = conclude(advice);
    assert_int_equal(strncmp(words.lines[0], "today's setting serves ", 23), 0);
    assert_non_null(strstr(words.lines[0], "set objective=99.9%"));
    wp_advice_destroy(advice);
    wp_history_destroy(history);
}

static struct wp_advice_row
row_of(enum wp_advice_kind kind, double objective, double hits, double half,
       double idle)
{
    struct wp_advice_row row = {.kind = kind,
                                .objective = objective,
                                .size = 98,
                                .done = true,
                                .hit_low = hits - half,
                                .hit_high = fmin(hits + half, 1),
                                .result = {.claims = 10000,
                                           .hit_rate = hits,
                                           .idle_mean = idle,
                                           .idle_s = 3600 * idle,
                                           .warming_s = 1800 * idle,
                                           .created = 12000}};

    (void)snprintf(row.name, sizeof row.name, "row");
    (void)snprintf(row.setting, sizeof row.setting, "objective=%g%%",
                   100 * objective);
    return row;
}

static bool says(const struct wp_advice_words *words, const char *part);

/* Nothing is starred that serves less than the objective which it states, or
 * which today's setting states. */
static void
test_stars_nothing_that_breaks_the_objective(void **state)
{
    struct wp_advice_row rows[] = {
        row_of(WP_ADVICE_TODAY, 0.99, 0.93, 0.04, 10),
        row_of(WP_ADVICE_OURS, 0.95, 0.96, 0.01, 5),
        row_of(WP_ADVICE_OURS, 0.99, 0.93, 0.04, 10),
        row_of(WP_ADVICE_OURS, 0.999, 0.985, 0.01, 20),
        row_of(WP_ADVICE_FIXED, 0, 0.992, 0.001, 90)};
    const struct wp_advice_facts facts = {.claims = 10000,
                                          .n_leads = 1000,
                                          .known_ns = 8 * 86400 * S,
                                          .lead_mean_s = 8,
                                          .peaks = 3};
    struct wp_advice_words words;

    (void)state;
    /* No objective keeps it: a floor does. */
    wp_advice_conclude(&facts, rows, 5, &words);
    assert_int_equal(words.recommended, 4);
    assert_true(says(&words, "min=98"));
    assert_true(says(&words, "only 3 times"));
    /* Without that nothing is starred. */
    wp_advice_conclude(&facts, rows, 4, &words);
    assert_int_equal(words.recommended, -1);
    assert_true(says(&words, "nothing here serves 99.0 %"));
    /* A laxer one never is, however cheap. */
    rows[3] = row_of(WP_ADVICE_OURS, 0.999, 0.9995, 0.0002, 20);
    wp_advice_conclude(&facts, rows, 5, &words);
    assert_int_equal(words.recommended, 3);
    assert_true(says(&words, "less than its objective"));
    assert_true(says(&words, "makes 1.20 for each claim"));
    /* Nor where today keeps it. */
    rows[0] = row_of(WP_ADVICE_TODAY, 0.99, 0.992, 0.004, 10);
    wp_advice_conclude(&facts, rows, 5, &words);
    assert_int_equal(words.recommended, 0);
    assert_true(says(&words, "reaches down to"));
    /* And nobody who asks for the first time is told of one that misses. */
    wp_advice_conclude(&facts, rows + 1, 2, &words);
    assert_int_equal(words.recommended, -1);
}

/* Four claims at a time, each 8 s in the making, and one a second comes. */
static void
test_says_that_creation_is_saturated(void **state)
{
    struct wp_history *history = poisson(1, 1, 8);
    struct wp_advice_config config = config_of(history);
    struct wp_advice *advice;
    struct wp_advice_words words;

    (void)state;
    config.at_once = 4;
    config.n_objectives = 1;
    config.objectives[0] = 0.99;
    advice = create(&config);
    run_all(advice);
    words = conclude(advice);
    assert_true(find(advice, WP_ADVICE_OURS, 0)->result.hit_rate < 0.6);
    assert_true(says(&words, "creation is saturated: 0.5 sandboxes/s"));
    assert_int_equal(words.recommended, -1);
    wp_advice_destroy(advice);
    wp_history_destroy(history);
}

/* A fixed size that serves as many as far as the interval tells is compared
 * with, not the next one that has more hits by chance. */
static void
test_compares_by_intervals(void **state)
{
    const struct wp_advice_row rows[] = {
        row_of(WP_ADVICE_OURS, 0.999, 0.9995, 0.0004, 20),
        row_of(WP_ADVICE_FIXED, 0, 0.9985, 0.0004, 18),
        row_of(WP_ADVICE_FIXED, 0, 0.9992, 0.0004, 22),
        row_of(WP_ADVICE_FIXED, 0, 0.9996, 0.0004, 30)};
    const struct wp_advice_facts facts = {.claims = 10000};
    struct wp_advice_words words;

    (void)state;
    wp_advice_conclude(&facts, rows, 4, &words);
    assert_int_equal(words.recommended, 0);
    assert_true(says(&words, "with 22.0 idle"));
}

static bool
says(const struct wp_advice_words *words, const char *part)
{
    for (uint32_t i = 0; i < words->n_lines; i++) {
        if (strstr(words->lines[i], part) != NULL) {
            return true;
        }
    }
    return false;
}

/* Little history, few lead times, a gap: each is said. */
static void
test_doubts(void **state)
{
    struct wp_history *history = wp_history_create(1 << 16);
    struct wp_advice_config config = config_of(history);
    struct wp_advice *advice;
    struct wp_advice_words words;
    struct wp_history_event event = {
        .kind = WP_HISTORY_READY, .wall_ns = DAY, .lead_ns = 5 * S};

    (void)state;
    wp_history_add(history, DAY, &event);
    for (int i = 0; i < 200; i++) {
        event = (struct wp_history_event){
            .kind = WP_HISTORY_CLAIMS, .wall_ns = DAY + i * 60 * S, .n = 1};
        if (i == 100) {
            event.kind = WP_HISTORY_GAP;
            wp_history_add(history, event.wall_ns, &event);
            event.kind = WP_HISTORY_CLAIMS;
        }
        if (i >= 100) {
            event.wall_ns += 7200 * S;
        }
        wp_history_add(history, event.wall_ns, &event);
    }
    advice = create(&config);
    assert_int_equal(wp_advice_facts(advice)->n_gaps, 1);
    assert_int_equal(wp_advice_facts(advice)->known_ns / S, 198 * 60 + 60);
    run_all(advice);
    words = conclude(advice);
    assert_true(says(&words, "of 200 claims 99.99 % allows 0.0 misses"));
    assert_true(says(&words, "only 1 lead times were measured"));
    assert_true(says(&words, "3.3 hours of history"));
    assert_true(says(&words, "1 times in which the daemon was not there"));
    wp_advice_destroy(advice);
    config.lead_ns = 5 * S;
    advice = create(&config);
    words = conclude(advice);
    assert_int_equal(words.recommended, -1); /* No row was run. */
    assert_true(says(&words, "every order is taken to last 5.0 s"));
    wp_advice_destroy(advice);
    wp_history_destroy(history);
}

static void
expect_refused(const struct wp_advice_config *config, const char *part)
{
    struct wp_advice *advice;
    struct wp_err err = {0};

    assert_int_equal(wp_advice_create(config, &advice, &err),
                     WP_INVALID_ARGUMENT);
    assert_null(advice);
    if (strstr(err.msg, part) == NULL) {
        fail_msg("'%s' does not say '%s'", err.msg, part);
    }
}

static void
test_refuses_what_says_nothing(void **state)
{
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    struct wp_advice_config config = config_of(history);
    struct wp_history_event event = {
        .kind = WP_HISTORY_CLAIMS, .wall_ns = DAY, .n = 9};

    (void)state;
    expect_refused(&config, "too little history: 0 claims");
    wp_history_add(history, DAY, &event);
    expect_refused(&config, "too little history: 9 claims");
    wp_history_add(history, DAY, &event);
    expect_refused(&config, "say how long an order takes");
    config.lead_ns = S;
    expect_refused(&config, "all claims of this history came at one moment");
    wp_history_destroy(history);
}

static bool
stop_half_way(void *ctx, double share)
{
    double *seen = ctx;

    assert_true(share >= *seen && share <= 1);
    *seen = share;
    return share < 0.5;
}

static void
test_stops_when_told(void **state)
{
    struct wp_history *history = poisson(1, 0.5, 4);
    struct wp_advice_config config = config_of(history);
    struct wp_advice *advice = create(&config);
    double seen = 0;
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_advice_run(advice, 0, stop_half_way, &seen, &err),
                     WP_CANCELLED);
    assert_false(wp_advice_row(advice, 0)->done);
    assert_true(seen >= 0.5 && seen < 0.6);
    wp_advice_destroy(advice);
    wp_history_destroy(history);
}

/* The same seed, the same numbers. */
static void
test_is_deterministic(void **state)
{
    struct wp_history *history = poisson(1, 0.5, 5);
    struct wp_advice_config config = config_of(history);
    struct wp_advice *a = create(&config);
    struct wp_advice *b = create(&config);

    (void)state;
    run_all(a);
    run_all(b);
    for (uint32_t i = 0; i < wp_advice_n_rows(a); i++) {
        assert_memory_equal(&wp_advice_row(a, i)->result,
                            &wp_advice_row(b, i)->result,
                            sizeof(struct wp_replay_result));
    }
    wp_advice_destroy(a);
    wp_advice_destroy(b);
    wp_history_destroy(history);
}

static void
test_plot(void **state)
{
    struct wp_history *history = poisson(1, 0.5, 6);
    struct wp_advice_config config = config_of(history);
    struct wp_advice *advice;
    size_t len;
    char *svg;

    (void)state;
    config.has_today = true;
    config.replicas = 20;
    advice = create(&config);
    run_all(advice);
    svg =
        wp_advice_svg("pool 'a'", wp_advice_facts(advice),
                      wp_advice_row(advice, 0), wp_advice_n_rows(advice), &len);
    assert_non_null(svg);
    assert_non_null(strstr(svg, "today's setting"));
    assert_non_null(strstr(svg, "warmpool, by objective"));
    assert_non_null(strstr(svg, "fixed sizes"));
    assert_non_null(strstr(svg, "What it costs pool 'a'"));
    free(svg);
    wp_advice_destroy(advice);
    wp_history_destroy(history);
}

static void
test_share_format(void **state)
{
    static const struct {
        double share;
        const char *text;
    } rows[] = {{1, "100.0 %"},       {0.5, "50.0 %"},     {0.95, "95.0 %"},
                {0.999, "99.9 %"},    {0.9991, "99.91 %"}, {0.9999, "99.99 %"},
                {0.99991, "99.991 %"}};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        char text[32];

        wp_advice_share_format(rows[i].share, text, sizeof text);
        assert_string_equal(text, rows[i].text);
    }
}

/* Cut where it does not fit, and nothing behind that is written to. */
static void
test_a_share_is_cut(void **state)
{
    static const struct {
        size_t cap;
        const char *text;
    } rows[] = {{1, ""},     {2, "9"},     {3, "99"},     {4, "99."},
                {5, "99.9"}, {6, "99.9 "}, {7, "99.9 %"}, {8, "99.9 %"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[12];

        memset(text, '#', sizeof text);
        wp_advice_share_format(0.999, text, rows[i].cap);
        assert_string_equal(text, rows[i].text);
        for (size_t k = rows[i].cap; k < sizeof text; k++) {
            assert_int_equal(text[k], '#');
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_poisson_traffic),
        cmocka_unit_test(test_recommends_less),
        cmocka_unit_test(test_recommends_more),
        cmocka_unit_test(test_stars_nothing_that_breaks_the_objective),
        cmocka_unit_test(test_says_that_creation_is_saturated),
        cmocka_unit_test(test_compares_by_intervals),
        cmocka_unit_test(test_doubts),
        cmocka_unit_test(test_refuses_what_says_nothing),
        cmocka_unit_test(test_stops_when_told),
        cmocka_unit_test(test_is_deterministic),
        cmocka_unit_test(test_plot),
        cmocka_unit_test(test_share_format),
        cmocka_unit_test(test_a_share_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
