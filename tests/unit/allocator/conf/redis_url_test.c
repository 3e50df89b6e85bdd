/* Where Redis is, as people write it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "allocator/conf/redis_url.h"

static void
parse_ok(const char *text, struct wp_redis_url *url)
{
    struct wp_err err = {.msg = ""};

    if (wp_redis_url_parse(wp_str_from(text), url, &err) != WP_OK) {
        fail_msg("%s: %s", text, err.msg);
    }
}

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
        bool tls;
    } cases[] = {
        {"redis://h", "h", 6379, "", "", "", 0, false},
        {"redis://127.0.0.1:7000/", "127.0.0.1", 7000, "", "", "", 0, false},
        {"redis://h:1/3", "h", 1, "", "", "", 3, false},
        {"redis://:s@h", "h", 6379, "", "", "s", 0, false},
        {"redis://me:a@b:c@h:2", "h", 2, "", "me", "a@b:c", 0, false},
        {"redis://me:a%40b%2fc@h", "h", 6379, "", "me", "a@b/c", 0, false},
        {"redis://[::1]", "::1", 6379, "", "", "", 0, false},
        {"redis://[fe80::1%eth0]:2", "fe80::1%eth0", 2, "", "", "", 0, false},
        {"redis://u:p@[fe80::1]:99/15", "fe80::1", 99, "", "u", "p", 15, false},
        {"unix:/run/redis.sock", "", 0, "/run/redis.sock", "", "", 0, false},
        {"unix:///run/redis.sock", "", 0, "/run/redis.sock", "", "", 0, false},
        {"unix:/a%20b?db=7", "", 0, "/a b", "", "", 7, false},
        {"unix:///s?password=a@b%26c&user=me", "", 0, "/s", "me", "a@b&c", 0,
         false},
        {"redis://:%30%39%61%66%41%46%e9%4a%6A%01@h", "h", 6379, "", "",
         "09afAF\xe9Jj\x01", 0, false},
        {"redis://a-z.A_Z09/65535", "a-z.A_Z09", 6379, "", "", "", 65535,
         false},
        {"redis://h:65535", "h", 65535, "", "", "", 0, false},
        {"unix:/s?db=65535", "", 0, "/s", "", "", 65535, false},
        {"redis://me@h", "h", 6379, "", "me", "", 0, false},
        {"unix:/s?user=me", "", 0, "/s", "me", "", 0, false},
        {"rediss://h", "h", 6379, "", "", "", 0, true},
        {"rediss://me:p@[::1]:7/3", "::1", 7, "", "me", "p", 3, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wp_redis_url url;

        parse_ok(cases[i].text, &url);
        assert_int_equal(url.kind, WP_REDIS_SINGLE);
        assert_int_equal(url.n_seeds, 0);
        assert_string_equal(url.server.host, cases[i].host);
        assert_int_equal(url.server.port, cases[i].port);
        assert_string_equal(url.server.path, cases[i].path);
        assert_string_equal(url.user, cases[i].user);
        assert_string_equal(url.password, cases[i].password);
        assert_int_equal(url.db, cases[i].db);
        assert_int_equal(url.tls, cases[i].tls);
    }
}

static void
test_reads_several(void **state)
{
    struct wp_redis_url url;

    (void)state;
    parse_ok("redis+sentinel://me:p%40@s1,[::1]:7,s3:9/my%20db/4"
             "?sentinel_password=x&sentinel_user=y",
             &url);
    assert_int_equal(url.kind, WP_REDIS_SENTINEL);
    assert_int_equal(url.n_seeds, 3);
    assert_string_equal(url.seeds[0].host, "s1");
    assert_int_equal(url.seeds[0].port, 26379);
    assert_string_equal(url.seeds[1].host, "::1");
    assert_int_equal(url.seeds[1].port, 7);
    assert_string_equal(url.seeds[2].host, "s3");
    assert_int_equal(url.seeds[2].port, 9);
    assert_string_equal(url.server.host, "s1");
    assert_string_equal(url.master, "my db");
    assert_int_equal(url.db, 4);
    assert_string_equal(url.user, "me");
    assert_string_equal(url.password, "p@");
    assert_string_equal(url.sentinel_user, "y");
    assert_string_equal(url.sentinel_password, "x");

    parse_ok("redis+cluster://:p@a:1,b/", &url);
    assert_int_equal(url.kind, WP_REDIS_CLUSTER);
    assert_int_equal(url.n_seeds, 2);
    assert_string_equal(url.seeds[1].host, "b");
    assert_int_equal(url.seeds[1].port, 6379);
    assert_string_equal(url.password, "p");
    assert_false(url.tls);

    parse_ok("rediss+cluster://a:1,b", &url);
    assert_int_equal(url.kind, WP_REDIS_CLUSTER);
    assert_true(url.tls);
    parse_ok("rediss+sentinel://me@a/m?sentinel_user=y", &url);
    assert_int_equal(url.kind, WP_REDIS_SENTINEL);
    assert_true(url.tls);
    assert_int_equal(url.seeds[0].port, 26379);
    assert_string_equal(url.user, "me");
    assert_string_equal(url.sentinel_user, "y");
}

static const struct {
    const char *text;
    const char *names;
} refused[] = {
    {"", "redis://"},
    {"h:1", "redis://"},
    {"http://sesame@h", "redis://"},
    {"redis://", "host"},
    {"redis://:sesame@", "host"},
    {"redis://@sesame", "PASSWORD"},
    {"redis://:@h", "PASSWORD"},
    {"redis://sesame:@h", "PASSWORD"},
    {"redis://u:sesame%@h", "password"},
    {"redis://u:sesame%4@h", "password"},
    {"redis://u:sesame%zz@h", "password"},
    {"redis://u:sesame%00@h", "password"},
    {"redis://u:sesame%g0@h", "password"},
    {"redis://u:sesame%0g@h", "password"},
    {"redis://u:sesame%0/@h", "password"},
    {"redis://u:sesame%:0@h", "password"},
    {"redis://u:sesame%`0@h", "password"},
    {"redis://u:sesame@h:0", "port"},
    {"redis://u:sesame@h:65536", "port"},
    {"redis://u:sesame@h:", "port"},
    {"redis://u:sesame@h:1:2", "port"},
    {"redis://u:sesame@h h", "host"},
    {"redis://u:sesame@h,h", "host"},
    {"redis://u:sesame@h/x", "database"},
    {"redis://u:sesame@h/65536", "database"},
    {"redis://u:sesame@h/1/2", "database"},
    {"redis://u:sesame@h?db=1", "'?'"},
    {"redis://u:se?same@h", "'?'"},
    {"redis://u:sesame@[::1", "IPv6"},
    {"redis://u:sesame@[::1]1", "port"},
    {"redis://u:sesame@[]:1", "IPv6"},
    {"redis://u:sesame@[sesame]:1", "IPv6"},
    {"redis://u:sesame@[::1%]:1", "IPv6"},
    {"redis://h:sesame@", "host"},
    {"redisss://u:sesame@h", "rediss"},
    {"rediss+unix:/sesame", "rediss"},
    {"rediss://u:sesame@h?tls=no", "'?'"},
    {"unix:", "path"},
    {"unix:sesame", "path"},
    {"unix://sesame/p", "path"},
    {"unix:/p%0", "path"},
    {"unix:/p?", "db=N"},
    {"unix:/p?sesame", "db=N"},
    {"unix:/p?sesame=1", "db=N"},
    {"unix:/p?db=1&", "db=N"},
    {"unix:/p?db=-1", "database"},
    {"unix:/p?db=1&db=1", "once"},
    {"unix:/p?password=", "'password'"},
    {"unix:/p?password=sesame%f", "'password'"},
    {"redis+sentinel://sesame", "master"},
    {"redis+sentinel://u:sesame@h/", "master"},
    {"redis+sentinel://u:sesame@h//1", "master"},
    {"redis+sentinel://u:sesame@h/m/", "database"},
    {"redis+sentinel://u:sesame@h,/m", "host"},
    {"redis+sentinel://,h/m", "host"},
    {"redis+sentinel://h/m?password=sesame", "sentinel_password="},
    {"redis+sentinel://h/m?sentinel_password=%", "'sentinel_password'"},
    {"redis+cluster://", "host"},
    {"redis+cluster://h/1", "one database"},
    {"redis+cluster://u:sesame@h?x=1", "'?'"},
    {"redis+cluster://a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", "at most 16"},
};

/* Every refusal names the part and shows nothing of a secret. */
static void
test_refuses(void **state)
{
    char path[200] = "unix:/";

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct wp_redis_url url;
        struct wp_err err = {.msg = ""};

        assert_int_equal(
            wp_redis_url_parse(wp_str_from(refused[i].text), &url, &err),
            WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, "expected "));
        if (strstr(err.msg, refused[i].names) == NULL ||
            strstr(err.msg, "sesame") != NULL) {
            fail_msg("%s: %s", refused[i].text, err.msg);
        }
        assert_string_equal(url.password, "");
    }
    /* The text goes on behind what is its own. */
    for (size_t cut = 1; cut <= 2; cut++) {
        struct wp_str text = WP_STR("unix:/sesame%41");

        text.len -= cut;
        assert_int_equal(wp_redis_url_parse(text, &(struct wp_redis_url){0},
                                            &(struct wp_err){.msg = ""}),
                         WP_INVALID_ARGUMENT);
    }
    memset(path + 6, 'x', 110);
    assert_int_equal(wp_redis_url_parse(wp_str_from(path),
                                        &(struct wp_redis_url){.db = 0},
                                        &(struct wp_err){.msg = ""}),
                     WP_INVALID_ARGUMENT);
}

static void
test_bounds(void **state)
{
    char text[600];
    struct wp_redis_url url;

    (void)state;
    for (int len = 254; len <= 257; len++) {
        enum wp_status expected = len <= 255 ? WP_OK : WP_INVALID_ARGUMENT;

        (void)snprintf(text, sizeof text, "redis://:%0*d@h", len, 1);
        assert_int_equal(wp_redis_url_parse(wp_str_from(text), &url, NULL),
                         expected);
        (void)snprintf(text, sizeof text, "redis://%0*d:p@h", len, 1);
        assert_int_equal(wp_redis_url_parse(wp_str_from(text), &url, NULL),
                         expected);
        (void)snprintf(text, sizeof text, "redis://%0*d", len, 1);
        assert_int_equal(wp_redis_url_parse(wp_str_from(text), &url, NULL),
                         expected);
        (void)snprintf(text, sizeof text, "redis+sentinel://h/%0*d", len - 192,
                       1);
        assert_int_equal(wp_redis_url_parse(wp_str_from(text), &url, NULL),
                         expected);
        (void)snprintf(text, sizeof text, "unix:/s?user=%0*d", len, 1);
        assert_int_equal(wp_redis_url_parse(wp_str_from(text), &url, NULL),
                         expected);
        (void)snprintf(text, sizeof text, "unix:/%0*d", len - 149, 1);
        assert_int_equal(wp_redis_url_parse(wp_str_from(text), &url, NULL),
                         expected);
    }
}

/* What is printed is the URL again, but for the passwords. */
static void
test_prints(void **state)
{
    static const struct {
        const char *text;
        const char *printed;
    } cases[] = {
        {"redis://h", "redis://h:6379/0"},
        {"redis://:sesame@h", "redis://:***@h:6379/0"},
        {"redis://a%40b:sesame@[::1]/2", "redis://a%40b:***@[::1]:6379/2"},
        {"unix:///a%3Fb?password=sesame&user=u",
         "unix:///a%3Fb?db=0&user=u&password=***"},
        {"redis+sentinel://u:sesame@a,b:1/m/2"
         "?sentinel_user=v&sentinel_password=sesame",
         "redis+sentinel://u:***@a:26379,b:1/m/2"
         "?sentinel_password=***&sentinel_user=v"},
        {"redis+cluster://a,b", "redis+cluster://a:6379,b:6379"},
        {"redis://me@h", "redis://me@h:6379/0"},
        {"redis://09azAZ.-_%7e%2f@h", "redis://09azAZ.-_%7E%2F@h:6379/0"},
        {"redis+sentinel://h/a%20b%ff/1",
         "redis+sentinel://h:26379/a%20b%FF/1"},
        {"rediss://me:sesame@h/1", "rediss://me:***@h:6379/1"},
        {"rediss+cluster://a", "rediss+cluster://a:6379"},
        {"rediss+sentinel://a/m?sentinel_user=v",
         "rediss+sentinel://a:26379/m/0?sentinel_user=v"},
    };
    char out[WP_REDIS_URL_TEXT_MAX];
    struct wp_redis_url url;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        parse_ok(cases[i].text, &url);
        wp_redis_url_text(&url, out);
        assert_null(strstr(out, "sesame"));
        assert_string_equal(out, cases[i].printed);
    }
    /* Sixteen long hosts do not fit: cut, not overrun. */
    url = (struct wp_redis_url){.kind = WP_REDIS_CLUSTER, .n_seeds = 16};
    for (int i = 0; i < 16; i++) {
        memset(url.seeds[i].host, 'a', WP_REDIS_HOST_MAX);
    }
    url.server = url.seeds[0];
    assert_int_equal(strlen(wp_redis_url_text(&url, out)),
                     WP_REDIS_URL_TEXT_MAX - 1);
}

/* By all that an address has. */
static void
test_same_servers(void **state)
{
    const struct wp_redis_server one = {.host = "h", .port = 1};
    const struct wp_redis_server others[] = {
        {.host = "h", .port = 2},
        {.host = "i", .port = 1},
        {.host = "h", .port = 1, .path = "/s"},
    };

    (void)state;
    assert_true(wp_redis_server_eq(
        &one, &(struct wp_redis_server){.host = "h", .port = 1}));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(wp_redis_server_eq(&one, &others[i]));
    }
}

/* What was parsed before leaves nothing behind. */
static void
test_begins_empty(void **state)
{
    struct wp_redis_url url;
    struct wp_redis_url again;

    (void)state;
    memset(&url, 0xff, sizeof url);
    parse_ok("redis+cluster://a", &url);
    memset(&again, 0, sizeof again);
    parse_ok("redis+cluster://a", &again);
    assert_memory_equal(&url, &again, sizeof url);
    assert_int_equal(wp_redis_url_set_password(&url, WP_STR("x"), NULL), WP_OK);
    assert_string_equal(url.password, "x");
    /* Nor does a longer password. */
    memset(again.password, 'y', WP_REDIS_LOGIN_MAX);
    assert_int_equal(wp_redis_url_set_password(&again, WP_STR("x"), NULL),
                     WP_OK);
    assert_memory_equal(again.password, url.password, sizeof url.password);
}

static void
test_sets_password(void **state)
{
    char bytes[256];
    struct wp_redis_url url;

    (void)state;
    parse_ok("redis://u:a-longer-one@h", &url);
    assert_int_equal(wp_redis_url_set_password(&url, WP_STR("@/?%"), NULL),
                     WP_OK);
    assert_string_equal(url.password, "@/?%");
    assert_int_equal(
        wp_redis_url_set_sentinel_password(&url, WP_STR("other"), NULL), WP_OK);
    assert_string_equal(url.sentinel_password, "other");
    assert_string_equal(url.password, "@/?%");
    assert_int_equal(wp_redis_url_set_sentinel_password(&url, WP_STR(""), NULL),
                     WP_INVALID_ARGUMENT);
    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(
        wp_redis_url_set_password(&url, (struct wp_str){bytes, 256}, NULL),
        WP_INVALID_ARGUMENT);
    assert_int_equal(wp_redis_url_set_password(&url, WP_STR(""), NULL),
                     WP_INVALID_ARGUMENT);
    assert_int_equal(wp_redis_url_set_password(&url, WP_STR("a\0b"), NULL),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(url.password, "@/?%");
    assert_int_equal(
        wp_redis_url_set_password(&url, (struct wp_str){bytes, 255}, NULL),
        WP_OK);
    assert_int_equal(strlen(url.password), 255);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_reads_several),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_prints),
        cmocka_unit_test(test_sets_password),
        cmocka_unit_test(test_same_servers),
        cmocka_unit_test(test_begins_empty),
    };

    return cmocka_run_group_tests_name("redis_url", tests, NULL, NULL);
}
