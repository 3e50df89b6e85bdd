/* What ends an answer: its status, in the fields that gRPC has for it. */
#include "allocator/grpc/internal.h"

#include <stdio.h>
#include <string.h>

#include "proto/wire/status.h"

enum {
    NAME_MAX_LEN = WP_WIRE_STATUS_NAME_MAX,
};

/* What the fields point to. */
struct scratch {
    char code[8];
    char message[3 * WP_RPC_MESSAGE_MAX + 1];
    char details[WP_WIRE_STATUS_SIZE_MAX / 3 * 4 + 8];
    uint8_t packed[WP_WIRE_STATUS_SIZE_MAX];
    char text[WP_RPC_MESSAGE_MAX + 1]; /* The message. */
    char field[NAME_MAX_LEN + 1];
    char reason[NAME_MAX_LEN + 1];
    char resource[NAME_MAX_LEN + 1];
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

/* --- What programs can tell errors apart by --- */

/* Refusals begin with the field that they are about: "claim_ids[3]: ...". Its
 * length; 0: there is none. */
static size_t
field_len(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_.[]");

    return n > 0 && n <= NAME_MAX_LEN && text[n] == ':' && text[n + 1] == ' '
               ? n
               : 0;
}

/* "POOL_NOT_FOUND", or "UNAVAILABLE" when no field is at fault. An index is no
 * part of a reason. What was, and is over, is told from what never was. */
static void
make_reason(const char *field, const char *why, enum wp_status status,
            char *out)
{
    static const char expired[] = "EXPIRED: ";
    size_t n = 0;

    for (; *field != '\0' && *field != '[' && n + 1 < NAME_MAX_LEN / 2;
         field++) {
        out[n++] = (char)(*field >= 'a' && *field <= 'z' ? *field - 32
                          : *field == '.'                ? '_'
                                                         : *field);
    }
    (void)snprintf(out + n, NAME_MAX_LEN + 1 - n, "%s%s", n > 0 ? "_" : "",
                   strncmp(why, expired, sizeof expired - 1) == 0
                       ? "EXPIRED"
                       : wp_status_name(status));
}

/* What lacks, or is there already, by the field that names it. */
static const char *
resource_of(const char *field, enum wp_status status)
{
    static const struct {
        const char *field;
        const char *type;
    } types[] = {
        {"pool", "warmpool.io/Pool"},
        {"claim_id", "warmpool.io/Claim"},
        {"claim_ids", "warmpool.io/Claim"},
        {"token", "warmpool.io/Lease"},
    };
    size_t len = strcspn(field, "[");

    for (size_t i = 0;
         (status == WP_NOT_FOUND || status == WP_ALREADY_EXISTS) &&
         i < WP_ARRAY_LEN(types);
         i++) {
        if (strlen(types[i].field) == len &&
            memcmp(types[i].field, field, len) == 0) {
            return types[i].type;
        }
    }
    return NULL;
}

/* The first name in quotes. */
static void
quoted_in(const char *text, char *out)
{
    const char *begin = strchr(text, '\'');
    const char *end = begin != NULL ? strchr(begin + 1, '\'') : NULL;

    out[0] = '\0';
    if (end != NULL && end - begin - 1 <= NAME_MAX_LEN) {
        memcpy(out, begin + 1, (size_t)(end - begin - 1));
        out[end - begin - 1] = '\0';
    }
}

static size_t
put_details(struct scratch *scratch, struct wp_h2_field *fields,
            enum wp_status status, int64_t retry_after_ns)
{
    const char *text = scratch->text;
    size_t n = field_len(text);
    const char *resource;
    struct wp_wire_status wire = {.code = wp_status_grpc_code(status),
                                  .message = wp_str_from(text),
                                  .retry_after_ns = retry_after_ns,
                                  .description =
                                      wp_str_from(n > 0 ? text + n + 2 : text)};

    memcpy(scratch->field, text, n);
    scratch->field[n] = '\0';
    make_reason(scratch->field, wire.description.ptr, status, scratch->reason);
    wire.reason = wp_str_from(scratch->reason);
    resource = resource_of(scratch->field, status);
    if (status == WP_INVALID_ARGUMENT) {
        wire.field = wp_str_from(scratch->field);
    } else if (resource != NULL) {
        quoted_in(text, scratch->resource);
        wire.resource_type = wp_str_from(resource);
        wire.resource_name = wp_str_from(scratch->resource);
    }
    n = wp_wire_size_status(&wire);
    WP_ASSERT(n <= sizeof scratch->packed);
    (void)wp_wire_pack_status(&wire, scratch->packed);
    fields->name = WP_STR("grpc-status-details-bin");
    fields->value = (struct wp_str){
        scratch->details, encode_base64(scratch->packed, n, scratch->details)};
    return 1;
}

static size_t
put_pushback(struct scratch *scratch, struct wp_h2_field *fields,
             int64_t retry_after_ns)
{
    int n = snprintf(
        scratch->pushback, sizeof(scratch->pushback), "%lld",
        (long long)((retry_after_ns + WP_NS_PER_MS - 1) / WP_NS_PER_MS));

    fields->name = WP_STR("grpc-retry-pushback-ms");
    fields->value = (struct wp_str){scratch->pushback, (size_t)n};
    return 1;
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
    if (WP_UNLIKELY(status != WP_OK && (n > 1 || retry_after_ns > 0))) {
        (void)snprintf(scratch.text, sizeof scratch.text, "%s",
                       message != NULL ? message : "");
        n += put_details(&scratch, &fields[n], status, retry_after_ns);
    }
    if (WP_UNLIKELY(retry_after_ns > 0)) {
        n += put_pushback(&scratch, &fields[n], retry_after_ns);
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
