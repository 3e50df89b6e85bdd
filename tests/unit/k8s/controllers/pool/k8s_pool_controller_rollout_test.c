/* The pool controller: what a changed template means for its sandboxes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>

#include "tests/support/k8s/warm_pool_rig.h"

static uint64_t
retired(struct warm_pool_rig *rig)
{
    return wp_rig_stats(&rig->core).retired_total;
}

/* Recreate gives up what is stale and idle; what is leased stays. */
static void
recreate_gives_up(void **state)
{
    struct wp_rig_claim claim;
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 4, "Recreate");
    warm_pool_rig_put_known(
        &rig, &(struct warm_pool_sandbox){.name = "p-1", .is_ready = true});
    wp_rig_claim_init(&claim, "claim", "tenant", 3600 * WP_NS_PER_S, 0);
    assert_int_equal(wp_rig_claim(&rig.core, &claim), WP_OK);
    warm_pool_rig_put_known(
        &rig, &(struct warm_pool_sandbox){.name = "p-2", .is_ready = true});
    warm_pool_rig_put_known(
        &rig, &(struct warm_pool_sandbox){.name = "p-3", .is_ready = true});
    warm_pool_rig_put_known(&rig,
                            &(struct warm_pool_sandbox){
                                .name = "p-4", .image = "b", .is_ready = true});
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_activate(&rig);
    assert_int_equal(retired(&rig), 1); /* p-4 */
    warm_pool_rig_put_template(&rig, "c");
    warm_pool_rig_settle(&rig);
    wp_rig_settle(&rig.core);
    assert_int_equal(retired(&rig), 3);
    assert_int_equal(wp_rig_stats(&rig.core).leased, 1);
    /* They do not count any more, though they are still there. */
    assert_int_equal(warm_pool_rig_status(&rig, "replicas"), 0);
    /* Deleting them is the backend's business. */
    assert_int_equal(warm_pool_rig_sandbox_writes(&rig), 0);
    warm_pool_rig_fini(&rig);
}

/* Not even a status that is being written holds it up: what is old would be
 * claimed meanwhile. */
static void
recreate_is_at_once(void **state)
{
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 2, "Recreate");
    warm_pool_rig_put_known(
        &rig, &(struct warm_pool_sandbox){.name = "p-1", .is_ready = true});
    warm_pool_rig_activate(&rig);
    warm_pool_rig_put_pool(&rig, 3, "Recreate");
    wp_recorder_notify(rig.api);
    assert_int_not_equal(event_base_loop(rig.parts.base, EVLOOP_NONBLOCK), -1);
    assert_non_null(
        wp_recorder_open(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX_WARM_POOL));
    warm_pool_rig_put_template(&rig, "b");
    wp_recorder_notify(rig.api);
    assert_int_equal(retired(&rig), 1);
    warm_pool_rig_settle(&rig);
    assert_int_equal(retired(&rig), 1);
    warm_pool_rig_fini(&rig);
}

static void
replenish_leaves(void **state)
{
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 2, "OnReplenish");
    warm_pool_rig_put_known(
        &rig, &(struct warm_pool_sandbox){.name = "p-1", .is_ready = true});
    warm_pool_rig_put_known(
        &rig, &(struct warm_pool_sandbox){.name = "p-2", .is_ready = true});
    warm_pool_rig_activate(&rig);
    warm_pool_rig_put_template(&rig, "b");
    warm_pool_rig_settle(&rig);
    warm_pool_rig_advance(&rig, WP_NS_PER_S);
    assert_int_equal(retired(&rig), 0);
    assert_int_equal(warm_pool_rig_status(&rig, "readyReplicas"), 2);
    /* Until the strategy changes. */
    warm_pool_rig_put_pool(&rig, 2, "Recreate");
    warm_pool_rig_settle(&rig);
    assert_int_equal(retired(&rig), 2);
    warm_pool_rig_fini(&rig);
}

/* A stale sandbox that the core does not know yet is not forgotten. */
static void
unknown_is_given_up_later(void **state)
{
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "b");
    warm_pool_rig_put_pool(&rig, 1, "Recreate");
    warm_pool_rig_put_sandbox(
        &rig, &(struct warm_pool_sandbox){.name = "p-1", .is_ready = true});
    warm_pool_rig_activate(&rig);
    assert_int_equal(warm_pool_rig_status(&rig, "replicas"), 1);
    (void)warm_pool_rig_know(&rig, "p-1", WP_SANDBOX_READY);
    warm_pool_rig_advance(&rig, 2 * WP_NS_PER_S);
    assert_int_equal(retired(&rig), 1);
    warm_pool_rig_fini(&rig);
}

/* Without a template nothing is stale. */
static void
kept_without_template(void **state)
{
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 1, "Recreate");
    warm_pool_rig_put_known(
        &rig, &(struct warm_pool_sandbox){.name = "p-1", .is_ready = true});
    warm_pool_rig_activate(&rig);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_TEMPLATE, "default", "t");
    warm_pool_rig_settle(&rig);
    assert_int_equal(retired(&rig), 0);
    assert_int_equal(warm_pool_rig_status(&rig, "replicas"), 1);
    warm_pool_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recreate_gives_up),
        cmocka_unit_test(recreate_is_at_once),
        cmocka_unit_test(replenish_leaves),
        cmocka_unit_test(unknown_is_given_up_later),
        cmocka_unit_test(kept_without_template),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
