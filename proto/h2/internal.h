/* proto/h2/internal.h - what the files of the HTTP/2 server share. */
#ifndef WP_PROTO_H2_INTERNAL_H
#define WP_PROTO_H2_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <event2/event.h>
#include <event2/event_struct.h>
#include <nghttp2/nghttp2.h>
#include <sys/types.h>

#include "proto/sockets/peer_limits.h"
#include "proto/h2/h2.h"
#include "proto/h2/memory.h"
#include "proto/sockets/listen.h"
#include "pool/base/clock.h"

enum {
    /* Read and judged of one connection before others get their turn. */
    WP_H2_READ_SIZE = 16 << 10,
    /* Of a connection that takes no output nothing more is framed than this,
     * and nothing is read. */
    WP_H2_WRITE_SIZE = 64 << 10,
};

/* Single-writer increment: no locked instruction. */
#define WP_H2_COUNT(counter, by)                                               \
    atomic_store_explicit(                                                     \
        (counter),                                                             \
        atomic_load_explicit((counter), memory_order_relaxed) + (by),          \
        memory_order_relaxed)

enum wp_h2_conn_state {
    WP_H2_OPEN,
    WP_H2_SAYING_GOODBYE, /* GOAWAY is out; streams may go on. */
    WP_H2_LINGERING, /* Our side is shut; until the peer's is, or a while. */
    WP_H2_DEAD,      /* In the list of those that are freed. */
};

struct wp_h2_conn {
    struct wp_linked_message handed; /* From the door to the thread. */
    struct wp_h2_server *server;
    struct wp_h2_worker *worker;
    struct wp_list node; /* Of the worker's connections. */
    struct wp_h2_conn *next_dirty;
    struct wp_h2_conn *next_dead;
    int fd; /* -1: bytes are fed by a test. */
    struct wp_peer_ticket ticket;
    bool counted; /* It holds the ticket. */
    bool is_unix;
    void *tls;                /* NULL: clear text. */
    nghttp2_session *session; /* NULL until the peer has sent something. */
    enum wp_h2_conn_state state;
    bool dirty;   /* May have something to send. */
    bool blocked; /* The socket takes nothing more: no reading either. */
    bool paused;  /* Its allowance is used up. */
    bool served;  /* A stream was opened. */
    bool pinged;  /* A ping of ours is out. */
    bool aged;
    struct event on_read;
    struct event on_write;
    struct event on_timer;
    struct event on_resume;

    struct wp_list streams;
    int64_t begun_ns;
    int64_t read_ns;
    int64_t pinged_ns;
    int64_t stalled_ns; /* Since when no output was taken. */
    int64_t goodbye_ns; /* When a goodbye or lingering began. */
    size_t lingered;    /* Bytes thrown away while lingering. */
    int64_t tokens_x;   /* The allowance, in nanoseconds of its growth. */
    int64_t tokens_ns;  /* When it was last looked at. */
    int64_t unknown;    /* Bytes received that are in no frame we know; below 0:
                        of a frame that is not whole. */
    uint32_t doom;      /* GOAWAY's code once the session is unusable. */
    bool doomed;

    /* The header block that is being read. */
    size_t block_sent;    /* Bytes of its frames. */
    size_t block_decoded; /* Names and values, and 32 each. */
    bool block_is_request;
    uint64_t request[WP_H2_REQUEST_SIZE / 8];

    uint8_t *out; /* What the socket did not take; owned. */
    size_t out_len;
    size_t out_at;
    struct wp_h2_holding memory; /* The session's. */
    uint64_t peer[];             /* handler.peer_size bytes. */
};

struct wp_h2_worker {
    struct wp_h2_server *server;
    uint32_t number;
    struct event_base *base;
    struct event on_wake;
    int wake_fd;
    struct wp_linked_channel handed;   /* Connections. */
    struct wp_linked_channel messages; /* The handler's. */
    _Atomic(uint32_t) orders;          /* WP_H2_ORDER_ bits. */
    pthread_t thread;
    bool threaded;
    bool ending;
    bool leaving;
    bool settling;
    uint32_t events; /* Since the last flush. */
    int64_t spin_ns; /* 0: never. */
    uint32_t spins_skipped;
    uint32_t spins_to_skip;
    long preempted;    /* How often others have taken its processor. */
    int64_t looked_ns; /* When that was last looked at. */

    struct wp_list conns;
    struct wp_h2_conn *dirty;
    struct wp_h2_conn *dead;
    struct wp_h2_stream *sent;
    char *streams; /* n_streams objects, mapped. */
    size_t n_streams;
    size_t n_begun; /* Of them, from the first on: have had a stream. */
    size_t stream_size;
    struct wp_h2_stream *free_streams;
    struct wp_h2_memory memory;
    _Atomic(uint32_t) n_conns; /* Handed out and not freed. */
    _Atomic(uint64_t) slowed;
    _Atomic(uint64_t) cut;
    uint8_t in[WP_H2_READ_SIZE];
    uint8_t out[WP_H2_WRITE_SIZE + WP_H2_READ_SIZE + 1024];
};

enum {
    WP_H2_ORDER_LEAVE = 1,
    WP_H2_ORDER_HANG_UP = 2,
    WP_H2_ORDER_END = 4,
};

struct wp_h2_door;

struct wp_h2_server {
    struct wp_h2_config config;
    struct wp_h2_handler handler;
    const struct wp_clock *clock;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *options;
    struct wp_h2_worker *workers;
    uint32_t n_workers;
    struct wp_tls *tls; /* NULL: clear text only. */
    struct wp_h2_door *door;
    struct wp_peer_limits *limits;
    char address[WP_H2_LISTEN_MAX][128];
    _Atomic(uint32_t) n_conns; /* Accepted and not closed. */
    _Atomic(bool) starved;     /* Of descriptors. */
};

/* --- session.c, the worker's thread --- */

WP_MUST_CHECK enum wp_status wp_h2_session_set_up(struct wp_h2_server *server,
                                                  struct wp_err *err);
void wp_h2_session_tear_down(struct wp_h2_server *server);
/* Judges bytes of the peer. False: the connection is doomed. */
WP_MUST_CHECK bool wp_h2_session_receive(struct wp_h2_conn *conn,
                                         const uint8_t *bytes, size_t len);
/* Frames up to about cap bytes into buf, which has room for one frame more;
 * doomed: the GOAWAY behind them. */
size_t wp_h2_session_produce(struct wp_h2_conn *conn, uint8_t *buf, size_t cap);
/* GOAWAY: no new streams. */
void wp_h2_session_goodbye(struct wp_h2_conn *conn);
void wp_h2_session_ping(struct wp_h2_conn *conn);
/* Takes one from the allowance. */
void wp_h2_session_charge(struct wp_h2_conn *conn);
/* How long until the allowance is positive; 0: it is. */
int64_t wp_h2_session_debt_ns(struct wp_h2_conn *conn, int64_t now_ns);
/* Its user data and its connection are gone; tells the handler. */
void wp_h2_session_forget_stream(struct wp_h2_conn *conn,
                                 struct wp_h2_stream *stream);
/* Ends all streams, then the session. */
void wp_h2_session_end(struct wp_h2_conn *conn);
/* Something is to be sent: the worker writes it when it settles. */
void wp_h2_conn_touch(struct wp_h2_conn *conn);

/* --- stream.c, the worker's thread --- */

/* Tells the handler of pieces that are gone. */
bool wp_h2_stream_tell_sent(struct wp_h2_worker *worker);
WP_MUST_CHECK enum wp_status
wp_h2_stream_pool_create(struct wp_h2_worker *worker, size_t n,
                         struct wp_err *err);
void wp_h2_stream_pool_destroy(struct wp_h2_worker *worker);

/* --- conn.c --- */

/* On the door's thread; NULL when memory lacks. Takes fd and ssl then. */
struct wp_h2_conn *wp_h2_conn_create(struct wp_h2_server *server, int fd);
/* Begins to serve, on the worker's thread. */
void wp_h2_conn_begin(struct wp_h2_conn *conn);
/* Writes what there is. */
void wp_h2_conn_write(struct wp_h2_conn *conn);
/* Says goodbye; closes when no stream is left. */
void wp_h2_conn_leave(struct wp_h2_conn *conn);
/* Closes now; freed when the worker settles. */
void wp_h2_conn_close(struct wp_h2_conn *conn);
/* Closes the socket and frees. The worker's thread, or the door's for one that
 * was never handed out. */
void wp_h2_conn_free(struct wp_h2_conn *conn);

/* --- worker.c --- */

WP_MUST_CHECK enum wp_status wp_h2_worker_create(struct wp_h2_server *server,
                                                 uint32_t number,
                                                 struct wp_err *err);
WP_MUST_CHECK enum wp_status wp_h2_worker_start(struct wp_h2_worker *worker,
                                                struct wp_err *err);
void wp_h2_worker_order(struct wp_h2_worker *worker, uint32_t order);
void wp_h2_worker_join(struct wp_h2_worker *worker);
void wp_h2_worker_destroy(struct wp_h2_worker *worker);
/* Any thread: the connection is the worker's from here on. */
void wp_h2_worker_hand(struct wp_h2_worker *worker, struct wp_h2_conn *conn);

/* --- door.c --- */

WP_MUST_CHECK enum wp_status wp_h2_door_create(struct wp_h2_server *server,
                                               struct wp_err *err);
WP_MUST_CHECK enum wp_status wp_h2_door_start(struct wp_h2_door *door,
                                              struct wp_err *err);
void wp_h2_door_stop(struct wp_h2_door *door);
void wp_h2_door_destroy(struct wp_h2_door *door);
void wp_h2_door_stats(const struct wp_h2_door *door, struct wp_h2_stats *out);

/* --- tls.c, which nothing else here refers to --- */

/* Instead of a count of bytes. */
enum {
    WP_H2_AGAIN = -1,
    WP_H2_GONE = -2,
};

enum wp_h2_handshake {
    WP_H2_SHAKEN, /* And both will speak HTTP/2. */
    WP_H2_SHAKE_READS,
    WP_H2_SHAKE_WRITES,
    WP_H2_SHAKE_FAILED,
};

struct wp_h2_tls_ops {
    /* NULL with err set. */
    struct wp_tls *(*create)(const struct wp_h2_config *config,
                             struct wp_err *err);
    void (*destroy)(struct wp_tls *tls);
    uint64_t (*reloads)(const struct wp_tls *tls);
    /* A new connection's, with the newest usable certificates; NULL when memory
     * lacks. The door's thread. */
    void *(*open)(struct wp_tls *tls, int fd);
    enum wp_h2_handshake (*shake)(void *tls);
    ssize_t (*receive)(void *tls, uint8_t *buf, size_t cap);
    ssize_t (*transmit)(void *tls, const uint8_t *buf, size_t len);
    bool (*has_more)(void *tls); /* Has read more than it has handed out. */
    void (*shut)(void *tls);
    void (*free)(void *tls);
};

#endif
