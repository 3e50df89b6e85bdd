/* SandboxClaims that came as v1alpha1: the pool that they mean, and the Sandbox
 * of their own name beside a warm one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/convert/convert.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "tests/support/base/timers.h"
#include "tests/support/k8s/claim_rig.h"

static struct wp_claim_rig rig;

static void
begin(uint32_t target)
{
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, target);
}

/* A claim of v1alpha1 as the webhook stores it. */
static void
put_claim(const char *name, const char *templ, const char *warmpool,
          const char *pool)
{
    char text[1024];

    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",\"annotations\":{"
        "\"" WP_ANNOTATION_ALPHA_CLAIM
        "\":\"{\\\"spec\\\":{\\\"sandboxTemplateRef\\\":{\\\"name\\\":"
        "\\\"%s\\\"},\\\"warmpool\\\":\\\"%s\\\"}}\"}},"
        "\"spec\":{\"warmPoolRef\":{\"name\":\"%s\"}}}",
        name, templ, warmpool, pool);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM, text);
}

static void
claim(const char *name, const char *templ, const char *warmpool,
      const char *pool)
{
    put_claim(name, templ, warmpool, pool);
    wp_claim_rig_settle(&rig);
}

static void
put_template(const char *name)
{
    char text[512];

    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\"},\"spec\":{"
        "\"podTemplate\":{\"spec\":{\"containers\":[{\"name\":\"c\","
        "\"image\":\"i\"}]}}}}",
        name);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_TEMPLATE, text);
    wp_claim_rig_settle(&rig);
}

static const json_t *
alias(const char *name)
{
    return wp_recorder_object(rig.api, WP_KIND_ALIAS, "ns", name);
}

/* The sandbox controller, once its Service is there. */
static void
serve(const char *sandbox)
{
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX, "ns", sandbox,
                            "{\"status\":{\"service\":\"s\","
                            "\"serviceFQDN\":\"s.ns.svc.cluster.local\"}}");
    wp_claim_rig_settle(&rig);
}

/* The longest name that a template may have has its room wherever it is read. */
static void
a_template_may_have_a_long_name(void **state)
{
    char name[253 + 1];

    (void)state;
    memset(name, 't', sizeof name);
    name[sizeof name - 1] = '\0';
    begin(1);
    claim("a", name, "gone", "gone");
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "reason"),
                        "TemplateNotFound");
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p",
                            "{\"spec\":{\"replicas\":2}}");
    wp_claim_rig_settle(&rig);
    put_template(name);
    assert_string_equal(wp_claim_rig_sandbox(&rig, "a"), "a");
    wp_claim_rig_fini(&rig);
}

/* --- Which pool --- */

static void
a_template_means_any_of_its_pools(void **state)
{
    (void)state;
    begin(2);
    claim("a", "t", "default", "shadow-pool-t");
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "status"), "True");
    assert_string_not_equal(wp_claim_rig_sandbox(&rig, "a"), "a");
    /* A pool that is gone, or never was: the template counts. */
    claim("b", "t", "gone", "gone");
    assert_string_equal(wp_claim_rig_ready(&rig, "b", "status"), "True");
    assert_string_not_equal(wp_claim_rig_sandbox(&rig, "b"), "b");
    wp_claim_rig_fini(&rig);
}

static void
none_means_a_sandbox_of_its_own(void **state)
{
    (void)state;
    begin(1);
    claim("a", "t", "none", "shadow-pool-t");
    assert_string_equal(wp_claim_rig_sandbox(&rig, "a"), "a");
    assert_int_equal(wp_claim_rig_stats(&rig).ready, 1);
    wp_claim_rig_fini(&rig);
}

static void
a_tenants_pool_is_not_anybodys(void **state)
{
    (void)state;
    begin(1);
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p",
        "{\"metadata\":{\"annotations\":{\"warmpool.dev/tenant\":\"x\"}}}");
    wp_claim_rig_settle(&rig);
    claim("a", "t", "default", "shadow-pool-t");
    assert_string_equal(wp_claim_rig_sandbox(&rig, "a"), "a");
    /* Who names it has it. */
    claim("b", "t", "p", "p");
    assert_string_not_equal(wp_claim_rig_sandbox(&rig, "b"), "b");
    wp_claim_rig_fini(&rig);
}

static void
a_template_without_a_pool_starts_cold(void **state)
{
    (void)state;
    begin(1);
    put_template("u");
    claim("a", "u", "default", "shadow-pool-u");
    assert_string_equal(wp_claim_rig_sandbox(&rig, "a"), "a");
    assert_null(alias("a"));
    wp_claim_rig_fini(&rig);
}

static void
a_missing_template_is_told_and_waited_for(void **state)
{
    (void)state;
    begin(1);
    claim("a", "u", "default", "shadow-pool-u");
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "reason"),
                        "TemplateNotFound");
    put_template("u");
    assert_string_equal(wp_claim_rig_sandbox(&rig, "a"), "a");
    wp_claim_rig_fini(&rig);
}

/* Of v1beta1, the pool that is named counts, and nothing else. */
static void
a_pool_that_v1beta1_names_is_not_looked_for(void **state)
{
    (void)state;
    begin(1);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM,
                          "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\"},"
                          "\"spec\":{\"warmPoolRef\":{\"name\":\"gone\"}}}");
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "reason"),
                        "WarmPoolNotFound");
    wp_claim_rig_fini(&rig);
}

/* --- The alias --- */

static void
an_alias_shows_its_sandbox(void **state)
{
    const json_t *shown;
    char sandbox[64];

    (void)state;
    begin(1);
    claim("a", "t", "default", "shadow-pool-t");
    (void)snprintf(sandbox, sizeof sandbox, "%s",
                   wp_claim_rig_sandbox(&rig, "a"));
    assert_true(json_is_true(wp_json_at(wp_claim_rig_object(&rig, sandbox),
                                        "spec", "service", NULL)));
    serve(sandbox);
    shown = alias("a");
    assert_non_null(shown);
    assert_string_equal(wp_json_text(shown, "status", "serviceFQDN", NULL),
                        "s.ns.svc.cluster.local");
    assert_true(json_equal(wp_json_at(shown, "status", "podIPs", NULL),
                           wp_json_at(wp_claim_rig_object(&rig, sandbox),
                                      "status", "podIPs", NULL)));
    assert_true(json_equal(wp_json_at(shown, "status", "conditions", NULL),
                           wp_json_at(wp_claim_rig_object(&rig, sandbox),
                                      "status", "conditions", NULL)));
    assert_string_equal(wp_json_text(shown, "metadata", "annotations",
                                     WP_ANNOTATION_POD_NAME, NULL),
                        sandbox);
    /* No reconciler makes a Pod of it. */
    assert_string_equal(wp_json_text(shown, "spec", "operatingMode", NULL),
                        "Suspended");
    assert_null(json_object_get(
        json_array_get(wp_json_at(shown, "metadata", "ownerReferences", NULL),
                       0),
        "controller"));
    assert_null(json_object_get(
        json_array_get(wp_json_at(shown, "metadata", "ownerReferences", NULL),
                       0),
        "blockOwnerDeletion"));
    /* It follows. */
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX, "ns", sandbox,
                            "{\"status\":{\"podIPs\":[\"10.0.0.9\"]}}");
    wp_claim_rig_settle(&rig);
    assert_string_equal(
        json_string_value(json_array_get(
            wp_json_at(alias("a"), "status", "podIPs", NULL), 0)),
        "10.0.0.9");
    wp_claim_rig_unclaim(&rig, "a");
    wp_claim_rig_settle(&rig);
    assert_null(alias("a"));
    wp_claim_rig_fini(&rig);
}

static void
a_session_of_v1beta1_has_one_too(void **state)
{
    (void)state;
    begin(1);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_CLAIM,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\",\"labels\":{"
        "\"kagent.dev/session-id\":\"7\"}},\"spec\":{\"warmPoolRef\":{"
        "\"name\":\"p\"}}}");
    wp_claim_rig_settle(&rig);
    assert_non_null(alias("a"));
    wp_claim_rig_fini(&rig);
}

static void
other_claims_cost_nothing_more(void **state)
{
    (void)state;
    begin(1);
    wp_claim_rig_claim(&rig, "a", NULL);
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "status"), "True");
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_ANY, WP_KIND_ALIAS), 0);
    wp_claim_rig_fini(&rig);
}

/* The same name again, at once: each claim has an alias of its own. */
static void
a_name_is_used_again_and_again(void **state)
{
    (void)state;
    begin(4);
    for (int i = 0; i < 20; i++) {
        char sandbox[64];

        claim("a", "t", "default", "shadow-pool-t");
        (void)wp_claim_rig_make_ready(&rig, UINT32_MAX);
        assert_string_equal(wp_claim_rig_ready(&rig, "a", "status"), "True");
        (void)snprintf(sandbox, sizeof sandbox, "%s",
                       wp_claim_rig_sandbox(&rig, "a"));
        assert_string_equal(wp_claim_rig_owner(&rig, sandbox),
                            wp_claim_rig_uid(&rig, "a"));
        assert_string_equal(wp_json_text(alias("a"), "metadata", "labels",
                                         WP_LABEL_ALIAS, NULL),
                            wp_claim_rig_uid(&rig, "a"));
        wp_claim_rig_unclaim(&rig, "a");
        wp_recorder_collect(rig.api);
        wp_claim_rig_settle(&rig);
        (void)wp_claim_rig_make_ready(&rig, UINT32_MAX);
    }
    assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_ALIAS), 0);
    wp_claim_rig_fini(&rig);
}

static void
a_restart_changes_nothing(void **state)
{
    (void)state;
    begin(2);
    claim("a", "t", "default", "shadow-pool-t");
    serve(wp_claim_rig_sandbox(&rig, "a"));
    wp_claim_rig_restart(&rig);
    wp_claim_rig_settle(&rig);
    assert_non_null(alias("a"));
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_WRITES, WP_KIND_ALIAS),
                     0);
    wp_claim_rig_unclaim(&rig, "a");
    wp_claim_rig_settle(&rig);
    assert_null(alias("a"));
    wp_claim_rig_fini(&rig);
}

static uint32_t
calls(enum wp_verb verb)
{
    return wp_recorder_count(rig.api, verb, WP_KIND_ALIAS);
}

static void
store_alias(const char *name, const char *of)
{
    char text[512];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\","
                   "\"uid\":\"old-%s\",\"labels\":{\"" WP_LABEL_ALIAS
                   "\":\"%s\"}},\"spec\":{}}",
                   name, name, of);
    (void)wp_recorder_put(rig.api, WP_KIND_ALIAS, text);
}

static void
put_alias(const char *name, const char *of)
{
    store_alias(name, of);
    wp_claim_rig_settle(&rig);
}

/* Of a claim that is gone, or was another of that name. */
static void
an_alias_of_nobody_goes(void **state)
{
    (void)state;
    begin(1);
    put_alias("x", "nobody");
    assert_null(alias("x"));
    assert_int_equal(calls(WP_VERB_WRITES), 1);
    assert_string_equal(
        wp_recorder_last(rig.api, WP_VERB_DELETE, WP_KIND_ALIAS)->uid, "old-x");
    claim("a", "t", "default", "shadow-pool-t");
    serve(wp_claim_rig_sandbox(&rig, "a"));
    put_alias("a", "another");
    assert_string_equal(
        wp_json_text(alias("a"), "metadata", "labels", WP_LABEL_ALIAS, NULL),
        wp_claim_rig_uid(&rig, "a"));
    assert_string_equal(wp_json_text(alias("a"), "status", "serviceFQDN", NULL),
                        "s.ns.svc.cluster.local");
    /* What its Sandbox has no more, it does not show. */
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX, "ns", wp_claim_rig_sandbox(&rig, "a"),
        "{\"status\":{\"serviceFQDN\":null},\"metadata\":"
        "{\"annotations\":{\"" WP_ANNOTATION_POD_NAME "\":\"pod\"}}}");
    wp_claim_rig_settle(&rig);
    assert_null(wp_json_at(alias("a"), "status", "serviceFQDN", NULL));
    put_alias("a", "another");
    assert_string_equal(wp_json_text(alias("a"), "metadata", "annotations",
                                     WP_ANNOTATION_POD_NAME, NULL),
                        "pod");
    wp_claim_rig_fini(&rig);
}

static void
wait_s(int64_t s)
{
    wp_claim_rig_advance(&rig, s * WP_NS_PER_S);
    timers_fire_all(rig.parts.base);
    wp_claim_rig_settle(&rig);
}

/* Its removal or its making fails once. */
static void
an_alias_is_tried_again(void **state)
{
    static const struct {
        enum wp_verb verb;
        enum wp_status status;
        int64_t retry_after_s;
        bool leaves;
        /* So often it is tried: at once, in 4 s, and in 6 s. */
        uint32_t tries[3];
    } cases[] = {
        {WP_VERB_POST, WP_UNAVAILABLE, 0, false, {1, 2, 2}},
        {WP_VERB_POST, WP_RESOURCE_EXHAUSTED, 5, false, {1, 1, 2}},
        {WP_VERB_POST, WP_PERMISSION_DENIED, 0, true, {1, 1, 1}},
        {WP_VERB_POST, WP_NOT_FOUND, 0, false, {1, 1, 1}},
        {WP_VERB_DELETE, WP_UNAVAILABLE, 0, false, {1, 2, 2}},
        {WP_VERB_DELETE, WP_RESOURCE_EXHAUSTED, 5, false, {1, 1, 2}},
        {WP_VERB_DELETE, WP_NOT_FOUND, 0, false, {1, 1, 1}},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        begin(1);
        wp_recorder_plan(
            rig.api, &(struct wp_recorder_fault){
                         .verb = cases[i].verb,
                         .kind = WP_KIND_ALIAS,
                         .status = cases[i].status,
                         .retry_after_ns = cases[i].retry_after_s * WP_NS_PER_S,
                         .namespace_leaves = cases[i].leaves});
        if (cases[i].verb == WP_VERB_POST) {
            claim("a", "t", "default", "shadow-pool-t");
        } else {
            put_alias("a", "nobody");
        }
        assert_int_equal(calls(cases[i].verb), cases[i].tries[0]);
        wait_s(4);
        assert_int_equal(calls(cases[i].verb), cases[i].tries[1]);
        wait_s(2);
        assert_int_equal(calls(cases[i].verb), cases[i].tries[2]);
        wp_claim_rig_fini(&rig);
    }
}

/* What a write was answered with counts at once; the watch may be late. */
static void
nothing_is_written_twice_before_the_watch_tells(void **state)
{
    uint32_t sandboxes;

    (void)state;
    begin(1);
    put_claim("a", "t", "default", "shadow-pool-t");
    wp_recorder_notify(rig.api);
    wp_recorder_hold(rig.api, true);
    wp_claim_rig_settle(&rig);
    assert_non_null(alias("a"));
    assert_int_equal(calls(WP_VERB_POST), 1);
    assert_int_equal(calls(WP_VERB_PATCH), 1); /* Its status. */
    sandboxes = wp_recorder_count(rig.api, WP_VERB_WRITES, WP_KIND_SANDBOX);
    assert_int_equal(sandboxes, 2); /* Taken, and asked for a Service. */
    wp_recorder_hold(rig.api, false);
    wp_claim_rig_settle(&rig);
    assert_int_equal(calls(WP_VERB_WRITES), 2);
    assert_int_equal(
        wp_recorder_count(rig.api, WP_VERB_WRITES, WP_KIND_SANDBOX), sandboxes);
    wp_claim_rig_fini(&rig);
}

/* Then the watch tells what was written. */
static void
an_answer_may_be_without_an_object(void **state)
{
    (void)state;
    begin(1);
    wp_recorder_plan(rig.api, &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                          .kind = WP_KIND_ALIAS,
                                                          .status = WP_OK,
                                                          .effect = true});
    claim("a", "t", "default", "shadow-pool-t");
    assert_int_equal(calls(WP_VERB_POST), 1);
    assert_non_null(wp_json_at(alias("a"), "status", "podIPs", NULL));
    wp_claim_rig_fini(&rig);
}

/* It is no alias any more, so no watch would tell of it. */
static void
an_answer_without_the_label_is_not_learned(void **state)
{
    json_t *other =
        json_pack("{s:{s:s,s:s,s:s,s:s}}", "metadata", "namespace", "ns",
                  "name", "a", "uid", "other", "resourceVersion", "1");

    (void)state;
    begin(1);
    wp_recorder_plan(rig.api, &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                          .kind = WP_KIND_ALIAS,
                                                          .status = WP_OK,
                                                          .object = other,
                                                          .effect = true});
    put_claim("a", "t", "default", "shadow-pool-t");
    wp_recorder_notify(rig.api);
    wp_recorder_hold(rig.api, true);
    wp_claim_rig_settle(&rig);
    assert_int_equal(calls(WP_VERB_WRITES), 1);
    wp_recorder_hold(rig.api, false);
    wp_claim_rig_settle(&rig);
    assert_non_null(wp_json_at(alias("a"), "status", "podIPs", NULL));
    assert_int_equal(calls(WP_VERB_DELETE), 0);
    wp_claim_rig_fini(&rig);
    json_decref(other);
}

static void
an_old_alias_makes_room_before_the_watch_tells(void **state)
{
    (void)state;
    begin(1);
    store_alias("a", "another");
    put_claim("a", "t", "default", "shadow-pool-t");
    wp_recorder_notify(rig.api);
    wp_recorder_hold(rig.api, true);
    wp_claim_rig_settle(&rig);
    assert_string_equal(
        wp_json_text(alias("a"), "metadata", "labels", WP_LABEL_ALIAS, NULL),
        wp_claim_rig_uid(&rig, "a"));
    wp_recorder_hold(rig.api, false);
    wp_claim_rig_fini(&rig);
}

/* While somebody's finalizers keep them. */
static void
it_goes_when_its_claim_or_its_sandbox_begins_to(void **state)
{
    static const char going[] =
        "{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\","
        "\"finalizers\":[\"x/y\"]}}";

    (void)state;
    for (int of_claim = 0; of_claim < 2; of_claim++) {
        begin(1);
        claim("a", "t", "default", "shadow-pool-t");
        assert_non_null(alias("a"));
        (void)wp_recorder_merge(
            rig.api, of_claim ? WP_KIND_SANDBOX_CLAIM : WP_KIND_SANDBOX, "ns",
            of_claim ? "a" : wp_claim_rig_sandbox(&rig, "a"), going);
        wp_claim_rig_settle(&rig);
        assert_null(alias("a"));
        wp_claim_rig_fini(&rig);
    }
}

static void
one_that_goes_is_not_deleted_again(void **state)
{
    (void)state;
    begin(1);
    (void)wp_recorder_put(
        rig.api, WP_KIND_ALIAS,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"x\",\"finalizers\":["
        "\"x/y\"],\"labels\":{\"" WP_LABEL_ALIAS
        "\":\"nobody\"}},\"spec\":{}}");
    wp_claim_rig_settle(&rig);
    assert_int_equal(calls(WP_VERB_DELETE), 1);
    (void)wp_recorder_merge(rig.api, WP_KIND_ALIAS, "ns", "x",
                            "{\"status\":{\"nodeName\":\"n\"}}");
    wp_claim_rig_settle(&rig);
    assert_int_equal(calls(WP_VERB_DELETE), 1);
    wp_claim_rig_fini(&rig);
}

/* Its claim went when nobody led. */
static void
the_next_leader_removes_what_is_left(void **state)
{
    (void)state;
    begin(1);
    claim("a", "t", "default", "shadow-pool-t");
    assert_non_null(alias("a"));
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "a");
    wp_claim_rig_restart(&rig);
    wp_claim_rig_settle(&rig);
    assert_null(alias("a"));
    wp_claim_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_template_means_any_of_its_pools),
        cmocka_unit_test(none_means_a_sandbox_of_its_own),
        cmocka_unit_test(a_tenants_pool_is_not_anybodys),
        cmocka_unit_test(a_template_may_have_a_long_name),
        cmocka_unit_test(a_template_without_a_pool_starts_cold),
        cmocka_unit_test(a_missing_template_is_told_and_waited_for),
        cmocka_unit_test(a_pool_that_v1beta1_names_is_not_looked_for),
        cmocka_unit_test(an_alias_shows_its_sandbox),
        cmocka_unit_test(a_session_of_v1beta1_has_one_too),
        cmocka_unit_test(other_claims_cost_nothing_more),
        cmocka_unit_test(a_name_is_used_again_and_again),
        cmocka_unit_test(a_restart_changes_nothing),
        cmocka_unit_test(an_alias_of_nobody_goes),
        cmocka_unit_test(an_alias_is_tried_again),
        cmocka_unit_test(nothing_is_written_twice_before_the_watch_tells),
        cmocka_unit_test(an_answer_may_be_without_an_object),
        cmocka_unit_test(an_answer_without_the_label_is_not_learned),
        cmocka_unit_test(an_old_alias_makes_room_before_the_watch_tells),
        cmocka_unit_test(it_goes_when_its_claim_or_its_sandbox_begins_to),
        cmocka_unit_test(one_that_goes_is_not_deleted_again),
        cmocka_unit_test(the_next_leader_removes_what_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
