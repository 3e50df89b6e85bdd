/* Where Redis is, as people write it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "allocator/redis_url.h"

static void
test_reads(void **state)
{
    static const struct {
        const char *text;
        const char *host;
        uint16_t port;
        const char *path;
        const char *user;
        const char *password;
        int db;
    } cases[] = {
        {"redis://h", "h", 6379, "", "", "", 0},
        {"redis://127.0.0.1:7000/", "127.0.0.1", 7000, "", "", "", 0},
        {"redis://h:1/3", "h", 1, "", "", "", 3},
        {"redis://:s@h", "h", 6379, "", "", "s", 0},
        {"redis://me:a@b:c@h:2", "h", 2, "", "me", "a@b:c", 0},
        {"redis://me:a%40b%2fc@h", "h", 6379, "", "me", "a@b/c", 0},
        {"redis://[::1]", "::1", 6379, "", "", "", 0},
        {"redis://u:p@[fe80::1]:99/15", "fe80::1", 99, "", "u", "p", 15},
        {"unix:/run/redis.sock", "", 0, "/run/redis.sock", "", "", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wp_redis_url url;
        struct wp_err err = {.msg = ""};

        assert_int_equal(
            wp_redis_url_parse(wp_str_from(cases[i].text), &url, &err), WP_OK);
        assert_string_equal(url.server.host, cases[i].host);
        assert_int_equal(url.server.port, cases[i].port);
        assert_string_equal(url.server.path, cases[i].path);
        assert_string_equal(url.user, cases[i].user);
        assert_string_equal(url.password, cases[i].password);
        assert_int_equal(url.db, cases[i].db);
    }
}

/* Every refusal says what was expected and shows nothing of a secret. */
static void
test_refuses(void **state)
{
    static const char *const cases[] = {
        "",
        "h:1",
        "http://sesame@h",
        "redis://",
        "redis://:sesame@",
        "redis://sesame@h",
        "redis://u:sesame%@h",
        "redis://u:sesame%4@h",
        "redis://u:sesame%zz@h",
        "redis://u:sesame%00@h",
        "redis://u:sesame@h:0",
        "redis://u:sesame@h:65536",
        "redis://u:sesame@h:",
        "redis://u:sesame@h/x",
        "redis://u:sesame@h/65536",
        "redis://u:sesame@[::1",
        "redis://u:sesame@[::1]1",
        "redis://u:sesame@[]:1",
        "redis://h:sesame@",
        "rediss://u:sesame@h",
        "unix:",
        "unix:sesame",
    };
    char path[200] = "unix:/";

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wp_redis_url url;
        struct wp_err err = {.msg = ""};

        assert_int_equal(wp_redis_url_parse(wp_str_from(cases[i]), &url, &err),
                         WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, "expected "));
        assert_null(strstr(err.msg, "sesame"));
        assert_string_equal(url.password, "");
    }
    memset(path + 6, 'x', 110);
    assert_int_equal(wp_redis_url_parse(wp_str_from(path),
                                        &(struct wp_redis_url){.db = 0},
                                        &(struct wp_err){.msg = ""}),
                     WP_INVALID_ARGUMENT);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_refuses),
    };

    return cmocka_run_group_tests_name("redis_url", tests, NULL, NULL);
}
