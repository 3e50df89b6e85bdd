/* Times as people and other programs write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "pool/base/civil.h"

struct row {
    const char *text;
    int64_t seconds;
    int32_t ns;
};

static void
rfc3339(void **state)
{
    static const struct row rows[] = {
        {"1970-01-01T00:00:00Z", 0, 0},
        {"2026-01-31T23:59:59Z", 1769903999, 0},
        {"2026-01-31 23:59:59z", 1769903999, 0},
        {"2026-01-31t23:59:60Z", 1769904000, 0},
        {"2026-08-22T10:00:00.1234567891Z", 1787392800, 123456789},
        {"2026-08-22T10:00:00.1Z", 1787392800, 100000000},
        {"2026-08-22T12:00:00+02:00", 1787392800, 0},
        {"2026-08-22T04:30:00-0530", 1787392800, 0},
        {"2024-02-29T00:00:00Z", 1709164800, 0},
        {"1969-12-31T23:59:59.5Z", -1, 500000000},
        {"0000-01-01T00:00:00Z", INT64_C(-62167219200), 0},
        {"9999-12-31T23:59:59Z", INT64_C(253402300799), 0},
    };
    static const char *const wrong[] = {
        "",
        "2026-01-31",
        "2026-01-31T23:59:59",
        "2026-01-31x23:59:59Z",
        "2026/01/31T23:59:59Z",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T23:60:00Z",
        "2026-01-31T23:59:61Z",
        "2026-01-31T23:59:59.Z",
        "2026-01-31T23:59:59.5",
        "2026-01-31T23:59:59ZZ",
        "2026-01-31T23:59:59+2:00",
        "2026-01-31T23:59:59+24:00",
        "2026-01-31T23:59:59+02:60",
        "2026-01-31T23:59:59+02",
        "+026-01-31T23:59:59Z",
        "26-01-31T23:59:59Z",
    };
    int64_t seconds;
    int32_t ns;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_true(
            wp_civil_parse_time(wp_str_from(rows[i].text), &seconds, &ns));
        assert_int_equal(seconds, rows[i].seconds);
        assert_int_equal(ns, rows[i].ns);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(wrong); i++) {
        if (wp_civil_parse_time(wp_str_from(wrong[i]), &seconds, &ns)) {
            fail_msg("'%s' was taken for a time", wrong[i]);
        }
    }
    assert_false(wp_civil_parse_time((struct wp_str){NULL, 0}, &seconds, &ns));
}

static void
seconds_since_1970(void **state)
{
    static const struct row rows[] = {
        {"0", 0, 0},
        {"1700000000", 1700000000, 0},
        {"1700000000.25", 1700000000, 250000000},
        {"1.0000000019", 1, 1},
        {"9223372036854775807", INT64_MAX, 0},
    };
    static const char *const wrong[] = {
        "",   ".5",  "1.",   "-1",   "-0",
        "+1", "1e3", "1.5x", "1..5", "9223372036854775808",
    };
    int64_t seconds;
    int32_t ns;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_true(
            wp_civil_parse_seconds(wp_str_from(rows[i].text), &seconds, &ns));
        assert_int_equal(seconds, rows[i].seconds);
        assert_int_equal(ns, rows[i].ns);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(wrong); i++) {
        if (wp_civil_parse_seconds(wp_str_from(wrong[i]), &seconds, &ns)) {
            fail_msg("'%s' was taken for seconds", wrong[i]);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc3339),
        cmocka_unit_test(seconds_since_1970),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
