/* ClaimBatch. */
#include "proto/wire/wire.h"

#include <stdio.h>

#include "pool/base/fnv.h"
#include "proto/wire/check.h"
#include "proto/wire/decode.h"
#include "proto/wire/encode.h"
#include "proto/wire/lease.h"
#include "proto/wire/parts.h"
#include "proto/wire/write.h"

enum {
    /* A power of two, at most half full with WP_BATCH_MAX ids in it. */
    ID_TABLE_LEN = 512,
    ID_NONE = UINT16_MAX,
};

_Static_assert(ID_TABLE_LEN >= 2 * WP_BATCH_MAX, "room for every id");

/* Ids made to collide cost WP_BATCH_MAX comparisons each at worst, so
 * the hash needs no key. */
static uint32_t
id_hash(struct wp_str id)
{
    return (uint32_t)wp_fnv_str(WP_FNV_BASIS, id);
}

static enum wp_status
check_ids(const struct wp_str *ids, uint32_t n, struct wp_err *err)
{
    uint16_t table[ID_TABLE_LEN];

    memset(table, 0xFF, sizeof table);
    for (uint32_t i = 0; i < n; i++) {
        char field[sizeof "claim_ids[4294967295]"];
        uint32_t at = id_hash(ids[i]) & (ID_TABLE_LEN - 1);
        enum wp_status status;

        for (; table[at] != ID_NONE; at = (at + 1) & (ID_TABLE_LEN - 1)) {
            if (wp_str_eq(ids[table[at]], ids[i])) {
                return wp_err_set(err, WP_INVALID_ARGUMENT,
                                  "claim_ids[%u]: an id used once expected, it "
                                  "is also claim_ids[%u]",
                                  i, table[at]);
            }
        }
        table[at] = (uint16_t)i;
        if (ids[i].len >= 1 && ids[i].len <= WP_CLAIM_ID_MAX &&
            wp_str_is_printable(ids[i])) {
            continue;
        }
        (void)snprintf(field, sizeof field, "claim_ids[%u]", i);
        status = wp_wire_check_text(field, ids[i], 1, WP_CLAIM_ID_MAX, err);
        return status;
    }
    return WP_OK;
}

/* ids has room for WP_BATCH_MAX; more are counted only. */
static bool
read_batch_field(const struct wp_wire_field *field,
                 struct wp_wire_batch_request *out, struct wp_str *ids,
                 bool *has_pool)
{
    bool number = field->number >= 4;

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
        if (out->n_claims < WP_BATCH_MAX) {
            ids[out->n_claims] = wp_wire_field_str(field);
        }
        out->n_claims++;
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
        out->all_or_nothing = field->value != 0;
        break;
    }
    return true;
}

static enum wp_status
read_batch(struct wp_wire_reader reader, struct wp_wire_batch_request *out,
           struct wp_str *ids, struct wp_err *err)
{
    struct wp_wire_field field;
    enum wp_wire_read read;
    bool has_pool = false;

    while ((read = wp_wire_read_next(&reader, &field)) == WP_WIRE_READ_FIELD) {
        if (!read_batch_field(&field, out, ids, &has_pool)) {
            read = WP_WIRE_READ_BAD;
            break;
        }
    }
    if (read == WP_WIRE_READ_BAD) {
        return wp_wire_malformed("warmpool.v1.ClaimBatchRequest", err);
    }
    wp_wire_terminate(&out->pool.pool_namespace);
    wp_wire_terminate(&out->pool.name);
    wp_wire_terminate(&out->tenant);
    for (uint32_t i = 0; i < out->n_claims && i < WP_BATCH_MAX; i++) {
        wp_wire_terminate(&ids[i]);
    }
    return wp_wire_check_pool(has_pool, &out->pool, err);
}

enum wp_status
wp_wire_unpack_batch_request(struct wp_arena *arena, const uint8_t *bytes,
                             size_t len, struct wp_wire_batch_request *out,
                             struct wp_err *err)
{
    uint8_t *copy = wp_wire_copy(arena, bytes, len, err);
    struct wp_str *ids = wp_arena_alloc(arena, WP_BATCH_MAX * sizeof *ids);
    enum wp_status status;

    *out = (struct wp_wire_batch_request){.claim_ids = ids};
    if (copy == NULL || ids == NULL) {
        return wp_wire_too_long(err);
    }
    status =
        read_batch((struct wp_wire_reader){copy, copy + len}, out, ids, err);
    if (status == WP_OK &&
        (out->n_claims < 1 || out->n_claims > WP_BATCH_MAX)) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "claim_ids: 1 to %d ids expected, got %u",
                            WP_BATCH_MAX, out->n_claims);
    }
    if (status == WP_OK) {
        status = check_ids(ids, out->n_claims, err);
    }
    return status == WP_OK ? wp_wire_check_terms(out->tenant, out->ttl_ms,
                                                 out->wait_ms, err)
                           : status;
}

struct batch_request {
    Warmpool__V1__ClaimBatchRequest request;
    Warmpool__V1__PoolRef pool;
    char *ids[WP_BATCH_MAX];
};

static void
fill_batch_request(const struct wp_wire_batch_request *in,
                   struct batch_request *pb)
{
    WP_ASSERT(in->n_claims <= WP_BATCH_MAX);
    warmpool__v1__claim_batch_request__init(&pb->request);
    wp_wire_pool_out(&in->pool, &pb->pool);
    for (uint32_t i = 0; i < in->n_claims; i++) {
        pb->ids[i] = wp_wire_borrow_str(in->claim_ids[i]);
    }
    pb->request.pool = &pb->pool;
    pb->request.n_claim_ids = in->n_claims;
    pb->request.claim_ids = pb->ids;
    pb->request.tenant = wp_wire_borrow_str(in->tenant);
    pb->request.ttl_ms = in->ttl_ms;
    pb->request.wait_ms = in->wait_ms;
    pb->request.all_or_nothing = in->all_or_nothing;
}

WP_WIRE_DEFINE_PACK(batch_request, wp_wire_batch_request, struct batch_request,
                    fill_batch_request)

/* --- ClaimBatchResponse --- */

static enum wp_status
batch_item_in(struct wp_arena *arena, const Warmpool__V1__BatchItem *pb,
              struct wp_wire_batch_item *out, struct wp_err *err)
{
    struct wp_str lease_id;
    enum wp_status status;

    *out = (struct wp_wire_batch_item){
        .claim_id = wp_str_from(pb->claim_id),
        .code = pb->code,
        .message = wp_str_from(pb->message),
        .replayed = pb->replayed,
    };
    status = wp_wire_check_text("items.claim_id", out->claim_id, 0,
                                WP_CLAIM_ID_MAX, err);
    if (status == WP_OK) {
        status = wp_wire_check_text("items.message", out->message, 0,
                                    WP_WIRE_MESSAGE_MAX, err);
    }
    if (status == WP_OK && pb->code == 0 && pb->lease == NULL) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "items.lease: a lease expected, got none");
    }
    if (status == WP_OK && pb->code == 0) {
        status =
            wp_wire_lease_in(arena, pb->lease, &lease_id, &out->grant, err);
    }
    return status;
}

enum wp_status
wp_wire_unpack_batch_response(struct wp_arena *arena, const uint8_t *bytes,
                              size_t len, struct wp_wire_batch_response *out,
                              struct wp_err *err)
{
    const Warmpool__V1__ClaimBatchResponse *pb =
        wp_wire_decode(arena, &warmpool__v1__claim_batch_response__descriptor,
                       bytes, len, err);
    struct wp_wire_batch_item *items;

    if (pb == NULL) {
        return WP_INVALID_ARGUMENT;
    }
    if (pb->n_items > WP_BATCH_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "items: at most %d expected, got %zu", WP_BATCH_MAX,
                          pb->n_items);
    }
    items = wp_arena_alloc(arena, pb->n_items * sizeof *items);
    if (items == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "items: a shorter message expected");
    }
    for (size_t i = 0; i < pb->n_items; i++) {
        enum wp_status status =
            batch_item_in(arena, pb->items[i], &items[i], err);

        if (status != WP_OK) {
            return status;
        }
    }
    out->items = items;
    out->n_items = (uint32_t)pb->n_items;
    return WP_OK;
}

/* The message BatchItem, without its own tag and length. */
static size_t
item_size(const struct wp_wire_batch_item *item,
          struct wp_wire_lease_sizes *lease)
{
    size_t size = wp_wire_bytes_size(item->claim_id.len) +
                  wp_wire_int_size((uint64_t)(int64_t)item->code) +
                  wp_wire_bytes_size(item->message.len) +
                  wp_wire_int_size(item->replayed);

    if (item->grant != NULL) {
        wp_wire_lease_measure(item->claim_id, item->grant, lease);
        size += wp_wire_message_size(lease->lease);
    }
    return size;
}

size_t
wp_wire_size_batch_response(const struct wp_wire_batch_response *message)
{
    size_t size = 0;

    for (uint32_t i = 0; i < message->n_items; i++) {
        struct wp_wire_lease_sizes lease;

        size += wp_wire_message_size(item_size(&message->items[i], &lease));
    }
    return size;
}

size_t
wp_wire_pack_batch_response(const struct wp_wire_batch_response *message,
                            uint8_t *buf)
{
    uint8_t *pos = buf;

    for (uint32_t i = 0; i < message->n_items; i++) {
        const struct wp_wire_batch_item *item = &message->items[i];
        struct wp_wire_lease_sizes lease;

        pos = wp_wire_put_head(pos, 1, item_size(item, &lease));
        pos = wp_wire_put_bytes(pos, 1, item->claim_id.ptr, item->claim_id.len);
        pos = wp_wire_put_int(pos, 2, (uint64_t)(int64_t)item->code);
        pos = wp_wire_put_bytes(pos, 3, item->message.ptr, item->message.len);
        if (item->grant != NULL) {
            pos = wp_wire_put_head(pos, 4, lease.lease);
            pos = wp_wire_lease_put(item->claim_id, item->grant, &lease, pos);
        }
        pos = wp_wire_put_int(pos, 5, item->replayed);
    }
    return (size_t)(pos - buf);
}
