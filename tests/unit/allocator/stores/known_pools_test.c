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

/* Names at their longest, and one too long. */
static void
test_how_long_names_are(void **state)
{
    static const struct {
        size_t ns;
        size_t name;
        bool ok;
    } lens[] = {
        {1, 1, true},
        {WP_NAMESPACE_MAX, WP_POOL_NAME_MAX, true},
        {WP_NAMESPACE_MAX + 1, 1, false},
        {1, WP_POOL_NAME_MAX + 1, false},
    };
    struct wp_known_pool pools[1];
    uint32_t n;

    (void)state;
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        char text[WP_NAMESPACE_MAX + WP_POOL_NAME_MAX + 4];

        memset(text, 'a', sizeof text);
        text[lens[i].ns] = '/';
        text[lens[i].ns + 1 + lens[i].name] = '\0';
        memset(pools, 0, sizeof pools);
        assert_int_equal(wp_known_pools_parse(wp_str_from(text), pools, 1, &n),
                         lens[i].ok);
        assert_int_equal(n, lens[i].ok);
        assert_int_equal(strlen(pools[0].pool_namespace),
                         lens[i].ok ? lens[i].ns : 0);
        assert_int_equal(strlen(pools[0].pool), lens[i].ok ? lens[i].name : 0);
    }
    /* The same name elsewhere is another pool. */
    assert_false(wp_known_pools_parse(WP_STR("a/b\nc/b"), pools, 1, &n));
    assert_false(wp_known_pools_parse(WP_STR("a/b\na/c"), pools, 1, &n));
}

static void
test_what_the_file_may_be(void **state)
{
    const struct wp_known_pool wrote[] = {{"default", "a"}, {"team", "b-1"}};
    static char text[WP_KNOWN_POOLS_FILE_MAX + 1];
    struct wp_err err = {.msg = ""};
    struct wp_known_pool pools[2];
    char dir[] = "/tmp/wp-known-XXXXXX";
    char expected[200];
    char path[64];
    uint32_t n = 7;
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/pools", dir);
    assert_int_equal(wp_known_pools_write(path, wrote, 2, &err), WP_OK);
    file = fopen(path, "re");
    assert_non_null(file);
    n = (uint32_t)fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[n] = '\0';
    assert_string_equal(text, "default/a\nteam/b-1\n");

    for (size_t i = 0; i + 4 < sizeof text; i += 4) {
        memcpy(text + i, "a/b\n", 4);
    }
    for (size_t less = 0; less < 2; less++) {
        file = fopen(path, "we");
        assert_non_null(file);
        (void)fwrite(text, 1, WP_KNOWN_POOLS_FILE_MAX - less, file);
        (void)fclose(file);
        assert_int_equal(wp_known_pools_read(path, pools, 2, &n, &err),
                         less == 0 ? WP_FAILED_PRECONDITION : WP_OK);
        assert_int_equal(n, less);
    }
    (void)snprintf(expected, sizeof expected,
                   "'%s': expected NAMESPACE/POOL on each line", path);
    assert_string_equal(err.msg, expected);
    assert_int_equal(unlink(path), 0);

    n = 7;
    assert_int_equal(wp_known_pools_read(dir, pools, 2, &n, &err),
                     WP_FAILED_PRECONDITION);
    assert_int_equal(n, 0);
    (void)snprintf(expected, sizeof expected,
                   "cannot read '%s': Is a directory", dir);
    assert_string_equal(err.msg, expected);
    assert_int_equal(wp_known_pools_write(dir, wrote, 2, &err), WP_UNAVAILABLE);
    (void)snprintf(expected, sizeof expected,
                   "cannot write '%s': Is a directory", dir);
    assert_string_equal(err.msg, expected);
    (void)snprintf(path, sizeof path, "%s.%d", dir, (int)getpid());
    assert_int_equal(access(path, F_OK), -1); /* Nothing is left of it. */
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(wp_known_pools_write("/none/at-all", wrote, 2, &err),
                     WP_FAILED_PRECONDITION);
    (void)snprintf(expected, sizeof expected,
                   "cannot make '/none/at-all.%d': No such file or directory",
                   (int)getpid());
    assert_string_equal(err.msg, expected);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_it_wrote),
        cmocka_unit_test(refuses_what_is_no_pool),
        cmocka_unit_test(test_how_long_names_are),
        cmocka_unit_test(test_what_the_file_may_be),
    };

    return cmocka_run_group_tests_name("known_pools", tests, NULL, NULL);
}
