#include "allocator/daemon/core.h"

#include <signal.h>
#include <unistd.h>

bool
wp_daemon_is_keeper(const struct wp_daemon_core *core)
{
    return atomic_load_explicit(&core->keeper, memory_order_acquire);
}

void
wp_daemon_fail(struct wp_daemon_core *core)
{
    atomic_store_explicit(&core->failed, true, memory_order_relaxed);
    (void)kill(getpid(), SIGTERM);
}

void
wp_daemon_wake(void *ctx)
{
    struct wp_daemon_core *core = ctx;

    wp_control_wake(core->control);
}

void
wp_daemon_refuse_claims(void *ctx)
{
    struct wp_daemon_core *core = ctx;

    for (uint32_t i = 0; i < wp_pools_count(core->pools); i++) {
        wp_pools_drain(core->pools, i);
    }
    wp_control_wake(core->control);
}
