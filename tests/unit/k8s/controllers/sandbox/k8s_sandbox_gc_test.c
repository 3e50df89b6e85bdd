/* Where no garbage collector is: what a sandbox that is gone has left goes too,
 * and nothing else does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/controllers/sandbox/controller.h"
#include "tests/support/base/timers.h"
#include "tests/support/k8s/sandbox_rig.h"

static struct sandbox_rig rig;

static int
set_up(void **state)
{
    (void)state;
    sandbox_rig_init(&rig, true);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    sandbox_rig_fini(&rig);
    return 0;
}

/* Told to nobody yet. Sandbox "s" of this uid controls it. */
static void
store_child(enum wp_kind kind, const char *name, const char *uid,
            const char *metadata)
{
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"n\",\"name\":\"%s\","
                   "\"uid\":\"of-%s\",\"ownerReferences\":[{\"apiVersion\":"
                   "\"agents.x-k8s.io/v1beta1\",\"kind\":\"Sandbox\","
                   "\"name\":\"s\",\"uid\":\"%s\",\"controller\":true}]%s}}",
                   name, name, uid, metadata);
    (void)wp_recorder_put(rig.api, kind, text);
}

static uint32_t
count(enum wp_verb verb, enum wp_kind kind)
{
    return wp_recorder_count(rig.api, verb, kind);
}

/* What was to be tried again is. */
static void
try_again(void)
{
    for (int i = 0; i < 4; i++) {
        sandbox_rig_pass(&rig, 60000);
        timers_fire_all(rig.base);
        sandbox_rig_settle(&rig);
    }
}

static void
all_that_is_left_goes(void **state)
{
    static const enum wp_kind kinds[] = {WP_KIND_POD, WP_KIND_SERVICE,
                                         WP_KIND_VOLUME_CLAIM};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        store_child(kinds[i], "c", "gone", "");
        sandbox_rig_settle(&rig);
        assert_int_equal(wp_recorder_objects(rig.api, kinds[i]), 0);
        assert_int_equal(count(WP_VERB_DELETE, kinds[i]), 1);
        assert_string_equal(
            wp_recorder_last(rig.api, WP_VERB_DELETE, kinds[i])->uid, "of-c");
        /* The API server was asked whether it is gone. */
        assert_int_equal(count(WP_VERB_GET, WP_KIND_SANDBOX), i + 1);
    }
}

/* Somebody's finalizers keep it. */
static void
what_is_going_is_left_to_go(void **state)
{
    static const char going[] =
        ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",\"finalizers\":["
        "\"x/y\"]";

    (void)state;
    store_child(WP_KIND_POD, "a", "gone", going);
    sandbox_rig_settle(&rig);
    assert_int_equal(count(WP_VERB_GET, WP_KIND_SANDBOX), 0);
    store_child(WP_KIND_POD, "b", "gone", "");
    sandbox_rig_settle(&rig);
    assert_int_equal(count(WP_VERB_DELETE, WP_KIND_POD), 1);
    assert_non_null(sandbox_rig_object(&rig, WP_KIND_POD, "a"));
    assert_null(sandbox_rig_object(&rig, WP_KIND_POD, "b"));
}

/* The name is used again: by then it is another sandbox. */
static void
another_sandbox_of_its_name_keeps_nothing(void **state)
{
    (void)state;
    sandbox_rig_sandbox(&rig, "", "");
    store_child(WP_KIND_VOLUME_CLAIM, "v", "before", "");
    sandbox_rig_settle(&rig);
    assert_null(sandbox_rig_object(&rig, WP_KIND_VOLUME_CLAIM, "v"));
    assert_int_equal(count(WP_VERB_DELETE, WP_KIND_POD), 0);
}

/* That it went is not told, only that another one came. */
static void
one_that_is_replaced_leaves_nothing(void **state)
{
    (void)state;
    sandbox_rig_sandbox(&rig, "", "");
    store_child(WP_KIND_VOLUME_CLAIM, "v", "su", "");
    sandbox_rig_settle(&rig);
    assert_non_null(sandbox_rig_object(&rig, WP_KIND_VOLUME_CLAIM, "v"));
    sandbox_rig_put(&rig, WP_KIND_SANDBOX,
                    "{'metadata':{'name':'s','namespace':'n','uid':'su2'},"
                    "'spec':{'podTemplate':{'spec':{'containers':[{'name':"
                    "'main'}]}}}}");
    assert_null(sandbox_rig_object(&rig, WP_KIND_VOLUME_CLAIM, "v"));
}

/* The watch of sandboxes is late: the API server knows better. */
static void
one_that_is_not_known_yet_keeps_its_own(void **state)
{
    (void)state;
    store_child(WP_KIND_POD, "p", "su", "");
    wp_recorder_notify(rig.api);
    wp_recorder_hold(rig.api, true);
    sandbox_rig_sandbox(&rig, "", "");
    assert_int_equal(count(WP_VERB_GET, WP_KIND_SANDBOX), 1);
    assert_int_equal(count(WP_VERB_DELETE, WP_KIND_POD), 0);
    wp_recorder_hold(rig.api, false);
    sandbox_rig_settle(&rig);
    assert_int_equal(count(WP_VERB_DELETE, WP_KIND_POD), 0);
}

static void
one_that_comes_before_it_is_looked_for_is_not(void **state)
{
    (void)state;
    store_child(WP_KIND_VOLUME_CLAIM, "v", "su", "");
    wp_recorder_notify(rig.api);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX,
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"s\",\"uid\":\"su\"},"
        "\"spec\":{\"podTemplate\":{\"spec\":{\"containers\":[]}}}}");
    wp_recorder_notify(rig.api);
    sandbox_rig_settle(&rig);
    assert_int_equal(count(WP_VERB_GET, WP_KIND_SANDBOX), 0);
    assert_non_null(sandbox_rig_object(&rig, WP_KIND_VOLUME_CLAIM, "v"));
}

static void
what_fails_is_tried_again(void **state)
{
    static const struct {
        enum wp_verb verb;
        enum wp_kind kind;
    } calls[] = {{WP_VERB_GET, WP_KIND_SANDBOX}, {WP_VERB_DELETE, WP_KIND_POD}};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        wp_recorder_plan(rig.api,
                         &(struct wp_recorder_fault){.verb = calls[i].verb,
                                                     .kind = calls[i].kind,
                                                     .status = WP_UNAVAILABLE});
        store_child(WP_KIND_POD, "p", "gone", "");
        sandbox_rig_settle(&rig);
        assert_non_null(sandbox_rig_object(&rig, WP_KIND_POD, "p"));
        try_again();
        assert_null(sandbox_rig_object(&rig, WP_KIND_POD, "p"));
    }
}

/* The one at hand is gone already, or another one: the others still go, in the
 * same pass. */
static void
what_needs_no_deleting_stops_nothing(void **state)
{
    static const enum wp_status statuses[] = {WP_NOT_FOUND, WP_ABORTED};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(statuses); i++) {
        wp_recorder_plan(rig.api,
                         &(struct wp_recorder_fault){.verb = WP_VERB_DELETE,
                                                     .kind = WP_KIND_POD,
                                                     .status = statuses[i]});
        store_child(WP_KIND_POD, "p", "gone", "");
        store_child(WP_KIND_SERVICE, "v", "gone", "");
        sandbox_rig_settle(&rig);
        assert_int_equal(count(WP_VERB_GET, WP_KIND_SANDBOX), i + 1);
        assert_int_equal(count(WP_VERB_DELETE, WP_KIND_POD), i + 1);
        assert_int_equal(count(WP_VERB_DELETE, WP_KIND_SERVICE), i + 1);
        wp_recorder_remove(rig.api, WP_KIND_POD, "n", "p");
        sandbox_rig_settle(&rig);
    }
}

/* What the next leader finds, it deletes. */
static void
who_leads_no_more_deletes_nothing(void **state)
{
    struct wp_recorded *asked = NULL;

    (void)state;
    store_child(WP_KIND_POD, "p", "gone", "");
    wp_recorder_notify(rig.api);
    for (int i = 0; i < 1000 && asked == NULL; i++) {
        (void)event_base_loop(rig.base, EVLOOP_NONBLOCK);
        asked = wp_recorder_open(rig.api, WP_VERB_GET, WP_KIND_SANDBOX);
    }
    assert_non_null(asked);
    wp_sandbox_controller_ops.deactivate(rig.controller);
    sandbox_rig_settle(&rig);
    assert_int_equal(count(WP_VERB_DELETE, WP_KIND_POD), 0);
    wp_sandbox_controller_ops.activate(rig.controller);
    sandbox_rig_settle(&rig);
    assert_int_equal(count(WP_VERB_DELETE, WP_KIND_POD), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_that_is_left_goes),
        TEST(what_is_going_is_left_to_go),
        TEST(another_sandbox_of_its_name_keeps_nothing),
        TEST(one_that_is_replaced_leaves_nothing),
        TEST(one_that_is_not_known_yet_keeps_its_own),
        TEST(one_that_comes_before_it_is_looked_for_is_not),
        TEST(what_fails_is_tried_again),
        TEST(what_needs_no_deleting_stops_nothing),
        TEST(who_leads_no_more_deletes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
