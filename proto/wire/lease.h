/* proto/wire/lease.h - private to proto/: the message Lease. */
#ifndef WP_PROTO_WIRE_LEASE_H
#define WP_PROTO_WIRE_LEASE_H

#include "proto/wire/wire.h"

#include "warmpool/v1/allocator.pb-c.h"

/* Lengths of a Lease's parts, so that they are counted once. */
struct wp_wire_lease_sizes {
    size_t pool_namespace;
    size_t pool_name;
    size_t sandbox;
    size_t endpoint;
    size_t pool;  /* The message PoolRef. */
    size_t lease; /* The message Lease; without its own tag and length. */
};

void wp_wire_lease_measure(struct wp_str claim_id, const struct wp_grant *grant,
                           struct wp_wire_lease_sizes *sizes);
/* Writes sizes->lease bytes; returns where they end. */
uint8_t *wp_wire_lease_put(struct wp_str claim_id, const struct wp_grant *grant,
                           const struct wp_wire_lease_sizes *sizes,
                           uint8_t *pos);
/* The grant is put into the arena. */
WP_MUST_CHECK enum wp_status wp_wire_lease_in(struct wp_arena *arena,
                                              const Warmpool__V1__Lease *pb,
                                              struct wp_str *claim_id,
                                              const struct wp_grant **grant,
                                              struct wp_err *err);

#endif
