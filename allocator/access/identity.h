/* allocator/access/identity.h - who is at the other end of a connection, and
 * what that lets it do. One answer for every listener. Any thread. */
#ifndef WP_ALLOCATOR_ACCESS_IDENTITY_H
#define WP_ALLOCATOR_ACCESS_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pool/base/str.h"
#include "pool/limits.h"

/* Who calls, as the transport established it. */
struct wp_identity {
    char name[128]; /* Certificate name, "uid:1000", "access-token"... */
    char tenant[WP_TENANT_MAX + 1]; /* Fixed by its credentials when not "". */
    bool admin;                     /* May see all tenants and shape pools. */
    bool unread; /* Nobody on the way reads along: TLS, or a Unix socket. */
};

/* What a proven name may do. Names are matched as a whole:
 *   "uid:1000", "gid:100"  a peer of a Unix socket,
 *   "spiffe://...", a URI, DNS name or common name: a client certificate,
 *   "anonymous"            any other; not the holder of the access token. */
struct wp_principal {
    const char *name;
    const char *tenant; /* "" leaves the choice to the request. */
    bool admin;
};

/* Borrowed by who is given it. */
struct wp_access {
    /* Peers of a Unix socket that may connect beside root and the daemon's own
     * user: by user, by any of their groups, or by a principal that names
     * them. All lists empty: everybody whom the socket's mode lets in. Never a
     * process that is the daemon's user only because it runs in a user
     * namespace which that user has made, as sandboxes do. */
    const uint32_t *allow_uids;
    size_t n_allow_uids;
    const uint32_t *allow_gids;
    size_t n_allow_gids;
    /* With at least one entry, a caller that no entry names is refused, but for
     * root and the daemon's own user over a Unix socket, who are always admin.
     * Without entries anyone who got this far may call, a proven name is its
     * own tenant, and only those two are admin. */
    const struct wp_principal *principals;
    size_t n_principals;
};

/* The entry for name, or NULL. */
const struct wp_principal *wp_access_find(const struct wp_access *access,
                                          const char *name);
/* Fills who from what the entry says. */
void wp_identity_take(struct wp_identity *who,
                      const struct wp_principal *principal);

/* Where there are no principals, a proven name is its own tenant: who->name, or
 * when that cannot be one (too long, one of the daemon's own), '~' and a hash
 * of it. Only for names that the transport has proven. */
void wp_identity_own_tenant(struct wp_identity *who);

/* What is looked for among the names of a client's certificate. */
struct wp_name_search {
    const struct wp_access *access;
    struct wp_identity *who; /* Zeroed before. */
    bool found;              /* An entry names it. */
};
/* Takes the next name; false: no further one is wanted. The first of all names
 * becomes the caller's; the first that has an entry decides. A name that does
 * not fit is no name: cut, it could be another's. */
bool wp_access_match_name(void *search, struct wp_str name);
/* After all names. True: who may call, and is named. */
bool wp_access_end_names(struct wp_name_search *search);

enum wp_peer_right {
    WP_PEER_REFUSED, /* May not even connect; who->name says who it was. */
    WP_PEER_UNNAMED, /* May connect, and be told that no entry names it. */
    WP_PEER_KNOWN,   /* May call. */
};

/* The peer of a connected Unix socket, as the kernel knows it. *uid: its user;
 * 0 never without a peer. */
enum wp_peer_right wp_access_unix_peer(const struct wp_access *access, int fd,
                                       struct wp_identity *who, uid_t *uid);

#endif
