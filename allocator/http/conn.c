#include "allocator/http/conn.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"

/* How long a client may take to notice that it was answered and go. */
#define LINGER_NS (2 * WP_NS_PER_S)

static struct timeval
to_timeval(int64_t duration_ns)
{
    return (struct timeval){duration_ns / WP_NS_PER_S,
                            duration_ns % WP_NS_PER_S / 1000};
}

void
wp_http_conn_set_deadline(struct wp_http_conn *conn, int64_t in_ns)
{
    struct timeval tv = to_timeval(in_ns);

    (void)event_add(conn->deadline, &tv);
}

void
wp_http_conn_clear_deadline(struct wp_http_conn *conn)
{
    (void)event_del(conn->deadline);
}

void
wp_http_conn_close(struct wp_http_conn *conn)
{
    struct wp_http_server *server = conn->server;

    if (conn->phase == WP_HTTP_CLOSED) {
        return;
    }
    conn->phase = WP_HTTP_CLOSED;
    bufferevent_free(conn->client);
    if (conn->upstream != NULL) {
        bufferevent_free(conn->upstream);
    }
    event_free(conn->deadline);
    wp_list_remove(&conn->node);
    wp_list_push_back(&server->closed, &conn->node);
    server->stats.connections--;
    event_active(server->reap, EV_TIMEOUT, 0);
}

void
wp_http_conn_reap(struct wp_http_server *server)
{
    struct wp_list *node;

    while ((node = wp_list_pop_front(&server->closed)) != NULL) {
        free(WP_CONTAINER_OF(node, struct wp_http_conn, node));
    }
}

void
wp_http_put_status(struct evbuffer *out, unsigned minor, unsigned status)
{
    (void)evbuffer_add_printf(out, "HTTP/1.%u %u %s\r\n", minor, status,
                              http_status_str((enum http_status)status));
}

void
wp_http_conn_linger(struct wp_http_conn *conn)
{
    struct evbuffer *input = bufferevent_get_input(conn->client);

    if (conn->upstream != NULL) {
        bufferevent_free(conn->upstream);
        conn->upstream = NULL;
    }
    conn->phase = WP_HTTP_LINGER;
    (void)evbuffer_drain(input, evbuffer_get_length(input));
    (void)bufferevent_set_timeouts(conn->client, NULL, NULL);
    (void)bufferevent_enable(conn->client, EV_READ | EV_WRITE);
    wp_http_conn_clear_deadline(conn);
    if (evbuffer_get_length(bufferevent_get_output(conn->client)) == 0) {
        (void)shutdown(bufferevent_getfd(conn->client), SHUT_WR);
        wp_http_conn_set_deadline(conn, LINGER_NS);
    } else {
        wp_http_conn_set_deadline(conn, conn->server->config.idle_timeout_ns);
    }
}

static void
put_json_text(struct evbuffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\') {
            (void)evbuffer_add_printf(out, "\\%c", c);
        } else if (c < 0x20) {
            (void)evbuffer_add_printf(out, "\\u%04x", c);
        } else {
            (void)evbuffer_add(out, &c, 1);
        }
    }
}

void
wp_http_conn_fail(struct wp_http_conn *conn, unsigned status, const char *why)
{
    struct evbuffer *out = bufferevent_get_output(conn->client);
    struct evbuffer *body = evbuffer_new();

    if (body == NULL) {
        wp_http_conn_close(conn);
        return;
    }
    (void)evbuffer_add_printf(body, "{\"error\":\"");
    put_json_text(body, why);
    (void)evbuffer_add_printf(body, "\"}\n");
    wp_http_put_status(out, 1, status);
    (void)evbuffer_add_printf(out,
                              "Content-Type: application/json\r\n"
                              "Content-Length: %zu\r\n"
                              "%s%sConnection: close\r\n\r\n",
                              evbuffer_get_length(body),
                              status == 401 ? "WWW-Authenticate: Bearer\r\n"
                                            : "",
                              status == 405 ? "Allow: GET, HEAD\r\n" : "");
    if (!conn->is_head) {
        (void)evbuffer_add_buffer(out, body);
    }
    evbuffer_free(body);
    wp_http_conn_linger(conn);
}

static void
send_page(struct wp_http_conn *conn, const struct wp_http_page *page)
{
    struct evbuffer *out = bufferevent_get_output(conn->client);
    struct evbuffer *body = evbuffer_new();
    const char *type = "text/plain; charset=utf-8";
    bool keep = conn->request.keep_alive && conn->request.done &&
                conn->request.minor == 1;
    unsigned status;

    if (body == NULL) {
        wp_http_conn_close(conn);
        return;
    }
    status = page->render(page->ctx, body, &type);
    wp_http_put_status(out, 1, status);
    (void)evbuffer_add_printf(out,
                              "Content-Type: %s\r\nContent-Length: %zu\r\n"
                              "Cache-Control: no-store\r\n%s\r\n",
                              type, evbuffer_get_length(body),
                              keep ? "" : "Connection: close\r\n");
    if (!conn->is_head) {
        (void)evbuffer_add_buffer(out, body);
    }
    evbuffer_free(body);
    if (keep) {
        conn->idle = true; /* Stays in HEAD; the caller looks on. */
    } else {
        wp_http_conn_linger(conn);
    }
}

/* Is there a bearer token that this daemon knows for the route's sandbox? */
static bool
token_known(const struct wp_http_conn *conn, const struct wp_http_route *route)
{
    const struct wp_http_config *config = &conn->server->config;
    size_t admin_len = strlen(config->admin_token);
    uint8_t token[WP_TOKEN_LEN];

    if (route->bearer.len == 0) {
        return false;
    }
    if (admin_len == route->bearer.len &&
        wp_bytes_eq_const_time(config->admin_token, route->bearer.ptr,
                               admin_len)) {
        return true;
    }
    return route->proxy && wp_hex_decode(route->bearer, token, sizeof token) &&
           config->token_valid(config->ctx, token, route->sandbox);
}

static bool
token_needed(const struct wp_http_conn *conn, bool proxy)
{
    switch (conn->server->config.token_rule) {
    case WP_HTTP_TOKEN_ALWAYS:
        return true;
    case WP_HTTP_TOKEN_NEVER:
        return false;
    case WP_HTTP_TOKEN_AUTO:
    default:
        return proxy && !conn->trusted;
    }
}

static void
serve_page(struct wp_http_conn *conn, const struct wp_http_route *route)
{
    const struct wp_http_config *config = &conn->server->config;
    const struct wp_http_page *page = NULL;

    for (size_t i = 0; i < config->n_pages; i++) {
        if (wp_str_is(route->path, config->pages[i].path)) {
            page = &config->pages[i];
        }
    }
    if (page == NULL) {
        wp_http_conn_fail(conn, 404,
                          "no such page; there are /metrics, /healthz, "
                          "/readyz and /sandboxes/NAME/...");
    } else if (!page->open && token_needed(conn, false) &&
               !token_known(conn, route)) {
        wp_http_conn_fail(conn, 401, "a bearer token is needed");
    } else if (!wp_str_is(conn->request.method, "GET") && !conn->is_head) {
        wp_http_conn_fail(conn, 405, "expected GET or HEAD");
    } else {
        send_page(conn, page);
    }
}

static void
serve_sandbox(struct wp_http_conn *conn, const struct wp_http_route *route)
{
    const struct wp_http_config *config = &conn->server->config;
    bool known = token_known(conn, route);
    struct wp_claim_info info;

    /* First the right, so that strangers cannot learn which names exist. */
    if (token_needed(conn, true) && !known) {
        wp_http_conn_fail(conn, 401,
                          "a bearer token is needed: the lease's token in "
                          "hexadecimal");
        return;
    }
    memset(&info, 0, sizeof info);
    if (config->find(config->ctx, route->sandbox, &info) != WP_OK ||
        (route->sandbox_namespace.len > 0 &&
         !wp_str_is(route->sandbox_namespace, info.pool_namespace))) {
        wp_http_conn_fail(conn, 404, "no leased sandbox has this name");
        return;
    }
    if (info.lost) {
        conn->server->stats.upstream_failed_total++;
        wp_http_conn_fail(conn, 502, "the sandbox is lost; release its claim");
        return;
    }
    conn->server->stats.proxied_total++;
    wp_http_proxy_begin(conn, route, info.endpoint, known);
}

/* A complete head, which may end the phase. */
static void
serve(struct wp_http_conn *conn, struct wp_str head)
{
    const char *why = "";
    struct wp_http_route route;

    wp_http_conn_clear_deadline(conn);
    conn->server->stats.requests_total++;
    conn->is_head = false;
    if (!wp_http_parse_request(&conn->request, head, &why)) {
        wp_http_conn_fail(conn, 400, why);
        return;
    }
    conn->is_head = wp_str_is(conn->request.method, "HEAD");
    if (!wp_http_route(&conn->request, &route, &why)) {
        wp_http_conn_fail(conn, 400, why);
    } else if (route.proxy) {
        serve_sandbox(conn, &route);
    } else {
        serve_page(conn, &route);
    }
}

/* Empty lines before a request are allowed, and ignored. */
static void
skip_empty_lines(struct evbuffer *input)
{
    char c;

    while (evbuffer_copyout(input, &c, 1) == 1 && (c == '\r' || c == '\n')) {
        (void)evbuffer_drain(input, 1);
    }
}

/* Takes one head from the input. False: there is none yet, or it was bad. */
static bool
next_head(struct wp_http_conn *conn, char *out, size_t *out_len)
{
    struct evbuffer *input = bufferevent_get_input(conn->client);
    const struct wp_http_config *config = &conn->server->config;
    ev_ssize_t have;

    skip_empty_lines(input);
    have = evbuffer_copyout(input, out, WP_HTTP_HEAD_MAX);
    if (have <= 0) {
        if (conn->idle) {
            wp_http_conn_set_deadline(conn, config->idle_timeout_ns);
        }
        return false;
    }
    if (conn->idle) {
        conn->idle = false;
        wp_http_conn_set_deadline(conn, config->head_timeout_ns);
    }
    *out_len = wp_http_head_len((struct wp_str){out, (size_t)have});
    if (*out_len == SIZE_MAX) {
        wp_http_conn_fail(conn, 431, "the head has more than 16384 bytes");
        return false;
    }
    if (*out_len > 0) {
        (void)evbuffer_drain(input, *out_len);
    }
    return *out_len > 0;
}

static void
read_heads(struct wp_http_conn *conn)
{
    char head[WP_HTTP_HEAD_MAX];
    size_t len = 0;

    while (conn->phase == WP_HTTP_HEAD && next_head(conn, head, &len)) {
        serve(conn, (struct wp_str){head, len});
        /* One that does not read its answers is not given more of them; the
         * write callback goes on. */
        if (conn->phase == WP_HTTP_HEAD &&
            evbuffer_get_length(bufferevent_get_output(conn->client)) >
                WP_HTTP_BUFFER) {
            return;
        }
    }
}

void
wp_http_conn_next(struct wp_http_conn *conn)
{
    if (conn->upstream != NULL) {
        bufferevent_free(conn->upstream);
        conn->upstream = NULL;
    }
    conn->phase = WP_HTTP_HEAD;
    conn->idle = true;
    conn->client_eof = false;
    /* Not read on from here: callers are in the middle of an exchange. */
    bufferevent_trigger(conn->client, EV_READ,
                        BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

static void
on_read(struct bufferevent *client, void *ctx)
{
    struct wp_http_conn *conn = ctx;
    struct evbuffer *input = bufferevent_get_input(client);

    switch (conn->phase) {
    case WP_HTTP_HEAD:
        read_heads(conn);
        break;
    case WP_HTTP_EXCHANGE:
    case WP_HTTP_TUNNEL:
        wp_http_proxy_client_ready(conn);
        break;
    case WP_HTTP_LINGER:
        (void)evbuffer_drain(input, evbuffer_get_length(input));
        break;
    case WP_HTTP_CLOSED:
    default:
        break;
    }
}

static void
on_write(struct bufferevent *client, void *ctx)
{
    struct wp_http_conn *conn = ctx;

    if (conn->phase == WP_HTTP_EXCHANGE || conn->phase == WP_HTTP_TUNNEL) {
        wp_http_proxy_client_ready(conn);
    } else if (conn->phase == WP_HTTP_HEAD) {
        read_heads(conn);
    } else if (conn->phase == WP_HTTP_LINGER &&
               evbuffer_get_length(bufferevent_get_output(client)) == 0) {
        (void)shutdown(bufferevent_getfd(client), SHUT_WR);
        wp_http_conn_set_deadline(conn, LINGER_NS);
    }
}

static void
on_event(struct bufferevent *client, short what, void *ctx)
{
    struct wp_http_conn *conn = ctx;

    (void)client;
    if (conn->phase == WP_HTTP_EXCHANGE || conn->phase == WP_HTTP_TUNNEL) {
        wp_http_proxy_client_event(conn, what);
    } else {
        wp_http_conn_close(conn);
    }
}

static void
on_deadline(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_http_conn *conn = ctx;

    (void)fd;
    (void)what;
    if (conn->phase == WP_HTTP_EXCHANGE) {
        wp_http_proxy_late(conn);
    } else if (conn->phase == WP_HTTP_HEAD && !conn->idle) {
        wp_http_conn_fail(conn, 408, "the head did not come in time");
    } else {
        wp_http_conn_close(conn);
    }
}

void
wp_http_conn_open(struct wp_http_server *server, int fd, bool trusted,
                  const char *refuse)
{
    struct event_base *base = wp_loop_base(server->config.loop);
    struct wp_http_conn *conn = calloc(1, sizeof *conn);
    struct timeval stall = to_timeval(server->config.idle_timeout_ns);

    if (conn != NULL) {
        conn->client = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
        conn->deadline = event_new(base, -1, 0, on_deadline, conn);
    }
    if (conn == NULL || conn->client == NULL || conn->deadline == NULL) {
        if (conn != NULL && conn->client != NULL) {
            bufferevent_free(conn->client);
        } else {
            (void)close(fd);
        }
        if (conn != NULL && conn->deadline != NULL) {
            event_free(conn->deadline);
        }
        free(conn);
        return;
    }
    conn->server = server;
    conn->trusted = trusted;
    conn->phase = WP_HTTP_HEAD;
    wp_list_push_back(&server->conns, &conn->node);
    server->stats.connections++;
    bufferevent_setcb(conn->client, on_read, on_write, on_event, conn);
    bufferevent_setwatermark(conn->client, EV_READ, 0, WP_HTTP_BUFFER);
    bufferevent_setwatermark(conn->client, EV_WRITE, WP_HTTP_BUFFER / 2, 0);
    (void)bufferevent_set_timeouts(conn->client, NULL, &stall);
    (void)bufferevent_enable(conn->client, EV_READ | EV_WRITE);
    /* From here on a head is expected, however slowly the first byte comes. */
    wp_http_conn_set_deadline(conn, server->config.head_timeout_ns);
    if (refuse != NULL) {
        wp_http_conn_fail(conn, 403, refuse);
    }
}
