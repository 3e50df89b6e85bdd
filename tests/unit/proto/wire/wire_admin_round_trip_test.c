/* Pools, what their scalers decided, and reservations on the wire, and the
 * small requests of both services: what is packed has the size foretold, and
 * comes back as it was. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/services/wire_rig.h"

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
    WIRE_PACK(pool, &stats[0]);
    WIRE_UNPACK(pool, &one);
    assert_memory_equal(&one, &stats[0], sizeof one);
    WIRE_PACK(pools, &pools);
    WIRE_UNPACK(pools, &out);
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
        .at_once = 4,
        .shared_bound = true,
        .makes_per_s = 1.5,
        .queue_s = 0.75,
        .seen_claims = 41000,
        .burst_unix_ms = 1700000000001,
        .due_unix_ms = 1700000360000,
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
    assert_memory_equal(&a.rate_per_s, &b.rate_per_s, 8 * sizeof(double));
    assert_int_equal(a.burst_unix_ms, b.burst_unix_ms);
    assert_int_equal(a.due_unix_ms, b.due_unix_ms);
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
    WIRE_PACK(pool_detail, &detail);
    WIRE_UNPACK(pool_detail, &out);
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

/* A daemon that says moments which no clock has: whoever counts with them must
 * not overflow. */
static void
test_impossible_moments(void **state)
{
    static const int64_t said[] = {INT64_MAX, INT64_MIN};
    static struct wp_pool_stats stats;
    struct wp_scale_decision decision;
    struct wp_wire_pool_detail detail = {
        .stats = &stats, .decisions = &decision, .n_decisions = 1};
    struct wp_wire_pool_detail out;

    (void)state;
    (void)snprintf(stats.spec.pool_namespace, sizeof stats.spec.pool_namespace,
                   "team");
    (void)snprintf(stats.spec.name, sizeof stats.spec.name, "agents");
    stats.scaled = true;
    for (int i = 0; i < 2; i++) {
        fill_decision(&decision, 1, WP_SCALE_FORECAST);
        decision.burst_unix_ms = said[i];
        decision.due_unix_ms = said[i];
        WIRE_PACK(pool_detail, &detail);
        WIRE_UNPACK(pool_detail, &out);
        assert_int_equal(out.n_decisions, 1);
        assert_true(llabs(out.decisions[0].burst_unix_ms) <=
                    INT64_MAX / WP_NS_PER_MS);
        assert_true(llabs(out.decisions[0].due_unix_ms) <=
                    INT64_MAX / WP_NS_PER_MS);
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
    WIRE_PACK(reserve_request, &reserve);
    WIRE_UNPACK(reserve_request, &reserve_out);
    assert_true(wp_str_is(reserve_out.pool.name, "agents"));
    assert_true(wp_str_is(reserve_out.id, "job"));
    assert_int_equal(reserve_out.sandboxes, 20);
    assert_int_equal(reserve_out.not_before_ms, 1700000000000);
    assert_int_equal(reserve_out.until_ms, 1700000060000);
    WIRE_PACK(cancel_reservation_request, &cancel);
    WIRE_UNPACK(cancel_reservation_request, &cancel_out);
    assert_true(wp_str_is(cancel_out.id, "job"));
    WIRE_PACK(cancel_reservation_response, &cancelled);
    WIRE_UNPACK(cancel_reservation_response, &cancelled_out);
    WIRE_PACK(reservation, &reservation);
    WIRE_UNPACK(reservation, &out);
    assert_memory_equal(&out, &reservation, sizeof out);
}

static void
test_tenants_round_trip(void **state)
{
    const struct wp_wire_list_tenants_request request = {
        {WP_STR("team"), WP_STR("agents")}, WP_STR("t"), WP_STR("token")};
    const struct wp_tenant_stats uses[] = {
        {.tenant = "ci",
         .pool_namespace = "team",
         .pool = "agents",
         .quota = {5, WP_QUOTA_NONE, 60},
         .leases = 3,
         .waiting = 1,
         .claims_total = 70,
         .refused_total = 8,
         .active = true},
        {.pool_namespace = "team",
         .pool = "p",
         .quota = {WP_QUOTA_NONE, 2, WP_QUOTA_NONE}},
    };
    const struct wp_wire_list_tenants_response response = {uses, 2,
                                                           WP_STR("next")};
    struct wp_wire_list_tenants_request request_out;
    struct wp_wire_list_tenants_response out;

    (void)state;
    WIRE_PACK(list_tenants_request, &request);
    WIRE_UNPACK(list_tenants_request, &request_out);
    assert_true(wp_str_is(request_out.pool.name, "agents"));
    assert_true(wp_str_is(request_out.tenant, "t"));
    assert_true(wp_str_is(request_out.page_token, "token"));
    WIRE_PACK(list_tenants_response, &response);
    WIRE_UNPACK(list_tenants_response, &out);
    assert_int_equal(out.n_tenants, 2);
    assert_true(wp_str_is(out.next_page_token, "next"));
    for (uint32_t i = 0; i < 2; i++) {
        const struct wp_tenant_stats *got = &out.tenants[i];

        assert_string_equal(got->tenant, uses[i].tenant);
        assert_string_equal(got->pool, uses[i].pool);
        assert_memory_equal(&got->quota, &uses[i].quota, sizeof got->quota);
        assert_int_equal(got->leases, uses[i].leases);
        assert_int_equal(got->waiting, uses[i].waiting);
        assert_int_equal(got->claims_total, uses[i].claims_total);
        assert_int_equal(got->refused_total, uses[i].refused_total);
        assert_int_equal(got->active, uses[i].active);
    }
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
    const struct wp_wire_drain_request drain = {.grace_ms = 77};
    const struct wp_wire_drain_request undrain = {
        .pool = {WP_STR("default"), WP_STR("agents")}, .undo = true};
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
    WIRE_PACK(get_claim_request, &get);
    WIRE_UNPACK(get_claim_request, &get_out);
    assert_true(wp_str_is(get_out.claim_id, "id"));
    assert_true(wp_str_is(get_out.tenant, "t"));
    WIRE_PACK(list_claims_request, &list);
    WIRE_UNPACK(list_claims_request, &list_out);
    assert_true(wp_str_is(list_out.pool.name, "agents"));
    assert_int_equal(list_out.page_size, 7);
    assert_true(wp_str_is(list_out.page_token, "token"));
    WIRE_PACK(watch_pools_request, &watch);
    WIRE_UNPACK(watch_pools_request, &watch_out);
    assert_true(wp_str_is(watch_out.pool.pool_namespace, "team"));
    WIRE_PACK(get_pool_request, &get_pool);
    WIRE_UNPACK(get_pool_request, &get_pool_out);
    assert_true(wp_str_is(get_pool_out.pool.name, "agents"));
    WIRE_PACK(set_pool_request, &set);
    WIRE_UNPACK(set_pool_request, &set_out);
    assert_true(set_out.has_target);
    assert_int_equal(set_out.target, 5);
    assert_int_equal(set_out.n_autoscale, 2);
    assert_true(wp_str_is(set_out.autoscale[0].key, "objective"));
    assert_true(wp_str_is(set_out.autoscale[0].value, "99.9%"));
    assert_int_equal(set_out.autoscale[1].value.len, 0);
    WIRE_PACK(set_pool_request, &zero);
    WIRE_UNPACK(set_pool_request, &set_out);
    assert_true(set_out.has_target);
    assert_int_equal(set_out.target, 0);
    WIRE_PACK(set_pool_request, &stay);
    WIRE_UNPACK(set_pool_request, &set_out);
    assert_false(set_out.has_target);
    WIRE_PACK(drain_request, &drain);
    WIRE_UNPACK(drain_request, &drain_out);
    assert_int_equal(drain_out.pool.name.len, 0);
    assert_int_equal(drain_out.grace_ms, 77);
    assert_false(drain_out.undo);
    WIRE_PACK(drain_request, &undrain);
    WIRE_UNPACK(drain_request, &drain_out);
    assert_true(drain_out.undo);
    WIRE_PACK(drain_response, &drained);
    WIRE_UNPACK(drain_response, &drained_out);
    assert_int_equal(drained_out.leased, 9);
    WIRE_PACK(list_pools_request, &list_pools);
    WIRE_UNPACK(list_pools_request, &list_pools_out);
}

static void
test_pools_that_come_and_go_round_trip(void **state)
{
    const struct wp_wire_create_pool_request create = {WP_STR("kind: x")};
    const struct wp_wire_delete_pool_request delete_pool = {
        {WP_STR("team"), WP_STR("agents")}};
    const struct wp_wire_delete_pool_response deleted = {3};
    struct wp_wire_create_pool_request create_out;
    struct wp_wire_delete_pool_request delete_out;
    struct wp_wire_delete_pool_response deleted_out;

    (void)state;
    WIRE_PACK(create_pool_request, &create);
    WIRE_UNPACK(create_pool_request, &create_out);
    assert_true(wp_str_is(create_out.manifest, "kind: x"));
    WIRE_PACK(delete_pool_request, &delete_pool);
    WIRE_UNPACK(delete_pool_request, &delete_out);
    assert_true(wp_str_is(delete_out.pool.pool_namespace, "team"));
    WIRE_PACK(delete_pool_response, &deleted);
    WIRE_UNPACK(delete_pool_response, &deleted_out);
    assert_int_equal(deleted_out.leased, 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(test_pools_round_trip),
        WIRE_TEST(test_pool_detail_round_trip),
        WIRE_TEST(test_impossible_moments),
        WIRE_TEST(test_reservations_round_trip),
        WIRE_TEST(test_tenants_round_trip),
        WIRE_TEST(test_small_requests_round_trip),
        WIRE_TEST(test_pools_that_come_and_go_round_trip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
