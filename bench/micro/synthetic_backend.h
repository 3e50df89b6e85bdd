/* bench/micro/synthetic_backend.h - sandboxes that cost nothing.
 *
 * Ready the moment they are ordered, gone the moment they are not wanted, so that
 * what is measured is the pool and what carries its answers. Counts what it
 * made; any thread, though the pool calls it from its control thread only. */
#ifndef WP_BENCH_MICRO_SYNTHETIC_BACKEND_H
#define WP_BENCH_MICRO_SYNTHETIC_BACKEND_H

#include <stdatomic.h>
#include <stdint.h>

#include "pool/backend.h"
#include "pool/pool.h"

struct wp_synthetic_backend {
    struct wp_pools *pools; /* Borrowed; set once they exist. */
    _Atomic(uint64_t) created;
    _Atomic(uint64_t) destroyed;
};

/* backend lives as long as the pools. */
struct wp_backend wp_synthetic_backend(struct wp_synthetic_backend *backend);

#endif
