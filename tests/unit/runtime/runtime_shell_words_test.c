/* Splitting command lines as shlex.split does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/exec/shell_words.h"

/* line splits into the words, joined by '|', or fails with an error. */
static const struct {
    const char *line;
    const char *words; /* NULL: refused. */
    size_t count;
} cases[] = {
    {"", "", 0},
    {" \t\r\n ", "", 0},
    {"a", "a", 1},
    {"  a  b\tc\n", "a|b|c", 3},
    {"'a b' c", "a b|c", 2},
    {"\"a b\" c", "a b|c", 2},
    {"''", "", 1},
    {"'' \"\" ''", "||", 3},
    {"a''b", "ab", 1},
    {"a'b c'd", "ab cd", 1},
    {"a\\ b", "a b", 1},
    {"\\'a", "'a", 1},
    {"\\\\", "\\", 1},
    {"'\\'", "\\", 1},
    {"\"\\\"\"", "\"", 1},
    {"\"\\\\\"", "\\", 1},
    {"\"\\n\"", "\\n", 1},
    {"\"it's\"", "it's", 1},
    {"'say \"x\"'", "say \"x\"", 1},
    {"a#b # c", "a#b|#|c", 3},
    {"$HOME *.c | cat > f; ls", "$HOME|*.c|||cat|>|f;|ls", 7},
    {"a b c d e f g h", "a|b|c|d|e|f|g|h", 8},
    {"caf\xc3\xa9 \xff", "caf\xc3\xa9|\xff", 2},
    {"'open", NULL, 0},
    {"\"open", NULL, 0},
    {"\"open\\\"", NULL, 0},
    {"end\\", NULL, 0},
};

static void
splits_like_a_shell(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_shell_words words;
        struct wp_err err;
        char joined[256] = "";
        enum wp_status status =
            wp_shell_words_split(wp_str_from(cases[i].line), &words, &err);

        if (cases[i].words == NULL) {
            assert_int_equal(status, WP_INVALID_ARGUMENT);
            continue;
        }
        assert_int_equal(status, WP_OK);
        assert_int_equal(words.count, cases[i].count);
        for (size_t w = 0; w < words.count; w++) {
            strcat(joined, w > 0 ? "|" : "");
            strcat(joined, words.argv[w]);
        }
        assert_string_equal(joined, cases[i].words);
        assert_null(words.argv[words.count]);
        wp_shell_words_free(&words);
    }
}

static void
says_what_is_missing(void **state)
{
    struct wp_shell_words words;
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_shell_words_split(WP_STR("'a"), &words, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "No closing quotation");
    assert_int_equal(wp_shell_words_split(WP_STR("a\\"), &words, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "No escaped character");
    assert_int_equal(wp_shell_words_split(WP_STR("a\0b"), &words, &err),
                     WP_INVALID_ARGUMENT);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_like_a_shell),
        cmocka_unit_test(says_what_is_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
