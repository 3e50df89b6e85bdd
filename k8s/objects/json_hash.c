/* A value's hash that does not change with how the same thing is written.
 *
 * Objects that Go programs have written lack what their types leave out when it
 * is empty; those that people wrote may have it. Both must be one value here,
 * or a pool would be made anew for nothing. What must stay different: a pointer
 * to false or to "" says something that nil does not (allowPrivilegeEscalation,
 * storageClassName), and an empty label selector selects all, none nothing. */
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "pool/base/compiler.h"
#include "pool/base/fnv.h"
#include "pool/annotations/quantity.h"

enum {
    DEPTH_MAX = 64, /* Deeper values are hashed as they are. */
};

/* Booleans whose type has no third value, or where absent means false. */
static const char *const plain_booleans[] = {
    "hostIPC",  "hostNetwork", "hostPID",   "optional",
    "readOnly", "stdin",       "stdinOnce", "tty",
};
static const char *const plain_texts_not[] = {"storageClassName"};
static const char *const plain_objects_not[] = {
    "labelSelector", "namespaceSelector", "selector"};

/* Of these 0 is what their types begin with, and what absent means. */
static const char *const plain_numbers[] = {
    "failureThreshold", "hostPort",         "initialDelaySeconds",
    "periodSeconds",    "successThreshold", "timeoutSeconds",
};
/* Amounts, which may be written as "1", 1 or "1000m"; by name, and on their
 * own. */
static const char *const quantity_maps[] = {"limits", "overhead", "requests"};
static const char *const quantities[] = {"divisor", "sizeLimit"};

static bool
is_one_of(const char *key, const char *const *names, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (strcmp(key, names[i]) == 0) {
            return true;
        }
    }
    return false;
}
#define IS_ONE_OF(key, names) is_one_of(key, names, WP_ARRAY_LEN(names))

static bool
says_nothing(const char *key, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_NULL:
        return true;
    case JSON_FALSE:
        return IS_ONE_OF(key, plain_booleans);
    case JSON_STRING:
        /* The schemas of some servers put this default in, others do not. */
        if ((strcmp(key, "protocol") == 0 &&
             strcmp(json_string_value(value), "TCP") == 0) ||
            (strcmp(key, "divisor") == 0 &&
             strcmp(json_string_value(value), "0") == 0)) {
            return true;
        }
        return json_string_length(value) == 0 &&
               !IS_ONE_OF(key, plain_texts_not);
    case JSON_ARRAY:
        return json_array_size(value) == 0;
    case JSON_OBJECT:
        return json_object_size(value) == 0 &&
               !IS_ONE_OF(key, plain_objects_not);
    case JSON_INTEGER:
        return json_integer_value(value) == 0 && IS_ONE_OF(key, plain_numbers);
    case JSON_TRUE:
    case JSON_REAL:
        break;
    }
    return false;
}

/* The amount under key in one spelling; what is no amount stays. */
static void
clean_quantity(json_t *object, const char *key, const json_t *value)
{
    char number[WP_QUANTITY_TEXT_MAX];
    char text[WP_QUANTITY_TEXT_MAX];

    if (json_is_integer(value)) {
        (void)snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
                       json_integer_value(value));
    } else if (!json_is_string(value) ||
               !wp_str_copy(wp_str_from(json_string_value(value)), number,
                            sizeof(number))) {
        return;
    }
    if (wp_quantity_canonical(wp_str_from(number), text)) {
        wp_json_set_text(object, key, text);
    }
}

static void
clean_quantities(json_t *map)
{
    const char *key;
    void *next;
    json_t *value;

    json_object_foreach_safe(map, next, key, value)
    {
        clean_quantity(map, key, value);
    }
}

/* 3.0 is 3. NULL: it stays. */
static json_t *
plain_number(const json_t *value)
{
    double number = json_real_value(value);

    /* The bounds first: beyond them a cast means nothing. */
    if (!json_is_real(value) || !(number > -1e15 && number < 1e15) ||
        (double)(json_int_t)number != number) {
        return NULL;
    }
    return json_integer((json_int_t)number);
}

/* Everything below node has been cleaned before. */
static void
clean(json_t *node)
{
    const char *key;
    void *next;
    json_t *value;
    json_t *number;
    size_t i;

    json_array_foreach(node, i, value)
    {
        number = plain_number(value);
        if (number != NULL) {
            (void)json_array_set_new(node, i, number);
        }
    }
    if (!json_is_object(node)) {
        return;
    }
    json_object_foreach_safe(node, next, key, value)
    {
        if (says_nothing(key, value)) {
            (void)json_object_del(node, key);
            continue;
        }
        if (IS_ONE_OF(key, quantity_maps)) {
            clean_quantities(value);
            continue;
        }
        if (IS_ONE_OF(key, quantities)) {
            clean_quantity(node, key, value);
            continue;
        }
        number = plain_number(value);
        if (number != NULL) {
            (void)json_object_set_new(node, key, number);
        }
    }
}

struct frame {
    json_t *node;
    void *member; /* Of an object: the next to look at. */
    size_t item;  /* Of an array. */
};

static json_t *
next_child(struct frame *frame)
{
    json_t *child = NULL;

    if (json_is_array(frame->node)) {
        child = json_array_get(frame->node, frame->item);
        frame->item++;
    } else if (frame->member != NULL) {
        child = json_object_iter_value(frame->member);
        frame->member = json_object_iter_next(frame->node, frame->member);
    }
    return child;
}

/* From the leaves up, with a stack of our own. */
static void
clean_all(json_t *root)
{
    struct frame frames[DEPTH_MAX];
    int depth = 0;

    frames[depth] = (struct frame){root, json_object_iter(root), 0};
    while (depth >= 0) {
        json_t *child = next_child(&frames[depth]);

        if (child == NULL) {
            clean(frames[depth].node);
            depth--;
        } else if ((json_is_object(child) || json_is_array(child)) &&
                   depth + 1 < DEPTH_MAX) {
            depth++;
            frames[depth] = (struct frame){child, json_object_iter(child), 0};
        }
    }
}

uint64_t
wp_json_hash(const json_t *json)
{
    uint64_t hash;
    json_t *copy = wp_json_deep_copy(json);
    char *text;

    clean_all(copy);
    text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    if (text == NULL) {
        wp_json_no_memory();
    }
    hash = wp_fnv_str(WP_FNV_BASIS, wp_str_from(text));
    free(text);
    json_decref(copy);
    return hash;
}
