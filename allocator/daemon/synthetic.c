/* Sandboxes that are files, for tests and benchmarks; in no release. */
#include "allocator/daemon/machine.h"

#include "local/synthetic/synthetic.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"

static enum wp_status
start(void *self, const struct wp_local_events *events,
      struct wp_local_sweep *sweep, struct wp_err *err)
{
    return wp_synthetic_start(self, events, sweep, err);
}

static struct wp_backend
port(void *self)
{
    return wp_synthetic_port(self);
}

static void
stats(const void *self, struct wp_local_stats *out)
{
    wp_synthetic_stats(self, out);
}

static void
stop(void *self, bool leave_ready)
{
    if (leave_ready) {
        wp_synthetic_leave(self);
    } else {
        wp_synthetic_stop(self);
    }
}

static void
destroy(void *self)
{
    wp_synthetic_destroy(self);
}

enum wp_status
wp_daemon_create_synthetic(const struct wp_conf *conf,
                           struct wp_daemon_locks *locks,
                           struct wp_machine *out, struct wp_err *err)
{
    static const struct wp_machine_ops ops = {
        .name = "synthetic",
        .start = start,
        .port = port,
        .stats = stats,
        .stop = stop,
        .destroy = destroy,
    };
    struct wp_synthetic_config config = {
        .state_dir = conf->state_dir,
        .lock_fd = wp_daemon_locks_give(locks),
        .ready_ns = conf->synthetic_ready,
        .fail_percent = (uint32_t)conf->synthetic_failures,
        .sandboxes_max = (uint32_t)conf->slots_max,
        .spawns_max = (uint32_t)conf->sandbox_spawns_max,
    };
    struct wp_synthetic *synthetic;

    wp_random_bytes(&config.seed, sizeof config.seed);
    synthetic = wp_synthetic_create(&config, err);
    if (synthetic == NULL) {
        return err->status;
    }
    out->ops = &ops;
    out->self = synthetic;
    wp_log_warn("synthetic: sandboxes are files, nothing runs in them, "
                "nothing is isolated; only for measuring and testing");
    return WP_OK;
}
