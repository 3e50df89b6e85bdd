#include "tests/support/k8s/reflector_fakes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <event2/event.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/rng.h"
#include "tests/support/base/journal.h"

struct reflector_fakes world;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *ptr, size_t size);
void *__wrap_realloc(void *ptr, size_t size);
struct event *__real_event_new(struct event_base *base, evutil_socket_t fd,
                               short what, event_callback_fn run, void *ctx);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd,
                               short what, event_callback_fn run, void *ctx);
void __real_event_free(struct event *event);
void __wrap_event_free(struct event *event);
int __real_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __real_event_del(struct event *event);
int __wrap_event_del(struct event *event);
uint64_t __wrap_wp_rng_below(struct wp_rng *rng, uint64_t bound);

void *
__wrap_calloc(size_t n, size_t size)
{
    return world.memory != 0 && --world.memory == 0 ? NULL
                                                    : __real_calloc(n, size);
}

void *
__wrap_realloc(void *ptr, size_t size)
{
    return world.realloc_ != 0 && --world.realloc_ == 0
               ? NULL
               : __real_realloc(ptr, size);
}

struct event *
__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
                 event_callback_fn run, void *ctx)
{
    return world.memory != 0 && --world.memory == 0
               ? NULL
               : __real_event_new(base, fd, what, run, ctx);
}

int
__wrap_event_add(struct event *event, const struct timeval *tv)
{
    world.timer = event;
    journal("  timer %ld.%06ld", (long)tv->tv_sec, (long)tv->tv_usec);
    journal_line();
    return __real_event_add(event, &(struct timeval){3600, 0});
}

int
__wrap_event_del(struct event *event)
{
    journal("  no timer");
    journal_line();
    return __real_event_del(event);
}

void
__wrap_event_free(struct event *event)
{
    journal("  all of it goes");
    journal_line();
    __real_event_free(event);
}

uint64_t
__wrap_wp_rng_below(struct wp_rng *rng, uint64_t bound)
{
    (void)rng;
    journal("  draws below %" PRIu64, bound);
    journal_line();
    return world.draws_most ? bound - 1 : 0;
}

static void
target_is(const struct wp_api_target *target)
{
    journal("kind %d ns %s name %d priority %d", (int)target->kind,
            target->ns != NULL ? target->ns : "-", target->name != NULL,
            (int)target->priority);
}

void
wp_api_list(struct wp_api *api, const struct wp_api_target *target,
            const struct wp_api_query *query, wp_api_done *done, void *ctx)
{
    assert_ptr_equal(api, world.config.api);
    assert_null(world.done);
    journal("  LIST ");
    target_is(target);
    journal(" labels %s cont %.20s limit %u version %d",
            query->label_selector != NULL ? query->label_selector : "-",
            query->cont != NULL ? query->cont : "-", query->limit,
            query->resource_version != NULL);
    journal_line();
    world.done = done;
    world.ctx = ctx;
}

bool
wp_api_watch_path(const struct wp_api_target *target,
                  const struct wp_api_query *query, char out[WP_HTTP_PATH_MAX])
{
    journal("  WATCH ");
    target_is(target);
    journal(" labels %s version %.20s seconds %u",
            query->label_selector != NULL ? query->label_selector : "-",
            query->resource_version, query->timeout_s);
    journal_line();
    (void)strcpy(out, "/the/path");
    return !world.no_path;
}

struct wp_http *
wp_api_http(const struct wp_api *api)
{
    assert_ptr_equal(api, world.config.api);
    return (struct wp_http *)(void *)&world.clock;
}

struct wp_http_stream *
wp_http_stream_open(struct wp_http *http,
                    const struct wp_http_stream_config *config)
{
    assert_ptr_equal(http, &world.clock);
    assert_false(world.streaming);
    journal("  open %s idle %" PRId64, config->path, config->idle_timeout_ns);
    journal_line();
    if (world.no_stream) {
        return NULL;
    }
    world.stream = *config;
    world.streaming = true;
    world.answered = false;
    return (struct wp_http_stream *)(void *)&world.stream;
}

void
wp_http_stream_close(struct wp_http_stream *closed)
{
    assert_ptr_equal(closed, &world.stream);
    assert_true(world.streaming);
    journal("  close");
    journal_line();
    world.streaming = false;
}

bool
wp_http_stream_answered(const struct wp_http_stream *asked)
{
    assert_ptr_equal(asked, &world.stream);
    return world.answered;
}
