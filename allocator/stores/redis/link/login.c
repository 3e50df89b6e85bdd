#include "allocator/stores/redis/link/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

#include "allocator/stores/redis/link/scripts.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

static int64_t
or_default(int64_t value, int64_t fallback)
{
    return value > 0 ? value : fallback;
}

struct wp_redis_config
wp_redis_config_complete(const struct wp_redis_config *config)
{
    struct wp_redis_config c = *config;

    c.user = c.user != NULL ? c.user : "";
    c.password = c.password != NULL ? c.password : "";
    if (c.client_name == NULL || c.client_name[0] == '\0') {
        c.client_name = "warmpoold";
    }
    c.pending_max = c.pending_max > 0 ? c.pending_max : 4096;
    c.connect_timeout_ns = or_default(c.connect_timeout_ns, WP_NS_PER_S);
    c.commit_timeout_ns = or_default(c.commit_timeout_ns, WP_NS_PER_S);
    c.backoff_min_ns = or_default(c.backoff_min_ns, 20 * WP_NS_PER_MS);
    c.backoff_max_ns = or_default(c.backoff_max_ns, 2 * WP_NS_PER_S);
    return c;
}

const char *
wp_redis_server_text(const struct wp_redis_server *server,
                     char out[WP_REDIS_HOST_MAX + 16])
{
    size_t cap = WP_REDIS_HOST_MAX + 16;

    if (server->path[0] != '\0') {
        (void)snprintf(out, cap, "unix:%s", server->path);
    } else {
        (void)snprintf(out, cap, "%s:%u", server->host, server->port);
    }
    return out;
}

static struct timeval
timeval_of(int64_t ns)
{
    return (struct timeval){.tv_sec = ns / WP_NS_PER_S,
                            .tv_usec = ns % WP_NS_PER_S / WP_NS_PER_US};
}

static enum wp_status
connection_error(const redisContext *context, const char *what,
                 struct wp_err *err)
{
    bool silent =
        context->err == REDIS_ERR_IO && (errno == EAGAIN || errno == ETIMEDOUT);

    return wp_err_set(err, WP_UNAVAILABLE, "redis: %s: %s", what,
                      silent ? "no answer in time" : context->errstr);
}

struct redisReply *
wp_redis_sync_call(struct redisContext *context, const struct wp_str *args,
                   uint32_t n, struct wp_err *err)
{
    const char *argv[WP_REDIS_ARGS_MAX + WP_REDIS_LINKS_MAX];
    size_t lens[WP_REDIS_ARGS_MAX + WP_REDIS_LINKS_MAX];
    struct redisReply *reply;

    WP_ASSERT(n > 0 && n <= WP_ARRAY_LEN(argv));
    for (uint32_t i = 0; i < n; i++) {
        argv[i] = args[i].len > 0 ? args[i].ptr : "";
        lens[i] = args[i].len;
    }
    reply = redisCommandArgv(context, (int)n, argv, lens);
    if (reply == NULL) {
        (void)connection_error(context, argv[0], err);
    }
    return reply;
}

struct redisReply *
wp_redis_sync_ask(struct redisContext *context, const struct wp_str *args,
                  uint32_t n, struct wp_err *err)
{
    struct redisReply *reply = wp_redis_sync_call(context, args, n, err);

    if (reply != NULL && reply->type == REDIS_REPLY_ERROR) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "redis: %.*s: %s",
                         WP_STR_ARG(args[0]), reply->str);
        freeReplyObject(reply);
        return NULL;
    }
    return reply;
}

void
wp_redis_sync_close(struct redisContext *context)
{
    if (context != NULL) {
        redisFree(context);
    }
}

/* The command must succeed; its answer does not matter. */
static enum wp_status
tell(redisContext *context, const struct wp_str *args, uint32_t n,
     struct wp_err *err)
{
    struct redisReply *reply = wp_redis_sync_ask(context, args, n, err);

    if (reply == NULL) {
        return WP_UNAVAILABLE;
    }
    freeReplyObject(reply);
    return WP_OK;
}

static enum wp_status
log_in(redisContext *context, const struct wp_redis_config *config,
       struct wp_err *err)
{
    struct wp_str args[3] = {WP_STR("AUTH"), wp_str_from(config->user),
                             wp_str_from(config->password)};
    char number[16];

    if (config->password[0] != '\0') {
        enum wp_status status;

        if (config->user[0] == '\0') {
            args[1] = args[2];
        }
        status = tell(context, args, config->user[0] == '\0' ? 2 : 3, err);
        if (status != WP_OK) {
            return status;
        }
    }
    if (config->db > 0) {
        (void)snprintf(number, sizeof number, "%d", config->db);
        args[0] = WP_STR("SELECT");
        args[1] = wp_str_from(number);
        if (tell(context, args, 2, err) != WP_OK) {
            return WP_UNAVAILABLE;
        }
    }
    /* Only to be seen in CLIENT LIST: a login that may not is no obstacle. */
    args[0] = WP_STR("CLIENT");
    args[1] = WP_STR("SETNAME");
    args[2] = wp_str_from(config->client_name);
    if (tell(context, args, 3, err) != WP_OK && context->err != 0) {
        return WP_UNAVAILABLE;
    }
    return WP_OK;
}

static enum wp_status
load_scripts(redisContext *context, struct wp_err *err)
{
    for (unsigned i = 0; i < WP_SCRIPT_COUNT; i++) {
        const struct wp_str args[] = {WP_STR("SCRIPT"), WP_STR("LOAD"),
                                      wp_redis_scripts[i].text};

        if (tell(context, args, 3, err) != WP_OK) {
            return WP_UNAVAILABLE;
        }
    }
    return WP_OK;
}

/* Without it a Redis that was restarted, perhaps with less than it had, would
 * be taken for the same; so a login that may not ask is refused. */
static enum wp_status
read_run_id(redisContext *context, char run_id[WP_REDIS_RUN_ID_MAX + 1],
            struct wp_err *err)
{
    static const char name[] = "\nrun_id:";
    const struct wp_str args[] = {WP_STR("INFO"), WP_STR("server")};
    struct redisReply *reply = wp_redis_sync_ask(context, args, 2, err);
    const char *at;
    size_t len = 0;

    if (reply == NULL) {
        return WP_UNAVAILABLE;
    }
    at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, name) : NULL;
    if (at != NULL) {
        at += sizeof name - 1;
        len = strcspn(at, "\r\n");
        len = len < WP_REDIS_RUN_ID_MAX ? len : WP_REDIS_RUN_ID_MAX;
        memcpy(run_id, at, len);
    }
    run_id[len] = '\0';
    freeReplyObject(reply);
    return len > 0 ? WP_OK
                   : wp_err_set(err, WP_UNAVAILABLE,
                                "redis: INFO: it does not tell its run_id");
}

static enum wp_status
reach(const struct wp_redis_config *config,
      const struct wp_redis_server *server, redisContext **out,
      struct wp_err *err)
{
    struct timeval limit = timeval_of(config->connect_timeout_ns);
    redisContext *context =
        server->path[0] != '\0'
            ? redisConnectUnixWithTimeout(server->path, limit)
            : redisConnectWithTimeout(server->host, server->port, limit);
    enum wp_status status = WP_OK;

    if (context == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "memory for a connection to redis");
    }
    if (context->err != 0) {
        char text[WP_REDIS_HOST_MAX + 16];

        status =
            connection_error(context, wp_redis_server_text(server, text), err);
        redisFree(context);
        return status;
    }
    /* Not for the programs that the daemon starts: it is logged in. */
    (void)fcntl(context->fd, F_SETFD, FD_CLOEXEC);
    if (server->path[0] == '\0') {
        (void)redisEnableKeepAlive(context);
    }
    if (redisSetTimeout(context, limit) != REDIS_OK) {
        status = connection_error(context, "timeout", err);
        redisFree(context);
        return status;
    }
    *out = context;
    return WP_OK;
}

enum wp_status
wp_redis_sync_open(const struct wp_redis_config *config, struct wp_str key,
                   struct redisContext **out, struct wp_redis_server *server,
                   char run_id[WP_REDIS_RUN_ID_MAX + 1], struct wp_err *err)
{
    struct wp_redis_server found = config->server;
    char ignored[WP_REDIS_RUN_ID_MAX + 1];
    redisContext *context = NULL;
    enum wp_status status;

    if (config->router != NULL) {
        status = config->router->find(config->router->self, key, &found, err);
        if (status != WP_OK) {
            return status;
        }
    }
    status = reach(config, &found, &context, err);
    if (status != WP_OK) {
        return status;
    }
    WP_ASSERT(context != NULL);
    status = log_in(context, config, err);
    if (status == WP_OK) {
        status = load_scripts(context, err);
    }
    if (status == WP_OK) {
        status = read_run_id(context, run_id != NULL ? run_id : ignored, err);
    }
    if (status == WP_OK) {
        (void)redisSetTimeout(context, timeval_of(config->commit_timeout_ns));
        if (server != NULL) {
            *server = found;
        }
        *out = context;
    } else {
        redisFree(context);
    }
    return status;
}
