/* tests/unit/bench/bench_trace_test.c - traces by recipe and from files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/scaling/trace_recipe.h"
#include "pool/base/clock.h"

#define S WP_NS_PER_S

/* A cursor gives each claim once, equal times together, and jobs ahead. */
static void
test_cursor(void **state)
{
    struct wp_trace trace;
    struct wp_trace_cursor cursor;
    struct wp_replay_source source;
    int64_t at;
    int64_t from;
    int64_t until;
    uint32_t n;

    (void)state;
    wp_trace_init(&trace, 100 * S);
    wp_trace_add(&trace, 30 * S);
    wp_trace_add(&trace, 10 * S);
    wp_trace_add(&trace, 30 * S);
    wp_trace_add(&trace, 100 * S);
    wp_trace_add(&trace, -1);
    wp_trace_add_job(&trace, 30 * S, 31 * S, 2);
    wp_trace_add_job(&trace, 5 * S, 6 * S, 1);
    assert_true(wp_trace_finish(&trace));
    assert_int_equal(trace.n, 3);
    source = wp_trace_source(&trace, &cursor, true, 8 * S);
    assert_true(source.next(source.self, &at, &n));
    assert_int_equal(at, 10 * S);
    assert_int_equal(n, 1);
    assert_true(source.next(source.self, &at, &n));
    assert_int_equal(at, 30 * S);
    assert_int_equal(n, 2);
    assert_false(source.next(source.self, &at, &n));
    assert_true(source.announced(source.self, 0, &at, &from, &until, &n));
    assert_int_equal(at, 22 * S);
    assert_int_equal(from, 30 * S);
    assert_int_equal(until, 31 * S);
    assert_int_equal(n, 2);
    assert_true(source.announced(source.self, 1, &at, &from, &until, &n));
    assert_int_equal(at, 0);
    assert_false(source.announced(source.self, 2, &at, &from, &until, &n));
    assert_true(wp_trace_rate_per_s(&trace, 20 * S) == 2.0 / 80);
    assert_null(wp_trace_source(&trace, &cursor, false, 0).announced);
    wp_trace_fini(&trace);
}

/* The rate over the whole length that a recipe's parameters mean. */
static double
expected_rate(const struct wp_trace_recipe *recipe)
{
    switch (recipe->kind) {
    case WP_TRACE_MMPP:
    case WP_TRACE_FLASH:
        return recipe->rate_per_s *
               (recipe->off_s + recipe->ratio * recipe->on_s) /
               (recipe->off_s + recipe->on_s);
    case WP_TRACE_FAN_OUT: {
        double weights = 0;
        double sum = 0;

        for (uint32_t k = 1; k <= recipe->batch; k++) {
            weights += pow(k, -1.5);
            sum += k * pow(k, -1.5);
        }
        return recipe->rate_per_s * sum / weights;
    }
    case WP_TRACE_RL:
        return recipe->rate_per_s * recipe->batch * 12;
    case WP_TRACE_DIURNAL: /* Monday to Wednesday. */
        return recipe->rate_per_s * (1.1 + 1.05 + 1) / 3;
    case WP_TRACE_RECURRING:
        return recipe->rate_per_s *
                   (recipe->ratio > 0 ? (1 + recipe->ratio) / 2 : 1) +
               (recipe->off_s > 0 ? recipe->batch / recipe->off_s : 0);
    case WP_TRACE_OFFICE: /* 50 hours of 168. */
        return recipe->rate_per_s * (1 + (recipe->ratio - 1) * 50 / 168);
    case WP_TRACE_POISSON:
    case WP_TRACE_TENANTS:
    case WP_TRACE_READ:
        break;
    }
    return recipe->rate_per_s;
}

static void
test_recipes(void **state)
{
    const struct wp_trace_recipe *recipe;

    (void)state;
    for (unsigned i = 0; (recipe = wp_trace_recipe_at(i)) != NULL; i++) {
        double rate = 0;
        int64_t first = 0;

        assert_ptr_equal(wp_trace_recipe_named(recipe->name), recipe);
        assert_true(recipe->warm_up_s < recipe->length_s);
        for (uint64_t seed = 1; seed <= 8; seed++) {
            struct wp_trace trace;
            uint64_t of_jobs = 0;

            assert_true(wp_trace_recipe_make(recipe, seed, &trace));
            rate += wp_trace_rate_per_s(&trace, 0) / 8;
            for (uint64_t k = 0; k < trace.n; k++) {
                assert_true(trace.at_ns[k] < trace.end_ns);
                assert_true(k == 0 || trace.at_ns[k - 1] <= trace.at_ns[k]);
            }
            for (uint32_t k = 0; k < trace.n_jobs; k++) {
                assert_true(trace.jobs[k].from_ns < trace.jobs[k].until_ns);
                of_jobs += trace.jobs[k].n;
            }
            if (recipe->kind == WP_TRACE_RL ||
                recipe->kind == WP_TRACE_FAN_OUT) {
                assert_true(of_jobs >= trace.n);
            }
            assert_true(seed == 1 || trace.at_ns[0] != first ||
                        recipe->regular);
            first = seed == 1 ? trace.at_ns[0] : first;
            wp_trace_fini(&trace);
        }
        /* Heavy tails: within a fifth over eight seeds. */
        assert_true(fabs(rate / expected_rate(recipe) - 1) < 0.2);
    }
    assert_null(wp_trace_recipe_named("no such traffic"));
}

/* A job's pieces make up the job, each told so long before it begins. */
static void
test_announced_in_pieces(void **state)
{
    struct wp_trace trace;
    struct wp_trace_cursor cursor;
    struct wp_replay_source source;
    int64_t announced_ns;
    int64_t from_ns;
    int64_t until_ns;
    uint32_t n;
    uint32_t i = 0;
    uint64_t sum[2] = {0, 0};

    (void)state;
    wp_trace_init(&trace, 1000 * S);
    wp_trace_add_job(&trace, 100 * S, 105 * S, 12);
    wp_trace_add_job(&trace, 200 * S, 200 * S + 1, 7);
    assert_true(wp_trace_finish(&trace));
    source = wp_trace_source(&trace, &cursor, true, 30 * S);
    while (source.announced(source.self, i, &announced_ns, &from_ns, &until_ns,
                            &n)) {
        bool first = i < 5;

        assert_int_equal(from_ns, first ? (100 + (int64_t)i) * S : 200 * S);
        assert_int_equal(announced_ns, from_ns - 30 * S);
        assert_int_equal(until_ns, first ? 105 * S : 200 * S + 1);
        sum[first ? 0 : 1] += n;
        i++;
    }
    assert_int_equal(i, 6);
    assert_int_equal(sum[0], 12);
    assert_int_equal(sum[1], 7);
    wp_trace_fini(&trace);
}

static void
test_same_seed(void **state)
{
    struct wp_trace a;
    struct wp_trace b;

    (void)state;
    assert_true(
        wp_trace_recipe_make(wp_trace_recipe_named("mmpp-long"), 5, &a));
    assert_true(
        wp_trace_recipe_make(wp_trace_recipe_named("mmpp-long"), 5, &b));
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.at_ns, b.at_ns, a.n * sizeof(*a.at_ns));
    wp_trace_fini(&a);
    wp_trace_fini(&b);
}

/* The variance of counts in 10 s over their mean is 1 for Poisson and far from
 * it for the bursts. */
static double
dispersion(const struct wp_trace *trace)
{
    double n = floor((double)trace->end_ns / (10.0 * S));
    double mean = (double)trace->n / n;
    double squares = 0;
    uint64_t k = 0;

    for (int64_t from = 0; from + 10 * S <= trace->end_ns; from += 10 * S) {
        double count = 0;

        while (k < trace->n && trace->at_ns[k] < from + 10 * S) {
            count++;
            k++;
        }
        squares += (count - mean) * (count - mean);
    }
    return squares / n / mean;
}

static void
test_dispersion(void **state)
{
    const struct {
        const char *name;
        double from;
        double until;
    } rows[] = {{"poisson", 0.9, 1.1},
                {"mmpp-long", 20, 200},
                {"fan-out", 50, 500},
                {"tenants", 1.5, 50}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wp_trace trace;
        double idc;

        assert_true(wp_trace_recipe_make(wp_trace_recipe_named(rows[i].name), 2,
                                         &trace));
        idc = dispersion(&trace);
        assert_true(idc > rows[i].from && idc < rows[i].until);
        wp_trace_fini(&trace);
    }
}

/* Feeds text in pieces of so many bytes, and the end. */
static enum wp_status
feed(struct wp_azure_reader *reader, const char *text, size_t piece,
     struct wp_err *err)
{
    size_t len = strlen(text);
    enum wp_status status = WP_OK;

    for (size_t at = 0; at < len && status == WP_OK; at += piece) {
        size_t n = len - at < piece ? len - at : piece;

        status =
            wp_azure_reader_feed(reader, (struct wp_str){text + at, n}, err);
    }
    return status == WP_OK
               ? wp_azure_reader_feed(reader, (struct wp_str){NULL, 0}, err)
               : status;
}

#define HEAD_2019 "HashOwner,HashApp,HashFunction,Trigger,1,2,3\n"
#define HEAD_2021 "app,func,end_timestamp,duration\n"

static void
test_azure_2019(void **state)
{
    static struct wp_azure_reader reader;
    const char *text = HEAD_2019 "o,a,f,http,2,0,1\r\n"
                                 "o,b,g,timer,0,5,0\n"
                                 "\n"
                                 "o,a,h,http,1,0,0";
    struct wp_err err;

    (void)state;
    for (size_t piece = 1; piece < 60; piece += 7) {
        struct wp_trace trace;
        int64_t minute = 60 * S;

        wp_trace_init(&trace, WP_TIME_NEVER);
        wp_azure_reader_init(&reader, WP_AZURE_2019, WP_STR("a"), 1, &trace);
        assert_int_equal(feed(&reader, text, piece, &err), WP_OK);
        /* The next day's file. */
        assert_int_equal(
            feed(&reader, HEAD_2019 "o,a,f,http,0,0,1\n", piece, &err), WP_OK);
        assert_true(wp_trace_finish(&trace));
        assert_int_equal(reader.rows, 3);
        assert_int_equal(trace.n, 5);
        for (int i = 0; i < 3; i++) {
            assert_true(trace.at_ns[i] < minute);
        }
        assert_int_equal(trace.at_ns[3] / minute, 2);
        assert_int_equal(trace.at_ns[4] / minute, 1440 + 2);
        wp_trace_fini(&trace);
    }
}

static void
test_azure_2021(void **state)
{
    static struct wp_azure_reader reader;
    /* By their ends; the second began first, the last before the trace. */
    const char *text = HEAD_2021 "a,f,10.5,0.5\n"
                                 "b,f,11,10\n"
                                 "a,f,12,2e0\n"
                                 "a,f,12,2\n"
                                 "a,f,13,20\n";
    struct wp_trace trace;
    struct wp_err err;

    (void)state;
    wp_trace_init(&trace, WP_TIME_NEVER);
    wp_azure_reader_init(&reader, WP_AZURE_2021, WP_STR(""), 1, &trace);
    assert_int_equal(feed(&reader, text, 5, &err), WP_OK);
    assert_true(wp_trace_finish(&trace));
    assert_int_equal(trace.n, 4);
    assert_int_equal(trace.at_ns[0], 1 * S);
    assert_int_equal(trace.at_ns[1], 10 * S);
    assert_int_equal(trace.at_ns[3], 10 * S);
    assert_int_equal(reader.left_out, 1);
    wp_trace_fini(&trace);
}

static void
test_azure_bad(void **state)
{
    static struct wp_azure_reader reader;
    static const struct {
        enum wp_azure_format format;
        const char *text;
        const char *where;
    } rows[] = {
        {WP_AZURE_2019, "", "line 1: a header"},
        {WP_AZURE_2019, "HashOwner,HashApp,HashFunction,Trigger\n",
         "line 1, field 5"},
        {WP_AZURE_2019, "HashOwner,App,HashFunction,Trigger,1\n",
         "line 1, field 2"},
        {WP_AZURE_2019, "HashOwner,HashApp,HashFunction,Trigger,1,3\n",
         "line 1, field 6"},
        {WP_AZURE_2019, HEAD_2019 "o,a,f,http,1,0\n",
         "line 2, field 7 (minute 3)"},
        {WP_AZURE_2019, HEAD_2019 "o,a,f,http,1,0,1,1\n", "line 2, field 8"},
        {WP_AZURE_2019, HEAD_2019 "o,a,f,http,1,0,1\no,a,f,http,1,-2,1\n",
         "line 3, field 6 (minute 2)"},
        {WP_AZURE_2019, HEAD_2019 "o,a,f,http,1,2.5,1\n", "line 2, field 6"},
        {WP_AZURE_2019, HEAD_2019 "o,a,f,http,1,10000001,1\n",
         "line 2, field 6"},
        {WP_AZURE_2019, HEAD_2019 "o,,f,http,1,1,1\n", "line 2, field 2"},
        {WP_AZURE_2019, HEAD_2021, "line 1, field 1"},
        {WP_AZURE_2021, HEAD_2019, "line 1, field 1"},
        {WP_AZURE_2021, HEAD_2021 "a,f,10\n", "line 2, field 4 (duration)"},
        {WP_AZURE_2021, HEAD_2021 "a,f,-10,1\n",
         "line 2, field 3 (end_timestamp)"},
        {WP_AZURE_2021, HEAD_2021 "a,f,10,-1\n", "line 2, field 4"},
        {WP_AZURE_2021, HEAD_2021 "a,f,nan,1\n", "line 2, field 3"},
        {WP_AZURE_2021, HEAD_2021 "a,f,1e99,1\n", "line 2, field 3"},
        {WP_AZURE_2021, HEAD_2021 "a,f,0x10,1\n", "line 2, field 3"},
        {WP_AZURE_2021, HEAD_2021 "a,f,,1\n", "line 2, field 3"},
        {WP_AZURE_2021, HEAD_2021 "a,f,10,1,7\n", "line 2, field 5"},
        {WP_AZURE_2021, HEAD_2021 "a,f,10,1\na\n", "line 3, field 2"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wp_trace trace;
        struct wp_err err = {.msg = ""};

        wp_trace_init(&trace, WP_TIME_NEVER);
        wp_azure_reader_init(&reader, rows[i].format, WP_STR(""), 1, &trace);
        assert_int_equal(feed(&reader, rows[i].text, 4096, &err),
                         WP_INVALID_ARGUMENT);
        if (strncmp(err.msg, rows[i].where, strlen(rows[i].where)) != 0) {
            print_error("'%s' does not begin with '%s'\n", err.msg,
                        rows[i].where);
        }
        assert_memory_equal(err.msg, rows[i].where, strlen(rows[i].where));
        wp_trace_fini(&trace);
    }
}

static void
test_azure_bounds(void **state)
{
    static struct wp_azure_reader reader;
    static char line[WP_AZURE_LINE_MAX + 2];
    struct wp_trace trace;
    struct wp_err err;

    (void)state;
    wp_trace_init(&trace, WP_TIME_NEVER);
    wp_azure_reader_init(&reader, WP_AZURE_2019, WP_STR(""), 1, &trace);
    reader.claims_max = 3;
    assert_int_equal(feed(&reader, HEAD_2019 "o,a,f,http,1,2,0\n", 99, &err),
                     WP_OK);
    assert_int_equal(feed(&reader, HEAD_2019 "o,a,f,http,0,1,0\n", 99, &err),
                     WP_RESOURCE_EXHAUSTED);
    memset(line, 'x', sizeof(line) - 1);
    assert_int_equal(feed(&reader, line, 1000, &err), WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "longer than"));
    wp_trace_fini(&trace);
}

static void
test_azure_load(void **state)
{
    char path[] = "/tmp/bench_trace_testXXXXXX";
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    struct wp_trace_recipe recipe = {
        .kind = WP_TRACE_READ, .format = WP_AZURE_2019, .path = path};
    struct wp_trace trace;
    struct wp_err err;

    (void)state;
    assert_non_null(file);
    assert_true(fputs(HEAD_2019 "o,a,f,http,7,0,1\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_true(wp_trace_recipe_make(&recipe, 1, &trace));
    assert_int_equal(trace.n, 8);
    assert_int_equal(trace.end_ns, 180 * S);
    wp_trace_fini(&trace);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(
        wp_azure_load(path, WP_AZURE_2019, WP_STR(""), 1, &trace, &err),
        WP_NOT_FOUND);
    wp_trace_fini(&trace);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cursor),
        cmocka_unit_test(test_recipes),
        cmocka_unit_test(test_announced_in_pieces),
        cmocka_unit_test(test_same_seed),
        cmocka_unit_test(test_dispersion),
        cmocka_unit_test(test_azure_2019),
        cmocka_unit_test(test_azure_2021),
        cmocka_unit_test(test_azure_bad),
        cmocka_unit_test(test_azure_bounds),
        cmocka_unit_test(test_azure_load),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
