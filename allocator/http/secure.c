#include "allocator/http/secure.h"

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>

static struct bufferevent *
open_connection(void *ctx, struct event_base *base, int fd)
{
    SSL *ssl = wp_tls_open(ctx, fd);
    struct bufferevent *bev;

    if (ssl == NULL) {
        return NULL;
    }
    /* It frees ssl also when it fails. */
    bev = bufferevent_openssl_socket_new(
        base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    if (bev == NULL) {
        return NULL;
    }
    /* As in clear: lengths tell whether all of a message has come. */
    bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    return bev;
}

static void
end_connection(struct bufferevent *bev)
{
    SSL *ssl = bufferevent_openssl_get_ssl(bev);

    if (SSL_is_init_finished(ssl)) {
        (void)SSL_shutdown(ssl);
    }
}

struct wp_http_secure
wp_secure(struct wp_tls *tls)
{
    return (struct wp_http_secure){open_connection, end_connection, tls};
}

bool
wp_secure_peer(struct bufferevent *bev, const struct wp_access *access,
               struct wp_identity *who)
{
    const SSL *ssl = bufferevent_openssl_get_ssl(bev);
    struct wp_name_search search = {access, who, false};

    if (SSL_get0_peer_certificate(ssl) == NULL) {
        return false;
    }
    wp_tls_names(ssl, wp_access_match_name, &search);
    return wp_access_end_names(&search);
}
