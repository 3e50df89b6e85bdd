#include "allocator/stores/codec.h"

#include "pool/base/assert.h"
#include "pool/leases/rules.h"

/* --- packing --- */

static char *
put_digits(char *out, uint64_t number, size_t width)
{
    for (size_t i = width; i > 0; i--) {
        out[i - 1] = (char)('0' + number % 10);
        number /= 10;
    }
    return out + width;
}

static char *
put_bytes(char *out, const char *bytes, size_t len)
{
    if (len > 0) {
        memcpy(out, bytes, len);
    }
    return out + len;
}

static char *
put_text(char *out, struct wp_str text, size_t max)
{
    WP_ASSERT(text.len <= max);
    out = put_digits(out, text.len, 3);
    return put_bytes(out, text.ptr, text.len);
}

static char *
put_head(char *out, enum wp_record_state state, uint64_t fence,
         int64_t deadline_wall_ms)
{
    *out++ = '1';
    *out++ = (char)('0' + state);
    out = put_digits(out, fence, WP_LEASE_NUMBER_LEN);
    return put_digits(out, (uint64_t)deadline_wall_ms, WP_LEASE_NUMBER_LEN);
}

/* The sandbox part with its length before it. */
static char *
put_sandbox(char *out, struct wp_str pool_namespace, struct wp_str pool,
            struct wp_str sandbox, struct wp_str endpoint)
{
    char *part = out + 3;
    char *end = put_text(part, pool_namespace, WP_NAMESPACE_MAX);

    end = put_text(end, pool, WP_POOL_NAME_MAX);
    end = put_text(end, sandbox, WP_SANDBOX_NAME_MAX);
    end = put_text(end, endpoint, WP_ENDPOINT_MAX);
    (void)put_digits(out, (uint64_t)(end - part), 3);
    return end;
}

static char *
put_claim_key(char *out, struct wp_str tenant, struct wp_str claim_id)
{
    WP_ASSERT(tenant.len <= WP_TENANT_MAX && claim_id.len <= WP_CLAIM_ID_MAX);
    out = put_digits(out, tenant.len, 2);
    out = put_bytes(out, tenant.ptr, tenant.len);
    return put_bytes(out, claim_id.ptr, claim_id.len);
}

static char *
put_claim(char *out, const struct wp_lease_op *op, struct wp_str reason)
{
    static const char hex[] = "0123456789abcdef";
    char *end = put_claim_key(out + 3, op->tenant, op->claim_id);

    (void)put_digits(out, (uint64_t)(end - out - 3), 3);
    end = put_digits(end, (uint64_t)op->granted_wall_ms, WP_LEASE_NUMBER_LEN);
    for (int shift = 60; shift >= 0; shift -= 4) {
        *end++ = hex[(op->fingerprint >> shift) & 15];
    }
    end = put_digits(end, op->served, 10);
    return put_text(end, reason, WP_REASON_MAX);
}

size_t
wp_lease_pack(const struct wp_lease_record *record,
              char out[WP_LEASE_PACKED_MAX])
{
    bool claimed = wp_record_is_claimed(record->state);
    char *end = put_head(out, record->state, record->fence,
                         claimed ? record->deadline_wall_ms : 0);

    end = put_sandbox(end, wp_str_from(record->pool_namespace),
                      wp_str_from(record->pool), wp_str_from(record->sandbox),
                      wp_str_from(record->endpoint));
    if (claimed) {
        const struct wp_lease_op claim = {
            .tenant = wp_str_from(record->tenant),
            .claim_id = wp_str_from(record->claim_id),
            .granted_wall_ms = record->granted_wall_ms,
            .fingerprint = record->fingerprint,
            .served = record->served,
        };
        const char *reason =
            record->state == WP_RECORD_LOST ? record->lost_reason : "";

        end = put_claim(end, &claim, wp_str_from(reason));
    }
    return (size_t)(end - out);
}

size_t
wp_lease_pack_offer(const struct wp_lease_op *op, char out[WP_LEASE_PACKED_MAX])
{
    char *end = put_head(out, WP_RECORD_OPEN, op->fence, 0);

    end = put_sandbox(end, op->pool_namespace, op->pool, op->sandbox,
                      op->endpoint);
    return (size_t)(end - out);
}

size_t
wp_lease_pack_claim(const struct wp_lease_op *op,
                    char out[WP_LEASE_CLAIM_LEN_MAX])
{
    return (size_t)(put_claim(out, op, WP_STR("")) - out);
}

size_t
wp_lease_pack_claim_key(struct wp_str tenant, struct wp_str claim_id,
                        char out[WP_LEASE_CLAIM_KEY_MAX])
{
    return (size_t)(put_claim_key(out, tenant, claim_id) - out);
}

size_t
wp_lease_pack_reason(struct wp_str reason, char out[WP_LEASE_REASON_LEN_MAX])
{
    return (size_t)(put_text(out, reason, WP_REASON_MAX) - out);
}

void
wp_lease_pack_number(uint64_t number, char out[WP_LEASE_NUMBER_LEN])
{
    (void)put_digits(out, number, WP_LEASE_NUMBER_LEN);
}

/* --- unpacking --- */

/* What is left to read; once something was wrong, nothing is. */
struct source {
    struct wp_str left;
    bool ok;
};

static struct wp_str
take(struct source *s, size_t len)
{
    struct wp_str taken = {s->left.ptr, len};

    if (!s->ok || len > s->left.len) {
        s->ok = false;
        return (struct wp_str){"", 0};
    }
    s->left.ptr += len;
    s->left.len -= len;
    return taken;
}

static uint64_t
take_digits(struct source *s, size_t width)
{
    struct wp_str digits = take(s, width);
    uint64_t number = 0;

    if (s->ok && !wp_str_to_u64(digits, &number)) {
        s->ok = false;
    }
    return number;
}

static uint64_t
take_hex(struct source *s)
{
    struct wp_str digits = take(s, 16);
    uint64_t number = 0;

    for (size_t i = 0; i < digits.len; i++) {
        char c = digits.ptr[i];

        if (c >= '0' && c <= '9') {
            number = number << 4 | (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            number = number << 4 | (uint64_t)(c - 'a' + 10);
        } else {
            s->ok = false;
        }
    }
    return number;
}

static void
copy_text(struct source *s, struct wp_str text, char *out, size_t cap)
{
    if (!wp_str_copy(text, out, cap)) {
        s->ok = false;
    }
}

static void
take_text(struct source *s, char *out, size_t cap)
{
    size_t len = (size_t)take_digits(s, 3);

    copy_text(s, take(s, len), out, cap);
}

#define TAKE_TEXT(s, field) take_text((s), (field), sizeof(field))

static void
take_claim(struct source *s, struct wp_lease_record *out)
{
    struct source key = {take(s, (size_t)take_digits(s, 3)), s->ok};
    struct wp_str tenant = take(&key, (size_t)take_digits(&key, 2));
    uint64_t served;

    copy_text(&key, tenant, out->tenant, sizeof out->tenant);
    copy_text(&key, key.left, out->claim_id, sizeof out->claim_id);
    s->ok = s->ok && key.ok && out->claim_id[0] != '\0';
    out->granted_wall_ms = (int64_t)take_digits(s, WP_LEASE_NUMBER_LEN);
    out->fingerprint = take_hex(s);
    served = take_digits(s, 10);
    s->ok = s->ok && served <= UINT32_MAX;
    out->served = (uint32_t)served;
    TAKE_TEXT(s, out->lost_reason);
    if (out->state != WP_RECORD_LOST && out->lost_reason[0] != '\0') {
        s->ok = false;
    }
}

bool
wp_lease_unpack(struct wp_str packed, struct wp_lease_record *out)
{
    struct source s = {packed, true};
    uint8_t uid[WP_UID_LEN];
    uint64_t version;
    uint64_t state;
    size_t sandbox_len;
    size_t left;

    memcpy(uid, out->uid, sizeof uid);
    memset(out, 0, sizeof *out);
    memcpy(out->uid, uid, sizeof uid);
    version = take_digits(&s, 1);
    state = take_digits(&s, 1);
    if (!s.ok || version != 1 || state > WP_RECORD_ENDED) {
        return false;
    }
    out->state = (enum wp_record_state)state;
    out->fence = take_digits(&s, WP_LEASE_NUMBER_LEN);
    out->deadline_wall_ms = (int64_t)take_digits(&s, WP_LEASE_NUMBER_LEN);
    sandbox_len = (size_t)take_digits(&s, 3);
    left = s.left.len;
    TAKE_TEXT(&s, out->pool_namespace);
    TAKE_TEXT(&s, out->pool);
    TAKE_TEXT(&s, out->sandbox);
    TAKE_TEXT(&s, out->endpoint);
    if (!s.ok || left - s.left.len != sandbox_len) {
        return false;
    }
    if (wp_record_is_claimed(out->state)) {
        take_claim(&s, out);
    } else if (out->deadline_wall_ms != 0) {
        return false;
    }
    return s.ok && s.left.len == 0;
}
