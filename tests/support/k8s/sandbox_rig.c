#include "tests/support/k8s/sandbox_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/objects/condition.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/controllers/sandbox/controller.h"

#define WALL_NS (INT64_C(1767225600) * WP_NS_PER_S) /* 2026-01-01T00:00:00Z */

static const enum wp_kind watched[] = {WP_KIND_SANDBOX, WP_KIND_POD,
                                       WP_KIND_SERVICE, WP_KIND_VOLUME_CLAIM};

void
sandbox_rig_init(struct sandbox_rig *rig, bool gc)
{
    struct wp_err err;

    memset(rig, 0, sizeof *rig);
    rig->base = event_base_new();
    rig->api = wp_recorder_create();
    assert_true(rig->base != NULL && rig->api != NULL);
    wp_recorder_serve(rig->api);
    wp_recorder_set_time(rig->api, WALL_NS);
    wp_clock_manual_init(&rig->clock, WP_NS_PER_S, WALL_NS);
    rig->parts = (struct wp_parts){
        .config = {.cluster_domain = "cluster.local", .gc = gc},
        .base = rig->base,
        .clock = &rig->clock.clock,
        .api = rig->api,
        .seed = 3,
    };
    rig->parts.events = wp_events_create(&(struct wp_events_config){
        .base = rig->base,
        .clock = &rig->clock.clock,
        .api = rig->api,
        .instance = "test",
    });
    for (size_t i = 0; i < WP_ARRAY_LEN(watched); i++) {
        struct wp_store *store =
            wp_store_create(watched[i], WP_LABEL_NAME_HASH);

        rig->parts.stores[watched[i]] = store;
    }
    rig->controller = wp_sandbox_controller_ops.create(&rig->parts, &err);
    assert_non_null(rig->controller);
    for (size_t i = 0; i < WP_ARRAY_LEN(watched); i++) {
        struct wp_store *store = rig->parts.stores[watched[i]];

        wp_store_replace_begin(store);
        wp_store_replace_end(store, "1");
        wp_recorder_feed(rig->api, store, watched[i]);
    }
    wp_sandbox_controller_ops.activate(rig->controller);
}

void
sandbox_rig_fini(struct sandbox_rig *rig)
{
    assert_int_equal(wp_recorder_planned(rig->api), 0);
    wp_sandbox_controller_ops.deactivate(rig->controller);
    wp_events_destroy(rig->parts.events);
    wp_api_destroy(rig->api);
    wp_sandbox_controller_ops.destroy(rig->controller);
    for (size_t i = 0; i < WP_ARRAY_LEN(watched); i++) {
        wp_store_destroy(rig->parts.stores[watched[i]]);
    }
    event_base_free(rig->base);
}

/* Timers are libevent's, the clock is ours: they look at it again. */
static void
look_again(struct sandbox_rig *rig)
{
    struct wp_sandbox_controller *controller = rig->controller;

    wp_work_pause(controller->queue, !controller->active);
}

void
sandbox_rig_settle(struct sandbox_rig *rig)
{
    uint32_t idle = 0;

    while (idle < 3) {
        look_again(rig);
        assert_int_not_equal(event_base_loop(rig->base, EVLOOP_NONBLOCK), -1);
        idle = wp_recorder_run(rig->api) == 0 ? idle + 1 : 0;
    }
}

void
sandbox_rig_pass(struct sandbox_rig *rig, int64_t ms)
{
    wp_clock_manual_advance(&rig->clock, ms * WP_NS_PER_MS);
    sandbox_rig_settle(rig);
}

/* With " for '. Valid until the next call. */
static const char *
quoted(const char *text)
{
    static char out[8192];

    (void)snprintf(out, sizeof out, "%s", text);
    for (char *at = strchr(out, '\''); at != NULL; at = strchr(at, '\'')) {
        *at = '"';
    }
    return out;
}

void
sandbox_rig_put(struct sandbox_rig *rig, enum wp_kind kind, const char *text)
{
    (void)wp_recorder_put(rig->api, kind, quoted(text));
    sandbox_rig_settle(rig);
}

void
sandbox_rig_sandbox(struct sandbox_rig *rig, const char *metadata,
                    const char *spec)
{
    char text[4096];

    (void)snprintf(text, sizeof text,
                   "{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox',"
                   "'metadata':{'name':'s','namespace':'n','uid':'su'%s%s},"
                   "'spec':{'podTemplate':{'spec':{'containers':[{'name':"
                   "'main','ports':[{'containerPort':80}]}]}}%s%s}}",
                   metadata[0] != '\0' ? "," : "", metadata,
                   spec[0] != '\0' ? "," : "", spec);
    sandbox_rig_put(rig, WP_KIND_SANDBOX, text);
}

void
sandbox_rig_merge(struct sandbox_rig *rig, enum wp_kind kind, const char *name,
                  const char *patch)
{
    (void)wp_recorder_merge(rig->api, kind, "n", name, quoted(patch));
    sandbox_rig_settle(rig);
}

void
sandbox_rig_pod_ready(struct sandbox_rig *rig, const char *name)
{
    sandbox_rig_merge(
        rig, WP_KIND_POD, name,
        "{'spec':{'nodeName':'node-1'},'status':{'phase':'Running','podIP':"
        "'10.0.0.7','podIPs':[{'ip':'10.0.0.7'}],'conditions':["
        "{'type':'PodScheduled','status':'True'},"
        "{'type':'Ready','status':'True'}]}}");
}

const char *
sandbox_rig_writes(struct sandbox_rig *rig)
{
    static const char *const verbs[] = {
        [WP_VERB_POST] = "POST",
        [WP_VERB_PUT] = "PUT",
        [WP_VERB_PATCH] = "PATCH",
        [WP_VERB_DELETE] = "DELETE",
    };
    static char out[1024];
    size_t used = 0;

    out[0] = '\0';
    for (; rig->seen < wp_recorder_calls(rig->api); rig->seen++) {
        const struct wp_recorded *call = wp_recorder_call(rig->api, rig->seen);
        const char *name =
            call->name[0] != '\0'
                ? call->name
                : wp_json_text(call->body, "metadata", "name", NULL);

        if (call->verb < WP_VERB_POST || call->kind == WP_KIND_EVENT) {
            continue;
        }
        used += (size_t)snprintf(
            out + used, sizeof out - used, "%s%s %s%s%s %s",
            used == 0 ? "" : ", ", verbs[call->verb],
            wp_kind_info(call->kind)->kind,
            call->subresource[0] != '\0' ? "/" : "", call->subresource, name);
        assert_true(used < sizeof out);
    }
    return out;
}

const json_t *
sandbox_rig_object(const struct sandbox_rig *rig, enum wp_kind kind,
                   const char *name)
{
    return wp_recorder_object(rig->api, kind, "n", name);
}

static const json_t *
find_condition(struct sandbox_rig *rig, const char *type)
{
    return wp_condition_find(
        wp_json_at(sandbox_rig_object(rig, WP_KIND_SANDBOX, "s"), "status",
                   "conditions", NULL),
        type);
}

const char *
sandbox_rig_message(struct sandbox_rig *rig, const char *type)
{
    return wp_json_text(find_condition(rig, type), "message", NULL);
}

const char *
sandbox_rig_condition(struct sandbox_rig *rig, const char *type)
{
    static char out[256];
    const json_t *condition = find_condition(rig, type);

    if (condition == NULL) {
        return "";
    }
    (void)snprintf(out, sizeof out, "%s %s",
                   wp_json_text(condition, "status", NULL),
                   wp_json_text(condition, "reason", NULL));
    return out;
}
