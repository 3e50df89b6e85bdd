#include "allocator/stores/redis/store.h"

#include <stdio.h>
#include <stdlib.h>

#include "allocator/stores/redis/impl.h"
#include "allocator/stores/redis/link/sync.h"
#include "pool/base/clock.h"

static enum wp_status
check_config(const struct wp_lease_redis_config *config, struct wp_err *err)
{
    const char *prefix = config->prefix != NULL ? config->prefix : "";

    if (strlen(prefix) > WP_REDIS_PREFIX_MAX || strpbrk(prefix, "{}") != NULL ||
        !wp_str_is_printable(wp_str_from(prefix))) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "redis prefix: up to %d printable characters without"
                          " braces expected",
                          WP_REDIS_PREFIX_MAX);
    }
    if (config->n_pools == 0 || config->n_pools > WP_POOLS_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "redis pools: 1 to %d expected, not %u", WP_POOLS_MAX,
                          config->n_pools);
    }
    if (config->redis.cluster && config->redis.router == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "redis: a cluster needs a router");
    }
    if (config->threads >= WP_REDIS_LINKS_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "redis threads: fewer than %d expected, not %u",
                          WP_REDIS_LINKS_MAX, config->threads);
    }
    return WP_OK;
}

enum wp_status
wp_lease_redis_add_pool(struct wp_lease_redis *redis,
                        const struct wp_lease_redis_pool *name,
                        struct wp_err *err)
{
    enum wp_status status = WP_OK;
    bool known;

    (void)pthread_mutex_lock(&redis->pools_lock);
    known = wp_redis_pool_find(redis, wp_str_from(name->pool_namespace),
                               wp_str_from(name->pool)) != NULL;
    if (!known && wp_redis_pools_len(redis) == redis->pools_max) {
        status = wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                            "redis: there have been %u pools since the start, "
                            "which is as many as one store keeps apart",
                            redis->pools_max);
    } else if (!known) {
        status = wp_redis_pool_add(redis, name, err);
    }
    (void)pthread_mutex_unlock(&redis->pools_lock);
    if (!known && status == WP_OK && redis->feed != NULL) {
        wp_redis_feed_wake(redis->feed);
    }
    return status;
}

/* What all names begin with. Channels are one for all databases of a server, so
 * the database's number is in the names: who has another one is no replica. */
static char *
names_begin(const struct wp_lease_redis_config *config)
{
    const char *prefix = config->prefix;
    size_t cap = WP_REDIS_NAMES_MAX + 1;
    char *names = malloc(cap);

    if (names == NULL) {
        return NULL;
    }
    prefix = prefix != NULL && prefix[0] != '\0' ? prefix : "warmpool";
    if (config->redis.db == 0) {
        (void)snprintf(names, cap, "%s", prefix);
    } else {
        (void)snprintf(names, cap, "%s:%d", prefix, config->redis.db);
    }
    return names;
}

/* Texts of the configuration that outlive the call; those of TLS are the
 * caller's. */
static bool
own_texts(struct wp_lease_redis *redis,
          const struct wp_lease_redis_config *config)
{
    struct wp_redis_config *c = &redis->config.redis;

    redis->config = *config;
    *c = wp_redis_config_complete(&config->redis);
    redis->config.prefix = names_begin(config);
    c->user = strdup(c->user);
    c->password = strdup(c->password);
    c->client_name = strdup(c->client_name);
    if (c->router != NULL) {
        redis->router = *c->router;
        c->router = &redis->router;
    }
    (void)snprintf(redis->host, sizeof redis->host, "%s",
                   config->host != NULL ? config->host : "");
    redis->config.host = redis->host;
    if (redis->config.heartbeat_ns <= 0) {
        redis->config.heartbeat_ns = WP_NS_PER_S;
    }
    if (redis->config.peer_gone_ns <= 0) {
        redis->config.peer_gone_ns = 3 * WP_NS_PER_S;
    }
    if (redis->config.server_idle_ns <= 0) {
        redis->config.server_idle_ns = 10 * WP_NS_PER_S;
    }
    if (config->replicas) {
        wp_hex_encode(config->replica_id, WP_REPLICA_ID_LEN, redis->writer);
    }
    redis->config.pools = NULL;
    return redis->config.prefix != NULL && c->user != NULL &&
           c->password != NULL && c->client_name != NULL;
}

static void
free_text(const char *text)
{
    union {
        const char *text;
        char *owned;
    } t = {text};

    free(t.owned);
}

enum wp_status
wp_lease_redis_create(const struct wp_lease_redis_config *config,
                      struct wp_lease_redis **out, struct wp_err *err)
{
    static _Atomic(uint64_t) stores;
    enum wp_status status = check_config(config, err);
    struct wp_lease_redis *redis;
    pthread_condattr_t attr;

    if (status != WP_OK) {
        return status;
    }
    redis = calloc(1, sizeof *redis);
    if (redis == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for redis");
    }
    redis->id = atomic_fetch_add(&stores, 1) + 1;
    redis->n_links = 1 + config->threads;
    (void)pthread_mutex_init(&redis->admin_lock, NULL);
    (void)pthread_mutex_init(&redis->groups_lock, NULL);
    (void)pthread_mutex_init(&redis->pools_lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&redis->groups_cond, &attr);
    (void)pthread_condattr_destroy(&attr);
    status = own_texts(redis, config)
                 ? wp_redis_pools_init(redis, config, err)
                 : wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for redis");
    if (status == WP_OK) {
        redis->hooks = (struct wp_redis_hooks){
            .on_reply = wp_redis_commit_on_reply,
            .on_end = wp_redis_commit_on_end,
        };
        status = wp_redis_groups_init(redis, err);
    }
    if (status != WP_OK) {
        wp_lease_redis_destroy(redis);
        return status;
    }
    *out = redis;
    return WP_OK;
}

void
wp_lease_redis_destroy(struct wp_lease_redis *redis)
{
    if (redis == NULL) {
        return;
    }
    wp_redis_feed_destroy(redis->feed);
    wp_redis_groups_fini(redis);
    wp_redis_sync_close(redis->admin);
    free_text(redis->config.prefix);
    free_text(redis->config.redis.user);
    free_text(redis->config.redis.password);
    free_text(redis->config.redis.client_name);
    free(redis->pools);
    free(redis->index);
    (void)pthread_mutex_destroy(&redis->admin_lock);
    (void)pthread_mutex_destroy(&redis->groups_lock);
    (void)pthread_mutex_destroy(&redis->pools_lock);
    (void)pthread_cond_destroy(&redis->groups_cond);
    free(redis);
}

struct wp_lease_store
wp_lease_redis_store(struct wp_lease_redis *redis)
{
    static const struct wp_lease_store_ops alone = {
        .name = "redis",
        .durable = true,
        .shared = false,
        .commit = wp_redis_commit,
        .flush = wp_redis_commit_flush,
        .load = wp_redis_load,
    };
    static const struct wp_lease_store_ops shared = {
        .name = "redis",
        .durable = true,
        .shared = true,
        .commit = wp_redis_commit,
        .flush = wp_redis_commit_flush,
        .load = wp_redis_load,
    };

    return (struct wp_lease_store){redis->config.replicas ? &shared : &alone,
                                   redis};
}

void
wp_lease_redis_read_stats(struct wp_lease_redis *redis,
                          struct wp_lease_redis_stats *out)
{
    memset(out, 0, sizeof *out);
    wp_redis_groups_read_stats(redis, out);
    out->commits = atomic_load(&redis->commits);
    out->stale = atomic_load(&redis->stale);
    out->corrupt = atomic_load(&redis->corrupt);
    out->errors = atomic_load(&redis->errors);
    out->noscript = atomic_load(&redis->noscript);
    out->records_heard = atomic_load(&redis->records_heard);
    out->gaps = atomic_load(&redis->gaps);
    out->syncs = atomic_load(&redis->syncs);
    out->sync_failures = atomic_load(&redis->sync_failures);
    for (uint32_t i = 0; i < wp_redis_pools_len(redis); i++) {
        out->in_doubt += atomic_load(&redis->pools[i].generation) == 0;
    }
    out->peers = wp_lease_redis_peers(redis, NULL, 0);
}
