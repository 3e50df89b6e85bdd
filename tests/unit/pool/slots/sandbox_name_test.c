/* Names of sandboxes: the slot is in them, and only its key finds it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "pool/slots/sandbox_name.h"

static const struct wp_hash_key key = {1, 2};

static void
test_there_and_back(void **state)
{
    static const uint32_t indexes[] = {0, 1, 12345, 1u << 19, WP_SLOTS_MAX - 1};
    static const uint32_t generations[] = {1, 2, 0x3FFF, 0x4000, UINT32_MAX};
    char longest[WP_POOL_NAME_MAX];
    char name[WP_SANDBOX_NAME_MAX + 1];

    (void)state;
    memset(longest, 'p', sizeof longest);
    for (size_t i = 0; i < WP_ARRAY_LEN(indexes); i++) {
        for (size_t k = 0; k < WP_ARRAY_LEN(generations); k++) {
            struct wp_slot_ref ref = {indexes[i], generations[k]};
            uint32_t index = 7;
            uint32_t other = 7;

            memset(name, 'x', sizeof name);
            wp_sandbox_name_make(key, WP_STR("pool"), ref, name);
            assert_int_equal(strlen(name), 4 + 1 + WP_SANDBOX_SUFFIX_LEN);
            assert_memory_equal(name, "pool-", 5);
            assert_int_equal(strspn(name + 5, "bcdfghjklmnpqrstvwxz2456789"),
                             WP_SANDBOX_SUFFIX_LEN);
            assert_true(wp_sandbox_name_index(key, wp_str_from(name), &index));
            assert_int_equal(index, indexes[i]);
            /* The pool's name is no part of it. */
            wp_sandbox_name_make(key, (struct wp_str){longest, sizeof longest},
                                 ref, name);
            assert_true(wp_sandbox_name_index(key, wp_str_from(name), &other));
            assert_int_equal(other, indexes[i]);
        }
    }
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Goal: no two slots or generations have one name, and nobody can tell one
 * name from the next. */
static void
test_all_differ(void **state)
{
    enum {
        EACH = 64,
    };
    static char names[EACH * EACH][WP_SANDBOX_NAME_MAX + 1];
    const struct wp_hash_key other = {1, 3};
    char name[WP_SANDBOX_NAME_MAX + 1];
    size_t n = 0;

    (void)state;
    for (uint32_t i = 0; i < EACH; i++) {
        for (uint32_t k = 1; k <= EACH; k++) {
            wp_sandbox_name_make(key, WP_STR("p"), (struct wp_slot_ref){i, k},
                                 names[n++]);
        }
    }
    wp_sandbox_name_make(other, WP_STR("p"), (struct wp_slot_ref){0, 1}, name);
    assert_string_not_equal(name, names[0]);
    qsort(names, n, sizeof names[0], by_name);
    for (size_t i = 1; i < n; i++) {
        assert_string_not_equal(names[i - 1], names[i]);
    }
}

static void
test_what_is_no_name(void **state)
{
    static const struct {
        const char *name;
        bool may_be;
    } rows[] = {
        {"", false},
        {"bbbbbbb", false},
        {"bbbbbbbb", false},
        {"-bbbbbbbb", false},
        {"p-bbbbbbbb", true},
        {"p-99999999", false},
        {"p-bbbbbbba", false},
        {"p-abbbbbbb", false},
        {"a-bbbbbbbb", true},
        {"p-bbbbbbb-", false},
        {"p-bbbbBbbb", false},
        {"p-bbb1bbbb", false},
        /* The greatest of 38 bits, and what is beyond. */
        {"p-f2qkzrk9", true},
        {"p-g2qkzrk9", false},
    };
    char longest[WP_SANDBOX_NAME_MAX + 1];
    uint32_t index;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_int_equal(
            wp_sandbox_name_index(key, wp_str_from(rows[i].name), &index),
            rows[i].may_be);
    }
    memset(longest, 'b', sizeof longest);
    assert_true(wp_sandbox_name_index(
        key, (struct wp_str){longest, WP_SANDBOX_NAME_MAX}, &index));
    assert_false(wp_sandbox_name_index(
        key, (struct wp_str){longest, WP_SANDBOX_NAME_MAX + 1}, &index));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_all_differ),
        cmocka_unit_test(test_what_is_no_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
