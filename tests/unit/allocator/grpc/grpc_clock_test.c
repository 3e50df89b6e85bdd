/* tests/unit/allocator/grpc/grpc_clock_test.c - how long a call may take to
 * arrive, to be answered and to be taken, and what follows when it takes
 * longer. The test sees what each call's timer is set to, and lets it run
 * out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/support/grpc/grpc_rig.h"
#include "tests/support/pool/manual_clock.h"

int __real_event_add(struct event *event, const struct timeval *after);
int __wrap_event_add(struct event *event, const struct timeval *after);
void __real_wp_h2_stream_reset(struct wp_h2_stream *stream);
void __wrap_wp_h2_stream_reset(struct wp_h2_stream *stream);
size_t __real_wp_rpc_trailers_of(struct wp_h2_stream *stream,
                                 struct wp_h2_field fields[WP_H2_FIELDS_MAX]);
size_t __wrap_wp_rpc_trailers_of(struct wp_h2_stream *stream,
                                 struct wp_h2_field fields[WP_H2_FIELDS_MAX]);

enum wp_peer_verdict __real_wp_h2_stream_count(struct wp_h2_stream *stream);
enum wp_peer_verdict __wrap_wp_h2_stream_count(struct wp_h2_stream *stream);

static struct wp_clock_manual mono;
static enum wp_peer_verdict verdict; /* WP_PEER_ADMITTED: the real one. */
static struct wp_rpc_server *server;
static struct wp_h2_conn *conn;
static const struct wp_rpc_call *watched; /* Whose timer is looked at. */
static int64_t set_to_ns;                 /* Its last one. */
static struct wp_call *started;
static uint32_t cancels, resets;
static char ended[400]; /* The status of each call, and what it says. */

int
__wrap_event_add(struct event *event, const struct timeval *after)
{
    if (watched != NULL && event == &watched->timer) {
        set_to_ns = after->tv_sec * WP_NS_PER_S + after->tv_usec * WP_NS_PER_US;
    }
    return __real_event_add(event, after);
}

void
__wrap_wp_h2_stream_reset(struct wp_h2_stream *stream)
{
    resets++;
    __real_wp_h2_stream_reset(stream);
}

enum wp_peer_verdict
__wrap_wp_h2_stream_count(struct wp_h2_stream *stream)
{
    return verdict != WP_PEER_ADMITTED ? verdict
                                       : __real_wp_h2_stream_count(stream);
}

size_t
__wrap_wp_rpc_trailers_of(struct wp_h2_stream *stream,
                          struct wp_h2_field fields[WP_H2_FIELDS_MAX])
{
    const struct wp_rpc_call *call =
        WP_CONTAINER_OF(stream, struct wp_rpc_call, stream);
    size_t at = strlen(ended);

    (void)snprintf(ended + at, sizeof ended - at, "%s: %s; ",
                   wp_status_name(call->status), call->details);
    return __real_wp_rpc_trailers_of(stream, fields);
}

static void
on_cancelled(struct wp_call *call)
{
    (void)call;
    cancels++;
}

static void
finish_when_cancelled(struct wp_call *call)
{
    cancels++;
    call->ops->finish(call, WP_CANCELLED, "late", 7);
}

static void
hold_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    (void)request;
    started = call;
    call->cancelled = len > 0 ? finish_when_cancelled : on_cancelled;
}

static const struct wp_method methods[] = {
    {"/test.Clock/Unary", false, false, false, hold_start},
    {"/test.Clock/Stream", true, false, false, hold_start},
};
static const struct wp_service service = {"test.Clock", methods, 2, NULL};

static int
begin(void **state)
{
    /* Streams have no window: no message leaves. */
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                  "\0\0\6\4\0\0\0\0\0\0\4\0\0\0\0";

    (void)state;
    server = wp_grpc_rig_create(&service);
    wp_clock_manual_init(&mono, 1000 * WP_NS_PER_S, 0);
    server->clock = &mono.clock;
    conn = wp_grpc_rig_connect(server);
    assert_true(wp_grpc_rig_feed(server, conn, (const uint8_t *)preface,
                                 sizeof preface - 1));
    watched = NULL;
    started = NULL;
    set_to_ns = 0;
    cancels = resets = 0;
    verdict = WP_PEER_ADMITTED;
    ended[0] = '\0';
    return 0;
}

static int
end(void **state)
{
    struct wp_rpc_stats stats;

    (void)state;
    wp_grpc_rig_close(server, conn);
    wp_rpc_server_stats(server, &stats);
    assert_int_equal(stats.calls_in_flight, 0);
    assert_int_equal(server->reply_bytes, 0); /* None is kept. */
    wp_rpc_server_stop(server);
    return 0;
}

/* One call has ended, with that code, and took so long. */
static void
has_taken(unsigned code, int64_t ms)
{
    struct wp_rpc_duration took;
    uint32_t cursor = 0;

    assert_true(wp_rpc_server_duration(server, &cursor, &took));
    assert_string_equal(took.method, "test.Clock/Unary");
    assert_int_equal(took.code, code);
    assert_int_equal(took.count, 1);
    assert_true(took.sum_ns == (uint64_t)(ms * WP_NS_PER_MS));
    assert_false(wp_rpc_server_duration(server, &cursor, &took));
}

/* A call of stream 1 whose message has not come. */
static struct wp_rpc_call *
open_call(const char *path)
{
    uint8_t bytes[300];

    assert_true(wp_grpc_rig_feed(server, conn, bytes,
                                 wp_grpc_rig_head(bytes, 1, path)));
    assert_int_equal(server->threads[0].n_waiting, 1);
    return WP_CONTAINER_OF(server->threads[0].waiting.next, struct wp_rpc_call,
                           waiting);
}

static void
send_message(const char *message, size_t len)
{
    uint8_t bytes[64];

    assert_true(wp_grpc_rig_feed(
        server, conn, bytes, wp_grpc_rig_frame(bytes, 0, 1, 1, message, len)));
}

/* What its timer would be set to now, in milliseconds. */
static void
is_set_to(struct wp_rpc_call *call, int64_t ms)
{
    set_to_ns = 0;
    watched = call;
    if (call->fresh.next == &call->fresh) {
        wp_list_push_back(&server->threads[0].fresh, &call->fresh);
    }
    wp_rpc_call_turn(server, &server->h2->workers[0], true);
    assert_true(set_to_ns == ms * WP_NS_PER_MS);
}

static void
run_out(struct wp_rpc_call *call)
{
    event_active(&call->timer, EV_TIMEOUT, 0);
    wp_grpc_rig_run(server);
}

static void
test_a_message_that_does_not_arrive(void **state)
{
    struct wp_rpc_call *call = open_call("/test.Clock/Unary");

    (void)state;
    is_set_to(call, 10000);
    wp_clock_manual_advance(&mono, 3 * WP_NS_PER_S);
    is_set_to(call, 7000);
    run_out(call);
    has_taken(4, 3000);
    assert_string_equal(
        ended, "DEADLINE_EXCEEDED: the request did not arrive in time; ");
    assert_null(started);
    assert_int_equal(resets, 0);
}

/* The method is told, once; the client does not wait for it. */
static void
test_a_method_that_is_late(void **state)
{
    struct wp_rpc_call *call = open_call("/test.Clock/Unary");
    struct wp_rpc_stats stats;

    (void)state;
    send_message("\0\0\0\0\0", 5);
    assert_ptr_equal(started, &call->base);
    assert_int_equal(server->threads[0].n_waiting, 0);
    wp_clock_manual_advance(&mono, 15 * WP_NS_PER_MS);
    is_set_to(call, 59985);
    run_out(call);
    assert_int_equal(cancels, 1);
    assert_int_equal(resets, 1);
    assert_string_equal(ended, "");
    wp_rpc_server_stats(server, &stats);
    assert_int_equal(stats.calls_cancelled, 1);
    assert_int_equal(stats.calls_in_flight, 1);
    assert_non_null(started->ops->reserve(started, 2000));
    started->ops->finish(started, WP_ABORTED, NULL, 0);
    wp_clock_manual_advance(&mono, WP_NS_PER_MS);
    wp_grpc_rig_run(server);
    wp_rpc_server_stats(server, &stats);
    assert_int_equal(stats.calls_in_flight, 0);
    assert_int_equal(cancels, 1);
    assert_false(event_pending(&call->timer, EV_TIMEOUT, NULL));
    has_taken(1, 16); /* Nobody waited for it. */
}

/* Whatever it says, the call was late. */
static void
test_a_method_that_ends_in_time(void **state)
{
    struct wp_rpc_call *call = open_call("/test.Clock/Unary");

    (void)state;
    send_message("\0\0\0\0\1x", 6);
    run_out(call);
    assert_int_equal(cancels, 1);
    assert_int_equal(resets, 0);
    wp_grpc_rig_run(server);
    assert_string_equal(ended, "DEADLINE_EXCEEDED: late; ");
    assert_true(call->retry_after_ns == 0);
    has_taken(4, 0);
}

static void
test_an_answer_that_is_not_taken(void **state)
{
    struct wp_rpc_duration took;
    struct wp_rpc_call *call = open_call("/test.Clock/Unary");

    (void)state;
    send_message("\0\0\0\0\0", 5);
    memset(started->ops->reserve(started, 3000), 'r', 3000);
    assert_int_equal(server->reply_bytes, 3005);
    started->served = 3;
    started->ops->finish(started, WP_OK, NULL, 0);
    wp_clock_manual_advance(&mono, 2 * WP_NS_PER_MS);
    wp_grpc_rig_run(server);
    has_taken(0, 2);
    wp_rpc_server_served(server, 3, &took);
    assert_int_equal(took.count, 1);
    assert_int_equal(took.sum_ns, 2 * WP_NS_PER_MS);
    is_set_to(call, 30000);
    wp_clock_manual_advance(&mono, WP_NS_PER_S);
    is_set_to(call, 30000);
    run_out(call);
    assert_int_equal(resets, 1);
    assert_int_equal(cancels, 0);
    assert_string_equal(ended, "");
}

/* Nor a message of a stream, with its end behind it. */
static void
test_a_last_message_that_is_not_taken(void **state)
{
    struct wp_rpc_call *call = open_call("/test.Clock/Stream");

    (void)state;
    send_message("\0\0\0\0\0", 5);
    memset(started->ops->reserve(started, 3), 'r', 3);
    assert_true(started->ops->send(started));
    wp_grpc_rig_run(server);
    is_set_to(call, 60000); /* While it goes on, its deadline is all. */
    memset(started->ops->reserve(started, 3), 's', 3);
    assert_false(started->ops->send(started));
    started->ops->finish(started, WP_OK, NULL, 0);
    wp_grpc_rig_run(server);
    is_set_to(call, 30000);
    run_out(call);
    assert_int_equal(resets, 1);
    assert_int_equal(cancels, 0);
}

/* Whoever finds no room is told which, and when to come again. Its answer has
 * its time as any other. */
static void
test_a_call_that_finds_no_room(void **state)
{
    static const struct {
        enum wp_peer_verdict verdict;
        const char *text;
    } rows[] = {
        {WP_PEER_OVER_ALL, "RESOURCE_EXHAUSTED: too many calls in progress "
                           "(setting calls_max); "},
        {WP_PEER_OVER_ITS_BOUND,
         "RESOURCE_EXHAUSTED: too many calls of one peer in progress (of "
         "calls_max a part is left to others); "},
    };
    struct wp_rpc_stats stats;

    (void)state;
    for (uint32_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        uint8_t bytes[512];
        size_t len = wp_grpc_rig_head(bytes, 1 + 2 * i, "/test.Clock/Unary");

        ended[0] = '\0';
        verdict = rows[i].verdict;
        assert_true(wp_grpc_rig_feed(server, conn, bytes, len));
        assert_int_equal(server->threads[0].n_waiting, 1);
        watched = WP_CONTAINER_OF(server->threads[0].waiting.next,
                                  struct wp_rpc_call, waiting);
        len = wp_grpc_rig_frame(bytes, 0, 1, 1 + 2 * i, "\0\0\0\0\0", 5);
        assert_true(wp_grpc_rig_feed(server, conn, bytes, len));
        assert_string_equal(ended, rows[i].text);
        assert_true(watched->retry_after_ns == 100 * WP_NS_PER_MS);
        assert_null(started);
        wp_rpc_server_stats(server, &stats);
        assert_int_equal(stats.calls_started, 0);
        assert_int_equal(stats.calls_refused, i + 1);
        assert_int_equal(stats.calls_in_flight, 0);
        assert_int_equal(server->threads[0].n_waiting, 0);
    }
}

/* Its timer runs without being asked for: from its head on, and again for its
 * answer. */
static void
test_a_call_has_a_clock(void **state)
{
    struct wp_rpc_call *call = open_call("/test.Clock/Unary");
    struct timeval at;
    struct timeval now;

    (void)state;
    assert_true(event_pending(&call->timer, EV_TIMEOUT, &at));
    assert_int_equal(evutil_gettimeofday(&now, NULL), 0);
    assert_in_range(at.tv_sec - now.tv_sec, 0, 11);
    assert_ptr_equal(call->fresh.next, &call->fresh);
    send_message("\0\0\0\0\0", 5);
    watched = call;
    memset(started->ops->reserve(started, 3), 'r', 3);
    started->ops->finish(started, WP_OK, NULL, 0);
    assert_true(set_to_ns == 0);
    wp_grpc_rig_run(server);
    assert_true(set_to_ns == 30000 * WP_NS_PER_MS);
    assert_int_equal(resets, 0);
}

/* The span of a call begins with its head and ends with its answer. */
static void
test_a_call_that_is_traced(void **state)
{
    const struct wp_trace_context client = {
        .sampled = true, .trace_id = "a trace of them", .span_id = "a span"};
    struct wp_tracer *tracer = wp_tracer_create(8);
    struct wp_rpc_call *call = open_call("/test.Clock/Unary");
    struct wp_span span;

    (void)state;
    assert_non_null(tracer);
    wp_trace_begin(&call->base.trace, tracer, &client, mono.now_mono_ns - 5);
    send_message("\0\0\0\0\0", 5);
    wp_clock_manual_advance(&mono, 3 * WP_NS_PER_MS);
    assert_false(wp_tracer_take(tracer, &span));
    started->ops->finish(started, WP_ABORTED, NULL, 0);
    wp_grpc_rig_run(server);
    assert_true(wp_tracer_take(tracer, &span));
    assert_string_equal(span.name, "test.Clock/Unary");
    assert_int_equal(span.kind, WP_SPAN_SERVER);
    assert_true(span.is_rpc);
    assert_int_equal(span.status, WP_ABORTED);
    assert_true(span.end_ns - span.begin_ns == 3 * WP_NS_PER_MS + 5);
    assert_true(span.end_ns == mono.now_mono_ns);
    assert_memory_equal(span.trace_id, client.trace_id, sizeof span.trace_id);
    assert_memory_equal(span.parent_id, client.span_id, sizeof span.parent_id);
    assert_null(span.served);
    assert_string_equal(span.claim, "");
    assert_false(wp_tracer_take(tracer, &span));
    assert_int_equal(server->threads[0].in_flight, 0);
    assert_false(event_pending(&call->timer, EV_TIMEOUT, NULL));
    wp_tracer_destroy(tracer);
}

/* Whatever the one before it in its place has left. */
static void
test_a_call_begins_anew(void **state)
{
    const struct wp_identity who = {.name = "who"};
    const struct wp_trace_context trace = {.sampled = false};
    struct wp_rpc_call *call = open_call("/test.Clock/Unary");

    (void)state;
    wp_list_remove(&call->waiting);
    server->threads[0].n_waiting--;
    atomic_store(&server->threads[0].in_flight, 0);
    assert_non_null(wp_arena_alloc(&call->base.arena, 1000));
    call->base.served = 3;
    call->base.cancelled = call->base.writable = call->base.ended =
        on_cancelled;
    call->base.received = hold_start;
    call->base.state = call;
    call->base.service = call;
    call->base.trace.tracer = (struct wp_tracer *)1;
    call->method = 1;
    call->details[0] = 'x';
    call->late = call->started = call->ended = call->closed = true;
    call->piece_out = call->finish_due = call->done = call->compressed = true;
    call->broken = WP_INTERNAL;
    call->prefix_len = 3;
    atomic_store(&call->flags, 7);
    wp_rpc_call_open(call, 0, &who, -1, &trace);
    assert_int_equal(call->base.served, 0);
    assert_null(call->base.cancelled);
    assert_null(call->base.writable);
    assert_null(call->base.ended);
    assert_null(call->base.received);
    assert_null(call->base.state);
    assert_null(call->base.service);
    assert_null(call->base.trace.tracer);
    assert_ptr_equal(wp_arena_alloc(&call->base.arena, WP_CALL_ARENA_SIZE),
                     call->room + WP_RPC_REPLY_INLINE);
    assert_int_equal(call->method, 0);
    assert_string_equal(call->details, "");
    assert_false(call->late || call->started || call->ended || call->closed);
    assert_false(call->piece_out || call->finish_due || call->done ||
                 call->compressed);
    assert_int_equal(call->broken, WP_OK);
    assert_int_equal(call->prefix_len, 0);
    assert_int_equal(atomic_load(&call->flags), 0);
    assert_true(call->opened_ns == mono.now_mono_ns);
    assert_int_equal(server->threads[0].in_flight, 1);
    assert_int_equal(server->threads[0].n_waiting, 1);
    assert_ptr_equal(server->threads[0].waiting.next, &call->waiting);
    assert_ptr_equal(server->threads[0].fresh.next, &call->fresh);
}

/* Nobody names a deadline: a unary call has the setting's, a stream a year. */
static void
test_deadlines_by_themselves(void **state)
{
    static const struct {
        uint32_t method;
        int64_t asked_ns, deadline_ns;
    } rows[] = {
        {0, -1, 10 * WP_NS_PER_S},
        {0, 5, 5},
        {0, 0, 0},
        {1, -1, INT64_C(366) * 24 * 3600 * WP_NS_PER_S},
        {1, INT64_MAX / 4, INT64_C(366) * 24 * 3600 * WP_NS_PER_S},
        {0, INT64_MAX / 4, INT64_C(366) * 24 * 3600 * WP_NS_PER_S},
    };
    struct wp_rpc_call *call = open_call("/test.Clock/Unary");
    const struct wp_identity who = {.name = "who"};
    const struct wp_trace_context trace = {.sampled = false};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        wp_list_remove(&call->waiting);
        server->threads[0].n_waiting--;
        atomic_store(&server->threads[0].in_flight, 0);
        wp_rpc_call_open(call, rows[i].method, &who, rows[i].asked_ns, &trace);
        assert_true(call->base.deadline_ns ==
                    mono.now_mono_ns + rows[i].deadline_ns);
        assert_int_equal(call->has_deadline, rows[i].asked_ns >= 0);
        assert_string_equal(call->base.who.name, "who");
    }
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_a_message_that_does_not_arrive),
        TEST(test_a_method_that_is_late),
        TEST(test_a_method_that_ends_in_time),
        TEST(test_an_answer_that_is_not_taken),
        TEST(test_a_last_message_that_is_not_taken),
        TEST(test_a_call_that_finds_no_room),
        TEST(test_a_call_has_a_clock),
        TEST(test_a_call_that_is_traced),
        TEST(test_a_call_begins_anew),
        TEST(test_deadlines_by_themselves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
