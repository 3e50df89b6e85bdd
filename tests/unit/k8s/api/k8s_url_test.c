/* Paths and queries: what is escaped, what is refused, what does not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "k8s/api/url.h"

/* All that is not unreserved is escaped, bytes beyond ASCII too. */
static void
escapes(void **state)
{
    char out[256];
    struct wp_url url;

    (void)state;
    wp_url_begin(&url, out, sizeof out);
    wp_url_segment(&url, WP_STR("apis"));
    wp_url_segment(&url, WP_STR("a/b c"));
    wp_url_param(&url, "labelSelector", WP_STR("a=b,c in (d)&e\xC3\xA9%"));
    wp_url_param_u64(&url, "limit", UINT64_MAX);
    assert_true(wp_url_end(&url));
    assert_string_equal(out, "/apis/a%2Fb%20c?labelSelector=a%3Db%2Cc%20in%20"
                             "%28d%29%26e%C3%A9%25&limit=18446744073709551615");
}

/* A name from outside must not lead to another object. */
static void
no_segments(void **state)
{
    static const char *const bad[] = {"", ".", ".."};
    char out[64];
    struct wp_url url;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        wp_url_begin(&url, out, sizeof out);
        wp_url_segment(&url, WP_STR("pods"));
        wp_url_segment(&url, wp_str_from(bad[i]));
        wp_url_segment(&url, WP_STR("status"));
        assert_false(wp_url_end(&url));
        assert_string_equal(out, "");
    }
    wp_url_begin(&url, out, sizeof out);
    wp_url_segment(&url, WP_STR("..."));
    assert_true(wp_url_end(&url));
}

/* At every size: whole, or refused and empty; never cut, never overrun. */
static void
bounded(void **state)
{
    static const char whole[] = "/pods/x%20y?k=%2F";
    char out[64];
    struct wp_url url;

    (void)state;
    for (size_t cap = 1; cap < sizeof out; cap++) {
        memset(out, '#', sizeof out);
        wp_url_begin(&url, out, cap);
        wp_url_segment(&url, WP_STR("pods"));
        wp_url_segment(&url, WP_STR("x y"));
        wp_url_param(&url, "k", WP_STR("/"));
        if (wp_url_end(&url)) {
            assert_true(cap >= sizeof whole);
            assert_string_equal(out, whole);
        } else {
            assert_true(cap < sizeof whole);
            assert_string_equal(out, "");
        }
        assert_int_equal(out[cap], '#');
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes),
        cmocka_unit_test(no_segments),
        cmocka_unit_test(bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
