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
static struct wp_rig_claim claims[128];
static uint32_t n_claims;

static void
start(uint32_t target, const struct wp_pool_spec *spec)
{
    n_claims = 0;
    wp_rig_init(&rig, 256, target, spec);
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
    assert_int_equal(tenant("a").quota.waiters_max, 1);
    assert_int_equal(claim_of("b", 30 * S)->answers, 0);
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

static void
a_share_is_kept_while_others_claim(void **state)
{
    (void)state;
    start(12, NULL);
    assert_int_equal(served_of("a", 1), 1);
    assert_int_equal(served_of("b", 1), 1);
    assert_int_equal(served_of("c", 1), 1);
    wp_rig_settle(&rig);
    /* Three tenants: a third of the stock, and what is above the others'. */
    assert_int_equal(served_of("a", 12), 4);
    assert_int_equal(served_of("b", 4), 4);
    assert_int_equal(served_of("c", 4), 4);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).ready, 12);
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
    start(10, NULL);
    assert_int_equal(served_of("b", 1), 1);
    wp_rig_settle(&rig);
    assert_int_equal(served_of("a", 10), 5);
    wp_rig_advance(&rig, WP_TENANT_ACTIVE_NS / 2);
    assert_int_equal(served_of("a", 1), 1);
    wp_rig_advance(&rig, WP_TENANT_ACTIVE_NS / 2 + 20 * S);
    assert_int_equal(served_of("a", 10), 10);
    wp_rig_fini(&rig);
}

/* Who is beyond its share waits while sandboxes are ready; others still get
 * theirs at once, and it gets its turn when new ones come. */
static void
the_greedy_wait_without_standing_in_the_way(void **state)
{
    struct wp_rig_claim *waits[6];
    struct wp_rig_claim *c;
    uint32_t answered = 0;

    (void)state;
    start(8, NULL);
    assert_int_equal(served_of("b", 1), 1);
    wp_rig_settle(&rig);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(served_of("a", 4), 4);
    for (int i = 0; i < 6; i++) {
        waits[i] = claim_of("a", 50 * S);
        assert_int_equal(waits[i]->answers, 0);
    }
    c = claim_of("b", 0);
    assert_int_equal(c->claim.status, WP_OK);
    assert_int_equal(c->claim.grant.served, WP_SERVED_WARM);
    wp_rig_settle(&rig);
    while (wp_fake_backend_make_ready(&rig.backend, 1) == 1) {
        wp_rig_settle(&rig);
    }
    for (int i = 0; i < 6; i++) {
        answered += waits[i]->answers;
    }
    assert_int_equal(answered, 6);
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
        cmocka_unit_test(a_share_is_kept_while_others_claim),
        cmocka_unit_test(without_the_share_the_first_takes_all),
        cmocka_unit_test(a_share_is_kept_for_a_minute),
        cmocka_unit_test(the_greedy_wait_without_standing_in_the_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
