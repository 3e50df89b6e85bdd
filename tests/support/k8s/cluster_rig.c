#include "tests/support/k8s/cluster_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "k8s/backend/backend_impl.h"
#include "k8s/bind/repositories.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/leases/memory.h"

static int64_t
mono_ns(const struct wp_clock *clock)
{
    return wp_clock_mono_ns(wp_clock_system()) +
           ((const struct wp_cluster_rig *)(const void *)clock)->offset_ns;
}

static int64_t
wall_ns(const struct wp_clock *clock)
{
    return wp_clock_wall_ns(wp_clock_system()) +
           ((const struct wp_cluster_rig *)(const void *)clock)->offset_ns;
}

static bool
post(void *ctx, void (*run)(void *arg, uint64_t a, uint64_t b), void *arg,
     uint64_t a, uint64_t b)
{
    struct wp_cluster_rig *rig = ctx;

    if (rig->control_full || rig->n_messages == WP_CLUSTER_RIG_MESSAGES) {
        return false;
    }
    rig->messages[rig->n_messages++] =
        (struct wp_cluster_rig_message){run, arg, a, b};
    return true;
}

static void
wake(void *ctx)
{
    (void)ctx;
}

static void
open_pools(struct wp_cluster_rig *rig, const struct wp_lease_store *store)
{
    static uint64_t starts;
    struct wp_pools_config config = {
        .slots_max = WP_CLUSTER_RIG_SLOTS,
        .claims_max = 2 * WP_CLUSTER_RIG_SLOTS,
        .clock = &rig->clock,
        .backend = wp_cluster_backend_port(rig->backend),
        .store = store != NULL ? *store : wp_lease_memory(),
        .hash_key = {1, 2},
        .seed = ++starts,
        .wake = wake,
    };
    struct wp_err err;

    memset(config.token_key, 7, sizeof config.token_key);
    rig->pools = wp_pools_create(&config, &err);
    assert_non_null(rig->pools);
    wp_pools_set_keeper(rig->pools, false);
    rig->parts.core =
        (struct wp_cluster_core){.pools = rig->pools, .ctx = rig, .post = post};
}

static const struct wp_cluster_git no_repositories = {
    .remotes = "", .remotes_denied = "", .fetch_socket = "", .trust_files = ""};

void
wp_cluster_rig_init(struct wp_cluster_rig *rig, int replicas,
                    const struct wp_lease_store *store)
{
    static const enum wp_kind kinds[] = {
        WP_KIND_SANDBOX, WP_KIND_SANDBOX_TEMPLATE, WP_KIND_SANDBOX_WARM_POOL};
    struct wp_err err;
    char text[512];

    memset(rig, 0, sizeof *rig);
    rig->clock = (struct wp_clock){mono_ns, wall_ns};
    rig->parts.clock = &rig->clock;
    rig->parts.base = event_base_new();
    assert_non_null(rig->parts.base);
    rig->api = wp_recorder_create();
    rig->parts.api = rig->api;
    rig->parts.config = (struct wp_cluster_config){
        .clock = &rig->clock,
        .sandbox_port = 8888,
        .ready_grace_ns = 300 * WP_NS_PER_S,
        .create_inflight_max = 300,
        .sandboxes_max = WP_CLUSTER_RIG_SLOTS,
        .warm_pool_eviction = true,
    };
    wp_recorder_serve(rig->api);
    wp_recorder_set_time(rig->api, wall_ns(&rig->clock));
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        rig->parts.stores[kinds[i]] = wp_store_create(
            kinds[i], kinds[i] == WP_KIND_SANDBOX ? WP_LABEL_WARM_POOL : NULL);
        assert_non_null(rig->parts.stores[kinds[i]]);
    }
    rig->parts.repositories = wp_repositories_create(
        &(struct wp_repositories_config){.git = &no_repositories,
                                         .base = rig->parts.base,
                                         .api = rig->api,
                                         .ns = "ns"},
        &err);
    assert_non_null(rig->parts.repositories);
    rig->backend = wp_cluster_backend_create(&rig->parts, &err);
    assert_non_null(rig->backend);
    rig->sync = wp_pool_sync_create(&rig->parts, rig->backend, &err);
    assert_non_null(rig->sync);
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        wp_recorder_feed(rig->api, rig->parts.stores[kinds[i]], kinds[i]);
    }
    open_pools(rig, store);
    (void)wp_recorder_put(
        rig->api, WP_KIND_SANDBOX_TEMPLATE,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"t\"},\"spec\":"
        "{\"podTemplate\":{\"spec\":{\"containers\":[{\"name\":\"c\","
        "\"image\":\"i\"}]}}}}");
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"p\"},"
                   "\"spec\":{\"replicas\":%d,\"sandboxTemplateRef\":"
                   "{\"name\":\"t\"}}}",
                   replicas);
    (void)wp_recorder_put(rig->api, WP_KIND_SANDBOX_WARM_POOL, text);
    wp_recorder_notify(rig->api);
    wp_pool_sync_start(rig->sync);
}

void
wp_cluster_rig_fini(struct wp_cluster_rig *rig)
{
    rig->control_full = false;
    wp_cluster_rig_settle(rig);
    wp_pools_check(rig->pools);
    wp_pools_destroy(rig->pools);
    wp_api_destroy(rig->api);
    wp_repositories_destroy(rig->parts.repositories);
    wp_pool_sync_destroy(rig->sync);
    wp_cluster_backend_destroy(rig->backend);
    for (int i = 0; i < WP_KIND_COUNT; i++) {
        wp_store_destroy(rig->parts.stores[i]);
    }
    event_base_free(rig->parts.base);
}

static void
become_keeper(void *arg, uint64_t a, uint64_t b)
{
    (void)a;
    (void)b;
    wp_pools_set_keeper(((struct wp_cluster_rig *)arg)->pools, true);
}

static void
ready(void *ctx)
{
    struct wp_cluster_rig *rig = ctx;

    rig->readied++;
    assert_true(post(rig, become_keeper, rig, 0, 0));
}

void
wp_cluster_rig_begin_to_lead(struct wp_cluster_rig *rig)
{
    rig->parts.active = true;
    wp_cluster_backend_activate(rig->backend, ready, rig);
}

void
wp_cluster_rig_lead(struct wp_cluster_rig *rig)
{
    wp_cluster_rig_begin_to_lead(rig);
    wp_cluster_rig_settle(rig);
}

void
wp_cluster_rig_follow(struct wp_cluster_rig *rig)
{
    rig->parts.active = false;
    wp_cluster_backend_deactivate(rig->backend);
    wp_pools_set_keeper(rig->pools, false);
}

void
wp_cluster_rig_start(struct wp_cluster_rig *rig, int replicas)
{
    wp_cluster_rig_init(rig, replicas, NULL);
    wp_cluster_rig_lead(rig);
    assert_int_equal(rig->readied, 1);
}

static uint32_t
run_messages(struct wp_cluster_rig *rig)
{
    uint32_t n = rig->n_messages;

    for (uint32_t i = 0; i < n; i++) {
        rig->messages[i].run(rig->messages[i].arg, rig->messages[i].a,
                             rig->messages[i].b);
    }
    memmove(rig->messages, rig->messages + n,
            (rig->n_messages - n) * sizeof *rig->messages);
    rig->n_messages -= n;
    return n;
}

void
wp_cluster_rig_settle(struct wp_cluster_rig *rig)
{
    uint32_t quiet = 0;

    for (uint32_t i = 0; quiet < 8; i++) {
        struct wp_work_queue_stats before;
        struct wp_cluster_backend_stats stats;
        uint32_t n = run_messages(rig);
        int64_t next;

        assert_true(i < 100000);
        wp_cluster_backend_stats(rig->backend, &stats);
        before = stats.queue;
        next = wp_pools_run(rig->pools);
        (void)event_base_loop(rig->parts.base, EVLOOP_NONBLOCK);
        n += wp_recorder_run(rig->api);
        wp_cluster_backend_stats(rig->backend, &stats);
        n += stats.queue.begun != before.begun ||
             (rig->parts.active && stats.queue.waiting > 0);
        /* The core's turns, and what is tried again in a moment. */
        n += next < mono_ns(&rig->clock) + 30 * WP_NS_PER_MS;
        n += rig->n_messages;
        quiet = n == 0 ? quiet + 1 : 0;
    }
}

void
wp_cluster_rig_run(struct wp_cluster_rig *rig, enum wp_cluster_rig_part part)
{
    switch (part) {
    case WP_CLUSTER_RIG_POSTED:
        (void)run_messages(rig);
        break;
    case WP_CLUSTER_RIG_CORE:
        (void)wp_pools_run(rig->pools);
        break;
    case WP_CLUSTER_RIG_CLUSTER:
    case WP_CLUSTER_RIG_PARTS:
        wp_recorder_notify(rig->api);
        (void)event_base_loop(rig->parts.base, EVLOOP_NONBLOCK);
        (void)wp_recorder_run(rig->api);
        break;
    }
}

void
wp_cluster_rig_pass(struct wp_cluster_rig *rig, int64_t ns)
{
    rig->offset_ns += ns;
    /* Timers of libevent do not know that clock: the queue looks at it. */
    wp_work_pause(rig->backend->queue, !rig->parts.active);
    wp_cluster_rig_settle(rig);
}

void
wp_cluster_rig_ready(struct wp_cluster_rig *rig, const char *name,
                     const char *ip)
{
    char text[512];

    (void)snprintf(text, sizeof text,
                   "{\"status\":{\"podIPs\":[%s%s%s],\"conditions\":[{\"type\":"
                   "\"Ready\",\"status\":\"%s\",\"reason\":\"R\",\"message\":"
                   "\"the pod says so\"}]}}",
                   ip[0] != '\0' ? "\"" : "", ip, ip[0] != '\0' ? "\"" : "",
                   ip[0] != '\0' ? "True" : "False");
    (void)wp_recorder_merge(rig->api, WP_KIND_SANDBOX, "ns", name, text);
}

const char *
wp_cluster_rig_name(struct wp_cluster_rig *rig, uint32_t i)
{
    char *name = rig->names[rig->n_names++ % WP_ARRAY_LEN(rig->names)];

    (void)snprintf(
        name, sizeof rig->names[0], "%s",
        wp_json_text(wp_recorder_object_at(rig->api, WP_KIND_SANDBOX, i),
                     "metadata", "name", NULL));
    return name;
}

void
wp_cluster_rig_all_ready(struct wp_cluster_rig *rig)
{
    for (uint32_t i = 0; i < wp_recorder_objects(rig->api, WP_KIND_SANDBOX);
         i++) {
        const json_t *sandbox =
            wp_recorder_object_at(rig->api, WP_KIND_SANDBOX, i);

        if (json_object_get(sandbox, "status") == NULL) {
            wp_cluster_rig_ready(rig, wp_cluster_rig_name(rig, i), "10.0.0.7");
        }
    }
    wp_cluster_rig_settle(rig);
}

uint32_t
wp_cluster_rig_objects(const struct wp_cluster_rig *rig)
{
    return wp_recorder_objects(rig->api, WP_KIND_SANDBOX);
}

const char *
wp_cluster_rig_annotation(const struct wp_cluster_rig *rig, const char *name,
                          const char *key)
{
    return wp_json_text(
        wp_recorder_object(rig->api, WP_KIND_SANDBOX, "ns", name), "metadata",
        "annotations", key, NULL);
}

void
wp_cluster_rig_put_foreign(struct wp_cluster_rig *rig, const char *name)
{
    char hash[WP_NAME_HASH_LEN + 1];
    char text[768];

    wp_name_hash(WP_STR("p"), hash);
    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",\"labels\":{"
        "\"" WP_LABEL_WARM_POOL "\":\"%s\"},\"uid\":"
        "\"0a1b2c3d-0000-4000-8000-00000000%04x\",\"ownerReferences\":[{"
        "\"apiVersion\":\"extensions.agents.x-k8s.io/v1alpha1\",\"kind\":"
        "\"SandboxWarmPool\",\"name\":\"p\",\"uid\":\"%s\",\"controller\":"
        "true}]},\"spec\":{\"podTemplate\":{\"spec\":{}}}}",
        name, hash, (unsigned)(unsigned char)name[2],
        wp_json_text(
            wp_recorder_object(rig->api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p"),
            "metadata", "uid", NULL));
    (void)wp_recorder_put(rig->api, WP_KIND_SANDBOX, text);
}

void
wp_cluster_rig_take_away(struct wp_cluster_rig *rig, const char *name)
{
    (void)wp_recorder_merge(
        rig->api, WP_KIND_SANDBOX, "ns", name,
        "{\"metadata\":{\"ownerReferences\":[{\"apiVersion\":"
        "\"extensions.agents.x-k8s.io/v1beta1\",\"kind\":\"SandboxClaim\","
        "\"name\":\"c\",\"uid\":\"their-claim\",\"controller\":true}]}}");
}

static void
claim_done(struct wp_claim *claim)
{
    (void)claim;
}

enum wp_status
wp_cluster_rig_claim(struct wp_cluster_rig *rig, struct wp_claim *claim,
                     const char *id, const char *tenant)
{
    memset(claim, 0, sizeof *claim);
    claim->pool_namespace = WP_STR("ns");
    claim->pool = WP_STR("p");
    claim->claim_id = wp_str_from(id);
    claim->tenant = wp_str_from(tenant);
    claim->lasting = strcmp(tenant, WP_TENANT_SANDBOX_CLAIMS) == 0;
    claim->done = claim_done;
    return wp_pools_claim(rig->pools, claim);
}

struct wp_pool_stats
wp_cluster_rig_stats(struct wp_cluster_rig *rig)
{
    struct wp_pool_stats stats;

    wp_pools_stats(rig->pools, 0, &stats);
    return stats;
}

struct wp_cluster_backend_stats
wp_cluster_rig_backend_stats(const struct wp_cluster_rig *rig)
{
    struct wp_cluster_backend_stats out;

    wp_cluster_backend_stats(rig->backend, &out);
    return out;
}
