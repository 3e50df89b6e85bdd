/* Advice in sentences, from rows and facts that are made up: all that is said,
 * which row is recommended, and where one thing is said instead of another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/advice/advice.h"
#include "pool/base/clock.h"
#include "tests/support/base/golden.h"

#define HOUR_NS (3600 * WP_NS_PER_S)
#define DAY_NS (24 * HOUR_NS)

enum {
    ROWS_MAX = 5,
};

/* One row of the table, as far as the sentences look at it. */
struct row {
    enum wp_advice_kind kind;
    double objective;
    double hits;
    double half; /* Of the interval around it. */
    double idle;
};

struct scene {
    const char *name;
    struct wp_advice_facts facts;
    struct row rows[ROWS_MAX]; /* Up to one whose `hits` is 0. */
};

/* Nothing here is doubtful. */
#define SURE                                                                   \
    {                                                                          \
        .claims = 1000000, .n_leads = 50, .known_ns = 7 * DAY_NS,              \
        .lead_mean_s = 8, .peaks = 5                                           \
    }

static const struct scene scenes[] = {
    {"nothing is known",
     {.claims = 1000, .n_leads = 50, .known_ns = DAY_NS},
     {{0}}},
    {"today keeps its objective, and none is noticeably cheaper",
     SURE,
     {{WP_ADVICE_TODAY, 0.99, 0.99, 0, 10},
      {WP_ADVICE_OURS, 0.99, 0.99, 0, 9.71},
      {WP_ADVICE_OURS, 0.95, 0.96, 0, 2}}},
    {"one that keeps it is noticeably cheaper",
     SURE,
     {{WP_ADVICE_TODAY, 0.99, 0.99, 0, 10},
      {WP_ADVICE_OURS, 0.99, 0.99, 0, 9.69},
      {WP_ADVICE_OURS, 0.999, 0.9985, 0, 9}}},
    {"today misses its objective, and another keeps it",
     SURE,
     {{WP_ADVICE_TODAY, 0.99, 0.98, 0, 10},
      {WP_ADVICE_OURS, 0.999, 0.999, 0.0001, 14},
      {WP_ADVICE_OURS, 0.99, 0.995, 0.001, 12},
      {WP_ADVICE_FIXED, 0, 0.995, 0.001, 30},
      {WP_ADVICE_CLAIRVOYANT, 0, 1, 0, 3.25}}},
    {"only a floor keeps the objective",
     SURE,
     {{WP_ADVICE_TODAY, 0.99, 0.98, 0, 10},
      {WP_ADVICE_OURS, 0.99, 0.985, 0, 12},
      {WP_ADVICE_FIXED, 0, 0.99, 0, 30},
      {WP_ADVICE_FIXED, 0, 0.999, 0, 40}}},
    {"nothing keeps the objective, and creation is saturated",
     {.claims = 4 * 7 * 86400,
      .n_leads = 50,
      .known_ns = 7 * DAY_NS,
      .lead_mean_s = 8,
      .at_once = 31,
      .peaks = 5},
     {{WP_ADVICE_TODAY, 0.99, 0.98, 0, 10},
      {WP_ADVICE_OURS, 0.99, 0.985, 0, 12}}},
    {"at its limit creation is not saturated",
     {.claims = 4 * 7 * 86400,
      .n_leads = 50,
      .known_ns = 7 * DAY_NS,
      .lead_mean_s = 8,
      .at_once = 32,
      .peaks = 5},
     {{WP_ADVICE_TODAY, 0.99, 0.98, 0, 10}}},
    {"nothing keeps the objective, and peaks are rare",
     {.claims = 1000000, .n_leads = 50, .known_ns = 7 * DAY_NS, .peaks = 4},
     {{WP_ADVICE_TODAY, 0.99, 0.98, 0, 10}}},
    {"no peak was seen",
     {.claims = 1000000, .n_leads = 50, .known_ns = 7 * DAY_NS, .peaks = 0},
     {{WP_ADVICE_TODAY, 0.99, 0.98, 0, 10}}},
    {"no objective today, and one serves as many with less",
     SURE,
     {{WP_ADVICE_TODAY, 0, 0.995, 0.002, 40},
      {WP_ADVICE_OURS, 0.99, 0.993, 0.001, 10},
      {WP_ADVICE_OURS, 0.95, 0.96, 0.001, 5},
      {WP_ADVICE_FIXED, 0, 0.993, 0.001, 20}}},
    {"no objective today, and more hits cost more",
     SURE,
     {{WP_ADVICE_TODAY, 0, 0.9, 0.01, 4},
      {WP_ADVICE_OURS, 0.999, 0.9995, 0.0002, 12},
      {WP_ADVICE_OURS, 0.9999, 0.99995, 0.00002, 16}}},
    {"no objective today, and the usual one misses",
     SURE,
     {{WP_ADVICE_TODAY, 0, 0.9, 0.01, 4},
      {WP_ADVICE_OURS, 0.999, 0.998, 0.0002, 12}}},
    {"no objective today, and the intervals touch",
     SURE,
     {{WP_ADVICE_TODAY, 0, 0.9985, 0.001, 4},
      {WP_ADVICE_OURS, 0.999, 0.9995, 0.0, 12}}},
    {"nothing is known of today",
     SURE,
     {{WP_ADVICE_OURS, 0.99, 0.995, 0.001, 10},
      {WP_ADVICE_OURS, 0.999, 0.9992, 0.0001, 14},
      {WP_ADVICE_OURS, 0.9999, 0.99995, 0.00002, 13}}},
    {"nothing is known of today, and the usual one misses",
     SURE,
     {{WP_ADVICE_OURS, 0.99, 0.995, 0.001, 10},
      {WP_ADVICE_OURS, 0.999, 0.9982, 0.0001, 14}}},
    {"the interval reaches below the objective",
     SURE,
     {{WP_ADVICE_OURS, 0.99, 0.991, 0.0011, 10}}},
    {"everything is doubtful",
     {.claims = 99999,
      .n_leads = 0,
      .known_ns = DAY_NS - HOUR_NS,
      .from_wall_ns = DAY_NS,
      .until_wall_ns = 2 * DAY_NS + HOUR_NS,
      .n_gaps = 2,
      .dropped = 1234,
      .lead_mean_s = 8,
      .peaks = 1},
     {{WP_ADVICE_OURS, 0.9999, 0.99991, 0.0011, 10},
      {WP_ADVICE_OURS, 0.95, 0.951, 0.0011, 9}}},
    {"a little is doubtful",
     {.claims = 100001,
      .n_leads = 49,
      .known_ns = DAY_NS,
      .dropped = 0,
      .peaks = 4},
     {{WP_ADVICE_OURS, 0.9999, 0.99999, 0.000001, 10}}},
    {"the time just before nothing is doubtful",
     {.claims = 100001,
      .n_leads = 50,
      .known_ns = 69 * DAY_NS / 10 - 1,
      .peaks = 5},
     {{WP_ADVICE_OURS, 0.9999, 0.99999, 0.000001, 10}}},
    {"as cheap as is just worth a change, with an objective",
     SURE,
     {{WP_ADVICE_TODAY, 0.99, 0.99, 0, 100},
      {WP_ADVICE_OURS, 0.99, 0.99, 0, 97}}},
    {"as cheap as is just not worth a change, without one",
     SURE,
     {{WP_ADVICE_TODAY, 0, 0.99, 0, 100}, {WP_ADVICE_OURS, 0.99, 0.99, 0, 97}}},
    {"few claims, and no objective at all",
     {.claims = 5, .n_leads = 50, .known_ns = 7 * DAY_NS, .peaks = 5},
     {{WP_ADVICE_TODAY, 0, 0.99, 0, 100}, {WP_ADVICE_FIXED, 0, 0.99, 0, 97}}},
    {"of those that cost the same the first",
     SURE,
     {{WP_ADVICE_OURS, 0.9995, 0.9995, 0, 10},
      {WP_ADVICE_OURS, 0.999, 0.999, 0, 10},
      {WP_ADVICE_FIXED, 0, 0.9999, 0, 30},
      {WP_ADVICE_FIXED, 0, 0.9998, 0, 30},
      {WP_ADVICE_CLAIRVOYANT, 0, 1, 0, 3}}},
    {"no objective today, and the usual one just keeps its own",
     SURE,
     {{WP_ADVICE_TODAY, 0, 0.9, 0.01, 4},
      {WP_ADVICE_OURS, 0.999, 0.999, 0, 12}}},
    {"nothing idles",
     SURE,
     {{WP_ADVICE_TODAY, 0, 0.9, 0.01, 0}, {WP_ADVICE_OURS, 0.5, 0.6, 0.1, 0}}},
    {"nothing is known of the time",
     {.claims = 100, .lead_mean_s = 8, .at_once = 3, .peaks = 3},
     {{WP_ADVICE_TODAY, 0.99, 0.98, 0, 10}}},
    {"a floor that comes first",
     SURE,
     {{WP_ADVICE_FIXED, 0, 0.99, 0, 30},
      {WP_ADVICE_CLAIRVOYANT, 0, 1, 0, 3},
      {WP_ADVICE_TODAY, 0.99, 0.98, 0, 10}}},
    {"what is compared with comes first",
     SURE,
     {{WP_ADVICE_FIXED, 0, 0.99, 0, 30}, {WP_ADVICE_OURS, 0.99, 0.99, 0, 10}}},
    {"who knows every claim comes first",
     SURE,
     {{WP_ADVICE_CLAIRVOYANT, 0, 1, 0, 3},
      {WP_ADVICE_OURS, 0.99, 0.99, 0, 10}}},
    {"one just keeps today's objective by its interval",
     SURE,
     {{WP_ADVICE_TODAY, 0, 0.995, 0.002, 40},
      {WP_ADVICE_OURS, 0.993, 0.993, 0, 10},
      {WP_ADVICE_FIXED, 0, 0.993, 0, 20},
      {WP_ADVICE_FIXED, 0, 0.9929, 0, 19}}},
};

static uint32_t
make_rows(const struct scene *scene, struct wp_advice_row *out)
{
    uint32_t n = 0;

    for (; n < ROWS_MAX && scene->rows[n].hits > 0; n++) {
        const struct row *row = &scene->rows[n];

        out[n] = (struct wp_advice_row){
            .kind = row->kind,
            .objective = row->objective,
            .size = row->kind == WP_ADVICE_FIXED ? 90 + n : 0,
            .done = true,
            .hit_low = row->hits - row->half,
            .hit_high = row->hits + row->half,
            .result = {.claims = 10000,
                       .hit_rate = row->hits,
                       .idle_mean = row->idle,
                       .idle_s = 3600 * row->idle,
                       .warming_s = 1800 * row->idle,
                       .stock_max = 100 + n,
                       .created = 12000 + n}};
        (void)snprintf(out[n].setting, sizeof out[n].setting, "setting-%u", n);
    }
    return n;
}

static void
test_what_is_said(void **state)
{
    struct wp_advice_row rows[ROWS_MAX + 1];
    struct wp_advice_words words;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    (void)state;
    assert_non_null(out);
    for (size_t i = 0; i < WP_ARRAY_LEN(scenes); i++) {
        uint32_t n = make_rows(&scenes[i], rows);

        /* It has not been replayed: as if it were not there. */
        rows[n] = (struct wp_advice_row){
            .kind = i % 2 == 0 ? WP_ADVICE_FIXED : WP_ADVICE_CLAIRVOYANT,
            .result = {.hit_rate = 1, .idle_mean = 0.5}};
        wp_advice_conclude(&scenes[i].facts, rows, n + 1, &words);
        (void)fprintf(out, "%s== %s (row %d)\n", i > 0 ? "\n" : "",
                      scenes[i].name, words.recommended);
        for (uint32_t line = 0; line < words.n_lines; line++) {
            (void)fprintf(out, "%s\n", words.lines[line]);
        }
    }
    assert_int_equal(fclose(out), 0);
    golden_compare(text, WP_TEST_GOLDEN "/words.txt");
    free(text);
}

/* Ones that were never replayed are not recommended, nor compared with. */
static void
test_rows_that_are_not_done(void **state)
{
    const struct scene *scene = &scenes[3];
    struct wp_advice_row rows[ROWS_MAX];
    struct wp_advice_words words;
    uint32_t n = make_rows(scene, rows);

    (void)state;
    for (uint32_t i = 0; i < n; i++) {
        rows[i].done = false;
    }
    wp_advice_conclude(&scene->facts, rows, n, &words);
    assert_int_equal(words.recommended, -1);
    assert_int_equal(words.n_lines, 0);
}

/* What lies behind the last row is none. */
static void
test_rows_beyond_the_last(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(scenes); i++) {
        struct wp_advice_row rows[ROWS_MAX + 1];
        struct wp_advice_words words;
        struct wp_advice_words again;
        uint32_t n = make_rows(&scenes[i], rows);

        memset(&rows[n], 0, sizeof rows[n]);
        memset(&words, 0, sizeof words);
        wp_advice_conclude(&scenes[i].facts, rows, n, &words);
        for (int kind = 0; kind < WP_ADVICE_KIND_COUNT; kind++) {
            rows[n] = (struct wp_advice_row){
                .kind = (enum wp_advice_kind)kind,
                .objective = kind == WP_ADVICE_OURS ? 0.99999 : 0,
                .setting = "beyond",
                .size = 1,
                .done = true,
                .hit_low = 1,
                .hit_high = 1,
                .result = {.claims = 1, .hit_rate = 1, .idle_mean = 0.001}};
            memset(&again, 0, sizeof again);
            wp_advice_conclude(&scenes[i].facts, rows, n, &again);
            assert_memory_equal(&again, &words, sizeof words);
        }
    }
}

/* Each kind in its place and order, however the rows come; ones that were not
 * replayed, and ones beyond the most there can be, are not drawn. */
static void
test_what_is_drawn(void **state)
{
    static const struct scene scene = {
        "drawn",
        {.claims = 12345, .known_ns = 36 * HOUR_NS},
        {{WP_ADVICE_FIXED, 0, 0.999, 0, 40},
         {WP_ADVICE_FIXED, 0, 0.9, 0, 15},
         {WP_ADVICE_CLAIRVOYANT, 0, 1, 0, 3},
         {WP_ADVICE_OTHER, 0, 0.95, 0, 50},
         {WP_ADVICE_TODAY, 0, 0.99, 0, 20}}};
    struct wp_advice_row rows[WP_ADVICE_ROWS_MAX + 1] = {{.size = 0}};
    size_t len;
    char *svg;

    (void)state;
    (void)make_rows(&scene, rows);
    for (uint32_t i = 0; i < ROWS_MAX; i++) {
        (void)snprintf(rows[i].name, sizeof rows[i].name, "row-%u", i);
    }
    rows[ROWS_MAX] = rows[1];
    rows[ROWS_MAX].result.hit_rate = 0.8;
    rows[ROWS_MAX].done = false;
    rows[WP_ADVICE_ROWS_MAX - 1] = rows[0];
    rows[WP_ADVICE_ROWS_MAX - 1].result.hit_rate = 0.99;
    rows[WP_ADVICE_ROWS_MAX] = rows[3];
    (void)snprintf(rows[WP_ADVICE_ROWS_MAX].name, sizeof rows[0].name,
                   "one too many");
    svg = wp_advice_svg("pool <p>", &scene.facts, rows, WP_ADVICE_ROWS_MAX + 1,
                        &len);
    assert_non_null(svg);
    assert_int_equal(strlen(svg), len);
    golden_compare(svg, WP_TEST_GOLDEN "/advice.svg");
    free(svg);
}

static void
test_made_for_each_claim(void **state)
{
    struct wp_advice_row row = {.result = {.claims = 8, .created = 10}};

    (void)state;
    assert_true(wp_advice_made_per_claim(&row) == 1.25);
    row.result.claims = 0;
    assert_true(wp_advice_made_per_claim(&row) == 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_said),
        cmocka_unit_test(test_rows_that_are_not_done),
        cmocka_unit_test(test_rows_beyond_the_last),
        cmocka_unit_test(test_what_is_drawn),
        cmocka_unit_test(test_made_for_each_claim),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
