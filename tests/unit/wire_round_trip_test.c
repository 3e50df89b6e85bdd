/* Every message of the wire: what is packed has the size foretold, and comes
 * back as it was. */
#include <math.h>
#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "proto/descriptor.h"
#include "proto/wire.h"
#include "proto/wire_health.h"
#include "proto/wire_reflection.h"
#include "proto/wire_status.h"

enum {
    BUF_MAX = 1 << 20,
};

static uint8_t packed[BUF_MAX];
static size_t packed_len;
static alignas(max_align_t) char arena_memory[4 * BUF_MAX];
static struct wp_arena arena;
static struct wp_err err;

static int
setup(void **state)
{
    (void)state;
    wp_arena_init(&arena, arena_memory, sizeof arena_memory);
    memset(&err, 0, sizeof err);
    return 0;
}

#define PACK(name, in)                                                         \
    do {                                                                       \
        size_t size_ = wp_wire_size_##name(in);                                \
        assert_true(size_ < sizeof packed);                                    \
        memset(packed, 0xEE, size_ + 1);                                       \
        assert_int_equal(wp_wire_pack_##name(in, packed), size_);              \
        assert_int_equal(packed[size_], 0xEE);                                 \
        packed_len = size_;                                                    \
    } while (0)

#define UNPACK(name, out)                                                      \
    do {                                                                       \
        enum wp_status status_ =                                               \
            wp_wire_unpack_##name(&arena, packed, packed_len, out, &err);      \
        if (status_ != WP_OK) {                                                \
            fail_msg("%s: %s", #name, err.msg);                                \
        }                                                                      \
    } while (0)

static struct wp_grant
some_grant(void)
{
    struct wp_grant grant = {
        .pool_namespace = "team",
        .pool = "agents",
        .sandbox = "agents-x7k2m9qa",
        .endpoint = "unix:/run/warmpool/agents-x7k2m9qa.sock",
        .fence = UINT64_MAX,
        .deadline_wall_ms = 1790000000000,
        .waited_ns = 1234567,
        .served = WP_SERVED_QUEUED,
    };

    for (size_t i = 0; i < sizeof grant.token; i++) {
        grant.token[i] = (uint8_t)i;
    }
    return grant;
}

static void
assert_grant(const struct wp_grant *got, const struct wp_grant *want)
{
    assert_string_equal(got->pool_namespace, want->pool_namespace);
    assert_string_equal(got->pool, want->pool);
    assert_string_equal(got->sandbox, want->sandbox);
    assert_string_equal(got->endpoint, want->endpoint);
    assert_memory_equal(got->token, want->token, WP_TOKEN_LEN);
    assert_int_equal(got->fence, want->fence);
    assert_int_equal(got->deadline_wall_ms, want->deadline_wall_ms);
    assert_int_equal(got->waited_ns / 1000, want->waited_ns / 1000);
    assert_int_equal(got->served, want->served);
}

static void
test_claim_round_trip(void **state)
{
    const struct wp_grant grant = some_grant();
    const struct wp_wire_claim_request request = {
        .pool = {WP_STR("team"), WP_STR("agents")},
        .claim_id = WP_STR("gr\xC3\xBC\xC3\x9F"
                           "e"),
        .tenant = WP_STR("t"),
        .ttl_ms = 60000,
        .wait_ms = 500,
    };
    const struct wp_wire_claim_response response = {
        .claim_id = WP_STR("id"), .grant = &grant, .replayed = true};
    struct wp_wire_claim_request request_out;
    struct wp_wire_claim_response response_out;

    (void)state;
    PACK(claim_request, &request);
    UNPACK(claim_request, &request_out);
    assert_true(wp_str_eq(request_out.claim_id, request.claim_id));
    assert_true(wp_str_is(request_out.tenant, "t"));
    assert_int_equal(request_out.ttl_ms, 60000);
    assert_int_equal(request_out.wait_ms, 500);
    PACK(claim_response, &response);
    UNPACK(claim_response, &response_out);
    assert_true(response_out.replayed);
    assert_true(wp_str_is(response_out.claim_id, "id"));
    assert_grant(response_out.grant, &grant);
}

/* A field at its default is not on the wire, and is its default again. */
static void
test_empty_grant_round_trip(void **state)
{
    const struct wp_grant grant = {.waited_ns = -5};
    const struct wp_wire_claim_response response = {.grant = &grant};
    struct wp_wire_claim_response out;

    (void)state;
    PACK(claim_response, &response);
    UNPACK(claim_response, &out);
    assert_int_equal(out.grant->waited_ns, 0);
    assert_string_equal(out.grant->sandbox, "");
    assert_false(out.replayed);
}

static void
test_batch_round_trip(void **state)
{
    const struct wp_grant grant = some_grant();
    struct wp_wire_batch_item items[256];
    const struct wp_wire_batch_response response = {items, 256};
    const struct wp_str ids[] = {WP_STR("a"), WP_STR("b")};
    const struct wp_wire_batch_request request = {
        .pool = {WP_STR("team"), WP_STR("agents")},
        .claim_ids = ids,
        .n_claims = 2,
        .tenant = WP_STR(""),
        .all_or_nothing = true,
    };
    struct wp_wire_batch_request request_out;
    struct wp_wire_batch_response out;

    (void)state;
    PACK(batch_request, &request);
    UNPACK(batch_request, &request_out);
    assert_int_equal(request_out.n_claims, 2);
    assert_true(wp_str_is(request_out.claim_ids[1], "b"));
    assert_true(request_out.all_or_nothing);
    for (uint32_t i = 0; i < 256; i++) {
        bool ok = i % 2 == 0;

        items[i] = (struct wp_wire_batch_item){
            .claim_id = WP_STR("some-id"),
            .code = ok ? 0 : 8,
            .message = wp_str_from(ok ? "" : "none is ready"),
            .grant = ok ? &grant : NULL,
            .replayed = ok,
        };
    }
    PACK(batch_response, &response);
    UNPACK(batch_response, &out);
    assert_int_equal(out.n_items, 256);
    for (uint32_t i = 0; i < 256; i++) {
        assert_true(wp_str_is(out.items[i].claim_id, "some-id"));
        assert_int_equal(out.items[i].code, items[i].code);
        assert_true(wp_str_eq(out.items[i].message, items[i].message));
        if (i % 2 == 0) {
            assert_grant(out.items[i].grant, &grant);
        } else {
            assert_null(out.items[i].grant);
        }
    }
}

static void
test_lease_changes_round_trip(void **state)
{
    struct wp_wire_renew_request renew = {.ttl_ms = 1000};
    struct wp_wire_renew_response renewed = {.fence = 9,
                                             .deadline_wall_ms = 12345};
    struct wp_wire_release_request release;
    const struct wp_wire_release_response released = {.was_held = true};
    struct wp_wire_renew_request renew_out;
    struct wp_wire_renew_response renewed_out;
    struct wp_wire_release_request release_out;
    struct wp_wire_release_response released_out;

    (void)state;
    memset(renew.token, 1, sizeof renew.token);
    memset(renewed.token, 2, sizeof renewed.token);
    memset(release.token, 0, sizeof release.token);
    PACK(renew_request, &renew);
    UNPACK(renew_request, &renew_out);
    assert_memory_equal(renew_out.token, renew.token, WP_TOKEN_LEN);
    assert_int_equal(renew_out.ttl_ms, 1000);
    PACK(renew_response, &renewed);
    UNPACK(renew_response, &renewed_out);
    assert_memory_equal(renewed_out.token, renewed.token, WP_TOKEN_LEN);
    assert_int_equal(renewed_out.fence, 9);
    assert_int_equal(renewed_out.deadline_wall_ms, 12345);
    PACK(release_request, &release);
    UNPACK(release_request, &release_out);
    assert_memory_equal(release_out.token, release.token, WP_TOKEN_LEN);
    PACK(release_response, &released);
    UNPACK(release_response, &released_out);
    assert_true(released_out.was_held);
}

static void
test_claim_infos_round_trip(void **state)
{
    static struct wp_claim_info infos[WP_PAGE_MAX];
    const struct wp_wire_list_claims_response response = {
        .claims = infos,
        .n_claims = WP_PAGE_MAX,
        .next_page_token = WP_STR("00000000000003e8"),
    };
    struct wp_wire_list_claims_response out;
    struct wp_claim_info one;

    (void)state;
    for (uint32_t i = 0; i < WP_PAGE_MAX; i++) {
        infos[i] = (struct wp_claim_info){
            .tenant = "t",
            .pool_namespace = "team",
            .pool = "agents",
            .sandbox = "agents-1",
            .endpoint = "127.0.0.1:80",
            .lost_reason = "it died",
            .fence = i,
            .granted_wall_ms = 1,
            .deadline_wall_ms = 2,
            .served = WP_SERVED_COLD,
            .waiting = i % 3 == 1,
            .lost = i % 3 == 2,
        };
        (void)snprintf(infos[i].claim_id, sizeof infos[i].claim_id, "id-%u", i);
    }
    PACK(list_claims_response, &response);
    UNPACK(list_claims_response, &out);
    assert_int_equal(out.n_claims, WP_PAGE_MAX);
    assert_true(wp_str_is(out.next_page_token, "00000000000003e8"));
    for (uint32_t i = 0; i < WP_PAGE_MAX; i++) {
        assert_memory_equal(&out.claims[i], &infos[i], sizeof infos[i]);
    }
    PACK(claim_info, &infos[2]);
    UNPACK(claim_info, &one);
    assert_memory_equal(&one, &infos[2], sizeof one);
}

static void
test_pools_round_trip(void **state)
{
    struct wp_pool_stats stats[3] = {{
        .spec = {.pool_namespace = "team",
                 .name = "agents",
                 .template_name = "small",
                 .target = 8,
                 .ttl_default_ns = 60 * WP_NS_PER_S,
                 .ttl_max_ns = 3600 * WP_NS_PER_S,
                 .cold_start = WP_COLD_ALLOWED},
        .warming = 1,
        .ready = 2,
        .leased = 3,
        .quarantined = 4,
        .dying = 5,
        .waiting = 6,
        .created_total = 7,
        .destroyed_total = 8,
        .failed_total = 9,
        .lost_total = 10,
        .served_total = {0, 11, 12, 13},
        .refused_total = 14,
        .released_total = 15,
        .expired_total = 16,
        .draining = true,
        .breaker_open = true,
        .last_failure = "no such image",
    }};
    const struct wp_wire_pools pools = {stats, 3};
    struct wp_wire_pools out;
    struct wp_pool_stats one;

    (void)state;
    PACK(pool, &stats[0]);
    UNPACK(pool, &one);
    assert_memory_equal(&one, &stats[0], sizeof one);
    PACK(pools, &pools);
    UNPACK(pools, &out);
    assert_int_equal(out.n_pools, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_memory_equal(&out.pools[i], &stats[i], sizeof one);
    }
}

static void
fill_decision(struct wp_scale_decision *d, uint64_t number,
              enum wp_scale_reason reason)
{
    *d = (struct wp_scale_decision){
        .number = number,
        .wall_ns = 1700000000123 * WP_NS_PER_MS,
        .target_before = 40,
        .target = 57,
        .wanted = 60,
        .reason = reason,
        .rate_per_s = 5.25,
        .rate_fast_per_s = 6.5,
        .rate_slow_per_s = 4.75,
        .season_per_s = 5.5,
        .lead_mean_s = 8.25,
        .lead_p99_s = 12.5,
        .expected = 42.5,
        .spread = 14.5,
        .dispersion = 1.5,
        .learned = true,
        .reserved = 3,
        .floor = 2,
        .hit_rate = 0.9990234375,
        .idle = 14.25,
        .hit_rate_seen = NAN,
        .hit_rate_best = NAN,
    };
}

static void
assert_decision(const struct wp_scale_decision *got,
                const struct wp_scale_decision *expected)
{
    struct wp_scale_decision a = *got;
    struct wp_scale_decision b = *expected;

    assert_true(isnan(a.hit_rate_seen) && isnan(a.hit_rate_best));
    a.hit_rate_seen = b.hit_rate_seen = 0;
    a.hit_rate_best = b.hit_rate_best = 0;
    assert_int_equal(a.number, b.number);
    assert_int_equal(a.wall_ns, b.wall_ns);
    assert_int_equal(a.reason, b.reason);
    assert_true(a.target == b.target && a.target_before == b.target_before &&
                a.wanted == b.wanted && a.reserved == b.reserved &&
                a.floor == b.floor && a.learned == b.learned);
    assert_memory_equal(&a.rate_per_s, &b.rate_per_s, 9 * sizeof(double));
    assert_true(a.hit_rate >= b.hit_rate && a.hit_rate <= b.hit_rate);
    assert_true(a.idle >= b.idle && a.idle <= b.idle);
}

/* With as many decisions and reservations as there may be. */
static void
test_pool_detail_round_trip(void **state)
{
    static struct wp_scale_decision decisions[WP_WIRE_DECISIONS_MAX];
    static struct wp_scale_reservation reservations[WP_SCALE_RESERVATIONS_MAX];
    static struct wp_pool_stats stats;
    struct wp_wire_pool_detail detail = {
        .stats = &stats,
        .decisions = decisions,
        .n_decisions = WP_WIRE_DECISIONS_MAX,
        .reservations = reservations,
        .n_reservations = WP_SCALE_RESERVATIONS_MAX,
    };
    struct wp_wire_pool_detail out;
    char sentence[WP_SCALE_TEXT_MAX];

    (void)state;
    (void)snprintf(stats.spec.pool_namespace, sizeof stats.spec.pool_namespace,
                   "team");
    (void)snprintf(stats.spec.name, sizeof stats.spec.name, "agents");
    stats.scaled = true;
    stats.replicas = 5;
    stats.missed_total = 77;
    for (uint32_t i = 0; i < WP_WIRE_DECISIONS_MAX; i++) {
        fill_decision(&decisions[i], 100 - i,
                      (enum wp_scale_reason)(i % WP_SCALE_REASON_COUNT));
    }
    stats.scale = decisions[0];
    for (uint32_t i = 0; i < WP_SCALE_RESERVATIONS_MAX; i++) {
        struct wp_scale_reservation *r = &reservations[i];

        (void)snprintf(r->id, sizeof r->id, "%063u", i);
        r->n = i + 1;
        r->left = i;
        r->from_wall_ns = (1700000000000 + i) * WP_NS_PER_MS;
        r->until_wall_ns = (1700000060000 + i) * WP_NS_PER_MS;
    }
    PACK(pool_detail, &detail);
    UNPACK(pool_detail, &out);
    assert_string_equal(out.stats->spec.name, stats.spec.name);
    assert_true(out.stats->scaled);
    assert_int_equal(out.stats->replicas, 5);
    assert_int_equal(out.stats->missed_total, 77);
    assert_decision(&out.stats->scale, &decisions[0]);
    assert_int_equal(out.n_decisions, WP_WIRE_DECISIONS_MAX);
    for (uint32_t i = 0; i < out.n_decisions; i++) {
        assert_decision(&out.decisions[i], &decisions[i]);
        assert_string_equal(out.texts[i].reason,
                            wp_scale_reason_word(decisions[i].reason));
        wp_scale_decision_format(&decisions[i], sentence, sizeof sentence);
        assert_string_equal(out.texts[i].sentence, sentence);
    }
    assert_int_equal(out.n_reservations, WP_SCALE_RESERVATIONS_MAX);
    for (uint32_t i = 0; i < out.n_reservations; i++) {
        assert_string_equal(out.reservations[i].id, reservations[i].id);
        assert_int_equal(out.reservations[i].n, i + 1);
        assert_int_equal(out.reservations[i].left, i);
        assert_int_equal(out.reservations[i].from_wall_ns,
                         reservations[i].from_wall_ns);
        assert_int_equal(out.reservations[i].until_wall_ns,
                         reservations[i].until_wall_ns);
    }
}

static void
test_reservations_round_trip(void **state)
{
    const struct wp_wire_reserve_request reserve = {
        {WP_STR("team"), WP_STR("agents")},
        WP_STR("job"),
        20,
        1700000000000,
        1700000060000};
    const struct wp_wire_cancel_reservation_request cancel = {
        {WP_STR("team"), WP_STR("agents")}, WP_STR("job")};
    const struct wp_wire_cancel_reservation_response cancelled = {0};
    const struct wp_scale_reservation reservation = {
        "job", 20, 3, 1700000000000 * WP_NS_PER_MS,
        1700000060000 * WP_NS_PER_MS};
    struct wp_wire_reserve_request reserve_out;
    struct wp_wire_cancel_reservation_request cancel_out;
    struct wp_wire_cancel_reservation_response cancelled_out;
    struct wp_scale_reservation out;

    (void)state;
    PACK(reserve_request, &reserve);
    UNPACK(reserve_request, &reserve_out);
    assert_true(wp_str_is(reserve_out.pool.name, "agents"));
    assert_true(wp_str_is(reserve_out.id, "job"));
    assert_int_equal(reserve_out.sandboxes, 20);
    assert_int_equal(reserve_out.not_before_ms, 1700000000000);
    assert_int_equal(reserve_out.until_ms, 1700000060000);
    PACK(cancel_reservation_request, &cancel);
    UNPACK(cancel_reservation_request, &cancel_out);
    assert_true(wp_str_is(cancel_out.id, "job"));
    PACK(cancel_reservation_response, &cancelled);
    UNPACK(cancel_reservation_response, &cancelled_out);
    PACK(reservation, &reservation);
    UNPACK(reservation, &out);
    assert_memory_equal(&out, &reservation, sizeof out);
}

static void
test_small_requests_round_trip(void **state)
{
    const struct wp_wire_pool_ref ref = {WP_STR("team"), WP_STR("agents")};
    const struct wp_wire_get_claim_request get = {WP_STR("id"), WP_STR("t")};
    const struct wp_wire_list_claims_request list = {ref, WP_STR("t"), 7,
                                                     WP_STR("token")};
    const struct wp_wire_watch_pools_request watch = {ref};
    const struct wp_wire_get_pool_request get_pool = {ref};
    const struct wp_wire_setting settings[] = {
        {WP_STR("objective"), WP_STR("99.9%")}, {WP_STR("min"), WP_STR("")}};
    const struct wp_wire_set_pool_request set = {ref, true, 5, settings, 2};
    const struct wp_wire_set_pool_request zero = {ref, true, 0, NULL, 0};
    const struct wp_wire_set_pool_request stay = {ref, false, 0, settings, 1};
    const struct wp_wire_drain_request drain = {{WP_STR(""), WP_STR("")}, 77};
    const struct wp_wire_drain_response drained = {9};
    const struct wp_wire_list_pools_request list_pools = {0};
    struct wp_wire_get_claim_request get_out;
    struct wp_wire_list_claims_request list_out;
    struct wp_wire_watch_pools_request watch_out;
    struct wp_wire_get_pool_request get_pool_out;
    struct wp_wire_set_pool_request set_out;
    struct wp_wire_drain_request drain_out;
    struct wp_wire_drain_response drained_out;
    struct wp_wire_list_pools_request list_pools_out;

    (void)state;
    PACK(get_claim_request, &get);
    UNPACK(get_claim_request, &get_out);
    assert_true(wp_str_is(get_out.claim_id, "id"));
    assert_true(wp_str_is(get_out.tenant, "t"));
    PACK(list_claims_request, &list);
    UNPACK(list_claims_request, &list_out);
    assert_true(wp_str_is(list_out.pool.name, "agents"));
    assert_int_equal(list_out.page_size, 7);
    assert_true(wp_str_is(list_out.page_token, "token"));
    PACK(watch_pools_request, &watch);
    UNPACK(watch_pools_request, &watch_out);
    assert_true(wp_str_is(watch_out.pool.pool_namespace, "team"));
    PACK(get_pool_request, &get_pool);
    UNPACK(get_pool_request, &get_pool_out);
    assert_true(wp_str_is(get_pool_out.pool.name, "agents"));
    PACK(set_pool_request, &set);
    UNPACK(set_pool_request, &set_out);
    assert_true(set_out.has_target);
    assert_int_equal(set_out.target, 5);
    assert_int_equal(set_out.n_autoscale, 2);
    assert_true(wp_str_is(set_out.autoscale[0].key, "objective"));
    assert_true(wp_str_is(set_out.autoscale[0].value, "99.9%"));
    assert_int_equal(set_out.autoscale[1].value.len, 0);
    PACK(set_pool_request, &zero);
    UNPACK(set_pool_request, &set_out);
    assert_true(set_out.has_target);
    assert_int_equal(set_out.target, 0);
    PACK(set_pool_request, &stay);
    UNPACK(set_pool_request, &set_out);
    assert_false(set_out.has_target);
    PACK(drain_request, &drain);
    UNPACK(drain_request, &drain_out);
    assert_int_equal(drain_out.pool.name.len, 0);
    assert_int_equal(drain_out.grace_ms, 77);
    PACK(drain_response, &drained);
    UNPACK(drain_response, &drained_out);
    assert_int_equal(drained_out.leased, 9);
    PACK(list_pools_request, &list_pools);
    UNPACK(list_pools_request, &list_pools_out);
}

static void
test_health_round_trip(void **state)
{
    const struct wp_wire_health_request request = {
        WP_STR("warmpool.v1.Allocator")};
    const struct wp_wire_health_response response = {
        WP_WIRE_HEALTH_SERVICE_UNKNOWN};
    struct wp_wire_health_request request_out;
    struct wp_wire_health_response out;

    (void)state;
    PACK(health_request, &request);
    UNPACK(health_request, &request_out);
    assert_true(wp_str_is(request_out.service, "warmpool.v1.Allocator"));
    PACK(health_response, &response);
    UNPACK(health_response, &out);
    assert_int_equal(out.status, WP_WIRE_HEALTH_SERVICE_UNKNOWN);
}

static void
test_reflection_round_trip(void **state)
{
    static const enum wp_wire_reflection_kind kinds[] = {
        WP_WIRE_REFLECTION_NONE,
        WP_WIRE_REFLECTION_FILE_BY_NAME,
        WP_WIRE_REFLECTION_FILE_BY_SYMBOL,
        WP_WIRE_REFLECTION_FILE_BY_EXTENSION,
        WP_WIRE_REFLECTION_EXTENSION_NUMBERS,
        WP_WIRE_REFLECTION_LIST_SERVICES,
    };
    const struct wp_str services[] = {WP_STR("a.B"), WP_STR("c.D")};
    const struct wp_str file = {(const char *)wp_descriptor_set,
                                wp_descriptor_set_len};
    struct wp_wire_reflection_response response = {
        .host = WP_STR("h"),
        .kind = WP_WIRE_REFLECTION_SERVICES,
        .entries = services,
        .n_entries = 2,
    };
    struct wp_wire_reflection_response out;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        response.original = (struct wp_wire_reflection_request){
            .host = WP_STR("h"),
            .kind = kinds[i],
            .name = wp_str_from(i == 0 || i == 5 ? "" : "some.Name"),
            .extension_number = i == 3 ? 5 : 0,
        };
        PACK(reflection_request, &response.original);
        UNPACK(reflection_request, &out.original);
        assert_int_equal(out.original.kind, kinds[i]);
        PACK(reflection_response, &response);
        UNPACK(reflection_response, &out);
        assert_int_equal(out.original.kind, kinds[i]);
        assert_true(wp_str_eq(out.original.name, response.original.name));
        assert_int_equal(out.original.extension_number,
                         response.original.extension_number);
        assert_int_equal(out.n_entries, 2);
        assert_true(wp_str_is(out.entries[1], "c.D"));
    }
    response.kind = WP_WIRE_REFLECTION_FILES;
    response.entries = &file;
    response.n_entries = 1;
    PACK(reflection_response, &response);
    UNPACK(reflection_response, &out);
    assert_int_equal(out.kind, WP_WIRE_REFLECTION_FILES);
    assert_true(wp_str_eq(out.entries[0], file));
    response.kind = WP_WIRE_REFLECTION_ERROR;
    response.error_code = 5;
    response.error_message = WP_STR("no such file");
    PACK(reflection_response, &response);
    UNPACK(reflection_response, &out);
    assert_int_equal(out.kind, WP_WIRE_REFLECTION_ERROR);
    assert_int_equal(out.error_code, 5);
    assert_true(wp_str_is(out.error_message, "no such file"));
}

static void
test_status_round_trip(void **state)
{
    static const int64_t delays[] = {0, 1, 999999999, WP_NS_PER_S,
                                     90 * WP_NS_PER_S + 5};
    struct wp_wire_status out;
    char text[241];

    (void)state;
    memset(text, 'm', 240);
    text[240] = '\0';
    for (size_t i = 0; i < WP_ARRAY_LEN(delays); i++) {
        const struct wp_wire_status status = {8, wp_str_from(text), delays[i]};

        PACK(status, &status);
        assert_true(packed_len <= WP_WIRE_STATUS_SIZE_MAX);
        UNPACK(status, &out);
        assert_int_equal(out.code, 8);
        assert_true(wp_str_is(out.message, text));
        assert_int_equal(out.retry_after_ns, delays[i]);
    }
}

/* The bytes other gRPC implementations write for RetryInfo of 1.5 s. */
static void
test_status_bytes(void **state)
{
    static const char expected[] =
        "\x08\x08\x12\x04none\x1a\x36\x0a\x28type.googleapis.com/"
        "google.rpc.RetryInfo\x12\x0a\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01";
    const struct wp_wire_status status = {8, WP_STR("none"),
                                          1500 * WP_NS_PER_MS};

    (void)state;
    PACK(status, &status);
    assert_int_equal(packed_len, sizeof expected - 1);
    assert_memory_equal(packed, expected, sizeof expected - 1);
}

static bool
holds(const char *text)
{
    return memmem(wp_descriptor_set, wp_descriptor_set_len, text,
                  strlen(text)) != NULL;
}

static void
test_descriptor_set(void **state)
{
    (void)state;
    assert_true(wp_descriptor_set_len > 1000);
    assert_int_equal(wp_descriptor_set[0], 0x0a);
    assert_true(holds("warmpool/v1/allocator.proto"));
    assert_true(holds("grpc/health/v1/health.proto"));
    assert_true(holds("grpc/reflection/v1alpha/reflection.proto"));
    assert_true(holds("ServerReflectionInfo"));
    assert_false(holds("warmpool.status"));
}

static void
test_advise_round_trip(void **state)
{
    static const double objectives[] = {0.5, 0.999};
    static const uint32_t gaps[] = {0, 5, UINT32_MAX};
    const struct wp_wire_advise_request request = {
        .pool = {WP_STR("team"), WP_STR("agents")},
        .objectives = objectives,
        .n_objectives = 2,
        .lead_ms = 8000,
        .hold_ms = 60000,
        .claim_gaps_ms = gaps,
        .n_claims = 3,
        .first_wall_ms = 1790000000000,
    };
    static const struct wp_advice_row rows[] = {
        {.kind = WP_ADVICE_TODAY,
         .name = "today",
         .setting = "replicas=9",
         .size = 9,
         .done = true,
         .result = {.claims = 7, .hit_rate = 0.5}},
        {.kind = WP_ADVICE_CLAIRVOYANT,
         .name = "clairvoyant",
         .cites = "bound",
         .hit_low = 0.25,
         .hit_high = 0.75,
         .result = {.idle_mean = 1.5,
                    .idle_s = 7200,
                    .wait_p50_s = 0.125,
                    .wait_p99_s = 4,
                    .created = 8,
                    .unused = 2,
                    .stock_max = 3}}};
    struct wp_wire_advise_response response = {
        .progress = 1,
        .has_report = true,
        .facts = {.claims = 70,
                  .n_gaps = 1,
                  .n_leads = 60,
                  .lead_mean_s = 8.5,
                  .known_ns = 5 * WP_NS_PER_S},
        .rows = rows,
        .n_rows = 2,
        .words = {.lines = {"do this", "doubt"},
                  .n_lines = 2,
                  .recommended = -1},
    };
    struct wp_wire_advise_request request_out;
    struct wp_wire_advise_response out;

    (void)state;
    PACK(advise_request, &request);
    UNPACK(advise_request, &request_out);
    assert_true(wp_str_is(request_out.pool.name, "agents"));
    assert_int_equal(request_out.n_objectives, 2);
    assert_memory_equal(request_out.objectives, objectives, sizeof objectives);
    assert_int_equal(request_out.n_claims, 3);
    assert_memory_equal(request_out.claim_gaps_ms, gaps, sizeof gaps);
    assert_int_equal(request_out.first_wall_ms, 1790000000000);
    assert_int_equal(request_out.lead_ms, 8000);
    assert_int_equal(request_out.hold_ms, 60000);
    PACK(advise_response, &response);
    UNPACK(advise_response, &out);
    assert_true(out.has_report);
    assert_int_equal(out.n_rows, 2);
    assert_int_equal(out.facts.claims, 70);
    assert_int_equal(out.facts.known_ns, 5 * WP_NS_PER_S);
    assert_int_equal(out.rows[0].kind, WP_ADVICE_TODAY);
    assert_string_equal(out.rows[0].setting, "replicas=9");
    assert_int_equal(out.rows[1].kind, WP_ADVICE_CLAIRVOYANT);
    assert_string_equal(out.rows[1].cites, "bound");
    assert_true(out.rows[1].hit_low == 0.25 && out.rows[1].hit_high == 0.75);
    assert_true(out.rows[1].result.idle_s == 7200);
    assert_int_equal(out.rows[1].result.stock_max, 3);
    assert_string_equal(out.words.lines[1], "doubt");
    assert_int_equal(out.words.recommended, -1);
    response = (struct wp_wire_advise_response){.progress = 0.25};
    PACK(advise_response, &response);
    UNPACK(advise_response, &out);
    assert_false(out.has_report);
    assert_true(out.progress == 0.25);
}

/* Each bound of the request, a step beyond. */
static void
test_advise_bounds(void **state)
{
    static const double many[WP_ADVICE_OBJECTIVES_MAX + 1] = {
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9};
    static const double low[] = {0.49};
    static const double high[] = {0.999991};
    static const double not_a_number[] = {(double)NAN};
    static uint32_t gaps[WP_WIRE_ADVISE_CLAIMS_MAX + 1];
    static const struct {
        struct wp_wire_advise_request request;
        const char *says;
    } rows[] = {
        {{.objectives = many, .n_objectives = WP_ARRAY_LEN(many)},
         "objectives: 0 to 8 expected"},
        {{.objectives = low, .n_objectives = 1}, "objectives: 0.5 to"},
        {{.objectives = high, .n_objectives = 1}, "objectives: 0.5 to"},
        {{.objectives = not_a_number, .n_objectives = 1}, "objectives: 0.5"},
        {{.lead_ms = -1}, "lead_ms: 0 to 3600000 expected"},
        {{.lead_ms = 3600001}, "lead_ms: 0 to 3600000 expected"},
        {{.hold_ms = -1}, "hold_ms: 0 to"},
        {{.claim_gaps_ms = gaps, .n_claims = WP_ARRAY_LEN(gaps)},
         "claim_gaps_ms: 0 to 16384 expected"},
        {{.first_wall_ms = -1}, "first_unix_ms: 0 to"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_wire_advise_request request = rows[i].request;

        request.pool.name = WP_STR("agents");
        PACK(advise_request, &request);
        assert_int_equal(wp_wire_unpack_advise_request(
                             &arena, packed, packed_len, &request, &err),
                         WP_INVALID_ARGUMENT);
        if (strstr(err.msg, rows[i].says) == NULL) {
            fail_msg("'%s' does not say '%s'", err.msg, rows[i].says);
        }
    }
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        TEST(test_claim_round_trip),
        TEST(test_empty_grant_round_trip),
        TEST(test_batch_round_trip),
        TEST(test_lease_changes_round_trip),
        TEST(test_claim_infos_round_trip),
        TEST(test_pools_round_trip),
        TEST(test_pool_detail_round_trip),
        TEST(test_reservations_round_trip),
        TEST(test_small_requests_round_trip),
        TEST(test_health_round_trip),
        TEST(test_reflection_round_trip),
        TEST(test_status_round_trip),
        TEST(test_status_bytes),
        TEST(test_descriptor_set),
        TEST(test_advise_round_trip),
        TEST(test_advise_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
