#include "k8s/controllers/sandbox/status.h"

#include <string.h>

#include "k8s/objects/condition.h"
#include "k8s/objects/json.h"

static const char *
condition_text(const json_t *status, const char *type, const char *field)
{
    const json_t *conditions = json_object_get(status, "conditions");

    return wp_json_text(wp_condition_find(conditions, type), field, NULL);
}

static bool
same_text(const json_t *before, const json_t *after, const char *type,
          const char *field)
{
    return strcmp(condition_text(before, type, field),
                  condition_text(after, type, field)) == 0;
}

/* A copy without a field of the status, or of its conditions. */
static json_t *
without(const json_t *status, const char *field, const char *of_conditions)
{
    json_t *copy = wp_json_deep_copy(status);
    size_t i;
    json_t *condition;

    if (field != NULL) {
        (void)json_object_del(copy, field);
    }
    json_array_foreach(json_object_get(copy, "conditions"), i, condition)
    {
        if (of_conditions != NULL) {
            (void)json_object_del(condition, of_conditions);
        }
    }
    return copy;
}

static bool
same_without(const json_t *before, const json_t *after, const char *field,
             const char *of_conditions)
{
    json_t *old = without(before, field, of_conditions);
    json_t *new = without(after, field, of_conditions);
    bool same = json_equal(old, new);

    json_decref(old);
    json_decref(new);
    return same;
}

/* Is after one more step of a start that nobody has to hear of at once? */
static bool
is_step(const json_t *before, const json_t *after)
{
    const char *was = condition_text(before, "Ready", "reason");

    if (strcmp(condition_text(after, "Ready", "reason"),
               "DependenciesNotReady") != 0 ||
        (was[0] != '\0' && strcmp(was, "DependenciesNotReady") != 0)) {
        return false;
    }
    if (strcmp(condition_text(after, "PodScheduled", "status"), "False") == 0 &&
        !same_text(before, after, "PodScheduled", "reason")) {
        return false;
    }
    return same_text(before, after, "Finished", "status") &&
           (condition_text(before, "Suspended", "status")[0] == '\0' ||
            same_text(before, after, "Suspended", "status"));
}

/* Only a number that is there can be out of date. */
static bool
shows_generation(const json_t *status)
{
    size_t i;
    json_t *condition;

    json_array_foreach(json_object_get(status, "conditions"), i, condition)
    {
        if (json_object_get(condition, "observedGeneration") != NULL) {
            return true;
        }
    }
    return false;
}

enum wp_status_urgency
wp_sandbox_status_urgency(const json_t *before, const json_t *after)
{
    if (json_equal(before, after)) {
        return WP_STATUS_SAME;
    }
    if (strcmp(condition_text(after, "Ready", "status"), "True") != 0 &&
        same_without(before, after, "nodeName", NULL)) {
        return WP_STATUS_IDLE;
    }
    if (same_without(before, after, NULL, "observedGeneration")) {
        return shows_generation(before) ? WP_STATUS_LAZY : WP_STATUS_IDLE;
    }
    return is_step(before, after) ? WP_STATUS_SOON : WP_STATUS_NOW;
}
