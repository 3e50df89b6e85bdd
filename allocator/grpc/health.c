/* grpc.health.v1: one answer for the server and each of its services.
 *
 * A watch is told the current state, then each change; only the newest matters,
 * so a slow reader misses those in between. The list of watches is shared by
 * the queues' threads and whoever changes the state: the lock guards it all. */
#include "allocator/grpc/internal.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/list.h"
#include "proto/wire/health.h"

struct wp_rpc_health {
    struct wp_rpc_server *server;
    struct wp_service service;
    struct wp_method methods[2];
    pthread_mutex_t lock; /* Guards what follows, and all watches. */
    struct wp_list watches;
    bool serving;
    bool ended;
};

/* In the call's arena. */
struct watch {
    struct wp_list node;
    struct wp_call *call;
    bool known;               /* The service is one of ours. */
    enum wp_wire_health sent; /* UNKNOWN: nothing yet. */
};

static bool
is_known(const struct wp_rpc_health *health, struct wp_str service)
{
    if (service.len == 0) {
        return true;
    }
    for (uint32_t i = 0; i < health->server->n_services; i++) {
        if (wp_str_is(service, health->server->services[i]->name)) {
            return true;
        }
    }
    return false;
}

static enum wp_wire_health
state_of(const struct wp_rpc_health *health, bool known)
{
    if (!known) {
        return WP_WIRE_HEALTH_SERVICE_UNKNOWN;
    }
    return health->serving && wp_h2_server_accepts(health->server->h2)
               ? WP_WIRE_HEALTH_SERVING
               : WP_WIRE_HEALTH_NOT_SERVING;
}

static bool
put_response(struct wp_call *call, enum wp_wire_health state)
{
    struct wp_wire_health_response response = {.status = state};
    uint8_t *buf =
        call->ops->reserve(call, wp_wire_size_health_response(&response));

    if (buf == NULL) {
        return false;
    }
    (void)wp_wire_pack_health_response(&response, buf);
    return true;
}

static void
check_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    struct wp_rpc_health *health = call->service;
    struct wp_wire_health_request decoded;
    enum wp_wire_health state;
    struct wp_err err;

    if (wp_wire_unpack_health_request(&call->arena, request, len, &decoded,
                                      &err) != WP_OK) {
        call->ops->finish(call, err.status, err.msg, 0);
        return;
    }
    if (!is_known(health, decoded.service)) {
        call->ops->finish(call, WP_NOT_FOUND, "unknown service", 0);
        return;
    }
    (void)pthread_mutex_lock(&health->lock);
    state = state_of(health, true);
    (void)pthread_mutex_unlock(&health->lock);
    if (!put_response(call, state)) {
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED, "memory", 0);
        return;
    }
    call->ops->finish(call, WP_OK, NULL, 0);
}

/* Tells the watch when what it was told is old. Called with the lock held.
 * While a message is on its way nothing is sent; watch_writable comes back to
 * it. */
static void
tell(struct wp_rpc_health *health, struct watch *watch)
{
    enum wp_wire_health state = state_of(health, watch->known);

    if (state != watch->sent && put_response(watch->call, state) &&
        watch->call->ops->send(watch->call)) {
        watch->sent = state;
    }
}

/* Ends the watch unless someone else has. Called with the lock held. */
static void
end_watch(struct watch *watch, enum wp_status status, const char *message)
{
    if (watch->node.next != &watch->node) {
        wp_list_remove(&watch->node);
        watch->call->ops->finish(watch->call, status, message, 0);
    }
}

/* Tells the watch the newest state, and ends it once it knows that the server
 * leaves. Called with the lock held. */
static void
serve_watch(struct wp_rpc_health *health, struct watch *watch)
{
    tell(health, watch);
    if (health->ended && watch->sent == state_of(health, watch->known)) {
        end_watch(watch, WP_UNAVAILABLE, "the server is leaving");
    }
}

static void
watch_writable(struct wp_call *call)
{
    struct wp_rpc_health *health = call->service;
    struct watch *watch = call->state;

    (void)pthread_mutex_lock(&health->lock);
    if (watch->node.next != &watch->node) { /* Not ended. */
        serve_watch(health, watch);
    }
    (void)pthread_mutex_unlock(&health->lock);
}

static void
watch_cancelled(struct wp_call *call)
{
    struct wp_rpc_health *health = call->service;

    (void)pthread_mutex_lock(&health->lock);
    end_watch(call->state, WP_CANCELLED, NULL);
    (void)pthread_mutex_unlock(&health->lock);
}

static void
watch_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    struct wp_rpc_health *health = call->service;
    struct wp_wire_health_request decoded;
    struct wp_err err;
    struct watch *watch;

    if (wp_wire_unpack_health_request(&call->arena, request, len, &decoded,
                                      &err) != WP_OK) {
        call->ops->finish(call, err.status, err.msg, 0);
        return;
    }
    watch = wp_arena_alloc(&call->arena, sizeof(*watch));
    if (watch == NULL) {
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED, "memory", 0);
        return;
    }
    *watch = (struct watch){.call = call,
                            .known = is_known(health, decoded.service)};
    call->state = watch;
    call->cancelled = watch_cancelled;
    call->writable = watch_writable;
    (void)pthread_mutex_lock(&health->lock);
    wp_list_push_back(&health->watches, &watch->node);
    serve_watch(health, watch);
    (void)pthread_mutex_unlock(&health->lock);
}

/* Called with the lock held. */
static void
serve_all(struct wp_rpc_health *health)
{
    struct wp_list *node = health->watches.next;

    while (node != &health->watches) {
        struct wp_list *next = node->next; /* Serving may end the watch. */

        serve_watch(health, WP_CONTAINER_OF(node, struct watch, node));
        node = next;
    }
}

void
wp_rpc_health_set(struct wp_rpc_health *health, bool serving)
{
    (void)pthread_mutex_lock(&health->lock);
    health->serving = serving && !health->ended;
    serve_all(health);
    (void)pthread_mutex_unlock(&health->lock);
}

void
wp_rpc_health_end(struct wp_rpc_health *health)
{
    (void)pthread_mutex_lock(&health->lock);
    health->ended = true;
    health->serving = false;
    serve_all(health);
    (void)pthread_mutex_unlock(&health->lock);
}

struct wp_rpc_health *
wp_rpc_health_create(struct wp_rpc_server *server)
{
    struct wp_rpc_health *health = calloc(1, sizeof(*health));

    if (health == NULL) {
        return NULL;
    }
    health->server = server;
    health->methods[0] = (struct wp_method){
        .path = "/grpc.health.v1.Health/Check", .start = check_start};
    health->methods[1] =
        (struct wp_method){.path = "/grpc.health.v1.Health/Watch",
                           .server_streaming = true,
                           .start = watch_start};
    health->service = (struct wp_service){.name = "grpc.health.v1.Health",
                                          .methods = health->methods,
                                          .n_methods = 2,
                                          .self = health};
    wp_list_init(&health->watches);
    (void)pthread_mutex_init(&health->lock, NULL);
    return health;
}

void
wp_rpc_health_destroy(struct wp_rpc_health *health)
{
    if (health != NULL) {
        (void)pthread_mutex_destroy(&health->lock);
        free(health);
    }
}

const struct wp_service *
wp_rpc_health_service(const struct wp_rpc_health *health)
{
    return &health->service;
}
