/* runtime/http/server.h - HTTP/1.1 for a handful of routes, on one event loop.
 *
 * Why not evhttp: it holds a whole body in memory before the handler sees it
 * (uploads here are streamed to disk), and has no clean way to give a
 * connection away after "101 Switching Protocols". So the socket is a
 * bufferevent, the head is parsed by http_parser, and a request is answered
 * exactly once, now or later.
 *
 * Life of a request: route() picks the ops when the head is complete; begin()
 * and body() may stream the body in, else it is collected; ready() runs when
 * the body is whole; somebody calls one wp_http_reply*(); gone() is the last
 * call, made for every request that got ops, even one refused before begin():
 * after the answer, or when the client left before it. A request pointer is
 * valid until gone() returns. A client that closes its sending side counts as
 * one that left.
 *
 * Bounds: 16 KiB and 64 headers a head (431), ops->body_max a body (413),
 * conns_max connections (further ones wait in the listen queue). Time: a head
 * 10 s, a body 30 s without progress, an idle connection 75 s, an answer 60 s
 * without progress. Loop thread only. */
#ifndef WP_RUNTIME_HTTP_SERVER_H
#define WP_RUNTIME_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <event2/buffer.h>
#include <event2/event.h>
#include <jansson.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"

struct wp_http_server;
struct wp_http_req;

struct wp_http_ops {
    uint64_t body_max; /* Bytes. */
    /* Both optional. begin() may already answer; then neither body() nor
     * ready() follows. */
    void (*begin)(struct wp_http_req *req);
    void (*body)(struct wp_http_req *req, const char *data, size_t len);
    void (*ready)(struct wp_http_req *req);
    void (*gone)(struct wp_http_req *req); /* Optional. */
};

/* Chooses the ops of a request, or answers it itself and returns NULL. */
typedef const struct wp_http_ops *(*wp_http_route_fn)(struct wp_http_req *req);

/* roles is a bit mask that the route function reads back. NULL on no memory. */
struct wp_http_server *wp_http_server_create(struct event_base *base,
                                             wp_http_route_fn route, void *app,
                                             uint32_t conns_max);
/* Takes fd, a bound, non-blocking stream socket, and listens on it. */
WP_MUST_CHECK enum wp_status
wp_http_server_listen(struct wp_http_server *server, int fd, unsigned roles,
                      struct wp_err *err);
/* Stops accepting and drops idle connections; drained() runs once no request
 * is left, at once when there is none. */
void wp_http_server_drain(struct wp_http_server *server,
                          void (*drained)(void *arg), void *arg);
/* Drops every connection; gone() runs for each request. */
void wp_http_server_destroy(struct wp_http_server *server);

/* The request. Strings are borrowed until gone(). */
void *wp_http_app(const struct wp_http_req *req);
unsigned wp_http_roles(const struct wp_http_req *req);
const char *wp_http_method(const struct wp_http_req *req);
/* The target without its query, still percent-encoded. */
const char *wp_http_path(const struct wp_http_req *req);
/* NULL when absent; the first of several. Name in any case. */
const char *wp_http_header(const struct wp_http_req *req, const char *name);
/* True when the head asks to switch to `protocol`. */
bool wp_http_wants_upgrade(const struct wp_http_req *req, const char *protocol);
/* The collected body, in one piece; "" when there is none. */
const char *wp_http_body(struct wp_http_req *req, size_t *len);
/* One pointer of the handler's own. */
void wp_http_set_user(struct wp_http_req *req, void *user);
void *wp_http_user(const struct wp_http_req *req);
bool wp_http_replied(const struct wp_http_req *req);

/* Adds a header to the answer to come; name and value must hold no CR or LF
 * (asserted: they are never taken from a client). */
void wp_http_add_header(struct wp_http_req *req, const char *name,
                        const char *value);
/* Answers. type may be NULL when len is 0. HEAD requests get no body. */
void wp_http_reply(struct wp_http_req *req, int status, const char *type,
                   const void *data, size_t len);
/* Answers with compact JSON; takes one reference of body. NULL becomes 500. */
void wp_http_reply_json(struct wp_http_req *req, int status, json_t *body);
/* Answers {"error":"..."}. */
void wp_http_reply_error(struct wp_http_req *req, int status, const char *fmt,
                         ...) WP_PRINTF(3, 4);
/* Takes fd and streams size bytes of it from its start. A file that shrinks
 * under way ends the connection, so the client sees a short body. */
void wp_http_reply_file(struct wp_http_req *req, int fd, uint64_t size);

/* After a switch of protocols. Callbacks may call wp_http_stream_end. */
struct wp_http_stream_ops {
    void (*input)(struct wp_http_req *req, struct evbuffer *in);
    void (*drained)(struct wp_http_req *req); /* All output was sent. */
};
/* Answers 101. input() gets what the client sent beyond its request, from the
 * event loop, not from inside this call. gone() still ends it all. */
void wp_http_upgrade(struct wp_http_req *req, const char *protocol,
                     const struct wp_http_stream_ops *ops);
/* Appends to what is being sent; the queue's length is below. */
struct evbuffer *wp_http_stream_output(struct wp_http_req *req);
/* While input is off, the client is held back by its socket. Its leaving is
 * still seen, but over TCP only once the kernel has room for what it sent
 * before: a close cannot overtake data. */
void wp_http_stream_read(struct wp_http_req *req, bool on);
/* Sends what is queued, then closes. No more input() calls. */
void wp_http_stream_end(struct wp_http_req *req);

#endif
