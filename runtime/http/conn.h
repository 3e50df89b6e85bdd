/* runtime/http/conn.h - what http/server.c and reply.c share: one
 * connection and the request it is busy with. For these two files only. */
#ifndef WP_RUNTIME_HTTP_CONN_H
#define WP_RUNTIME_HTTP_CONN_H

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <http_parser.h>

#include "pool/base/list.h"
#include "runtime/http/server.h"

enum {
    WP_HTTP_HEAD_MAX = 16384,
    WP_HTTP_HEADERS_MAX = 64,
    WP_HTTP_FILE_CHUNK = 65536,
    WP_HTTP_SEND_TIMEOUT_S = 60,
};

enum wp_http_state {
    WP_HTTP_IDLE,     /* Between requests: nothing of a head was seen. */
    WP_HTTP_READING,  /* A head or body is coming in. */
    WP_HTTP_WAITING,  /* The handler owes an answer. */
    WP_HTTP_SENDING,  /* The answer goes out. */
    WP_HTTP_LINGER,   /* Answer sent, waiting for the client to close. */
    WP_HTTP_UPGRADED, /* Another protocol speaks. */
};

struct wp_http_field {
    const char *name;
    const char *value;
};

/* The request is embedded in its connection: one at a time, so a pipelining
 * client waits for its first answer. */
struct wp_http_req {
    struct wp_list link; /* In server->conns. */
    struct wp_http_server *server;
    struct bufferevent *bev;
    struct event *timer;  /* The limit on what the client owes us. */
    struct event *closed; /* NULL, or tells that the client has left. */
    unsigned roles;
    enum wp_http_state state;

    http_parser parser;
    enum {
        WP_HTTP_AT_NONE,
        WP_HTTP_AT_URL,
        WP_HTTP_AT_FIELD,
        WP_HTTP_AT_VALUE
    } at;
    char head[WP_HTTP_HEAD_MAX]; /* Path, names and values, terminated. */
    size_t head_len;
    struct wp_http_field fields[WP_HTTP_HEADERS_MAX];
    uint32_t fields_count;
    int head_error; /* HTTP status that the head earned; 0 when good. */

    const struct wp_http_ops *ops; /* NULL until routed. */
    struct evbuffer *body;
    uint64_t body_len;
    void *user;
    bool keep_alive;
    bool whole;   /* The body is complete. */
    bool replied; /* An answer is queued. */
    bool ending;  /* The stream closes once its output is sent. */
    bool in_read; /* Set while the read callback runs: no freeing inside. */
    bool dead;    /* To be freed when the read callback returns. */

    struct evbuffer *extra; /* Header lines of the answer to come. */
    int file_fd;            /* -1, or the file being sent. */
    uint64_t file_left;
    uint64_t file_offset;
    const struct wp_http_stream_ops *stream;
};

struct wp_http_server {
    struct event_base *base;
    wp_http_route_fn route;
    void *app;
    struct wp_list listeners;
    struct wp_list conns;
    uint32_t conns_count;
    uint32_t conns_max;
    bool draining;
    bool paused; /* The listeners are off, for conns_max is reached. */
    void (*drained)(void *arg);
    void *drained_arg;
};

/* reply.c: the output side of a connection. Sends the next piece of a
 * file; true when nothing is left to send. */
bool wp_http_reply_continue(struct wp_http_req *req);

/* parse.c: feeds the parser until the request is whole, answered, or
 * input runs out. What cannot be understood is answered. */
void wp_http_parse(struct wp_http_req *req);

/* http/server.c: frees the connection when the client closes it, even while
 * its input is not read. */
void wp_http_watch_close(struct wp_http_req *req);

#endif
