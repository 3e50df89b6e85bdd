/* Which server has which pool, and the links to each.
 *
 * One server (or the master that sentinels name) is one group of links, and all
 * pools are in it. In a cluster each node that has pools is a group; a thread
 * moves pools between them: when a node says that it has not the pool, and when
 * the topology knows of another node. It also leads the links of a master to
 * the next one. A pool that was moved is in doubt: a node that took over may
 * have lost what the other one had acknowledged.
 *
 * A group ends when no pool has been in it for a while, a moment for a node
 * that comes back: the nodes of a cluster may change their addresses as often
 * as they like. Its place is then free for another server.
 *
 *   FREE ----> LIVE ----> ENDING ----> FREE
 *     a pool's      the thread    its links are
 *     server is     finds it      closed
 *     new           unused                      */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "allocator/stores/redis/impl.h"
#include "allocator/stores/redis/link/sync.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"

enum {
    LOOK_MS = 100,  /* Between looks at where pools are. */
    SOON_MS = 50,   /* The same while a pool is misplaced. */
    DOWN_MS = 1000, /* Between doubts about servers that are out of reach. */
};

/* --- server processes --- */

static void
doubt_group(struct wp_redis_group *group)
{
    struct wp_lease_redis *redis = group->redis;

    for (uint32_t i = 0; i < wp_redis_pools_len(redis); i++) {
        struct wp_redis_pool *pool = &redis->pools[i];

        if (atomic_load(&pool->group) == group) {
            wp_redis_pool_distrust(pool);
            wp_redis_pool_doubt(redis, pool, 0);
        }
    }
}

void
wp_redis_server_met(struct wp_redis_group *group, const char *run_id)
{
    bool another;

    (void)pthread_mutex_lock(&group->lock);
    another = group->run_id[0] != '\0' && strcmp(group->run_id, run_id) != 0;
    memcpy(group->run_id, run_id, sizeof group->run_id);
    (void)pthread_mutex_unlock(&group->lock);
    if (another) {
        doubt_group(group);
    }
}

static void
on_server(void *ctx, const char *run_id)
{
    wp_redis_server_met(ctx, run_id);
}

/* --- groups; groups_lock is held --- */

static int
state_of(struct wp_redis_group *group)
{
    return atomic_load_explicit(&group->state, memory_order_relaxed);
}

static struct wp_redis_group *
add_group(struct wp_lease_redis *redis, const struct wp_redis_config *config,
          struct wp_str key, struct wp_err *err)
{
    uint32_t n = atomic_load(&redis->n_groups);
    struct wp_redis_group *group = &redis->groups[n];
    struct wp_redis_hooks hooks = redis->hooks;

    if (n == WP_REDIS_GROUPS_MAX) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                         "the pools are on more than %d redis servers",
                         WP_REDIS_GROUPS_MAX);
        return NULL;
    }
    hooks.ctx = group;
    hooks.on_server = on_server;
    group->redis = redis;
    group->number = n;
    (void)pthread_mutex_init(&group->lock, NULL);
    if (wp_redis_links_create(config, &hooks, key, redis->n_links,
                              &group->links, err) != WP_OK) {
        (void)pthread_mutex_destroy(&group->lock);
        return NULL;
    }
    atomic_store(&redis->n_groups, n + 1);
    return group;
}

/* One that has ended, or a new one. */
static struct wp_redis_group *
begin_group(struct wp_lease_redis *redis, const struct wp_redis_config *config,
            struct wp_str key, struct wp_err *err)
{
    struct wp_redis_group *group = NULL;

    for (uint32_t i = 0; i < atomic_load(&redis->n_groups); i++) {
        if (state_of(&redis->groups[i]) == WP_REDIS_GROUP_FREE) {
            group = &redis->groups[i];
            break;
        }
    }
    if (group == NULL) {
        group = add_group(redis, config, key, err);
    } else if (wp_redis_links_reopen(group->links, &config->server, err) !=
               WP_OK) {
        group = NULL;
    }
    if (group != NULL) {
        group->server = config->server;
        atomic_store(&group->state, WP_REDIS_GROUP_LIVE);
    }
    return group;
}

static struct wp_redis_group *
group_of(struct wp_lease_redis *redis, const struct wp_redis_server *server,
         struct wp_str key, struct wp_err *err)
{
    struct wp_redis_config config = redis->config.redis;
    struct wp_redis_group *group = NULL;

    for (uint32_t i = 0; i < atomic_load(&redis->n_groups); i++) {
        if (state_of(&redis->groups[i]) == WP_REDIS_GROUP_LIVE &&
            wp_redis_server_eq(&redis->groups[i].server, server)) {
            group = &redis->groups[i];
        }
    }
    if (group == NULL) {
        config.router = NULL;
        config.server = *server;
        group = begin_group(redis, &config, key, err);
    }
    if (group != NULL) {
        group->used_ns = wp_clock_mono_ns(wp_clock_system());
    }
    return group;
}

static bool
has_room(struct wp_lease_redis *redis)
{
    uint32_t n = atomic_load(&redis->n_groups);

    for (uint32_t i = 0; i < n; i++) {
        if (state_of(&redis->groups[i]) == WP_REDIS_GROUP_FREE) {
            return true;
        }
    }
    return n < WP_REDIS_GROUPS_MAX;
}

/* No pool is in it, nor has been for a while. */
static bool
is_unused(struct wp_redis_group *group, int64_t now_ns)
{
    struct wp_lease_redis *redis = group->redis;

    if (state_of(group) != WP_REDIS_GROUP_LIVE || group->pins > 0 ||
        (now_ns - group->used_ns < redis->config.server_idle_ns &&
         has_room(redis))) {
        return false;
    }
    for (uint32_t i = 0; i < wp_redis_pools_len(redis); i++) {
        if (atomic_load(&redis->pools[i].group) == group) {
            return false;
        }
    }
    return wp_redis_links_are_quiet(group->links);
}

/* --- pools --- */

static void
unpin(struct wp_lease_redis *redis, struct wp_redis_group *group)
{
    (void)pthread_mutex_lock(&redis->groups_lock);
    group->pins--;
    (void)pthread_mutex_unlock(&redis->groups_lock);
}

struct wp_redis_group *
wp_redis_pool_place(struct wp_lease_redis *redis, struct wp_redis_pool *pool,
                    const struct wp_redis_server *server, struct wp_err *err)
{
    struct wp_str key = {pool->key, pool->key_len};
    struct wp_redis_group *before = atomic_load(&pool->group);
    struct wp_redis_group *group;

    if (!redis->config.redis.cluster) {
        return before;
    }
    (void)pthread_mutex_lock(&redis->groups_lock);
    group = group_of(redis, server, key, err);
    if (group != NULL) {
        group->pins++;
    }
    (void)pthread_mutex_unlock(&redis->groups_lock);
    if (group == NULL) {
        return NULL;
    }
    atomic_store(&pool->misplaced, false);
    if (group != before) {
        /* No commits between the two: what comes after a recovery only. */
        if (before != NULL) {
            wp_redis_pool_doubt(redis, pool, 0);
        }
        atomic_store(&pool->group, group);
    }
    unpin(redis, group);
    return group;
}

struct wp_redis_group *
wp_redis_group_for(struct wp_redis_group *group,
                   const struct wp_redis_redirect *redirect)
{
    struct wp_lease_redis *redis = group->redis;
    struct wp_redis_server server = redirect->server;
    struct wp_redis_group *other;
    struct wp_err err;

    if (!redis->config.redis.cluster) {
        return NULL;
    }
    (void)pthread_mutex_lock(&redis->groups_lock);
    if (server.host[0] == '\0') {
        memcpy(server.host, group->server.host, sizeof server.host);
    }
    other = group_of(redis, &server, WP_STR(""), &err);
    (void)pthread_mutex_unlock(&redis->groups_lock);
    return other;
}

void
wp_redis_pool_misplaced(struct wp_lease_redis *redis,
                        struct wp_redis_pool *pool)
{
    if (!atomic_exchange(&pool->misplaced, true)) {
        (void)pthread_mutex_lock(&redis->groups_lock);
        (void)pthread_cond_signal(&redis->groups_cond);
        (void)pthread_mutex_unlock(&redis->groups_lock);
    }
}

static bool
is_down(struct wp_redis_group *group)
{
    struct wp_redis_stats stats;

    wp_redis_links_read_stats(group->links, &stats);
    return stats.links_up == 0 || stats.breaker_open;
}

/* Where the router says that the pool is; it may wait for an answer. */
static bool
find_pool(struct wp_lease_redis *redis, const struct wp_redis_pool *pool,
          struct wp_redis_server *out)
{
    const struct wp_redis_router *router = redis->config.redis.router;
    struct wp_err err;

    return router->find(router->self, (struct wp_str){pool->key, pool->key_len},
                        out, &err) == WP_OK;
}

/* Only the placing thread ends groups, a step at a look: threads that are just
 * connecting are not waited for. */
static void
end_group(struct wp_redis_group *group)
{
    struct wp_lease_redis *redis = group->redis;
    char text[WP_REDIS_HOST_MAX + 16];

    if (!wp_redis_links_close(group->links)) {
        return;
    }
    (void)pthread_mutex_lock(&group->lock);
    group->run_id[0] = '\0';
    (void)pthread_mutex_unlock(&group->lock);
    WP_REDIS_COUNT(redis->groups_ended);
    (void)pthread_mutex_lock(&redis->groups_lock);
    (void)wp_redis_server_text(&group->server, text);
    atomic_store(&group->state, WP_REDIS_GROUP_FREE);
    (void)pthread_mutex_unlock(&redis->groups_lock);
    wp_log_info("no pool is on this redis server any more",
                wp_kv_str("server", text));
}

static void
end_unused(struct wp_lease_redis *redis)
{
    for (uint32_t i = 0; i < atomic_load(&redis->n_groups); i++) {
        struct wp_redis_group *group = &redis->groups[i];
        bool ends;

        (void)pthread_mutex_lock(&redis->groups_lock);
        if (is_unused(group, wp_clock_mono_ns(wp_clock_system()))) {
            atomic_store(&group->state, WP_REDIS_GROUP_ENDING);
        }
        ends = state_of(group) == WP_REDIS_GROUP_ENDING;
        (void)pthread_mutex_unlock(&redis->groups_lock);
        if (ends) {
            end_group(group);
        }
    }
}

/* The router may have heard of a new master before the old one is told, which
 * until then takes commits that will be lost: the links leave it now. */
static void
follow_master(struct wp_lease_redis *redis)
{
    struct wp_redis_server server;

    if (find_pool(redis, &redis->pools[0], &server)) {
        wp_redis_links_lead_to(redis->groups[0].links, &server);
    }
}

/* True when every pool is where it should be. */
static bool
place_pools(struct wp_lease_redis *redis, int64_t *doubted_ns)
{
    const struct wp_redis_router *router = redis->config.redis.router;
    int64_t now_ns = wp_clock_mono_ns(wp_clock_system());
    bool doubt = now_ns - *doubted_ns >= DOWN_MS * WP_NS_PER_MS;
    bool all = true;

    for (uint32_t i = 0;
         i < wp_redis_pools_len(redis) && !atomic_load(&redis->stop); i++) {
        struct wp_redis_pool *pool = &redis->pools[i];
        struct wp_redis_group *group = atomic_load(&pool->group);
        struct wp_redis_server server;
        struct wp_err err;

        if (group != NULL && doubt && is_down(group)) {
            *doubted_ns = now_ns;
            router->doubt(router->self, WP_STR(""));
        }
        if (!find_pool(redis, pool, &server) ||
            wp_redis_pool_place(redis, pool, &server, &err) == NULL) {
            all = false;
        }
    }
    return all;
}

static void *
place_run(void *arg)
{
    struct wp_lease_redis *redis = arg;
    int64_t doubted_ns = 0;

    while (!atomic_load(&redis->stop)) {
        bool all = true;
        struct timespec until;
        int64_t at_ns;

        if (redis->config.redis.cluster) {
            all = place_pools(redis, &doubted_ns);
            end_unused(redis);
        } else {
            follow_master(redis);
        }
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        at_ns = until.tv_sec * WP_NS_PER_S + until.tv_nsec +
                (all ? LOOK_MS : SOON_MS) * WP_NS_PER_MS;
        until.tv_sec = at_ns / WP_NS_PER_S;
        until.tv_nsec = at_ns % WP_NS_PER_S;
        (void)pthread_mutex_lock(&redis->groups_lock);
        if (!atomic_load(&redis->stop)) {
            (void)pthread_cond_timedwait(&redis->groups_cond,
                                         &redis->groups_lock, &until);
        }
        (void)pthread_mutex_unlock(&redis->groups_lock);
    }
    return NULL;
}

/* --- life --- */

enum wp_status
wp_redis_groups_init(struct wp_lease_redis *redis, struct wp_err *err)
{
    const struct wp_redis_config *config = &redis->config.redis;
    struct wp_str key = {redis->pools[0].key, redis->pools[0].key_len};
    struct wp_redis_group *group;

    if (!config->cluster) {
        group = begin_group(redis, config, key, err);
        if (group == NULL) {
            return WP_RESOURCE_EXHAUSTED;
        }
        for (uint32_t i = 0; i < wp_redis_pools_len(redis); i++) {
            atomic_store(&redis->pools[i].group, group);
        }
    }
    if (config->router != NULL) {
        int rc = pthread_create(&redis->placer, NULL, place_run, redis);

        redis->placer_runs = rc == 0;
        if (rc != 0) {
            return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, rc,
                              "a thread for redis");
        }
        (void)pthread_setname_np(redis->placer, "redis-place");
    }
    return WP_OK;
}

void
wp_redis_groups_fini(struct wp_lease_redis *redis)
{
    atomic_store(&redis->stop, true);
    if (redis->placer_runs) {
        (void)pthread_mutex_lock(&redis->groups_lock);
        (void)pthread_cond_signal(&redis->groups_cond);
        (void)pthread_mutex_unlock(&redis->groups_lock);
        (void)pthread_join(redis->placer, NULL);
    }
    /* A reading thread may send on the links of another group. */
    for (uint32_t i = 0; i < atomic_load(&redis->n_groups); i++) {
        wp_redis_links_stop(redis->groups[i].links);
    }
    for (uint32_t i = 0; i < atomic_load(&redis->n_groups); i++) {
        wp_redis_links_destroy(redis->groups[i].links);
        (void)pthread_mutex_destroy(&redis->groups[i].lock);
    }
}

void
wp_redis_groups_read_stats(struct wp_lease_redis *redis,
                           struct wp_lease_redis_stats *out)
{
    struct wp_redis_stats *sum = &out->redis;

    out->servers_ended = atomic_load(&redis->groups_ended);
    for (uint32_t i = 0; i < atomic_load(&redis->n_groups); i++) {
        struct wp_redis_stats one;

        wp_redis_links_read_stats(redis->groups[i].links, &one);
        if (atomic_load(&redis->groups[i].state) == WP_REDIS_GROUP_LIVE) {
            out->servers++;
            sum->links += one.links;
            sum->links_up += one.links_up;
            sum->breaker_open = sum->breaker_open || one.breaker_open;
        }
        sum->connects += one.connects;
        sum->connect_failures += one.connect_failures;
        sum->disconnects += one.disconnects;
        sum->timeouts += one.timeouts;
        sum->refused += one.refused;
        sum->full += one.full;
        sum->unknown += one.unknown;
    }
}
