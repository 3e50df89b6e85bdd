#include "proto/wire/check.h"

#include <inttypes.h>

/* Nearly all text is printable ASCII; eight bytes of it at a time. False says
 * nothing but that a closer look is needed. */
static bool
is_plain_ascii(struct wp_str text)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t highs = ones << 7;
    uint64_t odd = 0;

    for (size_t i = 0; i < text.len; i += 8) {
        uint64_t word = ones * ' ';
        size_t left = text.len - i;

        memcpy(&word, text.ptr + i, left < 8 ? left : 8);
        /* The high bit of each byte: set when it is over 0x7E, or, by the
         * borrow of the subtraction, may be set when it is under 0x20. */
        odd |= word | (word - ones * ' ') | (word + ones);
    }
    return (odd & highs) == 0;
}

enum wp_status
wp_wire_check_text(const char *field, struct wp_str text, size_t min,
                   size_t max, struct wp_err *err)
{
    if (text.len < min || text.len > max) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: %zu to %zu bytes expected, got %zu", field, min,
                          max, text.len);
    }
    if (!is_plain_ascii(text) && !wp_str_is_printable(text)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: UTF-8 without control characters expected",
                          field);
    }
    return WP_OK;
}

enum wp_status
wp_wire_check_name(const char *field, struct wp_str name, size_t max,
                   struct wp_err *err)
{
    if (name.len == 0 || name.len > max) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: 1 to %zu characters expected, got %zu", field,
                          max, name.len);
    }
    if (!wp_str_is_dns_name(name, max)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: a DNS name expected (a-z, 0-9, '-' and '.', "
                          "beginning and ending with a letter or digit)",
                          field);
    }
    return WP_OK;
}

enum wp_status
wp_wire_check_range(const char *field, int64_t value, int64_t min, int64_t max,
                    struct wp_err *err)
{
    if (value < min || value > max) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: %" PRId64 " to %" PRId64
                          " expected, got %" PRId64,
                          field, min, max, value);
    }
    return WP_OK;
}

int64_t
wp_wire_ms_in_ns(int64_t ms, int64_t max_ms)
{
    if (ms < 0) {
        return 0;
    }
    return (ms > max_ms ? max_ms : ms) * WP_NS_PER_MS;
}

enum wp_status
wp_wire_check_ttl(int64_t ttl_ms, struct wp_err *err)
{
    const int64_t min = WP_TTL_MIN_NS / WP_NS_PER_MS;
    const int64_t max = WP_TTL_MAX_NS / WP_NS_PER_MS;

    if (ttl_ms != 0 && (ttl_ms < min || ttl_ms > max)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "ttl_ms: 0 (the pool's default) or %" PRId64
                          " to %" PRId64 " expected, got %" PRId64,
                          min, max, ttl_ms);
    }
    return WP_OK;
}

/* The rule of wait_ms. */
static enum wp_status
check_wait(int64_t wait_ms, struct wp_err *err)
{
    return wp_wire_check_range("wait_ms", wait_ms, 0,
                               WP_WAIT_MAX_NS / WP_NS_PER_MS, err);
}

enum wp_status
wp_wire_check_terms(struct wp_str tenant, int64_t ttl_ms, int64_t wait_ms,
                    struct wp_err *err)
{
    enum wp_status status =
        wp_wire_check_text("tenant", tenant, 0, WP_TENANT_MAX, err);

    if (status == WP_OK) {
        status = wp_wire_check_ttl(ttl_ms, err);
    }
    return status == WP_OK ? check_wait(wait_ms, err) : status;
}

enum wp_status
wp_wire_check_token(const uint8_t *bytes, size_t len, uint8_t out[WP_TOKEN_LEN],
                    struct wp_err *err)
{
    if (len != WP_TOKEN_LEN) {
        return wp_err_set(
            err, WP_INVALID_ARGUMENT,
            "token: the %d bytes of a lease's token expected, got "
            "%zu",
            WP_TOKEN_LEN, len);
    }
    memcpy(out, bytes, WP_TOKEN_LEN);
    return WP_OK;
}

enum wp_status
wp_wire_copy_text(const char *field, const char *text, char *out, size_t cap,
                  struct wp_err *err)
{
    struct wp_str s = wp_str_from(text);
    enum wp_status status = wp_wire_check_text(field, s, 0, cap - 1, err);

    if (status != WP_OK) {
        return status;
    }
    memcpy(out, s.ptr, s.len);
    out[s.len] = '\0';
    return WP_OK;
}
