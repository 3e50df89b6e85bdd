/* What a SandboxClaim may change while it has its Sandbox. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "tests/support/k8s/claim_rig.h"

static struct wp_claim_rig rig;
static char sandbox[64];

/* One claim "c" with its warm sandbox. */
static void
begin_bound(uint32_t target, const char *spec)
{
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, target);
    wp_claim_rig_claim(&rig, "c", spec);
    (void)snprintf(sandbox, sizeof sandbox, "%s",
                   wp_claim_rig_sandbox(&rig, "c"));
    assert_string_not_equal(sandbox, "");
}

static void
change_sandbox(const char *patch)
{
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX, "ns", sandbox, patch);
    wp_claim_rig_settle(&rig);
}

static void
metadata_follows_the_claim(void **state)
{
    (void)state;
    begin_bound(1, NULL);
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "c",
        "{\"metadata\":{\"labels\":{\"" WP_LABEL_CREATED_BY
        "\":\"go-client\"}},\"spec\":{\"additionalPodMetadata\":{\"labels\":{"
        "\"sandbox.users.io/team\":\"red\"}}}}");
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_json_text(wp_claim_rig_object(&rig, sandbox), "spec",
                                     "podTemplate", "metadata", "labels",
                                     "sandbox.users.io/team", NULL),
                        "red");
    assert_string_equal(wp_json_text(wp_claim_rig_object(&rig, sandbox),
                                     "metadata", "labels", WP_LABEL_CREATED_BY,
                                     NULL),
                        "go-client");
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "status"), "True");
    /* An adoption's patch and this one; nothing that repeats. */
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX, false), 2);
    wp_claim_rig_fini(&rig);
}

/* A write that meets no Sandbox, for a moment, is done again after a pause. */
static void
metadata_where_the_sandbox_seems_gone(void **state)
{
    static const enum wp_status answers[] = {WP_NOT_FOUND, WP_UNAVAILABLE};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(answers); i++) {
        begin_bound(1, NULL);
        wp_recorder_plan(rig.api,
                         &(struct wp_recorder_fault){.verb = WP_VERB_PATCH,
                                                     .kind = WP_KIND_SANDBOX,
                                                     .status = answers[i]});
        (void)wp_recorder_merge(
            rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "c",
            "{\"spec\":{\"additionalPodMetadata\":{\"labels\":{"
            "\"sandbox.users.io/team\":\"red\"}}}}");
        wp_claim_rig_settle(&rig);
        assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX, false), 2);
        wp_claim_rig_advance(&rig, 10 * WP_NS_PER_S);
        assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX, false), 3);
        assert_string_equal(wp_json_text(wp_claim_rig_object(&rig, sandbox),
                                         "spec", "podTemplate", "metadata",
                                         "labels", "sandbox.users.io/team",
                                         NULL),
                            "red");
        assert_string_equal(wp_claim_rig_sandbox(&rig, "c"), sandbox);
        wp_claim_rig_fini(&rig);
    }
}

/* The template's own, changed while a claim has a sandbox: it comes, and what
 * is no more goes; the claim's and the system's stay. */
static void
metadata_follows_the_template(void **state)
{
    const json_t *labels;

    (void)state;
    begin_bound(1, "\"additionalPodMetadata\":{\"labels\":{"
                   "\"sandbox.users.io/team\":\"red\"}}");
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t",
        "{\"spec\":{\"podTemplate\":{\"metadata\":{\"labels\":{"
        "\"of\":null,\"tier\":\"two\"},\"annotations\":{"
        "\"protocol\":\"TCP\"}}}}}");
    wp_claim_rig_settle(&rig);
    labels = wp_json_at(wp_claim_rig_object(&rig, sandbox), "spec",
                        "podTemplate", "metadata", "labels", NULL);
    assert_string_equal(wp_json_text(labels, "tier", NULL), "two");
    assert_null(json_object_get(labels, "of"));
    assert_string_equal(wp_json_text(labels, "sandbox.users.io/team", NULL),
                        "red");
    assert_string_equal(wp_json_text(labels, WP_LABEL_CLAIM_UID, NULL),
                        wp_claim_rig_uid(&rig, "c"));
    assert_string_equal(wp_json_text(wp_claim_rig_object(&rig, sandbox), "spec",
                                     "podTemplate", "metadata", "annotations",
                                     "protocol", NULL),
                        "TCP");
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "status"), "True");
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX, false), 2);
    /* What no Pod's metadata has to do with is not even looked at. */
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t",
        "{\"spec\":{\"podTemplate\":{\"spec\":{\"nodeName\":\"n\"}}}}");
    wp_claim_rig_settle(&rig);
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX, false), 2);
    wp_claim_rig_fini(&rig);
}

/* Everything goes on but the API server's answers. */
static void
go_on_unanswered(void)
{
    for (int i = 0; i < 10; i++) {
        wp_recorder_notify(rig.api);
        (void)wp_pools_run(rig.pools);
        assert_int_not_equal(event_base_loop(rig.parts.base, EVLOOP_NONBLOCK),
                             -1);
        for (uint32_t m = 0; m < rig.messages_len; m++) {
            rig.messages[m].run(rig.messages[m].arg, 0, 0);
        }
        rig.messages_len = 0;
    }
}

/* What the claim adds no more while its Sandbox is being adopted goes, too. */
static void
metadata_that_is_dropped_meanwhile(void **state)
{
    (void)state;
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, 1);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_CLAIM,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\"},\"spec\":{"
        "\"warmPoolRef\":{\"name\":\"p\"},\"additionalPodMetadata\":{"
        "\"labels\":{\"sandbox.users.io/team\":\"red\"}}}}");
    go_on_unanswered();
    assert_non_null(wp_recorder_open(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX));
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "c",
                            "{\"spec\":{\"additionalPodMetadata\":null}}");
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "status"), "True");
    assert_null(wp_json_at(
        wp_claim_rig_object(&rig, wp_claim_rig_sandbox(&rig, "c")), "spec",
        "podTemplate", "metadata", "labels", "sandbox.users.io/team", NULL));
    wp_claim_rig_fini(&rig);
}

static uint32_t
sandbox_patches(uint32_t from_call, enum wp_http_priority priority)
{
    uint32_t n = 0;

    for (uint32_t i = from_call; i < wp_recorder_calls(rig.api); i++) {
        const struct wp_recorded *call = wp_recorder_call(rig.api, i);

        n += call->kind == WP_KIND_SANDBOX && call->verb == WP_VERB_PATCH &&
             call->priority == priority;
    }
    return n;
}

/* A template of many claims: their Sandboxes follow a few at a time, as what
 * gives way to claims; one that comes meanwhile, or goes, waits for none. */
static void
metadata_of_many_is_in_no_claims_way(void **state)
{
    enum {
        CLAIMS = 40,
        AT_ONCE = 32,
    };
    char name[8];
    uint32_t from;

    (void)state;
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, CLAIMS + 2);
    for (uint32_t i = 0; i < CLAIMS; i++) {
        (void)snprintf(name, sizeof name, "c%u", i);
        wp_claim_rig_claim(&rig, name, NULL);
        assert_string_equal(wp_claim_rig_ready(&rig, name, "status"), "True");
    }
    from = wp_recorder_calls(rig.api);
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t",
        "{\"spec\":{\"podTemplate\":{\"metadata\":{\"labels\":{"
        "\"tier\":\"two\"}}}}}");
    go_on_unanswered();
    assert_int_equal(sandbox_patches(from, WP_HTTP_SPARE), AT_ONCE);
    assert_int_equal(wp_recorder_calls(rig.api) - from, AT_ONCE);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM,
                          "{\"metadata\":{\"namespace\":\"ns\",\"name\":"
                          "\"new\"},\"spec\":{\"warmPoolRef\":{\"name\":"
                          "\"p\"}}}");
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "c39",
                            "{\"metadata\":{\"labels\":{"
                            "\"" WP_LABEL_CREATED_BY "\":\"go-client\"}}}");
    go_on_unanswered();
    assert_int_equal(sandbox_patches(from, WP_HTTP_CLAIM), 1);
    assert_int_equal(sandbox_patches(from, WP_HTTP_NORMAL), 1);
    assert_int_equal(sandbox_patches(from, WP_HTTP_SPARE), AT_ONCE);
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_ready(&rig, "new", "status"), "True");
    for (uint32_t i = 0; i < CLAIMS; i++) {
        (void)snprintf(name, sizeof name, "c%u", i);
        assert_string_equal(
            wp_json_text(
                wp_claim_rig_object(&rig, wp_claim_rig_sandbox(&rig, name)),
                "spec", "podTemplate", "metadata", "labels", "tier", NULL),
            "two");
    }
    /* Each once. */
    assert_int_equal(sandbox_patches(from, WP_HTTP_SPARE), CLAIMS - 1);
    wp_claim_rig_fini(&rig);
}

/* The Sandbox has another launch type (a value of JSON), and then the claim
 * another creator: what does the Sandbox say of its launch? */
static const char *
launch_type_after(const char *type, const char *creator)
{
    char patch[256];

    (void)snprintf(
        patch, sizeof patch,
        "{\"metadata\":{\"labels\":{\"" WP_LABEL_LAUNCH_TYPE "\":%s}}}", type);
    change_sandbox(patch);
    (void)snprintf(patch, sizeof patch,
                   "{\"metadata\":{\"labels\":{\"" WP_LABEL_CREATED_BY
                   "\":\"%s\"}}}",
                   creator);
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "c", patch);
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_json_text(wp_claim_rig_object(&rig, sandbox),
                                     "metadata", "labels", WP_LABEL_CREATED_BY,
                                     NULL),
                        creator);
    return wp_json_text(wp_claim_rig_object(&rig, sandbox), "metadata",
                        "labels", WP_LABEL_LAUNCH_TYPE, NULL);
}

/* Metrics and clients go by it: when it is lost it comes back with the next
 * write, and says how the claim was served. Another one's word for it stays. */
static void
launch_type_comes_back(void **state)
{
    (void)state;
    for (uint32_t warm = 0; warm < 2; warm++) {
        begin_bound(warm, NULL);
        assert_int_equal(strcmp(sandbox, "c") == 0, warm == 0);
        assert_string_equal(launch_type_after("null", "go-client"),
                            warm == 0 ? "cold" : "warm");
        assert_string_equal(launch_type_after("\"other\"", "python-client"),
                            "other");
        wp_claim_rig_fini(&rig);
    }
}

/* The same while nobody leads: whoever comes next makes up for it. */
static void
metadata_that_changed_while_nobody_led(void **state)
{
    (void)state;
    begin_bound(1, NULL);
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t",
        "{\"spec\":{\"podTemplate\":{\"metadata\":{\"labels\":{"
        "\"tier\":\"two\"}}}}}");
    wp_claim_rig_restart(&rig);
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_json_text(wp_claim_rig_object(&rig, sandbox), "spec",
                                     "podTemplate", "metadata", "labels",
                                     "tier", NULL),
                        "two");
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX, false), 1);
    wp_claim_rig_fini(&rig);
}

/* A template that now says something else than the claim does: the claim says
 * so, keeps its sandbox, and is well again when they agree. */
static void
metadata_that_comes_to_contradict(void **state)
{
    (void)state;
    begin_bound(1, "\"additionalPodMetadata\":{\"labels\":{"
                   "\"sandbox.users.io/team\":\"red\"}}");
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t",
        "{\"spec\":{\"podTemplate\":{\"metadata\":{\"labels\":{"
        "\"sandbox.users.io/team\":\"blue\"}}}}}");
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                        "ReconcilerError");
    assert_string_equal(wp_claim_rig_sandbox(&rig, "c"), sandbox);
    assert_string_equal(wp_claim_rig_owner(&rig, sandbox),
                        wp_claim_rig_uid(&rig, "c"));
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX, false), 1);
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t",
        "{\"spec\":{\"podTemplate\":{\"metadata\":{\"labels\":{"
        "\"sandbox.users.io/team\":null}}}}}");
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "status"), "True");
    wp_claim_rig_fini(&rig);
}

static void
metadata_goes_along_with_the_adoption(void **state)
{
    (void)state;
    begin_bound(1, "\"additionalPodMetadata\":{\"labels\":{"
                   "\"sandbox.users.io/team\":\"red\"},\"annotations\":{"
                   "\"example.com/x\":\"y\"}}");
    assert_string_equal(wp_json_text(wp_claim_rig_object(&rig, sandbox), "spec",
                                     "podTemplate", "metadata", "annotations",
                                     "example.com/x", NULL),
                        "y");
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX, false), 1);
    wp_claim_rig_fini(&rig);
}

/* What it may not ask for takes no sandbox, and is told until it changes. */
static void
metadata_that_is_refused(void **state)
{
    (void)state;
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, 1);
    wp_claim_rig_claim(&rig, "bad",
                       "\"additionalPodMetadata\":{\"labels\":{\"x\":\"y\"}}");
    assert_string_equal(wp_claim_rig_ready(&rig, "bad", "reason"),
                        "InvalidMetadata");
    wp_claim_rig_claim(&rig, "clash",
                       "\"additionalPodMetadata\":{\"annotations\":{"
                       "\"note\":\"two\"}}");
    assert_string_equal(wp_claim_rig_ready(&rig, "clash", "reason"),
                        "ReconcilerError");
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 0);
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "bad",
        "{\"spec\":{\"additionalPodMetadata\":{\"labels\":{\"x\":null,"
        "\"sub.sandbox.users.io/x\":\"y\"}}}}");
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_ready(&rig, "bad", "status"), "True");
    wp_claim_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata_follows_the_claim),
        cmocka_unit_test(metadata_where_the_sandbox_seems_gone),
        cmocka_unit_test(metadata_follows_the_template),
        cmocka_unit_test(metadata_that_is_dropped_meanwhile),
        cmocka_unit_test(metadata_of_many_is_in_no_claims_way),
        cmocka_unit_test(launch_type_comes_back),
        cmocka_unit_test(metadata_that_changed_while_nobody_led),
        cmocka_unit_test(metadata_that_comes_to_contradict),
        cmocka_unit_test(metadata_goes_along_with_the_adoption),
        cmocka_unit_test(metadata_that_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
