/* ClaimStream. Its requests are read, and its responses are written, without a
 * generated struct between, as those of Claim are. */
#include "proto/wire/wire.h"

#include "proto/wire/check.h"
#include "proto/wire/decode.h"
#include "proto/wire/encode.h"
#include "proto/wire/lease.h"
#include "proto/wire/parts.h"
#include "proto/wire/read.h"
#include "proto/wire/write.h"

/* --- Lists of numbers --- */

/* The numbers of one repeated field; room for WP_AHEAD_MAX of them, more are
 * counted only. */
struct numbers {
    uint64_t *at;
    uint32_t n;
};

static bool
numbers_init(struct numbers *numbers, struct wp_arena *arena)
{
    *numbers = (struct numbers){
        .at = wp_arena_alloc(arena, WP_AHEAD_MAX * sizeof *numbers->at)};
    return numbers->at != NULL;
}

static void
numbers_add(struct numbers *numbers, uint64_t number)
{
    if (numbers->n < WP_AHEAD_MAX) {
        numbers->at[numbers->n] = number;
    }
    numbers->n++;
}

/* Packed into one field, or one of several. */
static bool
read_numbers(const struct wp_wire_field *field, struct numbers *out)
{
    struct wp_wire_reader reader;
    uint64_t number;

    if (field->type == WP_WIRE_VARINT) {
        numbers_add(out, field->value);
        return true;
    }
    if (field->type != WP_WIRE_BYTES) {
        return false;
    }
    reader = (struct wp_wire_reader){field->bytes, field->bytes + field->len};
    while (reader.pos < reader.end) {
        if (!wp_wire_read_varint(&reader, &number)) {
            return false;
        }
        numbers_add(out, number);
    }
    return true;
}

static enum wp_status
check_numbers(const char *field, const struct numbers *numbers,
              struct wp_err *err)
{
    if (numbers->n <= WP_AHEAD_MAX) {
        return WP_OK;
    }
    return wp_err_set(err, WP_INVALID_ARGUMENT,
                      "%s: at most %d numbers expected, got %u", field,
                      WP_AHEAD_MAX, numbers->n);
}

/* The length of the field's bytes, without its head. */
static size_t
numbers_len(const uint64_t *at, uint32_t n)
{
    size_t len = 0;

    for (uint32_t i = 0; i < n; i++) {
        len += wp_wire_varint_size(at[i]);
    }
    return len;
}

static uint8_t *
put_numbers(uint8_t *pos, unsigned field, const uint64_t *at, uint32_t n)
{
    if (n == 0) {
        return pos;
    }
    pos = wp_wire_put_head(pos, field, numbers_len(at, n));
    for (uint32_t i = 0; i < n; i++) {
        pos = wp_wire_put_varint(pos, at[i]);
    }
    return pos;
}

/* --- ClaimStreamRequest --- */

/* A request while it is read. */
struct reading {
    struct wp_wire_stream_request *out;
    bool has_pool;
    uint64_t ahead;
    struct numbers keep;
    struct numbers took;
    struct numbers back;
};

static bool
read_open_field(const struct wp_wire_field *field, struct reading *r)
{
    struct wp_wire_stream_open *open = &r->out->open;
    bool number = field->number >= 4;

    if (field->number > 7) {
        return true;
    }
    if (field->number == 7) {
        return read_numbers(field, &r->keep);
    }
    if (field->type != (number ? WP_WIRE_VARINT : WP_WIRE_BYTES)) {
        return false;
    }
    switch (field->number) {
    case 1:
        r->has_pool = true;
        return wp_wire_read_pool(field, &open->pool);
    case 2:
        open->stream_id = wp_wire_field_str(field);
        break;
    case 3:
        open->tenant = wp_wire_field_str(field);
        break;
    case 4:
        open->ttl_ms = (int64_t)field->value;
        break;
    case 5:
        r->ahead = field->value;
        break;
    default:
        open->resume = field->value != 0;
        break;
    }
    return true;
}

static bool
read_open(const struct wp_wire_field *message, struct reading *r)
{
    struct wp_wire_reader reader = {message->bytes,
                                    message->bytes + message->len};
    struct wp_wire_field field;
    enum wp_wire_read read;

    r->out->has_open = true;
    while ((read = wp_wire_read_next(&reader, &field)) == WP_WIRE_READ_FIELD) {
        if (!read_open_field(&field, r)) {
            return false;
        }
    }
    return read == WP_WIRE_READ_END;
}

static bool
read_request_field(const struct wp_wire_field *field, struct reading *r)
{
    switch (field->number) {
    case 1:
        return field->type == WP_WIRE_BYTES && read_open(field, r);
    case 2:
        return read_numbers(field, &r->took);
    case 3:
        return read_numbers(field, &r->back);
    default:
        return true;
    }
}

static enum wp_status
check_open(struct reading *r, struct wp_err *err)
{
    struct wp_wire_stream_open *open = &r->out->open;
    enum wp_status status;

    wp_wire_terminate(&open->pool.pool_namespace);
    wp_wire_terminate(&open->pool.name);
    wp_wire_terminate(&open->stream_id);
    wp_wire_terminate(&open->tenant);
    status = wp_wire_check_pool(r->has_pool, &open->pool, err);
    if (status == WP_OK) {
        status = wp_wire_check_text("stream_id", open->stream_id, 1,
                                    WP_STREAM_ID_MAX, err);
    }
    if (status == WP_OK) {
        status = wp_wire_check_terms(open->tenant, open->ttl_ms, 0, err);
    }
    if (status == WP_OK && (r->ahead < 1 || r->ahead > WP_AHEAD_MAX)) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "ahead: 1 to %d expected, got %llu", WP_AHEAD_MAX,
                            (unsigned long long)r->ahead);
    }
    open->ahead = (uint32_t)r->ahead;
    open->keep = r->keep.at;
    open->n_keep = r->keep.n;
    return status == WP_OK ? check_numbers("keep", &r->keep, err) : status;
}

enum wp_status
wp_wire_unpack_stream_request(struct wp_arena *arena, const uint8_t *bytes,
                              size_t len, struct wp_wire_stream_request *out,
                              struct wp_err *err)
{
    struct reading r = {.out = out};
    uint8_t *copy = wp_wire_copy(arena, bytes, len, err);
    struct wp_wire_reader reader = {copy, copy + len};
    struct wp_wire_field field;
    enum wp_wire_read read;
    enum wp_status status;

    *out = (struct wp_wire_stream_request){0};
    if (copy == NULL || !numbers_init(&r.keep, arena) ||
        !numbers_init(&r.took, arena) || !numbers_init(&r.back, arena)) {
        return wp_wire_too_long(err);
    }
    while ((read = wp_wire_read_next(&reader, &field)) == WP_WIRE_READ_FIELD) {
        if (!read_request_field(&field, &r)) {
            read = WP_WIRE_READ_BAD;
            break;
        }
    }
    if (read == WP_WIRE_READ_BAD) {
        return wp_wire_malformed("warmpool.v1.ClaimStreamRequest", err);
    }
    status = out->has_open ? check_open(&r, err) : WP_OK;
    if (status == WP_OK) {
        status = check_numbers("took", &r.took, err);
    }
    if (status == WP_OK) {
        status = check_numbers("back", &r.back, err);
    }
    out->took = r.took.at;
    out->n_took = r.took.n;
    out->back = r.back.at;
    out->n_back = r.back.n;
    return status;
}

static size_t
pool_len(const struct wp_wire_pool_ref *pool)
{
    return wp_wire_bytes_size(pool->pool_namespace.len) +
           wp_wire_bytes_size(pool->name.len);
}

static size_t
open_len(const struct wp_wire_stream_open *open)
{
    return wp_wire_message_size(pool_len(&open->pool)) +
           wp_wire_bytes_size(open->stream_id.len) +
           wp_wire_bytes_size(open->tenant.len) +
           wp_wire_int_size((uint64_t)open->ttl_ms) +
           wp_wire_int_size(open->ahead) + wp_wire_int_size(open->resume) +
           wp_wire_bytes_size(numbers_len(open->keep, open->n_keep));
}

size_t
wp_wire_size_stream_request(const struct wp_wire_stream_request *message)
{
    size_t size =
        message->has_open ? wp_wire_message_size(open_len(&message->open)) : 0;

    return size +
           wp_wire_bytes_size(numbers_len(message->took, message->n_took)) +
           wp_wire_bytes_size(numbers_len(message->back, message->n_back));
}

static uint8_t *
put_open(uint8_t *pos, const struct wp_wire_stream_open *open)
{
    const struct wp_wire_pool_ref *pool = &open->pool;

    pos = wp_wire_put_head(pos, 1, pool_len(pool));
    pos = wp_wire_put_bytes(pos, 1, pool->pool_namespace.ptr,
                            pool->pool_namespace.len);
    pos = wp_wire_put_bytes(pos, 2, pool->name.ptr, pool->name.len);
    pos = wp_wire_put_bytes(pos, 2, open->stream_id.ptr, open->stream_id.len);
    pos = wp_wire_put_bytes(pos, 3, open->tenant.ptr, open->tenant.len);
    pos = wp_wire_put_int(pos, 4, (uint64_t)open->ttl_ms);
    pos = wp_wire_put_int(pos, 5, open->ahead);
    pos = wp_wire_put_int(pos, 6, open->resume);
    return put_numbers(pos, 7, open->keep, open->n_keep);
}

size_t
wp_wire_pack_stream_request(const struct wp_wire_stream_request *message,
                            uint8_t *buf)
{
    uint8_t *pos = buf;

    if (message->has_open) {
        pos = wp_wire_put_head(pos, 1, open_len(&message->open));
        pos = put_open(pos, &message->open);
    }
    pos = put_numbers(pos, 2, message->took, message->n_took);
    pos = put_numbers(pos, 3, message->back, message->n_back);
    return (size_t)(pos - buf);
}

/* --- ClaimStreamResponse --- */

static enum wp_status
lease_ahead_in(struct wp_arena *arena, const Warmpool__V1__LeaseAhead *pb,
               struct wp_wire_lease_ahead *out, struct wp_err *err)
{
    if (pb->lease == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "leases.lease: a lease expected, got none");
    }
    out->number = pb->number;
    return wp_wire_lease_in(arena, pb->lease, &out->claim_id, &out->grant, err);
}

static enum wp_status
leases_in(struct wp_arena *arena, const Warmpool__V1__ClaimStreamResponse *pb,
          struct wp_wire_stream_response *out, struct wp_err *err)
{
    struct wp_wire_lease_ahead *leases =
        wp_arena_alloc(arena, pb->n_leases * sizeof *leases);
    enum wp_status status = WP_OK;

    if (leases == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "leases: a shorter message expected");
    }
    for (size_t i = 0; i < pb->n_leases && status == WP_OK; i++) {
        status = lease_ahead_in(arena, pb->leases[i], &leases[i], err);
    }
    out->leases = leases;
    out->n_leases = (uint32_t)pb->n_leases;
    return status;
}

enum wp_status
wp_wire_unpack_stream_response(struct wp_arena *arena, const uint8_t *bytes,
                               size_t len, struct wp_wire_stream_response *out,
                               struct wp_err *err)
{
    const Warmpool__V1__ClaimStreamResponse *pb =
        wp_wire_decode(arena, &warmpool__v1__claim_stream_response__descriptor,
                       bytes, len, err);

    if (pb == NULL) {
        return WP_INVALID_ARGUMENT;
    }
    if (pb->n_leases > WP_AHEAD_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "leases: at most %d expected, got %zu", WP_AHEAD_MAX,
                          pb->n_leases);
    }
    if (pb->n_taken > 2 * WP_AHEAD_MAX || pb->n_ended > 2 * WP_AHEAD_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "taken, ended: at most %d numbers each expected",
                          2 * WP_AHEAD_MAX);
    }
    *out = (struct wp_wire_stream_response){
        .taken = pb->taken,
        .n_taken = (uint32_t)pb->n_taken,
        .ended = pb->ended,
        .n_ended = (uint32_t)pb->n_ended,
        .lacking_code = pb->lacking_code,
        .lacking = wp_str_from(pb->lacking),
    };
    if (wp_wire_check_text("lacking", out->lacking, 0, WP_WIRE_MESSAGE_MAX,
                           err) != WP_OK) {
        return WP_INVALID_ARGUMENT;
    }
    return leases_in(arena, pb, out, err);
}

/* The message LeaseAhead, without its own tag and length. */
static size_t
lease_ahead_len(const struct wp_wire_lease_ahead *lease,
                struct wp_wire_lease_sizes *sizes)
{
    wp_wire_lease_measure(lease->claim_id, lease->grant, sizes);
    return wp_wire_int_size(lease->number) + wp_wire_message_size(sizes->lease);
}

size_t
wp_wire_size_stream_response(const struct wp_wire_stream_response *message)
{
    size_t size =
        wp_wire_bytes_size(numbers_len(message->taken, message->n_taken)) +
        wp_wire_bytes_size(numbers_len(message->ended, message->n_ended)) +
        wp_wire_int_size((uint64_t)(int64_t)message->lacking_code) +
        wp_wire_bytes_size(message->lacking.len);

    for (uint32_t i = 0; i < message->n_leases; i++) {
        struct wp_wire_lease_sizes sizes;

        size +=
            wp_wire_message_size(lease_ahead_len(&message->leases[i], &sizes));
    }
    return size;
}

size_t
wp_wire_pack_stream_response(const struct wp_wire_stream_response *message,
                             uint8_t *buf)
{
    uint8_t *pos = buf;

    for (uint32_t i = 0; i < message->n_leases; i++) {
        const struct wp_wire_lease_ahead *lease = &message->leases[i];
        struct wp_wire_lease_sizes sizes;

        pos = wp_wire_put_head(pos, 1, lease_ahead_len(lease, &sizes));
        pos = wp_wire_put_int(pos, 1, lease->number);
        pos = wp_wire_put_head(pos, 2, sizes.lease);
        pos = wp_wire_lease_put(lease->claim_id, lease->grant, &sizes, pos);
    }
    pos = put_numbers(pos, 2, message->taken, message->n_taken);
    pos = put_numbers(pos, 3, message->ended, message->n_ended);
    pos = wp_wire_put_int(pos, 4, (uint64_t)(int64_t)message->lacking_code);
    pos = wp_wire_put_bytes(pos, 5, message->lacking.ptr, message->lacking.len);
    return (size_t)(pos - buf);
}
