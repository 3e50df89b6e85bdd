/* The template controller: its label, and the NetworkPolicy kept as it must be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/controllers/shared.h"
#include "k8s/objects/json.h"
#include "k8s/controllers/template/network_policy.h"
#include "k8s/objects/names.h"
#include "tests/support/base/heard.h"
#include "tests/support/k8s/api_recorder.h"
#include "tests/support/k8s/put_text.h"
#include "tests/support/pool/manual_clock.h"

#define NAME "t-network-policy"

struct world {
    struct wp_clock_manual clock;
    struct wp_api *api;
    struct wp_parts parts;
    void *controller;
};

#define PUT_TEMPLATE(world, spec)                                              \
    wp_test_put(                                                               \
        (world)->api, WP_KIND_SANDBOX_TEMPLATE,                                \
        "{'metadata': {'name': 't', 'namespace': 'team', 'uid': 't-uid'}, "    \
        "'spec': {" spec "'podTemplate': {'spec': {}}}}")

static void
set_up(struct world *world, bool gc)
{
    static const enum wp_kind kinds[] = {WP_KIND_NETWORK_POLICY,
                                         WP_KIND_SANDBOX_TEMPLATE};
    struct wp_err err;

    memset(world, 0, sizeof(*world));
    wp_clock_manual_init(&world->clock, WP_NS_PER_S,
                         INT64_C(1700000000) * WP_NS_PER_S);
    world->api = wp_recorder_create();
    wp_recorder_serve(world->api);
    world->parts.config.gc = gc;
    world->parts.base = event_base_new();
    world->parts.clock = &world->clock.clock;
    world->parts.api = world->api;
    world->parts.events = wp_events_create(&(struct wp_events_config){
        .base = world->parts.base,
        .clock = world->parts.clock,
        .api = world->api,
        .instance = "test",
    });
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        world->parts.stores[kinds[i]] = wp_store_create(kinds[i], NULL);
        wp_recorder_feed(world->api, world->parts.stores[kinds[i]], kinds[i]);
    }
    world->controller = wp_template_controller_ops.create(&world->parts, &err);
    assert_non_null(world->controller);
}

/* Whatever is due, backoff included, and what follows from it. */
static void
settle(struct world *world)
{
    struct wp_work_queue_stats stats;
    uint64_t begun;

    do {
        wp_recorder_notify(world->api);
        wp_template_controller_ops.stats(world->controller, &stats);
        begun = stats.begun;
        wp_clock_manual_advance(&world->clock, 100 * WP_NS_PER_S);
        wp_template_controller_ops.activate(world->controller);
        assert_int_not_equal(
            event_base_loop(world->parts.base, EVLOOP_NONBLOCK), -1);
        wp_template_controller_ops.deactivate(world->controller);
        wp_template_controller_ops.stats(world->controller, &stats);
    } while (wp_recorder_run(world->api) > 0);
    assert_true(stats.begun >= begun);
}

static void
tear_down(struct world *world)
{
    assert_int_equal(wp_recorder_planned(world->api), 0);
    wp_api_destroy(world->api);
    wp_template_controller_ops.destroy(world->controller);
    wp_events_destroy(world->parts.events);
    for (int kind = 0; kind < WP_KIND_COUNT; kind++) {
        wp_store_destroy(world->parts.stores[kind]);
    }
    event_base_free(world->parts.base);
}

static const json_t *
policy_of(struct world *world)
{
    return wp_recorder_object(world->api, WP_KIND_NETWORK_POLICY, "team", NAME);
}

static uint32_t
writes(struct world *world, enum wp_kind kind)
{
    return wp_recorder_count(world->api, WP_VERB_WRITES, kind);
}

static void
label_and_policy(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    PUT_TEMPLATE(&world, "");
    settle(&world);
    assert_string_equal(
        wp_json_text(wp_recorder_object(world.api, WP_KIND_SANDBOX_TEMPLATE,
                                        "team", "t"),
                     "metadata", "labels", WP_LABEL_TEMPLATE_REF_HASH, NULL),
        "f10c3da3");
    assert_string_equal(wp_json_text(policy_of(&world), "spec", "podSelector",
                                     "matchLabels", WP_LABEL_TEMPLATE_REF_HASH,
                                     NULL),
                        "f10c3da3");
    assert_int_equal(writes(&world, WP_KIND_COUNT), 2);
    settle(&world);
    assert_int_equal(writes(&world, WP_KIND_COUNT), 2);
    tear_down(&world);
}

/* Once for each state of it, and anew when it has gone. */
static void
weaker_than_its_tier(void **state)
{
    static const char weak[] =
        "{'metadata': {'name': 't', 'namespace': 'team', 'uid': 't-uid'}, "
        "'spec': {'podTemplate': {'spec': {'hostNetwork': true, "
        "'hostPID': true}}}}";
    static const char said[] =
        "WARN a SandboxTemplate states less than its tier namespace=team "
        "template=t tier=T2 fields=\"hostNetwork, hostPID\"\n";
    struct world world;
    struct heard heard;

    (void)state;
    set_up(&world, false);
    world.parts.config.default_tier = WP_TIER_T2;
    heard_begin(&heard);
    wp_test_put(world.api, WP_KIND_SANDBOX_TEMPLATE, weak);
    settle(&world);
    settle(&world);
    assert_string_equal(heard_end(&heard), said);
    assert_int_equal(writes(&world, WP_KIND_EVENT), 1);
    assert_string_equal(
        wp_recorded_text(
            wp_recorder_last(world.api, WP_VERB_POST, WP_KIND_EVENT), "note",
            NULL),
        "Weaker than tier T2: hostNetwork, hostPID");
    heard_begin(&heard);
    wp_test_put(world.api, WP_KIND_SANDBOX_TEMPLATE,
                "{'metadata': {'name': 't', 'namespace': 'team', "
                "'uid': 't-uid', 'generation': 7}, 'spec': {'podTemplate': "
                "{'spec': {'hostNetwork': true, 'hostPID': true}}}}");
    settle(&world);
    assert_string_equal(heard_end(&heard), said);
    heard_begin(&heard);
    wp_recorder_remove(world.api, WP_KIND_SANDBOX_TEMPLATE, "team", "t");
    settle(&world);
    wp_test_put(world.api, WP_KIND_SANDBOX_TEMPLATE, weak);
    settle(&world);
    assert_string_equal(heard_end(&heard), said);
    tear_down(&world);
}

/* Whatever somebody changes is put right, what they added is gone; the metadata
 * stays theirs. */
static void
drift_is_repaired(void **state)
{
    static const char *const patches[] = {
        "{\"spec\":{\"podSelector\":{\"matchLabels\":{\"more\":\"x\"}}}}",
        "{\"spec\":{\"egress\":[{}]}}",
        "{\"spec\":{\"ingress\":null}}",
        "{\"spec\":{\"policyTypes\":[\"Ingress\"]}}",
    };
    struct world world;
    json_t *wanted;

    (void)state;
    set_up(&world, false);
    PUT_TEMPLATE(&world, "");
    settle(&world);
    wanted = json_deep_copy(json_object_get(policy_of(&world), "spec"));
    (void)wp_recorder_merge(world.api, WP_KIND_NETWORK_POLICY, "team", NAME,
                            "{\"metadata\":{\"labels\":{\"keep\":\"me\"}}}");
    settle(&world);
    assert_int_equal(writes(&world, WP_KIND_NETWORK_POLICY), 1);
    for (size_t i = 0; i < WP_ARRAY_LEN(patches); i++) {
        (void)wp_recorder_merge(world.api, WP_KIND_NETWORK_POLICY, "team", NAME,
                                patches[i]);
        settle(&world);
        assert_true(
            json_equal(json_object_get(policy_of(&world), "spec"), wanted));
        assert_int_equal(writes(&world, WP_KIND_NETWORK_POLICY), 2 + i);
    }
    assert_string_equal(
        wp_json_text(policy_of(&world), "metadata", "labels", "keep", NULL),
        "me");
    /* One that is deleted comes back. */
    wp_recorder_remove(world.api, WP_KIND_NETWORK_POLICY, "team", NAME);
    settle(&world);
    assert_true(json_equal(json_object_get(policy_of(&world), "spec"), wanted));
    json_decref(wanted);
    tear_down(&world);
}

/* Its policy's name does not tell whose it is; its owner does. */
static void
long_name(void **state)
{
    char name[241];
    char policy[WP_NETWORK_POLICY_NAME_MAX + 1];
    char text[600];

    (void)state;
    memset(name, 't', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_true(wp_network_policy_name(name, policy));
    (void)snprintf(text, sizeof text,
                   "{'metadata': {'name': '%s', 'namespace': 'team', 'uid': "
                   "'t-uid'}, 'spec': {'podTemplate': {'spec': {}}}}",
                   name);
    for (int gc = 0; gc < 2; gc++) {
        struct world world;
        json_t *wanted;

        set_up(&world, gc == 1);
        wp_test_put(world.api, WP_KIND_SANDBOX_TEMPLATE, text);
        settle(&world);
        wanted = json_deep_copy(json_object_get(
            wp_recorder_object(world.api, WP_KIND_NETWORK_POLICY, "team",
                               policy),
            "spec"));
        assert_non_null(wanted);
        (void)wp_recorder_merge(world.api, WP_KIND_NETWORK_POLICY, "team",
                                policy, "{\"spec\":{\"egress\":[{}]}}");
        settle(&world);
        assert_true(
            json_equal(json_object_get(
                           wp_recorder_object(world.api, WP_KIND_NETWORK_POLICY,
                                              "team", policy),
                           "spec"),
                       wanted));
        json_decref(wanted);
        wp_recorder_remove(world.api, WP_KIND_NETWORK_POLICY, "team", policy);
        settle(&world);
        wp_recorder_remove(world.api, WP_KIND_SANDBOX_TEMPLATE, "team", name);
        settle(&world);
        assert_int_equal(wp_recorder_object(world.api, WP_KIND_NETWORK_POLICY,
                                            "team", policy) == NULL,
                         gc == 1);
        tear_down(&world);
    }
}

static void
rules_change(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    PUT_TEMPLATE(&world, "");
    settle(&world);
    PUT_TEMPLATE(&world, "'networkPolicy': {'egress': [{'ports': [{'port': "
                         "443}]}]}, ");
    settle(&world);
    assert_null(wp_json_at(policy_of(&world), "spec", "ingress", NULL));
    assert_int_equal(
        json_array_size(wp_json_at(policy_of(&world), "spec", "egress", NULL)),
        1);
    /* The API server fills the protocol in: no drift. */
    (void)wp_recorder_merge(world.api, WP_KIND_NETWORK_POLICY, "team", NAME,
                            "{\"spec\":{\"egress\":[{\"ports\":[{\"port\":443,"
                            "\"protocol\":\"TCP\"}]}]}}");
    settle(&world);
    assert_int_equal(writes(&world, WP_KIND_NETWORK_POLICY), 2);
    tear_down(&world);
}

static void
unmanaged_removes_its_own(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    PUT_TEMPLATE(&world, "");
    settle(&world);
    assert_non_null(policy_of(&world));
    PUT_TEMPLATE(&world, "'networkPolicyManagement': 'Unmanaged', ");
    settle(&world);
    assert_null(policy_of(&world));
    PUT_TEMPLATE(&world, "");
    settle(&world);
    assert_non_null(policy_of(&world));
    tear_down(&world);
}

#define FOREIGN                                                                \
    "{'metadata': {'name': '" NAME "', 'namespace': 'team'}, "                 \
    "'spec': {'podSelector': {}}}"

/* A policy of that name that is not the template's is left alone, and people
 * are told; once it is gone ours takes its place. */
static void
foreign_policy_stays(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    wp_test_put(world.api, WP_KIND_NETWORK_POLICY, FOREIGN);
    PUT_TEMPLATE(&world, "");
    settle(&world);
    assert_int_equal(writes(&world, WP_KIND_NETWORK_POLICY), 0);
    assert_string_equal(
        wp_recorded_text(
            wp_recorder_last(world.api, WP_VERB_POST, WP_KIND_EVENT), "reason",
            NULL),
        "NetworkPolicyNotOwned");
    PUT_TEMPLATE(&world, "'networkPolicyManagement': 'Unmanaged', ");
    settle(&world);
    assert_int_equal(writes(&world, WP_KIND_NETWORK_POLICY), 0);
    PUT_TEMPLATE(&world, "");
    wp_recorder_remove(world.api, WP_KIND_NETWORK_POLICY, "team", NAME);
    settle(&world);
    assert_int_equal(
        wp_recorder_count(world.api, WP_VERB_POST, WP_KIND_NETWORK_POLICY), 1);
    tear_down(&world);
}

/* Its answer is lost: found to be there, and right. */
static void
lost_answer(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    PUT_TEMPLATE(&world, "");
    wp_recorder_plan(world.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = WP_KIND_NETWORK_POLICY,
                                                 .status = WP_UNKNOWN_OUTCOME,
                                                 .effect = true});
    settle(&world);
    assert_non_null(policy_of(&world));
    assert_int_equal(writes(&world, WP_KIND_NETWORK_POLICY), 1);
    tear_down(&world);
}

static void
deleted_template(void **state)
{
    for (int gc = 0; gc < 2; gc++) {
        struct world world;

        (void)state;
        set_up(&world, gc == 1);
        PUT_TEMPLATE(&world, "");
        settle(&world);
        wp_recorder_remove(world.api, WP_KIND_SANDBOX_TEMPLATE, "team", "t");
        settle(&world);
        assert_int_equal(policy_of(&world) == NULL, gc);
        tear_down(&world);
    }
}

/* What an older agent-sandbox has left: a claim's own policy goes, others that
 * are called so stay; a template of that name gets its policy then. */
static void
policies_of_claims_go(void **state)
{
    static const char *const owners[] = {"t", "other"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world world;
        char text[512];

        set_up(&world, false);
        (void)snprintf(
            text, sizeof(text),
            "{'metadata': {'name': '" NAME "', 'namespace': 'team', 'uid': "
            "'p', 'ownerReferences': [{'apiVersion': "
            "'extensions.agents.x-k8s.io/v1alpha1', 'kind': 'SandboxClaim', "
            "'name': '%s', 'uid': 'c-uid', 'controller': true}]}}",
            owners[i]);
        wp_test_put(world.api, WP_KIND_NETWORK_POLICY, text);
        settle(&world);
        assert_int_equal(policy_of(&world) != NULL, i);
        PUT_TEMPLATE(&world, "");
        settle(&world);
        assert_string_equal(
            wp_json_text(
                json_array_get(wp_json_at(policy_of(&world), "metadata",
                                          "ownerReferences", NULL),
                               0),
                "kind", NULL),
            i == 0 ? "SandboxTemplate" : "SandboxClaim");
        tear_down(&world);
    }
}

/* Whoever begins to lead looks at every template, and at every policy that may
 * have to go, whatever it has seen of them before. */
static void
all_are_looked_at_when_it_begins(void **state)
{
    (void)state;
    for (int gc = 0; gc < 2; gc++) {
        struct wp_work_queue_stats before;
        struct wp_work_queue_stats after;
        struct world world;

        set_up(&world, gc == 1);
        PUT_TEMPLATE(&world, "'networkPolicyManagement': 'Unmanaged', ");
        wp_test_put(world.api, WP_KIND_NETWORK_POLICY,
                    "{'metadata': {'name': 'other-network-policy', "
                    "'namespace': 'team'}, 'spec': {'podSelector': {}}}");
        settle(&world);
        wp_template_controller_ops.stats(world.controller, &before);
        settle(&world);
        wp_template_controller_ops.stats(world.controller, &after);
        assert_int_equal(after.begun - before.begun, 1 + gc);
        assert_int_equal(writes(&world, WP_KIND_NETWORK_POLICY), 0);
        tear_down(&world);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(label_and_policy),
        cmocka_unit_test(weaker_than_its_tier),
        cmocka_unit_test(policies_of_claims_go),
        cmocka_unit_test(drift_is_repaired),
        cmocka_unit_test(long_name),
        cmocka_unit_test(rules_change),
        cmocka_unit_test(unmanaged_removes_its_own),
        cmocka_unit_test(foreign_policy_stays),
        cmocka_unit_test(lost_answer),
        cmocka_unit_test(deleted_template),
        cmocka_unit_test(all_are_looked_at_when_it_begins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
