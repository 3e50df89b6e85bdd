/* Whole lives of Sandboxes: each call, and what is left in the API server, as
 * k8s_sandbox_story.txt has it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "k8s/controllers/sandbox/controller.h"
#include "k8s/objects/names.h"
#include "tests/support/k8s/sandbox_rig.h"
#include "tests/support/k8s/story.h"

#define OWNED_BY(kind)                                                         \
    "'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s.io/v1beta1',"   \
    "'kind':'" kind "','name':'o','uid':'" kind "-uid','controller':true}]"
#define POOLED                                                                 \
    "'labels':{'agents.x-k8s.io/warm-pool-sandbox':'pp',"                      \
    "'agents.x-k8s.io/sandbox-template-ref-hash':'tt'},'annotations':{"        \
    "'agents.x-k8s.io/pod-name':'s'}," OWNED_BY("SandboxWarmPool")
#define OURS                                                                   \
    "'ownerReferences':[{'apiVersion':'agents.x-k8s.io/v1beta1','kind':"       \
    "'Sandbox','name':'s','uid':'su','controller':true}]"

static struct sandbox_rig rig;
static FILE *story;
static uint32_t told;

static void
tell(const char *what)
{
    (void)fprintf(story, "-- %s\n", what);
    told = wp_story_calls(story, rig.api, told);
}

static void
begin(bool gc)
{
    told = 0;
    sandbox_rig_init(&rig, gc);
}

static void
end(void)
{
    static const enum wp_kind kinds[] = {WP_KIND_SANDBOX, WP_KIND_POD,
                                         WP_KIND_SERVICE, WP_KIND_VOLUME_CLAIM};

    tell("at the end");
    for (size_t k = 0; k < WP_ARRAY_LEN(kinds); k++) {
        for (uint32_t i = 0; i < wp_recorder_objects(rig.api, kinds[k]); i++) {
            wp_story_json(story, wp_kind_info(kinds[k])->kind,
                          wp_recorder_object_at(rig.api, kinds[k], i));
        }
    }
    sandbox_rig_fini(&rig);
}

static void
pass(int64_t ms, int steps)
{
    for (int i = 0; i < steps; i++) {
        sandbox_rig_pass(&rig, ms / steps);
    }
}

/* Everything that a Sandbox may have. */
static void
user(void)
{
    begin(false);
    sandbox_rig_sandbox(
        &rig, "'labels':{'l':'1'},'annotations':{'a':'2'}",
        "'service':true,'volumeClaimTemplates':[{'metadata':{'name':'data',"
        "'labels':{'v':'3'}},'spec':{'accessModes':['ReadWriteOnce']}}]");
    tell("a Sandbox of a user, with a volume and a Service");
    sandbox_rig_pass(&rig, 1010);
    tell("a second later");
    sandbox_rig_pod_ready(&rig, "s");
    tell("its Pod is ready");
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                      "{'spec':{'podTemplate':{'metadata':{'labels':{'l':'2'},"
                      "'annotations':{'n':'1'}}}}}");
    tell("it has other metadata");
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                      "{'spec':{'podTemplate':{'spec':{'containers':[{'name':"
                      "'main'}]}}}}");
    tell("it has no ports any more");
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s", "{'spec':{'service':false}}");
    tell("it wants no Service");
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                      "{'spec':{'operatingMode':'Suspended'}}");
    pass(5000, 5);
    tell("it is suspended");
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                      "{'spec':{'operatingMode':'Running'}}");
    sandbox_rig_pod_ready(&rig, "s");
    pass(5000, 5);
    end();
}

static void
pooled(void)
{
    begin(false);
    sandbox_rig_sandbox(&rig, POOLED, "");
    sandbox_rig_merge(&rig, WP_KIND_POD, "s",
                      "{'spec':{'nodeName':'node-1'},'status':{'conditions':["
                      "{'type':'PodScheduled','status':'True'}]}}");
    sandbox_rig_pass(&rig, 29000);
    tell("a pool's is made");
    sandbox_rig_pod_ready(&rig, "s");
    tell("it is ready");
    sandbox_rig_merge(
        &rig, WP_KIND_SANDBOX, "s",
        "{'metadata':{'labels':{'agents.x-k8s.io/"
        "warm-pool-sandbox':null}," OWNED_BY(
            "SandboxClaim") "},'spec':{'podTemplate':{'metadata':{'labels':"
                            "{'team':'t'}}}}}");
    tell("it is claimed");
    sandbox_rig_merge(&rig, WP_KIND_POD, "s",
                      "{'status':{'phase':'Failed','conditions':[{'type':"
                      "'Ready','status':'False'}]}}");
    pass(5000, 5);
    tell("its Pod has failed");
    wp_recorder_remove(rig.api, WP_KIND_POD, "n", "s");
    pass(5000, 5);
    end();
}

static void
unschedulable(void)
{
    begin(false);
    sandbox_rig_sandbox(&rig, "", "");
    sandbox_rig_merge(&rig, WP_KIND_POD, "s",
                      "{'status':{'conditions':[{'type':'PodScheduled',"
                      "'status':'False','reason':'Unschedulable','message':"
                      "'0/3 nodes'}]}}");
    pass(60000, 60);
    end();
}

static void
expiry(void)
{
    static const char *const policies[] = {"Retain", "Delete"};

    for (size_t i = 0; i < WP_ARRAY_LEN(policies); i++) {
        char spec[256];

        begin(false);
        (void)snprintf(spec, sizeof spec,
                       "'service':true,'shutdownTime':'2026-01-01T00:01:00Z',"
                       "'shutdownPolicy':'%s'",
                       policies[i]);
        sandbox_rig_sandbox(&rig, "", spec);
        sandbox_rig_pod_ready(&rig, "s");
        pass(59990, 10);
        tell("before its time is over");
        sandbox_rig_pass(&rig, 10);
        tell("when it is");
        pass(10000, 20);
        end();
    }
}

static void
strangers(void)
{
    begin(false);
    sandbox_rig_put(&rig, WP_KIND_POD,
                    "{'metadata':{'name':'s','namespace':'n','uid':'p1'},"
                    "'spec':{}}");
    sandbox_rig_put(&rig, WP_KIND_SERVICE,
                    "{'metadata':{'name':'s','namespace':'n','uid':'v1'},"
                    "'spec':{}}");
    sandbox_rig_sandbox(&rig, "", "'service':true");
    pass(5000, 5);
    tell("a Pod and a Service of its name are nobody's");
    wp_recorder_remove(rig.api, WP_KIND_POD, "n", "s");
    wp_recorder_remove(rig.api, WP_KIND_SERVICE, "n", "s");
    pass(60000, 60);
    end();
}

static void
several(void)
{
    begin(false);
    sandbox_rig_put(&rig, WP_KIND_POD,
                    "{'metadata':{'name':'x','namespace':'n','uid':'p1'," OURS
                    "},'spec':{}}");
    sandbox_rig_put(&rig, WP_KIND_POD,
                    "{'metadata':{'name':'y','namespace':'n','uid':'p2'," OURS
                    "},'spec':{}}");
    sandbox_rig_sandbox(&rig, "", "");
    pass(5000, 5);
    tell("two Pods are its own");
    wp_recorder_remove(rig.api, WP_KIND_POD, "n", "x");
    pass(60000, 60);
    tell("one is");
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                      "{'spec':{'operatingMode':'Suspended'}}");
    pass(5000, 5);
    end();
}

static void
put_owned(enum wp_kind kind, const char *name, const char *more)
{
    char text[512];

    (void)snprintf(
        text, sizeof text,
        "{'metadata':{'name':'%s','namespace':'n','uid':'%s-uid'%s," OURS
        "},'spec':{}}",
        name, name, more);
    sandbox_rig_put(&rig, kind, text);
}

/* Its end, with Pods of any name, some of which are going by themselves. */
static void
several_expire(void)
{
    begin(false);
    for (int i = 0; i < 6; i++) {
        const char name[] = {(char)('a' + i), '\0'};

        put_owned(WP_KIND_POD, name,
                  i % 3 == 0 ? ",'deletionTimestamp':'2026-01-01T00:00:00Z'"
                             : "");
    }
    sandbox_rig_sandbox(&rig, "",
                        "'shutdownTime':'2026-01-01T00:00:30Z',"
                        "'shutdownPolicy':'Retain'");
    pass(29990, 10);
    tell("before its time is over");
    pass(10000, 40);
    end();
}

/* One Pod is named, another one has the Sandbox's name. */
static void
named(void)
{
    begin(false);
    put_owned(WP_KIND_POD, "s", "");
    put_owned(WP_KIND_POD, "other", "");
    sandbox_rig_sandbox(
        &rig, "'annotations':{'agents.x-k8s.io/pod-name':'other'}", "");
    pass(5000, 5);
    tell("both are its own");
    wp_recorder_remove(rig.api, WP_KIND_POD, "n", "other");
    pass(5000, 5);
    tell("one of its name is left");
    sandbox_rig_put(&rig, WP_KIND_POD,
                    "{'metadata':{'name':'s','namespace':'n','uid':'x-uid'},"
                    "'spec':{}}");
    put_owned(WP_KIND_POD, "third", "");
    pass(5000, 5);
    tell("that is nobody's, and a third one its own");
    end();
}

static void
volume(void)
{
    begin(false);
    sandbox_rig_sandbox(
        &rig, "",
        "'volumeClaimTemplates':[{'metadata':{'name':'data'},'spec':{}}]");
    sandbox_rig_pod_ready(&rig, "s");
    pass(5000, 5);
    tell("a Sandbox with a volume");
    sandbox_rig_merge(&rig, WP_KIND_VOLUME_CLAIM, "data-s",
                      "{'metadata':{'ownerReferences':null}}");
    pass(5000, 5);
    tell("its claim is nobody's any more");
    sandbox_rig_merge(&rig, WP_KIND_VOLUME_CLAIM, "data-s",
                      "{'metadata':{'labels':{'x':'y'}," OURS "}}");
    pass(5000, 5);
    tell("it is its own again");
    wp_recorder_remove(rig.api, WP_KIND_VOLUME_CLAIM, "n", "data-s");
    pass(5000, 5);
    end();
}

static void
tell_looks(void)
{
    struct wp_work_queue_stats stats;

    wp_sandbox_controller_ops.stats(rig.controller, &stats);
    (void)fprintf(story, "%d looks, %d failed\n", (int)stats.begun,
                  (int)stats.failed);
}

enum delay {
    STRANGER,  /* A Pod of its name is nobody's. */
    PAUSE,     /* The API server asks for one. */
    REFUSED,   /* It refuses once. */
    STARTS,    /* A step of its start is told later. */
    SUSPENDED, /* With a stranger's Pod, which may go unseen. */
    DELAYS,
};

static void
delay(enum delay what)
{
    if (what == STRANGER || what == SUSPENDED) {
        sandbox_rig_put(&rig, WP_KIND_POD,
                        "{'metadata':{'name':'s','namespace':'n','uid':"
                        "'x-uid'},'spec':{}}");
    } else if (what != STARTS) {
        wp_recorder_plan(
            rig.api, &(struct wp_recorder_fault){
                         .verb = WP_VERB_POST,
                         .kind = WP_KIND_POD,
                         .status = what == PAUSE ? WP_RESOURCE_EXHAUSTED
                                                 : WP_PERMISSION_DENIED,
                         .retry_after_ns = what == PAUSE ? 60 * WP_NS_PER_S : 0,
                         .message = "the server's words"});
    }
}

/* Its end comes when it is due, whatever else it waits for. */
static void
due(void)
{
    static const struct {
        const char *spec;
        int seconds; /* To look at. */
    } ends[] = {
        {"'shutdownTime':'2026-01-01T00:00:04Z'", 90},
        {"'shutdownTime':'2026-01-01T00:00:40Z'", 90},
        {"'shutdownTime':'2026-01-01T00:30:00Z'", 600},
        {"'service':false", 90},
    };

    for (size_t i = 0; i < DELAYS * WP_ARRAY_LEN(ends); i++) {
        enum delay what = (enum delay)(i % DELAYS);
        char spec[256];

        begin(false);
        (void)fprintf(story, "== %s, %d\n", ends[i / DELAYS].spec, (int)what);
        delay(what);
        (void)snprintf(spec, sizeof spec, "'shutdownPolicy':'Retain',%s%s",
                       ends[i / DELAYS].spec,
                       what == SUSPENDED ? ",'operatingMode':'Suspended'" : "");
        sandbox_rig_sandbox(&rig, "", spec);
        if (what == STARTS) {
            sandbox_rig_merge(&rig, WP_KIND_POD, "s",
                              "{'spec':{'nodeName':'node-1'},'status':{"
                              "'conditions':[{'type':'PodScheduled','status':"
                              "'True'}]}}");
        }
        for (int second = 1; second <= ends[i / DELAYS].seconds; second++) {
            char text[24];

            sandbox_rig_pass(&rig, 1000);
            (void)snprintf(text, sizeof text, "after %d s", second);
            if (wp_recorder_calls(rig.api) > told) {
                tell(text);
            }
        }
        tell_looks();
        end();
    }
}

/* What was left behind while nobody led. */
static void
orphans(void)
{
    static const enum wp_kind kinds[] = {WP_KIND_POD, WP_KIND_SERVICE,
                                         WP_KIND_VOLUME_CLAIM};

    begin(true);
    wp_sandbox_controller_ops.deactivate(rig.controller);
    for (int i = 0; i < 6; i++) {
        char text[256];

        (void)snprintf(
            text, sizeof text,
            "{'metadata':{'name':'p%d','namespace':'n','uid':'p%d-uid',"
            "'ownerReferences':[{'apiVersion':'agents.x-k8s.io/v1beta1',"
            "'kind':'Sandbox','name':'s%d','uid':'su%d','controller':true}]},"
            "'spec':{}}",
            i, i, i / 2, i / 2);
        sandbox_rig_put(&rig, kinds[i % 3], text);
    }
    tell("while nobody leads");
    wp_sandbox_controller_ops.activate(rig.controller);
    pass(5000, 20);
    end();
}

static void
collected(void)
{
    begin(true);
    sandbox_rig_sandbox(
        &rig, "",
        "'service':true,'volumeClaimTemplates':[{'metadata':{'name':'data'},"
        "'spec':{}}]");
    sandbox_rig_pod_ready(&rig, "s");
    tell("a Sandbox");
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "n", "s");
    pass(5000, 20);
    end();
}

static void
tell_ready(void)
{
    (void)fprintf(story, "%s; Ready: \"%s\" \"%s\"\n", sandbox_rig_writes(&rig),
                  sandbox_rig_condition(&rig, "Ready"),
                  sandbox_rig_message(&rig, "Ready"));
}

/* Each answer to each write. */
static void
answers(void)
{
    static const enum wp_status statuses[] = {
        WP_NOT_FOUND,         WP_ALREADY_EXISTS,   WP_ABORTED,
        WP_PERMISSION_DENIED, WP_INVALID_ARGUMENT, WP_RESOURCE_EXHAUSTED,
        WP_UNAVAILABLE,       WP_UNKNOWN_OUTCOME,  WP_FAILED_PRECONDITION};
    static const struct {
        enum wp_verb verb;
        enum wp_kind kind;
        const char *subresource;
    } writes[] = {
        {WP_VERB_POST, WP_KIND_POD, NULL},
        {WP_VERB_POST, WP_KIND_SERVICE, NULL},
        {WP_VERB_POST, WP_KIND_VOLUME_CLAIM, NULL},
        {WP_VERB_PATCH, WP_KIND_SANDBOX, ""},
        {WP_VERB_PATCH, WP_KIND_SANDBOX, "status"},
    };

    for (size_t w = 0; w < WP_ARRAY_LEN(writes); w++) {
        for (size_t s = 0; s < WP_ARRAY_LEN(statuses); s++) {
            begin(false);
            (void)fprintf(
                story, "== answer %s to a write of %s/%s\n",
                wp_status_text(statuses[s]), wp_kind_info(writes[w].kind)->kind,
                writes[w].subresource != NULL ? writes[w].subresource : "");
            wp_recorder_plan(rig.api, &(struct wp_recorder_fault){
                                          .verb = writes[w].verb,
                                          .kind = writes[w].kind,
                                          .subresource = writes[w].subresource,
                                          .status = statuses[s],
                                          .times = 1,
                                          .message = "the server's words"});
            sandbox_rig_sandbox(
                &rig, "",
                "'service':true,'volumeClaimTemplates':[{'metadata':{'name':"
                "'data'},'spec':{}}]");
            tell_ready();
            pass(60000, 120);
            tell_ready();
            sandbox_rig_fini(&rig);
        }
    }
}

static void
sandboxes_live_as_they_are_told(void **state)
{
    static const struct wp_story_life lives[] = {
        {"user", user},
        {"pooled", pooled},
        {"unschedulable", unschedulable},
        {"expiry", expiry},
        {"strangers", strangers},
        {"several", several},
        {"several expire", several_expire},
        {"named", named},
        {"volume", volume},
        {"due", due},
        {"orphans", orphans},
        {"collected", collected},
        {"answers", answers},
    };

    (void)state;
    wp_story_tell(&story, lives, WP_ARRAY_LEN(lives), WP_TEST_STORY);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(sandboxes_live_as_they_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
