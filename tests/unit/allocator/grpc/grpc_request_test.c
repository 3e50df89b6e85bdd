/* tests/unit/allocator/grpc/grpc_request_test.c - what a call's headers say:
 * who is let in with what, and each answer of those who are not, in full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/grpc/grpc_rig.h"

#define TRACE "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
#define DETAILS "DETAILS" /* Their own test compares them. */

struct wp_h2_stream *__wrap_wp_h2_stream_open(struct wp_h2_conn *conn,
                                              int32_t id);
void __wrap_wp_h2_conn_refuse(struct wp_h2_conn *conn, int32_t id,
                              const struct wp_h2_field *fields, size_t n);
void __wrap_wp_rpc_call_open(struct wp_rpc_call *call, uint32_t method,
                             const struct wp_identity *who, int64_t timeout_ns,
                             const struct wp_trace_context *trace);

static struct wp_rpc_server *server;
static struct wp_h2_conn *conn;
static struct wp_rpc_call call;
static bool is_full; /* All streams are in use. */

/* What followed the last request. */
static char refusal[1024]; /* "name: value\n" of each field. */
static struct {
    bool yes;
    uint32_t method;
    struct wp_identity who;
    int64_t timeout_ns;
    struct wp_trace_context trace;
} opened;

struct wp_h2_stream *
__wrap_wp_h2_stream_open(struct wp_h2_conn *at, int32_t id)
{
    assert_ptr_equal(at, conn);
    assert_int_equal(id, 7);
    return is_full ? NULL : &call.stream;
}

void
__wrap_wp_h2_conn_refuse(struct wp_h2_conn *at, int32_t id,
                         const struct wp_h2_field *fields, size_t n)
{
    size_t len = 0;

    assert_ptr_equal(at, conn);
    assert_int_equal(id, 7);
    for (size_t i = 0; i < n; i++) {
        bool hidden = wp_str_is(fields[i].name, "grpc-status-details-bin");

        len += (size_t)snprintf(
            refusal + len, sizeof refusal - len, "%.*s: %.*s\n",
            (int)fields[i].name.len, fields[i].name.ptr,
            hidden ? (int)sizeof DETAILS - 1 : (int)fields[i].value.len,
            hidden ? DETAILS : fields[i].value.ptr);
    }
}

void
__wrap_wp_rpc_call_open(struct wp_rpc_call *at, uint32_t method,
                        const struct wp_identity *who, int64_t timeout_ns,
                        const struct wp_trace_context *trace)
{
    assert_ptr_equal(at, &call);
    opened.yes = true;
    opened.method = method;
    opened.who = *who;
    opened.timeout_ns = timeout_ns;
    opened.trace = *trace;
}

static void
never_start(struct wp_call *base, const uint8_t *request, size_t len)
{
    (void)base;
    (void)request;
    (void)len;
    fail();
}

static const struct wp_method methods[] = {
    {"/test.Request/Open", false, false, false, never_start},
    {"/test.Request/Admin", false, false, true, never_start},
};
static const struct wp_service service = {"test.Request", methods, 2, NULL};

static const char *const plain[][2] = {
    {":method", "POST"},
    {":path", "/test.Request/Open"},
    {"content-type", "application/grpc"},
};

/* A request with the plain fields, where value does not stand for one of them,
 * and one more. value NULL: without that field. */
static void
ask(const char *name, const char *value)
{
    uint64_t scratch[WP_H2_REQUEST_SIZE / sizeof(uint64_t)] = {0};

    memset(&opened, 0, sizeof opened);
    refusal[0] = '\0';
    for (size_t i = 0; i < WP_ARRAY_LEN(plain); i++) {
        if (strcmp(plain[i][0], name) != 0) {
            wp_rpc_request_header(server, scratch, wp_str_from(plain[i][0]),
                                  wp_str_from(plain[i][1]));
        }
    }
    if (value != NULL) {
        wp_rpc_request_header(server, scratch, wp_str_from(name),
                              wp_str_from(value));
    }
    wp_rpc_request_done(server, conn, 7, scratch, false);
    assert_int_equal(opened.yes, refusal[0] == '\0');
}

static void
is_refused(const char *code, const char *message)
{
    char expected[1024];

    (void)snprintf(expected, sizeof expected,
                   ":status: 200\ncontent-type: application/grpc\n"
                   "grpc-status: %s\ngrpc-message: %s\n"
                   "grpc-status-details-bin: DETAILS\n",
                   code, message);
    assert_string_equal(refusal, expected);
}

static struct wp_rpc_peer *
peer(void)
{
    return wp_h2_conn_peer(conn);
}

static int
begin(void **state)
{
    (void)state;
    server = wp_grpc_rig_create(&service);
    conn = wp_grpc_rig_connect(server);
    (void)snprintf(peer()->who.name, sizeof peer()->who.name, "somebody");
    is_full = false;
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wp_grpc_rig_close(server, conn);
    wp_rpc_server_stop(server);
    return 0;
}

static void
test_a_plain_call(void **state)
{
    static const struct wp_trace_context none;

    (void)state;
    ask("te", "trailers");
    assert_true(opened.yes);
    assert_int_equal(opened.method, 0);
    assert_string_equal(opened.who.name, "somebody");
    assert_true(opened.timeout_ns == -1);
    assert_memory_equal(&opened.trace, &none, sizeof none);
}

static void
test_timeouts(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        {"1n", 1},
        {"99999999n", 99999999},
        {"1u", 1000},
        {"20m", 20 * WP_NS_PER_MS},
        {"3S", 3 * WP_NS_PER_S},
        {"4M", 240 * WP_NS_PER_S},
        {"1H", 3600 * WP_NS_PER_S},
        {"00000001S", WP_NS_PER_S},
        {"99999999S", 99999999 * WP_NS_PER_S},
        {"640511H", INT64_C(640511) * 3600 * WP_NS_PER_S},
        {"640512H", INT64_MAX / 4},
        {"99999999H", INT64_MAX / 4},
    };
    static const char *const bad[] = {
        "",    "S",    "1",  "100000000S", "1s",   "1h",  "-1S",
        "1 S", "1.5S", "/S", ":S",         "0x1S", "1SS", "1N",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(good); i++) {
        ask("grpc-timeout", good[i].text);
        assert_true(opened.yes);
        assert_true(opened.timeout_ns == good[i].ns);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        ask("grpc-timeout", bad[i]);
        is_refused("3", "grpc-timeout: expected at most 8 digits and one of "
                        "HMSmun");
    }
    ask("grpc-timeout", "0S");
    is_refused("4", "the deadline had passed when the call arrived");
}

static void
test_what_is_no_call_of_grpc(void **state)
{
    static const char *const good[] = {"application/grpc",
                                       "application/grpc+proto",
                                       "application/grpc;charset=x"};
    static const char *const bad[] = {NULL,
                                      "",
                                      "application/grp",
                                      "application/grpcx",
                                      "application/json",
                                      "application/grpc-web"};
    static const char *const others[] = {NULL, "GET", "POS", "POSTS", "post"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(good); i++) {
        ask("content-type", good[i]);
        assert_true(opened.yes);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        ask("content-type", bad[i]);
        assert_string_equal(refusal, ":status: 415\n");
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(others); i++) {
        ask(":method", others[i]);
        assert_string_equal(refusal, ":status: 405\n");
    }
}

static void
test_which_methods_there_are(void **state)
{
    static const char *const unknown[] = {NULL,
                                          "",
                                          "/",
                                          "/test.Request/Opem",
                                          "/test.Request/Open ",
                                          "/test.Request/Ope"};
    struct wp_rpc_stats stats;

    (void)state;
    ask(":path", "/test.Request/Open");
    assert_int_equal(opened.method, 0);
    for (size_t i = 0; i < WP_ARRAY_LEN(unknown); i++) {
        ask(":path", unknown[i]);
        is_refused("12", "unknown method");
    }
    wp_rpc_server_stats(server, &stats);
    assert_int_equal(stats.calls_unknown, WP_ARRAY_LEN(unknown));
    assert_int_equal(stats.calls_refused, 0);
    ask(":path", "/test.Request/Admin");
    is_refused("7", "the method needs the admin right");
    peer()->who.admin = true;
    ask(":path", "/test.Request/Admin");
    assert_true(opened.yes);
    assert_int_equal(opened.method, 1);
    /* Those of the server itself come after. */
    ask(":path", "/grpc.health.v1.Health/Check");
    assert_int_equal(opened.method, 2);
    ask(":path", "/grpc.health.v1.Health/Watch");
    assert_int_equal(opened.method, 3);
    wp_rpc_server_stats(server, &stats);
    assert_int_equal(stats.calls_unknown, WP_ARRAY_LEN(unknown));
}

static void
test_who_may_call(void **state)
{
    static const char *const wrong[] = {
        "",
        "Bearer a-token-of-the-ri",
        "Bearer a-token-of-the-rigs",
        "Bearer a-token-of-the-rif",
        "Bearer  a-token-of-the-rig",
        "Basic  a-token-of-the-rig",
        "a-token-of-the-rig",
    };

    (void)state;
    peer()->known = false;
    ask("authorization", "Bearer a-token-of-the-rig");
    is_refused("7", "the caller is not among the configured principals");
    peer()->unproven = true;
    for (size_t i = 0; i < WP_ARRAY_LEN(wrong); i++) {
        ask("authorization", wrong[i]);
        is_refused("16",
                   "a call over TCP needs a client certificate, or the token "
                   "of the daemon's setting access_token_file as "
                   "'authorization: Bearer TOKEN'");
    }
    for (int unread = 0; unread < 2; unread++) {
        peer()->who.unread = unread == 1;
        ask("authorization", "bearer a-token-of-the-rig");
        assert_true(opened.yes);
        assert_string_equal(opened.who.name, "access-token");
        assert_true(opened.who.admin);
        assert_int_equal(opened.who.unread, unread);
    }
    /* Who needs no token may have a wrong one; a right one counts. */
    server->config.anonymous = true;
    ask("authorization", "Bearer x");
    is_refused("7", "the caller is not among the configured principals");
    peer()->known = true;
    ask("authorization", "Bearer x");
    assert_true(opened.yes);
    assert_string_equal(opened.who.name, "somebody");
    ask("authorization", "Bearer a-token-of-the-rig");
    assert_string_equal(opened.who.name, "access-token");
    server->access_token_len = 0;
    ask("authorization", "Bearer a-token-of-the-rig");
    assert_string_equal(opened.who.name, "somebody");
    ask("authorization", "Bearer ");
    assert_string_equal(opened.who.name, "somebody");
}

/* Who is behind a connection that proves nothing, and behind one of our own. */
static void
test_who_is_behind_a_connection(void **state)
{
    static const struct wp_principal others[] = {{"uid:1", "t1", true}};
    static const struct wp_principal anyone[] = {{"uid:1", "t1", true},
                                                 {"anonymous", "t2", true}};
    static const struct {
        bool anonymous;
        const struct wp_principal *principals;
        size_t n;
        bool known, admin;
        const char *tenant;
    } rows[] = {
        {false, NULL, 0, false, false, ""},
        {true, NULL, 0, true, false, ""},
        {false, others, 1, false, false, ""},
        {true, others, 1, false, false, ""},
        {false, anyone, 2, true, true, "t2"},
        {true, anyone, 2, true, true, "t2"},
    };
    struct wp_h2_origin origin = {.fd = -1};
    struct wp_rpc_peer seen;
    int fds[2];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        memset(&seen, 0, sizeof seen);
        server->config.anonymous = rows[i].anonymous;
        server->config.access.principals = rows[i].principals;
        server->config.access.n_principals = rows[i].n;
        assert_true(wp_rpc_peer_admit(server, &origin, &seen));
        assert_true(seen.unproven);
        assert_int_equal(seen.known, rows[i].known);
        assert_string_equal(seen.who.name, "anonymous");
        assert_string_equal(seen.who.tenant, rows[i].tenant);
        assert_int_equal(seen.who.admin, rows[i].admin);
        assert_false(seen.who.unread);
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    memset(&seen, 0, sizeof seen);
    origin = (struct wp_h2_origin){.fd = fds[0], .is_unix = true};
    assert_true(wp_rpc_peer_admit(server, &origin, &seen));
    assert_false(seen.unproven);
    assert_true(seen.known);
    assert_true(seen.who.admin);
    assert_true(seen.who.unread);
    (void)close(fds[0]);
    (void)close(fds[1]);
    /* What is no connection is nobody's. */
    memset(&seen, 0, sizeof seen);
    origin.fd = -1;
    assert_false(wp_rpc_peer_admit(server, &origin, &seen));
    assert_false(seen.known);
}

static void
test_the_trace_of_a_client(void **state)
{
    char text[WP_TRACEPARENT_LEN + 1];

    (void)state;
    ask("traceparent", TRACE);
    assert_true(opened.yes);
    wp_trace_context_format(&opened.trace, text);
    assert_string_equal(text, TRACE);
    ask("traceparent", "00-1");
    assert_true(opened.yes);
}

static void
test_what_there_is_no_room_for(void **state)
{
    uint64_t scratch[WP_H2_REQUEST_SIZE / sizeof(uint64_t)] = {0};
    struct wp_rpc_stats stats;

    (void)state;
    refusal[0] = '\0';
    wp_rpc_request_done(server, conn, 7, scratch, true);
    is_refused("8", "more metadata than one call may have");
    is_full = true;
    ask("te", "trailers");
    assert_string_equal(refusal,
                        ":status: 200\ncontent-type: application/grpc\n"
                        "grpc-status: 8\n"
                        "grpc-message: too many requests that are not whole\n"
                        "grpc-status-details-bin: DETAILS\n"
                        "grpc-retry-pushback-ms: 100\n");
    wp_rpc_server_stats(server, &stats);
    assert_int_equal(stats.calls_refused, 1);
    assert_int_equal(stats.calls_unknown, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_plain_call, begin, end),
        cmocka_unit_test_setup_teardown(test_timeouts, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_no_call_of_grpc, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_which_methods_there_are, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_who_may_call, begin, end),
        cmocka_unit_test_setup_teardown(test_who_is_behind_a_connection, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_the_trace_of_a_client, begin, end),
        cmocka_unit_test_setup_teardown(test_what_there_is_no_room_for, begin,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
