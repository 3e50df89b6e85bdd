/* Each controller comes to be: the queue it makes, the stores it listens to in
 * which order, and that it says so, whole and cleanly, when memory lacks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <string.h>

#include "k8s/controllers/shared.h"
#include "k8s/controllers/verdicts.h"
#include "tests/support/base/journal.h"
#include "tests/support/k8s/api_recorder.h"
#include "tests/support/pool/manual_clock.h"

static struct {
    struct wp_clock_manual clock;
    struct wp_parts parts;
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
    return __real_wp_work_queue_create(config);
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lacks_memory),
        cmocka_unit_test(lacks_a_watch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
