/* tests/unit/pool/core/pool_tenants_test.c - what tenants may have: quotas, and
 * a share of the stock while others claim as well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "pool/claims/accounts.h"
#include "tests/support/pool/pool_rig.h"

#define S WP_NS_PER_S

static struct wp_rig rig;
static struct wp_rig_claim claims[256];
static uint32_t n_claims;

static void
start(uint32_t target, const struct wp_pool_spec *spec)
{
    n_claims = 0;
    wp_rig_init(&rig, 512, target, spec);
    wp_rig_settle(&rig);
}

static struct wp_rig_claim *
claim_of(const char *tenant, int64_t wait_ns)
{
    struct wp_rig_claim *c = &claims[n_claims++];
    char id[16];

    (void)snprintf(id, sizeof id, "c%u", n_claims);
    wp_rig_claim_init(c, id, tenant, 0, wait_ns);
    (void)wp_rig_claim(&rig, c);
    return c;
}

static uint32_t
served_of(const char *tenant, uint32_t tries)
{
    uint32_t served = 0;

    for (uint32_t i = 0; i < tries; i++) {
        served += claim_of(tenant, 0)->claim.status == WP_OK ? 1 : 0;
    }
    return served;
}

static struct wp_tenant_stats
tenant(const char *name)
{
    struct wp_str text = wp_str_from(name);
    struct wp_tenant_stats out = {0};
    uint32_t cursor = 0;

    (void)wp_pools_tenants(rig.pools, UINT32_MAX, &text, &cursor, &out, 1);
    return out;
}

static void
a_quota_refuses_and_says_which(void **state)
{
    struct wp_pool_spec spec;
    struct wp_rig_claim *c;

    (void)state;
    wp_pool_spec_init(&spec);
    spec.tenant_leases_max = 2;
    start(8, &spec);
    assert_int_equal(served_of("a", 2), 2);
    c = claim_of("a", 0);
    assert_int_equal(c->claim.status, WP_RESOURCE_EXHAUSTED);
    assert_int_equal(c->claim.quota, WP_QUOTA_LEASES);
    assert_int_equal(c->claim.quota_max, 2);
    assert_int_equal(tenant("a").leases, 2);
    assert_int_equal(tenant("a").refused_total, 1);
    assert_string_equal(tenant("a").pool, "p");
    /* It is of one tenant. */
    assert_int_equal(served_of("b", 1), 1);
    /* A repeat of a claim that is held is none more. */
    assert_int_equal(wp_rig_claim(&rig, &claims[0]), WP_OK);
    assert_true(claims[0].claim.replayed);
    /* The id that was refused is free, and so is a place after a release. */
    assert_int_equal(wp_rig_release(&rig, &claims[1], NULL), WP_OK);
    assert_int_equal(wp_rig_claim(&rig, c), WP_OK);
    assert_int_equal(served_of("a", 1), 0);
    wp_rig_fini(&rig);
}

static void
an_expired_lease_makes_room(void **state)
{
    struct wp_pool_spec spec;

    (void)state;
    wp_pool_spec_init(&spec);
    spec.tenant_leases_max = 1;
    spec.ttl_default_ns = 5 * S;
    start(4, &spec);
    assert_int_equal(served_of("a", 2), 1);
    wp_rig_advance(&rig, 6 * S);
    assert_int_equal(tenant("a").leases, 0);
    assert_int_equal(served_of("a", 2), 1);
    wp_rig_fini(&rig);
}

static void
claims_that_wait_count(void **state)
{
    struct wp_pool_spec spec;
    struct wp_rig_claim *waits;
    struct wp_rig_claim *second;

    (void)state;
    wp_pool_spec_init(&spec);
    spec.tenant_leases_max = 2;
    start(0, &spec);
    waits = claim_of("a", 30 * S);
    second = claim_of("a", 30 * S);
    assert_int_equal(tenant("a").waiting, 2);
    assert_int_equal(tenant("a").leases, 0);
    assert_int_equal(claim_of("a", 30 * S)->claim.quota, WP_QUOTA_LEASES);
    assert_true(wp_pools_cancel(rig.pools, &waits->claim));
    assert_int_equal(tenant("a").waiting, 1);
    wp_rig_advance(&rig, 31 * S);
    assert_int_equal(second->claim.status, WP_RESOURCE_EXHAUSTED);
    assert_int_equal(tenant("a").waiting, 0);
    wp_rig_fini(&rig);
}

static void
a_named_tenant_may_wait_less(void **state)
{
    const struct wp_tenant_quota named = {
        .tenant = "a", .quota = {WP_QUOTA_NONE, 1, WP_QUOTA_NONE}};
    struct wp_rig_claim *c;

    (void)state;
    start(0, NULL);
    assert_true(wp_pools_set_quotas(rig.pools, &named, 1));
    assert_int_equal(claim_of("a", 30 * S)->answers, 0);
    c = claim_of("a", 30 * S);
    assert_int_equal(c->claim.status, WP_RESOURCE_EXHAUSTED);
    assert_int_equal(c->claim.quota, WP_QUOTA_WAITING);
    assert_int_equal(c->claim.quota_max, 1);
    assert_int_equal(tenant("a").quota.waiters_max, 1);
    assert_int_equal(tenant("a").refused_total, 1);
    assert_int_equal(tenant("a").waiting, 1);
    assert_int_equal(claim_of("b", 30 * S)->answers, 0);
    assert_int_equal(tenant("b").quota.waiters_max, 256);
    assert_int_equal(tenant("b").refused_total, 0);
    assert_int_equal(claim_of("b", 30 * S)->answers, 0);
    wp_rig_advance(&rig, 31 * S);
    wp_rig_fini(&rig);
}

static void
the_rate_is_held_and_says_when(void **state)
{
    struct wp_pool_spec spec;
    struct wp_rig_claim *c;

    (void)state;
    wp_pool_spec_init(&spec);
    spec.tenant_claims_per_minute = 30;
    start(20, &spec);
    assert_int_equal(served_of("a", 9), 5);
    c = claim_of("a", 0);
    assert_int_equal(c->claim.quota, WP_QUOTA_RATE);
    assert_int_equal(c->claim.quota_max, 30);
    assert_int_equal(c->claim.retry_after_ns, 2 * S);
    /* A repeat is none more. */
    assert_int_equal(wp_rig_claim(&rig, &claims[0]), WP_OK);
    wp_rig_advance(&rig, 2 * S);
    assert_int_equal(served_of("a", 9), 1);
    wp_rig_fini(&rig);
}

static void
a_lone_tenant_takes_everything(void **state)
{
    (void)state;
    start(10, NULL);
    assert_int_equal(served_of("a", 12), 10);
    wp_rig_fini(&rig);
}

/* Nobody has claimed much yet: who hurries leaves a quarter of the others'
 * parts. */
static void
who_hurries_leaves_some(void **state)
{
    (void)state;
    start(12, NULL);
    assert_int_equal(served_of("a", 1), 1);
    assert_int_equal(served_of("b", 1), 1);
    assert_int_equal(served_of("c", 1), 1);
    wp_rig_settle(&rig);
    assert_int_equal(served_of("a", 12), 10);
    assert_int_equal(served_of("b", 1), 1);
    assert_int_equal(served_of("c", 1), 1);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).ready, 12);
    wp_rig_fini(&rig);
}

/* Who claims much all the time is held back to what the others leave, and gets
 * that. */
static void
who_claims_much_is_held_back(void **state)
{
    uint32_t greedy = 0;

    (void)state;
    start(12, NULL);
    rig.backend.ready = WP_FAKE_READY_DELAYED;
    rig.backend.ready_delay_ns = S;
    for (int i = 0; i < 8; i++) {
        uint32_t served;

        wp_rig_advance(&rig, S);
        /* In the first moments little is known of it. */
        assert_true(served_of("b", 1) == 1 || i < 3);
        served = served_of("a", 30);
        wp_rig_settle(&rig);
        greedy += i >= 3 ? served : 0;
    }
    /* Of 12 in a lead time, b's need of some 1 and its chance are kept. */
    assert_in_range(greedy, 5 * 7, 5 * 10 - 1);
    wp_rig_fini(&rig);
}

/* Shares grow and shrink by the clock, though nothing happens meanwhile. */
static void
shares_are_found_each_second_while_several_claim(void **state)
{
    (void)state;
    start(12, NULL);
    assert_int_equal(served_of("a", 1), 1);
    wp_rig_advance(&rig, 2 * S);
    assert_true(rig.next_run_ns > rig.clock.now_mono_ns + S);
    assert_int_equal(served_of("b", 1), 1);
    for (int i = 0; i < 4; i++) {
        wp_rig_advance(&rig, S);
        assert_int_equal(rig.next_run_ns, rig.clock.now_mono_ns + S);
    }
    wp_rig_fini(&rig);
}

static void
without_the_share_the_first_takes_all(void **state)
{
    struct wp_pool_spec spec;

    (void)state;
    wp_pool_spec_init(&spec);
    spec.fair_share = false;
    start(12, &spec);
    assert_int_equal(served_of("b", 1), 1);
    wp_rig_settle(&rig);
    assert_int_equal(served_of("a", 12), 12);
    assert_int_equal(served_of("b", 1), 0);
    wp_rig_fini(&rig);
}

static void
a_share_is_kept_for_a_minute(void **state)
{
    (void)state;
    start(12, NULL);
    assert_int_equal(served_of("a", 1), 1);
    assert_int_equal(served_of("b", 1), 1);
    wp_rig_advance(&rig, WP_TENANT_ACTIVE_NS);
    assert_int_equal(served_of("a", 12), 11);
    wp_rig_advance(&rig, 2 * S);
    assert_int_equal(served_of("a", 12), 12);
    wp_rig_fini(&rig);
}

/* Who is beyond its share waits while sandboxes are ready; others still get
 * theirs at once. */
static void
who_is_held_back_stands_in_nobodys_way(void **state)
{
    struct wp_rig_claim *waits[14];
    struct wp_rig_claim *c;
    uint32_t answered = 0;

    (void)state;
    start(12, NULL);
    rig.backend.ready = WP_FAKE_READY_DELAYED;
    rig.backend.ready_delay_ns = S;
    for (int i = 0; i < 4; i++) {
        wp_rig_advance(&rig, S);
        (void)served_of("b", 1);
        (void)served_of("a", 30);
        wp_rig_settle(&rig);
    }
    wp_rig_advance(&rig, S);
    for (int i = 0; i < 14; i++) {
        waits[i] = claim_of("a", 50 * S);
    }
    assert_int_equal(waits[13]->answers, 0);
    assert_true(wp_rig_stats(&rig).ready > 0);
    c = claim_of("b", 0);
    assert_int_equal(c->claim.status, WP_OK);
    assert_int_equal(c->claim.grant.served, WP_SERVED_WARM);
    assert_int_equal(waits[13]->answers, 0);
    for (int i = 0; i < 40; i++) {
        wp_rig_advance(&rig, S);
    }
    for (int i = 0; i < 14; i++) {
        answered += waits[i]->claim.status == WP_OK ? waits[i]->answers : 0;
    }
    assert_int_equal(answered, 14);
    assert_int_equal(tenant("a").waiting, 0);
    wp_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quota_refuses_and_says_which),
        cmocka_unit_test(an_expired_lease_makes_room),
        cmocka_unit_test(claims_that_wait_count),
        cmocka_unit_test(a_named_tenant_may_wait_less),
        cmocka_unit_test(the_rate_is_held_and_says_when),
        cmocka_unit_test(a_lone_tenant_takes_everything),
        cmocka_unit_test(who_hurries_leaves_some),
        cmocka_unit_test(who_claims_much_is_held_back),
        cmocka_unit_test(shares_are_found_each_second_while_several_claim),
        cmocka_unit_test(without_the_share_the_first_takes_all),
        cmocka_unit_test(a_share_is_kept_for_a_minute),
        cmocka_unit_test(who_is_held_back_stands_in_nobodys_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
