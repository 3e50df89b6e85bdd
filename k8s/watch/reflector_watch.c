/* k8s/watch/reflector_watch.c - what a watch tells, and how it ends. */
#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/watch/reflector_impl.h"
#include "pool/base/log.h"

/* A watch that said nothing new and ended sooner counts as a failure. */
#define WATCH_MIN_NS WP_NS_PER_S
/* A server refuses a version at once: what goes on for so long goes on. */
#define WATCH_PROVEN_NS WP_NS_PER_S

enum {
    WATCH_TIMEOUT_MIN_S = 300, /* Asked of the server: from 300 s to 600 s. */
    /* Refusals of a watch in a row that may be about its version, as after etcd
     * was restored: then a list finds out. */
    DOUBTS_MAX = 3,
};

static void
say_broken(struct wp_reflector *self, const char *error)
{
    self->stats.broken++;
    self->line_broken = true;
    self->list_needed = true;
    wp_log_warn("a watch sent what makes no sense",
                wp_kv_str("kind", wp_reflector_plural(self)),
                wp_kv_str("error", error));
}

/* The server ends the watch, and says why. */
static void
take_error(struct wp_reflector *self, const struct wp_watch_event *event)
{
    if (event->code == 410) {
        self->stats.gone++;
        self->list_needed = true;
    } else {
        self->doubts++;
    }
    wp_log_info("a watch was ended by the API server",
                wp_kv_str("kind", wp_reflector_plural(self)),
                wp_kv_int("code", event->code),
                wp_kv_str("error", event->message));
}

/* What our own writes were answered with is known already. */
static bool
is_known(const struct wp_reflector *self, const struct wp_watch_event *event)
{
    return event->type != WP_WATCH_DELETED &&
           wp_store_knows(
               self->config.store,
               wp_json_text(event->object, "metadata", "namespace", NULL),
               wp_json_text(event->object, "metadata", "name", NULL),
               wp_json_text(event->object, "metadata", "uid", NULL),
               event->version);
}

static void
take_change(struct wp_reflector *self, const struct wp_watch_event *event)
{
    struct wp_object *object;

    if (is_known(self, event)) {
        return;
    }
    object = wp_reflector_read(self, event->object);

    if (object != NULL && event->type == WP_WATCH_DELETED) {
        wp_store_remove(self->config.store, object);
        wp_object_unref(object);
    } else if (object != NULL) {
        wp_store_put(self->config.store, object);
    }
}

/* False ends the watch. */
static bool
take_event(struct wp_reflector *self, const struct wp_watch_event *event)
{
    if (event->type == WP_WATCH_ERROR) {
        take_error(self, event);
        return false;
    }
    self->stats.events += event->type != WP_WATCH_BOOKMARK;
    self->stats.bookmarks += event->type == WP_WATCH_BOOKMARK;
    if (strcmp(event->version, self->version) == 0 ||
        wp_reflector_is_before(event->version, self->version)) {
        return true; /* Twice, or late: nothing that is known gets older. */
    }
    (void)snprintf(self->version, sizeof self->version, "%s", event->version);
    self->progress = true;
    wp_reflector_doubt(self, false);
    if (event->type != WP_WATCH_BOOKMARK) {
        take_change(self, event);
    }
    return true;
}

static bool
on_line(void *ctx, struct wp_str text)
{
    struct wp_reflector *self = ctx;
    struct wp_watch_event event;
    struct wp_err err = {.msg = ""};
    bool more;

    self->line_ns = wp_reflector_now_ns(self);
    if (text.len == 0) {
        return true;
    }
    if (wp_watch_event_read(&event, text, &err) != WP_OK) {
        say_broken(self, err.msg);
        return false;
    }
    more = take_event(self, &event);
    wp_watch_event_fini(&event);
    return more;
}

static bool
on_bytes(void *ctx, struct wp_str bytes)
{
    struct wp_reflector *self = ctx;

    switch (wp_line_feed(&self->line, bytes, on_line, self)) {
    case WP_LINE_OK:
        return true;
    case WP_LINE_STOPPED:
        break; /* It was said why. */
    case WP_LINE_TOO_LONG:
        say_broken(self, "an event is too long");
        break;
    case WP_LINE_NO_MEMORY:
        say_broken(self, "no memory for an event");
        break;
    }
    self->line_last = true;
    return false;
}

/* The stream is gone; what now? code: what it was answered with; 200: the watch
 * had begun. */
static void
watch_over(struct wp_reflector *self, int code, int64_t asked_pause_ns)
{
    bool answered = code == 200;
    int64_t lived_ns = wp_reflector_now_ns(self) - self->watch_begun_ns;

    self->stream = NULL;
    wp_line_reset(&self->line);
    if (self->progress) {
        self->doubts = 0;
    }
    if (!answered || self->unsure || self->list_needed ||
        lived_ns < self->watch_asked_ns) {
        wp_reflector_doubt(self, true);
    }
    if (self->line_broken ||
        (!self->progress && (!answered || lived_ns < WATCH_MIN_NS))) {
        wp_reflector_note_failure(self, code);
    } else {
        self->failures = 0;
    }
    wp_reflector_go_on(self,
                       self->list_needed || self->doubts >= DOUBTS_MAX
                           ? WP_REFLECTOR_LIST_SOON
                           : WP_REFLECTOR_WATCH_SOON,
                       asked_pause_ns);
}

/* The server refused the watch. */
static void
on_refusal(struct wp_reflector *self, int code)
{
    if (code == 410) {
        self->stats.gone++;
        self->list_needed = true;
    } else if (code == 403 || code == 404) {
        self->list_needed = true; /* Which tells on_refused. */
    } else if (code == 400 || code == 504) {
        self->doubts++;
    }
}

static void
on_end(void *ctx, const struct wp_http_answer *answer)
{
    struct wp_reflector *self = ctx;

    if (answer->status == WP_CANCELLED && !self->line_last) {
        self->stream = NULL;
        self->state = WP_REFLECTOR_ENDED;
        (void)evtimer_del(self->timer);
        return;
    }
    if (answer->status == WP_OK && answer->code != 200) {
        on_refusal(self, answer->code);
    }
    self->unsure |= answer->status != WP_OK;
    if (answer->status != WP_OK || answer->code != 200) {
        wp_log_info(
            "a watch ended", wp_kv_str("kind", wp_reflector_plural(self)),
            wp_kv_int("code", answer->code),
            wp_kv_str("error", answer->error != NULL ? answer->error : ""));
    }
    watch_over(self, answer->code, answer->retry_after_ns);
}

/* While there is a doubt, also when the watch may have proved itself. */
static void
look_again(struct wp_reflector *self, int64_t idle_ns)
{
    wp_reflector_set_timer(self, self->doubtful && idle_ns > WATCH_PROVEN_NS
                                     ? WATCH_PROVEN_NS
                                     : idle_ns);
}

void
wp_reflector_watch(struct wp_reflector *self)
{
    struct wp_api_target target = wp_reflector_target(self);
    struct wp_api_query query = {
        .label_selector = self->config.label_selector,
        .resource_version = self->version,
        .timeout_s =
            WATCH_TIMEOUT_MIN_S +
            (uint32_t)wp_rng_below(&self->rng, WATCH_TIMEOUT_MIN_S + 1),
    };
    char path[WP_HTTP_PATH_MAX];
    struct wp_http_stream_config stream = {
        .path = path,
        .on_bytes = on_bytes,
        .on_end = on_end,
        .ctx = self,
    };

    self->state = WP_REFLECTOR_WATCHING;
    self->watch_begun_ns = wp_reflector_now_ns(self);
    self->watch_asked_ns = query.timeout_s * WP_NS_PER_S;
    self->line_ns = self->watch_begun_ns;
    self->progress = false;
    self->list_needed = false;
    self->line_broken = false;
    self->line_last = false;
    self->stats.watches++;
    if (wp_api_watch_path(&target, &query, path)) {
        self->stream =
            wp_http_stream_open(wp_api_http(self->config.api), &stream);
    }
    if (self->stream == NULL) {
        watch_over(self, 0, -1);
    } else {
        look_again(self, self->config.idle_timeout_ns);
    }
}

void
wp_reflector_check_watch(struct wp_reflector *self)
{
    int64_t now_ns = wp_reflector_now_ns(self);
    int64_t left_ns = self->line_ns + self->config.idle_timeout_ns - now_ns;

    if (left_ns > 0 && !self->went_back) {
        if (now_ns - self->watch_begun_ns >= WATCH_PROVEN_NS &&
            wp_http_stream_answered(self->stream)) {
            wp_reflector_doubt(self, false);
        }
        look_again(self, left_ns);
        return;
    }
    if (!self->went_back) {
        self->stats.stalled++;
        wp_log_warn("a watch stood still and is begun anew",
                    wp_kv_str("kind", wp_reflector_plural(self)));
    }
    wp_http_stream_close(self->stream);
    /* Waiting for it was pause enough. A version that is still to come, as
     * after etcd was restored, is watched in silence, too: a list finds out. */
    self->list_needed = true;
    watch_over(self, 200, -1);
}
