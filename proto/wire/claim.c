/* Claim, Renew and Release. Their requests are read, and a claim's response is
 * written, without a generated struct between: that costs a third of it, and
 * these are what a busy daemon spends its time on. The text checks refuse NUL,
 * which is a control character. */
#include "proto/wire/wire.h"

#include <string.h>

#include "proto/wire/binding.h"
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
    bool number = field->number == 4 || field->number == 5;

    if (field->number > 6) {
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
    case 5:
        out->wait_ms = (int64_t)field->value;
        break;
    default:
        out->binding = wp_wire_field_str(field);
        break;
    }
    return true;
}

/* The texts of a request that is too long for the arena, as one with files may
 * be, all but its binding. */
static bool
copy_texts(struct wp_arena *arena, struct wp_wire_claim_request *out)
{
    struct wp_str *const texts[] = {&out->pool.pool_namespace, &out->pool.name,
                                    &out->claim_id, &out->tenant};

    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        char *copy = wp_arena_alloc(arena, texts[i]->len + 1);

        if (copy == NULL) {
            return false;
        }
        if (texts[i]->len > 0) {
            memcpy(copy, texts[i]->ptr, texts[i]->len);
        }
        copy[texts[i]->len] = '\0';
        texts[i]->ptr = copy;
    }
    return true;
}

enum wp_status
wp_wire_unpack_claim_request(struct wp_arena *arena, const uint8_t *bytes,
                             size_t len, struct wp_wire_claim_request *out,
                             struct wp_err *err)
{
    uint8_t *copy = wp_wire_copy(arena, bytes, len, err);
    const uint8_t *from = copy != NULL ? copy : bytes;
    struct wp_wire_reader reader = {from, from + len};
    struct wp_wire_field field;
    enum wp_wire_read read;
    bool has_pool = false;
    enum wp_status status;

    *out = (struct wp_wire_claim_request){0};
    while ((read = wp_wire_read_next(&reader, &field)) == WP_WIRE_READ_FIELD) {
        if (!read_claim_field(&field, out, &has_pool)) {
            read = WP_WIRE_READ_BAD;
            break;
        }
    }
    if (read == WP_WIRE_READ_BAD) {
        return wp_wire_malformed("warmpool.v1.ClaimRequest", err);
    }
    if (WP_UNLIKELY(copy == NULL)) {
        if (!copy_texts(arena, out)) {
            return wp_wire_too_long(err);
        }
    } else {
        wp_wire_terminate(&out->pool.pool_namespace);
        wp_wire_terminate(&out->pool.name);
        wp_wire_terminate(&out->claim_id);
        wp_wire_terminate(&out->tenant);
    }
    status = wp_wire_check_pool(has_pool, &out->pool, err);
    if (status == WP_OK) {
        status = wp_wire_check_text("claim_id", out->claim_id, 1,
                                    WP_CLAIM_ID_MAX, err);
    }
    return status == WP_OK ? wp_wire_check_terms(out->tenant, out->ttl_ms,
                                                 out->wait_ms, err)
                           : status;
}

static size_t
pool_size(const struct wp_wire_pool_ref *pool)
{
    return wp_wire_bytes_size(pool->pool_namespace.len) +
           wp_wire_bytes_size(pool->name.len);
}

size_t
wp_wire_size_claim_request(const struct wp_wire_claim_request *message)
{
    return wp_wire_message_size(pool_size(&message->pool)) +
           wp_wire_bytes_size(message->claim_id.len) +
           wp_wire_bytes_size(message->tenant.len) +
           wp_wire_int_size((uint64_t)message->ttl_ms) +
           wp_wire_int_size((uint64_t)message->wait_ms) +
           (message->binding.ptr != NULL
                ? wp_wire_message_size(message->binding.len)
                : 0);
}

size_t
wp_wire_pack_claim_request(const struct wp_wire_claim_request *message,
                           uint8_t *buf)
{
    const struct wp_wire_pool_ref *pool = &message->pool;
    uint8_t *pos = wp_wire_put_head(buf, 1, pool_size(pool));

    pos = wp_wire_put_bytes(pos, 1, pool->pool_namespace.ptr,
                            pool->pool_namespace.len);
    pos = wp_wire_put_bytes(pos, 2, pool->name.ptr, pool->name.len);
    pos =
        wp_wire_put_bytes(pos, 2, message->claim_id.ptr, message->claim_id.len);
    pos = wp_wire_put_bytes(pos, 3, message->tenant.ptr, message->tenant.len);
    pos = wp_wire_put_int(pos, 4, (uint64_t)message->ttl_ms);
    pos = wp_wire_put_int(pos, 5, (uint64_t)message->wait_ms);
    if (message->binding.ptr != NULL) {
        pos = wp_wire_put_head(pos, 6, message->binding.len);
        memcpy(pos, message->binding.ptr, message->binding.len);
        pos += message->binding.len;
    }
    return (size_t)(pos - buf);
}

/* --- ClaimResponse --- */

static const struct wp_wire_bound *
bound_in(struct wp_arena *arena, const Warmpool__V1__Bound *pb)
{
    struct wp_wire_bound *out = wp_arena_alloc(arena, sizeof *out);

    if (out != NULL) {
        *out = (struct wp_wire_bound){
            .env = (const char *const *)pb->env,
            .secrets = (const char *const *)pb->secrets,
            .files = (const char *const *)pb->files,
            .n_env = (uint32_t)pb->n_env,
            .n_secrets = (uint32_t)pb->n_secrets,
            .n_files = (uint32_t)pb->n_files,
            .repositories = (const char *const *)pb->repositories,
            .n_repositories = (uint32_t)pb->n_repositories,
            .volumes = (const char *const *)pb->volumes,
            .n_volumes = (uint32_t)pb->n_volumes,
            .working_dir = pb->working_dir,
            .started = pb->started,
            .egress = pb->egress,
            .identity = pb->identity,
        };
    }
    return out;
}

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
    out->binding = NULL;
    out->bound = NULL;
    if (pb->bound != NULL) {
        out->bound = bound_in(arena, pb->bound);
        if (out->bound == NULL) {
            return wp_wire_too_long(err);
        }
    }
    return wp_wire_lease_in(arena, pb->lease, &out->claim_id, &out->grant, err);
}

size_t
wp_wire_size_claim_response(const struct wp_wire_claim_response *message)
{
    struct wp_wire_lease_sizes sizes;

    wp_wire_lease_measure(message->claim_id, message->grant, &sizes);
    return wp_wire_message_size(sizes.lease) +
           wp_wire_int_size(message->replayed) +
           (message->binding != NULL
                ? wp_wire_message_size(wp_wire_bound_size(message->binding))
                : 0);
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
    if (WP_UNLIKELY(message->binding != NULL)) {
        pos = wp_wire_put_head(pos, 3, wp_wire_bound_size(message->binding));
        pos = wp_wire_bound_put(message->binding, pos);
    }
    return (size_t)(pos - buf);
}

/* --- Renew --- */

/* RenewRequest, and ReleaseRequest, which has its first field only. */
static enum wp_status
read_token(const uint8_t *bytes, size_t len, uint8_t token[WP_TOKEN_LEN],
           struct wp_wire_renew_request *renew, struct wp_err *err)
{
    struct wp_wire_reader reader = {bytes, bytes + len};
    struct wp_str found = {NULL, 0};
    struct wp_wire_field field = {0};
    enum wp_wire_read read = WP_WIRE_READ_END;
    uint32_t known = renew != NULL ? 3 : 1;

    while (len > 0 &&
           (read = wp_wire_read_next(&reader, &field)) == WP_WIRE_READ_FIELD) {
        if (field.number > known) {
            continue;
        }
        if (field.type !=
            (field.number == 1 ? WP_WIRE_BYTES : WP_WIRE_VARINT)) {
            read = WP_WIRE_READ_BAD;
            break;
        }
        if (field.number == 1) {
            found = wp_wire_field_str(&field);
        } else if (renew != NULL && field.number == 2) {
            renew->ttl_ms = (int64_t)field.value;
        } else if (renew != NULL) {
            renew->hold = field.value != 0;
        }
    }
    if (read == WP_WIRE_READ_BAD) {
        return wp_wire_malformed(renew != NULL ? "warmpool.v1.RenewRequest"
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
    out->hold = false;
    status = read_token(bytes, len, out->token, out, err);
    return status == WP_OK ? wp_wire_check_ttl(out->ttl_ms, err) : status;
}

static void
fill_renew_request(const struct wp_wire_renew_request *in,
                   Warmpool__V1__RenewRequest *pb)
{
    warmpool__v1__renew_request__init(pb);
    pb->token = wp_wire_borrow_bytes(in->token, sizeof in->token);
    pb->ttl_ms = in->ttl_ms;
    pb->hold = in->hold;
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
