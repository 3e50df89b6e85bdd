#include "proto/wire/status.h"

#include "proto/wire/check.h"
#include "proto/wire/decode.h"
#include "proto/wire/encode.h"

#include "google/rpc/status.pb-c.h"

#define TYPE_URL "type.googleapis.com/google.rpc."
#define RETRY_INFO_URL TYPE_URL "RetryInfo"

enum {
    DETAIL_SIZE_MAX = 448, /* Of one packed detail. */
    DETAILS_MAX = 3,       /* Field and resource are never both wrong. */
    DELAY_MAX_S = 366 * 24 * 3600,
};

static int64_t
delay_in(const Warmpool__Status__Delay *pb)
{
    if (pb == NULL || pb->seconds < 0 || pb->nanos < 0 ||
        pb->nanos >= WP_NS_PER_S) {
        return 0;
    }
    if (pb->seconds > DELAY_MAX_S) {
        return DELAY_MAX_S * WP_NS_PER_S;
    }
    return pb->seconds * WP_NS_PER_S + pb->nanos;
}

enum wp_status
wp_wire_unpack_status(struct wp_arena *arena, const uint8_t *bytes, size_t len,
                      struct wp_wire_status *out, struct wp_err *err)
{
    const Warmpool__Status__Status *pb = wp_wire_decode(
        arena, &warmpool__status__status__descriptor, bytes, len, err);

    if (pb == NULL) {
        return WP_INVALID_ARGUMENT;
    }
    *out = (struct wp_wire_status){.code = pb->code};
    out->message = wp_str_from(pb->message);
    for (size_t i = 0; i < pb->n_details; i++) {
        const Warmpool__Status__Detail *detail = pb->details[i];
        const Warmpool__Status__RetryInfo *retry;

        if (!wp_str_is(wp_str_from(detail->type_url), RETRY_INFO_URL)) {
            continue;
        }
        retry = wp_wire_decode(arena, &warmpool__status__retry_info__descriptor,
                               detail->value.data, detail->value.len, err);
        if (retry == NULL) {
            return WP_INVALID_ARGUMENT;
        }
        out->retry_after_ns = delay_in(retry->retry_delay);
    }
    return wp_wire_check_text("message", out->message, 0,
                              WP_WIRE_STATUS_MESSAGE_MAX, err);
}

struct status {
    Warmpool__Status__Status status;
    Warmpool__Status__Detail detail[DETAILS_MAX];
    Warmpool__Status__Detail *details[DETAILS_MAX];
    uint8_t packed[DETAILS_MAX][DETAIL_SIZE_MAX];
};

static void
add_detail(struct status *pb, const char *url, const ProtobufCMessage *message)
{
    size_t i = pb->status.n_details;
    size_t len = protobuf_c_message_get_packed_size(message);

    WP_ASSERT(i < DETAILS_MAX && len <= DETAIL_SIZE_MAX);
    (void)protobuf_c_message_pack(message, pb->packed[i]);
    warmpool__status__detail__init(&pb->detail[i]);
    pb->detail[i].type_url = wp_wire_borrow(url);
    pb->detail[i].value = wp_wire_borrow_bytes(pb->packed[i], len);
    pb->details[i] = &pb->detail[i];
    pb->status.details = pb->details;
    pb->status.n_details++;
}

static void
add_retry(const struct wp_wire_status *in, struct status *pb)
{
    Warmpool__Status__Delay delay;
    Warmpool__Status__RetryInfo retry;

    warmpool__status__delay__init(&delay);
    delay.seconds = in->retry_after_ns / WP_NS_PER_S;
    delay.nanos = (int32_t)(in->retry_after_ns % WP_NS_PER_S);
    warmpool__status__retry_info__init(&retry);
    retry.retry_delay = &delay;
    add_detail(pb, RETRY_INFO_URL, &retry.base);
}

static void
add_reason(const struct wp_wire_status *in, struct status *pb)
{
    Warmpool__Status__ErrorInfo info;

    warmpool__status__error_info__init(&info);
    info.reason = wp_wire_borrow_str(in->reason);
    info.domain = wp_wire_borrow(WP_WIRE_STATUS_DOMAIN);
    add_detail(pb, TYPE_URL "ErrorInfo", &info.base);
}

static void
add_field(const struct wp_wire_status *in, struct status *pb)
{
    Warmpool__Status__FieldViolation violation;
    Warmpool__Status__FieldViolation *violations[1] = {&violation};
    Warmpool__Status__BadRequest request;

    warmpool__status__field_violation__init(&violation);
    violation.field = wp_wire_borrow_str(in->field);
    violation.description = wp_wire_borrow_str(in->description);
    warmpool__status__bad_request__init(&request);
    request.n_field_violations = 1;
    request.field_violations = violations;
    add_detail(pb, TYPE_URL "BadRequest", &request.base);
}

static void
add_resource(const struct wp_wire_status *in, struct status *pb)
{
    Warmpool__Status__ResourceInfo info;

    warmpool__status__resource_info__init(&info);
    info.resource_type = wp_wire_borrow_str(in->resource_type);
    info.resource_name = wp_wire_borrow_str(in->resource_name);
    info.description = wp_wire_borrow_str(in->description);
    add_detail(pb, TYPE_URL "ResourceInfo", &info.base);
}

static void
fill_status(const struct wp_wire_status *in, struct status *pb)
{
    warmpool__status__status__init(&pb->status);
    pb->status.code = in->code;
    pb->status.message = wp_wire_borrow_str(in->message);
    if (in->retry_after_ns > 0) {
        add_retry(in, pb);
    }
    if (in->reason.len > 0) {
        add_reason(in, pb);
    }
    if (in->field.len > 0) {
        add_field(in, pb);
    } else if (in->resource_type.len > 0) {
        add_resource(in, pb);
    }
}

WP_WIRE_DEFINE_PACK(status, wp_wire_status, struct status, fill_status)
