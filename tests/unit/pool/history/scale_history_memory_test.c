/* A record of claims where memory lacks: each of its allocations is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/clock.h"
#include "pool/history/history.h"

#define S WP_NS_PER_S
#define DAY (86400 * S)

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);

/* So many allocations succeed, and none after them; below 0: all do. */
static int left = -1;
/* What was handed out and not given back. */
static int live;
static size_t handed_out_bytes; /* In all. */

static bool
is_refused(void)
{
    if (left > 0) {
        left--;
        return false;
    }
    return left == 0;
}

static void *
counted(void *memory, size_t size)
{
    live++;
    handed_out_bytes += size;
    return memory;
}

void *
__wrap_malloc(size_t size)
{
    return is_refused() ? NULL : counted(__real_malloc(size), size);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return is_refused() ? NULL : counted(__real_calloc(n, size), n * size);
}

void
__wrap_free(void *memory)
{
    live -= memory != NULL;
    __real_free(memory);
}

static void
add(struct wp_history *history, int64_t s, uint32_t n)
{
    wp_history_add(history, DAY + s * S,
                   &(struct wp_history_event){.kind = WP_HISTORY_CLAIMS,
                                              .wall_ns = DAY + s * S,
                                              .n = n});
}

/* What is read of it: the claims, and the seconds of the first and last. */
static void
expect(const struct wp_history *history, uint64_t claims, int64_t first_s,
       int64_t last_s)
{
    struct wp_history_cursor cursor;
    struct wp_history_event event;
    uint64_t sum = 0;
    int64_t from_ns;
    int64_t until_ns;

    wp_history_first(history, &cursor);
    while (wp_history_next(&cursor, &event)) {
        sum += event.n;
    }
    assert_int_equal(sum, claims);
    assert_int_equal(wp_history_claims(history), claims);
    assert_true(wp_history_span(history, &from_ns, &until_ns));
    assert_int_equal(from_ns, DAY + first_s * S);
    assert_int_equal(until_ns, DAY + last_s * S);
}

static int
nothing_is_left(void **state)
{
    (void)state;
    left = -1;
    return live;
}

static void
none_is_made(void **state)
{
    (void)state;
    left = 0;
    assert_null(wp_history_create(WP_HISTORY_BYTES_MIN));
}

/* What cannot be kept counts as dropped; the record goes on when there is
 * memory again. */
static void
claims_that_find_no_memory_are_dropped(void **state)
{
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    size_t empty;

    (void)state;
    assert_non_null(history);
    empty = wp_history_bytes(history);
    left = 0;
    add(history, 1, 3);
    assert_int_equal(wp_history_claims(history), 3);
    assert_int_equal(wp_history_dropped(history), 0);
    add(history, 2, 4);
    assert_int_equal(wp_history_dropped(history), 3);
    expect(history, 4, 2, 2);
    add(history, 3, 5);
    assert_int_equal(wp_history_dropped(history), 7);
    expect(history, 5, 3, 3);
    assert_int_equal(wp_history_bytes(history), empty);
    left = -1;
    add(history, 4, 6);
    assert_int_equal(wp_history_dropped(history), 7);
    expect(history, 11, 3, 4);
    assert_true(wp_history_bytes(history) > empty);
    wp_history_destroy(history);
}

/* Where there is no memory for one more chunk, the oldest makes place: no more
 * is held, and nothing that comes is lost. */
static void
the_oldest_makes_place(void **state)
{
    size_t before = handed_out_bytes;
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    int64_t s = 0;
    size_t held;

    (void)state;
    assert_non_null(history);
    assert_int_equal(wp_history_bytes(history), handed_out_bytes - before);
    add(history, s++, 2);
    add(history, s++, 2);
    held = wp_history_bytes(history);
    while (wp_history_bytes(history) == held) {
        add(history, s++, 2);
    }
    held = wp_history_bytes(history);
    left = 0;
    while (wp_history_dropped(history) == 0) {
        add(history, s++, 2);
    }
    for (int i = 0; i < 1000; i++) {
        uint64_t dropped = wp_history_dropped(history);

        expect(history, 2 * (uint64_t)s - dropped, (int64_t)dropped / 2, s - 1);
        assert_int_equal(wp_history_bytes(history), held);
        assert_int_equal(handed_out_bytes - before, held);
        add(history, s++, 2);
    }
    wp_history_destroy(history);
}

/* Of one of several chunks, whichever allocation fails; what was there is as it
 * was. */
static void
a_copy_needs_all_of_its_memory(void **state)
{
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    struct wp_history *copy;
    int needs = 0;

    (void)state;
    assert_non_null(history);
    for (int64_t s = 0; s < 400; s++) {
        add(history, s, 2);
    }
    assert_int_equal(wp_history_dropped(history), 0);
    while (left = needs, (copy = wp_history_clone(history)) == NULL) {
        needs++;
    }
    assert_in_range(needs, 3, 20);
    expect(copy, 800, 0, 399);
    expect(history, 800, 0, 399);
    wp_history_destroy(copy);
    wp_history_destroy(history);
}

/* A saved record is taken whole, or what is there stays. */
static void
a_saved_one_is_not_taken(void **state)
{
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    uint8_t saved[1000];
    struct wp_err err;
    size_t len;

    (void)state;
    assert_non_null(history);
    add(history, 1, 3);
    add(history, 2, 4);
    len = wp_history_save(history, saved, sizeof saved);
    add(history, 3, 5);
    for (left = 0; left < 2;) {
        int granted = left;

        assert_int_equal(wp_history_load(history, saved, len, &err),
                         WP_RESOURCE_EXHAUSTED);
        assert_string_equal(err.msg, "no memory for a saved history");
        expect(history, 12, 1, 3);
        left = granted + 1;
    }
    left = -1;
    assert_int_equal(wp_history_load(history, saved, len, &err), WP_OK);
    expect(history, 19, 1, 3);
    wp_history_destroy(history);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(none_is_made, nothing_is_left),
        cmocka_unit_test_teardown(claims_that_find_no_memory_are_dropped,
                                  nothing_is_left),
        cmocka_unit_test_teardown(the_oldest_makes_place, nothing_is_left),
        cmocka_unit_test_teardown(a_copy_needs_all_of_its_memory,
                                  nothing_is_left),
        cmocka_unit_test_teardown(a_saved_one_is_not_taken, nothing_is_left),
    };

    return cmocka_run_group_tests_name("scale_history_memory", tests, NULL,
                                       NULL);
}
