/* gRPC calls of sandboxd's clients, between HTTP/2 and what a method does: each
 * thing that is asked of either side is compared whole with golden/grpc_*.txt.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>
#include <event2/event.h>

#include "runtime/sandboxd/grpc.h"
#include "tests/support/runtime/fake_http.h"

enum {
    CALLS = 4,
};

static struct event_base *base;
static struct wp_grpc *grpc;
static struct wp_h2_handler handler; /* What HTTP/2 was given. */
static char conn;                    /* Stands for one. */
static struct wp_grpc_call calls[CALLS];
static size_t opened;         /* Of calls. */
static struct wp_list listed; /* Those that have started. */
static bool full;             /* HTTP/2 has no more streams. */
static bool anonymous;        /* Nobody needs a token. */
static bool no_start;         /* The server cannot start. */
static const char *failing;   /* A function. */
static unsigned fails_in;     /* 0: it does not fail. */
static enum {
    KEEP,
    FINISH,
    SEND
} deed; /* Of a method that starts. */

/* --------------------------------------------------- what lies below */

struct wp_h2_server *
__wrap_wp_h2_server_create(const struct wp_h2_config *config,
                           const struct wp_h2_handler *given,
                           struct wp_err *err);
enum wp_status __wrap_wp_h2_server_start(struct wp_h2_server *server,
                                         struct wp_err *err);
const char *__wrap_wp_h2_server_address(const struct wp_h2_server *server,
                                        size_t i);
void __wrap_wp_h2_server_leave(struct wp_h2_server *server);
void __wrap_wp_h2_server_stop(struct wp_h2_server *server);
void __wrap_wp_h2_server_destroy(struct wp_h2_server *server);
struct wp_h2_worker *__wrap_wp_h2_worker_here(void);
void __wrap_wp_h2_worker_settle(struct wp_h2_worker *worker);
struct wp_h2_stream *__wrap_wp_h2_stream_open(struct wp_h2_conn *at,
                                              int32_t id);
void __wrap_wp_h2_conn_refuse(struct wp_h2_conn *at, int32_t id,
                              const struct wp_h2_field *fields, size_t n);
void __wrap_wp_h2_stream_free(struct wp_h2_stream *stream);
void __wrap_wp_h2_stream_send(struct wp_h2_stream *stream, const uint8_t *bytes,
                              size_t len);
void __wrap_wp_h2_stream_end(struct wp_h2_stream *stream);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __real_event_add(struct event *event, const struct timeval *tv);
struct event *__wrap_event_new(struct event_base *at, evutil_socket_t fd,
                               short what, event_callback_fn on, void *arg);
struct event *__real_event_new(struct event_base *at, evutil_socket_t fd,
                               short what, event_callback_fn on, void *arg);
struct evbuffer *__wrap_evbuffer_new(void);
struct evbuffer *__real_evbuffer_new(void);
int __wrap_evbuffer_add(struct evbuffer *buf, const void *data, size_t len);
int __real_evbuffer_add(struct evbuffer *buf, const void *data, size_t len);
int __wrap_evbuffer_add_reference(struct evbuffer *buf, const void *data,
                                  size_t len, evbuffer_ref_cleanup_cb free_it,
                                  void *arg);
int __real_evbuffer_add_reference(struct evbuffer *buf, const void *data,
                                  size_t len, evbuffer_ref_cleanup_cb free_it,
                                  void *arg);
void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__real_malloc(size_t size);

static struct wp_h2_server *
server(void)
{
    return (struct wp_h2_server *)(void *)&conn;
}

static void
fail_at(const char *function, unsigned nth)
{
    failing = function;
    fails_in = nth;
}

static bool
fails(const char *function)
{
    return failing != NULL && strcmp(failing, function) == 0 && fails_in > 0 &&
           --fails_in == 0;
}

static void
fields_show(const struct wp_h2_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        journal(" [%.*s: %.*s]", (int)fields[i].name.len, fields[i].name.ptr,
                (int)fields[i].value.len, fields[i].value.ptr);
    }
}

struct wp_h2_server *
__wrap_wp_h2_server_create(const struct wp_h2_config *config,
                           const struct wp_h2_handler *given,
                           struct wp_err *err)
{
    if (fails("wp_h2_server_create")) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT, "no such address");
        return NULL;
    }
    handler = *given;
    assert_ptr_equal(config->base, base);
    assert_null(config->tls);
    journal("listen %zu %s anywhere=%d threads=%u streams=%u conns=%u "
            "per_conn=%u metadata=%u keepalive=%lld timeout=%lld silent=%lld "
            "age=%lld calls=%u,%u",
            config->n_listen, config->listen[0], config->clear_text_anywhere,
            config->threads, config->streams_per_thread,
            config->connections_max, config->streams_per_connection_max,
            config->metadata_bytes_max, (long long)config->keepalive_ns,
            (long long)config->keepalive_timeout_ns,
            (long long)config->silent_ns,
            (long long)config->connection_age_max_ns, config->calls_max,
            config->peer_calls_max);
    journal_line();
    journal("answers begin with");
    fields_show(handler.head, handler.n_head);
    journal_line();
    return server();
}

enum wp_status
__wrap_wp_h2_server_start(struct wp_h2_server *at, struct wp_err *err)
{
    assert_ptr_equal(at, server());
    journal("start");
    journal_line();
    return no_start ? wp_err_set(err, WP_UNAVAILABLE, "no thread") : WP_OK;
}

const char *
__wrap_wp_h2_server_address(const struct wp_h2_server *at, size_t i)
{
    assert_ptr_equal(at, server());
    assert_int_equal(i, 0);
    return no_start ? "unix" : "[::1]:4711";
}

static void
server_told(struct wp_h2_server *at, const char *what)
{
    assert_ptr_equal(at, server());
    journal("server %s", what);
    journal_line();
}

void
__wrap_wp_h2_server_leave(struct wp_h2_server *at)
{
    server_told(at, "leaves");
}

void
__wrap_wp_h2_server_stop(struct wp_h2_server *at)
{
    server_told(at, "stops");
}

void
__wrap_wp_h2_server_destroy(struct wp_h2_server *at)
{
    server_told(at, "is destroyed");
}

struct wp_h2_worker *
__wrap_wp_h2_worker_here(void)
{
    return (struct wp_h2_worker *)(void *)calls;
}

void
__wrap_wp_h2_worker_settle(struct wp_h2_worker *worker)
{
    assert_ptr_equal(worker, calls);
    journal("settle");
    journal_line();
}

struct wp_h2_stream *
__wrap_wp_h2_stream_open(struct wp_h2_conn *at, int32_t id)
{
    struct wp_grpc_call *call = &calls[opened];

    assert_ptr_equal(at, &conn);
    if (full) {
        return NULL;
    }
    assert_true(opened < CALLS);
    opened++;
    call->stream.conn = at;
    call->stream.id = id;
    journal("open %d", id);
    journal_line();
    return &call->stream;
}

void
__wrap_wp_h2_conn_refuse(struct wp_h2_conn *at, int32_t id,
                         const struct wp_h2_field *fields, size_t n)
{
    assert_ptr_equal(at, &conn);
    journal("refuse %d:", id);
    fields_show(fields, n);
    journal_line();
}

void
__wrap_wp_h2_stream_free(struct wp_h2_stream *stream)
{
    journal("free %d", stream->id);
    journal_line();
}

void
__wrap_wp_h2_stream_send(struct wp_h2_stream *stream, const uint8_t *bytes,
                         size_t len)
{
    journal("send %d: ", stream->id);
    journal_bytes((const char *)bytes, len);
    journal_line();
}

void
__wrap_wp_h2_stream_end(struct wp_h2_stream *stream)
{
    struct wp_h2_field fields[WP_H2_FIELDS_MAX];

    journal("end %d:", stream->id);
    fields_show(fields, handler.trailers(stream, fields));
    journal_line();
}

int
__wrap_event_add(struct event *event, const struct timeval *tv)
{
    if (fails("event_add")) {
        return -1;
    }
    journal("timer in %lld.%06ld s", (long long)tv->tv_sec, (long)tv->tv_usec);
    journal_line();
    return __real_event_add(event, tv);
}

struct event *
__wrap_event_new(struct event_base *at, evutil_socket_t fd, short what,
                 event_callback_fn on, void *arg)
{
    return fails("event_new") ? NULL : __real_event_new(at, fd, what, on, arg);
}

struct evbuffer *
__wrap_evbuffer_new(void)
{
    return fails("evbuffer_new") ? NULL : __real_evbuffer_new();
}

int
__wrap_evbuffer_add(struct evbuffer *buf, const void *data, size_t len)
{
    return fails("evbuffer_add") ? -1 : __real_evbuffer_add(buf, data, len);
}

int
__wrap_evbuffer_add_reference(struct evbuffer *buf, const void *data,
                              size_t len, evbuffer_ref_cleanup_cb free_it,
                              void *arg)
{
    return fails("evbuffer_add_reference")
               ? -1
               : __real_evbuffer_add_reference(buf, data, len, free_it, arg);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails("calloc") ? NULL : __real_calloc(n, size);
}

void *
__wrap_malloc(size_t size)
{
    return fails("malloc") ? NULL : __real_malloc(size);
}

/* ------------------------------------------------------------ the methods */

static bool
admits(void *app, const char *token)
{
    assert_ptr_equal(app, &base);
    if (token == NULL) {
        return anonymous;
    }
    journal("token (%zu) %.40s", strlen(token), token);
    journal_line();
    return strncmp(token, "good", 4) == 0;
}

static void
send_text(struct wp_grpc_call *call, const char *text)
{
    uint8_t *message = wp_grpc_message(strlen(text));
    size_t waits;

    if (message != NULL) {
        memcpy(message + WP_GRPC_PREFIX, text, strlen(text));
    }
    waits = wp_grpc_send(call, message, strlen(text));
    journal("= %zu bytes wait", waits);
    journal_line();
}

static void
on_start(struct wp_grpc_call *call, const uint8_t *bytes, size_t len)
{
    assert_ptr_equal(wp_grpc_app(call), &base);
    assert_null(call->user);
    assert_true(wp_list_empty(&call->node));
    call->user = &base;
    wp_list_push_back(&listed, &call->node);
    journal("%s of %d: ", call->method->path, call->stream.id);
    journal_bytes((const char *)bytes, len);
    journal_line();
    if (deed == FINISH) {
        wp_grpc_finish(call, WP_OK, NULL);
    } else if (deed == SEND) {
        send_text(call, "one");
        send_text(call, "second");
    }
}

static void
on_gone(struct wp_grpc_call *call)
{
    journal("%d is gone", call->stream.id);
    journal_line();
}

static void
on_sent(struct wp_grpc_call *call, size_t queued)
{
    journal("%d has sent one, %zu bytes wait", call->stream.id, queued);
    journal_line();
}

static const struct wp_grpc_method methods[] = {
    {"/test/Told", on_start, on_gone, on_sent},
    {"/test/Plain", on_start, on_gone, NULL},
    {NULL, NULL, NULL, NULL},
};

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/grpc_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static void
turn(void)
{
    assert_true(event_base_loop(base, EVLOOP_NONBLOCK) != -1);
}

/* Fields are "name", "value", ... NULL. */
static void
ask_with(int32_t id, bool too_long, const char *const *fields)
{
    uint64_t scratch[WP_H2_REQUEST_SIZE / sizeof(uint64_t)] = {0};

    for (size_t i = 0; fields[i] != NULL; i += 2) {
        handler.header(handler.ctx, scratch, wp_str_from(fields[i]),
                       wp_str_from(fields[i + 1]));
    }
    handler.request(handler.ctx, (struct wp_h2_conn *)(void *)&conn, id,
                    scratch, too_long);
}

#define PLAIN                                                                  \
    ":method", "POST", ":path", "/test/Told", "content-type",                  \
        "application/grpc", "x-warmpool-token", "good"
#define ASK(id, ...)                                                           \
    ask_with(id, false, (const char *const[]){__VA_ARGS__, NULL})

/* The call that was opened last. */
static struct wp_grpc_call *
last(void)
{
    return &calls[opened - 1];
}

static void
data(struct wp_grpc_call *call, const void *bytes, size_t len)
{
    handler.data(&call->stream, bytes, len);
}

static void
closed(struct wp_grpc_call *call)
{
    call->stream.conn = NULL;
    handler.closed(&call->stream);
    assert_true(wp_list_empty(&call->node));
    turn();
}

/* A call that has started. */
static struct wp_grpc_call *
started(int32_t id, const char *path)
{
    ASK(id, ":method", "POST", "content-type", "application/grpc", ":path",
        path, "x-warmpool-token", "good");
    data(last(), "\0\0\0\0\1x", 6);
    return last();
}

static void
drained(void *arg)
{
    assert_ptr_equal(arg, &conn);
    journal("drained");
    journal_line();
}

static struct wp_grpc *
create(struct wp_err *err)
{
    const struct wp_grpc_config config = {.base = base,
                                          .listen = "127.0.0.1:0",
                                          .methods = methods,
                                          .app = &base,
                                          .admits = admits,
                                          .connections_max = 77};

    return wp_grpc_create(&config, err);
}

static int
begin(void **state)
{
    struct wp_err err;

    (void)state;
    opened = 0;
    wp_list_init(&listed);
    deed = KEEP;
    full = anonymous = no_start = false;
    base = event_base_new();
    assert_non_null(base);
    journal_drop();
    grpc = create(&err);
    assert_non_null(grpc);
    assert_int_equal(handler.stream_size, sizeof(struct wp_grpc_call));
    assert_int_equal(handler.peer_size, 0);
    memset(calls, 0, sizeof calls);
    for (size_t i = 0; i < CALLS; i++) {
        handler.init(handler.ctx, &calls[i].stream);
    }
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wp_grpc_destroy(grpc);
    event_base_free(base);
    return 0;
}

/* ----------------------------------------------------------------- tests */

static void
the_server_is_made_and_ended(void **state)
{
    static const char *const steps[] = {"calloc", "event_new",
                                        "wp_h2_server_create"};
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_grpc_port(grpc), 4711);
    assert_true(handler.admit(handler.ctx, NULL, NULL));
    handler.turn(handler.ctx, NULL, false);
    for (size_t i = 0; i < sizeof steps / sizeof(steps[0]); i++) {
        fail_at(steps[i], 1);
        assert_null(create(&err));
        journal("%s: %d %s", steps[i], err.status, err.msg);
        journal_line();
    }
    no_start = true;
    assert_null(create(&err));
    journal("no start: %d %s", err.status, err.msg);
    journal_line();
    assert_int_equal(wp_grpc_port(grpc), 0);
    wp_grpc_destroy(NULL);
    golden("life");
}

static void
headers_are_judged_in_order(void **state)
{
    char token[256];

    (void)state;
    journal_drop();
    say("refused");
    ask_with(1, true, (const char *const[]){PLAIN, NULL});
    ASK(3, ":method", "GET", ":path", "/test/Told", "content-type",
        "application/grpc", "x-warmpool-token", "good");
    ASK(5, ":method", "POST", ":path", "/test/Told", "content-type",
        "application/json", "x-warmpool-token", "good");
    ASK(7, ":method", "POST", ":path", "/test/Told", "x-warmpool-token",
        "good");
    ASK(9, ":method", "POST", ":path", "/test/Told", "content-type",
        "application/grpc");
    ASK(11, ":method", "POST", ":path", "/test/Tol", "content-type",
        "application/grpc", "x-warmpool-token", "good");
    ASK(13, ":method", "POST", "content-type", "application/grpc",
        "x-warmpool-token", "good");
    ASK(15, PLAIN, "grpc-timeout", "1s");
    full = true;
    ASK(17, PLAIN);
    say("refused for its token");
    ASK(19, ":method", "POST", ":path", "/test/Told", "content-type",
        "application/grpc", "x-warmpool-token", "bad");
    ASK(21, ":method", "POST", ":path", "/test/Told", "content-type",
        "application/grpc", "authorization", "Basic good");
    ASK(23, ":method", "POST", ":path", "/test/Told", "content-type",
        "application/grpc", "authorization", "Bearer ");
    ASK(25, ":method", "POST", ":path", "/test/Told", "content-type",
        "application/grpc", "authorization", "Bearer bad");
    ASK(26, ":method", "POST", ":path", "/test/Told", "content-type",
        "application/grpc", "authorization", "Bearer b");
    ASK(27, ":method", "POST", ":path", "/test/Told", "content-type",
        "application/grpc", "x-warmpool-toke", "good", "x-warmpool-tokens",
        "good", "y-warmpool-token", "good");
    say("as long as a token is looked at, and longer");
    memset(token, 'x', sizeof token);
    memcpy(token, "good", 4);
    token[172 - 1] = '\0';
    ASK(29, ":method", "POST", ":path", "/test/Told", "content-type",
        "application/grpc", "x-warmpool-token", token);
    token[172 - 1] = 'x';
    token[172] = '\0';
    ASK(31, ":method", "POST", ":path", "/test/Told", "content-type",
        "application/grpc", "x-warmpool-token", token);
    say("let in, were there room");
    ASK(33, ":method", "POST", ":path", "/test/Plain", "content-type",
        "application/grpc+proto", "X-Warmpool-Token", "good");
    ASK(35, ":method", "POST", ":path", "/test/Told", "content-type",
        "application/grpc", "authorization", "bearer good");
    ASK(37, PLAIN, "x-warmpool-token", "bad", "authorization", "Bearer bad");
    anonymous = true;
    ASK(39, ":method", "POST", ":path", "/test/Told", "content-type",
        "application/grpc");
    golden("headers");
}

static void
deadlines_are_read_to_the_last_digit(void **state)
{
    static const char *const texts[] = {
        "1H",        "1M",         "1S",        "1m",      "1u",       "1n",
        "99999999H", "99999999M",  "99999999S", "0n",      "",         "1",
        "S",         "123456789S", "1234567S",  "-1S",     "+1S",      "1 S",
        "1s",        "1h",         "99999999n", "640511H", "2562047H",
    };

    (void)state;
    journal_drop();
    for (size_t i = 0; i < sizeof texts / sizeof(texts[0]); i++) {
        int64_t ns = -1;
        bool good = wp_grpc_timeout_read(wp_str_from(texts[i]), &ns);

        journal("%s: %d %lld", texts[i], good, (long long)ns);
        journal_line();
    }
    golden("timeouts");
}

static void
a_message_comes_in_pieces(void **state)
{
    static const uint8_t message[] = {0, 0, 0, 0, 3, 'a', 'b', 'c'};

    (void)state;
    journal_drop();
    for (size_t i = 0; i < 2; i++) {
        ASK(1 + 2 * (int)i, PLAIN);
        for (size_t at = 0; at < sizeof message; at++) {
            journal("(%zu)", at);
            data(last(), message + at, 1);
        }
        deed = FINISH;
    }
    say("what follows is not looked at");
    data(&calls[0], message, sizeof message);
    data(&calls[1], message, sizeof message);
    handler.ended(&calls[0].stream);
    handler.ended(&calls[1].stream);
    say("more than one at once");
    deed = KEEP;
    ASK(5, PLAIN);
    data(last(), "\0\0\0\0\1x\0\0\0\0\1y", 12);
    say("an empty one");
    ASK(7, PLAIN);
    data(last(), "\0\0\0\0\0", 5);
    turn();
    for (size_t i = 0; i < CALLS; i++) {
        closed(&calls[i]);
    }
    golden("pieces");
}

static void
a_request_that_cannot_be_is_ended(void **state)
{
    (void)state;
    journal_drop();
    say("compressed");
    ASK(1, PLAIN);
    data(last(), "\1\0\0\0\1x", 6);
    say("as long as one may be, and longer");
    ASK(3, PLAIN);
    data(last(), "\0\0\x40\0\0", 5);
    journal("ends: %d", last()->finished);
    journal_line();
    ASK(5, PLAIN);
    data(last(), "\0\0\x40\0\1", 5);
    data(last(), "more", 4);
    say("without its end");
    handler.ended(&calls[1].stream);
    handler.ended(&calls[1].stream);
    turn();
    closed(&calls[0]);
    closed(&calls[1]);
    closed(&calls[2]);
    golden("bad_requests");
}

static void
requests_that_are_not_whole_share_32_mib(void **state)
{
    const size_t most = 4 << 20;
    char *zeros = __real_calloc(1, most + WP_GRPC_PREFIX);
    size_t left = 32 << 20;

    (void)state;
    assert_non_null(zeros);
    memcpy(zeros, "\0\0\x40\0\0", WP_GRPC_PREFIX);
    journal_drop();
    ASK(1, PLAIN);
    ASK(3, PLAIN);
    ASK(5, PLAIN);
    /* One call has what only many could have. */
    data(&calls[0], zeros, most);
    left -= most;
    while (left > most) {
        calls[0].started = false;
        assert_int_equal(evbuffer_drain(calls[0].in, most), 0);
        data(&calls[0], zeros, most);
        left -= most;
    }
    assert_int_equal(evbuffer_drain(calls[0].in, most), 0);
    data(&calls[1], zeros, left - 1);
    say("one byte more, and two");
    data(&calls[2], zeros, 1);
    journal("ends: %d", last()->finished);
    journal_line();
    data(&calls[2], zeros, 1);
    turn();
    say("what is gone makes room");
    closed(&calls[1]);
    ASK(7, PLAIN);
    data(last(), zeros, left - 1);
    journal("ends: %d", last()->finished);
    journal_line();
    free(zeros);
    closed(&calls[0]);
    closed(&calls[2]);
    closed(&calls[3]);
    golden("memory");
}

static void
one_message_is_sent_after_the_other(void **state)
{
    struct wp_grpc_call *told;
    struct wp_grpc_call *plain;
    uint8_t *message = wp_grpc_message(0x01020304);

    (void)state;
    journal_drop();
    assert_non_null(message);
    journal("prefix ");
    journal_bytes((const char *)message, WP_GRPC_PREFIX);
    journal_line();
    free(message);
    deed = SEND;
    told = started(1, "/test/Told");
    plain = started(3, "/test/Plain");
    turn();
    say("sent");
    handler.sent(&told->stream);
    handler.sent(&plain->stream);
    say("the last");
    handler.sent(&told->stream);
    handler.sent(&plain->stream);
    say("another");
    send_text(told, "third");
    wp_grpc_finish(told, WP_NOT_FOUND, "100% \x7f\x1f ~ caf\xc3\xa9");
    handler.sent(&told->stream);
    wp_grpc_finish(plain, WP_INTERNAL, "");
    turn();
    say("closed");
    closed(told);
    closed(plain);
    golden("sending");
}

static void
details_are_cut(void **state)
{
    char text[400];

    (void)state;
    journal_drop();
    memset(text, 'y', sizeof text);
    text[sizeof text - 1] = '\0';
    wp_grpc_finish(started(1, "/test/Told"), WP_ABORTED, text);
    memset(text, '%', sizeof text - 1);
    wp_grpc_finish(started(3, "/test/Told"), WP_ABORTED, text);
    closed(&calls[0]);
    closed(&calls[1]);
    golden("details");
}

static void
a_deadline_ends_a_call(void **state)
{
    (void)state;
    journal_drop();
    ASK(1, PLAIN, "grpc-timeout", "90M");
    ASK(3, PLAIN, "grpc-timeout", "1500m");
    ASK(5, PLAIN, "grpc-timeout", "1n");
    ASK(7, PLAIN, "grpc-timeout", "1H");
    deed = FINISH;
    data(&calls[3], "\0\0\0\0\1x", 6);
    deed = KEEP;
    journal("pending: %d",
            event_pending(calls[3].timer, EV_TIMEOUT, NULL) != 0);
    journal_line();
    closed(&calls[3]);
    data(&calls[0], "\0\0\0\0\1x", 6);
    for (size_t i = 0; i < 3; i++) {
        event_active(calls[i].timer, EV_TIMEOUT, 0);
    }
    turn();
    for (size_t i = 0; i < 3; i++) {
        journal("pending: %d",
                event_pending(calls[i].timer, EV_TIMEOUT, NULL) != 0);
        journal_line();
        closed(&calls[i]);
    }
    golden("deadlines");
}

static void
who_hangs_up_is_gone(void **state)
{
    (void)state;
    journal_drop();
    ASK(1, PLAIN);
    data(last(), "\0\0", 2);
    (void)started(3, "/test/Told");
    closed(&calls[0]);
    /* Its messages are for nobody, and its end says nothing. */
    calls[1].stream.conn = NULL;
    send_text(&calls[1], "late");
    handler.closed(&calls[1].stream);
    turn();
    golden("gone");
}

static void
it_is_drained_when_no_call_is_left(void **state)
{
    (void)state;
    journal_drop();
    (void)started(1, "/test/Told");
    (void)started(3, "/test/Told");
    wp_grpc_drain(grpc, drained, &conn);
    turn();
    closed(&calls[0]);
    say("the last");
    closed(&calls[1]);
    say("once only");
    opened = 0;
    (void)started(5, "/test/Told");
    closed(&calls[0]);
    say("asked again");
    wp_grpc_drain(grpc, drained, &conn);
    turn();
    golden("drain");
}

static void
memory_may_lack_at_each_step(void **state)
{
    static const char *const steps[] = {
        "evbuffer_new", "event_new", "event_add",
        "evbuffer_add", "malloc",    "evbuffer_add_reference",
    };

    (void)state;
    journal_drop();
    for (size_t i = 0; i < sizeof steps / sizeof(steps[0]); i++) {
        for (unsigned nth = 1; nth <= 3; nth++) {
            journal("-- %s %u", steps[i], nth);
            journal_line();
            opened = 0;
            deed = KEEP;
            fail_at(steps[i], nth);
            ASK(1, PLAIN, "grpc-timeout", "1H");
            data(last(), "\0\0\0\0\1x", 6);
            if (!last()->finished) {
                send_text(last(), "one");
            }
            if (!last()->finished) {
                send_text(last(), "two");
            }
            fails_in = 0;
            turn();
            closed(last());
        }
    }
    golden("no_memory");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        ONE(the_server_is_made_and_ended),
        ONE(headers_are_judged_in_order),
        ONE(deadlines_are_read_to_the_last_digit),
        ONE(a_message_comes_in_pieces),
        ONE(a_request_that_cannot_be_is_ended),
        ONE(requests_that_are_not_whole_share_32_mib),
        ONE(one_message_is_sent_after_the_other),
        ONE(details_are_cut),
        ONE(a_deadline_ends_a_call),
        ONE(who_hangs_up_is_gone),
        ONE(it_is_drained_when_no_call_is_left),
        ONE(memory_may_lack_at_each_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
