/* tests/unit/allocator/grpc/grpc_server_test.c - the server as a whole: each
 * bound of its settings, what it counts, and what it says of its health. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/health.h"
#include "tests/support/base/held_locks.h"
#include "tests/support/grpc/grpc_rig.h"

static void
finish_at_once(struct wp_call *call, const uint8_t *request, size_t len)
{
    (void)request;
    (void)len;
    call->ops->finish(call, WP_ABORTED, NULL, 0);
}

static const struct wp_method methods[] = {
    {"/test.Server/Call", false, false, false, finish_at_once},
};
static const struct wp_service service = {"test.Server", methods, 1, NULL};

/* ---------------------------------------------------------------- settings */

/* "": a server can be made. */
static void
is_judged(const struct wp_rpc_config *config, const char *expected)
{
    const struct wp_service *services[] = {&service};
    struct wp_err err = {.msg = ""};
    struct wp_rpc_server *server =
        wp_rpc_server_create(config, services, 1, &err);

    assert_string_equal(err.msg, expected);
    assert_int_equal(server == NULL, expected[0] != '\0');
    wp_rpc_server_stop(server);
}

static struct wp_rpc_config
plain_config(void)
{
    static const char *const listen_at[] = {"127.0.0.1:0"};
    struct wp_rpc_config config;

    wp_rpc_config_init(&config);
    config.listen = listen_at;
    config.n_listen = 1;
    config.threads = 1;
    return config;
}

static void
set_number(struct wp_rpc_config *config, size_t offset, size_t size,
           int64_t value)
{
    uint32_t narrow = (uint32_t)value;

    memcpy((char *)config + offset,
           size == sizeof narrow ? (const void *)&narrow : (const void *)&value,
           size);
}

#define SETTING(field)                                                         \
    offsetof(struct wp_rpc_config, field),                                     \
        sizeof((struct wp_rpc_config *)NULL)->field

static void
test_the_bounds_of_settings(void **state)
{
    static const struct {
        const char *name;
        size_t offset, size;
        int64_t low, high, unit;
    } rows[] = {
        {"threads", SETTING(threads), 0, WP_RPC_THREADS_MAX, 1},
        {"calls_max", SETTING(calls_max), 16, 65536, 1},
        {"connections_max", SETTING(connections_max), 1, 65536, 1},
        {"peer_connections_max", SETTING(peer_connections_max), 0, 65536, 1},
        {"streams_per_connection_max", SETTING(streams_per_connection_max), 1,
         10000, 1},
        {"receive_bytes_max", SETTING(receive_bytes_max), 1024, 4194304, 1},
        {"metadata_bytes_max", SETTING(metadata_bytes_max), 1024, 65536, 1},
        {"deadline_default in ms", SETTING(deadline_default_ns), 1, 3600000,
         WP_NS_PER_MS},
        {"keepalive in ms", SETTING(keepalive_ns), 100, 86400000, WP_NS_PER_MS},
        {"keepalive_timeout in ms", SETTING(keepalive_timeout_ns), 100, 3600000,
         WP_NS_PER_MS},
        {"silent in ms", SETTING(silent_ns), 10, 3600000, WP_NS_PER_MS},
        {"connection_age_max in ms", SETTING(connection_age_max_ns), 0,
         INT32_MAX, WP_NS_PER_MS},
    };
    char expected[160];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        const int64_t values[] = {rows[i].low, rows[i].high, rows[i].low - 1,
                                  rows[i].high + 1};

        for (size_t k = 0; k < WP_ARRAY_LEN(values); k++) {
            struct wp_rpc_config config = plain_config();
            int64_t seen = rows[i].size == sizeof(uint32_t)
                               ? (int64_t)(uint32_t)values[k]
                               : values[k];

            set_number(&config, rows[i].offset, rows[i].size,
                       values[k] * rows[i].unit);
            (void)snprintf(expected, sizeof expected,
                           "%s: %lld is out of bounds, expected %lld to %lld",
                           rows[i].name, (long long)seen,
                           (long long)rows[i].low, (long long)rows[i].high);
            is_judged(&config, k < 2 ? "" : expected);
        }
    }
}

static void
test_settings_that_go_together(void **state)
{
    static const unsigned modes[] = {0, 0400, 0577, 0661, 0700, 01600};
    static const char *const many[WP_RPC_LISTEN_MAX + 1];
    struct wp_rpc_config config = plain_config();
    char expected[160];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(modes); i++) {
        config.unix_mode = modes[i];
        (void)snprintf(expected, sizeof expected,
                       "unix_mode: %04o is out of bounds, expected 0600 to "
                       "0666 without execute bits",
                       modes[i]);
        is_judged(&config, expected);
    }
    config.unix_mode = 0600;
    is_judged(&config, "");
    config.unix_mode = 0666;
    is_judged(&config, "");
    config.tls_client_ca = "ca";
    is_judged(&config, "tls_client_ca needs tls_cert and tls_key");
    config.tls_key = "key";
    is_judged(&config, "tls_cert and tls_key are set together or not at all");
    config.tls_key = NULL;
    config.tls_cert = "cert";
    is_judged(&config, "tls_cert and tls_key are set together or not at all");
    config = plain_config();
    config.n_listen = 0;
    is_judged(&config, "number of listen addresses: 0 is out of bounds, "
                       "expected 1 to 16");
    config.listen = many;
    config.n_listen = WP_RPC_LISTEN_MAX + 1;
    is_judged(&config, "number of listen addresses: 17 is out of bounds, "
                       "expected 1 to 16");
}

static void
test_what_settings_are_without_a_word(void **state)
{
    struct wp_rpc_config config;

    (void)state;
    wp_rpc_config_init(&config);
    assert_int_equal(config.n_listen, 0);
    assert_int_equal(config.unix_mode, 0660);
    assert_true(config.reflection);
    assert_false(config.anonymous);
    assert_int_equal(config.threads, 0);
    assert_int_equal(config.calls_max, 4096);
    assert_int_equal(config.connections_max, 4096);
    assert_int_equal(config.peer_connections_max, 1024);
    assert_int_equal(config.streams_per_connection_max, 1024);
    assert_int_equal(config.receive_bytes_max, 65536);
    assert_int_equal(config.metadata_bytes_max, 16384);
    assert_true(config.deadline_default_ns == 10 * WP_NS_PER_S);
    assert_true(config.keepalive_ns == 30 * WP_NS_PER_S);
    assert_true(config.keepalive_timeout_ns == 10 * WP_NS_PER_S);
    assert_true(config.connection_age_max_ns == 0);
    assert_true(config.silent_ns == 5 * WP_NS_PER_S);
    assert_true(config.spin_ns == 0);
}

static void
test_methods_are_there_once(void **state)
{
    static struct wp_method many[WP_RPC_METHODS_MAX + 1];
    static char paths[WP_RPC_METHODS_MAX + 1][16];
    struct wp_service other = {"test.Other", many, 0, NULL};
    struct wp_rpc_server *server = wp_grpc_rig_create(&service);
    uint32_t own = server->n_methods;
    struct wp_err err;

    (void)state;
    for (uint32_t i = 0; i <= WP_RPC_METHODS_MAX; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "/test.Other/%u", i);
        many[i] = (struct wp_method){.path = paths[i], .start = finish_at_once};
    }
    assert_int_equal(wp_rpc_server_add_service(server, &service, false, &err),
                     WP_INTERNAL);
    assert_string_equal(err.msg, "method /test.Server/Call is there twice");
    other.n_methods = WP_RPC_METHODS_MAX - own;
    assert_int_equal(wp_rpc_server_add_service(server, &other, false, &err),
                     WP_OK);
    assert_int_equal(server->n_methods, WP_RPC_METHODS_MAX);
    for (uint32_t i = 0; i < other.n_methods; i++) {
        assert_int_equal(wp_rpc_method_find(server, wp_str_from(paths[i])),
                         own + i);
    }
    assert_int_equal(
        wp_rpc_method_find(server, wp_str_from(paths[other.n_methods])),
        WP_RPC_METHODS_MAX);
    other.methods = &many[other.n_methods];
    other.n_methods = 1;
    assert_int_equal(wp_rpc_server_add_service(server, &other, false, &err),
                     WP_INTERNAL);
    assert_string_equal(err.msg, "more than 64 methods");
    wp_rpc_server_stop(server);
}

/* --------------------------------------------------------------- durations */

/* A call that took as long as a bound is within it. */
static void
test_how_long_calls_took(void **state)
{
    struct wp_rpc_server *server = wp_grpc_rig_create(&service);
    struct wp_rpc_durations *d = &server->threads[0].durations[0][10];
    struct wp_rpc_duration seen;
    uint64_t sum = 0;
    uint32_t cursor = 0;

    (void)state;
    assert_false(wp_rpc_server_duration(server, &cursor, &seen));
    for (unsigned i = 0; i < WP_RPC_DURATION_BOUNDS; i++) {
        int64_t bound = wp_rpc_duration_bounds_ns[i];

        assert_true(i == 0 || bound > wp_rpc_duration_bounds_ns[i - 1]);
        wp_rpc_durations_add(d, bound);
        wp_rpc_durations_add(d, bound + 1);
        sum += 2 * (uint64_t)bound + 1;
    }
    wp_rpc_durations_add(d, 0);
    wp_rpc_durations_add(d, -5);
    cursor = 0;
    assert_true(wp_rpc_server_duration(server, &cursor, &seen));
    assert_string_equal(seen.method, "test.Server/Call");
    assert_int_equal(seen.code, 10);
    assert_int_equal(seen.count, 2 * WP_RPC_DURATION_BOUNDS + 2);
    assert_true(seen.sum_ns == sum);
    for (unsigned i = 0; i < WP_RPC_DURATION_BUCKETS; i++) {
        assert_int_equal(seen.bucket[i], i == 0                        ? 3
                                         : i == WP_RPC_DURATION_BOUNDS ? 1
                                                                       : 2);
    }
    assert_false(wp_rpc_server_duration(server, &cursor, &seen));
    wp_rpc_durations_add(&server->threads[0].served[2], 7);
    wp_rpc_server_served(server, 2, &seen);
    assert_null(seen.method);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.bucket[0], 1);
    assert_int_equal(seen.sum_ns, 7);
    wp_rpc_server_served(server, 1, &seen);
    assert_int_equal(seen.count, 0);
    wp_rpc_server_stop(server);
}

/* ------------------------------------------------------------------ health */

/* A call whose answers the test reads. */
struct heard {
    struct wp_call base;
    char room[WP_CALL_ARENA_SIZE];
    uint8_t reserved[64];
    size_t reserved_len;
    uint8_t reply[64]; /* What has left. */
    size_t len;
    bool busy;      /* A message is on its way. */
    bool no_memory; /* For a reply. */
    uint32_t sent;
    uint32_t finished;
    enum wp_status status;
    char message[128];
};

static uint8_t *
heard_reserve(struct wp_call *call, size_t len)
{
    struct heard *heard = WP_CONTAINER_OF(call, struct heard, base);

    heard->reserved_len = len;
    return heard->no_memory ? NULL : heard->reserved;
}

static void
reply_leaves(struct heard *heard)
{
    memcpy(heard->reply, heard->reserved, sizeof heard->reply);
    heard->len = heard->reserved_len;
}

static void
heard_finish(struct wp_call *call, enum wp_status status, const char *message,
             int64_t retry_after_ns)
{
    struct heard *heard = WP_CONTAINER_OF(call, struct heard, base);

    assert_int_equal(retry_after_ns, 0);
    heard->finished++;
    if (status == WP_OK) {
        reply_leaves(heard);
    }
    heard->status = status;
    (void)snprintf(heard->message, sizeof heard->message, "%s",
                   message != NULL ? message : "");
}

static bool
heard_send(struct wp_call *call)
{
    struct heard *heard = WP_CONTAINER_OF(call, struct heard, base);

    if (heard->busy) {
        return false;
    }
    heard->busy = true;
    heard->sent++;
    reply_leaves(heard);
    return true;
}

static const struct wp_call_ops heard_ops = {
    .reserve = heard_reserve, .finish = heard_finish, .send = heard_send};

static void
ask_health(const struct wp_rpc_server *server, uint32_t method, const char *of,
           struct heard *heard)
{
    const struct wp_service *health = wp_rpc_health_service(server->health);
    struct wp_wire_health_request request = {.service = wp_str_from(of)};
    uint8_t bytes[300];
    size_t len = wp_wire_pack_health_request(&request, bytes);

    memset(heard, 0, sizeof *heard);
    heard->base.ops = &heard_ops;
    heard->base.service = health->self;
    wp_arena_init(&heard->base.arena, heard->room, sizeof heard->room);
    health->methods[method].start(&heard->base, bytes, len);
}

static int
health_in(struct heard *heard)
{
    struct wp_wire_health_response response;
    struct wp_arena arena;
    char room[512];
    struct wp_err err;

    wp_arena_init(&arena, room, sizeof room);
    assert_int_equal(wp_wire_unpack_health_response(
                         &arena, heard->reply, heard->len, &response, &err),
                     WP_OK);
    return (int)response.status;
}

static void
is_checked(const struct wp_rpc_server *server, const char *of, int health)
{
    struct heard heard;

    ask_health(server, 0, of, &heard);
    assert_int_equal(heard.finished, 1);
    assert_int_equal(heard.sent, 0);
    if (health == WP_WIRE_HEALTH_SERVICE_UNKNOWN) {
        assert_int_equal(heard.status, WP_NOT_FOUND);
        assert_string_equal(heard.message, "unknown service");
    } else {
        assert_int_equal(heard.status, WP_OK);
        assert_string_equal(heard.message, "");
        assert_int_equal(health_in(&heard), health);
    }
}

static void
test_what_a_check_of_health_says(void **state)
{
    static const char *const known[] = {"", "test.Server",
                                        "grpc.health.v1.Health",
                                        "grpc.reflection.v1.ServerReflection"};
    struct wp_rpc_server *server = wp_grpc_rig_create(&service);
    struct heard heard;
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_rpc_server_start(server, &err), WP_OK);
    for (int serving = 1; serving >= 0; serving--) {
        wp_rpc_server_set_serving(server, serving == 1);
        for (size_t i = 0; i < WP_ARRAY_LEN(known); i++) {
            is_checked(server, known[i],
                       serving == 1 ? WP_WIRE_HEALTH_SERVING
                                    : WP_WIRE_HEALTH_NOT_SERVING);
        }
        is_checked(server, "test.Serve", WP_WIRE_HEALTH_SERVICE_UNKNOWN);
    }
    memset(&heard, 0, sizeof heard);
    heard.no_memory = true;
    heard.base.ops = &heard_ops;
    heard.base.service = wp_rpc_health_service(server->health)->self;
    wp_arena_init(&heard.base.arena, heard.room, sizeof heard.room);
    wp_rpc_health_service(server->health)
        ->methods[0]
        .start(&heard.base, NULL, 0);
    assert_int_equal(heard.finished, 1);
    assert_int_equal(heard.status, WP_RESOURCE_EXHAUSTED);
    assert_string_equal(heard.message, "memory");
    wp_rpc_server_stop(server);
}

static void
has_sent(struct heard *heard, uint32_t sent, int health)
{
    assert_int_equal(heard->sent, sent);
    assert_int_equal(health_in(heard), health);
    assert_int_equal(heard->finished, 0);
}

static void
take_it(struct heard *heard)
{
    heard->busy = false;
    heard->base.writable(&heard->base);
}

static void
test_what_a_watch_of_health_is_told(void **state)
{
    struct wp_rpc_server *server = wp_grpc_rig_create(&service);
    struct heard known, slow, unknown, gone;
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_rpc_server_start(server, &err), WP_OK);
    ask_health(server, 1, "", &known);
    has_sent(&known, 1, WP_WIRE_HEALTH_SERVING);
    ask_health(server, 1, "test.Server", &slow);
    has_sent(&slow, 1, WP_WIRE_HEALTH_SERVING);
    ask_health(server, 1, "test.None", &unknown);
    has_sent(&unknown, 1, WP_WIRE_HEALTH_SERVICE_UNKNOWN);
    ask_health(server, 1, "", &gone);
    take_it(&known);
    take_it(&unknown);
    has_sent(&known, 1, WP_WIRE_HEALTH_SERVING);
    gone.base.cancelled(&gone.base);
    assert_int_equal(gone.finished, 1);
    assert_int_equal(gone.status, WP_CANCELLED);
    assert_string_equal(gone.message, "");
    take_it(&gone); /* It has ended. */
    wp_rpc_server_set_serving(server, false);
    has_sent(&known, 2, WP_WIRE_HEALTH_NOT_SERVING);
    assert_int_equal(slow.sent, 1);
    has_sent(&unknown, 1, WP_WIRE_HEALTH_SERVICE_UNKNOWN);
    take_it(&known);
    wp_rpc_server_set_serving(server, true);
    has_sent(&known, 3, WP_WIRE_HEALTH_SERVING);
    /* Of what is over by the time it reads, it is told nothing. */
    take_it(&slow);
    has_sent(&slow, 1, WP_WIRE_HEALTH_SERVING);
    take_it(&known);
    slow.busy = true;
    wp_rpc_health_end(server->health);
    assert_int_equal(known.sent, 4);
    assert_int_equal(health_in(&known), WP_WIRE_HEALTH_NOT_SERVING);
    assert_int_equal(known.finished, 1);
    assert_int_equal(known.status, WP_UNAVAILABLE);
    assert_string_equal(known.message, "the server is leaving");
    assert_int_equal(unknown.finished, 1);
    assert_int_equal(unknown.sent, 1);
    assert_int_equal(slow.finished, 0);
    take_it(&slow);
    assert_int_equal(slow.sent, 2);
    assert_int_equal(health_in(&slow), WP_WIRE_HEALTH_NOT_SERVING);
    assert_int_equal(slow.finished, 1);
    /* For ever. */
    wp_rpc_server_set_serving(server, true);
    is_checked(server, "", WP_WIRE_HEALTH_NOT_SERVING);
    held_locks_are_free();
    assert_int_equal(slow.finished, 1);
    assert_int_equal(gone.finished, 1);
    wp_rpc_server_stop(server);
}

/* ----------------------------------------------------------------- replies */

static void
test_how_long_a_reply_may_be(void **state)
{
    static const struct {
        size_t len;
        size_t kept; /* Beside the call's own room. */
    } rows[] = {
        {0, 0},
        {WP_RPC_REPLY_INLINE - WP_RPC_PREFIX, 0},
        {WP_RPC_REPLY_INLINE - WP_RPC_PREFIX + 1, WP_RPC_REPLY_INLINE + 1},
        {WP_RPC_REPLY_MAX, WP_RPC_REPLY_MAX + WP_RPC_PREFIX}};
    struct wp_rpc_server *server = wp_grpc_rig_create(&service);
    static char room[WP_RPC_REPLY_INLINE];
    struct wp_rpc_call *call = calloc(1, sizeof *call);

    (void)state;
    assert_non_null(call);
    call->server = server;
    call->room = room;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        uint8_t *bytes = wp_rpc_call_ops.reserve(&call->base, rows[i].len);
        const uint8_t prefix[] = {
            0, (uint8_t)(rows[i].len >> 24), (uint8_t)(rows[i].len >> 16),
            (uint8_t)(rows[i].len >> 8), (uint8_t)rows[i].len};

        assert_non_null(bytes);
        assert_memory_equal(bytes - WP_RPC_PREFIX, prefix, sizeof prefix);
        memset(bytes, 1, rows[i].len);
        assert_int_equal(call->reserved.len, rows[i].len + WP_RPC_PREFIX);
        assert_int_equal(server->reply_bytes, rows[i].kept);
    }
    assert_null(wp_rpc_call_ops.reserve(&call->base, WP_RPC_REPLY_MAX + 1));
    assert_int_equal(server->reply_bytes, 0);
    /* What all calls keep is bounded. */
    atomic_store(&server->reply_bytes, (64 << 20) - 2005);
    assert_non_null(wp_rpc_call_ops.reserve(&call->base, 2000));
    assert_int_equal(server->reply_bytes, 64 << 20);
    wp_rpc_reply_drop(call, &call->reserved);
    assert_null(wp_rpc_call_ops.reserve(&call->base, 2001));
    assert_int_equal(server->reply_bytes, (64 << 20) - 2005);
    /* The room is taken while a message is on its way. */
    atomic_store(&call->flags, WP_RPC_WRITING);
    assert_non_null(wp_rpc_call_ops.reserve(&call->base, 1));
    assert_int_equal(server->reply_bytes, (64 << 20) - 2005 + 6);
    /* Nothing more is kept than the one that goes next. */
    assert_false(wp_rpc_call_ops.send(&call->base));
    assert_null(call->reserved.bytes);
    assert_int_equal(server->reply_bytes, (64 << 20) - 2005);
    atomic_store(&server->reply_bytes, 0);
    free(call);
    wp_rpc_server_stop(server);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bounds_of_settings),
        cmocka_unit_test(test_settings_that_go_together),
        cmocka_unit_test(test_what_settings_are_without_a_word),
        cmocka_unit_test(test_methods_are_there_once),
        cmocka_unit_test(test_how_long_calls_took),
        cmocka_unit_test(test_what_a_check_of_health_says),
        cmocka_unit_test(test_what_a_watch_of_health_is_told),
        cmocka_unit_test(test_how_long_a_reply_may_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
