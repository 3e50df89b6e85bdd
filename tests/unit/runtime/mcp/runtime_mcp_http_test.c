/* Requests of MCP clients, and the streams that answer them: what the server is
 * told to send is compared whole with golden/mcp_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

#include <event2/bufferevent.h>
#include <event2/event.h>

#include "runtime/mcp/mcp.h"
#include "runtime/mcp/mcp_tools.h"
#include "runtime/mcp/skills.h"
#include "runtime/runtime.h"
#include "tests/support/pool/manual_clock.h"
#include "tests/support/runtime/fake_http.h"

enum {
    KEPT_CALLS = 256,
};

static struct wp_runtime runtime;
static struct wp_clock_manual hands;
static unsigned randoms;    /* Ids given. */
static unsigned fails_in;   /* 0: no allocation fails. */
static bool no_random;      /* The system gives none. */
static bool no_text;        /* JSON is never written. */
static bool no_description; /* Nor told of tools. */
static bool no_skills;      /* Nor of skills. */
static size_t calls_kept;
static struct {
    wp_mcp_tool_done done;
    void *user;
} calls[KEPT_CALLS];

/* --------------------------------------------------- what lies below */

void __wrap_wp_mcp_tools_call(void *app, const char *name, json_t *args,
                              wp_mcp_tool_done done, void *user);
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags);
const struct wp_clock *__wrap_wp_clock_system(void);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __real_event_add(struct event *event, const struct timeval *tv);
void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
char *__wrap_json_dumps(const json_t *json, size_t flags);
char *__real_json_dumps(const json_t *json, size_t flags);
char *__wrap_wp_skills_list(const char *dir);
json_t *__wrap_wp_mcp_tools_describe(const char *skills);
json_t *__real_wp_mcp_tools_describe(const char *skills);

void
__wrap_wp_mcp_tools_call(void *app, const char *name, json_t *args,
                         wp_mcp_tool_done done, void *user)
{
    char *text = args != NULL ? __real_json_dumps(args, JSON_COMPACT) : NULL;
    json_int_t len = json_integer_value(json_object_get(args, "len"));
    char *big;

    assert_ptr_equal(app, &runtime);
    journal("call %s %s", name, text != NULL ? text : "-");
    journal_line();
    free(text);
    if (strcmp(name, "later") == 0) {
        assert_true(calls_kept < KEPT_CALLS);
        calls[calls_kept].done = done;
        calls[calls_kept++].user = user;
    } else if (strcmp(name, "big") == 0) {
        big = __real_calloc(1, (size_t)len + 1);
        assert_non_null(big);
        memset(big, 'x', (size_t)len);
        done(user, json_string(big), 0, NULL);
        free(big);
    } else if (strcmp(name, "now") == 0) {
        done(user, json_string("here"), 0, NULL);
    } else {
        done(user, NULL, WP_MCP_INVALID_PARAMS, "no such tool");
    }
}

/* Each id is 16 times the number of its order. */
ssize_t
__wrap_getrandom(void *buf, size_t len, unsigned flags)
{
    assert_int_equal(flags, 0);
    if (no_random) {
        return -1;
    }
    memset(buf, (int)(++randoms % 256), len);
    return (ssize_t)len;
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    return &hands.clock;
}

int
__wrap_event_add(struct event *event, const struct timeval *tv)
{
    journal("tick in %ld.%06ld s", (long)tv->tv_sec, (long)tv->tv_usec);
    journal_line();
    return __real_event_add(event, tv);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    if (fails_in > 0 && --fails_in == 0) {
        return NULL;
    }
    return __real_calloc(n, size);
}

char *
__wrap_json_dumps(const json_t *json, size_t flags)
{
    return no_text ? NULL : __real_json_dumps(json, flags);
}

char *
__wrap_wp_skills_list(const char *dir)
{
    assert_string_equal(dir, "/the/skills");
    return no_skills ? NULL : strdup("- one: the first");
}

json_t *
__wrap_wp_mcp_tools_describe(const char *skills)
{
    assert_string_equal(skills, "- one: the first");
    return no_description ? NULL : json_array();
}

/* ------------------------------------------------------------- requests */

#define RPC(rest) "{\"jsonrpc\":\"2.0\"," rest "}"
#define CALL(id, name)                                                         \
    RPC("\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":"        \
        "\"" name "\"}")
#define CALL_WITH(id, name, rest)                                              \
    RPC("\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":"        \
        "\"" name "\"," rest "}")
#define LATER CALL("1", "later")
#define EVENTS "Accept", "text/event-stream"
#define BOTH "Accept", "application/json, text/event-stream"
#define NEWEST "MCP-Protocol-Version", "2025-11-25"
#define SESSION(id) "Mcp-Session-Id", id
#define ID_1 "01010101010101010101010101010101"
#define ID_2 "02020202020202020202020202020202"
#define ID_3 "03030303030303030303030303030303"

/* A request of that name, with headers. */
#define REQUEST(method_, name_, text, ...)                                     \
    (struct wp_http_req)                                                       \
    {                                                                          \
        .name = (name_), .app = &runtime, .ops = &wp_mcp_ops,                  \
        .method = (method_), .path = "/mcp", .body = (text),                   \
        .headers = {__VA_ARGS__},                                              \
    }
#define POST(name, text, ...) REQUEST("POST", name, text, __VA_ARGS__)
#define GET(name, ...) REQUEST("GET", name, NULL, __VA_ARGS__)

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/mcp_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static void
ask(struct wp_http_req *req)
{
    wp_mcp_ops.ready(req);
}

/* From its begin to its end. */
static void
ask_once(struct wp_http_req req)
{
    ask(&req);
    fake_http_gone(&req);
}

/* Whether something is open, and what is kept. */
static void
state(void)
{
    const struct wp_mcp_streams *streams = &runtime.mcp->streams;

    journal("= tick %s, kept %u, %zu bytes",
            event_pending(streams->tick, EV_TIMEOUT, NULL) ? "waits" : "is off",
            streams->kept_count, streams->kept_bytes);
    journal_line();
}

static void
tick(int64_t after_ms)
{
    hands.now_mono_ns += after_ms * WP_NS_PER_MS;
    event_active(runtime.mcp->streams.tick, EV_TIMEOUT, 0);
    assert_int_equal(event_base_loop(runtime.base, EVLOOP_NONBLOCK), 0);
}

/* The call that was kept as number i is over. */
static void
over(size_t i, const char *text)
{
    calls[i].done(calls[i].user, json_string(text), 0, NULL);
}

static int
begin(void **state)
{
    (void)state;
    wp_clock_manual_init(&hands, 1000 * WP_NS_PER_S, 0);
    memset(&runtime, 0, sizeof runtime);
    randoms = 0;
    calls_kept = 0;
    runtime.options.progress_ms = 2500;
    runtime.options.skills_dir = "/the/skills";
    runtime.base = event_base_new();
    assert_non_null(runtime.base);
    runtime.mcp = wp_mcp_create(&runtime);
    assert_non_null(runtime.mcp);
    journal_is("");
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wp_mcp_destroy(runtime.mcp);
    event_base_free(runtime.base);
    return 0;
}

/* ---------------------------------------------------------------- tests */

static void
headers_are_judged_before_the_message(void **state)
{
    static const char ping[] = RPC("\"id\":1,\"method\":\"ping\"");

    (void)state;
    say("kinds of content");
    ask_once(POST("none", ping, NULL));
    ask_once(POST("json", ping, "Content-Type", "application/json"));
    ask_once(POST("charset", ping, "Content-Type",
                  "APPLICATION/JSON; charset=utf-8"));
    ask_once(POST("text", ping, "Content-Type", "text/plain"));
    ask_once(POST("cut", ping, "Content-Type", "application/jso"));
    say("kinds of answers");
    ask_once(POST("all", ping, "Accept", "*/*"));
    ask_once(POST("any application", ping, "Accept", "Application/*"));
    ask_once(POST("any text", ping, "Accept", "TEXT/*"));
    ask_once(POST("JSON", ping, "Accept", "Application/Json"));
    ask_once(POST("events", ping, "Accept", "text/Event-Stream"));
    ask_once(POST("both", ping, BOTH));
    ask_once(POST("neither", ping, "Accept", "image/png"));
    ask_once(GET("get none", NULL));
    ask_once(GET("get json", "Accept", "application/json"));
    ask_once(GET("get events", EVENTS));
    ask_once(
        GET("get with a body's kind", EVENTS, "Content-Type", "image/png"));
    say("revisions");
    ask_once(POST("known", ping, "MCP-Protocol-Version", "2024-11-05"));
    ask_once(POST("unknown", ping, "MCP-Protocol-Version", "2024-11-06"));
    ask_once(POST("batch without", "[" RPC("\"id\":1,\"method\":\"ping\"") "]",
                  NULL));
    ask_once(POST("batch with", "[" RPC("\"id\":1,\"method\":\"ping\"") "]",
                  "MCP-Protocol-Version", "2025-03-26"));
    ask_once(POST("batch too new", "[" RPC("\"id\":1,\"method\":\"ping\"") "]",
                  NEWEST));
    say("sessions");
    ask_once(POST("stranger", ping, SESSION(ID_1)));
    ask_once(GET("get stranger", EVENTS, SESSION(ID_1)));
    say("methods");
    ask_once(REQUEST("PUT", "put", ping, NULL));
    ask_once(REQUEST("DELETE", "delete none", NULL, NULL));
    ask_once(REQUEST("DELETE", "delete stranger", NULL, SESSION(ID_1)));
    golden("headers");
    assert_int_equal(wp_mcp_ops.body_max, 32 << 20);
}

static void
a_session_begins_and_ends(void **state)
{
    static const char hello[] = RPC("\"id\":1,\"method\":\"initialize\"");
    static const char ping[] = RPC("\"id\":1,\"method\":\"ping\"");

    (void)state;
    ask_once(POST("hello", hello, NULL));
    ask_once(POST("ping", ping, SESSION(ID_2)));
    ask_once(POST("hello as events", hello, EVENTS));
    say("without a random number");
    no_random = true;
    ask_once(POST("no id", ping, NULL));
    no_random = false;
    say("the end");
    ask_once(REQUEST("DELETE", "delete", NULL, SESSION(ID_2)));
    ask_once(REQUEST("DELETE", "again", NULL, SESSION(ID_2)));
    ask_once(POST("later", ping, SESSION(ID_2)));
    golden("sessions");
}

static void
what_is_there_at_once_is_answered_at_once(void **state)
{
    /* What is around a string of the answer. */
    const int around = (int)strlen(RPC("\"id\":1,\"result\":\"\""));
    char text[256];

    (void)state;
    ask_once(POST("plain", CALL("1", "now"), NULL));
    ask_once(POST("event", CALL("1", "now"), EVENTS));
    ask_once(POST("failed", CALL("1", "none"), EVENTS));
    ask_once(POST("notification", RPC("\"method\":\"x\""), EVENTS));
    ask_once(POST("bad", "{", EVENTS));
    say("the longest event, and one more");
    for (int more = 0; more < 2; more++) {
        (void)snprintf(text, sizeof text,
                       CALL_WITH("1", "big", "\"arguments\":{\"len\":%d}"),
                       WP_MCP_EVENT_BYTES - around + more);
        ask_once(POST("both", text, BOTH));
        ask_once(POST("events", text, EVENTS));
        ask_once(POST("json", text, NULL));
    }
    say("no memory for the text");
    no_text = true;
    ask_once(POST("event", CALL("1", "now"), EVENTS));
    ask_once(POST("json", CALL("1", "now"), NULL));
    no_text = false;
    golden("at_once");
}

static void
a_call_that_lasts_is_a_stream_of_events(void **st)
{
    struct wp_http_req plain = POST("plain", LATER, NULL);
    struct wp_http_req events = POST("events", LATER, EVENTS);
    struct wp_http_req primed =
        POST("primed",
             CALL_WITH("2", "later", "\"_meta\":{\"progressToken\":\"mine\"}"),
             BOTH, NEWEST);
    struct wp_http_req older =
        POST("older", LATER, EVENTS, "MCP-Protocol-Version", "2025-06-18");

    (void)st;
    ask(&plain);
    ask(&events);
    ask(&primed);
    ask(&older);
    state();
    say("a tick");
    tick(2500);
    state();
    say("one is far behind");
    assert_int_equal(evbuffer_expand(wp_http_stream_output(&events), 65537), 0);
    for (int i = 0; i < 65536; i++) {
        assert_int_equal(evbuffer_add(events.out, "x", 1), 0);
    }
    tick(1750);
    assert_int_equal(evbuffer_add(events.out, "x", 1), 0);
    tick(250);
    evbuffer_free(events.out);
    events.out = NULL;
    say("answers");
    over(0, "plain is over");
    over(1, "events is over");
    over(2, "primed is over");
    state();
    over(3, "older is over");
    state();
    fake_http_gone(&plain);
    say("what is kept is had by who asks for it");
    ask_once(GET("after 0", EVENTS, "Last-Event-ID", ID_3 "-0"));
    ask_once(GET("after 1", EVENTS, "Last-Event-ID", ID_3 "-1"));
    ask_once(GET("after 2", EVENTS, "Last-Event-ID", ID_3 "-2"));
    ask_once(GET("after 3", EVENTS, "Last-Event-ID", ID_3 "-3"));
    ask_once(GET("events' own", EVENTS, "Last-Event-ID", ID_2 "-0"));
    ask_once(GET("plain's", EVENTS, "Last-Event-ID", ID_1 "-0"));
    say("what is no number of an event");
    ask_once(GET("no number", EVENTS, "Last-Event-ID", ID_3 "-"));
    ask_once(GET("a word", EVENTS, "Last-Event-ID", ID_3 "-x"));
    ask_once(GET("no dash", EVENTS, "Last-Event-ID", ID_3 "+0"));
    ask_once(GET("short", EVENTS, "Last-Event-ID", "1-0"));
    ask_once(GET("empty", EVENTS, "Last-Event-ID", ""));
    golden("streams");
}

static void
a_stream_is_taken_up_again(void **st)
{
    struct wp_http_req first = POST("first", LATER, EVENTS, NEWEST);
    struct wp_http_req second =
        GET("second", EVENTS, "Last-Event-ID", ID_1 "-0");
    struct wp_http_req third = GET("third", EVENTS, "Last-Event-ID", ID_1 "-0");

    (void)st;
    ask(&first);
    say("the first has gone, and is told nothing");
    fake_http_gone(&first);
    tick(2500);
    state();
    say("the second");
    ask(&second);
    tick(2500);
    say("the third, while the second seems to be there");
    ask(&third);
    tick(2500);
    over(0, "over");
    state();
    say("an answer that nobody hears is kept");
    first = POST("lost", LATER, EVENTS);
    ask(&first);
    fake_http_gone(&first);
    over(1, "kept");
    state();
    ask_once(GET("again", EVENTS, "Last-Event-ID", ID_2 "-0"));
    ask_once(GET("from the start", EVENTS, "Last-Event-ID", ID_1 "-0"));
    say("a plain one is not");
    first = POST("plain", LATER, NULL);
    ask(&first);
    fake_http_gone(&first);
    over(2, "lost");
    state();
    say("nor one that no text could be made of");
    first = POST("no text", LATER, EVENTS);
    ask(&first);
    no_text = true;
    over(3, "x");
    no_text = false;
    state();
    say("nor an answer that is none");
    first = POST("cancelled", LATER, EVENTS);
    ask(&first);
    ask_once(POST("cancel",
                  RPC("\"method\":\"notifications/cancelled\",\"params\":"
                      "{\"requestId\":1}"),
                  NULL));
    over(4, "x");
    state();
    golden("resumed");
}

static void
a_connection_half_closed_is_still_answered(void **st)
{
    struct wp_http_req req = POST("half", LATER, EVENTS);

    (void)st;
    ask(&req);
    assert_null(req.stream->input);
    assert_null(req.stream->drained);
    req.stream->event(&req, BEV_EVENT_EOF | BEV_EVENT_READING);
    req.left = true;
    req.stream->event(&req, BEV_EVENT_EOF);
    state();
    req = GET("back", EVENTS, "Last-Event-ID", ID_1 "-0");
    ask(&req);
    req.stream->event(&req, BEV_EVENT_ERROR);
    state();
    over(0, "over");
    state();
    golden("half_closed");
}

/* One is answered with len bytes. */
static void
answer_and_keep(size_t len)
{
    struct wp_http_req req = POST("one", LATER, EVENTS, NEWEST);
    char *text = __real_calloc(1, len + 1);

    assert_non_null(text);
    memset(text, 'y', len);
    ask(&req);
    over(calls_kept - 1, text);
    free(text);
}

static void
the_oldest_answers_make_room(void **st)
{
    (void)st;
    for (size_t i = 0; i < WP_MCP_KEPT_MAX; i++) {
        answer_and_keep(1);
    }
    journal_drop();
    state();
    say("one more");
    answer_and_keep(1);
    state();
    ask_once(GET("the first", EVENTS, "Last-Event-ID", ID_1 "-0"));
    ask_once(GET("the second", EVENTS, "Last-Event-ID", ID_2 "-0"));
    golden("room");
}

static void
the_longest_answers_make_room(void **st)
{
    /* What is around a text in its event. */
    const size_t around = strlen("event: message\nid: " ID_1 "-1\ndata: " RPC(
        "\"id\":1,\"result\":\"\"") "\n\n");

    (void)st;
    answer_and_keep(1 << 20);
    answer_and_keep(WP_MCP_KEPT_BYTES - (1 << 20) - 2 * around);
    state();
    say("one byte too many");
    answer_and_keep(1);
    state();
    say("one alone may have more");
    answer_and_keep(WP_MCP_KEPT_BYTES + 1);
    state();
    say("until there is another");
    answer_and_keep(1);
    state();
    golden("longest");
}

static void
a_get_without_a_call_hears_nothing_but_comments(void **st)
{
    static const char hello[] = RPC("\"id\":1,\"method\":\"initialize\"");
    struct wp_http_req first = GET("first", EVENTS, SESSION(ID_2));
    struct wp_http_req second = GET("second", EVENTS, SESSION(ID_2));
    struct wp_http_req other;

    (void)st;
    ask_once(POST("hello", hello, NULL)); /* Session 2. */
    ask_once(POST("hello", hello, NULL)); /* Session 4. */
    other = GET("other", EVENTS, SESSION("04040404040404040404040404040404"));
    ask(&first);
    ask(&other);
    tick(2500);
    say("the newest counts");
    ask(&second);
    tick(2500);
    say("it is no stream to come back to");
    ask_once(GET("back", EVENTS, SESSION(ID_2), "Last-Event-ID",
                 "07070707070707070707070707070707-0"));
    say("it goes");
    fake_http_gone(&second);
    state();
    tick(2500);
    say("no memory for one");
    fails_in = 1;
    ask_once(GET("none", EVENTS, SESSION(ID_2)));
    say("the server is to stop");
    wp_mcp_drain(runtime.mcp);
    state();
    golden("listening");
}

static void
the_end_of_a_session_ends_its_streams(void **st)
{
    static const char hello[] = RPC("\"id\":1,\"method\":\"initialize\"");
    struct wp_http_req listening = GET("listening", EVENTS, SESSION(ID_2));
    struct wp_http_req events = POST("events", LATER, EVENTS, SESSION(ID_2));
    struct wp_http_req kept = POST("kept", LATER, EVENTS, SESSION(ID_2));
    struct wp_http_req plain = POST("plain", LATER, NULL, SESSION(ID_2));
    struct wp_http_req left = POST("left", LATER, NULL, SESSION(ID_2));
    struct wp_http_req free_one = POST("free", LATER, EVENTS);

    (void)st;
    ask_once(POST("hello", hello, NULL)); /* Session 2. */
    ask(&listening);
    ask(&events);
    ask(&kept);
    over(1, "kept");
    ask(&plain);
    ask(&left);
    fake_http_gone(&left);
    ask(&free_one);
    state();
    ask_once(GET("without its session", EVENTS, "Last-Event-ID",
                 "04040404040404040404040404040404-0"));
    ask_once(GET("of no session", EVENTS, SESSION(ID_2), "Last-Event-ID",
                 "08080808080808080808080808080808-0"));
    ask_once(REQUEST("DELETE", "delete", NULL, SESSION(ID_2)));
    state();
    tick(2500);
    say("their calls end unheard");
    over(0, "x");
    over(2, "x");
    over(3, "x");
    state();
    over(4, "the free one goes on");
    state();
    golden("session_end");
}

static void
a_call_is_cancelled_by_its_own_session(void **st)
{
    static const char hello[] = RPC("\"id\":1,\"method\":\"initialize\"");
    static const char cancel[] = RPC("\"method\":\"notifications/cancelled\","
                                     "\"params\":{\"requestId\":1}");
    struct wp_http_req mine = POST("mine", LATER, EVENTS, SESSION(ID_2));
    struct wp_http_req free_one = POST("free", LATER, NULL);
    struct wp_http_req two = POST("two", CALL("2", "later"), EVENTS);

    (void)st;
    ask_once(POST("hello", hello, NULL)); /* Session 2. */
    ask(&mine);
    ask(&two);
    ask(&free_one);
    say("one without a session");
    ask_once(POST("cancel", cancel, NULL));
    ask_once(POST("again", cancel, NULL));
    state();
    say("one of the session");
    ask_once(POST("cancel", cancel, SESSION(ID_2)));
    state();
    over(0, "x");
    over(2, "x");
    say("the last");
    over(1, "two is over");
    fake_http_gone(&free_one);
    golden("cancelled");
}

static void
memory_may_lack_at_each_step(void **st)
{
    (void)st;
    for (unsigned i = 1; i <= 4; i++) {
        fails_in = i;
        ask_once(POST("lacks", CALL("1", "now"), EVENTS));
        journal("%u left", fails_in);
        journal_line();
    }
    fails_in = 0;
    golden("no_memory");
}

static void
there_is_no_server_without_memory(void **st)
{
    (void)st;
    fails_in = 1;
    assert_null(wp_mcp_create(&runtime));
    no_skills = true;
    assert_null(wp_mcp_create(&runtime));
    no_skills = false;
    no_description = true;
    assert_null(wp_mcp_create(&runtime));
    no_description = false;
    wp_mcp_destroy(NULL);
}

/* Alone, and among others: what it is that makes it none. */
static void
what_is_no_message_is_refused(void **state)
{
    static const char *const messages[] = {
        "1",
        "\"text\"",
        "null",
        "[]",
        "{}",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
        "{\"jsonrpc\":2.0,\"id\":\"a\",\"method\":\"ping\"}",
        "{\"id\":[],\"method\":\"ping\"}",
        RPC("\"id\":1.5,\"method\":\"ping\""),
        RPC("\"id\":null,\"method\":\"ping\""),
        RPC("\"id\":1"),
        RPC("\"id\":\"b\",\"method\":7"),
        RPC("\"method\":7"),
        RPC("\"id\":1,\"result\":{}"),
        RPC("\"id\":1,\"error\":{}"),
        RPC("\"result\":{}"),
        RPC("\"id\":1,\"method\":\"none\""),
        RPC("\"method\":\"none\""),
        RPC("\"id\":2,\"method\":\"tools/call\""),
        RPC("\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":1}"),
        CALL_WITH("3", "now", "\"arguments\":1"),
        CALL_WITH("3", "now", "\"arguments\":[]"),
        CALL_WITH("3", "now", "\"arguments\":null"),
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(messages); i++) {
        char both[512];

        journal("-- ");
        journal("%s", messages[i]);
        journal_line();
        ask_once(POST("A", messages[i], BOTH));
        (void)snprintf(both, sizeof both, "[%s,%s]", messages[i],
                       RPC("\"id\":9,\"method\":\"ping\""));
        ask_once(POST("B", both, BOTH, "MCP-Protocol-Version", "2025-03-26"));
    }
    golden("no_messages");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        ONE(headers_are_judged_before_the_message),
        ONE(what_is_no_message_is_refused),
        ONE(a_session_begins_and_ends),
        ONE(what_is_there_at_once_is_answered_at_once),
        ONE(a_call_that_lasts_is_a_stream_of_events),
        ONE(a_stream_is_taken_up_again),
        ONE(a_connection_half_closed_is_still_answered),
        ONE(the_oldest_answers_make_room),
        ONE(the_longest_answers_make_room),
        ONE(a_get_without_a_call_hears_nothing_but_comments),
        ONE(the_end_of_a_session_ends_its_streams),
        ONE(a_call_is_cancelled_by_its_own_session),
        ONE(memory_may_lack_at_each_step),
        ONE(there_is_no_server_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
