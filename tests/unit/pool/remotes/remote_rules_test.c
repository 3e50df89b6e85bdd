/* Which repositories rules allow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "pool/remotes/remote_rules.h"

static bool
allows(const char *allow, const char *deny, const char *url)
{
    struct wp_remote_rules rules = {.n = 0};
    struct wp_remote remote;
    const char *why = "";
    struct wp_err err;

    assert_int_equal(
        wp_remote_rules_add(&rules, wp_str_from(allow), false, &err), WP_OK);
    assert_int_equal(wp_remote_rules_add(&rules, wp_str_from(deny), true, &err),
                     WP_OK);
    assert_true(wp_remote_parse(wp_str_from(url), &remote, &why));
    return wp_remote_rules_allow(&rules, &remote);
}

static void
test_allowed(void **state)
{
    static const struct {
        const char *allow;
        const char *url;
        bool allowed;
    } rows[] = {
        {"", "https://h/a", false},
        {"h", "https://h/a", true},
        {"H.", "https://h/a/b", true},
        {"h", "https://hh/a", false},
        {"h", "https://x.h/a", false},
        {"h", "http://h/a", false},
        {"http://h", "http://h/a", true},
        {"http://h", "https://h/a", false},
        {"https://h", "https://h/a", true},
        {"h", "https://h:444/a", false},
        {"h:444", "https://h:444/a", true},
        {"h:444", "https://h/a", false},
        {"http://h:443", "https://h/a", false},
        {"*.h", "https://x.h/a", true},
        {"*.h", "https://x.y.h/a", true},
        {"*.h", "https://h/a", false},
        {"*.h", "https://xh/a", false},
        {"h/a", "https://h/a", true},
        {"h/a", "https://h/a.git", true},
        {"h/a.git", "https://h/a", true},
        {"h/.git", "https://h/.git", true},
        {"h/.git", "https://h/a", false},
        {"h/.git", "https://h/a/.git", false},
        {"h/a", "https://h/a/b", true},
        {"h/a/", "https://h/a/b", true},
        {"h/a/*", "https://h/a/b", true},
        {"https://h/*", "https://h/a/b", true},
        {"h/a", "https://h/ab", false},
        {"h/a", "https://h/A", false},
        {"h/a", "https://h/b/a", false},
        {"127.0.0.1", "https://0x7f.1/a", true},
        {"x, h\ty", "https://h/a", true},
        {"[::1]:444", "https://[::1]:444/a", true},
        {"[::1]", "https://[::1]/a", true},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_int_equal(allows(rows[i].allow, "", rows[i].url),
                         rows[i].allowed);
    }
}

static void
test_denied(void **state)
{
    static const struct {
        const char *deny;
        const char *url;
        bool allowed;
    } rows[] = {
        {"h/a", "https://h/b", true},        {"h/a", "https://h/a", false},
        {"h/a", "https://h/A.git", false},   {"h/a", "https://h/a/b", false},
        {"h/a", "http://h/a", false},        {"h/a", "https://h:444/a", false},
        {"https://h/a", "http://h/a", true}, {"h:444/a", "https://h/a", true},
        {"h", "https://h/b", false},         {"*.h", "https://x.h/b", false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_int_equal(
            allows("h http://h h:444 *.h", rows[i].deny, rows[i].url),
            rows[i].allowed);
    }
}

static void
test_bad_rules(void **state)
{
    static const struct {
        const char *rule;
        const char *why;
    } bad[] = {
        {"ssh://h/a", "https:// or http:// expected"},
        {"file:///x", "https:// or http:// expected"},
        {"https://", "a host was"},
        {"h:0", "a port from 1"},
        {"h:x", "a host was"},
        {"me@h", "a host was"},
        {"*.1.2.3.4", "a name expected behind '*.'"},
        {"*", "a host was"},
        {"h/a//b", "a path of letters"},
        {"h/../a", "a path of letters"},
        {"h/a?b", "a path of letters"},
        {"*.*.h", "a host was"},
        {"h/a*b", "a path of letters"},
        {"https://h:443:1/a", "a host was"},
        {"h/a*", "'*' expected as the whole last part of a path"},
        {"h/a/b*", "'*' expected as the whole last part of a path"},
    };
    struct wp_remote_rules rules = {.n = 0};
    struct wp_err err;
    char many[WP_REMOTE_RULES_MAX * 2 + 3];
    char rule[2 + WP_REMOTE_URL_MAX] = "h/";
    char *path = rule + 2;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        assert_int_equal(
            wp_remote_rules_add(&rules, wp_str_from(bad[i].rule), false, &err),
            WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, bad[i].rule));
        assert_non_null(strstr(err.msg, bad[i].why));
    }
    assert_int_equal(rules.n, 0);
    /* Of a path there is as much as a URL can have. */
    for (size_t len = WP_REMOTE_URL_MAX - 12; len < WP_REMOTE_URL_MAX; len++) {
        bool fits = len <= WP_REMOTE_URL_MAX - strlen("https://h/");

        memset(path, 'a', len);
        assert_int_equal(wp_remote_rules_add(&rules,
                                             (struct wp_str){rule, 2 + len},
                                             false, &err),
                         fits ? WP_OK : WP_INVALID_ARGUMENT);
        assert_true(fits || strstr(err.msg, "a shorter path expected") != NULL);
    }
    rules.n = 0;
    for (size_t i = 0; i < sizeof many - 1; i += 2) {
        memcpy(many + i, "h ", 2);
    }
    assert_int_equal(wp_remote_rules_add(&rules,
                                         (struct wp_str){many, sizeof many - 1},
                                         false, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "at most 64 rules expected");
}

/* Only as many as there are, whatever is behind them. */
static void
test_as_many_as_there_are(void **state)
{
    struct wp_remote_rules rules = {.n = 0};
    struct wp_remote remote;
    const char *why = "";
    struct wp_err err;

    (void)state;
    assert_int_equal(
        wp_remote_rules_add(&rules, WP_STR("other h"), false, &err), WP_OK);
    assert_int_equal(wp_remote_rules_add(&rules, WP_STR("h"), true, &err),
                     WP_OK);
    assert_int_equal(rules.n, 3);
    assert_true(wp_remote_parse(WP_STR("https://h/a"), &remote, &why));
    assert_true(wp_remote_rules_deny(&rules, &remote));
    assert_false(wp_remote_rules_allow(&rules, &remote));
    rules.n = 2;
    assert_false(wp_remote_rules_deny(&rules, &remote));
    assert_true(wp_remote_rules_allow(&rules, &remote));
    rules.n = 1;
    assert_false(wp_remote_rules_allow(&rules, &remote));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allowed),
        cmocka_unit_test(test_denied),
        cmocka_unit_test(test_as_many_as_there_are),
        cmocka_unit_test(test_bad_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
