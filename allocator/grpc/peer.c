/* Who is behind a connection: by the kernel's word on a Unix socket, by the
 * certificate on TLS. Elsewhere each call may bring a token (request.c). */
#include "allocator/grpc/internal.h"

#include <stdio.h>
#include <string.h>

#include "proto/tls/tls.h"
#include "pool/base/log.h"

static void
take_principal(struct wp_rpc_peer *peer, const struct wp_principal *principal)
{
    (void)snprintf(peer->who.name, sizeof(peer->who.name), "%s",
                   principal->name);
    wp_identity_take(&peer->who, principal);
    peer->known = true;
}

static void
learn_nobody(const struct wp_rpc_config *config, struct wp_rpc_peer *peer)
{
    const struct wp_access *access = &config->access;
    const struct wp_principal *principal = wp_access_find(access, "anonymous");

    (void)snprintf(peer->who.name, sizeof(peer->who.name), "anonymous");
    peer->unproven = true;
    peer->known = config->anonymous && access->n_principals == 0;
    if (principal != NULL) {
        take_principal(peer, principal);
    }
}

static void
learn_certificate(const struct wp_access *access, const void *tls,
                  struct wp_rpc_peer *peer)
{
    struct wp_name_search search = {access, &peer->who, false};

    wp_tls_names(tls, wp_access_match_name, &search);
    peer->known = wp_access_end_names(&search);
}

static bool
learn_unix_peer(const struct wp_access *access, int fd,
                struct wp_rpc_peer *peer)
{
    uid_t uid;
    enum wp_peer_right right =
        wp_access_unix_peer(access, fd, &peer->who, &uid);

    peer->known = right == WP_PEER_KNOWN;
    return right != WP_PEER_REFUSED;
}

bool
wp_rpc_peer_admit(void *ctx, const struct wp_h2_origin *origin, void *out)
{
    const struct wp_rpc_server *server = ctx;
    const struct wp_rpc_config *config = &server->config;
    struct wp_rpc_peer *peer = out;

    if (origin->is_unix) {
        if (!learn_unix_peer(&config->access, origin->fd, peer)) {
            wp_log_debug("connection refused: not an allowed user",
                         wp_kv_str("peer", peer->who.name));
            return false;
        }
    } else if (origin->tls != NULL && config->tls_client_ca != NULL) {
        learn_certificate(&config->access, origin->tls, peer);
    } else {
        learn_nobody(config, peer);
    }
    peer->who.unread = origin->is_unix || origin->tls != NULL;
    return true;
}
