#include "allocator/daemon/daemon.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/conf/paths.h"
#include "allocator/daemon/access.h"
#include "allocator/daemon/backend.h"
#include "allocator/daemon/cluster.h"
#include "allocator/daemon/core.h"
#include "allocator/daemon/files.h"
#include "allocator/daemon/keeper.h"
#include "allocator/daemon/leave.h"
#include "allocator/daemon/locks.h"
#include "allocator/daemon/machine.h"
#include "allocator/daemon/pools.h"
#include "allocator/daemon/servers.h"
#include "allocator/daemon/store.h"
#include "allocator/services/services.h"
#include "pool/base/log.h"

enum {
    /* Posts that may wait for a loop: SetPool, Drain and the like. */
    MESSAGES = 1024,
};

struct wp_daemon {
    int argc;
    char *const *argv;
    struct wp_daemon_core core; /* Lent to the parts. */
    struct wp_daemon_access access;
    struct wp_daemon_locks locks;
    struct wp_manifest *manifest;
    struct wp_daemon_backend *maker;   /* Of sandboxes: this, or */
    struct wp_daemon_cluster *cluster; /* this; else NULL. */
    struct wp_backend backend;         /* The port to either. */
    struct wp_daemon_store *store;
    uint32_t restored; /* Records that the store had at the start. */
    struct wp_loop *http_loop;
    /* It has the locks, and serves while it takes up sandboxes. */
    bool keeps_later;
    struct wp_daemon_follower *follower; /* NULL: it is the keeper. */
    struct wp_daemon_servers *servers;
    bool leaves_ready; /* At the end, sandboxes that were ready run on. */
};

/* --- Settings, directories and their locks --- */

static enum wp_status
create_access(struct wp_daemon *daemon, struct wp_err *err)
{
    return wp_daemon_access_read(&daemon->access, daemon->core.conf, err);
}

static void
destroy_access(struct wp_daemon *daemon)
{
    wp_daemon_access_forget(&daemon->access);
}

static enum wp_status
create_dirs(struct wp_daemon *daemon, struct wp_err *err)
{
    const struct wp_conf *conf = daemon->core.conf;
    enum wp_status status = wp_daemon_make_dir(conf->runtime_dir, 0755, err);
    bool follows = false;

    if (status == WP_OK) {
        /* Other users pass through it to their sandboxes' sockets. */
        status = wp_daemon_make_dir(conf->state_dir, 0711, err);
    }
    /* In a cluster they are a Pod's own. */
    if (status == WP_OK && !wp_conf_is_cluster(conf)) {
        status = wp_paths_check_dir(conf->runtime_dir, err);
    }
    if (status == WP_OK && !wp_conf_is_cluster(conf)) {
        status = wp_paths_check_dir(conf->state_dir, err);
    }
    if (status == WP_OK && geteuid() == 0 && wp_conf_is_local(conf)) {
        status = wp_daemon_check_passable(conf->state_dir, err);
    }
    if (status == WP_OK) {
        status = conf->lease_store == WP_CONF_STORE_REDIS &&
                         !wp_conf_is_cluster(conf)
                     ? wp_daemon_lock_shared(&daemon->locks, &follows, err)
                     : wp_daemon_lock(&daemon->locks, err);
    }
    if (status == WP_OK && conf->lease_store == WP_CONF_STORE_REDIS &&
        !wp_conf_is_cluster(conf)) {
        status = wp_daemon_locks_join(&daemon->locks, err);
    }
    if (status == WP_OK) {
        status = wp_daemon_access_token(&daemon->access, conf, err);
    }
    /* Where leases outlive the daemon, it can serve them before it has looked
     * at the sandboxes. Where none was left there is nothing to serve, and a
     * machine that cannot make any is told before anybody counts on it. */
    daemon->keeps_later = status == WP_OK && !follows &&
                          conf->lease_store != WP_CONF_STORE_MEMORY &&
                          !wp_conf_is_cluster(conf) && wp_daemon_has_left(conf);
    /* In a cluster the leader is the keeper. */
    atomic_init(&daemon->core.keeper,
                !follows && !daemon->keeps_later && !wp_conf_is_cluster(conf));
    return status;
}

static void
destroy_dirs(struct wp_daemon *daemon)
{
    wp_daemon_unlock(&daemon->locks);
}

static enum wp_status
create_manifest(struct wp_daemon *daemon, struct wp_err *err)
{
    daemon->manifest = wp_daemon_read_manifests(daemon->core.conf, err);
    return daemon->manifest != NULL ? WP_OK : err->status;
}

static void
destroy_manifest(struct wp_daemon *daemon)
{
    wp_manifest_destroy(daemon->manifest);
}

static enum wp_status
create_signer(struct wp_daemon *daemon, struct wp_err *err)
{
    const struct wp_conf *conf = daemon->core.conf;
    char dir[WP_CONF_TEXT_MAX + sizeof "/identity"];
    const struct wp_signer_config config = {
        .dir = wp_conf_is_cluster(conf) ? NULL : dir,
        .issuer = conf->identity_issuer,
        .ttl_ns = conf->identity_ttl,
        .key_turn_ns = conf->identity_key_rotation,
        .clock = wp_clock_system(),
    };

    if (wp_conf_is_cluster(conf) && conf->identity_secret[0] == '\0') {
        return WP_OK;
    }
    (void)snprintf(dir, sizeof dir, "%s/identity", conf->state_dir);
    daemon->core.signer = wp_signer_create(&config, err);
    return daemon->core.signer != NULL ? WP_OK : err->status;
}

static void
destroy_signer(struct wp_daemon *daemon)
{
    wp_signer_destroy(daemon->core.signer);
}

static enum wp_status
create_exporter(struct wp_daemon *daemon, struct wp_err *err)
{
    const struct wp_exporter_config config = {
        .endpoint = daemon->core.conf->otlp_endpoint,
        .version = WP_VERSION,
        .clock = wp_clock_system(),
    };

    if (config.endpoint[0] == '\0') {
        return WP_OK;
    }
    daemon->core.exporter = wp_exporter_create(&config, err);
    return daemon->core.exporter != NULL ? WP_OK : err->status;
}

static enum wp_status
start_exporter(struct wp_daemon *daemon, struct wp_err *err)
{
    return daemon->core.exporter != NULL
               ? wp_exporter_start(daemon->core.exporter, err)
               : WP_OK;
}

static void
destroy_exporter(struct wp_daemon *daemon)
{
    wp_exporter_destroy(daemon->core.exporter);
}

/* --- What makes sandboxes --- */

static enum wp_status
create_cluster(struct wp_daemon *daemon, struct wp_err *err)
{
    daemon->cluster = wp_daemon_cluster_create(&daemon->core, err);
    if (daemon->cluster == NULL) {
        return err->status;
    }
    daemon->backend = wp_daemon_cluster_port(daemon->cluster);
    return WP_OK;
}

/* A follower's is opened when it takes over; that it can be is seen now, which
 * takes longer than all else then. Whose earlier self has left sandboxes need
 * not look. */
static enum wp_status
create_backend(struct wp_daemon *daemon, struct wp_err *err)
{
    if (wp_conf_is_cluster(daemon->core.conf)) {
        return create_cluster(daemon, err);
    }
    daemon->maker = wp_daemon_backend_create(&daemon->core, daemon->manifest,
                                             &daemon->locks, err);
    if (daemon->maker == NULL) {
        return err->status;
    }
    daemon->backend = wp_daemon_backend_port(daemon->maker);
    if (daemon->keeps_later) {
        return WP_OK;
    }
    return wp_daemon_is_keeper(&daemon->core)
               ? wp_daemon_backend_open(daemon->maker, false, err)
               : wp_daemon_backend_probe(daemon->maker, err);
}

static void
stop_backend(struct wp_daemon *daemon)
{
    wp_daemon_backend_stop(daemon->maker, daemon->leaves_ready);
}

static void
destroy_backend(struct wp_daemon *daemon)
{
    wp_daemon_backend_destroy(daemon->maker);
}

/* --- What keeps leases --- */

static enum wp_status
create_store(struct wp_daemon *daemon, struct wp_err *err)
{
    daemon->store = wp_daemon_store_open(&daemon->core, daemon->manifest,
                                         &daemon->locks, err);
    if (daemon->store == NULL) {
        return err->status;
    }
    /* Should the start fail. */
    daemon->leaves_ready = wp_daemon_store_port(daemon->store).ops->durable;
    return WP_OK;
}

static enum wp_status
start_store(struct wp_daemon *daemon, struct wp_err *err)
{
    struct wp_daemon_redis *redis = wp_daemon_store_redis(daemon->store);

    return redis != NULL ? wp_daemon_redis_follow(redis, err) : WP_OK;
}

static void
stop_store(struct wp_daemon *daemon)
{
    wp_daemon_store_close(daemon->store);
}

static void
destroy_store(struct wp_daemon *daemon)
{
    wp_daemon_store_destroy(daemon->store);
}

/* --- The threads, and what the control thread does in a turn --- */

static int64_t
run_turn(void *ctx)
{
    struct wp_daemon *daemon = ctx;
    struct wp_lease_meter *meter = wp_daemon_store_meter(daemon->store);
    struct wp_daemon_redis *redis = wp_daemon_store_redis(daemon->store);
    int64_t redis_ns;
    int64_t pools_ns;
    int64_t services_ns;

    wp_lease_meter_gather(true);
    wp_daemon_cluster_turn(daemon->cluster, daemon->servers);
    redis_ns = redis != NULL ? wp_daemon_redis_run(redis) : WP_TIME_NEVER;
    pools_ns = wp_pools_run(daemon->core.pools);
    services_ns = wp_services_run(daemon->core.services);
    if (meter != NULL && wp_lease_meter_wants_flush(meter)) {
        wp_lease_meter_flush(meter);
    }
    wp_lease_meter_gather(false); /* Messages come without a turn. */
    pools_ns = pools_ns < redis_ns ? pools_ns : redis_ns;
    return pools_ns < services_ns ? pools_ns : services_ns;
}

static enum wp_status
create_loops(struct wp_daemon *daemon, struct wp_err *err)
{
    daemon->core.loop = wp_loop_create("control", MESSAGES, err);
    daemon->http_loop = wp_loop_create("http", MESSAGES, err);
    if (daemon->core.loop == NULL || daemon->http_loop == NULL) {
        return err->status;
    }
    daemon->core.control = wp_control_create(
        &(struct wp_control_config){.loop = daemon->core.loop,
                                    .clock = wp_clock_system(),
                                    .run = run_turn,
                                    .ctx = daemon},
        err);
    return daemon->core.control != NULL ? WP_OK : err->status;
}

static enum wp_status
start_control(struct wp_daemon *daemon, struct wp_err *err)
{
    return wp_loop_start(daemon->core.loop, err);
}

static enum wp_status
start_http(struct wp_daemon *daemon, struct wp_err *err)
{
    return wp_loop_start(daemon->http_loop, err);
}

static void
stop_loops(struct wp_daemon *daemon)
{
    wp_loop_stop(daemon->http_loop);
    wp_loop_stop(daemon->core.loop);
}

static void
destroy_loops(struct wp_daemon *daemon)
{
    wp_control_destroy(daemon->core.control);
    wp_loop_destroy(daemon->http_loop);
    wp_loop_destroy(daemon->core.loop);
}

/* --- The core, with the store's records --- */

static enum wp_status
create_pools(struct wp_daemon *daemon, struct wp_err *err)
{
    struct wp_lease_store store = wp_daemon_store_port(daemon->store);
    bool key_made = false;
    enum wp_status status =
        wp_daemon_pools_create(&daemon->core, daemon->manifest, daemon->backend,
                               store, &key_made, err);

    if (status == WP_OK && daemon->keeps_later) {
        wp_pools_hold_unseen(daemon->core.pools);
    }
    return status == WP_OK ? wp_daemon_restore(&daemon->core, store, key_made,
                                               &daemon->restored, err)
                           : status;
}

static void
destroy_pools(struct wp_daemon *daemon)
{
    wp_daemon_cluster_destroy(daemon->cluster); /* It uses the pools. */
    wp_pools_destroy(daemon->core.pools);
}

/* --- Which daemon makes the sandboxes --- */

static struct wp_daemon_keeping
keeping_of(struct wp_daemon *daemon)
{
    return (struct wp_daemon_keeping){&daemon->core, &daemon->locks,
                                      daemon->maker, daemon->store};
}

static enum wp_status
start_backend(struct wp_daemon *daemon, struct wp_err *err)
{
    struct wp_daemon_keeping keeping = keeping_of(daemon);

    return wp_daemon_is_keeper(&daemon->core)
               ? wp_daemon_keep(&keeping, daemon->restored, err)
               : WP_OK;
}

static enum wp_status
start_keeper(struct wp_daemon *daemon, struct wp_err *err)
{
    struct wp_daemon_keeping keeping = keeping_of(daemon);

    if (daemon->cluster != NULL) {
        return wp_daemon_cluster_start(
            daemon->cluster, wp_daemon_store_redis(daemon->store), err);
    }
    if (wp_daemon_is_keeper(&daemon->core)) {
        return WP_OK;
    }
    daemon->follower =
        daemon->keeps_later
            ? wp_daemon_keep_later(&keeping, daemon->restored, err)
            : wp_daemon_follow(&keeping, err);
    return daemon->follower != NULL ? WP_OK : err->status;
}

static void
stop_keeper(struct wp_daemon *daemon)
{
    wp_daemon_unfollow(&daemon->follower);
    wp_daemon_redis_quit(wp_daemon_store_redis(daemon->store));
    wp_daemon_cluster_stop(daemon->cluster);
}

/* --- The services, and the servers that offer them --- */

static bool
post(void *ctx, struct wp_message message)
{
    struct wp_daemon_core *core = ctx;

    return wp_loop_post(core->loop, message.run, message.ctx, message.a,
                        message.b);
}

/* An admin's Drain of the whole daemon: claims are refused before it is
 * answered; the rest is for main, which waits for this signal. */
static void
drain_asked(void *ctx, int64_t grace_ns)
{
    struct wp_daemon_core *core = ctx;

    wp_daemon_refuse_claims(core);
    atomic_store_explicit(&core->drain_grace_ns, grace_ns,
                          memory_order_release);
    (void)kill(getpid(), SIGUSR1);
}

static enum wp_status
create_services(struct wp_daemon *daemon, struct wp_err *err)
{
    struct wp_services_config config;

    wp_services_config_init(&config);
    config.pools = daemon->core.pools;
    config.clock = wp_clock_system();
    config.waiting_max = (uint32_t)(daemon->core.conf->rpc_waiting_max > 0
                                        ? daemon->core.conf->rpc_waiting_max
                                        : daemon->core.conf->rpc_calls_max / 2);
    config.post = post;
    config.wake = wp_daemon_wake;
    config.drain = drain_asked;
    config.shape = wp_daemon_shape;
    config.ctx = &daemon->core;
    config.serves = wp_daemon_cluster_serves(daemon->cluster);
    config.targets_are_kept =
        daemon->cluster != NULL
            ? "target: in a cluster it is spec.replicas of the "
              "SandboxWarmPool; "
              "kubectl scale swp/NAME --replicas=N changes it"
            : NULL;
    config.pools_are_kept =
        daemon->cluster != NULL
            ? "pool: in a cluster it is a SandboxWarmPool object; kubectl "
              "apply "
              "-f FILE makes one, kubectl delete swp/NAME removes it"
            : NULL;
    daemon->core.services = wp_services_create(&config, err);
    return daemon->core.services != NULL ? WP_OK : err->status;
}

static void
destroy_services(struct wp_daemon *daemon)
{
    wp_services_destroy(daemon->core.services);
}

static enum wp_status
create_servers(struct wp_daemon *daemon, struct wp_err *err)
{
    const struct wp_daemon_served served = {
        .core = &daemon->core,
        .access = &daemon->access,
        .backend = daemon->maker,
        .cluster = daemon->cluster,
        .backend_name = daemon->backend.ops->name,
        .store = daemon->store,
        .services = daemon->core.services,
        .http_loop = daemon->http_loop,
    };

    daemon->servers = wp_daemon_servers_create(&served, err);
    return daemon->servers != NULL ? WP_OK : err->status;
}

static enum wp_status
start_servers(struct wp_daemon *daemon, struct wp_err *err)
{
    enum wp_status status;

    wp_control_wake(daemon->core.control); /* The first turn fills pools. */
    status = wp_daemon_servers_start(daemon->servers, err);
    if (status == WP_OK) {
        wp_control_wake(daemon->core.control);
        wp_daemon_notify("READY=1");
    }
    return status;
}

static void
stop_servers(struct wp_daemon *daemon)
{
    wp_daemon_servers_stop(daemon->servers);
}

static void
destroy_servers(struct wp_daemon *daemon)
{
    wp_daemon_servers_destroy(daemon->servers);
}

/* --- The order --- */

/* What is made, each standing on those above it. All is destroyed from the
 * bottom up, also when one of them could not be made: a destroy takes a part
 * that was not made. */
static const struct {
    enum wp_status (*create)(struct wp_daemon *daemon, struct wp_err *err);
    void (*destroy)(struct wp_daemon *daemon);
} parts[] = {
    {create_exporter, destroy_exporter}, /* the way of spans */
    {create_access, destroy_access},     /* tokens, identities */
    {create_dirs, destroy_dirs},         /* directories, the pid file */
    {create_manifest, destroy_manifest}, /* templates and pools */
    {create_signer, destroy_signer},     /* keys that sign for sandboxes */
    {create_backend, destroy_backend},   /* the machine, or a client */
    {create_store, destroy_store},       /* the way to the leases */
    {create_loops, destroy_loops},       /* control and http, not running */
    {create_pools, destroy_pools},       /* the core, with all records */
    {create_services, destroy_services}, /* calls of the API */
    {create_servers, destroy_servers},   /* sockets, bound */
};

/* What runs then, started from the top down. All is stopped from the bottom up,
 * also when one of them could not start: a stop takes what did not. */
static const struct {
    enum wp_status (*start)(struct wp_daemon *daemon, struct wp_err *err);
    void (*stop)(struct wp_daemon *daemon);
} runs[] = {
    {start_exporter, NULL},
    /* Hears other replicas; its last answers go to the core. */
    {start_store, stop_store},
    /* Control and http serve all below until that has stopped. */
    {NULL, stop_loops},
    /* Takes up or sweeps what an earlier daemon left; ends or leaves it. */
    {start_backend, stop_backend},
    {start_control, NULL},
    /* The cluster's thread, the follower's, the one that recovers pools. */
    {start_keeper, stop_keeper},
    {start_http, NULL},
    {start_servers, stop_servers},
};

void
wp_daemon_signals(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGHUP);
    (void)sigaddset(set, SIGUSR1); /* drain_asked, wp_daemon_shape */
}

static void
destroy_parts(struct wp_daemon *daemon)
{
    for (size_t i = WP_ARRAY_LEN(parts); i > 0; i--) {
        parts[i - 1].destroy(daemon);
    }
    explicit_bzero(daemon, sizeof *daemon);
    free(daemon);
}

struct wp_daemon *
wp_daemon_create(const struct wp_conf *conf, int argc, char *const *argv,
                 struct wp_err *err)
{
    struct wp_daemon *daemon = calloc(1, sizeof *daemon);

    if (daemon == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    daemon->argc = argc;
    daemon->argv = argv;
    daemon->core.conf = conf;
    /* The other flags begin as 0. */
    atomic_init(&daemon->core.drain_grace_ns, -1);
    wp_daemon_locks_init(&daemon->locks, conf->state_dir);
    for (size_t i = 0; i < WP_ARRAY_LEN(parts); i++) {
        if (parts[i].create(daemon, err) != WP_OK) {
            destroy_parts(daemon);
            return NULL;
        }
    }
    return daemon;
}

enum wp_status
wp_daemon_start(struct wp_daemon *daemon, struct wp_err *err)
{
    enum wp_status status = WP_OK;

    for (size_t i = 0; i < WP_ARRAY_LEN(runs) && status == WP_OK; i++) {
        if (runs[i].start != NULL) {
            status = runs[i].start(daemon, err);
        }
    }
    return status;
}

void
wp_daemon_destroy(struct wp_daemon *daemon)
{
    if (daemon == NULL) {
        return;
    }
    for (size_t i = WP_ARRAY_LEN(runs); i > 0; i--) {
        if (runs[i - 1].stop != NULL) {
            runs[i - 1].stop(daemon);
        }
    }
    destroy_parts(daemon);
}

/* --- Between start and end --- */

static bool
leave(struct wp_daemon *daemon, bool ends, int64_t lease_grace_ns)
{
    struct wp_daemon_leaving leaving = {
        .core = &daemon->core,
        .servers = daemon->servers,
        .cluster = daemon->cluster,
        .redis = wp_daemon_store_redis(daemon->store),
        .keeping = keeping_of(daemon),
        .follower = &daemon->follower,
    };

    wp_daemon_shape_close(&daemon->core);
    return wp_daemon_leave(&leaving, ends, lease_grace_ns,
                           &daemon->leaves_ready);
}

/* For the next start, when they have changed. */
static void
note_pools(struct wp_daemon *daemon)
{
    struct wp_daemon_redis *redis = wp_daemon_store_redis(daemon->store);
    struct wp_err err;

    /* Before that the keeper's start does it. */
    if (redis != NULL && daemon->cluster == NULL &&
        wp_daemon_is_keeper(&daemon->core) &&
        wp_daemon_redis_note_pools(redis, &err) != WP_OK) {
        wp_log_error("the pools' names cannot be kept for the next start",
                     wp_kv_err(&err));
    }
}

static void
reload(struct wp_daemon *daemon)
{
    wp_daemon_notify("RELOADING=1");
    wp_daemon_reload(&daemon->core, daemon->maker, daemon->argc, daemon->argv);
    note_pools(daemon);
    wp_daemon_notify("READY=1");
}

/* Until it is over. */
static bool
serve(struct wp_daemon *daemon)
{
    sigset_t set;

    wp_daemon_signals(&set);
    for (;;) {
        int sig = sigwaitinfo(&set, NULL);
        int64_t grace_ns = atomic_load_explicit(&daemon->core.drain_grace_ns,
                                                memory_order_acquire);

        if (wp_daemon_shape_run(&daemon->core, daemon->maker)) {
            note_pools(daemon);
        }
        if (sig == SIGHUP) {
            reload(daemon);
        } else if (sig == SIGTERM || sig == SIGINT) {
            return leave(daemon,
                         wp_conf_stop_leaves(daemon->core.conf) ==
                             WP_CONF_STOP_NOTHING,
                         0);
        } else if (sig == SIGUSR1 && grace_ns >= 0) {
            return leave(daemon, true, grace_ns);
        }
    }
}

bool
wp_daemon_run(struct wp_daemon *daemon)
{
    bool clean = serve(daemon);

    return clean &&
           !atomic_load_explicit(&daemon->core.failed, memory_order_relaxed);
}
