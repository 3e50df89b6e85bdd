/* proto/h2/h2.h - an HTTP/2 server: connections, streams, flow control and
 * what they may cost. What a stream means is its handler's.
 *
 * Threads: the door accepts connections, finds out who is behind them and does
 * TLS handshakes. Each of config.threads serving threads owns the connections
 * it is given, with their streams. The functions of a server are for one
 * controlling thread (main) unless they say otherwise; those of a stream are
 * for the thread that serves it. With config.base there is no thread but the
 * controlling one: all of it happens in that loop.
 *
 * What a peer may cost is bounded:
 *  - connections in all and of one peer, counted before anything is read;
 *  - streams that the handler counts as calls, in all and of one peer;
 *  - a handshake, and the way to the first admitted stream, each by silent_ns;
 *  - frames that bring no work (resets, pings, settings, window updates, empty
 *    data), by an allowance that grows with time and with answers that were
 *    sent: beyond it the connection is read later, never cut off for it;
 *  - header blocks, by bytes as sent, bytes as decoded, and frames;
 *  - output that nobody takes: nothing more is read of that connection, and it
 *    is closed after a while without progress;
 *  - memory of a connection's session.
 * Frames that break the protocol end the connection with GOAWAY. */
#ifndef WP_PROTO_H2_H2_H
#define WP_PROTO_H2_H2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/sockets/peer_limits.h"
#include "pool/base/channel.h"
#include "pool/base/list.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_H2_LISTEN_MAX = 16,
    WP_H2_THREADS_MAX = 64,
    WP_H2_FIELDS_MAX = 8,    /* Of one header block that is sent. */
    WP_H2_REQUEST_SIZE = 64, /* What a handler keeps of a header block. */
};

struct event_base;
struct wp_h2_server;
struct wp_h2_worker;  /* A serving thread. */
struct wp_h2_tls_ops; /* Opaque. */
struct wp_h2_conn;

/* Of a header block that is sent; copied. */
struct wp_h2_field {
    struct wp_str name; /* Lower case. */
    struct wp_str value;
};

/* The head of a handler's object for one stream. */
struct wp_h2_stream {
    struct wp_h2_worker *worker;
    struct wp_h2_conn *conn; /* NULL: the stream has ended. */
    struct wp_list node;     /* Of the connection's streams. */
    int32_t id;
    bool answered; /* The end of the answer has been sent. */

    /* The rest is the server's. */
    struct wp_h2_stream *next_free;
    struct wp_h2_stream *next_sent;
    struct wp_peer_ticket ticket; /* What it is counted with. */
    const uint8_t *piece;
    size_t piece_len;
    size_t piece_at;
    bool counted;  /* As a call. */
    bool headed;   /* The answer's head has been submitted. */
    bool ending;   /* Nothing follows the piece. */
    bool sent_due; /* In the list of streams whose piece is gone. */
    bool deferred; /* Nothing was there to send. */
};

/* Where a connection comes from, before it is admitted. */
struct wp_h2_origin {
    int fd;
    bool is_unix;
    const void *tls; /* An SSL, for wp_tls_names; NULL: no TLS. */
};

/* What uses the server. All but admit is called on the serving thread. */
struct wp_h2_handler {
    void *ctx;
    size_t peer_size;   /* Of what admit fills for each connection. */
    size_t stream_size; /* Of an object that begins with struct wp_h2_stream. */
    /* Once for each object, before its first stream; on its thread, in the
     * order in which they lie. */
    void (*init)(void *ctx, struct wp_h2_stream *stream);
    /* Who is there, on the door's thread; peer is zeroed. False: hang up. */
    bool (*admit)(void *ctx, const struct wp_h2_origin *origin, void *peer);
    /* A header of a request whose scratch memory is zeroed before its first. */
    void (*header)(void *ctx, void *request, struct wp_str name,
                   struct wp_str value);
    /* All are there. The handler opens the stream or answers it at once.
     * too_long: of headers beyond the limit on metadata nothing was told. */
    void (*request)(void *ctx, struct wp_h2_conn *conn, int32_t id,
                    const void *request, bool too_long);
    /* Bytes of an opened stream, borrowed. */
    void (*data)(struct wp_h2_stream *stream, const uint8_t *bytes, size_t len);
    /* The client will send no more. */
    void (*ended)(struct wp_h2_stream *stream);
    /* Nothing of the stream is left at the server; the object is the handler's
     * until wp_h2_stream_free. May be called inside wp_h2_stream_end. */
    void (*closed)(struct wp_h2_stream *stream);
    /* The piece that was given to wp_h2_stream_send is not needed any more. */
    void (*sent)(struct wp_h2_stream *stream);
    /* The answer's last header block; returns how many fields. The values live
     * until the next call on this thread. */
    size_t (*trailers)(struct wp_h2_stream *stream,
                       struct wp_h2_field fields[WP_H2_FIELDS_MAX]);
    /* The thread has read something and is about to write; last: it has
     * written. */
    void (*turn)(void *ctx, struct wp_h2_worker *worker, bool last);
    /* A message sent with wp_h2_worker_send. */
    void (*message)(void *ctx, struct wp_linked_message *message);
    /* See struct wp_rpc_config: work that is gathered. Both NULL, or none. */
    bool (*wants_flush)(void *ctx);
    void (*flush)(void *ctx);
    void *flush_ctx;
    /* The head of every answer. */
    struct wp_h2_field head[WP_H2_FIELDS_MAX];
    size_t n_head;
};

/* Borrowed until the server is destroyed. */
struct wp_h2_config {
    const char *const *listen; /* See struct wp_rpc_config. */
    size_t n_listen;
    uint32_t unix_mode;
    /* &wp_h2_tls_by_openssl; NULL: clear text only, and no library of TLS in
     * the program. */
    const struct wp_h2_tls_ops *tls;
    const char *tls_cert; /* PEM files, read again when they change. */
    const char *tls_key;
    const char *tls_client_ca;
    /* Clear text on other addresses than loopback's: for who lets in by other
     * means. */
    bool clear_text_anywhere;
    /* NULL, or a loop that does the work of all threads: then threads is 1, and
     * the handler gathers nothing (no flush). Borrowed until destroy. */
    struct event_base *base;
    uint32_t threads;            /* At least 1. */
    uint32_t streams_per_thread; /* Objects. */
    /* Streams that count as calls, all threads; a share is kept for root and
     * the daemon's own user. */
    uint32_t calls_max;
    uint32_t peer_calls_max; /* Of one peer, as for connections. */
    uint32_t connections_max;
    uint32_t peer_connections_max; /* See struct wp_rpc_config. */
    uint32_t streams_per_connection_max;
    uint32_t metadata_bytes_max; /* Names and values of one header block. */
    int64_t keepalive_ns;
    int64_t keepalive_timeout_ns;
    int64_t connection_age_max_ns; /* 0: no bound. */
    int64_t silent_ns; /* For the handshake, and until the first stream. */
    /* How long a thread without work looks for more before it sleeps. It does
     * so only where processors are left beside the threads, and the seldomer
     * the more often that finds nothing or others want its processor. Not with
     * base. */
    int64_t spin_ns;
};

struct wp_h2_stats {
    uint64_t accepted;
    uint64_t refused; /* By admit, a bound, or a failed handshake. */
    uint64_t tls_reloads;
    uint64_t slowed; /* How often reading a connection was put off. */
    uint64_t cut;    /* Connections ended for what they sent. */
};

/* Binds every listener and allocates what streams need. NULL with err set. The
 * config and the handler are copied, shallowly. */
WP_MUST_CHECK struct wp_h2_server *
wp_h2_server_create(const struct wp_h2_config *config,
                    const struct wp_h2_handler *handler, struct wp_err *err);
WP_MUST_CHECK enum wp_status wp_h2_server_start(struct wp_h2_server *server,
                                                struct wp_err *err);
/* What listener i is bound to; owned by the server. */
const char *wp_h2_server_address(const struct wp_h2_server *server, size_t i);
/* False while connections cannot be accepted for want of descriptors. Any
 * thread. */
bool wp_h2_server_accepts(const struct wp_h2_server *server);
/* No connection is left. Any thread. */
bool wp_h2_server_is_empty(const struct wp_h2_server *server);
/* Stops accepting and says goodbye: each connection ends once its streams
 * have. */
void wp_h2_server_leave(struct wp_h2_server *server);
/* Ends all connections; their streams are closed. After leave. */
void wp_h2_server_hang_up(struct wp_h2_server *server);
/* Ends the threads and removes Unix sockets. All streams have been freed. */
void wp_h2_server_stop(struct wp_h2_server *server);
/* After stop, or instead of start. NULL is ignored. */
void wp_h2_server_destroy(struct wp_h2_server *server);
/* Any thread. */
void wp_h2_server_stats(const struct wp_h2_server *server,
                        struct wp_h2_stats *out);
/* The worker whose thread this is, or NULL. */
struct wp_h2_worker *wp_h2_worker_here(void);
/* Has handler.message called on the worker's thread. Any thread. */
void wp_h2_worker_send(struct wp_h2_worker *worker,
                       struct wp_linked_message *message);
/* Its number, below config.threads. */
uint32_t wp_h2_worker_number(const struct wp_h2_worker *worker);
struct event_base *wp_h2_worker_base(struct wp_h2_worker *worker);
/* Writes what streams have to send. On the worker's thread, behind whatever
 * else than the server's own events made them. */
void wp_h2_worker_settle(struct wp_h2_worker *worker);

/* What admit filled. */
void *wp_h2_conn_peer(struct wp_h2_conn *conn);
struct wp_h2_worker *wp_h2_conn_worker(struct wp_h2_conn *conn);
/* Inside handler.request: the stream's object; NULL when all are in use. */
WP_MUST_CHECK struct wp_h2_stream *wp_h2_stream_open(struct wp_h2_conn *conn,
                                                     int32_t id);
/* Inside handler.request: the whole answer of a stream that is not opened. It
 * takes from the connection's allowance. */
void wp_h2_conn_refuse(struct wp_h2_conn *conn, int32_t id,
                       const struct wp_h2_field *fields, size_t n_fields);
/* Counts the stream among the calls, until wp_h2_stream_free. The stream has
 * not ended and is not counted yet. */
WP_MUST_CHECK enum wp_peer_verdict
wp_h2_stream_count(struct wp_h2_stream *stream);
/* Ends a stream of which nothing was done: REFUSED_STREAM, on which a client
 * may try again. handler.closed is called inside, whether or not the client
 * takes output. It takes from the connection's allowance. */
void wp_h2_stream_turn_away(struct wp_h2_stream *stream);
/* Gives the object back; its stream has ended. */
void wp_h2_stream_free(struct wp_h2_stream *stream);
/* Sends bytes, which stay until handler.sent. No other piece is on its way. */
void wp_h2_stream_send(struct wp_h2_stream *stream, const uint8_t *bytes,
                       size_t len);
/* Ends the answer behind the piece that is on its way, if any. */
void wp_h2_stream_end(struct wp_h2_stream *stream);
/* Ends the stream at once with RST_STREAM(CANCEL). */
void wp_h2_stream_reset(struct wp_h2_stream *stream);

/* TLS 1.2 and 1.3, by proto/tls. Who names it links wp_h2_tls. */
extern const struct wp_h2_tls_ops wp_h2_tls_by_openssl;

#endif
