/* What comes from a socket: heads, bodies, and after an upgrade exec frames.
 *
 * A real server on a socket pair, with handlers that only read; the last is a
 * stream that unpacks frames. The client sends all, closes, and reads what
 * comes, which must be well-formed as far as a status line goes. */
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "runtime/server/exec_stream.h"
#include "proto/formats/http_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct event_base *base;
static struct wp_http_server *server;
static struct sockaddr_un address;
static int live; /* Requests routed and not gone. */

static void
on_gone(struct wp_http_req *req)
{
    (void)req;
    live--;
}

static void
on_stream(struct wp_http_req *req, struct evbuffer *in)
{
    uint8_t head[WP_EXEC_HEAD_LEN];
    struct wp_exec_frame frame;

    while (evbuffer_copyout(in, head, sizeof(head)) == sizeof(head)) {
        if (!wp_exec_frame_unpack(head, &frame)) {
            wp_http_stream_end(req);
            return;
        }
        if (evbuffer_get_length(in) < sizeof(head) + frame.len) {
            return;
        }
        evbuffer_remove_buffer(in, wp_http_stream_output(req),
                               sizeof(head) + frame.len);
    }
}

static void
on_ready(struct wp_http_req *req)
{
    static const struct wp_http_stream_ops stream = {.input = on_stream};
    size_t len;

    (void)wp_http_body(req, &len);
    WP_ASSERT(len <= 4096);
    if (wp_http_wants_upgrade(req, WP_EXEC_UPGRADE)) {
        wp_http_upgrade(req, WP_EXEC_UPGRADE, &stream);
    } else if (strcmp(wp_http_path(req), "/drop") == 0) {
        wp_http_reply_error(req, 404, "no %s", wp_http_method(req));
    } else {
        wp_http_reply(req, 200, "text/plain", "ok", 2);
    }
}

static const struct wp_http_ops ops = {
    .body_max = 4096, .ready = on_ready, .gone = on_gone};

static const struct wp_http_ops *
route(struct wp_http_req *req)
{
    if (strcmp(wp_http_path(req), "/none") == 0) {
        wp_http_reply_error(req, 404, "no such path");
        return NULL;
    }
    live++;
    return &ops;
}

/* An abstract socket, so that nothing is left on disk. */
static void
server_start(void)
{
    struct wp_err err;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof(address);
    sa_family_t family = AF_UNIX;

    (void)signal(SIGPIPE, SIG_IGN); /* As warmpool-runtime does. */
    base = event_base_new();
    server = wp_http_server_create(&(struct wp_http_server_config){
        .base = base,
        .route = route,
        .conns_max = 8,
        .fields_max = 64,
        .head_timeout_ns = 10 * WP_NS_PER_S,
        .body_timeout_ns = 30 * WP_NS_PER_S,
        .idle_timeout_ns = 75 * WP_NS_PER_S,
        .send_timeout_ns = 60 * WP_NS_PER_S,
    });
    WP_ASSERT(server != NULL && fd >= 0);
    address.sun_family = AF_UNIX;
    /* An address of nothing but its family: the kernel chooses a name. */
    WP_ASSERT(bind(fd, (const struct sockaddr *)&address, sizeof(family)) == 0);
    WP_ASSERT(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    WP_ASSERT(wp_http_server_listen(server, fd, 1, &err) == WP_OK);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char answer[4096];
    ssize_t got;
    int fd;

    if (base == NULL) {
        server_start();
    }
    if (size > 60000) {
        return 0;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    WP_ASSERT(connect(fd, (const struct sockaddr *)&address,
                      (socklen_t)(sizeof(sa_family_t) + 6)) == 0);
    if (size > 0) {
        WP_ASSERT(write(fd, data, size) == (ssize_t)size);
    }
    for (int i = 0; i < 8; i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
    }
    got = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
    if (got > 0) {
        WP_ASSERT(got > 9 && memcmp(answer, "HTTP/1.1 ", 9) == 0);
    }
    close(fd);
    for (int i = 0; i < 8; i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
    }
    WP_ASSERT(live == 0);
    return 0;
}
