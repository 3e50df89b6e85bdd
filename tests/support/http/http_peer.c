#include "tests/support/http/http_peer.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/tcp.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pool/base/assert.h"
#include "pool/base/compiler.h"
#include "tests/support/http/http_peer_impl.h"

void
peer_conn_free(struct peer_conn *conn)
{
    wp_list_remove(&conn->node);
    if (conn->h2 != NULL) {
        peer_h2_end(conn);
    }
    bufferevent_free(conn->bev);
    free(conn);
}

void
peer_note_header(struct peer_request *request, const char *name,
                 size_t name_len, const char *value, size_t len)
{
    struct {
        const char *name;
        char *out;
        size_t cap;
    } rows[] = {
        {"authorization", request->authorization,
         sizeof request->authorization},
        {"content-type", request->content_type, sizeof request->content_type},
        {"host", request->host, sizeof request->host},
        {":authority", request->host, sizeof request->host},
        {":method", request->method, sizeof request->method},
        {":path", request->path, sizeof request->path},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        if (strlen(rows[i].name) == name_len &&
            strncasecmp(rows[i].name, name, name_len) == 0) {
            (void)snprintf(rows[i].out, rows[i].cap, "%.*s", (int)len, value);
        }
    }
}

/* --- HTTP/1.1 */

/* Fills request from the head's lines; returns the length of the body. */
static size_t
read_head(struct peer_request *request, char *head)
{
    char *save = NULL;
    char *line = strtok_r(head, "\r\n", &save);
    size_t body_len = 0;

    (void)sscanf(line, "%15s %511s", request->method, request->path);
    while ((line = strtok_r(NULL, "\r\n", &save)) != NULL) {
        char *colon = strchr(line, ':');

        if (colon != NULL) {
            char *value = colon + 1 + strspn(colon + 1, " ");

            peer_note_header(request, line, (size_t)(colon - line), value,
                             strlen(value));
            if (strncasecmp(line, "content-length:", 15) == 0) {
                body_len = strtoul(value, NULL, 10);
            }
        }
    }
    return body_len;
}

/* One whole request taken from the input; false when there is none yet. */
static bool
take_request(struct peer_conn *conn, struct peer_request *request)
{
    struct evbuffer *in = bufferevent_get_input(conn->bev);
    struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
    size_t head_len = (size_t)end.pos + 4;
    char *head;

    if (end.pos < 0) {
        return false;
    }
    memset(request, 0, sizeof *request);
    request->peer = conn->peer;
    request->conn = conn;
    memcpy(request->client, conn->client, sizeof request->client);
    head = calloc(1, head_len + 1);
    WP_ASSERT(head != NULL);
    (void)evbuffer_copyout(in, head, head_len);
    request->body_len = read_head(request, head);
    free(head);
    if (evbuffer_get_length(in) < head_len + request->body_len) {
        return false;
    }
    (void)evbuffer_drain(in, head_len);
    for (size_t i = 0; i < request->body_len; i++) {
        char byte;

        (void)evbuffer_remove(in, &byte, 1);
        if (i < sizeof request->body - 1) {
            request->body[i] = byte;
        }
    }
    return true;
}

static void on_event(struct bufferevent *bev, short what, void *ctx);

static void
on_written(struct bufferevent *bev, void *ctx)
{
    (void)bev;
    peer_conn_free(ctx);
}

static void
on_read(struct bufferevent *bev, void *ctx)
{
    struct peer_conn *conn = ctx;
    struct peer *peer = conn->peer;
    struct peer_request request;

    if (conn->h2 != NULL) {
        if (!peer_h2_read(conn)) {
            peer_conn_free(conn);
        } else if (conn->ended) {
            /* Once all is written. */
            bufferevent_setcb(bev, NULL, on_written, on_event, conn);
        }
        return;
    }
    /* curl never pipelines; and the test may cut the connection. */
    if (take_request(conn, &request)) {
        peer->config.on_request(peer->config.ctx, &request);
    }
}

static void
note_client(struct peer_conn *conn, SSL *ssl)
{
    X509 *cert = SSL_get_peer_certificate(ssl);

    if (cert != NULL) {
        (void)X509_NAME_get_text_by_NID(X509_get_subject_name(cert),
                                        NID_commonName, conn->client,
                                        sizeof conn->client);
        X509_free(cert);
    }
}

static void
on_event(struct bufferevent *bev, short what, void *ctx)
{
    struct peer_conn *conn = ctx;

    if ((what & BEV_EVENT_CONNECTED) == 0) {
        peer_conn_free(conn);
        return;
    }
    if (conn->peer->tls != NULL) {
        SSL *ssl = bufferevent_openssl_get_ssl(bev);
        const unsigned char *alpn = NULL;
        unsigned int len = 0;

        note_client(conn, ssl);
        SSL_get0_alpn_selected(ssl, &alpn, &len);
        if (len == 2 && memcmp(alpn, "h2", 2) == 0) {
            peer_h2_begin(conn);
        }
    }
}

static void
on_accept(struct evconnlistener *listener, evutil_socket_t fd,
          struct sockaddr *from, int from_len, void *ctx)
{
    struct peer *peer = ctx;
    struct peer_conn *conn = calloc(1, sizeof *conn);
    int on = 1;

    (void)listener;
    (void)from;
    (void)from_len;
    WP_ASSERT(conn != NULL);
    peer->accepted++;
    /* As API servers do it; an answer is several writes. */
    WP_ASSERT(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    conn->peer = peer;
    wp_list_init(&conn->streams);
    if (peer->tls != NULL) {
        conn->bev = bufferevent_openssl_socket_new(
            peer->config.base, fd, SSL_new(peer->tls),
            BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    } else {
        conn->bev = bufferevent_socket_new(peer->config.base, fd,
                                           BEV_OPT_CLOSE_ON_FREE);
    }
    WP_ASSERT(conn->bev != NULL);
    wp_list_push_back(&peer->conns, &conn->node);
    bufferevent_setcb(conn->bev, on_read, NULL, on_event, conn);
    (void)bufferevent_enable(conn->bev, EV_READ | EV_WRITE);
}

/* --- Life. */

static int
choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                const unsigned char *in, unsigned int in_len, void *ctx)
{
    static const unsigned char h2[] = "\x2h2\x8http/1.1";
    const struct peer *peer = ctx;
    unsigned char *chosen = NULL;
    int result = SSL_select_next_proto(
        &chosen, out_len, peer->config.http2 ? h2 : h2 + 3,
        peer->config.http2 ? sizeof h2 - 1 : sizeof h2 - 4, in, in_len);

    (void)ssl;
    *out = chosen;
    return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK
                                            : SSL_TLSEXT_ERR_NOACK;
}

static void
prepare_tls(struct peer *peer)
{
    const struct peer_config *config = &peer->config;

    peer->tls = SSL_CTX_new(TLS_server_method());
    WP_ASSERT(SSL_CTX_use_certificate_chain_file(peer->tls, config->cert) == 1);
    WP_ASSERT(SSL_CTX_use_PrivateKey_file(peer->tls, config->key,
                                          SSL_FILETYPE_PEM) == 1);
    SSL_CTX_set_alpn_select_cb(peer->tls, choose_protocol, peer);
    if (config->client_ca != NULL) {
        WP_ASSERT(SSL_CTX_load_verify_locations(peer->tls, config->client_ca,
                                                NULL) == 1);
        SSL_CTX_set_verify(
            peer->tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
}

struct peer *
peer_start(const struct peer_config *config)
{
    struct peer *peer = calloc(1, sizeof *peer);
    struct sockaddr_in any = {.sin_family = AF_INET};

    WP_ASSERT(peer != NULL);
    peer->config = *config;
    wp_list_init(&peer->conns);
    if (config->cert != NULL) {
        prepare_tls(peer);
    }
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    any.sin_port = htons(config->port);
    peer->listener =
        evconnlistener_new_bind(config->base, on_accept, peer,
                                LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE, 512,
                                (struct sockaddr *)&any, sizeof any);
    WP_ASSERT(peer->listener != NULL);
    return peer;
}

void
peer_stop(struct peer *peer)
{
    while (!wp_list_empty(&peer->conns)) {
        peer_conn_free(
            WP_CONTAINER_OF(peer->conns.next, struct peer_conn, node));
    }
    evconnlistener_free(peer->listener);
    SSL_CTX_free(peer->tls);
    free(peer);
}

uint16_t
peer_port(const struct peer *peer)
{
    struct sockaddr_in own;
    socklen_t len = sizeof own;

    WP_ASSERT(getsockname(evconnlistener_get_fd(peer->listener),
                          (struct sockaddr *)&own, &len) == 0);
    return ntohs(own.sin_port);
}

uint32_t
peer_accepted(const struct peer *peer)
{
    return peer->accepted;
}

uint32_t
peer_open(const struct peer *peer)
{
    uint32_t count = 0;

    WP_LIST_FOREACH (node, &peer->conns) {
        count++;
    }
    return count;
}

void
peer_reply(const struct peer_request *request, int code, const char *headers,
           const char *body)
{
    if (request->stream != 0) {
        peer_h2_reply(request, code, headers, body);
        return;
    }
    (void)evbuffer_add_printf(bufferevent_get_output(request->conn->bev),
                              "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n%s\r\n"
                              "%s",
                              code, strlen(body),
                              headers != NULL ? headers : "", body);
}

void
peer_write(const struct peer_request *request, const char *bytes)
{
    (void)bufferevent_write(request->conn->bev, bytes, strlen(bytes));
}

void
peer_cut(const struct peer_request *request)
{
    struct peer_conn *conn = request->conn;

    if (conn->reading) {
        conn->doomed = true;
        return;
    }
    /* What is still to be written goes out, and then the end. */
    if (conn->peer->tls == NULL) {
        (void)evbuffer_unfreeze(bufferevent_get_output(conn->bev), 1);
        (void)evbuffer_write(bufferevent_get_output(conn->bev),
                             bufferevent_getfd(conn->bev));
    }
    peer_conn_free(conn);
}
