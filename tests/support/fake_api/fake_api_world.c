/* What happens in a cluster by itself: Pods and Sandboxes become ready, and what
 * an owner leaves behind is deleted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/compiler.h"
#include "tests/support/fake_api/fake_api_impl.h"

struct later {
    struct wp_list node;
    struct fake_api *api;
    struct event *timer;
    fake_later *run;
    int kind;
    char *key; /* Owned. */
};

static void
later_free(struct later *later)
{
    wp_list_remove(&later->node);
    event_free(later->timer);
    free(later->key);
    free(later);
}

static void
on_later(evutil_socket_t fd, short what, void *arg)
{
    struct later *later = arg;

    (void)fd;
    (void)what;
    later->run(later->api, later->kind, later->key);
    later_free(later);
}

void
fake_after(struct fake_api *api, int64_t ms, fake_later *run, int kind,
           const char *key)
{
    struct timeval after = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    struct later *later = calloc(1, sizeof *later);

    fake_must(later != NULL, "memory");
    *later = (struct later){
        .api = api, .run = run, .kind = kind, .key = strdup(key)};
    later->timer = event_new(api->base, -1, 0, on_later, later);
    fake_must(later->timer != NULL && event_add(later->timer, &after) == 0,
              "timer");
    wp_list_push_back(&api->laters, &later->node);
}

void
fake_laters_free(struct fake_api *api)
{
    while (!wp_list_empty(&api->laters)) {
        later_free(WP_CONTAINER_OF(api->laters.next, struct later, node));
    }
}

/* --- readiness --- */

static json_t *
condition(const char *type, const char *reason, const char *now)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:s}", "type", type, "status", "True",
                     "reason", reason, "message", "", "lastTransitionTime",
                     now);
}

/* Of this machine alone: a test may serve there. */
static void
new_address(struct fake_api *api, char out[24])
{
    uint64_t n = ++api->serial;

    (void)snprintf(out, 24, "127.%u.%u.%u", (unsigned)(n >> 16 & 255),
                   (unsigned)(n >> 8 & 255), (unsigned)(n & 255));
}

static bool
is_deleting(const json_t *object)
{
    return fake_meta(object, "deletionTimestamp")[0] != '\0';
}

static void
pod_ready(struct fake_api *api, int kind, const char *key)
{
    static const char *const types[] = {"PodScheduled", "Initialized",
                                        "ContainersReady", "Ready"};
    json_t *pod = fake_find(api, kind, key);
    json_t *conditions;
    json_t *spec;
    char ip[24];
    char now[32];

    if (pod == NULL || is_deleting(pod)) {
        return;
    }
    pod = json_deep_copy(pod);
    new_address(api, ip);
    fake_time_now(now, false);
    conditions = json_array();
    for (size_t i = 0; i < WP_ARRAY_LEN(types); i++) {
        json_t *one = condition(types[i], "", now);

        (void)json_object_del(one, "reason");
        (void)json_object_del(one, "message");
        (void)json_array_append_new(conditions, one);
    }
    (void)json_object_set_new(
        pod, "status",
        json_pack("{s:s,s:s,s:[{s:s}],s:s,s:s,s:o}", "phase", "Running",
                  "podIP", ip, "podIPs", "ip", ip, "hostIP", "192.0.2.1",
                  "startTime", now, "conditions", conditions));
    spec = json_object_get(pod, "spec");
    if (json_is_object(spec)) {
        (void)json_object_set_new(spec, "nodeName", json_string("node-1"));
    }
    (void)fake_commit(api, kind, pod);
}

static void
sandbox_ready(struct fake_api *api, int kind, const char *key)
{
    json_t *sandbox = fake_find(api, kind, key);
    json_t *ready;
    char ip[24];
    char now[32];

    if (sandbox == NULL || is_deleting(sandbox)) {
        return;
    }
    sandbox = json_deep_copy(sandbox);
    new_address(api, ip);
    fake_time_now(now, false);
    ready = condition("Ready", "DependenciesReady", now);
    (void)json_object_set(
        ready, "observedGeneration",
        json_object_get(json_object_get(sandbox, "metadata"), "generation"));
    (void)json_object_set_new(sandbox, "status",
                              json_pack("{s:[s],s:s,s:[o]}", "podIPs", ip,
                                        "nodeName", "node-1", "conditions",
                                        ready));
    (void)fake_commit(api, kind, sandbox);
}

/* --- garbage --- */

static bool
any_owner_lives(struct fake_api *api, const json_t *object)
{
    json_t *owners =
        json_object_get(json_object_get(object, "metadata"), "ownerReferences");
    size_t i;
    json_t *owner;

    json_array_foreach(owners, i, owner)
    {
        const char *uid = json_string_value(json_object_get(owner, "uid"));

        if (uid != NULL && json_object_get(api->uids, uid) != NULL) {
            return true;
        }
    }
    return json_array_size(owners) == 0;
}

static void
collect_one(struct fake_api *api, int kind, const char *key)
{
    json_t *object = fake_find(api, kind, key);

    if (object != NULL && !any_owner_lives(api, object)) {
        fake_delete(api, kind, key, false);
    }
}

/* Takes the finalizer of a foreground deletion off. */
static void
unblock(struct fake_api *api, int kind, const char *key)
{
    json_t *object = json_deep_copy(fake_find(api, kind, key));
    json_t *finalizers =
        json_object_get(json_object_get(object, "metadata"), "finalizers");
    size_t i;
    json_t *one;

    json_array_foreach(finalizers, i, one)
    {
        if (strcmp(json_string_value(one), "foregroundDeletion") == 0) {
            (void)json_array_remove(finalizers, i);
            break;
        }
    }
    (void)fake_commit(api, kind, object);
}

static bool
waits_for_dependents(const json_t *object)
{
    json_t *finalizers =
        json_object_get(json_object_get(object, "metadata"), "finalizers");
    size_t i;
    json_t *one;

    json_array_foreach(finalizers, i, one)
    {
        if (strcmp(json_string_value(one), "foregroundDeletion") == 0) {
            return is_deleting(object);
        }
    }
    return false;
}

/* Deletes what it owns first, and comes again until nothing is left. */
static void
collect_foreground(struct fake_api *api, int kind, const char *key)
{
    json_t *object = fake_find(api, kind, key);
    json_t *set;
    json_t *copy;
    const char *member;
    json_t *unused;

    if (object == NULL || !waits_for_dependents(object)) {
        return;
    }
    set = json_object_get(api->owned, fake_meta(object, "uid"));
    if (json_object_size(set) == 0) {
        unblock(api, kind, key);
        return;
    }
    copy = json_copy(set);
    json_object_foreach(copy, member, unused)
    {
        fake_delete(api, (int)strtol(member, NULL, 10), strchr(member, ' ') + 1,
                    false);
    }
    json_decref(copy);
    fake_after(api, 2, collect_foreground, kind, key);
}

static void
orphans_of(struct fake_api *api, const json_t *object)
{
    json_t *set = json_object_get(api->owned, fake_meta(object, "uid"));
    const char *member;
    json_t *unused;

    json_object_foreach(set, member, unused)
    {
        fake_after(api, 0, collect_one, (int)strtol(member, NULL, 10),
                   strchr(member, ' ') + 1);
    }
}

/* --- events --- */

static void
came(struct fake_api *api, int kind, const char *key, const json_t *object)
{
    if (kind == WP_KIND_POD && api->options.pod_ready_ms >= 0) {
        fake_after(api, api->options.pod_ready_ms, pod_ready, kind, key);
    }
    if (kind == WP_KIND_SANDBOX && api->options.sandbox_ready_ms >= 0) {
        fake_after(api, api->options.sandbox_ready_ms, sandbox_ready, kind,
                   key);
    }
    if (api->options.gc && !any_owner_lives(api, object)) {
        fake_after(api, 0, collect_one, kind, key);
    }
}

/* Only schedules: the caller is in the middle of a change. */
void
fake_world_changed(struct fake_api *api, const struct fake_event *event)
{
    const json_t *object = event->object;
    int kind = event->kind;
    char key[2 * FAKE_TEXT_MAX];

    fake_key(fake_meta(object, "namespace"), fake_meta(object, "name"), key);
    if (event->before == NULL) {
        came(api, kind, key, object);
        return;
    }
    if (strcmp(event->type, "DELETED") == 0) {
        if (api->options.gc) {
            orphans_of(api, object);
        }
        return;
    }
    /* Given to an owner that has gone meanwhile. */
    if (api->options.gc && !any_owner_lives(api, object)) {
        fake_after(api, 0, collect_one, kind, key);
    }
    if (is_deleting(object) && !is_deleting(event->before)) {
        if (kind == WP_KIND_POD && api->options.pod_stop_ms >= 0) {
            fake_after(api, api->options.pod_stop_ms, fake_drop, kind, key);
        } else if (api->options.gc && waits_for_dependents(object)) {
            fake_after(api, 0, collect_foreground, kind, key);
        }
    }
}
