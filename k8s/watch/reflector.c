#include "k8s/watch/reflector_impl.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/log.h"

#define PAUSE_MIN_NS (100 * WP_NS_PER_MS)
#define PAUSE_FIRST_NS (500 * WP_NS_PER_MS)
#define PAUSE_MAX_NS (30 * WP_NS_PER_S)
/* While nothing answers: claims wait for the server to be back, and so few
 * requests are no load for one that is only slow. */
#define SILENT_PAUSE_MAX_NS (5 * WP_NS_PER_S)
/* A server that says Retry-After is believed up to this. */
#define ASKED_PAUSE_MAX_NS (300 * WP_NS_PER_S)

enum {
    PAGE_LIMIT = 500,
    IDLE_TIMEOUT_S = 90,
};

int64_t
wp_reflector_now_ns(const struct wp_reflector *self)
{
    return wp_clock_mono_ns(self->config.clock);
}

const char *
wp_reflector_plural(const struct wp_reflector *self)
{
    return wp_kind_info(self->config.kind)->plural;
}

struct wp_api_target
wp_reflector_target(const struct wp_reflector *self)
{
    return (struct wp_api_target){
        .kind = self->config.kind,
        .ns = self->config.ns,
        .priority = WP_HTTP_NORMAL,
    };
}

void
wp_reflector_set_timer(struct wp_reflector *self, int64_t after_ns)
{
    struct timeval after = wp_timeval(after_ns);
    int failed = evtimer_add(self->timer, &after);

    WP_ASSERT(failed == 0);
}

/* --- Pauses --- */

void
wp_reflector_note_failure(struct wp_reflector *self, int code)
{
    bool silent = code == 0;

    self->failures = self->silent && !silent ? 1 : self->failures + 1;
    self->silent = silent;
}

/* Full jitter, with a floor so that nothing ever spins. */
static int64_t
pause_ns(struct wp_reflector *self)
{
    int64_t most_ns = wp_backoff_ns(
        PAUSE_FIRST_NS, self->silent ? SILENT_PAUSE_MAX_NS : PAUSE_MAX_NS,
        self->failures);
    int64_t wait_ns = (int64_t)wp_rng_below(&self->rng, (uint64_t)most_ns + 1);

    return wait_ns > PAUSE_MIN_NS ? wait_ns : PAUSE_MIN_NS;
}

void
wp_reflector_go_on(struct wp_reflector *self, enum wp_reflector_state state,
                   int64_t asked_pause_ns)
{
    int64_t wait_ns = self->failures > 0 ? pause_ns(self) : 0;

    asked_pause_ns = asked_pause_ns < ASKED_PAUSE_MAX_NS ? asked_pause_ns
                                                         : ASKED_PAUSE_MAX_NS;
    self->state = state;
    self->cont[0] = '\0';
    wp_reflector_set_timer(self,
                           wait_ns > asked_pause_ns ? wait_ns : asked_pause_ns);
}

/* --- Doubt --- */

void
wp_reflector_doubt(struct wp_reflector *self, bool doubtful)
{
    if (self->doubtful != doubtful) {
        self->doubtful = doubtful;
        if (self->config.on_doubt != NULL) {
            self->config.on_doubt(self->config.ctx, doubtful);
        }
    }
}

/* --- Objects --- */

struct wp_object *
wp_reflector_read(struct wp_reflector *self, const json_t *json)
{
    struct wp_err err = {.msg = ""};
    struct wp_object *object = wp_object_create(self->config.kind, json, &err);

    if (object == NULL) {
        self->stats.broken++;
        wp_log_warn("an object was left out",
                    wp_kv_str("kind", wp_reflector_plural(self)),
                    wp_kv_err(&err));
    }
    return object;
}

/* --- Versions --- */

bool
wp_reflector_is_before(const char *version, const char *other)
{
    uint64_t a;
    uint64_t b;

    return wp_str_to_u64(wp_str_from(version), &a) &&
           wp_str_to_u64(wp_str_from(other), &b) && a < b;
}

/* --- Begin and end --- */

void
wp_reflector_free(struct wp_reflector *self)
{
    event_free(self->timer);
    wp_line_fini(&self->line);
    free(self);
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_reflector *self = ctx;

    (void)fd;
    (void)what;
    switch (self->state) {
    case WP_REFLECTOR_LIST_SOON:
        wp_reflector_list(self);
        break;
    case WP_REFLECTOR_WATCH_SOON:
        if (self->unsure) {
            wp_reflector_probe(self);
        } else {
            wp_reflector_watch(self);
        }
        break;
    case WP_REFLECTOR_WATCHING:
        wp_reflector_check_watch(self);
        break;
    case WP_REFLECTOR_LISTING:
    case WP_REFLECTOR_PROBING:
    case WP_REFLECTOR_ENDED:
        break;
    }
}

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
    wp_reflector_go_on(self, WP_REFLECTOR_LIST_SOON, -1);
    return self;
}

void
wp_reflector_went_back(struct wp_reflector *reflector)
{
    struct wp_reflector *self = reflector;

    switch (self->state) {
    case WP_REFLECTOR_WATCHING:
        self->went_back = true;
        self->list_needed = true;
        /* The client may be in the middle of a turn. */
        wp_reflector_set_timer(self, 0);
        break;
    case WP_REFLECTOR_WATCH_SOON:
        self->went_back = true;
        self->state = WP_REFLECTOR_LIST_SOON; /* When its pause is over. */
        break;
    case WP_REFLECTOR_LIST_SOON:
    case WP_REFLECTOR_PROBING:
        self->went_back = true;
        break;
    case WP_REFLECTOR_LISTING: /* Of the server as it is. */
        self->heard = true;
        break;
    case WP_REFLECTOR_ENDED:
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
    if (self->state == WP_REFLECTOR_LISTING ||
        self->state == WP_REFLECTOR_PROBING) {
        self->stopped = true; /* on_list or on_probe frees it. */
    } else {
        wp_reflector_free(self);
    }
}

void
wp_reflector_stats(const struct wp_reflector *reflector,
                   struct wp_reflector_stats *out)
{
    *out = reflector->stats;
}
