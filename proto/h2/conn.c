/* One connection on its serving thread: bytes in and out, and its clocks. */
#include "proto/h2/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/log.h"

#define LINGER_NS (2 * WP_NS_PER_S)
#define AGE_GRACE_NS (30 * WP_NS_PER_S)

enum {
    LINGER_BYTES_MAX = 256 << 10,
    WRITES_PER_TURN = 4,
};

/* No output taken for so long: the peer does not read. */
static int64_t
stall_ns(const struct wp_h2_conn *conn)
{
    return 2 * conn->server->config.keepalive_timeout_ns;
}

static int64_t
now_of(const struct wp_h2_conn *conn)
{
    return wp_clock_mono_ns(conn->server->clock);
}

struct wp_h2_conn *
wp_h2_conn_create(struct wp_h2_server *server, int fd)
{
    struct wp_h2_conn *conn =
        calloc(1, sizeof(*conn) + server->handler.peer_size);

    if (conn == NULL) {
        return NULL;
    }
    conn->server = server;
    conn->fd = fd;
    conn->begun_ns = now_of(conn);
    conn->read_ns = conn->begun_ns;
    conn->tokens_ns = conn->begun_ns;
    conn->tokens_x = WP_NS_PER_S;
    wp_list_init(&conn->node);
    wp_list_init(&conn->streams);
    (void)atomic_fetch_add_explicit(&server->n_conns, 1, memory_order_relaxed);
    return conn;
}

static void
free_tls(struct wp_h2_conn *conn)
{
    if (conn->tls != NULL) {
        conn->server->config.tls->free(conn->tls);
        conn->tls = NULL;
    }
}

void
wp_h2_conn_free(struct wp_h2_conn *conn)
{
    wp_list_remove(&conn->node);
    free_tls(conn);
    if (conn->fd >= 0) {
        (void)close(conn->fd);
    }
    free(conn->out);
    if (conn->counted) {
        wp_peer_limits_leave(conn->server->limits, conn->ticket);
    }
    /* Release: whoever sees no connection sees what they have done. */
    (void)atomic_fetch_sub_explicit(&conn->server->n_conns, 1,
                                    memory_order_release);
    free(conn);
}

void *
wp_h2_conn_peer(struct wp_h2_conn *conn)
{
    return conn->peer;
}

struct wp_h2_worker *
wp_h2_conn_worker(struct wp_h2_conn *conn)
{
    return conn->worker;
}

void
wp_h2_conn_touch(struct wp_h2_conn *conn)
{
    if (!conn->dirty && conn->state < WP_H2_LINGERING) {
        conn->dirty = true;
        conn->next_dirty = conn->worker->dirty;
        conn->worker->dirty = conn;
    }
}

/* --- clocks --- */

static void
set_timer(struct event *event, int64_t in_ns)
{
    struct timeval tv = wp_timeval(in_ns);

    (void)event_add(event, &tv);
}

static int64_t
sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When the next of its clocks has run out, as things are now. */
static int64_t
due_ns(const struct wp_h2_conn *conn)
{
    const struct wp_h2_config *config = &conn->server->config;
    int64_t due = WP_TIME_NEVER;

    if (conn->state == WP_H2_LINGERING) {
        return conn->goodbye_ns + LINGER_NS;
    }
    if (conn->blocked) {
        due = conn->stalled_ns + stall_ns(conn);
    } else if (conn->pinged) {
        due = conn->pinged_ns + config->keepalive_timeout_ns;
    } else {
        due = conn->read_ns + config->keepalive_ns;
    }
    if (!conn->served) {
        due = sooner(due, conn->begun_ns + config->silent_ns);
    }
    if (conn->aged) {
        due = sooner(due, conn->goodbye_ns + AGE_GRACE_NS);
    } else if (config->connection_age_max_ns > 0) {
        due = sooner(due, conn->begun_ns + config->connection_age_max_ns);
    }
    return due;
}

static void
arm_timer(struct wp_h2_conn *conn)
{
    set_timer(&conn->on_timer, due_ns(conn) - now_of(conn));
}

/* Our side is shut; what the peer still sends is thrown away for a moment, for
 * a close with unread bytes would destroy what it has not read yet. Whoever is
 * cut has that moment, too, but nothing more is read: to decrypt a flood that
 * nobody wants costs more than all before it, and while it stands still it
 * holds one of its peer's connections, which slows who comes again and again.
 */
static void
linger(struct wp_h2_conn *conn)
{
    if (conn->state >= WP_H2_LINGERING) {
        return;
    }
    if (conn->doomed) {
        WP_H2_COUNT(&conn->worker->cut, 1);
        if (conn->counted) {
            wp_peer_limits_watch(conn->server->limits, conn->ticket,
                                 now_of(conn));
        }
    }
    conn->state = WP_H2_LINGERING;
    conn->goodbye_ns = now_of(conn);
    wp_h2_session_end(conn);
    if (conn->tls != NULL) {
        conn->server->config.tls->shut(conn->tls);
    }
    (void)shutdown(conn->fd, SHUT_WR);
    (void)event_del(&conn->on_write);
    (void)event_del(&conn->on_resume);
    if (conn->doomed) {
        (void)event_del(&conn->on_read);
        free_tls(conn);
    } else {
        (void)event_add(&conn->on_read, NULL);
    }
    arm_timer(conn);
}

void
wp_h2_conn_close(struct wp_h2_conn *conn)
{
    if (conn->state == WP_H2_DEAD) {
        return;
    }
    conn->state = WP_H2_DEAD;
    if (conn->fd >= 0) {
        (void)event_del(&conn->on_read);
        (void)event_del(&conn->on_write);
        (void)event_del(&conn->on_timer);
        (void)event_del(&conn->on_resume);
    }
    wp_h2_session_end(conn);
    conn->next_dead = conn->worker->dead;
    conn->worker->dead = conn;
}

void
wp_h2_conn_leave(struct wp_h2_conn *conn)
{
    if (conn->state != WP_H2_OPEN) {
        return;
    }
    if (conn->session == NULL) {
        wp_h2_conn_close(conn);
        return;
    }
    conn->state = WP_H2_SAYING_GOODBYE;
    conn->goodbye_ns = now_of(conn);
    wp_h2_session_goodbye(conn);
}

/* What a clock that has run out asks for. */
static void
on_due(struct wp_h2_conn *conn, int64_t now_ns)
{
    const struct wp_h2_config *config = &conn->server->config;

    if (conn->state == WP_H2_LINGERING) {
        wp_h2_conn_close(conn);
    } else if (conn->blocked) {
        if (now_ns >= conn->stalled_ns + stall_ns(conn)) {
            wp_h2_conn_close(conn);
            return;
        }
    } else if (conn->pinged) {
        if (now_ns >= conn->pinged_ns + config->keepalive_timeout_ns) {
            wp_h2_conn_close(conn);
            return;
        }
    } else if (now_ns >= conn->read_ns + config->keepalive_ns &&
               conn->session != NULL) {
        conn->pinged = true;
        conn->pinged_ns = now_ns;
        wp_h2_session_ping(conn);
    }
    if (!conn->served && now_ns >= conn->begun_ns + config->silent_ns) {
        if (conn->state == WP_H2_OPEN) {
            wp_h2_conn_leave(conn);
            conn->begun_ns = now_ns; /* The goodbye's time. */
        } else {
            wp_h2_conn_close(conn);
        }
    } else if (conn->aged && now_ns >= conn->goodbye_ns + AGE_GRACE_NS) {
        wp_h2_conn_close(conn);
    } else if (!conn->aged && config->connection_age_max_ns > 0 &&
               now_ns >= conn->begun_ns + config->connection_age_max_ns) {
        conn->aged = true;
        conn->goodbye_ns = now_ns;
        wp_h2_conn_leave(conn);
    }
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_h2_conn *conn = ctx;
    int64_t now_ns = now_of(conn);

    (void)fd;
    (void)what;
    if (now_ns >= due_ns(conn)) {
        on_due(conn, now_ns);
    }
    if (conn->state != WP_H2_DEAD) {
        arm_timer(conn);
    }
    wp_h2_worker_settle(conn->worker);
}

/* --- bytes --- */

static ssize_t
receive(struct wp_h2_conn *conn, uint8_t *buf, size_t cap)
{
    ssize_t n;

    if (conn->tls != NULL) {
        return conn->server->config.tls->receive(conn->tls, buf, cap);
    }
    n = recv(conn->fd, buf, cap, 0);
    if (n > 0) {
        return n;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? WP_H2_AGAIN
                                                        : WP_H2_GONE;
}

static ssize_t
transmit(struct wp_h2_conn *conn, const uint8_t *buf, size_t len)
{
    ssize_t n;

    if (conn->tls != NULL) {
        return conn->server->config.tls->transmit(conn->tls, buf, len);
    }
    n = send(conn->fd, buf, len, MSG_NOSIGNAL);
    if (n >= 0) {
        return n;
    }
    return errno == EAGAIN || errno == EINTR ? WP_H2_AGAIN : WP_H2_GONE;
}

static bool
has_more(const struct wp_h2_conn *conn)
{
    return conn->tls != NULL && conn->server->config.tls->has_more(conn->tls);
}

/* The socket takes no more now: the rest is kept, and nothing is read. */
static void
block(struct wp_h2_conn *conn, const uint8_t *rest, size_t len)
{
    conn->out = malloc(len);
    if (conn->out == NULL) {
        wp_h2_conn_close(conn);
        return;
    }
    memcpy(conn->out, rest, len);
    conn->out_len = len;
    conn->out_at = 0;
    conn->blocked = true;
    conn->stalled_ns = now_of(conn);
    (void)event_del(&conn->on_read);
    (void)event_add(&conn->on_write, NULL);
    arm_timer(conn);
}

/* False: not all of it, or the connection is gone. */
static bool
write_all(struct wp_h2_conn *conn, const uint8_t *buf, size_t len)
{
    while (len > 0) {
        ssize_t n = transmit(conn, buf, len);

        if (n == WP_H2_GONE) {
            wp_h2_conn_close(conn);
            return false;
        }
        if (n == WP_H2_AGAIN) {
            block(conn, buf, len);
            return false;
        }
        buf += n;
        len -= (size_t)n;
    }
    return true;
}

static bool
write_rest(struct wp_h2_conn *conn)
{
    while (conn->out_at < conn->out_len) {
        ssize_t n = transmit(conn, conn->out + conn->out_at,
                             conn->out_len - conn->out_at);

        if (n == WP_H2_GONE) {
            wp_h2_conn_close(conn);
            return false;
        }
        if (n == WP_H2_AGAIN) {
            return false;
        }
        conn->out_at += (size_t)n;
        conn->stalled_ns = now_of(conn);
    }
    free(conn->out);
    conn->out = NULL;
    conn->blocked = false;
    conn->read_ns = now_of(conn);
    (void)event_del(&conn->on_write);
    if (!conn->paused) {
        (void)event_add(&conn->on_read, NULL);
    }
    arm_timer(conn);
    return true;
}

/* All is written; nothing more is to be heard or said. */
static bool
is_over(const struct wp_h2_conn *conn)
{
    return conn->doomed ||
           (conn->state == WP_H2_SAYING_GOODBYE &&
            wp_list_empty(&conn->streams)) ||
           (conn->session != NULL &&
            nghttp2_session_want_read(conn->session) == 0 &&
            nghttp2_session_want_write(conn->session) == 0);
}

void
wp_h2_conn_write(struct wp_h2_conn *conn)
{
    uint8_t *out = conn->worker->out;

    if (conn->blocked || conn->state >= WP_H2_LINGERING) {
        return;
    }
    for (int i = 0; i < WRITES_PER_TURN; i++) {
        size_t len = wp_h2_session_produce(conn, out, WP_H2_WRITE_SIZE);

        if (len > 0 && conn->fd >= 0 && !write_all(conn, out, len)) {
            return;
        }
        if (conn->doomed) {
            break;
        }
        if (len < WP_H2_WRITE_SIZE) {
            break;
        }
        if (i + 1 == WRITES_PER_TURN) { /* Others first. */
            (void)event_add(&conn->on_write, NULL);
            return;
        }
    }
    if (is_over(conn)) {
        if (conn->fd >= 0) {
            linger(conn);
        } else {
            wp_h2_conn_close(conn);
        }
    }
}

/* Judged, and its allowance looked at: who has none is read later. */
static void
take_in(struct wp_h2_conn *conn, const uint8_t *bytes, size_t len)
{
    int64_t now_ns = now_of(conn);
    int64_t debt_ns;

    conn->read_ns = now_ns;
    if (!wp_h2_session_receive(conn, bytes, len)) {
        return; /* What is doomed ends when it is written. */
    }
    debt_ns = wp_h2_session_debt_ns(conn, now_ns);
    if (WP_UNLIKELY(debt_ns > 0) && conn->fd >= 0) {
        conn->paused = true;
        WP_H2_COUNT(&conn->worker->slowed, 1);
        (void)event_del(&conn->on_read);
        set_timer(&conn->on_resume, debt_ns);
    }
}

/* One reading, as far as there is something. */
static void
read_once(struct wp_h2_conn *conn)
{
    struct wp_h2_worker *worker = conn->worker;
    ssize_t n = receive(conn, worker->in, sizeof(worker->in));

    if (n == WP_H2_GONE) {
        wp_h2_conn_close(conn);
    } else if (n > 0 && conn->state == WP_H2_LINGERING) {
        conn->lingered += (size_t)n;
        if (conn->lingered > LINGER_BYTES_MAX) {
            wp_h2_conn_close(conn);
        }
    } else if (n > 0) {
        take_in(conn, worker->in, (size_t)n);
        if (has_more(conn) && !conn->paused) {
            event_active(&conn->on_read, EV_READ, 0);
        }
    }
}

static void
on_read(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_h2_conn *conn = ctx;
    struct wp_h2_worker *worker = conn->worker;

    (void)fd;
    (void)what;
    read_once(conn);
    wp_h2_worker_settle(worker);
}

static void
on_write(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_h2_conn *conn = ctx;
    struct wp_h2_worker *worker = conn->worker;

    (void)fd;
    (void)what;
    if (!conn->blocked) {
        (void)event_del(&conn->on_write);
        wp_h2_conn_touch(conn);
    } else if (write_rest(conn)) {
        /* Whoever has always something to be written must be heard as well:
         * it may have had enough. */
        if (!conn->paused) {
            read_once(conn);
        }
        wp_h2_conn_touch(conn);
    }
    wp_h2_worker_settle(worker);
}

static void
on_resume(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_h2_conn *conn = ctx;

    (void)fd;
    (void)what;
    conn->paused = false;
    conn->read_ns = now_of(conn);
    if (!conn->blocked) {
        (void)event_add(&conn->on_read, NULL);
        if (has_more(conn)) {
            event_active(&conn->on_read, EV_READ, 0);
        }
    }
}

void
wp_h2_conn_begin(struct wp_h2_conn *conn)
{
    struct wp_h2_worker *worker = conn->worker;

    wp_list_push_back(&worker->conns, &conn->node);
    if (conn->fd < 0) {
        return;
    }
    (void)event_assign(&conn->on_read, worker->base, conn->fd,
                       EV_READ | EV_PERSIST, on_read, conn);
    (void)event_assign(&conn->on_write, worker->base, conn->fd,
                       EV_WRITE | EV_PERSIST, on_write, conn);
    (void)evtimer_assign(&conn->on_timer, worker->base, on_timer, conn);
    (void)evtimer_assign(&conn->on_resume, worker->base, on_resume, conn);
    (void)event_add(&conn->on_read, NULL);
    arm_timer(conn);
    if (conn->tls != NULL) { /* It may hold bytes that came along. */
        event_active(&conn->on_read, EV_READ, 0);
    }
}
