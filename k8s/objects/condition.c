#include "k8s/objects/condition.h"

#include <string.h>

#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

json_t *
wp_condition_find(const json_t *conditions, const char *type)
{
    return wp_json_find(conditions, "type", type);
}

bool
wp_condition_remove(json_t *conditions, const char *type)
{
    bool found = false;

    /* From the end: what is removed moves only what was looked at. */
    for (size_t i = json_array_size(conditions); i > 0; i--) {
        const json_t *condition = json_array_get(conditions, i - 1);

        if (strcmp(wp_json_text(condition, "type", NULL), type) == 0) {
            (void)json_array_remove(conditions, i - 1);
            found = true;
        }
    }
    return found;
}

/* Sets a text if it is another one. A message may end with half a character:
 * what it quotes was cut to its room. */
static bool
update_text(json_t *condition, const char *key, const char *value)
{
    json_t *words = wp_json_words(value);

    if (json_equal(json_object_get(condition, key), words)) {
        json_decref(words);
        return false;
    }
    wp_json_set(condition, key, words);
    return true;
}

static bool
update_generation(json_t *condition, int64_t generation)
{
    static const char key[] = "observedGeneration";
    const json_t *old = json_object_get(condition, key);

    if (generation <= 0) {
        return json_object_del(condition, key) == 0;
    }
    if (json_is_integer(old) && json_integer_value(old) == generation) {
        return false;
    }
    wp_json_set(condition, key, json_integer(generation));
    return true;
}

bool
wp_condition_set(json_t *conditions, const struct wp_condition_text *text,
                 int64_t wall_ns)
{
    json_t *condition = wp_condition_find(conditions, text->type);
    bool changed = condition == NULL;
    const char *transition = text->transition;
    char now[32];

    WP_ASSERT(json_is_array(conditions));
    if (condition == NULL) {
        condition = wp_json_set_text(json_object(), "type", text->type);
        /* The array's reference is the only one from here on. */
        WP_ASSERT(json_array_append_new(conditions, condition) == 0);
    }
    if (update_text(condition, "status", text->status)) {
        changed = true;
        if (transition == NULL) {
            (void)wp_time_format_utc(wall_ns, 0, now);
            transition = now;
        }
    }
    if (transition == NULL &&
        wp_json_text(condition, "lastTransitionTime", NULL)[0] == '\0') {
        (void)wp_time_format_utc(wall_ns, 0, now);
        transition = now;
    }
    changed |= update_text(condition, "reason", text->reason);
    changed |= update_text(condition, "message", text->message);
    changed |= update_generation(condition, text->observed_generation);
    if (transition != NULL) {
        changed |= update_text(condition, "lastTransitionTime", transition);
    }
    return changed;
}
