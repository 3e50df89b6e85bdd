#include "runtime/egress/upstream_tls.h"

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

struct wp_upstream_tls {
    SSL_CTX *ctx;
};

struct wp_upstream_tls *
wp_upstream_tls_create(const char *ca, struct wp_err *err)
{
    static const unsigned char http1[] = "\x08http/1.1";
    struct wp_upstream_tls *tls = calloc(1, sizeof *tls);
    bool good;

    if (tls != NULL) {
        tls->ctx = SSL_CTX_new(TLS_client_method());
    }
    if (tls == NULL || tls->ctx == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory for TLS");
        wp_upstream_tls_destroy(tls);
        return NULL;
    }
    SSL_CTX_set_verify(tls->ctx, SSL_VERIFY_PEER, NULL);
    good = SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_alpn_protos(tls->ctx, http1, sizeof http1 - 1) == 0;
    good =
        good && (ca != NULL ? SSL_CTX_load_verify_file(tls->ctx, ca)
                            : SSL_CTX_set_default_verify_paths(tls->ctx)) == 1;
    if (!good) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "cannot use the authorities%s%s for TLS",
                         ca != NULL ? " of " : "", ca != NULL ? ca : "");
        wp_upstream_tls_destroy(tls);
        return NULL;
    }
    return tls;
}

void
wp_upstream_tls_destroy(struct wp_upstream_tls *tls)
{
    if (tls != NULL) {
        SSL_CTX_free(tls->ctx);
        free(tls);
    }
}

static bool
expect_host(SSL *ssl, const struct wp_host *host)
{
    /* OpenSSL's macro takes no pointer to what is const. */
    char name[sizeof host->name];

    memcpy(name, host->name, sizeof name);
    return host->is_address
               ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1
               : SSL_set1_host(ssl, name) == 1 &&
                     SSL_set_tlsext_host_name(ssl, name) == 1;
}

struct bufferevent *
wp_upstream_tls_open(struct wp_upstream_tls *tls, struct event_base *base,
                     const struct wp_host *host)
{
    SSL *ssl = SSL_new(tls->ctx);

    if (ssl == NULL || !expect_host(ssl, host)) {
        SSL_free(ssl);
        return NULL;
    }
    /* It frees ssl also when it fails. */
    return bufferevent_openssl_socket_new(
        base, -1, ssl, BUFFEREVENT_SSL_CONNECTING, BEV_OPT_CLOSE_ON_FREE);
}
