#include "k8s/controllers/sandbox/status.h"

#include <stdio.h>
#include <string.h>

#include "k8s/objects/condition.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/controllers/sandbox/child.h"
#include "k8s/objects/view.h"

enum {
    MESSAGE_MAX = 1024
};

static const char *const phases[] = {
    [WP_POD_PENDING] = "Pending",     [WP_POD_RUNNING] = "Running",
    [WP_POD_SUCCEEDED] = "Succeeded", [WP_POD_FAILED] = "Failed",
    [WP_POD_UNKNOWN] = "Unknown",
};

static const char *const statuses[] = {
    [WP_CONDITION_ABSENT] = "Unknown",
    [WP_CONDITION_TRUE] = "True",
    [WP_CONDITION_FALSE] = "False",
    [WP_CONDITION_UNKNOWN] = "Unknown",
};

/* What a condition says. */
struct said {
    const char *status;
    const char *reason;
    const char *message;
};

/* What ends a Pod, as Ready and Finished name it. NULL while it may run. */
static const struct said pod_ends[] = {
    [WP_POD_SUCCEEDED] = {"True", "PodSucceeded", "Pod completed successfully"},
    [WP_POD_FAILED] = {"True", "PodFailed", "Pod failed"},
    [WP_POD_UNKNOWN] = {NULL, NULL, NULL},
};

/* The Pod's view when it is there and the sandbox's own; NULL. */
static const struct wp_pod_view *
own_pod(const struct wp_sandbox_facts *facts)
{
    if (facts->pod == NULL ||
        wp_child_owner(facts->pod, facts->sandbox) != WP_CHILD_OURS) {
        return NULL;
    }
    return wp_pod_view(facts->pod);
}

/* A pool's sandbox says none: a claim's adoption changes its spec, and that a
 * stale number has to be brought up to date would be one more write for each
 * claim; where there is none `kubectl wait` and others go by the status alone.
 */
static int64_t
generation_to_show(const struct wp_object *sandbox)
{
    return wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_WARM_POOL)
               ? 0
               : sandbox->generation;
}

static void
set_condition(json_t *conditions, const struct wp_sandbox_facts *facts,
              const char *type, const struct said *said, int64_t wall_ns)
{
    (void)wp_condition_set(
        conditions,
        &(struct wp_condition_text){.type = type,
                                    .status = said->status,
                                    .reason = said->reason,
                                    .message = said->message,
                                    .observed_generation =
                                        generation_to_show(facts->sandbox)},
        wall_ns);
}

/* How far a suspension that is asked for has come. */
static const struct said
    not_suspended = {"False", "NotSuspended", "Sandbox is not suspended"},
    pod_unknown = {"Unknown", "PodStateUnknown",
                   "Pod state is unknown. Sandbox suspension cannot be "
                   "confirmed"},
    pod_terminated = {"True", "PodTerminated",
                      "Pod has been terminated. Sandbox is suspended"},
    pod_not_owned = {"False", "PodNotOwned",
                     "Refused to delete pod because it is not owned by this "
                     "sandbox"},
    pod_terminating = {"False", "PodTerminating",
                       "Pod is terminating. Sandbox is suspending"};

static const struct said *
suspension(const struct wp_sandbox_facts *facts)
{
    if (!wp_sandbox_view(facts->sandbox)->wants_suspended) {
        return &not_suspended;
    }
    if (facts->pod == NULL) {
        return facts->pod_unknown ? &pod_unknown : &pod_terminated;
    }
    return own_pod(facts) == NULL ? &pod_not_owned : &pod_terminating;
}

static void
set_suspended(json_t *conditions, const struct wp_sandbox_facts *facts,
              int64_t wall_ns)
{
    set_condition(conditions, facts, "Suspended", suspension(facts), wall_ns);
}

static void
set_finished(json_t *conditions, const struct wp_sandbox_facts *facts,
             int64_t wall_ns)
{
    const struct wp_pod_view *pod = own_pod(facts);

    if (pod == NULL || pod_ends[pod->phase].reason == NULL) {
        (void)wp_condition_remove(conditions, "Finished");
        return;
    }
    set_condition(conditions, facts, "Finished", &pod_ends[pod->phase],
                  wall_ns);
}

/* Copies the Pod's own, so that nobody needs to see Pods to know why one is
 * not scheduled. */
static void
set_pod_scheduled(json_t *conditions, const struct wp_sandbox_facts *facts,
                  int64_t wall_ns)
{
    const struct wp_pod_view *pod = own_pod(facts);
    const char *status = "Unknown";
    const char *reason = "PodSchedulingUnknown";
    const char *message;

    if (facts->pod == NULL && facts->pod_unknown) {
        message = "Pod state is unknown. Pod scheduling cannot be determined";
    } else if (pod == NULL) {
        (void)wp_condition_remove(conditions, "PodScheduled");
        return;
    } else if (pod->scheduled.status == WP_CONDITION_ABSENT) {
        message = "Pod has not reported a PodScheduled condition yet";
    } else {
        status = statuses[pod->scheduled.status];
        message = pod->scheduled.message;
        if (pod->scheduled.reason[0] != '\0') {
            reason = pod->scheduled.reason;
        } else if (pod->scheduled.status == WP_CONDITION_TRUE) {
            reason = "PodScheduled";
        }
    }
    set_condition(conditions, facts, "PodScheduled",
                  &(struct said){status, reason, message}, wall_ns);
}

/* What is to be said of the Pod; true when it can serve. A Pod that is being
 * deleted serves nobody new, whatever its own conditions still say. */
static bool
pod_is_ready(const struct wp_object *pod, char *out, size_t cap)
{
    const struct wp_pod_view *view = pod != NULL ? wp_pod_view(pod) : NULL;
    const char *text = "Pod is Running but not Ready";
    bool ready = false;

    if (view == NULL) {
        (void)snprintf(out, cap, "Pod does not exist");
        return false;
    }
    if (view->phase != WP_POD_RUNNING) {
        (void)snprintf(out, cap, "Pod exists with phase: %s",
                       phases[view->phase]);
        return false;
    }
    if (pod->deleting) {
        text = "Pod is Running but being deleted";
    } else if (view->ready.status == WP_CONDITION_TRUE) {
        ready = view->pod_ips != NULL && view->pod_ips[0] != NULL;
        text = ready ? "Pod is Ready" : "Pod is Ready but has no podIPs yet";
    }
    (void)snprintf(out, cap, "%s", text);
    return ready;
}

/* The words of Ready while the sandbox is to run; true when it is. */
static bool
dependencies_ready(const struct wp_sandbox_facts *facts, char *out, size_t cap)
{
    const struct wp_sandbox_view *view = wp_sandbox_view(facts->sandbox);
    bool there = facts->service == WP_SERVICE_THERE;
    bool ready = pod_is_ready(facts->pod, out, cap);
    size_t len = strlen(out);

    if (view->service == 1 || (view->service == -1 && there)) {
        (void)snprintf(out + len, cap - len, "; Service %s",
                       there ? "Exists" : "does not exist");
        ready = ready && there;
    }
    return ready;
}

static void
set_ready(json_t *conditions, const struct wp_sandbox_facts *facts,
          int64_t wall_ns)
{
    const struct wp_pod_view *pod =
        facts->pod != NULL ? wp_pod_view(facts->pod) : NULL;
    const char *status = "False";
    const char *reason = "DependenciesNotReady";
    char message[MESSAGE_MAX] = "";

    if (facts->pods > 1) {
        reason = "MultiplePods";
        (void)snprintf(message, sizeof message, "%s", facts->error);
    } else if (facts->error[0] != '\0') {
        reason = "ReconcilerError";
        (void)snprintf(message, sizeof message, "Error seen: %s", facts->error);
    } else if (wp_sandbox_view(facts->sandbox)->wants_suspended) {
        reason = "SandboxSuspended";
        (void)snprintf(message, sizeof message, "Sandbox is %s",
                       pod != NULL ? "suspending" : "suspended");
    } else if (pod != NULL && pod_ends[pod->phase].reason != NULL) {
        reason = pod_ends[pod->phase].reason;
        (void)snprintf(message, sizeof message, "%s",
                       pod_ends[pod->phase].message);
    } else if (dependencies_ready(facts, message, sizeof message)) {
        status = "True";
        reason = "DependenciesReady";
    }
    set_condition(conditions, facts, "Ready",
                  &(struct said){status, reason, message}, wall_ns);
}

static void
set_or_drop(json_t *status, const char *key, const char *value)
{
    if (value == NULL || value[0] == '\0') {
        (void)json_object_del(status, key);
    } else {
        wp_json_set_text(status, key, value);
    }
}

static void
set_pod_fields(json_t *status, const struct wp_sandbox_facts *facts)
{
    const struct wp_pod_view *pod = own_pod(facts);
    json_t *ips = json_array();

    for (size_t i = 0;
         pod != NULL && pod->pod_ips != NULL && pod->pod_ips[i] != NULL; i++) {
        (void)json_array_append_new(ips, json_string(pod->pod_ips[i]));
    }
    if (json_array_size(ips) > 0) {
        wp_json_set(status, "podIPs", ips);
    } else {
        json_decref(ips);
        (void)json_object_del(status, "podIPs");
    }
    set_or_drop(status, "nodeName", pod != NULL ? pod->node_name : NULL);
    if (facts->pod != NULL) {
        char selector[sizeof WP_LABEL_NAME_HASH + 1 + WP_NAME_HASH_LEN];

        (void)snprintf(selector, sizeof selector, WP_LABEL_NAME_HASH "=%s",
                       facts->hash);
        wp_json_set_text(status, "selector", selector);
    }
}

static void
set_service_fields(json_t *status, const struct wp_sandbox_facts *facts)
{
    const struct wp_object *sandbox = facts->sandbox;
    char fqdn[1024];

    if (facts->service == WP_SERVICE_UNKNOWN) {
        return;
    }
    (void)snprintf(fqdn, sizeof fqdn, "%s.%s.svc.%s", sandbox->name,
                   sandbox->ns, facts->cluster_domain);
    bool there = facts->service == WP_SERVICE_THERE;

    set_or_drop(status, "service", there ? sandbox->name : NULL);
    set_or_drop(status, "serviceFQDN", there ? fqdn : NULL);
}

/* The list in status, made when there is none. Borrowed. */
static json_t *
conditions_of(json_t *status)
{
    json_t *conditions = json_object_get(status, "conditions");

    if (!json_is_array(conditions)) {
        conditions = json_array();
        wp_json_set(status, "conditions", conditions);
    }
    return conditions;
}

void
wp_sandbox_status_apply(json_t *status, const struct wp_sandbox_facts *facts,
                        int64_t wall_ns)
{
    json_t *conditions = conditions_of(status);

    set_pod_fields(status, facts);
    set_service_fields(status, facts);
    set_suspended(conditions, facts, wall_ns);
    set_finished(conditions, facts, wall_ns);
    set_pod_scheduled(conditions, facts, wall_ns);
    set_ready(conditions, facts, wall_ns);
}

void
wp_sandbox_status_expire(json_t *status, int64_t generation, int64_t wall_ns)
{
    json_t *conditions = conditions_of(status);
    json_t *condition;
    size_t i;

    /* What stays was looked at, too: the spec with a shutdownTime is newer. */
    json_array_foreach(conditions, i, condition)
    {
        if (json_object_get(condition, "observedGeneration") != NULL) {
            wp_json_set(condition, "observedGeneration",
                        json_integer(generation));
        }
    }
    (void)wp_condition_set(
        conditions,
        &(struct wp_condition_text){.type = "Ready",
                                    .status = "False",
                                    .reason = "SandboxExpired",
                                    .message = "Sandbox has expired",
                                    .observed_generation = generation},
        wall_ns);
    (void)wp_condition_remove(conditions, "PodScheduled");
}

void
wp_sandbox_status_strip(json_t *status)
{
    json_t *conditions = json_incref(conditions_of(status));

    (void)json_object_clear(status);
    wp_json_set(status, "conditions", conditions);
}

json_t *
wp_sandbox_status_patch(const json_t *before, const json_t *after)
{
    json_t *patch = json_object();
    const char *key;
    json_t *value;

    /* jansson iterates objects as if it could change them. */
    json_t *old = wp_json_copy(before);
    json_t *new = wp_json_copy(after);

    json_object_foreach(new, key, value)
    {
        if (!json_equal(value, json_object_get(old, key))) {
            wp_json_set(patch, key, json_incref(value));
        }
    }
    json_object_foreach(old, key, value)
    {
        if (json_object_get(new, key) == NULL) {
            wp_json_set(patch, key, json_null());
        }
    }
    json_decref(old);
    json_decref(new);
    if (json_object_size(patch) == 0) {
        json_decref(patch);
        return NULL;
    }
    return wp_json_set(json_object(), "status", patch);
}
