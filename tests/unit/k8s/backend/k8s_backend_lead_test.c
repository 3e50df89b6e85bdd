/* The core's backend for a cluster, on a small server in memory: what a leader
 * finds when it begins, in this process or in the next one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "tests/support/k8s/cluster_rig.h"
#include "tests/support/stores/model_store.h"

#define KIND WP_KIND_SANDBOX

static struct wp_cluster_rig rig;

/* --- Leading --- */

static void
nothing(void *ctx)
{
    (void)ctx;
}

static void
a_follower_writes_nothing(void **state)
{
    (void)state;
    wp_cluster_rig_init(&rig, 3, NULL);
    wp_cluster_rig_put_foreign(&rig, "p-x7k2q");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_WRITES, KIND), 0);
    assert_int_equal(wp_cluster_rig_stats(&rig).created_total, 0);
    wp_cluster_rig_fini(&rig);
}

static void
what_others_made_is_taken_in(void **state)
{
    struct wp_claim held;

    (void)state;
    wp_cluster_rig_init(&rig, 2, NULL);
    wp_cluster_rig_put_foreign(&rig, "p-x7k2q");
    wp_recorder_notify(rig.api);
    wp_cluster_rig_lead(&rig);
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).found, 1);
    /* And one that comes later, beyond the target. */
    wp_cluster_rig_all_ready(&rig);
    wp_cluster_rig_put_foreign(&rig, "p-abcde");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).found, 2);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "a", "t"), WP_OK);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "b", "t"), WP_OK);
    wp_cluster_rig_settle(&rig);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 2);
    assert_int_equal(wp_cluster_rig_objects(&rig), 4);
    wp_cluster_rig_fini(&rig);
}

static void
sandboxes_of_a_pool_that_is_heard_of_later_are_taken_in(void **state)
{
    (void)state;
    wp_cluster_rig_init(&rig, 1, NULL);
    rig.control_full = true;
    wp_cluster_rig_put_foreign(&rig, "p-x7k2q");
    wp_recorder_notify(rig.api);
    wp_cluster_rig_lead(&rig);
    assert_int_equal(rig.readied, 0);
    rig.control_full = false;
    for (int i = 0; i < 100000 && rig.readied == 0; i++) {
        wp_cluster_rig_settle(&rig);
    }
    for (int i = 0; i < 100000 && wp_cluster_rig_backend_stats(&rig).known == 0;
         i++) {
        wp_cluster_rig_settle(&rig);
    }
    assert_int_equal(wp_cluster_rig_objects(&rig), 1);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).found, 1);
    wp_cluster_rig_fini(&rig);
}

static void
a_change_of_leaders_and_back_loses_nothing(void **state)
{
    const char *name;

    (void)state;
    wp_cluster_rig_start(&rig, 2);
    wp_cluster_rig_all_ready(&rig);
    wp_cluster_rig_follow(&rig);
    name = wp_cluster_rig_name(&rig, 0);
    wp_recorder_remove(rig.api, KIND, "ns", name);
    wp_cluster_rig_put_foreign(&rig, "p-x7k2q");
    wp_cluster_rig_ready(&rig, "p-x7k2q", "10.0.0.9");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 2);
    wp_cluster_rig_lead(&rig);
    assert_int_equal(rig.readied, 2);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 2);
    assert_int_equal(wp_cluster_rig_stats(&rig).lost_total, 1);
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
    wp_cluster_rig_fini(&rig);
}

/* Another leader has had it meanwhile: nobody is offered it here. */
static void
what_was_taken_meanwhile_is_not_offered(void **state)
{
    struct wp_claim held;

    (void)state;
    wp_cluster_rig_start(&rig, 1);
    wp_cluster_rig_all_ready(&rig);
    wp_cluster_rig_follow(&rig);
    wp_cluster_rig_take_away(&rig, wp_cluster_rig_name(&rig, 0));
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 1);
    rig.parts.active = true;
    wp_cluster_backend_activate(rig.backend, nothing, NULL);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 0);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "a", "t"),
                     WP_RESOURCE_EXHAUSTED);
    wp_cluster_rig_fini(&rig);
}

/* --- A restart with a store that keeps records --- */

static bool records_are_there;

static bool
has_records(void *ctx)
{
    (void)ctx;
    return records_are_there;
}

static void
run_parts(void)
{
    for (int part = 0; part < WP_CLUSTER_RIG_PARTS; part++) {
        wp_cluster_rig_run(&rig, (enum wp_cluster_rig_part)part);
    }
    (void)usleep(1000);
}

/* A store may tell of a pool's records long after the pool came: until then
 * nobody is taken for unknown, and no lease for one of a sandbox that is gone.
 */
static void
records_that_come_late_are_waited_for(void **state)
{
    static struct wp_model_store store;
    static struct wp_cluster_rig before;
    struct wp_lease_store port;
    struct wp_claim_info info;
    struct wp_claim held;

    (void)state;
    wp_model_init(&store, false);
    port = wp_model_port(&store, 0);
    wp_cluster_rig_init(&rig, 1, &port);
    wp_cluster_rig_lead(&rig);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "kept", ""), WP_OK);
    wp_cluster_rig_settle(&rig);
    wp_cluster_rig_all_ready(&rig);
    before = rig;
    wp_cluster_rig_init(&rig, 1, &port);
    for (uint32_t i = 0; i < 2; i++) {
        char *text = json_dumps(wp_recorder_object_at(before.api, KIND, i), 0);

        (void)wp_recorder_put(rig.api, KIND, text);
        free(text);
    }
    wp_recorder_notify(rig.api);
    records_are_there = false;
    rig.parts.core.has_records = has_records;
    wp_cluster_rig_begin_to_lead(&rig);
    for (int i = 0; i < 50; i++) {
        run_parts();
    }
    assert_int_equal(rig.readied, 0);
    wp_model_load(&store, rig.pools);
    records_are_there = true;
    for (int i = 0; rig.readied == 0; i++) {
        assert_true(i < 60000);
        run_parts();
    }
    wp_cluster_rig_settle(&rig);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_pools_get(rig.pools, WP_STR(""), WP_STR("kept"), &info),
                     WP_OK);
    assert_string_equal(info.sandbox, held.grant.sandbox);
    assert_int_equal(wp_cluster_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).lost_total, 0);
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
    wp_cluster_rig_fini(&rig);
    rig = before;
    wp_cluster_rig_fini(&rig);
}

static void
records_and_objects_find_each_other_again(void **state)
{
    static struct wp_model_store store;
    static struct wp_cluster_rig before;
    struct wp_lease_store port;
    struct wp_claim_info info;
    struct wp_claim held;
    bool skipped = false;
    const char *name;

    (void)state;
    wp_model_init(&store, false);
    port = wp_model_port(&store, 0);
    wp_cluster_rig_init(&rig, 2, &port);
    wp_cluster_rig_lead(&rig);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "kept", ""), WP_OK);
    wp_cluster_rig_settle(&rig);
    wp_cluster_rig_all_ready(&rig);
    name = held.grant.sandbox;
    assert_int_equal(wp_cluster_rig_objects(&rig), 3);
    before = rig;
    /* The next process: the same objects and records. One idle sandbox is
     * deleted meanwhile. */
    wp_cluster_rig_init(&rig, 2, &port);
    for (uint32_t i = 0; i < 3; i++) {
        const json_t *object = wp_recorder_object_at(before.api, KIND, i);
        char *text = json_dumps(object, 0);

        /* The first idle one is not put. */
        if (skipped ||
            strcmp(wp_json_text(object, "metadata", "name", NULL), name) == 0) {
            (void)wp_recorder_put(rig.api, KIND, text);
        } else {
            skipped = true;
        }
        free(text);
    }
    wp_recorder_notify(rig.api);
    rig.messages[0].run(rig.messages[0].arg, 0, 0); /* The pools. */
    rig.n_messages = 0;
    wp_model_load(&store, rig.pools);
    assert_int_equal(wp_pools_records_refused(rig.pools), 0);
    wp_cluster_rig_lead(&rig);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_pools_get(rig.pools, WP_STR(""), WP_STR("kept"), &info),
                     WP_OK);
    assert_false(info.lost);
    assert_string_equal(info.sandbox, name);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 2);
    assert_int_equal(wp_cluster_rig_objects(&rig), 3);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, KIND), 0);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_DELETE, KIND), 0);
    wp_pools_end(rig.pools, info.ref);
    wp_cluster_rig_settle(&rig);
    assert_null(wp_recorder_object(rig.api, KIND, "ns", name));
    wp_cluster_rig_fini(&rig);
    rig = before;
    wp_cluster_rig_fini(&rig);
}

/* The next leader's watch lags behind: it has not told of the sandboxes that
 * the records are of. They are there, the lease lives, and nothing is ended;
 * what is gone is lost all the same. The list that shows it may fail first. */
static void
nothing_is_lost_that_the_watch_has_not_told_of(void **state)
{
    static struct wp_model_store store;
    static struct wp_cluster_rig before;
    struct wp_lease_store port;
    struct wp_claim_info info;
    struct wp_claim held;
    struct wp_claim gone;

    (void)state;
    wp_model_init(&store, false);
    port = wp_model_port(&store, 0);
    wp_cluster_rig_init(&rig, 2, &port);
    wp_cluster_rig_lead(&rig);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "kept", ""), WP_OK);
    assert_int_equal(wp_cluster_rig_claim(&rig, &gone, "gone", ""), WP_OK);
    wp_cluster_rig_settle(&rig);
    before = rig;
    wp_cluster_rig_init(&rig, 2, &port);
    wp_recorder_hold(rig.api, true);
    for (uint32_t i = 0; i < wp_recorder_objects(before.api, KIND); i++) {
        const json_t *object = wp_recorder_object_at(before.api, KIND, i);
        char *text = json_dumps(object, 0);

        if (strcmp(wp_json_text(object, "metadata", "name", NULL),
                   gone.grant.sandbox) != 0) {
            (void)wp_recorder_put(rig.api, KIND, text);
        }
        free(text);
    }
    rig.messages[0].run(rig.messages[0].arg, 0, 0); /* The pools. */
    rig.n_messages = 0;
    wp_model_load(&store, rig.pools);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_LIST,
                                                 .kind = KIND,
                                                 .status = WP_UNAVAILABLE});
    rig.parts.active = true;
    wp_cluster_backend_activate(rig.backend, nothing, NULL);
    for (int i = 0; i < 1000 && wp_recorder_planned(rig.api) > 0; i++) {
        wp_cluster_rig_settle(&rig);
    }
    assert_int_equal(wp_cluster_rig_stats(&rig).lost_total, 0);
    wp_cluster_backend_deactivate(rig.backend);
    wp_cluster_rig_lead(&rig);
    assert_int_equal(wp_pools_get(rig.pools, WP_STR(""), WP_STR("kept"), &info),
                     WP_OK);
    assert_false(info.lost);
    assert_string_equal(info.sandbox, held.grant.sandbox);
    assert_int_equal(wp_pools_get(rig.pools, WP_STR(""), WP_STR("gone"), &info),
                     WP_OK);
    assert_true(info.lost);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_DELETE, KIND), 0);
    wp_recorder_hold(rig.api, false);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_pools_get(rig.pools, WP_STR(""), WP_STR("kept"), &info),
                     WP_OK);
    assert_false(info.lost);
    wp_cluster_rig_fini(&rig);
    rig = before;
    wp_cluster_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_follower_writes_nothing),
        cmocka_unit_test(what_others_made_is_taken_in),
        cmocka_unit_test(
            sandboxes_of_a_pool_that_is_heard_of_later_are_taken_in),
        cmocka_unit_test(a_change_of_leaders_and_back_loses_nothing),
        cmocka_unit_test(what_was_taken_meanwhile_is_not_offered),
        cmocka_unit_test(records_and_objects_find_each_other_again),
        cmocka_unit_test(records_that_come_late_are_waited_for),
        cmocka_unit_test(nothing_is_lost_that_the_watch_has_not_told_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
