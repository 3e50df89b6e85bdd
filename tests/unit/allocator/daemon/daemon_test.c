/* tests/unit/allocator/daemon/daemon_test.c - the order in which the daemon's
 * parts are made, started, stopped and destroyed, what each is given, and what
 * main does meanwhile. Every part is the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/conf/paths.h"
#include "allocator/daemon/access.h"
#include "allocator/daemon/backend.h"
#include "allocator/daemon/daemon.h"
#include "allocator/daemon/files.h"
#include "allocator/daemon/leave.h"
#include "allocator/daemon/machine.h"
#include "allocator/daemon/pools.h"
#include "allocator/daemon/store.h"
#include "tests/unit/allocator/daemon/journal.h"

/* --- Parts that are only told of --- */

/* A function that takes a part and answers nothing. */
#define TOLD(name, type)                                                       \
    void __wrap_##name(type *self);                                            \
    void __wrap_##name(type *self)                                             \
    {                                                                          \
        journal("%s %s", #name, journal_name(self));                           \
    }

/* One that takes a part and may fail. */
#define TRIED(name, type)                                                      \
    enum wp_status __wrap_##name(type *self, struct wp_err *err);              \
    enum wp_status __wrap_##name(type *self, struct wp_err *err)               \
    {                                                                          \
        enum wp_status status = journal_status(#name, err);                    \
                                                                               \
        journal("%s %s", #name, journal_name(self));                           \
        return status;                                                         \
    }

TOLD(wp_control_destroy, struct wp_control)
TOLD(wp_control_wake, void)
TOLD(wp_daemon_backend_destroy, struct wp_daemon_backend)
TOLD(wp_daemon_cluster_destroy, struct wp_daemon_cluster)
TOLD(wp_daemon_cluster_stop, struct wp_daemon_cluster)
TOLD(wp_daemon_redis_quit, struct wp_daemon_redis)
TOLD(wp_daemon_refuse_claims, void)
TOLD(wp_daemon_servers_destroy, struct wp_daemon_servers)
TOLD(wp_daemon_servers_stop, struct wp_daemon_servers)
TOLD(wp_daemon_store_close, struct wp_daemon_store)
TOLD(wp_daemon_store_destroy, struct wp_daemon_store)
TOLD(wp_exporter_destroy, struct wp_exporter)
TOLD(wp_lease_meter_flush, void)
TOLD(wp_loop_destroy, struct wp_loop)
TOLD(wp_loop_stop, struct wp_loop)
TOLD(wp_manifest_destroy, struct wp_manifest)
TOLD(wp_pools_destroy, struct wp_pools)
TOLD(wp_pools_hold_unseen, struct wp_pools)
TOLD(wp_services_destroy, struct wp_services)
TOLD(wp_signer_destroy, struct wp_signer)
TOLD(wp_daemon_unlock, struct wp_daemon_locks)
TOLD(wp_daemon_shape_close, struct wp_daemon_core)
TRIED(wp_daemon_backend_probe, const struct wp_daemon_backend)
TRIED(wp_daemon_lock, struct wp_daemon_locks)
TRIED(wp_daemon_locks_join, struct wp_daemon_locks)
TRIED(wp_daemon_redis_follow, struct wp_daemon_redis)
TRIED(wp_daemon_redis_note_pools, const struct wp_daemon_redis)
TRIED(wp_daemon_servers_start, struct wp_daemon_servers)
TRIED(wp_exporter_start, struct wp_exporter)
TRIED(wp_loop_start, struct wp_loop)

uid_t __wrap_geteuid(void);
int __wrap_kill(pid_t pid, int sig);
int __wrap_sigwaitinfo(const sigset_t *set, siginfo_t *info);
void __wrap_wp_daemon_access_forget(struct wp_daemon_access *access);
enum wp_status __wrap_wp_daemon_access_read(struct wp_daemon_access *access,
                                            const struct wp_conf *conf,
                                            struct wp_err *err);
enum wp_status __wrap_wp_daemon_access_token(struct wp_daemon_access *access,
                                             const struct wp_conf *conf,
                                             struct wp_err *err);
struct wp_daemon_backend *__wrap_wp_daemon_backend_create(
    struct wp_daemon_core *core, const struct wp_manifest *manifest,
    struct wp_daemon_locks *locks, struct wp_err *err);
enum wp_status __wrap_wp_daemon_backend_open(struct wp_daemon_backend *self,
                                             bool untried, struct wp_err *err);
struct wp_backend __wrap_wp_daemon_backend_port(struct wp_daemon_backend *self);
void __wrap_wp_daemon_backend_stop(struct wp_daemon_backend *self,
                                   bool leave_ready);
enum wp_status __wrap_wp_daemon_check_passable(const char *path,
                                               struct wp_err *err);
struct wp_daemon_cluster *
__wrap_wp_daemon_cluster_create(struct wp_daemon_core *core,
                                struct wp_err *err);
struct wp_backend __wrap_wp_daemon_cluster_port(struct wp_daemon_cluster *self);
const _Atomic(bool) *
__wrap_wp_daemon_cluster_serves(const struct wp_daemon_cluster *self);
enum wp_status __wrap_wp_daemon_cluster_start(struct wp_daemon_cluster *self,
                                              struct wp_daemon_redis *redis,
                                              struct wp_err *err);
void __wrap_wp_daemon_cluster_turn(struct wp_daemon_cluster *self,
                                   struct wp_daemon_servers *servers);
struct wp_daemon_follower *
__wrap_wp_daemon_follow(const struct wp_daemon_keeping *keeping,
                        struct wp_err *err);
bool __wrap_wp_daemon_has_left(const struct wp_conf *conf);
enum wp_status __wrap_wp_daemon_keep(const struct wp_daemon_keeping *keeping,
                                     uint32_t restored, struct wp_err *err);
struct wp_daemon_follower *
__wrap_wp_daemon_keep_later(const struct wp_daemon_keeping *keeping,
                            uint32_t restored, struct wp_err *err);
bool __wrap_wp_daemon_leave(struct wp_daemon_leaving *leaving, bool ends,
                            int64_t lease_grace_ns, bool *leaves_ready);
enum wp_status __wrap_wp_daemon_lock_shared(struct wp_daemon_locks *locks,
                                            bool *follows, struct wp_err *err);
enum wp_status __wrap_wp_daemon_make_dir(const char *path, uint32_t mode,
                                         struct wp_err *err);
void __wrap_wp_daemon_notify(const char *state);
enum wp_status __wrap_wp_daemon_pools_create(struct wp_daemon_core *core,
                                             const struct wp_manifest *manifest,
                                             struct wp_backend backend,
                                             struct wp_lease_store store,
                                             bool *key_made,
                                             struct wp_err *err);
struct wp_manifest *__wrap_wp_daemon_read_manifests(const struct wp_conf *conf,
                                                    struct wp_err *err);
int64_t __wrap_wp_daemon_redis_run(struct wp_daemon_redis *redis);
void __wrap_wp_daemon_reload(struct wp_daemon_core *core,
                             struct wp_daemon_backend *backend, int argc,
                             char *const *argv);
enum wp_status __wrap_wp_daemon_restore(struct wp_daemon_core *core,
                                        struct wp_lease_store store,
                                        bool key_made, uint32_t *restored,
                                        struct wp_err *err);
struct wp_daemon_servers *
__wrap_wp_daemon_servers_create(const struct wp_daemon_served *served,
                                struct wp_err *err);
bool __wrap_wp_daemon_shape_run(struct wp_daemon_core *core,
                                struct wp_daemon_backend *backend);
struct wp_lease_meter *
__wrap_wp_daemon_store_meter(const struct wp_daemon_store *self);
struct wp_daemon_store *__wrap_wp_daemon_store_open(
    struct wp_daemon_core *core, const struct wp_manifest *manifest,
    const struct wp_daemon_locks *locks, struct wp_err *err);
struct wp_lease_store
__wrap_wp_daemon_store_port(const struct wp_daemon_store *self);
struct wp_daemon_redis *
__wrap_wp_daemon_store_redis(const struct wp_daemon_store *self);
void __wrap_wp_daemon_unfollow(struct wp_daemon_follower **follower);
struct wp_exporter *
__wrap_wp_exporter_create(const struct wp_exporter_config *config,
                          struct wp_err *err);
void __wrap_wp_lease_meter_gather(bool flushes);
bool __wrap_wp_lease_meter_wants_flush(void *ctx);
struct wp_loop *__wrap_wp_loop_create(const char *name, uint32_t messages_max,
                                      struct wp_err *err);
bool __wrap_wp_loop_post(struct wp_loop *loop,
                         void (*run)(void *ctx, uint64_t a, uint64_t b),
                         void *ctx, uint64_t a, uint64_t b);
struct wp_control *
__wrap_wp_control_create(const struct wp_control_config *config,
                         struct wp_err *err);
enum wp_status __wrap_wp_paths_check_dir(const char *dir, struct wp_err *err);
int64_t __wrap_wp_pools_run(struct wp_pools *pools);
struct wp_services *
__wrap_wp_services_create(const struct wp_services_config *config,
                          struct wp_err *err);
int64_t __wrap_wp_services_run(struct wp_services *services);
struct wp_signer *__wrap_wp_signer_create(const struct wp_signer_config *config,
                                          struct wp_err *err);

static struct wp_conf conf;
static char *argv[] = {(char *)"warmpoold", NULL};
static struct wp_control_config control;
static struct wp_services_config services;
static struct wp_daemon_core *core;
static bool is_redis;
static bool is_durable;
static struct wp_backend_ops backend_ops = {.name = "a backend"};
static struct wp_lease_store_ops store_ops;

/* What was made, or NULL when it is said that it fails. */
static void *
made(const char *call, const char *name, struct wp_err *err)
{
    return journal_status(call, err) == WP_OK ? journal_thing(name) : NULL;
}

/* --- The system --- */

uid_t
__wrap_geteuid(void)
{
    return (uid_t)journal_said("geteuid", 0);
}

int
__wrap_kill(pid_t pid, int sig)
{
    assert_int_equal(pid, getpid());
    journal("kill with %s", sigabbrev_np(sig));
    return 0;
}

int
__wrap_sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
    int sig = (int)journal_said("signal", SIGTERM);

    assert_null(info);
    if (sig > 0) {
        assert_int_equal(sigismember(set, sig), 1);
        journal("- SIG%s", sigabbrev_np(sig));
    }
    if (journal_said("drain", -1) >= 0) {
        services.drain(services.ctx, journal_said("grace", 0));
    }
    if (journal_said("leads", false) != 0) {
        atomic_store(&core->keeper, true);
    }
    if (journal_said("fails", false) != 0) {
        atomic_store(&core->failed, true);
    }
    return sig;
}

/* --- Settings, directories and their locks --- */

void
__wrap_wp_daemon_access_forget(struct wp_daemon_access *access)
{
    (void)access;
    journal("access is forgotten");
}

enum wp_status
__wrap_wp_daemon_access_read(struct wp_daemon_access *access,
                             const struct wp_conf *of, struct wp_err *err)
{
    enum wp_status status = journal_status("access_read", err);

    assert_ptr_equal(of, &conf);
    journal("access is read");
    journal_know(access, "the access");
    return status;
}

enum wp_status
__wrap_wp_daemon_access_token(struct wp_daemon_access *access,
                              const struct wp_conf *of, struct wp_err *err)
{
    enum wp_status status = journal_status("access_token", err);

    assert_ptr_equal(of, &conf);
    journal("token of %s", journal_name(access));
    return status;
}

enum wp_status
__wrap_wp_daemon_make_dir(const char *path, uint32_t mode, struct wp_err *err)
{
    enum wp_status status = journal_status("make_dir", err);

    journal("make directory %s %o", path, mode);
    return status;
}

enum wp_status
__wrap_wp_paths_check_dir(const char *dir, struct wp_err *err)
{
    enum wp_status status = journal_status("check_dir", err);

    journal("check directory %s", dir);
    return status;
}

enum wp_status
__wrap_wp_daemon_check_passable(const char *path, struct wp_err *err)
{
    enum wp_status status = journal_status("check_passable", err);

    journal("check that %s can be passed", path);
    return status;
}

enum wp_status
__wrap_wp_daemon_lock_shared(struct wp_daemon_locks *locks, bool *follows,
                             struct wp_err *err)
{
    enum wp_status status = journal_status("lock_shared", err);

    assert_string_equal(locks->dir, conf.state_dir);
    *follows = journal_said("follows", false) != 0;
    journal("shared lock, follows: %d", *follows);
    return status;
}

bool
__wrap_wp_daemon_has_left(const struct wp_conf *of)
{
    bool left = journal_said("has left", false) != 0;

    assert_ptr_equal(of, &conf);
    journal("has left: %d", left);
    return left;
}

struct wp_manifest *
__wrap_wp_daemon_read_manifests(const struct wp_conf *of, struct wp_err *err)
{
    struct wp_manifest *manifest = made("manifests", "the manifest", err);

    assert_ptr_equal(of, &conf);
    journal("read manifests");
    return manifest;
}

struct wp_signer *
__wrap_wp_signer_create(const struct wp_signer_config *config,
                        struct wp_err *err)
{
    struct wp_signer *signer = made("signer", "the signer", err);

    assert_ptr_equal(config->clock, wp_clock_system());
    journal("signer: keys in %s, issuer %s, %lld ns, turn %lld ns",
            config->dir != NULL ? config->dir : "no directory", config->issuer,
            (long long)config->ttl_ns, (long long)config->key_turn_ns);
    return signer;
}

struct wp_exporter *
__wrap_wp_exporter_create(const struct wp_exporter_config *config,
                          struct wp_err *err)
{
    struct wp_exporter *exporter = made("exporter", "the exporter", err);

    assert_ptr_equal(config->clock, wp_clock_system());
    assert_string_equal(config->version, WP_VERSION);
    journal("exporter to %s", config->endpoint);
    return exporter;
}

/* --- What makes sandboxes --- */

static void
know_core(struct wp_daemon_core *of)
{
    core = of;
    journal_know(core, "the core");
    assert_ptr_equal(core->conf, &conf);
    journal("core: signer %s, exporter %s, keeper %d, failed %d, stopping %d, "
            "drain %lld, job %s",
            journal_name(core->signer), journal_name(core->exporter),
            core->keeper, core->failed, core->stopping,
            (long long)core->drain_grace_ns, journal_name(core->pool_job));
}

struct wp_daemon_cluster *
__wrap_wp_daemon_cluster_create(struct wp_daemon_core *of, struct wp_err *err)
{
    struct wp_daemon_cluster *cluster = made("cluster", "the cluster", err);

    journal("cluster:");
    know_core(of);
    return cluster;
}

struct wp_backend
__wrap_wp_daemon_cluster_port(struct wp_daemon_cluster *self)
{
    return (struct wp_backend){.ops = &backend_ops, .self = self};
}

struct wp_daemon_backend *
__wrap_wp_daemon_backend_create(struct wp_daemon_core *of,
                                const struct wp_manifest *manifest,
                                struct wp_daemon_locks *locks,
                                struct wp_err *err)
{
    struct wp_daemon_backend *maker = made("backend", "the maker", err);

    journal("backend of %s:", journal_name(manifest));
    know_core(of);
    journal_know(locks, "the locks");
    assert_string_equal(locks->dir, conf.state_dir);
    assert_int_equal(locks->present_fd, -1);
    return maker;
}

struct wp_backend
__wrap_wp_daemon_backend_port(struct wp_daemon_backend *self)
{
    return (struct wp_backend){.ops = &backend_ops, .self = self};
}

enum wp_status
__wrap_wp_daemon_backend_open(struct wp_daemon_backend *self, bool untried,
                              struct wp_err *err)
{
    enum wp_status status = journal_status("backend_open", err);

    journal("open %s, untried: %d", journal_name(self), untried);
    return status;
}

void
__wrap_wp_daemon_backend_stop(struct wp_daemon_backend *self, bool leave_ready)
{
    journal("stop backend %s, leaves ready ones: %d", journal_name(self),
            leave_ready);
}

const _Atomic(bool) *
__wrap_wp_daemon_cluster_serves(const struct wp_daemon_cluster *self)
{
    static const _Atomic(bool) serves = true;

    return self != NULL ? &serves : NULL;
}

enum wp_status
__wrap_wp_daemon_cluster_start(struct wp_daemon_cluster *self,
                               struct wp_daemon_redis *redis,
                               struct wp_err *err)
{
    enum wp_status status = journal_status("cluster_start", err);

    journal("start %s with redis %s", journal_name(self), journal_name(redis));
    return status;
}

void
__wrap_wp_daemon_cluster_turn(struct wp_daemon_cluster *self,
                              struct wp_daemon_servers *servers)
{
    journal("turn of cluster %s, servers %s", journal_name(self),
            journal_name(servers));
}

/* --- The store --- */

struct wp_daemon_store *
__wrap_wp_daemon_store_open(struct wp_daemon_core *of,
                            const struct wp_manifest *manifest,
                            const struct wp_daemon_locks *locks,
                            struct wp_err *err)
{
    struct wp_daemon_store *store = made("store", "the store", err);

    assert_ptr_equal(of, core);
    assert_string_equal(locks->dir, conf.state_dir);
    journal("open store, %s", journal_name(manifest));
    store_ops.durable = is_durable;
    return store;
}

struct wp_lease_store
__wrap_wp_daemon_store_port(const struct wp_daemon_store *self)
{
    assert_non_null(self);
    return (struct wp_lease_store){&store_ops, journal_thing("the store")};
}

struct wp_daemon_redis *
__wrap_wp_daemon_store_redis(const struct wp_daemon_store *self)
{
    return is_redis && self != NULL ? journal_thing("redis") : NULL;
}

struct wp_lease_meter *
__wrap_wp_daemon_store_meter(const struct wp_daemon_store *self)
{
    assert_string_equal(journal_name(self), "the store");
    return journal_said("meter", true) != 0 ? journal_thing("the meter") : NULL;
}

int64_t
__wrap_wp_daemon_redis_run(struct wp_daemon_redis *redis)
{
    journal("turn of %s", journal_name(redis));
    return journal_said("redis turn", 0);
}

void
__wrap_wp_lease_meter_gather(bool flushes)
{
    journal("gather: %d", flushes);
}

bool
__wrap_wp_lease_meter_wants_flush(void *ctx)
{
    bool wants = journal_said("wants flush", false) != 0;

    journal("%s wants to flush: %d", journal_name(ctx), wants);
    return wants;
}

/* --- Threads, core, services, servers --- */

struct wp_loop *
__wrap_wp_loop_create(const char *name, uint32_t messages_max,
                      struct wp_err *err)
{
    struct wp_loop *loop = made("loop", name, err);

    journal("loop %s for %u messages", name, messages_max);
    return loop;
}

bool
__wrap_wp_loop_post(struct wp_loop *loop,
                    void (*run)(void *ctx, uint64_t a, uint64_t b), void *ctx,
                    uint64_t a, uint64_t b)
{
    bool taken = journal_said("posted", true) != 0;

    assert_null(run);
    journal("post to %s: %s %llu %llu", journal_name(loop), journal_name(ctx),
            (unsigned long long)a, (unsigned long long)b);
    return taken;
}

struct wp_control *
__wrap_wp_control_create(const struct wp_control_config *config,
                         struct wp_err *err)
{
    struct wp_control *self = made("control", "the control", err);

    control = *config;
    assert_ptr_equal(config->clock, wp_clock_system());
    journal("control on loop %s", journal_name(config->loop));
    return self;
}

enum wp_status
__wrap_wp_daemon_pools_create(struct wp_daemon_core *of,
                              const struct wp_manifest *manifest,
                              struct wp_backend backend,
                              struct wp_lease_store store, bool *key_made,
                              struct wp_err *err)
{
    enum wp_status status = journal_status("pools", err);

    assert_ptr_equal(of, core);
    assert_ptr_equal(backend.ops, &backend_ops);
    assert_ptr_equal(store.ops, &store_ops);
    assert_false(*key_made);
    *key_made = journal_said("key made", false) != 0;
    journal("pools of %s, made by %s, kept by %s", journal_name(manifest),
            journal_name(backend.self), journal_name(store.self));
    if (status == WP_OK) {
        core->pools = journal_thing("the pools");
    }
    return status;
}

enum wp_status
__wrap_wp_daemon_restore(struct wp_daemon_core *of, struct wp_lease_store store,
                         bool key_made, uint32_t *restored, struct wp_err *err)
{
    enum wp_status status = journal_status("restore", err);

    assert_ptr_equal(of, core);
    journal("restore from %s, key made: %d", journal_name(store.self),
            key_made);
    *restored = 41;
    return status;
}

int64_t
__wrap_wp_pools_run(struct wp_pools *pools)
{
    journal("turn of %s", journal_name(pools));
    return journal_said("pools turn", 0);
}

struct wp_services *
__wrap_wp_services_create(const struct wp_services_config *config,
                          struct wp_err *err)
{
    struct wp_services *self = made("services", "the services", err);

    services = *config;
    assert_ptr_equal(config->clock, wp_clock_system());
    assert_ptr_equal(config->wake, wp_daemon_wake);
    assert_ptr_equal(config->shape, wp_daemon_shape);
    journal("services of %s, ctx %s, %u may wait, %u batches, serves %s",
            journal_name(config->pools), journal_name(config->ctx),
            config->waiting_max, config->batches_max,
            config->serves != NULL ? "is looked at" : "always");
    journal("  targets: %s", config->targets_are_kept != NULL
                                 ? config->targets_are_kept
                                 : "may be set");
    journal("  pools: %s", config->pools_are_kept != NULL
                               ? config->pools_are_kept
                               : "may be made");
    return self;
}

int64_t
__wrap_wp_services_run(struct wp_services *self)
{
    journal("turn of %s", journal_name(self));
    return journal_said("services turn", 0);
}

struct wp_daemon_servers *
__wrap_wp_daemon_servers_create(const struct wp_daemon_served *served,
                                struct wp_err *err)
{
    struct wp_daemon_servers *self = made("servers", "the servers", err);

    journal("servers: %s, %s, backend %s, cluster %s, named %s, %s, %s, %s",
            journal_name(served->core), journal_name(served->access),
            journal_name(served->backend), journal_name(served->cluster),
            served->backend_name, journal_name(served->store),
            journal_name(served->services), journal_name(served->http_loop));
    return self;
}

void
__wrap_wp_daemon_notify(const char *state)
{
    journal("notify %s", state);
}

/* --- Who keeps --- */

static void
tell_keeping(const char *what, const struct wp_daemon_keeping *keeping)
{
    assert_string_equal(keeping->locks->dir, conf.state_dir);
    journal("%s: %s, backend %s, %s", what, journal_name(keeping->core),
            journal_name(keeping->backend), journal_name(keeping->store));
}

enum wp_status
__wrap_wp_daemon_keep(const struct wp_daemon_keeping *keeping,
                      uint32_t restored, struct wp_err *err)
{
    enum wp_status status = journal_status("keep", err);

    tell_keeping("keep", keeping);
    journal("  %u were restored", restored);
    return status;
}

struct wp_daemon_follower *
__wrap_wp_daemon_keep_later(const struct wp_daemon_keeping *keeping,
                            uint32_t restored, struct wp_err *err)
{
    struct wp_daemon_follower *self = made("keep_later", "the follower", err);

    tell_keeping("keep later", keeping);
    journal("  %u were restored", restored);
    return self;
}

struct wp_daemon_follower *
__wrap_wp_daemon_follow(const struct wp_daemon_keeping *keeping,
                        struct wp_err *err)
{
    struct wp_daemon_follower *self = made("follow", "the follower", err);

    tell_keeping("follow", keeping);
    return self;
}

void
__wrap_wp_daemon_unfollow(struct wp_daemon_follower **follower)
{
    journal("unfollow %s", journal_name(*follower));
    *follower = NULL;
}

/* --- Between start and end --- */

bool
__wrap_wp_daemon_shape_run(struct wp_daemon_core *of,
                           struct wp_daemon_backend *backend)
{
    bool changed = journal_said("shaped", false) != 0;

    journal("shape with %s, %s: %d", journal_name(of), journal_name(backend),
            changed);
    return changed;
}

void
__wrap_wp_daemon_reload(struct wp_daemon_core *of,
                        struct wp_daemon_backend *backend, int argc,
                        char *const *args)
{
    assert_ptr_equal(args, argv);
    journal("reload %s, %s, %d arguments", journal_name(of),
            journal_name(backend), argc);
}

bool
__wrap_wp_daemon_leave(struct wp_daemon_leaving *leaving, bool ends,
                       int64_t lease_grace_ns, bool *leaves_ready)
{
    tell_keeping("leave", &leaving->keeping);
    journal("  %s, %s, cluster %s, redis %s, follower %s, ends %d, grace %lld, "
            "succeeded %d, until %lld",
            journal_name(leaving->core), journal_name(leaving->servers),
            journal_name(leaving->cluster), journal_name(leaving->redis),
            journal_name(*leaving->follower), ends, (long long)lease_grace_ns,
            leaving->succeeded, (long long)leaving->end_ns);
    *leaves_ready = journal_said("leaves ready", false) != 0;
    return journal_said("left cleanly", true) != 0;
}

/* --- The tests --- */

static void
use(int backend, int store)
{
    static char texts[][32] = {"/run/w", "/var/w", "https://issuer",
                               "",       "secret", "http://otlp"};

    memset(&conf, 0, sizeof conf);
    conf.backend = backend;
    conf.lease_store = store;
    conf.runtime_dir = texts[0];
    conf.state_dir = texts[1];
    conf.identity_issuer = texts[2];
    conf.identity_ttl = 61;
    conf.identity_key_rotation = 62;
    conf.identity_secret = texts[3];
    conf.otlp_endpoint = texts[3];
    conf.rpc_calls_max = 201;
    is_redis = store == WP_CONF_STORE_REDIS;
    is_durable = store != WP_CONF_STORE_MEMORY;
    if (backend == WP_CONF_BACKEND_KUBERNETES) {
        conf.identity_secret = texts[4];
        conf.otlp_endpoint = texts[5];
    }
}

/* From the first to the last; what failed is told. */
static void
live(void)
{
    struct wp_err err = {.msg = ""};
    struct wp_daemon *daemon = wp_daemon_create(&conf, 1, argv, &err);

    if (daemon == NULL) {
        journal("not created: %s: %s", wp_status_name(err.status), err.msg);
        return;
    }
    journal("- created");
    if (wp_daemon_start(daemon, &err) != WP_OK) {
        journal("not started: %s: %s", wp_status_name(err.status), err.msg);
    } else {
        journal("- started");
        journal("- ended: %d", wp_daemon_run(daemon));
    }
    wp_daemon_destroy(daemon);
    journal("- destroyed");
}

static void
test_local_daemon_without_a_lasting_store(void **state)
{
    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_MEMORY);
    journal_say("geteuid", 0);
    journal_say("key made", true);
    live();
    journal_is("daemon_memory");
}

static void
test_local_daemon_keeps_later_what_it_has_left(void **state)
{
    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_SQLITE);
    conf.rpc_waiting_max = 7;
    journal_say("geteuid", 1000);
    journal_say("has left", true);
    journal_say("leaves ready", true);
    live();
    journal_is("daemon_later");
}

static void
test_local_daemon_with_a_lasting_store_and_nothing_left(void **state)
{
    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_SQLITE);
    live();
    journal_is("daemon_sqlite");
}

static void
test_daemon_that_shares_a_directory_keeps_or_follows(void **state)
{
    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_REDIS);
    live();
    journal_say("follows", true);
    live();
    journal_is("daemon_shared");
}

static void
test_daemon_of_a_cluster(void **state)
{
    (void)state;
    use(WP_CONF_BACKEND_KUBERNETES, WP_CONF_STORE_REDIS);
    live();
    conf.lease_store = WP_CONF_STORE_MEMORY;
    is_redis = false;
    conf.identity_secret[0] = '\0';
    live();
    conf.identity_secret[0] = 's';
    journal_is("daemon_cluster");
}

/* The n-th of these calls fails: what is undone after it. */
static void
break_at(const char *call, int n)
{
    journal("### %s, %d", call, n);
    for (int i = 1; i < n; i++) {
        journal_say(call, WP_OK);
    }
    journal_say(call, WP_UNAVAILABLE);
    journal_only_after_errors();
    live();
    journal_forget();
}

static void
test_what_was_made_is_destroyed_when_a_part_fails(void **state)
{
    static const struct {
        const char *call;
        int n;
    } local[] = {{"access_read", 1},  {"make_dir", 1},
                 {"make_dir", 2},     {"check_dir", 1},
                 {"check_dir", 2},    {"check_passable", 1},
                 {"lock_shared", 1},  {"wp_daemon_locks_join", 1},
                 {"access_token", 1}, {"manifests", 1},
                 {"signer", 1},       {"backend", 1},
                 {"backend_open", 1}, {"store", 1},
                 {"loop", 1},         {"loop", 2},
                 {"control", 1},      {"pools", 1},
                 {"restore", 1},      {"services", 1},
                 {"servers", 1}};
    static const char *const cluster[] = {"exporter", "wp_daemon_lock",
                                          "access_token", "cluster"};

    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_REDIS);
    for (size_t i = 0; i < WP_ARRAY_LEN(local); i++) {
        break_at(local[i].call, local[i].n);
    }
    use(WP_CONF_BACKEND_KUBERNETES, WP_CONF_STORE_REDIS);
    for (size_t i = 0; i < WP_ARRAY_LEN(cluster); i++) {
        break_at(cluster[i], 1);
    }
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_REDIS);
    journal_say("follows", true);
    break_at("wp_daemon_backend_probe", 1);
    journal_is("daemon_not_created");
}

static void
test_what_runs_is_stopped_when_a_part_does_not_start(void **state)
{
    static const struct {
        const char *call;
        int n;
    } local[] = {{"wp_daemon_redis_follow", 1},
                 {"keep", 1},
                 {"wp_loop_start", 1},
                 {"wp_loop_start", 2},
                 {"wp_daemon_servers_start", 1}};

    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_REDIS);
    for (size_t i = 0; i < WP_ARRAY_LEN(local); i++) {
        break_at(local[i].call, local[i].n);
    }
    journal_say("follows", true);
    break_at("follow", 1);
    journal_say("has left", true);
    break_at("keep_later", 1);
    use(WP_CONF_BACKEND_KUBERNETES, WP_CONF_STORE_MEMORY);
    break_at("cluster_start", 1);
    break_at("wp_exporter_start", 1);
    journal_is("daemon_not_started");
}

static void
test_turn_runs_all_and_tells_what_is_due_first(void **state)
{
    static const int64_t turns[][3] = {{5, 6, 7}, {6, 5, 7}, {7, 6, 5}};
    struct wp_err err;
    struct wp_daemon *daemon;

    (void)state;
    use(WP_CONF_BACKEND_KUBERNETES, WP_CONF_STORE_REDIS);
    daemon = wp_daemon_create(&conf, 1, argv, &err);
    assert_non_null(daemon);
    journal("- turns");
    for (size_t i = 0; i < WP_ARRAY_LEN(turns); i++) {
        journal_say("redis turn", turns[i][0]);
        journal_say("pools turn", turns[i][1]);
        journal_say("services turn", turns[i][2]);
        journal_say("wants flush", i != 1);
        journal_say("meter", i != 2);
        if (i == 2) {
            journal_forget();
            journal_say("meter", false);
            journal_say("redis turn", 7);
            journal_say("pools turn", 6);
            journal_say("services turn", 5);
        }
        journal("next at %lld", (long long)control.run(control.ctx));
    }
    is_redis = false;
    journal_say("pools turn", WP_TIME_NEVER);
    journal_say("services turn", WP_TIME_NEVER);
    journal("next never: %d", control.run(control.ctx) == WP_TIME_NEVER);
    wp_daemon_destroy(daemon);
    journal_is("daemon_turns");
}

static void
test_message_goes_to_the_control_thread(void **state)
{
    struct wp_err err;
    struct wp_daemon *daemon;
    const struct wp_message message = {
        .run = NULL, .ctx = journal_thing("a call"), .a = 3, .b = 4};

    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_MEMORY);
    daemon = wp_daemon_create(&conf, 1, argv, &err);
    assert_non_null(daemon);
    journal("- messages");
    journal("taken: %d", services.post(services.ctx, message));
    journal_say("posted", false);
    journal("taken: %d", services.post(services.ctx, message));
    wp_daemon_destroy(daemon);
    journal_is("daemon_posts");
}

/* A daemon that runs; only what main does then is looked at. */
static void
run_only(void)
{
    struct wp_err err;
    struct wp_daemon *daemon = wp_daemon_create(&conf, 1, argv, &err);

    assert_non_null(daemon);
    assert_int_equal(wp_daemon_start(daemon, &err), WP_OK);
    journal_empty();
    journal("clean: %d", wp_daemon_run(daemon));
    wp_daemon_destroy(daemon);
}

static void
test_signals_do_what_they_are_for(void **state)
{
    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_REDIS);
    journal_say("signal", SIGUSR1); /* Without a Drain. */
    journal_say("signal", SIGUSR1);
    journal_say("shaped", false);
    journal_say("shaped", true);
    journal_say("signal", SIGHUP);
    journal_say("signal", -1);
    journal_say("signal", SIGINT);
    run_only();
    journal_is("daemon_signals");
    journal_say("signal", SIGUSR1);
    journal_say("drain", true);
    journal_say("grace", 0);
    journal_say("leaves ready", true);
    run_only();
    journal_is("daemon_drain");
    journal_say("signal", SIGHUP); /* It is for the next one. */
    journal_say("signal", SIGUSR1);
    journal_say("drain", true);
    journal_say("grace", 77);
    journal_say("left cleanly", false);
    run_only();
    journal_is("daemon_drain_grace");
}

static void
test_stop_leaves_what_the_setting_says(void **state)
{
    static const int leaves[] = {WP_CONF_STOP_AUTO, WP_CONF_STOP_NOTHING,
                                 WP_CONF_STOP_LEASED, WP_CONF_STOP_ALL};

    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_SQLITE);
    for (size_t i = 0; i < WP_ARRAY_LEN(leaves); i++) {
        conf.stop_leaves = leaves[i];
        run_only();
        journal_is(i == 1 ? "daemon_stop_nothing" : "daemon_stop");
    }
}

static void
test_daemon_that_failed_does_not_end_well(void **state)
{
    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_MEMORY);
    journal_say("fails", true);
    run_only();
    journal_is("daemon_failed");
}

static void
test_names_of_pools_are_noted_where_they_change(void **state)
{
    (void)state;
    /* A follower does not. */
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_REDIS);
    journal_say("follows", true);
    journal_say("signal", SIGHUP);
    run_only();
    journal_is("daemon_notes_follower");
    /* Nor does a cluster's, though it leads. */
    use(WP_CONF_BACKEND_KUBERNETES, WP_CONF_STORE_REDIS);
    journal_say("leads", true);
    journal_say("signal", SIGHUP);
    run_only();
    journal_is("daemon_notes_cluster");
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_SQLITE);
    journal_say("signal", SIGHUP);
    run_only();
    journal_is("daemon_notes_sqlite");
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_REDIS);
    journal_say("wp_daemon_redis_note_pools", WP_UNAVAILABLE);
    journal_say("signal", SIGHUP);
    run_only();
    journal_is("daemon_notes_failed");
}

static void
test_main_waits_for_five_signals(void **state)
{
    sigset_t set;

    (void)state;
    (void)sigfillset(&set);
    wp_daemon_signals(&set);
    for (int sig = 1; sig < SIGRTMIN; sig++) {
        if (sigismember(&set, sig) == 1) {
            journal("%s", sigabbrev_np(sig));
        }
    }
    journal_is("daemon_signal_set");
}

static void
test_no_memory_and_no_daemon(void **state)
{
    struct wp_err err = {.msg = ""};

    (void)state;
    journal_no_memory(1);
    assert_null(wp_daemon_create(&conf, 1, argv, &err));
    journal("%s: %s", wp_status_name(err.status), err.msg);
    wp_daemon_destroy(NULL);
    journal_is("daemon_no_memory");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_local_daemon_without_a_lasting_store,
                               journal_begin),
        cmocka_unit_test_setup(test_local_daemon_keeps_later_what_it_has_left,
                               journal_begin),
        cmocka_unit_test_setup(
            test_local_daemon_with_a_lasting_store_and_nothing_left,
            journal_begin),
        cmocka_unit_test_setup(
            test_daemon_that_shares_a_directory_keeps_or_follows,
            journal_begin),
        cmocka_unit_test_setup(test_daemon_of_a_cluster, journal_begin),
        cmocka_unit_test_setup(
            test_what_was_made_is_destroyed_when_a_part_fails, journal_begin),
        cmocka_unit_test_setup(
            test_what_runs_is_stopped_when_a_part_does_not_start,
            journal_begin),
        cmocka_unit_test_setup(test_turn_runs_all_and_tells_what_is_due_first,
                               journal_begin),
        cmocka_unit_test_setup(test_message_goes_to_the_control_thread,
                               journal_begin),
        cmocka_unit_test_setup(test_signals_do_what_they_are_for,
                               journal_begin),
        cmocka_unit_test_setup(test_stop_leaves_what_the_setting_says,
                               journal_begin),
        cmocka_unit_test_setup(test_daemon_that_failed_does_not_end_well,
                               journal_begin),
        cmocka_unit_test_setup(test_names_of_pools_are_noted_where_they_change,
                               journal_begin),
        cmocka_unit_test_setup(test_main_waits_for_five_signals, journal_begin),
        cmocka_unit_test_setup(test_no_memory_and_no_daemon, journal_begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
