/* Repositories as claims name them: one spelling, and nothing that leads
 * elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "pool/remotes/remote.h"
#include "pool/remotes/remote_word.h"

static void
test_one_spelling(void **state)
{
    static const char *const rows[][2] = {
        {"https://example.org/a/b", "https://example.org/a/b"},
        {"https://EXAMPLE.org.:443/a/b.git/", "https://example.org/a/b.git"},
        {"https://example.org:8443/.github",
         "https://example.org:8443/.github"},
        {"http://127.1/x", "http://127.0.0.1/x"},
        {"http://0x7f000001:80/x", "http://127.0.0.1/x"},
        {"https://[::1]/x", "https://[::1]/x"},
        {"https://[::ffff:10.0.0.1]:444/x", "https://10.0.0.1:444/x"},
        {"http://h:443/~me/a+b-c_d", "http://h:443/~me/a+b-c_d"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        char url[WP_REMOTE_URL_MAX + 1];
        struct wp_remote remote;
        const char *why = "";

        assert_true(wp_remote_parse(wp_str_from(rows[i][0]), &remote, &why));
        assert_true(wp_remote_url(&remote, url));
        assert_string_equal(url, rows[i][1]);
    }
}

static void
test_refused(void **state)
{
    static const char *const urls[] = {
        "",
        "https://",
        "https://example.org",
        "https://example.org/",
        "https:///a",
        "HTTPS://example.org/a",
        "file:///etc/passwd",
        "ssh://git@example.org/a",
        "git@example.org:a",
        "ext::sh -c true",
        "https://me@example.org/a",
        "https://me:pw@example.org/a",
        "https://example.org@evil.example/a",
        "https://example.org\\@evil.example/a",
        "https://example.org:0/a",
        "https://example.org:65536/a",
        "https://example.org:443:443/a",
        "https://exa mple.org/a",
        "https://-example.org/a",
        "https://1.2.3.4.5/a",
        "https://example.org/a//b",
        "https://example.org/../a",
        "https://example.org/a/..",
        "https://example.org/./a",
        "https://example.org/a/.",
        "https://example.org/%2e%2e/a",
        "https://example.org/a?b",
        "https://example.org/a#b",
        "https://example.org/a@b",
        "https://example.org/a:b",
        "https://example.org/a\nb",
        "https://example.org/a b",
        "https://example.org/\xC3\xA4",
        " https://example.org/a",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(urls); i++) {
        struct wp_remote remote;
        const char *why = "";

        assert_false(wp_remote_parse(wp_str_from(urls[i]), &remote, &why));
        assert_string_not_equal(why, "");
    }
}

static void
test_bounds(void **state)
{
    char url[WP_REMOTE_URL_MAX + 2] = "http://1.1/";
    struct wp_remote remote;
    const char *why = "";
    char out[WP_REMOTE_URL_MAX + 1];

    (void)state;
    memset(url + strlen(url), 'a', sizeof url - 1 - strlen(url));
    url[sizeof url - 1] = '\0';
    assert_false(wp_remote_parse(wp_str_from(url), &remote, &why));
    url[sizeof url - 2] = '\0';
    assert_true(wp_remote_parse(wp_str_from(url), &remote, &why));
    /* The one spelling of its host is longer. */
    assert_false(wp_remote_url(&remote, out));
}

static void
test_refs(void **state)
{
    static const char *const good[] = {
        "main", "v1.2.3", "feat/x-1", "refs/pull/1/head", "a@b", "#1", "x.y",
    };
    static const char *const bad[] = {
        "",       "-x",       "--upload-pack=x",
        "a..b",   "a b",      "a:b",
        "a~1",    "a^",       "a?",
        "a*",     "[a]",      "a\\b",
        "/a",     "a/",       "a//b",
        ".a",     "a/.b",     "a.",
        "a./b",   "@",        "a@{1}",
        "x.lock", "x.lock/y", "a\"b",
        "a\nb",   "\xC3\xA4",
    };
    char longest[WP_GIT_REF_MAX + 2];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(good); i++) {
        assert_true(wp_git_ref_is_valid(wp_str_from(good[i])));
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        assert_false(wp_git_ref_is_valid(wp_str_from(bad[i])));
    }
    memset(longest, 'a', sizeof longest);
    assert_true(wp_git_ref_is_valid((struct wp_str){longest, WP_GIT_REF_MAX}));
    assert_false(
        wp_git_ref_is_valid((struct wp_str){longest, WP_GIT_REF_MAX + 1}));
}

static void
test_words(void **state)
{
    static const char *const rows[][4] = {
        {"https://h/a", "https://h/a", "", ""},
        {"https://h:1/a@v1", "https://h:1/a", "v1", ""},
        {"https://h/a:d/e", "https://h/a", "", "d/e"},
        {"https://h:1/a/b.git@f/x:d", "https://h:1/a/b.git", "f/x", "d"},
        {"https://h/a@u@v:.", "https://h/a", "u@v", ""},
        {"https://me@h/a", "https://me@h/a", "", ""},
    };
    static const char *const bad[] = {"",
                                      "a",
                                      "https://h",
                                      "https://h/a@",
                                      "https://h/a@:d",
                                      "https://h/a:",
                                      "https://h/a@r:"};
    struct wp_remote_word word;
    const char *why = "";

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_true(wp_remote_word_parse(rows[i][0], &word, &why));
        assert_true(wp_str_is(word.url, rows[i][1]));
        assert_true(wp_str_is(word.ref, rows[i][2]));
        assert_true(wp_str_is(word.dir, rows[i][3]));
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        assert_false(wp_remote_word_parse(bad[i], &word, &why));
        assert_string_not_equal(why, "");
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_spelling), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bounds),       cmocka_unit_test(test_refs),
        cmocka_unit_test(test_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
