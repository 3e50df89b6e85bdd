/* Connections of clear-text listeners, and who is behind them.
 *
 * C-core does not say who is at the other end of a Unix socket. So a thread of
 * our own accepts, asks the kernel (SO_PEERCRED), and gives the connected
 * descriptor to C-core, which from then on names the peer of every call "fd:N".
 * N leads to what the kernel said.
 *
 * N is only closed once no call of its connection exists: a stream holds its
 * transport, which holds the endpoint. So while a call is alive, entry N is its
 * connection's, whatever happens to the socket; the entry is written before
 * C-core gets N and not changed until N is accepted anew.
 *
 * The descriptors are moved to a range of their own, as many as
 * connections_max: that bounds them exactly, and keeps low numbers for
 * others. */
#include "allocator/grpc/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>

#include "allocator/grpc/listen.h"
#include "pool/base/log.h"

enum {
    FD_BASE = 512,         /* Below: everybody else's descriptors. */
    ACCEPTS_PER_TURN = 64, /* Before other listeners get their turn. */
    GROUPS_MAX = 256,      /* More groups of one peer are not looked at. */
    PAUSE_MS = 100,        /* When descriptors have run out. */
};

struct peer {
    struct wp_identity who;
    bool known; /* May call. */
    /* Changed by each reader when it is done and by the accepting thread when
     * it has written: what the kernel orders by the descriptor's life is said
     * here in C's own terms too. */
    _Atomic(uint32_t) turns;
};

struct wp_rpc_peers {
    struct wp_rpc_server *server;
    struct wp_rpc_listener listeners[WP_RPC_LISTEN_MAX];
    size_t n_listeners;
    grpc_server_credentials *credentials;
    struct peer *table; /* Of descriptors fd_base .. fd_base + n_table - 1. */
    int fd_base;
    uint32_t n_table;
    int stop_fd;
    pthread_t thread;
    bool threaded;
    bool complained; /* About a full table; once until there is room. */
    _Atomic(uint64_t) accepted;
    _Atomic(uint64_t) refused;
};

const struct wp_rpc_principal *
wp_rpc_principal_find(const struct wp_rpc_config *config, const char *name)
{
    for (size_t i = 0; i < config->n_principals; i++) {
        if (strcmp(config->principals[i].name, name) == 0) {
            return &config->principals[i];
        }
    }
    return NULL;
}

static void
take_principal(struct peer *peer, const struct wp_rpc_principal *principal)
{
    (void)snprintf(peer->who.name, sizeof(peer->who.name), "%s",
                   principal->name);
    (void)snprintf(peer->who.tenant, sizeof(peer->who.tenant), "%s",
                   principal->tenant);
    peer->who.admin = principal->admin;
    peer->known = true;
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

static const struct wp_rpc_principal *
find_unix_principal(const struct wp_rpc_config *config, uid_t uid,
                    const gid_t *groups, size_t n_groups)
{
    char name[32];
    const struct wp_rpc_principal *found;

    (void)snprintf(name, sizeof(name), "uid:%u", (unsigned)uid);
    found = wp_rpc_principal_find(config, name);
    for (size_t i = 0; i < n_groups && found == NULL; i++) {
        (void)snprintf(name, sizeof(name), "gid:%u", (unsigned)groups[i]);
        found = wp_rpc_principal_find(config, name);
    }
    return found;
}

static bool
is_allowed(const struct wp_rpc_config *config, uid_t uid, const gid_t *groups,
           size_t n_groups)
{
    if (config->n_allow_uids == 0 && config->n_allow_gids == 0) {
        return config->n_principals == 0;
    }
    for (size_t i = 0; i < config->n_allow_uids; i++) {
        if (config->allow_uids[i] == uid) {
            return true;
        }
    }
    for (size_t g = 0; g < n_groups; g++) {
        for (size_t i = 0; i < config->n_allow_gids; i++) {
            if (config->allow_gids[i] == groups[g]) {
                return true;
            }
        }
    }
    return false;
}

/* A process that looks like ours but lives in another user namespace, as what
 * runs inside a sandbox does: the kernel maps its user to the one that made the
 * namespace. When it has gone already it is not given the benefit. A pid of 0
 * is in a process namespace that is not below ours, so no sandbox of ours. */
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
    return stat("/proc/self/ns/user", &own) != 0 || stat(path, &theirs) != 0 ||
           own.st_dev != theirs.st_dev || own.st_ino != theirs.st_ino;
}

/* False: the peer may not even connect. */
static bool
learn_unix_peer(const struct wp_rpc_config *config, int fd, struct peer *peer)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    gid_t groups[GROUPS_MAX];
    size_t n_groups;
    const struct wp_rpc_principal *principal;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0) {
        return false;
    }
    n_groups = groups_of(fd, cred.gid, groups);
    (void)snprintf(peer->who.name, sizeof(peer->who.name), "uid:%u",
                   (unsigned)cred.uid);
    principal = find_unix_principal(config, cred.uid, groups, n_groups);
    if (principal != NULL) {
        take_principal(peer, principal);
    }
    if (cred.uid == geteuid() && is_in_a_sandbox(cred.pid)) {
        return false;
    }
    if (cred.uid == 0 || cred.uid == geteuid()) {
        peer->known = true;
        peer->who.admin = true;
        return true;
    }
    if (principal != NULL) {
        return true;
    }
    peer->known = config->n_principals == 0;
    return is_allowed(config, cred.uid, groups, n_groups);
}

static void
learn_tcp_peer(const struct wp_rpc_config *config, int fd, struct peer *peer)
{
    const struct wp_rpc_principal *principal =
        wp_rpc_principal_find(config, "anonymous");
    int one = 1;

    (void)snprintf(peer->who.name, sizeof(peer->who.name), "anonymous");
    peer->known = config->n_principals == 0;
    if (principal != NULL) {
        take_principal(peer, principal);
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* The same socket at a number within the table; -1 when it is full. Closes
 * fd. */
static int
move_into_table(struct wp_rpc_peers *peers, int fd)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, peers->fd_base);

    (void)close(fd);
    if (moved >= 0 && (uint32_t)(moved - peers->fd_base) >= peers->n_table) {
        (void)close(moved);
        moved = -1;
    }
    if (moved < 0 && !peers->complained) {
        peers->complained = true;
        wp_log_warn("connections are being refused: all are in use",
                    wp_kv_int("connections_max", peers->n_table));
    } else if (moved >= 0) {
        peers->complained = false;
    }
    return moved;
}

static void
admit_peer(struct wp_rpc_peers *peers, const struct wp_rpc_listener *listener,
           int accepted)
{
    const struct wp_rpc_config *config = &peers->server->config;
    int fd = move_into_table(peers, accepted);
    struct peer *peer;

    if (fd < 0) {
        WP_RPC_COUNT(&peers->refused, 1);
        return;
    }
    peer = &peers->table[fd - peers->fd_base];
    /* Acquire: pairs with the readers' release in wp_rpc_peer_identify. */
    (void)atomic_load_explicit(&peer->turns, memory_order_acquire);
    memset(&peer->who, 0, sizeof(peer->who));
    peer->known = false;
    if (!listener->address.is_unix) {
        learn_tcp_peer(config, fd, peer);
    } else if (!learn_unix_peer(config, fd, peer)) {
        WP_RPC_COUNT(&peers->refused, 1);
        wp_log_debug("connection refused: not an allowed user",
                     wp_kv_str("peer", peer->who.name));
        (void)close(fd);
        return;
    }
    WP_RPC_COUNT(&peers->accepted, 1);
    /* Release: pairs with the acquire in wp_rpc_peer_identify. */
    (void)atomic_fetch_add_explicit(&peer->turns, 1, memory_order_release);
    /* Takes fd, whatever comes of it. */
    grpc_server_add_channel_from_fd(peers->server->grpc, fd,
                                    peers->credentials);
}

/* False when descriptors or memory have run out: time for a pause. */
static bool
accept_some(struct wp_rpc_peers *peers, const struct wp_rpc_listener *listener)
{
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd =
            accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            admit_peer(peers, listener, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                   errno == ENOMEM) {
            return false;
        } else if (errno == EAGAIN) {
            return true;
        } /* Else the client has gone already: the next one. */
    }
    return true;
}

static void *
accept_loop(void *arg)
{
    struct wp_rpc_peers *peers = arg;
    struct pollfd fds[WP_RPC_LISTEN_MAX + 1];
    nfds_t n = peers->n_listeners;
    bool room = true;

    for (nfds_t i = 0; i < n; i++) {
        fds[i + 1] =
            (struct pollfd){.fd = peers->listeners[i].fd, .events = POLLIN};
    }
    fds[0] = (struct pollfd){.fd = peers->stop_fd, .events = POLLIN};
    for (;;) {
        /* Without room only the stop is waited for, and the pause's end. */
        int ready = poll(fds, room ? n + 1 : 1, room ? -1 : PAUSE_MS);

        if (ready > 0 && fds[0].revents != 0) {
            return NULL;
        }
        for (nfds_t i = 0; i < n && (ready > 0 || !room); i++) {
            if (!room || fds[i + 1].revents != 0) {
                room = accept_some(peers, &peers->listeners[i]);
            }
        }
    }
}

/* --- set-up --- */

/* As many connections as the limit on descriptors lets us have. With TLS the
 * limit is raised as far as it goes: C-core accepts those connections itself,
 * without a bound, and its listener does not survive running out. */
static void
fit_to_limit(struct wp_rpc_peers *peers)
{
    struct rlimit limit;
    rlim_t want = peers->server->tls != NULL ? RLIM_INFINITY
                                             : (rlim_t)FD_BASE + peers->n_table;

    peers->fd_base = FD_BASE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= want) {
        return;
    }
    limit.rlim_cur = limit.rlim_max < want ? limit.rlim_max : want;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= (rlim_t)FD_BASE + peers->n_table) {
        return;
    }
    if (limit.rlim_cur < 2 * FD_BASE) {
        peers->fd_base = (int)(limit.rlim_cur / 2);
    }
    peers->n_table = (uint32_t)(limit.rlim_cur - (rlim_t)peers->fd_base);
    wp_log_warn("fewer connections than connections_max: the limit on open "
                "files is lower",
                wp_kv_int("connections", peers->n_table));
}

static enum wp_status
bind_one(struct wp_rpc_peers *peers, size_t i, struct wp_err *err)
{
    struct wp_rpc_server *server = peers->server;
    const char *text = server->config.listen[i];
    struct wp_address address;
    struct wp_rpc_listener *listener;
    enum wp_status status = wp_address_parse(wp_str_from(text), &address, err);

    if (status != WP_OK) {
        return status;
    }
    if (!address.is_unix && server->tls != NULL) {
        grpc_server_credentials *creds = wp_rpc_tls_credentials(server->tls);
        int port;

        (void)wp_address_format(&address, server->address[i],
                                sizeof(server->address[i]));
        port =
            grpc_server_add_http2_port(server->grpc, server->address[i], creds);
        grpc_server_credentials_release(creds);
        if (port <= 0) {
            return wp_err_set(err, WP_UNAVAILABLE,
                              "listen address %s: cannot be bound", text);
        }
        wp_address_set_port(&address, (uint16_t)port);
        (void)wp_address_format(&address, server->address[i],
                                sizeof(server->address[i]));
        return WP_OK;
    }
    if (!address.is_unix && !address.is_loopback) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "listen address %s: clear text is allowed only on "
                          "loopback or a unix socket; set tls_cert and tls_key",
                          text);
    }
    listener = &peers->listeners[peers->n_listeners];
    status =
        wp_rpc_listener_open(listener, &address, server->config.unix_mode, err);
    if (status == WP_OK) {
        peers->n_listeners++;
        (void)wp_address_format(&listener->address, server->address[i],
                                sizeof(server->address[i]));
    }
    return status;
}

enum wp_status
wp_rpc_peers_create(struct wp_rpc_server *server, struct wp_err *err)
{
    struct wp_rpc_peers *peers = calloc(1, sizeof(*peers));

    if (peers == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for listeners");
    }
    server->peers = peers;
    peers->server = server;
    peers->n_table = server->config.connections_max;
    fit_to_limit(peers);
    peers->credentials = grpc_insecure_server_credentials_create();
    peers->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    peers->table = calloc(peers->n_table, sizeof(peers->table[0]));
    if (peers->stop_fd < 0 || peers->table == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "memory for connections (setting connections_max)");
    }
    for (size_t i = 0; i < server->config.n_listen; i++) {
        enum wp_status status = bind_one(peers, i, err);

        if (status != WP_OK) {
            return status;
        }
    }
    return WP_OK;
}

enum wp_status
wp_rpc_peers_start(struct wp_rpc_peers *peers, struct wp_err *err)
{
    int error;

    if (peers->n_listeners == 0) {
        return WP_OK;
    }
    error = pthread_create(&peers->thread, NULL, accept_loop, peers);
    if (error != 0) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, error,
                          "starting the accepting thread");
    }
    peers->threaded = true;
    (void)pthread_setname_np(peers->thread, "wp-accept");
    return WP_OK;
}

void
wp_rpc_peers_stop(struct wp_rpc_peers *peers)
{
    if (peers->threaded) {
        uint64_t one = 1;

        while (write(peers->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
        }
        (void)pthread_join(peers->thread, NULL);
        peers->threaded = false;
    }
    for (size_t i = 0; i < peers->n_listeners; i++) {
        wp_rpc_listener_close(&peers->listeners[i]);
    }
}

void
wp_rpc_peers_destroy(struct wp_rpc_peers *peers)
{
    if (peers == NULL) {
        return;
    }
    wp_rpc_peers_stop(peers);
    if (peers->credentials != NULL) {
        grpc_server_credentials_release(peers->credentials);
    }
    if (peers->stop_fd >= 0) {
        (void)close(peers->stop_fd);
    }
    free(peers->table);
    free(peers);
}

void
wp_rpc_peers_stats(const struct wp_rpc_peers *peers, struct wp_rpc_stats *out)
{
    out->peers_accepted =
        atomic_load_explicit(&peers->accepted, memory_order_relaxed);
    out->peers_refused =
        atomic_load_explicit(&peers->refused, memory_order_relaxed);
}

/* N of "fd:N", or -1. */
static int
peer_number(const char *text)
{
    uint64_t number;

    if (strncmp(text, "fd:", 3) != 0 ||
        !wp_str_to_u64(wp_str_from(text + 3), &number) || number > INT32_MAX) {
        return -1;
    }
    return (int)number;
}

bool
wp_rpc_peer_identify(struct wp_rpc_server *server, grpc_call *call,
                     struct wp_identity *who)
{
    struct wp_rpc_peers *peers = server->peers;
    bool known;
    char *text = grpc_call_get_peer(call);
    int fd = text != NULL ? peer_number(text) : -1;
    struct peer *peer;

    gpr_free(text);
    if (fd < 0) {
        return wp_rpc_tls_identify(&server->config, call, who);
    }
    if (fd < peers->fd_base ||
        (uint32_t)(fd - peers->fd_base) >= peers->n_table) {
        return false;
    }
    peer = &peers->table[fd - peers->fd_base];
    /* Pairs with admit_peer, both ways. */
    (void)atomic_load_explicit(&peer->turns, memory_order_acquire);
    *who = peer->who;
    known = peer->known;
    (void)atomic_fetch_add_explicit(&peer->turns, 1, memory_order_release);
    return known;
}
