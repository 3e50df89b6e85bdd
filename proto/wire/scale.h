/* proto/wire/scale.h - private to proto/: what a Pool tells of its scaler. */
#ifndef WP_PROTO_WIRE_SCALE_H
#define WP_PROTO_WIRE_SCALE_H

#include "proto/wire/wire.h"

#include "warmpool/v1/allocator.pb-c.h"

struct wp_wire_decision {
    Warmpool__V1__ScaleDecision message;
    char sentence[WP_SCALE_TEXT_MAX];
};

/* The generated structs of a Scaling with the latest decision. */
struct wp_wire_scaling {
    Warmpool__V1__Scaling message;
    struct wp_wire_decision decision;
    Warmpool__V1__ScaleDecision *decisions[1];
};

/* The same with all that is told; some 40 KiB. */
struct wp_wire_scaling_detail {
    Warmpool__V1__Scaling message;
    struct wp_wire_decision decision[WP_WIRE_DECISIONS_MAX];
    Warmpool__V1__ScaleDecision *decisions[WP_WIRE_DECISIONS_MAX];
    Warmpool__V1__Reservation reservation[WP_SCALE_RESERVATIONS_MAX];
    Warmpool__V1__Reservation *reservations[WP_SCALE_RESERVATIONS_MAX];
};

/* Into the scaler's part of the numbers; pb may be NULL. */
WP_MUST_CHECK enum wp_status wp_wire_scaling_in(const Warmpool__V1__Scaling *pb,
                                                struct wp_pool_stats *out,
                                                struct wp_err *err);
WP_MUST_CHECK enum wp_status
wp_wire_scaling_detail_in(struct wp_arena *arena,
                          const Warmpool__V1__Scaling *pb,
                          struct wp_wire_pool_detail *out, struct wp_err *err);
/* Both borrow what they are given and return the message in pb. */
Warmpool__V1__Scaling *wp_wire_scaling_out(const struct wp_pool_stats *in,
                                           struct wp_wire_scaling *pb);
Warmpool__V1__Scaling *
wp_wire_scaling_detail_out(const struct wp_wire_pool_detail *in,
                           struct wp_wire_scaling_detail *pb);

#endif
