/* allocator/stores/redis/link/stream.h - a connected socket to a Redis server:
 * TCP, TCP with TLS, or a Unix socket. It never blocks but to connect.
 *
 * One thread may send while another receives; opening and closing are for one
 * thread alone. With TLS the process must ignore SIGPIPE. */
#ifndef WP_ALLOCATOR_STORES_REDIS_LINK_STREAM_H
#define WP_ALLOCATOR_STORES_REDIS_LINK_STREAM_H

#include <sys/types.h>

#include "allocator/conf/redis_url.h"
#include "allocator/stores/redis/link/tls.h"

struct wp_redis_stream {
    int fd;                           /* -1: closed. */
    struct wp_redis_session *session; /* NULL: without TLS. */
};

/* Connects, and greets when tls is not NULL and the server has no path; each
 * step, and each address of the host, may take timeout_ns, and resolving a name
 * as long as the system takes. The socket is not passed on to programs. */
WP_MUST_CHECK enum wp_status
wp_redis_stream_open(const struct wp_redis_server *server,
                     const struct wp_redis_tls *tls, int64_t timeout_ns,
                     struct wp_redis_stream *out, struct wp_err *err);
/* Harmless when it is closed. */
void wp_redis_stream_close(struct wp_redis_stream *stream);

/* As those of a session (tls.h). */
ssize_t wp_redis_stream_send(const struct wp_redis_stream *stream,
                             const char *bytes, size_t len);
ssize_t wp_redis_stream_receive(const struct wp_redis_stream *stream,
                                char *bytes, size_t cap, const char **why);

#endif
