/* allocator/services/watch.h - WatchPools: pools' numbers as they change.
 *
 * A stream holds no queue: it remembers which pools changed since its last
 * message, and its next message carries their newest numbers. Messages of one
 * stream are watch_interval_ns apart at least; a client that reads slowly gets
 * fewer of them. */
#ifndef WP_ALLOCATOR_SERVICES_WATCH_H
#define WP_ALLOCATOR_SERVICES_WATCH_H

#include <stdint.h>

#include "allocator/services/services.h"

/* The pool's numbers changed. Fits wp_pools_config.changed, with the services
 * as ctx. Control thread; wp_services_run is to follow in the same turn. */
void wp_service_watch_changed(void *ctx, uint32_t pool_index);

#endif
