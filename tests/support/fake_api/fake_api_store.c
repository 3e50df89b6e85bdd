/* Objects, versions and history. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "tests/support/fake_api/fake_api_impl.h"

void
fake_key(const char *ns, const char *name, char out[2 * FAKE_TEXT_MAX])
{
    (void)snprintf(out, 2 * FAKE_TEXT_MAX, "%s/%s", ns, name);
}

const char *
fake_meta(const json_t *object, const char *field)
{
    const char *text = json_string_value(
        json_object_get(json_object_get(object, "metadata"), field));

    return text != NULL ? text : "";
}

static void
key_of(const json_t *object, char out[2 * FAKE_TEXT_MAX])
{
    fake_key(fake_meta(object, "namespace"), fake_meta(object, "name"), out);
}

void
fake_time_now(char out[32], bool micro)
{
    int64_t now_ns = wp_clock_wall_ns(wp_clock_system());

    (void)wp_time_format_rfc3339(now_ns, out);
    (void)snprintf(out + strlen("2026-01-31T23:59:59"),
                   32 - strlen("2026-01-31T23:59:59"), micro ? ".%06lldZ" : "Z",
                   (long long)(now_ns / 1000 % 1000000));
}

bool
fake_has_status(int kind)
{
    return kind == WP_KIND_SANDBOX || kind == WP_KIND_SANDBOX_CLAIM ||
           kind == WP_KIND_SANDBOX_WARM_POOL || kind == WP_KIND_POD ||
           kind == WP_KIND_SERVICE || kind == WP_KIND_VOLUME_CLAIM;
}

json_t *
fake_find(struct fake_api *api, int kind, const char *key)
{
    return json_object_get(api->objects[kind], key);
}

/* --- which objects an owner has --- */

static void
owned_add(struct fake_api *api, int kind, const json_t *object, bool add)
{
    json_t *owners =
        json_object_get(json_object_get(object, "metadata"), "ownerReferences");
    char key[2 * FAKE_TEXT_MAX];
    char member[2 * FAKE_TEXT_MAX + 8];
    size_t i;
    json_t *owner;

    key_of(object, key);
    (void)snprintf(member, sizeof member, "%d %s", kind, key);
    json_array_foreach(owners, i, owner)
    {
        const char *uid = json_string_value(json_object_get(owner, "uid"));
        json_t *set;

        if (uid == NULL) {
            continue;
        }
        set = json_object_get(api->owned, uid);
        if (set == NULL && add) {
            set = json_object();
            (void)json_object_set_new(api->owned, uid, set);
        }
        if (add) {
            (void)json_object_set_new(set, member, json_true());
        } else {
            (void)json_object_del(set, member);
        }
    }
}

void
fake_index_again(struct fake_api *api)
{
    (void)json_object_clear(api->owned);
    (void)json_object_clear(api->uids);
    for (int kind = 0; kind < WP_KIND_COUNT; kind++) {
        const char *key;
        json_t *object;

        json_object_foreach(api->objects[kind], key, object)
        {
            owned_add(api, kind, object, true);
            (void)json_object_set_new(api->uids, fake_meta(object, "uid"),
                                      json_true());
        }
    }
}

/* --- history --- */

static void
record(struct fake_api *api, const char *type, int kind, json_t *before,
       json_t *object)
{
    if (api->history_len == api->history_cap) {
        api->history_cap = api->history_cap > 0 ? 2 * api->history_cap : 1024;
        api->history =
            realloc(api->history, api->history_cap * sizeof *api->history);
        fake_must(api->history != NULL, "memory");
    }
    api->history[api->history_len] = (struct fake_event){
        .version = api->version,
        .type = type,
        .kind = kind,
        .before = json_incref(before),
        .object = json_incref(object),
    };
    (void)snprintf(api->history[api->history_len].by, sizeof api->history->by,
                   "%s", api->by);
    api->history_len++;
    fake_watch_pump_all(api);
    fake_world_changed(api, &(struct fake_event){
                                .version = api->version,
                                .type = type,
                                .kind = kind,
                                .before = before,
                                .object = object,
                            });
}

static void
set_version(struct fake_api *api, json_t *object)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%llu",
                   (unsigned long long)++api->version);
    (void)json_object_set_new(json_object_get(object, "metadata"),
                              "resourceVersion", json_string(text));
}

/* Anything but metadata and status differs. */
static bool
spec_differs(const json_t *a, const json_t *b)
{
    json_t *x = json_copy((json_t *)(uintptr_t)a);
    json_t *y = json_copy((json_t *)(uintptr_t)b);
    bool same;

    (void)json_object_del(x, "metadata");
    (void)json_object_del(y, "metadata");
    (void)json_object_del(x, "status");
    (void)json_object_del(y, "status");
    same = json_equal(x, y) != 0;
    json_decref(x);
    json_decref(y);
    return !same;
}

static bool
counts_generations(int kind)
{
    return kind != WP_KIND_POD && kind != WP_KIND_SERVICE &&
           kind != WP_KIND_LEASE && kind != WP_KIND_EVENT &&
           kind != WP_KIND_VOLUME_CLAIM;
}

static bool
is_over(const json_t *object)
{
    return fake_meta(object, "deletionTimestamp")[0] != '\0' &&
           json_array_size(json_object_get(json_object_get(object, "metadata"),
                                           "finalizers")) == 0;
}

json_t *
fake_commit(struct fake_api *api, int kind, json_t *object)
{
    char key[2 * FAKE_TEXT_MAX];
    json_t *before;
    json_t *meta = json_object_get(object, "metadata");
    json_int_t generation;

    key_of(object, key);
    before = fake_find(api, kind, key);
    if (before != NULL) {
        (void)json_object_set_new(
            meta, "resourceVersion",
            json_string(fake_meta(before, "resourceVersion")));
        if (json_equal(before, object)) {
            json_decref(object);
            return before;
        }
        generation = json_integer_value(
            json_object_get(json_object_get(before, "metadata"), "generation"));
        if (counts_generations(kind) && spec_differs(before, object)) {
            (void)json_object_set_new(meta, "generation",
                                      json_integer(generation + 1));
        }
    }
    set_version(api, object);
    json_incref(before);
    if (before != NULL) {
        owned_add(api, kind, before, false);
    }
    owned_add(api, kind, object, true);
    (void)json_object_set_new(api->uids, fake_meta(object, "uid"), json_true());
    (void)json_object_set_new(api->objects[kind], key, object);
    json_incref(object);
    record(api, before != NULL ? "MODIFIED" : "ADDED", kind, before, object);
    json_decref(before);
    /* The last finalizer went; but a Pod waits for its kubelet. */
    if (is_over(object) && kind != WP_KIND_POD) {
        fake_drop(api, kind, key);
    }
    json_decref(object);
    return object;
}

void
fake_drop(struct fake_api *api, int kind, const char *key)
{
    json_t *before = json_incref(fake_find(api, kind, key));
    json_t *object;

    if (before == NULL) {
        return;
    }
    object = json_deep_copy(before);
    set_version(api, object);
    owned_add(api, kind, before, false);
    (void)json_object_del(api->uids, fake_meta(before, "uid"));
    (void)json_object_del(api->objects[kind], key);
    record(api, "DELETED", kind, before, object);
    json_decref(object);
    json_decref(before);
}

/* --- coming and going --- */

static void
generate_name(struct fake_api *api, json_t *meta)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    const char *prefix =
        json_string_value(json_object_get(meta, "generateName"));
    uint64_t n = ++api->serial * UINT64_C(2654435761);
    char name[FAKE_TEXT_MAX];
    size_t len;

    if (json_is_string(json_object_get(meta, "name")) || prefix == NULL) {
        return;
    }
    len = (size_t)snprintf(name, sizeof name - 6, "%s", prefix);
    for (size_t i = 0; i < 5; i++) {
        name[len + i] = letters[n % (sizeof letters - 1)];
        n /= sizeof letters - 1;
    }
    name[len + 5] = '\0';
    (void)json_object_set_new(meta, "name", json_string(name));
}

static void
default_text(json_t *object, const char *key, const char *value)
{
    if (json_is_object(object) && json_object_get(object, key) == NULL) {
        (void)json_object_set_new(object, key, json_string(value));
    }
}

/* What the schemas of the custom kinds fill in. */
static void
set_defaults(int kind, json_t *object)
{
    json_t *spec = json_object_get(object, "spec");

    if (kind == WP_KIND_SANDBOX) {
        default_text(spec, "operatingMode", "Running");
        default_text(spec, "shutdownPolicy", "Retain");
    } else if (kind == WP_KIND_SANDBOX_CLAIM) {
        default_text(json_object_get(spec, "lifecycle"), "shutdownPolicy",
                     "Retain");
    } else if (kind == WP_KIND_SANDBOX_TEMPLATE) {
        default_text(spec, "networkPolicyManagement", "Managed");
        default_text(spec, "envVarsInjectionPolicy", "Disallowed");
        default_text(spec, "volumeClaimTemplatesPolicy", "Disallowed");
    } else if (kind == WP_KIND_SANDBOX_WARM_POOL &&
               json_object_get(spec, "replicas") == NULL &&
               json_is_object(spec)) {
        (void)json_object_set_new(spec, "replicas", json_integer(1));
    } else if (kind == WP_KIND_POD) {
        json_t *status = json_object();

        (void)json_object_set_new(status, "phase", json_string("Pending"));
        (void)json_object_set_new(object, "status", status);
    }
}

json_t *
fake_create(struct fake_api *api, int kind, json_t *object)
{
    const struct wp_kind_info *info = wp_kind_info((enum wp_kind)kind);
    json_t *meta = json_object_get(object, "metadata");
    char key[2 * FAKE_TEXT_MAX];
    char uid[40];
    char now[32];

    generate_name(api, meta);
    key_of(object, key);
    if (fake_find(api, kind, key) != NULL) {
        json_decref(object);
        return NULL;
    }
    api->serial++;
    (void)snprintf(uid, sizeof uid, "%08x-%04x-4000-8000-%012llx",
                   (uint32_t)(api->serial * UINT64_C(2246822519)), api->port,
                   (unsigned long long)api->serial);
    fake_time_now(now, false);
    (void)json_object_set_new(object, "apiVersion",
                              json_string(info->api_version));
    (void)json_object_set_new(object, "kind", json_string(info->kind));
    (void)json_object_set_new(meta, "uid", json_string(uid));
    (void)json_object_set_new(meta, "creationTimestamp", json_string(now));
    (void)json_object_del(meta, "deletionTimestamp");
    if (counts_generations(kind)) {
        (void)json_object_set_new(meta, "generation", json_integer(1));
    }
    set_defaults(kind, object);
    return fake_commit(api, kind, object);
}

void
fake_delete(struct fake_api *api, int kind, const char *key, bool foreground)
{
    json_t *object = fake_find(api, kind, key);
    json_t *meta;
    json_t *finalizers;
    char now[32];
    bool kubelet = kind == WP_KIND_POD && api->options.pod_stop_ms >= 0;

    if (object == NULL || fake_meta(object, "deletionTimestamp")[0] != '\0') {
        return;
    }
    object = json_deep_copy(object);
    meta = json_object_get(object, "metadata");
    finalizers = json_object_get(meta, "finalizers");
    if (foreground && api->options.gc) {
        if (finalizers == NULL) {
            finalizers = json_array();
            (void)json_object_set_new(meta, "finalizers", finalizers);
        }
        (void)json_array_append_new(finalizers,
                                    json_string("foregroundDeletion"));
    }
    if (json_array_size(finalizers) == 0 && !kubelet) {
        json_decref(object);
        fake_drop(api, kind, key);
        return;
    }
    fake_time_now(now, false);
    (void)json_object_set_new(meta, "deletionTimestamp", json_string(now));
    (void)json_object_set_new(meta, "deletionGracePeriodSeconds",
                              json_integer(kubelet ? 30 : 0));
    (void)fake_commit(api, kind, object);
}

/* --- merging and listing --- */

void
fake_merge(json_t *target, const json_t *patch)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)patch, key, value)
    {
        json_t *old = json_object_get(target, key);

        if (json_is_null(value)) {
            (void)json_object_del(target, key);
        } else if (!json_is_object(value)) {
            (void)json_object_set_new(target, key, json_deep_copy(value));
        } else {
            if (!json_is_object(old)) {
                old = json_object();
                (void)json_object_set_new(target, key, old);
            }
            fake_merge(old, value);
        }
    }
}

static int
by_key(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a;
    const json_t *y = *(json_t *const *)b;
    int order = strcmp(fake_meta(x, "namespace"), fake_meta(y, "namespace"));

    return order != 0 ? order
                      : strcmp(fake_meta(x, "name"), fake_meta(y, "name"));
}

json_t *
fake_sorted(struct fake_api *api, int kind, const char *ns, const char *labels,
            const char *fields)
{
    size_t max = json_object_size(api->objects[kind]);
    json_t **found = calloc(max + 1, sizeof *found);
    json_t *array = json_array();
    size_t n = 0;
    const char *key;
    json_t *object;

    fake_must(found != NULL && array != NULL, "memory");
    json_object_foreach(api->objects[kind], key, object)
    {
        if (fake_selects(object, ns, labels, fields)) {
            found[n++] = object;
        }
    }
    qsort(found, n, sizeof *found, by_key);
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append(array, found[i]);
    }
    free(found);
    return array;
}
