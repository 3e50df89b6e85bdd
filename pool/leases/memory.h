/* pool/leases/memory.h - the lease store that keeps nothing.
 *
 * Leases live in the slot table and end with the process, so every commit
 * succeeds at once. For tests, and for measuring the path itself. */
#ifndef WP_POOL_LEASES_MEMORY_H
#define WP_POOL_LEASES_MEMORY_H

#include "pool/lease_store.h"

struct wp_lease_store wp_lease_memory(void);

#endif
