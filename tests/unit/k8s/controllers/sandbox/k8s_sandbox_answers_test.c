/* The sandbox controller and answers that are odd: none of a kind that it asked
 * for, of another sandbox, refusals of several calls, conflicts without end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/objects/json.h"
#include "tests/support/base/heard.h"
#include "tests/support/k8s/sandbox_rig.h"

#define NAMED "'annotations':{'agents.x-k8s.io/pod-name':'s'}"
#define ALL "'service':true,'volumeClaimTemplates':[{'metadata':{'name':'d'}}]"

static struct sandbox_rig rig;
static struct heard heard;

#define assert_condition(type, text)                                           \
    assert_string_equal(sandbox_rig_condition(&rig, type), text)

static int
set_up(void **state)
{
    (void)state;
    sandbox_rig_init(&rig, false);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    sandbox_rig_fini(&rig);
    return 0;
}

/* Until everything was tried again often enough. */
static void
wait_long(void)
{
    for (int i = 0; i < 40; i++) {
        sandbox_rig_pass(&rig, 3000);
    }
}

static void
ends_well(void)
{
    wait_long();
    sandbox_rig_pod_ready(&rig, "s");
    wait_long();
    assert_condition("Ready", "True DependenciesReady");
    assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_POD), 1);
    assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_SERVICE), 1);
    assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_VOLUME_CLAIM), 1);
}

/* It was done, but what is said of it is no such object. */
static void
no_object(void **state)
{
    static const struct {
        enum wp_verb verb;
        enum wp_kind kind;
    } calls[] = {
        {WP_VERB_POST, WP_KIND_VOLUME_CLAIM}, {WP_VERB_POST, WP_KIND_POD},
        {WP_VERB_PATCH, WP_KIND_SANDBOX},     {WP_VERB_POST, WP_KIND_SERVICE},
        {WP_VERB_GET, WP_KIND_POD},
    };
    static const char warned[] = "WARN sandbox: malformed answer error=\"";

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        json_t *odd = json_object();
        const char *said;

        sandbox_rig_init(&rig, false);
        if (calls[i].verb == WP_VERB_GET) { /* It is read after a doubt. */
            wp_recorder_plan(rig.api, &(struct wp_recorder_fault){
                                          .verb = WP_VERB_POST,
                                          .kind = calls[i].kind,
                                          .status = WP_UNKNOWN_OUTCOME,
                                          .effect = true});
        }
        wp_recorder_plan(rig.api,
                         &(struct wp_recorder_fault){.verb = calls[i].verb,
                                                     .kind = calls[i].kind,
                                                     .status = WP_OK,
                                                     .object = odd,
                                                     .effect = true});
        heard_begin(&heard);
        sandbox_rig_sandbox(&rig, "", ALL);
        said = heard_end(&heard);
        assert_memory_equal(said, warned, sizeof warned - 1);
        assert_ptr_equal(strchr(said, '\n')[1], '\0');
        ends_well();
        sandbox_rig_fini(&rig);
        json_decref(odd);
    }
}

/* All of them are told, each in a line. */
static void
several_are_refused(void **state)
{
    (void)state;
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = WP_KIND_VOLUME_CLAIM,
                                                 .status = WP_PERMISSION_DENIED,
                                                 .message = "no"});
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = WP_KIND_SERVICE,
                                                 .status = WP_INVALID_ARGUMENT,
                                                 .message = "bad"});
    sandbox_rig_sandbox(&rig, NAMED, ALL);
    assert_condition("Ready", "False ReconcilerError");
    assert_string_equal(sandbox_rig_message(&rig, "Ready"),
                        "Error seen: PersistentVolumeClaim d-s: no\n"
                        "Service s: bad");
    /* Each was tried once, and is again after a pause. */
    assert_int_equal(
        wp_recorder_count(rig.api, WP_VERB_POST, WP_KIND_VOLUME_CLAIM), 1);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_POST, WP_KIND_SERVICE),
                     1);
    ends_well();
}

/* Others change the sandbox as often as it is written. */
static void
conflicts_without_end(void **state)
{
    (void)state;
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_PATCH,
                                                 .kind = WP_KIND_SANDBOX,
                                                 .times = 40,
                                                 .status = WP_ABORTED});
    sandbox_rig_sandbox(&rig, "", ALL);
    /* That is not fought for at full speed. */
    assert_in_range(wp_recorder_calls(rig.api), 16, 20);
    ends_well();
}

/* A conflict, and then the sandbox cannot be read, or is gone. */
static void
a_conflict_that_is_not_understood(void **state)
{
    static const enum wp_status statuses[] = {WP_UNAVAILABLE, WP_NOT_FOUND,
                                              WP_PERMISSION_DENIED};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(statuses); i++) {
        sandbox_rig_init(&rig, false);
        wp_recorder_plan(rig.api,
                         &(struct wp_recorder_fault){.verb = WP_VERB_PATCH,
                                                     .kind = WP_KIND_SANDBOX,
                                                     .status = WP_ABORTED});
        wp_recorder_plan(rig.api,
                         &(struct wp_recorder_fault){.verb = WP_VERB_GET,
                                                     .kind = WP_KIND_SANDBOX,
                                                     .status = statuses[i]});
        sandbox_rig_sandbox(&rig, "", ALL);
        ends_well();
        sandbox_rig_fini(&rig);
    }
}

/* The one of that name is another by now: nothing is written to it for the
 * first, and it is served when the watch tells of it. */
static void
another_of_its_name(void **state)
{
    (void)state;
    wp_sandbox_controller_ops.deactivate(rig.controller);
    sandbox_rig_sandbox(&rig, "", ALL);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_PATCH,
                                                 .kind = WP_KIND_SANDBOX,
                                                 .status = WP_ABORTED});
    wp_recorder_hold(rig.api, true);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "n", "s");
    sandbox_rig_put(&rig, WP_KIND_SANDBOX,
                    "{'metadata':{'name':'s','namespace':'n'},'spec':{"
                    "'podTemplate':{'spec':{'containers':[]}}," ALL "}}");
    wp_sandbox_controller_ops.activate(rig.controller);
    assert_int_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), 0);
    while (wp_recorder_last(rig.api, WP_VERB_GET, WP_KIND_SANDBOX) == NULL) {
        assert_true(wp_recorder_step(rig.api));
    }
    assert_true(wp_recorder_step(rig.api));
    assert_null(wp_recorder_open(rig.api, WP_VERB_ANY, WP_KIND_COUNT));
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX),
                     1);
    wp_recorder_collect(rig.api); /* What was the first one's. */
    wp_recorder_hold(rig.api, false);
    ends_well();
}

/* After each answer this replica may lead no more: nothing is begun. */
static void
the_lead_is_lost(void **state)
{
    (void)state;
    for (int answers = 0; answers < 6; answers++) {
        uint32_t calls;

        sandbox_rig_init(&rig, false);
        wp_sandbox_controller_ops.deactivate(rig.controller);
        sandbox_rig_sandbox(&rig, "", ALL);
        wp_sandbox_controller_ops.activate(rig.controller);
        assert_int_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), 0);
        for (int i = 0; i < answers; i++) {
            (void)wp_recorder_step(rig.api);
        }
        wp_sandbox_controller_ops.deactivate(rig.controller);
        calls = wp_recorder_calls(rig.api);
        wait_long();
        assert_int_equal(wp_recorder_calls(rig.api), calls);
        wp_sandbox_controller_ops.activate(rig.controller);
        ends_well();
        sandbox_rig_fini(&rig);
    }
}

/* Its time comes while something is tried again in vain, after long pauses. */
static void
the_end_does_not_wait_for_a_pause(void **state)
{
    (void)state;
    wp_recorder_plan(rig.api, &(struct wp_recorder_fault){
                                  .verb = WP_VERB_POST,
                                  .kind = WP_KIND_SERVICE,
                                  .status = WP_RESOURCE_EXHAUSTED,
                                  .retry_after_ns = 1000 * WP_NS_PER_S});
    sandbox_rig_sandbox(&rig, NAMED,
                        "'service':true,"
                        "'shutdownTime':'2026-01-01T00:01:00Z'");
    assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_POD), 1);
    sandbox_rig_pass(&rig, 58000);
    assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_POD), 1);
    for (int i = 0; i < 4; i++) {
        sandbox_rig_pass(&rig, 1000);
    }
    assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_POD), 0);
    assert_condition("Ready", "False SandboxExpired");
}

/* Changed while it was deleted: it is looked at, and deleted at once. */
static void
a_conflict_of_the_end(void **state)
{
    (void)state;
    sandbox_rig_sandbox(&rig, NAMED,
                        "'shutdownPolicy':'Delete',"
                        "'shutdownTime':'2026-01-01T00:01:00Z'");
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_DELETE,
                                                 .kind = WP_KIND_SANDBOX,
                                                 .status = WP_ABORTED});
    sandbox_rig_pass(&rig, 61000);
    assert_int_equal(wp_recorder_planned(rig.api), 0);
    assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_SANDBOX), 0);
}

/* The server says that the Pod is going, and the watch nothing yet. */
static void
what_is_going_is_deleted_once(void **state)
{
    (void)state;
    sandbox_rig_sandbox(&rig, NAMED, "");
    sandbox_rig_pod_ready(&rig, "s");
    sandbox_rig_merge(&rig, WP_KIND_POD, "s",
                      "{'metadata':{'finalizers':['a/b']}}");
    wp_sandbox_controller_ops.deactivate(rig.controller);
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                      "{'spec':{'operatingMode':'Suspended'}}");
    wp_recorder_hold(rig.api, true);
    for (int i = 0; i < 3; i++) {
        wp_sandbox_controller_ops.activate(rig.controller);
        sandbox_rig_settle(&rig);
        assert_int_equal(
            wp_recorder_count(rig.api, WP_VERB_DELETE, WP_KIND_POD), 1);
    }
    wp_recorder_hold(rig.api, false);
    assert_condition("Suspended", "False PodTerminating");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_object),
        cmocka_unit_test_setup_teardown(several_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(conflicts_without_end, set_up,
                                        tear_down),
        cmocka_unit_test(a_conflict_that_is_not_understood),
        cmocka_unit_test_setup_teardown(another_of_its_name, set_up, tear_down),
        cmocka_unit_test(the_lead_is_lost),
        cmocka_unit_test_setup_teardown(the_end_does_not_wait_for_a_pause,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_conflict_of_the_end, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_going_is_deleted_once, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
