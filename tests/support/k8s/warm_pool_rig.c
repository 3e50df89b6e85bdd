#include "tests/support/k8s/warm_pool_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#include "k8s/controllers/verdicts.h"
#include "k8s/objects/json.h"

enum {
    SLOTS = 64,
};

const char *
warm_pool_rig_text(const char *format, ...)
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

void
warm_pool_rig_put_template(struct warm_pool_rig *rig, const char *image)
{
    (void)wp_recorder_put(
        rig->api, WP_KIND_SANDBOX_TEMPLATE,
        warm_pool_rig_text(
            "{'metadata': {'name': 't', 'namespace': 'default'}, 'spec': "
            "{'podTemplate': {'spec': {'containers': [{'name': 'c', "
            "'image': '%s'}]}}}}",
            image));
}

void
warm_pool_rig_put_pool(struct warm_pool_rig *rig, int replicas,
                       const char *strategy)
{
    char text[256];

    (void)snprintf(
        text, sizeof(text), "%s",
        warm_pool_rig_text("'spec': {'replicas': %d, 'sandboxTemplateRef': "
                           "{'name': 't'}, 'updateStrategy': {'type': '%s'}}",
                           replicas, strategy));
    if (wp_recorder_object(rig->api, WP_KIND_SANDBOX_WARM_POOL, "default",
                           "p") != NULL) {
        (void)wp_recorder_merge(rig->api, WP_KIND_SANDBOX_WARM_POOL, "default",
                                "p", warm_pool_rig_text("{%s}", text));
        return;
    }
    (void)wp_recorder_put(
        rig->api, WP_KIND_SANDBOX_WARM_POOL,
        warm_pool_rig_text("{'metadata': {'name': 'p', 'namespace': "
                           "'default', 'uid': 'pool-uid'}, %s}",
                           text));
}

void
warm_pool_rig_init(struct warm_pool_rig *rig, bool gc)
{
    static const enum wp_kind kinds[] = {
        WP_KIND_SANDBOX, WP_KIND_SANDBOX_TEMPLATE, WP_KIND_SANDBOX_WARM_POOL};
    struct wp_pool_spec spec;
    struct wp_err err;

    memset(rig, 0, sizeof(*rig));
    wp_pool_spec_init(&spec);
    spec.ready_within_ns = WARM_POOL_GRACE_NS;
    wp_rig_init_foreign(&rig->core, SLOTS, 0, &spec);
    /* The core has room, but only what a test puts there is there. */
    rig->core.backend.create_status = WP_RESOURCE_EXHAUSTED;
    assert_int_equal(wp_pools_set_target(rig->core.pools, 0, SLOTS / 2, &err),
                     WP_OK);
    rig->api = wp_recorder_create();
    wp_recorder_serve(rig->api);
    wp_recorder_set_time(rig->api, wp_clock_wall_ns(&rig->core.clock.clock));
    rig->parts.config.gc = gc;
    rig->parts.config.ready_grace_ns = WARM_POOL_GRACE_NS;
    rig->parts.core.pools = rig->core.pools;
    rig->parts.base = event_base_new();
    rig->parts.clock = &rig->core.clock.clock;
    rig->parts.api = rig->api;
    rig->parts.refs = wp_sandbox_refs_create(SLOTS);
    rig->parts.verdicts = wp_verdicts_create();
    assert_non_null(rig->parts.verdicts);
    rig->parts.events = wp_events_create(&(struct wp_events_config){
        .base = rig->parts.base,
        .clock = rig->parts.clock,
        .api = rig->api,
        .instance = "test",
    });
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        struct wp_store *store = wp_store_create(
            kinds[i], kinds[i] == WP_KIND_SANDBOX ? WP_LABEL_WARM_POOL : NULL);

        rig->parts.stores[kinds[i]] = store;
        wp_recorder_feed(rig->api, store, kinds[i]);
    }
    rig->controller = wp_pool_controller_ops.create(&rig->parts, &err);
    assert_non_null(rig->controller);
    wp_name_hash(WP_STR("p"), rig->hash);
}

void
warm_pool_rig_settle(struct warm_pool_rig *rig)
{
    struct wp_work_queue_stats stats;
    uint64_t begun;

    do {
        wp_recorder_notify(rig->api);
        wp_work_queue_stats(rig->controller->queue, &stats);
        begun = stats.begun;
        wp_work_pause(rig->controller->queue, false);
        assert_int_not_equal(event_base_loop(rig->parts.base, EVLOOP_NONBLOCK),
                             -1);
        wp_work_queue_stats(rig->controller->queue, &stats);
    } while (wp_recorder_run(rig->api) > 0 || stats.begun != begun);
}

void
warm_pool_rig_advance(struct warm_pool_rig *rig, int64_t ns)
{
    warm_pool_rig_settle(rig);
    wp_rig_advance(&rig->core, ns);
    wp_recorder_set_time(rig->api, wp_clock_wall_ns(rig->parts.clock));
    warm_pool_rig_settle(rig);
}

void
warm_pool_rig_activate(struct warm_pool_rig *rig)
{
    wp_recorder_notify(rig->api);
    rig->parts.active = true;
    wp_pool_controller_ops.activate(rig->controller);
    warm_pool_rig_settle(rig);
}

void
warm_pool_rig_fini(struct warm_pool_rig *rig)
{
    assert_int_equal(wp_recorder_planned(rig->api), 0);
    wp_pool_controller_ops.deactivate(rig->controller);
    wp_api_destroy(rig->api);
    wp_pool_controller_ops.destroy(rig->controller);
    wp_verdicts_destroy(rig->parts.verdicts);
    wp_events_destroy(rig->parts.events);
    for (int kind = 0; kind < WP_KIND_COUNT; kind++) {
        wp_store_destroy(rig->parts.stores[kind]);
    }
    wp_sandbox_refs_destroy(rig->parts.refs);
    event_base_free(rig->parts.base);
    wp_rig_fini(&rig->core);
}

void
warm_pool_rig_put_sandbox(struct warm_pool_rig *rig,
                          const struct warm_pool_sandbox *sandbox)
{
    char owners[1024];

    (void)snprintf(owners, sizeof owners, "'ownerReferences': [%s], ",
                   sandbox->owners != NULL ? sandbox->owners : WARM_POOL_OWNED);
    (void)wp_recorder_put(
        rig->api, WP_KIND_SANDBOX,
        warm_pool_rig_text(
            "{'metadata': {%s'name': '%s', 'namespace': 'default', "
            "'labels': {'" WP_LABEL_WARM_POOL "': '%s', "
            "'" WP_LABEL_TEMPLATE_REF_HASH "': 'f10c3da3', "
            "'" WP_LABEL_LAUNCH_TYPE "': '%s'}}, "
            "'spec': {'podTemplate': {'spec': {'containers': [{'name': "
            "'c', 'image': '%s'}], 'automountServiceAccountToken': false, "
            "'dnsPolicy': 'None', 'dnsConfig': {'nameservers': "
            "['8.8.8.8', '1.1.1.1']}}}}, 'status': {'conditions': ["
            "{'type': 'Ready', 'status': '%s', 'reason': 'r'}, "
            "{'type': 'PodScheduled', 'status': '%s', 'reason': '%s'}]}}",
            sandbox->without_owners ? "" : owners, sandbox->name, rig->hash,
            sandbox->launch != NULL ? sandbox->launch : "warm",
            sandbox->image != NULL ? sandbox->image : "a",
            sandbox->is_ready ? "True" : "False",
            sandbox->unschedulable ? "False" : "True",
            sandbox->unschedulable ? "Unschedulable" : "Scheduled"));
}

struct wp_sandbox_ref *
warm_pool_rig_know(struct warm_pool_rig *rig, const char *name,
                   enum wp_sandbox_phase phase)
{
    struct wp_sandbox_ref entry = {.phase = phase};

    (void)snprintf(entry.ns, sizeof(entry.ns), "default");
    (void)snprintf(entry.name, sizeof(entry.name), "%s", name);
    (void)snprintf(entry.pool, sizeof(entry.pool), "p");
    (void)snprintf((char *)entry.uid, sizeof(entry.uid), "%s", name);
    assert_true(wp_pools_found(rig->core.pools, 0, entry.uid, wp_str_from(name),
                               &entry.ref));
    wp_fake_backend_found(&rig->core.backend, entry.ref, name);
    assert_int_equal(wp_fake_backend_make_ready(&rig->core.backend, 1), 1);
    wp_rig_settle(&rig->core);
    return wp_sandbox_refs_add(rig->parts.refs, &entry);
}

void
warm_pool_rig_put_known(struct warm_pool_rig *rig,
                        const struct warm_pool_sandbox *sandbox)
{
    warm_pool_rig_put_sandbox(rig, sandbox);
    (void)warm_pool_rig_know(rig, sandbox->name, WP_SANDBOX_READY);
}

json_int_t
warm_pool_rig_status(struct warm_pool_rig *rig, const char *key)
{
    const json_t *pool =
        wp_recorder_object(rig->api, WP_KIND_SANDBOX_WARM_POOL, "default", "p");

    return json_integer_value(wp_json_at(pool, "status", key, NULL));
}

uint32_t
warm_pool_rig_status_writes(struct warm_pool_rig *rig)
{
    return wp_recorder_count(rig->api, WP_VERB_PATCH,
                             WP_KIND_SANDBOX_WARM_POOL);
}

uint32_t
warm_pool_rig_sandbox_writes(struct warm_pool_rig *rig)
{
    return wp_recorder_count(rig->api, WP_VERB_WRITES, WP_KIND_SANDBOX);
}

const json_t *
warm_pool_rig_sandbox(struct warm_pool_rig *rig, const char *name)
{
    return wp_recorder_object(rig->api, WP_KIND_SANDBOX, "default", name);
}
