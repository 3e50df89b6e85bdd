/* tests/support/http/http_peer.h - an HTTP server that answers as a test says.
 *
 * In the test's own event loop: HTTP/1.1, plain or with TLS, or HTTP/2 with
 * TLS. Each request goes to the test's function, which answers at once, later,
 * in pieces, wrongly, or never. */
#ifndef WP_TESTS_SUPPORT_HTTP_HTTP_PEER_H
#define WP_TESTS_SUPPORT_HTTP_HTTP_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct peer;
struct peer_conn;

/* May be copied and answered later, as long as its connection lives. */
struct peer_request {
    struct peer *peer;
    struct peer_conn *conn;
    int32_t stream; /* 0: HTTP/1.1 */
    char method[16];
    char path[512];
    char authorization[128];
    char content_type[64];
    char host[64];
    char client[64]; /* The common name of its certificate. */
    size_t body_len;
    char body[512]; /* Its beginning. */
};

struct peer_config {
    struct event_base *base;
    void (*on_request)(void *ctx, const struct peer_request *request);
    void *ctx;
    /* PEM files; NULL: no TLS. */
    const char *cert;
    const char *key;
    const char *client_ca; /* NULL: clients need no certificate. */
    bool http2;
    uint16_t port; /* 0: any. */
};

struct peer *peer_start(const struct peer_config *config);
void peer_stop(struct peer *peer);
uint16_t peer_port(const struct peer *peer);
uint32_t peer_accepted(const struct peer *peer); /* Connections so far. */
uint32_t peer_open(const struct peer *peer);     /* Of these, now. */

/* headers: whole lines with CR LF, or NULL (HTTP/1.1 only; with HTTP/2 one
 * line at most). */
void peer_reply(const struct peer_request *request, int code,
                const char *headers, const char *body);
/* Raw bytes on the connection; HTTP/1.1 only. */
void peer_write(const struct peer_request *request, const char *bytes);
void peer_cut(const struct peer_request *request); /* Without a word. */
/* HTTP/2 only. */
void peer_reset(const struct peer_request *request, uint32_t error);
/* last: the last stream that was looked at. */
void peer_goaway(const struct peer_request *request, int32_t last);

#endif
