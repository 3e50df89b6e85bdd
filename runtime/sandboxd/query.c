#include "runtime/sandboxd/query.h"

#include <string.h>

bool
wp_query_find(struct wp_str query, const char *name, struct wp_str *value)
{
    size_t at = 0;

    while (at < query.len) {
        const char *start = query.ptr + at;
        const char *end = memchr(start, '&', query.len - at);
        size_t len = end != NULL ? (size_t)(end - start) : query.len - at;
        const char *equals = memchr(start, '=', len);
        size_t name_len = equals != NULL ? (size_t)(equals - start) : len;

        if (wp_str_is((struct wp_str){start, name_len}, name)) {
            *value = equals != NULL
                         ? (struct wp_str){equals + 1, len - name_len - 1}
                         : (struct wp_str){"", 0};
            return true;
        }
        at += len + 1;
    }
    return false;
}

bool
wp_query_bool(struct wp_str value, bool *out)
{
    static const char *const words[] = {
        "0", "f", "F", "false", "False", "FALSE",
        "1", "t", "T", "true",  "True",  "TRUE",
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(words); i++) {
        if (wp_str_is(value, words[i])) {
            *out = i >= WP_ARRAY_LEN(words) / 2;
            return true;
        }
    }
    return false;
}

bool
wp_query_mode(struct wp_str value, mode_t *out)
{
    mode_t mode = 0;

    if (value.len != 4 || value.ptr[0] != '0') {
        return false;
    }
    for (size_t i = 1; i < value.len; i++) {
        if (value.ptr[i] < '0' || value.ptr[i] > '7') {
            return false;
        }
        mode = mode * 8 + (mode_t)(value.ptr[i] - '0');
    }
    *out = mode;
    return true;
}

enum wp_byte_range
wp_byte_range_read(struct wp_str value, uint64_t size, uint64_t *from,
                   uint64_t *len)
{
    static const char unit[] = "bytes=";
    const char *dash;
    struct wp_str first;
    struct wp_str last;
    uint64_t a = 0;
    uint64_t b = 0;

    if (!wp_str_starts_with(value, wp_str_from(unit))) {
        return WP_RANGE_WHOLE;
    }
    value.ptr += sizeof(unit) - 1;
    value.len -= sizeof(unit) - 1;
    dash = memchr(value.ptr, '-', value.len);
    if (dash == NULL) {
        return WP_RANGE_WHOLE;
    }
    first = (struct wp_str){value.ptr, (size_t)(dash - value.ptr)};
    last = (struct wp_str){dash + 1, value.len - first.len - 1};
    if ((first.len > 0 && !wp_str_to_u64(first, &a)) ||
        (last.len > 0 && !wp_str_to_u64(last, &b)) ||
        first.len + last.len == 0 || (first.len > 0 && last.len > 0 && b < a)) {
        return WP_RANGE_WHOLE;
    }
    if (first.len == 0) { /* So many from the end. */
        if (b == 0 || size == 0) {
            return WP_RANGE_BEYOND;
        }
        *len = b < size ? b : size;
        *from = size - *len;
        return WP_RANGE_PART;
    }
    if (a >= size) {
        return WP_RANGE_BEYOND;
    }
    *from = a;
    *len = last.len > 0 && b < size - 1 ? b - a + 1 : size - a;
    return WP_RANGE_PART;
}
