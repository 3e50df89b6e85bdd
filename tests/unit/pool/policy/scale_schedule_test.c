/* Floors by the clock, with times worked out by hand; more against Python's own
 * zones and a search minute by minute in scale_schedule_oracle.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "pool/base/clock.h"
#include "pool/base/rng.h"
#include "pool/policy/schedule.h"

#define MINUTE_NS (60 * WP_NS_PER_S)
#define HOUR_NS (60 * MINUTE_NS)

static struct wp_schedule
parse_in(const char *zone_name, const char *text)
{
    struct wp_schedule schedule = {.minutes = 0};
    const struct wp_time_zone *zone = NULL;
    struct wp_err err = {.msg = ""};

    if (wp_time_zone_find(wp_str_from(zone_name), &zone, &err) != WP_OK ||
        wp_schedule_parse(wp_str_from(text), zone, 1000, &schedule, &err) !=
            WP_OK) {
        fail_msg("%s: %s", text, err.msg);
    }
    return schedule;
}

/* "2025-03-30T01:30", in UTC. */
static int64_t
utc(const char *text)
{
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M", &tm);

    assert_non_null(end);
    assert_int_equal(*end, '\0');
    return (int64_t)timegm(&tm) * WP_NS_PER_S;
}

struct step {
    const char *zone;
    const char *fields;
    const char *after; /* UTC. */
    const char *next;
};

static void
check_steps(const struct step *steps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[128];
        char seen[32];
        char expected[32];
        struct wp_schedule schedule;

        (void)snprintf(text, sizeof text, "%s for 1h at least 1",
                       steps[i].fields);
        schedule = parse_in(steps[i].zone, text);
        (void)wp_time_format_rfc3339(
            wp_schedule_next_ns(&schedule, utc(steps[i].after)), seen);
        (void)wp_time_format_rfc3339(utc(steps[i].next), expected);
        if (strcmp(seen, expected) != 0) {
            fail_msg("%s %s after %s: %s, not %s", steps[i].zone,
                     steps[i].fields, steps[i].after, seen, expected);
        }
    }
}

static void
test_fields(void **state)
{
    static const struct step steps[] = {
        {"UTC", "* * * * *", "2025-01-01T00:00", "2025-01-01T00:01"},
        {"UTC", "0 8 * * *", "2025-01-01T07:59", "2025-01-01T08:00"},
        {"UTC", "0 8 * * *", "2025-01-01T08:00", "2025-01-02T08:00"},
        {"UTC", "*/15 * * * *", "2025-01-01T00:46", "2025-01-01T01:00"},
        {"UTC", "5-20/5,50 3 * * *", "2025-01-01T03:20", "2025-01-01T03:50"},
        {"UTC", "0 0 1 1 *", "2025-06-01T00:00", "2026-01-01T00:00"},
        {"UTC", "0 0 31 * *", "2025-01-31T00:00", "2025-03-31T00:00"},
        {"UTC", "0 0 29 2 *", "2025-01-01T00:00", "2028-02-29T00:00"},
        {"UTC", "0 0 29 feb *", "2097-01-01T00:00", "2104-02-29T00:00"},
        /* 2025-01-01 is a Wednesday. */
        {"UTC", "0 0 * * 0", "2025-01-01T00:00", "2025-01-05T00:00"},
        {"UTC", "0 0 * * 7", "2025-01-01T00:00", "2025-01-05T00:00"},
        {"UTC", "0 0 * * Sun", "2025-01-01T00:00", "2025-01-05T00:00"},
        {"UTC", "0 0 * * mon-FRI", "2025-01-03T00:00", "2025-01-06T00:00"},
        {"UTC", "0 0 * * fri-sun", "2025-01-04T00:00", "2025-01-05T00:00"},
        {"UTC", "0 0 * * 5-7", "2025-01-05T00:00", "2025-01-10T00:00"},
        {"UTC", "0 0 * apr,Jun *", "2025-05-01T00:00", "2025-06-01T00:00"},
        /* Both days restricted: either; one of them: that one. */
        {"UTC", "0 0 13 * 5", "2025-06-07T00:00", "2025-06-13T00:00"},
        {"UTC", "0 0 13 * 5", "2025-06-13T00:00", "2025-06-20T00:00"},
        {"UTC", "0 0 14 * 5", "2025-06-13T00:00", "2025-06-14T00:00"},
        {"UTC", "0 0 */1 * 5", "2025-06-13T00:00", "2025-06-20T00:00"},
        /* A step is a restriction. */
        {"UTC", "0 0 */2 * 5", "2025-06-13T00:00", "2025-06-15T00:00"},
    };

    (void)state;
    check_steps(steps, WP_ARRAY_LEN(steps));
}

static void
test_spring_and_autumn(void **state)
{
    static const struct step steps[] = {
        /* 2025-03-30: 02:00 CET is followed by 03:00 CEST, at 01:00 UTC. */
        {"Europe/Zurich", "30 2 * * *", "2025-03-29T12:00", "2025-03-30T01:00"},
        {"Europe/Zurich", "30 2 * * *", "2025-03-30T01:00", "2025-03-31T00:30"},
        {"Europe/Zurich", "0 * * * *", "2025-03-30T00:00", "2025-03-30T01:00"},
        {"Europe/Zurich", "0 * * * *", "2025-03-30T01:00", "2025-03-30T02:00"},
        /* 2025-10-26: 03:00 CEST is followed by 02:00 CET, at 01:00 UTC. */
        {"Europe/Zurich", "30 2 * * *", "2025-10-25T12:00", "2025-10-26T00:30"},
        {"Europe/Zurich", "30 2 * * *", "2025-10-26T00:30", "2025-10-27T01:30"},
        {"Europe/Zurich", "0 * * * *", "2025-10-26T00:00", "2025-10-26T02:00"},
        {"America/New_York", "15 2 * * *", "2024-03-10T00:00",
         "2024-03-10T07:00"},
        {"America/New_York", "15 1 * * *", "2024-11-03T00:00",
         "2024-11-03T05:15"},
        /* Half an hour. */
        {"Australia/Lord_Howe", "15 2 * * *", "2024-10-05T00:00",
         "2024-10-05T15:30"},
        /* The day that Samoa left out. */
        {"Pacific/Apia", "0 12 30 12 *", "2011-12-29T00:00",
         "2011-12-30T10:00"},
        {"Asia/Kathmandu", "0 8 * * *", "2024-01-01T00:00", "2024-01-01T02:15"},
    };

    (void)state;
    check_steps(steps, WP_ARRAY_LEN(steps));
}

struct look {
    const char *at; /* UTC. */
    bool holds;
    const char *changes_at;
};

static void
check_looks(const char *zone, const char *text, const struct look *looks,
            size_t n)
{
    struct wp_schedule schedule = parse_in(zone, text);

    for (size_t i = 0; i < n; i++) {
        int64_t changes_ns;
        bool holds =
            wp_schedule_holds(&schedule, utc(looks[i].at), &changes_ns);
        char changes[32];
        char expected[32];

        (void)wp_time_format_rfc3339(changes_ns, changes);
        (void)wp_time_format_rfc3339(utc(looks[i].changes_at), expected);
        if (holds != looks[i].holds || strcmp(changes, expected) != 0) {
            fail_msg("%s at %s: %d until %s, not %d until %s", text,
                     looks[i].at, holds, changes, looks[i].holds, expected);
        }
    }
}

/* In the order of the table, so that the clock also goes back. */
static void
test_windows(void **state)
{
    static const struct look midnight[] = {
        {"2025-01-01T21:59", false, "2025-01-01T22:00"},
        {"2025-01-01T22:00", true, "2025-01-02T04:00"},
        {"2025-01-02T03:59", true, "2025-01-02T04:00"},
        {"2025-01-02T04:00", false, "2025-01-02T22:00"},
        {"2025-01-01T23:00", true, "2025-01-02T04:00"},
        {"2024-12-25T12:00", false, "2024-12-25T22:00"},
        {"2031-07-01T01:00", true, "2031-07-01T04:00"},
    };
    /* Six hours, whatever the clocks show: 22:00 CET to 05:00 CEST. */
    static const struct look spring[] = {
        {"2025-03-29T20:59", false, "2025-03-29T21:00"},
        {"2025-03-30T02:59", true, "2025-03-30T03:00"},
        {"2025-03-30T03:00", false, "2025-03-30T20:00"},
    };
    static const struct look autumn[] = {
        {"2025-10-25T20:00", true, "2025-10-26T02:00"},
        {"2025-10-26T02:00", false, "2025-10-26T21:00"},
    };
    /* Begins in the hour that comes twice, at the first of the two. */
    static const struct look twice[] = {
        {"2025-10-26T00:30", true, "2025-10-26T01:15"},
        {"2025-10-26T01:20", false, "2025-10-27T01:30"},
        {"2025-10-26T01:10", true, "2025-10-26T01:15"},
    };
    static const struct look week[] = {
        {"2025-01-06T00:00", true, "2025-01-13T00:00"},
        {"2025-01-12T23:59", true, "2025-01-13T00:00"},
        {"2025-01-13T00:00", false, "2026-01-06T00:00"},
    };
    /* Windows that touch or overlap are one. */
    static const struct look touching[] = {
        {"2025-01-06T07:59", false, "2025-01-06T08:00"},
        {"2025-01-06T08:30", true, "2025-01-06T12:30"},
        {"2025-01-06T11:10", true, "2025-01-06T12:30"},
    };

    /* From where none was for long, the clock goes back into one, or to before
     * one that it was in. */
    static const struct look year[] = {
        {"2024-01-01T00:30", true, "2024-01-01T01:00"},
        {"2025-01-20T00:00", false, "2026-01-01T00:00"},
        {"2025-01-01T00:30", true, "2025-01-01T01:00"},
        {"2024-06-01T00:00", false, "2025-01-01T00:00"},
        {"2024-01-01T00:59", true, "2024-01-01T01:00"},
    };

    (void)state;
    check_looks("UTC", "0 0 1 1 * for 1h at least 1", year, WP_ARRAY_LEN(year));
    check_looks("UTC", "0 22 * * * for 6h at least 1", midnight,
                WP_ARRAY_LEN(midnight));
    check_looks("Europe/Zurich", "0 22 * * * for 6h at least 1", spring,
                WP_ARRAY_LEN(spring));
    check_looks("Europe/Zurich", "0 22 * * * for 6h at least 1", autumn,
                WP_ARRAY_LEN(autumn));
    check_looks("Europe/Zurich", "30 2 * * * for 45m at least 1", twice,
                WP_ARRAY_LEN(twice));
    check_looks("UTC", "0 0 6 1 * for 7d at least 1", week, WP_ARRAY_LEN(week));
    check_looks("UTC", "0 8-11 * * * for 90m at least 1", touching,
                WP_ARRAY_LEN(touching));
}

/* What is remembered from the last question never changes an answer. */
static void
test_clock_steps_are_seen(void **state)
{
    static const char *const texts[] = {
        "*/7 * * * * for 3m at least 1",
        "30 2 * * * for 26h at least 1",
        "0 22 * * fri for 3d at least 1",
        "* * * * * for 1m at least 1",
    };
    const int64_t begin = utc("2025-03-25T00:00");
    struct wp_rng rng;

    (void)state;
    wp_rng_init(&rng, 7);
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        struct wp_schedule schedule = parse_in("Europe/Zurich", texts[i]);

        for (int j = 0; j < 2000; j++) {
            struct wp_schedule fresh = parse_in("Europe/Zurich", texts[i]);
            int64_t wall_ns =
                begin + (int64_t)wp_rng_below(&rng, 14 * 24 * 60) * MINUTE_NS;
            int64_t changes_ns;
            int64_t fresh_changes_ns;
            bool holds = wp_schedule_holds(&schedule, wall_ns, &changes_ns);

            assert_int_equal(
                holds, wp_schedule_holds(&fresh, wall_ns, &fresh_changes_ns));
            assert_true(changes_ns > wall_ns);
            assert_true(fresh_changes_ns > wall_ns);
        }
    }
}

static void
test_the_ends_of_time(void **state)
{
    struct wp_schedule schedule =
        parse_in("Europe/Zurich", "0 8 1 1 * for 1h at least 1");
    int64_t changes_ns;

    (void)state;
    assert_int_equal(wp_schedule_next_ns(&schedule, INT64_MAX), WP_TIME_NEVER);
    assert_false(wp_schedule_holds(&schedule, INT64_MAX, &changes_ns));
    assert_int_equal(changes_ns, WP_TIME_NEVER);
    assert_false(wp_schedule_holds(&schedule, INT64_MIN, &changes_ns));
    assert_true(changes_ns < 0);
    assert_false(wp_schedule_holds(&schedule, -1, &changes_ns));
    assert_int_equal(changes_ns, utc("1970-01-01T07:00"));
}

#define SHAPE                                                                  \
    "'minute hour day month weekday for <duration> at least <n>' expected, "   \
    "not "

static void
test_malformed(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        {"", SHAPE "''"},
        {"0 8 * * for 1h at least 1", SHAPE "'0 8 * * for 1h at least 1'"},
        {"0 8 * * * * for 1h at least 1",
         SHAPE "'0 8 * * * * for 1h at least 1'"},
        {"0 8 * * * for 1h at least 1 2",
         SHAPE "'0 8 * * * for 1h at least 1 2'"},
        {"0 8 * * * for 1h at most 1", SHAPE "'0 8 * * * for 1h at most 1'"},
        {"60 8 * * * for 1h at least 1", "minute: 0 to 59 expected, not '60'"},
        {"-1 8 * * * for 1h at least 1", "minute: 0 to 59 expected, not ''"},
        {"0 24 * * * for 1h at least 1", "hour: 0 to 23 expected, not '24'"},
        {"0 8 0 * * for 1h at least 1",
         "day of month: 1 to 31 expected, not '0'"},
        {"0 8 32 * * for 1h at least 1",
         "day of month: 1 to 31 expected, not '32'"},
        {"0 8 * 13 * for 1h at least 1",
         "month: 1 to 12 or jan to dec expected, not '13'"},
        {"0 8 * juni * for 1h at least 1",
         "month: 1 to 12 or jan to dec expected, not 'juni'"},
        {"0 8 * * 8 for 1h at least 1", "day of week: 0 to 7 (both are Sunday) "
                                        "or sun to sat expected, not '8'"},
        {"0 8 * * jan for 1h at least 1",
         "day of week: 0 to 7 (both are Sunday) or sun to sat expected, not "
         "'jan'"},
        {"mon 8 * * * for 1h at least 1",
         "minute: 0 to 59 expected, not 'mon'"},
        {"5/15 8 * * * for 1h at least 1",
         "minute: a step behind * or a range expected, not '5/15'"},
        {"*/0 8 * * * for 1h at least 1",
         "minute: a step of at least 1 and within the field expected, not '0'"},
        {"*/60 8 * * * for 1h at least 1",
         "minute: a step of at least 1 and within the field expected, not "
         "'60'"},
        {"*/ 8 * * * for 1h at least 1",
         "minute: a step of at least 1 and within the field expected, not ''"},
        {"1,,2 8 * * * for 1h at least 1", "minute: 0 to 59 expected, not ''"},
        {"1, 8 * * * for 1h at least 1", "minute: 0 to 59 expected, not ''"},
        {"9-5 8 * * * for 1h at least 1",
         "minute: a range that goes up expected, not '9-5'"},
        {"1-2-3 8 * * * for 1h at least 1",
         "minute: 0 to 59 expected, not '2-3'"},
        {"99999999999999999999 8 * * * for 1h at least 1",
         "minute: 0 to 59 expected, not '99999999999999999999'"},
        {"0 8 * * sat-mon for 1h at least 1",
         "day of week: a range that goes up expected, not 'sat-mon'"},
        {"0 8 30 2 * for 1h at least 1",
         "day of month: no month of these has such a day"},
        {"0 8 31 4,6,9,11 * for 1h at least 1",
         "day of month: no month of these has such a day"},
        {"0 8 * * * for 59s at least 1",
         "for: a duration of 1m to 7d expected, such as 90m or 8h, not '59s'"},
        {"0 8 * * * for 8d at least 1",
         "for: a duration of 1m to 7d expected, such as 90m or 8h, not '8d'"},
        {"0 8 * * * for ever at least 1",
         "for: a duration of 1m to 7d expected, such as 90m or 8h, not 'ever'"},
        {"0 8 * * * for 1h at least 1001",
         "at least: a whole number of 0 to 1000 expected, not '1001'"},
        {"0 8 * * * for 1h at least many",
         "at least: a whole number of 0 to 1000 expected, not 'many'"},
        {"0 8 * * * for 1h at least \x1b[2J",
         "at least: a whole number of 0 to 1000 expected, not '?[2J'"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_schedule schedule = {.at_least = 77};
        struct wp_err err = {.msg = ""};

        assert_int_equal(wp_schedule_parse(wp_str_from(cases[i].text), NULL,
                                           1000, &schedule, &err),
                         WP_INVALID_ARGUMENT);
        assert_int_equal(schedule.at_least, 77);
        if (strcmp(err.msg, cases[i].says) != 0) {
            fail_msg("'%s': %s", cases[i].text, err.msg);
        }
    }
}

/* A day that no month of these has is fine beside a day of the week. */
static void
test_a_weekday_saves_an_impossible_day(void **state)
{
    static const struct step steps[] = {
        {"UTC", "0 0 30 2 mon", "2025-02-04T00:00", "2025-02-10T00:00"},
    };

    (void)state;
    check_steps(steps, WP_ARRAY_LEN(steps));
}

static void
put_series(char *out, size_t size, int step, int last)
{
    if (step > last) {
        (void)snprintf(out, size, "0");
    } else if (2 * step > last) {
        (void)snprintf(out, size, "0,%d", step);
    } else {
        (void)snprintf(out, size, "0-%d/%d", last / step * step, step);
    }
}

/* Goal: three or more at even steps are a series, up to the last of them. */
static void
test_text_of_steps(void **state)
{
    (void)state;
    for (int step = 2; step < 60; step++) {
        int hours = step < 24 ? step : 2;
        char text[64];
        char written[WP_SCHEDULE_TEXT_MAX];
        char expected[WP_SCHEDULE_TEXT_MAX];
        char series[2][32];
        struct wp_schedule schedule;

        (void)snprintf(text, sizeof text, "*/%d */%d * * * for 1h at least 1",
                       step, hours);
        schedule = parse_in("UTC", text);
        wp_schedule_format(&schedule, written);
        put_series(series[0], sizeof series[0], step, 59);
        put_series(series[1], sizeof series[1], hours, 23);
        (void)snprintf(expected, sizeof expected,
                       "%s %s * * * for 1h at least 1", series[0], series[1]);
        assert_string_equal(written, expected);
    }
}

static void
test_text_round_trip(void **state)
{
    static const struct {
        const char *text;
        const char *written;
    } cases[] = {
        {"* * * * * for 1m at least 0", "* * * * * for 1m at least 0"},
        {" 0\t8 * *\nmon-fri for 600m at  least 20",
         "0 8 * * 1-5 for 10h at least 20"},
        {"*/15 */2 */1 */1 */1 for 1h at least 3",
         "0-45/15 0-22/2 * * * for 1h at least 3"},
        {"1,3 0 1-31 1-12 0-6 for 1h at least 3",
         "1,3 0 1-31 * 0-6 for 1h at least 3"},
        {"0,1,2,10,20,30,31 0 * dec sun for 90s at least 3",
         "0-2,10-30/10,31 0 * 12 0 for 90s at least 3"},
    };
    struct wp_rng rng;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_schedule schedule = parse_in("UTC", cases[i].text);
        char text[WP_SCHEDULE_TEXT_MAX];

        wp_schedule_format(&schedule, text);
        assert_string_equal(text, cases[i].written);
    }
    wp_rng_init(&rng, 3);
    for (int i = 0; i < 5000; i++) {
        struct wp_schedule a = parse_in("UTC", "* * * * * for 1h at least 1");
        struct wp_schedule b;
        char text[WP_SCHEDULE_TEXT_MAX];
        struct wp_err err;

        a.minutes = (wp_rng_next(&rng) & ((UINT64_C(1) << 60) - 1)) | 1;
        a.hours = ((uint32_t)wp_rng_next(&rng) & 0xffffff) | 2;
        a.days = ((uint32_t)wp_rng_next(&rng) & 0xfffffffe) | 8;
        a.months = (uint16_t)((wp_rng_next(&rng) & 0x1ffe) | 4);
        a.weekdays = (uint8_t)((wp_rng_next(&rng) & 0x7f) | 1);
        a.any_day = a.any_weekday = false;
        a.duration_ns = 604799999 * WP_NS_PER_MS;
        wp_schedule_format(&a, text);
        assert_int_equal(
            wp_schedule_parse(wp_str_from(text), a.zone, 1000, &b, &err),
            WP_OK);
        assert_true(wp_schedule_eq(&a, &b));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_spring_and_autumn),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_clock_steps_are_seen),
        cmocka_unit_test(test_the_ends_of_time),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_a_weekday_saves_an_impossible_day),
        cmocka_unit_test(test_text_of_steps),
        cmocka_unit_test(test_text_round_trip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
