/* Anybody's words, made fit for a text of protobuf: random bytes, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "pool/base/rng.h"
#include "pool/base/str.h"

static void
test_texts(void **state)
{
    const struct {
        struct wp_str text;
        const char *made;
    } rows[] = {
        {WP_STR(""), ""},
        {WP_STR("killed by SIGKILL"), "killed by SIGKILL"},
        {WP_STR("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
         "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {WP_STR("a\tb\x1b[1m\x7f"), "a?b?[1m?"},
        {WP_STR("a\0b"), "a?b"},
        {WP_STR("\xff\xfe"), "??"},
        {WP_STR("\xe2\x82"), "??"},
        {WP_STR("\xc3("), "?("},
        {WP_STR("\xed\xa0\x80"), "???"},
        {WP_STR("\x80\xc3\xa9"), "?\xc3\xa9"},
    };
    char out[64];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_string_equal(
            wp_str_make_printable(rows[i].text, out, sizeof out), rows[i].made);
    }
}

/* It is cut behind a whole character. */
static void
test_cuts(void **state)
{
    struct wp_str text = WP_STR("ab\xe2\x82\xac");
    char out[8];

    (void)state;
    assert_string_equal(wp_str_make_printable(text, out, 6), "ab\xe2\x82\xac");
    for (size_t cap = 3; cap < 6; cap++) {
        assert_string_equal(wp_str_make_printable(text, out, cap), "ab");
    }
    assert_string_equal(wp_str_make_printable(text, out, 2), "a");
    assert_string_equal(wp_str_make_printable(text, out, 1), "");
}

static void
test_any_bytes(void **state)
{
    struct wp_rng rng;

    (void)state;
    wp_rng_init(&rng, 1);
    for (int i = 0; i < 20000; i++) {
        char bytes[40];
        char out[24];
        size_t len = wp_rng_below(&rng, sizeof bytes + 1);
        bool fits = len < sizeof out;

        for (size_t j = 0; j < len; j++) {
            bytes[j] = (char)wp_rng_below(&rng, 256);
        }
        (void)wp_str_make_printable((struct wp_str){bytes, len}, out,
                                    sizeof out);
        assert_true(wp_str_is_printable(wp_str_from(out)));
        assert_true(!fits || strlen(out) == len);
        assert_true(fits || strlen(out) >= sizeof out - 4);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_any_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
