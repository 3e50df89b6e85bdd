/* The sandbox controller when calls go wrong: whatever is refused, lost or done
 * without an answer, each sandbox ends with one Pod and a true status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/objects/json.h"
#include "tests/support/k8s/sandbox_rig.h"

#define NAMED "'annotations':{'agents.x-k8s.io/pod-name':'s'}"

#define assert_condition(rig, type, text)                                      \
    assert_string_equal(sandbox_rig_condition(rig, type), text)

/* How a call may end besides well. */
static const struct ending {
    const char *name;
    enum wp_status status;
    bool effect;
} endings[] = {
    {"not done", WP_UNAVAILABLE, false},
    {"not done, nobody knows", WP_UNKNOWN_OUTCOME, false},
    {"done, nobody knows", WP_UNKNOWN_OUTCOME, true},
    {"too many", WP_RESOURCE_EXHAUSTED, false},
    {"conflict", WP_ABORTED, false},
    {"refused once", WP_PERMISSION_DENIED, false},
    {"invalid once", WP_INVALID_ARGUMENT, false},
    {"nobody is known", WP_UNAUTHENTICATED, false},
};

/* Until everything was tried again often enough. */
static void
wait_long(struct sandbox_rig *rig)
{
    for (int i = 0; i < 40; i++) {
        sandbox_rig_pass(rig, 3000);
    }
}

/* Each write of a whole life goes wrong once, in each way. */
static void
each_call(void **state)
{
    static const struct {
        enum wp_verb verb;
        enum wp_kind kind;
        const char *subresource;
    } calls[] = {
        {WP_VERB_POST, WP_KIND_VOLUME_CLAIM, NULL},
        {WP_VERB_POST, WP_KIND_POD, NULL},
        {WP_VERB_PATCH, WP_KIND_SANDBOX, ""},
        {WP_VERB_POST, WP_KIND_SERVICE, NULL},
        {WP_VERB_PATCH, WP_KIND_SANDBOX, "status"},
        {WP_VERB_PATCH, WP_KIND_POD, NULL},
        {WP_VERB_DELETE, WP_KIND_POD, NULL},
        {WP_VERB_DELETE, WP_KIND_SERVICE, NULL},
    };

    (void)state;
    for (size_t c = 0; c < WP_ARRAY_LEN(calls); c++) {
        for (size_t e = 0; e < WP_ARRAY_LEN(endings); e++) {
            struct sandbox_rig rig;

            print_message("  verb %d of %s: %s\n", (int)calls[c].verb,
                          wp_kind_info(calls[c].kind)->kind, endings[e].name);
            sandbox_rig_init(&rig, false);
            wp_recorder_plan(rig.api, &(struct wp_recorder_fault){
                                          .verb = calls[c].verb,
                                          .kind = calls[c].kind,
                                          .subresource = calls[c].subresource,
                                          .status = endings[e].status,
                                          .effect = endings[e].effect});
            sandbox_rig_sandbox(&rig, "",
                                "'service':true,'volumeClaimTemplates':["
                                "{'metadata':{'name':'d'}}]");
            wait_long(&rig);
            sandbox_rig_pod_ready(&rig, "s");
            wait_long(&rig);
            assert_condition(&rig, "Ready", "True DependenciesReady");
            sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                              "{'spec':{'podTemplate':{'metadata':"
                              "{'labels':{'a':'b'}}}}}");
            wait_long(&rig);
            assert_string_equal(
                wp_json_text(sandbox_rig_object(&rig, WP_KIND_POD, "s"),
                             "metadata", "labels", "a", NULL),
                "b");
            sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                              "{'spec':{'operatingMode':'Suspended',"
                              "'service':false}}");
            wait_long(&rig);
            assert_condition(&rig, "Suspended", "True PodTerminated");
            assert_condition(&rig, "Ready", "False SandboxSuspended");
            assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_POD), 0);
            assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_SERVICE), 0);
            assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_VOLUME_CLAIM),
                             1);
            sandbox_rig_fini(&rig);
        }
    }
}

/* The same for the end of one whose time has come. What it could not delete
 * itself, the collector does. */
static void
each_call_of_the_end(void **state)
{
    static const struct {
        enum wp_verb verb;
        enum wp_kind kind;
    } calls[] = {{WP_VERB_PATCH, WP_KIND_SANDBOX},
                 {WP_VERB_DELETE, WP_KIND_POD},
                 {WP_VERB_DELETE, WP_KIND_SERVICE},
                 {WP_VERB_DELETE, WP_KIND_SANDBOX}};

    (void)state;
    for (size_t c = 0; c < WP_ARRAY_LEN(calls); c++) {
        for (size_t e = 0; e < WP_ARRAY_LEN(endings); e++) {
            struct sandbox_rig rig;

            sandbox_rig_init(&rig, true);
            sandbox_rig_sandbox(&rig, NAMED,
                                "'service':true,'shutdownPolicy':'Delete',"
                                "'shutdownTime':'2026-01-01T00:01:00Z'");
            sandbox_rig_pod_ready(&rig, "s");
            wp_recorder_plan(rig.api, &(struct wp_recorder_fault){
                                          .verb = calls[c].verb,
                                          .kind = calls[c].kind,
                                          .status = endings[e].status,
                                          .effect = endings[e].effect});
            wait_long(&rig);
            assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_POD), 0);
            assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_SERVICE), 0);
            assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_SANDBOX), 0);
            sandbox_rig_fini(&rig);
        }
    }
}

/* What only people can put right is told in a condition, and tried on; what
 * passes by itself is not told. */
static void
told(void **state)
{
    static const struct {
        enum wp_status status;
        const char *ready;
    } rows[] = {
        {WP_PERMISSION_DENIED, "False ReconcilerError"},
        {WP_INVALID_ARGUMENT, "False ReconcilerError"},
        {WP_UNAVAILABLE, ""},
        {WP_RESOURCE_EXHAUSTED, ""},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct sandbox_rig rig;

        sandbox_rig_init(&rig, false);
        wp_recorder_plan(rig.api,
                         &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                     .kind = WP_KIND_POD,
                                                     .times = 3,
                                                     .status = rows[i].status});
        sandbox_rig_sandbox(&rig, NAMED, "");
        assert_condition(&rig, "Ready", rows[i].ready);
        wait_long(&rig);
        sandbox_rig_pod_ready(&rig, "s");
        assert_condition(&rig, "Ready", "True DependenciesReady");
        sandbox_rig_fini(&rig);
    }
}

/* The server fails with each write of a kind: the condition has its words at
 * once, and the pauses grow. */
static void
server_error(void **state)
{
    static const struct {
        enum wp_verb verb;
        enum wp_kind kind;
        const char *message;
    } rows[] = {
        {WP_VERB_POST, WP_KIND_VOLUME_CLAIM,
         "Error seen: PersistentVolumeClaim d-s: etcd is full"},
        {WP_VERB_POST, WP_KIND_POD, "Error seen: Pod s: etcd is full"},
        {WP_VERB_POST, WP_KIND_SERVICE, "Error seen: Service s: etcd is full"},
        {WP_VERB_PATCH, WP_KIND_POD, "Error seen: Pod s: etcd is full"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct sandbox_rig rig;
        uint32_t before;

        sandbox_rig_init(&rig, false);
        wp_recorder_plan(
            rig.api, &(struct wp_recorder_fault){.verb = rows[i].verb,
                                                 .kind = rows[i].kind,
                                                 .times = 12,
                                                 .status = WP_UNKNOWN_OUTCOME,
                                                 .code = 500,
                                                 .message = "etcd is full"});
        sandbox_rig_sandbox(&rig, NAMED,
                            "'service':true,'volumeClaimTemplates':["
                            "{'metadata':{'name':'d'}}]");
        before = wp_recorder_count(rig.api, rows[i].verb, rows[i].kind);
        if (rows[i].verb == WP_VERB_PATCH) {
            sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                              "{'spec':{'podTemplate':{'metadata':{'labels':{"
                              "'a':'b'}}}}}");
        }
        assert_condition(&rig, "Ready", "False ReconcilerError");
        assert_string_equal(sandbox_rig_message(&rig, "Ready"),
                            rows[i].message);
        /* Most of the tries take more than a second. */
        for (int n = 0; n < 10; n++) {
            sandbox_rig_pass(&rig, 100);
        }
        assert_in_range(wp_recorder_count(rig.api, rows[i].verb, rows[i].kind),
                        before + (rows[i].verb == WP_VERB_PATCH ? 1 : 0),
                        before + 20);
        for (int n = 0; n < 2000 && wp_recorder_planned(rig.api) > 0; n++) {
            sandbox_rig_pass(&rig, 3000);
        }
        wait_long(&rig);
        sandbox_rig_pod_ready(&rig, "s");
        wait_long(&rig);
        assert_condition(&rig, "Ready", "True DependenciesReady");
        sandbox_rig_fini(&rig);
    }
}

/* The server asks for a pause: nothing is tried before it is over. */
static void
retry_after(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    wp_recorder_plan(rig.api, &(struct wp_recorder_fault){
                                  .verb = WP_VERB_POST,
                                  .kind = WP_KIND_POD,
                                  .status = WP_RESOURCE_EXHAUSTED,
                                  .retry_after_ns = 5 * WP_NS_PER_S});
    sandbox_rig_sandbox(&rig, NAMED, "");
    assert_string_equal(sandbox_rig_writes(&rig), "POST Pod s");
    sandbox_rig_pass(&rig, 4900);
    assert_string_equal(sandbox_rig_writes(&rig), "");
    sandbox_rig_pass(&rig, 200);
    assert_string_equal(sandbox_rig_writes(&rig), "POST Pod s");
    sandbox_rig_fini(&rig);
}

/* The watch is late: what our own writes have answered is known all the same,
 * so nothing is done twice. */
static void
stale_watch(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_sandbox(&rig, "", "'operatingMode':'Suspended'");
    assert_string_equal(sandbox_rig_writes(&rig), "PATCH Sandbox/status s");
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                      "{'spec':{'operatingMode':'Running','service':true}}");
    assert_string_equal(
        sandbox_rig_writes(&rig),
        "POST Pod s, PATCH Sandbox s, POST Service s, PATCH Sandbox/status s");
    wp_recorder_hold(rig.api, true);
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s", "{'spec':{'service':false}}");
    wp_recorder_remove(rig.api, WP_KIND_POD, "n", "s");
    wait_long(&rig);
    assert_string_equal(sandbox_rig_writes(&rig), "");
    wp_recorder_hold(rig.api, false);
    sandbox_rig_settle(&rig);
    assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_POD), 1);
    assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_SERVICE), 0);
    sandbox_rig_fini(&rig);
}

/* A Pod of that name is there, though the watch has not told: it is looked at,
 * not made again. */
static void
pod_unseen(void **state)
{
    struct sandbox_rig rig;
    struct wp_store *pods;

    (void)state;
    sandbox_rig_init(&rig, false);
    pods = rig.parts.stores[WP_KIND_POD];
    sandbox_rig_put(&rig, WP_KIND_POD,
                    "{'metadata':{'name':'s','namespace':'n','labels':"
                    "{'agents.x-k8s.io/adoptable':'true'}}}");
    wp_store_remove(pods, wp_store_find(pods, "n", "s"));
    sandbox_rig_sandbox(&rig, NAMED, "");
    assert_string_equal(sandbox_rig_writes(&rig), "POST Pod s, PATCH Pod s");
    assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_POD), 1);
    sandbox_rig_fini(&rig);
}

/* The sandbox is gone, though the watch has not told: that is no error, and
 * nothing is tried for ever. */
static void
gone_meanwhile(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    wp_sandbox_controller_ops.deactivate(rig.controller);
    sandbox_rig_sandbox(&rig, "", "");
    wp_recorder_hold(rig.api, true);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "n", "s");
    wp_sandbox_controller_ops.activate(rig.controller);
    sandbox_rig_settle(&rig);
    assert_string_equal(sandbox_rig_writes(&rig),
                        "POST Pod s, PATCH Sandbox s, PATCH Sandbox s");
    wait_long(&rig);
    assert_string_equal(sandbox_rig_writes(&rig), "");
    wp_recorder_hold(rig.api, false);
    wait_long(&rig);
    assert_string_equal(sandbox_rig_writes(&rig), "");
    sandbox_rig_fini(&rig);
}

/* It got more time, though the watch has not told: it goes on as if nothing had
 * been. Before its end is said; when its Pod's end has failed; before its own.
 */
static void
more_time_unseen(void **state)
{
    static const uint32_t steps[] = {0, 2, 3};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(steps); i++) {
        struct sandbox_rig rig;

        sandbox_rig_init(&rig, false);
        sandbox_rig_sandbox(&rig, NAMED,
                            "'shutdownPolicy':'Delete','service':true,"
                            "'shutdownTime':'2026-01-01T00:01:00Z'");
        sandbox_rig_pod_ready(&rig, "s");
        if (steps[i] == 2) {
            wp_recorder_plan(
                rig.api, &(struct wp_recorder_fault){.verb = WP_VERB_DELETE,
                                                     .kind = WP_KIND_POD,
                                                     .status = WP_UNAVAILABLE});
        }
        wp_recorder_hold(rig.api, true);
        wp_clock_manual_advance(&rig.clock, 61 * WP_NS_PER_S);
        wp_sandbox_controller_ops.activate(rig.controller);
        if (steps[i] > 0) {
            assert_int_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), 0);
        }
        /* The status, the Pod, the Service; then the sandbox is asked for. */
        for (uint32_t n = 0; n < steps[i]; n++) {
            assert_true(wp_recorder_step(rig.api));
        }
        sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                          "{'spec':{'shutdownTime':'2027-01-01T00:00:00Z'}}");
        wait_long(&rig);
        assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_SANDBOX), 1);
        assert_int_equal(
            wp_recorder_count(rig.api, WP_VERB_DELETE, WP_KIND_POD),
            i == 0 ? 0 : 1);
        wp_recorder_hold(rig.api, false);
        wait_long(&rig);
        sandbox_rig_pod_ready(&rig, "s");
        wait_long(&rig);
        assert_condition(&rig, "Ready", "True DependenciesReady");
        sandbox_rig_fini(&rig);
    }
}

/* A Pod that is there when it is made and gone when it is read: that is not
 * fought for at full speed. */
static void
in_circles(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = WP_KIND_POD,
                                                 .times = 10,
                                                 .status = WP_ALREADY_EXISTS});
    sandbox_rig_sandbox(&rig, NAMED, "");
    assert_in_range(wp_recorder_calls(rig.api), 2, 4);
    wait_long(&rig);
    sandbox_rig_pod_ready(&rig, "s");
    assert_condition(&rig, "Ready", "True DependenciesReady");
    sandbox_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call),
        cmocka_unit_test(each_call_of_the_end),
        cmocka_unit_test(told),
        cmocka_unit_test(server_error),
        cmocka_unit_test(retry_after),
        cmocka_unit_test(stale_watch),
        cmocka_unit_test(pod_unseen),
        cmocka_unit_test(gone_meanwhile),
        cmocka_unit_test(more_time_unseen),
        cmocka_unit_test(in_circles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
