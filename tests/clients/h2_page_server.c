/* tests/clients/h2_page_server.c - proto/h2 behind which is next to nothing:
 * each request is read to its end and answered with a page. What h2spec asks of
 * a server is then asked of proto/h2 alone.
 *
 * Prints "127.0.0.1:PORT" and serves until SIGTERM. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "proto/h2/h2.h"

static const char page[] = "a page of some forty bytes, for any request\n";

static void
on_init(void *ctx, struct wp_h2_stream *stream)
{
    (void)ctx;
    (void)stream;
}

static bool
on_admit(void *ctx, const struct wp_h2_origin *origin, void *peer)
{
    (void)ctx;
    (void)origin;
    (void)peer;
    return true;
}

static void
on_header(void *ctx, void *request, struct wp_str name, struct wp_str value)
{
    (void)ctx;
    (void)request;
    (void)name;
    (void)value;
}

static void
on_request(void *ctx, struct wp_h2_conn *conn, int32_t id, const void *request,
           bool too_long)
{
    const struct wp_h2_field status = {WP_STR(":status"), WP_STR("503")};
    struct wp_h2_stream *stream = wp_h2_stream_open(conn, id);

    (void)ctx;
    (void)request;
    (void)too_long;
    if (stream == NULL) {
        wp_h2_conn_refuse(conn, id, &status, 1);
    } else if (wp_h2_stream_count(stream) != WP_PEER_ADMITTED) {
        wp_h2_stream_turn_away(stream);
    }
}

static void
on_data(struct wp_h2_stream *stream, const uint8_t *bytes, size_t len)
{
    (void)stream;
    (void)bytes;
    (void)len;
}

static void
on_ended(struct wp_h2_stream *stream)
{
    wp_h2_stream_send(stream, (const uint8_t *)page, sizeof page - 1);
    wp_h2_stream_end(stream);
}

static void
on_closed(struct wp_h2_stream *stream)
{
    wp_h2_stream_free(stream);
}

static void
on_sent(struct wp_h2_stream *stream)
{
    (void)stream;
}

static size_t
trailers(struct wp_h2_stream *stream,
         struct wp_h2_field fields[WP_H2_FIELDS_MAX])
{
    (void)stream;
    fields[0] = (struct wp_h2_field){WP_STR("page"), WP_STR("whole")};
    return 1;
}

static void
on_turn(void *ctx, struct wp_h2_worker *worker, bool last)
{
    (void)ctx;
    (void)worker;
    (void)last;
}

static void
on_message(void *ctx, struct wp_linked_message *message)
{
    (void)ctx;
    (void)message;
}

int
main(void)
{
    static const char *const listen[] = {"127.0.0.1:0"};
    const struct wp_h2_config config = {
        .listen = listen,
        .n_listen = 1,
        .threads = 1,
        .streams_per_thread = 1024,
        .calls_max = 1024,
        .peer_calls_max = 1024,
        .connections_max = 64,
        .peer_connections_max = 64,
        .streams_per_connection_max = 100,
        .metadata_bytes_max = 16384,
        .keepalive_ns = 60 * WP_NS_PER_S,
        .keepalive_timeout_ns = 20 * WP_NS_PER_S,
        .silent_ns = 10 * WP_NS_PER_S,
    };
    const struct wp_h2_handler handler = {
        .peer_size = 1,
        .stream_size = sizeof(struct wp_h2_stream),
        .init = on_init,
        .admit = on_admit,
        .header = on_header,
        .request = on_request,
        .data = on_data,
        .ended = on_ended,
        .closed = on_closed,
        .sent = on_sent,
        .trailers = trailers,
        .turn = on_turn,
        .message = on_message,
        .head = {{WP_STR(":status"), WP_STR("200")}},
        .n_head = 1,
    };
    struct wp_err err;
    struct wp_h2_server *server;
    sigset_t set;
    int signal_number;

    WP_ASSERT(sigemptyset(&set) == 0 && sigaddset(&set, SIGTERM) == 0 &&
              sigprocmask(SIG_BLOCK, &set, NULL) == 0 &&
              signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    server = wp_h2_server_create(&config, &handler, &err);
    if (server == NULL || wp_h2_server_start(server, &err) != WP_OK) {
        (void)fprintf(stderr, "%s\n", err.msg);
        return EXIT_FAILURE;
    }
    (void)puts(wp_h2_server_address(server, 0));
    (void)fflush(stdout);
    WP_ASSERT(sigwait(&set, &signal_number) == 0);
    wp_h2_server_leave(server);
    wp_h2_server_hang_up(server);
    wp_h2_server_stop(server);
    wp_h2_server_destroy(server);
    return EXIT_SUCCESS;
}
