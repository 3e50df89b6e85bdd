/* What git lists, and what it says when it fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdint.h>

#include <cmocka.h>

#include "local/fetch/git.h"
#include "local/fetch/listing.h"
#include "pool/base/compiler.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "ggggggggggggggggggggggggggggggggggggggg0"

static void
test_refs(void **state)
{
    const struct wp_str listing = WP_STR(
        "ref: refs/heads/main\tHEAD\n" A "\tHEAD\n" A "\trefs/x/refs/heads/y\n"
        "short\trefs/heads/y\n" B "\trefs/heads/y\n" B "0\trefs/heads/long\n"
        "abc\trefs/heads/short\n" C "\trefs/heads/odd\n"
        "no tab\n" A "\trefs/tags/v1\n" B "\trefs/tags/v1^{}");
    char commit[WP_COMMIT_LEN + 1];
    char head[WP_REF_NAME_MAX + 1];

    (void)state;
    assert_true(wp_listing_commit(listing, "refs/heads/y", commit));
    assert_string_equal(commit, B);
    assert_true(wp_listing_commit(listing, "HEAD", commit));
    assert_string_equal(commit, A);
    assert_true(wp_listing_commit(listing, "refs/tags/v1^{}", commit));
    assert_string_equal(commit, B);
    assert_false(wp_listing_commit(listing, "refs/heads/long", commit));
    assert_false(wp_listing_commit(listing, "refs/heads/short", commit));
    assert_false(wp_listing_commit(listing, "refs/heads/odd", commit));
    assert_false(wp_listing_commit(listing, "refs/heads/", commit));
    assert_false(wp_listing_commit(WP_STR(""), "HEAD", commit));
    assert_true(wp_listing_head(listing, head));
    assert_string_equal(head, "refs/heads/main");
    assert_false(wp_listing_head(WP_STR(A "\tHEAD\n"), head));
}

/* As long as a name may be; a longer one is none. */
static void
test_longest_head(void **state)
{
    char head[WP_REF_NAME_MAX + 1];
    char name[WP_REF_NAME_MAX + 2];
    char listing[300];

    (void)state;
    memset(name, 'n', sizeof name);
    for (int len = WP_REF_NAME_MAX - 1; len <= WP_REF_NAME_MAX + 1; len++) {
        int n =
            snprintf(listing, sizeof listing, "ref: %.*s\tHEAD\n", len, name);

        assert_int_equal(
            wp_listing_head((struct wp_str){listing, (size_t)n}, head),
            len <= WP_REF_NAME_MAX);
        if (len <= WP_REF_NAME_MAX) {
            assert_int_equal(strlen(head), len);
            assert_memory_equal(head, name, (size_t)len);
        }
    }
}

static void
test_sums(void **state)
{
    static const char listing[] = "100644 blob " A "      12\ta b\0"
                                  "160000 commit " B "       -\ts\tu\0"
                                  "100755 blob " A "   30000\tx/y\n";
    struct wp_listing_sum whole = {.files = 0};
    struct wp_listing_sum pieces = {.files = 0};

    (void)state;
    assert_true(wp_listing_add(&whole, listing, sizeof listing));
    assert_int_equal(whole.files, 3);
    assert_int_equal(whole.bytes, 30012);
    for (size_t i = 0; i < sizeof listing; i++) {
        assert_true(wp_listing_add(&pieces, listing + i, 1));
    }
    assert_memory_equal(&pieces, &whole, sizeof whole);
}

/* No sum is so large that it could not be added to. */
static void
test_largest_sum(void **state)
{
    static const char large[] = "100644 blob " A " 4611686018427387899\tx\0"
                                "100644 blob " A " 5\ty";
    static const char one[] = "100644 blob " A " 1\tz";
    struct wp_listing_sum sum = {.files = 0};

    (void)state;
    assert_true(wp_listing_add(&sum, large, sizeof large));
    assert_true(sum.bytes == UINT64_C(1) << 62);
    assert_false(wp_listing_add(&sum, one, sizeof one));
    assert_int_equal(sum.files, 2);
}

static void
test_bad_sums(void **state)
{
    static const char *const bad[] = {
        "100644 blob\tx",
        "100644 blob " A " 1x\ty",
        "100644 blob " A " 12 34\ty",
        "100644 blob " A " \ty",
        "100644 blob " A " 12 \ty",
        "100644 blob " A " 18446744073709551617\ty", /* 1, were it cut. */
        "100644 blob " A " 99999999999999999999\ty",
        "\t",
        "100644\nblob",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        struct wp_listing_sum sum = {.files = 0};

        assert_false(wp_listing_add(&sum, bad[i], strlen(bad[i])));
    }
}

static void
test_error_lines(void **state)
{
    static const char *const rows[][2] = {
        {"warning: a\nfatal: b\nerror: c\nhint: d\n", "b"},
        {"error: c\nhint: d\n", "c"},
        {"one\ntwo", "two"},
        {"fatal: a\nfatal: b\n\n", "b"},
        {"fatal: \x1b[31mred\n", "?[31mred"},
        {"\n\n", ""},
        {"error: a\nfatal: b", "b"},
        {"error: a\none\nerror: b\ntwo", "b"},
        {"one\ntwo\n", "two"},
        /* Nothing behind it: no mark. */
        {"fatal: \none\n", "one"},
        {"one\nerror: ", "error: "},
        {"fatal: x\nfatal: \n", "x"},
        {" ~\x1f\x7f\xff\t", " ~????"},
        {"", ""},
    };
    char line[WP_GIT_ERROR_MAX];
    char longest[2 * WP_GIT_ERROR_MAX];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        wp_git_error_line(rows[i][0], strlen(rows[i][0]), line);
        assert_string_equal(line, rows[i][1]);
    }
    memset(longest, 'x', sizeof longest);
    wp_git_error_line(longest, sizeof longest, line);
    assert_int_equal(strlen(line), WP_GIT_ERROR_MAX - 1);
    wp_git_error_line(longest, WP_GIT_ERROR_MAX, line);
    assert_int_equal(strlen(line), WP_GIT_ERROR_MAX - 1);
    wp_git_error_line(longest, WP_GIT_ERROR_MAX - 1, line);
    assert_int_equal(strlen(line), WP_GIT_ERROR_MAX - 1);
    wp_git_error_line(longest, WP_GIT_ERROR_MAX - 2, line);
    assert_int_equal(strlen(line), WP_GIT_ERROR_MAX - 2);
    /* The mark is none of it. */
    memcpy(longest, "fatal: ", 7);
    for (size_t len = WP_GIT_ERROR_MAX - 8; len < WP_GIT_ERROR_MAX + 2; len++) {
        wp_git_error_line(longest, 7 + len, line);
        assert_int_equal(strlen(line),
                         len < WP_GIT_ERROR_MAX ? len : WP_GIT_ERROR_MAX - 1);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refs),     cmocka_unit_test(test_longest_head),
        cmocka_unit_test(test_sums),     cmocka_unit_test(test_largest_sum),
        cmocka_unit_test(test_bad_sums), cmocka_unit_test(test_error_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
