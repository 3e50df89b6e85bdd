/* The methods of warmpool.v1.PoolAdmin. Questions are answered where they come
 * in; what shapes pools runs on the control thread, and is answered there. */
#include "allocator/services.h"

#include "allocator/services_private.h"

static void
reply_pool(struct wp_call *call, uint32_t index)
{
    struct wp_pool_stats stats;
    uint8_t *buf;

    wp_pools_stats(wp_services_of(call)->config.pools, index, &stats);
    buf = wp_service_reserve(call, wp_wire_size_pool(&stats));
    if (buf != NULL) {
        (void)wp_wire_pack_pool(&stats, buf);
        call->ops->finish(call, WP_OK, NULL, 0);
    }
}

/* --- ListPools, GetPool --- */

static void
list_pools_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_services *services = wp_services_of(call);
    struct wp_wire_list_pools_request request;
    struct wp_wire_pools response = {.pools = services->pools};
    struct wp_err err;
    uint8_t *buf;

    if (wp_wire_unpack_list_pools_request(&call->arena, bytes, len, &request,
                                          &err) != WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    (void)pthread_mutex_lock(&services->page_lock);
    for (uint32_t i = 0; i < wp_pools_count(services->config.pools); i++) {
        struct wp_pool_stats *stats = &services->pools[response.n_pools];

        wp_pools_stats(services->config.pools, i, stats);
        response.n_pools += stats->gone ? 0 : 1;
    }
    buf = call->ops->reserve(call, wp_wire_size_pools(&response));
    if (buf != NULL) {
        (void)wp_wire_pack_pools(&response, buf);
    }
    (void)pthread_mutex_unlock(&services->page_lock);
    call->ops->finish(call, buf != NULL ? WP_OK : WP_RESOURCE_EXHAUSTED,
                      buf != NULL ? NULL : "no memory for the reply", 0);
}

static void
get_pool_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_wire_get_pool_request request;
    struct wp_err err;
    uint32_t index;

    if (wp_wire_unpack_get_pool_request(&call->arena, bytes, len, &request,
                                        &err) != WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    index = wp_service_find_pool(call, &request.pool);
    if (index != UINT32_MAX) {
        reply_pool(call, index);
    }
}

/* --- SetPool --- */

/* On the control thread. */
static void
set_pool_run(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_call *call = ctx;
    const struct wp_services_config *config = &wp_services_of(call)->config;
    const struct wp_wire_set_pool_request *request = call->state;
    uint32_t index = wp_service_find_pool(call, &request->pool);
    struct wp_err err;

    (void)a;
    (void)b;
    if (index == UINT32_MAX) {
        return;
    }
    if (wp_pools_set_target(config->pools, index, request->target, &err) !=
        WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    config->wake(config->ctx);
    reply_pool(call, index);
}

static void
set_pool_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_wire_set_pool_request *request =
        wp_service_state(call, sizeof *request);
    struct wp_err err;

    if (request == NULL) {
        return;
    }
    if (wp_wire_unpack_set_pool_request(&call->arena, bytes, len, request,
                                        &err) != WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    if (wp_services_of(call)->config.targets_are_kept != NULL) {
        (void)wp_err_set(&err, WP_FAILED_PRECONDITION, "%s",
                         wp_services_of(call)->config.targets_are_kept);
        wp_service_refuse(call, &err);
        return;
    }
    call->state = request;
    wp_service_post(call, set_pool_run);
}

/* --- Drain --- */

static uint32_t
leased_of(struct wp_pools *pools, uint32_t index)
{
    struct wp_pool_stats stats;

    wp_pools_stats(pools, index, &stats);
    return stats.leased;
}

/* On the control thread. The answer is sent before the daemon is told to leave,
 * since from then on its transport may close. */
static void
drain_run(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_call *call = ctx;
    const struct wp_services_config *config = &wp_services_of(call)->config;
    const struct wp_wire_drain_request request =
        *(const struct wp_wire_drain_request *)call->state;
    struct wp_wire_drain_response response = {0};
    bool whole = request.pool.name.len == 0;
    uint8_t *buf;

    (void)a;
    (void)b;
    if (whole) {
        uint32_t n = wp_pools_count(config->pools);

        for (uint32_t i = 0; i < n; i++) {
            response.leased += leased_of(config->pools, i);
        }
    } else {
        uint32_t index = wp_service_find_pool(call, &request.pool);

        if (index == UINT32_MAX) {
            return;
        }
        wp_pools_drain(config->pools, index);
        config->wake(config->ctx);
        response.leased = leased_of(config->pools, index);
    }
    buf = wp_service_reserve(call, wp_wire_size_drain_response(&response));
    if (buf != NULL) {
        (void)wp_wire_pack_drain_response(&response, buf);
        call->ops->finish(call, WP_OK, NULL, 0);
    }
    if (whole) {
        config->drain(config->ctx, request.grace_ms * WP_NS_PER_MS);
    }
}

static void
drain_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_wire_drain_request *request =
        wp_service_state(call, sizeof *request);
    struct wp_err err;

    if (request == NULL) {
        return;
    }
    if (wp_wire_unpack_drain_request(&call->arena, bytes, len, request, &err) !=
        WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    call->state = request;
    wp_service_post(call, drain_run);
}

static const struct wp_method admin_methods[] = {
    {.path = "/warmpool.v1.PoolAdmin/ListPools",
     .admin_only = true,
     .start = list_pools_start},
    {.path = "/warmpool.v1.PoolAdmin/GetPool",
     .admin_only = true,
     .start = get_pool_start},
    {.path = "/warmpool.v1.PoolAdmin/SetPool",
     .admin_only = true,
     .start = set_pool_start},
    {.path = "/warmpool.v1.PoolAdmin/Drain",
     .admin_only = true,
     .start = drain_start},
};

struct wp_service
wp_service_admin(struct wp_services *services)
{
    return (struct wp_service){
        .name = "warmpool.v1.PoolAdmin",
        .methods = admin_methods,
        .n_methods = WP_ARRAY_LEN(admin_methods),
        .self = services,
    };
}
