/* What all parts of the daemon stand on. */
#include "allocator/daemon/parts.h"

bool
wp_daemon_is_keeper(const struct wp_daemon *daemon)
{
    return atomic_load_explicit(&daemon->keeper, memory_order_acquire);
}
