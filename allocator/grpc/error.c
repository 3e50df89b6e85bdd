/* What ends an answer: its status, in the fields that gRPC has for it. */
#include "allocator/grpc/internal.h"

#include <stdio.h>
#include <string.h>

#include "proto/wire/status.h"

enum {
    DETAILS_MAX =
        512, /* Of the packed status with its message and RetryInfo. */
};

/* What the fields point to. */
struct scratch {
    char code[8];
    char message[3 * WP_RPC_MESSAGE_MAX + 1];
    char details[DETAILS_MAX / 3 * 4 + 8];
    char pushback[24];
};

/* gRPC's percent-encoding: printable ASCII but '%' stays. */
static size_t
encode_message(const char *text, char *out)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;

    for (; *text != '\0'; text++) {
        uint8_t c = (uint8_t)*text;

        if (c >= ' ' && c <= '~' && c != '%') {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = digits[c >> 4];
            out[n++] = digits[c & 15];
        }
    }
    return n;
}

/* Base64 without padding, as -bin fields have it. */
static size_t
encode_base64(const uint8_t *in, size_t len, char *out)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;

    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i < 3 ? len - i : 3;
        uint32_t bits = (uint32_t)in[i] << 16;

        bits |= left > 1 ? (uint32_t)in[i + 1] << 8 : 0;
        bits |= left > 2 ? (uint32_t)in[i + 2] : 0;
        for (size_t k = 0; k <= left; k++) {
            out[n++] = digits[bits >> (18 - 6 * k) & 63];
        }
    }
    return n;
}

static size_t
put_retry(struct scratch *scratch, struct wp_h2_field *fields,
          enum wp_status status, const char *message, int64_t retry_after_ns)
{
    struct wp_wire_status wire = {.code = wp_status_grpc_code(status),
                                  .message = wp_str_from(message),
                                  .retry_after_ns = retry_after_ns};
    uint8_t packed[DETAILS_MAX];
    size_t len = wp_wire_size_status(&wire);
    int n;

    WP_ASSERT(len <= sizeof(packed));
    (void)wp_wire_pack_status(&wire, packed);
    fields[0].name = WP_STR("grpc-status-details-bin");
    fields[0].value = (struct wp_str){
        scratch->details, encode_base64(packed, len, scratch->details)};
    n = snprintf(
        scratch->pushback, sizeof(scratch->pushback), "%lld",
        (long long)((retry_after_ns + WP_NS_PER_MS - 1) / WP_NS_PER_MS));
    fields[1].name = WP_STR("grpc-retry-pushback-ms");
    fields[1].value = (struct wp_str){scratch->pushback, (size_t)n};
    return 2;
}

size_t
wp_rpc_trailers_make(struct wp_h2_field *fields, enum wp_status status,
                     const char *message, int64_t retry_after_ns)
{
    static _Thread_local struct scratch scratch;
    unsigned code = (unsigned)wp_status_grpc_code(status);
    size_t n = 0;

    fields[n].name = WP_STR("grpc-status");
    if (code >= 10) {
        scratch.code[n++] = (char)('0' + code / 10);
    }
    scratch.code[n++] = (char)('0' + code % 10);
    fields[0].value = (struct wp_str){scratch.code, n};
    n = 1;
    if (message != NULL && message[0] != '\0') {
        fields[n].name = WP_STR("grpc-message");
        fields[n].value = (struct wp_str){
            scratch.message, encode_message(message, scratch.message)};
        n++;
    }
    if (WP_UNLIKELY(retry_after_ns > 0)) {
        n += put_retry(&scratch, &fields[n], status,
                       message != NULL ? message : "", retry_after_ns);
    }
    return n;
}

size_t
wp_rpc_trailers_of(struct wp_h2_stream *stream,
                   struct wp_h2_field fields[WP_H2_FIELDS_MAX])
{
    const struct wp_rpc_call *call =
        WP_CONTAINER_OF(stream, struct wp_rpc_call, stream);

    return wp_rpc_trailers_make(fields, call->status, call->details,
                                call->retry_after_ns);
}
