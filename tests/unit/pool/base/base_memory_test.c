/* What is made says so when memory or descriptors lack, and leaves what was
 * there as it was. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include <cmocka.h>

#include "pool/base/arena.h"
#include "pool/base/channel.h"
#include "pool/base/hash_index.h"

static bool memory_lacks;
static bool descriptors_lack;

enum {
    SECRETS = 2,
    SECRET_LEN = 100 << 10, /* Of a block of its own. */
};

/* Whoever frees something next has wiped these before. */
static const char *secrets[SECRETS];

void __real_free(void *memory);
void __wrap_free(void *memory);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);

void *
__wrap_calloc(size_t n, size_t size)
{
    return memory_lacks ? NULL : __real_calloc(n, size);
}

int
__wrap_eventfd(unsigned count, int flags)
{
    if (descriptors_lack) {
        errno = EMFILE;
        return -1;
    }
    return __real_eventfd(count, flags);
}

void
__wrap_free(void *memory)
{
    for (int i = 0; i < SECRETS; i++) {
        for (size_t k = 0; secrets[i] != NULL && k < SECRET_LEN; k++) {
            if (secrets[i][k] != 0) {
                fail_msg("byte %zu of secret %d", k, i);
            }
        }
        secrets[i] = NULL;
    }
    __real_free(memory);
}

static uint64_t
only_one_of(const struct wp_hash_index *index, uint64_t hash)
{
    uint64_t at = 0;
    uint64_t value = wp_hash_index_next(index, hash, &at);

    assert_int_equal(wp_hash_index_next(index, hash, &at), 0);
    return value;
}

/* Goal: an index that cannot grow keeps its entries, and grows later. */
static void
index_keeps_what_it_has(void **state)
{
    struct wp_hash_index index;
    const struct wp_hash_cell *cells;
    uint64_t mask;
    uint64_t n = 0;

    (void)state;
    memory_lacks = true;
    assert_false(wp_hash_index_init(&index, 1));
    memory_lacks = false;
    assert_true(wp_hash_index_init(&index, 1));
    cells = index.cells;
    mask = index.mask;
    /* What needs no memory is done without. */
    memory_lacks = true;
    while (wp_hash_index_reserve(&index, 1)) {
        n++;
        wp_hash_index_add(&index, 7 * n, n);
        assert_true(n <= mask);
    }
    assert_int_equal(n, (mask + 1) / 2);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(index.count, n);
        for (uint64_t i = 1; i <= n; i++) {
            assert_int_equal(only_one_of(&index, 7 * i), i);
        }
        if (round == 0) {
            assert_ptr_equal(index.cells, cells);
            assert_int_equal(index.mask, mask);
            memory_lacks = false;
            assert_true(wp_hash_index_reserve(&index, 1));
            assert_int_equal(index.mask, 2 * mask + 1);
        }
    }
    wp_hash_index_fini(&index);
}

/* Goal: a channel is there whole or not at all. */
static void
channel_is_whole_or_not_at_all(void **state)
{
    struct wp_channel channel;

    (void)state;
    memory_lacks = true;
    assert_false(wp_channel_init_sized(&channel, 4, 8));
    assert_false(wp_channel_init(&channel, 4));
    assert_null(channel.cells);
    wp_channel_fini(&channel); /* May follow all the same. */
    memory_lacks = false;
    descriptors_lack = true;
    assert_false(wp_channel_init(&channel, 4));
    assert_null(channel.cells);
    /* One of another kind has no descriptor. */
    assert_true(wp_channel_init_sized(&channel, 4, 8));
    assert_int_equal(wp_channel_fd(&channel), -1);
    wp_channel_fini(&channel);
    assert_null(channel.cells);
    wp_channel_fini(&channel);
    descriptors_lack = false;
}

/* Goal: a region that cannot grow keeps its bytes and what room it has. */
static void
region_keeps_what_it_has(void **state)
{
    struct wp_region region = {.blocks = NULL};
    char *first;
    char *small;

    (void)state;
    memory_lacks = true;
    assert_null(wp_region_alloc(&region, 1));
    assert_null(wp_region_str(&region, WP_STR("text")));
    assert_null(region.blocks);
    memory_lacks = false;
    first = wp_region_str(&region, WP_STR("first"));
    assert_non_null(first);
    memory_lacks = true;
    assert_null(wp_region_alloc(&region, 1 << 20));
    small = wp_region_str(&region, WP_STR("small"));
    assert_non_null(small);
    memory_lacks = false;
    assert_null(wp_region_alloc(&region, PTRDIFF_MAX));
    assert_string_equal(first, "first");
    assert_string_equal(small, "small");
    for (int round = 0; round < 2; round++) {
        /* With room left: that goes, too. */
        wp_region_free(&region);
        assert_null(region.blocks);
        assert_null(wp_arena_alloc(&region.last, 1));
        assert_non_null(wp_region_alloc(&region, 1));
    }
    wp_region_free(&region);
}

/* Goal: of secrets nothing is left where they were, in any block. */
static void
region_with_secrets_is_wiped(void **state)
{
    struct wp_region region = {.blocks = NULL};

    (void)state;
    for (int i = 0; i < SECRETS; i++) {
        char *held = wp_region_alloc(&region, SECRET_LEN);

        assert_non_null(held);
        memset(held, 's', SECRET_LEN);
        secrets[i] = held;
    }
    wp_region_wipe(&region);
    assert_null(secrets[0]);
    assert_null(region.blocks);
    assert_null(wp_arena_alloc(&region.last, 1));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(index_keeps_what_it_has),
        cmocka_unit_test(channel_is_whole_or_not_at_all),
        cmocka_unit_test(region_keeps_what_it_has),
        cmocka_unit_test(region_with_secrets_is_wiped),
    };

    return cmocka_run_group_tests_name("base_memory", tests, NULL, NULL);
}
