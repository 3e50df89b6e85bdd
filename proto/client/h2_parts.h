/* proto/client/h2_parts.h - what the files of the client share.
 *
 *   h2_client.c   calls, connections, turns
 *   h2_session.c  what nghttp2 says of a connection's calls
 *   h2_connect.c  from a target to a connected socket */
#ifndef WP_PROTO_CLIENT_H2_PARTS_H
#define WP_PROTO_CLIENT_H2_PARTS_H

#include <nghttp2/nghttp2.h>

#include "proto/client/h2_client.h"
#include "proto/h2/memory.h"

enum {
    WP_H2_OUT_SIZE = 64 * 1024,
    WP_H2_IN_SIZE = 256 * 1024,
    WP_H2_HEADERS_MAX = 8,
};

struct wp_h2_conn {
    int fd;    /* -1: lost. */
    void *tls; /* Of wp_h2_tls_connect; NULL: none. */
    nghttp2_session *session;
    struct wp_h2_holding memory; /* The session's. */
    struct wp_h2 *h2;
    uint64_t received; /* Bytes. */
    size_t out_len;    /* Bytes of out, of which out_sent are gone. */
    size_t out_sent;
    bool wants_out; /* Asked epoll to say when there is room. */
    uint8_t out[WP_H2_OUT_SIZE];
};

struct wp_h2 {
    int epoll_fd;
    unsigned n_conns;
    unsigned next; /* Connection for the next call. */
    unsigned n_methods;
    bool broken; /* A server's answer was too long, or none at all. */
    struct wp_h2_config config;
    struct wp_h2_memory memory;
    unsigned n_headers[WP_H2_METHODS_MAX];
    unsigned n_fixed[WP_H2_METHODS_MAX]; /* Without authorization. */
    nghttp2_nv headers[WP_H2_METHODS_MAX][WP_H2_HEADERS_MAX];
    struct wp_h2_conn *conns[WP_H2_CONNECTIONS_MAX];
    uint8_t in[WP_H2_IN_SIZE];
};

/* A socket that is connected to "unix:/path" or "host:port", where a name may
 * take a resolver's time; -1 and err. */
WP_MUST_CHECK int wp_h2_connect_target(const char *target, struct wp_err *err);
/* Gives the connection its session, and says what this side takes. False: no
 * memory; a session that was made is the caller's to delete. */
WP_MUST_CHECK bool wp_h2_session_start(struct wp_h2_conn *conn);
/* Queues the call's head and body; false: memory lacks, or 2^30 calls were
 * made. */
WP_MUST_CHECK bool wp_h2_session_request(struct wp_h2_conn *conn,
                                         struct wp_h2_call *call);

#endif
