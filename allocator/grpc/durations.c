/* How long calls took, by method and code.
 *
 * Each serving thread has its own counters and is their only writer: no locked
 * instruction, and no line that two threads write. */
#include "allocator/grpc/internal.h"

#include <stdlib.h>
#include <string.h>

const int64_t wp_rpc_duration_bounds_ns[WP_RPC_DURATION_BOUNDS] = {
    10 * WP_NS_PER_US,  25 * WP_NS_PER_US,   50 * WP_NS_PER_US,
    100 * WP_NS_PER_US, 250 * WP_NS_PER_US,  500 * WP_NS_PER_US,
    1 * WP_NS_PER_MS,   2500 * WP_NS_PER_US, 5 * WP_NS_PER_MS,
    10 * WP_NS_PER_MS,  25 * WP_NS_PER_MS,   50 * WP_NS_PER_MS,
    100 * WP_NS_PER_MS, 250 * WP_NS_PER_MS,  500 * WP_NS_PER_MS,
    1 * WP_NS_PER_S,    2500 * WP_NS_PER_MS, 5 * WP_NS_PER_S,
    10 * WP_NS_PER_S,   60 * WP_NS_PER_S,
};

struct wp_rpc_durations (*wp_rpc_durations_create(void))[WP_RPC_CODES]
{
    return calloc(WP_RPC_METHODS_MAX,
                  sizeof(struct wp_rpc_durations[WP_RPC_CODES]));
}

void
wp_rpc_durations_add(struct wp_rpc_durations *d, int64_t duration_ns)
{
    unsigned i = 0;

    /* Most are among the first. */
    while (i < WP_RPC_DURATION_BOUNDS &&
           duration_ns > wp_rpc_duration_bounds_ns[i]) {
        i++;
    }
    WP_RPC_COUNT(&d->bucket[i], 1);
    WP_RPC_COUNT(&d->sum_ns, (uint64_t)(duration_ns > 0 ? duration_ns : 0));
}

static void
sum_up(struct wp_rpc_durations *d, struct wp_rpc_duration *out)
{
    out->sum_ns += atomic_load_explicit(&d->sum_ns, memory_order_relaxed);
    for (unsigned i = 0; i < WP_RPC_DURATION_BUCKETS; i++) {
        uint64_t n = atomic_load_explicit(&d->bucket[i], memory_order_relaxed);

        out->bucket[i] += n;
        out->count += n;
    }
}

bool
wp_rpc_server_duration(const struct wp_rpc_server *server, uint32_t *cursor,
                       struct wp_rpc_duration *out)
{
    while (*cursor < server->n_methods * WP_RPC_CODES) {
        uint32_t method = *cursor / WP_RPC_CODES;
        unsigned code = *cursor % WP_RPC_CODES;

        (*cursor)++;
        if (server->methods[method].kind != WP_RPC_UNARY) {
            continue;
        }
        *out = (struct wp_rpc_duration){
            .method = server->methods[method].api->path + 1, .code = code};
        for (uint32_t t = 0; t < server->n_threads; t++) {
            sum_up(&server->threads[t].durations[method][code], out);
        }
        if (out->count > 0) {
            return true;
        }
    }
    return false;
}

void
wp_rpc_server_served(const struct wp_rpc_server *server, unsigned served,
                     struct wp_rpc_duration *out)
{
    *out = (struct wp_rpc_duration){.method = NULL};
    for (uint32_t t = 0; t < server->n_threads; t++) {
        sum_up(&server->threads[t].served[served], out);
    }
}
