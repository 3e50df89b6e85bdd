/* tests/unit/allocator/http/session_request_test.c - what a request of the
 * session API asks for: each text in full, each length at its bound, and what
 * is said of a request that is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "allocator/http/session_request.h"
#include "pool/base/assert.h"

#define USER_WHY                                                               \
    "Failed to get user ID: expected printable text of at most 128 bytes"
#define SESSION_WHY                                                            \
    "Failed to get session ID: expected printable text of at most 128 bytes"
#define LONG_WHY                                                               \
    "Failed to get session ID: with the user's it is longer than 119 bytes"
#define BODY_WHY                                                               \
    "Failed to read the request: the body: expected nothing, or a JSON object"
#define KEYS_WHY                                                               \
    "Failed to read the request: the body: expected only namespace, pool and " \
    "template, each a string"
#define T10 "aaaaaaaaaa"
#define T50 T10 T10 T10 T10 T10
#define T63 T50 T10 "aaa"
#define T119 T50 T50 T10 "aaaaaaaaa"
#define T128 T119 "aaaaaaaaa"

static struct wp_session_request asked;
static char why[WP_SESSION_WHY_MAX];

/* user and agent: their header; NULL: there is none. */
static bool
ask(const char *target, const char *user, const char *agent, bool *found)
{
    static struct wp_http_message request;

    memset(&request, 0, sizeof request);
    memset(&asked, '?', sizeof asked);
    memset(why, 0, sizeof why);
    request.target = wp_str_from(target);
    if (user != NULL) {
        request.fields[request.n_fields++] =
            (struct wp_http_field){WP_STR("x-user-id"), wp_str_from(user)};
    }
    if (agent != NULL) {
        request.fields[request.n_fields++] =
            (struct wp_http_field){WP_STR("x-agent-name"), wp_str_from(agent)};
    }
    *found = false;
    return wp_session_read_head(&request, &asked, found, why);
}

static void
is_asked(const char *claim_id, const char *ns, const char *pool,
         const char *template_name)
{
    assert_string_equal(asked.claim_id, claim_id);
    assert_string_equal(asked.ns, ns);
    assert_string_equal(asked.pool, pool);
    assert_string_equal(asked.template_name, template_name);
}

static void
test_which_paths_are_the_apis(void **state)
{
    (void)state;
    assert_true(wp_session_is(WP_STR("/api/sessions/")));
    assert_true(wp_session_is(WP_STR("/api/sessions/a")));
    assert_false(wp_session_is(WP_STR("/api/sessions")));
    assert_false(wp_session_is(WP_STR("/api/session/a")));
    assert_false(wp_session_is(WP_STR("")));
}

static void
test_who_asks_and_for_what(void **state)
{
    static const struct {
        const char *target;
        const char *user;
        bool is_sandbox;
        const char *claim_id, *ns, *pool, *template_name;
    } rows[] = {
        {"/api/sessions/s", "u", false, "session/u/s", "", "", ""},
        {"/api/sessions/s/sandbox", "u", true, "session/u/s", "", "", ""},
        {"/api/sessions/s?", "u", false, "session/u/s", "", "", ""},
        {"/api/sessions/s?user_id=v", NULL, false, "session/v/s", "", "", ""},
        {"/api/sessions/s?user_id=v", "v", false, "session/v/s", "", "", ""},
        {"/api/sessions/s?user_id=v", "", false, "session/v/s", "", "", ""},
        {"/api/sessions/s?x&user_idx=1&user_id&&user_id=v&user_id=w", NULL,
         false, "session/v/s", "", "", ""},
        {"/api/sessions/s?user_id=w+x&pool=p", NULL, false, "session/w x/s", "",
         "p", ""},
        {"/api/sessions/s?user_id=%41%5a%5A%2b", NULL, false, "session/AZZ+/s",
         "", "", ""},
        {"/api/sessions/a+b%20c", "u+", false, "session/u+/a+b c", "", "", ""},
        /* No two sessions have one id. */
        {"/api/sessions/a%2Fb%25", "u/%", false, "session/u%2F%25/a%2Fb%25", "",
         "", ""},
        {"/api/sessions/s/sandbox?namespace=n&pool=p&template=t", "u", true,
         "session/u/s", "n", "p", "t"},
        {"/api/sessions/s?template=" T63, "u", false, "session/u/s", "", "",
         T63},
        {"/api/sessions/s?namespace=" T63, "u", false, "session/u/s", T63, "",
         ""},
        {"/api/sessions/s?pool=" T50 "aaaa", "u", false, "session/u/s", "",
         T50 "aaaa", ""},
        {"/api/sessions/%c3%a9", "\xc3\xbc", false, "session/\xc3\xbc/\xc3\xa9",
         "", "", ""},
    };
    bool found;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_true(ask(rows[i].target, rows[i].user, NULL, &found));
        assert_true(found);
        assert_int_equal(asked.is_sandbox, rows[i].is_sandbox);
        is_asked(rows[i].claim_id, rows[i].ns, rows[i].pool,
                 rows[i].template_name);
        assert_string_equal(asked.agent_ns, "");
        assert_string_equal(asked.agent_template, "");
        assert_string_equal(why, "");
    }
}

static void
test_why_a_head_is_refused(void **state)
{
    static const struct {
        const char *target;
        const char *user;
        const char *why;
    } rows[] = {
        {"/api/sessions/", "u", SESSION_WHY},
        {"/api/sessions//sandbox", "u", SESSION_WHY},
        {"/api/sessions/%", "u", SESSION_WHY},
        {"/api/sessions/%4", "u", SESSION_WHY},
        {"/api/sessions/%4?1", "u", SESSION_WHY},
        {"/api/sessions/%4g", "u", SESSION_WHY},
        {"/api/sessions/%g4", "u", SESSION_WHY},
        {"/api/sessions/%4`", "u", SESSION_WHY},
        {"/api/sessions/%:0", "u", SESSION_WHY},
        {"/api/sessions/%g0%9f%98%80", "u", SESSION_WHY},
        {"/api/sessions/%00", "u", SESSION_WHY},
        {"/api/sessions/%0a", "u", SESSION_WHY},
        {"/api/sessions/%ff", "u", SESSION_WHY},
        {"/api/sessions/" T128 "a", "u", SESSION_WHY},
        {"/api/sessions/" T128, "u", LONG_WHY},
        {"/api/sessions/s", NULL,
         "Failed to get user ID: expected the header X-User-Id or the query's "
         "user_id"},
        {"/api/sessions/s?user_id=", "",
         "Failed to get user ID: expected the header X-User-Id or the query's "
         "user_id"},
        {"/api/sessions/s?user_id=v", "u",
         "Failed to get user ID: X-User-Id and user_id differ"},
        {"/api/sessions/s?user_id=", "u",
         "Failed to get user ID: X-User-Id and user_id differ"},
        {"/api/sessions/s?user_id=%", "u", USER_WHY},
        {"/api/sessions/s?user_id=" T128 "a", NULL, USER_WHY},
        {"/api/sessions/s?user_id=" T128, NULL, LONG_WHY},
        {"/api/sessions/s", T128 "a", USER_WHY},
        {"/api/sessions/s", T128, LONG_WHY},
        {"/api/sessions/s", "\x01", USER_WHY},
        {"/api/sessions/s?namespace=", "u",
         "Failed to read the request: namespace: expected a DNS name of at "
         "most 63 characters"},
        {"/api/sessions/s?namespace=" T63 "a", "u",
         "Failed to read the request: namespace: expected a DNS name of at "
         "most 63 characters"},
        {"/api/sessions/s?pool=%", "u",
         "Failed to read the request: pool: expected a DNS name of at most 54 "
         "characters"},
        {"/api/sessions/s?pool=" T50 "aaaaa", "u",
         "Failed to read the request: pool: expected a DNS name of at most 54 "
         "characters"},
        {"/api/sessions/s?template=" T63 "a", "u",
         "Failed to read the request: template: expected a DNS name of at "
         "most 63 characters"},
        {"/api/sessions/s?template=A", "u",
         "Failed to read the request: template: expected a DNS name of at "
         "most 63 characters"},
    };
    static const char *const pages[] = {
        "/api/sessions/s/", "/api/sessions/s/sandbo",
        "/api/sessions/s/sandboxes", "/api/sessions/s/sandbox/",
        "/api/sessions/s/x?y"};
    bool found;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_false(ask(rows[i].target, rows[i].user, NULL, &found));
        assert_true(found);
        assert_string_equal(why, rows[i].why);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(pages); i++) {
        assert_false(ask(pages[i], "u", NULL, &found));
        assert_false(found);
        assert_string_equal(
            why, "no such page; there is /api/sessions/SESSION/sandbox");
    }
}

/* Of "session/USER/ID" 128 bytes, whatever their parting. */
static void
test_how_long_an_id_may_be(void **state)
{
    char target[400], user[WP_CLAIM_ID_MAX + 2], expected[300];
    bool found;

    (void)state;
    for (int n = 1; n < 120; n++) {
        (void)snprintf(user, sizeof user, "%.*s", n, T119);
        (void)snprintf(target, sizeof target, "/api/sessions/%.*s", 119 - n,
                       T119);
        if (n < 119) {
            assert_true(ask(target, user, NULL, &found));
            (void)snprintf(expected, sizeof expected, "session/%s/%.*s", user,
                           119 - n, T119);
            assert_string_equal(asked.claim_id, expected);
        }
        (void)snprintf(target, sizeof target, "/api/sessions/%.*s", 120 - n,
                       T119);
        assert_false(ask(target, user, NULL, &found));
        assert_string_equal(why, LONG_WHY);
    }
    /* What stands for a slash counts three times. */
    (void)snprintf(target, sizeof target, "/api/sessions/%.*s%%2F", 115, T119);
    assert_true(ask(target, "u", NULL, &found));
    (void)snprintf(expected, sizeof expected, "session/u/%.*s%%2F", 115, T119);
    assert_string_equal(asked.claim_id, expected);
    (void)snprintf(target, sizeof target, "/api/sessions/%.*s%%2F", 116, T119);
    assert_false(ask(target, "u", NULL, &found));
}

static void
test_what_an_agent_is_made_from(void **state)
{
    static const struct {
        const char *agent, *ns, *template_name;
    } rows[] = {
        {"team/coder", "team", "coder-sandbox"},
        {"team__NS__coder", "team", "coder-sandbox"},
        {"my_team__NS__the_coder", "my-team", "the-coder-sandbox"},
        {"a_b/c_d", "a-b", "c-d-sandbox"},
        {"a__NS__b/c", "", ""},
        {"coder", "", "coder-sandbox"},
        {"the_coder", "", "the-coder-sandbox"},
        {"Team/coder", "", "coder-sandbox"},
        {"/coder", "", "coder-sandbox"},
        {"team/Coder", "", ""},
        {"team/", "", ""},
        {"", "", ""},
        {T63 "/" T50 "aaaaa", T63, T50 "aaaaa-sandbox"},
        {T63 "__NS__" T50 "aaaaa", T63, T50 "aaaaa-sandbox"},
        {T63 "a/c", "", "c-sandbox"},
        {"team/" T50 "aaaaaa", "", ""},
        {T63 "__NS__" T63, "", ""},
        {T128 T10, "", ""},
    };
    bool found;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_true(ask("/api/sessions/s", "u", rows[i].agent, &found));
        assert_string_equal(asked.agent_ns, rows[i].ns);
        assert_string_equal(asked.agent_template, rows[i].template_name);
        is_asked("session/u/s", "", "", "");
    }
}

static void
test_what_a_body_says(void **state)
{
    static const struct {
        const char *query, *body;
        const char *ns, *pool, *template_name;
        const char *why; /* "": it is taken. */
    } rows[] = {
        {"", "", "", "", "", ""},
        {"?pool=p", "", "", "p", "", ""},
        {"", "{}", "", "", "", ""},
        {"", "{\"namespace\":\"n\",\"pool\":\"p\",\"template\":\"t\"}", "n",
         "p", "t", ""},
        {"?namespace=n&template=t",
         "{\"namespace\":\"n\",\"pool\":\"p\",\"template\":\"t\"}", "n", "p",
         "t", ""},
        {"", "{\"template\":\"" T63 "\"}", "", "", T63, ""},
        {"", "[]", "", "", "", BODY_WHY},
        {"", " ", "", "", "", BODY_WHY},
        {"", "{\"pool\":\"p\",\"pool\":\"p\"}", "", "", "", BODY_WHY},
        {"", "{\"pool\":1}", "", "", "", KEYS_WHY},
        {"", "{\"pools\":\"p\"}", "", "", "", KEYS_WHY},
        {"", "{\"template\":\"\"}", "", "", "",
         "Failed to read the request: template: expected a DNS name of at most "
         "63 characters"},
        {"", "{\"pool\":\"" T50 "aaaaa\"}", "", "", "",
         "Failed to read the request: pool: expected a DNS name of at most 54 "
         "characters"},
        {"?pool=p", "{\"pool\":\"q\"}", "", "p", "",
         "Failed to read the request: pool: the query and the body differ"},
        {"?namespace=n", "{\"namespace\":\"m\"}", "n", "", "",
         "Failed to read the request: namespace: the query and the body "
         "differ"},
    };
    char target[256];
    bool found;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        (void)snprintf(target, sizeof target, "/api/sessions/s%s",
                       rows[i].query);
        assert_true(ask(target, "u", NULL, &found));
        assert_int_equal(
            wp_session_read_body(wp_str_from(rows[i].body), &asked, why),
            rows[i].why[0] == '\0');
        assert_string_equal(why, rows[i].why);
        is_asked("session/u/s", rows[i].ns, rows[i].pool,
                 rows[i].template_name);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_paths_are_the_apis),
        cmocka_unit_test(test_who_asks_and_for_what),
        cmocka_unit_test(test_why_a_head_is_refused),
        cmocka_unit_test(test_how_long_an_id_may_be),
        cmocka_unit_test(test_what_an_agent_is_made_from),
        cmocka_unit_test(test_what_a_body_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
