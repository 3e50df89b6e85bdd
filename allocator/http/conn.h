/* allocator/http/conn.h - one client connection. Private to the room.
 *
 *   HEAD -> (own page) -> HEAD ...            LINGER: answered, the client may
 *     |                                               still be sending
 *     +--> EXCHANGE -> HEAD | LINGER | CLOSED
 *              |
 *              +-> TUNNEL -> CLOSED
 *
 * A connection that is CLOSED holds no descriptor and waits for the loop to
 * come round before its memory goes, so that callers may still look at its
 * state. */
#ifndef WP_ALLOCATOR_HTTP_CONN_H
#define WP_ALLOCATOR_HTTP_CONN_H

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "allocator/http/head.h"
#include "allocator/http/route.h"
#include "allocator/http/server.h"
#include "pool/base/list.h"

enum {
    /* Bytes buffered in one direction before its source is not read. */
    WP_HTTP_BUFFER = 64 << 10,
    /* 1xx heads a sandbox may send before its answer. */
    WP_HTTP_INTERIM_MAX = 16,
};

enum wp_http_phase {
    WP_HTTP_HEAD,
    WP_HTTP_EXCHANGE,
    WP_HTTP_TUNNEL,
    WP_HTTP_LINGER,
    WP_HTTP_CLOSED,
};

struct wp_http_listener {
    struct wp_http_server *server;
    struct evconnlistener *events;
    bool is_unix;
    char address[128];
};

struct wp_http_server {
    struct wp_http_config config;
    struct wp_http_listener *listeners;
    size_t n_listeners;
    struct wp_list conns;
    struct wp_list closed; /* Their memory goes in the next turn. */
    struct event *reap;
    struct event *resume; /* Accepting, after descriptors ran out. */
    struct wp_http_stats stats;
};

struct wp_http_conn {
    struct wp_http_server *server;
    struct wp_list node; /* In server->conns or server->closed. */
    struct bufferevent *client;
    struct event *deadline; /* Of the phase. */
    enum wp_http_phase phase;
    bool trusted;                   /* The peer's user may do everything. */
    bool idle;                      /* HEAD: between two requests. */
    struct wp_http_message request; /* Views are gone once it is routed. */

    /* EXCHANGE and TUNNEL. */
    struct bufferevent *upstream;
    struct wp_http_message response;
    int64_t answer_timeout_ns; /* From the request's end to an answer. */
    uint32_t interim;          /* 1xx heads so far. */
    bool is_head;              /* HEAD request. */
    bool response_begun;       /* The client has seen a head. */
    bool keep_alive;           /* Both want it and the framing allows it. */
    bool client_eof;
    bool upstream_eof;
};

/* --- conn.c --- */

/* Takes fd. refuse: not NULL to answer 403 with that text and close. */
void wp_http_conn_open(struct wp_http_server *server, int fd, bool trusted,
                       const char *refuse);
/* Drops everything at once. */
void wp_http_conn_close(struct wp_http_conn *conn);
/* Frees what was closed. Loop thread, outside of any connection's callback. */
void wp_http_conn_reap(struct wp_http_server *server);
/* Sends {"error":"why"} and ends the connection, gently. Only before any part
 * of a response was sent. */
void wp_http_conn_fail(struct wp_http_conn *conn, unsigned status,
                       const char *why);
/* The exchange is over and the client may send its next request. */
void wp_http_conn_next(struct wp_http_conn *conn);
/* Lets what is buffered reach the client, then closes. */
void wp_http_conn_linger(struct wp_http_conn *conn);
/* (Re)starts the phase's timer. */
void wp_http_conn_set_deadline(struct wp_http_conn *conn, int64_t in_ns);
void wp_http_conn_clear_deadline(struct wp_http_conn *conn);
/* "HTTP/1.1 200 OK" and the end of line. */
void wp_http_put_status(struct evbuffer *out, unsigned minor, unsigned status);

/* --- proxy.c --- */

/* Starts handing request (parsed, its views valid, its head not in the input
 * any more) to the sandbox at endpoint. strip_token: without Authorization. */
void wp_http_proxy_begin(struct wp_http_conn *conn,
                         const struct wp_http_route *route,
                         const char *endpoint, bool strip_token);
/* The client's side is readable or writable, or something happened to it. */
void wp_http_proxy_client_ready(struct wp_http_conn *conn);
void wp_http_proxy_client_event(struct wp_http_conn *conn, short what);
/* The sandbox has not begun its answer in time. */
void wp_http_proxy_late(struct wp_http_conn *conn);

#endif
