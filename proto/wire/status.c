#include "proto/wire/status.h"

#include "proto/wire/check.h"
#include "proto/wire/decode.h"
#include "proto/wire/encode.h"

#include "google/rpc/status.pb-c.h"

#define RETRY_INFO_URL "type.googleapis.com/google.rpc.RetryInfo"

enum {
    /* Tag and length of the outer message, two varints of the inner one. */
    RETRY_INFO_SIZE_MAX = 32,
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
    out->code = pb->code;
    out->message = wp_str_from(pb->message);
    out->retry_after_ns = 0;
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
    Warmpool__Status__Detail detail;
    Warmpool__Status__Detail *details[1];
    uint8_t retry_info[RETRY_INFO_SIZE_MAX];
};

static void
fill_status(const struct wp_wire_status *in, struct status *pb)
{
    Warmpool__Status__Delay delay;
    Warmpool__Status__RetryInfo retry;
    size_t len;

    warmpool__status__status__init(&pb->status);
    pb->status.code = in->code;
    pb->status.message = wp_wire_borrow_str(in->message);
    if (in->retry_after_ns <= 0) {
        return;
    }
    warmpool__status__delay__init(&delay);
    delay.seconds = in->retry_after_ns / WP_NS_PER_S;
    delay.nanos = (int32_t)(in->retry_after_ns % WP_NS_PER_S);
    warmpool__status__retry_info__init(&retry);
    retry.retry_delay = &delay;
    len = protobuf_c_message_get_packed_size(&retry.base);
    WP_ASSERT(len <= sizeof pb->retry_info);
    (void)protobuf_c_message_pack(&retry.base, pb->retry_info);
    warmpool__status__detail__init(&pb->detail);
    pb->detail.type_url = wp_wire_borrow(RETRY_INFO_URL);
    pb->detail.value = wp_wire_borrow_bytes(pb->retry_info, len);
    pb->details[0] = &pb->detail;
    pb->status.n_details = 1;
    pb->status.details = pb->details;
}

WP_WIRE_DEFINE_PACK(status, wp_wire_status, struct status, fill_status)
