#include "pool/base/str.h"

bool
wp_str_starts_with(struct wp_str s, struct wp_str prefix)
{
    return s.len >= prefix.len &&
           (prefix.len == 0 || memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct wp_str
wp_str_trim(struct wp_str s)
{
    while (s.len > 0 && is_blank(s.ptr[0])) {
        s = (struct wp_str){s.ptr + 1, s.len - 1};
    }
    while (s.len > 0 && is_blank(s.ptr[s.len - 1])) {
        s.len--;
    }
    return s;
}

bool
wp_str_cut(struct wp_str *rest, char mark, struct wp_str *head)
{
    const char *at = rest->len > 0 ? memchr(rest->ptr, mark, rest->len) : NULL;
    size_t taken = rest->len;

    *head = *rest;
    if (at != NULL) {
        head->len = (size_t)(at - rest->ptr);
        taken = head->len + 1;
    }
    if (taken > 0) {
        *rest = (struct wp_str){rest->ptr + taken, rest->len - taken};
    }
    return at != NULL;
}

bool
wp_str_word(struct wp_str *rest, struct wp_str *word)
{
    struct wp_str s = wp_str_trim(*rest);
    size_t len = 0;

    while (len < s.len && !is_blank(s.ptr[len])) {
        len++;
    }
    *word = (struct wp_str){s.ptr, len};
    if (len > 0) {
        *rest = (struct wp_str){s.ptr + len, s.len - len};
    }
    return len > 0;
}

bool
wp_str_copy(struct wp_str s, char *out, size_t cap)
{
    if (s.len >= cap || (s.len > 0 && memchr(s.ptr, '\0', s.len) != NULL)) {
        if (cap > 0) {
            out[0] = '\0';
        }
        return false;
    }
    if (s.len > 0) {
        memcpy(out, s.ptr, s.len);
    }
    out[s.len] = '\0';
    return true;
}

/* Length of the well-formed sequence at p (1..4), 0 when there is none. The
 * ranges are those of RFC 3629 table 3-7. */
static size_t
utf8_sequence_len(const unsigned char *p, size_t left)
{
    unsigned char c = p[0];
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    size_t len;

    if (c < 0x80) {
        return 1;
    }
    if (c >= 0xC2 && c <= 0xDF) {
        len = 2;
    } else if (c >= 0xE0 && c <= 0xEF) {
        len = 3;
        low = c == 0xE0 ? 0xA0 : low;
        high = c == 0xED ? 0x9F : high;
    } else if (c >= 0xF0 && c <= 0xF4) {
        len = 4;
        low = c == 0xF0 ? 0x90 : low;
        high = c == 0xF4 ? 0x8F : high;
    } else {
        return 0;
    }
    if (left < len || p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < len; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return len;
}

bool
wp_str_is_utf8(struct wp_str s)
{
    const unsigned char *p = (const unsigned char *)s.ptr;

    for (size_t i = 0; i < s.len;) {
        size_t len = utf8_sequence_len(p + i, s.len - i);

        if (len == 0 || p[i] == '\0') {
            return false;
        }
        i += len;
    }
    return true;
}

bool
wp_str_is_printable(struct wp_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];

        if (c < 0x20 || c == 0x7F) {
            return false;
        }
    }
    return wp_str_is_utf8(s);
}

size_t
wp_str_char_len(struct wp_str s)
{
    for (size_t n = 1; n <= 4 && n <= s.len; n++) {
        if (wp_str_is_utf8((struct wp_str){s.ptr, n})) {
            return n;
        }
    }
    return 0;
}

char *
wp_str_make_printable(struct wp_str s, char *out, size_t cap)
{
    size_t len = 0;

    while (s.len > 0) {
        size_t n = wp_str_char_len(s);
        bool shown = n > 0 && wp_str_is_printable((struct wp_str){s.ptr, n});

        n = shown ? n : 1;
        if (len + n >= cap) {
            break;
        }
        memcpy(out + len, shown ? s.ptr : "?", n);
        len += n;
        s.ptr += n;
        s.len -= n;
    }
    out[len] = '\0';
    return out;
}

static bool
is_lower_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool
wp_str_is_dns_name(struct wp_str s, size_t max_len)
{
    if (s.len == 0 || s.len > max_len || !is_lower_alnum(s.ptr[0]) ||
        !is_lower_alnum(s.ptr[s.len - 1])) {
        return false;
    }
    for (size_t i = 1; i < s.len; i++) {
        char c = s.ptr[i];
        bool dot = c == '.';

        if (!is_lower_alnum(c) && c != '-' && !dot) {
            return false;
        }
        /* The last one is no dot: there is one behind it. */
        if (dot &&
            (!is_lower_alnum(s.ptr[i - 1]) || !is_lower_alnum(s.ptr[i + 1]))) {
            return false;
        }
    }
    return true;
}

char *
wp_str_shown(struct wp_str s, char out[WP_STR_SHOWN_MAX])
{
    static const char more[] = "...";
    bool fits = s.len < WP_STR_SHOWN_MAX;
    size_t n = fits ? s.len : WP_STR_SHOWN_MAX - sizeof more;

    if (n > 0) {
        memcpy(out, s.ptr, n);
    }
    for (size_t i = 0; i < n; i++) {
        if (out[i] < ' ' || out[i] > '~') {
            out[i] = '?';
        }
    }
    memcpy(out + n, fits ? "" : more, fits ? 1 : sizeof more);
    return out;
}

bool
wp_str_to_u64(struct wp_str s, uint64_t *out)
{
    uint64_t value = 0;

    if (s.len == 0 || s.len > 20) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9' ||
            __builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(s.ptr[i] - '0'), &value)) {
            return false;
        }
    }
    *out = value;
    return true;
}

bool
wp_str_to_i64(struct wp_str s, int64_t *out)
{
    bool negative = s.len > 0 && s.ptr[0] == '-';
    struct wp_str digits = negative ? (struct wp_str){s.ptr + 1, s.len - 1} : s;
    uint64_t value;

    if (!wp_str_to_u64(digits, &value) ||
        value > (uint64_t)INT64_MAX + (negative ? 1 : 0)) {
        return false;
    }
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool
wp_bytes_eq_const_time(const void *a, const void *b, size_t len)
{
    const unsigned char *x = a;
    const unsigned char *y = b;
    unsigned char diff = 0;

    for (size_t i = 0; i < len; i++) {
        diff = (unsigned char)(diff | (x[i] ^ y[i]));
    }
    return diff == 0;
}

void
wp_hex_encode(const void *bytes, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = bytes;

    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * len] = '\0';
}

static int
hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

bool
wp_hex_decode(struct wp_str hex, void *out, size_t out_len)
{
    unsigned char *p = out;

    if (hex.len != 2 * out_len) {
        return false;
    }
    for (size_t i = 0; i < out_len; i++) {
        int high = hex_value(hex.ptr[2 * i]);
        int low = hex_value(hex.ptr[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        p[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}
