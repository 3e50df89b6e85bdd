/* The pool controller: sandboxes that nobody owns, or whose pool has gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/objects/json.h"
#include "tests/support/k8s/k8s_text.h"
#include "tests/support/k8s/warm_pool_rig.h"

/* --- Orphans, labels --- */

#define BYSTANDER                                                              \
    "{'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': 'm', 'uid': 'm'}"

static void
orphans_are_taken_in(void **state)
{
    struct warm_pool_rig rig;
    const json_t *made;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 3, "OnReplenish");
    warm_pool_rig_put_sandbox(&rig,
                              &(struct warm_pool_sandbox){.name = "p-1",
                                                          .owners = BYSTANDER,
                                                          .launch = "cold",
                                                          .is_ready = true});
    warm_pool_rig_put_sandbox(
        &rig,
        &(struct warm_pool_sandbox){.name = "p-2", .owners = "", .image = "b"});
    warm_pool_rig_put_sandbox(
        &rig, &(struct warm_pool_sandbox){.name = "p-3",
                                          .owners = WARM_POOL_CLAIMED});
    warm_pool_rig_activate(&rig);
    made = warm_pool_rig_sandbox(&rig, "p-1");
    wp_test_json_equal(
        json_deep_copy(wp_json_at(made, "metadata", "ownerReferences", NULL)),
        "[" BYSTANDER ", {'apiVersion': 'extensions.agents.x-k8s.io/v1beta1', "
        "'kind': 'SandboxWarmPool', 'name': 'p', 'uid': 'pool-uid', "
        "'controller': true, 'blockOwnerDeletion': true}]");
    assert_string_equal(
        wp_json_text(made, "metadata", "labels", WP_LABEL_LAUNCH_TYPE, NULL),
        "warm");
    assert_null(warm_pool_rig_sandbox(&rig, "p-2")); /* Stale. */
    assert_string_equal(
        wp_recorder_last(rig.api, WP_VERB_DELETE, WP_KIND_SANDBOX)->name,
        "p-2");
    assert_string_not_equal(
        wp_recorder_last(rig.api, WP_VERB_DELETE, WP_KIND_SANDBOX)
            ->resource_version,
        "");
    assert_int_equal(warm_pool_rig_sandbox_writes(&rig), 2); /* Not p-3. */
    warm_pool_rig_advance(&rig, WP_NS_PER_S);
    assert_int_equal(warm_pool_rig_status(&rig, "replicas"), 1);
    assert_int_equal(warm_pool_rig_sandbox_writes(&rig), 2);
    warm_pool_rig_fini(&rig);
}

/* As the API server has it when nobody ever controlled it. */
static void
orphan_without_a_list(void **state)
{
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 1, "OnReplenish");
    warm_pool_rig_put_sandbox(&rig, &(struct warm_pool_sandbox){
                                        .name = "p-1", .without_owners = true});
    assert_null(wp_json_at(warm_pool_rig_sandbox(&rig, "p-1"), "metadata",
                           "ownerReferences", NULL));
    warm_pool_rig_activate(&rig);
    wp_test_json_equal(
        json_deep_copy(wp_json_at(warm_pool_rig_sandbox(&rig, "p-1"),
                                  "metadata", "ownerReferences", NULL)),
        "[{'apiVersion': 'extensions.agents.x-k8s.io/v1beta1', "
        "'kind': 'SandboxWarmPool', 'name': 'p', 'uid': 'pool-uid', "
        "'controller': true, 'blockOwnerDeletion': true}]");
    assert_int_equal(warm_pool_rig_sandbox_writes(&rig), 1);
    assert_int_equal(warm_pool_rig_status(&rig, "replicas"), 1);
    warm_pool_rig_fini(&rig);
}

/* Somebody else was quicker: no failure, and decided anew. */
static void
orphan_that_changes(void **state)
{
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 1, "OnReplenish");
    warm_pool_rig_put_sandbox(
        &rig, &(struct warm_pool_sandbox){.name = "p-1", .owners = ""});
    wp_recorder_notify(rig.api);
    wp_recorder_hold(rig.api, true);
    warm_pool_rig_put_sandbox(
        &rig, &(struct warm_pool_sandbox){.name = "p-1",
                                          .owners = WARM_POOL_CLAIMED});
    warm_pool_rig_activate(&rig);
    wp_recorder_hold(rig.api, false);
    warm_pool_rig_advance(&rig, WP_NS_PER_S);
    assert_string_equal(
        json_string_value(json_object_get(
            json_array_get(wp_json_at(warm_pool_rig_sandbox(&rig, "p-1"),
                                      "metadata", "ownerReferences", NULL),
                           0),
            "kind")),
        "SandboxClaim");
    assert_int_equal(warm_pool_rig_sandbox_writes(&rig), 1);
    warm_pool_rig_fini(&rig);
}

static void
launch_type_is_put_right(void **state)
{
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 1, "OnReplenish");
    warm_pool_rig_put_sandbox(
        &rig, &(struct warm_pool_sandbox){.name = "p-1", .launch = ""});
    warm_pool_rig_activate(&rig);
    assert_string_equal(wp_json_text(warm_pool_rig_sandbox(&rig, "p-1"),
                                     "metadata", "labels", WP_LABEL_LAUNCH_TYPE,
                                     NULL),
                        "warm");
    assert_int_equal(warm_pool_rig_sandbox_writes(&rig), 1);
    assert_int_equal(warm_pool_rig_status(&rig, "replicas"), 1);
    warm_pool_rig_fini(&rig);
}

/* A thousand orphans are not a thousand calls at once; all get their turn. */
static void
many_orphans(void **state)
{
    struct warm_pool_rig rig;
    char name[16];

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 300, "OnReplenish");
    for (int i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof(name), "p-%d", i);
        warm_pool_rig_put_sandbox(
            &rig, &(struct warm_pool_sandbox){.name = name, .owners = ""});
    }
    wp_recorder_notify(rig.api);
    wp_pool_controller_ops.activate(rig.controller);
    assert_int_not_equal(event_base_loop(rig.parts.base, EVLOOP_NONBLOCK), -1);
    assert_in_range(wp_recorder_calls(rig.api), 100, 101);
    for (int i = 0; i < 10; i++) {
        warm_pool_rig_advance(&rig, WP_NS_PER_S);
    }
    assert_int_equal(warm_pool_rig_sandbox_writes(&rig), 300);
    assert_int_equal(warm_pool_rig_status(&rig, "replicas"), 300);
    warm_pool_rig_fini(&rig);
}

/* --- Pools that go --- */

static void
deleted_pool(void **state)
{
    for (int gc = 0; gc < 2; gc++) {
        struct warm_pool_rig rig;

        (void)state;
        warm_pool_rig_init(&rig, gc == 1);
        warm_pool_rig_put_template(&rig, "a");
        warm_pool_rig_put_pool(&rig, 2, "OnReplenish");
        warm_pool_rig_put_sandbox(&rig,
                                  &(struct warm_pool_sandbox){.name = "p-1"});
        warm_pool_rig_put_sandbox(&rig,
                                  &(struct warm_pool_sandbox){.name = "p-2"});
        warm_pool_rig_put_sandbox(
            &rig, &(struct warm_pool_sandbox){.name = "p-3",
                                              .owners = WARM_POOL_CLAIMED});
        (void)warm_pool_rig_know(&rig, "p-2", WP_SANDBOX_ADOPTED);
        warm_pool_rig_activate(&rig);
        wp_recorder_remove(rig.api, WP_KIND_SANDBOX_WARM_POOL, "default", "p");
        warm_pool_rig_advance(&rig, WP_NS_PER_S);
        assert_int_equal(warm_pool_rig_sandbox_writes(&rig), gc);
        assert_true((warm_pool_rig_sandbox(&rig, "p-1") == NULL) == (gc == 1));
        assert_non_null(warm_pool_rig_sandbox(&rig, "p-2"));
        assert_non_null(warm_pool_rig_sandbox(&rig, "p-3"));
        warm_pool_rig_fini(&rig);
    }
}

/* Of a pool that went while nobody led; one of its name is another pool. */
static void
ownerless_from_before(void **state)
{
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, true);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_sandbox(&rig, &(struct warm_pool_sandbox){.name = "p-1"});
    warm_pool_rig_put_sandbox(&rig, &(struct warm_pool_sandbox){.name = "p-2"});
    warm_pool_rig_activate(&rig);
    warm_pool_rig_advance(&rig, WP_NS_PER_S);
    assert_null(warm_pool_rig_sandbox(&rig, "p-1"));
    assert_null(warm_pool_rig_sandbox(&rig, "p-2"));
    warm_pool_rig_fini(&rig);
}

/* Goal: one look makes so many calls at most, and the rest follows by itself. */
static void
many_are_put_right_in_turn(void **state)
{
    struct warm_pool_rig rig;
    char name[16];
    uint64_t at_once;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 150, "OnReplenish");
    for (int i = 0; i < 150; i++) {
        (void)snprintf(name, sizeof name, "p-%d", i);
        warm_pool_rig_put_sandbox(
            &rig, &(struct warm_pool_sandbox){.name = name, .launch = ""});
    }
    warm_pool_rig_activate(&rig);
    at_once = wp_recorder_count(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX);
    assert_in_range(at_once, 100, 149);
    warm_pool_rig_advance(&rig, WP_NS_PER_S);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX),
                     150);
    warm_pool_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orphans_are_taken_in),
        cmocka_unit_test(orphan_without_a_list),
        cmocka_unit_test(orphan_that_changes),
        cmocka_unit_test(launch_type_is_put_right),
        cmocka_unit_test(many_are_put_right_in_turn),
        cmocka_unit_test(many_orphans),
        cmocka_unit_test(deleted_pool),
        cmocka_unit_test(ownerless_from_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
