/* tests/unit/k8s/backend/world.h - the cluster's backend between fakes: the
 * core, the queue of work, the channel to the core's thread, and what claims
 * bring. Each call of them is written into one text. For one test program,
 * whose linker puts these in the place of the library's. */
#ifndef WP_TESTS_UNIT_K8S_BACKEND_WORLD_H
#define WP_TESTS_UNIT_K8S_BACKEND_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/backend/backend_impl.h"
#include "k8s/objects/names.h"
#include "k8s/objects/sandbox_build.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/heard.h"
#include "tests/support/k8s/api_recorder.h"
#include "tests/support/k8s/object_text.h"
#include "tests/support/pool/manual_clock.h"

#define S WP_NS_PER_S
#define MONO_NS (1000 * S)
#define WALL_NS (2000000 * S) /* 1970-01-24T03:33:20Z */
#define WALL_MS (WALL_NS / WP_NS_PER_MS)
#define REF ((struct wp_slot_ref){5, 3})

static struct golden golden;
static struct heard heard;
static struct wp_clock_manual clock_;
static struct wp_parts parts;
static struct wp_cluster_backend *backend;
static struct event_base *base;
static uint32_t calls_shown; /* Of the API. */
static struct wp_cluster_backend_stats stats_shown;
static unsigned version; /* Of the newest Sandbox. */

/* What the core says. */
static struct {
    uint32_t index; /* Of any pool. */
    struct wp_pool_stats stats;
    enum wp_status get;
    struct wp_claim_info info;
    bool knows;
    bool ends;
    bool seen;
    bool found;
} core;

/* The channel. */
enum {
    SENT_MAX = 64
};
static struct wp_cluster_message *to_cluster[SENT_MAX];
static struct wp_cluster_message *to_control[SENT_MAX];
static uint32_t n_to_cluster;
static uint32_t n_to_control;
static uint32_t waiting; /* Beside those. */

static void (*listed)(void *ctx);
static void *listed_ctx;
static bool builds;
static int64_t identity_ns;
static int fail_at; /* The part of this number cannot be had; 0: all can. */
static int made;
static char parts_[4]; /* Addresses: pools, a binding, an identity, work. */

static inline bool
fails(void)
{
    made++;
    return made == fail_at;
}

static inline const char *
text_of(struct wp_str str)
{
    static char texts[4][512];
    static unsigned n;
    char *text = texts[n++ % WP_ARRAY_LEN(texts)];

    (void)snprintf(text, sizeof texts[0], "%.*s", (int)str.len, str.ptr);
    return text;
}

static inline void
note(const char *what, struct wp_slot_ref ref)
{
    if (ref.generation == 0) {
        assert_int_equal(ref.index, UINT32_MAX);
        golden_add(&golden, " %s(none)", what);
    } else {
        golden_add(&golden, " %s(%u.%u)", what, ref.index, ref.generation);
    }
}

static inline const char *
hex(const uint8_t uid[WP_UID_LEN])
{
    static char text[2 * WP_UID_LEN + 1];

    for (size_t i = 0; i < WP_UID_LEN; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", uid[i]);
    }
    return text;
}

#define FAKE(type, name, ...)                                                  \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

void *__real_calloc(size_t n, size_t size);
FAKE(void *, calloc, size_t n, size_t size)
{
    return fail_at != 0 && fails() ? NULL : __real_calloc(n, size);
}

struct event *__real_event_new(struct event_base *of, evutil_socket_t fd,
                               short what, event_callback_fn run, void *ctx);
FAKE(struct event *, event_new, struct event_base *of, evutil_socket_t fd,
     short what, event_callback_fn run, void *ctx)
{
    return fail_at != 0 && fails() ? NULL
                                   : __real_event_new(of, fd, what, run, ctx);
}

/* --- The core --- */

FAKE(uint32_t, wp_pools_index, const struct wp_pools *pools, struct wp_str ns,
     struct wp_str name)
{
    assert_ptr_equal(pools, &parts_[0]);
    golden_add(&golden, " index(%s/%s)", text_of(ns), text_of(name));
    return core.index;
}

FAKE(void, wp_pools_stats, struct wp_pools *pools, uint32_t index,
     struct wp_pool_stats *out)
{
    assert_ptr_equal(pools, &parts_[0]);
    assert_int_equal(index, core.index);
    *out = core.stats;
}

FAKE(enum wp_status, wp_pools_get, struct wp_pools *pools, struct wp_str tenant,
     struct wp_str claim_id, struct wp_claim_info *out)
{
    assert_ptr_equal(pools, &parts_[0]);
    golden_add(&golden, " get(%s %s)", text_of(tenant), text_of(claim_id));
    *out = core.info;
    return core.get;
}

FAKE(void, wp_pools_on_lost, struct wp_pools *pools, struct wp_slot_ref ref,
     struct wp_str reason)
{
    assert_ptr_equal(pools, &parts_[0]);
    note("lost", ref);
    golden_add(&golden, "\"%s\"", text_of(reason));
}

FAKE(void, wp_pools_retire, struct wp_pools *pools, struct wp_slot_ref ref,
     struct wp_str reason)
{
    assert_ptr_equal(pools, &parts_[0]);
    note("retire", ref);
    golden_add(&golden, "\"%s\"", text_of(reason));
}

FAKE(void, wp_pools_on_ready, struct wp_pools *pools, struct wp_slot_ref ref,
     struct wp_str endpoint)
{
    assert_ptr_equal(pools, &parts_[0]);
    note("ready", ref);
    golden_add(&golden, "\"%s\"", text_of(endpoint));
}

FAKE(void, wp_pools_on_destroyed, struct wp_pools *pools,
     struct wp_slot_ref ref)
{
    assert_ptr_equal(pools, &parts_[0]);
    note("destroyed", ref);
}

FAKE(void, wp_pools_on_unmade, struct wp_pools *pools, struct wp_slot_ref ref)
{
    assert_ptr_equal(pools, &parts_[0]);
    note("unmade", ref);
}

FAKE(bool, wp_pools_knows, struct wp_pools *pools, const uint8_t *uid)
{
    assert_ptr_equal(pools, &parts_[0]);
    golden_add(&golden, " knows(%s)", hex(uid));
    return core.knows;
}

FAKE(bool, wp_pools_ends, struct wp_pools *pools, const uint8_t *uid)
{
    assert_ptr_equal(pools, &parts_[0]);
    golden_add(&golden, " ends(%s)", hex(uid));
    return core.ends;
}

FAKE(bool, wp_pools_seen, struct wp_pools *pools, const uint8_t *uid,
     struct wp_slot_ref *ref)
{
    assert_ptr_equal(pools, &parts_[0]);
    golden_add(&golden, " seen(%s)", hex(uid));
    *ref = core.seen ? REF : (struct wp_slot_ref){1, 1};
    return core.seen;
}

FAKE(bool, wp_pools_found, struct wp_pools *pools, uint32_t index,
     const uint8_t *uid, struct wp_str name, struct wp_slot_ref *ref)
{
    assert_ptr_equal(pools, &parts_[0]);
    assert_int_equal(index, core.index);
    golden_add(&golden, " found(%s %s)", hex(uid), text_of(name));
    *ref = core.found ? REF : (struct wp_slot_ref){1, 1};
    return core.found;
}

FAKE(void, wp_pools_on_record, struct wp_pools *pools,
     const struct wp_lease_record *record)
{
    assert_ptr_equal(pools, &parts_[0]);
    golden_add(
        &golden,
        " record(%s %d %llu %lld %lld %llx %u %s/%s %s \"%s\" %s %s "
        "\"%s\")",
        hex(record->uid), record->state, (unsigned long long)record->fence,
        (long long)record->deadline_wall_ms, (long long)record->granted_wall_ms,
        (unsigned long long)record->fingerprint, record->served,
        record->pool_namespace, record->pool, record->sandbox, record->endpoint,
        record->claim_id, record->tenant, record->lost_reason);
}

FAKE(void, wp_pools_lose_unseen, struct wp_pools *pools)
{
    assert_ptr_equal(pools, &parts_[0]);
    golden_add(&golden, " lose unseen");
}

/* --- The queue, the channel, the list --- */

void __real_wp_work_add(struct wp_work_queue *queue, const char *ns,
                        const char *name, bool first);
FAKE(void, wp_work_add, struct wp_work_queue *queue, const char *ns,
     const char *name, bool first)
{
    assert_ptr_equal(queue, backend->queue);
    assert_false(first);
    golden_add(&golden, " wake(%s/%s)", ns, name);
}

FAKE(void, wp_work_add_after, struct wp_work_queue *queue, const char *ns,
     const char *name, int64_t delay_ns)
{
    assert_ptr_equal(queue, backend->queue);
    golden_add(&golden, " wake(%s/%s after %lld)", ns, name,
               (long long)delay_ns);
}

FAKE(void, wp_work_done, struct wp_work *work, enum wp_work_outcome outcome,
     int64_t after_ns)
{
    static const char *const outcomes[] = {"ok", "failed", "after"};

    assert_ptr_equal(work, &parts_[3]);
    golden_add(&golden, " done(%s %lld)", outcomes[outcome],
               (long long)after_ns);
}

void __real_wp_work_pause(struct wp_work_queue *queue, bool paused);
FAKE(void, wp_work_pause, struct wp_work_queue *queue, bool paused)
{
    golden_add(&golden, " %s", paused ? "pause" : "go on");
    __real_wp_work_pause(queue, true);
}

FAKE(void, wp_cluster_channel_to_cluster, struct wp_cluster_channel *channel,
     struct wp_cluster_message *message)
{
    assert_ptr_equal(channel, backend->channel);
    assert_true(n_to_cluster < SENT_MAX);
    golden_add(&golden, " to cluster");
    to_cluster[n_to_cluster++] = message;
}

FAKE(void, wp_cluster_channel_to_control, struct wp_cluster_channel *channel,
     struct wp_cluster_message *message)
{
    assert_ptr_equal(channel, backend->channel);
    assert_true(n_to_control < SENT_MAX);
    golden_add(&golden, " to control");
    to_control[n_to_control++] = message;
}

FAKE(uint32_t, wp_cluster_channel_waiting,
     const struct wp_cluster_channel *channel)
{
    assert_ptr_equal(channel, backend->channel);
    return n_to_cluster + waiting;
}

FAKE(void, wp_fresh_list_begin, struct wp_fresh_list *list,
     void (*done)(void *ctx), void *ctx)
{
    assert_ptr_equal(list, backend->fresh);
    golden_add(&golden, " list");
    listed = done;
    listed_ctx = ctx;
}

FAKE(void, wp_fresh_list_cancel, struct wp_fresh_list *list)
{
    assert_true(backend == NULL || list == backend->fresh);
    golden_add(&golden, " no list");
    listed = NULL;
}

int __real_event_add(struct event *event, const struct timeval *within);
FAKE(int, event_add, struct event *event, const struct timeval *within)
{
    if (backend != NULL && event == backend->records) {
        golden_add(&golden, " records in %ld us",
                   (long)(within->tv_sec * 1000000L + within->tv_usec));
        return 0;
    }
    return __real_event_add(event, within);
}

int __real_event_del(struct event *event);
FAKE(int, event_del, struct event *event)
{
    if (backend != NULL && event == backend->records) {
        golden_add(&golden, " no timer");
        return 0;
    }
    return __real_event_del(event);
}

/* --- What claims bring, and bodies --- */

FAKE(void, wp_backend_end_binding, struct wp_sandbox_ref *entry,
     enum wp_status status, const char *reason)
{
    if (entry->binding != NULL) {
        golden_add(&golden, " unbound(%s \"%s\")", wp_status_text(status),
                   reason);
        entry->binding = NULL;
    }
}

FAKE(void, wp_backend_bring, struct wp_cluster_backend *of,
     struct wp_sandbox_ref *entry, const char *ip)
{
    assert_ptr_equal(of, backend);
    golden_add(&golden, " bring(%s \"%s\")", entry->name, ip);
}

FAKE(void, wp_backend_open_binds, struct wp_cluster_backend *of, bool open)
{
    assert_ptr_equal(of, backend);
    golden_add(&golden, " binds %s", open ? "open" : "closed");
}

FAKE(void, wp_backend_end_identity, struct wp_sandbox_ref *entry)
{
    if (entry->identity != NULL) {
        golden_add(&golden, " identity ends");
        entry->identity = NULL;
    }
}

FAKE(void, wp_backend_note_identity, struct wp_sandbox_ref *entry)
{
    if (entry->identity != NULL) {
        golden_add(&golden, " identity");
        (void)snprintf(entry->lease->audience, sizeof entry->lease->audience,
                       "own");
        entry->lease->identity_ttl_ms = 60000;
        (void)snprintf(entry->lease->identity_seal,
                       sizeof entry->lease->identity_seal, "seal");
    }
}

FAKE(int64_t, wp_backend_look_at_identity, const struct wp_backend_look *look,
     const struct wp_lease_note *lease)
{
    assert_ptr_equal(look->backend, backend);
    golden_add(&golden, " identity(%s)", lease != NULL ? lease->claim_id : "-");
    return identity_ns;
}

FAKE(json_t *, wp_sandbox_build, const struct wp_object *pool,
     const struct wp_object *template_, const char *name,
     const uint8_t uid[WP_UID_LEN], const struct wp_cluster_config *config)
{
    assert_ptr_equal(config, &parts.config);
    golden_add(&golden, " build(%s %s %s %s)", pool->name, template_->name,
               name, hex(uid));
    return builds ? json_pack("{s:s}", "made", name) : NULL;
}

/* --- The rig --- */

static inline void
begin(void)
{
    static const enum wp_kind kinds[] = {
        WP_KIND_SANDBOX, WP_KIND_SANDBOX_TEMPLATE, WP_KIND_SANDBOX_WARM_POOL};
    struct wp_err err;

    base = event_base_new();
    assert_non_null(base);
    wp_clock_manual_init(&clock_, MONO_NS, WALL_NS);
    memset(&core, 0, sizeof core);
    core.get = WP_NOT_FOUND;
    core.stats.spec.ready_within_ns = 100 * S;
    n_to_cluster = n_to_control = waiting = calls_shown = 0;
    memset(&stats_shown, 0, sizeof stats_shown);
    builds = true;
    version = 10;
    identity_ns = 0;
    fail_at = 0;
    parts = (struct wp_parts){
        .config = {.sandboxes_max = 8,
                   .sandbox_port = 8888,
                   .ready_grace_ns = 300 * S},
        .core = {.pools = (void *)&parts_[0]},
        .base = base,
        .clock = &clock_.clock,
        .api = wp_recorder_create(),
    };
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        parts.stores[kinds[i]] = wp_store_create(
            kinds[i], kinds[i] == WP_KIND_SANDBOX ? WP_LABEL_WARM_POOL : NULL);
    }
    backend = wp_cluster_backend_create(&parts, &err);
    assert_non_null(backend);
    assert_ptr_equal(parts.refs, backend->refs);
    assert_int_equal(atomic_load(&backend->binds), 0);
    assert_false(atomic_load(&backend->binds_open));
    parts.active = true;
}

static inline void
drop_sent(void)
{
    while (n_to_cluster > 0) {
        n_to_cluster--;
        to_cluster[n_to_cluster]->drop(to_cluster[n_to_cluster]);
    }
    while (n_to_control > 0) {
        n_to_control--;
        to_control[n_to_control]->drop(to_control[n_to_control]);
    }
}

static inline void
end(void)
{
    size_t len;

    wp_api_destroy(parts.api);
    drop_sent();
    len = golden.len;
    wp_cluster_backend_destroy(backend);
    assert_string_equal(golden.text + len, " no list no timer");
    assert_null(parts.refs);
    backend = NULL;
    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        wp_store_destroy(parts.stores[i]);
    }
    event_base_free(base);
}

static inline void
put(enum wp_kind kind, const char *text)
{
    wp_store_put(parts.stores[kind], object_of(kind, text));
}

#define POOL(uid)                                                              \
    "{'metadata':{'namespace':'ns','name':'p','uid':'" uid                     \
    "','resourceVersion':'1'},'spec':{'replicas':1,"                           \
    "'sandboxTemplateRef':{'name':'t'}}}"
#define TEMPLATE                                                               \
    "{'metadata':{'namespace':'ns','name':'t','uid':'t-uid',"                  \
    "'resourceVersion':'1'},'spec':{'podTemplate':{'spec':{}}}}"

#define OWNER(kind, name, uid)                                                 \
    "'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s.io/v1beta1',"   \
    "'kind':'" kind "','name':'" name "','uid':'" uid "','controller':true}]"
#define HASH "f50c43ef" /* Of "p". */
#define LABEL "'labels':{'" WP_LABEL_WARM_POOL "':'" HASH "'}"
#define POOLED OWNER("SandboxWarmPool", "p", "p-uid") "," LABEL
#define CLAIMED OWNER("SandboxClaim", "c", "c-uid")
#define NOTED(more)                                                            \
    "'annotations':{'" WP_ANNOTATION_LEASE "':'{\\\"claimId\\\":\\\"job\\\","  \
    "\\\"tenant\\\":\\\"team\\\",\\\"fence\\\":7,\\\"deadline\\\":"            \
    "2000060000" more "}'}"
#define CONDITION(type, status, reason)                                        \
    "{'type':'" type "','status':'" status "','reason':'" reason               \
    "','message':'as the pod says'}"
#define STATUS(ip, conditions) "'podIPs':[" ip "],'conditions':[" conditions "]"
#define READY STATUS("'10.0.0.7'", CONDITION("Ready", "True", "R"))

/* A Sandbox that was made a minute ago. */
static inline void
put_sandbox(const char *name, const char *uid, const char *meta,
            const char *status)
{
    char text[4096];
    char hash[WP_NAME_HASH_LEN + 1];

    wp_name_hash(WP_STR("p"), hash);
    assert_string_equal(hash, HASH);
    assert_true(snprintf(text, sizeof text,
                         "{'metadata':{'namespace':'ns','name':'%s','uid':"
                         "'00000000-0000-4000-8000-0000000000%s',"
                         "'resourceVersion':'%u','creationTimestamp':"
                         "'1970-01-24T03:32:20Z'%s%s},'spec':{'podTemplate':"
                         "{'spec':{}}},'status':{%s}}",
                         name, uid, ++version, meta[0] != '\0' ? "," : "", meta,
                         status) < (int)sizeof text);
    put(WP_KIND_SANDBOX, text);
}

/* --- What is seen --- */

static const char *const phases[] = {"creating", "warming", "ready", "adopted",
                                     "deleting"};

static inline void
show_flag(bool on, const char *name)
{
    if (on) {
        golden_add(&golden, " %s", name);
    }
}

/* The entry of that name, or that there is none. */
static inline void
show_entry(const char *name)
{
    const struct wp_sandbox_ref *entry =
        wp_sandbox_refs_find(backend->refs, "ns", name);

    if (entry == NULL) {
        golden_add(&golden, "    no entry\n");
        return;
    }
    golden_add(&golden, "    %u.%u %s %s of \"%s\" in %lld", entry->ref.index,
               entry->ref.generation, phases[entry->phase], hex(entry->uid),
               entry->pool,
               (long long)(entry->ready_by_ns - clock_.now_mono_ns));
    show_flag(entry->posted, "posted");
    show_flag(entry->outdated, "outdated");
    show_flag(entry->held, "held");
    show_flag(entry->lost, "lost");
    show_flag(entry->adopted, "adopted");
    show_flag(entry->spoilt, "spoilt");
    show_flag(entry->taken, "taken");
    show_flag(entry->unwanted, "unwanted");
    if (entry->lease != NULL) {
        char text[WP_LEASE_NOTE_MAX];

        wp_lease_note_write(entry->lease, text);
        golden_add(&golden, "\n    lease %s", text);
    }
    golden_add(&golden, "\n");
}

static inline void
show_count(const char *name, uint64_t now, uint64_t before)
{
    if (now != before) {
        golden_add(&golden, " %s+%lld", name, (long long)(now - before));
    }
}

static inline void
show_stats(void)
{
    struct wp_cluster_backend_stats now;

    wp_cluster_backend_stats(backend, &now);
    assert_int_equal(now.known, wp_sandbox_refs_count(backend->refs));
    show_count("posted", now.posted, stats_shown.posted);
    show_count("deleted", now.deleted, stats_shown.deleted);
    show_count("adopted", now.adopted, stats_shown.adopted);
    show_count("taken", now.taken, stats_shown.taken);
    show_count("found", now.found, stats_shown.found);
    show_count("orphans", now.orphans, stats_shown.orphans);
    show_count("refused", now.refused, stats_shown.refused);
    show_count("conflicts", now.conflicts, stats_shown.conflicts);
    stats_shown = now;
}

/* What was asked of the API server since the last time. */
static inline void
show_calls(void)
{
    static const char *const verbs[] = {"GET", "LIST",  "CHECK", "POST",
                                        "PUT", "PATCH", "DELETE"};

    for (; calls_shown < wp_recorder_calls(parts.api); calls_shown++) {
        const struct wp_recorded *call =
            wp_recorder_call(parts.api, calls_shown);

        assert_int_equal(call->kind, WP_KIND_SANDBOX);
        golden_add(&golden, " %s(%s/%s priority %d", verbs[call->verb],
                   call->ns, call->name, call->priority);
        if (call->verb == WP_VERB_DELETE) {
            golden_add(&golden, " uid \"%s\" version %s%s", call->uid,
                       call->resource_version[0] != '\0' ? "given" : "any",
                       call->foreground ? " foreground" : "");
        }
        if (call->body != NULL) {
            char *body = json_dumps(call->body, JSON_COMPACT | JSON_SORT_KEYS);

            golden_add(&golden, " %s", body);
            free(body);
        }
        golden_add(&golden, ")");
    }
}

/* The end of a step: all that it did, what the log says, and the entry. */
static inline void
show(const char *name)
{
    const char *logged = heard_end(&heard);

    show_calls();
    show_stats();
    golden_add(&golden, "\n");
    if (logged[0] != '\0') {
        golden_add(&golden, "    log %s", logged);
    }
    show_entry(name);
}

/* What led here is not a part of the step. */
static inline void
step(const char *what)
{
    const char *last = strrchr(golden.text, '\n');

    golden.len = last == NULL ? 0 : (size_t)(last + 1 - golden.text);
    golden_add(&golden, "%s:", what);
    heard_begin(&heard);
}

/* The end of a test. */
static inline void
compare(const char *path)
{
    char *last = strrchr(golden.text, '\n');

    assert_non_null(last);
    last[1] = '\0';
    golden_compare(golden.text, path);
    golden.len = 0;
    golden.text[0] = '\0';
}

/* --- Steps --- */

static inline struct wp_sandbox_ref *
add_entry(const char *name, uint8_t uid, enum wp_sandbox_phase phase)
{
    struct wp_sandbox_ref entry = {.ref = REF,
                                   .phase = phase,
                                   .ready_by_ns = MONO_NS + 50 * S,
                                   .uid = {[6] = 0x40, [8] = 0x80, [15] = uid},
                                   .ns = "ns",
                                   .pool = "p"};
    struct wp_sandbox_ref *added;

    (void)snprintf(entry.name, sizeof entry.name, "%s", name);
    added = wp_sandbox_refs_add(backend->refs, &entry);
    assert_non_null(added);
    return added;
}

static inline void
look(const char *name)
{
    wp_backend_reconcile(backend, (void *)&parts_[3], "ns", name);
}

/* Runs the messages that wait for the core's thread; of the cluster's. */
static inline void
run_control(void)
{
    struct wp_cluster_message *messages[SENT_MAX];
    uint32_t n = n_to_control;

    memcpy(messages, to_control, sizeof messages);
    n_to_control = 0;
    for (uint32_t i = 0; i < n; i++) {
        messages[i]->run(messages[i]);
    }
}

static inline void
run_cluster(void)
{
    struct wp_cluster_message *messages[SENT_MAX];
    uint32_t n = n_to_cluster;

    memcpy(messages, to_cluster, sizeof messages);
    n_to_cluster = 0;
    for (uint32_t i = 0; i < n; i++) {
        messages[i]->run(messages[i]);
    }
}

#endif
