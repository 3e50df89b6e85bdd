/* process.v1 between gRPC and commands that never run: what each call asks of
 * the command, and what it is answered, is compared whole with
 * golden/process_*.txt. Requests stand here as text: what their bytes mean is
 * the affair of process_wire.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

#include "runtime/runtime.h"
#include "runtime/sandboxd/grpc.h"
#include "runtime/sandboxd/process_service.h"
#include "runtime/sandboxd/process_wire.h"
#include "tests/support/base/heard.h"
#include "tests/support/runtime/fake_http.h"
#include "tests/support/runtime/fake_process.h"
#include "tests/support/runtime/workspace_rig.h"

enum {
    CALLS_MAX = 600,
    HIGH = 256 << 10,      /* Of what waits for the client. */
    STDIN_HIGH = 64 << 10, /* Of what waits for the command. */
    WAITING_BYTES = 8 << 20,
};

enum {
    START,
    EXECUTE,
    INPUT,
    SIGNAL,
    RESIZE
};

static struct wp_process_service *service;
static struct wp_grpc_config given; /* What gRPC was given. */
static struct wp_grpc_call calls[CALLS_MAX];
static size_t n_calls;
static size_t queued; /* What a send leaves. */
static bool no_grpc;  /* It cannot be made. */
static unsigned sends_fail_in;
static uint32_t running; /* Commands. */
static bool no_terminal;
static bool on_terminal; /* What is started asks for one. */

/* --------------------------------------------------- what lies below */

struct wp_grpc *__wrap_wp_grpc_create(const struct wp_grpc_config *config,
                                      struct wp_err *err);
int32_t __wrap_wp_grpc_port(const struct wp_grpc *grpc);
void __wrap_wp_grpc_drain(struct wp_grpc *grpc, void (*drained)(void *arg),
                          void *arg);
void __wrap_wp_grpc_destroy(struct wp_grpc *grpc);
void *__wrap_wp_grpc_app(const struct wp_grpc_call *call);
size_t __wrap_wp_grpc_send(struct wp_grpc_call *call, uint8_t *message,
                           size_t len);
void __wrap_wp_grpc_finish(struct wp_grpc_call *call, enum wp_status status,
                           const char *details);
uint32_t __wrap_wp_process_table_running(const struct wp_process_table *table);
bool __wrap_wp_process_resize(struct wp_process *process,
                              const struct winsize *size);
bool __wrap_wp_runtime_token_fits(const struct wp_options *options,
                                  const char *path, const char *token);
enum wp_status __wrap_wp_process_ask_read(const uint8_t *bytes, size_t len,
                                          bool start,
                                          struct wp_process_ask *ask,
                                          struct wp_err *err);
enum wp_status __wrap_wp_process_input_read(const uint8_t *bytes, size_t len,
                                            struct wp_process_input *in,
                                            struct wp_err *err);
enum wp_status __wrap_wp_process_signal_read(const uint8_t *bytes, size_t len,
                                             int32_t *id, int *number,
                                             struct wp_err *err);
enum wp_status __wrap_wp_process_resize_read(const uint8_t *bytes, size_t len,
                                             int32_t *id, struct winsize *size,
                                             struct wp_err *err);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __real_event_add(struct event *event, const struct timeval *tv);

static int
number_of(const struct wp_grpc_call *call)
{
    return (int)(call - calls);
}

struct wp_grpc *
__wrap_wp_grpc_create(const struct wp_grpc_config *config, struct wp_err *err)
{
    given = *config;
    assert_ptr_equal(config->base, workspace_runtime.base);
    journal("grpc %s %u", config->listen, config->connections_max);
    for (size_t i = 0; config->methods[i].path != NULL; i++) {
        journal(" %s%s", config->methods[i].path,
                config->methods[i].sent != NULL ? " (sent)" : "");
    }
    journal_line();
    if (no_grpc) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "no gRPC");
        return NULL;
    }
    return (struct wp_grpc *)(void *)calls;
}

int32_t
__wrap_wp_grpc_port(const struct wp_grpc *grpc)
{
    assert_ptr_equal(grpc, calls);
    return 4711;
}

void
__wrap_wp_grpc_drain(struct wp_grpc *grpc, void (*drained)(void *arg),
                     void *arg)
{
    assert_ptr_equal(grpc, calls);
    drained(arg);
}

void
__wrap_wp_grpc_destroy(struct wp_grpc *grpc)
{
    journal("destroy %s", grpc != NULL ? "gRPC" : "nothing");
    journal_line();
}

void *
__wrap_wp_grpc_app(const struct wp_grpc_call *call)
{
    assert_true(number_of(call) >= 0);
    return given.app;
}

void
__wrap_wp_grpc_finish(struct wp_grpc_call *call, enum wp_status status,
                      const char *details)
{
    assert_false(call->finished);
    call->finished = true;
    call->user = NULL;
    journal("%d ends: %d %s", number_of(call), (int)status,
            details != NULL ? details : "-");
    journal_line();
}

size_t
__wrap_wp_grpc_send(struct wp_grpc_call *call, uint8_t *message, size_t len)
{
    assert_false(call->finished);
    if (message == NULL || (sends_fail_in > 0 && --sends_fail_in == 0)) {
        free(message);
        __wrap_wp_grpc_finish(call, WP_RESOURCE_EXHAUSTED, "out of memory");
        return 0;
    }
    journal("%d sends: ", number_of(call));
    journal_bytes((const char *)message + WP_GRPC_PREFIX, len);
    journal_line();
    free(message);
    return queued;
}

uint32_t
__wrap_wp_process_table_running(const struct wp_process_table *table)
{
    assert_ptr_equal(table, workspace_runtime.processes);
    return running;
}

bool
__wrap_wp_process_resize(struct wp_process *process, const struct winsize *size)
{
    assert_non_null(process);
    journal("resize %hu %hu", size->ws_row, size->ws_col);
    journal_line();
    return !no_terminal;
}

bool
__wrap_wp_runtime_token_fits(const struct wp_options *options, const char *path,
                             const char *token)
{
    assert_ptr_equal(options, &workspace_runtime.options);
    journal("token %s for %s", token != NULL ? token : "none", path);
    journal_line();
    return token != NULL && strcmp(token, "good") == 0;
}

static const char *
text_of(const uint8_t *bytes, size_t len)
{
    assert_int_equal(bytes[len], '\0');
    return (const char *)bytes;
}

static enum wp_status
bad(struct wp_err *err)
{
    return wp_err_set(err, WP_INVALID_ARGUMENT, "request: it is bad");
}

/* The text is the folder; "" for none. */
enum wp_status
__wrap_wp_process_ask_read(const uint8_t *bytes, size_t len, bool start,
                           struct wp_process_ask *ask, struct wp_err *err)
{
    static char word[] = "run";
    const char *text = text_of(bytes, len);

    journal("%s", start ? "of Start: " : "of Execute: ");
    if (strcmp(text, "bad") == 0) {
        return bad(err);
    }
    ask->argv = malloc(2 * sizeof(*ask->argv));
    assert_non_null(ask->argv);
    ask->argv[0] = word;
    ask->argv[1] = NULL;
    ask->cwd = *text != '\0' && *text != 'z' ? strdup(text) : NULL;
    ask->on_terminal = on_terminal;
    return WP_OK;
}

/* "ID TEXT"; with "!" at its end, the input ends. */
enum wp_status
__wrap_wp_process_input_read(const uint8_t *bytes, size_t len,
                             struct wp_process_input *in, struct wp_err *err)
{
    const char *text = text_of(bytes, len);
    char *rest;

    if (strcmp(text, "bad") == 0) {
        return bad(err);
    }
    in->id = (int32_t)strtol(text, &rest, 10);
    in->eof = text[len - 1] == '!';
    in->data = evbuffer_new();
    assert_non_null(in->data);
    assert_int_equal(evbuffer_add(in->data, rest, strlen(rest)), 0);
    return WP_OK;
}

/* "ID NUMBER" */
enum wp_status
__wrap_wp_process_signal_read(const uint8_t *bytes, size_t len, int32_t *id,
                              int *number, struct wp_err *err)
{
    const char *text = text_of(bytes, len);
    char *rest;

    if (strcmp(text, "bad") == 0) {
        return bad(err);
    }
    *id = (int32_t)strtol(text, &rest, 10);
    *number = (int)strtol(rest, NULL, 10);
    return WP_OK;
}

enum wp_status
__wrap_wp_process_resize_read(const uint8_t *bytes, size_t len, int32_t *id,
                              struct winsize *size, struct wp_err *err)
{
    int rows = 0;

    if (__wrap_wp_process_signal_read(bytes, len, id, &rows, err) != WP_OK) {
        return err->status;
    }
    *size = (struct winsize){.ws_row = (unsigned short)rows, .ws_col = 80};
    return WP_OK;
}

int
__wrap_event_add(struct event *event, const struct timeval *tv)
{
    journal("look in %ld.%06ld s", (long)tv->tv_sec, (long)tv->tv_usec);
    journal_line();
    return __real_event_add(event, tv);
}

/* --------------------------------------------------------------- the rig */

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/process_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static struct wp_grpc_call *
ask_bytes(int method, const char *text, size_t len)
{
    struct wp_grpc_call *call = &calls[n_calls];

    assert_true(n_calls < CALLS_MAX);
    n_calls++;
    memset(call, 0, sizeof *call);
    wp_list_init(&call->node);
    call->method = &given.methods[method];
    call->started = true;
    call->method->start(call, (const uint8_t *)text, len);
    return call;
}

static struct wp_grpc_call *
ask(int method, const char *text)
{
    return ask_bytes(method, text, strlen(text));
}

/* As gRPC does it. */
static void
gone(struct wp_grpc_call *call)
{
    if (!call->finished) {
        call->method->gone(call);
        call->finished = true;
    }
    assert_true(wp_list_empty(&call->node));
}

static void
ends(struct wp_process_result result)
{
    struct heard heard;
    const char *log;

    heard_begin(&heard);
    fake_process_ends(result, "out", "err");
    log = heard_end(&heard);
    journal("log: %s", log);
    journal_line();
}

static const struct wp_process_result good = {.exit_code = 0};

static int
begin(void **state)
{
    struct wp_err err;

    (void)workspace_begin(state);
    memset(&fake_processes, 0, sizeof fake_processes);
    workspace_runtime.processes =
        (struct wp_process_table *)(void *)&fake_processes;
    workspace_runtime.options.execs_max = 5;
    workspace_runtime.options.output_max = 4711;
    n_calls = 0;
    queued = 0;
    sends_fail_in = 0;
    running = 0;
    no_terminal = on_terminal = no_grpc = false;
    service = wp_process_service_create(&workspace_runtime, "[::]:1", 77, &err);
    assert_non_null(service);
    assert_ptr_equal(given.app, service);
    return 0;
}

static int
end(void **state)
{
    for (size_t i = 0; i < n_calls; i++) {
        gone(&calls[i]);
    }
    wp_process_service_destroy(service);
    journal_drop();
    return workspace_end(state);
}

/* ----------------------------------------------------------------- tests */

static void
on_drained(void *arg)
{
    *(int *)arg += 1;
}

static void
the_service_is_made_and_ended(void **state)
{
    static const char *const steps[] = {"calloc", "event_new"};
    struct wp_err err;
    int drained = 0;

    (void)state;
    assert_int_equal(wp_process_service_port(service), 4711);
    wp_process_service_drain(service, on_drained, &drained);
    assert_int_equal(drained, 1);
    assert_true(given.admits(service, "good"));
    assert_false(given.admits(service, NULL));
    for (size_t i = 0; i < sizeof steps / sizeof(steps[0]); i++) {
        fault_set(steps[i], 1, ENOMEM);
        assert_null(
            wp_process_service_create(&workspace_runtime, "x", 1, &err));
        assert_true(fault_clear());
        journal("%s: %d %s", steps[i], (int)err.status, err.msg);
        journal_line();
    }
    no_grpc = true;
    assert_null(wp_process_service_create(&workspace_runtime, "x", 1, &err));
    journal("%d %s", (int)err.status, err.msg);
    journal_line();
    wp_process_service_destroy(NULL);
    given.app = service;
    golden("life");
}

static void
a_started_command_says_all_to_its_stream(void **state)
{
    struct wp_grpc_call *call;

    (void)state;
    journal_drop();
    call = ask(START, "");
    fake_process_says(WP_PROCESS_STDOUT, "one", 3);
    fake_process_says(WP_PROCESS_STDERR, "two", 3);
    ends((struct wp_process_result){.exit_code = 3, .duration_ns = 1234567890});
    assert_true(call->finished);
    say("by a signal, on a terminal");
    on_terminal = true;
    (void)ask(START, "");
    ends((struct wp_process_result){.exit_code = -1, .signal = 9});
    say("a folder was brought");
    on_terminal = false;
    fake_processes.bound = true;
    (void)ask(START, "");
    ends(good);
    say("nobody waits any more");
    gone(ask(START, ""));
    golden("streams");
}

static void
a_folder_is_one_of_the_workspace(void **state)
{
    static const char *const folders[] = {
        "dir", "/dir", ".", "/", "..", "/etc", "nothing", "file", "to-outside",
    };

    (void)state;
    folder_put("dir");
    file_put("file", "x", 0644);
    link_put("to-outside", "/etc");
    journal_drop();
    for (size_t i = 0; i < sizeof folders / sizeof(folders[0]); i++) {
        struct wp_grpc_call *call;

        say(folders[i]);
        call = ask(START, folders[i]);
        gone(call);
    }
    say("it may not be opened");
    fault_set("wp_workspace_open", 1, EACCES);
    gone(ask(START, "dir"));
    assert_true(fault_clear());
    fault_set("wp_workspace_open", 1, ELOOP);
    gone(ask(EXECUTE, "dir"));
    assert_true(fault_clear());
    fault_set("wp_workspace_open", 1, EMFILE);
    gone(ask(EXECUTE, "dir"));
    assert_true(fault_clear());
    golden("folders");
}

static void
what_cannot_start_ends_its_call(void **state)
{
    (void)state;
    journal_drop();
    for (int method = START; method <= EXECUTE; method++) {
        struct wp_grpc_call *call = ask(method, "bad");

        assert_true(call->finished);
        gone(call);
        fake_processes.refuses = WP_NOT_FOUND;
        gone(ask(method, ""));
        fake_processes.refuses = WP_RESOURCE_EXHAUSTED;
        gone(ask(method, ""));
        fake_processes.refuses = WP_OK;
        fault_set("calloc", 1, ENOMEM);
        gone(ask(method, ""));
        assert_true(fault_clear());
    }
    golden("refused");
}

static void
memory_that_lacks_for_a_message_kills_the_command(void **state)
{
    struct wp_grpc_call *call;

    (void)state;
    journal_drop();
    say("for the first");
    sends_fail_in = 1;
    call = ask(START, "");
    fake_process_says(WP_PROCESS_STDOUT, "unheard", 7);
    ends(good);
    gone(call);
    say("for what it says");
    call = ask(START, "");
    sends_fail_in = 1;
    fake_process_says(WP_PROCESS_STDOUT, "one", 3);
    ends(good);
    gone(call);
    say("for its end");
    call = ask(START, "");
    sends_fail_in = 1;
    ends(good);
    gone(call);
    call = ask(EXECUTE, "");
    sends_fail_in = 1;
    ends(good);
    gone(call);
    golden("no_memory");
}

static void
a_command_waits_while_its_client_is_behind(void **state)
{
    struct wp_grpc_call *call;

    (void)state;
    journal_drop();
    call = ask(START, "");
    queued = HIGH;
    fake_process_says(WP_PROCESS_STDOUT, "1", 1);
    call->method->sent(call, 0);
    queued = HIGH + 1;
    fake_process_says(WP_PROCESS_STDOUT, "2", 1);
    say("less");
    call->method->sent(call, HIGH / 2 + 1);
    say("half");
    call->method->sent(call, HIGH / 2);
    say("nothing");
    call->method->sent(call, 0);
    say("held at its end");
    fake_process_says(WP_PROCESS_STDOUT, "3", 1);
    ends(good);
    call->method->sent(call, 0);
    gone(call);
    golden("behind");
}

static void
a_command_of_execute_answers_once(void **state)
{
    (void)state;
    journal_drop();
    (void)ask(EXECUTE, "");
    ends((struct wp_process_result){.exit_code = 3});
    (void)ask(EXECUTE, "");
    ends((struct wp_process_result){.exit_code = -1, .signal = 9});
    (void)ask(EXECUTE, "");
    ends((struct wp_process_result){
        .exit_code = -1, .signal = 9, .timed_out = true});
    (void)ask(EXECUTE, "");
    ends((struct wp_process_result){.exit_code = 0, .dropped = {12, 34}});
    say("nobody waits any more");
    gone(ask(EXECUTE, ""));
    golden("execute");
}

static void
executes_wait_their_turn(void **state)
{
    struct wp_grpc_call *first;
    struct wp_grpc_call *second;
    struct wp_grpc_call *third;

    (void)state;
    journal_drop();
    running = 4;
    (void)ask(EXECUTE, "");
    running = 5;
    first = ask(EXECUTE, "");
    second = ask(EXECUTE, "");
    third = ask(EXECUTE, "bad");
    assert_true(third->finished);
    third = ask(EXECUTE, "");
    say("it is looked, in vain");
    (void)event_base_loop(workspace_runtime.base, EVLOOP_ONCE);
    say("the second leaves");
    gone(second);
    say("room for one, but who comes last is not first");
    running = 4;
    (void)ask(EXECUTE, "");
    say("one ends");
    ends(good);
    assert_non_null(first->user);
    assert_non_null(third->user);
    say("what waits cannot start");
    running = 5;
    second = ask(EXECUTE, "");
    running = 4;
    fake_processes.refuses = WP_NOT_FOUND;
    (void)event_base_loop(workspace_runtime.base, EVLOOP_ONCE);
    assert_true(second->finished);
    golden("turns");
}

static void
as_many_wait_as_may(void **state)
{
    const size_t most = 256;
    const size_t first = n_calls;

    (void)state;
    running = 5;
    journal_mute(true);
    for (size_t i = 0; i < most; i++) {
        assert_false(ask(EXECUTE, "")->finished);
    }
    journal_mute(false);
    journal_drop();
    assert_true(ask(EXECUTE, "")->finished);
    say("one leaves");
    gone(&calls[first]);
    assert_false(ask(EXECUTE, "")->finished);
    golden("line");
    journal_mute(true);
    running = 0;
    (void)event_base_loop(workspace_runtime.base, EVLOOP_ONCE);
    running = 5;
    /* Who has started waits no more. */
    for (size_t i = 0; i < most; i++) {
        assert_false(ask(EXECUTE, "")->finished);
    }
    assert_true(ask(EXECUTE, "")->finished);
    journal_mute(false);
    for (size_t i = first; i < n_calls; i++) {
        gone(&calls[i]);
    }
    assert_int_equal(event_base_get_num_events(workspace_runtime.base,
                                               EVENT_BASE_COUNT_ADDED),
                     1);
}

static void
requests_that_wait_are_bounded(void **state)
{
    char *text = malloc(WAITING_BYTES + 2);

    (void)state;
    assert_non_null(text);
    memset(text, 'z', WAITING_BYTES + 1);
    running = 5;
    journal_drop();
    text[WAITING_BYTES - 1] = '\0';
    (void)ask(EXECUTE, text);
    say("two bytes more, and one");
    (void)ask(EXECUTE, "zz");
    (void)ask(EXECUTE, "z");
    (void)ask(EXECUTE, "z");
    say("the longest leaves");
    gone(&calls[0]);
    (void)ask(EXECUTE, "zz");
    say("it starts");
    running = 0;
    (void)event_base_loop(workspace_runtime.base, EVLOOP_ONCE);
    running = 5;
    text[WAITING_BYTES - 1] = 'z';
    text[WAITING_BYTES] = 'z';
    text[WAITING_BYTES + 1] = '\0';
    say("one byte too many, and as many as may");
    (void)ask(EXECUTE, text);
    text[WAITING_BYTES] = '\0';
    (void)ask(EXECUTE, text);
    for (size_t i = 0; i < n_calls; i++) {
        gone(&calls[i]);
    }
    free(text);
    golden("bytes");
}

static void
input_goes_to_the_command(void **state)
{
    struct wp_grpc_call *call;
    struct wp_grpc_call *waits;
    struct wp_grpc_call *leaves;

    (void)state;
    journal_drop();
    (void)ask(INPUT, "bad");
    (void)ask(INPUT, "1 nobody");
    call = ask(START, "");
    (void)ask(INPUT, "1 text");
    (void)ask(INPUT, "2 nobody");
    say("as much as may wait, and more");
    fake_processes.queued = STDIN_HIGH - 5;
    (void)ask(INPUT, "1 four");
    waits = ask(INPUT, "1");
    assert_true(waits->finished);
    waits = ask(INPUT, "1x");
    leaves = ask(INPUT, "1y");
    assert_false(waits->finished);
    gone(leaves);
    say("room");
    fake_processes.events->stdin_room(fake_processes.user);
    assert_true(waits->finished);
    fake_processes.queued = 0;
    say("its end");
    (void)ask(INPUT, "1 last!");
    (void)ask(INPUT, "1 more");
    say("the command ends before its input is taken");
    (void)ask(START, "");
    fake_processes.queued = STDIN_HIGH + 1;
    waits = ask(INPUT, "3 text");
    waits = ask(INPUT, "2 text");
    ends(good);
    assert_true(waits->finished);
    (void)ask(INPUT, "2 text");
    gone(call);
    golden("input");
}

static void
a_terminal_takes_more_after_an_end(void **state)
{
    struct wp_grpc_call *call;

    (void)state;
    journal_drop();
    on_terminal = true;
    call = ask(START, "");
    (void)ask(INPUT, "1 last!");
    (void)ask(INPUT, "1 more");
    sends_fail_in = 1;
    (void)ask(INPUT, "1 unanswered");
    gone(call);
    golden("terminal");
}

static void
signals_and_sizes_go_to_the_command(void **state)
{
    struct wp_grpc_call *first;
    struct wp_grpc_call *second;

    (void)state;
    journal_drop();
    first = ask(START, "");
    second = ask(START, "");
    for (int method = SIGNAL; method <= RESIZE; method++) {
        (void)ask(method, "bad");
        (void)ask(method, "1 15");
        (void)ask(method, "2 9");
        (void)ask(method, "3 9");
        (void)ask(method, "0 9");
    }
    no_terminal = true;
    (void)ask(RESIZE, "1 15");
    gone(second);
    (void)ask(SIGNAL, "2 9");
    say("nobody waits for those calls");
    gone(ask(SIGNAL, "1 1"));
    given.methods[SIGNAL].gone(first);
    given.methods[RESIZE].gone(first);
    gone(first);
    golden("signals");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        ONE(the_service_is_made_and_ended),
        ONE(a_started_command_says_all_to_its_stream),
        ONE(a_folder_is_one_of_the_workspace),
        ONE(what_cannot_start_ends_its_call),
        ONE(memory_that_lacks_for_a_message_kills_the_command),
        ONE(a_command_waits_while_its_client_is_behind),
        ONE(a_command_of_execute_answers_once),
        ONE(executes_wait_their_turn),
        ONE(as_many_wait_as_may),
        ONE(requests_that_wait_are_bounded),
        ONE(input_goes_to_the_command),
        ONE(a_terminal_takes_more_after_an_end),
        ONE(signals_and_sizes_go_to_the_command),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
