/* The Redis store under the suite of all stores, over a Unix socket and over
 * loopback, alone and with a feed for others. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <unistd.h>

#include "allocator/stores/redis/store.h"
#include "tests/support/stores/redis_rig.h"
#include "tests/support/stores/store_conformance.h"

struct server {
    struct redis_rig rig;
    struct wp_lease_redis_config config;
    struct wp_lease_redis *redis;
};

static void
pass_over(void *ctx, const struct wp_lease_record *record)
{
    (void)ctx;
    (void)record;
}

static struct wp_lease_store
open_redis(void *ctx, bool fresh)
{
    struct server *server = ctx;
    struct wp_lease_redis_stats stats;
    struct wp_lease_store store;
    struct wp_err err = {0};
    int64_t since = 0;

    if (fresh) {
        (void)redis_rig_must(&server->rig, 0, "FLUSHALL");
    }
    if (wp_lease_redis_create(&server->config, &server->redis, &err) != WP_OK) {
        (void)fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    store = wp_lease_redis_store(server->redis);
    /* The suite loads what it wants to see; this learns the generation. */
    if (store.ops->load(store.self, pass_over, NULL, &err) != WP_OK) {
        (void)fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    for (;;) {
        wp_lease_redis_read_stats(server->redis, &stats);
        if (stats.redis.links_up == stats.redis.links) {
            return store;
        }
        redis_rig_pause(&since, "connections");
    }
}

static void
close_redis(void *ctx)
{
    struct server *server = ctx;

    wp_lease_redis_destroy(server->redis);
    server->redis = NULL;
}

int
main(void)
{
    static struct server server;
    static const struct wp_lease_redis_pool pools[] = {
        {"default", "agents"},
        {"team-a", "agents"},
    };
    struct wp_store_factory factory = {.name = "redis, Unix socket",
                                       .durable = true,
                                       .shared = true,
                                       .ctx = &server,
                                       .open = open_redis,
                                       .close = close_redis};
    int failed;

    if (!redis_rig_available()) {
        return 77;
    }
    (void)signal(SIGPIPE, SIG_IGN); /* As the daemon does. */
    redis_rig_init(&server.rig);
    (void)redis_rig_start(&server.rig, NULL);
    server.config = (struct wp_lease_redis_config){
        .pools = pools, .n_pools = 2, .threads = 4};
    (void)snprintf(server.config.redis.server.path,
                   sizeof server.config.redis.server.path, "%s",
                   server.rig.servers[0].socket);
    failed = wp_store_conformance_run(&factory);

    factory.name = "redis, loopback, with a feed";
    server.config.replicas = true;
    server.config.redis.server = (struct wp_redis_server){
        .host = "127.0.0.1", .port = server.rig.servers[0].port};
    failed += wp_store_conformance_run(&factory);
    redis_rig_fini(&server.rig);
    return failed;
}
