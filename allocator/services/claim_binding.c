#include "allocator/services/claim_binding.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Of all claims that bring something and are not answered. */
    BINDINGS_BYTES_MAX = 64 << 20,
};

struct wp_claim_binding {
    struct wp_bind bind;
    struct wp_binding view;
    size_t size;
    alignas(max_align_t) uint8_t bytes[]; /* The message, then its parts. */
};

/* NULL after having finished the call. */
static struct wp_claim_binding *
allocate(struct wp_call *call, size_t len, size_t room)
{
    struct wp_services *services = wp_services_of(call);
    struct wp_claim_binding *self = NULL;
    size_t size = sizeof *self + len + room;

    /* Relaxed: a count, nothing is read by it. */
    if (atomic_fetch_add_explicit(&services->binding_bytes, size,
                                  memory_order_relaxed) +
            size <=
        BINDINGS_BYTES_MAX) {
        self = malloc(size);
    }
    if (self == NULL) {
        (void)atomic_fetch_sub_explicit(&services->binding_bytes, size,
                                        memory_order_relaxed);
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED,
                          "binding: too many claims that bring one are under "
                          "way",
                          WP_NS_PER_S);
        return NULL;
    }
    memset(self, 0, sizeof *self);
    self->size = size;
    return self;
}

void
wp_service_binding_drop(struct wp_services *services,
                        struct wp_claim_binding *binding)
{
    if (binding != NULL) {
        size_t size = binding->size;

        explicit_bzero(binding, size);
        free(binding);
        (void)atomic_fetch_sub_explicit(&services->binding_bytes, size,
                                        memory_order_relaxed);
    }
}

/* Others can read the connection: does it bring what they must not? */
static enum wp_status
check_readable(const struct wp_binding *binding, struct wp_err *err)
{
    const char *field = binding->n_secrets > 0 ? "secrets" : NULL;

    for (uint32_t i = 0; i < binding->n_repositories && field == NULL; i++) {
        if (binding->repositories[i].password.len > 0) {
            field = "repositories.password";
        }
    }
    return field == NULL ? WP_OK
                         : wp_err_set(err, WP_FAILED_PRECONDITION,
                                      "binding.%s: a connection with TLS, or "
                                      "the Unix socket, expected",
                                      field);
}

/* What it says, and whether that can be had. */
static enum wp_status
check(struct wp_claim_binding *self, const struct wp_call *call,
      const struct wp_wire_claim_request *request, struct wp_err *err)
{
    struct wp_pools *pools = wp_services_of(call)->config.pools;
    struct wp_arena arena;
    enum wp_status status = WP_OK;

    wp_arena_init(&arena, self->bytes + request->binding.len,
                  self->size - sizeof *self - request->binding.len);
    if (request->binding.ptr != NULL) {
        status = wp_wire_unpack_binding(&arena, self->bytes,
                                        request->binding.len, &self->view, err);
    }
    if (status == WP_OK && !call->who.unread) {
        status = check_readable(&self->view, err);
    }
    if (status == WP_OK) {
        status = wp_pools_may_bind(pools, request->pool.pool_namespace,
                                   request->pool.name, err);
    }
    if (status == WP_OK) {
        status = wp_pools_may_bring(pools, &self->view, err);
    }
    if (status == WP_OK && self->view.egress.len > 0) {
        status =
            wp_pools_may_narrow(pools, request->pool.pool_namespace,
                                request->pool.name, self->view.egress, err);
    }
    if (status == WP_OK && self->view.audience.len > 0) {
        status = wp_pools_may_sign(pools, err);
    }
    self->view.fingerprint =
        wp_pools_fingerprint(pools, (struct wp_str){(const char *)self->bytes,
                                                    request->binding.len});
    return status;
}

struct wp_claim_binding *
wp_service_binding_take(struct wp_call *call,
                        const struct wp_wire_claim_request *request)
{
    const struct wp_str bytes =
        request->binding.ptr != NULL ? request->binding : WP_STR("");
    struct wp_claim_binding *self =
        allocate(call, bytes.len,
                 wp_wire_binding_room((const uint8_t *)bytes.ptr, bytes.len));
    struct wp_err err;

    if (self == NULL) {
        return NULL;
    }
    if (bytes.len > 0) {
        memcpy(self->bytes, bytes.ptr, bytes.len);
    }
    if (check(self, call, request, &err) != WP_OK) {
        wp_service_binding_drop(wp_services_of(call), self);
        wp_service_refuse(call, &err);
        return NULL;
    }
    return self;
}

const struct wp_binding *
wp_service_binding_view(const struct wp_claim_binding *binding)
{
    return &binding->view;
}

enum wp_status
wp_service_binding_bind(struct wp_services *services,
                        struct wp_claim_binding *binding,
                        struct wp_claim *claim,
                        void (*done)(struct wp_bind *bind), void *ctx)
{
    binding->bind.claim = claim;
    binding->bind.binding = &binding->view;
    binding->bind.done = done;
    binding->bind.ctx = ctx;
    return wp_pools_bind(services->config.pools, &binding->bind);
}
