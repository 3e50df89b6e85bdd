/* The Redis store on a cluster whose nodes change their addresses again and
 * again: each is a server that it has not met, and the ones before are let go.
 * One real server has all addresses: links in the file system to its socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <unistd.h>

#include "tests/support/stores/redis_replica.h"

enum {
    ADDRESSES = 80, /* More than the store has places for servers. */
    AGENTS = 0,
};

struct world {
    struct redis_replica r;
    _Atomic(uint32_t) address; /* Where all keys are now. */
};

/* In place of a topology. */
static enum wp_status
find(void *self, struct wp_str key, struct wp_redis_server *out,
     struct wp_err *err)
{
    struct world *world = self;

    (void)key;
    (void)err;
    memset(out, 0, sizeof *out);
    (void)snprintf(out->path, sizeof out->path, "%s/at%u",
                   world->r.world.rig.dir, atomic_load(&world->address));
    return WP_OK;
}

static void
doubt(void *self, struct wp_str reply)
{
    (void)self;
    (void)reply;
}

static void
start(struct world *world, int64_t server_idle_ns)
{
    struct wp_redis_router router = {
        .self = world, .find = find, .doubt = doubt};
    struct wp_lease_redis_config config;

    memset(world, 0, sizeof *world);
    redis_world_start_server(&world->r.world, NULL, NULL);
    for (uint32_t i = 0; i < ADDRESSES; i++) {
        char path[107];

        (void)snprintf(path, sizeof path, "%s/at%u", world->r.world.rig.dir, i);
        assert_int_equal(symlink("0/s", path), 0);
    }
    config = redis_world_config_of(&world->r.world);
    config.redis.router = &router;
    config.redis.cluster = true;
    config.redis.commit_timeout_ns = 20 * WP_NS_PER_S;
    config.server_idle_ns = server_idle_ns;
    redis_world_open_store(&world->r.world, &config);
}

static void
ignore(void *ctx, const struct wp_lease_record *record)
{
    (void)ctx;
    (void)record;
}

/* All pools are at another address from now on, and recovered there. With no
 * place for one more server it waits for one. */
static void
move(struct world *world, uint32_t address)
{
    atomic_store(&world->address, address);
    for (uint32_t i = 0; i < REDIS_WORLD_POOLS; i++) {
        struct wp_err err;
        int64_t since = 0;

        while (wp_lease_redis_read_pool(world->r.world.redis,
                                        &redis_world_pools[i], ignore, NULL,
                                        &err) != WP_OK) {
            redis_rig_pause(&since, "a pool at its new address");
        }
    }
    redis_replica_recover(&world->r);
}

/* Of this process, with this name. */
static uint32_t
threads(const char *name)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    uint32_t n = 0;

    assert_non_null(tasks);
    while ((task = readdir(tasks)) != NULL) {
        char path[300];
        char found[32] = "";
        FILE *file;

        (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm",
                       task->d_name);
        file = fopen(path, "re"); /* NULL: it has just ended. */
        if (file != NULL) {
            n += fgets(found, sizeof found, file) != NULL &&
                 strncmp(found, name, strlen(name)) == 0;
            (void)fclose(file);
        }
    }
    (void)closedir(tasks);
    return n;
}

/* As the server counts them: the links, who recovers, and who asks. */
static uint32_t
connections(struct world *world)
{
    const char *at = strstr(
        redis_rig_must(&world->r.world.rig, 0, "INFO clients"), "_clients:");
    uint32_t n = 0;

    assert_non_null(at);
    assert_int_equal(sscanf(at, "_clients:%u", &n), 1);
    return n;
}

static void
claims_go_on_after_more_addresses_than_places(void **state)
{
    struct world world;

    (void)state;
    /* So long that only want of room ends what is not used. */
    start(&world, 3600 * WP_NS_PER_S);
    redis_replica_grant(&world.r, AGENTS, 1, 2);
    for (uint32_t i = 1; i < ADDRESSES; i++) {
        move(&world, i);
        if (i % 16 == 0) {
            redis_replica_check(&world.r, AGENTS, 1, 2);
        }
    }
    redis_replica_grant(&world.r, AGENTS, 3, 4);
    redis_replica_check(&world.r, AGENTS, 1, 4);
    assert_true(redis_world_stats_of(&world.r.world).servers_ended > 0);
    redis_replica_stop(&world.r);
}

static void
what_led_to_an_address_ends_when_it_is_not_used(void **state)
{
    struct world world;
    uint32_t links;

    (void)state;
    start(&world, 1);
    links = redis_world_stats_of(&world.r.world).redis.links;
    redis_replica_grant(&world.r, AGENTS, 1, 2);
    for (uint32_t i = 1; i < 8; i++) {
        move(&world, i);
    }
    move(&world, 0); /* A node may come back. */
    WAIT_UNTIL(redis_world_stats_of(&world.r.world).servers == 1);
    WAIT_UNTIL(threads("redis-read") == 1 && threads("redis-connect") == 1);
    redis_world_wait_until_up(&world.r.world);
    assert_int_equal(redis_world_stats_of(&world.r.world).redis.links, links);
    WAIT_UNTIL(connections(&world) == links + 2);
    redis_replica_check(&world.r, AGENTS, 1, 2);
    redis_replica_grant(&world.r, AGENTS, 3, 4);
    redis_replica_stop(&world.r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_go_on_after_more_addresses_than_places),
        cmocka_unit_test(what_led_to_an_address_ends_when_it_is_not_used),
    };

    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests_name("lease_redis_addresses", tests, NULL,
                                       NULL);
}
