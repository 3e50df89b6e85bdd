/* Claim, Renew, Release, GetClaim, ListClaims: what each answers, and that no
 * sandbox stays held when its client has gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/base/held_locks.h"
#include "tests/support/services/service_world.h"

static struct wp_world world;
static struct wp_fake_call a;
static struct wp_fake_call b;
static struct wp_fake_call c;

static int
setup_with(uint32_t slots_max, uint32_t target)
{
    wp_world_init(&world, slots_max, target);
    wp_world_call(&world, &a);
    wp_world_call(&world, &b);
    wp_world_call(&world, &c);
    return 0;
}

static int
setup(void **state)
{
    (void)state;
    return setup_with(8, 4);
}

static int
setup_empty(void **state)
{
    (void)state;
    return setup_with(8, 0);
}

static int
teardown(void **state)
{
    (void)state;
    held_locks_are_free();
    wp_fake_call_fini(&a);
    wp_fake_call_fini(&b);
    wp_fake_call_fini(&c);
    wp_world_fini(&world);
    return 0;
}

static uint32_t
leased(void)
{
    return wp_rig_stats(&world.rig).leased;
}

/* --- Claim --- */

static void
test_claim_grants_a_lease(void **state)
{
    struct wp_wire_claim_response lease;

    (void)state;
    wp_world_claim(&world, &a, "id-1", "", 0);
    lease = wp_world_lease(&world, &a);
    assert_true(wp_str_is(lease.claim_id, "id-1"));
    assert_string_equal(lease.grant->pool_namespace, "default");
    assert_string_equal(lease.grant->pool, "p");
    assert_true(strlen(lease.grant->sandbox) > 2);
    assert_true(strncmp(lease.grant->endpoint, "unix:/fake/", 11) == 0);
    assert_int_equal(lease.grant->served, WP_SERVED_WARM);
    assert_int_equal(a.call.served, WP_SERVED_WARM);
    assert_true(lease.grant->fence > 0);
    assert_false(lease.replayed);
    assert_int_equal(leased(), 1);
}

static void
test_same_id_same_answer(void **state)
{
    char sandbox[WP_SANDBOX_NAME_MAX + 1];
    struct wp_wire_claim_response lease;
    struct wp_wire_claim_request other = {
        .pool = {WP_STR("default"), WP_STR("p")},
        .claim_id = WP_STR("id-1"),
        .ttl_ms = 5000,
    };

    (void)state;
    wp_world_claim(&world, &a, "id-1", "", 0);
    lease = wp_world_lease(&world, &a);
    memcpy(sandbox, lease.grant->sandbox, sizeof sandbox);
    wp_world_claim(&world, &b, "id-1", "", 0);
    lease = wp_world_lease(&world, &b);
    assert_string_equal(lease.grant->sandbox, sandbox);
    assert_true(lease.replayed);
    assert_int_equal(leased(), 1);
    WP_WORLD_START(&world.allocator, wp_world_again(&world, &b), "Claim",
                   claim_request, &other);
    wp_world_assert_ended(&b, WP_ALREADY_EXISTS);
    assert_non_null(strstr(b.message, "claim_id"));
}

static void
test_bad_requests(void **state)
{
    struct wp_wire_claim_request request = {
        .pool = {WP_STR("default"), WP_STR("nope")},
        .claim_id = WP_STR("id"),
    };

    (void)state;
    WP_WORLD_START(&world.allocator, &a, "Claim", claim_request, &request);
    wp_world_assert_ended(&a, WP_NOT_FOUND);
    assert_string_equal(a.message,
                        "pool: 'nope' in namespace 'default' does not exist");
    request.claim_id = WP_STR("");
    WP_WORLD_START(&world.allocator, wp_world_again(&world, &a), "Claim",
                   claim_request, &request);
    wp_world_assert_ended(&a, WP_INVALID_ARGUMENT);
    assert_non_null(strstr(a.message, "claim_id: 1 to 128 bytes"));
    wp_fake_call_start(wp_world_again(&world, &a), &world.allocator, "Claim",
                       (const uint8_t *)"\x12\xff", 2);
    wp_world_assert_ended(&a, WP_INVALID_ARGUMENT);
    request.claim_id = WP_STR("id");
    request.pool.name = WP_STR("p");
    request.ttl_ms = 25 * 3600 * 1000;
    WP_WORLD_START(&world.allocator, wp_world_again(&world, &a), "Claim",
                   claim_request, &request);
    wp_world_assert_ended(&a, WP_INVALID_ARGUMENT);
    assert_string_equal(a.message, "ttl_ms: at most 86400000 expected, the "
                                   "longest that this pool allows");
    assert_int_equal(leased(), 0);
}

/* Each method, and a request that is no message. */
static void
test_every_method_refuses_nonsense(void **state)
{
    const struct wp_service *services[] = {&world.allocator, &world.admin};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(services); i++) {
        for (size_t k = 0; k < services[i]->n_methods; k++) {
            const char *path = services[i]->methods[k].path;

            wp_fake_call_start(wp_world_again(&world, &a), services[i],
                               strrchr(path, '/') + 1, (const uint8_t *)"\x0b",
                               1);
            wp_world_assert_ended(&a, WP_INVALID_ARGUMENT);
            assert_true(a.message[0] != '\0');
        }
    }
    assert_int_equal(leased(), 0);
}

static void
test_empty_pool_refuses(void **state)
{
    (void)state;
    wp_world_claim(&world, &a, "id", "", 0);
    wp_world_assert_ended(&a, WP_RESOURCE_EXHAUSTED);
    assert_true(a.retry_after_ns > 0);
    assert_true(strlen(a.message) > 0);
}

static void
test_waiting_claim_is_served(void **state)
{
    struct wp_err err;

    (void)state;
    wp_world_claim(&world, &a, "id", "", 10000);
    assert_false(a.finished);
    assert_int_equal(wp_pools_set_target(world.rig.pools, 0, 1, &err), WP_OK);
    wp_world_settle(&world);
    assert_int_equal(wp_world_lease(&world, &a).grant->served, WP_SERVED_COLD);
}

/* Others find room: a claim too many is refused, or served at once. */
static void
test_only_so_many_wait(void **state)
{
    struct wp_err err;

    (void)state;
    wp_world_claim(&world, &a, "id-a", "", 10000);
    wp_world_claim(&world, &b, "id-b", "", 10000);
    wp_world_claim(&world, &c, "id-c", "", 10000);
    assert_false(a.finished);
    assert_false(b.finished);
    wp_world_assert_ended(&c, WP_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(c.message, "rpc_waiting_max"));
    assert_true(c.retry_after_ns > 0);
    /* One goes, another may wait. */
    wp_fake_call_cancel(&a);
    wp_world_assert_ended(&a, WP_CANCELLED);
    wp_world_claim(&world, wp_world_again(&world, &c), "id-c", "", 10000);
    assert_false(c.finished);
    /* Both are served, and that makes room again. */
    assert_int_equal(wp_pools_set_target(world.rig.pools, 0, 3, &err), WP_OK);
    wp_world_settle(&world);
    assert_true(b.finished);
    assert_true(c.finished);
    assert_int_equal(wp_pools_set_target(world.rig.pools, 0, 0, &err), WP_OK);
    wp_world_settle(&world);
    wp_world_claim(&world, wp_world_again(&world, &a), "id-d", "", 10000);
    wp_world_claim(&world, wp_world_again(&world, &b), "id-e", "", 10000);
    assert_false(a.finished);
    assert_false(b.finished);
    wp_fake_call_cancel(&a);
    wp_fake_call_cancel(&b);
}

/* A repeat waits for the first one's answer, without being asked to; so it is
 * one of those that wait. */
static void
test_repeats_wait_among_so_many(void **state)
{
    struct wp_err err;

    (void)state;
    wp_world_claim(&world, &a, "id", "", 10000);
    wp_world_claim(&world, &b, "id", "", 0);
    assert_false(a.finished);
    assert_false(b.finished);
    wp_world_claim(&world, &c, "id", "", 0);
    wp_world_assert_ended(&c, WP_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(c.message, "rpc_waiting_max"));
    assert_true(c.retry_after_ns > 0);
    wp_world_claim(&world, wp_world_again(&world, &c), "id", "", 10000);
    wp_world_assert_ended(&c, WP_RESOURCE_EXHAUSTED);
    /* Not as long as the first one: as long as it asked, and a second. */
    wp_world_advance(&world, 1000 * WP_NS_PER_MS);
    wp_world_assert_ended(&b, WP_RESOURCE_EXHAUSTED);
    assert_true(b.retry_after_ns > 0);
    wp_world_claim(&world, wp_world_again(&world, &b), "id", "", 10000);
    wp_world_advance(&world, 8000 * WP_NS_PER_MS);
    assert_false(a.finished);
    assert_false(b.finished);
    assert_int_equal(wp_pools_set_target(world.rig.pools, 0, 1, &err), WP_OK);
    wp_world_settle(&world);
    assert_string_equal(wp_world_lease(&world, &b).grant->sandbox,
                        wp_world_lease(&world, &a).grant->sandbox);
    /* Both make room. */
    assert_int_equal(wp_pools_set_target(world.rig.pools, 0, 0, &err), WP_OK);
    wp_world_settle(&world);
    wp_world_claim(&world, wp_world_again(&world, &a), "id-a", "", 10000);
    wp_world_claim(&world, wp_world_again(&world, &b), "id-b", "", 10000);
    assert_false(a.finished);
    assert_false(b.finished);
    wp_fake_call_cancel(&a);
    wp_fake_call_cancel(&b);
}

/* The client hears RESOURCE_EXHAUSTED before its own deadline passes. */
static void
test_wait_is_cut_to_the_deadline(void **state)
{
    int64_t deadline_ns = world.rig.clock.now_mono_ns + WP_NS_PER_S;

    (void)state;
    a.call.deadline_ns = deadline_ns;
    wp_world_claim(&world, &a, "id", "", 60000);
    wp_world_advance(&world, 990 * WP_NS_PER_MS);
    assert_false(a.finished);
    wp_world_advance(&world, 6 * WP_NS_PER_MS);
    wp_world_assert_ended(&a, WP_RESOURCE_EXHAUSTED);
    assert_true(world.rig.clock.now_mono_ns < deadline_ns);
    assert_true(a.retry_after_ns > 0);
    /* So near its deadline that it may not wait at all. */
    b.call.deadline_ns = world.rig.clock.now_mono_ns + 2 * WP_NS_PER_MS;
    wp_world_claim(&world, &b, "id-2", "", 60000);
    wp_world_assert_ended(&b, WP_RESOURCE_EXHAUSTED);
}

static void
test_cancel_while_waiting(void **state)
{
    struct wp_err err;

    (void)state;
    wp_world_claim(&world, &a, "id", "", 10000);
    wp_fake_call_cancel(&a);
    wp_world_assert_ended(&a, WP_CANCELLED);
    assert_int_equal(wp_pools_set_target(world.rig.pools, 0, 1, &err), WP_OK);
    wp_world_settle(&world);
    assert_int_equal(leased(), 0);
    assert_int_equal(wp_rig_stats(&world.rig).ready, 1);
    wp_world_claim(&world, &b, "id", "", 0);
    assert_false(wp_world_lease(&world, &b).replayed);
}

/* The lease is being written when the client goes: it is taken back. */
static void
test_cancel_while_committing(void **state)
{
    (void)state;
    world.rig.store_later = true;
    wp_world_claim(&world, &a, "id", "", 0);
    assert_false(a.finished);
    wp_fake_call_cancel(&a);
    assert_false(a.finished);
    assert_int_equal(wp_rig_store_answer(&world.rig, WP_OK), 1);
    wp_world_assert_ended(&a, WP_CANCELLED);
    world.rig.store_later = false;
    wp_world_settle(&world);
    assert_int_equal(leased(), 0);
    assert_int_equal(wp_rig_stats(&world.rig).ready, 4);
    assert_int_equal(wp_rig_stats(&world.rig).undone_total, 1);
}

/* ... unless the same claim was also asked for by a client that stayed. */
static void
test_cancel_of_a_shared_claim(void **state)
{
    struct wp_wire_claim_response lease;

    (void)state;
    world.rig.store_later = true;
    wp_world_claim(&world, &a, "id", "", 0);
    wp_world_claim(&world, &b, "id", "", 0);
    wp_fake_call_cancel(&a);
    assert_int_equal(wp_rig_store_answer(&world.rig, WP_OK), 1);
    world.rig.store_later = false;
    wp_world_settle(&world);
    wp_world_assert_ended(&a, WP_CANCELLED);
    lease = wp_world_lease(&world, &b);
    assert_true(lease.replayed);
    assert_int_equal(leased(), 1);
    wp_world_release(&world, wp_world_again(&world, &a), lease.grant->token);
    wp_world_assert_ended(&a, WP_OK);
}

static void
test_store_out_of_reach(void **state)
{
    (void)state;
    world.rig.store_status = WP_UNAVAILABLE;
    wp_world_claim(&world, &a, "id", "", 0);
    wp_world_assert_ended(&a, WP_UNAVAILABLE);
    assert_int_equal(leased(), 0);
    assert_int_equal(wp_rig_stats(&world.rig).ready, 4);
}

static void
test_no_memory_for_the_reply(void **state)
{
    (void)state;
    a.no_memory = true;
    wp_world_claim(&world, &a, "id", "", 0);
    wp_world_assert_ended(&a, WP_RESOURCE_EXHAUSTED);
    wp_world_settle(&world);
    assert_int_equal(leased(), 0);
    assert_int_equal(wp_rig_stats(&world.rig).ready, 4);
}

static void
identify(struct wp_fake_call *fake, const char *tenant, bool admin)
{
    (void)snprintf(fake->call.who.tenant, sizeof fake->call.who.tenant, "%s",
                   tenant);
    fake->call.who.admin = admin;
}

static void
test_tenants(void **state)
{
    static const struct {
        const char *own;
        bool admin;
        const char *asked;
        const char *becomes; /* NULL: refused. */
    } rules[] = {
        {"", false, "", ""},
        {"", false, "x", "x"},
        {"me", false, "", "me"},
        {"me", false, "me", "me"},
        {"me", false, "x", NULL},
        {"me", true, "x", "x"},
        {"me", true, "", "me"},
        {"", true, "x", "x"},
        /* The daemon's own, also for those who may all else. */
        {"", false, "system:sandboxclaims", NULL},
        {"", true, "system:sandboxclaims", NULL},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rules); i++) {
        struct wp_claim_info info;
        enum wp_status status;

        identify(wp_world_again(&world, &a), rules[i].own, rules[i].admin);
        wp_world_claim(&world, &a, "id", rules[i].asked, 0);
        if (rules[i].becomes == NULL) {
            wp_world_assert_ended(&a, WP_PERMISSION_DENIED);
            assert_non_null(strstr(a.message, "tenant"));
            continue;
        }
        (void)wp_world_lease(&world, &a);
        status = wp_pools_get(world.rig.pools, wp_str_from(rules[i].becomes),
                              WP_STR("id"), &info);
        assert_int_equal(status, WP_OK);
        assert_string_equal(info.tenant, rules[i].becomes);
    }
    assert_int_equal(leased(), 3); /* Of "", "x" and "me". */
}

/* --- Renew, Release --- */

static void
renew(struct wp_fake_call *fake, const uint8_t *token, int64_t ttl_ms)
{
    struct wp_wire_renew_request request = {.ttl_ms = ttl_ms};

    memcpy(request.token, token, sizeof request.token);
    WP_WORLD_START(&world.allocator, fake, "Renew", renew_request, &request);
}

static void
test_renew(void **state)
{
    struct wp_wire_renew_response renewed;
    uint8_t token[WP_TOKEN_LEN];
    int64_t deadline_ms;

    (void)state;
    wp_world_claim(&world, &a, "id", "", 0);
    memcpy(token, wp_world_lease(&world, &a).grant->token, sizeof token);
    deadline_ms = wp_world_lease(&world, &a).grant->deadline_wall_ms;
    renew(&b, token, 2 * 3600 * 1000);
    wp_world_assert_ended(&b, WP_OK);
    WP_WORLD_REPLY(&world, &b, renew_response, &renewed);
    assert_int_equal(renewed.deadline_wall_ms, deadline_ms + 3600 * 1000);
    assert_int_equal(renewed.fence, wp_world_lease(&world, &a).grant->fence);
    renew(wp_world_again(&world, &b), token,
          25 * 3600 * 1000); /* More than the pool allows. */
    wp_world_assert_ended(&b, WP_INVALID_ARGUMENT);
    assert_string_equal(b.message, "ttl_ms: at most 86400000 expected, the "
                                   "longest that this pool allows");
    renew(wp_world_again(&world, &b), token, 2000);
    wp_world_assert_ended(&b, WP_OK);
    wp_world_advance(&world, 3 * WP_NS_PER_S);
    renew(wp_world_again(&world, &b), token, 2000);
    wp_world_assert_ended(&b, WP_NOT_FOUND);
    assert_string_equal(b.message, "token: its lease has ended");
    assert_int_equal(leased(), 0);
}

static void
test_release_twice(void **state)
{
    struct wp_wire_release_response released;
    uint8_t token[WP_TOKEN_LEN];

    (void)state;
    wp_world_claim(&world, &a, "id", "", 0);
    memcpy(token, wp_world_lease(&world, &a).grant->token, sizeof token);
    wp_world_release(&world, &b, token);
    wp_world_assert_ended(&b, WP_OK);
    WP_WORLD_REPLY(&world, &b, release_response, &released);
    assert_true(released.was_held);
    wp_world_release(&world, wp_world_again(&world, &b), token);
    wp_world_assert_ended(&b, WP_OK);
    WP_WORLD_REPLY(&world, &b, release_response, &released);
    assert_false(released.was_held);
    renew(wp_world_again(&world, &b), token, 0);
    wp_world_assert_ended(&b, WP_NOT_FOUND);
}

/* Whoever has a token is held to the tenant that its credentials fix, and one
 * who may do anything to none. */
static void
test_leases_are_changed_by_their_tenant(void **state)
{
    static const struct {
        const char *own;
        bool admin;
        enum wp_status status;
    } rules[] = {
        {"other", false, WP_PERMISSION_DENIED},
        {"", false, WP_OK},
        {"other", true, WP_OK},
        {"acme", false, WP_OK},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rules); i++) {
        uint8_t token[WP_TOKEN_LEN];

        wp_world_claim(&world, wp_world_again(&world, &a), "id", "acme", 0);
        memcpy(token, wp_world_lease(&world, &a).grant->token, sizeof token);
        identify(wp_world_again(&world, &b), rules[i].own, rules[i].admin);
        renew(&b, token, 0);
        wp_world_assert_ended(&b, rules[i].status);
        identify(wp_world_again(&world, &b), rules[i].own, rules[i].admin);
        wp_world_release(&world, &b, token);
        wp_world_assert_ended(&b, rules[i].status);
        assert_int_equal(leased(), rules[i].status == WP_OK ? 0 : 1);
        wp_world_settle(&world);
    }
}

static void
test_forged_tokens(void **state)
{
    uint8_t token[WP_TOKEN_LEN];

    (void)state;
    wp_world_claim(&world, &a, "id", "", 0);
    memcpy(token, wp_world_lease(&world, &a).grant->token, sizeof token);
    for (size_t i = 0; i < sizeof token; i++) {
        token[i] ^= 0x10;
        wp_world_release(&world, wp_world_again(&world, &b), token);
        wp_world_assert_ended(&b, WP_PERMISSION_DENIED);
        renew(wp_world_again(&world, &b), token, 0);
        wp_world_assert_ended(&b, WP_PERMISSION_DENIED);
        token[i] ^= 0x10;
    }
    assert_int_equal(leased(), 1);
    wp_fake_call_start(wp_world_again(&world, &b), &world.allocator, "Release",
                       (const uint8_t *)"\x0a\x01x", 3);
    wp_world_assert_ended(&b, WP_INVALID_ARGUMENT);
}

/* A change that the store is writing ends by itself, client or not. */
static void
test_cancel_of_a_release(void **state)
{
    uint8_t token[WP_TOKEN_LEN];

    (void)state;
    wp_world_claim(&world, &a, "id", "", 0);
    memcpy(token, wp_world_lease(&world, &a).grant->token, sizeof token);
    world.rig.store_later = true;
    wp_world_release(&world, &b, token);
    wp_fake_call_cancel(&b);
    assert_false(b.finished);
    assert_int_equal(wp_rig_store_answer(&world.rig, WP_OK), 1);
    assert_true(b.finished);
    assert_int_equal(leased(), 0);
}

/* --- GetClaim, ListClaims --- */

static void
get(struct wp_fake_call *fake, const char *id, const char *tenant)
{
    const struct wp_wire_get_claim_request request = {wp_str_from(id),
                                                      wp_str_from(tenant)};

    WP_WORLD_START(&world.allocator, fake, "GetClaim", get_claim_request,
                   &request);
}

/* Who asks for a claim whose lease has run out hears that, until it is had anew;
 * of one that was released, or of another tenant's, nothing is known. */
static void
test_an_expired_claim(void **state)
{
    (void)state;
    wp_world_claim(&world, &a, "id", "x", 0);
    wp_world_claim(&world, wp_world_again(&world, &b), "other", "x", 0);
    {
        struct wp_wire_claim_response lease = wp_world_lease(&world, &b);
        uint8_t token[WP_TOKEN_LEN];

        memcpy(token, lease.grant->token, sizeof token);
        wp_world_release(&world, wp_world_again(&world, &b), token);
    }
    wp_world_settle(&world);
    wp_world_advance(&world, 3600 * WP_NS_PER_S);
    wp_world_settle(&world);
    get(wp_world_again(&world, &b), "id", "x");
    wp_world_assert_ended(&b, WP_NOT_FOUND);
    assert_non_null(strstr(b.message, "claim_id: EXPIRED: its lease ran out"));
    get(wp_world_again(&world, &b), "id", "y");
    wp_world_assert_ended(&b, WP_NOT_FOUND);
    assert_null(strstr(b.message, "EXPIRED"));
    get(wp_world_again(&world, &b), "other", "x");
    wp_world_assert_ended(&b, WP_NOT_FOUND);
    assert_null(strstr(b.message, "EXPIRED"));
    wp_world_claim(&world, wp_world_again(&world, &a), "id", "x", 0);
    get(wp_world_again(&world, &b), "id", "x");
    wp_world_assert_ended(&b, WP_OK);
}

/* In whole seconds since its deadline. */
static void
test_says_when_a_lease_ran_out(void **state)
{
    char expected[80];
    int64_t deadline_ms;
    int64_t now_ms;

    (void)state;
    wp_world_claim(&world, &a, "id", "x", 0);
    deadline_ms = wp_world_lease(&world, &a).grant->deadline_wall_ms;
    wp_world_advance(&world, 3600 * WP_NS_PER_S + 1500 * WP_NS_PER_MS);
    wp_world_settle(&world);
    now_ms = wp_clock_wall_ns(&world.rig.clock.clock) / WP_NS_PER_MS;
    assert_true(now_ms > deadline_ms);
    get(&b, "id", "x");
    wp_world_assert_ended(&b, WP_NOT_FOUND);
    (void)snprintf(expected, sizeof expected,
                   "claim_id: EXPIRED: its lease ran out %lld s ago",
                   (long long)((now_ms - deadline_ms) / 1000));
    assert_string_equal(b.message, expected);
    get(wp_world_again(&world, &b), "none", "x");
    wp_world_assert_ended(&b, WP_NOT_FOUND);
    assert_string_equal(b.message, "claim_id: no such claim is held");
}

/* Who gets nothing from a pool that makes nothing hears why. */
static void
test_says_why_a_pool_fails(void **state)
{
    char plain[sizeof a.message];
    char expected[2 * sizeof a.message];

    (void)state;
    wp_world_claim(&world, &a, "id", "", 0);
    wp_world_assert_ended(&a, WP_RESOURCE_EXHAUSTED);
    (void)snprintf(plain, sizeof plain, "%s", a.message);
    assert_null(strstr(plain, "fail to start"));
    world.rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(wp_pools_set_target(world.rig.pools, 0, 2, NULL), WP_OK);
    for (int i = 0; i < 50 && !wp_rig_stats(&world.rig).breaker_open; i++) {
        wp_world_settle(&world);
        (void)wp_fake_backend_fail(&world.rig.backend, 8, "no disk");
        wp_world_advance(&world, WP_NS_PER_S);
    }
    assert_true(wp_rig_stats(&world.rig).breaker_open);
    wp_world_claim(&world, &b, "id", "", 0);
    wp_world_assert_ended(&b, WP_RESOURCE_EXHAUSTED);
    (void)snprintf(expected, sizeof expected,
                   "%s: the sandboxes of pool 'p' fail to start, the latest "
                   "one: no disk",
                   plain);
    assert_string_equal(b.message, expected);
}

static void
test_get_claim(void **state)
{
    struct wp_claim_info info;

    (void)state;
    wp_world_claim(&world, &a, "id", "x", 0);
    get(&b, "id", "x");
    wp_world_assert_ended(&b, WP_OK);
    WP_WORLD_REPLY(&world, &b, claim_info, &info);
    assert_string_equal(info.claim_id, "id");
    assert_string_equal(info.tenant, "x");
    assert_false(info.lost);
    get(wp_world_again(&world, &b), "id", "");
    wp_world_assert_ended(&b, WP_NOT_FOUND);
    identify(wp_world_again(&world, &b), "y", false);
    get(&b, "id", "x");
    wp_world_assert_ended(&b, WP_PERMISSION_DENIED);
    identify(wp_world_again(&world, &b), "y", false);
    get(&b, "id", "");
    wp_world_assert_ended(&b, WP_NOT_FOUND);
}

/* While another replica has the leases, nothing is said about them here. */
static void
test_not_serving(void **state)
{
    struct wp_wire_claim_response lease;
    uint8_t token[WP_TOKEN_LEN];

    (void)state;
    wp_world_claim(&world, &a, "id", "", 0);
    lease = wp_world_lease(&world, &a);
    memcpy(token, lease.grant->token, sizeof token);
    atomic_store(&world.serves, false);
    wp_world_claim(&world, wp_world_again(&world, &a), "other", "", 0);
    wp_world_assert_ended(&a, WP_UNAVAILABLE);
    assert_non_null(strstr(a.message, "leader"));
    wp_world_release(&world, wp_world_again(&world, &a), token);
    wp_world_assert_ended(&a, WP_UNAVAILABLE);
    get(wp_world_again(&world, &a), "id", "");
    wp_world_assert_ended(&a, WP_UNAVAILABLE);
    assert_int_equal(leased(), 1);
    atomic_store(&world.serves, true);
    wp_world_release(&world, wp_world_again(&world, &a), token);
    wp_world_assert_ended(&a, WP_OK);
}

static uint32_t
list(struct wp_fake_call *fake, const char *tenant, uint32_t page_size,
     char *page_token)
{
    const struct wp_wire_list_claims_request request = {
        .pool = {WP_STR(""), WP_STR("")},
        .tenant = wp_str_from(tenant),
        .page_size = page_size,
        .page_token = wp_str_from(page_token),
    };
    struct wp_wire_list_claims_response response;

    WP_WORLD_START(&world.allocator, fake, "ListClaims", list_claims_request,
                   &request);
    wp_world_assert_ended(fake, WP_OK);
    WP_WORLD_REPLY(&world, fake, list_claims_response, &response);
    assert_true(wp_str_copy(response.next_page_token, page_token, 65));
    for (uint32_t i = 0; i < response.n_claims; i++) {
        assert_true(tenant[0] == '\0' ||
                    strcmp(response.claims[i].tenant, tenant) == 0);
    }
    return response.n_claims;
}

static void
test_list_claims(void **state)
{
    static const char *tenants[] = {"x", "y", "x", "y"};
    char token[65] = "";
    uint32_t n = 0;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        char id[8];

        (void)snprintf(id, sizeof id, "id-%u", i);
        wp_world_claim(&world, wp_world_again(&world, &a), id, tenants[i], 0);
        (void)wp_world_lease(&world, &a);
    }
    assert_int_equal(list(&b, "x", 10, token), 2);
    assert_string_equal(token, "");
    identify(wp_world_again(&world, &b), "", true);
    assert_int_equal(list(&b, "", 10, token), 4); /* An admin sees all. */
    assert_int_equal(list(wp_world_again(&world, &b), "", 10, token), 0);
    identify(wp_world_again(&world, &b), "y", false);
    assert_int_equal(list(&b, "", 10, token), 2); /* Its own. */
    do {
        identify(wp_world_again(&world, &b), "", true);
        n += list(&b, "", 1, token);
    } while (token[0] != '\0');
    assert_int_equal(n, 4);
}

static void
test_list_claims_refusals(void **state)
{
    static const char *const bad[] = {"x", "0000000000000000",
                                      "00000000000000zz", "00000000000000011"};
    struct wp_wire_list_claims_request request = {
        .pool = {WP_STR("default"), WP_STR("nope")}};

    (void)state;
    WP_WORLD_START(&world.allocator, &a, "ListClaims", list_claims_request,
                   &request);
    wp_world_assert_ended(&a, WP_NOT_FOUND);
    assert_string_equal(a.message,
                        "pool: 'nope' in namespace 'default' does not exist");
    request.pool = (struct wp_wire_pool_ref){WP_STR(""), WP_STR("")};
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        request.page_token = wp_str_from(bad[i]);
        WP_WORLD_START(&world.allocator, wp_world_again(&world, &a),
                       "ListClaims", list_claims_request, &request);
        wp_world_assert_ended(&a, WP_INVALID_ARGUMENT);
        assert_non_null(strstr(a.message, "page_token"));
    }
    /* A cursor of one's own making is past the end, at worst. */
    request.page_token = WP_STR("ffffffffffffffff");
    WP_WORLD_START(&world.allocator, wp_world_again(&world, &a), "ListClaims",
                   list_claims_request, &request);
    wp_world_assert_ended(&a, WP_OK);
}

/* What of a claim its client's trace is told, whether or not it got one. */
static void
test_a_claim_that_is_traced(void **state)
{
    const struct wp_trace_context client = {
        .sampled = true, .trace_id = "a trace of them", .span_id = "a span"};
    struct wp_tracer *tracer = wp_tracer_create(8);
    struct wp_fake_call *const calls[] = {&a, &b};

    (void)state;
    assert_non_null(tracer);
    for (size_t i = 0; i < 2; i++) {
        bool granted = i == 0;
        struct wp_span span;
        int64_t now_ns = wp_clock_mono_ns(&world.rig.clock.clock);

        wp_trace_begin(&calls[i]->call.trace, tracer, &client, now_ns);
        wp_clock_manual_advance(&world.rig.clock, WP_NS_PER_MS);
        if (!granted) {
            world.rig.store_status = WP_UNAVAILABLE;
        }
        wp_world_claim(&world, calls[i], granted ? "one" : "two", "blue", 0);
        wp_world_assert_ended(calls[i], granted ? WP_OK : WP_UNAVAILABLE);
        assert_true(wp_tracer_take(tracer, &span));
        assert_string_equal(span.name, "grant");
        assert_int_equal(span.kind, WP_SPAN_INTERNAL);
        assert_false(span.is_rpc);
        assert_int_equal(span.status, granted ? WP_OK : WP_UNAVAILABLE);
        assert_string_equal(span.pool_namespace, "default");
        assert_string_equal(span.pool, "p");
        assert_string_equal(span.claim, granted ? "one" : "two");
        if (granted) {
            assert_string_equal(span.served, "warm");
            assert_string_equal(
                span.sandbox, wp_world_lease(&world, calls[i]).grant->sandbox);
        } else {
            assert_null(span.served);
            assert_string_equal(span.sandbox, "");
        }
        assert_true(span.begin_ns == now_ns);
        assert_true(span.end_ns == now_ns + WP_NS_PER_MS);
        assert_memory_equal(span.trace_id, client.trace_id,
                            sizeof span.trace_id);
        assert_false(wp_tracer_take(tracer, &span));
    }
    wp_tracer_destroy(tracer);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_EMPTY(name)                                                       \
    cmocka_unit_test_setup_teardown(name, setup_empty, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_claim_grants_a_lease),
        TEST(test_same_id_same_answer),
        TEST(test_bad_requests),
        TEST_EMPTY(test_empty_pool_refuses),
        TEST_EMPTY(test_waiting_claim_is_served),
        TEST_EMPTY(test_only_so_many_wait),
        TEST_EMPTY(test_repeats_wait_among_so_many),
        TEST_EMPTY(test_wait_is_cut_to_the_deadline),
        TEST_EMPTY(test_cancel_while_waiting),
        TEST(test_cancel_while_committing),
        TEST(test_cancel_of_a_shared_claim),
        TEST(test_store_out_of_reach),
        TEST(test_no_memory_for_the_reply),
        TEST(test_tenants),
        TEST(test_not_serving),
        TEST(test_renew),
        TEST(test_says_when_a_lease_ran_out),
        cmocka_unit_test_setup_teardown(test_says_why_a_pool_fails, setup_empty,
                                        teardown),
        TEST(test_release_twice),
        TEST(test_leases_are_changed_by_their_tenant),
        TEST(test_every_method_refuses_nonsense),
        TEST(test_forged_tokens),
        TEST(test_cancel_of_a_release),
        TEST(test_get_claim),
        TEST(test_an_expired_claim),
        TEST(test_list_claims),
        TEST(test_list_claims_refusals),
        TEST(test_a_claim_that_is_traced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
