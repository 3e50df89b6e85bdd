/* What the pools reserve, which is what they say that they use; and by which
 * names they are found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
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

/* --- Names --- */

enum {
    NAMED = 64,
};

#define REMOVED UINT32_MAX

static struct wp_pool named[NAMED];

static int
set_up_names(void **state)
{
    (void)state;
    memset(named, 0, sizeof named);
    pools.pool = wp_pools_reserve(&pools, NAMED, sizeof *pools.pool);
    pools.by_name =
        wp_pools_reserve(&pools, WP_NAME_BUCKETS, sizeof *pools.by_name);
    assert_non_null(pools.pool);
    assert_non_null(pools.by_name);
    for (uint32_t i = 0; i < NAMED; i++) {
        named[i].index = i;
        atomic_store(&pools.pool[i], &named[i]);
    }
    atomic_store(&pools.n_pools, NAMED);
    return 0;
}

static int
tear_down_names(void **state)
{
    (void)state;
    free(pools.pool);
    free(pools.by_name);
    return 0;
}

static void
name(uint32_t i, const char *pool_namespace, const char *name)
{
    struct wp_pool_spec *spec = &named[i].spec;

    (void)snprintf(spec->pool_namespace, sizeof spec->pool_namespace, "%s",
                   pool_namespace);
    (void)snprintf(spec->name, sizeof spec->name, "%s", name);
    named[i].pool_namespace = wp_str_from(spec->pool_namespace);
    named[i].name = wp_str_from(spec->name);
}

static uint32_t
bucket_of(uint32_t i)
{
    for (uint32_t k = 0; k < WP_NAME_BUCKETS; k++) {
        if (atomic_load(&pools.by_name[k]) == i + 1) {
            return k;
        }
    }
    return UINT32_MAX;
}

static bool
is_found(uint32_t i)
{
    struct wp_pool *found =
        wp_pools_find(&pools, named[i].pool_namespace, named[i].name);

    assert_true(found == NULL || found == &named[i]);
    return found != NULL;
}

/* How many buckets in a row are in use, at most. */
static uint32_t
longest_row(void)
{
    uint32_t longest = 0;
    uint32_t row = 0;

    for (uint32_t k = 0; k < WP_NAME_BUCKETS; k++) {
        row = atomic_load(&pools.by_name[k]) != 0 ? row + 1 : 0;
        longest = row > longest ? row : longest;
    }
    return longest;
}

static uint32_t
in_use(void)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < WP_NAME_BUCKETS; k++) {
        n += atomic_load(&pools.by_name[k]) != 0;
    }
    return n;
}

/* after "=": the number stands there twice. */
static void
stand_apart(const char *before, const char *after, bool namespaces)
{
    for (uint32_t i = 0; i < NAMED; i++) {
        char text[40];

        (void)snprintf(text, sizeof text, "%s%02u%s", before, i, after);
        if (after[0] == '=') {
            (void)snprintf(text, sizeof text, "%s%02u--%02u", before, i, i);
        }
        name(i, namespaces ? text : "default", namespaces ? "p" : text);
        wp_pools_publish_name(&pools, &named[i]);
    }
    assert_int_equal(in_use(), NAMED);
    assert_in_range(longest_row(), 1, 4);
    for (uint32_t i = 0; i < NAMED; i++) {
        assert_true(is_found(i));
        wp_pools_remove_name(&pools, &named[i]);
        assert_false(is_found(i));
    }
    assert_int_equal(in_use(), 0);
}

/* Goal: who asks for one of many like names is not led past the others. */
static void
test_like_names_stand_apart(void **state)
{
    (void)state;
    stand_apart("team-", "", true);
    stand_apart("the-long-name-of-a-team-", "", true);
    stand_apart("t", "-x", true);
    stand_apart("t", "=", true);
    stand_apart("", "", true);
    stand_apart("a", "", true);
    stand_apart("", "a", true);
    stand_apart("abc", "", true);
    stand_apart("team-", "-in-production", true);
    stand_apart("a-customer-", "-agents", true);
    stand_apart("the-namespace-of-", "-is-longer", true);
    stand_apart("pool-", "", false);
    stand_apart("", "-the-pool", false);
    stand_apart("pool-", "-with-a-long-name", false);
}

/* Three pools whose names lead to that bucket. */
static void
name_three(uint32_t bucket)
{
    uint32_t n = 0;

    for (uint32_t i = 0; n < 3; i++) {
        struct wp_pool *pool = &named[n];
        char text[16];

        assert_true(i < 40 * WP_NAME_BUCKETS);
        (void)snprintf(text, sizeof text, "n%u", i);
        name(n, "default", text);
        wp_pools_publish_name(&pools, pool);
        n += bucket_of(n) == bucket ? 1 : 0;
        wp_pools_remove_name(&pools, pool);
    }
}

/* Goal: names that lead to one place are found behind each other, whichever
 * goes; what goes leaves a mark only where another one follows. */
static void
test_names_of_one_place(void **state)
{
    static const uint32_t places[] = {0, 77, WP_NAME_BUCKETS - 2,
                                      WP_NAME_BUCKETS - 1};

    (void)state;
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        uint32_t at[3];

        for (uint32_t i = 0; i < 3; i++) {
            at[i] = (places[p] + i) % WP_NAME_BUCKETS;
        }
        name_three(places[p]);
        for (uint32_t first = 0; first < 3; first++) {
            uint32_t second = (first + 1) % 3;
            uint32_t third = (first + 2) % 3;

            for (uint32_t i = 0; i < 3; i++) {
                wp_pools_publish_name(&pools, &named[i]);
                assert_int_equal(bucket_of(i), at[i]);
            }
            wp_pools_remove_name(&pools, &named[first]);
            assert_int_equal(atomic_load(&pools.by_name[at[first]]),
                             first < 2 ? REMOVED : 0);
            assert_false(is_found(first));
            assert_true(is_found(second));
            assert_true(is_found(third));
            wp_pools_remove_name(&pools, &named[second]);
            assert_false(is_found(second));
            assert_true(is_found(third));
            /* Marks before the third one, and it. */
            assert_int_equal(in_use(), third + 1);
            /* The first place that is free is taken. */
            wp_pools_publish_name(&pools, &named[second]);
            assert_int_equal(bucket_of(second), third == 0 ? at[1] : at[0]);
            assert_true(is_found(second));
            wp_pools_remove_name(&pools, &named[second]);
            wp_pools_remove_name(&pools, &named[third]);
            assert_int_equal(in_use(), 0);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_lines_are_reserved),
        cmocka_unit_test(test_what_is_refused_is_not_counted),
        cmocka_unit_test_setup_teardown(test_like_names_stand_apart,
                                        set_up_names, tear_down_names),
        cmocka_unit_test_setup_teardown(test_names_of_one_place, set_up_names,
                                        tear_down_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
