/* The pool controller: status, roll-out, orphans, and what it tells people. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/json.h"
#include "k8s/names.h"
#include "k8s/pool_controller_impl.h"
#include "k8s/sandbox_build.h"
#include "k8s/sandbox_refs.h"
#include "tests/support/api_recorder.h"
#include "tests/support/k8s_text.h"
#include "tests/support/pool_rig.h"

enum {
    SLOTS = 64,
};

#define GRACE_NS (300 * WP_NS_PER_S)

/* Pool "default/p" of template "t", in the API server and in the core. */
struct world {
    struct wp_rig rig;
    struct wp_api *api;
    struct wp_parts parts;
    struct wp_pool_controller *controller;
    char hash[WP_NAME_HASH_LEN + 1];
};

static const char *text_of(const char *format, ...) WP_PRINTF(1, 2);

/* With ' for "; valid until the next call. */
static const char *
text_of(const char *format, ...)
{
    static char text[4096];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    for (char *at = text; *at != '\0'; at++) {
        if (*at == '\'') {
            *at = '"';
        }
    }
    return text;
}

static void
put_template(struct world *world, const char *image)
{
    (void)wp_recorder_put(
        world->api, WP_KIND_SANDBOX_TEMPLATE,
        text_of("{'metadata': {'name': 't', 'namespace': 'default'}, 'spec': "
                "{'podTemplate': {'spec': {'containers': [{'name': 'c', "
                "'image': '%s'}]}}}}",
                image));
}

static void
put_pool(struct world *world, int replicas, const char *strategy)
{
    char text[256];

    (void)snprintf(text, sizeof(text), "%s",
                   text_of("'spec': {'replicas': %d, 'sandboxTemplateRef': "
                           "{'name': 't'}, 'updateStrategy': {'type': '%s'}}",
                           replicas, strategy));
    if (wp_recorder_object(world->api, WP_KIND_SANDBOX_WARM_POOL, "default",
                           "p") != NULL) {
        (void)wp_recorder_merge(world->api, WP_KIND_SANDBOX_WARM_POOL,
                                "default", "p", text_of("{%s}", text));
        return;
    }
    (void)wp_recorder_put(world->api, WP_KIND_SANDBOX_WARM_POOL,
                          text_of("{'metadata': {'name': 'p', 'namespace': "
                                  "'default', 'uid': 'pool-uid'}, %s}",
                                  text));
}

static void
set_up(struct world *world, bool gc)
{
    static const enum wp_kind kinds[] = {
        WP_KIND_SANDBOX, WP_KIND_SANDBOX_TEMPLATE, WP_KIND_SANDBOX_WARM_POOL};
    struct wp_err err;

    memset(world, 0, sizeof(*world));
    wp_rig_init_foreign(&world->rig, SLOTS, 0, NULL);
    /* The core has room, but only what a test puts there is there. */
    world->rig.backend.create_status = WP_RESOURCE_EXHAUSTED;
    assert_int_equal(wp_pools_set_target(world->rig.pools, 0, SLOTS / 2, &err),
                     WP_OK);
    world->api = wp_recorder_create();
    wp_recorder_serve(world->api);
    wp_recorder_set_time(world->api, wp_clock_wall_ns(&world->rig.clock.clock));
    world->parts.config.gc = gc;
    world->parts.config.ready_grace_ns = GRACE_NS;
    world->parts.core.pools = world->rig.pools;
    world->parts.base = event_base_new();
    world->parts.clock = &world->rig.clock.clock;
    world->parts.api = world->api;
    world->parts.refs = wp_sandbox_refs_create(SLOTS);
    world->parts.events = wp_events_create(&(struct wp_events_config){
        .base = world->parts.base,
        .clock = world->parts.clock,
        .api = world->api,
        .instance = "test",
    });
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        struct wp_store *store = wp_store_create(
            kinds[i], kinds[i] == WP_KIND_SANDBOX ? WP_LABEL_WARM_POOL : NULL);

        world->parts.stores[kinds[i]] = store;
        wp_recorder_feed(world->api, store, kinds[i]);
    }
    world->controller = wp_pool_controller_ops.create(&world->parts, &err);
    assert_non_null(world->controller);
    wp_name_hash(WP_STR("p"), world->hash);
}

/* Whatever is due now, and what follows from it. */
static void
settle(struct world *world)
{
    struct wp_work_queue_stats stats;
    uint64_t begun;

    do {
        wp_recorder_tell(world->api);
        wp_work_queue_stats(world->controller->queue, &stats);
        begun = stats.begun;
        wp_work_pause(world->controller->queue, false);
        assert_int_not_equal(
            event_base_loop(world->parts.base, EVLOOP_NONBLOCK), -1);
        wp_work_queue_stats(world->controller->queue, &stats);
    } while (wp_recorder_run(world->api) > 0 || stats.begun != begun);
}

static void
advance(struct world *world, int64_t ns)
{
    settle(world);
    wp_rig_advance(&world->rig, ns);
    wp_recorder_set_time(world->api, wp_clock_wall_ns(world->parts.clock));
    settle(world);
}

static void
activate(struct world *world)
{
    wp_recorder_tell(world->api);
    world->parts.active = true;
    wp_pool_controller_ops.activate(world->controller);
    settle(world);
}

static void
tear_down(struct world *world)
{
    assert_int_equal(wp_recorder_planned(world->api), 0);
    wp_pool_controller_ops.deactivate(world->controller);
    wp_api_destroy(world->api);
    wp_pool_controller_ops.destroy(world->controller);
    wp_events_destroy(world->parts.events);
    for (int kind = 0; kind < WP_KIND_COUNT; kind++) {
        wp_store_destroy(world->parts.stores[kind]);
    }
    wp_sandbox_refs_destroy(world->parts.refs);
    event_base_free(world->parts.base);
    wp_rig_fini(&world->rig);
}

/* --- Sandboxes --- */

#define OWNED                                                                  \
    "{'apiVersion': 'extensions.agents.x-k8s.io/v1beta1', "                    \
    "'kind': 'SandboxWarmPool', 'name': 'p', 'uid': 'pool-uid', "              \
    "'controller': true}"
#define CLAIMED                                                                \
    "{'apiVersion': 'extensions.agents.x-k8s.io/v1beta1', "                    \
    "'kind': 'SandboxClaim', 'name': 'x', 'uid': 'x', 'controller': true}"

struct sandbox {
    const char *name;
    const char *owners; /* NULL: OWNED. */
    const char *image;  /* NULL: "a". */
    const char *launch; /* NULL: "warm". */
    bool is_ready;
    bool unschedulable;
};

static void
put_sandbox(struct world *world, const struct sandbox *sandbox)
{
    (void)wp_recorder_put(
        world->api, WP_KIND_SANDBOX,
        text_of("{'metadata': {'name': '%s', 'namespace': 'default', "
                "'labels': {'" WP_LABEL_WARM_POOL "': '%s', "
                "'" WP_LABEL_TEMPLATE_REF_HASH "': 'f10c3da3', "
                "'" WP_LABEL_LAUNCH_TYPE "': '%s'}, 'ownerReferences': [%s]}, "
                "'spec': {'podTemplate': {'spec': {'containers': [{'name': "
                "'c', 'image': '%s'}], 'automountServiceAccountToken': false, "
                "'dnsPolicy': 'None', 'dnsConfig': {'nameservers': "
                "['8.8.8.8', '1.1.1.1']}}}}, 'status': {'conditions': ["
                "{'type': 'Ready', 'status': '%s', 'reason': 'r'}, "
                "{'type': 'PodScheduled', 'status': '%s', 'reason': '%s'}]}}",
                sandbox->name, world->hash,
                sandbox->launch != NULL ? sandbox->launch : "warm",
                sandbox->owners != NULL ? sandbox->owners : OWNED,
                sandbox->image != NULL ? sandbox->image : "a",
                sandbox->is_ready ? "True" : "False",
                sandbox->unschedulable ? "False" : "True",
                sandbox->unschedulable ? "Unschedulable" : "Scheduled"));
}

/* Makes it known to the core as well, as ready. */
static struct wp_sandbox_ref *
know(struct world *world, const char *name, enum wp_sandbox_phase phase)
{
    struct wp_sandbox_ref entry = {.phase = phase};

    (void)snprintf(entry.ns, sizeof(entry.ns), "default");
    (void)snprintf(entry.name, sizeof(entry.name), "%s", name);
    (void)snprintf(entry.pool, sizeof(entry.pool), "p");
    (void)snprintf((char *)entry.uid, sizeof(entry.uid), "%s", name);
    assert_true(wp_pools_found(world->rig.pools, 0, entry.uid,
                               wp_str_from(name), &entry.ref));
    wp_fake_backend_found(&world->rig.backend, entry.ref, name);
    assert_int_equal(wp_fake_backend_make_ready(&world->rig.backend, 1), 1);
    wp_rig_settle(&world->rig);
    return wp_sandbox_refs_add(world->parts.refs, &entry);
}

static void
put_known(struct world *world, const struct sandbox *sandbox)
{
    put_sandbox(world, sandbox);
    (void)know(world, sandbox->name, WP_SANDBOX_READY);
}

static json_int_t
status_of(struct world *world, const char *key)
{
    const json_t *pool = wp_recorder_object(
        world->api, WP_KIND_SANDBOX_WARM_POOL, "default", "p");

    return json_integer_value(wp_json_at(pool, "status", key, NULL));
}

static uint32_t
status_writes(struct world *world)
{
    return wp_recorder_count(world->api, WP_VERB_PATCH,
                             WP_KIND_SANDBOX_WARM_POOL);
}

static uint32_t
sandbox_writes(struct world *world)
{
    return wp_recorder_count(world->api, WP_VERB_WRITES, WP_KIND_SANDBOX);
}

static const json_t *
sandbox_at(struct world *world, const char *name)
{
    return wp_recorder_object(world->api, WP_KIND_SANDBOX, "default", name);
}

/* --- Status --- */

static void
status_is_exact(void **state)
{
    static const struct sandbox sandboxes[] = {
        {.name = "p-1", .is_ready = true},
        {.name = "p-2", .is_ready = true},
        {.name = "p-3"},
        {.name = "p-4", .owners = CLAIMED, .is_ready = true},
        {.name = "p-5", .is_ready = true},
        {.name = "p-6", .is_ready = true},
        {.name = "p-7", .is_ready = true},
    };
    struct world world;

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 3, "OnReplenish");
    for (size_t i = 0; i < WP_ARRAY_LEN(sandboxes); i++) {
        put_sandbox(&world, &sandboxes[i]);
    }
    /* A lease has one, the object does not say so yet; one is on its way out,
     * another will be. */
    (void)know(&world, "p-5", WP_SANDBOX_ADOPTED);
    (void)know(&world, "p-6", WP_SANDBOX_DELETING);
    know(&world, "p-7", WP_SANDBOX_READY)->unwanted = true;
    activate(&world);
    assert_int_equal(status_of(&world, "replicas"), 3);
    assert_int_equal(status_of(&world, "readyReplicas"), 2);
    assert_int_equal(status_of(&world, "observedGeneration"), 1);
    assert_string_equal(
        wp_json_text(wp_recorder_object(world.api, WP_KIND_SANDBOX_WARM_POOL,
                                        "default", "p"),
                     "status", "selector", NULL),
        text_of("agents.x-k8s.io/warm-pool-sandbox=%s", world.hash));
    assert_int_equal(status_writes(&world), 1);
    advance(&world, 10 * WP_NS_PER_S);
    assert_int_equal(
        wp_recorder_count(world.api, WP_VERB_WRITES, WP_KIND_COUNT), 1);
    /* Zero is written like any other number. */
    for (size_t i = 0; i < 3; i++) {
        wp_recorder_remove(world.api, WP_KIND_SANDBOX, "default",
                           sandboxes[i].name);
    }
    advance(&world, WP_NS_PER_S);
    assert_int_equal(status_of(&world, "replicas"), 0);
    assert_int_equal(status_of(&world, "readyReplicas"), 0);
    /* A new generation is reported at once, though nothing else changes. */
    put_pool(&world, 0, "OnReplenish");
    settle(&world);
    assert_int_equal(status_of(&world, "observedGeneration"), 2);
    tear_down(&world);
}

/* A hundred sandboxes that become ready over some seconds are a few writes. */
static void
burst_is_gathered(void **state)
{
    struct world world;
    char name[16];

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 100, "OnReplenish");
    activate(&world);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 100; i++) {
            (void)snprintf(name, sizeof(name), "p-%d", i);
            put_sandbox(&world,
                        &(struct sandbox){.name = name, .is_ready = turn == 1});
            advance(&world, 10 * WP_NS_PER_MS);
        }
    }
    advance(&world, WP_NS_PER_S);
    assert_int_equal(status_of(&world, "replicas"), 100);
    assert_int_equal(status_of(&world, "readyReplicas"), 100);
    assert_in_range(status_writes(&world), 2, 6);
    tear_down(&world);
}

/* A claim takes one, a new one is ready soon after: nothing to report. */
static void
whole_again_costs_nothing(void **state)
{
    struct world world;
    char name[16];

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 1, "OnReplenish");
    put_sandbox(&world, &(struct sandbox){.name = "p-0", .is_ready = true});
    activate(&world);
    assert_int_equal(status_writes(&world), 1);
    for (int i = 1; i < 20; i++) {
        (void)snprintf(name, sizeof(name), "p-%d", i - 1);
        put_sandbox(&world, &(struct sandbox){.name = name,
                                              .owners = CLAIMED,
                                              .is_ready = true});
        advance(&world, 50 * WP_NS_PER_MS);
        (void)snprintf(name, sizeof(name), "p-%d", i);
        put_sandbox(&world, &(struct sandbox){.name = name, .is_ready = true});
        advance(&world, 600 * WP_NS_PER_MS);
    }
    assert_int_equal(status_writes(&world), 1);
    tear_down(&world);
}

/* What the API server does not take is written again; a pool that is gone is
 * not. */
static void
status_is_retried(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 1, "OnReplenish");
    wp_recorder_plan(world.api, &(struct wp_recorder_fault){
                                    .verb = WP_VERB_PATCH,
                                    .kind = WP_KIND_SANDBOX_WARM_POOL,
                                    .subresource = "status",
                                    .times = 3,
                                    .status = WP_UNAVAILABLE});
    activate(&world);
    for (int i = 0; i < 10; i++) {
        advance(&world, WP_NS_PER_S);
    }
    assert_int_equal(status_writes(&world), 4);
    assert_int_equal(status_of(&world, "observedGeneration"), 1);
    wp_recorder_plan(world.api, &(struct wp_recorder_fault){
                                    .verb = WP_VERB_PATCH,
                                    .kind = WP_KIND_SANDBOX_WARM_POOL,
                                    .status = WP_NOT_FOUND});
    put_sandbox(&world, &(struct sandbox){.name = "p-1", .is_ready = true});
    advance(&world, WP_NS_PER_S);
    assert_int_equal(status_writes(&world), 5);
    tear_down(&world);
}

/* Nobody writes who does not lead. */
static void
only_while_active(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 1, "OnReplenish");
    wp_recorder_tell(world.api);
    assert_int_not_equal(event_base_loop(world.parts.base, EVLOOP_NONBLOCK),
                         -1);
    assert_int_equal(wp_recorder_calls(world.api), 0);
    activate(&world);
    assert_int_equal(wp_recorder_calls(world.api), 1);
    wp_pool_controller_ops.deactivate(world.controller);
    put_pool(&world, 2, "OnReplenish");
    wp_recorder_tell(world.api);
    assert_int_not_equal(event_base_loop(world.parts.base, EVLOOP_NONBLOCK),
                         -1);
    assert_int_equal(wp_recorder_calls(world.api), 1);
    activate(&world);
    assert_int_equal(status_of(&world, "observedGeneration"), 2);
    tear_down(&world);
}

/* --- Roll-out --- */

static uint64_t
retired(struct world *world)
{
    return wp_rig_stats(&world->rig).retired_total;
}

/* Recreate gives up what is stale and idle; what is leased stays. */
static void
recreate_gives_up(void **state)
{
    struct wp_rig_claim claim;
    struct world world;

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 4, "Recreate");
    put_known(&world, &(struct sandbox){.name = "p-1", .is_ready = true});
    wp_rig_claim_init(&claim, "claim", "tenant", 3600 * WP_NS_PER_S, 0);
    assert_int_equal(wp_rig_claim(&world.rig, &claim), WP_OK);
    put_known(&world, &(struct sandbox){.name = "p-2", .is_ready = true});
    put_known(&world, &(struct sandbox){.name = "p-3", .is_ready = true});
    put_known(&world,
              &(struct sandbox){.name = "p-4", .image = "b", .is_ready = true});
    put_template(&world, "a");
    activate(&world);
    assert_int_equal(retired(&world), 1); /* p-4 */
    put_template(&world, "c");
    settle(&world);
    wp_rig_settle(&world.rig);
    assert_int_equal(retired(&world), 3);
    assert_int_equal(wp_rig_stats(&world.rig).leased, 1);
    /* They do not count any more, though they are still there. */
    assert_int_equal(status_of(&world, "replicas"), 0);
    /* Deleting them is the backend's business. */
    assert_int_equal(sandbox_writes(&world), 0);
    tear_down(&world);
}

/* Not even a status that is being written holds it up: what is old would be
 * claimed meanwhile. */
static void
recreate_is_at_once(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 2, "Recreate");
    put_known(&world, &(struct sandbox){.name = "p-1", .is_ready = true});
    activate(&world);
    put_pool(&world, 3, "Recreate");
    wp_recorder_tell(world.api);
    assert_int_not_equal(event_base_loop(world.parts.base, EVLOOP_NONBLOCK),
                         -1);
    assert_non_null(
        wp_recorder_open(world.api, WP_VERB_PATCH, WP_KIND_SANDBOX_WARM_POOL));
    put_template(&world, "b");
    wp_recorder_tell(world.api);
    assert_int_equal(retired(&world), 1);
    settle(&world);
    assert_int_equal(retired(&world), 1);
    tear_down(&world);
}

static void
replenish_leaves(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 2, "OnReplenish");
    put_known(&world, &(struct sandbox){.name = "p-1", .is_ready = true});
    put_known(&world, &(struct sandbox){.name = "p-2", .is_ready = true});
    activate(&world);
    put_template(&world, "b");
    settle(&world);
    advance(&world, WP_NS_PER_S);
    assert_int_equal(retired(&world), 0);
    assert_int_equal(status_of(&world, "readyReplicas"), 2);
    /* Until the strategy changes. */
    put_pool(&world, 2, "Recreate");
    settle(&world);
    assert_int_equal(retired(&world), 2);
    tear_down(&world);
}

/* A stale sandbox that the core does not know yet is not forgotten. */
static void
unknown_is_given_up_later(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    put_template(&world, "b");
    put_pool(&world, 1, "Recreate");
    put_sandbox(&world, &(struct sandbox){.name = "p-1", .is_ready = true});
    activate(&world);
    assert_int_equal(status_of(&world, "replicas"), 1);
    (void)know(&world, "p-1", WP_SANDBOX_READY);
    advance(&world, 2 * WP_NS_PER_S);
    assert_int_equal(retired(&world), 1);
    tear_down(&world);
}

/* Without a template nothing is stale. */
static void
kept_without_template(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 1, "Recreate");
    put_known(&world, &(struct sandbox){.name = "p-1", .is_ready = true});
    activate(&world);
    wp_recorder_remove(world.api, WP_KIND_SANDBOX_TEMPLATE, "default", "t");
    settle(&world);
    assert_int_equal(retired(&world), 0);
    assert_int_equal(status_of(&world, "replicas"), 1);
    tear_down(&world);
}

/* --- Orphans, labels --- */

#define BYSTANDER                                                              \
    "{'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': 'm', 'uid': 'm'}"

static void
orphans_are_taken_in(void **state)
{
    struct world world;
    const json_t *made;

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 3, "OnReplenish");
    put_sandbox(&world, &(struct sandbox){.name = "p-1",
                                          .owners = BYSTANDER,
                                          .launch = "cold",
                                          .is_ready = true});
    put_sandbox(&world,
                &(struct sandbox){.name = "p-2", .owners = "", .image = "b"});
    put_sandbox(&world, &(struct sandbox){.name = "p-3", .owners = CLAIMED});
    activate(&world);
    made = sandbox_at(&world, "p-1");
    wp_test_json_equal(
        json_deep_copy(wp_json_at(made, "metadata", "ownerReferences", NULL)),
        "[" BYSTANDER ", {'apiVersion': 'extensions.agents.x-k8s.io/v1beta1', "
        "'kind': 'SandboxWarmPool', 'name': 'p', 'uid': 'pool-uid', "
        "'controller': true, 'blockOwnerDeletion': true}]");
    assert_string_equal(
        wp_json_text(made, "metadata", "labels", WP_LABEL_LAUNCH_TYPE, NULL),
        "warm");
    assert_null(sandbox_at(&world, "p-2")); /* Stale. */
    assert_string_equal(
        wp_recorder_last(world.api, WP_VERB_DELETE, WP_KIND_SANDBOX)->name,
        "p-2");
    assert_string_not_equal(
        wp_recorder_last(world.api, WP_VERB_DELETE, WP_KIND_SANDBOX)
            ->resource_version,
        "");
    assert_int_equal(sandbox_writes(&world), 2); /* Not p-3. */
    advance(&world, WP_NS_PER_S);
    assert_int_equal(status_of(&world, "replicas"), 1);
    assert_int_equal(sandbox_writes(&world), 2);
    tear_down(&world);
}

/* Somebody else was quicker: no failure, and decided anew. */
static void
orphan_that_changes(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 1, "OnReplenish");
    put_sandbox(&world, &(struct sandbox){.name = "p-1", .owners = ""});
    wp_recorder_tell(world.api);
    wp_recorder_hold(world.api, true);
    put_sandbox(&world, &(struct sandbox){.name = "p-1", .owners = CLAIMED});
    activate(&world);
    wp_recorder_hold(world.api, false);
    advance(&world, WP_NS_PER_S);
    assert_string_equal(
        json_string_value(json_object_get(
            json_array_get(wp_json_at(sandbox_at(&world, "p-1"), "metadata",
                                      "ownerReferences", NULL),
                           0),
            "kind")),
        "SandboxClaim");
    assert_int_equal(sandbox_writes(&world), 1);
    tear_down(&world);
}

static void
launch_type_is_put_right(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 1, "OnReplenish");
    put_sandbox(&world, &(struct sandbox){.name = "p-1", .launch = ""});
    activate(&world);
    assert_string_equal(wp_json_text(sandbox_at(&world, "p-1"), "metadata",
                                     "labels", WP_LABEL_LAUNCH_TYPE, NULL),
                        "warm");
    assert_int_equal(sandbox_writes(&world), 1);
    assert_int_equal(status_of(&world, "replicas"), 1);
    tear_down(&world);
}

/* A thousand orphans are not a thousand calls at once; all get their turn. */
static void
many_orphans(void **state)
{
    struct world world;
    char name[16];

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 300, "OnReplenish");
    for (int i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof(name), "p-%d", i);
        put_sandbox(&world, &(struct sandbox){.name = name, .owners = ""});
    }
    wp_recorder_tell(world.api);
    wp_pool_controller_ops.activate(world.controller);
    assert_int_not_equal(event_base_loop(world.parts.base, EVLOOP_NONBLOCK),
                         -1);
    assert_in_range(wp_recorder_calls(world.api), 100, 101);
    for (int i = 0; i < 10; i++) {
        advance(&world, WP_NS_PER_S);
    }
    assert_int_equal(sandbox_writes(&world), 300);
    assert_int_equal(status_of(&world, "replicas"), 300);
    tear_down(&world);
}

/* --- What people are told --- */

static const char *
last_event(struct world *world)
{
    const struct wp_recorded *call =
        wp_recorder_last(world->api, WP_VERB_POST, WP_KIND_EVENT);

    return call == NULL ? "" : wp_recorded_text(call, "reason", NULL);
}

static uint32_t
events(struct world *world)
{
    return wp_recorder_count(world->api, WP_VERB_POST, WP_KIND_EVENT);
}

/* One that finds no room is kept; said once, after the grace. */
static void
unschedulable_is_told(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 1, "OnReplenish");
    put_sandbox(&world,
                &(struct sandbox){.name = "p-1", .unschedulable = true});
    activate(&world);
    advance(&world, GRACE_NS - 10 * WP_NS_PER_S);
    assert_int_equal(events(&world), 0);
    /* Nothing changes in the cluster: the time alone brings it. */
    advance(&world, 20 * WP_NS_PER_S);
    assert_string_equal(last_event(&world), "WarmPoolNotProgressing");
    for (int i = 0; i < 10; i++) {
        advance(&world, 61 * WP_NS_PER_S);
    }
    assert_int_equal(events(&world), 1);
    assert_int_equal(status_of(&world, "replicas"), 1);
    put_sandbox(&world, &(struct sandbox){.name = "p-1", .is_ready = true});
    advance(&world, WP_NS_PER_S);
    assert_string_equal(last_event(&world), "WarmPoolProgressing");
    assert_int_equal(events(&world), 2);
    tear_down(&world);
}

static void
missing_template_is_told(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    put_pool(&world, 0, "OnReplenish");
    activate(&world);
    assert_int_equal(events(&world), 0); /* It wants none. */
    put_pool(&world, 1, "OnReplenish");
    settle(&world);
    assert_string_equal(last_event(&world), "WarmPoolNotProgressing");
    put_template(&world, "a");
    settle(&world);
    assert_string_equal(last_event(&world), "WarmPoolProgressing");
    assert_int_equal(events(&world), 2);
    tear_down(&world);
}

/* What the core makes fails before there is an object: found out all the same,
 * and again when it goes well. */
static void
failing_is_told(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 1, "OnReplenish");
    activate(&world);
    world.rig.backend.ready = WP_FAKE_READY_NEVER;
    world.rig.backend.create_status = WP_OK;
    for (int i = 0; i < 6; i++) {
        advance(&world, 61 * WP_NS_PER_S);
        (void)wp_fake_backend_fail(&world.rig.backend, 1, "quota exceeded");
        advance(&world, WP_NS_PER_S);
    }
    assert_true(wp_rig_stats(&world.rig).breaker_open);
    advance(&world, 6 * WP_NS_PER_S);
    assert_string_equal(last_event(&world), "WarmPoolNotProgressing");
    assert_non_null(
        strstr(wp_recorded_text(
                   wp_recorder_last(world.api, WP_VERB_POST, WP_KIND_EVENT),
                   "note", NULL),
               "quota exceeded"));
    tear_down(&world);
}

static const char *
last_note(struct world *world)
{
    return wp_recorded_text(
        wp_recorder_last(world->api, WP_VERB_POST, WP_KIND_EVENT), "note",
        NULL);
}

static void
annotate(struct world *world, const char *key, const char *value)
{
    (void)wp_recorder_merge(
        world->api, WP_KIND_SANDBOX_WARM_POOL, "default", "p",
        text_of("{'metadata': {'annotations': {'%s%s': '%s'}}}", WP_SCALE_GROUP,
                key, value));
    advance(world, WP_NS_PER_S);
}

/* Once for each mistake, whatever else happens to the pool; and when it is put
 * right. */
static void
bad_policy_is_told(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 0, "OnReplenish");
    activate(&world);
    annotate(&world, "objective", "99%");
    assert_int_equal(events(&world), 0);
    annotate(&world, "mim", "5");
    assert_string_equal(last_event(&world), "InvalidPolicy");
    assert_string_equal(
        last_note(&world),
        "annotations of autoscale.warmpool.io/: mim: unknown key; the nearest "
        "known one is min; all of them: warmpool-autoscale(7); the pool keeps "
        "the policy that it had");
    annotate(&world, "min", "5");
    put_pool(&world, 1, "Recreate");
    advance(&world, WP_NS_PER_S);
    assert_int_equal(events(&world), 1);
    annotate(&world, "objective", "always");
    assert_non_null(strstr(last_note(&world), "objective: a share of claims"));
    assert_int_equal(events(&world), 2);
    (void)wp_recorder_merge(
        world.api, WP_KIND_SANDBOX_WARM_POOL, "default", "p",
        text_of("{'metadata': {'annotations': {'%smim': null, '%sobjective': "
                "'99.9%%'}}}",
                WP_SCALE_GROUP, WP_SCALE_GROUP));
    advance(&world, WP_NS_PER_S);
    assert_string_equal(last_event(&world), "PolicyAccepted");
    assert_int_equal(events(&world), 3);
    tear_down(&world);
}

/* The core's pool has this policy and these replicas, and decides. */
static void
scale_core(struct world *world, uint32_t replicas, const char *resume)
{
    struct wp_pool_spec spec = wp_rig_stats(&world->rig).spec;
    struct wp_err err;

    wp_scale_policy_init(&spec.scale);
    assert_int_equal(wp_scale_policy_set(&spec.scale, WP_STR("objective"),
                                         WP_STR("99%"), &err),
                     WP_OK);
    assert_int_equal(wp_scale_policy_set(&spec.scale, WP_STR("resume"),
                                         wp_str_from(resume), &err),
                     WP_OK);
    spec.target = replicas;
    assert_int_equal(wp_pools_update(world->rig.pools, 0, &spec, &err), WP_OK);
    wp_rig_settle(&world->rig);
}

/* Whoever changes spec.replicas has taken over; a changed policy ends that. */
static void
scaling_by_hand_is_told(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, false);
    put_template(&world, "a");
    put_pool(&world, 2, "OnReplenish");
    activate(&world);
    scale_core(&world, 2, "1");
    annotate(&world, "objective", "99%");
    annotate(&world, "resume", "1");
    assert_int_equal(events(&world), 0);
    scale_core(&world, 4, "1");
    put_pool(&world, 4, "OnReplenish");
    advance(&world, WP_NS_PER_S);
    assert_string_equal(last_event(&world), "ScaledByHand");
    assert_non_null(strstr(last_note(&world), "was changed to 4"));
    assert_int_equal(events(&world), 1);
    scale_core(&world, 4, "2");
    annotate(&world, "resume", "2");
    assert_string_equal(last_event(&world), "ScaledByPolicy");
    assert_int_equal(events(&world), 2);
    tear_down(&world);
}

/* --- Pools that go --- */

static void
deleted_pool(void **state)
{
    for (int gc = 0; gc < 2; gc++) {
        struct world world;

        (void)state;
        set_up(&world, gc == 1);
        put_template(&world, "a");
        put_pool(&world, 2, "OnReplenish");
        put_sandbox(&world, &(struct sandbox){.name = "p-1"});
        put_sandbox(&world, &(struct sandbox){.name = "p-2"});
        put_sandbox(&world,
                    &(struct sandbox){.name = "p-3", .owners = CLAIMED});
        (void)know(&world, "p-2", WP_SANDBOX_ADOPTED);
        activate(&world);
        wp_recorder_remove(world.api, WP_KIND_SANDBOX_WARM_POOL, "default",
                           "p");
        advance(&world, WP_NS_PER_S);
        assert_int_equal(sandbox_writes(&world), gc);
        assert_true((sandbox_at(&world, "p-1") == NULL) == (gc == 1));
        assert_non_null(sandbox_at(&world, "p-2"));
        assert_non_null(sandbox_at(&world, "p-3"));
        tear_down(&world);
    }
}

/* Of a pool that went while nobody led; one of its name is another pool. */
static void
ownerless_from_before(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, true);
    put_template(&world, "a");
    put_sandbox(&world, &(struct sandbox){.name = "p-1"});
    activate(&world);
    advance(&world, WP_NS_PER_S);
    assert_null(sandbox_at(&world, "p-1"));
    tear_down(&world);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_is_exact),
        cmocka_unit_test(burst_is_gathered),
        cmocka_unit_test(whole_again_costs_nothing),
        cmocka_unit_test(status_is_retried),
        cmocka_unit_test(only_while_active),
        cmocka_unit_test(recreate_gives_up),
        cmocka_unit_test(recreate_is_at_once),
        cmocka_unit_test(replenish_leaves),
        cmocka_unit_test(unknown_is_given_up_later),
        cmocka_unit_test(kept_without_template),
        cmocka_unit_test(orphans_are_taken_in),
        cmocka_unit_test(orphan_that_changes),
        cmocka_unit_test(launch_type_is_put_right),
        cmocka_unit_test(many_orphans),
        cmocka_unit_test(unschedulable_is_told),
        cmocka_unit_test(missing_template_is_told),
        cmocka_unit_test(failing_is_told),
        cmocka_unit_test(bad_policy_is_told),
        cmocka_unit_test(scaling_by_hand_is_told),
        cmocka_unit_test(deleted_pool),
        cmocka_unit_test(ownerless_from_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
