/* The server as a whole: configuration, order of starting and of leaving. */
#include "allocator/grpc/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <time.h>
#include <unistd.h>

#include <grpc/grpc_security.h>
#include <grpc/support/time.h>

#include "allocator/grpc/internal.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    /* A client may ping an idle connection this often; C-core's default of five
     * minutes makes eager clients meet GOAWAY too_many_pings. */
    PING_INTERVAL_MIN_MS = 10000,
    HANDSHAKE_TIMEOUT_MS = 20000,
    AGE_GRACE_MS = 30000,
    STUCK_REPORT_S = 5,
    UNFLUSHED_MAX = 32, /* Events of a busy thread between two flushes. */
};

void
wp_rpc_config_init(struct wp_rpc_config *config)
{
    *config = (struct wp_rpc_config){
        .unix_mode = 0660,
        .reflection = true,
        .calls_max = 4096,
        .connections_max = 4096,
        .streams_per_connection_max = 1024,
        .receive_bytes_max = 64 << 10,
        .metadata_bytes_max = 16 << 10,
        .deadline_default_ns = 10 * WP_NS_PER_S,
        .keepalive_ns = 30 * WP_NS_PER_S,
        .keepalive_timeout_ns = 10 * WP_NS_PER_S,
    };
}

static enum wp_status
check_range(const char *name, int64_t value, int64_t low, int64_t high,
            struct wp_err *err)
{
    if (value < low || value > high) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: %lld is out of bounds, expected %lld to %lld",
                          name, (long long)value, (long long)low,
                          (long long)high);
    }
    return WP_OK;
}

static enum wp_status
check_config(const struct wp_rpc_config *c, struct wp_err *err)
{
    const struct {
        const char *name;
        int64_t value;
        int64_t low;
        int64_t high;
    } ranges[] = {
        {"number of listen addresses", (int64_t)c->n_listen, 1,
         WP_RPC_LISTEN_MAX},
        {"threads", c->threads, 0, WP_RPC_THREADS_MAX},
        {"calls_max", c->calls_max, 16, 65536},
        {"connections_max", c->connections_max, 1, 65536},
        {"streams_per_connection_max", c->streams_per_connection_max, 1, 10000},
        {"receive_bytes_max", c->receive_bytes_max, 1024, 4 << 20},
        {"metadata_bytes_max", c->metadata_bytes_max, 1024, 64 << 10},
        {"deadline_default in ms", c->deadline_default_ns / WP_NS_PER_MS, 1,
         3600000},
        {"keepalive in ms", c->keepalive_ns / WP_NS_PER_MS, 100, 86400000},
        {"keepalive_timeout in ms", c->keepalive_timeout_ns / WP_NS_PER_MS, 100,
         3600000},
        {"connection_age_max in ms", c->connection_age_max_ns / WP_NS_PER_MS, 0,
         INT32_MAX},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(ranges); i++) {
        enum wp_status status = check_range(ranges[i].name, ranges[i].value,
                                            ranges[i].low, ranges[i].high, err);

        if (status != WP_OK) {
            return status;
        }
    }
    if ((c->unix_mode & ~0666U) != 0 || (c->unix_mode & 0600) != 0600) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "unix_mode: %04o is out of bounds, expected 0600 to "
                          "0666 without execute bits",
                          c->unix_mode);
    }
    if ((c->tls_cert == NULL) != (c->tls_key == NULL)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "tls_cert and tls_key are set together or not at "
                          "all");
    }
    if (c->tls_client_ca != NULL && c->tls_cert == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "tls_client_ca needs tls_cert and tls_key");
    }
    return WP_OK;
}

static grpc_arg
int_arg(const char *key, int64_t value)
{
    grpc_arg arg;

    memset(&arg, 0, sizeof(arg));
    arg.type = GRPC_ARG_INTEGER;
    arg.key = (char *)(uintptr_t)key; /* C-core copies, and never writes. */
    arg.value.integer = (int)value;
    return arg;
}

static grpc_server *
create_grpc(const struct wp_rpc_config *c)
{
    int64_t age_ms = c->connection_age_max_ns / WP_NS_PER_MS;
    grpc_arg args[] = {
        int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, c->receive_bytes_max),
        int_arg(GRPC_ARG_MAX_METADATA_SIZE, c->metadata_bytes_max),
        int_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, c->streams_per_connection_max),
        int_arg(GRPC_ARG_ALLOW_REUSEPORT, 0),
        int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, c->keepalive_ns / WP_NS_PER_MS),
        int_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                c->keepalive_timeout_ns / WP_NS_PER_MS),
        int_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        int_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                PING_INTERVAL_MIN_MS),
        int_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        int_arg(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_TIMEOUT_MS),
        int_arg(GRPC_ARG_ENABLE_CHANNELZ, 0),
        /* The last two only with a bound on age. */
        int_arg(GRPC_ARG_MAX_CONNECTION_AGE_MS, age_ms),
        int_arg(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, AGE_GRACE_MS),
    };
    grpc_channel_args all = {
        .num_args = WP_ARRAY_LEN(args) - (age_ms > 0 ? 0 : 2), .args = args};

    return grpc_server_create(&all, NULL);
}

static uint32_t
default_threads(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (cores < 4) {
        return 1;
    }
    return cores / 2 > WP_RPC_THREADS_MAX ? WP_RPC_THREADS_MAX
                                          : (uint32_t)(cores / 2);
}

static enum wp_status
add_services(struct wp_rpc_server *server,
             const struct wp_service *const *services, size_t n_services,
             struct wp_err *err)
{
    enum wp_status status = WP_OK;

    for (size_t i = 0; i < n_services && status == WP_OK; i++) {
        status = wp_rpc_server_add_service(server, services[i], false, err);
    }
    if (status != WP_OK) {
        return status;
    }
    server->health = wp_rpc_health_create(server);
    if (server->health == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for health");
    }
    status = wp_rpc_server_add_service(
        server, wp_rpc_health_service(server->health), false, err);
    if (status == WP_OK && server->config.reflection) {
        server->reflection = wp_rpc_reflection_create(server);
        if (server->reflection == NULL) {
            return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                              "memory for reflection");
        }
        status = wp_rpc_server_add_service(
            server, wp_rpc_reflection_service(server->reflection), true, err);
    }
    return status;
}

static void
on_shutdown(struct wp_rpc_tag *tag, bool ok)
{
    struct wp_rpc_queue *queue =
        WP_CONTAINER_OF(tag, struct wp_rpc_queue, on_shutdown);
    struct wp_rpc_server *server = queue->server;

    (void)ok;
    (void)pthread_mutex_lock(&server->lock);
    server->n_open--;
    (void)pthread_cond_broadcast(&server->open_changed);
    (void)pthread_mutex_unlock(&server->lock);
}

static enum wp_status
create_queues(struct wp_rpc_server *server, struct wp_err *err)
{
    uint32_t n = server->config.threads;
    uint32_t calls_max;
    enum wp_status status = WP_OK;

    n = n > 0 ? n : default_threads();
    calls_max = server->config.calls_max / n;
    server->queues = calloc(n, sizeof(server->queues[0]));
    if (server->queues == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for threads");
    }
    for (uint32_t i = 0; i < n && status == WP_OK; i++) {
        struct wp_rpc_queue *queue = &server->queues[i];

        queue->server = server;
        queue->on_shutdown.done = on_shutdown;
        queue->cq = grpc_completion_queue_create_for_next(NULL);
        server->n_queues = i + 1;
        grpc_server_register_completion_queue(server->grpc, queue->cq, NULL);
        status =
            wp_rpc_queue_init_calls(queue, calls_max > 0 ? calls_max : 1, err);
    }
    return status;
}

static struct wp_rpc_server *
alloc_server(const struct wp_rpc_config *config)
{
    struct wp_rpc_server *server = calloc(1, sizeof(*server));
    pthread_condattr_t attr;

    if (server == NULL) {
        return NULL;
    }
    server->config = *config;
    server->clock = wp_clock_system();
    (void)pthread_mutex_init(&server->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&server->open_changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    return server;
}

struct wp_rpc_server *
wp_rpc_server_create(const struct wp_rpc_config *config,
                     const struct wp_service *const *services,
                     size_t n_services, struct wp_err *err)
{
    struct wp_rpc_server *server;
    enum wp_status status = check_config(config, err);

    if (status != WP_OK) {
        return NULL;
    }
    server = alloc_server(config);
    if (server == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for the server");
        return NULL;
    }
    grpc_init();
    wp_rpc_log_route();
    server->grpc = create_grpc(config);
    if (config->tls_cert != NULL) {
        server->tls = wp_rpc_tls_create(config, err);
        status = server->tls != NULL ? WP_OK : WP_INVALID_ARGUMENT;
    }
    if (status == WP_OK) {
        status = add_services(server, services, n_services, err);
    }
    if (status == WP_OK) {
        status = create_queues(server, err);
    }
    if (status == WP_OK) {
        status = wp_rpc_peers_create(server, err);
    }
    if (status != WP_OK) {
        wp_rpc_server_stop(server);
        return NULL;
    }
    return server;
}

/* --- running --- */

static void
dispatch(const grpc_event *event)
{
    struct wp_rpc_tag *tag = event->tag;

    tag->done(tag, event->success != 0);
}

/* The next event, waiting for it only when nothing is left to be flushed.
 * GRPC_QUEUE_TIMEOUT: look again. */
static grpc_event
queue_next(const struct wp_rpc_queue *queue, uint32_t *unflushed)
{
    const struct wp_rpc_config *config = &queue->server->config;
    bool wanted =
        config->flush != NULL && config->wants_flush(config->flush_ctx);
    grpc_event event;

    if (WP_LIKELY(!wanted)) {
        *unflushed = 0;
        return grpc_completion_queue_next(
            queue->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    }
    if (++*unflushed >= UNFLUSHED_MAX) {
        *unflushed = 0;
        config->flush(config->flush_ctx);
    }
    event = grpc_completion_queue_next(queue->cq,
                                       gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
    if (event.type == GRPC_QUEUE_TIMEOUT) {
        config->flush(config->flush_ctx);
    }
    return event;
}

static void *
queue_run(void *arg)
{
    struct wp_rpc_queue *queue = arg;
    uint32_t unflushed = 0;

    for (;;) {
        grpc_event event = queue_next(queue, &unflushed);

        if (event.type == GRPC_QUEUE_SHUTDOWN) {
            if (unflushed > 0) {
                queue->server->config.flush(queue->server->config.flush_ctx);
            }
            return NULL;
        }
        if (event.type == GRPC_OP_COMPLETE) {
            dispatch(&event);
        }
    }
}

static enum wp_status
start_threads(struct wp_rpc_server *server, struct wp_err *err)
{
    for (uint32_t i = 0; i < server->n_queues; i++) {
        struct wp_rpc_queue *queue = &server->queues[i];
        char name[24];
        int error = pthread_create(&queue->thread, NULL, queue_run, queue);

        if (error != 0) {
            return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, error,
                              "starting thread %u of %u", i + 1,
                              server->n_queues);
        }
        queue->threaded = true;
        (void)snprintf(name, sizeof(name), "wp-rpc-%u", i);
        (void)pthread_setname_np(queue->thread, name);
    }
    return WP_OK;
}

enum wp_status
wp_rpc_server_start(struct wp_rpc_server *server, struct wp_err *err)
{
    enum wp_status status;

    WP_ASSERT(!server->started);
    server->started = true;
    grpc_server_start(server->grpc);
    for (uint32_t i = 0; i < server->n_queues; i++) {
        wp_rpc_queue_arm_all(&server->queues[i]);
    }
    status = start_threads(server, err);
    if (status == WP_OK) {
        status = wp_rpc_peers_start(server->peers, err);
    }
    if (status == WP_OK) {
        wp_rpc_health_set(server->health, true);
    }
    return status;
}

const char *
wp_rpc_server_address(const struct wp_rpc_server *server, size_t i)
{
    WP_ASSERT(i < server->config.n_listen);
    return server->address[i];
}

void
wp_rpc_server_set_serving(struct wp_rpc_server *server, bool serving)
{
    wp_rpc_health_set(server->health, serving);
}

/* --- leaving --- */

static uint32_t
calls_in_flight(const struct wp_rpc_server *server)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < server->n_queues; i++) {
        sum += atomic_load_explicit(&server->queues[i].in_flight,
                                    memory_order_relaxed);
    }
    return sum;
}

/* No new call can come and none is in flight. C-core reports a server shut down
 * once its connections are closed, which may be before the last events of their
 * calls have been taken. */
static bool
is_quiet(struct wp_rpc_server *server)
{
    uint32_t n_open;

    (void)pthread_mutex_lock(&server->lock);
    n_open = server->n_open;
    (void)pthread_mutex_unlock(&server->lock);
    return n_open == 0 && calls_in_flight(server) == 0;
}

/* Until a queue has been shut down, or a few milliseconds: calls end without a
 * signal, so that ending one needs no lock. */
static void
wait_a_moment(struct wp_rpc_server *server)
{
    int64_t until_ns = wp_clock_mono_ns(server->clock) + 5 * WP_NS_PER_MS;
    struct timespec until = {
        .tv_sec = (time_t)(until_ns / WP_NS_PER_S),
        .tv_nsec = (long)(until_ns % WP_NS_PER_S),
    };

    (void)pthread_mutex_lock(&server->lock);
    (void)pthread_cond_timedwait(&server->open_changed, &server->lock, &until);
    (void)pthread_mutex_unlock(&server->lock);
}

/* Takes what is there of a queue whose thread was never started. */
static void
poll_unthreaded(struct wp_rpc_server *server)
{
    for (uint32_t i = 0; i < server->n_queues; i++) {
        struct wp_rpc_queue *queue = &server->queues[i];
        grpc_event event = {.type = GRPC_QUEUE_TIMEOUT};

        do {
            if (queue->threaded) {
                break;
            }
            event = grpc_completion_queue_next(
                queue->cq, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
            if (event.type == GRPC_OP_COMPLETE) {
                dispatch(&event);
            }
        } while (event.type == GRPC_OP_COMPLETE);
    }
}

static bool
await_quiet(struct wp_rpc_server *server, int64_t timeout_ns)
{
    int64_t until_ns = wp_time_add(wp_clock_mono_ns(server->clock), timeout_ns);

    while (!is_quiet(server)) {
        if (wp_clock_mono_ns(server->clock) >= until_ns) {
            return false;
        }
        poll_unthreaded(server);
        wait_a_moment(server);
    }
    return true;
}

/* Through every queue: behind this event none of them brings a new call. */
static void
shut_down_queues(struct wp_rpc_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    server->n_open = server->n_queues;
    (void)pthread_mutex_unlock(&server->lock);
    for (uint32_t i = 0; i < server->n_queues; i++) {
        grpc_server_shutdown_and_notify(server->grpc, server->queues[i].cq,
                                        &server->queues[i].on_shutdown);
    }
}

bool
wp_rpc_server_drain(struct wp_rpc_server *server, int64_t grace_ns)
{
    uint32_t left;

    WP_ASSERT(server->started && !server->draining);
    server->draining = true;
    wp_rpc_health_end(server->health);
    wp_rpc_peers_stop(server->peers);
    shut_down_queues(server);
    if (await_quiet(server, grace_ns > 0 ? grace_ns : 0)) {
        return true;
    }
    left = calls_in_flight(server);
    if (left > 0) {
        wp_log_info("cancelling the calls that are left",
                    wp_kv_int("calls", left));
    }
    grpc_server_cancel_all_calls(server->grpc);
    while (!await_quiet(server, STUCK_REPORT_S * WP_NS_PER_S)) {
        wp_log_warn("waiting for cancelled calls to be finished",
                    wp_kv_int("calls", calls_in_flight(server)));
    }
    return left == 0;
}

/* Empties the queues to their end. The threads leave by themselves. */
static void
finish_queues(struct wp_rpc_server *server)
{
    for (uint32_t i = 0; i < server->n_queues; i++) {
        grpc_completion_queue_shutdown(server->queues[i].cq);
    }
    for (uint32_t i = 0; i < server->n_queues; i++) {
        struct wp_rpc_queue *queue = &server->queues[i];

        if (queue->threaded) {
            (void)pthread_join(queue->thread, NULL);
        } else {
            (void)queue_run(queue);
        }
    }
}

/* A server with a bound port must be started before it may be destroyed, and
 * shut down through a queue, of which there may be none yet. */
static void
end_unstarted(struct wp_rpc_server *server)
{
    if (server->n_queues == 0) {
        server->queues = calloc(1, sizeof(server->queues[0]));
        WP_ASSERT(server->queues != NULL);
        server->n_queues = 1;
        server->queues[0].server = server;
        server->queues[0].on_shutdown.done = on_shutdown;
        server->queues[0].cq = grpc_completion_queue_create_for_next(NULL);
        grpc_server_register_completion_queue(server->grpc,
                                              server->queues[0].cq, NULL);
    }
    grpc_server_start(server->grpc);
    shut_down_queues(server);
    while (!await_quiet(server, WP_NS_PER_S)) {
    }
}

void
wp_rpc_server_stop(struct wp_rpc_server *server)
{
    if (server == NULL) {
        return;
    }
    if (!server->started) {
        end_unstarted(server);
    } else if (!server->draining) {
        (void)wp_rpc_server_drain(server, 0);
    }
    finish_queues(server);
    grpc_server_destroy(server->grpc);
    for (uint32_t i = 0; i < server->n_queues; i++) {
        grpc_completion_queue_destroy(server->queues[i].cq);
        wp_rpc_queue_fini_calls(&server->queues[i]);
    }
    free(server->queues);
    wp_rpc_peers_destroy(server->peers);
    wp_rpc_tls_destroy(server->tls);
    wp_rpc_health_destroy(server->health);
    wp_rpc_reflection_destroy(server->reflection);
    (void)pthread_cond_destroy(&server->open_changed);
    (void)pthread_mutex_destroy(&server->lock);
    free(server);
    /* Waits for gRPC's own threads, so that nothing of it runs on. */
    grpc_shutdown_blocking();
}

void
wp_rpc_server_stats(const struct wp_rpc_server *server,
                    struct wp_rpc_stats *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < server->n_queues; i++) {
        const struct wp_rpc_queue *q = &server->queues[i];

        out->calls_started +=
            atomic_load_explicit(&q->started, memory_order_relaxed);
        out->calls_cancelled +=
            atomic_load_explicit(&q->cancelled, memory_order_relaxed);
        out->calls_refused +=
            atomic_load_explicit(&q->refused, memory_order_relaxed);
        out->calls_unknown +=
            atomic_load_explicit(&q->unknown, memory_order_relaxed);
    }
    out->calls_in_flight = calls_in_flight(server);
    wp_rpc_peers_stats(server->peers, out);
    out->tls_reloads = wp_rpc_tls_reloads(server->tls);
}
