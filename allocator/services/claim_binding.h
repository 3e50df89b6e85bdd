/* allocator/services/claim_binding.h - what a Claim brings, from its request to
 * its answer. One thread at a time, as its call. */
#ifndef WP_ALLOCATOR_SERVICES_CLAIM_BINDING_H
#define WP_ALLOCATOR_SERVICES_CLAIM_BINDING_H

#include "allocator/services/services_private.h"

/* One block of memory, which is wiped before it is freed. */
struct wp_claim_binding;

/* A copy of what the request brings, nothing perhaps, checked; and whether
 * sandboxes of its pool can be bound, and the caller may send secrets. NULL
 * after having finished the call; all bindings of one daemon take 64 MiB at
 * most. */
struct wp_claim_binding *
wp_service_binding_take(struct wp_call *call,
                        const struct wp_wire_claim_request *request);
/* NULL is fine. */
void wp_service_binding_drop(struct wp_services *services,
                             struct wp_claim_binding *binding);
const struct wp_binding *
wp_service_binding_view(const struct wp_claim_binding *binding);
/* As wp_pools_bind, of a claim that was granted. */
enum wp_status wp_service_binding_bind(struct wp_services *services,
                                       struct wp_claim_binding *binding,
                                       struct wp_claim *claim,
                                       void (*done)(struct wp_bind *bind),
                                       void *ctx);

#endif
