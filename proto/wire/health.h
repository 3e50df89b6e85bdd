/* proto/wire/health.h - the messages of grpc.health.v1; see proto/wire/wire.h.
 * */
#ifndef WP_PROTO_WIRE_HEALTH_H
#define WP_PROTO_WIRE_HEALTH_H

#include "proto/wire/wire.h"

enum {
    WP_WIRE_SERVICE_NAME_MAX = 255,
};

enum wp_wire_health {
    WP_WIRE_HEALTH_UNKNOWN = 0,
    WP_WIRE_HEALTH_SERVING = 1,
    WP_WIRE_HEALTH_NOT_SERVING = 2,
    WP_WIRE_HEALTH_SERVICE_UNKNOWN = 3, /* Watch only. */
};

struct wp_wire_health_request {
    struct wp_str service; /* Empty: the server as a whole. */
};

struct wp_wire_health_response {
    enum wp_wire_health status;
};

WP_WIRE_DECLARE(health_request, wp_wire_health_request)
WP_WIRE_DECLARE(health_response, wp_wire_health_response)

#endif
