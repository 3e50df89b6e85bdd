#include "allocator/stores/redis/topology/topology_impl.h"

#include <errno.h>
#include <fcntl.h>

#include <hiredis/hiredis.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"

static enum wp_status
broken(const redisContext *context, const char *what, struct wp_err *err)
{
    bool silent =
        context->err == REDIS_ERR_IO && (errno == EAGAIN || errno == ETIMEDOUT);

    return wp_err_set(err, WP_UNAVAILABLE, "%s: %s", what,
                      silent ? "no answer in time" : context->errstr);
}

struct redisReply *
wp_redis_ask(struct redisContext *context, uint32_t n, const char *const *words,
             struct wp_err *err)
{
    const char *argv[4];
    struct redisReply *reply;

    WP_ASSERT(n > 0 && n <= WP_ARRAY_LEN(argv));
    memcpy(argv, words, n * sizeof *argv);
    reply = redisCommandArgv(context, (int)n, argv, NULL);
    if (reply == NULL) {
        (void)broken(context, words[0], err);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "%s: %s", words[0], reply->str);
        freeReplyObject(reply);
        reply = NULL;
    }
    return reply;
}

static enum wp_status
log_in(redisContext *context, const char *user, const char *password,
       struct wp_err *err)
{
    const char *const words[] = {"AUTH", user[0] != '\0' ? user : password,
                                 password};
    struct redisReply *reply =
        wp_redis_ask(context, user[0] != '\0' ? 3 : 2, words, err);

    if (reply == NULL) {
        return WP_UNAVAILABLE;
    }
    freeReplyObject(reply);
    return WP_OK;
}

enum wp_status
wp_redis_ask_open(const struct wp_redis_server *server, const char *user,
                  const char *password, int64_t timeout_ns,
                  struct redisContext **out, struct wp_err *err)
{
    struct timeval limit = {
        .tv_sec = timeout_ns / WP_NS_PER_S,
        .tv_usec = timeout_ns % WP_NS_PER_S / WP_NS_PER_US,
    };
    redisContext *context =
        redisConnectWithTimeout(server->host, server->port, limit);
    enum wp_status status = WP_OK;

    if (context == NULL) {
        return wp_err_set(err, WP_UNAVAILABLE,
                          "no memory for a connection to redis");
    }
    if (context->err == 0) {
        /* Not for the programs that the daemon starts: it will be logged in. */
        (void)fcntl(context->fd, F_SETFD, FD_CLOEXEC);
    }
    if (context->err != 0 || redisSetTimeout(context, limit) != REDIS_OK) {
        status = broken(context, "connect", err);
    } else if (password[0] != '\0') {
        status = log_in(context, user, password, err);
    }
    if (status != WP_OK) {
        redisFree(context);
        return wp_err_wrap(err, "redis %s:%u", server->host, server->port);
    }
    *out = context;
    return WP_OK;
}

enum wp_status
wp_redis_ask_role(struct redisContext *context, struct wp_err *err)
{
    static const char *const words[] = {"ROLE"};
    struct redisReply *reply = wp_redis_ask(context, 1, words, err);
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
