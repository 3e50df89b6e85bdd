/* A stock of leases as the client's thread keeps it: what it hears becomes
 * slots, what it takes is queued, and what a stream has left is settled by
 * calls. There is no thread here, and no daemon: the test answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "allocator/client/stock_impl.h"
#include "pool/base/clock.h"

enum {
    NOT_FOUND = 5, /* gRPC's codes. */
    INVALID_ARGUMENT = 3,
    INTERNAL = 13,
    TTL_S = 3600,
};

#define TTL_NS (TTL_S * WP_NS_PER_S)

static struct warmpool client;
static struct warmpool_stock *stock;
static char lost_ids[8][129];
static int n_lost;

static void
lost(void *ctx, const char *claim_id)
{
    assert_ptr_equal(ctx, &n_lost);
    assert_true(n_lost < 8);
    (void)snprintf(lost_ids[n_lost++], sizeof lost_ids[0], "%s", claim_id);
}

static int
set_up(void **state)
{
    const struct warmpool_stock_options options = {.pool = "here/p",
                                                   .ahead = 4,
                                                   .ttl_ms = TTL_S * 1000,
                                                   .lost = lost,
                                                   .ctx = &n_lost};

    (void)state;
    memset(&client, 0, sizeof client);
    assert_int_equal(pthread_mutex_init(&client.lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&client.stock_left, NULL), 0);
    wp_list_init(&client.queue);
    wp_list_init(&client.stocks);
    wp_list_init(&client.under_way);
    client.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(client.wake_fd >= 0);
    n_lost = 0;
    stock = warmpool_stock_open(&client, &options, NULL);
    assert_non_null(stock);
    stock->call.ctx = stock;
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    assert_true(wp_list_empty(&client.queue));
    free(stock);
    (void)close(client.wake_fd);
    (void)pthread_cond_destroy(&client.stock_left);
    (void)pthread_mutex_destroy(&client.lock);
    return 0;
}

/* How often the thread was woken since it was last asked. */
static uint64_t
wakes(void)
{
    uint64_t n = 0;

    return read(client.wake_fd, &n, sizeof n) == sizeof n ? n : 0;
}

/* --- What the daemon says --- */

static int64_t
wall_ms(void)
{
    return wp_clock_wall_ns(wp_clock_system()) / WP_NS_PER_MS;
}

static struct wp_grant
grant_of(uint64_t number)
{
    struct wp_grant grant = {.fence = 100 + number,
                             .deadline_wall_ms = wall_ms() + TTL_S * 1000,
                             .served = WP_SERVED_WARM};

    (void)snprintf(grant.sandbox, sizeof grant.sandbox, "box-%llu",
                   (unsigned long long)number);
    (void)snprintf(grant.endpoint, sizeof grant.endpoint, "unix:/box/%llu",
                   (unsigned long long)number);
    (void)snprintf(grant.pool, sizeof grant.pool, "p");
    memset(grant.token, (int)number, sizeof grant.token);
    return grant;
}

/* In pieces of that many bytes. */
static bool
hear_pieces(const struct wp_wire_stream_response *response, size_t piece)
{
    static uint8_t bytes[WP_H2_FRAME_HEAD + (32 << 10)];
    size_t len = wp_wire_size_stream_response(response);

    assert_true(len <= 32 << 10);
    bytes[0] = 0;
    for (int i = 0; i < 4; i++) {
        bytes[1 + i] = (uint8_t)(len >> (24 - 8 * i));
    }
    (void)wp_wire_pack_stream_response(response, bytes + WP_H2_FRAME_HEAD);
    len += WP_H2_FRAME_HEAD;
    for (size_t at = 0; at < len; at += piece) {
        if (!wp_stock_received(&stock->call, bytes + at,
                               len - at < piece ? len - at : piece)) {
            return false;
        }
    }
    return true;
}

static void
hear(const struct wp_wire_stream_response *response)
{
    assert_true(hear_pieces(response, SIZE_MAX / 2));
    assert_int_equal(stock->n_in, 0);
}

static void
hear_leases(uint64_t first, uint32_t n)
{
    struct wp_grant grants[64];
    char ids[64][16];
    struct wp_wire_lease_ahead leases[64];

    assert_true(n <= 64);
    for (uint32_t i = 0; i < n; i++) {
        grants[i] = grant_of(first + i);
        (void)snprintf(ids[i], sizeof ids[i], "s/%llu",
                       (unsigned long long)(first + i));
        leases[i] = (struct wp_wire_lease_ahead){first + i, wp_str_from(ids[i]),
                                                 &grants[i]};
    }
    hear(&(struct wp_wire_stream_response){.leases = leases, .n_leases = n});
}

static void
hear_ended(uint64_t number)
{
    hear(&(struct wp_wire_stream_response){.ended = &number, .n_ended = 1});
}

static void
assert_states(uint32_t n_free, uint32_t stocked, uint32_t renewing,
              uint32_t taken, uint32_t old)
{
    uint32_t n[5] = {0};

    for (uint32_t i = 0; i < WP_STOCK_SLOTS; i++) {
        n[wp_stock_slot_state(stock, i)]++;
    }
    assert_int_equal(n[WP_STOCK_SLOT_FREE], n_free);
    assert_int_equal(n[WP_STOCK_SLOT_STOCKED], stocked);
    assert_int_equal(n[WP_STOCK_SLOT_RENEWING], renewing);
    assert_int_equal(n[WP_STOCK_SLOT_TAKEN], taken);
    assert_int_equal(n[WP_STOCK_SLOT_OLD], old);
}

static void
assert_lacking(int code, const char *text)
{
    struct warmpool_error error;

    (void)warmpool_stock_state(stock, &error);
    assert_int_equal(error.code, code);
    assert_string_equal(error.message, text);
}

static void
open_stream(void)
{
    stock->state = WP_STOCK_STREAM_OPENING;
    hear(&(struct wp_wire_stream_response){.n_leases = 0});
    assert_int_equal(stock->state, WP_STOCK_STREAM_OPEN);
}

/* --- Opening --- */

static void
test_bounds_of_a_stocks_options(void **state)
{
    static const char *const bounds =
        "ahead: 1 to 256 expected; ttl_ms: 0, or 2000 to 2592000000";
    static const char *const name =
        "pool: \"name\" or \"namespace/name\" expected";
    static char long_name[WP_POOL_NAME_MAX + 2];
    static char long_space[WP_NAMESPACE_MAX + 4];
    const struct {
        const char *pool;
        unsigned ahead;
        int64_t ttl_ms;
        const char *why; /* NULL: it is opened. */
    } rows[] = {
        {"p", 0, 0, bounds},
        {"p", 257, 0, bounds},
        {"p", 1, 1999, bounds},
        {"p", 1, -1, bounds},
        {"p", 1, INT64_C(2592000001), bounds},
        {NULL, 1, 0, name},
        {"", 1, 0, name},
        {"a/", 1, 0, name},
        {long_name, 1, 0, name},
        {long_space, 1, 0, name},
        {"p", 1, 0, NULL},
        {"p", 256, 2000, NULL},
        {"/p", 1, INT64_C(2592000000), NULL},
    };

    (void)state;
    memset(long_name, 'n', sizeof long_name - 1);
    memset(long_space, 'n', sizeof long_space - 1);
    memcpy(long_space + WP_NAMESPACE_MAX + 1, "/p", 3);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        const struct warmpool_stock_options options = {
            rows[i].pool, rows[i].ahead, rows[i].ttl_ms, NULL, NULL};
        struct warmpool_error error = {0, ""};
        struct warmpool_stock *opened =
            warmpool_stock_open(&client, &options, &error);

        if (rows[i].why != NULL) {
            assert_null(opened);
            assert_int_equal(error.code, INVALID_ARGUMENT);
            assert_string_equal(error.message, rows[i].why);
            continue;
        }
        assert_non_null(opened);
        assert_int_equal(opened->options.ahead, rows[i].ahead);
        assert_int_equal(opened->options.ttl_ms,
                         rows[i].ttl_ms != 0 ? rows[i].ttl_ms : 60000);
        assert_null(opened->options.pool); /* The caller's text. */
        assert_string_equal(opened->pool.pool_namespace, "");
        assert_string_equal(opened->pool.name, "p");
        assert_ptr_equal(client.stocks.prev, &opened->node);
        wp_list_remove(&opened->node);
        free(opened);
    }
    assert_int_equal(wakes(), 4); /* The fixture's own, and three. */
    assert_string_equal(stock->pool.pool_namespace, "here");
    assert_string_equal(stock->pool.name, "p");
}

/* --- Slots --- */

static void
test_slots_are_taken_in_their_order(void **state)
{
    (void)state;
    assert_int_equal(wp_stock_get(stock), UINT32_MAX);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < WP_STOCK_SLOTS; i++) {
            wp_stock_put(stock, (i + round) % WP_STOCK_SLOTS);
            assert_int_equal(warmpool_stock_state(stock, NULL), i + 1);
        }
        for (uint32_t i = 0; i < WP_STOCK_SLOTS; i++) {
            assert_int_equal(wp_stock_get(stock), (i + round) % WP_STOCK_SLOTS);
            assert_int_equal(warmpool_stock_state(stock, NULL),
                             WP_STOCK_SLOTS - 1 - i);
        }
        assert_int_equal(wp_stock_get(stock), UINT32_MAX);
        /* Not a whole round: the places wrap elsewhere each time. */
        wp_stock_put(stock, round);
        assert_int_equal(wp_stock_get(stock), round);
    }
}

/* Half of its time goes until it is renewed, three quarters until it is taken
 * no more. */
static void
test_a_lease_is_useful_for_three_quarters(void **state)
{
    struct wp_stock_slot *slot = &stock->slots[0];
    int64_t before_ns;

    (void)state;
    wp_stock_set_left(stock, slot, 7, TTL_NS);
    assert_int_equal(slot->renew_ns, 7 + TTL_NS / 2);
    assert_int_equal(slot->useful_ns, 7 + TTL_NS / 4 * 3);
    wp_stock_set_left(stock, slot, TTL_NS, TTL_NS / 4);
    assert_int_equal(slot->renew_ns, TTL_NS - TTL_NS / 4);
    assert_int_equal(slot->useful_ns, TTL_NS);
    /* Another clock may be ahead: no more is left than was asked for. */
    before_ns = wp_client_now_ns();
    wp_stock_set_deadline(stock, slot, wall_ms() + 10 * TTL_S * 1000);
    assert_in_range(slot->renew_ns, before_ns + TTL_NS / 2,
                    wp_client_now_ns() + TTL_NS / 2);
    before_ns = wp_client_now_ns();
    wp_stock_set_deadline(stock, slot, wall_ms() + TTL_S * 500);
    assert_in_range(slot->useful_ns, before_ns + TTL_NS / 4 - 60 * WP_NS_PER_S,
                    wp_client_now_ns() + TTL_NS / 4);
}

/* --- Hearing and taking --- */

static void
assert_lease(const struct warmpool_lease *lease, uint64_t number)
{
    struct wp_grant grant = grant_of(number);
    char id[16];

    (void)snprintf(id, sizeof id, "s/%llu", (unsigned long long)number);
    assert_string_equal(lease->claim_id, id);
    assert_string_equal(lease->sandbox, grant.sandbox);
    assert_string_equal(lease->endpoint, grant.endpoint);
    assert_memory_equal(lease->token, grant.token, sizeof grant.token);
    assert_int_equal(lease->fence, grant.fence);
    assert_in_range(lease->deadline_unix_ms, grant.deadline_wall_ms - 600000,
                    grant.deadline_wall_ms);
}

static void
test_what_is_shown_is_taken_in_order(void **state)
{
    struct warmpool_lease lease;

    (void)state;
    stock->failures = 3;
    wp_stock_note_lacking(stock, WARMPOOL_UNAVAILABLE, "not yet");
    assert_lacking(WARMPOOL_UNAVAILABLE, "not yet");
    assert_false(warmpool_stock_take(stock, &lease));
    open_stream();
    assert_true(stock->resumes);
    assert_int_equal(stock->failures, 0);
    assert_lacking(WARMPOOL_OK, "");
    assert_false(warmpool_stock_take(stock, &lease));
    hear_leases(1, 3);
    assert_int_equal(warmpool_stock_state(stock, NULL), 3);
    assert_states(WP_STOCK_SLOTS - 3, 3, 0, 0, 0);
    (void)wakes();
    for (uint64_t number = 1; number <= 3; number++) {
        /* Only who takes while the thread dozes wakes it, once. */
        stock->dozes = number > 1;
        assert_true(warmpool_stock_take(stock, &lease));
        assert_lease(&lease, number);
        assert_int_equal(wakes(), number > 1 ? 1 : 0);
        assert_false(stock->dozes);
    }
    assert_false(warmpool_stock_take(stock, &lease));
    assert_states(WP_STOCK_SLOTS - 3, 0, 0, 3, 0);
    hear(&(struct wp_wire_stream_response){.taken = (const uint64_t[]){1, 3, 9},
                                           .n_taken = 3});
    assert_states(WP_STOCK_SLOTS - 1, 0, 0, 1, 0);
    assert_int_equal(n_lost, 0);
}

/* Nobody gets what has ended, and who has it is told once. */
static void
test_what_has_ended(void **state)
{
    struct warmpool_lease lease;

    (void)state;
    open_stream();
    hear_leases(1, 3);
    assert_true(warmpool_stock_take(stock, &lease));
    hear_ended(1);
    assert_int_equal(n_lost, 1);
    assert_string_equal(lost_ids[0], "s/1");
    assert_states(WP_STOCK_SLOTS - 2, 2, 0, 0, 0);
    hear_ended(1);
    hear_ended(2);
    hear_ended(77);
    assert_int_equal(n_lost, 1);
    assert_states(WP_STOCK_SLOTS - 2, 2, 0, 0, 0);
    assert_int_equal(stock->slots[1].renew_ns, WP_TIME_NEVER);
    /* Confirmed is what was taken, and nothing else. */
    hear(&(struct wp_wire_stream_response){.taken = (const uint64_t[]){3},
                                           .n_taken = 1});
    assert_states(WP_STOCK_SLOTS - 2, 2, 0, 0, 0);
    assert_true(warmpool_stock_take(stock, &lease));
    assert_string_equal(lease.claim_id, "s/3");
    assert_states(WP_STOCK_SLOTS - 2, 0, 0, 1, 1);
    /* Its holder has released it: that is no loss. */
    wp_stock_settled(stock, lease.token);
    hear_ended(3);
    assert_int_equal(n_lost, 1);
    assert_states(WP_STOCK_SLOTS - 1, 0, 0, 0, 1);
}

static void
test_says_why_it_lacks_leases(void **state)
{
    (void)state;
    open_stream();
    hear(&(struct wp_wire_stream_response){.lacking_code = 8,
                                           .lacking = WP_STR("none ready")});
    assert_lacking(8, "none ready");
    hear(&(struct wp_wire_stream_response){.n_leases = 0});
    assert_lacking(8, "none ready");
    hear_leases(1, 1);
    assert_lacking(WARMPOOL_OK, "");
}

/* The same in any pieces; and a head that makes no sense ends it. */
static void
test_messages_come_in_any_pieces(void **state)
{
    static const uint8_t packed[] = {1, 0, 0, 0, 0};
    static const uint8_t nonsense[] = {0, 0, 0, 0, 1, 0xff};
    uint8_t head[WP_H2_FRAME_HEAD] = {0};
    uint32_t most = WP_STOCK_IN - WP_H2_FRAME_HEAD;

    (void)state;
    open_stream();
    for (size_t piece = 1; piece < 40; piece++) {
        struct wp_grant grant = grant_of(piece);
        const struct wp_wire_lease_ahead lease = {piece, WP_STR("s/x"), &grant};
        const struct wp_wire_stream_response response = {.leases = &lease,
                                                         .n_leases = 1};

        assert_true(hear_pieces(&response, piece));
        assert_int_equal(stock->n_in, 0);
        assert_int_equal(warmpool_stock_state(stock, NULL), piece);
    }
    assert_false(wp_stock_received(&stock->call, packed, sizeof packed));
    stock->n_in = 0;
    for (uint32_t over = 0; over < 2; over++) {
        for (int i = 0; i < 4; i++) {
            head[1 + i] = (uint8_t)((most + over) >> (24 - 8 * i));
        }
        assert_int_equal(wp_stock_received(&stock->call, head, sizeof head),
                         over == 0);
        stock->n_in = 0;
    }
    assert_false(wp_stock_received(&stock->call, nonsense, sizeof nonsense));
    {
        struct warmpool_error error;

        (void)warmpool_stock_state(stock, &error);
        assert_int_equal(error.code, INTERNAL);
    }
}

static void
test_what_there_is_no_slot_for_is_left(void **state)
{
    (void)state;
    open_stream();
    for (uint32_t i = 0; i < WP_STOCK_SLOTS / 64; i++) {
        hear_leases(1 + 64 * i, 64);
    }
    assert_states(0, WP_STOCK_SLOTS, 0, 0, 0);
    hear_leases(1000, 1);
    assert_states(0, WP_STOCK_SLOTS, 0, 0, 0);
    assert_int_equal(warmpool_stock_state(stock, NULL), WP_STOCK_SLOTS);
}

/* --- Calls, which the test answers --- */

static struct wp_job *
next_job(enum wp_method_of_client method)
{
    struct wp_list *node = wp_list_pop_front(&client.queue);
    struct wp_job *job;

    assert_non_null(node);
    job = WP_CONTAINER_OF(node, struct wp_job, node);
    assert_int_equal(job->method, method);
    assert_int_equal(job->call.method, method);
    assert_in_range(job->until_ns - wp_client_now_ns(), 0, 2 * WP_NS_PER_S);
    wp_list_push_back(&client.under_way, &job->node);
    return job;
}

static void
answer(struct wp_job *job, int code)
{
    job->call.status = code;
    job->call.done(&job->call);
}

static void
answer_renewal(struct wp_job *job, uint8_t token)
{
    struct wp_wire_renew_response response = {
        .fence = 9, .deadline_wall_ms = wall_ms() + TTL_S * 1000};

    memset(response.token, token, sizeof response.token);
    job->call.reply_len =
        wp_wire_pack_renew_response(&response, job->reply + WP_H2_FRAME_HEAD);
    answer(job, WARMPOOL_OK);
}

static void
assert_asks_for(const struct wp_job *job, const uint8_t *token)
{
    alignas(max_align_t) char room[4096];
    struct wp_arena arena;
    struct wp_err err;

    assert_memory_equal(job->token, token, WP_TOKEN_LEN);
    wp_arena_init(&arena, room, sizeof room);
    if (job->method == WP_CALL_RENEW) {
        struct wp_wire_renew_request request;

        assert_int_equal(wp_wire_unpack_renew_request(
                             &arena, job->request + WP_H2_FRAME_HEAD,
                             job->call.request_len, &request, &err),
                         WP_OK);
        assert_memory_equal(request.token, token, WP_TOKEN_LEN);
        assert_int_equal(request.ttl_ms, TTL_S * 1000);
        assert_false(request.hold);
    } else {
        struct wp_wire_release_request request;

        assert_int_equal(wp_wire_unpack_release_request(
                             &arena, job->request + WP_H2_FRAME_HEAD,
                             job->call.request_len, &request, &err),
                         WP_OK);
        assert_memory_equal(request.token, token, WP_TOKEN_LEN);
    }
}

static void
test_what_is_half_over_is_renewed(void **state)
{
    int64_t now_ns = wp_client_now_ns();
    uint8_t token[WP_TOKEN_LEN];
    struct wp_job *job;

    (void)state;
    open_stream();
    assert_int_equal(wp_stock_renew_due(stock, now_ns), WP_TIME_NEVER);
    hear_leases(1, 3);
    for (int i = 0; i < 3; i++) {
        stock->slots[i].renew_ns = now_ns + 10 * (i + 1);
    }
    assert_int_equal(wp_stock_renew_due(stock, now_ns + 9), now_ns + 10);
    assert_true(wp_list_empty(&client.queue));
    assert_int_equal(wp_stock_renew_due(stock, now_ns + 10), now_ns + 20);
    assert_states(WP_STOCK_SLOTS - 3, 2, 1, 0, 0);
    job = next_job(WP_CALL_RENEW);
    assert_true(wp_list_empty(&client.queue));
    assert_asks_for(job, stock->slots[0].lease.token);
    answer_renewal(job, 0x55);
    memset(token, 0x55, sizeof token);
    assert_memory_equal(stock->slots[0].lease.token, token, sizeof token);
    assert_in_range(stock->slots[0].lease.deadline_unix_ms,
                    wall_ms() + TTL_S * 1000 - 600000,
                    wall_ms() + TTL_S * 1000);
    assert_in_range(stock->slots[0].renew_ns, now_ns + TTL_NS / 2,
                    wp_client_now_ns() + TTL_NS / 2);
    assert_states(WP_STOCK_SLOTS - 3, 3, 0, 0, 0);
    assert_int_equal(stock->n_jobs, 0);
    /* What was not due, and what was renewed, can be taken again. */
    assert_int_equal(wp_stock_get(stock), 1);
    assert_int_equal(wp_stock_get(stock), 2);
    assert_int_equal(wp_stock_get(stock), 0);
}

/* Each row: how a renewal ends, and what becomes of the lease. */
static void
test_renewals_that_fail(void **state)
{
    static const struct {
        int code;
        bool useful;
        bool ended;
        bool kept;
    } rows[] = {
        {WARMPOOL_UNAVAILABLE, true, false, true},
        {WARMPOOL_DEADLINE_EXCEEDED, true, false, true},
        {WARMPOOL_RESOURCE_EXHAUSTED, true, false, true},
        {WARMPOOL_UNAVAILABLE, false, false, false},
        {WARMPOOL_UNAVAILABLE, true, true, false},
        {NOT_FOUND, true, false, false},
        {WARMPOOL_OK, true, false, false}, /* Without a reply that is one. */
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_stock_slot *slot = &stock->slots[0];
        int64_t now_ns = wp_client_now_ns();

        open_stream();
        hear_leases(1, 1);
        slot->renew_ns = now_ns;
        assert_int_equal(wp_stock_renew_due(stock, now_ns), WP_TIME_NEVER);
        if (rows[i].ended) {
            hear_ended(1);
        } else if (!rows[i].useful) {
            slot->useful_ns = now_ns;
        }
        answer(next_job(WP_CALL_RENEW), rows[i].code);
        assert_int_equal(warmpool_stock_state(stock, NULL), rows[i].kept);
        assert_states(WP_STOCK_SLOTS - 1, rows[i].kept, 0, 0, !rows[i].kept);
        if (rows[i].kept) {
            assert_in_range(slot->renew_ns, now_ns + 200 * WP_NS_PER_MS,
                            wp_client_now_ns() + 200 * WP_NS_PER_MS);
            assert_int_equal(wp_stock_get(stock), 0);
        }
        wp_stock_set_slot_state(stock, 0, WP_STOCK_SLOT_FREE);
    }
}

static void
test_only_so_many_renewals_are_under_way(void **state)
{
    int64_t now_ns = wp_client_now_ns();

    (void)state;
    open_stream();
    hear_leases(1, 40);
    for (int i = 0; i < 40; i++) {
        stock->slots[i].renew_ns = now_ns - 1;
    }
    assert_int_equal(wp_stock_renew_due(stock, now_ns), WP_TIME_NEVER);
    assert_states(WP_STOCK_SLOTS - 40, 8, 32, 0, 0);
    answer_renewal(next_job(WP_CALL_RENEW), 1);
    (void)wp_stock_renew_due(stock, now_ns);
    assert_states(WP_STOCK_SLOTS - 40, 8, 32, 0, 0);
    for (int i = 0; i < 32; i++) {
        answer_renewal(next_job(WP_CALL_RENEW), 2);
    }
    (void)wp_stock_renew_due(stock, now_ns);
    for (int i = 0; i < 7; i++) {
        answer_renewal(next_job(WP_CALL_RENEW), 3);
    }
    assert_int_equal(warmpool_stock_state(stock, NULL), 40);
    assert_int_equal(stock->n_jobs, 0);
}

/* --- When the stream is gone --- */

/* Lease 1 is taken, lease 2 is in stock. */
static void
orphan_two(void)
{
    struct warmpool_lease lease;

    open_stream();
    hear_leases(1, 2);
    assert_true(warmpool_stock_take(stock, &lease));
    client.connected = true;
    wp_stock_orphan_all(stock);
    assert_false(stock->resumes);
    assert_true(stock->has_orphans);
    assert_int_equal(warmpool_stock_state(stock, NULL), 0);
    assert_states(WP_STOCK_SLOTS - 2, 0, 0, 1, 1);
}

static void
test_what_a_stream_has_left_is_settled(void **state)
{
    int64_t now_ns = wp_client_now_ns();
    struct wp_job *renewal;
    struct wp_job *release;

    (void)state;
    orphan_two();
    assert_int_equal(wp_stock_settle_orphans(stock, now_ns),
                     now_ns + 10 * WP_NS_PER_MS);
    renewal = next_job(WP_CALL_RENEW);
    release = next_job(WP_CALL_RELEASE);
    assert_asks_for(renewal, stock->slots[0].lease.token);
    assert_asks_for(release, stock->slots[1].lease.token);
    assert_int_equal(stock->n_jobs, 2);
    /* Each is asked for once. */
    assert_int_equal(wp_stock_settle_orphans(stock, now_ns), WP_TIME_NEVER);
    assert_true(wp_list_empty(&client.queue));
    answer(release, WARMPOOL_UNAVAILABLE); /* It ends by itself. */
    assert_states(WP_STOCK_SLOTS - 1, 0, 0, 1, 0);
    answer(renewal, WARMPOOL_UNAVAILABLE);
    assert_true(stock->has_orphans);
    assert_in_range(wp_stock_settle_orphans(stock, now_ns),
                    now_ns + 200 * WP_NS_PER_MS,
                    wp_client_now_ns() + 200 * WP_NS_PER_MS);
    assert_true(wp_list_empty(&client.queue));
    now_ns = stock->slots[0].ask_ns;
    (void)wp_stock_settle_orphans(stock, now_ns);
    answer_renewal(next_job(WP_CALL_RENEW), 7);
    assert_states(WP_STOCK_SLOTS, 0, 0, 0, 0);
    assert_int_equal(stock->n_jobs, 0);
    assert_int_equal(n_lost, 0);
    assert_int_equal(wp_stock_settle_orphans(stock, now_ns), WP_TIME_NEVER);
    assert_false(stock->has_orphans);
}

static void
test_what_was_taken_and_is_not_held_is_told(void **state)
{
    int64_t now_ns = wp_client_now_ns();

    (void)state;
    orphan_two();
    (void)wp_stock_settle_orphans(stock, now_ns);
    answer(next_job(WP_CALL_RENEW), NOT_FOUND);
    answer(next_job(WP_CALL_RELEASE), WARMPOOL_OK);
    assert_int_equal(n_lost, 1);
    assert_string_equal(lost_ids[0], "s/1");
    assert_states(WP_STOCK_SLOTS, 0, 0, 0, 0);
}

/* Without a daemon nobody can be asked: it is over when its time is. */
static void
test_what_cannot_be_asked_is_over_with_its_time(void **state)
{
    int64_t now_ns = wp_client_now_ns();
    int64_t end_ns;

    (void)state;
    orphan_two();
    client.connected = false;
    stock->slots[1].useful_ns = stock->slots[0].useful_ns;
    end_ns = stock->slots[0].useful_ns + TTL_NS / 4;
    assert_int_equal(wp_stock_settle_orphans(stock, now_ns), end_ns);
    assert_int_equal(wp_stock_settle_orphans(stock, end_ns - 1), end_ns);
    assert_states(WP_STOCK_SLOTS - 2, 0, 0, 1, 1);
    assert_int_equal(n_lost, 0);
    assert_int_equal(wp_stock_settle_orphans(stock, end_ns), WP_TIME_NEVER);
    assert_states(WP_STOCK_SLOTS, 0, 0, 0, 0);
    assert_int_equal(n_lost, 1);
    assert_true(wp_list_empty(&client.queue));
}

/* What its holder does is not to be undone by what the stock asks. */
static void
test_a_holders_own_calls_come_first(void **state)
{
    int64_t now_ns = wp_client_now_ns();
    struct wp_job own;

    (void)state;
    orphan_two();
    stock->slots[1].told = true; /* Only the taken one is looked at. */
    wp_job_init(&own, &client, WP_CALL_RENEW, WP_NS_PER_S);
    wp_job_renew(&own, stock->slots[0].lease.token, 1000);
    assert_false(
        wp_job_pends(&client, WP_CALL_RENEW, stock->slots[0].lease.token));
    wp_job_queue(&own);
    assert_true(
        wp_job_pends(&client, WP_CALL_RENEW, stock->slots[0].lease.token));
    assert_false(
        wp_job_pends(&client, WP_CALL_RELEASE, stock->slots[0].lease.token));
    assert_false(
        wp_job_pends(&client, WP_CALL_RENEW, stock->slots[1].lease.token));
    assert_int_equal(wp_stock_settle_orphans(stock, now_ns),
                     now_ns + 10 * WP_NS_PER_MS);
    wp_list_remove(&own.node);
    wp_list_push_back(&client.under_way, &own.node);
    assert_int_equal(wp_stock_settle_orphans(stock, now_ns),
                     now_ns + 10 * WP_NS_PER_MS);
    assert_int_equal(stock->n_jobs, 0);
    assert_int_equal(pthread_cond_init(&own.done, NULL), 0);
    answer(&own, WARMPOOL_OK);
    assert_true(own.is_done);
    (void)pthread_cond_destroy(&own.done);
    assert_true(stock->slots[0].settled);
    (void)wp_stock_settle_orphans(stock, now_ns);
    assert_int_equal(stock->n_jobs, 0);
    assert_int_equal(n_lost, 0);
    assert_states(WP_STOCK_SLOTS - 1, 0, 0, 0, 1);
}

/* A call that is not answered is queued again, five times. */
static void
test_a_call_is_tried_again(void **state)
{
    struct wp_job job;

    (void)state;
    wp_job_init(&job, &client, WP_CALL_RELEASE, WP_NS_PER_S);
    assert_int_equal(pthread_cond_init(&job.done, NULL), 0);
    (void)snprintf(job.details, sizeof job.details, "no room");
    wp_job_queue(&job);
    for (int i = 0; i < 6; i++) {
        assert_false(job.is_done);
        assert_ptr_equal(next_job(WP_CALL_RELEASE), &job);
        (void)wakes();
        answer(&job, WP_H2_NO_STATUS);
        assert_int_equal(wakes(), i < 5 ? 1 : 0);
    }
    assert_true(job.is_done);
    assert_int_equal(job.call.status, WARMPOOL_UNAVAILABLE);
    assert_string_equal(job.details, "the daemon ends the call without an "
                                     "answer: no room");
    (void)pthread_cond_destroy(&job.done);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_bounds_of_a_stocks_options),
        TEST(test_slots_are_taken_in_their_order),
        TEST(test_a_lease_is_useful_for_three_quarters),
        TEST(test_what_is_shown_is_taken_in_order),
        TEST(test_what_has_ended),
        TEST(test_says_why_it_lacks_leases),
        TEST(test_messages_come_in_any_pieces),
        TEST(test_what_there_is_no_slot_for_is_left),
        TEST(test_what_is_half_over_is_renewed),
        TEST(test_renewals_that_fail),
        TEST(test_only_so_many_renewals_are_under_way),
        TEST(test_what_a_stream_has_left_is_settled),
        TEST(test_what_was_taken_and_is_not_held_is_told),
        TEST(test_what_cannot_be_asked_is_over_with_its_time),
        TEST(test_a_holders_own_calls_come_first),
        TEST(test_a_call_is_tried_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
