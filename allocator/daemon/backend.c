#include "allocator/daemon/cluster.h"
#include "allocator/daemon/parts.h"

#include <stdlib.h>
#include <unistd.h>

#include "pool/base/log.h"

/* How long stopping may wait for sandboxes to be gone. */
#define STOP_NS (5 * WP_NS_PER_S)
/* Between questions to a store that is out of reach. */
#define STORE_AGAIN_NS (100 * WP_NS_PER_MS)

/* --- Reports; the backend's thread --- */

static void
on_ready(void *ctx, struct wp_slot_ref ref, struct wp_str endpoint)
{
    struct wp_daemon *daemon = ctx;

    wp_pools_on_ready(daemon->pools, ref, endpoint);
}

static void
on_lost(void *ctx, struct wp_slot_ref ref, struct wp_str reason)
{
    struct wp_daemon *daemon = ctx;

    wp_pools_on_lost(daemon->pools, ref, reason);
}

static void
on_destroyed(void *ctx, struct wp_slot_ref ref)
{
    struct wp_daemon *daemon = ctx;

    wp_pools_on_destroyed(daemon->pools, ref);
}

/* The thread that starts the backend. */
struct question {
    struct wp_daemon *daemon;
    const struct wp_local_found *found;
    struct wp_slot_ref ref;
    bool wanted;
};

/* What the store has of the sandbox, when the core, which hears of others'
 * changes a little later, does not want it. */
struct fetch {
    struct wp_lease_op op;
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool done;
    enum wp_status status;
    struct wp_lease_record record;
};

static void
on_fetched(struct wp_lease_op *op, enum wp_status status)
{
    struct fetch *fetch = WP_CONTAINER_OF(op, struct fetch, op);

    (void)pthread_mutex_lock(&fetch->lock);
    fetch->status = status;
    fetch->done = true;
    (void)pthread_cond_signal(&fetch->answered);
    (void)pthread_mutex_unlock(&fetch->lock);
}

static void
fetch_record(const struct wp_daemon *daemon, const struct wp_local_found *found,
             struct fetch *fetch)
{
    enum wp_status status;

    memset(fetch, 0, sizeof *fetch);
    (void)pthread_mutex_init(&fetch->lock, NULL);
    (void)pthread_cond_init(&fetch->answered, NULL);
    fetch->op = (struct wp_lease_op){
        .kind = WP_LEASE_FETCH,
        .pool_namespace = found->pool_namespace,
        .pool = found->pool,
        .sandbox = found->name,
        .found = &fetch->record,
        .done = on_fetched,
    };
    memcpy(fetch->op.uid, found->uid, sizeof fetch->op.uid);
    /* When it is pending, the answer may be there before commit returns. */
    status = daemon->store.ops->commit(daemon->store.self, &fetch->op);
    if (status == WP_PENDING) {
        (void)pthread_mutex_lock(&fetch->lock);
        while (!fetch->done) {
            (void)pthread_cond_wait(&fetch->answered, &fetch->lock);
        }
        (void)pthread_mutex_unlock(&fetch->lock);
    } else {
        fetch->status = status;
    }
    (void)pthread_cond_destroy(&fetch->answered);
    (void)pthread_mutex_destroy(&fetch->lock);
}

struct news {
    struct wp_daemon *daemon;
    const struct wp_lease_record *record;
};

/* Control thread. */
static void
tell_record(void *ctx, uint64_t a, uint64_t b)
{
    const struct news *news = ctx;

    (void)a;
    (void)b;
    wp_pools_on_record(news->daemon->pools, news->record);
}

/* Has a signal come that ends the daemon, while no thread waits for it? */
static bool
stop_wanted(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 && (sigismember(&pending, SIGTERM) == 1 ||
                                         sigismember(&pending, SIGINT) == 1);
}

/* Asks the store for as long as it takes: nothing else tells whether somebody
 * holds the sandbox. True: there is a record, and the core knows it now. */
static bool
store_knows(struct wp_daemon *daemon, const struct wp_local_found *found)
{
    struct fetch fetch;
    struct news news = {daemon, &fetch.record};
    bool told = false;

    for (;;) {
        const struct timespec again = {0, STORE_AGAIN_NS};

        fetch_record(daemon, found, &fetch);
        if (fetch.status == WP_OK) {
            wp_loop_call(daemon->control_loop, tell_record, &news);
            return true;
        }
        if (fetch.status == WP_NOT_FOUND) {
            return false;
        }
        if (!told) {
            wp_log_warn("waiting for the lease store, to know whose the "
                        "sandboxes are");
            told = true;
        }
        (void)nanosleep(&again, NULL);
        if (stop_wanted()) {
            /* Only so is nothing destroyed that somebody may hold. */
            wp_log_warn("leaving everything as it is");
            _exit(EXIT_FAILURE);
        }
    }
}

/* Control thread. */
static void
ask_wanted(void *ctx, uint64_t a, uint64_t b)
{
    struct question *q = ctx;
    struct wp_pools *pools = q->daemon->pools;
    struct wp_claim_info info;

    (void)a;
    (void)b;
    /* An idle one of an older template would only be in the way. */
    q->wanted =
        (q->found->template_current ||
         wp_pools_find_sandbox(pools, q->found->name, &info) == WP_OK) &&
        wp_pools_seen(pools, q->found->uid, &q->ref);
}

static bool
adopt(void *ctx, const struct wp_local_found *found, struct wp_slot_ref *ref)
{
    struct question q = {.daemon = ctx, .found = found};

    wp_loop_call(q.daemon->control_loop, ask_wanted, &q);
    if (!q.wanted && q.daemon->store.ops->shared &&
        store_knows(q.daemon, found)) {
        wp_loop_call(q.daemon->control_loop, ask_wanted, &q);
    }
    *ref = q.ref;
    return q.wanted;
}

/* --- Making it --- */

static void
log_notes(const struct wp_daemon *daemon, const struct wp_host_report *report)
{
    for (size_t i = 0; i < wp_manifest_notes_count(daemon->manifest); i++) {
        wp_log_info("manifest note",
                    wp_kv_str("note", wp_manifest_note(daemon->manifest, i)));
    }
    for (uint32_t i = 0; i < report->notes_len; i++) {
        wp_log_warn("not enforced on this machine",
                    wp_kv_str("note", report->notes[i]));
    }
    wp_log_info("sandboxes", wp_kv_str("bwrap", report->bwrap_version),
                wp_kv_int("landlock_abi", report->landlock_abi),
                wp_kv_int("seccomp", report->seccomp ? 1 : 0),
                wp_kv_int("own_uids", report->own_uids ? 1 : 0));
}

enum wp_status
wp_daemon_probe_backend(struct wp_daemon *daemon, struct wp_err *err)
{
    struct wp_local_config config;
    struct wp_host_report report;

    if (!wp_conf_is_local(daemon->conf)) {
        return WP_OK;
    }
    memset(&report, 0, sizeof report);
    wp_daemon_local_config(daemon, &config);
    if (wp_local_probe(&config, &report, err) != WP_OK) {
        return wp_err_wrap(err, "this machine cannot make sandboxes");
    }
    return WP_OK;
}

/* --- The local backend as a machine --- */

static enum wp_status
local_start(void *self, const struct wp_local_events *events,
            struct wp_local_sweep *sweep, struct wp_err *err)
{
    return wp_local_start(self, events, sweep, err);
}

static struct wp_backend
local_port(void *self)
{
    return wp_local_backend(self);
}

static void
local_stats(const void *self, struct wp_local_stats *out)
{
    wp_local_stats(self, out);
}

static void
local_stop(void *self, bool leave_ready)
{
    if (leave_ready) {
        (void)wp_local_leave(self, STOP_NS);
    } else {
        (void)wp_local_stop(self, STOP_NS);
    }
}

static void
local_destroy(void *self)
{
    wp_local_destroy(self);
}

static enum wp_status
create_local(struct wp_daemon *daemon, struct wp_err *err)
{
    static const struct wp_machine_ops ops = {
        .name = "local",
        .start = local_start,
        .port = local_port,
        .stats = local_stats,
        .stop = local_stop,
        .destroy = local_destroy,
    };
    struct wp_local_config config;
    struct wp_local *local;

    wp_daemon_local_config(daemon, &config);
    config.lock_fd = daemon->backend_lock_fd;
    daemon->backend_lock_fd = -1;
    local = wp_local_create(&config, err);
    if (local == NULL) {
        return err->status;
    }
    log_notes(daemon, wp_local_report(local));
    daemon->machine = (struct wp_machine){&ops, local};
    return WP_OK;
}

enum wp_status
wp_daemon_create_backend(struct wp_daemon *daemon, struct wp_err *err)
{
#ifdef WP_TEST_TOOLS
    if (wp_conf_is_synthetic(daemon->conf)) {
        return wp_daemon_create_synthetic(daemon, err);
    }
#endif
    return create_local(daemon, err);
}

/* --- The port: a follower's backend comes later --- */

static enum wp_status
port_create(void *self, const struct wp_sandbox_order *order,
            struct wp_err *err)
{
    const struct wp_daemon *daemon = self;

    return daemon->port.ops->create(daemon->port.self, order, err);
}

static enum wp_status
port_destroy(void *self, struct wp_slot_ref ref)
{
    const struct wp_daemon *daemon = self;

    /* Not yet: the core asks again. */
    return daemon->port.ops != NULL
               ? daemon->port.ops->destroy(daemon->port.self, ref)
               : WP_RESOURCE_EXHAUSTED;
}

struct wp_backend
wp_daemon_backend(struct wp_daemon *daemon)
{
    static const struct wp_backend_ops local = {
        .name = "local", .create = port_create, .destroy = port_destroy};
#ifdef WP_TEST_TOOLS
    static const struct wp_backend_ops synthetic = {
        .name = "synthetic", .create = port_create, .destroy = port_destroy};

    if (wp_conf_is_synthetic(daemon->conf)) {
        return (struct wp_backend){&synthetic, daemon};
    }
#endif
    if (daemon->cluster != NULL) {
        return wp_daemon_cluster_port(daemon->cluster);
    }
    return (struct wp_backend){&local, daemon};
}

/* Control thread, or before it runs. */
static void
set_port(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_daemon *daemon = ctx;

    (void)a;
    (void)b;
    daemon->port = daemon->machine.ops->port(daemon->machine.self);
}

enum wp_status
wp_daemon_start_backend(struct wp_daemon *daemon, struct wp_err *err)
{
    const struct wp_local_events events = {
        daemon, on_ready, on_lost, on_destroyed,
        daemon->store.ops->durable ? adopt : NULL};
    struct wp_local_sweep sweep;
    enum wp_status status =
        daemon->machine.ops->start(daemon->machine.self, &events, &sweep, err);

    if (status != WP_OK) {
        return status;
    }
    atomic_store_explicit(&daemon->backend_started, true, memory_order_release);
    wp_loop_call(daemon->control_loop, set_port, daemon);
    daemon->adopted = sweep.adopted;
    if (sweep.sandboxes + sweep.cgroups + sweep.failed > 0) {
        wp_log_warn("swept what an earlier daemon left",
                    wp_kv_int("sandboxes", sweep.sandboxes),
                    wp_kv_int("killed", sweep.killed),
                    wp_kv_int("cgroups", sweep.cgroups),
                    wp_kv_int("failed", sweep.failed));
    }
    return WP_OK;
}

void
wp_daemon_backend_stats(const struct wp_daemon *daemon,
                        struct wp_local_stats *out)
{
    memset(out, 0, sizeof *out);
    if (!atomic_load_explicit(&daemon->backend_started, memory_order_acquire)) {
        return;
    }
    daemon->machine.ops->stats(daemon->machine.self, out);
}

void
wp_daemon_stop_backend(struct wp_daemon *daemon)
{
    if (!daemon->backend_started) {
        return;
    }
    daemon->machine.ops->stop(daemon->machine.self, daemon->leaves_ready);
}

void
wp_daemon_destroy_backend(struct wp_daemon *daemon)
{
    if (daemon->backend_lock_fd >= 0) {
        (void)close(daemon->backend_lock_fd);
    }
    if (daemon->machine.self != NULL) {
        daemon->machine.ops->destroy(daemon->machine.self);
    }
}
