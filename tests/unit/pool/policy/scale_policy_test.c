/* The keys of a policy: every value, every refusal, and what is shown again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/clock.h"
#include "pool/policy/policy.h"

struct pair {
    const char *key;
    const char *value;
};

static struct wp_scale_policy
with(const struct pair *pairs, size_t n)
{
    struct wp_scale_policy policy;
    struct wp_err err;

    wp_scale_policy_init(&policy);
    for (size_t i = 0; i < n; i++) {
        if (wp_scale_policy_set(&policy, wp_str_from(pairs[i].key),
                                wp_str_from(pairs[i].value), &err) != WP_OK) {
            fail_msg("%s", err.msg);
        }
    }
    return policy;
}

static void
test_defaults(void **state)
{
    struct wp_scale_policy policy;
    char value[WP_SCALE_VALUE_MAX];
    int64_t changes_ns;

    (void)state;
    wp_scale_policy_init(&policy);
    assert_int_equal(policy.objective, WP_SCALE_PLAIN);
    assert_int_equal(policy.min, 0);
    assert_int_equal(policy.max, WP_SCALE_TARGET_MAX);
    assert_int_equal(policy.down_window_ns, 300 * WP_NS_PER_S);
    assert_true(policy.down_rate == 0.1);
    assert_int_equal(wp_scale_policy_check(&policy, NULL), WP_OK);
    assert_int_equal(wp_scale_policy_floor(&policy, 0, &changes_ns), 0);
    assert_int_equal(changes_ns, WP_TIME_NEVER);
    for (unsigned i = 0; wp_scale_policy_key(i) != NULL; i++) {
        assert_false(wp_scale_policy_get(
            &policy, wp_str_from(wp_scale_policy_key(i)), value, sizeof value));
    }
}

static void
test_all_keys(void **state)
{
    static const struct pair pairs[] = {
        {"objective", "99.95%"},
        {"min", "2"},
        {"max", "500"},
        {"scale-down-window", "10m"},
        {"scale-down-rate", "2.5%"},
        {"schedule", "0 8 * * mon-fri for 10h at least 20;\n"
                     "0 0 * * sat for 2d at least 5"},
        {"time-zone", "Europe/Zurich"},
        {"budget-group", "agents"},
        {"resume", "2025-06-01 by ops"},
    };
    struct wp_scale_policy policy = with(pairs, WP_ARRAY_LEN(pairs));

    (void)state;
    assert_int_equal(wp_scale_policy_check(&policy, NULL), WP_OK);
    assert_int_equal(policy.objective, WP_SCALE_HIT_RATE);
    assert_true(policy.hit_rate == 0.9995);
    assert_int_equal(policy.min, 2);
    assert_int_equal(policy.max, 500);
    assert_int_equal(policy.down_window_ns, 600 * WP_NS_PER_S);
    assert_true(policy.down_rate == 0.025);
    assert_int_equal(policy.n_floors, 2);
    assert_int_equal(policy.floors[1].at_least, 5);
    /* Given before or after the schedule, it is that of all. */
    assert_string_equal(wp_time_zone_name(policy.floors[0].zone),
                        "Europe/Zurich");
    assert_ptr_equal(policy.floors[1].zone, policy.zone);
    assert_string_equal(policy.budget_group, "agents");
    assert_string_equal(policy.resume, "2025-06-01 by ops");
}

/* Every key that there is can be set, shown, cleared, and set as shown. */
static void
test_round_trip(void **state)
{
    static const struct pair pairs[] = {
        {"objective", "cost"},
        {"miss-cost", "900.25"},
        {"min", "0"},
        {"max", "1048576"},
        {"scale-down-window", "0"},
        {"scale-down-rate", "100%"},
        {"schedule", "0 8 * * 1-5 for 10h at least 20; * * 1 * * for 1m at "
                     "least 1048576"},
        {"time-zone", "UTC"},
        {"budget-group", "a.b-c"},
        {"resume", "J\xc3\xbcrg"},
    };
    struct wp_scale_policy policy = with(pairs, WP_ARRAY_LEN(pairs));
    struct wp_scale_policy again;
    struct wp_scale_policy empty;
    char value[WP_SCALE_VALUE_MAX];
    struct wp_err err;
    unsigned n = 0;

    (void)state;
    wp_scale_policy_init(&again);
    for (unsigned i = 0; wp_scale_policy_key(i) != NULL; i++, n++) {
        struct wp_str key = wp_str_from(wp_scale_policy_key(i));

        assert_true(key.len <= WP_SCALE_KEY_MAX);
        assert_false(wp_scale_policy_eq(&policy, &again));
        assert_true(wp_scale_policy_get(&policy, key, value, sizeof value));
        if (strcmp(pairs[i].key, "scale-down-window") != 0) {
            assert_string_equal(value, pairs[i].value);
        }
        assert_int_equal(
            wp_scale_policy_set(&again, key, wp_str_from(value), &err), WP_OK);
    }
    assert_int_equal(n, WP_ARRAY_LEN(pairs));
    assert_true(wp_scale_policy_eq(&policy, &again));
    wp_scale_policy_init(&empty);
    for (unsigned i = 0; i < n; i++) {
        assert_false(wp_scale_policy_eq(&again, &empty));
        assert_int_equal(wp_scale_policy_clear(
                             &again, wp_str_from(wp_scale_policy_key(i)), &err),
                         WP_OK);
    }
    assert_true(wp_scale_policy_eq(&again, &empty));
    /* The objective that is cleared is the first one, whatever it was. */
    assert_int_equal(
        wp_scale_policy_set(&again, WP_STR("objective"), WP_STR("99%"), &err),
        WP_OK);
    assert_false(wp_scale_policy_eq(&again, &empty));
    assert_int_equal(wp_scale_policy_clear(&again, WP_STR("objective"), &err),
                     WP_OK);
    assert_true(wp_scale_policy_eq(&again, &empty));
}

/* The longest value that can be had fits into what callers have for it. */
static void
test_the_longest_schedule_fits(void **state)
{
    struct wp_scale_policy policy = with(
        (const struct pair[]){{"schedule",
                               "* * * * * for 1h at least 1; * * * * * for 1h "
                               "at least 1"}},
        1);
    char *value = malloc(WP_SCALE_VALUE_MAX);

    (void)state;
    assert_non_null(value);
    policy.n_floors = WP_SCALE_FLOORS_MAX;
    for (uint32_t i = 0; i < policy.n_floors; i++) {
        policy.floors[i] = (struct wp_schedule){
            .minutes = UINT64_C(0xb6db6db6db6db6d),
            .hours = 0xb6db6d,
            .days = 0xdb6db6da,
            .months = 0x16da,
            .weekdays = 0x6d,
            .at_least = WP_SCALE_TARGET_MAX,
            .duration_ns = 604799999 * WP_NS_PER_MS,
        };
    }
    assert_true(wp_scale_policy_get(&policy, WP_STR("schedule"), value,
                                    WP_SCALE_VALUE_MAX));
    assert_int_equal(wp_scale_policy_set(&policy, WP_STR("schedule"),
                                         wp_str_from(value), NULL),
                     WP_OK);
    free(value);
}

struct refusal {
    struct pair pair;
    const char *says;
};

static void
test_malformed_values(void **state)
{
    static const struct refusal cases[] = {
        {{"objective", "99.9"},
         "objective: a share of claims from 50% to 99.999%, such as 99.9%, or "
         "cost expected, not '99.9'"},
        {{"objective", "100%"}, "objective: a share"},
        {{"objective", "49.999999%"}, "objective: a share"},
        {{"objective", "-99%"}, "objective: a share"},
        {{"objective", "99,9%"}, "objective: a share"},
        {{"objective", "99.%"}, "objective: a share"},
        {{"objective", ".9%"}, "objective: a share"},
        {{"objective", "9e1%"}, "objective: a share"},
        {{"objective", "99.0000000%"}, "objective: a share"},
        {{"objective", "nan%"}, "objective: a share"},
        {{"objective", "%"}, "objective: a share"},
        {{"objective", ""}, "objective: a value expected"},
        {{"objective", "  "}, "objective: a value expected"},
        {{"miss-cost", "0"}, "miss-cost: sandbox-seconds, a number from 0.001"},
        {{"miss-cost", "1000000000.1"}, "miss-cost: sandbox-seconds"},
        {{"miss-cost", "15m"}, "miss-cost: sandbox-seconds"},
        {{"min", "-1"}, "min: a whole number from 0 to 1048576 expected, not"},
        {{"min", "1.5"}, "min: a whole number"},
        {{"max", "1048577"}, "max: a whole number"},
        {{"max", "99999999999999999999"}, "max: a whole number"},
        {{"scale-down-window", "25h"}, "scale-down-window: a duration"},
        {{"scale-down-window", "5"}, "scale-down-window: a duration from 0s"},
        {{"scale-down-rate", "0%"}, "scale-down-rate: a share of the target"},
        {{"scale-down-rate", "101%"}, "scale-down-rate: a share"},
        {{"scale-down-rate", "0.1"}, "scale-down-rate: a share"},
        {{"schedule", "8h"}, "schedule: floor 1: 'minute hour day"},
        {{"schedule", "0 8 * * * for 1h at least 1; 0 25 * * * for 1h at "
                      "least 1"},
         "schedule: floor 2: hour: 0 to 23 expected, not '25'"},
        {{"schedule", "0 8 * * * for 1h at least 1;"}, "schedule: floor 2: "},
        {{"schedule", "0 8 30 2 * for 1h at least 1"}, "has such a day"},
        {{"time-zone", "Europe/Zürich"}, "time-zone: 'Europe/Z??rich': a name"},
        {{"time-zone", "../../etc/passwd"}, "a name such as Europe/Zurich"},
        {{"time-zone", "/etc/localtime"}, "a name such as Europe/Zurich"},
        {{"time-zone", "Europe/Atlantis"},
         "time-zone: 'Europe/Atlantis': no such zone in /usr/share/zoneinfo"},
        {{"time-zone", "Europe"}, "time-zone: 'Europe': no such zone"},
        {{"time-zone", "zone.tab"}, "not a zone file"},
        {{"budget-group", "Agents"}, "budget-group: a DNS name"},
        {{"resume", "a\nb"}, "resume: 1 to 63 printable characters expected"},
        {{"resume",
          "0123456789012345678901234567890123456789012345678901234567890123"},
         "resume: 1 to 63 printable"},
    };
    struct wp_scale_policy policy;
    struct wp_scale_policy before;

    (void)state;
    wp_scale_policy_init(&policy);
    wp_scale_policy_init(&before);
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_err err = {.msg = ""};

        assert_int_equal(
            wp_scale_policy_set(&policy, wp_str_from(cases[i].pair.key),
                                wp_str_from(cases[i].pair.value), &err),
            WP_INVALID_ARGUMENT);
        assert_int_equal(err.status, WP_INVALID_ARGUMENT);
        if (strstr(err.msg, cases[i].says) == NULL) {
            fail_msg("%s=%s: %s", cases[i].pair.key, cases[i].pair.value,
                     err.msg);
        }
        assert_true(wp_scale_policy_eq(&policy, &before));
    }
}

/* The last value that holds, either way, and the first that does not. */
static void
test_bounds_of_values(void **state)
{
    static const char *const taken[][2] = {
        {"objective", "50%"},
        {"objective", "99.999%"},
        {"miss-cost", "0.001"},
        {"miss-cost", "1000000000"},
        {"min", "0"},
        {"min", "1048576"},
        {"max", "0"},
        {"max", "1048576"},
        {"scale-down-window", "0s"},
        {"scale-down-window", "24h"},
        {"scale-down-rate", "1%"},
        {"scale-down-rate", "100%"},
        {"schedule", "0 8 * * * for 1m at least 0"},
        {"schedule", "59 23 31 12 7 for 7d at least 1048576"},
        {"budget-group",
         "a23456789012345678901234567890123456789012345678901234567890123"},
        {"resume", "x"},
        {"resume",
         "a23456789012345678901234567890123456789012345678901234567890123"},
    };
    static const struct refusal refused[] = {
        {{"objective", "49.999999%"}, "'49.999999%'"},
        {{"objective", "99.999001%"}, "'99.999001%'"},
        {{"miss-cost", "0.000999"}, "'0.000999'"},
        {{"miss-cost", "1000000000.000001"}, "'1000000000.000001'"},
        {{"scale-down-window", "1441m"}, "'1441m'"},
        {{"scale-down-rate", "0.999999%"}, "'0.999999%'"},
        {{"scale-down-rate", "100.000001%"}, "'100.000001%'"},
        {{"schedule", "0 8 * * * for 59s at least 1"},
         "schedule: floor 1: for: a duration of 1m to 7d expected, such as 90m "
         "or 8h, not '59s'"},
        {{"schedule", "0 8 * * * for 169h at least 1"},
         "schedule: floor 1: for: a duration of 1m to 7d expected, such as 90m "
         "or 8h, not '169h'"},
        {{"schedule", "0 8 * * * for 1h at least 1048577"},
         "schedule: floor 1: at least: a whole number of 0 to 1048576 "
         "expected, "
         "not '1048577'"},
        {{"budget-group",
          "a234567890123456789012345678901234567890123456789012345678901234"},
         "budget-group: a DNS name of at most 63 characters expected, not"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(taken); i++) {
        struct pair pair = {taken[i][0], taken[i][1]};
        struct wp_scale_policy policy = with(&pair, 1);
        struct wp_scale_policy again;
        char value[WP_SCALE_VALUE_MAX];

        assert_true(wp_scale_policy_get(&policy, wp_str_from(pair.key), value,
                                        sizeof value));
        pair.value = value;
        again = with(&pair, 1);
        assert_true(wp_scale_policy_eq(&policy, &again));
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(refused); i++) {
        struct wp_scale_policy policy = with(NULL, 0);
        struct wp_err err = {.msg = ""};

        assert_int_equal(
            wp_scale_policy_set(&policy, wp_str_from(refused[i].pair.key),
                                wp_str_from(refused[i].pair.value), &err),
            WP_INVALID_ARGUMENT);
        if (strstr(err.msg, refused[i].says) == NULL) {
            fail_msg("%s", err.msg);
        }
    }
}

static void
test_unknown_keys_name_the_nearest(void **state)
{
    static const struct pair cases[] = {
        {"mim", "mim: unknown key; the nearest known one is min; all of them: "
                "warmpool-autoscale(7)"},
        {"", ": unknown key; the nearest known one is min"},
        {"scale-down-windows", "is scale-down-window"},
        {"timezone", "is time-zone"},
        {"Objective", "is objective"},
        {"scaledown-rate", "is scale-down-rate"},
        {"this-key-is-longer-than-any-that-there-is-or-could-ever-be-at-all-x",
         "unknown key; the longest one is 31 characters long; all of them: "
         "warmpool-autoscale(7)"},
    };
    struct wp_scale_policy policy;

    (void)state;
    wp_scale_policy_init(&policy);
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_err err;

        assert_int_equal(wp_scale_policy_set(&policy, wp_str_from(cases[i].key),
                                             WP_STR("1"), &err),
                         WP_INVALID_ARGUMENT);
        if (strstr(err.msg, cases[i].value) == NULL) {
            fail_msg("%s: %s", cases[i].key, err.msg);
        }
        assert_int_equal(
            wp_scale_policy_clear(&policy, wp_str_from(cases[i].key), &err),
            WP_INVALID_ARGUMENT);
    }
}

static void
test_contradictions(void **state)
{
    static const struct {
        struct pair pairs[3];
        const char *says; /* NULL: none. */
    } cases[] = {
        {{{"objective", "99%"}, {"min", "5"}, {"max", "5"}}, NULL},
        {{{"objective", "99%"}, {"min", "6"}, {"max", "5"}},
         "max: at least min, which is 6, expected, not 5"},
        {{{"min", "6"}}, "min: an objective beside it expected"},
        {{{"resume", "x"}}, "resume: an objective beside it expected"},
        {{{"objective", "cost"}}, "miss-cost: expected with the objective"},
        {{{"objective", "cost"}, {"miss-cost", "5"}}, NULL},
        {{{"objective", "99%"}, {"miss-cost", "5"}},
         "miss-cost: only expected with the objective cost"},
        {{{"objective", "99%"}, {"time-zone", "UTC"}},
         "time-zone: a schedule beside it expected"},
        {{{"objective", "99%"},
          {"max", "19"},
          {"schedule", "* * * * * for 1h at least 19"}},
         NULL},
        {{{"objective", "99%"},
          {"max", "19"},
          {"schedule",
           "* * * * * for 1h at least 3; * * * * * for 1h at least 20"}},
         "schedule: floor 2: at most max, which is 19, expected, not 20"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        size_t n = 0;
        struct wp_scale_policy policy;
        struct wp_err err = {.msg = ""};
        enum wp_status status;

        while (n < WP_ARRAY_LEN(cases[i].pairs) &&
               cases[i].pairs[n].key != NULL) {
            n++;
        }
        policy = with(cases[i].pairs, n);
        status = wp_scale_policy_check(&policy, &err);
        if (status != (cases[i].says == NULL ? WP_OK : WP_INVALID_ARGUMENT) ||
            (cases[i].says != NULL && strstr(err.msg, cases[i].says) == NULL)) {
            fail_msg("%zu: %s", i, err.msg);
        }
    }
}

/* The highest of those that hold; the first change of any. */
static void
test_floors(void **state)
{
    static const struct pair pairs[] = {
        {"objective", "99%"},
        {"schedule", "0 8 * * * for 4h at least 10;"
                     "0 9 * * * for 1h at least 30;"
                     "30 9 * * * for 1h at least 20"},
    };
    static const struct {
        int minute; /* Of 1970-01-01. */
        uint32_t floor;
        int changes_minute;
    } cases[] = {{0, 0, 480},    {480, 10, 540}, {540, 30, 570},
                 {570, 30, 600}, {600, 20, 630}, {630, 10, 720},
                 {720, 0, 1920}, {545, 30, 570}, {1980, 30, 2010}};
    const int64_t minute_ns = 60 * WP_NS_PER_S;
    struct wp_scale_policy policy = with(pairs, WP_ARRAY_LEN(pairs));

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        int64_t changes_ns;

        assert_int_equal(wp_scale_policy_floor(
                             &policy, cases[i].minute * minute_ns, &changes_ns),
                         cases[i].floor);
        assert_int_equal(changes_ns / minute_ns, cases[i].changes_minute);
    }
}

/* Goal: of a longer schedule that was there before nothing is left. */
static void
test_shorter_schedule(void **state)
{
    static const struct pair shorter[] = {
        {"objective", "99%"},
        {"max", "10"},
        {"schedule", "0 8 * * * for 4h at least 10"},
    };
    static const struct pair longer[] = {
        {"schedule", "0 8 * * * for 4h at least 10;"
                     "0 6 * * * for 9h at least 30"},
    };
    struct wp_scale_policy fresh = with(shorter, WP_ARRAY_LEN(shorter));
    struct wp_scale_policy policy = with(longer, WP_ARRAY_LEN(longer));
    char text[WP_SCALE_VALUE_MAX];
    int64_t changes_ns;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(shorter); i++) {
        assert_int_equal(
            wp_scale_policy_set(&policy, wp_str_from(shorter[i].key),
                                wp_str_from(shorter[i].value), NULL),
            WP_OK);
    }
    assert_int_equal(policy.n_floors, 1);
    assert_int_equal(wp_scale_policy_check(&policy, NULL), WP_OK);
    assert_true(wp_scale_policy_eq(&policy, &fresh));
    assert_true(wp_scale_policy_eq(&fresh, &policy));
    assert_true(
        wp_scale_policy_get(&policy, WP_STR("schedule"), text, sizeof text));
    assert_string_equal(text, "0 8 * * * for 4h at least 10");
    assert_int_equal(
        wp_scale_policy_floor(&policy, 7 * 3600 * WP_NS_PER_S, &changes_ns), 0);
    assert_int_equal(changes_ns, 8 * 3600 * WP_NS_PER_S);
}

/* The man page has the keys of the table, in their order. */
static void
test_the_manual_is_the_table(void **state)
{
    static char page[1 << 16];
    FILE *file =
        fopen(WP_SOURCE_DIR "/deploy/man/warmpool-autoscale.7.md", "r");
    const char *at = page;

    (void)state;
    assert_non_null(file);
    assert_in_range(fread(page, 1, sizeof page - 1, file), 1, sizeof page - 2);
    assert_int_equal(fclose(file), 0);
    for (unsigned i = 0; wp_scale_policy_key(i) != NULL; i++) {
        char row[64];

        (void)snprintf(row, sizeof row, "\n| `%s` | ", wp_scale_policy_key(i));
        /* Each follows the one before at once. */
        at = i == 0 ? strstr(at, row) : at;
        if (at == NULL || strncmp(at, row, strlen(row)) != 0) {
            fail_msg("not in the manual: %s", row + 1);
        }
        at = strchr(at + 1, '\n');
        assert_non_null(at);
    }
    /* And no other. */
    assert_true(strncmp(at, "\n\n", 2) == 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_all_keys),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_the_longest_schedule_fits),
        cmocka_unit_test(test_malformed_values),
        cmocka_unit_test(test_bounds_of_values),
        cmocka_unit_test(test_unknown_keys_name_the_nearest),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_floors),
        cmocka_unit_test(test_shorter_schedule),
        cmocka_unit_test(test_the_manual_is_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
