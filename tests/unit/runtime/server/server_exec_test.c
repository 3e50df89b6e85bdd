/* POST /v1/exec: what is asked of the command and sent to the client is
 * compared whole with golden/exec_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"
#include "runtime/server/exec_stream.h"
#include "tests/support/base/heard.h"
#include "tests/support/runtime/fake_http.h"
#include "tests/support/runtime/fake_process.h"
#include "tests/support/runtime/workspace_rig.h"

enum {
    HIGH = 65536,         /* Of what waits for the command. */
    OUTPUT_HIGH = 262144, /* Of what waits for the client. */
    PAYLOAD = WP_EXEC_PAYLOAD_MAX,
};

static struct wp_http_req req;
static struct evbuffer *in; /* What the client has sent. */
static char many[PAYLOAD + 1];

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/exec_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static int
begin(void **state)
{
    (void)workspace_begin(state);
    memset(&fake_processes, 0, sizeof fake_processes);
    memset(many, 'm', sizeof many);
    workspace_runtime.processes =
        (struct wp_process_table *)(void *)&fake_processes;
    in = evbuffer_new();
    assert_non_null(in);
    assert_int_equal(setenv("WPT_INHERITED", "yes", 1), 0);
    return 0;
}

static int
end(void **state)
{
    evbuffer_free(in);
    return workspace_end(state);
}

static void
ask(const char *body)
{
    req = (struct wp_http_req){.name = "exec",
                               .app = &workspace_runtime,
                               .ops = &wp_exec_session_ops,
                               .method = "POST",
                               .path = "/v1/exec",
                               .body = body,
                               .upgrades = true};
    req.ops->ready(&req);
}

static void
ask_once(const char *body)
{
    struct heard heard;

    heard_begin(&heard);
    ask(body);
    fake_http_gone(&req);
    (void)heard_end(&heard);
}

static void
run(void)
{
    journal_mute(true);
    ask("{\"argv\":[\"cat\"]}");
    journal_mute(false);
}

/* The bytes of a frame come in. */
static void
frame(uint8_t type, uint32_t len, const void *payload, size_t given)
{
    uint8_t head[WP_EXEC_HEAD_LEN];

    wp_exec_frame_pack((struct wp_exec_frame){type, len}, head);
    assert_int_equal(evbuffer_add(in, head, sizeof head), 0);
    assert_int_equal(evbuffer_add(in, payload, given), 0);
}

static void
input(void)
{
    req.stream->input(&req, in);
    fake_http_flush(&req);
    journal("= %zu bytes wait", evbuffer_get_length(in));
    journal_line();
    if (req.user == NULL) {
        evbuffer_drain(in, evbuffer_get_length(in));
    }
}

/* ----------------------------------------------------------------- tests */

/* count strings, as an array or as the values of an object. */
static char *
list_of(const char *before, size_t count, bool named, const char *after)
{
    char *text = malloc(64 + count * 24);
    size_t len;

    assert_non_null(text);
    len = (size_t)sprintf(text, "%s", before);
    for (size_t i = 0; i < count; i++) {
        len +=
            (size_t)(named ? sprintf(text + len, "%s\"N%zu\":\"x\"",
                                     i > 0 ? "," : "", i)
                           : sprintf(text + len, "%s\"w\"", i > 0 ? "," : ""));
    }
    (void)sprintf(text + len, "%s", after);
    return text;
}

static void
the_request_is_held_against_its_fields(void **state)
{
    static const char *const bodies[] = {
        "{\"argv\":[\"sh\",\"-c\",\"true\"]}",
        "{\"argv\":[\"a\"],\"cwd\":\"/tmp\",\"timeout_ms\":0}",
        "{\"argv\":[\"a\",\"\"],\"timeout_ms\":1500,\"env\":{}}",
        "{\"argv\":[\"a\"],\"env\":{\"WPT_ONE\":\"1\",\"WPT_TWO\":\"\"}}",
        "{\"argv\":[\"a\"],\"env\":{\"WPT_INHERITED\":\"no\"}}",
        "",
        "x",
        "[]",
        "{}",
        "{\"argv\":[]}",
        "{\"argv\":\"sh\"}",
        "{\"argv\":[1]}",
        "{\"argv\":[\"a\",null]}",
        "{\"argv\":[\"a\\u0000b\"]}",
        "{\"argv\":[\"a\"],\"cwd\":1}",
        "{\"argv\":[\"a\"],\"cwd\":null}",
        "{\"argv\":[\"a\"],\"timeout_ms\":-1}",
        "{\"argv\":[\"a\"],\"timeout_ms\":1.0}",
        "{\"argv\":[\"a\"],\"timeout_ms\":\"1\"}",
        "{\"argv\":[\"a\"],\"env\":[]}",
        "{\"argv\":[\"a\"],\"env\":{\"N\":1}}",
        "{\"argv\":[\"a\"],\"env\":{\"A=B\":\"x\"}}",
        "{\"argv\":[\"a\"],\"env\":{\"\":\"x\"}}",
    };
    char *text;

    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof(bodies[0]); i++) {
        say(bodies[i]);
        ask_once(bodies[i]);
    }
    say("a folder was brought");
    fake_processes.bound = true;
    ask_once("{\"argv\":[\"a\"]}");
    ask_once("{\"argv\":[\"a\"],\"cwd\":\"/tmp\"}");
    golden("requests");
    say("most words and variables, and one more");
    for (size_t more = 0; more < 2; more++) {
        text = list_of("{\"argv\":[", 4096 + more, false, "]}");
        ask_once(text);
        journal_line();
        free(text);
        text = list_of("{\"argv\":[\"a\"],\"env\":{", 1024 + more, true, "}}");
        ask_once(text);
        free(text);
    }
    golden("longest");
    assert_int_equal(wp_exec_session_ops.body_max, 4 << 20);
}

static void
what_cannot_start_is_told(void **state)
{
    static const enum wp_status kinds[] = {WP_RESOURCE_EXHAUSTED, WP_NOT_FOUND,
                                           WP_PERMISSION_DENIED};
    unsigned nth = 0;

    (void)state;
    req = (struct wp_http_req){.name = "plain",
                               .app = &workspace_runtime,
                               .ops = &wp_exec_session_ops,
                               .body = "{\"argv\":[\"a\"]}"};
    req.ops->ready(&req);
    fake_http_gone(&req);
    for (size_t i = 0; i < sizeof kinds / sizeof(kinds[0]); i++) {
        fake_processes.refuses = kinds[i];
        ask_once("{\"argv\":[\"a\"]}");
    }
    fake_processes.refuses = WP_OK;
    do {
        journal("-- calloc %u", ++nth);
        journal_line();
        fault_set("calloc", nth, ENOMEM);
        ask_once("{\"argv\":[\"a\"],\"env\":{\"WPT_ONE\":\"1\"}}");
    } while (fault_clear());
    golden("refused");
}

static void
output_comes_in_frames(void **state)
{
    (void)state;
    run();
    fake_process_says(WP_PROCESS_STDOUT, "out", 3);
    fake_process_says(WP_PROCESS_STDERR, "errors", 6);
    fake_http_flush(&req);
    say("as much as a frame holds, and one byte more");
    fake_process_says(WP_PROCESS_STDOUT, many, PAYLOAD);
    journal("%zu bytes", evbuffer_get_length(req.out));
    journal_line();
    evbuffer_drain(req.out, PAYLOAD + 8);
    fake_process_says(WP_PROCESS_STDERR, many, PAYLOAD + 1);
    journal("%zu bytes", evbuffer_get_length(req.out));
    journal_line();
    evbuffer_drain(req.out, PAYLOAD + 8);
    fake_http_flush(&req);
    say("much waits for the client, and more than that");
    for (int i = 0; i < 3; i++) {
        fake_process_says(WP_PROCESS_STDOUT, many, PAYLOAD);
    }
    fake_process_says(WP_PROCESS_STDOUT, many, PAYLOAD - 4 * 8);
    assert_int_equal(evbuffer_get_length(req.out), OUTPUT_HIGH);
    req.stream->drained(&req);
    say("more");
    fake_process_says(WP_PROCESS_STDERR, "x", 1);
    evbuffer_drain(req.out, evbuffer_get_length(req.out));
    say("drained");
    req.stream->drained(&req);
    req.stream->drained(&req);
    fake_http_gone(&req);
    golden("output");
}

static void
the_end_is_told(void **state)
{
    static const struct wp_process_result ends[] = {
        {.exit_code = 0},
        {.exit_code = 3, .duration_ns = 1234567890},
        {.exit_code = -1, .signal = 9},
        {.exit_code = -1, .signal = 15, .timed_out = true},
    };
    struct heard heard;

    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof(ends[0]); i++) {
        const char *log;

        run();
        heard_begin(&heard);
        fake_process_ends(ends[i], "", "");
        log = heard_end(&heard);
        journal("log: %s", log);
        journal_line();
    }
    say("the client leaves before");
    run();
    heard_begin(&heard);
    fake_http_gone(&req);
    {
        const char *log = heard_end(&heard);

        journal("log: %s", log);
        journal_line();
    }
    say("held, with more to come");
    run();
    for (int i = 0; i < 5; i++) {
        fake_process_says(WP_PROCESS_STDOUT, many, PAYLOAD);
    }
    evbuffer_drain(req.out, evbuffer_get_length(req.out));
    heard_begin(&heard);
    fake_process_ends(ends[0], "", "");
    (void)heard_end(&heard);
    golden("ends");
}

static void
input_goes_to_the_command(void **state)
{
    (void)state;
    run();
    say("in pieces");
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(evbuffer_add(in, "\0", 1), 0);
    }
    input();
    assert_int_equal(evbuffer_add(in, "\0\0\0\0\5ab", 7), 0);
    input();
    assert_int_equal(evbuffer_add(in, "cde", 3), 0);
    input();
    say("two frames, and an empty one");
    frame(WP_EXEC_STDIN, 1, "1", 1);
    frame(WP_EXEC_STDIN, 0, "", 0);
    frame(WP_EXEC_STDIN, 2, "22", 2);
    input();
    say("signals");
    frame(WP_EXEC_SIGNAL, 1, "\1", 1);
    frame(WP_EXEC_SIGNAL, 1, "\x40", 1);
    frame(WP_EXEC_SIGNAL, 1, "", 0);
    input();
    assert_int_equal(evbuffer_add(in, "\2", 1), 0);
    input();
    say("the end of input, and what follows");
    frame(WP_EXEC_STDIN_EOF, 0, "", 0);
    frame(WP_EXEC_STDIN, 3, "333", 3);
    frame(WP_EXEC_SIGNAL, 1, "\x0f", 1);
    input();
    fake_http_gone(&req);
    golden("input");
}

static void
a_client_waits_while_the_command_is_behind(void **state)
{
    (void)state;
    run();
    say("as much as may wait");
    frame(WP_EXEC_STDIN, PAYLOAD, many, PAYLOAD);
    frame(WP_EXEC_STDIN, 3, "abc", 3);
    input();
    say("the command takes some");
    fake_processes.queued = HIGH;
    fake_processes.events->stdin_room(fake_processes.user);
    input();
    fake_processes.queued = HIGH + 1;
    frame(WP_EXEC_STDIN, 3, "def", 3);
    input();
    fake_processes.queued = 0;
    input();
    fake_http_gone(&req);
    golden("behind");
}

static void
what_breaks_the_protocol_ends_it(void **state)
{
    static const struct {
        uint8_t head[WP_EXEC_HEAD_LEN];
        uint8_t payload;
    } bad[] = {
        {{WP_EXEC_STDIN, 1, 0, 0, 0, 0, 0, 0}, 0},
        {{WP_EXEC_STDIN, 0, 1, 0, 0, 0, 0, 0}, 0},
        {{WP_EXEC_STDIN, 0, 0, 1, 0, 0, 0, 0}, 0},
        {{WP_EXEC_STDIN, 0, 0, 0, 0, 1, 0, 1}, 0},
        {{WP_EXEC_STDIN, 0, 0, 0, 1, 0, 0, 0}, 0},
        {{WP_EXEC_STDIN_EOF, 0, 0, 0, 0, 0, 0, 1}, 0},
        {{WP_EXEC_SIGNAL, 0, 0, 0, 0, 0, 0, 0}, 0},
        {{WP_EXEC_SIGNAL, 0, 0, 0, 0, 0, 0, 2}, 1},
        {{3, 0, 0, 0, 0, 0, 0, 0}, 0},
        {{WP_EXEC_STDOUT, 0, 0, 0, 0, 0, 0, 0}, 0},
        {{WP_EXEC_EXIT, 0, 0, 0, 0, 0, 0, 0}, 0},
        {{WP_EXEC_SIGNAL, 0, 0, 0, 0, 0, 0, 1}, 0},
        {{WP_EXEC_SIGNAL, 0, 0, 0, 0, 0, 0, 1}, NSIG},
        {{WP_EXEC_SIGNAL, 0, 0, 0, 0, 0, 0, 1}, NSIG - 1},
        {{WP_EXEC_STDIN, 0, 0, 0, 0, 1, 0, 0}, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof(bad[0]); i++) {
        run();
        journal("-- %zu", i);
        journal_line();
        assert_int_equal(evbuffer_add(in, bad[i].head, WP_EXEC_HEAD_LEN), 0);
        assert_int_equal(evbuffer_add(in, &bad[i].payload, 1), 0);
        req.stream->input(&req, in);
        journal("= %zu bytes wait", evbuffer_get_length(in));
        journal_line();
        evbuffer_drain(in, evbuffer_get_length(in));
        if (req.out != NULL || i >= sizeof bad / sizeof(bad[0]) - 2) {
            fake_http_gone(&req);
        }
    }
    golden("protocol");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        ONE(the_request_is_held_against_its_fields),
        ONE(what_cannot_start_is_told),
        ONE(output_comes_in_frames),
        ONE(the_end_is_told),
        ONE(input_goes_to_the_command),
        ONE(a_client_waits_while_the_command_is_behind),
        ONE(what_breaks_the_protocol_ends_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
