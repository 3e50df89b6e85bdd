/* Text cut into parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "pool/base/str.h"

static void
blanks_around_go(void **state)
{
    (void)state;
    assert_true(wp_str_is(wp_str_trim(WP_STR(" \t a b\r\n")), "a b"));
    assert_true(wp_str_is(wp_str_trim(WP_STR("a")), "a"));
    assert_int_equal(wp_str_trim(WP_STR(" \n")).len, 0);
    assert_int_equal(wp_str_trim((struct wp_str){NULL, 0}).len, 0);
}

static void
cuts_at_the_first_mark(void **state)
{
    struct wp_str rest = WP_STR("a,,b,");
    struct wp_str none = {NULL, 0};
    struct wp_str head;

    (void)state;
    assert_true(wp_str_cut(&rest, ',', &head));
    assert_true(wp_str_is(head, "a") && wp_str_is(rest, ",b,"));
    assert_true(wp_str_cut(&rest, ',', &head));
    assert_true(wp_str_is(head, "") && wp_str_is(rest, "b,"));
    assert_true(wp_str_cut(&rest, ',', &head));
    assert_true(wp_str_is(head, "b") && wp_str_is(rest, ""));
    assert_false(wp_str_cut(&rest, ',', &head));
    assert_true(wp_str_is(head, "") && wp_str_is(rest, ""));
    rest = WP_STR("ab");
    assert_false(wp_str_cut(&rest, ',', &head));
    assert_true(wp_str_is(head, "ab") && wp_str_is(rest, ""));
    assert_false(wp_str_cut(&none, ',', &head));
    assert_true(head.len == 0 && none.len == 0);
}

static void
takes_words(void **state)
{
    struct wp_str rest = WP_STR(" one\ttwo  3 ");
    struct wp_str none = {NULL, 0};
    struct wp_str word;

    (void)state;
    assert_true(wp_str_word(&rest, &word) && wp_str_is(word, "one"));
    assert_true(wp_str_word(&rest, &word) && wp_str_is(word, "two"));
    assert_true(wp_str_word(&rest, &word) && wp_str_is(word, "3"));
    assert_false(wp_str_word(&rest, &word));
    assert_int_equal(word.len, 0);
    assert_false(wp_str_word(&none, &word));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blanks_around_go),
        cmocka_unit_test(cuts_at_the_first_mark),
        cmocka_unit_test(takes_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
