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
#include "runtime/mcp/mcp_args.h"

/* A tool runner that answers at once, or keeps calls for later. */
struct runner {
    bool later;
    wp_mcp_tool_done done[8];
    void *users[8];
    size_t kept;
};

static void
on_call(void *app, const char *name, json_t *args, wp_mcp_tool_done done,
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
    const struct wp_mcp_peer peer = {
        .batch_allowed = true, .reply = on_reply, .user = &outcome};

    assert_null(wp_mcp_rpc_handle(&tools, text, strlen(text), &peer));
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
    const struct wp_mcp_peer peer = {
        .batch_allowed = true, .reply = on_reply, .user = &outcome};
    const char *text = "[" RPC(
        "\"id\":1,\"method\":\"tools/"
        "call\",\"params\":{\"name\":\"a\"}") "," RPC("\"id\":2,\"method\":"
                                                      "\"tools/"
                                                      "call\",\"params\":{"
                                                      "\"name\":\"b\"}") "]";

    (void)state;
    assert_non_null(wp_mcp_rpc_handle(&tools, text, strlen(text), &peer));
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

#define CALL(id, more)                                                         \
    RPC("\"id\":" id                                                           \
        ",\"method\":\"tools/call\",\"params\":{\"name\":\"t\"" more "}")

static void
on_message(void *user, json_t *message)
{
    char *text = json_dumps(message, JSON_COMPACT);

    assert_string_equal(text,
                        RPC("\"method\":\"notifications/progress\",\"params\":{"
                            "\"progressToken\":\"p\",\"progress\":12.5,"
                            "\"message\":\"running for 12 s\"}"));
    ++*(int *)user;
    free(text);
    json_decref(message);
}

static void
tells_progress_to_who_asked(void **state)
{
    struct runner runner = {.later = true};
    struct outcome outcome = {0};
    struct wp_mcp_tools tools = {json_array(), on_call, &runner};
    const struct wp_mcp_peer peer = {
        .batch_allowed = true, .reply = on_reply, .user = &outcome};
    const char *text =
        "[" CALL("1", ",\"_meta\":{\"progressToken\":\"p\"}") "," CALL(
            "2", ",\"_meta\":{\"progressToken\":{}}") "," CALL("3", "") "]";
    struct wp_mcp_exchange *exchange;
    int told = 0;

    (void)state;
    exchange = wp_mcp_rpc_handle(&tools, text, strlen(text), &peer);
    assert_int_equal(
        wp_mcp_exchange_progress(exchange, 12500, on_message, &told), 1);
    assert_int_equal(told, 1);
    runner.done[0](runner.users[0], NULL, 0, NULL);
    assert_int_equal(
        wp_mcp_exchange_progress(exchange, 99000, on_message, &told), 0);
    runner.done[1](runner.users[1], NULL, 0, NULL);
    runner.done[2](runner.users[2], NULL, 0, NULL);
    assert_int_equal(outcome.replies, 1);
    free(outcome.body);
    json_decref(tools.list);
}

static void
does_not_answer_what_was_cancelled(void **state)
{
    struct runner runner = {.later = true};
    struct outcome outcome = {0};
    struct wp_mcp_tools tools = {json_array(), on_call, &runner};
    const struct wp_mcp_peer peer = {
        .batch_allowed = true, .reply = on_reply, .user = &outcome};
    const char *text = "[" CALL("1", "") "," CALL("\"x\"", "") "]";
    json_t *one = json_integer(1);
    json_t *x = json_string("x");
    struct wp_mcp_exchange *exchange;

    (void)state;
    exchange = wp_mcp_rpc_handle(&tools, text, strlen(text), &peer);
    assert_true(wp_mcp_exchange_cancel(exchange, one));
    assert_false(wp_mcp_exchange_cancel(exchange, one));
    assert_int_equal(outcome.replies, 0);
    assert_true(wp_mcp_exchange_cancel(exchange, x));
    assert_int_equal(outcome.replies, 1);
    assert_int_equal(outcome.http_status, 202);
    assert_null(outcome.body);
    /* The tools end all the same, and nobody hears of it. */
    runner.done[0](runner.users[0], wp_mcp_text_result(json_string("A"), false),
                   0, NULL);
    runner.done[1](runner.users[1], NULL, WP_MCP_INTERNAL_ERROR, "no");
    assert_int_equal(outcome.replies, 1);
    json_decref(one);
    json_decref(x);
    json_decref(tools.list);
}

static void
names_the_argument_that_does_not_fit(void **state)
{
    static const struct wp_mcp_arg args[] = {
        {"path", WP_MCP_ARG_STRING, "", true},
        {"content", WP_MCP_ARG_CONTENT, "", false},
        {"ms", WP_MCP_ARG_WHOLE, "", false},
        {NULL, WP_MCP_ARG_STRING, NULL, false},
    };
    static const struct {
        const char *given;
        const char *why; /* NULL: it fits. */
    } cases[] = {
        {"{\"path\":\"\"}", NULL},
        {"{\"path\":\"x\",\"content\":\"a\\u0000b\",\"ms\":5.0}", NULL},
        {"{\"path\":\"x\",\"ms\":1e300}", NULL},
        {"{}", "arguments.path: it is missing, a string without NUL is "
               "required"},
        {"{\"path\":\"a\\u0000\"}",
         "arguments.path: a string without NUL is required"},
        {"{\"path\":null}", "arguments.path: a string without NUL is required"},
        {"{\"path\":\"x\",\"content\":[]}",
         "arguments.content: a string is required"},
        {"{\"path\":\"x\",\"ms\":1.5}",
         "arguments.ms: a whole number is required"},
        {"{\"path\":\"x\",\"ms\":true}",
         "arguments.ms: a whole number is required"},
        {"{\"path\":\"x\",\"shell\":1}",
         "arguments.shell: no argument of that name is taken"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *given = json_loads(cases[i].given, JSON_ALLOW_NUL, NULL);
        struct wp_err err;

        assert_non_null(given);
        if (cases[i].why == NULL) {
            assert_int_equal(wp_mcp_args_check(args, given, &err), WP_OK);
        } else {
            assert_int_equal(wp_mcp_args_check(args, given, &err),
                             WP_INVALID_ARGUMENT);
            assert_string_equal(err.msg, cases[i].why);
        }
        json_decref(given);
    }
}

static void
tells_what_arguments_are_taken(void **state)
{
    static const struct wp_mcp_arg args[] = {
        {"path", WP_MCP_ARG_STRING, "Where", true},
        {"content", WP_MCP_ARG_CONTENT, "What", true},
        {"ms", WP_MCP_ARG_WHOLE, "How long", false},
        {NULL, WP_MCP_ARG_STRING, NULL, false},
    };
    json_t *schema = wp_mcp_args_schema(args);
    char *text = json_dumps(schema, JSON_COMPACT);

    (void)state;
    assert_string_equal(
        text, "{\"type\":\"object\",\"properties\":{"
              "\"path\":{\"type\":\"string\",\"description\":\"Where\"},"
              "\"content\":{\"type\":\"string\",\"description\":\"What\"},"
              "\"ms\":{\"type\":\"integer\",\"description\":\"How long\"}},"
              "\"additionalProperties\":false,"
              "\"required\":[\"path\",\"content\"]}");
    free(text);
    json_decref(schema);
    schema = wp_mcp_args_schema(args + 2);
    text = json_dumps(schema, JSON_COMPACT);
    assert_string_equal(
        text, "{\"type\":\"object\",\"properties\":{"
              "\"ms\":{\"type\":\"integer\",\"description\":\"How long\"}},"
              "\"additionalProperties\":false}");
    free(text);
    json_decref(schema);
}

static void
takes_arguments_for_what_they_are(void **state)
{
    static const struct {
        const char *given;
        int64_t whole;
        const char *text;
    } cases[] = {
        {"{}", 0, ""},
        {"{\"a\":\"x y\"}", 0, "x y"},
        {"{\"a\":5}", 5, ""},
        {"{\"a\":-5.0}", -5, ""},
        {"{\"a\":1e12}", INT64_C(1000000000000), ""},
        {"{\"a\":999999999999}", INT64_C(999999999999), ""},
        {"{\"a\":1000000000001}", INT64_C(1000000000000), ""},
        {"{\"a\":9223372036854775807}", INT64_C(1000000000000), ""},
        {"{\"a\":-1e300}", INT64_C(-1000000000000), ""},
        {"{\"a\":-999999999999}", INT64_C(-999999999999), ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *given = json_loads(cases[i].given, 0, NULL);

        assert_non_null(given);
        assert_int_equal(wp_mcp_arg_whole(given, "a"), cases[i].whole);
        assert_string_equal(wp_mcp_arg_string(given, "a"), cases[i].text);
        json_decref(given);
    }
    assert_int_equal(wp_mcp_arg_whole(NULL, "a"), 0);
    assert_string_equal(wp_mcp_arg_string(NULL, "a"), "");
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
    char first[WP_MCP_ID_LEN + 1];
    char second[WP_MCP_ID_LEN + 1];

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
        cmocka_unit_test(tells_progress_to_who_asked),
        cmocka_unit_test(does_not_answer_what_was_cancelled),
        cmocka_unit_test(names_the_argument_that_does_not_fit),
        cmocka_unit_test(tells_what_arguments_are_taken),
        cmocka_unit_test(takes_arguments_for_what_they_are),
        cmocka_unit_test(begins_a_session_only_on_initialize),
        cmocka_unit_test(keeps_the_sessions_used_last),
        cmocka_unit_test(mends_what_is_no_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
