#include "proto/client/h2_tls.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "pool/base/str.h"

struct wp_h2_tls {
    SSL_CTX *context;
    BIO_METHOD *socket;
    char name[256];
};

/* OpenSSL's own write raises SIGPIPE, which would end a program that has never
 * heard of it. */
static int
write_quietly(BIO *bio, const char *bytes, int len)
{
    ssize_t n;
    int fd = -1;

    (void)BIO_get_fd(bio, &fd);
    errno = 0;
    n = send(fd, bytes, (size_t)len, MSG_NOSIGNAL);
    BIO_clear_retry_flags(bio);
    if (n <= 0 && BIO_sock_should_retry((int)n)) {
        BIO_set_retry_write(bio);
    }
    return (int)n;
}

/* A socket as OpenSSL has it, but for that; NULL: no memory. */
static BIO_METHOD *
make_socket_method(void)
{
    const BIO_METHOD *plain = BIO_s_socket();
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOCKET, "quiet socket");

    if (method != NULL &&
        (BIO_meth_set_write(method, write_quietly) != 1 ||
         BIO_meth_set_read(method, BIO_meth_get_read(plain)) != 1 ||
         BIO_meth_set_puts(method, BIO_meth_get_puts(plain)) != 1 ||
         BIO_meth_set_ctrl(method, BIO_meth_get_ctrl(plain)) != 1 ||
         BIO_meth_set_create(method, BIO_meth_get_create(plain)) != 1 ||
         BIO_meth_set_destroy(method, BIO_meth_get_destroy(plain)) != 1)) {
        BIO_meth_free(method);
        return NULL;
    }
    return method;
}

/* The socket stays the caller's. */
static bool
use_socket(SSL *ssl, const struct wp_h2_tls *tls, int fd)
{
    BIO *bio = BIO_new(tls->socket);

    if (bio == NULL) {
        return false;
    }
    (void)BIO_set_fd(bio, fd, BIO_NOCLOSE);
    SSL_set_bio(ssl, bio, bio);
    return true;
}

/* OpenSSL's own words for what went wrong: the first ones, which name the
 * cause. path: NULL, or the file that `what` names. */
static enum wp_status
refused(struct wp_err *err, enum wp_status status, const char *what,
        const char *path)
{
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_reason_error_string(code);
    const char *blank = path != NULL ? " " : "";

    path = path != NULL ? path : "";
    ERR_clear_error();
    if (ERR_SYSTEM_ERROR(code)) {
        return wp_err_sys(err, status, ERR_GET_REASON(code), "%s%s%.120s", what,
                          blank, path);
    }
    return wp_err_set(err, status, "%s%s%.120s: %s", what, blank, path,
                      reason != NULL ? reason : "no reason given");
}

struct wp_h2_tls *
wp_h2_tls_create(const char *ca, const char *cert, const char *key,
                 const char *name, struct wp_err *err)
{
    struct wp_h2_tls *tls = calloc(1, sizeof(*tls));

    if (tls == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory for TLS");
        return NULL;
    }
    ERR_clear_error(); /* Of the program's own. */
    tls->context = SSL_CTX_new(TLS_client_method());
    tls->socket = make_socket_method();
    if (tls->context == NULL || tls->socket == NULL ||
        !wp_str_copy(wp_str_from(name), tls->name, sizeof(tls->name)) ||
        SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_alpn_protos(tls->context, (const uint8_t *)"\2h2", 3) !=
            0) {
        (void)refused(err, WP_INVALID_ARGUMENT, "TLS", NULL);
    } else if (SSL_CTX_load_verify_locations(tls->context, ca, NULL) != 1) {
        (void)refused(err, WP_INVALID_ARGUMENT, "tls_ca", ca);
    } else if (cert != NULL &&
               SSL_CTX_use_certificate_chain_file(tls->context, cert) != 1) {
        (void)refused(err, WP_INVALID_ARGUMENT, "tls_cert", cert);
    } else if (cert != NULL && SSL_CTX_use_PrivateKey_file(
                                   tls->context, key, SSL_FILETYPE_PEM) != 1) {
        (void)refused(err, WP_INVALID_ARGUMENT, "tls_key", key);
    } else {
        SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
        (void)SSL_CTX_set_mode(tls->context,
                               SSL_MODE_ENABLE_PARTIAL_WRITE |
                                   SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        return tls;
    }
    wp_h2_tls_destroy(tls);
    return NULL;
}

void
wp_h2_tls_destroy(struct wp_h2_tls *tls)
{
    if (tls != NULL) {
        SSL_CTX_free(tls->context);
        BIO_meth_free(tls->socket);
        free(tls);
    }
}

/* The certificate has to be for that host: a name, or an address. */
static bool
expect_name(SSL *ssl, const struct wp_h2_tls *tls)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    char name[sizeof(tls->name)]; /* OpenSSL's macro wants it to be mutable. */

    memcpy(name, tls->name, sizeof(name));
    if (X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1) {
        return true;
    }
    return SSL_set1_host(ssl, name) == 1 &&
           SSL_set_tlsext_host_name(ssl, name) == 1;
}

void *
wp_h2_tls_connect(const struct wp_h2_tls *tls, int fd, struct wp_err *err)
{
    SSL *ssl = SSL_new(tls->context);
    const unsigned char *protocol = NULL;
    unsigned protocol_len = 0;

    ERR_clear_error();
    if (ssl == NULL || !expect_name(ssl, tls) || !use_socket(ssl, tls, fd) ||
        SSL_connect(ssl) != 1) {
        long verdict = ssl != NULL ? SSL_get_verify_result(ssl) : X509_V_OK;

        (void)refused(err, WP_UNAVAILABLE, "TLS handshake", NULL);
        if (verdict != X509_V_OK) {
            (void)wp_err_set(err, WP_UNAVAILABLE,
                             "the certificate for %.100s: %s", tls->name,
                             X509_verify_cert_error_string(verdict));
        }
        SSL_free(ssl);
        return NULL;
    }
    SSL_get0_alpn_selected(ssl, &protocol, &protocol_len);
    if (protocol_len != 2 || memcmp(protocol, "h2", 2) != 0 ||
        fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
        (void)wp_err_set(err, WP_UNAVAILABLE,
                         "the target's TLS does not offer HTTP/2");
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}

void
wp_h2_tls_close(void *conn)
{
    SSL_free(conn);
}

static ssize_t
outcome(SSL *ssl, int n)
{
    int reason;

    if (n > 0) {
        return n;
    }
    reason = SSL_get_error(ssl, n);
    if (reason == SSL_ERROR_SSL) {
        errno = EPROTO; /* wp_h2_tls_error has the words. */
        return -1;
    }
    ERR_clear_error();
    if (reason == SSL_ERROR_ZERO_RETURN) {
        return 0;
    }
    errno = reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE
                ? EAGAIN
                : ECONNRESET;
    return -1;
}

enum wp_status
wp_h2_tls_error(struct wp_err *err)
{
    return refused(err, WP_UNAVAILABLE, "TLS", NULL);
}

ssize_t
wp_h2_tls_send(void *conn, const uint8_t *bytes, size_t len)
{
    return outcome(conn,
                   SSL_write(conn, bytes, len < INT_MAX ? (int)len : INT_MAX));
}

ssize_t
wp_h2_tls_recv(void *conn, uint8_t *bytes, size_t len)
{
    return outcome(conn,
                   SSL_read(conn, bytes, len < INT_MAX ? (int)len : INT_MAX));
}
