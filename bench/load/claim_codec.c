#include "bench/load/claim_codec.h"

#include <string.h>

#include "pool/base/assert.h"

enum {
    WIRE_VARINT = 0,
    WIRE_I64 = 1,
    WIRE_BYTES = 2,
    WIRE_I32 = 5,
};

static size_t
write_varint(uint8_t *out, uint64_t value)
{
    size_t n = 0;

    while (value >= 0x80) {
        out[n++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    out[n++] = (uint8_t)value;
    return n;
}

/* Fields 1 to 15 only: their tag is one byte. An empty string is left out. */
static size_t
write_bytes(uint8_t *out, unsigned field, struct wp_str value)
{
    size_t n = 0;

    if (value.len == 0) {
        return 0;
    }
    out[n++] = (uint8_t)(field << 3 | WIRE_BYTES);
    n += write_varint(out + n, value.len);
    memcpy(out + n, value.ptr, value.len);
    return n + value.len;
}

static size_t
write_number(uint8_t *out, unsigned field, uint64_t value)
{
    if (value == 0) {
        return 0;
    }
    out[0] = (uint8_t)(field << 3 | WIRE_VARINT);
    return 1 + write_varint(out + 1, value);
}

size_t
wp_codec_write_request(uint8_t *out, const struct wp_codec_request *request,
                       const struct wp_str *ids, size_t n_ids)
{
    uint8_t ref[192];
    size_t ref_len;
    size_t n;

    WP_ASSERT(request->pool_namespace.len < 64 && request->pool.len < 64 &&
              request->tenant.len < 64);
    ref_len = write_bytes(ref, 1, request->pool_namespace);
    ref_len += write_bytes(ref + ref_len, 2, request->pool);
    n = write_bytes(out, 1, (struct wp_str){(const char *)ref, ref_len});
    for (size_t i = 0; i < n_ids; i++) {
        WP_ASSERT(ids[i].len <= 128);
        n += write_bytes(out + n, 2, ids[i]);
    }
    n += write_bytes(out + n, 3, request->tenant);
    n += write_number(out + n, 4, request->ttl_ms);
    return n + write_number(out + n, 5, request->wait_ms);
}

size_t
wp_codec_write_claim(uint8_t *out, struct wp_str pool_namespace,
                     struct wp_str pool, struct wp_str claim_id,
                     uint64_t wait_ms)
{
    const struct wp_codec_request request = {
        .pool_namespace = pool_namespace, .pool = pool, .wait_ms = wait_ms};

    return wp_codec_write_request(out, &request, &claim_id, 1);
}

size_t
wp_codec_write_release(uint8_t *out, struct wp_str token)
{
    WP_ASSERT(token.len < WP_CODEC_RELEASE_MAX - 8);
    return write_bytes(out, 1, token);
}

/* One field of a message that is walked from its start. */
struct field {
    unsigned number;
    uint64_t varint;
    struct wp_str bytes;
};

struct reader {
    const uint8_t *at;
    const uint8_t *end;
};

static bool
read_varint(struct reader *r, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        uint8_t byte = *r->at++;

        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

/* False at the end and when the bytes make no sense; r->at tells which. */
static bool
read_field(struct reader *r, struct field *out)
{
    uint64_t tag;
    uint64_t len;

    *out = (struct field){0};
    if (r->at == r->end || !read_varint(r, &tag) || tag > UINT32_MAX) {
        return false;
    }
    out->number = (unsigned)(tag >> 3);
    switch (tag & 7) {
    case WIRE_VARINT:
        return read_varint(r, &out->varint);
    case WIRE_BYTES:
        if (!read_varint(r, &len)) {
            return false;
        }
        break;
    case WIRE_I64:
        len = 8;
        break;
    case WIRE_I32:
        len = 4;
        break;
    default:
        return false;
    }
    if (len > (uint64_t)(r->end - r->at)) {
        return false;
    }
    out->bytes = (struct wp_str){(const char *)r->at, (size_t)len};
    r->at += len;
    return true;
}

static bool
read_lease(struct wp_str bytes, struct wp_codec_lease *out)
{
    const uint8_t *start = (const uint8_t *)bytes.ptr;
    struct reader r = {start, start + bytes.len};
    struct field field;

    while (r.at < r.end) {
        if (!read_field(&r, &field)) {
            return false;
        }
        if (field.number == 1) {
            out->claim_id = field.bytes;
        } else if (field.number == 3) {
            out->sandbox = field.bytes;
        } else if (field.number == 4) {
            out->endpoint = field.bytes;
        } else if (field.number == 5) {
            out->token = field.bytes;
        } else if (field.number == 6) {
            out->fence = field.varint;
        } else if (field.number == 8) {
            out->served = field.varint;
        }
    }
    return true;
}

bool
wp_codec_read_claim(const uint8_t *bytes, size_t len,
                    struct wp_codec_lease *out)
{
    struct reader r = {bytes, bytes + len};
    struct field field;

    *out = (struct wp_codec_lease){0};
    while (r.at < r.end) {
        if (!read_field(&r, &field)) {
            return false;
        }
        if (field.number == 1 && field.bytes.ptr != NULL) {
            if (!read_lease(field.bytes, out)) {
                return false;
            }
        } else if (field.number == 2) {
            out->replayed = field.varint != 0;
        }
    }
    return out->sandbox.len > 0 && out->token.len > 0;
}

bool
wp_codec_read_release(const uint8_t *bytes, size_t len, bool *was_held)
{
    struct reader r = {bytes, bytes + len};
    struct field field;

    *was_held = false;
    while (r.at < r.end) {
        if (!read_field(&r, &field)) {
            return false;
        }
        if (field.number == 1) {
            *was_held = field.varint != 0;
        }
    }
    return true;
}

bool
wp_codec_next_item(const uint8_t *bytes, size_t len, size_t *at,
                   struct wp_codec_item *out)
{
    struct reader r = {bytes + *at, bytes + len};
    struct field field;
    struct reader item;

    *out = (struct wp_codec_item){.code = 0};
    do {
        if (!read_field(&r, &field)) {
            return false;
        }
    } while (field.number != 1 || field.bytes.ptr == NULL);
    item.at = (const uint8_t *)field.bytes.ptr;
    item.end = item.at + field.bytes.len;
    while (item.at < item.end) {
        struct field part;

        if (!read_field(&item, &part) ||
            (part.number == 4 && !read_lease(part.bytes, &out->lease))) {
            return false;
        }
        if (part.number == 1) {
            out->claim_id = part.bytes;
        } else if (part.number == 2) {
            out->code = part.varint;
        }
    }
    *at = (size_t)(r.at - bytes);
    return true;
}
