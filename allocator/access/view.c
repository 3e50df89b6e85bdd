#include "allocator/access/view.h"

void
wp_view_of_tenant(struct wp_pool_stats *stats)
{
    struct wp_pool_stats seen = {
        .spec = stats->spec,
        .index = stats->index,
        .warming = stats->warming,
        .ready = stats->ready,
        .draining = stats->draining,
        .removed = stats->removed,
        .gone = stats->gone,
        .breaker_open = stats->breaker_open,
        .partial = true,
    };

    *stats = seen;
}
