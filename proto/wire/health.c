#include "proto/wire/health.h"

#include "proto/wire/check.h"
#include "proto/wire/decode.h"
#include "proto/wire/encode.h"

#include "grpc/health/v1/health.pb-c.h"

static enum wp_status
health_request_in(const Grpc__Health__V1__HealthCheckRequest *pb,
                  struct wp_wire_health_request *out, struct wp_err *err)
{
    out->service = wp_str_from(pb->service);
    return wp_wire_check_text("service", out->service, 0,
                              WP_WIRE_SERVICE_NAME_MAX, err);
}

WP_WIRE_DEFINE_UNPACK(health_request, wp_wire_health_request,
                      Grpc__Health__V1__HealthCheckRequest,
                      grpc__health__v1__health_check_request, health_request_in)

static void
fill_health_request(const struct wp_wire_health_request *in,
                    Grpc__Health__V1__HealthCheckRequest *pb)
{
    grpc__health__v1__health_check_request__init(pb);
    pb->service = wp_wire_borrow_str(in->service);
}

WP_WIRE_DEFINE_PACK(health_request, wp_wire_health_request,
                    Grpc__Health__V1__HealthCheckRequest, fill_health_request)

static enum wp_status
health_response_in(const Grpc__Health__V1__HealthCheckResponse *pb,
                   struct wp_wire_health_response *out, struct wp_err *err)
{
    int number = (int)pb->status;

    (void)err;
    out->status = number >= WP_WIRE_HEALTH_UNKNOWN &&
                          number <= WP_WIRE_HEALTH_SERVICE_UNKNOWN
                      ? (enum wp_wire_health)number
                      : WP_WIRE_HEALTH_UNKNOWN;
    return WP_OK;
}

WP_WIRE_DEFINE_UNPACK(health_response, wp_wire_health_response,
                      Grpc__Health__V1__HealthCheckResponse,
                      grpc__health__v1__health_check_response,
                      health_response_in)

static void
fill_health_response(const struct wp_wire_health_response *in,
                     Grpc__Health__V1__HealthCheckResponse *pb)
{
    grpc__health__v1__health_check_response__init(pb);
    pb->status =
        (Grpc__Health__V1__HealthCheckResponse__ServingStatus)in->status;
}

WP_WIRE_DEFINE_PACK(health_response, wp_wire_health_response,
                    Grpc__Health__V1__HealthCheckResponse, fill_health_response)
