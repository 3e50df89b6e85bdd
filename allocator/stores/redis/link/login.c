/* What the store tells a server before it uses a connection. */
#include "allocator/stores/redis/link/sync.h"

#include <stdio.h>
#include <string.h>

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

/* The command must succeed; its answer does not matter. */
static enum wp_status
tell(struct wp_redis_sync *sync, const struct wp_str *args, uint32_t n,
     struct wp_err *err)
{
    struct redisReply *reply = wp_redis_sync_ask(sync, args, n, err);

    if (reply == NULL) {
        return WP_UNAVAILABLE;
    }
    freeReplyObject(reply);
    return WP_OK;
}

static enum wp_status
log_in(struct wp_redis_sync *sync, const struct wp_redis_config *config,
       struct wp_err *err)
{
    struct wp_str args[3];
    char number[16];

    if (wp_redis_sync_log_in(sync, config->user, config->password, err) !=
        WP_OK) {
        return WP_UNAVAILABLE;
    }
    if (config->db > 0) {
        (void)snprintf(number, sizeof number, "%d", config->db);
        args[0] = WP_STR("SELECT");
        args[1] = wp_str_from(number);
        if (tell(sync, args, 2, err) != WP_OK) {
            return WP_UNAVAILABLE;
        }
    }
    /* Only to be seen in CLIENT LIST: a login that may not is no obstacle. */
    args[0] = WP_STR("CLIENT");
    args[1] = WP_STR("SETNAME");
    args[2] = wp_str_from(config->client_name);
    if (tell(sync, args, 3, err) != WP_OK && wp_redis_sync_is_broken(sync)) {
        return WP_UNAVAILABLE;
    }
    return WP_OK;
}

static enum wp_status
load_scripts(struct wp_redis_sync *sync, struct wp_err *err)
{
    for (unsigned i = 0; i < WP_SCRIPT_COUNT; i++) {
        const struct wp_str args[] = {WP_STR("SCRIPT"), WP_STR("LOAD"),
                                      wp_redis_scripts[i].text};

        if (tell(sync, args, 3, err) != WP_OK) {
            return WP_UNAVAILABLE;
        }
    }
    return WP_OK;
}

/* Without it a Redis that was restarted, perhaps with less than it had, would
 * be taken for the same; so a login that may not ask is refused. */
static enum wp_status
read_run_id(struct wp_redis_sync *sync, char run_id[WP_REDIS_RUN_ID_MAX + 1],
            struct wp_err *err)
{
    static const char name[] = "\nrun_id:";
    const struct wp_str args[] = {WP_STR("INFO"), WP_STR("server")};
    struct redisReply *reply = wp_redis_sync_ask(sync, args, 2, err);
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

enum wp_status
wp_redis_sync_open(const struct wp_redis_config *config, struct wp_str key,
                   struct wp_redis_sync **out, struct wp_redis_server *server,
                   char run_id[WP_REDIS_RUN_ID_MAX + 1], struct wp_err *err)
{
    struct wp_redis_server found = config->server;
    char ignored[WP_REDIS_RUN_ID_MAX + 1];
    struct wp_redis_sync *sync = NULL;
    enum wp_status status;

    if (config->router != NULL) {
        status = config->router->find(config->router->self, key, &found, err);
        if (status != WP_OK) {
            return status;
        }
    }
    status = wp_redis_sync_reach(&found, config->tls,
                                 config->connect_timeout_ns, &sync, err);
    if (status != WP_OK) {
        return status;
    }
    status = log_in(sync, config, err);
    if (status == WP_OK) {
        status = load_scripts(sync, err);
    }
    if (status == WP_OK) {
        status = read_run_id(sync, run_id != NULL ? run_id : ignored, err);
    }
    if (status != WP_OK) {
        wp_redis_sync_close(sync);
        return status;
    }
    wp_redis_sync_set_timeout(sync, config->commit_timeout_ns);
    if (server != NULL) {
        *server = found;
    }
    *out = sync;
    return WP_OK;
}
