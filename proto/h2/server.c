/* The server as a whole: its parts, and the order in which they begin and
 * end. */
#include "proto/h2/internal.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"

static enum wp_status
create_parts(struct wp_h2_server *server, struct wp_err *err)
{
    enum wp_status status = wp_h2_session_set_up(server, err);

    server->workers = aligned_alloc(
        64,
        (sizeof(server->workers[0]) * server->config.threads + 63) / 64 * 64);
    if (status != WP_OK || server->workers == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for threads");
    }
    memset(server->workers, 0,
           sizeof(server->workers[0]) * server->config.threads);
    for (uint32_t i = 0; i < server->config.threads; i++) {
        server->workers[i].wake_fd = -1;
    }
    server->n_workers = server->config.threads;
    for (uint32_t i = 0; i < server->n_workers && status == WP_OK; i++) {
        status = wp_h2_worker_create(server, i, err);
    }
    if (status == WP_OK && server->config.tls_cert != NULL) {
        WP_ASSERT(server->config.tls != NULL);
        server->tls = server->config.tls->create(&server->config, err);
        status = server->tls != NULL ? WP_OK : WP_INVALID_ARGUMENT;
    }
    return status == WP_OK ? wp_h2_door_create(server, err) : status;
}

struct wp_h2_server *
wp_h2_server_create(const struct wp_h2_config *config,
                    const struct wp_h2_handler *handler, struct wp_err *err)
{
    struct wp_h2_server *server = calloc(1, sizeof(*server));

    if (server == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for the server");
        return NULL;
    }
    WP_ASSERT(config->base == NULL ||
              (config->threads == 1 && handler->wants_flush == NULL));
    server->config = *config;
    server->handler = *handler;
    server->clock = wp_clock_system();
    if (create_parts(server, err) != WP_OK) {
        wp_h2_server_destroy(server);
        return NULL;
    }
    return server;
}

enum wp_status
wp_h2_server_start(struct wp_h2_server *server, struct wp_err *err)
{
    enum wp_status status = WP_OK;

    for (uint32_t i = 0; i < server->n_workers && status == WP_OK; i++) {
        status = wp_h2_worker_start(&server->workers[i], err);
    }
    return status == WP_OK ? wp_h2_door_start(server->door, err) : status;
}

const char *
wp_h2_server_address(const struct wp_h2_server *server, size_t i)
{
    return server->address[i];
}

bool
wp_h2_server_accepts(const struct wp_h2_server *server)
{
    return !atomic_load_explicit(&server->starved, memory_order_relaxed);
}

bool
wp_h2_server_is_empty(const struct wp_h2_server *server)
{
    /* Acquire: pairs with the release in wp_h2_conn_free. */
    return atomic_load_explicit(&server->n_conns, memory_order_acquire) == 0;
}

void
wp_h2_server_leave(struct wp_h2_server *server)
{
    wp_h2_door_stop(server->door);
    for (uint32_t i = 0; i < server->n_workers; i++) {
        wp_h2_worker_order(&server->workers[i], WP_H2_ORDER_LEAVE);
    }
}

void
wp_h2_server_hang_up(struct wp_h2_server *server)
{
    for (uint32_t i = 0; i < server->n_workers; i++) {
        wp_h2_worker_order(&server->workers[i], WP_H2_ORDER_HANG_UP);
    }
}

void
wp_h2_server_stop(struct wp_h2_server *server)
{
    wp_h2_door_stop(server->door);
    for (uint32_t i = 0; i < server->n_workers; i++) {
        wp_h2_worker_join(&server->workers[i]);
    }
}

void
wp_h2_server_destroy(struct wp_h2_server *server)
{
    if (server == NULL) {
        return;
    }
    wp_h2_door_destroy(server->door);
    for (uint32_t i = 0; i < server->n_workers; i++) {
        wp_h2_worker_destroy(&server->workers[i]);
    }
    free(server->workers);
    if (server->tls != NULL) {
        server->config.tls->destroy(server->tls);
    }
    wp_peer_limits_destroy(server->limits);
    wp_h2_session_tear_down(server);
    free(server);
}

void
wp_h2_server_stats(const struct wp_h2_server *server, struct wp_h2_stats *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < server->n_workers; i++) {
        out->slowed += atomic_load_explicit(&server->workers[i].slowed,
                                            memory_order_relaxed);
        out->cut +=
            atomic_load_explicit(&server->workers[i].cut, memory_order_relaxed);
    }
    wp_h2_door_stats(server->door, out);
    if (server->tls != NULL) {
        out->tls_reloads = server->config.tls->reloads(server->tls);
    }
}
