/* proto/formats/http_server.h - HTTP/1.1 on one event loop.
 *
 * Why not evhttp: it holds a whole body in memory before the handler sees it,
 * and has no clean way to give a connection away after "101 Switching
 * Protocols". So the socket is a bufferevent, heads are parsed by http_head,
 * and a request is answered exactly once, now or later.
 *
 * Life of a request: route() picks the ops when the head is complete; begin()
 * and body() may stream the body in, else it is collected; ready() runs when
 * the body is whole; somebody calls one wp_http_reply*(), or takes the
 * connection over; gone() is the last call, made for every request that got
 * ops, even one refused before begin(): after the answer, or when the client
 * left before it. A request pointer is valid until gone() returns. A client
 * that closes its sending side is answered what it has asked in full. One that
 * closes altogether has left.
 *
 * Bounds: 16 KiB and fields_max fields a head (431), ops->body_max a body
 * (413), conns_max connections, 64 KiB read ahead, a time for each phase in
 * which the other side could stall. Loop thread only. */
#ifndef WP_PROTO_FORMATS_HTTP_SERVER_H
#define WP_PROTO_FORMATS_HTTP_SERVER_H

#include <event2/buffer.h>
#include <event2/event.h>

#include "pool/base/status.h"
#include "proto/formats/http_head.h"

struct bufferevent;
struct sockaddr;
struct wp_http_server; /* Opaque. */
struct wp_http_req;    /* Opaque. */

enum {
    /* Bytes read ahead of a connection before it is not read. */
    WP_HTTP_BUFFER = 64 << 10,
};

struct wp_http_ops {
    uint64_t body_max; /* Bytes. */
    /* All optional but ready(). begin() may already answer, or take the
     * connection over; then neither body() nor ready() follows. */
    void (*begin)(struct wp_http_req *req);
    void (*body)(struct wp_http_req *req, const char *data, size_t len);
    void (*ready)(struct wp_http_req *req);
    void (*gone)(struct wp_http_req *req);
};

struct wp_http_server_config {
    struct event_base *base; /* Borrowed until destroy. */
    /* Chooses the ops of a request, or answers it itself and returns NULL. */
    const struct wp_http_ops *(*route)(struct wp_http_req *req);
    /* Optional: a new connection on fd from peer. A text, which refuses it
     * (403), or NULL; then left() is called when it has ended. */
    const char *(*admit)(struct wp_http_req *conn, int fd,
                         const struct sockaddr *peer);
    void (*left)(struct wp_http_req *conn);
    size_t peer_size; /* Of wp_http_peer(), zeroed for each connection. */
    bool forward;     /* Takes requests as a forward proxy does. */
    void *app;
    uint32_t conns_max;      /* Further ones wait in the listen queue. */
    uint32_t fields_max;     /* At most WP_HTTP_FIELDS_MAX. */
    int64_t head_timeout_ns; /* Of the first from the connection's start. */
    int64_t body_timeout_ns; /* Without progress. */
    int64_t idle_timeout_ns; /* Between requests. */
    int64_t send_timeout_ns; /* Without progress. */
};

/* NULL on no memory. */
struct wp_http_server *
wp_http_server_create(const struct wp_http_server_config *config);
/* Takes fd, a bound, non-blocking stream socket, and listens on it. roles is a
 * bit mask that the route function reads back. */
WP_MUST_CHECK enum wp_status
wp_http_server_listen(struct wp_http_server *server, int fd, unsigned roles,
                      struct wp_err *err);
/* How a listener's connections are secured, by who knows how. */
struct wp_http_secure {
    /* The bufferevent of a new connection on fd, which it owns; it tells of
     * the handshake's end with BEV_EVENT_CONNECTED. NULL: fd is the caller's
     * still. */
    struct bufferevent *(*open)(void *ctx, struct event_base *base, int fd);
    /* Nothing more is sent: tells the client that this is the end. */
    void (*end)(struct bufferevent *bev);
    void *ctx;
};
/* The same with connections that secure opens; borrowed until destroy. A
 * handshake has the time of a head. */
WP_MUST_CHECK enum wp_status wp_http_server_listen_secure(
    struct wp_http_server *server, int fd, unsigned roles,
    const struct wp_http_secure *secure, struct wp_err *err);
/* Closes the listeners that have exactly these roles, and drops their
 * connections; gone() runs for each request. */
void wp_http_server_unlisten(struct wp_http_server *server, unsigned roles);
/* Stops accepting and drops idle connections; drained() runs once no request
 * is left, at once when there is none. */
void wp_http_server_drain(struct wp_http_server *server,
                          void (*drained)(void *arg), void *arg);
/* Drops every connection; gone() runs for each request. NULL is fine. */
void wp_http_server_destroy(struct wp_http_server *server);

struct wp_http_server_stats {
    uint64_t connections_total;
    uint64_t connections_refused; /* Not admitted. */
    uint64_t requests_total;
    uint32_t connections;
};
struct wp_http_server_stats
wp_http_server_stats(const struct wp_http_server *server);

/* --- The request. Strings and views are borrowed until gone(). --- */

void *wp_http_app(const struct wp_http_req *req);
/* What the application knows of the connection, from admit() to left(). */
void *wp_http_peer(struct wp_http_req *req);
unsigned wp_http_roles(const struct wp_http_req *req);
const char *wp_http_method(const struct wp_http_req *req);
/* The target without its query, still percent-encoded. */
const char *wp_http_path(const struct wp_http_req *req);
/* What stands behind '?' in the target, still encoded; empty without. */
struct wp_str wp_http_query(const struct wp_http_req *req);
/* NULL when absent; the first of several. Name in any case. */
const char *wp_http_header(const struct wp_http_req *req, const char *name);
/* True when the head asks to switch to `protocol`. */
bool wp_http_wants_upgrade(const struct wp_http_req *req, const char *protocol);
/* The head, and for who took the connection over, the body's framing. */
struct wp_http_message *wp_http_message(struct wp_http_req *req);
/* From ready() on: the collected body, in one piece; "" when there is none. */
const char *wp_http_body(struct wp_http_req *req, size_t *len);
/* One pointer of the handler's own. */
void wp_http_set_user(struct wp_http_req *req, void *user);
void *wp_http_user(const struct wp_http_req *req);
bool wp_http_replied(const struct wp_http_req *req);

/* --- The answer. --- */

/* Adds a header to the answer to come; name and value must hold no CR or LF
 * (asserted: they are never taken from a client). */
void wp_http_add_header(struct wp_http_req *req, const char *name,
                        const char *value);
/* The connection is to end with the answer to come. */
void wp_http_set_close(struct wp_http_req *req);
/* Answers. type may be NULL when len is 0. HEAD requests get no body, nor do
 * the statuses that allow none. */
void wp_http_reply(struct wp_http_req *req, int status, const char *type,
                   const void *data, size_t len);
/* The same with what body holds, which is emptied. */
void wp_http_reply_buffer(struct wp_http_req *req, int status, const char *type,
                          struct evbuffer *body);
/* Answers {"error":"..."}. */
void wp_http_reply_error(struct wp_http_req *req, int status, const char *fmt,
                         ...) WP_PRINTF(3, 4);
/* Takes fd and streams size bytes of it from its start. A file that shrinks
 * under way ends the connection, so the client sees a short body. */
void wp_http_reply_file(struct wp_http_req *req, int fd, uint64_t size);
/* The same with 206 and the bytes from an offset on. The caller has added
 * Content-Range. */
void wp_http_reply_file_part(struct wp_http_req *req, int fd, uint64_t from,
                             uint64_t size);
/* Queues "HTTP/1.1 200 OK" and the end of line: every answer begins so. For
 * who took the connection over. */
void wp_http_put_status(struct wp_http_req *req, unsigned status);

/* --- Taking the connection over. --- */

struct wp_http_stream_ops {
    /* Optional for an answer in pieces. */
    void (*input)(struct wp_http_req *req, struct evbuffer *in);
    /* Optional: what is being sent has shrunk to half of WP_HTTP_BUFFER. */
    void (*drained)(struct wp_http_req *req);
    /* Optional, bufferevent's events; without it the connection is dropped. */
    void (*event)(struct wp_http_req *req, short what);
    void (*late)(struct wp_http_req *req); /* The deadline below is over. */
};
/* Answers 101. input() gets what the client sent beyond its request, from the
 * event loop, not from inside this call. gone() still ends it all. */
void wp_http_upgrade(struct wp_http_req *req, const char *protocol,
                     const struct wp_http_stream_ops *ops);
/* From begin(): the handler moves the body and the answer by itself. As long as
 * it has sent no part of an answer it may also use wp_http_reply*(). */
void wp_http_take(struct wp_http_req *req,
                  const struct wp_http_stream_ops *ops);
/* From ready() or later: answers piece by piece, in chunks (to HTTP/1.0: up to
 * the connection's end), until wp_http_pieces_end() or one of the ends below.
 * What the client sends meanwhile is read when the answer is complete. */
void wp_http_pieces_begin(struct wp_http_req *req, int status, const char *type,
                          const struct wp_http_stream_ops *ops);
/* Appends len bytes; nothing when len is 0. */
void wp_http_piece(struct wp_http_req *req, const void *data, size_t len);
/* The answer is complete; gone() follows from inside. */
void wp_http_pieces_end(struct wp_http_req *req);
/* Its timeouts are the handler's while the connection is taken over. */
struct bufferevent *wp_http_bufferevent(struct wp_http_req *req);
/* Calls late() when in_ns is over; 0: never. */
void wp_http_set_deadline(struct wp_http_req *req, int64_t in_ns);
/* Appends to what is being sent; the queue's length is below. */
struct evbuffer *wp_http_stream_output(struct wp_http_req *req);
/* While input is off, the client is held back by its socket. Its leaving is
 * still seen, but over TCP only once the kernel has room for what it sent
 * before: a close cannot overtake data. */
void wp_http_stream_read(struct wp_http_req *req, bool on);
/* From event(), after the client's end of sending (EOF): it is still to be
 * answered. From now on it is looked for each second, and the connection is
 * dropped once it has left. */
void wp_http_half_closed(struct wp_http_req *req);
/* Both directions are closed, or reset. A Unix socket says so as soon as the
 * client has closed it. Over TCP a close looks like an end of sending until the
 * client's kernel refuses what it is sent; so it is sent a first byte. */
bool wp_http_client_left(const struct wp_http_req *req);
/* Each of these ends it; no callback follows but gone(). */
/* Sends what is queued, then closes. */
void wp_http_stream_end(struct wp_http_req *req);
/* The answer is complete, and the client may send its next request. */
void wp_http_stream_next(struct wp_http_req *req);
/* Drops the connection at once. */
void wp_http_stream_drop(struct wp_http_req *req);

#endif
