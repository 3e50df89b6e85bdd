/* Durations from text and back; dates of the calendar. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "pool/base/civil.h"
#include "pool/base/clock.h"
#include "pool/base/duration.h"

static void
test_durations(void **state)
{
    static const struct {
        const char *text;
        int64_t ns; /* -1: refused. */
    } cases[] = {
        {"500ms", 500 * WP_NS_PER_MS},
        {"30s", 30 * WP_NS_PER_S},
        {"901ms", 901 * WP_NS_PER_MS},
        {"19s", 19 * WP_NS_PER_S},
        {"5m", 300 * WP_NS_PER_S},
        {"2h", 7200 * WP_NS_PER_S},
        {"7d", 7 * 24 * 3600 * WP_NS_PER_S},
        {"0", 0},
        {"0s", 0},
        {"5", -1},
        {"s", -1},
        {"", -1},
        {"-1s", -1},
        {"1.5s", -1},
        {"1 s", -1},
        {"1w", -1},
        {"99999999999999d", -1},
        {"99999999999999999999s", -1},
    };
    int64_t ns;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        bool ok = wp_duration_parse(wp_str_from(cases[i].text), &ns);

        if (ok != (cases[i].ns >= 0) || (ok && ns != cases[i].ns)) {
            fail_msg("'%s': %d, %lld", cases[i].text, ok, (long long)ns);
        }
    }
}

static void
test_durations_are_written_in_their_largest_unit(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {
        {0, "0ms"},
        {1500 * WP_NS_PER_MS, "1500ms"},
        {60 * WP_NS_PER_S, "1m"},
        {90 * WP_NS_PER_S, "90s"},
        {36 * 3600 * WP_NS_PER_S, "36h"},
        {48 * 3600 * WP_NS_PER_S, "2d"},
        {INT64_MAX, "9223372036854ms"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        char text[WP_DURATION_TEXT_MAX];

        assert_string_equal(wp_duration_format(cases[i].ns, text),
                            cases[i].text);
    }
}

/* Every day of eight centuries, in order, against the C library. */
static void
test_dates(void **state)
{
    const int64_t from = wp_civil_to_days(1600, 1, 1);
    const int64_t until = wp_civil_to_days(2400, 1, 1);

    (void)state;
    assert_int_equal(wp_civil_to_days(1970, 1, 1), 0);
    assert_int_equal(from, -135140);
    for (int64_t day = from; day <= until; day++) {
        struct wp_civil date = wp_civil_from_days(day);
        time_t seconds = (time_t)(day * 24 * 3600);
        struct tm tm;

        assert_non_null(gmtime_r(&seconds, &tm));
        if (date.year != tm.tm_year + 1900 || date.month != tm.tm_mon + 1 ||
            date.day != tm.tm_mday || date.weekday != tm.tm_wday ||
            wp_civil_to_days(date.year, date.month, date.day) != day ||
            date.day > wp_civil_days_in_month(date.year, date.month)) {
            fail_msg("day %lld is %lld-%d-%d", (long long)day,
                     (long long)date.year, date.month, date.day);
        }
    }
    assert_int_equal(wp_civil_days_in_month(1900, 2), 28);
    assert_int_equal(wp_civil_days_in_month(2000, 2), 29);
    assert_int_equal(wp_civil_to_days(-4, 2, 29) + 1,
                     wp_civil_to_days(-4, 3, 1));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_durations_are_written_in_their_largest_unit),
        cmocka_unit_test(test_dates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
