/* proto/formats/http_conn.h - one connection and the request it is busy with.
 * Private to the HTTP server.
 *
 *   HEAD ---> BODY ---> WAIT ---> SEND ---> HEAD ...
 *     |                   |         |
 *     +------> STREAM <---+         +-----> LINGER -> CLOSED
 *                |
 *                +--> HEAD | SEND | ENDING -> LINGER
 *
 * Any phase may reply (SEND) until something was sent, and be CLOSED. Then a
 * connection holds no descriptor; its memory goes in the loop's next turn, so
 * that callers may still look at its phase. */
#ifndef WP_PROTO_FORMATS_HTTP_CONN_H
#define WP_PROTO_FORMATS_HTTP_CONN_H

#include <event2/bufferevent.h>
#include <stddef.h>

#include "pool/base/list.h"
#include "proto/formats/http_bound.h"
#include "proto/formats/http_server.h"

enum wp_http_phase {
    WP_HTTP_HEAD,   /* A head is coming in, or none yet. */
    WP_HTTP_BODY,   /* A body is coming in. */
    WP_HTTP_WAIT,   /* The handler owes an answer. */
    WP_HTTP_SEND,   /* The answer goes out. */
    WP_HTTP_STREAM, /* The handler has taken the connection over. */
    WP_HTTP_ENDING, /* What the stream has queued goes out. */
    WP_HTTP_LINGER, /* All is sent; waiting for the client to close. */
    WP_HTTP_CLOSED,
};

/* The request is embedded in its connection: one at a time, so a pipelining
 * client waits for its first answer. */
struct wp_http_req {
    struct wp_list node; /* In server->conns or server->closed. */
    struct wp_http_server *server;
    struct bufferevent *bev;
    struct wp_http_bound bound;
    struct event *deadline;
    struct event *left; /* NULL, or tells that the client has left. */
    struct event *half; /* NULL, or looks for that after a half-close. */
    const struct wp_http_secure *secure; /* NULL: in clear. */
    unsigned roles;
    enum wp_http_phase phase;
    bool opening;      /* Its handshake is not over. */
    bool idle;         /* HEAD: between two requests. */
    bool said_all;     /* The client has closed its sending side. */
    bool answer_begun; /* A status line is queued. */
    bool is_tcp;       /* Known once half is there. */
    uint8_t early;     /* Bytes of the status line that were sent before it. */
    uint32_t looks;    /* For the client, since it has closed that side. */

    char *head; /* NULL, or what message views; names and values terminated. */
    char *path;
    struct wp_http_message message;
    const struct wp_http_ops *ops; /* NULL until routed. */
    struct evbuffer *body;
    uint64_t body_len;
    void *user;
    bool keep_alive;
    bool replied; /* An answer is queued. */

    struct evbuffer *extra; /* Header lines of the answer to come. */
    int file_fd;            /* -1, or the file being sent. */
    uint64_t file_left;
    uint64_t file_offset;
    const struct wp_http_stream_ops *stream;
    bool admitted;
    _Alignas(max_align_t) char peer[]; /* The application's. */
};

struct wp_http_server {
    struct wp_http_server_config config;
    struct wp_list listeners;
    struct wp_list conns;
    struct wp_list closed; /* Their memory goes in the next turn. */
    struct event *reap;
    struct event *resume; /* Accepting, after descriptors ran out. */
    struct wp_http_server_stats stats;
    bool draining;
    bool exhausted; /* Descriptors have run out, and it was said. */
    bool paused;    /* The listeners are off, for conns_max is reached. */
    void (*drained)(void *arg);
    void *drained_arg;
};

/* What every answer begins with. */
#define WP_HTTP_STATUS_START "HTTP/1.1 "

/* http_conn.c. Takes fd; NULL on no memory. */
struct wp_http_req *wp_http_conn_open(struct wp_http_server *server, int fd,
                                      unsigned roles,
                                      const struct wp_http_secure *secure);
void wp_http_conn_close(struct wp_http_req *req);
/* Frees what was closed. Outside of any connection's callback. */
void wp_http_conn_reap(struct wp_http_server *server);
/* Calls gone(), and leaves nothing of the request. */
void wp_http_conn_end_request(struct wp_http_req *req);
void wp_http_conn_set_send_timeout(struct wp_http_req *req);

/* http_input.c: more has come in, in phase HEAD and in phase BODY. */
void wp_http_read_head(struct wp_http_req *req);
void wp_http_read_body(struct wp_http_req *req);

/* http_server.c: a connection has gone. */
void wp_http_server_left(struct wp_http_server *server);

/* http_reply.c: sends the next piece of a file; true when nothing is left to
 * send. */
bool wp_http_reply_continue(struct wp_http_req *req);

#endif
