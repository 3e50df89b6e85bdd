#include "k8s/controllers/events.h"

#include <event2/event.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/list.h"
#include "pool/base/rng.h"
#include "pool/base/siphash.h"

enum {
    NAME_MAX_LEN = 220, /* Of the object's part in the event's name. */
    INSTANCE_MAX = 128, /* What the API server takes. */
};

#define SERIES_NS (600 * WP_NS_PER_S)
#define WRITE_NS (60 * WP_NS_PER_S)
/* A series is written late by a sixth of its minute at most. */
#define LOOK_NS (10 * WP_NS_PER_S)

/* The same words about the same object. */
struct series {
    struct wp_hash128 hash; /* First. */
    struct wp_list by_age;  /* The one heard of least recently first. */
    uint32_t count;
    uint32_t written; /* The count that the API server knows. */
    bool under_way;
    int64_t heard_ns;
    int64_t heard_wall_ns;
    int64_t tried_ns;
    char ns[64];
    char name[NAME_MAX_LEN + 40];
};

struct wp_events {
    struct wp_events_config config;
    struct event *timer;
    struct wp_hash_key hash_key;
    void *series; /* A tree by hash. */
    struct wp_list by_age;
    struct wp_list calls; /* Their answers are still to come. */
    uint32_t len;
    int64_t look_ns; /* When to look at all of them again. */
    uint64_t made;   /* Part of names. */
    uint64_t dropped;
};

/* A write under way. */
struct call {
    struct wp_list node;
    struct wp_events *events; /* NULL: it is gone. */
    struct wp_hash128 hash;
    uint32_t count;
};

/* --- The series --- */

static int
compare_hashes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct wp_hash128));
}

static struct series *
find(struct wp_events *events, struct wp_hash128 hash)
{
    struct series **found = tfind(&hash, &events->series, compare_hashes);

    return found != NULL ? *found : NULL;
}

static void
forget(struct wp_events *events, struct series *series)
{
    (void)tdelete(series, &events->series, compare_hashes);
    wp_list_remove(&series->by_age);
    events->len--;
    free(series);
}

static struct series *
oldest(struct wp_events *events)
{
    return wp_list_empty(&events->by_age)
               ? NULL
               : WP_CONTAINER_OF(events->by_age.next, struct series, by_age);
}

static struct series *
add(struct wp_events *events, struct wp_hash128 hash)
{
    struct series *series;
    const void *added;

    if (events->len == WP_EVENTS_SERIES_MAX) {
        forget(events, oldest(events));
    }
    series = calloc(1, sizeof *series);
    WP_ASSERT(series != NULL);
    series->hash = hash;
    added = tsearch(series, &events->series, compare_hashes);
    WP_ASSERT(added != NULL);
    wp_list_push_back(&events->by_age, &series->by_age);
    events->len++;
    return series;
}

/* --- Writing --- */

static void
on_written(void *ctx, const struct wp_api_result *result)
{
    struct call *call = ctx;
    struct wp_events *events = call->events;
    struct series *series;

    wp_list_remove(&call->node);
    if (events != NULL) {
        series = find(events, call->hash);
        if (series != NULL) {
            series->under_way = false;
        }
        if (result->status == WP_OK && series != NULL) {
            series->written = call->count;
        } else if (result->status != WP_OK) {
            events->dropped++;
            /* Not there, or no longer: the next one begins anew. */
            if (series != NULL &&
                (series->written == 0 || result->status == WP_NOT_FOUND)) {
                forget(events, series);
            }
        }
    }
    free(call);
}

static struct call *
begin_call(struct wp_events *events, struct series *series)
{
    struct call *call = calloc(1, sizeof *call);

    WP_ASSERT(call != NULL);
    call->events = events;
    call->hash = series->hash;
    call->count = series->count;
    wp_list_push_back(&events->calls, &call->node);
    series->under_way = true;
    series->tried_ns = wp_clock_mono_ns(events->config.clock);
    return call;
}

static void
write_series(struct wp_events *events, struct series *series)
{
    const struct wp_api_target target = {
        .kind = WP_KIND_EVENT,
        .ns = series->ns,
        .name = series->name,
        .priority = WP_HTTP_EVENT,
    };
    json_t *body = json_object();
    json_t *json = json_object();
    char when[40];

    (void)wp_time_format_utc(series->heard_wall_ns, 6, when);
    wp_json_set(json, "count", json_integer(series->count));
    wp_json_set_text(json, "lastObservedTime", when);
    wp_json_set(body, "series", json);
    wp_api_patch(events->config.api, &target, body, on_written,
                 begin_call(events, series));
}

static json_t *
regarding(const struct wp_object *about)
{
    const struct wp_kind_info *info = wp_kind_info(about->kind);
    json_t *json = json_object();

    wp_json_set_text(json, "apiVersion", info->api_version);
    wp_json_set_text(json, "kind", info->kind);
    if (about->ns[0] != '\0') {
        wp_json_set_text(json, "namespace", about->ns);
    }
    wp_json_set_text(json, "name", about->name);
    wp_json_set_text(json, "uid", about->uid);
    wp_json_set_text(json, "resourceVersion", about->resource_version);
    return json;
}

static void
write_first(struct wp_events *events, struct series *series,
            const struct wp_object *about, const struct wp_event *event,
            const char *note)
{
    const struct wp_api_target target = {
        .kind = WP_KIND_EVENT,
        .ns = series->ns,
        .priority = WP_HTTP_EVENT,
    };
    json_t *metadata = json_object();
    json_t *body = json_object();
    char instance[INSTANCE_MAX + 1];
    char when[40];

    (void)wp_time_format_utc(series->heard_wall_ns, 6, when);
    (void)snprintf(instance, sizeof instance, "%s", events->config.instance);
    wp_json_set_text(metadata, "name", series->name);
    wp_json_set_text(metadata, "namespace", series->ns);
    wp_json_set_text(body, "apiVersion",
                     wp_kind_info(WP_KIND_EVENT)->api_version);
    wp_json_set_text(body, "kind", wp_kind_info(WP_KIND_EVENT)->kind);
    wp_json_set(body, "metadata", metadata);
    wp_json_set_text(body, "eventTime", when);
    wp_json_set_text(body, "reportingController", event->controller);
    wp_json_set_text(body, "reportingInstance", instance);
    wp_json_set_text(body, "action", event->action);
    wp_json_set_text(body, "reason", event->reason);
    wp_json_set_text(body, "type", event->warning ? "Warning" : "Normal");
    wp_json_set_text(body, "note", note);
    wp_json_set(body, "regarding", regarding(about));
    wp_api_post(events->config.api, &target, body, on_written,
                begin_call(events, series));
}

/* --- Time --- */

static int64_t
due_of(const struct series *series)
{
    return series->under_way || series->count <= series->written
               ? WP_TIME_NEVER
               : series->tried_ns + WRITE_NS;
}

/* Writes the series that are due and forgets the old ones. */
static void
look(struct wp_events *events)
{
    int64_t now_ns = wp_clock_mono_ns(events->config.clock);
    struct wp_list *node = events->by_age.next;

    events->look_ns = now_ns + LOOK_NS;
    while (node != &events->by_age) {
        struct series *series = WP_CONTAINER_OF(node, struct series, by_age);

        node = node->next;
        if (due_of(series) <= now_ns) {
            write_series(events, series);
        } else if (now_ns - series->heard_ns >= SERIES_NS &&
                   !series->under_way && due_of(series) == WP_TIME_NEVER) {
            forget(events, series);
        }
    }
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    look(ctx);
}

/* --- Outside --- */

struct wp_events *
wp_events_create(const struct wp_events_config *config)
{
    const struct timeval period = {LOOK_NS / WP_NS_PER_S, 0};
    struct wp_events *events = calloc(1, sizeof *events);

    if (events == NULL) {
        return NULL;
    }
    events->config = *config;
    wp_list_init(&events->by_age);
    wp_list_init(&events->calls);
    wp_random_bytes(&events->hash_key, sizeof events->hash_key);
    events->timer = event_new(config->base, -1, EV_PERSIST, on_timer, events);
    if (events->timer == NULL || event_add(events->timer, &period) != 0) {
        wp_events_destroy(events);
        return NULL;
    }
    return events;
}

void
wp_events_destroy(struct wp_events *events)
{
    if (events == NULL) {
        return;
    }
    while (!wp_list_empty(&events->calls)) {
        struct wp_list *node = wp_list_pop_front(&events->calls);

        WP_CONTAINER_OF(node, struct call, node)->events = NULL;
    }
    while (!wp_list_empty(&events->by_age)) {
        forget(events, oldest(events));
    }
    if (events->timer != NULL) {
        event_free(events->timer);
    }
    free(events);
}

/* Cuts whole characters only; what is no UTF-8 at all becomes '?'. */
static void
tidy_note(char *note)
{
    size_t len = strlen(note);

    if (len > WP_EVENTS_NOTE_MAX) {
        len = WP_EVENTS_NOTE_MAX;
        while (len > 0 && ((unsigned char)note[len] & 0xc0) == 0x80) {
            len--;
        }
        note[len] = '\0';
    }
    if (!wp_str_is_utf8(wp_str_from(note))) {
        for (char *c = note; *c != '\0'; c++) {
            if ((unsigned char)*c >= 0x80) {
                *c = '?';
            }
        }
    }
}

static struct wp_hash128
hash_of(const struct wp_events *events, const struct wp_object *about,
        const struct wp_event *event, const char *note)
{
    char text[WP_EVENTS_NOTE_MAX + 1024];
    int len = snprintf(text, sizeof text, "%s\n%s\n%s\n%s\n%d\n%s", about->uid,
                       event->controller, event->action, event->reason,
                       event->warning ? 1 : 0, note);
    size_t used = len > 0 ? (size_t)len : 0;

    return wp_siphash128(events->hash_key, text,
                         used < sizeof text ? used : sizeof text - 1);
}

static void
name_series(struct wp_events *events, struct series *series,
            const struct wp_object *about)
{
    (void)snprintf(series->ns, sizeof series->ns, "%s",
                   about->ns[0] != '\0' ? about->ns : "default");
    (void)snprintf(series->name, sizeof series->name, "%.*s.%llx", NAME_MAX_LEN,
                   about->name,
                   (unsigned long long)(series->heard_wall_ns) +
                       events->made++);
}

void
wp_events_record(struct wp_events *events, const struct wp_object *about,
                 const struct wp_event *event, const char *fmt, ...)
{
    char note[WP_EVENTS_NOTE_MAX + 8] = "";
    struct wp_hash128 hash;
    struct series *series;
    int64_t now_ns = wp_clock_mono_ns(events->config.clock);
    va_list args;
    bool is_new;

    if (events->config.off) {
        return;
    }
    va_start(args, fmt);
    (void)vsnprintf(note, sizeof note, fmt, args);
    va_end(args);
    tidy_note(note);
    if (now_ns >= events->look_ns) {
        look(events);
    }
    hash = hash_of(events, about, event, note);
    series = find(events, hash);
    if (series != NULL && now_ns - series->heard_ns >= SERIES_NS) {
        forget(events, series);
        series = NULL;
    }
    is_new = series == NULL;
    if (is_new) {
        series = add(events, hash);
    }
    series->count++;
    series->heard_ns = now_ns;
    series->heard_wall_ns = wp_clock_wall_ns(events->config.clock);
    wp_list_remove(&series->by_age);
    wp_list_push_back(&events->by_age, &series->by_age);
    if (is_new) {
        name_series(events, series, about);
        write_first(events, series, about, event, note);
    }
}

uint64_t
wp_events_dropped(const struct wp_events *events)
{
    return events->dropped;
}
