/* proto/wire/status.h - google.rpc.Status with its details, as the trailer
 * `grpc-status-details-bin` carries it; see proto/wire/wire.h. */
#ifndef WP_PROTO_WIRE_STATUS_H
#define WP_PROTO_WIRE_STATUS_H

#include "proto/wire/wire.h"

enum {
    WP_WIRE_STATUS_MESSAGE_MAX = 1024,
    /* No packed status is longer whose message and description have at most 240
     * bytes each, and its other texts 63. */
    WP_WIRE_STATUS_SIZE_MAX = 1280,
    WP_WIRE_STATUS_NAME_MAX = 63, /* Of those. */
};

struct wp_wire_status {
    int code; /* A google.rpc.Code. */
    struct wp_str message;
    /* 0: no RetryInfo. Kept to whole nanoseconds; never negative. */
    int64_t retry_after_ns;

    /* Not read by unpack, which sets them to "". */
    struct wp_str reason;        /* Of ErrorInfo; "": none. */
    struct wp_str field;         /* Of BadRequest; "": none. */
    struct wp_str resource_type; /* Of ResourceInfo; "": none. */
    struct wp_str resource_name; /* "" when it is not known. */
    struct wp_str description;   /* Of either. */
};

/* What ErrorInfo says whose reasons these are. */
#define WP_WIRE_STATUS_DOMAIN "warmpool.io"

/* unpack is for clients; details but RetryInfo are skipped. */
WP_WIRE_DECLARE(status, wp_wire_status)

#endif
