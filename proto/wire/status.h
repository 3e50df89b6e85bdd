/* proto/wire/status.h - google.rpc.Status with one google.rpc.RetryInfo, as the
 * trailer `grpc-status-details-bin` carries it; see proto/wire/wire.h. */
#ifndef WP_PROTO_WIRE_STATUS_H
#define WP_PROTO_WIRE_STATUS_H

#include "proto/wire/wire.h"

enum {
    WP_WIRE_STATUS_MESSAGE_MAX = 1024,
    /* No packed status whose message has at most 240 bytes is longer. */
    WP_WIRE_STATUS_SIZE_MAX = 320,
};

struct wp_wire_status {
    int code; /* A google.rpc.Code. */
    struct wp_str message;
    /* 0: no RetryInfo. Kept to whole nanoseconds; never negative. */
    int64_t retry_after_ns;
};

/* unpack is for clients; details of other types are skipped. */
WP_WIRE_DECLARE(status, wp_wire_status)

#endif
