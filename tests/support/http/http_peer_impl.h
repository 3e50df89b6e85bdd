/* tests/support/http/http_peer_impl.h - what the peer's two files share. */
#ifndef WP_TESTS_SUPPORT_HTTP_HTTP_PEER_IMPL_H
#define WP_TESTS_SUPPORT_HTTP_HTTP_PEER_IMPL_H

#include <openssl/ssl.h>

#include "pool/base/list.h"
#include "tests/support/http/http_peer.h"

struct bufferevent;
struct evconnlistener;
struct nghttp2_session;

struct peer_conn {
    struct wp_list node;
    struct peer *peer;
    struct bufferevent *bev;
    struct nghttp2_session *h2; /* NULL: HTTP/1.1 */
    struct wp_list streams;
    char client[64];
    bool reading; /* nghttp2 must not be asked to send meanwhile. */
    bool doomed;
    bool ended; /* Nothing more is to come, either way. */
};

struct peer {
    struct peer_config config;
    struct evconnlistener *listener;
    SSL_CTX *tls;
    struct wp_list conns;
    uint32_t accepted;
};

void peer_conn_free(struct peer_conn *conn);
void peer_note_header(struct peer_request *request, const char *name,
                      size_t name_len, const char *value, size_t len);

void peer_h2_begin(struct peer_conn *conn);
/* False: the connection is to be closed. */
bool peer_h2_read(struct peer_conn *conn);
void peer_h2_end(struct peer_conn *conn);
void peer_h2_flush(struct peer_conn *conn);
void peer_h2_reply(const struct peer_request *request, int code,
                   const char *headers, const char *body);

#endif
