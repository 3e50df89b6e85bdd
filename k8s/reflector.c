#include "k8s/reflector.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/line.h"
#include "k8s/watch_event.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"

#define PAUSE_MIN_NS (100 * WP_NS_PER_MS)
#define PAUSE_FIRST_NS (500 * WP_NS_PER_MS)
#define PAUSE_MAX_NS (30 * WP_NS_PER_S)
/* A server that says Retry-After is believed up to this. */
#define TOLD_PAUSE_MAX_NS (300 * WP_NS_PER_S)
/* A watch that said nothing new and ended sooner counts as a failure. */
#define WATCH_MIN_NS WP_NS_PER_S

enum {
    PAGE_LIMIT = 500,
    IDLE_TIMEOUT_S = 90,
    WATCH_TIMEOUT_MIN_S = 300, /* Asked of the server: from 300 s to 600 s. */
    /* Refusals of a watch in a row that may be about its version, as after etcd
     * was restored: then a list finds out. */
    DOUBTS_MAX = 3,
    CONTINUE_MAX = 1024,
};

/*   LIST_SOON --> LISTING --> WATCH_SOON --> WATCHING
 *       ^            |  ^      |  ^   ^         |
 *       +-- failed --+  |      v  |   +- ended -+
 *       |         next page    PROBING          |
 *       +---- went back -------+                |
 *       +---- version gone, stalled ------------+
 * The timer belongs to LIST_SOON and WATCH_SOON, where it ends a pause, and to
 * WATCHING, where it looks whether the watch stands still. */
enum state {
    LIST_SOON,
    LISTING,
    WATCH_SOON,
    PROBING,
    WATCHING,
    ENDED, /* The client was destroyed: nothing can be asked any more. */
};

struct wp_reflector {
    struct wp_reflector_config config;
    enum state state;
    bool stopped; /* Freed when the list or probe under way has ended. */
    struct event *timer;
    struct wp_rng rng;
    uint32_t failures; /* In a row; until a watch has proved itself. */
    uint32_t doubts;   /* About the version, since a list or progress. */
    uint32_t page_limit;
    char version[WP_VERSION_MAX]; /* Where a watch goes on. */
    char cont[CONTINUE_MAX]; /* The next page of a list; "" is its first. */
    struct wp_http_stream *stream; /* While WATCHING. */
    struct wp_line line;
    int64_t watch_begun_ns;
    int64_t line_ns;  /* The last whole line. */
    bool went_back;   /* The server, since the last whole list. */
    bool heard;       /* Others know that it did. */
    bool unsure;      /* Whether it is the same server: its connection broke. */
    bool progress;    /* This watch told a new version. */
    bool list_needed; /* Once this watch has ended. */
    bool line_broken; /* It was ended for what it told. */
    bool line_last;   /* on_bytes has ended it. */
    struct wp_reflector_stats stats;
};

static void begin_list(struct wp_reflector *self);

static int64_t
now_of(const struct wp_reflector *self)
{
    return wp_clock_mono_ns(self->config.clock);
}

static const char *
plural(const struct wp_reflector *self)
{
    return wp_kind_info(self->config.kind)->plural;
}

static void
set_timer(struct wp_reflector *self, int64_t after_ns)
{
    struct timeval after = {
        .tv_sec = after_ns / WP_NS_PER_S,
        .tv_usec = after_ns % WP_NS_PER_S / WP_NS_PER_US,
    };
    int failed = evtimer_add(self->timer, &after);

    WP_ASSERT(failed == 0);
}

/* --- Pauses --- */

/* Full jitter, with a floor so that nothing ever spins. */
static int64_t
pause_ns(struct wp_reflector *self)
{
    uint32_t doublings = self->failures < 7 ? self->failures - 1 : 6;
    int64_t most_ns = PAUSE_FIRST_NS << doublings;
    int64_t wait_ns;

    most_ns = most_ns < PAUSE_MAX_NS ? most_ns : PAUSE_MAX_NS;
    wait_ns = (int64_t)wp_rng_below(&self->rng, (uint64_t)most_ns + 1);
    return wait_ns > PAUSE_MIN_NS ? wait_ns : PAUSE_MIN_NS;
}

/* state: LIST_SOON or WATCH_SOON. At once when nothing has failed. told_ns: for
 * how long the server wants to be left alone; -1: it did not say. */
static void
go_on(struct wp_reflector *self, enum state state, int64_t told_ns)
{
    int64_t wait_ns = self->failures > 0 ? pause_ns(self) : 0;

    told_ns = told_ns < TOLD_PAUSE_MAX_NS ? told_ns : TOLD_PAUSE_MAX_NS;
    self->state = state;
    self->cont[0] = '\0';
    set_timer(self, wait_ns > told_ns ? wait_ns : told_ns);
}

/* --- Objects --- */

/* NULL: it makes no sense, which was said; the rest goes on without it. */
static struct wp_object *
read_object(struct wp_reflector *self, const json_t *json)
{
    struct wp_err err = {.msg = ""};
    struct wp_object *object = wp_object_create(self->config.kind, json, &err);

    if (object == NULL) {
        self->stats.broken++;
        wp_log_warn("an object was left out", wp_kv_str("kind", plural(self)),
                    wp_kv_err(&err));
    }
    return object;
}

static const char *
text_at(const json_t *json, const char *first, const char *second)
{
    const char *text = json_string_value(
        json_object_get(json_object_get(json, first), second));

    return text != NULL ? text : "";
}

/* --- Versions --- */

/* Their numbers grow on every known server; where one is none, false. */
static bool
is_before(const char *version, const char *other)
{
    uint64_t a;
    uint64_t b;

    return wp_str_to_u64(wp_str_from(version), &a) &&
           wp_str_to_u64(wp_str_from(other), &b) && a < b;
}

/* --- Lists --- */

/* Once for each time that it did. */
static void
tell_if_back(struct wp_reflector *self)
{
    if ((self->went_back || wp_store_overruled(self->config.store)) &&
        !self->heard) {
        self->heard = true;
        if (self->config.on_went_back != NULL) {
            self->config.on_went_back(self->config.ctx);
        }
    }
}

/* A page was taken in; the rest is left for the next. */
static bool
take_page(struct wp_reflector *self, const json_t *list)
{
    const json_t *items = json_object_get(list, "items");
    const char *version = text_at(list, "metadata", "resourceVersion");
    bool first = self->cont[0] == '\0';
    size_t i;
    json_t *item;

    bool back = first && is_before(version, self->version);

    self->heard |= self->went_back;
    self->went_back |= back;
    if ((!json_is_array(items) && !json_is_null(items)) || version[0] == '\0' ||
        !wp_str_copy(wp_str_from(version), self->version,
                     sizeof self->version) ||
        !wp_str_copy(wp_str_from(text_at(list, "metadata", "continue")),
                     self->cont, sizeof self->cont)) {
        return false;
    }
    if (first && self->went_back) {
        wp_log_warn("the API server went back in time",
                    wp_kv_str("kind", plural(self)),
                    wp_kv_str("version", version));
        wp_store_replace_all(self->config.store);
    } else if (first) {
        wp_store_replace_from(self->config.store, self->version);
    }
    json_array_foreach(items, i, item)
    {
        struct wp_object *object = read_object(self, item);

        if (object != NULL) {
            wp_store_put(self->config.store, object);
        }
    }
    tell_if_back(self);
    return true;
}

static void
list_whole(struct wp_reflector *self)
{
    self->doubts = 0;
    self->went_back = false;
    self->heard = false;
    self->unsure = false;
    self->page_limit = self->page_limit < self->config.page_limit / 2
                           ? self->page_limit * 2
                           : self->config.page_limit;
    wp_store_replace_end(self->config.store, self->version);
    /* Whether all is well again only the watch can tell, so failures stay. */
    self->state = WATCH_SOON;
    set_timer(self, 0);
    self->config.on_synced(self->config.ctx);
}

static void
list_failed(struct wp_reflector *self, const struct wp_api_result *result)
{
    const char *message = result->message != NULL ? result->message : "";

    self->failures++;
    self->stats.gone += result->code == 410;
    /* It began well and could not be used: too long, or cut. Fewer may do, and
     * need no long pause. */
    if (result->code == 200 && self->page_limit > 1) {
        self->page_limit = self->page_limit > 4 ? self->page_limit / 4 : 1;
        self->failures = 1;
    }
    wp_log_warn("a list failed", wp_kv_str("kind", plural(self)),
                wp_kv_int("code", result->code), wp_kv_str("error", message));
    go_on(self, LIST_SOON, result->retry_after_ns);
    if ((result->code == 403 || result->code == 404) &&
        self->config.on_refused != NULL) {
        self->config.on_refused(self->config.ctx, result->code, message);
    }
}

static void
reflector_free(struct wp_reflector *self)
{
    event_free(self->timer);
    wp_line_fini(&self->line);
    free(self);
}

static void
on_list(void *ctx, const struct wp_api_result *result)
{
    struct wp_reflector *self = ctx;
    struct wp_api_result broken = *result;

    if (self->stopped) {
        reflector_free(self);
    } else if (result->status == WP_CANCELLED) {
        self->state = ENDED;
    } else if (result->status != WP_OK) {
        list_failed(self, result);
    } else if (!take_page(self, result->object)) {
        self->stats.broken++;
        broken.message = "the list lacks items or metadata.resourceVersion";
        list_failed(self, &broken);
    } else if (self->cont[0] != '\0') {
        begin_list(self);
    } else {
        list_whole(self);
    }
}

/* Its first page, or the next. */
static void
begin_list(struct wp_reflector *self)
{
    struct wp_api_target target = {
        .kind = self->config.kind,
        .ns = self->config.ns,
        .priority = WP_HTTP_NORMAL,
    };
    struct wp_api_query query = {
        .label_selector = self->config.label_selector,
        .cont = self->cont[0] != '\0' ? self->cont : NULL,
        .limit = self->page_limit,
    };

    self->state = LISTING;
    if (query.cont == NULL) {
        self->stats.lists++;
        wp_store_replace_begin(self->config.store);
    }
    wp_api_list(self->config.api, &target, &query, on_list, self);
}

/* --- Probes --- */

static void begin_watch(struct wp_reflector *self);

static void
probe_answered(struct wp_reflector *self, const struct wp_api_result *result)
{
    const char *version =
        text_at(result->object, "metadata", "resourceVersion");

    if (self->went_back || result->code == 403 || result->code == 404 ||
        (result->status == WP_OK && is_before(version, self->version))) {
        self->cont[0] = '\0';
        begin_list(self);
    } else if (result->status == WP_OK) {
        self->unsure = false;
        begin_watch(self);
    } else {
        self->failures++;
        go_on(self, WATCH_SOON, result->retry_after_ns);
    }
}

static void
on_probe(void *ctx, const struct wp_api_result *result)
{
    struct wp_reflector *self = ctx;

    if (self->stopped) {
        reflector_free(self);
    } else if (result->status == WP_CANCELLED) {
        self->state = ENDED;
    } else {
        probe_answered(self, result);
    }
}

/* Whoever answers now may be a server whose storage was brought back from a
 * backup. Its watch would be silent until its versions have come this far, and
 * then leave out what is different; its version tells. */
static void
begin_probe(struct wp_reflector *self)
{
    struct wp_api_target target = {
        .kind = self->config.kind,
        .ns = self->config.ns,
        .priority = WP_HTTP_NORMAL,
    };
    struct wp_api_query query = {.label_selector = self->config.label_selector,
                                 .limit = 1};

    self->state = PROBING;
    self->stats.probes++;
    wp_api_list(self->config.api, &target, &query, on_probe, self);
}

/* --- Watches --- */

static void
tell_broken(struct wp_reflector *self, const char *error)
{
    self->stats.broken++;
    self->line_broken = true;
    self->list_needed = true;
    wp_log_warn("a watch told what makes no sense",
                wp_kv_str("kind", plural(self)), wp_kv_str("error", error));
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
                wp_kv_str("kind", plural(self)), wp_kv_int("code", event->code),
                wp_kv_str("error", event->message));
}

/* What our own writes were answered with is known already. */
static bool
is_known(const struct wp_reflector *self, const struct wp_watch_event *event)
{
    return event->type != WP_WATCH_DELETED &&
           wp_store_knows(self->config.store,
                          text_at(event->object, "metadata", "namespace"),
                          text_at(event->object, "metadata", "name"),
                          text_at(event->object, "metadata", "uid"),
                          event->version);
}

static void
take_change(struct wp_reflector *self, const struct wp_watch_event *event)
{
    struct wp_object *object;

    if (is_known(self, event)) {
        return;
    }
    object = read_object(self, event->object);

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
        is_before(event->version, self->version)) {
        return true; /* Twice, or late: nothing that is known gets older. */
    }
    (void)snprintf(self->version, sizeof self->version, "%s", event->version);
    self->progress = true;
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

    self->line_ns = now_of(self);
    self->stats.last_event_ns = self->line_ns;
    if (text.len == 0) {
        return true;
    }
    if (wp_watch_event_read(&event, text, &err) != WP_OK) {
        tell_broken(self, err.msg);
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
        tell_broken(self, "an event is too long");
        break;
    case WP_LINE_NO_MEMORY:
        tell_broken(self, "no memory for an event");
        break;
    }
    self->line_last = true;
    return false;
}

/* The stream is gone; what now? answered: the watch had begun. */
static void
watch_over(struct wp_reflector *self, bool answered, int64_t told_ns)
{
    int64_t lived_ns = now_of(self) - self->watch_begun_ns;

    self->stream = NULL;
    wp_line_reset(&self->line);
    if (self->progress) {
        self->doubts = 0;
    }
    if (self->line_broken ||
        (!self->progress && (!answered || lived_ns < WATCH_MIN_NS))) {
        self->failures++;
    } else {
        self->failures = 0;
    }
    go_on(self,
          self->list_needed || self->doubts >= DOUBTS_MAX ? LIST_SOON
                                                          : WATCH_SOON,
          told_ns);
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
        self->state = ENDED;
        (void)evtimer_del(self->timer);
        return;
    }
    if (answer->status == WP_OK && answer->code != 200) {
        on_refusal(self, answer->code);
    }
    self->unsure |= answer->status != WP_OK;
    if (answer->status != WP_OK || answer->code != 200) {
        wp_log_info(
            "a watch ended", wp_kv_str("kind", plural(self)),
            wp_kv_int("code", answer->code),
            wp_kv_str("error", answer->error != NULL ? answer->error : ""));
    }
    watch_over(self, answer->code == 200, answer->retry_after_ns);
}

static void
begin_watch(struct wp_reflector *self)
{
    struct wp_api_target target = {
        .kind = self->config.kind,
        .ns = self->config.ns,
        .priority = WP_HTTP_NORMAL,
    };
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

    self->state = WATCHING;
    self->watch_begun_ns = now_of(self);
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
        watch_over(self, false, -1);
    } else {
        set_timer(self, self->config.idle_timeout_ns);
    }
}

/* A stalled watch is seen by its lines, not by its bytes: what drips and never
 * becomes a line helps nobody. */
static void
check_watch(struct wp_reflector *self)
{
    int64_t left_ns =
        self->line_ns + self->config.idle_timeout_ns - now_of(self);

    if (left_ns > 0 && !self->went_back) {
        set_timer(self, left_ns);
        return;
    }
    if (!self->went_back) {
        self->stats.stalled++;
        wp_log_warn("a watch stood still and is begun anew",
                    wp_kv_str("kind", plural(self)));
    }
    wp_http_stream_close(self->stream);
    /* Waiting for it was pause enough. A version that is still to come, as
     * after etcd was restored, is watched in silence, too: a list finds out. */
    self->list_needed = true;
    watch_over(self, true, -1);
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_reflector *self = ctx;

    (void)fd;
    (void)what;
    switch (self->state) {
    case LIST_SOON:
        begin_list(self);
        break;
    case WATCH_SOON:
        if (self->unsure) {
            begin_probe(self);
        } else {
            begin_watch(self);
        }
        break;
    case WATCHING:
        check_watch(self);
        break;
    case LISTING:
    case PROBING:
    case ENDED:
        break;
    }
}

/* --- Begin and end --- */

struct wp_reflector *
wp_reflector_start(const struct wp_reflector_config *config)
{
    struct wp_reflector *self = calloc(1, sizeof *self);

    if (self == NULL) {
        return NULL;
    }
    self->config = *config;
    if (self->config.page_limit == 0) {
        self->config.page_limit = PAGE_LIMIT;
    }
    if (self->config.idle_timeout_ns == 0) {
        self->config.idle_timeout_ns = IDLE_TIMEOUT_S * WP_NS_PER_S;
    }
    self->page_limit = self->config.page_limit;
    wp_rng_init(&self->rng, config->seed ^ (uint64_t)config->kind);
    wp_line_init(&self->line, WP_OBJECT_BYTES_MAX);
    self->timer = evtimer_new(config->base, on_timer, self);
    if (self->timer == NULL) {
        free(self);
        return NULL;
    }
    go_on(self, LIST_SOON, -1);
    return self;
}

void
wp_reflector_went_back(struct wp_reflector *reflector)
{
    struct wp_reflector *self = reflector;

    switch (self->state) {
    case WATCHING:
        self->went_back = true;
        self->list_needed = true;
        set_timer(self, 0); /* The client may be in the middle of a turn. */
        break;
    case WATCH_SOON:
        self->went_back = true;
        self->state = LIST_SOON; /* When its pause is over. */
        break;
    case LIST_SOON:
    case PROBING:
        self->went_back = true;
        break;
    case LISTING: /* Of the server as it is. */
        self->heard = true;
        break;
    case ENDED:
        break;
    }
}

void
wp_reflector_stop(struct wp_reflector *reflector)
{
    struct wp_reflector *self = reflector;

    if (self == NULL) {
        return;
    }
    if (self->stream != NULL) {
        wp_http_stream_close(self->stream);
    }
    if (self->state == LISTING || self->state == PROBING) {
        self->stopped = true; /* on_list or on_probe frees it. */
    } else {
        reflector_free(self);
    }
}

void
wp_reflector_stats(const struct wp_reflector *reflector,
                   struct wp_reflector_stats *out)
{
    *out = reflector->stats;
}
