/* tests/unit/k8s/cluster/parts.h - what a cluster is made of, none of it real:
 * each call is a line of the journal. For one test program, whose linker puts
 * these in the place of the library's. */
#ifndef WP_TESTS_UNIT_K8S_CLUSTER_PARTS_H
#define WP_TESTS_UNIT_K8S_CLUSTER_PARTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/api/api_config.h"
#include "k8s/bind/repositories.h"
#include "k8s/cluster/cluster_impl.h"
#include "k8s/controllers/claim/controller.h"
#include "k8s/controllers/verdicts.h"
#include "pool/base/rng.h"
#include "tests/support/pool/manual_clock.h"

/* What the parts are here: names for the journal, and an address each. */
#define HANDLES(X)                                                             \
    X(loop)                                                                    \
    X(base)                                                                    \
    X(tick)                                                                    \
    X(http)                                                                    \
    X(api)                                                                     \
    X(events)                                                                  \
    X(sandboxes)                                                               \
    X(templates)                                                               \
    X(definitions)                                                             \
    X(counts)                                                                  \
    X(routes)                                                                  \
    X(repositories)                                                            \
    X(backend)                                                                 \
    X(verdicts)                                                                \
    X(sync)                                                                    \
    X(competitor)                                                              \
    X(election)                                                                \
    X(reflector)                                                               \
    X(pool)                                                                    \
    X(claim)                                                                   \
    X(template)                                                                \
    X(sandbox)                                                                 \
    X(webhook)                                                                 \
    X(identity)                                                                \
    X(metrics)
enum handle {
#define X(name) H_##name,
    HANDLES(X)
#undef X
    H_COUNT
};
static const char *const handle_names[] = {
#define X(name) #name,
    HANDLES(X)
#undef X
};
static char handles[H_COUNT];

static struct {
    char text[32768];
    size_t len;
} journal;
static struct wp_cluster *cluster;
static struct wp_clock_manual clock_;
static int fail_at; /* The part of this number cannot be had; 0: all can. */
static int made;
static bool full;
static struct wp_http_stats http_stats;
static unsigned locked; /* How often what there is to say was. */
static event_callback_fn tick;
static void *tick_arg;

static void
note(const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(journal.text + journal.len, sizeof journal.text - journal.len,
                  fmt, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof journal.text - journal.len);
    journal.len += (size_t)n;
}

/* What was noted since the last time. */
static const char *
noted(void)
{
    static char text[sizeof journal.text];

    memcpy(text, journal.text, sizeof text);
    journal.len = 0;
    journal.text[0] = '\0';
    return text;
}

static const char *
name_of(const void *part)
{
    const char *at = part;

    if (at == NULL) {
        return "-";
    }
    if (at >= handles && at < handles + H_COUNT) {
        return handle_names[at - handles];
    }
    if (cluster != NULL && part == cluster) {
        return "cluster";
    }
    if (part == &clock_) {
        return "clock";
    }
    return "?";
}

static bool
fails(void)
{
    made++;
    return made == fail_at;
}

static void *
make(enum handle handle)
{
    if (fails()) {
        note(": none\n");
        return NULL;
    }
    note("\n");
    return &handles[handle];
}

static void *
make_or_say(enum handle handle, struct wp_err *err)
{
    void *part = make(handle);

    if (part == NULL) {
        (void)wp_err_set(err, WP_UNIMPLEMENTED, "no %s", handle_names[handle]);
    }
    return part;
}

static enum wp_status
begin_or_say(const char *what, struct wp_err *err)
{
    bool failed = fails();

    note("%s%s\n", what, failed ? ": none" : "");
    return failed ? wp_err_set(err, WP_UNIMPLEMENTED, "no %s", what) : WP_OK;
}

static void
end_part(const void *part)
{
    if (part != NULL) {
        note("end %s\n", name_of(part));
    }
}

/* --- Fakes of what lies below --- */

void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void *
__wrap_aligned_alloc(size_t align, size_t size)
{
    if (size != sizeof *cluster) {
        return __real_aligned_alloc(align, size);
    }
    cluster = fails() ? NULL : __real_aligned_alloc(align, size);
    if (cluster != NULL) {
        memset(cluster, 0xa5, sizeof *cluster);
    }
    return cluster;
}

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int
__wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    locked += cluster != NULL && mutex == &cluster->stats_lock;
    return __real_pthread_mutex_lock(mutex);
}

void __wrap_wp_random_bytes(void *out, size_t len);
void
__wrap_wp_random_bytes(void *out, size_t len)
{
    memset(out, 0x5a, len);
}

struct wp_loop *__wrap_wp_loop_create(const char *name, uint32_t messages_max,
                                      struct wp_err *err);
struct wp_loop *
__wrap_wp_loop_create(const char *name, uint32_t messages_max,
                      struct wp_err *err)
{
    note("loop \"%s\" %u", name, messages_max);
    return make_or_say(H_loop, err);
}

struct event_base *__wrap_wp_loop_base(struct wp_loop *loop);
struct event_base *
__wrap_wp_loop_base(struct wp_loop *loop)
{
    assert_string_equal(name_of(loop), "loop");
    return (void *)&handles[H_base];
}

bool __wrap_wp_loop_post(struct wp_loop *loop,
                         void (*run)(void *ctx, uint64_t a, uint64_t b),
                         void *ctx, uint64_t a, uint64_t b);
bool
__wrap_wp_loop_post(struct wp_loop *loop,
                    void (*run)(void *ctx, uint64_t a, uint64_t b), void *ctx,
                    uint64_t a, uint64_t b)
{
    note("post to %s\n", name_of(loop));
    run(ctx, a, b);
    return !full;
}

void __wrap_wp_loop_call(struct wp_loop *loop, void (*run)(void *ctx),
                         void *ctx);
void
__wrap_wp_loop_call(struct wp_loop *loop, void (*run)(void *ctx), void *ctx)
{
    note("call in %s\n", name_of(loop));
    run(ctx);
}

enum wp_status __wrap_wp_loop_start(struct wp_loop *loop, struct wp_err *err);
enum wp_status
__wrap_wp_loop_start(struct wp_loop *loop, struct wp_err *err)
{
    assert_string_equal(name_of(loop), "loop");
    return begin_or_say("thread", err);
}

void __wrap_wp_loop_join(struct wp_loop *loop);
void
__wrap_wp_loop_join(struct wp_loop *loop)
{
    note("join %s, within %lld, quiet by %lld\n", name_of(loop),
         (long long)cluster->stop_within_ns, (long long)cluster->quiet_by_ns);
}

struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd,
                               short what, event_callback_fn run, void *arg);
struct event *
__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
                 event_callback_fn run, void *arg)
{
    tick = run;
    tick_arg = arg;
    note("tick of %s fd %d what %d for %s", name_of(base), (int)fd, what,
         name_of(arg));
    return make(H_tick);
}

int __wrap_event_add(struct event *event, const struct timeval *period);
int
__wrap_event_add(struct event *event, const struct timeval *period)
{
    note("%s each %ld us\n", name_of(event),
         (long)(period->tv_sec * 1000000L + period->tv_usec));
    return 0;
}

int __wrap_event_base_loopbreak(struct event_base *base);
int
__wrap_event_base_loopbreak(struct event_base *base)
{
    note("%s ends\n", name_of(base));
    return 0;
}

struct wp_http *__wrap_wp_http_create(const struct wp_http_config *config,
                                      struct wp_err *err);
struct wp_http *
__wrap_wp_http_create(const struct wp_http_config *config, struct wp_err *err)
{
    struct wp_http_config rest;

    wp_http_config_init(&rest);
    assert_int_equal(config->queue_max, rest.queue_max);
    assert_int_equal(config->inflight_max, rest.inflight_max);
    assert_int_equal(config->connections_max, rest.connections_max);
    assert_int_equal(config->timeout_ns, rest.timeout_ns);
    assert_true(config->may_send == wp_cluster_may_send);
    assert_memory_equal(config->user_agent, "warmpool/", 9);
    assert_true(config->user_agent[9] >= '0' && config->user_agent[9] <= '9');
    note("http of %s %s ns %s qps %.1f burst %u for %s", name_of(config->base),
         name_of(config->clock), config->server->own_namespace, config->qps,
         config->burst, name_of(config->ctx));
    return make_or_say(H_http, err);
}

void __wrap_wp_http_stats(const struct wp_http *http,
                          struct wp_http_stats *out);
void
__wrap_wp_http_stats(const struct wp_http *http, struct wp_http_stats *out)
{
    assert_string_equal(name_of(http), "http");
    *out = http_stats;
}

struct wp_api *__wrap_wp_api_create(struct wp_http *http);
struct wp_api *
__wrap_wp_api_create(struct wp_http *http)
{
    note("api of %s", name_of(http));
    return make(H_api);
}

struct wp_events *
__wrap_wp_events_create(const struct wp_events_config *config);
struct wp_events *
__wrap_wp_events_create(const struct wp_events_config *config)
{
    note("events of %s %s %s as %s off %d", name_of(config->base),
         name_of(config->clock), name_of(config->api), config->instance,
         config->off);
    return make(H_events);
}

uint64_t __wrap_wp_events_dropped(const struct wp_events *events);
uint64_t
__wrap_wp_events_dropped(const struct wp_events *events)
{
    assert_string_equal(name_of(events), "events");
    return 31;
}

enum wp_status __wrap_wp_cluster_make_stores(struct wp_cluster *self,
                                             struct wp_err *err);
enum wp_status
__wrap_wp_cluster_make_stores(struct wp_cluster *self, struct wp_err *err)
{
    struct wp_store **stores = self->parts.stores;
    enum wp_status status = begin_or_say("stores", err);

    assert_ptr_equal(self, cluster);
    if (status == WP_OK) {
        stores[WP_KIND_SANDBOX] = (void *)&handles[H_sandboxes];
        stores[WP_KIND_SANDBOX_TEMPLATE] = (void *)&handles[H_templates];
        stores[WP_KIND_COUNT - 1] = (void *)&handles[H_definitions];
    }
    return status;
}

struct wp_sandbox_counts *
__wrap_wp_sandbox_counts_create(struct wp_store *sandboxes,
                                const bool *counts_latency);
struct wp_sandbox_counts *
__wrap_wp_sandbox_counts_create(struct wp_store *sandboxes,
                                const bool *counts_latency)
{
    assert_ptr_equal(counts_latency, &cluster->parts.active);
    note("counts of %s", name_of(sandboxes));
    return make(H_counts);
}

struct wp_sandbox_routes *
__wrap_wp_sandbox_routes_create(struct wp_store *sandboxes);
struct wp_sandbox_routes *
__wrap_wp_sandbox_routes_create(struct wp_store *sandboxes)
{
    note("routes of %s", name_of(sandboxes));
    return make(H_routes);
}

bool __wrap_wp_sandbox_routes_find(struct wp_sandbox_routes *routes,
                                   struct wp_str ns, struct wp_str name,
                                   uint16_t port,
                                   char out[WP_ENDPOINT_MAX + 1]);
bool
__wrap_wp_sandbox_routes_find(struct wp_sandbox_routes *routes,
                              struct wp_str ns, struct wp_str name,
                              uint16_t port, char out[WP_ENDPOINT_MAX + 1])
{
    note("find %.*s/%.*s port %u in %s\n", (int)ns.len, ns.ptr, (int)name.len,
         name.ptr, port, name_of(routes));
    (void)snprintf(out, WP_ENDPOINT_MAX + 1, "there");
    return !full;
}

struct wp_repositories *
__wrap_wp_repositories_create(const struct wp_repositories_config *config,
                              struct wp_err *err);
struct wp_repositories *
__wrap_wp_repositories_create(const struct wp_repositories_config *config,
                              struct wp_err *err)
{
    assert_ptr_equal(config->git, &cluster->parts.config.git);
    note("repositories of %s %s ns %s", name_of(config->base),
         name_of(config->api), config->ns);
    return make_or_say(H_repositories, err);
}

struct wp_cluster_backend *
__wrap_wp_cluster_backend_create(struct wp_parts *parts, struct wp_err *err);
struct wp_cluster_backend *
__wrap_wp_cluster_backend_create(struct wp_parts *parts, struct wp_err *err)
{
    assert_ptr_equal(parts, &cluster->parts);
    assert_ptr_equal(parts->renewals, &cluster->renewals);
    assert_ptr_equal(parts->self, cluster);
    note("backend of %s %s %s %s %s, seed %llx, renewals by %s",
         name_of(parts->base), name_of(parts->clock), name_of(parts->api),
         name_of(parts->events), name_of(parts->repositories),
         (unsigned long long)parts->seed, name_of(parts->renewals->clock));
    /* Its own, behind the stores. */
    parts->refs = (void *)&handles[H_metrics];
    return make_or_say(H_backend, err);
}

struct wp_backend
__wrap_wp_cluster_backend_port(struct wp_cluster_backend *backend);
struct wp_backend
__wrap_wp_cluster_backend_port(struct wp_cluster_backend *backend)
{
    return (struct wp_backend){.self = backend, .at_once = 17};
}

/* A pattern of its own in each: all of it is passed on, or none. */
void __wrap_wp_cluster_backend_stats(const struct wp_cluster_backend *backend,
                                     struct wp_cluster_backend_stats *out);
void
__wrap_wp_cluster_backend_stats(const struct wp_cluster_backend *backend,
                                struct wp_cluster_backend_stats *out)
{
    assert_string_equal(name_of(backend), "backend");
    memset(out, 0x21, sizeof *out);
}

void __wrap_wp_reflector_stats(const struct wp_reflector *reflector,
                               struct wp_reflector_stats *out);
void
__wrap_wp_reflector_stats(const struct wp_reflector *reflector,
                          struct wp_reflector_stats *out)
{
    assert_string_equal(name_of(reflector), "reflector");
    memset(out, 0x22, sizeof *out);
}

uint32_t __wrap_wp_store_count(const struct wp_store *store);
uint32_t
__wrap_wp_store_count(const struct wp_store *store)
{
    return (uint32_t)strlen(name_of(store));
}

uint64_t __wrap_wp_store_bytes(const struct wp_store *store);
uint64_t
__wrap_wp_store_bytes(const struct wp_store *store)
{
    return 1000 * strlen(name_of(store));
}

struct wp_verdicts *__wrap_wp_verdicts_create(void);
struct wp_verdicts *
__wrap_wp_verdicts_create(void)
{
    note("verdicts");
    return make(H_verdicts);
}

struct wp_pool_sync *
__wrap_wp_pool_sync_create(struct wp_parts *parts,
                           struct wp_cluster_backend *backend,
                           struct wp_err *err);
struct wp_pool_sync *
__wrap_wp_pool_sync_create(struct wp_parts *parts,
                           struct wp_cluster_backend *backend,
                           struct wp_err *err)
{
    assert_ptr_equal(parts, &cluster->parts);
    note("sync of %s", name_of(backend));
    return make_or_say(H_sync, err);
}

enum wp_status __wrap_wp_cluster_start_watches(struct wp_cluster *self,
                                               struct wp_err *err);
enum wp_status
__wrap_wp_cluster_start_watches(struct wp_cluster *self, struct wp_err *err)
{
    assert_ptr_equal(self, cluster);
    return begin_or_say("watches", err);
}

enum wp_status __wrap_wp_cluster_start_leading(struct wp_cluster *self,
                                               struct wp_err *err);
enum wp_status
__wrap_wp_cluster_start_leading(struct wp_cluster *self, struct wp_err *err)
{
    assert_ptr_equal(self, cluster);
    return begin_or_say("leading", err);
}

void __wrap_wp_cluster_give_lease_up(struct wp_cluster *self,
                                     void (*done)(void *ctx), void *ctx);
void
__wrap_wp_cluster_give_lease_up(struct wp_cluster *self,
                                void (*done)(void *ctx), void *ctx)
{
    note("%s gives the lease up\n", name_of(self));
    done(ctx);
}

bool __wrap_wp_election_refused(const struct wp_election *election);
bool
__wrap_wp_election_refused(const struct wp_election *election)
{
    assert_string_equal(name_of(election), "election");
    return !full;
}

/* In the place of the library's. */
const struct wp_claim_metrics *
wp_claim_controller_metrics(const void *self)
{
    assert_string_equal(name_of(self), "claim");
    return (const void *)&handles[H_metrics];
}

/* Those whose cluster is all that is told. */
#define TOLD(function)                                                         \
    void __wrap_##function(struct wp_cluster *self);                           \
    void __wrap_##function(struct wp_cluster *self)                            \
    {                                                                          \
        note(#function " %s, stopping %d, quiet %d\n", name_of(self),          \
             self->stopping, self->quiet);                                     \
    }
TOLD(wp_cluster_check_lease)
TOLD(wp_cluster_check_watches)
TOLD(wp_cluster_deactivate)
TOLD(wp_cluster_rest_controllers)
TOLD(wp_cluster_stop_watches)

#define ENDS(function, type)                                                   \
    void __wrap_##function(type *part);                                        \
    void __wrap_##function(type *part)                                         \
    {                                                                          \
        end_part(part);                                                        \
    }
ENDS(wp_competitor_stop, struct wp_competitor)
ENDS(wp_election_stop, struct wp_election)
ENDS(wp_http_destroy, struct wp_http)
ENDS(wp_pool_sync_destroy, struct wp_pool_sync)
ENDS(wp_cluster_backend_destroy, struct wp_cluster_backend)
ENDS(wp_repositories_destroy, struct wp_repositories)
ENDS(wp_verdicts_destroy, struct wp_verdicts)
ENDS(wp_events_destroy, struct wp_events)
ENDS(wp_api_destroy, struct wp_api)
ENDS(wp_store_destroy, struct wp_store)
ENDS(wp_sandbox_counts_destroy, struct wp_sandbox_counts)
ENDS(wp_sandbox_routes_destroy, struct wp_sandbox_routes)
ENDS(event_free, struct event)
ENDS(wp_loop_destroy, struct wp_loop)

static void
queue_stats(const void *self, struct wp_work_queue_stats *out)
{
    *out =
        (struct wp_work_queue_stats){.waiting = (uint32_t)strlen(name_of(self)),
                                     .delayed = 2,
                                     .running = 3,
                                     .begun = 4,
                                     .failed = 5};
}

/* These take the place of the library's: none of its controllers is linked. */
#define CONTROLLER(kind, stats_)                                               \
    static void *make_##kind(struct wp_parts *parts, struct wp_err *err)       \
    {                                                                          \
        assert_ptr_equal(parts, &cluster->parts);                              \
        note("controller " #kind " with %s %s", name_of(parts->verdicts),      \
             parts->config.election_ns);                                       \
        return make_or_say(H_##kind, err);                                     \
    }                                                                          \
    static void end_##kind(void *self)                                         \
    {                                                                          \
        assert_string_equal(name_of(self), #kind);                             \
        end_part(self);                                                        \
    }                                                                          \
    const struct wp_controller_ops wp_##kind##_controller_ops = {              \
        .name = #kind,                                                         \
        .create = make_##kind,                                                 \
        .destroy = end_##kind,                                                 \
        .stats = (stats_)}
CONTROLLER(pool, queue_stats);
CONTROLLER(claim, queue_stats);
CONTROLLER(template, NULL);
CONTROLLER(sandbox, queue_stats);
CONTROLLER(webhook, NULL);
CONTROLLER(identity, queue_stats);

#endif
