#include "allocator/daemon/store.h"

#include <linux/magic.h>
#include <stdlib.h>
#include <sys/vfs.h>

#include "pool/base/log.h"
#include "pool/leases/memory.h"

struct wp_daemon_store {
    struct wp_lease_meter *meter;   /* Before the store; NULL: memory. Owned. */
    struct wp_lease_sqlite *sqlite; /* Owned; NULL: another, or closed. */
    struct wp_daemon_redis *redis;  /* Owned; NULL: another, or closed. */
    struct wp_lease_store port;
};

/* Does the file go when the machine stops? */
static bool
is_in_memory(const char *path)
{
    struct statfs fs;

    return statfs(path, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

/* Does a commit wait for the disk? */
static bool
syncs(const struct wp_conf *conf)
{
    return conf->sqlite_synchronous == WP_CONF_SYNCHRONOUS_FULL ||
           (conf->sqlite_synchronous == WP_CONF_SYNCHRONOUS_AUTO &&
            wp_conf_is_cluster(conf));
}

static const char *
promise(const struct wp_conf *conf)
{
    switch (conf->lease_store) {
    case WP_CONF_STORE_SQLITE:
        if (!wp_conf_is_cluster(conf)) {
            return is_in_memory(conf->lease_store_path)
                       ? "a lease is in a file before its claim is answered; "
                         "it survives a kill of the daemon; leases, sandboxes "
                         "and what scalers have learned end with the machine"
                       : "a lease is in a file before its claim is answered; "
                         "it survives a kill of the daemon; leases and "
                         "sandboxes end with the machine; what scalers have "
                         "learned survives a power loss";
        }
        return syncs(conf) && !is_in_memory(conf->lease_store_path)
                   ? "a lease is on disk before its claim is answered; it "
                     "survives a kill of the daemon and a power loss"
                   : "a lease is in a file before its claim is answered; it "
                     "survives a kill of the daemon, but perhaps not a power "
                     "loss";
    case WP_CONF_STORE_REDIS:
        return "a lease is in Redis before its claim is answered; it survives "
               "a kill of any daemon, and what Redis' appendfsync keeps of it "
               "a crash of Redis";
    case WP_CONF_STORE_MEMORY:
    default:
        if (wp_conf_is_cluster(conf)) {
            return "a lease is in the leader's memory, and soon after on its "
                   "Sandbox object, by which it is found again";
        }
        return "leases and their sandboxes end with the daemon, however it "
               "ends";
    }
}

static enum wp_status
open_sqlite(struct wp_daemon_store *self, const struct wp_conf *conf,
            struct wp_err *err)
{
    const struct wp_lease_sqlite_config config = {
        .records = (uint32_t)conf->slots_max,
        .path = conf->lease_store_path,
        .synchronous =
            syncs(conf) ? WP_LEASE_SQLITE_FULL : WP_LEASE_SQLITE_NORMAL,
    };

    self->sqlite = wp_lease_sqlite_create(&config, err);
    if (self->sqlite == NULL) {
        return wp_err_wrap(err, "setting 'lease_store_path'");
    }
    self->port = wp_lease_sqlite_store(self->sqlite);
    return WP_OK;
}

static enum wp_status
open_chosen(struct wp_daemon_store *self, struct wp_daemon_core *core,
            const struct wp_manifest *manifest,
            const struct wp_daemon_locks *locks, struct wp_err *err)
{
    self->port = wp_lease_memory();
    if (core->conf->lease_store == WP_CONF_STORE_SQLITE) {
        return open_sqlite(self, core->conf, err);
    }
    if (core->conf->lease_store == WP_CONF_STORE_REDIS) {
        self->redis = wp_daemon_redis_open(core, manifest, locks, err);
        if (self->redis == NULL) {
            return err->status;
        }
        self->port = wp_daemon_redis_store(self->redis);
    }
    return WP_OK;
}

/* Commits to a durable store are measured. */
static enum wp_status
add_meter(struct wp_daemon_store *self, struct wp_err *err)
{
    if (!self->port.ops->durable) {
        return WP_OK;
    }
    self->meter =
        aligned_alloc(_Alignof(struct wp_lease_meter), sizeof *self->meter);
    if (self->meter == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    wp_lease_meter_init(self->meter, self->port, wp_clock_system());
    self->port = wp_lease_meter_store(self->meter);
    return WP_OK;
}

struct wp_daemon_store *
wp_daemon_store_open(struct wp_daemon_core *core,
                     const struct wp_manifest *manifest,
                     const struct wp_daemon_locks *locks, struct wp_err *err)
{
    struct wp_daemon_store *self = calloc(1, sizeof *self);

    if (self == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    if (open_chosen(self, core, manifest, locks, err) != WP_OK) {
        wp_daemon_store_destroy(self);
        return NULL;
    }
    wp_log_info("lease store", wp_kv_str("store", self->port.ops->name),
                wp_kv_str("promise", promise(core->conf)));
    if (add_meter(self, err) != WP_OK) {
        wp_daemon_store_destroy(self);
        return NULL;
    }
    return self;
}

struct wp_lease_store
wp_daemon_store_port(const struct wp_daemon_store *self)
{
    return self->port;
}

struct wp_lease_meter *
wp_daemon_store_meter(const struct wp_daemon_store *self)
{
    return self->meter;
}

struct wp_daemon_redis *
wp_daemon_store_redis(const struct wp_daemon_store *self)
{
    return self->redis;
}

void
wp_daemon_store_metrics(const struct wp_daemon_store *self,
                        struct evbuffer *out)
{
    if (self->sqlite != NULL) {
        wp_daemon_sqlite_metrics(self->sqlite, out);
    }
    if (self->redis != NULL) {
        wp_daemon_redis_metrics(self->redis, out);
    }
}

void
wp_daemon_store_close(struct wp_daemon_store *self)
{
    wp_lease_sqlite_destroy(self->sqlite);
    self->sqlite = NULL;
    wp_daemon_redis_close(self->redis);
    self->redis = NULL;
}

void
wp_daemon_store_destroy(struct wp_daemon_store *self)
{
    if (self != NULL) {
        wp_daemon_store_close(self);
        free(self->meter);
        free(self);
    }
}
