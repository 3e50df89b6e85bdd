/* SandboxClaims with no warm sandbox at hand: who waits, for how long, who
 * starts cold, and what people are told meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/controllers/verdicts.h"
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

static uint32_t
colds(void)
{
    return wp_recorder_count(rig.api, WP_VERB_POST, WP_KIND_SANDBOX);
}

static const char *
launch_type(const char *claim)
{
    return wp_json_text(
        wp_claim_rig_object(&rig, wp_claim_rig_sandbox(&rig, claim)),
        "metadata", "labels", WP_LABEL_LAUNCH_TYPE, NULL);
}

/* Candidates exist, none is ready: it waits, says nothing, and is woken by the
 * hand-off; no polling. */
static void
waits_for_the_next_ready_one(void **state)
{
    uint64_t reconciles;

    (void)state;
    begin(1);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "b", NULL);
    assert_string_equal(wp_claim_rig_sandbox(&rig, "b"), "");
    assert_string_equal(wp_claim_rig_ready(&rig, "b", "status"), "");
    reconciles = wp_claim_rig_reconciles(&rig);
    wp_claim_rig_advance(&rig, 1 * S);
    assert_int_equal(wp_claim_rig_reconciles(&rig), reconciles);
    assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
    assert_string_equal(wp_claim_rig_ready(&rig, "b", "status"), "True");
    assert_string_equal(launch_type("b"), "warm");
    assert_int_equal(colds(), 0);
    assert_int_equal(
        wp_counter_read(&wp_claim_controller_metrics(rig.controller)->queued),
        1);
    wp_claim_rig_fini(&rig);
}

/* Its channel is full: the answer is found all the same. */
static void
answer_survives_a_full_channel(void **state)
{
    (void)state;
    begin(1);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "b", NULL);
    rig.channel_full = true;
    assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
    assert_string_equal(wp_claim_rig_sandbox(&rig, "b"), "");
    /* A timer of the loop, in real time. */
    assert_int_equal(event_base_loop(rig.parts.base, EVLOOP_ONCE), 0);
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_ready(&rig, "b", "status"), "True");
    wp_claim_rig_fini(&rig);
}

/* First come, first served, when several wait. */
static void
waiters_are_served_in_order(void **state)
{
    (void)state;
    begin(3);
    for (int i = 0; i < 5; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "c%d", i);
        wp_claim_rig_claim(&rig, name, NULL);
    }
    assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
    assert_string_not_equal(wp_claim_rig_sandbox(&rig, "c3"), "");
    assert_string_equal(wp_claim_rig_sandbox(&rig, "c4"), "");
    assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
    assert_string_equal(launch_type("c4"), "warm");
    wp_claim_rig_fini(&rig);
}

/* The grace is over: cold, once. */
static void
cold_after_the_grace(void **state)
{
    (void)state;
    begin(1);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "b", NULL);
    wp_claim_rig_advance(&rig, 1900 * MS);
    assert_int_equal(colds(), 0);
    wp_claim_rig_advance(&rig, 200 * MS);
    assert_int_equal(colds(), 1);
    assert_string_equal(wp_claim_rig_sandbox(&rig, "b"), "b");
    assert_string_equal(wp_claim_rig_ready(&rig, "b", "reason"),
                        "SandboxNotReady");
    assert_string_equal(launch_type("b"), "cold");
    assert_int_equal(wp_claim_rig_stats(&rig).waiting, 0);
    /* One that becomes ready now is for others. */
    assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
    assert_int_equal(wp_claim_rig_stats(&rig).ready, 1);
    wp_claim_rig_fini(&rig);
}

/* Its time is over while it waits for a sandbox: that is told then, not when the
 * grace is over. */
static void
a_claim_that_waits_ends_in_its_time(void **state)
{
    (void)state;
    for (int cold = 0; cold < 2; cold++) {
        wp_claim_rig_init(&rig);
        rig.parts.config.cold_start = cold;
        rig.parts.config.cold_grace_ns = 600 * S;
        wp_claim_rig_start(&rig, 1);
        wp_claim_rig_claim(&rig, "a", NULL);
        wp_claim_rig_claim(&rig, "b",
                           "\"lifecycle\":{\"shutdownTime\":"
                           "\"2026-01-01T00:00:05Z\",\"shutdownPolicy\":"
                           "\"Retain\"}");
        assert_int_equal(wp_claim_rig_stats(&rig).waiting, 1);
        wp_claim_rig_advance(&rig, 4800 * MS);
        assert_string_equal(wp_claim_rig_ready(&rig, "b", "reason"), "");
        wp_claim_rig_advance(&rig, 100 * MS);
        assert_string_equal(wp_claim_rig_ready(&rig, "b", "reason"),
                            "ClaimExpired");
        assert_int_equal(wp_claim_rig_stats(&rig).waiting, 0);
        wp_claim_rig_fini(&rig);
    }
}

static void
claim_many(uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "c%u", i);
        wp_claim_rig_claim(&rig, name, NULL);
    }
}

/* A pool of 5 whose sandboxes were measured to take so long. */
static void
begin_measured(int64_t lead_ns)
{
    wp_claim_rig_init(&rig);
    rig.lead_ns = lead_ns;
    wp_claim_rig_start(&rig, 5);
}

/* The next ones take longer than the grace, and no cold start is slower. */
static void
cold_at_once_when_refill_is_slow(void **state)
{
    (void)state;
    begin_measured(3 * S);
    claim_many(0, 20);
    assert_int_equal(colds(), 15);
    assert_string_equal(wp_claim_rig_sandbox(&rig, "c5"), "c5");
    assert_int_equal(wp_claim_rig_stats(&rig).waiting, 0);
    /* 1.5 s on, the five that were ordered then are nearer than a cold start;
     * a sixth claim's is not even ordered. */
    wp_claim_rig_advance(&rig, 1500 * MS);
    claim_many(20, 6);
    assert_int_equal(colds(), 16);
    assert_int_equal(wp_claim_rig_stats(&rig).waiting, 5);
    assert_string_equal(wp_claim_rig_sandbox(&rig, "c25"), "c25");
    wp_claim_rig_advance(&rig, 1500 * MS);
    assert_int_equal(wp_claim_rig_make_ready(&rig, 5), 5);
    assert_int_equal(colds(), 16);
    assert_string_equal(launch_type("c24"), "warm");
    wp_claim_rig_fini(&rig);
}

/* Within the grace as many wait as are being made; the rest would wait for two
 * in a row. */
static void
waits_for_what_comes_soon(void **state)
{
    (void)state;
    begin_measured(1 * S);
    claim_many(0, 20);
    assert_int_equal(wp_claim_rig_stats(&rig).waiting, 5);
    assert_int_equal(colds(), 10);
    wp_claim_rig_advance(&rig, 1 * S);
    assert_int_equal(wp_claim_rig_make_ready(&rig, 5), 5);
    assert_int_equal(colds(), 10);
    assert_string_equal(launch_type("c9"), "warm");
    wp_claim_rig_fini(&rig);
}

/* What was waited for does not come: the grace is the most that it costs. */
static void
late_refill_costs_the_grace(void **state)
{
    (void)state;
    begin_measured(1 * S);
    claim_many(0, 6);
    assert_int_equal(colds(), 0);
    wp_claim_rig_advance(&rig, 1900 * MS);
    assert_int_equal(colds(), 0);
    wp_claim_rig_advance(&rig, 200 * MS);
    assert_int_equal(colds(), 1);
    wp_claim_rig_fini(&rig);
}

static void
annotated(enum wp_cold_start cold_start)
{
    struct wp_pool_spec spec = wp_claim_rig_stats(&rig).spec;
    struct wp_err err;

    spec.cold_start = cold_start;
    spec.cold_start_said = true;
    assert_int_equal(wp_pools_update(rig.pools, 0, &spec, &err), WP_OK);
}

/* The pool's annotation comes before the setting. */
static void
pool_says_whether_claims_start_cold(void **state)
{
    (void)state;
    begin(1);
    annotated(WP_COLD_NEVER);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "b", NULL);
    wp_claim_rig_advance(&rig, 5 * S);
    assert_int_equal(colds(), 0);
    assert_int_equal(wp_claim_rig_stats(&rig).waiting, 1);
    assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
    assert_string_equal(launch_type("b"), "warm");
    wp_claim_rig_fini(&rig);

    wp_claim_rig_init(&rig);
    rig.parts.config.cold_start = false;
    wp_claim_rig_start(&rig, 0);
    annotated(WP_COLD_ALLOWED);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_advance(&rig, 3 * S);
    assert_int_equal(colds(), 1);
    wp_claim_rig_fini(&rig);
}

/* Nobody knows whether the cold Sandbox was made, and now there is a warm one:
 * the claim takes no second one. */
static void
cold_start_in_doubt(void **state)
{
    (void)state;
    begin(1);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "b", NULL);
    wp_recorder_hold(rig.api, true);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = WP_KIND_SANDBOX,
                                                 .status = WP_UNKNOWN_OUTCOME,
                                                 .effect = true});
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_GET,
                                                 .kind = WP_KIND_SANDBOX,
                                                 .status = WP_UNAVAILABLE});
    wp_claim_rig_advance(&rig, 2100 * MS);
    assert_int_equal(colds(), 1);
    assert_non_null(wp_claim_rig_object(&rig, "b"));
    assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
    wp_claim_rig_advance(&rig, 100 * MS);
    assert_string_equal(wp_claim_rig_sandbox(&rig, "b"), "b");
    assert_int_equal(wp_claim_rig_stats(&rig).ready, 1);
    wp_recorder_hold(rig.api, false);
    wp_claim_rig_fini(&rig);
}

/* A pool of none: nothing to wait for. */
static void
cold_at_once_without_candidates(void **state)
{
    const json_t *made;

    (void)state;
    begin(0);
    wp_claim_rig_claim(&rig, "a", NULL);
    assert_int_equal(colds(), 1);
    assert_string_equal(wp_claim_rig_sandbox(&rig, "a"), "a");
    made = wp_claim_rig_object(&rig, "a");
    assert_string_equal(wp_claim_rig_owner(&rig, "a"),
                        wp_claim_rig_uid(&rig, "a"));
    assert_string_equal(wp_json_text(made, "metadata", "annotations",
                                     WP_ANNOTATION_TEMPLATE_REF, NULL),
                        "t");
    assert_string_equal(wp_json_text(made, "spec", "podTemplate", "metadata",
                                     "labels", WP_LABEL_CLAIM_UID, NULL),
                        wp_claim_rig_uid(&rig, "a"));
    assert_true(
        json_is_false(wp_json_at(made, "spec", "podTemplate", "spec",
                                 "automountServiceAccountToken", NULL)));
    /* W1; status; nothing else until it is Ready. */
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, false),
                     1);
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, true), 1);
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX, "ns", "a",
        "{\"status\":{\"podIPs\":[\"10.1.1.1\"],\"conditions\":[{\"type\":"
        "\"Ready\",\"status\":\"True\",\"reason\":\"DependenciesReady\","
        "\"message\":\"m\",\"lastTransitionTime\":\"2026-01-01T00:00:05Z\"}]}"
        "}");
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "status"), "True");
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, true), 2);
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, false),
                     2);
    wp_claim_rig_fini(&rig);
}

/* The server fails with each POST: the claim says what it said, and the pauses
 * grow. */
static void
server_error_at_a_cold_start(void **state)
{
    (void)state;
    begin(0);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = WP_KIND_SANDBOX,
                                                 .times = 12,
                                                 .status = WP_UNKNOWN_OUTCOME,
                                                 .code = 500,
                                                 .message = "etcd is full"});
    wp_claim_rig_claim(&rig, "a", NULL);
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "reason"),
                        "ReconcilerError");
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "message"),
                        "Error seen: creating the sandbox: etcd is full");
    for (int i = 0; i < 10; i++) {
        wp_claim_rig_advance(&rig, 100 * MS);
    }
    assert_in_range(colds(), 2, 11);
    for (int i = 0; i < 200 && wp_recorder_planned(rig.api) > 0; i++) {
        wp_claim_rig_advance(&rig, 10 * S);
    }
    wp_claim_rig_advance(&rig, 60 * S);
    assert_string_equal(wp_claim_rig_sandbox(&rig, "a"), "a");
    wp_claim_rig_fini(&rig);
}

/* Cold starts are off: it waits on, and after the grace says so, truthfully and
 * once. */
static void
waits_on_without_cold_starts(void **state)
{
    (void)state;
    wp_claim_rig_init(&rig);
    rig.parts.config.cold_start = false;
    wp_claim_rig_start(&rig, 1);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "b", NULL);
    assert_string_equal(wp_claim_rig_ready(&rig, "b", "reason"), "");
    wp_claim_rig_advance(&rig, 3 * S);
    assert_string_equal(wp_claim_rig_ready(&rig, "b", "reason"),
                        "SandboxNotReady");
    for (int i = 0; i < 20; i++) {
        wp_claim_rig_advance(&rig, 60 * S);
    }
    assert_int_equal(colds(), 0);
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, true), 2);
    assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
    wp_claim_rig_advance(&rig, 1 * S);
    assert_string_equal(wp_claim_rig_ready(&rig, "b", "status"), "True");
    wp_claim_rig_fini(&rig);
}

/* What it waits for cannot be made: it says why, also of an earlier claim, and
 * says no longer so once that is mended. A claim that may start cold hears it
 * from its own Sandbox. */
static void
waits_for_a_refused_template(void **state)
{
    const struct wp_object *templ;

    (void)state;
    for (int cold = 0; cold < 2; cold++) {
        wp_claim_rig_init(&rig);
        rig.parts.config.cold_start = cold == 1;
        wp_claim_rig_start(&rig, 1);
        wp_claim_rig_claim(&rig, "a", NULL);
        wp_claim_rig_claim(&rig, "b", NULL);
        templ = wp_store_find(rig.parts.stores[WP_KIND_SANDBOX_TEMPLATE], "ns",
                              "t");
        assert_true(wp_verdicts_set(rig.parts.verdicts, templ,
                                    "spec.containers: Required value"));
        wp_claim_rig_advance(&rig, 1 * S);
        assert_string_equal(wp_claim_rig_ready(&rig, "a", "status"), "True");
        assert_string_equal(
            wp_claim_rig_ready(&rig, "b", "message"),
            cold == 1 ? ""
                      : "The API server refuses every Pod of SandboxTemplate "
                        "\"t\": spec.containers: Required value");
        if (cold == 0) {
            wp_claim_rig_advance(&rig, 3 * S);
            assert_string_equal(wp_claim_rig_ready(&rig, "b", "reason"),
                                "ReconcilerError");
            assert_true(wp_verdicts_set(rig.parts.verdicts, templ, NULL));
            wp_claim_rig_advance(&rig, 1 * S);
            assert_string_equal(wp_claim_rig_ready(&rig, "b", "reason"),
                                "SandboxNotReady");
            assert_int_equal(colds(), 0);
        }
        assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
        wp_claim_rig_advance(&rig, 1 * S);
        assert_string_equal(wp_claim_rig_ready(&rig, "b", "status"), "True");
        wp_claim_rig_fini(&rig);
    }
}

/* A claim that goes while it waits leaves nothing behind. */
static void
deleted_while_it_waits(void **state)
{
    (void)state;
    begin(1);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "b", NULL);
    assert_int_equal(wp_claim_rig_stats(&rig).waiting, 1);
    wp_claim_rig_unclaim(&rig, "b");
    assert_int_equal(wp_claim_rig_stats(&rig).waiting, 0);
    assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
    assert_int_equal(wp_claim_rig_stats(&rig).ready, 1);
    wp_claim_rig_advance(&rig, 5 * S);
    assert_int_equal(colds(), 0);
    wp_claim_rig_fini(&rig);
}

/* It waits, and names another pool now. */
static void
waiting_claim_changes_its_pool(void **state)
{
    (void)state;
    begin(1);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "b", NULL);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_WARM_POOL,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"none\"},\"spec\":{"
        "\"replicas\":0,\"sandboxTemplateRef\":{\"name\":\"t\"}}}");
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "b",
                            "{\"spec\":{\"warmPoolRef\":{\"name\":\"none\"}}}");
    wp_claim_rig_settle(&rig);
    assert_int_equal(wp_claim_rig_stats(&rig).waiting, 0);
    /* The core does not know that pool: cold once the grace is over. */
    for (int i = 0; i < 30; i++) {
        wp_claim_rig_advance(&rig, 100 * MS);
    }
    assert_string_equal(wp_claim_rig_sandbox(&rig, "b"), "b");
    wp_claim_rig_fini(&rig);
}

/* --- What is missing --- */

/* The claim was heard of before its pool was: nobody is told that it is
 * missing, for clients give up on that. */
static void
pool_that_is_not_heard_of_yet(void **state)
{
    const struct wp_recorded *get;

    (void)state;
    begin(1);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM,
                          "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\"},"
                          "\"spec\":{\"warmPoolRef\":{\"name\":\"late\"}}}");
    wp_recorder_notify(rig.api);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_WARM_POOL,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"late\"},\"spec\":{"
        "\"replicas\":0,\"sandboxTemplateRef\":{\"name\":\"t\"}}}");
    assert_int_equal(event_base_loop(rig.parts.base, EVLOOP_NONBLOCK), 0);
    get = wp_recorder_open(rig.api, WP_VERB_GET, WP_KIND_SANDBOX_WARM_POOL);
    assert_non_null(get);
    assert_string_equal(get->name, "late");
    for (int i = 0; i < 30; i++) {
        wp_claim_rig_advance(&rig, 100 * MS);
        assert_string_not_equal(wp_claim_rig_ready(&rig, "a", "reason"),
                                "WarmPoolNotFound");
    }
    assert_string_equal(wp_claim_rig_sandbox(&rig, "a"), "a");
    wp_claim_rig_fini(&rig);
}

static void
missing_pool_is_told_and_found_later(void **state)
{
    (void)state;
    begin(1);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM,
                          "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\"},"
                          "\"spec\":{\"warmPoolRef\":{\"name\":\"nopool\"}}}");
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "reason"),
                        "WarmPoolNotFound");
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "message"),
                        "SandboxWarmPool \"nopool\" not found");
    /* A minute later it looks again, and writes nothing new. */
    wp_claim_rig_advance(&rig, 61 * S);
    assert_int_equal(
        wp_recorder_count(rig.api, WP_VERB_GET, WP_KIND_SANDBOX_WARM_POOL), 2);
    assert_int_equal(wp_claim_rig_writes(&rig, WP_KIND_SANDBOX_CLAIM, true), 1);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_WARM_POOL,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"nopool\"},\"spec\":{"
        "\"replicas\":0,\"sandboxTemplateRef\":{\"name\":\"t2\"}}}");
    for (int i = 0; i < 10; i++) {
        wp_claim_rig_advance(&rig, 1 * S);
    }
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "reason"),
                        "TemplateNotFound");
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_TEMPLATE,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"t2\"},\"spec\":{"
        "\"podTemplate\":{\"spec\":{\"containers\":[{\"name\":\"m\"}]}}}}");
    wp_claim_rig_advance(&rig, 1 * S);
    assert_string_equal(wp_claim_rig_sandbox(&rig, "a"), "a");
    wp_claim_rig_fini(&rig);
}

/* The API server does not answer when it is asked for the pool: nothing is
 * told. */
static void
unreachable_is_not_missing(void **state)
{
    (void)state;
    begin(1);
    wp_recorder_plan(
        rig.api, &(struct wp_recorder_fault){.verb = WP_VERB_GET,
                                             .kind = WP_KIND_SANDBOX_WARM_POOL,
                                             .status = WP_UNAVAILABLE,
                                             .times = 3});
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM,
                          "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\"},"
                          "\"spec\":{\"warmPoolRef\":{\"name\":\"nopool\"}}}");
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "reason"), "");
    for (int i = 0; i < 10; i++) {
        wp_claim_rig_advance(&rig, 1 * S);
    }
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "reason"),
                        "WarmPoolNotFound");
    wp_claim_rig_fini(&rig);
}

/* A Sandbox of the claim's name that is not its own: never served, also warm;
 * served when it goes. */
static void
foreign_sandbox_of_its_name(void **state)
{
    (void)state;
    begin(1);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX,
                          "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\"},"
                          "\"spec\":{}}");
    wp_claim_rig_claim(&rig, "a", NULL);
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "reason"),
                        "ReconcilerError");
    assert_string_equal(wp_claim_rig_sandbox(&rig, "a"), "");
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 0);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "ns", "a");
    wp_claim_rig_settle(&rig);
    wp_claim_rig_advance(&rig, 1 * S);
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "status"), "True");
    wp_claim_rig_fini(&rig);
}

static void
put_claim(const char *spec)
{
    char text[512];

    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\"},\"spec\":"
        "{\"warmPoolRef\":{\"name\":\"p\"}%s}}",
        spec);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM, text);
    wp_claim_rig_settle(&rig);
}

/* A claim of a name that another one had: its Sandbox's end is no event of this
 * claim's, and what it waits for all the same. */
static void
second_of_a_name(void **state)
{
    (void)state;
    begin(0);
    put_claim("");
    assert_string_equal(wp_claim_rig_sandbox(&rig, "c"), "c");
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "c");
    put_claim("");
    for (int i = 0; i < 20; i++) {
        wp_claim_rig_advance(&rig, 2 * S);
    }
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                        "ReconcilerError");
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "ns", "c");
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_owner(&rig, "c"),
                        wp_claim_rig_uid(&rig, "c"));
    wp_claim_rig_fini(&rig);
}

/* A claim that waits is changed so that it cannot be served: what it would have
 * been granted stays for others. */
static void
invalid_claims_hold_nothing(void **state)
{
    static const char *const specs[] = {
        "{\"spec\":{\"additionalPodMetadata\":{\"labels\":{"
        "\"kubernetes.io/x\":\"y\"}}}}",
        "{\"spec\":{\"additionalPodMetadata\":{\"annotations\":{"
        "\"note\":\"other\"}}}}",
        "{\"spec\":{\"env\":[{\"name\":\"A\",\"value\":\"2\"}]}}",
    };
    static const char *const reasons[] = {"InvalidMetadata", "ReconcilerError",
                                          "EnvVarsInjectionRejected"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(specs); i++) {
        begin(1);
        wp_claim_rig_claim(&rig, "a", NULL);
        put_claim("");
        assert_int_equal(wp_claim_rig_stats(&rig).waiting, 1);
        (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "c",
                                specs[i]);
        wp_claim_rig_settle(&rig);
        assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                            reasons[i]);
        assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
        assert_int_equal(wp_claim_rig_stats(&rig).leased, 1);
        assert_int_equal(wp_claim_rig_stats(&rig).ready, 1);
        wp_claim_rig_fini(&rig);
    }
}

/* The pool was made anew, and the core has yet to hear of it. */
static void
no_sandbox_of_a_pool_that_is_gone(void **state)
{
    char old[64] = "";

    (void)state;
    begin(1);
    (void)snprintf(old, sizeof old, "%s", rig.orders[0].name);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p");
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_WARM_POOL,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"p\"},\"spec\":{"
        "\"replicas\":1,\"sandboxTemplateRef\":{\"name\":\"t\"}}}");
    wp_recorder_notify(rig.api);
    put_claim("");
    assert_string_not_equal(wp_claim_rig_sandbox(&rig, "c"), old);
    wp_claim_rig_advance(&rig, 100 * MS);
    assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
    for (int i = 0; i < 10; i++) {
        wp_claim_rig_advance(&rig, 100 * MS);
    }
    assert_string_not_equal(wp_claim_rig_sandbox(&rig, "c"), old);
    assert_string_not_equal(wp_claim_rig_sandbox(&rig, "c"), "");
    wp_claim_rig_fini(&rig);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_for_the_next_ready_one),
        cmocka_unit_test(answer_survives_a_full_channel),
        cmocka_unit_test(waiters_are_served_in_order),
        cmocka_unit_test(cold_after_the_grace),
        cmocka_unit_test(a_claim_that_waits_ends_in_its_time),
        cmocka_unit_test(cold_at_once_when_refill_is_slow),
        cmocka_unit_test(waits_for_what_comes_soon),
        cmocka_unit_test(late_refill_costs_the_grace),
        cmocka_unit_test(pool_says_whether_claims_start_cold),
        cmocka_unit_test(cold_start_in_doubt),
        cmocka_unit_test(cold_at_once_without_candidates),
        cmocka_unit_test(server_error_at_a_cold_start),
        cmocka_unit_test(waits_on_without_cold_starts),
        cmocka_unit_test(waits_for_a_refused_template),
        cmocka_unit_test(deleted_while_it_waits),
        cmocka_unit_test(waiting_claim_changes_its_pool),
        cmocka_unit_test(pool_that_is_not_heard_of_yet),
        cmocka_unit_test(missing_pool_is_told_and_found_later),
        cmocka_unit_test(unreachable_is_not_missing),
        cmocka_unit_test(foreign_sandbox_of_its_name),
        cmocka_unit_test(second_of_a_name),
        cmocka_unit_test(invalid_claims_hold_nothing),
        cmocka_unit_test(no_sandbox_of_a_pool_that_is_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
