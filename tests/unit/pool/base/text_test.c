/* Texts: each byte and each sequence, what is shown of one, and words that were
 * nearly right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "pool/base/nearest.h"
#include "pool/base/str.h"

/* --- Characters --- */

static bool
is_of(int c, const char *set)
{
    return c != 0 && strchr(set, c) != NULL;
}

/* Goal: what a character may be for is known of each byte. */
static void
knows_each_byte(void **state)
{
    static const char lower[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    static const char hex[] = "0123456789abcdefABCDEF";

    (void)state;
    for (int c = 0; c < 256; c++) {
        char one[] = {(char)c};
        char inner[] = {'a', (char)c, 'a'};
        char pair[] = {'1', (char)c};
        char shown[WP_STR_SHOWN_MAX];
        char expected[] = {'a', (char)c, 'a', '\0'};
        struct wp_str word;
        struct wp_str rest = {inner, sizeof inner};
        uint8_t byte = 0;
        uint64_t number = 0;
        bool blank = is_of(c, " \t\r\n");
        bool ascii = c > 0 && c < 128;

        assert_int_equal(wp_str_is_dns_name((struct wp_str){one, 1}, 9),
                         is_of(c, lower));
        assert_int_equal(wp_str_is_dns_name((struct wp_str){inner, 3}, 9),
                         is_of(c, lower) || is_of(c, ".-"));
        assert_int_equal(wp_hex_decode((struct wp_str){pair, 2}, &byte, 1),
                         is_of(c, hex));
        if (is_of(c, hex)) {
            const char *at = strchr(hex, c);
            int value = (int)(at - hex);

            assert_int_equal(byte, 16 + (value < 16 ? value : value - 6));
        }
        pair[1] = pair[0];
        pair[0] = (char)c;
        assert_int_equal(wp_hex_decode((struct wp_str){pair, 2}, &byte, 1),
                         is_of(c, hex));
        assert_int_equal(wp_str_to_u64((struct wp_str){pair, 2}, &number),
                         is_of(c, "0123456789"));
        if (is_of(c, "0123456789")) {
            assert_int_equal(number, 10 * (c - '0') + 1);
        }
        assert_int_equal(wp_str_trim((struct wp_str){one, 1}).len,
                         blank ? 0 : 1);
        assert_true(wp_str_word(&rest, &word));
        assert_int_equal(word.len, blank ? 1 : 3);
        assert_int_equal(wp_str_is_utf8((struct wp_str){one, 1}), ascii);
        assert_int_equal(wp_str_is_printable((struct wp_str){one, 1}),
                         ascii && c >= ' ' && c != 0x7F);
        assert_int_equal(wp_str_char_len((struct wp_str){one, 1}), ascii);
        expected[1] = (char)(c >= ' ' && c <= '~' ? c : '?');
        assert_string_equal(wp_str_shown((struct wp_str){inner, 3}, shown),
                            expected);
    }
}

/* Is it one of the characters that RFC 3629 has, but for NUL? From its code
 * point, not from ranges of bytes. */
static bool
is_character(const unsigned char *p, size_t len)
{
    static const uint32_t least[] = {0, 1, 0x80, 0x800, 0x10000};
    static const unsigned char mark[] = {0, 0, 0xC0, 0xE0, 0xF0};
    uint32_t code;

    if (len == 1) {
        return p[0] > 0 && p[0] < 0x80;
    }
    if (p[0] < mark[len] || p[0] >= mark[len] + (0x80 >> len)) {
        return false;
    }
    code = p[0] - mark[len];
    for (size_t i = 1; i < len; i++) {
        if (p[i] < 0x80 || p[i] > 0xBF) {
            return false;
        }
        code = code << 6 | (p[i] - 0x80u);
    }
    return code >= least[len] && code <= 0x10FFFF &&
           (code < 0xD800 || code > 0xDFFF);
}

/* How long the first one is; 0: there is none. */
static size_t
first_character(const unsigned char *p, size_t len)
{
    for (size_t n = 1; n <= len && n <= 4; n++) {
        if (is_character(p, n)) {
            return n;
        }
    }
    return 0;
}

static bool
is_text(const unsigned char *p, size_t len)
{
    while (len > 0) {
        size_t n = first_character(p, len);

        if (n == 0) {
            return false;
        }
        p += n;
        len -= n;
    }
    return true;
}

/* Goal: each first byte is judged with each second one, and with a last one
 * from both sides of what may follow. */
static void
knows_each_sequence(void **state)
{
    static const unsigned char last[] = {0x7F, 0x80, 0xBF, 0xC0};

    (void)state;
    for (unsigned first = 0x80; first < 256; first++) {
        for (unsigned second = 0; second < 256; second++) {
            for (size_t len = 2; len <= 4; len++) {
                for (size_t k = 0; k < WP_ARRAY_LEN(last); k++) {
                    unsigned char p[4] = {(unsigned char)first,
                                          (unsigned char)second, 0x80, 0x80};
                    struct wp_str text = {(const char *)p, len};

                    p[len - 1] = len > 2 ? last[k] : p[1];
                    assert_int_equal(wp_str_is_utf8(text), is_text(p, len));
                    assert_int_equal(wp_str_char_len(text),
                                     first_character(p, len));
                }
            }
        }
    }
}

/* Goal: a text for a message is whole up to 63 bytes, and then ends in dots. */
static void
shows_what_fits(void **state)
{
    char text[WP_STR_SHOWN_MAX + 1];
    char shown[WP_STR_SHOWN_MAX];

    (void)state;
    memset(text, 'x', sizeof text);
    for (size_t len = 0; len <= sizeof text; len++) {
        char expected[WP_STR_SHOWN_MAX];

        memset(expected, 'x', sizeof expected);
        if (len < sizeof expected) {
            expected[len] = '\0';
        } else {
            memcpy(expected + sizeof expected - 4, "...", 4);
        }
        assert_ptr_equal(wp_str_shown((struct wp_str){text, len}, shown),
                         shown);
        assert_string_equal(shown, expected);
    }
    assert_string_equal(wp_str_shown((struct wp_str){NULL, 0}, shown), "");
}

static void
trims_both_ends(void **state)
{
    struct wp_str rest = WP_STR(" \t a b\r\nc  ");
    struct wp_str word;

    (void)state;
    assert_true(wp_str_is(wp_str_trim(rest), "a b\r\nc"));
    assert_true(wp_str_is(wp_str_trim(WP_STR(" \n ")), ""));
    assert_true(wp_str_word(&rest, &word) && wp_str_is(word, "a"));
    assert_true(wp_str_word(&rest, &word) && wp_str_is(word, "b"));
    assert_true(wp_str_word(&rest, &word) && wp_str_is(word, "c"));
    assert_false(wp_str_word(&rest, &word));
    assert_int_equal(word.len, 0);
}

/* --- Words that were nearly right --- */

static void
words_have_their_distance(void **state)
{
    static const struct {
        const char *a;
        const char *b;
        size_t distance;
    } rows[] = {
        {"", "", 0},
        {"a", "", 1},
        {"", "abc", 3},
        {"abc", "abc", 0},
        {"abc", "abd", 1},
        {"abc", "acb", 1},
        {"bac", "abc", 1},
        {"abcd", "badc", 2},
        {"abc", "ab", 1},
        {"ab", "ba", 1},
        {"kitten", "sitting", 3},
        {"abc", "cab", 2},
        {"abc", "xyz", 3},
        {"aab", "aba", 1},
        {"abab", "baba", 2},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_int_equal(
            wp_word_distance(wp_str_from(rows[i].a), wp_str_from(rows[i].b)),
            rows[i].distance);
        assert_int_equal(
            wp_word_distance(wp_str_from(rows[i].b), wp_str_from(rows[i].a)),
            rows[i].distance);
    }
}

/* Goal: a word is near with a third of its letters wrong, or when it goes on
 * where the typed one ends; of two that are as near, the first is meant. */
static void
words_are_near_to_a_bound(void **state)
{
    static const struct {
        const char *typed;
        const char *first;
        const char *second;
        const char *best; /* NULL: none. */
        size_t distance;
    } rows[] = {
        {"", "a", "b", NULL, 0},
        {"x", "a", "b", "a", 1},
        {"xy", "ab", "xb", "xb", 1},
        {"abcxyf", "abcdef", "none", "abcdef", 2},
        {"abxyzf", "abcdef", "none", NULL, 0},
        {"ab", "abcdefghi", "none", "abcdefghi", 3},
        {"a", "abcdefghi", "none", NULL, 0},
        {"ab", "abcdefghi", "abcd", "abcd", 1},
        {"abcd", "abce", "abcf", "abce", 1},
        {"abcd", "abxf", "abcf", "abcf", 1},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_nearest nearest;

        wp_nearest_init(&nearest, wp_str_from(rows[i].typed));
        wp_nearest_offer(&nearest, rows[i].first);
        wp_nearest_offer(&nearest, rows[i].second);
        if (rows[i].best == NULL) {
            assert_null(nearest.best);
            continue;
        }
        assert_non_null(nearest.best);
        assert_string_equal(nearest.best, rows[i].best);
        assert_int_equal(nearest.distance, rows[i].distance);
    }
}

static void
long_words_are_not_compared(void **state)
{
    char word[WP_NEAREST_WORD_MAX + 2];
    struct wp_nearest nearest;

    (void)state;
    memset(word, 'w', sizeof word);
    word[WP_NEAREST_WORD_MAX] = '\0';
    wp_nearest_init(&nearest, wp_str_from(word));
    wp_nearest_offer(&nearest, word);
    assert_ptr_equal(nearest.best, word);
    assert_int_equal(nearest.distance, 0);
    word[WP_NEAREST_WORD_MAX] = 'w';
    word[WP_NEAREST_WORD_MAX + 1] = '\0';
    nearest.best = NULL;
    wp_nearest_offer(&nearest, word);
    assert_null(nearest.best);
    wp_nearest_init(&nearest, wp_str_from(word));
    wp_nearest_offer(&nearest, word + 1);
    assert_null(nearest.best);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_each_byte),
        cmocka_unit_test(knows_each_sequence),
        cmocka_unit_test(shows_what_fits),
        cmocka_unit_test(trims_both_ends),
        cmocka_unit_test(words_have_their_distance),
        cmocka_unit_test(words_are_near_to_a_bound),
        cmocka_unit_test(long_words_are_not_compared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
