/* What the sandbox controller makes of each Pod, Service and volume claim that
 * may be there before it: its calls with what they write, what it learns and
 * says to its queue, and the conditions, compared whole with files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/objects/names.h"
#include "tests/support/base/journal.h"
#include "tests/support/k8s/k8s_text.h"
#include "tests/support/k8s/sandbox_journal.h"
#include "tests/support/k8s/sandbox_rig.h"

#define NAMED(name) "'annotations':{'agents.x-k8s.io/pod-name':'" name "'}"
#define OWNED                                                                  \
    "'ownerReferences':[{'apiVersion':'agents.x-k8s.io/v1beta1',"              \
    "'kind':'Sandbox','name':'s','uid':'su','controller':true}]"
#define FOREIGN                                                                \
    "'ownerReferences':[{'apiVersion':'apps/v1','kind':'ReplicaSet',"          \
    "'name':'r','uid':'ru','controller':true}]"
#define POOLED                                                                 \
    "'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s.io/v1beta1',"   \
    "'kind':'SandboxWarmPool','name':'p','uid':'pu','controller':true}]"
#define GOING ",'deletionTimestamp':'2026-01-01T00:00:00Z','finalizers':['a/b']"
#define OFFERED "'labels':{'agents.x-k8s.io/adoptable':'true'}"
#define CHILD(name, metadata)                                                  \
    "{'metadata':{'namespace':'n','name':'" name "','uid':'u-" name            \
    "'," metadata "}}"
#define SUSPENDED "'operatingMode':'Suspended'"
#define CLAIMS "'volumeClaimTemplates':[{'metadata':{'name':'d'}}]"

static struct sandbox_rig rig;

struct some {
    const char *name;
    const char *text; /* NULL: none. */
    const char *more; /* The same: another one. */
};

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

/* The children are there first, and nobody looks yet. */
static void
begin(enum wp_kind kind, const struct some *some, const char *metadata,
      const char *spec)
{
    sandbox_journal_from(UINT32_MAX);
    sandbox_rig_init(&rig, false);
    wp_sandbox_controller_ops.deactivate(rig.controller);
    put(kind, some->text);
    put(kind, some->more);
    sandbox_rig_sandbox(&rig, metadata, spec);
    sandbox_journal_from(0);
}

static void
goes_on(void)
{
    wp_sandbox_controller_ops.activate(rig.controller);
    sandbox_rig_settle(&rig);
    sandbox_journal_from(UINT32_MAX);
    sandbox_rig_pass(&rig, 1000);
    sandbox_rig_pass(&rig, 1000);
    sandbox_journal_from(0);
    shows();
    sandbox_journal_from(UINT32_MAX);
    sandbox_rig_fini(&rig);
    sandbox_journal_from(0);
}

/* --- The tests --- */

static const struct some pods[] = {
    {"no Pod", NULL, NULL},
    {"its own", CHILD("s", OWNED), NULL},
    {"its own, which goes", CHILD("s", OWNED GOING), NULL},
    {"another's", CHILD("s", FOREIGN), NULL},
    {"another's, which goes", CHILD("s", FOREIGN GOING), NULL},
    {"one that is offered", CHILD("s", OFFERED), NULL},
    {"one that is not offered", CHILD("s", "'labels':{'a':'b'}"), NULL},
    {"its own of another name", CHILD("t", OWNED), NULL},
    {"one of another name that is offered", CHILD("t", OFFERED), NULL},
    {"another's of another name", CHILD("t", FOREIGN), NULL},
    {"one of another name that is not offered",
     CHILD("t", "'labels':{'a':'b'}"), NULL},
    {"two of its own", CHILD("s", OWNED), CHILD("t", OWNED)},
    {"its own, and one that is offered", CHILD("s", OWNED),
     CHILD("t", OFFERED)},
    {"one that is offered, and its own of another name", CHILD("s", OFFERED),
     CHILD("t", OWNED)},
    {"another's, and its own of another name", CHILD("s", FOREIGN),
     CHILD("t", OWNED)},
};

static void
pods_with(const char *metadata, const char *spec, const char *path)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(pods); i++) {
        journal("# %s", pods[i].name);
        journal_line();
        begin(WP_KIND_POD, &pods[i], metadata, spec);
        goes_on();
    }
    journal_compare(path);
}

static void
each_pod(void **state)
{
    (void)state;
    sandbox_journal_bodies(true);
    pods_with("", "", WP_TEST_FOLDER "/k8s_sandbox_cases_pod.txt");
    pods_with(NAMED("s"), SUSPENDED,
              WP_TEST_FOLDER "/k8s_sandbox_cases_pod_suspended.txt");
    sandbox_journal_bodies(false);
    pods_with(NAMED("t"), "", WP_TEST_FOLDER "/k8s_sandbox_cases_pod_t.txt");
    pods_with("", SUSPENDED,
              WP_TEST_FOLDER "/k8s_sandbox_cases_pod_unnamed.txt");
    pods_with(POOLED, "", WP_TEST_FOLDER "/k8s_sandbox_cases_pod_pooled.txt");
}

static const struct some services[] = {
    {"no Service", NULL, NULL},
    {"its own", CHILD("s", OWNED), NULL},
    {"its own, which goes", CHILD("s", OWNED GOING), NULL},
    {"another's", CHILD("s", FOREIGN), NULL},
    {"one that is offered", CHILD("s", OFFERED), NULL},
    {"one that is offered, with an address",
     "{'metadata':{'namespace':'n','name':'s','uid':'u'," OFFERED
     "},'spec':{'clusterIP':'10.0.0.1'}}",
     NULL},
    {"one that is not offered", CHILD("s", "'labels':{'a':'b'}"), NULL},
};

static void
each_service(void **state)
{
    static const char *const wants[] = {"", "'service':true",
                                        "'service':false"};

    (void)state;
    sandbox_journal_bodies(true);
    for (size_t i = 0; i < WP_ARRAY_LEN(wants); i++) {
        for (size_t k = 0; k < WP_ARRAY_LEN(services); k++) {
            journal("# %s: %s", wants[i], services[k].name);
            journal_line();
            begin(WP_KIND_SERVICE, &services[k], NAMED("s"), wants[i]);
            goes_on();
        }
    }
    sandbox_journal_bodies(false);
    journal_compare(WP_TEST_FOLDER "/k8s_sandbox_cases_service.txt");
}

static const struct some claims[] = {
    {"no claim", NULL, NULL},
    {"its own", CHILD("d-s", OWNED), NULL},
    {"another's", CHILD("d-s", FOREIGN), NULL},
    {"one that is offered", CHILD("d-s", OFFERED), NULL},
    {"one that is not offered", CHILD("d-s", "'labels':{'a':'b'}"), NULL},
};

static void
each_claim(void **state)
{
    (void)state;
    sandbox_journal_bodies(true);
    for (size_t k = 0; k < WP_ARRAY_LEN(claims); k++) {
        journal("# %s", claims[k].name);
        journal_line();
        begin(WP_KIND_VOLUME_CLAIM, &claims[k], NAMED("s"), CLAIMS);
        goes_on();
    }
    sandbox_journal_bodies(false);
    say("# one without a name");
    begin(WP_KIND_VOLUME_CLAIM, &claims[0], NAMED("s"),
          "'volumeClaimTemplates':[{'metadata':{'name':'d'}},{}]");
    goes_on();
    journal_compare(WP_TEST_FOLDER "/k8s_sandbox_cases_claim.txt");
}

/* Several calls of one look are odd. */
static void
several_are_odd(void **state)
{
    static const struct {
        const char *name;
        struct wp_recorder_fault fault;
    } rows[] = {
        {"all are there", {.status = WP_ALREADY_EXISTS, .effect = true}},
        {"all are lost", {.status = WP_UNKNOWN_OUTCOME, .effect = true}},
        {"all are lost, and said so",
         {.status = WP_UNKNOWN_OUTCOME,
          .code = 500,
          .message = "boom",
          .effect = true}},
        {"none is done",
         {.status = WP_UNKNOWN_OUTCOME, .code = 503, .message = "boom"}},
        {"none is done, without a word", {.status = WP_UNKNOWN_OUTCOME}},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_recorder_fault fault = rows[i].fault;

        fault.verb = WP_VERB_POST;
        fault.kind = WP_KIND_COUNT;
        fault.times = 3;
        journal("# %s", rows[i].name);
        journal_line();
        begin(WP_KIND_POD, &pods[0], NAMED("s"), "'service':true," CLAIMS);
        wp_recorder_plan(rig.api, &fault);
        wp_sandbox_controller_ops.activate(rig.controller);
        sandbox_rig_settle(&rig);
        shows();
        for (int n = 0; n < 3; n++) {
            say(" after 1 s");
            sandbox_rig_pass(&rig, 1000);
        }
        shows();
        sandbox_rig_fini(&rig);
    }
    say("# what was said of a claim is not said of a Pod");
    begin(WP_KIND_POD, &pods[0], NAMED("s"), CLAIMS);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = WP_KIND_VOLUME_CLAIM,
                                                 .status = WP_UNKNOWN_OUTCOME,
                                                 .code = 500,
                                                 .message = "boom",
                                                 .effect = true});
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = WP_KIND_POD,
                                                 .status = WP_UNKNOWN_OUTCOME});
    wp_sandbox_controller_ops.activate(rig.controller);
    sandbox_rig_settle(&rig);
    sandbox_rig_pass(&rig, 1000);
    shows();
    sandbox_rig_fini(&rig);
    journal_compare(WP_TEST_FOLDER "/k8s_sandbox_cases_odd.txt");
}

/* Something between us and the server's store puts out what we put in: that is
 * not fought for. */
static void
what_the_server_changes_stays(void **state)
{
    static const struct {
        enum wp_verb verb;
        enum wp_kind kind;
        struct some some;
        const char *answer;
    } rows[] = {
        {WP_VERB_POST,
         WP_KIND_POD,
         {"a new Pod", NULL, NULL},
         CHILD("s", OWNED ",'resourceVersion':'900'")},
        {WP_VERB_PATCH,
         WP_KIND_POD,
         {"a Pod", CHILD("s", OWNED), NULL},
         CHILD("s", OWNED ",'resourceVersion':'900'")},
        {WP_VERB_POST,
         WP_KIND_SERVICE,
         {"a new Service", NULL, NULL},
         CHILD("s", OWNED ",'resourceVersion':'900'")},
        {WP_VERB_PATCH,
         WP_KIND_SERVICE,
         {"a Service", CHILD("s", OWNED), NULL},
         CHILD("s", OWNED ",'resourceVersion':'900'")},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        const struct wp_kind_info *info = wp_kind_info(rows[i].kind);
        json_t *answer = wp_test_json(rows[i].answer);

        (void)json_object_set_new(answer, "apiVersion",
                                  json_string(info->api_version));
        (void)json_object_set_new(answer, "kind", json_string(info->kind));
        journal("# %s", rows[i].some.name);
        journal_line();
        begin(rows[i].kind, &rows[i].some, NAMED("s"), "'service':true");
        wp_recorder_hold(rig.api, true);
        wp_recorder_plan(rig.api,
                         &(struct wp_recorder_fault){.verb = rows[i].verb,
                                                     .kind = rows[i].kind,
                                                     .status = WP_OK,
                                                     .object = answer,
                                                     .effect = true});
        wp_sandbox_controller_ops.activate(rig.controller);
        sandbox_rig_settle(&rig);
        shows();
        sandbox_rig_fini(&rig);
        json_decref(answer);
    }
    journal_compare(WP_TEST_FOLDER "/k8s_sandbox_cases_stays.txt");
}

/* That there are several Pods is told once, however often it is looked at. */
static void
several_pods_are_told_once(void **state)
{
    static const struct some two = {"", CHILD("s", OWNED), CHILD("t", OWNED)};

    (void)state;
    begin(WP_KIND_POD, &two, NAMED("s"), "");
    wp_sandbox_controller_ops.activate(rig.controller);
    sandbox_rig_settle(&rig);
    for (int i = 0; i < 2; i++) {
        say(" a quarter of an hour later");
        sandbox_rig_pass(&rig, 900000);
        sandbox_rig_merge(&rig, WP_KIND_POD, "t",
                          i == 0 ? "{'metadata':{'labels':{'a':'1'}}}"
                                 : "{'metadata':{'labels':{'a':'2'}}}");
    }
    shows();
    sandbox_rig_fini(&rig);
    journal_compare(WP_TEST_FOLDER "/k8s_sandbox_cases_told.txt");
}

/* By when a status is written is forgotten with its sandbox. */
static void
a_time_ends_with_its_sandbox(void **state)
{
    (void)state;
    begin(WP_KIND_POD, &pods[0], NAMED("s"), "");
    wp_sandbox_controller_ops.activate(rig.controller);
    sandbox_rig_settle(&rig);
    sandbox_rig_pass(&rig, 400);
    say(" it goes, and comes again");
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "n", "s");
    sandbox_rig_settle(&rig);
    sandbox_rig_sandbox(&rig, NAMED("s") ",'resourceVersion':'900'", "");
    sandbox_rig_fini(&rig);
    journal_compare(WP_TEST_FOLDER "/k8s_sandbox_cases_again.txt");
}

/* Its time comes while a call is under way: it is looked at again at once. */
static void
its_time_comes_meanwhile(void **state)
{
    static const struct some stranger = {"", CHILD("s", FOREIGN), NULL};

    (void)state;
    for (int64_t s = 9; s < 12; s++) {
        journal("# answered after %lld s", (long long)s);
        journal_line();
        begin(WP_KIND_POD, &pods[0], NAMED("s"),
              "'shutdownTime':'2026-01-01T00:00:10Z'");
        wp_sandbox_controller_ops.activate(rig.controller);
        assert_int_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), 0);
        wp_clock_manual_advance(&rig.clock, s * WP_NS_PER_S);
        assert_true(wp_recorder_step(rig.api));
        say(" then");
        sandbox_rig_settle(&rig);
        shows();
        sandbox_rig_fini(&rig);
    }
    say("# a stranger's Pod is looked at again, its end comes first");
    begin(WP_KIND_POD, &stranger, "",
          SUSPENDED ",'shutdownTime':'2026-01-01T00:00:09Z'");
    goes_on();
    say("# a stranger's Pod is looked at again before its end");
    begin(WP_KIND_POD, &stranger, "",
          SUSPENDED ",'shutdownTime':'2026-01-01T00:00:11Z'");
    goes_on();
    journal_compare(WP_TEST_FOLDER "/k8s_sandbox_cases_time.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_pod),
        cmocka_unit_test(each_service),
        cmocka_unit_test(each_claim),
        cmocka_unit_test(several_are_odd),
        cmocka_unit_test(its_time_comes_meanwhile),
        cmocka_unit_test(what_the_server_changes_stays),
        cmocka_unit_test(several_pods_are_told_once),
        cmocka_unit_test(a_time_ends_with_its_sandbox),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
