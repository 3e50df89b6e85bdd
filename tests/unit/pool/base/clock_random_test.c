/* What is random and what time it is, as the kernel tells it in parts or late;
 * a seed gives the same numbers in each version of this program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/types.h>

#include "pool/base/clock.h"
#include "pool/base/rng.h"
#include "tests/support/base/journal.h"

/* What getrandom gives next: so many bytes, or an interrupted call. */
static const int *gives;
static uint8_t next_byte;

ssize_t __wrap_getrandom(void *out, size_t len, unsigned flags);

ssize_t
__wrap_getrandom(void *out, size_t len, unsigned flags)
{
    int n = *gives++;

    journal("getrandom %zu %u", len, flags);
    journal_line();
    if (n < 0) {
        errno = EINTR;
        return -1;
    }
    assert_true((size_t)n <= len);
    for (int i = 0; i < n; i++) {
        ((uint8_t *)out)[i] = ++next_byte;
    }
    return n;
}

/* Bytes that come in parts are put one behind the other, and no more than were
 * asked for. */
static void
test_random_bytes_in_parts(void **state)
{
    static const int parts[] = {3, -1, 1, 4, 0};
    uint8_t bytes[10];

    (void)state;
    memset(bytes, 0xee, sizeof bytes);
    gives = parts;
    wp_random_bytes(bytes + 1, 8);
    assert_memory_equal(bytes, "\xee\1\2\3\4\5\6\7\10\xee", sizeof bytes);
    journal_is("getrandom 8 0\ngetrandom 5 0\ngetrandom 5 0\ngetrandom 4 0\n");
    wp_random_bytes(bytes, 0);
    journal_is("");
}

static void
test_a_seed_gives_these_numbers(void **state)
{
    static const uint64_t seeds[] = {0, 42, UINT64_MAX};
    static const uint64_t expected[][4] = {
        {UINT64_C(0x99ec5f36cb75f2b4), UINT64_C(0xbf6e1f784956452a),
         UINT64_C(0x1a5f849d4933e6e0), UINT64_C(0x6aa594f1262d2d2c)},
        {UINT64_C(0x15780b2e0c2ec716), UINT64_C(0x6104d9866d113a7e),
         UINT64_C(0xae17533239e499a1), UINT64_C(0xecb8ad4703b360a1)},
        {UINT64_C(0x8f5520d52a7ead08), UINT64_C(0xc476a018caa1802d),
         UINT64_C(0x81de31c0d260469e), UINT64_C(0xbf658d7e065f3c2f)},
    };
    struct wp_rng rng;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(seeds); i++) {
        wp_rng_init(&rng, seeds[i]);
        for (size_t k = 0; k < 4; k++) {
            assert_true(wp_rng_next(&rng) == expected[i][k]);
        }
    }
}

/* Of a bound that all numbers are no multiple of, the last few are left out. */
static void
test_below_a_bound(void **state)
{
    const uint64_t bound = (UINT64_C(1) << 63) + 1;
    struct wp_rng rng;
    struct wp_rng same;

    (void)state;
    wp_rng_init(&rng, 42);
    same = rng;
    for (int i = 0; i < 100; i++) {
        uint64_t x;

        do {
            x = wp_rng_next(&same);
        } while (x >= bound);
        assert_true(wp_rng_below(&rng, bound) == x);
    }
    for (int i = 0; i < 100; i++) {
        assert_true(wp_rng_below(&rng, 10) == wp_rng_next(&same) % 10);
        assert_true(wp_rng_half(&rng, 100) ==
                    50 + (int64_t)(wp_rng_next(&same) % 51));
        assert_true(wp_rng_unit(&rng) ==
                    (double)(wp_rng_next(&same) >> 11) / 9007199254740992.0);
        assert_true(wp_rng_below(&rng, 1) == wp_rng_next(&same) % 1);
    }
    assert_memory_equal(&rng, &same, sizeof rng);
}

/* A clock whose reader is held up between its two looks at the monotonic one,
 * for so long at each try. */
static const int64_t *holds;
static int64_t mono_ns;
static int looks;

static int64_t
mono_of_held(const struct wp_clock *clock)
{
    (void)clock;
    if (looks++ % 2 != 0) {
        mono_ns += *holds++;
    }
    return mono_ns;
}

static int64_t
wall_of_held(const struct wp_clock *clock)
{
    (void)clock;
    /* Each try sees another offset: its own number. */
    return mono_ns + (looks + 1) / 2;
}

/* The try that was held up least counts; one within a millisecond is the last,
 * and there are eight at most. */
static void
test_which_try_counts(void **state)
{
    enum {
        MS = WP_NS_PER_MS,
    };
    static const struct {
        int64_t holds[9];
        int offset;
        int tries;
    } rows[] = {
        {{0}, 1, 1},
        {{MS}, 1, 1},
        {{MS + 1, MS}, 2, 2},
        {{9 * MS, 7 * MS, 3 * MS, 0}, 4, 4},
        {{9 * MS, 7 * MS, 3 * MS, 3 * MS, 4 * MS, 5 * MS, 6 * MS, 7 * MS, 0},
         3,
         8},
        {{9 * MS, 7 * MS, 8 * MS, 8 * MS, 8 * MS, 8 * MS, 8 * MS, 2 * MS, 0},
         8,
         8},
    };
    const struct wp_clock clock = {mono_of_held, wall_of_held};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        holds = rows[i].holds;
        mono_ns = 77;
        looks = 0;
        assert_int_equal(wp_clock_wall_offset_ns(&clock), rows[i].offset);
        assert_int_equal(looks, 2 * rows[i].tries);
    }
}

static void
test_pauses_double(void **state)
{
    static const struct {
        int64_t min;
        int64_t max;
        uint32_t failures;
        int64_t pause;
    } rows[] = {
        {10, 70, 0, 10},
        {10, 70, 1, 10},
        {10, 70, 2, 20},
        {10, 70, 3, 40},
        {10, 70, 4, 70},
        {10, 70, UINT32_MAX, 70},
        {10, 80, 4, 80},
        {10, 81, 4, 80},
        {10, 81, 5, 81},
        {10, 9, 1, 9},
        {10, 9, 5, 9},
        {10, 10, 3, 10},
        {0, 10, 9, 0},
        {1, INT64_MAX, 63, INT64_C(1) << 62},
        {1, INT64_MAX, 64, INT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_true(wp_backoff_ns(rows[i].min, rows[i].max, rows[i].failures) ==
                    rows[i].pause);
    }
}

static void
test_times_as_text(void **state)
{
    static const struct {
        int64_t ns;
        int digits;
        const char *text;
    } rows[] = {
        {0, 0, "1970-01-01T00:00:00Z"},
        {999999999, 0, "1970-01-01T00:00:00Z"},
        {123456789, 1, "1970-01-01T00:00:00.1Z"},
        {123456789, 6, "1970-01-01T00:00:00.123456Z"},
        {123456789, 9, "1970-01-01T00:00:00.123456789Z"},
        {1, 9, "1970-01-01T00:00:00.000000001Z"},
        {-1, 3, "1969-12-31T23:59:59.999Z"},
        {INT64_MAX, 9, "2262-04-11T23:47:16.854775807Z"},
    };
    char text[32];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_ptr_equal(wp_time_format_utc(rows[i].ns, rows[i].digits, text),
                         text);
        assert_string_equal(text, rows[i].text);
    }
    assert_string_equal(wp_time_format_rfc3339(-1, text), "never");
    assert_string_equal(wp_time_format_rfc3339(0, text),
                        "1970-01-01T00:00:00.000Z");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_bytes_in_parts),
        cmocka_unit_test(test_a_seed_gives_these_numbers),
        cmocka_unit_test(test_below_a_bound),
        cmocka_unit_test(test_which_try_counts),
        cmocka_unit_test(test_pauses_double),
        cmocka_unit_test(test_times_as_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
