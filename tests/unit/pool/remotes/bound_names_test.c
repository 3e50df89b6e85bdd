/* Names and paths that a claim may bring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "pool/limits.h"
#include "pool/remotes/names.h"

static void
test_paths(void **state)
{
    static const char *const good[] = {"a", "a/b", "...", "..a", "a/.b", "-"};
    static const char *const bad[] = {"",     "/",    ".",     "..",
                                      "a/",   "/a",   "a//b",  "a/./b",
                                      "../a", "a/..", "a/../b"};
    char longest[WP_BOUND_COMPONENT_MAX + 2];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(good); i++) {
        assert_true(wp_bound_name_is_path(wp_str_from(good[i])));
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        assert_false(wp_bound_name_is_path(wp_str_from(bad[i])));
    }
    /* What the kernel would read as "..", or as "a". */
    assert_false(wp_bound_name_is_path(WP_STR("..\0/x")));
    assert_false(wp_bound_name_is_path(WP_STR("a\0b")));
    memset(longest, 'x', sizeof longest);
    assert_true(wp_bound_name_is_path(
        (struct wp_str){longest, WP_BOUND_COMPONENT_MAX}));
    assert_false(wp_bound_name_is_path(
        (struct wp_str){longest, WP_BOUND_COMPONENT_MAX + 1}));
}

static void
test_names(void **state)
{
    char name[WP_VOLUME_NAME_MAX + 1];

    (void)state;
    assert_true(wp_bound_name_is_env(WP_STR("_A1")));
    assert_false(wp_bound_name_is_env(WP_STR("1A")));
    assert_false(wp_bound_name_is_env(WP_STR("A=B")));
    assert_false(wp_bound_name_is_env(WP_STR("A\0")));
    assert_false(wp_bound_name_is_env(WP_STR("")));
    assert_true(wp_bound_name_is_secret(WP_STR("tls.key-1")));
    assert_false(wp_bound_name_is_secret(WP_STR(".key")));
    assert_false(wp_bound_name_is_secret(WP_STR("-key")));
    assert_false(wp_bound_name_is_secret(WP_STR("a/b")));
    assert_false(wp_bound_name_is_secret(WP_STR("a\0")));
    assert_false(wp_bound_name_is_secret(WP_STR("")));
    memset(name, 'v', sizeof name);
    assert_true(
        wp_bound_name_is_volume((struct wp_str){name, WP_VOLUME_NAME_MAX}));
    assert_false(
        wp_bound_name_is_volume((struct wp_str){name, WP_VOLUME_NAME_MAX + 1}));
}

/* Goal: each byte is allowed where it is harmless, and the longest name is. */
static void
test_characters(void **state)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyz_"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char digits[] = "0123456789";
    static const char marks[] = ".-";
    char name[WP_BOUND_NAME_MAX + 1];

    (void)state;
    for (int c = 1; c < 256; c++) {
        const char one[] = {(char)c};
        const char second[] = {'x', (char)c};
        bool is_word = strchr(word, c) != NULL;
        bool is_digit = strchr(digits, c) != NULL;
        bool is_mark = strchr(marks, c) != NULL;

        assert_int_equal(wp_bound_name_is_env((struct wp_str){one, 1}),
                         is_word);
        assert_int_equal(wp_bound_name_is_env((struct wp_str){second, 2}),
                         is_word || is_digit);
        assert_int_equal(wp_bound_name_is_secret((struct wp_str){one, 1}),
                         is_word || is_digit);
        assert_int_equal(wp_bound_name_is_secret((struct wp_str){second, 2}),
                         is_word || is_digit || is_mark);
    }
    memset(name, 'n', sizeof name);
    assert_true(wp_bound_name_is_env((struct wp_str){name, WP_BOUND_NAME_MAX}));
    assert_false(
        wp_bound_name_is_env((struct wp_str){name, WP_BOUND_NAME_MAX + 1}));
    assert_true(
        wp_bound_name_is_secret((struct wp_str){name, WP_BOUND_NAME_MAX}));
    assert_false(
        wp_bound_name_is_secret((struct wp_str){name, WP_BOUND_NAME_MAX + 1}));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
