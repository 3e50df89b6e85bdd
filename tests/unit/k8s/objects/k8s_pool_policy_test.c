/* A SandboxWarmPool's scaling policy: read from its annotations, and what the
 * core's pool has of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/pool_policy.h"
#include "tests/support/k8s/cluster_rig.h"
#include "tests/support/k8s/k8s_text.h"

#define KEY "autoscale.warmpool.io/"
#define POOL "pool.warmpool.io/"

/* annotations: a JSON object, with ' for ". */
static struct wp_object *
pool_with(const char *annotations)
{
    char text[1024];

    (void)snprintf(text, sizeof(text),
                   "{'metadata': {'name': 'p', 'namespace': 'ns', 'uid': 'u', "
                   "'annotations': %s}, 'spec': {'sandboxTemplateRef': "
                   "{'name': 't'}}}",
                   annotations);
    return wp_test_object(WP_KIND_SANDBOX_WARM_POOL, text);
}

static void
annotations_are_read(void **state)
{
    struct wp_object *pool =
        pool_with("{'other.io/objective': 'x', '" KEY "max': '9', '" KEY
                  "objective': '99.5%', '" KEY "time-zone': 'Asia/Tokyo', '" KEY
                  "schedule': '0 8 * * * for 1h at least 3'}");
    struct wp_object *plain = pool_with("{'autoscale.warmpool.iox': '5'}");
    struct wp_pool_spec spec;
    struct wp_err err;

    (void)state;
    wp_pool_spec_init(&spec);
    assert_int_equal(wp_pool_policy_read(pool, &spec, &err), WP_OK);
    assert_true(spec.scale.hit_rate == 0.995);
    assert_int_equal(spec.scale.max, 9);
    assert_int_equal(spec.scale.n_floors, 1);
    assert_string_equal(wp_time_zone_name(spec.scale.floors[0].zone),
                        "Asia/Tokyo");
    wp_pool_spec_init(&spec);
    assert_int_equal(wp_pool_policy_read(plain, &spec, &err), WP_OK);
    assert_int_equal(spec.scale.objective, WP_SCALE_PLAIN);
    wp_object_unref(pool);
    wp_object_unref(plain);
}

static void
mistakes_are_named(void **state)
{
    static const struct {
        const char *annotations;
        const char *says;
    } cases[] = {
        {"{'" KEY "objective': '99.5'}",
         "annotations of autoscale.warmpool.io/: objective: a share of claims"},
        {"{'" KEY "objectives': '99.5%'}",
         "objectives: unknown key; the nearest known one is objective"},
        {"{'" KEY "': '1'}", ": unknown key"},
        {"{'" KEY "max': '1'}", "max: an objective beside it expected"},
        {"{'" KEY "objective': '99%', '" KEY "max': '1', '" KEY "min': '2'}",
         "max: at least min"},
        {"{'" KEY "objective': '99%', '" KEY "time-zone': '../../etc/shadow'}",
         "time-zone: '../../etc/shadow': a name such as"},
        {"{'" POOL "wait-max': '5 minutes'}",
         "pool.warmpool.io/wait-max: a duration such as 500ms, 30s, 5m, 2h or "
         "7d was expected, not '5 minutes'"},
        {"{'" POOL "ttl-max': '400d'}",
         "pool.warmpool.io/ttl-max: a duration from 1000ms to 2592000s was "
         "expected, not '400d'"},
        {"{'" POOL "waiters-max': '-1'}",
         "pool.warmpool.io/waiters-max: a whole number from 0 to "},
        {"{'" POOL "cold-start': 'sometimes'}",
         "pool.warmpool.io/cold-start: one of never, allowed was expected, "
         "not 'sometimes'"},
        {"{'" POOL "redy-within': '30s'}",
         "pool.warmpool.io/redy-within: unknown annotation; did you mean "
         "pool.warmpool.io/ready-within?"},
        {"{'" POOL "xyzzy': '30s'}", "unknown annotation; warmpoold(8) lists"},
        {"{'" POOL "ttl-default': '2h', '" POOL "ttl-max': '1h'}",
         "pool.warmpool.io/ttl-default: at most the longest lease, which is "
         "3600 s"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_object *pool = pool_with(cases[i].annotations);
        struct wp_pool_spec spec;
        struct wp_err err = {.msg = ""};

        wp_pool_spec_init(&spec);
        assert_int_equal(wp_pool_policy_read(pool, &spec, &err),
                         WP_INVALID_ARGUMENT);
        if (strstr(err.msg, cases[i].says) == NULL) {
            fail_msg("%s: %s", cases[i].annotations, err.msg);
        }
        wp_object_unref(pool);
    }
}

static void
only_the_group_makes_a_difference(void **state)
{
    static const char *const texts[] = {
        "{'a': '1', '" KEY "min': '1'}",
        "{'a': '2', '" KEY "min': '1'}",
        "{'a': '1', '" KEY "min': '2'}",
        "{'a': '1', '" KEY "min': '1', '" KEY "max': '1'}",
        "{'a': '1'}",
        "{'a': '1', '" POOL "ttl-max': '1h'}",
    };
    struct wp_object *pools[WP_ARRAY_LEN(texts)];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        pools[i] = pool_with(texts[i]);
        for (size_t j = 0; j <= i; j++) {
            bool same = i == j || (i == 1 && j == 0);

            assert_int_equal(wp_pool_policy_same(pools[i], pools[j]), same);
            assert_int_equal(wp_pool_policy_same(pools[j], pools[i]), same);
        }
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        wp_object_unref(pools[i]);
    }
}

static void
annotate(struct wp_cluster_rig *rig, const char *json)
{
    (void)wp_recorder_merge(rig->api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p",
                            json);
    wp_cluster_rig_settle(rig);
}

/* The core's pool follows its annotations; a mistake leaves all of them as they
 * were, and what is no annotation is followed meanwhile. */
static void
the_core_follows(void **state)
{
    struct wp_cluster_rig rig;
    struct wp_pool_stats stats;

    (void)state;
    wp_cluster_rig_init(&rig, 2, NULL);
    wp_cluster_rig_lead(&rig);
    assert_int_equal(wp_cluster_rig_stats(&rig).spec.scale.objective,
                     WP_SCALE_PLAIN);
    annotate(&rig, "{\"metadata\": {\"annotations\": {\"" KEY
                   "objective\": \"99%\", \"" KEY "min\": \"3\"}}}");
    stats = wp_cluster_rig_stats(&rig);
    assert_int_equal(stats.spec.scale.objective, WP_SCALE_HIT_RATE);
    assert_int_equal(stats.spec.scale.min, 3);
    annotate(&rig, "{\"metadata\": {\"annotations\": {\"" KEY
                   "objective\": \"95%\", \"" KEY "min\": \"many\"}}}");
    stats = wp_cluster_rig_stats(&rig);
    assert_true(stats.spec.scale.hit_rate == 0.99);
    assert_int_equal(stats.spec.scale.min, 3);
    annotate(&rig, "{\"spec\": {\"replicas\": 1}}");
    stats = wp_cluster_rig_stats(&rig);
    assert_true(stats.spec.scale.hit_rate == 0.99);
    annotate(&rig,
             "{\"metadata\": {\"annotations\": {\"" KEY "min\": \"4\"}}}");
    stats = wp_cluster_rig_stats(&rig);
    assert_true(stats.spec.scale.hit_rate == 0.95);
    assert_int_equal(stats.spec.scale.min, 4);
    annotate(&rig, "{\"metadata\": {\"annotations\": {\"" KEY
                   "objective\": null, \"" KEY "min\": null}}}");
    assert_int_equal(wp_cluster_rig_stats(&rig).spec.scale.objective,
                     WP_SCALE_PLAIN);
    wp_cluster_rig_fini(&rig);
}

/* All of them mean in a cluster what they mean on one machine; a mistake in one
 * leaves what they said before, and is no reason not to scale. */
static void
the_core_has_what_annotations_say(void **state)
{
    struct wp_cluster_rig rig;
    struct wp_pool_spec spec;

    (void)state;
    wp_cluster_rig_init(&rig, 2, NULL);
    wp_cluster_rig_lead(&rig);
    annotate(&rig, "{\"metadata\": {\"annotations\": {"
                   "\"" POOL "cold-start\": \"allowed\", "
                   "\"" POOL "ttl-default\": \"10m\", "
                   "\"" POOL "ttl-max\": \"2h\", "
                   "\"" POOL "wait-max\": \"30s\", "
                   "\"" POOL "waiters-max\": \"7\", "
                   "\"" POOL "tenant-waiters-max\": \"3\", "
                   "\"" POOL "create-inflight-max\": \"5\", "
                   "\"" POOL "ready-within\": \"40s\"}}}");
    spec = wp_cluster_rig_stats(&rig).spec;
    assert_int_equal(spec.cold_start, WP_COLD_ALLOWED);
    assert_true(spec.cold_start_said);
    assert_int_equal(spec.ttl_default_ns, 600 * WP_NS_PER_S);
    assert_int_equal(spec.ttl_max_ns, 7200 * WP_NS_PER_S);
    assert_int_equal(spec.wait_max_ns, 30 * WP_NS_PER_S);
    assert_int_equal(spec.waiters_max, 7);
    assert_int_equal(spec.tenant_waiters_max, 3);
    assert_int_equal(spec.create_inflight_max, 5);
    assert_int_equal(spec.ready_within_ns, 40 * WP_NS_PER_S);
    annotate(&rig, "{\"metadata\": {\"annotations\": {"
                   "\"" POOL "ttl-default\": \"9m\", "
                   "\"" POOL "ready-within\": \"soon\"}}, "
                   "\"spec\": {\"replicas\": 1}}");
    spec = wp_cluster_rig_stats(&rig).spec;
    assert_int_equal(spec.ttl_default_ns, 600 * WP_NS_PER_S);
    assert_int_equal(spec.ready_within_ns, 40 * WP_NS_PER_S);
    assert_int_equal(spec.create_inflight_max, 5);
    assert_int_equal(spec.cold_start, WP_COLD_ALLOWED);
    assert_int_equal(spec.target, 1);
    annotate(&rig, "{\"metadata\": {\"annotations\": {"
                   "\"" POOL "cold-start\": null, "
                   "\"" POOL "waiters-max\": null, "
                   "\"" POOL "ready-within\": null}}}");
    spec = wp_cluster_rig_stats(&rig).spec;
    assert_int_equal(spec.ttl_default_ns, 540 * WP_NS_PER_S);
    assert_int_equal(spec.ready_within_ns, rig.parts.config.ready_grace_ns);
    assert_int_equal(spec.cold_start, WP_COLD_NEVER);
    assert_false(spec.cold_start_said);
    wp_cluster_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(annotations_are_read),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(only_the_group_makes_a_difference),
        cmocka_unit_test(the_core_follows),
        cmocka_unit_test(the_core_has_what_annotations_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
