/* k8s/objects/condition.h - metav1.Condition lists as JSON. */
#ifndef WP_K8S_OBJECTS_CONDITION_H
#define WP_K8S_OBJECTS_CONDITION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* What a condition is to say. Borrowed. */
struct wp_condition_text {
    const char *type;   /* "Ready" */
    const char *status; /* "True", "False", "Unknown" */
    const char *reason;
    const char *message;
    int64_t observed_generation;
    /* RFC 3339; NULL: the one it has if its status stays, else now. */
    const char *transition;
};

/* Sets it in a list of conditions (an array; a merge patch replaces all of it,
 * so begin with a copy of the object's own). True when something changed. */
bool wp_condition_set(json_t *conditions, const struct wp_condition_text *text,
                      int64_t wall_ns);
/* True when it was there. */
bool wp_condition_remove(json_t *conditions, const char *type);
/* The condition object of that type; borrowed; NULL. */
json_t *wp_condition_find(const json_t *conditions, const char *type);

#endif
