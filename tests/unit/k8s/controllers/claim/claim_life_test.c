/* SandboxClaims that have their Sandbox: following it, losing it, expiry, and
 * the end. */
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

#define S WP_NS_PER_S
#define MS WP_NS_PER_MS

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

static uint32_t
statuses(void)
{
    return wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, true);
}

static const json_t *
claim(void)
{
    return wp_recorder_object(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "c");
}

static uint32_t
deletes(enum wp_kind kind)
{
    return wp_recorder_count(rig.api, WP_VERB_DELETE, kind);
}

static uint32_t
events(const char *reason)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < wp_recorder_calls(rig.api); i++) {
        const struct wp_recorded *call = wp_recorder_call(rig.api, i);

        n += call->kind == WP_KIND_EVENT && call->verb == WP_VERB_POST &&
             strcmp(wp_recorded_text(call, "reason", NULL), reason) == 0;
    }
    return n;
}

#define READY(status, reason, at)                                              \
    "{\"type\":\"Ready\",\"status\":\"" status "\",\"reason\":\"" reason       \
    "\",\"message\":\"m\",\"observedGeneration\":7,\"lastTransitionTime\":"    \
    "\"" at "\"}"

/* Each change of the Sandbox is passed on once, as it is; what does not concern
 * the claim is not even looked at. */
static void
follows_its_sandbox(void **state)
{
    uint64_t reconciles;

    (void)state;
    begin_bound(1, NULL);
    assert_int_equal(statuses(), 1);
    change_sandbox("{\"status\":{\"conditions\":[" READY(
        "False", "DependenciesNotReady", "2026-01-01T00:00:09Z") "]}}");
    assert_int_equal(statuses(), 2);
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "status"), "False");
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                        "DependenciesNotReady");
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "lastTransitionTime"),
                        "2026-01-01T00:00:09Z");
    reconciles = wp_claim_rig_reconciles(&rig);
    change_sandbox("{\"metadata\":{\"labels\":{\"x\":\"y\"}}}");
    change_sandbox("{\"status\":{\"nodeName\":\"n\"}}");
    assert_int_equal(wp_claim_rig_reconciles(&rig), reconciles);
    change_sandbox("{\"status\":{\"podIPs\":[\"10.9.9.9\",\"fd00::9\"]}}");
    assert_int_equal(statuses(), 3);
    assert_string_equal(
        json_string_value(json_array_get(
            wp_json_at(claim(), "status", "sandbox", "podIPs", NULL), 1)),
        "fd00::9");
    change_sandbox("{\"status\":{\"serviceFQDN\":\"s.ns.svc.x\"}}");
    assert_int_equal(statuses(), 4);
    assert_string_equal(
        wp_json_text(claim(), "status", "sandbox", "serviceFQDN", NULL),
        "s.ns.svc.x");
    /* Ready again: no second first time. */
    change_sandbox("{\"status\":{\"conditions\":[" READY(
        "True", "DependenciesReady", "2026-01-01T00:00:19Z") "]}}");
    assert_int_equal(statuses(), 5);
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, false),
                     1);
    wp_claim_rig_fini(&rig);
}

/* The last status that was written. */
static const json_t *
last_status(void)
{
    const json_t *last = NULL;

    for (uint32_t i = 0; i < wp_recorder_calls(rig.api); i++) {
        const struct wp_recorded *call = wp_recorder_call(rig.api, i);

        if (call->kind == WP_KIND_SANDBOX_CLAIM &&
            strcmp(call->subresource, "status") == 0) {
            last = call->body;
        }
    }
    return last;
}

/* An API server that has older CRDs is told of the Service once. */
static void
service_name_that_is_dropped(void **state)
{
    (void)state;
    begin_bound(1, NULL);
    wp_recorder_set_older_claims(rig.api);
    change_sandbox("{\"status\":{\"serviceFQDN\":\"s.ns.svc.x\"}}");
    assert_int_equal(statuses(), 2);
    assert_non_null(
        wp_json_at(last_status(), "status", "sandbox", "serviceFQDN", NULL));
    change_sandbox("{\"status\":{\"podIPs\":[\"10.9.9.9\"]}}");
    assert_int_equal(statuses(), 3);
    assert_non_null(
        wp_json_at(last_status(), "status", "sandbox", "podIPs", NULL));
    assert_null(
        wp_json_at(last_status(), "status", "sandbox", "serviceFQDN", NULL));
    wp_claim_rig_fini(&rig);
}

static void
sandbox_that_expired_by_itself(void **state)
{
    (void)state;
    begin_bound(1, NULL);
    change_sandbox("{\"status\":{\"podIPs\":null,\"conditions\":[" READY(
        "False", "SandboxExpired", "2026-01-01T00:00:09Z") "]}}");
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                        "SandboxExpired");
    assert_string_equal(wp_claim_rig_sandbox(&rig, "c"), sandbox);
    assert_null(wp_json_at(claim(), "status", "sandbox", "podIPs", NULL));
    wp_claim_rig_fini(&rig);
}

/* Somebody deleted the Sandbox: the claim says so and gets another one. */
static void
lost_sandbox(void **state)
{
    (void)state;
    begin_bound(1, NULL);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "ns", sandbox);
    wp_claim_rig_settle(&rig);
    wp_claim_rig_advance(&rig, 100 * MS);
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                        "SandboxMissing");
    assert_string_equal(wp_claim_rig_sandbox(&rig, "c"), "");
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 0);
    (void)wp_claim_rig_make_ready(&rig, UINT32_MAX);
    for (int i = 0; i < 30; i++) {
        wp_claim_rig_advance(&rig, 100 * MS);
    }
    assert_string_equal(
        wp_claim_rig_owner(&rig, wp_claim_rig_sandbox(&rig, "c")),
        wp_claim_rig_uid(&rig, "c"));
    assert_string_not_equal(wp_claim_rig_sandbox(&rig, "c"), sandbox);
    wp_claim_rig_fini(&rig);
}

/* The cache does not know the Sandbox that the status names, the API server
 * does: nothing is given up. */
static void
sandbox_that_is_not_heard_of_yet(void **state)
{
    const char *uid;
    char text[1024];

    (void)state;
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, 2);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_CLAIM,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\"},\"spec\":{"
        "\"warmPoolRef\":{\"name\":\"p\"}},\"status\":{\"sandbox\":{\"name\":"
        "\"other\"}}}");
    wp_recorder_notify(rig.api);
    uid = wp_claim_rig_uid(&rig, "c");
    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"other\","
        "\"ownerReferences\":[{\"apiVersion\":"
        "\"extensions.agents.x-k8s.io/v1alpha1\",\"kind\":"
        "\"SandboxClaim\",\"name\":\"c\",\"uid\":\"%s\","
        "\"controller\":true}]},\"spec\":{},\"status\":{"
        "\"conditions\":[" READY("True", "R", "2026-01-01T00:00:09Z") "]}}",
        uid);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX, text);
    assert_int_equal(event_base_loop(rig.parts.base, EVLOOP_NONBLOCK), 0);
    assert_non_null(wp_recorder_open(rig.api, WP_VERB_GET, WP_KIND_SANDBOX));
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_sandbox(&rig, "c"), "other");
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "status"), "True");
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 0);
    wp_claim_rig_fini(&rig);
}

/* The claim goes, the garbage collector takes the Sandbox: nothing is written,
 * and the core's lease ends. */
static void
deleted_claim(void **state)
{
    uint32_t writes;

    (void)state;
    begin_bound(1, NULL);
    (void)wp_claim_rig_make_ready(&rig, 1);
    writes = wp_recorder_count(rig.api, WP_VERB_WRITES, WP_KIND_COUNT);
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 1);
    wp_claim_rig_unclaim(&rig, "c");
    wp_claim_rig_advance(&rig, 100 * MS);
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_WRITES, WP_KIND_COUNT),
                     writes);
    assert_null(wp_claim_rig_object(&rig, sandbox));
    /* Its name is free for another one. */
    wp_claim_rig_claim(&rig, "c", NULL);
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "status"), "True");
    assert_string_not_equal(wp_claim_rig_sandbox(&rig, "c"), sandbox);
    wp_claim_rig_fini(&rig);
}

/* Without a garbage collector, its work is done here. */
static void
deleted_claim_without_collector(void **state)
{
    (void)state;
    wp_claim_rig_init(&rig);
    rig.parts.config.gc = true;
    wp_claim_rig_start(&rig, 1);
    wp_claim_rig_claim(&rig, "c", NULL);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "c");
    wp_claim_rig_settle(&rig);
    assert_int_equal(
        wp_recorder_count(rig.api, WP_VERB_DELETE, WP_KIND_SANDBOX), 1);
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 0);
    wp_claim_rig_fini(&rig);
}

/* The same, when deletions fail at first: they are tried until they are done. */
static void
deleted_claim_without_collector_in_trouble(void **state)
{
    (void)state;
    wp_claim_rig_init(&rig);
    rig.parts.config.gc = true;
    wp_claim_rig_start(&rig, 1);
    wp_claim_rig_claim(&rig, "c", NULL);
    (void)snprintf(sandbox, sizeof sandbox, "%s",
                   wp_claim_rig_sandbox(&rig, "c"));
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_DELETE,
                                                 .kind = WP_KIND_SANDBOX,
                                                 .times = 3,
                                                 .status = WP_UNAVAILABLE});
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "c");
    for (int i = 0; i < 10; i++) {
        wp_claim_rig_advance(&rig, 1 * S);
    }
    assert_null(wp_claim_rig_object(&rig, sandbox));
    assert_int_equal(deletes(WP_KIND_SANDBOX), 4);
    wp_claim_rig_fini(&rig);
}

/* --- Expiry --- */

#define UNTIL(policy)                                                          \
    "\"lifecycle\":{\"shutdownTime\":\"2026-01-01T00:01:00Z\","                \
    "\"shutdownPolicy\":\"" policy "\"}"

static void
expires_and_is_deleted(void **state)
{
    static const char *const specs[] = {UNTIL("Delete"),
                                        UNTIL("DeleteForeground")};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct wp_recorded *call;

        begin_bound(1, specs[i]);
        wp_claim_rig_advance(&rig, 59 * S);
        assert_non_null(claim());
        assert_int_equal(statuses(), 1);
        wp_claim_rig_advance(&rig, 1 * S);
        assert_int_equal(statuses(), 2);
        /* In the foreground it goes after its Sandbox. */
        assert_int_equal(
            wp_json_at(claim(), "metadata", "deletionTimestamp", NULL) != NULL,
            i == 1);
        assert_int_equal(claim() != NULL, i == 1);
        call = wp_recorder_last(rig.api, WP_VERB_DELETE, WP_KIND_SANDBOX_CLAIM);
        assert_non_null(call);
        assert_int_equal(call->foreground, i == 1);
        assert_string_not_equal(call->uid, "");
        assert_int_equal(events("ClaimExpired"), 2);
        assert_int_equal(
            wp_recorder_count(rig.api, WP_VERB_DELETE, WP_KIND_SANDBOX), 0);
        wp_claim_rig_fini(&rig);
    }
}

/* Retained: the Sandbox goes, the claim stays and says why. */
static void
expires_and_is_retained(void **state)
{
    (void)state;
    begin_bound(1, UNTIL("Retain"));
    wp_claim_rig_advance(&rig, 61 * S);
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                        "ClaimExpired");
    assert_null(wp_claim_rig_object(&rig, sandbox));
    assert_string_equal(wp_claim_rig_sandbox(&rig, "c"), "");
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 0);
    assert_int_equal(events("ClaimExpired"), 1);
    /* And then it rests. */
    (void)wp_claim_rig_make_ready(&rig, 1);
    wp_claim_rig_advance(&rig, 3600 * S);
    assert_string_equal(wp_claim_rig_sandbox(&rig, "c"), "");
    assert_int_equal(statuses(), 3);
    wp_claim_rig_fini(&rig);
}

/* So many seconds after its work was done; the condition that says so stays. */
static void
expires_after_its_work(void **state)
{
    (void)state;
    begin_bound(1, "\"lifecycle\":{\"ttlSecondsAfterFinished\":30,"
                   "\"shutdownPolicy\":\"Retain\"}");
    wp_claim_rig_advance(&rig, 3600 * S);
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "status"), "True");
    change_sandbox("{\"status\":{\"conditions\":[" READY(
        "False", "PodSucceeded",
        "2026-01-01T01:00:00Z") ",{"
                                "\"type\":\"Finished\",\"status\":\"True\","
                                "\"reason\":\"PodSucceeded\","
                                "\"message\":\"done\",\"lastTransitionTime\":"
                                "\"2026-01-01T01:00:00Z\"}]"
                                "}}");
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                        "PodSucceeded");
    wp_claim_rig_advance(&rig, 29 * S);
    assert_non_null(wp_claim_rig_object(&rig, sandbox));
    wp_claim_rig_advance(&rig, 2 * S);
    assert_null(wp_claim_rig_object(&rig, sandbox));
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                        "ClaimExpired");
    assert_int_equal(
        json_array_size(wp_json_at(claim(), "status", "conditions", NULL)), 2);
    wp_claim_rig_fini(&rig);
}

/* Its time was over before it was served, or while it waited. */
static void
expires_unserved(void **state)
{
    (void)state;
    wp_claim_rig_init(&rig);
    rig.parts.config.cold_start = false;
    wp_claim_rig_start(&rig, 1);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "c", UNTIL("Retain"));
    wp_claim_rig_advance(&rig, 10 * S);
    assert_int_equal(wp_claim_rig_stats(&rig).waiting, 1);
    wp_claim_rig_advance(&rig, 60 * S);
    assert_int_equal(wp_claim_rig_stats(&rig).waiting, 0);
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                        "ClaimExpired");
    wp_claim_rig_claim(&rig, "late", UNTIL("Delete"));
    assert_null(
        wp_recorder_object(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "late"));
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 1);
    wp_claim_rig_fini(&rig);
}

/* What stands under its name is not its own: it stays. */
static void
expired_claim_spares_what_is_not_its_own(void **state)
{
    (void)state;
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, 1);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX,
                          "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\"},"
                          "\"spec\":{}}");
    wp_claim_rig_advance(&rig, 120 * S);
    wp_claim_rig_claim(&rig, "c", UNTIL("Retain"));
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                        "ClaimExpired");
    assert_non_null(wp_claim_rig_object(&rig, "c"));
    wp_claim_rig_fini(&rig);
}

#define RENEWAL                                                                \
    "{\"spec\":{\"lifecycle\":{\"shutdownTime\":\"2027-01-01T00:00:00Z\"}}}"

/* It was renewed, though the watch has not told: it lives on, with its Sandbox,
 * and nobody is told that its time was over. */
static void
renewed_while_the_watch_lags(void **state)
{
    static const char *const specs[] = {UNTIL("Delete"), UNTIL("Retain"),
                                        UNTIL("DeleteForeground")};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        begin_bound(1, specs[i]);
        wp_recorder_hold(rig.api, true);
        (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "c",
                                RENEWAL);
        wp_claim_rig_advance(&rig, 61 * S);
        assert_string_equal(wp_claim_rig_ready(&rig, "c", "status"), "True");
        assert_int_equal(deletes(WP_KIND_SANDBOX_CLAIM), 0);
        assert_int_equal(deletes(WP_KIND_SANDBOX), 0);
        assert_int_equal(events("ClaimExpired"), 0);
        assert_string_equal(wp_claim_rig_sandbox(&rig, "c"), sandbox);
        wp_recorder_hold(rig.api, false);
        wp_claim_rig_advance(&rig, 60 * S);
        assert_string_equal(wp_claim_rig_ready(&rig, "c", "status"), "True");
        wp_claim_rig_fini(&rig);
    }
}

/* It was renewed between the status that says it has expired and its end, by
 * somebody who knew that status. */
static void
renewed_before_its_end(void **state)
{
    static const char *const specs[] = {UNTIL("Delete"), UNTIL("Retain"),
                                        UNTIL("DeleteForeground")};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        begin_bound(1, specs[i]);
        /* The end fails once, and is tried again after a pause. */
        wp_recorder_plan(rig.api, &(struct wp_recorder_fault){
                                      .verb = WP_VERB_DELETE,
                                      .kind = i == 1 ? WP_KIND_SANDBOX
                                                     : WP_KIND_SANDBOX_CLAIM,
                                      .status = WP_UNAVAILABLE});
        wp_claim_rig_advance(&rig, 61 * S);
        assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                            "ClaimExpired");
        wp_recorder_hold(rig.api, true);
        (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "c",
                                RENEWAL);
        for (int n = 0; n < 10; n++) {
            wp_claim_rig_advance(&rig, 1 * S);
        }
        assert_string_equal(wp_claim_rig_sandbox(&rig, "c"), sandbox);
        assert_non_null(wp_claim_rig_object(&rig, sandbox));
        assert_string_equal(wp_claim_rig_ready(&rig, "c", "status"), "True");
        wp_recorder_hold(rig.api, false);
        wp_claim_rig_fini(&rig);
    }
}

/* What was decided on an older spec is not written with a newer one's
 * generation: clients give up at once on some of these reasons. */
static void
mended_while_the_watch_lags(void **state)
{
    (void)state;
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, 1);
    wp_recorder_hold(rig.api, true);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_CLAIM,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\"},\"spec\":{"
        "\"warmPoolRef\":{\"name\":\"p\"},\"additionalPodMetadata\":{"
        "\"labels\":{\"kubernetes.io/x\":\"y\"}}}}");
    wp_recorder_hold(rig.api, false);
    wp_recorder_hold(rig.api, true);
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "c",
                            "{\"spec\":{\"additionalPodMetadata\":null}}");
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                        "DependenciesReady");
    for (uint32_t i = 0; i < wp_recorder_calls(rig.api); i++) {
        const struct wp_recorded *call = wp_recorder_call(rig.api, i);
        const json_t *ready = json_array_get(
            wp_json_at(call->body, "status", "conditions", NULL), 0);

        assert_false(strcmp(wp_json_text(ready, "reason", NULL),
                            "InvalidMetadata") == 0 &&
                     json_integer_value(
                         json_object_get(ready, "observedGeneration")) == 2);
    }
    wp_recorder_hold(rig.api, false);
    wp_claim_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_sandbox),
        cmocka_unit_test(service_name_that_is_dropped),
        cmocka_unit_test(sandbox_that_expired_by_itself),
        cmocka_unit_test(lost_sandbox),
        cmocka_unit_test(sandbox_that_is_not_heard_of_yet),
        cmocka_unit_test(deleted_claim),
        cmocka_unit_test(deleted_claim_without_collector),
        cmocka_unit_test(deleted_claim_without_collector_in_trouble),
        cmocka_unit_test(expires_and_is_deleted),
        cmocka_unit_test(expires_and_is_retained),
        cmocka_unit_test(expires_after_its_work),
        cmocka_unit_test(expires_unserved),
        cmocka_unit_test(expired_claim_spares_what_is_not_its_own),
        cmocka_unit_test(renewed_while_the_watch_lags),
        cmocka_unit_test(renewed_before_its_end),
        cmocka_unit_test(mended_while_the_watch_lags),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
