/* Claim, Renew and Release. Their requests are read, and a claim's response is
 * written, without a generated struct between: that costs a third of it, and
 * these are what a busy daemon spends its time on. The text checks refuse NUL,
 * which is a control character. */
#include "proto/wire/wire.h"

#include "proto/wire/check.h"
#include "proto/wire/decode.h"
#include "proto/wire/encode.h"
#include "proto/wire/lease.h"
#include "proto/wire/parts.h"
#include "proto/wire/read.h"
#include "proto/wire/write.h"

/* --- ClaimRequest --- */

static bool
read_claim_field(const struct wp_wire_field *field,
                 struct wp_wire_claim_request *out, bool *has_pool)
{
    bool number = field->number >= 4;

    if (field->number > 5) {
        return true;
    }
    if (field->type != (number ? WP_WIRE_VARINT : WP_WIRE_BYTES)) {
        return false;
    }
    switch (field->number) {
    case 1:
        *has_pool = true;
        return wp_wire_read_pool(field, &out->pool);
    case 2:
        out->claim_id = wp_wire_field_str(field);
        break;
    case 3:
        out->tenant = wp_wire_field_str(field);
        break;
    case 4:
        out->ttl_ms = (int64_t)field->value;
        break;
    default:
        out->wait_ms = (int64_t)field->value;
        break;
    }
    return true;
}

enum wp_status
wp_wire_unpack_claim_request(struct wp_arena *arena, const uint8_t *bytes,
                             size_t len, struct wp_wire_claim_request *out,
                             struct wp_err *err)
{
    uint8_t *copy = wp_wire_copy(arena, bytes, len, err);
    struct wp_wire_reader reader = {copy, copy + len};
    struct wp_wire_field field;
    enum wp_wire_read read;
    bool has_pool = false;
    enum wp_status status;

    *out = (struct wp_wire_claim_request){0};
    if (copy == NULL) {
        return WP_INVALID_ARGUMENT;
    }
    while ((read = wp_wire_read_next(&reader, &field)) == WP_WIRE_READ_FIELD) {
        if (!read_claim_field(&field, out, &has_pool)) {
            read = WP_WIRE_READ_BAD;
            break;
        }
    }
    if (read == WP_WIRE_READ_BAD) {
        return wp_wire_malformed("warmpool.v1.ClaimRequest", err);
    }
    wp_wire_terminate(&out->pool.pool_namespace);
    wp_wire_terminate(&out->pool.name);
    wp_wire_terminate(&out->claim_id);
    wp_wire_terminate(&out->tenant);
    status = wp_wire_check_pool(has_pool, &out->pool, err);
    if (status == WP_OK) {
        status = wp_wire_check_text("claim_id", out->claim_id, 1,
                                    WP_CLAIM_ID_MAX, err);
    }
    return status == WP_OK ? wp_wire_check_terms(out->tenant, out->ttl_ms,
                                                 out->wait_ms, err)
                           : status;
}

struct claim_request {
    Warmpool__V1__ClaimRequest request;
    Warmpool__V1__PoolRef pool;
};

static void
fill_claim_request(const struct wp_wire_claim_request *in,
                   struct claim_request *pb)
{
    warmpool__v1__claim_request__init(&pb->request);
    wp_wire_pool_out(&in->pool, &pb->pool);
    pb->request.pool = &pb->pool;
    pb->request.claim_id = wp_wire_borrow_str(in->claim_id);
    pb->request.tenant = wp_wire_borrow_str(in->tenant);
    pb->request.ttl_ms = in->ttl_ms;
    pb->request.wait_ms = in->wait_ms;
}

WP_WIRE_DEFINE_PACK(claim_request, wp_wire_claim_request, struct claim_request,
                    fill_claim_request)

/* --- ClaimResponse --- */

enum wp_status
wp_wire_unpack_claim_response(struct wp_arena *arena, const uint8_t *bytes,
                              size_t len, struct wp_wire_claim_response *out,
                              struct wp_err *err)
{
    const Warmpool__V1__ClaimResponse *pb = wp_wire_decode(
        arena, &warmpool__v1__claim_response__descriptor, bytes, len, err);

    if (pb == NULL) {
        return WP_INVALID_ARGUMENT;
    }
    if (pb->lease == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "lease: a lease expected, got none");
    }
    out->replayed = pb->replayed;
    return wp_wire_lease_in(arena, pb->lease, &out->claim_id, &out->grant, err);
}

size_t
wp_wire_size_claim_response(const struct wp_wire_claim_response *message)
{
    struct wp_wire_lease_sizes sizes;

    wp_wire_lease_measure(message->claim_id, message->grant, &sizes);
    return wp_wire_message_size(sizes.lease) +
           wp_wire_int_size(message->replayed);
}

size_t
wp_wire_pack_claim_response(const struct wp_wire_claim_response *message,
                            uint8_t *buf)
{
    struct wp_wire_lease_sizes sizes;
    uint8_t *pos;

    wp_wire_lease_measure(message->claim_id, message->grant, &sizes);
    pos = wp_wire_put_head(buf, 1, sizes.lease);
    pos = wp_wire_lease_put(message->claim_id, message->grant, &sizes, pos);
    pos = wp_wire_put_int(pos, 2, message->replayed);
    return (size_t)(pos - buf);
}

/* --- Renew --- */

/* RenewRequest, and ReleaseRequest, which has its first field only. */
static enum wp_status
read_token(const uint8_t *bytes, size_t len, uint8_t token[WP_TOKEN_LEN],
           int64_t *ttl_ms, struct wp_err *err)
{
    struct wp_wire_reader reader = {bytes, bytes + len};
    struct wp_str found = {NULL, 0};
    struct wp_wire_field field = {0};
    enum wp_wire_read read = WP_WIRE_READ_END;

    while (len > 0 &&
           (read = wp_wire_read_next(&reader, &field)) == WP_WIRE_READ_FIELD) {
        if (field.number == 1 && field.type == WP_WIRE_BYTES) {
            found = wp_wire_field_str(&field);
        } else if (field.number == 2 && ttl_ms != NULL &&
                   field.type == WP_WIRE_VARINT) {
            *ttl_ms = (int64_t)field.value;
        } else if (field.number == 1 || (field.number == 2 && ttl_ms != NULL)) {
            read = WP_WIRE_READ_BAD;
            break;
        }
    }
    if (read == WP_WIRE_READ_BAD) {
        return wp_wire_malformed(ttl_ms != NULL ? "warmpool.v1.RenewRequest"
                                                : "warmpool.v1.ReleaseRequest",
                                 err);
    }
    return wp_wire_check_token((const uint8_t *)found.ptr, found.len, token,
                               err);
}

enum wp_status
wp_wire_unpack_renew_request(struct wp_arena *arena, const uint8_t *bytes,
                             size_t len, struct wp_wire_renew_request *out,
                             struct wp_err *err)
{
    enum wp_status status;

    (void)arena;
    out->ttl_ms = 0;
    status = read_token(bytes, len, out->token, &out->ttl_ms, err);
    return status == WP_OK ? wp_wire_check_ttl(out->ttl_ms, err) : status;
}

static void
fill_renew_request(const struct wp_wire_renew_request *in,
                   Warmpool__V1__RenewRequest *pb)
{
    warmpool__v1__renew_request__init(pb);
    pb->token = wp_wire_borrow_bytes(in->token, sizeof in->token);
    pb->ttl_ms = in->ttl_ms;
}

WP_WIRE_DEFINE_PACK(renew_request, wp_wire_renew_request,
                    Warmpool__V1__RenewRequest, fill_renew_request)

static enum wp_status
renew_response_in(const Warmpool__V1__RenewResponse *pb,
                  struct wp_wire_renew_response *out, struct wp_err *err)
{
    out->fence = pb->fence;
    out->deadline_wall_ms = pb->deadline_unix_ms;
    return wp_wire_check_token(pb->token.data, pb->token.len, out->token, err);
}

WP_WIRE_DEFINE_UNPACK(renew_response, wp_wire_renew_response,
                      Warmpool__V1__RenewResponse, warmpool__v1__renew_response,
                      renew_response_in)

static void
fill_renew_response(const struct wp_wire_renew_response *in,
                    Warmpool__V1__RenewResponse *pb)
{
    warmpool__v1__renew_response__init(pb);
    pb->token = wp_wire_borrow_bytes(in->token, sizeof in->token);
    pb->fence = in->fence;
    pb->deadline_unix_ms = in->deadline_wall_ms;
}

WP_WIRE_DEFINE_PACK(renew_response, wp_wire_renew_response,
                    Warmpool__V1__RenewResponse, fill_renew_response)

/* --- Release --- */

enum wp_status
wp_wire_unpack_release_request(struct wp_arena *arena, const uint8_t *bytes,
                               size_t len, struct wp_wire_release_request *out,
                               struct wp_err *err)
{
    (void)arena;
    return read_token(bytes, len, out->token, NULL, err);
}

static void
fill_release_request(const struct wp_wire_release_request *in,
                     Warmpool__V1__ReleaseRequest *pb)
{
    warmpool__v1__release_request__init(pb);
    pb->token = wp_wire_borrow_bytes(in->token, sizeof in->token);
}

WP_WIRE_DEFINE_PACK(release_request, wp_wire_release_request,
                    Warmpool__V1__ReleaseRequest, fill_release_request)

static enum wp_status
release_response_in(const Warmpool__V1__ReleaseResponse *pb,
                    struct wp_wire_release_response *out, struct wp_err *err)
{
    (void)err;
    out->was_held = pb->was_held;
    return WP_OK;
}

WP_WIRE_DEFINE_UNPACK(release_response, wp_wire_release_response,
                      Warmpool__V1__ReleaseResponse,
                      warmpool__v1__release_response, release_response_in)

static void
fill_release_response(const struct wp_wire_release_response *in,
                      Warmpool__V1__ReleaseResponse *pb)
{
    warmpool__v1__release_response__init(pb);
    pb->was_held = in->was_held;
}

WP_WIRE_DEFINE_PACK(release_response, wp_wire_release_response,
                    Warmpool__V1__ReleaseResponse, fill_release_response)
