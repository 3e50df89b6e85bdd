#include "allocator/daemon/daemon.h"

#include <stdlib.h>
#include <unistd.h>

#include "allocator/conf/budget.h"
#include "allocator/daemon/cluster.h"
#include "allocator/daemon/parts.h"
#include "allocator/daemon/redis.h"
#include "allocator/services/watch.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"

/* --- What the parts call each other by --- */

static int64_t
run_turn(void *ctx)
{
    struct wp_daemon *daemon = ctx;
    int64_t redis_ns;
    int64_t pools_ns;
    int64_t services_ns;

    wp_daemon_cluster_turn(daemon->cluster);
    redis_ns = daemon->redis != NULL ? wp_daemon_redis_run(daemon->redis)
                                     : WP_TIME_NEVER;
    pools_ns = wp_pools_run(daemon->pools);
    services_ns = wp_services_run(daemon->services);
    if (daemon->meter != NULL && wp_lease_meter_wants_flush(daemon->meter)) {
        wp_lease_meter_flush(daemon->meter);
    }
    pools_ns = pools_ns < redis_ns ? pools_ns : redis_ns;
    return pools_ns < services_ns ? pools_ns : services_ns;
}

static void
wake(void *ctx)
{
    struct wp_daemon *daemon = ctx;

    wp_control_wake(daemon->control);
}

static void
pool_changed(void *ctx, uint32_t pool_index)
{
    struct wp_daemon *daemon = ctx;

    wp_service_watch_changed(daemon->services, pool_index);
}

static bool
post(void *ctx, struct wp_message message)
{
    struct wp_daemon *daemon = ctx;

    return wp_loop_post(daemon->control_loop, message.run, message.ctx,
                        message.a, message.b);
}

/* An admin's Drain of the whole daemon: claims are refused before it is
 * answered; the rest is for main, which waits for this signal. */
static void
drain_asked(void *ctx, int64_t grace_ns)
{
    struct wp_daemon *daemon = ctx;

    wp_daemon_refuse_claims(daemon, 0, 0);
    atomic_store_explicit(&daemon->drain_grace_ns, grace_ns,
                          memory_order_release);
    (void)kill(getpid(), SIGUSR1);
}

/* --- Making the parts --- */

static enum wp_status
create_files(struct wp_daemon *daemon, struct wp_err *err)
{
    const struct wp_conf *conf = daemon->conf;
    enum wp_status status = wp_daemon_parse_lists(daemon, err);

    if (status == WP_OK) {
        status =
            wp_daemon_read_token(conf->http_token_file, daemon->admin_token,
                                 sizeof daemon->admin_token, err);
    }
    if (status == WP_OK) {
        status = wp_daemon_make_dir(conf->runtime_dir, 0755, err);
    }
    if (status == WP_OK) {
        /* Other users pass through it to their sandboxes' sockets. */
        status = wp_daemon_make_dir(conf->state_dir, 0711, err);
    }
    if (status == WP_OK && geteuid() == 0 && wp_conf_is_local(conf)) {
        status = wp_daemon_check_passable(conf->state_dir, err);
    }
    if (status == WP_OK) {
        status = conf->lease_store == WP_CONF_STORE_REDIS &&
                         !wp_conf_is_cluster(conf)
                     ? wp_daemon_lock_shared(daemon, err)
                     : wp_daemon_lock(daemon, err);
    }
    if (wp_conf_is_cluster(conf)) {
        atomic_store(&daemon->keeper, false); /* The leader is. */
    }
    if (status == WP_OK) {
        daemon->manifest = wp_daemon_read_manifests(conf, err);
        status = daemon->manifest != NULL ? WP_OK : err->status;
    }
    return status;
}

/* A follower's is made when it takes over; that it can be is seen now, which
 * takes longer than all else then. */
static enum wp_status
create_backend(struct wp_daemon *daemon, struct wp_err *err)
{
    enum wp_status status = wp_daemon_probe_backend(daemon, err);

    if (wp_conf_is_cluster(daemon->conf)) {
        daemon->cluster = wp_daemon_cluster_create(daemon, err);
        return daemon->cluster != NULL ? WP_OK : err->status;
    }
    return status == WP_OK && wp_daemon_is_keeper(daemon)
               ? wp_daemon_create_backend(daemon, err)
               : status;
}

static enum wp_status
create_loops(struct wp_daemon *daemon, struct wp_err *err)
{
    daemon->control_loop = wp_loop_create("control", WP_DAEMON_MESSAGES, err);
    daemon->http_loop = wp_loop_create("http", WP_DAEMON_MESSAGES, err);
    if (daemon->control_loop == NULL || daemon->http_loop == NULL) {
        return err->status;
    }
    daemon->control = wp_control_create(
        &(struct wp_control_config){.loop = daemon->control_loop,
                                    .clock = wp_clock_system(),
                                    .run = run_turn,
                                    .ctx = daemon},
        err);
    return daemon->control != NULL ? WP_OK : err->status;
}

static enum wp_status
add_pools(struct wp_daemon *daemon, struct wp_err *err)
{
    const struct wp_pool_spec *specs;
    size_t n = wp_manifest_pools(daemon->manifest, &specs);

    for (size_t i = 0; i < n; i++) {
        uint32_t index;
        enum wp_status status =
            wp_pools_add(daemon->pools, &specs[i], &index, err);

        if (status != WP_OK) {
            return status;
        }
        wp_log_info("pool", wp_kv_str("namespace", specs[i].pool_namespace),
                    wp_kv_str("pool", specs[i].name),
                    wp_kv_str("template", specs[i].template_name),
                    wp_kv_int("target", specs[i].target));
    }
    if (n == 0 && daemon->cluster == NULL) {
        wp_log_warn("no pools: the setting 'manifests' names none");
    }
    return WP_OK;
}

static enum wp_status
create_pools(struct wp_daemon *daemon, struct wp_err *err)
{
    struct wp_budget_total budgets[WP_CONF_BUDGETS_MAX];
    struct wp_pools_config config = {
        .slots_max = (uint32_t)daemon->conf->slots_max,
        .claims_max = (uint32_t)daemon->conf->claims_max,
        .history_bytes_max = (size_t)daemon->conf->history_max,
        .clock = wp_clock_system(),
        .backend = wp_daemon_backend(daemon),
        .store = daemon->store,
        .wake = wake,
        .changed = pool_changed,
        .scaled = wp_daemon_pool_scaled,
        .unlearned = wp_daemon_pool_unlearned,
        .budgets = budgets,
        .budget_trouble = wp_daemon_budget_trouble,
        .ctx = daemon,
    };
    enum wp_status status = wp_daemon_read_key(daemon->conf, config.token_key,
                                               &daemon->key_made, err);

    if (status == WP_OK) {
        status = wp_conf_budgets(daemon->conf, budgets, &config.n_budgets, err);
    }
    if (status != WP_OK) {
        return status;
    }
    /* Claim hashes are part of tokens, so they last as long. */
    wp_token_key_derive(config.token_key, "claim hash", &config.hash_key,
                        sizeof config.hash_key);
    wp_random_bytes(&config.seed, sizeof config.seed);
    daemon->pools = wp_pools_create(&config, err);
    explicit_bzero(config.token_key, sizeof config.token_key);
    if (daemon->pools == NULL) {
        return err->status;
    }
    wp_log_info(
        "memory plan", wp_kv_int("slots_max", config.slots_max),
        wp_kv_int("claims_max", config.claims_max),
        wp_kv_int("bytes", (int64_t)wp_pools_memory_bytes(daemon->pools)));
    wp_pools_set_keeper(daemon->pools, wp_daemon_is_keeper(daemon));
    status = add_pools(daemon, err);
    return status == WP_OK ? wp_daemon_restore(daemon, err) : status;
}

static enum wp_status
create_services(struct wp_daemon *daemon, struct wp_err *err)
{
    struct wp_services_config config;

    wp_services_config_init(&config);
    config.pools = daemon->pools;
    config.clock = wp_clock_system();
    config.post = post;
    config.wake = wake;
    config.drain = drain_asked;
    config.ctx = daemon;
    config.serves = wp_daemon_cluster_serves(daemon->cluster);
    config.targets_are_kept =
        daemon->cluster != NULL
            ? "target: in a cluster it is spec.replicas of the "
              "SandboxWarmPool; "
              "kubectl scale swp/NAME --replicas=N changes it"
            : NULL;
    daemon->services = wp_services_create(&config, err);
    if (daemon->services == NULL) {
        return err->status;
    }
    daemon->service[0] = wp_service_allocator(daemon->services);
    daemon->service[1] = wp_service_admin(daemon->services);
    return WP_OK;
}

static enum wp_status
create_transports(struct wp_daemon *daemon, struct wp_err *err)
{
    const struct wp_service *services[] = {&daemon->service[0],
                                           &daemon->service[1]};
    struct wp_rpc_config rpc;
    struct wp_http_config http;

    wp_daemon_rpc_config(daemon, &rpc);
    daemon->rpc = wp_rpc_server_create(&rpc, services, 2, err);
    if (daemon->rpc == NULL) {
        return err->status;
    }
    if (daemon->conf->metrics_listen.len > 0) {
        wp_daemon_http_pages_config(daemon, &http);
        daemon->http_pages = wp_http_server_create(&http, err);
        if (daemon->http_pages == NULL) {
            return wp_err_wrap(err, "setting 'metrics_listen'");
        }
    }
    if (daemon->conf->http_listen.len == 1 &&
        strcmp(daemon->conf->http_listen.items[0], "none") == 0) {
        return WP_OK;
    }
    wp_daemon_http_config(daemon, &http);
    daemon->http = wp_http_server_create(&http, err);
    daemon->metrics.http = daemon->http;
    return daemon->http != NULL ? WP_OK : err->status;
}

void
wp_daemon_signals(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGHUP);
    (void)sigaddset(set, SIGUSR1); /* drain_asked */
}

struct wp_daemon *
wp_daemon_create(const struct wp_conf *conf, int argc, char *const *argv,
                 struct wp_err *err)
{
    enum wp_status (*const steps[])(struct wp_daemon *, struct wp_err *) = {
        create_files, create_backend,  wp_daemon_open_store, create_loops,
        create_pools, create_services, create_transports,
    };
    struct wp_daemon *daemon = calloc(1, sizeof *daemon);

    if (daemon == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    daemon->conf = conf;
    daemon->argc = argc;
    daemon->argv = argv;
    daemon->lock_fd = -1;
    daemon->backend_lock_fd = -1;
    daemon->stop_fd = -1;
    atomic_init(&daemon->keeper, true);
    atomic_init(&daemon->failed, false);
    atomic_init(&daemon->backend_started, false);
    atomic_init(&daemon->drain_grace_ns, -1);
    atomic_init(&daemon->metrics.serving, false);
    for (size_t i = 0; i < WP_ARRAY_LEN(steps); i++) {
        if (steps[i](daemon, err) != WP_OK) {
            wp_daemon_destroy(daemon);
            return NULL;
        }
    }
    return daemon;
}

static void
log_addresses(const struct wp_daemon *daemon)
{
    for (uint32_t i = 0; i < daemon->conf->listen.len; i++) {
        wp_log_info(
            "listening", wp_kv_str("protocol", "grpc"),
            wp_kv_str("address", wp_rpc_server_address(daemon->rpc, i)));
    }
    for (uint32_t i = 0;
         daemon->http != NULL && i < daemon->conf->http_listen.len; i++) {
        wp_log_info(
            "listening", wp_kv_str("protocol", "http"),
            wp_kv_str("address", wp_http_server_address(daemon->http, i)));
    }
    for (uint32_t i = 0; i < daemon->conf->metrics_listen.len; i++) {
        wp_log_info("listening", wp_kv_str("protocol", "metrics"),
                    wp_kv_str("address",
                              wp_http_server_address(daemon->http_pages, i)));
    }
}

static enum wp_status
start_keeping(struct wp_daemon *daemon, struct wp_err *err)
{
    enum wp_status status = wp_daemon_start_backend(daemon, err);

    if (status == WP_OK) {
        status = wp_daemon_check_alone(daemon,
                                       daemon->restored - daemon->adopted, err);
    }
    if (status == WP_OK && daemon->redis != NULL) {
        status = wp_daemon_redis_note_pools(daemon->redis, err);
    }
    if (status == WP_OK) {
        wp_daemon_keep(daemon);
    }
    return status;
}

enum wp_status
wp_daemon_start(struct wp_daemon *daemon, struct wp_err *err)
{
    enum wp_status status = WP_OK;

    if (daemon->redis != NULL) {
        status = wp_daemon_redis_follow(daemon->redis, err);
    }
    if (status == WP_OK && wp_daemon_is_keeper(daemon)) {
        status = start_keeping(daemon, err);
    }
    if (status == WP_OK) {
        status = wp_loop_start(daemon->control_loop, err);
    }
    if (status == WP_OK && daemon->cluster != NULL) {
        status = wp_daemon_cluster_start(daemon->cluster, err);
    } else if (status == WP_OK && !wp_daemon_is_keeper(daemon)) {
        status = wp_daemon_await_lock(daemon, err);
    }
    if (status == WP_OK) {
        status = wp_loop_start(daemon->http_loop, err);
    }
    if (status == WP_OK) {
        wp_control_wake(daemon->control); /* The first turn fills pools. */
        status = wp_rpc_server_start(daemon->rpc, err);
    }
    if (status == WP_OK) {
        log_addresses(daemon);
        atomic_store_explicit(&daemon->metrics.serving, true,
                              memory_order_release);
        wp_control_wake(daemon->control);
        wp_daemon_notify("READY=1");
    }
    return status;
}

/* Everything in the opposite order. A part that was not made is NULL. */
void
wp_daemon_destroy(struct wp_daemon *daemon)
{
    if (daemon == NULL) {
        return;
    }
    wp_daemon_stop_waiting(daemon);
    wp_rpc_server_stop(daemon->rpc);
    wp_http_server_destroy(daemon->http);
    wp_http_server_destroy(daemon->http_pages);
    wp_daemon_redis_quit(daemon->redis);
    wp_daemon_cluster_stop(daemon->cluster);
    wp_daemon_stop_backend(daemon);
    if (daemon->http_loop != NULL) {
        wp_loop_stop(daemon->http_loop);
    }
    if (daemon->control_loop != NULL) {
        wp_loop_stop(daemon->control_loop);
    }
    wp_daemon_close_store(daemon); /* Its last answers go to the core. */
    wp_services_destroy(daemon->services);
    wp_control_destroy(daemon->control);
    wp_daemon_cluster_destroy(daemon->cluster); /* It uses the pools. */
    wp_pools_destroy(daemon->pools);
    wp_loop_destroy(daemon->http_loop);
    wp_loop_destroy(daemon->control_loop);
    wp_daemon_destroy_backend(daemon);
    wp_manifest_destroy(daemon->manifest);
    for (size_t i = 0; i < daemon->n_principals; i++) {
        free((void *)(uintptr_t)daemon->principals[i].name);
    }
    free(daemon->principals);
    free(daemon->meter);
    free(daemon->uids);
    if (daemon->lock_fd >= 0) {
        (void)unlink(daemon->lock_path);
        (void)close(daemon->lock_fd);
    }
    explicit_bzero(daemon, sizeof *daemon);
    free(daemon);
}
