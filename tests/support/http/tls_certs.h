/* tests/support/http/tls_certs.h - certificates of a test's own.
 *
 * In a folder: ca.pem, server.pem and server.key (for 127.0.0.1, localhost and
 * api.test), client.pem and client.key (CN warmpool-client), and other-ca.pem,
 * which has signed none of them. */
#ifndef WP_TESTS_SUPPORT_HTTP_TLS_CERTS_H
#define WP_TESTS_SUPPORT_HTTP_TLS_CERTS_H

void tls_certs_make(const char *dir);

#endif
