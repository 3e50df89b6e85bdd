/* Every condition of a Sandbox, its fields, and how soon they are written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "k8s/objects/view.h"
#include "k8s/objects/condition.h"
#include "k8s/objects/json.h"
#include "k8s/controllers/sandbox/expiry.h"
#include "k8s/controllers/sandbox/status.h"
#include "pool/base/clock.h"
#include "tests/support/k8s/object_text.h"

#define NOW_NS (INT64_C(1767225600) * WP_NS_PER_S) /* 2026-01-01T00:00:00Z */
#define OURS                                                                   \
    "'ownerReferences':[{'apiVersion':'agents.x-k8s.io/v1beta1','kind':"       \
    "'Sandbox','name':'s','uid':'su','controller':true}]"
#define THEIRS                                                                 \
    "'ownerReferences':[{'apiVersion':'apps/v1','kind':'ReplicaSet','name':"   \
    "'r','uid':'ru','controller':true}]"
#define POD(meta, rest)                                                        \
    "{'metadata':{'name':'s','namespace':'n','uid':'ou'," meta                 \
    "},'spec':{'nodeName':'node-1'},'status':{" rest "}}"
#define READY(status) "'conditions':[{'type':'Ready','status':'" status "'}]"
#define IPS "'podIP':'10.0.0.7','podIPs':[{'ip':'10.0.0.7'},{'ip':'fd::7'}]"
#define RUNNING POD(OURS, "'phase':'Running'," IPS "," READY("True"))

/* What a condition is expected to be; NULL status: absent. */
struct expected {
    const char *status;
    const char *reason;
    const char *message;
};
#define NOT_SUSPENDED                                                          \
    {                                                                          \
        "False", "NotSuspended", "Sandbox is not suspended"                    \
    }
#define ABSENT                                                                 \
    {                                                                          \
        NULL, NULL, NULL                                                       \
    }
#define UNREPORTED                                                             \
    {                                                                          \
        "Unknown", "PodSchedulingUnknown",                                     \
            "Pod has not reported a PodScheduled condition yet"                \
    }

static const struct condition_row {
    const char *name;
    const char *spec; /* Of the sandbox. */
    const char *pod;  /* NULL: none. */
    bool pod_unknown;
    uint32_t pods;
    enum wp_sandbox_service service;
    const char *error;
    struct expected ready;
    struct expected suspended;
    struct expected finished;
    struct expected scheduled;
} condition_rows[] = {
    {"no pod",
     "",
     NULL,
     false,
     0,
     WP_SERVICE_NONE,
     "",
     {"False", "DependenciesNotReady", "Pod does not exist"},
     NOT_SUSPENDED,
     ABSENT,
     ABSENT},
    {"pending",
     "",
     POD(OURS, "'phase':'Pending'"),
     false,
     1,
     WP_SERVICE_NONE,
     "",
     {"False", "DependenciesNotReady", "Pod exists with phase: Pending"},
     NOT_SUSPENDED,
     ABSENT,
     UNREPORTED},
    {"unknown phase",
     "",
     POD(OURS, "'phase':'Unknown'"),
     false,
     1,
     WP_SERVICE_NONE,
     "",
     {"False", "DependenciesNotReady", "Pod exists with phase: Unknown"},
     NOT_SUSPENDED,
     ABSENT,
     UNREPORTED},
    {"running",
     "",
     POD(OURS, "'phase':'Running'," IPS "," READY("False")),
     false,
     1,
     WP_SERVICE_NONE,
     "",
     {"False", "DependenciesNotReady", "Pod is Running but not Ready"},
     NOT_SUSPENDED,
     ABSENT,
     UNREPORTED},
    {"ready without address",
     "",
     POD(OURS, "'phase':'Running'," READY("True")),
     false,
     1,
     WP_SERVICE_NONE,
     "",
     {"False", "DependenciesNotReady", "Pod is Ready but has no podIPs yet"},
     NOT_SUSPENDED,
     ABSENT,
     UNREPORTED},
    {"ready",
     "",
     RUNNING,
     false,
     1,
     WP_SERVICE_NONE,
     "",
     {"True", "DependenciesReady", "Pod is Ready"},
     NOT_SUSPENDED,
     ABSENT,
     UNREPORTED},
    {"being deleted",
     "",
     POD(OURS ",'deletionTimestamp':'2026-01-01T00:00:00Z'",
         "'phase':'Running'," IPS "," READY("True")),
     false,
     1,
     WP_SERVICE_NONE,
     "",
     {"False", "DependenciesNotReady", "Pod is Running but being deleted"},
     NOT_SUSPENDED,
     ABSENT,
     UNREPORTED},
    {"service asked for, not there",
     "'service':true",
     RUNNING,
     false,
     1,
     WP_SERVICE_NONE,
     "",
     {"False", "DependenciesNotReady", "Pod is Ready; Service does not exist"},
     NOT_SUSPENDED,
     ABSENT,
     UNREPORTED},
    {"service there",
     "'service':true",
     RUNNING,
     false,
     1,
     WP_SERVICE_THERE,
     "",
     {"True", "DependenciesReady", "Pod is Ready; Service Exists"},
     NOT_SUSPENDED,
     ABSENT,
     UNREPORTED},
    {"service there, not asked for",
     "",
     RUNNING,
     false,
     1,
     WP_SERVICE_THERE,
     "",
     {"True", "DependenciesReady", "Pod is Ready; Service Exists"},
     NOT_SUSPENDED,
     ABSENT,
     UNREPORTED},
    {"service refused",
     "'service':false",
     RUNNING,
     false,
     1,
     WP_SERVICE_NONE,
     "",
     {"True", "DependenciesReady", "Pod is Ready"},
     NOT_SUSPENDED,
     ABSENT,
     UNREPORTED},
    {"succeeded",
     "",
     POD(OURS, "'phase':'Succeeded'"),
     false,
     1,
     WP_SERVICE_NONE,
     "",
     {"False", "PodSucceeded", "Pod completed successfully"},
     NOT_SUSPENDED,
     {"True", "PodSucceeded", "Pod completed successfully"},
     UNREPORTED},
    {"failed",
     "",
     POD(OURS, "'phase':'Failed'"),
     false,
     1,
     WP_SERVICE_NONE,
     "",
     {"False", "PodFailed", "Pod failed"},
     NOT_SUSPENDED,
     {"True", "PodFailed", "Pod failed"},
     UNREPORTED},
    {"scheduled",
     "",
     POD(OURS, "'phase':'Pending','conditions':[{'type':'PodScheduled',"
               "'status':'True'}]"),
     false,
     1,
     WP_SERVICE_NONE,
     "",
     {"False", "DependenciesNotReady", "Pod exists with phase: Pending"},
     NOT_SUSPENDED,
     ABSENT,
     {"True", "PodScheduled", ""}},
    {"unschedulable",
     "",
     POD(OURS, "'phase':'Pending','conditions':[{'type':'PodScheduled',"
               "'status':'False','reason':'Unschedulable','message':'0/3'}]"),
     false,
     1,
     WP_SERVICE_NONE,
     "",
     {"False", "DependenciesNotReady", "Pod exists with phase: Pending"},
     NOT_SUSPENDED,
     ABSENT,
     {"False", "Unschedulable", "0/3"}},
    {"not scheduled, without a reason",
     "",
     POD(OURS, "'phase':'Pending','conditions':[{'type':'PodScheduled',"
               "'status':'False'}]"),
     false,
     1,
     WP_SERVICE_NONE,
     "",
     {"False", "DependenciesNotReady", "Pod exists with phase: Pending"},
     NOT_SUSPENDED,
     ABSENT,
     {"False", "PodSchedulingUnknown", ""}},
    {"several pods",
     "",
     NULL,
     true,
     2,
     WP_SERVICE_UNKNOWN,
     "2 Pods",
     {"False", "MultiplePods", "2 Pods"},
     NOT_SUSPENDED,
     ABSENT,
     {"Unknown", "PodSchedulingUnknown",
      "Pod state is unknown. Pod scheduling cannot be determined"}},
    {"an error",
     "",
     NULL,
     true,
     0,
     WP_SERVICE_NONE,
     "quota",
     {"False", "ReconcilerError", "Error seen: quota"},
     NOT_SUSPENDED,
     ABSENT,
     {"Unknown", "PodSchedulingUnknown",
      "Pod state is unknown. Pod scheduling cannot be determined"}},
    {"an error beside a good pod",
     "",
     RUNNING,
     false,
     1,
     WP_SERVICE_UNKNOWN,
     "no",
     {"False", "ReconcilerError", "Error seen: no"},
     NOT_SUSPENDED,
     ABSENT,
     UNREPORTED},
    {"suspending",
     "'operatingMode':'Suspended'",
     RUNNING,
     false,
     1,
     WP_SERVICE_NONE,
     "",
     {"False", "SandboxSuspended", "Sandbox is suspending"},
     {"False", "PodTerminating", "Pod is terminating. Sandbox is suspending"},
     ABSENT,
     UNREPORTED},
    {"suspended",
     "'operatingMode':'Suspended'",
     NULL,
     false,
     0,
     WP_SERVICE_THERE,
     "",
     {"False", "SandboxSuspended", "Sandbox is suspended"},
     {"True", "PodTerminated", "Pod has been terminated. Sandbox is suspended"},
     ABSENT,
     ABSENT},
    {"to be suspended, pod not owned",
     "'operatingMode':'Suspended'",
     POD(THEIRS, "'phase':'Running'"),
     false,
     0,
     WP_SERVICE_NONE,
     "",
     {"False", "SandboxSuspended", "Sandbox is suspending"},
     {"False", "PodNotOwned",
      "Refused to delete pod because it is not owned by this sandbox"},
     ABSENT,
     ABSENT},
    {"to be suspended, pod unknown",
     "'operatingMode':'Suspended'",
     NULL,
     true,
     0,
     WP_SERVICE_NONE,
     "gone wrong",
     {"False", "ReconcilerError", "Error seen: gone wrong"},
     {"Unknown", "PodStateUnknown",
      "Pod state is unknown. Sandbox suspension cannot be confirmed"},
     ABSENT,
     {"Unknown", "PodSchedulingUnknown",
      "Pod state is unknown. Pod scheduling cannot be determined"}},
};

static void
assert_condition(const json_t *status, const char *type,
                 const struct expected *wanted)
{
    const json_t *is =
        wp_condition_find(json_object_get(status, "conditions"), type);

    if (wanted->status == NULL) {
        assert_null(is);
        return;
    }
    assert_non_null(is);
    assert_string_equal(wp_json_text(is, "status", NULL), wanted->status);
    assert_string_equal(wp_json_text(is, "reason", NULL), wanted->reason);
    assert_string_equal(wp_json_text(is, "message", NULL), wanted->message);
    assert_string_equal(wp_json_text(is, "lastTransitionTime", NULL),
                        "2026-01-01T00:00:00Z");
    assert_int_equal(
        json_integer_value(json_object_get(is, "observedGeneration")), 3);
}

static struct wp_object *
sandbox_of(const char *spec)
{
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "{'metadata':{'name':'s','namespace':'n','uid':'su',"
                   "'generation':3},'spec':{%s}}",
                   spec);
    return object_of(WP_KIND_SANDBOX, text);
}

/* From a status that says the worst, so that what must go is seen to go. */
static json_t *
status_of(const struct condition_row *row)
{
    struct wp_object *sandbox = sandbox_of(row->spec);
    struct wp_object *pod =
        row->pod != NULL ? object_of(WP_KIND_POD, row->pod) : NULL;
    json_t *status = json_of("{'podIPs':['1.1.1.1'],'nodeName':'old',"
                             "'service':'kept','serviceFQDN':'kept.fqdn'}");
    const struct wp_sandbox_facts facts = {
        .sandbox = sandbox,
        .hash = "0a1b2c3d",
        .pod = pod,
        .pod_unknown = row->pod_unknown,
        .pods = row->pods,
        .service = row->service,
        .error = row->error,
        .cluster_domain = "cluster.local",
    };

    wp_sandbox_status_apply(status, &facts, NOW_NS);
    wp_object_unref(pod);
    wp_object_unref(sandbox);
    return status;
}

static void
conditions(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(condition_rows); i++) {
        const struct condition_row *row = &condition_rows[i];
        json_t *status = status_of(row);

        print_message("  %s\n", row->name);
        assert_condition(status, "Ready", &row->ready);
        assert_condition(status, "Suspended", &row->suspended);
        assert_condition(status, "Finished", &row->finished);
        assert_condition(status, "PodScheduled", &row->scheduled);
        json_decref(status);
    }
}

static const struct condition_row *
row_named(const char *name)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(condition_rows); i++) {
        if (strcmp(condition_rows[i].name, name) == 0) {
            return &condition_rows[i];
        }
    }
    fail_msg("no row %s", name);
    return NULL;
}

/* The fields beside the conditions. */
static void
fields(void **state)
{
    static const struct {
        const char *row;
        const char *status; /* Without conditions. */
    } rows[] = {
        {"ready",
         "{'podIPs':['10.0.0.7','fd::7'],'nodeName':'node-1','selector':"
         "'agents.x-k8s.io/sandbox-name-hash=0a1b2c3d'}"},
        {"service there",
         "{'podIPs':['10.0.0.7','fd::7'],'nodeName':'node-1','selector':"
         "'agents.x-k8s.io/sandbox-name-hash=0a1b2c3d','service':'s',"
         "'serviceFQDN':'s.n.svc.cluster.local'}"},
        {"no pod", "{}"},
        {"several pods", "{'service':'kept','serviceFQDN':'kept.fqdn'}"},
        {"to be suspended, pod not owned",
         "{'selector':'agents.x-k8s.io/sandbox-name-hash=0a1b2c3d'}"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        json_t *status = status_of(row_named(rows[i].row));

        print_message("  %s\n", rows[i].row);
        assert_int_equal(json_object_del(status, "conditions"), 0);
        assert_json(status, rows[i].status);
    }
}

static json_t *
step(const char *row)
{
    return status_of(row_named(row));
}

/* From one state to the next: written at once, later, or not at all. */
static void
urgency(void **state)
{
    static const struct {
        const char *before; /* NULL: nothing was ever written. */
        const char *after;
        enum wp_status_urgency is;
    } rows[] = {
        {NULL, "no pod", WP_STATUS_SOON},
        {NULL, "pending", WP_STATUS_SOON},
        {"pending", "pending", WP_STATUS_SAME},
        {"pending", "scheduled", WP_STATUS_SOON},
        {"pending", "running", WP_STATUS_SOON},
        {"pending", "unschedulable", WP_STATUS_NOW},
        {"unschedulable", "scheduled", WP_STATUS_SOON},
        {"pending", "ready", WP_STATUS_NOW},
        {"running", "ready", WP_STATUS_NOW},
        {"ready", "running", WP_STATUS_NOW},
        {"ready", "being deleted", WP_STATUS_NOW},
        {"ready", "no pod", WP_STATUS_NOW},
        {"ready", "service there", WP_STATUS_NOW},
        {"pending", "several pods", WP_STATUS_NOW},
        {"several pods", "pending", WP_STATUS_NOW},
        {NULL, "an error", WP_STATUS_NOW},
        {"an error", "pending", WP_STATUS_NOW},
        {"running", "succeeded", WP_STATUS_NOW},
        {"succeeded", "no pod", WP_STATUS_NOW},
        {"ready", "suspending", WP_STATUS_NOW},
        {"suspending", "suspended", WP_STATUS_NOW},
        {"suspended", "no pod", WP_STATUS_NOW},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        json_t *before =
            rows[i].before == NULL ? json_object() : step(rows[i].before);
        json_t *after = step(rows[i].after);

        print_message("  %s -> %s\n",
                      rows[i].before != NULL ? rows[i].before : "nothing",
                      rows[i].after);
        assert_int_equal(wp_sandbox_status_urgency(before, after), rows[i].is);
        json_decref(before);
        json_decref(after);
    }
}

/* A node's name alone is no news until the sandbox is Ready; the generation
 * alone can wait, but not for ever. */
static void
small_changes(void **state)
{
    json_t *before = step("pending");
    json_t *after = json_deep_copy(before);
    json_t *condition;
    size_t i;

    (void)state;
    wp_json_set_text(after, "nodeName", "node-2");
    assert_int_equal(wp_sandbox_status_urgency(before, after), WP_STATUS_IDLE);
    json_decref(before);
    json_decref(after);

    before = step("ready");
    after = json_deep_copy(before);
    wp_json_set_text(after, "nodeName", "node-2");
    assert_int_equal(wp_sandbox_status_urgency(before, after), WP_STATUS_NOW);
    json_decref(after);

    after = json_deep_copy(before);
    json_array_foreach(json_object_get(after, "conditions"), i, condition)
    {
        wp_json_set(condition, "observedGeneration", json_integer(4));
    }
    assert_int_equal(wp_sandbox_status_urgency(before, after), WP_STATUS_LAZY);
    json_array_foreach(json_object_get(before, "conditions"), i, condition)
    {
        (void)json_object_del(condition, "observedGeneration");
    }
    assert_int_equal(wp_sandbox_status_urgency(before, after), WP_STATUS_IDLE);
    json_decref(before);
    json_decref(after);
}

/* What is gone is null, what is the same is left out. */
static void
patches(void **state)
{
    json_t *before = json_of("{'a':1,'b':[1],'c':'x'}");
    json_t *after = json_of("{'a':1,'b':[2],'d':'y'}");

    (void)state;
    assert_json(wp_sandbox_status_patch(before, after),
                "{'status':{'b':[2],'c':null,'d':'y'}}");
    assert_null(wp_sandbox_status_patch(before, before));
    json_decref(before);
    json_decref(after);
}

/* Expiry keeps Finished, drops PodScheduled, and leaves conditions only. */
static void
expiry(void **state)
{
    json_t *status = step("succeeded");

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        wp_json_set(json_array_get(json_object_get(status, "conditions"), i),
                    "observedGeneration", json_integer(1));
    }
    wp_sandbox_status_expire(status, 3, NOW_NS);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(
            json_integer_value(json_object_get(
                json_array_get(json_object_get(status, "conditions"), i),
                "observedGeneration")),
            3);
    }
    assert_condition(
        status, "Ready",
        &(struct expected){"False", "SandboxExpired", "Sandbox has expired"});
    assert_condition(status, "PodScheduled", &(struct expected)ABSENT);
    assert_condition(status, "Finished",
                     &(struct expected){"True", "PodSucceeded",
                                        "Pod completed successfully"});
    assert_non_null(json_object_get(status, "nodeName"));
    wp_sandbox_status_strip(status);
    assert_int_equal(json_object_size(status), 1);
    assert_int_equal(json_array_size(json_object_get(status, "conditions")), 3);
    json_decref(status);
}

#define CONDITION(type, status, reason)                                        \
    "{'type':'" type "','status':'" status "','reason':'" reason "'}"
#define WAITS CONDITION("Ready", "False", "DependenciesNotReady")
#define STATUS(conditions) "{'conditions':[" conditions "]}"

/* A step of a start may wait; what else changes with it may not. */
static void
steps(void **state)
{
    static const struct {
        const char *before;
        const char *after;
        enum wp_status_urgency urgency;
    } rows[] = {
        {STATUS(""), STATUS(WAITS), WP_STATUS_SOON},
        {STATUS(CONDITION("Ready", "False", "SandboxSuspended")), STATUS(WAITS),
         WP_STATUS_NOW},
        {STATUS(WAITS), STATUS(CONDITION("Ready", "True", "DependenciesReady")),
         WP_STATUS_NOW},
        {STATUS(WAITS), STATUS(WAITS "," CONDITION("Finished", "True", "x")),
         WP_STATUS_NOW},
        {STATUS(WAITS "," CONDITION("Finished", "True", "x")), STATUS(WAITS),
         WP_STATUS_NOW},
        {STATUS(WAITS "," CONDITION("Finished", "True", "x")),
         STATUS(WAITS "," CONDITION("Finished", "True", "y")), WP_STATUS_SOON},
        {STATUS(WAITS), STATUS(WAITS "," CONDITION("Suspended", "False", "x")),
         WP_STATUS_SOON},
        {STATUS(WAITS "," CONDITION("Suspended", "False", "x")),
         STATUS(WAITS "," CONDITION("Suspended", "True", "x")), WP_STATUS_NOW},
        {STATUS(WAITS "," CONDITION("Suspended", "False", "x")),
         STATUS(WAITS "," CONDITION("Suspended", "False", "y")),
         WP_STATUS_SOON},
        {STATUS(WAITS "," CONDITION("Suspended", "False", "x")),
         STATUS(WAITS "," CONDITION("Suspended", "False", "x") "," CONDITION(
             "Finished", "True", "x")),
         WP_STATUS_NOW},
        {STATUS(WAITS),
         STATUS(WAITS "," CONDITION("PodScheduled", "False", "Unschedulable")),
         WP_STATUS_NOW},
        {STATUS(WAITS),
         STATUS(WAITS "," CONDITION("PodScheduled", "True", "PodScheduled")),
         WP_STATUS_SOON},
        {STATUS(WAITS "," CONDITION("PodScheduled", "False", "x")),
         "{'a':1,'conditions':[" WAITS
         "," CONDITION("PodScheduled", "False", "x") "]}",
         WP_STATUS_SOON},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        json_t *before = json_of(rows[i].before);
        json_t *after = json_of(rows[i].after);

        print_message("  %s -> %s\n", rows[i].before, rows[i].after);
        assert_int_equal(wp_sandbox_status_urgency(before, after),
                         rows[i].urgency);
        json_decref(before);
        json_decref(after);
    }
}

/* What was said of a Pod that was there goes with it. */
static void
conditions_go(void **state)
{
    static const char *const pods[] = {POD(OURS, "'phase':'Succeeded'"),
                                       RUNNING, NULL};
    struct wp_object *sandbox = sandbox_of("");
    json_t *status = json_object();

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(pods); i++) {
        struct wp_object *pod =
            pods[i] != NULL ? object_of(WP_KIND_POD, pods[i]) : NULL;
        json_t *conditions;

        wp_sandbox_status_apply(
            status,
            &(struct wp_sandbox_facts){.sandbox = sandbox,
                                       .hash = "0a1b2c3d",
                                       .pod = pod,
                                       .pods = pod != NULL,
                                       .service = WP_SERVICE_NONE,
                                       .error = "",
                                       .cluster_domain = "cluster.local"},
            NOW_NS);
        conditions = json_object_get(status, "conditions");
        assert_int_equal(wp_condition_find(conditions, "Finished") != NULL,
                         i == 0);
        assert_int_equal(wp_condition_find(conditions, "PodScheduled") != NULL,
                         i < 2);
        assert_int_equal(json_array_size(conditions), 4 - i);
        wp_object_unref(pod);
    }
    wp_object_unref(sandbox);
    json_decref(status);
}

static void
expiry_time(void **state)
{
    struct wp_object *never = sandbox_of("");
    struct wp_object *timed =
        sandbox_of("'shutdownTime':'2026-01-01T00:00:02Z'");
    struct wp_object *far = sandbox_of("'shutdownTime':'2300-01-01T00:00:00Z'");

    (void)state;
    assert_int_equal(wp_sandbox_expires_in_ns(never, NOW_NS), -1);
    assert_int_equal(wp_sandbox_expires_in_ns(timed, NOW_NS), 2 * WP_NS_PER_S);
    assert_int_equal(wp_sandbox_expires_in_ns(timed, NOW_NS + 2 * WP_NS_PER_S),
                     0);
    assert_int_equal(wp_sandbox_expires_in_ns(timed, NOW_NS + 9 * WP_NS_PER_S),
                     0);
    assert_int_equal(wp_sandbox_expires_in_ns(far, 0), WP_TIME_NEVER);
    for (int64_t more = -1; more <= 1; more++) {
        int64_t at_ms = wp_sandbox_view(far)->shutdown_wall_ms;
        int64_t left_ms = WP_TIME_NEVER / WP_NS_PER_MS + more;
        int64_t wall_ns = (at_ms - left_ms) * WP_NS_PER_MS;

        assert_int_equal(wp_sandbox_expires_in_ns(far, wall_ns),
                         more < 0 ? left_ms * WP_NS_PER_MS : WP_TIME_NEVER);
    }
    assert_false(wp_sandbox_marked_expired(never));
    wp_object_unref(never);
    wp_object_unref(timed);
    wp_object_unref(far);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conditions),  cmocka_unit_test(fields),
        cmocka_unit_test(urgency),     cmocka_unit_test(small_changes),
        cmocka_unit_test(patches),     cmocka_unit_test(expiry),
        cmocka_unit_test(expiry_time), cmocka_unit_test(conditions_go),
        cmocka_unit_test(steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
