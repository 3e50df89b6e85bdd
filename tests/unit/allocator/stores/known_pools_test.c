/* The file of pools that may have leases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/stores/known_pools.h"

static void
reads_what_it_wrote(void **state)
{
    const struct wp_known_pool wrote[] = {{"default", "a"}, {"team", "b-1"}};
    struct wp_known_pool pools[4];
    struct wp_err err = {.msg = ""};
    char dir[] = "/tmp/wp-known-XXXXXX";
    char path[64];
    uint32_t n = 7;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/pools", dir);
    assert_int_equal(wp_known_pools_read(path, pools, 4, &n, &err), WP_OK);
    assert_int_equal(n, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(wp_known_pools_write(path, wrote, 2, &err), WP_OK);
        assert_int_equal(wp_known_pools_read(path, pools, 4, &n, &err), WP_OK);
        assert_int_equal(n, 2);
        assert_string_equal(pools[1].pool_namespace, "team");
        assert_string_equal(pools[1].pool, "b-1");
    }
    assert_int_equal(wp_known_pools_read(path, pools, 1, &n, &err),
                     WP_FAILED_PRECONDITION);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(wp_known_pools_write(path, wrote, 2, &err),
                     WP_FAILED_PRECONDITION);
    assert_non_null(strstr(err.msg, path));
}

static void
refuses_what_is_no_pool(void **state)
{
    static const char *const texts[] = {
        "a", "a/", "/a", "a/b/c", "A/b", "a/b\n\nc/d", "a/b c", "a/..",
    };
    struct wp_known_pool pools[4];
    uint32_t n;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_false(wp_known_pools_parse(wp_str_from(texts[i]), pools, 4, &n));
    }
    assert_true(wp_known_pools_parse(WP_STR("a/b\na/b\nc/d"), pools, 2, &n));
    assert_int_equal(n, 2);
    assert_true(wp_known_pools_parse(WP_STR(""), pools, 2, &n));
    assert_int_equal(n, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_it_wrote),
        cmocka_unit_test(refuses_what_is_no_pool),
    };

    return cmocka_run_group_tests_name("known_pools", tests, NULL, NULL);
}
