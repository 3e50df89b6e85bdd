/* The client library against a daemon of this process, which notes what it is
 * asked and answers what the test has it answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/client/warmpool.h"
#include "allocator/grpc/server.h"
#include "pool/base/assert.h"
#include "proto/wire/wire.h"
#include "tests/support/base/temp_dir.h"

enum {
    WAIT_S = 60,
    INVALID_ARGUMENT = 3, /* gRPC's codes. */
    NOT_FOUND = 5,
    UNAUTHENTICATED = 16,
};

static const char token[] = "0123456789abcdef";
static char dir[300];
static char token_file[400];
static struct wp_rpc_server *server;

/* What the daemon was asked, and how it ends calls. */
static struct {
    pthread_mutex_t lock;
    enum wp_status status;
    const char *why;
    char claim[400]; /* "namespace/pool id tenant ttl wait" */
    char change[80]; /* "renew 7 5000", or "release 7": 7 is the token. */
    char stream[400];
    uint64_t took[8];
    uint32_t n_took;
    uint32_t n_back;
    bool ended;
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct wp_grant
grant_of(uint8_t number)
{
    struct wp_grant grant = {.fence = 40 + number,
                             .served = WP_SERVED_WARM,
                             .deadline_wall_ms = INT64_C(4000000000000)};

    (void)snprintf(grant.pool, sizeof grant.pool, "p");
    (void)snprintf(grant.sandbox, sizeof grant.sandbox, "box-%d", number);
    (void)snprintf(grant.endpoint, sizeof grant.endpoint, "unix:/box-%d",
                   number);
    memset(grant.token, number, sizeof grant.token);
    return grant;
}

/* Under the lock: true when the call is answered as the test has said. */
static bool
is_refused(struct wp_call *call)
{
    if (heard.status != WP_OK) {
        call->ops->finish(call, heard.status, heard.why, 0);
    }
    return heard.status != WP_OK;
}

#define REPLY(call, name, response)                                            \
    do {                                                                       \
        uint8_t *buf_ =                                                        \
            (call)->ops->reserve(call, wp_wire_size_##name(response));         \
        WP_ASSERT(buf_ != NULL);                                               \
        (void)wp_wire_pack_##name(response, buf_);                             \
    } while (0)

static void
claim_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_grant grant = grant_of(7);
    struct wp_wire_claim_response response = {.grant = &grant};
    struct wp_wire_claim_request r;
    struct wp_err err;

    WP_ASSERT(wp_wire_unpack_claim_request(&call->arena, bytes, len, &r,
                                           &err) == WP_OK);
    (void)pthread_mutex_lock(&heard.lock);
    (void)snprintf(heard.claim, sizeof heard.claim, "%s/%s %s %s %lld %lld",
                   r.pool.pool_namespace.ptr, r.pool.name.ptr, r.claim_id.ptr,
                   r.tenant.ptr, (long long)r.ttl_ms, (long long)r.wait_ms);
    if (!is_refused(call)) {
        response.claim_id = r.claim_id;
        REPLY(call, claim_response, &response);
        call->ops->finish(call, WP_OK, NULL, 0);
    }
    (void)pthread_mutex_unlock(&heard.lock);
}

static void
renew_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_wire_renew_response response = {
        .fence = 99, .deadline_wall_ms = INT64_C(4000000009999)};
    struct wp_wire_renew_request r;
    struct wp_err err;

    WP_ASSERT(wp_wire_unpack_renew_request(&call->arena, bytes, len, &r,
                                           &err) == WP_OK);
    memset(response.token, 8, sizeof response.token);
    (void)pthread_mutex_lock(&heard.lock);
    (void)snprintf(heard.change, sizeof heard.change, "renew %d %lld",
                   r.token[WP_TOKEN_LEN - 1], (long long)r.ttl_ms);
    if (!is_refused(call)) {
        REPLY(call, renew_response, &response);
        call->ops->finish(call, WP_OK, NULL, 0);
    }
    (void)pthread_mutex_unlock(&heard.lock);
}

static void
release_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    const struct wp_wire_release_response response = {.was_held = true};
    struct wp_wire_release_request r;
    struct wp_err err;

    WP_ASSERT(wp_wire_unpack_release_request(&call->arena, bytes, len, &r,
                                             &err) == WP_OK);
    (void)pthread_mutex_lock(&heard.lock);
    (void)snprintf(heard.change, sizeof heard.change, "release %d",
                   r.token[WP_TOKEN_LEN - 1]);
    if (!is_refused(call)) {
        REPLY(call, release_response, &response);
        call->ops->finish(call, WP_OK, NULL, 0);
    }
    (void)pthread_mutex_unlock(&heard.lock);
}

/* --- ClaimStream: two leases, and every taking is confirmed --- */

static void
stream_received(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    static _Alignas(max_align_t) char room[WP_WIRE_ARENA_STREAM];
    struct wp_wire_stream_request r;
    struct wp_arena arena;
    struct wp_err err;

    (void)pthread_mutex_lock(&heard.lock);
    wp_arena_init(&arena, room, sizeof room);
    WP_ASSERT(wp_wire_unpack_stream_request(&arena, bytes, len, &r, &err) ==
              WP_OK);
    for (uint32_t i = 0; i < r.n_took && heard.n_took < 8; i++) {
        heard.took[heard.n_took++] = r.took[i];
    }
    heard.n_back += r.n_back;
    if (r.n_took > 0) {
        const struct wp_wire_stream_response response = {.taken = r.took,
                                                         .n_taken = r.n_took};

        REPLY(call, stream_response, &response);
        (void)call->ops->send(call);
    }
    (void)pthread_mutex_unlock(&heard.lock);
}

static void
stream_ended(struct wp_call *call)
{
    (void)pthread_mutex_lock(&heard.lock);
    heard.ended = true;
    call->ops->finish(call, WP_OK, NULL, 0);
    (void)pthread_mutex_unlock(&heard.lock);
}

static void
stream_cancelled(struct wp_call *call)
{
    call->ops->finish(call, WP_CANCELLED, NULL, 0);
}

static void
stream_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    static _Alignas(max_align_t) char room[WP_WIRE_ARENA_STREAM];
    const struct wp_grant grants[] = {grant_of(1), grant_of(2)};
    const struct wp_wire_lease_ahead leases[] = {
        {1, WP_STR("s/1"), &grants[0]}, {2, WP_STR("s/2"), &grants[1]}};
    const struct wp_wire_stream_response response = {.leases = leases,
                                                     .n_leases = 2};
    struct wp_wire_stream_request r;
    struct wp_arena arena;
    struct wp_err err;

    (void)pthread_mutex_lock(&heard.lock);
    wp_arena_init(&arena, room, sizeof room);
    WP_ASSERT(wp_wire_unpack_stream_request(&arena, bytes, len, &r, &err) ==
                  WP_OK &&
              r.has_open);
    (void)snprintf(heard.stream, sizeof heard.stream,
                   "%s/%s %s %lld %u %d %u %u %u",
                   r.open.pool.pool_namespace.ptr, r.open.pool.name.ptr,
                   r.open.tenant.ptr, (long long)r.open.ttl_ms, r.open.ahead,
                   r.open.resume, r.open.n_keep, r.n_took, r.n_back);
    if (!is_refused(call)) {
        call->cancelled = stream_cancelled;
        call->received = stream_received;
        call->ended = stream_ended;
        REPLY(call, stream_response, &response);
        (void)call->ops->send(call);
    }
    (void)pthread_mutex_unlock(&heard.lock);
}

static const struct wp_method methods[] = {
    {.path = "/warmpool.v1.Allocator/Claim", .start = claim_start},
    {.path = "/warmpool.v1.Allocator/Renew", .start = renew_start},
    {.path = "/warmpool.v1.Allocator/Release", .start = release_start},
    {.path = "/warmpool.v1.Allocator/ClaimStream",
     .bidirectional = true,
     .start = stream_start},
};
static const struct wp_service service = {"warmpool.v1.Allocator", methods,
                                          WP_ARRAY_LEN(methods), NULL};

/* --- Setting up --- */

static void
write_token(const char *text)
{
    FILE *file = fopen(token_file, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int
set_up(void **state)
{
    static const char *const listen_at[] = {"127.0.0.1:0"};
    const struct wp_service *services[] = {&service};
    static struct wp_rpc_config config;
    struct wp_err err;

    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    temp_dir_make_fast(dir, sizeof dir);
    (void)snprintf(token_file, sizeof token_file, "%s/token", dir);
    write_token(token);
    heard.status = WP_OK;
    heard.n_took = 0;
    heard.n_back = 0;
    heard.ended = false;
    wp_rpc_config_init(&config);
    config.listen = listen_at;
    config.n_listen = 1;
    config.threads = 1;
    config.access_token = token;
    server = wp_rpc_server_create(&config, services, 1, &err);
    assert_non_null(server);
    assert_int_equal(wp_rpc_server_start(server, &err), WP_OK);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_rpc_server_stop(server);
    temp_dir_remove(dir);
    return 0;
}

static struct warmpool *
connect_to(const char *tenant)
{
    const struct warmpool_options options = {
        .address = wp_rpc_server_address(server, 0),
        .access_token_file = token_file,
        .tenant = tenant};
    struct warmpool_error error = {0, ""};
    struct warmpool *client = warmpool_connect(&options, &error);

    if (client == NULL) {
        fail_msg("%d: %s", error.code, error.message);
    }
    return client;
}

static void
assert_failed(const struct warmpool_error *error, int code, const char *why)
{
    assert_string_equal(error->message, why);
    assert_int_equal(error->code, code);
}

static void
assert_heard(const char *text, const char *expected)
{
    char copy[sizeof heard.stream];

    (void)pthread_mutex_lock(&heard.lock);
    (void)snprintf(copy, sizeof copy, "%s", text);
    (void)pthread_mutex_unlock(&heard.lock);
    assert_string_equal(copy, expected);
}

/* A stock waits two seconds at most for its last words to be heard, which may
 * be too few for a busy machine. */
static void
assert_ended_since(int64_t begin_ns)
{
    bool late =
        wp_clock_mono_ns(wp_clock_system()) - begin_ns >= 2 * WP_NS_PER_S;
    bool ended;

    (void)pthread_mutex_lock(&heard.lock);
    ended = heard.ended;
    (void)pthread_mutex_unlock(&heard.lock);
    assert_true(ended || late);
}

static void
wait_for_taken(uint32_t n)
{
    uint32_t taken = 0;

    for (int i = 0; i < WAIT_S * 1000 && taken < n; i++) {
        (void)pthread_mutex_lock(&heard.lock);
        taken = heard.n_took;
        (void)pthread_mutex_unlock(&heard.lock);
        (void)poll(NULL, 0, 1);
    }
    assert_int_equal(taken, n);
}

static void
end_calls_with(enum wp_status status, const char *why)
{
    (void)pthread_mutex_lock(&heard.lock);
    heard.status = status;
    heard.why = why;
    (void)pthread_mutex_unlock(&heard.lock);
}

/* --- Connecting --- */

static void
test_options_that_make_no_sense(void **state)
{
    static char long_address[700];
    static char long_tenant[WP_TENANT_MAX + 2];
    const struct {
        struct warmpool_options options;
        const char *why;
    } rows[] = {
        {{.address = "127.0.0.1:1", .tls_ca = "a", .tls_cert = "c"},
         "tls_cert and tls_key go together"},
        {{.address = "127.0.0.1:1", .tls_ca = "a", .tls_key = "k"},
         "tls_cert and tls_key go together"},
        {{.address = "127.0.0.1:1", .tls_cert = "c", .tls_key = "k"},
         "TLS needs tls_ca, the authorities that sign the daemon's "
         "certificate"},
        {{.address = "127.0.0.1:1", .tls_name = "n"},
         "TLS needs tls_ca, the authorities that sign the daemon's "
         "certificate"},
        {{.address = "10.0.0.1:7443"},
         "address: a Unix socket or a loopback address expected, or tls_ca for "
         "TLS"},
        {{.address = "somewhere:7443"},
         "address: a Unix socket or a loopback address expected, or tls_ca for "
         "TLS"},
        {{.address = long_address}, "address: too long"},
        {{.address = "127.0.0.1:1", .tenant = long_tenant},
         "tenant: at most 63 bytes expected"},
    };

    (void)state;
    memset(long_address, 'a', sizeof long_address - 1);
    memset(long_tenant, 't', sizeof long_tenant - 1);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct warmpool_error error;

        assert_null(warmpool_connect(&rows[i].options, &error));
        assert_failed(&error, INVALID_ARGUMENT, rows[i].why);
    }
}

static void
test_the_token_proves_who_calls(void **state)
{
    static const char *const bad[] = {"", "0123456789abcde",
                                      "0123456789abcdef 0", "\n"};
    static const char *const good[] = {"0123456789abcdef\n",
                                       "0123456789abcdef\r\n"};
    const struct warmpool_options options = {
        .address = wp_rpc_server_address(server, 0),
        .access_token_file = token_file};
    struct warmpool_error error;
    struct warmpool_lease lease;
    struct warmpool *client;
    char why[600];

    (void)state;
    (void)snprintf(why, sizeof why,
                   "access_token_file %.120s: expected one word of 16 "
                   "to 256 characters",
                   token_file);
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        write_token(bad[i]);
        assert_null(warmpool_connect(&options, &error));
        assert_failed(&error, INVALID_ARGUMENT, why);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(good); i++) {
        write_token(good[i]);
        client = connect_to(NULL);
        assert_int_equal(warmpool_claim(client, "p", "id", 0, 0, &lease, NULL),
                         WARMPOOL_OK);
        warmpool_disconnect(client);
    }
    write_token("another-token-of-them");
    client = connect_to(NULL);
    assert_int_equal(warmpool_claim(client, "p", "id", 0, 0, &lease, &error),
                     UNAUTHENTICATED);
    assert_int_equal(error.code, UNAUTHENTICATED);
    warmpool_disconnect(client);
    (void)unlink(token_file);
    assert_null(warmpool_connect(&options, &error));
    assert_int_equal(error.code, INVALID_ARGUMENT);
}

/* --- Calls --- */

static void
test_claims_renews_and_releases(void **state)
{
    static const char *const ended = "token: its lease has ended";
    struct warmpool *client = connect_to("acme");
    struct wp_grant grant = grant_of(7);
    struct warmpool_error error = {1, "x"};
    struct warmpool_lease lease;
    uint8_t renewed[WARMPOOL_TOKEN_LEN];

    (void)state;
    assert_int_equal(
        warmpool_claim(client, "here/p", "id", 5000, 600000, &lease, &error),
        WARMPOOL_OK);
    assert_failed(&error, WARMPOOL_OK, "");
    assert_heard(heard.claim, "here/p id acme 5000 600000");
    assert_string_equal(lease.claim_id, "id");
    assert_string_equal(lease.sandbox, grant.sandbox);
    assert_string_equal(lease.endpoint, grant.endpoint);
    assert_memory_equal(lease.token, grant.token, sizeof lease.token);
    assert_int_equal(lease.fence, grant.fence);
    assert_int_equal(lease.deadline_unix_ms, grant.deadline_wall_ms);
    assert_int_equal(warmpool_renew(client, &lease, 6000, &error), WARMPOOL_OK);
    assert_heard(heard.change, "renew 7 6000");
    memset(renewed, 8, sizeof renewed);
    assert_memory_equal(lease.token, renewed, sizeof renewed);
    assert_int_equal(lease.fence, 99);
    assert_int_equal(lease.deadline_unix_ms, INT64_C(4000000009999));
    assert_int_equal(warmpool_release(client, &lease, &error), WARMPOOL_OK);
    assert_heard(heard.change, "release 8");
    end_calls_with(WP_NOT_FOUND, ended);
    assert_int_equal(warmpool_renew(client, &lease, 0, &error), NOT_FOUND);
    assert_failed(&error, NOT_FOUND, ended);
    assert_int_equal(lease.fence, 99);
    assert_int_equal(warmpool_release(client, &lease, NULL), NOT_FOUND);
    assert_int_equal(warmpool_claim(client, "p", "id", 0, 0, &lease, &error),
                     NOT_FOUND);
    assert_failed(&error, NOT_FOUND, ended);
    warmpool_disconnect(client);
}

static void
test_bounds_of_a_claim(void **state)
{
    static const char *const bounds =
        "claim_id: at most 128 bytes expected; wait_ms: 0 to 600000";
    struct warmpool *client = connect_to(NULL);
    struct warmpool_error error;
    struct warmpool_lease first;
    struct warmpool_lease second;
    char id[130];

    (void)state;
    memset(id, 'i', sizeof id - 1);
    id[129] = '\0';
    assert_int_equal(warmpool_claim(client, "p", id, 0, 0, &first, &error),
                     INVALID_ARGUMENT);
    assert_failed(&error, INVALID_ARGUMENT, bounds);
    id[128] = '\0';
    assert_int_equal(warmpool_claim(client, "p", id, 0, 0, &first, &error),
                     WARMPOOL_OK);
    assert_string_equal(first.claim_id, id);
    assert_int_equal(warmpool_claim(client, "p", "id", 0, -1, &first, &error),
                     INVALID_ARGUMENT);
    assert_failed(&error, INVALID_ARGUMENT, bounds);
    assert_int_equal(
        warmpool_claim(client, "p", "id", 0, 600001, &first, &error),
        INVALID_ARGUMENT);
    assert_int_equal(warmpool_claim(client, "", "id", 0, 0, &first, &error),
                     INVALID_ARGUMENT);
    assert_failed(&error, INVALID_ARGUMENT,
                  "pool: \"name\" or \"namespace/name\" expected");
    /* Made-up ids are of this client, and none is used twice. */
    assert_int_equal(warmpool_claim(client, "p", NULL, 0, 0, &first, &error),
                     WARMPOOL_OK);
    assert_int_equal(warmpool_claim(client, "p", NULL, 0, 0, &second, &error),
                     WARMPOOL_OK);
    assert_int_equal(strspn(first.claim_id, "0123456789abcdef"), 32);
    assert_memory_equal(first.claim_id, second.claim_id, 33);
    assert_string_not_equal(first.claim_id, second.claim_id);
    warmpool_disconnect(client);
}

/* --- A stock --- */

/* The client's thread needs a moment. */
static void
wait_for_stock(struct warmpool_stock *stock, unsigned n, int code,
               struct warmpool_error *error)
{
    for (int i = 0; i < WAIT_S * 1000; i++) {
        if (warmpool_stock_state(stock, error) == n && error->code == code) {
            return;
        }
        (void)poll(NULL, 0, 1);
    }
    fail_msg("%u leases, %d: %s", warmpool_stock_state(stock, error),
             error->code, error->message);
}

static void
test_a_stock_is_filled_taken_and_given_back(void **state)
{
    const struct warmpool_stock_options options = {
        .pool = "here/p", .ahead = 2, .ttl_ms = 3600000};
    struct warmpool *client = connect_to("acme");
    struct wp_grant grant = grant_of(1);
    char asked[200];
    int64_t begin_ns;
    uint64_t numbers;
    uint32_t n_back;
    struct warmpool_error error;
    struct warmpool_lease lease;
    struct warmpool_stock *stock =
        warmpool_stock_open(client, &options, &error);

    (void)state;
    assert_non_null(stock);
    wait_for_stock(stock, 2, WARMPOOL_OK, &error);
    assert_heard(heard.stream, "here/p acme 3600000 2 0 0 0 0");
    assert_true(warmpool_stock_take(stock, &lease));
    assert_string_equal(lease.claim_id, "s/1");
    assert_string_equal(lease.sandbox, grant.sandbox);
    assert_int_equal(warmpool_stock_claim(stock, 0, &lease, &error),
                     WARMPOOL_OK);
    assert_string_equal(lease.claim_id, "s/2");
    /* With none in stock it is a claim like any other. */
    assert_int_equal(warmpool_stock_claim(stock, 70, &lease, &error),
                     WARMPOOL_OK);
    assert_string_equal(lease.sandbox, "box-7");
    (void)snprintf(asked, sizeof asked, "here/p %s acme 3600000 70",
                   lease.claim_id);
    assert_heard(heard.claim, asked);
    wait_for_taken(2);
    begin_ns = wp_clock_mono_ns(wp_clock_system());
    warmpool_stock_close(stock);
    assert_ended_since(begin_ns);
    (void)pthread_mutex_lock(&heard.lock);
    numbers = heard.took[0] + heard.took[1];
    n_back = heard.n_back;
    (void)pthread_mutex_unlock(&heard.lock);
    assert_int_equal(numbers, 3);
    assert_int_equal(n_back, 0);
    warmpool_disconnect(client);
}

static void
test_a_stock_says_why_it_is_empty(void **state)
{
    const struct warmpool_stock_options options = {.pool = "p", .ahead = 2};
    struct warmpool *client = connect_to(NULL);
    struct warmpool_error error;
    struct warmpool_lease lease;
    struct warmpool_stock *stock;
    int64_t begin_ns;

    (void)state;
    end_calls_with(WP_NOT_FOUND, "pool: there is none");
    stock = warmpool_stock_open(client, &options, &error);
    assert_non_null(stock);
    wait_for_stock(stock, 0, NOT_FOUND, &error);
    assert_string_equal(error.message, "pool: there is none");
    assert_false(warmpool_stock_take(stock, &lease));
    /* It is opened again by itself. */
    end_calls_with(WP_OK, NULL);
    wait_for_stock(stock, 2, WARMPOOL_OK, &error);
    assert_heard(heard.stream, "default/p  60000 2 0 0 0 0");
    begin_ns = wp_clock_mono_ns(wp_clock_system());
    warmpool_disconnect(client); /* And closes the stock. */
    assert_ended_since(begin_ns);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_options_that_make_no_sense),
        TEST(test_the_token_proves_who_calls),
        TEST(test_claims_renews_and_releases),
        TEST(test_bounds_of_a_claim),
        TEST(test_a_stock_is_filled_taken_and_given_back),
        TEST(test_a_stock_says_why_it_is_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
