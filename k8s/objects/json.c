#include "k8s/objects/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/civil.h"
#include "pool/base/clock.h"

/* --- Reading --- */

/* va_list is passed by address: each step takes the next key from it. */
static json_t *
walk(const json_t *json, const char *key, va_list *keys)
{
    json_t *at = NULL;

    while (key != NULL) {
        at = json_object_get(json, key); /* NULL when json is no object. */
        if (at == NULL) {
            return NULL;
        }
        json = at;
        key = va_arg(*keys, const char *);
    }
    return at;
}

json_t *
wp_json_at(const json_t *json, const char *key, ...)
{
    va_list keys;
    json_t *at;

    va_start(keys, key);
    at = walk(json, key, &keys);
    va_end(keys);
    return at;
}

const char *
wp_json_text(const json_t *json, const char *key, ...)
{
    va_list keys;
    const char *text;

    va_start(keys, key);
    text = json_string_value(walk(json, key, &keys));
    va_end(keys);
    return text != NULL ? text : "";
}

json_t *
wp_json_find(const json_t *list, const char *key, const char *text)
{
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        if (strcmp(wp_json_text(item, key, NULL), text) == 0) {
            return item;
        }
    }
    return NULL;
}

/* --- Building --- */

void
wp_json_no_memory(void)
{
    (void)fprintf(stderr, "no memory for a few KiB of JSON\n");
    abort();
}

json_t *
wp_json_copy(const json_t *json)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)json);

    if (json != NULL &&
        (copy == NULL || json_object_size(copy) != json_object_size(json) ||
         json_array_size(copy) != json_array_size(json))) {
        wp_json_no_memory();
    }
    return copy;
}

json_t *
wp_json_deep_copy(const json_t *json)
{
    json_t *copy = json_deep_copy(json);

    if (json != NULL && copy == NULL) {
        wp_json_no_memory();
    }
    return copy;
}

json_t *
wp_json_set(json_t *json, const char *key, json_t *value)
{
    WP_ASSERT(json_is_object(json));
    /* A value that could not be made, or no room for it. */
    if (value == NULL || json_object_set_new(json, key, value) != 0) {
        wp_json_no_memory();
    }
    return json;
}

json_t *
wp_json_set_text(json_t *json, const char *key, const char *value)
{
    return wp_json_set(json, key, json_string(value));
}

json_t *
wp_json_object_at(json_t *json, const char *key)
{
    json_t *child = json_object_get(json, key);

    if (!json_is_object(child)) {
        child = json_object();
        (void)wp_json_set(json, key, child);
    }
    return child;
}

json_t *
wp_json_words(const char *words)
{
    struct wp_str text = wp_str_from(words);
    json_t *made;
    char *copy;

    if (wp_str_is_utf8(text)) {
        return json_string(words);
    }
    copy = strdup(words);
    for (char *c = copy; c != NULL && *c != '\0'; c++) {
        if ((unsigned char)*c >= 0x80) {
            *c = '?';
        }
    }
    made = copy != NULL ? json_string(copy) : NULL;
    free(copy);
    return made;
}

json_t *
wp_json_text_or_null(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

bool
wp_json_time(const char *text, int64_t *wall_ms)
{
    int64_t seconds;
    int32_t ns;

    if (!wp_civil_parse_time(wp_str_from(text), &seconds, &ns)) {
        return false;
    }
    *wall_ms = seconds * 1000 + ns / WP_NS_PER_MS;
    return true;
}
