/* allocator/access/view.h - how much of the daemon's figures a caller sees. One
 * answer for WatchPools and for /metrics. Pure; any thread. */
#ifndef WP_ALLOCATOR_ACCESS_VIEW_H
#define WP_ALLOCATOR_ACCESS_VIEW_H

#include "pool/pool.h"

enum wp_view {
    WP_VIEW_TENANT, /* Of each pool what wp_view_of_tenant leaves. */
    WP_VIEW_ALL,    /* For admins and the operator's scrapers. */
};

/* Leaves what a tenant needs to know of a pool: that it is there, and whether a
 * claim would be served soon. How others use it becomes 0, and partial true. */
void wp_view_of_tenant(struct wp_pool_stats *stats);

#endif
