#include "local/manifest/quantity.h"

#include <stddef.h>

enum {
    DIGITS_MAX = 18
};

/* value = mantissa * 10^ten * 2^two. */
struct number {
    uint64_t mantissa;
    int ten;
    int two;
};

static const struct {
    const char *text;
    int ten;
    int two;
} suffixes[] = {
    {"", 0, 0},    {"n", -9, 0},  {"u", -6, 0},  {"m", -3, 0},
    {"k", 3, 0},   {"M", 6, 0},   {"G", 9, 0},   {"T", 12, 0},
    {"P", 15, 0},  {"E", 18, 0},  {"Ki", 0, 10}, {"Mi", 0, 20},
    {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60},
};

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits with at most one point; what follows is left in *rest. */
static bool
parse_digits(struct wp_str text, struct number *n, struct wp_str *rest)
{
    size_t i = text.len > 0 && text.ptr[0] == '+' ? 1 : 0;
    bool any = false;
    bool point = false;
    int digits = 0;

    for (; i < text.len; i++) {
        char c = text.ptr[i];

        if (c == '.' && !point) {
            point = true;
        } else if (is_digit(c)) {
            any = true;
            if (n->mantissa == 0 && c == '0') {
                n->ten -= point ? 1 : 0;
                continue;
            }
            if (++digits > DIGITS_MAX) {
                return false;
            }
            n->mantissa = n->mantissa * 10 + (uint64_t)(c - '0');
            n->ten -= point ? 1 : 0;
        } else {
            break;
        }
    }
    *rest = (struct wp_str){text.ptr + i, text.len - i};
    return any;
}

static bool
parse_exponent(struct wp_str rest, struct number *n)
{
    uint64_t value;
    bool minus;

    if (rest.len < 2 || (rest.ptr[0] != 'e' && rest.ptr[0] != 'E')) {
        return false;
    }
    minus = rest.ptr[1] == '-';
    rest.ptr++;
    rest.len--;
    if (rest.ptr[0] == '-' || rest.ptr[0] == '+') {
        rest.ptr++;
        rest.len--;
    }
    if (!wp_str_to_u64(rest, &value) || value > 30) {
        return false;
    }
    n->ten += minus ? -(int)value : (int)value;
    return true;
}

static bool
parse_number(struct wp_str text, struct number *n)
{
    struct wp_str rest;

    *n = (struct number){0, 0, 0};
    if (!parse_digits(text, n, &rest)) {
        return false;
    }
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (wp_str_is(rest, suffixes[i].text)) {
            n->ten += suffixes[i].ten;
            n->two += suffixes[i].two;
            return true;
        }
    }
    return parse_exponent(rest, n);
}

/* The number times 10^shift, rounded up; false above INT64_MAX. */
static bool
to_units(struct number n, int shift, uint64_t *out)
{
    __extension__ unsigned __int128 value = n.mantissa;
    bool rest = false;

    n.ten += shift;
    if (n.mantissa == 0) {
        *out = 0;
        return true;
    }
    /* At most 60 bits of digits and 60 of a binary suffix. */
    value <<= n.two;
    for (; n.ten < 0 && value > 0; n.ten++) {
        rest |= value % 10 != 0;
        value /= 10;
    }
    for (; n.ten > 0; n.ten--) {
        value *= 10;
        if (value > INT64_MAX) {
            return false;
        }
    }
    value += rest ? 1 : 0;
    if (value > INT64_MAX) {
        return false;
    }
    *out = (uint64_t)value;
    return true;
}

bool
wp_quantity_milli(struct wp_str text, uint64_t *out)
{
    struct number n;

    return parse_number(text, &n) && to_units(n, 3, out);
}

bool
wp_quantity_whole(struct wp_str text, uint64_t *out)
{
    struct number n;

    return parse_number(text, &n) && to_units(n, 0, out) &&
           *out <= UINT64_C(1) << 60;
}
