/* The core's backend for a cluster, on a small server in memory: sandboxes that
 * become Ready, stop being it, and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <stdlib.h>
#include <stdio.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "tests/support/k8s/cluster_rig.h"

#define S WP_NS_PER_S
#define KIND WP_KIND_SANDBOX

static struct wp_cluster_rig rig;

static void
touch(const char *name, const char *status)
{
    static int times;
    char text[512];

    (void)snprintf(text, sizeof text,
                   "{\"status\":{\"nodeName\":\"n%d\",\"conditions\":[%s]}}",
                   ++times, status);
    (void)wp_recorder_merge(rig.api, KIND, "ns", name, text);
    wp_cluster_rig_settle(&rig);
}

#define NOT_READY                                                              \
    "{\"type\":\"Ready\",\"status\":\"False\",\"reason\":\"R\",\"message\":"   \
    "\"no image\"}"
#define NO_NODE                                                                \
    "{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"              \
    "\"Unschedulable\",\"message\":\"\"}"

/* --- Readiness --- */

static void
one_that_is_not_ready_any_more_is_replaced(void **state)
{
    const char *name;

    (void)state;
    wp_cluster_rig_start(&rig, 1);
    wp_cluster_rig_all_ready(&rig);
    name = wp_cluster_rig_name(&rig, 0);
    wp_cluster_rig_ready(&rig, name, "");
    wp_cluster_rig_settle(&rig);
    assert_null(wp_recorder_object(rig.api, KIND, "ns", name));
    assert_int_equal(wp_cluster_rig_objects(&rig), 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).retired_total, 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).lost_total, 0);
    wp_cluster_rig_fini(&rig);
}

static void
a_leased_one_that_is_not_ready_any_more_stays(void **state)
{
    struct wp_claim held;

    (void)state;
    wp_cluster_rig_start(&rig, 1);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "a", "t"), WP_OK);
    wp_cluster_rig_settle(&rig);
    wp_cluster_rig_ready(&rig, held.grant.sandbox, "");
    wp_cluster_rig_settle(&rig);
    assert_non_null(
        wp_recorder_object(rig.api, KIND, "ns", held.grant.sandbox));
    assert_int_equal(wp_cluster_rig_stats(&rig).leased, 1);
    wp_cluster_rig_fini(&rig);
}

static void
one_that_is_not_ready_in_time_has_failed(void **state)
{
    (void)state;
    wp_cluster_rig_start(&rig, 1);
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 0);
    rig.offset_ns += 301 * S;
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 1);
    assert_string_equal(wp_cluster_rig_stats(&rig).last_failure,
                        "not ready in time: no image");
    assert_int_equal(wp_cluster_rig_objects(&rig), 1);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).deleted, 1);
    wp_cluster_rig_fini(&rig);
}

/* The pool's own annotation counts, for what is ordered from then on. */
static void
a_pool_says_how_long_that_is(void **state)
{
    (void)state;
    wp_cluster_rig_start(&rig, 0);
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p",
        "{\"metadata\": {\"annotations\": {\"pool.warmpool.io/ready-within\": "
        "\"40s\"}}, \"spec\": {\"replicas\": 1}}");
    wp_cluster_rig_settle(&rig);
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY);
    rig.offset_ns += 35 * S;
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 0);
    rig.offset_ns += 6 * S;
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 1);
    wp_cluster_rig_fini(&rig);
}

static void
its_time_ends_without_an_event_too(void **state)
{
    (void)state;
    wp_cluster_rig_init(&rig, 1, NULL);
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p",
        "{\"metadata\": {\"annotations\": {\"pool.warmpool.io/ready-within\": "
        "\"20ms\"}}}");
    wp_cluster_rig_lead(&rig);
    for (int i = 0; i < 100000 && wp_cluster_rig_stats(&rig).failed_total == 0;
         i++) {
        wp_cluster_rig_settle(&rig);
    }
    assert_true(wp_cluster_rig_stats(&rig).failed_total > 0);
    wp_cluster_rig_fini(&rig);
}

static void
one_that_no_node_takes_is_held(void **state)
{
    (void)state;
    wp_cluster_rig_start(&rig, 1);
    rig.offset_ns += 301 * S;
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY "," NO_NODE);
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY "," NO_NODE);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 0);
    rig.offset_ns += 200 * S;
    /* A node has taken it: its time begins. */
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY);
    rig.offset_ns += 150 * S;
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 0);
    rig.offset_ns += 151 * S;
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 1);
    wp_cluster_rig_fini(&rig);
}

/* --- Ends --- */

static void
one_that_is_deleted_from_outside_is_replaced(void **state)
{
    (void)state;
    wp_cluster_rig_start(&rig, 2);
    wp_cluster_rig_all_ready(&rig);
    wp_recorder_remove(rig.api, KIND, "ns", wp_cluster_rig_name(&rig, 0));
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
    assert_int_equal(wp_cluster_rig_stats(&rig).lost_total, 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).dying, 0);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).deleted, 0);
    wp_cluster_rig_fini(&rig);
}

static void
a_finished_one_under_a_lease_is_lost_until_that_ends(void **state)
{
    struct wp_claim_info info;
    struct wp_claim held;

    (void)state;
    wp_cluster_rig_start(&rig, 1);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "a", "t"), WP_OK);
    wp_cluster_rig_settle(&rig);
    touch(held.grant.sandbox,
          "{\"type\":\"Finished\",\"status\":\"True\",\"reason\":"
          "\"PodFailed\",\"message\":\"\"}");
    assert_int_equal(wp_pools_get(rig.pools, WP_STR("t"), WP_STR("a"), &info),
                     WP_OK);
    assert_true(info.lost);
    assert_string_equal(info.lost_reason, "PodFailed");
    wp_pools_end(rig.pools, info.ref);
    wp_cluster_rig_settle(&rig);
    assert_null(wp_recorder_object(rig.api, KIND, "ns", held.grant.sandbox));
    wp_cluster_rig_fini(&rig);
}

static void
scaling_down_deletes_what_it_knows(void **state)
{
    (void)state;
    wp_cluster_rig_start(&rig, 3);
    wp_cluster_rig_all_ready(&rig);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_DELETE,
                                                 .kind = KIND,
                                                 .status = WP_UNAVAILABLE});
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_DELETE,
                                                 .kind = KIND,
                                                 .status = WP_UNKNOWN_OUTCOME,
                                                 .effect = true});
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p",
                            "{\"spec\":{\"replicas\":1}}");
    for (int i = 0; i < 100000 && wp_cluster_rig_backend_stats(&rig).known > 1;
         i++) {
        wp_cluster_rig_settle(&rig);
    }
    assert_int_equal(wp_cluster_rig_objects(&rig), 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).dying, 0);
    assert_true(wp_recorder_last(rig.api, WP_VERB_DELETE, KIND)->uid[0] !=
                '\0');
    assert_true(
        wp_recorder_last(rig.api, WP_VERB_DELETE, KIND)->resource_version[0] !=
        '\0');
    wp_cluster_rig_fini(&rig);
}

/* Somebody else has deleted it, and the watch is late. */
static void
one_that_is_gone_already_needs_no_watch_to_tell(void **state)
{
    (void)state;
    wp_cluster_rig_start(&rig, 1);
    wp_cluster_rig_all_ready(&rig);
    wp_recorder_hold(rig.api, true);
    wp_recorder_remove(rig.api, KIND, "ns", wp_cluster_rig_name(&rig, 0));
    wp_pools_set_target(rig.pools, 0, 0, NULL);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_DELETE, KIND), 1);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).known, 0);
    assert_int_equal(wp_cluster_rig_stats(&rig).dying, 0);
    wp_recorder_hold(rig.api, false);
    wp_cluster_rig_fini(&rig);
}

static void
scaling_to_nothing_deletes_what_no_node_takes(void **state)
{
    (void)state;
    wp_cluster_rig_start(&rig, 2);
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY "," NO_NODE);
    rig.offset_ns += 301 * S;
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY "," NO_NODE);
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p",
                            "{\"spec\":{\"replicas\":0}}");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_objects(&rig), 0);
    assert_int_equal(wp_cluster_rig_stats(&rig).dying, 0);
    wp_cluster_rig_fini(&rig);
}

static void
one_that_another_controller_takes_is_left_alone(void **state)
{
    const char *name;

    (void)state;
    wp_cluster_rig_start(&rig, 1);
    wp_cluster_rig_all_ready(&rig);
    name = wp_cluster_rig_name(&rig, 0);
    wp_cluster_rig_take_away(&rig, name);
    wp_cluster_rig_settle(&rig);
    assert_non_null(wp_recorder_object(rig.api, KIND, "ns", name));
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).taken, 1);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_DELETE, KIND), 0);
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
    wp_cluster_rig_fini(&rig);
}

static void
one_that_is_taken_as_it_is_deleted_is_left_alone(void **state)
{
    const char *name;

    (void)state;
    wp_cluster_rig_start(&rig, 1);
    wp_cluster_rig_all_ready(&rig);
    name = wp_cluster_rig_name(&rig, 0);
    /* The watch is late: the DELETE goes out for the version that was. */
    wp_recorder_hold(rig.api, true);
    wp_cluster_rig_take_away(&rig, name);
    wp_pools_set_target(rig.pools, 0, 0, NULL);
    wp_cluster_rig_settle(&rig);
    assert_true(wp_recorder_count(rig.api, WP_VERB_DELETE, KIND) > 0);
    wp_recorder_hold(rig.api, false);
    wp_cluster_rig_settle(&rig);
    for (int i = 0; i < 100000 && wp_cluster_rig_backend_stats(&rig).known > 0;
         i++) {
        wp_cluster_rig_settle(&rig);
    }
    assert_non_null(wp_recorder_object(rig.api, KIND, "ns", name));
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).taken, 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).dying, 0);
    wp_cluster_rig_fini(&rig);
}

/* Somebody takes the pool's label away: at once it is nobody's to have, another
 * one takes its place, and it is left alone. */
static void
one_without_its_label_is_out_of_the_pool(void **state)
{
    struct wp_claim claim;
    char name[WP_SANDBOX_NAME_MAX + 1];

    (void)state;
    wp_cluster_rig_start(&rig, 1);
    wp_cluster_rig_all_ready(&rig);
    (void)snprintf(name, sizeof name, "%s", wp_cluster_rig_name(&rig, 0));
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX, "ns", name,
                            "{\"metadata\":{\"labels\":{"
                            "\"agents.x-k8s.io/warm-pool-sandbox\":null}}}");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 0);
    assert_int_equal(wp_cluster_rig_stats(&rig).warming, 1);
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_claim(&rig, &claim, "a", "t"), WP_OK);
    assert_string_not_equal(claim.grant.sandbox, name);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(
        wp_recorder_count(rig.api, WP_VERB_DELETE, WP_KIND_SANDBOX), 0);
    wp_cluster_rig_fini(&rig);
}

/* Its owner goes and, after some steps of the order's, comes back. */
static void
lose_and_have_back(const char *name, int order, int steps, int back_at)
{
    json_t *owners =
        json_deep_copy(wp_json_at(wp_recorder_object(rig.api, KIND, "ns", name),
                                  "metadata", "ownerReferences", NULL));
    char *text = json_dumps(owners, 0);
    char back[1024];

    (void)snprintf(back, sizeof back, "{\"metadata\":{\"ownerReferences\":%s}}",
                   text);
    (void)wp_recorder_merge(rig.api, KIND, "ns", name,
                            "{\"metadata\":{\"ownerReferences\":[]}}");
    for (int i = 0; i < steps; i++, order /= WP_CLUSTER_RIG_PARTS) {
        if (i == back_at) {
            (void)wp_recorder_merge(rig.api, KIND, "ns", name, back);
        }
        wp_cluster_rig_run(
            &rig, (enum wp_cluster_rig_part)(order % WP_CLUSTER_RIG_PARTS));
    }
    free(text);
    json_decref(owners);
}

/* Whatever was done of it until it came back, and in which order then: the core
 * knows it again, and one too many is given up. */
static void
one_that_comes_back_is_the_pools_again(void **state)
{
    enum {
        STEPS = 6,
        ORDERS = 729
    };

    (void)state;
    for (int i = 0; i < ORDERS * STEPS; i++) {
        char name[WP_SANDBOX_NAME_MAX + 1];

        wp_cluster_rig_start(&rig, 1);
        wp_cluster_rig_all_ready(&rig);
        (void)snprintf(name, sizeof name, "%s", wp_cluster_rig_name(&rig, 0));
        lose_and_have_back(name, i / STEPS, STEPS, i % STEPS);
        wp_cluster_rig_settle(&rig);
        wp_cluster_rig_all_ready(&rig);
        wp_cluster_rig_pass(&rig, 2 * S);
        if (wp_cluster_rig_objects(&rig) != 1 ||
            wp_cluster_rig_stats(&rig).ready != 1) {
            fail_msg("order %d, back at %d: %u sandboxes, %u ready", i / STEPS,
                     i % STEPS, wp_cluster_rig_objects(&rig),
                     wp_cluster_rig_stats(&rig).ready);
        }
        wp_cluster_rig_fini(&rig);
    }
}

/* The pool is deleted and made again, whether both is told or only the second:
 * what the first one had, from another template perhaps, is not handed out. */
static void
a_pool_made_anew_has_nothing_of_the_old_one(void **state)
{
    (void)state;
    for (int told = 0; told < 2; told++) {
        char name[WP_SANDBOX_NAME_MAX + 1];
        const json_t *made;
        json_t *pool;
        char *text;

        wp_cluster_rig_start(&rig, 1);
        wp_cluster_rig_all_ready(&rig);
        (void)snprintf(name, sizeof name, "%s", wp_cluster_rig_name(&rig, 0));
        pool = json_deep_copy(
            wp_recorder_object(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p"));
        (void)json_object_del(json_object_get(pool, "metadata"),
                              "resourceVersion");
        wp_json_set_text(json_object_get(pool, "metadata"), "uid",
                         "0a1b2c3d-0000-4000-8000-0000000000ff");
        text = json_dumps(pool, 0);
        assert_non_null(text);
        if (told == 1) {
            wp_recorder_remove(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p");
        }
        (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_WARM_POOL, text);
        wp_cluster_rig_settle(&rig);
        assert_int_equal(wp_cluster_rig_stats(&rig).ready, 0);
        assert_int_equal(wp_cluster_rig_stats(&rig).warming, 1);
        wp_cluster_rig_all_ready(&rig);
        for (uint32_t i = 0; i < wp_cluster_rig_objects(&rig); i++) {
            made = wp_recorder_object_at(rig.api, WP_KIND_SANDBOX, i);
            if (strcmp(wp_json_text(made, "metadata", "name", NULL), name) !=
                0) {
                assert_string_equal(
                    wp_json_text(
                        json_array_get(wp_json_at(made, "metadata",
                                                  "ownerReferences", NULL),
                                       0),
                        "uid", NULL),
                    "0a1b2c3d-0000-4000-8000-0000000000ff");
            }
        }
        assert_int_equal(wp_cluster_rig_stats(&rig).ready, 1);
        free(text);
        json_decref(pool);
        wp_cluster_rig_fini(&rig);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_not_ready_any_more_is_replaced),
        cmocka_unit_test(a_leased_one_that_is_not_ready_any_more_stays),
        cmocka_unit_test(one_that_is_not_ready_in_time_has_failed),
        cmocka_unit_test(a_pool_says_how_long_that_is),
        cmocka_unit_test(its_time_ends_without_an_event_too),
        cmocka_unit_test(one_that_no_node_takes_is_held),
        cmocka_unit_test(one_that_is_deleted_from_outside_is_replaced),
        cmocka_unit_test(a_finished_one_under_a_lease_is_lost_until_that_ends),
        cmocka_unit_test(scaling_down_deletes_what_it_knows),
        cmocka_unit_test(one_that_is_gone_already_needs_no_watch_to_tell),
        cmocka_unit_test(scaling_to_nothing_deletes_what_no_node_takes),
        cmocka_unit_test(one_that_another_controller_takes_is_left_alone),
        cmocka_unit_test(one_that_is_taken_as_it_is_deleted_is_left_alone),
        cmocka_unit_test(one_without_its_label_is_out_of_the_pool),
        cmocka_unit_test(one_that_comes_back_is_the_pools_again),
        cmocka_unit_test(a_pool_made_anew_has_nothing_of_the_old_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
