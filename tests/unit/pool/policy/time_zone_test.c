/* Zone files: the system's, and made ones; local times, rules, bad bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool/base/civil.h"
#include "pool/policy/time_zone_impl.h"

enum {
    HOUR = 3600,
    DAY = 24 * HOUR,
    STEP = 5417, /* Of no round number of minutes. */
};

static int64_t
at(int year, int month, int day, int hour)
{
    return wp_civil_to_days(year, month, day) * DAY + (int64_t)hour * HOUR;
}

static const struct wp_time_zone *
zone_named(const char *name)
{
    const struct wp_time_zone *zone = NULL;
    struct wp_err err = {.msg = ""};

    if (wp_time_zone_find(wp_str_from(name), &zone, &err) != WP_OK) {
        fail_msg("%s: %s", name, err.msg);
    }
    return zone;
}

static void
test_utc_needs_no_file(void **state)
{
    const struct wp_time_zone *utc;
    int64_t until_s;

    (void)state;
    wp_time_zone_use_directory("/nowhere");
    utc = zone_named("UTC");
    assert_string_equal(wp_time_zone_name(utc), "UTC");
    assert_string_equal(wp_time_zone_name(NULL), "UTC");
    assert_int_equal(wp_time_zone_offset_s(utc, 12345, &until_s), 0);
    assert_int_equal(until_s, INT64_MAX);
    assert_int_equal(wp_time_zone_to_local_s(utc, -7), -7);
    assert_int_equal(wp_time_zone_from_local_s(NULL, 99), 99);
    wp_time_zone_use_directory("/usr/share/zoneinfo");
}

static void
test_offsets(void **state)
{
    static const struct {
        const char *zone;
        int year;
        int month;
        int hours;
    } cases[] = {
        {"Europe/Zurich", 2024, 1, 1},     {"Europe/Zurich", 2024, 7, 2},
        {"Europe/Zurich", 2199, 7, 2},     {"Europe/Zurich", 2200, 1, 1},
        {"America/New_York", 2024, 1, -5}, {"America/New_York", 2150, 7, -4},
        {"Asia/Tokyo", 2024, 7, 9},        {"Europe/Dublin", 2010, 1, 0},
        {"Europe/Dublin", 2010, 7, 1},     {"Australia/Sydney", 2101, 1, 11},
        {"Australia/Sydney", 2101, 7, 10}, {"Pacific/Kiritimati", 2024, 7, 14},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        int64_t noon_s = at(cases[i].year, cases[i].month, 15, 12);
        int64_t until_s;

        if (wp_time_zone_offset_s(zone_named(cases[i].zone), noon_s,
                                  &until_s) != cases[i].hours * HOUR) {
            fail_msg("%s in %d-%d", cases[i].zone, cases[i].year,
                     cases[i].month);
        }
        assert_true(until_s > noon_s);
    }
}

/* Local time that never goes back: both ways are each other's inverse, around
 * every change of four centuries. */
static void
test_local_times(void **state)
{
    static const char *const names[] = {
        "Europe/Zurich",       "America/New_York",  "America/Nuuk",
        "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia",
        "Antarctica/Troll",    "Asia/Manila",       "America/Juneau",
        "Europe/Dublin",       "Africa/El_Aaiun",   "Etc/GMT+12",
        "America/Sao_Paulo",   "Pacific/Kwajalein",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        const struct wp_time_zone *zone = zone_named(names[i]);
        int64_t t = at(1830, 1, 1, 0);
        int64_t until_s;
        unsigned changes = 0;

        while (t < at(2230, 1, 1, 0)) {
            (void)wp_time_zone_offset_s(zone, t, &until_s);
            for (int64_t d = -26 * HOUR; d <= 26 * HOUR; d += STEP) {
                int64_t local_s = wp_time_zone_to_local_s(zone, t + d);

                assert_true(wp_time_zone_to_local_s(zone, t + d - STEP) <=
                            local_s);
                assert_true(wp_time_zone_from_local_s(zone, local_s) <= t + d);
                assert_true(wp_time_zone_from_local_s(zone, local_s + 1) >
                            t + d);
            }
            if (until_s == INT64_MAX) {
                break;
            }
            assert_true(until_s > t);
            t = until_s;
            changes++;
        }
        assert_true(changes > 0 || strcmp(names[i], "Etc/GMT+12") == 0);
    }
}

/* Goal: at the second in which clocks go back they stand still, until the time
 * that they showed comes again; forward they leap at once. */
static void
test_local_times_at_changes(void **state)
{
    /* Winter: back from 03:00 to 02:00. Summer: from 02:00 to 03:00. */
    const struct wp_time_zone *zone = zone_named("Europe/Zurich");
    int64_t back_s = at(2024, 10, 27, 1);
    int64_t on_s = at(2024, 3, 31, 1);

    (void)state;
    for (int64_t s = -2; s <= HOUR + 2; s++) {
        int64_t expected_s = s < 0      ? back_s + s + 2 * HOUR
                             : s < HOUR ? back_s - 1 + 2 * HOUR
                                        : back_s + s + HOUR;

        assert_int_equal(wp_time_zone_to_local_s(zone, back_s + s), expected_s);
        if (s < 0 || s >= HOUR) {
            assert_int_equal(wp_time_zone_from_local_s(zone, expected_s),
                             back_s + s);
        }
    }
    for (int64_t s = -2; s <= 2; s++) {
        int64_t expected_s = on_s + s + (s < 0 ? HOUR : 2 * HOUR);

        assert_int_equal(wp_time_zone_to_local_s(zone, on_s + s), expected_s);
        assert_int_equal(wp_time_zone_from_local_s(zone, expected_s), on_s + s);
    }
    /* What is skipped is reached when the gap is. */
    assert_int_equal(wp_time_zone_from_local_s(zone, on_s + HOUR), on_s);
    assert_int_equal(wp_time_zone_from_local_s(zone, on_s + 2 * HOUR - 1),
                     on_s);
}

static void
test_names(void **state)
{
    static const char *const bad[] = {
        "",
        "/etc/localtime",
        "..",
        "../UTC",
        "Europe/..",
        "Europe//Zurich",
        "Europe/",
        "./UTC",
        ".hidden",
        "Europe/.Zurich",
        "Eur ope",
        "Europe\\Zurich",
        "Z\xc3\xbcrich",
        "Europe/Zurich\n",
        "a1234567890123456789012345678901234567890123456789012345678901234",
    };
    const struct wp_time_zone *zone;
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        assert_int_equal(wp_time_zone_find(wp_str_from(bad[i]), &zone, &err),
                         WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, "Europe/Zurich or UTC expected"));
    }
    assert_int_equal(
        wp_time_zone_find((struct wp_str){"Asia\0/Tokyo", 11}, &zone, &err),
        WP_INVALID_ARGUMENT);
    assert_ptr_equal(zone_named("Europe/Zurich"), zone_named("Europe/Zurich"));
    assert_int_equal(wp_time_zone_find(WP_STR("Europe"), &zone, &err),
                     WP_INVALID_ARGUMENT);
    assert_int_equal(wp_time_zone_find(WP_STR("Europe/Zurich/x"), &zone, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "no such zone"));
    wp_time_zone_use_directory("/nowhere");
    assert_int_equal(wp_time_zone_find(WP_STR("Asia/Seoul"), &zone, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "package tzdata"));
    wp_time_zone_use_directory("/usr/share/zoneinfo");
}

/* Is it looked for? */
static bool
is_name(struct wp_str name)
{
    static const char none[] = "no such zone in /usr/share/zoneinfo; a name "
                               "such as Europe/Zurich or UTC expected";
    static const char bad[] =
        "a name such as Europe/Zurich or UTC expected, of letters, digits and "
        "+-_/ and at most 63 characters";
    const struct wp_time_zone *zone;
    struct wp_err err = {.msg = ""};

    assert_int_equal(wp_time_zone_find(name, &zone, &err), WP_INVALID_ARGUMENT);
    if (strcmp(err.msg, none) != 0) {
        assert_string_equal(err.msg, bad);
    }
    return strcmp(err.msg, none) == 0;
}

/* Goal: a name has letters, digits and +-_, with single / and . within it, and
 * is of at most so many characters. */
static void
test_bytes_of_names(void **state)
{
    static const char words[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-_";
    char longest[WP_TIME_ZONE_NAME_MAX + 1];

    (void)state;
    for (int c = 0; c < 256; c++) {
        bool is_word = c != 0 && strchr(words, c) != NULL;
        char name[] = {'x', (char)c, 'x'};

        assert_int_equal(is_name((struct wp_str){name, 1}), true);
        assert_int_equal(is_name((struct wp_str){name, 3}),
                         is_word || c == '/' || c == '.');
        assert_int_equal(is_name((struct wp_str){name + 1, 2}), is_word);
        assert_int_equal(is_name((struct wp_str){name, 2}),
                         is_word || c == '.');
    }
    memset(longest, 'x', sizeof longest);
    assert_true(is_name((struct wp_str){longest, WP_TIME_ZONE_NAME_MAX}));
    assert_false(is_name((struct wp_str){longest, sizeof longest}));
}

/* --- Made files --- */

struct bytes {
    uint8_t at[512];
    size_t len;
};

static void
add(struct bytes *b, const void *bytes, size_t len)
{
    assert_true(b->len + len <= sizeof b->at);
    memcpy(b->at + b->len, bytes, len);
    b->len += len;
}

static void
add_be(struct bytes *b, uint64_t value, unsigned len)
{
    for (unsigned i = len; i > 0; i--) {
        uint8_t byte = (uint8_t)(value >> (8 * (i - 1)));

        add(b, &byte, 1);
    }
}

static void
add_header(struct bytes *b, char version, uint32_t leaps, uint32_t times,
           uint32_t types)
{
    add(b, "TZif", 4);
    add(b, &version, 1);
    add_be(b, 0, 8);
    add_be(b, 0, 7);
    add_be(b, 0, 4); /* isutc */
    add_be(b, 0, 4); /* isstd */
    add_be(b, leaps, 4);
    add_be(b, times, 4);
    add_be(b, types, 4);
    add_be(b, 4, 4); /* chars */
}

/* Two types: an hour ahead, and two from the second 1000 on. */
static void
add_block(struct bytes *b, char version, unsigned time_len)
{
    add_header(b, version, 0, 1, 2);
    add_be(b, 1000, time_len);
    add_be(b, 1, 1);
    add_be(b, HOUR, 4);
    add_be(b, 0, 2);
    add_be(b, 2 * HOUR, 4);
    add_be(b, 0x100, 2);
    add(b, "ABC", 4);
}

static struct bytes
made(char version, const char *footer)
{
    struct bytes b = {.len = 0};

    add_block(&b, version, 4);
    if (version >= '2') {
        add_block(&b, version, 8);
        add(&b, footer, strlen(footer));
    }
    return b;
}

static enum wp_status
parse(const struct bytes *b, struct wp_time_zone **out, struct wp_err *err)
{
    /* Of its own size, so that reading beyond it is noticed. */
    uint8_t *copy = malloc(b->len + 1);
    enum wp_status status;

    assert_non_null(copy);
    memcpy(copy, b->at, b->len);
    copy = realloc(copy, b->len > 0 ? b->len : 1);
    status = wp_time_zone_parse(WP_STR("made"), copy, b->len, out, err);
    free(copy);
    return status;
}

static int64_t
offset_of(const struct wp_time_zone *zone, int64_t utc_s)
{
    int64_t until_s;

    return wp_time_zone_offset_s(zone, utc_s, &until_s);
}

static void
test_versions(void **state)
{
    struct bytes one = made('\0', "");
    struct bytes two = made('2', "\nAAA-1BBB,J60/0,300/-24\n");
    struct bytes four = made('4', "\n\n");
    struct wp_time_zone *zone;
    struct wp_err err;

    (void)state;
    assert_int_equal(parse(&one, &zone, &err), WP_OK);
    assert_int_equal(offset_of(zone, 999), HOUR);
    assert_int_equal(offset_of(zone, 1000), 2 * HOUR);
    assert_int_equal(offset_of(zone, at(2300, 1, 1, 0)), 2 * HOUR);
    wp_time_zone_destroy(zone);
    assert_int_equal(parse(&four, &zone, &err), WP_OK);
    assert_int_equal(offset_of(zone, at(2300, 1, 1, 0)), 2 * HOUR);
    wp_time_zone_destroy(zone);
    /* Summer from 1 March, leap year or not, at 00:00; until day 300 counted
     * from 0, less a day: 27 October, 26 in a leap year, at 00:00. */
    assert_int_equal(parse(&two, &zone, &err), WP_OK);
    assert_int_equal(offset_of(zone, at(2023, 2, 28, 22)), HOUR);
    assert_int_equal(offset_of(zone, at(2023, 2, 28, 23)), 2 * HOUR);
    assert_int_equal(offset_of(zone, at(2024, 2, 29, 22)), HOUR);
    assert_int_equal(offset_of(zone, at(2024, 2, 29, 23)), 2 * HOUR);
    assert_int_equal(offset_of(zone, at(2023, 10, 26, 21)), 2 * HOUR);
    assert_int_equal(offset_of(zone, at(2023, 10, 26, 22)), HOUR);
    assert_int_equal(offset_of(zone, at(2024, 10, 25, 21)), 2 * HOUR);
    assert_int_equal(offset_of(zone, at(2024, 10, 25, 22)), HOUR);
    wp_time_zone_destroy(zone);
}

static void
test_rules(void **state)
{
    static const struct {
        const char *text;
        bool fine;
    } cases[] = {
        {"UTC0", true},
        {"<-03>3", true},
        {"<+0330>-3:30", true},
        {"CET-1CEST,M3.5.0,M10.5.0/3", true},
        {"IST-1GMT0,M10.5.0,M3.5.0/1", true},
        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", true},
        {"XXX3EDT4,0/0,J365/23", true},
        {"AAA24:59:59BBB-24,M1.1.0/167:59:59,M12.5.6/-167", true},
        {"", false},
        {"U0", false},
        {"UTC", false},
        {"<-03", false},
        {"<-0>3", false},
        {"UTC25", false},
        {"UTC0:60", false},
        {"UTC0x", false},
        {"CET-1CEST", false},
        {"CET-1CEST,M3.5.0", false},
        {"CET-1CEST,M3.5.0,", false},
        {"CET-1CEST,M13.5.0,M10.5.0", false},
        {"CET-1CEST,M3.6.0,M10.5.0", false},
        {"CET-1CEST,M3.0.0,M10.5.0", false},
        {"CET-1CEST,M3.5.7,M10.5.0", false},
        {"CET-1CEST,M3.5,M10.5.0", false},
        {"CET-1CEST,J0,J365", false},
        {"CET-1CEST,J366,J365", false},
        {"CET-1CEST,366,0", false},
        {"CET-1CEST,0/168,5", false},
        {"CET-1CEST,0,5/2/2", false},
        {"CET-1CEST,0,99999999999999", false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_zone_rule rule;

        if (wp_zone_rule_parse(wp_str_from(cases[i].text), &rule) !=
            cases[i].fine) {
            fail_msg("'%s'", cases[i].text);
        }
    }
}

/* RFC 8536's own example of summer time all year round. */
static void
test_summer_all_year(void **state)
{
    struct wp_zone_rule rule;
    int64_t until_s;

    (void)state;
    assert_true(wp_zone_rule_parse(WP_STR("XXX3EDT4,0/0,J365/23"), &rule));
    for (int64_t t = at(2019, 12, 20, 0); t < at(2025, 1, 10, 0); t += HOUR) {
        assert_int_equal(wp_zone_rule_offset_s(&rule, t, &until_s), -4 * HOUR);
        assert_true(until_s > t);
    }
}

static void
test_damaged_files(void **state)
{
    struct bytes fine = made('2', "\nAAA-1BBB,J60/0,300/-24\n");
    struct bytes b = {.len = 0};
    struct wp_time_zone *zone;
    struct wp_err err;

    (void)state;
    /* Cut anywhere; no newline, no whole file. */
    for (size_t len = 0; len < fine.len; len++) {
        b = fine;
        b.len = len;
        assert_int_equal(parse(&b, &zone, &err), WP_INVALID_ARGUMENT);
        assert_null(zone);
    }
    /* Any one byte changed: an error or a zone that works. */
    for (size_t i = 0; i < fine.len; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            b = fine;
            b.at[i] ^= (uint8_t)(1U << bit);
            if (parse(&b, &zone, &err) == WP_OK) {
                int64_t local_s = wp_time_zone_to_local_s(zone, 5000);

                assert_true(wp_time_zone_from_local_s(zone, local_s) <= 5000);
                wp_time_zone_destroy(zone);
            }
        }
    }
    b = (struct bytes){.len = 0};
    add_header(&b, '\0', 1, 0, 1);
    add_be(&b, 0, 6);
    add(&b, "ABC", 4);
    add_be(&b, 0, 8);
    assert_int_equal(parse(&b, &zone, &err), WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "leap seconds"));
}

/* A file of one block with these counts, a change and what else they ask for. */
static struct bytes
counted(uint32_t isutc, uint32_t isstd, uint32_t times, uint32_t types,
        uint32_t chars)
{
    struct bytes b = {.len = 0};

    add(&b, "TZif", 4);
    add_be(&b, 0, 8);
    add_be(&b, 0, 8);
    add_be(&b, isutc, 4);
    add_be(&b, isstd, 4);
    add_be(&b, 0, 4);
    add_be(&b, times, 4);
    add_be(&b, types, 4);
    add_be(&b, chars, 4);
    for (uint32_t i = 0; i < times && i < 3; i++) {
        add_be(&b, 1000 + i, 4);
    }
    for (uint32_t i = 0; i < times && i < 3; i++) {
        add_be(&b, i % 2, 1);
    }
    for (uint32_t i = 0; i < types && i < 3; i++) {
        add_be(&b, (i + 1) * HOUR, 4);
        add_be(&b, 0, 2);
    }
    add_be(&b, 0, 4);
    add_be(&b, 0, 4);
    return b;
}

static void
refuse(struct bytes b, const char *what)
{
    struct wp_time_zone *zone;
    struct wp_err err;
    char expected[128];

    (void)snprintf(expected, sizeof expected,
                   "not a zone file, or a damaged one: %s", what);
    assert_int_equal(parse(&b, &zone, &err), WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, expected);
    assert_null(zone);
}

static void
take(struct bytes b)
{
    struct wp_time_zone *zone;
    struct wp_err err;

    if (parse(&b, &zone, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(offset_of(zone, 999), HOUR);
    wp_time_zone_destroy(zone);
}

/* Each bound, at it and one beyond. */
static void
test_bounds_of_files(void **state)
{
    struct bytes b;

    (void)state;
    take(counted(0, 0, 3, 2, 4));
    take(counted(2, 2, 3, 2, 4));
    refuse(counted(1, 0, 3, 2, 4), "counts that cannot be");
    refuse(counted(0, 3, 3, 2, 4), "counts that cannot be");
    refuse(counted(0, 0, 0, 0, 4), "counts that cannot be");
    take(counted(0, 0, 0, 1, 4));
    refuse(counted(0, 0, 8193, 2, 4), "counts that cannot be");
    refuse(counted(0, 0, 8192, 2, 4), "it ends too early");
    refuse(counted(0, 0, 3, 257, 4), "counts that cannot be");
    refuse(counted(0, 0, 3, 256, 4), "it ends too early");
    refuse(counted(0, 0, 3, 2, 4097), "counts that cannot be");
    refuse(counted(0, 0, 3, 2, 4096), "it ends too early");
    b = counted(0, 0, 3, 2, 4);
    b.at[30] = 0x20; /* 8192 leap seconds; and one more. */
    refuse(b, "it ends too early");
    b.at[31] = 1;
    refuse(b, "counts that cannot be");
    /* All that is there is asked for, and then one more. */
    take(counted(2, 2, 3, 2, 4));
    b = counted(0, 0, 3, 2, 8);
    take(b);
    b.len--;
    refuse(b, "it ends too early");
    b = counted(0, 0, 3, 2, 4);
    b.at[44 + 12] = 1;
    take(counted(0, 0, 3, 2, 4));
    b.at[44 + 12 + 1] = 2;
    refuse(b, "a change to a type that is not there");
    b = counted(0, 0, 3, 2, 4);
    b.at[44 + 7] = b.at[44 + 3];
    refuse(b, "times that go back");
    b = counted(0, 0, 3, 2, 4);
    b.at[0] = 'U';
    refuse(b, "no header");
    b.len = 43;
    refuse(b, "its length");
}

/* Goal: a block is as long as its counts say, each of them: the second one is
 * found behind the first, and one whose end lacks is refused. */
static void
test_counts_of_both_blocks(void **state)
{
    static const struct {
        uint32_t is; /* isutc and isstd */
        uint32_t leaps;
        uint32_t times;
        uint32_t types;
    } rows[] = {
        {0, 0, 1, 1}, {1, 0, 1, 1}, {0, 1, 1, 1}, {0, 3, 1, 1},
        {2, 2, 3, 2}, {0, 0, 0, 3}, {0, 0, 5, 1},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct bytes b = {.len = 0};
        struct wp_time_zone *zone;
        struct wp_err err;
        size_t len;

        add_header(&b, '2', rows[i].leaps, rows[i].times, rows[i].types);
        for (unsigned k = 0; k < 8; k++) {
            b.at[20 + k] = k % 4 == 3 ? (uint8_t)rows[i].is : 0;
        }
        len = 5 * rows[i].times + 6 * rows[i].types + 4 + 8 * rows[i].leaps +
              2 * rows[i].is;
        for (size_t k = 1; k < len; k++) {
            add_be(&b, 0, 1);
        }
        refuse(b, "it ends too early");
        add_be(&b, 0, 1);
        refuse(b, "no header"); /* Of the second. */
        add_block(&b, '2', 8);
        add(&b, "\n\n", 2);
        assert_int_equal(parse(&b, &zone, &err), WP_OK);
        assert_int_equal(offset_of(zone, 999), HOUR);
        assert_int_equal(offset_of(zone, 1000), 2 * HOUR);
        wp_time_zone_destroy(zone);
    }
}

/* What follows the only block of a file counts for nothing, as long as the file
 * is not too long; and less than a header is too short. */
static void
test_lengths_of_files(void **state)
{
    static uint8_t bytes[WP_TIME_ZONE_BYTES_MAX + 1];
    struct bytes b = counted(0, 0, 3, 2, 4);
    struct wp_time_zone *zone;
    struct wp_err err;

    (void)state;
    memcpy(bytes, b.at, b.len);
    assert_int_equal(wp_time_zone_parse(WP_STR("made"), bytes,
                                        WP_TIME_ZONE_BYTES_MAX, &zone, &err),
                     WP_OK);
    wp_time_zone_destroy(zone);
    assert_int_equal(
        wp_time_zone_parse(WP_STR("made"), bytes, sizeof bytes, &zone, &err),
        WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "not a zone file, or a damaged one: its "
                                 "length");
    assert_null(zone);
    b.len = 44;
    refuse(b, "it ends too early");
}

/* Offsets are less than or as much as the bound, either way. */
static void
test_bounds_of_offsets(void **state)
{
    static const struct {
        int32_t offset_s;
        bool taken;
    } rows[] = {
        {WP_ZONE_OFFSET_MAX_S, true},
        {WP_ZONE_OFFSET_MAX_S + 1, false},
        {-WP_ZONE_OFFSET_MAX_S, true},
        {-WP_ZONE_OFFSET_MAX_S - 1, false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct bytes b = counted(0, 0, 3, 2, 4);
        uint32_t offset_s = (uint32_t)rows[i].offset_s;

        /* Of the second type. */
        for (unsigned k = 0; k < 4; k++) {
            b.at[44 + 12 + 3 + 6 + k] = (uint8_t)(offset_s >> (24 - 8 * k));
        }
        if (rows[i].taken) {
            struct wp_time_zone *zone;
            struct wp_err err;

            assert_int_equal(parse(&b, &zone, &err), WP_OK);
            assert_int_equal(offset_of(zone, 1001), rows[i].offset_s);
            assert_int_equal(offset_of(zone, 1002), HOUR);
            wp_time_zone_destroy(zone);
        } else {
            refuse(b, "an offset of more than a day");
        }
    }
}

static void
test_footers(void **state)
{
    struct bytes b;

    (void)state;
    refuse(made('2', ""), "no footer");
    refuse(made('2', "AAA-1\n"), "no footer");
    refuse(made('2', "\nAAA-1"), "a footer that does not end");
    refuse(made('2', "\n"), "a footer that does not end");
    refuse(made('2', "\nAA-1\n"), "the rule in its footer");
    take(made('2', "\nAAA-1\n"));
    take(made('2', "\n\n"));
    /* The second block is the one that counts, and has to be there. */
    b = made('\0', "");
    b.at[4] = '2';
    refuse(b, "no header");
}

/* The n-th weekday of a month, in each year of its own: the fifth is the last,
 * whether the month has four or five of it. */
static void
test_weeks_of_months(void **state)
{
    (void)state;
    for (int month = 1; month <= 11; month++) {
        for (int week = 1; week <= 5; week++) {
            struct wp_time_zone *zone;
            struct wp_err err;
            struct bytes b;
            char footer[64];

            (void)snprintf(footer, sizeof footer, "\nAAA0BBB,M%d.%d.3/0,J365\n",
                           month, week);
            b = made('2', footer);
            assert_int_equal(parse(&b, &zone, &err), WP_OK);
            for (int year = 1999; year < 2030; year++) {
                int64_t first = wp_civil_to_days(year, month, 1);
                int64_t next = wp_civil_to_days(year, month + 1, 1);
                int64_t day = -1;
                int found = 0;

                /* 1970-01-01 was a Thursday. */
                for (int64_t d = first; d < next && found < week; d++) {
                    if ((d + 4) % 7 == 3) {
                        day = d;
                        found++;
                    }
                }
                assert_int_equal(offset_of(zone, day * 86400 - 1), 0);
                assert_int_equal(offset_of(zone, day * 86400), HOUR);
            }
            wp_time_zone_destroy(zone);
        }
    }
}

static struct wp_zone_rule
rule_of(const char *text)
{
    struct wp_zone_rule rule;

    if (!wp_zone_rule_parse(wp_str_from(text), &rule)) {
        fail_msg("'%s'", text);
    }
    return rule;
}

/* Goal: what a rule leaves out is an hour more, at two o'clock; what it says is
 * taken to the second. */
static void
test_rules_are_read_whole(void **state)
{
    struct wp_zone_rule rule = rule_of("AAA-1BBB,M3.5.0,M10.4.6/3");

    (void)state;
    assert_true(rule.has_summer);
    assert_int_equal(rule.standard_s, HOUR);
    assert_int_equal(rule.summer_s, 2 * HOUR);
    assert_int_equal(rule.begins.form, WP_ZONE_MONTH_DAY);
    assert_int_equal(rule.begins.month, 3);
    assert_int_equal(rule.begins.week, 5);
    assert_int_equal(rule.begins.weekday, 0);
    assert_int_equal(rule.begins.time_s, 2 * HOUR);
    assert_int_equal(rule.ends.month, 10);
    assert_int_equal(rule.ends.week, 4);
    assert_int_equal(rule.ends.weekday, 6);
    assert_int_equal(rule.ends.time_s, 3 * HOUR);
    rule = rule_of("AAA+2:03:04BBB-5:06:07,J60/-167:59:59,365/+1:02");
    assert_int_equal(rule.standard_s, -(2 * HOUR + 3 * 60 + 4));
    assert_int_equal(rule.summer_s, 5 * HOUR + 6 * 60 + 7);
    assert_int_equal(rule.begins.form, WP_ZONE_JULIAN);
    assert_int_equal(rule.begins.day, 60);
    assert_int_equal(rule.begins.time_s, -(168 * HOUR - 1));
    assert_int_equal(rule.ends.form, WP_ZONE_DAY);
    assert_int_equal(rule.ends.day, 365);
    assert_int_equal(rule.ends.time_s, HOUR + 2 * 60);
    rule = rule_of("AAA0");
    assert_false(rule.has_summer);
    assert_int_equal(rule.standard_s, 0);
}

/* Goal: each change is at its hour, and told of until then, also when it lies
 * in the year beside. */
static void
test_changes_of_rules(void **state)
{
    const struct {
        const char *rule;
        int standard;
        int64_t begins_s;
        int64_t ends_s;
        int64_t again_s; /* It begins or ends the next time. */
    } cases[] = {
        {"AAA0BBB,J60,J300/3", 0, at(2023, 3, 1, 2), at(2023, 10, 27, 2),
         at(2024, 3, 1, 2)},
        {"AAA0BBB,J60,J300/3", 0, at(2024, 3, 1, 2), at(2024, 10, 27, 2),
         at(2025, 3, 1, 2)},
        {"AAA0BBB,59,299/3", 0, at(2024, 2, 29, 2), at(2024, 10, 26, 2),
         at(2025, 3, 1, 2)},
        {"AAA-11BBB,J1/167,J365/-167", 11, at(2023, 1, 7, 12),
         at(2023, 12, 23, 13), at(2024, 1, 7, 12)},
        {"AAA-11BBB,M11.1.0/2,M2.5.0/3", 11, at(2025, 11, 1, 15),
         at(2026, 2, 21, 15), at(2026, 10, 31, 15)},
        /* All of a year's changes are in the year before, or behind. */
        {"AAA0BBB,J1/-167,J2/-167", 0, at(2023, 12, 25, 1), at(2023, 12, 26, 0),
         at(2024, 12, 25, 1)},
        {"AAA0BBB,J364/167,J365/167", 0, at(2024, 1, 5, 23), at(2024, 1, 6, 22),
         at(2025, 1, 5, 23)},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_zone_rule rule = rule_of(cases[i].rule);
        int32_t standard_s = cases[i].standard * HOUR;
        int64_t until_s;

        assert_int_equal(
            wp_zone_rule_offset_s(&rule, cases[i].begins_s - 1, &until_s),
            standard_s);
        assert_int_equal(until_s, cases[i].begins_s);
        assert_int_equal(
            wp_zone_rule_offset_s(&rule, cases[i].begins_s, &until_s),
            standard_s + HOUR);
        assert_int_equal(until_s, cases[i].ends_s);
        assert_int_equal(
            wp_zone_rule_offset_s(&rule, cases[i].ends_s - 1, &until_s),
            standard_s + HOUR);
        assert_int_equal(until_s, cases[i].ends_s);
        assert_int_equal(
            wp_zone_rule_offset_s(&rule, cases[i].ends_s, &until_s),
            standard_s);
        assert_int_equal(until_s, cases[i].again_s);
    }
}

/* What lies in the directory is not always a zone. */
static void
test_odd_files(void **state)
{
    char dir[] = "/tmp/wp-zones-XXXXXX";
    char path[64];
    const struct wp_time_zone *zone;
    struct wp_err err;
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(dir));
    wp_time_zone_use_directory(dir);
    (void)snprintf(path, sizeof path, "%s/fifo", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(wp_time_zone_find(WP_STR("fifo"), &zone, &err),
                     WP_INVALID_ARGUMENT);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/huge", dir);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), 1 << 20), 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(wp_time_zone_find(WP_STR("huge"), &zone, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "its length"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    wp_time_zone_use_directory("/usr/share/zoneinfo");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utc_needs_no_file),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_local_times),
        cmocka_unit_test(test_local_times_at_changes),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_bytes_of_names),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_summer_all_year),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_bounds_of_files),
        cmocka_unit_test(test_counts_of_both_blocks),
        cmocka_unit_test(test_lengths_of_files),
        cmocka_unit_test(test_bounds_of_offsets),
        cmocka_unit_test(test_footers),
        cmocka_unit_test(test_weeks_of_months),
        cmocka_unit_test(test_rules_are_read_whole),
        cmocka_unit_test(test_changes_of_rules),
        cmocka_unit_test(test_odd_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
