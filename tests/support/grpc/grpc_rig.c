#include "tests/support/grpc/grpc_rig.h"

#include <string.h>

struct wp_rpc_server *
wp_grpc_rig_create(const struct wp_service *service)
{
    static const char *const listen_at[] = {"127.0.0.1:0"};
    const struct wp_service *services[] = {service};
    struct wp_rpc_server *server;
    struct wp_rpc_config config;
    struct wp_err err;

    wp_rpc_config_init(&config);
    config.listen = listen_at;
    config.n_listen = 1;
    config.threads = 1;
    config.calls_max = 16;
    config.access_token = "a-token-of-the-rig";
    server = wp_rpc_server_create(&config, services, 1, &err);
    WP_ASSERT(server != NULL);
    return server;
}

struct wp_h2_conn *
wp_grpc_rig_connect(struct wp_rpc_server *server)
{
    struct wp_h2_conn *conn = wp_h2_conn_create(server->h2, -1);
    struct wp_rpc_peer *peer;

    WP_ASSERT(conn != NULL);
    peer = wp_h2_conn_peer(conn);
    peer->known = true;
    conn->worker = &server->h2->workers[0];
    (void)atomic_fetch_add(&conn->worker->n_conns, 1);
    wp_h2_conn_begin(conn);
    return conn;
}

void
wp_grpc_rig_run(struct wp_rpc_server *server)
{
    for (int i = 0; i < 8; i++) {
        (void)event_base_loop(server->h2->workers[0].base, EVLOOP_NONBLOCK);
    }
}

bool
wp_grpc_rig_feed(struct wp_rpc_server *server, struct wp_h2_conn *conn,
                 const uint8_t *bytes, size_t len)
{
    bool good = wp_h2_session_receive(conn, bytes, len);

    wp_h2_worker_settle(&server->h2->workers[0]);
    wp_grpc_rig_run(server);
    WP_ASSERT(good || wp_h2_server_is_empty(server->h2));
    return !wp_h2_server_is_empty(server->h2);
}

void
wp_grpc_rig_close(struct wp_rpc_server *server, struct wp_h2_conn *conn)
{
    wp_h2_conn_close(conn);
    wp_h2_worker_settle(&server->h2->workers[0]);
    wp_grpc_rig_run(server);
}

size_t
wp_grpc_rig_frame(uint8_t *out, uint8_t type, uint8_t flags, uint32_t stream,
                  const void *payload, size_t len)
{
    const uint8_t head[] = {(uint8_t)(len >> 16),
                            (uint8_t)(len >> 8),
                            (uint8_t)len,
                            type,
                            flags,
                            (uint8_t)(stream >> 24),
                            (uint8_t)(stream >> 16),
                            (uint8_t)(stream >> 8),
                            (uint8_t)stream};

    memcpy(out, head, sizeof(head));
    if (len > 0) {
        memcpy(out + sizeof(head), payload, len);
    }
    return sizeof(head) + len;
}

static size_t
put_field(char *out, const char *name, const char *value)
{
    size_t name_len = strlen(name);
    size_t value_len = strlen(value);

    out[0] = 0; /* A literal. */
    out[1] = (char)name_len;
    memcpy(out + 2, name, name_len);
    out[2 + name_len] = (char)value_len;
    memcpy(out + 3 + name_len, value, value_len);
    return 3 + name_len + value_len;
}

size_t
wp_grpc_rig_head(uint8_t *out, uint32_t stream, const char *path)
{
    char block[256];
    size_t n = 0;

    WP_ASSERT(strlen(path) < 100);
    n += put_field(block + n, ":method", "POST");
    n += put_field(block + n, ":scheme", "http");
    n += put_field(block + n, ":path", path);
    n += put_field(block + n, ":authority", "x");
    n += put_field(block + n, "grpc-timeout", "60S");
    n += put_field(block + n, "content-type", "application/grpc");
    return wp_grpc_rig_frame(out, 1, 4, stream, block, n);
}
