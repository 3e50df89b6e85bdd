/* A policy of sources: what it allows, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "allocator/ctl/sources.h"
#include "pool/base/compiler.h"

/* As an agent platform ships one. */
#define WHOLE                                                                  \
    "{\"version\": \"1.0\", \"description\": \"what may be cloned\","          \
    "\"allowed_remotes\": [\"https://git.example/team/*\","                    \
    "  \"https://git.example/lib/one\"],"                                      \
    "\"denied_remotes\": [\"https://git.example/team/old/*\"],"                \
    "\"allowed_registries\": [\"pypi.example\"],"                              \
    "\"allowed_domains\": [\".api.example\", \"one.example\"],"                \
    "\"resource_limits\": {\"max_repos\": 2, \"max_repo_size_mb\": 500}}"

static enum wp_status
allow(const char *text, const char *url, uint32_t n, struct wp_err *err)
{
    struct wp_sources sources;
    enum wp_status status;

    assert_int_equal(wp_sources_parse(wp_str_from(text), &sources, err), WP_OK);
    status = wp_sources_allow(&sources, wp_str_from(url), n, err);
    wp_sources_fini(&sources);
    return status;
}

static void
test_remotes(void **state)
{
    static const struct {
        const char *text;
        const char *url;
        const char *why; /* NULL: it is allowed. */
    } rows[] = {
        {WHOLE, "https://git.example/team/a", NULL},
        {WHOLE, "https://git.example/team/a/b.git", NULL},
        {WHOLE, "https://git.example/lib/one.git", NULL},
        {WHOLE, "https://git.example/lib/other", "allowed_remotes: "},
        {WHOLE, "https://git.example/teams/a", "allowed_remotes: "},
        {WHOLE, "http://git.example/team/a", "allowed_remotes: "},
        {WHOLE, "https://evil.example/team/a", "allowed_remotes: "},
        {WHOLE, "https://git.example/team/old/a", "denied_remotes: "},
        {WHOLE, "https://git.example/team/OLD/a", "denied_remotes: "},
        {"{}", "https://any.example/a", NULL},
        {"{\"allowed_remotes\": []}", "https://any.example/a",
         "allowed_remotes: "},
        {"{\"denied_remotes\": [\"bad.example\"]}", "https://any.example/a",
         NULL},
        {"{\"denied_remotes\": [\"bad.example\"]}", "http://bad.example:81/a",
         "denied_remotes: "},
    };
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        enum wp_status status = allow(rows[i].text, rows[i].url, 1, &err);

        if (rows[i].why == NULL) {
            assert_int_equal(status, WP_OK);
        } else {
            assert_int_equal(status, WP_INVALID_ARGUMENT);
            assert_non_null(strstr(err.msg, rows[i].why));
        }
    }
    assert_int_equal(allow(WHOLE, "https://git.example/team/a", 2, &err),
                     WP_OK);
    assert_int_equal(allow(WHOLE, "https://git.example/team/a", 3, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "resource_limits.max_repos: at most 2 "
                                 "repositories, got 3");
}

static void
test_hosts(void **state)
{
    struct wp_sources sources;
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_sources_parse(WP_STR(WHOLE), &sources, &err), WP_OK);
    assert_string_equal(sources.egress,
                        "api.example *.api.example one.example pypi.example");
    wp_sources_fini(&sources);
    assert_int_equal(wp_sources_parse(WP_STR("{}"), &sources, &err), WP_OK);
    assert_string_equal(sources.egress, "");
    wp_sources_fini(&sources);
    /* No host is named, so none is reached. */
    assert_int_equal(
        wp_sources_parse(WP_STR("{\"allowed_domains\": []}"), &sources, &err),
        WP_OK);
    assert_string_equal(sources.egress, "none");
    wp_sources_fini(&sources);
    assert_int_equal(
        wp_sources_parse(WP_STR("{\"allowed_domains\": [], "
                                "\"allowed_registries\": [\"10.1.0.1:8080\"]}"),
                         &sources, &err),
        WP_OK);
    assert_string_equal(sources.egress, "10.1.0.1:8080");
    wp_sources_fini(&sources);
}

static void
test_what_is_none(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } rows[] = {
        {"", "a JSON object"},
        {"[]", "a JSON object"},
        {"{\"a\": 1, \"a\": 2}", "a JSON object"},
        {"{\"version\": \"2.0\"}", "version: "},
        {"{\"version\": 1}", "version: "},
        {"{\"version\": \"10\"}", "version: "},
        {"{\"version\": \"\"}", "version: "},
        {"{\"allowed_remotes\": \"x\"}", "allowed_remotes: an array"},
        {"{\"allowed_remotes\": [1]}", "allowed_remotes: an array"},
        {"{\"allowed_remotes\": [\"https://h/evil*\"]}",
         "allowed_remotes: 'https://h/evil*'"},
        {"{\"denied_remotes\": [\"https://h/evil*\"]}",
         "denied_remotes: 'https://h/evil*'"},
        {"{\"denied_remotes\": [\"*\"]}", "denied_remotes: '*'"},
        {"{\"allowed_domains\": {}}", "allowed_domains: an array"},
        {"{\"allowed_domains\": [\"a b\"]}", "allowed_domains: hosts"},
        {"{\"allowed_domains\": [\"\"]}", "allowed_domains: hosts"},
        /* Words of a policy that are no hosts. */
        {"{\"allowed_domains\": [\"open\"]}", "allowed_domains: hosts"},
        {"{\"allowed_domains\": [\".open\"]}", "allowed_domains: hosts"},
        {"{\"allowed_domains\": [\"none\"]}", "allowed_domains: hosts"},
        {"{\"allowed_domains\": [\"allowlist\"]}", "allowed_domains: hosts"},
        {"{\"allowed_domains\": [\"a.b\", \"packages\"]}",
         "allowed_domains: hosts"},
        {"{\"allowed_registries\": [\"key:models\"]}",
         "allowed_registries: hosts"},
        {"{\"allowed_domains\": [\".\"]}", "allowed_domains: hosts"},
        {"{\"allowed_domains\": [\"https://a.b/\"]}", "allowed_domains: hosts"},
        {"{\"resource_limits\": 1}", "resource_limits: "},
        {"{\"resource_limits\": {\"max_repos\": -1}}",
         "resource_limits.max_repos: "},
        {"{\"resource_limits\": {\"max_repos\": \"1\"}}",
         "resource_limits.max_repos: "},
    };
    struct wp_sources sources;
    struct wp_err err;
    json_t *many = json_object();
    char *text;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_int_equal(
            wp_sources_parse(wp_str_from(rows[i].text), &sources, &err),
            WP_INVALID_ARGUMENT);
        wp_sources_fini(&sources);
        if (strstr(err.msg, rows[i].why) == NULL) {
            fail_msg("%s: %s", rows[i].text, err.msg);
        }
    }
    assert_int_equal(json_object_set_new(many, "allowed_domains", json_array()),
                     0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(
            json_array_append_new(json_object_get(many, "allowed_domains"),
                                  json_string(".a-long-name.example")),
            0);
    }
    text = json_dumps(many, 0);
    assert_int_equal(wp_sources_parse(wp_str_from(text), &sources, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "at most 1023 bytes"));
    wp_sources_fini(&sources);
    free(text);
    json_decref(many);
}

/* As many as a claim can bring at most, whatever the policy says. */
static void
test_how_many(void **state)
{
    static const struct {
        const char *text;
        uint32_t most;
    } rows[] = {
        {"{}", WP_BINDING_REPOSITORIES_MAX},
        {"{\"version\": \"1\"}", WP_BINDING_REPOSITORIES_MAX},
        {"{\"version\": \"1.5\"}", WP_BINDING_REPOSITORIES_MAX},
        {"{\"resource_limits\": {}}", WP_BINDING_REPOSITORIES_MAX},
        {"{\"resource_limits\": {\"max_repos\": 0}}", 0},
        {"{\"resource_limits\": {\"max_repos\": 1}}", 1},
        {"{\"resource_limits\": {\"max_repos\": 4294967297}}",
         WP_BINDING_REPOSITORIES_MAX},
    };
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_sources sources;

        assert_int_equal(
            wp_sources_parse(wp_str_from(rows[i].text), &sources, &err), WP_OK);
        assert_int_equal(sources.repositories_max, rows[i].most);
        wp_sources_fini(&sources);
    }
}

/* Names of hosts that are so long in all, and one byte longer. */
static void
test_length_of_hosts(void **state)
{
    (void)state;
    for (int len = WP_EGRESS_TEXT_MAX; len <= WP_EGRESS_TEXT_MAX + 1; len++) {
        char host[] = "abcdefghijabcdefghijabcdefghijabcdefghijabcdefg.example";
        json_t *list = json_array();
        json_t *whole = json_object();
        struct wp_sources sources;
        struct wp_err err;
        int left = len;
        char *text;

        while (left > 120) {
            (void)json_array_append_new(list, json_string(host));
            left -= (int)sizeof host; /* With a space. */
        }
        /* Two of at most a name's length. */
        host[left - (int)sizeof host] = '\0';
        (void)json_array_append_new(
            list,
            json_string(
                "bbcdefghijabcdefghijabcdefghijabcdefghijabcdefg.example"));
        (void)json_array_append_new(list, json_string(host));
        (void)json_object_set_new(whole, "allowed_domains", list);
        text = json_dumps(whole, 0);
        assert_int_equal(wp_sources_parse(wp_str_from(text), &sources, &err),
                         len == WP_EGRESS_TEXT_MAX ? WP_OK
                                                   : WP_INVALID_ARGUMENT);
        if (len == WP_EGRESS_TEXT_MAX) {
            assert_int_equal(strlen(sources.egress), WP_EGRESS_TEXT_MAX);
        }
        wp_sources_fini(&sources);
        json_decref(whole);
        free(text);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_remotes),         cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_what_is_none),    cmocka_unit_test(test_how_many),
        cmocka_unit_test(test_length_of_hosts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
