/* allocator/http/secure.h - HTTP connections over TLS. The loop's thread. */
#ifndef WP_ALLOCATOR_HTTP_SECURE_H
#define WP_ALLOCATOR_HTTP_SECURE_H

#include "allocator/access/identity.h"
#include "proto/tls/tls.h"
#include "proto/formats/http_server.h"

/* For a listener whose connections are tls's; it is borrowed. */
struct wp_http_secure wp_secure(struct wp_tls *tls);
/* Who the client's certificate proves it is; who: zeroed before. False: it has
 * shown none, or one that no entry of access names; who then has no rights, and
 * perhaps a name. After the handshake. */
bool wp_secure_peer(struct bufferevent *bev, const struct wp_access *access,
                    struct wp_identity *who);

#endif
