#include "allocator/access/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/siphash.h"
#include "pool/base/str.h"

enum {
    GROUPS_MAX = 256, /* More groups of one peer are not looked at. */
    USER_MAP_MAX = 4096,
};

const struct wp_principal *
wp_access_find(const struct wp_access *access, const char *name)
{
    for (size_t i = 0; i < access->n_principals; i++) {
        if (strcmp(access->principals[i].name, name) == 0) {
            return &access->principals[i];
        }
    }
    return NULL;
}

void
wp_identity_take(struct wp_identity *who, const struct wp_principal *principal)
{
    (void)snprintf(who->tenant, sizeof(who->tenant), "%s", principal->tenant);
    who->admin = principal->admin;
}

void
wp_identity_own_tenant(struct wp_identity *who)
{
    /* Public: nobody needs to hide tenants' names, only to tell them apart. */
    static const struct wp_hash_key key = {0x7465, 0x6E61};
    struct wp_str name = wp_str_from(who->name);
    struct wp_hash128 hash;

    if (name.len <= WP_TENANT_MAX && wp_str_is_utf8(name) &&
        !wp_str_starts_with(name, WP_STR(WP_TENANT_OWN_PREFIX))) {
        memcpy(who->tenant, who->name, name.len + 1);
        return;
    }
    hash = wp_siphash128(key, name.ptr, name.len);
    (void)snprintf(who->tenant, sizeof(who->tenant), "~%016llx%016llx",
                   (unsigned long long)hash.high, (unsigned long long)hash.low);
}

bool
wp_access_match_name(void *ctx, struct wp_str name)
{
    struct wp_name_search *search = ctx;
    struct wp_identity *who = search->who;
    const struct wp_principal *principal;
    char text[sizeof(who->name)];

    if (!wp_str_copy(name, text, sizeof(text)) || text[0] == '\0' ||
        !wp_str_is_printable(name)) {
        return true;
    }
    principal = wp_access_find(search->access, text);
    if (principal != NULL) {
        (void)snprintf(who->name, sizeof(who->name), "%s", principal->name);
        wp_identity_take(who, principal);
        search->found = true;
        return false;
    }
    if (who->name[0] == '\0') {
        memcpy(who->name, text, sizeof(who->name));
    }
    return true;
}

bool
wp_access_end_names(struct wp_name_search *search)
{
    struct wp_identity *who = search->who;

    if (who->name[0] == '\0') {
        (void)snprintf(who->name, sizeof(who->name), "certificate");
    }
    if (search->access->n_principals == 0) {
        wp_identity_own_tenant(who);
        return true;
    }
    return search->found;
}

/* All groups of a peer, its primary one first; at most GROUPS_MAX. */
static size_t
groups_of(int fd, gid_t primary, gid_t out[GROUPS_MAX])
{
    socklen_t len = (GROUPS_MAX - 1) * sizeof(out[0]);

    out[0] = primary;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, &out[1], &len) != 0) {
        return 1;
    }
    return 1 + len / sizeof(out[0]);
}

static const struct wp_principal *
find_unix_principal(const struct wp_access *access, uid_t uid,
                    const gid_t *groups, size_t n_groups)
{
    char name[32];
    const struct wp_principal *found;

    (void)snprintf(name, sizeof(name), "uid:%u", (unsigned)uid);
    found = wp_access_find(access, name);
    for (size_t i = 0; i < n_groups && found == NULL; i++) {
        (void)snprintf(name, sizeof(name), "gid:%u", (unsigned)groups[i]);
        found = wp_access_find(access, name);
    }
    return found;
}

static bool
is_allowed(const struct wp_access *access, uid_t uid, const gid_t *groups,
           size_t n_groups)
{
    if (access->n_allow_uids == 0 && access->n_allow_gids == 0) {
        return access->n_principals == 0;
    }
    for (size_t i = 0; i < access->n_allow_uids; i++) {
        if (access->allow_uids[i] == uid) {
            return true;
        }
    }
    for (size_t g = 0; g < n_groups; g++) {
        for (size_t i = 0; i < access->n_allow_gids; i++) {
            if (access->allow_gids[i] == groups[g]) {
                return true;
            }
        }
    }
    return false;
}

/* The map of a process's users; what it says needs no right to see. Returns how
 * much was read; 0: nothing. */
static size_t
user_map_of(const char *process, char out[USER_MAP_MAX])
{
    char path[48];
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%s/uid_map", process);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    n = read(fd, out, USER_MAP_MAX);
    (void)close(fd);
    return n > 0 ? (size_t)n : 0;
}

static bool
has_our_users(pid_t pid)
{
    char process[16];
    char own[USER_MAP_MAX];
    char theirs[USER_MAP_MAX];
    size_t len = user_map_of("self", own);

    (void)snprintf(process, sizeof(process), "%d", (int)pid);
    return len > 0 && user_map_of(process, theirs) == len &&
           memcmp(own, theirs, len) == 0;
}

/* A process that looks like ours but lives in another user namespace, as what
 * runs inside a sandbox does: the kernel maps its user to the one that made the
 * namespace. When it has gone already it is not given the benefit. A pid of 0
 * is in a process namespace that is not below ours, so no sandbox of ours.
 *
 * The namespace of a process with more capabilities than ours may not be looked
 * at, as root's clients are beside a daemon whose capabilities are cut down. In
 * a namespace that we made we may look: then the map of its users decides, of
 * which a namespace that is not ours cannot have the same. */
static bool
is_in_a_sandbox(pid_t pid)
{
    char path[48];
    struct stat own;
    struct stat theirs;

    if (pid == 0) {
        return false;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    if (stat("/proc/self/ns/user", &own) != 0) {
        return true;
    }
    if (stat(path, &theirs) != 0) {
        return errno != EACCES || !has_our_users(pid);
    }
    return own.st_dev != theirs.st_dev || own.st_ino != theirs.st_ino;
}

enum wp_peer_right
wp_access_unix_peer(const struct wp_access *access, int fd,
                    struct wp_identity *who, uid_t *uid)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    gid_t groups[GROUPS_MAX];
    size_t n_groups;
    const struct wp_principal *principal;

    memset(who, 0, sizeof(*who));
    *uid = (uid_t)-1;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0) {
        return WP_PEER_REFUSED;
    }
    *uid = cred.uid;
    n_groups = groups_of(fd, cred.gid, groups);
    (void)snprintf(who->name, sizeof(who->name), "uid:%u", (unsigned)cred.uid);
    if (cred.uid == geteuid() && is_in_a_sandbox(cred.pid)) {
        return WP_PEER_REFUSED;
    }
    principal = find_unix_principal(access, cred.uid, groups, n_groups);
    if (principal != NULL) {
        (void)snprintf(who->name, sizeof(who->name), "%s", principal->name);
        wp_identity_take(who, principal);
    }
    if (cred.uid == 0 || cred.uid == geteuid()) {
        who->admin = true;
        return WP_PEER_KNOWN;
    }
    if (principal != NULL) {
        return WP_PEER_KNOWN;
    }
    if (!is_allowed(access, cred.uid, groups, n_groups)) {
        return WP_PEER_REFUSED;
    }
    if (access->n_principals > 0) {
        return WP_PEER_UNNAMED;
    }
    wp_identity_own_tenant(who);
    return WP_PEER_KNOWN;
}
