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

/* What goes, and what is no pool's and of no claim, is nothing to count. */
static void
what_goes_or_is_somebody_elses_is_not(void **state)
{
    struct wp_cluster_backend_stats stats;

    (void)state;
    wp_cluster_rig_init(&rig, 1, NULL);
    wp_cluster_rig_put_foreign(&rig, "p-x7k2q");
    (void)wp_recorder_merge(
        rig.api, KIND, "ns", "p-x7k2q",
        "{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\","
        "\"finalizers\":[\"x/y\"]}}");
    (void)wp_recorder_put(
        rig.api, KIND,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"users\",\"uid\":"
        "\"0a1b2c3d-0000-4000-8000-0000000000aa\"},\"spec\":{}}");
    wp_recorder_notify(rig.api);
    wp_cluster_rig_begin_to_lead(&rig);
    for (int i = 0; i < 100000 && rig.readied == 0; i++) {
        wp_cluster_rig_settle(&rig);
    }
    stats = wp_cluster_rig_backend_stats(&rig);
    assert_int_equal(stats.found, 0);
    assert_int_equal(stats.known, 1);
    assert_int_equal(wp_cluster_rig_objects(&rig), 3);
    assert_int_equal(wp_cluster_rig_stats(&rig).created_total, 1);
    wp_cluster_rig_fini(&rig);
}

/* Each term ends before it was ready, at another moment: the last one counts
 * what is there once, and is the only one that was ever ready. */
static void
terms_that_end_before_they_were_ready(void **state)
{
    (void)state;
    wp_cluster_rig_init(&rig, 2, NULL);
    wp_cluster_rig_put_foreign(&rig, "p-x7k2q");
    wp_recorder_notify(rig.api);
    for (int parts = 0; parts < 6; parts++) {
        wp_cluster_rig_begin_to_lead(&rig);
        for (int i = 0; i < parts && rig.readied == 0; i++) {
            wp_cluster_rig_run(
                &rig, (enum wp_cluster_rig_part)(i % WP_CLUSTER_RIG_PARTS));
        }
        wp_cluster_rig_follow(&rig);
        wp_cluster_rig_follow(&rig); /* That it does not lead is no news. */
        wp_cluster_rig_settle(&rig);
        assert_int_equal(wp_cluster_rig_backend_stats(&rig).found, 0);
    }
    assert_int_equal(rig.readied, 0);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_WRITES, KIND), 0);
    wp_cluster_rig_begin_to_lead(&rig);
    for (int i = 0; i < 100000 && rig.readied == 0; i++) {
        wp_cluster_rig_settle(&rig);
    }
    wp_cluster_rig_settle(&rig);
    assert_int_equal(rig.readied, 1);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).found, 1);
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
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

static struct wp_model_store store;
static struct wp_lease_store port;
static struct wp_cluster_rig before; /* The process that is gone. */

static void
begin_with_records(int replicas)
{
    wp_model_init(&store, false);
    port = wp_model_port(&store, 0);
    wp_cluster_rig_init(&rig, replicas, &port);
    wp_cluster_rig_lead(&rig);
    wp_cluster_rig_all_ready(&rig);
}

/* Records and objects are the same, but for the Sandbox of this name. */
static void
begin_next_process(int replicas, const char *without, bool hold)
{
    before = rig;
    wp_cluster_rig_init(&rig, replicas, &port);
    wp_recorder_hold(rig.api, hold);
    for (uint32_t i = 0; i < wp_recorder_objects(before.api, KIND); i++) {
        const json_t *object = wp_recorder_object_at(before.api, KIND, i);
        char *text = json_dumps(object, 0);

        if (strcmp(wp_json_text(object, "metadata", "name", NULL), without) !=
            0) {
            (void)wp_recorder_put(rig.api, KIND, text);
        }
        free(text);
    }
    wp_recorder_notify(rig.api);
}

static void
read_records(void)
{
    rig.messages[0].run(rig.messages[0].arg, 0, 0); /* The pools. */
    rig.n_messages = 0;
    wp_model_load(&store, rig.pools);
    assert_int_equal(wp_pools_records_refused(rig.pools), 0);
}

static void
end_both(void)
{
    wp_cluster_rig_fini(&rig);
    rig = before;
    wp_cluster_rig_fini(&rig);
}

static const char *
any_idle(const char *held)
{
    uint32_t i = 0;

    while (strcmp(wp_cluster_rig_name(&rig, i), held) == 0) {
        i++;
    }
    return wp_cluster_rig_name(&rig, i);
}

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
    struct wp_claim_info info;
    struct wp_claim held;

    (void)state;
    begin_with_records(1);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "kept", ""), WP_OK);
    wp_cluster_rig_settle(&rig);
    wp_cluster_rig_all_ready(&rig);
    begin_next_process(1, "", false);
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
    end_both();
}

/* A pool that comes back after a new leader has counted the sandboxes: its
 * records are read then, and its leases live on where their sandboxes do. */
static void
leases_of_a_pool_that_comes_back_live_on(void **state)
{
    struct wp_claim_info info;
    struct wp_claim held;
    struct wp_claim gone;
    struct wp_cluster_rig_message pool;

    (void)state;
    begin_with_records(2);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "kept", ""), WP_OK);
    assert_int_equal(wp_cluster_rig_claim(&rig, &gone, "gone", ""), WP_OK);
    wp_cluster_rig_settle(&rig);
    wp_cluster_rig_all_ready(&rig);
    begin_next_process(2, gone.grant.sandbox, false);
    pool = rig.messages[0];
    rig.n_messages = 0;
    wp_cluster_rig_lead(&rig);
    assert_int_equal(rig.readied, 1);
    assert_int_equal(wp_pools_count(rig.pools), 0);
    pool.run(pool.arg, 0, 0);
    wp_model_load(&store, rig.pools);
    wp_pools_sync_end(rig.pools, 0);
    wp_cluster_rig_settle(&rig);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_pools_get(rig.pools, WP_STR(""), WP_STR("kept"), &info),
                     WP_OK);
    assert_false(info.lost);
    assert_string_equal(info.sandbox, held.grant.sandbox);
    wp_pools_end(rig.pools, info.ref);
    wp_cluster_rig_settle(&rig);
    assert_null(wp_recorder_object(rig.api, KIND, "ns", held.grant.sandbox));
    assert_int_equal(wp_pools_get(rig.pools, WP_STR(""), WP_STR("gone"), &info),
                     WP_OK);
    assert_true(info.lost);
    end_both();
}

static void
records_and_objects_find_each_other_again(void **state)
{
    struct wp_claim_info info;
    struct wp_claim held;
    const char *name = held.grant.sandbox;

    (void)state;
    begin_with_records(2);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "kept", ""), WP_OK);
    wp_cluster_rig_settle(&rig);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_objects(&rig), 3);
    /* One idle sandbox is deleted meanwhile. */
    begin_next_process(2, any_idle(name), false);
    read_records();
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
    end_both();
}

/* The next leader's watch lags behind: it has not told of the sandboxes that
 * the records are of. They are there, the lease lives, and nothing is ended;
 * what is gone is lost all the same. The list that shows it may fail first. */
static void
nothing_is_lost_that_the_watch_has_not_told_of(void **state)
{
    struct wp_claim_info info;
    struct wp_claim held;
    struct wp_claim gone;

    (void)state;
    begin_with_records(2);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "kept", ""), WP_OK);
    assert_int_equal(wp_cluster_rig_claim(&rig, &gone, "gone", ""), WP_OK);
    wp_cluster_rig_settle(&rig);
    begin_next_process(2, gone.grant.sandbox, true);
    read_records();
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
    end_both();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_follower_writes_nothing),
        cmocka_unit_test(what_others_made_is_taken_in),
        cmocka_unit_test(what_goes_or_is_somebody_elses_is_not),
        cmocka_unit_test(terms_that_end_before_they_were_ready),
        cmocka_unit_test(
            sandboxes_of_a_pool_that_is_heard_of_later_are_taken_in),
        cmocka_unit_test(a_change_of_leaders_and_back_loses_nothing),
        cmocka_unit_test(what_was_taken_meanwhile_is_not_offered),
        cmocka_unit_test(records_and_objects_find_each_other_again),
        cmocka_unit_test(records_that_come_late_are_waited_for),
        cmocka_unit_test(leases_of_a_pool_that_comes_back_live_on),
        cmocka_unit_test(nothing_is_lost_that_the_watch_has_not_told_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
