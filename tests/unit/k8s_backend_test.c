/* The core's backend for a cluster, on a small server in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/json.h"
#include "k8s/lease_note.h"
#include "k8s/names.h"
#include "tests/support/cluster_rig.h"
#include "tests/support/model_store.h"

#define S WP_NS_PER_S
#define KIND WP_KIND_SANDBOX

static struct wp_cluster_rig rig;

struct held {
    struct wp_claim claim;
    uint32_t answers;
};

static void
claim_done(struct wp_claim *claim)
{
    ((struct held *)claim->ctx)->answers++;
}

static void
nothing(void *ctx)
{
    (void)ctx;
}

static enum wp_status
claim(struct held *held, const char *id, const char *tenant)
{
    memset(held, 0, sizeof *held);
    held->claim.pool_namespace = WP_STR("ns");
    held->claim.pool = WP_STR("p");
    held->claim.claim_id = wp_str_from(id);
    held->claim.tenant = wp_str_from(tenant);
    held->claim.lasting = strcmp(tenant, WP_TENANT_SANDBOX_CLAIMS) == 0;
    held->claim.done = claim_done;
    held->claim.ctx = held;
    return wp_pools_claim(rig.pools, &held->claim);
}

static void
start(int replicas)
{
    wp_cluster_rig_init(&rig, replicas, NULL);
    wp_cluster_rig_lead(&rig);
    assert_int_equal(rig.readied, 1);
}

static struct wp_cluster_backend_stats
stats(void)
{
    struct wp_cluster_backend_stats out;

    wp_cluster_backend_stats(rig.backend, &out);
    return out;
}

static uint32_t
objects(void)
{
    return wp_recorder_objects(rig.api, KIND);
}

static const char *
annotation(const char *name, const char *key)
{
    return wp_json_text(wp_recorder_object(rig.api, KIND, "ns", name),
                        "metadata", "annotations", key, NULL);
}

/* Another controller's sandbox of the pool, with upstream's kind of name. */
static void
put_foreign(const char *name)
{
    char text[512];

    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",\"uid\":"
        "\"0a1b2c3d-0000-4000-8000-00000000%04x\",\"ownerReferences\":[{"
        "\"apiVersion\":\"extensions.agents.x-k8s.io/v1alpha1\",\"kind\":"
        "\"SandboxWarmPool\",\"name\":\"p\",\"uid\":\"%s\",\"controller\":"
        "true}]},\"spec\":{\"podTemplate\":{\"spec\":{}}}}",
        name, (unsigned)(unsigned char)name[2],
        wp_json_text(
            wp_recorder_object(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p"),
            "metadata", "uid", NULL));
    (void)wp_recorder_put(rig.api, KIND, text);
}

/* What another controller's adoption makes of it. */
static void
take_away(const char *name)
{
    (void)wp_recorder_merge(
        rig.api, KIND, "ns", name,
        "{\"metadata\":{\"ownerReferences\":[{\"apiVersion\":"
        "\"extensions.agents.x-k8s.io/v1beta1\",\"kind\":\"SandboxClaim\","
        "\"name\":\"c\",\"uid\":\"their-claim\",\"controller\":true}]}}");
}

/* --- Orders --- */

static void
a_pool_is_filled_and_its_sandboxes_become_ready(void **state)
{
    struct held held;

    (void)state;
    start(3);
    assert_int_equal(objects(), 3);
    assert_int_equal(wp_cluster_rig_stats(&rig).warming, 3);
    assert_int_equal(
        strlen(annotation(wp_cluster_rig_name(&rig, 0), WP_ANNOTATION_UID)),
        2 * WP_UID_LEN);
    assert_int_equal(wp_recorder_last(rig.api, WP_VERB_POST, KIND)->priority,
                     WP_HTTP_REFILL);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 3);
    assert_int_equal(claim(&held, "a", "t"), WP_OK);
    assert_string_equal(held.claim.grant.endpoint, "10.0.0.7:8888");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(objects(), 4);
    assert_int_equal(stats().posted, 4);
    wp_cluster_rig_fini(&rig);
}

static void
an_address_of_version_6_is_in_brackets(void **state)
{
    struct held held;

    (void)state;
    start(1);
    wp_cluster_rig_ready(&rig, wp_cluster_rig_name(&rig, 0), "fd00::7");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(claim(&held, "a", "t"), WP_OK);
    assert_string_equal(held.claim.grant.endpoint, "[fd00::7]:8888");
    wp_cluster_rig_fini(&rig);
}

static void
a_lost_answer_makes_no_second_sandbox(void **state)
{
    (void)state;
    wp_cluster_rig_init(&rig, 2, NULL);
    /* One was made all the same, and the watch is late; one was not. */
    wp_recorder_hold(rig.api, true);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = KIND,
                                                 .status = WP_UNKNOWN_OUTCOME,
                                                 .effect = true});
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = KIND,
                                                 .status = WP_UNKNOWN_OUTCOME});
    wp_cluster_rig_lead(&rig);
    for (int i = 0;
         i < 100000 &&
         (objects() < 2 || wp_recorder_count(rig.api, WP_VERB_GET, KIND) < 2);
         i++) {
        wp_cluster_rig_settle(&rig);
    }
    wp_recorder_hold(rig.api, false);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(objects(), 2);
    assert_int_equal(wp_recorder_planned(rig.api), 0);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 2);
    assert_int_equal(wp_cluster_rig_stats(&rig).created_total, 2);
    wp_cluster_rig_fini(&rig);
}

static void
what_is_not_made_for_now_is_made_later(void **state)
{
    (void)state;
    wp_cluster_rig_init(&rig, 2, NULL);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = KIND,
                                                 .times = 3,
                                                 .status = WP_UNAVAILABLE});
    wp_recorder_plan(rig.api, &(struct wp_recorder_fault){
                                  .verb = WP_VERB_POST,
                                  .kind = KIND,
                                  .status = WP_RESOURCE_EXHAUSTED,
                                  .retry_after_ns = 5 * WP_NS_PER_MS});
    wp_cluster_rig_lead(&rig);
    for (int i = 0; i < 100000 && objects() < 2; i++) {
        wp_cluster_rig_settle(&rig);
    }
    assert_int_equal(objects(), 2);
    assert_int_equal(wp_cluster_rig_stats(&rig).created_total, 2);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 0);
    wp_cluster_rig_fini(&rig);
}

static void
a_refusal_is_a_failure_with_the_servers_words(void **state)
{
    (void)state;
    wp_cluster_rig_init(&rig, 1, NULL);
    wp_recorder_plan(
        rig.api, &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                             .kind = KIND,
                                             .times = 100,
                                             .status = WP_PERMISSION_DENIED});
    wp_cluster_rig_lead(&rig);
    /* Then the core's breaker lets one through at a time. */
    assert_true(wp_cluster_rig_stats(&rig).breaker_open);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 5);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_POST, KIND), 5);
    assert_int_equal(stats().refused, 5);
    assert_int_equal(stats().known, 0);
    assert_int_equal(wp_cluster_rig_stats(&rig).dying, 0);
    assert_true(wp_cluster_rig_stats(&rig).last_failure[0] != '\0');
    wp_cluster_rig_fini(&rig);
}

static void
orders_beyond_what_fits_are_refused_for_now(void **state)
{
    struct wp_backend port;
    uint8_t uid[WP_UID_LEN] = {1};
    struct wp_sandbox_order order = {
        .pool_namespace = WP_STR("ns"), .pool = WP_STR("p"), .uid = uid};
    enum wp_status status = WP_OK;
    uint32_t n = 0;
    struct wp_err err;

    (void)state;
    wp_cluster_rig_init(&rig, 0, NULL);
    port = wp_cluster_backend_port(rig.backend);
    while (status == WP_OK && n < 1000) {
        char name[16];

        (void)snprintf(name, sizeof name, "p-%u", n);
        order.name = wp_str_from(name);
        order.ref = (struct wp_slot_ref){n, 1};
        status = port.ops->create(port.self, &order, &err);
        n += status == WP_OK ? 1 : 0;
    }
    assert_int_equal(status, WP_RESOURCE_EXHAUSTED);
    assert_int_equal(n, WP_CLUSTER_RIG_SLOTS);
    assert_int_equal(port.ops->destroy(port.self, order.ref),
                     WP_RESOURCE_EXHAUSTED);
    wp_cluster_rig_fini(&rig);
}

/* --- Readiness --- */

static void
one_that_is_not_ready_any_more_is_replaced(void **state)
{
    const char *name;

    (void)state;
    start(1);
    wp_cluster_rig_all_ready(&rig);
    name = wp_cluster_rig_name(&rig, 0);
    wp_cluster_rig_ready(&rig, name, "");
    wp_cluster_rig_settle(&rig);
    assert_null(wp_recorder_object(rig.api, KIND, "ns", name));
    assert_int_equal(objects(), 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).retired_total, 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).lost_total, 0);
    wp_cluster_rig_fini(&rig);
}

static void
a_leased_one_that_is_not_ready_any_more_stays(void **state)
{
    struct held held;

    (void)state;
    start(1);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(claim(&held, "a", "t"), WP_OK);
    wp_cluster_rig_settle(&rig);
    wp_cluster_rig_ready(&rig, held.claim.grant.sandbox, "");
    wp_cluster_rig_settle(&rig);
    assert_non_null(
        wp_recorder_object(rig.api, KIND, "ns", held.claim.grant.sandbox));
    assert_int_equal(wp_cluster_rig_stats(&rig).leased, 1);
    wp_cluster_rig_fini(&rig);
}

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

static void
one_that_is_not_ready_in_time_has_failed(void **state)
{
    (void)state;
    start(1);
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 0);
    rig.offset_ns += 301 * S;
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 1);
    assert_string_equal(wp_cluster_rig_stats(&rig).last_failure,
                        "not ready in time: no image");
    assert_int_equal(objects(), 1);
    assert_int_equal(stats().deleted, 1);
    wp_cluster_rig_fini(&rig);
}

static void
its_time_ends_without_an_event_too(void **state)
{
    (void)state;
    wp_cluster_rig_init(&rig, 1, NULL);
    rig.parts.config.ready_grace_ns = 20 * WP_NS_PER_MS;
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
    start(1);
    rig.offset_ns += 301 * S;
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY "," NO_NODE);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 0);
    /* A node has taken it: its time begins. */
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 0);
    rig.offset_ns += 301 * S;
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 1);
    wp_cluster_rig_fini(&rig);
}

/* --- Ends --- */

static void
one_that_is_deleted_from_outside_is_replaced(void **state)
{
    (void)state;
    start(2);
    wp_cluster_rig_all_ready(&rig);
    wp_recorder_remove(rig.api, KIND, "ns", wp_cluster_rig_name(&rig, 0));
    wp_cluster_rig_settle(&rig);
    assert_int_equal(objects(), 2);
    assert_int_equal(wp_cluster_rig_stats(&rig).lost_total, 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).dying, 0);
    assert_int_equal(stats().deleted, 0);
    wp_cluster_rig_fini(&rig);
}

static void
a_finished_one_under_a_lease_is_lost_until_that_ends(void **state)
{
    struct wp_claim_info info;
    struct held held;

    (void)state;
    start(1);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(claim(&held, "a", "t"), WP_OK);
    wp_cluster_rig_settle(&rig);
    touch(held.claim.grant.sandbox,
          "{\"type\":\"Finished\",\"status\":\"True\",\"reason\":"
          "\"PodFailed\",\"message\":\"\"}");
    assert_int_equal(wp_pools_get(rig.pools, WP_STR("t"), WP_STR("a"), &info),
                     WP_OK);
    assert_true(info.lost);
    assert_string_equal(info.lost_reason, "PodFailed");
    wp_pools_end(rig.pools, info.ref);
    wp_cluster_rig_settle(&rig);
    assert_null(
        wp_recorder_object(rig.api, KIND, "ns", held.claim.grant.sandbox));
    wp_cluster_rig_fini(&rig);
}

static void
scaling_down_deletes_what_it_knows(void **state)
{
    (void)state;
    start(3);
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
    for (int i = 0; i < 100000 && stats().known > 1; i++) {
        wp_cluster_rig_settle(&rig);
    }
    assert_int_equal(objects(), 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).dying, 0);
    assert_true(wp_recorder_last(rig.api, WP_VERB_DELETE, KIND)->uid[0] !=
                '\0');
    assert_true(
        wp_recorder_last(rig.api, WP_VERB_DELETE, KIND)->resource_version[0] !=
        '\0');
    wp_cluster_rig_fini(&rig);
}

static void
scaling_to_nothing_deletes_what_no_node_takes(void **state)
{
    (void)state;
    start(2);
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY "," NO_NODE);
    rig.offset_ns += 301 * S;
    touch(wp_cluster_rig_name(&rig, 0), NOT_READY "," NO_NODE);
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p",
                            "{\"spec\":{\"replicas\":0}}");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(objects(), 0);
    assert_int_equal(wp_cluster_rig_stats(&rig).dying, 0);
    wp_cluster_rig_fini(&rig);
}

static void
one_that_another_controller_takes_is_left_alone(void **state)
{
    const char *name;

    (void)state;
    start(1);
    wp_cluster_rig_all_ready(&rig);
    name = wp_cluster_rig_name(&rig, 0);
    take_away(name);
    wp_cluster_rig_settle(&rig);
    assert_non_null(wp_recorder_object(rig.api, KIND, "ns", name));
    assert_int_equal(stats().taken, 1);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_DELETE, KIND), 0);
    assert_int_equal(objects(), 2);
    wp_cluster_rig_fini(&rig);
}

static void
one_that_is_taken_as_it_is_deleted_is_left_alone(void **state)
{
    const char *name;

    (void)state;
    start(1);
    wp_cluster_rig_all_ready(&rig);
    name = wp_cluster_rig_name(&rig, 0);
    /* The watch is late: the DELETE goes out for the version that was. */
    wp_recorder_hold(rig.api, true);
    take_away(name);
    wp_pools_set_target(rig.pools, 0, 0, NULL);
    wp_cluster_rig_settle(&rig);
    assert_true(wp_recorder_count(rig.api, WP_VERB_DELETE, KIND) > 0);
    wp_recorder_hold(rig.api, false);
    wp_cluster_rig_settle(&rig);
    for (int i = 0; i < 100000 && stats().known > 0; i++) {
        wp_cluster_rig_settle(&rig);
    }
    assert_non_null(wp_recorder_object(rig.api, KIND, "ns", name));
    assert_int_equal(stats().taken, 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).dying, 0);
    wp_cluster_rig_fini(&rig);
}

/* --- Leading --- */

static void
a_follower_writes_nothing(void **state)
{
    (void)state;
    wp_cluster_rig_init(&rig, 3, NULL);
    put_foreign("p-x7k2q");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_WRITES, KIND), 0);
    assert_int_equal(wp_cluster_rig_stats(&rig).created_total, 0);
    wp_cluster_rig_fini(&rig);
}

static void
what_others_made_is_taken_in(void **state)
{
    struct held held;

    (void)state;
    wp_cluster_rig_init(&rig, 2, NULL);
    put_foreign("p-x7k2q");
    wp_recorder_tell(rig.api);
    wp_cluster_rig_lead(&rig);
    assert_int_equal(objects(), 2);
    assert_int_equal(stats().found, 1);
    /* And one that comes later, beyond the target. */
    wp_cluster_rig_all_ready(&rig);
    put_foreign("p-abcde");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(stats().found, 2);
    assert_int_equal(claim(&held, "a", "t"), WP_OK);
    assert_int_equal(claim(&held, "b", "t"), WP_OK);
    wp_cluster_rig_settle(&rig);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 2);
    assert_int_equal(objects(), 4);
    wp_cluster_rig_fini(&rig);
}

static void
sandboxes_of_a_pool_that_is_heard_of_later_are_taken_in(void **state)
{
    (void)state;
    wp_cluster_rig_init(&rig, 1, NULL);
    rig.control_full = true;
    put_foreign("p-x7k2q");
    wp_recorder_tell(rig.api);
    wp_cluster_rig_lead(&rig);
    assert_int_equal(rig.readied, 0);
    rig.control_full = false;
    for (int i = 0; i < 100000 && rig.readied == 0; i++) {
        wp_cluster_rig_settle(&rig);
    }
    for (int i = 0; i < 100000 && stats().known == 0; i++) {
        wp_cluster_rig_settle(&rig);
    }
    assert_int_equal(objects(), 1);
    assert_int_equal(stats().found, 1);
    wp_cluster_rig_fini(&rig);
}

static void
a_change_of_leaders_and_back_loses_nothing(void **state)
{
    const char *name;

    (void)state;
    start(2);
    wp_cluster_rig_all_ready(&rig);
    wp_cluster_rig_follow(&rig);
    name = wp_cluster_rig_name(&rig, 0);
    wp_recorder_remove(rig.api, KIND, "ns", name);
    put_foreign("p-x7k2q");
    wp_cluster_rig_ready(&rig, "p-x7k2q", "10.0.0.9");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 2);
    wp_cluster_rig_lead(&rig);
    assert_int_equal(rig.readied, 2);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 2);
    assert_int_equal(wp_cluster_rig_stats(&rig).lost_total, 1);
    assert_int_equal(objects(), 2);
    wp_cluster_rig_fini(&rig);
}

/* Another leader has had it meanwhile: nobody is offered it here. */
static void
what_was_taken_meanwhile_is_not_offered(void **state)
{
    struct held held;

    (void)state;
    start(1);
    wp_cluster_rig_all_ready(&rig);
    wp_cluster_rig_follow(&rig);
    take_away(wp_cluster_rig_name(&rig, 0));
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 1);
    rig.parts.active = true;
    wp_cluster_backend_activate(rig.backend, nothing, NULL);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 0);
    assert_int_equal(claim(&held, "a", "t"), WP_RESOURCE_EXHAUSTED);
    wp_cluster_rig_fini(&rig);
}

/* --- Leases of gRPC --- */

static void
a_lease_is_written_on_its_sandbox_behind(void **state)
{
    struct wp_lease_note note;
    const json_t *sandbox;
    struct held held;
    const char *name;

    (void)state;
    start(1);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(claim(&held, "job-1", "team"), WP_OK);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, KIND), 0);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, KIND), 1);
    name = held.claim.grant.sandbox;
    sandbox = wp_recorder_object(rig.api, KIND, "ns", name);
    assert_true(
        wp_lease_note_read(annotation(name, WP_ANNOTATION_LEASE), &note));
    assert_string_equal(note.claim_id, "job-1");
    assert_string_equal(note.tenant, "team");
    assert_int_equal(note.fence, held.claim.grant.fence);
    assert_int_equal(note.deadline_wall_ms, held.claim.grant.deadline_wall_ms);
    assert_string_equal(annotation(name, WP_ANNOTATION_POD_NAME), name);
    assert_int_equal(json_array_size(wp_json_at(sandbox, "metadata",
                                                "ownerReferences", NULL)),
                     0);
    assert_null(
        wp_json_at(sandbox, "metadata", "labels", WP_LABEL_WARM_POOL, NULL));
    assert_null(wp_json_at(sandbox, "spec", "podTemplate", "metadata", "labels",
                           WP_LABEL_WARM_POOL, NULL));
    assert_null(wp_json_at(sandbox, "spec", "podTemplate", "metadata",
                           "annotations", WP_ANNOTATION_SAFE_TO_EVICT, NULL));
    assert_string_equal(
        wp_json_text(sandbox, "metadata", "labels", WP_LABEL_LAUNCH_TYPE, NULL),
        "warm");
    /* Released: deleted. */
    wp_pools_end(rig.pools, held.claim.grant.ref);
    wp_cluster_rig_settle(&rig);
    assert_null(wp_recorder_object(rig.api, KIND, "ns", name));
    assert_int_equal(wp_cluster_rig_stats(&rig).leased, 0);
    wp_cluster_rig_fini(&rig);
}

static void
renew(const struct held *held, int64_t ttl_ns)
{
    struct wp_lease_change change;

    memset(&change, 0, sizeof change);
    memcpy(change.token, held->claim.grant.token, sizeof change.token);
    change.ttl_ns = ttl_ns;
    assert_int_equal(wp_pools_renew(rig.pools, &change), WP_OK);
    wp_cluster_rig_settle(&rig);
}

static void
a_note_follows_renewals_that_count(void **state)
{
    struct wp_lease_note note;
    struct held held;

    (void)state;
    start(1);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(claim(&held, "a", "t"), WP_OK); /* For an hour. */
    wp_cluster_rig_settle(&rig);
    rig.offset_ns += 600 * S;
    renew(&held, 3600 * S);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, KIND), 1);
    rig.offset_ns += 2000 * S;
    renew(&held, 3600 * S);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, KIND), 2);
    assert_true(wp_lease_note_read(
        annotation(held.claim.grant.sandbox, WP_ANNOTATION_LEASE), &note));
    assert_true(note.deadline_wall_ms - held.claim.grant.deadline_wall_ms >=
                2600 * 1000);
    assert_int_equal(wp_cluster_rig_stats(&rig).leased, 1);
    wp_cluster_rig_fini(&rig);
}

static void
a_lease_of_a_claim_object_is_its_controllers_to_write(void **state)
{
    struct held held;
    char text[512];

    (void)state;
    start(1);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(claim(&held, "claim-uid", WP_TENANT_SANDBOX_CLAIMS),
                     WP_OK);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, KIND), 0);
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"ownerReferences\":[{\"apiVersion\":"
                   "\"extensions.agents.x-k8s.io/v1beta1\",\"kind\":"
                   "\"SandboxClaim\",\"name\":\"c\",\"uid\":\"claim-uid\","
                   "\"controller\":true}]}}");
    (void)wp_recorder_merge(rig.api, KIND, "ns", held.claim.grant.sandbox,
                            text);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(stats().taken, 0);
    assert_int_equal(wp_cluster_rig_stats(&rig).leased, 1);
    wp_pools_end(rig.pools, held.claim.grant.ref);
    wp_cluster_rig_settle(&rig);
    assert_null(
        wp_recorder_object(rig.api, KIND, "ns", held.claim.grant.sandbox));
    wp_cluster_rig_fini(&rig);
}

static void
a_conflict_is_read_again(void **state)
{
    struct wp_lease_note note;
    struct held held;

    (void)state;
    start(1);
    wp_cluster_rig_all_ready(&rig);
    /* Its status has changed, unheard; and one answer is lost. */
    wp_recorder_hold(rig.api, true);
    (void)wp_recorder_merge(rig.api, KIND, "ns", wp_cluster_rig_name(&rig, 0),
                            "{\"status\":{\"nodeName\":\"n\"}}");
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_PATCH,
                                                 .kind = KIND,
                                                 .skip = 1,
                                                 .status = WP_UNKNOWN_OUTCOME,
                                                 .effect = true});
    assert_int_equal(claim(&held, "a", "t"), WP_OK);
    for (int i = 0; i < 100000 && wp_recorder_planned(rig.api) > 0; i++) {
        wp_cluster_rig_settle(&rig);
    }
    wp_recorder_hold(rig.api, false);
    wp_cluster_rig_settle(&rig);
    assert_true(wp_lease_note_read(
        annotation(held.claim.grant.sandbox, WP_ANNOTATION_LEASE), &note));
    assert_true(stats().conflicts >= 1);
    assert_int_equal(stats().taken, 0);
    assert_int_equal(wp_cluster_rig_stats(&rig).leased, 1);
    wp_cluster_rig_fini(&rig);
}

static void
a_lease_that_lost_the_race_tells_its_holder(void **state)
{
    struct wp_claim_info info;
    struct held held;
    const char *name;

    (void)state;
    start(1);
    wp_cluster_rig_all_ready(&rig);
    name = wp_cluster_rig_name(&rig, 0);
    wp_recorder_hold(rig.api, true);
    take_away(name);
    assert_int_equal(claim(&held, "a", "t"), WP_OK);
    wp_cluster_rig_settle(&rig);
    wp_recorder_hold(rig.api, false);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_pools_get(rig.pools, WP_STR("t"), WP_STR("a"), &info),
                     WP_OK);
    assert_true(info.lost);
    assert_string_equal(info.lost_reason, "another controller took it");
    assert_int_equal(claim(&held, "a", "t"), WP_FAILED_PRECONDITION);
    wp_pools_end(rig.pools, info.ref);
    wp_cluster_rig_settle(&rig);
    assert_non_null(wp_recorder_object(rig.api, KIND, "ns", name));
    assert_int_equal(wp_cluster_rig_stats(&rig).dying, 0);
    wp_cluster_rig_fini(&rig);
}

static void
put_noted(const char *name, int64_t deadline_wall_ms)
{
    struct wp_lease_note note = {.claim_id = "lost", .tenant = "t", .fence = 1};
    char text[WP_LEASE_NOTE_MAX];
    json_t *json;
    char *body;

    note.deadline_wall_ms = deadline_wall_ms;
    wp_lease_note_write(&note, text);
    json = json_pack("{s:{s:s, s:s, s:{s:s}}, s:{s:{s:{}}}}", "metadata",
                     "namespace", "ns", "name", name, "annotations",
                     WP_ANNOTATION_LEASE, text, "spec", "podTemplate", "spec");
    assert_non_null(json);
    body = json_dumps(json, 0);
    (void)wp_recorder_put(rig.api, KIND, body);
    free(body);
    json_decref(json);
}

static void
a_lease_that_nobody_knows_is_left_until_its_deadline(void **state)
{
    static const char *const names[] = {"p-aaaaaaaa", "p-bbbbbbbb",
                                        "p-cccccccc"};
    int64_t now_ms;

    (void)state;
    wp_cluster_rig_init(&rig, 0, NULL);
    now_ms = wp_clock_wall_ns(&rig.clock) / WP_NS_PER_MS;
    put_noted(names[0], now_ms - 1000);
    put_noted(names[1], now_ms + 3600 * 1000);
    put_noted(names[2], WP_WALL_NEVER_MS);
    wp_recorder_tell(rig.api);
    wp_cluster_rig_lead(&rig);
    for (size_t i = 0; i < 3; i++) {
        (void)wp_recorder_merge(rig.api, KIND, "ns", names[i],
                                "{\"status\":{\"nodeName\":\"n\"}}");
    }
    wp_cluster_rig_settle(&rig);
    assert_null(wp_recorder_object(rig.api, KIND, "ns", "p-aaaaaaaa"));
    assert_non_null(wp_recorder_object(rig.api, KIND, "ns", "p-bbbbbbbb"));
    assert_int_equal(stats().orphans, 1);
    rig.offset_ns += 3601 * S;
    for (size_t i = 1; i < 3; i++) {
        (void)wp_recorder_merge(rig.api, KIND, "ns", names[i],
                                "{\"status\":{\"nodeName\":\"m\"}}");
    }
    wp_cluster_rig_settle(&rig);
    assert_null(wp_recorder_object(rig.api, KIND, "ns", "p-bbbbbbbb"));
    assert_non_null(wp_recorder_object(rig.api, KIND, "ns", "p-cccccccc"));
    wp_cluster_rig_fini(&rig);
}

/* --- A restart with a store that keeps records --- */

static void
records_and_objects_find_each_other_again(void **state)
{
    static struct wp_model_store store;
    static struct wp_cluster_rig before;
    struct wp_lease_store port;
    struct wp_claim_info info;
    struct held held;
    bool skipped = false;
    const char *name;

    (void)state;
    wp_model_init(&store, false);
    port = wp_model_port(&store, 0);
    wp_cluster_rig_init(&rig, 2, &port);
    wp_cluster_rig_lead(&rig);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(claim(&held, "kept", ""), WP_OK);
    wp_cluster_rig_settle(&rig);
    wp_cluster_rig_all_ready(&rig);
    name = held.claim.grant.sandbox;
    assert_int_equal(objects(), 3);
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
    wp_recorder_tell(rig.api);
    rig.mails[0].run(rig.mails[0].arg, 0, 0); /* The pools. */
    rig.n_mails = 0;
    wp_model_load(&store, rig.pools);
    assert_int_equal(wp_pools_records_refused(rig.pools), 0);
    wp_cluster_rig_lead(&rig);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_pools_get(rig.pools, WP_STR(""), WP_STR("kept"), &info),
                     WP_OK);
    assert_false(info.lost);
    assert_string_equal(info.sandbox, name);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 2);
    assert_int_equal(objects(), 3);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, KIND), 0);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_DELETE, KIND), 0);
    wp_pools_end(rig.pools, info.ref);
    wp_cluster_rig_settle(&rig);
    assert_null(wp_recorder_object(rig.api, KIND, "ns", name));
    wp_cluster_rig_fini(&rig);
    rig = before;
    wp_cluster_rig_fini(&rig);
}

/* --- Pools --- */

static void
a_pool_follows_its_object(void **state)
{
    (void)state;
    start(1);
    assert_int_equal(objects(), 1);
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p",
                            "{\"spec\":{\"replicas\":3}}");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(objects(), 3);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p");
    wp_cluster_rig_settle(&rig);
    assert_true(wp_cluster_rig_stats(&rig).removed);
    assert_int_equal(wp_cluster_rig_stats(&rig).warming, 0);
    wp_cluster_rig_fini(&rig);
}

static void
without_its_template_nothing_is_made(void **state)
{
    (void)state;
    wp_cluster_rig_init(&rig, 2, NULL);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t");
    wp_cluster_rig_lead(&rig);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(objects(), 0);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 0);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_TEMPLATE,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"t\"},\"spec\":"
        "{\"podTemplate\":{\"spec\":{\"containers\":[]}}}}");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(objects(), 2);
    wp_cluster_rig_fini(&rig);
}

static void
a_pool_of_a_name_that_is_too_long_is_left_out(void **state)
{
    (void)state;
    start(1);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_WARM_POOL,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":"
        "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"},"
        "\"spec\":{\"replicas\":1,\"sandboxTemplateRef\":{\"name\":\"t\"}}}");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_pools_count(rig.pools), 1);
    assert_int_equal(objects(), 1);
    wp_cluster_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_is_filled_and_its_sandboxes_become_ready),
        cmocka_unit_test(an_address_of_version_6_is_in_brackets),
        cmocka_unit_test(a_lost_answer_makes_no_second_sandbox),
        cmocka_unit_test(what_is_not_made_for_now_is_made_later),
        cmocka_unit_test(a_refusal_is_a_failure_with_the_servers_words),
        cmocka_unit_test(orders_beyond_what_fits_are_refused_for_now),
        cmocka_unit_test(one_that_is_not_ready_any_more_is_replaced),
        cmocka_unit_test(a_leased_one_that_is_not_ready_any_more_stays),
        cmocka_unit_test(one_that_is_not_ready_in_time_has_failed),
        cmocka_unit_test(its_time_ends_without_an_event_too),
        cmocka_unit_test(one_that_no_node_takes_is_held),
        cmocka_unit_test(one_that_is_deleted_from_outside_is_replaced),
        cmocka_unit_test(a_finished_one_under_a_lease_is_lost_until_that_ends),
        cmocka_unit_test(scaling_down_deletes_what_it_knows),
        cmocka_unit_test(scaling_to_nothing_deletes_what_no_node_takes),
        cmocka_unit_test(one_that_another_controller_takes_is_left_alone),
        cmocka_unit_test(one_that_is_taken_as_it_is_deleted_is_left_alone),
        cmocka_unit_test(a_follower_writes_nothing),
        cmocka_unit_test(what_others_made_is_taken_in),
        cmocka_unit_test(
            sandboxes_of_a_pool_that_is_heard_of_later_are_taken_in),
        cmocka_unit_test(a_change_of_leaders_and_back_loses_nothing),
        cmocka_unit_test(what_was_taken_meanwhile_is_not_offered),
        cmocka_unit_test(a_lease_is_written_on_its_sandbox_behind),
        cmocka_unit_test(a_note_follows_renewals_that_count),
        cmocka_unit_test(a_lease_of_a_claim_object_is_its_controllers_to_write),
        cmocka_unit_test(a_conflict_is_read_again),
        cmocka_unit_test(a_lease_that_lost_the_race_tells_its_holder),
        cmocka_unit_test(a_lease_that_nobody_knows_is_left_until_its_deadline),
        cmocka_unit_test(records_and_objects_find_each_other_again),
        cmocka_unit_test(a_pool_follows_its_object),
        cmocka_unit_test(without_its_template_nothing_is_made),
        cmocka_unit_test(a_pool_of_a_name_that_is_too_long_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
