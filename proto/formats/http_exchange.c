#include "proto/formats/http_exchange.h"

#include <event2/bufferevent.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "pool/base/clock.h"
#include "proto/formats/http_bound.h"

enum {
    /* 1xx heads a server may send before its answer. */
    INTERIM_MAX = 16,
};

/* User of the request, which owns it. Functions that return bool say whether
 * it goes on: after false it may be gone. */
struct wp_http_exchange {
    const struct wp_http_exchange_config *config;
    const struct wp_http_exchange_ops *ops;
    void *ctx;
    struct wp_http_req *req;
    struct wp_http_message *request;
    struct bufferevent *client;
    struct bufferevent *upstream; /* NULL: not begun, or over. */
    struct wp_http_bound bound;   /* Of upstream. */
    struct wp_http_message response;
    uint32_t interim; /* 1xx heads so far. */
    bool connected;
    bool response_begun; /* The client has seen a head. */
    bool tunnel;
    bool keep_alive; /* Both want it and the framing allows it. */
    bool client_eof;
    bool upstream_eof;
};

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

/* The server has no more to say, and is not listened to. */
static void
drop_upstream(struct wp_http_exchange *x)
{
    if (x->upstream != NULL) {
        bufferevent_free(x->upstream);
        x->upstream = NULL;
    }
}

/* What is buffered still reaches the client. */
static bool
end(struct wp_http_exchange *x)
{
    drop_upstream(x);
    wp_http_stream_end(x->req);
    return false;
}

static bool
drop(struct wp_http_exchange *x)
{
    wp_http_stream_drop(x->req);
    return false;
}

/* The client is at fault. Only before any part of a response was sent. */
static bool
refuse(struct wp_http_exchange *x, int status, const char *why)
{
    drop_upstream(x);
    wp_http_set_close(x->req);
    wp_http_reply_error(x->req, status, "%s", why);
    return false;
}

bool
wp_http_exchange_fail(struct wp_http_exchange *x, int status, const char *why)
{
    *x->config->failed += 1;
    if (x->response_begun) {
        return end(x); /* The client sees a cut answer. */
    }
    return refuse(x, status, why);
}

/* The server is at fault; what: "'s answer was cut". */
static bool
fail(struct wp_http_exchange *x, int status, const char *what)
{
    char why[128];

    (void)snprintf(why, sizeof why, "%s%s", x->config->server, what);
    return wp_http_exchange_fail(x, status, why);
}

static bool
body_is_owed(const struct wp_http_exchange *x)
{
    return !x->tunnel && !x->request->done;
}

/* Nothing moves in a direction for idle_timeout: somebody stalls. Reading has
 * no such bound but while a body is owed, since servers may think and streams
 * may be silent. */
static void
set_timeouts(struct wp_http_exchange *x)
{
    struct timeval stall = wp_timeval(x->config->idle_timeout_ns);

    (void)bufferevent_set_timeouts(x->client, body_is_owed(x) ? &stall : NULL,
                                   &stall);
}

/* Something was said. */
static void
break_silence(struct wp_http_exchange *x)
{
    if (x->config->silence_timeout_ns > 0 && x->response_begun) {
        wp_http_set_deadline(x->req, x->config->silence_timeout_ns);
    }
}

static bool
tell_moved(struct wp_http_exchange *x, size_t sent, size_t received)
{
    if (sent + received == 0) {
        return true;
    }
    break_silence(x);
    return x->ops->moved == NULL || x->ops->moved(x, sent, received) || drop(x);
}

static void
put_chunk(void *ctx, const char *data, size_t len)
{
    (void)evbuffer_add_printf(ctx, "%zx\r\n", len);
    (void)evbuffer_add(ctx, data, len);
    (void)evbuffer_add(ctx, "\r\n", 2);
}

/* Moves body bytes of message. Chunks are written anew, without extensions and
 * trailers: the parser accepts ends of chunks that others take for something
 * else. False: its framing is broken. */
static bool
move_body(struct evbuffer *from, struct evbuffer *to,
          struct wp_http_message *message)
{
    message->on_body = message->chunked ? put_chunk : NULL;
    message->ctx = to;
    while (!message->done && evbuffer_get_length(to) < WP_HTTP_BUFFER) {
        struct evbuffer_iovec chunk;
        int64_t n;

        if (evbuffer_peek(from, -1, NULL, &chunk, 1) < 1 ||
            chunk.iov_len == 0) {
            break;
        }
        n = wp_http_message_body(
            message, (struct wp_str){chunk.iov_base, chunk.iov_len});
        if (n < 0) {
            return false;
        }
        if (message->chunked) {
            (void)evbuffer_drain(from, (size_t)n);
        } else {
            (void)evbuffer_remove_buffer(from, to, (size_t)n);
        }
        if (message->chunked && message->done) {
            (void)evbuffer_add(to, "0\r\n\r\n", 5);
        }
        if (n == 0) {
            break;
        }
    }
    return true;
}

/* How many bytes were moved. */
static size_t
move_raw(struct evbuffer *from, struct evbuffer *to)
{
    size_t have = evbuffer_get_length(to);
    int n = have < WP_HTTP_BUFFER
                ? evbuffer_remove_buffer(from, to, WP_HTTP_BUFFER - have)
                : 0;

    return n > 0 ? (size_t)n : 0;
}

/* The fields that say where the body ends. */
static void
put_framing(struct evbuffer *to, const struct wp_http_message *m)
{
    if (m->chunked) {
        (void)evbuffer_add_printf(to, "Transfer-Encoding: chunked\r\n");
    } else if (m->has_length) {
        (void)evbuffer_add_printf(to, "Content-Length: %llu\r\n",
                                  (unsigned long long)m->length);
    }
}

static void
put_fields(struct evbuffer *to, const struct wp_http_exchange *x,
           const struct wp_http_message *m)
{
    for (uint32_t i = 0; i < m->n_fields; i++) {
        const struct wp_http_field *f = &m->fields[i];

        if (wp_http_field_stays(m, f) || wp_http_name_is(f->name, "Expect") ||
            (x->ops->drops != NULL && x->ops->drops(x, m, f))) {
            continue;
        }
        (void)evbuffer_add(to, f->name.ptr, f->name.len);
        (void)evbuffer_add(to, ": ", 2);
        (void)evbuffer_add(to, f->value.ptr, f->value.len);
        (void)evbuffer_add(to, "\r\n", 2);
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
put_request_head(struct evbuffer *to, const struct wp_http_exchange *x)
{
    const struct wp_http_message *request = x->request;

    x->ops->put_head(x, to);
    put_fields(to, x, request);
    put_framing(to, request);
    if (request->upgrade) {
        put_upgrade(to, request);
    } else {
        (void)evbuffer_add_printf(to, "Connection: close\r\n");
    }
    (void)evbuffer_add(to, "\r\n", 2);
}

static void
put_response_head(struct wp_http_exchange *x)
{
    const struct wp_http_message *m = &x->response;
    struct evbuffer *to = out(x->client);

    wp_http_put_status(x->req, m->status);
    put_fields(to, x, m);
    /* An answer that can have no body announces none: a client that believed
     * the announcement would take the next answer for it. HEAD asks for the
     * length, so that it is told. */
    if (wp_http_status_has_body(m->status) &&
        !(m->head_request && m->chunked)) {
        put_framing(to, m);
    }
    if (m->status == 101) {
        put_upgrade(to, m);
    } else if (m->status >= 200 && !x->keep_alive) {
        (void)evbuffer_add_printf(to, "Connection: close\r\n");
    }
    (void)evbuffer_add(to, "\r\n", 2);
}

static bool
finish(struct wp_http_exchange *x)
{
    if (!x->keep_alive || !x->request->done) {
        return end(x);
    }
    wp_http_stream_next(x->req);
    return false;
}

static void
begin_tunnel(struct wp_http_exchange *x)
{
    x->response_begun = true;
    x->tunnel = true;
    set_timeouts(x);
    break_silence(x);
}

/* What the response's head decides. */
static bool
begin_response(struct wp_http_exchange *x)
{
    const struct wp_http_message *m = &x->response;

    if (m->status == 101 && !x->request->upgrade) {
        return fail(x, 502, " changes protocol without being asked");
    }
    if (m->status < 200 && m->status != 101) {
        if (++x->interim > INTERIM_MAX) {
            return fail(x, 502, " sends one 1xx after the other");
        }
        if (x->request->minor == 1) {
            put_response_head(x);
        }
        return true; /* The real one follows. */
    }
    if (m->chunked && x->request->minor == 0) {
        return fail(x, 502, " answers HTTP/1.0 in chunks");
    }
    x->keep_alive = x->request->keep_alive && x->request->minor == 1 &&
                    !m->until_eof && !x->request->upgrade;
    wp_http_set_deadline(x->req, 0);
    put_response_head(x);
    x->response_begun = true;
    break_silence(x);
    if (m->status == 101) {
        begin_tunnel(x);
    }
    return true;
}

/* Takes one head from the server. False: there is none, or all is over. */
static bool
read_response_head(struct wp_http_exchange *x)
{
    struct evbuffer *from = in(x->upstream);
    bool is_head = wp_str_is(x->request->method, "HEAD");
    char head[WP_HTTP_HEAD_MAX];
    ev_ssize_t have = evbuffer_copyout(from, head, sizeof head);
    size_t len =
        wp_http_head_len((struct wp_str){head, have > 0 ? (size_t)have : 0});
    const char *why = "";

    if (len == SIZE_MAX) {
        return fail(x, 502, "'s answer has too long a head");
    }
    if (len == 0) {
        return x->upstream_eof && fail(x, 502, " closed without an answer");
    }
    (void)evbuffer_drain(from, len);
    if (!wp_http_parse_response(&x->response, (struct wp_str){head, len},
                                is_head, &why)) {
        return fail(x, 502, "'s answer is not HTTP/1.1");
    }
    return tell_moved(x, 0, len) && begin_response(x);
}

/* All of the request is on its way: now an answer is owed. */
static void
request_sent(struct wp_http_exchange *x)
{
    set_timeouts(x);
    if (x->client_eof) {
        wp_http_half_closed(x->req);
    }
    if (!x->response_begun) {
        wp_http_set_deadline(x->req, x->config->answer_timeout_ns);
    }
}

static bool
pump_request(struct wp_http_exchange *x)
{
    struct evbuffer *from = in(x->client);
    size_t had = evbuffer_get_length(from);

    if (x->request->done) {
        return true;
    }
    if (!move_body(from, out(x->upstream), x->request)) {
        return x->response_begun
                   ? drop(x)
                   : refuse(x, 400, "the request's body is broken");
    }
    if (!tell_moved(x, had - evbuffer_get_length(from), 0)) {
        return false;
    }
    if (x->request->done) {
        request_sent(x);
    } else if (x->client_eof && evbuffer_get_length(from) == 0) {
        return drop(x); /* Gone in the middle of its body. */
    }
    return true;
}

static bool
pump_response(struct wp_http_exchange *x)
{
    struct evbuffer *from;
    size_t had;

    while (!x->response_begun) {
        if (!read_response_head(x)) {
            return false;
        }
    }
    if (x->tunnel) {
        return true;
    }
    from = in(x->upstream);
    had = evbuffer_get_length(from);
    if (!move_body(from, out(x->client), &x->response)) {
        return fail(x, 502, "'s answer is broken");
    }
    if (!tell_moved(x, 0, had - evbuffer_get_length(from))) {
        return false;
    }
    if (!x->response.done && x->upstream_eof &&
        evbuffer_get_length(from) == 0 && !wp_http_message_eof(&x->response)) {
        return fail(x, 502, "'s answer was cut");
    }
    return x->response.done ? finish(x) : true;
}

static void
pump_tunnel(struct wp_http_exchange *x)
{
    size_t sent = move_raw(in(x->client), out(x->upstream));
    size_t received = move_raw(in(x->upstream), out(x->client));

    if (!tell_moved(x, sent, received)) {
        return;
    }
    if (x->upstream_eof && evbuffer_get_length(in(x->upstream)) == 0) {
        (void)end(x);
    } else if (x->client_eof && evbuffer_get_length(in(x->client)) == 0 &&
               evbuffer_get_length(out(x->upstream)) == 0) {
        (void)shutdown(bufferevent_getfd(x->upstream), SHUT_WR);
    }
}

static void
pump(struct wp_http_exchange *x)
{
    if (!x->connected) {
        return; /* What comes meanwhile waits where it is. */
    }
    if ((x->tunnel || (pump_request(x) && pump_response(x))) && x->tunnel) {
        pump_tunnel(x);
    }
}

/* ------------------------------------------------------------- the server */

static void
on_upstream_ready(struct bufferevent *upstream, void *ctx)
{
    (void)upstream;
    pump(ctx);
}

static void
on_connected(struct wp_http_exchange *x)
{
    struct timeval stall = wp_timeval(x->config->idle_timeout_ns);

    x->connected = true;
    (void)bufferevent_set_timeouts(x->upstream, NULL, &stall);
    if (x->request->connect) {
        wp_http_put_status(x->req, HTTP_STATUS_OK);
        (void)evbuffer_add(out(x->client), "\r\n", 2);
        begin_tunnel(x);
    }
    pump(x);
}

static void
on_upstream_event(struct bufferevent *upstream, short what, void *ctx)
{
    struct wp_http_exchange *x = ctx;

    (void)upstream;
    if ((what & BEV_EVENT_CONNECTED) != 0) {
        on_connected(x);
        return;
    }
    if (!x->connected) {
        drop_upstream(x);
        if (x->ops->unreached == NULL || !x->ops->unreached(x)) {
            (void)fail(x, 502, " cannot be reached");
        }
        return;
    }
    if ((what & BEV_EVENT_TIMEOUT) != 0) {
        (void)fail(x, 504, " does not take the request");
        return;
    }
    if ((what & BEV_EVENT_WRITING) != 0) {
        /* It takes no more. What it said before may still wait in the kernel:
         * that side is read on, and tells the end. */
        return;
    }
    /* Its end, clean or not: what it sent before still counts. */
    x->upstream_eof = true;
    pump(x);
}

bool
wp_http_exchange_connect(struct wp_http_exchange *x,
                         struct bufferevent *upstream,
                         const struct sockaddr *address, int len)
{
    int64_t connect_ns = x->config->connect_timeout_ns > 0
                             ? x->config->connect_timeout_ns
                             : x->config->idle_timeout_ns;
    struct timeval wait = wp_timeval(connect_ns);

    if (upstream == NULL) {
        return fail(x, 502, " cannot be reached");
    }
    x->upstream = upstream;
    bufferevent_setcb(upstream, on_upstream_ready, on_upstream_ready,
                      on_upstream_event, x);
    wp_http_bound_set(&x->bound, upstream);
    (void)bufferevent_set_timeouts(upstream, NULL, &wait);
    (void)bufferevent_enable(upstream, EV_READ | EV_WRITE);
    wp_http_set_deadline(x->req, 0);
    if (bufferevent_socket_connect(upstream, address, len) != 0) {
        drop_upstream(x);
        return (x->ops->unreached != NULL && x->ops->unreached(x)) ||
               fail(x, 502, " cannot be reached");
    }
    if (x->request->connect) {
        return true;
    }
    put_request_head(out(upstream), x);
    if (x->request->done) {
        request_sent(x);
    } else {
        set_timeouts(x);
    }
    return tell_moved(x, evbuffer_get_length(out(upstream)), 0);
}

/* ------------------------------------------------------------- the client */

static void
on_client_input(struct wp_http_req *req, struct evbuffer *input)
{
    (void)input;
    pump(wp_http_user(req));
}

static void
on_client_drained(struct wp_http_req *req)
{
    pump(wp_http_user(req));
}

static void
on_client_event(struct wp_http_req *req, short what)
{
    struct wp_http_exchange *x = wp_http_user(req);
    bool body_owed = body_is_owed(x);

    if ((what & BEV_EVENT_TIMEOUT) != 0 && (what & BEV_EVENT_READING) != 0 &&
        !x->response_begun) {
        (void)refuse(x, 408, "the body did not come in time");
        return;
    }
    /* It has finished sending, and still waits for the answer. When it has
     * left altogether, the server learns it by our closing too; but in a
     * tunnel, or with a body still in our buffer, it gets the last of it. */
    if ((what & BEV_EVENT_EOF) != 0 &&
        (body_owed || x->tunnel || !wp_http_client_left(x->req))) {
        x->client_eof = true;
        if (!body_owed && !x->tunnel) {
            wp_http_half_closed(x->req);
        }
        pump(x);
        return;
    }
    (void)drop(x);
}

static void
on_late(struct wp_http_req *req)
{
    (void)fail(wp_http_user(req), 504, " did not answer in time");
}

/* --------------------------------------------------------------- its life */

static void
begin(struct wp_http_req *req)
{
    static const struct wp_http_stream_ops stream = {
        .input = on_client_input,
        .drained = on_client_drained,
        .event = on_client_event,
        .late = on_late,
    };
    struct wp_http_exchange *x = wp_http_user(req);

    wp_http_take(req, &stream);
    if (x->ops->begin(x)) {
        /* What came with the head is moved from the loop. */
        bufferevent_trigger(x->client, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
    }
}

static void
gone(struct wp_http_req *req)
{
    struct wp_http_exchange *x = wp_http_user(req);

    drop_upstream(x);
    x->ops->gone(x);
    free(x);
}

const struct wp_http_ops *
wp_http_exchange_open(const struct wp_http_exchange_config *config,
                      const struct wp_http_exchange_ops *ops,
                      struct wp_http_req *req, void *ctx)
{
    static const struct wp_http_ops server_ops = {
        .body_max = UINT64_MAX, .begin = begin, .gone = gone};
    struct wp_http_exchange *x = calloc(1, sizeof *x);

    if (x == NULL) {
        return NULL;
    }
    x->config = config;
    x->ops = ops;
    x->ctx = ctx;
    x->req = req;
    x->request = wp_http_message(req);
    x->client = wp_http_bufferevent(req);
    wp_http_set_user(req, x);
    return &server_ops;
}

void *
wp_http_exchange_ctx(const struct wp_http_exchange *x)
{
    return x->ctx;
}

struct wp_http_req *
wp_http_exchange_req(const struct wp_http_exchange *x)
{
    return x->req;
}
