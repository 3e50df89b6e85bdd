/* Each controller comes to be: the queue it makes, the stores it listens to in
 * which order, and that it says so, whole and cleanly, when memory lacks. And
 * what wakes it: which keys of which of its queues each change adds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#include "k8s/controllers/shared.h"
#include "k8s/controllers/verdicts.h"
#include "k8s/objects/names.h"
#include "tests/support/base/journal.h"
#include "tests/support/k8s/api_recorder.h"
#include "tests/support/pool/manual_clock.h"

static struct {
    struct wp_clock_manual clock;
    struct wp_parts parts;
    struct wp_work_queue *queues[8];
    size_t queues_len;
    uint32_t memory; /* This allocation from now on fails; 0: none. */
} rig;

/* --- What lies below --- */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
json_t *__real_json_object(void);
json_t *__wrap_json_object(void);
struct event *__real_event_new(struct event_base *base, evutil_socket_t fd,
                               short what, event_callback_fn run, void *ctx);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd,
                               short what, event_callback_fn run, void *ctx);
void __real_wp_store_listen(struct wp_store *store, wp_store_listener *listener,
                            void *ctx);
void __wrap_wp_store_listen(struct wp_store *store, wp_store_listener *listener,
                            void *ctx);
struct wp_work_queue *
__real_wp_work_queue_create(const struct wp_work_queue_config *config);
struct wp_work_queue *
__wrap_wp_work_queue_create(const struct wp_work_queue_config *config);
void __real_wp_work_pause(struct wp_work_queue *queue, bool paused);
void __wrap_wp_work_pause(struct wp_work_queue *queue, bool paused);

static bool
lacks(void)
{
    return rig.memory != 0 && --rig.memory == 0;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return lacks() ? NULL : __real_calloc(n, size);
}

void *
__wrap_aligned_alloc(size_t align, size_t size)
{
    return lacks() ? NULL : __real_aligned_alloc(align, size);
}

json_t *
__wrap_json_object(void)
{
    return lacks() ? NULL : __real_json_object();
}

struct event *
__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
                 event_callback_fn run, void *ctx)
{
    return lacks() ? NULL : __real_event_new(base, fd, what, run, ctx);
}

void
__wrap_wp_store_listen(struct wp_store *store, wp_store_listener *listener,
                       void *ctx)
{
    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        if (rig.parts.stores[i] == store) {
            journal("  listens to %s", wp_kind_info((enum wp_kind)i)->plural);
            journal_line();
        }
    }
    __real_wp_store_listen(store, listener, ctx);
}

struct wp_work_queue *
__wrap_wp_work_queue_create(const struct wp_work_queue_config *config)
{
    assert_ptr_equal(config->base, rig.parts.base);
    assert_ptr_equal(config->clock, rig.parts.clock);
    journal("  queue of %u, %u last, seed %llu, pauses %lld to %lld",
            config->workers_max, config->last_max,
            (unsigned long long)config->seed, (long long)config->backoff_min_ns,
            (long long)config->backoff_max_ns);
    journal_line();
    return rig.queues[rig.queues_len++] = __real_wp_work_queue_create(config);
}

void
__wrap_wp_work_pause(struct wp_work_queue *queue, bool paused)
{
    journal("  %s", paused ? "paused" : "goes on");
    journal_line();
    __real_wp_work_pause(queue, paused);
}

void __real_wp_verdicts_listen(
    struct wp_verdicts *verdicts,
    void (*changed)(void *ctx, const struct wp_object *template_), void *ctx);
void __wrap_wp_verdicts_listen(
    struct wp_verdicts *verdicts,
    void (*changed)(void *ctx, const struct wp_object *template_), void *ctx);

void
__wrap_wp_verdicts_listen(struct wp_verdicts *verdicts,
                          void (*changed)(void *ctx,
                                          const struct wp_object *template_),
                          void *ctx)
{
    journal("  listens to verdicts");
    journal_line();
    __real_wp_verdicts_listen(verdicts, changed, ctx);
}

void __wrap_wp_work_add(struct wp_work_queue *queue, const char *ns,
                        const char *name, bool first);
void __wrap_wp_work_add_last(struct wp_work_queue *queue, const char *ns,
                             const char *name);
void __wrap_wp_work_add_after(struct wp_work_queue *queue, const char *ns,
                              const char *name, int64_t delay_ns);
void __wrap_wp_work_forget(struct wp_work_queue *queue, const char *ns,
                           const char *name);

/* Which of its queues, in the order they were made. */
static size_t
number_of(const struct wp_work_queue *queue)
{
    size_t i = 0;

    while (i < rig.queues_len && rig.queues[i] != queue) {
        i++;
    }
    return i;
}

void
__wrap_wp_work_add(struct wp_work_queue *queue, const char *ns,
                   const char *name, bool first)
{
    journal("  %zu: %s/%s%s", number_of(queue), ns, name,
            first ? " first" : "");
    journal_line();
}

void
__wrap_wp_work_add_last(struct wp_work_queue *queue, const char *ns,
                        const char *name)
{
    journal("  %zu: %s/%s last", number_of(queue), ns, name);
    journal_line();
}

void
__wrap_wp_work_add_after(struct wp_work_queue *queue, const char *ns,
                         const char *name, int64_t delay_ns)
{
    journal("  %zu: %s/%s after %lld", number_of(queue), ns, name,
            (long long)delay_ns);
    journal_line();
}

void
__wrap_wp_work_forget(struct wp_work_queue *queue, const char *ns,
                      const char *name)
{
    journal("  %zu: forgets %s/%s", number_of(queue), ns, name);
    journal_line();
}

/* --- The world around it --- */

static const struct wp_cluster_webhook webhook = {.secret = "secret",
                                                  .service = "service"};
static const struct wp_cluster_identity identity;
static const char domains[] = "/nothing/here";

static void
begin(void)
{
    memset(&rig, 0, sizeof rig);
    wp_clock_manual_init(&rig.clock, WP_NS_PER_S, 1);
    rig.parts.base = event_base_new();
    rig.parts.clock = &rig.clock.clock;
    rig.parts.api = wp_recorder_create();
    rig.parts.seed = 23;
    rig.parts.config.gc = true;
    rig.parts.config.webhook = &webhook;
    rig.parts.config.identities = &identity;
    rig.parts.config.election_ns = "home";
    rig.parts.config.allowed_label_domains_file = domains;
    assert_true(rig.parts.base != NULL && rig.parts.api != NULL);
    rig.parts.events = wp_events_create(&(struct wp_events_config){
        .base = rig.parts.base,
        .clock = rig.parts.clock,
        .api = rig.parts.api,
        .instance = "test",
    });
    assert_non_null(rig.parts.events);
    rig.parts.verdicts = wp_verdicts_create();
    assert_non_null(rig.parts.verdicts);
    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        rig.parts.stores[i] = wp_store_create((enum wp_kind)i, NULL);
        assert_non_null(rig.parts.stores[i]);
    }
}

static void
end(void)
{
    wp_verdicts_destroy(rig.parts.verdicts);
    wp_events_destroy(rig.parts.events);
    wp_api_destroy(rig.parts.api);
    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        wp_store_destroy(rig.parts.stores[i]);
    }
    event_base_free(rig.parts.base);
}

/* --- The tests --- */

static const struct wp_controller_ops *const all[] = {
    &wp_pool_controller_ops,     &wp_claim_controller_ops,
    &wp_template_controller_ops, &wp_sandbox_controller_ops,
    &wp_webhook_controller_ops,  &wp_identity_controller_ops,
};

/* Each of its allocations lacks once: it is not there, and says why; in the end
 * it is, and everything was let go that had been made before. */
static void
lacks_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        for (uint32_t n = 1; n != 0; n++) {
            struct wp_err err = {0};
            void *controller;

            begin();
            journal("%s, lacking %u", all[i]->name, n);
            journal_line();
            rig.memory = n;
            controller = all[i]->create(&rig.parts, &err);
            rig.memory = 0;
            if (controller == NULL) {
                journal("  %s: %s", wp_status_name(err.status), err.msg);
                journal_line();
            } else {
                n = UINT32_MAX;
                journal("  created");
                journal_line();
                all[i]->destroy(controller);
            }
            end();
        }
    }
    journal_compare(WP_TEST_FOLDER "/controllers_create.txt");
}

/* The sandbox controller says which watch it lacks, and listens to none. */
static void
lacks_a_watch(void **state)
{
    static const enum wp_kind kinds[] = {WP_KIND_SANDBOX, WP_KIND_POD,
                                         WP_KIND_SERVICE, WP_KIND_VOLUME_CLAIM};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        struct wp_err err = {0};
        struct wp_store *store;

        begin();
        store = rig.parts.stores[kinds[i]];
        rig.parts.stores[kinds[i]] = NULL;
        assert_null(wp_sandbox_controller_ops.create(&rig.parts, &err));
        journal("  %s: %s", wp_status_name(err.status), err.msg);
        journal_line();
        rig.parts.stores[kinds[i]] = store;
        end();
    }
    journal_is(
        "  queue of 512, 0 last, seed 23, pauses 0 to 0\n"
        "  paused\n"
        "  FAILED_PRECONDITION: the sandbox controller needs a watch of "
        "sandboxes\n"
        "  queue of 512, 0 last, seed 23, pauses 0 to 0\n"
        "  paused\n"
        "  FAILED_PRECONDITION: the sandbox controller needs a watch of pods\n"
        "  queue of 512, 0 last, seed 23, pauses 0 to 0\n"
        "  paused\n"
        "  FAILED_PRECONDITION: the sandbox controller needs a watch of "
        "services\n"
        "  queue of 512, 0 last, seed 23, pauses 0 to 0\n"
        "  paused\n"
        "  FAILED_PRECONDITION: the sandbox controller needs a watch of "
        "persistentvolumeclaims\n");
}

/* --- What wakes it --- */

#define META(name, version, more)                                              \
    "'metadata':{'namespace':'n','name':'" name "','uid':'u-" name             \
    "','resourceVersion':'" version "','generation':" version more "}"
#define OWNER_OF(group, kind, name)                                            \
    ",'ownerReferences':[{'apiVersion':'" group "/v1beta1','kind':'" kind      \
    "','name':'" name "','uid':'u-" name "','controller':true}]"
#define OWNER(kind, name) OWNER_OF("agents.x-k8s.io", kind, name)
#define ABOVE(kind, name) OWNER_OF("extensions.agents.x-k8s.io", kind, name)
/* What a pool named p had made. */
#define OF_P ",'labels':{'" WP_LABEL_WARM_POOL "':'f50c43ef'}"
#define SPEC(image)                                                            \
    ",'spec':{'podTemplate':{'spec':{'containers':[{'name':'c','image':"       \
    "'" image "'}]}}}"

static const struct row {
    enum wp_kind kind;
    const char *text; /* With ' for ". */
} rows[] = {
    {WP_KIND_SANDBOX_TEMPLATE, META("t", "1", "") SPEC("a")},
    {WP_KIND_SANDBOX_TEMPLATE, META("v", "1", "") SPEC("a")},
    {WP_KIND_SANDBOX_WARM_POOL,
     META("p", "1", "") ",'spec':{'sandboxTemplateRef':{'name':'t'}}"},
    {WP_KIND_SANDBOX_WARM_POOL,
     META("q", "1", "") ",'spec':{'sandboxTemplateRef':{'name':'t'}}"},
    {WP_KIND_SANDBOX_WARM_POOL,
     META("r", "1", "") ",'spec':{'sandboxTemplateRef':{'name':'v'}}"},
    {WP_KIND_SANDBOX, META("s1", "1", ABOVE("SandboxWarmPool", "p")) SPEC("a")},
    {WP_KIND_SANDBOX, META("s2", "1", "") SPEC("a")},
    {WP_KIND_SANDBOX,
     META("s3", "1", ABOVE("SandboxClaim", "c1"))
         SPEC("a") ",'status':{'conditions':[{'type':'Ready','status':'True',"
                   "'reason':'DependenciesReady'}]}"},
    {WP_KIND_POD, META("s1", "1", OWNER("Sandbox", "s1"))},
    {WP_KIND_POD, META("s2", "1", "")},
    {WP_KIND_POD, META("other", "1", OWNER("Sandbox", "s3"))},
    {WP_KIND_POD, META("orphan", "1", OWNER("Sandbox", "gone"))},
    {WP_KIND_SERVICE, META("s1", "1", OWNER("Sandbox", "s1"))},
    {WP_KIND_SERVICE, META("stranger", "1", OWNER("Deployment", "s1"))},
    {WP_KIND_VOLUME_CLAIM, META("d-s2", "1", OWNER("Sandbox", "s2"))},
    {WP_KIND_NETWORK_POLICY, META("t-network-policy", "1", "")},
    {WP_KIND_NETWORK_POLICY, META("x-network-policy", "1", "")},
    {WP_KIND_NETWORK_POLICY, META("unlike", "1", "")},
    {WP_KIND_SANDBOX, META("s4", "1", OF_P) SPEC("a")},
    {WP_KIND_SANDBOX,
     META("s5", "1", OF_P ABOVE("SandboxClaim", "c1")) SPEC("a")},
    {WP_KIND_SANDBOX, META("s6", "1", OWNER("SandboxWarmPool", "p"))},
    /* They change. */
    {WP_KIND_SANDBOX_TEMPLATE, META("t", "2", "") SPEC("a")},
    {WP_KIND_SANDBOX_TEMPLATE, META("t", "3", "") SPEC("b")},
    {WP_KIND_SANDBOX_WARM_POOL,
     META("p", "2", "") ",'spec':{'sandboxTemplateRef':{'name':'v'}}"},
    {WP_KIND_SANDBOX, META("s1", "2", ABOVE("SandboxClaim", "c2")) SPEC("a")},
    {WP_KIND_SANDBOX,
     META("s2", "2", ",'deletionTimestamp':'2026-01-01T00:00:00Z'") SPEC("a")},
    {WP_KIND_POD, META("s1", "2", OWNER("Sandbox", "s1"))},
    {WP_KIND_POD, META("other", "2", OWNER("Sandbox", "s1"))},
    {WP_KIND_VOLUME_CLAIM, META("d-s2", "2", OWNER("Sandbox", "s2"))},
    {WP_KIND_VOLUME_CLAIM, META("d-s2", "3", OWNER("Sandbox", "s3"))},
};

static struct wp_object *
object_of(const struct row *row)
{
    const struct wp_kind_info *info = wp_kind_info(row->kind);
    char text[1024];
    struct wp_object *object;
    struct wp_err err;
    json_t *json;

    (void)snprintf(text, sizeof text, "{'apiVersion':'%s','kind':'%s',%s}",
                   info->api_version, info->kind, row->text);
    for (char *at = text; *at != '\0'; at++) {
        *at = *at == '\'' ? '"' : *at;
    }
    json = json_loads(text, 0, NULL);
    assert_non_null(json);
    object = wp_object_create(row->kind, json, &err);
    assert_non_null(object);
    json_decref(json);
    return object;
}

static void
tell(const char *what, const struct wp_object *object)
{
    journal(" %s %s %s %s", what, wp_kind_info(object->kind)->kind,
            object->name, object->resource_version);
    journal_line();
}

static void
wakes(const struct wp_controller_ops *ops, bool gc)
{
    struct wp_err err;
    void *controller;

    journal("%s%s", ops->name, gc ? " with gc" : "");
    journal_line();
    begin();
    rig.parts.config.gc = gc;
    controller = ops->create(&rig.parts, &err);
    assert_non_null(controller);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_object *object = object_of(&rows[i]);

        tell("put", object);
        wp_store_put(rig.parts.stores[rows[i].kind], object);
    }
    journal(" activate");
    journal_line();
    ops->activate(controller);
    journal(" deactivate");
    journal_line();
    ops->deactivate(controller);
    for (size_t i = WP_ARRAY_LEN(rows); i > 0; i--) {
        struct wp_store *store = rig.parts.stores[rows[i - 1].kind];
        struct wp_object *object = object_of(&rows[i - 1]);

        if (wp_store_find(store, "n", object->name) != NULL) {
            tell("remove", object);
            wp_store_remove(store, object);
        }
        wp_object_unref(object);
    }
    ops->destroy(controller);
    end();
}

static void
each_change_wakes_its_keys(void **state)
{
    static const struct wp_controller_ops *const woken[] = {
        &wp_pool_controller_ops, &wp_template_controller_ops,
        &wp_sandbox_controller_ops};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(woken); i++) {
        wakes(woken[i], false);
        wakes(woken[i], true);
    }
    journal_compare(WP_TEST_FOLDER "/controllers_wake.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lacks_memory),
        cmocka_unit_test(lacks_a_watch),
        cmocka_unit_test(each_change_wakes_its_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
