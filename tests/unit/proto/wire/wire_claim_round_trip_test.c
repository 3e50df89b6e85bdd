/* Claims and leases on the wire: what is packed has the size foretold, and
 * comes back as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/services/wire_rig.h"

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
    WIRE_PACK(claim_request, &request);
    WIRE_UNPACK(claim_request, &request_out);
    assert_true(wp_str_eq(request_out.claim_id, request.claim_id));
    assert_true(wp_str_is(request_out.tenant, "t"));
    assert_int_equal(request_out.ttl_ms, 60000);
    assert_int_equal(request_out.wait_ms, 500);
    WIRE_PACK(claim_response, &response);
    WIRE_UNPACK(claim_response, &response_out);
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
    WIRE_PACK(claim_response, &response);
    WIRE_UNPACK(claim_response, &out);
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
    WIRE_PACK(batch_request, &request);
    WIRE_UNPACK(batch_request, &request_out);
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
    WIRE_PACK(batch_response, &response);
    WIRE_UNPACK(batch_response, &out);
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
    WIRE_PACK(renew_request, &renew);
    WIRE_UNPACK(renew_request, &renew_out);
    assert_memory_equal(renew_out.token, renew.token, WP_TOKEN_LEN);
    assert_int_equal(renew_out.ttl_ms, 1000);
    WIRE_PACK(renew_response, &renewed);
    WIRE_UNPACK(renew_response, &renewed_out);
    assert_memory_equal(renewed_out.token, renewed.token, WP_TOKEN_LEN);
    assert_int_equal(renewed_out.fence, 9);
    assert_int_equal(renewed_out.deadline_wall_ms, 12345);
    WIRE_PACK(release_request, &release);
    WIRE_UNPACK(release_request, &release_out);
    assert_memory_equal(release_out.token, release.token, WP_TOKEN_LEN);
    WIRE_PACK(release_response, &released);
    WIRE_UNPACK(release_response, &released_out);
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
    WIRE_PACK(list_claims_response, &response);
    WIRE_UNPACK(list_claims_response, &out);
    assert_int_equal(out.n_claims, WP_PAGE_MAX);
    assert_true(wp_str_is(out.next_page_token, "00000000000003e8"));
    for (uint32_t i = 0; i < WP_PAGE_MAX; i++) {
        assert_memory_equal(&out.claims[i], &infos[i], sizeof infos[i]);
    }
    WIRE_PACK(claim_info, &infos[2]);
    WIRE_UNPACK(claim_info, &one);
    assert_memory_equal(&one, &infos[2], sizeof one);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(test_claim_round_trip),
        WIRE_TEST(test_empty_grant_round_trip),
        WIRE_TEST(test_batch_round_trip),
        WIRE_TEST(test_lease_changes_round_trip),
        WIRE_TEST(test_claim_infos_round_trip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
