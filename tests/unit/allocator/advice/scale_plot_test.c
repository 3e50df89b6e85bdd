/* tests/unit/allocator/advice/scale_plot_test.c - the chart: whole XML, everything named, marks
 * where the scales say. WP_PLOT_OUT=FILE keeps the drawing to be looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/compiler.h"
#include "pool/base/rng.h"
#include "allocator/advice/plot.h"
#include "tests/support/base/golden.h"

static const struct wp_plot_point ours[] = {
    {0.95, 8, NULL}, {0.99, 11, NULL}, {0.999, 16, NULL}, {0.9999, 25, NULL}};
static const struct wp_plot_point fixed[] = {{0.8, 10, NULL},
                                             {0.9, 20, NULL},
                                             {0.99, 50, NULL},
                                             {0.999, 90, NULL},
                                             {1, 120, NULL}};
static const struct wp_plot_point baselines[] = {
    {0.91, 30, "hpa <claim> & rate"},
    {0.911, 30.5, "keda-claim-rate"},
    {0.912, 31, "agones-buffer"},
    {0.5, 0, "in-use-plus"},
    {NAN, 3, "never drawn"},
    {0.99995, 200, "a long name at the right end of all"}};
static const struct wp_plot_point today[] = {{0.97, 40, "today: 40 fixed"}};

static struct wp_plot
sample(struct wp_plot_series series[4])
{
    series[0] = (struct wp_plot_series){"warmpool, by objective", WP_PLOT_LINE,
                                        ours, WP_ARRAY_LEN(ours)};
    series[1] = (struct wp_plot_series){"fixed sizes", WP_PLOT_LINE, fixed,
                                        WP_ARRAY_LEN(fixed)};
    series[2] = (struct wp_plot_series){"today's setting", WP_PLOT_STAR, today,
                                        WP_ARRAY_LEN(today)};
    series[3] = (struct wp_plot_series){"other autoscalers", WP_PLOT_POINTS,
                                        baselines, WP_ARRAY_LEN(baselines)};
    return (struct wp_plot){
        .title = "What a hit rate costs",
        .reading = "Each mark is one way to size the pool, replayed over the "
                   "same claims: further right more claims are served at once, "
                   "further down fewer sandboxes idle; right and down is "
                   "better.",
        .x_label = "claims served at once (share of all)",
        .y_label = "sandboxes idle (mean number)",
        .x_scale = WP_PLOT_NINES,
        .y_scale = WP_PLOT_LOG,
        .series = series,
        .n_series = 4,
    };
}

static unsigned
count(const char *text, const char *part)
{
    unsigned n = 0;

    for (const char *at = strstr(text, part); at != NULL;
         at = strstr(at + 1, part)) {
        n++;
    }
    return n;
}

static void
keep(const char *svg, size_t len)
{
    const char *path = getenv("WP_PLOT_OUT");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;

    if (file != NULL) {
        (void)fwrite(svg, 1, len, file);
        (void)fclose(file);
    }
}

static void
test_everything_is_named(void **state)
{
    struct wp_plot_series series[4];
    struct wp_plot plot = sample(series);
    size_t len;
    char *svg = wp_plot_svg(&plot, &len);

    (void)state;
    assert_non_null(svg);
    assert_int_equal(strlen(svg), len);
    keep(svg, len);
    assert_int_equal(strncmp(svg, "<svg ", 5), 0);
    assert_string_equal(svg + len - 7, "</svg>\n");
    assert_non_null(strstr(svg, "What a hit rate costs"));
    assert_non_null(strstr(svg, "claims served at once (share of all)"));
    assert_non_null(strstr(svg, "sandboxes idle (mean number)"));
    assert_non_null(strstr(svg, "hpa &lt;claim&gt; &amp; rate"));
    assert_non_null(strstr(svg, "today: 40 fixed"));
    assert_non_null(strstr(svg, ">99.9 %</text>"));
    for (uint32_t i = 0; i < 4; i++) {
        assert_non_null(strstr(svg, series[i].name));
    }
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "never drawn"));
    assert_int_equal(count(svg, "<text"), count(svg, "</text>"));
    /* Five baselines that are drawn, and one in the legend. */
    assert_int_equal(count(svg, "rotate(45"), 6);
    assert_int_equal(count(svg, "rotate(45 668.0 "), 1); /* Beyond the area. */
    free(svg);
}

/* The number behind the last `part` before `at`. */
static double
number_before(const char *svg, const char *at, const char *part)
{
    const char *found = NULL;

    for (const char *next = svg;
         (next = strstr(next, part)) != NULL && next < at; next++) {
        found = next;
    }
    assert_non_null(found);
    return strtod(found + strlen(part), NULL);
}

/* In the legend the foot of a line's name is a little below the line, so that
 * the line leads to its middle; the names are below each other. */
static void
test_the_legend_is_aligned(void **state)
{
    struct wp_plot_series series[4];
    struct wp_plot plot = sample(series);
    double before = 0;
    size_t len;
    char *svg = wp_plot_svg(&plot, &len);
    uint32_t lines = 0;

    (void)state;
    assert_non_null(svg);
    for (uint32_t i = 0; i < plot.n_series; i++) {
        char name[96];
        const char *at;
        double y;

        (void)snprintf(name, sizeof name, "class=\"l\">%s</text>",
                       series[i].name);
        at = strstr(svg, name);
        assert_non_null(at);
        y = number_before(svg, at, " y=\"");
        if (series[i].style == WP_PLOT_LINE) {
            double above = y - number_before(svg, at, " y1=\"");

            assert_true(above > 2 && above < 6);
            lines++;
        }
        assert_true(i == 0 || (y - before > 15 && y - before < 40));
        before = y;
    }
    assert_true(lines > 0);
    free(svg);
}

/* Equal steps of nines are equally wide, and 100 % is at the right end. */
static void
test_scales(void **state)
{
    const struct wp_plot_point points[] = {
        {0.9, 1, NULL}, {0.99, 10, NULL}, {0.999, 100, NULL}, {1, 0, NULL}};
    struct wp_plot_series series = {"s", WP_PLOT_LINE, points, 4};
    struct wp_plot plot = {.title = "t",
                           .reading = "r",
                           .x_label = "x",
                           .y_label = "y",
                           .x_scale = WP_PLOT_NINES,
                           .y_scale = WP_PLOT_LOG,
                           .series = &series,
                           .n_series = 1};
    size_t len;
    char *svg = wp_plot_svg(&plot, &len);
    const char *at = strstr(svg, "d=\"M");
    double x[4];
    double y[4];

    (void)state;
    assert_non_null(at);
    assert_int_equal(sscanf(at, "d=\"M%lf %lf L%lf %lf L%lf %lf L%lf %lf",
                            &x[0], &y[0], &x[1], &y[1], &x[2], &y[2], &x[3],
                            &y[3]),
                     8);
    assert_true(fabs(x[1] - x[0] - (x[2] - x[1])) < 0.3);
    assert_true(fabs(y[1] - y[0] - (y[2] - y[1])) < 0.3);
    assert_true(x[3] > x[2] && y[3] >= y[0] && y[2] < y[1]);
    free(svg);
}

/* A name finds a place beside a curve, or none: here all places are taken. */
static void
test_no_label_on_a_curve(void **state)
{
    static struct wp_plot_point wall[40];
    static const struct wp_plot_point one[] = {{10, 0.99, "beside"}};
    static const struct wp_plot_point line[] = {{1, 0.99, NULL},
                                                {99, 0.99, NULL}};
    struct wp_plot_series series[2] = {{"line", WP_PLOT_LINE, line, 2},
                                       {"one", WP_PLOT_POINTS, one, 1}};
    struct wp_plot plot = {.title = "t",
                           .reading = "r",
                           .x_label = "x",
                           .y_label = "y",
                           .x_scale = WP_PLOT_LOG,
                           .y_scale = WP_PLOT_NINES,
                           .series = series,
                           .n_series = 2};
    size_t len;
    char *svg = wp_plot_svg(&plot, &len);
    double line_y;
    double label_y;
    const char *at = strstr(svg, "d=\"M");
    const char *label = strstr(svg, ">beside<");

    (void)state;
    assert_non_null(at);
    assert_non_null(label);
    assert_int_equal(sscanf(at, "d=\"M%*f %lf", &line_y), 1);
    while (strncmp(label, " y=\"", 4) != 0) {
        label--;
    }
    assert_int_equal(sscanf(label, " y=\"%lf", &label_y), 1);
    assert_true(label_y < line_y - 2 || label_y - 11 > line_y + 2);
    free(svg);
    /* A zigzag over all of the area. */
    for (size_t i = 0; i < WP_ARRAY_LEN(wall); i++) {
        wall[i] = (struct wp_plot_point){
            pow(100, (double)i / (double)(WP_ARRAY_LEN(wall) - 1)),
            i % 2 == 0 ? 0 : 0.99999, NULL};
    }
    series[0].points = wall;
    series[0].n_points = WP_ARRAY_LEN(wall);
    svg = wp_plot_svg(&plot, &len);
    assert_non_null(svg);
    assert_null(strstr(svg, ">beside<"));
    free(svg);
}

static void
test_nothing_to_draw(void **state)
{
    struct wp_plot plot = {
        .title = "", .reading = "", .x_label = "", .y_label = ""};
    size_t len;
    char *svg = wp_plot_svg(&plot, &len);

    (void)state;
    assert_non_null(svg);
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    free(svg);
}

/* Fails unless the chart is the drawing of that name, to a tenth of a pixel. */
static void
compare(const struct wp_plot *plot, const char *name)
{
    char path[4096];
    size_t len;
    char *svg = wp_plot_svg(plot, &len);

    assert_non_null(svg);
    assert_int_equal(strlen(svg), len);
    (void)snprintf(path, sizeof path, "%s/%s.svg", WP_TEST_GOLDEN, name);
    golden_compare(svg, path);
    free(svg);
}

/* Shares upwards, and costs to the right; marks that crowd each other. */
static void
test_drawing_of_shares(void **state)
{
    struct wp_plot_series series[4];
    struct wp_plot plot = sample(series);

    (void)state;
    compare(&plot, "shares");
}

/* Points around 0 in steps of each size, and a title that XML would read. */
static void
test_drawings_in_plain_numbers(void **state)
{
    static const struct wp_plot_point around[] = {
        {-30, -0.02, "first"}, {0, 0.01, "second"}, {45, 0.03, "third"}};
    static const struct wp_plot_point far[] = {
        {1000, 70, "a"}, {1001, 75, "a"}, {1004, 82, NULL}, {1007, 90, "b"}};
    static const struct wp_plot_point near[] = {{0.5, 3, NULL}, {9, 8, NULL}};
    static const struct wp_plot_point one[] = {{5, 5, "alone"}};
    struct wp_plot_series series[2] = {
        {"around 0", WP_PLOT_POINTS, around, WP_ARRAY_LEN(around)}};
    struct wp_plot plot = {.title = "<a> & b\tc\x1f",
                           .reading = "short",
                           .x_label = "x",
                           .y_label = "y",
                           .series = series,
                           .n_series = 1};

    (void)state;
    compare(&plot, "around_zero");
    series[0] = (struct wp_plot_series){"far off", WP_PLOT_POINTS, far,
                                        WP_ARRAY_LEN(far)};
    compare(&plot, "far_off");
    series[0] =
        (struct wp_plot_series){"near", WP_PLOT_LINE, near, WP_ARRAY_LEN(near)};
    series[1] =
        (struct wp_plot_series){"one", WP_PLOT_STAR, one, WP_ARRAY_LEN(one)};
    plot.n_series = 2;
    compare(&plot, "near");
}

/* Few decades and many, 0 at the lower end, and a word longer than a line. */
static void
test_drawings_of_decades(void **state)
{
    static const struct wp_plot_point few[] = {
        {0, 0, "none"}, {1, 10, NULL}, {30, 99, "some"}};
    static const struct wp_plot_point many[] = {
        {0.01, 1, "least"}, {20000, 1e6, "most"}, {HUGE_VAL, 5, "never drawn"}};
    struct wp_plot_series series[1] = {
        {"few", WP_PLOT_LINE, few, WP_ARRAY_LEN(few)}};
    struct wp_plot plot = {
        .title = "Decades",
        .reading =
            "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggg"
            "ggggaaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgg"
            "gggggggg and words",
        .x_label = "x",
        .y_label = "y",
        .x_scale = WP_PLOT_LOG,
        .y_scale = WP_PLOT_LOG,
        .series = series,
        .n_series = 1};

    (void)state;
    compare(&plot, "few_decades");
    series[0] = (struct wp_plot_series){"many", WP_PLOT_POINTS, many,
                                        WP_ARRAY_LEN(many)};
    compare(&plot, "many_decades");
}

static void
test_drawings_of_nothing(void **state)
{
    struct wp_plot plot = {
        .title = "", .reading = "", .x_label = "", .y_label = ""};

    (void)state;
    compare(&plot, "nothing");
    plot.x_scale = WP_PLOT_LOG;
    plot.y_scale = WP_PLOT_NINES;
    compare(&plot, "nothing_scaled");
}

/* ------------------------------------------------- many drawings, by their sums */

static struct wp_rng dice;

/* A round value, that ticks and other values are at as well, or any. */
static double
any_value(enum wp_plot_scale scale)
{
    static const double SHARES[] = {-1,      0,         0.5,   0.8,   0.9,
                                    0.95,    0.99,      0.995, 0.999, 0.9999,
                                    0.99999, 0.9999999, 1,     1.5};
    static const double ODD[] = {0, -3, NAN, HUGE_VAL, -HUGE_VAL};

    if (wp_rng_below(&dice, 12) == 0) {
        return ODD[wp_rng_below(&dice, WP_ARRAY_LEN(ODD))];
    }
    if (scale == WP_PLOT_NINES) {
        return wp_rng_below(&dice, 2) == 0
                   ? SHARES[wp_rng_below(&dice, WP_ARRAY_LEN(SHARES))]
                   : wp_rng_unit(&dice);
    }
    if (scale == WP_PLOT_LOG) {
        double unit = pow(10, (double)wp_rng_below(&dice, 7) - 3);

        return unit * (double)(1 + wp_rng_below(&dice, 9));
    }
    return wp_rng_below(&dice, 2) == 0
               ? (double)wp_rng_below(&dice, 20) * 5 - 20
               : 40 * wp_rng_unit(&dice);
}

/* As a drawing of wide and small spans: one of so many steps. */
static void
spread(struct wp_plot_point *points, uint32_t n)
{
    static const double SPANS[] = {1e-3, 0.05, 0.9, 1,  1.2, 2,  3,   5,
                                   6,    8,    10,  12, 30,  47, 100, 1e4};
    double span = SPANS[wp_rng_below(&dice, WP_ARRAY_LEN(SPANS))];
    double from = (double)wp_rng_below(&dice, 5) * span / 2 - span;

    for (uint32_t i = 0; i < n; i++) {
        points[i].x = from + span * i / n;
        points[i].y = from + span * (n - i) / n / 3;
    }
}

static uint64_t
sum_of(const char *text)
{
    uint64_t sum = 1469598103934665603U;

    for (; *text != '\0'; text++) {
        sum = (sum ^ (uint8_t)*text) * 1099511628211U;
    }
    return sum;
}

/* Drawings that nobody looks at: that of one of them has changed shows in its
 * length and its sum. Those above show how. */
static void
test_many_drawings(void **state)
{
    static const char *const LABELS[] = {NULL, "a", "a longer label",
                                         "the longest label <of> all & more"};
    static struct wp_plot_point points[4][40];
    struct golden *golden = calloc(1, sizeof *golden);

    (void)state;
    assert_non_null(golden);
    wp_rng_init(&dice, 11);
    for (unsigned i = 0; i < 400; i++) {
        struct wp_plot_series series[4];
        struct wp_plot plot = {.title = "many",
                               .reading = "",
                               .x_label = "x",
                               .y_label = "y",
                               .x_scale = (enum wp_plot_scale)(i % 3),
                               .y_scale = (enum wp_plot_scale)(i / 3 % 3),
                               .series = series};
        size_t len;
        char *svg;

        plot.n_series = 1 + (uint32_t)wp_rng_below(&dice, 4);
        for (uint32_t k = 0; k < plot.n_series; k++) {
            uint32_t n = (uint32_t)wp_rng_below(&dice, i % 2 == 0 ? 6 : 41);

            series[k] = (struct wp_plot_series){
                "series", (enum wp_plot_style)wp_rng_below(&dice, 3), points[k],
                n};
            for (uint32_t p = 0; p < n; p++) {
                points[k][p].x = any_value(plot.x_scale);
                points[k][p].y = any_value(plot.y_scale);
                points[k][p].label =
                    LABELS[wp_rng_below(&dice, WP_ARRAY_LEN(LABELS))];
            }
            if (i % 9 == 0 && n > 0) {
                spread(points[k], n);
            }
        }
        svg = wp_plot_svg(&plot, &len);
        assert_non_null(svg);
        assert_int_equal(strlen(svg), len);
        golden_add(golden, "%u: %zu bytes, %016llx\n", i, len,
                   (unsigned long long)sum_of(svg));
        free(svg);
    }
    golden_compare(golden->text, WP_TEST_GOLDEN "/many_drawings.txt");
    free(golden);
}

static unsigned fails_at; /* The n-th that is asked for; 0: none. */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails_at > 0 && --fails_at == 0 ? NULL : __real_calloc(n, size);
}

void *
__wrap_realloc(void *old, size_t size)
{
    return fails_at > 0 && --fails_at == 0 ? NULL : __real_realloc(old, size);
}

static void
test_no_memory_for_a_drawing(void **state)
{
    struct wp_plot_series series[4];
    struct wp_plot plot = sample(series);
    char *svg = NULL;
    size_t len = 7;
    unsigned n = 0;

    (void)state;
    while (svg == NULL) {
        fails_at = ++n;
        svg = wp_plot_svg(&plot, &len);
        assert_true(n == 1 || (svg == NULL) == (len == 0));
    }
    /* As much again each time: few are needed. */
    assert_in_range(n, 3, 6);
    fails_at = 0;
    free(svg);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_is_named),
        cmocka_unit_test(test_the_legend_is_aligned),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_no_label_on_a_curve),
        cmocka_unit_test(test_nothing_to_draw),
        cmocka_unit_test(test_drawing_of_shares),
        cmocka_unit_test(test_drawings_in_plain_numbers),
        cmocka_unit_test(test_drawings_of_decades),
        cmocka_unit_test(test_drawings_of_nothing),
        cmocka_unit_test(test_many_drawings),
        cmocka_unit_test(test_no_memory_for_a_drawing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
