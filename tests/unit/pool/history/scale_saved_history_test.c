/* What a saved history may say, field by field: each record and each chunk is
 * read whole, or all of it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/history/history.h"
#include "pool/history/parts.h"
#include "pool/scale/scaler.h"

#define Q WP_SCALE_QUANTUM_NS

/* A chunk as it is saved; numbers are its records. */
static size_t
put_chunk(uint8_t *out, uint64_t quantum, uint64_t lead_bin,
          const uint64_t *numbers, size_t n_numbers)
{
    uint8_t records[128];
    size_t len = 0;
    size_t n;

    for (size_t i = 0; i < n_numbers; i++) {
        len += wp_history_varint_put(records + len, numbers[i]);
    }
    n = wp_history_varint_put(out, quantum);
    n += wp_history_varint_put(out + n, lead_bin);
    n += wp_history_varint_put(out + n, len);
    memcpy(out + n, records, len);
    return n + len;
}

/* All events, with their quanta, and times by their distance from these. */
static void
tell(const struct wp_history *history, char *out, size_t cap)
{
    struct wp_history_cursor cursor;
    struct wp_history_event event;
    size_t n = 0;

    out[0] = '\0';
    wp_history_first(history, &cursor);
    while (wp_history_next(&cursor, &event)) {
        int64_t wall = event.wall_ns;

        assert_int_equal(wall % Q, 0);
        n += (size_t)snprintf(out + n, cap - n, "%" PRId64 " kind %d", wall / Q,
                              event.kind);
        if (event.n != 0 || event.missed != 0) {
            n += (size_t)snprintf(out + n, cap - n, " n %" PRIu32 "/%" PRIu32,
                                  event.n, event.missed);
        }
        if (event.lead_ns != 0) {
            n += (size_t)snprintf(out + n, cap - n, " lead %" PRId64,
                                  event.lead_ns);
        }
        if (event.clock_ns != 0) {
            n += (size_t)snprintf(out + n, cap - n, " clock %+" PRId64,
                                  event.clock_ns - wall);
        }
        if (event.from_ns != 0 || event.until_ns != 0) {
            n += (size_t)snprintf(out + n, cap - n,
                                  " from %+" PRId64 " until %+" PRId64,
                                  event.from_ns - wall, event.until_ns - wall);
        }
        n += (size_t)snprintf(
            out + n, cap - n, "%s;",
            event.kind == WP_HISTORY_CLAIMS && event.apart ? " apart" : "");
        assert_true(n < cap);
    }
}

/* What is loaded of those bytes, as text; "damaged" when they are refused, and
 * then nothing is. What was loaded is saved and loaded again as it is. */
static void
expect_loaded(const uint8_t *bytes, size_t len, const char *expected,
              size_t row)
{
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    struct wp_history *again = wp_history_create(WP_HISTORY_BYTES_MIN);
    static uint8_t saved[4096];
    static char text[2][2048];
    struct wp_err err = {.msg = ""};
    size_t n;

    if (wp_history_load(history, bytes, len, &err) == WP_OK) {
        tell(history, text[0], sizeof text[0]);
        n = wp_history_save(history, saved, sizeof saved);
        assert_int_equal(wp_history_load(again, saved, n, &err), WP_OK);
        tell(again, text[1], sizeof text[1]);
        assert_string_equal(text[1], text[0]);
    } else {
        assert_int_equal(err.status, WP_INVALID_ARGUMENT);
        assert_string_equal(err.msg, "a saved history is damaged");
        tell(history, text[0], sizeof text[0]);
        assert_string_equal(text[0], "");
        (void)snprintf(text[0], sizeof text[0], "damaged");
    }
    if (strcmp(text[0], expected) != 0) {
        fail_msg("row %zu: '%s' expected, got '%s'", row, expected, text[0]);
    }
    wp_history_destroy(again);
    wp_history_destroy(history);
}

#define U32 ((uint64_t)UINT32_MAX)

/* A chunk at quantum 7 whose lead times count from bin 3. */
static void
test_every_record_is_read_or_refused(void **state)
{
    static const struct {
        uint64_t numbers[6];
        size_t n;
        const char *loaded;
    } rows[] = {
        {{0}, 1, "7 kind 0 n 1/0 apart;7 kind 2;"},
        {{8}, 1, "9 kind 0 n 1/0 apart;9 kind 2;"},
        {{1, 0}, 2, "7 kind 0 apart;7 kind 2;"},
        {{1, 10}, 2, "7 kind 0 n 5/0 apart;7 kind 2;"},
        {{1, 3, 1}, 3, "7 kind 0 n 1/1 apart;7 kind 2;"},
        {{1, 11, 5}, 3, "7 kind 0 n 5/5 apart;7 kind 2;"},
        {{1, 11, 6}, 3, "damaged"},
        {{1, 11, 0}, 3, "damaged"},
        {{1, 11}, 2, "damaged"},
        {{1}, 1, "damaged"},
        {{1, 2 * U32}, 2, "7 kind 0 n 4294967295/0 apart;7 kind 2;"},
        {{1, 2 * U32 + 2}, 2, "damaged"},
        {{1, 2 * U32 + 1, U32},
         3,
         "7 kind 0 n 4294967295/4294967295 apart;7 kind 2;"},
        {{2, 0}, 2, "7 kind 1 lead 1027;7 kind 2;"},
        {{2, 1}, 2, "7 kind 1 lead 1016;7 kind 2;"},
        {{2, 2}, 2, "7 kind 1 lead 1039;7 kind 2;"},
        {{2, 5, 2, 4}, 4, "7 kind 1;7 kind 1 lead 1016;7 kind 2;"},
        {{2, 7}, 2, "damaged"},
        {{2, 2 * (WP_LEAD_BIN_MAX - 3)},
         2,
         "7 kind 1 lead 42439467401830;7 kind 2;"},
        {{2, 2 * (WP_LEAD_BIN_MAX - 2)}, 2, "damaged"},
        {{2, 2 * WP_LEAD_BIN_MAX + 1}, 2, "damaged"},
        {{2}, 1, "damaged"},
        {{3, 12}, 2, "10 kind 0 n 1/0 apart;10 kind 2;"},
        /* A scaler's other inputs, each with what it has, and cut short. */
        {{1, 1}, 2, "damaged"},
        {{1, 1, WP_HISTORY_CLAIMS}, 3, "damaged"},
        {{1, 1, WP_HISTORY_READY}, 3, "damaged"},
        {{1, 1, WP_HISTORY_GAP}, 3, "damaged"},
        {{1, 1, WP_HISTORY_BEGIN, 6, 10},
         5,
         "7 kind 3 n 6/0 clock +5;7 kind 2;"},
        {{1, 1, WP_HISTORY_BEGIN, 6, 9},
         5,
         "7 kind 3 n 6/0 clock -5;7 kind 2;"},
        {{1, 1, WP_HISTORY_BEGIN, 6}, 4, "damaged"},
        {{1, 1, WP_HISTORY_POLICY, U32},
         4,
         "7 kind 4 n 4294967295/0;7 kind 2;"},
        {{1, 1, WP_HISTORY_POLICY, U32 + 1}, 4, "damaged"},
        {{1, 1, WP_HISTORY_POLICY}, 3, "damaged"},
        {{1, 1, WP_HISTORY_REPLICAS, 3}, 4, "7 kind 5 n 3/0;7 kind 2;"},
        {{1, 1, WP_HISTORY_REPLICAS}, 3, "damaged"},
        {{1, 1, WP_HISTORY_CLOCK, 2}, 4, "7 kind 6 clock +1;7 kind 2;"},
        {{1, 1, WP_HISTORY_CLOCK, 1}, 4, "7 kind 6 clock -1;7 kind 2;"},
        {{1, 1, WP_HISTORY_CLOCK}, 3, "damaged"},
        {{1, 1, WP_HISTORY_UNSEEN, 4}, 4, "7 kind 7 n 4/0;7 kind 2;"},
        {{1, 1, WP_HISTORY_UNSEEN}, 3, "damaged"},
        {{1, 1, WP_HISTORY_RESTORED, 1}, 4, "7 kind 8 n 1/0;7 kind 2;"},
        {{1, 1, WP_HISTORY_RESTORED}, 3, "damaged"},
        {{1, 1, WP_HISTORY_RESERVED, 5, 8, 13},
         6,
         "7 kind 9 n 5/0 from +4 until -7;7 kind 2;"},
        {{1, 1, WP_HISTORY_RESERVED, 5, 8}, 5, "damaged"},
        {{1, 1, WP_HISTORY_RESERVED, 5}, 4, "damaged"},
        {{1, 1, WP_HISTORY_CANCELLED, 0}, 4, "7 kind 10;7 kind 2;"},
        {{1, 1, WP_HISTORY_CANCELLED}, 3, "damaged"},
        {{1, 1, WP_HISTORY_STEP}, 3, "7 kind 11;7 kind 2;"},
        {{1, 1, WP_HISTORY_AT_ONCE, 2}, 4, "7 kind 12 n 2/0;7 kind 2;"},
        {{1, 1, WP_HISTORY_AT_ONCE}, 3, "damaged"},
        {{1, 1, WP_HISTORY_KIND_COUNT}, 3, "damaged"},
    };
    uint8_t bytes[256] = "WPH2";

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        size_t len = 4 + put_chunk(bytes + 4, 7, 3, rows[i].numbers, rows[i].n);

        expect_loaded(bytes, len, rows[i].loaded, i);
    }
}

/* Chunks follow each other in time, and are in the bounds of their fields. */
static void
test_every_chunk_is_read_or_refused(void **state)
{
    static const uint64_t one[] = {0};
    static const uint64_t late[] = {4};
    static const uint64_t longest[] = {2, 0};
    const struct {
        uint64_t quantum[2];
        uint64_t lead_bin;
        const uint64_t *records;
        size_t n;
        const char *loaded;
    } rows[] = {
        {{9, 9},
         0,
         one,
         1,
         "9 kind 0 n 1/0 apart;9 kind 0 n 1/0 apart;9 kind 2;"},
        {{9, 8}, 0, one, 1, "damaged"},
        {{9, 9},
         0,
         late,
         1,
         "10 kind 0 n 1/0 apart;10 kind 0 n 1/0 apart;10 kind 2;"},
        {{9, 10},
         0,
         late,
         1,
         "10 kind 0 n 1/0 apart;11 kind 0 n 1/0 apart;11 kind 2;"},
        {{9, 9}, 0, NULL, 0, "damaged"},
        {{9, WP_QUANTUM_MAX},
         0,
         one,
         1,
         "9 kind 0 n 1/0 apart;922337203684 kind 0 n 1/0 apart;922337203684 "
         "kind 2;"},
        {{9, WP_QUANTUM_MAX}, 0, late, 1, "damaged"},
        {{9, (uint64_t)WP_QUANTUM_MAX + 1}, 0, one, 1, "damaged"},
        {{9, 9},
         WP_LEAD_BIN_MAX,
         longest,
         2,
         "9 kind 1 lead 42439467401830;9 kind 1 lead 42439467401830;9 kind 2;"},
        {{9, 9}, WP_LEAD_BIN_MAX + 1, one, 1, "damaged"},
    };
    uint8_t bytes[256] = "WPH2";

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        size_t len = 4;

        for (size_t k = 0; k < 2; k++) {
            len += put_chunk(bytes + len, rows[i].quantum[k], rows[i].lead_bin,
                             rows[i].records, rows[i].n);
        }
        expect_loaded(bytes, len, rows[i].loaded, i);
    }
}

/* Nothing is taken from behind a damage, even if it looks like a chunk. */
static void
test_a_chunk_within_a_damaged_one_is_none(void **state)
{
    static const uint64_t one[] = {0};
    static const uint64_t chunk[] = {9, 0, 1, 0};
    uint8_t bytes[256] = "WPH2";
    size_t len = 4;

    (void)state;
    len += put_chunk(bytes + len, 9, 0, one, WP_ARRAY_LEN(one));
    len += put_chunk(bytes + len, 2, 0, chunk, WP_ARRAY_LEN(chunk));
    expect_loaded(bytes, len, "damaged", 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_record_is_read_or_refused),
        cmocka_unit_test(test_every_chunk_is_read_or_refused),
        cmocka_unit_test(test_a_chunk_within_a_damaged_one_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
