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
#include "tests/unit/allocator/daemon/daemon_parts.h"
#include "tests/unit/allocator/daemon/journal.h"

/* --- Parts that are only told of --- */

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
TOLD(wp_daemon_shape_close, struct wp_daemon_core)
TRIED(wp_daemon_backend_probe, const struct wp_daemon_backend)
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
enum wp_status __wrap_wp_daemon_lock(struct wp_daemon_locks *locks,
                                     struct wp_err *err);
enum wp_status __wrap_wp_daemon_locks_join(struct wp_daemon_locks *locks,
                                           struct wp_err *err);
void __wrap_wp_daemon_unlock(struct wp_daemon_locks *locks);
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

struct wp_conf conf;
char *argv[2] = {(char *)"warmpoold", NULL};
struct wp_control_config control;
struct wp_services_config services;
bool is_redis;
bool is_durable;
static struct wp_daemon_core *core;
static struct wp_backend_ops backend_ops = {.name = "a backend"};
static struct wp_lease_store_ops store_ops;

/* What was made, or NULL when it is said that it fails. */
static void *
made(const char *call, const char *name, struct wp_err *err)
{
    return journal_status(call, err) == WP_OK ? journal_thing(name) : NULL;
}

/* --- The system --- */

void
daemon_wipes(size_t n)
{
    journal("it is wiped: %d", n > sizeof *core);
}

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
__wrap_wp_daemon_lock(struct wp_daemon_locks *locks, struct wp_err *err)
{
    assert_string_equal(locks->dir, conf.state_dir);
    journal("lock the state directory");
    return journal_status("wp_daemon_lock", err);
}

enum wp_status
__wrap_wp_daemon_locks_join(struct wp_daemon_locks *locks, struct wp_err *err)
{
    assert_string_equal(locks->dir, conf.state_dir);
    journal("join those that stay");
    return journal_status("wp_daemon_locks_join", err);
}

void
__wrap_wp_daemon_unlock(struct wp_daemon_locks *locks)
{
    assert_string_equal(locks->dir, conf.state_dir);
    journal("unlock");
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
