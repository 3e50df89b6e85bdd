/* One exchange with a sandbox, streamed. Buffers fill up to WP_HTTP_BUFFER in
 * each direction; then the source is not moved on, so its bufferevent stops
 * reading, until the drain callback of the other side comes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "allocator/conf/address.h"
#include "allocator/http/conn.h"
#include "pool/base/clock.h"

static struct evbuffer *
in(struct bufferevent *side)
{
    return bufferevent_get_input(side);
}

static struct evbuffer *
out(struct bufferevent *side)
{
    return bufferevent_get_output(side);
}

/* The sandbox is at fault. */
static void
fail(struct wp_http_conn *conn, unsigned status, const char *why)
{
    conn->server->stats.upstream_failed_total++;
    if (conn->response_begun) {
        wp_http_conn_linger(conn); /* The client sees a cut answer. */
    } else {
        wp_http_conn_fail(conn, status, why);
    }
}

/* Nothing moves in a direction for idle_timeout: somebody stalls. Reading has
 * no such bound but while a body is owed, since servers may think and streams
 * may be silent. */
static void
set_timeouts(struct wp_http_conn *conn)
{
    int64_t ns = conn->server->config.idle_timeout_ns;
    struct timeval stall = {ns / WP_NS_PER_S, ns % WP_NS_PER_S / 1000};
    bool body_owed = conn->phase == WP_HTTP_EXCHANGE && !conn->request.done;

    (void)bufferevent_set_timeouts(conn->client, body_owed ? &stall : NULL,
                                   &stall);
}

/* Moves body bytes of message. False: its framing is broken. */
static bool
move_body(struct evbuffer *from, struct evbuffer *to,
          struct wp_http_message *message)
{
    while (!message->done && evbuffer_get_length(to) < WP_HTTP_BUFFER) {
        struct evbuffer_iovec chunk;
        int64_t n;

        if (evbuffer_peek(from, -1, NULL, &chunk, 1) < 1 ||
            chunk.iov_len == 0) {
            break;
        }
        n = wp_http_body(message,
                         (struct wp_str){chunk.iov_base, chunk.iov_len});
        if (n < 0) {
            return false;
        }
        (void)evbuffer_remove_buffer(from, to, (size_t)n);
        if (n == 0) {
            break;
        }
    }
    return true;
}

static void
move_raw(struct evbuffer *from, struct evbuffer *to)
{
    size_t have = evbuffer_get_length(to);

    if (have < WP_HTTP_BUFFER) {
        (void)evbuffer_remove_buffer(from, to, WP_HTTP_BUFFER - have);
    }
}

static void
put_fields(struct evbuffer *to, const struct wp_http_message *m,
           bool strip_token)
{
    for (uint32_t i = 0; i < m->n_fields; i++) {
        const struct wp_http_field *f = &m->fields[i];

        if (wp_http_field_stays(m, f) || wp_http_name_is(f->name, "Expect") ||
            (strip_token && wp_http_name_is(f->name, "Authorization"))) {
            continue;
        }
        (void)evbuffer_add(to, f->name.ptr, f->name.len);
        (void)evbuffer_add(to, ": ", 2);
        (void)evbuffer_add(to, f->value.ptr, f->value.len);
        (void)evbuffer_add(to, "\r\n", 2);
    }
    if (m->chunked) {
        (void)evbuffer_add_printf(to, "Transfer-Encoding: chunked\r\n");
    } else if (m->has_length) {
        (void)evbuffer_add_printf(to, "Content-Length: %llu\r\n",
                                  (unsigned long long)m->length);
    }
}

static void
put_upgrade(struct evbuffer *to, const struct wp_http_message *m)
{
    const struct wp_http_field *upgrade = wp_http_field(m, "Upgrade");

    if (upgrade != NULL) {
        (void)evbuffer_add_printf(to, "Upgrade: %.*s\r\n",
                                  WP_STR_ARG(upgrade->value));
    }
    (void)evbuffer_add_printf(to, "Connection: Upgrade\r\n");
}

static void
put_request_head(struct evbuffer *to, const struct wp_http_message *request,
                 const struct wp_http_route *route, bool strip_token)
{
    bool slash = route->rest.len > 0 && route->rest.ptr[0] == '/';

    (void)evbuffer_add_printf(to, "%.*s %s%.*s HTTP/1.%u\r\n",
                              WP_STR_ARG(request->method), slash ? "" : "/",
                              WP_STR_ARG(route->rest), request->minor);
    put_fields(to, request, strip_token);
    if (request->upgrade) {
        put_upgrade(to, request);
    } else {
        (void)evbuffer_add_printf(to, "Connection: close\r\n");
    }
    (void)evbuffer_add(to, "\r\n", 2);
}

static void
put_response_head(struct wp_http_conn *conn)
{
    const struct wp_http_message *m = &conn->response;
    struct evbuffer *to = out(conn->client);

    wp_http_put_status(to, 1, m->status);
    put_fields(to, m, false);
    if (m->status == 101) {
        put_upgrade(to, m);
    } else if (m->status >= 200 && !conn->keep_alive) {
        (void)evbuffer_add_printf(to, "Connection: close\r\n");
    }
    (void)evbuffer_add(to, "\r\n", 2);
}

static void
finish(struct wp_http_conn *conn)
{
    wp_http_conn_clear_deadline(conn);
    if (conn->keep_alive && conn->request.done) {
        wp_http_conn_next(conn);
    } else {
        wp_http_conn_linger(conn);
    }
}

/* What the response's head decides. False: the exchange has ended. */
static bool
begin_response(struct wp_http_conn *conn)
{
    const struct wp_http_message *m = &conn->response;

    if (m->status == 101 && !conn->request.upgrade) {
        fail(conn, 502, "the sandbox changes protocol without being asked");
        return false;
    }
    if (m->status < 200 && m->status != 101) {
        if (++conn->interim > WP_HTTP_INTERIM_MAX) {
            fail(conn, 502, "the sandbox sends one 1xx after the other");
            return false;
        }
        if (conn->request.minor == 1) {
            put_response_head(conn);
        }
        return true; /* The real one follows. */
    }
    if (m->chunked && conn->request.minor == 0) {
        fail(conn, 502, "the sandbox answers HTTP/1.0 in chunks");
        return false;
    }
    conn->keep_alive = conn->request.keep_alive && conn->request.minor == 1 &&
                       !m->until_eof && !conn->request.upgrade;
    wp_http_conn_clear_deadline(conn);
    put_response_head(conn);
    conn->response_begun = true;
    if (m->status == 101) {
        conn->phase = WP_HTTP_TUNNEL;
        set_timeouts(conn);
    }
    return true;
}

/* Takes one head from the sandbox. False: there is none, or all is over. */
static bool
read_response_head(struct wp_http_conn *conn)
{
    struct evbuffer *from = in(conn->upstream);
    char head[WP_HTTP_HEAD_MAX];
    ev_ssize_t have = evbuffer_copyout(from, head, sizeof head);
    size_t len =
        wp_http_head_len((struct wp_str){head, have > 0 ? (size_t)have : 0});
    const char *why = "";

    if (len == SIZE_MAX) {
        fail(conn, 502, "the sandbox's answer has too long a head");
        return false;
    }
    if (len == 0) {
        if (conn->upstream_eof) {
            fail(conn, 502, "the sandbox closed without an answer");
        }
        return false;
    }
    (void)evbuffer_drain(from, len);
    if (!wp_http_parse_response(&conn->response, (struct wp_str){head, len},
                                conn->is_head, &why)) {
        fail(conn, 502, "the sandbox's answer is not HTTP/1.1");
        return false;
    }
    return begin_response(conn);
}

/* All of the request is on its way: now an answer is owed. */
static void
request_sent(struct wp_http_conn *conn)
{
    set_timeouts(conn);
    if (!conn->response_begun) {
        wp_http_conn_set_deadline(conn, conn->answer_timeout_ns);
    }
}

static void
pump_request(struct wp_http_conn *conn)
{
    if (conn->request.done) {
        return;
    }
    if (!move_body(in(conn->client), out(conn->upstream), &conn->request)) {
        if (conn->response_begun) {
            wp_http_conn_close(conn);
        } else {
            wp_http_conn_fail(conn, 400, "the request's body is broken");
        }
        return;
    }
    if (conn->request.done) {
        request_sent(conn);
    } else if (conn->client_eof && evbuffer_get_length(in(conn->client)) == 0) {
        wp_http_conn_close(conn); /* Gone in the middle of its body. */
    }
}

static void
pump_response(struct wp_http_conn *conn)
{
    while (conn->phase == WP_HTTP_EXCHANGE && !conn->response_begun) {
        if (!read_response_head(conn)) {
            return;
        }
    }
    if (conn->phase != WP_HTTP_EXCHANGE) {
        return;
    }
    if (!move_body(in(conn->upstream), out(conn->client), &conn->response)) {
        fail(conn, 502, "the sandbox's answer is broken");
        return;
    }
    if (!conn->response.done && conn->upstream_eof &&
        evbuffer_get_length(in(conn->upstream)) == 0 &&
        !wp_http_eof(&conn->response)) {
        fail(conn, 502, "the sandbox's answer was cut");
        return;
    }
    if (conn->response.done) {
        finish(conn);
    }
}

static void
pump_tunnel(struct wp_http_conn *conn)
{
    struct bufferevent *client = conn->client;
    struct bufferevent *upstream = conn->upstream;

    move_raw(in(client), out(upstream));
    move_raw(in(upstream), out(client));
    if (conn->upstream_eof && evbuffer_get_length(in(upstream)) == 0) {
        wp_http_conn_linger(conn);
    } else if (conn->client_eof && evbuffer_get_length(in(client)) == 0 &&
               evbuffer_get_length(out(upstream)) == 0) {
        (void)shutdown(bufferevent_getfd(upstream), SHUT_WR);
    }
}

static void
pump(struct wp_http_conn *conn)
{
    if (conn->phase == WP_HTTP_EXCHANGE) {
        pump_request(conn);
    }
    if (conn->phase == WP_HTTP_EXCHANGE) {
        pump_response(conn);
    }
    if (conn->phase == WP_HTTP_TUNNEL) {
        pump_tunnel(conn);
    }
}

static void
on_upstream_ready(struct bufferevent *upstream, void *ctx)
{
    (void)upstream;
    pump(ctx);
}

static void
on_upstream_event(struct bufferevent *upstream, short what, void *ctx)
{
    struct wp_http_conn *conn = ctx;

    (void)upstream;
    if ((what & BEV_EVENT_CONNECTED) != 0) {
        return;
    }
    if ((what & BEV_EVENT_TIMEOUT) != 0) {
        fail(conn, 504, "the sandbox does not take the request");
        return;
    }
    if ((what & BEV_EVENT_WRITING) != 0) {
        /* It takes no more. What it said before may still wait in the kernel:
         * that side is read on, and tells the end. */
        return;
    }
    /* Its end, clean or not: what it sent before still counts. */
    conn->upstream_eof = true;
    pump(conn);
}

void
wp_http_proxy_client_ready(struct wp_http_conn *conn)
{
    pump(conn);
}

void
wp_http_proxy_client_event(struct wp_http_conn *conn, short what)
{
    bool body_owed = conn->phase == WP_HTTP_EXCHANGE && !conn->request.done;

    if ((what & BEV_EVENT_TIMEOUT) != 0 && (what & BEV_EVENT_READING) != 0 &&
        !conn->response_begun) {
        wp_http_conn_fail(conn, 408, "the body did not come in time");
        return;
    }
    /* A client that closes after its request has lost interest: the sandbox
     * learns it by our closing too. In a tunnel, or with a body still in our
     * buffer, it may only have finished sending. */
    if ((what & BEV_EVENT_EOF) != 0 &&
        (body_owed || conn->phase == WP_HTTP_TUNNEL)) {
        conn->client_eof = true;
        pump(conn);
        return;
    }
    wp_http_conn_close(conn);
}

void
wp_http_proxy_late(struct wp_http_conn *conn)
{
    fail(conn, 504, "the sandbox did not answer in time");
}

static int64_t
answer_timeout_ns(const struct wp_http_conn *conn,
                  const struct wp_http_route *route)
{
    int64_t most_ns = conn->server->config.upstream_timeout_ns;

    return route->timeout_ns > 0 && route->timeout_ns < most_ns
               ? route->timeout_ns
               : most_ns;
}

static bool
connect_upstream(struct wp_http_conn *conn, const struct wp_address *address)
{
    struct event_base *base = wp_loop_base(conn->server->config.loop);
    int64_t ns = conn->server->config.idle_timeout_ns;
    struct timeval stall = {ns / WP_NS_PER_S, ns % WP_NS_PER_S / 1000};

    conn->upstream = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (conn->upstream == NULL) {
        return false;
    }
    bufferevent_setcb(conn->upstream, on_upstream_ready, on_upstream_ready,
                      on_upstream_event, conn);
    bufferevent_setwatermark(conn->upstream, EV_READ, 0, WP_HTTP_BUFFER);
    bufferevent_setwatermark(conn->upstream, EV_WRITE, WP_HTTP_BUFFER / 2, 0);
    (void)bufferevent_set_timeouts(conn->upstream, NULL, &stall);
    (void)bufferevent_enable(conn->upstream, EV_READ | EV_WRITE);
    return bufferevent_socket_connect(conn->upstream,
                                      (const struct sockaddr *)&address->sa,
                                      (int)address->len) == 0;
}

void
wp_http_proxy_begin(struct wp_http_conn *conn,
                    const struct wp_http_route *route, const char *endpoint,
                    bool strip_token)
{
    const struct wp_http_field *expect =
        wp_http_field(&conn->request, "Expect");
    struct wp_address address;

    conn->phase = WP_HTTP_EXCHANGE;
    conn->response_begun = false;
    conn->keep_alive = false;
    conn->interim = 0;
    conn->client_eof = false;
    conn->upstream_eof = false;
    if (wp_address_parse(wp_str_from(endpoint), &address, NULL) != WP_OK) {
        fail(conn, 502, "the sandbox's endpoint is not an address");
        return;
    }
    if (route->port != 0) {
        wp_address_set_port(&address, route->port);
    }
    if (!connect_upstream(conn, &address)) {
        fail(conn, 502, "the sandbox cannot be reached");
        return;
    }
    /* Nothing is gained by asking the sandbox first: the body is streamed. */
    if (expect != NULL && conn->request.minor == 1 && !conn->request.done) {
        (void)evbuffer_add_printf(out(conn->client),
                                  "HTTP/1.1 100 Continue\r\n\r\n");
    }
    put_request_head(out(conn->upstream), &conn->request, route, strip_token);
    conn->answer_timeout_ns = answer_timeout_ns(conn, route);
    if (conn->request.done) {
        request_sent(conn);
    } else {
        set_timeouts(conn);
    }
    pump(conn);
}
