#include "allocator/services/services.h"

#include <inttypes.h>
#include <stdlib.h>

#include "allocator/services/services_private.h"
#include "pool/base/assert.h"
#include "pool/base/extreme.h"

/* How long before its deadline a waiting claim is refused, so that the client
 * hears RESOURCE_EXHAUSTED and when to retry instead of a bare deadline. */
#define ANSWER_MARGIN_NS (5 * WP_NS_PER_MS)

void
wp_services_config_init(struct wp_services_config *config)
{
    *config = (struct wp_services_config){
        .pools_are_kept = "pool: this daemon neither makes nor removes any",
        .waiting_max = 2048,
        .batches_max = 16,
        .watches_max = 64,
        .watch_interval_ns = 100 * WP_NS_PER_MS,
    };
}

static bool
config_valid(const struct wp_services_config *config, struct wp_err *err)
{
    WP_ASSERT(config->pools != NULL && config->clock != NULL);
    WP_ASSERT(config->post != NULL && config->wake != NULL &&
              config->drain != NULL);
    WP_ASSERT(config->shape != NULL || config->pools_are_kept != NULL);
    if (config->waiting_max < 1) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "waiting_max: 1 or more expected");
        return false;
    }
    if (config->batches_max < 1 || config->batches_max > WP_BATCHES_MAX) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "batches_max: 1 to %d expected, got %" PRIu32,
                         WP_BATCHES_MAX, config->batches_max);
        return false;
    }
    if (config->watches_max < 1 || config->watches_max > WP_WATCHES_MAX) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "watches_max: 1 to %d expected, got %" PRIu32,
                         WP_WATCHES_MAX, config->watches_max);
        return false;
    }
    if (config->watch_interval_ns < 0) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "watch_interval: 0 or more expected");
        return false;
    }
    return true;
}

struct wp_services *
wp_services_create(const struct wp_services_config *config, struct wp_err *err)
{
    struct wp_services *services;

    if (!config_valid(config, err)) {
        return NULL;
    }
    services = calloc(1, sizeof *services);
    if (services == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "services: out of memory");
        return NULL;
    }
    services->config = *config;
    WP_ASSERT(pthread_mutex_init(&services->page_lock, NULL) == 0);
    atomic_init(&services->batches_in_use, 0);
    atomic_init(&services->stopping, false);
    services->claims = calloc(WP_PAGE_MAX, sizeof *services->claims);
    services->pools = calloc(WP_POOLS_MAX, sizeof *services->pools);
    if (services->claims == NULL || services->pools == NULL ||
        !wp_service_batch_create(services) ||
        !wp_service_watch_create(services) ||
        !wp_service_stream_create(services) ||
        !wp_service_advise_create(services)) {
        wp_services_destroy(services);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "services: out of memory");
        return NULL;
    }
    return services;
}

void
wp_services_destroy(struct wp_services *services)
{
    if (services == NULL) {
        return;
    }
    wp_service_advise_destroy(services);
    wp_service_stream_destroy(services);
    wp_service_watch_destroy(services);
    wp_service_batch_destroy(services);
    free(services->claims);
    free(services->pools);
    (void)pthread_mutex_destroy(&services->page_lock);
    free(services);
}

void
wp_services_changed(void *ctx, uint32_t pool_index)
{
    struct wp_services *services = ctx;

    wp_service_watch_changed(services, pool_index);
    wp_service_stream_changed(services, pool_index);
}

int64_t
wp_services_run(struct wp_services *services)
{
    int64_t stream_ns = wp_service_stream_run(services);
    int64_t watch_ns = wp_service_watch_run(services);

    return stream_ns < watch_ns ? stream_ns : watch_ns;
}

void
wp_services_end_streams(struct wp_services *services)
{
    wp_service_stream_end(services);
}

void
wp_services_stop(struct wp_services *services)
{
    wp_service_stream_end(services);
    wp_service_watch_stop(services);
    wp_service_advise_stop(services);
}

/* --- What the methods share --- */

void
wp_service_refuse(struct wp_call *call, const struct wp_err *err)
{
    call->ops->finish(call, err->status, err->msg, 0);
}

bool
wp_service_serves(struct wp_call *call)
{
    const _Atomic(bool) *serves = wp_services_of(call)->config.serves;

    if (serves == NULL || atomic_load_explicit(serves, memory_order_acquire)) {
        return true;
    }
    call->ops->finish(call, WP_UNAVAILABLE,
                      "this replica does not lead, and its lease store is not "
                      "shared; the leader serves",
                      0);
    return false;
}

void *
wp_service_state(struct wp_call *call, size_t size)
{
    void *state = wp_arena_alloc(&call->arena, size);

    if (state == NULL) {
        call->ops->finish(call, WP_INTERNAL, "the call's memory is too small",
                          0);
        return NULL;
    }
    return memset(state, 0, size);
}

uint8_t *
wp_service_reserve(struct wp_call *call, size_t len)
{
    uint8_t *buf = call->ops->reserve(call, len);

    if (buf == NULL) {
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED,
                          "no memory for the reply", 0);
    }
    return buf;
}

bool
wp_service_tenant(struct wp_call *call, struct wp_str asked,
                  struct wp_str *tenant)
{
    const struct wp_identity *who = &call->who;
    struct wp_str own = wp_str_from(who->tenant);

    if (wp_str_starts_with(asked, WP_STR(WP_TENANT_OWN_PREFIX))) {
        call->ops->finish(call, WP_PERMISSION_DENIED,
                          "tenant: those that begin with '" WP_TENANT_OWN_PREFIX
                          "' are the daemon's own",
                          0);
        return false;
    }
    if (own.len == 0 || asked.len == 0 || wp_str_eq(own, asked)) {
        *tenant = own.len != 0 && asked.len == 0 ? own : asked;
        return true;
    }
    if (who->admin) {
        *tenant = asked;
        return true;
    }
    call->ops->finish(call, WP_PERMISSION_DENIED,
                      "tenant: your credentials name another tenant; leave it "
                      "empty",
                      0);
    return false;
}

uint32_t
wp_service_find_pool(struct wp_call *call, const struct wp_wire_pool_ref *pool)
{
    uint32_t index = wp_pools_index(wp_services_of(call)->config.pools,
                                    pool->pool_namespace, pool->name);

    if (index == UINT32_MAX) {
        struct wp_err err;

        (void)wp_service_no_pool(pool->pool_namespace, pool->name, &err);
        wp_service_refuse(call, &err);
    }
    return index;
}

int64_t
wp_service_wait_ns(const struct wp_call *call, int64_t wait_ms)
{
    const struct wp_services *services = wp_services_of(call);
    int64_t wait_ns = wait_ms * WP_NS_PER_MS;
    int64_t left_ns;

    if (wait_ns == 0) {
        return 0;
    }
    left_ns = call->deadline_ns - wp_clock_mono_ns(services->config.clock) -
              ANSWER_MARGIN_NS;
    return wp_min_i64(wait_ns, wp_max_i64(left_ns, 0));
}

void
wp_service_post(struct wp_call *call,
                void (*run)(void *call, uint64_t a, uint64_t b))
{
    const struct wp_services_config *config = &wp_services_of(call)->config;

    if (!config->post(config->ctx,
                      (struct wp_message){.run = run, .ctx = call})) {
        call->ops->finish(call, WP_UNAVAILABLE,
                          "the control thread has too much to do; try again",
                          100 * WP_NS_PER_MS);
    }
}
