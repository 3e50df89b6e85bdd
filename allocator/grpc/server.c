/* The server as a whole: configuration, order of starting and of leaving. */
#include "allocator/grpc/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "allocator/grpc/internal.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    STUCK_REPORT_S = 5,
};

void
wp_rpc_config_init(struct wp_rpc_config *config)
{
    *config = (struct wp_rpc_config){
        .unix_mode = 0660,
        .reflection = true,
        .calls_max = 4096,
        .connections_max = 4096,
        .peer_connections_max = 1024,
        .streams_per_connection_max = 1024,
        .receive_bytes_max = 64 << 10,
        .metadata_bytes_max = 16 << 10,
        .deadline_default_ns = 10 * WP_NS_PER_S,
        .keepalive_ns = 30 * WP_NS_PER_S,
        .keepalive_timeout_ns = 10 * WP_NS_PER_S,
        .silent_ns = 5 * WP_NS_PER_S,
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
        {"peer_connections_max", c->peer_connections_max, 0, 65536},
        {"streams_per_connection_max", c->streams_per_connection_max, 1, 10000},
        {"receive_bytes_max", c->receive_bytes_max, 1024, 4 << 20},
        {"metadata_bytes_max", c->metadata_bytes_max, 1024, 64 << 10},
        {"deadline_default in ms", c->deadline_default_ns / WP_NS_PER_MS, 1,
         3600000},
        {"keepalive in ms", c->keepalive_ns / WP_NS_PER_MS, 100, 86400000},
        {"keepalive_timeout in ms", c->keepalive_timeout_ns / WP_NS_PER_MS, 100,
         3600000},
        {"silent in ms", c->silent_ns / WP_NS_PER_MS, 10, 3600000},
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
        for (int i = 0; i < WP_RPC_REFLECTION_VERSIONS && status == WP_OK;
             i++) {
            status = wp_rpc_server_add_service(
                server, wp_rpc_reflection_service(server->reflection, i), true,
                err);
        }
    }
    return status;
}

/* Zeroed and never touched before a call needs it. */
static char *
map_rooms(size_t calls)
{
    void *rooms = mmap(NULL, calls * (WP_RPC_REPLY_INLINE + WP_CALL_ARENA_SIZE),
                       PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return rooms != MAP_FAILED ? rooms : NULL;
}

static enum wp_status
create_threads(struct wp_rpc_server *server, struct wp_err *err)
{
    uint32_t n = server->config.threads;

    n = n > 0 ? n : default_threads();
    /* All calls may come on connections of one thread. */
    server->objects_per_thread = (size_t)server->config.calls_max +
                                 WP_RPC_WAITING_MAX + WP_RPC_SPARE_OBJECTS;
    server->threads = calloc(n, sizeof(server->threads[0]));
    if (server->threads == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for threads");
    }
    server->n_threads = n;
    for (uint32_t i = 0; i < n; i++) {
        wp_list_init(&server->threads[i].fresh);
        wp_list_init(&server->threads[i].waiting);
        server->threads[i].rooms = map_rooms(server->objects_per_thread);
        if (server->threads[i].rooms == NULL) {
            return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno,
                              "memory for %u calls (setting calls_max)",
                              server->config.calls_max);
        }
        server->threads[i].durations = wp_rpc_durations_create();
        if (server->threads[i].durations == NULL) {
            return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for threads");
        }
    }
    return WP_OK;
}

/* By the thread's loop, when nothing else is to be done at once. */
static void
flush_thread(void *ctx)
{
    struct wp_rpc_server *server = ctx;
    const struct wp_h2_worker *worker = wp_h2_worker_here();

    server->threads[wp_h2_worker_number(worker)].unflushed = 0;
    server->config.flush(server->config.flush_ctx);
}

static bool
thread_wants_flush(void *ctx)
{
    const struct wp_rpc_server *server = ctx;

    return server->config.wants_flush(server->config.flush_ctx);
}

static enum wp_status
create_h2(struct wp_rpc_server *server, struct wp_err *err)
{
    const struct wp_rpc_config *c = &server->config;
    const struct wp_h2_config config = {
        .listen = c->listen,
        .n_listen = c->n_listen,
        .unix_mode = c->unix_mode,
        .tls = &wp_h2_tls_by_openssl,
        .tls_cert = c->tls_cert,
        .tls_key = c->tls_key,
        .tls_client_ca = c->tls_client_ca,
        .threads = server->n_threads,
        .streams_per_thread = (uint32_t)server->objects_per_thread,
        .calls_max = c->calls_max,
        .peer_calls_max = c->calls_max / 4 * 3,
        .connections_max = c->connections_max,
        .peer_connections_max = c->peer_connections_max,
        .streams_per_connection_max = c->streams_per_connection_max,
        .metadata_bytes_max = c->metadata_bytes_max,
        .keepalive_ns = c->keepalive_ns,
        .keepalive_timeout_ns = c->keepalive_timeout_ns,
        .connection_age_max_ns = c->connection_age_max_ns,
        .silent_ns = c->silent_ns,
        .spin_ns = c->spin_ns,
    };
    const struct wp_h2_handler handler = {
        .ctx = server,
        .peer_size = sizeof(struct wp_rpc_peer),
        .stream_size = sizeof(struct wp_rpc_call),
        .init = wp_rpc_call_init,
        .admit = wp_rpc_peer_admit,
        .header = wp_rpc_request_header,
        .request = wp_rpc_request_done,
        .data = wp_rpc_message_data,
        .ended = wp_rpc_message_ended,
        .closed = wp_rpc_call_closed,
        .sent = wp_rpc_call_sent,
        .trailers = wp_rpc_trailers_of,
        .turn = wp_rpc_call_turn,
        .message = wp_rpc_call_message,
        .wants_flush = c->flush != NULL ? thread_wants_flush : NULL,
        .flush = flush_thread,
        .flush_ctx = server,
        .head = {{WP_STR(":status"), WP_STR("200")},
                 {WP_STR("content-type"), WP_STR("application/grpc")},
                 {WP_STR("grpc-accept-encoding"), WP_STR("identity")}},
        .n_head = 3,
    };

    server->h2 = wp_h2_server_create(&config, &handler, err);
    return server->h2 != NULL ? WP_OK : WP_INVALID_ARGUMENT;
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
    server = calloc(1, sizeof(*server));
    if (server == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for the server");
        return NULL;
    }
    server->config = *config;
    server->access_token_len =
        config->access_token != NULL ? strlen(config->access_token) : 0;
    server->clock = wp_clock_system();
    status = add_services(server, services, n_services, err);
    if (status == WP_OK) {
        status = create_threads(server, err);
    }
    if (status == WP_OK) {
        status = create_h2(server, err);
    }
    if (status != WP_OK) {
        wp_rpc_server_stop(server);
        return NULL;
    }
    return server;
}

/* --- running --- */

enum wp_status
wp_rpc_server_start(struct wp_rpc_server *server, struct wp_err *err)
{
    enum wp_status status;

    WP_ASSERT(!server->started);
    server->started = true;
    status = wp_h2_server_start(server->h2, err);
    if (status == WP_OK) {
        wp_rpc_health_set(server->health, true);
    }
    return status;
}

const char *
wp_rpc_server_address(const struct wp_rpc_server *server, size_t i)
{
    WP_ASSERT(i < server->config.n_listen);
    return wp_h2_server_address(server->h2, i);
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

    for (uint32_t i = 0; i < server->n_threads; i++) {
        sum += atomic_load_explicit(&server->threads[i].in_flight,
                                    memory_order_relaxed);
    }
    return sum;
}

/* No new call can come and none is in flight. */
static bool
is_quiet(const struct wp_rpc_server *server)
{
    return wp_h2_server_is_empty(server->h2) && calls_in_flight(server) == 0;
}

static bool
await_quiet(const struct wp_rpc_server *server, int64_t timeout_ns)
{
    const struct timespec moment = {.tv_nsec = 2 * WP_NS_PER_MS};
    int64_t until_ns = wp_time_add(wp_clock_mono_ns(server->clock), timeout_ns);

    while (!is_quiet(server)) {
        if (wp_clock_mono_ns(server->clock) >= until_ns) {
            return false;
        }
        (void)nanosleep(&moment, NULL);
    }
    return true;
}

bool
wp_rpc_server_drain(struct wp_rpc_server *server, int64_t grace_ns)
{
    uint32_t left;

    WP_ASSERT(server->started && !server->draining);
    server->draining = true;
    wp_rpc_health_end(server->health);
    wp_h2_server_leave(server->h2);
    if (await_quiet(server, grace_ns > 0 ? grace_ns : 0)) {
        return true;
    }
    left = calls_in_flight(server);
    if (left > 0) {
        wp_log_info("cancelling the calls that are left",
                    wp_kv_int("calls", left));
    }
    wp_h2_server_hang_up(server->h2);
    while (!await_quiet(server, STUCK_REPORT_S * WP_NS_PER_S)) {
        wp_log_warn("waiting for cancelled calls to be finished",
                    wp_kv_int("calls", calls_in_flight(server)));
    }
    return left == 0;
}

void
wp_rpc_server_stop(struct wp_rpc_server *server)
{
    if (server == NULL) {
        return;
    }
    if (server->started && !server->draining) {
        (void)wp_rpc_server_drain(server, 0);
    }
    if (server->h2 != NULL) {
        wp_h2_server_stop(server->h2);
        wp_h2_server_destroy(server->h2);
    }
    for (uint32_t i = 0; i < server->n_threads; i++) {
        if (server->threads[i].rooms != NULL) {
            (void)munmap(server->threads[i].rooms,
                         server->objects_per_thread *
                             (WP_RPC_REPLY_INLINE + WP_CALL_ARENA_SIZE));
        }
        free(server->threads[i].durations);
    }
    free(server->threads);
    wp_rpc_health_destroy(server->health);
    wp_rpc_reflection_destroy(server->reflection);
    free(server);
}

bool
wp_rpc_server_accepts(const struct wp_rpc_server *server)
{
    return wp_h2_server_accepts(server->h2);
}

void
wp_rpc_server_stats(const struct wp_rpc_server *server,
                    struct wp_rpc_stats *out)
{
    struct wp_h2_stats h2;

    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < server->n_threads; i++) {
        const struct wp_rpc_thread *t = &server->threads[i];

        out->calls_started +=
            atomic_load_explicit(&t->started, memory_order_relaxed);
        out->calls_cancelled +=
            atomic_load_explicit(&t->cancelled, memory_order_relaxed);
        out->calls_refused +=
            atomic_load_explicit(&t->refused, memory_order_relaxed);
        out->calls_unknown +=
            atomic_load_explicit(&t->unknown, memory_order_relaxed);
    }
    out->calls_in_flight = calls_in_flight(server);
    wp_h2_server_stats(server->h2, &h2);
    out->peers_accepted = h2.accepted;
    out->peers_refused = h2.refused;
    out->peers_slowed = h2.slowed;
    out->peers_cut = h2.cut;
    out->tls_reloads = h2.tls_reloads;
}
