#include "k8s/controllers/claim/status.h"

#include <string.h>

#include "k8s/controllers/claim/expiry.h"
#include "k8s/objects/condition.h"
#include "k8s/objects/json.h"

/* The core controller's word for a Sandbox whose own time is over. */
#define SANDBOX_EXPIRED "SandboxExpired"

static const char *const status_texts[] = {
    [WP_CONDITION_ABSENT] = "Unknown",
    [WP_CONDITION_TRUE] = "True",
    [WP_CONDITION_FALSE] = "False",
    [WP_CONDITION_UNKNOWN] = "Unknown",
};

static const struct wp_condition *
sandbox_ready(const struct wp_claim_outcome *outcome)
{
    return outcome->sandbox == NULL ? NULL
                                    : &wp_sandbox_view(outcome->sandbox)->ready;
}

static struct wp_condition_text
not_ready(const char *reason, const char *message)
{
    return (struct wp_condition_text){.type = "Ready",
                                      .status = "False",
                                      .reason = reason,
                                      .message = message};
}

static struct wp_condition_text
forwarded(const char *type, const struct wp_condition *condition)
{
    return (struct wp_condition_text){
        .type = type,
        .status = status_texts[condition->status],
        .reason = condition->reason,
        .message = condition->message,
        .observed_generation = condition->observed_generation,
        .transition = condition->transition,
    };
}

static struct wp_condition_text
ready_text(const struct wp_claim_outcome *outcome)
{
    const struct wp_condition *ready = sandbox_ready(outcome);

    if (outcome->reason != NULL) {
        return not_ready(outcome->reason, outcome->message);
    }
    if (outcome->expired) {
        return not_ready(WP_REASON_CLAIM_EXPIRED,
                         "The claim's time is over; its sandbox is ended");
    }
    if (ready == NULL) {
        return not_ready("SandboxMissing", "The claim has no sandbox");
    }
    if (strcmp(ready->reason, SANDBOX_EXPIRED) == 0) {
        return not_ready(SANDBOX_EXPIRED,
                         "The sandbox's own time is over, not the claim's");
    }
    if (ready->status == WP_CONDITION_ABSENT) {
        return not_ready("SandboxNotReady", "The sandbox is not ready yet");
    }
    return forwarded("Ready", ready);
}

/* A condition keeps its transition while its status stays; a change takes the
 * one that comes with it. */
static bool
set_condition(json_t *conditions, struct wp_condition_text text,
              int64_t wall_ns)
{
    json_t *own = wp_condition_find(conditions, text.type);

    if (text.transition != NULL &&
        (text.transition[0] == '\0' ||
         (own != NULL &&
          strcmp(wp_json_text(own, "status", NULL), text.status) == 0))) {
        text.transition = NULL;
    }
    return wp_condition_set(conditions, &text, wall_ns);
}

static bool
set_finished(json_t *conditions, const struct wp_claim_outcome *outcome,
             int64_t wall_ns)
{
    const struct wp_condition *finished =
        outcome->sandbox == NULL ? NULL
                                 : &wp_sandbox_view(outcome->sandbox)->finished;

    if (finished != NULL && finished->status != WP_CONDITION_ABSENT) {
        return set_condition(conditions, forwarded("Finished", finished),
                             wall_ns);
    }
    /* The end of an expired claim's work stays told after its sandbox. */
    if (outcome->sandbox == NULL && outcome->expired) {
        return false;
    }
    return wp_condition_remove(conditions, "Finished");
}

static bool
same_texts(const char *const *a, const char *const *b)
{
    size_t i = 0;

    while (a[i] != NULL && b[i] != NULL && strcmp(a[i], b[i]) == 0) {
        i++;
    }
    return a[i] == NULL && b[i] == NULL;
}

/* status.sandbox as it is to be; NULL when it is so. */
static json_t *
sandbox_patch(const struct wp_claim_view *claim,
              const struct wp_claim_outcome *outcome)
{
    const char *name = "";
    const char *fqdn = "";
    static const char *const none[] = {NULL};
    const char *const *ips = none;
    json_t *patch;
    json_t *list;

    if (outcome->sandbox != NULL) {
        name = outcome->sandbox->name;
        ips = wp_sandbox_view(outcome->sandbox)->pod_ips;
        fqdn = outcome->no_service_fqdn
                   ? ""
                   : wp_sandbox_view(outcome->sandbox)->service_fqdn;
    } else if (outcome->reason != NULL && !outcome->forget_sandbox) {
        return NULL;
    }
    if (strcmp(name, claim->sandbox) == 0 && same_texts(ips, claim->pod_ips) &&
        strcmp(fqdn, claim->service_fqdn) == 0) {
        return NULL;
    }
    patch = json_object();
    (void)wp_json_set(patch, "name",
                      wp_json_text_or_null(name[0] == '\0' ? NULL : name));
    if (strcmp(fqdn, claim->service_fqdn) != 0) {
        (void)wp_json_set(patch, "serviceFQDN",
                          wp_json_text_or_null(fqdn[0] == '\0' ? NULL : fqdn));
    }
    if (ips[0] == NULL) {
        return wp_json_set(patch, "podIPs", json_null());
    }
    list = json_array();
    for (size_t i = 0; ips[i] != NULL; i++) {
        (void)json_array_append_new(list, json_string(ips[i]));
    }
    return wp_json_set(patch, "podIPs", list);
}

json_t *
wp_claim_status_patch(const struct wp_object *claim,
                      const struct wp_claim_outcome *outcome, int64_t wall_ns)
{
    json_t *whole = wp_object_json(claim);
    json_t *own = wp_json_at(whole, "status", "conditions", NULL);
    json_t *conditions = json_is_array(own) ? json_incref(own) : json_array();
    json_t *sandbox = sandbox_patch(wp_claim_view(claim), outcome);
    struct wp_condition_text ready = ready_text(outcome);
    json_t *status;
    bool changed;

    ready.observed_generation = claim->generation;
    changed = set_condition(conditions, ready, wall_ns);
    changed = set_finished(conditions, outcome, wall_ns) || changed;
    json_decref(whole);
    if (!changed && sandbox == NULL) {
        json_decref(conditions);
        return NULL;
    }
    status = wp_json_set(json_object(), "conditions", conditions);
    if (sandbox != NULL) {
        (void)wp_json_set(status, "sandbox", sandbox);
    }
    return wp_json_set(json_object(), "status", status);
}

bool
wp_claim_status_ready(const struct wp_claim_outcome *outcome)
{
    return strcmp(ready_text(outcome).status, "True") == 0;
}
