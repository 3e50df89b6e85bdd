/* What is asked of warmpool-load becomes the load that was meant: keys, named
 * scenarios, files, arrivals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/harness/arrivals.h"
#include "bench/harness/scenario.h"
#include "pool/base/clock.h"

static struct wp_plan plan;
static struct wp_plan phases[64];
static struct wp_phases list;

static enum wp_status
set(const char *key, const char *value, struct wp_err *err)
{
    const struct wp_key *k = wp_plan_key(wp_str_from(key));

    assert_non_null(k);
    return wp_plan_set(&plan, k, value, err);
}

static void
test_a_wrong_value_names_the_key_and_changes_nothing(void **state)
{
    static const struct {
        const char *key;
        const char *value;
    } wrong[] = {
        {"rate", ""},         {"rate", "fast"},      {"rate", "-1"},
        {"rate", "0x10"},     {"rate", "inf"},       {"rate", "nan"},
        {"claims", "1.5"},    {"claims", "0"},       {"duration", "10"},
        {"duration", "-1s"},  {"duration", "9999d"}, {"arrivals", "poison"},
        {"min-granted", "2"}, {"steps", "1,,2"},     {"steps", ""},
        {"keep", "maybe"},    {"batch", "257"},      {"server-pid", "me"},
        {"steps", "1,2,x"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(wrong); i++) {
        struct wp_plan before;
        struct wp_err err;

        wp_plan_init(&plan);
        before = plan;
        assert_int_equal(set(wrong[i].key, wrong[i].value, &err),
                         WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, wrong[i].key));
        assert_non_null(strstr(err.msg, "expected"));
        assert_memory_equal(&plan, &before, sizeof plan);
    }
}

static void
test_values_in_the_units_people_write(void **state)
{
    struct wp_err err;

    (void)state;
    wp_plan_init(&plan);
    assert_int_equal(set("rps", "250.5", &err), WP_OK);
    assert_true(plan.rate_per_s == 250.5);
    assert_int_equal(plan.arrivals, WP_ARRIVALS_CONSTANT);
    assert_int_equal(set("max-p99", "20us", &err), WP_OK);
    assert_int_equal(plan.p99_max_ns, 20 * WP_NS_PER_US);
    assert_int_equal(set("min-granted", "99.5%", &err), WP_OK);
    assert_true(plan.granted_min > 0.9949 && plan.granted_min < 0.9951);
    assert_int_equal(set("stages", "1,2.5,1e3", &err), WP_OK);
    assert_int_equal(plan.n_steps, 3);
    assert_true(plan.steps[2] == 1000);
    assert_int_equal(wp_plan_set_pool(&plan, "ns/p", &err), WP_OK);
    assert_string_equal(plan.pool_namespace, "ns");
    assert_int_equal(wp_plan_set_pool(&plan, "Bad_Name", &err),
                     WP_INVALID_ARGUMENT);
}

static void
test_values_that_do_not_go_together_are_refused(void **state)
{
    static const char *const pairs[][2] = {
        {"arrivals", "poisson"}, {"arrivals", "csv"}, {"threads", "2"},
        {"connections", "4000"}, {"steps", "1,2"},
    };
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(pairs); i++) {
        wp_plan_init(&plan);
        assert_int_equal(wp_plan_set_pool(&plan, "p", &err), WP_OK);
        assert_int_equal(wp_plan_check(&plan, &err), WP_OK);
        assert_int_equal(set(pairs[i][0], pairs[i][1], &err), WP_OK);
        if (strcmp(pairs[i][0], "steps") == 0) {
            plan.arrivals = WP_ARRIVALS_BURST;
            plan.burst = 1;
        }
        assert_int_equal(wp_plan_check(&plan, &err), WP_INVALID_ARGUMENT);
    }
}

/* Each named scenario can be run as it is. */
static void
test_every_scenario_is_a_plan(void **state)
{
    (void)state;
    for (const struct wp_scenario *s = wp_scenarios; s->name != NULL; s++) {
        struct wp_err err = {.msg = ""};
        uint32_t n;

        wp_plan_init(&plan);
        assert_int_equal(wp_plan_set_pool(&plan, "p", &err), WP_OK);
        plan.scenario = s->name;
        list = (struct wp_phases){.plans = phases, .max = 64};
        if (wp_scenario_phases(&plan, NULL, 0, &list, &err) != WP_OK) {
            fail_msg("%s: %s", s->name, err.msg);
        }
        n = list.n;
        assert_true(n > 0);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(phases[i].name[0] != '\0');
        }
        wp_region_free(&list.region);
    }
}

static enum wp_status
parse(const char *text, uint32_t *n, struct wp_err *err)
{
    enum wp_status status;

    wp_plan_init(&plan);
    plan.pool[0] = 'p';
    list = (struct wp_phases){.plans = phases, .max = 4};
    status = wp_scenario_parse(&plan, "f.yaml", wp_str_from(text), &list, err);
    *n = list.n;
    wp_region_free(&list.region);
    return status;
}

static void
test_a_file_has_common_keys_and_phases(void **state)
{
    struct wp_err err;
    uint32_t n;

    (void)state;
    assert_int_equal(parse("rate: 100\nwait: 1s\nphases:\n"
                           "- {name: slow, rate: 10}\n"
                           "- {steps: [1, 2, 3], keep: true}\n",
                           &n, &err),
                     WP_OK);
    assert_int_equal(n, 2);
    assert_string_equal(phases[0].name, "slow");
    assert_true(phases[0].rate_per_s == 10);
    assert_int_equal(phases[1].wait_ns, WP_NS_PER_S);
    assert_int_equal(phases[1].n_steps, 3);
    assert_true(phases[1].keep);
    assert_string_equal(phases[1].name, "phase-2");
}

static void
test_a_wrong_file_names_its_line(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } wrong[] = {
        {"rate: fast\n", "f.yaml:1: rate 'fast': expected a number"},
        {"wait: 1s\nrate: {a: 1}\n", "f.yaml:2: rate: expected one value"},
        {"duration: [1]\n", "f.yaml:1: duration: expected one value"},
        {"phases: 3\n", "f.yaml:1: phases: expected a list"},
        {"phases: [3]\n", "expected at most 4 maps, found a whole number"},
        {"phases: [{}, {}, {}, {}, {}]\n",
         "expected at most 4 maps, found more"},
        {"phases: [{phases: []}]\n", "no key 'phases'"},
        {"phases:\n- name: a\n- name: a\n",
         "f.yaml:3: name 'a': another phase"},
        {"name: [a]\n", "name: expected one value, found a list"},
        {"rate: 1\nrps: 2\n", "f.yaml:2: rate: it is there twice (first in "
                              "line 1)"},
        {"arrivals: closed\nrate: 1\n", "f.yaml:1: arrivals 'closed': another"},
        {"rate: 1\narrivals: closed\n", "f.yaml:1: rate: expected constant or"},
        {"rate: 1\nburst: 2\n", "f.yaml:1: rate: expected constant or poisson"},
        {"burst: 2\nrate: 1\n", "f.yaml:1: burst: expected burst arrivals"},
        {"rate: 1\nsteps: [2]\n", "f.yaml:1: rate: expected no steps"},
        {"concurrency: 2\nphases:\n- rate: 1\n",
         "f.yaml:1: concurrency: expected closed arrivals, but these are "
         "const"},
        {"phases:\n- rate: 1\n- {rate: 1, every: 1s}\n",
         "f.yaml:3: every: expected burst arrivals"},
        {"ratte: 3\n", "no key 'ratte'; did you mean rate"},
        {"output: json\n", "no key 'output'"},
        {"address: unix:/x\n", "no key 'address'"},
        {"name: 'a b'\n", "expected lower-case letters"},
        {"steps: [[1], 2]\n", "expected a short list"},
        {"- 1\n", "expected a map of keys"},
        {"", "expected a map of keys"},
        {"keep: 7\n", "expected true or false"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(wrong); i++) {
        struct wp_err err = {.msg = ""};
        uint32_t n;

        assert_int_equal(parse(wrong[i].text, &n, &err), WP_INVALID_ARGUMENT);
        if (strstr(err.msg, wrong[i].says) == NULL) {
            fail_msg("'%s' says: %s", wrong[i].text, err.msg);
        }
    }
}

static void
test_what_no_phase_heeds_is_refused(void **state)
{
    static const char *const wrong[][5] = {
        {"rate", "5", "concurrency", "2", "concurrency: expected closed"},
        {"burst", "5", "rate", "2", "burst: expected burst arrivals"},
        {"rate", "5", "burst", "2", "rate: expected constant or poisson"},
        {"arrivals", "closed", "rate", "2", "arrivals 'closed': another key"},
        {"rate", "2", "arrivals", "closed", "rate: expected constant or"},
        {"rate", "2", "steps", "1,2", "rate: expected no steps"},
        {"rate", "2", "speed", "2", "speed: expected csv arrivals"},
        {"batch", "10", "claims", "25", "claims: expected whole batches"},
        {"keep", "true", "claims", "10001", "max-in-flight: keep holds all"},
    };
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(wrong); i++) {
        const struct wp_plan_word words[] = {
            {wp_plan_key(wp_str_from(wrong[i][0])), wrong[i][1]},
            {wp_plan_key(wp_str_from(wrong[i][2])), wrong[i][3]},
        };

        wp_plan_init(&plan);
        assert_int_equal(wp_plan_set_pool(&plan, "p", &err), WP_OK);
        list = (struct wp_phases){.plans = phases, .max = 64};
        err.msg[0] = '\0';
        assert_int_equal(wp_scenario_phases(&plan, words, 2, &list, &err),
                         WP_INVALID_ARGUMENT);
        if (strstr(err.msg, wrong[i][4]) == NULL) {
            fail_msg("%s %s says: %s", wrong[i][0], wrong[i][2], err.msg);
        }
    }
}

static void
test_steps_become_phases_and_options_win(void **state)
{
    const struct wp_plan_word words[] = {
        {wp_plan_key(WP_STR("duration")), "1s"},
        {wp_plan_key(WP_STR("steps")), "5,10"},
    };
    struct wp_err err;
    uint32_t n;

    (void)state;
    wp_plan_init(&plan);
    assert_int_equal(wp_plan_set_pool(&plan, "p", &err), WP_OK);
    plan.scenario = "ladder";
    list = (struct wp_phases){.plans = phases, .max = 64};
    assert_int_equal(wp_scenario_phases(&plan, words, 2, &list, &err), WP_OK);
    n = list.n;
    assert_int_equal(n, 2);
    assert_string_equal(phases[1].name, "rate-10");
    assert_int_equal(phases[1].duration_ns, WP_NS_PER_S);
    assert_true(phases[1].until_saturated);
    wp_region_free(&list.region);
}

/* --- Arrivals. --- */

static void
test_any_number_of_threads_makes_the_same_load(void **state)
{
    enum {
        N = 3000,
    };
    static const enum wp_arrivals_kind kinds[] = {
        WP_ARRIVALS_CONSTANT, WP_ARRIVALS_POISSON, WP_ARRIVALS_BURST};
    static int64_t alone[N];

    (void)state;
    for (size_t k = 0; k < WP_ARRAY_LEN(kinds); k++) {
        struct wp_arrivals arrivals;
        uint64_t number;

        wp_plan_init(&plan);
        plan.arrivals = kinds[k];
        plan.rate_per_s = 1000;
        plan.burst = 7;
        plan.every_ns = 1000;
        wp_arrivals_init(&arrivals, &plan, NULL, 0, 1);
        for (uint64_t i = 0; i < N; i++) {
            alone[i] = wp_arrivals_next(&arrivals, &number);
            assert_int_equal(number, i);
            assert_true(i == 0 || alone[i] >= alone[i - 1]);
        }
        for (uint32_t share = 0; share < 3; share++) {
            wp_arrivals_init(&arrivals, &plan, NULL, share, 3);
            for (uint64_t i = share; i < N; i += 3) {
                assert_int_equal(wp_arrivals_next(&arrivals, &number),
                                 alone[i]);
                assert_int_equal(number, i);
            }
        }
    }
}

static void
test_poisson_has_the_mean_and_the_spread(void **state)
{
    enum {
        N = 100000,
    };
    struct wp_arrivals arrivals;
    double last = 0;
    double sum = 0;
    double squares = 0;
    uint64_t number;

    (void)state;
    wp_plan_init(&plan);
    plan.arrivals = WP_ARRIVALS_POISSON;
    plan.rate_per_s = 100;
    wp_arrivals_init(&arrivals, &plan, NULL, 0, 1);
    for (int i = 0; i < N; i++) {
        double at = (double)wp_arrivals_next(&arrivals, &number) / 1e9;

        sum += at - last;
        squares += (at - last) * (at - last);
        last = at;
    }
    sum /= N;
    squares = squares / N - sum * sum;
    assert_true(sum > 0.0098 && sum < 0.0102);
    assert_true(squares > 0.00009 && squares < 0.00011);
}

static void
test_bursts_come_at_once(void **state)
{
    struct wp_arrivals arrivals;
    uint64_t number;

    (void)state;
    wp_plan_init(&plan);
    plan.arrivals = WP_ARRIVALS_BURST;
    plan.burst = 3;
    plan.every_ns = 50;
    wp_arrivals_init(&arrivals, &plan, NULL, 0, 1);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(wp_arrivals_next(&arrivals, &number), i / 3 * 50);
    }
}

static void
test_a_record_is_replayed(void **state)
{
    static const int64_t expected_ms[] = {0, 500, 502, 505, 507, 1500};
    struct wp_arrival_times times;
    struct wp_arrivals arrivals;
    struct wp_err err;
    uint64_t number;

    (void)state;
    assert_int_equal(
        wp_arrival_times_parse(WP_STR("time,count\n100\n101,4\n103\n"), 2,
                               &times, &err),
        WP_OK);
    assert_int_equal(times.n, 6);
    wp_plan_init(&plan);
    plan.arrivals = WP_ARRIVALS_CSV;
    wp_arrivals_init(&arrivals, &plan, &times, 0, 1);
    for (size_t i = 0; i < WP_ARRAY_LEN(expected_ms); i++) {
        int64_t at_ns = wp_arrivals_next(&arrivals, &number);

        /* Four of one quantum of 10 ms are spread over it, at double speed. */
        assert_in_range(at_ns / WP_NS_PER_MS,
                        (uint64_t)(i == 0 || i == 5 ? expected_ms[i] : 500),
                        (uint64_t)(i == 0 || i == 5 ? expected_ms[i] : 504));
    }
    assert_true(wp_arrivals_next(&arrivals, &number) == WP_TIME_NEVER);
    wp_arrival_times_fini(&times);
    assert_int_equal(wp_arrival_times_parse(WP_STR("5\n3\n"), 1, &times, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "line 2"));
    assert_int_equal(wp_arrival_times_parse(WP_STR(""), 1, &times, &err),
                     WP_INVALID_ARGUMENT);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wrong_value_names_the_key_and_changes_nothing),
        cmocka_unit_test(test_values_in_the_units_people_write),
        cmocka_unit_test(test_values_that_do_not_go_together_are_refused),
        cmocka_unit_test(test_every_scenario_is_a_plan),
        cmocka_unit_test(test_a_file_has_common_keys_and_phases),
        cmocka_unit_test(test_a_wrong_file_names_its_line),
        cmocka_unit_test(test_steps_become_phases_and_options_win),
        cmocka_unit_test(test_what_no_phase_heeds_is_refused),
        cmocka_unit_test(test_any_number_of_threads_makes_the_same_load),
        cmocka_unit_test(test_poisson_has_the_mean_and_the_spread),
        cmocka_unit_test(test_bursts_come_at_once),
        cmocka_unit_test(test_a_record_is_replayed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
