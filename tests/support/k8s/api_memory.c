#include "tests/support/k8s/api_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

struct change {
    enum wp_kind kind;
    json_t *object; /* As it was after it; as it was last, when gone. */
    bool gone;
};

struct wp_api_memory {
    json_t *objects[WP_KIND_COUNT]; /* Arrays, in order of creation. */
    struct wp_store *stores[WP_KIND_COUNT];
    struct change *changes; /* Not told yet. */
    uint32_t changes_len;
    uint32_t changes_cap;
    int64_t version;
    int64_t named;
    int64_t wall_ns;
    bool older_claims;
};

struct wp_api_memory *
wp_api_memory_create(void)
{
    struct wp_api_memory *memory = calloc(1, sizeof *memory);

    WP_ASSERT(memory != NULL);
    for (int kind = 0; kind < WP_KIND_COUNT; kind++) {
        memory->objects[kind] = json_array();
    }
    memory->version = 100;
    memory->wall_ns = INT64_C(1767225600) * WP_NS_PER_S; /* 2026-01-01 */
    return memory;
}

void
wp_api_memory_destroy(struct wp_api_memory *memory)
{
    if (memory == NULL) {
        return;
    }
    for (int kind = 0; kind < WP_KIND_COUNT; kind++) {
        json_decref(memory->objects[kind]);
    }
    for (uint32_t i = 0; i < memory->changes_len; i++) {
        json_decref(memory->changes[i].object);
    }
    free(memory->changes);
    free(memory);
}

/* --- Objects --- */

static const char *
meta(const json_t *object, const char *key)
{
    return wp_json_text(object, "metadata", key, NULL);
}

/* Where it is in its kind's array; the array's length when nowhere. */
static size_t
find(const struct wp_api_memory *memory, enum wp_kind kind, const char *ns,
     const char *name)
{
    const json_t *objects = memory->objects[kind];
    size_t i;

    for (i = 0; i < json_array_size(objects); i++) {
        const json_t *object = json_array_get(objects, i);

        if (strcmp(meta(object, "name"), name) == 0 &&
            strcmp(meta(object, "namespace"), ns) == 0) {
            break;
        }
    }
    return i;
}

static void
note(struct wp_api_memory *memory, enum wp_kind kind, const json_t *object,
     bool gone)
{
    if (memory->changes_len == memory->changes_cap) {
        memory->changes_cap =
            memory->changes_cap == 0 ? 64 : memory->changes_cap * 2;
        memory->changes = realloc(memory->changes,
                                  memory->changes_cap * sizeof(struct change));
        WP_ASSERT(memory->changes != NULL);
    }
    memory->changes[memory->changes_len] =
        (struct change){kind, json_deep_copy(object), gone};
    memory->changes_len++;
}

static void
stamp_version(struct wp_api_memory *memory, json_t *object)
{
    char text[32];

    memory->version++;
    (void)snprintf(text, sizeof text, "%lld", (long long)memory->version);
    wp_json_set_text(json_object_get(object, "metadata"), "resourceVersion",
                     text);
}

/* What the server gives to an object that comes into being. */
static void
stamp_new(struct wp_api_memory *memory, enum wp_kind kind, json_t *object)
{
    json_t *metadata = json_object_get(object, "metadata");
    char text[64];

    WP_ASSERT(metadata != NULL);
    wp_json_set_text(object, "apiVersion", wp_kind_info(kind)->api_version);
    wp_json_set_text(object, "kind", wp_kind_info(kind)->kind);
    memory->named++;
    if (meta(object, "name")[0] == '\0') {
        (void)snprintf(text, sizeof text, "%s%05lld",
                       meta(object, "generateName"), (long long)memory->named);
        wp_json_set_text(metadata, "name", text);
    }
    if (meta(object, "uid")[0] == '\0') {
        (void)snprintf(text, sizeof text, "00000000-0000-4000-8000-%012llx",
                       (unsigned long long)memory->named);
        wp_json_set_text(metadata, "uid", text);
    }
    if (json_object_get(metadata, "generation") == NULL) {
        wp_json_set(metadata, "generation", json_integer(1));
    }
    if (json_object_get(metadata, "creationTimestamp") == NULL) {
        (void)wp_time_format_utc(memory->wall_ns, 0, text);
        wp_json_set_text(metadata, "creationTimestamp", text);
    }
    stamp_version(memory, object);
}

static void
remove_at(struct wp_api_memory *memory, enum wp_kind kind, size_t i)
{
    json_t *object = json_array_get(memory->objects[kind], i);

    stamp_version(memory, object);
    note(memory, kind, object, true);
    (void)json_array_remove(memory->objects[kind], i);
}

/* RFC 7396, into target. */
static void
merge(json_t *target, const json_t *patch)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)(const void *)patch, key, value)
    {
        json_t *old = json_object_get(target, key);

        if (json_is_null(value)) {
            (void)json_object_del(target, key);
        } else if (!json_is_object(value)) {
            wp_json_set(target, key, json_deep_copy(value));
        } else {
            if (!json_is_object(old)) {
                wp_json_set(target, key, json_object());
                old = json_object_get(target, key);
            }
            merge(old, value);
        }
    }
}

/* --- Verbs --- */

enum wp_status
wp_api_memory_get(struct wp_api_memory *memory, const struct wp_recorded *call,
                  json_t **object)
{
    size_t i = find(memory, call->kind, call->ns, call->name);

    *object = json_deep_copy(json_array_get(memory->objects[call->kind], i));
    return *object != NULL ? WP_OK : WP_NOT_FOUND;
}

/* "a=b,c": equality and being there; enough for what is asked here. */
static bool
selected(const json_t *object, const char *selector)
{
    char copy[256];
    char *rest = copy;
    char *term;

    (void)snprintf(copy, sizeof copy, "%s", selector);
    while ((term = strsep(&rest, ",")) != NULL) {
        char *value = strchr(term, '=');
        const json_t *label;

        if (term[0] == '\0') {
            continue;
        }
        if (value != NULL) {
            *value = '\0';
            value++;
        }
        label = wp_json_at(object, "metadata", "labels", term, NULL);
        if (label == NULL ||
            (value != NULL && strcmp(json_string_value(label), value) != 0)) {
            return false;
        }
    }
    return true;
}

enum wp_status
wp_api_memory_list(struct wp_api_memory *memory, const struct wp_recorded *call,
                   json_t **object)
{
    json_t *items = json_array();
    const json_t *item;
    size_t i;
    char version[32];

    json_array_foreach(memory->objects[call->kind], i, item)
    {
        if ((call->ns[0] == '\0' ||
             strcmp(meta(item, "namespace"), call->ns) == 0) &&
            selected(item, call->label_selector)) {
            (void)json_array_append_new(items, json_deep_copy(item));
        }
    }
    (void)snprintf(version, sizeof version, "%lld", (long long)memory->version);
    *object = json_pack("{s:{s:s},s:o}", "metadata", "resourceVersion", version,
                        "items", items);
    return WP_OK;
}

enum wp_status
wp_api_memory_post(struct wp_api_memory *memory, const struct wp_recorded *call,
                   json_t **object)
{
    json_t *made = json_deep_copy(call->body);
    json_t *metadata = json_object_get(made, "metadata");
    json_t *objects = memory->objects[call->kind];

    if (metadata == NULL || (meta(made, "name")[0] == '\0' &&
                             meta(made, "generateName")[0] == '\0')) {
        json_decref(made);
        return WP_INVALID_ARGUMENT;
    }
    wp_json_set_text(metadata, "namespace", call->ns);
    if (find(memory, call->kind, call->ns, meta(made, "name")) <
        json_array_size(objects)) {
        json_decref(made);
        return WP_ALREADY_EXISTS;
    }
    /* A status is not for who makes it; these are not for the client to say. */
    (void)json_object_del(made, "status");
    (void)json_object_del(metadata, "uid");
    (void)json_object_del(metadata, "creationTimestamp");
    (void)json_object_del(metadata, "generation");
    stamp_new(memory, call->kind, made);
    (void)json_array_append_new(objects, made);
    note(memory, call->kind, made, false);
    *object = json_deep_copy(made);
    return WP_OK;
}

/* Do uid and resourceVersion of the body, where said, hold? */
static bool
holds(const json_t *object, const char *uid, const char *version)
{
    return (uid[0] == '\0' || strcmp(uid, meta(object, "uid")) == 0) &&
           (version[0] == '\0' ||
            strcmp(version, meta(object, "resourceVersion")) == 0);
}

/* The object as the call would have it; the server's own fields as they are. */
static json_t *
changed(const struct wp_recorded *call, const json_t *old)
{
    static const char *const fixed[] = {"name",
                                        "namespace",
                                        "uid",
                                        "resourceVersion",
                                        "generation",
                                        "creationTimestamp",
                                        "deletionTimestamp"};
    bool status = strcmp(call->subresource, "status") == 0;
    json_t *now = json_deep_copy(call->verb == WP_VERB_PUT ? call->body : old);
    json_t *metadata;

    if (call->verb != WP_VERB_PUT) {
        merge(now, call->body);
    }
    if (json_object_get(now, "metadata") == NULL) {
        wp_json_set(now, "metadata", json_object());
    }
    metadata = json_object_get(now, "metadata");
    for (size_t i = 0; i < WP_ARRAY_LEN(fixed); i++) {
        const json_t *value = wp_json_at(old, "metadata", fixed[i], NULL);

        (void)json_object_del(metadata, fixed[i]);
        if (value != NULL) {
            wp_json_set(metadata, fixed[i], json_deep_copy(value));
        }
    }
    if (status) { /* Nothing but the status. */
        json_t *only = json_deep_copy(old);

        (void)json_object_del(only, "status");
        if (json_object_get(now, "status") != NULL) {
            wp_json_set(only, "status",
                        json_incref(json_object_get(now, "status")));
        }
        json_decref(now);
        if (call->kind == WP_KIND_SANDBOX_CLAIM &&
            wp_recorder_memory(call->api)->older_claims) {
            (void)json_object_del(wp_json_at(only, "status", "sandbox", NULL),
                                  "serviceFQDN");
        }
        return only;
    }
    (void)json_object_del(now, "status");
    if (json_object_get(old, "status") != NULL) {
        wp_json_set(now, "status",
                    json_deep_copy(json_object_get(old, "status")));
    }
    return now;
}

/* Writes what an object is to be; goes when it was only waiting for that. */
static json_t *
replace(struct wp_api_memory *memory, enum wp_kind kind, size_t i, json_t *now)
{
    json_t *old = json_array_get(memory->objects[kind], i);
    json_t *metadata = json_object_get(now, "metadata");

    if (json_equal(old, now)) {
        json_decref(now);
        return json_deep_copy(old); /* No change, no version. */
    }
    if (!json_equal(json_object_get(old, "spec"),
                    json_object_get(now, "spec"))) {
        wp_json_set(metadata, "generation",
                    json_integer(json_integer_value(
                                     json_object_get(metadata, "generation")) +
                                 1));
    }
    stamp_version(memory, now);
    (void)json_array_set_new(memory->objects[kind], i, now);
    if (meta(now, "deletionTimestamp")[0] != '\0' &&
        json_array_size(json_object_get(metadata, "finalizers")) == 0) {
        json_t *last = json_deep_copy(now);

        remove_at(memory, kind, i);
        return last;
    }
    note(memory, kind, now, false);
    return json_deep_copy(now);
}

enum wp_status
wp_api_memory_change(struct wp_api_memory *memory,
                     const struct wp_recorded *call, json_t **object)
{
    size_t i = find(memory, call->kind, call->ns, call->name);
    const json_t *old = json_array_get(memory->objects[call->kind], i);

    WP_ASSERT(json_is_object(call->body));
    if (old == NULL) {
        return WP_NOT_FOUND;
    }
    if (!holds(old, meta(call->body, "uid"),
               meta(call->body, "resourceVersion"))) {
        return WP_ABORTED;
    }
    *object = replace(memory, call->kind, i, changed(call, old));
    return WP_OK;
}

enum wp_status
wp_api_memory_delete(struct wp_api_memory *memory,
                     const struct wp_recorded *call, json_t **object)
{
    size_t i = find(memory, call->kind, call->ns, call->name);
    json_t *old = json_array_get(memory->objects[call->kind], i);
    json_t *now;
    char text[32];

    if (old == NULL) {
        return WP_NOT_FOUND;
    }
    if (!holds(old, call->uid, call->resource_version)) {
        return WP_ABORTED;
    }
    if (!call->foreground &&
        json_array_size(wp_json_at(old, "metadata", "finalizers", NULL)) == 0) {
        remove_at(memory, call->kind, i);
        *object = json_pack("{s:s,s:s}", "kind", "Status", "status", "Success");
        return WP_OK;
    }
    if (meta(old, "deletionTimestamp")[0] != '\0') {
        *object = json_deep_copy(old);
        return WP_OK;
    }
    now = json_deep_copy(old);
    (void)wp_time_format_utc(memory->wall_ns, 0, text);
    wp_json_set_text(json_object_get(now, "metadata"), "deletionTimestamp",
                     text);
    if (call->foreground) {
        wp_json_set(json_object_get(now, "metadata"), "finalizers",
                    json_pack("[s]", "foregroundDeletion"));
    }
    *object = replace(memory, call->kind, i, now);
    return WP_OK;
}

/* --- Watches --- */

void
wp_api_memory_notify(struct wp_api_memory *memory)
{
    /* A listener may make more changes: they are told in their turn. */
    for (uint32_t i = 0; i < memory->changes_len; i++) {
        struct change change = memory->changes[i];
        struct wp_store *store = memory->stores[change.kind];
        struct wp_err err;
        struct wp_object *object;

        if (store == NULL) {
            json_decref(change.object);
            continue;
        }
        object = wp_object_create(change.kind, change.object, &err);
        if (object == NULL) {
            (void)fprintf(stderr, "%s\n", err.msg);
            abort();
        }
        json_decref(change.object);
        if (change.gone) {
            wp_store_remove(store, object);
            wp_object_unref(object);
        } else {
            wp_store_put(store, object);
        }
    }
    memory->changes_len = 0;
}

/* --- What tests do --- */

void
wp_recorder_feed(struct wp_api *api, struct wp_store *store, enum wp_kind kind)
{
    struct wp_api_memory *memory = wp_recorder_memory(api);
    const json_t *object;
    size_t i;

    WP_ASSERT(memory->stores[kind] == NULL);
    /* The list: what is there already, and was not waiting to be told. */
    wp_store_replace_begin(store);
    json_array_foreach(memory->objects[kind], i, object)
    {
        struct wp_object *made = wp_object_create(kind, object, NULL);

        WP_ASSERT(made != NULL);
        wp_store_put(store, made);
    }
    wp_store_replace_end(store, NULL);
    memory->stores[kind] = store;
}

void
wp_recorder_number_from(struct wp_api *api, int64_t number)
{
    wp_recorder_memory(api)->named = number;
}

void
wp_recorder_set_older_claims(struct wp_api *api)
{
    wp_recorder_memory(api)->older_claims = true;
}

void
wp_recorder_set_time(struct wp_api *api, int64_t wall_ns)
{
    wp_recorder_memory(api)->wall_ns = wall_ns;
}

static json_t *
parse(const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);

    if (json == NULL) {
        (void)fprintf(stderr, "%s: %s\n", text, error.text);
        abort();
    }
    return json;
}

const json_t *
wp_recorder_put(struct wp_api *api, enum wp_kind kind, const char *text)
{
    struct wp_api_memory *memory = wp_recorder_memory(api);
    json_t *object = parse(text);
    size_t i;

    stamp_new(memory, kind, object);
    i = find(memory, kind, meta(object, "namespace"), meta(object, "name"));
    if (i < json_array_size(memory->objects[kind])) {
        (void)json_array_set_new(memory->objects[kind], i, object);
    } else {
        (void)json_array_append_new(memory->objects[kind], object);
    }
    note(memory, kind, object, false);
    return object;
}

const json_t *
wp_recorder_merge(struct wp_api *api, enum wp_kind kind, const char *ns,
                  const char *name, const char *patch)
{
    struct wp_api_memory *memory = wp_recorder_memory(api);
    size_t i = find(memory, kind, ns, name);
    const json_t *old = json_array_get(memory->objects[kind], i);
    json_t *json = parse(patch);
    json_t *now = json_deep_copy(old);

    WP_ASSERT(old != NULL);
    merge(now, json);
    json_decref(json);
    json_decref(replace(memory, kind, i, now));
    return json_array_get(memory->objects[kind], i);
}

void
wp_recorder_remove(struct wp_api *api, enum wp_kind kind, const char *ns,
                   const char *name)
{
    struct wp_api_memory *memory = wp_recorder_memory(api);
    size_t i = find(memory, kind, ns, name);

    WP_ASSERT(i < json_array_size(memory->objects[kind]));
    remove_at(memory, kind, i);
}

static bool
is_there(const struct wp_api_memory *memory, const char *uid)
{
    for (int kind = 0; kind < WP_KIND_COUNT; kind++) {
        const json_t *object;
        size_t i;

        json_array_foreach(memory->objects[kind], i, object)
        {
            if (strcmp(meta(object, "uid"), uid) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Has it owners, none of which is there? */
static bool
is_orphan(const struct wp_api_memory *memory, const json_t *object)
{
    const json_t *owners =
        wp_json_at(object, "metadata", "ownerReferences", NULL);
    const json_t *owner;
    size_t i;

    json_array_foreach(owners, i, owner)
    {
        if (is_there(memory, wp_json_text(owner, "uid", NULL))) {
            return false;
        }
    }
    return json_array_size(owners) > 0;
}

void
wp_recorder_collect(struct wp_api *api)
{
    struct wp_api_memory *memory = wp_recorder_memory(api);
    bool again = true;

    while (again) {
        again = false;
        for (int kind = 0; kind < WP_KIND_COUNT; kind++) {
            for (size_t i = json_array_size(memory->objects[kind]); i > 0;
                 i--) {
                if (is_orphan(memory,
                              json_array_get(memory->objects[kind], i - 1))) {
                    remove_at(memory, (enum wp_kind)kind, i - 1);
                    again = true;
                }
            }
        }
    }
}

const json_t *
wp_recorder_object(const struct wp_api *api, enum wp_kind kind, const char *ns,
                   const char *name)
{
    const struct wp_api_memory *memory = wp_recorder_memory(api);

    return json_array_get(memory->objects[kind], find(memory, kind, ns, name));
}

uint32_t
wp_recorder_objects(const struct wp_api *api, enum wp_kind kind)
{
    return (uint32_t)json_array_size(wp_recorder_memory(api)->objects[kind]);
}

const json_t *
wp_recorder_object_at(const struct wp_api *api, enum wp_kind kind, uint32_t i)
{
    return json_array_get(wp_recorder_memory(api)->objects[kind], i);
}
