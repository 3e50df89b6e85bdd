/* runtime/egress/upstream_tls.h - connections to servers by TLS, verified.
 *
 * For keys: what is sent with one is encrypted here and not by the sandbox. */
#ifndef WP_RUNTIME_EGRESS_UPSTREAM_TLS_H
#define WP_RUNTIME_EGRESS_UPSTREAM_TLS_H

#include "pool/base/status.h"
#include "pool/egress/host.h"

struct bufferevent;
struct event_base;
struct wp_upstream_tls; /* Opaque. One thread. */

/* ca: a PEM file of authorities in place of the system's; NULL. NULL and err.
 */
struct wp_upstream_tls *wp_upstream_tls_create(const char *ca,
                                               struct wp_err *err);
/* NULL is fine. */
void wp_upstream_tls_destroy(struct wp_upstream_tls *tls);
/* To be connected; it counts as connected when the server has proved to be
 * host. NULL: no memory. */
struct bufferevent *wp_upstream_tls_open(struct wp_upstream_tls *tls,
                                         struct event_base *base,
                                         const struct wp_host *host);

#endif
