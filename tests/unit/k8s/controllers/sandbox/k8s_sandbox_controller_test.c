/* The life of a Sandbox under its controller, and each write that it costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/condition.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "tests/support/k8s/sandbox_rig.h"

#define NAMED "'annotations':{'agents.x-k8s.io/pod-name':'s'}"
#define OWNED_BY(kind)                                                         \
    "'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s.io/v1beta1',"   \
    "'kind':'" kind "','name':'o','uid':'" kind "-uid','controller':true}]"
#define OURS                                                                   \
    "'ownerReferences':[{'apiVersion':'agents.x-k8s.io/v1beta1','kind':"       \
    "'Sandbox','name':'s','uid':'su','controller':true}]"
#define THEIRS                                                                 \
    "'ownerReferences':[{'apiVersion':'apps/v1','kind':'ReplicaSet','name':"   \
    "'r','uid':'ru','controller':true}]"

#define assert_writes(rig, text)                                               \
    assert_string_equal(sandbox_rig_writes(rig), text)
#define assert_condition(rig, type, text)                                      \
    assert_string_equal(sandbox_rig_condition(rig, type), text)

static const char *
pod_name_of(struct sandbox_rig *rig)
{
    return wp_json_text(sandbox_rig_object(rig, WP_KIND_SANDBOX, "s"),
                        "metadata", "annotations", WP_ANNOTATION_POD_NAME,
                        NULL);
}

/* A pool's sandbox costs two writes until it is Ready, and one when it is
 * claimed: its Pod, its status; then its Pod's labels. */
static void
pooled(void **state)
{
    struct sandbox_rig rig;
    const struct wp_recorded *call;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_sandbox(
        &rig,
        "'labels':{'agents.x-k8s.io/warm-pool-sandbox':'pp',"
        "'agents.x-k8s.io/sandbox-template-ref-hash':'tt'}," NAMED
        "," OWNED_BY("SandboxWarmPool"),
        "");
    assert_writes(&rig, "POST Pod s");
    call = wp_recorder_last(rig.api, WP_VERB_POST, WP_KIND_POD);
    assert_int_equal(call->priority, WP_HTTP_REFILL);
    sandbox_rig_merge(&rig, WP_KIND_POD, "s",
                      "{'spec':{'nodeName':'node-1'},'status':{'conditions':["
                      "{'type':'PodScheduled','status':'True'}]}}");
    sandbox_rig_pass(&rig, 29000);
    assert_writes(&rig, "");
    sandbox_rig_pod_ready(&rig, "s");
    assert_writes(&rig, "PATCH Sandbox/status s");
    assert_condition(&rig, "Ready", "True DependenciesReady");
    assert_condition(&rig, "PodScheduled", "True PodScheduled");
    assert_condition(&rig, "Suspended", "False NotSuspended");
    sandbox_rig_pass(&rig, 60000);
    assert_writes(&rig, "");

    /* A claim adopts it. */
    sandbox_rig_merge(
        &rig, WP_KIND_SANDBOX, "s",
        "{'metadata':{'labels':{'agents.x-k8s.io/"
        "warm-pool-sandbox':null}," OWNED_BY(
            "SandboxClaim") "},'spec':{'podTemplate':{'metadata':{'labels':"
                            "{'team':'t'}}}}}");
    assert_writes(&rig, "PATCH Pod s");
    call = wp_recorder_last(rig.api, WP_VERB_PATCH, WP_KIND_POD);
    assert_int_equal(call->priority, WP_HTTP_NORMAL);
    assert_string_equal(wp_json_text(sandbox_rig_object(&rig, WP_KIND_POD, "s"),
                                     "metadata", "labels", WP_LABEL_WARM_POOL,
                                     NULL),
                        "");
    assert_string_equal(wp_json_text(sandbox_rig_object(&rig, WP_KIND_POD, "s"),
                                     "metadata", "labels", "team", NULL),
                        "t");
    /* What comes later is in no claim's way. */
    sandbox_rig_merge(
        &rig, WP_KIND_SANDBOX, "s",
        "{'spec':{'podTemplate':{'metadata':{'labels':{'team':'u'}}}}}");
    assert_writes(&rig, "PATCH Pod s");
    call = wp_recorder_last(rig.api, WP_VERB_PATCH, WP_KIND_POD);
    assert_int_equal(call->priority, WP_HTTP_REFILL);
    /* Nothing that it tells is out of date, so nothing is written. */
    sandbox_rig_pass(&rig, 60000);
    assert_writes(&rig, "");
    sandbox_rig_fini(&rig);
}

/* Without the annotation it is written, before Ready can be seen; with nobody
 * behind it, the sandbox is somebody's who waits. */
static void
by_a_user(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_sandbox(&rig, "", "");
    assert_writes(&rig, "POST Pod s, PATCH Sandbox s");
    assert_int_equal(
        wp_recorder_last(rig.api, WP_VERB_POST, WP_KIND_POD)->priority,
        WP_HTTP_CLAIM);
    assert_string_equal(pod_name_of(&rig), "s");
    /* A step on the way is told when nothing better has come for a while. */
    sandbox_rig_pass(&rig, 990);
    assert_writes(&rig, "");
    sandbox_rig_pass(&rig, 20);
    assert_writes(&rig, "PATCH Sandbox/status s");
    assert_condition(&rig, "Ready", "False DependenciesNotReady");
    sandbox_rig_pod_ready(&rig, "s");
    assert_writes(&rig, "PATCH Sandbox/status s");
    assert_condition(&rig, "Ready", "True DependenciesReady");
    sandbox_rig_fini(&rig);
}

/* A generation that was told is told anew in the end; `kubectl wait` looks at
 * it. */
static void
generation(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_sandbox(&rig, NAMED, "");
    sandbox_rig_pod_ready(&rig, "s");
    (void)sandbox_rig_writes(&rig);
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                      "{'spec':{'shutdownTime':'2027-01-01T00:00:00Z'}}");
    sandbox_rig_pass(&rig, 9900);
    assert_writes(&rig, "");
    sandbox_rig_pass(&rig, 200);
    assert_writes(&rig, "PATCH Sandbox/status s");
    sandbox_rig_pass(&rig, 60000);
    assert_writes(&rig, "");
    sandbox_rig_fini(&rig);
}

/* What cannot be scheduled is said at once. */
static void
unschedulable(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_sandbox(&rig, NAMED "," OWNED_BY("SandboxWarmPool"), "");
    sandbox_rig_merge(&rig, WP_KIND_POD, "s",
                      "{'status':{'phase':'Pending','conditions':[{'type':"
                      "'PodScheduled','status':'False','reason':"
                      "'Unschedulable','message':'0/1'}]}}");
    assert_writes(&rig, "POST Pod s, PATCH Sandbox/status s");
    assert_condition(&rig, "PodScheduled", "False Unschedulable");
    sandbox_rig_fini(&rig);
}

/* A Pod that goes is made again; Ready says so meanwhile. */
static void
pod_lost(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_sandbox(&rig, NAMED, "");
    sandbox_rig_pod_ready(&rig, "s");
    assert_writes(&rig, "POST Pod s, PATCH Sandbox/status s");
    wp_recorder_remove(rig.api, WP_KIND_POD, "n", "s");
    sandbox_rig_settle(&rig);
    assert_writes(&rig, "POST Pod s, PATCH Sandbox/status s");
    assert_condition(&rig, "Ready", "False DependenciesNotReady");
    sandbox_rig_pod_ready(&rig, "s");
    assert_writes(&rig, "PATCH Sandbox/status s");
    assert_condition(&rig, "Ready", "True DependenciesReady");
    sandbox_rig_fini(&rig);
}

/* One whose Pod is on its way out is Ready no more, and is left alone. */
static void
pod_terminating(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_sandbox(&rig, NAMED, "");
    sandbox_rig_pod_ready(&rig, "s");
    assert_writes(&rig, "POST Pod s, PATCH Sandbox/status s");
    sandbox_rig_merge(&rig, WP_KIND_POD, "s",
                      "{'metadata':{'deletionTimestamp':"
                      "'2026-01-01T00:00:30Z','finalizers':['test/kubelet'],"
                      "'labels':{'agents.x-k8s.io/sandbox-name-hash':'x'}}}");
    assert_writes(&rig, "PATCH Sandbox/status s");
    assert_condition(&rig, "Ready", "False DependenciesNotReady");
    sandbox_rig_fini(&rig);
}

/* Succeeded and Failed are said once, and for good. */
static void
finished(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_sandbox(&rig, NAMED, "");
    sandbox_rig_pod_ready(&rig, "s");
    (void)sandbox_rig_writes(&rig);
    sandbox_rig_merge(&rig, WP_KIND_POD, "s",
                      "{'status':{'phase':'Succeeded','conditions':[]}}");
    assert_writes(&rig, "PATCH Sandbox/status s");
    assert_condition(&rig, "Finished", "True PodSucceeded");
    assert_condition(&rig, "Ready", "False PodSucceeded");
    sandbox_rig_fini(&rig);
}

/* Suspended: the Pod goes, the name with it; claims and Service stay. */
static void
suspend_and_resume(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_sandbox(&rig, NAMED,
                        "'service':true,'volumeClaimTemplates':[{'metadata':"
                        "{'name':'data'},'spec':{}}]");
    assert_writes(&rig, "POST PersistentVolumeClaim data-s, POST Pod s, "
                        "POST Service s");
    /* Its kubelet takes its time to end it. */
    sandbox_rig_merge(&rig, WP_KIND_POD, "s",
                      "{'metadata':{'finalizers':['test/kubelet']}}");
    sandbox_rig_pod_ready(&rig, "s");
    assert_condition(&rig, "Ready", "True DependenciesReady");
    (void)sandbox_rig_writes(&rig);

    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                      "{'spec':{'operatingMode':'Suspended'}}");
    assert_writes(&rig, "DELETE Pod s, PATCH Sandbox/status s");
    assert_condition(&rig, "Suspended", "False PodTerminating");
    wp_recorder_remove(rig.api, WP_KIND_POD, "n", "s");
    sandbox_rig_settle(&rig);
    assert_writes(&rig, "PATCH Sandbox s, PATCH Sandbox/status s");
    assert_condition(&rig, "Suspended", "True PodTerminated");
    assert_condition(&rig, "Ready", "False SandboxSuspended");
    assert_condition(&rig, "PodScheduled", "");
    assert_string_equal(pod_name_of(&rig), "");
    assert_non_null(sandbox_rig_object(&rig, WP_KIND_SERVICE, "s"));
    assert_non_null(sandbox_rig_object(&rig, WP_KIND_VOLUME_CLAIM, "data-s"));

    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                      "{'spec':{'operatingMode':'Running'}}");
    assert_writes(&rig, "POST Pod s, PATCH Sandbox s, PATCH Sandbox/status s");
    assert_condition(&rig, "Suspended", "False NotSuspended");
    sandbox_rig_pod_ready(&rig, "s");
    assert_writes(&rig, "PATCH Sandbox/status s");
    assert_condition(&rig, "Ready", "True DependenciesReady");
    assert_string_equal(pod_name_of(&rig), "s");
    sandbox_rig_fini(&rig);
}

/* A Pod that is not the sandbox's own is not deleted by suspending it. */
static void
suspended_beside_a_stranger(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_put(&rig, WP_KIND_POD,
                    "{'metadata':{'name':'s','namespace':'n'," THEIRS "}}");
    sandbox_rig_sandbox(&rig, NAMED, "'operatingMode':'Suspended'");
    assert_writes(&rig, "PATCH Sandbox s, PATCH Sandbox/status s");
    assert_condition(&rig, "Suspended", "False PodNotOwned");
    sandbox_rig_fini(&rig);
}

/* The same of one without the label by which Pods are watched: it is looked for
 * by name, and again from time to time. The selector stays. */
static void
suspended_beside_an_unlabelled_stranger(void **state)
{
    struct sandbox_rig rig;
    struct wp_store *pods;

    (void)state;
    sandbox_rig_init(&rig, false);
    pods = rig.parts.stores[WP_KIND_POD];
    sandbox_rig_put(&rig, WP_KIND_POD,
                    "{'metadata':{'name':'s','namespace':'n'}}");
    wp_store_remove(pods, wp_store_find(pods, "n", "s"));
    sandbox_rig_sandbox(&rig, "", "'operatingMode':'Suspended'");
    assert_writes(&rig, "PATCH Sandbox/status s");
    assert_condition(&rig, "Suspended", "False PodNotOwned");
    assert_string_equal(sandbox_rig_message(&rig, "Ready"),
                        "Sandbox is suspending");
    assert_string_not_equal(
        wp_json_text(sandbox_rig_object(&rig, WP_KIND_SANDBOX, "s"), "status",
                     "selector", NULL),
        "");
    /* The watch does not tell of its end. */
    wp_recorder_hold(rig.api, true);
    wp_recorder_remove(rig.api, WP_KIND_POD, "n", "s");
    sandbox_rig_pass(&rig, 60000);
    assert_condition(&rig, "Suspended", "True PodTerminated");
    wp_recorder_hold(rig.api, false);
    sandbox_rig_fini(&rig);
}

/* Retain: said first, then Pod and Service go, then the rest of the status. */
static void
expiry_retains(void **state)
{
    struct sandbox_rig rig;
    const json_t *status;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_sandbox(&rig, NAMED,
                        "'service':true,'shutdownTime':'2026-01-01T00:00:05Z'");
    sandbox_rig_pod_ready(&rig, "s");
    (void)sandbox_rig_writes(&rig);
    sandbox_rig_pass(&rig, 4990);
    assert_writes(&rig, "");
    sandbox_rig_pass(&rig, 10);
    assert_writes(&rig, "PATCH Sandbox/status s, DELETE Pod s, "
                        "DELETE Service s, PATCH Sandbox/status s");
    assert_condition(&rig, "Ready", "False SandboxExpired");
    status = wp_json_at(sandbox_rig_object(&rig, WP_KIND_SANDBOX, "s"),
                        "status", NULL);
    assert_int_equal(json_object_size(status), 1);
    sandbox_rig_pass(&rig, 100000);
    assert_writes(&rig, "");

    /* More time brings it back. */
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                      "{'spec':{'shutdownTime':'2027-01-01T00:00:00Z'}}");
    assert_writes(&rig, "POST Pod s, POST Service s, PATCH Sandbox/status s");
    sandbox_rig_fini(&rig);
}

static void
expiry_deletes(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_sandbox(&rig, NAMED,
                        "'shutdownTime':'2026-01-01T00:00:05Z',"
                        "'shutdownPolicy':'Delete'");
    sandbox_rig_pod_ready(&rig, "s");
    (void)sandbox_rig_writes(&rig);
    sandbox_rig_pass(&rig, 5000);
    assert_writes(&rig, "PATCH Sandbox/status s, DELETE Pod s, "
                        "DELETE Sandbox s");
    assert_null(sandbox_rig_object(&rig, WP_KIND_SANDBOX, "s"));
    sandbox_rig_fini(&rig);
}

/* spec.service: true makes it, a drift is put right, false ends it. */
static void
service(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_sandbox(&rig, NAMED, "");
    sandbox_rig_pod_ready(&rig, "s");
    (void)sandbox_rig_writes(&rig);
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s", "{'spec':{'service':true}}");
    assert_writes(&rig, "POST Service s, PATCH Sandbox/status s");
    assert_string_equal(
        wp_json_text(sandbox_rig_object(&rig, WP_KIND_SANDBOX, "s"), "status",
                     "serviceFQDN", NULL),
        "s.n.svc.cluster.local");
    sandbox_rig_merge(&rig, WP_KIND_SERVICE, "s",
                      "{'spec':{'selector':{'app':'x'}}}");
    assert_writes(&rig, "PATCH Service s");
    wp_recorder_remove(rig.api, WP_KIND_SERVICE, "n", "s");
    sandbox_rig_settle(&rig);
    assert_writes(&rig, "POST Service s");
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s", "{'spec':{'service':null}}");
    sandbox_rig_pass(&rig, 10001);
    assert_writes(&rig, "PATCH Sandbox/status s");
    assert_non_null(sandbox_rig_object(&rig, WP_KIND_SERVICE, "s"));
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s", "{'spec':{'service':false}}");
    assert_writes(&rig, "DELETE Service s, PATCH Sandbox/status s");
    assert_string_equal(
        wp_json_text(sandbox_rig_object(&rig, WP_KIND_SANDBOX, "s"), "status",
                     "service", NULL),
        "");
    sandbox_rig_fini(&rig);
}

/* What nobody controls is taken over when it is offered, with its version as
 * the precondition; else it is an error, and no Pod mounts it. */
static const struct adoption_row {
    const char *name;
    enum wp_kind kind;
    const char *object;
    const char *spec;
    const char *writes;
    const char *ready;
} adoption_rows[] = {
    {"pod, offered", WP_KIND_POD,
     "{'metadata':{'name':'s','namespace':'n','labels':"
     "{'agents.x-k8s.io/adoptable':'true'}}}",
     "", "PATCH Pod s", ""},
    {"pod, not offered", WP_KIND_POD,
     "{'metadata':{'name':'s','namespace':'n'}}", "", "PATCH Sandbox/status s",
     "False ReconcilerError"},
    {"pod of another", WP_KIND_POD,
     "{'metadata':{'name':'s','namespace':'n'," THEIRS "}}", "",
     "PATCH Sandbox s, PATCH Sandbox/status s", "False ReconcilerError"},
    {"claim, offered", WP_KIND_VOLUME_CLAIM,
     "{'metadata':{'name':'d-s','namespace':'n','labels':"
     "{'agents.x-k8s.io/adoptable':'true'}}}",
     "'volumeClaimTemplates':[{'metadata':{'name':'d'}}]",
     "PATCH PersistentVolumeClaim d-s, POST Pod s", ""},
    {"claim of another", WP_KIND_VOLUME_CLAIM,
     "{'metadata':{'name':'d-s','namespace':'n'," THEIRS "}}",
     "'volumeClaimTemplates':[{'metadata':{'name':'d'}}]",
     "PATCH Sandbox/status s", "False ReconcilerError"},
    {"service, offered", WP_KIND_SERVICE,
     "{'metadata':{'name':'s','namespace':'n','labels':"
     "{'agents.x-k8s.io/adoptable':'true'}},'spec':{'clusterIP':'None'}}",
     "'service':true", "POST Pod s, PATCH Service s", ""},
    {"service with an address", WP_KIND_SERVICE,
     "{'metadata':{'name':'s','namespace':'n','labels':"
     "{'agents.x-k8s.io/adoptable':'true'}},'spec':{'clusterIP':'10.1.1.1'}}",
     "'service':true", "POST Pod s, PATCH Sandbox/status s",
     "False ReconcilerError"},
    {"service of another", WP_KIND_SERVICE,
     "{'metadata':{'name':'s','namespace':'n'," THEIRS "}}", "'service':true",
     "POST Pod s, PATCH Sandbox/status s", "False ReconcilerError"},
    {"service nobody asked for", WP_KIND_SERVICE,
     "{'metadata':{'name':'s','namespace':'n'}}", "", "POST Pod s", ""},
};

static void
adoption(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(adoption_rows); i++) {
        const struct adoption_row *row = &adoption_rows[i];
        struct sandbox_rig rig;

        print_message("  %s\n", row->name);
        sandbox_rig_init(&rig, false);
        sandbox_rig_put(&rig, row->kind, row->object);
        sandbox_rig_sandbox(&rig, NAMED, row->spec);
        assert_writes(&rig, row->writes);
        assert_condition(&rig, "Ready", row->ready);
        sandbox_rig_fini(&rig);
    }
}

/* The annotation may name a Pod of another name; when that is gone, the next
 * one has the sandbox's name, and the annotation says so. */
static void
pod_of_another_name(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_put(&rig, WP_KIND_POD,
                    "{'metadata':{'name':'other','namespace':'n','labels':"
                    "{'agents.x-k8s.io/adoptable':'true'}}}");
    sandbox_rig_sandbox(
        &rig, "'annotations':{'agents.x-k8s.io/pod-name':'other'}", "");
    assert_writes(&rig, "PATCH Pod other");
    sandbox_rig_pod_ready(&rig, "other");
    assert_writes(&rig, "PATCH Sandbox/status s");
    wp_recorder_remove(rig.api, WP_KIND_POD, "n", "other");
    sandbox_rig_settle(&rig);
    assert_writes(&rig, "POST Pod s, PATCH Sandbox s, PATCH Sandbox/status s");
    assert_string_equal(pod_name_of(&rig), "s");
    sandbox_rig_fini(&rig);
}

/* Two Pods: none is chosen, none made, the Service is left; one goes, and all is
 * well again. */
static void
multiple_pods(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_sandbox(&rig, NAMED, "'service':true");
    sandbox_rig_pod_ready(&rig, "s");
    (void)sandbox_rig_writes(&rig);
    sandbox_rig_put(&rig, WP_KIND_POD,
                    "{'metadata':{'name':'s2','namespace':'n'," OURS "}}");
    assert_writes(&rig, "PATCH Sandbox/status s");
    assert_condition(&rig, "Ready", "False MultiplePods");
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_WRITES, WP_KIND_EVENT),
                     1);
    sandbox_rig_pass(&rig, 100000);
    assert_writes(&rig, "");
    /* One more is the same trouble: its number is told, but no second event. */
    sandbox_rig_put(&rig, WP_KIND_POD,
                    "{'metadata':{'name':'s3','namespace':'n'," OURS "}}");
    assert_writes(&rig, "PATCH Sandbox/status s");
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_WRITES, WP_KIND_EVENT),
                     1);
    wp_recorder_remove(rig.api, WP_KIND_POD, "n", "s2");
    wp_recorder_remove(rig.api, WP_KIND_POD, "n", "s3");
    sandbox_rig_settle(&rig);
    assert_writes(&rig, "PATCH Sandbox/status s");
    assert_condition(&rig, "Ready", "True DependenciesReady");
    sandbox_rig_fini(&rig);
}

/* Nor is one ended when a sandbox of two Pods is to be suspended: nobody can say
 * which holds the work. */
static void
multiple_pods_suspended(void **state)
{
    struct sandbox_rig rig;
    const json_t *ready;

    (void)state;
    sandbox_rig_init(&rig, false);
    sandbox_rig_put(&rig, WP_KIND_POD,
                    "{'metadata':{'name':'s1','namespace':'n'," OURS "}}");
    sandbox_rig_put(&rig, WP_KIND_POD,
                    "{'metadata':{'name':'s2','namespace':'n'," OURS "}}");
    sandbox_rig_sandbox(&rig, NAMED, "'operatingMode':'Suspended'");
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_DELETE, WP_KIND_COUNT),
                     0);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_POST, WP_KIND_POD), 0);
    ready = wp_condition_find(
        wp_json_at(sandbox_rig_object(&rig, WP_KIND_SANDBOX, "s"), "status",
                   "conditions", NULL),
        "Ready");
    assert_string_equal(wp_json_text(ready, "message", NULL),
                        "2 Pods are controlled by this Sandbox; none is chosen "
                        "and none is created");
    assert_string_equal(pod_name_of(&rig), "s");
    wp_recorder_remove(rig.api, WP_KIND_POD, "n", "s1");
    sandbox_rig_settle(&rig);
    /* The one that is left is ended, though it has another name. */
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_DELETE, WP_KIND_POD),
                     1);
    assert_null(sandbox_rig_object(&rig, WP_KIND_POD, "s2"));
    sandbox_rig_fini(&rig);
}

/* Nothing is done for a sandbox that is going, or by one who does not lead. */
static void
left_alone(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, false);
    wp_sandbox_controller_ops.deactivate(rig.controller);
    sandbox_rig_sandbox(&rig, NAMED, "");
    sandbox_rig_pass(&rig, 100000);
    assert_writes(&rig, "");
    wp_sandbox_controller_ops.activate(rig.controller);
    sandbox_rig_settle(&rig);
    assert_writes(&rig, "POST Pod s");
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                      "{'metadata':{'deletionTimestamp':"
                      "'2026-01-01T00:00:00Z','finalizers':['x/y']}}");
    wp_recorder_remove(rig.api, WP_KIND_POD, "n", "s");
    sandbox_rig_pass(&rig, 100000);
    assert_writes(&rig, "");
    sandbox_rig_fini(&rig);
}

/* Where no garbage collector runs, what a sandbox has left is deleted, whenever
 * it is seen; what another sandbox has is not. */
static void
collected(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, true);
    sandbox_rig_sandbox(&rig, NAMED,
                        "'service':true,'volumeClaimTemplates':[{'metadata':"
                        "{'name':'d'}}]");
    sandbox_rig_pod_ready(&rig, "s");
    (void)sandbox_rig_writes(&rig);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "n", "s");
    sandbox_rig_settle(&rig);
    assert_writes(&rig, "DELETE Pod s, DELETE Service s, "
                        "DELETE PersistentVolumeClaim d-s");
    sandbox_rig_put(&rig, WP_KIND_POD,
                    "{'metadata':{'name':'late','namespace':'n'," OURS "}}");
    assert_writes(&rig, "DELETE Pod late");
    sandbox_rig_put(&rig, WP_KIND_POD,
                    "{'metadata':{'name':'p','namespace':'n'," THEIRS "}}");
    assert_writes(&rig, "");
    sandbox_rig_fini(&rig);
}

/* A Pod may be seen before its sandbox: the API server is asked first. */
static void
not_collected(void **state)
{
    struct sandbox_rig rig;

    (void)state;
    sandbox_rig_init(&rig, true);
    sandbox_rig_sandbox(&rig, NAMED, "");
    (void)sandbox_rig_writes(&rig);
    wp_store_remove(rig.parts.stores[WP_KIND_SANDBOX],
                    wp_store_find(rig.parts.stores[WP_KIND_SANDBOX], "n", "s"));
    sandbox_rig_settle(&rig);
    assert_true(wp_recorder_count(rig.api, WP_VERB_GET, WP_KIND_SANDBOX) > 0);
    assert_writes(&rig, "");
    sandbox_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pooled),
        cmocka_unit_test(by_a_user),
        cmocka_unit_test(generation),
        cmocka_unit_test(unschedulable),
        cmocka_unit_test(pod_lost),
        cmocka_unit_test(pod_terminating),
        cmocka_unit_test(finished),
        cmocka_unit_test(suspend_and_resume),
        cmocka_unit_test(suspended_beside_a_stranger),
        cmocka_unit_test(suspended_beside_an_unlabelled_stranger),
        cmocka_unit_test(expiry_retains),
        cmocka_unit_test(expiry_deletes),
        cmocka_unit_test(service),
        cmocka_unit_test(adoption),
        cmocka_unit_test(pod_of_another_name),
        cmocka_unit_test(multiple_pods),
        cmocka_unit_test(multiple_pods_suspended),
        cmocka_unit_test(left_alone),
        cmocka_unit_test(collected),
        cmocka_unit_test(not_collected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
