/* Pools that change and go while claims come: update, remove, add again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/support/pool/pool_rig.h"

#define S WP_NS_PER_S

static struct wp_pool_spec
spec_of(const char *name, uint32_t target)
{
    struct wp_pool_spec spec;

    wp_pool_spec_init(&spec);
    (void)snprintf(spec.name, sizeof spec.name, "%s", name);
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    spec.target = target;
    return spec;
}

static struct wp_pool_stats
stats_of(struct wp_rig *rig, uint32_t index)
{
    struct wp_pool_stats stats;

    wp_pools_stats(rig->pools, index, &stats);
    return stats;
}

static enum wp_status
claim_of(struct wp_rig *rig, struct wp_rig_claim *c, const char *pool,
         const char *id)
{
    wp_rig_claim_init(c, id, "", 10 * S, 0);
    c->claim.pool = wp_str_from(pool);
    return wp_rig_claim(rig, c);
}

/* --- Update --- */

static void
an_update_changes_all_but_the_names(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;
    struct wp_pool_spec spec = spec_of("p", 4);

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    spec.ttl_default_ns = 7 * S;
    spec.ttl_max_ns = 8 * S;
    spec.ready_within_ns = 9 * S;
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t2");
    assert_int_equal(wp_pools_update(rig.pools, 0, &spec, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).ready, 4);
    assert_string_equal(wp_rig_stats(&rig).spec.template_name, "t2");
    assert_int_equal(wp_rig_stats(&rig).spec.target, 4);
    assert_int_equal(wp_rig_stats(&rig).spec.ready_within_ns, 9 * S);
    wp_rig_claim_init(&c, "a", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &c), WP_OK);
    assert_int_equal(c.claim.grant.deadline_ns - rig.clock.now_mono_ns, 7 * S);
    assert_int_equal(wp_rig_renew(&rig, &c, 9 * S), WP_INVALID_ARGUMENT);
    wp_rig_claim_init(&c, "b", "", 9 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &c), WP_INVALID_ARGUMENT);
    wp_rig_fini(&rig);
}

/* Every field, to another value than the one that it had. */
static void
an_update_is_taken_whole(void **state)
{
    struct wp_rig rig;
    struct wp_pool_spec spec;
    struct wp_pool_spec before;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    before = wp_rig_stats(&rig).spec;
    spec = before;
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t2");
    spec.target = 3;
    spec.waiters_max = before.waiters_max + 1;
    spec.tenant_waiters_max = before.tenant_waiters_max + 1;
    spec.tenant_leases_max = before.tenant_leases_max + 5;
    spec.tenant_claims_per_minute = before.tenant_claims_per_minute + 6;
    spec.fair_share = !before.fair_share;
    spec.create_inflight_max = before.create_inflight_max + 1;
    spec.ttl_default_ns = before.ttl_default_ns + 1 * S;
    spec.ttl_max_ns = before.ttl_max_ns - 1 * S;
    spec.hold_max_ns = before.hold_max_ns + 3 * S;
    spec.freeze_after_ns = before.freeze_after_ns + 4 * S;
    spec.wait_max_ns = before.wait_max_ns + 5 * S;
    spec.ready_within_ns = before.ready_within_ns + 6 * S;
    spec.cold_start =
        before.cold_start == WP_COLD_NEVER ? WP_COLD_ALLOWED : WP_COLD_NEVER;
    spec.cold_start_said = !before.cold_start_said;
    spec.bind_env = !before.bind_env;
    (void)snprintf(spec.egress, sizeof spec.egress, "all");
    assert_int_equal(
        wp_scale_policy_set(&spec.scale, WP_STR("min"), WP_STR("3"), NULL),
        WP_OK);
    assert_int_equal(wp_pools_update(rig.pools, 0, &spec, NULL), WP_OK);
    before = wp_rig_stats(&rig).spec;
    assert_memory_equal(&before, &spec, sizeof spec);
    wp_rig_fini(&rig);
}

static void
an_update_that_makes_no_sense_changes_nothing(void **state)
{
    struct wp_rig rig;
    struct wp_pool_spec spec = spec_of("q", 4);
    struct wp_err err = {.msg = ""};

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    assert_int_equal(wp_pools_update(rig.pools, 0, &spec, &err),
                     WP_INVALID_ARGUMENT);
    spec = spec_of("p", WP_TARGET_MAX + 1);
    assert_int_equal(wp_pools_update(rig.pools, 0, &spec, &err),
                     WP_INVALID_ARGUMENT);
    spec = spec_of("p", 4);
    spec.ttl_max_ns = WP_TTL_MAX_NS + 1;
    assert_int_equal(wp_pools_update(rig.pools, 0, &spec, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "ttl"));
    spec = spec_of("p", 4);
    assert_int_equal(wp_pools_update(rig.pools, 1, &spec, &err), WP_NOT_FOUND);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).ready, 2);
    wp_rig_fini(&rig);
}

static void
none_at_once_means_that_nothing_is_made(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c;
    struct wp_pool_spec spec = spec_of("p", 2);

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    spec.create_inflight_max = 0;
    spec.cold_start = WP_COLD_ALLOWED;
    assert_int_equal(wp_pools_update(rig.pools, 0, &spec, NULL), WP_OK);
    assert_int_equal(claim_of(&rig, &c, "p", "a"), WP_OK);
    assert_int_equal(claim_of(&rig, &c, "p", "b"), WP_OK);
    wp_rig_advance(&rig, 60 * S);
    assert_int_equal(wp_rig_stats(&rig).created_total, 2);
    assert_int_equal(claim_of(&rig, &c, "p", "c"), WP_RESOURCE_EXHAUSTED);
    assert_true(c.claim.retry_after_ns >= 60 * S);
    spec.create_inflight_max = 4;
    assert_int_equal(wp_pools_update(rig.pools, 0, &spec, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).ready, 2);
    wp_rig_fini(&rig);
}

static void
more_claims_may_wait_after_an_update(void **state)
{
    struct wp_rig rig;
    static struct wp_rig_claim c[8];
    struct wp_pool_spec spec = spec_of("p", 0);

    (void)state;
    spec.waiters_max = 2;
    spec.tenant_waiters_max = 8;
    wp_rig_init(&rig, 16, 0, &spec);
    for (int i = 0; i < 8; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "w%d", i);
        wp_rig_claim_init(&c[i], id, "", 10 * S, (20 - i) * S);
    }
    assert_int_equal(wp_rig_claim(&rig, &c[0]), WP_PENDING);
    assert_int_equal(wp_rig_claim(&rig, &c[1]), WP_PENDING);
    assert_int_equal(wp_rig_claim(&rig, &c[2]), WP_RESOURCE_EXHAUSTED);
    spec.waiters_max = 5;
    assert_int_equal(wp_pools_update(rig.pools, 0, &spec, NULL), WP_OK);
    for (int i = 3; i < 6; i++) {
        assert_int_equal(wp_rig_claim(&rig, &c[i]), WP_PENDING);
    }
    assert_int_equal(wp_rig_claim(&rig, &c[6]), WP_RESOURCE_EXHAUSTED);
    /* Fewer: those that wait stay. */
    spec.waiters_max = 1;
    assert_int_equal(wp_pools_update(rig.pools, 0, &spec, NULL), WP_OK);
    assert_int_equal(wp_rig_claim(&rig, &c[7]), WP_RESOURCE_EXHAUSTED);
    assert_int_equal(wp_rig_stats(&rig).waiting, 5);
    spec.target = 5;
    assert_int_equal(wp_pools_update(rig.pools, 0, &spec, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(c[0].claim.status, WP_OK);
    assert_int_equal(c[5].claim.status, WP_OK);
    wp_rig_fini(&rig);
}

/* --- Remove --- */

static void
a_removed_pool_keeps_its_leases_and_nothing_else(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim held;
    struct wp_rig_claim waits;
    struct wp_rig_claim late;
    struct wp_claim_info info;
    bool was_held;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(claim_of(&rig, &held, "p", "held"), WP_OK);
    wp_rig_settle(&rig);
    wp_rig_claim_init(&waits, "waits", "", 10 * S, 30 * S);
    assert_int_equal(wp_rig_claim(&rig, &waits), WP_PENDING);
    assert_int_equal(wp_rig_stats(&rig).warming, 1);
    wp_pools_remove(rig.pools, 0);
    wp_pools_remove(rig.pools, 0);
    assert_int_equal(claim_of(&rig, &late, "p", "late"), WP_NOT_FOUND);
    assert_int_equal(wp_pools_index(rig.pools, WP_STR("default"), WP_STR("p")),
                     UINT32_MAX);
    wp_rig_settle(&rig);
    assert_int_equal(waits.answers, 1);
    assert_int_equal(waits.claim.status, WP_NOT_FOUND);
    assert_int_equal(wp_rig_stats(&rig).warming, 0);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_true(wp_rig_stats(&rig).removed);
    assert_false(wp_rig_stats(&rig).gone);
    assert_int_equal(wp_rig_stats(&rig).failed_total, 0);
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 3, NULL), WP_NOT_FOUND);
    assert_int_equal(wp_pools_get(rig.pools, WP_STR(""), WP_STR("held"), &info),
                     WP_OK);
    assert_string_equal(info.pool, "p");
    assert_int_equal(wp_rig_renew(&rig, &held, 10 * S), WP_OK);
    assert_int_equal(wp_rig_release(&rig, &held, &was_held), WP_OK);
    assert_true(was_held);
    wp_rig_settle(&rig);
    assert_true(wp_rig_stats(&rig).gone);
    assert_int_equal(wp_fake_backend_counts(&rig.backend).live, 0);
    wp_rig_fini(&rig);
}

/* It is not gone while there is anything of it, whatever that is. */
static void
a_removed_pool_is_there_while_anything_is(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim held;
    struct wp_rig_claim doubted;

    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    rig.backend.destroy_delay_ns = 5 * S;
    assert_int_equal(claim_of(&rig, &held, "p", "held"), WP_OK);
    rig.store_status = WP_UNKNOWN_OUTCOME;
    assert_int_equal(claim_of(&rig, &doubted, "p", "doubted"), WP_UNAVAILABLE);
    rig.store_status = WP_OK;
    rig.backend.ready = WP_FAKE_READY_TOLD;
    wp_rig_settle(&rig);
    /* One of each: leased, in doubt, and two that are warming. */
    assert_int_equal(wp_rig_stats(&rig).warming, 2);
    assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 1), 1);
    assert_int_equal(wp_rig_stats(&rig).ready, 1);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_stats(&rig).quarantined, 1);
    wp_pools_remove(rig.pools, 0);
    assert_true(wp_rig_stats(&rig).removed);
    assert_false(wp_rig_stats(&rig).gone);
    (void)wp_pools_run(rig.pools);
    assert_int_equal(wp_rig_stats(&rig).dying, 2);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_false(wp_rig_stats(&rig).gone);
    assert_int_equal(wp_rig_release(&rig, &held, NULL), WP_OK);
    wp_rig_advance(&rig, 20 * S);
    wp_rig_advance(&rig, 20 * S);
    assert_true(wp_rig_stats(&rig).gone);
    wp_rig_fini(&rig);
}

static void
ready_sandboxes_of_a_removed_pool_are_destroyed(void **state)
{
    struct wp_rig rig;

    (void)state;
    wp_rig_init(&rig, 128, 100, NULL);
    wp_pools_remove(rig.pools, 0);
    wp_rig_settle(&rig);
    assert_true(wp_rig_stats(&rig).gone);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 100);
    wp_rig_fini(&rig);
}

static void
added_again_it_goes_on_with_what_is_left(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim held;
    struct wp_rig_claim again;
    struct wp_pool_spec spec = spec_of("p", 2);
    uint32_t index = 7;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    assert_int_equal(claim_of(&rig, &held, "p", "held"), WP_OK);
    wp_pools_remove(rig.pools, 0);
    wp_rig_settle(&rig);
    spec.ttl_default_ns = 5 * S;
    assert_int_equal(wp_pools_add(rig.pools, &spec, &index, NULL), WP_OK);
    assert_int_equal(index, 0);
    assert_int_equal(wp_pools_add(rig.pools, &spec, &index, NULL),
                     WP_ALREADY_EXISTS);
    wp_rig_settle(&rig);
    assert_false(wp_rig_stats(&rig).removed);
    assert_int_equal(wp_rig_stats(&rig).ready, 2);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(claim_of(&rig, &again, "p", "held"), WP_OK);
    assert_true(again.claim.replayed);
    assert_string_equal(again.claim.grant.sandbox, held.claim.grant.sandbox);
    wp_rig_fini(&rig);
}

static void
names_are_found_past_removed_ones(void **state)
{
    struct wp_rig rig;
    struct wp_pool_spec spec;
    char name[16];

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    for (int i = 0; i < 700; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        spec = spec_of(name, 0);
        assert_int_equal(wp_pools_add(rig.pools, &spec, NULL, NULL), WP_OK);
    }
    for (int i = 0; i < 700; i += 2) {
        (void)snprintf(name, sizeof name, "n%d", i);
        wp_pools_remove(rig.pools, wp_pools_index(rig.pools, WP_STR("default"),
                                                  wp_str_from(name)));
    }
    for (int i = 0; i < 700; i++) {
        uint32_t index;

        (void)snprintf(name, sizeof name, "n%d", i);
        index = wp_pools_index(rig.pools, WP_STR("default"), wp_str_from(name));
        assert_int_equal(index == UINT32_MAX, i % 2 == 0);
    }
    wp_rig_fini(&rig);
}

static void
one_name_is_in_many_namespaces(void **state)
{
    struct wp_rig rig;
    struct wp_pool_spec spec;

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    for (uint32_t i = 1; i < WP_POOLS_MAX; i++) {
        spec = spec_of("p", 0);
        (void)snprintf(spec.pool_namespace, sizeof spec.pool_namespace,
                       "%s%04u", i % 2 == 0 ? "a-team-" : "t", i);
        assert_int_equal(wp_pools_add(rig.pools, &spec, NULL, NULL), WP_OK);
        assert_int_equal(wp_pools_index(rig.pools,
                                        wp_str_from(spec.pool_namespace),
                                        WP_STR("p")),
                         i);
    }
    assert_int_equal(wp_pools_index(rig.pools, WP_STR("default"), WP_STR("p")),
                     0);
    assert_int_equal(wp_pools_index(rig.pools, WP_STR("t"), WP_STR("p")),
                     UINT32_MAX);
    wp_rig_fini(&rig);
}

/* More pools come and go than there can be at once. */
static void
an_index_is_used_again_once_nothing_is_left(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim held;
    struct wp_rig_claim c;
    struct wp_pool_spec spec;
    uint32_t kept = UINT32_MAX;
    uint32_t index;
    char name[16];

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    for (int i = 0; i < WP_POOLS_MAX + WP_POOLS_MAX / 8; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        spec = spec_of(name, 2);
        assert_int_equal(wp_pools_add(rig.pools, &spec, &index, NULL), WP_OK);
        assert_int_not_equal(index, kept);
        wp_rig_settle(&rig);
        assert_int_equal(stats_of(&rig, index).ready, 2);
        assert_int_equal(stats_of(&rig, index).created_total, 2);
        assert_int_equal(
            wp_pools_index(rig.pools, WP_STR("default"), wp_str_from(name)),
            index);
        assert_int_equal(claim_of(&rig, i == 5 ? &held : &c, name, name),
                         WP_OK);
        if (i == 5) {
            kept = index;
        } else {
            assert_int_equal(wp_rig_release(&rig, &c, NULL), WP_OK);
        }
        wp_pools_remove(rig.pools, index);
        wp_rig_settle(&rig);
    }
    /* All the time one lease of a removed pool was left. */
    assert_int_equal(stats_of(&rig, kept).leased, 1);
    assert_string_equal(stats_of(&rig, kept).spec.name, "n5");
    assert_int_equal(wp_rig_release(&rig, &held, NULL), WP_OK);
    wp_rig_fini(&rig);
}

static void
no_index_is_used_again_while_something_is_left(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim held;
    struct wp_pool_spec spec;
    char name[16];

    (void)state;
    wp_rig_init(&rig, 4, 1, NULL);
    for (int i = 1; i < WP_POOLS_MAX; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        spec = spec_of(name, 0);
        assert_int_equal(wp_pools_add(rig.pools, &spec, NULL, NULL), WP_OK);
    }
    spec = spec_of("more", 1);
    assert_int_equal(wp_pools_add(rig.pools, &spec, NULL, NULL),
                     WP_RESOURCE_EXHAUSTED);
    assert_int_equal(claim_of(&rig, &held, "p", "held"), WP_OK);
    wp_pools_remove(rig.pools, 0);
    wp_rig_settle(&rig);
    assert_int_equal(wp_pools_add(rig.pools, &spec, NULL, NULL),
                     WP_RESOURCE_EXHAUSTED);
    assert_int_equal(wp_rig_release(&rig, &held, NULL), WP_OK);
    assert_int_equal(wp_pools_add(rig.pools, &spec, NULL, NULL),
                     WP_RESOURCE_EXHAUSTED);
    wp_rig_settle(&rig);
    assert_int_equal(wp_pools_add(rig.pools, &spec, NULL, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(stats_of(&rig, 0).ready, 1);
    assert_string_equal(stats_of(&rig, 0).spec.name, "more");
    wp_rig_fini(&rig);
}

/* Of those of which nothing is left: the one that was removed first. */
static void
the_index_that_was_free_longest_is_used_first(void **state)
{
    static const uint32_t removed[] = {5, 2, 7};
    struct wp_rig rig;
    struct wp_pool_spec spec;
    char name[16];
    uint32_t index;

    (void)state;
    wp_rig_init(&rig, 4, 1, NULL);
    for (int i = 1; i < WP_POOLS_MAX; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        spec = spec_of(name, 0);
        assert_int_equal(wp_pools_add(rig.pools, &spec, NULL, NULL), WP_OK);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(removed); i++) {
        wp_pools_remove(rig.pools, removed[i]);
    }
    wp_rig_settle(&rig);
    for (size_t i = 0; i < WP_ARRAY_LEN(removed); i++) {
        (void)snprintf(name, sizeof name, "again%zu", i);
        spec = spec_of(name, 0);
        assert_int_equal(wp_pools_add(rig.pools, &spec, &index, NULL), WP_OK);
        assert_int_equal(index, removed[i]);
    }
    wp_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_changes_all_but_the_names),
        cmocka_unit_test(an_update_that_makes_no_sense_changes_nothing),
        cmocka_unit_test(none_at_once_means_that_nothing_is_made),
        cmocka_unit_test(more_claims_may_wait_after_an_update),
        cmocka_unit_test(an_update_is_taken_whole),
        cmocka_unit_test(a_removed_pool_is_there_while_anything_is),
        cmocka_unit_test(the_index_that_was_free_longest_is_used_first),
        cmocka_unit_test(a_removed_pool_keeps_its_leases_and_nothing_else),
        cmocka_unit_test(ready_sandboxes_of_a_removed_pool_are_destroyed),
        cmocka_unit_test(added_again_it_goes_on_with_what_is_left),
        cmocka_unit_test(names_are_found_past_removed_ones),
        cmocka_unit_test(one_name_is_in_many_namespaces),
        cmocka_unit_test(an_index_is_used_again_once_nothing_is_left),
        cmocka_unit_test(no_index_is_used_again_while_something_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
