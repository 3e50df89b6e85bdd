/* TLS for HTTP/2, by proto/tls. */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

#include "proto/h2/internal.h"
#include "proto/tls/tls.h"

static struct wp_tls *
create(const struct wp_h2_config *config, struct wp_err *err)
{
    const struct wp_tls_config tls = {
        .cert = config->tls_cert,
        .key = config->tls_key,
        .client_ca = config->tls_client_ca,
        .protocol = "h2",
    };

    return wp_tls_create(&tls, err);
}

static void *
open_one(struct wp_tls *tls, int fd)
{
    return wp_tls_open(tls, fd);
}

/* --- a connection --- */

static bool
speaks_h2(const SSL *ssl)
{
    const unsigned char *name = NULL;
    unsigned len = 0;

    SSL_get0_alpn_selected(ssl, &name, &len);
    return len == 2 && memcmp(name, "h2", 2) == 0;
}

static enum wp_h2_handshake
shake(void *ssl)
{
    int result;

    ERR_clear_error();
    result = SSL_accept(ssl);
    if (result == 1) {
        return speaks_h2(ssl) ? WP_H2_SHAKEN : WP_H2_SHAKE_FAILED;
    }
    switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return WP_H2_SHAKE_READS;
    case SSL_ERROR_WANT_WRITE:
        return WP_H2_SHAKE_WRITES;
    default:
        return WP_H2_SHAKE_FAILED;
    }
}

static ssize_t
result_of(const SSL *ssl, int n)
{
    if (n > 0) {
        return n;
    }
    switch (SSL_get_error(ssl, n)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return WP_H2_AGAIN;
    default:
        ERR_clear_error();
        return WP_H2_GONE;
    }
}

static ssize_t
receive(void *ssl, uint8_t *buf, size_t cap)
{
    return result_of(ssl, SSL_read(ssl, buf, (int)cap));
}

static ssize_t
transmit(void *ssl, const uint8_t *buf, size_t len)
{
    return result_of(ssl, SSL_write(ssl, buf, (int)len));
}

static bool
has_more(void *ssl)
{
    return SSL_pending(ssl) > 0;
}

static void
shut(void *ssl)
{
    ERR_clear_error();
    (void)SSL_shutdown(ssl);
}

static void
free_one(void *ssl)
{
    SSL_free(ssl);
    ERR_clear_error();
}

const struct wp_h2_tls_ops wp_h2_tls_by_openssl = {
    .create = create,
    .destroy = wp_tls_destroy,
    .reloads = wp_tls_reloads,
    .open = open_one,
    .shake = shake,
    .receive = receive,
    .transmit = transmit,
    .has_more = has_more,
    .shut = shut,
    .free = free_one,
};
