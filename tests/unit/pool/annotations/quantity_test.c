/* Kubernetes quantities in one spelling, and in whole units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pool/annotations/quantity.h"

static void
one_spelling(void **state)
{
    static const struct {
        const char *text;
        const char *canonical;
    } cases[] = {
        {"1", "1"},
        {"1000m", "1"},
        {"1.0", "1"},
        {"100m", "0.1"},
        {"0.1", "0.1"},
        {"100000u", "0.1"},
        {"1k", "1000"},
        {"1e3", "1000"},
        {"1E3", "1000"},
        {"1e+3", "1000"},
        {"1000e-3", "1"},
        {"2E", "2e+18"},
        {"1Ki", "1024"},
        {"1.5Gi", "1610612736"},
        {"1536Mi", "1610612736"},
        {"0", "0"},
        {"0m", "0"},
        {"-5", "-5"},
        {"5n", "5e-09"},
        {"-0", "0"},
        {"0.00001", "1e-05"},
        {"999999999999999", "999999999999999"},
        {"1Ei", "1.152921504606846976e+18"},
        {"9007199254740993", "9.007199254740993e+15"},
        {"9007199254740993e3", "9.007199254740993e+18"},
        {"9007199254740992Ki", "9.223372036854775808e+18"},
        {"0.1234567890123456789", "0.1234567890123456789"},
        {"9999999999999999999999999999999999999999Ei",
         "1.152921504606846975999999999999999999999884707849"
         "5393153024e+58"},
    };
    char out[WP_QUANTITY_TEXT_MAX];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        assert_true(wp_quantity_canonical(wp_str_from(cases[i].text), out));
        assert_string_equal(out, cases[i].canonical);
    }
}

/* Goal: forty digits are taken, and zeros before them do not count; but no text
 * is taken that is too long. */
static void
longest(void **state)
{
    static char text[INT16_MAX + 1];
    char out[WP_QUANTITY_TEXT_MAX];

    (void)state;
    memset(text, '0', sizeof text);
    memset(text + INT16_MAX - 40, '1', 40);
    assert_true(wp_quantity_canonical((struct wp_str){text, INT16_MAX}, out));
    assert_string_equal(out, "1.111111111111111111111111111111111111111e+39");
    text[INT16_MAX - 41] = '1';
    assert_false(wp_quantity_canonical((struct wp_str){text, INT16_MAX}, out));
    memset(text, '0', sizeof text);
    assert_true(wp_quantity_canonical((struct wp_str){text, INT16_MAX}, out));
    assert_string_equal(out, "0");
    assert_false(
        wp_quantity_canonical((struct wp_str){text, sizeof text}, out));
    /* Nor behind the point. */
    text[1] = '.';
    memset(text + 60, '2', 40);
    assert_true(wp_quantity_canonical((struct wp_str){text, 100}, out));
    assert_string_equal(out, "2.222222222222222222222222222222222222222e-59");
}

static void
no_quantities(void **state)
{
    static const char *const texts[] = {
        "",      "m",
        "Ki",    "1x",
        "1 ",    " 1",
        "1.2.3", "1-2",
        "e3",    "1e",
        "1e3k",  "0x10",
        "1e999", "1kk",
        "1mi",   "inf",
        "nan",   "+-1",
        ".",     "1111111111111111111111111111111111111111111111111111",
    };
    char out[WP_QUANTITY_TEXT_MAX];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        assert_false(wp_quantity_canonical(wp_str_from(texts[i]), out));
    }
    assert_false(wp_quantity_canonical((struct wp_str){NULL, 0}, out));
}

static void
in_units(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        uint64_t milli;
    } cases[] = {
        {"1", true, 1000},
        {"500m", true, 500},
        {"1.5", true, 1500},
        {"0.1", true, 100},
        {"100u", true, 1},
        {"1n", true, 1},
        {"2k", true, 2000000},
        {"1e3", true, 1000000},
        {"1E3", true, 1000000},
        {"5e-1", true, 500},
        {"1Ki", true, 1024000},
        {"0", true, 0},
        {"0.0000001", true, 1},
        {"+1", true, 1000},
        {".5", true, 500},
        {"5.", true, 5000},
        {"", false, 0},
        {"m", false, 0},
        {"-1", false, 0},
        {"1 ", false, 0},
        {"1mi", false, 0},
        {"1KI", false, 0},
        {"9999999E", false, 0},
        {"1e99", false, 0},
        {"1..2", false, 0},
        {"1e", false, 0},
        {"9999999999999999999", false, 0},
        {"9223372036854775.807", true, INT64_MAX},
        {"9223372036854775.8070000000000000000000", true, INT64_MAX},
        {"9223372036854775.8071", false, 0},
        {"1e-99", true, 1},
        {"0e99", true, 0},
    };
    uint64_t value;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        bool ok = wp_quantity_milli(wp_str_from(cases[i].text), &value);

        if (ok != cases[i].ok || (ok && value != cases[i].milli)) {
            fail_msg("'%s': %d, %llu", cases[i].text, ok,
                     (unsigned long long)value);
        }
    }
    assert_true(wp_quantity_whole(wp_str_from("256Mi"), &value));
    assert_int_equal(value, 256 << 20);
    assert_true(wp_quantity_whole(wp_str_from("1G"), &value));
    assert_int_equal(value, 1000000000);
    assert_true(wp_quantity_whole(wp_str_from("1500m"), &value));
    assert_int_equal(value, 2); /* Rounded up. */
    assert_true(wp_quantity_whole(wp_str_from("1Ei"), &value));
    assert_int_equal(value, UINT64_C(1) << 60);
    assert_false(wp_quantity_whole(wp_str_from("1152921504606846977"), &value));
    assert_false(wp_quantity_whole(wp_str_from("8Ei"), &value));
    assert_true(wp_quantity_milli(wp_str_from("9223372036854775807m"), &value));
    assert_int_equal(value, INT64_MAX);
    assert_false(
        wp_quantity_milli(wp_str_from("9223372036854775808m"), &value));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_spelling),
        cmocka_unit_test(longest),
        cmocka_unit_test(no_quantities),
        cmocka_unit_test(in_units),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
