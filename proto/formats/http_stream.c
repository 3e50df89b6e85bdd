/* Connections that a handler has taken over. */
#include "proto/formats/http_conn.h"

#include "pool/base/assert.h"

/* The kernel tells of a close apart from readable data (EPOLLRDHUP); without
 * epoll the event cannot be added, and the close is seen with the input. */
static void
on_left(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_http_req *req = ctx;

    (void)fd;
    (void)what;
    (void)event_del(req->left);
    if (req->phase == WP_HTTP_STREAM) {
        wp_http_conn_close(req);
    }
}

void
wp_http_take(struct wp_http_req *req, const struct wp_http_stream_ops *ops)
{
    WP_ASSERT(!req->replied);
    req->message.on_body = NULL;
    req->stream = ops;
    req->phase = WP_HTTP_STREAM;
    wp_http_set_deadline(req, 0);
}

void
wp_http_upgrade(struct wp_http_req *req, const char *protocol,
                const struct wp_http_stream_ops *ops)
{
    WP_ASSERT(req->message.done);
    wp_http_take(req, ops);
    req->replied = true;
    (void)bufferevent_set_timeouts(req->bev, NULL, NULL);
    req->left = event_new(req->server->config.base, bufferevent_getfd(req->bev),
                          EV_CLOSED | EV_PERSIST, on_left, req);
    if (req->left != NULL) {
        (void)event_add(req->left, NULL);
    }
    wp_http_put_status(req, HTTP_STATUS_SWITCHING_PROTOCOLS);
    (void)evbuffer_add_printf(bufferevent_get_output(req->bev),
                              "Connection: Upgrade\r\nUpgrade: %s\r\n\r\n",
                              protocol);
    /* What came with the request is handed over from the loop. */
    bufferevent_trigger(req->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
}

static bool
takes_chunks(const struct wp_http_req *req)
{
    return req->message.minor > 0;
}

void
wp_http_pieces_begin(struct wp_http_req *req, int status, const char *type,
                     const struct wp_http_stream_ops *ops)
{
    struct evbuffer *out = bufferevent_get_output(req->bev);

    WP_ASSERT(req->message.done);
    wp_http_take(req, ops);
    req->replied = true;
    req->keep_alive =
        req->keep_alive && takes_chunks(req) && !req->server->draining;
    wp_http_put_status(req, (unsigned)status);
    (void)evbuffer_add_printf(
        out, "Content-Type: %s\r\n%s", type,
        takes_chunks(req) ? "Transfer-Encoding: chunked\r\n" : "");
    (void)evbuffer_add_buffer(out, req->extra);
    (void)evbuffer_add_printf(out, "Connection: %s\r\n\r\n",
                              req->keep_alive ? "keep-alive" : "close");
}

void
wp_http_piece(struct wp_http_req *req, const void *data, size_t len)
{
    struct evbuffer *out = bufferevent_get_output(req->bev);

    if (len == 0) {
        return; /* An empty chunk would be the last one. */
    }
    if (takes_chunks(req)) {
        (void)evbuffer_add_printf(out, "%zx\r\n", len);
    }
    (void)evbuffer_add(out, data, len);
    if (takes_chunks(req)) {
        (void)evbuffer_add(out, "\r\n", 2);
    }
}

void
wp_http_pieces_end(struct wp_http_req *req)
{
    static const char last[] = "0\r\n\r\n";

    if (takes_chunks(req)) {
        (void)evbuffer_add(bufferevent_get_output(req->bev), last,
                           sizeof(last) - 1);
    }
    if (req->keep_alive && !req->server->draining) {
        wp_http_stream_next(req);
    } else {
        wp_http_conn_end_request(req);
        wp_http_stream_end(req);
    }
}

struct bufferevent *
wp_http_bufferevent(struct wp_http_req *req)
{
    return req->bev;
}

struct evbuffer *
wp_http_stream_output(struct wp_http_req *req)
{
    return bufferevent_get_output(req->bev);
}

void
wp_http_stream_read(struct wp_http_req *req, bool on)
{
    bool reads = on && req->phase == WP_HTTP_STREAM;

    wp_http_bound_read(&req->bound, reads);
    if (reads) {
        bufferevent_trigger(req->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
    }
}

void
wp_http_stream_end(struct wp_http_req *req)
{
    req->phase = WP_HTTP_ENDING;
    wp_http_set_deadline(req, 0);
    wp_http_conn_set_send_timeout(req);
    bufferevent_trigger(req->bev, EV_WRITE, BEV_TRIG_DEFER_CALLBACKS);
}

void
wp_http_stream_drop(struct wp_http_req *req)
{
    wp_http_conn_close(req);
}

void
wp_http_stream_next(struct wp_http_req *req)
{
    wp_http_conn_end_request(req);
    (void)evbuffer_drain(req->body, evbuffer_get_length(req->body));
    (void)evbuffer_drain(req->extra, evbuffer_get_length(req->extra));
    wp_http_conn_set_send_timeout(req);
    req->phase = WP_HTTP_HEAD;
    req->idle = true;
    /* Not read on from here: callers are in the middle of a request. */
    bufferevent_trigger(req->bev, EV_READ,
                        BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}
