/* The protocol apart from HTTP, and the table of sessions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/str.h"
#include "proto/formats/json_text.h"
#include "runtime/mcp/mcp.h"

/* A tool runner that answers at once, or keeps calls for later. */
struct runner {
    bool later;
    wp_mcp_tool_done done[8];
    void *users[8];
    size_t kept;
};

static void
on_call(void *app, const char *name, const json_t *args, wp_mcp_tool_done done,
        void *user)
{
    struct runner *runner = app;

    (void)args;
    if (strcmp(name, "unknown") == 0) {
        done(user, NULL, WP_MCP_INVALID_PARAMS, "unknown tool");
    } else if (runner->later) {
        runner->done[runner->kept] = done;
        runner->users[runner->kept++] = user;
    } else {
        done(user, wp_mcp_text_result(json_string(name), false), 0, NULL);
    }
}

struct outcome {
    int replies;
    int http_status;
    bool initialized;
    char *body; /* NULL when there was none. */
};

static void
on_reply(void *user, const struct wp_mcp_reply *reply)
{
    struct outcome *outcome = user;

    outcome->replies++;
    outcome->http_status = reply->http_status;
    outcome->initialized = reply->initialized;
    outcome->body =
        reply->body != NULL ? json_dumps(reply->body, JSON_COMPACT) : NULL;
    json_decref(reply->body);
}

static struct outcome
say(struct runner *runner, const char *text)
{
    struct outcome outcome = {0};
    struct wp_mcp_tools tools = {json_array(), on_call, runner};

    wp_mcp_rpc_handle(&tools, text, strlen(text), true, on_reply, &outcome);
    json_decref(tools.list);
    return outcome;
}

#define RPC(rest) "{\"jsonrpc\":\"2.0\"," rest "}"

static void
answers_each_message(void **state)
{
    static const struct {
        const char *text;
        int http_status;
        const char *body;
    } cases[] = {
        {RPC("\"id\":1,\"method\":\"ping\""), 200,
         RPC("\"id\":1,\"result\":{}")},
        {RPC("\"id\":\"x\",\"method\":\"tools/list\""), 200,
         RPC("\"id\":\"x\",\"result\":{\"tools\":[]}")},
        {RPC("\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}"),
         200,
         RPC("\"id\":1,\"result\":{\"content\":[{\"type\":\"text\","
             "\"text\":\"t\"}]}")},
        {RPC("\"id\":1,\"method\":\"tools/call\","
             "\"params\":{\"name\":\"unknown\"}"),
         200,
         RPC("\"id\":1,\"error\":{\"code\":-32602,"
             "\"message\":\"unknown tool\"}")},
        {RPC("\"method\":\"notifications/cancelled\""), 202, NULL},
        {RPC("\"method\":\"no/such\""), 202, NULL},
        {RPC("\"id\":3,\"result\":1"), 202, NULL},
        {RPC("\"id\":1.5,\"method\":\"ping\""), 400,
         RPC("\"id\":null,\"error\":{\"code\":-32600,\"message\":\"id: must "
             "be a string or a whole number\"}")},
        {RPC("\"id\":1,\"method\":\"x\xc3\xa9\""), 200,
         RPC("\"id\":1,\"error\":{\"code\":-32601,\"message\":\"method not "
             "found: x\xc3\xa9\"}")},
        {"[" RPC("\"id\":1,\"method\":\"ping\"") "]", 200,
         "[" RPC("\"id\":1,\"result\":{}") "]"},
    };
    struct runner runner = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct outcome outcome = say(&runner, cases[i].text);

        assert_int_equal(outcome.replies, 1);
        assert_int_equal(outcome.http_status, cases[i].http_status);
        if (cases[i].body == NULL) {
            assert_null(outcome.body);
        } else {
            assert_string_equal(outcome.body, cases[i].body);
        }
        free(outcome.body);
    }
}

static void
waits_for_every_call_of_a_batch(void **state)
{
    struct runner runner = {.later = true};
    struct outcome outcome = {0};
    struct wp_mcp_tools tools = {json_array(), on_call, &runner};
    const char *text = "[" RPC(
        "\"id\":1,\"method\":\"tools/"
        "call\",\"params\":{\"name\":\"a\"}") "," RPC("\"id\":2,\"method\":"
                                                      "\"tools/"
                                                      "call\",\"params\":{"
                                                      "\"name\":\"b\"}") "]";

    (void)state;
    wp_mcp_rpc_handle(&tools, text, strlen(text), true, on_reply, &outcome);
    assert_int_equal(runner.kept, 2);
    runner.done[1](runner.users[1], wp_mcp_text_result(json_string("B"), true),
                   0, NULL);
    assert_int_equal(outcome.replies, 0);
    /* A result that could not be made is an error, not silence. */
    runner.done[0](runner.users[0], NULL, 0, NULL);
    assert_int_equal(outcome.replies, 1);
    assert_string_equal(
        outcome.body,
        "[" RPC(
            "\"id\":2,\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
            "\"B\"}],\"isError\":true}") "," RPC("\"id\":1,\"error\":{\"code\":"
                                                 "-32603,\"message\":\"out of "
                                                 "memory\"}") "]");
    free(outcome.body);
    json_decref(tools.list);
}

static void
begins_a_session_only_on_initialize(void **state)
{
    struct runner runner = {0};
    struct outcome outcome =
        say(&runner, RPC("\"id\":1,\"method\":\"initialize\""));

    (void)state;
    assert_true(outcome.initialized);
    free(outcome.body);
    outcome = say(&runner, "[" RPC("\"id\":1,\"method\":\"initialize\"") "]");
    assert_false(outcome.initialized);
    free(outcome.body);
    outcome = say(&runner, RPC("\"id\":1,\"method\":\"ping\""));
    assert_false(outcome.initialized);
    free(outcome.body);
}

static void
keeps_the_sessions_used_last(void **state)
{
    static struct wp_mcp_sessions sessions;
    char first[WP_MCP_SESSION_ID_LEN + 1];
    char second[WP_MCP_SESSION_ID_LEN + 1];

    (void)state;
    strcpy(first, wp_mcp_session_begin(&sessions));
    strcpy(second, wp_mcp_session_begin(&sessions));
    assert_string_not_equal(first, second);
    assert_true(wp_mcp_session_touch(&sessions, first));
    for (int i = 0; i < WP_MCP_SESSIONS_MAX - 1; i++) {
        assert_non_null(wp_mcp_session_begin(&sessions));
    }
    assert_true(wp_mcp_session_touch(&sessions, first));
    assert_false(wp_mcp_session_touch(&sessions, second));
    assert_false(wp_mcp_session_touch(&sessions, ""));
    assert_true(wp_mcp_session_end(&sessions, first));
    assert_false(wp_mcp_session_end(&sessions, first));
    assert_false(wp_mcp_session_touch(&sessions, first));
}

static void
mends_what_is_no_text(void **state)
{
    const struct {
        struct wp_str in;
        struct wp_str out;
    } cases[] = {
        {WP_STR(""), WP_STR("")},
        {WP_STR("plain"), WP_STR("plain")},
        {WP_STR("a\0b"), WP_STR("a\0b")},
        {WP_STR("\xff"), WP_STR("\xef\xbf\xbd")},
        {WP_STR("a\xc3"), WP_STR("a\xef\xbf\xbd")},
        {WP_STR("\xc3\xa9\xff\0"), WP_STR("\xc3\xa9\xef\xbf\xbd\0")},
        {WP_STR("\xf0\x9f\x98\x80\x80"),
         WP_STR("\xf0\x9f\x98\x80\xef\xbf\xbd")},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *text = wp_json_from_str(cases[i].in);

        assert_int_equal(json_string_length(text), cases[i].out.len);
        assert_memory_equal(json_string_value(text), cases[i].out.ptr,
                            cases[i].out.len);
        json_decref(text);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_each_message),
        cmocka_unit_test(waits_for_every_call_of_a_batch),
        cmocka_unit_test(begins_a_session_only_on_initialize),
        cmocka_unit_test(keeps_the_sessions_used_last),
        cmocka_unit_test(mends_what_is_no_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
