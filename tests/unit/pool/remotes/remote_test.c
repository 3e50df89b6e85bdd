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
#include "pool/remotes/repository.h"

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
        {"https://h:80/...", "https://h:80/..."},
        {"https://h:65535/..a/a..//", "https://h:65535/..a/a.."},
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
        "main",    "v1.2.3", "feat/x-1", "refs/pull/1/head",
        "a@b",     "#1",     "x.y",      "lock",
        "a.lock1", "xlock",  "a@",       "@a",
        "a/lock",  "a-",
    };
    static const char *const bad[] = {
        "",        "-x",       "--upload-pack=x",
        "a..b",    "a b",      "a:b",
        "a~1",     "a^",       "a?",
        "a*",      "[a]",      "a\\b",
        "/a",      "a/",       "a//b",
        ".a",      "a/.b",     "a.",
        "a./b",    "@",        "a@{1}",
        "x.lock",  "x.lock/y", "a\"b",
        "a\nb",    "\xC3\xA4", ".lock",
        "a/.lock", "a/b.lock", ".",
        "a...b",   "/",        "-",
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
    static const char whole[] = "URL[@REF][:DIR] expected, with a URL as "
                                "https://HOST/PATH";
    static const char ref[] = "a branch, a tag or a commit expected behind '@'";
    static const char dir[] = "a folder expected behind ':'";
    static const char *const bad[][2] = {
        {"", whole},
        {"a", whole},
        {"https://h", whole},
        {"https://h/a@", ref},
        {"https://h/a@:d", ref},
        {"https://h/a:", dir},
        {"https://h/a@r:", dir},
    };
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
        assert_false(wp_remote_word_parse(bad[i][0], &word, &why));
        assert_string_equal(why, bad[i][1]);
    }
}

/* Goal: of all bytes, only harmless ones are of a path or a ref. */
static void
test_characters(void **state)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    (void)state;
    for (int c = 0; c < 256; c++) {
        char url[] = "https://h/x?x";
        char ref[] = {'x', (char)c, 'x'};
        struct wp_remote remote;
        const char *why = "";
        bool is_letter = c != 0 && strchr(letters, c) != NULL;

        url[sizeof url - 3] = (char)c;
        assert_int_equal(wp_remote_parse((struct wp_str){url, sizeof url - 1},
                                         &remote, &why),
                         is_letter || (c != 0 && strchr("._~+-/", c) != NULL));
        assert_int_equal(wp_git_ref_is_valid((struct wp_str){ref, sizeof ref}),
                         is_letter || (c != 0 && strchr("._/+-=@#%", c)));
    }
}

/* Goal: a URL is told what it lacks. */
static void
test_reasons(void **state)
{
    static const char path[] = "a path of letters, digits and ._~+- expected, "
                               "without empty parts, '.' or '..'";
    static const struct {
        const char *url;
        const char *why;
    } rows[] = {
        {"", "a URL of 1 to 240 bytes expected"},
        {"ftp://h/a", "a URL that begins with https:// expected"},
        {"https://h", "https://HOST/PATH expected"},
        {"https://me@h/a", "a URL without a user or password expected"},
        {"https://h:0/a", "a port from 1 to 65535 was expected behind the "
                          "host"},
        {"https://h/", path},
        {"https://h//a", path},
        {"https://h/a/..", path},
        {"https://h/.", path},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_remote remote;
        const char *why = "";

        assert_false(wp_remote_parse(wp_str_from(rows[i].url), &remote, &why));
        assert_string_equal(why, rows[i].why);
    }
}

/* Goal: the longest path that a URL can have comes back whole, and the longest
 * URL is that long. */
static void
test_longest_url(void **state)
{
    char url[WP_REMOTE_URL_MAX + 1] = "https://h/";
    char longer[WP_REMOTE_URL_MAX + 1] = "https://[::1]:444/";
    char out[WP_REMOTE_URL_MAX + 1];
    struct wp_remote remote;
    const char *why = "";

    (void)state;
    memset(url + strlen(url), 'a', sizeof url - 1 - strlen(url));
    assert_true(wp_remote_parse(wp_str_from(url), &remote, &why));
    assert_true(wp_remote_url(&remote, out));
    assert_string_equal(out, url);
    memset(longer + strlen(longer), 'a', sizeof longer - 1 - strlen(longer));
    assert_true(wp_remote_parse(wp_str_from(longer), &remote, &why));
    assert_int_equal(remote.port, 444);
    assert_true(remote.tls);
    assert_true(wp_remote_url(&remote, out));
    assert_string_equal(out, longer);
}

/* Goal: nothing secret goes in clear but within this machine. */
static void
test_safe(void **state)
{
    static const struct {
        const char *url;
        bool safe;
    } rows[] = {
        {"https://h/a", true},         {"https://10.0.0.1/a", true},
        {"http://h/a", false},         {"http://10.0.0.1/a", false},
        {"http://127.0.0.1/a", true},  {"http://[::1]/a", true},
        {"http://localhost/a", false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_remote remote;
        const char *why = "";

        assert_true(wp_remote_parse(wp_str_from(rows[i].url), &remote, &why));
        assert_int_equal(wp_remote_is_safe(&remote), rows[i].safe);
    }
}

/* Goal: a repository is told which of its fields is wrong, and how. */
static void
test_repositories(void **state)
{
    char longest[WP_BINDING_PASSWORD_MAX + 1];
    char ref[WP_GIT_REF_MAX + 1];
    const struct wp_str url = WP_STR("https://h/a");
    const struct {
        struct wp_binding_repository it;
        const char *says; /* NULL: it is good. */
    } rows[] = {
        {{.url = url}, NULL},
        {{.url = WP_STR("http://h/a")}, NULL},
        {{.url = WP_STR("h")},
         "r.url: a URL that begins with https:// "
         "expected"},
        {{.url = url, .ref = WP_STR("v1")}, NULL},
        {{.url = url, .ref = {ref, WP_GIT_REF_MAX}}, NULL},
        {{.url = url, .ref = {ref, WP_GIT_REF_MAX + 1}},
         "r.ref: a branch, a tag or 40 hexadecimal digits expected, at most "
         "200 bytes"},
        {{.url = url, .password = {longest, WP_BINDING_PASSWORD_MAX}}, NULL},
        {{.url = url, .password = {longest, WP_BINDING_PASSWORD_MAX + 1}},
         "r.password: at most 1024 bytes without control characters expected"},
        {{.url = url, .password = WP_STR("a\nb")},
         "r.password: at most 1024 bytes without control characters expected"},
        {{.url = url,
          .user = {longest, WP_BINDING_USER_MAX},
          .password = WP_STR("p")},
         NULL},
        {{.url = url,
          .user = {longest, WP_BINDING_USER_MAX + 1},
          .password = WP_STR("p")},
         "r.user: at most 128 bytes without ':' and control characters "
         "expected"},
        {{.url = url, .user = WP_STR("a:b"), .password = WP_STR("p")},
         "r.user: at most 128 bytes without ':' and control characters "
         "expected"},
        {{.url = url, .user = WP_STR("a\tb"), .password = WP_STR("p")},
         "r.user: at most 128 bytes without ':' and control characters "
         "expected"},
        {{.url = url, .user = WP_STR("u")},
         "r.password: it is missing, with a user"},
        {{.url = WP_STR("http://h/a"), .password = WP_STR("p")},
         "r.password: it is not sent in clear; a url of https:// expected"},
        {{.url = WP_STR("http://127.0.0.1/a"), .password = WP_STR("p")}, NULL},
    };

    (void)state;
    memset(longest, 'p', sizeof longest);
    memset(ref, 'r', sizeof ref);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_err err = {.msg = ""};

        assert_int_equal(wp_repository_check(&rows[i].it, "r", &err),
                         rows[i].says == NULL ? WP_OK : WP_INVALID_ARGUMENT);
        assert_string_equal(err.msg, rows[i].says != NULL ? rows[i].says : "");
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_spelling),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_refs),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_characters),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_longest_url),
        cmocka_unit_test(test_safe),
        cmocka_unit_test(test_repositories),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
