/* allocator/stores/redis/link/tls.h - TLS to Redis: whom to trust, and sessions
 * on sockets that do not block.
 *
 * A session belongs to one socket. Its functions may be called from two threads
 * at a time: the one that writes and the one that reads. TLS 1.2 at least; the
 * server must show a certificate of a trusted authority, for the right name. */
#ifndef WP_ALLOCATOR_STORES_REDIS_LINK_TLS_H
#define WP_ALLOCATOR_STORES_REDIS_LINK_TLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pool/base/status.h"

/* Paths of PEM files, and a name; NULL is "". The files are read for each
 * connection: what is renewed counts from the next one on. Errors name the
 * settings redis_tls_ca, redis_tls_cert, redis_tls_key and redis_tls_name. */
struct wp_redis_tls {
    const char *ca;   /* Authorities of servers. "": those of the system. */
    const char *cert; /* Shown to servers, with its chain. "": none. */
    const char *key;  /* Of cert, without a pass phrase. */
    const char *name; /* Of every server's certificate. "": its host. */
};

enum {
    /* What receiving and sending may return besides a number of bytes. */
    WP_REDIS_AGAIN = 0, /* Not now: the socket has to be waited for. */
    WP_REDIS_OVER = -1, /* The connection is of no more use. */
};

struct wp_redis_session; /* Opaque. */

/* Can the files be used? INVALID_ARGUMENT names the setting. Any thread. */
WP_MUST_CHECK enum wp_status wp_redis_tls_check(const struct wp_redis_tls *tls,
                                                struct wp_err *err);

/* A session with the server at the other end of fd, which must not block:
 * greets it and checks its certificate for tls->name, or else for host (a name
 * or an address). UNAVAILABLE says why not, after timeout_ns at the latest;
 * INVALID_ARGUMENT: a file cannot be used. fd stays the caller's. */
WP_MUST_CHECK enum wp_status
wp_redis_session_open(const struct wp_redis_tls *tls, const char *host, int fd,
                      int64_t timeout_ns, struct wp_redis_session **out,
                      struct wp_err *err);
/* Before its socket is closed. NULL is allowed. */
void wp_redis_session_close(struct wp_redis_session *session);

/* Sends what it can, at least a byte: the number of bytes, AGAIN or OVER. After
 * AGAIN the same bytes come first in the next call, more may follow them. What
 * counts as sent has left whole. */
ssize_t wp_redis_session_send(struct wp_redis_session *session,
                              const char *bytes, size_t len);
/* The number of bytes, AGAIN or OVER; *why is then a text that stays. With room
 * for WP_REDIS_RECORD_MAX bytes nothing stays behind that the socket does not
 * tell of. */
enum {
    WP_REDIS_RECORD_MAX = 16384
};
ssize_t wp_redis_session_receive(struct wp_redis_session *session, char *bytes,
                                 size_t cap, const char **why);

#endif
