/* The sandbox controller when its first, second, third, ... call is answered in
 * each way that is odd, in scenes of each kind: what it does from there on is
 * compared whole with a file for each scene. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "proto/formats/sandbox_token.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"
#include "tests/support/k8s/sandbox_journal.h"
#include "tests/support/k8s/sandbox_rig.h"

#define NAMED "'annotations':{'agents.x-k8s.io/pod-name':'s'}"
#define NAMED_TEXT "\"annotations\":{\"agents.x-k8s.io/pod-name\":\"s\"}"
#define OWNED                                                                  \
    "'ownerReferences':[{'apiVersion':'agents.x-k8s.io/v1beta1',"              \
    "'kind':'Sandbox','name':'s','uid':'su','controller':true}]"
#define FOREIGN                                                                \
    "'ownerReferences':[{'apiVersion':'apps/v1','kind':'ReplicaSet',"          \
    "'name':'r','uid':'ru','controller':true}]"
#define OFFERED "'labels':{'agents.x-k8s.io/adoptable':'true'}"
#define CHILD(name, metadata)                                                  \
    "{'metadata':{'namespace':'n','name':'" name "','uid':'u-" name            \
    "'," metadata "}}"
#define UID "'uid':'su'"
#define OVER "'shutdownTime':'2026-01-01T00:00:00Z'"
#define CLAIMS "'volumeClaimTemplates':[{'metadata':{'name':'d'}}]"

static struct sandbox_rig rig;
static struct heard heard;

static const struct scene {
    const char *name;
    const char *metadata;
    const char *spec;
    const char *pod; /* NULL: none. */
    const char *service;
    const char *claim;
} scenes[] = {
    {"fresh", UID, "'service':true," CLAIMS, NULL, NULL, NULL},
    {"named", UID ",'annotations':{'agents.x-k8s.io/pod-name':'other'}",
     "'service':true," CLAIMS, NULL, NULL, NULL},
    {"offered", UID "," NAMED, "'service':true," CLAIMS, CHILD("s", OFFERED),
     CHILD("s", OFFERED), CHILD("d-s", OFFERED)},
    {"suspended", UID "," NAMED, "'operatingMode':'Suspended','service':false",
     CHILD("s", OWNED ",'finalizers':['a/b']"), CHILD("s", OWNED), NULL},
    {"over", UID "," NAMED, OVER, CHILD("s", OWNED), CHILD("s", OWNED), NULL},
    {"deleted", UID "," NAMED, OVER ",'shutdownPolicy':'Delete'",
     CHILD("s", OWNED), CHILD("s", OWNED), NULL},
    {"foreign", UID "," NAMED, "'service':true," CLAIMS, CHILD("s", FOREIGN),
     CHILD("s", FOREIGN), CHILD("d-s", FOREIGN)},
};

enum {
    ODD = 1,   /* Its object is none of its kind. */
    LEADS = 2, /* Not any more, from this answer on. */
};

static const struct answer {
    const char *name;
    int is;
    struct wp_recorder_fault fault;
} answers[] = {
    {"makes no sense", ODD, {.status = WP_OK, .effect = true}},
    {"not found", 0, {.status = WP_NOT_FOUND}},
    {"is there", 0, {.status = WP_ALREADY_EXISTS, .effect = true}},
    {"changed", 0, {.status = WP_ABORTED}},
    {"lost", 0, {.status = WP_UNKNOWN_OUTCOME, .effect = true}},
    {"failed",
     0,
     {.status = WP_UNKNOWN_OUTCOME, .code = 500, .message = "boom"}},
    {"later",
     0,
     {.status = WP_RESOURCE_EXHAUSTED, .retry_after_ns = 700 * WP_NS_PER_MS}},
    {"refused", 0, {.status = WP_INVALID_ARGUMENT, .message = "bad"}},
    {"the lead is lost", LEADS, {.status = WP_OK}},
};

/* --- What the test does --- */

static void
say(const char *what)
{
    journal("%s", what);
    journal_line();
}

static void
shows(void)
{
    static const char *const types[] = {"Ready", "Suspended"};

    for (size_t i = 0; i < WP_ARRAY_LEN(types); i++) {
        journal("  = %s: %s", sandbox_rig_condition(&rig, types[i]),
                sandbox_rig_message(&rig, types[i]));
        journal_line();
    }
}

static void
put(enum wp_kind kind, const char *text)
{
    if (text != NULL) {
        sandbox_rig_put(&rig, kind, text);
    }
}

static void
pass(int64_t ms)
{
    journal(" after %lld ms", (long long)ms);
    journal_line();
    sandbox_rig_pass(&rig, ms);
}

/* The children are there first, and nobody looks yet. */
static void
begin(const struct scene *scene)
{
    sandbox_rig_init(&rig, false);
    wp_sandbox_controller_ops.deactivate(rig.controller);
    put(WP_KIND_POD, scene->pod);
    put(WP_KIND_SERVICE, scene->service);
    put(WP_KIND_VOLUME_CLAIM, scene->claim);
    sandbox_rig_sandbox(&rig, scene->metadata, scene->spec);
    sandbox_rig_settle(&rig);
}

/* Answers so many calls, and leads no more. */
static void
lead_until(uint32_t call)
{
    wp_sandbox_controller_ops.activate(rig.controller);
    assert_int_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), 0);
    while (wp_recorder_calls(rig.api) < call) {
        assert_true(wp_recorder_step(rig.api));
        wp_recorder_notify(rig.api);
        assert_int_not_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), -1);
    }
    wp_sandbox_controller_ops.deactivate(rig.controller);
    sandbox_rig_settle(&rig);
}

static void
goes_wrong(const struct scene *scene, uint32_t call,
           const struct answer *answer)
{
    struct wp_recorder_fault fault = answer->fault;
    json_t *odd = json_object();
    const char *log;

    sandbox_journal_from(UINT32_MAX);
    begin(scene);
    fault.verb = WP_VERB_ANY;
    fault.kind = WP_KIND_COUNT;
    fault.skip = call - 1;
    fault.object = answer->is == ODD ? odd : NULL;
    sandbox_journal_from(0);
    journal("# %s, call %u: %s", scene->name, call, answer->name);
    journal_line();
    sandbox_journal_from(call);
    heard_begin(&heard);
    if (answer->is == LEADS) {
        lead_until(call);
    } else {
        wp_recorder_plan(rig.api, &fault);
    }
    wp_sandbox_controller_ops.activate(rig.controller);
    sandbox_rig_settle(&rig);
    log = heard_end(&heard);
    sandbox_journal_from(0);
    if (log[0] != '\0') {
        journal("  log %s", log);
        journal_line();
    }
    pass(20);
    shows();
    pass(1000);
    pass(10000);
    shows();
    sandbox_rig_fini(&rig);
    json_decref(odd);
}

/* How many calls the scene has while nothing goes wrong. */
static uint32_t
calls_of(const struct scene *scene)
{
    uint32_t calls;

    sandbox_journal_from(0);
    begin(scene);
    journal_drop();
    journal("# %s", scene->name);
    journal_line();
    wp_sandbox_controller_ops.activate(rig.controller);
    sandbox_rig_settle(&rig);
    calls = wp_recorder_calls(rig.api);
    pass(1000);
    pass(10000);
    shows();
    sandbox_rig_fini(&rig);
    return calls;
}

static void
each_call_of_each_scene(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(scenes); i++) {
        uint32_t calls = calls_of(&scenes[i]);
        char path[512];

        for (uint32_t call = 1; call <= calls; call++) {
            for (size_t k = 0; k < WP_ARRAY_LEN(answers); k++) {
                goes_wrong(&scenes[i], call, &answers[k]);
            }
        }
        (void)snprintf(path, sizeof path,
                       WP_TEST_FOLDER "/k8s_sandbox_odds_%s.txt",
                       scenes[i].name);
        journal_compare(path);
    }
}

/* --- How many calls a reconcile may make --- */

/* Somebody changes the sandbox each time that its Pod's name is written, until
 * so many calls were made: then somebody else has written it. */
static void
contended(const struct scene *scene, uint32_t calls)
{
    journal("# %s, contended for %u calls", scene->name, calls);
    journal_line();
    sandbox_journal_from(UINT32_MAX);
    begin(scene);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_PATCH,
                                                 .kind = WP_KIND_SANDBOX,
                                                 .times = (calls - 1) / 2,
                                                 .status = WP_ABORTED});
    sandbox_journal_from(calls);
    wp_recorder_hold(rig.api, true);
    wp_sandbox_controller_ops.activate(rig.controller);
    assert_int_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), 0);
    while (wp_recorder_calls(rig.api) < calls) {
        assert_true(wp_recorder_step(rig.api));
    }
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX, "n", "s",
                            "{\"metadata\":{" NAMED_TEXT "}}");
    while (wp_recorder_step(rig.api)) {
    }
    say(" the watch tells");
    wp_recorder_hold(rig.api, false);
    wp_recorder_notify(rig.api);
    sandbox_rig_settle(&rig);
    pass(1000);
    pass(10000);
    shows();
    sandbox_rig_fini(&rig);
}

static void
no_reconcile_goes_in_circles(void **state)
{
    static const struct scene contenders[] = {
        {"a Service to make", UID, "'service':true," CLAIMS, CHILD("s", OWNED),
         NULL, NULL},
        {"a Service to read", UID, "'service':true," CLAIMS, CHILD("s", OWNED),
         CHILD("s", OFFERED), NULL},
        {"a Service to change", UID, "'service':true," CLAIMS,
         CHILD("s", OWNED), CHILD("s", OWNED), NULL},
        {"a Service to delete", UID, "'service':false," CLAIMS,
         CHILD("s", OWNED), CHILD("s", OWNED), NULL},
        {"a status to write", UID, CLAIMS, CHILD("s", OWNED), NULL, NULL},
        {"no claim, a Service to make", UID, "'service':true",
         CHILD("s", OWNED), NULL, NULL},
        {"no claim, a Service to change after it was read", UID,
         "'service':true", CHILD("s", OWNED), CHILD("s", OFFERED), NULL},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(contenders); i++) {
        contended(&contenders[i],
                  strstr(contenders[i].name, "no claim") != NULL ? 15 : 16);
    }
    journal_compare(WP_TEST_FOLDER "/k8s_sandbox_odds_circles.txt");
}

/* It never ends, and is given up after so many calls, each time. */
static void
endless(const char *spec)
{
    const struct scene scene = {spec, UID, spec, CHILD("s", OWNED), NULL, NULL};

    journal("# endless: %s", spec);
    journal_line();
    sandbox_journal_from(UINT32_MAX);
    begin(&scene);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_PATCH,
                                                 .kind = WP_KIND_SANDBOX,
                                                 .times = 20,
                                                 .status = WP_ABORTED});
    sandbox_journal_from(0);
    wp_sandbox_controller_ops.activate(rig.controller);
    sandbox_rig_settle(&rig);
    for (int i = 0; i < 4; i++) {
        pass(1000);
    }
    shows();
    sandbox_rig_fini(&rig);
}

/* What goes on with one after the other is no circle; what follows is left to
 * the next reconcile. */
static void
many_are_not_too_many(void **state)
{
    char claims[2048] = "'volumeClaimTemplates':[";
    struct scene scene = {"many", UID "," NAMED, claims, NULL, NULL, NULL};

    (void)state;
    endless("'service':true");
    endless("'service':true," CLAIMS);
    for (int i = 0; i < 20; i++) {
        size_t len = strlen(claims);

        (void)snprintf(claims + len, sizeof claims - len,
                       "%s{'metadata':{'name':'d%d'}}", i == 0 ? "" : ",", i);
    }
    (void)snprintf(claims + strlen(claims), sizeof claims - strlen(claims),
                   "]");
    say("# many claims");
    sandbox_journal_from(UINT32_MAX);
    begin(&scene);
    for (int i = 0; i < 20; i++) {
        char text[256];

        (void)snprintf(text, sizeof text,
                       "{'metadata':{'namespace':'n','name':'d%d-s',"
                       "'uid':'u%d'," OFFERED "}}",
                       i, i);
        put(WP_KIND_VOLUME_CLAIM, text);
    }
    sandbox_journal_from(0);
    wp_sandbox_controller_ops.activate(rig.controller);
    sandbox_rig_settle(&rig);
    pass(1000);
    pass(1000);
    shows();
    sandbox_rig_fini(&rig);
    say("# many Pods of one whose time is over");
    scene.spec = OVER;
    sandbox_journal_from(UINT32_MAX);
    begin(&scene);
    for (int i = 0; i < 20; i++) {
        char text[256];

        (void)snprintf(text, sizeof text,
                       "{'metadata':{'namespace':'n','name':'p%d',"
                       "'uid':'u%d'," OWNED "}}",
                       i, i);
        put(WP_KIND_POD, text);
    }
    put(WP_KIND_POD,
        CHILD("a", OWNED ",'deletionTimestamp':'2026-01-01T00:00:00Z',"
                         "'finalizers':['a/b']"));
    sandbox_journal_from(0);
    wp_sandbox_controller_ops.activate(rig.controller);
    sandbox_rig_settle(&rig);
    shows();
    sandbox_rig_fini(&rig);
    journal_compare(WP_TEST_FOLDER "/k8s_sandbox_odds_many.txt");
}

/* Whose Pod a claim may bring something to has the digest of its token. */
static void
tokens_go_into_new_pods(void **state)
{
    static const uint8_t key[WP_SANDBOX_KEY_LEN] = {1, 2, 3};
    static const struct scene scene = {
        "token",
        UID ",'annotations':{'warmpool.dev/brings':'1'}",
        "'service':false",
        NULL,
        NULL,
        NULL};

    (void)state;
    for (int with = 0; with < 2; with++) {
        char *text;

        sandbox_journal_from(UINT32_MAX);
        begin(&scene);
        rig.parts.config.sandbox_key = with != 0 ? key : NULL;
        wp_sandbox_controller_ops.activate(rig.controller);
        sandbox_rig_settle(&rig);
        sandbox_journal_from(0);
        text = json_dumps(
            json_object_get(sandbox_rig_object(&rig, WP_KIND_POD, "s"), "spec"),
            JSON_COMPACT);
        say(text);
        free(text);
        sandbox_rig_fini(&rig);
    }
    journal_compare(WP_TEST_FOLDER "/k8s_sandbox_odds_tokens.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_of_each_scene),
        cmocka_unit_test(no_reconcile_goes_in_circles),
        cmocka_unit_test(many_are_not_too_many),
        cmocka_unit_test(tokens_go_into_new_pods),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
