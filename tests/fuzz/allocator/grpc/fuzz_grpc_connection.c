/* Any bytes as what a peer sends on one connection, without a socket: frames,
 * header blocks, messages. The first byte says in which pieces they come. The
 * methods echo, answer later, or stream. Checked: every call ends, and nothing
 * of a connection is left when it has gone. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/grpc/grpc_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct wp_call *held;

static void
echo_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    uint8_t *buf = call->ops->reserve(call, len);

    if (buf == NULL) {
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED, "long", 1);
        return;
    }
    if (len > 0) {
        memcpy(buf, request, len);
    }
    call->ops->finish(call, WP_OK, NULL, 0);
}

static void
stream_writable(struct wp_call *call)
{
    uint8_t *buf = call->ops->reserve(call, 2000);

    if (buf == NULL) {
        abort();
    }
    memset(buf, 'x', 2000);
    (void)call->ops->send(call);
}

static void
stream_cancelled(struct wp_call *call)
{
    call->ops->finish(call, WP_CANCELLED, "gone", 0);
}

static void
stream_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    (void)request;
    (void)len;
    call->cancelled = stream_cancelled;
    call->writable = stream_writable;
    stream_writable(call);
}

static void
talk_received(struct wp_call *call, const uint8_t *request, size_t len)
{
    if (len == 3) {
        call->ops->finish(call, WP_INVALID_ARGUMENT, "three", 0);
    } else if (len != 0 && request[0] != 'q') {
        stream_writable(call);
    }
}

static void
talk_ended(struct wp_call *call)
{
    call->ops->finish(call, WP_OK, NULL, 0);
}

static void
talk_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    call->received = talk_received;
    call->ended = talk_ended;
    call->cancelled = stream_cancelled;
    talk_received(call, request, len);
}

/* Takes no notice of its client; the next one answers it. */
static void
hold_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    struct wp_call *before = held;

    (void)request;
    (void)len;
    held = call;
    if (before != NULL) {
        before->ops->finish(before, WP_UNAVAILABLE, "100 % \xff", 5);
    }
}

static const struct wp_method methods[] = {
    {"/f.F/Echo", false, false, false, echo_start},
    {"/f.F/Stream", true, false, false, stream_start},
    {"/f.F/Talk", false, true, false, talk_start},
    {"/f.F/Hold", false, false, false, hold_start},
    {"/f.F/Admin", false, false, true, echo_start},
};
static const struct wp_service service = {"f.F", methods, WP_ARRAY_LEN(methods),
                                          NULL};

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wp_rpc_server *server;
    struct wp_h2_conn *conn;
    size_t piece;
    bool there = true;

    if (size < 1) {
        return 0;
    }
    if (server == NULL) {
        server = wp_grpc_rig_create(&service);
    }
    conn = wp_grpc_rig_connect(server);
    piece = data[0] == 0 ? WP_H2_READ_SIZE : data[0];
    for (size_t at = 1; at < size && there; at += piece) {
        there = wp_grpc_rig_feed(server, conn, data + at,
                                 size - at < piece ? size - at : piece);
    }
    if (there) {
        wp_grpc_rig_close(server, conn);
    }
    if (held != NULL) {
        struct wp_call *last = held;

        held = NULL;
        last->ops->finish(last, WP_UNAVAILABLE, NULL, 0);
        wp_grpc_rig_run(server);
    }
    if (!wp_h2_server_is_empty(server->h2) ||
        atomic_load(&server->threads[0].in_flight) != 0 ||
        server->threads[0].partial_bytes != 0 ||
        atomic_load(&server->reply_bytes) != 0) {
        abort();
    }
    return 0;
}
