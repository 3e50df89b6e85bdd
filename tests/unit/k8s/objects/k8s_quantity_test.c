/* Kubernetes quantities in one spelling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/quantity.h"

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
        {"1Ei", "1.15292150460685e+18"},
    };
    char out[WP_QUANTITY_TEXT_MAX];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        assert_true(wp_quantity_canonical(wp_str_from(cases[i].text), out));
        assert_string_equal(out, cases[i].canonical);
    }
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_spelling),
        cmocka_unit_test(no_quantities),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
