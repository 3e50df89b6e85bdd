/* proto/client/h2_tls.h - TLS of the load client's connections, on OpenSSL.
 *
 * One context for all connections of a client, made once from files; it may be
 * shared by threads. A connection is one thread's. */
#ifndef WP_PROTO_CLIENT_H2_TLS_H
#define WP_PROTO_CLIENT_H2_TLS_H

#include <stdint.h>
#include <sys/types.h>

#include "pool/base/status.h"

struct wp_h2_tls;

/* ca: PEM file of the authorities. cert and key: both or none. name: what the
 * server's certificate is for. NULL and err when a file cannot be used. */
struct wp_h2_tls *wp_h2_tls_create(const char *ca, const char *cert,
                                   const char *key, const char *name,
                                   struct wp_err *err);
void wp_h2_tls_destroy(struct wp_h2_tls *tls); /* NULL is fine. */

/* A handshake on the connected socket, which blocks as long as the socket does
 * and is not blocking afterwards. NULL and err when it fails, or the server
 * speaks no HTTP/2. */
void *wp_h2_tls_connect(const struct wp_h2_tls *tls, int fd,
                        struct wp_err *err);
void wp_h2_tls_close(void *conn); /* NULL is fine. The socket stays open. */

/* As send and recv on a socket that does not block: -1 and errno. EPROTO: see
 * wp_h2_tls_error. */
ssize_t wp_h2_tls_send(void *conn, const uint8_t *bytes, size_t len);
ssize_t wp_h2_tls_recv(void *conn, uint8_t *bytes, size_t len);
/* Right after that, on the same thread: what the other end objects to. */
enum wp_status wp_h2_tls_error(struct wp_err *err);

#endif
