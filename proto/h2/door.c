/* The door: a thread that accepts connections, counts them, does handshakes and
 * asks the handler who is there, before a serving thread sees any of it. So
 * nobody who waits outside, or knocks in vain, costs a served client time. */
#include "proto/h2/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/log.h"
#include "proto/sockets/accept.h"
#include "proto/loop/loop.h"

struct gate {
    struct wp_h2_door *door;
    struct wp_listener listener;
    struct event on_connection;
};

struct wp_h2_door {
    struct wp_h2_server *server;
    struct gate gates[WP_H2_LISTEN_MAX];
    size_t n_gates;
    struct event_base *base;
    struct event on_stop;
    struct event on_pause;
    int stop_fd;
    struct wp_list waiting; /* In a handshake, or for their turn to begin. */
    pthread_t thread;
    bool threaded;
    bool ending;
    bool complained; /* About too many connections; once until there is room. */
    uint32_t next_worker;
    _Atomic(uint64_t) accepted;
    _Atomic(uint64_t) refused;
};

static void
refuse(struct wp_h2_door *door, struct wp_h2_conn *conn)
{
    WP_H2_COUNT(&door->refused, 1);
    wp_h2_conn_free(conn);
}

/* The one with the fewest connections. */
static struct wp_h2_worker *
choose_worker(struct wp_h2_door *door)
{
    struct wp_h2_server *server = door->server;
    struct wp_h2_worker *best = NULL;
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < server->n_workers; i++) {
        struct wp_h2_worker *worker =
            &server->workers[(door->next_worker + i) % server->n_workers];
        uint32_t n =
            atomic_load_explicit(&worker->n_conns, memory_order_relaxed);

        if (n < least) {
            least = n;
            best = worker;
        }
    }
    door->next_worker++;
    return best;
}

/* Who it is: by the kernel's word, or by the certificate. */
static void
admit(struct wp_h2_door *door, struct wp_h2_conn *conn)
{
    const struct wp_h2_handler *handler = &door->server->handler;
    struct wp_h2_origin origin = {
        .fd = conn->fd, .is_unix = conn->is_unix, .tls = conn->tls};

    if (!handler->admit(handler->ctx, &origin, conn->peer)) {
        refuse(door, conn);
        return;
    }
    WP_H2_COUNT(&door->accepted, 1);
    wp_h2_worker_hand(choose_worker(door), conn);
}

/* --- turns and handshakes --- */

static void on_handshake(evutil_socket_t fd, short what, void *ctx);

static void
await(struct wp_h2_conn *conn, short what)
{
    struct wp_h2_door *door = conn->server->door;
    struct timeval tv =
        wp_timeval(conn->begun_ns + conn->server->config.silent_ns -
                   wp_clock_mono_ns(conn->server->clock));

    (void)event_assign(&conn->on_read, door->base, conn->fd, what, on_handshake,
                       conn);
    (void)event_add(&conn->on_read, &tv);
}

static void
shake(struct wp_h2_conn *conn)
{
    switch (conn->server->config.tls->shake(conn->tls)) {
    case WP_H2_SHAKEN:
        wp_list_remove(&conn->node);
        admit(conn->server->door, conn);
        break;
    case WP_H2_SHAKE_READS:
        await(conn, EV_READ);
        break;
    case WP_H2_SHAKE_WRITES:
        await(conn, EV_WRITE);
        break;
    case WP_H2_SHAKE_FAILED:
        refuse(conn->server->door, conn);
        break;
    }
}

static void
on_handshake(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_h2_conn *conn = ctx;

    (void)fd;
    if ((what & EV_TIMEOUT) != 0) {
        refuse(conn->server->door, conn);
    } else {
        shake(conn);
    }
}

static void
begin(struct wp_h2_conn *conn)
{
    struct wp_h2_server *server = conn->server;

    if (conn->is_unix || server->tls == NULL) {
        admit(server->door, conn);
        return;
    }
    conn->tls = server->config.tls->open(server->tls, conn->fd);
    if (conn->tls == NULL) {
        refuse(server->door, conn);
        return;
    }
    wp_list_push_back(&server->door->waiting, &conn->node);
    shake(conn);
}

static void
on_turn(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_h2_conn *conn = ctx;

    (void)fd;
    (void)what;
    wp_list_remove(&conn->node);
    conn->begun_ns = wp_clock_mono_ns(conn->server->clock);
    begin(conn);
}

/* Nothing is spent on it meanwhile. */
static void
await_turn(struct wp_h2_conn *conn, int64_t wait_ns)
{
    struct wp_h2_door *door = conn->server->door;
    struct timeval tv = wp_timeval(wait_ns);

    wp_list_push_back(&door->waiting, &conn->node);
    (void)event_assign(&conn->on_read, door->base, -1, 0, on_turn, conn);
    (void)event_add(&conn->on_read, &tv);
}

/* --- accepting --- */

static struct wp_peer
peer_of(const struct gate *gate, int fd, const struct sockaddr *address)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (!gate->listener.address.is_unix) {
        return wp_peer_from_address(address);
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0) {
        return wp_peer_from_uid((uid_t)-1, false);
    }
    return wp_peer_from_uid(cred.uid, cred.uid == 0 || cred.uid == geteuid());
}

/* Counts the connection among those of its peer, and among all. */
static bool
count(struct wp_h2_door *door, struct wp_h2_conn *conn, struct wp_peer peer)
{
    enum wp_peer_verdict verdict =
        wp_peer_limits_enter(door->server->limits, peer, &conn->ticket);

    conn->counted = verdict == WP_PEER_ADMITTED;
    if (conn->counted) {
        door->complained = false;
    } else if (!door->complained) {
        door->complained = true;
        wp_log_warn(
            verdict == WP_PEER_OVER_ALL
                ? "connections are being refused: all are in use"
                : "connections are being refused: one peer has as many "
                  "as it may",
            wp_kv_int("connections_max", door->server->config.connections_max));
    }
    return conn->counted;
}

static void
take(struct gate *gate, int fd, const struct sockaddr *address)
{
    struct wp_h2_door *door = gate->door;
    struct wp_h2_server *server = door->server;
    bool is_unix = gate->listener.address.is_unix;
    struct wp_h2_conn *conn = wp_h2_conn_create(server, fd);
    int64_t wait_ns;
    int one = 1;

    if (conn == NULL) {
        WP_H2_COUNT(&door->refused, 1);
        (void)close(fd);
        return;
    }
    if (!count(door, conn, peer_of(gate, fd, address))) {
        refuse(door, conn);
        return;
    }
    conn->is_unix = is_unix;
    if (!is_unix) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    wait_ns =
        wp_peer_limits_wait_ns(server->limits, conn->ticket, conn->begun_ns);
    if (wait_ns == WP_TIME_NEVER) {
        refuse(door, conn);
    } else if (wait_ns > 0) {
        await_turn(conn, wait_ns);
    } else {
        begin(conn);
    }
}

/* Nothing is accepted for a moment: poll would tell of the same connections
 * again and again. */
static void
pause_gates(struct wp_h2_door *door)
{
    const struct timeval tv = {.tv_usec =
                                   (suseconds_t)WP_ACCEPT_PAUSE_MS * 1000};

    if (!atomic_exchange_explicit(&door->server->starved, true,
                                  memory_order_relaxed)) {
        wp_log_warn("no connection can be accepted: descriptors or memory have "
                    "run out",
                    wp_kv_str("cause", strerror(errno)));
    }
    for (size_t i = 0; i < door->n_gates; i++) {
        (void)event_del(&door->gates[i].on_connection);
    }
    (void)event_add(&door->on_pause, &tv);
}

/* The kernel finds a descriptor before it looks for a connection, so that there
 * is none to accept says that there are descriptors again. */
static void
recovered(struct wp_h2_door *door)
{
    if (WP_UNLIKELY(atomic_load_explicit(&door->server->starved,
                                         memory_order_relaxed))) {
        atomic_store_explicit(&door->server->starved, false,
                              memory_order_relaxed);
        wp_log_info("connections are accepted again", WP_LOG_END);
    }
}

/* False: descriptors have run out. */
static bool
accept_some(struct gate *gate)
{
    for (int i = 0; i < WP_ACCEPTS_PER_TURN; i++) {
        struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
        int fd;
        enum wp_accept verdict =
            wp_accept_next(gate->listener.fd, &fd, &address);

        if (verdict == WP_ACCEPT_EXHAUSTED) {
            pause_gates(gate->door);
            return false;
        }
        recovered(gate->door);
        if (verdict == WP_ACCEPT_NONE) {
            return true;
        }
        take(gate, fd, (const struct sockaddr *)&address);
    }
    return true;
}

static void
on_connection(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    (void)accept_some(ctx);
}

static void
on_pause_end(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_h2_door *door = ctx;

    (void)fd;
    (void)what;
    for (size_t i = 0; i < door->n_gates; i++) {
        (void)event_add(&door->gates[i].on_connection, NULL);
    }
    for (size_t i = 0; i < door->n_gates; i++) {
        if (!accept_some(&door->gates[i])) {
            return;
        }
    }
}

static void
on_stop(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_h2_door *door = ctx;

    (void)fd;
    (void)what;
    door->ending = true;
}

static void *
run(void *arg)
{
    struct wp_h2_door *door = arg;

    while (!door->ending) {
        (void)event_base_loop(door->base, EVLOOP_ONCE);
    }
    return NULL;
}

/* --- set-up --- */

enum {
    /* Of all connections, what is kept for root and the daemon's own user, and
     * for Unix sockets: one in so many. */
    KEPT_PRIVILEGED = 32,
    KEPT_UNIX = 16,
    KEPT_CALLS = 16, /* Of all calls, for the privileged. */
};

static enum wp_status
create_limits(struct wp_h2_server *server, struct wp_err *err)
{
    const struct wp_peer_limits_config config = {
        .all_max = server->config.connections_max,
        .peer_max = server->config.peer_connections_max,
        .privileged_kept = server->config.connections_max / KEPT_PRIVILEGED,
        .unix_kept = server->config.connections_max / KEPT_UNIX,
        .calls_max = server->config.calls_max,
        .peer_calls_max = server->config.peer_calls_max,
        .privileged_calls_kept = server->config.calls_max / KEPT_CALLS,
    };

    server->limits = wp_peer_limits_create(&config, err);
    return server->limits != NULL ? WP_OK : WP_RESOURCE_EXHAUSTED;
}

static enum wp_status
open_gate(struct wp_h2_door *door, size_t i, struct wp_err *err)
{
    struct wp_h2_server *server = door->server;
    const char *text = server->config.listen[i];
    struct wp_address address;
    struct gate *gate = &door->gates[door->n_gates];
    enum wp_status status = wp_address_parse(wp_str_from(text), &address, err);

    if (status != WP_OK) {
        return status;
    }
    if (!address.is_loopback && server->tls == NULL &&
        !server->config.clear_text_anywhere) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "listen address %s: clear text is allowed only on "
                          "loopback or a unix socket; set tls_cert and tls_key",
                          text);
    }
    status = wp_listener_open(&gate->listener, &address,
                              server->config.unix_mode, err);
    if (status != WP_OK) {
        return status;
    }
    gate->door = door;
    door->n_gates++;
    (void)wp_address_format(&gate->listener.address, server->address[i],
                            sizeof(server->address[i]));
    if (event_assign(&gate->on_connection, door->base, gate->listener.fd,
                     EV_READ | EV_PERSIST, on_connection, gate) != 0 ||
        event_add(&gate->on_connection, NULL) != 0) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for listeners");
    }
    return WP_OK;
}

enum wp_status
wp_h2_door_create(struct wp_h2_server *server, struct wp_err *err)
{
    struct wp_h2_door *door = calloc(1, sizeof(*door));
    enum wp_status status = WP_OK;

    if (door == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for listeners");
    }
    server->door = door;
    door->server = server;
    door->stop_fd = -1;
    wp_list_init(&door->waiting);
    status = create_limits(server, err);
    if (status != WP_OK) {
        return status;
    }
    door->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    door->base = server->config.base != NULL ? server->config.base
                                             : wp_loop_base_create();
    if (door->stop_fd < 0 || door->base == NULL ||
        event_assign(&door->on_stop, door->base, door->stop_fd,
                     EV_READ | EV_PERSIST, on_stop, door) != 0 ||
        event_add(&door->on_stop, NULL) != 0 ||
        evtimer_assign(&door->on_pause, door->base, on_pause_end, door) != 0) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "memory or descriptors for listeners");
    }
    for (size_t i = 0; i < server->config.n_listen && status == WP_OK; i++) {
        status = open_gate(door, i, err);
    }
    return status;
}

enum wp_status
wp_h2_door_start(struct wp_h2_door *door, struct wp_err *err)
{
    int error;

    if (door->server->config.base != NULL) {
        return WP_OK;
    }
    error = pthread_create(&door->thread, NULL, run, door);
    if (error != 0) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, error,
                          "starting the accepting thread");
    }
    door->threaded = true;
    (void)pthread_setname_np(door->thread, "wp-accept");
    return WP_OK;
}

void
wp_h2_door_stop(struct wp_h2_door *door)
{
    if (door->threaded) {
        uint64_t one = 1;

        while (write(door->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
        }
        (void)pthread_join(door->thread, NULL);
        door->threaded = false;
    }
    while (!wp_list_empty(&door->waiting)) {
        struct wp_h2_conn *conn =
            WP_CONTAINER_OF(door->waiting.next, struct wp_h2_conn, node);

        (void)event_del(&conn->on_read);
        refuse(door, conn);
    }
    for (size_t i = 0; i < door->n_gates; i++) {
        (void)event_del(&door->gates[i].on_connection);
        wp_listener_close(&door->gates[i].listener);
    }
    door->n_gates = 0;
}

void
wp_h2_door_destroy(struct wp_h2_door *door)
{
    if (door == NULL) {
        return;
    }
    wp_h2_door_stop(door);
    if (door->base != NULL) {
        (void)event_del(&door->on_stop);
        (void)event_del(&door->on_pause);
        if (door->server->config.base == NULL) {
            event_base_free(door->base);
        }
    }
    if (door->stop_fd >= 0) {
        (void)close(door->stop_fd);
    }
    free(door);
}

void
wp_h2_door_stats(const struct wp_h2_door *door, struct wp_h2_stats *out)
{
    out->accepted = atomic_load_explicit(&door->accepted, memory_order_relaxed);
    out->refused = atomic_load_explicit(&door->refused, memory_order_relaxed);
}
