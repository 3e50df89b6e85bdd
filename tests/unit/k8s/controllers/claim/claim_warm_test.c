/* SandboxClaims and warm sandboxes: what is written, how often, and by whom a
 * race is won. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "tests/support/k8s/claim_rig.h"

#define S WP_NS_PER_S
#define MS WP_NS_PER_MS

static struct wp_claim_rig rig;

static void
begin(uint32_t target)
{
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, target);
}

static const char *
annotation(const char *claim, const char *key)
{
    return wp_json_text(
        wp_recorder_object(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", claim),
        "metadata", "annotations", key, NULL);
}

static const char *
label(const char *sandbox, const char *key)
{
    return wp_json_text(wp_claim_rig_object(&rig, sandbox), "metadata",
                        "labels", key, NULL);
}

static const char *
pod_label(const char *sandbox, const char *key)
{
    return wp_json_text(wp_claim_rig_object(&rig, sandbox), "spec",
                        "podTemplate", "metadata", "labels", key, NULL);
}

/* Another client makes a claim; nobody has been told yet. */
static void
put_claim(const char *name)
{
    char text[256];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\"},"
                   "\"spec\":{\"warmPoolRef\":{\"name\":\"p\"}}}",
                   name);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM, text);
}

/* The Sandbox that the claim has is its own, and says so. */
static void
expect_bound(const char *claim)
{
    const char *sandbox = wp_claim_rig_sandbox(&rig, claim);

    assert_string_not_equal(sandbox, "");
    assert_string_equal(wp_claim_rig_owner(&rig, sandbox),
                        wp_claim_rig_uid(&rig, claim));
    assert_string_equal(wp_claim_rig_ready(&rig, claim, "status"), "True");
}

/* All of it: Appendix A of the contract, field by field. */
static void
warm_claim_is_served_in_two_writes(void **state)
{
    const struct wp_recorded *call;
    const char *sandbox;

    (void)state;
    begin(2);
    wp_claim_rig_claim(&rig, "c", NULL);
    expect_bound("c");
    sandbox = wp_claim_rig_sandbox(&rig, "c");
    /* W1 with W5; W4; W3. */
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, false),
                     1);
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, true), 1);
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX, false), 1);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_GET, WP_KIND_COUNT), 0);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_POST, WP_KIND_EVENT),
                     1);
    assert_int_equal(wp_claim_rig_reconciles(&rig), 1);
    /* The Sandbox. */
    assert_string_equal(label(sandbox, WP_LABEL_WARM_POOL), "");
    assert_string_equal(label(sandbox, WP_LABEL_TEMPLATE_HASH), "");
    assert_string_equal(label(sandbox, WP_LABEL_POD_TEMPLATE_HASH), "");
    assert_string_equal(label(sandbox, WP_LABEL_CREATED_BY), "");
    assert_string_equal(label(sandbox, WP_LABEL_TEMPLATE_REF_HASH), "22222222");
    assert_string_equal(label(sandbox, WP_LABEL_LAUNCH_TYPE), "warm");
    assert_string_equal(label(sandbox, "mine"), "1");
    assert_string_equal(label(sandbox, WP_LABEL_CLAIM_UID),
                        wp_claim_rig_uid(&rig, "c"));
    assert_string_equal(pod_label(sandbox, WP_LABEL_WARM_POOL), "");
    assert_string_equal(pod_label(sandbox, "of"), "template");
    assert_string_equal(pod_label(sandbox, WP_LABEL_CLAIM_UID),
                        wp_claim_rig_uid(&rig, "c"));
    assert_string_equal(pod_label(sandbox, WP_LABEL_TEMPLATE_REF_HASH),
                        "22222222");
    assert_string_equal(wp_json_text(wp_claim_rig_object(&rig, sandbox), "spec",
                                     "podTemplate", "metadata", "annotations",
                                     WP_ANNOTATION_SAFE_TO_EVICT, NULL),
                        "");
    assert_string_equal(wp_json_text(wp_claim_rig_object(&rig, sandbox),
                                     "metadata", "annotations",
                                     WP_ANNOTATION_POD_NAME, NULL),
                        sandbox);
    /* Only what differs was sent, with the version it was made from. */
    call = wp_recorder_last(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX);
    assert_string_not_equal(
        wp_recorded_text(call, "metadata", "resourceVersion", NULL), "");
    assert_null(wp_json_at(call->body, "metadata", "labels", "mine", NULL));
    assert_null(wp_json_at(call->body, "spec", "podTemplate", "metadata",
                           "labels", "of", NULL));
    assert_int_equal(call->priority, WP_HTTP_CLAIM);
    /* The claim: Ready as the Sandbox has it, transition and all. */
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                        "DependenciesReady");
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "lastTransitionTime"),
                        "2025-12-31T23:00:00Z");
    assert_string_equal(annotation("c", WP_ANNOTATION_SANDBOX_NAME), sandbox);
    assert_int_equal(strlen(annotation("c", WP_ANNOTATION_FIRST_OBSERVED)),
                     strlen("2026-01-01T00:00:00.123456789Z"));
    assert_string_not_equal(annotation("c", WP_ANNOTATION_FIRST_READY),
                            "unknown");
    assert_string_not_equal(annotation("c", WP_ANNOTATION_FIRST_READY), "");
    wp_claim_rig_fini(&rig);
}

/* Who follows a request by its trace finds the Sandbox that served it. */
static void
trace_goes_along(void **state)
{
    (void)state;
    begin(1);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM,
                          "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\","
                          "\"annotations\":{\"" WP_ANNOTATION_TRACE
                          "\":\"00-4bf9-01\"}},"
                          "\"spec\":{\"warmPoolRef\":{\"name\":\"p\"}}}");
    wp_claim_rig_settle(&rig);
    expect_bound("c");
    assert_string_equal(
        wp_json_text(wp_claim_rig_object(&rig, wp_claim_rig_sandbox(&rig, "c")),
                     "metadata", "annotations", WP_ANNOTATION_TRACE, NULL),
        "00-4bf9-01");
    wp_claim_rig_fini(&rig);
}

/* A template that is gone takes nobody's warm sandbox away: the Pod keeps what
 * it has, but for what the pool put there. */
static void
served_without_its_template(void **state)
{
    const char *sandbox;

    (void)state;
    begin(1);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t");
    wp_claim_rig_settle(&rig);
    wp_claim_rig_claim(&rig, "c", NULL);
    expect_bound("c");
    sandbox = wp_claim_rig_sandbox(&rig, "c");
    assert_string_equal(label(sandbox, WP_LABEL_TEMPLATE_REF_HASH), "22222222");
    assert_string_equal(pod_label(sandbox, "of"), "template");
    assert_string_equal(pod_label(sandbox, WP_LABEL_CLAIM_UID),
                        wp_claim_rig_uid(&rig, "c"));
    assert_string_equal(wp_json_text(wp_claim_rig_object(&rig, sandbox), "spec",
                                     "podTemplate", "metadata", "annotations",
                                     WP_ANNOTATION_SAFE_TO_EVICT, NULL),
                        "");
    assert_string_equal(wp_json_text(wp_claim_rig_object(&rig, sandbox), "spec",
                                     "podTemplate", "metadata", "annotations",
                                     "note", NULL),
                        "one");
    wp_claim_rig_fini(&rig);
}

/* The order in which they go: the adoption and the annotations beside it; the
 * status once both are back; nothing after that. */
static void
writes_go_in_order(void **state)
{
    const struct wp_recorded *call;

    (void)state;
    begin(1);
    put_claim("c");
    wp_recorder_notify(rig.api);
    assert_int_equal(event_base_loop(rig.parts.base, EVLOOP_NONBLOCK), 0);
    assert_int_equal(wp_recorder_calls(rig.api), 2);
    call = wp_recorder_call(rig.api, 0);
    assert_int_equal(call->kind, WP_KIND_SANDBOX);
    call = wp_recorder_call(rig.api, 1);
    assert_int_equal(call->kind, WP_KIND_SANDBOX_CLAIM);
    assert_string_equal(call->subresource, "");
    assert_string_equal(wp_recorded_text(call, "metadata", "annotations",
                                         WP_ANNOTATION_SANDBOX_NAME, NULL),
                        wp_recorder_call(rig.api, 0)->name);
    assert_true(wp_recorder_step(rig.api)); /* The adoption. */
    assert_int_equal(
        wp_recorder_count(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX_CLAIM), 1);
    assert_true(wp_recorder_step(rig.api)); /* The annotations. */
    call = wp_recorder_last(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX_CLAIM);
    assert_string_equal(call->subresource, "status");
    assert_string_not_equal(
        wp_recorded_text(call, "metadata", "resourceVersion", NULL), "");
    wp_claim_rig_settle(&rig);
    call = wp_recorder_last(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX_CLAIM);
    assert_string_equal(call->subresource, "status");
    expect_bound("c");
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, false),
                     1);
    assert_string_not_equal(annotation("c", WP_ANNOTATION_FIRST_READY), "");
    wp_claim_rig_fini(&rig);
}

static void
without_observability_one_write_less(void **state)
{
    (void)state;
    wp_claim_rig_init(&rig);
    rig.parts.config.observability_annotations = false;
    rig.parts.config.claim_events = false;
    wp_claim_rig_start(&rig, 1);
    wp_claim_rig_claim(&rig, "c", NULL);
    expect_bound("c");
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, false),
                     1);
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, true), 1);
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX, false), 1);
    assert_string_equal(annotation("c", WP_ANNOTATION_FIRST_OBSERVED), "");
    assert_string_not_equal(annotation("c", WP_ANNOTATION_FIRST_READY), "");
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_POST, WP_KIND_EVENT),
                     0);
    wp_claim_rig_fini(&rig);
}

static void
each_claim_has_its_own(void **state)
{
    char names[8][64];

    (void)state;
    begin(8);
    for (int i = 0; i < 8; i++) {
        char claim[16];

        (void)snprintf(claim, sizeof claim, "c%d", i);
        wp_claim_rig_claim(&rig, claim, NULL);
        expect_bound(claim);
        (void)snprintf(names[i], sizeof names[i], "%s",
                       wp_claim_rig_sandbox(&rig, claim));
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(names[i], names[j]);
        }
    }
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 8);
    wp_claim_rig_fini(&rig);
}

/* --- Races on the Sandbox --- */

static void
plan(enum wp_verb verb, enum wp_kind kind, const char *sub,
     enum wp_status status, bool effect, uint32_t times)
{
    wp_recorder_plan(rig.api, &(struct wp_recorder_fault){.verb = verb,
                                                          .kind = kind,
                                                          .subresource = sub,
                                                          .status = status,
                                                          .effect = effect,
                                                          .times = times});
}

/* Somebody touched the Sandbox: the same one is adopted on the new version. */
static void
conflict_is_resolved_in_one_reconcile(void **state)
{
    (void)state;
    begin(2);
    plan(WP_VERB_PATCH, WP_KIND_SANDBOX, NULL, WP_ABORTED, false, 3);
    wp_claim_rig_claim(&rig, "c", NULL);
    expect_bound("c");
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX),
                     4);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_GET, WP_KIND_SANDBOX),
                     3);
    assert_true(wp_claim_rig_reconciles(&rig) <= 2);
    wp_claim_rig_fini(&rig);
}

/* The adoption came through though its answer says otherwise, or was lost. */
static void
completed_adoption_is_not_switched(void **state)
{
    static const enum wp_status answers[] = {WP_ABORTED, WP_UNKNOWN_OUTCOME};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        begin(3);
        plan(WP_VERB_PATCH, WP_KIND_SANDBOX, NULL, answers[i], true, 1);
        wp_claim_rig_claim(&rig, "c", NULL);
        expect_bound("c");
        assert_int_equal(
            wp_recorder_count(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX), 1);
        assert_int_equal(wp_claim_rig_stats(&rig).leased, 1);
        wp_claim_rig_fini(&rig);
    }
}

/* Certainly not done: the same Sandbox again, after a pause. */
static void
unavailable_is_tried_again(void **state)
{
    (void)state;
    begin(2);
    plan(WP_VERB_PATCH, WP_KIND_SANDBOX, NULL, WP_UNAVAILABLE, false, 2);
    wp_claim_rig_claim(&rig, "c", NULL);
    assert_string_equal(wp_claim_rig_sandbox(&rig, "c"), "");
    wp_claim_rig_advance(&rig, 100 * MS);
    wp_claim_rig_advance(&rig, 100 * MS);
    expect_bound("c");
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 1);
    wp_claim_rig_fini(&rig);
}

/* Another controller has taken the Sandbox: this claim gets another one, and
 * never touches that. What was annotated beside the adoption is annotated anew,
 * the time of being Ready with it. */
static void
lost_sandbox_is_replaced(void **state)
{
    const struct wp_recorded *call;
    char taken[256];

    (void)state;
    begin(2);
    put_claim("c");
    wp_recorder_notify(rig.api);
    assert_int_equal(event_base_loop(rig.parts.base, EVLOOP_NONBLOCK), 0);
    (void)snprintf(
        taken, sizeof taken, "%s",
        wp_recorder_open(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX)->name);
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX, "ns", taken,
        "{\"metadata\":{\"ownerReferences\":[{\"apiVersion\":"
        "\"extensions.agents.x-k8s.io/v1beta1\",\"kind\":\"SandboxClaim\","
        "\"name\":\"other\",\"uid\":\"other-uid\",\"controller\":true}]}}");
    wp_claim_rig_settle(&rig);
    wp_claim_rig_advance(&rig, 50 * MS);
    expect_bound("c");
    assert_string_not_equal(wp_claim_rig_sandbox(&rig, "c"), taken);
    assert_string_equal(wp_claim_rig_owner(&rig, taken), "other-uid");
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 1);
    assert_string_equal(annotation("c", WP_ANNOTATION_SANDBOX_NAME),
                        wp_claim_rig_sandbox(&rig, "c"));
    call = wp_recorder_last(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX_CLAIM);
    assert_string_equal(call->subresource, "");
    assert_string_not_equal(wp_recorded_text(call, "metadata", "annotations",
                                             WP_ANNOTATION_FIRST_READY, NULL),
                            "");
    wp_claim_rig_fini(&rig);
}

/* It stopped being Ready, and the core has not heard of that: it is not handed
 * out. */
static void
unready_sandbox_is_not_adopted(void **state)
{
    char name[64];

    (void)state;
    begin(2);
    (void)snprintf(name, sizeof name, "%s", rig.orders[0].name);
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX, "ns", name,
        "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":"
        "\"False\",\"reason\":\"DependenciesNotReady\",\"message\":\"m\"}]}}");
    wp_claim_rig_settle(&rig);
    wp_claim_rig_claim(&rig, "c", NULL);
    wp_claim_rig_advance(&rig, 50 * MS);
    expect_bound("c");
    assert_string_not_equal(wp_claim_rig_sandbox(&rig, "c"), name);
    wp_claim_rig_fini(&rig);
}

/* The API server will never have it: people are told, the sandbox is offered to
 * others, and what is held for the claim is nothing. */
static void
refused_adoption_is_told(void **state)
{
    (void)state;
    begin(1);
    plan(WP_VERB_PATCH, WP_KIND_SANDBOX, NULL, WP_INVALID_ARGUMENT, false, 1);
    wp_claim_rig_claim(&rig, "c", NULL);
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                        "ReconcilerError");
    assert_string_equal(wp_claim_rig_sandbox(&rig, "c"), "");
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 0);
    wp_claim_rig_advance(&rig, 1 * S);
    expect_bound("c");
    wp_claim_rig_fini(&rig);
}

/* --- Races on the claim --- */

/* Something else wrote the claim: the status is made anew, and the label that
 * the other one wrote stands. */
static void
stale_status_is_made_anew(void **state)
{
    (void)state;
    begin(1);
    plan(WP_VERB_PATCH, WP_KIND_SANDBOX_CLAIM, "status", WP_ABORTED, false, 2);
    wp_claim_rig_claim(&rig, "c", NULL);
    expect_bound("c");
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, true), 3);
    assert_int_equal(
        wp_recorder_count(rig.api, WP_VERB_GET, WP_KIND_SANDBOX_CLAIM), 2);
    wp_claim_rig_fini(&rig);
}

/* It was written though the answer was lost: nothing is written twice. */
static void
lost_answer_of_the_status(void **state)
{
    (void)state;
    begin(1);
    plan(WP_VERB_PATCH, WP_KIND_SANDBOX_CLAIM, "status", WP_UNKNOWN_OUTCOME,
         true, 1);
    wp_claim_rig_claim(&rig, "c", NULL);
    wp_claim_rig_advance(&rig, 100 * MS);
    expect_bound("c");
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, true), 1);
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 1);
    wp_claim_rig_fini(&rig);
}

/* The status fails for a while: it is tried until it goes, and no other reason
 * is ever told meanwhile. */
static void
failing_status_is_tried_on(void **state)
{
    (void)state;
    begin(1);
    plan(WP_VERB_PATCH, WP_KIND_SANDBOX_CLAIM, "status", WP_UNAVAILABLE, false,
         5);
    wp_claim_rig_claim(&rig, "c", NULL);
    for (int i = 0; i < 10; i++) {
        const char *ready;

        wp_claim_rig_advance(&rig, 200 * MS);
        ready = wp_claim_rig_ready(&rig, "c", "status");
        assert_true(ready[0] == '\0' || strcmp(ready, "True") == 0);
    }
    expect_bound("c");
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX, false), 1);
    wp_claim_rig_fini(&rig);
}

/* Annotations that failed follow later; the client had its status long
 * before. */
/* A cold start beside the pool would go round the quota. */
static void
a_quota_is_told_and_nothing_is_made_beside_it(void **state)
{
    const struct wp_tenant_quota quota = {
        .tenant = WP_TENANT_SANDBOX_CLAIMS,
        .quota = {1, WP_QUOTA_NONE, WP_QUOTA_NONE},
    };

    (void)state;
    begin(3);
    assert_true(wp_pools_set_quotas(rig.pools, &quota, 1));
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "status"), "True");
    wp_claim_rig_claim(&rig, "b", NULL);
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_ready(&rig, "b", "status"), "False");
    assert_string_equal(wp_claim_rig_ready(&rig, "b", "reason"),
                        "QuotaExceeded");
    assert_non_null(strstr(wp_claim_rig_ready(&rig, "b", "message"),
                           "held or waiting at most 1"));
    assert_string_equal(wp_claim_rig_sandbox(&rig, "b"), "");
    wp_claim_rig_unclaim(&rig, "a");
    for (int i = 0; i < 60; i++) {
        wp_claim_rig_advance(&rig, S);
    }
    assert_string_equal(wp_claim_rig_ready(&rig, "b", "status"), "True");
    wp_claim_rig_fini(&rig);
}

static void
failing_annotations_follow(void **state)
{
    (void)state;
    begin(1);
    plan(WP_VERB_PATCH, WP_KIND_SANDBOX_CLAIM, "", WP_RESOURCE_EXHAUSTED, false,
         2);
    wp_claim_rig_claim(&rig, "c", NULL);
    expect_bound("c");
    assert_string_equal(annotation("c", WP_ANNOTATION_SANDBOX_NAME), "");
    wp_claim_rig_advance(&rig, 6 * S);
    assert_string_equal(annotation("c", WP_ANNOTATION_SANDBOX_NAME),
                        wp_claim_rig_sandbox(&rig, "c"));
    assert_string_not_equal(annotation("c", WP_ANNOTATION_FIRST_OBSERVED), "");
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, true), 1);
    wp_claim_rig_fini(&rig);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_claim_is_served_in_two_writes),
        cmocka_unit_test(trace_goes_along),
        cmocka_unit_test(served_without_its_template),
        cmocka_unit_test(writes_go_in_order),
        cmocka_unit_test(without_observability_one_write_less),
        cmocka_unit_test(each_claim_has_its_own),
        cmocka_unit_test(conflict_is_resolved_in_one_reconcile),
        cmocka_unit_test(completed_adoption_is_not_switched),
        cmocka_unit_test(unavailable_is_tried_again),
        cmocka_unit_test(lost_sandbox_is_replaced),
        cmocka_unit_test(unready_sandbox_is_not_adopted),
        cmocka_unit_test(refused_adoption_is_told),
        cmocka_unit_test(stale_status_is_made_anew),
        cmocka_unit_test(lost_answer_of_the_status),
        cmocka_unit_test(failing_status_is_tried_on),
        cmocka_unit_test(a_quota_is_told_and_nothing_is_made_beside_it),
        cmocka_unit_test(failing_annotations_follow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
