/* allocator/stores/redis/link/sync.h - a logged-in connection that blocks.
 *
 * For what is not on the claim path: making links, reading pools, recovery, the
 * feed. One thread at a time; every wait is bounded. hiredis writes without
 * MSG_NOSIGNAL, so the process ignores SIGPIPE. */
#ifndef WP_ALLOCATOR_STORES_REDIS_LINK_SYNC_H
#define WP_ALLOCATOR_STORES_REDIS_LINK_SYNC_H

#include "allocator/stores/redis/link/link.h"

struct redisContext;
struct redisReply;

/* config with every 0 replaced by its default. */
struct wp_redis_config
wp_redis_config_complete(const struct wp_redis_config *config);

/* Connects to the server (found by the router, when there is one, for key),
 * logs in, selects the database, names the connection and loads the scripts.
 * run_id, which may be NULL: the server process.
 * server: the one it is, may be NULL. */
enum wp_status wp_redis_sync_open(const struct wp_redis_config *config,
                                  struct wp_str key, struct redisContext **out,
                                  struct wp_redis_server *server,
                                  char run_id[WP_REDIS_RUN_ID_MAX + 1],
                                  struct wp_err *err);
/* NULL is allowed. */
void wp_redis_sync_close(struct redisContext *context);

/* One command; NULL when the connection broke or stayed silent for the commit
 * timeout (err says so; close it). An error reply is a reply. Free it with
 * freeReplyObject. */
struct redisReply *wp_redis_sync_call(struct redisContext *context,
                                      const struct wp_str *args, uint32_t n,
                                      struct wp_err *err);
/* The same; an error reply is NULL too, its text in err, and the status is
 * UNAVAILABLE. */
struct redisReply *wp_redis_sync_ask(struct redisContext *context,
                                     const struct wp_str *args, uint32_t n,
                                     struct wp_err *err);

/* "unix:PATH" or "HOST:PORT", for people. */
const char *wp_redis_server_text(const struct wp_redis_server *server,
                                 char out[WP_REDIS_HOST_MAX + 16]);

#endif
