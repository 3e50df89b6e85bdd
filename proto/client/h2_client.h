/* proto/client/h2_client.h - a gRPC client that is lighter than any server it
 * calls: libwarmpool's, and that of the load generators.
 *
 * nghttp2 in one thread, several connections, and nothing on the way of a call
 * that allocates of ours. One write carries all the requests started since the
 * last turn. A server's figure is only worth something while this client is not
 * what limits it: compare the CPU times of both.
 *
 * A call has one request and one reply; or, with `received`, it is a stream in
 * both directions.
 *
 * Errors of single calls are counted by the caller from their status. A lost
 * connection ends the run, and wp_h2_turn says why; but with on_lost it is
 * closed, its calls are the caller's again, and wp_h2_reopen tries to have
 * another in its place. One thread. */
#ifndef WP_PROTO_CLIENT_H2_CLIENT_H
#define WP_PROTO_CLIENT_H2_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"

enum {
    WP_H2_CONNECTIONS_MAX = 64,
    WP_H2_METHODS_MAX = 8,
    WP_H2_MESSAGE_MAX = 1024,  /* What a call of this program needs. */
    WP_H2_REQUEST_MAX = 65535, /* Of any request, unframed. */
    WP_H2_FRAME_HEAD = 5,      /* gRPC's flag and length before a message. */
    WP_H2_NO_STATUS = -1,      /* The stream ended without grpc-status. */
};

struct wp_h2; /* Opaque. */
struct wp_h2_tls;

/* One call; owned by the caller and kept until done. */
struct wp_h2_call {
    /* Request. The message starts at request + WP_H2_FRAME_HEAD. Both buffers
     * are the caller's. */
    unsigned method;    /* From wp_h2_method. */
    size_t request_len; /* Of the message; at most WP_H2_REQUEST_MAX. */
    uint8_t *request;
    void (*done)(struct wp_h2_call *call);
    void *ctx;
    /* Makes it a stream: told of the bytes that come, framed messages and parts
     * of them; reply is not used. False: they make no sense, and the connection
     * ends. NULL: a unary call. */
    bool (*received)(struct wp_h2_call *call, const uint8_t *bytes, size_t len);
    /* NULL, or room for the grpc-message, terminated; or for "HTTP status
     * CODE", where that is not 200. */
    char *details;
    size_t details_cap;

    /* Answer. The message starts at reply + WP_H2_FRAME_HEAD. */
    int status;       /* The grpc-status, or WP_H2_NO_STATUS. */
    size_t reply_len; /* Of the message; 0 when there is none. */
    uint8_t *reply;
    size_t reply_cap; /* Of the buffer, its head included. */
    unsigned conn;    /* Which connection it is on. */

    size_t sent; /* Private, as is what follows. */
    bool ends;   /* A stream: no more requests come. */
    size_t n_received;
    int32_t stream_id;
};

struct wp_h2_config {
    const char *target; /* "unix:/path" or "host:port". */
    unsigned connections;
    const struct wp_h2_tls *tls; /* NULL: none. Borrowed. */
    /* NULL or empty: none; "Bearer ...". Borrowed; it may change while there is
     * no connection, and is looked at when one is made. */
    const char *authorization;
    const char *authority; /* NULL: "localhost". Borrowed. */
    const char *timeout;   /* NULL: none; as grpc-timeout. Borrowed. */
    /* Connection conn is gone, for err. NULL: that ends the run. */
    void (*on_lost)(void *ctx, unsigned conn, const struct wp_err *err);
    void *ctx;
};

/* The same as wp_h2_connect, with all there is to say. */
struct wp_h2 *wp_h2_open(const struct wp_h2_config *config, struct wp_err *err);
/* Another connection in the place of a lost one; it may take a second. */
WP_MUST_CHECK bool wp_h2_reopen(struct wp_h2 *h2, unsigned conn,
                                struct wp_err *err);
/* Closes a connection without a word; its calls are the caller's again. */
void wp_h2_shut(struct wp_h2 *h2, unsigned conn);
/* For connections that are made from now on. None is there. */
void wp_h2_set_tls(struct wp_h2 *h2, const struct wp_h2_tls *tls);
/* The process at the other end of a Unix socket; 0: not known. */
pid_t wp_h2_peer(const struct wp_h2 *h2);

/* Connects. target is "unix:/path" or "host:port". NULL and err when it
 * cannot. */
struct wp_h2 *wp_h2_connect(const char *target, unsigned connections,
                            struct wp_err *err);
void wp_h2_close(struct wp_h2 *h2); /* NULL is fine. */

/* Registers "/package.Service/Method" (kept by the caller) for call->method. */
unsigned wp_h2_method(struct wp_h2 *h2, const char *path);

/* The same for calls that are to end within that; "30S". NULL: whenever. */
unsigned wp_h2_method_within(struct wp_h2 *h2, const char *path,
                             const char *timeout);

/* Queues a call on the next connection in turn; the next turn sends it. False
 * when no connection is left that takes one: nothing has happened. */
WP_MUST_CHECK bool wp_h2_start(struct wp_h2 *h2, struct wp_h2_call *call);

/* Would a connection take a call now? One that the server has said goodbye to
 * ends it without an answer, and one that has had 2^30 calls does not start it;
 * wp_h2_reopen makes another in its place. */
WP_MUST_CHECK bool wp_h2_takes_calls(const struct wp_h2 *h2);

/* A stream that was started and is not done: may its request be used anew? */
WP_MUST_CHECK bool wp_h2_may_send(const struct wp_h2_call *call);
/* Then: sends what is in it by now, request_len bytes. */
void wp_h2_send(struct wp_h2 *h2, struct wp_h2_call *call);
/* Sends no more requests. */
void wp_h2_end(struct wp_h2 *h2, struct wp_h2_call *call);

/* Gives up a call that was started and is not done: the server is told, and the
 * call is the caller's again at once; done is not called. */
void wp_h2_cancel(struct wp_h2 *h2, struct wp_h2_call *call);

/* How many bytes have ever come from that connection's server: what is the same
 * later shows that nothing has come since. */
uint64_t wp_h2_received(const struct wp_h2 *h2, unsigned conn);

/* Readable when a turn has something to do; for poll. */
int wp_h2_fd(const struct wp_h2 *h2);

/* Is there something queued that a turn would send? */
WP_MUST_CHECK bool wp_h2_has_output(const struct wp_h2 *h2);

/* Sends what is queued, waits at most timeout_ns for answers (0: only looks;
 * WP_TIME_NEVER: until one comes), and calls done for each. Not WP_OK: a
 * connection was lost, or the server breaks the protocol. */
WP_MUST_CHECK enum wp_status wp_h2_turn(struct wp_h2 *h2, int64_t timeout_ns,
                                        struct wp_err *err);

#endif
