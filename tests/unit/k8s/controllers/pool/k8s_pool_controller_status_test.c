/* The pool controller: the pool's status is exact, and written seldom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/objects/json.h"
#include "tests/support/k8s/warm_pool_rig.h"

static void
status_is_exact(void **state)
{
    static const struct warm_pool_sandbox sandboxes[] = {
        {.name = "p-1", .is_ready = true},
        {.name = "p-2", .is_ready = true},
        {.name = "p-3"},
        {.name = "p-4", .owners = WARM_POOL_CLAIMED, .is_ready = true},
        {.name = "p-5", .is_ready = true},
        {.name = "p-6", .is_ready = true},
        {.name = "p-7", .is_ready = true},
    };
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 3, "OnReplenish");
    for (size_t i = 0; i < WP_ARRAY_LEN(sandboxes); i++) {
        warm_pool_rig_put_sandbox(&rig, &sandboxes[i]);
    }
    /* A lease has one, the object does not say so yet; one is on its way out,
     * another will be. */
    (void)warm_pool_rig_know(&rig, "p-5", WP_SANDBOX_ADOPTED);
    (void)warm_pool_rig_know(&rig, "p-6", WP_SANDBOX_DELETING);
    warm_pool_rig_know(&rig, "p-7", WP_SANDBOX_READY)->unwanted = true;
    warm_pool_rig_activate(&rig);
    assert_int_equal(warm_pool_rig_status(&rig, "replicas"), 3);
    assert_int_equal(warm_pool_rig_status(&rig, "readyReplicas"), 2);
    assert_int_equal(warm_pool_rig_status(&rig, "observedGeneration"), 1);
    assert_string_equal(
        wp_json_text(wp_recorder_object(rig.api, WP_KIND_SANDBOX_WARM_POOL,
                                        "default", "p"),
                     "status", "selector", NULL),
        warm_pool_rig_text("agents.x-k8s.io/warm-pool-sandbox=%s", rig.hash));
    assert_int_equal(warm_pool_rig_status_writes(&rig), 1);
    warm_pool_rig_advance(&rig, 10 * WP_NS_PER_S);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_WRITES, WP_KIND_COUNT),
                     1);
    /* Zero is written like any other number. */
    for (size_t i = 0; i < 3; i++) {
        wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "default",
                           sandboxes[i].name);
    }
    warm_pool_rig_advance(&rig, WP_NS_PER_S);
    assert_int_equal(warm_pool_rig_status(&rig, "replicas"), 0);
    assert_int_equal(warm_pool_rig_status(&rig, "readyReplicas"), 0);
    /* A new generation is reported at once, though nothing else changes. */
    warm_pool_rig_put_pool(&rig, 0, "OnReplenish");
    warm_pool_rig_settle(&rig);
    assert_int_equal(warm_pool_rig_status(&rig, "observedGeneration"), 2);
    warm_pool_rig_fini(&rig);
}

/* A hundred sandboxes that become ready over some seconds are a few writes. */
static void
burst_is_gathered(void **state)
{
    struct warm_pool_rig rig;
    char name[16];

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 100, "OnReplenish");
    warm_pool_rig_activate(&rig);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 100; i++) {
            (void)snprintf(name, sizeof(name), "p-%d", i);
            warm_pool_rig_put_sandbox(
                &rig, &(struct warm_pool_sandbox){.name = name,
                                                  .is_ready = turn == 1});
            warm_pool_rig_advance(&rig, 10 * WP_NS_PER_MS);
        }
    }
    warm_pool_rig_advance(&rig, WP_NS_PER_S);
    assert_int_equal(warm_pool_rig_status(&rig, "replicas"), 100);
    assert_int_equal(warm_pool_rig_status(&rig, "readyReplicas"), 100);
    assert_in_range(warm_pool_rig_status_writes(&rig), 2, 6);
    warm_pool_rig_fini(&rig);
}

/* A claim takes one, a new one is ready soon after: nothing to report. */
static void
whole_again_costs_nothing(void **state)
{
    struct warm_pool_rig rig;
    char name[16];

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 1, "OnReplenish");
    warm_pool_rig_put_sandbox(
        &rig, &(struct warm_pool_sandbox){.name = "p-0", .is_ready = true});
    warm_pool_rig_activate(&rig);
    assert_int_equal(warm_pool_rig_status_writes(&rig), 1);
    for (int i = 1; i < 20; i++) {
        (void)snprintf(name, sizeof(name), "p-%d", i - 1);
        warm_pool_rig_put_sandbox(
            &rig, &(struct warm_pool_sandbox){.name = name,
                                              .owners = WARM_POOL_CLAIMED,
                                              .is_ready = true});
        warm_pool_rig_advance(&rig, 50 * WP_NS_PER_MS);
        (void)snprintf(name, sizeof(name), "p-%d", i);
        warm_pool_rig_put_sandbox(
            &rig, &(struct warm_pool_sandbox){.name = name, .is_ready = true});
        warm_pool_rig_advance(&rig, 600 * WP_NS_PER_MS);
    }
    assert_int_equal(warm_pool_rig_status_writes(&rig), 1);
    warm_pool_rig_fini(&rig);
}

/* What the API server does not take is written again; a pool that is gone is
 * not. */
static void
status_is_retried(void **state)
{
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 1, "OnReplenish");
    wp_recorder_plan(
        rig.api, &(struct wp_recorder_fault){.verb = WP_VERB_PATCH,
                                             .kind = WP_KIND_SANDBOX_WARM_POOL,
                                             .subresource = "status",
                                             .times = 3,
                                             .status = WP_UNAVAILABLE});
    warm_pool_rig_activate(&rig);
    for (int i = 0; i < 10; i++) {
        warm_pool_rig_advance(&rig, WP_NS_PER_S);
    }
    assert_int_equal(warm_pool_rig_status_writes(&rig), 4);
    assert_int_equal(warm_pool_rig_status(&rig, "observedGeneration"), 1);
    wp_recorder_plan(
        rig.api, &(struct wp_recorder_fault){.verb = WP_VERB_PATCH,
                                             .kind = WP_KIND_SANDBOX_WARM_POOL,
                                             .status = WP_NOT_FOUND});
    warm_pool_rig_put_sandbox(
        &rig, &(struct warm_pool_sandbox){.name = "p-1", .is_ready = true});
    warm_pool_rig_advance(&rig, WP_NS_PER_S);
    assert_int_equal(warm_pool_rig_status_writes(&rig), 5);
    warm_pool_rig_fini(&rig);
}

/* Nobody writes who does not lead. */
static void
only_while_active(void **state)
{
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 1, "OnReplenish");
    wp_recorder_notify(rig.api);
    assert_int_not_equal(event_base_loop(rig.parts.base, EVLOOP_NONBLOCK), -1);
    assert_int_equal(wp_recorder_calls(rig.api), 0);
    warm_pool_rig_activate(&rig);
    assert_int_equal(wp_recorder_calls(rig.api), 1);
    wp_pool_controller_ops.deactivate(rig.controller);
    warm_pool_rig_put_pool(&rig, 2, "OnReplenish");
    wp_recorder_notify(rig.api);
    assert_int_not_equal(event_base_loop(rig.parts.base, EVLOOP_NONBLOCK), -1);
    assert_int_equal(wp_recorder_calls(rig.api), 1);
    warm_pool_rig_activate(&rig);
    assert_int_equal(warm_pool_rig_status(&rig, "observedGeneration"), 2);
    warm_pool_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_is_exact),
        cmocka_unit_test(burst_is_gathered),
        cmocka_unit_test(whole_again_costs_nothing),
        cmocka_unit_test(status_is_retried),
        cmocka_unit_test(only_while_active),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
