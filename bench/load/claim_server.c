/* bench/load/claim_server.c - the daemon's way of a claim, without sandboxes.
 *
 * The real transport, services, control thread and pool, over synthetic sandboxes
 * and the memory lease store: what lies between a client's request and its
 * answer is the product's, and nothing else is there.
 *
 *   claim_server --unix PATH [--ready 1024] [--no-token] [--control-core N]
 *
 * One pool, "default/bench". Prints "tcp 127.0.0.1:PORT" and, when its sandboxes
 * are ready, "ready"; serves until SIGTERM. */
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "allocator/threads/control.h"
#include "proto/loop/loop.h"
#include "allocator/grpc/server.h"
#include "allocator/services/services.h"
#include "bench/micro/synthetic_backend.h"
#include "pool/base/assert.h"
#include "pool/base/rng.h"
#include "pool/leases/memory.h"

enum {
    READY_WITHIN_MS = 30000
};

struct options {
    const char *unix_path;
    uint32_t ready;
    bool no_token;
    int control_core; /* -1: wherever the process may run. */
};

struct server {
    struct wp_loop *loop;
    struct wp_control *control;
    struct wp_pools *pools;
    struct wp_services *services;
    struct wp_rpc_server *rpc;
    struct wp_synthetic_backend backend;
    uint32_t pool_index;
    uint32_t ready;
};

static void
die(const struct wp_err *err)
{
    (void)fprintf(stderr, "claim_server: %s\n", err->msg);
    exit(1);
}

static struct options
parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"unix", required_argument, NULL, 'u'},
        {"ready", required_argument, NULL, 'r'},
        {"no-token", no_argument, NULL, 't'},
        {"control-core", required_argument, NULL, 'c'},
        {NULL, 0, NULL, 0},
    };
    struct options options = {.ready = 1024, .control_core = -1};
    uint64_t number = 0;
    bool ok = true;
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'u') {
            options.unix_path = optarg;
        } else if (option == 'r') {
            ok = wp_str_to_u64(wp_str_from(optarg), &number) && number > 0 &&
                 number <= WP_TARGET_MAX && ok;
            options.ready = (uint32_t)number;
        } else if (option == 't') {
            options.no_token = true;
        } else if (option == 'c') {
            ok = wp_str_to_u64(wp_str_from(optarg), &number) &&
                 number < CPU_SETSIZE && ok;
            options.control_core = (int)number;
        } else {
            ok = false;
        }
    }
    if (!ok || options.unix_path == NULL) {
        (void)fprintf(stderr,
                      "usage: %s --unix PATH [--ready N] [--no-token]"
                      " [--control-core N]\n",
                      argv[0]);
        exit(2);
    }
    return options;
}

/* --- The daemon's wiring, shortened. --- */

static int64_t
turn(void *ctx)
{
    struct server *server = ctx;
    int64_t pools_due_ns = wp_pools_run(server->pools);
    int64_t services_due_ns = wp_services_run(server->services);

    return pools_due_ns < services_due_ns ? pools_due_ns : services_due_ns;
}

static void
wake(void *ctx)
{
    struct server *server = ctx;

    wp_control_wake(server->control);
}

static void
changed(void *ctx, uint32_t pool_index)
{
    struct server *server = ctx;

    wp_services_changed(server->services, pool_index);
}

static bool
post(void *ctx, struct wp_message message)
{
    struct server *server = ctx;

    return wp_loop_post(server->loop, message.run, message.ctx, message.a,
                        message.b);
}

static void
drain(void *ctx, int64_t grace_ns)
{
    (void)ctx;
    (void)grace_ns; /* Nobody asks a benchmark to drain. */
}

static void
create_pools(struct server *server, const struct options *options)
{
    struct wp_pools_config config = {
        .slots_max = options->ready * 2 + 1024,
        .claims_max = options->ready * 2 + 1024,
        .clock = wp_clock_system(),
        .backend = wp_synthetic_backend(&server->backend),
        .store = wp_lease_memory(),
        .no_tokens = options->no_token,
        .wake = wake,
        .changed = changed,
        .ctx = server,
    };
    struct wp_pool_spec spec;
    struct wp_err err;

    wp_random_bytes(config.token_key, sizeof(config.token_key));
    wp_random_bytes(&config.hash_key, sizeof(config.hash_key));
    wp_random_bytes(&config.seed, sizeof(config.seed));
    server->pools = wp_pools_create(&config, &err);
    if (server->pools == NULL) {
        die(&err);
    }
    server->backend.pools = server->pools;
    wp_pool_spec_init(&spec);
    strcpy(spec.pool_namespace, "default");
    strcpy(spec.name, "bench");
    strcpy(spec.template_name, "bench");
    spec.target = options->ready;
    spec.create_inflight_max = options->ready;
    if (wp_pools_add(server->pools, &spec, &server->pool_index, &err) !=
        WP_OK) {
        die(&err);
    }
    server->ready = options->ready;
}

static void
create_services(struct server *server)
{
    struct wp_services_config config;
    struct wp_err err;

    wp_services_config_init(&config);
    config.pools = server->pools;
    config.clock = wp_clock_system();
    config.post = post;
    config.wake = wake;
    config.drain = drain;
    config.ctx = server;
    server->services = wp_services_create(&config, &err);
    if (server->services == NULL) {
        die(&err);
    }
}

static void
create_control(struct server *server)
{
    struct wp_control_config config = {
        .clock = wp_clock_system(),
        .run = turn,
        .ctx = server,
    };
    struct wp_err err;

    server->loop = wp_loop_create("control", 1024, &err);
    if (server->loop == NULL) {
        die(&err);
    }
    config.loop = server->loop;
    server->control = wp_control_create(&config, &err);
    if (server->control == NULL) {
        die(&err);
    }
}

/* A thread starts where its creator may run. */
static void
start_control(struct server *server, int core)
{
    struct wp_err err;
    cpu_set_t before;
    cpu_set_t set;

    (void)sched_getaffinity(0, sizeof(before), &before);
    if (core >= 0) {
        CPU_ZERO(&set);
        CPU_SET((size_t)core, &set);
        (void)sched_setaffinity(0, sizeof(set), &set);
    }
    if (wp_loop_start(server->loop, &err) != WP_OK) {
        die(&err);
    }
    (void)sched_setaffinity(0, sizeof(before), &before);
}

static void
start_rpc(struct server *server, const char *unix_path)
{
    struct wp_service allocator = wp_service_allocator(server->services);
    struct wp_service admin = wp_service_admin(server->services);
    static struct wp_service kept[2];
    static const struct wp_service *const services[] = {&kept[0], &kept[1]};
    static char address[256];
    static const char *listen[] = {address, "127.0.0.1:0"};
    struct wp_rpc_config config;
    struct wp_err err;

    kept[0] = allocator;
    kept[1] = admin;
    (void)snprintf(address, sizeof(address), "unix:%s", unix_path);
    wp_rpc_config_init(&config);
    config.listen = listen;
    config.n_listen = 2;
    config.anonymous = true;
    config.threads = 1;
    server->rpc = wp_rpc_server_create(&config, services, 2, &err);
    if (server->rpc == NULL ||
        wp_rpc_server_start(server->rpc, &err) != WP_OK) {
        die(&err);
    }
    (void)printf("tcp %s\n", wp_rpc_server_address(server->rpc, 1));
}

static void
await_ready(struct server *server)
{
    const struct timespec tick = {0, 1000 * 1000};
    struct wp_pool_stats stats;

    wake(server);
    for (int ms = 0; ms < READY_WITHIN_MS; ms++) {
        wp_pools_stats(server->pools, server->pool_index, &stats);
        if (stats.ready >= server->ready) {
            return;
        }
        nanosleep(&tick, NULL);
    }
    (void)fprintf(stderr, "claim_server: only %u of %u are ready\n",
                  stats.ready, server->ready);
    exit(1);
}

static void
end_services(void *ctx)
{
    struct server *server = ctx;

    wp_services_stop(server->services);
}

static void
end_pools(void *ctx)
{
    struct server *server = ctx;

    wp_pools_stop(server->pools);
    while (!wp_pools_quiet(server->pools)) {
        (void)wp_pools_run(server->pools);
    }
    wp_pools_check(server->pools);
}

int
main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    static struct server server;
    sigset_t signals;
    int signal_number;

    (void)signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* Before gRPC's threads. */
    create_control(&server); /* First: adding a pool wakes it. */
    create_pools(&server, &options);
    create_services(&server);
    start_control(&server, options.control_core);
    start_rpc(&server, options.unix_path);
    await_ready(&server);
    (void)printf("ready\n");
    (void)fflush(stdout);

    sigwait(&signals, &signal_number);
    wp_loop_call(server.loop, end_services, &server);
    wp_rpc_server_stop(server.rpc);
    wp_loop_call(server.loop, end_pools, &server);
    wp_loop_stop(server.loop);
    wp_services_destroy(server.services);
    wp_control_destroy(server.control);
    wp_loop_destroy(server.loop);
    wp_pools_destroy(server.pools);
    return 0;
}
