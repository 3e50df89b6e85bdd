/* WatchPools: pools' numbers as they change. A stream holds no queue: it
 * remembers which pools changed since its last message, and its next message
 * carries their newest numbers. Messages of one stream are watch_interval_ns
 * apart at least; a client that reads slowly gets fewer of them.
 *
 * The first message is sent where the call comes in, all others on
 * the control thread; that the client has gone, or can take the next message,
 * is heard on the transport's thread. A watch's lock settles it: who holds it
 * owns the call, and the call is open as long as watch->call points at it. The
 * watches themselves are never freed while calls may come, so that a late
 * `cancelled` finds its watch, and sees that it is another's by now. */
#include <inttypes.h>
#include <stdlib.h>

#include "allocator/access/view.h"
#include "allocator/services/services_private.h"
#include "pool/base/assert.h"

enum {
    WORDS = WP_POOLS_MAX / 64,
};

struct wp_watch {
    pthread_mutex_t lock; /* guards: all below, and use of the call */
    struct wp_call *call; /* NULL: free. */
    bool all;             /* Of all pools, or of pool_index only. */
    uint32_t pool_index;
    bool blocked;    /* The last message is on its way: wait for writable. */
    bool owed;       /* Some bit of changed is set. */
    int64_t next_ns; /* Not before this. */
    uint64_t changed[WORDS]; /* Bit i: pool i, since the last message. */
};

bool
wp_service_watch_create(struct wp_services *services)
{
    uint32_t n = services->config.watches_max;

    services->watches = calloc(n, sizeof *services->watches);
    if (services->watches == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        WP_ASSERT(pthread_mutex_init(&services->watches[i].lock, NULL) == 0);
    }
    return true;
}

void
wp_service_watch_destroy(struct wp_services *services)
{
    uint32_t n = services->watches != NULL ? services->config.watches_max : 0;

    for (uint32_t i = 0; i < n; i++) {
        WP_ASSERT(services->watches[i].call == NULL);
        (void)pthread_mutex_destroy(&services->watches[i].lock);
    }
    free(services->watches);
    services->watches = NULL;
}

static void
mark(struct wp_watch *watch, uint32_t index)
{
    watch->changed[index / 64] |= UINT64_C(1) << (index % 64);
    watch->owed = true;
}

/* The numbers of every changed pool, packed into the call's reservation. False
 * when memory lacks. Under watch->lock. */
static bool
pack_changed(struct wp_services *services, struct wp_watch *watch)
{
    struct wp_wire_pools message = {.pools = services->pools};
    uint32_t n = wp_pools_count(services->config.pools);
    uint8_t *buf;

    (void)pthread_mutex_lock(&services->page_lock);
    for (uint32_t i = 0; i < n; i++) {
        if ((watch->changed[i / 64] >> (i % 64) & 1) != 0) {
            struct wp_pool_stats *stats = &services->pools[message.n_pools];

            wp_pools_stats(services->config.pools, i, stats);
            if (!watch->call->who.admin) {
                wp_view_of_tenant(stats);
            }
            message.n_pools += stats->gone ? 0 : 1;
        }
    }
    buf = watch->call->ops->reserve(watch->call, wp_wire_size_pools(&message));
    if (buf != NULL) {
        (void)wp_wire_pack_pools(&message, buf);
    }
    (void)pthread_mutex_unlock(&services->page_lock);
    return buf != NULL;
}

/* Ends the stream; the watch is free. Under watch->lock. */
static void
end(struct wp_watch *watch, enum wp_status status, const char *message)
{
    struct wp_call *call = watch->call;

    watch->call = NULL;
    call->ops->finish(call, status, message, 0);
}

/* Sends what is owed, unless the last message is still on its way. Under
 * watch->lock. */
static void
send_owed(struct wp_services *services, struct wp_watch *watch, int64_t now_ns)
{
    if (!pack_changed(services, watch)) {
        end(watch, WP_RESOURCE_EXHAUSTED, "no memory for the message");
        return;
    }
    if (!watch->call->ops->send(watch->call)) {
        watch->blocked = true; /* What is owed stays owed. */
        return;
    }
    watch->owed = false;
    memset(watch->changed, 0, sizeof watch->changed);
    watch->next_ns = wp_time_add(now_ns, services->config.watch_interval_ns);
}

/* --- On the transport's thread --- */

static void
watch_cancelled(struct wp_call *call)
{
    struct wp_watch *watch = call->state;

    (void)pthread_mutex_lock(&watch->lock);
    /* A call is not used again while its `cancelled` runs, so the same pointer
     * is the same call. */
    if (watch->call == call) {
        end(watch, WP_CANCELLED, NULL);
    }
    (void)pthread_mutex_unlock(&watch->lock);
}

static void
watch_writable(struct wp_call *call)
{
    const struct wp_services_config *config = &wp_services_of(call)->config;
    struct wp_watch *watch = call->state;
    bool wake = false;

    (void)pthread_mutex_lock(&watch->lock);
    if (watch->call == call && watch->blocked) {
        watch->blocked = false;
        wake = watch->owed;
    }
    (void)pthread_mutex_unlock(&watch->lock);
    if (wake) {
        config->wake(config->ctx);
    }
}

/* A free watch, locked; NULL when all are in use. */
static struct wp_watch *
watch_take(struct wp_services *services)
{
    for (uint32_t i = 0; i < services->config.watches_max; i++) {
        struct wp_watch *watch = &services->watches[i];

        (void)pthread_mutex_lock(&watch->lock);
        if (watch->call == NULL) {
            return watch;
        }
        (void)pthread_mutex_unlock(&watch->lock);
    }
    return NULL;
}

/* Takes over a free, locked watch for the call and sends the first message. */
static void
watch_begin(struct wp_services *services, struct wp_watch *watch,
            struct wp_call *call, uint32_t index)
{
    uint32_t n = wp_pools_count(services->config.pools);

    watch->call = call;
    watch->all = index == UINT32_MAX;
    watch->pool_index = index;
    watch->blocked = false;
    memset(watch->changed, 0, sizeof watch->changed);
    for (uint32_t i = 0; i < n; i++) {
        if (watch->all || i == index) {
            mark(watch, i);
        }
    }
    call->state = watch;
    call->cancelled = watch_cancelled;
    call->writable = watch_writable;
    send_owed(services, watch, wp_clock_mono_ns(services->config.clock));
}

void
wp_service_watch_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_services *services = wp_services_of(call);
    struct wp_wire_watch_pools_request request;
    uint32_t index = UINT32_MAX;
    struct wp_watch *watch;
    struct wp_err err;

    if (wp_wire_unpack_watch_pools_request(&call->arena, bytes, len, &request,
                                           &err) != WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    if (request.pool.name.len != 0) {
        index = wp_service_find_pool(call, &request.pool);
        if (index == UINT32_MAX) {
            return;
        }
    }
    watch = watch_take(services);
    if (watch == NULL) {
        (void)wp_err_set(&err, WP_RESOURCE_EXHAUSTED,
                         "%" PRIu32 " watches are open, as many as may be",
                         services->config.watches_max);
        wp_service_refuse(call, &err);
        return;
    }
    /* Acquire pairs with the release in watch_stop; under the watch's lock, so
     * that the sweep there either finds this watch or is seen here. */
    if (atomic_load_explicit(&services->stopping, memory_order_acquire)) {
        call->ops->finish(call, WP_UNAVAILABLE, "the daemon is leaving", 0);
    } else {
        watch_begin(services, watch, call, index);
    }
    (void)pthread_mutex_unlock(&watch->lock);
}

/* --- On the control thread --- */

void
wp_service_watch_changed(struct wp_services *services, uint32_t pool_index)
{
    for (uint32_t i = 0; i < services->config.watches_max; i++) {
        struct wp_watch *watch = &services->watches[i];

        (void)pthread_mutex_lock(&watch->lock);
        if (watch->call != NULL &&
            (watch->all || watch->pool_index == pool_index)) {
            mark(watch, pool_index);
        }
        (void)pthread_mutex_unlock(&watch->lock);
    }
}

int64_t
wp_service_watch_run(struct wp_services *services)
{
    int64_t now_ns = wp_clock_mono_ns(services->config.clock);
    int64_t next_ns = WP_TIME_NEVER;

    for (uint32_t i = 0; i < services->config.watches_max; i++) {
        struct wp_watch *watch = &services->watches[i];

        (void)pthread_mutex_lock(&watch->lock);
        if (watch->call != NULL && watch->owed && !watch->blocked) {
            if (watch->next_ns <= now_ns) {
                send_owed(services, watch, now_ns);
            } else if (watch->next_ns < next_ns) {
                next_ns = watch->next_ns;
            }
        }
        (void)pthread_mutex_unlock(&watch->lock);
    }
    return next_ns;
}

void
wp_service_watch_stop(struct wp_services *services)
{
    /* Release pairs with the acquire in watch_start. */
    atomic_store_explicit(&services->stopping, true, memory_order_release);
    for (uint32_t i = 0; i < services->config.watches_max; i++) {
        struct wp_watch *watch = &services->watches[i];

        (void)pthread_mutex_lock(&watch->lock);
        if (watch->call != NULL) {
            end(watch, WP_UNAVAILABLE, "the daemon is leaving");
        }
        (void)pthread_mutex_unlock(&watch->lock);
    }
}
