/* The pool controller: what it tells people of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/controllers/verdicts.h"
#include "tests/support/k8s/warm_pool_rig.h"

static const char *
last_event(struct warm_pool_rig *rig)
{
    const struct wp_recorded *call =
        wp_recorder_last(rig->api, WP_VERB_POST, WP_KIND_EVENT);

    return call == NULL ? "" : wp_recorded_text(call, "reason", NULL);
}

static const char *
last_note(struct warm_pool_rig *rig)
{
    return wp_recorded_text(
        wp_recorder_last(rig->api, WP_VERB_POST, WP_KIND_EVENT), "note", NULL);
}

static uint32_t
events(struct warm_pool_rig *rig)
{
    return wp_recorder_count(rig->api, WP_VERB_POST, WP_KIND_EVENT);
}

/* One that finds no room is kept; said once, after the grace. */
static void
unschedulable_is_told(void **state)
{
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 1, "OnReplenish");
    warm_pool_rig_put_sandbox(&rig, &(struct warm_pool_sandbox){
                                        .name = "p-1", .unschedulable = true});
    warm_pool_rig_activate(&rig);
    warm_pool_rig_advance(&rig, WARM_POOL_GRACE_NS - 10 * WP_NS_PER_S);
    assert_int_equal(events(&rig), 0);
    /* Nothing changes in the cluster: the time alone brings it. */
    warm_pool_rig_advance(&rig, 20 * WP_NS_PER_S);
    assert_string_equal(last_event(&rig), "WarmPoolNotProgressing");
    for (int i = 0; i < 10; i++) {
        warm_pool_rig_advance(&rig, 61 * WP_NS_PER_S);
    }
    assert_int_equal(events(&rig), 1);
    assert_int_equal(warm_pool_rig_status(&rig, "replicas"), 1);
    warm_pool_rig_put_sandbox(
        &rig, &(struct warm_pool_sandbox){.name = "p-1", .is_ready = true});
    warm_pool_rig_advance(&rig, WP_NS_PER_S);
    assert_string_equal(last_event(&rig), "WarmPoolProgressing");
    assert_int_equal(events(&rig), 2);
    warm_pool_rig_fini(&rig);
}

static void
missing_template_is_told(void **state)
{
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_pool(&rig, 0, "OnReplenish");
    warm_pool_rig_activate(&rig);
    assert_int_equal(events(&rig), 0); /* It wants none. */
    warm_pool_rig_put_pool(&rig, 1, "OnReplenish");
    warm_pool_rig_settle(&rig);
    assert_string_equal(last_event(&rig), "WarmPoolNotProgressing");
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_settle(&rig);
    assert_string_equal(last_event(&rig), "WarmPoolProgressing");
    assert_int_equal(events(&rig), 2);
    warm_pool_rig_fini(&rig);
}

/* No Pod of its template can start: each mistake is told once, unless the pool
 * wants none. */
static void
refused_template_is_told(void **state)
{
    struct warm_pool_rig rig;
    const struct wp_object *template_;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 0, "OnReplenish");
    warm_pool_rig_activate(&rig);
    template_ = wp_store_find(rig.parts.stores[WP_KIND_SANDBOX_TEMPLATE],
                              "default", "t");
    assert_true(wp_verdicts_set(rig.parts.verdicts, template_, "spec.a: no"));
    warm_pool_rig_settle(&rig);
    assert_int_equal(events(&rig), 0);
    warm_pool_rig_put_pool(&rig, 1, "OnReplenish");
    warm_pool_rig_advance(&rig, WP_NS_PER_S);
    assert_string_equal(last_event(&rig), "WarmPoolNotProgressing");
    assert_string_equal(last_note(&rig),
                        "The API server refuses every Pod of SandboxTemplate "
                        "\"t\": spec.a: no");
    warm_pool_rig_advance(&rig, 61 * WP_NS_PER_S);
    assert_int_equal(events(&rig), 1);
    assert_true(wp_verdicts_set(rig.parts.verdicts, template_, "spec.b: no"));
    warm_pool_rig_settle(&rig);
    assert_int_equal(events(&rig), 2);
    assert_non_null(strstr(last_note(&rig), "spec.b: no"));
    assert_true(wp_verdicts_set(rig.parts.verdicts, template_, NULL));
    warm_pool_rig_settle(&rig);
    assert_string_equal(last_event(&rig), "WarmPoolProgressing");
    assert_int_equal(events(&rig), 3);
    warm_pool_rig_fini(&rig);
}

/* What the core makes fails before there is an object: found out all the same,
 * and again when it goes well. */
static void
failing_is_told(void **state)
{
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 1, "OnReplenish");
    warm_pool_rig_activate(&rig);
    rig.core.backend.ready = WP_FAKE_READY_NEVER;
    rig.core.backend.create_status = WP_OK;
    for (int i = 0; i < 6; i++) {
        warm_pool_rig_advance(&rig, 61 * WP_NS_PER_S);
        (void)wp_fake_backend_fail(&rig.core.backend, 1, "quota exceeded");
        warm_pool_rig_advance(&rig, WP_NS_PER_S);
    }
    assert_true(wp_rig_stats(&rig.core).breaker_open);
    warm_pool_rig_advance(&rig, 6 * WP_NS_PER_S);
    assert_string_equal(last_event(&rig), "WarmPoolNotProgressing");
    assert_non_null(strstr(
        wp_recorded_text(wp_recorder_last(rig.api, WP_VERB_POST, WP_KIND_EVENT),
                         "note", NULL),
        "quota exceeded"));
    warm_pool_rig_fini(&rig);
}

static void
annotate(struct warm_pool_rig *rig, const char *key, const char *value)
{
    (void)wp_recorder_merge(
        rig->api, WP_KIND_SANDBOX_WARM_POOL, "default", "p",
        warm_pool_rig_text("{'metadata': {'annotations': {'%s%s': '%s'}}}",
                           WP_SCALE_GROUP, key, value));
    warm_pool_rig_advance(rig, WP_NS_PER_S);
}

/* Once for each mistake, whatever else happens to the pool; and when it is put
 * right. */
static void
bad_policy_is_told(void **state)
{
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 0, "OnReplenish");
    warm_pool_rig_activate(&rig);
    annotate(&rig, "objective", "99%");
    assert_int_equal(events(&rig), 0);
    annotate(&rig, "mim", "5");
    assert_string_equal(last_event(&rig), "InvalidPolicy");
    assert_string_equal(
        last_note(&rig),
        "annotations of autoscale.warmpool.io/: mim: unknown key; the nearest "
        "known one is min; all of them: warmpool-autoscale(7); the pool keeps "
        "what its annotations said before");
    annotate(&rig, "min", "5");
    warm_pool_rig_put_pool(&rig, 1, "Recreate");
    warm_pool_rig_advance(&rig, WP_NS_PER_S);
    assert_int_equal(events(&rig), 1);
    annotate(&rig, "objective", "always");
    assert_non_null(strstr(last_note(&rig), "objective: a share of claims"));
    assert_int_equal(events(&rig), 2);
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_WARM_POOL, "default", "p",
        warm_pool_rig_text(
            "{'metadata': {'annotations': {'%smim': null, '%sobjective': "
            "'99.9%%'}}}",
            WP_SCALE_GROUP, WP_SCALE_GROUP));
    warm_pool_rig_advance(&rig, WP_NS_PER_S);
    assert_string_equal(last_event(&rig), "PolicyAccepted");
    assert_int_equal(events(&rig), 3);
    warm_pool_rig_fini(&rig);
}

/* The core's pool has this policy and these replicas, and decides. */
static void
scale_core(struct warm_pool_rig *rig, uint32_t replicas, const char *resume)
{
    struct wp_pool_spec spec = wp_rig_stats(&rig->core).spec;
    struct wp_err err;

    wp_scale_policy_init(&spec.scale);
    assert_int_equal(wp_scale_policy_set(&spec.scale, WP_STR("objective"),
                                         WP_STR("99%"), &err),
                     WP_OK);
    assert_int_equal(wp_scale_policy_set(&spec.scale, WP_STR("resume"),
                                         wp_str_from(resume), &err),
                     WP_OK);
    spec.target = replicas;
    assert_int_equal(wp_pools_update(rig->core.pools, 0, &spec, &err), WP_OK);
    wp_rig_settle(&rig->core);
}

/* Whoever changes spec.replicas has taken over; a changed policy ends that. */
static void
scaling_by_hand_is_told(void **state)
{
    struct warm_pool_rig rig;

    (void)state;
    warm_pool_rig_init(&rig, false);
    warm_pool_rig_put_template(&rig, "a");
    warm_pool_rig_put_pool(&rig, 2, "OnReplenish");
    warm_pool_rig_activate(&rig);
    scale_core(&rig, 2, "1");
    annotate(&rig, "objective", "99%");
    annotate(&rig, "resume", "1");
    assert_int_equal(events(&rig), 0);
    scale_core(&rig, 4, "1");
    warm_pool_rig_put_pool(&rig, 4, "OnReplenish");
    warm_pool_rig_advance(&rig, WP_NS_PER_S);
    assert_string_equal(last_event(&rig), "ScaledByHand");
    assert_non_null(strstr(last_note(&rig), "was changed to 4"));
    assert_int_equal(events(&rig), 1);
    scale_core(&rig, 4, "2");
    annotate(&rig, "resume", "2");
    assert_string_equal(last_event(&rig), "ScaledByPolicy");
    assert_int_equal(events(&rig), 2);
    warm_pool_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unschedulable_is_told),
        cmocka_unit_test(missing_template_is_told),
        cmocka_unit_test(refused_template_is_told),
        cmocka_unit_test(failing_is_told),
        cmocka_unit_test(bad_policy_is_told),
        cmocka_unit_test(scaling_by_hand_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
