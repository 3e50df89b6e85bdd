/* proto/tls/tls.h - TLS for the daemon's listeners: certificates that are
 * read again when their files change, and the names in a client's.
 *
 * One wp_tls a listener thread, which alone uses it, but for the count of
 * reloads. */
#ifndef WP_PROTO_TLS_TLS_H
#define WP_PROTO_TLS_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include <openssl/ssl.h>

#include "pool/base/status.h"
#include "pool/base/str.h"

struct wp_tls; /* Opaque. */

/* Borrowed, with all it points to, until destroy. */
struct wp_tls_config {
    const char *cert; /* PEM files. */
    const char *key;
    const char *client_ca; /* NULL: clients show no certificate. */
    /* A client may also show none, and prove otherwise who it is. */
    bool client_may_hide;
    /* The one protocol that is spoken: "h2", "http/1.1". */
    const char *protocol;
};

/* Reads the files. NULL and err when one of them is not usable. */
struct wp_tls *wp_tls_create(const struct wp_tls_config *config,
                             struct wp_err *err);
/* NULL is fine. */
void wp_tls_destroy(struct wp_tls *tls);
/* A new connection's, with the newest usable certificates, to be accepted on
 * fd; NULL when memory lacks. The caller frees it. */
SSL *wp_tls_open(struct wp_tls *tls, int fd);
/* How often changed files were taken in. NULL is fine: 0. Any thread. */
uint64_t wp_tls_reloads(const struct wp_tls *tls);

/* The names in the certificate that the client has shown: SPIFFE ids, other
 * URIs, DNS names, the common name, in that order, until visit returns false.
 * None without a certificate. After the handshake; its connection's thread. */
void wp_tls_names(const SSL *ssl, bool (*visit)(void *ctx, struct wp_str name),
                  void *ctx);

#endif
