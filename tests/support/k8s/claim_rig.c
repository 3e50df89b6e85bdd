#include "tests/support/k8s/claim_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/controllers/claim/endings.h"
#include "k8s/controllers/claim/reconcile.h"
#include "k8s/controllers/verdicts.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/leases/memory.h"

static const enum wp_kind watched[] = {
    WP_KIND_SANDBOX, WP_KIND_ALIAS, WP_KIND_SANDBOX_CLAIM,
    WP_KIND_SANDBOX_TEMPLATE, WP_KIND_SANDBOX_WARM_POOL};

#define WATCHED (sizeof watched / sizeof watched[0])

/* --- The core's backend --- */

static enum wp_status
backend_create(void *self, const struct wp_sandbox_order *order,
               struct wp_err *err)
{
    struct wp_claim_rig *rig = self;
    struct wp_claim_rig_order *kept = &rig->orders[rig->orders_len++];

    (void)err;
    assert_true(rig->orders_len < sizeof rig->orders / sizeof rig->orders[0]);
    memset(kept, 0, sizeof *kept);
    kept->ref = order->ref;
    kept->live = true;
    assert_true(wp_str_copy(order->name, kept->name, sizeof kept->name));
    return WP_OK;
}

static enum wp_status
backend_destroy(void *self, struct wp_slot_ref ref)
{
    struct wp_claim_rig *rig = self;

    for (uint32_t i = 0; i < rig->orders_len; i++) {
        struct wp_claim_rig_order *order = &rig->orders[i];

        if (order->live && order->ref.index == ref.index &&
            order->ref.generation == ref.generation) {
            order->dying = true;
        }
    }
    return WP_OK;
}

static void
bury(struct wp_claim_rig *rig)
{
    for (uint32_t i = 0; i < rig->orders_len; i++) {
        struct wp_claim_rig_order *order = &rig->orders[i];

        if (order->live && order->dying) {
            order->live = false;
            /* What a claim controls is not the pool's to delete. */
            if (rig->api != NULL &&
                wp_claim_rig_object(rig, order->name) != NULL &&
                strcmp(wp_json_text(
                           json_array_get(
                               wp_json_at(wp_claim_rig_object(rig, order->name),
                                          "metadata", "ownerReferences", NULL),
                               0),
                           "kind", NULL),
                       "SandboxWarmPool") == 0) {
                wp_recorder_remove(rig->api, WP_KIND_SANDBOX, "ns",
                                   order->name);
            }
            wp_pools_on_destroyed(rig->pools, order->ref);
        }
    }
}

/* --- The rig --- */

static void
wake(void *ctx)
{
    (void)ctx;
}

static bool
post(void *self, void (*run)(void *arg, uint64_t a, uint64_t b), void *arg,
     uint64_t a, uint64_t b)
{
    struct wp_claim_rig *rig = self;

    assert_true(a == 0 && b == 0);
    if (rig->channel_full || rig->messages_len == 64) {
        return false;
    }
    rig->messages[rig->messages_len].run = run;
    rig->messages[rig->messages_len].arg = arg;
    rig->messages_len++;
    return true;
}

static void
core_start(struct wp_claim_rig *rig, uint32_t target)
{
    static const struct wp_backend_ops ops = {.name = "rig",
                                              .foreign = true,
                                              .create = backend_create,
                                              .destroy = backend_destroy};
    struct wp_pools_config config = {
        .slots_max = WP_CLAIM_RIG_SLOTS,
        .claims_max = WP_CLAIM_RIG_SLOTS * 2,
        .clock = &rig->clock.clock,
        .backend = {&ops, rig},
        .store = wp_lease_memory(),
        .hash_key = {1, 2 + rig->processes},
        .seed = 3 + rig->processes,
        .wake = wake,
    };
    struct wp_pool_spec spec;
    struct wp_err err;

    rig->processes++;
    rig->pools = wp_pools_create(&config, &err);
    assert_non_null(rig->pools);
    rig->parts.core.pools = rig->pools;
    wp_pool_spec_init(&spec);
    (void)snprintf(spec.pool_namespace, sizeof spec.pool_namespace, "ns");
    (void)snprintf(spec.name, sizeof spec.name, "p");
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    spec.target = target;
    spec.create_inflight_max = WP_CLAIM_RIG_SLOTS;
    spec.cold_start = WP_COLD_NEVER;
    if (rig->pool_known) {
        assert_int_equal(wp_pools_add(rig->pools, &spec, NULL, &err), WP_OK);
    }
}

static void
core_stop(struct wp_claim_rig *rig)
{
    struct wp_api *api = rig->api;

    wp_pools_check(rig->pools);
    wp_pools_stop(rig->pools);
    rig->api = NULL;
    for (int i = 0; i < 200 && !wp_pools_quiet(rig->pools); i++) {
        wp_clock_manual_advance(&rig->clock, 100 * WP_NS_PER_MS);
        (void)wp_pools_run(rig->pools);
        bury(rig);
    }
    rig->api = api;
    assert_true(wp_pools_quiet(rig->pools));
    wp_pools_destroy(rig->pools);
    rig->orders_len = 0;
}

/* API server, stores and events. */
static void
world_start(struct wp_claim_rig *rig)
{
    rig->api = wp_recorder_create();
    rig->parts.api = rig->api;
    wp_recorder_serve(rig->api);
    wp_recorder_set_time(rig->api, rig->clock.now_wall_ns);
    wp_recorder_number_from(rig->api, (int64_t)rig->processes << 20);
    for (size_t i = 0; i < WATCHED; i++) {
        rig->parts.stores[watched[i]] = wp_store_create(watched[i], NULL);
        assert_non_null(rig->parts.stores[watched[i]]);
    }
    rig->parts.verdicts = wp_verdicts_create();
    assert_non_null(rig->parts.verdicts);
    rig->parts.events = wp_events_create(&(struct wp_events_config){
        .base = rig->parts.base,
        .clock = rig->parts.clock,
        .api = rig->api,
        .instance = "rig",
    });
    assert_non_null(rig->parts.events);
}

void
wp_claim_rig_init(struct wp_claim_rig *rig)
{
    memset(rig, 0, sizeof *rig);
    rig->pool_known = true;
    wp_clock_manual_init(&rig->clock, 1000 * WP_NS_PER_S,
                         INT64_C(1767225600) * WP_NS_PER_S + 123456789);
    rig->parts.config = (struct wp_cluster_config){
        .cold_grace_ns = 2 * WP_NS_PER_S,
        .cold_start = true,
        .implicit_pool_idle_ns = 600 * WP_NS_PER_S,
        .implicit_pools_max = 4,
        .claim_events = true,
        .observability_annotations = true,
        .allowed_label_domains_file = "/nonexistent/domains",
    };
    rig->parts.base = event_base_new();
    assert_non_null(rig->parts.base);
    rig->parts.clock = &rig->clock.clock;
    rig->parts.post = post;
    rig->parts.self = rig;
    rig->parts.seed = 5;
    world_start(rig);
}

static void
feed(struct wp_claim_rig *rig)
{
    for (size_t i = 0; i < WATCHED; i++) {
        wp_recorder_feed(rig->api, rig->parts.stores[watched[i]], watched[i]);
    }
}

static void
controller_start(struct wp_claim_rig *rig)
{
    struct wp_err err;

    rig->controller = wp_claim_controller_ops.create(&rig->parts, &err);
    assert_non_null(rig->controller);
}

static void
lead(struct wp_claim_rig *rig)
{
    rig->parts.active = true;
    wp_claim_controller_ops.activate(rig->controller);
    wp_claim_rig_settle(rig);
}

void
wp_claim_rig_start(struct wp_claim_rig *rig, uint32_t target)
{
    char text[512];

    core_start(rig, target);
    controller_start(rig);
    feed(rig);
    rig->target = target;
    (void)wp_recorder_put(
        rig->api, WP_KIND_SANDBOX_TEMPLATE,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"t\"},\"spec\":{"
        "\"podTemplate\":{\"metadata\":{\"labels\":{\"of\":\"template\"},"
        "\"annotations\":{\"note\":\"one\"}},\"spec\":{\"containers\":["
        "{\"name\":\"main\",\"image\":\"i\",\"env\":[{\"name\":\"A\","
        "\"value\":\"1\"}]},{\"name\":\"side\",\"image\":\"i\"}]}}}}");
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"p\"},"
                   "\"spec\":{\"replicas\":%u,\"sandboxTemplateRef\":{\"name\":"
                   "\"t\"}}}",
                   target);
    (void)wp_recorder_put(rig->api, WP_KIND_SANDBOX_WARM_POOL, text);
    lead(rig);
    if (rig->pool_known) {
        wp_claim_rig_advance(rig, rig->lead_ns);
        assert_int_equal(wp_claim_rig_make_ready(rig, UINT32_MAX), target);
        wp_claim_rig_settle(rig);
    }
}

static void
controller_stop(struct wp_claim_rig *rig)
{
    if (rig->parts.active) {
        rig->parts.active = false;
        wp_claim_controller_ops.deactivate(rig->controller);
    }
}

/* Everything of the process goes; its calls are not answered. */
static void
world_stop(struct wp_claim_rig *rig)
{
    controller_stop(rig);
    wp_api_destroy(rig->api);
    rig->api = NULL;
    wp_claim_controller_ops.destroy(rig->controller);
    core_stop(rig);
    rig->messages_len = 0;
    wp_verdicts_destroy(rig->parts.verdicts);
    wp_events_destroy(rig->parts.events);
    for (size_t i = 0; i < WATCHED; i++) {
        wp_store_destroy(rig->parts.stores[watched[i]]);
    }
}

void
wp_claim_rig_fini(struct wp_claim_rig *rig)
{
    if (!rig->faults_may_stay) {
        assert_int_equal(wp_recorder_planned(rig->api), 0);
    }
    world_stop(rig);
    event_base_free(rig->parts.base);
}

static void
run_messages(struct wp_claim_rig *rig)
{
    for (uint32_t i = 0; i < rig->messages_len; i++) {
        rig->messages[i].run(rig->messages[i].arg, 0, 0);
    }
    rig->messages_len = 0;
}

/* Looks at the clock again: timers of libevent do not know it. */
static void
turn_queue(struct wp_claim_rig *rig)
{
    struct wp_claim_controller *self = rig->controller;

    if (rig->parts.active) {
        wp_work_pause(self->queue, false);
        wp_claim_endings_pause(self->endings, false);
        wp_implicit_pools_pause(self->implicit, false);
    }
    assert_int_not_equal(event_base_loop(rig->parts.base, EVLOOP_NONBLOCK), -1);
}

void
wp_claim_rig_settle(struct wp_claim_rig *rig)
{
    uint32_t quiet = 0;

    for (int i = 0; i < 10000 && quiet < 5; i++) {
        uint32_t calls = wp_recorder_calls(rig->api);
        uint64_t reconciles = wp_claim_rig_reconciles(rig);
        uint32_t orders = rig->orders_len;
        uint32_t messages;

        wp_recorder_notify(rig->api);
        (void)wp_pools_run(rig->pools);
        bury(rig);
        turn_queue(rig);
        messages = rig->messages_len;
        run_messages(rig);
        (void)wp_recorder_run(rig->api);
        quiet = messages == 0 && calls == wp_recorder_calls(rig->api) &&
                        reconciles == wp_claim_rig_reconciles(rig) &&
                        orders == rig->orders_len
                    ? quiet + 1
                    : 0;
    }
    assert_int_equal(quiet, 5);
}

void
wp_claim_rig_advance(struct wp_claim_rig *rig, int64_t ns)
{
    wp_clock_manual_advance(&rig->clock, ns);
    wp_recorder_set_time(rig->api, rig->clock.now_wall_ns);
    wp_claim_rig_settle(rig);
}

static void
put_warm(struct wp_claim_rig *rig, const char *name, uint32_t number)
{
    const json_t *pool =
        wp_recorder_object(rig->api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p");
    char hash[WP_NAME_HASH_LEN + 1];
    char text[2048];

    wp_name_hash(WP_STR("p"), hash);
    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",\"labels\":{"
        "\"" WP_LABEL_WARM_POOL "\":\"%s\",\"" WP_LABEL_TEMPLATE_REF_HASH
        "\":\"22222222\",\"" WP_LABEL_TEMPLATE_HASH
        "\":\"33333333\",\"" WP_LABEL_POD_TEMPLATE_HASH
        "\":\"44444444\",\"" WP_LABEL_CREATED_BY
        "\":\"controller\",\"mine\":\"1\"},\"annotations\":{"
        "\"" WP_ANNOTATION_TEMPLATE_REF
        "\":\"t\"},\"ownerReferences\":[{\"apiVersion\":"
        "\"extensions.agents.x-k8s.io/v1beta1\",\"kind\":\"SandboxWarmPool\","
        "\"name\":\"p\",\"uid\":\"%s\",\"controller\":true}]},"
        "\"spec\":{\"podTemplate\":{\"metadata\":{\"labels\":{\"of\":"
        "\"template\",\"" WP_LABEL_WARM_POOL
        "\":\"11111111\"},\"annotations\":{\"note\":\"one\","
        "\"" WP_ANNOTATION_SAFE_TO_EVICT
        "\":\"true\"}},\"spec\":{\"containers\":[]}}},"
        "\"status\":{\"podIPs\":[\"10.0.0.%u\"],\"conditions\":[{\"type\":"
        "\"Ready\",\"status\":\"True\",\"reason\":\"DependenciesReady\","
        "\"message\":\"Pod is Ready\",\"observedGeneration\":1,"
        "\"lastTransitionTime\":\"2025-12-31T23:00:00Z\"}]}}",
        name, hash, wp_json_text(pool, "metadata", "uid", NULL), number);
    (void)wp_recorder_put(rig->api, WP_KIND_SANDBOX, text);
}

uint32_t
wp_claim_rig_make_ready(struct wp_claim_rig *rig, uint32_t n)
{
    uint32_t made = 0;

    for (uint32_t i = 0; i < rig->orders_len && made < n; i++) {
        struct wp_claim_rig_order *order = &rig->orders[i];

        if (order->live && !order->ready && !order->dying) {
            order->ready = true;
            made++;
            put_warm(rig, order->name, i + 1);
            wp_recorder_notify(rig->api);
            wp_pools_on_ready(rig->pools, order->ref, WP_STR("10.0.0.1:8888"));
        }
    }
    wp_claim_rig_settle(rig);
    return made;
}

/* The new core is told of what is Ready and the pool's. */
static void
find_warm(struct wp_claim_rig *rig)
{
    for (uint32_t i = 0; i < wp_recorder_objects(rig->api, WP_KIND_SANDBOX);
         i++) {
        const json_t *object =
            wp_recorder_object_at(rig->api, WP_KIND_SANDBOX, i);
        const char *name = wp_json_text(object, "metadata", "name", NULL);
        struct wp_claim_rig_order *order = &rig->orders[rig->orders_len];
        uint8_t uid[WP_UID_LEN] = {0};

        if (wp_json_text(object, "metadata", "labels", WP_LABEL_WARM_POOL,
                         NULL)[0] == '\0') {
            continue;
        }
        for (size_t j = 0; name[j] != '\0'; j++) {
            uid[j % WP_UID_LEN] =
                (uint8_t)(uid[j % WP_UID_LEN] * 31 + (uint8_t)name[j]);
        }
        memset(order, 0, sizeof *order);
        order->live = order->ready = true;
        assert_true(
            wp_str_copy(wp_str_from(name), order->name, sizeof order->name));
        assert_true(
            wp_pools_found(rig->pools, 0, uid, wp_str_from(name), &order->ref));
        rig->orders_len++;
        wp_pools_on_ready(rig->pools, order->ref, WP_STR("10.0.0.1:8888"));
    }
}

void
wp_claim_rig_restart(struct wp_claim_rig *rig)
{
    char *texts[WATCHED][256];
    uint32_t counts[WATCHED];

    for (size_t k = 0; k < WATCHED; k++) {
        counts[k] = wp_recorder_objects(rig->api, watched[k]);
        assert_true(counts[k] < 256);
        for (uint32_t i = 0; i < counts[k]; i++) {
            json_t *copy =
                json_deep_copy(wp_recorder_object_at(rig->api, watched[k], i));

            (void)json_object_del(json_object_get(copy, "metadata"),
                                  "resourceVersion");
            texts[k][i] = json_dumps(copy, JSON_COMPACT);
            assert_non_null(texts[k][i]);
            json_decref(copy);
        }
    }
    world_stop(rig);
    world_start(rig);
    for (size_t k = 0; k < WATCHED; k++) {
        for (uint32_t i = 0; i < counts[k]; i++) {
            (void)wp_recorder_put(rig->api, watched[k], texts[k][i]);
            free(texts[k][i]);
        }
    }
    core_start(rig, rig->target);
    controller_start(rig);
    feed(rig);
    find_warm(rig);
    lead(rig);
}

/* --- What other clients do and see --- */

void
wp_claim_rig_claim(struct wp_claim_rig *rig, const char *name, const char *spec)
{
    char text[4096];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\"},"
                   "\"spec\":{\"warmPoolRef\":{\"name\":\"p\"}%s%s}}",
                   name, spec != NULL ? "," : "", spec != NULL ? spec : "");
    (void)wp_recorder_put(rig->api, WP_KIND_SANDBOX_CLAIM, text);
    wp_claim_rig_settle(rig);
}

void
wp_claim_rig_unclaim(struct wp_claim_rig *rig, const char *name)
{
    wp_recorder_remove(rig->api, WP_KIND_SANDBOX_CLAIM, "ns", name);
    wp_recorder_notify(rig->api);
    wp_recorder_collect(rig->api);
    wp_claim_rig_settle(rig);
}

static const json_t *
claim_of(struct wp_claim_rig *rig, const char *name)
{
    return wp_recorder_object(rig->api, WP_KIND_SANDBOX_CLAIM, "ns", name);
}

const char *
wp_claim_rig_sandbox(struct wp_claim_rig *rig, const char *name)
{
    return wp_json_text(claim_of(rig, name), "status", "sandbox", "name", NULL);
}

const char *
wp_claim_rig_ready(struct wp_claim_rig *rig, const char *name,
                   const char *field)
{
    json_t *conditions =
        wp_json_at(claim_of(rig, name), "status", "conditions", NULL);
    size_t i;
    json_t *condition;

    json_array_foreach(conditions, i, condition)
    {
        if (strcmp(wp_json_text(condition, "type", NULL), "Ready") == 0) {
            return wp_json_text(condition, field, NULL);
        }
    }
    return "";
}

const json_t *
wp_claim_rig_object(struct wp_claim_rig *rig, const char *name)
{
    return wp_recorder_object(rig->api, WP_KIND_SANDBOX, "ns", name);
}

const char *
wp_claim_rig_owner(struct wp_claim_rig *rig, const char *name)
{
    return wp_json_text(
        json_array_get(wp_json_at(wp_claim_rig_object(rig, name), "metadata",
                                  "ownerReferences", NULL),
                       0),
        "uid", NULL);
}

const char *
wp_claim_rig_uid(struct wp_claim_rig *rig, const char *claim)
{
    return wp_json_text(claim_of(rig, claim), "metadata", "uid", NULL);
}

uint32_t
wp_claim_rig_writes(struct wp_claim_rig *rig, enum wp_kind kind, bool status)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < wp_recorder_calls(rig->api); i++) {
        const struct wp_recorded *call = wp_recorder_call(rig->api, i);

        n += call->kind == kind && call->verb >= WP_VERB_POST &&
             (strcmp(call->subresource, "status") == 0) == status;
    }
    return n;
}

uint64_t
wp_claim_rig_reconciles(struct wp_claim_rig *rig)
{
    struct wp_work_queue_stats stats;

    wp_claim_controller_ops.stats(rig->controller, &stats);
    return stats.begun;
}

struct wp_pool_stats
wp_claim_rig_stats(struct wp_claim_rig *rig)
{
    struct wp_pool_stats stats;

    wp_pools_stats(rig->pools, 0, &stats);
    return stats;
}
