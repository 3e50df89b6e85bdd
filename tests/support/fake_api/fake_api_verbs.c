/* What the verbs do, as far as this project and its clients use them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_api/fake_api_impl.h"

struct fake_answer
fake_status(int code, const char *reason, const char *message)
{
    return (struct fake_answer){
        code,
        json_pack("{s:s,s:s,s:{},s:s,s:s,s:s,s:i}", "kind", "Status",
                  "apiVersion", "v1", "metadata", "status",
                  code < 300 ? "Success" : "Failure", "reason", reason,
                  "message", message, "code", code),
        -1};
}

static struct fake_answer
status_of(int code, const char *reason, const struct fake_request *request,
          const char *words)
{
    const struct wp_kind_info *info = wp_kind_info((enum wp_kind)request->kind);
    char message[1024];

    (void)snprintf(message, sizeof message, "%s%s%s \"%s\" %s", info->plural,
                   info->group[0] != '\0' ? "." : "", info->group,
                   request->name, words);
    return fake_status(code, reason, message);
}

static struct fake_answer
not_found(const struct fake_request *request)
{
    return status_of(404, "NotFound", request, "not found");
}

static struct fake_answer
conflict(const struct fake_request *request)
{
    return status_of(409, "Conflict", request,
                     "cannot be changed: the object has been modified; please "
                     "apply your changes to the latest version and try again");
}

static struct fake_answer
ok(int code, json_t *borrowed)
{
    return (struct fake_answer){code, json_incref(borrowed), -1};
}

static json_t *
object_of(struct fake_api *api, const struct fake_request *request)
{
    char key[2 * FAKE_TEXT_MAX];

    fake_key(request->ns, request->name, key);
    return fake_find(api, request->kind, key);
}

struct fake_answer
fake_get(struct fake_api *api, struct fake_request *request)
{
    json_t *object = object_of(api, request);

    return object != NULL ? ok(200, object) : not_found(request);
}

/* --- lists --- */

/* Items of a list of a built-in kind carry no kind of their own. */
static json_t *
list_item(int kind, json_t *object)
{
    json_t *item;

    if (strstr(wp_kind_info((enum wp_kind)kind)->group, "x-k8s.io") != NULL) {
        return json_incref(object);
    }
    item = json_copy(object);
    (void)json_object_del(item, "kind");
    (void)json_object_del(item, "apiVersion");
    return item;
}

static struct fake_answer
list_page(const struct fake_request *request, struct fake_snapshot *snapshot,
          size_t from, size_t limit)
{
    const struct wp_kind_info *info = wp_kind_info((enum wp_kind)request->kind);
    size_t all = json_array_size(snapshot->items);
    size_t end = limit > 0 && all - from > limit ? from + limit : all;
    json_t *items = json_array();
    json_t *meta = json_object();
    char text[64];

    for (size_t i = from; i < end; i++) {
        (void)json_array_append_new(
            items,
            list_item(request->kind, json_array_get(snapshot->items, i)));
    }
    (void)snprintf(text, sizeof text, "%llu",
                   (unsigned long long)snapshot->version);
    (void)json_object_set_new(meta, "resourceVersion", json_string(text));
    if (end < all) {
        /* With characters that a query must encode. */
        (void)snprintf(text, sizeof text, "%llu+%zu=&",
                       (unsigned long long)snapshot->id, end);
        (void)json_object_set_new(meta, "continue", json_string(text));
        (void)json_object_set_new(meta, "remainingItemCount",
                                  json_integer((json_int_t)(all - end)));
    }
    (void)snprintf(text, sizeof text, "%sList", info->kind);
    return (struct fake_answer){200,
                                json_pack("{s:s,s:s,s:o,s:o}", "kind", text,
                                          "apiVersion", info->api_version,
                                          "metadata", meta, "items", items),
                                -1};
}

static struct fake_answer
next_page(struct fake_api *api, const struct fake_request *request,
          const char *cont, size_t limit)
{
    unsigned long long id = 0;
    size_t from = 0;

    if (sscanf(cont, "%llu+%zu=&", &id, &from) != 2) {
        return fake_status(400, "BadRequest", "continue key is not valid");
    }
    for (size_t i = 0; i < FAKE_SNAPSHOTS; i++) {
        struct fake_snapshot *snapshot = &api->snapshots[i];

        if (snapshot->id == id && id != 0 &&
            from <= json_array_size(snapshot->items)) {
            return list_page(request, snapshot, from, limit);
        }
    }
    return fake_status(410, "Expired",
                       "The provided continue parameter is too old to display "
                       "a consistent list result.");
}

struct fake_answer
fake_list(struct fake_api *api, struct fake_request *request)
{
    char cont[128];
    char number[24];
    char labels[512];
    char fields[512];
    size_t limit;
    struct fake_snapshot *snapshot;

    (void)fake_query(request, "limit", number, sizeof number);
    limit = strtoul(number, NULL, 10);
    if (fake_query(request, "continue", cont, sizeof cont) && cont[0] != '\0') {
        return next_page(api, request, cont, limit);
    }
    (void)fake_query(request, "labelSelector", labels, sizeof labels);
    (void)fake_query(request, "fieldSelector", fields, sizeof fields);
    snapshot = &api->snapshots[++api->snapshot_next % FAKE_SNAPSHOTS];
    json_decref(snapshot->items);
    *snapshot = (struct fake_snapshot){
        .id = api->snapshot_next,
        .version = api->version,
        .items = fake_sorted(api, request->kind, request->ns, labels, fields),
    };
    return list_page(request, snapshot, 0, limit);
}

/* --- writes --- */

/* Are names in body those of the path? Sets what it leaves out. */
static bool
fits_path(const struct fake_request *request, json_t *body)
{
    json_t *meta = json_object_get(body, "metadata");
    const char *ns = fake_meta(body, "namespace");
    const char *name = fake_meta(body, "name");

    if (!json_is_object(meta) ||
        (ns[0] != '\0' && strcmp(ns, request->ns) != 0) ||
        (request->name[0] != '\0' && name[0] != '\0' &&
         strcmp(name, request->name) != 0)) {
        return false;
    }
    if (request->ns[0] != '\0') {
        (void)json_object_set_new(meta, "namespace", json_string(request->ns));
    }
    if (request->name[0] != '\0') {
        (void)json_object_set_new(meta, "name", json_string(request->name));
    }
    return true;
}

static bool
is_of_kind(const struct fake_request *request, const json_t *body)
{
    const struct wp_kind_info *info = wp_kind_info((enum wp_kind)request->kind);
    const char *kind = json_string_value(json_object_get(body, "kind"));
    const char *version =
        json_string_value(json_object_get(body, "apiVersion"));

    return kind != NULL && version != NULL && strcmp(kind, info->kind) == 0 &&
           strcmp(version, info->api_version) == 0;
}

/* What is wrong with a new object; code 0: nothing. */
static struct fake_answer
check_new(const struct fake_request *request, json_t *body)
{
    if (!json_is_object(body) || !is_of_kind(request, body) ||
        request->ns[0] == '\0' || !fits_path(request, body)) {
        return fake_status(400, "BadRequest",
                           "kind, apiVersion or metadata do not fit the path");
    }
    if (fake_meta(body, "resourceVersion")[0] != '\0') {
        return fake_status(400, "BadRequest",
                           "resourceVersion should not be set on objects to be "
                           "created");
    }
    if (fake_meta(body, "name")[0] == '\0' &&
        fake_meta(body, "generateName")[0] == '\0') {
        return fake_status(422, "Invalid",
                           "metadata.name: name or generateName is required");
    }
    return (struct fake_answer){0};
}

struct fake_answer
fake_post(struct fake_api *api, struct fake_request *request)
{
    struct fake_answer wrong = check_new(request, request->body);
    json_t *body;
    json_t *made;

    if (wrong.code != 0) {
        return wrong;
    }
    (void)snprintf(request->name, sizeof request->name, "%s",
                   fake_meta(request->body, "name"));
    body = json_deep_copy(request->body);
    if (fake_has_status(request->kind)) {
        (void)json_object_del(body, "status");
    }
    made = fake_create(api, request->kind, body);
    return made != NULL
               ? ok(201, made)
               : status_of(409, "AlreadyExists", request, "already exists");
}

/* What no write may change; and of status and the rest only what the endpoint
 * is for. */
static void
restrain(const struct fake_request *request, const json_t *before,
         json_t *after)
{
    static const char *const kept[] = {
        "uid",          "name",
        "namespace",    "creationTimestamp",
        "generation",   "deletionTimestamp",
        "generateName", "deletionGracePeriodSeconds"};
    json_t *old_meta = json_object_get(before, "metadata");
    json_t *meta = json_object_get(after, "metadata");
    json_t *status = json_object_get(after, "status");

    if (strcmp(request->subresource, "status") == 0) {
        json_t *whole = json_deep_copy(before);

        if (status != NULL) {
            (void)json_object_set(whole, "status", status);
        } else {
            (void)json_object_del(whole, "status");
        }
        (void)json_object_clear(after);
        (void)json_object_update(after, whole);
        json_decref(whole);
        return;
    }
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        json_t *value = json_object_get(old_meta, kept[i]);

        if (value != NULL) {
            (void)json_object_set(meta, kept[i], value);
        } else {
            (void)json_object_del(meta, kept[i]);
        }
    }
    if (fake_has_status(request->kind)) {
        status = json_object_get(before, "status");
        if (status != NULL) {
            (void)json_object_set(after, "status", status);
        } else {
            (void)json_object_del(after, "status");
        }
    }
}

/* Does the version or uid in body speak against the object? */
static bool
is_stale(const json_t *body, const json_t *object)
{
    const char *version = fake_meta(body, "resourceVersion");
    const char *uid = fake_meta(body, "uid");

    return (version[0] != '\0' &&
            strcmp(version, fake_meta(object, "resourceVersion")) != 0) ||
           (uid[0] != '\0' && strcmp(uid, fake_meta(object, "uid")) != 0);
}

static bool
has_endpoint(const struct fake_request *request)
{
    return request->subresource[0] == '\0' ||
           (strcmp(request->subresource, "status") == 0 &&
            fake_has_status(request->kind));
}

struct fake_answer
fake_put(struct fake_api *api, struct fake_request *request)
{
    json_t *before = object_of(api, request);
    json_t *after;

    if (before == NULL || !has_endpoint(request)) {
        return not_found(request);
    }
    if (!json_is_object(request->body) || !is_of_kind(request, request->body) ||
        !fits_path(request, request->body)) {
        return fake_status(400, "BadRequest",
                           "kind, apiVersion or metadata do not fit the path");
    }
    if (is_stale(request->body, before)) {
        return conflict(request);
    }
    after = json_deep_copy(request->body);
    restrain(request, before, after);
    return ok(200, fake_commit(api, request->kind, after));
}

static struct fake_answer
apply(struct fake_api *api, struct fake_request *request, json_t *before)
{
    char manager[64];
    json_t *after;

    if (!fake_query(request, "fieldManager", manager, sizeof manager) ||
        manager[0] == '\0') {
        return fake_status(422, "Invalid",
                           "fieldManager: is required for apply patch");
    }
    if (!is_of_kind(request, request->body) ||
        !fits_path(request, request->body)) {
        return fake_status(400, "BadRequest",
                           "kind, apiVersion or metadata do not fit the path");
    }
    if (before == NULL) {
        after = json_deep_copy(request->body);
        return ok(201, fake_create(api, request->kind, after));
    }
    if (is_stale(request->body, before)) {
        return conflict(request);
    }
    after = json_deep_copy(before);
    fake_merge(after, request->body);
    restrain(request, before, after);
    return ok(200, fake_commit(api, request->kind, after));
}

struct fake_answer
fake_patch(struct fake_api *api, struct fake_request *request)
{
    json_t *before = object_of(api, request);
    json_t *after;

    if (!json_is_object(request->body)) {
        return fake_status(400, "BadRequest", "the patch is no object");
    }
    if (!has_endpoint(request)) {
        return not_found(request);
    }
    if (strncmp(request->content_type, "application/apply-patch+yaml", 28) ==
        0) {
        return apply(api, request, before);
    }
    if (strncmp(request->content_type, "application/merge-patch+json", 28) !=
        0) {
        return fake_status(415, "UnsupportedMediaType",
                           "the body of the request was in an unknown format");
    }
    if (before == NULL) {
        return not_found(request);
    }
    if (is_stale(request->body, before)) {
        return conflict(request);
    }
    after = json_deep_copy(before);
    fake_merge(after, request->body);
    if (!json_is_object(json_object_get(after, "metadata"))) {
        json_decref(after);
        return fake_status(422, "Invalid", "metadata: is no object");
    }
    restrain(request, before, after);
    return ok(200, fake_commit(api, request->kind, after));
}

struct fake_answer
fake_remove(struct fake_api *api, struct fake_request *request)
{
    json_t *object = object_of(api, request);
    json_t *wants = json_object_get(request->body, "preconditions");
    const char *uid = json_string_value(json_object_get(wants, "uid"));
    const char *version =
        json_string_value(json_object_get(wants, "resourceVersion"));
    const char *how =
        json_string_value(json_object_get(request->body, "propagationPolicy"));
    char key[2 * FAKE_TEXT_MAX];

    if (object == NULL) {
        return not_found(request);
    }
    if ((uid != NULL && strcmp(uid, fake_meta(object, "uid")) != 0) ||
        (version != NULL &&
         strcmp(version, fake_meta(object, "resourceVersion")) != 0)) {
        return conflict(request);
    }
    fake_key(request->ns, request->name, key);
    fake_delete(api, request->kind, key,
                how != NULL && strcmp(how, "Foreground") == 0);
    object = fake_find(api, request->kind, key);
    return object != NULL ? ok(200, object) : fake_status(200, "", "deleted");
}
