/* allocator/stores/known_pools.h - the pools whose leases a state directory may
 * hold.
 *
 * Redis keeps the records of each pool apart, so that who does not know a
 * pool's name cannot find its leases. A pool that is taken out of the manifests
 * while it has some would be forgotten: its name stays in this file, one
 * "NAMESPACE/POOL" a line, until nothing of it is left. */
#ifndef WP_ALLOCATOR_STORES_KNOWN_POOLS_H
#define WP_ALLOCATOR_STORES_KNOWN_POOLS_H

#include <stdint.h>

#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/limits.h"

enum {
    WP_KNOWN_POOLS_FILE_MAX = 256 << 10,
};

struct wp_known_pool {
    char pool_namespace[WP_NAMESPACE_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
};

/* The lines of text, at most max of them, each once. False when one is not a
 * pool's name, or there are more. Pure. */
WP_MUST_CHECK bool wp_known_pools_parse(struct wp_str text,
                                        struct wp_known_pool *pools,
                                        uint32_t max, uint32_t *n);
/* The file's pools; none when there is no file. */
enum wp_status wp_known_pools_read(const char *path,
                                   struct wp_known_pool *pools, uint32_t max,
                                   uint32_t *n, struct wp_err *err);
/* Replaces the file, at once. */
enum wp_status wp_known_pools_write(const char *path,
                                    const struct wp_known_pool *pools,
                                    uint32_t n, struct wp_err *err);

#endif
