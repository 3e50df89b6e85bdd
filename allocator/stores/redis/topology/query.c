#include "allocator/stores/redis/topology/topology_impl.h"

#include <hiredis/hiredis.h>

#include "pool/base/assert.h"

struct redisReply *
wp_redis_ask(struct wp_redis_sync *sync, uint32_t n, const char *const *words,
             struct wp_err *err)
{
    struct wp_str args[4];

    WP_ASSERT(n > 0 && n <= WP_ARRAY_LEN(args));
    for (uint32_t i = 0; i < n; i++) {
        args[i] = wp_str_from(words[i]);
    }
    return wp_redis_sync_ask(sync, args, n, err);
}

enum wp_status
wp_redis_ask_open(const struct wp_redis_topology *t,
                  const struct wp_redis_server *server, const char *user,
                  const char *password, struct wp_redis_sync **out,
                  struct wp_err *err)
{
    struct wp_redis_sync *sync;
    enum wp_status status = wp_redis_sync_reach(
        server, t->config.tls, t->config.timeout_ns, &sync, err);

    if (status != WP_OK) {
        return status;
    }
    status = wp_redis_sync_log_in(sync, user, password, err);
    if (status != WP_OK) {
        wp_redis_sync_close(sync);
        return wp_err_wrap(err, "redis %s:%u", server->host, server->port);
    }
    *out = sync;
    return WP_OK;
}

enum wp_status
wp_redis_ask_role(struct wp_redis_sync *sync, struct wp_err *err)
{
    static const char *const words[] = {"ROLE"};
    struct redisReply *reply = wp_redis_ask(sync, 1, words, err);
    enum wp_status status = WP_OK;

    if (reply == NULL) {
        return WP_UNAVAILABLE;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
        reply->element[0]->type != REDIS_REPLY_STRING) {
        status = wp_err_set(err, WP_UNAVAILABLE, "ROLE: no such answer");
    } else if (strcmp(reply->element[0]->str, "master") != 0) {
        status = wp_err_set(err, WP_UNAVAILABLE, "it is no master");
    }
    freeReplyObject(reply);
    return status;
}
