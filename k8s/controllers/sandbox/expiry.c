#include "k8s/controllers/sandbox/expiry.h"

#include <string.h>

#include "k8s/objects/view.h"
#include "pool/base/clock.h"

int64_t
wp_sandbox_expires_in_ns(const struct wp_object *sandbox, int64_t wall_ns)
{
    int64_t at_ms = wp_sandbox_view(sandbox)->shutdown_wall_ms;
    int64_t now_ms = wall_ns / WP_NS_PER_MS;

    if (at_ms == 0) {
        return -1;
    }
    if (at_ms <= now_ms) {
        return 0;
    }
    /* A year in which nobody of ours will wait is as good as never. */
    if (at_ms - now_ms >= WP_TIME_NEVER / WP_NS_PER_MS) {
        return WP_TIME_NEVER;
    }
    return (at_ms - now_ms) * WP_NS_PER_MS;
}

bool
wp_sandbox_marked_expired(const struct wp_object *sandbox)
{
    return strcmp(wp_sandbox_view(sandbox)->ready.reason, "SandboxExpired") ==
           0;
}
