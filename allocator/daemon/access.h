/* allocator/daemon/access.h - who may do what, from the settings and the files
 * that they name. Servers borrow from it. Private to the daemon. */
#ifndef WP_ALLOCATOR_DAEMON_ACCESS_H
#define WP_ALLOCATOR_DAEMON_ACCESS_H

#include "allocator/conf/conf.h"
#include "allocator/grpc/server.h"

struct wp_daemon_access {
    struct wp_principal *principals; /* Owned, with their names. */
    size_t n_principals;
    uint32_t *uids; /* Owned. */
    size_t n_uids;
    char admin_token[260];    /* Of HTTP. */
    char access_token[260];   /* Of gRPC over TCP; "": not used. */
    char trigger_secret[260]; /* Of webhooks; "": they need not be signed. */
};

/* conf is borrowed. On failure there may be something to forget. */
enum wp_status wp_daemon_access_read(struct wp_daemon_access *access,
                                     const struct wp_conf *conf,
                                     struct wp_err *err);
/* Reads the access token where gRPC listens on TCP without client
 * certificates; makes its file first when there is none. When the runtime
 * directory is there. */
enum wp_status wp_daemon_access_token(struct wp_daemon_access *rules,
                                      const struct wp_conf *conf,
                                      struct wp_err *err);
/* Does it let others than the daemon's own user connect to a Unix socket? */
bool wp_daemon_access_names_others(const struct wp_daemon_access *access);
/* After the servers. Harmless when nothing was read. */
void wp_daemon_access_forget(struct wp_daemon_access *access);

#endif
