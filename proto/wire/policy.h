/* proto/wire/policy.h - private to proto/: a pool's scaling policy as keys and
 * values. What they mean is the core's business (pool/policy/policy.h). */
#ifndef WP_PROTO_WIRE_POLICY_H
#define WP_PROTO_WIRE_POLICY_H

#include "proto/wire/wire.h"

#include "warmpool/v1/allocator.pb-c.h"

/* The generated structs of a policy in a Pool. */
struct wp_wire_policy {
    Warmpool__V1__Pool__AutoscaleEntry entry[WP_WIRE_AUTOSCALE_MAX];
    Warmpool__V1__Pool__AutoscaleEntry *entries[WP_WIRE_AUTOSCALE_MAX];
};

WP_MUST_CHECK enum wp_status wp_wire_policy_in(struct wp_arena *arena,
                                               const Warmpool__V1__Pool *pb,
                                               struct wp_wire_pool_detail *out,
                                               struct wp_err *err);
/* pool borrows from in and pb. */
void wp_wire_policy_out(const struct wp_wire_pool_detail *in,
                        struct wp_wire_policy *pb, Warmpool__V1__Pool *pool);

#endif
