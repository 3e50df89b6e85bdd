/* allocator/grpc/server.h - the gRPC transport, on proto/h2.
 *
 * It carries what allocator/services/service.h describes: it finds the method
 * of a call, says who calls and until when, and sends what the service answers.
 * Beside the services it is given, it answers grpc.health.v1 and, when asked
 * for, reflection; any other method is UNIMPLEMENTED at once.
 *
 * Threads: each of config.threads threads owns connections and all calls that
 * arrive on them; methods start there. One more thread accepts connections,
 * does TLS handshakes and finds out who is there. The functions below are for
 * one controlling thread (main), except where they say "any thread".
 *
 * Before wp_rpc_server_start, the process must have blocked the signals it
 * waits for and ignored SIGPIPE. */
#ifndef WP_ALLOCATOR_GRPC_SERVER_H
#define WP_ALLOCATOR_GRPC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/services/service.h"
#include "pool/base/clock.h"
#include "pool/base/status.h"
#include "pool/trace/tracer.h"

struct wp_rpc_server;

/* Borrowed, with all it points to, until wp_rpc_server_stop returns. */
struct wp_rpc_config {
    /* "unix:/path", "127.0.0.1:7443", "[::1]:0" (0: any free port) or, with
     * TLS, any other address. 1..16 of them. */
    const char *const *listen;
    size_t n_listen;
    uint32_t unix_mode; /* Of the socket: 0600 to 0666. */

    /* A caller that no principal names, where there are some, is refused with
     * PERMISSION_DENIED. */
    struct wp_access access;

    /* Of callers over TCP that show no client certificate. Who sends
     * "authorization: Bearer ACCESS_TOKEN" with a call is an admin. Others are
     * anonymous: served when anonymous says so or a principal is named
     * "anonymous", else refused with UNAUTHENTICATED. */
    const char *access_token; /* NULL or "": there is none. */
    bool anonymous;

    /* PEM files; NULL: no TLS. They are read again when they change; while the
     * new content is not usable the old one stays. With tls_client_ca a client
     * must show a certificate signed by it. */
    const char *tls_cert;
    const char *tls_key;
    const char *tls_client_ca;

    /* For work that a thread gathers over the calls it starts, and that is sent
     * best at once for all of them. While wants_flush says that the calling
     * thread has some, flush is called before that thread sleeps, and every
     * few dozen events of a thread that never does. Both NULL, or none. */
    bool (*wants_flush)(void *ctx);
    void (*flush)(void *ctx);
    void *flush_ctx;

    /* A serving thread has written the answers it had: for what is better done
     * after them. NULL: there is nothing. */
    void (*written)(void *ctx);
    void *written_ctx;

    /* Who takes spans of calls whose client asks for them by "traceparent".
     * NULL: nobody. */
    struct wp_tracer *tracer;

    bool reflection;
    /* How long a thread that has nothing to do looks for more before it sleeps;
     * see wp_h2_config. */
    int64_t spin_ns;
    uint32_t threads; /* 1..64; 0: one for two cores. */
    /* In progress, all threads; 16..65536. More: RESOURCE_EXHAUSTED. A request
     * counts once its message is whole. One peer (see peer_connections_max) has
     * at most three quarters, but root and the daemon's own user, for whom a
     * sixteenth is kept. */
    uint32_t calls_max;
    /* Of all listeners, counted before any handshake; 1..65536. More are
     * closed. A share is kept for root and the daemon's own user, and another
     * for Unix sockets. */
    uint32_t connections_max;
    /* Of one peer: an address, or the user of a Unix socket; 0: no bound. Root
     * and the daemon's own user have none. */
    uint32_t peer_connections_max;
    uint32_t
        streams_per_connection_max; /* More wait at the client; 1..10000. */
    uint32_t receive_bytes_max;     /* Of one request; 1024..4 MiB. */
    uint32_t metadata_bytes_max;    /* Of one call; 1024..64 KiB. */
    int64_t deadline_default_ns;    /* Of a unary call that names none. */
    int64_t keepalive_ns;           /* Between pings of an idle peer. */
    int64_t keepalive_timeout_ns;   /* For its answer. */
    int64_t connection_age_max_ns;  /* 0: no bound. */
    /* For a handshake, and until a connection's first call. */
    int64_t silent_ns;
};

struct wp_rpc_stats {
    uint64_t calls_started;   /* Handed to a method. */
    uint64_t calls_cancelled; /* Client gone or too late before the answer. */
    uint64_t calls_refused;   /* Over calls_max, or a peer's share. */
    uint64_t calls_unknown;   /* UNIMPLEMENTED. */
    uint64_t peers_accepted;  /* Connections. */
    uint64_t peers_refused;   /* By user or handshake, or over a bound. */
    uint64_t peers_slowed;    /* How often reading a connection was put off. */
    uint64_t peers_cut;       /* Connections ended for what they sent. */
    uint64_t tls_reloads;     /* Certificates replaced while running. */
    uint32_t calls_in_flight;
};

enum {
    WP_RPC_CODES = 17,
    WP_RPC_SERVED = 4, /* Values of enum wp_served; 0 is unused. */
    WP_RPC_DURATION_BOUNDS = 20,
    /* The last one has no bound. */
    WP_RPC_DURATION_BUCKETS = WP_RPC_DURATION_BOUNDS + 1,
};
/* Upper bounds in nanoseconds, from 10 us up. */
extern const int64_t wp_rpc_duration_bounds_ns[WP_RPC_DURATION_BOUNDS];

/* Unary calls of one method that ended with one code: from their head to their
 * answer being handed to HTTP/2, on the serving thread. Calls that are answered
 * in one turn of that thread are timed to the same moment. */
struct wp_rpc_duration {
    const char *method; /* "warmpool.v1.Allocator/Claim" */
    unsigned code;      /* gRPC's; CANCELLED when the client had gone. */
    uint64_t count;
    uint64_t sum_ns;
    uint64_t bucket[WP_RPC_DURATION_BUCKETS];
};

/* Everything but listen: 1 unix listener's mode 0660, 4096 calls, 4096
 * connections, 1024 streams each, 64 KiB requests, 16 KiB metadata, 10 s
 * default deadline, keepalive 30 s / 10 s, silent 5 s, threads 0, no spinning,
 * reflection on. */
void wp_rpc_config_init(struct wp_rpc_config *config);

/* Checks config, binds every listener (so that addresses are known) and
 * registers the services, which are borrowed until stop. NULL with err set when
 * a value is out of bounds, an address cannot be had or TLS files are bad. A
 * stale Unix socket is replaced only when nobody answers on it; its directory
 * is created with mode 0700 when missing. */
WP_MUST_CHECK struct wp_rpc_server *
wp_rpc_server_create(const struct wp_rpc_config *config,
                     const struct wp_service *const *services,
                     size_t n_services, struct wp_err *err);

/* Starts threads and serves. Health says SERVING from here on. On failure the
 * server can only be stopped. */
WP_MUST_CHECK enum wp_status wp_rpc_server_start(struct wp_rpc_server *server,
                                                 struct wp_err *err);

/* What listener i is bound to, in the form of config.listen with the real port;
 * owned by the server. */
const char *wp_rpc_server_address(const struct wp_rpc_server *server, size_t i);

/* False while connections cannot be accepted for want of descriptors; it ends
 * by itself. Any thread. */
bool wp_rpc_server_accepts(const struct wp_rpc_server *server);

/* What health answers for "" and every service. Any thread. */
void wp_rpc_server_set_serving(struct wp_rpc_server *server, bool serving);

/* Stops taking connections and calls (GOAWAY, health NOT_SERVING), waits up to
 * grace_ns for calls to end, then cancels the rest and waits for their methods
 * to finish them. Health watches end once they have been told; other streams
 * are cancelled only after the grace, so a service ends its own streams before
 * when it can. True when nothing had to be cancelled. Once, after start.
 *
 * A connection whose last answer is written is shut on this side and then read
 * for a moment, so that the client can take its answers. */
bool wp_rpc_server_drain(struct wp_rpc_server *server, int64_t grace_ns);

/* Ends threads and frees everything; drains without grace when that has not
 * been done. All methods have finished their calls when it returns. Removes the
 * Unix sockets it made. NULL is ignored. */
void wp_rpc_server_stop(struct wp_rpc_server *server);

/* Any thread. */
void wp_rpc_server_stats(const struct wp_rpc_server *server,
                         struct wp_rpc_stats *out);

/* The next one that has calls; *cursor is 0 at first. False at the end. There
 * are at most as many as methods and codes. Any thread. */
WP_MUST_CHECK bool wp_rpc_server_duration(const struct wp_rpc_server *server,
                                          uint32_t *cursor,
                                          struct wp_rpc_duration *out);

/* Claims that were granted so (served: an enum wp_served), over all methods
 * that grant one claim; method is NULL. Any thread. */
void wp_rpc_server_served(const struct wp_rpc_server *server, unsigned served,
                          struct wp_rpc_duration *out);

#endif
