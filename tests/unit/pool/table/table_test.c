/* What the pools reserve, which is what they say that they use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "pool/table/pools.h"

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static bool no_memory;
static size_t asked_bytes;
static struct wp_pools pools;

/* As it is where somebody else had it before. */
void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
    void *block = no_memory ? NULL : __real_aligned_alloc(alignment, size);

    asked_bytes = size;
    return block != NULL ? memset(block, 0xa5, size) : NULL;
}

static void
reserves(size_t count, size_t size, size_t bytes)
{
    static const uint8_t zeros[3 * WP_CACHELINE];
    uint64_t before = pools.memory_bytes;
    void *block = wp_pools_reserve(&pools, count, size);

    assert_non_null(block);
    assert_int_equal((uintptr_t)block % WP_CACHELINE, 0);
    assert_int_equal(asked_bytes, bytes);
    assert_int_equal(pools.memory_bytes - before, bytes);
    assert_memory_equal(block, zeros, bytes);
    free(block);
}

/* Goal: as few whole cache lines as hold it, so that it shares none with
 * others; zeroed, and counted. */
static void
test_whole_lines_are_reserved(void **state)
{
    (void)state;
    reserves(1, 1, WP_CACHELINE);
    reserves(1, WP_CACHELINE - 1, WP_CACHELINE);
    reserves(1, WP_CACHELINE, WP_CACHELINE);
    reserves(WP_CACHELINE / 8, 8, WP_CACHELINE);
    reserves(1, WP_CACHELINE + 1, 2 * WP_CACHELINE);
    reserves(3, WP_CACHELINE, 3 * WP_CACHELINE);
    reserves(3, WP_CACHELINE - 1, 3 * WP_CACHELINE);
}

/* Goal: what is not there is not counted. */
static void
test_what_is_refused_is_not_counted(void **state)
{
    uint64_t before = pools.memory_bytes;

    (void)state;
    no_memory = true;
    assert_null(wp_pools_reserve(&pools, 1, 1));
    no_memory = false;
    assert_int_equal(pools.memory_bytes, before);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_lines_are_reserved),
        cmocka_unit_test(test_what_is_refused_is_not_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
