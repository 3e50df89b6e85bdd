/* tests/support/k8s/reflector_world.h - a reflector of Pods, its store and the fake
 * API server, in one loop. For tests in C. */
#ifndef WP_TESTS_SUPPORT_K8S_REFLECTOR_WORLD_H
#define WP_TESTS_SUPPORT_K8S_REFLECTOR_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "k8s/api/api_config.h"
#include "k8s/watch/reflector.h"
#include "tests/support/fake_api/fake_api.h"

enum {
    PATIENCE_MS = 120000,
};

struct world {
    struct fake_api *server;
    struct event_base *base;
    struct event *tick;
    struct wp_api_config config;
    struct wp_http *http;
    struct wp_api *api;
    struct wp_store *store;
    struct wp_reflector *reflector;
    uint32_t synced;
    uint32_t refused;
    uint32_t went_back; /* Told of. */
    uint32_t doubts;    /* Told of. */
    bool doubtful;
    int refused_code;
    uint32_t removals; /* What the store told. */
};

static inline void
on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
}

static inline void
on_synced(void *ctx)
{
    ((struct world *)ctx)->synced++;
}

static inline void
on_refused(void *ctx, int code, const char *message)
{
    struct world *world = ctx;

    assert_non_null(message);
    world->refused++;
    world->refused_code = code;
}

static inline void
on_went_back(void *ctx)
{
    ((struct world *)ctx)->went_back++;
}

static inline void
on_doubt(void *ctx, bool doubtful)
{
    struct world *world = ctx;

    assert_true(world->doubtful != doubtful);
    world->doubtful = doubtful;
    world->doubts += doubtful;
}

static inline void
on_store(void *ctx, const struct wp_object *before,
         const struct wp_object *after)
{
    ((struct world *)ctx)->removals += before != NULL && after == NULL;
}

static inline void
world_begin(struct world *world, const struct fake_api_options *options)
{
    static const struct timeval tick = {.tv_usec = 2000};
    struct fake_api_options defaults;
    struct wp_http_config http;
    struct wp_err err = {.msg = ""};

    memset(world, 0, sizeof *world);
    fake_api_options_init(&defaults);
    world->server = fake_api_start(options != NULL ? options : &defaults);
    world->base = event_base_new();
    world->tick = event_new(world->base, -1, EV_PERSIST, on_tick, NULL);
    assert_int_equal(event_add(world->tick, &tick), 0);
    world->config.server = strdup(fake_api_url(world->server));
    wp_http_config_init(&http);
    http.base = world->base;
    http.clock = wp_clock_system();
    http.server = &world->config;
    http.user_agent = "reflector_test";
    http.timeout_ns = 2 * WP_NS_PER_S;
    world->http = wp_http_create(&http, &err);
    assert_non_null(world->http);
    world->api = wp_api_create(world->http);
    assert_non_null(world->api);
    world->store = wp_store_create(WP_KIND_POD, NULL);
    assert_non_null(world->store);
    wp_store_listen(world->store, on_store, world);
}

static inline void
world_watch(struct world *world, uint32_t page_limit, int64_t idle_ms)
{
    world->reflector = wp_reflector_start(&(struct wp_reflector_config){
        .base = world->base,
        .clock = wp_clock_system(),
        .api = world->api,
        .store = world->store,
        .kind = WP_KIND_POD,
        .seed = 1,
        .page_limit = page_limit,
        .idle_timeout_ns = idle_ms * WP_NS_PER_MS,
        .on_synced = on_synced,
        .on_refused = on_refused,
        .on_went_back = on_went_back,
        .on_doubt = on_doubt,
        .ctx = world,
    });
    assert_non_null(world->reflector);
}

static inline void
world_end(struct world *world)
{
    wp_reflector_stop(world->reflector);
    wp_http_destroy(world->http);
    wp_api_destroy(world->api);
    wp_store_destroy(world->store);
    wp_api_config_fini(&world->config);
    event_free(world->tick);
    event_base_free(world->base);
    fake_api_stop(world->server);
}

/* Turns the loop until the condition holds; fails the test when it does not. */
static inline void
until(struct world *world, bool (*holds)(struct world *world), const char *what)
{
    int64_t end_ns =
        wp_clock_mono_ns(wp_clock_system()) + PATIENCE_MS * WP_NS_PER_MS;

    while (!holds(world)) {
        assert_int_equal(event_base_loop(world->base, EVLOOP_ONCE), 0);
        if (wp_clock_mono_ns(wp_clock_system()) > end_ns) {
            fail_msg("waited too long for: %s", what);
        }
    }
}

/* A test of what does not happen has to let some time pass. */
static inline void
turn_for(struct world *world, int64_t ms)
{
    int64_t end_ns = wp_clock_mono_ns(wp_clock_system()) + ms * WP_NS_PER_MS;

    while (wp_clock_mono_ns(wp_clock_system()) < end_ns) {
        assert_int_equal(event_base_loop(world->base, EVLOOP_ONCE), 0);
    }
}

static inline struct wp_reflector_stats
stats(const struct world *world)
{
    struct wp_reflector_stats out;

    wp_reflector_stats(world->reflector, &out);
    return out;
}

static inline const char *
meta(const json_t *object, const char *key)
{
    const char *text = json_string_value(
        json_object_get(json_object_get(object, "metadata"), key));

    return text != NULL ? text : "";
}

/* Is the store what the server has, version by version? */
static inline bool
same(struct world *world)
{
    json_t *all = fake_api_all(world->server, WP_KIND_POD);
    bool equal = json_array_size(all) == wp_store_count(world->store);
    size_t i;
    json_t *one;

    json_array_foreach(all, i, one)
    {
        const struct wp_object *known = wp_store_find(
            world->store, meta(one, "namespace"), meta(one, "name"));

        equal =
            equal && known != NULL &&
            strcmp(known->uid, meta(one, "uid")) == 0 &&
            strcmp(known->resource_version, meta(one, "resourceVersion")) == 0;
    }
    json_decref(all);
    return equal;
}

static inline bool
settled(struct world *world)
{
    return world->synced > 0 && same(world) &&
           fake_api_watches_open(world->server, WP_KIND_POD) == 1;
}

static inline json_t *
pod(const char *name, const char *label)
{
    return json_pack("{s:{s:s,s:s,s:{s:s}},s:{}}", "metadata", "name", name,
                     "namespace", "ns", "labels", "n", label, "spec");
}

static inline void
put(struct world *world, const char *name, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    json_decref(fake_api_put(world->server, WP_KIND_POD, pod(name, text)));
}

static inline void
put_many(struct world *world, uint32_t n)
{
    char name[16];

    for (uint32_t i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "p%05u", i);
        put(world, name, i);
    }
}

/* Begins with five Pods that are listed and watched. That a version is gone,
 * the server will say in an event or in a status. */
static inline void
world_begin_gone(struct world *world, bool as_event, uint32_t page_limit)
{
    struct fake_api_options options;

    fake_api_options_init(&options);
    options.gone_as_event = as_event;
    world_begin(world, &options);
    put_many(world, 5);
    world_watch(world, page_limit, 0);
    until(world, settled, "the list");
}

static inline void
fault(struct world *world, uint32_t verbs, enum fake_action action, int code,
      uint32_t count)
{
    fake_api_fault(world->server, &(struct fake_fault){
                                      .verbs = verbs,
                                      .kind = -1,
                                      .action = action,
                                      .code = code,
                                      .retry_after_s = -1,
                                      .count = count,
                                  });
}

#endif
