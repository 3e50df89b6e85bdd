/* proto/formats/http_exchange.h - a request handed on to another server, and
 * its answer handed back, streamed.
 *
 * For proxies. Buffers fill up to WP_HTTP_BUFFER in each direction; then the
 * source is not moved on, so that its bufferevent stops reading, until the
 * other side has taken some. Framing is written anew, so what both sides
 * understand is the same. An upgrade that both agree on, and CONNECT, become a
 * tunnel. Loop thread only. */
#ifndef WP_PROTO_FORMATS_HTTP_EXCHANGE_H
#define WP_PROTO_FORMATS_HTTP_EXCHANGE_H

#include "proto/formats/http_server.h"

struct wp_http_exchange; /* Opaque; owned by the request. */

/* Borrowed until gone(). */
struct wp_http_exchange_config {
    struct event_base *base;
    const char *server;         /* "the sandbox": who answers, in errors. */
    int64_t idle_timeout_ns;    /* Of a side that does not move on. */
    int64_t answer_timeout_ns;  /* From a request's end to its answer. */
    int64_t connect_timeout_ns; /* 0: idle_timeout_ns. */
    int64_t silence_timeout_ns; /* Neither side says anything; 0: may be. */
    uint64_t *failed;           /* Counts answers that the server owed. */
};

/* Those that return bool say whether it goes on: after false it may be gone. */
struct wp_http_exchange_ops {
    /* To connect now, or later; until then a deadline is the caller's. */
    bool (*begin)(struct wp_http_exchange *x);
    /* Queues the request line, and fields that are added. Again for each
     * server that is connected to. Not for CONNECT. */
    void (*put_head)(const struct wp_http_exchange *x, struct evbuffer *to);
    /* Optional: must this field of the request, or of the answer, not be handed
     * on? Besides those that never are. */
    bool (*drops)(const struct wp_http_exchange *x,
                  const struct wp_http_message *message,
                  const struct wp_http_field *field);
    /* Optional: the server was not reached. True: it is being tried anew. */
    bool (*unreached)(struct wp_http_exchange *x);
    /* Optional: so many bytes came in from the client, or from the server.
     * False: no more may; both sides are dropped. */
    bool (*moved)(struct wp_http_exchange *x, size_t sent, size_t received);
    void (*gone)(struct wp_http_exchange *x);
};

/* The ops of req, to be returned by a route function. NULL: no memory; req is
 * to be answered. */
const struct wp_http_ops *
wp_http_exchange_open(const struct wp_http_exchange_config *config,
                      const struct wp_http_exchange_ops *ops,
                      struct wp_http_req *req, void *ctx);
void *wp_http_exchange_ctx(const struct wp_http_exchange *x);
struct wp_http_req *wp_http_exchange_req(const struct wp_http_exchange *x);

/* Connects to the server. upstream has no descriptor yet, and is taken; NULL:
 * there was no memory for it. */
bool wp_http_exchange_connect(struct wp_http_exchange *x,
                              struct bufferevent *upstream,
                              const struct sockaddr *address, int len);
/* An answer of our own in the server's place; or the end, if a part of its
 * answer was sent. Returns false. */
bool wp_http_exchange_fail(struct wp_http_exchange *x, int status,
                           const char *why);

#endif
