/* tests/support/http/exchange_rig.h - a client, the proxy and a server as sockets
 * of one thread, so that it is known when no more will happen. */
#ifndef WP_TESTS_SUPPORT_HTTP_EXCHANGE_RIG_H
#define WP_TESTS_SUPPORT_HTTP_EXCHANGE_RIG_H

#include <event2/bufferevent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include "proto/formats/http_exchange.h"

enum {
    EXCHANGE_TEXT_MAX = 1 << 20,
    /* Without anything moving: nothing more is to come. */
    EXCHANGE_STILL_ROUNDS = 30,
};

struct exchange_side {
    int fd; /* -1: not there. */
    bool ended;
    bool held; /* Nothing is read from it. */
    size_t len;
    char text[EXCHANGE_TEXT_MAX];
};

struct exchange {
    struct event_base *base;
    struct wp_http_server *front;
    struct sockaddr_un front_at;
    socklen_t front_len;
    int listener; /* The server's. */
    struct sockaddr_un at;
    socklen_t at_len;
    struct wp_http_exchange_config config;
    struct wp_http_exchange_ops ops;
    struct wp_http_exchange *x; /* NULL: none. */
    struct bufferevent *upstream;
    bool waits; /* begin() does not connect yet. */
    struct exchange_side client;
    struct exchange_side server;
    uint64_t failed;
    uint32_t begun;
    uint32_t gone;
    uint32_t unreached;
    uint32_t unreached_tries; /* So often unreached() tries anew. */
    size_t sent;
    size_t received;
    size_t sent_max;
};

extern struct exchange exchange;

/* For cmocka, around each test. */
int exchange_set_up(void **state);
int exchange_tear_down(void **state);

/* A client that has connected; the counts begin anew. */
void exchange_dial(void);
/* One turn of all; false: nothing came in anywhere. */
bool exchange_turn(void);
/* Until nothing more happens by itself. */
void exchange_settle(void);
/* Until a timer has ended what the client waits for. */
void exchange_wait_end(void);
void exchange_say(const struct exchange_side *side, const char *text);
void exchange_say_bytes(const struct exchange_side *side, const char *text,
                        size_t len);
/* What it has heard so far. */
void exchange_forget(struct exchange_side *side);
/* It closes. */
void exchange_leave(struct exchange_side *side);
/* The client has seen the end, and leaves: nothing of the request is left. */
void exchange_over(void);

#define EXCHANGE_ERROR_HEAD(status, len)                                       \
    "HTTP/1.1 " status "\r\nContent-Type: application/json\r\n"                \
    "Content-Length: " len "\r\nConnection: close\r\n\r\n"
/* A request, and what the server sees of it. */
#define EXCHANGE_GET "GET /a?b HTTP/1.1\r\n\r\n"
#define EXCHANGE_GOT                                                           \
    "GET /a?b HTTP/1.1\r\nVia: test\r\nConnection: close\r\n\r\n"
#define EXCHANGE_GOT_LEN (sizeof EXCHANGE_GOT - 1)

#endif
