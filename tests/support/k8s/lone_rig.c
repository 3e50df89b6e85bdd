#include "tests/support/k8s/lone_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "tests/support/base/journal.h"

enum {
    CALLS_MAX = 128,
    TEXT_MAX = 8192,
};

/* The one that a program has at a time. */
static struct {
    struct wp_work_queue_config queue;
    struct {
        enum wp_kind kind;
        wp_api_done *done;
        void *ctx;
    } calls[CALLS_MAX];
    size_t calls_len;
} lone;

static const char work;

/* --- The queue --- */

struct wp_work_queue *
__wrap_wp_work_queue_create(const struct wp_work_queue_config *config);
void __wrap_wp_work_queue_destroy(struct wp_work_queue *queue);
void __wrap_wp_work_pause(struct wp_work_queue *queue, bool paused);
void __wrap_wp_work_add(struct wp_work_queue *queue, const char *ns,
                        const char *name, bool first);
void __wrap_wp_work_add_after(struct wp_work_queue *queue, const char *ns,
                              const char *name, int64_t delay_ns);
void __wrap_wp_work_forget(struct wp_work_queue *queue, const char *ns,
                           const char *name);
void __wrap_wp_work_done(struct wp_work *done, enum wp_work_outcome outcome,
                         int64_t after_ns);

static struct wp_work_queue *
the_queue(void)
{
    return (struct wp_work_queue *)(void *)&lone.queue;
}

struct wp_work_queue *
__wrap_wp_work_queue_create(const struct wp_work_queue_config *config)
{
    lone.queue = *config;
    journal("  a queue of %u, pauses %lld to %lld", config->workers_max,
            (long long)config->backoff_min_ns,
            (long long)config->backoff_max_ns);
    journal_line();
    return the_queue();
}

void
__wrap_wp_work_queue_destroy(struct wp_work_queue *queue)
{
    assert_ptr_equal(queue, the_queue());
    lone_say("  the queue is destroyed");
}

void
__wrap_wp_work_pause(struct wp_work_queue *queue, bool paused)
{
    assert_ptr_equal(queue, the_queue());
    lone_say(paused ? "  paused" : "  goes on");
}

void
__wrap_wp_work_add(struct wp_work_queue *queue, const char *ns,
                   const char *name, bool first)
{
    assert_ptr_equal(queue, the_queue());
    journal("  add %s/%s%s", ns, name, first ? " first" : "");
    journal_line();
}

void
__wrap_wp_work_add_after(struct wp_work_queue *queue, const char *ns,
                         const char *name, int64_t delay_ns)
{
    assert_ptr_equal(queue, the_queue());
    journal("  add %s/%s after %lld", ns, name, (long long)delay_ns);
    journal_line();
}

void
__wrap_wp_work_forget(struct wp_work_queue *queue, const char *ns,
                      const char *name)
{
    assert_ptr_equal(queue, the_queue());
    journal("  forget %s/%s", ns, name);
    journal_line();
}

void
__wrap_wp_work_done(struct wp_work *done, enum wp_work_outcome outcome,
                    int64_t after_ns)
{
    static const char *const outcomes[] = {"ok", "failed", "after"};

    assert_ptr_equal(done, &work);
    journal("  done %s %lld", outcomes[outcome], (long long)after_ns);
    journal_line();
}

/* --- What it says --- */

void __wrap_wp_events_record(struct wp_events *events,
                             const struct wp_object *about,
                             const struct wp_event *event, const char *fmt, ...)
    WP_PRINTF(4, 5);

void
__wrap_wp_events_record(struct wp_events *events, const struct wp_object *about,
                        const struct wp_event *event, const char *fmt, ...)
{
    char words[WP_EVENTS_NOTE_MAX + 1];
    va_list args;

    assert_null(events);
    va_start(args, fmt);
    (void)vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    journal("  %s of %s %s/%s by %s: %s %s: %s",
            event->warning ? "warning" : "event",
            wp_kind_info(about->kind)->kind, about->ns, about->name,
            event->controller, event->action, event->reason, words);
    journal_line();
}

/* --- The API server --- */

static void
called(const char *verb, const struct wp_api_target *target, json_t *body,
       wp_api_done *done, void *ctx)
{
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;

    journal("  %s %s %s/%s%s%s priority %d%s%s", verb,
            wp_kind_info(target->kind)->kind,
            target->ns != NULL ? target->ns : "-",
            target->name != NULL ? target->name : "-",
            target->subresource != NULL ? " " : "",
            target->subresource != NULL ? target->subresource : "",
            (int)target->priority, text != NULL ? " " : "",
            text != NULL ? text : "");
    journal_line();
    free(text);
    json_decref(body);
    assert_true(lone.calls_len < CALLS_MAX);
    lone.calls[lone.calls_len].kind = target->kind;
    lone.calls[lone.calls_len].done = done;
    lone.calls[lone.calls_len++].ctx = ctx;
}

void
wp_api_get(struct wp_api *api, const struct wp_api_target *target,
           wp_api_done *done, void *ctx)
{
    (void)api;
    called("GET", target, NULL, done, ctx);
}

void
wp_api_post(struct wp_api *api, const struct wp_api_target *target,
            json_t *body, wp_api_done *done, void *ctx)
{
    (void)api;
    called("POST", target, body, done, ctx);
}

void
wp_api_check(struct wp_api *api, const struct wp_api_target *target,
             json_t *body, bool strict, wp_api_done *done, void *ctx)
{
    (void)api;
    called(strict ? "CHECK strictly" : "CHECK", target, body, done, ctx);
}

void
wp_api_put(struct wp_api *api, const struct wp_api_target *target, json_t *body,
           wp_api_done *done, void *ctx)
{
    (void)api;
    called("PUT", target, body, done, ctx);
}

void
wp_api_patch(struct wp_api *api, const struct wp_api_target *target,
             json_t *body, wp_api_done *done, void *ctx)
{
    (void)api;
    called("PATCH", target, body, done, ctx);
}

void
wp_api_delete(struct wp_api *api, const struct wp_api_target *target,
              const struct wp_api_delete *how, wp_api_done *done, void *ctx)
{
    (void)api;
    called("DELETE", target, NULL, done, ctx);
    journal("    uid %s version %s%s", how->uid != NULL ? how->uid : "-",
            how->resource_version != NULL ? how->resource_version : "-",
            how->foreground ? " foreground" : "");
    journal_line();
}

/* --- What the test does --- */

void
lone_say(const char *what)
{
    journal("%s", what);
    journal_line();
}

void
lone_rig_init(struct lone_rig *rig)
{
    memset(rig, 0, sizeof *rig);
    memset(&lone, 0, sizeof lone);
    wp_clock_manual_init(&rig->clock, 1000 * WP_NS_PER_S,
                         INT64_C(1767225600) * WP_NS_PER_S);
    rig->parts.clock = &rig->clock.clock;
    rig->parts.active = true;
    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        rig->parts.stores[i] = wp_store_create(
            (enum wp_kind)i, i == WP_KIND_SANDBOX ? WP_LABEL_WARM_POOL : NULL);
        assert_non_null(rig->parts.stores[i]);
    }
}

void
lone_rig_fini(struct lone_rig *rig)
{
    assert_int_equal(lone.calls_len, 0);
    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        wp_store_destroy(rig->parts.stores[i]);
    }
}

static json_t *
json_of(enum wp_kind kind, const char *text)
{
    const struct wp_kind_info *info = wp_kind_info(kind);
    char plain[TEXT_MAX];
    json_error_t error;
    json_t *json;
    int len = snprintf(plain, sizeof plain, "%s", text);

    assert_in_range(len, 0, (int)sizeof plain - 1);
    for (char *at = plain; *at != '\0'; at++) {
        *at = *at == '\'' ? '"' : *at;
    }
    json = json_loads(plain, 0, &error);
    if (json == NULL) {
        fail_msg("%s at %d in %s", error.text, error.position, plain);
    }
    if (json_object_get(json, "apiVersion") == NULL) {
        wp_json_set_text(json, "apiVersion", info->api_version);
        wp_json_set_text(json, "kind", info->kind);
    }
    return json;
}

static struct wp_object *
object_of(enum wp_kind kind, const char *text)
{
    json_t *json = json_of(kind, text);
    struct wp_err err;
    struct wp_object *object = wp_object_create(kind, json, &err);

    json_decref(json);
    if (object == NULL) {
        fail_msg("%s in %s", err.msg, text);
    }
    return object;
}

void
lone_put(struct lone_rig *rig, enum wp_kind kind, const char *text)
{
    struct wp_object *object = object_of(kind, text);

    journal(" put %s %s/%s %s", wp_kind_info(kind)->kind, object->ns,
            object->name, object->resource_version);
    journal_line();
    wp_store_put(rig->parts.stores[kind], object);
}

void
lone_remove(struct lone_rig *rig, enum wp_kind kind, const char *text)
{
    struct wp_object *object = object_of(kind, text);

    journal(" remove %s %s/%s", wp_kind_info(kind)->kind, object->ns,
            object->name);
    journal_line();
    wp_store_remove(rig->parts.stores[kind], object);
    wp_object_unref(object);
}

void
lone_look(const char *ns, const char *name)
{
    journal(" look at %s/%s", ns, name);
    journal_line();
    lone.queue.reconcile(lone.queue.ctx,
                         (struct wp_work *)(uintptr_t)(const void *)&work, ns,
                         name);
}

void
lone_answer(const struct wp_api_result *result, const char *object)
{
    struct wp_api_result full = *result;
    wp_api_done *done;
    void *ctx;

    assert_true(lone.calls_len > 0);
    done = lone.calls[0].done;
    ctx = lone.calls[0].ctx;
    full.kind = lone.calls[0].kind;
    full.object = object != NULL ? json_of(full.kind, object) : NULL;
    lone.calls_len--;
    memmove(&lone.calls[0], &lone.calls[1],
            lone.calls_len * sizeof lone.calls[0]);
    journal(" answered %s%s", wp_status_name(full.status),
            object != NULL ? " with an object" : "");
    journal_line();
    done(ctx, &full);
    json_decref(full.object);
}

size_t
lone_open(void)
{
    return lone.calls_len;
}

void
lone_ends(enum wp_status status)
{
    lone_answer(&(struct wp_api_result){.status = status,
                                        .message = "no luck",
                                        .retry_after_ns = -1},
                NULL);
}
