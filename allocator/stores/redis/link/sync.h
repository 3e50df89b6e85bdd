/* allocator/stores/redis/link/sync.h - connections that block, to one server:
 * for all that is not on the claim path: making links, reading pools, recovery,
 * the feed, finding servers.
 *
 * One thread at a time; every wait is bounded. Replies are hiredis': free them
 * with freeReplyObject. The process ignores SIGPIPE, since OpenSSL writes
 * without MSG_NOSIGNAL. */
#ifndef WP_ALLOCATOR_STORES_REDIS_LINK_SYNC_H
#define WP_ALLOCATOR_STORES_REDIS_LINK_SYNC_H

#include "allocator/stores/redis/link/link.h"
#include "allocator/stores/redis/link/stream.h"

struct wp_redis_sync; /* Opaque: one connection. */
struct redisReply;

/* --- any server --- */

/* The one way to connect: plain, by Unix socket, or with TLS (tls, which may be
 * NULL). timeout_ns: of each step, and then of each silence. Not logged in. */
WP_MUST_CHECK enum wp_status
wp_redis_sync_reach(const struct wp_redis_server *server,
                    const struct wp_redis_tls *tls, int64_t timeout_ns,
                    struct wp_redis_sync **out, struct wp_err *err);
/* NULL is allowed. */
void wp_redis_sync_close(struct wp_redis_sync *sync);
/* Closes it, but for its socket, which is the caller's from now on. */
struct wp_redis_stream wp_redis_sync_take(struct wp_redis_sync *sync);
/* AUTH. password "": there is nothing to say; user "": the default user. */
WP_MUST_CHECK enum wp_status wp_redis_sync_log_in(struct wp_redis_sync *sync,
                                                  const char *user,
                                                  const char *password,
                                                  struct wp_err *err);
void wp_redis_sync_set_timeout(struct wp_redis_sync *sync, int64_t timeout_ns);
/* It broke, or stayed silent: nothing but close may follow. */
bool wp_redis_sync_is_broken(const struct wp_redis_sync *sync);
/* To wait until there is something to read; not to be used otherwise. */
int wp_redis_sync_fd(const struct wp_redis_sync *sync);

/* One command; NULL when the connection broke or stayed silent (err says so;
 * close it). An error reply is a reply. */
struct redisReply *wp_redis_sync_call(struct wp_redis_sync *sync,
                                      const struct wp_str *args, uint32_t n,
                                      struct wp_err *err);
/* The same; an error reply is NULL too, its text in err, and the status is
 * UNAVAILABLE. */
struct redisReply *wp_redis_sync_ask(struct wp_redis_sync *sync,
                                     const struct wp_str *args, uint32_t n,
                                     struct wp_err *err);
/* The halves of a call: the command leaves; the next reply comes. what: for
 * err. */
WP_MUST_CHECK enum wp_status wp_redis_sync_send(struct wp_redis_sync *sync,
                                                const struct wp_str *args,
                                                uint32_t n, struct wp_err *err);
struct redisReply *wp_redis_sync_receive(struct wp_redis_sync *sync,
                                         const char *what, struct wp_err *err);
/* What has come unasked: take reads it without waiting, next gives one reply
 * after the other, NULL after the last. False: it broke. */
WP_MUST_CHECK bool wp_redis_sync_take_in(struct wp_redis_sync *sync);
WP_MUST_CHECK bool wp_redis_sync_next(struct wp_redis_sync *sync,
                                      struct redisReply **out);

/* --- the store's server --- */

/* config with every 0 replaced by its default. */
struct wp_redis_config
wp_redis_config_complete(const struct wp_redis_config *config);

/* Connects to the server (found by the router, when there is one, for key),
 * logs in, selects the database, names the connection and loads the scripts.
 * run_id, which may be NULL: the server process.
 * server: the one it is, may be NULL. */
enum wp_status wp_redis_sync_open(const struct wp_redis_config *config,
                                  struct wp_str key, struct wp_redis_sync **out,
                                  struct wp_redis_server *server,
                                  char run_id[WP_REDIS_RUN_ID_MAX + 1],
                                  struct wp_err *err);

/* "unix:PATH" or "HOST:PORT", for people. */
const char *wp_redis_server_text(const struct wp_redis_server *server,
                                 char out[WP_REDIS_HOST_MAX + 16]);

#endif
