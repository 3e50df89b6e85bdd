/* What a request of sandboxd's clients says beside its path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "runtime/sandboxd/query.h"

static void
finds_the_first_of_a_name(void **state)
{
    static const struct {
        const char *query;
        const char *value; /* NULL: there is none. */
    } cases[] = {
        {"", NULL},
        {"mode=1", "1"},
        {"mode=", ""},
        {"mode", ""},
        {"mode&x=1", ""},
        {"a=b&mode=1&mode=2", "1"},
        {"&&mode=1", "1"},
        {"mode=a=b", "a=b"},
        {"mod=1&modes=2&=3&e=mode", NULL},
        {"Mode=1", NULL},
        {"x&mode=1&", "1"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_str value = {NULL, 0};
        bool found = wp_query_find(wp_str_from(cases[i].query), "mode", &value);

        assert_int_equal(found, cases[i].value != NULL);
        if (found) {
            assert_true(wp_str_is(value, cases[i].value));
        }
    }
}

static void
knows_the_words_for_yes_and_no(void **state)
{
    static const char *const yes[] = {"1", "t", "T", "true", "True", "TRUE"};
    static const char *const no[] = {"0", "f", "F", "false", "False", "FALSE"};
    static const char *const neither[] = {"",  "tRUE", "yes",
                                          "2", "01",   "true "};
    bool out;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(yes); i++) {
        out = false;
        assert_true(wp_query_bool(wp_str_from(yes[i]), &out));
        assert_true(out);
        assert_true(wp_query_bool(wp_str_from(no[i]), &out));
        assert_false(out);
        assert_false(wp_query_bool(wp_str_from(neither[i]), &out));
        assert_false(out);
    }
}

static void
a_mode_is_0_and_three_octal_digits(void **state)
{
    static const char *const bad[] = {"",     "644",  "00644", "1644",
                                      "0844", "0684", "0648",  "064/"};
    mode_t mode = 0;

    (void)state;
    assert_true(wp_query_mode(WP_STR("0640"), &mode));
    assert_int_equal(mode, 0640);
    assert_true(wp_query_mode(WP_STR("0777"), &mode));
    assert_int_equal(mode, 0777);
    assert_true(wp_query_mode(WP_STR("0000"), &mode));
    assert_int_equal(mode, 0);
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        mode = 07777;
        assert_false(wp_query_mode(wp_str_from(bad[i]), &mode));
        assert_int_equal(mode, 07777);
    }
}

#define MOST UINT64_MAX

static void
a_range_lies_within_the_file(void **state)
{
    static const struct {
        const char *text;
        uint64_t size;
        enum wp_byte_range want;
        uint64_t from;
        uint64_t len;
    } cases[] = {
        {"bytes=0-0", 10, WP_RANGE_PART, 0, 1},
        {"bytes=3-5", 10, WP_RANGE_PART, 3, 3},
        {"bytes=9-9", 10, WP_RANGE_PART, 9, 1},
        {"bytes=3-8", 10, WP_RANGE_PART, 3, 6},
        {"bytes=3-9", 10, WP_RANGE_PART, 3, 7},
        {"bytes=3-10", 10, WP_RANGE_PART, 3, 7},
        {"bytes=3-", 10, WP_RANGE_PART, 3, 7},
        {"bytes=0-18446744073709551615", MOST, WP_RANGE_PART, 0, MOST},
        {"bytes=-1", 10, WP_RANGE_PART, 9, 1},
        {"bytes=-10", 10, WP_RANGE_PART, 0, 10},
        {"bytes=-11", 10, WP_RANGE_PART, 0, 10},
        {"bytes=10-", 10, WP_RANGE_BEYOND, 0, 0},
        {"bytes=10-20", 10, WP_RANGE_BEYOND, 0, 0},
        {"bytes=0-", 0, WP_RANGE_BEYOND, 0, 0},
        {"bytes=0-0", 0, WP_RANGE_BEYOND, 0, 0},
        {"bytes=-0", 10, WP_RANGE_BEYOND, 0, 0},
        {"bytes=-1", 0, WP_RANGE_BEYOND, 0, 0},
        /* What makes no sense is as if it were not there. */
        {"bytes=5-4", 10, WP_RANGE_WHOLE, 0, 0},
        {"bytes=-", 10, WP_RANGE_WHOLE, 0, 0},
        {"bytes=", 10, WP_RANGE_WHOLE, 0, 0},
        {"bytes=5", 10, WP_RANGE_WHOLE, 0, 0},
        {"bytes=a-5", 10, WP_RANGE_WHOLE, 0, 0},
        {"bytes=5-b", 10, WP_RANGE_WHOLE, 0, 0},
        {"bytes=0-1,4-5", 10, WP_RANGE_WHOLE, 0, 0},
        {"bytes=18446744073709551616-", 10, WP_RANGE_WHOLE, 0, 0},
        {"lines=0-1", 10, WP_RANGE_WHOLE, 0, 0},
        {"", 10, WP_RANGE_WHOLE, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        uint64_t from = 0;
        uint64_t len = 0;

        assert_int_equal(wp_byte_range_read(wp_str_from(cases[i].text),
                                            cases[i].size, &from, &len),
                         cases[i].want);
        assert_int_equal(from, cases[i].from);
        assert_int_equal(len, cases[i].len);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_first_of_a_name),
        cmocka_unit_test(knows_the_words_for_yes_and_no),
        cmocka_unit_test(a_mode_is_0_and_three_octal_digits),
        cmocka_unit_test(a_range_lies_within_the_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
