#include "k8s/objects/view_read.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "k8s/objects/json.h"

enum {
    PATH_MAX_ = 96, /* Of what is said in an error. */
};

static const char *const no_texts[] = {NULL};

void
wp_view_wrong(struct wp_view_reader *reader, const char *path,
              const char *expected)
{
    const struct wp_object *about = reader->about;
    const char *kind = wp_kind_info(about->kind)->kind;

    if (reader->failed) {
        return;
    }
    reader->failed = true;
    if (about->name[0] == '\0') {
        (void)wp_err_set(reader->err, WP_INVALID_ARGUMENT,
                         "%s: %s: expected %s", kind, path, expected);
    } else {
        /* Names are cut so that the field is never left out. */
        (void)wp_err_set(reader->err, WP_INVALID_ARGUMENT,
                         "%s %.40s%s%.63s: %s: expected %s", kind, about->ns,
                         about->ns[0] != '\0' ? "/" : "", about->name, path,
                         expected);
    }
}

/* --- The block --- */

void *
wp_view_room(struct wp_view_reader *reader, size_t size, size_t align)
{
    size_t at = (reader->used + align - 1) / align * align;

    reader->used = at + size;
    return reader->block != NULL ? reader->block + at : NULL;
}

static const char *
copy_text(struct wp_view_reader *reader, const char *text, size_t len)
{
    char *room;

    if (len == 0) {
        return "";
    }
    room = wp_view_room(reader, len + 1, 1);
    if (room == NULL) {
        return "";
    }
    memcpy(room, text, len);
    room[len] = '\0';
    return room;
}

const char *
wp_view_copy(struct wp_view_reader *reader, const char *text)
{
    return copy_text(reader, text, text != NULL ? strlen(text) : 0);
}

/* --- Fields --- */

const json_t *
wp_view_at(struct wp_view_reader *reader, const char *path)
{
    const json_t *at = reader->root;
    const char *rest = path;

    for (;;) {
        size_t len = strcspn(rest, ".");

        if (!json_is_object(at)) {
            char so_far[PATH_MAX_];

            (void)snprintf(so_far, sizeof so_far, "%.*s",
                           (int)(rest > path ? rest - path - 1 : 0), path);
            wp_view_wrong(reader, so_far, "an object");
            return NULL;
        }
        at = json_object_getn(at, rest, len);
        if (at == NULL || json_is_null(at)) {
            return NULL;
        }
        if (rest[len] == '\0') {
            return at;
        }
        rest += len + 1;
    }
}

const json_t *
wp_view_object(struct wp_view_reader *reader, const char *path)
{
    const json_t *value = wp_view_at(reader, path);

    if (value != NULL && !json_is_object(value)) {
        wp_view_wrong(reader, path, "an object");
        return NULL;
    }
    return value;
}

const json_t *
wp_view_array(struct wp_view_reader *reader, const char *path)
{
    const json_t *value = wp_view_at(reader, path);

    if (value != NULL && !json_is_array(value)) {
        wp_view_wrong(reader, path, "an array");
        return NULL;
    }
    return value;
}

/* The bytes of a text without NUL; NULL and false-like otherwise. */
static const char *
plain_text(const json_t *value)
{
    const char *text = json_string_value(value);

    return text != NULL && strlen(text) == json_string_length(value) ? text
                                                                     : NULL;
}

static const char *
raw_text(struct wp_view_reader *reader, const char *path)
{
    const json_t *value = wp_view_at(reader, path);
    const char *text;

    if (value == NULL) {
        return "";
    }
    text = plain_text(value);
    if (text == NULL) {
        wp_view_wrong(reader, path, "a text");
        return "";
    }
    return text;
}

const char *
wp_view_text(struct wp_view_reader *reader, const char *path)
{
    return wp_view_copy(reader, raw_text(reader, path));
}

int64_t
wp_view_number(struct wp_view_reader *reader, const char *path, int64_t min,
               int64_t max, int64_t absent)
{
    const json_t *value = wp_view_at(reader, path);
    char expected[96];

    if (value == NULL) {
        return absent;
    }
    if (!json_is_integer(value) || json_integer_value(value) < min ||
        json_integer_value(value) > max) {
        (void)snprintf(expected, sizeof expected,
                       "a whole number from %" PRId64 " to %" PRId64, min, max);
        wp_view_wrong(reader, path, expected);
        return absent;
    }
    return json_integer_value(value);
}

bool
wp_view_bool(struct wp_view_reader *reader, const char *path, bool absent)
{
    const json_t *value = wp_view_at(reader, path);

    if (value == NULL) {
        return absent;
    }
    if (!json_is_boolean(value)) {
        wp_view_wrong(reader, path, "true or false");
        return absent;
    }
    return json_is_true(value);
}

int64_t
wp_view_time(struct wp_view_reader *reader, const char *path)
{
    const char *text = raw_text(reader, path);
    int64_t wall_ms = 0;

    if (text[0] != '\0' && !wp_json_time(text, &wall_ms)) {
        wp_view_wrong(reader, path, "a time like 2026-01-31T23:59:59Z");
        return 0;
    }
    return wall_ms;
}

int
wp_view_choice(struct wp_view_reader *reader, const char *path,
               const char *const *names, int absent)
{
    const char *text = raw_text(reader, path);
    char expected[96];
    size_t used = 0;

    if (text[0] == '\0') {
        return absent;
    }
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], text) == 0) {
            return i;
        }
    }
    for (int i = 0; names[i] != NULL && used < sizeof expected; i++) {
        used += (size_t)snprintf(expected + used, sizeof expected - used,
                                 "%s%s", i > 0 ? " or " : "", names[i]);
    }
    wp_view_wrong(reader, path, expected);
    return absent;
}

/* --- Lists and maps --- */

/* What is wrong is named with its index: "status.podIPs[2]". */
static void
wrong_item(struct wp_view_reader *reader, const char *path, size_t i,
           const char *field, const char *expected)
{
    char full[PATH_MAX_];

    (void)snprintf(full, sizeof full, "%s[%zu]%s%s", path, i,
                   field != NULL ? "." : "", field != NULL ? field : "");
    wp_view_wrong(reader, full, expected);
}

const char *const *
wp_view_texts_of(struct wp_view_reader *reader, const char *path,
                 const char *key)
{
    const json_t *array = wp_view_array(reader, path);
    size_t len = json_array_size(array);
    const char **texts;
    const json_t *value;
    size_t i;

    if (len == 0) {
        return no_texts;
    }
    texts =
        wp_view_room(reader, (len + 1) * sizeof *texts, alignof(const char *));
    json_array_foreach(array, i, value)
    {
        const json_t *item = key != NULL ? json_object_get(value, key) : value;
        const char *text = plain_text(item);

        if (text == NULL) {
            wrong_item(reader, path, i, key, "a text");
            text = "";
        }
        text = wp_view_copy(reader, text);
        if (texts != NULL) {
            texts[i] = text;
        }
    }
    if (texts == NULL) {
        return no_texts;
    }
    texts[len] = NULL;
    return texts;
}

const char *const *
wp_view_texts(struct wp_view_reader *reader, const char *path)
{
    return wp_view_texts_of(reader, path, NULL);
}

void
wp_view_pairs(struct wp_view_reader *reader, const char *path,
              const struct wp_pair **pairs, uint32_t *len)
{
    /* jansson's iteration takes no const object, but changes nothing. */
    json_t *object = json_incref(
        (json_t *)(uintptr_t)(const void *)wp_view_object(reader, path));
    struct wp_pair *room;
    const char *key;
    json_t *value;
    uint32_t i = 0;

    *pairs = NULL;
    *len = (uint32_t)json_object_size(object);
    room = *len == 0 ? NULL
                     : wp_view_room(reader, *len * sizeof *room,
                                    alignof(struct wp_pair));
    json_object_foreach(object, key, value)
    {
        const char *text = plain_text(value);
        struct wp_pair pair;

        if (text == NULL) {
            wp_view_wrong(reader, path, "texts as values");
        }
        pair.key = wp_view_copy(reader, key);
        pair.value = wp_view_copy(reader, text);
        if (room != NULL) {
            room[i] = pair;
        }
        i++;
    }
    *pairs = room;
    json_decref(object);
}

bool
wp_view_has_any(const json_t *value)
{
    return json_object_size(value) > 0 || json_array_size(value) > 0;
}

/* --- Conditions --- */

static enum wp_condition_status
condition_status(const char *text)
{
    if (strcmp(text, "True") == 0) {
        return WP_CONDITION_TRUE;
    }
    return strcmp(text, "False") == 0 ? WP_CONDITION_FALSE
                                      : WP_CONDITION_UNKNOWN;
}

struct condition_at {
    const json_t *json;
    size_t i;
};

/* The raw text of a field; "" when absent. */
static const char *
condition_text(struct wp_view_reader *reader, const struct condition_at *at,
               const char *key)
{
    const json_t *value = json_object_get(at->json, key);
    const char *text = plain_text(value);

    if (text == NULL && value != NULL && !json_is_null(value)) {
        wrong_item(reader, "status.conditions", at->i, key, "a text");
    }
    return text != NULL ? text : "";
}

static void
read_condition(struct wp_view_reader *reader, const struct condition_at *at,
               struct wp_condition *out)
{
    const json_t *generation = json_object_get(at->json, "observedGeneration");
    const char *transition = condition_text(reader, at, "lastTransitionTime");

    out->status = condition_status(condition_text(reader, at, "status"));
    out->reason = wp_view_copy(reader, condition_text(reader, at, "reason"));
    out->message = wp_view_copy(reader, condition_text(reader, at, "message"));
    out->transition = wp_view_copy(reader, transition);
    if (transition[0] != '\0' &&
        !wp_json_time(transition, &out->transition_wall_ms)) {
        wrong_item(reader, "status.conditions", at->i, "lastTransitionTime",
                   "a time like 2026-01-31T23:59:59Z");
    }
    if (generation != NULL && !json_is_null(generation) &&
        !json_is_integer(generation)) {
        wrong_item(reader, "status.conditions", at->i, "observedGeneration",
                   "a whole number");
    }
    out->observed_generation = json_integer_value(generation);
}

void
wp_view_conditions(struct wp_view_reader *reader,
                   const struct wp_view_condition *wanted, size_t len)
{
    const json_t *array = wp_view_array(reader, "status.conditions");
    struct condition_at at;

    for (size_t k = 0; k < len; k++) {
        *wanted[k].out = (struct wp_condition){
            .reason = "", .message = "", .transition = ""};
    }
    json_array_foreach(array, at.i, at.json)
    {
        const char *type;

        if (!json_is_object(at.json)) {
            wrong_item(reader, "status.conditions", at.i, NULL, "an object");
            return;
        }
        type = condition_text(reader, &at, "type");
        for (size_t k = 0; k < len; k++) {
            if (strcmp(wanted[k].type, type) == 0 &&
                wanted[k].out->status == WP_CONDITION_ABSENT) {
                read_condition(reader, &at, wanted[k].out);
            }
        }
    }
}
